"""Learn who is a member from what a model says: rows that it says the same of are learned as one, with a weight.

The answers of a forest of a hundred trees take a hundred values, and boosting looks at no more than 255 of each column
anyway: of tens of thousands of rows a few hundred different ones are left, and nothing is lost.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from shoal._kernels import groups

MOST_VALUES = 255
N_TREES = 60
ROWS_IN_A_LEAF = 5
STRENGTH = 5.0
"""What holds boosting back where rows are few: as much as twenty rows of which nothing is known."""


class CountedRows(NamedTuple):
    """Different rows, and how many members and how many others look like each."""

    rows: np.ndarray
    members: np.ndarray
    others: np.ndarray

    def by_class(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same as rows, classes and weights."""
        weight = np.concatenate([self.members, self.others])
        kept = np.flatnonzero(weight)
        label = np.arange(len(weight)) < len(self.members)
        return self.rows[kept % len(self.rows)], label[kept], weight[kept]


class Learner(Protocol):
    """Learns from a lesson, and says of other rows how likely they are members."""

    def __call__(self, lesson: CountedRows, asked: np.ndarray, seed: int) -> np.ndarray: ...


def learn(learner: Learner, view: np.ndarray, is_member: np.ndarray, asked: np.ndarray, seed: int) -> np.ndarray:
    """How likely each row of ``asked`` is a member, learned from the rows of ``view``."""
    tops = [_tops(column) for column in view.T]
    seen, unseen = _bins(view, tops), _bins(asked, tops)
    labels, first = groups.group_rows(seen)
    members = np.bincount(labels[is_member], minlength=len(first))
    lesson = CountedRows(seen[first].astype(float), members, np.bincount(labels, minlength=len(first)) - members)
    labels, first = groups.group_rows(unseen)
    return learner(lesson, unseen[first].astype(float), seed)[labels]


def _tops(column: np.ndarray) -> np.ndarray:
    """Where the bins of a column end: at its values, or where there are many so that each has as many rows."""
    values = np.unique(column)
    if len(values) <= MOST_VALUES:
        return values
    return np.unique(np.quantile(column, np.linspace(0, 1, MOST_VALUES + 1)[1:], method="inverted_cdf"))


def _bins(view: np.ndarray, tops: list[np.ndarray]) -> np.ndarray:
    bins = np.empty(view.shape, np.uint8)
    for j, ends in enumerate(tops):
        bins[:, j] = np.minimum(np.searchsorted(ends, view[:, j]), len(ends) - 1)
    return bins


def forest(lesson: CountedRows, asked: np.ndarray, seed: int) -> np.ndarray:
    """Trees on rows drawn with replacement."""
    random = np.random.default_rng(seed)
    rows, label, weight = lesson.by_class()
    n = int(weight.sum())
    total = np.zeros(len(asked))
    for _ in range(N_TREES):
        drawn = random.multinomial(n, weight / n)
        kept = np.flatnonzero(drawn)
        tree = DecisionTreeClassifier(
            max_features="sqrt", min_weight_fraction_leaf=min(ROWS_IN_A_LEAF / n, 0.5), random_state=_seed_of(random)
        )
        tree.fit(rows[kept], label[kept], sample_weight=drawn[kept].astype(float))
        total += tree.predict_proba(asked)[:, -1] if len(tree.classes_) == 2 else float(tree.classes_[0])
    return total / N_TREES


def boosting(lesson: CountedRows, asked: np.ndarray, seed: int) -> np.ndarray:
    """Boosted trees."""
    return _boost(lesson, asked, seed, learning_rate=0.3, max_iter=30)


def slow_boosting(lesson: CountedRows, asked: np.ndarray, seed: int) -> np.ndarray:
    """Boosted trees in more and smaller steps, where there is much to look at."""
    return _boost(lesson, asked, seed, learning_rate=0.05, max_iter=100)


def _boost(lesson: CountedRows, asked: np.ndarray, seed: int, *, learning_rate: float, max_iter: int) -> np.ndarray:
    rows, label, weight = lesson.by_class()
    fewest = max(round(20 * len(weight) / weight.sum()), 1)
    model = HistGradientBoostingClassifier(
        learning_rate=learning_rate,
        max_iter=max_iter,
        min_samples_leaf=fewest,
        l2_regularization=STRENGTH,
        early_stopping=False,
        random_state=seed,
    )
    model.fit(rows, label, sample_weight=weight.astype(float))
    return np.asarray(model.predict_proba(asked)[:, 1])


def _seed_of(random: np.random.Generator) -> int:
    return int(random.integers(0, 2**31))
