"""The protocol of engines, which count and sample tables that are too large for memory.

The tests that send a row to its fragment are written once, as a :class:`CoarseTree`; each engine, such as Spark or
DuckDB, translates them by its :class:`Dialect`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, get_args

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from shoal.data import frames
from shoal.data.schema import Attribute, Schema
from shoal.data.table import Column, Missing, encode_column
from shoal.errors import DataError
from shoal.parameters import Choice, Whole
from shoal.partition.losses import Loss
from shoal.partition.table_summary import ColumnSummary, TableSummary, is_plain_number, vocabulary
from shoal.privacy.checking import Checked
from shoal.privacy.models import PrivacyModel
from shoal.privacy.rules import no_membership, truth_of

MOST_VALUES = 1_000_000
"""Maximum number of distinct values of a column, unless only the ends of its values must be known."""
NO_ROWS = "The table has no rows: there is nothing to release or to check."
CHANGED = "The table has changed since its rows were counted, so nothing is released: start again."
COUNT = Whole(least=1) | None
"""Constraint on optional numbers of rows or threads."""
ROWS = "__shoal_rows"
"""Name of the column with the number of equal rows."""
VALUE, CODE = "__shoal_value", "__shoal_code"
"""Names of the columns with values and their codes."""
Expression = TypeVar("Expression")


class SplitTest(NamedTuple):
    """The test of a node: the values of an attribute that go left."""

    attribute: str
    low: Any = None
    high: Any = None
    """For a plain number: the ends of the range, both included; None is unbounded."""
    values: tuple[Any, ...] | None = None
    """For any other attribute: the values that go left."""
    missing: bool = False
    """True if missing values go left."""


class CoarseTree(NamedTuple):
    """A coarse tree of cuts; node 0 is the root, and leaves are numbered from left to right."""

    tests: Sequence[SplitTest | None]
    """The test of each node; None in a leaf."""
    left: Sequence[int]
    right: Sequence[int]
    """The children; in a leaf ``right`` is its number."""
    frequent: Sequence[Mapping[str, Any]] = ()
    """Combinations of values whose rows form leaves of their own, numbered after those of the tree."""

    @property
    def n_tree_leaves(self) -> int:
        """Number of leaves of the tree."""
        return sum(test is None for test in self.tests)

    @property
    def n_leaves(self) -> int:
        """Number of all leaves."""
        return self.n_tree_leaves + len(self.frequent)


class Dialect(Protocol[Expression]):
    """The expressions of an engine."""

    def goes_left(self, test: SplitTest) -> Expression:
        """Return an expression that is true for rows that pass a test."""

    def has_values(self, values: Mapping[str, Any]) -> Expression:
        """Return an expression that is true for rows with these values; None is a missing one."""

    def choose(self, condition: Expression, yes: Expression, no: Expression) -> Expression:
        """Return an expression that is one of two, by a condition."""

    def constant(self, value: int) -> Expression:
        """Return a constant expression."""


def leaf_expression(tree: CoarseTree, dialect: Dialect[Expression], number_of_leaf: Sequence[int]) -> Expression:
    """Return an expression that gives each row the number of its leaf."""

    def below(node: int) -> Expression:
        test = tree.tests[node]
        if test is None:
            return dialect.constant(number_of_leaf[tree.right[node]])
        return dialect.choose(dialect.goes_left(test), below(tree.left[node]), below(tree.right[node]))

    found = below(0)
    for number, values in zip(number_of_leaf[tree.n_tree_leaves :], tree.frequent, strict=True):
        found = dialect.choose(dialect.has_values(values), dialect.constant(number), found)
    return found


class LeafTally(NamedTuple):
    """The numbers of rows and of sensitive values in each leaf of a tree."""

    population: np.ndarray
    """Rows of each leaf."""
    rows: np.ndarray
    """Released rows of each leaf."""
    sensitive: dict[str, tuple[np.ndarray, nw.Series[Any], np.ndarray]]
    """For each sensitive attribute: leaves, values, and the number of released rows of the leaf with the value."""


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
        """Parameters of the cut into fragments, for the evidence."""

    @property
    def findings(self) -> Mapping[str, Any]:
        """Further results of the method."""

    def measure(self, constraints: Sequence[PrivacyModel]) -> Checked:
        """Measure every privacy model on the rows that were written."""

    def members_only(self, member_of: str) -> StagedRelease:
        """Write the rows of a population that are handed out, without the column that marks them."""


class Engine(ABC, Generic[Expression]):
    """A table that is counted and sampled, but never read into memory as a whole."""

    names: Sequence[str]
    dialect: Dialect[Expression]

    @abstractmethod
    def count(self) -> int:
        """Count all rows."""

    @abstractmethod
    def extremes(self, names: Sequence[str]) -> dict[str, ColumnSummary]:
        """Find the lowest and the highest value of numeric columns, and the missing value if there is one."""

    @abstractmethod
    def distinct(self, name: str, member_of: str | None = None) -> ColumnSummary:
        """Count the distinct values of a column, in all rows or in those that a Boolean column marks."""

    @abstractmethod
    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """Draw about ``n_rows`` rows at random; the same ones for the same seed."""

    @abstractmethod
    def combinations(self, names: Sequence[str], most: int) -> pl.DataFrame:
        """Count the distinct rows of these columns, in the column ``ROWS``; return at most ``most`` + 1 of them."""

    @abstractmethod
    def tally(self, tree: CoarseTree, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count the rows and the sensitive values of each leaf."""


def summarize(engine: Engine[Any], schema: Schema, member_of: str | None, missing: Missing) -> TableSummary:
    """Summarize the whole table for the release of its parts."""
    Choice(get_args(Missing)).check("missing", missing)
    if engine.count() == 0:
        raise DataError(NO_ROWS)
    if member_of is not None:
        values_for_true(engine, member_of)
    plain = [one.name for one in schema.quasi if is_plain_number(one)]
    columns = engine.extremes(plain) if plain else {}
    columns |= {one.name: engine.distinct(one.name) for one in schema.quasi if one.name not in columns}
    columns |= {one.name: engine.distinct(one.name, member_of) for one in schema.sensitive}
    return TableSummary.of(schema, columns, engine.count(), missing, member_of)


def values_for_true(engine: Engine[Any], member_of: str) -> list[Any]:
    """Return the values of a Boolean column that mark released rows; refuse values that are not Boolean."""
    if member_of not in engine.names:
        raise no_membership(member_of, engine.names)
    return [value for value in engine.distinct(member_of).values.to_list() if truth_of(value, member_of)]


def read_extremes(found: pl.DataFrame, names: Sequence[str]) -> dict[str, ColumnSummary]:
    """Read a row with ``low{j}``, ``high{j}`` and the number ``none{j}`` of missing values of the j-th column."""
    summaries = {}
    for j, name in enumerate(names):
        values = pl.concat([found[f"low{j}"].alias(name), found[f"high{j}"].alias(name)]).drop_nulls()
        n_missing = int(found[f"none{j}"][0])
        if n_missing:
            values = values.extend(pl.Series(name, [None], values.dtype))
        rows = np.ones(len(values))
        rows[len(values) - (n_missing > 0) :] = n_missing
        summaries[name] = ColumnSummary(frames.open_frame(values.to_frame())[name], rows)
    return summaries


def values_of(found: pl.DataFrame, name: str) -> nw.Series[Any]:
    """Return the column ``v`` under the name of the attribute, which could clash with others in a query."""
    return frames.open_frame(found["v"].alias(name).to_frame())[name]


def rows_of_leaves(found: pl.DataFrame, n_leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of all rows (``n``) and of released rows (``m``) of each ``leaf``."""
    leaves = found["leaf"].to_numpy()
    population, released = (np.bincount(leaves, found[name].to_numpy(), n_leaves).astype(np.int64) for name in "nm")
    return population, released


def encode_values(summary: ColumnSummary, attribute: Attribute) -> tuple[Column, pl.DataFrame]:
    """Return a column without rows but with the share of each value, and the ``CODE`` of each ``VALUE``."""
    column = encode_column(summary.values, attribute, weights=summary.rows)
    codes = pl.DataFrame({VALUE: summary.values.to_native(), CODE: column.codes.astype(np.int32)})
    return vocabulary(column, summary.rows), codes


def require_few_values(name: str, n_values: int) -> None:
    """Refuse a nominal column with nearly as many values as the table has rows."""
    if n_values > MOST_VALUES:
        raise DataError(
            f"Attribute {name!r} has more than {MOST_VALUES:,} different values: make it numeric or coarser first."
        )


def not_numeric(name: str, value: Any) -> DataError:
    """Return the error of a numeric attribute with another value."""
    return DataError(
        f"Attribute {name!r} is numeric, but holds {value!r}: make it nominal in the schema, or fix the value."
    )
