"""Input and output of the commands: tables to release, releases, reports, folders."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.cli.options import Large, ReadOptions
from shoal.errors import ShoalError

if TYPE_CHECKING:
    import polars

    from shoal.data.schema import Schema
    from shoal.jobs.release import Release


class ToRelease(NamedTuple):
    """Table to release."""

    raw: polars.DataFrame
    """Rows as they are written where the release does not change them."""
    frame: polars.DataFrame
    """Rows as the method sees them."""
    others: polars.DataFrame | None
    """Rows to learn from, as the method sees them."""
    separator: str | None


def read_to_release(
    source: Path, learn_from: Path | None, reading: ReadOptions, looked_at: Sequence[str] | None, *, kept_as_text: bool,
    typed: bool,
) -> ToRelease:  # fmt: skip
    """Read a table, and another one to learn from; treat marks as missing in the columns that the method uses.

    By default, these are all columns. With ``typed``, the method receives the numbers of a CSV file as numbers.
    """
    from shoal.data import files

    names, separator = files.read_header(source, reading.character)
    looked_at = names if looked_at is None else looked_at
    raw = text = files.read_table(source, separator=separator, typed=False)
    if separator is not None and not kept_as_text:
        raw = files.give_types(files.mark_missing(text, reading.marks, names))
    if learn_from is None:
        frame = files.mark_missing(raw, reading.marks, looked_at)
        # A model needs numbers as numbers.
        frame = files.give_types(frame) if typed and separator is not None else frame
        return ToRelease(raw, frame, None, separator)
    header = files.read_header(learn_from, reading.character)
    _require_columns_of(source, names, learn_from, header.names)
    others = files.read_table(learn_from, columns=names, separator=header.separator, typed=False)
    frame, others = (files.mark_missing(table, reading.marks, looked_at) for table in (text, others))
    if separator is not None and header.separator is not None:
        # Together: a value such as 1.0 or true may be among numbers in one file, and among words in the other.
        together = files.give_types(frame.vstack(others))
        frame, others = together[: frame.height], together[frame.height :]
    elif separator is not None:
        frame = files.give_types(frame)
    elif header.separator is not None:
        others = files.give_types(others)
    return ToRelease(raw, frame, others, separator)


def _require_columns_of(source: Path, names: Sequence[str], learn_from: Path, given: Sequence[str]) -> None:
    for name in names:
        if name not in given:
            raise ShoalError(
                f"--learn-from {learn_from} has no column {name!r}, but {str(source)!r} has: add it, or choose another "
                "file."
            )
    for name in given:
        if name not in names:
            raise ShoalError(
                f"--learn-from {learn_from} has the column {name!r}, but {str(source)!r} does not: remove it, or "
                "choose another file."
            )


def refuse_overwriting(sources: list[Path], outputs: list[Path], *, folder: Path | None = None) -> None:
    """Refuse outputs that would overwrite an input or each other, or that cannot be written.

    ``folder`` is an output of Spark, which must not exist yet.
    """
    from shoal.data.files import require_place

    for i, output in enumerate(outputs):
        for other in (*sources, *outputs[:i]):
            if output.resolve() == other.resolve() or (output.exists() and other.exists() and output.samefile(other)):
                raise ShoalError(f"Writing {str(output)!r} would overwrite {str(other)!r}: choose another file.")
        for source in sources:
            if source.is_dir() and _lies_in(output, source):
                raise ShoalError(
                    f"The input {str(source)!r} is a folder, and {str(output)!r} would be written into it: choose "
                    "another place."
                )
        if output is folder and output.exists():
            raise ShoalError(f"{str(output)!r} exists already: choose another name, or remove it first.")
        require_place(output)


def _lies_in(path: Path, folder: Path) -> bool:
    """Return True if a path or its link target is below a folder; the path need not exist."""
    above = {*path.resolve().parents, *(path.parent.resolve() / path.name).parents}
    return any(one.exists() and one.samefile(folder) for one in above)


class Attacked(NamedTuple):
    """Model to attack, and the rows known about it."""

    model: Any
    members: polars.DataFrame
    controls: polars.DataFrame
    released: polars.DataFrame | None
    estimator: Any
    """Estimator that trains such a model; None for the model itself."""


class AttackedFiles(NamedTuple):
    """Files of a model to attack."""

    model: Path
    members: Path
    controls: Path | None
    released: Path | None
    training: Path | None
    """Record of how the model was trained, and on which of the members' rows."""

    @property
    def files(self) -> list[Path]:
        """All files."""
        return [path for path in self if path is not None]

    def read(self, reading: ReadOptions, schema: Schema, trust: bool) -> Attacked:
        """Read all files."""
        from shoal.evaluation.provenance import Provenance
        from shoal.models.files import load_model

        provenance = None if self.training is None else Provenance.from_json(self.training)
        members = reading.table(self.members)
        controls = None if self.controls is None else reading.table(self.controls)
        model = load_model(self.model, trust=trust)
        estimator = None
        if provenance is not None:
            members, held_out = provenance.part(members)
            controls = held_out if controls is None else controls
            estimator = provenance.estimator(model, schema)
        if controls is None or not controls.height:
            raise ShoalError(
                "There are no control rows, which the model was not trained on: name them with --controls."
            )
        released = None if self.released is None else reading.table(self.released)
        return Attacked(model, members, controls, released, estimator)


def find_attacked(
    model: Path | None, members: Path, controls: Path | None, released: Path | None, folder: Path | None
) -> AttackedFiles:
    """Return the given files; for others, those in a folder that protect or train has written."""
    if folder is None:
        for path, option in ((model, "--model"), (controls, "--controls")):
            if path is None:
                raise ShoalError(
                    f"{option} is missing: name a file, or pass --from with the folder of protect or train."
                )
        assert model is not None
        return AttackedFiles(model, members, controls, released, None)
    training = folder / "training.json"
    if not training.is_file():
        raise ShoalError(f"--from {folder} has no training.json: choose a folder that protect or train has written.")
    found = sorted(folder.glob("released.*"))
    return AttackedFiles(
        model or folder / "model.skops", members, controls, released or (found[0] if found else None), training
    )


def release_elsewhere(
    source: str, schema: Schema, k: int, out: str, reading: ReadOptions, large: Large, *, threads: int | None,
    options: dict[str, Any],
) -> tuple[Any, Any]:  # fmt: skip
    """Release a table from disk or with Spark; return the evidence, and the risk of the raw table."""
    from shoal.cli import render
    from shoal.data.files import kind_to_write
    from shoal.jobs.release import anonymize_file, check_file

    options = _checked_options(anonymize_file, schema, k, options)
    how: dict[str, Any] = _engine_options(large, reading)
    if large.engine != "spark":
        kind_to_write(out)
        # Methods take -1 for all cores, which DuckDB uses by default.
        how["threads"] = threads if threads is not None and threads > 0 else None
    with _without_logs(), render.progress(2) as step, _running(large) as where_runs:
        how |= where_runs
        # The risk comes first: nothing may fail any more once the release has its final name.
        step(f"Measuring the risk of {Path(source).name}")
        known = [model for model in options["constraints"] if model.about_population]
        before = check_file(large.named(source), schema, known, **how).risk
        where = "by Spark" if large.engine == "spark" else "from disk"
        step(f"Releasing {Path(source).name} by {options['method']}, {where}")
        return anonymize_file(large.named(source), schema, k, large.named(out), **how, **options), before


def _checked_options(release: Callable[..., Any], schema: Schema, k: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a release, checked before the large table is read."""
    from shoal.jobs.release import make_anonymizer
    from shoal.parameters import Whole, check_parameters

    if "rows_per_fragment" in options:
        Whole(least=1).check("rows_per_fragment", options["rows_per_fragment"])
    if "temporary" in options:
        options = options | {"temporary": str(options["temporary"])}
    beside_method = inspect.signature(release).parameters.keys() - {"method", "constraints", "random_state", "options"}
    of_method = {name: one for name, one in options.items() if name not in beside_method}
    check_parameters(make_anonymizer(schema=schema, k=k, **of_method))
    return options


@contextmanager
def _without_logs() -> Iterator[None]:
    """Hide the log messages of libraries: py4j logs a traceback after Ctrl-C, where one sentence is enough."""
    import logging

    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)
    try:
        yield
    finally:
        root.removeHandler(silent)


def _engine_options(large: Large, reading: ReadOptions) -> dict[str, Any]:
    engine = "spark" if large.engine == "spark" else "duckdb"
    return large.options | {"engine": engine, "missing_marks": reading.marks, "separator": reading.character}


@contextmanager
def _running(large: Large) -> Iterator[dict[str, Any]]:
    """Return the options that several calls share: Spark takes seconds to start."""
    if large.engine != "spark":
        yield {}
        return
    from shoal.engines.spark import running_spark

    with running_spark(large.master, large.memory) as spark:
        yield {"master": spark}


def check_elsewhere(
    source: str, schema: Schema, constraints: Sequence[Any], reading: ReadOptions, large: Large, threshold: float
) -> Any:
    """Check a table from disk or with Spark."""
    from shoal.jobs.release import check_file

    how: dict[str, Any] = _engine_options(large, reading)
    with _without_logs():
        return check_file(large.named(source), schema, constraints, threshold=threshold, **how)


def write_release(release: Release, out: Path, separator: str | None) -> None:
    """Write the released rows in the format of the file extension."""
    from shoal.data.files import kind_to_write

    if kind_to_write(out) == "parquet":
        release.to_parquet(out)
    else:
        release.to_csv(out, separator=separator)


def write_report(release: Release, path: Path, before: Any, released: Path, title: str) -> None:
    """Write the HTML report of a release."""
    from shoal.reports.report import report

    report(release, path, raw_risk=before, released_file=released, title=title)


def files_in(folder: Path, *names: str) -> dict[str, Path]:
    """Return the files of a folder by their names without extensions."""
    return {Path(name).stem: folder / name for name in names}


@contextmanager
def making_folder(path: Path) -> Iterator[None]:
    """Create a folder, and remove it again after an error."""
    if path.is_file():
        raise ShoalError(f"{str(path)!r} is a file: choose a folder.")
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty
            for folder in made:
                folder.rmdir()
        raise
