"""Random forests that rely less on sensitive features."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.metrics import r2_score

from shoal._kernels import tree_use as kernel
from shoal.errors import ShoalError
from shoal.parameters import FLAG, JOBS, SHARE, Choice, Constraint, Whole
from shoal.trees._base import LearnsClasses, LearnsNumbers, PrivacyTrees, TrainingRows
from shoal.trees._grown import Tree, is_complete
from shoal.trees._limits import SHARES, SplitBudget, is_budgeted

ROWS_A_BLOCK = 4096
"""Number of rows that descend all trees together: their values stay in the cache."""


@dataclass(eq=False, repr=False)
class _Forest(PrivacyTrees):
    """A forest of classification or regression trees."""

    n_estimators: int = 100
    _: KW_ONLY
    share: str = "tree"
    max_features: Any = 1.0
    bootstrap: bool = True
    max_samples: int | float | None = None
    oob_score: bool = False
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_estimators": Whole(least=1),
        "share": Choice(SHARES),
        "bootstrap": FLAG,
        "max_samples": Whole(least=1) | SHARE | None,
        "oob_score": FLAG,
        "n_jobs": JOBS,
    }
    trees_: list[Tree] = field(init=False)

    def _count_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _grow(self, lesson: TrainingRows, random: np.random.RandomState) -> None:
        seeds = random.randint(2**31, size=self.n_estimators)
        shared = self.share == "ensemble" and is_budgeted(self._leaning(), self.sensitivity_)
        if shared:
            # The unused budget of one tree is passed to the next ones.
            budget = SplitBudget(self._leaning(), self.sensitivity_, self.n_estimators)
            self.trees_ = []
            for seed in seeds.tolist():
                tree = self._grow_drawn(lesson, seed, budget.portion())
                budget.spend(tree)
                self.trees_.append(tree)
        else:
            grow = partial(self._grow_drawn, lesson, budget=None)
            self.trees_ = _in_threads(grow, seeds.tolist(), self._count_threads())
        if self.oob_score:
            self._score_left_out(lesson, seeds)

    def _grow_drawn(self, lesson: TrainingRows, seed: int, budget: np.ndarray | None) -> Tree:
        """Grow one tree on rows drawn with replacement."""
        if not self.bootstrap:
            return self._grow_tree(lesson, seed, None, lesson.weight, budget)
        rows, counts = self._draw_rows(lesson, seed)
        weight = counts.astype(float)
        if lesson.weight is not None:
            weight *= lesson.weight[rows]
        return self._grow_tree(lesson, seed, rows, weight, budget)

    def _draw_rows(self, lesson: TrainingRows, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the drawn rows, and the number of times each was drawn."""
        n, asked = len(lesson.y), self.max_samples
        if asked is not None:
            n = int(asked) if isinstance(asked, numbers.Integral) else max(round(n * asked), 1)
        counts = np.bincount(np.random.default_rng(seed).integers(0, len(lesson.y), n))
        rows = np.flatnonzero(counts)
        return rows, counts[rows]

    def weighted_trees(self) -> list[tuple[float, Tree]]:
        return [(1.0, tree) for tree in self.trees_]

    def _average(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of the trees' predictions."""
        total = np.zeros((len(values), self.trees_[0].value.shape[1]))

        def answer(start: int) -> None:
            rows = slice(start, start + ROWS_A_BLOCK)
            complete = is_complete(values[rows])
            for tree in self.trees_:
                plain = complete and tree.asks_numbers
                kernel.add_answers(*tree.branches, values[rows], plain, tree.value, 1.0, total[rows])

        _in_threads(answer, range(0, len(values), ROWS_A_BLOCK), self._count_threads())
        return total / len(self.trees_)

    def _score_left_out(self, lesson: TrainingRows, seeds: np.ndarray) -> None:
        """Score every row by the trees that were not trained on it."""
        values = lesson.values
        total = np.zeros((len(values), self.trees_[0].value.shape[1]))
        times = np.zeros(len(values))
        for seed, tree in zip(seeds.tolist(), self.trees_, strict=True):
            left_out = np.ones(len(values), bool)
            left_out[self._draw_rows(lesson, seed)[0]] = False
            total[left_out] += tree.answers(values[left_out])
            times += left_out
        scored = times > 0
        answers = total[scored] / times[scored, None]
        self.oob_score_ = self._score_answers(answers, lesson.y[scored])

    @abstractmethod
    def _score_answers(self, answers: np.ndarray, y: np.ndarray) -> float:
        """Return the accuracy, or R²."""

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row in each tree (n_rows, n_trees)."""
        values = self.encode_rows(X)
        return np.column_stack([tree.apply(values) for tree in self.trees_])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.oob_score and not self.bootstrap:
            raise ShoalError("oob_score=True needs rows that trees were not trained on: set bootstrap=True.")


@dataclass(eq=False, repr=False)
class PrivacyForestClassifier(LearnsClasses, _Forest):
    """A random forest whose splits avoid sensitive features.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    sensitivity, penalty, penalty_stops, min_level, max_splits, level_by, split_cost, weighted, categorical_features
        As in :class:`PrivacyTreeClassifier`.
    share : {"tree", "ensemble"}
        The scope of ``max_splits``: every tree, or all trees together. Shared splits are spent by growing the trees one
        after the other, each with an equal part of the remaining splits.
    criterion, max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, max_features, max_leaf_nodes, \
min_impurity_decrease, class_weight, ccp_alpha, bootstrap, max_samples, oob_score, n_jobs, random_state
        As in scikit-learn's ``RandomForestClassifier``. The result does not depend on ``n_jobs``.

    Attributes
    ----------
    trees_ : list of Tree
    classes_, feature_importances_, impurity_importances_, n_splits_, sensitivity_
        As in :class:`PrivacyTreeClassifier`, the importances as means over the trees.
    oob_score_ : float
        Accuracy on out-of-bag rows, with ``oob_score=True``.

    Examples
    --------
    >>> from shoal import PrivacyForestClassifier
    >>> from shoal.datasets import make_census
    >>> census = make_census(1000)
    >>> X, y = census.frame.drop("income"), census.frame["income"]
    >>> forest = PrivacyForestClassifier(10, sensitivity={"age": 1.0}, max_splits=3, share="ensemble", random_state=0)
    >>> int(forest.fit(X, y).n_splits_[X.columns.index("age")]) <= 3
    True
    """

    _: KW_ONLY
    criterion: str = "gini"
    max_features: Any = "sqrt"
    class_weight: Any = None

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, the mean over the trees."""
        values = self.encode_rows(X)
        return self._average(values)

    def _score_answers(self, answers: np.ndarray, y: np.ndarray) -> float:
        return float((answers.argmax(axis=1) == y).mean())


class PrivacyForestRegressor(LearnsNumbers, _Forest):
    """A random forest for one or several numbers whose splits avoid sensitive features.

    Parameters and attributes are those of :class:`PrivacyForestClassifier`, except those of classes; the impurity is
    the variance, and every node considers all features by default.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal import PrivacyForestRegressor
    >>> X = np.arange(40.0).reshape(20, 2)
    >>> forest = PrivacyForestRegressor(5, sensitivity={0: 1.0}, max_splits=0, random_state=0)
    >>> forest.fit(X, X[:, 0]).feature_importances_
    array([0., 1.])
    """

    def predict(self, X: Any) -> np.ndarray:
        """Return the mean of the trees' predictions."""
        values = self.encode_rows(X)
        return self._shape(self._average(values))

    def _score_answers(self, answers: np.ndarray, y: np.ndarray) -> float:
        return float(r2_score(y, answers))


def _in_threads(function: Callable[[Any], Any], items: Any, n_threads: int) -> list[Any]:
    if n_threads == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, items))
