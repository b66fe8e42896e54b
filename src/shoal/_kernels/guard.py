"""Rules that a partitioner requires of every group besides its size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.privacy import Rules, rules_hold


class Guard(NamedTuple):
    """Rules, the columns they refer to, and scratch buffers; one for each thread."""

    rules: Rules
    sensitive: np.ndarray
    """uint32 (n, s)."""
    members: np.ndarray
    """uint8 (n,): 1 for released rows; of length 0 if all are."""
    weights: np.ndarray
    """int64 (n,): number of rows that each row represents; of length 0 if each represents only itself."""
    histogram: np.ndarray
    touched: np.ndarray


@inner
def guard_holds(guard, order, start, stop):
    """Return True if all rules hold for the group of the rows ``order[start:stop]``."""
    return rules_hold(
        guard.rules, guard.sensitive, guard.members, guard.weights, order, start, stop, guard.histogram, guard.touched
    )


@jit
def rows_hold(guard, rows):
    """Return True if all rules hold for a group of these rows."""
    return guard_holds(guard, rows, 0, rows.shape[0])
