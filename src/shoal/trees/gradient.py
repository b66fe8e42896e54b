"""The penalty for LightGBM, which has a hook for it; needs the extra ``boosting``."""

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

    What a split on a feature of sensitivity w gains counts ``1 / (1 + penalty * w)`` times when splits are compared
    (LightGBM's ``feature_contri``). LightGBM reports importances from gains that were lowered so, and a feature seems
    to matter less than it does; here they are given as if nothing had been lowered.

    Parameters
    ----------
    estimator : LGBMClassifier, LGBMRegressor or another of LightGBM's
        What is trained; it stays as it is.
    sensitivity : dict or Schema, optional
        The sensitivity of features, from 0 (none, and that of features not named) to 1; by name or number. Of a schema
        the sensitive attributes, with 1.
    penalty : float
        How much less a split on a sensitive feature counts; 0 for no penalty.

    Attributes
    ----------
    estimator_ : estimator
        The trained one.
    feature_importances_ : float array (n_features,)
        The share of each feature in what all splits gain.
    n_splits_ : int array (n_features,)
        Splits on each feature.
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
        """Learn from rows and their targets; ``options`` are those of the estimator's ``fit``."""
        check_parameters(self)
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        self.sensitivity_ = read_sensitivity(self.sensitivity, names, np.shape(X)[1])
        self.estimator_ = clone(self.estimator).set_params(feature_contri=self._shares().tolist()).fit(X, y, **options)
        return self

    def _shares(self) -> np.ndarray:
        """What is counted of the gain of each feature."""
        return np.asarray(1.0 / (1.0 + self.penalty * self.sensitivity_))

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each feature in what all splits gain, without the penalty."""
        check_is_fitted(self, "estimator_")
        gains = self.estimator_.booster_.feature_importance("gain") / self._shares()
        return np.asarray(gains / gains.sum() if gains.sum() > 0 else gains)

    @property
    def n_splits_(self) -> np.ndarray:
        """Splits on each feature."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.booster_.feature_importance("split"))

    @property
    def classes_(self) -> np.ndarray:
        """The classes, of a classifier."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.classes_)

    def predict(self, X: Any) -> np.ndarray:
        """What the trained estimator predicts."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict(X))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.predict_proba(X))

    def score(self, X: Any, y: Any) -> float:
        """Accuracy, or R²."""
        check_is_fitted(self, "estimator_")
        return float(self.estimator_.score(X, y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = get_tags(self.estimator).estimator_type
        return tags
