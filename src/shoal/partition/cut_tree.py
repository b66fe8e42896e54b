"""Trees of cuts, grown on several threads.

The upper part of a tree is grown level by level until there is work for all threads, then the subtrees in parallel.
The result does not depend on the number of threads, because a cut depends only on the rows it cuts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from shoal._kernels import groups, growing
from shoal._kernels import settling as kernel
from shoal._kernels.cutting import CutTask
from shoal._kernels.guard import Guard
from shoal.data import frames
from shoal.data.table import Table
from shoal.partition.geometry import measure_geometry, pack_rows
from shoal.privacy.rules import with_scratch


class Cuts(NamedTuple):
    """A tree of cuts; node 0 is the root."""

    attribute: np.ndarray
    """int16: the attribute on which a node is cut; -1 for a leaf."""
    left: np.ndarray
    right: np.ndarray
    """int32: the children; ``right`` of a leaf is its number, in order of the starts."""
    rule: tuple[np.ndarray, ...]
    """Arrays that define, for each node, which codes go left."""


class Cut(NamedTuple):
    """One cut of a part: the attribute (-1 if there is none), the codes that go left, the start of the right part."""

    attribute: int
    rule: tuple[Any, ...]
    middle: int


class RowRange(NamedTuple):
    """Contiguous rows, and further data about them."""

    start: int
    stop: int
    known: tuple[np.ndarray, ...] = ()


Grow = Callable[[RowRange], tuple[Cuts, np.ndarray]]


class CutRule(NamedTuple):
    """The rule that chooses cuts; numba omits the code of options that are None."""

    ties: np.ndarray | None = None
    """Mondrian's relaxed cuts: codes that order equal rows."""
    packed: bool | None = None
    """True: the cuts of an R+ tree, else Mondrian's."""


PACKED = CutRule(packed=True)


def make_task(table: Table, smallest: int, *, sets: bool, by_width: bool = False) -> CutTask:
    """Return the task of cutting a table; scratch buffers are added for each thread."""
    nothing = np.empty(0, np.int64)
    geometry = measure_geometry(table, sets=sets)
    return CutTask(pack_rows(table), geometry, smallest, by_width, nothing, nothing, nothing)


def asked_of(guard: Guard) -> Guard | None:
    """Return the guard, or None if it has no rules."""
    return guard if len(guard.rules.model) else None


def grow_cuts(task: CutTask, guard: Guard | None, n_threads: int, rule: CutRule) -> tuple[Cuts, np.ndarray]:
    """Return the tree of cuts of all rows, and the starts of its leaves; the rows are sorted by leaf."""
    n_values = task.geometry.n_values
    whole = RowRange(0, len(task.rows.order), (np.zeros_like(n_values), n_values - 1))

    def grow(part: RowRange) -> tuple[Cuts, np.ndarray]:
        low, high = part.known
        starts = np.array([part.start, part.stop])
        cuts, leaf_starts, _ = grow_parts(task, _own(guard), rule, starts, low[None], high[None])
        return cuts, leaf_starts

    def cut_once(part: RowRange) -> Cut:
        attribute, cut_from, cut_to, middle = growing.cut_once(
            _with_scratch(task), _own(guard), *rule, part.start, part.stop, *part.known
        )
        return Cut(attribute, (cut_from, cut_to), middle)

    return grow_in_threads(whole, grow, cut_once, n_threads)


def grow_parts(
    task: CutTask, guard: Guard | None, rule: CutRule, starts: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[Cuts, np.ndarray, np.ndarray]:
    """Return the trees of cuts of several parts, concatenated; the starts of their leaves, and the root of each."""
    (attribute, *codes, right), leaf_starts, roots = growing.grow(_with_scratch(task), guard, *rule, starts, low, high)
    left = np.arange(1, len(attribute) + 1, dtype=np.int32)
    return Cuts(attribute, left, right, tuple(codes)), leaf_starts, roots


def grow_in_threads(
    whole: RowRange, grow: Grow, cut_once: Callable[[RowRange], Cut], n_threads: int
) -> tuple[Cuts, np.ndarray]:
    """Grow the tree of all rows; return its cuts, and the start of each leaf.

    Parameters
    ----------
    whole : RowRange
    grow : function
        Grows the whole tree of a part.
    cut_once : function
        Makes the first cut of that tree.
    n_threads : int
    """
    if n_threads == 1:
        return grow(whole)
    with ThreadPoolExecutor(n_threads) as pool:
        crown, parts = _grow_crown(whole, lambda parts: list(pool.map(cut_once, parts)), 8 * n_threads)
        return _joined(crown, list(pool.map(grow, parts)))


def settle(cuts: Cuts, leaves: np.ndarray, smallest: int, guard: Guard | None) -> np.ndarray:
    """Return groups of rows that a tree was not grown on: its leaves, merged where they are not valid groups.

    From the root down, the rows of a node are split by the tree's cut if both parts are then valid. If only one is, the
    others go to the nearest leaf of that part, and if neither is, all stay together.

    Parameters
    ----------
    cuts : Cuts
    leaves : int array (n,)
        The leaf of each row.
    smallest : int
        Minimum number of rows of a group.
    guard : Guard, optional
        Rules that every group must satisfy besides its size.
    """
    n_leaves = int(np.count_nonzero(cuts.attribute < 0))
    order, starts = groups.order_by_label(leaves, n_leaves)
    found = kernel.settle(cuts.attribute, cuts.left, cuts.right, order, starts, smallest, guard)
    labels = np.empty(len(leaves), np.int32)
    groups.label_rows(order, found, labels)
    return labels


def count_threads(n_jobs: int | None, n_rows: int) -> int:
    """Return the number of threads that pay off."""
    available = os.cpu_count() or 1
    wanted = available if n_jobs is None or n_jobs < 0 else max(n_jobs, 1)
    return max(1, min(wanted, n_rows // frames.ROWS_WORTH_A_THREAD))


def _with_scratch(task: CutTask) -> CutTask:
    """Return the task with scratch buffers of its own, for one thread."""
    size = int(task.geometry.n_values.max()) + 1
    return task._replace(
        histogram=np.zeros(size, np.int64), codes=np.empty(size, np.int64), below=np.empty(size, np.int64)
    )


def _own(guard: Guard | None) -> Guard | None:
    return None if guard is None else with_scratch(guard)


def _grow_crown(
    whole: RowRange, cut_all: Callable[[list[RowRange]], list[Cut]], enough: int
) -> tuple[list[list[Cut]], list[RowRange]]:
    """Return the cuts of the upper levels, level by level, and the parts below them from left to right.

    A level lists, for every part of the level above, its cut (with attribute -1 if it was not cut).
    """
    parts, levels = [whole], []
    while len(parts) < enough:
        cuts = cut_all(parts)
        if all(cut.attribute < 0 for cut in cuts):
            break
        levels.append(cuts)
        parts = [half for part, cut in zip(parts, cuts, strict=True) for half in _halves(part, cut)]
    return levels, parts


def _halves(part: RowRange, cut: Cut) -> list[RowRange]:
    if cut.attribute < 0:
        return [part]
    return [
        RowRange(part.start, cut.middle, tuple(known.copy() for known in part.known)),
        RowRange(cut.middle, part.stop, tuple(known.copy() for known in part.known)),
    ]


def _joined(crown: list[list[Cut]], subtrees: list[tuple[Cuts, np.ndarray]]) -> tuple[Cuts, np.ndarray]:
    """Return one tree of the crown's cuts and the subtrees under them, and the starts of the leaves."""
    n_crown = sum(cut.attribute >= 0 for level in crown for cut in level)
    joined = _side_by_side(n_crown, [cuts for cuts, _ in subtrees])
    roots = n_crown + np.concatenate(([0], np.cumsum([len(cuts.attribute) for cuts, _ in subtrees]))).astype(np.int64)
    n_leaves = 0
    for root, end, (cuts, leaf_starts) in zip(roots, roots[1:], subtrees, strict=False):
        joined.left[root:end] += root
        joined.right[root:end] += np.where(cuts.attribute >= 0, root, n_leaves).astype(np.int32)
        n_leaves += len(leaf_starts)
    # From the lowest level of the crown up: every cut takes the nodes of its two parts from the level below.
    below, first_node = list(roots[:-1]), n_crown
    for level in reversed(crown):
        parts = iter(below)
        first_node -= sum(cut.attribute >= 0 for cut in level)
        node, below = first_node, []
        for cut in level:
            if cut.attribute < 0:
                below.append(next(parts))
                continue
            joined.attribute[node] = cut.attribute
            joined.left[node], joined.right[node] = next(parts), next(parts)
            for array, value in zip(joined.rule, cut.rule, strict=True):
                array[node] = value
            below.append(node)
            node += 1
    return joined, np.concatenate([leaf_starts for _, leaf_starts in subtrees])


def _side_by_side(n_crown: int, trees: list[Cuts]) -> Cuts:
    """Concatenate the nodes of all trees, after space for the crown's."""

    def put_together(arrays: list[np.ndarray]) -> np.ndarray:
        room = np.zeros((n_crown, *arrays[0].shape[1:]), arrays[0].dtype)
        return np.concatenate([room, *arrays])

    return Cuts(
        put_together([tree.attribute for tree in trees]),
        put_together([tree.left for tree in trees]),
        put_together([tree.right for tree in trees]),
        tuple(put_together([tree.rule[i] for tree in trees]) for i in range(len(trees[0].rule))),
    )
