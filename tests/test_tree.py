"""The tree: equal to its naive twin, blind to row order and threads, and as good as scikit-learn's."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

import naive_privacy
import naive_tree
from shoal import AlphaKAnonymity, Attribute, LDiversity, Schema, TCloseness
from shoal._kernels.tree import BEST_FIRST, BREADTH_FIRST, DEPTH_FIRST
from shoal.binned_trees import (
    bin_codes,
    grow_tree,
    learn_classes,
    learn_numbers,
    make_bins,
    make_likeness,
    place_rows,
)
from shoal.datasets import make_census
from shoal.guards import make_guard
from shoal.table import encode
from tables import tables

GOLDEN = json.loads((Path(__file__).parent / "golden" / "toolkit_groups.json").read_text())
GROWTHS = [DEPTH_FIRST, BREADTH_FIRST, BEST_FIRST]
# A cut refuses what misses a bound by rounding; so does the twin.
CONSTRAINTS = [
    (None, None),
    (None, None),
    (LDiversity(2), lambda group, table: naive_privacy.distinct(group) >= 2),
    (AlphaKAnonymity(0.6, 1), lambda group, table: naive_privacy.largest_share(group) <= 0.6 + 1e-12),
    (
        TCloseness(0.4),
        lambda group, table: naive_privacy.equal_distance(group, table, sorted(set(table))) <= 0.4 + 1e-12,
    ),
]


class Setting:
    """A table, what is learned of it and under which rules."""

    def __init__(self, table, response, smallest, nominal="subset", blend=None, weight=None, constraint=(None, None)):
        self.table, self.response, self.smallest = table, response, smallest
        self.binning = make_bins(table.quasi, nominal)
        self.blend, self.weight = blend, weight
        self.constraint, self.fulfilled = constraint

    @property
    def bins(self):
        return bin_codes(self.binning, [column.codes for column in self.table.quasi])

    @property
    def likeness(self):
        return None if self.blend is None else make_likeness(self.binning, self.table.quasi, self.response, self.blend)

    def grow(self, **options):
        guard = None if self.constraint is None else make_guard([self.constraint], self.table)
        options |= {"guard": guard, "likeness": self.likeness, "weight": self.weight}
        return grow_tree(self.binning, self.bins, self.response, self.smallest, **options)

    def labels(self, **options):
        return self.grow(**options)[1].tolist()

    def problem(self):
        values = self.table.sensitive[0].codes.tolist()

        def holds(rows):
            return self.fulfilled([values[row] for row in rows], values)

        likeness, asks = self.likeness, None if self.constraint is None else holds
        return naive_tree.make_problem(
            self.binning, self.bins, self.response, self.smallest, weight=self.weight, likeness=likeness, holds=asks
        )

    def take(self, rows):
        """The same setting with its rows in another order; the vocabulary stays."""
        frame = self.frame[rows]
        weight = None if self.weight is None else self.weight[rows]
        response = self.response._replace(guide=self.response.guide[rows])
        moved = Setting(encode(frame, self.table.schema), response, self.smallest)
        moved.__dict__ |= {"blend": self.blend, "weight": weight, "nominal": self.nominal}
        return moved


def draw_response(draw, n):
    kind = draw(st.sampled_from(["gini", "gini", "entropy", "numbers", "numbers"]))
    if kind == "numbers":
        m = draw(st.integers(1, 3))
        number = st.integers(-4, 4) | st.floats(-100, 100, width=32)
        return learn_numbers(np.array(draw(st.lists(st.lists(number, min_size=m, max_size=m), min_size=n, max_size=n))))
    n_classes = draw(st.integers(1, 4))
    codes = draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))
    return learn_classes(np.array(codes), n_classes, kind)


@st.composite
def tree_settings(draw, *, most_rows=25, constrained=True):
    frame, schema = draw(tables(most_rows=most_rows))
    n = len(frame)
    weight = draw(st.none() | st.lists(st.integers(1, 5), min_size=n, max_size=n).map(np.array))
    return Setting(
        encode(frame, schema),
        draw_response(draw, n),
        draw(st.integers(1, 5)),
        draw(st.sampled_from(["subset", "one-vs-rest"])),
        draw(st.sampled_from([None, None, 0.0, 0.3, 0.7])),
        weight,
        draw(st.sampled_from(CONSTRAINTS)) if constrained else (None, None),
    )


limits = st.fixed_dictionaries(
    {
        "growth": st.sampled_from(GROWTHS),
        "most_leaves": st.none() | st.integers(1, 6),
        "most_depth": st.none() | st.integers(0, 3),
    }
)


def groups_of(labels):
    found = {}
    for row, label in enumerate(labels):
        found.setdefault(label, []).append(row)
    return [found[label] for label in sorted(found)]


@given(tree_settings(), limits)
def test_equals_the_naive_twin(setting, limits):
    expected = naive_tree.grow(setting.problem(), **{name: value for name, value in limits.items() if value is not None})
    assert groups_of(setting.labels(**limits)) == expected
