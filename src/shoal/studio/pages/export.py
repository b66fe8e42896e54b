"""The page Export: what holds, the files to take along, and how to do the same without the mouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from nicegui import ui

from shoal.jobs.release import Release
from shoal.privacy.models import show_level
from shoal.reports.report import listed
from shoal.studio import exports
from shoal.studio.desk import Workspace
from shoal.studio.pages import layout
from shoal.studio.pages.data import OPEN_ANOTHER

PATH = "/export"
MOST_NAMED = 12
"""Quasi-identifiers that the sentence on what holds names."""


class Offer(NamedTuple):
    """A file to take along."""

    name: str
    title: str
    sentence: str
    released: bool = False
    """Whether it needs the release."""


OFFERS = (
    Offer("released.csv", "Release, CSV", "The rows that may be handed out.", True),
    Offer("released.parquet", "Release, Parquet", "The same, smaller, with the types of columns.", True),
    Offer("report.html", "Report", "What holds, what is lost, and the risk that is left, on one page.", True),
    Offer("schema.zip", "Schema", "Roles, kinds, hierarchies and weights, for the command below."),
    Offer("weights.toml", "Weights", "How much each quasi-identifier counts."),
    Offer("table.csv", "Original table", "The raw rows as they were opened: not to be handed out."),
)
EVIDENCE = (
    Offer("audit.html", "Evidence", "What attacks find out from the model and the release."),
    Offer("audits.html", "Before and after", "The same attacks on raw rows, side by side."),
    Offer("audit.json", "Numbers", "All results of the attacks, for other programs."),
)


def add(studio: Any) -> None:
    """Register the page."""
    layout.add_page(studio, PATH, _draw)


async def _draw(desk: Workspace) -> None:
    audit = await layout.in_thread(desk.audit)
    with ui.row().classes("w-full items-center justify-between gap-2"):
        layout.heading("Take the release along")
        anew = ui.button("Start anew with another table", icon="restart_alt")
        layout.mark(anew.props(f"outline no-caps href={OPEN_ANOTHER}"), "start-anew")
    with ui.card().classes("w-full p-4 gap-1") as place:
        layout.mark(place, "guarantee").props("aria-live=polite")
        layout.heading("What holds", 2)
        with ui.row().classes("items-center gap-2") as waiting:
            ui.spinner()
            ui.label("Making the release as it is set, and checking it")
    waiting_buttons = _draw_files("Files", desk, OFFERS)
    _draw_evidence(desk, audit)
    _draw_code(desk)

    async def say_what_holds() -> None:
        worked, release = await layout.do(desk.release)
        waiting.delete()
        with place:
            if worked:
                for button in waiting_buttons:
                    button.enable()
                _draw_guarantee(release, desk.source["rows"] if desk.source else 0)
            else:
                ui.label("There is no release with these settings, and nothing to take along.").classes("leaks")
                layout.mark(ui.button("Change the settings").props("no-caps href=/shape"), "to-shape")

    ui.timer(0, say_what_holds, once=True)


def _draw_guarantee(release: Release, rows: int) -> None:
    for sentence in what_holds(release, rows):
        ui.label(sentence).classes("text-lg" if sentence.startswith("The release is") else "")


def what_holds(release: Release, rows: int) -> list[str]:
    """What can be said of a release, and no more."""
    quasi = listed((attribute.name for attribute in release.schema.quasi), MOST_NAMED)
    found = [f"The release is {release.k}-anonymous with respect to {quasi}."]
    asked = [one for one in release.privacy if one.asked is not None and one.key != "k"]
    found += [f"{one.model}: {show_level(one.level)}, where {show_level(one.asked)} was asked for." for one in asked]
    suppressed = f"; {release.suppressed:,} rows are suppressed" if release.suppressed else ""
    found.append(f"It has {release.checked.rows:,} of {rows:,} rows in {release.checked.groups:,} groups{suppressed}.")
    found.append("This was recomputed from the released values. Of other columns it says nothing.")
    return found


def _draw_files(title: str, desk: Workspace, offers: tuple[Offer, ...]) -> list[ui.button]:
    """Buttons for files; those that need the release are returned, and wait for it."""
    waiting = []
    with ui.card().classes("w-full p-4 gap-3"):
        layout.heading(title, 2)
        with ui.element("div").classes("grid grid-cols-1 md:grid-cols-2 lg:grid-cols-3 gap-4 w-full"):
            for offer in offers:
                buttons = _draw_offer(desk, offer)
                waiting += buttons if offer.released else []
    for button in waiting:
        button.disable()
    return waiting


def _draw_offer(desk: Workspace, offer: Offer) -> list[ui.button]:
    async def download() -> None:
        worked, written = await layout.do_shown(f"Writing {offer.name}", exports.write, desk, offer.name)
        if worked:
            content, media = written
            ui.download.content(content, _saved_as(desk, offer), media)

    with ui.column().classes("gap-1"):
        with ui.row().classes("gap-2"):
            button = ui.button(offer.title, icon="download", on_click=download)
            main = offer.name == OFFERS[0].name
            buttons = [layout.mark(button.props("no-caps" if main else "no-caps outline"), f"export-{offer.name}")]
            if offer.name.endswith(".html"):
                buttons.append(layout.open_button(offer.name, offer.title))
        ui.label(offer.sentence).classes("soft text-sm")
    return buttons


def _saved_as(desk: Workspace, offer: Offer) -> str:
    """The name of the file; the original table has the one by which the command reads it."""
    return f"{Path(exports.source_name(desk)).stem}.csv" if offer.name == "table.csv" else offer.name


def _draw_evidence(desk: Workspace, audit: dict[str, Any]) -> None:
    if audit["status"] == "done":
        _draw_files("Evidence of the audit", desk, EVIDENCE)
        if not audit["current"]:
            ui.label("The settings were changed after the audit: it is about another release.").classes("leaks")
        return
    with ui.card().classes("w-full p-4 gap-2"):
        layout.heading("Evidence of the audit", 2)
        ui.label("There is none yet: an audit attacks the model and the release, and says what leaks.").classes("soft")
        layout.mark(ui.button("To the audit").props("no-caps outline href=/audit"), "to-audit")


def _draw_code(desk: Workspace) -> None:
    with ui.card().classes("w-full p-4 gap-2"):
        layout.heading("The same without the mouse", 2)
        ui.label("Unpack the schema beside the table, and run the command:").classes("soft")
        _draw_block(exports.command(desk), "bash", "command")
        ui.label("or these lines of Python:").classes("soft")
        _draw_block(exports.snippet(desk), "python", "snippet")


def _draw_block(text: str, language: str, testid: str) -> None:
    block = ui.code(text, language=language).classes("w-full shoal-code")
    layout.mark(block, testid)
    layout.mark(block.copy_button, f"copy-{testid}", f"Copy the {testid}")
