"""Compile kernels in separate processes, while this one reads rows and trains models.

Numba caches compiled kernels on disk, so only the first run benefits: it takes a third less time. Threads would not
help, because numba compiles one function at a time and holds the GIL.
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
"""Groups of kernels, each compiled by one process, and the kernel whose cache file shows that the group is compiled."""

_running: dict[str, subprocess.Popen[bytes]] = {}


def compile_ahead(*parts: str, guarded: bool = False) -> None:
    """Start compiling these groups of kernels, unless they are cached or there is only one core.

    ``guarded`` compiles them for constraints other than the size of a group.
    """
    if (os.cpu_count() or 1) < 2:
        return
    for part in parts:
        if part not in _running and not _is_compiled(part):
            command = [sys.executable, "-m", "shoal.jobs.warm_up", part, *(["guarded"] if guarded else [])]
            _running[part] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            atexit.register(_running[part].kill)


def wait(*parts: str) -> None:
    """Wait until these groups are compiled, if this was started; after a failure, a kernel is compiled when called.

    Several threads may wait at the same time.
    """
    for part in parts:
        if part in _running:
            _running[part].wait()


def _is_compiled(part: str) -> bool:
    from shoal._kernels.groups import look_up

    folder = Path(look_up.stats.cache_path or os.devnull)  # type: ignore[attr-defined]
    return any(folder.glob(f"{REHEARSALS[part]}-*.nbi"))
