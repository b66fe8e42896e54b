"""Split rows into training and test rows, and score a trained model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from shoal.errors import ShoalError, reason


def split_rows(
    y: np.ndarray, task: str, test_size: float, train_size: float | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of training and test rows, with the classes in proportion."""
    try:
        train, test = train_test_split(
            np.arange(len(y)),
            test_size=test_size,
            train_size=train_size,
            random_state=seed,
            stratify=_strata(y) if task == "classification" else None,
        )
    except (ValueError, TypeError) as error:
        raise ShoalError(
            f"{len(y):,} rows cannot be split with test_size={test_size!r} and train_size={train_size!r} "
            f"({reason(error)}): choose shares that leave rows of every class."
        ) from None
    return np.sort(train), np.sort(test)


def _strata(y: np.ndarray) -> np.ndarray:
    """Return the class of each row; a class of a single row, which cannot be split, joins the largest."""
    _, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    return np.where(sizes[codes] > 1, codes, sizes.argmax())


@contextmanager
def telling_why(label: str) -> Iterator[None]:
    """Turn an error of a model into a sentence about it."""
    try:
        yield
    except ShoalError:
        raise
    except (ValueError, TypeError) as error:
        raise ShoalError(
            f"The model {label!r} cannot be trained or used on this table ({reason(error)}): "
            "choose another, or a pipeline that prepares the columns for it."
        ) from None


def seeded(model: Any, seed: int) -> Any:
    """Return an untrained clone whose random numbers all follow from the seed."""
    model = clone(model)
    names = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
    return model.set_params(**dict.fromkeys(names, seed)) if names else model


def score_model(task: str, model: Any, rows: Any, truth: np.ndarray) -> dict[str, float]:
    """Return the scores of a trained model on some rows, by name."""
    return _SCORERS[task](model, rows, truth)


def _classify(model: Any, rows: Any, truth: np.ndarray) -> dict[str, float]:
    predicted = np.asarray(model.predict(rows))
    return {
        "accuracy": float(metrics.accuracy_score(truth, predicted)),
        "f1_macro": float(metrics.f1_score(truth, predicted, average="macro", zero_division=0)),
        "f1_weighted": float(metrics.f1_score(truth, predicted, average="weighted", zero_division=0)),
        "auc": _auc(model, rows, truth),
    }


def _auc(model: Any, rows: Any, truth: np.ndarray) -> float:
    """Return the area under the ROC curve: of one class against the other, or the mean of each against the rest."""
    score = getattr(model, "predict_proba", None) or getattr(model, "decision_function", None)
    if score is None:
        return float("nan")
    scores, classes = np.asarray(score(rows)), np.asarray(model.classes_)
    if scores.ndim == 1:
        scores = np.column_stack((-scores, scores))
    pairs = [(truth == name, scores[:, j]) for j, name in enumerate(classes)]
    areas = [metrics.roc_auc_score(one, of_one) for one, of_one in pairs if 0 < one.sum() < len(one)]
    return float(np.mean(areas)) if areas else float("nan")


def _regress(model: Any, rows: Any, truth: np.ndarray) -> dict[str, float]:
    predicted = np.asarray(model.predict(rows), float)
    return {
        "r2": float(metrics.r2_score(truth, predicted)),
        "mae": float(metrics.mean_absolute_error(truth, predicted)),
        "rmse": float(metrics.root_mean_squared_error(truth, predicted)),
    }


_SCORERS = {"classification": _classify, "regression": _regress}
