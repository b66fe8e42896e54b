"""Files and folders released and checked by Spark: what the command line does with ``--engine spark``."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from shoal._piece_check import check_pieces
from shoal._piece_engine import PieceEngine, Reading, can_compare, pieces_of, plain_types, rows_a_task
from shoal._spark_engine import SparkEngine, quoted_column
from shoal._spark_session import RunningSpark, running_spark
from shoal._spark_worker import answer, answer_all
from shoal.anonymizers import Anonymizer
from shoal.errors import DataError, ShoalError, reason
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

CSV_ENDINGS = (".csv", ".tsv")
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
    source, out = str(source), str(out)
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
    with running_spark(master, memory) as spark:
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
    if separator is None and _kind_of(spark, source) == "csv":
        separator = _found_separator(spark, source)
    table = read(spark, source, separator)
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
        checked = check_columns(written, job.schema, job.constraints, **marks)
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
    if not _can_open(spark, source, job.constraints) or not _is_here(spark, out) or out.endswith(CSV_ENDINGS):
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
    with running_spark(master, memory) as spark:
        checked = _check_opened(spark, str(source), schema, constraints, threshold, as_marks(missing_marks))
        if checked is not None:
            return checked
        table = read(spark, str(source), separator)
        return check(table, schema, constraints, threshold=threshold, missing_marks=missing_marks)


def read(spark: RunningSpark, source: str, separator: str | None = None) -> DataFrame:
    """A CSV or Parquet file, a folder of such, or a Delta table; the columns of CSV files are texts."""
    kind = _kind_of(spark, source)
    try:
        if kind == "csv":
            separator = separator or _found_separator(spark, source)
            # What does not fit into the columns would else be cut off or filled up without a word, also where only
            # some columns are asked for; and the columns of each file would be taken for those of the first.
            strict = spark.session.read.option("columnPruning", False)
            return strict.csv(source, header=True, sep=separator, escape='"', mode="FAILFAST", enforceSchema=False)
        if kind == "delta":
            return _read_delta(spark, source)
        return spark.session.read.parquet(source)
    except ShoalError:
        raise
    except Exception as error:  # Spark has many
        raise DataError(
            f"{source!r} cannot be read by Spark ({reason(error)}): name a CSV or Parquet file or folder."
        ) from None


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
            f"The Delta table {source!r} cannot be read ({reason(error)}): start Spark with the Delta library, or "
            "pip install deltalake."
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


def _found_separator(spark: RunningSpark, source: str) -> str:
    first = spark.session.read.text(source).first()
    return find_separator("" if first is None else first[0])


def _kind_of(spark: RunningSpark, source: str) -> str:
    files, path = _file_system(spark, source)
    if not files.exists(path):
        raise DataError(f"{source!r} is not there: name a file or folder that Spark can read.")
    if source.endswith(CSV_ENDINGS):
        return "csv"
    if not files.isDirectory(path):
        return "parquet"
    names = [status.getPath().getName() for status in files.listStatus(path)]
    if "_delta_log" in names:
        return "delta"
    return "csv" if any(name.endswith(CSV_ENDINGS) for name in names) else "parquet"


def _write(table: DataFrame, place: str, out: str, separator: str | None) -> None:
    if out.endswith(CSV_ENDINGS):
        # Spaces around a value are part of it.
        kept = {"ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
        table.write.csv(place, header=True, sep=_separator_of(out, separator), escape='"', **kept)  # type: ignore[arg-type]
    else:
        table.write.parquet(place)


def _read_written(spark: RunningSpark, place: str, out: str, separator: str | None) -> DataFrame:
    if out.endswith(CSV_ENDINGS):
        # Values may have line breaks that came from elsewhere. A file is read by one worker then: it has a fragment,
        # or what a worker had of the table.
        return spark.session.read.csv(place, header=True, sep=_separator_of(out, separator), escape='"', multiLine=True)
    return spark.session.read.parquet(place)


def _separator_of(out: str, separator: str | None) -> str:
    return separator or ("\t" if out.endswith(".tsv") else ",")


# Where files are


@contextmanager
def _renamed(spark: RunningSpark, out: str) -> Iterator[str]:
    """Where to write; it gets its name in the end, or is removed."""
    place = _beside(out, "unfinished")
    with _removed(spark, place):
        yield place
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


def _path(spark: RunningSpark, name: str) -> Any:
    jvm: Any = spark.context._jvm
    return jvm.org.apache.hadoop.fs.Path(name)


def _file_system(spark: RunningSpark, name: str) -> tuple[Any, Any]:
    """Hadoop's file system, which knows where names such as hdfs://… lead."""
    path = _path(spark, name)
    java: Any = spark.context._jsc
    return path.getFileSystem(java.hadoopConfiguration()), path
