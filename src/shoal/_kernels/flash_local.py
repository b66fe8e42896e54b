"""Repeatedly find the vector of levels that recodes the most remaining rows at a low price."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.flash import mark_broken, mark_small, merge


class Field(NamedTuple):
    """Distinct rows, and the nodes of their codes at each level."""

    codes: np.ndarray
    """int32 (t, q)."""
    parts: np.ndarray
    """uint64: node of each code at each level, shifted to its place in a word."""
    cost: np.ndarray
    """float64: the loss of the node, in units of one price; indexed like ``parts``."""
    at: np.ndarray
    n_codes: np.ndarray
    """int64 (q,): code c of attribute j at level l is entry ``at[j] + l * n_codes[j] + c``."""
    tops: np.ndarray
    word: np.ndarray
    """int64 (q,): the highest level of each attribute, where all codes are equal, and its word; words ascend."""
    tuple_starts: np.ndarray
    tuple_rows: np.ndarray
    """The rows of the table that each distinct row represents."""


class Vectors(NamedTuple):
    """Vectors of levels, those of a grid in the order of its cells, with counts and bounds."""

    levels: np.ndarray
    """int64 (v, q)."""
    shape: np.ndarray
    strides: np.ndarray
    """int64 (q,)."""
    good: np.ndarray
    """int32 (v, prices): number of rows in good groups of at most each price, when the vector was last counted."""
    reach: np.ndarray
    """int32 (v, prices): upper bound of the rows in good groups of at most each price from then on.

    If parts of a group that violates a rule may satisfy it, these are all rows in large enough groups. Otherwise it is
    the same array as ``good``.
    """
    cap: np.ndarray
    """int64 (v,): upper bound of the rows that it can recode, at any price."""
    counted: np.ndarray
    """int64 (v,): the step at which it was last counted."""


class LocalScratch(NamedTuple):
    """Scratch buffers."""

    slots: np.ndarray
    keys: np.ndarray
    labels: np.ndarray
    first: np.ndarray
    total: np.ndarray
    bad: np.ndarray


@jit
def best_step(field, vectors, entries, sizes, order, step, price, best, best_count, smallest, guard, space):
    """Find the vector whose good groups of at most ``price`` hold the most remaining rows, the first one if tied.

    The number of rows in large enough groups only decreases while rows are removed, and never exceeds that of a more
    general vector. Earlier counts are thus bounds, and a vector is counted again only if it may still be the best.

    Parameters
    ----------
    entries, sizes : int32 (m,), int64 (m,)
        The remaining distinct rows, and the number of rows that each represents.
    order : int64
        Vectors to examine, those with the highest bound first.
    step : int
        Number of this step.
    best, best_count : int
        The best vector examined before, and its rows; -1 and one row less than required if there is none.

    Returns
    -------
    best, best_count, n_counted : int
        The best vector so far, its rows, and the number of vectors counted.
    """
    n_counted = 0
    for v in order:
        bound = min(vectors.cap[v], vectors.reach[v, price])
        if bound < best_count or (bound == best_count and v > best):
            continue
        if vectors.counted[v] != step:
            large = _count_good(field, vectors, v, entries, sizes, smallest, guard, space)
            vectors.counted[v] = step
            n_counted += 1
            _lower_caps(vectors, v, large)
        count = vectors.good[v, price]
        if count > best_count or (count == best_count and v < best):
            best, best_count = v, np.int64(count)
    return best, best_count, n_counted


@inner
def _count_good(field, vectors, v, entries, sizes, smallest, guard, space):
    """Write the number of rows in good groups of at most each price; return that of rows in large enough groups."""
    m, levels = entries.shape[0], vectors.levels[v]
    n = _merge_at(field, levels, entries, sizes, space)
    total, bad = space.total[:n], space.bad[:n]
    large = -mark_small(total, smallest, bad)
    for g in range(n):
        large += total[g]
    if guard is not None:
        _sum_by_price(field, levels, space.first, total, bad, vectors.reach[v])
        mark_broken(entries, space.labels[:m], total, field.tuple_starts, field.tuple_rows, guard, bad)
    _sum_by_price(field, levels, space.first, total, bad, vectors.good[v])
    return large


@inner
def _sum_by_price(field, levels, first, total, bad, rows):
    """Write the number of rows in groups of at most each price that are not bad."""
    rows[:] = 0
    for g in range(total.shape[0]):
        if not bad[g]:
            rows[price_of(field, levels, first[g], rows.shape[0])] += total[g]
    for price in range(1, rows.shape[0]):
        rows[price] += rows[price - 1]


@inner
def price_of(field, levels, row, n_prices):
    """Return the lowest price at which a distinct row can be recoded to these levels."""
    lost = 0.0
    for j in range(levels.shape[0]):
        lost += field.cost[field.at[j] + levels[j] * field.n_codes[j] + field.codes[row, j]]
    return min(int(np.ceil(lost - 1e-9)), n_prices - 1)


@inner
def _merge_at(field, levels, entries, sizes, space):
    """Group entries at a vector of levels; attributes at their top do not distinguish entries and are left out."""
    q = levels.shape[0]
    attributes, at = np.empty(q, np.int64), np.empty(q, np.int64)
    word_starts = np.zeros(space.keys.shape[1] + 1, np.int64)
    used = 0
    for j in range(q):
        if levels[j] < field.tops[j]:
            attributes[used] = j
            at[used] = field.at[j] + levels[j] * field.n_codes[j]
            used += 1
        word_starts[field.word[j] + 1 :] = used
    return merge(
        field.codes, entries, sizes, field.parts, at[:used], attributes[:used], word_starts, space.slots, space.keys,
        space.labels, space.first, space.total,
    )  # fmt: skip


@inner
def _lower_caps(vectors, v, count):
    """Lower the caps of all vectors at most as general as v: none has more rows in large enough groups."""
    q = vectors.shape.shape[0]
    highest, now = np.empty(q, np.int64), np.zeros(q, np.int64)
    for j in range(q):
        highest[j] = (v // vectors.strides[j]) % vectors.shape[j]
    at = 0
    while True:
        vectors.cap[at] = min(vectors.cap[at], count)
        j = q - 1
        while j >= 0 and now[j] == highest[j]:
            at -= now[j] * vectors.strides[j]
            now[j] = 0
            j -= 1
        if j < 0:
            return
        now[j] += 1
        at += vectors.strides[j]


@jit
def take_step(field, levels, entries, sizes, price, n_prices, smallest, guard, space):
    """Return the group of each entry that this vector recodes at this price, numbered in order; -1 for the others.

    Returns
    -------
    labels : int32 (m,)
    first : int32 (groups,)
        The distinct row that represents each group.
    """
    m = entries.shape[0]
    n = _merge_at(field, levels, entries, sizes, space)
    total, bad = space.total[:n], space.bad[:n]
    mark_small(total, smallest, bad)
    if guard is not None:
        mark_broken(entries, space.labels[:m], total, field.tuple_starts, field.tuple_rows, guard, bad)
    number = np.full(n, -1, np.int32)
    first = np.empty(n, np.int32)
    n_taken = 0
    for g in range(n):
        if not bad[g] and price_of(field, levels, space.first[g], n_prices) <= price:
            number[g] = n_taken
            first[n_taken] = space.first[g]
            n_taken += 1
    labels = np.empty(m, np.int32)
    for i in range(m):
        labels[i] = number[space.labels[i]]
    return labels, first[:n_taken].copy()
