"""The same anonymizers on Spark, for tables that outgrow one machine.

Spark counts and shuffles, the driver grows a coarse tree on a sample, and the very same local classes release the
fragments on the workers. The rows of the table never come to the driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.anonymizers import Anonymizer
from shoal.data import files, frames
from shoal.data.schema import Schema, require_schema
from shoal.data.table import require_same_columns
from shoal.data.value_text import plain_text
from shoal.engines.base import write_route
from shoal.engines.fit_to_counts import Counted, fit_to_counts
from shoal.engines.fragments import Fragmentation, fragment
from shoal.engines.partial_release import (
    N_NUMBERS,
    PartialRelease,
    add_losses,
    as_numbers,
    as_written,
    column_reader,
    from_numbers,
    left_out,
    part_alike,
    release_part,
    require_guide,
)
from shoal.engines.spark.engine import SparkEngine, as_polars, quoted_column
from shoal.engines.spark.worker import answer_all
from shoal.errors import DataError, ShoalError
from shoal.partition.losses import Loss
from shoal.partition.recoding import recodings_that_publish
from shoal.privacy.rules import membership

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_FRAGMENT = 200_000
MOST_TUPLES = 5_000_000
"""Different rows that the driver takes from Spark, where a method is fitted to their counts."""
PATIENCE = 3.0
"""Seconds within which Spark tells of a job that has ended."""
FRAGMENT, PART = "__shoal_fragment", "__shoal_part"
CHANGED = "The table has changed since its rows were counted, so nothing is released: start again."


class SparkAnonymizer:
    """Run an anonymizer on a Spark DataFrame.

    Parameters
    ----------
    method : Anonymizer
        Any of the local classes, with its schema; it is not changed.
    rows_per_fragment : int
        Rows that a worker releases at a time, about. A table of fewer is one fragment, released as by the local class.
    y : str, optional
        Column with what :class:`shoal.AccuracyGuided` is guided by, such as predictions; it is left out of the release
        if it is not in the schema. By default the schema's target.
    missing_marks : sequence of str
        Texts that stand for a missing value.
    random_state : int
        Seed of the sample.

    Attributes
    ----------
    fragments_ : int array
        Rows of each fragment; of one that is released where it lies, all rows.
    """

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
        """The released rows, which are worked out when they are written or counted.

        What is counted beforehand is the table as it is then: a job fails if rows of a fragment have come or gone
        since, and every fragment is checked on its released values before it leaves its worker. Rows that are put into
        groups wherever they lie, as those of Flash and many that are alike, are not counted again: if they may have
        changed meanwhile, :func:`check` what was written. The table is read several times: keep it
        (``table.cache()``) if it takes long to make.
        """
        schema = self._checked_schema(table)
        engine = SparkEngine(table, schema, self.missing_marks)
        many = engine.count() > self.rows_per_fragment
        counted = fit_to_counts(engine, self.method, MOST_TUPLES) if self.method.wants_counts and many else None
        if counted is not None:
            self.fragments_ = np.array([counted.n_rows])
            self._released, self._known = None, [counted.part]
            return _release_rows(engine, counted, self.y, self.missing_marks)
        cut = fragment(engine, self.method, self.rows_per_fragment, self.random_state, column_reader(self.y))
        self.fragments_ = cut.rows
        self._known = [part_alike(schema, int(n)) for n in cut.released[len(cut.rows) - cut.n_alike :]]
        refined = _refine(engine, cut, self.y, self.missing_marks)
        self._released = refined
        observed, self._observation = _observe(refined, [one.name for one in schema.quasi])
        return _with_alike(observed.drop(PART), engine, cut, self.y)

    def loss(self) -> Loss:
        """What the release loses.

        Once it was written or counted as a whole this is known; else a job of its own works it out.
        """
        return add_losses(self._parts())

    def suppressed(self) -> int:
        """How many rows are suppressed; known when the loss is."""
        return sum(part.sizes.n_suppressed for part in self._parts())

    def _parts(self) -> list[PartialRelease]:
        if not hasattr(self, "_known"):
            raise ShoalError("There is no release yet: call fit_transform first.")
        if self._released is not None:
            self._known, self._released = [*self._known, self._sum_parts()], None
        return self._known

    def _sum_parts(self) -> PartialRelease:
        assert self.method.schema is not None
        assert self._released is not None
        names = [one.name for one in self.method.schema.quasi]
        found = _observed(self._observation) if membership(self.method.constraints) is None else None
        refined = int(self.fragments_.sum()) - sum(part.sizes.n_rows for part in self._known)
        # Who only looked at some rows has seen only some fragments.
        if found is None or found[0] != refined:
            row = self._released.agg(*_sums(names)).first()
            assert row is not None
            found = [float(value or 0.0) for value in row]
        return from_numbers(found, names)

    def _checked_schema(self, table: DataFrame) -> Schema:
        schema = self.method.schema
        require_schema(schema)
        assert schema is not None
        require_guide(self.y, table.columns)
        require_same_columns([name for name in table.columns if name not in left_out(self.y, schema)], schema)
        for constraint in self.method.constraints:
            if constraint.joined_only_if is not None:
                raise ShoalError(
                    f"{constraint.describe()} may break where groups of two fragments are released alike: use "
                    f"{constraint.joined_only_if}, or work in memory."
                )
        return schema


# What workers do


def _refine(engine: SparkEngine, cut: Fragmentation, y: str | None, marks: Sequence[str]) -> DataFrame:
    """The rows of all fragments that are cut, as they are released; the first of each has what it loses in PART."""
    from pyspark.sql import functions as sf
    from pyspark.sql import types

    schema = cut.method.schema
    assert schema is not None
    parted, n_cut = _parted(engine, cut), len(cut.rows) - cut.n_alike
    if cut.n_alike:
        parted = parted.filter(sf.col(FRAGMENT) < n_cut)
    kind = _released_type(engine.table, schema, cut.method.recoding, y, cut.whole.dates)
    kind = kind.add(PART, types.ArrayType(types.DoubleType()))
    expected = _as_arrow(engine, kind)
    # A fragment is a partition: unlike with groupBy and applyInArrow, Spark need not sort the rows first.
    fragments = parted.repartitionById(max(n_cut, 1), sf.col(FRAGMENT))
    return _map_in_arrow(fragments, _make_refine(cut, y, marks, expected), kind)


def _parted(engine: SparkEngine, cut: Fragmentation) -> DataFrame:
    number = write_route(cut.crown, engine.words, cut.fragment_of_leaf.tolist())
    return engine.table.withColumn(FRAGMENT, number)


def _as_arrow(engine: SparkEngine, kind: Any) -> Any:
    """Names and types of rows as Arrow has them, in which times have a zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(kind, timezone=engine.table.sparkSession.conf.get("spark.sql.session.timeZone"))


def _cast(frame: pl.DataFrame, expected: Any) -> Any:
    """Rows of these types; whole numbers become the decimals again that they were."""
    # Arrow makes decimals of whole numbers only where all that there could be would fit, not where these do.
    wholes = [field.name for field in expected if str(field.type).startswith("decimal")]
    wholes = [name for name in wholes if frame.schema[name].is_integer()]
    return frame.with_columns(frame[name].cast(pl.Decimal(38, 0)) for name in wholes).to_arrow().cast(expected)


def _make_refine(cut: Fragmentation, y: str | None, marks: Sequence[str], expected: Any) -> Callable[..., Any]:
    """What a worker does with a fragment."""
    method, rows, whole = cut.method, cut.rows, cut.whole
    dates = whole.dates
    schema = method.schema
    assert schema is not None
    guides, read_guide = left_out(y, schema), column_reader(y)

    def refine(batches: Iterator[Any]) -> Iterator[Any]:
        parts = [pl.DataFrame(pl.from_arrow(batch)) for batch in batches]
        if not parts:
            return
        raw = as_polars(pl.concat(parts).to_arrow())
        number = int(raw[FRAGMENT][0])
        if raw.height != rows[number] or (raw[FRAGMENT] != number).any():
            raise DataError(CHANGED)
        raw = raw.drop(FRAGMENT)
        guide = None if read_guide is None else read_guide(frames.open_frame(raw))
        frame = raw.drop(guides)
        part = release_part(method, files.mark_missing(frame, marks, schema.names), whole, guide, number)
        released = as_written(part.frame, frame, schema, method.recoding, marks, dates)
        lost = pl.Series(PART, [as_numbers(part)] + [None] * (released.height - 1), pl.List(pl.Float64))
        yield from _cast(released.with_columns(lost), expected).to_batches()

    return refine


def _release_rows(engine: SparkEngine, counted: Counted, y: str | None, marks: Sequence[str]) -> DataFrame:
    """All rows, put into groups that are known, wherever they lie."""
    schema = counted.schema
    kind = _released_type(engine.table, schema, counted.recoding, y)
    kept = [name for name in engine.names if name not in left_out(y, schema)]
    expected, looked_at = _as_arrow(engine, kind), [one.name for one in schema.quasi]

    def release(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            raw = as_polars(batch)
            released = counted.release(files.mark_missing(raw, marks, looked_at))
            yield from _cast(as_written(released, raw, schema, counted.recoding, marks), expected).to_batches()

    return _map_in_arrow(engine.table.select(*map(quoted_column, kept)), release, kind)


def _map_in_arrow(table: DataFrame, function: Callable[..., Any], kind: Any) -> DataFrame:
    """Let workers apply a function to batches of rows; Spark itself does not find columns with a dot in their names."""
    names = table.columns

    def with_names(batches: Iterator[Any]) -> Iterator[Any]:
        named = (type(batch).from_arrays(batch.columns, names=names) for batch in batches)
        yield from answer_all(function, named)

    return table.toDF(*(f"c{j}" for j in range(len(names)))).mapInArrow(with_names, kind)


def _with_alike(released: DataFrame, engine: SparkEngine, cut: Fragmentation, y: str | None) -> DataFrame:
    """The release with rows that are all alike, as they are; there may be too many for one worker."""
    from pyspark.sql import functions as sf

    method, schema = cut.method, cut.method.schema
    assert schema is not None
    kind = _released_type(engine.table, schema, method.recoding, y, cut.whole.dates)
    for i, values in enumerate(cut.crown.alike):
        rows = _parted(engine, cut).filter(sf.col(FRAGMENT) == len(cut.rows) - cut.n_alike + i)
        columns = []
        for field in kind:
            column = quoted_column(field.name)
            if field.name in values:
                # Rows that mean the same may be written in several ways, such as 40 and 40.0: they get one.
                value = values[field.name]
                column = sf.lit(_as_text(value) if method.recoding in recodings_that_publish("texts") else value)
            columns.append(column.cast(field.dataType).alias(field.name))
        released = released.unionByName(rows.select(*columns))
    return released


# What is lost


def _observe(refined: DataFrame, names: Sequence[str]) -> tuple[DataFrame, Any]:
    """The same rows, with what they lose being added up while they pass, and where that is told."""
    from pyspark.sql import Observation

    observation = Observation()
    return refined.observe(observation, *_sums(names)), observation


def _sums(names: Sequence[str]) -> list[Any]:
    from pyspark.sql import functions as sf

    n_numbers = N_NUMBERS + len(names)
    return [sf.sum(sf.get(sf.col(PART), sf.lit(i))).alias(f"part{i}") for i in range(n_numbers)]


def _observed(observation: Any) -> list[float] | None:
    """What was added up while rows passed; None if nothing has passed yet."""
    # Spark Connect knows at once; else asking would wait for a job to end, and nobody may have started one. Of one that
    # has ended Spark tells soon.
    told = getattr(observation, "_jo", None)
    deadline = time.monotonic() + PATIENCE
    while told is not None and not told.future().isCompleted():
        if time.monotonic() > deadline:
            return None
        time.sleep(0.05)
    found = observation.get
    return [float(found[f"part{i}"] or 0.0) for i in range(len(found))] or None


# Checking


# Types and texts


def _released_type(
    table: DataFrame, schema: Schema, recoding: str, y: str | None, dates: Collection[str] = frozenset()
) -> Any:
    """Names and types of the released columns, which Spark must know before there are any rows."""
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
    """A value as it is written in a release."""
    if value is None:
        return None
    if isinstance(value, bool):
        return plain_text(value, "boolean")
    if isinstance(value, (int, float, Decimal)):
        return plain_text(float(value) if isinstance(value, Decimal) else value, "number")
    return plain_text(value, "text" if isinstance(value, str) else "date")
