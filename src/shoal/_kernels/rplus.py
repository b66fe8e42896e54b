"""The rule of an R+ tree for cuts: disjoint boxes that are packed and tight.

The place of a cut is chosen so that as many full groups as possible can still be made on both sides, the attribute by
how tight the two boxes become in all attributes, not only in the one that is cut.
"""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner
from shoal._kernels.cutting import (
    MOST_TRIES,
    SMALL_CHILDREN,
    both_hold,
    distinct_codes,
    largest_child,
    partition,
    same_node,
)
from shoal._kernels.geometry import LINE, SET, TREE, ancestor_level, code_of, width

UNBEATEN = np.int64(1 << 62)
"""Larger than the score of any place."""
FEW_GROUPS = 16
"""A part of at most this many full groups is cut where the two boxes are tightest in all attributes. In larger parts
the boxes extend as far as before in all attributes but the one that is cut."""


@inner
def merit_of(task, start, stop, j, low, high):
    """Return the merit of the best cut of an attribute; 0 if there is none."""
    geometry = task.geometry
    n = stop - start
    m = distinct_codes(task, start, stop, j, low[j], high[j])
    codes, below = task.codes, task.below
    low[j], high[j] = codes[0], codes[m - 1]
    if m == 1 or geometry.weight[j] == 0.0:
        return 0.0
    first, last, _ = _next_place(task, j, m, n, UNBEATEN, -1)
    if first < 0:
        return 0.0
    before = width(geometry, j, codes[0], codes[m - 1], m)
    left = below[last + 1] - below[first]
    outside_low = codes[0] if first > 0 else codes[last + 1]
    outside_high = codes[m - 1] if last < m - 1 else codes[first - 1]
    inside = width(geometry, j, codes[first], codes[last], last - first + 1)
    outside = width(geometry, j, outside_low, outside_high, m - (last - first + 1))
    gain = geometry.weight[j] * (before - (left * inside + (n - left) * outside) / n)
    if n <= FEW_GROUPS * task.smallest:
        cut_from, cut_to = codes[first], codes[last] + 1
        for other in range(low.shape[0]):
            if other != j and low[other] < high[other] and geometry.weight[other] > 0.0:
                gain += geometry.weight[other] * _gain_beside(task, start, stop, j, cut_from, cut_to, other)
    # A cut that gains nothing here can still enable one that does.
    return max(gain, 1e-9 * geometry.weight[j])


@inner
def _gain_beside(task, start, stop, j, cut_from, cut_to, other):
    """Return how much tighter the two parts become in an attribute other than the one cut."""
    mark = task.histogram
    n = stop - start
    left, n_left, n_right, n_all = 0, 0, 0, 0
    left_low, right_low = task.geometry.n_values[other], task.geometry.n_values[other]
    left_high, right_high = np.int64(-1), np.int64(-1)
    for i in range(start, stop):
        code = code_of(task.rows, i, other)
        if cut_from <= code_of(task.rows, i, j) < cut_to:
            left += 1
            left_low, left_high = min(left_low, code), max(left_high, code)
            side = 1
        else:
            right_low, right_high = min(right_low, code), max(right_high, code)
            side = 2
        if task.geometry.form[other] == SET:
            # Only sets need the number of distinct values; a mark records on which sides a value was seen.
            if mark[code] == 0:
                n_all += 1
            if mark[code] & side == 0:
                mark[code] |= side
                if side == 1:
                    n_left += 1
                else:
                    n_right += 1
    if task.geometry.form[other] == SET:
        for i in range(start, stop):
            mark[code_of(task.rows, i, other)] = 0
    whole = width(task.geometry, other, min(left_low, right_low), max(left_high, right_high), n_all)
    inside = width(task.geometry, other, left_low, left_high, n_left)
    outside = width(task.geometry, other, right_low, right_high, n_right)
    return whole - (left * inside + (n - left) * outside) / n


@inner
def _next_place(task, j, m, n, score_before, place_before):
    """Find the next best cut: codes number first..last of the part go left; return (first, last, score) or -1.

    On a line or in a set the left part is a run from the start: the best one leaves most full groups on both sides,
    then is most balanced, but separating the missing value from the others is better still. In a tree it is one child
    of the part's node, the larger the better; if even the largest is small, a run of children from the start, so that
    many small ones do not take as many cuts.
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
        if last + 1 < m and _inseparable(geometry, j, codes[last], codes[last + 1], level):
            continue
        left = below[last + 1] - below[first]
        score = np.int64(left)
        if not one_child:
            # Fewer than n full groups fit, so balance only decides between places that leave equally many.
            score = n * (left // task.smallest + (n - left) // task.smallest) + min(left, n - left)
        if not tree and codes[last + 1] == geometry.missing[j]:
            score = UNBEATEN - 1
        not_yet = score < score_before or (score == score_before and last > place_before)
        if not_yet and score > best and left >= task.smallest and n - left >= task.smallest:
            best_first, best_last, best = np.int64(first), np.int64(last), score
        if one_child:
            first = last + 1
    return best_first, best_last, best


@inner
def _inseparable(geometry, j, one, other, level):
    """Return True if two neighbouring codes stay together: under one child of a tree, or at equal floats on a line."""
    if geometry.form[j] == TREE:
        return same_node(geometry, j, one, other, level)
    if geometry.form[j] == LINE:
        at = geometry.position_at[j]
        return geometry.position[at + one] == geometry.position[at + other]
    return False


@inner
def cut_attribute(task, guard, start, stop, j, low, high):
    """Cut a part on one attribute; return (from, to, middle), with middle = start if no place is admissible."""
    n = stop - start
    m = distinct_codes(task, start, stop, j, low, high)
    score, before = UNBEATEN, np.int64(-1)
    for _ in range(MOST_TRIES):
        first, last, score = _next_place(task, j, m, n, score, before)
        if first < 0:
            break
        before = last
        cut_from, cut_to = _reach(task, j, m, first, last)
        middle = partition(task.rows, start, stop, j, cut_from, cut_to)
        if both_hold(guard, task.rows.order, start, middle, stop):
            return cut_from, cut_to, middle
    return np.int64(0), np.int64(0), np.int64(start)


@inner
def _reach(task, j, m, first, last):
    """Return the range of codes that go left if codes number first..last of a part do, including codes without rows.

    On a line these are all lower codes; in a tree all leaves of the separated children, and all below a run of them.
    """
    geometry, codes = task.geometry, task.codes
    if geometry.form[j] != TREE:
        return np.int64(0), codes[last] + 1
    level = ancestor_level(geometry, j, codes[0], codes[m - 1]) - 1
    cut_from, cut_to = codes[first], codes[last] + 1
    while cut_from > 0 and same_node(geometry, j, cut_from - 1, cut_from, level):
        cut_from -= 1
    while cut_to < geometry.n_values[j] and same_node(geometry, j, cut_to, cut_to - 1, level):
        cut_to += 1
    if not same_node(geometry, j, codes[first], codes[last], level):
        cut_from = np.int64(0)
    return cut_from, cut_to
