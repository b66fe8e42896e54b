"""How long the command line takes to start, and whether kernels are compiled again in a second process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import seconds, show

SHOAL = [sys.executable, "-m", "shoal"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fresh = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder) / "cache")}
        demo = [*SHOAL, "demo", "--rows", "2000", "--out", folder]
        rows = [
            ["shoal --help", seconds(lambda: run([*SHOAL, "--help"]), 5)],
            ["shoal demo, kernels compiled", seconds(lambda: run(demo, fresh), 1)],
            ["shoal demo, kernels from the cache", seconds(lambda: run(demo, fresh), 3)],
        ]
    show("Starting, wall seconds", ["command", "seconds"], rows)


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, env=environment, check=True, capture_output=True)


if __name__ == "__main__":
    main()
