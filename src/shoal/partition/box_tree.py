"""Disjoint boxes of rows that can be updated incrementally, and the frames that store such rows.

A tree of cuts partitions the space of all possible rows, so that every row, present or not, has exactly one box. Rows
are numbers; the tree knows them by their *keys*, one float per attribute, which never change while other rows are added
and removed. The cost of a change depends on the rows it affects, not on the size of the table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal._kernels import boxes as kernel
from shoal._kernels import groups
from shoal._kernels.boxes import FREE, LOOSE, NOWHERE, BoxCuts, Undo
from shoal.data import frames
from shoal.data.value_text import plain_text
from shoal.errors import DataError
from shoal.partition.cut_tree import Cuts

MOST_LEAVES = 4
"""Maximum number of groups on the other side of a cut that are merged with a failing one. If there are more, the cut is
undone and they share its rows instead, so that removing a single row never moves a large part of a large table."""


class Loose(NamedTuple):
    """Rows that are being moved, and the current group of each; -1 if it has none."""

    rows: np.ndarray
    group: np.ndarray


class BoxPartition:
    """A tree of cuts, and the rows in each of its leaves.

    Parameters
    ----------
    cuts : Cuts
        Their rule is two arrays: rows with low <= key <= high go left.
    labels : int array (n_rows,)
        The leaf of each row; its number becomes the number of its group.
    """

    def __init__(self, cuts: Cuts, labels: np.ndarray) -> None:
        low, high = cuts.rule
        parent = np.empty(len(cuts.attribute), np.int32)
        kernel.parents(cuts.attribute, cuts.left, cuts.right, parent)
        self._tree = BoxCuts(
            cuts.attribute.copy(), low.copy(), high.copy(), cuts.left.copy(), cuts.right.copy(), parent
        )
        self._n_nodes = len(parent)
        self._labels = labels.astype(np.int32)
        self.n_rows = self.n_present = len(labels)
        """Number of rows in total, including removed ones with the label -1, and of present rows."""
        leaves = np.flatnonzero(cuts.attribute < 0)
        self.n_groups = len(leaves)
        """Number of group numbers in use or free again."""
        self._node = np.empty(len(leaves), np.int32)
        self._node[cuts.right[leaves]] = leaves
        self._into = np.full(len(leaves), NOWHERE, np.int32)
        self._free, self._n_free = np.empty(0, np.int32), 0
        self._undo: list[Undo] = []
        self._lay_out()

    @property
    def labels(self) -> np.ndarray:
        """Group of each row; -1 for removed rows."""
        return self._labels[: self.n_rows]

    @property
    def in_use(self) -> np.ndarray:
        """Mask of the group numbers in use."""
        return self._node[: self.n_groups] != FREE

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the groups whose boxes contain these rows."""
        found = np.empty(len(keys), np.int32)
        kernel.descend(self._tree, np.ascontiguousarray(keys, np.float64), found)
        return found

    def members(self, chosen: np.ndarray) -> Loose:
        """Return the rows of some groups, group by group."""
        n = int(self._size[chosen].sum())
        loose = Loose(np.empty(n, np.int64), np.empty(n, np.int32))
        kernel.gather(self._pool, self._start, self._size, chosen, loose.rows, loose.group)
        return loose

    def merge(self, failing: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Undo the cuts that created these groups; return removed groups, and the group of their rows now.

        -1 means that every row must find its own group. None is returned if the whole table fails. The changes can be
        undone by :meth:`roll_back` until :meth:`replace` commits them.
        """
        n_nodes, n_groups = 3 * len(failing), (MOST_LEAVES + 2) * len(failing)
        undo = Undo(
            np.zeros(2, np.int64),
            np.empty(n_nodes, np.int32),
            BoxCuts(*(np.empty(n_nodes, array.dtype) for array in self._tree)),
            np.empty(n_groups, np.int32),
            np.empty(n_groups, np.int32),
        )
        self._undo.append(undo)
        moved = np.empty((MOST_LEAVES + 1) * len(failing), np.int64)
        n_moved = kernel.merge(self._tree, self._node, self._into, failing, MOST_LEAVES, undo, moved)
        changed = undo.group[: undo.noted[1]]
        if n_moved < 0:
            self._into[changed] = NOWHERE
            return None
        moved = moved[:n_moved]
        target = self._into[moved]
        while True:
            further = np.where(target >= 0, self._into[np.maximum(target, 0)], NOWHERE)
            if (further == NOWHERE).all():
                break
            target = np.where(further == NOWHERE, target, further)
        self._into[changed] = NOWHERE
        return moved, np.where(target == LOOSE, -1, target)

    def roll_back(self) -> None:
        """Undo every merge since the last committed change."""
        while self._undo:
            kernel.roll_back(self._undo.pop(), self._tree, self._node)

    def take_numbers(self, n: int, freed: np.ndarray) -> np.ndarray:
        """Return numbers for new groups: those freed by this change, then those that were free, then new ones."""
        freed = np.sort(freed)[:n]
        n_free = min(n - len(freed), self._n_free)
        free = self._free[self._n_free - n_free : self._n_free][::-1]
        fresh = np.arange(self.n_groups, self.n_groups + n - len(freed) - n_free)
        return np.concatenate([freed, free, fresh]).astype(np.int32)

    def replace(
        self, old: np.ndarray, roots: np.ndarray, trees: Cuts, numbers: np.ndarray, loose: Loose, gone: np.ndarray
    ) -> None:
        """Commit a change.

        Parameters
        ----------
        old : int array (groups before,)
            All groups involved, including merged ones.
        roots : int array (parts, 2)
            The groups whose leaves are grown into trees, and the first node of each tree.
        trees : Cuts
            The trees, concatenated; the leaves are numbered consecutively.
        numbers : int array (leaves,)
            The group numbers of the leaves.
        loose : Loose
            The rows in these leaves, leaf by leaf, with their new groups.
        gone : int array
            Rows that are no longer in any group.
        """
        self._undo.clear()
        nodes = self._node[roots[:, 0]].copy()
        over = old[~np.isin(old, numbers)]
        n_taken = int(np.count_nonzero(~np.isin(numbers, old) & (numbers < self.n_groups)))
        self._make_room(numbers, loose)
        self._graft(nodes, roots[:, 1], trees, numbers)
        self._n_free += len(over) - n_taken
        self._free = longer(self._free, self._n_free, FREE)
        self._free[self._n_free - len(over) : self._n_free] = over[::-1]
        self._node[over] = FREE
        self._size[over] = 0
        self.n_present += int(np.count_nonzero(self._labels[loose.rows] < 0)) - len(gone)
        self._labels[gone] = -1
        self._labels[loose.rows] = loose.group
        self.n_rows = max(self.n_rows, int(loose.rows.max(initial=-1)) + 1)
        sizes = np.bincount(np.searchsorted(np.sort(numbers), loose.group), minlength=len(numbers))
        sizes = sizes[np.argsort(np.argsort(numbers))]
        self._size[numbers] = sizes
        self._start[numbers] = self._n_pool + np.concatenate(([0], np.cumsum(sizes)[:-1]))
        self._pool[self._n_pool : self._n_pool + len(loose.rows)] = loose.rows
        self._n_pool += len(loose.rows)

    def cuts(self) -> tuple[Cuts, np.ndarray]:
        """Return the tree without unused nodes, its leaves numbered from left to right, and their groups."""
        nodes, left, right = kernel.tidy(self._tree, max(int(self.in_use.sum()), 1))
        tree = self._tree
        attribute = tree.attribute[nodes]
        leaves = attribute < 0
        return Cuts(attribute, left, right, (tree.low[nodes], tree.high[nodes])), tree.right[nodes[leaves]]

    def compacted(self) -> BoxPartition:
        """Return the same boxes and group numbers without space for removed rows: the others are renumbered."""
        cuts, group_of_leaf = self.cuts()
        leaf_of_group = np.full(self.n_groups, -1, np.int32)
        leaf_of_group[group_of_leaf] = np.arange(len(group_of_leaf))
        labels = self.labels[self.labels >= 0]
        made = BoxPartition(cuts, leaf_of_group[labels])
        made._renumber(group_of_leaf, self.n_groups, self._free[: self._n_free].copy())
        return made

    def _renumber(self, numbers: np.ndarray, n_groups: int, free: np.ndarray) -> None:
        """Give the leaves, so far numbered from left to right, other group numbers."""
        leaves = self._node.copy()
        self._tree.right[leaves] = numbers
        self._node = np.full(n_groups, FREE, np.int32)
        self._node[numbers] = leaves
        self._into = np.full(n_groups, NOWHERE, np.int32)
        self._free, self._n_free, self.n_groups = free, len(free), n_groups
        self._labels = numbers[self._labels].astype(np.int32)
        self._lay_out()

    def _lay_out(self) -> None:
        """Store the rows of each group contiguously."""
        labels = self.labels
        there = np.flatnonzero(labels >= 0) if (labels < 0).any() else None
        order, starts = groups.order_by_label(labels if there is None else labels[there], self.n_groups)
        self._pool = order if there is None else there[order]
        self._n_pool = len(self._pool)
        self._start, self._size = starts[:-1].copy(), np.diff(starts)

    def _make_room(self, numbers: np.ndarray, loose: Loose) -> None:
        n_groups = max(self.n_groups, int(numbers.max(initial=-1)) + 1)
        self._node = longer(self._node, n_groups, FREE)
        self._into = longer(self._into, n_groups, NOWHERE)
        self._start, self._size = longer(self._start, n_groups, 0), longer(self._size, n_groups, 0)
        self.n_groups = n_groups
        self._labels = longer(self._labels, int(loose.rows.max(initial=-1)) + 1, -1)
        if self._n_pool + len(loose.rows) > max(2 * self.n_rows, 1024) and self._n_pool > 0:
            self._lay_out()
        self._pool = longer(self._pool, self._n_pool + len(loose.rows), 0)

    def _graft(self, nodes: np.ndarray, first: np.ndarray, trees: Cuts, numbers: np.ndarray) -> None:
        """Replace leaves by trees: the root becomes the leaf's node, the other nodes are new ones."""
        is_root = np.zeros(len(trees.attribute), bool)
        is_root[first] = True
        at = np.empty(len(trees.attribute), np.int32)
        at[first] = nodes
        at[~is_root] = self._n_nodes + np.arange(np.count_nonzero(~is_root))
        self._n_nodes += int(np.count_nonzero(~is_root))
        self._tree = BoxCuts(*(longer(array, self._n_nodes, 0) for array in self._tree))
        tree, inner = self._tree, trees.attribute >= 0
        tree.attribute[at] = trees.attribute
        tree.low[at], tree.high[at] = trees.rule
        tree.left[at[inner]], tree.right[at[inner]] = at[trees.left[inner]], at[trees.right[inner]]
        tree.parent[at[trees.left[inner]]] = at[inner]
        tree.parent[at[trees.right[inner]]] = at[inner]
        tree.right[at[~inner]] = numbers[trees.right[~inner]]
        self._node[numbers[trees.right[~inner]]] = at[~inner]


class FrameStore:
    """Rows of a dataframe to which others can be added, in pieces so that adding few does not copy many.

    A piece is at least twice as long as the next one: there are few of them, and a row is copied only a few times.
    """

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self._pieces = [nw.maybe_reset_index(frame)]

    def __len__(self) -> int:
        return sum(len(piece) for piece in self._pieces)

    @property
    def first(self) -> nw.DataFrame[Any]:
        """The longest piece; all pieces have its columns and types."""
        return self._pieces[0]

    def with_rows(self, frame: nw.DataFrame[Any]) -> FrameStore:
        """Return a store with these rows appended; the types must be those of :attr:`first`."""
        pieces = [*self._pieces, nw.maybe_reset_index(frame)]
        while len(pieces) > 1 and 2 * len(pieces[-1]) > len(pieces[-2]):
            last = pieces.pop()
            pieces[-1] = nw.maybe_reset_index(nw.concat([pieces[-1], last], how="vertical"))
        made = FrameStore(pieces[0])
        made._pieces = pieces
        return made

    def take(self, rows: np.ndarray) -> nw.DataFrame[Any]:
        """Return some rows, in the given order."""
        starts = np.concatenate(([0], np.cumsum([len(piece) for piece in self._pieces])))
        piece_of = np.searchsorted(starts, rows, side="right") - 1
        taken: list[nw.DataFrame[Any]] = []
        order: list[np.ndarray] = []
        for number, piece in enumerate(self._pieces):
            here = np.flatnonzero(piece_of == number)
            if len(here) or not (len(rows) or taken):
                taken.append(nw.maybe_reset_index(frames.take_rows(piece, rows[here] - starts[number])))
                order.append(here)
        if len(taken) == 1:
            return taken[0]
        back = np.argsort(np.concatenate(order), kind="stable")
        together = nw.maybe_reset_index(nw.concat(taken, how="vertical"))
        return nw.maybe_reset_index(frames.take_rows(together, back))


def alike(frame: nw.DataFrame[Any], like: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return the frame with columns of the types of another one; raise if a column cannot be converted."""
    columns = {}
    for name in like.columns:
        series, wanted = frame[name], like[name].dtype
        if same_type(series, like[name]):
            continue
        fits = frames.missing_rows(series).all() or frames.content_of(series) == frames.content_of(like[name])
        cast = _cast(series, like[name]) if fits else None
        if cast is None:
            raise DataError(
                f"Column {name!r} is of type {series.dtype} here, and of type {wanted} in the existing rows: "
                "convert it."
            )
        columns[name] = cast
    return frames.replace_columns(frame, columns).select(like.columns) if columns else frame.select(like.columns)


def same_type(one: nw.Series[Any], other: nw.Series[Any]) -> bool:
    """Return True if rows of two columns can be concatenated; pyarrow has several types that are all text."""
    if one.dtype != other.dtype:
        return False
    return not one.implementation.is_pyarrow() or bool(one.to_native().type == other.to_native().type)


def _cast(series: nw.Series[Any], like: nw.Series[Any]) -> nw.Series[Any] | None:
    """Return the column in another type if that loses nothing, else None."""
    missing = frames.missing_rows(series)
    there = (~missing).tolist()
    try:
        cast = _in_type_of(series, like, has_missing=bool(missing.any()))
        same = missing.all() or (cast.filter(there).cast(series.dtype) == series.filter(there)).all()
    except Exception:  # libraries raise different exceptions for a value that does not fit
        return None
    return cast if same and np.array_equal(frames.missing_rows(cast), missing) else None


def _in_type_of(series: nw.Series[Any], like: nw.Series[Any], *, has_missing: bool) -> nw.Series[Any]:
    if series.implementation.is_pyarrow():
        return nw.from_native(series.to_native().cast(like.to_native().type), series_only=True).alias(series.name)
    if not series.implementation.is_pandas() or like.dtype == nw.Categorical:
        return series.cast(like.dtype)
    native, kind = series.to_native(), like.to_native().dtype
    if has_missing and like.dtype.is_integer():
        # NumPy's integers cannot be missing; those of pandas can, and combine with them. So do booleans.
        kind = str(like.dtype)
    elif has_missing and like.dtype == nw.Boolean:
        kind = "boolean"
    # As objects, missing numbers can become missing dates.
    return nw.from_native((native.astype(object) if native.isna().all() else native).astype(kind), series_only=True)


def as_text(frame: nw.DataFrame[Any], names: list[str]) -> nw.DataFrame[Any]:
    """Return the frame with some columns as the text that a release shows."""
    columns = {}
    for name in names:
        if frame[name].dtype == nw.String:
            columns[name] = frame[name].cast(nw.String)
            continue
        factor = frames.factorize(frame[name])
        texts = np.array([*(plain_text(value, factor.content) for value in factor.values), None], object)
        columns[name] = frames.new_series(name, texts[factor.codes].tolist(), frame)
    return frames.replace_columns(frame, columns) if columns else frame


def longer(array: np.ndarray, size: int, fill: Any) -> np.ndarray:
    """Return the array, or a copy with space for twice ``size`` entries, so that repeated growth costs little."""
    if size <= len(array):
        return array
    grown = np.full(2 * size, fill, array.dtype)
    grown[: len(array)] = array
    return grown
