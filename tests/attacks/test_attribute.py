"""Guessing one value of a row: formulas against slow twins, members against controls, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from shoal import (
    AccuracyGuided,
    PrivacyBoostClassifier,
    PrivacyForestClassifier,
    PrivacyTreeClassifier,
    ProtectedModel,
)
from shoal.attacks._inversion import ModelRows, count_errors, set_up, weigh_leaves
from shoal.attacks.attribute import ATTRIBUTE_VALUE, infer_attribute
from shoal.attacks.registry import attacks_on
from shoal.attacks.trees import find_trees, sum_leaves
from shoal.data.frames import convert
from shoal.datasets import fetch_nursery, make_census
from shoal.errors import DataError, ShoalError
from shoal.evaluation.comparison import _accuracies
from shoal.intervals import paired_difference
from shoal.models import features, make_model, read_target

CENSUS = make_census(900, seed=0)
KNOWN = CENSUS.frame.select(features(CENSUS.schema))
INCOME = read_target(CENSUS.frame, CENSUS.schema)
ATTACKS = {one.name: one.view for one in attacks_on(ATTRIBUTE_VALUE)}
FAST = {"learner": DecisionTreeClassifier(max_depth=5, min_samples_leaf=10, random_state=0)}


def table_of(n=160, n_values=3, column=0, seed=0):
    """Rows of small whole numbers, one column of which decides much, and a target of three classes."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 4, (n, 4)).astype(float)
    X[:, column] = random.integers(0, n_values, n)
    y = (X[:, column] + X.sum(axis=1) // 3 + random.integers(0, 2, n)) % 3
    return X, y


# The white-box attack and its slow twin, which looks at one row, one value and one tree at a time.


def single_trees(model):
    """(vote, tree) of scikit-learn's and our ensembles, with functions of one row."""
    if hasattr(model, "weighted_trees"):
        return [(vote, tree.n_node_samples, tree.apply) for vote, tree in model.weighted_trees()]
    each = [model] if hasattr(model, "tree_") else np.ravel(np.array(model.estimators_, dtype=object)).tolist()
    votes = getattr(model, "estimator_weights_", np.ones(len(each)))
    return [(vote, one.tree_.n_node_samples, one.apply) for vote, one in zip(votes, each)]


def guess_row_by_row(model, rows, column, values, prior):
    trees, guesses, risks = single_trees(model), [], []
    for row in rows:
        known = model.predict(row[None])[0]
        weight, matches = [], []
        for value, before in zip(values, prior):
            dummy = row.copy()
            dummy[column] = value
            matches.append(np.isclose(model.predict(dummy[None])[0], known))
            leaves = [vote * rows_of[apply(dummy[None])[0]] / rows_of[0] for vote, rows_of, apply in trees]
            weight.append(sum(leaves) * before)
        if any(matches) and not all(matches):
            weight = [w if match else 0.0 for w, match in zip(weight, matches)]
        guesses.append(int(np.argmax(weight)))
        risks.append(max(weight) / sum(weight))
    return np.array(guesses), np.array(risks)


MODELS = [
    DecisionTreeClassifier(random_state=0),
    DecisionTreeClassifier(max_depth=3, random_state=0),
    DecisionTreeRegressor(max_depth=4, random_state=0),
    RandomForestClassifier(4, random_state=0),
    RandomForestRegressor(3, random_state=0),
    ExtraTreesClassifier(3, max_depth=4, random_state=0),
    AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=0),
    GradientBoostingClassifier(n_estimators=2, random_state=0),
    PrivacyTreeClassifier(sensitivity={0: 1.0}, penalty=0.2),
    PrivacyForestClassifier(3, random_state=0),
    PrivacyBoostClassifier(4, max_depth=2),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("column", [0, 3])
def test_trees_are_inverted_as_by_trying_row_by_row(model, column):
    X, y = table_of(n_values=3 + column // 3, column=column, seed=column)
    X, members, controls = X + 0.0, X[:100], X[100:]
    model.fit(members, y[:100])
    scene = set_up(members, controls, column, None, 0)
    (found,) = infer_attribute(model, members, controls, column, attacks=["white-box"], **FAST)
    judged = np.concatenate(scene.judged)
    guesses, risks = guess_row_by_row(model, X[judged], column, np.unique(X[:, column]), scene.prior)
    right, n = guesses == X[judged, column], len(scene.judged[0])
    assert found.rows == n == 50
    assert found.accuracy.value == pytest.approx(right[:n].mean())
    assert found.control.value == pytest.approx(right[n:].mean())
    assert found.risks[scene.judged[0]] == pytest.approx(risks[:n])
    assert np.isnan(np.delete(found.risks, scene.judged[0])).all()


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("n_values", [2, 5])
def test_any_column_and_any_number_of_values(column, n_values):
    X, y = table_of(n_values=n_values, column=column, seed=10 + column)
    tree = DecisionTreeClassifier(max_depth=5, random_state=0).fit(X[:100], y[:100])
    scene = set_up(X[:100], X[100:], column, None, 1)
    (found,) = infer_attribute(tree, X[:100], X[100:], column, attacks="white-box", random_state=1, **FAST)
    guesses, _ = guess_row_by_row(tree, X[scene.judged[0]], column, np.unique(X[:, column]), scene.prior)
    assert found.accuracy.value == pytest.approx((guesses == X[scene.judged[0], column]).mean())
    assert (found.recall is None) == (n_values > 2)


def test_formula_four_by_hand():
    # A stump on the attacked feature: 6 training rows on the left, 2 on the right, and both sides answer 0.
    X = np.array([[0.0]] * 6 + [[1.0]] * 2)
    y = np.array([0, 0, 0, 0, 0, 0, 0, 1])
    tree = DecisionTreeClassifier(max_depth=1).fit(X, y)
    leaves = np.column_stack([sum_leaves(find_trees(tree), np.full((1, 1), value)) for value in (0.0, 1.0)])
    assert leaves.tolist() == [[0.75, 0.25]]
    answers = np.array([[0, 0]])
    # 0.75 · 0.2 < 0.25 · 0.8, so the smaller leaf wins by its prior.
    assert weigh_leaves(leaves, answers, np.array([0]), np.array([0.2, 0.8])).tolist() == [pytest.approx([0.15, 0.2])]
    # Where answers differ, the known one decides, whatever the leaves say.
    differing = np.array([[0, 1]])
    assert weigh_leaves(leaves, differing, np.array([1]), np.array([0.9, 0.1])).tolist() == [pytest.approx([0, 0.025])]
    # A known answer that no value leads to says nothing.
    assert weigh_leaves(leaves, differing, np.array([2]), np.array([0.5, 0.5])).tolist() == [
        pytest.approx([0.375, 0.125])
    ]


def test_of_several_values_only_those_that_lead_to_the_answer_are_weighed():
    leaves, prior = np.array([[0.5, 0.3, 0.2]] * 3), np.array([0.2, 0.3, 0.5])
    said = np.array([["a", "b", "b"], ["a", "a", "a"], ["a", "b", "c"]])
    weights = weigh_leaves(leaves, said, np.array(["b", "a", "z"]), prior)
    assert weights == pytest.approx(np.array([[0, 0.09, 0.1], [0.1, 0.09, 0.1], [0.1, 0.09, 0.1]]))


class Counting:
    """A model that counts how often it is asked."""

    def __init__(self, model):
        self.best_estimator_, self.calls = model, 0

    def predict(self, X):
        self.calls += 1
        return self.best_estimator_.predict(X)


def test_the_model_is_asked_once_a_table_and_value():
    X, y = table_of(n=600)
    model = Counting(DecisionTreeClassifier().fit(X[:400], y[:400]))
    infer_attribute(model, X[:400], X[400:], 0, attacks=["white-box", "black-box"], **FAST)
    assert model.calls == 2 + 2 * 3


def test_trees_are_found_behind_pipelines_searches_and_releases():
    X, y = table_of()
    tree = DecisionTreeClassifier(random_state=0)
    direct = sum_leaves(find_trees(tree.fit(X, y)), X)
    pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0)).fit(X, y)
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [None]}, cv=2).fit(X, y)
    for model in (pipeline, search, make_pipeline(tree)):
        assert sum_leaves(find_trees(model), X) == pytest.approx(direct)
    anonymizer = AccuracyGuided(CENSUS.schema, k=10, guide=0.7)
    protected = ProtectedModel(make_model("tree", CENSUS.schema), anonymizer).fit(CENSUS.frame)
    (found,) = infer_attribute(protected, KNOWN[:450], KNOWN[450:], "sex", attacks=["white-box"], **FAST)
    assert 0 < found.accuracy.value < 1


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        HistGradientBoostingClassifier(max_iter=2),
        BaggingClassifier(n_estimators=2),
        AdaBoostClassifier(RandomForestClassifier(2), n_estimators=2),
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_is_no_tree_is_not_opened(model):
    X, y = table_of()
    model.fit(X[:100], y[:100])
    with pytest.raises(ShoalError, match="'white-box' does not apply, because .* is not a model of trees"):
        infer_attribute(model, X[:100], X[100:], 0, attacks=["white-box"])
    assert [one.attack for one in infer_attribute(model, X[:100], X[100:], 0, **FAST)] == list(ATTACKS)[:3]


# What attacks find, and do not find.


def test_a_memorised_value_is_told_from_a_correlated_one():
    random = np.random.default_rng(0)
    X = random.integers(0, 30, (3000, 3)).astype(float)
    X[:, 2] = random.integers(0, 2, 3000)
    y = random.integers(0, 2, 3000)
    members, controls = X[:1500], X[1500:]
    tree = DecisionTreeClassifier(random_state=0).fit(members, y[:1500])
    (found,) = infer_attribute(
        tree, members, controls, 2, y_members=y[:1500], y_controls=y[1500:], attacks=["fredrikson"], **FAST
    )
    assert found.beats_baseline
    assert found.accuracy.low > found.control.high
    # What follows from another feature is guessed as well of people whom the model never saw.
    X[:, 2] = X[:, 0] > 14
    tree = DecisionTreeClassifier(random_state=0).fit(members, y[:1500])
    for found in infer_attribute(tree, members, controls, 2, attacks=["ideal", "black-box"], **FAST):
        assert found.control.value > 0.95
        assert found.attack == "ideal" or not found.beats_baseline


def test_full_depth_trees_give_a_decisive_feature_away():
    X, y = make_classification(1200, 6, n_informative=3, n_redundant=0, random_state=0)
    secret = np.random.default_rng(1).integers(0, 3, 1200)
    X = np.column_stack([X, secret])
    y = (y + secret) % 3
    tree = DecisionTreeClassifier(random_state=0).fit(X[:600], y[:600])
    found = {one.attack: one for one in infer_attribute(tree, X[:600], X[600:], -1, y_members=y[:600], **FAST)}
    assert list(found) == list(ATTACKS)
    assert not found["ideal"].beats_baseline
    for name in ("white-box", "fredrikson"):
        assert found[name].beats_baseline
        assert found[name].accuracy.value > 0.75
    assert found["fredrikson"].control is None
    assert "labels of controls" in found["fredrikson"].note


def test_a_model_that_never_saw_the_feature_gives_nothing_away():
    X = KNOWN.with_columns(pl.Series("sex", np.random.default_rng(3).choice(["f", "m"], len(KNOWN))))
    others = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["education"]), ("passthrough", ["age"]))
    model = make_pipeline(others, DecisionTreeClassifier(random_state=0)).fit(X[:450].to_pandas(), INCOME[:450])
    rows = X.to_pandas()
    for found in infer_attribute(model, rows[:450], rows[450:], "sex", y_members=INCOME[:450], **FAST):
        assert not found.beats_baseline
        assert found.warning
        assert found.advantage.high < 0.2


def test_of_a_permuted_feature_nothing_is_guessed():
    X, y = table_of(n=1200, n_values=2)
    X[:, 0] = np.random.default_rng(5).permutation(X[:, 0])
    model = DecisionTreeClassifier(min_samples_leaf=60, random_state=0).fit(X[:600], y[:600])
    for found in infer_attribute(model, X[:600], X[600:], 0, y_members=y[:600], y_controls=y[600:], **FAST):
        assert found.advantage.low <= 0, found.attack
        assert found.advantage.high > -0.15


def test_nursery_is_attacked_as_well_as_measured_elsewhere(data_folder):
    nursery = fetch_nursery(boolean_social=True)
    y = read_target(nursery.frame, nursery.schema)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = nursery.frame.select(features(nursery.schema))[order], y[order]
    n = int(0.8 * len(y))
    model = make_model("tree", nursery.schema).fit(X[:n], y[:n])
    ideal, white_box = infer_attribute(
        model, X[:n], X[n:], "social", attacks=["ideal", "white-box"], learner="boosting"
    )
    assert white_box.rows == 5183
    assert white_box.baseline.value == pytest.approx(0.6745, abs=0.02)
    assert white_box.accuracy.value == pytest.approx(0.697, abs=0.02)
    assert white_box.precision.value == pytest.approx(0.595, abs=0.03)
    assert white_box.recall.value == pytest.approx(0.213, abs=0.02)
    assert white_box.beats_baseline
    # The table holds every combination of features once: nothing can be learned from the others.
    assert ideal.accuracy.value < white_box.baseline.value
    assert "less accurate than guessing the most frequent value" in ideal.note


# The attack by errors.


def test_errors_are_counted_and_smoothed():
    said, labels = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    assert count_errors(said, labels, 2) == pytest.approx(np.array([[2.5 / 4, 1.5 / 4], [0.25, 0.75]]))


def test_fredrikson_is_the_formula_row_by_row():
    X, y = table_of(n=200)
    model = LogisticRegression().fit(X[:120], y[:120])
    scene = set_up(X[:120], X[120:], 0, None, 0)
    (found,) = infer_attribute(
        model, X[:120], X[120:], 0, y_members=y[:120], y_controls=y[120:], attacks=["fredrikson"], **FAST
    )
    train = scene.train[scene.train < 120]
    right = []
    for row in np.concatenate(scene.judged):
        weight = []
        for value, prior in enumerate(scene.prior):
            dummy = X[row].copy()
            dummy[0] = value
            said = model.predict(dummy[None])[0]
            same = model.predict(X[train]) == said
            hits = (y[train][same] == y[row]).sum()
            weight.append(prior * (hits + 0.5) / (same.sum() + 1.5))
        right.append(np.argmax(weight) == X[row, 0])
    n = len(scene.judged[0])
    assert found.accuracy.value == pytest.approx(np.mean(right[:n]))
    assert found.control.value == pytest.approx(np.mean(right[n:]))


def test_numbers_that_a_model_answers_are_compared_by_its_residuals():
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(size=(600, 2)), random.integers(0, 3, 600)])
    y = X[:, 0] + 2 * X[:, 2] + random.normal(0, 0.3, 600)
    for model in (LinearRegression(), DecisionTreeRegressor(max_depth=5), DecisionTreeRegressor()):
        model.fit(X[:300], y[:300])
        found = infer_attribute(model, X[:300], X[300:], 2, y_members=y[:300], y_controls=y[300:], **FAST)
        by_name = {one.attack: one for one in found}
        assert "black-box probabilities" not in by_name
        assert by_name["fredrikson"].accuracy.value > 0.85
        assert by_name["black-box"].beats_baseline


# Tables, arrays, and what stays the same.


@pytest.mark.parametrize("feature", ["sex", "education", "age"])
def test_all_libraries_agree(feature):
    model = make_model("tree", CENSUS.schema).fit(KNOWN[:450], INCOME[:450])
    settings = {"bins": 3 if feature == "age" else None, **FAST}
    found = []
    for kind in ("polars", "pandas", "pyarrow"):
        rows = [convert(part, kind) for part in (KNOWN[:450], KNOWN[450:])]
        results = infer_attribute(model, *rows, feature, y_members=INCOME[:450], y_controls=INCOME[450:], **settings)
        found.append([one._replace(risks=one.risks.tolist().__repr__(), seconds=0.0) for one in results])
    assert found[0] == found[1] == found[2]
    assert {one.secret for one in found[0]} == {f"the value of {feature}"}


def test_rows_keep_their_type_when_a_value_is_tried():
    frame = pd.DataFrame({"a": pd.Categorical(["x", "y", "x"]), "b": [1, 2, 3]}, index=[7, 7, 2])
    rows = ModelRows(convert_to_narwhals(frame))
    tried = rows.filled(0, rows, 1)
    assert tried["a"].tolist() == ["y", "y", "y"]
    assert tried.dtypes.tolist() == frame.dtypes.tolist()
    assert tried.index.tolist() == [7, 7, 2]
    assert frame["a"].tolist() == ["x", "y", "x"]
    other = ModelRows(convert_to_narwhals(pd.DataFrame({"a": ["z"], "b": [1]})))
    assert other.filled(0, rows, 0)["a"].tolist() == ["x"]
    array = ModelRows(np.array([[1, 2], [3, 4]]))
    assert array.filled(1, array, 0).tolist() == [[1, 2], [3, 2]]
    assert array.native.tolist() == [[1, 2], [3, 4]]


def convert_to_narwhals(frame):
    from shoal.data.frames import open_frame

    return open_frame(frame)


def test_a_table_and_its_array_agree():
    X, y = table_of(n=300)
    tree = DecisionTreeClassifier(random_state=0).fit(X[:200], y[:200])
    frame = pl.DataFrame(X, schema=["a", "b", "c", "d"])
    by_array = infer_attribute(tree, X[:200], X[200:], 1, **FAST)
    by_table = infer_attribute(tree, frame[:200], frame[200:].select("d", "c", "b", "a"), "b", **FAST)
    by_position = infer_attribute(tree, frame[:200], frame[200:], 1, **FAST)
    for one, two, three in zip(by_array, by_table, by_position):
        assert one.accuracy == two.accuracy == three.accuracy
        assert one.control == two.control == three.control
        assert np.array_equal(one.risks, two.risks, equal_nan=True)


def test_texts_and_booleans_in_arrays():
    X, y = table_of(n=200, n_values=2)
    words = np.array([["no", "yes"][int(v)] for v in X[:, 0]], dtype=object)
    objects = np.column_stack([words, X[:, 1:].astype(object)])
    prepare = ColumnTransformer([("names", OneHotEncoder(), [0])], remainder="passthrough")
    model = make_pipeline(prepare, DecisionTreeClassifier(random_state=0)).fit(objects[:100], y[:100])
    plain = DecisionTreeClassifier(random_state=0).fit(X[:100], y[:100])
    of_words = infer_attribute(model, objects[:100], objects[100:], 0, attacks=["white-box"], **FAST)[0]
    of_numbers = infer_attribute(plain, X[:100], X[100:], 0, attacks=["white-box"], **FAST)[0]
    assert of_words.baseline == of_numbers.baseline
    flags = X > 0
    model = DecisionTreeClassifier(random_state=0).fit(flags[:100], y[:100])
    assert len(infer_attribute(model, flags[:100], flags[100:], 0, **FAST)) == 4


def test_missing_values_of_the_feature_are_left_out_and_others_are_borne():
    frame = KNOWN.with_columns(
        pl.when(pl.int_range(len(KNOWN)) % 10 == 0).then(None).otherwise(pl.col("sex")).alias("sex"),
        pl.when(pl.int_range(len(KNOWN)) % 7 == 0).then(None).otherwise(pl.col("age")).alias("age"),
    )
    model = make_model("tree", CENSUS.schema).fit(frame[:450], INCOME[:450])
    for found in infer_attribute(model, frame[:450], frame[450:], "sex", y_members=INCOME[:450], **FAST):
        assert found.rows == 202
        assert "90 rows without a value were left out." in found.note
        assert np.isnan(found.risks[::10]).all()


def test_a_value_of_one_table_only_is_no_trouble():
    X, y = table_of(n=300)
    X[0, 0], X[250:252, 0] = 9.0, 8.0
    tree = DecisionTreeClassifier(random_state=0).fit(X[:200], y[:200])
    assert len(infer_attribute(tree, X[:200], X[200:], 0, y_members=y[:200], **FAST)) == 5


@pytest.mark.parametrize("kind", ["number", "date"])
def test_continuous_features_are_guessed_in_ranges(kind):
    random = np.random.default_rng(0)
    days = random.integers(0, 3000, 1000)
    frame = pd.DataFrame({"when": days, "other": random.normal(size=1000)})
    y = (days > 1500).astype(int)
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(frame[:500].to_numpy(), y[:500])
    if kind == "date":
        frame["when"] = pd.Timestamp("2000-01-01") + pd.to_timedelta(frame["when"], unit="D")
        model = Days(model)
    with pytest.raises(DataError, match=r"'when' has \d+ different values, more than 50: pass bins"):
        infer_attribute(model, frame[:500], frame[500:], "when", **FAST)
    for found in infer_attribute(model, frame[:500], frame[500:], "when", bins=2, attacks=["white-box"], **FAST):
        assert found.accuracy.value > 0.95
        assert found.baseline.value < 0.6
    scene = set_up(frame[:500], frame[500:], "when", 4, 0)
    assert scene.prior == pytest.approx([0.25] * 4, abs=0.01)


class Days:
    """A model that takes a column of dates."""

    def __init__(self, model):
        self.best_estimator_ = make_pipeline(Days.AsDays(), model)

    def predict(self, X):
        return self.best_estimator_.predict(X)

    class AsDays(StandardScaler):
        def transform(self, X):
            days = (X["when"] - pd.Timestamp("2000-01-01")).dt.days
            return np.column_stack([days, X["other"]])

        def __sklearn_is_fitted__(self):
            return True


def test_the_seed_decides_everything():
    X, y = table_of(n=300)
    forest = RandomForestClassifier(5, random_state=0).fit(X[:200], y[:200])

    def run(seed, learner):
        found = infer_attribute(forest, X[:200], X[200:], 0, learner=learner, random_state=seed, y_members=y[:200])
        return [one._replace(seconds=0.0, risks=one.risks.tolist().__repr__()) for one in found]

    for learner in ("network", "forest"):
        assert run(1, learner) == run(1, learner)
    assert run(1, "forest") != run(2, "forest")


def test_learners_can_be_passed():
    X, y = table_of(n=300, n_values=2)
    tree = DecisionTreeClassifier(random_state=0).fit(X[:200], y[:200])
    for learner in (
        LogisticRegression(max_iter=1000),
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), NoOdds()),
    ):
        found = infer_attribute(tree, X[:200], X[200:], 0, learner=learner, attacks=["ideal", "black-box"])
        assert [one.attack for one in found] == ["ideal", "black-box"]
    with pytest.raises(ShoalError, match="The learner LinearRegression is not a classifier"):
        infer_attribute(tree, X[:200], X[200:], 0, learner=LinearRegression())
    with pytest.raises(ShoalError, match="There is no learner 'magic': choose network, boosting, forest"):
        infer_attribute(tree, X[:200], X[200:], 0, learner="magic")


class NoOdds(KNeighborsClassifier):
    predict_proba = property()


def test_the_interval_of_the_advantage_is_that_of_comparisons():
    random = np.random.default_rng(0)
    truth, one, other = (random.integers(0, 2, 80) for _ in range(3))
    assert paired_difference(one == truth, other == truth) == _accuracies(truth, other, one)[2]
    same = paired_difference(one == truth, one == truth)
    assert same.low < 0 == same.value < same.high


def test_results_have_what_all_attacks_have():
    X, y = table_of(n=400, n_values=2)
    tree = DecisionTreeClassifier(random_state=0).fit(X[:200], y[:200])
    for found in infer_attribute(tree, X[:200], X[200:], 0, y_members=y[:200], y_controls=y[200:], **FAST):
        assert found.view == ATTACKS[found.attack]
        assert found.advantage.value == pytest.approx(found.accuracy.value - found.baseline.value)
        assert found.advantage.low < found.advantage.value < found.advantage.high
        assert found.control.low <= found.control.value <= found.control.high
        risks = found.risks[~np.isnan(found.risks)]
        assert len(found.risks) == 200
        assert len(risks) == found.rows == 100
        assert ((risks >= 0.5) & (risks <= 1)).all()
        assert found.seconds > 0
        assert found.facts()["attack"] == found.attack
        assert found.baseline.value >= 0.4


# What is refused, in a sentence.


class Broken:
    """A model with one fault."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, X):
        return self.answer(X)


def refuse(n):
    raise RuntimeError("out of order\nand more")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refuse, r"predict of the model fails on these rows \(out of order\)"),
        (lambda X: np.full(len(X), np.nan), "predict of the model returns no finite number for row 0"),
        (lambda X: np.array([None] * len(X)), r"answers nothing \(NaN\)"),
        (lambda X: np.zeros(len(X) + 1), "returns 101 answers for 100 rows"),
        (lambda X: 3, "returns 1 answers for 100 rows"),
        (lambda X: np.zeros((len(X), 2)), "with a single answer"),
    ],
)
def test_broken_models_are_told_in_a_sentence(answer, message):
    X, _ = table_of(n=200)
    with pytest.raises(ShoalError, match=message) as caught:
        infer_attribute(Broken(answer), X[:100], X[100:], 0, attacks=["black-box"], **FAST)
    assert "\n" not in str(caught.value)


def test_where_there_is_nothing_to_find_intervals_cover_chance_as_often_as_they_say():
    """A toss of a coin that the model has never seen to vary. As many of either value are judged as are known, so that
    who always says the same is right in half of the rows nearly to the row, and intervals of it cover more often."""
    covered = {name: [] for name in ATTACKS}
    for seed in range(100):
        random = np.random.default_rng(seed)
        X, y = np.column_stack([random.normal(size=(500, 3)), random.integers(0, 2, 500)]), random.integers(0, 2, 500)
        X[:100, 3] = 0
        model = DecisionTreeClassifier(max_depth=5, min_samples_leaf=5, random_state=0).fit(X[:100], y[:100])
        labels = {"y_members": y[100:300], "y_controls": y[300:]}
        for found in infer_attribute(model, X[100:300], X[300:], 3, random_state=seed, **labels, **FAST):
            chances = (found.accuracy, 0.5), (found.control, 0.5), (found.advantage, 0.0)
            covered[found.attack] += [interval.low <= chance <= interval.high for interval, chance in chances]
    for name, hits in covered.items():
        assert len(hits) == 300
        assert np.mean(hits) >= 0.9, name
        if name in ("ideal", "black-box", "black-box probabilities"):
            assert np.mean(hits) <= 0.99, name


def test_without_a_learner_the_baseline_is_the_most_frequent_value():
    X, y = table_of(n=400)
    tree = DecisionTreeClassifier(random_state=0).fit(X[:200], y[:200])
    options = {"y_members": y[:200], "random_state": 3}
    alone = infer_attribute(tree, X[:200], X[200:], 0, learner=None, **options)
    assert [found.attack for found in alone] == ["white-box", "fredrikson"]
    beside = infer_attribute(tree, X[:200], X[200:], 0, attacks=["white-box", "fredrikson"], **FAST, **options)
    for one, other in zip(alone, beside, strict=True):
        assert one.accuracy == other.accuracy
        assert one.baseline.value <= other.baseline.value
        assert np.array_equal(one.risks, other.risks, equal_nan=True)


def test_broken_probabilities_are_told():
    X, _ = table_of(n=200)
    for said in (np.full((100, 2), np.nan), np.zeros(100), np.zeros((3, 2))):
        model = Broken(lambda X: np.zeros(len(X)))
        model.predict_proba = lambda X, said=said: said
        with pytest.raises(ShoalError, match="predict_proba of the model returns"):
            infer_attribute(model, X[:100], X[100:], 0, attacks=["black-box probabilities"], **FAST)


def test_unusable_rows_are_told():
    X, y = table_of(n=200)
    tree = DecisionTreeClassifier().fit(X, y)
    frame = pl.DataFrame(X, schema=["a", "b", "c", "d"])
    one_value = X.copy()
    one_value[:, 2] = 1.0
    cases = [
        ((X[:10], X[100:], 0), "There are only 10 members in which 'column 0' is known: pass 20 or more"),
        ((X[:100], X[:19], 0), "There are only 19 controls"),
        ((X[:100], X[100:], 4), "There is no feature 4: choose column 0, column 1"),
        ((X[:100], X[100:], True), "There is no feature True"),
        ((frame[:100], frame[100:], "e"), "There is no feature 'e': choose a, b, c, d"),
        ((one_value[:100], one_value[100:], 2), "'column 2' has one value in all rows"),
        ((X[:100], X[100:, :3], 0), "members has 4 columns, controls 3"),
        ((frame[:100], frame[100:].drop("c"), "a"), "Column 'c' is only in one of members and controls"),
        ((frame[:100].drop("c"), frame[100:], "a"), "Column 'c' is only in one of members and controls"),
        ((frame[:100], X[100:], "a"), "Members and controls have different types"),
        ((frame[:100], frame[100:].to_pandas(), "a"), "are tables of polars and pandas: convert one"),
        ((frame[:100], frame[100:].cast(pl.String), "a"), "Column 'a' holds number in members, but text in controls"),
        ((X[:, 0], X[:, 0], 0), r"members has the shape \(200,\)"),
    ]
    for arguments, message in cases:
        with pytest.raises(ShoalError, match=message):
            infer_attribute(tree, *arguments, **FAST)


def test_unusable_settings_are_told():
    X, y = table_of(n=200)
    X[:, 1] = np.arange(200)
    tree = DecisionTreeClassifier().fit(X, y)
    names = pl.DataFrame({"id": [f"n{i}" for i in range(1100)], "b": range(1100)})
    cases = [
        ({"attacks": ["guess"]}, "There is no attack 'guess': choose among ideal, black-box"),
        ({"attacks": ["fredrikson"]}, "y_members is missing"),
        ({"y_members": y[:99]}, r"y_members has the shape \(99,\), but there are 100 members"),
        ({"y_members": np.full(100, np.nan)}, "y_members is missing in 100 rows"),
        ({"y_members": np.full(100, "a")}, "The model never answers a label of y_members, such as .*'a'"),
        ({"learner": None, "attacks": ["ideal"]}, "'ideal' does not apply, because no learner was passed"),
        ({"bins": 1}, "bins must be a whole number of at least 2 or None, got 1"),
        ({"random_state": -1}, "random_state must be a whole number from 0"),
        ({"random_state": None}, "random_state must be a whole number from 0"),
    ]
    for settings, message in cases:
        with pytest.raises(ShoalError, match=message):
            infer_attribute(tree, X[:100], X[100:], 0, **FAST | settings)
    with pytest.raises(DataError, match="'column 1' has 200 different values, more than 50: pass bins"):
        infer_attribute(tree, X[:100], X[100:], 1, **FAST)
    with pytest.raises(DataError, match="'id' has 1,100 different values, more than 500: choose another"):
        infer_attribute(tree, names[:600], names[600:], "id", **FAST)
    with pytest.raises(ShoalError, match="bins=3 is for numbers and dates, but feature 'sex' holds text"):
        infer_attribute(tree, KNOWN[:450], KNOWN[450:], "sex", bins=3, **FAST)
    with pytest.raises(ShoalError, match="which has no predict"):
        infer_attribute("model", X[:100], X[100:], 0, **FAST)
    number = DecisionTreeRegressor().fit(X, y + 0.5)
    with pytest.raises(DataError, match="answers numbers, but y_members holds"):
        infer_attribute(number, X[:100], X[100:], 0, y_members=np.full(100, "a"), attacks=["fredrikson"], **FAST)


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), PrivacyTreeClassifier(), RandomForestClassifier()])
@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
def test_an_untrained_model_is_told(model, wrap):
    X, _ = table_of(n=200)
    with pytest.raises(ShoalError, match=r"predict of the model fails on these rows \(This .* is not fitted"):
        infer_attribute(wrap(model), X[:100], X[100:], 0, attacks=["black-box"], **FAST)
    with pytest.raises(ShoalError, match="'white-box' does not apply"):
        infer_attribute(wrap(model), X[:100], X[100:], 0, attacks=["white-box"], **FAST)
