"""A table that is released in fragments keeps what the whole release would, and is the same if there is one."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from polars_engine import PolarsEngine
from promises import EXAMPLES
from shoal import (
    AccuracyGuided,
    Attribute,
    Flash,
    HilbertCurve,
    KAnonymity,
    KMap,
    LDiversity,
    Mondrian,
    RPlusTree,
    SaNGreeA,
    Schema,
    TCloseness,
    check,
)
from shoal.data import frames
from shoal.data.table import encode
from shoal.datasets import make_census
from shoal.engines.base import CoarseTree, SplitTest
from shoal.engines.fragments import _merge_small, fragment, merge_leaves
from shoal.engines.partial_release import PartialLoss, add_losses, as_numbers, from_numbers, release_fragment
from shoal.errors import GuaranteeError
from shoal.partition.losses import all_losses, sum_sizes
from shoal.partition.table_summary import TableSummary
from tables import tables

METHODS = {
    "mondrian": lambda schema, **how: Mondrian(schema, **how),
    "relaxed": lambda schema, **how: Mondrian(schema, mode="relaxed", **how),
    "hilbert": lambda schema, **how: HilbertCurve(schema, **how),
    "rplus": lambda schema, **how: RPlusTree(schema, **how),
    "sangreea": lambda schema, **how: SaNGreeA(schema, **how),
    "guided": lambda schema, **how: AccuracyGuided(schema, guide="hard", recoding="interval", **how),
}


@pytest.fixture(scope="module")
def census():
    return make_census(20_000, seed=3)


def released_in_parts(frame, method, rows, y=None):
    """The released rows, in the order of the table, and how it was cut."""
    engine = PolarsEngine(frame)
    cut = fragment(engine, method, rows, 0, y)
    number = engine.leaves(cut.tree, cut.fragment_of_leaf.tolist())
    assert np.bincount(number, minlength=len(cut.rows)).tolist() == cut.rows.tolist()
    parts = []
    for one in range(len(cut.rows)):
        rows_of = np.flatnonzero(number == one)
        if len(rows_of):
            released, _ = release_fragment(cut, frame[rows_of], one, y)
            parts.append(released.with_columns(place=pl.Series(rows_of)))
    texts = [part.with_columns(pl.col(one.name for one in method.schema.quasi).cast(pl.String)) for part in parts]
    return pl.concat(texts).sort("place").drop("place"), cut


@pytest.mark.parametrize("name", METHODS)
def test_one_fragment_is_what_the_local_class_releases(census, name):
    method = METHODS[name](census.schema, k=10)
    y = "income" if name == "guided" else None
    found, cut = released_in_parts(census.frame, method, 10**9, y)
    local = METHODS[name](census.schema, k=10).fit_transform(census.frame, None if y is None else census.frame[y])
    assert len(cut.rows) == 1
    assert found.equals(local.with_columns(pl.col(one.name for one in census.schema.quasi).cast(pl.String)))


def test_flash_recodes_parts_locally(census):
    names = ["age", "sex", "race"]
    frame, schema = census.frame[:2_000].select(names), Schema(census.schema[name] for name in names)
    found, _ = released_in_parts(frame, Flash(schema, k=5, mode="local"), 10**9)
    local = Flash(schema, k=5, mode="local").fit_transform(frame)
    assert found.equals(local.with_columns(pl.all().cast(pl.String)))


@pytest.mark.parametrize("name", METHODS)
def test_many_fragments_keep_k_and_lose_little_more(census, name):
    method = METHODS[name](census.schema, k=10)
    y = "income" if name == "guided" else None
    engine = PolarsEngine(census.frame)
    cut = fragment(engine, method, 4_000, 0, y)
    number = engine.leaves(cut.tree, cut.fragment_of_leaf.tolist())
    assert len(cut.rows) > 3
    labels, start = np.empty(len(number), np.int64), 0
    for one in range(len(cut.rows)):
        rows = np.flatnonzero(number == one)
        part = census.frame[rows]
        made = clone(cut.method)
        made.release_rows(part, None if y is None else part[y], summary=cut.summary)
        labels[rows] = made.labels_ + start
        start += made.labels_.max() + 1
    assert np.bincount(labels).min() >= 10
    table = encode(census.frame, census.schema)
    local = METHODS[name](census.schema, k=10).fit(census.frame, None if y is None else census.frame[y])
    # One curve passes through all fragments: only the runs at their ends are others.
    most = 1.01 if name == "hilbert" else 1.06
    assert all_losses(table, labels).ncp < most * all_losses(table, local.labels_).ncp


@settings(max_examples=EXAMPLES // 8 + 1, deadline=None)
@given(
    tables(least_rows=4, most_rows=60),
    st.sampled_from(["mondrian", "hilbert", "sangreea"]),
    st.integers(2, 4),
    st.data(),
)
def test_k_and_diversity_hold_on_all_fragments_together(table, name, k, data):
    frame, schema = table
    constraints = data.draw(st.sampled_from([(), (LDiversity(2),), (TCloseness(0.5),)]))
    method = METHODS[name](schema, k=k, constraints=constraints)
    asked = [KAnonymity(k), *constraints]
    try:
        found, cut = released_in_parts(frame, method, data.draw(st.integers(2, 30)))
    except GuaranteeError:
        with pytest.raises(GuaranteeError):
            METHODS[name](schema, k=k, constraints=constraints).fit(frame)
        return
    assert found.height == frame.height
    assert cut.rows.sum() == frame.height
    assert check(found, schema, asked).holds
    assert found["note"].equals(frame["note"])


def test_rows_that_are_alike_and_many_are_a_fragment_of_their_own():
    ages = [40] * 9_000 + list(range(20, 70)) * 20
    frame = pl.DataFrame({"age": ages, "town": ["Graz"] * 9_000 + ["Linz", "Wels"] * 500})
    schema = Schema([Attribute("age"), Attribute("town", kind="nominal")])
    method = Mondrian(schema, k=5)
    cut = fragment(PolarsEngine(frame), method, 500, 0)
    assert cut.tree.frequent == [{"age": 40, "town": "Graz"}]
    assert cut.rows[-1] == 9_000
    assert cut.rows[:-1].max() < 1_500


def test_rows_that_are_alike_go_with_others_if_they_break_a_constraint():
    frame = pl.DataFrame({"age": [40] * 3_000 + list(range(20, 70)) * 20, "sick": ["no"] * 3_000 + ["no", "yes"] * 500})
    schema = Schema([Attribute("age"), Attribute("sick", "sensitive", "nominal")])
    cut = fragment(PolarsEngine(frame), Mondrian(schema, k=5, constraints=[LDiversity(2)]), 500, 0)
    assert not cut.tree.frequent
    assert cut.rows.sum() == frame.height


def ages_in_four_leaves(*rows):
    """So many rows of the ages 1 to 4, each in a leaf of its own: ((1, 2), (3, 4))."""
    engine = PolarsEngine(pl.DataFrame({"age": [age for age, n in enumerate(rows, 1) for _ in range(n)]}))
    summary = TableSummary.of(Schema([Attribute("age")]), engine.extremes(["age"]), sum(rows))
    tests = [SplitTest("age", high=2), SplitTest("age", high=1), None, None, SplitTest("age", high=3), None, None]
    tree = CoarseTree(tests, [1, 2, 0, 0, 5, 0, 0], [4, 3, 0, 1, 6, 2, 3])
    return tree, engine.tally(tree, [], None), summary


def test_leaves_that_fall_short_are_merged_with_the_nearest():
    merged = merge_leaves(*ages_in_four_leaves(2, 9, 9, 9), [KAnonymity(5)])
    # The leaf of two rows goes with the 2, not with all others.
    assert merged.fragment.tolist() == [0, 0, 1, 2]
    assert merged.rows.tolist() == [11, 9, 9]


def test_small_leaves_are_merged():
    leaves = ages_in_four_leaves(9, 2, 3, 9)
    assert merge_leaves(*leaves, [KAnonymity(1)]).rows.tolist() == [9, 2, 3, 9]
    assert merge_leaves(*leaves, [KAnonymity(1)], 3).rows.tolist() == [9, 5, 9]
    assert merge_leaves(*leaves, [KAnonymity(1)], 6).rows.tolist() == [14, 9]


def test_many_small_leaves_do_not_become_a_large_one():
    random = np.random.default_rng(0)
    for _ in range(50):
        rows = np.where(random.random(60) < 0.7, random.integers(1, 25, 60), random.integers(25, 100, 60))
        merged = np.bincount(_merge_small(rows, 25), rows)
        assert merged.sum() == rows.sum()
        assert merged.min() >= 25
        assert merged.max() < 150


@pytest.mark.parametrize("rows", [500, 1_000, 3_000])
def test_fragments_along_the_curve_are_neither_small_nor_large(census, rows):
    cut = fragment(PolarsEngine(census.frame), HilbertCurve(census.schema, k=10), rows, 0)
    assert cut.rows.sum() == census.frame.height
    assert rows / 4 <= cut.rows.min()
    assert cut.rows.max() < 2 * rows


def test_fragments_along_the_curve_are_not_large_beside_a_number_far_beyond_all_others():
    draw = np.random.default_rng(0)
    frame = pl.DataFrame({name: [*draw.integers(0, 10_000, 4_000), 10**9] for name in "abcd"})
    method = HilbertCurve(Schema([Attribute(name) for name in "abcd"]), k=5)
    released, cut = released_in_parts(frame, method, 500)
    assert cut.rows.max() < 1_000
    assert check(released, method.schema, [KAnonymity(5)]).holds

    def width(texts):
        ends = [list(map(int, text.strip("[]").split(", "))) for text in texts]
        return np.median([one[-1] - one[0] for one in ends])

    local = clone(method).fit_transform(frame)
    assert width(released["a"]) < 1.3 * width(local["a"].cast(pl.String))


class InOrder(PolarsEngine):
    """Its samples are in the order of the table, as those of Spark and DuckDB are."""

    def sample(self, n_rows, seed):
        return frames.open_frame(self.frame.gather_every(-(-self.frame.height // n_rows)))


def test_a_table_in_order_is_cut_as_evenly_as_any_other(monkeypatch):
    monkeypatch.setattr("shoal.engines.fragments.MOST_GROUPED", 500)
    frame = pl.DataFrame({"age": sorted(np.random.default_rng(0).integers(0, 10_000, 8_000))})
    cut = fragment(InOrder(frame), SaNGreeA(Schema([Attribute("age")]), k=3), 1_000, 0)
    assert cut.rows.max() < 2_000


def test_k_may_be_larger_than_what_is_looked_at(monkeypatch):
    monkeypatch.setattr("shoal.engines.fragments.MOST_GROUPED", 50)
    frame = pl.DataFrame({"age": list(range(100)) * 10})
    released, _ = released_in_parts(frame, SaNGreeA(Schema([Attribute("age")]), k=60), 500)
    assert released.group_by("age").len()["len"].min() >= 60


def test_fragments_without_anybody_to_release_go_with_others():
    frame = pl.DataFrame({"age": list(range(20, 80)) * 20, "in": [age < 30 for age in range(20, 80)] * 20})
    schema = Schema([Attribute("age"), Attribute("in", "other", "nominal")])
    released, cut = released_in_parts(frame, Mondrian(schema, k=5, constraints=[KMap(20, "in")]), 150)
    assert len(cut.rows) > 1
    assert check(released, schema, [KMap(20, "in")]).holds


def test_secrets_of_people_who_are_not_released_may_be_anything():
    sick = ["flu", None, "none", "flu", "cold", None] * 100
    frame = pl.DataFrame({"age": list(range(60)) * 10, "sick": sick, "in": [one is not None for one in sick]})
    schema = Schema([Attribute("age"), Attribute("sick", "sensitive", "nominal"), Attribute("in", "other", "nominal")])
    asked = [KMap(8, "in"), LDiversity(2)]
    released, cut = released_in_parts(frame, Mondrian(schema, k=4, constraints=asked), 150)
    assert len(cut.rows) > 1
    assert check(released, schema, [KAnonymity(4), *asked]).holds


def test_what_the_whole_table_cannot_keep_is_refused(census):
    with pytest.raises(GuaranteeError, match="cannot be reached"):
        fragment(PolarsEngine(census.frame), Mondrian(census.schema, k=5, constraints=[LDiversity(99)]), 1_000, 0)


def test_names_are_numbered_and_ranges_judged_by_the_whole_table(census):
    engine = PolarsEngine(census.frame)
    method = Mondrian(census.schema, k=10)
    cut = fragment(engine, method, 10**9, 0)
    part = cut.summary.encode(frames.open_frame(census.frame[:50]), census.schema)
    full = encode(census.frame, census.schema)
    for one, other in zip(part.quasi, full.quasi, strict=True):
        assert one.width == other.width
        if one.tree is not None:
            assert list(one.values) == list(other.values)


def test_cuts_between_groups_tear_few_of_them():
    # Towns are never mixed in a group, ages always are: only a cut between towns tears none.
    draw = np.random.default_rng(0)
    frame = pl.DataFrame({"age": draw.integers(20, 80, 4_000), "town": draw.choice(["Graz", "Wels", "Linz"], 4_000)})
    schema = Schema([Attribute("age", weight=0.01), Attribute("town", kind="nominal", weight=10.0)])
    engine = PolarsEngine(frame)
    cut = fragment(engine, SaNGreeA(schema, k=5), 1_800, 0)
    assert {test.attribute for test in cut.tree.tests if test is not None} == {"town"}
    assert len(cut.rows) == 3
    assert sorted(cut.rows.tolist()) == sorted(frame["town"].value_counts()["count"].to_list())


def test_losses_are_the_same_as_sums_of_numbers():
    """Spark adds up the numbers of parts while rows pass."""
    frame, schema = make_census(300)
    names, parts = [one.name for one in schema.quasi], []
    for start, stop, k in ((0, 100, 10), (100, 180, 8), (180, 300, 30)):
        table, labels = encode(frame[start:stop], schema), np.arange(stop - start) // k
        labels[:5] = -1 if start else labels[:5]
        sizes = sum_sizes(np.bincount(labels[labels >= 0]), int((labels < 0).sum()))
        parts.append(PartialLoss(sizes, all_losses(table, labels, is_part=True)))
    summed = from_numbers(np.sum([as_numbers(part) for part in parts], axis=0).tolist(), names)
    expected = add_losses(parts)
    assert summed.sizes.n_rows == 300
    for found in (summed.loss, add_losses([summed])):
        assert found.values == pytest.approx(expected.values, nan_ok=True)
        assert found.by_attribute == pytest.approx(expected.by_attribute)
    assert expected.discernibility == sum(part.loss.discernibility for part in parts) + 5 * (220 + 180)
