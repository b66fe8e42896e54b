"""A grown tree: its nodes, their predictions, and the importance of each feature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from shoal._kernels import tree as growing
from shoal._kernels import tree_use as kernel
from shoal._kernels.tree_data import ORDERED
from shoal.errors import DataError
from shoal.partition.binned_trees import Grown
from shoal.trees._features import Binned, Names


class Branches(NamedTuple):
    """The splits; node 0 is the root, and children follow their parents."""

    nodes: np.ndarray
    """``tree_use.NODE`` (n,)"""
    side: np.ndarray
    """uint64 (n, 4): a bit for each code of a nominal value that goes left."""


class Sums(NamedTuple):
    """Statistics of the rows of each node."""

    value: np.ndarray
    """float64 (n, m): the share of each class, or the mean of each output."""
    impurity: np.ndarray
    weight: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True, eq=False)
class Tree:
    """The nodes of a tree, named as in scikit-learn's ``tree_``."""

    branches: Branches
    sums: Sums
    n_features: int

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state from a file if it is a valid tree: kernels descend without checks."""
        self.__dict__.update(state)
        nodes, side = self.branches
        n = len(nodes)
        if nodes.dtype != kernel.NODE or side.dtype != np.uint64 or side.shape != (n, growing.SIDE_WORDS):
            raise DataError("The file holds a tree with nodes of another type or shape: save the model again.")
        leaf = nodes["left"] == np.arange(n)
        inner = np.flatnonzero(~leaf)
        left = nodes["left"][inner]
        whole = n > 0 and all(len(column) == n for column in self.sums) and self.sums.value.ndim == 2
        if (
            not whole
            or (left <= inner).any()
            or (left + 1 >= n).any()
            or (nodes["threshold"][leaf] != np.inf).any()
            or not _within(nodes["feature"], self.n_features)
        ):
            raise DataError("The file holds a tree with inconsistent nodes: save the model again.")

    @cached_property
    def children_left(self) -> np.ndarray:
        """The left child of each node; -1 in a leaf."""
        left = self.branches.nodes["left"]
        return np.where(left == np.arange(len(left)), -1, left).astype(np.int32)

    @property
    def children_right(self) -> np.ndarray:
        """The right child of each node; -1 in a leaf."""
        left = self.children_left
        return np.where(left < 0, -1, left + 1).astype(np.int32)

    @property
    def is_leaf(self) -> np.ndarray:
        """Mask of the leaves."""
        return np.asarray(self.children_left < 0)

    @property
    def feature(self) -> np.ndarray:
        """The feature of each split; -2 in a leaf, as in scikit-learn."""
        return np.where(self.is_leaf, LEAF_FEATURE, self.branches.nodes["feature"])

    @property
    def threshold(self) -> np.ndarray:
        """Highest number that goes left; NaN for splits on nominal values, and in leaves."""
        return np.where(self.is_leaf, np.nan, self.branches.nodes["threshold"])

    @property
    def value(self) -> np.ndarray:
        """The prediction of each node: the share of each class, or the mean of each output."""
        return self.sums.value

    @property
    def impurity(self) -> np.ndarray:
        """The impurity of each node."""
        return self.sums.impurity

    @property
    def n_node_samples(self) -> np.ndarray:
        """The number of rows of each node."""
        return self.sums.rows

    @property
    def weighted_n_node_samples(self) -> np.ndarray:
        """The weight of the rows of each node."""
        return self.sums.weight

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return len(self.branches.nodes)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.is_leaf))

    @cached_property
    def depth(self) -> np.ndarray:
        """The distance of each node from the root."""
        depth = np.zeros(self.node_count, np.int64)
        for node in np.flatnonzero(~self.is_leaf):
            left = self.children_left[node]
            depth[left : left + 2] = depth[node] + 1
        return depth

    @property
    def max_depth(self) -> int:
        """The depth of the deepest leaf."""
        return int(self.depth.max())

    def importances(self) -> np.ndarray:
        """Return the decrease of the impurity by the splits on each feature, weighted by the share of rows at each.

        These are the paper's equations (1) and (2); scikit-learn divides by the sum over all features.
        """
        inner = np.flatnonzero(~self.is_leaf)
        left = self.children_left[inner]
        weighted = self.sums.impurity * self.sums.weight
        lowered = weighted[inner] - weighted[left] - weighted[left + 1]
        total = np.bincount(self.feature[inner], weights=lowered, minlength=self.n_features)
        return np.asarray(total / self.sums.weight[0])

    def count_splits(self) -> np.ndarray:
        """Return the number of splits on each feature."""
        return np.bincount(self.feature[~self.is_leaf], minlength=self.n_features)

    def count_split_rows(self) -> np.ndarray:
        """Return the share of the rows that each split separates, summed by feature."""
        inner = ~self.is_leaf
        shares = self.n_node_samples[inner] / self.n_node_samples[0]
        return np.bincount(self.feature[inner], weights=shares, minlength=self.n_features)

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return the leaf of each row."""
        leaves = np.empty(len(values), np.int32)
        kernel.find_leaves(*self.branches, values, is_complete(values) and self.asks_numbers, leaves)
        return leaves

    @cached_property
    def asks_numbers(self) -> bool:
        """True if no split is on nominal values."""
        return not (self.branches.nodes["marks"] & kernel.NAMES).any()

    def answers(self, values: np.ndarray) -> np.ndarray:
        """Return the prediction of the leaf of each row."""
        return np.asarray(self.sums.value[self.apply(values)])

    def decision_path(self, values: np.ndarray) -> Any:
        """Return a sparse matrix that marks the nodes on the path of each row."""
        paths = self._paths[self.apply(values)]
        return csr_matrix(paths)

    @cached_property
    def _paths(self) -> Any:
        """Sparse matrix that marks each node and its ancestors."""
        parent = np.full(self.node_count, -1)
        inner = np.flatnonzero(~self.is_leaf)
        parent[self.children_left[inner]] = parent[self.children_left[inner] + 1] = inner
        nodes, ancestors = [np.arange(self.node_count)], [np.arange(self.node_count)]
        while len(nodes[-1]):
            above = parent[ancestors[-1]]
            nodes.append(nodes[-1][above >= 0])
            ancestors.append(above[above >= 0])
        rows, columns = np.concatenate(nodes), np.concatenate(ancestors)
        return csr_matrix((np.ones(len(rows), np.int64), (rows, columns)), shape=(self.node_count, self.node_count))

    def pruned(self, alpha: float) -> Tree:
        """Remove subtrees that lower the impurity by at most ``alpha`` per leaf (cost-complexity pruning)."""
        if alpha <= 0 or self.node_count == 1:
            return self
        risk = self.sums.impurity * self.sums.weight / self.sums.weight[0]
        is_leaf, remains = kernel.prune(self.children_left, self.children_right, risk, alpha)
        number = np.cumsum(remains) - 1
        nodes = self.branches.nodes.copy()
        # Siblings are kept or removed together, so the right child still follows the left one.
        nodes["left"] = number[nodes["left"]]
        nodes[is_leaf] = kernel.make_leaves(number[is_leaf])
        branches = Branches(nodes[remains], self.branches.side[remains])
        return replace(self, branches=branches, sums=Sums(*(column[remains] for column in self.sums)))


LEAF_FEATURE = -2


def is_complete(values: np.ndarray) -> bool:
    """Return True if no value is missing."""
    return not np.isnan(values).any()


def _within(numbers: np.ndarray, n: int) -> bool:
    return bool(((numbers >= 0) & (numbers < n)).all())


def build_tree(grown: Grown, binned: Binned, sums: Sums) -> Tree:
    """Return the grown tree with splits on raw values instead of bins."""
    is_leaf = grown.nodes[:, growing.LEFT] < 0
    feature = np.where(is_leaf, 0, grown.nodes[:, growing.ATTRIBUTE])
    is_names = np.array([isinstance(one, Names) for one in binned.features])
    threshold, missing_left = _thresholds(grown, binned)
    nodes = np.zeros(len(is_leaf), kernel.NODE)
    nodes["threshold"], nodes["left"], nodes["feature"] = threshold, grown.nodes[:, growing.LEFT], feature
    nodes["marks"] = kernel.NAMES * is_names[feature] + kernel.MISSING_LEFT * missing_left
    nodes[is_leaf] = kernel.make_leaves(np.flatnonzero(is_leaf))
    return Tree(Branches(nodes, grown.side), sums, len(binned.features))


def _thresholds(grown: Grown, binned: Binned) -> tuple[np.ndarray, np.ndarray]:
    """Return the middle between the numbers next to each cut, and a mask of cuts that send missing numbers left."""
    nodes, attributes, n = grown.nodes, binned.attributes, len(grown.nodes)
    attribute = nodes[:, growing.ATTRIBUTE]
    asked = np.flatnonzero((nodes[:, growing.LEFT] >= 0) & (attributes.form[attribute] == ORDERED))
    attribute, below, above = attribute[asked], nodes[asked, growing.BELOW], nodes[asked, growing.ABOVE]
    missing, first = attributes.missing[attribute], attributes.first[attribute]
    low = np.where(below == missing, -np.inf, binned.high[first + below])
    high = np.where(above == missing, np.inf, binned.low[first + above])
    middle = low / 2 + high / 2
    threshold = np.full(n, np.nan)
    # The middle may round up to the higher number, which must not go left.
    threshold[asked] = np.where((middle < high) | np.isinf(high), middle, low)
    missing_left = np.zeros(n, bool)
    word, bit = missing >> 6, (missing & 63).astype(np.uint64)
    missing_left[asked] = (missing >= 0) & ((grown.side[asked, word] >> bit) & np.uint64(1) != 0)
    return threshold, missing_left


def sum_classes(grown: Grown, codes: np.ndarray, weight: np.ndarray, n_classes: int, criterion: str) -> Sums:
    """Return the shares of the classes in each node; ``weight`` is empty if all rows weigh 1."""
    sums, rows = np.zeros((len(grown.nodes), n_classes)), np.empty(len(grown.nodes), np.int64)
    kernel.sum_classes(grown.nodes, grown.samples.order, codes, weight, sums, rows)
    total = sums.sum(axis=1)
    shares = sums / total[:, None]
    if criterion == "gini":
        return Sums(shares, 1.0 - (shares**2).sum(axis=1), total, rows)
    logs = np.log2(shares, where=shares > 0, out=np.zeros_like(shares))
    return Sums(shares, -(shares * logs).sum(axis=1), total, rows)


def sum_numbers(grown: Grown, outputs: np.ndarray, weight: np.ndarray) -> Sums:
    """Return the means of the outputs (n, m) in each node, and their mean variance."""
    weight = weight if len(weight) else np.ones(len(outputs))
    m = outputs.shape[1]
    center = np.average(outputs, axis=0, weights=weight)
    centered = outputs - center
    amounts = np.column_stack([weight, weight[:, None] * centered, weight[:, None] * centered**2])
    sums, rows = np.zeros((len(grown.nodes), 2 * m + 1)), np.empty(len(grown.nodes), np.int64)
    kernel.sum_nodes(grown.nodes, grown.samples.order, amounts, sums, rows)
    total = sums[:, 0]
    means, squares = sums[:, 1 : m + 1] / total[:, None], sums[:, m + 1 :] / total[:, None]
    return Sums(means + center, np.maximum(squares - means**2, 0.0).mean(axis=1), total, rows)
