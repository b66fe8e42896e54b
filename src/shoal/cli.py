"""The command line: each command parses, calls the library, and prints or writes what came back.

Exit codes: 0 done, 1 a level asked for is not reached, 2 bad usage or input, 130 interrupted. Results go to stdout,
progress and errors to stderr. Whatever is slow to import is imported by the command that needs it.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from shoal import __version__, _render
from shoal._command_files import (
    files_in,
    making_folder,
    raw_risk,
    read_to_release,
    refuse_overwriting,
    restore_texts,
    write_release,
    write_report,
    write_text,
)
from shoal._options import (
    Guided,
    Levels,
    Reading,
    Trust,
    find_model,
    find_models,
    find_predictor,
    load_trained,
    names_of,
    number,
    parse_options,
    parse_secrets,
    parse_weights,
    spread,
    takes_model,
    whole,
)
from shoal.errors import GuaranteeError, GuaranteeWarning, ShoalError

app = typer.Typer(
    help="Release a table k-anonymous, and be able to prove it.",
    epilog="Start with [bold]shoal demo[/bold], or with your own file: [bold]shoal inspect people.csv[/bold]",
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)

Source = Annotated[Path, typer.Argument(metavar="IN", help="CSV or Parquet file.", show_default=False)]
Table = Annotated[Path, typer.Argument(metavar="FILE", help="CSV or Parquet file.", show_default=False)]
SchemaFile = Annotated[
    Path, typer.Option("--schema", metavar="FILE", help="What each column is; 'shoal inspect' writes one.")
]
Json = Annotated[bool, typer.Option("--json", help='Print JSON; infinity is the text "inf", NaN null.')]


def main() -> None:
    """Entry point of ``shoal``."""
    if hasattr(signal, "SIGPIPE"):
        # `shoal … | head` ends us silently, as it does other tools; results are printed after all files are written.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(run())


def run(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; bad input is told in one sentence on stderr."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", GuaranteeWarning)
            warnings.showwarning = _show_warning
            code = app(args, prog_name="shoal", standalone_mode=False)
        if code == 130:
            _say("interrupted, and nothing was left half written.")
        return int(code or 0)
    except GuaranteeError as error:
        return _say(str(error), 1)
    except ShoalError as error:
        return _say(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted, and nothing was left half written.", 130)
    except MemoryError:
        return _say("There is not enough memory for this table: take fewer columns, or a larger machine.", 2)
    except OSError as error:
        return _say(f"{error.filename or 'A file'} cannot be used ({error.strerror}): check it, and the space left.", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _say(_usage_error(error), 2)


def _say(sentence: str, code: int = 0) -> int:
    print("shoal:", " ".join(sentence.split()), file=sys.stderr)
    return code


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    _say(f"warning: {message}")


def _usage_error(error: Any) -> str:
    """What typer complains of, in one sentence that says where to read more."""
    command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "shoal"
    message = error.format_message().replace("Value error, ", "").replace(". Did you mean ", ", perhaps ")
    return f"{message.rstrip('.? ')}; see '{command} --help'."


def _print_version(asked: bool) -> None:
    if asked:
        print(f"shoal {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
@spread
def inspect(
    source: Source,
    reading: Reading,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Schema file to write; IN with the ending .toml by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the schema file if it is there.")] = False,
    json: Json = False,
) -> None:
    """Propose what each column is to privacy, and write a schema to edit.

    Shows why, what tells rows apart most, and the risk of the raw table. The
    proposal is a start, not a verdict: read it, and mend the schema file
    before you use it.

    For example:
      shoal inspect people.csv
      shoal inspect people.csv --missing-mark '?' --out schema.toml
    """
    from shoal.files import require_place
    from shoal.profiling import separations
    from shoal.release import check as check_table
    from shoal.schema import Schema

    out = source.with_suffix(".toml") if out is None else out
    require_place(out)
    with _render.progress(3) as step:
        step(f"Reading {source.name}")
        frame = reading.table(source)
        step(f"Looking at {frame.width} columns")
        schema = Schema.infer(frame)
        quasi = [attribute.name for attribute in schema.quasi]
        found = separations(frame, quasi) if quasi else []
        step("Measuring the risk")
        risk = check_table(frame, schema).risk if quasi else None
    written = None if out.exists() and not force else out
    if written is not None:
        schema.to_toml(written)
    marks = "".join(f" --missing-mark '{mark}'" for mark in reading.marks)
    _render.inspection(source, frame.height, schema, found, risk, written, marks, json=json)
    if written is None:
        raise ShoalError(f"{str(out)!r} is there already and was left as it is: pass --force, or another --out.")


@app.command()
@spread
def anonymize(
    source: Source,
    schema: SchemaFile,
    k: Annotated[int, typer.Option("--k", parser=whole, help="Rows that must be released alike, at least.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Released file, .csv or .parquet; never IN itself.")],
    levels: Levels,
    reading: Reading,
    guided: Guided,
    method: Annotated[str, typer.Option(metavar="NAME", help="How to partition: see 'shoal methods'.")] = "mondrian",
    learn_from: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Find the groups on these rows instead, which have the columns of IN: CSV or Parquet. --target and "
            "--predictions are then of these rows.",
        ),
    ] = None,
    recoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Release groups as interval, set, level (Flash), representative, medoid, centroid, median, majority, "
            "mean or sample; by default the method's own.",
        ),
    ] = None,
    suppress: Annotated[
        float, typer.Option(metavar="SHARE", parser=number, help="Share of the rows that may be suppressed.")
    ] = 0.0,
    missing: Annotated[
        Literal["value", "error"], typer.Option(help="Missing values are a value of their own, or an error.")
    ] = "value",
    seed: Annotated[int | None, typer.Option(parser=whole, help="Seed, for recodings and methods that draw.")] = None,
    threads: Annotated[int | None, typer.Option(parser=whole, help="Threads; they do not change the result.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Further parameter of the method; may be repeated.")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="HTML report of the evidence to write.")] = None,
    json: Json = False,
) -> None:
    """Release a table k-anonymous, and with every other model asked for.

    The released values are checked before anything is written: if a level is
    not reached, nothing is. From CSV to CSV, columns that are not
    quasi-identifiers keep every character.

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
    from shoal import files
    from shoal.release import anonymize as anonymize_table
    from shoal.schema import Schema

    read = [path for path in (source, schema, learn_from, guided.predictions) if path is not None]
    refuse_overwriting(read, [out, *([report] if report else [])])
    asked = levels.constraints(k)
    options = parse_options(option or [], anonymize_table) | ({} if threads is None else {"n_jobs": threads})
    described = guided.schema_of(Schema.from_toml(schema))
    with _render.progress(3) as step:
        step(f"Reading {source.name}")
        looked_at = None if takes_model(method) else [a.name for a in (*described.quasi, *described.sensitive)]
        kept_as_text = files.kind_to_write(out) == "csv"
        raw, frame, others, separator = read_to_release(
            source, learn_from, reading, looked_at, kept_as_text=kept_as_text, typed=guided.is_asked_for
        )
        options |= guided.options(method, described, len(frame if others is None else others))
        step(f"Releasing {raw.height:,} rows by {method}")
        release = anonymize_table(
            frame, described, k, method=method, constraints=asked, recoding=recoding, suppression=suppress,
            missing=missing, random_state=seed, learn_from=others, **options,
        )  # fmt: skip
        step(f"Writing {out.name}")
        before = raw_risk(frame, described, asked)
        if frame is not raw:
            restore_texts(release, raw)
        write_release(release, out, separator if source.suffix == out.suffix else None)
        if report is not None:
            write_report(release, report, before, out, f"Release of {source.name}")
    _render.release(release, before, out, report, json=json)


@app.command()
@spread
def check(
    source: Table,
    schema: SchemaFile,
    levels: Levels,
    reading: Reading,
    k: Annotated[int | None, typer.Option("--k", parser=whole, help="Rows that must be alike, at least.")] = None,
    threshold: Annotated[float, typer.Option(parser=number, help="Risk above which a row counts as at risk.")] = 0.2,
    json: Json = False,
) -> None:
    """Measure every privacy model on a table, and check the levels asked for.

    The table may be released or raw. The exit code is 1 if a level asked for
    is not reached. Only the columns that matter are read.

    For example:
      shoal check released.csv --schema people.toml
      shoal check released.csv --schema people.toml --k 10 --l 3 --json
    """
    from shoal import files
    from shoal.privacy import KAnonymity
    from shoal.release import check as check_table
    from shoal.release import require_checkable
    from shoal.schema import Schema

    described = Schema.from_toml(schema)
    asked = ([] if k is None else [KAnonymity(k)]) + levels.constraints(k)
    with _render.progress(2) as step:
        step(f"Reading {source.name}")
        header = files.read_header(source, reading.character)
        require_checkable(header.names, described)
        wanted = {a.name for a in (*described.quasi, *described.sensitive, *described.identifiers)} | {levels.members}
        columns = [name for name in header.names if name in wanted]
        frame = files.read_table(source, columns=columns, separator=header.separator, typed=False)
        frame = files.mark_missing(frame, reading.marks, columns)
        step(f"Checking {frame.height:,} rows")
        checked = check_table(frame, described, asked, threshold=threshold)
    _render.checked(source, checked, json=json)
    if not checked.holds:
        raise typer.Exit(1)


@app.command()
@spread
def protect(
    source: Annotated[Path, typer.Argument(metavar="TRAIN", help="Rows to train on, CSV or Parquet.")],
    schema: SchemaFile,
    k: Annotated[int, typer.Option("--k", parser=whole, help="Rows that must be released alike, at least.")],
    levels: Levels,
    reading: Reading,
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="A .skops, .joblib or .pkl file, or a name: forest, mlp, boosting …")
    ] = "forest",
    trust: Trust = False,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows to compare on; by default a part of TRAIN is held out.")
    ] = None,
    test_size: Annotated[float, typer.Option(metavar="SHARE", parser=number, help="Share that is held out.")] = 0.2,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="How to partition: see 'shoal methods'.")
    ] = "accuracy-guided",
    recoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Release groups as representative, medoid, centroid, majority …")
    ] = None,
    seed: Annotated[int, typer.Option(parser=whole, help="Seed of the split, the method and the models.")] = 0,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Further parameter of the method; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files; made if need be.")] = Path(
        "protected"
    ),
    json: Json = False,
) -> None:
    """Train a model on a k-anonymous release of its training rows.

    Anonymizes the rows so that the model stays accurate, trains a fresh copy of
    it on the release, compares both on rows that neither has seen, and writes
    the release, the retrained model and a report of what was gained and lost.

    For example:
      shoal protect people.csv --schema people.toml --model rf --k 50 --out protected
      shoal protect people.csv --schema people.toml --model model.skops --k 10
          --l 2 --test holdout.csv --out protected
    """
    from shoal._kernels.ahead import compile_ahead
    from shoal.schema import Schema

    described, asked = Schema.from_toml(schema), levels.constraints(k)
    if source.is_file():
        compile_ahead(guarded=bool(asked))

    # These take a second or two to import, in which others can compile.
    from shoal.models import save_model
    from shoal.protection import protect as protect_model

    further = parse_options(option or [], protect_model)
    written = files_in(out, f"released{source.suffix}", "model.skops", "report.html")

    with making_folder(out), _render.progress(4) as step:
        refuse_overwriting([source, schema, *([test] if test else [])], list(written.values()))
        step(f"Reading {source.name}")
        frame, held_out = reading.table(source), None if test is None else reading.table(test)
        chosen = find_model(model, described, trust)
        step(f"Protecting a model of {frame.height:,} rows")
        protection = protect_model(
            frame, described, chosen, k, test=held_out, test_size=test_size, method=method, constraints=asked,
            recoding=recoding, random_state=seed, **further,
        )  # fmt: skip
        step("Writing the release and the model")
        write_release(protection.release, written["released"], None)
        save_model(protection.model, written["model"])
        step("Writing the report")
        protection.to_html(
            written["report"], title=f"A model of {source.name}, protected", released_file=written["released"]
        )
    _render.protection(protection, written, json=json)


@app.command()
@spread
def train(
    source: Annotated[Path, typer.Argument(metavar="TRAIN", help="Rows to train on, CSV or Parquet.")],
    schema: SchemaFile,
    reading: Reading,
    estimator: Annotated[str, typer.Option(metavar="NAME", help="tree, forest or boost.")] = "forest",
    max_accuracy_loss: Annotated[
        float | None,
        typer.Option(metavar="LOSS", parser=number, help="What accuracy, or R², may fall by; 0.01 without a bound."),
    ] = None,
    max_importance: Annotated[
        float | None,
        typer.Option(metavar="SHARE", parser=number, help="Importance that sensitive features may have together."),
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=W]", help="Sensitive feature and its weight up to 1, instead of the schema's."),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows to compare on; by default a part of TRAIN is held out.")
    ] = None,
    test_size: Annotated[float, typer.Option(metavar="SHARE", parser=number, help="Share that is held out.")] = 0.2,
    folds: Annotated[int, typer.Option(parser=whole, help="Parts of the rows that settings are tried on.")] = 3,
    jobs: Annotated[int, typer.Option(parser=whole, help="Models to train side by side; -1 for one a core.")] = -1,
    seed: Annotated[int, typer.Option(parser=whole, help="Seed of the split and the models.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Parameter of the estimator, such as max_depth=8; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files; made if need be.")] = Path("trained"),
    json: Json = False,
) -> None:
    """Train a tree model that leans less on sensitive features.

    Tries penalties, levels and limits of splits, takes what leans least on the
    sensitive features at a bearable cost, and compares it with a model that
    knows of no sensitivity. Writes the model and a report of the importances
    before and after; of a single tree its rules too.

    For example:
      shoal train people.csv --schema people.toml --estimator forest --max-accuracy-loss 0.01
      shoal train people.csv --schema people.toml --estimator tree --sensitive age --sensitive sex=0.5
          --option max_depth=8 --out trained
    """
    from shoal.models import save_model
    from shoal.schema import Schema
    from shoal.training import train as train_model

    described, weights = Schema.from_toml(schema), parse_weights(sensitive)
    further = parse_options(option or [], train_model)
    names = ["model.skops", "report.html", *(["rules.txt"] if estimator == "tree" else [])]
    written = files_in(out, *names)

    with making_folder(out), _render.progress(3) as step:
        refuse_overwriting([source, schema, *([test] if test else [])], list(written.values()))
        step(f"Reading {source.name}")
        frame, held_out = reading.table(source), None if test is None else reading.table(test)
        step(f"Training on {frame.height:,} rows")
        training = train_model(
            frame, described, estimator, sensitivity=weights, max_accuracy_loss=max_accuracy_loss,
            max_importance=max_importance, test=held_out, test_size=test_size, cv=folds, n_jobs=jobs, random_state=seed,
            **further,
        )  # fmt: skip
        step("Writing the model and the report")
        save_model(training.model, written["model"])
        training.to_html(written["report"], title=f"A model of {source.name} that leans less on what is sensitive")
        if "rules" in written:
            write_text(written["rules"], training.rules() or "")
    _render.training(training, written, json=json)


@app.command()
@spread
def clean(
    source: Annotated[Path, typer.Argument(metavar="QUERY", help="Rows to clean, CSV or Parquet.", show_default=False)],
    predictor: Annotated[
        Path, typer.Option(metavar="MODEL", help="Who gets the rows: a .skops, .joblib, .pkl or .onnx file.")
    ],
    reading: Reading,
    epsilon: Annotated[
        float, typer.Option(parser=number, help="How far its linear stage may move: the squared distance, a row.")
    ] = 0.01,
    mode: Annotated[
        Literal["knapsack", "energy", "exact"],
        typer.Option(metavar="MODE", help="Spend epsilon on components, on energy, or not at all: see the docs."),
    ] = "knapsack",
    confidential: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE:COLUMN", help="Secret to hide, a column of rows with the features; may be repeated."
        ),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Training rows whose mean stands in for what is left out; else zero."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Feature to send as it is; may be repeated.")
    ] = None,
    within: Annotated[
        Literal["seen"] | None,
        typer.Option(metavar="BOUNDS", help="seen: keep cleaned values within those of the training rows."),
    ] = None,
    trust: Trust = False,
    seed: Annotated[int, typer.Option(parser=whole, help="Seed of the adversaries.")] = 0,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Cleaned file, .csv or .parquet; never QUERY itself.")
    ] = Path("cleaned.csv"),
    json: Json = False,
) -> None:
    """Clean queries, so that a predictor is told no more than it needs.

    What a predictor with a linear first stage does not look at is left out; what
    it hardly looks at too, as far as epsilon allows. Shows how far its outputs
    moved, and with --confidential what an adversary still gets who learns the
    secret again from cleaned rows. Columns that it does not use are not sent.

    For example:
      shoal clean queries.csv --predictor model.skops --rows train.csv --epsilon 0.01 --out cleaned.csv
      shoal clean queries.csv --predictor model.skops --epsilon 0.1
          --confidential train.csv:disease --out cleaned.csv
    """
    from shoal.cleaning import clean as clean_rows
    from shoal.files import write_table
    from shoal.frames import open_frame

    known, secrets = parse_secrets(confidential, rows)
    refuse_overwriting([source, predictor, *([known] if known else [])], [out])
    with _render.progress(3) as step:
        step(f"Reading {source.name}")
        queries, learned = reading.table(source), None if known is None else reading.table(known)
        asked = find_predictor(predictor, trust)
        step(f"Cleaning {queries.height:,} rows")
        cleaning = clean_rows(
            queries, asked, epsilon, mode=mode, rows=learned, secret=secrets, keep=keep or (), bounds=within,
            random_state=seed,
        )  # fmt: skip
        step(f"Writing {out.name}")
        write_table(open_frame(cleaning.frame), out)
    _render.cleaning(cleaning, {"cleaned": out}, json=json)


@app.command()
@spread
def audit(
    model: Annotated[str, typer.Option(metavar="FILE", help="The model: a .skops, .joblib or .pkl file.")],
    members: Annotated[Path, typer.Option(metavar="FILE", help="Rows that it was trained on, CSV or Parquet.")],
    controls: Annotated[Path, typer.Option(metavar="FILE", help="Rows like them that it was not trained on.")],
    schema: SchemaFile,
    reading: Reading,
    released: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The release of the members, to be linked with them.")
    ] = None,
    references: Annotated[
        int, typer.Option(parser=whole, help="Reference models, an even number; more make stronger attacks.")
    ] = 16,
    time_limit: Annotated[
        float | None, typer.Option(parser=number, help="Seconds that attacks may take; fewer are made to keep to it.")
    ] = None,
    jobs: Annotated[int, typer.Option(parser=whole, help="Reference models to train side by side.")] = -1,
    trust: Trust = False,
    seed: Annotated[int, typer.Option(parser=whole, help="Seed of the attacks.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Page to write; its numbers go beside it as .json.")] = Path(
        "audit.html"
    ),
    json: Json = False,
) -> None:
    """Attack a model, and report what leaks.

    Tries to tell who was trained on, to infer what the schema calls sensitive,
    and with --released to link people with a release. Every attack is compared
    with one that lacks the model, with intervals. Writes a page that can be
    filed, and every number as JSON.

    For example:
      shoal audit --model model.skops --members train.csv --controls test.csv
          --schema people.toml --out audit.html
    """
    from shoal.auditing import audit as audit_model
    from shoal.schema import Schema

    if out.suffix.lower() not in (".html", ".htm"):
        raise ShoalError(f"--out {out} is the page: name a file that ends in .html.")
    described = Schema.from_toml(schema)
    written = {"report": out, "numbers": out.with_suffix(".json")}
    read = [members, controls, schema, *([released] if released else [])]
    refuse_overwriting(read, list(written.values()))
    with _render.progress(3) as step:
        step(f"Reading {members.name} and {controls.name}")
        trained_on, others = reading.table(members), reading.table(controls)
        release = None if released is None else reading.table(released)
        loaded = load_trained(model, trust)
        step(f"Attacking with {trained_on.height:,} members and {others.height:,} controls")
        found = audit_model(
            loaded, trained_on, others, described, released=release, n_references=references, time_limit=time_limit,
            n_jobs=jobs, random_state=seed,
        )  # fmt: skip
        step("Writing the report")
        found.to_html(out, title=f"Audit of {Path(model).name}")
        found.to_json(written["numbers"])
    _render.audit(found, written, json=json)


@app.command()
@spread
def frontier(
    source: Source,
    schema: SchemaFile,
    levels: Levels,
    reading: Reading,
    model: Annotated[
        str,
        typer.Option(metavar="MODELS", help="Models to train: names and .skops, .joblib or .pkl files, as forest,mlp."),
    ] = "forest",
    trust: Trust = False,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Methods to release by: see 'shoal methods'.")
    ] = "mondrian,accuracy-guided",
    k: Annotated[
        str, typer.Option("--k", metavar="NUMBERS", help="Values of k to try, such as 5,10,50.")
    ] = "10,50,100",
    seeds: Annotated[int, typer.Option(parser=whole, help="Splits of the rows to average over.")] = 5,
    test_size: Annotated[
        float, typer.Option(metavar="SHARE", parser=number, help="Share of the rows to test on.")
    ] = 0.2,
    recoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Release groups as representative, median …; not as ranges.")
    ] = None,
    loss: Annotated[
        float, typer.Option(parser=number, help="Loss of the score that is acceptable; 0.01 is a point.")
    ] = 0.01,
    jobs: Annotated[int, typer.Option(parser=whole, help="Processes side by side; they do not change the result.")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what an earlier run left in DIR.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files; made if need be.")] = Path("frontier"),
    json: Json = False,
) -> None:
    """Measure what each k costs a model, and which k can be afforded.

    Models are trained on raw rows and on releases of them, and scored on rows
    that none has seen. Writes frontier.csv, .svg, .png and .html to DIR, and
    each finished cell to cells.jsonl: a run that was stopped goes on from there.

    For example:
      shoal frontier people.csv --schema people.toml --model forest,mlp
          --methods mondrian --k 5,10,50 --seeds 5 --out frontier
      shoal frontier people.csv --schema people.toml --model forest,mine.skops
          --out frontier
    """
    from shoal._plot import require_matplotlib
    from shoal.evaluation import evaluate
    from shoal.schema import Schema

    require_matplotlib()
    described, asked = Schema.from_toml(schema), levels.constraints(None)
    ks = [whole(part) for part in names_of(k)]
    models = find_models(model, described, trust)
    frame = reading.table(source)
    out.mkdir(parents=True, exist_ok=True)
    cells = out / "cells.jsonl"
    if fresh:
        cells.unlink(missing_ok=True)
    with _render.counting() as progress:
        found = evaluate(
            frame, described, models, methods=names_of(methods), k=ks, seeds=seeds, test_size=test_size,
            constraints=asked, recoding=recoding, n_jobs=jobs, store=cells, progress=progress,
        )  # fmt: skip
    written = {ending: out / f"frontier.{ending}" for ending in ("csv", "svg", "png", "html")}
    found.to_csv(written["csv"])
    found.plot(written["svg"])
    found.plot(written["png"])
    found.to_html(written["html"], title=f"What privacy costs a model of {source.name}", loss=loss)
    _render.frontier(found, loss, written | {"cells": cells}, json=json)


@app.command()
def methods(json: Json = False) -> None:
    """List the methods that partition a table into groups.

    The name is what 'shoal anonymize' takes as --method.

    For example:
      shoal methods
    """
    from shoal.anonymizers import find_method, method_names

    lines = {name: (find_method(name).__doc__ or "").strip().split("\n")[0] for name in method_names()}
    _render.methods(lines, json=json)


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One of the list, to write.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write; its schema goes beside it.")] = None,
    rows: Annotated[int | None, typer.Option(parser=whole, help="Number of people in the synthetic census.")] = None,
    seed: Annotated[int, typer.Option(parser=whole, help="Seed of the synthetic census.")] = 0,
    json: Json = False,
) -> None:
    """List the data sets, or write one with its schema.

    The census is synthetic and made on the spot. The others are public, and
    looked for in the folder SHOAL_DATA, then in a cache, then fetched.

    For example:
      shoal datasets
      shoal datasets census --rows 100000 --out census.parquet
    """
    from shoal import datasets as library
    from shoal.files import write_table
    from shoal.frames import open_frame

    known = {info.name: info for info in library.list_datasets()}
    if name is None:
        _render.datasets(list(known.values()), json=json)
        return
    if name not in known:
        raise ShoalError(f"There is no data set {name!r}: choose {', '.join(known)}.")
    if name != "census" and rows is not None:
        raise ShoalError(f"--rows {rows} is for the synthetic census: the data set {name!r} has its own rows.")
    out = Path(f"{name}.csv") if out is None else out
    schema_file = out.with_suffix(".toml")
    refuse_overwriting([], [out, schema_file])
    with _render.progress(2) as step:
        step(f"Getting {name}")
        arguments = (30_000 if rows is None else rows, seed) if name == "census" else ()
        frame, schema = getattr(library, known[name].function)(*arguments)
        step(f"Writing {out.name}")
        write_table(open_frame(frame), out)
        schema.to_toml(schema_file)
    _render.written({"file": out, "schema": schema_file}, json=json)


@app.command()
def demo(
    rows: Annotated[int, typer.Option(parser=whole, help="Number of people.")] = 5_000,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files; made if need be.")] = Path("demo"),
) -> None:
    """Protect a model of a synthetic census: the whole job in one go.

    Makes people who are nobody, releases most of them in groups of at least ten
    with at least three health conditions each, so that a forest trained on them
    still predicts incomes, and writes the raw file, its schema, the released
    file, the model and the report.

    For example:
      shoal demo --rows 30000 --out demo
    """
    from shoal.datasets import make_census
    from shoal.files import write_table
    from shoal.frames import open_frame
    from shoal.models import save_model
    from shoal.privacy import LDiversity
    from shoal.protection import protect as protect_model

    written = files_in(out, "census.csv", "schema.toml", "released.csv", "model.skops", "report.html")
    with making_folder(out), _render.progress(3) as step:
        step(f"Making a census of {rows:,} people")
        census = make_census(rows)
        step("Protecting a forest that predicts incomes (kernels are compiled the first time)")
        protection = protect_model(census.frame, census.schema, "forest", 10, constraints=[LDiversity(3)])
        step("Writing the census, the release, the model and the report")
        write_table(open_frame(census.frame), written["census"])
        census.schema.to_toml(written["schema"])
        write_release(protection.release, written["released"], None)
        save_model(protection.model, written["model"])
        title = "A model of a synthetic census, protected"
        protection.to_html(written["report"], title=title, released_file=written["released"])
    _render.demo(census, protection, written)


if __name__ == "__main__":
    main()
