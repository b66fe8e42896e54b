"""Merge runs of rows that violate a rule, or that are released alike.

Rows are packed, in the order in which they were cut into runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.geometry import SET, code_of, width
from shoal._kernels.guard import guard_holds
from shoal._kernels.privacy import LOG_RATIO
from shoal._kernels.runs import HIGHEST, UNMARKED, are_equal, new_reach

NEW_STAMPS = 4
"""Stamps used by the inspection of both neighbours."""
STAY, SAME, LEFT, RIGHT = 0, 1, 2, 3
"""Outcomes of a run: it stays, joins its left neighbour because that is released alike, or absorbs one side."""


class Finished(NamedTuple):
    """Finished runs from left to right: their starts and extents."""

    start: np.ndarray
    low: np.ndarray
    high: np.ndarray
    distinct: np.ndarray
    """int32 (runs, q)."""


@jit
def merge_runs(rows, geometry, starts, guard):
    """Merge runs until all rules hold in each and no two neighbours are released alike; return their starts.

    From left to right, a run that violates a rule absorbs the neighbour with which the summed loss grows less (the left
    one if equal), and further runs on that side until it has a quarter more rows than before; then it is checked again.
    A rule that only the whole table satisfies thus takes n log n steps, not n squared. A run that is released like its
    left neighbour joins it: to a reader the two are one. The extents of finished runs are kept, so that a long one is
    read again only if a run that violates a rule joins it. Runs of identical rows are joined first.
    """
    n = rows.words.shape[0]
    starts = _join_equal(rows.words, starts)
    finished = _new_finished(starts.shape[0], geometry)
    n_finished, ahead, stamp, side = 0, 0, 0, STAY
    # The current run, the finished one to its left, and the one to its right.
    own, left, right = new_reach(geometry), new_reach(geometry), new_reach(geometry)
    stays_good = _hold_together(guard.rules)
    while ahead < starts.shape[0]:
        begin, end = starts[ahead], _stop(starts, ahead, n)
        ahead, stamp = ahead + 1, stamp + 1
        _start(own, stamp)
        _take_in_rows(own, geometry, rows, begin, end)
        while True:
            before = finished.start[n_finished - 1] if n_finished > 0 else begin
            behind = _stop(starts, ahead, n) if end < n else end
            side = _side(own, left, right, stamp, geometry, rows, guard, before, begin, end, behind)
            stamp += NEW_STAMPS
            if side == STAY or (side == SAME and stays_good):
                break
            enough = 0 if side == SAME else (5 * (end - begin) + 3) // 4
            while True:
                if side == RIGHT:
                    _take_in_rows(own, geometry, rows, end, _stop(starts, ahead, n))
                    end, ahead = _stop(starts, ahead, n), ahead + 1
                else:
                    n_finished -= 1
                    _take_in_rows(own, geometry, rows, finished.start[n_finished], begin)
                    begin = finished.start[n_finished]
                if end - begin >= enough or (end == n if side == RIGHT else begin == 0):
                    break
            if side != RIGHT and n_finished > 0:
                _recall(finished, n_finished - 1, left)
        if side == SAME:
            # Its released value stays the same, and so does all that is known of the run further left.
            _take_in_rows(left, geometry, rows, begin, end)
        else:
            finished.start[n_finished] = begin
            n_finished += 1
            own, left = left, own
        _note(left, finished, n_finished - 1)
    return finished.start[:n_finished].copy()


@inner
def _hold_together(rules):
    """Return True if the union of two groups that satisfy the rules always satisfies them.

    Only delta-disclosure is an exception: a value that is absent from one of the groups does not count there.
    """
    return (rules.model != LOG_RATIO).all()


@inner
def _new_finished(n_runs, geometry):
    q = geometry.form.shape[0]
    return Finished(
        np.empty(n_runs, np.int64),
        np.empty((n_runs, q), np.int32),
        np.empty((n_runs, q), np.int32),
        np.empty((n_runs, q), np.int32),
    )


@inner
def _note(reach, finished, run):
    for j in range(reach.low.shape[0]):
        finished.low[run, j], finished.high[run, j] = reach.low[j], reach.high[j]
        finished.distinct[run, j] = reach.distinct[j]


@inner
def _recall(finished, run, reach):
    """Restore the extent of a finished run; its values of SET attributes were not kept."""
    for j in range(reach.low.shape[0]):
        reach.low[j], reach.high[j] = finished.low[run, j], finished.high[run, j]
        reach.distinct[j] = finished.distinct[run, j]
    reach.stamp[0] = UNMARKED


@inner
def _join_equal(words, starts):
    """Return the starts of runs after joining those of identical rows; equal rows are contiguous."""
    joined = np.empty(starts.shape[0], np.int64)
    n_joined = 0
    for run in range(starts.shape[0]):
        last = _stop(starts, run, words.shape[0]) - 1
        if n_joined == 0 or not are_equal(words, joined[n_joined - 1], last):
            joined[n_joined] = starts[run]
            n_joined += 1
    return joined[:n_joined].copy()


@inner
def _stop(starts, run, n):
    return starts[run + 1] if run + 1 < starts.shape[0] else n


@inner
def _start(reach, stamp):
    reach.stamp[0] = stamp
    for j in range(reach.low.shape[0]):
        reach.low[j], reach.high[j], reach.distinct[j] = HIGHEST, -1, 0


@inner
def _take_in_rows(reach, geometry, rows, start, stop):
    """Extend a run by further rows."""
    low, high, distinct, seen, seen_at, stamp = reach
    for i in range(start, stop):
        if i > start and are_equal(rows.words, i, i - 1):
            continue
        for j in range(low.shape[0]):
            code = code_of(rows, i, j)
            low[j], high[j] = min(low[j], code), max(high[j], code)
            if geometry.form[j] == SET and seen[seen_at[j] + code] != stamp[0]:
                seen[seen_at[j] + code] = stamp[0]
                distinct[j] += 1


@inner
def _side(own, left, right, stamp, geometry, rows, guard, before, begin, end, behind):
    """Return the outcome of the run begin..end, between before..begin and end..behind (empty if there is none)."""
    holds = guard_holds(guard, rows.order, begin, end)
    if behind - before == end - begin or (holds and before == begin):
        return STAY
    if holds and not _as_wide(own, left, geometry):
        return STAY
    to_left, to_right = np.inf, np.inf
    if before < begin:
        if left.stamp[0] == UNMARKED and left.seen.shape[0] > 0:
            _start(left, stamp + 1)
            _take_in_rows(left, geometry, rows, before, begin)
        values = _values_with(left, geometry, rows, begin, end, right.seen, stamp + 2)
        to_left, same = _growth(own, left, values, geometry, end - begin, begin - before)
        if holds:
            return SAME if same else STAY
    if end < behind:
        _start(right, stamp + 3)
        _take_in_rows(right, geometry, rows, end, behind)
        values = _values_with(own, geometry, rows, end, behind, right.seen, stamp + 4)
        to_right, _ = _growth(own, right, values, geometry, end - begin, behind - end)
    return LEFT if to_left <= to_right else RIGHT


@inner
def _as_wide(one, other, geometry):
    """Return True if two runs are equally wide in all attributes, as they must be to be released alike."""
    for j in range(one.low.shape[0]):
        if width(geometry, j, one.low[j], one.high[j], one.distinct[j]) != width(
            geometry, j, other.low[j], other.high[j], other.distinct[j]
        ):
            return False
    return True


@inner
def _values_with(reach, geometry, rows, start, stop, counted, stamp):
    """Count the values of each SET attribute in a run together with further rows."""
    values = reach.distinct.copy()
    for j in range(values.shape[0]):
        if geometry.form[j] == SET:
            for i in range(start, stop):
                value = reach.seen_at[j] + code_of(rows, i, j)
                if reach.seen[value] != reach.stamp[0] and counted[value] != stamp:
                    counted[value] = stamp
                    values[j] += 1
    return values


@inner
def _growth(own, beside, values, geometry, size, size_beside):
    """Return the loss of a run and its neighbour together beyond that of the neighbour alone.

    Return also whether both are released alike: no width of either grows.
    """
    together, alone, same = 0.0, 0.0, True
    for j in range(own.low.shape[0]):
        low, high = min(own.low[j], beside.low[j]), max(own.high[j], beside.high[j])
        joined = width(geometry, j, low, high, values[j])
        single = width(geometry, j, beside.low[j], beside.high[j], beside.distinct[j])
        same = same and joined == single == width(geometry, j, own.low[j], own.high[j], own.distinct[j])
        together += geometry.weight[j] * joined
        alone += geometry.weight[j] * single
    return (size + size_beside) * together - size_beside * alone, same
