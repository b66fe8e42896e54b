"""Answers of models, checked before use: models can raise, and return anything."""

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
    """Answers of a model for rows, with their true labels."""

    kind: Literal["probabilities", "labels", "numbers"]
    columns: np.ndarray
    """The probability of each class, or 1 for the predicted class, or the predicted number."""
    truth: np.ndarray
    """Codes of the true classes, or true numbers."""

    @property
    def of_truth(self) -> np.ndarray:
        """Probability of the true class."""
        return self.columns[np.arange(len(self.truth)), self.truth]


class Asking(NamedTuple):
    """The kind of answer to ask models of a task for, and their classes."""

    kind: Literal["probabilities", "labels", "numbers"]
    classes: np.ndarray | None

    def ask(self, model: Any, rows: Any, labels: np.ndarray) -> Answers:
        """Return the answers of a model for rows."""
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
            raise ShoalError(f"The model gives {columns.shape[1]} probabilities for {len(own)} classes: fix it.")
        spread = np.zeros((n, len(self.classes)))
        spread[:, code_labels(own, self.classes)] = columns
        return Answers("probabilities", spread, truth)


def plan_asking(model: Any, labels: np.ndarray) -> Asking:
    """Choose the kind of answer by the abilities of a model and its labels."""
    predicts_numbers = isinstance(model, BaseEstimator) and is_regressor(model)
    if predicts_numbers or (not _is_classifier(model) and labels.dtype.kind == "f"):
        if labels.dtype.kind not in "biuf":
            raise ShoalError("The model predicts numbers, but the labels are not numeric: pass those of its training.")
        return Asking("numbers", None)
    own = getattr(model, "classes_", None)
    classes = np.unique(np.concatenate([np.asarray(own), np.unique(labels)])) if own is not None else np.unique(labels)
    if len(np.unique(labels)) < 2:
        raise DataError(f"All rows have the label {labels[0]!r}, so that nothing can be inferred: pass others.")
    if len(classes) > MOST_CLASSES:
        raise DataError(
            f"There are {len(classes):,} distinct labels: merge them into at most {MOST_CLASSES:,} classes."
        )
    soft = hasattr(model, "predict_proba") or hasattr(model, "decision_function")
    return Asking("probabilities" if soft else "labels", classes)


def code_labels(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the positions of labels among sorted classes."""
    found = np.clip(np.searchsorted(classes, labels), 0, len(classes) - 1)
    wrong = classes[found] != labels
    if wrong.any():
        raise DataError(f"The label {np.asarray(labels)[wrong][0]!r} is not one of the model's classes: leave it out.")
    return found


def n_rows_of(rows: Any) -> int:
    """Return the number of rows of a table or an array."""
    return len(frames.open_frame(rows)) if frames.is_frame(rows) else len(rows)


def _is_classifier(model: Any) -> bool:
    return hasattr(model, "predict_proba") or hasattr(model, "classes_")


def probabilities_of(model: Any, rows: Any) -> np.ndarray:
    """Return the probabilities of a model (n, classes), from its decision function if it has no predict_proba."""
    if hasattr(model, "predict_proba"):
        found = call_model(model, "predict_proba", rows)
        if found.ndim != 2 or found.dtype.kind not in "biuf":
            raise ShoalError(f"predict_proba of the model returns the shape {found.shape}: it must be rows of numbers.")
        if (found < -SUM_TOLERANCE).any() or (np.abs(found.sum(axis=1) - 1) > SUM_TOLERANCE).any():
            raise ShoalError("The model's probabilities are not all from 0 to 1 with a sum of 1: fix the model.")
        return np.clip(found, 0.0, 1.0)
    found = call_model(model, "decision_function", rows)
    found = np.column_stack([-found / 2, found / 2]) if found.ndim == 1 else found
    raised = np.exp(found - found.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def call_model(model: Any, method: str, rows: Any) -> np.ndarray:
    """Return the answers of a method of a model: one per row, and finite if they are numbers."""
    if not hasattr(model, method):
        raise ShoalError(f"The model is a {type(model).__name__}, which has no {method}: pass a trained model.")
    found, n = call(method, getattr(model, method), rows), n_rows_of(rows)
    if found.ndim == 0 or len(found) != n:
        answered = 1 if found.ndim == 0 else len(found)
        raise ShoalError(f"{method} of the model returns {answered:,} answers for {n:,} rows: it must be one per row.")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        row = int(np.argwhere(~np.isfinite(found))[0, 0])
        raise ShoalError(f"{method} of the model returns no finite number for row {row:,}: fix the model.")
    return found


def call(name: str, function: Callable[[Any], Any], rows: Any) -> np.ndarray:
    """Call a function of a model, and explain a failure in a sentence."""
    with warnings.catch_warnings():
        # A model may warn of values that are new to it, or of column names that it was trained without.
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(rows))
        except ShoalError:
            raise
        except Exception as error:  # whatever a model does with its rows
            raise ShoalError(
                f"{name} of the model fails on these rows ({reason(error)}): pass rows like those of its training."
            ) from None
