"""Find the released rows that match a person, and the nearest ones; released values are runs of codes.

A cell of a released table (a value, a range, a set, a node, the top) is a list of runs of the codes of its column. Rows
with known values are *points*. For each code of a column a bitset marks the released tuples that contain it, so that
the tuples matching a point are the intersection of the bitsets of its codes: 64 tuples at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit

CHUNK = 512
"""Points whose bitsets are held at a time."""
TIGHT = 1e-6
"""Additional distance of a cell of all values over that of a single value, if both contain the point."""
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE, _NONE, _TOP = np.uint64(1), np.uint64(0), np.uint64(58)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACES = np.zeros(64, np.int64)
_PLACES[[((0x03F79D71B4CB0A89 << bit) & 0xFFFFFFFFFFFFFFFF) >> 58 for bit in range(64)]] = np.arange(64)


class Runs(NamedTuple):
    """Content of cells, concatenated over all columns."""

    at: np.ndarray
    """int64 (cells + 1,): the runs of cell c are ``at[c]`` to ``at[c + 1]``."""
    first: np.ndarray
    last: np.ndarray
    """int64 (runs,): the first and the last code of a run."""
    n_codes: np.ndarray
    """int64 (columns,)."""


class Ends(NamedTuple):
    """Positions of cells, for distances."""

    cell_at: np.ndarray
    """int64 (columns + 1,): the cells of column j."""
    code_at: np.ndarray
    """int64 (columns + 1,): the codes of column j in ``place``."""
    place: np.ndarray
    """float64 (codes,): position of a code on a line; NaN for nominal values and for the missing value."""
    low: np.ndarray
    high: np.ndarray
    """float64 (cells,): ends on the line; NaN if there are none."""
    share: np.ndarray
    """float64 (cells,): share of the column's values in a cell, from 0 for a single one to 1 for all."""
    scale: np.ndarray
    """float64 (columns,): 1 / width of the column."""


class _Space(NamedTuple):
    bits: np.ndarray
    """uint64 (codes in the chunk, words): bitset of the tuples that contain a code."""
    row: np.ndarray
    """int64 (points of the chunk, columns): the bitset of each value."""
    below: np.ndarray
    """int64: number of lower codes in the chunk, for each code."""


@jit
def count_matches(points, weights, tuples, sizes, runs):
    """Count the rows of tuples that match each point, and the rows of points that match each tuple.

    Parameters
    ----------
    points : int (p, q), codes
    weights : int64 (p,), number of rows that each point represents
    tuples : int (t, q), cells, numbered over all columns
    sizes : int64 (t,), number of rows that each tuple represents
    runs : Runs

    Returns
    -------
    counts : int64 (p,), rows of tuples that match a point
    fitting : int64 (t,), rows of points that match a tuple
    some : int64 (t,), one of these points, or -1
    """
    counts = np.zeros(points.shape[0], np.int64)
    fitting = np.zeros(tuples.shape[0], np.int64)
    some = np.full(tuples.shape[0], -1, np.int64)
    space = _make_space(points, tuples, runs)
    for start in range(0, points.shape[0], CHUNK):
        stop = min(start + CHUNK, points.shape[0])
        _mark(points, start, stop, tuples, runs, space)
        for i in range(start, stop):
            for w in range(space.bits.shape[1]):
                word = _common(space, i - start, w)
                while word != _NONE:
                    t = 64 * w + _lowest(word)
                    word &= word - _ONE
                    counts[i] += sizes[t]
                    fitting[t] += weights[i]
                    some[t] = i
    return counts, fitting, some


@jit
def highest_match(points, tuples, numbers, runs):
    """Return the highest number among the tuples that match each point; 0 if none does."""
    highest = np.zeros(points.shape[0])
    space = _make_space(points, tuples, runs)
    for start in range(0, points.shape[0], CHUNK):
        stop = min(start + CHUNK, points.shape[0])
        _mark(points, start, stop, tuples, runs, space)
        for i in range(start, stop):
            for w in range(space.bits.shape[1]):
                word = _common(space, i - start, w)
                while word != _NONE:
                    t = 64 * w + _lowest(word)
                    word &= word - _ONE
                    highest[i] = max(highest[i], numbers[t])
    return highest


@jit
def tally_matches(points, truth, tuples, at, secrets, counts, n_secrets, runs):
    """Count the secrets of the rows that match each point: ``secrets[at[t]:at[t + 1]]`` are those of tuple t.

    Returns
    -------
    total : int64 (p,), rows that match the point
    guess : int64 (p,), the most frequent secret among them, the one of the lowest code if tied; -1 if there is none
    most : int64 (p,), how often it occurs
    right : int64 (p,), how often the secret ``truth`` of the point occurs
    """
    n = points.shape[0]
    total, most, right = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    guess = np.full(n, -1, np.int64)
    histogram, seen = np.zeros(n_secrets, np.int64), np.empty(n_secrets, np.int64)
    space = _make_space(points, tuples, runs)
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        _mark(points, start, stop, tuples, runs, space)
        for i in range(start, stop):
            n_seen = _tally_point(space, i - start, at, secrets, counts, histogram, seen)
            if truth[i] >= 0:
                right[i] = histogram[truth[i]]
            for s in range(n_seen):
                secret = seen[s]
                count = histogram[secret]
                total[i] += count
                if count > most[i] or (count == most[i] and secret < guess[i]):
                    most[i], guess[i] = count, secret
                histogram[secret] = 0
    return total, guess, most, right


@jit
def nearest_rows(points, tuples, starts, order, uniform, runs, ends):
    """Return the released rows nearest to each point, one per column of ``uniform``, which breaks ties at random.

    The distance of a cell is 0 from the values it contains, else that of its nearer end relative to the width of the
    column, and 1 from other nominal values. Of two cells that contain a value, the smaller one is slightly nearer.

    Parameters
    ----------
    points : int (p, q), codes
    tuples : int (t, q), distinct rows of cells
    starts, order : ``order[starts[t]:starts[t + 1]]`` are the rows of tuple t
    uniform : float64 (p, n), from 0 to below 1
    runs, ends : Runs and Ends
    """
    p, n_tuples, n = points.shape[0], tuples.shape[0], uniform.shape[1]
    found = np.empty((p, n), np.int64)
    near = np.empty(ends.cell_at[-1])
    far = np.empty(n_tuples)
    taken = np.zeros(n_tuples, np.int64)
    rows = order.copy()
    for i in range(p):
        _measure_cells(points[i], runs, ends, near)
        for t in range(n_tuples):
            distance = 0.0
            for j in range(tuples.shape[1]):
                distance += near[tuples[t, j]]
            far[t] = distance
        for slot in range(n):
            t, rank = _draw_nearest(far, starts, taken, uniform[i, slot])
            # Rows that were drawn move to the front, so that the next draw is among the others.
            front = starts[t] + taken[t]
            rows[front], rows[front + rank] = rows[front + rank], rows[front]
            found[i, slot] = rows[front]
            taken[t] += 1
            if slot + 1 == n:
                taken[:] = 0
    return found


@jit
def nested_cells(at, first, last, cells):
    """Find the cells within each of these cells: ``found[found_at[i]:found_at[i + 1]]`` are within the i-th one.

    Parameters
    ----------
    at, first, last : runs of all cells of a column, as in Runs
    cells : int64, some of its cells

    Returns
    -------
    found_at : int64 (cells + 1,)
    found : int64, numbers among these cells, ascending; each is within itself
    """
    n, n_found = cells.shape[0], 0
    found_at, found = np.zeros(n + 1, np.int64), np.empty(n, np.int64)
    for i in range(n):
        for k in range(n):
            if _is_within(at, first, last, cells[k], cells[i]):
                if n_found == found.shape[0]:
                    found = np.concatenate((found, np.empty_like(found)))
                found[n_found] = k
                n_found += 1
        found_at[i + 1] = n_found
    return found_at, found[:n_found].copy()


@inner
def _is_within(at, first, last, inner_cell, outer_cell):
    """Return True if every run of one cell lies within a run of the other; runs ascend and do not touch."""
    outer, end = at[outer_cell], at[outer_cell + 1]
    for r in range(at[inner_cell], at[inner_cell + 1]):
        while outer < end and last[outer] < last[r]:
            outer += 1
        if outer == end or first[outer] > first[r]:
            return False
    return True


@inner
def _make_space(points, tuples, runs):
    q = points.shape[1]
    n_bits = 0
    for j in range(q):
        n_bits += min(runs.n_codes[j], CHUNK) + 1
    bits = np.empty((n_bits, (tuples.shape[0] + 63) // 64), np.uint64)
    return _Space(bits, np.empty((CHUNK, q), np.int64), np.empty(runs.n_codes.max() + 1, np.int64))


@inner
def _mark(points, start, stop, tuples, runs, space):
    """Set the bitsets of all codes that occur in points of this chunk.

    Each run flips a tuple's bit at its start and after its end; a cumulative XOR from the lowest code to the highest
    gives the bits, at a cost that does not grow with the length of the runs.
    """
    used = 0
    for j in range(points.shape[1]):
        n_here = _rank_codes(points[start:stop, j], runs.n_codes[j], space.below)
        space.bits[used : used + n_here + 1] = _NONE
        for t in range(tuples.shape[0]):
            cell, word, bit = tuples[t, j], t >> 6, _ONE << np.uint64(t & 63)
            for r in range(runs.at[cell], runs.at[cell + 1]):
                space.bits[used + space.below[runs.first[r]], word] ^= bit
                space.bits[used + space.below[runs.last[r] + 1], word] ^= bit
        for row in range(used + 1, used + n_here):
            for word in range(space.bits.shape[1]):
                space.bits[row, word] ^= space.bits[row - 1, word]
        for i in range(start, stop):
            space.row[i - start, j] = used + space.below[points[i, j]]
        used += n_here + 1


@inner
def _rank_codes(codes, n_codes, below):
    """Write for each code how many lower ones occur; return how many codes occur."""
    below[: n_codes + 1] = 0
    for i in range(codes.shape[0]):
        below[codes[i] + 1] = 1
    for code in range(n_codes):
        below[code + 1] += below[code]
    return below[n_codes]


@inner
def _common(space, i, w):
    """Return word ``w`` of the bitset of the tuples that match a point."""
    word = _ALL
    for j in range(space.row.shape[1]):
        word &= space.bits[space.row[i, j], w]
        if word == _NONE:
            break
    return word


@inner
def _lowest(word):
    """Return the position of the lowest set bit."""
    return _PLACES[((word & (~word + _ONE)) * _DE_BRUIJN) >> _TOP]


@inner
def _tally_point(space, i, at, secrets, counts, histogram, seen):
    n_seen = 0
    for w in range(space.bits.shape[1]):
        word = _common(space, i, w)
        while word != _NONE:
            t = 64 * w + _lowest(word)
            word &= word - _ONE
            for s in range(at[t], at[t + 1]):
                if histogram[secrets[s]] == 0:
                    seen[n_seen] = secrets[s]
                    n_seen += 1
                histogram[secrets[s]] += counts[s]
    return n_seen


@inner
def _measure_cells(point, runs, ends, near):
    """Write the distance of each cell of each column from the point's value there."""
    for j in range(point.shape[0]):
        code = point[j]
        place = ends.place[ends.code_at[j] + code]
        for cell in range(ends.cell_at[j], ends.cell_at[j + 1]):
            low, high = ends.low[cell], ends.high[cell]
            if not np.isnan(place) and not np.isnan(low):
                distance = max(low - place, place - high, 0.0) * ends.scale[j]
            else:
                distance = 1.0
                for r in range(runs.at[cell], runs.at[cell + 1]):
                    if runs.first[r] <= code <= runs.last[r]:
                        distance = 0.0
            near[cell] = distance + TIGHT * ends.share[cell]


@inner
def _draw_nearest(far, starts, taken, uniform):
    """Draw one of the nearest remaining rows; return its tuple, and its rank among the remaining rows of the tuple."""
    nearest, n_rows = np.inf, 0
    for t in range(far.shape[0]):
        left = starts[t + 1] - starts[t] - taken[t]
        if left > 0 and far[t] <= nearest:
            n_rows = left if far[t] < nearest else n_rows + left
            nearest = far[t]
    rank = np.int64(uniform * n_rows)
    for t in range(far.shape[0]):
        left = starts[t + 1] - starts[t] - taken[t]
        if left > 0 and far[t] == nearest:
            if rank < left:
                return t, rank
            rank -= left
    return 0, 0
