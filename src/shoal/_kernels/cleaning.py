"""Shrink the coordinates of each row within a budget, and find rows with given coordinates between bounds."""

from __future__ import annotations

import math

import numpy as np

from shoal._kernels._jit import inner, jit

MOST_STEPS = 200
"""Newton steps after which coordinates count as unreachable; five to ten are usual."""
SMALLEST_STEP = 1e-14
REGULAR = 1e-2
LEAST_REGULAR = 1e-14
"""Regularisation of a matrix that may be singular, relative to its trace: initial and minimum value. It decreases with
the residuals, so that steps stay bounded if few features are free, and the last steps are plain Newton steps."""
BISECTIONS = 30
"""Bisection steps between a row's own coordinates and the wanted ones."""


@jit
def shrink(coordinates, weights, budgets, order):
    """Reduce coordinates to zero in place, one after the other, until the budget of a row is spent.

    Removing the share s of a coordinate c costs ``weights * (s * c) ** 2``. Coordinates are reduced in the given order
    or, if ``order`` is empty, cheapest first. This is the fractional knapsack problem with gains proportional to s².
    """
    n_rows, n_coordinates = coordinates.shape
    costs = np.empty(n_coordinates)
    own_order = np.empty(n_coordinates, np.int64)
    for i in range(n_rows):
        row = coordinates[i]
        for j in range(n_coordinates):
            costs[j] = weights[j] * row[j] * row[j]
        if len(order) == 0:
            _sort(costs, own_order)
        left = budgets[i]
        for position in range(n_coordinates):
            j = order[position] if len(order) > 0 else own_order[position]
            if costs[j] <= left:
                left -= costs[j]
                row[j] = 0.0
            else:
                row[j] *= 1.0 - math.sqrt(max(left, 0.0) / costs[j])
                break


@inner
def _sort(costs, order):
    """Sort positions by cost, ascending and stable."""
    for j in range(len(costs)):
        at = j
        while at > 0 and costs[order[at - 1]] > costs[j]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = j


@jit
def fit_between(own, wanted, basis, center, low, high, closeness, rows):
    """Find for each row the values between bounds that have the wanted coordinates and are nearest to the center.

    Coordinates are ``values @ basis``. If the bounds exclude such values, the coordinates are moved towards the row's
    own ones, no further than necessary. The values depend only on the two sets of coordinates.

    Parameters
    ----------
    own, wanted : rows by coordinates
    basis : features by coordinates
    center, low, high : one number per feature
    closeness : tolerance of a coordinate, relative to the largest coordinate of the row, or to 1 if that is larger
    rows : rows by features
        Output.

    Returns
    -------
    reached : one number per row
        Share of the way from its own coordinates to the wanted ones; -1 if the bounds exclude even its own.
    """
    n_rows, n_coordinates = wanted.shape
    reached = np.ones(n_rows)
    target = np.empty(n_coordinates)
    for i in range(n_rows):
        tolerance = closeness * max(np.abs(own[i]).max(), np.abs(wanted[i]).max(), 1.0)
        if _settle(wanted[i], basis, center, low, high, tolerance, rows[i]):
            continue
        nearest, furthest = -1.0, 1.0
        if _settle(own[i], basis, center, low, high, tolerance, rows[i]):
            nearest = 0.0
            for _ in range(BISECTIONS):
                middle = (nearest + furthest) / 2
                for j in range(n_coordinates):
                    target[j] = own[i, j] + middle * (wanted[i, j] - own[i, j])
                if _settle(target, basis, center, low, high, tolerance, rows[i]):
                    nearest = middle
                else:
                    furthest = middle
            for j in range(n_coordinates):
                target[j] = own[i, j] + nearest * (wanted[i, j] - own[i, j])
            _settle(target, basis, center, low, high, tolerance, rows[i])
        reached[i] = nearest
    return reached


@inner
def _settle(target, basis, center, low, high, tolerance, values):
    """Find values between bounds with these coordinates, by Newton steps on the multipliers of the coordinates.

    The nearest values are ``clip(center + basis @ multipliers)``, and the multipliers minimise a convex function whose
    gradient is the residual of the coordinates.
    """
    n_coordinates = basis.shape[1]
    multipliers = np.zeros(n_coordinates)
    tried = np.zeros(n_coordinates)
    miss = np.empty(n_coordinates)
    height = _height(multipliers, target, basis, center, low, high, values, miss)
    at_first = np.abs(miss).max()
    for _ in range(MOST_STEPS):
        if np.abs(miss).max() <= tolerance:
            return True
        furthest = np.abs(miss).max()
        regular = max(REGULAR * min(furthest / at_first, 1.0), LEAST_REGULAR)
        slopes = _slopes(basis, center, low, high, multipliers, regular)
        step = np.linalg.solve(slopes, -miss)
        along = (step * miss).sum()
        share = 1.0
        while True:
            for j in range(n_coordinates):
                tried[j] = multipliers[j] + share * step[j]
            lower = _height(tried, target, basis, center, low, high, values, miss)
            # Near the minimum the function is flat up to rounding, and only the residuals show progress.
            if lower <= height + 1e-4 * share * along or np.abs(miss).max() < (1.0 - 0.1 * share) * furthest:
                break
            share /= 2
            if share < SMALLEST_STEP:
                return False
        multipliers[:] = tried
        height = lower
    return np.abs(miss).max() <= tolerance


@inner
def _height(multipliers, target, basis, center, low, high, values, miss):
    """Return the function to minimise; write the values at these multipliers, and their residuals."""
    height = 0.0
    miss[:] = -target
    for j in range(len(target)):
        height -= target[j] * multipliers[j]
    for f in range(len(center)):
        push = 0.0
        for j in range(len(target)):
            push += basis[f, j] * multipliers[j]
        value = min(max(center[f] + push, low[f]), high[f])
        values[f] = value
        distance = value - center[f]
        height += value * push - 0.5 * distance * distance
        for j in range(len(target)):
            miss[j] += value * basis[f, j]
    return height


@inner
def _slopes(basis, center, low, high, multipliers, regular):
    """Return the derivatives of the coordinates by the multipliers, over the features that are not at a bound."""
    n_features, n_coordinates = basis.shape
    slopes = np.zeros((n_coordinates, n_coordinates))
    whole = 0.0
    for f in range(n_features):
        push = 0.0
        for j in range(n_coordinates):
            push += basis[f, j] * multipliers[j]
        free = low[f] < center[f] + push < high[f]
        for j in range(n_coordinates):
            whole += basis[f, j] * basis[f, j]
            if free:
                for other in range(n_coordinates):
                    slopes[j, other] += basis[f, j] * basis[f, other]
    for j in range(n_coordinates):
        slopes[j, j] += regular * whole + 1e-300
    return slopes
