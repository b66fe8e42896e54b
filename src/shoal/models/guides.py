"""Guides of a partition: the output of a model for each row, or a known label.

A *soft* guide is one or several numbers per row: logits of classes, or predicted values. It still distinguishes rows
for which a *hard* one, the class alone, is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from shoal.data import frames
from shoal.data.factored import FactoredFrame
from shoal.errors import DataError, ShoalError, reason

SUREST = 0.01
"""Limit of the certainty of probabilities: a forest often outputs 0 and 1, whose logits are infinite."""
SUM_TOLERANCE = 1e-3
"""Tolerance of the sum of a row's probabilities; files have few decimals."""
MOST_CLASSES = 100
"""Whole numbers with more distinct values than this are numbers, not classes, if neither a model nor a schema says
which they are. So many classes guide directly: training models for them takes hours."""
FEW_ROWS = 200
"""Fewer rows than this are guided by their labels: they are too few to train a model on a part of them."""


class Guide(NamedTuple):
    """The numbers or classes of each row that a partition should preserve."""

    outputs: np.ndarray | None
    """float64 (n, m): numbers to preserve; None if only classes are known."""
    classes: np.ndarray | None
    """int32 (n,): the class of each row; None if numbers are predicted."""
    n_classes: int

    def take(self, rows: np.ndarray) -> Guide:
        """Return the guide of some rows."""
        outputs = None if self.outputs is None else self.outputs[rows]
        return Guide(outputs, None if self.classes is None else self.classes[rows], self.n_classes)


Rows = np.ndarray


class ModelInput(NamedTuple):
    """The columns that a model sees, in the form in which it takes them."""

    table: FactoredFrame
    names: list[str]
    as_array: bool = False
    as_factors: bool = False
    """True for models that need no table, because they read its factors."""

    def take(self, rows: Rows | None = None) -> Any:
        """Return the rows, as the model takes them."""
        return self.of(self.table if rows is None else self.table.take(rows))

    def of(self, table: FactoredFrame) -> Any:
        """Return another table with these columns, as the model takes it."""
        if self.as_factors:
            return table
        seen = table.frame.select(self.names)
        return seen.to_numpy() if self.as_array else seen.to_native()


class Trained:
    """Trained models that only predict; the logits of several are averaged."""

    def __init__(self, models: Sequence[Any], seen: Sequence[tuple[list[str], bool]]) -> None:
        self.models = models
        self.seen = seen

    def predict(self, frame: Any) -> np.ndarray:
        """Predict numbers, or the most likely classes."""
        if hasattr(self.models[0], "classes_"):
            return np.asarray(self.models[0].classes_[self.predict_proba(frame).argmax(axis=1)])
        return np.asarray(np.mean([model.predict(seen) for model, seen in self._each(frame)], axis=0))

    @available_if(lambda self: hasattr(self.models[0], "classes_"))
    def predict_proba(self, frame: Any) -> np.ndarray:
        """Predict the probabilities of the classes."""
        each = [np.log(np.clip(model.predict_proba(seen), 1e-9, 1)) for model, seen in self._each(frame)]
        chances = np.exp(np.mean(each, axis=0))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def _each(self, frame: Any) -> Iterator[tuple[Any, Any]]:
        from shoal.models.estimators import takes_factors

        table = FactoredFrame.of(frame)
        for model, (names, as_array) in zip(self.models, self.seen, strict=True):
            yield model, ModelInput(table, names, as_array, takes_factors(model)).take()


def read_labels(y: Any, n_rows: int, name: str = "y") -> np.ndarray:
    """Return labels, predictions (n,) or probabilities (n, classes) as an array of the right length without gaps.

    ``name`` stands for them in errors.
    """
    if frames.is_frame(y):
        y = frames.open_frame(y).to_numpy()
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or 0 in values.shape[1:]:
        shape = f"{values.ndim} dimensions" if values.ndim not in (1, 2) else "no columns"
        raise DataError(f"{name} has {shape}: give one value per row, or one column of probabilities per class.")
    if len(values) != n_rows:
        raise DataError(f"{name} has {len(values):,} entries for {n_rows:,} rows: give one per row, in the same order.")
    if values.dtype == object:
        missing = np.array([_is_missing(value) for value in values.ravel()], bool).reshape(values.shape)
        values = values if missing.any() else _plain(values)
    else:
        missing = np.isnan(values) if values.dtype.kind in "fM" else np.zeros(values.shape, bool)
    if missing.any():
        row = int(np.flatnonzero(missing.reshape(n_rows, -1).any(axis=1))[0])
        raise DataError(f"{name} has {missing.sum():,} missing values, the first in row {row}: leave these rows out.")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).reshape(n_rows, -1).all(axis=1)))
        raise DataError(f"{name} is infinite in row {row}: leave this row out.")
    if values.ndim == 2 and values.dtype.kind not in "fiub":
        raise DataError(f"{name} has {values.shape[1]} columns that are not all numbers: pass one value per row.")
    return values


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        # Comparing pandas.NA gives NA, whose truth value is an error.
        return True


def _plain(values: np.ndarray) -> np.ndarray:
    """Return objects as numbers if they are all numbers, else as texts, which can be compared and sorted."""
    try:
        return values.astype(float) if values.ndim == 2 else np.array(values.tolist())
    except ValueError:
        return values.astype(str)


def guide_from_values(values: np.ndarray, *, regression: bool) -> Guide:
    """Return the guide from a known value of each row: its class, a number, probabilities, or several numbers.

    One column of numbers from 0 to 1 that are not all whole holds the probability of a class.
    """
    if values.ndim == 2:
        values = values.astype(float)
        if not regression and _are_probabilities(values):
            return Guide(logits(values), _winners(values), values.shape[1])
        return Guide(values, None, 0)
    fractions = values.dtype.kind == "f" and (values != np.rint(values)).any()
    if fractions and not regression and values.min() >= 0 and values.max() <= 1:
        return Guide(logits(np.column_stack([1 - values, values])), (values > 0.5).astype(np.int32), 2)
    if regression or fractions:
        return Guide(values.astype(float).reshape(-1, 1), None, 0)
    names, codes = np.unique(values, return_inverse=True)
    return Guide(None, codes.astype(np.int32), len(names))


def _winners(scores: np.ndarray) -> np.ndarray:
    """Return the class with the highest score of each row."""
    return scores.argmax(axis=1).astype(np.int32)


def labels_to_learn_from(known: np.ndarray | None, regression: bool) -> np.ndarray | None:
    """Return labels for training; None if they are missing, too few, too diverse, or the output of a model."""
    if known is None or known.ndim != 1 or len(known) < FEW_ROWS:
        return None
    if regression:
        return known
    if guide_from_values(known, regression=False).outputs is not None:
        return None
    if not 2 <= len(np.unique(known)) <= MOST_CLASSES:
        return None
    return known


def are_alike(known: np.ndarray | None) -> bool:
    """Return True if all rows have the same label."""
    return known is not None and known.ndim == 1 and bool((known == known[0]).all())


def _are_probabilities(values: np.ndarray) -> bool:
    return bool(
        values.min() >= 0 and values.max() <= 1 and np.allclose(values.sum(axis=1), 1, rtol=0, atol=SUM_TOLERANCE)
    )


def logits(probabilities: np.ndarray) -> np.ndarray:
    """Return the logits of probabilities (n, classes): one column for two classes, else one per class.

    >>> logits(np.array([[0.5, 0.5], [0.25, 0.75]])).round(2).tolist()
    [[0.0], [1.1]]
    """
    logs = np.log(np.clip(probabilities, SUREST, 1 - SUREST))
    if probabilities.shape[1] == 2:
        return logs[:, 1:] - logs[:, :1]
    return logs - logs.mean(axis=1, keepdims=True)


def name_of(model: Any) -> str:
    """Return the name of a model's class; of a pipeline, that of its last step.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.svm import LinearSVC
    >>> name_of(make_pipeline(StandardScaler(), LinearSVC()))
    'LinearSVC'
    """
    steps = getattr(model, "steps", None)
    return type(steps[-1][1] if steps else model).__name__


def can_retrain(model: Any) -> bool:
    """Return True if a fresh copy of the model can be trained; a black box only predicts."""
    if not hasattr(model, "fit"):
        return False
    try:
        clone(model)
    except TypeError:
        return False
    return True


def needs_training(model: Any) -> bool:
    """Return True if a model can be trained but is not."""
    if not can_retrain(model):
        return False
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        return True
    return False


def predicts_numbers(model: Any) -> bool | None:
    """Return True for a regressor and False for a classifier; None if the model does not show which."""
    if hasattr(model, "predict_proba") or hasattr(model, "classes_"):
        return False
    if not hasattr(model, "__sklearn_tags__"):
        return None
    return True if is_regressor(model) else False if is_classifier(model) else None


def guide_from_model(model: Any, seen: Any, *, soft: bool, regression: bool) -> Guide:
    """Return the output of a trained model for these rows as a guide."""
    said_by = f"The output of the model, a {type(model).__name__},"
    try:
        if soft and not regression:
            outputs = _soft_outputs(model, seen, said_by)
            if outputs is not None:
                return outputs
        values = read_labels(model.predict(seen), len(seen), said_by)
    except NotFittedError:
        raise ShoalError(
            f"The model, a {type(model).__name__}, is not trained, and there are no labels to train it on: "
            "train it, or pass y or a schema with a target."
        ) from None
    except ShoalError:
        raise
    except Exception as error:  # any model is allowed, also a remote service
        raise ShoalError(
            f"The model, a {name_of(model)}, cannot predict this table ({reason(error)}): pass one that takes "
            "its columns unchanged."
        ) from None
    if regression and values.dtype.kind not in "fiub":
        raise DataError(f"{said_by} is {str(values.flat[0])!r}, but numbers are to be predicted: pass a regressor.")
    return guide_from_values(values, regression=regression)


def _soft_outputs(model: Any, seen: Any, said_by: str) -> Guide | None:
    if hasattr(model, "predict_proba"):
        probabilities = read_labels(model.predict_proba(seen), len(seen), said_by).astype(float)
        if probabilities.ndim == 1:
            probabilities = np.column_stack([1 - probabilities, probabilities])
        return Guide(logits(probabilities), _winners(probabilities), probabilities.shape[1])
    if hasattr(model, "decision_function"):
        scores = read_labels(model.decision_function(seen), len(seen), said_by).astype(float)
        if scores.ndim == 1:
            return Guide(scores.reshape(-1, 1), (scores > 0).astype(np.int32), 2)
        return Guide(scores - scores.mean(axis=1, keepdims=True), _winners(scores), scores.shape[1])
    return None


def guide_out_of_fold(
    models: Sequence[tuple[Any, ModelInput]],
    y: np.ndarray,
    *,
    regression: bool,
    folds: int,
    seed: int,
    train: Callable[[Any, Any, np.ndarray], Any],
    n_jobs: int | None = None,
) -> Guide:
    """Return the out-of-fold outputs of copies of models: soft, and as uncertain as on new rows.

    Parameters
    ----------
    models : sequence of (estimator, ModelInput)
        Outputs of several are averaged on a common scale.
    y : array (n,)
    regression : bool
    folds, seed : int
    train : function
        ``train(model, seen, y)`` returns a trained copy.
    n_jobs : int, optional
        Number of copies trained in parallel.
    """
    names, codes = (np.empty(0), y) if regression else np.unique(y, return_inverse=True)
    splits = fold_rows(codes, folds, regression=regression, seed=seed)

    def ask(model: Any, given: ModelInput, known: Rows, held_out: Rows) -> np.ndarray:
        if not regression and (codes[known] == codes[known[0]]).all():
            # Many models refuse to learn a single class.
            return logits(np.eye(len(names))[codes[known[:1]]]).repeat(len(held_out), axis=0)
        trained = train(model, given.take(known), y[known])
        said = guide_from_model(trained, given.take(held_out), soft=True, regression=regression)
        if said.outputs is None:
            return logits(np.eye(len(names))[np.searchsorted(names, trained.predict(given.take(held_out)))])
        if not regression and len(trained.classes_) < len(names):
            return _spread(said.outputs, trained.classes_, names)
        return said.outputs

    from joblib import Parallel, delayed

    jobs = [(*model, *split) for model in models for split in splits]
    answers: list[np.ndarray] = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(ask)(*job) for job in jobs)
    said = [_in_order(answers[i : i + folds], splits, len(y)) for i in range(0, len(answers), folds)]
    return Guide(_average(said), None if regression else codes.astype(np.int32), len(names))


def _in_order(answers: Sequence[np.ndarray], splits: Sequence[tuple[Rows, Rows]], n_rows: int) -> np.ndarray:
    """Return the outputs for the held-out part of each split, row by row."""
    outputs = np.empty((n_rows, answers[0].shape[1]))
    for (_, held_out), answer in zip(splits, answers, strict=True):
        outputs[held_out] = answer
    return outputs


def _average(said: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean output of models on a common scale; only the first one's if they cannot be compared."""
    scales = [float(np.sqrt(outputs.var(axis=0).sum())) for outputs in said]
    if len(said) == 1 or min(scales) == 0 or any(outputs.shape != said[0].shape for outputs in said):
        return said[0]
    return np.mean([outputs / scale for outputs, scale in zip(said, scales, strict=True)], axis=0)


def _spread(part: np.ndarray, known: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Return the outputs of a copy that did not see every class: an unseen class is as unlikely as possible."""
    part = np.column_stack([-part / 2, part / 2]) if part.shape[1] == 1 else part
    spread = np.full((len(part), len(names)), part.min(initial=0.0))
    spread[:, np.searchsorted(names, known)] = part
    return spread


def fold_rows(codes: np.ndarray, folds: int, *, regression: bool, seed: int) -> list[tuple[Rows, Rows]]:
    """Return folds with the classes in proportion, if every class has enough rows."""
    stratify = not regression and np.bincount(codes).min() >= folds
    from sklearn.model_selection import KFold, StratifiedKFold

    splitter = (StratifiedKFold if stratify else KFold)(folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(codes)), codes))
