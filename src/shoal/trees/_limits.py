"""Limits of the reliance of a tree on each feature: parameters of users, as input of the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal._kernels.tree_data import Limits
from shoal.data.schema import Schema
from shoal.errors import ShoalError
from shoal.parameters import Real, Whole
from shoal.trees._grown import Tree

LEVELS = ("depth", "visits")
COSTS = ("one", "rows")
SHARES = ("tree", "ensemble")


class Leaning(NamedTuple):
    """The three methods of the paper, with the same parameters for all features."""

    penalty: float
    """The impurity after a split on a feature of sensitivity w is multiplied by 1 + penalty * w."""
    penalty_stops: bool
    min_level: int
    max_splits: float | None
    level_by: str
    split_cost: str
    weighted: bool


def read_sensitivity(sensitivity: Any, names: Sequence[str] | None, n_features: int) -> np.ndarray:
    """Return the sensitivity of each feature, from 0 to 1; 0 by default."""
    weights = np.zeros(n_features)
    if sensitivity is None:
        return weights
    if isinstance(sensitivity, Schema):
        known = list(names) if names is not None else []
        sensitivity = {a.name: 1.0 for a in sensitivity.sensitive if a.name in known}
    for feature, weight in sensitivity.items():
        Real(least=0, most=1).check(f"The sensitivity of {feature!r}", weight)
        weights[_place(feature, names, n_features)] = float(weight)
    return weights


def _place(feature: Any, names: Sequence[str] | None, n_features: int) -> int:
    if Whole(least=0, most=n_features - 1).allows(feature):
        return int(feature)
    if names is not None and feature in list(names):
        return list(names).index(feature)
    known = f"{n_features} columns without names, 0 to {n_features - 1}" if names is None else ", ".join(names)
    raise ShoalError(f"sensitivity names {feature!r}, which is not a feature: the features are {known}.")


def is_budgeted(leaning: Leaning, sensitivity: np.ndarray) -> bool:
    """Return True if splits are counted, so that the order of the nodes matters."""
    return leaning.max_splits is not None and bool((sensitivity > 0).any())


def make_limits(leaning: Leaning, sensitivity: np.ndarray, n_rows: int, budget: np.ndarray | None = None) -> Limits:
    """Return the limits of one tree; ``budget`` is its portion of a shared budget."""
    penalty = 1.0 + leaning.penalty * sensitivity
    return Limits(
        penalised=bool((penalty != 1).any()),
        penalty=penalty,
        stops=leaning.penalty_stops,
        level=np.ceil(leaning.min_level * _shares(leaning, sensitivity)).astype(np.int64),
        visits=leaning.level_by == "visits",
        budget=_whole_budget(leaning, sensitivity) if budget is None else budget.copy(),
        row_cost=1.0 / n_rows if leaning.split_cost == "rows" else 0.0,
    )


def _shares(leaning: Leaning, sensitivity: np.ndarray) -> np.ndarray:
    return sensitivity if leaning.weighted else (sensitivity > 0).astype(float)


def _whole_budget(leaning: Leaning, sensitivity: np.ndarray) -> np.ndarray:
    budget = np.full(len(sensitivity), np.inf)
    if leaning.max_splits is not None:
        sensitive = sensitivity > 0
        budget[sensitive] = leaning.max_splits / _shares(leaning, sensitivity)[sensitive]
    return budget


class SplitBudget:
    """The splits that the trees of an ensemble share."""

    def __init__(self, leaning: Leaning, sensitivity: np.ndarray, n_trees: int) -> None:
        self._by_rows = leaning.split_cost == "rows"
        self._left = _whole_budget(leaning, sensitivity)
        self._n_trees = n_trees

    def portion(self) -> np.ndarray:
        """Return the portion of the next tree: an equal part of the rest, shared with the trees after it."""
        portion = self._left / self._n_trees
        return portion if self._by_rows else np.ceil(portion - 1e-9)

    def spend(self, tree: Tree) -> None:
        """Subtract the splits of a tree."""
        self._left = self._left - (tree.count_split_rows() if self._by_rows else tree.count_splits())
        self._n_trees -= 1
