"""Simulated people, questions to them, and the rule by which Malle et al. (2017) learn weights from their decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from shoal import Schema
from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.table import Column, encode, take_rows
from shoal.jobs.weights import CONCENTRATION, Option, Question
from shoal.partition.clusters import Clustering, node_costs

K = 5
"""Rows of the groups that are shown."""
SAMPLE = 500
"""Rows that the rule of 2017 grows groups in: the size of the paper's table."""
SLIPS = 0.13
CERTAINTY = {"careful": 4.0, "noisy": 1.35}


class SimulatedPerson:
    """A simulated person with known weights, for testing what is learned.

    Parameters
    ----------
    weights : mapping from names to numbers
    certainty : float
        How reliably answers follow from the weights: 4 is careful, 1.35 noisy.
    random_state : int
        Seed of the answers, together with the number of the question.
    """

    def __init__(self, weights: Mapping[str, float], certainty: float = 4.0, random_state: int = 0) -> None:
        self.weights = dict(weights)
        self.certainty = certainty
        self.random_state = random_state

    def preference(self, question: Question) -> float:
        """Return the weighted loss of the second group minus that of the first."""
        first, second = question.first.loss, question.second.loss
        return sum(weight * (second[name] - first[name]) for name, weight in self.weights.items())

    def decide(self, question: Question) -> Literal["first", "second"]:
        """Answer a question."""
        # Other random numbers than those of a session with the same seed.
        random = np.random.default_rng([self.random_state, question.number, 1])
        return "first" if random.random() < expit(self.certainty * self.preference(question)) else "second"


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

    def decide(self, question: Question) -> Any:
        slips = np.random.default_rng([self.random_state, question.number, 1]).random() < SLIPS
        return "first" if (self.preference(question) > 0) != slips else "second"


def make_person(kind: str, weights: Mapping[str, float], seed: int) -> Watched:
    """A person with these weights: careful, noisy or slipping."""
    if kind == "slipping":
        return Watched(Slipping(weights, random_state=seed))
    return Watched(SimulatedPerson(weights, CERTAINTY[kind], seed))


class Groups:
    """The groups that rows of a table could be in, and what these lose of each attribute."""

    def __init__(self, frame: Any, schema: Schema) -> None:
        table = encode(frame, schema)
        # By their content, as in a session: equal costs go to the first row.
        self.table = take_rows(table, np.lexsort(table.codes.T[::-1]))
        self.names = [column.name for column in self.table.quasi]
        self._clustering = Clustering(self.table, K)

    def named(self, weights: np.ndarray) -> dict[str, float]:
        return dict(zip(self.names, weights.tolist(), strict=True))

    def losses(self, members: np.ndarray) -> np.ndarray:
        """What a group loses of each attribute, from 0 to 1, as SaNGreeA counts it without weights."""
        return np.array([_loss(column, column.codes[members]) for column in self.table.quasi])

    def question(self, number: int, row: int, groups: Sequence[np.ndarray]) -> Question:
        """Which of two groups a row should join; what would be shown of them is left out."""
        options = [Option((), {}, self.named(self.losses(members))) for members in groups]
        return Question(number, row, {}, *options)

    def random_questions(self, random: np.random.Generator) -> Iterator[Question]:
        """Rows and two groups, grown under weights that are drawn, each of which keeps what the other gives up.

        As in a session, no difference is asked twice.
        """
        asked: set[tuple[float, ...]] = set()
        while True:
            row = int(random.integers(self.table.n_rows))
            drawn = random.dirichlet(np.full(len(self.names), CONCENTRATION), 2) * len(self.names)
            groups = [self._clustering.grown_from(row, weights=self.named(weights)) for weights in drawn]
            question = self.question(len(asked) // 2, row, groups)
            apart = difference(question).round(9)
            if apart.max() > 0 and apart.min() < 0 and tuple(apart) not in asked:
                asked |= {tuple(apart), tuple(-apart)}
                yield question

    def grown_in_sample(self, row: int, weights: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """A group around a row, of rows of a sample."""
        size = min(SAMPLE, self.table.n_rows)
        sample = random.choice(self.table.n_rows, size, replace=False)
        rows = np.append(row, sample[sample != row])
        clustering = Clustering(take_rows(self.table, rows), K, weights=self.named(weights))
        return rows[clustering.grown_from(0)]


def difference(question: Question) -> np.ndarray:
    """What the second group loses more than the first, attribute by attribute."""
    return np.array(list(question.second.loss.values())) - np.array(list(question.first.loss.values()))


def rule_of_2017(groups: Groups, person: Watched, seed: int, answers: int) -> list[np.ndarray]:
    """The weights after each answer: rounds of five cases, after each of which weights move a fifth of the way."""
    random, weights = np.random.default_rng([3, seed]), np.ones(len(groups.names))
    kept: list[np.ndarray] = []
    found = []
    for number in range(answers):
        row = int(random.integers(groups.table.n_rows))
        shown = [groups.grown_in_sample(row, weights, random) for _ in range(2)]
        chosen = person.decide(groups.question(number, row, shown))
        kept.append(preserved(groups, row, shown[0 if chosen == "first" else 1]))
        if len(kept) % 5 == 0:
            goal = np.mean(kept, axis=0)
            weights = weights + (goal / goal.sum() * len(groups.names) - weights) / 5
        found.append(weights)
    return found


def preserved(groups: Groups, row: int, members: np.ndarray) -> np.ndarray:
    """How much a group preserves of a row, attribute by attribute, as the rule counts it."""
    found = []
    for column in groups.table.quasi:
        own, codes = column.codes[row], column.codes[members]
        if column.tree is None:
            width = column.positions[codes.max()] - column.positions[codes.min()]
            found.append(1.0 - min(1.0, width / column.positions[own]))
        else:
            found.append(_depth(column.tree, _ancestor(column.tree, codes)) / _depth(column.tree, int(own)))
    return np.array(found)


def _loss(column: Column, codes: np.ndarray) -> float:
    if column.tree is not None:
        return float(node_costs(column.tree)[_ancestor(column.tree, codes)])
    return float(column.positions[codes.max()] - column.positions[codes.min()]) / (column.width or 1.0)


def _ancestor(tree: Hierarchy, codes: np.ndarray) -> int:
    return tree.common_ancestor([tree.values[code] for code in set(codes.tolist())])


def _depth(tree: Hierarchy, node: int) -> int:
    """Steps from the top down to a node."""
    return 0 if node == tree.root else 1 + _depth(tree, int(tree.parent[node]))
