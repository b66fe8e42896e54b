"""An engine for Parquet files whose work is done in pieces, by tasks that read the files themselves.

A :class:`TaskRunner` decides where tasks run: on the workers of Spark, or one after another in tests.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from shoal._kernels import groups
from shoal.data import enums, files, frames, parquet
from shoal.data.schema import Schema
from shoal.engines.base import (
    CHANGED,
    MOST_VALUES,
    ROWS,
    CoarseTree,
    Engine,
    LeafTally,
    SplitTest,
    read_extremes,
    require_few_values,
    values_of,
)
from shoal.engines.tasks.exchange import RowExchange
from shoal.errors import DataError
from shoal.partition.table_summary import ColumnSummary, is_plain_number

CELLS_PER_TASK = 10_000_000
"""Approximate number of values that a task works on at a time; they take up to 1 GB."""
PLAIN = (
    *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64),
    *(pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Date),
)


Pack = Callable[[Any], Iterable[tuple[int, bytes]]]
"""A function that packs an item into numbered boxes."""


class TaskRunner(Protocol):
    """An environment that runs tasks."""

    def each(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply a function to each item; the results are in the order of the items."""

    def by_box(
        self, pack: Pack, items: Sequence[Any], n_boxes: int, function: Callable[[list[bytes]], Any]
    ) -> list[Any]:
        """Pack each item into numbered boxes; then apply a function to the contents of each box."""


class Piece(NamedTuple):
    """Consecutive rows of a file."""

    number: int
    file: str
    first: int
    n_rows: int


class RowDraw(NamedTuple):
    """A random sample of rows."""

    share: float
    seed: int


class PieceReader(NamedTuple):
    """The columns that tasks read from pieces, and their treatment."""

    schema: Schema
    """Schema of the release."""
    columns: Sequence[str]
    """Attributes, and the column that guides the method, in the order of the file."""
    names: Sequence[str]
    """Columns whose texts are read as enums."""
    marks: Sequence[str] = ()
    """Texts that stand for a missing value."""
    guide: str | None = None
    """Column that guides the method."""
    words: Mapping[str, list[str]] | None = None
    """All texts of the enums, once they are known."""

    @classmethod
    def of(
        cls, types: Mapping[str, pl.DataType], schema: Schema, marks: Sequence[str] = (), guide: str | None = None
    ) -> PieceReader:
        """Return the reader of a table with these columns; identifiers are not even read."""
        released = schema.without_identifiers()
        columns = [name for name in types if name in released or name == guide]
        few = [one.name for one in (*schema.quasi, *schema.sensitive, *schema.target)]
        names = [name for name in few if types.get(name) in (pl.String, pl.Categorical, pl.Enum)]
        return cls(released, columns, names, marks, guide)

    def with_words(self, words: Mapping[str, list[str]]) -> PieceReader:
        """Return the reader that numbers these texts alike in all pieces."""
        return self._replace(names=list(words), words=words)

    def read(self, piece: Piece, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Read the rows of a piece as they are in the file."""
        columns = self.columns if columns is None else columns
        frame = parquet.read_rows(piece.file, columns, self.names, piece.first, piece.n_rows)
        if self.words is None:
            return frame
        known = frame.with_columns(
            enums.among(frame[name], dict.fromkeys(words)) for name, words in self.words.items() if name in columns
        )
        if not known.null_count().equals(frame.null_count()):
            raise DataError(CHANGED)
        return known

    def as_numbers(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows with the numbers of enums, whose texts need not be stored with them."""
        return frame.with_columns(pl.col(pl.Enum).to_physical())

    def from_numbers(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return such rows with their enums."""
        known = {} if self.words is None else self.words
        return frame.with_columns(
            enums.of_numbers(frame[name], words) for name, words in known.items() if name in frame.columns
        )

    def mark_missing(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Replace NaN and the marks for missing values by missing values, as methods need them."""
        known = [name for name in frame.columns if name in self.schema]
        floats = [name for name in known if frame.schema[name].is_float()]
        return files.mark_missing(frame, self.marks, known).with_columns(frame[name].fill_nan(None) for name in floats)


def plain_types(source: Path, needed: Collection[str] | None = None) -> dict[str, pl.DataType] | None:
    """Return the types of the columns, if all files agree and every reader and writer understands the types alike.

    Columns that are not ``needed`` may have any type.
    """
    if source.is_dir() and any(one.is_dir() or one.suffix != ".parquet" for one in source.glob("[!._]*")):
        return None
    try:
        found = [files.parquet_types(file) for file in files.parquet_files(source)]
    except DataError:
        return None
    if not found or any(list(one.items()) != list(found[0].items()) for one in found):
        return None
    types = dict(found[0])
    # Polars takes such names for patterns.
    if any(name == "*" or (name[:1] == "^" and name[-1:] == "$") for name in types):
        return None
    plain = (kind in PLAIN for name, kind in types.items() if needed is None or name in needed)
    return types if all(plain) else None


def can_compare(types: Mapping[str, pl.DataType], schema: Schema) -> bool:
    """Return True if numeric columns hold numbers or dates, not texts of them."""
    numbers = [types[one.name] for one in schema.quasi if is_plain_number(one) and one.name in types]
    return all(kind.is_numeric() or kind == pl.Date for kind in numbers)


def rows_per_task(n_columns: int) -> int:
    """Return the approximate number of rows that a task works on at a time."""
    return max(CELLS_PER_TASK // max(n_columns, 1), 1)


def pieces_of(source: Path, n_rows: int) -> list[Piece]:
    """Return the rows of a Parquet file, or of a folder of them, in pieces of about ``n_rows``."""
    found: list[Piece] = []
    for file in files.parquet_files(source):
        for first, rows in _runs_of(file, n_rows):
            found.append(Piece(len(found), str(file), first, rows))
    return found


def _runs_of(file: Path, wanted: int) -> Iterable[tuple[int, int]]:
    """Join or cut the row groups of a file until they have about the wanted number of rows."""
    sizes = parquet.row_groups(file)
    first = n_rows = 0
    for group, more in enumerate(sizes, 1):
        n_rows += more
        if n_rows < wanted and group < len(sizes):
            continue
        n_parts = max(round(n_rows / wanted), 1)
        ends = (first + np.arange(n_parts + 1) * n_rows // n_parts).tolist()
        yield from ((start, end - start) for start, end in pairwise(ends) if end > start)
        first, n_rows = first + n_rows, 0


class PieceEngine(Engine[pl.Expr]):
    """Parquet files that tasks count and sample."""

    def __init__(self, runner: TaskRunner, pieces: Sequence[Piece], reader: PieceReader, folder: Path) -> None:
        self.runner, self.pieces, self.reader = runner, pieces, reader
        self.exchange = RowExchange(folder / "rows")
        self.frequent_in_pieces = np.zeros((len(pieces), 0), np.int64)
        self._draw = RowDraw(0.0, 0)
        self._known: dict[str, ColumnSummary] | None = None
        self._drawn: list[pl.DataFrame] = []

    def count(self) -> int:
        """Return the number of all rows, which the files state."""
        return sum(piece.n_rows for piece in self.pieces)

    def extremes(self, names: Sequence[str]) -> dict[str, ColumnSummary]:
        """Find the lowest and the highest value of columns, and the missing value if there is one."""
        return {name: self._summaries[name] for name in names}

    def distinct(self, name: str, member_of: str | None = None) -> ColumnSummary:
        """Count the distinct values of a column."""
        assert member_of is None, "tables with a population are not released in pieces"
        return self._summaries[name]

    @property
    def _summaries(self) -> dict[str, ColumnSummary]:
        """Summaries of all columns, which are read once, together."""
        if self._known is None:
            found = self.runner.each(partial(_summarize, self.reader, self._draw), self.pieces)
            self._known, self._drawn = _combine(found, self.reader.schema), [one.drawn for one in found]
            self.reader = self.reader.with_words(_words_in(found, self.reader))
        return self._known

    def draw_while_summarizing(self, n_rows: int, seed: int) -> None:
        """Draw the sample that will be asked for when columns are summarized, which saves reading all rows again."""
        self._draw, self._known = self._draw_of(n_rows, seed), None

    def _draw_of(self, n_rows: int, seed: int) -> RowDraw:
        return RowDraw(min(1.0, n_rows / max(self.count(), 1)), seed)

    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """Draw about ``n_rows`` rows, in each piece independently."""
        if self._draw_of(n_rows, seed) != self._draw or self._known is None:
            self.draw_while_summarizing(n_rows, seed)
            assert self._summaries
        return frames.open_frame(pl.concat(self._drawn))

    def combinations(self, names: Sequence[str], most: int) -> pl.DataFrame:
        """Count the distinct rows of these columns."""
        found = pl.concat(self.runner.each(partial(_count_rows, self.reader, list(names), most), self.pieces))
        return found.group_by(names).agg(pl.col(ROWS).sum()).head(most + 1)

    def tally(self, tree: CoarseTree, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count the rows and sensitive values of each leaf, and put its rows into the exchange, as they are read."""
        assert member_of is None, "tables with a population are not released in pieces"
        assert self._summaries, "enums are numbered by the summaries"
        # A late task of an earlier count must not find a folder to write to.
        self.exchange.remove()
        self.exchange = RowExchange.made(self.exchange.folder.with_name(f"rows-{uuid.uuid4().hex[:12]}"))
        found = self.runner.each(partial(_sort_rows, self.reader, self.exchange, tree, list(sensitive)), self.pieces)
        in_pieces = np.stack([one[0] for one in found])
        rows, self.frequent_in_pieces = in_pieces.sum(axis=0), in_pieces[:, tree.n_tree_leaves :]
        counted = {}
        for name in sensitive:
            all_of = pl.concat([one[1][name] for one in found]).group_by("leaf", "v").agg(pl.col("n").sum())
            counted[name] = (all_of["leaf"].to_numpy(), values_of(all_of, name), all_of["n"].to_numpy())
        return LeafTally(rows, rows, counted)


# Functions that tasks run


class PieceSummary(NamedTuple):
    """The values in the columns of a piece."""

    ends: pl.DataFrame
    """For plain numbers: the lowest, the highest, and the number of missing values."""
    values: dict[str, pl.DataFrame]
    """For other attributes, and for all enums: each value and its number of rows."""
    drawn: pl.DataFrame
    """A sample of the rows."""


def _summarize(reader: PieceReader, draw: RowDraw, piece: Piece) -> PieceSummary:
    plain, others = _kinds(reader.schema)
    others += [name for name in reader.names if name not in others]
    frame = reader.mark_missing(reader.read(piece, [*plain, *others] if draw.share == 0 else reader.columns))
    drawn = np.random.default_rng([draw.seed, piece.number]).random(frame.height) < draw.share
    asked = []
    for j, name in enumerate(plain):
        value = pl.col(name)
        asked += [value.min().alias(f"low{j}"), value.max().alias(f"high{j}"), value.null_count().alias(f"none{j}")]
    values = {name: count_values(frame, name) for name in others}
    return PieceSummary(frame.select(asked), values, _as_texts(frame.filter(pl.Series(drawn, dtype=pl.Boolean))))


def count_values(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Count the distinct values ``v`` of a column in the column ``n``."""
    if isinstance(frame.schema[name], pl.Enum):
        return _count_words(frame[name])
    counted = frame.group_by(pl.col(name).alias("v")).agg(pl.len().cast(pl.Int64).alias("n"))
    return _as_texts(counted.head(MOST_VALUES + 1))


def _count_words(column: pl.Series) -> pl.DataFrame:
    counts = [*enums.count(column).tolist(), column.null_count()]
    counted = pl.DataFrame({"v": [*enums.words_of(column), None], "n": counts}, {"v": pl.String, "n": pl.Int64})
    return counted.filter(pl.col("n") > 0).head(MOST_VALUES + 1)


def add_values(found: Sequence[pl.DataFrame], name: str) -> ColumnSummary:
    """Return the summary of a column from the counts of all pieces."""
    counted = pl.concat(found).group_by("v").agg(pl.col("n").sum()).sort("v")
    require_few_values(name, counted.height)
    return ColumnSummary(values_of(counted, name), counted["n"].to_numpy().astype(np.int64))


def _kinds(schema: Schema) -> tuple[list[str], list[str]]:
    """Return the attributes that are plain numbers, and the others that must be summarized."""
    plain = [one.name for one in schema.quasi if is_plain_number(one)]
    return plain, [one.name for one in (*schema.quasi, *schema.sensitive) if one.name not in plain]


def _combine(found: Sequence[PieceSummary], schema: Schema) -> dict[str, ColumnSummary]:
    plain, others = _kinds(schema)
    every = pl.concat([one.ends for one in found])
    asked = []
    for j in range(len(plain)):
        asked += [pl.col(f"low{j}").min(), pl.col(f"high{j}").max(), pl.col(f"none{j}").sum()]
    columns = read_extremes(every.select(asked), plain) if plain else {}
    return columns | {name: add_values([one.values[name] for one in found], name) for name in others}


def _words_in(found: Sequence[PieceSummary], reader: PieceReader) -> dict[str, list[str]]:
    """Return all texts of enums and the marks for missing values; columns with too many distinct texts stay texts."""
    words = {}
    for name in reader.names:
        every = pl.concat([one.values[name]["v"] for one in found]).drop_nulls().unique()
        if len(every) <= MOST_VALUES:
            words[name] = list(dict.fromkeys([*every.sort(), *reader.marks]))
    return words


def _count_rows(reader: PieceReader, names: list[str], most: int, piece: Piece) -> pl.DataFrame:
    frame = reader.mark_missing(reader.read(piece, names))
    return _as_texts(frame.group_by(names).agg(pl.len().cast(pl.Int64).alias(ROWS)).head(most + 1))


def _sort_rows(
    reader: PieceReader, exchange: RowExchange, tree: CoarseTree, sensitive: list[str], piece: Piece
) -> tuple[np.ndarray, dict[str, pl.DataFrame]]:
    """Put the rows of a piece into the exchange by leaf, and count them and their sensitive values."""
    raw = reader.read(piece)
    if raw.height != piece.n_rows:
        raise DataError(CHANGED)
    frame = reader.mark_missing(raw)
    leaves = number_rows(frame, tree, np.arange(tree.n_leaves))
    exchange.put(piece.number, reader.as_numbers(raw), leaves, tree.n_leaves)
    counted = {}
    for name in sensitive:
        rows = pl.len().cast(pl.Int64).alias("n")
        numbered = pl.DataFrame([pl.Series("leaf", leaves), frame[name].alias("v")])
        counted[name] = _as_texts(numbered.group_by("leaf", "v").agg(rows))
    return np.bincount(leaves, minlength=tree.n_leaves), counted


def _as_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return enums, which each piece numbers differently, as texts."""
    return frame.with_columns(pl.col(pl.Enum).cast(pl.String))


# The path of a row through a tree


def number_rows(frame: pl.DataFrame, tree: CoarseTree, number_of_leaf: np.ndarray) -> np.ndarray:
    """Give each row the number of its leaf.

    Rows are split node by node, so the time grows with the depth of the tree instead of its leaves.
    """
    tested = dict.fromkeys(test.attribute for test in tree.tests if test)
    columns = {name: _TestedColumn.of(frame[name]) for name in tested}
    numbers = np.empty(frame.height, np.int32)
    waiting = [(0, np.arange(frame.height, dtype=np.uint32))]
    while waiting:
        node, rows = waiting.pop()
        test = tree.tests[node]
        if test is None:
            numbers[rows] = number_of_leaf[tree.right[node]]
        elif len(rows):
            left, right = groups.part_rows(rows, columns[test.attribute].passes(rows, test))
            waiting += [(tree.left[node], left), (tree.right[node], right)]
    for i, values in enumerate(tree.frequent):
        numbers[_have_values(frame, values)] = number_of_leaf[tree.n_tree_leaves + i]
    return numbers


class _TestedColumn(NamedTuple):
    """A column that many nodes test."""

    column: pl.Series
    numbers: np.ndarray | None
    """Numbers of an enum; a missing value has the last one."""

    @classmethod
    def of(cls, column: pl.Series) -> _TestedColumn:
        if not isinstance(column.dtype, pl.Enum):
            return cls(column, None)
        numbers = column.to_physical().cast(pl.UInt32).fill_null(len(enums.words_of(column)))
        return cls(column, numbers.to_numpy())

    def passes(self, rows: np.ndarray, test: SplitTest) -> np.ndarray:
        if self.numbers is None or test.values is None:
            return _passes(self.column.gather(rows), test)
        values = set(test.values)
        passed = np.array([*(word in values for word in enums.words_of(self.column)), test.missing])
        return passed[self.numbers[rows]]


def _passes(column: pl.Series, test: SplitTest) -> np.ndarray:
    value = pl.col(column.name)
    if test.values is not None:
        passed = value.is_in(list(test.values))
    else:
        passed = value.is_not_null()
        passed = passed if test.low is None else passed & (value >= pl.lit(test.low))
        passed = passed if test.high is None else passed & (value <= pl.lit(test.high))
    found = column.to_frame().select(pl.when(value.is_null()).then(pl.lit(test.missing)).otherwise(passed).alias("v"))
    return found["v"].to_numpy()


def _have_values(frame: pl.DataFrame, values: Mapping[str, Any]) -> np.ndarray:
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value)) for name, value in values.items())
    return frame.select(same.alias("v"))["v"].to_numpy()
