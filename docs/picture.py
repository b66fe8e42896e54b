"""Draw docs/picture.svg: a census before and after, seen by age and hours of work.

Left every dot is a row; red ones are alone with their values. Right the groups that Mondrian makes of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from shoal import Attribute, Mondrian, Schema
from shoal.data.table import encode
from shoal.datasets import make_census
from shoal.partition.geometry import bounds

K = 10
N_ROWS = 1500
SIZE = 360
AGES, HOURS = (15, 92), (0, 100)


def main() -> None:
    """Draw both panels and write the picture."""
    frame = make_census(N_ROWS, seed=4).frame.select("age", "hours-per-week")
    schema = Schema([Attribute("age"), Attribute("hours-per-week")])
    table = encode(frame, schema)
    labels = Mondrian(schema, K).fit(frame).labels_
    points = frame.to_numpy().astype(float)
    _, inverse, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    alone = counts[inverse.reshape(-1)] == 1
    boxes = bounds(table, labels)
    low = np.column_stack([c.positions[boxes.low[:, j]] for j, c in enumerate(table.quasi)])
    high = np.column_stack([c.positions[boxes.high[:, j]] for j, c in enumerate(table.quasi)])
    left = panel(0, f"raw: {alone.mean():.0%} of the people (red) are unique", dots(points, alone))
    right = panel(SIZE + 60, f"released: everyone is in a group of {K} or more", rectangles(low, high, labels))
    Path(__file__).with_name("picture.svg").write_text(svg(left + right), encoding="utf-8")


def place(points: np.ndarray) -> np.ndarray:
    """Ages and hours in pixels."""
    share = (points - [AGES[0], HOURS[0]]) / [AGES[1] - AGES[0], HOURS[1] - HOURS[0]]
    return np.column_stack([share[:, 0] * SIZE, (1 - share[:, 1]) * SIZE])


def dots(points: np.ndarray, alone: np.ndarray) -> str:
    """A dot for every row, red where no other row equals it."""
    shift = np.random.default_rng(0).uniform(-1.2, 1.2, points.shape)
    return "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2.1 if red else 1.4}" fill="{"#d1495b" if red else "#8fa3b0"}"/>'
        for (x, y), red in sorted(zip(place(points) + shift, alone, strict=True), key=lambda pair: pair[1])
    )


def rectangles(low: np.ndarray, high: np.ndarray, labels: np.ndarray) -> str:
    """A box for every group, the darker the denser."""
    sizes = np.bincount(labels)
    drawn = []
    for (x0, y1), (x1, y0), size in zip(place(low - 0.4), place(high + 0.4), sizes, strict=True):
        depth = min(1.0, size / ((x1 - x0) * (y1 - y0) + 1) * 6)
        drawn.append(
            f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" rx="1.5" '
            f'fill="#1d6a8c" fill-opacity="{0.12 + 0.78 * depth:.2f}" stroke="#0b3d54" stroke-width="0.6"/>'
        )
    return "".join(drawn)


def panel(x: int, title: str, content: str) -> str:
    """One half of the picture, with its title and axes."""
    ticks = "".join(
        f'<text class="tick" x="{place(np.array([[age, 0]]))[0, 0]:.0f}" y="{SIZE + 16}" '
        f'text-anchor="middle">{age}</text>'
        for age in (20, 40, 60, 80)
    )
    return (
        f'<g transform="translate({x + 30},40)"><text class="title" x="0" y="-16">{title}</text>'
        f'<rect width="{SIZE}" height="{SIZE}" fill="#f4f7f9" rx="4"/>{content}{ticks}'
        f'<text class="tick" x="{SIZE}" y="{SIZE + 30}" text-anchor="end">age</text>'
        f'<text class="tick" transform="translate(-8,0) rotate(-90)" text-anchor="end">hours of work a week</text></g>'
    )


def svg(content: str) -> str:
    """The whole file."""
    width, height = 2 * SIZE + 120, SIZE + 85
    text, title = "font-family:system-ui,sans-serif;fill:#22313a", "font-size:14px;font-weight:600"
    style = f"text{{{text}}}.title{{{title}}}.tick{{font-size:11px}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<style>{style}</style><rect width="{width}" height="{height}" fill="#ffffff" rx="8"/>{content}</svg>\n'
    )


if __name__ == "__main__":
    main()
