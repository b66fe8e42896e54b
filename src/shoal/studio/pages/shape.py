"""The page Shape: how a table is released, and at once what that gains and costs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from nicegui import ui

from shoal.errors import ShoalError
from shoal.studio.desk import Workspace
from shoal.studio.pages import controls, duel, figures, layout
from shoal.studio.work import Progress

PATH = "/shape"
QUIET = 0.15
"""Seconds without a further change after which a run begins: a slider that is drawn sends twenty changes a second."""
LOOKS = 0.1
"""Seconds between two looks at the run; a look that finds nothing new costs microseconds."""
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
    layout.add_page(studio, PATH, lambda desk: ShapePage(desk).draw())


class RunControl:
    """Tells the desk what was changed a moment after the last change, and begins a run; the newest one counts."""

    def __init__(self, desk: Workspace) -> None:
        self._desk = desk
        self._waiting: dict[str, Any] = {}
        self._asked = 0
        self._telling = asyncio.Lock()
        self.refused = ""
        """Why the last changes could not be made."""

    @property
    def settled(self) -> bool:
        """Whether the desk knows of all changes."""
        return not self._waiting and not self._telling.locked()

    async def change(self, **changes: Any) -> None:
        """Change some settings."""
        if "weights" in changes:
            changes["weights"] = self._waiting.get("weights", {}) | changes["weights"]
        self._waiting |= changes
        self._asked += 1
        mine = self._asked
        await asyncio.sleep(QUIET)
        if mine == self._asked:
            await self.start()

    async def start(self) -> None:
        """Begin a run now."""
        async with self._telling:  # one after the other: older values must not overtake newer ones
            changes, self._waiting = self._waiting, {}
            try:
                await layout.in_thread(self._start, changes)
                self.refused = ""
            except ShoalError as error:
                self.refused = str(error)

    def _start(self, changes: dict[str, Any]) -> None:
        if changes:
            self._desk.change(**changes)
        self._desk.start()


class ShapePage:
    """The page of one visitor."""

    def __init__(self, desk: Workspace) -> None:
        self._desk = desk
        self._runs = RunControl(desk)
        self._raw: dict[str, float] | None = None
        self._seen: tuple[Any, ...] = ()
        self._shown: tuple[Any, ...] = ()

    async def draw(self) -> None:
        """Draw everything, and begin a run where there is no release yet."""
        ui.add_css(figures.STYLE + controls.STYLE + STYLE + duel.STYLE)
        with ui.element("div").classes("sr-only"):
            layout.heading("Shape")
        self._strip()
        with ui.tabs().props("no-caps align=left dense").classes("w-full") as tabs:
            layout.mark(ui.tab("hand", "Settings and weights"), "tab-hand")
            layout.mark(ui.tab("duel", "Find weights by a duel"), "tab-duel")
        with ui.tab_panels(tabs, value="hand", animated=False).classes("w-full") as panels:
            with ui.tab_panel("hand").classes("p-0"):
                self._by_hand()
            with ui.tab_panel("duel").classes("p-0"):
                contest = duel.Duel(self._desk, self._runs.start)
        panels.on_value_change(lambda event: contest.enter() if event.value == "duel" else None)
        if not self._is_current(self._desk.shaped()):
            await self._runs.start()
        self._look()
        ui.timer(LOOKS, self._look)
        ui.timer(0, self._find_raw_risk, once=True)

    def _strip(self) -> None:
        with ui.card().classes("w-full shoal-strip gap-1 p-3"):
            self._tiles = figures.Tiles()
            self._line = ui.linear_progress(show_value=False, size="3px").props("indeterminate aria-hidden=true")
            self._status = layout.mark(ui.label("").classes("soft shoal-small").props("role=status"), "run-status")
            self._trouble = layout.mark(ui.label("").classes("leaks w-full").props("role=alert"), "run-error")

    def _keeping(self) -> None:
        async def keep() -> None:
            kept, _ = await layout.do_shown("Keeping the figures …", self._desk.keep_variant, name.value or "")
            if kept:
                ui.notify(f"Kept as “{name.value}”: see the page Compare.", type="positive")
                name.value = ""

        with ui.card().classes("w-full gap-2"):
            name = ui.input("Name of a variant").classes("w-full").props("dense outlined maxlength=80")
            layout.mark(name, "variant-name").on("keydown.enter", keep)
            button = ui.button("Keep this as a variant", icon="bookmark_add", on_click=keep)
            layout.mark(button.classes("w-full").props("outline no-caps padding='xs sm'"), "keep-variant")

    async def _bring(self, path: Path, name: str) -> None:
        """Take a model that somebody brings along, and train it."""
        done, kept = await layout.do(self._desk.bring_model, path, name)
        if done:
            ui.notify(f"{kept} is trained from now on.")
            self._controls.follow(self._desk.settings)
            await self._runs.start()

    def _by_hand(self) -> None:
        with ui.element("div").classes("shoal-parts"):
            with ui.column().classes("w-full gap-4"):
                self._controls = controls.Controls(self._desk.settings, self._runs.change, self._bring)
                self._keeping()
            self._weights = controls.WeightSliders([one.name for one in self._desk.schema.quasi], self._runs.change)
            self._details = figures.Details()
        with ui.element("div").classes("w-full mt-4"):
            self._sample = figures.Sample()

    def _look(self) -> None:
        """Draw what is new since the last look."""
        progress = self._desk.shaped()
        seen = (progress, self._runs.refused, self._runs.settled, self._raw)
        if not _same(seen, self._seen):
            self._seen = seen
            self._draw_progress(progress)

    def _draw_progress(self, progress: Progress) -> None:
        error = self._runs.refused or progress.error
        current = self._is_current(progress) and not error
        self._show(progress)
        for part in (self._tiles, self._weights, self._details, self._sample):
            part.box.classes(remove="shoal-older") if current else part.box.classes("shoal-older")
        if self._runs.settled and not self._runs.refused:
            self._controls.follow(self._desk.settings)
            self._weights.follow(self._desk.settings.weights)
        self._line.style("visibility: visible" if progress.running else "visibility: hidden")
        self._trouble.text = error
        self._trouble.set_visibility(bool(error))
        self._status.text = _status(progress, current, bool(self._shown))

    def _show(self, progress: Progress) -> None:
        """Show the figures, if they are others than before: a step alone sends no chart and no rows again."""
        found, shown = progress.result, (progress.result, progress.running, self._raw)
        if found is None or _same(shown, self._shown):
            return
        self._shown = shown
        self._tiles.show(found, progress.running)
        self._details.show(found, self._raw)
        self._sample.show(found)
        self._weights.show_loss(found["loss"]["by_attribute"])

    def _is_current(self, progress: Progress) -> bool:
        """Whether the figures are those of the present settings."""
        if progress.result is None or progress.of != progress.ticket or not self._runs.settled:
            return False
        return bool(progress.result["settings"] == self._desk.settings.to_dict())

    async def _find_raw_risk(self) -> None:
        try:
            risk = await layout.in_thread(self._desk.raw_risk)
        except ShoalError:
            return  # the run says the same, and says it better
        self._raw = risk._asdict()


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether both hold the very same things; to compare what is in them would take longer."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _status(progress: Progress, current: bool, shown: bool) -> str:
    older = "The figures are of earlier settings." if shown and not current else ""
    if progress.running:
        return f"{progress.step} … {older}"
    if current:
        return f"Up to date; grouping and measuring took {progress.result['seconds']:.2f} s."
    return older
