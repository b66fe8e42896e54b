"""Layout shared by all pages: theme, navigation, error messages and common elements."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fastapi import Request
from nicegui import run, ui

from shoal.errors import ShoalError
from shoal.studio.processes import describe_unexpected
from shoal.studio.workspace import Workspace

SEA, CORAL, GOOD, INK = "#0b7285", "#c94f3d", "#2b7a44", "#1d2733"
PAGES = {"/": "Data", "/shape": "Shape", "/compare": "Compare", "/audit": "Audit", "/export": "Export"}
ICONS = {"/": "table_view", "/shape": "tune", "/compare": "balance", "/audit": "gpp_maybe", "/export": "ios_share"}
DARK_COOKIE = "shoal_dark"
SLOWEST = 120.0
"""Seconds that drawing a page may take: a large table has to be read first."""
STYLE = """
:root {
  --sea: #0b7285; --coral: #b3402f; --good: #2b7a44; --ink: #1d2733; --soft: #55626f;
  --paper: #f7f6f2; --card: #ffffff; --line: #dedbd2; --tint: #e6f1f3; --warn: #fbeae6;
}
body.body--dark {
  --sea: #58bfd1; --coral: #f0907f; --good: #74c58e; --ink: #e8edf2; --soft: #a5b4c2;
  --paper: #12181f; --card: #1b242e; --line: #33404d; --tint: #1c3640; --warn: #3c2724;
  --q-primary: #58bfd1 !important; --q-negative: #f0907f !important; --q-positive: #74c58e !important;
  --q-accent: #f0907f !important; --q-secondary: #c3ced8 !important;
}
/* Filled controls of the dark theme are light, so their text is dark. This layer comes before the one of Quasar. */
@layer overrides {
  body.body--dark .q-btn.bg-primary, body.body--dark .q-btn.bg-negative, body.body--dark .q-btn.bg-positive,
  body.body--dark .q-notification.bg-negative, body.body--dark .q-notification.bg-positive,
  body.body--dark .q-badge.bg-primary, body.body--dark .q-chip.bg-primary { color: #0d1a21 !important; }
  .q-notification .q-notification__actions, .q-notification .q-btn { color: inherit !important; }
  body.body--dark .q-dialog .q-card, body.body--dark .q-menu { background: var(--card) !important; }
}
body { background: var(--paper); color: var(--ink); font-family: Roboto, system-ui, "DejaVu Sans", sans-serif; }
.q-card, .shoal-card {
  background: var(--card); color: var(--ink); border: 1px solid var(--line); box-shadow: none; border-radius: .6rem;
}
.q-btn { border-radius: .4rem; }
.shoal-head { background: #0b7285; color: #fff; }
body.body--dark .shoal-head { background: #0d3a44; }
.shoal-head .q-btn:focus-visible { outline-color: #fff; }
.shoal-nav[aria-current=page] { background: rgb(255 255 255 / .2); }
.shoal-source { max-width: 16rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
@media (max-width: 1023px) { .shoal-nav .q-icon { display: none; } .shoal-source { max-width: 9rem; } }
h1, h2 { font-weight: 600; line-height: 1.3; margin: 0; letter-spacing: 0; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; }
.soft { color: var(--soft); }
.figure { font-size: 1.6rem; font-weight: 700; line-height: 1.2; }
.leaks { color: var(--coral); } .holds { color: var(--good); }
:focus-visible { outline: 3px solid var(--sea); outline-offset: 2px; }
.shoal-scroll { overflow-x: auto; width: 100%; }
.shoal-table { border-collapse: collapse; width: 100%; font-size: .9rem; }
.shoal-table th { text-align: left; font-weight: 600; color: var(--soft); font-size: .8rem; white-space: nowrap; }
.shoal-table th, .shoal-table td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
.shoal-table tr:last-child td { border-bottom: 0; }
.shoal-table tbody tr:hover { background: var(--tint); }
.shoal-table .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.shoal-words { font-weight: 400; } .shoal-words .q-btn__content { flex-wrap: nowrap; text-align: left; }
@media (max-width: 1023px) { .shoal-table { font-size: .8rem; } .shoal-table th, .shoal-table td { padding: .3rem; } }
.shoal-drop { border: 2px dashed var(--line); border-radius: .5rem; background: transparent; max-height: none; }
.shoal-drop .q-uploader__header, .shoal-drop .q-uploader__list { background: transparent; color: var(--ink); }
.shoal-drop .q-uploader__list { min-height: 0; padding: 0; } .shoal-drop .q-uploader__file { margin: .5rem; }
/* Screen readers read the label of a select only if it has a label element. */
.shoal-unlabelled .q-field__label { display: none; }
.shoal-unlabelled .q-field__control-container, .shoal-unlabelled .q-field__native { padding-top: 0; }
.shoal-bar { background: var(--sea); height: .8rem; min-width: 1px; }
summary { cursor: pointer; text-decoration: underline dotted; }
.shoal-chart text { fill: var(--ink); stroke: none; }
.shoal-code pre { white-space: pre-wrap; overflow-wrap: anywhere; padding-right: 3rem; }
.shoal-code .nicegui-code-copy { opacity: 1; }
.shoal-picture svg { width: 100%; height: auto; display: block; }
"""
DROP_ZONE = """
<div class="column items-center q-pa-md q-gutter-y-sm text-center">
  <div class="soft">Drop a file here, or</div>
  <q-btn no-caps outline color="primary" label="Choose a file" @click="props.pickFiles" :disable="!props.canAddFiles">
    <q-uploader-add-trigger />
  </q-btn>
</div>
"""
Handler = Callable[..., Awaitable[None]]
Found = TypeVar("Found", bound=ui.element)


def add_page(studio: Any, path: str, draw: Callable[[Workspace], Awaitable[None] | None]) -> None:
    """Register a page that draws the workspace of its visitor and requires an open table."""

    async def drawn(workspace: Workspace, request: Request) -> None:
        if not needs_table(workspace):
            drawing = draw(workspace)
            if drawing is not None:
                await drawing

    add_free_page(studio, path, drawn)


def add_free_page(studio: Any, path: str, draw: Callable[[Workspace, Request], Awaitable[None]]) -> None:
    """Register a page that is drawn with or without an open table."""

    @ui.page(path, response_timeout=SLOWEST)
    async def page(request: Request) -> None:
        # Reading a table blocks: in a thread, so that other visitors are served meanwhile.
        workspace: Workspace = await in_thread(studio.loaded_workspace, request.scope["shoal.workspace"])
        with frame(workspace, path):
            await draw(workspace, request)


@contextmanager
def frame(workspace: Workspace, here: str) -> Iterator[None]:
    """Draw the header with the navigation, and open the container of the page content."""
    ui.colors(primary=SEA, secondary=INK, accent=CORAL, positive=GOOD, negative=CORAL)
    ui.add_css(STYLE)
    with ui.header().classes("shoal-head items-center justify-between px-4 py-1 no-wrap"):
        with ui.row().classes("items-center gap-4 no-wrap"):
            ui.label("Shoal").classes("text-lg font-bold")
            with ui.row().classes("gap-1 no-wrap").props('role=navigation aria-label="Pages"'):
                for path, title in PAGES.items():
                    link = ui.button(title, icon=ICONS[path]).classes("shoal-nav")
                    link.props(f"flat color=white no-caps href={path}" + (" aria-current=page" if path == here else ""))
        with ui.row().classes("items-center gap-2 no-wrap"):
            source = workspace.source
            text = "no table is open" if source is None else f"{source['name']}: {source['rows']:,} rows"
            ui.label(text).classes("text-sm shoal-source").props("data-testid=source").tooltip(text)
            _add_dark_switch()
    with ui.column().classes("w-full max-w-screen-xl mx-auto p-4 gap-4").props("role=main"):
        yield


def _add_dark_switch() -> None:
    """Add a button that switches between the light and the dark theme; a cookie overrides the system setting."""
    request = ui.context.client.request
    kept = {"0": False, "1": True}.get(request.cookies.get(DARK_COOKIE, "") if request is not None else "")
    dark = ui.dark_mode(kept)

    def switch(event: Any) -> None:
        dark.value = not event.args
        year = 365 * 24 * 3600
        ui.run_javascript(
            f'document.cookie = "{DARK_COOKIE}={int(dark.value)}; path=/; max-age={year}; SameSite=Strict"'
        )

    button = mark(ui.button(icon="contrast").props("flat round color=white"), "dark", "Light or dark theme")
    button.on("click", switch, js_handler="() => emit(Quasar.Dark.isActive)")
    button.tooltip("Light or dark theme")


def needs_table(workspace: Workspace) -> bool:
    """Return True, after drawing a link to the page Data, if no table is open."""
    if workspace.source is not None:
        return False
    with ui.card().classes("w-full p-6"):
        ui.label("No table is open.").classes("text-lg")
        mark(ui.button("Open a file or the demo").props("no-caps href=/"), "open-first")
    return True


async def in_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a function in a thread, so that all pages stay responsive."""
    found: list[Any] = []
    await run.io_bound(lambda: found.append(function(*arguments, **named)))
    if not found:  # the studio is being closed
        raise asyncio.CancelledError
    return found[0]


async def do(function: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[bool, Any]:
    """Call a function in a thread, and show its error as a message.

    Returns True and its result, or False and None. If the person has left the page meanwhile, the handler is cancelled.
    """
    client = ui.context.client
    wrong = ""
    try:
        found = await in_thread(function, *arguments, **named)
    except ShoalError as error:
        wrong = str(error)
    except Exception as error:  # libraries may fail on unusual tables; the page must survive that
        traceback.print_exc()
        wrong = describe_unexpected(error)
    if client.is_deleted:
        raise asyncio.CancelledError
    if wrong:
        show_error(wrong)
        return False, None
    return True, found


async def do_shown(doing: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[bool, Any]:
    """Do the same, and show a message about the running task, which may take seconds."""
    shown = ui.notification(doing, spinner=True, timeout=None, type="ongoing")
    try:
        return await do(function, *arguments, **named)
    finally:
        shown.dismiss()


def show_error(sentence: str) -> None:
    """Show an error message."""
    ui.notify(sentence, type="negative", multi_line=True, close_button="OK", timeout=0, classes="max-w-xl")


def percent(share: float) -> str:
    """Format a share as a percentage."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 99.95 or value == 0 else f"{value:.1f} %" if value >= 0.1 else "< 0.1 %"


def mark(element: Found, testid: str, label: str | None = None) -> Found:
    """Set the test ID of an element and its label for screen readers."""
    # Not by a string of props: column names may contain quotes and spaces.
    element.props["data-testid"] = testid
    if label is not None:
        element.props["aria-label"] = label
    return element


def drop_zone(take: Handler, endings: str, testid: str, label: str) -> ui.upload:
    """Draw an upload area that takes files with one of these endings."""
    zone = ui.upload(on_upload=take, auto_upload=True).props("flat").classes("shoal-drop w-full")
    zone.props["accept"] = endings
    zone.add_slot("header", DROP_ZONE)
    failed = (
        "The upload failed, most likely because the file is too large: put it into the folder of the studio instead."
    )
    zone.on("failed", lambda: show_error(failed), args=[])
    rejected = f"The name of the file does not end in {endings.replace(',', ', ')}: choose another file."
    zone.on_rejected(lambda: show_error(rejected))
    return mark(zone, testid, label)


def open_button(name: str, title: str) -> ui.button:
    """Draw a button that opens an exported page in a new tab."""
    button = ui.button("Open", icon="open_in_new").props(f"no-caps outline href=/api/export/{name}?shown=true")
    return mark(button.props("target=_blank rel=noopener"), f"open-{name}", f"Open in a new tab: {title}")


def heading(text: str, level: int = 1) -> None:
    """Draw a heading as an HTML heading element."""
    with ui.element(f"h{level}"):
        ui.label(text)


@contextmanager
def table(*titles: str, label: str) -> Iterator[ui.element]:
    """Draw a table with these column titles, and open its body; '#' marks the titles of numeric columns."""
    with ui.element("div").classes("shoal-scroll"), ui.element("table").classes("shoal-table") as drawn:
        drawn.props["aria-label"] = label
        with ui.element("thead"), ui.element("tr"):
            for title in titles:
                with ui.element("th").props("scope=col").classes("number" if title.startswith("#") else ""):
                    ui.label(title.removeprefix("#"))
        with ui.element("tbody") as body:
            yield body


@contextmanager
def cell(kind: str = "") -> Iterator[ui.element]:
    """Open a cell in the current table row."""
    with ui.element("td").classes(kind) as drawn:
        yield drawn
