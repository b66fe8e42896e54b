"""Mondrian's top-down cuts on packed rows, in place.

The rows of a group lie side by side; a cut moves the left part to the front. Groups are therefore numbered by where
they start, which depends on the cuts alone, not on the order of the rows or on the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.geometry import LINE, TREE, Geometry, Rows, ancestor_level, code_of, width
from shoal._kernels.guard import guard_holds

NO_CUT = np.int64(-1)
MOST_TRIES = 4
"""Places tried for a cut of one attribute when constraints on sensitive values refuse the best one."""
SMALL_CHILDREN = 16
"""Children of a node that hold less than one row in so many are cut apart in runs, not one by one."""


class Task(NamedTuple):
    """What is cut, and by which rule; one for each thread."""

    rows: Rows
    geometry: Geometry
    smallest: int
    """Rows that every group has at least."""
    by_width: bool
    """Cut the widest attribute, instead of the one whose cut gains most."""
    histogram: np.ndarray
    codes: np.ndarray
    below: np.ndarray
    """Scratch, each one longer than the largest number of values: counts (all zero between uses), the distinct codes of
    a group, and how many rows lie below each."""


@jit
def grow(task, guard, ties, start, stop, low, high):
    """Cut rows start..stop, with codes within low..high, until no admissible cut is left.

    ``guard`` is None where only the size of a group counts, and ``ties`` is None for strict cuts: numba then leaves out
    what is not needed, which halves the time to compile. For relaxed cuts ``ties`` are codes by which rows are ordered
    that equal each other in all attributes.

    Returns the tree in preorder: attribute (NO_CUT in a leaf), from and to (codes from <= code < to go left), right
    (the right child; the left one is the next node; in a leaf its number); and where each leaf starts.
    """
    most_leaves = max((stop - start) // task.smallest, 1)
    attribute = np.empty(2 * most_leaves, np.int16)
    cut_from = np.empty(2 * most_leaves, np.int32)
    cut_to = np.empty(2 * most_leaves, np.int32)
    right = np.empty(2 * most_leaves, np.int32)
    leaf_start = np.empty(most_leaves, np.int64)
    # Depth-first, left first. An entry of the stack: where the group starts and stops, whose right child it is, and its
    # bounds. A cut halves a group as a rule, but single values can peel off one by one, so the stack can grow.
    q = low.shape[0]
    stack = np.empty((64, 3 + 2 * q), np.int64)
    _push(stack, 0, start, stop, -1, low, high)
    depth, n_nodes, n_leaves = 1, 0, 0
    while depth > 0:
        depth -= 1
        begin, end, parent = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        group_low, group_high = stack[depth, 3 : 3 + q].copy(), stack[depth, 3 + q :].copy()
        node = n_nodes
        n_nodes += 1
        if parent >= 0:
            right[parent] = node
        j, cut_from[node], cut_to[node], middle = split(task, guard, ties, begin, end, group_low, group_high)
        attribute[node] = j
        if j == NO_CUT:
            right[node] = n_leaves
            leaf_start[n_leaves] = begin
            n_leaves += 1
            continue
        if depth + 2 > stack.shape[0]:
            stack = _longer(stack)
        _push(stack, depth, middle, end, node, group_low, group_high)
        _push(stack, depth + 1, begin, middle, -1, group_low, group_high)
        depth += 2
    tree = (attribute[:n_nodes].copy(), cut_from[:n_nodes].copy(), cut_to[:n_nodes].copy(), right[:n_nodes].copy())
    return tree, leaf_start[:n_leaves].copy()


@inner
def _longer(stack):
    # Written out: an assignment of slices takes three seconds to compile, for the message of an error.
    longer = np.empty((2 * stack.shape[0], stack.shape[1]), np.int64)
    for i in range(stack.shape[0]):
        for j in range(stack.shape[1]):
            longer[i, j] = stack[i, j]
    return longer


@inner
def _push(stack, at, start, stop, parent, low, high):
    q = low.shape[0]
    stack[at, 0], stack[at, 1], stack[at, 2] = start, stop, parent
    for j in range(q):
        stack[at, 3 + j] = low[j]
        stack[at, 3 + q + j] = high[j]


@jit
def cut_once(task, guard, ties, start, stop, low, high):
    """A single cut, for callers that hand parts of a large table to several threads; see ``split``."""
    return split(task, guard, ties, start, stop, low, high)


@inner
def split(task, guard, ties, start, stop, low, high):
    """Make the best admissible cut of one group: (attribute, from, to, first row of the right part).

    Every attribute has its own best place, the most balanced one; the attribute is chosen for which that cut gains most
    (or the widest one), the next best if constraints refuse it. ``low`` and ``high`` are narrowed to the group.
    """
    n = stop - start
    q = low.shape[0]
    merit = np.zeros(q)
    if n >= 2 * task.smallest:
        for j in range(q):
            if low[j] < high[j]:
                merit[j] = _merit(task, ties, start, stop, j, low, high)
    for _ in range(q):
        j = np.argmax(merit)
        if merit[j] <= 0.0:
            break
        merit[j] = 0.0
        cut_from, cut_to, middle = _cut_attribute(task, guard, ties, start, stop, j, low[j], high[j])
        if middle > start:
            return j, cut_from, cut_to, middle
    return NO_CUT, np.int64(0), np.int64(0), np.int64(stop)


@inner
def _merit(task, ties, start, stop, j, low, high):
    """What the best cut of an attribute is worth; 0 if there is none."""
    geometry = task.geometry
    n = stop - start
    m = _distinct_codes(task, start, stop, j, low[j], high[j])
    codes, below = task.codes, task.below
    low[j], high[j] = codes[0], codes[m - 1]
    if m == 1 or geometry.weight[j] == 0.0:
        return 0.0
    before = width(geometry, j, codes[0], codes[m - 1], m)
    if ties is not None:
        if geometry.form[j] == LINE:
            # Ties may go to either side, so that there is always a cut, and it halves the group.
            return geometry.weight[j] * before
    first, last, _ = _next_place(task, j, m, n, n + 1, -1)
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
    # A cut that gains nothing here can still make room for one that does.
    return geometry.weight[j] * max(gain, 1e-9)


@inner
def _distinct_codes(task, start, stop, j, low, high):
    """Write the distinct codes of a group, ascending, and the number of rows below each; returns how many there are."""
    codes, below, histogram = task.codes, task.below, task.histogram
    n = stop - start
    m = 0
    if high - low + 1 > 4 * n:
        # Counting would walk through many codes that do not occur.
        for i in range(n):
            codes[i] = code_of(task.rows, start + i, j)
        codes[:n].sort()
        for i in range(n):
            if i == 0 or codes[i] != codes[m - 1]:
                codes[m], below[m] = codes[i], i
                m += 1
        below[m] = n
        return m
    layout = task.rows.layout
    word, shift, mask = layout.word[j], layout.shift[j], layout.mask[j]
    for i in range(start, stop):
        histogram[np.int64((task.rows.words[i, word] >> shift) & mask)] += 1
    rows_below = 0
    for code in range(low, high + 1):
        if histogram[code] > 0:
            codes[m], below[m] = code, rows_below
            rows_below += histogram[code]
            histogram[code] = 0
            m += 1
    below[m] = n
    return m


@inner
def _next_place(task, j, m, n, merit_before, place_before):
    """The best cut after the one given: codes number first..last of the group go left; (first, last, merit) or -1.

    On a line or in a set the left part is a run from the start, the more balanced the better, but best of all is to
    part the missing value from the others. In a tree it is one child of the group's node, the larger the better; where
    even the largest is small, a run of children from the start, so that many of them do not take as many cuts.
    """
    below, codes, geometry = task.below, task.codes, task.geometry
    tree = geometry.form[j] == TREE
    level = ancestor_level(geometry, j, codes[0], codes[m - 1]) - 1 if tree else 0
    one_child = tree and _largest_child(task, j, m, level) * SMALL_CHILDREN >= n
    best_first, best_last, best = np.int64(-1), np.int64(-1), np.int64(-1)
    first = 0
    for last in range(m):
        if last + 1 == m and not one_child:
            break
        if tree and last + 1 < m and _same_node(geometry, j, codes[last], codes[last + 1], level):
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
def _largest_child(task, j, m, level):
    """Rows of the largest child of a group's node."""
    largest, first = 0, 0
    for last in range(m):
        if last + 1 == m or not _same_node(task.geometry, j, task.codes[last], task.codes[last + 1], level):
            largest = max(largest, task.below[last + 1] - task.below[first])
            first = last + 1
    return largest


@inner
def _same_node(geometry, j, one, other, level):
    at, n_levels = geometry.table_at[j], geometry.n_levels[j]
    return geometry.table[at + one * n_levels + level] == geometry.table[at + other * n_levels + level]


@inner
def _cut_attribute(task, guard, ties, start, stop, j, low, high):
    """Cut a group on one attribute: (from, to, middle); middle = start when no place is admissible."""
    n = stop - start
    m = _distinct_codes(task, start, stop, j, low, high)
    if ties is not None:
        if task.geometry.form[j] == LINE:
            return _cut_relaxed(task, guard, ties, start, stop, j, m)
    merit, before = n + 1, np.int64(-1)
    for _ in range(MOST_TRIES):
        first, last, merit = _next_place(task, j, m, n, merit, before)
        if first < 0:
            break
        before = last
        # Codes that lie below the group belong to its left part, should such a row come later.
        cut_from = task.codes[first] if task.geometry.form[j] == TREE else np.int64(0)
        cut_to = task.codes[last] + 1
        middle = _partition(task.rows, start, stop, j, cut_from, cut_to)
        if _both_hold(guard, task.rows.order, start, middle, stop):
            return cut_from, cut_to, middle
    return np.int64(0), np.int64(0), np.int64(start)


@inner
def _partition(rows, start, stop, j, cut_from, cut_to):
    """Move the rows with codes from <= code < to to the front; returns where the others begin."""
    word, shift, mask = rows.layout.word[j], rows.layout.shift[j], rows.layout.mask[j]
    first, span = np.uint64(cut_from), np.uint64(cut_to - cut_from)
    left, right = start, stop - 1
    while True:
        # Codes below the first wrap around to huge numbers, so that one comparison tests both ends.
        while left <= right and ((rows.words[left, word] >> shift) & mask) - first < span:
            left += 1
        while left <= right and ((rows.words[right, word] >> shift) & mask) - first >= span:
            right -= 1
        if left >= right:
            break
        _swap(rows, left, right)
        left += 1
        right -= 1
    return np.int64(left)


@inner
def _swap(rows, a, b):
    words, order = rows.words, rows.order
    for w in range(words.shape[1]):
        words[a, w], words[b, w] = words[b, w], words[a, w]
    order[a], order[b] = order[b], order[a]


@inner
def _both_hold(guard, order, start, middle, stop):
    if guard is None:
        return True
    return guard_holds(guard, order, start, middle) and guard_holds(guard, order, middle, stop)


@inner
def _cut_relaxed(task, guard, ties, start, stop, j, m):
    """Halve a group at its median; rows that equal the median fill up the left half. New rows that equal it go left."""
    half = (stop - start) // 2
    median = np.searchsorted(task.below[:m], half, side="right") - 1
    value = task.codes[median]
    first_tie = _partition(task.rows, start, stop, j, 0, value)
    last_tie = _partition(task.rows, first_tie, stop, j, value, value + 1)
    _sort_rows(task.rows, ties, first_tie, last_tie)
    middle = np.int64(start + half)
    if half < task.smallest or not _both_hold(guard, task.rows.order, start, middle, stop):
        return np.int64(0), np.int64(0), np.int64(start)
    return np.int64(0), value + 1, middle


@inner
def _sort_rows(rows, ties, start, stop):
    """Heapsort by content, then by row number, so that equal tables are cut alike whatever their row order."""
    n = stop - start
    for root in range(n // 2 - 1, -1, -1):
        _sift_down(rows, ties, start, root, n)
    for end in range(n - 1, 0, -1):
        _swap(rows, start, start + end)
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
        _swap(rows, start + root, start + child)
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
    """Send rows down a tree of cuts; labels are the numbers of the leaves."""
    for i in range(codes.shape[0]):
        node = 0
        while attribute[node] >= 0:
            code = codes[i, attribute[node]]
            node = left[node] if cut_from[node] <= code < cut_to[node] else right[node]
        labels[i] = right[node]
