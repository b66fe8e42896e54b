"""The anonymizers on Spark, for tables that outgrow one machine.

Spark counts and shuffles, the driver grows a coarse tree on a sample, and workers release the fragments by the local
classes. The driver never receives the rows of the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from shoal.anonymizers import Anonymizer
from shoal.data import files
from shoal.data.schema import Schema, require_schema
from shoal.data.value_text import plain_text
from shoal.engines.base import CHANGED, leaf_expression
from shoal.engines.fit_to_counts import FittedToCounts, fit_to_counts
from shoal.engines.fragments import Fragmentation, fragment
from shoal.engines.partial_release import (
    N_NUMBERS,
    PartialLoss,
    add_losses,
    as_numbers,
    as_written,
    from_numbers,
    left_out,
    no_loss,
    release_fragment,
    require_columns,
)
from shoal.engines.spark.engine import SparkEngine, as_polars, quoted_column
from shoal.engines.spark.worker import run_generating_task
from shoal.errors import DataError, ShoalError
from shoal.parameters import NAMES, SEED, Constraint, Whole, check_parameters, instance_of
from shoal.partition.losses import Loss
from shoal.partition.recoding import recodings_that_publish
from shoal.privacy.rules import membership

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_FRAGMENT = 200_000
MOST_TUPLES = 5_000_000
"""Maximum number of distinct rows that the driver collects, if a method is fitted to their counts."""
PATIENCE = 3.0
"""Seconds within which Spark reports the end of a job."""
FRAGMENT, PART = "__shoal_fragment", "__shoal_part"


class SparkAnonymizer:
    """Run an anonymizer on a Spark DataFrame.

    Parameters
    ----------
    method : Anonymizer
        Any local class, with its schema; it is not changed.
    rows_per_fragment : int
        Approximate number of rows that a worker releases at a time. A smaller table is one fragment, which is released
        as by the local class.
    y : str, optional
        Column that guides :class:`shoal.AccuracyGuided`, such as predictions; it is released only if it is in the
        schema. By default the schema's target.
    missing_marks : sequence of str
        Texts that stand for a missing value.
    random_state : int
        Seed of the sample.

    Attributes
    ----------
    fragments_ : int array
        Rows of each fragment; all rows if each row is released where it is stored.
    """

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "method": instance_of(Anonymizer, text="an anonymizer such as Mondrian(schema)"),
        "rows_per_fragment": Whole(least=1),
        "y": instance_of(str, text="the name of a column") | None,
        "missing_marks": instance_of(str, text="a text") | NAMES,
        "random_state": SEED,
    }

    def __init__(
        self,
        method: Anonymizer,
        *,
        rows_per_fragment: int = ROWS_PER_FRAGMENT,
        y: str | None = None,
        missing_marks: Sequence[str] = (),
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.rows_per_fragment = rows_per_fragment
        self.y = y
        self.missing_marks = missing_marks
        self.random_state = random_state

    def fit_transform(self, table: DataFrame) -> DataFrame:
        """Return the released rows, which are computed when they are written or counted.

        This counts the table as it is now: later a job fails if the number of rows of a fragment has changed, and every
        fragment is checked on its released values before it leaves its worker. Rows that are released where they are
        stored, by Flash or as frequent combinations of values, are not counted again: if they may have changed, run
        :func:`check` on the written table. The table is read several times: cache it (``table.cache()``) if it takes
        long to compute.
        """
        check_parameters(self)
        schema = self._checked_schema(table)
        engine = SparkEngine(table, schema, self.missing_marks)
        many = engine.count() > self.rows_per_fragment
        fitted = fit_to_counts(engine, self.method, MOST_TUPLES) if self.method.wants_counts and many else None
        if fitted is not None:
            self.fragments_ = np.array([fitted.n_rows])
            self._released, self._known = None, [fitted.part]
            return _release_rows(engine, fitted, self.y, self.missing_marks)
        cut = fragment(engine, self.method, self.rows_per_fragment, self.random_state, self.y)
        self.fragments_ = cut.rows
        self._known = [no_loss(schema, int(n)) for n in cut.released[cut.n_cut :]]
        self._released = _release_fragments(engine, cut, self.y, self.missing_marks)
        observed, self._observation = _observe(self._released, [one.name for one in schema.quasi])
        return _with_frequent(observed.drop(PART), engine, cut, self.y)

    def loss(self) -> Loss:
        """Return the loss of the release.

        It is known once the whole release was written or counted; before that, a job of its own computes it.
        """
        return add_losses(self._parts())

    def suppressed(self) -> int:
        """Return the number of suppressed rows; it is known when the loss is."""
        return sum(part.sizes.n_suppressed for part in self._parts())

    def _parts(self) -> list[PartialLoss]:
        if not hasattr(self, "_known"):
            raise ShoalError("There is no release yet: call fit_transform first.")
        if self._released is not None:
            self._known, self._released = [*self._known, self._sum_parts()], None
        return self._known

    def _sum_parts(self) -> PartialLoss:
        assert self.method.schema is not None
        assert self._released is not None
        names = [one.name for one in self.method.schema.quasi]
        found = _observed(self._observation) if membership(self.method.constraints) is None else None
        n_rows = int(self.fragments_.sum()) - sum(part.sizes.n_rows for part in self._known)
        # A job that read only some of the rows has released only some fragments.
        if found is None or found[0] != n_rows:
            row = self._released.agg(*_sums(names)).first()
            assert row is not None
            found = [float(value or 0.0) for value in row]
        return from_numbers(found, names)

    def _checked_schema(self, table: DataFrame) -> Schema:
        schema = self.method.schema
        require_schema(schema)
        assert schema is not None
        require_columns(table.columns, schema, self.y)
        for constraint in self.method.constraints:
            if constraint.joined_only_if is not None:
                raise ShoalError(
                    f"{constraint.describe()} may fail if groups of two fragments are released alike: use "
                    f"{constraint.joined_only_if}, or work in memory."
                )
        return schema


# Functions that workers run


def _release_fragments(engine: SparkEngine, cut: Fragmentation, y: str | None, marks: Sequence[str]) -> DataFrame:
    """Return the released rows of all fragments of the tree; the first row of each has its loss in PART."""
    from pyspark.sql import functions as sf
    from pyspark.sql import types

    numbered = _number_fragments(engine, cut)
    if cut.tree.frequent:
        numbered = numbered.filter(sf.col(FRAGMENT) < cut.n_cut)
    kind = _released_type(engine.table, cut.schema, cut.method.recoding, y, cut.summary.dates)
    kind = kind.add(PART, types.ArrayType(types.DoubleType()))
    expected = _as_arrow(engine, kind)
    # A fragment is a partition: unlike with groupBy and applyInArrow, Spark need not sort the rows first.
    fragments = numbered.repartitionById(max(cut.n_cut, 1), sf.col(FRAGMENT))
    return _map_in_arrow(fragments, _make_release(cut, y, marks, expected), kind)


def _number_fragments(engine: SparkEngine, cut: Fragmentation) -> DataFrame:
    number = leaf_expression(cut.tree, engine.dialect, cut.fragment_of_leaf.tolist())
    return engine.table.withColumn(FRAGMENT, number)


def _as_arrow(engine: SparkEngine, kind: Any) -> Any:
    """Return the names and types of rows in Arrow, where times have a zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(kind, timezone=engine.table.sparkSession.conf.get("spark.sql.session.timeZone"))


def _cast(frame: pl.DataFrame, expected: Any) -> Any:
    """Cast rows to these types, and whole numbers back to the decimals that they were."""
    # Arrow casts whole numbers to decimals only if every number of the type would fit.
    wholes = [field.name for field in expected if str(field.type).startswith("decimal")]
    wholes = [name for name in wholes if frame.schema[name].is_integer()]
    return frame.with_columns(frame[name].cast(pl.Decimal(38, 0)) for name in wholes).to_arrow().cast(expected)


def _make_release(cut: Fragmentation, y: str | None, marks: Sequence[str], expected: Any) -> Callable[..., Any]:
    """Return the function by which a worker releases a fragment."""

    def release(batches: Iterator[Any]) -> Iterator[Any]:
        parts = [pl.DataFrame(pl.from_arrow(batch)) for batch in batches]
        if not parts:
            return
        raw = as_polars(pl.concat(parts).to_arrow())
        number = int(raw[FRAGMENT][0])
        if raw.height != cut.rows[number] or (raw[FRAGMENT] != number).any():
            raise DataError(CHANGED)
        released, part = release_fragment(cut, raw.drop(FRAGMENT), number, y, marks)
        lost = pl.Series(PART, [as_numbers(part)] + [None] * (released.height - 1), pl.List(pl.Float64))
        yield from _cast(released.with_columns(lost), expected).to_batches()

    return release


def _release_rows(engine: SparkEngine, fitted: FittedToCounts, y: str | None, marks: Sequence[str]) -> DataFrame:
    """Return all rows, released in known groups where they are stored."""
    schema = fitted.schema
    kind = _released_type(engine.table, schema, fitted.recoding, y)
    kept = [name for name in engine.names if name not in left_out(y, schema)]
    expected, quasi = _as_arrow(engine, kind), [one.name for one in schema.quasi]

    def release(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            raw = as_polars(batch)
            released = fitted.release(files.mark_missing(raw, marks, quasi))
            yield from _cast(as_written(released, raw, schema, fitted.recoding, marks), expected).to_batches()

    return _map_in_arrow(engine.table.select(*map(quoted_column, kept)), release, kind)


def _map_in_arrow(table: DataFrame, function: Callable[..., Any], kind: Any) -> DataFrame:
    """Let workers apply a function to batches of rows; Spark alone does not find columns with a dot in their names."""
    names = table.columns

    def with_names(batches: Iterator[Any]) -> Iterator[Any]:
        named = (type(batch).from_arrays(batch.columns, names=names) for batch in batches)
        yield from run_generating_task(function, named)

    return table.toDF(*(f"c{j}" for j in range(len(names)))).mapInArrow(with_names, kind)


def _with_frequent(released: DataFrame, engine: SparkEngine, cut: Fragmentation, y: str | None) -> DataFrame:
    """Add the rows of frequent combinations of values, unchanged, which may be too many for one worker."""
    from pyspark.sql import functions as sf

    kind = _released_type(engine.table, cut.schema, cut.method.recoding, y, cut.summary.dates)
    for number, values in enumerate(cut.tree.frequent, cut.n_cut):
        rows = _number_fragments(engine, cut).filter(sf.col(FRAGMENT) == number)
        columns = []
        for field in kind:
            column = quoted_column(field.name)
            if field.name in values:
                # Equal values may have several notations, such as 40 and 40.0: they are released in one.
                value = values[field.name]
                as_text = cut.method.recoding in recodings_that_publish("texts")
                column = sf.lit(_as_text(value) if as_text else value)
            columns.append(column.cast(field.dataType).alias(field.name))
        released = released.unionByName(rows.select(*columns))
    return released


# Loss


def _observe(released: DataFrame, names: Sequence[str]) -> tuple[DataFrame, Any]:
    """Return the same rows, whose losses are summed while they are processed, and an observation with the sums."""
    from pyspark.sql import Observation

    observation = Observation()
    return released.observe(observation, *_sums(names)), observation


def _sums(names: Sequence[str]) -> list[Any]:
    from pyspark.sql import functions as sf

    n_numbers = N_NUMBERS + len(names)
    return [sf.sum(sf.get(sf.col(PART), sf.lit(i))).alias(f"part{i}") for i in range(n_numbers)]


def _observed(observation: Any) -> list[float] | None:
    """Return the sums over processed rows; None if none was processed yet."""
    # Spark Connect knows at once; otherwise asking waits for the end of a job, and there may be none. Spark reports the
    # end of a job soon.
    in_java = getattr(observation, "_jo", None)
    deadline = time.monotonic() + PATIENCE
    while in_java is not None and not in_java.future().isCompleted():
        if time.monotonic() > deadline:
            return None
        time.sleep(0.05)
    found = observation.get
    return [float(found[f"part{i}"] or 0.0) for i in range(len(found))] or None


# Types and texts


def _released_type(
    table: DataFrame, schema: Schema, recoding: str, y: str | None, dates: Collection[str] = frozenset()
) -> Any:
    """Return the names and types of the released columns, which Spark must know before there are any rows."""
    from pyspark.sql import types

    as_text, computed = (recoding in recodings_that_publish(kind) for kind in ("texts", "numbers"))
    quasi = {one.name: one for one in schema.quasi}
    hidden = {one.name for one in schema.identifiers} | set(left_out(y, schema))
    fields = []
    for field in table.schema:
        kind = field.dataType
        if field.name in quasi and as_text:
            kind = types.StringType()
        elif field.name in quasi and computed and quasi[field.name].kind == "numeric":
            kind = types.DateType() if field.name in dates else types.DoubleType()
        if field.name not in hidden:
            fields.append(types.StructField(field.name, kind))
    return types.StructType(fields)


def _as_text(value: Any) -> str | None:
    """Return a value as it is written in a release."""
    if value is None:
        return None
    if isinstance(value, bool):
        return plain_text(value, "boolean")
    if isinstance(value, (int, float, Decimal)):
        return plain_text(float(value) if isinstance(value, Decimal) else value, "number")
    return plain_text(value, "text" if isinstance(value, str) else "date")
