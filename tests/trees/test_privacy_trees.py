"""Privacy-guided trees: scikit-learn's tree where nothing is sensitive, and limits that hold where something is."""

import re
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_circles
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from guided_judge import Asked, judge
from shoal import (
    PrivacyBoostClassifier,
    PrivacyForestClassifier,
    PrivacyForestRegressor,
    PrivacySearchCV,
    PrivacyTreeClassifier,
    PrivacyTreeRegressor,
)
from shoal.data.table import encode
from shoal.datasets import fetch_adult, fetch_gss, fetch_loan, fetch_nursery, fetch_scene, make_census
from shoal.errors import ShoalError
from shoal.trees import export_dot, export_text


def not_by_drawing(estimator):
    """A row of weight two is not drawn as two rows are."""
    if isinstance(estimator, PrivacyForestClassifier | PrivacyForestRegressor):
        reason = "rows are drawn with replacement"
        return {
            "check_sample_weight_equivalence_on_dense_data": reason,
            "check_sample_weight_equivalence_on_sparse_data": reason,
        }
    return {}


@parametrize_with_checks(
    [
        PrivacyTreeClassifier(),
        PrivacyTreeRegressor(),
        PrivacyForestClassifier(10),
        PrivacyForestRegressor(10),
        PrivacyBoostClassifier(10),
    ],
    expected_failed_checks=not_by_drawing,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@st.composite
def problems(draw):
    """Rows of few values, and classes that depend on them."""
    n, q = draw(st.integers(4, 60)), draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    X = random.integers(0, draw(st.integers(2, 6)), (n, q)).astype(float)
    if draw(st.booleans()):
        X[random.random((n, q)) < 0.1] = np.nan
    y = (np.nan_to_num(X).sum(axis=1) + random.integers(0, 3, n)) % 3
    return X, y


MODELS = [
    PrivacyTreeClassifier,
    partial(PrivacyForestClassifier, 4, random_state=0),
    partial(PrivacyBoostClassifier, 4, max_depth=3),
    PrivacyTreeRegressor,
    partial(PrivacyForestRegressor, 4, random_state=0),
]


def trees_of(model):
    return getattr(model, "trees_", None) or [model.tree_]


@given(problems(), st.sampled_from(MODELS), st.integers(0, 4))
def test_no_sensitive_split_above_the_level(problem, make, level):
    X, y = problem
    model = make(sensitivity={0: 0.5}, penalty=0.0, min_level=level).fit(X, y)
    for tree in trees_of(model):
        assert (tree.depth[tree.feature == 0] >= level).all()


@given(problems(), st.sampled_from(MODELS), st.integers(0, 4), st.booleans(), st.booleans())
def test_never_more_splits_than_allowed(problem, make, splits, weighted, shared):
    X, y = problem
    options = {"share": "ensemble"} if shared and "trees_" in dir(make().fit(X, y)) else {}
    model = make(sensitivity={0: 0.5}, penalty=0.0, max_splits=splits, weighted=weighted, **options).fit(X, y)
    most = splits / 0.5 if weighted else splits
    used = [tree.count_splits()[0] for tree in trees_of(model)]
    assert (sum(used) if options else max(used)) <= most


@given(problems(), st.integers(1, 4))
def test_splits_are_spent_from_the_root_downwards(problem, splits):
    X, y = problem
    tree = PrivacyTreeClassifier(sensitivity={0: 1.0}, penalty=0.0, max_splits=splits).fit(X, y).tree_
    assert (np.diff(tree.depth) >= 0).all()
    free = PrivacyTreeClassifier(sensitivity={0: 1.0}, penalty=0.0, max_splits=10**6).fit(X, y).tree_
    # Until the budget is spent, it is the tree that would have grown without one.
    asked = np.flatnonzero(free.feature == 0)
    same = asked[splits] if len(asked) > splits else free.node_count
    np.testing.assert_array_equal(tree.feature[:same], free.feature[:same])


@given(problems(), st.floats(0, 3))
def test_splits_by_rows_cost_their_share(problem, budget):
    X, y = problem
    model = PrivacyTreeClassifier(sensitivity={0: 1.0}, penalty=0.0, max_splits=budget, split_cost="rows").fit(X, y)
    assert model.tree_.count_split_rows()[0] <= budget + 1e-9


@given(problems(), st.sampled_from(MODELS))
def test_a_sensitivity_of_nothing_changes_nothing(problem, make):
    X, y = problem
    plain = make().fit(X, y)
    zero = make(sensitivity={0: 0.0}, penalty=5.0, min_level=3, max_splits=0).fit(X, y)
    for one, other in zip(trees_of(plain), trees_of(zero), strict=True):
        np.testing.assert_array_equal(one.feature, other.feature)
        np.testing.assert_array_equal(one.threshold, other.threshold)


@given(problems())
def test_the_penalised_split_is_that_of_the_naive_twin(problem):
    """The root of a tree of two leaves, by trying every threshold of every feature."""
    X, y = problem
    X = np.nan_to_num(X)
    weights = np.linspace(1, 0, X.shape[1])
    model = PrivacyTreeClassifier(sensitivity=dict(enumerate(weights)), penalty=2.0, max_depth=1).fit(X, y)
    best = naive_impurities(X, y, 1 + 2.0 * weights)
    if model.tree_.node_count == 1:
        assert len(np.unique(y)) == 1 or not best
        return
    j, threshold = model.tree_.feature[0], model.tree_.threshold[0]
    assert best[(j, threshold)] == pytest.approx(min(best.values()), abs=1e-9)


def naive_impurities(X, y, factors):
    """What every split leaves, times its factor."""
    found = {}
    for j, factor in enumerate(factors):
        values = np.unique(X[:, j])
        for low, high in zip(values[:-1], values[1:], strict=True):
            left = X[:, j] <= (low + high) / 2
            found[(j, (low + high) / 2)] = factor * sum(part.mean() * gini(y[part]) for part in (left, ~left))
    return found


def gini(y):
    return 1 - ((np.unique(y, return_counts=True)[1] / len(y)) ** 2).sum()


@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=4, max_size=4),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.booleans(),
    st.integers(0, 3),
    st.none() | st.integers(0, 4),
    st.integers(1, 6),
)
def test_every_split_is_the_best_that_its_limits_allow(seed, q, weights, penalty, stops, level, splits, depth):
    random = np.random.default_rng(seed)
    X = random.integers(0, 5, (40, q)).astype(float)
    y = (X.sum(axis=1) + random.integers(0, 4, 40)) % 3
    weights = weights[:q]
    options = {"penalty": penalty, "penalty_stops": stops, "min_level": level, "max_splits": splits}
    model = PrivacyTreeClassifier(sensitivity=dict(enumerate(weights)), max_depth=depth, **options).fit(X, y)
    asked = Asked(
        penalty=[1 + Fraction(penalty) * Fraction(w) for w in weights],
        stops=stops,
        level=[level if w > 0 else 0 for w in weights],
        budget=[splits if w > 0 else None for w in weights],
        most_depth=depth,
    )
    judge(model.tree_, X, y, asked)


def load_halves():
    """Diabetes as two classes."""
    X, y = load_diabetes(return_X_y=True)
    return X, y > np.median(y)


def load_people():
    census = make_census(3000, seed=0)
    return encoded(census.frame, census.schema)


def load_circles():
    return make_circles(1000, noise=0.2, factor=0.6, random_state=0)


def load_adult():
    return encoded(*fetch_adult())


def load_nursery():
    return encoded(*fetch_nursery())


def load_gss():
    return encoded(*fetch_gss())


def load_loan():
    loan = fetch_loan()
    return encoded(loan.frame.sample(8000, seed=0), loan.schema)


def load_scene():
    frame, schema = fetch_scene()
    targets = [one.name for one in schema if one.role == "target"]
    return frame.drop(targets).to_numpy(), frame[targets[0]].to_numpy()


def encoded(frame, schema):
    """Numbers as they are, names as codes; and the classes."""
    (target,) = (one.name for one in schema if one.role == "target")
    frame = frame[:10_000] if len(frame) > 10_000 else frame
    columns = encode(frame, schema).columns
    names = [one.name for one in schema if one.name in columns and one.name != target]
    X = np.column_stack([columns[name].codes for name in names]).astype(float)
    return X, frame[target].cast(pl.String).fill_null("none").to_numpy()


EMBEDDED = [load_iris, load_wine, load_breast_cancer, load_digits, load_halves, load_people, load_circles]
FETCHED = [load_adult, load_nursery, load_gss, load_loan, load_scene]


@pytest.mark.parametrize("load", [*EMBEDDED, *FETCHED[:-1], pytest.param(load_scene, marks=pytest.mark.slow)])
def test_without_sensitivity_it_is_the_tree_of_scikit_learn_within_noise(load, request):
    """Accuracy over the same twenty splits: the mean difference is noise, or less than a point."""
    if load in FETCHED:
        request.getfixturevalue("data_folder")
    X, y = load(return_X_y=True) if load in EMBEDDED[:4] else load()
    differences = []
    for seed in range(4):
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        ours, theirs = (
            cross_val_score(model(random_state=seed), X, y, cv=folds)
            for model in (PrivacyTreeClassifier, DecisionTreeClassifier)
        )
        differences.append(ours - theirs)
    found = np.concatenate(differences)
    # Folds share rows, so that the usual error of the mean is too small (Nadeau and Bengio).
    error = found.std(ddof=1) * np.sqrt(1 / len(found) + 1 / 4)
    assert abs(found.mean()) <= max(2 * error, 0.01)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("options", [{}, {"max_depth": 4}, {"min_samples_leaf": 5}, {"min_impurity_decrease": 0.01}])
def test_without_sensitivity_it_is_as_good_as_scikit_learn(load, criterion, options):
    X, y = load(return_X_y=True)
    ours, theirs = (
        cross_val_score(model(criterion=criterion, random_state=0, **options), X, y, cv=5)
        for model in (PrivacyTreeClassifier, DecisionTreeClassifier)
    )
    assert ours.mean() == pytest.approx(theirs.mean(), abs=0.03)


@given(st.integers(0, 10**6), st.sampled_from(["gini", "entropy"]), st.integers(1, 3))
def test_split_for_split_it_is_the_tree_of_scikit_learn(seed, criterion, depth):
    """Weights of the rows are drawn, classes overlap, and leaves are large, so that no two splits tie."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 50, (200, 3)).astype(float)
    y = (X @ [1, -2, 0.5] + random.normal(0, 40, 200) > 0).astype(int)
    weight = random.integers(1, 1000, 200).astype(float)
    ours, theirs = (
        model(criterion=criterion, max_depth=depth, min_samples_leaf=10).fit(X, y, sample_weight=weight)
        for model in (PrivacyTreeClassifier, partial(DecisionTreeClassifier, random_state=0))
    )
    assert as_sets(ours, X) == as_sets(theirs, X)
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_split_for_split_it_is_the_regression_tree_of_scikit_learn(seed, depth):
    """Leaves are large enough that no two features part the rows of a node alike."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 40, (200, 3)).astype(float)
    y = X @ [1, -2, 0.5] + random.normal(0, 10, 200)
    ours, theirs = (
        model.fit(X, y)
        for model in (
            PrivacyTreeRegressor(max_depth=depth, min_samples_leaf=10),
            DecisionTreeRegressor(max_depth=depth, min_samples_leaf=10, random_state=0),
        )
    )
    assert as_sets(ours, X) == as_sets(theirs, X)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-9)
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-9)


def as_sets(model, X):
    """The feature and the threshold of each split, by the rows that it parts."""
    marks = model.decision_path(X).toarray().astype(bool)
    tree = model.tree_
    return {
        (marks[:, node].tobytes(), tree.feature[node], tree.threshold[node])
        for node in range(tree.node_count)
        if tree.children_left[node] >= 0
    }


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
@pytest.mark.parametrize("depth", [1, 3])
def test_boosting_is_as_good_as_that_of_scikit_learn(load, depth):
    X, y = load(return_X_y=True)
    ours = cross_val_score(PrivacyBoostClassifier(30, max_depth=depth), X, y, cv=5)
    base = DecisionTreeClassifier(max_depth=depth, random_state=0)
    theirs = cross_val_score(AdaBoostClassifier(base, n_estimators=30, random_state=0), X, y, cv=5)
    assert ours.mean() == pytest.approx(theirs.mean(), abs=0.03)


def test_boosting_votes_as_scikit_learn_does():
    """One tree of each, of the same splits."""
    X, y = load_breast_cancer(return_X_y=True)
    X = np.round(X[:, :4])
    ours = PrivacyBoostClassifier(1, max_depth=1).fit(X, y)
    base = DecisionTreeClassifier(max_depth=1, random_state=0)
    theirs = AdaBoostClassifier(base, n_estimators=1, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.votes_, theirs.estimator_weights_)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X))
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X))


def test_nursery_as_in_the_paper(data_folder):
    """The importance of ``social`` falls with the splits it may have, and accuracy with it (Table 7, Figure 1)."""
    nursery = fetch_nursery(boolean_social=True)
    names = [one.name for one in nursery.schema if one.role != "target"]
    columns = encode(nursery.frame, nursery.schema).columns
    X, y = np.column_stack([columns[name].codes for name in names]), nursery.frame["class"].to_numpy()
    social = names.index("social")
    found = []
    for splits in (None, 10, 5, 3, 2, 1, 0):
        scores = []
        for seed in range(3):
            train, test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
            tree = PrivacyTreeClassifier(sensitivity={social: 1.0}, penalty=0.0, max_splits=splits).fit(train, y_train)
            scores.append((tree.feature_importances_[social], tree.score(test, y_test)))
        found.append(np.mean(scores, axis=0))
    importances, accuracies = np.transpose(found)
    np.testing.assert_allclose(importances, [0.043, 0.043, 0.039, 0.033, 0.021, 0.014, 0.0], atol=0.003)
    np.testing.assert_allclose(accuracies, [0.998, 0.998, 0.993, 0.981, 0.969, 0.944, 0.924], atol=0.008)


@pytest.mark.parametrize(
    ("method", "strict"),
    [
        ({"penalty": 1.0, "penalty_stops": True}, 0.5),
        ({"penalty": 0.0, "max_splits": 10}, 0.05),
        ({"penalty": 0.0, "max_splits": 0}, 0.0),
    ],
)
def test_a_forest_on_gss_gives_up_age_and_gets_better(data_folder, method, strict):
    """As in the paper, where age and children, the most important, go without harm, and accuracy even improves."""
    frame = fetch_gss().frame.drop("id")
    X, y = frame.drop("Happiness of marriage"), frame["Happiness of marriage"].to_numpy()
    age = X.columns.index("age")
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    forest = partial(PrivacyForestClassifier, 30, random_state=0, n_jobs=2)
    plain = forest().fit(X[train], y[train])
    guided = forest(sensitivity={"age": 1.0}, **method).fit(X[train], y[train])
    assert plain.feature_importances_[age] == max(plain.feature_importances_) > 0.3
    assert guided.feature_importances_[age] <= strict * plain.feature_importances_[age]
    assert guided.score(X[test], y[test]) > plain.score(X[test], y[test]) - 0.01


def test_other_features_on_nursery_as_in_the_paper(data_folder):
    """Where six others are limited, accuracy falls and the importance of ``social`` stays (Table 9, Figure 4)."""
    nursery = fetch_nursery(boolean_social=True).frame
    X, y = nursery.drop("class"), nursery["class"].to_numpy()
    wanted = dict.fromkeys(["children", "health", "has_nurs", "parents", "housing", "finance"], 1.0)
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    for splits, published in ((50, 0.9764), (30, 0.9648), (10, 0.9251), (5, 0.9097), (3, 0.8996)):
        tree = PrivacyTreeClassifier(sensitivity=wanted, penalty=0.0, max_splits=splits).fit(X[train], y[train])
        assert tree.score(X[test], y[test]) == pytest.approx(published, abs=0.025)
        assert tree.feature_importances_[X.columns.index("social")] == pytest.approx(0.043, abs=0.008)


def test_several_features_on_nursery_lose_importance_together(data_folder):
    """Table 2's kind: six features together lose nearly half their importance, here by splits."""
    nursery = fetch_nursery(boolean_social=True).frame
    X, y = nursery.drop("class"), nursery["class"].to_numpy()
    names = ["parents", "form", "children", "housing", "finance", "social"]
    wanted = dict.fromkeys(names, 1.0)
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)
    at = [X.columns.index(name) for name in names]
    plain = PrivacyTreeClassifier().fit(X[train], y[train])
    guided = PrivacyTreeClassifier(sensitivity=wanted, penalty=0.0, max_splits=4).fit(X[train], y[train])
    before, after = plain.feature_importances_[at].sum(), guided.feature_importances_[at].sum()
    assert after < 0.6 * before
    assert guided.score(X[test], y[test]) > 0.9


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_names_and_missing_values_are_taken_as_they_are(library):
    frame = {"color": ["red", "blue", None, "green"] * 20, "size": [1.0, None, 3.0, 4.0] * 20}
    y = [0, 1, 1, 0] * 20
    X = {"polars": pl.DataFrame, "pandas": pd.DataFrame, "pyarrow": pa.table}[library](frame)
    for model in (PrivacyTreeClassifier(), PrivacyForestClassifier(5, random_state=0), PrivacyBoostClassifier(5)):
        assert model.fit(X, y).score(X, y) == 1.0
        assert list(model.feature_names_in_) == ["color", "size"]
    unseen = {"color": ["violet"], "size": [2.0]}
    assert model.predict({"polars": pl.DataFrame, "pandas": pd.DataFrame, "pyarrow": pa.table}[library](unseen))[0] in (
        0,
        1,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sensitivity": {"nobody": 1.0}}, "'nobody', which is not a feature"),
        ({"sensitivity": {0: 2.0}}, "The sensitivity of 0 must be a number from 0 to 1, got 2.0"),
        ({"categorical_features": "age"}, "categorical_features must be 'from_dtype', a list"),
        ({"max_features": "all"}, "max_features must be 'sqrt', 'log2', a whole number"),
    ],
)
def test_bad_settings_get_one_sentence(options, words):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ShoalError, match=re.escape(words)):
        PrivacyTreeClassifier(**options).fit(X, y)


def test_importance_falls_as_sensitivity_grows():
    """On average over tables; in a single one it need not."""
    importances = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        X = random.integers(0, 10, (400, 5)).astype(float)
        y = (X.sum(axis=1) + random.normal(0, 4, 400) > 22).astype(int)
        weights = (0.0, 0.25, 0.5, 1.0)
        models = [PrivacyTreeClassifier(sensitivity={0: w}, max_depth=4).fit(X, y) for w in weights]
        importances.append([model.feature_importances_[0] for model in models])
    assert (np.diff(np.mean(importances, axis=0)) <= 1e-9).all()


def test_the_text_of_a_tree_says_where_rows_go():
    """Every row follows the rules that it meets, down to its class."""
    X = pl.DataFrame({"color": ["red", "blue", None, "green"] * 20, "size": [1.0, None, 3.0, 4.0] * 20})
    y = np.array([0, 1, 1, 0] * 20)
    model = PrivacyTreeClassifier(sensitivity={"color": 0.5}, penalty=0.0).fit(X, y)
    text = export_text(model)
    assert text.count("(! 0.5)") == 2 * model.n_splits_[0]
    assert "{" in text
    assert text.count("class:") == model.get_n_leaves()
    assert "..." in export_text(model, max_depth=0)
    graph = export_dot(model)
    assert graph.count("->") == model.tree_.node_count - 1
    assert graph.count('fillcolor="#ff') == model.n_splits_[0] + 1
    with pytest.raises(ShoalError, match="There is no tree 1"):
        export_text(model, tree=1)


def test_the_search_keeps_to_its_bounds():
    random = np.random.default_rng(0)
    X = random.integers(0, 8, (600, 4)).astype(float)
    X[:, 1] = X[:, 0] + random.integers(0, 2, 600)
    y = (X[:, 0] + X[:, 2] + random.normal(0, 1, 600) > 8).astype(int)
    tree = PrivacyTreeClassifier(sensitivity={0: 1.0}, max_depth=5)
    search = PrivacySearchCV(tree, max_accuracy_loss=0.03).fit(X, y)
    assert search.best_.score >= search.plain_.score - 0.03
    assert search.best_.risk == min(one.risk for one in search.tried_ if one.score >= search.plain_.score - 0.03)
    assert search.best_.risk < 0.1 < search.plain_.risk
    assert search.score(X, y) == search.best_estimator_.score(X, y) > 0.8
    bounded = PrivacySearchCV(tree, max_risk=0.2).fit(X, y)
    assert bounded.best_.score == max(one.score for one in bounded.tried_ if one.risk <= 0.2)
    assert any(one.on_frontier for one in bounded.tried_)
    with pytest.raises(ShoalError, match="reaches a risk of 0"):
        PrivacySearchCV(tree, max_risk=0.0, settings=[{"penalty": 0.1}]).fit(X, y)


def test_the_search_keeps_its_bound_on_sorted_rows():
    """Every combination once, in order: each part of such a table holds values that the others have not."""
    X = np.stack(np.meshgrid(*[np.arange(6)] * 4, indexing="ij"), axis=-1).reshape(-1, 4).astype(float)
    y = (X @ [8, 4, 2, 1] > 30).astype(int)
    search = PrivacySearchCV(PrivacyTreeClassifier(sensitivity={0: 1.0}), max_accuracy_loss=0.02, cv=3).fit(X, y)
    assert search.plain_.score > 0.9
    assert search.best_.score >= search.plain_.score - 0.02


def test_the_search_takes_any_risk_and_refuses_what_it_cannot_search():
    X, y = load_iris(return_X_y=True)
    tree = PrivacyTreeClassifier(sensitivity={3: 1.0}, max_depth=3)
    search = PrivacySearchCV(tree, risk=lambda model, X, y: model.n_splits_[3], cv=3).fit(X, y)
    assert search.best_.risk <= search.plain_.risk
    for model, words in (
        (DecisionTreeClassifier(), "estimator must be a PrivacyTree"),
        (PrivacyTreeClassifier(), "no sensitive"),
    ):
        with pytest.raises(ShoalError, match=words):
            PrivacySearchCV(model).fit(X, y)
