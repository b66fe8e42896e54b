"""Parquet files as an engine whose work is done in pieces, by tasks that read the files themselves.

Who runs the tasks, and where, is not known here: Spark does on its workers, tests do it one after the other.
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
    MOST_VALUES,
    ROWS,
    CoarseTree,
    Engine,
    LeafTally,
    SplitTest,
    ends_of,
    require_few_values,
    values_of,
)
from shoal.engines.tasks.shelf import RowExchange
from shoal.errors import DataError
from shoal.partition.table_summary import ColumnSummary, is_plain_number

CELLS_A_TASK = 10_000_000
"""Values that a task works on at a time, about; they take 1 GB at the most."""
CHANGED = "The table has changed since its rows were counted, so nothing is released: start again."
PLAIN = (
    *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64),
    *(pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Date),
)


class TaskRunner(Protocol):
    """Whoever runs tasks, wherever that is."""

    def each(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply a function to each item; the results are in the order of the items."""

    def by_box(
        self,
        sort_out: Callable[[Any], Iterable[tuple[int, bytes]]],
        items: Sequence[Any],
        n_boxes: int,
        function: Callable[[list[bytes]], Any],
    ) -> list[Any]:
        """Let something be put into boxes, by number, for each item; then apply a function to what is in each box."""


class Piece(NamedTuple):
    """Rows of a file that lie one behind the other."""

    number: int
    file: str
    first: int
    n_rows: int


class RowDraw(NamedTuple):
    """Which rows are drawn."""

    share: float
    seed: int


class PieceReader(NamedTuple):
    """How tasks read rows."""

    schema: Schema
    """What is released."""
    columns: Sequence[str]
    """These attributes, and what a method is guided by, in the order of the file."""
    names: Sequence[str]
    """Columns whose texts are read as names."""
    marks: Sequence[str] = ()
    """Texts that stand for a missing value."""
    guide: str | None = None
    """Column with what a method is guided by."""
    words: Mapping[str, list[str]] | None = None
    """All texts of these columns, once they are known."""

    @classmethod
    def of(
        cls, types: Mapping[str, pl.DataType], schema: Schema, marks: Sequence[str] = (), guide: str | None = None
    ) -> PieceReader:
        """That of a table with these columns; identifiers are not even read."""
        released = schema.without_identifiers()
        columns = [name for name in types if name in released or name == guide]
        few = [one.name for one in (*schema.quasi, *schema.sensitive, *schema.target)]
        names = [name for name in few if types.get(name) in (pl.String, pl.Categorical, pl.Enum)]
        return cls(released, columns, names, marks, guide)

    def knowing(self, words: Mapping[str, list[str]]) -> PieceReader:
        """The same, with what was found out: names are numbered alike in all pieces from now on."""
        return self._replace(names=list(words), words=words)

    def read(self, piece: Piece, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows of a piece as they are in the file."""
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
        """Rows with the numbers of names, whose words need not be kept with them."""
        return frame.with_columns(pl.col(pl.Enum).to_physical())

    def from_numbers(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Such rows with their names."""
        known = {} if self.words is None else self.words
        return frame.with_columns(
            enums.of_numbers(frame[name], words) for name, words in known.items() if name in frame.columns
        )

    def as_seen(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows as methods see them: what is not a number, or a mark for a missing value, is missing."""
        known = [name for name in frame.columns if name in self.schema]
        floats = [name for name in known if frame.schema[name].is_float()]
        return files.mark_missing(frame, self.marks, known).with_columns(frame[name].fill_nan(None) for name in floats)


def plain_types(source: Path, looked_at: Collection[str] | None = None) -> dict[str, pl.DataType] | None:
    """Types of the columns, if all files have the same, and no more than any reader and writer understands alike.

    Of columns that are not ``looked_at`` any type will do.
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
    # Such names are patterns to polars.
    if any(name == "*" or (name[:1] == "^" and name[-1:] == "$") for name in types):
        return None
    plain = (kind in PLAIN for name, kind in types.items() if looked_at is None or name in looked_at)
    return types if all(plain) else None


def can_compare(types: Mapping[str, pl.DataType], schema: Schema) -> bool:
    """Whether numbers are numbers or dates, and not written as texts."""
    numbers = [types[one.name] for one in schema.quasi if is_plain_number(one) and one.name in types]
    return all(kind.is_numeric() or kind == pl.Date for kind in numbers)


def rows_a_task(n_columns: int) -> int:
    """Rows that a task works on at a time, about."""
    return max(CELLS_A_TASK // max(n_columns, 1), 1)


def pieces_of(source: Path, n_rows: int) -> list[Piece]:
    """The rows of a Parquet file, or of a folder of them, in pieces of about so many."""
    found: list[Piece] = []
    for file in files.parquet_files(source):
        for first, rows in _runs_of(file, n_rows):
            found.append(Piece(len(found), str(file), first, rows))
    return found


def _runs_of(file: Path, wanted: int) -> Iterable[tuple[int, int]]:
    """Row groups of a file put together, or cut, until they have about as many rows as a piece."""
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
    """Parquet files, looked at by tasks."""

    def __init__(self, crew: TaskRunner, pieces: Sequence[Piece], reading: PieceReader, folder: Path) -> None:
        self.crew, self.pieces, self.reading = crew, pieces, reading
        self.shelf = RowExchange(folder / "rows")
        self.alike_in_pieces = np.zeros((len(pieces), 0), np.int64)
        self._draw = RowDraw(0.0, 0)
        self._looked_at: dict[str, ColumnSummary] | None = None
        self._drawn: list[pl.DataFrame] = []

    def count(self) -> int:
        """All rows, which the files tell."""
        return sum(piece.n_rows for piece in self.pieces)

    def ends(self, names: Sequence[str]) -> dict[str, ColumnSummary]:
        """The lowest and the highest value of columns, and the missing one if there is such."""
        return {name: self._seen[name] for name in names}

    def distinct(self, name: str, member_of: str | None = None) -> ColumnSummary:
        """The values of a column."""
        assert member_of is None, "whoever has a population does not work in pieces"
        return self._seen[name]

    @property
    def _seen(self) -> dict[str, ColumnSummary]:
        """What there is in each column, which is looked at once, all together."""
        if self._looked_at is None:
            found = self.crew.each(partial(_look, self.reading, self._draw), self.pieces)
            self._looked_at, self._drawn = _together(found, self.reading.schema), [one.drawn for one in found]
            self.reading = self.reading.knowing(_words_in(found, self.reading))
        return self._looked_at

    def draw_while_looking(self, n_rows: int, seed: int) -> None:
        """Read all rows once less, by drawing the sample that will be asked for when values are looked at."""
        self._draw, self._looked_at = self._draw_of(n_rows, seed), None

    def _draw_of(self, n_rows: int, seed: int) -> RowDraw:
        return RowDraw(min(1.0, n_rows / max(self.count(), 1)), seed)

    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """About so many rows, drawn in each piece by itself."""
        if self._draw_of(n_rows, seed) != self._draw or self._looked_at is None:
            self.draw_while_looking(n_rows, seed)
            assert self._seen
        return frames.open_frame(pl.concat(self._drawn))

    def combinations(self, names: Sequence[str], most: int) -> pl.DataFrame:
        """Every different row of these columns, and how many there are."""
        found = pl.concat(self.crew.each(partial(_combine, self.reading, list(names), most), self.pieces))
        return found.group_by(names).agg(pl.col(ROWS).sum()).head(most + 1)

    def tally(self, crown: CoarseTree, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count what is in each leaf, and leave its rows on the shelf, as they are read anyway."""
        assert member_of is None, "whoever has a population does not work in pieces"
        assert self._seen, "names are numbered by what was looked at"
        # A task of an earlier count that is late must find no place any more.
        self.shelf.remove()
        self.shelf = RowExchange.made(self.shelf.folder.with_name(f"rows-{uuid.uuid4().hex[:12]}"))
        found = self.crew.each(partial(_sort_out, self.reading, self.shelf, crown, list(sensitive)), self.pieces)
        in_pieces = np.stack([one[0] for one in found])
        rows, self.alike_in_pieces = in_pieces.sum(axis=0), in_pieces[:, crown.n_of_tree :]
        counted = {}
        for name in sensitive:
            all_of = pl.concat([one[1][name] for one in found]).group_by("leaf", "v").agg(pl.col("n").sum())
            counted[name] = (all_of["leaf"].to_numpy(), values_of(all_of, name), all_of["n"].to_numpy())
        return LeafTally(rows, rows, counted)


# What a task does


class Looked(NamedTuple):
    """What there is in the columns of some rows."""

    ends: pl.DataFrame
    """Of plain numbers: the lowest, the highest, and how many are missing."""
    values: dict[str, pl.DataFrame]
    """Of others, and of all names: each value, and how many rows have it."""
    drawn: pl.DataFrame
    """A sample of the rows."""


def _look(reading: PieceReader, draw: RowDraw, piece: Piece) -> Looked:
    plain, others = _kinds(reading.schema)
    others += [name for name in reading.names if name not in others]
    frame = reading.as_seen(reading.read(piece, [*plain, *others] if draw.share == 0 else reading.columns))
    drawn = np.random.default_rng([draw.seed, piece.number]).random(frame.height) < draw.share
    asked = []
    for j, name in enumerate(plain):
        value = pl.col(name)
        asked += [value.min().alias(f"low{j}"), value.max().alias(f"high{j}"), value.null_count().alias(f"none{j}")]
    values = {name: count_values(frame, name) for name in others}
    return Looked(frame.select(asked), values, _as_texts(frame.filter(pl.Series(drawn, dtype=pl.Boolean))))


def count_values(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Each value of a column as ``v``, and how many rows have it as ``n``."""
    if isinstance(frame.schema[name], pl.Enum):
        return _count_names(frame[name])
    counted = frame.group_by(pl.col(name).alias("v")).agg(pl.len().cast(pl.Int64).alias("n"))
    return _as_texts(counted.head(MOST_VALUES + 1))


def _count_names(column: pl.Series) -> pl.DataFrame:
    counts = [*enums.count(column).tolist(), column.null_count()]
    counted = pl.DataFrame({"v": [*enums.words_of(column), None], "n": counts}, {"v": pl.String, "n": pl.Int64})
    return counted.filter(pl.col("n") > 0).head(MOST_VALUES + 1)


def add_values(found: Sequence[pl.DataFrame], name: str) -> ColumnSummary:
    """What was counted of a column in several places, together."""
    counted = pl.concat(found).group_by("v").agg(pl.col("n").sum()).sort("v")
    require_few_values(name, counted.height)
    return ColumnSummary(values_of(counted, name), counted["n"].to_numpy().astype(np.int64))


def _kinds(schema: Schema) -> tuple[list[str], list[str]]:
    """Attributes that are plain numbers, and others, as far as anything must be known of them."""
    plain = [one.name for one in schema.quasi if is_plain_number(one)]
    return plain, [one.name for one in (*schema.quasi, *schema.sensitive) if one.name not in plain]


def _together(found: Sequence[Looked], schema: Schema) -> dict[str, ColumnSummary]:
    plain, others = _kinds(schema)
    every = pl.concat([one.ends for one in found])
    asked = []
    for j in range(len(plain)):
        asked += [pl.col(f"low{j}").min(), pl.col(f"high{j}").max(), pl.col(f"none{j}").sum()]
    seen = ends_of(every.select(asked), plain) if plain else {}
    return seen | {name: add_values([one.values[name] for one in found], name) for name in others}


def _words_in(found: Sequence[Looked], reading: PieceReader) -> dict[str, list[str]]:
    """All texts of names, with the marks for missing values; a column that has too many different ones stays text."""
    words = {}
    for name in reading.names:
        every = pl.concat([one.values[name]["v"] for one in found]).drop_nulls().unique()
        if len(every) <= MOST_VALUES:
            words[name] = list(dict.fromkeys([*every.sort(), *reading.marks]))
    return words


def _combine(reading: PieceReader, names: list[str], most: int, piece: Piece) -> pl.DataFrame:
    frame = reading.as_seen(reading.read(piece, names))
    return _as_texts(frame.group_by(names).agg(pl.len().cast(pl.Int64).alias(ROWS)).head(most + 1))


def _sort_out(
    reading: PieceReader, shelf: RowExchange, crown: CoarseTree, sensitive: list[str], piece: Piece
) -> tuple[np.ndarray, dict[str, pl.DataFrame]]:
    """Leave the rows of a piece by leaf; returns how many there are, and with which sensitive values."""
    raw = reading.read(piece)
    if raw.height != piece.n_rows:
        raise DataError(CHANGED)
    frame = reading.as_seen(raw)
    leaves = number_rows(frame, crown, np.arange(crown.n_leaves))
    shelf.put(piece.number, reading.as_numbers(raw), leaves, crown.n_leaves)
    counted = {}
    for name in sensitive:
        rows = pl.len().cast(pl.Int64).alias("n")
        numbered = pl.DataFrame([pl.Series("leaf", leaves), frame[name].alias("v")])
        counted[name] = _as_texts(numbered.group_by("leaf", "v").agg(rows))
    return np.bincount(leaves, minlength=crown.n_leaves), counted


def _as_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Names that are numbered by a list of their own as what they are."""
    return frame.with_columns(pl.col(pl.Enum).cast(pl.String))


# The way of a row through a crown


def number_rows(frame: pl.DataFrame, crown: CoarseTree, number_of_leaf: np.ndarray) -> np.ndarray:
    """Give each row the number of its leaf.

    Rows are parted node by node, so that the time grows with the depth of the tree, not with its leaves.
    """
    looking = [_Looking.at(frame[name]) for name in dict.fromkeys(test.attribute for test in crown.tests if test)]
    columns = {one.column.name: one for one in looking}
    numbers = np.empty(frame.height, np.int32)
    waiting = [(0, np.arange(frame.height, dtype=np.uint32))]
    while waiting:
        node, rows = waiting.pop()
        test = crown.tests[node]
        if test is None:
            numbers[rows] = number_of_leaf[crown.right[node]]
        elif len(rows):
            left, right = groups.part_rows(rows, columns[test.attribute].passes(rows, test))
            waiting += [(crown.left[node], left), (crown.right[node], right)]
    for i, values in enumerate(crown.alike):
        numbers[_are_alike(frame, values)] = number_of_leaf[crown.n_of_tree + i]
    return numbers


class _Looking(NamedTuple):
    """A column that is asked for many times."""

    column: pl.Series
    numbers: np.ndarray | None
    """Those of its names; the missing one has the last number."""

    @classmethod
    def at(cls, column: pl.Series) -> _Looking:
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


def _are_alike(frame: pl.DataFrame, values: Mapping[str, Any]) -> np.ndarray:
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value)) for name, value in values.items())
    return frame.select(same.alias("v"))["v"].to_numpy()
