"""The page Export: the guarantee of the release, the files to export, and the equivalent command and script."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from nicegui import ui

from shoal.jobs.release import Release
from shoal.privacy.models import show_level
from shoal.reports.report import listed
from shoal.studio import exports
from shoal.studio.pages import layout
from shoal.studio.pages.data import OPEN_ANOTHER
from shoal.studio.workspace import Workspace

PATH = "/export"
MOST_NAMED = 12
"""Number of quasi-identifiers that the guarantee names."""


class Offer(NamedTuple):
    """File to export."""

    name: str
    title: str
    sentence: str
    released: bool = False
    """True if the file needs the release."""


OFFERS = (
    Offer("released.csv", "Release, CSV", "The released rows.", True),
    Offer("released.parquet", "Release, Parquet", "The released rows with column types, in a smaller file.", True),
    Offer("report.html", "Report", "Guarantee, information loss and remaining risk on one page.", True),
    Offer("schema.zip", "Schema", "Roles, kinds, hierarchies and weights, for the command below."),
    Offer("weights.toml", "Weights", "Weights of the quasi-identifiers."),
    Offer("table.csv", "Original table", "The raw rows: do not share this file."),
)
EVIDENCE = (
    Offer("audit.html", "Evidence", "Results of the attacks on the model and the release."),
    Offer("audits.html", "Before and after", "The same attacks on the model of raw rows, side by side."),
    Offer("audit.json", "Numbers", "All results of the attacks as JSON."),
)


def add(studio: Any) -> None:
    """Register the page."""
    layout.add_page(studio, PATH, _draw)


async def _draw(workspace: Workspace) -> None:
    audit = await layout.in_thread(workspace.audit)
    with ui.row().classes("w-full items-center justify-between gap-2"):
        layout.heading("Export")
        another = ui.button("Open another table", icon="restart_alt")
        layout.mark(another.props(f"outline no-caps href={OPEN_ANOTHER}"), "start-anew")
    with ui.card().classes("w-full p-4 gap-1") as place:
        layout.mark(place, "guarantee").props("aria-live=polite")
        layout.heading("Guarantee", 2)
        with ui.row().classes("items-center gap-2") as waiting:
            ui.spinner()
            ui.label("Releasing with the current settings, and checking the result")
    waiting_buttons = _draw_files("Files", workspace, OFFERS)
    _draw_evidence(workspace, audit)
    _draw_code(workspace)

    async def show_guarantee() -> None:
        worked, release = await layout.do(workspace.release)
        waiting.delete()
        with place:
            if worked:
                for button in waiting_buttons:
                    button.enable()
                _draw_guarantee(release, workspace.source["rows"] if workspace.source else 0)
            else:
                ui.label("There is no release with these settings.").classes("leaks")
                layout.mark(ui.button("Change the settings").props("no-caps href=/shape"), "to-shape")

    ui.timer(0, show_guarantee, once=True)


def _draw_guarantee(release: Release, rows: int) -> None:
    for sentence in guarantee(release, rows):
        ui.label(sentence).classes("text-lg" if sentence.startswith("The release is") else "")


def guarantee(release: Release, rows: int) -> list[str]:
    """Return the sentences that hold for a release."""
    quasi = listed((attribute.name for attribute in release.schema.quasi), MOST_NAMED)
    found = [f"The release is {release.k}-anonymous with respect to {quasi}."]
    asked = [one for one in release.privacy if one.asked is not None and one.key != "k"]
    found += [f"{one.model}: {show_level(one.level)} ({show_level(one.asked)} requested)." for one in asked]
    suppressed = f"; {release.suppressed:,} rows are suppressed" if release.suppressed else ""
    kept, groups = f"{release.checked.rows:,} of {rows:,} rows", f"{release.checked.groups:,} groups"
    found.append(f"It contains {kept} in {groups}{suppressed}.")
    found.append("These levels were recomputed from the released values. They do not cover other columns.")
    return found


def _draw_files(title: str, workspace: Workspace, offers: tuple[Offer, ...]) -> list[ui.button]:
    """Draw buttons for files; return those that need the release, which are disabled until it is ready."""
    waiting = []
    with ui.card().classes("w-full p-4 gap-3"):
        layout.heading(title, 2)
        with ui.element("div").classes("grid grid-cols-1 md:grid-cols-2 lg:grid-cols-3 gap-4 w-full"):
            for offer in offers:
                buttons = _draw_offer(workspace, offer)
                waiting += buttons if offer.released else []
    for button in waiting:
        button.disable()
    return waiting


def _draw_offer(workspace: Workspace, offer: Offer) -> list[ui.button]:
    async def download() -> None:
        worked, written = await layout.do_shown(f"Writing {offer.name}", exports.write, workspace, offer.name)
        if worked:
            content, media = written
            ui.download.content(content, _saved_as(workspace, offer), media)

    with ui.column().classes("gap-1"):
        with ui.row().classes("gap-2"):
            button = ui.button(offer.title, icon="download", on_click=download)
            main = offer.name == OFFERS[0].name
            buttons = [layout.mark(button.props("no-caps" if main else "no-caps outline"), f"export-{offer.name}")]
            if offer.name.endswith(".html"):
                buttons.append(layout.open_button(offer.name, offer.title))
        ui.label(offer.sentence).classes("soft text-sm")
    return buttons


def _saved_as(workspace: Workspace, offer: Offer) -> str:
    """Return the name of the saved file; the original table has the name that the command reads."""
    return f"{Path(exports.source_name(workspace)).stem}.csv" if offer.name == "table.csv" else offer.name


def _draw_evidence(workspace: Workspace, audit: dict[str, Any]) -> None:
    if audit["status"] == "done":
        _draw_files("Audit evidence", workspace, EVIDENCE)
        if not audit["current"]:
            ui.label("The settings have changed since the audit: it covers an earlier release.").classes("leaks")
        return
    with ui.card().classes("w-full p-4 gap-2"):
        layout.heading("Audit evidence", 2)
        words = "There is no evidence yet: an audit attacks the model and the release, and reports what leaks."
        ui.label(words).classes("soft")
        layout.mark(ui.button("Open the audit").props("no-caps outline href=/audit"), "to-audit")


def _draw_code(workspace: Workspace) -> None:
    with ui.card().classes("w-full p-4 gap-2"):
        layout.heading("Equivalent command and script", 2)
        ui.label("Unpack the schema next to the table, and run this command:").classes("soft")
        _draw_block(exports.command(workspace), "bash", "command")
        ui.label("or this Python script:").classes("soft")
        _draw_block(exports.snippet(workspace), "python", "snippet")


def _draw_block(text: str, language: str, testid: str) -> None:
    block = ui.code(text, language=language).classes("w-full shoal-code")
    layout.mark(block, testid)
    layout.mark(block.copy_button, f"copy-{testid}", f"Copy the {testid}")
