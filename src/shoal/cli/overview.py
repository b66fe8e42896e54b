"""Commands that show what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import render
from shoal.cli.files import files_in, making_folder, refuse_overwriting, write_release
from shoal.cli.options import Json, Trust, whole
from shoal.errors import ShoalError


def studio(
    source: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="CSV or Parquet file to open.", show_default=False)
    ] = None,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder whose files may be opened; nothing outside of it is.")
    ] = Path(),
    port: Annotated[int, typer.Option(parser=whole, help="Port to listen at; 0 takes one that is free.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where somebody worked last.")] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the studio keeps its work; by default the user's data.")
    ] = None,
    most_upload: Annotated[int, typer.Option(metavar="MB", parser=whole, help="Largest file to upload.")] = 1024,
    trust: Trust = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open the whole workbench in a browser.

    Look at a table and its columns, shape a release by sliders or by deciding
    between groups, compare variants, attack the result, and take everything
    along. The page is for this machine only, and for whoever has the address
    that is printed. It needs the extra "studio".

    For example:
      shoal studio people.csv
      shoal studio --folder data --port 8765 --no-browser
    """
    from shoal.parameters import Whole
    from shoal.studio import require_studio

    require_studio()
    from shoal.studio.app import serve

    Whole(least=0, most=65_535).check("--port", port)
    Whole(least=1).check("--most-upload", most_upload)
    if source is not None:
        folder, source = (folder, source) if folder != Path() else (source.parent, source.resolve())
    if not folder.is_dir():
        raise ShoalError(f"--folder {folder} is no folder: name one.")
    serve(
        folder.resolve(), file=source, port=port, data=data, resume=resume, most_upload=most_upload * 1024**2,
        trust=trust, opened=browser,
    )  # fmt: skip


def methods(json: Json = False) -> None:
    """List the methods that partition a table into groups, with their options.

    The name is what 'shoal anonymize' takes as --method, and each option is
    set by --option NAME=VALUE.

    For example:
      shoal methods
    """
    from shoal.anonymizers import find_method, method_names, options_of

    found = {}
    for name in method_names():
        method = find_method(name)
        # A model has an option of its own, --model.
        options = {option: str(one) for option, one in options_of(method).items() if option != "model"}
        found[name] = (method.__doc__ or "").strip().split("\n")[0], options
    render.methods(found, json=json)


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
    from shoal.data.files import kind_to_write, write_table
    from shoal.data.frames import open_frame

    known = {info.name: info for info in library.list_datasets()}
    if name is None:
        render.datasets(list(known.values()), json=json)
        return
    if name not in known:
        raise ShoalError(f"There is no data set {name!r}: choose {', '.join(known)}.")
    if name != "census" and rows is not None:
        raise ShoalError(f"--rows {rows} is for the synthetic census: the data set {name!r} has its own rows.")
    out = Path(f"{name}.csv") if out is None else out
    kind_to_write(out)
    schema_file = out.with_suffix(".toml")
    refuse_overwriting([], [out, schema_file])
    with render.progress(2) as step:
        step(f"Getting {name}")
        arguments = (30_000 if rows is None else rows, seed) if name == "census" else ()
        frame, schema = getattr(library, known[name].function)(*arguments)
        step(f"Writing {out.name}")
        write_table(open_frame(frame), out)
        schema.to_toml(schema_file)
    render.written({"file": out, "schema": schema_file}, json=json)


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
    from shoal.data.files import write_table
    from shoal.data.frames import open_frame
    from shoal.datasets import make_census
    from shoal.jobs.protect import protect as protect_model
    from shoal.models.files import save_model
    from shoal.privacy.models import LDiversity

    written = files_in(out, "census.csv", "schema.toml", "released.csv", "model.skops", "report.html")
    with making_folder(out), render.progress(3) as step:
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
    render.demo(census, protection, written)
