"""A Spark DataFrame as an engine: what is counted, drawn and told apart there."""

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
    ends_of,
    require_few_values,
    rows_of_leaves,
    values_of,
    words_for_true,
    write_route,
)
from shoal.errors import DataError
from shoal.partition.table_summary import ColumnSummary, is_plain_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class SparkDialect:
    """What is asked of a row, as columns of Spark."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def goes_left(self, test: SplitTest) -> Column:
        """Whether a row passes a test."""
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

    def is_alike(self, values: Mapping[str, Any]) -> Column:
        """Whether a row has these values."""
        from pyspark.sql import functions as sf

        return reduce(and_, (self._columns[name].eqNullSafe(sf.lit(value)) for name, value in values.items()))

    def choose(self, condition: Column, yes: Column, no: Column) -> Column:
        """One thing or another."""
        from pyspark.sql import functions as sf

        return sf.when(condition, yes).otherwise(no)

    def number(self, value: int) -> Column:
        """A constant."""
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
        Whether numbers that are written as text are compared as numbers; a check takes them as they are written.
    """

    def __init__(
        self,
        table: DataFrame,
        schema: Schema,
        marks: Sequence[str] = (),
        *,
        compared: bool = True,
    ) -> None:
        self.table = table
        marks = files.as_marks(marks)
        self._n_rows: int | None = None
        self._members: dict[str, Column] = {}
        self.names = table.columns
        types = dict(table.dtypes)
        self.values = {name: _value(name, types[name], marks) for name in schema.names if name in types}
        looked_at = schema.quasi if compared else ()
        texts = [one.name for one in looked_at if types.get(one.name) == "string" and is_plain_number(one)]
        # True and false that are numbers lie between others.
        booleans = [one.name for one in looked_at if types.get(one.name) == "boolean" and is_plain_number(one)]
        truths = {name: self.values[name].cast("int") for name in booleans}
        self._order = self.values | self._as_numbers(texts) | truths
        self.words = SparkDialect(self._order)

    def _as_numbers(self, names: Sequence[str]) -> dict[str, Column]:
        """Texts as what they are compared as: numbers, or else dates."""
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
                raise DataError(
                    f"Attribute {name!r} is numeric, but holds {found[f'{kinds[0]}{j}'][0]!r}: make it nominal in the "
                    "schema, or mend it."
                )
            chosen[name] = self.values[name].try_cast(fitting[0])
        return chosen

    def count(self) -> int:
        """All rows, which are counted once."""
        if self._n_rows is None:
            self._n_rows = int(self.table.count())
        return self._n_rows

    def is_member(self, name: str) -> Column:
        """Whether a row is released, as a Boolean column says."""
        if name not in self._members:
            self._members[name] = quoted_column(name).isin(words_for_true(self, name))
        return self._members[name]

    def ends(self, names: Sequence[str]) -> dict[str, ColumnSummary]:
        """The lowest and the highest value of columns, and the missing one if there is such."""
        from pyspark.sql import functions as sf

        asked = []
        for j, name in enumerate(names):
            value, order = self.values[name], self._order[name]
            asked += [sf.min_by(value, order).alias(f"low{j}"), sf.max_by(value, order).alias(f"high{j}")]
            asked.append(sf.count_if(order.isNull()).alias(f"none{j}"))
        return ends_of(collect(self.table.agg(*asked)), names)

    def distinct(self, name: str, member_of: str | None = None) -> ColumnSummary:
        """The values of a column, among all rows or those that a Boolean column marks."""
        from pyspark.sql import functions as sf

        rows = self.table if member_of is None else self.table.filter(self.is_member(member_of))
        counted = rows.groupBy(self.values[name].alias("v")).agg(sf.count("*").alias("n"))
        found = collect(counted.limit(MOST_VALUES + 1))
        require_few_values(name, found.height)
        return ColumnSummary(values_of(found, name), found["n"].to_numpy())

    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """About so many rows, drawn at random."""
        share = min(1.0, n_rows / max(self.count(), 1))
        rows = self.table.select(
            *(self.values.get(name, quoted_column(name)).alias(name) for name in self.table.columns)
        )
        # As a keyword: given by place, Spark takes the seed for something else, and draws without one.
        return frames.open_frame(collect(rows.sample(fraction=share, seed=seed)))

    def combinations(self, names: Sequence[str], most: int) -> pl.DataFrame:
        """Every different row of these columns, and how many there are."""
        from pyspark.sql import functions as sf

        groups = self.table.groupBy(*(self.values[name].alias(name) for name in names))
        return collect(groups.agg(sf.count("*").alias(ROWS)).limit(most + 1))

    def tally(self, crown: CoarseTree, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count what is in each leaf."""
        from pyspark.sql import functions as sf

        leaf = write_route(crown, self.words, range(crown.n_leaves)).alias("leaf")
        member = sf.lit(True) if member_of is None else self.is_member(member_of)
        found = collect(self.table.groupBy(leaf).agg(sf.count("*").alias("n"), sf.count_if(member).alias("m")))
        counted = {}
        for name in sensitive:
            groups = self.table.filter(member).groupBy(leaf, self.values[name].alias("v"))
            rows = collect(groups.agg(sf.count("*").alias("n")))
            counted[name] = (rows["leaf"].to_numpy(), values_of(rows, name), rows["n"].to_numpy())
        return LeafTally(*rows_of_leaves(found, crown.n_leaves), counted)


def _value(name: str, kind: str, marks: Sequence[str]) -> Column:
    """A value as methods see it: what is not a number, or a mark for a missing value, is missing."""
    from pyspark.sql import functions as sf

    column = quoted_column(name)
    if kind in ("float", "double"):
        return sf.when(~sf.isnan(column), column)
    if kind == "string" and marks:
        return sf.when(~column.isin(list(marks)), column)
    return column


def collect(table: DataFrame) -> pl.DataFrame:
    """A small table."""
    return as_polars(table.toArrow())


def as_polars(rows: Any) -> pl.DataFrame:
    """Rows of Arrow; decimals without decimal places, as which Spark has large whole numbers, are whole numbers."""
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
    """A column, whatever characters are in its name."""
    from pyspark.sql import functions as sf

    return sf.col("`" + name.replace("`", "``") + "`")
