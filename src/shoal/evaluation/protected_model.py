"""A model that is trained on a release, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from shoal.anonymizers import Anonymizer
from shoal.data import frames
from shoal.errors import DataError, ShoalError
from shoal.models import read_target
from shoal.models.guides import read_labels


def _can(name: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        return hasattr(getattr(self, "model_", self.model), name)

    return check


class ProtectedModel(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A model that is trained on a k-anonymous release of its training rows, and takes new rows as they are.

    In a pipeline with an anonymizer, ``predict`` would put new rows into the words of the release first. Here they
    stay as they are, and what cross-validation says is true of raw rows.

    Parameters
    ----------
    model : estimator
        A fresh copy is trained.
    anonymizer : Anonymizer
        Such as ``Mondrian(schema, k=10, recoding="representative")``. If it can be guided by a model and has none, it
        is guided by this one.

    Attributes
    ----------
    model_ : estimator
        Trained on the release.
    anonymizer_ : Anonymizer
        Fitted on the training rows; ``labels_`` and ``groups_`` tell what was released.

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

    def __init__(self, model: Any, anonymizer: Anonymizer) -> None:
        self.model = model
        self.anonymizer = anonymizer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Anonymize the rows and train the model on what is released; ``y`` may be the schema's target."""
        if not isinstance(self.anonymizer, Anonymizer):
            raise ShoalError(f"The anonymizer is {self.anonymizer!r}: pass one of Shoal's, such as Mondrian(schema).")
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
        if recoding in ("interval", "level", "set"):
            raise ShoalError(
                f"recoding={recoding!r} is of no use to a model that must understand raw rows: "
                "set the anonymizer's recoding to 'representative'."
            )
        # The model is made to be handed on, and must not take raw values with it.
        self.anonymizer_ = anonymizer.forget_rows()
        if y is None:
            labels = read_target(X, anonymizer.schema_)
        else:
            labels = read_labels(column_or_1d(y, warn=True), len(anonymizer.labels_))
        kept = np.flatnonzero(anonymizer.labels_ >= 0)
        self.model_ = clone(self.model).fit(self._seen(released, kept), labels[kept])
        return self

    def predict(self, X: Any) -> Any:
        """What the model says of rows as they are."""
        return self._ask("predict", X)

    @available_if(_can("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """The probability of each class."""
        return self._ask("predict_proba", X)

    @available_if(_can("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """The score of each class."""
        return self._ask("decision_function", X)

    @available_if(_can("score"))
    def score(self, X: Any, y: Any) -> float:
        """The model's own score on rows as they are."""
        check_is_fitted(self, "model_")
        return float(self.model_.score(self._seen(X), y))

    @property
    def classes_(self) -> np.ndarray:
        """The classes that the model knows."""
        return np.asarray(self.model_.classes_)

    @property
    def n_features_in_(self) -> int:
        """Columns that ``fit`` saw."""
        return int(self.anonymizer_.n_features_in_)

    def _ask(self, what: str, X: Any) -> Any:
        check_is_fitted(self, "model_")
        return getattr(self.model_, what)(self._seen(X))

    def _seen(self, X: Any, rows: np.ndarray | None = None) -> Any:
        """What the model sees of a table: all columns but identifiers and targets."""
        if not frames.is_frame(X):
            return X if rows is None else X[rows]
        frame = frames.open_frame(X)
        targets = {attribute.name for attribute in self.anonymizer_.schema_.target}
        names = [name for name in self.anonymizer_.get_feature_names_out() if name not in targets]
        for name in names:
            if name not in frame.columns:
                raise DataError(f"Column {name!r} was there when the model was trained and is not there now: add it.")
        seen = frame.select(names)
        return (seen if rows is None else seen[rows]).to_native()

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.model)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags = replace(inner.input_tags, sparse=False)
        return tags
