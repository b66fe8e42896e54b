"""Decision trees on binned attributes: every attribute a byte a row, every sum a whole number.

A node's rows lie side by side; a cut moves those that go left to the front. One pass over the rows of a node fills a
histogram for each attribute (``tree_counts``), and a sweep over its bins finds the best cut (``tree_scores``).
"""

from __future__ import annotations

import heapq

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.guard import guard_holds
from shoal._kernels.tree_counts import clear, fill, settled
from shoal._kernels.tree_data import (
    BREADTH_FIRST,
    DEPTH_FIRST,
    MOST_BINS,
    MOST_TRIES,
    ONE_VS_REST,
    ORDERED,
    weight_slot,
)
from shoal._kernels.tree_scores import find_cuts, lay_sequence, unsplit_score

SIDE_WORDS = MOST_BINS // 64
LEAF = np.int64(-1)
ATTRIBUTE, LEFT, RIGHT, BEGIN, MIDDLE, END, DEPTH = range(7)
"""Columns of the nodes of a tree."""


@jit
def grow(task, guard, start, stop):
    """Grow a tree on rows start..stop until no admissible cut is left, or a limit is reached.

    ``guard`` is None where only the size of a leaf counts. Returns the nodes, and for each the bins that go left, one
    bit a bin. A leaf has no children (-1).
    """
    nodes = np.full((64, 7), -1, np.int32)
    side = np.zeros((64, SIDE_WORDS), np.uint64)
    nodes[0, BEGIN], nodes[0, END], nodes[0, DEPTH] = start, stop, 0
    heap = [(0.0, np.int64(0))]
    heap.pop()
    n_opened, n_nodes, n_leaves = 0, 1, 1
    while n_leaves < task.most_leaves:
        for node in range(n_opened, n_nodes):
            if nodes[node, DEPTH] < task.most_depth:
                j, middle, gain = _cut(
                    task, guard, np.int64(nodes[node, BEGIN]), np.int64(nodes[node, END]), side[node]
                )
                nodes[node, ATTRIBUTE], nodes[node, MIDDLE] = j, middle
                if j >= 0:
                    heapq.heappush(heap, (_priority(task.growth, node, gain), np.int64(node)))
        n_opened = n_nodes
        if len(heap) == 0:
            break
        _, node = heapq.heappop(heap)
        if n_nodes + 2 > nodes.shape[0]:
            nodes, side = _longer(nodes, n_nodes, -1), _longer(side, n_nodes, 0)
        nodes[node, LEFT], nodes[node, RIGHT] = n_nodes, n_nodes + 1
        nodes[n_nodes, BEGIN], nodes[n_nodes, END] = nodes[node, BEGIN], nodes[node, MIDDLE]
        nodes[n_nodes + 1, BEGIN], nodes[n_nodes + 1, END] = nodes[node, MIDDLE], nodes[node, END]
        nodes[n_nodes, DEPTH] = nodes[n_nodes + 1, DEPTH] = nodes[node, DEPTH] + 1
        n_nodes += 2
        n_leaves += 1
    return nodes, side, n_nodes


@inner
def _priority(growth, node, gain):
    """What is cut next has the lowest."""
    if growth == DEPTH_FIRST:
        return -float(node)
    return float(node) if growth == BREADTH_FIRST else -gain


@inner
def _longer(rows, n, fill):
    """Twice the room for rows, of which n are in use."""
    longer = np.full((2 * rows.shape[0], rows.shape[1]), fill, rows.dtype)
    for i in range(n):
        for c in range(rows.shape[1]):
            longer[i, c] = rows[i, c]
    return longer


@inner
def _cut(task, guard, start, stop, side):
    """Make the best admissible cut of one node: (attribute, first row of the right part, gain); LEAF if there is none.

    ``side`` is set to the bins that go left. Ties go to the first attribute and the lowest bins.
    """
    if stop - start < 2 * task.smallest:
        return LEAF, np.int64(stop), 0.0
    fill(task, start, stop)
    found, middle, gain = LEAF, np.int64(stop), 0.0
    if not settled(task, start, stop):
        tries = 1 if guard is None else MOST_TRIES
        find_cuts(task, start, stop, tries)
        found, middle, gain = _make_best_cut(task, guard, start, stop, tries, side)
    clear(task)
    return found, middle, gain


@inner
def _make_best_cut(task, guard, start, stop, tries, side):
    """Cut at the best place that the guard allows."""
    scratch = task.scratch
    before = unsplit_score(task)
    for _ in range(scratch.score.shape[0] * tries):
        best, rank = -1, 0
        for j in range(scratch.score.shape[0]):
            for r in range(tries):
                if scratch.score[j, r] > -np.inf and (best < 0 or scratch.score[j, r] > scratch.score[best, rank]):
                    best, rank = j, r
        if best < 0:
            break
        _choose_side(task, best, scratch.variant[best, rank], scratch.length[best, rank], side)
        middle = _partition(task.samples, start, stop, best, side)
        if guard is None or (
            guard_holds(guard, task.samples.order, start, middle)
            and guard_holds(guard, task.samples.order, middle, stop)
        ):
            return np.int64(best), middle, max(scratch.score[best, rank] - before, 0.0)
        scratch.score[best, rank] = -np.inf
    return LEAF, np.int64(stop), 0.0


@inner
def _choose_side(task, j, variant, length, side):
    """Set the bits of the bins that go left.

    A bin that no row of the node has belongs to the nearer part of an ordered attribute (of two that are numbers, not
    missing), else to the larger part.
    """
    scratch, attributes = task.scratch, task.attributes
    n, sequence = scratch.n_occurring[j], scratch.sequence
    at, form, missing = weight_slot(task.samples), attributes.form[j], attributes.missing[j]
    sums = scratch.histogram[attributes.first[j] :]
    lay_sequence(sums, scratch.occurring[j], scratch.total, at, n, form, missing, variant, sequence)
    for w in range(side.shape[0]):
        side[w] = 0
    first = length - 1 if form == ONE_VS_REST else 0
    rows_left = 0
    for i in range(first, length):
        rows_left += sums[sequence[i], 0]
    larger = 2 * rows_left > scratch.total[0]
    last_left, first_right = sequence[length - 1], sequence[length] if length < n else sequence[length - 1]
    for b in range(attributes.n_bins[j]):
        if sums[b, 0] == 0:
            on_left = larger
            if form == ORDERED and b != missing:
                on_left = first_right == missing or b - last_left <= first_right - b
            if on_left:
                side[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    for i in range(first, length):
        b = sequence[i]
        side[b >> 6] |= np.uint64(1) << np.uint64(b & 63)


@inner
def goes_left(side, b):
    """Whether a bin is on the left side."""
    return (side[b >> 6] >> np.uint64(b & 63)) & np.uint64(1) != 0


@inner
def _partition(samples, start, stop, j, side):
    """Move the rows whose bins are on the left side to the front; returns where the others begin."""
    bins, words, guide, weight, order = samples.bins, samples.words, samples.guide, samples.weight, samples.order
    left, right = start, stop - 1
    while True:
        while left <= right and goes_left(side, bins[left, j]):
            left += 1
        while left <= right and not goes_left(side, bins[right, j]):
            right -= 1
        if left >= right:
            break
        for w in range(words.shape[1]):
            words[left, w], words[right, w] = words[right, w], words[left, w]
        for m in range(guide.shape[1]):
            guide[left, m], guide[right, m] = guide[right, m], guide[left, m]
        if weight.shape[0] > 0:
            weight[left], weight[right] = weight[right], weight[left]
        order[left], order[right] = order[right], order[left]
        left += 1
        right -= 1
    return np.int64(left)


@jit
def descend(bins, attribute, left, right, side, labels):
    """Send rows down a tree; labels are the numbers of the leaves."""
    for i in range(bins.shape[0]):
        node = 0
        while attribute[node] >= 0:
            node = left[node] if goes_left(side[node], bins[i, attribute[node]]) else right[node]
        labels[i] = right[node]
