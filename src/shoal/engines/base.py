"""What must be known of a table that is too large to be looked at row by row, and how it is asked for.

An :class:`Engine`, such as Spark or DuckDB, needs to count, to draw a sample, and to tell the rows of the fragments
apart; what it asks of a row is written once, as a :class:`CoarseTree`, and put into each engine's own words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, get_args

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from shoal.data import frames
from shoal.data.schema import Attribute, Schema
from shoal.data.table import Column, Missing, encode_column
from shoal.errors import DataError
from shoal.partition.losses import Loss
from shoal.partition.table_summary import ColumnSummary, TableSummary, is_plain_number
from shoal.privacy.checking import Checked
from shoal.privacy.models import PrivacyModel
from shoal.privacy.rules import no_membership, truth_of

MOST_VALUES = 1_000_000
"""Distinct values of a column that is no plain number."""
NO_ROWS = "The table has no rows: there is nothing to release or to check."
ROWS = "__shoal_rows"
"""Name of the column that says how many rows a different row stands for."""
VALUE, CODE = "__shoal_value", "__shoal_code"
"""Names of columns that say which code a value has."""
Expression = TypeVar("Expression")


class SplitTest(NamedTuple):
    """What a node asks of a row: which values of an attribute go left."""

    attribute: str
    low: Any = None
    high: Any = None
    """Of a plain number: from where to where, both included; None is without end."""
    values: tuple[Any, ...] | None = None
    """Of any other attribute: those that go left."""
    missing: bool = False
    """Whether rows without a value go left."""


class CoarseTree(NamedTuple):
    """A coarse tree of cuts; node 0 is the root, its leaves are numbered from left to right."""

    tests: Sequence[SplitTest | None]
    """What a node asks of a row; None in a leaf."""
    left: Sequence[int]
    right: Sequence[int]
    """The children; in a leaf ``right`` is its number."""
    alike: Sequence[Mapping[str, Any]] = ()
    """Rows that have just these values are leaves of their own, numbered behind those of the tree."""

    @property
    def n_of_tree(self) -> int:
        """Leaves of the tree."""
        return sum(test is None for test in self.tests)

    @property
    def n_leaves(self) -> int:
        """All leaves."""
        return self.n_of_tree + len(self.alike)


class Dialect(Protocol[Expression]):
    """How an engine writes down what is asked of a row."""

    def goes_left(self, test: SplitTest) -> Expression:
        """Whether a row passes a test."""

    def is_alike(self, values: Mapping[str, Any]) -> Expression:
        """Whether a row has these values; None is the missing one."""

    def choose(self, condition: Expression, yes: Expression, no: Expression) -> Expression:
        """One thing or another."""

    def number(self, value: int) -> Expression:
        """A constant."""


def write_route(crown: CoarseTree, words: Dialect[Expression], number_of_leaf: Sequence[int]) -> Expression:
    """An expression that gives each row the number of its leaf."""

    def below(node: int) -> Expression:
        test = crown.tests[node]
        if test is None:
            return words.number(number_of_leaf[crown.right[node]])
        return words.choose(words.goes_left(test), below(crown.left[node]), below(crown.right[node]))

    route = below(0)
    for i, values in enumerate(crown.alike):
        route = words.choose(words.is_alike(values), words.number(number_of_leaf[crown.n_of_tree + i]), route)
    return route


class LeafTally(NamedTuple):
    """What is in each leaf of a crown."""

    population: np.ndarray
    """Rows of each leaf."""
    rows: np.ndarray
    """Those of them that are released."""
    sensitive: dict[str, tuple[np.ndarray, nw.Series[Any], np.ndarray]]
    """Of each sensitive attribute: leaves, values, and how many released rows of the leaf have the value."""


class StagedRelease(Protocol):
    """A release that is written, but is renamed to its final name only after it was verified."""

    @property
    def loss(self) -> Loss:
        """Loss of the whole release."""

    @property
    def suppressed(self) -> int:
        """Number of suppressed rows."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How the table was cut, for the evidence."""

    @property
    def findings(self) -> Mapping[str, Any]:
        """Results of the method beside the release."""

    def measure(self, constraints: Sequence[PrivacyModel]) -> Checked:
        """Measure every privacy model on the rows that were written."""

    def members_only(self, member_of: str) -> StagedRelease:
        """Write the rows of a population that are handed out, without the column that marks them."""


class Engine(ABC, Generic[Expression]):
    """What must be known of a table that is too large to be looked at row by row."""

    names: Sequence[str]
    words: Dialect[Expression]

    @abstractmethod
    def count(self) -> int:
        """All rows."""

    @abstractmethod
    def ends(self, names: Sequence[str]) -> dict[str, ColumnSummary]:
        """The lowest and the highest value of columns of numbers, and the missing one if there is such."""

    @abstractmethod
    def distinct(self, name: str, member_of: str | None = None) -> ColumnSummary:
        """The values of a column, among all rows or those that a Boolean column marks."""

    @abstractmethod
    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """About so many rows, drawn at random; the same ones for the same seed."""

    @abstractmethod
    def combinations(self, names: Sequence[str], most: int) -> pl.DataFrame:
        """Every different row of these columns, and how many there are, in ``ROWS``; no more than ``most`` + 1."""

    @abstractmethod
    def tally(self, crown: CoarseTree, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count what is in each leaf."""


def look_at(engine: Engine[Any], schema: Schema, member_of: str | None, missing: Missing) -> TableSummary:
    """Find out what every part must know of the whole table."""
    require_missing(missing)
    if engine.count() == 0:
        raise DataError(NO_ROWS)
    if member_of is not None:
        words_for_true(engine, member_of)
    plain = [one.name for one in schema.quasi if is_plain_number(one)]
    seen = engine.ends(plain) if plain else {}
    seen |= {one.name: engine.distinct(one.name) for one in schema.quasi if one.name not in seen}
    seen |= {one.name: engine.distinct(one.name, member_of) for one in schema.sensitive}
    return TableSummary.of(schema, seen, engine.count(), missing, member_of)


def require_missing(missing: Any) -> None:
    """Refuse a word for what becomes of missing values that is none, as is done where a table is looked at as one."""
    if missing not in get_args(Missing):
        raise DataError(f"missing={missing!r} is unknown: choose 'value' (a value of its own) or 'error' (refuse).")


def words_for_true(engine: Engine[Any], member_of: str) -> list[Any]:
    """The values by which a column says that a row is released; one that says neither true nor false is refused."""
    if member_of not in engine.names:
        raise no_membership(member_of, engine.names)
    return [value for value in engine.distinct(member_of).values.to_list() if truth_of(value, member_of)]


def ends_of(found: pl.DataFrame, names: Sequence[str]) -> dict[str, ColumnSummary]:
    """What an engine found of the j-th column: ``low{j}``, ``high{j}``, and ``none{j}`` rows without a value."""
    seen = {}
    for j, name in enumerate(names):
        values = pl.concat([found[f"low{j}"].alias(name), found[f"high{j}"].alias(name)]).drop_nulls()
        n_missing = int(found[f"none{j}"][0])
        if n_missing:
            values = values.extend(pl.Series(name, [None], values.dtype))
        rows = np.ones(len(values))
        rows[len(values) - (n_missing > 0) :] = n_missing
        seen[name] = ColumnSummary(frames.open_frame(values.to_frame())[name], rows)
    return seen


def values_of(found: pl.DataFrame, name: str) -> nw.Series[Any]:
    """Values that an engine was asked for as ``v``, by the name of their column, which may be any."""
    return frames.open_frame(found["v"].alias(name).to_frame())[name]


def rows_of_leaves(found: pl.DataFrame, n_leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """What an engine counted: of each ``leaf``, ``n`` rows, of which ``m`` are released."""
    leaves = found["leaf"].to_numpy()
    population, released = (np.bincount(leaves, found[name].to_numpy(), n_leaves).astype(np.int64) for name in "nm")
    return population, released


def code_values(seen: ColumnSummary, attribute: Attribute) -> tuple[Column, pl.DataFrame]:
    """A column without rows that knows how frequent each of its values is, and the ``CODE`` of each ``VALUE``."""
    column = encode_column(seen.values, attribute, weights=seen.rows)
    rows = np.bincount(column.codes, seen.rows, column.n_values)
    codes = pl.DataFrame({VALUE: seen.values.to_native(), CODE: column.codes.astype(np.int32)})
    return replace(column, codes=column.codes[:0], shares=rows / max(rows.sum(), 1)), codes


def require_few_values(name: str, n_values: int) -> None:
    """Refuse a column of names that has nearly as many values as the table has rows."""
    if n_values > MOST_VALUES:
        raise DataError(
            f"Attribute {name!r} has more than {MOST_VALUES:,} different values: make it numeric or coarser first."
        )
