"""Common steps of all cuts of packed rows: find the codes of a group, and move its rows.

The rows of a group are contiguous; a cut moves the left part to the front. Groups are therefore numbered by their
first position, which depends only on the cuts, not on the order of the rows or the number of threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner
from shoal._kernels.geometry import Geometry, Rows, code_of
from shoal._kernels.guard import guard_holds

MOST_TRIES = 4
"""Places tried for a cut of one attribute when constraints on sensitive values reject the best one."""
SMALL_CHILDREN = 16
"""Children of a node are cut off in runs, not one by one, if each holds less than one row in this many."""


class CutTask(NamedTuple):
    """Rows to cut, the rule, and scratch buffers; one for each thread."""

    rows: Rows
    geometry: Geometry
    smallest: int
    """Minimum number of rows of a group."""
    by_width: bool
    """True to cut the widest attribute instead of the one whose cut gains most."""
    histogram: np.ndarray
    codes: np.ndarray
    below: np.ndarray
    """Scratch buffers, each one longer than the largest number of values: counts (all zero between uses), the distinct
    codes of a group, and the number of rows below each."""


@inner
def distinct_codes(task, start, stop, j, low, high):
    """Write the distinct codes of a group, ascending, and the number of rows below each; return how many there are."""
    codes, below, histogram = task.codes, task.below, task.histogram
    n = stop - start
    m = 0
    if high - low + 1 > 4 * n:
        # Counting would scan many codes that do not occur.
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
def largest_child(task, j, m, level):
    """Return the number of rows in the largest child of a group's node."""
    largest, first = 0, 0
    for last in range(m):
        if last + 1 == m or not same_node(task.geometry, j, task.codes[last], task.codes[last + 1], level):
            largest = max(largest, task.below[last + 1] - task.below[first])
            first = last + 1
    return largest


@inner
def same_node(geometry, j, one, other, level):
    """Return True if two values of a tree have the same node at a level."""
    at, n_levels = geometry.table_at[j], geometry.n_levels[j]
    return geometry.table[at + one * n_levels + level] == geometry.table[at + other * n_levels + level]


@inner
def partition(rows, start, stop, j, cut_from, cut_to):
    """Move the rows with codes from <= code < to to the front; return where the others begin."""
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
        swap(rows, left, right)
        left += 1
        right -= 1
    return np.int64(left)


@inner
def swap(rows, a, b):
    """Exchange two rows."""
    words, order = rows.words, rows.order
    for w in range(words.shape[1]):
        words[a, w], words[b, w] = words[b, w], words[a, w]
    order[a], order[b] = order[b], order[a]


@inner
def both_hold(guard, order, start, middle, stop):
    """Return True if both parts of a cut satisfy all rules; ``guard`` is None if only their sizes matter."""
    if guard is None:
        return True
    return guard_holds(guard, order, start, middle) and guard_holds(guard, order, middle, stop)


@inner
def longer(lines):
    """Return a copy of the array with space for twice as many rows."""
    # An explicit loop: a slice assignment takes three seconds to compile, because of its error message.
    found = np.empty((2 * lines.shape[0], lines.shape[1]), np.int64)
    for i in range(lines.shape[0]):
        for j in range(lines.shape[1]):
            found[i, j] = lines[i, j]
    return found
