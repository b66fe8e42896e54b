"""Slow, obvious twins of the privacy formulas: lists of values, dicts and Counters, straight from the definitions.

A group is the list of its sensitive values, a table the list of all of them, a domain the values in their order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from shoal.privacy.counts import Counts, Tally

Values = Sequence[Any]


def share(values: Values, value: Any) -> float:
    return Counter(values)[value] / len(values)


def distinct(group: Values) -> float:
    return len(set(group))


def entropy(group: Values) -> float:
    return math.exp(-sum(share(group, v) * math.log(share(group, v)) for v in set(group)))


def recursive(group: Values, diversity: int) -> float:
    r = sorted(Counter(group).values(), reverse=True)
    return r[0] / sum(r[diversity - 1 :]) if len(r) >= diversity else math.inf


def largest_share(group: Values) -> float:
    return max(share(group, v) for v in group)


def equal_distance(group: Values, table: Values, domain: Values) -> float:
    return sum(abs(share(group, v) - share(table, v)) for v in domain) / 2


def ordered_distance(group: Values, table: Values, domain: Values) -> float:
    if len(domain) < 2:
        return 0.0
    carried, work = 0.0, 0.0
    for v in domain:
        carried += share(group, v) - share(table, v)
        work += abs(carried)
    return work / (len(domain) - 1)


def tree_distance(group: Values, table: Values, tree: Any) -> float:
    """Li et al. 2007, section 4.2: extra, positive and negative extra, cost of each inner node."""
    n_leaves, height = len(tree.table), tree.table.shape[1] - 1
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent):
        if node != parent:
            children.setdefault(int(parent), []).append(node)

    def extra(node: int) -> float:
        if node < n_leaves:
            return share(group, node) - share(table, node)
        return sum(extra(child) for child in children[node])

    cost = 0.0
    for node, below in children.items():
        positive = sum(extra(child) for child in below if extra(child) > 0)
        negative = -sum(extra(child) for child in below if extra(child) < 0)
        cost += tree.level[node] / height * min(positive, negative)
    return cost


def log_ratio(group: Values, table: Values, count_absent: bool = False) -> float:
    if count_absent and set(group) != set(table):
        return math.inf
    return max(abs(math.log(share(group, v) / share(table, v))) for v in set(group))


def gain(group: Values, table: Values) -> float:
    return max((share(group, v) - share(table, v)) / share(table, v) for v in set(table))


def bounded_gain(group: Values, table: Values) -> float:
    gains = {v: (share(group, v) - share(table, v)) / share(table, v) for v in set(table)}
    impossible = any(g > -math.log(share(table, v)) + 1e-12 for v, g in gains.items())
    return math.inf if impossible else max(gains.values())


def split(labels: Sequence[int], values: Values) -> list[list[Any]]:
    """The values of each group; label -1 is the last group."""
    names = [*sorted(set(labels) - {-1}), *({-1} & set(labels))]
    return [[v for label, v in zip(labels, values, strict=True) if label == name] for name in names]


def column(name: str, n_values: int, kind: str = "nominal", tree: Any = None) -> Any:
    """A stand-in for an encoded column: only what privacy models look at."""
    attribute = SimpleNamespace(name=name, kind=kind, hierarchy=tree, role="sensitive")
    return SimpleNamespace(attribute=attribute, name=name, n_values=n_values, tree=tree, shares=None)


def count(labels: Sequence[int], columns: Sequence[tuple[Any, Sequence[int]]], members: Sequence[bool]) -> Counts:
    """Counts of each group from (column, codes) pairs, with Counters."""
    population = [len(group) for group in split(labels, members)]
    released = [int(sum(group)) for group in split(labels, members)]
    sensitive = {}
    for col, codes in columns:
        marked = [code if member else None for code, member in zip(codes, members, strict=True)]
        groups = [[v for v in group if v is not None] for group in split(labels, marked)]
        kept = [v for v in marked if v is not None]
        sensitive[col.name] = tally(groups, [share(kept, v) if kept else 0.0 for v in range(col.n_values)])
    return Counts(_ints(released), _ints(population), sensitive, {col.name: col for col, _ in columns})


def tally(groups: Sequence[Sequence[Any]], reference: Sequence[float]) -> Tally:
    entries = [sorted(Counter(group).items()) for group in groups]
    indptr = np.cumsum([0, *(len(entry) for entry in entries)])
    flat = [pair for entry in entries for pair in entry]
    return Tally(
        indptr.astype(np.int64), _ints([v for v, _ in flat]), _ints([c for _, c in flat]), np.array(reference, float)
    )


def _ints(numbers: Sequence[int]) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)
