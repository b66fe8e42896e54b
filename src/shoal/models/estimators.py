"""Estimators between a table and a model, which accept columns of any library and classes of any type."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from shoal.data.factored import FactoredFrame
from shoal.data.frames import Factor
from shoal.data.value_text import in_number_order, plain_text
from shoal.errors import DataError
from shoal.models.targets import numbers_of


class FrameEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the columns of a table of any library as numbers.

    Parameters
    ----------
    columns : dict
        For each column ``"numeric"``, ``"nominal"``, ``"ordinal"``, or a list of its values in order. Nominal values
        are numbered alphabetically. Ordinal ones are numbers themselves, or numbered in order.

    Examples
    --------
    >>> import polars as pl
    >>> people = pl.DataFrame({"age": [31, None], "sex": ["f", "m"], "size": ["S", "L"]})
    >>> FrameEncoder({"age": "numeric", "sex": "nominal", "size": ["S", "M", "L"]}).fit_transform(people)
    array([[31.,  0.,  0.],
           [nan,  1.,  2.]])
    """

    def __init__(self, columns: Mapping[str, str | Sequence[Any]]) -> None:
        self.columns = columns

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the values of nominal columns, and of ordinal ones without a given order."""
        self.categories_ = {}
        for name, factor in self._factors(X).items():
            coding = self.columns[name]
            if coding == "numeric":
                continue
            order = list(coding) if not isinstance(coding, str) else factor.values.tolist()
            texts = [plain_text(value, factor.content) for value in order]
            if coding != "ordinal" or (factor.content == "text" and in_number_order(texts) is None):
                self.categories_[name] = texts
        self.n_features_in_ = len(self.columns)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows as numbers: NaN where a value is missing, -1 where a nominal or ordered one is unknown."""
        check_is_fitted(self, "categories_")
        factors = self._factors(X)
        n_rows = len(next(iter(factors.values())).codes)
        encoded = np.empty((n_rows, len(factors)))
        for j, (name, factor) in enumerate(factors.items()):
            encoded[:, j] = np.append(self._values(name, factor), np.nan)[factor.codes]
        return encoded

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns."""
        return np.array(list(self.columns), dtype=object)

    def _values(self, name: str, factor: Factor) -> np.ndarray:
        """Return the number of each distinct value of a column."""
        if name not in self.categories_:
            return numbers_of(factor, name)
        code = {text: float(i) for i, text in enumerate(self.categories_[name])}
        # A value without a place in the order counts as missing; an unknown nominal value belongs to no class.
        unknown = -1.0 if self.columns[name] == "nominal" else np.nan
        return np.array([code.get(plain_text(value, factor.content), unknown) for value in factor.values], float)

    def _factors(self, X: Any) -> dict[str, Factor]:
        factored = FactoredFrame.of(X)
        for name in self.columns:
            if name not in factored.columns:
                raise DataError(f"Column {name!r} is not in the table, but the model uses it: add it.")
        return factored.factors(list(self.columns))


def takes_factors(model: Any) -> bool:
    """Return True if a model reads tables by a :class:`FrameEncoder`, which need not factorize columns again."""
    return isinstance(model, ModelPipeline) and isinstance(model.steps[0][1], FrameEncoder)


class ModelPipeline(Pipeline):  # type: ignore[misc]
    """A pipeline that does not warn if a solver stops at its last iteration: the score shows it."""

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Prepare the rows and train the model."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            super().fit(X, y, **params)
        return self


class CodedTarget(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Let a classifier that needs the classes 0, 1, ... predict any classes."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: Any, y: Any) -> Self:
        """Encode the classes as numbers and train the classifier."""
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        self.classifier_ = clone(self.classifier).fit(X, codes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row."""
        return self.classes_[np.asarray(self.classifier_.predict(X), np.intp)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class."""
        return np.asarray(self.classifier_.predict_proba(X))
