"""The generalisation lattice of Flash as an SVG drawing with the selected node highlighted."""

from __future__ import annotations

import html
from typing import NamedTuple

import numpy as np

from shoal.partition.lattice import LatticePicture

TAGS = {
    "best": ("selected", "#c94f3d"),
    "admissible": ("checked: satisfies all constraints", "#2f9e5c"),
    "inadmissible": ("violates k or a constraint", "#8a97a3"),
    "excluded": ("skipped: cannot have a lower loss", "#9cc9d4"),
    "unknown": ("not checked", "#d9b64e"),
}
MOST_DRAWN = 1_200
"""Number of nodes that are drawn."""
MOST_JOINED = 200
"""Number of nodes up to which all edges are drawn; beyond that, only those of the selected node."""
WIDTH, MARGIN = 1000, 24
TALL = 520
Places = dict[int, tuple[float, float]]


class Drawn(NamedTuple):
    """Drawing of a lattice with its figures."""

    svg: str
    shown: int
    """Number of nodes that are drawn."""
    nodes: int
    chosen: dict[str, tuple[int, int]]
    """Selected and highest level of each attribute."""
    tags: dict[str, int]
    """Number of nodes per tag."""


def draw_lattice(picture: LatticePicture, names: list[str]) -> Drawn:
    """Draw the lattice as SVG: one row per sum of levels, the most general at the top."""
    heights = picture.levels.sum(axis=1)
    rows = _choose_nodes(picture, heights)
    top, widest = max(rows), max(len(nodes) for nodes in rows.values())
    step = min(44.0, (WIDTH - 10 * MARGIN) / widest)
    apart = min(44.0, TALL / max(1, top - min(rows)))
    places: Places = {
        int(node): (WIDTH / 2 + (i - (len(nodes) - 1) / 2) * step, MARGIN + (top - height) * apart)
        for height, nodes in rows.items()
        for i, node in enumerate(nodes)
    }
    tall = 2 * MARGIN + (top - min(rows)) * apart
    parts = [
        *_lines(picture, places),
        *_dots_of(picture, names, places, min(7.0, 0.42 * step, 0.42 * apart)),
        *_ends(tall),
    ]
    label = f"Lattice of {len(picture.tags):,} nodes; the selected node is highlighted"
    svg = f'<svg viewBox="0 0 {WIDTH} {tall:.0f}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    chosen = picture.levels[int(np.flatnonzero(picture.tags == "best")[0])]
    levels = zip(chosen.tolist(), picture.levels.max(axis=0).tolist(), strict=True)
    tags = {tag: int(np.count_nonzero(picture.tags == tag)) for tag in TAGS}
    return Drawn(svg, len(places), len(picture.tags), dict(zip(names, levels, strict=True)), tags)


def _choose_nodes(picture: LatticePicture, heights: np.ndarray) -> dict[int, np.ndarray]:
    """Return the nodes to draw per row: all, or the checked ones and an even share of the others."""
    looked_at = ~np.isnan(picture.losses) | (picture.tags == "best")
    sums, sizes = np.unique(heights, return_counts=True)
    # The cube root keeps the shape of the lattice: narrow rows stay narrow.
    shares = np.cbrt(sizes) / np.cbrt(sizes).sum()
    found = {}
    for height, share in zip(sums.tolist(), shares.tolist(), strict=True):
        nodes = np.flatnonzero(heights == height)
        found[height] = (
            nodes if len(heights) <= MOST_DRAWN else _thin(nodes, looked_at, max(3, int(MOST_DRAWN * share)))
        )
    return found


def _thin(nodes: np.ndarray, looked_at: np.ndarray, most: int) -> np.ndarray:
    if len(nodes) <= most:
        return nodes
    first, rest = nodes[looked_at[nodes]], nodes[~looked_at[nodes]]
    even = np.linspace(0, len(rest) - 1, max(0, most - len(first))).astype(int)
    return np.sort(np.concatenate([first, rest[even]]) if len(rest) else first)


def _lines(picture: LatticePicture, places: Places) -> list[str]:
    """Return the edges from each node to those one level higher in one attribute."""
    by_levels = {tuple(picture.levels[node].tolist()): node for node in places}
    best = int(np.flatnonzero(picture.tags == "best")[0])
    drawn = []
    for levels, node in by_levels.items():
        for j in range(len(levels)):
            above = by_levels.get((*levels[:j], levels[j] + 1, *levels[j + 1 :]))
            if above is None or (len(places) > MOST_JOINED and best not in (node, above)):
                continue
            (x1, y1), (x2, y2) = places[node], places[above]
            drawn.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
    return [f'<g stroke="#8a97a3" stroke-opacity=".45">{"".join(drawn)}</g>']


def _dots_of(picture: LatticePicture, names: list[str], places: Places, radius: float) -> list[str]:
    drawn = []
    # The selected node comes last, so that no other node covers it.
    for node in sorted(places, key=lambda node: picture.tags[node] == "best"):
        x, y = places[node]
        tag, loss = str(picture.tags[node]), picture.losses[node]
        levels = ", ".join(f"{name} {level}" for name, level in zip(names, picture.levels[node], strict=True))
        tip = f"{levels}: {TAGS[tag][0]}" + ("" if np.isnan(loss) else f", loss {loss:.4g}")
        size = max(radius, 7.0) if tag == "best" else radius
        ring = ' stroke="var(--ink)" stroke-width="2"' if tag == "best" else ""
        drawn.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{TAGS[tag][1]}"{ring}>'
            f"<title>{html.escape(tip)}</title></circle>"
        )
    return drawn


def _ends(tall: float) -> list[str]:
    texts = (("all suppressed", MARGIN + 5), ("raw values", tall - MARGIN + 5))
    return [f'<text x="0" y="{y:.0f}" font-size="17" fill="var(--soft)">{text}</text>' for text, y in texts]
