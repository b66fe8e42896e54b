"""Figures of a release on the page Shape: tiles, charts, and sample rows before and after."""

from __future__ import annotations

from html import escape
from typing import Any

from nicegui import ui

from shoal.studio.pages import layout

MODELS = {
    "tree": "decision tree",
    "forest": "random forest",
    "boosting": "gradient boosting",
    "mlp": "neural network",
    "logistic": "logistic regression",
    "svm": "support vector machine",
    "neighbors": "nearest neighbours",
    "bayes": "naive Bayes",
    "xgb": "XGBoost",
    "lgbm": "LightGBM",
}
"""Full names of the models."""
STYLE = """
.shoal-tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.3rem, 1fr)); gap: .75rem 1rem; }
@media (min-width: 1000px) { .shoal-tiles { grid-template-columns: repeat(4, minmax(0, 1fr)) minmax(0, 1.2fr); } }
.shoal-tile { min-width: 0; }
.shoal-tile .figure { font-size: 1.45rem; font-variant-numeric: tabular-nums; }
.shoal-small { font-size: .8rem; line-height: 1.3; }
.shoal-older { opacity: .45; filter: saturate(.4); }
.shoal-fades { transition: opacity .15s; }
.shoal-track { position: relative; height: .6rem; border-radius: .3rem; background: var(--line); overflow: hidden; }
.shoal-fill { position: absolute; inset: 0 auto 0 0; border-radius: .3rem; background: var(--coral);
  transition: width .25s ease-out; }
details > summary { cursor: pointer; list-style: disclosure-closed inside; }
details[open] > summary { list-style-type: disclosure-open; }
.shoal-rows { font-size: .78rem; line-height: 1.35; }
.shoal-rows td { white-space: nowrap; }
.shoal-rows .was { color: var(--soft); display: block; }
.shoal-rows .is { display: block; width: fit-content; }
.shoal-rows .changed .is, .shoal-changed { font-weight: 600; background: #f7e3bd; border-radius: .2rem;
  padding: 0 .25rem; margin-left: -.25rem; }
.body--dark .shoal-rows .changed .is, .body--dark .shoal-changed { background: #5b4518; }
"""
# A named font family, not "inherit": charts need it to measure their texts.
CHART_TEXT = {"color": "var(--soft)", "fontSize": 12, "fontFamily": "Roboto, sans-serif"}


class Tile:
    """Figure with its name above and a few words below."""

    def __init__(self, name: str, testid: str) -> None:
        with ui.element("div").classes("shoal-tile"):
            self.name = ui.label(name).classes("soft shoal-small")
            self.figure = layout.mark(ui.label("–").classes("figure"), testid)
            self.words = layout.mark(ui.label("").classes("soft shoal-small"), f"{testid}-words")

    def show(self, figure: str, words: str) -> None:
        """Show another figure."""
        self.figure.text, self.words.text = figure, words


class Tiles:
    """Most important figures, always visible."""

    def __init__(self) -> None:
        with ui.element("div").classes("shoal-tiles shoal-fades w-full") as self.box:
            self.k = Tile("Smallest group (k)", "figures-k")
            self.groups = Tile("Groups", "figures-groups")
            self.risk = Tile("Highest risk", "figures-risk")
            self.loss = Tile("Information loss", "figures-loss")
            self.score = Tile("Model", "figures-accuracy")

    def show(self, found: dict[str, Any], running: bool) -> None:
        """Show the figures of a run."""
        self.k.show(f"{found['k']:,}", f"rows; {found['settings']['k']:,} requested")
        mean = (found["rows"] - found["suppressed"]) / max(found["groups"], 1)
        dropped = f"; {found['suppressed']:,} rows suppressed" if found["suppressed"] else ""
        self.groups.show(f"{found['groups']:,}", f"{mean:,.1f} rows on average{dropped}")
        risk = found["risk"]
        self.risk.show(layout.percent(risk["prosecutor"]), f"average {layout.percent(risk['marketer'])}")
        self.loss.show(layout.percent(found["loss"]["ncp"]), "mean NCP of the attributes")
        self._show_score(found, running)

    def _show_score(self, found: dict[str, Any], running: bool) -> None:
        name, utility = found["settings"]["model"], found["utility"]
        self.score.name.text = "Model" if name is None else f"Score of a {MODELS.get(name, name)}"
        if utility is None:
            waiting = "training" if running else "select a model, and a target on the page Data"
            self.score.show("…" if running and name else "–", waiting if running or name is None else "not trained")
        elif "error" in utility:
            self.score.show("–", utility["error"])
        else:
            self.score.name.text = f"{utility['score'].capitalize()} of a {MODELS.get(name, name)}"
            self.score.show(*score_words(utility))


def score_words(utility: dict[str, Any]) -> tuple[str, str]:
    """Return the score of the retrained model, and its change in words."""
    after, before, change = utility["after"], utility["before"], utility["change"]
    if utility["score"] != "accuracy":
        moved = f"{change['value']:+.3f} ({change['low']:+.3f} to {change['high']:+.3f})"
        return f"{after['value']:.3f}", f"{before['value']:.3f} before; {moved}"
    moved = " to ".join(f"{100 * change[end]:+.1f}" for end in ("low", "high"))
    words = f"{layout.percent(before['value'])} before; {100 * change['value']:+.1f} points ({moved})"
    return layout.percent(after["value"]), words


class Details:
    """Privacy models, risks and group sizes."""

    def __init__(self) -> None:
        with ui.column().classes("w-full gap-4 shoal-fades") as self.box:
            with ui.card().classes("w-full gap-2"):
                layout.heading("Privacy guarantees", 2)
                self._privacy = layout.mark(ui.html("", sanitize=False), "figures-privacy")
                self._risks = layout.mark(ui.html("", sanitize=False).classes("w-full"), "figures-risks")
            with ui.card().classes("w-full gap-1"):
                layout.heading("Group sizes", 2)
                self._sizes = ui.echart(sizes_chart([]), renderer="svg").classes("w-full h-52").props("role=img")
                layout.mark(self._sizes, "figures-sizes", "Number of groups by size")

    def show(self, found: dict[str, Any], raw: dict[str, float] | None) -> None:
        """Show the figures of a run; ``raw`` are the risks of the raw table, where they are known."""
        self._privacy.content = privacy_html(found["privacy"])
        self._risks.content = risks_html(found["risk"], raw)
        self._sizes.options.update(sizes_chart(found["sizes"]))
        self._sizes.update()


class Sample:
    """Sample rows before and after anonymization."""

    def __init__(self) -> None:
        with ui.card().classes("w-full gap-2 shoal-fades") as self.box:
            layout.heading("Sample rows, before and after", 2)
            words = "Each cell shows the raw value above the released value; changed values are highlighted."
            ui.label(words).classes("soft shoal-small")
            self._rows = layout.mark(ui.html("", sanitize=False).classes("shoal-scroll"), "figures-sample")

    def show(self, found: dict[str, Any]) -> None:
        """Show the sample of a run."""
        self._rows.content = sample_html(found["sample"])


def privacy_html(models: list[dict[str, Any]]) -> str:
    """Return the requested privacy models with their levels, then the others that were measured."""
    asked = "".join(_guarantee(one) for one in models if one["asked"] is not None)
    other = "".join(
        f"<tr><td>{escape(one['model'])}</td><td class=number>{escape(str(one['level']))}</td></tr>"
        for one in models
        if one["asked"] is None
    )
    if not other:
        return asked
    table = f'<table class="shoal-table shoal-rows"><tbody>{other}</tbody></table>'
    summary = '<summary class="soft shoal-small">Also measured</summary>'
    return f'{asked}<details class="mt-1">{summary}{table}</details>'


def _guarantee(one: dict[str, Any]) -> str:
    sign, word, style = ("✓", "holds", "holds") if one["holds"] else ("✗", "does not hold", "leaks")
    return (
        f'<div><span class="{style}" aria-hidden="true">{sign}</span> <b>{escape(one["model"])} {word}</b>'
        f'<span class="soft shoal-small"> ({escape(str(one["level"]))} reached, {escape(str(one["asked"]))} requested)'
        "</span></div>"
    )


def risks_html(after: dict[str, float], before: dict[str, float] | None) -> str:
    """Return the risks of the release next to those of the raw table."""
    threshold = layout.percent(after["threshold"])
    names = {
        "prosecutor": "Highest (prosecutor)",
        "marketer": "Average (marketer)",
        "above": f"Rows at a risk above {threshold}",
        "unique": "Unique rows",
    }
    lines = "".join(
        f"<tr><td>{name}</td><td class=number>{'…' if before is None else layout.percent(before[key])}</td>"
        f"<td class=number><b>{layout.percent(after[key])}</b></td></tr>"
        for key, name in names.items()
    )
    head = '<tr><th scope="col">Risk</th><th scope="col" class="number">before</th>'
    head += '<th scope="col" class="number">after</th></tr>'
    return f'<table class="shoal-table"><thead>{head}</thead><tbody>{lines}</tbody></table>'


def sample_html(sample: dict[str, Any]) -> str:
    """Return a table whose cells hold the raw and the released value."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in sample["columns"])
    rows = (
        "".join(_cell(was, now) for was, now in zip(before, after, strict=True))
        for before, after in zip(sample["before"], sample["after"], strict=True)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table class="shoal-table shoal-rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(was: str, now: str) -> str:
    style = ' class="changed"' if was != now else ""
    return f'<td{style}><span class="was">{escape(was) or "–"}</span><span class="is">{escape(now) or "–"}</span></td>'


def sizes_chart(sizes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the options of the bar chart of group sizes."""
    return {
        "animationDuration": 250,
        "grid": {"left": 62, "right": 16, "top": 16, "bottom": 44},
        "textStyle": CHART_TEXT,
        "tooltip": tooltip("axis"),
        "xAxis": category_axis("rows in a group", [one["size"] for one in sizes]),
        "yAxis": value_axis("groups"),
        "series": [
            {
                "type": "bar",
                "name": "groups",
                "data": [one["groups"] for one in sizes],
                "itemStyle": {"color": "var(--sea)", "borderRadius": [3, 3, 0, 0]},
                "barCategoryGap": "20%",
                "emphasis": {"disabled": True},
            }
        ],
    }


def tooltip(trigger: str) -> dict[str, Any]:
    """Return the options of a tooltip in the colours of the page."""
    style = {"color": "inherit", "fontFamily": "inherit", "fontSize": 12}
    colours = {"backgroundColor": "var(--card)", "borderColor": "var(--line)"}
    return {"trigger": trigger, "textStyle": style, "confine": True} | colours


def category_axis(name: str, values: list[str]) -> dict[str, Any]:
    """Return the options of a labelled axis of categories."""
    return {"type": "category", "data": values, "axisTick": {"show": False}} | axis(name, 28)


def value_axis(name: str) -> dict[str, Any]:
    """Return the options of a labelled axis of numbers."""
    return {"type": "value", "splitLine": {"lineStyle": {"color": "var(--line)"}}} | axis(name, 44)


def axis(name: str, gap: int) -> dict[str, Any]:
    """Return the options that all axes share."""
    return {
        "name": name,
        "nameLocation": "middle",
        "nameGap": gap,
        "nameTextStyle": CHART_TEXT,
        "axisLabel": CHART_TEXT,
        "axisLine": {"lineStyle": {"color": "var(--line)"}},
    }
