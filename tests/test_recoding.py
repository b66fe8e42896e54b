"""What a group is released as: rows and centres equal to those of naive twins."""

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import Attribute, Schema
from shoal._kernels import recoding as kernel
from shoal.partition import forms, group_members, measure_geometry
from shoal.recoding import recode
from shoal.table import encode
from tables import tables

LINE = 0


@st.composite
def partitions(draw):
    """An encoded table and groups of its rows."""
    frame, schema = draw(tables())
    n_groups = draw(st.integers(1, min(4, len(frame))))
    rest = draw(st.lists(st.integers(0, n_groups - 1), min_size=len(frame) - n_groups, max_size=len(frame) - n_groups))
    return encode(frame, schema), np.array([*range(n_groups), *rest])


def members_of(labels):
    return [np.flatnonzero(labels == g).tolist() for g in range(labels.max() + 1)]


def rows_of(table, labels, recoding, **known):
    """The row that stands for each group."""
    recoded = recode(table, labels, recoding, **known)
    (rows,) = {tuple(column.rows.tolist()) for column in recoded.values()}
    return rows


def distance(table, one, other):
    """Weighted: on a line by position, else 0 or 1; a missing value is at distance 1 from all others."""
    total = 0.0
    for column, form in zip(table.quasi, forms(table), strict=True):
        a, b = int(column.codes[one]), int(column.codes[other])
        step = float(a != b)
        if form == LINE and a != b and column.missing not in (a, b):
            step = abs(column.positions[a] - column.positions[b]) / column.width
        total += column.attribute.weight * step
    return total


def lowest(table, rows):
    """Of rows that are equally good the one with the lowest codes."""
    return min(rows, key=lambda row: table.codes[row].tolist())


def is_best(table, chosen, rows, cost):
    """Whether a row has the lowest cost, and among rows of equal cost, up to rounding, maybe the lowest codes."""
    costs = {row: cost(row) for row in rows}
    return costs[chosen] <= min(costs.values()) + 1e-9 * (1 + abs(costs[chosen]))


@given(partitions())
def test_the_medoid_is_nearest_to_all_others(partition):
    table, labels = partition
    for chosen, rows in zip(rows_of(table, labels, "medoid"), members_of(labels), strict=True):
        assert is_best(table, chosen, rows, lambda row: sum(distance(table, row, other) for other in rows))
