"""The protocol: same seeds, same rows; a resumed run is a fresh one; k holds; what cannot be measured is told."""

import json
import math
import os
import subprocess
import sys

import joblib
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

import shoal
from shoal import Attribute, KMap, LDiversity, Mondrian, Schema, anonymize, evaluate, make_model
from shoal.data.frames import convert
from shoal.datasets import make_census
from shoal.errors import ShoalError
from shoal.evaluation.plan import plan_models
from shoal.evaluation.store import fingerprint
from shoal.jobs.evaluate import Evaluation
from shoal.jobs.release import make_anonymizer
from shoal.models import features, read_target
from shoal.parameters import having

FRAME, SCHEMA = make_census(2000, seed=0)
SMALL = FRAME[:240]
NUMERIC = Schema(
    Attribute(a.name, {"hours-per-week": "target", "income": "other"}.get(a.name, a.role), a.kind, order=a.order)
    for a in SCHEMA
)
TINY = SMALL.select("age", "sex", "income")
TINY_SCHEMA = Schema(SCHEMA[name] for name in TINY.columns)
FEW = settings(max_examples=15, deadline=None)


def measure(frame=SMALL, schema=SCHEMA, model="tree", *, k=(3, 20), seeds=2, **options):
    return evaluate(frame, schema, model, k=k, seeds=seeds, **options)


def without_seconds(found):
    """The rows as text, so that NaN equals NaN."""
    return [repr({name: value for name, value in row.items() if not name.startswith("seconds")}) for row in found.rows]


@pytest.fixture(scope="module")
def found():
    return evaluate(FRAME, SCHEMA, {"one": "tree", "two": "bayes"}, k=(5, 100), seeds=3)


# What is measured


def test_there_is_a_row_for_each_model_method_k_and_seed(found):
    keys = [(row["model"], row["label"], row["k"], row["seed"]) for row in found.rows]
    assert keys == [(m, "mondrian", k, seed) for m in ("one", "two") for k in (5, 100) for seed in range(3)]
    assert all(row["smallest_group"] >= row["k"] for row in found.rows)
    assert all(row["smallest_group"] <= row["median_group"] <= row["largest_group"] for row in found.rows)
    assert all(row["error"] is None and row["train_rows"] == 1600 and row["rows"] == 2000 for row in found.rows)


def test_a_cell_is_what_the_protocol_says(found):
    """The same numbers by hand: split, release, retrain, score."""
    y = read_target(FRAME, SCHEMA)
    train, test = train_test_split(np.arange(2000), test_size=0.2, random_state=1, stratify=y)
    train, test = np.sort(train), np.sort(test)
    release = anonymize(FRAME[train], SCHEMA, 100, recoding="representative", random_state=1)
    raw = make_model("tree", SCHEMA, random_state=1).fit(FRAME[train], y[train])
    model = make_model("tree", SCHEMA, random_state=1).fit(release.frame, y[train])
    (row,) = (row for row in found.rows if (row["model"], row["k"], row["seed"]) == ("one", 100, 1))
    predicted = model.predict(FRAME[test])
    assert row["raw_accuracy"] == accuracy_score(y[test], raw.predict(FRAME[test]))
    assert row["accuracy"] == accuracy_score(y[test], predicted)
    assert row["accuracy_loss"] == row["raw_accuracy"] - row["accuracy"]
    assert row["f1_macro"] == f1_score(y[test], predicted, average="macro")
    assert row["f1_weighted"] == f1_score(y[test], predicted, average="weighted")
    assert row["auc"] == pytest.approx(roc_auc_score(y[test], model.predict_proba(FRAME[test])[:, 1]))
    assert row["majority"] == np.mean(y[test] == "<=50K")
    assert (row["groups"], row["ncp"]) == (release.checked.groups, release.loss.ncp)


def test_classes_are_split_evenly(found):
    share = np.mean(read_target(FRAME, SCHEMA) == "<=50K")
    assert {round(row["majority"], 4) for row in found.rows} == {round(round(400 * share) / 400, 4)}


def test_a_numeric_target_is_regressed():
    found = measure(schema=NUMERIC, model={"tree": "tree", "line": LinearRegression()}, k=5)
    assert (found.task, found.score) == ("regression", "r2")
    for row in found.rows:
        assert row["r2_loss"] == row["raw_r2"] - row["r2"]
        assert row["rmse"] >= row["mae"] > 0
        assert row["baseline"] < 0.05
    assert {"accuracy", "majority"}.isdisjoint(found.rows[0])


def test_several_classes_have_a_macro_auc_and_a_model_without_scores_none():
    schema = SCHEMA.with_roles(target=["education"], other=["income"])
    several = measure(FRAME[:600], schema, k=5, seeds=1).rows[0]
    assert 0.3 < several["auc"] < 1
    frame = FRAME[:600]
    y = read_target(frame, schema)
    train, test = (
        np.sort(part) for part in train_test_split(np.arange(600), test_size=0.2, random_state=0, stratify=y)
    )
    model = make_model("tree", schema).fit(frame[train], y[train])
    expected = roc_auc_score(y[test], model.predict_proba(frame[test]), multi_class="ovr", average="macro")
    assert several["raw_auc"] == pytest.approx(expected)
    assert math.isnan(measure(model={"dull": Dull()}, k=5, seeds=1).rows[0]["auc"])


class Dull(ClassifierMixin, BaseEstimator):
    """Has no scores; says what is most frequent."""

    def fit(self, X, y):
        values, counts = np.unique(y, return_counts=True)
        self.classes_, self.best_ = values, values[counts.argmax()]
        return self

    def predict(self, X):
        return np.full(len(X), self.best_)


def test_a_dull_model_scores_as_the_majority():
    for row in measure(model=Dull()).rows:
        assert row["raw_accuracy"] == row["accuracy"] == row["majority"]


def test_a_class_of_a_single_row_is_no_obstacle():
    frame = SMALL.with_columns(
        pl.Series("income", ["rare", *SMALL["income"].cast(pl.String).to_list()[1:]], dtype=pl.String)
    )
    assert len(measure(frame, k=5).rows) == 2


# Models and methods


def test_an_estimator_a_pipeline_and_a_search_are_taken():
    numbers = FunctionTransformer(ages)
    pipeline = make_pipeline(numbers, DecisionTreeClassifier())
    search = GridSearchCV(pipeline, {"decisiontreeclassifier__max_depth": [1, 2]}, cv=2)
    models = {"bare": DecisionTreeClassifier(), "pipeline": pipeline, "search": search}
    found = measure(model=models, k=5, seeds=1)
    assert [row["model"] for row in found.rows] == ["bare", "pipeline", "search"]
    same = measure(model="tree", k=5, seeds=1).rows[0]
    # A bare estimator sees what the named one sees, only standardised, which a tree does not mind.
    assert found.rows[0]["raw_accuracy"] == pytest.approx(same["raw_accuracy"], abs=0.1)


def test_a_trained_estimator_sees_the_columns_it_was_trained_on():
    def columns(names):
        trained = DecisionTreeClassifier().fit(pl.DataFrame(np.eye(len(names)), names), np.arange(len(names)))
        return list(plan_models(trained, SCHEMA)["DecisionTreeClassifier"][0].columns)

    assert columns(["sex", "age"]) == ["sex", "age"]
    # LightGBM calls the columns of an array so; it does not know which they were.
    assert columns(["Column_0", "Column_1"]) == features(SCHEMA)


def ages(frame):
    assert list(frame.columns) == features(SCHEMA)
    return frame.select("age").to_numpy()


def test_methods_are_names_triples_or_anonymizers():
    given = ["mondrian", ("relaxed", "mondrian", {"mode": "relaxed"})]
    found = measure(methods=given, k=10)
    assert [(row["method"], row["label"]) for row in found.rows[::2]] == [
        ("mondrian", "mondrian"),
        ("mondrian", "relaxed"),
    ]
    instance = Mondrian(mode="relaxed", k=77, constraints=[LDiversity(2)])
    found = measure(methods=instance, k=10, constraints=[LDiversity(3)])
    assert found.settings["constraints"] == [LDiversity(2).describe(), LDiversity(3).describe()]
    assert found.settings["recodings"] == ["representative"]
    assert instance.k == 77


def test_options_go_to_every_method(monkeypatch):
    passed = spy_on_anonymize(monkeypatch)
    measure(
        methods=["mondrian", ("other", "mondrian", {"suppression": 0.2})], options={"suppression": 0.1}, k=5, seeds=1
    )
    assert [options["suppression"] for _, options in passed] == [0.1, 0.2]
    assert measure(recoding="mean", k=5).settings["recodings"] == ["mean"]


def spy_on_anonymize(monkeypatch):
    """Collect the calls that make anonymizers."""
    passed = []

    def spy(*args, **options):
        passed.append((args, options))
        return make_anonymizer(*args, **options)

    monkeypatch.setattr("shoal.jobs.evaluate.make_anonymizer", spy)
    return passed


def test_a_method_that_takes_a_model_gets_the_evaluated_one_untrained(monkeypatch):
    seen = []

    class Guided(Mondrian):
        _parameter_constraints = {"model": having("predict") | None}

        def __init__(self, schema=None, k=5, *, model=None, constraints=(), recoding="interval", suppression=0.0,
                     missing="value", random_state=None):  # fmt: skip
            super().__init__(schema, k, constraints=constraints, recoding=recoding, suppression=suppression,
                             missing=missing, random_state=random_state)  # fmt: skip
            self.model = model

        def fit_transform(self, X, y=None):
            raise AssertionError

        def _check_parameters(self):
            seen.append((type(self.model[-1]), self.model[-1].random_state, hasattr(self.model[-1], "classes_")))
            super()._check_parameters()

    for module in ("shoal.evaluation.plan", "shoal.jobs.release"):
        monkeypatch.setattr(f"{module}.find_method", lambda name: Guided if name == "guided" else Mondrian)
    measure(methods=["guided", "mondrian"], model=["tree", "logistic"], k=5, seeds=[3])
    assert seen == [(DecisionTreeClassifier, 3, False), (LogisticRegression, 3, False)]


def test_a_release_is_made_once_for_all_models(monkeypatch):
    passed = spy_on_anonymize(monkeypatch)
    measure(model=["tree", "bayes"], k=(3, 20), seeds=2)
    assert sorted(args[2] for args, _ in passed) == [3, 3, 20, 20]


# The same again


@FEW
@given(st.integers(0, 1000), st.sampled_from(["tree", "bayes"]), st.sampled_from(["representative", "mean", "sample"]))
def test_same_seeds_same_rows(seed, model, recoding):
    once, again = (measure(TINY, TINY_SCHEMA, model, k=10, seeds=[seed], recoding=recoding) for _ in range(2))
    assert without_seconds(once) == without_seconds(again)
    assert all(row["smallest_group"] >= 10 for row in once.rows)


def test_the_library_does_not_matter():
    polars, pandas, pyarrow = (
        without_seconds(measure(convert(SMALL, name))) for name in ("polars", "pandas", "pyarrow")
    )
    assert polars == pandas == pyarrow


def test_row_labels_of_pandas_do_not_matter():
    shuffled = SMALL.to_pandas().set_index(np.arange(len(SMALL))[::-1])
    assert without_seconds(measure(shuffled)) == without_seconds(measure())


def test_the_number_of_jobs_does_not_matter():
    once = measure(model=["tree", "bayes"])
    with joblib.parallel_config(backend="threading"):
        assert without_seconds(measure(model=["tree", "bayes"], n_jobs=3)) == without_seconds(once)


def test_processes_do_not_matter():
    assert without_seconds(measure(n_jobs=2)) == without_seconds(measure())


# Going on


@FEW
@given(st.floats(0, 1))
def test_a_resumed_run_is_a_fresh_one(tmp_path_factory, share):
    path = tmp_path_factory.mktemp("store") / "cells.jsonl"
    options = {"frame": TINY, "schema": TINY_SCHEMA, "model": ["tree", "bayes"], "k": (3, 500), "seeds": 2}
    fresh = measure(store=path, **options)
    content = path.read_bytes()
    path.write_bytes(content[: round(share * len(content))])
    calls = []
    resumed = measure(store=path, progress=lambda done, total, text: calls.append((done, total)), **options)
    assert without_seconds(resumed) == without_seconds(fresh)
    assert calls[-1] == (12, 12)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    # By now every cell is there, whatever the cut had left.
    assert measure(store=path, **options).rows == approx_rows(resumed.rows)


def approx_rows(rows):
    return [pytest.approx(row, nan_ok=True) for row in rows]


def test_what_is_stored_is_not_measured_again(tmp_path, monkeypatch):
    path = tmp_path / "cells.jsonl"
    first = measure(store=path)
    size = path.stat().st_size
    monkeypatch.setattr("shoal.jobs.evaluate._measure", None)
    assert repr(measure(store=path).rows) == repr(first.rows)
    assert repr(measure(convert(SMALL, "pandas"), store=path).rows) == repr(first.rows)
    assert measure(store=path, k=3).rows == approx_rows(first.rows[:2])
    assert path.stat().st_size == size


@pytest.mark.parametrize(
    "change",
    [
        {"frame": SMALL.with_columns(age=SMALL["age"] + 1)},
        {"schema": SCHEMA.with_weights(age=2.0)},
        {"test_size": 0.3},
        {"train_size": 0.5},
        {"recoding": "mean"},
        {"constraints": [LDiversity(2)]},
        {"options": {"suppression": 0.1}},
        {"methods": Mondrian(mode="relaxed")},
        {"model": {"tree": DecisionTreeClassifier(max_depth=3)}},
        {"seeds": [2, 3]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_fingerprint_is_not_reused(change, tmp_path):
    path = tmp_path / "cells.jsonl"
    measure(store=path)
    before = len(path.read_text().splitlines())
    changed = measure(store=path, **change)
    assert len(path.read_text().splitlines()) >= before + len(changed.rows)
    assert without_seconds(changed) == without_seconds(measure(**change))


def test_fingerprints_are_the_same_in_every_process():
    code = """
from shoal.evaluation.store import fingerprint
from shoal import LDiversity
from sklearn.tree import DecisionTreeClassifier
print(fingerprint(0.2, DecisionTreeClassifier(max_depth=3), {"b": LDiversity(2), "a": {"x", "y", "z"}}))
"""
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    here = fingerprint(0.2, DecisionTreeClassifier(max_depth=3), {"a": {"z", "y", "x"}, "b": LDiversity(2)})
    assert done.stdout.strip() == here


def test_a_store_is_json_lines_that_people_can_read(tmp_path):
    measure(store=tmp_path / "cells.jsonl", k=(3, 500), seeds=1)
    raw, cell, missed = (json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines())
    assert raw["cell"] == {"model": "tree", "method": None, "k": 0, "seed": 0}
    assert cell["cell"] == {"model": "tree", "method": "mondrian", "k": 3, "seed": 0}
    assert "cannot be reached" in missed["result"]["error"]


def test_an_interrupted_run_keeps_what_it_had(tmp_path):
    path = tmp_path / "cells.jsonl"

    def stop(done, total, text):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(store=path, progress=stop)
    assert len(path.read_text().splitlines()) == 3
    assert without_seconds(measure(store=path)) == without_seconds(measure())


# What the rows come to


def test_the_summary_is_of_means_and_t_intervals(found):
    one = found.summary()[0]
    losses = [row["accuracy_loss"] for row in found.rows[:3]]
    low, high = stats.t.interval(0.95, 2, np.mean(losses), stats.sem(losses))
    assert (one.model, one.method, one.k, one.seeds, one.failed) == ("one", "mondrian", 5, 3, 0)
    assert one.loss == pytest.approx((np.mean(losses), stats.sem(losses), low, high))
    assert one.loss.mean == pytest.approx(one.raw.mean - one.score.mean)


def test_of_one_seed_only_the_mean_is_known():
    one = measure(seeds=1).summary()[0]
    assert math.isnan(one.score.se)
    assert math.isnan(one.loss.high)
    assert "one seed has no interval" in " ".join(measure(seeds=1).answer(1.0))


def rows_of(losses):
    """Rows of an evaluation with these losses by k and seed; None where k was not reached."""
    rows = []
    for k, by_seed in losses.items():
        for seed, loss in enumerate(by_seed):
            numbers = dict.fromkeys(("groups", "ncp"), 1.0) | {"raw_accuracy": 0.9, "majority": 0.5}
            failed = loss is None
            score = {"accuracy": math.nan if failed else 0.9 - loss, "accuracy_loss": math.nan if failed else loss}
            error = "k cannot be reached." if failed else None
            rows.append({"model": "m", "label": "x", "k": k, "seed": seed, "error": error, **numbers, **score})
    return Evaluation(rows, "classification", {"seeds": [0, 1]})


@pytest.mark.parametrize(
    ("losses", "k", "sure"),
    [
        ({5: [0.0, 0.0], 10: [0.01, 0.01], 50: [0.2, 0.2]}, 10, True),
        ({5: [0.0, 0.0], 10: [0.0, 0.02]}, 10, False),
        ({5: [0.3, 0.3], 10: [-0.1, -0.1]}, 10, True),
        ({5: [0.3, 0.3]}, None, False),
        ({5: [0.0, 0.0], 10: [0.0, None]}, 5, True),
        ({5: [None, None]}, None, False),
    ],
)
def test_the_largest_k_that_can_be_afforded(losses, k, sure):
    found = rows_of(losses)
    (one,) = found.affordable(0.01)
    assert (one.k, one.sure) == (k, sure)
    (sentence,) = found.answer(0.01)
    assert ("no k of" in sentence) == (k is None)
    assert ("use more seeds" in sentence) == (k is not None and not sure)


def test_a_model_that_learned_nothing_loses_nothing():
    found = rows_of({5: [0.0, 0.0]})
    assert found.affordable()[0].learned
    assert "could be lost" not in found.answer()[0]
    for row in found.rows:
        row["majority"] = row["raw_accuracy"]
    assert not found.affordable()[0].learned
    assert found.answer()[0].endswith(
        "But on raw rows it is not clearly better than always predicting the most frequent class: little could be lost."
    )


def test_two_models_of_one_name_are_refused():
    models = [DecisionTreeClassifier(max_depth=2), DecisionTreeClassifier()]
    with pytest.raises(ShoalError, match="Two models are called 'DecisionTreeClassifier': pass a dict"):
        evaluate(make_census(50).frame, make_census(50).schema, models, k=5)


@given(st.floats(0, 0.5), st.floats(0, 0.5))
def test_who_accepts_more_loss_affords_no_less(one, two):
    found = rows_of({5: [0.0, 0.01], 10: [0.02, 0.04], 50: [0.01, 0.3]})
    low, high = sorted((one, two))
    assert (found.affordable(low)[0].k or 0) <= (found.affordable(high)[0].k or 0)


def test_k_that_cannot_be_reached_is_an_error_in_its_row():
    found = measure(k=(5, 10_000))
    reached, missed = found.rows[:2], found.rows[2:]
    assert all(row["error"] is None for row in reached)
    for row in missed:
        assert "k=10000 cannot be reached" in row["error"]
        assert math.isnan(row["accuracy"])
        assert row["groups"] is None
        assert row["raw_accuracy"] > 0.5
    assert found.to_frame()["error"].null_count() == 2
    assert "not reached" in repr(found)


def test_rows_are_a_frame_and_a_file(found, tmp_path):
    frame = found.to_frame()
    assert frame.height == 12
    assert frame.schema["k"] == pl.Int64
    assert frame.schema["error"] == pl.String
    found.to_csv(tmp_path / "rows.csv")
    assert pl.read_csv(tmp_path / "rows.csv")["accuracy"].to_list() == frame["accuracy"].to_list()


def test_it_shows_itself(found):
    assert "one, mondrian, k = 5: " in repr(found)
    assert found._repr_html_().count("<tr>") == 5
    assert "<b>" not in evaluate(SMALL, SCHEMA, {"<b>": "tree"}, k=5, seeds=1)._repr_html_()


# Bad input


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        ({"model": "forrest"}, "no model 'forrest'"),
        ({"model": {}}, "No model is given"),
        ({"model": 7}, "which cannot be trained"),
        ({"model": DecisionTreeClassifier}, "which cannot be trained"),
        ({"model": LinearRegression()}, "not a model for classification"),
        ({"model": {"x": make_pipeline(DecisionTreeClassifier())}}, "The model 'x' cannot be trained"),
        ({"model": DecisionTreeClassifier().fit(pl.DataFrame({"age": [1, 2], "size": [1, 2]}), [0, 1])},
         "'DecisionTreeClassifier' was trained on a column 'size', which is not a feature"),
        ({"model": DecisionTreeClassifier().fit(pl.DataFrame({"income": [1, 2]}), [0, 1])}, "a column 'income'"),
        ({"methods": ["mondriaan"]}, "no method 'mondriaan'"),
        ({"methods": []}, "No method is given"),
        ({"methods": 5}, "A method is a name"),
        ({"methods": ["mondrian", "mondrian"]}, "labelled 'mondrian'"),
        ({"methods": [("a", "mondrian", {"depth": 3})]}, "no option 'depth'"),
        ({"methods": [("a", "mondrian", {"k": 3})]}, "no option 'k' to set here"),
        ({"methods": [("a", "mondrian", 3)]}, "A method is a name"),
        ({"k": "ten"}, "k must be a whole number of at least 1, got 'ten'"),
        ({"k": 2.5}, "k must be a whole number of at least 1, got 2.5"),
        ({"k": [5, 0]}, "k must be a whole number of at least 1, got 0"),
        ({"k": True}, "got True"),
        ({"k": ()}, "k is empty"),
        ({"seeds": 0}, "seeds must be a whole number of at least 1, got 0"),
        ({"seeds": [-1]}, "seeds must be a whole number from 0 to 4,294,967,295, got -1"),
        ({"seeds": [0, 2**32]}, "got 4294967296"),
        ({"seeds": ()}, "seeds is empty"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0 or None, got 0: -1 uses all cores"),
        ({"n_jobs": "all"}, "got 'all'"),
        ({"n_jobs": True}, "got True"),
        ({"seeds": "many"}, "got 'many'"),
        ({"test_size": 1.5}, "test_size=1.5"),
        ({"test_size": "half"}, "test_size='half'"),
        ({"test_size": 0.9, "train_size": 0.9}, "train_size=0.9"),
        ({"recoding": "interval"}, "recoding='interval' does not suit"),
        ({"recoding": "nonsense"}, "recoding='nonsense'"),
        ({"constraints": [KMap(3, "sex")]}, "leave it out"),
        ({"constraints": [5]}, "5"),
        ({"options": {"depth": 3}}, "no option 'depth'"),
        ({"schema": SCHEMA.with_roles(other=["income"])}, "has no target"),
        ({"schema": "schema.toml"}, "A Schema is needed"),
        ({"frame": FRAME.filter(pl.col("income").cast(pl.String) == ">50K")}, "only the value '>50K'"),
        ({"frame": FRAME.drop("age")}, "'age'"),
        ({"frame": FRAME[:0]}, "no rows"),
        ({"frame": [1, 2]}, "this is a list"),
        ({"model": {"f": make_pipeline(FunctionTransformer(lambda X: X), Dull())}, "store": "s.jsonl"},
         "cannot be serialized"),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_one_sentence_before_anything_is_measured(change, culprit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ShoalError) as caught:
        measure(**change)
    text = str(caught.value)
    assert culprit in text
    assert text.endswith(".")
    assert "\n" not in text


def test_a_bad_number_of_jobs_is_told_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("shoal.jobs.evaluate.plan_models", None)
    with pytest.raises(ShoalError, match="n_jobs must be"):
        measure(n_jobs=0, store=tmp_path / "cells.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_bad_store_is_told_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("shoal.jobs.evaluate._measure", None)
    (tmp_path / "people.csv").write_text("age,zip\n31,8010\n")
    for store, culprit in (
        (tmp_path / "nowhere" / "cells.jsonl", "does not exist"),
        (tmp_path, "is a folder"),
        (tmp_path / "people.csv", "Line 1 of"),
    ):
        with pytest.raises(ShoalError, match=culprit):
            measure(store=store)
    assert (tmp_path / "people.csv").read_text() == "age,zip\n31,8010\n"


def test_a_loss_that_is_no_number_is_refused(found):
    for loss in ("1 %", math.nan, None):
        with pytest.raises(ShoalError, match="loss must be a number, got .*: 0.01 is one percentage point"):
            found.affordable(loss)


def test_the_function_stays_the_function():
    assert callable(shoal.evaluate)
    assert shoal.evaluate is shoal.evaluate is evaluate
