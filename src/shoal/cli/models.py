"""Commands about models: train them on releases, or leaning less; clean queries to them; attack them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from shoal.cli import render
from shoal.cli.files import files_in, find_attacked, making_folder, refuse_overwriting, write_release, write_text
from shoal.cli.options import (
    Json,
    Levels,
    ReadOptions,
    SchemaFile,
    Source,
    Trust,
    find_model,
    find_models,
    find_predictor,
    names_of,
    number,
    parse_options,
    parse_secrets,
    parse_weights,
    spread,
    whole,
)
from shoal.errors import ShoalError


@spread
def protect(
    source: Annotated[Path, typer.Argument(metavar="TRAIN", help="Rows to train on, CSV or Parquet.")],
    schema: SchemaFile,
    k: Annotated[int, typer.Option("--k", parser=whole, help="Rows that must be released alike, at least.")],
    levels: Levels,
    reading: ReadOptions,
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
    from shoal.data.schema import Schema

    described, asked = Schema.from_toml(schema), levels.constraints(k)
    if source.is_file():
        compile_ahead("trees", "cuts", guarded=bool(asked))

    # These take a second or two to import, in which others can compile.
    from shoal.jobs.protect import protect as protect_model
    from shoal.models.files import save_model

    further = parse_options(option or [], protect_model)
    written = files_in(out, f"released{source.suffix}", "model.skops", "training.json", "report.html")

    with making_folder(out), render.progress(4) as step:
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
        protection.provenance.to_json(written["training"])
        step("Writing the report")
        protection.to_html(
            written["report"], title=f"A model of {source.name}, protected", released_file=written["released"]
        )
    render.protection(protection, written, json=json)


@spread
def train(
    source: Annotated[Path, typer.Argument(metavar="TRAIN", help="Rows to train on, CSV or Parquet.")],
    schema: SchemaFile,
    reading: ReadOptions,
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
    from shoal.data.schema import Schema
    from shoal.jobs.train import train as train_model
    from shoal.models.files import save_model

    described, weights = Schema.from_toml(schema), parse_weights(sensitive)
    further = parse_options(option or [], train_model)
    names = ["model.skops", "training.json", "report.html", *(["rules.txt"] if estimator == "tree" else [])]
    written = files_in(out, *names)

    with making_folder(out), render.progress(3) as step:
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
        training.provenance.to_json(written["training"])
        training.to_html(written["report"], title=f"A model of {source.name} that leans less on what is sensitive")
        if "rules" in written:
            write_text(written["rules"], training.rules() or "")
    render.training(training, written, json=json)


@spread
def clean(
    source: Annotated[Path, typer.Argument(metavar="QUERY", help="Rows to clean, CSV or Parquet.", show_default=False)],
    predictor: Annotated[
        Path, typer.Option(metavar="MODEL", help="Who gets the rows: a .skops, .joblib, .pkl or .onnx file.")
    ],
    reading: ReadOptions,
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
    from shoal.data.files import write_table
    from shoal.data.frames import open_frame
    from shoal.jobs.clean import clean as clean_rows

    known, secrets = parse_secrets(confidential, rows)
    refuse_overwriting([source, predictor, *([known] if known else [])], [out])
    with render.progress(3) as step:
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
    render.cleaning(cleaning, {"cleaned": out}, json=json)


@spread
def audit(
    members: Annotated[Path, typer.Option(metavar="FILE", help="Training rows, CSV or Parquet.")],
    schema: SchemaFile,
    reading: ReadOptions,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The model: a .skops, .joblib or .pkl file.")
    ] = None,
    controls: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Similar rows outside the training data.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Folder that protect or train wrote: model, release, training recipe and training rows in --members.",
        ),
    ] = None,
    released: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Release of the members, to attack it too.")
    ] = None,
    references: Annotated[
        int, typer.Option(parser=whole, help="Number of reference models, even; more make stronger attacks.")
    ] = 16,
    time_limit: Annotated[
        float | None, typer.Option(parser=number, help="Seconds for the attacks; fewer are made to stay within them.")
    ] = None,
    jobs: Annotated[int, typer.Option(parser=whole, help="Reference models in parallel; -1 uses all cores.")] = -1,
    trust: Trust = False,
    seed: Annotated[int, typer.Option(parser=whole, help="Seed of the attacks.")] = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Page to write; the numbers go beside it as .json.")] = Path(
        "audit.html"
    ),
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="ROC curves to write: .png, .svg or .pdf.")] = None,
    json: Json = False,
) -> None:
    """Attack a model, and report what leaks.

    Infers membership in the training data and the sensitive attributes of the
    schema, and with --released links people with a release. Every attack is
    compared with a baseline, with confidence intervals. Writes a page that can
    be filed, and every number as JSON. --plot draws ROC curves of membership
    inference.

    With --from, --members is the table that protect or train was given: the
    held-out rows are the controls, unless others are named, and reference models
    are trained like the model, on releases if it was.

    For example:
      shoal audit --model model.skops --members train.csv --controls test.csv
          --schema people.toml --out audit.html
      shoal audit --from protected --trust --members people.csv --schema people.toml
    """
    from shoal.data.schema import Schema
    from shoal.jobs.audit import audit as audit_model
    from shoal.reports.plots import kind_of, require_matplotlib

    if out.suffix.lower() not in (".html", ".htm"):
        raise ShoalError(f"--out {out} is not a page: name a file that ends in .html.")
    described = Schema.from_toml(schema)
    written = {"report": out, "numbers": out.with_suffix(".json")} | ({} if plot is None else {"plot": plot})
    under_attack = find_attacked(model, members, controls, released, folder)
    refuse_overwriting([schema, *under_attack.files], list(written.values()))
    if plot is not None:
        kind_of(plot)
        require_matplotlib()
    with render.progress(3) as step:
        step(f"Reading {members.name}")
        known = under_attack.read(reading, described, trust)
        step(f"Attacking with {known.members.height:,} members and {known.controls.height:,} controls")
        found = audit_model(
            known.model, known.members, known.controls, described, estimator=known.estimator, released=known.released,
            n_references=references, time_limit=time_limit, n_jobs=jobs, random_state=seed,
        )  # fmt: skip
        step("Writing the report")
        found.to_html(out, title=f"Audit of {under_attack.model.name}")
        found.to_json(written["numbers"])
        if plot is not None:
            found.plot(plot)
    render.audit(found, written, json=json)


@spread
def frontier(
    source: Source,
    schema: SchemaFile,
    levels: Levels,
    reading: ReadOptions,
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
    from shoal.data.schema import Schema
    from shoal.jobs.evaluate import evaluate
    from shoal.reports.plots import require_matplotlib

    require_matplotlib()
    described, asked = Schema.from_toml(schema), levels.constraints(None)
    ks = [whole(part) for part in names_of(k)]
    models = find_models(model, described, trust)
    frame = reading.table(source)
    out.mkdir(parents=True, exist_ok=True)
    cells = out / "cells.jsonl"
    if fresh:
        cells.unlink(missing_ok=True)
    with render.counting() as progress:
        found = evaluate(
            frame, described, models, methods=names_of(methods), k=ks, seeds=seeds, test_size=test_size,
            constraints=asked, recoding=recoding, n_jobs=jobs, store=cells, progress=progress,
        )  # fmt: skip
    written = {ending: out / f"frontier.{ending}" for ending in ("csv", "svg", "png", "html")}
    found.to_csv(written["csv"])
    found.plot(written["svg"])
    found.plot(written["png"])
    found.to_html(written["html"], title=f"What privacy costs a model of {source.name}", loss=loss)
    render.frontier(found, loss, written | {"cells": cells}, json=json)
