"""Optimal cuts of a sequence of rows into runs.

Rows are packed, in the order in which they are cut. The loss of a run is its number of rows times the sum, over the
attributes, of weight times width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.geometry import SET, code_of, width

ONE = np.uint64(1)
HIGHEST = np.iinfo(np.int64).max
UNMARKED = np.int64(-1)
"""The stamp of a run whose values are not marked."""


class Reach(NamedTuple):
    """Extent of the rows of one run; grows with every row that is added."""

    low: np.ndarray
    high: np.ndarray
    distinct: np.ndarray
    """int64 (q,): lowest and highest code; number of values of a SET attribute."""
    seen: np.ndarray
    seen_at: np.ndarray
    """The stamp of the last run with each value of a SET attribute: seen[seen_at[j] + code]."""
    stamp: np.ndarray
    """int64 (1,): the stamp of this run."""


class Fields(NamedTuple):
    """Positions of the codes of attributes whose extent is a range, and the attributes that are sets."""

    attribute: np.ndarray
    word: np.ndarray
    shift: np.ndarray
    mask: np.ndarray
    """One entry per field."""
    guard: np.ndarray
    most: np.ndarray
    """uint64, one entry per word: the spare bits, and the highest codes."""
    sets: np.ndarray
    """int64: the SET attributes."""


@jit
def run_costs(rows, geometry, smallest, places, first, last, costs):
    """Write the losses of the runs of ``smallest`` to 2 ``smallest`` - 1 rows that start at the places first..last.

    ``places`` are the row numbers at which cuts are allowed, ascending; the last one is the number of rows. Row a of
    ``costs`` has the runs from place ``first + a`` to those places, one after the other.

    Two subtractions compare all codes of a word with the bounds of the run: the spare bit of a field stays set if its
    code is within. Most rows extend no bound, so that little else is done for them. Everything is in one function,
    because calls that pass many arrays take longer than the work done here.
    """
    offset, final = places[first], places[-1]
    fields = _lay_fields(geometry)
    words = _pack_fields(rows, fields, offset, min(places[last - 1] + 2 * smallest - 1, final))
    attribute, word_of, shifts, masks, guard = fields.attribute, fields.word, fields.shift, fields.mask, fields.guard
    q, n_words, n_fields, n_sets = geometry.form.shape[0], words.shape[1], attribute.shape[0], fields.sets.shape[0]
    low, high, distinct, seen, seen_at, _ = new_reach(geometry)
    set_codes = _unpack_sets(rows, fields, seen_at, offset, offset + words.shape[0])
    share, stale = np.empty(q), np.empty(q, np.bool_)
    lowest, highest = np.empty(n_words, np.uint64), np.empty(n_words, np.uint64)
    nearest = first
    for a in range(first, last):
        begin, end = places[a] - offset, min(places[a] + 2 * smallest - 1, final) - offset
        if end - begin < smallest:
            break
        while places[nearest] < places[a] + smallest:
            nearest += 1
        for j in range(q):
            low[j], high[j], distinct[j], stale[j] = HIGHEST, -1, 0, True
        for w in range(n_words):
            # Nothing lies within these bounds, so that the first row extends all fields.
            lowest[w], highest[w] = fields.most[w], guard[w]
        place, total, grown = nearest, 0.0, True
        for i in range(begin, end):
            within = True
            for w in range(n_words):
                word = words[i, w]
                if (highest[w] - word) & ((word | guard[w]) - lowest[w]) & guard[w] != guard[w]:
                    within = False
            if not within:
                grown = True
                for f in range(n_fields):
                    j, w, shift = attribute[f], word_of[f], shifts[f]
                    code = np.int64((words[i, w] >> shift) & masks[f])
                    if code < low[j]:
                        low[j], stale[j] = code, True
                        lowest[w] = (lowest[w] & ~(masks[f] << shift)) | (np.uint64(code) << shift)
                    if code > high[j]:
                        high[j], stale[j] = code, True
                        highest[w] = (highest[w] & ~(masks[f] << shift)) | (np.uint64(code) << shift)
            for s in range(n_sets):
                at = set_codes[i, s]
                if seen[at] != a:
                    seen[at] = a
                    j = fields.sets[s]
                    distinct[j] += 1
                    # Only the number of values of a set matters, and whether it is one.
                    low[j], high[j] = 0, distinct[j] - 1
                    stale[j] = grown = True
            if offset + i + 1 == places[place]:
                if grown:
                    total = 0.0
                    for j in range(q):
                        if stale[j]:
                            stale[j] = False
                            share[j] = geometry.weight[j] * width(geometry, j, low[j], high[j], distinct[j])
                        total += share[j]
                    grown = False
                costs[a - first, place - nearest] = (i + 1 - begin) * total
                place += 1


@inner
def _lay_fields(geometry):
    """Assign bits to the codes of all LINE and TREE attributes, each with a spare bit."""
    q = geometry.form.shape[0]
    attribute, sets = np.empty(q, np.int64), np.empty(q, np.int64)
    word, shift, mask = np.empty(q, np.int64), np.empty(q, np.uint64), np.empty(q, np.uint64)
    guard, most = np.zeros(q, np.uint64), np.zeros(q, np.uint64)
    m, n_sets, at, used = 0, 0, 0, 0
    for j in range(q):
        if geometry.form[j] == SET:
            sets[n_sets] = j
            n_sets += 1
            continue
        bits = 1
        while (geometry.n_values[j] - 1) >> bits:
            bits += 1
        if used + bits + 1 > 64:
            at, used = at + 1, 0
        attribute[m], word[m], shift[m], mask[m] = j, at, used, (1 << bits) - 1
        guard[at] |= ONE << np.uint64(used + bits)
        most[at] |= mask[m] << shift[m]
        m, used = m + 1, used + bits + 1
    n_words = at + 1 if m > 0 else 0
    return Fields(attribute[:m], word[:m], shift[:m], mask[:m], guard[:n_words], most[:n_words], sets[:n_sets])


@inner
def _pack_fields(rows, fields, start, stop):
    words = np.zeros((stop - start, fields.guard.shape[0]), np.uint64)
    for f in range(fields.attribute.shape[0]):
        j, word, shift = fields.attribute[f], fields.word[f], fields.shift[f]
        for i in range(stop - start):
            words[i, word] |= np.uint64(code_of(rows, start + i, j)) << shift
    return words


@inner
def _unpack_sets(rows, fields, seen_at, start, stop):
    """Return the positions in ``seen`` of the values of SET attributes, for contiguous rows."""
    found = np.empty((stop - start, fields.sets.shape[0]), np.int64)
    for s in range(fields.sets.shape[0]):
        for i in range(stop - start):
            found[i, s] = seen_at[fields.sets[s]] + code_of(rows, start + i, fields.sets[s])
    return found


@inner
def are_equal(words, i, other):
    """Return True if two packed rows are equal."""
    equal = True
    for w in range(words.shape[1]):
        equal = equal and words[i, w] == words[other, w]
    return equal


@inner
def new_reach(geometry):
    """Return scratch buffers for the extent of runs."""
    q = geometry.form.shape[0]
    seen_at = np.zeros(q, np.int64)
    size = 0
    for j in range(q):
        seen_at[j] = size
        if geometry.form[j] == SET:
            size += geometry.n_values[j]
    low, high, distinct = np.empty(q, np.int64), np.empty(q, np.int64), np.empty(q, np.int64)
    return Reach(low, high, distinct, np.full(size, UNMARKED), seen_at, np.full(1, UNMARKED))


@jit
def choose_runs(words, smallest, places, first, last, costs, loss, parted, following):
    """Find the best way to cut the rows from each place first..last on, given the best ways from later places on.

    The best way has the least loss; ties go to the fewest separated equal rows, then to the shortest first run.
    ``loss`` is infinite if there is no way. ``following`` is the place where the first run ends.
    """
    final = places.shape[0] - 1
    lowest = min(np.searchsorted(places, places[last - 1] + smallest), final)
    for a in range(last - 1, first - 1, -1):
        loss[a], parted[a], following[a] = np.inf, 0, final
        while lowest > a and places[lowest - 1] >= places[a] + smallest:
            lowest -= 1
        if places[lowest] < places[a] + smallest:
            continue
        for place in range(lowest, final + 1):
            if places[place] >= places[a] + 2 * smallest:
                break
            value = costs[a - first, place - lowest] + loss[place]
            parts = parted[place]
            if place < final and are_equal(words, places[place], places[place] - 1):
                parts += 1
            if value < loss[a] or (value == loss[a] and parts < parted[a]):
                loss[a], parted[a], following[a] = value, parts, place


@jit
def follow(places, following):
    """Return the starts of the runs, from the first on."""
    starts = np.empty(places.shape[0], np.int64)
    n_runs, place = 0, 0
    while place < places.shape[0] - 1:
        starts[n_runs] = places[place]
        place, n_runs = following[place], n_runs + 1
    return starts[:n_runs].copy()


@jit
def steps(rows, geometry, losses):
    """Write the loss of releasing each row together with the one before, for every row but the first."""
    q = geometry.form.shape[0]
    losses[0] = 0.0
    for i in range(1, losses.shape[0]):
        total = 0.0
        for j in range(q):
            one, other = code_of(rows, i - 1, j), code_of(rows, i, j)
            if one != other:
                total += geometry.weight[j] * width(geometry, j, min(one, other), max(one, other), 2)
        losses[i] = total
