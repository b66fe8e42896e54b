"""Spending a budget on the coordinates of each row, and finding rows of given coordinates between bounds."""

from __future__ import annotations

import math

import numpy as np

from shoal._kernels._jit import inner, jit

MOST_STEPS = 200
"""Newton steps before coordinates count as out of reach; five to ten are usual."""
SMALLEST_STEP = 1e-14
REGULAR = 1e-2
LEAST_REGULAR = 1e-14
"""What is added to a matrix that may be singular, by its trace: at first, and at least. In between it falls as the
misses do, so that steps stay bounded where few features are free, and the last ones are Newton's."""
SOUGHT = 30
"""Halvings of the way from a row's own coordinates to those wanted."""


@jit
def shrink(coordinates, weights, budgets, order):
    """Lower coordinates, in place, the next one as soon as one is zero, until a row's budget is spent.

    To take the share s off a coordinate c costs ``weights * (s * c) ** 2``. They are taken in this order or, if it is
    empty, those first that cost least. This is the fractional knapsack, for gains that go with s² too.
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
    """Positions by cost, ascending; of equal ones the first."""
    for j in range(len(costs)):
        at = j
        while at > 0 and costs[order[at - 1]] > costs[j]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = j


@jit
def fit_between(own, wanted, basis, center, low, high, closeness, rows):
    """For each row find values between bounds whose coordinates are those wanted, nearest to the center.

    Coordinates are ``values @ basis``. Where bounds leave no such values, the coordinates are moved towards the row's
    own ones, no further than need be. The values depend on the two sets of coordinates and on nothing else.

    Parameters
    ----------
    own, wanted : rows by coordinates
    basis : features by coordinates
    center, low, high : one number a feature
    closeness : by how much a coordinate may miss, by the length of the row's coordinates, or by 1 if that is longer
    rows : rows by features
        Filled in.

    Returns
    -------
    reached : one number a row
        Which part of the way from its own coordinates to those wanted; -1 if not even its own are within the bounds.
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
            for _ in range(SOUGHT):
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
    """Values between bounds with these coordinates, by Newton steps on the multipliers of the coordinates.

    The nearest values are ``clip(center + basis @ multipliers)``, and the multipliers are where a convex
    function is lowest, whose slope is by how much the coordinates miss.
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
            # Near the end the function is flat to rounding, and only the misses tell whether it goes down.
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
    """The function that is to be lowest; also the values at these multipliers, and by how much they miss."""
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
    """How the coordinates change with the multipliers, by the features that are not at a bound."""
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
