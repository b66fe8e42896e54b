"""The page Compare: saved variants, the cost of privacy, and the lattice that Flash searches."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from nicegui import ui

from shoal.evaluation.comparison import show_score
from shoal.studio.pages import layout
from shoal.studio.pages.frontier import draw_frontier, point_of
from shoal.studio.pages.lattice_drawing import TAGS, Drawn, draw_lattice
from shoal.studio.settings import offered_levels
from shoal.studio.workspace import Workspace

PATH = "/compare"
TITLES = (
    "#Weights", "#Groups", "#Smallest", "#NCP loss", "#Suppressed", "Score before → after", "#Highest risk",
    "#Average risk",
)  # fmt: skip
"""Titles of the figures; before them are those of the method and its levels."""


def add(studio: Any) -> None:
    """Register the page."""
    layout.add_page(studio, PATH, lambda workspace: ComparePage(workspace).draw())


class ComparePage:
    """The page of one visitor; the parts that depend on the variants are redrawn when these change."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._across = "k"

    def draw(self) -> None:
        """Draw the page."""
        with ui.column().classes("gap-0"):
            layout.heading("Comparison of variants")
            ui.label("Save settings as variants, and compare their privacy and their cost.").classes("soft")
        self._variants = ui.column().classes("w-full gap-4")
        self._draw_variants()
        _draw_lattice_card(self.workspace)

    def _draw_variants(self) -> None:
        self._variants.clear()
        variants = self.workspace.variants
        with self._variants:
            with ui.card().classes("w-full p-4 gap-3"):
                layout.heading("Variants", 2)
                if variants:
                    self._draw_table(variants)
                else:
                    words = "There are no variants yet. Save the current settings, change them, and save them again."
                    ui.label(words).props("data-testid=no-variants")
                self._draw_form()
            if variants:
                self._draw_frontier(variants)

    def _draw_form(self) -> None:
        settings = self.workspace.settings

        async def keep() -> None:
            doing = "Releasing with the current settings"
            await self._apply(layout.do_shown(doing, self.workspace.keep_variant, name.value or ""))

        with ui.row().classes("items-center gap-2"):
            name = ui.input("Save the current settings as", value=f"{settings.method}, k = {settings.k}")
            layout.mark(name.props("outlined dense maxlength=80").classes("w-72"), "keep-name", "Variant name")
            layout.mark(ui.button("Save", icon="bookmark_add", on_click=keep).props("no-caps"), "keep-variant")
            layout.mark(ui.button("Change settings").props("no-caps flat href=/shape"), "to-shape")

    async def _apply(self, done: Awaitable[tuple[bool, Any]]) -> bool:
        worked, _ = await done
        if worked:
            self._draw_variants()
        return worked

    def _draw_table(self, variants: list[dict[str, Any]]) -> None:
        used = self.workspace.settings.to_dict()
        levels = [f"#{key}" for key in ("k", *offered_levels())]
        with layout.table("Variant", "", "Method", *levels, *TITLES, label="Variants side by side") as body:
            body.props["data-testid"] = "variants"
            for variant in variants:
                self._draw_variant(variant, variant["settings"] == used)

    def _draw_variant(self, variant: dict[str, Any], used: bool) -> None:
        name, settings = variant["name"], variant["settings"]
        with layout.mark(ui.element("tr"), f"variant-{name}"):
            with layout.cell("font-bold"):
                ui.label(name)
                if variant["outdated"]:
                    badge = ui.badge("earlier schema").props("color=warning")
                    badge.tooltip("Roles, kinds or hierarchies have changed since the variant was saved")
                elif used:
                    ui.badge("in use").props("color=primary")
            with layout.cell("whitespace-nowrap"):
                self._draw_buttons(name)
            with layout.cell("whitespace-nowrap"):
                ui.label(settings["method"])
            _number(str(settings["k"]))
            for key in offered_levels():
                _number(_or_dash(settings.get(key)))
            _draw_weights(settings["weights"])
            for text in _measured(variant):
                _number(text)
            with layout.cell("whitespace-nowrap"):
                _draw_score(variant["utility"])
            for risk in ("prosecutor", "marketer"):
                _number(layout.percent(variant["risk"][risk]))

    def _draw_buttons(self, name: str) -> None:
        async def use() -> None:
            if await self._apply(layout.do(self.workspace.use_variant, name)):
                with self._variants:
                    ui.notify(f"The settings of {name!r} are now in use.")

        async def drop() -> None:
            await self._apply(layout.do(self.workspace.drop_variant, name))

        button = ui.button("Use", on_click=use).props("flat dense no-caps")
        layout.mark(button, f"use-{name}", f"Use the settings of {name}")
        button = ui.button(icon="delete", on_click=drop).props("flat dense round color=negative")
        layout.mark(button, f"drop-{name}", f"Delete {name}").tooltip("Delete")

    # Cost of privacy

    def _draw_frontier(self, variants: list[dict[str, Any]]) -> None:
        points = [point_of(variant) for variant in variants]
        scored = any(point.score is not None for point in points)
        with ui.card().classes("w-full p-4 gap-2"):
            with ui.row().classes("w-full items-center justify-between"):
                layout.heading("Cost of privacy", 2)
                across = ui.toggle({"k": "by k", "risk": "by average risk"}, value=self._across).props(
                    'no-caps padding="xs md"'
                )
                layout.mark(across, "frontier-across", "Horizontal axis of the plot")
            ui.label(_explain(scored)).classes("soft text-sm")
            chart = ui.echart(draw_frontier(points, self._across), renderer="svg").classes("shoal-chart w-full h-96")
            layout.mark(chart, "frontier", "Score, privacy and loss of all variants").props("role=img")

        def turn(event: Any) -> None:
            self._across = event.value
            chart.options.clear()
            chart.options.update(draw_frontier(points, event.value))
            chart.update()

        across.on_value_change(turn)


def _or_dash(value: Any) -> str:
    return "–" if value is None else f"{value:g}"


def _number(text: str) -> None:
    with layout.cell("number"):
        ui.label(text)


def _measured(variant: dict[str, Any]) -> list[str]:
    loss = layout.percent(variant["loss"]["ncp"])
    return [f"{variant['groups']:,}", f"{variant['k']:,}", loss, f"{variant['suppressed']:,}"]


def _draw_weights(weights: dict[str, float]) -> None:
    changed = {name: weight for name, weight in weights.items() if weight != 1}
    with layout.cell("number"):
        label = ui.label(f"{len(changed)} changed" if changed else "–")
        if changed:
            label.tooltip(", ".join(f"{name} {weight:.3g}" for name, weight in changed.items()))


def _draw_score(utility: dict[str, Any] | None) -> None:
    if utility is None or "error" in utility:
        label = ui.label("–")
        if utility is not None:
            label.tooltip(utility["error"])
        return
    before, after = utility["before"], utility["after"]
    score = utility["score"]
    ui.label(f"{show_score(score, before['value'])} → {show_score(score, after['value'])}")
    interval = show_score(score, after["low"], after["high"])
    ui.label(f"{utility['model']}, {score}, {interval}").classes("soft text-xs")


def _explain(scored: bool) -> str:
    if not scored:
        return "No variant has a score because no model was trained: the plot shows the loss instead. Lower is better."
    return (
        "A higher score is better, and red points have a high loss. Vertical lines are 95 % confidence intervals; the "
        "dashed line connects the Pareto-optimal variants."
    )


def _draw_lattice_card(workspace: Workspace) -> None:
    async def search() -> None:
        worked, drawn = await layout.do_shown("Searching the lattice", _search, workspace)
        if worked:
            place.clear()
            with place:
                _show_lattice(drawn)

    with ui.card().classes("w-full p-4 gap-2"):
        layout.heading("Generalisation lattice of Flash", 2)
        ui.label(
            "Flash generalises each quasi-identifier to one level of its hierarchy. Each node is a combination of "
            "levels, from raw values at the bottom to full suppression at the top. The search may take some seconds."
        ).classes("soft text-sm max-w-4xl")
        button = ui.button("Draw the lattice", icon="schema", on_click=search).props("no-caps outline")
        layout.mark(button, "draw-lattice")
        place = ui.column().classes("w-full gap-2")


def _search(workspace: Workspace) -> Drawn:
    return draw_lattice(workspace.lattice(), [attribute.name for attribute in workspace.schema.quasi])


def _show_lattice(drawn: Drawn) -> None:
    levels = ", ".join(f"{name} {level} of {top}" for name, (level, top) in drawn.chosen.items())
    ui.label(f"Selected levels: {levels}.").props("data-testid=lattice-chosen")
    with ui.row().classes("gap-x-4 gap-y-1 text-sm"):
        for tag, n in drawn.tags.items():
            if n:
                with ui.row().classes("items-center gap-1 no-wrap"):
                    meaning, colour = TAGS[tag]
                    ui.element("span").style(f"width:.8rem; height:.8rem; border-radius:50%; background:{colour}")
                    ui.label(f"{meaning} ({n:,})")
    if drawn.nodes > drawn.shown:
        words = f"{drawn.shown:,} of {drawn.nodes:,} nodes are drawn; checked nodes have priority."
        ui.label(words).classes("soft text-sm")
    layout.mark(ui.html(drawn.svg, sanitize=False).classes("shoal-picture w-full"), "lattice")
