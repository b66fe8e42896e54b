"""The cost of privacy as a plot: score and loss of each variant over its k or its risk."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

import numpy as np

from shoal.studio.pages import layout

MOST_NAMED = 12
"""Number of points up to which each point is labelled; more labels would overlap."""
AXIS = {
    "axisLine": {"show": True, "lineStyle": {"color": "#8a97a3"}},
    "splitLine": {"lineStyle": {"color": "#8a97a3", "opacity": 0.25}},
}


class Point(NamedTuple):
    """Variant as a point of the plot; shares are percentages."""

    name: str
    k: int
    risk: float
    loss: float
    model: str = ""
    unit: str = ""
    before: float | None = None
    score: float | None = None
    low: float = 0.0
    high: float = 0.0


def point_of(variant: dict[str, Any]) -> Point:
    """Return the point of a variant."""
    utility = variant["utility"]
    k, risk, loss = variant["settings"]["k"], 100 * variant["risk"]["marketer"], 100 * variant["loss"]["ncp"]
    if utility is None or "error" in utility:
        return Point(variant["name"], k, risk, loss)
    scale, unit = (100, "accuracy (% of rows)") if utility["score"] == "accuracy" else (1, "R² (1 is perfect)")
    before, after = utility["before"]["value"], utility["after"]
    found = (scale * float(number) for number in (before, after["value"], after["low"], after["high"]))
    return Point(variant["name"], k, risk, loss, utility["model"], unit, *found)


def draw_frontier(points: list[Point], across: str) -> dict[str, Any]:
    """Return the options of the plot: score (loss if no variant has a score) over k or the average risk."""
    scored = [point for point in points if point.score is not None]
    shown = scored or points
    most = max(5, 5 * int(np.ceil(max(point.loss for point in shown) / 5)))
    unit = scored[0].unit if scored else "NCP loss (%)"
    named = len(shown) <= MOST_NAMED
    return {
        "animation": False,
        "grid": {"left": 60, "right": 130, "top": 40, "bottom": 55},
        "tooltip": {"confine": True},
        "xAxis": _horizontal(shown, across),
        "yAxis": {"type": "value", "scale": True, "name": unit, **AXIS, "nameGap": 14},
        "visualMap": {
            "dimension": 2,
            "seriesIndex": 0,
            "min": 0,
            "max": most,
            "right": 0,
            "top": "middle",
            "itemHeight": 140,
            "text": [f"{most} % loss (NCP)", "0 %"],
            "inRange": {"color": ["#8fd3c5", "#3b9fb5", "#6a58a8", "#c0446a"]},
        },
        "series": [_dots(shown, across, named), *_raw_lines(scored), _intervals(scored, across), _front(shown, across)],
    }


def _horizontal(points: list[Point], across: str) -> dict[str, Any]:
    middle = {"nameLocation": "middle", "nameGap": 32, **AXIS}
    if across == "risk":
        return {"type": "value", "min": 0, "name": "average risk (% of people re-identified)", **middle}
    values = [point.k for point in points]
    # The ticks of this axis are powers of two: the axis starts and ends with one, and no point is on its border.
    low, high = (2.0 ** np.floor(np.log2(min(values) / 1.2)), 2.0 ** np.ceil(np.log2(max(values) * 1.2)))
    name = "requested k (minimum rows per group)"
    return {"type": "log", "logBase": 2, "name": name, "min": max(1.0, low), "max": high, **middle}


def _place(point: Point, across: str) -> list[float]:
    height = point.loss if point.score is None else point.score
    return [point.k if across == "k" else round(point.risk, 4), round(height, 4), round(point.loss, 4)]


def _dots(points: list[Point], across: str, named: bool) -> dict[str, Any]:
    label = {"show": named, "formatter": "{b}", "position": "right", "fontSize": 12}
    return {
        "type": "scatter",
        "symbolSize": 16,
        "label": label,
        "labelLayout": {"moveOverlap": "shiftY"},
        "itemStyle": {"borderColor": "#ffffff", "borderWidth": 1},
        "data": [
            {"name": point.name, "value": _place(point, across), "tooltip": {"formatter": _tip(point)}}
            for point in points
        ],
    }


def _tip(point: Point) -> str:
    lines = [f"<b>{html.escape(point.name)}</b>", f"k = {point.k}", f"average risk {point.risk:.2f} %"]
    lines.append(f"NCP loss {point.loss:.1f} %")
    if point.score is not None:
        lines.append(f"{point.unit}: {point.score:.3g} ({point.low:.3g} to {point.high:.3g})")
    return "<br>".join(lines).replace("{", "(").replace("}", ")")


def _raw_lines(points: list[Point]) -> list[dict[str, Any]]:
    """Return a horizontal line for the score of each model trained on raw rows."""
    raw = {point.model: point.before for point in points}
    marks = [
        {"yAxis": before, "name": f"{model} on raw rows", "label": {"formatter": "{b}", "position": "insideStartTop"}}
        for model, before in raw.items()
    ]
    # The axis covers a line above all points only if a series contains its value.
    heights = [[None, before] for before in raw.values()]
    line = {"silent": True, "symbol": "none", "lineStyle": {"color": layout.GOOD, "type": "solid", "width": 2}}
    return [{"type": "line", "data": heights, "symbol": "none", "markLine": line | {"data": marks}}] if marks else []


def _intervals(points: list[Point], across: str) -> dict[str, Any]:
    ends: list[list[float | None]] = []
    for point in points:
        x = _place(point, across)[0]
        ends += [[x, point.low], [x, point.high], [None, None]]
    return {
        "type": "line",
        "data": ends,
        "symbol": "none",
        "silent": True,
        "lineStyle": {"color": "#8a97a3", "width": 1},
    }


def _front(points: list[Point], across: str) -> dict[str, Any]:
    line = {"color": "#8a97a3", "type": "dashed", "width": 1.5}
    places = [_place(point, across)[:2] for point in best_points(points, across)]
    return {"type": "line", "data": places, "symbol": "none", "silent": True, "lineStyle": line}


def best_points(points: list[Point], across: str) -> list[Point]:
    """Return the Pareto-optimal variants in privacy and score (or loss), from the least private on."""

    def worth(point: Point) -> tuple[float, float]:
        private = point.k if across == "k" else -point.risk
        return private, -point.loss if point.score is None else point.score

    found: list[Point] = []
    for point in sorted(points, key=worth, reverse=True):
        if not found or worth(point)[1] > worth(found[-1])[1]:
            found.append(point)
    return found[::-1]
