"""Find the vector of levels that recodes most rows at a low price, again and again on the rows that are left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.flash import mark_broken, mark_small, merge


class Field(NamedTuple):
    """Distinct rows, and what their codes are at each level."""

    codes: np.ndarray
    """int32 (t, q)."""
    parts: np.ndarray
    """uint64: node of each code at each level, shifted to its place in a word."""
    cost: np.ndarray
    """float64: what is lost there, in units of one price; indexed like ``parts``."""
    at: np.ndarray
    n_codes: np.ndarray
    """int64 (q,): code c of attribute j at level l is entry ``at[j] + l * n_codes[j] + c``."""
    tops: np.ndarray
    word: np.ndarray
    """int64 (q,): the highest level of each attribute, where all codes are alike, and its word; words ascend."""
    tuple_starts: np.ndarray
    tuple_rows: np.ndarray
    """The rows of the table that each distinct row stands for."""


class Vectors(NamedTuple):
    """Vectors of levels, those of a grid in the order of its cells, and what is known of them."""

    levels: np.ndarray
    """int64 (v, q)."""
    shape: np.ndarray
    strides: np.ndarray
    """int64 (q,)."""
    good: np.ndarray
    """int32 (v, prices): rows in good groups of at most each price, when the vector was counted last."""
    reach: np.ndarray
    """int32 (v, prices): rows that can be in good groups of at most each price from then on.

    Where parts of a group that breaks a rule may keep it, these are all rows in large enough groups. Else it is the
    same array as ``good``.
    """
    cap: np.ndarray
    """int64 (v,): rows that it can recode at most, at any price."""
    counted: np.ndarray
    """int64 (v,): the step at which it was counted last."""


class LocalScratch(NamedTuple):
    """Scratch."""

    slots: np.ndarray
    keys: np.ndarray
    labels: np.ndarray
    first: np.ndarray
    total: np.ndarray
    bad: np.ndarray


@jit
def best_step(field, vectors, entries, sizes, order, step, price, best, best_count, smallest, guard, space):
    """The vector whose good groups of at most ``price`` hold most of the rows that are left, of several the first one.

    The rows in large enough groups only become fewer while rows are taken away, and are no more than in groups of any
    more general vector. So earlier counts are bounds, and a vector is counted again only if it may still be the best.

    Parameters
    ----------
    entries, sizes : int32 (m,), int64 (m,)
        The distinct rows that are left, and the rows that each stands for.
    order : int64
        Vectors to be looked at, those with the highest bound first.
    step : int
        Number of this step.
    best, best_count : int
        The best vector of those looked at before, and its rows; -1 and one row less than there must be if none was.

    Returns
    -------
    best, best_count, n_counted : int
        The best vector so far, its rows, and how many vectors were counted.
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
    """Write how many rows are in good groups of at most each price; the number of rows in large enough groups."""
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
    """Write the rows of groups that are not bad, of at most each price."""
    rows[:] = 0
    for g in range(total.shape[0]):
        if not bad[g]:
            rows[price_of(field, levels, first[g], rows.shape[0])] += total[g]
    for price in range(1, rows.shape[0]):
        rows[price] += rows[price - 1]


@inner
def price_of(field, levels, row, n_prices):
    """The lowest price at which a distinct row can be recoded to these levels."""
    lost = 0.0
    for j in range(levels.shape[0]):
        lost += field.cost[field.at[j] + levels[j] * field.n_codes[j] + field.codes[row, j]]
    return min(int(np.ceil(lost - 1e-9)), n_prices - 1)


@inner
def _merge_at(field, levels, entries, sizes, space):
    """Groups of entries at a vector of levels: attributes at their top tell nothing apart, and are left out."""
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
    """No less general vector than v has more rows in large enough groups."""
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
    """The group of each entry that this vector recodes at this price, numbered in order; -1 for those that stay.

    Returns
    -------
    labels : int32 (m,)
    first : int32 (groups,)
        The distinct row that stands for each group.
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
