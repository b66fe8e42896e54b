"""ROC curves of attacks on membership, on logarithmic axes that show low false positive rates."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from shoal.attacks.membership import MEMBERSHIP
from shoal.studio.pages import layout
from shoal.studio.pages.figures import CHART_TEXT, axis, tooltip

LOWEST_RATE = 1e-3
MOST_LINES = 4
COLOURS = ("var(--sea)", "var(--coral)", "#8c6bb1", "#b8860b")
DASHES = ("solid", [8, 3], [2, 2], [8, 3, 2, 3])
"""Dashes, because lines must differ in more than their colour."""
IN_PERCENT = "value => (100 * value).toPrecision(1) * 1 + ' %'"
TOOLTIP = (
    "point => point.seriesName + '<br>TPR ' + (100 * point.value[1]).toPrecision(3) * 1 + ' %<br>'"
    " + 'FPR ' + (100 * point.value[0]).toPrecision(3) * 1 + ' %'"
)


def draw(name: str, found: dict[str, Any]) -> None:
    """Draw the strongest attacks on one model."""
    with ui.column().classes("w-full gap-0"):
        ui.label(model_of(name)).classes("font-bold text-sm")
        if not found["curves"]:
            ui.label("No attack has a curve.").classes("soft")
            return
        chart = ui.echart(roc_chart(found), renderer="svg").classes("w-full h-80 shoal-chart").props("role=img")
        layout.mark(chart, "audit-curve", f"ROC curves. {model_of(name)}")


def model_of(name: str) -> str:
    """Return the title of a model by its training rows."""
    return "Model of raw rows" if name == "raw rows" else f"Model of the release ({name})"


def roc_chart(found: dict[str, Any]) -> dict[str, Any]:
    """Return a chart of the strongest attacks, and of guessing."""
    areas = {one["attack"]: one["area"] or 0 for one in found["attacks"] if one["risk"] == MEMBERSHIP.name}
    strongest = sorted(found["curves"], key=lambda attack: areas.get(attack, 0), reverse=True)[:MOST_LINES]
    lines = [
        _line(f"{attack}, AUC {areas.get(attack, 0):.2f}", _points(*found["curves"][attack]), colour, dash)
        for attack, colour, dash in zip(strongest, COLOURS, DASHES, strict=False)
    ]
    chance = _line("guessing", [[LOWEST_RATE, LOWEST_RATE], [1, 1]], "var(--soft)", [3, 4])
    return {
        "animation": False,
        "grid": {"left": 64, "right": 20, "top": 16, "bottom": 92},
        "textStyle": CHART_TEXT,
        "legend": {"bottom": 0, "textStyle": CHART_TEXT, "itemWidth": 30},
        "tooltip": tooltip("item") | {":formatter": TOOLTIP},
        "xAxis": _log_axis("false positive rate", 28),
        "yAxis": _log_axis("true positive rate", 48),
        "series": [*lines, chance],
    }


def _points(false_alarms: list[float], hits: list[float]) -> list[list[float]]:
    """Return the points that logarithmic axes can show."""
    pairs = zip(false_alarms, hits, strict=True)
    return [[max(x, LOWEST_RATE), max(y, LOWEST_RATE)] for x, y in pairs if x >= LOWEST_RATE or y >= LOWEST_RATE]


def _line(name: str, points: list[list[float]], colour: str, dash: Any) -> dict[str, Any]:
    return {
        "type": "line",
        "name": name,
        "data": points,
        "symbol": "circle",
        "symbolSize": 5,
        "showSymbol": False,
        "itemStyle": {"color": colour},
        "lineStyle": {"color": colour, "width": 2, "type": dash},
        "emphasis": {"disabled": True},
    }


def _log_axis(name: str, gap: int) -> dict[str, Any]:
    return axis(name, gap) | {
        "type": "log",
        "min": LOWEST_RATE,
        "max": 1,
        "axisLabel": CHART_TEXT | {":formatter": IN_PERCENT},
        "splitLine": {"lineStyle": {"color": "var(--line)"}},
    }
