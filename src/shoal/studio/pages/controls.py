"""Controls of the page Shape: the release settings, and the attribute weights."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from nicegui import ui

from shoal.anonymizers import describe_methods, method_names
from shoal.models.named import model_names
from shoal.parameters import Whole
from shoal.privacy.base import Control
from shoal.studio.estimators import ENDINGS
from shoal.studio.pages import layout
from shoal.studio.pages.figures import MODELS
from shoal.studio.settings import LEAST_K, MOST_K, Settings, offered_levels, offered_recodings

MOST_BY_SLIDER = 100
MOST_WEIGHT = 5.0
NO_MODEL = ""
OWN = ""
"""The recoding that is the default of the method."""
MODEL_FILES = ",".join(ENDINGS)
STYLE = """
.shoal-weights { display: grid; gap: .1rem .75rem; align-items: center; width: 100%;
  grid-template-columns: minmax(5rem, 8.5rem) minmax(6rem, 1fr) 2.2rem minmax(3rem, 6rem) 3.4rem; }
/* Weights are always current; only the loss can belong to earlier settings. */
.shoal-weights.shoal-older { opacity: 1; filter: none; }
.shoal-weights.shoal-older .shoal-lost { opacity: .45; }
.shoal-number { font-size: .8rem; font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
"""
Change = Callable[..., Awaitable[None]]


class Controls:
    """Controls of the method, the privacy models, the suppression, and the model to train."""

    def __init__(self, settings: Settings, change: Change, bring: Callable[[Path, str], Awaitable[None]]) -> None:
        self._change = change
        self._bring = bring
        with ui.card().classes("w-full gap-3"):
            layout.heading("Release settings", 2)
            self._choose_method()
            self._choose_k()
            self._choose_further()
            self._choose_model()
        self.follow(settings)

    def follow(self, settings: Settings) -> None:
        """Show the current settings, which other controls may have changed."""
        self._set_to = settings.to_dict()
        self._method.value, self._description.text = settings.method, describe_methods()[settings.method]
        offered = offered_recodings(settings.method)
        names = {OWN: "default of the method"} | {name: name for name in offered}
        self._recoding.set_options(names, value=settings.recoding or OWN)
        self._published.text = offered.get(settings.recoding or OWN, "")
        self._k.value, self._k_slider.value = settings.k, _by_slider(settings.k)
        for key, level in self._levels.items():
            level.value = settings.levels.get(key)
        self._suppression.value = round(100 * settings.suppression, 4)
        if settings.model is not None and settings.model not in self._model.options:
            self._model.set_options(dict(self._model.options) | {settings.model: settings.model})
        self._model.value = settings.model or NO_MODEL

    async def _set(self, name: str, value: Any) -> None:
        """Change a setting; ignore the events that :meth:`follow` causes."""
        if value != self._set_to[name]:
            # The workspace checks the value later.
            self._set_to[name] = value
            if name == "k":
                self._k_slider.value = _by_slider(value)
            await self._change(**{name: value})

    def _choose_method(self) -> None:
        async def choose(event: Any) -> None:
            self._description.text = describe_methods()[event.value]
            await self._set("method", event.value)

        self._method = layout.mark(ui.select(method_names(), label="Method", on_change=choose), "method")
        self._method.classes("w-full").props("dense outlined options-dense")
        self._description = layout.mark(ui.label("").classes("soft shoal-small -mt-2"), "method-told")

        async def choose_recoding(event: Any) -> None:
            await self._set("recoding", event.value or None)

        self._recoding = ui.select({OWN: ""}, label="Recoding", on_change=choose_recoding)
        layout.mark(self._recoding.classes("w-full").props("dense outlined options-dense"), "recoding")
        self._published = layout.mark(ui.label("").classes("soft shoal-small -mt-2"), "recoding-told")

    def _choose_k(self) -> None:
        async def slide(event: Any) -> None:
            if event.value is not None and int(event.value) != _by_slider(self._set_to["k"]):
                self._k.value = int(event.value)

        async def write(event: Any) -> None:
            if event.value is not None:
                await self._set("k", _whole(event.value))

        ui.label("Each row shares its group with at least k − 1 others.").classes("shoal-small soft -mb-2")
        with ui.row().classes("w-full no-wrap items-center gap-4"):
            self._k_slider = ui.slider(min=LEAST_K, max=MOST_BY_SLIDER, step=1, on_change=slide).classes("grow")
            layout.mark(self._k_slider, "k-slider", "k, by slider")
            self._k = ui.number("k", min=LEAST_K, max=MOST_K, step=1, on_change=write).classes("w-24")
            layout.mark(self._k.props("dense outlined"), "k")

    def _choose_further(self) -> None:
        async def set_suppression(event: Any) -> None:
            if event.value is not None:
                await self._set("suppression", round(event.value / 100, 6))

        self._levels = {key: self._choose_level(key, control) for key, control in offered_levels().items()}
        self._suppression = ui.number("Rows that may be suppressed", min=0, max=100, step=1, on_change=set_suppression)
        layout.mark(self._suppression.props("suffix=%"), "suppression")
        for one in (*self._levels.values(), self._suppression):
            one.props("dense outlined stack-label").classes("w-full")

    def _choose_level(self, key: str, control: Control) -> ui.number:
        async def write(event: Any) -> None:
            whole = isinstance(control.levels, Whole) and event.value is not None
            await self._set(key, _whole(event.value) if whole else event.value)

        limits = {"min": control.low, "max": control.levels.most, "step": control.step}
        level = ui.number(control.label, **limits, on_change=write)  # type: ignore[arg-type]
        layout.mark(level.props("clearable placeholder='not requested'"), key)
        return level

    def _choose_model(self) -> None:
        async def choose(event: Any) -> None:
            await self._set("model", event.value or None)

        names = {NO_MODEL: "none"} | {name: MODELS.get(name, name) for name in model_names()}
        self._model = ui.select(names, label="Model trained before and after", on_change=choose)
        layout.mark(self._model.classes("w-full").props("dense outlined options-dense"), "model")
        with ui.expansion("Upload a model").classes("w-full soft shoal-small"):
            self._upload = layout.drop_zone(self._take, MODEL_FILES, "model-file", "Model file")

    async def _take(self, event: Any) -> None:
        """Train the model of an uploaded file from now on; pickles require a studio started with ``--trust``."""
        name = Path(event.file.name).name
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ("model" + Path(name).suffix.lower())
            await event.file.save(path)
            await self._bring(path, name)
        self._upload.reset()


class WeightSliders:
    """Slider for the weight of each quasi-identifier, next to its loss in the release."""

    def __init__(self, names: list[str], change: Change) -> None:
        self._change = change
        self._weights: dict[str, float] = {}
        self._sliders: dict[str, ui.slider] = {}
        self._lost: dict[str, tuple[ui.element, ui.label]] = {}
        with ui.card().classes("w-full gap-2"):
            with ui.row().classes("w-full items-center justify-between no-wrap"):
                layout.heading("Attribute weights", 2)
                reset = ui.button("Set all to 1", icon="restart_alt", on_click=self._reset)
                layout.mark(reset.props("flat dense no-caps"), "reset-weights")
            words = "A higher weight keeps more detail of an attribute, at the cost of the others."
            ui.label(words).classes("soft shoal-small")
            with ui.element("div").classes("shoal-weights") as self.box:
                self._head()
                for name in names:
                    self._line(name)

    def follow(self, weights: Mapping[str, float]) -> None:
        """Show the current weights, which decisions may have changed."""
        self._weights = dict(weights)
        for name, slider in self._sliders.items():
            weight = self._weights.get(name, 1.0)
            most = max(MOST_WEIGHT, math.ceil(weight))
            if slider.props["max"] != most:
                slider.props["max"] = most
                slider.update()
            slider.value = weight

    def show_loss(self, lost: Mapping[str, float]) -> None:
        """Show the information loss of each attribute."""
        for name, (bar, label) in self._lost.items():
            share = lost.get(name, 0.0)
            bar.style(f"width: {100 * share:.1f}%")
            label.text = layout.percent(share)

    def _head(self) -> None:
        for text in ("attribute", "weight", "", "loss (NCP)", ""):
            ui.label(text).classes("soft shoal-small")

    def _line(self, name: str) -> None:
        async def slide(event: Any) -> None:
            if event.value is not None and event.value != self._weights.get(name, 1.0):
                self._weights[name] = event.value
                await self._change(weights={name: round(event.value, 4)})

        ui.label(name).classes("truncate text-sm").tooltip(name)
        slider = ui.slider(min=0, max=MOST_WEIGHT, step=0.1, value=1.0, on_change=slide)
        layout.mark(slider, f"weight-{name}", f"Weight of {name}")
        shown = ui.label().classes("shoal-number").bind_text_from(slider, "value", lambda value: f"{value:.2f}")
        layout.mark(shown, f"weight-{name}-value")
        self._sliders[name] = slider
        with ui.element("div").classes("shoal-track shoal-lost"):
            bar = ui.element("div").classes("shoal-fill").style("width: 0%")
        self._lost[name] = bar, layout.mark(ui.label("").classes("shoal-number shoal-lost"), f"loss-{name}")

    async def _reset(self) -> None:
        self._weights = {}
        for slider in self._sliders.values():
            slider.value = 1.0
        await self._change(weights=dict.fromkeys(self._sliders, 1.0))


def _by_slider(k: float) -> int:
    """Return the position of the slider, whose range is smaller than that of k."""
    return int(min(max(k, LEAST_K), MOST_BY_SLIDER))


def _whole(number: float) -> int | float:
    """Convert a whole number to int; the settings refuse other numbers."""
    return int(number) if float(number).is_integer() else number
