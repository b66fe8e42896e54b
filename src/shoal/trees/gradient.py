"""The penalty for LightGBM, by its parameter ``feature_contri``; needs the extra ``boosting``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from shoal.parameters import Constraint, Described, Real, check_parameters, having
from shoal.trees._base import SENSITIVITY
from shoal.trees._limits import read_sensitivity


def _is_lightgbm(estimator: Any) -> bool:
    return having("fit", "get_params").allows(estimator) and "importance_type" in estimator.get_params()


class PrivacyLightGBM(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A LightGBM model whose splits avoid sensitive features.

    The gain of a split on a feature of sensitivity w is divided by ``1 + penalty * w`` when splits are compared
    (LightGBM's ``feature_contri``). LightGBM computes importances from these reduced gains, which understates sensitive
    features; here the importances are computed from the original gains.

    Parameters
    ----------
    estimator : LGBMClassifier, LGBMRegressor or another estimator of LightGBM
        A copy of it is trained.
    sensitivity : dict or Schema, optional
        The sensitivity of features by name or position, from 0 (the default) to 1. With a schema, its sensitive
        attributes have 1.
    penalty : float
        Weight of the sensitivity in the comparison of splits; 0 for no penalty.

    Attributes
    ----------
    estimator_ : estimator
        The trained estimator.
    feature_importances_ : float array (n_features,)
        The share of each feature in the gain of all splits.
    n_splits_ : int array (n_features,)
        Number of splits on each feature.
    sensitivity_ : float array (n_features,)

    Examples
    --------
    >>> from lightgbm import LGBMClassifier  # doctest: +SKIP
    >>> model = PrivacyLightGBM(LGBMClassifier(), sensitivity={"age": 1.0}, penalty=9.0)  # doctest: +SKIP
    """

    def __init__(self, estimator: Any, *, sensitivity: Any = None, penalty: float = 1.0) -> None:
        self.estimator = estimator
        self.sensitivity = sensitivity
        self.penalty = penalty

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "estimator": Described("an estimator of LightGBM such as LGBMClassifier()", _is_lightgbm),
        "sensitivity": SENSITIVITY,
        "penalty": Real(least=0),
    }
    estimator_: Any
    sensitivity_: np.ndarray

    def fit(self, X: Any, y: Any, **options: Any) -> Self:
        """Learn from rows and their targets; ``options`` are passed to the estimator's ``fit``."""
        check_parameters(self)
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        self.sensitivity_ = read_sensitivity(self.sensitivity, names, np.shape(X)[1])
        self.estimator_ = clone(self.estimator).set_params(feature_contri=self._shares().tolist()).fit(X, y, **options)
        return self

    def _shares(self) -> np.ndarray:
        """Return the factor of the gain of each feature."""
        return np.asarray(1.0 / (1.0 + self.penalty * self.sensitivity_))

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each feature in the gain of all splits, without the penalty."""
        check_is_fitted(self, "estimator_")
        gains = self.estimator_.booster_.feature_importance("gain") / self._shares()
        return np.asarray(gains / gains.sum() if gains.sum() > 0 else gains)

    @property
    def n_splits_(self) -> np.ndarray:
        """Number of splits on each feature."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.booster_.feature_importance("split"))

    @property
    def classes_(self) -> np.ndarray:
        """The classes of a classifier."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.classes_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions of the trained estimator."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict(X))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict_proba(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy, or R²."""
        check_is_fitted(self, "estimator_")
        return float(self.estimator_.score(X, y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = get_tags(self.estimator).estimator_type
        return tags
