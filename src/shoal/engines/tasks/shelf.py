"""Rows that tasks leave for each other, in files that all of them can read.

A task that fails may be started again, or twice: what it leaves gets its name when it is whole, and is the same each
time.
"""

from __future__ import annotations

import io
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from shoal._kernels import groups

UNFINISHED = "_unfinished-"
"""How names of files begin that are not whole yet; no reader of a folder takes these for data."""


class RowExchange(NamedTuple):
    """Rows that tasks leave by number, each task in a file of its own, for others to take those of a number."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> RowExchange:
        """One in a new folder."""
        folder.mkdir(parents=True)
        return cls(folder)

    def remove(self) -> None:
        """Remove all rows."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def put(self, task: int, frame: pl.DataFrame, numbers: np.ndarray, n_numbers: int) -> None:
        """Leave rows, each under its number."""
        sizes = np.zeros(n_numbers + 1, np.int64)
        with written_whole(self._rows(task)) as unfinished, open(unfinished, "wb") as file:
            for number, some in sorted_out(frame, numbers, n_numbers):
                sizes[number + 1] = file.write(some)
        with written_whole(self._ends(task)) as unfinished, open(unfinished, "wb") as file:
            np.save(file, np.cumsum(sizes))

    def take(self, n_tasks: int, numbers: Sequence[int]) -> pl.DataFrame:
        """The rows that all tasks have left under some numbers."""
        found = [self.take_from(task, number) for task in range(n_tasks) for number in numbers]
        return pl.concat([one for one in found if one.height] or found[:1])

    def take_from(self, task: int, number: int) -> pl.DataFrame:
        """The rows that one task has left under a number."""
        start, end = np.load(self._ends(task), mmap_mode="r")[number : number + 2].tolist()
        if start == end:
            return pl.DataFrame()
        with open(self._rows(task), "rb") as file:
            file.seek(start)
            return unpacked(file.read(end - start))

    def _rows(self, task: int) -> Path:
        return self.folder / f"{task}.rows"

    def _ends(self, task: int) -> Path:
        return self.folder / f"{task}.ends"


def sorted_out(frame: pl.DataFrame, numbers: np.ndarray, n_numbers: int) -> Iterator[tuple[int, bytes]]:
    """The rows of each number that has some, packed."""
    order, starts = groups.order_by_label(numbers, n_numbers)
    ordered = frame[order]
    for number in np.flatnonzero(np.diff(starts)).tolist():
        yield number, _packed(ordered[starts[number] : starts[number + 1]])


def unpacked(packed: bytes) -> pl.DataFrame:
    """Rows that were packed."""
    return pl.read_ipc(io.BytesIO(packed))


def _packed(frame: pl.DataFrame) -> bytes:
    packed = io.BytesIO()
    # Texts become far smaller; with numbers it would take longer than all else, and bring little.
    only_numbers = all(kind.is_numeric() for kind in frame.dtypes)
    frame.write_ipc(packed, compression="uncompressed" if only_numbers else "lz4")
    return packed.getvalue()


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Where to write a file that gets its name when it is whole, as others may be writing the same."""
    unfinished = path.with_name(f"{UNFINISHED}{path.name}-{uuid.uuid4().hex[:12]}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
