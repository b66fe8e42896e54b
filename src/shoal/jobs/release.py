"""Release a table: run a method, verify what is about to be written, and write it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import narwhals.stable.v2 as nw
import numpy as np

from shoal._kernels import groups
from shoal.anonymizers import Anonymizer, find_method, options_of
from shoal.data import frames
from shoal.data.factored import FactoredFrame
from shoal.data.files import as_marks, restore_texts, write_table
from shoal.data.schema import Schema, require_schema
from shoal.data.table import Missing, Table
from shoal.errors import SchemaError
from shoal.partition.losses import Loss
from shoal.privacy.checking import Checked, Measured, check, read_truths, require_levels
from shoal.privacy.counts import count_groups
from shoal.privacy.models import KAnonymity, PrivacyModel, check_constraints, show_level
from shoal.privacy.risk import Risk, risk
from shoal.privacy.rules import membership, released_rows
from shoal.reports.summaries import FactSheet

if TYPE_CHECKING:
    import polars

FileEngine = Literal["duckdb", "spark"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Evidence(FactSheet):
    """The privacy and the loss of a released table.

    Attributes
    ----------
    privacy : tuple of Measured
        Every privacy model, measured on the released values.
    loss : Loss
    risk : Risk
    method : str
    parameters : dict
        Arguments of the method by name: k, the other constraints in words, the recoding and so on.
    missing_marks : tuple of str
        Texts that were read as missing values. Those in sensitive columns are released as missing values.
    suppressed : int
        Number of suppressed rows.
    findings : dict
        Further results of the method, by name.
    """

    schema: Schema
    method: str
    checked: Checked
    loss: Loss
    suppressed: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)
    missing_marks: tuple[str, ...] = ()
    frame: Any = None
    labels: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def privacy(self) -> tuple[Measured, ...]:
        """Every privacy model, measured on the released values."""
        return self.checked.measured

    @property
    def risk(self) -> Risk:
        """Risk of re-identification."""
        return self.checked.risk

    @property
    def k(self) -> int:
        """Rows of the smallest group."""
        return int(self.checked.level("k"))

    def summary(self) -> list[tuple[str, str]]:
        """Return the release in a few facts, each a name and a text."""
        quasi = ", ".join(attribute.name for attribute in self.schema.quasi)
        facts = [
            ("guarantee", f"{self.k}-anonymous with respect to {quasi}"),
            ("method", self.method),
            ("rows", f"{self.checked.rows:,}"),
            ("groups", f"{self.checked.groups:,}"),
            ("suppressed rows", f"{self.suppressed:,}"),
            ("information lost (NCP)", f"{self.loss.ncp:.1%}"),
            ("highest risk of re-identification", f"{self.risk.prosecutor:.1%}"),
        ]
        return facts + [(m.model, show_level(m.level)) for m in self.privacy if m.asked is not None and m.key != "k"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Release(Evidence):
    """A released table and the evidence for it; made by :func:`anonymize`, and frozen.

    The attributes of :class:`Evidence` are measured on ``frame``.

    Attributes
    ----------
    frame : dataframe
        The rows that may be handed out, in the library of the input table.
    labels : int array
        Group of each row; -1 for suppressed ones.
    rows : int array
        Position of each released row in the input table.
    """

    rows: np.ndarray

    def to_csv(self, path: str | Path, *, separator: str | None = None) -> None:
        """Write the released table as CSV, in full or not at all."""
        write_table(frames.open_frame(self.frame), path, kind="csv", separator=separator)

    def to_parquet(self, path: str | Path) -> None:
        """Write the released table as Parquet, in full or not at all."""
        write_table(frames.open_frame(self.frame), path, kind="parquet")


def anonymize(
    frame: Any,
    schema: Schema,
    k: int = 10,
    *,
    method: str = "mondrian",
    constraints: Sequence[PrivacyModel] = (),
    recoding: str | None = None,
    suppression: float = 0.0,
    missing: Missing = "value",
    random_state: Any = None,
    y: Any = None,
    learn_from: Any = None,
    **options: Any,
) -> Release:
    """Anonymize a table and verify the result before it is returned.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
    schema : Schema
    k : int
        Minimum number of rows that are released alike.
    method : str
        Name of an anonymizer, such as ``"mondrian"``.
    constraints : sequence of privacy models
        Required beside k.
    recoding : str, optional
        As for every anonymizer; by default the method's own.
    suppression, missing, random_state
        As for every anonymizer.
    y : array-like, optional
        For methods that use a target: labels, predictions or probabilities of each row. By default the schema's target.
    learn_from : table, optional
        Other rows with the same columns: the method finds groups on them, which are merged if they have too few rows of
        ``frame``. ``y`` then belongs to these rows.
    **options
        Further parameters of the method.

    Raises
    ------
    GuaranteeError
        If k or a constraint cannot be reached, or does not hold on the released values.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Attribute, Schema, anonymize
    >>> people = pl.DataFrame({"age": [25, 27, 31, 45, 47, 52], "sick": ["no", "yes", "no", "no", "no", "yes"]})
    >>> schema = Schema([Attribute("age"), Attribute("sick", role="sensitive", kind="nominal")])
    >>> release = anonymize(people, schema, k=3)
    >>> release.k, release.frame["age"].unique().sort().to_list()
    (3, ['[25, 31]', '[45, 52]'])
    """
    require_schema(schema)
    how = {"recoding": recoding, "suppression": suppression, "missing": missing, "random_state": random_state}
    anonymizer = make_anonymizer(method, schema, k, constraints=check_constraints(constraints), **how, **options)
    return release_table(anonymizer, method, frame, y, learn_from=learn_from).release


class ReleasedTable(NamedTuple):
    """A release, the encoded table that it was made from, and the released rows with their factors."""

    release: Release
    encoded: Table
    rows: FactoredFrame


def release_table(
    anonymizer: Anonymizer,
    method: str,
    frame: Any,
    y: Any = None,
    *,
    learn_from: Any = None,
    texts: polars.DataFrame | None = None,
    missing_marks: Sequence[str] = (),
) -> ReleasedTable:
    """Release a table by an anonymizer, and verify the result.

    ``texts`` are the same rows as they were read from a file, in which ``missing_marks`` stand for missing values:
    columns that are not quasi-identifiers are released as in ``texts``.
    """
    schema, marks = anonymizer.schema, tuple(as_marks(missing_marks))
    assert schema is not None
    factored = frame
    if not isinstance(frame, FactoredFrame):
        # Row labels of pandas may name people, and are not checked; `rows` has their positions.
        factored = FactoredFrame.of(nw.maybe_reset_index(frames.open_frame(frame)))
    if learn_from is None:
        found = anonymizer.release_rows(factored, y)
    else:
        found = anonymizer.fit(learn_from, y).release_others(factored.frame)
    released, table, labels, _ = found
    if texts is not None:
        released = frames.open_frame(restore_texts(released.to_native(), texts, schema, marks))
    asked = (KAnonymity(anonymizer.k), *anonymizer.constraints)
    staged = StagedFrame(FactoredFrame.of(frames.without_unused_categories(released)), schema, np.arange(len(labels)))
    checked, handed_out = verify(staged, asked, method)
    members = None if handed_out is staged else np.isin(staged.rows, handed_out.rows)
    loss = found.loss(members)
    parameters = anonymizer.described_parameters()
    if learn_from is not None:
        parameters["learn_from"] = f"{len(anonymizer.labels_):,} other rows"
    labels = labels[handed_out.rows]
    release = Release(
        schema=schema,
        method=method,
        checked=checked,
        loss=loss,
        suppressed=int(np.count_nonzero(labels < 0)),
        parameters=parameters,
        findings=anonymizer.findings(),
        missing_marks=marks,
        frame=handed_out.table.frame.to_native(),
        labels=labels,
        rows=handed_out.rows,
    )
    return ReleasedTable(release, table, handed_out.table)


def risk_before(table: Table, constraints: Sequence[PrivacyModel] = ()) -> Risk:
    """Return the risk of re-identification of an encoded table before it is generalised."""
    member_of = membership(constraints)
    members = None if member_of is None else released_rows(table, member_of) != 0
    counts = count_groups(groups.group_rows(table.codes)[0], (), members)
    return risk(counts.sizes, population=None if members is None else counts.population)


def anonymize_file(
    source: str | Path,
    schema: Schema,
    k: int,
    out: str | Path,
    *,
    engine: FileEngine = "duckdb",
    method: str = "mondrian",
    constraints: Sequence[PrivacyModel] = (),
    random_state: int | None = None,
    missing_marks: Sequence[str] = (),
    separator: str | None = None,
    memory: int | None = None,
    rows_per_fragment: int | None = None,
    y: str | None = None,
    threads: int | None = None,
    temporary: str | Path | None = None,
    master: Any = None,
    **options: Any,
) -> Evidence:
    """Anonymize a file that may be larger than memory, and verify the written rows before the file gets its name.

    Parameters
    ----------
    source : path
        A CSV or Parquet file, or a folder of Parquet files; for Spark any name that it can read.
    schema : Schema
    k : int
    out : path
        The file to write, ``.parquet`` or ``.csv``, whose rows are in the order of the fragments; for Spark a new
        folder.
    engine : {"duckdb", "spark"}
    method, constraints, random_state
        As for :func:`shoal.anonymize`.
    missing_marks, separator
        As for :func:`shoal.data.files.read_table`.
    memory : int, optional
        Approximate bytes that may be used; by default half of the machine's memory. Spark's Java gets half of them.
    rows_per_fragment : int, optional
        By default as many as fit into memory.
    y : str, optional
        Column that guides the method, such as predictions; by default the schema's target.
    threads, temporary
        For DuckDB: the number of threads, and a folder for sorted rows, which take about as much space as the table; by
        default that of ``out``.
    master : str, SparkSession or RunningSpark, optional
        For Spark: where it runs, such as ``local[4]`` or ``spark://host:7077``; by default where it is configured to. A
        running session goes on running.
    **options
        Further parameters of the method.
    """
    require_schema(schema)
    asked = (KAnonymity(k), *check_constraints(constraints))
    anonymizer = make_anonymizer(method, schema, k, constraints=constraints, random_state=random_state, **options)
    how: dict[str, Any] = {"memory": memory, "rows_per_fragment": rows_per_fragment, "y": y, "separator": separator}
    if engine == "spark":
        from shoal.engines.spark.release import stage as stage_by_spark

        staging = stage_by_spark(source, anonymizer, out, master=master, missing_marks=missing_marks, **how)
    else:
        from shoal.engines.duckdb.release import stage as stage_by_duckdb

        how |= {"threads": threads, "temporary": temporary}
        staging = stage_by_duckdb(source, anonymizer, out, missing_marks=missing_marks, **how)
    with staging as staged:
        checked, _ = verify(staged, asked, method)
        return Evidence(
            schema=schema,
            method=method,
            checked=checked,
            loss=staged.loss,
            suppressed=staged.suppressed,
            parameters=anonymizer.described_parameters() | {"engine": engine} | dict(staged.parameters),
            findings=staged.findings,
            missing_marks=tuple(as_marks(missing_marks)),
        )


def check_file(
    source: str | Path,
    schema: Schema,
    constraints: Sequence[PrivacyModel] = (),
    *,
    engine: FileEngine = "duckdb",
    threshold: float = 0.2,
    missing_marks: Sequence[str] = (),
    separator: str | None = None,
    memory: int | None = None,
    threads: int | None = None,
    master: Any = None,
) -> Checked:
    """Measure every privacy model on a file that may be larger than memory; see :func:`shoal.check`."""
    how: dict[str, Any] = {"threshold": threshold, "missing_marks": missing_marks, "separator": separator}
    if engine == "spark":
        from shoal.engines.spark.release import check_files

        return check_files(source, schema, constraints, memory=memory, master=master, **how)
    from shoal.engines.duckdb.release import check_file as check_by_duckdb

    return check_by_duckdb(source, schema, constraints, memory=memory, threads=threads, **how)


class Staged(Protocol):
    """A table as it will be handed out: in memory, or written by an engine under a name that is not final."""

    def measure(self, constraints: Sequence[PrivacyModel]) -> Checked:
        """Measure every privacy model on its values."""

    def members_only(self, member_of: str) -> Any:
        """Return the rows of a population that are handed out, without the column that marks them."""


AnyStaged = TypeVar("AnyStaged", bound=Staged)


def verify(staged: AnyStaged, asked: Sequence[PrivacyModel], method: str) -> tuple[Checked, AnyStaged]:
    """Measure a table that is about to be handed out, and refuse it unless it reaches every level asked for.

    Every release passes here, in memory, from disk and by Spark. Models about a population are measured on all of its
    rows; every other model must also hold on the rows that are handed out, which are returned.
    """
    checked = require_levels(staged.measure(asked), method)
    member_of = membership(asked)
    if member_of is None:
        return checked, staged
    handed_out = staged.members_only(member_of)
    require_levels(handed_out.measure([c for c in asked if not c.about_population]), method)
    return checked, handed_out


class StagedFrame(NamedTuple):
    """A released frame, and the position of each of its rows in the input table."""

    table: FactoredFrame
    schema: Schema
    rows: np.ndarray

    def measure(self, constraints: Sequence[PrivacyModel]) -> Checked:
        """Measure every privacy model on the values of the frame."""
        return check(self.table, self.schema, constraints)

    def members_only(self, member_of: str) -> StagedFrame:
        """Return the rows that are handed out, without the column that marks them."""
        rows = np.flatnonzero(read_truths(self.table, member_of))
        kept = nw.maybe_reset_index(frames.take_rows(self.table.frame, rows).drop(member_of))
        return self._replace(table=FactoredFrame.of(frames.without_unused_categories(kept)), rows=self.rows[rows])


def make_anonymizer(method: str, schema: Schema, k: int, *, recoding: str | None = None, **options: Any) -> Anonymizer:
    """Make an anonymizer by its name, with the method's own recoding if none is asked for."""
    cls = find_method(method)
    known = sorted(options_of(cls))
    for name in options:
        if name not in known and name not in _OF_EVERY_METHOD:
            choice = f"choose among {', '.join(known)}" if known else "leave it out"
            raise SchemaError(f"The method {method!r} has no option {name!r}: {choice}.")
    default = inspect.signature(cls).parameters["recoding"].default
    return cls(schema, k, recoding=default if recoding is None else recoding, **options)


_OF_EVERY_METHOD = ("constraints", "suppression", "missing", "random_state")
