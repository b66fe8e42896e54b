"""The exchange of rows between tasks, in files that all of them can read.

A failed task may be started again, and a task may run twice: a file gets its name when it is complete, and has the same
content each time.
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
"""Prefix of the names of incomplete files; no reader of a folder takes these for data."""


class RowExchange(NamedTuple):
    """Numbered rows, written by each task into a file of its own, from which other tasks take the rows of a number."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> RowExchange:
        """Return an exchange in a new folder."""
        folder.mkdir(parents=True)
        return cls(folder)

    def remove(self) -> None:
        """Remove all rows."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def put(self, task: int, frame: pl.DataFrame, numbers: np.ndarray, n_numbers: int) -> None:
        """Write the rows of a task, each with its number."""
        sizes = np.zeros(n_numbers + 1, np.int64)
        with written_atomically(self._rows(task)) as unfinished, open(unfinished, "wb") as file:
            for number, some in pack_by_number(frame, numbers, n_numbers):
                sizes[number + 1] = file.write(some)
        with written_atomically(self._ends(task)) as unfinished, open(unfinished, "wb") as file:
            np.save(file, np.cumsum(sizes))

    def take(self, n_tasks: int, numbers: Sequence[int]) -> pl.DataFrame:
        """Read the rows of some numbers, written by all tasks."""
        found = [self.take_from(task, number) for task in range(n_tasks) for number in numbers]
        return pl.concat([one for one in found if one.height] or found[:1])

    def take_from(self, task: int, number: int) -> pl.DataFrame:
        """Read the rows of a number, written by one task."""
        start, end = np.load(self._ends(task), mmap_mode="r")[number : number + 2].tolist()
        if start == end:
            return pl.DataFrame()
        with open(self._rows(task), "rb") as file:
            file.seek(start)
            return unpack(file.read(end - start))

    def _rows(self, task: int) -> Path:
        return self.folder / f"{task}.rows"

    def _ends(self, task: int) -> Path:
        return self.folder / f"{task}.ends"


def pack_by_number(frame: pl.DataFrame, numbers: np.ndarray, n_numbers: int) -> Iterator[tuple[int, bytes]]:
    """Yield the packed rows of each number that has some."""
    order, starts = groups.order_by_label(numbers, n_numbers)
    ordered = frame[order]
    for number in np.flatnonzero(np.diff(starts)).tolist():
        yield number, _pack(ordered[starts[number] : starts[number + 1]])


def unpack(packed: bytes) -> pl.DataFrame:
    """Return rows that were packed."""
    return pl.read_ipc(io.BytesIO(packed))


def _pack(frame: pl.DataFrame) -> bytes:
    packed = io.BytesIO()
    # Compression makes texts much smaller; for numbers it saves little, and takes longer than all the rest.
    only_numbers = all(kind.is_numeric() for kind in frame.dtypes)
    frame.write_ipc(packed, compression="uncompressed" if only_numbers else "lz4")
    return packed.getvalue()


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed at the end, as other tasks may be writing the same file."""
    unfinished = path.with_name(f"{UNFINISHED}{path.name}-{uuid.uuid4().hex[:12]}")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
