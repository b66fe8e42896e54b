"""What a model says of rows, looked at before it is used: models can raise, and return anything."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_regressor

from shoal import frames
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
            said = _call(model, "predict", rows, n)
            return Answers("numbers", said.reshape(n, -1).astype(float), labels.astype(float))
        assert self.classes is not None
        truth = code_labels(labels, self.classes)
        if self.kind == "labels":
            said = np.asarray(_call(model, "predict", rows, n))
            return Answers("labels", np.asarray(said[:, None] == self.classes[None, :], float), truth)
        columns = _probabilities(model, rows, n)
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


def _probabilities(model: Any, rows: Any, n: int) -> np.ndarray:
    if hasattr(model, "predict_proba"):
        found = _call(model, "predict_proba", rows, n)
        if found.ndim != 2:
            raise ShoalError(f"The model's predict_proba returns the shape {found.shape}, not a row of them each.")
        if (found < -SUM_TOLERANCE).any() or (np.abs(found.sum(axis=1) - 1) > SUM_TOLERANCE).any():
            raise ShoalError("The model's probabilities are not all from 0 to 1 with a sum of 1: mend the model.")
        return np.clip(found, 0.0, 1.0)
    found = _call(model, "decision_function", rows, n)
    found = np.column_stack([-found / 2, found / 2]) if found.ndim == 1 else found
    raised = np.exp(found - found.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _call(model: Any, method: str, rows: Any, n: int) -> np.ndarray:
    if not hasattr(model, method):
        raise ShoalError(f"A {type(model).__name__} has no {method}, so it cannot be attacked: pass a trained model.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = np.asarray(getattr(model, method)(rows))
        except Exception as error:  # whatever a model does with its rows
            raise ShoalError(f"The model cannot answer: its {method} fails ({reason(error)}).") from None
    if len(np.atleast_1d(found)) != n:
        raise ShoalError(f"The model's {method} returns {len(np.atleast_1d(found))} answers for {n} rows: mend it.")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ShoalError(f"The model's {method} returns values that are no finite numbers: mend the model.")
    return found
