"""Choose the row or the value that represents each group."""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.geometry import LINE

SHORT = 40
"""Largest number of values that are sorted by insertion."""


@jit
def centers(codes, order, starts, geometry):
    """Return the centre of each group, by attribute: the lower median on a line, else the most frequent code."""
    n_groups = starts.shape[0] - 1
    q = codes.shape[1]
    center = np.empty((n_groups, q), np.int64)
    largest = 0
    for g in range(n_groups):
        largest = max(largest, starts[g + 1] - starts[g])
    values = np.empty(largest, np.int64)
    histogram = np.zeros(geometry.n_values.max(), np.int64)
    for g in range(n_groups):
        size = starts[g + 1] - starts[g]
        for j in range(q):
            for i in range(size):
                values[i] = codes[order[starts[g] + i], j]
            if geometry.form[j] == LINE:
                center[g, j] = _lower_median(values, size, geometry.missing[j], histogram)
            else:
                center[g, j] = _mode(values, size, histogram)
    return center


@inner
def _lower_median(values, size, missing, histogram):
    """Return the lower median of the present values, or the missing code, the highest, if none is; reorder values."""
    n = np.int64(0)
    for i in range(size):
        if values[i] != missing:
            values[n] = values[i]
            n += 1
    if n == 0:
        return np.int64(missing)
    middle = (n - 1) // 2
    low, high = values[0], values[0]
    for i in range(1, n):
        low, high = min(low, values[i]), max(high, values[i])
    if n > SHORT and high - low < 4 * n:
        return _median_by_counting(values, n, middle, low, histogram)
    if n > SHORT:
        values[:n].sort()
        return values[middle]
    for i in range(1, n):
        value, at = values[i], i
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value
    return values[middle]


@inner
def _median_by_counting(values, n, middle, low, histogram):
    for i in range(n):
        histogram[values[i]] += 1
    code, below = low, histogram[low]
    while below <= middle:
        code += 1
        below += histogram[code]
    for i in range(n):
        histogram[values[i]] = 0
    return code


@inner
def _mode(values, size, histogram):
    """Return the most frequent value, the lowest one if tied."""
    for i in range(size):
        histogram[values[i]] += 1
    best = values[0]
    for i in range(1, size):
        value = values[i]
        if histogram[value] > histogram[best] or (histogram[value] == histogram[best] and value < best):
            best = value
    for i in range(size):
        histogram[values[i]] = 0
    return best


@jit
def nearest_rows(codes, order, starts, center, geometry):
    """Return the row of each group that is nearest to its centre.

    Distances are weighted sums: by position on a line, elsewhere 0 or 1. Ties go to the row with the lowest codes, so
    that the choice does not depend on the order of the rows.
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


@inner
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


@inner
def _lower(codes, a, b):
    for j in range(codes.shape[1]):
        if codes[a, j] != codes[b, j]:
            return codes[a, j] < codes[b, j]
    return False


@jit
def medoids(codes, order, starts, geometry, spread):
    """Return the row of each group with the least sum of distances to its other rows, the lowest codes if tied.

    With ``spread``, the variance of each attribute, distances are squared and in units of it: the row is then the one
    nearest to the group's mean.
    """
    n_groups = starts.shape[0] - 1
    chosen = np.empty(n_groups, np.int64)
    most_codes = geometry.n_values.max()
    histogram, far = np.zeros(most_codes, np.int64), np.empty(most_codes)
    for g in range(n_groups):
        size = starts[g + 1] - starts[g]
        total = np.zeros(size)
        values = np.empty(size, np.int64)
        for j in range(codes.shape[1]):
            for i in range(size):
                values[i] = codes[order[starts[g] + i], j]
            if spread is None:
                if geometry.form[j] == LINE:
                    _add_line_distances(values, geometry, j, far, total)
                else:
                    _add_unequal(values, geometry.weight[j], histogram, total)
            elif spread[j] > 0.0:
                if geometry.form[j] == LINE:
                    _add_squared_distances(values, geometry, j, spread[j], total)
                else:
                    _add_unequal(values, geometry.weight[j] / spread[j], histogram, total)
        best = 0
        for i in range(1, size):
            tied = total[i] == total[best]
            if total[i] < total[best] or (tied and _lower(codes, order[starts[g] + i], order[starts[g] + best])):
                best = i
        chosen[g] = order[starts[g] + best]
    return chosen


@inner
def _in_order(values):
    ordered = values.copy()
    ordered.sort()
    return ordered


@inner
def _add_line_distances(values, geometry, j, far, total):
    """Add to each row's total its distances to the others on a line; the missing value is at distance 1 from all.

    ``far`` is a scratch buffer with a number for each code.
    """
    at, weight = geometry.position_at[j], geometry.weight[j]
    step = weight * geometry.scale[j]
    ordered = _in_order(values)
    n = values.shape[0]
    present = n
    while present > 0 and ordered[present - 1] == geometry.missing[j]:
        present -= 1
    whole = 0.0
    for r in range(present):
        whole += geometry.position[at + ordered[r]]
    below, r = 0.0, 0
    while r < present:
        code = ordered[r]
        position = geometry.position[at + code]
        # Values below add position - theirs, values above add theirs - position, equal ones add nothing.
        distance = (r * position - below) + (whole - below - (present - r) * position)
        far[code] = step * distance + weight * (n - present)
        end = r
        while end < present and ordered[end] == code:
            end += 1
        below += (end - r) * position
        r = end
    if present < n:
        far[ordered[present]] = weight * present
    for i in range(n):
        total[i] += far[values[i]]


@inner
def _add_squared_distances(values, geometry, j, spread, total):
    """Add to each row's total its squared distances to the others on a line, scaled to a mean of 1.

    The missing value is at distance 1 from all others.
    """
    at, weight, missing = geometry.position_at[j], geometry.weight[j], geometry.missing[j]
    # Sums run in ascending order, so that they do not depend on the order of the rows.
    ordered = _in_order(values)
    n = values.shape[0]
    present, mean, squares = 0, 0.0, 0.0
    while present < n and ordered[present] != missing:
        mean += geometry.position[at + ordered[present]]
        present += 1
    mean /= max(present, 1)
    for r in range(present):
        squares += (geometry.position[at + ordered[r]] - mean) ** 2
    for i in range(n):
        if values[i] == missing:
            total[i] += weight * present
        else:
            distances = squares + present * (geometry.position[at + values[i]] - mean) ** 2
            total[i] += weight * (distances / (2.0 * spread) + (n - present))


@inner
def _add_unequal(values, weight, histogram, total):
    """Add to each row's total the number of others with another value; the histogram is all zero before and after."""
    n = values.shape[0]
    for i in range(n):
        histogram[values[i]] += 1
    for i in range(n):
        total[i] += weight * (n - histogram[values[i]])
    for i in range(n):
        histogram[values[i]] = 0


@jit
def nearest_to_median(codes, order, starts, eligible, geometry):
    """Return the eligible row of each group nearest to its median, by Euclidean distance over one-hot columns.

    Positions on a line are scaled to the range 0 to 1; every other value is an indicator column, whose median is 1 if
    more than half of the group has the value, and ½ if exactly half does.
    """
    n_groups, q = starts.shape[0] - 1, codes.shape[1]
    chosen = np.empty(n_groups, np.int64)
    for g in range(n_groups):
        size = starts[g + 1] - starts[g]
        values = np.empty(size, np.int64)
        distance = np.zeros(size)
        for j in range(q):
            for i in range(size):
                values[i] = codes[order[starts[g] + i], j]
            if geometry.form[j] == LINE:
                _add_line_squares(values, geometry, j, distance)
            else:
                _add_one_hot_squares(values, _in_order(values), geometry.weight[j], distance)
        best = -1
        for i in range(size):
            row = order[starts[g] + i]
            if not eligible[row]:
                continue
            tied = best >= 0 and distance[i] == distance[best]
            if best < 0 or distance[i] < distance[best] or (tied and _lower(codes, row, order[starts[g] + best])):
                best = i
        chosen[g] = order[starts[g] + best]
    return chosen


@inner
def _add_line_squares(values, geometry, j, distance):
    """Add squared distances to the median of the present positions; being missing is an indicator column of its own."""
    at, weight = geometry.position_at[j], geometry.weight[j]
    ordered = _in_order(values)
    n = values.shape[0]
    present = n
    while present > 0 and ordered[present - 1] == geometry.missing[j]:
        present -= 1
    center = 0.0
    if present > 0:
        low, high = ordered[(present - 1) // 2], ordered[present // 2]
        center = 0.5 * (geometry.position[at + low] + geometry.position[at + high])
    share = (n - present) / n
    missing = 1.0 if share > 0.5 else 0.5 if share == 0.5 else 0.0
    for i in range(n):
        if values[i] == geometry.missing[j]:
            distance[i] += weight * (1.0 - missing) ** 2
        else:
            step = (geometry.position[at + values[i]] - center) * geometry.scale[j]
            distance[i] += weight * (step**2 + missing**2)


@inner
def _add_one_hot_squares(values, ordered, weight, distance):
    n = values.shape[0]
    # At most two values can be that frequent; each of them covers one of the two middle places.
    first, second = ordered[(n - 1) // 2], ordered[n // 2]
    for i in range(n):
        squares = 1.0
        for b, code in enumerate((first, second)):
            if b == 1 and second == first:
                break
            share = (np.searchsorted(ordered, code, side="right") - np.searchsorted(ordered, code)) / n
            median = 1.0 if share > 0.5 else 0.5 if share == 0.5 else 0.0
            squares += median**2 - (2.0 * median if values[i] == code else 0.0)
        distance[i] += weight * squares


@jit
def mean_positions(codes, labels, positions, missing, total, count):
    """Sum the positions and count the present values in each group."""
    for i in range(codes.shape[0]):
        g = labels[i]
        if g >= 0 and codes[i] != missing:
            total[g] += positions[codes[i]]
            count[g] += 1
