"""Judge a guided tree node by node: was each split the best that its limits allowed, counted exactly?"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np


class Asked(NamedTuple):
    """What a tree was asked for; every list has an entry for each feature."""

    penalty: list[Fraction]
    """What a split leaves counts so many times."""
    stops: bool
    level: list[int]
    budget: list[int | None]
    most_depth: int


def judge(tree: Any, X: np.ndarray, y: np.ndarray, asked: Asked) -> None:
    """Follow the tree in the order in which it was grown; fail at the first node that should have been another."""
    breadth_first = any(one is not None for one in asked.budget)
    left_over = list(asked.budget)
    rows = {0: np.arange(len(y))}
    depth = {0: 0}
    waiting = [0]
    while waiting:
        node = waiting.pop(0)
        own = rows[node]
        allowed = [
            j for j in range(X.shape[1]) if depth[node] >= asked.level[j] and (left_over[j] is None or left_over[j] > 0)
        ]
        cuts = {} if depth[node] >= asked.most_depth else score_cuts(X[own], y[own], allowed, asked)
        feature = int(tree.feature[node])
        if feature < 0:
            assert not cuts, f"node {node} is a leaf, but {min(cuts, key=cuts.get)} was allowed"
            continue
        on_left = X[own, feature] <= tree.threshold[node]
        found = cuts[(feature, tuple(np.flatnonzero(on_left)))]
        assert found == min(cuts.values()), f"node {node} splits on {feature}, which leaves {found}: {cuts}"
        if left_over[feature] is not None:
            left_over[feature] -= 1
        left = int(tree.children_left[node])
        rows[left], rows[left + 1] = own[on_left], own[~on_left]
        depth[left] = depth[left + 1] = depth[node] + 1
        waiting = [*waiting, left, left + 1] if breadth_first else [left, left + 1, *waiting]
    assert set(rows) == set(range(tree.node_count))


def score_cuts(X: np.ndarray, y: np.ndarray, allowed: list[int], asked: Asked) -> dict[Any, Fraction]:
    """What each allowed cut leaves, by its feature and the rows on its left, with its penalty."""
    before = impurity(y)
    if before == 0:
        return {}
    found = {}
    for j in allowed:
        for value in np.unique(X[:, j])[:-1]:
            on_left = X[:, j] <= value
            left = asked.penalty[j] * (impurity(y[on_left]) + impurity(y[~on_left]))
            if not (asked.stops and asked.penalty[j] > 1 and left >= before):
                found[(j, tuple(np.flatnonzero(on_left)))] = left
    return found


def impurity(y: np.ndarray) -> Fraction:
    """The gini impurity times the number of rows."""
    return len(y) - sum(Fraction(count * count, len(y)) for count in Counter(y.tolist()).values())
