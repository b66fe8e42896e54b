"""The R+ tree: equal to its naive twin in bulk, and kept right while rows come and go."""

import datetime as dt
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sklearn.utils.estimator_checks import parametrize_with_checks

from naive import rplus as naive_rplus
from promises import EXAMPLES
from releases import CONSTRAINTS, assert_kept, covers, labels_of
from shoal import (
    Attribute,
    DeltaDisclosure,
    Hierarchy,
    KMap,
    LDiversity,
    Recipe,
    RPlusTree,
    Schema,
    TCloseness,
    anonymize,
    check,
)
from shoal.data import frames
from shoal.data.table import encode
from shoal.errors import DataError, GuaranteeError, HierarchyError, SchemaError, ShoalError
from shoal.partition.recoding import build_groups, recode
from tables import tables

FEWER = settings(max_examples=settings.default.max_examples // 3 + 1)


@parametrize_with_checks([RPlusTree(k=2, recoding="representative"), RPlusTree(k=1, recoding="mean")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Bulk load


def groups_of(labels):
    return sorted(np.flatnonzero(labels == g).tolist() for g in np.unique(labels[labels >= 0]))


@given(tables(), st.integers(1, 6), st.booleans())
def test_equals_the_naive_twin(random_table, k, sets):
    frame, schema = random_table
    k = min(k, len(frame))
    labels = RPlusTree(schema, k, recoding="set" if sets else "interval").fit(frame).labels_
    table = encode(frame, schema)
    assert groups_of(labels) == sorted(naive_rplus.rplus(table, k, sets=sets))
    assert naive_rplus.boxes_are_disjoint(table, groups_of(labels), sets=sets)


def test_equals_the_naive_twin_on_larger_parts():
    """More than so many full groups: only the attribute that is cut counts there. And many names, and many numbers."""
    random = np.random.default_rng(0)
    n = 160
    names = [f"n{i}" for i in range(300)]
    frame = pl.DataFrame(
        {
            "x": random.normal(size=n),
            "y": random.integers(0, 30, n),
            "z": random.choice(names, n),
            "t": random.choice(names, n),
        }
    )
    tree = Hierarchy.from_dict({f"g{i}": names[10 * i : 10 * i + 10] for i in range(30)})
    schema = Schema(
        [Attribute("x"), Attribute("y"), Attribute("z", kind="nominal"), Attribute("t", kind="nominal", hierarchy=tree)]
    )
    labels = RPlusTree(schema, 2).fit(frame).labels_
    assert groups_of(labels) == sorted(naive_rplus.rplus(encode(frame, schema), 2))


def test_leaves_are_packed():
    """Where no values tie, as many groups come out as rows allow; a cut in halves would leave groups of 8 and 9."""
    ages = pl.DataFrame({"age": list(range(17))})
    assert sorted(np.bincount(RPlusTree(k=5).fit(ages).labels_)) == [5, 5, 7]
    random = np.random.default_rng(0)
    points = pl.DataFrame({"x": random.random(1003), "y": random.random(1003)})
    assert RPlusTree(k=10).fit(points).labels_.max() + 1 == 100


@given(tables(least_rows=2), st.integers(1, 5), st.integers(2, 4), st.randoms(use_true_random=False))
def test_neither_threads_nor_the_order_of_rows_matter(random_table, k, n_threads, random):
    frame, schema = random_table
    k = min(k, len(frame))
    one = RPlusTree(schema, k).fit(frame)
    order = list(range(len(frame)))
    random.shuffle(order)
    assert RPlusTree(schema, k).fit_transform(frame[order]).equals(one.transform(frame)[order])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "ROWS_WORTH_A_THREAD", 1)
        several = RPlusTree(schema, k, n_jobs=n_threads).fit(frame)
    assert np.array_equal(several.labels_, one.labels_)
    assert several.transform(frame).equals(one.transform(frame))


@FEWER
@given(tables(least_rows=2), st.integers(1, 6), st.sampled_from(CONSTRAINTS), st.floats(0.2, 0.8))
def test_promises_hold_on_rows_that_were_not_fitted(random_table, k, constraints, part):
    frame, schema = random_table
    n_fitted = max(1, int(part * len(frame)))
    k = min(k, n_fitted, len(frame) - n_fitted)
    anonymizer = RPlusTree(schema, max(k, 1), constraints=constraints)
    try:
        first = anonymizer.fit_transform(frame[:n_fitted])
        released = anonymizer.anonymize(frame[n_fitted:]) if n_fitted < len(frame) else first
    except GuaranteeError as error:
        assert "cannot be reached" in str(error)
        return
    assert_kept(released, schema, max(k, 1), constraints)
    assert anonymizer.anonymize(frame[:n_fitted]).equals(first)


def test_numbers_that_floats_cannot_tell_apart_stay_together():
    frame = pl.DataFrame({"age": [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3] * 2})
    tree = RPlusTree(k=1).fit(frame)
    released = tree.release()["age"].to_list()
    assert released[0] == released[1] == f"[{2**53}, {2**53 + 1}]"
    assert tree.transform(frame)["age"].to_list() == released


# Rows that come and go


class ComingAndGoing(RuleBasedStateMachine):
    """Insert and delete rows of a random table, and see after each batch that all that is promised holds."""

    @initialize(
        random_table=tables(least_rows=6, most_rows=60),
        k=st.integers(1, 5),
        constraints=st.sampled_from(CONSTRAINTS),
        recoding=st.sampled_from(["interval", "interval", "set", "representative", "median"]),
        n_fitted=st.integers(3, 30),
    )
    def fit(self, random_table, k, constraints, recoding, n_fitted):
        self.source, self.schema = random_table
        n_fitted = min(n_fitted, len(self.source))
        self.k, self.constraints = min(k, n_fitted), constraints
        self.tree = RPlusTree(self.schema, self.k, constraints=constraints, recoding=recoding)
        self.rows = {i: i for i in range(n_fitted)}
        self.next = n_fitted
        try:
            self.tree.fit(self.source[:n_fitted])
        except GuaranteeError:
            self.constraints = ()
            self.tree.set_params(constraints=()).fit(self.source[:n_fitted])

    @rule(data=st.data(), size=st.integers(1, 12))
    def insert(self, data, size):
        chosen = data.draw(st.lists(st.integers(0, len(self.source) - 1), min_size=size, max_size=size))
        after = self.rows | {self.next + i: row for i, row in enumerate(chosen)}
        if self.try_change(lambda: self.tree.insert(self.source[chosen]), after):
            self.next += len(chosen)

    @rule(data=st.data(), as_mask=st.booleans())
    def delete(self, data, as_mask):
        ids = sorted(self.rows)
        gone = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=12, unique=True))
        named = np.isin(ids, gone) if as_mask else gone
        self.try_change(lambda: self.tree.delete(named), {i: row for i, row in self.rows.items() if i not in gone})

    @rule()
    def keep_in_a_file(self):
        before = self.snapshot()
        self.tree = pickle.loads(pickle.dumps(self.tree))
        assert_same(self.snapshot(), before)

    def try_change(self, call, rows_after):
        before = self.snapshot()
        try:
            delta = call()
        except GuaranteeError as error:
            assert "rows would be left" in str(error) or "cannot be reached" in str(error) or "alike" in str(error)
            assert_same(self.snapshot(), before)
            return False
        self.rows = rows_after
        assert_delta(delta, before, self.snapshot())
        return True

    def snapshot(self):
        labels = dict(zip(self.tree.row_ids_.tolist(), self.tree.labels_.tolist(), strict=True))
        names = [a.name for a in self.schema.quasi]
        values = dict(zip(labels, texts(self.tree.release().select(names)), strict=True))
        return labels, values

    @invariant()
    def what_is_promised_holds(self):
        tree, schema = self.tree, self.schema
        frame = self.source[list(self.rows.values())]
        released, labels = tree.release(), tree.labels_
        assert tree.row_ids_.tolist() == list(self.rows)
        assert released["note"].equals(frame["note"])
        assert "person" not in released.columns
        assert_kept(released, schema, self.k, self.constraints)
        assert np.bincount(labels)[np.unique(labels)].min() >= self.k
        table = encode(frame, schema)
        assert naive_rplus.boxes_are_disjoint(table, groups_of(labels), sets=tree.recoding == "set")
        # The box of every row is that of its group, and what groups are released as is what their rows say.
        assert texts(tree.transform(frame)) == texts(released)
        groups = frames.open_frame(tree.groups_).to_native()[labels.tolist()]
        assert texts(groups) == texts(released.select(groups.columns))
        if tree.recoding in ("interval", "set"):
            for column in table.quasi:
                for code, shown in zip(column.codes.tolist(), released[column.name].to_list(), strict=True):
                    assert covers(column, shown, code, sets=tree.recoding == "set")
            self.assert_tight(table, frame, released, labels)

    def assert_tight(self, table, frame, released, labels):
        """Released values are those that a fresh start would give these groups; names that are gone make a set '*'."""
        dense = np.unique(labels, return_inverse=True)[1]
        fresh = build_groups(frames.open_frame(frame), recode(table, dense, self.tree.recoding)).to_native()
        for column in table.quasi:
            shown, expected = released[column.name].to_list(), fresh[column.name].gather(dense).to_list()
            sets = column.attribute.kind == "nominal"
            for one, two in zip(shown, expected, strict=True):
                assert text(one) == text(two) or (sets and "*" in (one, two))


def text(value):
    """A value as text, the same whether it stands there as a number or as the text of one."""
    try:
        return None if value is None else repr(float(value))
    except (ValueError, TypeError):
        return str(value)


def texts(frame):
    """Rows as the text that is written: a column of numbers becomes text when the first range appears in it."""
    return [tuple(text(value) for value in row) for row in frame.rows()]


def assert_same(after, before):
    assert after == before


def assert_delta(delta, before, after):
    """The delta says what differs, and no more; groups that took no part are as they were."""
    old_labels, old_values = before
    labels, values = after
    assert sorted(set(labels) - set(old_labels)) == delta.inserted.tolist()
    assert sorted(set(old_labels) - set(labels)) == delta.deleted.tolist()
    changed = [i for i in labels if i in old_labels and values[i] != old_values[i]]
    assert delta.changed.tolist() == sorted(changed)
    part = set(delta.groups_changed.tolist()) | set(delta.groups_removed.tolist())
    for i, group in old_labels.items():
        if group not in part:
            assert labels[i] == group
            assert values[i] == old_values[i]
    added = set(delta.groups_added.tolist())
    assert added == set(labels.values()) - set(old_labels.values()) - set(delta.groups_changed.tolist())
    assert not set(delta.groups_removed.tolist()) & set(labels.values())
    names = [name for name in delta.before.columns if name.startswith("q")]
    for frame, expected in ((delta.before, old_values), (delta.after, values)):
        assert texts(frame.select(names)) == [expected[i] for i in frame["row"].to_list()]
    assert delta.before["row"].to_list() == sorted([*delta.deleted, *delta.changed])
    assert sorted(delta.after["row"].to_list()) == sorted([*delta.inserted, *delta.changed])


TestComingAndGoing = ComingAndGoing.TestCase
TestComingAndGoing.settings = settings(max_examples=EXAMPLES // 10 + 1, stateful_step_count=12, deadline=None)


def random_people(n, seed):
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "x": random.normal(size=n).round(3),
            "y": random.integers(0, 500, n),
            "z": random.exponential(size=n).round(3),
            "s": random.integers(0, 5, n).astype(str),
        }
    )


PEOPLE = Schema([Attribute("x"), Attribute("y"), Attribute("z"), Attribute("s", "sensitive", "nominal")])


@pytest.mark.parametrize("constraints", [(), (LDiversity(3),)])
def test_a_hundred_thousand_rows_come_and_go(constraints):
    """Ten batches, each of 5,000 rows in and 5,000 out: k, disjoint boxes and untouched groups after each half."""
    k, n = 10, 20_000
    random = np.random.default_rng(1)
    tree = RPlusTree(PEOPLE, k, constraints=constraints).fit(random_people(n, 0))
    for batch in range(10):
        for change in ("insert", "delete"):
            ids, labels, groups = tree.row_ids_, tree.labels_, tree.groups_
            if change == "insert":
                delta = tree.insert(random_people(5_000, 10 + batch))
            else:
                delta = tree.delete(random.choice(ids, 5_000, replace=False))
            assert_batch(tree, delta, ids, labels, groups, k, constraints, random)
    assert len(tree.labels_) == n
    assert check(tree.release(), PEOPLE, constraints).level("k") >= k
    # Between cuts and merges groups hold from k to 2k rows; a fresh start packs them tighter, but not by much.
    fresh = anonymize(tree_source(tree), PEOPLE, k, method="rplus", constraints=constraints)
    assert len(np.unique(tree.labels_)) > 0.7 * fresh.checked.groups


def tree_source(tree):
    return tree._kept.rows.take(tree._kept.places).to_native()


def assert_batch(tree, delta, old_ids, old_labels, old_groups, k, constraints, random):
    labels, groups = tree.labels_, tree.groups_
    sizes = np.bincount(labels)
    assert sizes[sizes > 0].min() >= k
    frame = tree_source(tree)
    for constraint in constraints:
        distinct = frame.with_columns(g=labels).group_by("g").agg(pl.col("s").n_unique())["s"]
        assert distinct.min() >= constraint.l
    # Groups that took no part have the same rows, the same number and the same released values.
    part = np.concatenate([delta.groups_changed, delta.groups_removed])
    stayed = ~np.isin(old_labels, part)
    assert np.array_equal(labels[np.searchsorted(tree.row_ids_, old_ids[stayed])], old_labels[stayed])
    untouched = np.unique(old_labels[stayed])
    assert groups[untouched].equals(old_groups[untouched])
    assert np.array_equal(np.bincount(old_labels)[untouched], sizes[untouched])
    assert_disjoint(frame, labels, random)
    assert tree.transform(frame).equals(tree.release())


def assert_disjoint(frame, labels, random):
    boxes = (
        frame.with_columns(g=labels)
        .group_by("g", maintain_order=True)
        .agg([pl.col(c).min().alias(f"{c}_low") for c in "xyz"] + [pl.col(c).max().alias(f"{c}_high") for c in "xyz"])
    )
    low, high = (
        boxes.select("x_low", "y_low", "z_low").to_numpy(),
        boxes.select("x_high", "y_high", "z_high").to_numpy(),
    )
    for g in random.choice(len(low), min(300, len(low)), replace=False):
        apart = ((low[g] > high) | (high[g] < low)).any(axis=1)
        assert np.flatnonzero(~apart).tolist() == [g]


# What may come


TOWNS = Hierarchy.from_dict({"Styria": ["Graz", "Leoben"], "Tyrol": {"East": ["Lienz"], "Kufstein": None}}, name="town")
MIXED = Schema(
    [
        Attribute("age"),
        Attribute("town", kind="nominal", hierarchy=TOWNS),
        Attribute("job", kind="nominal"),
        Attribute("grade", kind="ordinal"),
        Attribute("sick", "sensitive", "nominal"),
        Attribute("name", "identifier", "nominal"),
    ]
)


def mixed(n, seed, jobs="abc", grades=("1", "2", "10"), ages=(20, 60)):
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": random.integers(*ages, n),
            "town": random.choice(["Graz", "Leoben", "Lienz", "Kufstein"], n),
            "job": random.choice(list(jobs), n),
            "grade": random.choice(list(grades), n),
            "sick": random.choice(["yes", "no", "unsure"], n),
            "name": [f"person {i}" for i in range(n)],
        }
    )


def test_new_numbers_names_ranks_and_missing_values_find_their_places():
    tree = RPlusTree(MIXED, 4).fit(mixed(60, 0))
    before, labels = tree.release(), tree.labels_.copy()
    strangers = mixed(40, 1, jobs="cdefg", grades=("3", "0.5", "11"), ages=(0, 100)).with_columns(
        age=pl.when(pl.int_range(40) < 8).then(None).otherwise(pl.col("age")),
        town=pl.when(pl.int_range(40) < 6).then(None).otherwise(pl.col("town")),
        job=pl.when(pl.int_range(40) > 33).then(None).otherwise(pl.col("job")),
        grade=pl.when(pl.int_range(40) > 31).then(None).otherwise(pl.col("grade")),
    )
    delta = tree.insert(strangers)
    everyone = pl.concat([mixed(60, 0), strangers])
    released = tree.release()
    assert check(released, MIXED).level("k") >= 4
    assert tree.transform(everyone).equals(released)
    table = encode(everyone, MIXED)
    for column in table.quasi:
        for code, shown in zip(column.codes.tolist(), released[column.name].to_list(), strict=True):
            assert covers(column, shown, code, sets=False), (column.name, column.values[code], shown)
    stayed = ~np.isin(labels, np.concatenate([delta.groups_changed, delta.groups_removed]))
    assert stayed.any()
    assert texts(released[:60].filter(stayed)) == texts(before.filter(stayed))


@pytest.mark.parametrize(
    ("strangers", "error", "message"),
    [
        ({"town": "Wien"}, HierarchyError, "'town' holds the value 'Wien'"),
        ({"grade": "high"}, SchemaError, "the place of 'high' in its order is unknown"),
        ({"age": 30.5}, DataError, "'age' is of type Float64 here, and of type Int64"),
        ({"age": dt.date(2020, 1, 1)}, DataError, "'age' is of type Date here"),
    ],
)
def test_rows_that_cannot_come_change_nothing(strangers, error, message):
    tree = RPlusTree(MIXED, 4, constraints=[LDiversity(2)]).fit(mixed(60, 0))
    tree.delete([3, 17])
    before = tree.release(), tree.labels_, tree.row_ids_, tree.groups_
    rows = mixed(10, 1).with_columns(**{name: pl.lit(value) for name, value in strangers.items()})
    with pytest.raises(error, match=message) as caught:
        tree.insert(rows)
    assert "\n" not in str(caught.value)
    after = tree.release(), tree.labels_, tree.row_ids_, tree.groups_
    assert before[0].equals(after[0])
    assert before[3].equals(after[3])
    assert np.array_equal(before[1], after[1])
    assert np.array_equal(before[2], after[2])
    assert tree.insert(mixed(10, 1)).inserted.tolist() == list(range(60, 70))


def test_what_a_recipe_has_built_stays():
    schema = Schema([Attribute("zip", kind="nominal", hierarchy=Recipe("prefix"))])
    zips = pl.DataFrame({"zip": ["8010", "8011", "8020", "9020", "9021", None] * 4})
    tree = RPlusTree(schema, 4).fit(zips)
    tree.insert(pl.DataFrame({"zip": ["8010"] * 3 + [None]}))
    assert tree.release()["zip"].to_list()[-4:] == ["8010"] * 3 + [None]
    with pytest.raises(HierarchyError, match="'zip' holds the value '8012'"):
        tree.insert(pl.DataFrame({"zip": ["8012"]}))


def test_missing_values_can_be_refused():
    tree = RPlusTree(k=2, missing="error").fit(pl.DataFrame({"age": [1, 2, 3, 4]}))
    with pytest.raises(DataError, match="'age' has 1 missing value"):
        tree.insert(pl.DataFrame({"age": [None, 3]}, schema={"age": pl.Int64}))


def test_fewer_than_k_rows_cannot_be_left():
    tree = RPlusTree(k=3).fit(pl.DataFrame({"age": [1, 2, 3, 4, 5, 6]}))
    with pytest.raises(GuaranteeError, match="Only 2 rows would be left, but k=3"):
        tree.delete([0, 1, 2, 3])
    assert tree.row_ids_.tolist() == [0, 1, 2, 3, 4, 5]
    tree.delete([0, 1, 5])
    assert tree.release()["age"].to_list() == ["[3, 5]"] * 3
    with pytest.raises(GuaranteeError, match="Only 2 rows would be left"):
        tree.delete(np.array([True, False, False]))


def test_a_constraint_that_no_group_can_keep_is_named():
    frame = pl.DataFrame({"age": [1, 2, 3, 4, 5], "sick": ["yes", "no", "no", "no", "no"]})
    schema = Schema([Attribute("age"), Attribute("sick", "sensitive", "nominal")])
    tree = RPlusTree(schema, 2, constraints=[LDiversity(2)]).fit(frame)
    with pytest.raises(GuaranteeError, match=r"2-diversity .* cannot be reached"):
        tree.delete([0])
    assert len(tree.release()) == 5


@pytest.mark.parametrize("rows", [[7], [-1], ["0"], [0.5], [True, False]])
def test_rows_that_are_not_there_are_named(rows):
    tree = RPlusTree(k=1).fit(pl.DataFrame({"age": [1, 2, 3]}))
    refused = r"There is no row|whole numbers from row_ids_|The mask has 2 entries for 3 rows"
    with pytest.raises(DataError, match=refused):
        tree.delete(rows)
    tree.delete([1])
    with pytest.raises(DataError, match="There is no row 1: it was already deleted"):
        tree.delete([0, 1])


def test_what_cannot_be_changed_says_so():
    frame = pl.DataFrame({"age": [0, 1] * 5 + [50, 50] + [100, 101] * 5 + [150, 150]})
    tree = RPlusTree(Schema([Attribute("age")]), 3, suppression=0.2).fit(frame)
    assert tree.release()["age"].to_list().count("*") == 4
    with pytest.raises(ShoalError, match=r"only without suppression, but suppression=0\.2"):
        tree.delete([0])
    majority = RPlusTree(Schema([Attribute("age")]), 3, recoding="majority").fit(frame, y=[0, 1] * 12)
    with pytest.raises(ShoalError, match="give the schema a target"):
        majority.insert(frame)


@pytest.mark.parametrize(
    "recoding", ["interval", "set", "representative", "medoid", "centroid", "median", "mean", "sample"]
)
def test_every_recoding_keeps_k(recoding):
    frame = mixed(80, 0).with_columns(target=pl.lit("a"))
    schema = Schema([*MIXED, Attribute("target", "target", "nominal")])
    tree = RPlusTree(schema, 4, recoding=recoding, random_state=0).fit(frame, y=labels_of(frame.rename({"sick": "s0"})))
    tree.insert(mixed(30, 1).with_columns(target=pl.lit("b")))
    tree.delete(np.arange(0, 60, 2))
    assert len(tree.release()) == 80
    assert check(tree.release(), schema).level("k") >= 4


def test_populations_release_their_members_only():
    random = np.random.default_rng(0)

    def people(n):
        return pl.DataFrame({"age": random.integers(20, 60, n), "in_study": random.random(n) < 0.3})

    schema = Schema([Attribute("age"), Attribute("in_study", "other", "nominal")])
    tree = RPlusTree(schema, 2, constraints=[KMap(15, "in_study")]).fit(people(300))
    for _ in range(3):
        delta = tree.insert(people(50))
        assert "in_study" not in delta.after.columns
        tree.delete(random.choice(tree.row_ids_, 60, replace=False))
        frame = tree_source(tree)
        sizes = np.bincount(tree.labels_)
        members = np.bincount(tree.labels_, weights=frame["in_study"].to_numpy())
        assert sizes[members > 0].min() >= 15
        assert members[members > 0].min() >= 2
        assert len(tree.release()) == frame["in_study"].sum()
        assert tree.release().columns == ["age"]


def test_groups_no_row_left_follow_the_distribution_of_the_table():
    """With t-closeness a row that comes anywhere can concern every group; they are all counted again."""
    random = np.random.default_rng(0)

    def people(n, share):
        return pl.DataFrame({"age": random.integers(0, 400, n), "sick": random.random(n) < share})

    schema = Schema([Attribute("age"), Attribute("sick", "sensitive", "nominal")])
    for constraint in (TCloseness(0.2), DeltaDisclosure(0.9, count_absent=True)):
        tree = RPlusTree(schema, 5, constraints=[constraint]).fit(people(400, 0.5))
        for share in (0.9, 0.1, 0.9):
            try:
                tree.insert(people(150, share))
            except GuaranteeError as error:
                assert "alike" in str(error)
            assert check(tree.release(), schema, [constraint]).holds


@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame, pa.table])
def test_libraries_agree(library, tmp_path):
    def frame(rows):
        return library(rows.to_dict(as_series=False))

    tree = RPlusTree(MIXED, 3).fit(frame(mixed(50, 0)))
    plain = RPlusTree(MIXED, 3).fit(mixed(50, 0))
    for change in (lambda t, f: t.insert(f(mixed(20, 1))), lambda t, f: t.delete(np.arange(5, 40, 3))):
        delta, expected = change(tree, frame), change(plain, lambda rows: rows)
        assert np.array_equal(tree.labels_, plain.labels_)
        assert type(delta.frame) is type(frame(mixed(1, 0)))
        assert texts(pl.DataFrame(frames.convert(delta.frame, "polars"))) == texts(expected.frame)
        delta.to_csv(tmp_path / "delta.csv")
        delta.to_parquet(tmp_path / "delta.parquet")
        assert pl.read_parquet(tmp_path / "delta.parquet")["change"].to_list() == expected.frame["change"].to_list()
        assert len(pl.read_csv(tmp_path / "delta.csv")) == len(expected.frame)


def test_a_release_is_brought_up_to_date_by_deltas_alone():
    tree = RPlusTree(MIXED, 3).fit(mixed(50, 0))
    copy = dict(zip(tree.row_ids_.tolist(), tree.release().rows(), strict=True))
    for change in (lambda: tree.insert(mixed(20, 1)), lambda: tree.delete(tree.row_ids_[::4]), lambda: tree.delete([])):
        for mark, row, *values in change().frame.rows():
            if mark == "out":
                assert copy.pop(row) == tuple(values)
            else:
                copy[row] = tuple(values)
    assert [copy[row] for row in tree.row_ids_.tolist()] == tree.release().rows()


def test_arrays_come_and_go():
    random = np.random.default_rng(0)
    X = np.asfortranarray(random.normal(size=(40, 2)))
    tree = RPlusTree(k=3, recoding="mean").fit(X)
    X[:] = 0
    assert len(np.unique(tree.release()["x0"])) > 5
    tree.insert(random.normal(size=(10, 2)))
    tree.delete(np.arange(30))
    assert len(tree.labels_) == 20
    assert np.bincount(tree.labels_)[np.unique(tree.labels_)].min() >= 3


def test_fitting_again_starts_anew():
    frame = mixed(60, 0)
    tree = RPlusTree(MIXED, 4).fit(frame)
    first = tree.release()
    tree.delete(np.arange(30))
    assert tree.fit(frame).release().equals(first)
    assert tree.row_ids_.tolist() == list(range(60))


def test_one_row_that_leaves_a_large_table_moves_few():
    """The sibling of a lonely group is half the table: its rows find their places there, and nothing else moves."""
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"x": np.append(random.random(4000), [90, 91, 92, 93.0]), "y": random.random(4004)})
    tree = RPlusTree(Schema([Attribute("x"), Attribute("y")]), 4).fit(frame)
    lonely = tree.labels_[-1]
    delta = tree.delete([4003])
    assert lonely in [*delta.groups_removed, *delta.groups_changed]
    assert len(delta.changed) < 60
    assert check(tree.release(), Schema([Attribute("x"), Attribute("y")])).level("k") >= 4
