"""The page Shape: release settings, and the privacy, loss and model score that follow from them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nicegui import ui

from shoal.errors import ShoalError
from shoal.studio.pages import controls, decisions, figures, layout
from shoal.studio.processes import Progress
from shoal.studio.workspace import Workspace

PATH = "/shape"
QUIET = 0.15
"""Seconds after the last change before a run starts: a slider that is dragged sends twenty changes per second."""
POLL_INTERVAL = 0.1
"""Seconds between two updates of the page; an update without news takes microseconds."""
STYLE = """
.shoal-strip { position: sticky; top: 3.2rem; z-index: 20; }
@media (max-width: 999px) { .shoal-strip { position: static; } }
.shoal-parts { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem; width: 100%; align-items: start; }
@media (min-width: 720px) { .shoal-parts { grid-template-columns: minmax(0, 16rem) minmax(0, 1fr); }
  .shoal-parts > :last-child { grid-column: 1 / -1; } }
@media (min-width: 1180px) { .shoal-parts { grid-template-columns: 15.5rem minmax(0, 1.15fr) minmax(0, 1fr); }
  .shoal-parts > :last-child { grid-column: auto; } }
.q-tab-panels, .q-panel { background: transparent; }
"""


def add(studio: Any) -> None:
    """Register the page."""
    layout.add_page(studio, PATH, lambda workspace: ShapePage(workspace).draw())


class RunControl:
    """Collects changes of the settings, and starts a run a moment after the last one."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._waiting: dict[str, Any] = {}
        self._changes = 0
        self._sending = asyncio.Lock()
        self.error = ""
        """Reason why the workspace refused the last changes."""

    @property
    def settled(self) -> bool:
        """True if the workspace has received all changes."""
        return not self._waiting and not self._sending.locked()

    async def change(self, **changes: Any) -> None:
        """Change some settings."""
        if "weights" in changes:
            changes["weights"] = self._waiting.get("weights", {}) | changes["weights"]
        self._waiting |= changes
        self._changes += 1
        mine = self._changes
        await asyncio.sleep(QUIET)
        if mine == self._changes:
            await self.start()

    async def start(self) -> None:
        """Start a run now."""
        async with self._sending:  # in sequence: older values must not overtake newer ones
            changes, self._waiting = self._waiting, {}
            try:
                await layout.in_thread(self._start, changes)
                self.error = ""
            except ShoalError as error:
                self.error = str(error)

    def _start(self, changes: dict[str, Any]) -> None:
        if changes:
            self._workspace.change(**changes)
        self._workspace.start_run()


class ShapePage:
    """The page of one visitor."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._runs = RunControl(workspace)
        self._raw: dict[str, float] | None = None
        self._seen: tuple[Any, ...] = ()
        self._shown: tuple[Any, ...] = ()

    async def draw(self) -> None:
        """Draw the page, and start a run if there is no release with the current settings."""
        ui.add_css(figures.STYLE + controls.STYLE + STYLE + decisions.STYLE)
        with ui.element("div").classes("sr-only"):
            layout.heading("Shape")
        self._draw_strip()
        with ui.tabs().props("no-caps align=left dense").classes("w-full") as tabs:
            layout.mark(ui.tab("hand", "Settings and weights"), "tab-hand")
            layout.mark(ui.tab("duel", "Learn weights from decisions"), "tab-duel")
        with ui.tab_panels(tabs, value="hand", animated=False).classes("w-full") as panels:
            with ui.tab_panel("hand").classes("p-0"):
                self._draw_settings()
            with ui.tab_panel("duel").classes("p-0"):
                panel = decisions.DecisionPanel(self._workspace, self._runs.start)
        panels.on_value_change(lambda event: panel.enter() if event.value == "duel" else None)
        if not self._is_current(self._workspace.progress()):
            await self._runs.start()
        self._update()
        ui.timer(POLL_INTERVAL, self._update)
        ui.timer(0, self._find_raw_risk, once=True)

    def _draw_strip(self) -> None:
        with ui.card().classes("w-full shoal-strip gap-1 p-3"):
            self._tiles = figures.Tiles()
            self._line = ui.linear_progress(show_value=False, size="3px").props("indeterminate aria-hidden=true")
            self._status = layout.mark(ui.label("").classes("soft shoal-small").props("role=status"), "run-status")
            self._error = layout.mark(ui.label("").classes("leaks w-full").props("role=alert"), "run-error")

    def _draw_variant_form(self) -> None:
        async def keep() -> None:
            kept, _ = await layout.do_shown("Saving the variant …", self._workspace.keep_variant, name.value or "")
            if kept:
                ui.notify(f"Saved as “{name.value}”: see the page Compare.", type="positive")
                name.value = ""

        with ui.card().classes("w-full gap-2"):
            name = ui.input("Variant name").classes("w-full").props("dense outlined maxlength=80")
            layout.mark(name, "variant-name").on("keydown.enter", keep)
            button = ui.button("Save as a variant", icon="bookmark_add", on_click=keep)
            layout.mark(button.classes("w-full").props("outline no-caps padding='xs sm'"), "keep-variant")

    async def _use_model(self, path: Path, name: str) -> None:
        """Train the model of an uploaded file from now on."""
        done, kept = await layout.do(self._workspace.use_model, path, name)
        if done:
            ui.notify(f"The model {kept} is selected.")
            self._controls.follow(self._workspace.settings)
            await self._runs.start()

    def _draw_settings(self) -> None:
        with ui.element("div").classes("shoal-parts"):
            with ui.column().classes("w-full gap-4"):
                self._controls = controls.Controls(self._workspace.settings, self._runs.change, self._use_model)
                self._draw_variant_form()
            self._weights = controls.WeightSliders(
                [one.name for one in self._workspace.schema.quasi], self._runs.change
            )
            self._details = figures.Details()
        with ui.element("div").classes("w-full mt-4"):
            self._sample = figures.Sample()

    def _update(self) -> None:
        """Redraw the parts that have changed since the last update."""
        progress = self._workspace.progress()
        seen = (progress, self._runs.error, self._runs.settled, self._raw)
        if not _same(seen, self._seen):
            self._seen = seen
            self._draw_progress(progress)

    def _draw_progress(self, progress: Progress) -> None:
        error = self._runs.error or progress.error
        current = self._is_current(progress) and not error
        self._show(progress)
        for part in (self._tiles, self._weights, self._details, self._sample):
            part.box.classes(remove="shoal-older") if current else part.box.classes("shoal-older")
        if self._runs.settled and not self._runs.error:
            self._controls.follow(self._workspace.settings)
            self._weights.follow(self._workspace.settings.weights)
        self._line.style("visibility: visible" if progress.running else "visibility: hidden")
        self._error.text = error
        self._error.set_visibility(bool(error))
        self._status.text = _status(progress, current, bool(self._shown))

    def _show(self, progress: Progress) -> None:
        """Show the figures if they have changed: a new step alone does not resend charts and rows."""
        found, shown = progress.result, (progress.result, progress.running, self._raw)
        if found is None or _same(shown, self._shown):
            return
        self._shown = shown
        self._tiles.show(found, progress.running)
        self._details.show(found, self._raw)
        self._sample.show(found)
        self._weights.show_loss(found["loss"]["by_attribute"])

    def _is_current(self, progress: Progress) -> bool:
        """Return True if the figures belong to the current settings."""
        if progress.result is None or progress.result_ticket != progress.ticket or not self._runs.settled:
            return False
        return bool(progress.result["settings"] == self._workspace.settings.to_dict())

    async def _find_raw_risk(self) -> None:
        try:
            risk = await layout.in_thread(self._workspace.raw_risk)
        except ShoalError:
            return  # the run reports the same error
        self._raw = risk._asdict()


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return True if both hold the identical objects; comparing their content would take longer."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _status(progress: Progress, current: bool, shown: bool) -> str:
    older = "The figures belong to earlier settings." if shown and not current else ""
    if progress.running:
        return f"{progress.step} … {older}"
    if current:
        return f"Up to date: grouping and measuring took {progress.result['seconds']:.2f} s."
    return older
