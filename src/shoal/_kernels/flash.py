"""Group rows that are equal after generalising each attribute to a level, and compute the cost of suppressing groups.

Rows that are equal beforehand are counted together: an *entry* represents all of them, or a whole group of a less
general vector of levels. The nodes of an entry are packed into 64-bit words, and equal words are found by hashing.
"""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.guard import guard_holds

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@jit
def merge(codes, entries, sizes, parts, at, attributes, word_starts, slots, keys, labels, first, total):
    """Merge entries whose nodes are equal into groups, numbered by their first entry.

    Parameters
    ----------
    codes : int32 (t, q)
        Distinct rows.
    entries : int32 (m,)
        One of the distinct rows of each entry.
    sizes : int64 (m,)
        Number of rows that each entry represents.
    parts : uint64
        Node of each code, shifted to its place in a word; those of attribute ``attributes[a]`` start at ``at[a]``.
    word_starts : int64 (w + 1,)
        First attribute of each word.
    slots, keys : int32 and uint64 (m, w)
        Scratch buffers; the length of slots is a power of two, at least twice the number of entries.
    labels, first, total : int32 (m,), int32 (m,), int64 (m,)
        Outputs: the group of each entry, the distinct row that represents each group, and its number of rows.

    Returns
    -------
    int
        The number of groups.
    """
    n_words = word_starts.shape[0] - 1
    capacity = 64
    while capacity < 2 * entries.shape[0]:
        capacity *= 2
    last_slot = np.uint64(capacity - 1)
    slots[:capacity] = -1
    n_groups = 0
    for i in range(entries.shape[0]):
        row = np.uint64(entries[i])  # unsigned indices need no check for negative values
        mixed = np.uint64(0)
        for w in range(n_words):
            key = np.uint64(0)
            for a in range(word_starts[w], word_starts[w + 1]):
                key |= parts[np.uint64(at[a] + codes[row, np.uint64(attributes[a])])]
            keys[n_groups, w] = key
            mixed = (mixed ^ key) * _MULTIPLIER
            mixed ^= mixed >> _SHIFT
        slot = mixed & last_slot
        group = slots[slot]
        while group >= 0 and not _same(keys, group, n_groups, n_words):
            slot = (slot + np.uint64(1)) & last_slot
            group = slots[slot]
        if group < 0:
            group = n_groups
            slots[slot] = group
            first[group] = row
            total[group] = 0
            n_groups += 1
        labels[i] = group
        total[group] += sizes[i]
    return n_groups


@inner
def _same(keys, one, other, n_words):
    same = True
    for w in range(n_words):
        same = same and keys[one, w] == keys[other, w]
    return same


@jit
def mark_small(total, smallest, bad):
    """Mark the groups of fewer than ``smallest`` rows with 1; return the number of their rows."""
    n = 0
    for g in range(total.shape[0]):
        bad[g] = total[g] < smallest
        if bad[g]:
            n += total[g]
    return n


@jit
def mark_broken(entries, labels, total, tuple_starts, tuple_rows, guard, bad):
    """Mark unmarked groups that violate a rule with 2; return how many rows of marked groups count, and these rows.

    The rows of an entry, released or not, are ``tuple_rows[tuple_starts[entry]:tuple_starts[entry + 1]]``.
    """
    starts, order = _rows_by_group(entries, labels, total.shape[0], tuple_starts, tuple_rows)
    n, n_marked = 0, 0
    for g in range(total.shape[0]):
        if not bad[g] and not guard_holds(guard, order, starts[g], starts[g + 1]):
            bad[g] = 2
        if bad[g]:
            n += total[g]
            # Marked rows move to the front, over rows that were processed before.
            for i in range(starts[g], starts[g + 1]):
                order[n_marked] = order[i]
                n_marked += 1
    return n, order[:n_marked].copy()


@inner
def _rows_by_group(entries, labels, n_groups, tuple_starts, tuple_rows):
    starts = np.zeros(n_groups + 1, np.int64)
    for i in range(entries.shape[0]):
        starts[labels[i] + 1] += tuple_starts[entries[i] + 1] - tuple_starts[entries[i]]
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    fill = starts[:-1].copy()
    order = np.empty(starts[n_groups], np.int64)
    for i in range(entries.shape[0]):
        g = labels[i]
        for at in range(tuple_starts[entries[i]], tuple_starts[entries[i] + 1]):
            order[fill[g]] = tuple_rows[at]
            fill[g] += 1
    return starts, order


@jit
def suppression_cost(codes, first, total, bad, last_mark, cost, at, full):
    """Return the additional loss of suppressing groups with a mark up to ``last_mark`` instead of generalising them.

    ``cost[at[j] + code]`` is the loss of the node of a code, ``full`` the total loss of a suppressed row.
    """
    added = 0.0
    for g in range(first.shape[0]):
        if 0 < bad[g] <= last_mark:
            row = first[g]
            lost = 0.0
            for j in range(at.shape[0]):
                lost += cost[at[j] + codes[row, j]]
            added += total[g] * (full - lost)
    return max(added, 0.0)
