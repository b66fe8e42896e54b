"""Confidence intervals of 95 %."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
Z = float(stats.norm.ppf((1 + CONFIDENCE) / 2))
"""Standard errors on either side of an interval; computed by scipy each time, it took 60 µs."""
RESAMPLES = 1000
"""Number of bootstrap resamples, for statistics that have no simpler interval."""


class Interval(NamedTuple):
    """An estimate and its 95 % confidence interval."""

    value: float
    low: float
    high: float


def share_interval(hits: int, n: int) -> Interval:
    """Return a share of rows, with Wilson's interval.

    >>> [round(edge, 3) for edge in share_interval(9, 10)]
    [0.9, 0.596, 0.982]
    """
    z, share = Z, hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Interval(share, max(middle - reach, 0.0), min(middle + reach, 1.0))


def share_right(right: np.ndarray) -> Interval:
    """Return the accuracy, the share of rows that are right, with Wilson's interval."""
    return share_interval(int(right.sum()), len(right))


def exactly(number: float) -> Interval:
    """Return the interval of a number that is known exactly."""
    return Interval(number, number, number)


def paired_difference(one: np.ndarray, other: np.ndarray) -> Interval:
    """Return the difference of two accuracies on the same rows, with the interval of Bonett and Price (2012).

    It is valid for few rows: if both are right on the same ones, the interval still has a width.

    >>> one, other = np.array([True, True, True, False]), np.array([True, False, True, False])
    >>> [round(edge, 3) for edge in paired_difference(one, other)]
    [0.25, -0.383, 0.717]
    """
    n, z = len(one), Z
    gained, lost = int((one & ~other).sum()), int((other & ~one).sum())
    more, less = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    reach = z * math.sqrt((more + less - (more - less) ** 2) / (n + 2))
    return Interval((gained - lost) / n, max(more - less - reach, -1.0), min(more - less + reach, 1.0))


def ratio_interval(above: np.ndarray, below: np.ndarray) -> Interval:
    """Return the ratio of two sums over the same rows, with a bootstrap interval."""
    random = np.random.default_rng(0)
    pairs = np.column_stack([above, below]).astype(float)
    drawn = np.empty((RESAMPLES, 2))
    for i in range(RESAMPLES):
        drawn[i] = pairs[random.integers(0, len(pairs), len(pairs))].sum(axis=0)
    tiny = np.finfo(float).tiny
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn[:, 0] / np.maximum(drawn[:, 1], tiny), (tail, 1 - tail))
    return Interval(float(pairs[:, 0].sum() / max(pairs[:, 1].sum(), tiny)), float(low), float(high))
