"""What is learned from decisions between groups (Malle et al. 2017): simulated people, whose weights are known.

``python experiments/malle_weights.py`` asks fifty people of each kind fifty questions on Adult, in some minutes, and
writes ``results/malle_weights.*``; what they say is in docs/interactive.md, too. ``--quick`` asks a few people. Adult
is looked for in the folder SHOAL_DATA.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from _drawing import lay_out, line, panels
from _simulated_people import K, Watched, difference, make_person, rule_of_2017
from _study import (
    Claim,
    Row,
    Size,
    Study,
    Table,
    Told,
    main,
    main_point,
    mean_of,
    ours,
    paired,
    show,
    values_of,
    where,
)
from _weights_of_adult import NAMES, groups_of_adult, people_of_adult, unseen_questions
from scipy.stats import spearmanr

from shoal import WeightSession
from shoal.jobs.weights import learn_weights

KINDS = ("careful", "noisy", "slipping")
MARKS = (5, 10, 25, 50)
WAYS = ("equal weights", "rule of 2017", "random questions", "telling questions")
MEASURES = {"spearman": "rank correlation with the truth", "regret": "regret"}
PROTOCOL = """
A person has weights drawn from a Dirichlet distribution, and decides for the group that loses less to them, the more
surely the larger the difference: *careful* people go against their own weights in about one of six answers to our
questions, *noisy* ones in one of four. *Slipping* people always see the difference, and press the wrong button in 13 %
of all cases. Measured are the rank correlation of learned and true weights (Spearman), and regret: how much more is
lost on questions not asked before than if the person decided, 1 being what deciding at random loses; the share of
answers against the person's own weights; and the share of true weights within the intervals of 95 %.

**Not stated in the text, but in published scripts:** the rule of 2017 has rounds of five cases; a case has two groups
grown from the same row under the current weights; after a round every weight moves a fifth of the way to how much of
the attribute the chosen groups of all cases so far preserve on average, where a nominal value preserves its level by
that of the row's, and a range one less its width by the row's own value. **Not stated, and our choice:** the two
groups are grown in random samples of 500 rows, which is the size of the paper's table; people are simulated, for the
paper's cannot be asked again.

Compared are equal weights, the rule of 2017, our model with questions drawn at random among those that trade something
off, and with the ones that tell most (`WeightSession`).
"""


def cells(size: Size) -> list[Row]:
    people, answers, rows = {"full": (50, 50, None), "quick": (4, 25, None), "toy": (2, 5, 1_000)}[size]
    return [
        {"kind": kind, "way": way, "person": person, "answers": answers} | ({"rows": rows} if rows else {})
        for kind in KINDS
        for way in (WAYS if kind != "slipping" else WAYS[-1:])
        for person in range(people)
    ]


def measure(kind: str, way: str, person: int, answers: int, rows: int | None = None) -> list[Row]:
    true = np.random.default_rng([7, person]).dirichlet(np.ones(len(NAMES))) * len(NAMES)
    watched = make_person(kind, dict(zip(NAMES, true.tolist(), strict=True)), person)
    found = learn(way, watched, person, answers, rows)
    unseen = unseen_questions(rows)
    return [
        {"after": mark} | judge(*found(mark), watched.against[:mark], true, unseen) for mark in MARKS if mark <= answers
    ]


def learn(way: str, person: Watched, seed: int, answers: int, rows: int | None) -> Any:
    """The weights, and by how much they may be off, after a number of answers."""
    if way == "equal weights":
        return lambda mark: (np.ones(len(NAMES)), None)
    if way == "rule of 2017":
        weights = rule_of_2017(groups_of_adult(rows), person, seed, answers)
        return lambda mark: (weights[mark - 1], None)
    if way == "telling questions":
        return _from_session(person, seed, answers, rows)
    questions = groups_of_adult(rows).random_questions(np.random.default_rng([11, seed]))
    signed = [
        difference(question) * (1 if person.decide(question) == "first" else -1)
        for question in islice(questions, answers)
    ]
    return lambda mark: _scaled(learn_weights(np.array(signed[:mark]), np.ones(len(NAMES))))


def _from_session(person: Watched, seed: int, answers: int, rows: int | None) -> Any:
    frame, schema = people_of_adult(rows)
    session = WeightSession(frame, schema, k=K, random_state=seed)
    found = []
    for _ in range(answers):
        session.answer(person.decide(session.ask()))
        found.append([np.array([told[name] for name in NAMES]) for told in (session.weights, session.uncertainty)])
    return lambda mark: found[mark - 1]


def _scaled(learned: Any) -> tuple[np.ndarray, np.ndarray]:
    weights = learned.weights if learned.weights.any() else np.ones(len(NAMES))
    return weights / weights.mean(), learned.deviations()


def judge(
    learned: np.ndarray, off: np.ndarray | None, against: list[bool], true: np.ndarray, unseen: np.ndarray
) -> Row:
    apart, said = unseen @ true, unseen @ learned
    lost = np.abs(apart)[np.sign(apart) != np.sign(said)].sum()
    return {
        "spearman": 0.0 if np.ptp(learned) < 1e-12 else float(spearmanr(learned, true).statistic),
        "regret": float(lost / (0.5 * np.abs(apart).sum())),
        "against": float(np.mean(against)) if against else None,
        "held": None if off is None else float(np.mean(np.abs(learned - true) <= 1.96 * off)),
    }


# What it says


def tell(rows: list[Row]) -> Told:
    marks = sorted(values_of(rows, "after"))
    mark = 25 if 25 in marks else marks[-1]
    tables = [score_table(rows, name, marks) for name in MEASURES]
    return Told([*tables, further_table(rows, marks)], [
        main_point(decisions_tell(rows, mark)),
        ours(ours_tells(rows, mark)),
        ours(telling_is_faster(rows, mark)),
    ], [
        "The rule looks at the chosen group alone: what is easy to keep gains weight, whatever a person does; and "
        "widths are measured against the row's own value, so that large numbers always seem preserved.",
    ], lesson(rows, mark))  # fmt: skip


def lesson(rows: list[Row], mark: int) -> str:
    rule, telling = (mean_of(rows, "spearman", kind=KINDS[0], way=way, after=mark) for way in (WAYS[1], WAYS[3]))
    if rule is None or telling is None:
        return ""
    return (
        f"After {mark} decisions of careful simulated people, the weights that the rule of 2017 finds have a rank "
        f"correlation of {show(rule)} with theirs, those of Shoal's telling questions one of {show(telling)}."
    )


def score_table(rows: list[Row], name: str, marks: list[int]) -> Table:
    shown = [
        [kind, way, *(mean_of(rows, name, kind=kind, way=way, after=mark) for mark in marks)]
        for kind in KINDS
        for way in WAYS
        if where(rows, kind=kind, way=way)
    ]
    title = MEASURES[name].capitalize()
    return Table(f"{title} by answers (people are simulated; the paper has no such number)",
                 ["people", "way", *(f"{mark} answers" for mark in marks)], shown)  # fmt: skip


def further_table(rows: list[Row], marks: list[int]) -> Table:
    shown = [
        [kind, way, mean_of(rows, "against", kind=kind, way=way, after=marks[-1]),
         *(mean_of(rows, "held", kind=kind, way=way, after=mark) for mark in marks)]
        for kind in KINDS for way in WAYS[1:] if where(rows, kind=kind, way=way)
    ]  # fmt: skip
    columns = [
        "people",
        "way",
        "answers against own weights",
        *(f"held by intervals, {mark} answers" for mark in marks),
    ]
    return Table("Answers against people's own weights, and true weights within intervals of 95 %", columns, shown)


def decisions_tell(rows: list[Row], mark: int) -> Claim:
    says = "The rule of 2017 learns from decisions which attributes matter to people."
    found = {kind: mean_of(rows, "spearman", kind=kind, way=WAYS[1], after=mark) for kind in KINDS[:2]}
    regret = {kind: paired(where(rows, kind=kind, after=mark), "regret", {"way": WAYS[1]}, {"way": WAYS[0]}, ["person"])
              for kind in KINDS[:2]}  # fmt: skip
    if None in (*found.values(), *regret.values()) or len(values_of(rows, "person")) < 3:
        return Claim(says, "cannot be told", "Too few people were asked.")
    learned = [one.low > 0.2 or regret[kind].high < 0 for kind, one in found.items()]  # type: ignore[union-attr]
    told = [f"{kind} people: rank correlation {one.value:.2f} ({one.low:.2f} to {one.high:.2f}), regret "
            f"{regret[kind].value:+.3f}" for kind, one in found.items()]  # type: ignore[union-attr] # fmt: skip
    return Claim(says, "yes" if all(learned) else "partly" if any(learned) else "no",
                 f"After {mark} answers, {'; '.join(told)} against equal weights.")  # fmt: skip


def ours_tells(rows: list[Row], mark: int) -> Claim:
    says = "Decisions can tell it: our model with telling questions learns it from as many."
    found = {kind: mean_of(rows, "spearman", kind=kind, way=WAYS[3], after=mark) for kind in KINDS}
    if None in found.values() or len(values_of(rows, "person")) < 3:
        return Claim(says, "cannot be told", "Too few people were asked.")
    learned = [one.low > 0.5 for one in found.values()]  # type: ignore[union-attr]
    told = ", ".join(f"{kind} {one.value:.2f} ({one.low:.2f} to {one.high:.2f})" for kind, one in found.items())  # type: ignore[union-attr]
    return Claim(says, "yes" if all(learned) else "partly" if any(learned) else "no",
                 f"Rank correlations after {mark} answers: {told}.")  # fmt: skip


def telling_is_faster(rows: list[Row], mark: int) -> Claim:
    says = "Telling questions teach more than random ones."
    found = {kind: paired(where(rows, kind=kind, after=mark), "regret", {"way": WAYS[3]}, {"way": WAYS[2]}, ["person"])
             for kind in KINDS[:2]}  # fmt: skip
    if None in found.values() or len(values_of(rows, "person")) < 3:
        return Claim(says, "cannot be told", "Too few people were asked.")
    less = [one.high < 0 for one in found.values()]  # type: ignore[union-attr]
    told = ", ".join(f"{kind} {one.value:+.3f} ({one.low:+.3f} to {one.high:+.3f})" for kind, one in found.items())  # type: ignore[union-attr]
    return Claim(says, "yes" if all(less) else "partly" if any(less) else "no",
                 f"Regret after {mark} answers, less that of random questions: {told}.")  # fmt: skip


def draw(rows: list[Row], path: Path) -> None:
    marks = sorted(values_of(rows, "after"))
    with panels(path, 4, columns=2, width=4.6) as every:
        for at, panel in enumerate(every):
            name, kind = list(MEASURES)[at // 2], KINDS[at % 2]
            for number, way in enumerate(WAYS):
                found = [mean_of(rows, name, kind=kind, way=way, after=mark) for mark in marks]
                line(panel, number, way, marks, found)
            panel.set_xticks(marks)
            lay_out(panel, f"{kind} people", x="answers", y=MEASURES[name] if at % 2 == 0 else "")
            if name == "regret":
                panel.set_ylim(bottom=0)


STUDIES = (
    Study(
        "malle_weights",
        "malle2017",
        "Beside its figures: what decisions tell of people",
        PROTOCOL,
        cells,
        measure,
        tell,
        draw,
    ),
)

if __name__ == "__main__":
    main(*STUDIES)
