"""Losses of a partition: the information that a release no longer contains; lower is better.

A loss is one function with one registration: ``@loss(...)`` adds it to ``LOSSES``, over which releases, engines,
reports and the studio iterate. The public functions compute one loss from the encoded table and the labels of its rows
(-1: suppressed).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from shoal._kernels import hierarchy as trees
from shoal._kernels.geometry import LARGEST_SET, SET, TREE
from shoal.data.table import Column, Table
from shoal.partition.geometry import Bounds, Nodes, bounds, distinct_values, forms
from shoal.privacy.counts import count_groups

Scale = Literal["ncp", "granularity", "height"]
Addition = Literal["mean", "sum", "sizes", "never"]


@dataclass(frozen=True)
class LossMeasure:
    """One way to measure the loss of a release."""

    name: str
    description: str
    adds: Addition
    """How the losses of fragments give that of their table: by their ``"mean"`` over rows, their ``"sum"``, from the
    ``"sizes"`` of all groups, or ``"never"``."""
    function: Callable[[Any], float]
    """Measure the loss of :class:`ReleasedGroups`, or of :class:`GroupSizes` if these suffice."""


LOSSES: dict[str, LossMeasure] = {}


def loss(name: str, description: str, adds: Addition) -> Callable[[Callable[[Any], float]], Callable[[Any], float]]:
    """Register a function as a loss; for the arguments see :class:`LossMeasure`."""

    def register(function: Callable[[Any], float]) -> Callable[[Any], float]:
        LOSSES[name] = LossMeasure(name, description, adds, function)
        return function

    return register


@dataclass(frozen=True)
class Loss:
    """Losses of a release: each of ``LOSSES`` is an attribute, such as ``loss.ncp``."""

    values: dict[str, float]
    by_attribute: dict[str, float]
    """NCP of each quasi-identifier."""

    def __getattr__(self, name: str) -> float:
        # Copies and pickles ask for attributes before there are values.
        values: dict[str, float] = self.__dict__.get("values", {})
        if name not in values:
            raise AttributeError(f"There is no loss {name!r}: choose {', '.join([*values, 'by_attribute'])}.")
        return values[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.values]

    def _asdict(self) -> dict[str, Any]:
        """Return all losses by name."""
        return self.values | {"by_attribute": self.by_attribute}


class GroupSizes(NamedTuple):
    """Sums over the groups of a release, which also add up over fragments."""

    n_rows: int
    n_groups: int
    n_suppressed: int
    squares: float
    """Sum of the squared sizes of the groups."""


def sum_sizes(sizes: np.ndarray, n_suppressed: int) -> GroupSizes:
    """Add up the sizes of groups; suppressed rows are no group."""
    squares = float((sizes.astype(float) ** 2).sum())
    return GroupSizes(int(sizes.sum()) + n_suppressed, int(np.count_nonzero(sizes)), n_suppressed, squares)


def each_loss(sizes: GroupSizes, other: Callable[[LossMeasure], float]) -> dict[str, float]:
    """Return all losses: those of sizes from ``sizes``, and each other one as a function gives it."""
    return {one.name: one.function(sizes) if one.adds == "sizes" else other(one) for one in LOSSES.values()}


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
    groups = _measure_groups(table, labels, sets=sets, members=members, nodes=nodes)

    def value(one: LossMeasure) -> float:
        return math.nan if is_part and one.adds == "never" else one.function(groups)

    shares = zip(table.quasi, groups.cell_losses("ncp"), strict=True)
    return Loss(each_loss(groups.totals, value), {column.name: float(share) for column, share in shares})


@loss("ncp", "normalised certainty penalty: the share of detail that is lost, a weighted mean over attributes", "mean")
def _ncp(groups: ReleasedGroups) -> float:
    return _weighted_mean(groups.cell_losses("ncp"), groups.table)


@loss("granularity", "Iyengar's loss metric: like NCP, but n of m values lose (n - 1) / (m - 1)", "mean")
def _granularity(groups: ReleasedGroups) -> float:
    return _weighted_mean(groups.cell_losses("granularity"), groups.table)


@loss("gil", "generalisation information loss of SaNGreeA: the weighted sum over rows and attributes", "sum")
def _gil(groups: ReleasedGroups) -> float:
    return float(groups.n_rows * (groups.cell_losses("height") * _weights(groups.table)).sum())


@loss("ngil", "GIL divided by the numbers of rows and attributes", "mean")
def _ngil(groups: ReleasedGroups) -> float:
    return _gil(groups) / (groups.n_rows * len(groups.table.quasi))


@loss("discernibility", "sum of the squared group sizes, to which a suppressed row adds the number of rows", "sizes")
def _discernibility(sizes: GroupSizes) -> float:
    return sizes.squares + float(sizes.n_rows) * sizes.n_suppressed


@loss("average_group_size", "mean number of rows in a group, without suppressed rows", "sizes")
def _average_group_size(sizes: GroupSizes) -> float:
    return (sizes.n_rows - sizes.n_suppressed) / max(sizes.n_groups, 1)


@loss("non_uniform_entropy", "bits that restore every value, given the frequencies of the values", "never")
def _non_uniform_entropy(groups: ReleasedGroups) -> float:
    table, form, total = groups.table, groups.forms(), 0.0
    low, high = groups.found
    for j, column in enumerate(table.quasi):
        frequency = np.bincount(column.codes, table.weights, column.n_values)
        covered = _rows_covered(column, form[j], low[:, j], high[:, j], frequency, groups.labels)
        total += float((groups.sizes * np.log2(covered)).sum() + groups.n_suppressed * np.log2(frequency.sum()))
        released = np.bincount(column.codes, groups.released, column.n_values)
        total -= float((released * np.log2(np.maximum(frequency, 1))).sum())
    return max(total, 0.0)


def ncp(table: Table, labels: np.ndarray, *, sets: bool = False) -> float:
    """Return the normalised certainty penalty (Xu et al. 2006), the weighted mean over rows and attributes.

    A range costs its share of the column's range. A node costs its share of the hierarchy's leaves, a set its share of
    the column's values, a single value nothing. Suppressed rows, ranges that may be missing, and sets too large to be
    written out cost 1.
    """
    return _ncp(_measure_groups(table, labels, sets=sets))


def granularity(table: Table, labels: np.ndarray, *, sets: bool = False) -> float:
    """Return Iyengar's loss metric, ARX's granularity: like NCP, but n of m leaves cost (n - 1) / (m - 1)."""
    return _granularity(_measure_groups(table, labels, sets=sets))


def gil(table: Table, labels: np.ndarray) -> float:
    """Return the generalisation information loss of SaNGreeA, with weights.

    It is the sum over rows and attributes of weight times: width of the range / width of the column, or height of the
    node's sub-hierarchy / height of the hierarchy. A nominal attribute without a hierarchy has one level over its
    values.
    """
    return _gil(_measure_groups(table, labels))


def ngil(table: Table, labels: np.ndarray) -> float:
    """Return GIL divided by the numbers of rows and attributes; from 0 to 1 if all weights are 1."""
    return _ngil(_measure_groups(table, labels))


def discernibility(labels: np.ndarray) -> float:
    """Return the sum of the squared sizes of the groups; a suppressed row counts as many as there are rows."""
    return _discernibility(_sizes_of(labels))


def average_group_size(labels: np.ndarray, k: int = 1) -> float:
    """Return the mean size of a group divided by k (LeFevre's C_avg for the requested k), without suppressed rows."""
    return _average_group_size(_sizes_of(labels)) / k


def non_uniform_entropy(table: Table, labels: np.ndarray, *, sets: bool = False) -> float:
    """Return the bits needed to restore every value from its released value, given the frequencies of the values.

    A value v released as a set S costs -log2(rows with v / rows with a value of S) (Gionis and Tassa 2009).
    """
    return _non_uniform_entropy(_measure_groups(table, labels, sets=sets))


def classification_metric(labels: np.ndarray, target: Column) -> float:
    """Return Iyengar's classification metric: the share of rows suppressed or not of their group's majority class."""
    counts = count_groups(labels, [target]).sensitive[target.name]
    starts = counts.indptr[:-1]
    majority = np.maximum.reduceat(counts.counts, starts) if len(starts) else np.empty(0)
    # The suppressed rows are the last group, and each of them is penalised.
    right = majority.sum() - (majority[-1] if (labels < 0).any() else 0)
    return float(1.0 - right / len(labels))


@dataclass(eq=False)
class ReleasedGroups:
    """Properties of the groups of a release that losses need."""

    table: Table
    labels: np.ndarray
    found: Bounds
    sizes: np.ndarray
    """Number of released rows of each group."""
    n_suppressed: int
    n_rows: int
    """Number of released rows."""
    released: np.ndarray | None
    """How often each row of the table counts: 0 if not released, else the rows that it represents; None: once each."""
    sets: bool
    """True if nominal attributes are released as sets of values."""
    as_nodes: bool
    """True if groups are released as nodes, a nominal attribute without a hierarchy as a value or the top."""
    _cell_losses: dict[Scale, np.ndarray] = field(default_factory=dict)

    @property
    def totals(self) -> GroupSizes:
        """Sums over the groups."""
        return sum_sizes(self.sizes, self.n_suppressed)

    def forms(self, *, sets: bool | None = None) -> np.ndarray:
        """Return how each quasi-identifier generalises: LINE, TREE or SET."""
        form = forms(self.table, sets=self.sets if sets is None else sets)
        return np.where(form == SET, TREE, form) if self.as_nodes else form

    def cell_losses(self, scale: Scale) -> np.ndarray:
        """Return the mean loss over all released rows of each quasi-identifier; suppressed rows lose 1."""
        if scale in self._cell_losses:
            return self._cell_losses[scale]
        form = self.forms(sets=self.sets and scale != "height")
        means = np.empty(len(self.table.quasi))
        for j, column in enumerate(self.table.quasi):
            losses = _group_losses(column, form[j], self.found, j, self.labels, scale)
            # A column of one value cannot lose anything, even if its rows are suppressed.
            top = 1.0 if column.n_values > 1 else 0.0
            means[j] = ((losses * self.sizes).sum() + self.n_suppressed * top) / self.n_rows
        self._cell_losses[scale] = means
        return means


def _measure_groups(
    table: Table,
    labels: np.ndarray,
    *,
    sets: bool = False,
    members: np.ndarray | None = None,
    nodes: Nodes | None = None,
) -> ReleasedGroups:
    found = bounds(table, labels) if nodes is None else Bounds(nodes.low, nodes.high)
    released = table.weights
    if members is not None:
        released = members.astype(np.int64) * (1 if released is None else released)
    counts = np.bincount(labels + 1, released, len(found.low) + 1).astype(np.int64)
    n_suppressed, n_rows = int(counts[0]), int(counts.sum())
    return ReleasedGroups(table, labels, found, counts[1:], n_suppressed, n_rows, released, sets, nodes is not None)


def _sizes_of(labels: np.ndarray) -> GroupSizes:
    return sum_sizes(np.bincount(labels[labels >= 0]), int(np.count_nonzero(labels < 0)))


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


def _weights(table: Table) -> Any:
    return np.array([column.attribute.weight for column in table.quasi])


def _weighted_mean(shares: np.ndarray, table: Table) -> float:
    weights = _weights(table)
    return float((shares * weights).sum() / weights.sum()) if weights.sum() > 0 else 0.0
