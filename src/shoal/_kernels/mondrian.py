"""Mondrian's rule for cuts: the most balanced place of each attribute, and the attribute whose cut gains most."""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.cutting import (
    MOST_TRIES,
    SMALL_CHILDREN,
    both_hold,
    distinct_codes,
    largest_child,
    partition,
    same_node,
    swap,
)
from shoal._kernels.geometry import LINE, TREE, ancestor_level, width


@inner
def merit_of(task, ties, start, stop, j, low, high):
    """Return the merit of the best cut of an attribute; 0 if there is none."""
    geometry = task.geometry
    n = stop - start
    m = distinct_codes(task, start, stop, j, low[j], high[j])
    codes, below = task.codes, task.below
    low[j], high[j] = codes[0], codes[m - 1]
    if m == 1 or geometry.weight[j] == 0.0:
        return 0.0
    before = width(geometry, j, codes[0], codes[m - 1], m)
    if ties is not None:
        if geometry.form[j] == LINE:
            # Ties may go to either side, so that there always is a cut, which halves the group.
            return geometry.weight[j] * before
    first, last, _ = _next_place(task, j, m, n, n + 1, np.int64(-1))
    if first < 0:
        return 0.0
    if task.by_width:
        return geometry.weight[j] * before
    left = below[last + 1] - below[first]
    outside_low = codes[0] if first > 0 else codes[last + 1]
    outside_high = codes[m - 1] if last < m - 1 else codes[first - 1]
    inside = width(geometry, j, codes[first], codes[last], last - first + 1)
    outside = width(geometry, j, outside_low, outside_high, m - (last - first + 1))
    gain = before - (left * inside + (n - left) * outside) / n
    # A cut that gains nothing here can still enable one that does.
    return geometry.weight[j] * max(gain, 1e-9)


@inner
def _next_place(task, j, m, n, merit_before, place_before):
    """Find the next best cut: codes number first..last of the group go left; return (first, last, merit) or -1.

    On a line or in a set the left part is a run from the start, the more balanced the better, but separating the
    missing value from the others is best. In a tree it is one child of the group's node, the larger the better; if even
    the largest is small, a run of children from the start, so that many small ones do not take as many cuts.
    """
    below, codes, geometry = task.below, task.codes, task.geometry
    tree = geometry.form[j] == TREE
    level = ancestor_level(geometry, j, codes[0], codes[m - 1]) - 1 if tree else 0
    one_child = tree and largest_child(task, j, m, level) * SMALL_CHILDREN >= n
    best_first, best_last, best = np.int64(-1), np.int64(-1), np.int64(-1)
    first = 0
    for last in range(m):
        if last + 1 == m and not one_child:
            break
        if tree and last + 1 < m and same_node(geometry, j, codes[last], codes[last + 1], level):
            continue
        left = below[last + 1] - below[first]
        merit = left if one_child else min(left, n - left)
        if not tree and codes[last + 1] == geometry.missing[j]:
            merit = n
        not_yet = merit < merit_before or (merit == merit_before and last > place_before)
        if not_yet and merit > best and left >= task.smallest and n - left >= task.smallest:
            best_first, best_last, best = np.int64(first), np.int64(last), merit
        if one_child:
            first = last + 1
    return best_first, best_last, best


@inner
def cut_attribute(task, guard, ties, start, stop, j, low, high):
    """Cut a group on one attribute; return (from, to, middle), with middle = start if no place is admissible."""
    n = stop - start
    m = distinct_codes(task, start, stop, j, low, high)
    if ties is not None:
        if task.geometry.form[j] == LINE:
            return _cut_relaxed(task, guard, ties, start, stop, j, m)
    merit, before = n + 1, np.int64(-1)
    for _ in range(MOST_TRIES):
        first, last, merit = _next_place(task, j, m, n, merit, before)
        if first < 0:
            break
        before = last
        # Codes below those of the group belong to its left part, in case such a row is added later.
        cut_from = task.codes[first] if task.geometry.form[j] == TREE else np.int64(0)
        cut_to = task.codes[last] + 1
        middle = partition(task.rows, start, stop, j, cut_from, cut_to)
        if both_hold(guard, task.rows.order, start, middle, stop):
            return cut_from, cut_to, middle
    return np.int64(0), np.int64(0), np.int64(start)


@inner
def _cut_relaxed(task, guard, ties, start, stop, j, m):
    """Halve a group at its median; rows equal to the median fill up the left half. New rows equal to it go left."""
    half = (stop - start) // 2
    median = np.searchsorted(task.below[:m], half, side="right") - 1
    value = task.codes[median]
    first_tie = partition(task.rows, start, stop, j, 0, value)
    last_tie = partition(task.rows, first_tie, stop, j, value, value + 1)
    _sort_rows(task.rows, ties, first_tie, last_tie)
    middle = np.int64(start + half)
    if half < task.smallest or not both_hold(guard, task.rows.order, start, middle, stop):
        return np.int64(0), np.int64(0), np.int64(start)
    return np.int64(0), value + 1, middle


@inner
def _sort_rows(rows, ties, start, stop):
    """Heapsort rows by content, then by row number, so that equal tables are cut alike whatever their row order."""
    n = stop - start
    for root in range(n // 2 - 1, -1, -1):
        _sift_down(rows, ties, start, root, n)
    for end in range(n - 1, 0, -1):
        swap(rows, start, start + end)
        _sift_down(rows, ties, start, 0, end)


@inner
def _sift_down(rows, ties, start, root, n):
    while True:
        child = 2 * root + 1
        if child >= n:
            return
        if child + 1 < n and _precedes(rows, ties, start + child, start + child + 1):
            child += 1
        if not _precedes(rows, ties, start + root, start + child):
            return
        swap(rows, start + root, start + child)
        root = child


@inner
def _precedes(rows, ties, a, b):
    for w in range(rows.words.shape[1]):
        if rows.words[a, w] != rows.words[b, w]:
            return rows.words[a, w] < rows.words[b, w]
    row, other = rows.order[a], rows.order[b]
    for s in range(ties.shape[1]):
        if ties[row, s] != ties[other, s]:
            return ties[row, s] < ties[other, s]
    return row < other


@jit
def descend(codes, attribute, cut_from, cut_to, left, right, labels):
    """Send rows down a tree of cuts; write the numbers of their leaves into ``labels``."""
    for i in range(codes.shape[0]):
        node = 0
        while attribute[node] >= 0:
            code = codes[i, attribute[node]]
            node = left[node] if cut_from[node] <= code < cut_to[node] else right[node]
        labels[i] = right[node]
