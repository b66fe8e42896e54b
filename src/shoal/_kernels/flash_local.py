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
    reached: np.ndarray
    """int32 (v, prices): rows in good groups of at most each price, when the vector was counted last."""
    cap: np.ndarray
    """int64 (v,): rows that it can recode at most, at any price."""
    counted: np.ndarray
    """int64 (v,): the step at which it was counted last."""


class Space(NamedTuple):
    """Scratch."""

    slots: np.ndarray
    keys: np.ndarray
    labels: np.ndarray
    first: np.ndarray
    total: np.ndarray
    bad: np.ndarray


@jit
def best_step(field, vectors, entries, sizes, order, step, price, least, smallest, guard, space):
    """The vector whose good groups of at most ``price`` hold most of the rows that are left; -1 if that is too few.

    What a vector can recode only shrinks while rows are taken away, and is no more than any more general vector can.
    So earlier counts are bounds, and a vector is counted again only if its bound is above the best count of this step.

    Parameters
    ----------
    entries, sizes : int32 (m,), int64 (m,)
        The distinct rows that are left, and the rows that each stands for.
    order : int64
        Vectors to be looked at, those with the highest bound first.
    step : int
        Number of this step.
    least : int
        Rows that a step must recode at least.
    """
    best, best_count, n_counted = -1, least - 1, 0
    for v in order:
        if min(vectors.cap[v], vectors.reached[v, price]) <= best_count:
            continue
        if vectors.counted[v] != step:
            large = _count_good(field, vectors.levels[v], entries, sizes, smallest, guard, space, vectors.reached[v])
            vectors.counted[v] = step
            n_counted += 1
            _lower_caps(vectors, v, large)
        count = vectors.reached[v, price]
        if count > best_count:
            best, best_count = v, count
    return best, n_counted


@inner
def _count_good(field, levels, entries, sizes, smallest, guard, space, reached):
    """Write how many rows are in good groups of at most each price; the number of rows in large enough groups."""
    m = entries.shape[0]
    n = _merge_at(field, levels, entries, sizes, space)
    total, bad = space.total[:n], space.bad[:n]
    large = -mark_small(total, smallest, bad)
    for g in range(n):
        large += total[g]
    if guard is not None:
        mark_broken(entries, space.labels[:m], total, field.tuple_starts, field.tuple_rows, guard, bad)
    reached[:] = 0
    for g in range(n):
        if not bad[g]:
            reached[price_of(field, levels, space.first[g], reached.shape[0])] += total[g]
    for price in range(1, reached.shape[0]):
        reached[price] += reached[price - 1]
    return large


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
