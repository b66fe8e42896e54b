"""The page Audit: attack a model of the raw rows and one of the release, and compare what leaks."""

from __future__ import annotations

from html import escape
from typing import Any

from nicegui import ui

from shoal.attacks.results import show_points
from shoal.intervals import Interval
from shoal.studio.pages import curves, layout
from shoal.studio.pages.figures import MODELS
from shoal.studio.workspace import Workspace

PATH = "/audit"
REFERENCES = {0: "quick: none", 4: "4", 8: "8", 16: "16: most thorough"}
EVIDENCE = {
    "audit.html": ("Report on the release", "The evidence in full, as a page that needs no network."),
    "audits.html": ("Before and after", "A comparison of the same attacks on both models."),
    "audit.json": ("All numbers", "JSON for further processing."),
}
ENDINGS = {
    "none": "There is no audit of this table yet.",
    "stopped": "The audit was stopped before it was done.",
    "interrupted": "The studio was closed before the audit was done: start it again.",
}
POLL_INTERVAL = 1.0
"""Seconds between two checks of an audit."""
STYLE = """
.shoal-verdicts { display: grid; grid-template-columns: minmax(6rem, 9rem) 1fr 1fr; gap: .75rem 1rem; width: 100%; }
.shoal-verdicts > * { min-width: 0; }
.shoal-verdict { border: 1px solid var(--line); border-left: .3rem solid var(--good); border-radius: .4rem;
  padding: .5rem .75rem; font-size: .85rem; line-height: 1.4; }
.shoal-verdict.found { border-left-color: var(--coral); }
.shoal-verdict b { display: block; }
.shoal-curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; width: 100%; }
.shoal-limits { font-size: .8rem; line-height: 1.35; }
.shoal-limits summary { cursor: pointer; list-style: disclosure-closed inside; }
.shoal-limits[open] summary { list-style-type: disclosure-open; }
.shoal-first { border-left: 1px solid var(--line); }
"""


def add(studio: Any) -> None:
    """Register the page."""
    layout.add_page(studio, PATH, lambda workspace: AuditPage(workspace).draw())


class AuditPage:
    """The page of one visitor."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._drawn: Any = None

    async def draw(self) -> None:
        """Draw everything, and check the progress of the audit."""
        ui.add_css(STYLE)
        layout.heading("Audit")
        with ui.card().classes("w-full gap-3"):
            self._explain()
            self._choose()
            self._line = ui.linear_progress(show_value=False, size="3px").props("indeterminate aria-hidden=true")
            self._status = layout.mark(ui.label("").props("role=status"), "audit-status")
        self._result = ui.column().classes("w-full gap-4")
        await self._update()
        ui.timer(POLL_INTERVAL, self._update)

    def _explain(self) -> None:
        model = self._workspace.settings.model
        called = "a model" if model is None else f"a {MODELS.get(model, model)}"
        ui.label(
            f"Attacks on {called} of raw rows, and on one of the release set on the page Shape: they infer membership "
            "and sensitive values, and find people in the release. Each is compared with guessing without access."
        )

    def _choose(self) -> None:
        with ui.row().classes("items-center gap-4"):
            self._references = ui.select(REFERENCES, value=4, label="Reference models").classes("w-44")
            layout.mark(self._references.props("dense outlined options-dense"), "references")
            start = ui.button("Start the audit", icon="play_arrow", on_click=self._start).props("no-caps")
            self._starts = layout.mark(start, "start-audit")
            stop = ui.button("Stop", icon="stop", on_click=self._stop).props("no-caps outline")
            self._stops = layout.mark(stop, "stop-audit")
        words = "Adversaries train reference models on other people: more of them make attacks stronger and slower."
        ui.label(words).classes("soft text-sm")

    async def _start(self) -> None:
        await layout.do(self._workspace.start_audit, self._references.value)
        await self._update()

    async def _stop(self) -> None:
        await layout.do(self._workspace.stop_audit)
        await self._update()

    async def _update(self) -> None:
        """Draw the changes since the last check."""
        found = await layout.in_thread(self._workspace.audit)
        state = found["status"], found["step"], found["current"], found["error"]
        if state == self._drawn:
            return
        self._drawn = state
        running = found["status"] == "running"
        self._line.style("visibility: visible" if running else "visibility: hidden")
        self._starts.set_enabled(not running)
        self._stops.set_visibility(running)
        self._status.text = _status(found)
        self._status.classes(replace="leaks" if found["status"] == "failed" else "soft")
        self._result.clear()
        if found["status"] == "done":
            with self._result:
                _draw_result(found["summary"])


def _status(found: dict[str, Any]) -> str:
    if found["status"] == "running":
        return f"{found['step']} …"
    if found["status"] == "failed":
        return f"The audit failed: {found['error']}"
    if found["status"] != "done":
        return ENDINGS[found["status"]]
    of = "the current settings" if found["current"] else "earlier settings: start the audit again"
    return f"Done: the results belong to {of}."


def _draw_result(summary: dict[str, Any]) -> None:
    with ui.card().classes("w-full gap-3"):
        layout.heading("Verdicts", 2)
        layout.mark(ui.html(verdicts_html(summary), sanitize=False).classes("w-full"), "audit-verdicts")
        _draw_evidence()
    with ui.card().classes("w-full gap-2"):
        layout.heading("ROC curves of membership inference", 2)
        words = "The further a line lies above guessing, the more leaks; on the left are the most confident guesses."
        ui.label(words).classes("soft text-sm")
        with ui.element("div").classes("shoal-curves"):
            for name, found in summary.items():
                curves.draw(name, found)
    with ui.card().classes("w-full gap-2"):
        layout.heading("All attacks", 2)
        layout.mark(ui.html(attacks_html(summary), sanitize=False).classes("shoal-scroll"), "audit-attacks")
        layout.mark(ui.html(scores_html(summary), sanitize=False).classes("shoal-scroll"), "audit-scores")
        layout.mark(ui.html(skipped_html(summary), sanitize=False).classes("soft text-sm"), "audit-skipped")


def _draw_evidence() -> None:
    with ui.row().classes("gap-3"):
        for name, (title, words) in EVIDENCE.items():
            if name.endswith(".html"):
                layout.open_button(name, title)
            button = ui.button(title, icon="download").props(f"no-caps outline href=/api/export/{name} download={name}")
            layout.mark(button, f"get-{name}").tooltip(words)


def verdicts_html(summary: dict[str, Any]) -> str:
    """Return the verdicts on each risk, before and after."""
    by = [{one["risk"]: one for one in found["verdicts"]} for found in summary.values()]
    risks = dict.fromkeys(risk for found in by for risk in found)
    cells = ["<div></div>", *(f"<b>{escape(curves.model_of(name))}</b>" for name in summary)]
    for risk in risks:
        limits = next(found[risk]["limits"] for found in by if risk in found)
        cells.append(
            f'<div><b>{escape(risk.capitalize())}</b><details class="soft shoal-limits"><summary>Limits</summary>'
            f"{escape(limits)}</details></div>"
        )
        cells += [_verdict(found.get(risk)) for found in by]
    return f'<div class="shoal-verdicts">{"".join(cells)}</div>'


def _verdict(one: dict[str, Any] | None) -> str:
    if one is None:
        return '<div class="soft text-sm">This risk is about the release only.</div>'
    style, word = ("found", "leaks") if one["found"] else ("", "holds")
    told = "Leaks" if one["found"] else "Nothing found"
    return f'<div class="shoal-verdict {style}"><b class="{word}">{told}</b>{escape(one["sentence"])}</div>'


def attacks_html(summary: dict[str, Any]) -> str:
    """Return a table with one attack per line, before and after."""
    by = [_attacks_by_name(found) for found in summary.values()]
    keys = dict.fromkeys(key for found in by for key in found)
    above = "".join(
        f'<th colspan="4" scope="colgroup" class="shoal-first">{escape(curves.model_of(name))}</th>' for name in summary
    )
    titles = ("accuracy", "baseline", "advantage in points (95 % interval)", "AUC")
    below = "".join(
        f'<th scope="col" class="number{" shoal-first" if title == titles[0] else ""}">{title}</th>'
        for _ in summary
        for title in titles
    )
    lines = ""
    for risk, attack in keys:
        cells = "".join(_attack(found.get((risk, attack))) for found in by)
        lines += f"<tr><td>{escape(risk)}</td><td>{escape(attack)}</td>{cells}</tr>"
    head = f'<tr><th colspan="2"></th>{above}</tr><tr><th scope="col">risk</th><th scope="col">attack</th>{below}</tr>'
    return f'<table class="shoal-table"><thead>{head}</thead><tbody>{lines}</tbody></table>'


def _attacks_by_name(found: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    leaking = {one["risk"] for one in found["verdicts"] if one["found"]}
    return {(one["risk"], one["attack"]): one | {"leaking": one["risk"] in leaking} for one in found["attacks"]}


def _attack(one: dict[str, Any] | None) -> str:
    if one is None:
        return '<td colspan="4" class="soft shoal-first">–</td>'
    advantage = Interval(*one["advantage"])
    style = "leaks" if one["leaking"] and advantage.low > 0 else ""
    texts = [layout.percent(one["accuracy"]), layout.percent(one["baseline"])]
    texts.append(f'<span class="{style}">{show_points(advantage)}</span>')
    texts.append("–" if one["area"] is None else f"{one['area']:.3f}")
    cells = "".join(f'<td class="number">{text}</td>' for text in texts)
    return cells.replace('class="number"', 'class="number shoal-first"', 1)


def scores_html(summary: dict[str, Any]) -> str:
    """Return a table of the models' scores on training rows and on other rows."""
    lines = ""
    for name, found in summary.items():
        scores = found["scores"]
        shown = layout.percent if scores["score"] == "accuracy" else "{:.3f}".format
        told = "".join(f'<td class="number">{shown(scores[who])}</td>' for who in ("members", "controls"))
        lines += f"<tr><td>{escape(curves.model_of(name))}</td><td>{escape(scores['score'])}</td>{told}</tr>"
    titles = ("model", "score", "on training rows", "on other rows")
    head = "".join(f'<th scope="col"{" class=number" if " " in one else ""}>{one}</th>' for one in titles)
    return f'<table class="shoal-table"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'


def skipped_html(summary: dict[str, Any]) -> str:
    """Return a list of the attacks that were not made, with the reasons."""
    told = dict.fromkeys(f"{one['attack']}: {one['why']}" for found in summary.values() for one in found["skipped"])
    if not told:
        return ""
    return f"Not tested: <ul class='list-disc ml-5'>{''.join(f'<li>{escape(one)}</li>' for one in told)}</ul>"
