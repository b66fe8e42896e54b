"""Group equal rows, and count what is in each group."""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner, jit

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@jit
def look_up(numbers, low, table, out):
    """``out[i] = table[numbers[i] - low]`` without a temporary array of the size of ``numbers``."""
    for i in range(numbers.shape[0]):
        out[i] = table[numbers[i] - low]


@jit
def fill_missing(codes, code, out):
    """Copy codes, with the given one in place of -1."""
    for i in range(codes.shape[0]):
        out[i] = codes[i] if codes[i] >= 0 else code


@jit
def some_row(codes, n_codes):
    """A row that has each code; rows with a negative code do not count."""
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
def group_rows(rows):
    """Number the distinct rows of a matrix in order of first appearance.

    A hash table with open addressing; rows are compared in full, so that two different rows never share a group.

    Returns
    -------
    labels : int32 (n,)
    first : int64 (g,), the first row of each group
    """
    n, q = rows.shape
    labels = np.empty(n, np.int32)
    capacity = 1 << 12
    slots = np.full(capacity, -1, np.int32)
    first = np.empty(1 << 10, np.int64)
    hashes = np.empty(1 << 10, np.uint64)
    n_groups = 0
    for i in range(n):
        key = np.uint64(q)
        for j in range(q):
            key = (key ^ np.uint64(rows[i, j])) * _MULTIPLIER
            key ^= key >> _SHIFT
        at = np.int64(key & np.uint64(capacity - 1))
        while True:
            group = slots[at]
            if group < 0:
                break
            if hashes[group] == key:
                other = first[group]
                same = True
                for j in range(q):
                    if rows[i, j] != rows[other, j]:
                        same = False
                        break
                if same:
                    break
            at = (at + 1) & (capacity - 1)
        if group < 0:
            group = n_groups
            if n_groups == first.shape[0]:
                first = np.concatenate((first, np.empty_like(first)))
                hashes = np.concatenate((hashes, np.empty_like(hashes)))
            first[group] = i
            hashes[group] = key
            slots[at] = group
            n_groups += 1
            if 2 * n_groups > capacity:
                capacity *= 4
                slots = _spread(hashes, n_groups, capacity)
        labels[i] = group
    return labels, first[:n_groups].copy()


@inner
def _spread(hashes, n_groups, capacity):
    slots = np.full(capacity, -1, np.int32)
    for group in range(n_groups):
        at = np.int64(hashes[group] & np.uint64(capacity - 1))
        while slots[at] >= 0:
            at = (at + 1) & (capacity - 1)
        slots[at] = group
    return slots


@jit
def order_by_label(labels, n_groups):
    """Rows sorted by label, stable: ``order[starts[g]:starts[g + 1]]`` are the rows of group g."""
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
    """Sparse counts of ``codes`` per group: (indptr, values, counts), values ascending within a group.

    ``counted`` is a mask of the rows that count; of length 0 it means all rows.
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
    """Number the groups by where they start."""
    n_leaves = leaf_start.shape[0]
    for g in range(n_leaves):
        stop = leaf_start[g + 1] if g + 1 < n_leaves else order.shape[0]
        for i in range(leaf_start[g], stop):
            labels[order[i]] = g
