"""The release of Parquet files by tasks that read and write the files themselves, wherever they run.

Some tasks sort the rows of a piece of the table, and others release a fragment each; they exchange rows in files beside
the release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from sklearn.base import clone

from shoal.anonymizers import Anonymizer
from shoal.data import parquet
from shoal.data.schema import Schema
from shoal.engines.base import CHANGED, NO_ROWS, StagedRelease
from shoal.engines.fragments import Fragmentation, fragment, sample_size
from shoal.engines.partial_release import (
    PartialLoss,
    add_losses,
    as_written,
    left_out,
    no_loss,
    release_fragment,
)
from shoal.engines.tasks.checking import check_pieces
from shoal.engines.tasks.engine import Piece, PieceEngine, PieceReader, TaskRunner, pieces_of, plain_types
from shoal.engines.tasks.exchange import UNFINISHED, RowExchange, written_atomically
from shoal.errors import DataError
from shoal.partition.losses import Loss
from shoal.partition.recoding import recodings_that_publish
from shoal.privacy.checking import Checked, Judge
from shoal.privacy.models import PrivacyModel


class StagedPieces(NamedTuple):
    """A folder of files that tasks have released, but that does not have its final name yet."""

    runner: TaskRunner
    schema: Schema
    parts: list[PartialLoss]
    """The loss of each fragment."""
    parameters: Mapping[str, Any]
    n_rows: int
    names: list[str]
    """Columns of the files."""
    pieces: list[Piece]
    reader: PieceReader
    findings: Mapping[str, Any] = {}

    @property
    def loss(self) -> Loss:
        """Loss of all fragments."""
        return add_losses(self.parts)

    @property
    def suppressed(self) -> int:
        """Number of suppressed rows."""
        return sum(part.sizes.n_suppressed for part in self.parts)

    def measure(self, constraints: Sequence[PrivacyModel]) -> Checked:
        """Measure every privacy model on the files, from their values alone."""
        if sum(piece.n_rows for piece in self.pieces) != self.n_rows:
            raise DataError(CHANGED)
        return check_pieces(self.runner, self.pieces, self.reader, Judge(self.schema, constraints, self.names))

    def members_only(self, member_of: str) -> StagedRelease:
        """Refuse: tables with a population are not released in pieces."""
        raise AssertionError(f"{member_of!r} marks rows of a population, which tasks cannot distinguish from others")


def release_pieces(
    engine: PieceEngine, method: Anonymizer, place: Path, *, rows_per_fragment: int, seed: int = 0
) -> StagedPieces:
    """Release files into a folder.

    Parameters
    ----------
    engine : PieceEngine
    method : Anonymizer
    place : path
        Folder to create, which every task can write to.
    rows_per_fragment : int
    seed : int
        Seed of the sample.
    """
    if engine.count() == 0:
        raise DataError(NO_ROWS)
    engine.draw_while_summarizing(sample_size(engine.count(), rows_per_fragment), seed)
    assert method.schema is not None
    schema = engine.reader.schema
    cut = fragment(engine, _for_tasks(method, schema), rows_per_fragment, seed, engine.reader.guide)
    tasks = Tasks(cut, engine.reader, len(engine.pieces), engine.exchange, place)
    place.mkdir()
    chosen: list[tuple[int, int | None]] = [(number, None) for number in range(cut.n_cut) if cut.rows[number]]
    # The rows of a frequent combination may be too many for one task: each task passes on those of a piece.
    chosen += [(cut.n_cut + int(i), int(piece)) for piece, i in np.argwhere(engine.frequent_in_pieces)]
    # The largest fragments first, so that no large one runs alone at the end.
    chosen.sort(key=lambda one: -cut.rows[one[0]])
    released: list[PartialLoss | None] = engine.runner.each(tasks.release, list(enumerate(chosen)))
    _remove_strays(place)
    parts = [part for part in released if part is not None]
    parts += [no_loss(schema, int(n)) for n in cut.released[cut.n_cut :]]
    types = plain_types(place)
    assert types is not None, "all files of a release have the same columns"
    written = pieces_of(place, max(piece.n_rows for piece in engine.pieces))
    return StagedPieces(
        runner=engine.runner,
        schema=method.schema,
        parts=parts,
        parameters={"fragments": len(cut.rows)},
        n_rows=cut.n_rows,
        names=list(types),
        pieces=written,
        reader=PieceReader.of(types, schema),
    )


class Tasks(NamedTuple):
    """Functions that tasks run on the rows of a fragment."""

    cut: Fragmentation
    reader: PieceReader
    n_pieces: int
    rows: RowExchange
    """Rows by leaf."""
    place: Path

    def release(self, task: tuple[int, tuple[int, int | None]]) -> PartialLoss | None:
        """Release a fragment and return its loss, or pass on the rows of a frequent combination in a piece."""
        number, (fragment, piece) = task
        if piece is None:
            frame, part = self._release_fragment(fragment)
        else:
            frame, part = self._pass_on(fragment, piece), None
        with written_atomically(self.place / f"part-{number:05}.parquet") as unfinished:
            parquet.write_texts(frame, unfinished)
        return part

    def _release_fragment(self, fragment: int) -> tuple[pl.DataFrame, PartialLoss]:
        leaves = np.flatnonzero(self.cut.fragment_of_leaf == fragment)
        raw = self.reader.from_numbers(self.rows.take(self.n_pieces, leaves.tolist()))
        if raw.height != self.cut.rows[fragment]:
            raise DataError(CHANGED)
        if self.cut.method.recoding not in recodings_that_publish("texts"):
            # Suppressed rows have a mark in columns of texts, which enums lack, and missing values in others.
            raw = raw.with_columns(pl.col(pl.Enum).cast(pl.String))
        guide, marks = self.reader.guide, self.reader.marks
        return release_fragment(self.cut, raw, fragment, guide, marks, checked_later=True, as_names=True)

    def _pass_on(self, fragment: int, piece: int) -> pl.DataFrame:
        """Return rows of a frequent combination; equal values in several notations are written in one."""
        number, schema = fragment - self.cut.n_cut, self.reader.schema
        raw = self.rows.take_from(piece, self.cut.tree.n_tree_leaves + number)
        raw = self.reader.from_numbers(raw).drop(left_out(self.reader.guide, schema))
        values = self.cut.tree.frequent[number]
        alike = raw.with_columns(pl.lit(value, raw.schema[name]).alias(name) for name, value in values.items())
        recoding, dates = self.cut.method.recoding, self.cut.summary.dates
        return as_written(alike, raw, schema, recoding, self.reader.marks, dates, as_names=True)


def _for_tasks(method: Anonymizer, schema: Schema) -> Anonymizer:
    """Return the method for rows without identifiers, on the one core that a task has."""
    one_core = {"n_jobs": 1} if "n_jobs" in method.get_params() else {}
    return clone(method).set_params(schema=schema, **one_core)


def _remove_strays(place: Path) -> None:
    """Remove incomplete files of tasks that were killed."""
    for stray in place.glob(f"{UNFINISHED}*"):
        stray.unlink(missing_ok=True)
