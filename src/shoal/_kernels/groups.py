"""Group equal rows, and count the values in each group."""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner, jit

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@jit
def look_up(numbers, low, table, out):
    """Set ``out[i] = table[numbers[i] - low]`` without a temporary array of the size of ``numbers``."""
    for i in range(numbers.shape[0]):
        out[i] = table[numbers[i] - low]


@jit
def fill_missing(codes, code, out):
    """Copy codes, with the given one in place of -1."""
    for i in range(codes.shape[0]):
        out[i] = codes[i] if codes[i] >= 0 else code


@jit
def some_row(codes, n_codes):
    """Return one row for each code; rows with a negative code do not count."""
    rows = np.zeros(n_codes, np.int64)
    for i in range(codes.shape[0]):
        if codes[i] >= 0:
            rows[codes[i]] = i
    return rows


@jit
def mark_present(numbers, low, present):
    """Mark which of ``low, low + 1, ...`` occur."""
    for i in range(numbers.shape[0]):
        present[numbers[i] - low] = True


@jit
def count_numbers(numbers, n_numbers):
    """Return how often each of ``0, 1, ..., n_numbers - 1`` occurs."""
    # Most rows may have the same number, and adding to a counter waits for the previous addition: four alternating
    # counters take a third of the time of one, and a sixth of that of numpy's bincount.
    found = np.zeros((4, n_numbers), np.int64)
    for i in range(numbers.shape[0]):
        found[i & 3, numbers[i]] += 1
    return found[0] + found[1] + found[2] + found[3]


@jit
def part_rows(rows, goes_left):
    """Return the rows that go left, and the others."""
    # Both are written each time, since an unpredictable branch takes up to five times as long.
    left, right = np.empty_like(rows), np.empty_like(rows)
    n_left = 0
    for i in range(rows.shape[0]):
        left[n_left], right[i - n_left] = rows[i], rows[i]
        n_left += np.int64(goes_left[i])
    return left[:n_left], right[: rows.shape[0] - n_left]


def group_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Label the distinct rows of a matrix in order of first appearance.

    Returns
    -------
    labels : int32 (n,)
    first : int64 (g,), the first row of each group
    """
    labels = np.empty(len(rows), np.int32)
    row, n_groups, (slots, first, hashes) = 0, 0, empty_table()
    while True:
        row, n_groups = _group_until_full(rows, row, n_groups, slots, first, hashes, labels)
        if row == len(labels):
            return labels, first[:n_groups].copy()
        slots, first, hashes = enlarge_table(first, hashes)


@jit
def _group_until_full(rows, row, n_groups, slots, first, hashes, labels):
    """Label rows from ``row`` on until the table is full; return the next row and the number of groups.

    The hash table uses open addressing; rows are compared in full, so that two different rows never share a group. It
    is enlarged elsewhere: numba counts references to an array that is reassigned in a loop, which took as long as all
    the rest.
    """
    q = rows.shape[1]
    shift = count_unused_bits(slots)
    for i in range(row, rows.shape[0]):
        key = np.uint64(q)
        for j in range(q):
            key = (key ^ np.uint64(rows[i, j])) * _MULTIPLIER
            key ^= key >> _SHIFT
        at = np.int64(key >> shift)
        group = slots[at]
        while group >= 0:
            same = hashes[group] == key
            if same:
                other = first[group]
                for j in range(q):
                    same &= rows[i, j] == rows[other, j]
            if same:
                break
            at = (at + 1) & (slots.shape[0] - 1)
            group = slots[at]
        if group < 0:
            if n_groups == first.shape[0]:
                return i, n_groups
            group = n_groups
            slots[at], first[group], hashes[group] = group, i, key
            n_groups += 1
        labels[i] = group
    return labels.shape[0], n_groups


def empty_table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return an empty hash table: slots that hold labels or -1; half as many first rows, and hashes, of the labels."""
    n_slots = 1 << 12  # made in 2 µs
    return np.full(n_slots, -1, np.int32), np.empty(n_slots // 2, np.int64), np.empty(n_slots // 2, np.uint64)


def enlarge_table(first: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a hash table with the content of a full one and four times as many slots."""
    n_slots = 8 * len(first)
    slots = np.full(n_slots, -1, np.int32)
    _fill(slots, hashes)
    return slots, lengthen(first, n_slots // 2), lengthen(hashes, n_slots // 2)


def lengthen(array: np.ndarray, length: int) -> np.ndarray:
    """Return a copy of the array with spare space at its end."""
    longer = np.empty((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


@jit
def _fill(slots, hashes):
    shift = count_unused_bits(slots)
    for number in range(hashes.shape[0]):
        at = np.int64(hashes[number] >> shift)
        while slots[at] >= 0:
            at = (at + 1) & (slots.shape[0] - 1)
        slots[at] = number


@inner
def count_unused_bits(slots):
    """Return the number of bits of a hash other than the highest ones, which choose the slot."""
    bits = 0
    while slots.shape[0] >> bits > 1:
        bits += 1
    return np.uint64(64 - bits)


@jit
def order_by_label(labels, n_groups):
    """Sort rows by label, stable: ``order[starts[g]:starts[g + 1]]`` are the rows of group g."""
    starts = np.zeros(n_groups + 1, np.int64)
    for i in range(labels.shape[0]):
        starts[labels[i] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    fill = starts[:-1].copy()
    order = np.empty(labels.shape[0], np.int64)
    for i in range(labels.shape[0]):
        g = labels[i]
        order[fill[g]] = i
        fill[g] += 1
    return order, starts


@jit
def tally(codes, order, starts, counted, n_values):
    """Count ``codes`` per group as sparse arrays (indptr, values, counts), values ascending within a group.

    ``counted`` is a mask of the rows that count; an empty mask means all rows.
    """
    n_groups = starts.shape[0] - 1
    histogram = np.zeros(n_values, np.int64)
    indptr = np.zeros(n_groups + 1, np.int64)
    values = np.empty(codes.shape[0], np.int64)
    counts = np.empty(codes.shape[0], np.int64)
    filled = 0
    for g in range(n_groups):
        begin = filled
        for i in range(starts[g], starts[g + 1]):
            row = order[i]
            if counted.shape[0] > 0 and not counted[row]:
                continue
            value = codes[row]
            if histogram[value] == 0:
                values[filled] = value
                filled += 1
            histogram[value] += 1
        values[begin:filled].sort()
        for at in range(begin, filled):
            counts[at] = histogram[values[at]]
            histogram[values[at]] = 0
        indptr[g + 1] = filled
    return indptr, values[:filled].copy(), counts[:filled].copy()


@jit
def label_rows(order, leaf_start, labels):
    """Label the rows of each leaf; groups are numbered by their first position."""
    n_leaves = leaf_start.shape[0]
    for g in range(n_leaves):
        stop = leaf_start[g + 1] if g + 1 < n_leaves else order.shape[0]
        for i in range(leaf_start[g], stop):
            labels[order[i]] = g
