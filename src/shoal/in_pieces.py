"""Parquet files released by tasks that read and write files themselves, wherever these are run.

Tasks sort the rows of a piece of the table, others release a fragment each, and others again check groups: what one
task leaves for another is in files beside the release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from sklearn.base import clone

from shoal import files, frames
from shoal._piece_engine import CHANGED, PieceEngine, Reading, add_values, count_values
from shoal._shelf import UNFINISHED, Shelf, written_whole
from shoal.anonymizers import Anonymizer
from shoal.engines import NO_ROWS, ROWS, code_values
from shoal.errors import DataError
from shoal.fragments import Fragmentation, fragment, sample_size
from shoal.partition import count_groups
from shoal.parts import Part, as_written, column_reader, left_out, part_alike, release_part
from shoal.privacy import PrivacyModel
from shoal.recoding import TEXT_RECODINGS
from shoal.release import Checked, Judge, Look
from shoal.schema import Schema
from shoal.table import Column, encode_like

ROWS_A_BOX = 2_000_000
"""Released rows whose groups are checked by one task, about."""


class ReleasedPieces(NamedTuple):
    """What became of a table."""

    checked: Checked
    parts: list[Part]
    n_fragments: int


def release_pieces(
    engine: PieceEngine,
    method: Anonymizer,
    constraints: Sequence[PrivacyModel],
    place: Path,
    scratch: Path,
    *,
    rows_per_fragment: int,
    seed: int = 0,
) -> ReleasedPieces:
    """Release files into a folder, and measure what was written there.

    Parameters
    ----------
    engine : PieceEngine
    method : Anonymizer
    constraints : sequence of privacy models
        All that is measured.
    place, scratch : path
        Folders that every task can write to, for the release and for groups that are to be checked.
    rows_per_fragment : int
    seed : int
        Of the sample.
    """
    if engine.count() == 0:
        raise DataError(NO_ROWS)
    engine.draw_while_looking(sample_size(engine.count(), rows_per_fragment), seed)
    schema = engine.reading.schema
    guide = column_reader(engine.reading.guide)
    cut = fragment(engine, _for_tasks(method, schema), rows_per_fragment, seed, guide)
    tasks = Tasks(cut, engine.reading, len(engine.pieces), engine.shelf, Shelf.made(scratch), place)
    place.mkdir()
    n_cut, alike = tasks.n_cut, engine.alike_in_pieces
    chosen: list[tuple[int, int | None]] = [(number, None) for number in range(n_cut) if cut.rows[number]]
    # Rows that are all alike may be too many for one task: each passes on those of a piece.
    chosen += [(n_cut + int(i), int(piece)) for piece, i in np.argwhere(alike)]
    # The largest first, so that none is left over when all others are done.
    chosen.sort(key=lambda one: -cut.rows[one[0]])
    released: list[Written] = engine.run(tasks.release, list(enumerate(chosen)))
    if sum(one.n_rows for one in released) != cut.n_rows:
        raise DataError(CHANGED)
    _remove_strays(place)
    judge = Judge(schema, constraints, [name for name in engine.reading.columns if name not in tasks.hidden])
    found = {one: add_values([some.sensitive[one.name] for some in released], one.name) for one in schema.sensitive}
    columns = [code_values(seen, one)[0] for one, seen in found.items()]
    for look in engine.run(partial(_judge, judge, columns, tasks, len(released)), range(tasks.n_boxes)):
        if look is not None:
            judge.add(look)
    parts = [one.part for one in released if one.part is not None]
    parts += [part_alike(schema, int(n)) for n in cut.released[n_cut:]]
    return ReleasedPieces(judge.result(), parts, len(cut.rows))


class Written(NamedTuple):
    """What a task has written."""

    n_rows: int
    part: Part | None
    """What it loses, unless that is known."""
    sensitive: dict[str, pl.DataFrame]
    """How many rows have which value."""


class Tasks(NamedTuple):
    """What is done with the rows of a piece, of a fragment, and of a box of groups."""

    cut: Fragmentation
    reading: Reading
    n_pieces: int
    rows: Shelf
    """Rows by leaf."""
    groups: Shelf
    """Groups of released rows, by a number that is made of what they have in common."""
    place: Path

    @property
    def hidden(self) -> list[str]:
        """Columns that are not released."""
        return left_out(self.reading.guide, self.reading.schema)

    @property
    def n_boxes(self) -> int:
        """How many boxes there are for groups."""
        return math.ceil(self.cut.n_rows / ROWS_A_BOX)

    @property
    def n_cut(self) -> int:
        """Fragments that are released by the method; those of rows that are all alike come behind them."""
        return len(self.cut.rows) - self.cut.n_alike

    def release(self, task: tuple[int, tuple[int, int | None]]) -> Written:
        """Release a fragment, or of one whose rows are all alike those of a piece; leave its groups to be checked."""
        number, (fragment, piece) = task
        out = self.place / f"part-{number:05}.parquet"
        if piece is None:
            part, frame = self._release_fragment(fragment)
        else:
            part, frame = None, self._pass_on(fragment, piece)
        with written_whole(out) as unfinished:
            files.write_texts(frame, unfinished)
        # What counts is what was written.
        quasi, sensitive = _names_in(self.reading.schema)
        texts = [name for name, kind in pl.read_parquet_schema(out).items() if kind == pl.String]
        written = self._as_judged(files.read_rows(out, [*quasi, *sensitive], texts))
        # Names are numbered otherwise in each file; groups are to be found by what is written.
        counted = _count_alike(written, [*quasi, *sensitive]).with_columns(pl.col(pl.Enum).cast(pl.Categorical))
        boxes = counted.select((pl.struct(quasi).hash(0) % self.n_boxes).cast(pl.Int32).alias("box"))["box"]
        self.groups.put(number, counted, boxes.to_numpy(), self.n_boxes)
        return Written(written.height, part, {name: count_values(counted, name, ROWS) for name in sensitive})

    def _release_fragment(self, fragment: int) -> tuple[Part, pl.DataFrame]:
        leaves = np.flatnonzero(self.cut.fragment_of_leaf == fragment)
        raw = self.reading.from_numbers(self.rows.take(self.n_pieces, leaves.tolist()))
        if raw.height != self.cut.rows[fragment]:
            raise DataError(CHANGED)
        method, whole = self.cut.method, self.cut.whole
        read_guide = column_reader(self.reading.guide)
        guide = None if read_guide is None else read_guide(frames.open_frame(raw))
        raw = raw.drop(self.hidden)
        if method.recoding not in TEXT_RECODINGS:
            # A suppressed row has a mark in columns of texts, and nothing in others.
            raw = raw.with_columns(pl.col(pl.Enum).cast(pl.String))
        seen = files.mark_missing(raw, self.reading.marks, [*whole.quasi, *whole.sensitive])
        part = release_part(method, seen, whole, guide, fragment, checked_later=True, as_names=True)
        return part._replace(frame=None), as_written(part.frame, raw, method, whole.dates, as_names=True)

    def _pass_on(self, fragment: int, piece: int) -> pl.DataFrame:
        """Rows that are all alike, as they are; those that mean the same in several ways are written in one."""
        number = fragment - self.n_cut
        raw = self.rows.take_from(piece, self.cut.crown.n_of_tree + number)
        raw = self.reading.from_numbers(raw).drop(self.hidden)
        values = self.cut.crown.alike[number]
        alike = raw.with_columns(pl.lit(value, raw.schema[name]).alias(name) for name, value in values.items())
        return as_written(alike, raw, self.cut.method, self.cut.whole.dates, as_names=True)

    def _as_judged(self, written: pl.DataFrame) -> pl.DataFrame:
        """Released rows as a check sees them: without marks, for these were taken before."""
        return self.reading._replace(marks=()).as_seen(written)


def _judge(judge: Judge, columns: Sequence[Column], tasks: Tasks, n_tasks: int, box: int) -> Look | None:
    """Measure the groups of a box, to which every task may have added rows."""
    entries = tasks.groups.take(n_tasks, [box])
    if entries.is_empty():
        return None
    quasi, _ = _names_in(tasks.reading.schema)
    opened = frames.open_frame(entries)
    labels = frames.group_rows(opened, quasi)
    coded = [replace(column, codes=encode_like(opened[column.name], column)) for column in columns]
    return judge.measure(count_groups(labels, coded, None, entries[ROWS].to_numpy()))


def _count_alike(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Every different row, and how many there are: as ``group_by`` does, in half the time where values are texts."""
    labels = frames.group_rows(frames.open_frame(frame), names)
    rows = np.bincount(labels)
    firsts = np.empty(len(rows), np.int64)
    firsts[labels[::-1]] = np.arange(len(labels))[::-1]
    return frame[firsts].with_columns(pl.Series(ROWS, rows))


def _for_tasks(method: Anonymizer, schema: Schema) -> Anonymizer:
    """The same method for rows without identifiers, on the one core that a task has."""
    one_core = {"n_jobs": 1} if "n_jobs" in method.get_params() else {}
    return clone(method).set_params(schema=schema, **one_core)


def _names_in(schema: Schema) -> tuple[list[str], list[str]]:
    return [one.name for one in schema.quasi], [one.name for one in schema.sensitive]


def _remove_strays(place: Path) -> None:
    """Remove what tasks left that were killed."""
    for stray in place.glob(f"{UNFINISHED}*"):
        stray.unlink(missing_ok=True)
