"""LightGBM with a penalty: what is sensitive is split less, and importances are true."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor

from shoal import PrivacyLightGBM, PrivacySearchCV, PrivacyTreeClassifier
from shoal.errors import ShoalError

lightgbm = pytest.importorskip("lightgbm")
CLASSIFIER = lightgbm.LGBMClassifier(n_estimators=20, n_jobs=1, verbosity=-1, random_state=0)


def make_rows(n=2000, seed=0):
    """Rows whose class follows ``a``, and ``b``, which says nearly the same."""
    random = np.random.default_rng(seed)
    a = random.normal(size=n)
    rows = pd.DataFrame({"a": a, "b": a + random.normal(0, 0.3, n), "c": random.normal(size=n)})
    return rows, np.where(a + 0.5 * rows["c"] + random.normal(0, 0.3, n) > 0, "yes", "no")


def test_without_a_penalty_it_is_lightgbm():
    X, y = make_rows()
    plain = clone(CLASSIFIER).set_params(importance_type="gain").fit(X, y)
    for model in (PrivacyLightGBM(CLASSIFIER), PrivacyLightGBM(CLASSIFIER, sensitivity={"a": 1.0}, penalty=0.0)):
        model.fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
        np.testing.assert_allclose(
            model.feature_importances_, plain.feature_importances_ / plain.feature_importances_.sum()
        )
        np.testing.assert_array_equal(model.n_splits_, plain.booster_.feature_importance("split"))
        assert (model.classes_ == ["no", "yes"]).all()


def test_importances_are_what_splits_gain_without_the_penalty():
    """Of one split that is made in any case LightGBM reports a tenth of the gain, but its share is all."""
    X, y = make_rows()
    stump = lightgbm.LGBMClassifier(n_estimators=1, num_leaves=2, n_jobs=1, verbosity=-1)
    plain = PrivacyLightGBM(stump).fit(X[["a"]], y)
    model = PrivacyLightGBM(stump, sensitivity={"a": 1.0}, penalty=9.0).fit(X[["a"]], y)
    gains = [one.estimator_.booster_.feature_importance("gain")[0] for one in (plain, model)]
    assert gains[1] == pytest.approx(gains[0] / 10)
    assert model.feature_importances_ == [1.0]
    three = lightgbm.LGBMClassifier(n_estimators=1, num_leaves=3, n_jobs=1, verbosity=-1)
    free, held = (PrivacyLightGBM(three, sensitivity={"a": 1.0}, penalty=p).fit(X[["a", "c"]], y) for p in (0.0, 0.01))
    np.testing.assert_array_equal(free.n_splits_, held.n_splits_)
    np.testing.assert_allclose(held.feature_importances_, free.feature_importances_, rtol=1e-5)


def test_the_importance_falls_as_the_penalty_grows():
    found = []
    for seed in range(5):
        X, y = make_rows(seed=seed)
        models = [PrivacyLightGBM(CLASSIFIER, sensitivity={"a": 1.0}, penalty=p).fit(X, y) for p in (0, 1, 9, 1000)]
        found.append([model.feature_importances_[0] for model in models])
    importances = np.mean(found, axis=0)
    assert (np.diff(importances) < 0).all()
    assert importances[-1] < 0.1 * importances[0]


def test_the_search_finds_what_leans_less_at_little_cost():
    X, y = make_rows()
    search = PrivacySearchCV(PrivacyLightGBM(CLASSIFIER, sensitivity={"a": 1.0}), max_accuracy_loss=0.03, cv=3).fit(
        X, y
    )
    assert search.best_.score >= search.plain_.score - 0.03
    assert search.best_.risk < 0.5 * search.plain_.risk
    assert search.plain_.setting == {"penalty": 0.0}
    assert search.score(X, y) > 0.8


def test_regressors_are_guided_too():
    X, _ = make_rows()
    regressor = lightgbm.LGBMRegressor(n_estimators=20, n_jobs=1, verbosity=-1)
    model = PrivacyLightGBM(regressor, sensitivity={0: 1.0}, penalty=50.0).fit(X.to_numpy(), X["a"] * 2)
    assert model.score(X.to_numpy(), X["a"] * 2) > 0.5
    assert not hasattr(model, "predict_proba")
    assert is_regressor(model)
    assert is_classifier(PrivacyLightGBM(CLASSIFIER))


def test_what_is_no_model_of_lightgbm_is_refused():
    X, y = make_rows(100)
    with pytest.raises(
        ShoalError, match="estimator must be an estimator of LightGBM such as LGBMClassifier.*, got PrivacyTree"
    ):
        PrivacyLightGBM(PrivacyTreeClassifier()).fit(X, y)
    with pytest.raises(ShoalError, match="'nobody', which is not a feature"):
        PrivacyLightGBM(CLASSIFIER, sensitivity={"nobody": 1.0}).fit(X, y)
