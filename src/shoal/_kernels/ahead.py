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

REHEARSALS = {
    "trees": "tree.grow",
    "cuts": "tree.grow",
    "questions": "sangreea.grow_one",
    "clusters": "sangreea.grow_all",
}
"""What one process each compiles, and a kernel that tells whether that was done before."""

_running: dict[str, subprocess.Popen[bytes]] = {}


def compile_ahead(*parts: str, guarded: bool = False) -> None:
    """Begin to compile these parts, unless they are on disk or there is only one core.

    ``guarded``: for constraints beside the size of a group.
    """
    if (os.cpu_count() or 1) < 2:
        return
    for part in parts:
        if part not in _running and not _is_compiled(part):
            command = [sys.executable, "-m", "shoal.jobs.warm_up", part, *(["guarded"] if guarded else [])]
            _running[part] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            atexit.register(_running[part].kill)


def wait(*parts: str) -> None:
    """Wait until these parts are compiled, where that was begun. Should it have failed, it is done when it is called.

    Threads may wait together.
    """
    for part in parts:
        if part in _running:
            _running[part].wait()


def _is_compiled(part: str) -> bool:
    from shoal._kernels.groups import look_up

    folder = Path(look_up.stats.cache_path or os.devnull)  # type: ignore[attr-defined]
    return any(folder.glob(f"{REHEARSALS[part]}-*.nbi"))
