"""A scikit-learn estimator that is trained on a release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from shoal.anonymizers import Anonymizer
from shoal.data import frames
from shoal.errors import DataError, ShoalError
from shoal.models.guides import read_labels
from shoal.models.targets import read_target
from shoal.parameters import Constraint, check_parameters, having, instance_of
from shoal.partition.recoding import recodings_that_publish


def _can(name: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        return hasattr(getattr(self, "model_", self.model), name)

    return check


class ProtectedModel(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A model that is trained on a k-anonymous release of its training rows, and predicts raw rows.

    In a pipeline with an anonymizer, ``predict`` would first recode new rows as in the release. Here they stay
    unchanged, so cross-validation measures the model on raw rows.

    Parameters
    ----------
    model : estimator
        The model to train; a fresh copy is used.
    anonymizer : Anonymizer
        For example ``Mondrian(schema, k=10, recoding="representative")``. If it can be guided by a model and has none,
        it is guided by this one.

    Attributes
    ----------
    model_ : estimator
        The trained copy.
    anonymizer_ : Anonymizer
        Fitted on the training rows; ``labels_`` and ``groups_`` describe the release.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from shoal import AccuracyGuided, ProtectedModel, make_model
    >>> from shoal.datasets import make_census
    >>> from shoal.models import read_target
    >>> census = make_census(600)
    >>> y = read_target(census.frame, census.schema)
    >>> model = ProtectedModel(make_model("tree", census.schema), AccuracyGuided(census.schema, k=10, guide=0.7))
    >>> bool(cross_val_score(model, census.frame, y, cv=2).mean() > 0.6)
    True
    """

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "model": having("fit"),
        "anonymizer": instance_of(Anonymizer, text="an anonymizer such as Mondrian(schema)"),
    }

    def __init__(self, model: Any, anonymizer: Anonymizer) -> None:
        self.model = model
        self.anonymizer = anonymizer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Anonymize the rows and train the model on the release; ``y`` defaults to the schema's target."""
        check_parameters(self)
        if y is None and (not frames.is_frame(X) or self.anonymizer.schema is None):
            raise ShoalError(
                "ProtectedModel requires y to be passed, but the target y is None: "
                "pass it, or a table and an anonymizer whose schema has a target."
            )
        anonymizer = clone(self.anonymizer)
        if "model" in anonymizer.get_params(deep=False) and anonymizer.model is None:
            anonymizer.set_params(model=clone(self.model))
        released = anonymizer.fit_transform(X, y)
        recoding = anonymizer.recoding_in_use
        if recoding in recodings_that_publish("texts"):
            raise ShoalError(
                f"recoding={recoding!r} does not suit a model that must accept raw rows: "
                "set the anonymizer's recoding to 'representative'."
            )
        # The model is made to be shared, and must not contain raw values.
        self.anonymizer_ = anonymizer.forget_rows()
        if y is None:
            labels = read_target(X, anonymizer.schema_)
        else:
            labels = read_labels(column_or_1d(y, warn=True), len(anonymizer.labels_))
        kept = np.flatnonzero(anonymizer.labels_ >= 0)
        self.model_ = clone(self.model).fit(self._seen(released, kept), labels[kept])
        return self

    def predict(self, X: Any) -> Any:
        """Predict rows as they are."""
        return self._ask("predict", X)

    @available_if(_can("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Predict the probability of each class."""
        return self._ask("predict_proba", X)

    @available_if(_can("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the score of each class."""
        return self._ask("decision_function", X)

    @available_if(_can("score"))
    def score(self, X: Any, y: Any) -> float:
        """Return the model's own score on rows as they are."""
        check_is_fitted(self, "model_")
        return float(self.model_.score(self._seen(X), y))

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the model."""
        return np.asarray(self.model_.classes_)

    @property
    def n_features_in_(self) -> int:
        """Number of columns in ``fit``."""
        return int(self.anonymizer_.n_features_in_)

    def _ask(self, what: str, X: Any) -> Any:
        check_is_fitted(self, "model_")
        return getattr(self.model_, what)(self._seen(X))

    def _seen(self, X: Any, rows: np.ndarray | None = None) -> Any:
        """Return the columns of a table that the model uses: all but identifiers and targets."""
        if not frames.is_frame(X):
            return X if rows is None else X[rows]
        frame = frames.open_frame(X)
        targets = {attribute.name for attribute in self.anonymizer_.schema_.target}
        names = [name for name in self.anonymizer_.get_feature_names_out() if name not in targets]
        for name in names:
            if name not in frame.columns:
                raise DataError(f"Column {name!r} is missing, but the model was trained with it: add it.")
        seen = frame.select(names)
        return (seen if rows is None else seen[rows]).to_native()

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.model)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags = replace(inner.input_tags, sparse=False)
        return tags
