"""The check of a Spark DataFrame: workers count and measure groups, and the driver combines their levels."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.data.schema import Schema, require_schema
from shoal.data.table import Column as Encoded
from shoal.engines.base import NO_ROWS, encode_values
from shoal.engines.spark.engine import SparkEngine, collect
from shoal.engines.spark.worker import run_generating_task
from shoal.errors import DataError
from shoal.privacy.checking import Checked, Judge, require_checkable
from shoal.privacy.counts import count_groups
from shoal.privacy.models import PrivacyModel, check_constraints
from shoal.privacy.rules import membership

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENTRIES, LEVELS = "__shoal_entries", "levels"


def check(
    table: DataFrame,
    schema: Schema,
    constraints: Sequence[PrivacyModel] = (),
    *,
    threshold: float = 0.2,
    missing_marks: Sequence[str] = (),
) -> Checked:
    """Measure every privacy model on a Spark DataFrame; see :func:`shoal.check`.

    One aggregation counts the values in each group of equal rows; workers measure the groups, and each sends a few
    numbers to the driver.
    """
    require_schema(schema)
    constraints = check_constraints(constraints)
    require_checkable(table.columns, schema)
    engine = SparkEngine(table, schema, missing_marks, compared=False)
    member_of = membership(constraints)
    coded = [encode_values(engine.distinct(one.name, member_of), one) for one in schema.sensitive]
    columns = [column for column, _ in coded]
    judge = Judge(schema, constraints, table.columns, threshold=threshold)
    groups = _count_in_groups(engine, schema, coded, member_of)
    measure = partial(run_generating_task, _make_measure(judge, columns))
    found = collect(groups.mapInArrow(measure, f"{LEVELS} binary"))[LEVELS].to_list()
    if not found:
        raise DataError(NO_ROWS)
    for pickled in found:
        judge.add(pickle.loads(pickled))
    return judge.result()


def _count_in_groups(
    engine: SparkEngine, schema: Schema, coded: Sequence[tuple[Encoded, pl.DataFrame]], member_of: str | None
) -> DataFrame:
    """Count the combinations of sensitive values in each group."""
    from pyspark.sql import functions as sf

    quasi = [f"q{j}" for j in range(len(schema.quasi))]
    rows = engine.table.select(
        *(engine.values[one.name].alias(q) for one, q in zip(schema.quasi, quasi, strict=True)),
        (sf.lit(True) if member_of is None else engine.is_member(member_of)).alias("member"),
        *(engine.values[column.name].alias(f"v{j}") for j, (column, _) in enumerate(coded)),
    )
    for j, (_, codes_of) in enumerate(coded):
        known = engine.table.sparkSession.createDataFrame(codes_of.to_arrow()).toDF(f"w{j}", f"c{j}")
        rows = rows.join(sf.broadcast(known), sf.col(f"v{j}").eqNullSafe(sf.col(f"w{j}")), "left")
    codes = [f"c{j}" for j in range(len(coded))]
    counted = rows.groupBy(*quasi, "member", *codes).agg(sf.count("*").alias("n"))
    return counted.groupBy(*quasi).agg(sf.collect_list(sf.struct("member", *codes, "n")).alias(ENTRIES)).select(ENTRIES)


def _make_measure(judge: Judge, columns: Sequence[Encoded]) -> Callable[..., Any]:
    """Return the function by which a worker measures groups and returns their worst levels."""
    from pyspark.sql import types
    from pyspark.sql.pandas.types import to_arrow_schema

    expected = to_arrow_schema(types.StructType([types.StructField(LEVELS, types.BinaryType())]))

    def measure(batches: Iterator[Any]) -> Iterator[Any]:
        own = judge.another()
        for batch in batches:
            lists = pl.from_arrow(batch)[ENTRIES]  # type: ignore[index]
            if len(lists) == 0:
                continue
            labels = np.repeat(np.arange(len(lists)), lists.list.len().to_numpy())
            entries = lists.explode(empty_as_null=False, keep_nulls=False).struct.unnest()
            members = entries["member"].to_numpy()
            # Sensitive values of rows that are not released are not counted, and may lack a code.
            coded = [
                replace(column, codes=entries[f"c{j}"].fill_null(0).to_numpy()) for j, column in enumerate(columns)
            ]
            weights = entries["n"].to_numpy()
            own.look_at(count_groups(labels, coded, None if members.all() else members, weights))
        if own.has_looked:
            found = pl.DataFrame({LEVELS: [pickle.dumps(own.together())]})
            yield from found.to_arrow().cast(expected).to_batches()

    return measure
