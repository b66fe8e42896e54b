"""Learners of adversaries. For membership, rows with equal answers of the model become one weighted row.

The answers of a forest of a hundred trees have a hundred values, and boosting uses at most 255 per column anyway: tens
of thousands of rows become a few hundred distinct ones without loss.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from shoal._kernels import groups

MOST_VALUES = 255
N_TREES = 60
ROWS_IN_A_LEAF = 5
STRENGTH = 5.0
"""L2 regularization of boosting for small numbers of rows, as strong as twenty rows without information."""


class CountedRows(NamedTuple):
    """Distinct rows, and the numbers of members and of others that equal each."""

    rows: np.ndarray
    members: np.ndarray
    others: np.ndarray

    def by_class(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the same as rows, classes and weights."""
        weight = np.concatenate([self.members, self.others])
        kept = np.flatnonzero(weight)
        label = np.arange(len(weight)) < len(self.members)
        return self.rows[kept % len(self.rows)], label[kept], weight[kept]


class Learner(Protocol):
    """A function that learns from rows, and returns the probability of membership of other rows."""

    def __call__(self, lesson: CountedRows, asked: np.ndarray, seed: int) -> np.ndarray: ...


def learn(learner: Learner, view: np.ndarray, is_member: np.ndarray, asked: np.ndarray, seed: int) -> np.ndarray:
    """Return the probability that each row of ``asked`` is a member, learned from the rows of ``view``."""
    tops = [_tops(column) for column in view.T]
    seen, unseen = _bins(view, tops), _bins(asked, tops)
    labels, first = groups.group_rows(seen)
    members = np.bincount(labels[is_member], minlength=len(first))
    lesson = CountedRows(seen[first].astype(float), members, np.bincount(labels, minlength=len(first)) - members)
    labels, first = groups.group_rows(unseen)
    return learner(lesson, unseen[first].astype(float), seed)[labels]


def _tops(column: np.ndarray) -> np.ndarray:
    """Return the ends of the bins of a column: its values, or quantiles if there are many."""
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
    """Train trees on rows drawn with replacement."""
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
    """Train boosted trees."""
    return _boost(lesson, asked, seed, learning_rate=0.3, max_iter=30)


def slow_boosting(lesson: CountedRows, asked: np.ndarray, seed: int) -> np.ndarray:
    """Train boosted trees in more and smaller steps, for views with many columns."""
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


def patient_network(network: type, seed: int) -> Pipeline:
    """Return a scaled network with larger steps and more patience: the defaults stop too early with few rows."""
    patient = {"early_stopping": True, "n_iter_no_change": 20, "learning_rate_init": 0.005, "max_iter": 300}
    return make_pipeline(StandardScaler(), network(**patient, random_state=seed))
