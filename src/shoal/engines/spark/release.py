"""Release and check of files and folders by Spark, as the command line does with ``--engine spark``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from shoal.anonymizers import Anonymizer
from shoal.data.files import as_marks, find_separator
from shoal.data.schema import Schema, require_schema
from shoal.engines.base import COUNT, StagedRelease
from shoal.engines.partial_release import require_columns
from shoal.engines.spark.anonymizer import ROWS_PER_FRAGMENT, SparkAnonymizer
from shoal.engines.spark.checking import check
from shoal.engines.spark.engine import SparkEngine
from shoal.engines.spark.session import RunningSpark, errors_in_one_sentence, running_spark
from shoal.engines.spark.tables import (
    absolute_name,
    beside,
    first_line,
    is_csv,
    is_local,
    kind_of,
    local_path,
    read,
    read_written,
    removed,
    renamed,
    require_free,
    write,
)
from shoal.engines.spark.worker import run_generating_task, run_task
from shoal.engines.tasks.checking import check_pieces
from shoal.engines.tasks.engine import (
    Pack,
    PieceEngine,
    PieceReader,
    can_compare,
    pieces_of,
    plain_types,
    rows_per_task,
)
from shoal.engines.tasks.release import release_pieces
from shoal.errors import DataError
from shoal.parameters import SEED
from shoal.partition.losses import Loss
from shoal.privacy.checking import Checked, Judge, require_checkable
from shoal.privacy.models import PrivacyModel, check_constraints
from shoal.privacy.rules import membership

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def stage(
    source: str | Path,
    method: Anonymizer,
    out: str | Path,
    *,
    master: str | SparkSession | RunningSpark | None = None,
    memory: int | None = None,
    rows_per_fragment: int | None = None,
    missing_marks: Sequence[str] = (),
    separator: str | None = None,
    y: str | None = None,
) -> Iterator[StagedRelease]:
    """Release files by Spark; they are renamed to ``out`` on leaving the context without an error.

    The parameters are those of :func:`shoal.jobs.release.anonymize_file`.
    """
    COUNT.check("rows_per_fragment", rows_per_fragment)
    (SEED | None).check("random_state", method.random_state)
    marks = as_marks(missing_marks)
    request = ReleaseRequest(method, rows_per_fragment, y, marks, method.random_state or 0, separator)
    with running_spark(master, memory) as spark, errors_in_one_sentence():
        source, out = absolute_name(spark, source), absolute_name(spark, out)
        require_free(spark, out)
        with renamed(spark, out) as place:
            types = _types_for_tasks(spark, source, out, request)
            if types is None:
                staging = _stage_frame(spark, source, out, place, request)
            else:
                staging = _stage_files(spark, source, types, out, place, request)
            with staging as staged:
                yield staged


class ReleaseRequest(NamedTuple):
    """A method, and the parameters for reading and cutting its table."""

    method: Anonymizer
    rows_per_fragment: int | None
    y: str | None
    missing_marks: Sequence[str]
    seed: int
    separator: str | None

    @property
    def schema(self) -> Schema:
        """Schema of the table."""
        assert self.method.schema is not None
        return self.method.schema


class StagedTable(NamedTuple):
    """A table that Spark has written, under a name that is not final."""

    spark: RunningSpark
    schema: Schema
    folder: str
    out: str
    separator: str | None
    place: str
    """The folder that gets the final name; ``folder`` is another one if it holds a whole population."""
    loss: Loss
    suppressed: int
    parameters: Mapping[str, Any]
    n_rows: int | None
    """Number of written rows, if it is known."""
    findings: Mapping[str, Any] = {}

    def measure(self, constraints: Sequence[PrivacyModel]) -> Checked:
        """Measure every privacy model on the rows of the files."""
        checked = check(self._read(), self.schema, constraints)
        if self.n_rows is not None and checked.rows != self.n_rows:
            raise DataError(
                f"Only {checked.rows} of {self.n_rows} rows can be read again, because an empty line of a CSV file is "
                "not a row: name a Parquet file."
            )
        return checked

    def members_only(self, member_of: str) -> StagedRelease:
        """Write the rows that are handed out, without the column that marks them."""
        written = self._read()
        is_member = SparkEngine(written, self.schema, compared=False).is_member(member_of)
        write(written.filter(is_member).drop(member_of), self.place, self.out, self.separator)
        return self._replace(folder=self.place)

    def _read(self) -> DataFrame:
        return read_written(self.spark, self.folder, self.out, self.separator)


@contextmanager
def _stage_frame(
    spark: RunningSpark, source: str, out: str, place: str, request: ReleaseRequest
) -> Iterator[StagedRelease]:
    """Let Spark read, shuffle and write the rows, wherever they are."""
    schema, separator = request.schema, request.separator
    table = read(spark, source, separator)
    if separator is None and kind_of(spark, source) == "csv" and source.endswith(".tsv") == out.endswith(".tsv"):
        separator = find_separator(first_line(spark, source))
    released = SparkAnonymizer(
        request.method,
        rows_per_fragment=request.rows_per_fragment or ROWS_PER_FRAGMENT,
        y=request.y,
        missing_marks=request.missing_marks,
        random_state=request.seed,
    )
    in_population = membership(request.method.constraints) is not None
    # The check of a population needs the rows that are not handed out, too.
    everyone = beside(out, "population") if in_population else place
    with removed(spark, everyone if in_population else None):
        write(released.fit_transform(table), everyone, out, separator)
        sizes = released.fragments_
        losses = released.loss(), released.suppressed(), {"fragments": len(sizes)}
        yield StagedTable(
            spark, schema, everyone, out, separator, place, *losses, None if in_population else int(sizes.sum())
        )


# Files that workers can read themselves


def _types_for_tasks(
    spark: RunningSpark, source: str, out: str, request: ReleaseRequest
) -> dict[str, pl.DataType] | None:
    """Return the columns of a table that tasks can read and write themselves; None if Spark must do it.

    Rows that pass through Java, a shuffle and Python take five times as long.
    """
    if not _can_open(spark, source, request.method.constraints) or not is_local(spark, out) or is_csv(out):
        return None
    if request.method.wants_counts or any(one.joined_only_if is not None for one in request.method.constraints):
        return None
    types = plain_types(local_path(spark, source))
    return types if types is not None and can_compare(types, request.schema) else None


def _can_open(spark: RunningSpark, source: str, constraints: Sequence[PrivacyModel]) -> bool:
    """Return True if tasks can read a table themselves, and it has no population, which they cannot handle."""
    return is_local(spark, source) and kind_of(spark, source) == "parquet" and membership(constraints) is None


@contextmanager
def _stage_files(
    spark: RunningSpark, source: str, types: Mapping[str, pl.DataType], out: str, place: str, request: ReleaseRequest
) -> Iterator[StagedRelease]:
    """Let tasks read, sort and write files themselves, in folders beside the release."""
    require_columns(types, request.schema, request.y)
    reader = PieceReader.of(types, request.schema, request.missing_marks, request.y)
    with removed(spark, sorted_rows := beside(out, "sorted")):
        fitting = rows_per_task(len(types))
        rows_per_fragment = request.rows_per_fragment or fitting
        # If larger fragments fit, larger pieces fit too, and each has rows of fewer fragments.
        pieces = pieces_of(local_path(spark, source), max(fitting, rows_per_fragment))
        engine = PieceEngine(SparkTaskRunner(spark), pieces, reader, local_path(spark, sorted_rows))
        place_here = local_path(spark, place)
        yield release_pieces(engine, request.method, place_here, rows_per_fragment=rows_per_fragment, seed=request.seed)


def _check_opened(
    spark: RunningSpark,
    source: str,
    schema: Schema,
    constraints: Sequence[PrivacyModel],
    threshold: float,
    marks: Sequence[str],
) -> Checked | None:
    """Check files by tasks that read them themselves; return None if Spark must do it."""
    needed = [one.name for one in (*schema.quasi, *schema.sensitive)]
    if not _can_open(spark, source, constraints):
        return None
    types = plain_types(local_path(spark, source), needed)
    if types is None:
        return None
    require_checkable(list(types), schema)
    pieces = pieces_of(local_path(spark, source), rows_per_task(len(needed)))
    judge = Judge(schema, constraints, list(types), threshold=threshold)
    return check_pieces(SparkTaskRunner(spark), pieces, PieceReader.of(types, schema, marks), judge)


class SparkTaskRunner:
    """A runner of one Spark task per item, which shuffles packed boxes."""

    def __init__(self, spark: RunningSpark) -> None:
        self._context = spark.context

    def each(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply a function to each item, in order."""
        return self._context.parallelize(items, max(len(items), 1)).map(partial(run_task, function)).collect()

    def by_box(
        self, pack: Pack, items: Sequence[Any], n_boxes: int, function: Callable[[list[bytes]], Any]
    ) -> list[Any]:
        """Pack each item into numbered boxes; then apply a function to the contents of each box."""
        found = self._context.parallelize(items, max(len(items), 1)).flatMap(partial(run_generating_task, pack))
        return found.partitionBy(n_boxes, int).mapPartitions(partial(_of_box, function)).collect()


def _of_box(function: Callable[[list[bytes]], Any], found: Iterable[tuple[int, bytes]]) -> list[Any]:
    return [run_task(function, [one for _, one in found])]


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
    with running_spark(master, memory) as spark, errors_in_one_sentence():
        source = absolute_name(spark, source)
        checked = _check_opened(spark, source, schema, constraints, threshold, as_marks(missing_marks))
        if checked is not None:
            return checked
        table = read(spark, source, separator)
        return check(table, schema, constraints, threshold=threshold, missing_marks=missing_marks)
