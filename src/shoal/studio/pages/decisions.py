"""The decision panel: a person chooses which of two groups a row should join, and weights are learned from that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from typing import Any, NamedTuple

from nicegui import ui

from shoal.jobs.weights import Option, Question
from shoal.studio.pages import layout
from shoal.studio.workspace import Workspace

INTRODUCTION = (
    "A row can join one of two groups, and each group generalises different values. Choose the group that keeps the "
    "details that you need: weights are learned from your choices, and the release uses them."
)
SEARCHING = "Searching for a question …"
KEYS = """(pressed) => {
  const choices = {arrowleft: 'first', 1: 'first', arrowright: 'second', 2: 'second', arrowdown: 'skip', s: 'skip',
    u: 'undo'};
  const choice = choices[pressed.key.toLowerCase()];
  const shown = document.querySelector('[data-testid=duel-row]');
  if (!choice || !shown || pressed.action !== 'keydown' || pressed.repeat) return;
  if (pressed.altKey || pressed.ctrlKey || pressed.metaKey) return;
  pressed.event.preventDefault();
  emit(choice);
}"""
"""Maps keys to choices while the panel is shown; arrow keys then do not scroll the page."""
DRAG = "event => { event.dataTransfer.setData('text/plain', 'row'); event.dataTransfer.effectAllowed = 'move'; }"
OVER = "event => event.currentTarget.classList.add('shoal-over')"
AWAY = (
    "event => event.currentTarget.contains(event.relatedTarget) || event.currentTarget.classList.remove('shoal-over')"
)
TOUCH = """event => {
  const group = (touch) => document.elementFromPoint(touch.clientX, touch.clientY)?.closest('.shoal-group');
  const row = event.currentTarget, first = event.touches[0];
  let over = null;
  const move = (moved) => {
    moved.preventDefault();
    row.classList.add('shoal-dragged');
    row.style.transform = `translate(${moved.touches[0].clientX - first.clientX}px, `
      + `${moved.touches[0].clientY - first.clientY}px)`;
    over?.classList.remove('shoal-over');
    over = group(moved.touches[0]);
    over?.classList.add('shoal-over');
  };
  const end = (ended) => {
    row.removeEventListener('touchmove', move);
    row.style.transform = '';
    row.classList.remove('shoal-dragged');
    over?.classList.remove('shoal-over');
    if (over && ended.type === 'touchend') emit(over.dataset.choice);
  };
  row.addEventListener('touchmove', move, {passive: false});
  for (const name of ['touchend', 'touchcancel']) row.addEventListener(name, end, {once: true});
}"""
"""Drag and drop on touch screens, which do not send drag events."""
DROP = "event => { event.currentTarget.classList.remove('shoal-over'); emit(); }"
STYLE = """
.shoal-duel { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem; width: 100%; align-items: start; }
@media (min-width: 1100px) { .shoal-duel { grid-template-columns: minmax(0, 1fr) 20rem; } }
.shoal-sides { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: .75rem; width: 100%; }
.shoal-side { border: 2px solid var(--line); border-radius: .6rem; padding: .5rem .75rem; background: var(--card);
  min-width: 0; }
.shoal-group { cursor: pointer; } .shoal-group:hover, .shoal-over { border-color: var(--sea); background: var(--tint); }
.shoal-person { cursor: grab; border-style: dashed; border-color: var(--sea); touch-action: pan-y; }
.shoal-dragged { pointer-events: none; opacity: .85; z-index: 10; }
.shoal-side h3 { font-size: .95rem; font-weight: 600; line-height: 1.4; margin: 0; }
.shoal-line { display: flex; gap: .5rem; align-items: center; height: 1.9rem; border-top: 1px solid var(--line);
  font-size: .82rem; }
.shoal-line > :first-child, .shoal-line b { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.shoal-line > :first-child { flex: 1 1 0; min-width: 0; }
.shoal-line .shoal-changed { flex: 0 1 auto; margin: 0 auto 0 0; }
.shoal-line .shoal-track { flex: 0 0 2.2rem; height: .4rem; }
.shoal-line b { flex: 0 1 auto; }
.shoal-learned { display: grid; grid-template-columns: minmax(4rem, 8rem) 1fr auto; gap: .35rem .6rem; width: 100%;
  align-items: center; font-size: .82rem; }
.shoal-learned .shoal-track { overflow: visible; }
.shoal-learned .shoal-fill { background: var(--sea); }
.shoal-whisker { position: absolute; top: .22rem; height: .16rem; background: var(--ink);
  transition: left .25s ease-out, width .25s ease-out; }
.shoal-whisker::before, .shoal-whisker::after { content: ""; position: absolute; top: -.2rem; height: .56rem;
  width: .12rem; background: var(--ink); }
.shoal-whisker::before { left: 0; } .shoal-whisker::after { right: 0; }
.shoal-key { border: 1px solid var(--line); border-radius: .25rem; padding: 0 .3rem; font-size: .75rem;
  color: var(--soft); }
"""


class DecisionPanel:
    """The open question, and the weights learned from the decisions so far."""

    def __init__(self, workspace: Workspace, start: Callable[[], Awaitable[None]]) -> None:
        self._workspace = workspace
        self._start = start
        self._busy = False
        with ui.element("div").classes("shoal-duel"):
            with ui.card().classes("w-full gap-3"):
                ui.label(INTRODUCTION)
                self._draw_tools()
                with ui.element("div").classes("shoal-sides") as self._sides:
                    self._first = self._draw_group("first", "duel-first")
                    self._row = self._draw_row()
                    self._second = self._draw_group("second", "duel-second")
            self._learned = WeightChart([one.name for one in workspace.schema.quasi])
        ui.keyboard(ignore=["input", "select", "textarea"]).on("key", self._press, js_handler=KEYS)

    async def enter(self) -> None:
        """Show the open question when the person opens the tab."""
        # The focus would stay on the tab, where arrow keys switch tabs.
        ui.run_javascript("document.activeElement?.blur()")
        if not self._row.content:
            self._count.text = SEARCHING
        await self._do(lambda: None)

    def _draw_tools(self) -> None:
        with ui.row().classes("w-full items-center gap-2"):
            self._count = layout.mark(ui.label("").classes("font-bold mr-auto").props("role=status"), "duel-count")
            for title, icon, press, testid in (
                ("Skip", "skip_next", "skip", "duel-skip"),
                ("Undo", "undo", "undo", "duel-undo"),
                ("Start over", "restart_alt", "restart", "duel-restart"),
            ):
                button = ui.button(title, icon=icon, on_click=lambda press=press: self._decide(press))
                layout.mark(button.props("outline no-caps padding='xs sm'"), testid)
                if press == "undo":
                    self._undo = button
        ui.html(
            "Click a group, drag the row onto it, or press " + ", ".join(
                f'<span class="shoal-key">{key}</span> {means}'
                for key, means in (("←", "first"), ("→", "second"), ("↓ S", "skip"), ("U", "undo"))
            ) + ".", sanitize=False,
        ).classes("soft text-sm")  # fmt: skip

    def _draw_group(self, choice: str, testid: str) -> ui.html:
        async def choose() -> None:
            await self._decide(choice)

        with ui.element("div").classes("shoal-side shoal-group").props("role=button tabindex=0") as box:
            layout.mark(box, testid, f"Put the row into the {choice} group").props(f"data-choice={choice}")
            for event in ("click", "keydown.enter.prevent", "keydown.space.prevent"):
                box.on(event, choose, args=[])
            box.on("dragover.prevent", js_handler=OVER)
            box.on("dragleave", js_handler=AWAY)
            box.on("drop.prevent", choose, js_handler=DROP)
            return ui.html("", sanitize=False)

    def _draw_row(self) -> ui.html:
        with ui.element("div").classes("shoal-side shoal-person").props("draggable=true") as box:
            layout.mark(box, "duel-row").on("dragstart", js_handler=DRAG)
            box.on("touchstart.passive", self._press, js_handler=TOUCH)
            return ui.html("", sanitize=False)

    async def _press(self, event: Any) -> None:
        await self._decide(event.args)

    async def _decide(self, choice: str) -> None:
        """Make a decision and show the next question; update the release afterwards, as it takes longer."""
        actions: dict[str, Callable[[], None]] = {
            "undo": self._workspace.undo,
            "restart": self._workspace.restart_decisions,
        }
        act = actions.get(choice, lambda: self._workspace.answer(choice))
        if await self._do(act) and choice not in ("skip", "restart"):
            await self._start()

    async def _do(self, act: Callable[[], None]) -> bool:
        """Call a function, and show the open question afterwards; return True if that worked."""
        if self._busy:  # a key pressed meanwhile was meant for the previous question
            return False
        self._busy = True
        try:
            done, found = await layout.do(act_and_ask, self._workspace, act)
        finally:
            self._busy = False
        if found is not None:
            self._show(found)
        elif self._count.text == SEARCHING:
            self._count.text = "There is no question to decide."
        return done

    def _show(self, found: AskedQuestion) -> None:
        question = found.question
        self._first.content = group_html("First group", "←", question.first, question.row)
        self._row.content = row_html(question.row)
        self._second.content = group_html("Second group", "→", question.second, question.row)
        self._count.text = count_words(found.decided, found.skipped)
        self._undo.set_enabled(found.decided + found.skipped > 0)
        self._learned.show(found.weights, found.uncertainty)


class AskedQuestion(NamedTuple):
    """Question, and the weights learned so far."""

    question: Question
    weights: dict[str, float]
    uncertainty: dict[str, float]
    decided: int
    skipped: int


def act_and_ask(workspace: Workspace, act: Callable[[], None]) -> AskedQuestion:
    """Call a function, then return the open question and the weights learned so far."""
    act()
    question, session = workspace.ask(), workspace.weight_session()
    skipped = sum(one.choice == "skip" for one in session.log)
    return AskedQuestion(question, session.weights, session.uncertainty, len(session.log) - skipped, skipped)


def count_words(decided: int, skipped: int) -> str:
    """Describe the number of decisions in words."""
    words = "No decision yet" if decided == 0 else f"{decided} decision{'s' if decided > 1 else ''} so far"
    return words + (f", {skipped} skipped" if skipped else "")


class WeightChart:
    """Learned weights as bars, with whiskers for their uncertainty."""

    def __init__(self, names: list[str]) -> None:
        self._lines: dict[str, tuple[ui.element, ui.element, ui.label]] = {}
        with ui.card().classes("w-full gap-2"):
            layout.heading("Learned weights", 2)
            ui.label("Each line shows the uncertainty of a weight.").classes("soft shoal-small")
            with ui.element("div").classes("shoal-learned"):
                for name in names:
                    self._lines[name] = self._line(name)

    def _line(self, name: str) -> tuple[ui.element, ui.element, ui.label]:
        ui.label(name).classes("truncate").tooltip(name)
        with ui.element("div").classes("shoal-track"):
            bar = ui.element("div").classes("shoal-fill")
            whisker = ui.element("div").classes("shoal-whisker")
        return bar, whisker, layout.mark(ui.label("").classes("shoal-number"), f"learned-{name}")

    def show(self, weights: dict[str, float], uncertainty: dict[str, float]) -> None:
        """Update the bars and whiskers."""
        most = max([2.0, *(weights[name] + uncertainty[name] for name in self._lines)])
        for name, (bar, whisker, label) in self._lines.items():
            weight, off = weights[name], uncertainty[name]
            low = max(weight - off, 0.0)
            bar.style(f"width: {100 * weight / most:.1f}%")
            whisker.style(f"left: {100 * low / most:.1f}%; width: {100 * (weight + off - low) / most:.1f}%")
            label.text = f"{weight:.2f} ± {off:.2f}"


def group_html(title: str, key: str, group: Option, row: dict[str, Any]) -> str:
    """Return a group that includes the row, with the loss of the row in each attribute."""
    # An attribute without loss has the same value in all rows of the group.
    lines = "".join(
        _lost_line(shown(group.values[name] if lost > 0 else row[name]), lost) for name, lost in group.loss.items()
    )
    mean = sum(group.loss.values()) / max(len(group.loss), 1)
    words = f"{group.size} rows, mean loss {layout.percent(mean)}"
    head = f'<h3>{title} <span class="shoal-key">{key}</span></h3>'
    return f'{head}<div class="soft shoal-small truncate mb-1">{words}</div>{lines}'


def _lost_line(value: str, lost: float) -> str:
    text, style = escape(value), ' class="shoal-changed"' if lost > 0 else ""
    bar = f'<div class="shoal-track"><div class="shoal-fill" style="width:{100 * min(lost, 1):.1f}%"></div></div>'
    share = f'{bar}<span class="shoal-number leaks">{layout.percent(lost)}</span>' if lost > 0 else ""
    return f'<div class="shoal-line"><span{style} title="{text}">{text}</span>{share}</div>'


def row_html(row: dict[str, Any]) -> str:
    """Return the row as one line per attribute."""
    lines = "".join(
        f'<div class="shoal-line"><span class="soft" title="{escape(name)}">{escape(name)}</span>'
        f'<b title="{escape(shown(value))}">{escape(shown(value))}</b></div>'
        for name, value in row.items()
    )
    return f'<h3>Row</h3><div class="soft shoal-small mb-1">Drag it onto a group</div>{lines}'


def shown(value: Any) -> str:
    """Format a value; a dash stands for a missing one."""
    return "–" if value is None or value == "" else str(value)
