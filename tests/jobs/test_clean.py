"""Cleaning a table of queries: what is sent, what is measured, what the command says; and who learns again."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shoal import NullSpaceCleaner, clean, make_model
from shoal.attacks.query_errors import complete_privacy, privacy_errors
from shoal.attacks.relearn import LEARNERS, relearn
from shoal.cli import run
from shoal.datasets import make_census
from shoal.errors import DataError, ShoalError
from shoal.models import save_model

CENSUS = make_census(1500)
FRAME = CENSUS.frame.with_columns(CENSUS.frame["education"].cast(str), CENSUS.frame["sex"].cast(str))
NUMBERS = ["age", "hours-per-week", "capital-gain"]
MODEL = make_pipeline(StandardScaler(), LogisticRegression()).fit(FRAME.select(NUMBERS), FRAME["income"].to_numpy())


class Untouched:
    """Rows as they are."""

    def transform(self, X):
        return X


@pytest.fixture(scope="module")
def found():
    return clean(FRAME[:300], MODEL, 0.05, rows=FRAME[300:], secret=["sex", "hours-per-week"], learners=["linear"])


def test_only_features_are_sent(found):
    assert found.frame.columns == NUMBERS
    assert "person-id" in found.left_out
    assert found.moved.largest <= 0.05 * (1 + 1e-9)
    logits = MODEL.decision_function(found.frame), MODEL.decision_function(FRAME[:300].select(NUMBERS))
    assert np.isclose(found.moved.largest, ((logits[0] - logits[1]) ** 2).max())
    assert found.moved.same_answers == np.mean(MODEL.predict(found.frame) == MODEL.predict(FRAME[:300].select(NUMBERS)))
    assert 0 < found.moved.relative < 1


def test_adversaries_get_less_than_from_raw_rows(found):
    (hours,), (sex,) = found.relearned["hours-per-week"], found.relearned["sex"]
    assert hours.task == "numbers"
    assert hours.raw_error.value < 0.01 < 0.5 < hours.error.value
    assert hours.accuracy is None
    assert sex.task == "classes"
    assert sex.accuracy.low <= sex.accuracy.value <= sex.accuracy.high
    assert sex.error.low <= sex.error.value <= sex.error.high
    assert 0 <= sex.complete_privacy.value <= 1
    assert sex.rows == hours.rows == round(0.3 * 1200)


def test_the_verdict_names_what_is_left(found):
    assert "1 direction remains" in found.verdict
    assert "hours-per-week" in found.verdict
    assert "LogisticRegression" in repr(found)
    facts = json.loads(json.dumps(found.facts()))
    assert facts["moved"]["largest"] == found.moved.largest
    assert facts["relearned"]["sex"][0]["advantage"] == found.relearned["sex"][0].advantage


def test_queries_of_any_library_come_back_as_they_came():
    for frame in (FRAME[:20].select(NUMBERS).to_pandas(), FRAME[:20].select(NUMBERS).to_arrow()):
        assert type(clean(frame, MODEL, 0.0).frame) is type(frame)


def test_models_of_shoal_keep_what_they_encode():
    model = make_model("logistic", CENSUS.schema).fit(FRAME, FRAME["income"].to_numpy())
    cleaning = clean(FRAME[:50], model, 0.0, rows=FRAME)
    assert cleaning.moved.same_answers == 1.0
    assert "education" in cleaning.facts()["kept"]
    assert cleaning.frame["education"].to_list() == FRAME["education"][:50].to_list()


def test_features_may_be_secrets_themselves():
    model = LinearRegression().fit(FRAME.select("age", "capital-gain"), FRAME["hours-per-week"].to_numpy())
    cleaning = clean(FRAME[:50], model, 0.5, rows=FRAME, secret="age", learners=["linear"])
    assert cleaning.moved.same_answers is None
    assert cleaning.moved.largest_change <= np.sqrt(0.5) * (1 + 1e-9)
    (age,) = cleaning.relearned["age"]
    assert age.raw_error.value < 1e-3 < age.error.value


def test_values_stay_within_those_seen():
    cleaning = clean(FRAME[:200], MODEL, 0.0, rows=FRAME, bounds="seen")
    for name in NUMBERS:
        assert FRAME[name].min() <= cleaning.frame[name].min()
        assert cleaning.frame[name].max() <= FRAME[name].max()
    assert cleaning.moved.largest < 1e-12


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"secret": "sex"}, "Secrets need rows"),
        ({"secret": "shoe size", "rows": FRAME}, "There is no secret 'shoe size'"),
        ({"secret": "person-id", "rows": FRAME.with_columns(FRAME["person-id"].cast(str))}, "different values that"),
        ({"secret": "sex", "rows": FRAME[:30]}, "Only 30 training rows have no missing values"),
        ({"rows": FRAME.drop("age")}, "Column 'age' is missing from the training rows"),
        ({"epsilon": -1}, "epsilon must be a number of at least 0, got -1"),
        ({"mode": "some"}, "mode must be 'exact', .*, got 'some'"),
        ({"keep": ["shoe size"]}, "There is no feature 'shoe size'"),
        ({"secret": "sex", "rows": FRAME, "learners": ["luck"]}, "There is no learner 'luck'"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, sentence):
    with pytest.raises(ShoalError, match=sentence):
        clean(FRAME[:20], MODEL, **arguments)


def test_predictors_that_do_not_fit_get_one_sentence():
    with pytest.raises(DataError, match="Column 'age' is missing from the queries"):
        clean(FRAME.drop("age"), MODEL)
    with pytest.raises(DataError, match="uses 3 features without names"):
        clean(FRAME, np.ones(3))
    with pytest.raises(ShoalError, match="does not begin with a linear stage"):
        clean(FRAME, RandomForestClassifier(2).fit(FRAME.select(NUMBERS), FRAME["income"].to_numpy()))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("several", [False, True])
def test_learners_find_what_is_there_and_nothing_where_there_is_nothing(learner, several):
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 4))
    secret = X[:, :2] + 0.1 * random.normal(size=(1500, 2)) if several else X[:, 0]
    hidden = NullSpaceCleaner(np.eye(4)[:, 2:], 0.0).fit(X)
    (open_rows,) = relearn(Untouched(), X, secret, learners=[learner])
    (closed,) = relearn(hidden, X, secret, learners=[learner])
    assert open_rows.beats_baseline
    assert open_rows.error.value < 0.2
    assert not closed.beats_baseline
    assert closed.raw_error.value < 0.2
    assert np.isclose(closed.squared_error / closed.baseline_error, closed.error.value)


@pytest.mark.parametrize("learner", LEARNERS)
def test_classes_are_guessed_too(learner):
    random = np.random.default_rng(0)
    X = random.normal(size=(900, 3))
    secret = np.where(X[:, 0] > 0.3, "ill", "well")
    (found,) = relearn(Untouched(), X, secret, learners=[learner])
    assert found.task == "classes"
    assert found.accuracy.value > 0.9 > found.baseline_accuracy
    (hidden,) = relearn(NullSpaceCleaner([0.0, 1.0, 0.0], 0.0).fit(X), X, secret, learners=[learner])
    assert abs(hidden.accuracy.value - hidden.baseline_accuracy) < 0.1


def test_adversaries_of_ones_own_and_rows_to_guess():
    random = np.random.default_rng(0)
    X, secret = random.normal(size=(200, 3)), random.normal(size=200)
    (found,) = relearn(
        Untouched(), X[:150], secret[:150], test=(X[150:], secret[150:]), learners={"mine": Ridge()}, task="numbers"
    )
    guess = Ridge().fit(X[:150], secret[:150]).predict(X[150:])
    assert found.learner == "mine"
    assert found.rows == 50
    assert np.isclose(found.squared_error, ((guess - secret[150:]) ** 2).mean())
    assert np.isclose(found.baseline_error, ((secret[150:] - secret[:150].mean()) ** 2).mean())
    further = (guess - secret[150:]) ** 2 > (secret[150:] - secret[:150].mean()) ** 2
    assert np.isclose(found.complete_privacy.value, further.mean())


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (np.ones((5, 2)), np.arange(5.0), "too few to train"),
        (np.ones((30, 2)), np.zeros(30, int), "All rows have the same secret"),
        (np.ones((30, 2)), np.full(30, 0.5), "All rows have the same secret"),
        (np.ones((30, 2)), np.array([None, *"ab" * 14, "a"], object), "secret is missing"),
        (np.ones((30, 2)), np.ones((30, 2), str), "2 columns of classes"),
        (np.ones((30, 2)), np.full(30, np.nan), "secret is missing"),
        (np.ones((30, 2)), np.arange(31) % 2, "pass one per row"),
    ],
)
def test_hopeless_attacks_get_one_sentence(X, y, sentence):
    with pytest.raises(ShoalError, match=sentence):
        relearn(Untouched(), X, y)


def test_odd_attacks_get_one_sentence():
    X, texts = np.random.default_rng(0).normal(size=(60, 2)), np.array(["a", "b"] * 30)
    with pytest.raises(ShoalError, match="task must be 'numbers', 'classes' or None, got 'x'"):
        relearn(Untouched(), X, texts, task="x")
    with pytest.raises(ShoalError, match="choose task='classes'"):
        relearn(Untouched(), X, texts, task="numbers")
    with pytest.raises(ShoalError, match="test_size must be a number above 0 and below 1, got 2"):
        relearn(Untouched(), X, texts, test_size=2)
    with pytest.raises(DataError, match="has another type"):
        relearn(Untouched(), X, texts, test=(X, X[:, 0]))
    with pytest.raises(DataError, match="for 50 rows"):
        relearn(Untouched(), X[:50], texts, test=(X[:50], texts[:40]))
    with pytest.raises(DataError, match="No test row has a secret"):
        relearn(Untouched(), X, texts, test=(X, np.array(["c", "d"] * 30)))


@pytest.mark.parametrize("learner", LEARNERS)
def test_rare_classes_do_not_stop_an_adversary(learner):
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    secret = np.where(np.arange(400) < 3, "rare", "common")
    for seed in range(3):
        (found,) = relearn(Untouched(), X, secret, learners=[learner], random_state=seed)
        assert found.rows > 0


def test_a_predictor_that_is_not_what_it_seems_is_refused():
    class Sly(LogisticRegression):
        pass

    model = Sly().fit(FRAME.select(NUMBERS), FRAME["income"].to_numpy())
    Sly.decision_function = lambda self, rows: np.asarray(rows)[:, 1] - 40.0
    Sly.decision_function.__module__ = "sklearn"
    with pytest.raises(ShoalError, match="uses rows in another way"):
        clean(FRAME[:100], model, 0.0, rows=FRAME)


def test_the_measures_of_the_paper():
    assert privacy_errors([1.0, 2.0], [1.0, 4.0]).tolist() == [0, 4]
    assert complete_privacy([[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]], [0.5, 0.5]) == 0.5
    with pytest.raises(DataError, match="pass equal shapes"):
        privacy_errors([1.0, 2.0], [1.0])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME[:1200].write_csv("train.csv")
    FRAME[1200:].write_csv("queries.csv")
    save_model(MODEL, "model.skops")
    return tmp_path


def test_the_command_cleans_and_says_what_is_left(folder, capsys):
    command = "clean queries.csv --predictor model.skops --epsilon 0.05 --confidential train.csv:hours-per-week"
    assert run([*command.split(), "--out", "out.csv"]) == 0
    shown = capsys.readouterr().out
    assert "How well an adversary recovers hours-per-week from cleaned rows" in shown
    assert "same answers" in shown
    cleaned = pl.read_csv("out.csv")
    assert cleaned.columns == NUMBERS
    assert cleaned.height == 300


def test_the_command_prints_json_and_takes_onnx(folder, capsys):
    onnx = pytest.importorskip("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "model",
        [helper.make_tensor_value_info("x", types.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("y", types.FLOAT, [None, 1])],
        [onnx.numpy_helper.from_array(np.array([[0.1], [0.2], [0.0]], np.float32), "w")],
    )
    onnx.save(helper.make_model(graph), "model.onnx")
    pl.read_csv("queries.csv").select(NUMBERS).write_parquet("numbers.parquet")
    command = "clean numbers.parquet --predictor model.onnx --mode exact --json --out out.parquet"
    assert run(command.split()) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rank"] == 1
    assert facts["moved"]["largest"] < 1e-12
    assert pl.read_parquet("out.parquet").height == 300


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--predictor none.skops", "There is no file 'none.skops'"),
        ("--predictor model.skops --confidential train.csv", "must have the form file:column"),
        ("--predictor model.skops --confidential train.csv:no", "There is no secret 'no'"),
        ("--predictor model.skops --confidential train.csv:sex --rows queries.csv", "use one file of training rows"),
        ("--predictor model.skops --out queries.csv", "would overwrite 'queries.csv'"),
        ("--predictor model.skops --epsilon much", "'much' is not a number"),
        ("--predictor model.skops --epsilon -1", "epsilon must be a number of at least 0, got -1.0"),
        ("--predictor model.skops --mode all", "--mode"),
        ("--predictor queries.csv", "Shoal loads models from"),
    ],
)
def test_bad_commands_get_one_sentence(folder, capsys, options, sentence):
    assert run(["clean", "queries.csv", *options.split()]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not Path("cleaned.csv").exists()
