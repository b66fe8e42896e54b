"""Tables that Spark reads and writes by the names of files and folders, with an error instead of silent losses."""

from __future__ import annotations

import csv
import json
import os
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import polars as pl

from shoal.data.files import CSV, find_separator, require_alike
from shoal.engines.spark.engine import quoted_column
from shoal.engines.spark.session import RunningSpark, innermost_reason
from shoal.errors import DataError, ShoalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NEVER = "\0"
"""Mark for missing values that no file contains: an empty text is not a missing value."""
ADDRESS = re.compile(r"[A-Za-z][\w+.-]*:/")
FILE = "__shoal_file"
COLUMN_MAPPING = 2
"""Version of the Delta protocol in which columns may have other names in the files."""
HARMLESS_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of a Delta table that do not change the meaning of its files."""


def read(spark: RunningSpark, source: str, separator: str | None = None) -> DataFrame:
    """Read a CSV or Parquet file, a folder of such files, or a Delta table; the columns of CSV files are texts."""
    kind = kind_of(spark, source)
    try:
        if kind == "csv":
            return _read_csv(spark, source, separator)
        if kind == "delta":
            return _read_delta(spark, source)
        table = spark.session.read.parquet(_as_it_is(source))
        _require_alike(spark, source, table)
        return table
    except ShoalError:
        raise
    except Exception as error:  # Spark raises many types
        raise DataError(
            f"{source!r} cannot be read by Spark ({innermost_reason(error)}): name a CSV or Parquet file or folder, "
            "with columns of types that Spark knows."
        ) from None


def _as_it_is(name: str) -> str:
    """Escape a name, so that Spark does not take it for a pattern."""
    return re.sub(r"[\\\[\]{}*?]", r"\\\g<0>", name)


def _read_csv(spark: RunningSpark, source: str, separator: str | None) -> DataFrame:
    first, place = first_line(spark, source), _as_it_is(source)
    separator = separator or find_separator(first)
    names = next(csv.reader([first], delimiter=separator), [])
    if len({name.lower() for name in names}) < len(names) or "" in names:
        listed = ", ".join(map(repr, names))
        raise DataError(
            f"{source!r} has columns without a name, or with names that Spark equates, {listed}: rename some."
        )
    _require_whole_text(spark, source, len(names))
    # Otherwise Spark silently cuts or fills lines that do not fit the columns, also if only some columns are read, and
    # takes the columns of each file for those of the first.
    strict = spark.session.read.option("columnPruning", False)
    return strict.csv(
        place, header=True, sep=separator, escape='"', mode="FAILFAST", enforceSchema=False, nullValue=NEVER
    )


def first_line(spark: RunningSpark, source: str) -> str:
    """Return the line of column names of a CSV file."""
    first = spark.session.read.text(_as_it_is(source)).first()
    if first is None:
        raise DataError(f"{source!r} is empty: name a file with a line of column names.")
    return str(first[0]).removeprefix("\ufeff")


def _require_whole_text(spark: RunningSpark, source: str, n_columns: int) -> None:
    """Refuse texts that Spark would silently misread or leave out."""
    from pyspark.sql import functions as sf

    lines = spark.session.read.text(_as_it_is(source))
    if lines.filter(~sf.is_valid_utf8("value")).take(1):
        raise DataError(f"{source!r} is not UTF-8 text: save it as UTF-8 first.")
    if n_columns == 1 and lines.filter(sf.col("value") == "").take(1):
        raise DataError(f"{source!r} has one column and empty lines, which Spark leaves out: make it a Parquet file.")


def _require_alike(spark: RunningSpark, source: str, table: DataFrame) -> None:
    """Refuse Parquet files with different columns, which Spark would fill with missing values."""
    # Names of files are addresses, in which special characters are percent-encoded.
    names = sorted(map(unquote, table.inputFiles()))
    if len(names) > 1 and is_local(spark, source):
        require_alike([local_path(spark, name) for name in names], texts_alike=True)
    elif len(names) > 1:
        _require_alike_elsewhere(spark, names)


def _require_alike_elsewhere(spark: RunningSpark, names: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: dict(spark.session.read.parquet(_as_it_is(name)).dtypes), names))
    for file, types in zip(names, found, strict=True):
        for name in sorted({*types, *found[0]}):
            if types.get(name) != found[0].get(name):
                has, had = (one.get(name, "none") for one in (types, found[0]))
                raise DataError(
                    f"The Parquet files have different columns: {name!r} is of type {has} in {file}, and {had} in "
                    f"{names[0]}: make them alike."
                )


def _read_delta(spark: RunningSpark, source: str) -> DataFrame:
    """Read a Delta table by Spark's library, or else the files that the package deltalake lists."""
    try:
        return spark.session.read.format("delta").load(source)
    except Exception as error:  # Spark raises many types
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
    try:
        import deltalake

        table = deltalake.DeltaTable(source)
    except Exception as error:  # it raises many types, too
        raise DataError(
            f"The Delta table {source!r} cannot be read ({innermost_reason(error)}): start Spark with the Delta "
            "library, or pip install deltalake."
        ) from None
    # Reading the files alone is wrong if a feature changes their meaning.
    needed = set(table.protocol().reader_features or ()) - HARMLESS_FEATURES
    if table.protocol().min_reader_version == COLUMN_MAPPING:
        needed.add("column mapping")
    if needed:
        raise DataError(
            f"The Delta table {source!r} uses {', '.join(sorted(needed))}: start Spark with the Delta library."
        )
    return _read_listed(spark, table)


def _read_listed(spark: RunningSpark, table: Any) -> DataFrame:
    """Read the files of a Delta table, and add the values of the columns that it is partitioned by."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    common = table.metadata().partition_columns
    inside = StructType([field for field in schema if field.name not in common])
    rows = spark.session.read.schema(inside).parquet(*map(_as_it_is, table.file_uris()))
    if common:
        # The names of folders hold these values, too, but Spark does not decode all letters as they were encoded.
        listed = pl.DataFrame(table.get_add_actions(flatten=True))
        name = pl.col("path").str.split("/").list.last()
        listed = listed.select(name.alias(FILE), *(pl.col(f"partition.{one}").alias(one) for one in common))
        if listed[FILE].n_unique() < listed.height:
            raise DataError("Several files of the Delta table have the same name: start Spark with the Delta library.")
        known = sf.broadcast(spark.session.createDataFrame(listed.to_arrow()))
        rows = rows.withColumn(FILE, sf.col("_metadata.file_name")).join(known, FILE)
    return rows.select(*(quoted_column(field.name).cast(field.dataType).alias(field.name) for field in schema))


def kind_of(spark: RunningSpark, source: str) -> str:
    """Return the format of a file or folder: csv, parquet or delta."""
    files, path = _file_system(spark, source)
    if not files.exists(path):
        raise DataError(f"{source!r} does not exist: name a file or folder that Spark can read.")
    if not files.isDirectory(path):
        return "csv" if is_csv(source) else "parquet"
    inside = {status.getPath().getName(): status.isDirectory() for status in files.listStatus(path)}
    if "_delta_log" in inside:
        return "delta"
    # Spark ignores hidden names, and all folders but those named after the value that their rows have.
    seen = {name: is_folder for name, is_folder in inside.items() if name[:1] not in (".", "_")}
    for name, is_folder in seen.items():
        if is_folder and "=" not in name and files.listFiles(_path(spark, f"{source}/{name}"), True).hasNext():
            raise DataError(f"{source!r} contains the folder {name!r}, which Spark would leave out: move it away.")
    if is_csv(source):
        return "csv"
    return "csv" if any(map(is_csv, seen)) and not any(name.endswith(".parquet") for name in seen) else "parquet"


def is_csv(name: str) -> bool:
    """Return True if a name is that of a CSV file."""
    return name.lower().endswith(tuple(CSV))


def write(table: DataFrame, place: str, out: str, separator: str | None) -> None:
    """Write a table to a place, in the format of its final name."""
    from pyspark.sql import functions as sf

    if is_csv(out):
        # Spaces around a value are part of it.
        kept = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
        # A missing number is an empty field; "NaN" would be read as a text.
        for field in table.schema:
            if field.dataType.typeName() in ("double", "float"):
                number = quoted_column(field.name)
                table = table.withColumn(field.name, sf.when(~sf.isnan(number), number))
        table.write.csv(place, header=True, sep=_separator_of(out, separator), escape='"', **kept)  # type: ignore[arg-type]
    else:
        table.write.parquet(place)


def read_written(spark: RunningSpark, place: str, out: str, separator: str | None) -> DataFrame:
    """Read a table that was written."""
    if is_csv(out):
        # Values may contain line breaks. One worker then reads a whole file, which holds a fragment, or the rows that
        # one worker has written.
        how: dict[str, Any] = {"header": True, "sep": _separator_of(out, separator), "escape": '"', "multiLine": True}
        return spark.session.read.csv(_as_it_is(place), nullValue=NEVER, **how)
    return spark.session.read.parquet(_as_it_is(place))


def _separator_of(out: str, separator: str | None) -> str:
    return separator or ("\t" if out.endswith(".tsv") else ",")


# Names of files


@contextmanager
def renamed(spark: RunningSpark, out: str) -> Iterator[str]:
    """Yield a place to write to; at the end it gets its final name, or is removed after an error."""
    place = beside(out, "unfinished")
    with removed(spark, place):
        yield place
        # If the name has been taken meanwhile, the table would be moved into that folder.
        require_free(spark, out)
        files, path = _file_system(spark, place)
        if not files.rename(path, _path(spark, out)):
            raise DataError(f"{out!r} cannot be written: make its folder writable.")


@contextmanager
def removed(spark: RunningSpark, place: str | None) -> Iterator[None]:
    """Remove a place at the end, unless it is None."""
    try:
        yield
    finally:
        if place is not None:
            files, path = _file_system(spark, place)
            files.delete(path, True)


def beside(out: str, what: str) -> str:
    """Return a name in the same folder that no reader of the folder takes for data."""
    head, slash, tail = out.rstrip("/").rpartition("/")
    return f"{head}{slash}.{tail}.{what}-{uuid.uuid4().hex[:12]}"


def require_free(spark: RunningSpark, out: str) -> None:
    """Refuse a name that is taken, or that Spark cannot write to."""
    files, path = _file_system(spark, out)
    if files.exists(path):
        raise DataError(f"{out!r} exists already: choose another name, or remove it first.")
    parent = str(PurePosixPath(out).parent) if "://" not in out else out.rstrip("/").rpartition("/")[0]
    files, path = _file_system(spark, parent or ".")
    if not files.exists(path):
        raise DataError(f"The folder {parent!r} of {out!r} does not exist: create it first.")
    if is_csv(out) and _as_it_is(out) != out:
        # Spark takes every name for a pattern if values may contain line breaks.
        raise DataError(f"Spark cannot read files named {out!r}: choose a name without any of [ ] {{ }} * ? \\.")


def absolute_name(spark: RunningSpark, name: str | Path) -> str:
    """Return an absolute name: Java may have been started in another folder."""
    if ADDRESS.match(str(name)):
        return str(name)
    home: Any = spark.context._jvm
    java: Any = spark.context._jsc
    scheme = home.org.apache.hadoop.fs.FileSystem.get(java.hadoopConfiguration()).getUri().getScheme()
    return os.path.abspath(name) if scheme == "file" else str(name)


def _path(spark: RunningSpark, name: str) -> Any:
    jvm: Any = spark.context._jvm
    return jvm.org.apache.hadoop.fs.Path(name)


def _file_system(spark: RunningSpark, name: str) -> tuple[Any, Any]:
    """Return Hadoop's file system, which resolves names such as hdfs://…, and the path."""
    path = _path(spark, name)
    java: Any = spark.context._jsc
    return path.getFileSystem(java.hadoopConfiguration()), path


def is_local(spark: RunningSpark, name: str) -> bool:
    """Return True if a name is on a file system of the machines themselves, which all of them must share."""
    files, _ = _file_system(spark, name)
    return bool(files.getUri().getScheme() == "file")


def local_path(spark: RunningSpark, name: str) -> Path:
    """Return the path of such a name, for opening it without Spark."""
    files, path = _file_system(spark, name)
    return Path(files.makeQualified(path).toUri().getPath())
