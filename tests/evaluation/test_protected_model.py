"""A model that is trained on a release keeps to scikit-learn's contract, and takes new rows as they are."""

import pickle

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from shoal import (
    AccuracyGuided,
    Attribute,
    HilbertCurve,
    Mondrian,
    ProtectedModel,
    RPlusTree,
    SaNGreeA,
    Schema,
    make_model,
)
from shoal.data.frames import convert
from shoal.datasets import make_census
from shoal.errors import ShoalError
from shoal.models import read_target

CENSUS = make_census(400, seed=1)
FRAME, SCHEMA = CENSUS.frame, CENSUS.schema
Y = read_target(FRAME, SCHEMA)


def by_mondrian(model=None, **options):
    mondrian = Mondrian(SCHEMA, k=10, recoding="representative", **options)
    return ProtectedModel(make_model("tree", SCHEMA) if model is None else model, mondrian)


@parametrize_with_checks(
    [ProtectedModel(LogisticRegression(), Mondrian(k=2, recoding="representative"))],
    expected_failed_checks=lambda _: {
        "check_classifier_data_not_an_array": "columns of a table have names that are texts",
        "check_estimators_nan_inf": "a missing value counts as a value, and its group may be released with another one",
    },
)
def test_it_keeps_the_contract_of_estimators(estimator, check):
    check(estimator)


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_the_model_is_the_one_trained_on_the_release(library):
    frame = convert(FRAME, library)
    protected = by_mondrian().fit(frame, Y)
    released = Mondrian(SCHEMA, k=10, recoding="representative").fit_transform(FRAME)
    by_hand = make_model("tree", SCHEMA).fit(released, Y)
    assert np.array_equal(protected.predict(frame), by_hand.predict(FRAME))
    assert np.array_equal(protected.predict_proba(frame), by_hand.predict_proba(FRAME))
    assert protected.score(frame, Y) == by_hand.score(FRAME, Y)
    assert protected.classes_.tolist() == by_hand.classes_.tolist()


def test_new_rows_are_not_recoded():
    schema = Schema([Attribute("a"), Attribute("b")])
    train = pl.DataFrame({"a": np.arange(40.0), "b": np.tile([0.0, 1.0], 20)})
    protected = ProtectedModel(DecisionTreeClassifier(), Mondrian(schema, k=20, recoding="representative"))
    protected.fit(train, (train["a"] > 20).to_numpy())
    seen = []
    protected.model_.predict = lambda rows: seen.append(rows)
    new = pl.DataFrame({"a": [0.5, 1e9], "b": [7.0, None]})
    protected.predict(new)
    assert seen[0].equals(new)


def test_it_is_searched_and_cross_validated():
    assert cross_val_score(by_mondrian(), FRAME, Y, cv=3).mean() > 0.6
    found = GridSearchCV(by_mondrian(), {"anonymizer__k": [5, 50], "model__model__max_depth": [2]}, cv=2).fit(FRAME, Y)
    assert np.bincount(found.best_estimator_.anonymizer_.labels_).min() >= found.best_params_["anonymizer__k"]


def test_an_anonymizer_without_a_model_is_guided_by_this_one():
    guided = AccuracyGuided(SCHEMA, k=20, guide=0.7, second_opinion=False)
    protected = ProtectedModel(make_model("tree", SCHEMA), guided).fit(FRAME, Y)
    assert protected.anonymizer_.model is not None
    assert guided.model is None
    own = clone(guided).set_params(model=make_model("logistic", SCHEMA))
    assert ProtectedModel(make_model("tree", SCHEMA), own).fit(FRAME, Y).anonymizer_.model[-1].max_iter == 1000


def test_suppressed_rows_are_not_trained_on():
    protected = by_mondrian(suppression=0.2).fit(FRAME, Y)
    suppressed = protected.anonymizer_.labels_ < 0
    assert suppressed.any()
    leaves = protected.model_[-1].tree_.n_node_samples[0]
    assert leaves == len(FRAME) - suppressed.sum()


def test_identifiers_and_targets_are_not_seen():
    people = FRAME.select("person-id", "age", "capital-gain", "income")
    schema = Schema([SCHEMA["person-id"], SCHEMA["age"], SCHEMA["capital-gain"], SCHEMA["income"]])
    mondrian = Mondrian(schema, k=10, recoding="representative")
    protected = ProtectedModel(RandomForestClassifier(5, random_state=0), mondrian)
    protected.fit(people.to_pandas())
    assert protected.model_.feature_names_in_.tolist() == ["age", "capital-gain"]
    assert len(protected.predict(people.to_pandas())) == len(people)


def test_it_is_what_its_model_is():
    assert is_classifier(by_mondrian(LinearSVC()))
    assert is_regressor(by_mondrian(LinearRegression()))
    assert not hasattr(by_mondrian(LinearSVC()), "predict_proba")
    assert hasattr(by_mondrian(LinearSVC()), "decision_function")


@pytest.mark.parametrize(
    ("protected", "message"),
    [
        (ProtectedModel(LinearSVC(), Mondrian(SCHEMA, k=10)), "recoding='interval' does not suit .* 'representative'"),
        (ProtectedModel(LinearSVC(), "mondrian"), "anonymizer must be .*, got 'mondrian'"),
    ],
)
def test_bad_input_gets_a_sentence(protected, message):
    with pytest.raises(ShoalError, match=message):
        protected.fit(FRAME, Y)


@pytest.mark.parametrize("method", [AccuracyGuided, Mondrian])
def test_it_takes_no_single_value_along(method):
    """What one person alone earns is nobody's released value, and no part of the object that is handed on."""
    people = pl.DataFrame({"job": [f"job {i}" for i in range(300)], "age": [*range(300)], "sick": ["no", "yes"] * 150})
    schema = Schema([Attribute("job", kind="nominal"), Attribute("age"), Attribute("sick", "target", "nominal")])
    anonymizer = method(schema, 10, recoding="representative")
    protected = ProtectedModel(make_model("tree", schema), anonymizer).fit(people)
    kept = pickle.dumps(protected.anonymizer_)
    released = set(protected.anonymizer_.groups_["job"])
    assert not [job for job in people["job"] if job not in released and f"{job}\x94".encode() in kept]
    with pytest.raises(ShoalError, match="has dropped the rows"):
        protected.anonymizer_.transform(people)
    assert len(protected.predict(people)) == 300


def test_the_target_may_be_apart_and_no_column_may_be_missing():
    protected = by_mondrian().fit(FRAME.drop("income"), Y)
    assert (protected.predict(FRAME.drop("income")) == by_mondrian().fit(FRAME).predict(FRAME)).all()
    with pytest.raises(ShoalError, match="Column 'age' is missing, but the model was trained with it: add it"):
        protected.predict(FRAME.drop("age"))


@pytest.mark.parametrize("method", [HilbertCurve, RPlusTree, SaNGreeA])
def test_it_takes_no_raw_rows_along(method):
    people = pl.DataFrame({"age": range(1_000_000, 1_000_040), "note": ["only here"] * 40, "sick": ["no", "yes"] * 20})
    schema = Schema([Attribute("age"), Attribute("note", "other", "nominal"), Attribute("sick", "target", "nominal")])
    protected = ProtectedModel(make_model("tree", schema), method(schema, 4, recoding="representative")).fit(people)
    anonymizer = protected.anonymizer_
    assert b"only here" not in pickle.dumps(anonymizer)
    assert not set(vars(anonymizer)) & {"_codes", "_network", "_first", "_last", "_frame"}
    assert anonymizer.groups_[anonymizer.labels_].height == 40
    with pytest.raises(ShoalError, match="has dropped the rows"):
        anonymizer.transform(people)
    assert anonymizer.fit(people).transform(people).height == 40


def test_a_changed_tree_forgets_its_rows():
    tree = RPlusTree(k=2).fit(pl.DataFrame({"age": [20, 21, 40, 41]}))
    tree.insert(pl.DataFrame({"age": [42, 43]}))
    released = tree.release()["age"].to_list()
    tree.forget_rows()
    assert tree.groups_["age"].gather(tree.labels_).to_list() == released
    for call in (tree.release, lambda: tree.delete([0]), lambda: tree.insert(pl.DataFrame({"age": [1]}))):
        with pytest.raises(ShoalError, match="has dropped the rows"):
            call()
