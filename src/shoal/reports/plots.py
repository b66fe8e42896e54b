"""Draw plots. Only this module imports matplotlib, and only when it draws."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shoal.errors import DataError, ShoalError

FORMATS = ("png", "svg", "pdf")
# Okabe and Ito's colours, which colour-blind people can distinguish; marks and dashes help without any colour.
LINES = [
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", (0, (5, 1, 1, 1, 1, 1))),
    ("#E69F00", "v", (0, (3, 1))),
    ("#56B4E9", "P", "-"),
]
INK, SOFT = "#1d2733", "#5b6875"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "svg.fonttype": "none",
    "svg.hashsalt": "shoal",  # equal drawings give equal files
}


def require_matplotlib() -> None:
    """Refuse to plot without matplotlib, before any work is done."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ShoalError(
            "Plots need the package 'matplotlib', which is not installed: pip install 'shoal[plots]'."
        ) from None


def kind_of(path: str | Path) -> str:
    """Return the format of a plot by the ending of its file."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise DataError(f"{str(path)!r} ends in {Path(path).suffix!r}: a plot is a .png, .svg or .pdf file.")
    return kind


def draw_curves(found: Mapping[str, Any], kind: str) -> bytes:
    """Draw the ROC curves of attacks on logarithmic axes: the few members that are found for certain matter most."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    lowest, decades = 1e-3, [1e-3, 1e-2, 1e-1, 1.0]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 5.2), layout="constrained")
        panel = figure.subplots()
        panel.plot([lowest, 1], [lowest, 1], color=SOFT, linestyle=":", linewidth=1.2, label="chance")
        for i, (label, one) in enumerate(found.items()):
            color, _, dashes = LINES[i % len(LINES)]
            named = label if one.auc is None else f"{label} (AUC {one.auc.value:.3f})"
            shown = np.maximum(one.curve.false_alarms, lowest), np.maximum(one.curve.hits, lowest)
            panel.plot(*shown, color=color, linestyle=dashes, linewidth=1.6, label=named)
        for axis, scale, limits in (
            (panel.xaxis, panel.set_xscale, panel.set_xlim),
            (panel.yaxis, panel.set_yscale, panel.set_ylim),
        ):
            scale("log")
            limits(lowest, 1.0)
            axis.set_major_locator(FixedLocator(decades))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate * 100:.3g} %"))
        panel.set_xlabel("false positive rate")
        panel.set_ylabel("true positive rate")
        panel.grid(color="#e3e0d8", linewidth=0.7)
        panel.legend(loc="lower right", frameon=False)
        return _written(figure, kind)


def _written(figure: Any, kind: str) -> bytes:
    written = io.BytesIO()
    figure.savefig(written, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return written.getvalue()


def draw(summary: Sequence[Any], score: str, kind: str) -> bytes:
    """Draw the score against k with its intervals, one panel per model, and the loss of the values."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    models = list(dict.fromkeys(one.model for one in summary))
    methods = list(dict.fromkeys(one.method for one in summary))
    n_panels = len(models) + 1
    columns = min(n_panels, 4 if n_panels == 4 else 3)
    rows = math.ceil(n_panels / columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(max(4.2 * columns, 6.4), 3.6 * rows + 0.7), layout="constrained")
        *panels, losses = figure.subplots(rows, columns, squeeze=False).ravel()[:n_panels]
        for panel, model in zip(panels, models, strict=True):
            _draw_model(panel, [one for one in summary if one.model == model], methods, score)
            panel.set_title(model, loc="left", fontweight="bold")
            panel.sharey(panels[0])
        for panel in panels[::columns]:
            panel.set_ylabel(f"{score} on unseen rows")
        _draw_losses(losses, summary, methods)
        for unused in figure.axes[n_panels:]:
            unused.set_visible(False)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), frameon=False)
        return _written(figure, kind)


def _draw_model(panel: Any, summary: Sequence[Any], methods: Sequence[str], score: str) -> None:
    from matplotlib.ticker import FuncFormatter

    raw = summary[0].raw
    panel.axhline(raw.mean, color=INK, linewidth=1.4, label="raw rows")
    if not math.isnan(raw.low):
        panel.axhspan(raw.low, raw.high, color=INK, alpha=0.10, linewidth=0)
    for i, method in enumerate(methods):
        found = sorted((one for one in summary if one.method == method and one.seeds), key=lambda one: one.k)
        ks = [one.k for one in found]
        color = _draw_line(panel, i, method, ks, [one.score.mean for one in found])
        low, high = [one.score.low for one in found], [one.score.high for one in found]
        # Bands of many methods overlap, and should not hide the lines.
        panel.fill_between(ks, low, high, color=color, alpha=0.16 if len(methods) <= 3 else 0.06, linewidth=0)
    baseline = "most frequent class" if score == "accuracy" else "mean"
    panel.axhline(summary[0].baseline, color=SOFT, linewidth=1.2, linestyle=":", label=f"always the {baseline}")
    _lay_out(panel, summary)
    if score == "accuracy":
        panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:.4g} %"))


def _draw_losses(panel: Any, summary: Sequence[Any], methods: Sequence[str]) -> None:
    """Draw the information loss of the values; a method that is guided by models is shown as their mean."""
    for i, method in enumerate(methods):
        found: dict[int, list[float]] = {}
        for one in summary:
            if one.method == method and one.seeds:
                found.setdefault(one.k, []).append(one.ncp)
        ks = sorted(found)
        _draw_line(panel, i, method, ks, [sum(found[k]) / len(found[k]) for k in ks])
    panel.set_title("information loss of the values", loc="left", fontweight="bold")
    panel.set_ylabel("NCP of the groups")
    panel.set_ylim(bottom=0)
    _lay_out(panel, summary)


def _draw_line(panel: Any, number: int, label: str, ks: Sequence[int], values: Sequence[float]) -> str:
    color, marker, dashes = LINES[number % len(LINES)]
    panel.plot(ks, values, color=color, marker=marker, linestyle=dashes, markersize=5, linewidth=1.6, label=label)
    return color


def _lay_out(panel: Any, summary: Sequence[Any]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    panel.set_xscale("log")
    panel.set_xlabel("k, the minimum group size")
    panel.xaxis.set_major_locator(FixedLocator(sorted({one.k for one in summary})))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:,.0f}"))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.grid(axis="y", color="#e3e0d8", linewidth=0.7)
    panel.set_axisbelow(True)
