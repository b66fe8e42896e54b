"""Losses and risks against hand calculations, naive sums and ARX's value."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.groups import common_ancestor, leaves_under
from shoal import Attribute, Hierarchy, Schema
from shoal.data.table import encode
from shoal.partition.geometry import forms
from shoal.partition.losses import (
    all_losses,
    average_group_size,
    classification_metric,
    discernibility,
    gil,
    granularity,
    ncp,
    ngil,
    non_uniform_entropy,
)
from shoal.privacy.risk import risk
from tables import tables

WORK = Hierarchy.from_dict({"gov": ["federal", "local"], "self": ["inc", "not-inc"], "private": None})


@pytest.fixture
def table():
    frame = pl.DataFrame({"age": [20, 30, 60, 40], "work": ["federal", "local", "private", "private"]})
    return encode(frame, Schema([Attribute("age", weight=2.0), Attribute("work", kind="nominal", hierarchy=WORK)]))


def test_losses_by_hand(table):
    """Two groups: ages 20-30 of 20-60 cost 1/4, 40-60 cost 1/2; gov covers 2 of 5 leaves at height 1 of 2."""
    labels = np.array([0, 0, 1, 1])
    assert gil(table, labels) == pytest.approx(2 * (2 * 0.25 + 0.5) + 2 * (2 * 0.5 + 0))
    assert ngil(table, labels) == pytest.approx(4.0 / (4 * 2))
    assert ncp(table, labels) == pytest.approx((2 * (0.25 + 0.5) / 2 + (2 / 5 + 0) / 2) / 3)
    assert granularity(table, labels) == pytest.approx((2 * (0.25 + 0.5) / 2 + (1 / 4 + 0) / 2) / 3)
    assert discernibility(labels) == 8
    assert average_group_size(labels) == 2
    assert average_group_size(labels, k=2) == 1


def test_suppressed_rows_lose_everything(table):
    labels = np.array([0, 0, -1, -1])
    assert ncp(table, labels) == pytest.approx((2 * (0.25 + 1) / 2 + (2 / 5 + 1) / 2) / 3)
    assert discernibility(labels) == 4 + 2 * 4
    assert average_group_size(labels) == 2
    assert ncp(table, np.full(4, -1)) == 1.0


def test_entropy_by_hand():
    """The set {a, b} covers three rows: two with a (log2 3/2 bits each) and one with b (log2 3 bits)."""
    frame = pl.DataFrame({"x": ["a", "a", "b", "c"]})
    table = encode(frame, Schema([Attribute("x", kind="nominal")]))
    labels = np.array([0, 0, 0, 1])
    assert non_uniform_entropy(table, labels) == pytest.approx(2 * np.log2(3 / 2) + np.log2(3))


def test_entropy_equals_arx(data_folder):
    """ARX's test oracles: Adult generalised to these levels (the metric ignores suppression there)."""
    from shoal.datasets import fetch_adult

    adult = fetch_adult("train", drop_missing=True, quasi=9, hierarchies="arx")
    names = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation", "income"]
    for levels, expected in [
        ([1, 0, 1, 1, 3, 2, 2, 0, 1], 255559.85455731067),
        ([1, 1, 1, 1, 3, 2, 2, 1, 1], 379417.3460570988),
    ]:
        total = 0.0
        for name, level in zip(names, levels, strict=True):
            schema = Schema([adult.schema[name]])
            table = encode(adult.frame.select(name), schema)
            hierarchy = schema[name].hierarchy
            column = table.quasi[0]
            leaf = np.array([hierarchy.leaf(column.text(code)) for code in range(column.n_values)])
            nodes = hierarchy.table[leaf[column.codes], level]
            total += non_uniform_entropy(table, np.unique(nodes, return_inverse=True)[1])
        assert total == pytest.approx(expected, rel=1e-12)


def test_classification_metric_by_hand():
    frame = pl.DataFrame({"x": [1] * 6, "y": ["a", "a", "b", "b", "b", "a"]})
    schema = Schema([Attribute("x"), Attribute("y", role="target", kind="nominal")])
    target = encode(frame, schema, extra=["y"]).columns["y"]
    assert classification_metric(np.array([0, 0, 0, 1, 1, 1]), target) == pytest.approx(2 / 6)
    assert classification_metric(np.array([0, 0, 0, -1, -1, -1]), target) == pytest.approx(4 / 6)


def test_risks_by_hand():
    found = risk(np.array([1, 4, 5]), threshold=0.2)
    assert found.prosecutor == found.journalist == 1.0
    assert found.marketer == pytest.approx(3 / 10)
    assert found.above == pytest.approx(5 / 10)
    assert found.unique == pytest.approx(1 / 10)
    known = risk(np.array([1, 4, 5]), population=np.array([10, 40, 50]))
    assert known.journalist == pytest.approx(1 / 10)
    assert known.marketer == pytest.approx((1 / 10 + 4 / 40 + 5 / 50) / 10)


@given(tables(), st.data())
def test_losses_equal_naive_sums(random_table, data):
    frame, schema = random_table
    table = encode(frame, schema)
    labels = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=table.n_rows, max_size=table.n_rows)))
    sets = data.draw(st.booleans())
    _, labels = np.unique(np.append(labels, -1), return_inverse=True)
    labels = labels[:-1] - 1
    total, weights = 0.0, 0.0
    for column, form in zip(table.quasi, forms(table, sets=sets), strict=True):
        weights += column.attribute.weight
        for row in range(table.n_rows):
            rows = [i for i in range(table.n_rows) if labels[i] == labels[row]]
            loss = naive_loss(column, form, {int(column.codes[i]) for i in rows}, suppressed=labels[row] < 0)
            total += column.attribute.weight * loss / table.n_rows
    losses = all_losses(table, labels, sets=sets)
    assert losses.ncp == pytest.approx(total / weights)
    assert 0 <= losses.granularity <= losses.ncp + 1e-12
    assert losses.non_uniform_entropy >= 0


def naive_loss(column, form, codes, *, suppressed):
    if column.n_values == 1:
        return 0.0
    if suppressed:
        return 1.0
    if len(codes) == 1:
        return 0.0
    if form == 0:
        if column.missing in codes:
            return 1.0
        positions = [column.positions[code] for code in codes]
        return (max(positions) - min(positions)) / column.width
    if form == 2:
        return len(codes) / column.n_values
    return leaves_under(column.tree, common_ancestor(column.tree, codes)) / column.tree.n_leaves


@given(tables(least_rows=4))
def test_coarser_partitions_lose_more(random_table):
    frame, schema = random_table
    table = encode(frame, schema)
    fine = np.arange(table.n_rows)
    for coarse in (fine // 2, fine // 4, np.zeros_like(fine)):
        finer, coarser = all_losses(table, fine), all_losses(table, coarse)
        for name in ("ncp", "granularity", "gil", "ngil", "discernibility", "non_uniform_entropy"):
            assert getattr(coarser, name) >= getattr(finer, name) - 1e-9
        fine = coarse
