"""Privacy-guided trees: scikit-learn's tree where nothing is sensitive, and limits that hold where something is."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from shoal import (
    PrivacyBoostClassifier,
    PrivacyForestClassifier,
    PrivacyForestRegressor,
    PrivacyTreeClassifier,
    PrivacyTreeRegressor,
)


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
    """Weights of the rows are drawn, and classes overlap, so that no two splits tie."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 50, (200, 3)).astype(float)
    y = (X @ [1, -2, 0.5] + random.normal(0, 40, 200) > 0).astype(int)
    weight = random.integers(1, 1000, 200).astype(float)
    ours, theirs = (
        model(criterion=criterion, max_depth=depth).fit(X, y, sample_weight=weight)
        for model in (PrivacyTreeClassifier, partial(DecisionTreeClassifier, random_state=0))
    )
    assert as_sets(ours, X) == as_sets(theirs, X)
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)


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
