"""One row of each group that stands for it."""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import jit
from shoal._kernels.geometry import LINE


@jit
def centers(codes, order, starts, geometry):
    """The centre of each group, attribute by attribute: the lower median on a line, else the most frequent code."""
    n_groups = starts.shape[0] - 1
    q = codes.shape[1]
    center = np.empty((n_groups, q), np.int64)
    for g in range(n_groups):
        size = starts[g + 1] - starts[g]
        values = np.empty(size, np.int64)
        for j in range(q):
            for i in range(size):
                values[i] = codes[order[starts[g] + i], j]
            values.sort()
            center[g, j] = _lower_median(values, geometry.missing[j]) if geometry.form[j] == LINE else _mode(values)
    return center


@jit
def _lower_median(values, missing):
    """Of the values that are not missing, if there are any; the missing code is the highest."""
    n = values.shape[0]
    while missing >= 0 and n > 0 and values[n - 1] == missing:
        n -= 1
    return values[(n - 1) // 2] if n > 0 else values[0]


@jit
def _mode(values):
    """The most frequent of sorted values, the lowest of several."""
    best, best_run, run = values[0], 0, 0
    for i in range(values.shape[0]):
        run = run + 1 if i > 0 and values[i] == values[i - 1] else 1
        if run > best_run:
            best, best_run = values[i], run
    return best


@jit
def nearest_rows(codes, order, starts, center, geometry):
    """The row of each group that lies nearest to its centre.

    Distances add up weighted: on a line by position, elsewhere 0 or 1. Of several rows the one with the lowest codes,
    so that the choice does not depend on the order of the rows.
    """
    n_groups = starts.shape[0] - 1
    chosen = np.empty(n_groups, np.int64)
    for g in range(n_groups):
        best = order[starts[g]]
        best_distance = np.inf
        for i in range(starts[g], starts[g + 1]):
            row = order[i]
            distance = _distance(codes, row, center[g], geometry)
            if distance < best_distance or (distance == best_distance and _lower(codes, row, best)):
                best, best_distance = row, distance
        chosen[g] = best
    return chosen


@jit
def _distance(codes, row, center, geometry):
    total = 0.0
    for j in range(codes.shape[1]):
        code = np.int64(codes[row, j])
        if code == center[j]:
            continue
        step = 1.0
        if geometry.form[j] == LINE and code != geometry.missing[j] and center[j] != geometry.missing[j]:
            at = geometry.position_at[j]
            step = abs(geometry.position[at + code] - geometry.position[at + center[j]]) * geometry.scale[j]
        total += geometry.weight[j] * step
    return total


@jit
def _lower(codes, a, b):
    for j in range(codes.shape[1]):
        if codes[a, j] != codes[b, j]:
            return codes[a, j] < codes[b, j]
    return False


@jit
def mean_positions(codes, labels, positions, missing, total, count):
    """Sum of positions and number of present values in each group."""
    for i in range(codes.shape[0]):
        g = labels[i]
        if g >= 0 and codes[i] != missing:
            total[g] += positions[codes[i]]
            count[g] += 1
