"""Draw docs/packages.svg from the imports between the packages: ``python docs/make_packages.py``.

The rows are the layers of import-linter in pyproject.toml. An arrow is an import that does not follow from others: if a
package imports another one that imports a third, an arrow from the first to the third is left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PICTURE = Path(__file__).with_name("packages.svg")
WIDTH, ROW, BOX, TOP, SIDE = 820, 58, 32, 84, 16
LETTER = 8.4
"""Width of a letter of the names."""
GAP, BEND = 26, 10
"""Space between boxes, and beside an arrow that passes a row."""
SWEEPS, STRAIGHT = 60, 20
STYLE = """
  .page { fill: #ffffff; } .row { fill: #f2f6f8; } .box { fill: #d9edf2; stroke: #1b6a80; }
  .name { fill: #10333f; font: 14px ui-monospace, Menlo, Consolas, monospace; text-anchor: middle; }
  .text { fill: #3d5560; font: 13px system-ui, sans-serif; } .title { font-size: 17px; font-weight: 600; }
  .arrow { fill: none; stroke: #5a7f8c; stroke-width: 1.3; } .head { fill: #5a7f8c; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1a20; } .row { fill: #13242c; } .box { fill: #17404d; stroke: #58b4cc; }
    .name { fill: #e3f4f8; } .text { fill: #a9c3cc; } .arrow { stroke: #7fa9b7; } .head { fill: #7fa9b7; }
  }"""
Edge = tuple[str, str]


class Spot(NamedTuple):
    """A package, or a place where an arrow passes a row."""

    row: int
    name: str
    edge: Edge | None = None

    @property
    def width(self) -> float:
        """Width that it takes in its row."""
        return GAP + LETTER * len(self.name) + 22 if self.edge is None else BEND


def main() -> None:
    """Write the drawing."""
    PICTURE.write_text(draw(read_layers(), needed(imports())), encoding="utf-8")


def read_layers() -> list[list[str]]:
    """Return the layers of packages from top to bottom; packages of a layer do not import each other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    return [layer.split(" | ") for layer in contract["layers"] if layer != "__main__"]


def imports() -> set[Edge]:
    """Return which package imports which."""
    import grimp

    graph = grimp.build_graph("shoal", cache_dir=None)
    found = set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            ends = module.split(".")[1:2], imported.split(".")[1:2]
            found |= {(one, other) for one in ends[0] for other in ends[1] if one not in (other, "__main__")}
    return found


def needed(edges: set[Edge]) -> set[Edge]:
    """Return the imports that do not follow from others."""

    def below(name: str) -> set[str]:
        direct = {other for one, other in edges if one == name}
        return direct.union(*map(below, direct))

    others = {(one, last) for one, other in edges for last in below(other)}
    return edges - others


def draw(layers: list[list[str]], edges: set[Edge]) -> str:
    """Return the drawing as SVG."""
    row_of = {name: row for row, layer in enumerate(layers) for name in layer}
    paths = {edge: path_of(edge, row_of) for edge in sorted(edges)}
    rows = order_rows(layers, paths)
    places = place_spots(rows, paths)
    height = TOP + ROW * len(layers) + SIDE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="The packages of Shoal and the imports between them">',
        f"<style>{STYLE}\n</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0 0.8 L8 4 L0 7.2 z"/></marker></defs>',
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="12"/>',
        f'<text class="text title" x="{SIDE + 8}" y="36">The packages of Shoal</text>',
        f'<text class="text" x="{SIDE + 8}" y="60">A package imports only from rows below its own. '
        "Imports that follow from other arrows are left out.</text>",
    ]
    for row in range(0, len(layers), 2):
        y = TOP + ROW * row
        parts.append(f'<rect class="row" x="{SIDE}" y="{y}" width="{WIDTH - 2 * SIDE}" height="{ROW}" rx="6"/>')
    parts += [f'<path class="arrow" d="{curve(path, places)}" marker-end="url(#head)"/>' for path in paths.values()]
    parts += [box(spot, places[spot]) for row in rows for spot in row if spot.edge is None]
    return "\n".join([*parts, "</svg>\n"])


def path_of(edge: Edge, row_of: dict[str, int]) -> list[Spot]:
    """Return the spots that an arrow connects, one for each row."""
    start, end = row_of[edge[0]], row_of[edge[1]]
    passed = [Spot(row, "", edge) for row in range(start + 1, end)]
    return [Spot(start, edge[0]), *passed, Spot(end, edge[1])]


def order_rows(layers: list[list[str]], paths: dict[Edge, list[Spot]]) -> list[list[Spot]]:
    """Order the spots of each row so that few arrows cross: by the mean position of their neighbours."""
    rows = [[Spot(row, name) for name in layer] for row, layer in enumerate(layers)]
    for path in paths.values():
        for spot in path[1:-1]:
            rows[spot.row].append(spot)
    up, down = neighbours(paths.values())
    best, fewest = rows, crossings(rows, paths)
    for sweep in range(SWEEPS):
        links = up if sweep % 2 == 0 else down
        rows = [list(row) for row in rows]
        position = {spot: i / len(row) for row in rows for i, spot in enumerate(row)}
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(key=lambda spot: mean([position[one] for one in links.get(spot, [])] or [position[spot]]))
            position |= {spot: i / len(row) for i, spot in enumerate(row)}
        if (n := crossings(rows, paths)) < fewest:
            best, fewest = rows, n
    return best


def crossings(rows: list[list[Spot]], paths: dict[Edge, list[Spot]]) -> int:
    """Count the pairs of arrows that cross between two rows."""
    at = {spot: i for row in rows for i, spot in enumerate(row)}
    steps: dict[int, set[tuple[int, int]]] = {}
    for path in paths.values():
        for one, other in pairwise(path):
            steps.setdefault(one.row, set()).add((at[one], at[other]))
    return sum((a - c) * (b - d) < 0 for step in steps.values() for a, b in step for c, d in step) // 2


def place_spots(rows: list[list[Spot]], paths: dict[Edge, list[Spot]]) -> dict[Spot, float]:
    """Return the centre of each spot: near those of its neighbours, in order and without overlaps."""
    up, down = neighbours(paths.values())
    centre = {spot: x for row in rows for spot, x in zip(row, spread(row, [WIDTH / 2] * len(row)), strict=True)}
    for _ in range(SWEEPS):
        for row in [*rows, *reversed(rows)]:
            wanted = []
            for spot in row:
                linked = [*up.get(spot, []), *down.get(spot, [])]
                # Where an arrow passes several rows, it is to be straight.
                near = [centre[one] for one in linked for _ in range(STRAIGHT if spot.edge and one.edge else 1)]
                wanted.append(mean(near or [centre[spot]]))
            centre |= dict(zip(row, spread(row, wanted), strict=True))
    shift = (WIDTH - min(centre.values()) - max(centre.values())) / 2
    return {spot: x + shift for spot, x in centre.items()}


def spread(row: list[Spot], wanted: list[float]) -> list[float]:
    """Return positions near the wanted ones, at least as far apart as the widths of the spots ask for."""
    offsets, at = [], 0.0
    for spot in row:
        offsets.append(at + spot.width / 2)
        at += spot.width
    # Without their widths the spots only have to be in order: merge those that are not, at their mean.
    blocks: list[list[float]] = []
    for x, offset in zip(wanted, offsets, strict=True):
        blocks.append([x - offset])
        while len(blocks) > 1 and mean(blocks[-2]) > mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1] += last
    starts = [mean(block) for block in blocks for _ in block]
    most = WIDTH - SIDE - at
    return [min(max(start, SIDE), most) + offset for start, offset in zip(starts, offsets, strict=True)]


def neighbours(paths: Iterable[list[Spot]]) -> tuple[dict[Spot, list[Spot]], dict[Spot, list[Spot]]]:
    """Return the spots above and below each spot that arrows connect with it."""
    up: dict[Spot, list[Spot]] = {}
    down: dict[Spot, list[Spot]] = {}
    for path in paths:
        for one, other in pairwise(path):
            down.setdefault(one, []).append(other)
            up.setdefault(other, []).append(one)
    return up, down


def curve(path: list[Spot], places: dict[Spot, float]) -> str:
    """Return an arrow from the bottom of a box to the top of another one."""
    return " ".join(_segments(path, places))


def _segments(path: list[Spot], places: dict[Spot, float]) -> Iterator[str]:
    x, y = places[path[0]], middle(path[0].row) + BOX / 2
    yield f"M{x:.0f} {y:.0f}"
    for spot in path[1:]:
        top = middle(spot.row) - BOX / 2
        half = (y + top) / 2
        yield f"C{x:.0f} {half:.0f} {places[spot]:.0f} {half:.0f} {places[spot]:.0f} {top:.0f}"
        x, y = places[spot], top
        if spot.edge is not None:
            y = middle(spot.row) + BOX / 2
            yield f"V{y:.0f}"


def box(spot: Spot, x: float) -> str:
    """Return a package as a box with its name."""
    width, y = spot.width - GAP, middle(spot.row)
    return (
        f'<rect class="box" x="{x - width / 2:.0f}" y="{y - BOX / 2:.0f}" width="{width:.0f}" height="{BOX}" rx="7"/>'
        f'<text class="name" x="{x:.0f}" y="{y + 5:.0f}">{spot.name}</text>'
    )


def middle(row: int) -> float:
    """Return the height of the middle of a row."""
    return TOP + ROW * (row + 0.5)


def mean(values: list[float]) -> float:
    """Return the mean of some numbers."""
    return sum(values) / len(values)


if __name__ == "__main__":
    main()
