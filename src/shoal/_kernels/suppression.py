"""Suppress single rows of a group where this makes the group much narrower."""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import jit
from shoal._kernels.geometry import width
from shoal._kernels.guard import guard_holds


@jit
def first_gains(codes, order, starts, geometry, smallest):
    """Return the gain per suppressed row of the best single step of trimming each group."""
    gains = np.zeros(starts.shape[0] - 1)
    for g in range(gains.shape[0]):
        gains[g] = best_step(codes, order, starts[g], starts[g + 1], geometry, smallest)[0]
    return gains


@jit
def best_step(codes, order, start, stop, geometry, smallest):
    """Find the rows with one extreme value whose suppression gains most: (gain per row, attribute, code, row count).

    Suppressing t of n rows loses all information that they still carry, and each of the others gains the decrease of
    the attribute's width.
    """
    n = stop - start
    q = codes.shape[1]
    best = (0.0, -1, np.int64(0), 0)
    if n <= smallest:
        return best
    values = np.empty(n, np.int64)
    retained = 0.0
    for j in range(q):
        for i in range(n):
            values[i] = codes[order[start + i], j]
        values.sort()
        retained += geometry.weight[j] * (1.0 - width(geometry, j, values[0], values[n - 1], _n_distinct(values)))
    for j in range(q):
        for i in range(n):
            values[i] = codes[order[start + i], j]
        values.sort()
        if values[0] == values[n - 1] or geometry.weight[j] == 0.0:
            continue
        n_distinct = _n_distinct(values)
        before = width(geometry, j, values[0], values[n - 1], n_distinct)
        for upper in range(2):
            code = values[n - 1] if upper else values[0]
            t = 1
            while values[n - 1 - t if upper else t] == code:
                t += 1
            if n - t < smallest:
                continue
            low = values[0] if upper else values[t]
            high = values[n - 1 - t] if upper else values[n - 1]
            after = width(geometry, j, low, high, n_distinct - 1)
            gain = (n - t) * geometry.weight[j] * (before - after) / t - retained
            if gain > best[0]:
                best = (gain, j, code, t)
    return best


@jit
def _n_distinct(values):
    count = 1
    for i in range(1, values.shape[0]):
        count += values[i] != values[i - 1]
    return count


@jit
def trim(codes, order, starts, ranked, geometry, smallest, budget, guard, suppressed):
    """Trim groups in the given order while this gains something and the budget lasts; return the rest of the budget."""
    for g in ranked:
        start, stop = starts[g], starts[g + 1]
        while budget > 0:
            gain, j, code, _ = best_step(codes, order, start, stop, geometry, smallest)
            if gain <= 0.0:
                break
            kept = _move_back(codes, order, start, stop, j, code)
            n_released = _released(guard, order, kept, stop)
            if n_released > budget:
                break
            if guard.rules.model.shape[0] > 0 and not guard_holds(guard, order, start, kept):
                break
            for i in range(kept, stop):
                suppressed[order[i]] = True
            stop = kept
            budget -= n_released
    return budget


@jit
def _released(guard, order, start, stop):
    """Return how many of these rows are released."""
    if guard.members.shape[0] == 0:
        return stop - start
    count = 0
    for i in range(start, stop):
        count += guard.members[order[i]]
    return count


@jit
def _move_back(codes, order, start, stop, j, code):
    """Move the rows with this code behind the others; return where they begin."""
    kept = start
    for i in range(start, stop):
        if codes[order[i], j] != code:
            order[kept], order[i] = order[i], order[kept]
            kept += 1
    return kept
