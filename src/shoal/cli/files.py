"""What commands read and write: tables that are to be released, releases, reports, folders."""

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
    """A table that is to be released."""

    raw: polars.DataFrame
    """As it is released where it is not changed."""
    frame: polars.DataFrame
    """As the method sees it."""
    others: polars.DataFrame | None
    """Rows to learn from, as the method sees them."""
    separator: str | None


def read_to_release(
    source: Path, learn_from: Path | None, reading: ReadOptions, looked_at: Sequence[str] | None, *, kept_as_text: bool,
    typed: bool,
) -> ToRelease:  # fmt: skip
    """Read a table, and another one to learn from; marks are missing values in the columns that are looked at.

    By default all columns are. ``typed`` gives the method numbers where a CSV file has them.
    """
    from shoal.data import files

    names, separator = files.read_header(source, reading.character)
    looked_at = names if looked_at is None else looked_at
    raw = text = files.read_table(source, separator=separator, typed=False)
    if separator is not None and not kept_as_text:
        raw = files.give_types(files.mark_missing(text, reading.marks, names))
    if learn_from is None:
        frame = files.mark_missing(raw, reading.marks, looked_at)
        # A model wants to see numbers as numbers.
        frame = files.give_types(frame) if typed and separator is not None else frame
        return ToRelease(raw, frame, None, separator)
    header = files.read_header(learn_from, reading.character)
    _require_columns_of(source, names, learn_from, header.names)
    others = files.read_table(learn_from, columns=names, separator=header.separator, typed=False)
    frame, others = (files.mark_missing(table, reading.marks, looked_at) for table in (text, others))
    if separator is not None and header.separator is not None:
        # As one table: what is 1.0 or true in both files may stand among numbers here, and among words there.
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
                f"--learn-from {learn_from} has no column {name!r}, but {str(source)!r} has: add it there, or learn "
                "from another file."
            )
    for name in given:
        if name not in names:
            raise ShoalError(
                f"--learn-from {learn_from} has the column {name!r}, but {str(source)!r} has not: leave it out there, "
                "or learn from another file."
            )


def refuse_overwriting(sources: list[Path], outputs: list[Path], *, folder: Path | None = None) -> None:
    """Refuse to write over what is read, or twice over the same file, and to write where nothing can be written.

    ``folder`` is one of the outputs that Spark makes, which replaces nothing.
    """
    from shoal.data.files import require_place

    for i, output in enumerate(outputs):
        for other in (*sources, *outputs[:i]):
            if output.resolve() == other.resolve() or (output.exists() and other.exists() and output.samefile(other)):
                raise ShoalError(f"Writing {str(output)!r} would overwrite {str(other)!r}: choose another file.")
        for source in sources:
            if source.is_dir() and _lies_in(output, source):
                raise ShoalError(
                    f"{str(source)!r} is a folder that is read, and {str(output)!r} would be written into it: write "
                    "somewhere else."
                )
        if output is folder and output.exists():
            raise ShoalError(f"{str(output)!r} is there already: choose another name, or remove it first.")
        require_place(output)


def _lies_in(path: Path, folder: Path) -> bool:
    """Whether a path, or what it links to, is anywhere below a folder; it need not be there."""
    above = {*path.resolve().parents, *(path.parent.resolve() / path.name).parents}
    return any(one.exists() and one.samefile(folder) for one in above)


class Attacked(NamedTuple):
    """A model that is to be attacked, and what is known of it."""

    model: Any
    members: polars.DataFrame
    controls: polars.DataFrame
    released: polars.DataFrame | None
    estimator: Any
    """How the model was trained; None if as itself."""


class AttackedFiles(NamedTuple):
    """Where to read a model that is to be attacked."""

    model: Path
    members: Path
    controls: Path | None
    released: Path | None
    training: Path | None
    """How it was trained, and on which of the members' rows."""

    @property
    def files(self) -> list[Path]:
        """All of them."""
        return [path for path in self if path is not None]

    def read(self, reading: ReadOptions, schema: Schema, trust: bool) -> Attacked:
        """Read everything."""
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
            raise ShoalError("There are no rows that the model was not trained on: name some by --controls.")
        released = None if self.released is None else reading.table(self.released)
        return Attacked(model, members, controls, released, estimator)


def find_attacked(
    model: Path | None, members: Path, controls: Path | None, released: Path | None, folder: Path | None
) -> AttackedFiles:
    """Files that are named, and where they are not, those of a folder that protect or train has written."""
    if folder is None:
        for path, option in ((model, "--model"), (controls, "--controls")):
            if path is None:
                raise ShoalError(f"{option} is missing: name a file, or --from a folder that protect or train wrote.")
        assert model is not None
        return AttackedFiles(model, members, controls, released, None)
    training = folder / "training.json"
    if not training.is_file():
        raise ShoalError(f"--from {folder} has no training.json: name a folder that protect or train has written.")
    found = sorted(folder.glob("released.*"))
    return AttackedFiles(
        model or folder / "model.skops", members, controls, released or (found[0] if found else None), training
    )


def release_elsewhere(
    source: str, schema: Schema, k: int, out: str, reading: ReadOptions, large: Large, *, threads: int | None,
    options: dict[str, Any],
) -> tuple[Any, Any]:  # fmt: skip
    """Release a table that is worked on from disk or by Spark: the evidence, and the risk before."""
    from shoal.cli import render
    from shoal.data.files import kind_to_write
    from shoal.jobs.release import anonymize_file, check_file

    options = _checked_options(anonymize_file, schema, k, options)
    how: dict[str, Any] = _engine_options(large, reading)
    if large.engine != "spark":
        kind_to_write(out)
        # Methods take -1 for all cores, which is what DuckDB has by itself.
        how["threads"] = threads if threads is not None and threads > 0 else None
    with _without_logs(), render.progress(2) as step, _running(large) as where_runs:
        how |= where_runs
        # First of all: once the release has its name, nothing may go wrong any more.
        step(f"Measuring the risk of {Path(source).name} before")
        known = [model for model in options["constraints"] if model.about_population]
        before = check_file(large.named(source), schema, known, **how).risk
        where = "by Spark" if large.engine == "spark" else "from disk"
        step(f"Releasing {Path(source).name} by {options['method']}, {where}")
        return anonymize_file(large.named(source), schema, k, large.named(out), **how, **options), before


def _checked_options(release: Callable[..., Any], schema: Schema, k: int, options: dict[str, Any]) -> dict[str, Any]:
    """What a release is told, looked at before a large table is: that takes its time."""
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
    """Keep what libraries log off the screen: py4j logs tracebacks when Ctrl-C meets it, where a sentence is due."""
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
    """What calls share: Spark takes seconds to start."""
    if large.engine != "spark":
        yield {}
        return
    from shoal.engines.spark import running_spark

    with running_spark(large.master, large.memory) as spark:
        yield {"master": spark}


def check_elsewhere(
    source: str, schema: Schema, constraints: Sequence[Any], reading: ReadOptions, large: Large, threshold: float
) -> Any:
    """Check a table that is worked on from disk or by Spark."""
    from shoal.jobs.release import check_file

    how: dict[str, Any] = _engine_options(large, reading)
    with _without_logs():
        return check_file(large.named(source), schema, constraints, threshold=threshold, **how)


def write_release(release: Release, out: Path, separator: str | None) -> None:
    """Write the released rows, as the ending of the file says."""
    from shoal.data.files import kind_to_write

    if kind_to_write(out) == "parquet":
        release.to_parquet(out)
    else:
        release.to_csv(out, separator=separator)


def write_report(release: Release, path: Path, before: Any, released: Path, title: str) -> None:
    """Write the page of evidence."""
    from shoal.reports.report import report

    report(release, path, raw_risk=before, released_file=released, title=title)


def write_text(path: Path, text: str) -> None:
    """Write a text, in full or not at all."""
    from shoal.data.files import replacing

    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def files_in(folder: Path, *names: str) -> dict[str, Path]:
    """Files of a folder, by their names without endings."""
    return {Path(name).stem: folder / name for name in names}


@contextmanager
def making_folder(path: Path) -> Iterator[None]:
    """Make a folder, and take it away again if nothing came of it."""
    if path.is_file():
        raise ShoalError(f"{str(path)!r} is a file: name a folder.")
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty
            for folder in made:
                folder.rmdir()
        raise
