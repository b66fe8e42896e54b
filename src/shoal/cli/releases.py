"""Commands that inspect a table, release it, and check a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from shoal.cli import render
from shoal.cli.files import (
    check_elsewhere,
    read_to_release,
    refuse_overwriting,
    release_elsewhere,
    write_release,
    write_report,
)
from shoal.cli.options import (
    OF_FILES,
    Guided,
    Json,
    K,
    Large,
    Levels,
    Method,
    MethodOption,
    ReadOptions,
    SchemaFile,
    Source,
    SourcePlace,
    TablePlace,
    number,
    parse_options,
    spread,
    takes_model,
    whole,
)
from shoal.errors import ShoalError


@spread
def inspect(
    source: Source,
    reading: ReadOptions,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Schema file to write; by default IN with the extension .toml.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the schema file if it exists.")] = False,
    json: Json = False,
) -> None:
    """Propose a role for each column, and write a schema file to edit.

    Shows the reasons, the columns that distinguish rows best, and the risk of the
    raw table. The roles are proposals: review and correct the schema file before
    you use it.

    For example:
      shoal inspect people.csv
      shoal inspect people.csv --missing-mark '?' --out schema.toml
    """
    from shoal.data.files import require_place
    from shoal.data.profiling import separations
    from shoal.data.schema import Schema
    from shoal.privacy.checking import check as check_table

    out = source.with_suffix(".toml") if out is None else out
    require_place(out)
    with render.progress(3) as step:
        step(f"Reading {source.name}")
        frame = reading.table(source)
        step(f"Profiling {frame.width} columns")
        schema = Schema.infer(frame)
        quasi = [attribute.name for attribute in schema.quasi]
        found = separations(frame, quasi) if quasi else []
        step("Measuring the risk")
        risk = check_table(frame, schema).risk if quasi else None
    written = None if out.exists() and not force else out
    if written is not None:
        schema.to_toml(written)
    marks = "".join(f" --missing-mark '{mark}'" for mark in reading.marks)
    render.inspection(source, frame.height, schema, found, risk, written, marks, json=json)
    if written is None:
        raise ShoalError(f"{str(out)!r} exists already and was not changed: pass --force, or another --out.")


@spread
def anonymize(
    source: SourcePlace,
    schema: SchemaFile,
    k: K,
    out: Annotated[str, typer.Option(metavar="FILE", help="Released file, .csv or .parquet; it must differ from IN.")],
    levels: Levels,
    reading: ReadOptions,
    guided: Guided,
    large: Large,
    method: Method = "mondrian",
    learn_from: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Learn the groups from these rows instead: a CSV or Parquet file with the columns of IN. --target and "
            "--predictions then refer to these rows.",
        ),
    ] = None,
    recoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="How to publish groups: see 'shoal methods'; the default depends on the method."
        ),
    ] = None,
    suppress: Annotated[
        float, typer.Option(metavar="SHARE", parser=number, help="Share of the rows that may be suppressed.")
    ] = 0.0,
    missing: Annotated[
        Literal["value", "error"], typer.Option(help="Treat missing values as a separate value or as an error.")
    ] = "value",
    seed: Annotated[int | None, typer.Option(parser=whole, help="Random seed of the recoding and the method.")] = None,
    threads: Annotated[
        int | None, typer.Option(parser=whole, help="Number of threads; it does not change the result.")
    ] = None,
    option: MethodOption = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="HTML report of the evidence to write.")] = None,
    json: Json = False,
) -> None:
    """Release a k-anonymous table that satisfies all other requested models.

    The command checks the released values first, and writes no file if a requested
    level is not reached. From CSV to CSV, columns that are neither quasi-identifiers
    nor sensitive keep every character; missing marks in sensitive columns are
    written as empty fields.

    For example:
      shoal anonymize in.csv --schema in.toml --k 10 --out out.csv
      shoal anonymize in.csv --schema in.toml --k 5 --l 3 --suppress 0.02
          --out out.parquet --report report.html
      shoal anonymize in.csv --schema in.toml --k 5 --recoding set
          --option mode=relaxed --out out.csv
      shoal anonymize in.csv --schema in.toml --k 100
          --method accuracy-guided --model model.skops --out out.csv
      shoal anonymize in.csv --schema in.toml --k 10
          --learn-from last-year.csv --out out.csv
    """
    from shoal.data import files
    from shoal.data.schema import Schema
    from shoal.jobs.release import anonymize as anonymize_table
    from shoal.jobs.release import make_anonymizer, release_table, risk_before

    described = guided.schema_of(Schema.from_toml(schema))
    table, place = large.place(source) or Path(source), large.place(out)
    read = [path for path in (table, schema, learn_from, guided.predictions) if path is not None]
    engine = large.chosen(table)
    written = [path for path in (place, report) if path is not None]
    refuse_overwriting(read, written, folder=place if engine == "spark" else None)
    released = place or Path(out)
    asked = levels.constraints(k)
    options = parse_options(option or [], anonymize_table, OF_FILES) | ({} if threads is None else {"n_jobs": threads})
    if engine != "memory":
        for given, name in ((learn_from, "--learn-from"), (guided.predictions, "--predictions")):
            if given is not None:
                raise ShoalError(
                    f"{name} {given} cannot be used with --engine {engine}: leave it out, or use --engine memory."
                )
        options |= guided.options(method, described, 0) | {"recoding": recoding, "suppression": suppress}
        options |= {"method": method, "constraints": asked, "missing": missing, "random_state": seed}
        evidence, before = release_elsewhere(
            source, described, k, out, reading, large, threads=threads, options=options
        )
        if report is not None:
            write_report(evidence, report, before, released, f"Release of {table.name}")
        return render.release(evidence, before, released, report, json=json)
    with render.progress(3) as step:
        step(f"Reading {table.name}")
        looked_at = None if takes_model(method) else [a.name for a in (*described.quasi, *described.sensitive)]
        kept_as_text = files.kind_to_write(released) == "csv"
        raw, frame, others, separator = read_to_release(
            table, learn_from, reading, looked_at, kept_as_text=kept_as_text, typed=guided.is_asked_for
        )
        options |= guided.options(method, described, len(frame if others is None else others))
        step(f"Releasing {raw.height:,} rows by {method}")
        y = options.pop("y", None)
        anonymizer = make_anonymizer(
            method, described, k, constraints=asked, recoding=recoding, suppression=suppress, missing=missing,
            random_state=seed, **options,
        )  # fmt: skip
        release, encoded, _ = release_table(
            anonymizer, method, frame, y, learn_from=others, texts=raw, missing_marks=reading.marks
        )
        before = risk_before(encoded, asked)
        step(f"Writing {released.name}")
        write_release(release, released, separator if table.suffix == released.suffix else None)
        if report is not None:
            write_report(release, report, before, released, f"Release of {table.name}")
    return render.release(release, before, released, report, json=json)


@spread
def check(
    source: TablePlace,
    schema: SchemaFile,
    levels: Levels,
    reading: ReadOptions,
    large: Large,
    k: Annotated[int | None, typer.Option("--k", parser=whole, help="Minimum number of rows per group.")] = None,
    threshold: Annotated[
        float, typer.Option(parser=number, help="Risk above which a row is counted as at risk.")
    ] = 0.2,
    json: Json = False,
) -> None:
    """Measure all privacy models on a table, and check the requested levels.

    The table may be raw or released. The exit code is 1 if a requested level is
    not reached. The command reads only the columns that it needs.

    For example:
      shoal check released.csv --schema people.toml
      shoal check released.csv --schema people.toml --k 10 --l 3 --json
    """
    from shoal.data import files
    from shoal.data.schema import Schema
    from shoal.privacy.checking import check as check_table
    from shoal.privacy.checking import require_checkable
    from shoal.privacy.models import KAnonymity

    table = large.place(source) or Path(source)
    described = Schema.from_toml(schema)
    asked = ([] if k is None else [KAnonymity(k)]) + levels.constraints(k)
    if large.chosen(table) != "memory":
        checked = check_elsewhere(source, described, asked, reading, large, threshold)
        render.checked(table, checked, json=json)
        if not checked.holds:
            raise typer.Exit(1)
        return
    with render.progress(2) as step:
        step(f"Reading {table.name}")
        header = files.read_header(table, reading.character)
        require_checkable(header.names, described)
        wanted = {a.name for a in (*described.quasi, *described.sensitive, *described.identifiers)} | {levels.members}
        columns = [name for name in header.names if name in wanted]
        frame = files.read_table(table, columns=columns, separator=header.separator, typed=False)
        frame = files.mark_missing(frame, reading.marks, columns)
        step(f"Checking {frame.height:,} rows")
        checked = check_table(frame, described, asked, threshold=threshold)
    render.checked(table, checked, json=json)
    if not checked.holds:
        raise typer.Exit(1)
