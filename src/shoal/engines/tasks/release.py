"""Parquet files released by tasks that read and write files themselves, wherever these are run.

Tasks sort the rows of a piece of the table, and others release a fragment each: what one task leaves for another is in
files beside the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from sklearn.base import clone

from shoal.anonymizers import Anonymizer
from shoal.data import files, frames, parquet
from shoal.data.schema import Schema
from shoal.engines.base import NO_ROWS
from shoal.engines.fragments import Fragmentation, fragment, sample_size
from shoal.engines.partial_release import PartialRelease, as_written, column_reader, left_out, part_alike, release_part
from shoal.engines.tasks.checking import check_pieces
from shoal.engines.tasks.engine import CHANGED, Piece, PieceEngine, PieceReader, TaskRunner, pieces_of, plain_types
from shoal.engines.tasks.shelf import UNFINISHED, RowExchange, written_whole
from shoal.errors import DataError
from shoal.partition.recoding import recodings_that_publish
from shoal.privacy.checking import Checked, Judge
from shoal.privacy.models import PrivacyModel


class StagedPieces(NamedTuple):
    """A folder of released files, and the loss of each fragment."""

    parts: list[PartialRelease]
    n_fragments: int
    n_rows: int
    names: list[str]
    """Columns of the files."""
    pieces: list[Piece]
    reader: PieceReader

    def measure(self, runner: TaskRunner, schema: Schema, constraints: Sequence[PrivacyModel]) -> Checked:
        """Measure every privacy model on the files, by nothing but their values."""
        if sum(piece.n_rows for piece in self.pieces) != self.n_rows:
            raise DataError(CHANGED)
        return check_pieces(runner, self.pieces, self.reader, Judge(schema, constraints, self.names))


def release_pieces(
    engine: PieceEngine,
    method: Anonymizer,
    place: Path,
    *,
    rows_per_fragment: int,
    seed: int = 0,
) -> StagedPieces:
    """Release files into a folder.

    Parameters
    ----------
    engine : PieceEngine
    method : Anonymizer
    place : path
        Folder to make, which every task can write to.
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
    tasks = Tasks(cut, engine.reading, len(engine.pieces), engine.shelf, place)
    place.mkdir()
    n_cut, alike = tasks.n_cut, engine.alike_in_pieces
    chosen: list[tuple[int, int | None]] = [(number, None) for number in range(n_cut) if cut.rows[number]]
    # Rows that are all alike may be too many for one task: each passes on those of a piece.
    chosen += [(n_cut + int(i), int(piece)) for piece, i in np.argwhere(alike)]
    # The largest first, so that none is left over when all others are done.
    chosen.sort(key=lambda one: -cut.rows[one[0]])
    released: list[PartialRelease | None] = engine.crew.each(tasks.release, list(enumerate(chosen)))
    _remove_strays(place)
    parts = [part for part in released if part is not None]
    parts += [part_alike(schema, int(n)) for n in cut.released[n_cut:]]
    types = plain_types(place)
    assert types is not None, "all files of a release have the same columns"
    written = pieces_of(place, max(piece.n_rows for piece in engine.pieces))
    return StagedPieces(parts, len(cut.rows), cut.n_rows, list(types), written, PieceReader.of(types, schema))


class Tasks(NamedTuple):
    """What is done with the rows of a fragment."""

    cut: Fragmentation
    reading: PieceReader
    n_pieces: int
    rows: RowExchange
    """Rows by leaf."""
    place: Path

    @property
    def hidden(self) -> list[str]:
        """Columns that are not released."""
        return left_out(self.reading.guide, self.reading.schema)

    @property
    def n_cut(self) -> int:
        """Fragments that are released by the method; those of rows that are all alike come behind them."""
        return len(self.cut.rows) - self.cut.n_alike

    def release(self, task: tuple[int, tuple[int, int | None]]) -> PartialRelease | None:
        """Release a fragment, or of one whose rows are all alike those of a piece; tells what is lost, if anything."""
        number, (fragment, piece) = task
        if piece is None:
            part, frame = self._release_fragment(fragment)
        else:
            part, frame = None, self._pass_on(fragment, piece)
        with written_whole(self.place / f"part-{number:05}.parquet") as unfinished:
            parquet.write_texts(frame, unfinished)
        return part

    def _release_fragment(self, fragment: int) -> tuple[PartialRelease, pl.DataFrame]:
        leaves = np.flatnonzero(self.cut.fragment_of_leaf == fragment)
        raw = self.reading.from_numbers(self.rows.take(self.n_pieces, leaves.tolist()))
        if raw.height != self.cut.rows[fragment]:
            raise DataError(CHANGED)
        method, whole = self.cut.method, self.cut.whole
        read_guide = column_reader(self.reading.guide)
        guide = None if read_guide is None else read_guide(frames.open_frame(raw))
        raw = raw.drop(self.hidden)
        if method.recoding not in recodings_that_publish("texts"):
            # A suppressed row has a mark in columns of texts, and nothing in others.
            raw = raw.with_columns(pl.col(pl.Enum).cast(pl.String))
        seen = files.mark_missing(raw, self.reading.marks, self.reading.schema.names)
        part = release_part(method, seen, whole, guide, fragment, checked_later=True, as_names=True)
        return part._replace(frame=None), as_written(
            part.frame, raw, self.reading.schema, method.recoding, self.reading.marks, whole.dates, as_names=True
        )

    def _pass_on(self, fragment: int, piece: int) -> pl.DataFrame:
        """Rows that are all alike, as they are; those that mean the same in several ways are written in one."""
        number = fragment - self.n_cut
        raw = self.rows.take_from(piece, self.cut.crown.n_of_tree + number)
        raw = self.reading.from_numbers(raw).drop(self.hidden)
        values = self.cut.crown.alike[number]
        alike = raw.with_columns(pl.lit(value, raw.schema[name]).alias(name) for name, value in values.items())
        return as_written(
            alike,
            raw,
            self.reading.schema,
            self.cut.method.recoding,
            self.reading.marks,
            self.cut.whole.dates,
            as_names=True,
        )


def _for_tasks(method: Anonymizer, schema: Schema) -> Anonymizer:
    """The same method for rows without identifiers, on the one core that a task has."""
    one_core = {"n_jobs": 1} if "n_jobs" in method.get_params() else {}
    return clone(method).set_params(schema=schema, **one_core)


def _remove_strays(place: Path) -> None:
    """Remove what tasks left that were killed."""
    for stray in place.glob(f"{UNFINISHED}*"):
        stray.unlink(missing_ok=True)
