"""Time and memory, best or median of several runs, and a table of the results."""

from __future__ import annotations

import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def seconds(function: Callable[[], Any], repeats: int = 3, *, cpu: bool = False) -> float:
    """Median time of several runs; of the process's CPU where ``cpu``."""
    clock = time.process_time if cpu else time.perf_counter
    runs = []
    for _ in range(repeats):
        start = clock()
        function()
        runs.append(clock() - start)
    return statistics.median(runs)


def in_turn(functions: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Best CPU time of each, the functions run in turn: what slows the machine for a while slows them all."""
    runs = [[seconds(function, 1, cpu=True) for function in functions] for _ in range(repeats)]
    return [min(times) for times in zip(*runs, strict=True)]


def peak_memory(function: Callable[[], Any]) -> int:
    """Bytes that a call needs at its peak beyond what was in use before (Linux; 0 elsewhere)."""
    reset = Path("/proc/self/clear_refs")
    if sys.platform != "linux" or not reset.exists():
        function()
        return 0
    reset.write_text("5")
    before = _status("VmRSS")
    function()
    return _status("VmHWM") - before


def peak_arrays(function: Callable[[], Any]) -> int:
    """Bytes of arrays and objects at the peak of a call: exact also where a small table drowns in what is resident.

    What is allocated outside Python's and NumPy's reach, such as inside polars, is not counted.
    """
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def show(title: str, header: list[str], rows: list[list[Any]]) -> None:
    """Print a table."""
    cells = [
        header,
        *(
            [f"{c:,.3g}" if isinstance(c, float) else f"{c:,}" if isinstance(c, int) else c for c in row]
            for row in rows
        ),
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}\n")
    for i, row in enumerate(cells):
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
        if i == 0:
            print("  " + "  ".join("-" * width for width in widths))
    sys.stdout.flush()
