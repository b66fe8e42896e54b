"""The page Data: open a table, say what its columns are, and see how exposed people are before anything is done."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import Request
from nicegui import ui

from shoal.data.schema import KINDS
from shoal.privacy.risk import Risk
from shoal.studio.desk import MOST_CENSUS, ColumnView, Workspace
from shoal.studio.pages import layout
from shoal.studio.pages.hierarchy_editor import edit_hierarchy

PATH = "/"
OPEN_ANOTHER = "/?open=another"
ROLES = {
    "identifier": "identifier",
    "quasi": "quasi-identifier",
    "sensitive": "sensitive",
    "target": "target",
    "other": "other",
}
MEANINGS = {
    "identifier": "Names a person by itself, such as a number of insurance. It is left out of the release.",
    "quasi": "Others may know it too, such as age or postal code. It is generalised, so that people look alike.",
    "sensitive": "What nobody should learn about a person, such as an illness. It is released; l and t protect it.",
    "target": "What a model is to predict. It is released as it is, and scores are about it.",
    "other": "Neither known to others nor secret. It is released as it is.",
}
WITHOUT_HIERARCHY = {"numeric": "none: ranges", "ordinal": "none: ranges in order", "nominal": "none: sets of values"}
GENERALISED = ("quasi", "sensitive")
COLUMNS_AT_ONCE = 50
"""Rows of the table of columns that are drawn at once: each has some ten elements."""


def add(studio: Any) -> None:
    """Register the page."""

    async def draw(desk: Workspace, request: Request) -> None:
        if desk.source is None:
            _draw_welcome()
        elif "open" in request.query_params:
            _draw_farewell(desk.source["name"])
        else:
            TablePage(desk).draw()
            return
        _draw_doors(desk, studio.workspace)

    layout.add_free_page(studio, PATH, draw)


# Opening


def _draw_welcome() -> None:
    layout.heading("Start with a table of people")
    ui.label(
        "Open a CSV or Parquet file in which each row is a person, or the demo, which is about nobody. "
        "Then say what its columns are, and shape a release in which at least k people always look alike."
    ).classes("soft max-w-3xl").props("data-testid=empty-state")


def _draw_farewell(name: str) -> None:
    layout.heading("Open another table")
    with ui.row().classes("items-center gap-4"):
        ui.label(
            f"It takes the place of {name!r}, whose variants and audit are then gone: export first what you need."
        ).classes("soft")
        layout.mark(ui.button("Keep this one", icon="arrow_back").props(f"outline no-caps href={PATH}"), "keep-table")


def _draw_doors(desk: Workspace, workspace: Path) -> None:
    """The three ways to open a table."""
    with ui.element("div").classes("grid grid-cols-1 md:grid-cols-3 gap-4 w-full items-stretch"):
        with _door("Your file", "It stays on this machine."):
            _draw_upload(desk)
        with _door("A file of the folder", f"Of {workspace}, for which the studio was started."):
            _draw_files(desk)
        with _door("The demo", "A synthetic census: people who are nobody, with all hierarchies."):
            _draw_census(desk)


def _door(title: str, sentence: str) -> ui.card:
    card = ui.card().classes("p-4 gap-3 h-full")
    with card:
        layout.heading(title, 2)
        ui.label(sentence).classes("soft text-sm break-words max-w-full")
    return card


def _draw_upload(desk: Workspace) -> None:
    async def take(event: Any) -> None:
        name = Path(event.file.name).name
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ("upload" + Path(name).suffix.lower())
            await event.file.save(path)
            await _open(f"Opening {name}", desk.open_file, path, name)
        upload.reset()

    upload = layout.drop_zone(take, ".csv,.tsv,.txt,.parquet,.pq", "upload", "A CSV or Parquet file")


def _draw_files(desk: Workspace) -> None:
    names = desk.files()
    if not names:
        ui.label("There is no CSV or Parquet file in it.").props("data-testid=no-files")
        return
    chosen = ui.select(names, value=names[0], label="File", with_input=len(names) > 10).classes("w-full")
    layout.mark(chosen.props("outlined dense"), "file", "File of the folder")
    button = ui.button("Open", on_click=lambda: _open(f"Opening {chosen.value}", desk.open_path, chosen.value))
    layout.mark(button.props("no-caps outline"), "open-file", "Open the file of the folder")


def _draw_census(desk: Workspace) -> None:
    rows = ui.number("People", value=30_000, min=100, max=MOST_CENSUS, step=1000, precision=0).classes("w-full")
    layout.mark(rows.props("outlined dense"), "census-rows", "How many people the demo has")

    async def open_census() -> None:
        await _open("Making the demo", desk.open_census, int(rows.value or 0))

    layout.mark(ui.button("Open the demo", on_click=open_census).props("no-caps"), "open-census")


async def _open(doing: str, function: Callable[..., Any], *arguments: Any) -> None:
    worked, _ = await layout.do_shown(doing, function, *arguments)
    if worked:
        ui.navigate.to(PATH)


# The table that is open


class TablePage:
    """What the columns are, and what that means for people's risk."""

    def __init__(self, desk: Workspace) -> None:
        self.desk = desk
        self._risk_asked = 0

    def draw(self) -> None:
        """Draw what is known at once; the rest follows when it was counted."""
        source = self.desk.source or {}
        with ui.row().classes("w-full items-center justify-between gap-2"):
            with ui.column().classes("gap-0"):
                layout.heading(f"What is in {source['name']}")
                ui.label(f"{source['rows']:,} rows, {source['columns']:,} columns").classes("soft")
            with ui.row().classes("items-center gap-2"):
                another = ui.button("Open another table").props(f"outline no-caps href={OPEN_ANOTHER}")
                layout.mark(another, "open-another")
                self._draw_continue("continue")
        self._risks = ui.element("div").classes("grid grid-cols-2 lg:grid-cols-4 gap-4 w-full")
        self._risks.props('aria-live=polite aria-label="Risk of the raw table" data-testid=raw-risk')
        with ui.card().classes("w-full p-4 gap-2"):
            layout.heading("Columns", 2)
            self._draw_meanings()
            self._hints = ui.column().classes("gap-1")
            self.place = ui.column().classes("w-full")
            with self.place:
                ui.spinner(size="lg")
        self._draw_continue("continue-below")
        ui.timer(0, self._fill, once=True)

    def _draw_continue(self, testid: str) -> None:
        layout.mark(
            ui.button("Continue: shape the release").props("icon-right=arrow_forward no-caps href=/shape"), testid
        )

    def _draw_meanings(self) -> None:
        with ui.expansion("What the roles mean", icon="help_outline").props("dense").classes("w-full"):
            for role, meaning in MEANINGS.items():
                with ui.row().classes("gap-2 no-wrap text-sm py-1"):
                    ui.label(ROLES[role]).classes("font-bold w-32 shrink-0")
                    ui.label(meaning)

    async def _fill(self) -> None:
        worked, columns = await layout.do(self.desk.columns)
        self.place.clear()
        if worked:
            with self.place:
                self._draw_columns(columns)
            await self.show_risk()

    def _draw_columns(self, columns: list[ColumnView]) -> None:
        titles = ("Column", "Role", "Kind", "#Values", "Distribution", "Hierarchy")
        with layout.table(*titles, label="Columns of the table") as body:
            pass
        left = list(columns)

        def draw_more() -> None:
            with body:
                for column in left[:COLUMNS_AT_ONCE]:
                    ColumnRow(self, column).draw()
            del left[:COLUMNS_AT_ONCE]
            more.set_visibility(bool(left))
            more.set_text(f"Show more of the {len(left):,} columns that are left")

        more = layout.mark(ui.button(on_click=draw_more).props("flat no-caps"), "more-columns")
        draw_more()

    async def show_risk(self) -> None:
        """Count how exposed people are with the columns as they are now; only the newest count is shown."""
        self._risk_asked += 1
        asked = self._risk_asked
        schema = self.desk.schema
        self._show_hints(bool(schema.quasi), bool(schema.target))
        self._risks.clear()
        if not schema.quasi:
            return
        with self._risks:
            for _ in range(4):
                ui.skeleton().classes("h-28")
        worked, risk = await layout.do(self.desk.raw_risk)
        if asked == self._risk_asked:
            self._risks.clear()
            if worked:
                with self._risks:
                    _draw_risk(risk)

    def _show_hints(self, quasi: bool, target: bool) -> None:
        self._hints.clear()
        with self._hints:
            if not quasi:
                _hint("No column is a quasi-identifier: give that role to what others may know about people.")
            if not target:
                _hint("No column is the target: give that role to what a model predicts, to see what a release costs.")


def _hint(sentence: str) -> None:
    with ui.row().classes("items-center gap-2 no-wrap soft").props("data-testid=hint"):
        ui.icon("info")
        ui.label(sentence)


def _draw_risk(risk: Risk) -> None:
    threshold = layout.percent(risk.threshold).replace(".0 ", " ").replace(" ", "\u00a0")
    exposed = risk.prosecutor > risk.threshold
    _figure("Highest risk (prosecutor)", risk.prosecutor, exposed, "of being recognised, for who stands out most.")
    matched = "of all people are named rightly by who matches every row."
    _figure("Average risk (marketer)", risk.marketer, risk.marketer > risk.threshold, matched)
    _figure("Unique", risk.unique, risk.unique > 0, "of all people share their quasi-identifiers with nobody.")
    _figure("Above the threshold", risk.above, risk.above > 0, f"of all people have a risk of more than {threshold}.")


def _figure(title: str, share: float, bad: bool, sentence: str) -> None:
    with ui.card().classes("p-4 gap-1"):
        ui.label(title).classes("soft text-sm")
        ui.label(layout.percent(share)).classes("figure " + ("leaks" if bad else "holds"))
        ui.label(sentence).classes("text-sm")


class ColumnRow:
    """One column: its role and kind to choose, and what depends on them."""

    def __init__(self, page: TablePage, column: ColumnView) -> None:
        self._page, self._column = page, column

    def draw(self) -> None:
        """Draw the row; cells that change later are filled by :meth:`_show`."""
        column = self._column
        with ui.element("tr"):
            with layout.cell("font-bold break-words max-w-40"):
                ui.label(column.name)
            with layout.cell():
                self._role = self._draw_choice("role", ROLES, column.role)
                if column.reason:
                    _draw_reason(column.reason)
            with layout.cell():
                self._kind = self._draw_choice("kind", {kind: kind for kind in KINDS}, column.kind)
            with layout.cell("number"):
                ui.label(f"{column.values:,}")
                if column.missing:
                    ui.label(f"{column.missing:,} missing").classes("leaks text-xs")
            with layout.cell() as self._distribution:
                pass
            with layout.cell() as self._hierarchy:
                pass
        self._show()

    def _draw_choice(self, what: str, options: dict[str, str], value: str) -> ui.select:
        label = f"{what} of {self._column.name}"
        chosen = ui.select(options, label=label, value=value, on_change=lambda event: self._change(what, event.value))
        chosen.props("outlined dense options-dense").classes("shoal-unlabelled")
        chosen.classes("w-40" if what == "role" else "w-28")
        return layout.mark(chosen, f"{what}-{self._column.name}")

    async def _change(self, what: str, value: str) -> None:
        desk, name = self._page.desk, self._column.name
        if value == getattr(desk.schema[name], what):
            return
        await layout.do(desk.set_attribute, name, **{what: value})
        await self._follow()

    async def _follow(self) -> None:
        """Show the column as the desk has it now: also where a change was refused."""
        desk = self._page.desk
        worked, columns = await layout.do(desk.columns)
        if worked:
            self._column = next(one for one in columns if one.name == self._column.name)
            self._role.value, self._kind.value = self._column.role, self._column.kind
            self._show()
            await self._page.show_risk()

    def _show(self) -> None:
        column = self._column
        self._distribution.clear()
        with self._distribution:
            button = ui.button(on_click=lambda: _show_distribution(self._column)).props("flat padding=xs")
            layout.mark(button, f"distribution-{column.name}", f"Distribution of {column.name}, larger")
            with button:
                ui.html(_bars(column.counts), sanitize=False)
        self._hierarchy.clear()
        with self._hierarchy:
            self._show_hierarchy()

    def _show_hierarchy(self) -> None:
        column = self._column
        if column.role not in GENERALISED:
            ui.label("not needed").classes("soft text-sm")
            return
        words = column.hierarchy or WITHOUT_HIERARCHY[column.kind]
        button = ui.button(words, icon="account_tree", on_click=self._edit)
        button.props("flat no-caps dense align=left").classes("shoal-words")
        layout.mark(button, f"hierarchy-{column.name}", f"Hierarchy of {column.name}: {words}")
        button.tooltip("View or change the hierarchy")

    async def _edit(self) -> None:
        # What was pressed is drawn anew after a change: what is told then needs a place that stays.
        with self._page.place:
            await edit_hierarchy(self._page.desk, self._column.name, self._follow)


def _draw_reason(reason: str) -> None:
    """Why the role was proposed; a native control, which touch and keyboard open alike."""
    ui.html(f"<details><summary>why?</summary>{html.escape(reason)}</details>", sanitize=False).classes(
        "text-xs soft max-w-xs"
    )


def _bars(counts: list[int], width: int = 90, height: int = 28) -> str:
    """A distribution in little."""
    top, step = max(counts, default=0) or 1, width / max(len(counts), 1)
    # Whatever occurs is seen: a bar has a pixel at least.
    heights = [max(1.0, height * count / top) if count else 0.0 for count in counts]
    drawn = "".join(
        f'<rect x="{i * step:.1f}" y="{height - tall:.1f}" width="{max(step - 1, 0.5):.1f}" height="{tall:.1f}"/>'
        for i, tall in enumerate(heights)
    )
    return f'<svg width="{width}" height="{height}" aria-hidden="true" fill="var(--sea)">{drawn}</svg>'


def _show_distribution(column: ColumnView) -> None:
    """A distribution with what the bars stand for, and how many rows each is."""
    labels, told = _labelled(column)
    rows, top = sum(column.counts) or 1, max(column.counts, default=0) or 1
    with ui.dialog(value=True) as dialog, ui.card().classes("w-full max-w-2xl p-4 gap-2"):
        dialog.on("hide", dialog.delete)
        with ui.row().classes("w-full items-center justify-between no-wrap"):
            layout.heading(f"Distribution of {column.name}", 2)
            layout.mark(ui.button(icon="close", on_click=dialog.close).props("flat round dense"), "close", "Close")
        ui.label(told).classes("soft")
        with layout.table("Value", "", "#Rows", "#Share", label=f"Distribution of {column.name}"):
            for label, count in zip(labels, column.counts, strict=True):
                with ui.element("tr"):
                    with layout.cell("break-words max-w-64"):
                        ui.label(label)
                    with layout.cell("w-1/2"):
                        ui.element("div").classes("shoal-bar").style(f"width: {100 * count / top:.1f}%")
                    for text in (f"{count:,}", layout.percent(count / rows)):
                        with layout.cell("number"):
                            ui.label(text)


def _labelled(column: ColumnView) -> tuple[list[str], str]:
    """What each bar stands for, and what is shown."""
    shown = len(column.labels)
    missing = f"; {column.missing:,} rows have none" if column.missing else ""
    if column.values <= shown:
        return column.labels, f"{column.values:,} values{missing}."
    if column.kind != "numeric":
        return column.labels, f"The {shown} most frequent of {column.values:,} values{missing}."
    edges = [*column.labels[1:], "the end"]
    ranges = [f"{low} to {high}" for low, high in zip(column.labels, edges, strict=True)]
    return ranges, f"{column.values:,} different numbers, in {shown} ranges of equal width{missing}."
