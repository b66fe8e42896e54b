"""Files and folders released and checked by Spark: what the command line does with ``--engine spark``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from shoal.anonymizers import Anonymizer
from shoal.data.files import as_marks, find_separator
from shoal.data.schema import Schema, require_schema
from shoal.data.table import require_same_columns
from shoal.engines.partial_release import add_losses, left_out, require_guide
from shoal.engines.spark.anonymizer import ROWS_PER_FRAGMENT, SparkAnonymizer
from shoal.engines.spark.checking import check, check_columns
from shoal.engines.spark.engine import SparkEngine
from shoal.engines.spark.session import RunningSpark, running_spark, told_in_a_sentence
from shoal.engines.spark.tables import (
    beside,
    first_line,
    full_name,
    is_csv,
    is_here,
    kind_of,
    local_path,
    read,
    read_written,
    removed,
    renamed,
    require_free,
    write,
)
from shoal.engines.spark.worker import answer, answer_all
from shoal.engines.tasks.checking import check_pieces
from shoal.engines.tasks.engine import PieceEngine, PieceReader, can_compare, pieces_of, plain_types, rows_a_task
from shoal.engines.tasks.release import release_pieces
from shoal.errors import DataError, ShoalError
from shoal.jobs.release import Evidence, make_anonymizer, parameters_of
from shoal.partition.losses import Loss
from shoal.privacy.checking import Checked, Judge, require_checkable, require_levels
from shoal.privacy.models import DeltaDisclosure, DeltaPresence, KAnonymity, KMap, PrivacyModel, check_constraints
from shoal.privacy.rules import membership

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        As for :class:`shoal.engines.spark.anonymizer.SparkAnonymizer`.
    missing_marks, separator
        As for :func:`shoal.data.files.read_table`.
    **options
        Further parameters of the method.
    """
    require_schema(schema)
    _require_rows_and_seed(rows_per_fragment, random_state)
    anonymizer = make_anonymizer(method, schema, k, constraints=constraints, random_state=random_state, **options)
    job = ReleaseRequest(
        method,
        anonymizer,
        (KAnonymity(k), *check_constraints(constraints)),
        rows_per_fragment=rows_per_fragment,
        y=y,
        missing_marks=as_marks(missing_marks),
        seed=random_state or 0,
    )
    with running_spark(master, memory) as spark, told_in_a_sentence():
        source, out = full_name(spark, source), full_name(spark, out)
        require_free(spark, out)
        with renamed(spark, out) as place:
            types = _types_here(spark, source, out, job)
            if types is None:
                done = _release_frame(spark, source, out, place, separator, job)
            else:
                done = _release_files(spark, source, types, out, place, job)
            # Before the release gets its name: what goes wrong leaves nothing behind.
            require_levels(done.checked, method)
    parameters = parameters_of(anonymizer, constraints) | {"engine": "spark", "fragments": done.n_fragments}
    return Evidence(schema, method, done.checked, done.loss, done.suppressed, parameters)


class ReleaseRequest(NamedTuple):
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


class ReleasedFiles(NamedTuple):
    """What became of it."""

    checked: Checked
    loss: Loss
    suppressed: int
    n_fragments: int


def _release_frame(
    spark: RunningSpark, source: str, out: str, place: str, separator: str | None, job: ReleaseRequest
) -> ReleasedFiles:
    """Let Spark read, shuffle and write the rows, wherever they lie."""
    table = read(spark, source, separator)
    if separator is None and kind_of(spark, source) == "csv" and source.endswith(".tsv") == out.endswith(".tsv"):
        separator = find_separator(first_line(spark, source))
    released = SparkAnonymizer(
        job.method,
        rows_per_fragment=job.rows_per_fragment or ROWS_PER_FRAGMENT,
        y=job.y,
        missing_marks=job.missing_marks,
        random_state=job.seed,
    )
    member_of = membership(job.constraints)
    # Rows that are not handed out are needed to see what holds in the population.
    everyone = place if member_of is None else beside(out, "population")
    with removed(spark, None if member_of is None else everyone):
        write(released.fit_transform(table), everyone, out, separator)
        written = read_written(spark, everyone, out, separator)
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
            write(handed_out, place, out, separator)
            rest = [one for one in job.constraints if not isinstance(one, (KMap, DeltaPresence))]
            written = read_written(spark, place, out, separator)
            require_levels(check_columns(written, job.schema, rest, **marks), job.name)
    return ReleasedFiles(checked, released.loss(), released.suppressed(), len(released.fragments_))


# Files that workers can read themselves


def _types_here(spark: RunningSpark, source: str, out: str, job: ReleaseRequest) -> dict[str, pl.DataType] | None:
    """The columns of a table that tasks can read and write themselves; None if Spark must do it.

    Rows that pass through Java, a shuffle and Python take five times as long.
    """
    if not _can_open(spark, source, job.constraints) or not is_here(spark, out) or is_csv(out):
        return None
    if job.method._wants_counts:
        return None
    if any(isinstance(one, DeltaDisclosure) and not one.count_absent for one in job.constraints):
        return None
    types = plain_types(local_path(spark, source))
    return types if types is not None and can_compare(types, job.schema) else None


def _can_open(spark: RunningSpark, source: str, constraints: Sequence[PrivacyModel]) -> bool:
    """Whether tasks can look at a table themselves; those that part it know nothing of a population."""
    return is_here(spark, source) and kind_of(spark, source) == "parquet" and membership(constraints) is None


def _release_files(
    spark: RunningSpark, source: str, types: Mapping[str, pl.DataType], out: str, place: str, job: ReleaseRequest
) -> ReleasedFiles:
    """Let tasks read, sort and write files themselves, all of them in folders beside the release."""
    require_guide(job.y, types)
    require_same_columns([name for name in types if name not in left_out(job.y, job.schema)], job.schema)
    reading = PieceReader.of(types, job.schema, job.missing_marks, job.y)
    with removed(spark, sorted_rows := beside(out, "sorted")):
        scratch = local_path(spark, sorted_rows)
        fitting = rows_a_task(len(types))
        rows_per_fragment = job.rows_per_fragment or fitting
        # Where there is room for larger fragments there is for larger pieces, which meet fewer of them.
        pieces = pieces_of(local_path(spark, source), max(fitting, rows_per_fragment))
        engine = PieceEngine(SparkTaskRunner(spark), pieces, reading, scratch)
        checked, parts, n_fragments = release_pieces(
            engine,
            job.method,
            job.constraints,
            local_path(spark, place),
            rows_per_fragment=rows_per_fragment,
            seed=job.seed,
        )
    return ReleasedFiles(checked, add_losses(parts), sum(part.n_suppressed for part in parts), n_fragments)


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
    types = plain_types(local_path(spark, source), looked_at)
    if types is None:
        return None
    require_checkable(list(types), schema)
    pieces = pieces_of(local_path(spark, source), rows_a_task(len(looked_at)))
    judge = Judge(schema, constraints, list(types), threshold=threshold)
    return check_pieces(SparkTaskRunner(spark), pieces, PieceReader.of(types, schema, marks), judge)


class SparkTaskRunner:
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
        source = full_name(spark, source)
        checked = _check_opened(spark, source, schema, constraints, threshold, as_marks(missing_marks))
        if checked is not None:
            return checked
        table = read(spark, source, separator)
        return check(table, schema, constraints, threshold=threshold, missing_marks=missing_marks)


def _require_rows_and_seed(rows_per_fragment: Any, random_state: Any) -> None:
    if rows_per_fragment is not None and not (isinstance(rows_per_fragment, int) and rows_per_fragment >= 1):
        raise ShoalError(f"rows_per_fragment is {rows_per_fragment!r}: give a whole number of at least 1.")
    if random_state is not None and not (isinstance(random_state, int) and 0 <= random_state < 2**32):
        raise ShoalError(f"random_state is a seed from 0 to 4294967295 or None, not {random_state!r}.")
