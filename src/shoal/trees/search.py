"""The search for the least reliance on sensitive features within a bound of the loss of accuracy."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from shoal.data import frames
from shoal.errors import ShoalError
from shoal.parameters import (
    FUNCTION,
    JOBS,
    SCORING,
    Choice,
    Constraint,
    Described,
    Real,
    Whole,
    check_parameters,
    instance_of,
)
from shoal.trees._base import PrivacyTrees
from shoal.trees.gradient import PrivacyLightGBM

NOTHING: dict[str, Any] = {"penalty": 0.0, "penalty_stops": False, "min_level": 0, "max_splits": None}
"""The setting without any method: the plain model."""
PENALTIES = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
PENALTIES_OF_GAINS = (0.5, 1.0, 3.0, 9.0, 30.0, 99.0, 1000.0)
LEVELS = (1, 2, 3, 4, 6, 8)
SPLITS = (0, 1, 2, 3, 5, 10, 20, 50)
SPLITS_BESIDE = (1, 3, 10)
"""Values of max_splits that are tried with a penalty."""
SPLITS_SHARED = (2, 5, 10, 20, 50)
"""Values of max_splits that are tried for all trees of an ensemble together."""
Risk = Callable[[Any, Any, Any], float]


class TriedSetting(NamedTuple):
    """A setting with its score and risk, means over the folds."""

    setting: dict[str, Any]
    score: float
    score_error: float
    """Standard error of the difference between this score and that of the plain model."""
    risk: float
    """By default the total importance of the sensitive features."""
    on_frontier: bool
    """True if no other setting has both a higher score and a lower risk."""


def _are_settings(value: Any) -> bool:
    return isinstance(value, Collection) and all(isinstance(setting, Mapping) for setting in value)


def _is_splitter(value: Any) -> bool:
    return not isinstance(value, str) and (hasattr(value, "split") or isinstance(value, Iterable))


class PrivacySearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Try settings of the three methods, and train the model with the lowest risk at an acceptable cost.

    Parameters
    ----------
    estimator : PrivacyTreeClassifier, PrivacyLightGBM or a similar model
        A model with a ``sensitivity``; its parameters of the three methods are replaced.
    max_accuracy_loss : float, optional
        Maximum decrease of the score, in its own units, from the plain model. Among the settings within it, the one
        with the lowest risk is chosen. 0.01 if no bound is given.
    max_risk : float, optional
        Maximum risk. Among the settings within it (and within ``max_accuracy_loss``, if given), the one with the
        highest score is chosen.
    settings : sequence of dict, optional
        Settings to try; by default each method alone from mild to strict, and a penalty together with splits.
    risk : "importance" or callable
        The risk to minimise: the total importance of the sensitive features, or ``risk(model, X, y)`` of a fitted model
        and held-out rows, such as the advantage of an attack.
    scoring : str or callable, optional
        The score by its name in scikit-learn; accuracy or R² by default.
    cv : int or splitter
        Folds; a number of folds is drawn from shuffled rows.
    n_jobs : int, optional
        Number of models that are trained in parallel.

    Attributes
    ----------
    best_estimator_ : estimator
        The model with the best setting, trained on all rows.
    best_ : TriedSetting
    plain_ : TriedSetting
        The setting without any method.
    tried_ : list of TriedSetting
        All settings, by risk.
    n_splits_ : int
        Number of folds.

    Examples
    --------
    >>> from shoal import PrivacySearchCV, PrivacyTreeClassifier
    >>> from shoal.datasets import make_census
    >>> census = make_census(2000)
    >>> X, y = census.frame.drop("income"), census.frame["income"]
    >>> tree = PrivacyTreeClassifier(sensitivity={"age": 1.0}, max_depth=6)
    >>> search = PrivacySearchCV(tree, max_accuracy_loss=0.02, cv=3).fit(X, y)
    >>> search.best_.risk < search.plain_.risk
    True
    """

    def __init__(
        self,
        estimator: PrivacyTrees | PrivacyLightGBM,
        *,
        max_accuracy_loss: float | None = None,
        max_risk: float | None = None,
        settings: Sequence[dict[str, Any]] | None = None,
        risk: str | Risk = "importance",
        scoring: Any = None,
        cv: Any = 5,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.max_accuracy_loss = max_accuracy_loss
        self.max_risk = max_risk
        self.settings = settings
        self.risk = risk
        self.scoring = scoring
        self.cv = cv
        self.n_jobs = n_jobs

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "estimator": instance_of(PrivacyTrees, PrivacyLightGBM, text="a PrivacyTreeClassifier() or a similar model"),
        "max_accuracy_loss": Real(least=0, most=math.inf) | None,
        "max_risk": Real(least=0, most=math.inf) | None,
        "settings": Described("a list of dicts", _are_settings) | None,
        "risk": Choice(("importance",)) | FUNCTION,
        "scoring": SCORING,
        "cv": Whole(least=2) | Described("a splitter of scikit-learn", _is_splitter) | None,
        "n_jobs": JOBS,
    }

    def fit(self, X: Any, y: Any) -> Self:
        """Try the settings on folds of the rows, and train on all of them with the best."""
        check_parameters(self)
        if self.estimator.sensitivity is None:
            raise ShoalError("The estimator has no sensitive feature: set its sensitivity.")
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        classes = hasattr(self.estimator, "predict_proba")
        splitter = check_cv(self.cv, y, classifier=classes)
        if isinstance(self.cv, numbers.Number):
            # Tables are often sorted, and folds of consecutive rows would differ from the rest.
            splitter = type(splitter)(splitter.n_splits, shuffle=True, random_state=0)
        folds = list(splitter.split(np.zeros(len(y)), y))
        self.n_splits_ = len(folds)
        nothing = NOTHING if isinstance(self.estimator, PrivacyTrees) else {"penalty": 0.0}
        asked = default_settings(self.estimator) if self.settings is None else self.settings
        settings = [nothing, *(nothing | one for one in asked)]
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads")
        found = parallel(delayed(self._try)(X, y, one, fold) for one in settings for fold in folds)
        outcomes = np.array(found).reshape(len(settings), len(folds), 2)
        tried = _compare(settings, outcomes)
        self.plain_ = tried[0]
        self.tried_ = sorted(tried, key=lambda one: (one.risk, -one.score))
        self.best_ = self._choose(tried)
        self.best_estimator_ = clone(self.estimator).set_params(**self.best_.setting).fit(X, y)
        return self

    def _try(
        self, X: Any, y: np.ndarray, setting: dict[str, Any], fold: tuple[np.ndarray, np.ndarray]
    ) -> tuple[float, float]:
        """Return the score and the risk of a model that is trained on a part of the rows."""
        train, test = fold
        model = clone(self.estimator).set_params(**setting).fit(_take(X, train), y[train])
        unseen = _take(X, test), y[test]
        scorer = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        score = model.score(*unseen) if scorer is None else scorer(model, *unseen)
        if callable(self.risk):
            return float(score), float(self.risk(model, *unseen))
        return float(score), float(model.feature_importances_[model.sensitivity_ > 0].sum())

    def _choose(self, tried: list[TriedSetting]) -> TriedSetting:
        allowed = self.max_accuracy_loss if self.max_accuracy_loss is not None or self.max_risk is not None else 0.01
        bearable = tried if allowed is None else [one for one in tried if one.score >= tried[0].score - allowed - 1e-12]
        if self.max_risk is None:
            return min(bearable, key=lambda one: (one.risk, -one.score))
        low = [one for one in bearable if one.risk <= self.max_risk + 1e-12]
        if not low:
            lowest = min(one.risk for one in bearable)
            raise ShoalError(
                f"No setting reaches a risk of {self.max_risk:g}; the lowest is {lowest:.3g}: allow a higher risk, or "
                "more loss of accuracy."
            )
        return max(low, key=lambda one: (one.score, -one.risk))

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions of the best model."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes by the best model."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))  # type: ignore[attr-defined]

    def score(self, X: Any, y: Any) -> float:
        """Return the score of the best model."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))  # type: ignore[attr-defined]


def default_settings(estimator: Any) -> list[dict[str, Any]]:
    """Return settings of each method, from mild to strict, and of some combined; only penalties for LightGBM."""
    if not isinstance(estimator, PrivacyTrees):
        return [{"penalty": one} for one in PENALTIES_OF_GAINS]
    found: list[dict[str, Any]] = [
        {"penalty": one, "penalty_stops": stops} for stops in (False, True) for one in PENALTIES
    ]
    found += [{"min_level": one} for one in LEVELS]
    found += [{"max_splits": one} for one in SPLITS]
    found += [{"penalty": 1.0, "max_splits": one} for one in SPLITS_BESIDE]
    if "share" in estimator.get_params():
        found += [{"max_splits": one, "share": "ensemble"} for one in SPLITS_SHARED]
    return found


def _compare(settings: list[dict[str, Any]], outcomes: np.ndarray) -> list[TriedSetting]:
    """Return the means over the folds, with a mark on settings that no other beats in both."""
    scores, risks = outcomes[:, :, 0].mean(axis=1), outcomes[:, :, 1].mean(axis=1)
    changes = outcomes[:, :, 0] - outcomes[0, :, 0]
    errors = changes.std(axis=1, ddof=1) / np.sqrt(changes.shape[1])
    beaten = [bool(((scores > score) & (risks < risk)).any()) for score, risk in zip(scores, risks, strict=True)]
    columns = settings, scores.tolist(), errors.tolist(), risks.tolist(), beaten
    return [
        TriedSetting(setting, score, error, risk, not worse)
        for setting, score, error, risk, worse in zip(*columns, strict=True)
    ]


def _take(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of a table or an array."""
    if frames.is_frame(X) and all(isinstance(name, str) for name in getattr(X, "column_names", X.columns)):
        return frames.open_frame(X)[rows].to_native()
    return _safe_indexing(X, rows)
