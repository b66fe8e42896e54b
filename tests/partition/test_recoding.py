"""Released values of groups: rows and centres equal to those of naive twins."""

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Attribute, Schema
from shoal.data.table import encode, take_rows
from shoal.partition.geometry import forms
from shoal.partition.recoding import recode
from tables import tables

LINE = 0
ROWS = ["representative", "medoid", "centroid", "majority"]
"""Recodings that represent a group by one of its rows."""
FEWER = settings(max_examples=settings.default.max_examples // 3 + 1)


@st.composite
def partitions(draw):
    """Draw an encoded table, groups of its rows (some are suppressed), a class for each row, and the released ones."""
    frame, schema = draw(tables(most_rows=25))
    n = len(frame)
    n_groups = draw(st.integers(1, min(4, n)))
    labels = [*range(n_groups), *draw(st.lists(st.integers(-1, n_groups - 1), min_size=n - n_groups, max_size=n))]
    classes = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    members = draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n).map(np.array))
    return encode(frame, schema), np.array(labels[:n]), np.array(classes), members


def released_rows(labels, members):
    """Yield the released rows of each group, or all rows if none is released."""
    for g in range(labels.max() + 1):
        rows = np.flatnonzero(labels == g).tolist()
        yield [row for row in rows if members is None or members[row]] or rows


def rows_of(table, labels, recoding, members, classes=None):
    """Return the row that represents each group."""
    recoded = recode(table, labels, recoding, members, classes=classes)
    (rows,) = {tuple(column.rows.tolist()) for column in recoded.values()}
    return rows


def center_of(column, form, rows):
    """Return the lower median of the present values, or the most frequent value, the lowest if tied."""
    codes = [int(column.codes[row]) for row in rows]
    if form == LINE:
        present = [code for code in codes if code != column.missing]
        return int(np.percentile(present, 50, method="lower")) if present else column.missing
    counts = Counter(codes)
    return min(code for code in counts if counts[code] == max(counts.values()))


def distance(table, one, other):
    """Return the weighted distance: on a line by position, else 0 or 1; a missing value is at distance 1 to all."""
    total = 0.0
    for column, form, a, b in zip(table.quasi, forms(table), one, other, strict=True):
        step = float(a != b)
        if form == LINE and a != b and column.missing not in (a, b):
            step = abs(column.positions[a] - column.positions[b]) / column.width
        total += column.attribute.weight * step
    return total


def distances_to_mean(table, everyone, rows):
    """Return the squared distance of each row to the mean, in columns of unit variance; a nominal attribute is one."""
    total = np.zeros(len(rows))
    for column, form in zip(table.quasi, forms(table), strict=True):
        codes, missing = column.codes[everyone].astype(int), column.missing
        if form != LINE:
            one_hot = np.eye(column.n_values)
            matrix, spread = one_hot[column.codes[rows]], one_hot[codes].var(axis=0).sum()
            squares = ((matrix - matrix.mean(axis=0)) ** 2).sum(axis=1)
            total += column.attribute.weight * (squares / spread if spread > 0 else 0.0)
            continue
        spread = np.var([column.positions[code] for code in codes if code != missing] or [0.0])
        for i, row in enumerate(rows):
            for other in rows:
                a, b = column.codes[row], column.codes[other]
                step = 2.0 * ((a == missing) != (b == missing))
                if missing not in (a, b) and spread > 0:
                    step = (column.positions[a] - column.positions[b]) ** 2 / spread
                total[i] += column.attribute.weight * step / len(rows) if spread > 0 else 0.0
    return total


def one_hot_distances(table, rows):
    """Return the Euclidean distance of each row to the medians of a matrix of positions from 0 to 1 and indicators."""
    columns, weights = [], []
    for column, form in zip(table.quasi, forms(table), strict=True):
        codes = column.codes[rows].astype(int)
        if form == LINE:
            positions = np.append(column.positions, np.nan)[codes]
            there = positions[codes != column.missing]
            # If a number is missing, only that counts: it is in the middle of the others.
            positions[codes == column.missing] = np.median(there) if len(there) else 0.0
            columns.append(positions / (column.width or math.inf))
            columns.append((codes == column.missing).astype(float))
        else:
            columns += [(codes == code).astype(float) for code in range(column.n_values)]
        weights += [column.attribute.weight] * (len(columns) - len(weights))
    matrix = np.column_stack(columns)
    return np.sqrt(((matrix - np.median(matrix, axis=0)) ** 2) @ np.array(weights))


def assert_lowest(table, chosen, costs):
    """Check that the chosen row costs least and, if costs are exact, has the lowest codes of such rows."""
    least = min(costs.values())
    tied = [row for row, cost in costs.items() if cost <= least + 1e-9 * (1 + least)]
    assert chosen in tied
    if len(table.quasi) == 1 and table.quasi[0].content != "number":
        assert table.codes[chosen].tolist() == min(table.codes[row].tolist() for row in tied)


@given(partitions())
def test_rows_that_stand_for_groups_equal_those_of_naive_twins(partition):
    table, labels, classes, members = partition
    codes = table.codes.astype(int).tolist()
    groups = list(released_rows(labels, members))
    for chosen, rows in zip(rows_of(table, labels, "medoid", members), groups, strict=True):
        assert_lowest(table, chosen, {row: sum(distance(table, codes[row], codes[r]) for r in rows) for row in rows})
    everyone = [row for rows in groups for row in rows]
    for chosen, rows in zip(rows_of(table, labels, "centroid", members), groups, strict=True):
        costs = distances_to_mean(table, everyone, rows).tolist()
        assert_lowest(table, chosen, dict(zip(rows, costs, strict=True)))
    for chosen, rows in zip(rows_of(table, labels, "representative", members), groups, strict=True):
        center = [center_of(column, form, rows) for column, form in zip(table.quasi, forms(table), strict=True)]
        assert_lowest(table, chosen, {row: distance(table, codes[row], center) for row in rows})
    for chosen, rows in zip(rows_of(table, labels, "majority", members, classes), groups, strict=True):
        counts = Counter(classes[rows].tolist())
        majority = min(c for c in counts if counts[c] == max(counts.values()))
        costs = dict(zip(rows, one_hot_distances(table, rows).tolist(), strict=True))
        assert_lowest(table, chosen, {row: costs[row] for row in rows if classes[row] == majority})


@FEWER
@given(partitions())
def test_medians_and_most_frequent_values_equal_those_of_numpy(partition):
    table, labels, _, members = partition
    recoded = recode(table, labels, "median", members)
    for column, form in zip(table.quasi, forms(table), strict=True):
        expected = [center_of(column, form, rows) for rows in released_rows(labels, members)]
        assert column.codes[recoded[column.name].rows].tolist() == expected


@FEWER
@given(partitions(), st.randoms(use_true_random=False))
def test_what_is_released_does_not_depend_on_the_order_of_rows(partition, random):
    table, labels, classes, _ = partition
    order = list(range(table.n_rows))
    random.shuffle(order)
    moved = take_rows(table, np.array(order))
    for recoding in [*ROWS, "median"]:
        known = {"classes": classes} if recoding == "majority" else {}
        moved_known = {"classes": classes[order]} if recoding == "majority" else {}
        one = recode(table, labels, recoding, **known)
        other = recode(moved, labels[order], recoding, **moved_known)
        for column, again in zip(table.quasi, moved.quasi, strict=True):
            assert np.array_equal(column.codes[one[column.name].rows], again.codes[other[column.name].rows])


@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_medians_of_small_and_large_groups(missing):
    """Few codes are sorted by insertion, codes close to each other are counted, others are sorted."""
    random = np.random.default_rng(0)
    sizes = [1, 2, 39, 40, 41, 42, 100, 101, 1500, 3000]
    labels = random.permutation(np.arange(len(sizes)).repeat(sizes))
    present = random.random(len(labels)) >= missing
    frame = pl.DataFrame(
        {
            "many": np.where(present, random.normal(size=len(labels)), np.nan),
            "few": np.where(present, random.integers(0, 30, len(labels)), np.nan),
            "name": [f"n{i}" if there else None for i, there in zip(random.integers(0, 9, len(labels)), present)],
        }
    ).fill_nan(None)
    table = encode(frame, Schema([Attribute("many"), Attribute("few"), Attribute("name", kind="nominal")]))
    recoded = recode(table, labels, "median")
    for column, form in zip(table.quasi, forms(table), strict=True):
        expected = [center_of(column, form, rows) for rows in released_rows(labels, None)]
        assert column.codes[recoded[column.name].rows].tolist() == expected


def test_a_majority_by_hand():
    """Most rows say yes, and of these the second one has the median 3 and the more frequent colour."""
    frame = pl.DataFrame({"x": [1, 3, 9, 3, None], "colour": ["red", "blue", "blue", "blue", "red"]})
    table = encode(frame, Schema([Attribute("x"), Attribute("colour", kind="nominal")]))
    classes = np.array([1, 1, 1, 0, 0])
    assert rows_of(table, np.zeros(5, int), "majority", None, classes) == (1,)
    assert rows_of(table, np.zeros(5, int), "majority", None, np.array([1, 0, 1, 0, 1])) == (2,)
    assert rows_of(table, np.zeros(5, int), "medoid", None) in [(1,), (3,)]


def test_a_centroid_by_hand():
    """The median of one to nine and a hundred is 5, the mean is 14.5: nearest to it is 9."""
    table = encode(pl.DataFrame({"x": [*range(1, 10), 100]}), Schema([Attribute("x")]))
    assert rows_of(table, np.zeros(10, int), "representative", None) == (4,)
    assert rows_of(table, np.zeros(10, int), "centroid", None) == (8,)
