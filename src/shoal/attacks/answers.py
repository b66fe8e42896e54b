"""What a model says of rows, looked at before it is used: models can raise, and return anything."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_regressor

from shoal.data import frames
from shoal.errors import DataError, ShoalError, reason

SUM_TOLERANCE = 1e-3
MOST_CLASSES = 1000


class Answers(NamedTuple):
    """What a model says of rows, beside their true labels."""

    kind: Literal["probabilities", "labels", "numbers"]
    columns: np.ndarray
    """A probability for each class, or 1 for the class that is said, or the number that is said."""
    truth: np.ndarray
    """Codes of the true classes, or true numbers."""

    @property
    def of_truth(self) -> np.ndarray:
        """The probability of the true class."""
        return self.columns[np.arange(len(self.truth)), self.truth]


class Asking(NamedTuple):
    """How models of a task are asked: what they return, and which classes there are."""

    kind: Literal["probabilities", "labels", "numbers"]
    classes: np.ndarray | None

    def ask(self, model: Any, rows: Any, labels: np.ndarray) -> Answers:
        """What a model says of rows."""
        n = n_rows_of(rows)
        if self.kind == "numbers":
            said = call_model(model, "predict", rows)
            return Answers("numbers", said.reshape(n, -1).astype(float), labels.astype(float))
        assert self.classes is not None
        truth = code_labels(labels, self.classes)
        if self.kind == "labels":
            said = call_model(model, "predict", rows)
            return Answers("labels", np.asarray(said[:, None] == self.classes[None, :], float), truth)
        columns = probabilities_of(model, rows)
        own = np.asarray(getattr(model, "classes_", self.classes))
        if len(own) != columns.shape[1]:
            raise ShoalError(f"The model gives {columns.shape[1]} probabilities for {len(own)} classes: mend it.")
        spread = np.zeros((n, len(self.classes)))
        spread[:, code_labels(own, self.classes)] = columns
        return Answers("probabilities", spread, truth)


def plan_asking(model: Any, labels: np.ndarray) -> Asking:
    """How to ask a model, by what it can do and what its labels are."""
    predicts_numbers = isinstance(model, BaseEstimator) and is_regressor(model)
    if predicts_numbers or (not _is_classifier(model) and labels.dtype.kind == "f"):
        if labels.dtype.kind not in "biuf":
            raise ShoalError("The model predicts numbers, but the labels are none: pass what it was trained on.")
        return Asking("numbers", None)
    own = getattr(model, "classes_", None)
    classes = np.unique(np.concatenate([np.asarray(own), np.unique(labels)])) if own is not None else np.unique(labels)
    if len(np.unique(labels)) < 2:
        raise DataError(f"All rows have the label {labels[0]!r}, so that nothing can be told from it: pass others.")
    if len(classes) > MOST_CLASSES:
        raise DataError(f"There are {len(classes):,} different labels: attacks take up to {MOST_CLASSES:,} classes.")
    soft = hasattr(model, "predict_proba") or hasattr(model, "decision_function")
    return Asking("probabilities" if soft else "labels", classes)


def code_labels(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Positions of labels among sorted classes."""
    found = np.clip(np.searchsorted(classes, labels), 0, len(classes) - 1)
    wrong = classes[found] != labels
    if wrong.any():
        raise DataError(f"The label {np.asarray(labels)[wrong][0]!r} is none of the model's classes: leave it out.")
    return found


def n_rows_of(rows: Any) -> int:
    """Rows of a table or an array."""
    return len(frames.open_frame(rows)) if frames.is_frame(rows) else len(rows)


def _is_classifier(model: Any) -> bool:
    return hasattr(model, "predict_proba") or hasattr(model, "classes_")


def probabilities_of(model: Any, rows: Any) -> np.ndarray:
    """What a model holds for how likely, by its probabilities or else by its decisions (n, classes)."""
    if hasattr(model, "predict_proba"):
        found = call_model(model, "predict_proba", rows)
        if found.ndim != 2 or found.dtype.kind not in "biuf":
            raise ShoalError(f"predict_proba of the model returns the shape {found.shape}, not a row of numbers each.")
        if (found < -SUM_TOLERANCE).any() or (np.abs(found.sum(axis=1) - 1) > SUM_TOLERANCE).any():
            raise ShoalError("The model's probabilities are not all from 0 to 1 with a sum of 1: mend the model.")
        return np.clip(found, 0.0, 1.0)
    found = call_model(model, "decision_function", rows)
    found = np.column_stack([-found / 2, found / 2]) if found.ndim == 1 else found
    raised = np.exp(found - found.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def call_model(model: Any, method: str, rows: Any) -> np.ndarray:
    """What a model answers by a method: one for each row, and if numbers, finite ones."""
    if not hasattr(model, method):
        raise ShoalError(f"The model is a {type(model).__name__}, which has no {method}: pass a trained model.")
    found, n = call(method, getattr(model, method), rows), n_rows_of(rows)
    if found.ndim == 0 or len(found) != n:
        answered = 1 if found.ndim == 0 else len(found)
        raise ShoalError(f"{method} of the model returns {answered:,} answers to {n:,} rows: it must be one each.")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0, 0])
        raise ShoalError(f"{method} of the model returns no finite number for row {row:,}: mend the model.")
    return found


def call(name: str, function: Callable[[Any], Any], rows: Any) -> np.ndarray:
    """What a function of a model returns, or a sentence if it fails."""
    with warnings.catch_warnings():
        # A model may warn of a value that is tried and new to it, or of names of columns that it was trained without.
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(rows))
        except ShoalError:
            raise
        except Exception as error:  # whatever a model does with its rows
            raise ShoalError(
                f"{name} of the model fails on these rows ({reason(error)}): pass rows as it was trained on."
            ) from None
