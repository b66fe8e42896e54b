"""What is learned from decisions between groups (Malle et al. 2017): simulated people, whose weights are known.

``python experiments/interactive_weights.py`` asks fifty people of each kind fifty questions on Adult, in some minutes,
and writes ``results/interactive_weights.csv`` (every person), ``.json`` (means) and ``.svg``; what they say is in
docs/interactive.md. ``--people 5 --out somewhere`` is a quick look. Adult is looked for in the folder SHOAL_DATA.

A person has weights drawn from a Dirichlet distribution, and decides for the group that loses less to them, the more
surely the larger the difference: careful people go against their own weights in about one of eight answers to our
questions, noisy ones in one of four. Slipping people always see the difference, and press the wrong button in 13 % of
all cases. Measured are the rank correlation of learned and true weights (Spearman), and regret: how much more is lost
on questions not asked before than if the person decided, 1 being what deciding at random loses; the share of answers
against the person's own weights; and the share of true weights within the intervals of 95 %.

Compared are equal weights; the rule of 2017; our model with questions drawn at random; and with telling ones.

Stated of the rule of 2017, and done so: rounds of five cases; a case has two groups grown from the same row under the
current weights; after a round every weight moves a fifth of the way to how much of the attribute the chosen groups of
all cases so far preserve on average, where a nominal value preserves its level by that of the row's, and a range one
less its width by the row's own value. Not stated, and our choice: the two groups are grown in random samples of 500
rows, which is the size of the paper's table.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from shoal import Schema, WeightSession
from shoal._plot import INK, LINES, STYLE
from shoal.clusters import Clustering
from shoal.datasets import fetch_adult
from shoal.hierarchy import Hierarchy
from shoal.interactive import Option, Question, SimulatedPerson
from shoal.table import Table, take_rows

RESULTS = Path(__file__).parent / "results"
NAMES = ["age", "education-num", "hours-per-week", "workclass", "native-country", "sex", "race", "relationship",
         "occupation", "income"]  # fmt: skip
CERTAINTY = {"careful": 4.0, "noisy": 1.35}
SLIPS = 0.13
MARKS = 5, 10, 25, 50
WAYS = "equal weights", "rule of 2017", "random questions", "telling questions"
MEASURES = "spearman", "regret", "against", "held"
K = 5
SAMPLE = 500


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--people", type=int, default=50)
    options.add_argument("--out", type=Path, default=RESULTS)
    asked = options.parse_args()
    frame, schema = fetch_adult("train", drop_missing=True, quasi=NAMES)
    unseen = unseen_questions(frame, schema)
    rows = []
    for kind in (*CERTAINTY, "slipping"):
        for number in range(asked.people):
            weights = np.random.default_rng([7, number]).dirichlet(np.ones(len(NAMES))) * len(NAMES)
            for way in WAYS if kind in CERTAINTY else WAYS[-1:]:
                person = make_person(kind, weights, number)
                for answers, found in run(way, frame, schema, person, number).items():
                    told = {"person": number, "kind": kind, "way": way, "answers": answers}
                    rows.append(told | judge(found, weights, unseen))
            print(f"{kind} person {number + 1} of {asked.people}", flush=True)
    write(rows, asked.out)


class Watched:
    """A person, and how often they decide against their own weights."""

    def __init__(self, person: SimulatedPerson) -> None:
        self.person = person
        self.against: list[bool] = []

    def decide(self, question: Question) -> str:
        choice = self.person.decide(question)
        self.against.append((choice == "first") != (self.person.preference(question) > 0))
        return choice


class Slipping(SimulatedPerson):
    """Somebody who sees every difference, and presses the wrong button now and then, whatever is at stake."""

    def decide(self, question: Question) -> str:
        slips = np.random.default_rng([self.random_state, question.number, 1]).random() < SLIPS
        return "first" if (self.preference(question) > 0) != slips else "second"


def make_person(kind: str, weights: np.ndarray, seed: int) -> Watched:
    named = dict(zip(NAMES, weights.tolist(), strict=True))
    if kind == "slipping":
        return Watched(Slipping(named, random_state=seed))
    return Watched(SimulatedPerson(named, CERTAINTY[kind], seed))


def run(way: str, frame: Any, schema: Schema, person: Watched, seed: int) -> dict[int, dict[str, Any]]:
    """The weights after some numbers of answers."""
    if way == "equal weights":
        return {mark: {"weights": np.ones(len(NAMES))} for mark in MARKS}
    if way == "rule of 2017":
        return rule_of_2017(WeightSession(frame, schema, k=K), person, seed)
    session = (RandomQuestions if way == "random questions" else WeightSession)(frame, schema, k=K, random_state=seed)
    found = {}
    for n in range(1, max(MARKS) + 1):
        session.answer(person.decide(session.ask()))
        if n in MARKS:
            weights, off = (np.array([told[name] for name in NAMES]) for told in (session.weights, session.uncertainty))
            found[n] = {"weights": weights, "off": off, "against": np.mean(person.against)}
    return found


class RandomQuestions(WeightSession):
    """Learns as ours does, from questions that are drawn among all that trade something off."""

    def _worth(self, apart: np.ndarray, random: np.random.Generator) -> np.ndarray:
        return random.random(len(apart))


def rule_of_2017(session: WeightSession, person: Watched, seed: int) -> dict[int, dict[str, Any]]:
    """Rounds of five cases, and weights that move a fifth of the way after each."""
    random, table = np.random.default_rng([3, seed]), session._table
    weights, kept, found = np.ones(len(NAMES)), [], {}
    for n in range(max(MARKS)):
        row = random.integers(table.n_rows)
        groups = np.array([grow_in_sample(table, row, weights, random) for _ in range(2)])
        losses = [dict(zip(NAMES, lost, strict=True)) for lost in session._losses(groups)]
        options = [Option((), {}, lost) for lost in losses]
        chosen = person.decide(Question(n, int(row), {}, *options))
        kept.append(preserved(table, row, groups[0 if chosen == "first" else 1]))
        if len(kept) % 5 == 0:
            goal = np.mean(kept, axis=0)
            weights = weights + (goal / goal.sum() * len(NAMES) - weights) / 5
        if len(kept) in MARKS:
            found[len(kept)] = {"weights": weights, "against": np.mean(person.against)}
    return found


def grow_in_sample(table: Table, row: int, weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A group around a row, of rows of a sample."""
    sample = random.choice(table.n_rows, SAMPLE, replace=False)
    rows = np.append(row, sample[sample != row])
    named = dict(zip(NAMES, weights.tolist(), strict=True))
    return rows[Clustering(take_rows(table, rows), K, weights=named).grown_from(0)]


def preserved(table: Table, row: int, members: np.ndarray) -> np.ndarray:
    """How much a group preserves of a row, attribute by attribute, as the rule counts it."""
    found = []
    for column in table.quasi:
        own, codes = column.codes[row], column.codes[members]
        if column.tree is None:
            width = column.positions[codes.max()] - column.positions[codes.min()]
            found.append(1.0 - min(1.0, width / column.positions[own]))
        else:
            node = column.tree.common_ancestor([column.tree.values[code] for code in set(codes.tolist())])
            found.append(depth(column.tree, node) / depth(column.tree, int(own)))
    return np.array(found)


def depth(tree: Hierarchy, node: int) -> int:
    """Steps from the top down to a node."""
    return 0 if node == tree.root else 1 + depth(tree, int(tree.parent[node]))


def unseen_questions(frame: Any, schema: Schema) -> np.ndarray:
    """Differences of what two groups lose, of questions that nobody was asked."""
    session = RandomQuestions(frame, schema, k=K, random_state=10**6)
    for _ in range(400):
        session.ask()
        session.answer("skip")
    return np.array([np.array(one.second) - np.array(one.first) for one in session.log])


def judge(found: dict[str, Any], true: np.ndarray, unseen: np.ndarray) -> dict[str, float | None]:
    learned = found["weights"]
    apart, said = unseen @ true, unseen @ learned
    lost = np.abs(apart)[np.sign(apart) != np.sign(said)].sum()
    constant = np.ptp(learned) < 1e-12
    held = np.mean(np.abs(learned - true) <= 1.96 * found["off"]) if "off" in found else None
    return {
        "spearman": 0.0 if constant else float(spearmanr(learned, true).statistic),
        "regret": float(lost / (0.5 * np.abs(apart).sum())),
        "against": found.get("against"),
        "held": held,
    }


def write(rows: list[dict[str, Any]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "interactive_weights.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(
            {name: round(value, 4) if isinstance(value, float) else value for name, value in one.items()}
            for one in rows
        )
    means = summarise(rows)
    (folder / "interactive_weights.json").write_text(json.dumps(means, indent=1) + "\n", encoding="utf-8")
    draw(means, folder / "interactive_weights.svg")
    for one in means:
        told = f"{one['kind']:8} {one['way']:18} {one['answers']:3}"
        shown = [f"{name} {one[name]:.3f} ± {one[f'{name}_off']:.3f}" for name in MEASURES if one[name] is not None]
        print(told, *shown, sep="  ")


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over people, with half the width of an interval of 95 %."""
    keys = list(dict.fromkeys((one["kind"], one["way"], one["answers"]) for one in rows))
    means = []
    for kind, way, answers in keys:
        own = [one for one in rows if (one["kind"], one["way"], one["answers"]) == (kind, way, answers)]
        mean: dict[str, Any] = {"kind": kind, "way": way, "answers": answers, "people": len(own)}
        for name in MEASURES:
            values = np.array([one[name] for one in own if one[name] is not None])
            off = 1.96 * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            mean[name] = round(float(values.mean()), 4) if len(values) else None
            mean[f"{name}_off"] = round(float(off), 4)
        means.append(mean)
    return means


def draw(means: list[dict[str, Any]], path: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 6.4), layout="constrained")
        panels = figure.subplots(2, 2, sharex=True, sharey="row")
        for row, (name, label) in enumerate((("spearman", "rank correlation with the truth"), ("regret", "regret"))):
            for column, kind in enumerate(CERTAINTY):
                panel = panels[row, column]
                for i, way in enumerate(WAYS):
                    own = [one for one in means if one["way"] == way and one["kind"] == kind]
                    color, marker, dashes = LINES[i]
                    x, y, off = ([one[key] for one in own] for key in ("answers", name, f"{name}_off"))
                    panel.errorbar(x, y, off, color=color, marker=marker, linestyle=dashes, capsize=2, label=way)
                panel.set_xticks(MARKS)
                panel.grid(axis="y", color="#e3e0d8", linewidth=0.7)
                if row == 0:
                    panel.set_title(f"{kind} people", loc="left", fontweight="bold", color=INK)
                else:
                    panel.set_xlabel("answers")
                    panel.set_ylim(bottom=0)
                if column == 0:
                    panel.set_ylabel(label)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    begun = time.perf_counter()
    main()
    print(f"{time.perf_counter() - begun:.0f} s")
