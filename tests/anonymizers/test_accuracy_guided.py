"""AccuracyGuided: keeps its promises on the rows it fitted and on others, takes any guide, and is an estimator."""

import datetime as dt
import json
import pickle
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info

from releases import CONSTRAINTS, RECODINGS, assert_kept
from shoal import AccuracyGuided, Attribute, LDiversity, Mondrian, Schema, TCloseness, check
from shoal.anonymizers.accuracy_guided import CANDIDATES, MORE_CANDIDATES, MORE_RECODINGS, RECODINGS_TRIED, SAFE_CHOICE
from shoal.data import frames
from shoal.datasets import fetch_nursery, make_census
from shoal.errors import GuaranteeError, ShoalError
from shoal.models import make_model
from tables import tables

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "toolkit_groups.json").read_text())
GUIDES = ["hard", "soft", 0.3, 0.0, 1.0, "mondrian", "auto"]
FEWER = settings(max_examples=settings.default.max_examples // 3 + 1)


@parametrize_with_checks([AccuracyGuided(k=2, guide="hard")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# What is promised, on random tables: tables of fewer than 200 rows are guided by their labels.


def draw_labels(draw, n):
    """What may be known of the rows: classes, probabilities of one class or of three, or numbers."""
    kind = draw(st.sampled_from(["classes", "classes", "probability", "probabilities", "numbers"]))
    if kind == "classes":
        return np.array(draw(st.lists(st.sampled_from(["no", "maybe", "yes"]), min_size=n, max_size=n)))
    if kind == "numbers":
        return np.array(draw(st.lists(st.floats(-50, 50, width=32), min_size=n, max_size=n)))
    chances = np.array(draw(st.lists(st.floats(0, 1, width=32), min_size=n, max_size=n)))
    return chances if kind == "probability" else np.column_stack([chances, (1 - chances) / 4, (1 - chances) * 0.75])


@st.composite
def labelled_tables(draw, **options):
    frame, schema = draw(tables(most_rows=30, **options))
    return frame, schema, draw_labels(draw, len(frame))


@given(
    labelled_tables(least_rows=2),
    st.integers(1, 6),
    st.sampled_from(GUIDES),
    st.sampled_from(CONSTRAINTS),
    st.sampled_from(RECODINGS),
    st.sampled_from(["subset", "one-vs-rest"]),
    st.sampled_from([0.0, 0.0, 0.3]),
    st.floats(0.2, 0.8),
)
def test_promises_hold_on_fitted_rows_and_on_others(table, k, guide, constraints, recoding, nominal, suppression, part):
    """The others may have values, or lack some, that the fitted rows do not."""
    frame, schema, y = table
    n_fitted = max(1, int(part * len(frame)))
    fitted, others = frame[:n_fitted], frame[n_fitted:]
    k = min(k, len(fitted), len(others))
    options = {"constraints": constraints, "recoding": recoding, "suppression": suppression, "random_state": 0}
    anonymizer = AccuracyGuided(schema, k, guide=guide, nominal=nominal, **options)
    try:
        assert_kept(anonymizer.fit_transform(fitted, y[:n_fitted]), schema, k, constraints)
        released = anonymizer.anonymize(others, y[n_fitted:])
    except GuaranteeError as error:
        assert "cannot be reached" in str(error)
        return
    assert_kept(released, schema, k, constraints)
    assert released.columns == [name for name in frame.columns if name != "person"]
    for name in ("s0", "note"):
        assert released[name].equals(others[name])


@FEWER
@given(
    labelled_tables(),
    st.integers(1, 5),
    st.sampled_from(GUIDES),
    st.sampled_from(RECODINGS),
    st.sampled_from([(), (LDiversity(2),), (TCloseness(0.5),)]),
)
def test_fitted_rows_come_out_the_same_whichever_way(table, k, guide, recoding, constraints):
    frame, schema, y = table
    anonymizer = AccuracyGuided(
        schema, min(k, len(frame)), guide=guide, recoding=recoding, constraints=constraints, random_state=0
    )
    try:
        released = anonymizer.fit_transform(frame, y)
    except GuaranteeError as error:
        assert "cannot be reached" in str(error)
        return
    labels = anonymizer.release_others(frame, y).labels
    assert np.array_equal(labels, anonymizer.labels_)
    assert anonymizer.anonymize(frame, y).equals(released)
    assert anonymizer.transform(frame).equals(released)


@FEWER
@given(
    labelled_tables(least_rows=2),
    st.integers(1, 5),
    st.sampled_from(GUIDES),
    st.integers(2, 4),
    st.randoms(use_true_random=False),
)
def test_neither_the_order_of_rows_nor_threads_matter(table, k, guide, n_threads, random):
    frame, schema, y = table
    k = min(k, len(frame))
    order = list(range(len(frame)))
    random.shuffle(order)
    plain = AccuracyGuided(schema, k, guide=guide).fit(frame, y)
    # The threshold is there for speed alone; without it small tables take the parallel path too.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "ROWS_WORTH_A_THREAD", 1)
        several = AccuracyGuided(schema, k, guide=guide, n_jobs=n_threads).fit(frame, y)
    assert np.array_equal(several.labels_, plain.labels_)
    moved = AccuracyGuided(schema, k, guide=guide).fit(frame[order], y[order])
    # Means of the guide are sums of floats, whose last digit the order of rows decides.
    if y.ndim == 1 and y.dtype.kind != "f":
        assert moved.transform(frame).equals(plain.transform(frame))


def test_without_anything_to_learn_groups_are_alike_or_medians():
    """A guide that counts nothing needs no labels."""
    census = make_census(300)
    frame, schema = census.frame.drop("income"), Schema(a for a in census.schema if a.name != "income")
    mondrian = AccuracyGuided(schema, 10, guide="mondrian").fit(frame)
    assert np.array_equal(mondrian.labels_, Mondrian(schema, 10).fit(frame).labels_)
    for guide in (0, 0.0):
        assert AccuracyGuided(schema, 10, guide=guide).fit(frame).labels_.max() > 10


# The toolkit of the paper: the same groups, and the same released values where no tie decides.


@pytest.mark.parametrize("name", GOLDEN)
def test_groups_and_values_are_those_of_the_toolkit(name):
    case = GOLDEN[name]
    frame = pl.DataFrame(case["columns"])
    schema = Schema(
        Attribute(n, "quasi" if n in case["quasi"] else "other", "nominal" if n in case["nominal"] else "numeric")
        for n in frame.columns
    )
    anonymizer = AccuracyGuided(schema, case["k"], guide="hard", nominal="one-vs-rest", recoding="median")
    released = anonymizer.fit_transform(frame, case["labels"])
    groups = np.array(case["groups"])
    assert len(set(zip(anonymizer.labels_, groups, strict=True))) == len(set(groups)) == anonymizer.labels_.max() + 1
    compared = 0
    for group, values in enumerate(case["released"]):
        for column, theirs in zip(case["quasi"], values, strict=True):
            ours = released[column].filter(groups == group).unique().to_list()
            if is_decided(frame[column].filter(groups == group).to_list(), column in case["nominal"]):
                assert ours == [theirs]
                compared += 1
    assert compared > len(case["released"])


def is_decided(values, nominal):
    """Whether one value alone is the most frequent, or the median."""
    if nominal:
        counts = sorted((values.count(value) for value in set(values)), reverse=True)
        return len(counts) == 1 or counts[0] > counts[1]
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] == ordered[len(ordered) // 2]


# Guides: models and predictions of every kind.


def numbers(n=300):
    """Numbers, and what depends on two of them."""
    random = np.random.default_rng(0)
    frame = pl.DataFrame({name: random.random(n).round(2) for name in "abcdef"})
    return frame, 3 * frame["a"].to_numpy() + 3 * frame["b"].to_numpy() - 3 + random.normal(0, 0.2, n)


FRAME, SCORE = numbers()
BINARY = (SCORE > 0).astype(int)
THREE = np.array(["low", "mid", "top"])[np.digitize(SCORE, [-0.7, 0.7])]


class BlackBox:
    """Something that answers and nothing else; it remembers what it was shown."""

    def __init__(self, **answers):
        self.seen = []
        for name, answer in answers.items():
            setattr(self, name, self._answer(answer))

    def _answer(self, answer):
        def say(X):
            self.seen.append(X)
            return answer(3 * np.asarray(X, float)[:, :2].sum(axis=1) - 3)

        return say


def chances(score):
    return 1 / (1 + np.exp(-3 * score))


MODELS = {
    "untrained": DecisionTreeClassifier(max_depth=4),
    "trained": DecisionTreeClassifier(max_depth=4).fit(FRAME.to_pandas(), BINARY),
    "scores of two classes": LinearSVC(),
    "classes only": NearestCentroid(),
    "pipeline": make_model("logistic", Schema(map(Attribute, "abcdef")), task="classification"),
    "black box that predicts": BlackBox(predict=lambda s: np.where(s > 0, "yes", "no")),
    "black box with probabilities": BlackBox(
        predict=lambda s: s > 0, predict_proba=lambda s: np.column_stack([1 - chances(s), chances(s)])
    ),
    "black box with one probability": BlackBox(predict=lambda s: s > 0, predict_proba=chances),
    "black box with scores": BlackBox(predict=lambda s: s > 0, decision_function=lambda s: s),
    "black box with scores of three classes": BlackBox(
        predict=lambda s: s > 0, decision_function=lambda s: np.column_stack([-s, 0.5 - np.abs(s), s])
    ),
}


def purity(labels, classes):
    """Share of the rows that have the most frequent class of their group."""
    return sum(np.bincount(classes[labels == g]).max() for g in range(labels.max() + 1)) / len(labels)


@pytest.mark.parametrize("guide", ["hard", "soft", 0.6])
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_guides(name, guide):
    """Four of six columns say nothing, so that groups by attributes alone mix the classes."""
    anonymizer = AccuracyGuided(k=15, model=MODELS[name], guide=guide, second_opinion=False).fit(FRAME, BINARY)
    assert np.bincount(anonymizer.labels_).min() >= 15
    assert purity(anonymizer.labels_, BINARY) > purity(Mondrian(k=15).fit(FRAME).labels_, BINARY) + 0.05
    assert anonymizer.guide_ == (1.0 if guide == "soft" else guide)
    assert anonymizer.search_ == []


@pytest.mark.parametrize("guide", ["hard", "soft", 0.6])
@pytest.mark.parametrize(
    "model", [LogisticRegression(), LinearSVC(), NearestCentroid(), RandomForestClassifier(5, max_depth=4)]
)
def test_three_classes_guide(model, guide):
    anonymizer = AccuracyGuided(k=15, model=model, guide=guide, second_opinion=False).fit(FRAME, THREE)
    codes = np.unique(THREE, return_inverse=True)[1]
    assert purity(anonymizer.labels_, codes) > purity(Mondrian(k=15).fit(FRAME).labels_, codes) + 0.05


@pytest.mark.parametrize("guide", ["hard", "soft", 0.6])
@pytest.mark.parametrize("model", [RandomForestRegressor(5, max_depth=4), DecisionTreeRegressor(max_depth=4)])
def test_numbers_guide(model, guide):
    """The target of the schema is a number, so it is regressed."""
    frame, schema = FRAME.with_columns(score=SCORE), Schema([*map(Attribute, "abcdef"), Attribute("score", "target")])
    labels = AccuracyGuided(schema, 15, model=model, guide=guide, second_opinion=False).fit(frame).labels_
    assert unexplained(labels) < 0.7 * unexplained(Mondrian(schema, 15).fit(frame).labels_)


def unexplained(labels):
    """Squared error of the means of groups."""
    return sum(SCORE[labels == g].var() * np.count_nonzero(labels == g) for g in range(labels.max() + 1))


def test_without_a_model_one_stands_in():
    """Labels alone say less than what a model makes of them; either way the choice is a blend."""
    by_class = AccuracyGuided(k=15).fit(FRAME, THREE)
    assert by_class.guide_ == SAFE_CHOICE
    codes = np.unique(THREE, return_inverse=True)[1]
    plain = Mondrian(k=15).fit(FRAME).labels_
    assert purity(by_class.labels_, codes) > purity(plain, codes) + 0.05
    schema = Schema([*map(Attribute, "abcdef"), Attribute("score", "target")])
    by_number = AccuracyGuided(schema, 15).fit(FRAME.with_columns(score=SCORE))
    assert by_number.guide_ == SAFE_CHOICE
    assert unexplained(by_number.labels_) < 0.8 * unexplained(plain)


@pytest.mark.parametrize("model", [BlackBox(predict=lambda s: s > 0, predict_proba=chances), MODELS["trained"]])
def test_where_nothing_can_be_tried_the_choice_is_safe(model):
    """A black box cannot be retrained, and without labels no model can."""
    anonymizer = AccuracyGuided(k=15, model=model).fit(FRAME)
    assert anonymizer.guide_ == SAFE_CHOICE
    assert anonymizer.search_ == []


def test_predictions_guide_as_a_model_does():
    """Classes, probabilities and the chance of one class, given as y, are what the black boxes say."""
    score = 3 * FRAME.to_numpy()[:, :2].sum(axis=1) - 3
    for y, guide, model in (
        (np.where(score > 0, "yes", "no"), "hard", "black box that predicts"),
        (np.column_stack([1 - chances(score), chances(score)]), "soft", "black box with probabilities"),
        (chances(score), 0.7, "black box with one probability"),
    ):
        given = AccuracyGuided(k=10, guide=guide).fit(FRAME, y)
        asked = AccuracyGuided(k=10, guide=guide, model=MODELS[model]).fit(FRAME)
        assert np.array_equal(given.labels_, asked.labels_)
        assert given.guide_ == asked.guide_


def test_labels_may_come_from_any_library():
    texts = np.where(BINARY == 1, "yes", "no")
    expected = AccuracyGuided(k=10, guide="hard").fit(FRAME, texts).labels_
    for y in (
        texts.tolist(),
        texts.astype(object),
        BINARY,
        BINARY.astype(bool),
        BINARY.astype(float),
        BINARY.reshape(-1, 1),
        pd.Series(texts, dtype="category"),
        pl.Series(texts),
        pl.Series(texts).to_arrow(),
        pl.DataFrame({"y": texts}),
        pd.DataFrame({"y": BINARY}),
    ):
        assert np.array_equal(AccuracyGuided(k=10, guide="hard").fit(FRAME, y).labels_, expected)


@pytest.mark.parametrize("guide", ["soft", "auto"])
def test_tables_may_come_from_any_library(guide):
    expected = AccuracyGuided(k=10, guide=guide, model=MODELS["untrained"]).fit(FRAME, BINARY).labels_
    for X in (FRAME.to_pandas(), FRAME.to_arrow(), FRAME.to_numpy()):
        anonymizer = AccuracyGuided(k=10, guide=guide, model=MODELS["untrained"])
        released = anonymizer.fit_transform(X, BINARY)
        assert np.array_equal(anonymizer.labels_, expected)
        assert type(released) is type(X)
        assert type(anonymizer.anonymize(X, BINARY)) is type(X)


def mixed(n=260):
    """Texts, truths, dates and numbers, some of each missing, a target and two columns that no model may see."""
    random = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "age": random.integers(18, 90, n),
            "job": random.choice(["cook", "clerk", "smith"], n),
            "member": random.random(n) < 0.5,
            "since": [dt.date(2020, 1, 1) + dt.timedelta(int(days)) for days in random.integers(0, 900, n)],
            "name": [f"person {i}" for i in range(n)],
            "note": [f"note {i % 7}" for i in range(n)],
        }
    )
    holes = [
        pl.when(pl.Series(random.random(n) < 0.1)).then(None).otherwise(pl.col(name)).alias(name)
        for name in ("age", "job", "member", "since")
    ]
    frame = frame.with_columns(holes).with_columns(sick=pl.Series(np.where(random.random(n) < 0.4, "yes", "no")))
    schema = Schema(
        [
            Attribute("age"),
            Attribute("job", kind="nominal"),
            Attribute("member", kind="nominal"),
            Attribute("since"),
            Attribute("name", "identifier", "nominal"),
            Attribute("note", "other", "nominal"),
            Attribute("sick", "target", "nominal"),
        ]
    )
    return frame, schema


@pytest.mark.parametrize("guide", ["hard", 0.5, "auto"])
@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
def test_texts_truths_dates_and_missing_values(kind, guide):
    frame, schema = mixed()
    native = {"polars": frame, "pandas": frame.to_pandas(), "pyarrow": frame.to_arrow()}[kind]
    released = AccuracyGuided(schema, 12, guide=guide, model=make_model("tree", schema)).fit_transform(native)
    assert check(released, schema).level("k") >= 12
    released = frames.open_frame(released)
    assert released.columns == [name for name in frame.columns if name != "name"]
    assert released["note"].to_list() == frame["note"].to_list()
    assert released["sick"].to_list() == frame["sick"].to_list()


def test_arrays_of_texts_are_guided_without_a_model():
    random = np.random.default_rng(0)
    X = random.choice(["red", "green", "blue"], (240, 3))
    y = (X[:, 0] == "red") ^ (random.random(240) < 0.1)
    for guide in ("hard", "soft"):
        released = AccuracyGuided(k=10, guide=guide).fit_transform(X, y)
        assert released.shape == X.shape
        assert len(set(map(tuple, released))) > 2


class Spy(ClassifierMixin, BaseEstimator):
    """A classifier that remembers the columns it was shown, in all of its copies."""

    shown: list = []

    def fit(self, X, y):
        Spy.shown.append(list(X.columns))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        Spy.shown.append(list(X.columns))
        return self.classes_[np.arange(len(X)) % len(self.classes_)]


@pytest.mark.parametrize("guide", ["hard", "soft", "auto"])
def test_a_model_sees_neither_target_nor_identifiers(guide):
    frame, schema = mixed()
    Spy.shown.clear()
    AccuracyGuided(schema, 12, guide=guide, model=Spy()).fit(frame)
    assert Spy.shown
    assert {tuple(columns) for columns in Spy.shown} == {("age", "job", "member", "since", "note")}


def test_a_model_sees_the_columns_that_it_knows_in_its_order():
    box = BlackBox(predict=lambda s: s > 0)
    box.feature_names_in_ = ["b", "a"]
    AccuracyGuided(k=10, guide="hard", model=box).fit(FRAME)
    assert [X.columns for X in box.seen] == [["b", "a"]]


def test_real_data_of_many_classes(data_folder):
    nursery = fetch_nursery()
    frame = nursery.frame[:: max(len(nursery.frame) // 1500, 1)]
    model = make_model("tree", nursery.schema)
    for guide in ("hard", "soft", "auto"):
        anonymizer = AccuracyGuided(nursery.schema, 10, guide=guide, model=model, random_state=0)
        released = anonymizer.fit_transform(frame)
        assert check(released, nursery.schema).level("k") >= 10
        assert len(np.unique(anonymizer.labels_)) > 20


# The search.


def test_the_search_takes_the_best_release_of_all_rows():
    """Three finalists are released in three ways each; all guides, and more, where groups are few and large."""
    model = DecisionTreeClassifier(max_depth=4)
    one = AccuracyGuided(k=5, model=model, random_state=3, n_jobs=1).fit(FRAME, BINARY)
    finalists, others = one.search_[:9], one.search_[9:]
    assert Counter(tried.recoding for tried in finalists) == dict.fromkeys(RECODINGS_TRIED, 3)
    assert {tried.guide for tried in others}.isdisjoint(tried.guide for tried in finalists)
    assert {tried.guide for tried in one.search_} == set(CANDIDATES)
    assert [len(tried.scores) for tried in one.search_] == [1] * 9 + [3] * 4
    assert (one.guide_, one.recoding_) == (finalists[0].guide, finalists[0].recoding)
    assert one.findings()["tried"][0]["guide"] == one.guide_
    few = AccuracyGuided(k=50, model=model, random_state=3, n_jobs=1).fit(FRAME, BINARY)
    assert Counter(tried.guide for tried in few.search_) == dict.fromkeys(MORE_CANDIDATES, len(MORE_RECODINGS))
    assert {tried.round for tried in few.search_} == {2}
    many = pl.concat([FRAME] * 20)
    large = AccuracyGuided(k=50, model=model, random_state=3, n_jobs=1).fit(many, np.tile(BINARY, 20))
    assert sorted(Counter(tried.guide for tried in large.search_).values()) == [1] * 4 + [3] * 3
    assert {tried.round for tried in large.search_} == {2}


def test_the_second_round_scores_the_very_release():
    model = DecisionTreeClassifier(max_depth=4, random_state=0)
    found = AccuracyGuided(k=15, model=model, random_state=3, cv=2, n_jobs=1).fit(FRAME, BINARY)
    best = found.search_[0]
    options = {"guide": best.guide, "recoding": best.recoding, "model": model, "random_state": 3}
    released = AccuracyGuided(k=15, **options).fit_transform(FRAME, BINARY)
    assert best.scores == (clone(model).fit(released, BINARY).score(FRAME, BINARY),)


def test_numbers_are_not_released_by_majority():
    for k, ways in ((15, {"representative", "centroid"}), (60, {"representative", "centroid", "median"})):
        found = AccuracyGuided(k=k, model=DecisionTreeRegressor(max_depth=4), random_state=0).fit(FRAME, SCORE).search_
        assert {tried.recoding for tried in found} == ways


def test_folds_follow_the_seed():
    def scores(random_state):
        anonymizer = AccuracyGuided(k=15, model=DecisionTreeClassifier(max_depth=4), random_state=random_state)
        return [tried.scores for tried in anonymizer.fit(FRAME, BINARY).search_]

    assert scores(0) == scores(None) == scores(np.int64(0))
    assert scores(0) != scores(1)
    assert scores(np.random.RandomState(5)) == scores(np.random.RandomState(5)) != scores(0)


def test_a_majority_that_the_search_took_is_left_where_classes_are_not_known():
    for seed in range(20):
        found = AccuracyGuided(k=60, model=DecisionTreeClassifier(max_depth=4), random_state=seed).fit(FRAME, BINARY)
        if found.recoding_ == "majority":
            break
    assert found.recoding_ == "majority"
    nearest = clone(found).set_params(guide=found.guide_, recoding="representative").fit(FRAME, BINARY)
    assert found.anonymize(FRAME[:200]).equals(nearest.anonymize(FRAME[:200]))
    known = clone(found).set_params(guide=found.guide_, recoding="majority").fit(FRAME, BINARY)
    assert found.anonymize(FRAME[:200], BINARY[:200]).equals(known.anonymize(FRAME[:200], BINARY[:200]))


def test_the_search_does_not_depend_on_threads_and_can_be_left_out():
    model = DecisionTreeClassifier(max_depth=4)
    one = AccuracyGuided(k=15, model=model, random_state=3, n_jobs=1).fit(FRAME, BINARY)
    again = AccuracyGuided(k=15, model=model, random_state=3, n_jobs=4).fit(FRAME, BINARY)
    assert again.search_ == one.search_
    assert again.groups_.equals(one.groups_)
    assert np.array_equal(again.labels_, one.labels_)
    direct = AccuracyGuided(k=15, model=model, random_state=3, guide=one.guide_, recoding=one.recoding_)
    assert np.array_equal(direct.fit(FRAME, BINARY).labels_, one.labels_)
    assert direct.groups_.equals(one.groups_)


def test_the_search_may_score_otherwise_and_in_more_folds():
    def loss(model, X, y):
        return -float(np.mean(model.predict(X) != y))

    for scoring in ("f1", loss):
        model = DecisionTreeClassifier(max_depth=3)
        found = AccuracyGuided(k=15, model=model, scoring=scoring, cv=4, random_state=0).fit(FRAME, BINARY).search_
        assert {len(tried.scores) for tried in found if tried.round == 1} == {4}
        assert all(tried.score <= (1 if scoring == "f1" else 0) for tried in found)


def test_constraints_that_a_part_of_the_rows_cannot_reach_do_not_stop_the_search():
    frame = FRAME.with_columns(s=pl.Series(["x"] + ["y"] * 299))
    schema = Schema([*map(Attribute, "abcdef"), Attribute("s", "sensitive", "nominal")])
    model = make_pipeline(DropLast(), DecisionTreeClassifier(max_depth=3))
    anonymizer = AccuracyGuided(schema, 5, model=model, constraints=[LDiversity(2)], random_state=0)
    assert anonymizer.fit(frame, BINARY).labels_.max() == 0
    assert {tried.guide for tried in anonymizer.search_} == set(CANDIDATES)


class DropLast(BaseEstimator):
    """All columns but the last."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X[:, :-1] if isinstance(X, np.ndarray) else X.select(X.columns[:-1])


def test_a_class_of_a_single_row_does_not_stop_models_that_want_two():
    y = np.zeros(300, int)
    y[7] = 1
    for guide in ("soft", "auto"):
        assert AccuracyGuided(k=5, guide=guide, model=LogisticRegression()).fit(FRAME, y).labels_.max() >= 0
    four = np.where(np.arange(300) == 7, "once", THREE)
    for model in (LogisticRegression(), LinearSVC(), NearestCentroid()):
        assert AccuracyGuided(k=5, guide="soft", model=model).fit(FRAME, four).labels_.max() > 10


@pytest.mark.parametrize("recoding", ["interval", "set"])
def test_models_that_take_no_ranges_leave_the_safe_choice(recoding):
    anonymizer = AccuracyGuided(k=15, model=DecisionTreeClassifier(max_depth=3), recoding=recoding).fit(FRAME, BINARY)
    assert anonymizer.guide_ == SAFE_CHOICE
    assert all(tried.score == -np.inf for tried in anonymizer.search_)


def test_training_in_threads_leaves_the_process_as_it_was():
    filters, pools = list(warnings.filters), [pool["num_threads"] for pool in threadpool_info()]
    model = make_model("logistic", Schema(map(Attribute, "abcdef")), task="classification")
    AccuracyGuided(k=15, model=model, n_jobs=4).fit(FRAME, BINARY)
    assert warnings.filters == filters
    assert [pool["num_threads"] for pool in threadpool_info()] == pools


# Recoding, and rows that were not fitted.


def test_the_majority_is_that_of_the_rows_at_hand():
    """Of the fitted rows most say yes, of the others most say no; the two are as many."""
    frame = pl.DataFrame({"a": [1, 2, 3, 4, 5], "said": ["yes", "yes", "yes", "no", "no"]})
    others = frame.with_columns(said=pl.Series(["no", "no", "no", "yes", "yes"]))
    schema = Schema([Attribute("a"), Attribute("said", "target", "nominal")])
    anonymizer = AccuracyGuided(schema, 5, recoding="majority", guide="hard")
    assert set(anonymizer.fit_transform(frame)["a"]) == {3}
    assert set(anonymizer.anonymize(others)["a"]) == {3}
    assert set(anonymizer.anonymize(others, ["yes", "yes", "no", "yes", "no"])["a"]) in ({2}, {4})
    assert set(
        AccuracyGuided(k=5, recoding="majority").fit_transform(frame[["a"]], [0.1, 0.2, 0.9, 0.3, 0.7])["a"]
    ) in (
        {2},
        {4},
    )


def test_other_rows_are_merged_where_a_group_has_too_few():
    frame = pl.DataFrame({"a": list(range(12))})
    anonymizer = AccuracyGuided(k=3, guide="hard", recoding="interval").fit(frame, [0, 0, 0, 1, 1, 1] * 2)
    assert anonymizer.labels_.max() == 3
    # Of 3, 4 and 5 there is one alone, of 6, 7 and 8 none.
    others = pl.DataFrame({"a": [0, 1, 2, 3, 9, 10, 11, 99]})
    released = anonymizer.anonymize(others)["a"].to_list()
    assert released == ["[0, 2]"] * 3 + ["[3, 99]"] * 5


def test_unseen_names_and_missing_values_of_other_rows_find_a_group():
    frame, schema = mixed()
    complete = frame.drop_nulls()
    anonymizer = AccuracyGuided(schema, 10, guide=0.5).fit(complete)
    others = frame.with_columns(job=pl.when(pl.col("age") > 50).then(pl.lit("pilot")).otherwise(pl.col("job")))
    assert check(anonymizer.anonymize(others), schema).level("k") >= 10
    with pytest.raises(ValueError, match="did not occur when the anonymizer was fitted|had none when"):
        anonymizer.transform(others)


# scikit-learn.


def test_clone_pickle_and_parameters():
    anonymizer = AccuracyGuided(k=10, guide=0.5, nominal="one-vs-rest", random_state=0)
    assert clone(anonymizer).get_params() == anonymizer.get_params()
    assert anonymizer.set_params(k=12, guide="hard").k == 12
    for guide in GUIDES:
        fitted = clone(anonymizer).set_params(guide=guide).fit(FRAME[:150], BINARY[:150])
        again = pickle.loads(pickle.dumps(fitted))
        assert again.anonymize(FRAME).equals(fitted.anonymize(FRAME))
        assert np.array_equal(fitted.fit(FRAME[:150], BINARY[:150]).labels_, again.labels_)


@pytest.mark.parametrize("kind", ["polars", "pandas", "numpy"])
def test_works_in_a_pipeline_with_grid_search(kind):
    X = {"polars": FRAME, "pandas": FRAME.to_pandas(), "numpy": FRAME.to_numpy()}[kind]
    model = make_pipeline(AccuracyGuided(guide="hard"), DecisionTreeClassifier(max_depth=4))
    search = GridSearchCV(model, {"accuracyguided__k": [5, 20]}, cv=3).fit(X, BINARY)
    assert search.best_score_ > 0.75
    assert clone(search.best_estimator_[0]).k in (5, 20)
    names = [f"x{j}" for j in range(6)] if kind == "numpy" else list("abcdef")
    assert list(search.best_estimator_[0].get_feature_names_out()) == names


def test_samples_follow_the_seed():
    def released(seed):
        anonymizer = AccuracyGuided(k=15, guide="hard", recoding="sample", random_state=seed)
        return anonymizer.fit_transform(FRAME, BINARY)

    assert released(0).equals(released(0))
    assert not released(0).equals(released(1))


def test_a_model_of_some_columns_has_a_second_opinion_on_all():
    schema = Schema([*map(Attribute, "abcdef")])
    narrow = LogisticRegression().fit(FRAME.select("c", "a"), BINARY)
    found = AccuracyGuided(schema, 15, model=narrow, random_state=0).fit(FRAME, BINARY)
    assert len(found.search_) == 13


def test_the_target_may_come_beside_the_table():
    schema = Schema([*map(Attribute, "abcdef"), Attribute("score", "target", "numeric")])
    for guide in ("hard", 0.7):
        apart = AccuracyGuided(schema, 15, guide=guide, random_state=0).fit(FRAME, SCORE)
        within = AccuracyGuided(schema, 15, guide=guide, random_state=0).fit(WITH_SCORE)
        assert np.array_equal(apart.labels_, within.labels_)
        assert apart.anonymize(FRAME[:100]).columns == FRAME.columns
    with pytest.raises(ShoalError, match="'score' is not a column of the frame"):
        AccuracyGuided(schema, 15).fit(FRAME)
    with pytest.raises(ShoalError, match="'a' is not a column of the frame"):
        AccuracyGuided(schema, 15).fit(FRAME.drop("a"), SCORE)


def test_very_many_classes_guide_by_themselves():
    """A gradient boosting for 150 classes would take minutes."""
    names = np.array([f"class {i // 2}" for i in range(300)])
    for model in (None, DecisionTreeClassifier()):
        found = AccuracyGuided(k=5, model=model).fit(FRAME, names)
        assert (found.guide_, found.search_) == ("hard", [])


# Bad input: one sentence that names the culprit and the way out.


NUMBERS = Schema([*map(Attribute, "abcdef"), Attribute("score", "target", "numeric")])
WITH_SCORE = FRAME.with_columns(score=pl.Series(SCORE))
FIRST_IDENTIFIES = Schema([Attribute("a", "identifier"), *map(Attribute, "bcdef")])
TWO_TARGETS = Schema([*map(Attribute, "abcd"), Attribute("e", "target"), Attribute("f", "target")])


def fit(X=FRAME, y=BINARY, **options):
    return AccuracyGuided(**({"k": 5, "guide": "hard"} | options)).fit(X, y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit(y=None), "requires y .* pass it, a model, or a schema whose target"),
        (lambda: fit(model=DecisionTreeClassifier), r"create it first, as DecisionTreeClassifier\(\)"),
        (lambda: fit(model=DecisionTreeClassifier(), y=None), "not trained, .* train it, or pass y"),
        (lambda: fit(model=DecisionTreeClassifier(), y=None, guide="auto"), "not trained, .* train it, or pass y"),
        (lambda: fit(model=MODELS["trained"], X=FRAME.drop("b")), "uses a column 'b' that .* not have: add it"),
        (lambda: fit(model=DecisionTreeRegressor(), y=THREE), "predicts numbers, but y has '.*': pass numbers"),
        (
            lambda: fit(model=BlackBox(predict=lambda s: s[:9])),
            "the model, a BlackBox, has 9 entries for 300 rows",
        ),
        (
            lambda: fit(model=BlackBox(predict=None, predict_proba=lambda s: s[:9]), guide="soft"),
            "the model, a BlackBox, has 9 entries for 300 rows: give one per row",
        ),
        (
            lambda: fit(model=BlackBox(predict=None, decision_function=lambda s: s * np.nan), guide="soft"),
            "a BlackBox, has 300 missing values, the first in row 0: leave",
        ),
        (lambda: fit(y=BINARY[:9]), "y has 9 entries for 300 rows: give one per row"),
        (lambda: fit(y=[None, *THREE[1:]]), "y has 1 missing values, the first in row 0: leave these rows out"),
        (lambda: fit(y=[0.5, np.nan, *SCORE[2:]]), "y has 1 missing values, the first in row 1"),
        (lambda: fit(y=pd.Series([pd.NaT] * 300)), "y has 300 missing values"),
        (lambda: fit(y=pd.Series([1, pd.NA] * 150, dtype="Int64")), "y has 150 missing values, the first in row 1"),
        (lambda: fit(y=pd.Series(["a", pd.NA] * 150, dtype="string")), "y has 150 missing values, the first in row 1"),
        (
            lambda: fit(y=pd.Series([True, pd.NA] * 150, dtype="boolean")),
            "y has 150 missing values, the first in row 1",
        ),
        (lambda: fit(y=[np.inf] * 300), "y is infinite in row 0: leave"),
        (
            lambda: fit(model=BlackBox(predict=lambda s: ["high"] * len(s)), schema=NUMBERS, X=WITH_SCORE, y=None),
            "The output of the model, a BlackBox, is 'high', but numbers are to be predicted: pass a regressor",
        ),
        (
            lambda: fit(model=DecisionTreeClassifier(), y=SCORE, guide="auto"),
            "The model, a DecisionTreeClassifier, predicts classes, but the labels are numbers such as .*: pass a",
        ),
        (
            lambda: fit(model=LogisticRegression().fit(FRAME, BINARY), schema=FIRST_IDENTIFIES, guide="auto"),
            "The model was trained on 'a', an identifier, which is never released: omit it",
        ),
        (lambda: fit(schema=TWO_TARGETS, y=None), "The schema has several targets, e, f: pass y"),
        (lambda: fit(y=np.zeros((300, 2, 2))), "y has 3 dimensions: give one value per row"),
        (lambda: fit(y=np.zeros((300, 0))), "y has no columns: give one value per row"),
        (lambda: fit(y=np.full((300, 2), "x")), "y has 2 columns that are not all numbers: pass one value per row"),
        (
            lambda: fit(scoring="f1", model=DecisionTreeClassifier(), y=THREE, guide="auto"),
            "scoring='f1' cannot be computed for a DecisionTreeClassifier on this target .*: choose another",
        ),
        (
            lambda: fit(scoring="neg_log_loss", model=LinearSVC(), guide="auto"),
            "scoring='neg_log_loss' cannot be computed for a LinearSVC",
        ),
        (
            lambda: fit(model=DecisionTreeClassifier().fit(FRAME.to_numpy()[:, :2], BINARY), y=None),
            "The model, a DecisionTreeClassifier, cannot predict this table .*: pass one that takes its columns",
        ),
        (
            lambda: fit(model=BlackBox(predict=lambda s: 1 / 0)),
            "The model, a BlackBox, cannot predict this table .division by zero.: pass one",
        ),
        (lambda: fit(k=301), "k=301 cannot be reached with n_samples=300 rows: choose a smaller k"),
        (lambda: fit(k=20).anonymize(FRAME[:9]), "k=20 cannot be reached with n_samples=9 rows: choose a smaller k"),
        (lambda: fit().anonymize(FRAME.drop("b")), "Column 'b' was in the fitted table .* not in this one: add it"),
        (
            lambda: fit(recoding="majority").anonymize(FRAME),
            "'majority' needs the class of each released row",
        ),
        (
            lambda: Mondrian(k=5, recoding="majority").fit(FRAME),
            "'majority' needs the class of each released row",
        ),
    ],
)
def test_one_sentence(call, message):
    with pytest.raises(ShoalError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_nothing_is_released_before_fit():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        AccuracyGuided(k=2).anonymize(FRAME)


@pytest.mark.parametrize("guide", GUIDES)
@pytest.mark.parametrize("model", [None, LogisticRegression(), DecisionTreeClassifier()])
def test_little_to_learn(guide, model):
    """One class, constant columns, one row, two rows, rows that are too few to train on."""
    same = FRAME.select(a=pl.lit(1.5), b=pl.lit(2)).clear(300)
    blended = guide in (0.3, 0.0, "mondrian", "auto")
    assert (AccuracyGuided(k=5, guide=guide, model=model).fit(FRAME, np.zeros(300)).labels_.max() > 0) == blended
    assert AccuracyGuided(k=5, guide=guide, model=model).fit(same.fill_null(1.0), BINARY).labels_.max() == 0
    for n in (1, 2, 30):
        anonymizer = AccuracyGuided(k=1, guide=guide, model=model, recoding="median").fit(FRAME[:n], BINARY[:n])
        assert len(anonymizer.labels_) == n
    assert AccuracyGuided(k=2, guide=guide, model=model).fit(FRAME[:2], [0, 1]).labels_.tolist() == [0, 0]


def test_many_whole_numbers_are_numbers():
    y = np.arange(300) % 150
    assert AccuracyGuided(k=5, guide="soft").fit(FRAME, y)._grouping.labels.max() > 10
    kinds = [AccuracyGuided(k=5, guide="hard").fit(FRAME, y)._regresses(y) for y in (y, y % 100, y.astype(str))]
    assert kinds == [True, False, False]


def test_releasing_other_rows_leaves_what_was_learned():
    anonymizer = AccuracyGuided(k=10, guide="hard")
    first = anonymizer.fit(FRAME, BINARY).labels_.copy()
    others = anonymizer.anonymize(FRAME[100:])
    assert np.array_equal(anonymizer.labels_, first)
    assert np.array_equal(anonymizer.fit(FRAME, BINARY).labels_, first)
    assert anonymizer.anonymize(FRAME[100:]).equals(others)
