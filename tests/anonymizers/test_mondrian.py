"""Mondrian: equal to its naive twin, blind to row order and threads, and a scikit-learn estimator."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from naive import groups as naive
from releases import CONSTRAINTS, assert_kept
from shoal import Attribute, LDiversity, Mondrian, Schema, TCloseness
from shoal.data import frames
from shoal.data.table import encode
from shoal.errors import GuaranteeError
from tables import tables

FEWER = settings(max_examples=settings.default.max_examples // 3 + 1)


@parametrize_with_checks([Mondrian(k=2, recoding="representative"), Mondrian(k=1, recoding="mean")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@given(tables(), st.integers(1, 6), st.booleans(), st.booleans())
def test_equals_the_naive_twin(random_table, k, by_width, sets):
    frame, schema = random_table
    k = min(k, len(frame))
    anonymizer = Mondrian(schema, k, prefer="width" if by_width else "gain", recoding="set" if sets else "interval")
    labels = anonymizer.fit(frame).labels_
    expected = naive.mondrian(encode(frame, schema), k, by_width=by_width, sets=sets)
    assert sorted(np.flatnonzero(labels == g).tolist() for g in range(labels.max() + 1)) == sorted(expected)


@given(tables(least_rows=2), st.integers(1, 5), st.randoms(use_true_random=False))
def test_permuting_rows_permutes_the_result(random_table, k, random):
    frame, schema = random_table
    k = min(k, len(frame))
    order = list(range(len(frame)))
    random.shuffle(order)
    plain = Mondrian(schema, k).fit_transform(frame)
    assert Mondrian(schema, k).fit_transform(frame[order]).equals(plain[order])


@given(tables(least_rows=2, n_sensitive=1), st.integers(1, 5), st.randoms(use_true_random=False))
def test_relaxed_cuts_do_not_depend_on_the_order_of_rows(random_table, k, random):
    """Rows that are equal in all that Mondrian sees may swap groups, so released rows are compared as a multiset."""
    frame, schema = random_table
    k = min(k, len(frame))
    order = list(range(len(frame)))
    random.shuffle(order)
    columns = [a.name for a in schema.quasi]

    def released(table):
        return sorted(map(repr, Mondrian(schema, k, mode="relaxed").fit_transform(table).select(columns).rows()))

    assert released(frame[order]) == released(frame)


@given(tables(least_rows=2), st.integers(1, 5), st.integers(2, 4))
def test_threads_do_not_change_the_result(random_table, k, n_threads):
    frame, schema = random_table
    table = encode(frame, schema)
    anonymizer = Mondrian(schema, min(k, len(frame)))
    one = anonymizer.fit(frame)
    expected, cuts = one.labels_, one._cuts
    # The threshold is there for speed alone; without it small tables take the parallel path too.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "ROWS_WORTH_A_THREAD", 1)
        several = Mondrian(schema, min(k, len(frame)), n_jobs=n_threads).fit(frame)
    assert np.array_equal(several.labels_, expected)
    assert len(several._cuts.attribute) == len(cuts.attribute)
    assert np.array_equal(several._place(table.codes.astype(np.int64)), expected)


@given(tables(), st.integers(1, 5))
def test_transform_of_the_fitted_rows_gives_the_release(random_table, k):
    frame, schema = random_table
    anonymizer = Mondrian(schema, min(k, len(frame)))
    assert anonymizer.fit_transform(frame).equals(anonymizer.transform(frame))


@FEWER
@given(
    tables(least_rows=2),
    st.integers(1, 6),
    st.sampled_from(["strict", "relaxed"]),
    st.sampled_from(["interval", "set", "median"]),
    st.sampled_from(CONSTRAINTS),
    st.floats(0.2, 0.8),
)
def test_promises_hold_on_rows_that_were_not_fitted(random_table, k, mode, recoding, constraints, part):
    """The others may have values, or lack some, that the fitted rows do not; fitted ones come out as before."""
    frame, schema = random_table
    n_fitted = max(1, int(part * len(frame)))
    fitted, others = frame[:n_fitted], frame[n_fitted:]
    k = min(k, len(fitted), len(others))
    anonymizer = Mondrian(schema, k, mode=mode, recoding=recoding, constraints=constraints)
    try:
        first = anonymizer.fit_transform(fitted)
        released = anonymizer.anonymize(others)
    except GuaranteeError as error:
        assert "cannot be reached" in str(error)
        return
    assert_kept(released, schema, k, constraints)
    assert_kept(anonymizer.anonymize(frame), schema, k, constraints)
    assert mode == "relaxed" or anonymizer.anonymize(fitted).equals(first)


def test_groups_of_a_relaxed_cut_are_halves():
    frame = pl.DataFrame({"age": [30] * 10 + [40]})
    strict = Mondrian(k=5).fit(frame)
    relaxed = Mondrian(k=5, mode="relaxed").fit(frame)
    assert np.bincount(strict.labels_).tolist() == [11]
    assert sorted(np.bincount(relaxed.labels_).tolist()) == [5, 6]


def test_weights_steer_which_attribute_stays_exact():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"a": random.integers(0, 100, 500), "b": random.integers(0, 100, 500)})
    losses = {}
    for weight in (0.1, 10.0):
        schema = Schema([Attribute("a", weight=weight), Attribute("b")])
        table, labels = encode(frame, schema), Mondrian(schema, 5).fit(frame).labels_
        losses[weight] = np.mean([np.ptp(table.codes[labels == g, 0].astype(int)) for g in range(labels.max() + 1)])
    assert losses[10.0] < losses[0.1] / 2


def test_unseen_numbers_go_to_their_nearest_neighbour_and_unseen_categories_are_refused():
    frame = pl.DataFrame({"age": [20, 21, 50, 51], "job": ["a", "a", "b", "b"]})
    anonymizer = Mondrian(k=2).fit(frame)
    placed = anonymizer.transform(pl.DataFrame({"age": [19, 60], "job": ["a", "b"]}))
    assert placed["age"].to_list() == ["[20, 21]", "[50, 51]"]
    with pytest.raises(ValueError, match=r"'job' has the value 'c', which did not occur"):
        anonymizer.transform(pl.DataFrame({"age": [19], "job": ["c"]}))


def test_many_distinct_values_in_small_groups():
    """Codes far apart are sorted, not counted; both ways must agree with the twin."""
    random = np.random.default_rng(1)
    frame = pl.DataFrame({"x": random.normal(size=300), "y": random.normal(size=300)})
    schema = Schema([Attribute("x"), Attribute("y")])
    labels = Mondrian(schema, 3).fit(frame).labels_
    expected = naive.mondrian(encode(frame, schema), 3)
    assert sorted(np.flatnonzero(labels == g).tolist() for g in range(labels.max() + 1)) == sorted(expected)


def test_works_in_a_pipeline_with_grid_search():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    model = make_pipeline(Mondrian(recoding="representative"), RandomForestClassifier(10, random_state=0))
    search = GridSearchCV(model, {"mondrian__k": [2, 20]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    assert clone(search.best_estimator_[0]).k in (2, 20)


def test_fitting_twice_is_fitting_once():
    frame = pl.DataFrame({"age": list(range(40))})
    anonymizer = Mondrian(k=4, constraints=[])
    first = anonymizer.fit(frame).labels_.copy()
    assert np.array_equal(anonymizer.fit(frame).labels_, first)


@pytest.mark.parametrize("mode", ["strict", "relaxed"])
def test_constraints_stop_cuts(mode):
    frame = pl.DataFrame({"age": list(range(40)), "sick": ["yes", "no", "no", "no"] * 10})
    schema = Schema([Attribute("age"), Attribute("sick", role="sensitive", kind="nominal")])
    for constraint in (LDiversity(2), TCloseness(0.1)):
        labels = Mondrian(schema, 2, mode=mode, constraints=[constraint]).fit(frame).labels_
        assert labels.max() > 0
        assert all(frame["sick"].gather(np.flatnonzero(labels == g)).n_unique() == 2 for g in range(labels.max() + 1))
