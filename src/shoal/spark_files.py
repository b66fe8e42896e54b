"""Files and folders released and checked by Spark: what the command line does with ``--engine spark``."""

from __future__ import annotations

import csv
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import polars as pl

from shoal._piece_check import check_pieces
from shoal._piece_engine import PieceEngine, Reading, can_compare, pieces_of, plain_types, rows_a_task
from shoal._spark_engine import SparkEngine, quoted_column
from shoal._spark_session import RunningSpark, innermost_reason, running_spark, told_in_a_sentence
from shoal._spark_worker import answer, answer_all
from shoal.anonymizers import Anonymizer
from shoal.errors import DataError, ShoalError
from shoal.files import as_marks, find_separator
from shoal.guards import membership
from shoal.in_pieces import release_pieces
from shoal.metrics import Loss
from shoal.parts import add_losses, left_out, require_guide
from shoal.privacy import DeltaDisclosure, DeltaPresence, KAnonymity, KMap, PrivacyModel, check_constraints
from shoal.release import (
    Checked,
    Evidence,
    Judge,
    make_anonymizer,
    parameters_of,
    require_checkable,
    require_levels,
)
from shoal.schema import Schema, require_schema
from shoal.spark import ROWS_PER_FRAGMENT, SparkAnonymizer, check, check_columns
from shoal.table import require_same_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CSV_ENDINGS = (".csv", ".tsv", ".txt")
NEVER = "\0"
"""What stands for a missing value in no file: an empty text is another thing than nothing."""
ADDRESS = re.compile(r"[A-Za-z][\w+.-]*:/")
FILE = "__shoal_file"
COLUMN_MAPPING = 2
"""Version of a Delta table's protocol in which columns may have other names in the files."""
HARMLESS_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of a Delta table that do not change what its files mean."""


def anonymize_files(
    source: str | Path,
    schema: Schema,
    k: int,
    out: str | Path,
    *,
    method: str = "mondrian",
    constraints: Sequence[PrivacyModel] = (),
    master: str | SparkSession | RunningSpark | None = None,
    memory: int | None = None,
    rows_per_fragment: int | None = None,
    missing_marks: Sequence[str] = (),
    separator: str | None = None,
    y: str | None = None,
    random_state: int | None = None,
    **options: Any,
) -> Evidence:
    """Anonymize files by Spark, and verify what was written before it gets its name.

    Parameters
    ----------
    source : str
        A CSV or Parquet file, a folder of such, or a Delta table, wherever Spark can read it.
    schema : Schema
    k : int
    out : str
        The folder to write, which must not be there yet: Parquet, or CSV if its name ends so.
    method, constraints, random_state
        As for :func:`shoal.anonymize`.
    master : str, SparkSession or RunningSpark, optional
        Where Spark runs, such as ``local[4]`` or ``spark://host:7077``; by default what it is set up for. What runs
        already, a session or what :func:`running_spark` gives, goes on to run.
    memory : int, optional
        Bytes for Spark on this machine, about: half for Java, half for the methods.
    rows_per_fragment, y
        As for :class:`shoal.spark.SparkAnonymizer`.
    missing_marks, separator
        As for :func:`shoal.files.read_table`.
    **options
        Further parameters of the method.
    """
    require_schema(schema)
    _require_rows_and_seed(rows_per_fragment, random_state)
    anonymizer = make_anonymizer(method, schema, k, constraints=constraints, random_state=random_state, **options)
    job = Job(
        method,
        anonymizer,
        (KAnonymity(k), *check_constraints(constraints)),
        rows_per_fragment=rows_per_fragment,
        y=y,
        missing_marks=as_marks(missing_marks),
        seed=random_state or 0,
    )
    with running_spark(master, memory) as spark, told_in_a_sentence():
        source, out = _full_name(spark, source), _full_name(spark, out)
        _require_free(spark, out)
        with _renamed(spark, out) as place:
            types = _types_here(spark, source, out, job)
            if types is None:
                done = _release_frame(spark, source, out, place, separator, job)
            else:
                done = _release_files(spark, source, types, out, place, job)
            # Before the release gets its name: what goes wrong leaves nothing behind.
            require_levels(done.checked, method)
    parameters = parameters_of(anonymizer, constraints) | {"engine": "spark", "fragments": done.n_fragments}
    return Evidence(schema, method, done.checked, done.loss, done.suppressed, parameters)


class Job(NamedTuple):
    """What is asked for."""

    name: str
    method: Anonymizer
    constraints: Sequence[PrivacyModel]
    rows_per_fragment: int | None
    y: str | None
    missing_marks: Sequence[str]
    seed: int

    @property
    def schema(self) -> Schema:
        """That of the table."""
        assert self.method.schema is not None
        return self.method.schema


class Done(NamedTuple):
    """What became of it."""

    checked: Checked
    loss: Loss
    suppressed: int
    n_fragments: int


def _release_frame(spark: RunningSpark, source: str, out: str, place: str, separator: str | None, job: Job) -> Done:
    """Let Spark read, shuffle and write the rows, wherever they lie."""
    table = read(spark, source, separator)
    if separator is None and _kind_of(spark, source) == "csv" and source.endswith(".tsv") == out.endswith(".tsv"):
        separator = find_separator(_first_line(spark, source))
    released = SparkAnonymizer(
        job.method,
        rows_per_fragment=job.rows_per_fragment or ROWS_PER_FRAGMENT,
        y=job.y,
        missing_marks=job.missing_marks,
        random_state=job.seed,
    )
    member_of = membership(job.constraints)
    # Rows that are not handed out are needed to see what holds in the population.
    everyone = place if member_of is None else _beside(out, "population")
    with _removed(spark, None if member_of is None else everyone):
        _write(released.fit_transform(table), everyone, out, separator)
        written = _read_written(spark, everyone, out, separator)
        marks: dict[str, Any] = {
            "missing_marks": job.missing_marks,
            "marked": [one.name for one in job.schema.sensitive],
        }
        checked, n_rows = check_columns(written, job.schema, job.constraints, **marks), int(released.fragments_.sum())
        if member_of is None and checked.rows != n_rows:
            raise DataError(
                f"Of {n_rows} rows only {checked.rows} can be read again from what was written: a line of a CSV file "
                "without any value is none, so name a Parquet file."
            )
        if member_of is not None:
            require_levels(checked, job.name)
            is_member = SparkEngine(written, job.schema, compared=False).is_member(member_of)
            handed_out = written.filter(is_member).drop(member_of)
            _write(handed_out, place, out, separator)
            rest = [one for one in job.constraints if not isinstance(one, (KMap, DeltaPresence))]
            written = _read_written(spark, place, out, separator)
            require_levels(check_columns(written, job.schema, rest, **marks), job.name)
    return Done(checked, released.loss(), released.suppressed(), len(released.fragments_))


# Files that workers can read themselves


def _types_here(spark: RunningSpark, source: str, out: str, job: Job) -> dict[str, pl.DataType] | None:
    """The columns of a table that tasks can read and write themselves; None if Spark must do it.

    Rows that pass through Java, a shuffle and Python take five times as long.
    """
    if not _can_open(spark, source, job.constraints) or not _is_here(spark, out) or _is_csv(out):
        return None
    if job.method._wants_counts:
        return None
    if any(isinstance(one, DeltaDisclosure) and not one.count_absent for one in job.constraints):
        return None
    types = plain_types(_local(spark, source))
    return types if types is not None and can_compare(types, job.schema) else None


def _can_open(spark: RunningSpark, source: str, constraints: Sequence[PrivacyModel]) -> bool:
    """Whether tasks can look at a table themselves; those that part it know nothing of a population."""
    return _is_here(spark, source) and _kind_of(spark, source) == "parquet" and membership(constraints) is None


def _release_files(
    spark: RunningSpark, source: str, types: Mapping[str, pl.DataType], out: str, place: str, job: Job
) -> Done:
    """Let tasks read, sort and write files themselves, all of them in folders beside the release."""
    require_guide(job.y, types)
    require_same_columns([name for name in types if name not in left_out(job.y, job.schema)], job.schema)
    reading = Reading.of(types, job.schema, job.missing_marks, job.y)
    with _removed(spark, beside := _beside(out, "sorted")):
        scratch = _local(spark, beside)
        fitting = rows_a_task(len(types))
        rows_per_fragment = job.rows_per_fragment or fitting
        # Where there is room for larger fragments there is for larger pieces, which meet fewer of them.
        pieces = pieces_of(_local(spark, source), max(fitting, rows_per_fragment))
        engine = PieceEngine(SparkCrew(spark), pieces, reading, scratch)
        checked, parts, n_fragments = release_pieces(
            engine,
            job.method,
            job.constraints,
            _local(spark, place),
            rows_per_fragment=rows_per_fragment,
            seed=job.seed,
        )
    return Done(checked, add_losses(parts), sum(part.n_suppressed for part in parts), n_fragments)


def _check_opened(
    spark: RunningSpark,
    source: str,
    schema: Schema,
    constraints: Sequence[PrivacyModel],
    threshold: float,
    marks: Sequence[str],
) -> Checked | None:
    """Let tasks read files that are to be checked themselves; None if Spark must do it."""
    looked_at = [one.name for one in (*schema.quasi, *schema.sensitive)]
    if not _can_open(spark, source, constraints):
        return None
    types = plain_types(_local(spark, source), looked_at)
    if types is None:
        return None
    require_checkable(list(types), schema)
    pieces = pieces_of(_local(spark, source), rows_a_task(len(looked_at)))
    judge = Judge(schema, constraints, list(types), threshold=threshold)
    return check_pieces(SparkCrew(spark), pieces, Reading.of(types, schema, marks), judge)


class SparkCrew:
    """Spark runs tasks, one for each item; what tasks leave in boxes is shuffled."""

    def __init__(self, spark: RunningSpark) -> None:
        self._context = spark.context

    def each(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply a function to each item."""
        return self._context.parallelize(items, max(len(items), 1)).map(partial(answer, function)).collect()

    def by_box(
        self,
        sort_out: Callable[[Any], Iterable[tuple[int, bytes]]],
        items: Sequence[Any],
        n_boxes: int,
        function: Callable[[list[bytes]], Any],
    ) -> list[Any]:
        """Let something be put into boxes for each item, and apply a function to what is in each box."""
        found = self._context.parallelize(items, max(len(items), 1)).flatMap(partial(answer_all, sort_out))
        return found.partitionBy(n_boxes, int).mapPartitions(partial(_of_box, function)).collect()


def _of_box(function: Callable[[list[bytes]], Any], found: Iterable[tuple[int, bytes]]) -> list[Any]:
    return [answer(function, [one for _, one in found])]


def _is_here(spark: RunningSpark, name: str) -> bool:
    """Whether a name leads to a file system of the machines themselves, which all of them must share."""
    files, _ = _file_system(spark, name)
    return bool(files.getUri().getScheme() == "file")


def _local(spark: RunningSpark, name: str) -> Path:
    files, path = _file_system(spark, name)
    return Path(files.makeQualified(path).toUri().getPath())


def check_files(
    source: str | Path,
    schema: Schema,
    constraints: Sequence[PrivacyModel] = (),
    *,
    threshold: float = 0.2,
    master: str | SparkSession | RunningSpark | None = None,
    memory: int | None = None,
    missing_marks: Sequence[str] = (),
    separator: str | None = None,
) -> Checked:
    """Measure every privacy model on files by Spark; see :func:`shoal.check`."""
    require_schema(schema)
    constraints = check_constraints(constraints)
    with running_spark(master, memory) as spark, told_in_a_sentence():
        source = _full_name(spark, source)
        checked = _check_opened(spark, source, schema, constraints, threshold, as_marks(missing_marks))
        if checked is not None:
            return checked
        table = read(spark, source, separator)
        return check(table, schema, constraints, threshold=threshold, missing_marks=missing_marks)


def read(spark: RunningSpark, source: str, separator: str | None = None) -> DataFrame:
    """A CSV or Parquet file, a folder of such, or a Delta table; the columns of CSV files are texts."""
    kind = _kind_of(spark, source)
    try:
        if kind == "csv":
            return _read_csv(spark, source, separator)
        if kind == "delta":
            return _read_delta(spark, source)
        table = spark.session.read.parquet(_as_it_is(source))
        _require_alike(spark, table)
        return table
    except ShoalError:
        raise
    except Exception as error:  # Spark has many
        raise DataError(
            f"{source!r} cannot be read by Spark ({innermost_reason(error)}): name a CSV or Parquet file or folder, "
            "with columns of types that Spark knows."
        ) from None


def _as_it_is(name: str) -> str:
    """A name that Spark does not take for a pattern."""
    return re.sub(r"[\\\[\]{}*?]", r"\\\g<0>", name)


def _read_csv(spark: RunningSpark, source: str, separator: str | None) -> DataFrame:
    first, place = _first_line(spark, source), _as_it_is(source)
    separator = separator or find_separator(first)
    names = next(csv.reader([first], delimiter=separator), [])
    if len({name.lower() for name in names}) < len(names):
        raise DataError(f"{source!r} has columns whose names Spark cannot tell apart, {', '.join(names)}: rename some.")
    _require_whole_text(spark, source, len(names))
    # What does not fit into the columns would else be cut off or filled up without a word, also where only some columns
    # are asked for; and the columns of each file would be taken for those of the first.
    strict = spark.session.read.option("columnPruning", False)
    return strict.csv(
        place, header=True, sep=separator, escape='"', mode="FAILFAST", enforceSchema=False, nullValue=NEVER
    )


def _first_line(spark: RunningSpark, source: str) -> str:
    first = spark.session.read.text(_as_it_is(source)).first()
    if first is None:
        raise DataError(f"{source!r} is empty: name a file with a line of column names.")
    return str(first[0]).removeprefix("\ufeff")


def _require_whole_text(spark: RunningSpark, source: str, n_columns: int) -> None:
    """Refuse what Spark would read as something else, or not at all, without a word."""
    from pyspark.sql import functions as sf

    lines = spark.session.read.text(_as_it_is(source))
    if lines.filter(~sf.is_valid_utf8("value")).take(1):
        raise DataError(f"{source!r} is not UTF-8 text: save it as UTF-8 first.")
    if n_columns == 1 and lines.filter(sf.col("value") == "").take(1):
        raise DataError(f"{source!r} has one column and empty lines, which Spark leaves out: make it a Parquet file.")


def _require_alike(spark: RunningSpark, table: DataFrame) -> None:
    """Refuse Parquet files with different columns: what one lacks, Spark would make up as missing values."""
    files = sorted(table.inputFiles())
    if len(files) <= 1:
        return
    # Names of files come as addresses, in which odd characters are written as numbers.
    places = [_as_it_is(unquote(file)) for file in files]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda place: dict(spark.session.read.parquet(place).dtypes), places))
    for file, types in zip(files, found, strict=True):
        for name in sorted({*types, *found[0]}):
            if types.get(name) != found[0].get(name):
                has, had = (one.get(name, "none") for one in (types, found[0]))
                raise DataError(
                    f"The Parquet files have different columns: {name!r} is of type {has} in {unquote(file)}, and "
                    f"{had} in {unquote(files[0])}: make them alike."
                )


def _read_delta(spark: RunningSpark, source: str) -> DataFrame:
    """A Delta table by Spark's library, or else its files, as the package deltalake names them."""
    try:
        return spark.session.read.format("delta").load(source)
    except Exception as error:  # Spark has many
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
    try:
        import deltalake

        table = deltalake.DeltaTable(source)
    except Exception as error:  # it has many, too
        raise DataError(
            f"The Delta table {source!r} cannot be read ({innermost_reason(error)}): start Spark with the Delta "
            "library, or pip install deltalake."
        ) from None
    # Whoever reads files by themselves must know of everything that changes what they mean.
    needed = set(table.protocol().reader_features or ()) - HARMLESS_FEATURES
    if table.protocol().min_reader_version == COLUMN_MAPPING:
        needed.add("column mapping")
    if needed:
        raise DataError(
            f"The Delta table {source!r} uses {', '.join(sorted(needed))}: start Spark with the Delta library."
        )
    return _read_listed(spark, table)


def _read_listed(spark: RunningSpark, table: Any) -> DataFrame:
    """The files of a Delta table, with the values that are not in them because all rows of a file have the same."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    common = table.metadata().partition_columns
    inside = StructType([field for field in schema if field.name not in common])
    rows = spark.session.read.schema(inside).parquet(*table.file_uris())
    if common:
        # Folders are named by these values too, but Spark does not read all letters there as others wrote them.
        listed = pl.DataFrame(table.get_add_actions(flatten=True))
        name = pl.col("path").str.split("/").list.last()
        listed = listed.select(name.alias(FILE), *(pl.col(f"partition.{one}").alias(one) for one in common))
        if listed[FILE].n_unique() < listed.height:
            raise DataError("Several files of the Delta table have the same name: start Spark with the Delta library.")
        known = sf.broadcast(spark.session.createDataFrame(listed.to_arrow()))
        rows = rows.withColumn(FILE, sf.col("_metadata.file_name")).join(known, FILE)
    return rows.select(*(quoted_column(field.name).cast(field.dataType).alias(field.name) for field in schema))


def _kind_of(spark: RunningSpark, source: str) -> str:
    files, path = _file_system(spark, source)
    if not files.exists(path):
        raise DataError(f"{source!r} is not there: name a file or folder that Spark can read.")
    if not files.isDirectory(path):
        return "csv" if _is_csv(source) else "parquet"
    inside = {status.getPath().getName(): status.isDirectory() for status in files.listStatus(path)}
    if "_delta_log" in inside:
        return "delta"
    # Spark takes no notice of these, nor of folders but those that are named by the value that their rows have.
    seen = {name: is_folder for name, is_folder in inside.items() if name[:1] not in (".", "_")}
    for name, is_folder in seen.items():
        if is_folder and "=" not in name:
            raise DataError(f"{source!r} has the folder {name!r} in it, which Spark would leave out: move it away.")
    return "csv" if _is_csv(source) or any(map(_is_csv, seen)) else "parquet"


def _is_csv(name: str) -> bool:
    return name.lower().endswith(CSV_ENDINGS)


def _write(table: DataFrame, place: str, out: str, separator: str | None) -> None:
    if _is_csv(out):
        # Spaces around a value are part of it.
        kept = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
        table.write.csv(place, header=True, sep=_separator_of(out, separator), escape='"', **kept)  # type: ignore[arg-type]
    else:
        table.write.parquet(place)


def _read_written(spark: RunningSpark, place: str, out: str, separator: str | None) -> DataFrame:
    if _is_csv(out):
        # Values may have line breaks that came from elsewhere. A file is read by one worker then: it has a fragment,
        # or what a worker had of the table.
        how: dict[str, Any] = {"header": True, "sep": _separator_of(out, separator), "escape": '"', "multiLine": True}
        return spark.session.read.csv(_as_it_is(place), nullValue=NEVER, **how)
    return spark.session.read.parquet(_as_it_is(place))


def _separator_of(out: str, separator: str | None) -> str:
    return separator or ("\t" if out.endswith(".tsv") else ",")


# Where files are


@contextmanager
def _renamed(spark: RunningSpark, out: str) -> Iterator[str]:
    """Where to write; it gets its name in the end, or is removed."""
    place = _beside(out, "unfinished")
    with _removed(spark, place):
        yield place
        # Somebody else may have written there meanwhile, into which it would be moved.
        _require_free(spark, out)
        files, path = _file_system(spark, place)
        if not files.rename(path, _path(spark, out)):
            raise DataError(f"{out!r} cannot be written: see that its folder is there and may be written to.")


@contextmanager
def _removed(spark: RunningSpark, place: str | None) -> Iterator[None]:
    try:
        yield
    finally:
        if place is not None:
            files, path = _file_system(spark, place)
            files.delete(path, True)


def _beside(out: str, what: str) -> str:
    """A name in the same folder that no reader of the folder takes for data."""
    head, slash, tail = out.rstrip("/").rpartition("/")
    return f"{head}{slash}.{tail}.{what}-{uuid.uuid4().hex[:12]}"


def _require_free(spark: RunningSpark, out: str) -> None:
    files, path = _file_system(spark, out)
    if files.exists(path):
        raise DataError(f"{out!r} is there already: choose another name, or remove it first.")
    parent = str(PurePosixPath(out).parent) if "://" not in out else out.rstrip("/").rpartition("/")[0]
    files, path = _file_system(spark, parent or ".")
    if not files.exists(path):
        raise DataError(f"The folder {parent!r} of {out!r} is not there: make it first.")
    if _is_csv(out) and _as_it_is(out) != out:
        # Lines are read together where values have line breaks, for which Spark takes any name for a pattern.
        raise DataError(
            f"Spark cannot read what it would write to {out!r}: choose a name without any of [ ] {{ }} * ? \\."
        )


def _full_name(spark: RunningSpark, name: str | Path) -> str:
    """A name as seen from here: Java may have been started in another folder."""
    if ADDRESS.match(str(name)):
        return str(name)
    home: Any = spark.context._jvm
    java: Any = spark.context._jsc
    scheme = home.org.apache.hadoop.fs.FileSystem.get(java.hadoopConfiguration()).getUri().getScheme()
    return os.path.abspath(name) if scheme == "file" else str(name)


def _require_rows_and_seed(rows_per_fragment: Any, random_state: Any) -> None:
    if rows_per_fragment is not None and not (isinstance(rows_per_fragment, int) and rows_per_fragment >= 1):
        raise ShoalError(f"rows_per_fragment is {rows_per_fragment!r}: give a whole number of at least 1.")
    if random_state is not None and not (isinstance(random_state, int) and 0 <= random_state < 2**32):
        raise ShoalError(f"random_state is a seed from 0 to 4294967295 or None, not {random_state!r}.")


def _path(spark: RunningSpark, name: str) -> Any:
    jvm: Any = spark.context._jvm
    return jvm.org.apache.hadoop.fs.Path(name)


def _file_system(spark: RunningSpark, name: str) -> tuple[Any, Any]:
    """Hadoop's file system, which knows where names such as hdfs://… lead."""
    path = _path(spark, name)
    java: Any = spark.context._jsc
    return path.getFileSystem(java.hadoopConfiguration()), path
