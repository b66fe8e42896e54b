"""Decision trees on binned attributes: one byte per attribute and row, and integer sums.

The rows of a node are contiguous; a cut moves those that go left to the front. One pass over the rows of a node fills a
histogram for each attribute (``tree_counts``), and a sweep over its bins finds the best cut (``tree_scores``).
"""

from __future__ import annotations

import heapq

import numpy as np

from shoal._kernels._borrow import borrow
from shoal._kernels._jit import inner, jit, merged
from shoal._kernels.guard import guard_holds
from shoal._kernels.tree_counts import clear, cost_of, fill, settled
from shoal._kernels.tree_data import BEST_FIRST, DEPTH_FIRST, MOST_BINS, MOST_TRIES, ONE_VS_REST, ORDERED, weight_slot
from shoal._kernels.tree_scores import find_cuts, lay_sequence, pure_score, unsplit_score

SIDE_WORDS = MOST_BINS // 64
LEAF = np.int64(-1)
ONE, WORD_BITS, LAST_BIT = np.uint64(1), np.uint64(6), np.uint64(63)
FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
ATTRIBUTE, LEFT, RIGHT, BEGIN, MIDDLE, END, DEPTH, BELOW, ABOVE = range(9)
"""Columns of the nodes of a tree; a cut of an ordered attribute is between the occurring bins BELOW and ABOVE."""


@jit
def grow(task, guard, start, stop):
    """Grow a tree on rows start..stop until no admissible cut is left, or a limit is reached.

    ``guard`` is None if only the size of a leaf matters. Return the nodes, for each a bitset of the bins that go left,
    and the number of nodes. A leaf has no children (-1).
    """
    task = borrow(task)
    nodes, side = np.empty((64, 9), np.int32), np.empty((64, SIDE_WORDS), np.uint64)
    _lay_leaf(nodes, side, np.int64(0), start, stop, np.int64(0))
    heap = [(0.0, np.int64(0))]
    heap.pop()
    n_nodes, n_leaves, n_visited = np.int64(1), 1, np.int64(0)
    best_first = task.growth == BEST_FIRST
    # Nodes to examine: the next one or, to find the best of all, both that were made last.
    begin, end = np.int64(0), np.int64(1)
    while n_leaves < task.bounds.most_leaves:
        for node in range(begin, end):
            gain = _cut(task, guard, borrow(nodes), borrow(side), node, n_visited)
            n_visited += 1
            if best_first and nodes[node, ATTRIBUTE] >= 0:
                heapq.heappush(heap, (-gain, np.int64(node)))
        node = begin
        if best_first:
            if len(heap) == 0:
                break
            _, node = heapq.heappop(heap)
        if nodes[node, ATTRIBUTE] >= 0:
            if n_nodes + 2 > nodes.shape[0]:
                nodes, side = _longer(nodes, n_nodes), _longer(side, n_nodes)
            _part(borrow(nodes), borrow(side), node, n_nodes)
            if not best_first:
                for child in range(n_nodes, n_nodes + 2):
                    heapq.heappush(heap, (_priority(task.growth, child), np.int64(child)))
            begin, end = np.int64(n_nodes), np.int64(n_nodes + 2)
            n_nodes += 2
            n_leaves += 1
        if not best_first:
            if len(heap) == 0:
                break
            _, begin = heapq.heappop(heap)
            end = begin + 1
    return nodes, side, n_nodes


@inner
def _part(nodes, side, node, first):
    """Write the two children of a node that was cut; the first one has the number ``first``."""
    begin, middle, end = np.int64(nodes[node, BEGIN]), np.int64(nodes[node, MIDDLE]), np.int64(nodes[node, END])
    depth = np.int64(nodes[node, DEPTH] + 1)
    nodes[node, LEFT], nodes[node, RIGHT] = first, first + 1
    _lay_leaf(nodes, side, first, begin, middle, depth)
    _lay_leaf(nodes, side, first + 1, middle, end, depth)


@inner
def _lay_leaf(nodes, side, node, begin, end, depth):
    """Write a node that is not cut yet."""
    nodes[node, ATTRIBUTE] = nodes[node, LEFT] = nodes[node, RIGHT] = nodes[node, MIDDLE] = LEAF
    nodes[node, BEGIN], nodes[node, END], nodes[node, DEPTH] = begin, end, depth
    for w in range(SIDE_WORDS):
        side[node, w] = 0


@inner
def _priority(growth, node):
    """Return the priority of a node, lowest first. Left children have odd numbers, followed by their siblings."""
    return -float(node + 2 * (node & 1)) if growth == DEPTH_FIRST else float(node)


@inner
def _longer(rows, n):
    """Return a copy of the array with space for twice as many rows, of which n are in use."""
    longer = np.empty((2 * rows.shape[0], rows.shape[1]), rows.dtype)
    for i in range(n):
        for c in range(rows.shape[1]):
            longer[i, c] = rows[i, c]
    return longer


@merged
def _cut(task, guard, nodes, side, node, n_visited):
    """Make the best admissible cut of a node, and write it there: its attribute and where the right part begins.

    ``side`` is set to the bins that go left. Ties go to the first attribute and the lowest bins. Return the gain of the
    cut; if there is none, the node stays a leaf.
    """
    start, stop = np.int64(nodes[node, BEGIN]), np.int64(nodes[node, END])
    depth = np.int64(nodes[node, DEPTH])
    too_few = stop - start < max(2 * task.bounds.smallest, task.bounds.least_cut)
    if too_few or depth >= task.bounds.most_depth or settled(task, start, stop):
        return 0.0
    gain = 0.0
    if fill(task, start, stop, n_visited if task.limits.visits else depth):
        tries = 1 if guard is None else MOST_TRIES
        find_cuts(task, start, stop, tries)
        j, middle, gain, (below, above) = _make_best_cut(task, guard, start, stop, tries, side[node])
        nodes[node, ATTRIBUTE], nodes[node, MIDDLE] = j, middle
        nodes[node, BELOW], nodes[node, ABOVE] = below, above
        if j >= 0:
            task.limits.budget[j] -= cost_of(task.limits, stop - start)
    clear(task)
    return gain


@merged
def _make_best_cut(task, guard, start, stop, tries, side):
    """Make the best cut that the guard allows."""
    score, variant, length = task.scratch.score, task.scratch.variant, task.scratch.length
    penalised, penalty = task.limits.penalised, task.limits.penalty
    before = unsplit_score(task)
    pure = pure_score(task, start, stop) if penalised else 0.0
    if penalised:
        for j in range(score.shape[0]):
            for r in range(tries):
                # The impurity that a cut leaves is multiplied by the penalty.
                score[j, r] = pure - penalty[j] * (pure - score[j, r])
                if task.limits.stops and penalty[j] > 1.0 and score[j, r] <= before:
                    score[j, r] = -np.inf
    for _ in range(score.shape[0] * tries):
        best, rank = LEAF, 0
        for j in range(np.int64(score.shape[0])):
            for r in range(tries):
                if score[j, r] > -np.inf and (best < 0 or score[j, r] > score[best, rank]):
                    best, rank = j, r
        if best < 0:
            break
        explained = score[best, rank]
        if penalised:
            explained = pure - (pure - explained) / penalty[best]
        gain = max(explained - before, 0.0)
        if gain < task.bounds.least_gain:
            break
        place = _choose_side(task, best, variant[best, rank], length[best, rank], side)
        middle = _partition(task.samples, start, stop, best, side)
        if guard is None or (
            guard_holds(guard, task.samples.order, start, middle)
            and guard_holds(guard, task.samples.order, middle, stop)
        ):
            return best, middle, gain, place
        score[best, rank] = -np.inf
    return LEAF, np.int64(stop), 0.0, (LEAF, LEAF)


@merged
def _choose_side(task, j, variant, length, side):
    """Set the bits of the bins that go left; return the last bin of the left part and the first of the right part.

    A bin without rows in the node belongs to the nearer part of an ordered attribute (if both are numbers, not
    missing), else to the larger part.
    """
    scratch, attributes = task.scratch, task.attributes
    n, sequence = scratch.n_occurring[j], scratch.sequence
    at, form, missing = weight_slot(task.samples), attributes.form[j], attributes.missing[j]
    sums = scratch.histogram[attributes.first[j] :]
    lay_sequence(sums, scratch.occurring[j], scratch.total, at, n, form, missing, variant, sequence)
    first = length - 1 if form == ONE_VS_REST else 0
    rows_left = 0
    for i in range(first, length):
        rows_left += sums[sequence[i], 0]
    larger = 2 * rows_left > scratch.total[0]
    last_left, first_right = sequence[length - 1], sequence[length] if length < n else sequence[length - 1]
    if form == ORDERED:
        _fill_up_to(side, missing if first_right == missing else (last_left + first_right) // 2 + 1)
        if missing >= 0 and (variant == 1 or (sums[missing, 0] == 0 and larger)):
            _set_bit(side, missing)
        return last_left, first_right
    _fill_up_to(side, 0)
    for b in range(attributes.n_bins[j]):
        if sums[b, 0] == 0 and larger:
            _set_bit(side, b)
    for i in range(first, length):
        _set_bit(side, sequence[i])
    return last_left, first_right


@inner
def _fill_up_to(side, n):
    """Set the lowest n bits, and no others."""
    for w in range(SIDE_WORDS):
        own = min(max(n - 64 * w, 0), 64)
        side[w] = FULL if own == 64 else (ONE << np.uint64(own)) - ONE


@inner
def _set_bit(side, b):
    side[b >> 6] |= ONE << np.uint64(b & 63)


@inner
def goes_left(side, b):
    """Return True if a bin is on the left side."""
    b = np.uint64(b)
    return (side[b >> WORD_BITS] >> (b & LAST_BIT)) & ONE != 0


@inner
def _partition(samples, start, stop, j, side):
    """Move the rows whose bins are on the left side to the front; return where the others begin."""
    bins, words, guide, weight, order = samples.bins, samples.words, samples.guide, samples.weight, samples.order
    # Rows left..right - 1 remain; unsigned indices spare numba the check for negative values.
    left, right, j = np.uint64(start), np.uint64(stop), np.uint64(j)
    while True:
        while left < right and goes_left(side, bins[left, j]):
            left += ONE
        while left < right and not goes_left(side, bins[right - ONE, j]):
            right -= ONE
        if left >= right:
            break
        right -= ONE
        for w in range(words.shape[1]):
            words[left, w], words[right, w] = words[right, w], words[left, w]
        for m in range(guide.shape[1]):
            guide[left, m], guide[right, m] = guide[right, m], guide[left, m]
        if weight.shape[0] > 0:
            weight[left], weight[right] = weight[right], weight[left]
        order[left], order[right] = order[right], order[left]
        left += ONE
    return np.int64(left)


@jit
def descend(bins, attribute, left, right, side, labels):
    """Send rows down a tree; write the numbers of their leaves into ``labels``."""
    for i in range(bins.shape[0]):
        node = 0
        while attribute[node] >= 0:
            node = left[node] if goes_left(side[node], bins[i, attribute[node]]) else right[node]
        labels[i] = right[node]
