"""Training a model that leans less: the search keeps its bounds, the comparison is honest, and the page says so."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pages import Page
from shoal import Attribute, PrivacyForestClassifier, PrivacyTreeClassifier, Schema, train
from shoal.datasets import make_census
from shoal.errors import DataError, ShoalError
from shoal.jobs.train import describe_setting
from shoal.models import features, load_model, read_target, save_model
from shoal.trees.search import NOTHING

FRAME, SCHEMA = make_census(800, seed=0)
NUMERIC = Schema(
    Attribute(a.name, {"hours-per-week": "target", "income": "other"}.get(a.name, a.role), a.kind) for a in SCHEMA
)
AGE = {"age": 1.0}


@pytest.fixture(scope="module")
def found():
    return train(FRAME, SCHEMA, "tree", sensitivity=AGE, max_depth=5, max_accuracy_loss=0.03)


def test_what_is_sensitive_is_leaned_on_less(found):
    (age,) = found.sensitive
    assert found.importance == (age.before, age.after)
    assert age.after < age.before
    assert sum(one.before for one in found.leaning) == pytest.approx(1)
    assert sum(one.after for one in found.leaning) == pytest.approx(1)
    assert [one.before for one in found.leaning] == sorted((one.before for one in found.leaning), reverse=True)
    assert {one.name for one in found.leaning} == set(features(SCHEMA))


def test_importances_and_splits_are_those_of_the_models(found):
    for model, importance, splits in ((found.plain, "before", "splits_before"), (found.model, "after", "splits_after")):
        names = model.feature_names_in_.tolist()
        for one in found.leaning:
            assert getattr(one, importance) == model.feature_importances_[names.index(one.name)]
            assert getattr(one, splits) == model.n_splits_[names.index(one.name)]


def test_the_search_keeps_the_bound(found):
    search = found.search
    assert search.best_.score >= search.plain_.score - 0.03 - 1e-12
    bearable = [one for one in search.tried_ if one.score >= search.plain_.score - 0.03 - 1e-12]
    assert search.best_.risk == min(one.risk for one in bearable)
    for name, value in search.best_.setting.items():
        assert getattr(found.model, name) == value
    for name, value in NOTHING.items():
        assert getattr(found.plain, name) == value


def test_models_are_compared_on_rows_that_had_no_part_in_it():
    test = make_census(300, seed=5).frame
    found = train(FRAME, SCHEMA, "tree", sensitivity=AGE, max_depth=4, test=test)
    truth = read_target(test, SCHEMA)
    rows = test.select(features(SCHEMA))
    assert found.comparison.rows == 300
    assert found.comparison.before.value == np.mean(found.plain.predict(rows) == truth)
    assert found.comparison.after.value == np.mean(found.model.predict(rows) == truth)


def test_the_schema_says_what_is_sensitive_unless_it_is_said():
    found = train(FRAME, SCHEMA, "tree", max_depth=3)
    assert [one.name for one in found.sensitive] == [a.name for a in SCHEMA.sensitive]
    assert all(one.sensitivity == 1 for one in found.sensitive)
    weighted = train(FRAME, SCHEMA, "tree", sensitivity={"age": 0.5, "sex": 0.25}, max_depth=3)
    assert {one.name: one.sensitivity for one in weighted.sensitive} == {"age": 0.5, "sex": 0.25}


@pytest.mark.parametrize("estimator", ["tree", "forest", "boost"])
def test_every_estimator_is_trained_saved_and_loaded(estimator, tmp_path):
    options = {} if estimator == "tree" else {"n_estimators": 5}
    found = train(FRAME[:300], SCHEMA, estimator, sensitivity=AGE, cv=2, max_accuracy_loss=0.2, **options)
    save_model(found.model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    rows = FRAME.select(features(SCHEMA))
    assert np.array_equal(loaded.predict_proba(rows), found.model.predict_proba(rows))


def test_numbers_are_learned_too():
    found = train(FRAME, NUMERIC, "forest", sensitivity=AGE, n_estimators=5, cv=2, max_accuracy_loss=0.1)
    assert (found.comparison.task, found.comparison.score) == ("regression", "r2")
    assert "R²" in found.verdict
    with pytest.raises(ShoalError, match="'boost' predicts classes, but the target is numeric"):
        train(FRAME, NUMERIC, "boost", sensitivity=AGE)


def test_an_estimator_keeps_its_parameters_and_stays_as_it_was():
    forest = PrivacyForestClassifier(4, max_depth=3, share="ensemble")
    found = train(FRAME[:300], SCHEMA, forest, sensitivity=AGE, cv=2)
    assert (found.model.n_estimators, found.model.max_depth, found.model.share) == (4, 3, "ensemble")
    assert forest.sensitivity is None


def test_a_number_that_is_a_name_is_taken_as_one():
    rows = np.arange(400)
    frame = pl.DataFrame({"code": rows % 7, "size": rows % 50, "y": np.where(rows % 7 % 2, "odd", "even")})
    roles = {"code": ("quasi", "nominal"), "size": ("sensitive", "numeric"), "y": ("target", "nominal")}
    found = train(frame, Schema(Attribute(name, *one) for name, one in roles.items()), "tree")
    assert found.model.n_splits_.tolist() == [1, 0]
    assert found.comparison.after.value == 1


@pytest.mark.parametrize("kind", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_tables_of_other_libraries_give_the_same(kind, found):
    again = train(kind(FRAME), SCHEMA, "tree", sensitivity=AGE, max_depth=5, max_accuracy_loss=0.03)
    assert again.verdict == found.verdict
    assert again.leaning == found.leaning


def test_the_same_seed_gives_the_same(found):
    again = train(FRAME, SCHEMA, "tree", sensitivity=AGE, max_depth=5, max_accuracy_loss=0.03, n_jobs=1)
    assert again.facts() == found.facts()


def test_an_importance_can_be_asked_for():
    found = train(FRAME, SCHEMA, "tree", sensitivity=AGE, max_depth=5, max_importance=0.0)
    assert found.search.best_.risk == 0
    assert found.importance[1] == 0
    assert "The model does not use age, whose importance in the plain model is" in found.verdict


def test_where_nothing_is_leaned_on_the_verdict_says_so():
    rows = np.arange(300)
    frame = pl.DataFrame({"useful": rows % 2, "useless": rows % 3 * 0, "y": np.where(rows % 2, "a", "b")})
    roles = {"useful": "quasi", "useless": "sensitive", "y": "target"}
    schema = Schema(Attribute(name, role, "nominal") for name, role in roles.items())
    assert "Even the plain model does not use useless." in train(frame, schema, "tree").verdict


def test_the_page_says_what_was_found(found, tmp_path):
    found.to_html(tmp_path / "report.html", title="A <model>")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.loads == []
    assert found.verdict in page.text
    assert "A <model>" in page.text
    assert describe_setting(found.search.best_.setting) in page.text
    assert f"All {len(found.search.tried_)} settings" in page.text
    assert text.count("<circle") == len(found.search.tried_) + 1
    assert "|---" in page.text
    for one in found.leaning:
        assert one.name in page.text


def test_a_forest_has_no_rules(tmp_path):
    found = train(FRAME[:200], SCHEMA, "forest", sensitivity=AGE, n_estimators=3, cv=2, max_importance=1.0)
    assert found.rules() is None
    found.to_html(tmp_path / "report.html")
    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "The rules of the tree" not in text
    assert "the importance is at most 100 %" in text


def test_a_summary_is_shown(found):
    assert repr(found).startswith("Training\n  model: PrivacyTreeClassifier\n  setting: ")
    assert "<caption>Training</caption>" in found._repr_html_()


def test_settings_are_described_in_words():
    assert describe_setting(NOTHING) == "no method"
    assert describe_setting(NOTHING | {"penalty": 0.5, "min_level": 3}) == "penalty 0.5, splits only from level 3 on"
    assert describe_setting(NOTHING | {"max_splits": 0}) == "no split on it"
    assert describe_setting(NOTHING | {"max_splits": 1}) == "at most 1 split per tree"
    assert describe_setting(NOTHING | {"max_splits": 2}) == "at most 2 splits per tree"
    assert describe_setting(NOTHING | {"max_splits": 2, "share": "ensemble"}) == "at most 2 splits in all trees"
    assert describe_setting(NOTHING | {"penalty": 2.0, "penalty_stops": True}) == "penalty 2 that can stop"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sensitivity": {"nobody": 1.0}}, "'nobody' is not a feature"),
        ({"sensitivity": {"income": 1.0}}, "'income' is not a feature"),
        ({"sensitivity": {}}, "No feature has a sensitivity above 0"),
        ({"sensitivity": AGE, "max_splits": 3}, "The search sets 'max_splits'"),
        ({"sensitivity": AGE, "depth": 3}, "PrivacyTreeClassifier refuses an option"),
        ({"sensitivity": AGE, "random_state": "today"}, "random_state must be"),
        ({"sensitivity": AGE, "cv": 1}, "cv must be a whole number of at least 2, .*, got 1"),
        ({"sensitivity": AGE, "test_size": 0}, "test_size=0"),
        ({"sensitivity": AGE, "max_importance": -1}, "max_importance must be a number of at least 0 or None, got -1"),
    ],
)
def test_what_cannot_be_trained_is_told(options, says):
    with pytest.raises(ShoalError, match=says):
        train(FRAME[:100], SCHEMA, "tree", **options)


def test_a_schema_without_anything_sensitive_is_refused():
    schema = SCHEMA.with_roles(other=[a.name for a in SCHEMA.sensitive])
    with pytest.raises(ShoalError, match="no sensitive attribute: give it the role"):
        train(FRAME, schema, "tree")
    with pytest.raises(ShoalError, match="no estimator 3"):
        train(FRAME, SCHEMA, 3, sensitivity=AGE)


# Trees that come from files


def tampered(part, change):
    """A pickled tree of which one array was changed by somebody."""
    model = PrivacyTreeClassifier(max_depth=3).fit(pd.DataFrame({"a": range(40), "b": range(40, 0, -1)}), [0, 1] * 20)
    arrays = model.tree_.branches._asdict() | model.tree_.sums._asdict()
    changed = arrays[part].copy()
    change(changed)
    branches, sums = model.tree_.branches, model.tree_.sums
    state = {
        "branches": branches._replace(**{part: changed}) if part in branches._fields else branches,
        "sums": sums._replace(**{part: changed}) if part in sums._fields else sums,
        "n_features": 2,
    }
    return model.tree_, state


def set_field(field, node, value):
    def change(nodes):
        nodes[field][node] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_field("left", 0, 10_000),
        set_field("left", 0, 0),
        set_field("feature", 0, 2),
        set_field("feature", 0, -5),
    ],
)
def test_a_tree_that_leads_nowhere_is_refused(change):
    tree, state = tampered("nodes", change)
    with pytest.raises(DataError, match="inconsistent nodes"):
        type(tree).__new__(type(tree)).__setstate__(state)


def test_a_tree_of_other_arrays_is_refused():
    tree, state = tampered("nodes", lambda nodes: None)
    blank = type(tree).__new__(type(tree))
    blank.__setstate__(state)
    assert blank.node_count == tree.node_count
    for branches in (
        state["branches"]._replace(side=state["branches"].side[:1]),
        state["branches"]._replace(side=state["branches"].side.astype(float)),
        state["branches"]._replace(nodes=np.zeros(3)),
    ):
        with pytest.raises(DataError, match="of another type or shape"):
            type(tree).__new__(type(tree)).__setstate__(state | {"branches": branches})
    with pytest.raises(DataError, match="inconsistent nodes"):
        type(tree).__new__(type(tree)).__setstate__(state | {"sums": state["sums"]._replace(value=np.zeros((1, 2)))})


@pytest.mark.parametrize("change", [{"n_features_in_": 9}, {"classes_": np.array([0, 1, 2])}, {"_features": ()}])
def test_a_model_whose_trees_do_not_fit_is_refused(change):
    model = PrivacyTreeClassifier(max_depth=2).fit(np.arange(40.0).reshape(20, 2), [0, 1] * 10)
    with pytest.raises(DataError, match="inconsistent trees"):
        PrivacyTreeClassifier().__setstate__(model.__getstate__() | change)
