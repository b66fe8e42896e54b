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

from naive import privacy as naive_privacy
from naive import tree as naive_tree
from shoal import AlphaKAnonymity, Attribute, LDiversity, Schema, TCloseness
from shoal._kernels.tree_data import BEST_FIRST, BREADTH_FIRST, DEPTH_FIRST
from shoal.data.table import encode, take_rows
from shoal.datasets import make_census
from shoal.partition.binned_trees import (
    bin_codes,
    grow_tree,
    learn_classes,
    learn_numbers,
    make_bins,
    make_likeness,
    place_rows,
)
from shoal.privacy.rules import make_guard
from tables import tables

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "toolkit_groups.json").read_text())
FEWER = settings(max_examples=settings.default.max_examples // 3 + 1)
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
    """A table, what is learned of it, and what every leaf must keep."""

    def __init__(self, table, response, smallest, nominal="subset", blend=None, weight=None, constraint=(None, None)):
        self.table, self.response, self.smallest = table, response, smallest
        self.binning = make_bins(table.quasi, nominal)
        self.likeness = None if blend is None else make_likeness(self.binning, table.quasi, response, blend)
        self.weight = weight
        self.constraint, self.fulfilled = constraint

    def grow(self, order=None, **options):
        """Cuts, and the leaf of each row; ``order`` lays the rows otherwise before."""
        order = np.arange(self.table.n_rows) if order is None else np.array(order)
        table = take_rows(self.table, order)
        response = self.response._replace(guide=self.response.guide[order])
        guard = None if self.constraint is None else make_guard([self.constraint], table)
        options |= {"guard": guard, "likeness": self.likeness}
        options |= {"weight": None if self.weight is None else self.weight[order]}
        return grow_tree(self.binning, self.bins()[order], response, self.smallest, **options)

    def labels(self, **options):
        return self.grow(**options)[1]

    def bins(self):
        return bin_codes(self.binning, [column.codes for column in self.table.quasi])

    def problem(self):
        """The same for the twin."""
        values = self.table.sensitive[0].codes.tolist() if self.table.sensitive else []

        def holds(rows):
            return self.fulfilled([values[row] for row in rows], values)

        asks = None if self.constraint is None else holds
        return naive_tree.make_problem(
            self.binning, self.bins(), self.response, self.smallest, self.weight, self.likeness, asks
        )


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
        "growth": st.sampled_from([DEPTH_FIRST, BREADTH_FIRST, BEST_FIRST]),
        "most_leaves": st.none() | st.integers(1, 6),
        "most_depth": st.none() | st.integers(0, 3),
    }
)


def groups_of(labels):
    """Rows of each leaf, from left to right."""
    return [np.flatnonzero(labels == leaf).tolist() for leaf in range(labels.max() + 1)]


@given(tree_settings(), limits)
def test_equals_the_naive_twin(setting, limits):
    expected = naive_tree.grow(
        setting.problem(), **{name: limit for name, limit in limits.items() if limit is not None}
    )
    assert groups_of(setting.labels(**limits)) == expected


@pytest.mark.parametrize("blend", [None, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_nodes_of_many_rows_equal_the_naive_twin(seed, blend):
    """Small nodes list the bins that occur one by one, large ones walk through all of them."""
    random = np.random.default_rng(seed)
    table = make_census(180, seed=seed)
    table = encode(table.frame, table.schema)
    response = (
        learn_numbers(random.normal(size=(180, 2))) if seed else learn_classes(random.integers(0, 3, 180), 3, "gini")
    )
    setting = Setting(table, response, 8, ["subset", "one-vs-rest"][seed % 2], blend)
    assert groups_of(setting.labels()) == naive_tree.grow(setting.problem())


@FEWER
@given(tree_settings(), st.randoms(use_true_random=False), limits)
def test_permuting_rows_permutes_the_leaves(setting, random, limits):
    order = list(range(setting.table.n_rows))
    random.shuffle(order)
    assert np.array_equal(setting.labels(order=order, **limits), setting.labels(**limits)[order])


@FEWER
@given(tree_settings(), st.integers(2, 4))
def test_threads_and_order_of_growth_do_not_change_the_tree(setting, n_threads):
    cuts, labels = setting.grow()
    several, in_threads = setting.grow(n_threads=n_threads)
    assert np.array_equal(in_threads, labels)
    assert len(several.attribute) == len(cuts.attribute)
    assert np.array_equal(place_rows(several, setting.bins()), labels)
    for growth in (BREADTH_FIRST, BEST_FIRST):
        assert np.array_equal(setting.labels(growth=growth), labels)


@FEWER
@given(tree_settings(), limits)
def test_leaves_keep_size_limits_and_constraint_and_find_their_rows_again(setting, limits):
    cuts, labels = setting.grow(**limits)
    n_leaves = labels.max() + 1
    assert np.array_equal(place_rows(cuts, setting.bins()), labels)
    assert n_leaves <= (limits["most_leaves"] or np.inf)
    assert depth(cuts) <= (np.inf if limits["most_depth"] is None else limits["most_depth"])
    assert n_leaves == 1 or np.bincount(labels).min() >= setting.smallest
    holds = setting.problem().holds
    assert holds is None or n_leaves == 1 or all(map(holds, groups_of(labels)))


def depth(cuts):
    """Cuts above the deepest leaf; parents come before their children."""
    found = np.zeros(len(cuts.attribute), int)
    for node in np.flatnonzero(cuts.attribute >= 0):
        found[[cuts.left[node], cuts.right[node]]] = found[node] + 1
    return found.max()


def simple_setting(columns, response, smallest=1, nominal="subset"):
    """A setting of columns alone: numbers are ordered, texts are nominal."""
    frame = pl.DataFrame(columns)
    kinds = ["nominal" if dtype == pl.String else "numeric" for dtype in frame.dtypes]
    schema = Schema(Attribute(name, kind=kind) for name, kind in zip(frame.columns, kinds, strict=True))
    return Setting(encode(frame, schema), response, smallest, nominal)


def test_few_leaves_are_the_ones_that_gain_most_or_the_upper_ones():
    """Left of 4 little is gained; right of it far more, and most of that at 6."""
    setting = simple_setting({"x": list(range(8))}, learn_numbers(np.array([0, 0, 1, 1, 50, 50, 90, 92])))
    assert groups_of(setting.labels(growth=BEST_FIRST, most_leaves=4)) == [[0, 1, 2, 3], [4, 5], [6], [7]]
    assert groups_of(setting.labels(growth=BREADTH_FIRST, most_leaves=4)) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups_of(setting.labels(growth=BREADTH_FIRST, most_leaves=3)) == [[0, 1], [2, 3], [4, 5, 6, 7]]
    assert groups_of(setting.labels(most_depth=2)) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_missing_numbers_go_to_the_side_that_is_like_them():
    for like_missing, expected in ((0, [[0, 1, 4, 5], [2, 3]]), (1, [[0, 1], [2, 3, 4, 5]])):
        classes = np.array([0, 0, 1, 1, like_missing, like_missing])
        setting = simple_setting({"x": [1, 2, 8, 9, None, None]}, learn_classes(classes, 2, "gini"), 2)
        assert groups_of(setting.labels()) == expected


def test_subsets_find_what_single_values_do_not():
    """Two values of each class: one cut by subsets, but three against one by single values."""
    classes = np.array([0, 1, 0, 1] * 3)
    columns = {"x": list("abcd") * 3}
    subset = simple_setting(columns, learn_classes(classes, 2, "gini"), 3).labels(most_leaves=2)
    single = simple_setting(columns, learn_classes(classes, 2, "gini"), 3, "one-vs-rest").labels(most_leaves=2)
    assert np.bincount(subset).tolist() == [6, 6]
    assert sorted(np.bincount(single).tolist()) == [3, 9]


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_the_names_of_classes_do_not_matter_in_a_blend(criterion):
    random = np.random.default_rng(0)
    x = {name: random.normal(size=120).round(2) for name in "abc"}
    classes = np.digitize(x["a"] + x["b"], [-0.5, 0.5, 1.5])
    table = simple_setting(x, learn_classes(classes, 4, criterion)).table
    found = [
        Setting(table, learn_classes(np.array(names)[classes], 4, criterion), 8, blend=0.5)
        for names in ([0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0])
    ]
    assert len({tuple(setting.labels()) for setting in found}) == 1
    assert found[0].labels().max() > 3


def test_rows_that_weigh_next_to_nothing_are_placed_like_others():
    weight = np.array([1e-9] * 6 + [1.0] * 5 + [0.5])
    columns = {"x": list("aabbccddeeff"), "z": list(range(12))}
    table = simple_setting(columns, learn_classes(np.array([0, 1] * 6), 2, "gini")).table
    for blend in (None, 0.5):
        response = learn_classes(np.array([0, 1] * 6), 2, "gini")
        assert np.bincount(Setting(table, response, 2, blend=blend, weight=weight).labels()).min() >= 2


def test_nothing_is_cut_where_nothing_is_left_to_learn():
    constant = learn_numbers(np.full((9, 2), 7.5))
    setting = simple_setting({"x": list(range(9))}, constant)
    assert setting.labels().max() == 0
    assert Setting(setting.table, constant, 1, blend=0.5).labels().max() == 8


def test_values_that_a_node_lacks_go_to_the_nearer_or_the_larger_part():
    """Of the rows with a = 0 some have x = 0 and more x = 7, so others with a = 0 go where x is nearer."""
    a, x = [0] * 7 + [1] * 8, [0, 0, 0, 7, 7, 7, 7, *range(8)]
    colour = ["red"] * 3 + ["blue"] * 4 + ["green"] * 8
    guide = learn_numbers(np.array([0] * 3 + [1] * 4 + [100] * 8))
    setting = simple_setting({"a": a, "x": x}, guide, 3)
    cuts, labels = setting.grow()
    others = setting.bins()[7:].copy()
    others[:, 0] = 0
    assert place_rows(cuts, others).tolist() == [labels[0]] * 4 + [labels[3]] * 4
    setting = simple_setting({"a": a, "colour": colour}, guide, 3)
    cuts, labels = setting.grow()
    others = setting.bins()[7:8].copy()
    others[:, 0] = 0
    assert place_rows(cuts, others).tolist() == [labels[3]]


def test_a_number_stays_with_numbers_where_a_node_parts_them_from_missing_ones():
    a, x = [0] * 8 + [1] * 10, [0, 0, 0, 0, None, None, None, None, *range(10)]
    setting = simple_setting({"a": a, "x": x}, learn_numbers(np.array([0] * 4 + [1] * 4 + [100] * 10)), 4)
    cuts, labels = setting.grow()
    others = setting.bins()[8:].copy()
    others[:, 0] = 0
    assert place_rows(cuts, others).tolist() == [labels[0]] * 10


def test_many_numbers_are_binned_in_runs_of_as_many_rows():
    random = np.random.default_rng(0)
    x = np.where(random.random(5000) < 0.2, 3.5, random.normal(size=5000))
    setting = simple_setting({"x": [*x, *[None] * 50]}, learn_numbers(np.append(np.sin(5 * x), [3.0] * 50)), 20)
    bins = setting.bins()[:, 0]
    assert bins.max() == setting.binning.attributes.missing[0] <= 255
    assert np.count_nonzero(bins == bins.max()) == 50
    # Neighbouring values share a bin, a value is in one bin, and no bin but that of 3.5 has much more than its share.
    by_value = bins[:5000][np.argsort(x, kind="stable")].astype(int)
    assert np.isin(np.diff(by_value), [0, 1]).all()
    assert len(np.unique(bins[:5000][x == 3.5])) == 1
    assert np.sort(np.bincount(by_value))[-2] <= 2 * 5000 / 255
    labels = setting.labels()
    assert labels.max() > 50
    assert np.bincount(labels).min() >= 20


@pytest.mark.parametrize("nominal", ["subset", "one-vs-rest"])
def test_the_rarest_of_many_names_share_a_bin(nominal):
    names = [f"n{i}" for i in range(400) for _ in range(1 + (400 - i) // 50)]
    response = learn_classes(np.arange(len(names)) % 7 % 2, 2, "gini")
    setting = simple_setting({"x": names}, response, 5, nominal)
    bins = setting.bins()[:, 0]
    shared = Counter(name for name, b in zip(names, bins, strict=True) if b == 255)
    alone = Counter(name for name, b in zip(names, bins, strict=True) if b < 255)
    assert (len(alone), len(shared)) == (255, 145)
    assert max(shared.values()) <= min(alone.values())
    cuts, labels = setting.grow()
    assert labels.max() > 0
    assert np.bincount(labels).min() >= 5
    assert np.array_equal(place_rows(cuts, setting.bins()), labels)


def one_hot(frame, nominal):
    """Columns as a tree of scikit-learn takes them."""
    parts = [
        frame[[n]].to_numpy() == np.unique(frame[n]) if n in nominal else frame[[n]].to_numpy() for n in frame.columns
    ]
    return np.hstack(parts).astype(float)


def impurity(labels, classes):
    """Gini impurity of all leaves, each weighted by its rows."""
    leaves = [classes[labels == leaf] for leaf in np.unique(labels)]
    return sum(len(leaf) - (np.bincount(leaf) ** 2).sum() / len(leaf) for leaf in leaves)


@pytest.mark.parametrize("k", [5, 20, 100])
def test_leaves_are_as_pure_as_those_of_scikit_learn(k):
    """The two trees differ in ties only: all columns have few enough values for a bin each."""
    census = make_census(3000, seed=k)
    schema = Schema(attribute for attribute in census.schema.quasi if attribute.name != "postal-code")
    frame, nominal = census.frame.select(schema.names), [a.name for a in schema if a.kind == "nominal"]
    classes = np.unique(census.frame["income"], return_inverse=True)[1]
    x = one_hot(frame, nominal)
    theirs = DecisionTreeClassifier(min_samples_leaf=k, random_state=0).fit(x, classes).apply(x)
    ours = Setting(encode(frame, schema), learn_classes(classes, 2, "gini"), k, "one-vs-rest").labels()
    assert impurity(ours, classes) == pytest.approx(impurity(theirs, classes), rel=0.01)


@pytest.mark.parametrize("name", GOLDEN)
def test_leaves_are_those_of_scikit_learn_where_no_tie_decides(name):
    case = GOLDEN[name]
    frame, classes = pl.DataFrame(case["columns"]).select(case["quasi"]), np.array(case["labels"])
    x = one_hot(frame, case["nominal"])
    theirs = DecisionTreeClassifier(min_samples_leaf=case["k"], random_state=0).fit(x, classes).apply(x)
    ours = simple_setting(frame, learn_classes(classes, classes.max() + 1, "gini"), case["k"], "one-vs-rest").labels()
    assert len(set(zip(ours.tolist(), theirs.tolist(), strict=True))) == len(set(theirs)) == ours.max() + 1
