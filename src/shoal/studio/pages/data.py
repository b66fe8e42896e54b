"""The page Data: open a table, set the roles of its columns, and see the risk of re-identification."""

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
from shoal.studio.pages import layout
from shoal.studio.pages.hierarchy_editor import edit_hierarchy
from shoal.studio.workspace import MOST_CENSUS, ColumnView, Workspace

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
    "identifier": "Identifies a person directly, such as an insurance number. It is removed from the release.",
    "quasi": "May be known to an adversary, such as age or postal code. It is generalised within each group.",
    "sensitive": "Must not be learned about a person, such as a diagnosis. It is released; l and t protect it.",
    "target": "The column that a model predicts. It is released unchanged.",
    "other": "Neither known to an adversary nor sensitive. It is released unchanged.",
}
WITHOUT_HIERARCHY = {"numeric": "none: ranges", "ordinal": "none: ordered ranges", "nominal": "none: sets of values"}
GENERALISED = ("quasi", "sensitive")
COLUMNS_AT_ONCE = 50
"""Number of table rows that are drawn at once: each has some ten elements."""


def add(studio: Any) -> None:
    """Register the page."""

    async def draw(workspace: Workspace, request: Request) -> None:
        if workspace.source is None:
            _draw_welcome()
        elif "open" in request.query_params:
            _draw_replacement(workspace.source["name"])
        else:
            TablePage(workspace).draw()
            return
        _draw_sources(workspace, studio.root)

    layout.add_free_page(studio, PATH, draw)


# Opening


def _draw_welcome() -> None:
    layout.heading("Open a table")
    ui.label(
        "Open a CSV or Parquet file in which each row is a person, or the demo with fictional people. Then set the "
        "roles of its columns, and shape a release in which each person shares a group with at least k − 1 others."
    ).classes("soft max-w-3xl").props("data-testid=empty-state")


def _draw_replacement(name: str) -> None:
    layout.heading("Open another table")
    with ui.row().classes("items-center gap-4"):
        ui.label(
            f"It replaces {name!r} and deletes its variants and audit: export the files that you need first."
        ).classes("soft")
        layout.mark(ui.button("Keep this one", icon="arrow_back").props(f"outline no-caps href={PATH}"), "keep-table")


def _draw_sources(workspace: Workspace, root: Path) -> None:
    """Draw the three sources of a table."""
    with ui.element("div").classes("grid grid-cols-1 md:grid-cols-3 gap-4 w-full items-stretch"):
        with _source("Your file", "It stays on this machine."):
            _draw_upload(workspace)
        with _source("File in the folder", f"The studio was started with the folder {root}."):
            _draw_files(workspace)
        with _source("Demo", "A synthetic census of fictional people, with all hierarchies."):
            _draw_census(workspace)


def _source(title: str, sentence: str) -> ui.card:
    card = ui.card().classes("p-4 gap-3 h-full")
    with card:
        layout.heading(title, 2)
        ui.label(sentence).classes("soft text-sm break-words max-w-full")
    return card


def _draw_upload(workspace: Workspace) -> None:
    async def take(event: Any) -> None:
        name = Path(event.file.name).name
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ("upload" + Path(name).suffix.lower())
            await event.file.save(path)
            await _open(f"Opening {name}", workspace.open_file, path, name)
        upload.reset()

    upload = layout.drop_zone(take, ".csv,.tsv,.txt,.parquet,.pq", "upload", "CSV or Parquet file")


def _draw_files(workspace: Workspace) -> None:
    names = workspace.files()
    if not names:
        ui.label("The folder contains no CSV or Parquet file.").props("data-testid=no-files")
        return
    chosen = ui.select(names, value=names[0], label="File", with_input=len(names) > 10).classes("w-full")
    layout.mark(chosen.props("outlined dense"), "file", "File in the folder")
    button = ui.button("Open", on_click=lambda: _open(f"Opening {chosen.value}", workspace.open_path, chosen.value))
    layout.mark(button.props("no-caps outline"), "open-file", "Open the file in the folder")


def _draw_census(workspace: Workspace) -> None:
    rows = ui.number("People", value=30_000, min=100, max=MOST_CENSUS, step=1000, precision=0).classes("w-full")
    layout.mark(rows.props("outlined dense"), "census-rows", "Number of people in the demo")

    async def open_census() -> None:
        await _open("Generating the demo", workspace.open_census, int(rows.value or 0))

    layout.mark(ui.button("Open the demo", on_click=open_census).props("no-caps"), "open-census")


async def _open(doing: str, function: Callable[..., Any], *arguments: Any) -> None:
    worked, _ = await layout.do_shown(doing, function, *arguments)
    if worked:
        ui.navigate.to(PATH)


# The table that is open


class TablePage:
    """The columns of the open table, and the risk that follows from their roles."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._risk_asked = 0

    def draw(self) -> None:
        """Draw the page; counts are filled in when they are ready."""
        source = self.workspace.source or {}
        with ui.row().classes("w-full items-center justify-between gap-2"):
            with ui.column().classes("gap-0"):
                layout.heading(f"Table {source['name']}")
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
        layout.mark(ui.button("Continue to the release").props("icon-right=arrow_forward no-caps href=/shape"), testid)

    def _draw_meanings(self) -> None:
        with ui.expansion("Meaning of the roles", icon="help_outline").props("dense").classes("w-full"):
            for role, meaning in MEANINGS.items():
                with ui.row().classes("gap-2 no-wrap text-sm py-1"):
                    ui.label(ROLES[role]).classes("font-bold w-32 shrink-0")
                    ui.label(meaning)

    async def _fill(self) -> None:
        worked, columns = await layout.do(self.workspace.columns)
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
            more.set_text(f"Show more ({len(left):,} columns left)")

        more = layout.mark(ui.button(on_click=draw_more).props("flat no-caps"), "more-columns")
        draw_more()

    async def show_risk(self) -> None:
        """Measure the risk with the current roles; only the newest result is shown."""
        self._risk_asked += 1
        asked = self._risk_asked
        schema = self.workspace.schema
        self._show_hints(bool(schema.quasi), bool(schema.target))
        self._risks.clear()
        if not schema.quasi:
            return
        with self._risks:
            for _ in range(4):
                ui.skeleton().classes("h-28")
        worked, risk = await layout.do(self.workspace.raw_risk)
        if asked == self._risk_asked:
            self._risks.clear()
            if worked:
                with self._risks:
                    _draw_risk(risk)

    def _show_hints(self, quasi: bool, target: bool) -> None:
        self._hints.clear()
        with self._hints:
            if not quasi:
                _hint("No column is a quasi-identifier: set this role for columns that an adversary may know.")
            if not target:
                _hint(
                    "No column is the target: set this role for the column that a model predicts to measure the cost."
                )


def _hint(sentence: str) -> None:
    with ui.row().classes("items-center gap-2 no-wrap soft").props("data-testid=hint"):
        ui.icon("info")
        ui.label(sentence)


def _draw_risk(risk: Risk) -> None:
    threshold = layout.percent(risk.threshold).replace(".0 ", " ").replace(" ", "\u00a0")
    exposed = risk.prosecutor > risk.threshold
    prosecutor = "Highest chance of re-identifying a person in the table."
    _figure("Highest risk (prosecutor)", risk.prosecutor, exposed, prosecutor)
    marketer = "Expected share of people re-identified by matching all rows."
    _figure("Average risk (marketer)", risk.marketer, risk.marketer > risk.threshold, marketer)
    _figure("Unique", risk.unique, risk.unique > 0, "Share of people with a unique combination of quasi-identifiers.")
    _figure("Above the threshold", risk.above, risk.above > 0, f"Share of people with a risk above {threshold}.")


def _figure(title: str, share: float, bad: bool, sentence: str) -> None:
    with ui.card().classes("p-4 gap-1"):
        ui.label(title).classes("soft text-sm")
        ui.label(layout.percent(share)).classes("figure " + ("leaks" if bad else "holds"))
        ui.label(sentence).classes("text-sm")


class ColumnRow:
    """Table row of one column: its role, its kind, and the cells that depend on them."""

    def __init__(self, page: TablePage, column: ColumnView) -> None:
        self._page, self._column = page, column

    def draw(self) -> None:
        """Draw the row; :meth:`_show` fills the cells that change later."""
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
        workspace, name = self._page.workspace, self._column.name
        if value == getattr(workspace.schema[name], what):
            return
        await layout.do(workspace.set_attribute, name, **{what: value})
        await self._follow()

    async def _follow(self) -> None:
        """Show the column as the workspace has it, also after a refused change."""
        workspace = self._page.workspace
        worked, columns = await layout.do(workspace.columns)
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
            layout.mark(button, f"distribution-{column.name}", f"Enlarge the distribution of {column.name}")
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
        # The pressed button is redrawn after a change: messages need a parent that stays.
        with self._page.place:
            await edit_hierarchy(self._page.workspace, self._column.name, self._follow)


def _draw_reason(reason: str) -> None:
    """Draw the reason for the proposed role as a native control, which touch and keyboard can open."""
    ui.html(f"<details><summary>Why?</summary>{html.escape(reason)}</details>", sanitize=False).classes(
        "text-xs soft max-w-xs"
    )


def _bars(counts: list[int], width: int = 90, height: int = 28) -> str:
    """Return a small chart of a distribution."""
    top, step = max(counts, default=0) or 1, width / max(len(counts), 1)
    # Every value that occurs is visible: a bar is at least one pixel high.
    heights = [max(1.0, height * count / top) if count else 0.0 for count in counts]
    drawn = "".join(
        f'<rect x="{i * step:.1f}" y="{height - tall:.1f}" width="{max(step - 1, 0.5):.1f}" height="{tall:.1f}"/>'
        for i, tall in enumerate(heights)
    )
    return f'<svg width="{width}" height="{height}" aria-hidden="true" fill="var(--sea)">{drawn}</svg>'


def _show_distribution(column: ColumnView) -> None:
    """Show a distribution with the labels and counts of its bars."""
    labels, summary = _labelled(column)
    rows, top = sum(column.counts) or 1, max(column.counts, default=0) or 1
    with ui.dialog(value=True) as dialog, ui.card().classes("w-full max-w-2xl p-4 gap-2"):
        dialog.on("hide", dialog.delete)
        with ui.row().classes("w-full items-center justify-between no-wrap"):
            layout.heading(f"Distribution of {column.name}", 2)
            layout.mark(ui.button(icon="close", on_click=dialog.close).props("flat round dense"), "close", "Close")
        ui.label(summary).classes("soft")
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
    """Return the labels of the bars, and a sentence that summarises them."""
    shown = len(column.labels)
    missing = f"; {column.missing:,} rows have no value" if column.missing else ""
    if column.values <= shown:
        return column.labels, f"{column.values:,} values{missing}."
    if column.kind != "numeric":
        return column.labels, f"The {shown} most frequent of {column.values:,} values{missing}."
    edges = [*column.labels[1:], "maximum"]
    ranges = [f"{low} to {high}" for low, high in zip(column.labels, edges, strict=True)]
    return ranges, f"{column.values:,} distinct numbers in {shown} ranges of equal width{missing}."
