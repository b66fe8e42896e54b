"""Commands about models: train them on releases or with less sensitive features, clean their queries, attack them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from shoal.cli import render
from shoal.cli.files import files_in, find_attacked, making_folder, refuse_overwriting, write_release
from shoal.cli.options import (
    Json,
    K,
    Levels,
    Method,
    MethodOption,
    OutFolder,
    ReadOptions,
    SchemaFile,
    Source,
    TestFile,
    TestSize,
    TrainFile,
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
    source: TrainFile,
    schema: SchemaFile,
    k: K,
    levels: Levels,
    reading: ReadOptions,
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="A .skops, .joblib or .pkl file, or a name such as forest or mlp.")
    ] = "forest",
    trust: Trust = False,
    test: TestFile = None,
    test_size: TestSize = 0.2,
    method: Method = "accuracy-guided",
    recoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="How to publish groups, not as texts: see 'shoal methods'.")
    ] = None,
    seed: Annotated[int, typer.Option(parser=whole, help="Random seed of the split, the method and the models.")] = 0,
    option: MethodOption = None,
    out: OutFolder = Path("protected"),
    json: Json = False,
) -> None:
    """Train a model on a k-anonymous release of its training rows.

    Anonymizes the rows so that the model stays accurate, trains a copy of the model
    on the release, compares both models on unseen rows, and writes the release,
    the retrained model and a report of privacy and accuracy.

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

    # These imports take a second or two, in which other processes can compile kernels.
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
            written["report"], title=f"Protected model of {source.name}", released_file=written["released"]
        )
    render.protection(protection, written, json=json)


@spread
def train(
    source: TrainFile,
    schema: SchemaFile,
    reading: ReadOptions,
    estimator: Annotated[str, typer.Option(metavar="NAME", help="Model to train: tree, forest or boost.")] = "forest",
    max_accuracy_loss: Annotated[
        float | None,
        typer.Option(metavar="LOSS", parser=number, help="Maximum loss of accuracy or R²; 0.01 without any bound."),
    ] = None,
    max_importance: Annotated[
        float | None,
        typer.Option(metavar="SHARE", parser=number, help="Maximum total importance of the sensitive features."),
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=W]", help="Sensitive feature and its weight up to 1; by default from the schema."),
    ] = None,
    test: TestFile = None,
    test_size: TestSize = 0.2,
    folds: Annotated[int, typer.Option(parser=whole, help="Number of cross-validation folds.")] = 3,
    jobs: Annotated[int, typer.Option(parser=whole, help="Models to train in parallel; -1 uses all cores.")] = -1,
    seed: Annotated[int, typer.Option(parser=whole, help="Random seed of the split and the models.")] = 0,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Parameter of the estimator, such as max_depth=8; may be repeated."),
    ] = None,
    out: OutFolder = Path("trained"),
    json: Json = False,
) -> None:
    """Train a tree model that relies less on sensitive features.

    Searches penalties, levels and limits of splits for the model that relies least
    on the sensitive features within the accuracy bound, and compares it with a
    plain model. Writes the model and a report of the importances before and after,
    and the rules of a single tree.

    For example:
      shoal train people.csv --schema people.toml --estimator forest --max-accuracy-loss 0.01
      shoal train people.csv --schema people.toml --estimator tree --sensitive age --sensitive sex=0.5
          --option max_depth=8 --out trained
    """
    from shoal.data.files import write_text
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
        training.to_html(written["report"], title=f"Model of {source.name} with less reliance on sensitive features")
        if "rules" in written:
            write_text(written["rules"], (training.rules() or "") + "\n")
    render.training(training, written, json=json)


@spread
def clean(
    source: Annotated[Path, typer.Argument(metavar="QUERY", help="Rows to clean, CSV or Parquet.", show_default=False)],
    predictor: Annotated[
        Path, typer.Option(metavar="MODEL", help="Recipient of the rows: a .skops, .joblib, .pkl or .onnx file.")
    ],
    reading: ReadOptions,
    epsilon: Annotated[
        float, typer.Option(parser=number, help="Maximum squared change of the linear stage per row.")
    ] = 0.01,
    mode: Annotated[
        Literal["knapsack", "energy", "exact"],
        typer.Option(metavar="MODE", help="Use of epsilon: knapsack (components), energy or exact (none)."),
    ] = "knapsack",
    confidential: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE:COLUMN", help="Confidential column to attack, in training rows; may be repeated."),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Training rows whose mean replaces removed components; by default zero."),
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Feature to send unchanged; may be repeated.")
    ] = None,
    within: Annotated[
        Literal["seen"] | None,
        typer.Option(metavar="BOUNDS", help="seen: clip cleaned values to the range of the training rows."),
    ] = None,
    trust: Trust = False,
    seed: Annotated[int, typer.Option(parser=whole, help="Random seed of the adversaries.")] = 0,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Cleaned file, .csv or .parquet; it must differ from QUERY.")
    ] = Path("cleaned.csv"),
    json: Json = False,
) -> None:
    """Clean queries, so that a predictor receives only the information that it uses.

    Removes the components of the features that do not affect the linear first stage
    of the predictor, and as many of the least important ones as epsilon allows.
    Reports the change of the outputs and, with --confidential, how well an adversary
    recovers a column from cleaned rows. Unused columns are not sent.

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
        typer.Option(
            metavar="MODELS", help="Models to train, such as forest,mlp: names, or .skops, .joblib or .pkl files."
        ),
    ] = "forest",
    trust: Trust = False,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Anonymization methods: see 'shoal methods'.")
    ] = "mondrian,accuracy-guided",
    k: Annotated[
        str, typer.Option("--k", metavar="NUMBERS", help="Values of k to try, such as 5,10,50.")
    ] = "10,50,100",
    seeds: Annotated[int, typer.Option(parser=whole, help="Number of random splits of the rows.")] = 5,
    test_size: TestSize = 0.2,
    recoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="How to publish groups, not as texts: see 'shoal methods'.")
    ] = None,
    loss: Annotated[
        float, typer.Option(parser=number, help="Acceptable loss of the score; 0.01 is one percentage point.")
    ] = 0.01,
    jobs: Annotated[int, typer.Option(parser=whole, help="Parallel processes; they do not change the result.")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore the results of an earlier run in DIR.")] = False,
    out: OutFolder = Path("frontier"),
    json: Json = False,
) -> None:
    """Measure the cost of each k for a model, and find the affordable values of k.

    Trains models on raw rows and on their releases, and scores them on unseen
    rows. Writes frontier.csv, .svg, .png and .html to DIR, and each finished cell
    to cells.jsonl: an interrupted run continues from there.

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
    found.to_html(written["html"], title=f"Cost of privacy for a model of {source.name}", loss=loss)
    render.frontier(found, loss, written | {"cells": cells}, json=json)
