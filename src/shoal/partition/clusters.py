"""Clusters as SaNGreeA grows them, all at once or step by step.

A cluster starts with one row and repeatedly adds the row with which it costs least. The cost of a cluster is the sum
over the quasi-identifiers of weight times: width of its range relative to that of the column, or height of the common
ancestor relative to that of the hierarchy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal._kernels import sangreea as kernel
from shoal._kernels import sangreea_joining, sangreea_leftovers, sangreea_links, sangreea_tree
from shoal._kernels.geometry import LINE
from shoal._kernels.guard import Guard, rows_hold
from shoal._kernels.sangreea_lacking import Lacking, open_lacking
from shoal._kernels.sangreea_links import Links
from shoal._kernels.sangreea_space import Space
from shoal._kernels.sangreea_tree import BoxTree
from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.table import Column, Table
from shoal.errors import GuaranteeError, ShoalError
from shoal.parameters import Real, Whole
from shoal.partition.geometry import forms

Weights = Mapping[str, float] | None


class Candidates(NamedTuple):
    """Rows that a cluster could add, cheapest first."""

    rows: np.ndarray
    costs: np.ndarray
    """Cost of the cluster with each of them."""


class Clustering:
    """Stepwise assignment of rows to clusters, by a person, by the algorithm, or by both in turn.

    Parameters
    ----------
    table : Table
        The encoded rows.
    smallest : int
        Minimum number of rows of a cluster.
    weights : mapping from names to numbers, optional
        Weights of attributes that differ from those of the schema.
    guard : Guard, optional
        Rules that every cluster must satisfy besides its size.
    seeds : sequence of rows, optional
        The order in which rows start clusters, if they are still unassigned by then; by default as in the table.
        Rows that are not listed do not start any.

    Attributes
    ----------
    labels : int array (n_rows,)
        The cluster of each row, from 0 on; -1 for unassigned rows, and for those of the open cluster.
    members : list of int
        The rows of the open cluster, in the order in which they were added.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Attribute, Schema
    >>> from shoal.data.table import encode
    >>> people = pl.DataFrame({"age": [20, 60, 23, 55, 21]})
    >>> clustering = Clustering(encode(people, Schema([Attribute("age")])), 2)
    >>> clustering.begin()
    0
    >>> clustering.candidates(2)
    Candidates(rows=array([4, 2]), costs=array([0.025, 0.075]))
    >>> clustering.assign(2)
    >>> clustering.finish()
    0
    >>> clustering.complete().tolist()
    [0, 1, 0, 1, 0]
    """

    def __init__(
        self,
        table: Table,
        smallest: int,
        *,
        weights: Weights = None,
        guard: Guard | None = None,
        seeds: Sequence[int] | np.ndarray | None = None,
    ) -> None:
        Whole(least=1).check("smallest", smallest)
        if table.n_rows < smallest:
            raise GuaranteeError(
                f"A cluster of {smallest} rows cannot be reached with {table.n_rows} rows: choose a smaller one."
            )
        self.table = table
        self.smallest = smallest
        self.labels = np.full(table.n_rows, -1, np.int64)
        self.members: list[int] = []
        self.reweigh(weights)
        self._guard = guard if guard is not None and len(guard.rules.model) else None
        if self._guard is not None and not rows_hold(self._guard, np.arange(table.n_rows)):
            raise GuaranteeError("The whole table as one cluster violates a constraint: relax the constraints.")
        self._seeds = np.arange(table.n_rows) if seeds is None else _read_seeds(seeds, table.n_rows)
        self._codes = codes_of(table)
        self._taken = np.zeros(table.n_rows, np.uint8)
        self._n_clusters = 0
        self._boxes: BoxTree | None = None

    def reweigh(self, weights: Weights) -> None:
        """Use other weights of attributes from now on; those that are not named get the weight of the schema."""
        self.weights = weights_of(self.table, weights)
        self._space = measure_space(self.table, self.weights)

    def seed(self) -> int | None:
        """Return the row that starts the next cluster; None if fewer rows than a cluster needs are left."""
        free = self._seeds[self._taken[self._seeds] == 0]
        return int(free[0]) if len(free) >= self.smallest else None

    def begin(self, row: int | None = None) -> int:
        """Open a cluster with a row, by default with :meth:`seed`; return the row."""
        if self.members:
            raise ShoalError(f"A cluster of {len(self.members)} rows is open: finish it before starting another.")
        first = self.seed() if row is None else row
        if first is None:
            raise ShoalError(
                f"Fewer than {self.smallest} rows are left, too few for a cluster: complete() disperses them."
            )
        self.assign(first)
        return first

    def candidates(self, most: int = 10) -> Candidates:
        """Return the rows that are cheapest to add, and the cost of the open cluster with each; ties in row order."""
        self._require_open()
        Whole(least=1).check("most", most)
        n_wanted = min(int(most), self.table.n_rows)
        return Candidates(
            *kernel.cheapest(self._space, self._codes, self._current_boxes(), self._taken, self._rows(), n_wanted)
        )

    def assign(self, row: int) -> None:
        """Add a row to the open cluster."""
        self._require_free(row)
        kernel.take_rows(self._current_boxes(), self._taken, np.array([row], np.int64))
        self.members.append(int(row))

    def grow(self) -> list[int]:
        """Add the cheapest rows to the open cluster until it is complete; return those that were added.

        Beyond the size that it needs, only rows that bring a violated constraint closer are added. If there are not
        enough rows, nothing is added.
        """
        self._require_open()
        rows, complete = kernel.grow_one(
            self._space, self._codes, self._current_boxes(), self._taken, self._rows(), self.smallest, *self._wanted()
        )
        added = rows[len(self.members) :] if complete else rows[:0]
        kernel.take_rows(self._current_boxes(), self._taken, added)
        self.members += added.tolist()
        return added.tolist()  # type: ignore[no-any-return]

    def finish(self) -> int:
        """Close the open cluster; return its number."""
        self._require_open()
        if len(self.members) < self.smallest:
            raise ShoalError(
                f"The open cluster has {len(self.members)} rows and needs {self.smallest}: assign more, or call grow()."
            )
        if self._guard is not None and not rows_hold(self._guard, self._rows()):
            raise ShoalError("The open cluster does not satisfy every constraint yet: assign more, or call grow().")
        self.labels[self._rows()] = self._n_clusters
        self.members = []
        self._n_clusters += 1
        return self._n_clusters - 1

    def drop(self) -> None:
        """Discard the open cluster; its rows become unassigned."""
        self._taken[self._rows()] = 0
        self.members = []
        self._boxes = None

    def grown_from(self, row: int, *, weights: Weights = None, smallest: int | None = None) -> np.ndarray:
        """Return the rows of a cluster that would be grown from an unassigned row; nothing changes."""
        self._require_free(row)
        space = self._space if weights is None else measure_space(self.table, weights_of(self.table, weights))
        size = self.smallest if smallest is None else smallest
        Whole(least=1).check("smallest", size)
        rows, _ = kernel.grow_one(
            space, self._codes, self._current_boxes(), self._taken, np.array([row], np.int64), size, *self._wanted()
        )
        return rows  # type: ignore[no-any-return]

    def complete(self, links: Links | None = None) -> np.ndarray:
        """Assign all other rows; return the labels.

        The open cluster is grown until it is complete, then further clusters are grown. Remaining rows go, one by one
        in row order, to the cluster whose loss (cost times rows) grows least and that satisfies every constraint with
        them; if none does, they are merged with as many clusters as necessary. If no cluster can be completed, all rows
        are one.
        """
        if self.members:
            self.grow()
            if len(self.members) >= self.smallest and self._holds():
                self.finish()
            else:
                self.drop()
        self._grow_all(links)
        rest = np.flatnonzero(self.labels < 0)
        if self._n_clusters == 0:
            self.labels[:] = 0
        elif len(rest):
            if self._guard is None or links is not None:
                sangreea_leftovers.disperse(
                    self._space, self._codes, self.labels, self._n_clusters, rest, self._guard, links
                )
            else:
                self._join(rest, self._guard)
            self.labels = np.unique(self.labels, return_inverse=True)[1].reshape(-1)
        self._taken[:] = 1
        self._n_clusters = int(self.labels.max()) + 1
        return self.labels

    def _grow_all(self, links: Links | None) -> None:
        at = 0
        while at < len(self._seeds):
            boxes = self._build_boxes()
            lacking = None if self._guard is None else open_lacking(boxes, self._guard)
            task = (self._seeds, at, self._taken, self.smallest, self._guard, lacking, self.labels, self._n_clusters)
            if links is None:
                self._n_clusters, at = kernel.grow_all(self._space, self._codes, boxes, *task)
            else:
                self._n_clusters, at = sangreea_links.grow_in_network(self._space, self._codes, boxes, links, *task)

    def _join(self, rest: np.ndarray, guard: Guard) -> None:
        """Assign remaining rows to the clusters that are cheapest and satisfy all rules with them."""
        assigned = np.flatnonzero(self.labels >= 0)
        first = assigned[np.unique(self.labels[assigned], return_index=True)[1]]
        boxes = sangreea_tree.build(self._space, self._codes, np.sort(first), self.table.n_rows)
        profiles = _profiles(guard)
        stuck = sangreea_joining.join(self._space, self._codes, self.labels, rest, guard, boxes, first, profiles)
        if len(stuck):
            sangreea_leftovers.merge(self._space, self._codes, self.labels, self._n_clusters, stuck, guard)

    def _wanted(self) -> tuple[Guard | None, Lacking | None]:
        """Return the rules of a cluster, and a buffer for the values that it lacks."""
        return self._guard, None if self._guard is None else open_lacking(self._current_boxes(), self._guard)

    def _holds(self) -> bool:
        return self._guard is None or bool(rows_hold(self._guard, self._rows()))

    def _rows(self) -> np.ndarray:
        return np.array(self.members, np.int64)

    def _current_boxes(self) -> BoxTree:
        """Return boxes over the unassigned rows, rebuilt when many of theirs are assigned."""
        n_left = self.table.n_rows - np.count_nonzero(self._taken)
        if self._boxes is None or n_left < kernel.REBUILD_BELOW * len(self._boxes.rows):
            self._boxes = self._build_boxes()
        return self._boxes

    def _build_boxes(self) -> BoxTree:
        left = np.flatnonzero(self._taken == 0)
        return sangreea_tree.build(self._space, self._codes, left, self.table.n_rows)  # type: ignore[no-any-return]

    def _require_open(self) -> None:
        if not self.members:
            raise ShoalError("No cluster is open: call begin(), or assign a row.")

    def _require_free(self, row: Any) -> None:
        Whole(least=0, most=self.table.n_rows - 1).check("row", row)
        if self._taken[int(row)]:
            raise ShoalError(f"Row {row} is already in a cluster: choose one whose label is -1.")


def _read_seeds(seeds: Sequence[int] | np.ndarray, n_rows: int) -> np.ndarray:
    rows = np.asarray(seeds)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ShoalError(f"seeds must be a list of row positions, not {seeds!r}: count rows from 0.")
    wrong = rows[(rows < 0) | (rows >= n_rows)]
    if len(wrong):
        raise ShoalError(f"seeds name the row {wrong[0]}, but rows are numbered from 0 to {n_rows - 1}: correct them.")
    if len(np.unique(rows)) < len(rows):
        raise ShoalError("seeds name a row more than once: remove the duplicates.")
    return rows.astype(np.int64)


def _profiles(guard: Guard) -> np.ndarray:
    """Return a number for each combination of values that the rules use; -1 throughout if there are too many."""
    numbers = guard.members.astype(np.int64) if len(guard.members) else np.zeros(len(guard.sensitive), np.int64)
    for column, n_values in zip(guard.sensitive.T, guard.rules.n_values, strict=True):
        numbers = np.unique(numbers * n_values + column, return_inverse=True)[1].reshape(-1)
    if numbers.max() >= sangreea_joining.MOST_PROFILES:
        numbers[:] = -1
    return numbers.astype(np.int64)


def weights_of(table: Table, weights: Weights) -> np.ndarray:
    """Return the weight of each quasi-identifier: as given, else as in the schema."""
    found = {column.name: float(column.attribute.weight) for column in table.quasi}
    for name, weight in dict(weights or {}).items():
        if name not in found:
            raise ShoalError(f"weights names {name!r}, which is not a quasi-identifier: choose {', '.join(found)}.")
        Real(least=0).check(f"The weight of {name!r}", weight)
        found[name] = float(weight)
    return np.array(list(found.values()))


def codes_of(table: Table) -> np.ndarray:
    """Return the codes of the quasi-identifiers in the type that kernels expect."""
    return table.codes.astype(np.int32)


def measure_space(table: Table, weights: np.ndarray) -> Space:
    """Return the costs of the codes of the quasi-identifiers, as arrays for kernels."""
    columns = table.quasi
    trees = [_tree_of(column, form) for column, form in zip(columns, forms(table), strict=True)]
    losses = [w * node_costs(tree) for tree, w in zip(trees, weights, strict=True) if tree is not None]
    return Space(
        line=np.array([tree is None for tree in trees], np.uint8),
        weight=weights,
        n_values=np.array([column.n_values for column in columns], np.int64),
        missing=np.array([c.missing if tree is None else -1 for c, tree in zip(columns, trees, strict=True)], np.int64),
        # A constant column has no width, and all distances in it are 0.
        width=np.array([column.width or 1.0 for column in columns]),
        position=_joined([column.positions for column in columns], np.float64),
        position_at=_starts([column.n_values for column in columns]),
        first=_joined([tree.first for tree in trees if tree is not None], np.int64),
        last=_joined([tree.last for tree in trees if tree is not None], np.int64),
        parent=_joined(_parents(trees), np.int64),
        mask=_joined([_masks(tree) for tree in trees if tree is not None], np.uint64),
        loss=_joined(losses, np.float64),
        node_at=_starts([0 if tree is None else tree.n_nodes for tree in trees]),
    )


def node_costs(tree: Hierarchy) -> np.ndarray:
    """Return the cost of each node: its level above the lowest one, relative to the height of the tree.

    That is (depth - level) / depth with levels counted down from the root, as SaNGreeA counts them. A value that is
    kept costs nothing, even if it is less deep than others.
    """
    return tree.level / max(tree.height, 1)


def _tree_of(column: Column, form: int) -> Hierarchy | None:
    return None if form == LINE else column.tree


def _parents(trees: list[Hierarchy | None]) -> list[np.ndarray]:
    found, at = [], 0
    for tree in trees:
        if tree is not None:
            found.append(tree.parent.astype(np.int64) + at)
            at += tree.n_nodes
    return found


def _masks(tree: Hierarchy) -> np.ndarray:
    """Return a bit for each value below a node; boxes use them only if there are no more than 64."""
    first, last = np.minimum(tree.first, 63), np.minimum(tree.last, 63)
    ones = np.uint64(2**64 - 1)
    return (ones << first.astype(np.uint64)) & (ones >> (63 - last).astype(np.uint64))


def _joined(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *arrays]).astype(dtype)


def _starts(lengths: list[int]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
