"""The lattice of full-domain generalisation, and the search for its best node without checking all of them.

A node of the lattice is a vector of levels, one for each attribute; nodes above it are more general. The result of a
check of one node is written to all nodes below or above it at once: boxes of an array with one axis per attribute.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from shoal.data.table import Column, Table

MOST_ENUMERATED = 2_000_000
"""Maximum number of nodes of a lattice that is held in memory (33 bytes per node)."""
MOST_PASSED = 100_000
"""Maximum number of nodes of a larger lattice that are examined, checked or not."""
FINEST_BINS = 16
"""Number of bins of the first level above the numbers themselves, if no hierarchy is given."""


class Ladder(NamedTuple):
    """The node that represents each code of an attribute, level by level, and the run of codes under each node."""

    nodes: np.ndarray
    """int32 (levels, codes)."""
    first: np.ndarray
    last: np.ndarray
    """int32 (nodes,)."""


class NodeCheck(NamedTuple):
    """The result of the check of one node."""

    loss: float
    """Infinite if the node may not be released."""
    below: float
    """Lower bound of the loss of every less general node, besides its own floor; infinite if none may be released."""
    above: float = 0.0
    """Lower bound of the loss of every more general node."""


class Searched(NamedTuple):
    """The best node found, and the results for the others."""

    levels: tuple[int, ...]
    loss: float
    checked: dict[tuple[int, ...], float]
    """Loss of every node that was checked; infinite if it may not be released."""
    n_pruned: int
    """Number of nodes that need no check: they may not be released, or lose no less than the best."""
    n_unknown: int
    """Number of undecided nodes, because the search was stopped early."""
    bounds: np.ndarray | None
    """Lower bound of the loss of each node, one axis per attribute; None if the lattice is too large for memory."""


class LatticePicture(NamedTuple):
    """The nodes of a lattice, for drawing it."""

    levels: np.ndarray
    """int (nodes, attributes)."""
    tags: np.ndarray
    """State of each node: best, admissible, inadmissible, excluded (it cannot be better), or unknown."""
    losses: np.ndarray
    """Loss of the nodes that were checked and may be released, else nan."""


class Effort(NamedTuple):
    """Limits of a search."""

    most_checked: int | None = None
    deadline: float | None = None

    def spent(self, n_checked: int) -> bool:
        """Return True if no further node may be checked."""
        if self.most_checked is not None and n_checked >= self.most_checked:
            return True
        return self.deadline is not None and time.monotonic() >= self.deadline


Check = Callable[[tuple[int, ...]], NodeCheck]


def search(floors: Sequence[np.ndarray], check: Check, effort: Effort, known: float = np.inf) -> Searched:
    """Find the node of least loss (Flash, Kohlmayer et al. 2012).

    From the least general undecided node on, a path leads up through undecided nodes, and is searched by bisection:
    if a check excludes the nodes below it, the search continues in the upper half, else in the lower one. The result is
    the optimum unless the effort is spent before.

    Parameters
    ----------
    floors : sequence of float array (levels,)
        Least loss of generalising an attribute to each level; the sum over all attributes bounds a node's loss.
    check : function
        Returns the loss of a vector of levels, and the bounds that follow for others.
    effort : Effort
        The top is checked in any case, so that there is a result.
    known : float
        Only nodes of a smaller loss are searched for; the loss of the result is this if there is none.
    """
    shape = tuple(len(floor) for floor in floors)
    floor = outer_sum(floors)
    bound = floor.copy()
    state = _State(shape, floor, bound, bound.reshape(-1), np.zeros(bound.size, bool), check, known)
    state.visit(bound.size - 1)
    for start in _by_generality(floor, np.flatnonzero(state.flat < state.best)):
        while state.undecided(start):
            if not _bisect(state, _path_up(state, start), effort):
                return state.result()
    return state.result()


class _State:
    """The results of a search so far."""

    def __init__(
        self,
        shape: tuple[int, ...],
        floor: np.ndarray,
        bound: np.ndarray,
        flat: np.ndarray,
        seen: np.ndarray,
        check: Check,
        known: float,
    ) -> None:
        self.shape = shape
        self.strides = [int(np.prod(shape[j + 1 :])) for j in range(len(shape))]
        self.floor, self.bound, self.flat, self.seen = floor, bound, flat, seen
        self.check = check
        self.checked: dict[tuple[int, ...], float] = {}
        self.best, self.best_levels = known, tuple(n - 1 for n in shape)

    def undecided(self, node: int) -> bool:
        return bool(not self.seen[node] and self.flat[node] < self.best)

    def levels_of(self, node: int) -> tuple[int, ...]:
        return tuple((node // stride) % n for stride, n in zip(self.strides, self.shape, strict=True))

    def visit(self, node: int) -> None:
        """Check a node, and record the bounds that follow for others."""
        levels = self.levels_of(node)
        loss, below, above = self.check(levels)
        self.seen[node] = True
        self.checked[levels] = loss
        if loss < self.best:
            self.best, self.best_levels = loss, levels
        if below > 0:
            box = tuple(slice(0, level + 1) for level in levels)
            np.maximum(self.bound[box], self.floor[box] + below, out=self.bound[box])
        if above > 0:
            box = tuple(slice(level, None) for level in levels)
            np.maximum(self.bound[box], above, out=self.bound[box])

    def result(self) -> Searched:
        n_unknown = int(np.count_nonzero(~self.seen & (self.flat < self.best)))
        n_pruned = self.flat.size - len(self.checked) - n_unknown
        return Searched(self.best_levels, self.best, self.checked, n_pruned, n_unknown, self.bound)


def _by_generality(floor: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Sort nodes by total level, then by least loss."""
    total = outer_sum([np.arange(n, dtype=float) for n in floor.shape])
    return nodes[np.lexsort((floor.reshape(-1)[nodes], total.reshape(-1)[nodes]))]


def _path_up(state: _State, start: int) -> list[int]:
    """Return a path from one undecided node to the next above it, always the one with the lowest bound."""
    path = [int(start)]
    levels = list(state.levels_of(path[0]))
    while True:
        following, axis = -1, -1
        for j, stride in enumerate(state.strides):
            node = path[-1] + stride
            if levels[j] + 1 == state.shape[j] or not state.undecided(node):
                continue
            if following < 0 or state.flat[node] < state.flat[following]:
                following, axis = node, j
        if following < 0:
            return path
        path.append(following)
        levels[axis] += 1


def _bisect(state: _State, path: list[int], effort: Effort) -> bool:
    """Check nodes of a path until no undecided one is left; return False if the effort was spent."""
    while path:
        if effort.spent(len(state.checked)):
            return False
        middle = (len(path) - 1) // 2
        state.visit(path[middle])
        lower = [node for node in path[:middle] if state.undecided(node)]
        path = lower or [node for node in path[middle + 1 :] if state.undecided(node)]
    return True


def search_down(floors: Sequence[np.ndarray], check: Check, effort: Effort) -> Searched:
    """Search a lattice that is too large for memory for a good node: from the top down, best first.

    Nodes below one that excludes all of them are skipped, and nodes whose own floor is too high are passed without a
    check. If no nodes are left before the effort is spent, the result is the optimum.
    """
    top = tuple(len(floor) - 1 for floor in floors)
    checked: dict[tuple[int, ...], float] = {}
    passed = {top}
    waiting: list[tuple[float, tuple[int, ...]]] = []
    best, best_levels = np.inf, top

    def visit(levels: tuple[int, ...]) -> None:
        nonlocal best, best_levels
        own = float(sum(floor[level] for floor, level in zip(floors, levels, strict=True)))
        if own >= best:
            heapq.heappush(waiting, (own, levels))
            return
        loss, below, _ = check(levels)
        checked[levels] = loss
        if loss < best:
            best, best_levels = loss, levels
        if np.isfinite(below):
            # A node that may not be released itself can still be above one that may.
            heapq.heappush(waiting, (loss, levels))

    visit(top)
    size = lattice_size(floors)
    while waiting:
        _, levels = heapq.heappop(waiting)
        for j in range(len(levels)):
            lower = (*levels[:j], levels[j] - 1, *levels[j + 1 :])
            if levels[j] == 0 or lower in passed:
                continue
            if effort.spent(len(checked)) or len(passed) >= MOST_PASSED:
                return Searched(best_levels, best, checked, 0, size - len(checked), None)
            passed.add(lower)
            visit(lower)
    return Searched(best_levels, best, checked, size - len(checked), 0, None)


def draw(searched: Searched, scale: float) -> LatticePicture:
    """Return the nodes and their states; losses are multiplied by ``scale``."""
    if searched.bounds is None:
        levels = np.array(list(searched.checked), np.int64)
        tags = np.full(len(levels), "unknown", "<U12")
    else:
        shape = searched.bounds.shape
        levels = np.stack(np.unravel_index(np.arange(searched.bounds.size), shape), axis=1)
        bound = searched.bounds.reshape(-1)
        excluded = np.where(np.isinf(bound), "inadmissible", "excluded")
        tags = np.where(bound < searched.loss, "unknown", excluded)
    at = np.arange(len(levels))
    if searched.bounds is not None:
        at = np.ravel_multi_index(tuple(np.array(list(searched.checked)).T), searched.bounds.shape)
    loss = np.array(list(searched.checked.values()))
    tags[at] = np.where(np.isfinite(loss), "admissible", "inadmissible")
    losses = np.full(len(levels), np.nan)
    losses[at] = np.where(np.isfinite(loss), loss * scale, np.nan)
    tags[at[list(searched.checked).index(searched.levels)]] = "best"
    return LatticePicture(levels, tags, losses)


def lattice_size(floors: Sequence[np.ndarray]) -> int:
    """Return the number of nodes."""
    size = 1
    for floor in floors:
        size *= len(floor)
    return size


def thin_levels(costs: Sequence[np.ndarray], most: int) -> list[np.ndarray]:
    """Return levels of each attribute that together make at most ``most`` nodes.

    One by one, the level nearest to its neighbours is dropped from the attribute that has most levels; the lowest and
    the highest stay. If that is not enough, attributes keep only their top: first those that lose least by it, the last
    one if tied.
    """
    kept = [np.arange(len(cost)) for cost in costs]
    while lattice_size(kept) > most:
        j = int(np.argmax([len(levels) for levels in kept]))
        if len(kept[j]) == 2:
            pairs = [i for i, levels in enumerate(kept) if len(levels) == 2]
            j = min(pairs, key=lambda i: (costs[i][-1] - costs[i][0], -i))
            kept[j] = kept[j][1:]
        else:
            along = costs[j][kept[j]]
            kept[j] = np.delete(kept[j], 1 + int(np.argmin(along[2:] - along[:-2])))
    return kept


def outer_sum(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sum of one entry of each array, for every combination: one axis per array."""
    total = np.asarray(arrays[0], float)
    for array in arrays[1:]:
        total = np.add.outer(total, array)
    return total


def make_ladders(table: Table) -> list[Ladder]:
    """Return the levels of every quasi-identifier: those of its hierarchy, or bins of numbers without one.

    A column that can have only one value is released as it is.
    """
    return [_ladder(column, table.weights) for column in table.quasi]


def _ladder(column: Column, weights: np.ndarray | None) -> Ladder:
    if column.tree is None or column.n_values == 1:
        return _halved_bins(column, weights)
    return Ladder(np.ascontiguousarray(column.tree.table.T), column.tree.first, column.tree.last)


def _halved_bins(column: Column, weights: np.ndarray | None) -> Ladder:
    """Return numbers, then up to 16 bins of about equally many rows, then half as many at each level, then the top.

    The missing value has a bin of its own below the top. Bins with the same values at two levels make one level.
    """
    n, n_present = column.n_values, column.n_present
    rows = np.bincount(column.codes, weights, n)[:n_present].astype(float)
    middle = (np.cumsum(rows) - rows / 2) / max(rows.sum(), 1.0)
    n_bins = 1
    while n_bins < FINEST_BINS and 4 * n_bins <= n_present:
        n_bins *= 2
    numbers = [np.arange(n)]
    while n_bins > 1:
        bins = np.append(np.minimum(middle * n_bins, n_bins - 1).astype(np.int64), [n_bins] * (n - n_present))
        bins = np.unique(bins, return_inverse=True)[1]
        if bins[-1] < numbers[-1][-1] and bins[-1] > n - n_present:
            numbers.append(bins)
        n_bins //= 2
    if n > 1:
        numbers.append(np.zeros(n, np.int64))
    at = np.cumsum([0, *(level[-1] + 1 for level in numbers)])
    first = np.concatenate([np.searchsorted(level, np.arange(level[-1] + 1)) for level in numbers])
    last = np.concatenate([np.searchsorted(level, np.arange(level[-1] + 1), "right") - 1 for level in numbers])
    nodes = np.array([level + start for level, start in zip(numbers, at, strict=False)], np.int32)
    return Ladder(nodes, first.astype(np.int32), last.astype(np.int32))
