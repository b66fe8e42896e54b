"""Use a tree that was grown: bin numbers, sum up its nodes, find the leaves of rows, prune."""

from __future__ import annotations

import numpy as np

from shoal._kernels._borrow import borrow
from shoal._kernels._jit import inner, jit, merged
from shoal._kernels.tree import BEGIN, END, LEFT, RIGHT


@jit
def whole_range(values):
    """Return the lowest and highest number if all are integers (NaN aside), else (0, -1)."""
    low, high = np.inf, -np.inf
    for i in range(values.shape[0]):
        value = values[i]
        if value != np.floor(value):
            if np.isnan(value):
                continue
            return 0.0, -1.0
        low, high = min(low, value), max(high, value)
    return (low, high) if low <= high else (0.0, -1.0)


@jit
def mark_whole(values, low, present):
    """Mark which of ``low, low + 1, ...`` occur."""
    for i in range(values.shape[0]):
        if not np.isnan(values[i]):
            present[np.int64(values[i] - low)] = True


@jit
def bin_whole(values, low, table, missing, bins):
    """Write the bin of each integer, by a table that begins with the lowest."""
    for i in range(values.shape[0]):
        bins[i] = missing if np.isnan(values[i]) else table[np.int64(values[i] - low)]


@jit
def distinct_numbers(values, most):
    """Return the distinct numbers, ascending, without NaN; the first ``most + 1`` found if there are more."""
    found = np.empty(most + 1)
    n = 0
    for i in range(values.shape[0]):
        value = values[i]
        if np.isnan(value):
            continue
        low, high = 0, n
        while low < high:
            middle = (low + high) // 2
            if found[middle] < value:
                low = middle + 1
            else:
                high = middle
        if low < n and found[low] == value:
            continue
        for at in range(n, low, -1):
            found[at] = found[at - 1]
        found[low] = value
        n += 1
        if n > most:
            break
    return found[:n].copy()


@jit
def bin_numbers(values, tops, bins):
    """Write the bin of each number: the first whose top is not below it, or the last bin; NaN gets the next one."""
    last = tops.shape[0] - 1
    for i in range(values.shape[0]):
        value = values[i]
        if np.isnan(value):
            bins[i] = last + 1
            continue
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            if tops[middle] < value:
                low = middle + 1
            else:
                high = middle
        bins[i] = low


@jit
def bin_reach(values, bins, low, high):
    """Write the lowest and highest number of each bin."""
    for i in range(values.shape[0]):
        b = bins[i]
        low[b] = min(low[b], values[i])
        high[b] = max(high[b], values[i])


@jit
def sum_nodes(nodes, order, amounts, sums, rows):
    """Sum ``amounts``, given for the rows of the table, over the rows of each node, and count the rows."""
    for node in range(nodes.shape[0] - 1, -1, -1):
        rows[node] = nodes[node, END] - nodes[node, BEGIN]
        if nodes[node, LEFT] < 0:
            for i in range(nodes[node, BEGIN], nodes[node, END]):
                for m in range(amounts.shape[1]):
                    sums[node, m] += amounts[order[i], m]
        else:
            # Children follow their parents.
            for m in range(amounts.shape[1]):
                sums[node, m] = sums[nodes[node, LEFT], m] + sums[nodes[node, RIGHT], m]


@jit
def sum_classes(nodes, order, codes, weight, sums, rows):
    """Sum the weights of each class over the rows of each node, and count the rows; no ``weight`` means 1 each."""
    for node in range(nodes.shape[0] - 1, -1, -1):
        rows[node] = nodes[node, END] - nodes[node, BEGIN]
        if nodes[node, LEFT] < 0:
            for i in range(nodes[node, BEGIN], nodes[node, END]):
                row = order[i]
                sums[node, codes[row]] += weight[row] if weight.shape[0] > 0 else 1.0
        else:
            for c in range(sums.shape[1]):
                sums[node, c] = sums[nodes[node, LEFT], c] + sums[nodes[node, RIGHT], c]


NAMES, MISSING_LEFT = 1, 2
"""Marks of a node: it tests a nominal value; missing numbers go left."""

NODE = np.dtype(
    [("threshold", np.float64), ("left", np.int32), ("feature", np.int32), ("marks", np.int64)],
    align=True,
)
"""A node; its right child follows the left one. A leaf is its own left child, and every number of the first feature
goes there: rows in a leaf stay there without a test for leaves."""


def make_leaves(numbers):
    """Return leaves with these numbers."""
    nodes = np.zeros(len(numbers), NODE)
    nodes["threshold"], nodes["left"] = np.inf, numbers
    return nodes


@jit
def lay_nodes(left, right, feature, threshold, nodes, source):
    """Write the nodes of a tree level by level, from any order; ``source`` is the old position of each."""
    source[0] = 0
    n = 1
    for node in range(nodes.shape[0]):
        old = source[node]
        nodes[node].marks = 0
        if left[old] < 0:
            nodes[node].left, nodes[node].feature, nodes[node].threshold = node, 0, np.inf
            continue
        nodes[node].left, nodes[node].feature, nodes[node].threshold = n, feature[old], threshold[old]
        source[n], source[n + 1] = left[old], right[old]
        n += 2


@jit
def find_leaves(nodes, side, values, plain, leaves):
    """Find the leaf of each row; ``plain`` means that no node tests a nominal value and no value is missing."""
    nodes, side, values = borrow((nodes, side, values))
    n = np.uint64(values.shape[0])
    i = np.uint64(0)
    while plain and i + SEVENTH < n:
        for j, leaf in enumerate(_eight_leaves(nodes, values, i)):
            leaves[i + np.uint64(j)] = leaf
        i += EIGHT
    while i < n:
        leaves[i] = _leaf_of(nodes, side, values, i)
        i += ONE


@jit
def add_answers(nodes, side, values, plain, answers, factor, total):
    """Add the output of the tree to each row, multiplied by ``factor``."""
    nodes, side, values = borrow((nodes, side, values))
    n = np.uint64(values.shape[0])
    i = np.uint64(0)
    while plain and i + SEVENTH < n:
        for j, leaf in enumerate(_eight_leaves(nodes, values, i)):
            for m in range(answers.shape[1]):
                total[i + np.uint64(j), m] += factor * answers[leaf, m]
        i += EIGHT
    while i < n:
        leaf = _leaf_of(nodes, side, values, i)
        for m in range(answers.shape[1]):
            total[i, m] += factor * answers[leaf, m]
        i += ONE


# Unsigned indices spare numba the check for negative values, which takes a quarter of the time here.
ONE, SECOND, THIRD, FOURTH = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
FIFTH, SIXTH, SEVENTH, EIGHT = np.uint64(5), np.uint64(6), np.uint64(7), np.uint64(8)
LAST_BIT, BITS = np.uint64(63), np.uint64(6)


@inner
def _leaf_of(nodes, side, values, i):
    """Return the leaf of a row; the right child follows the left one."""
    node = np.uint64(0)
    while True:
        left = np.uint64(nodes[node].left)
        if left == node:
            return node
        value = values[i, np.uint64(nodes[node].feature)]
        if nodes[node].marks & NAMES:
            code = np.uint64(value)
            goes_left = (side[node, code >> BITS] >> (code & LAST_BIT)) & ONE != 0
        else:
            goes_left = value <= nodes[node].threshold or (nodes[node].marks & MISSING_LEFT and np.isnan(value))
        node = left if goes_left else left + ONE


@merged
def _eight_leaves(nodes, values, i):
    """Return the leaves of eight consecutive rows, interleaved so that none waits for the memory of another."""
    a = b = c = d = e = f = g = h = np.uint64(0)
    while True:
        next_a, next_b = _child_of(nodes, values, i, a), _child_of(nodes, values, i + ONE, b)
        next_c, next_d = _child_of(nodes, values, i + SECOND, c), _child_of(nodes, values, i + THIRD, d)
        next_e, next_f = _child_of(nodes, values, i + FOURTH, e), _child_of(nodes, values, i + FIFTH, f)
        next_g, next_h = _child_of(nodes, values, i + SIXTH, g), _child_of(nodes, values, i + SEVENTH, h)
        moved = (next_a ^ a) | (next_b ^ b) | (next_c ^ c) | (next_d ^ d)
        moved |= (next_e ^ e) | (next_f ^ f) | (next_g ^ g) | (next_h ^ h)
        if moved == 0:
            return a, b, c, d, e, f, g, h
        a, b, c, d, e, f, g, h = next_a, next_b, next_c, next_d, next_e, next_f, next_g, next_h


@merged
def _child_of(nodes, values, i, node):
    """Return the node to which a row goes from a node; it stays in a leaf."""
    value = values[i, np.uint64(nodes[node].feature)]
    return np.uint64(nodes[node].left) + np.uint64(not value <= nodes[node].threshold)


@jit
def prune(left, right, risk, alpha):
    """Cut the weakest links as long as each costs at most ``alpha`` per leaf removed.

    ``risk`` is the impurity of each node times its share of the weight. Return a mark for nodes that become leaves or
    were leaves, and one for nodes that remain.
    """
    n = left.shape[0]
    parent = np.full(n, -1, np.int64)
    leaves, below = np.ones(n, np.int64), risk.copy()
    is_leaf, remains = left < 0, np.ones(n, np.bool_)
    for node in range(n - 1, -1, -1):
        if left[node] >= 0:
            parent[left[node]] = parent[right[node]] = node
            leaves[node] = leaves[left[node]] + leaves[right[node]]
            below[node] = below[left[node]] + below[right[node]]
    while not is_leaf[0]:
        weakest, least = -1, np.inf
        for node in range(n):
            if remains[node] and not is_leaf[node]:
                cost = (risk[node] - below[node]) / (leaves[node] - 1)
                if cost < least:
                    weakest, least = node, cost
        if least > alpha:
            break
        saved, added = leaves[weakest] - 1, risk[weakest] - below[weakest]
        is_leaf[weakest] = True
        node = np.int64(weakest)
        while node >= 0:
            leaves[node] -= saved
            below[node] += added
            node = parent[node]
        _drop_below(left, right, weakest, remains)
    return is_leaf, remains


@inner
def _drop_below(left, right, top, remains):
    waiting = [left[top], right[top]]
    while len(waiting) > 0:
        node = waiting.pop()
        remains[node] = False
        if left[node] >= 0:
            waiting.append(left[node])
            waiting.append(right[node])
