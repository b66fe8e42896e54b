"""Drawings of experiments: one look for all, told apart without colour, and the same file for the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from shoal.intervals import Interval

# Okabe and Ito's colours, which colour-blind people tell apart.
LINES = [
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", (0, (5, 1, 1, 1, 1, 1))),
    ("#E69F00", "v", (0, (3, 1))),
    ("#56B4E9", "P", "-"),
    ("#5b6875", "X", ":"),
]
INK, SOFT = "#1d2733", "#5b6875"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 9,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "shoal",
}


@contextmanager
def panels(path: Path, n: int, columns: int = 3, width: float = 3.4, height: float = 2.8) -> Iterator[list[Any]]:
    """So many panels side by side and below each other; written when they are drawn, with one legend for all."""
    rows = -(-n // columns)
    columns = min(columns, n)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height * rows + 0.5), layout="constrained")
        every = list(figure.subplots(rows, columns, squeeze=False).ravel())
        yield every[:n]
        for unused in every[n:]:
            unused.set_visible(False)
        named: dict[str, Any] = {}
        for panel in every[:n]:
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
                named.setdefault(label, handle)
        if named:
            # A character takes about 0.07 inches; what is wider than the figure is cut off.
            fitting = int(width * columns / (0.55 + 0.07 * max(map(len, named))))
            ncols = max(1, min(len(named), 5, fitting))
            figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=ncols)
        figure.savefig(path, format="svg", metadata={"Date": None})


def line(
    panel: Any, number: int, label: str, x: Sequence[float], found: Sequence[Interval | None], *, band: bool = True
) -> None:
    """A line through means, with a band where they may lie."""
    color, marker, dashes = LINES[number % len(LINES)]
    kept = [(at, one) for at, one in zip(x, found, strict=True) if one is not None]
    if not kept:
        return
    places, ones = zip(*kept, strict=True)
    panel.plot(
        places, [one.value for one in ones], color=color, marker=marker, linestyle=dashes, markersize=3.5,
        linewidth=1.4, label=label,
    )  # fmt: skip
    if band:
        panel.fill_between(
            places, [one.low for one in ones], [one.high for one in ones], color=color, alpha=0.12, linewidth=0
        )


def level(panel: Any, value: float, label: str, *, dotted: bool = False) -> None:
    """A level to compare with."""
    panel.axhline(value, color=SOFT if dotted else INK, linewidth=1.1, linestyle=":" if dotted else "-", label=label)


def axis_of_k(panel: Any, ks: Sequence[int], label: str = "k") -> None:
    """A logarithmic axis with these marks."""
    panel.set_xscale("log")
    panel.set_xlabel(label)
    panel.xaxis.set_major_locator(FixedLocator(sorted(set(ks))))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:,.0f}"))
    panel.xaxis.set_minor_locator(NullLocator())


def in_percent(panel: Any) -> None:
    """Shares as people read them, on the upright axis."""
    panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g} %"))


def lay_out(panel: Any, title: str, x: str = "", y: str = "", finish: Callable[[Any], None] | None = None) -> None:
    """Title, labels and a light grid."""
    panel.set_title(title)
    if x:
        panel.set_xlabel(x)
    if y:
        panel.set_ylabel(y)
    panel.grid(axis="y", color="#e3e0d8", linewidth=0.6)
    panel.set_axisbelow(True)
    if finish is not None:
        finish(panel)


def dots(
    panel: Any, number: int, label: str, names: Sequence[str], found: Sequence[Interval | None], lane: int | None = None
) -> None:
    """A dot with its interval beside each name, the first name on top; lanes 0 to 3 of a name lie below each other."""
    color, marker, _ = LINES[number % len(LINES)]
    kept = [(at, one) for at, one in enumerate(found) if one is not None]
    if kept:
        places, ones = zip(*kept, strict=True)
        values = [one.value for one in ones]
        reach = [[one.value - one.low for one in ones], [one.high - one.value for one in ones]]
        shift = 0.18 * ((number if lane is None else lane) - 1.5)
        panel.errorbar(
            values, [place + shift for place in places], xerr=reach, color=color, marker=marker, markersize=4,
            linestyle="none", elinewidth=1.1, label=label,
        )  # fmt: skip
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.4, -0.6)
