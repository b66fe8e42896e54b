"""A Spark DataFrame as an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import polars as pl

from shoal.data import files, frames
from shoal.data.schema import Schema
from shoal.engines.base import (
    MOST_VALUES,
    ROWS,
    CoarseTree,
    Engine,
    LeafTally,
    SplitTest,
    leaf_expression,
    not_numeric,
    read_extremes,
    require_few_values,
    rows_of_leaves,
    values_for_true,
    values_of,
)
from shoal.partition.table_summary import ColumnSummary, is_plain_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class SparkDialect:
    """Expressions as columns of Spark."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def goes_left(self, test: SplitTest) -> Column:
        """Return a column that is true for rows that pass a test."""
        from pyspark.sql import functions as sf

        column = self._columns[test.attribute]
        if test.values is not None:
            passed = column.isin(list(test.values)) if test.values else sf.lit(False)
        else:
            bounds = [column.isNotNull()]
            bounds += [] if test.low is None else [column >= sf.lit(test.low)]
            bounds += [] if test.high is None else [column <= sf.lit(test.high)]
            passed = reduce(and_, bounds)
        return or_(passed, column.isNull()) if test.missing else and_(passed, column.isNotNull())

    def has_values(self, values: Mapping[str, Any]) -> Column:
        """Return a column that is true for rows with these values."""
        from pyspark.sql import functions as sf

        return reduce(and_, (self._columns[name].eqNullSafe(sf.lit(value)) for name, value in values.items()))

    def choose(self, condition: Column, yes: Column, no: Column) -> Column:
        """Return a column that is one of two, by a condition."""
        from pyspark.sql import functions as sf

        return sf.when(condition, yes).otherwise(no)

    def constant(self, value: int) -> Column:
        """Return a constant column."""
        from pyspark.sql import functions as sf

        return sf.lit(int(value))


class SparkEngine(Engine["Column"]):
    """A Spark DataFrame.

    Parameters
    ----------
    table : DataFrame
    schema : Schema
    marks : sequence of str
        Texts that stand for a missing value.
    compared : bool
        True if numbers in text columns are compared as numbers; a check compares them as texts.
    """

    def __init__(self, table: DataFrame, schema: Schema, marks: Sequence[str] = (), *, compared: bool = True) -> None:
        self.table = table
        marks = files.as_marks(marks)
        self._n_rows: int | None = None
        self._members: dict[str, Column] = {}
        self.names = table.columns
        types = dict(table.dtypes)
        self.values = {name: _value(name, types[name], marks) for name in schema.names if name in types}
        numbers = [one.name for one in schema.quasi if compared and is_plain_number(one)]
        texts = [name for name in numbers if types.get(name) == "string"]
        # Boolean columns whose kind is numeric are compared as numbers.
        booleans = [name for name in numbers if types.get(name) == "boolean"]
        truths = {name: self.values[name].cast("int") for name in booleans}
        self._order = self.values | self._as_numbers(texts) | truths
        self.dialect = SparkDialect(self._order)

    def _as_numbers(self, names: Sequence[str]) -> dict[str, Column]:
        """Return columns of texts cast to numbers, or else to dates."""
        from pyspark.sql import functions as sf

        if not names:
            return {}
        kinds = ("double", "timestamp_ntz")
        asked = []
        for j, name in enumerate(names):
            value = self.values[name]
            for kind in kinds:
                wrong = sf.when(value.isNotNull() & value.try_cast(kind).isNull(), value)
                asked.append(sf.first(wrong, ignorenulls=True).alias(f"{kind}{j}"))
        found = collect(self.table.agg(*asked))
        chosen = {}
        for j, name in enumerate(names):
            fitting = [kind for kind in kinds if found[f"{kind}{j}"][0] is None]
            if not fitting:
                raise not_numeric(name, found[f"{kinds[0]}{j}"][0])
            chosen[name] = self.values[name].try_cast(fitting[0])
        return chosen

    def count(self) -> int:
        """Count all rows, once."""
        if self._n_rows is None:
            self._n_rows = int(self.table.count())
        return self._n_rows

    def is_member(self, name: str) -> Column:
        """Return a column that is true for released rows, by the Boolean column of this name."""
        if name not in self._members:
            self._members[name] = quoted_column(name).isin(values_for_true(self, name))
        return self._members[name]

    def extremes(self, names: Sequence[str]) -> dict[str, ColumnSummary]:
        """Find the lowest and the highest value of columns, and the missing value if there is one."""
        from pyspark.sql import functions as sf

        asked = []
        for j, name in enumerate(names):
            value, order = self.values[name], self._order[name]
            asked += [sf.min_by(value, order).alias(f"low{j}"), sf.max_by(value, order).alias(f"high{j}")]
            asked.append(sf.count_if(order.isNull()).alias(f"none{j}"))
        return read_extremes(collect(self.table.agg(*asked)), names)

    def distinct(self, name: str, member_of: str | None = None) -> ColumnSummary:
        """Count the distinct values of a column, in all rows or in those that a Boolean column marks."""
        from pyspark.sql import functions as sf

        rows = self.table if member_of is None else self.table.filter(self.is_member(member_of))
        counted = rows.groupBy(self.values[name].alias("v")).agg(sf.count("*").alias("n"))
        found = collect(counted.limit(MOST_VALUES + 1))
        require_few_values(name, found.height)
        return ColumnSummary(values_of(found, name), found["n"].to_numpy())

    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """Draw about ``n_rows`` rows at random."""
        share = min(1.0, n_rows / max(self.count(), 1))
        rows = self.table.select(
            *(self.values.get(name, quoted_column(name)).alias(name) for name in self.table.columns)
        )
        # By keyword: Spark takes a positional seed for another argument, and draws without a seed.
        return frames.open_frame(collect(rows.sample(fraction=share, seed=seed)))

    def combinations(self, names: Sequence[str], most: int) -> pl.DataFrame:
        """Count the distinct rows of these columns."""
        from pyspark.sql import functions as sf

        groups = self.table.groupBy(*(self.values[name].alias(name) for name in names))
        return collect(groups.agg(sf.count("*").alias(ROWS)).limit(most + 1))

    def tally(self, tree: CoarseTree, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count the rows and the sensitive values of each leaf."""
        from pyspark.sql import functions as sf

        leaf = leaf_expression(tree, self.dialect, range(tree.n_leaves)).alias("leaf")
        member = sf.lit(True) if member_of is None else self.is_member(member_of)
        found = collect(self.table.groupBy(leaf).agg(sf.count("*").alias("n"), sf.count_if(member).alias("m")))
        counted = {}
        for name in sensitive:
            groups = self.table.filter(member).groupBy(leaf, self.values[name].alias("v"))
            rows = collect(groups.agg(sf.count("*").alias("n")))
            counted[name] = (rows["leaf"].to_numpy(), values_of(rows, name), rows["n"].to_numpy())
        return LeafTally(*rows_of_leaves(found, tree.n_leaves), counted)


def _value(name: str, kind: str, marks: Sequence[str]) -> Column:
    """Return a column in which NaN and the marks for missing values are missing."""
    from pyspark.sql import functions as sf

    column = quoted_column(name)
    if kind in ("float", "double"):
        return sf.when(~sf.isnan(column), column)
    if kind == "string" and marks:
        return sf.when(~column.isin(list(marks)), column)
    return column


def collect(table: DataFrame) -> pl.DataFrame:
    """Return the rows of a small table."""
    return as_polars(table.toArrow())


def as_polars(rows: Any) -> pl.DataFrame:
    """Return rows of Arrow, with decimals without decimal places, Spark's large whole numbers, as whole numbers."""
    found = pl.from_arrow(rows)
    assert isinstance(found, pl.DataFrame)
    wholes = [name for name, kind in found.schema.items() if isinstance(kind, pl.Decimal) and kind.scale == 0]
    return found.with_columns(_as_whole_numbers(found[name]) for name in wholes)


def _as_whole_numbers(column: pl.Series) -> pl.Series:
    for kind in (pl.UInt64, pl.Int64):
        try:
            return column.cast(kind)
        except pl.exceptions.InvalidOperationError:
            continue
    return column


def quoted_column(name: str) -> Column:
    """Return a column, whatever characters are in its name."""
    from pyspark.sql import functions as sf

    return sf.col("`" + name.replace("`", "``") + "`")
