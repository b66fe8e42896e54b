"""What a partitioner asks of every group it makes, beside its size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.privacy import Rules, rules_hold


class Guard(NamedTuple):
    """Rules, the columns they look at, and scratch space; one for each thread."""

    rules: Rules
    sensitive: np.ndarray
    """uint32 (n, s)."""
    members: np.ndarray
    """uint8 (n,): the rows that are released; of length 0 when all are."""
    weights: np.ndarray
    """int64 (n,): how many rows each row stands for; of length 0 when each stands for itself."""
    histogram: np.ndarray
    touched: np.ndarray


@inner
def guard_holds(guard, order, start, stop):
    """Whether all rules hold for the group made of the rows ``order[start:stop]``."""
    return rules_hold(
        guard.rules, guard.sensitive, guard.members, guard.weights, order, start, stop, guard.histogram, guard.touched
    )


@jit
def rows_hold(guard, rows):
    """Whether all rules hold for a group of these rows."""
    return guard_holds(guard, rows, 0, rows.shape[0])
