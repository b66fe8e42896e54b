"""Compile kernels in processes of their own, while this one reads rows and trains models.

Numba keeps what is compiled on disk, so this matters for the first run alone: there it saves a third of the time.
Threads would not do, because numba compiles one function at a time and holds the GIL.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from pathlib import Path

REHEARSALS = "trees", "cuts"
"""What is compiled by one process each: about as much work."""

_running: list[subprocess.Popen[bytes]] = []


def compile_ahead(*, guarded: bool) -> None:
    """Begin to compile what an accuracy-guided release needs, unless it is on disk or there is only one core.

    ``guarded``: for constraints beside the size of a group.
    """
    if _running or (os.cpu_count() or 1) < 2 or _is_compiled():
        return
    for part in REHEARSALS:
        command = [sys.executable, "-m", "shoal._rehearsal", part, *(["guarded"] if guarded else [])]
        _running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    atexit.register(_stop)


def wait() -> None:
    """Wait until what was begun is compiled. Should that have failed, it is compiled when it is called."""
    while _running:
        _running.pop().wait()


def _is_compiled() -> bool:
    from shoal._kernels.tree import grow

    folder = Path(grow.stats.cache_path or os.devnull)  # type: ignore[attr-defined]
    return any(folder.glob("tree.grow-*.nbi"))


def _stop() -> None:
    for process in _running:
        process.kill()
