"""What is done with a tree that was grown: bin numbers, sum up its nodes, send rows down, prune."""

from __future__ import annotations

import numpy as np

from shoal._kernels._borrow import borrow
from shoal._kernels._jit import inner, jit
from shoal._kernels.tree import ATTRIBUTE, BEGIN, END, LEFT, MIDDLE, RIGHT, goes_left
from shoal._kernels.tree_data import ORDERED


@jit
def whole_range(values):
    """Lowest and highest number if all are whole (NaN aside), else (0, -1)."""
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
    """The bin of each whole number, by a table that begins with the lowest."""
    for i in range(values.shape[0]):
        bins[i] = missing if np.isnan(values[i]) else table[np.int64(values[i] - low)]


@jit
def distinct_numbers(values, most):
    """The distinct numbers, ascending, without NaN; the first ``most + 1`` that were found if there are more."""
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
    """The bin of each number: the first whose top is not below it; the last bin if it is above all, NaN the next."""
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
    """Lowest and highest number of each bin."""
    for i in range(values.shape[0]):
        b = bins[i]
        low[b] = min(low[b], values[i])
        high[b] = max(high[b], values[i])


@jit
def sum_nodes(nodes, order, amounts, sums, rows):
    """Sums of the rows of each node, and their number; ``amounts`` are those of the rows of the table."""
    for node in range(nodes.shape[0] - 1, -1, -1):
        rows[node] = nodes[node, END] - nodes[node, BEGIN]
        if nodes[node, LEFT] < 0:
            for i in range(nodes[node, BEGIN], nodes[node, END]):
                for m in range(amounts.shape[1]):
                    sums[node, m] += amounts[order[i], m]
        else:
            # Children come behind their parents.
            for m in range(amounts.shape[1]):
                sums[node, m] = sums[nodes[node, LEFT], m] + sums[nodes[node, RIGHT], m]


@jit
def sum_classes(nodes, order, codes, weight, sums, rows):
    """The weight of each class among the rows of each node, and their number; all weigh 1 if ``weight`` is empty."""
    for node in range(nodes.shape[0] - 1, -1, -1):
        rows[node] = nodes[node, END] - nodes[node, BEGIN]
        if nodes[node, LEFT] < 0:
            for i in range(nodes[node, BEGIN], nodes[node, END]):
                row = order[i]
                sums[node, codes[row]] += weight[row] if weight.shape[0] > 0 else 1.0
        else:
            for c in range(sums.shape[1]):
                sums[node, c] = sums[nodes[node, LEFT], c] + sums[nodes[node, RIGHT], c]


@jit
def cut_between(nodes, bins, form, missing, below, above, missing_left):
    """Of each cut of an ordered attribute: the bins just below and above it, and whether missing values go left.

    -1 where all present values go to one side. Missing values that no row of the node has go where most rows do.
    """
    for node in range(nodes.shape[0]):
        below[node] = above[node] = -1
        if nodes[node, LEFT] < 0 or form[nodes[node, ATTRIBUTE]] != ORDERED:
            continue
        j = nodes[node, ATTRIBUTE]
        begin, middle, end = nodes[node, BEGIN], nodes[node, MIDDLE], nodes[node, END]
        missing_left[node] = middle - begin > end - middle
        for i in range(begin, middle):
            if bins[i, j] == missing[j]:
                missing_left[node] = True
            else:
                below[node] = max(below[node], np.int64(bins[i, j]))
        for i in range(middle, end):
            if bins[i, j] == missing[j]:
                missing_left[node] = False
            elif above[node] < 0 or bins[i, j] < above[node]:
                above[node] = np.int64(bins[i, j])


NAMES, MISSING_LEFT = 1, 2
"""Marks of a node: it asks about a name; missing numbers go left."""


@inner
def _leaf_of(nodes, side, values, i):
    """Where a row ends up; the right child follows the left one."""
    node = np.int64(0)
    while nodes[node].left >= 0:
        value = values[i, nodes[node].feature]
        if nodes[node].marks & NAMES:
            left = goes_left(side[node], np.int64(value))
        else:
            left = value <= nodes[node].threshold or (nodes[node].marks & MISSING_LEFT and np.isnan(value))
        node = nodes[node].left + (0 if left else 1)
    return node


@jit
def find_leaves(nodes, side, values, leaves):
    """The leaf of each row."""
    nodes, side, values = borrow((nodes, side, values))
    for i in range(values.shape[0]):
        leaves[i] = _leaf_of(nodes, side, values, i)


@jit
def add_answers(nodes, side, values, answers, factor, total):
    """Add to each row what the tree answers, so many times."""
    nodes, side, values = borrow((nodes, side, values))
    for i in range(values.shape[0]):
        leaf = _leaf_of(nodes, side, values, i)
        for m in range(answers.shape[1]):
            total[i, m] += factor * answers[leaf, m]


@jit
def prune(left, right, risk, alpha):
    """Which nodes remain when the weakest links are cut as long as each costs at most ``alpha`` by leaf saved.

    ``risk`` is the impurity of each node by its share of the weight. Returns a mark for nodes that become leaves or
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
