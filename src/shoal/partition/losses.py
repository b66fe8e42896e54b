"""Losses of a partition, as plain functions.

They are computed from the encoded table and the labels of its rows (-1: suppressed); lower is better.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from shoal._kernels import hierarchy as trees
from shoal._kernels.geometry import LARGEST_SET, SET, TREE
from shoal.data.table import Column, Table
from shoal.partition.geometry import Bounds, Nodes, bounds, distinct_values, forms
from shoal.privacy.counts import count_groups

Scale = Literal["ncp", "granularity", "height"]


class Loss(NamedTuple):
    """Losses of a release, by several measures."""

    ncp: float
    granularity: float
    gil: float
    ngil: float
    discernibility: float
    average_group_size: float
    non_uniform_entropy: float
    by_attribute: dict[str, float]
    """NCP of each quasi-identifier."""


def all_losses(
    table: Table,
    labels: np.ndarray,
    *,
    sets: bool = False,
    members: np.ndarray | None = None,
    nodes: Nodes | None = None,
    is_part: bool = False,
) -> Loss:
    """Compute every loss of a partition that needs no target, over the released rows (``members``, or all).

    The loss of a group is that of its tightest ranges, ancestors or sets, or of its ``nodes`` if given. The entropy
    depends on the frequencies of values in the whole table, so it is nan for a part of it.
    """
    groups = _measure_groups(table, labels, members, nodes)
    shares = _cell_losses(table, groups, "ncp", sets=sets)
    gil = _gil(table, groups)
    return Loss(
        ncp=_weighted_mean(shares, table),
        granularity=_weighted_mean(_cell_losses(table, groups, "granularity", sets=sets), table),
        gil=gil,
        ngil=gil / (groups.n_rows * len(table.quasi)),
        discernibility=_discernibility(groups.sizes, groups.n_rows, groups.n_suppressed),
        average_group_size=_average_size(groups.sizes),
        non_uniform_entropy=math.nan if is_part else _entropy(table, groups, sets=sets),
        by_attribute={column.name: float(share) for column, share in zip(table.quasi, shares, strict=True)},
    )


def ncp(table: Table, labels: np.ndarray, *, sets: bool = False) -> float:
    """Return the normalised certainty penalty (Xu et al. 2006), the weighted mean over rows and attributes.

    A range costs its share of the column's range. A node costs its share of the hierarchy's leaves, a set its share of
    the column's values, a single value nothing. Suppressed rows, ranges that may be missing, and sets too large to be
    written out cost 1.
    """
    return _weighted_mean(_cell_losses(table, _measure_groups(table, labels), "ncp", sets=sets), table)


def granularity(table: Table, labels: np.ndarray, *, sets: bool = False) -> float:
    """Return Iyengar's loss metric, ARX's granularity: like NCP, but n of m leaves cost (n - 1) / (m - 1)."""
    return _weighted_mean(_cell_losses(table, _measure_groups(table, labels), "granularity", sets=sets), table)


def gil(table: Table, labels: np.ndarray) -> float:
    """Return the generalisation information loss of SaNGreeA, with weights.

    It is the sum over rows and attributes of weight times: width of the range / width of the column, or height of the
    node's sub-hierarchy / height of the hierarchy. A nominal attribute without a hierarchy has one level over its
    values.
    """
    return _gil(table, _measure_groups(table, labels))


def ngil(table: Table, labels: np.ndarray) -> float:
    """Return GIL divided by the numbers of rows and attributes; from 0 to 1 if all weights are 1."""
    return gil(table, labels) / (table.n_rows * len(table.quasi))


def discernibility(labels: np.ndarray) -> float:
    """Return the sum of the squared sizes of the groups; a suppressed row counts as many as there are rows."""
    return _discernibility(np.bincount(labels[labels >= 0]), len(labels), int(np.count_nonzero(labels < 0)))


def average_group_size(labels: np.ndarray, k: int = 1) -> float:
    """Return the mean size of a group divided by k (LeFevre's C_avg for the requested k), without suppressed rows."""
    return _average_size(np.bincount(labels[labels >= 0])) / k


def non_uniform_entropy(table: Table, labels: np.ndarray, *, sets: bool = False) -> float:
    """Return the bits needed to restore every value from its released value, given the frequencies of the values.

    A value v released as a set S costs -log2(rows with v / rows with a value of S) (Gionis and Tassa 2009).
    """
    return _entropy(table, _measure_groups(table, labels), sets=sets)


def classification_metric(labels: np.ndarray, target: Column) -> float:
    """Return Iyengar's classification metric: the share of rows suppressed or not of their group's majority class."""
    counts = count_groups(labels, [target]).sensitive[target.name]
    starts = counts.indptr[:-1]
    majority = np.maximum.reduceat(counts.counts, starts) if len(starts) else np.empty(0)
    # The suppressed rows are the last group, and each of them is penalised.
    right = majority.sum() - (majority[-1] if (labels < 0).any() else 0)
    return float(1.0 - right / len(labels))


class _Groups(NamedTuple):
    """Properties of a partition that losses need."""

    labels: np.ndarray
    found: Bounds
    sizes: np.ndarray
    """Number of released rows of each group."""
    n_suppressed: int
    n_rows: int
    """Number of released rows."""
    released: np.ndarray | None
    """How often each row of the table counts: 0 if not released, else the rows that it represents; None: once each."""
    as_nodes: bool
    """True if groups are released as nodes, a nominal attribute without a hierarchy as a value or the top."""


def _measure_groups(
    table: Table, labels: np.ndarray, members: np.ndarray | None = None, nodes: Nodes | None = None
) -> _Groups:
    found = bounds(table, labels) if nodes is None else Bounds(nodes.low, nodes.high)
    released = table.weights
    if members is not None:
        released = members.astype(np.int64) * (1 if released is None else released)
    counts = np.bincount(labels + 1, released, len(found.low) + 1).astype(np.int64)
    return _Groups(labels, found, counts[1:], int(counts[0]), int(counts.sum()), released, nodes is not None)


def _forms(table: Table, groups: _Groups, *, sets: bool) -> np.ndarray:
    form = forms(table, sets=sets)
    return np.where(form == SET, TREE, form) if groups.as_nodes else form


def _cell_losses(table: Table, groups: _Groups, scale: Scale, *, sets: bool) -> np.ndarray:
    """Return the mean loss over all released rows of each quasi-identifier; suppressed rows lose 1."""
    form = _forms(table, groups, sets=sets and scale != "height")
    means = np.empty(len(table.quasi))
    for j, column in enumerate(table.quasi):
        losses = _group_losses(column, form[j], groups.found, j, groups.labels, scale)
        # A column of one value cannot lose anything, even if its rows are suppressed.
        top = 1.0 if column.n_values > 1 else 0.0
        means[j] = ((losses * groups.sizes).sum() + groups.n_suppressed * top) / groups.n_rows
    return means


def _gil(table: Table, groups: _Groups) -> float:
    heights = _cell_losses(table, groups, "height", sets=False)
    return float(groups.n_rows * (heights * _weights(table)).sum())


def _entropy(table: Table, groups: _Groups, *, sets: bool) -> float:
    form = _forms(table, groups, sets=sets)
    low, high = groups.found
    total = 0.0
    for j, column in enumerate(table.quasi):
        frequency = np.bincount(column.codes, table.weights, column.n_values)
        covered = _rows_covered(column, form[j], low[:, j], high[:, j], frequency, groups.labels)
        total += float((groups.sizes * np.log2(covered)).sum() + groups.n_suppressed * np.log2(frequency.sum()))
        released = np.bincount(column.codes, groups.released, column.n_values)
        total -= float((released * np.log2(np.maximum(frequency, 1))).sum())
    return max(total, 0.0)


def _group_losses(column: Column, form: int, found: Bounds, j: int, labels: np.ndarray, scale: Scale) -> np.ndarray:
    low, high = found.low[:, j], found.high[:, j]
    if column.tree is None:
        reach = column.positions[high] - column.positions[low]
        share = reach / column.width if column.width > 0 else np.zeros(len(low))
        return np.where(low == high, 0.0, np.where(high == column.missing, 1.0, share))
    if scale == "height":
        nodes = trees.common_ancestors(column.tree.table, column.tree.last, low, high)
        return column.tree.subtree_height[nodes] / max(column.tree.height, 1)
    if form == SET:
        n = np.diff(distinct_values(column, labels).indptr)[: len(low)]
        return np.where(n > LARGEST_SET, 1.0, _share_of_values(n, column.n_values, scale))
    nodes = trees.common_ancestors(column.tree.table, column.tree.last, low, high)
    leaves = column.tree.last[nodes] - column.tree.first[nodes] + 1
    return _share_of_values(leaves, column.tree.n_leaves, scale)


def _share_of_values(n: np.ndarray, of: int, scale: Scale) -> np.ndarray:
    share = n / of if scale == "ncp" else (n - 1) / max(of - 1, 1)
    return np.where(n <= 1, 0.0, share)


def _rows_covered(
    column: Column, form: int, low: np.ndarray, high: np.ndarray, frequency: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Return how many rows of the table have a value that the group's released value may represent."""
    below = np.concatenate(([0], np.cumsum(frequency)))
    if form == SET:
        found = distinct_values(column, labels)
        totals = np.add.reduceat(frequency[found.values], found.indptr[:-1])
        return np.where(np.diff(found.indptr) > LARGEST_SET, below[-1], totals)[: len(low)]
    if form == TREE:
        assert column.tree is not None
        nodes = trees.common_ancestors(column.tree.table, column.tree.last, low, high)
        low, high = column.tree.first[nodes], column.tree.last[nodes]
    elif column.missing >= 0:
        low = np.where((high == column.missing) & (low != high), 0, low)
    return below[high + 1] - below[low]


def _discernibility(sizes: np.ndarray, n_rows: int, n_suppressed: int) -> float:
    return float((sizes.astype(float) ** 2).sum() + n_rows * n_suppressed)


def _average_size(sizes: np.ndarray) -> float:
    n_groups = np.count_nonzero(sizes)
    return float(sizes.sum() / n_groups) if n_groups else 0.0


def _weights(table: Table) -> Any:
    return np.array([column.attribute.weight for column in table.quasi])


def _weighted_mean(shares: np.ndarray, table: Table) -> float:
    weights = _weights(table)
    return float((shares * weights).sum() / weights.sum()) if weights.sum() > 0 else 0.0
