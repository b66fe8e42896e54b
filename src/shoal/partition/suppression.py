"""Suppress outliers: a few rows whose removal lets many others be released more precisely."""

from __future__ import annotations

import numpy as np

from shoal._kernels import suppression as kernel
from shoal._kernels.guard import Guard, rows_hold
from shoal.data.table import Table
from shoal.partition.geometry import group_members, measure_geometry


def trim(table: Table, labels: np.ndarray, guard: Guard, smallest: int, limit: float, *, sets: bool) -> np.ndarray:
    """Suppress rows of extreme values, those that gain most first, up to a share ``limit`` of the released rows.

    The suppressed rows are released alike too, so they must be a valid group themselves: if they are fewer than
    ``smallest``, or violate a rule of the guard, nothing is suppressed.
    """
    geometry = measure_geometry(table, sets=sets)
    order, starts = group_members(labels)
    released = len(guard.members) and np.count_nonzero(guard.members)
    budget = int(np.floor(limit * (released or table.n_rows) + 1e-9))
    gains = kernel.first_gains(table.codes, order, starts, geometry, smallest)
    ranked = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains > 0)]
    suppressed = np.zeros(table.n_rows, bool)
    kernel.trim(table.codes, order, starts, ranked, geometry, smallest, budget, guard, suppressed)
    rows = np.flatnonzero(suppressed)
    if len(rows) < smallest:
        return labels
    if guard.rules.model.shape[0] > 0 and not rows_hold(guard, rows):
        return labels
    return np.where(suppressed, -1, labels)
