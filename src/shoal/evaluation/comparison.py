"""Compare two models on rows that neither was trained on: gains and losses, with confidence intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal.data import frames
from shoal.data.factored import FactoredFrame, group_rows
from shoal.data.schema import Schema
from shoal.errors import DataError
from shoal.evaluation.scores import score_model, split_rows
from shoal.intervals import CONFIDENCE, RESAMPLES, Interval, paired_difference, share_right
from shoal.models.targets import features, read_target, target_of, task_of

NOTICEABLE_LOSS = 0.02
"""A missing loss counts only where a relevant loss would be detected: two points of accuracy, or 0.02 of R². If two
models differ on a tenth of the rows, about a thousand test rows detect that much."""


class ClassScore(NamedTuple):
    """The recall of one class, before and after."""

    name: str
    rows: int
    before: float
    after: float


class Comparison(NamedTuple):
    """Two models on the same rows, which neither was trained on."""

    task: str
    score: str
    """Name of the main score: accuracy, or r2 if the target is a number."""
    before: Interval
    after: Interval
    change: Interval
    """After minus before, paired by row."""
    agreement: float | None
    """Share of the rows with equal predictions of both models."""
    baseline: float
    """Score of always predicting the most frequent class, or the mean."""
    trained_before: float
    trained_after: float
    """Score of each model on its own training rows: a score far above that on other rows means that it overfits."""
    others: dict[str, tuple[float, float]]
    """Further scores, before and after."""
    classes: tuple[ClassScore, ...]
    rows: int


class RowSplit(NamedTuple):
    """Training rows, and rows to compare on."""

    rows: np.ndarray
    """Positions of the training rows."""
    train: FactoredFrame
    y: np.ndarray
    held_out: FactoredFrame
    truth: np.ndarray


def part_rows(table: FactoredFrame, schema: Schema, test: Any, test_size: float, seed: int) -> RowSplit:
    """Hold out test rows, unless they are given."""
    y = read_target(table, schema)
    if len(np.unique(y)) < 2:
        name = target_of(schema).name
        raise DataError(f"The target {name!r} has only the value {y[0].item()!r}: there is nothing to predict.")
    if test is None:
        train, held_out = split_rows(y, task_of(schema), test_size, None, seed)
        return RowSplit(train, table.take(train), y[train], table.take(held_out), y[held_out])
    others = FactoredFrame.of(nw.maybe_reset_index(frames.open_frame(test)))
    frames.require_rows(others)
    for name in (*features(schema), target_of(schema).name):
        if name not in others.columns:
            raise DataError(f"Column {name!r} is missing from the test rows: add it.")
    truth = _classes_like(y, read_target(others, schema), target_of(schema).name)
    _warn_of_seen_rows(table.frame, others.frame, schema)
    return RowSplit(np.arange(len(table)), table, y, others, truth)


def _warn_of_seen_rows(train: nw.DataFrame[Any], test: nw.DataFrame[Any], schema: Schema) -> None:
    """Warn if every test row is among the training rows, as far as two tables can be compared."""
    names = [*features(schema), target_of(schema).name]
    tables = train.select(names), test.select(names)
    if train.implementation != test.implementation or tables[0].schema != tables[1].schema:
        return
    groups = group_rows(nw.concat(tables), names)
    if np.isin(groups[len(train) :], groups[: len(train)]).all():
        warnings.warn(
            "Every test row is also among the training rows: if they are the same people, the comparison says nothing "
            "about new ones; leave test out, and a part is held out.",
            stacklevel=4,
        )


def _classes_like(y: np.ndarray, truth: np.ndarray, name: str) -> np.ndarray:
    """Return classes in the type of the training classes: a file may store as texts what another stores as numbers."""
    if truth.dtype.kind == y.dtype.kind:
        return truth
    if y.dtype.kind == "U":
        return truth.astype(str)
    known = {str(one): one for one in np.unique(y)}
    classes, codes = np.unique(truth, return_inverse=True)
    for one in classes.tolist():
        if str(one) not in known:
            raise DataError(
                f"The target {name!r} has the value {one!r} in the test rows, but values such as "
                f"{next(iter(known))} in the training rows: write both alike."
            )
    return np.array([known[str(one)] for one in classes.tolist()])[codes]


def compare(
    original: Any, retrained: Any, seen: Any, truth: np.ndarray, raw: tuple[Any, Any], released: tuple[Any, Any],
    schema: Schema,
) -> Comparison:  # fmt: skip
    """Compare two trained models on rows that neither has seen, and each on its own training rows."""
    task = task_of(schema)
    scores = score_model(task, original, seen, truth), score_model(task, retrained, seen, truth)
    said = np.asarray(original.predict(seen)), np.asarray(retrained.predict(seen))
    main = "accuracy" if task == "classification" else "r2"
    before, after, change = _INTERVALS[task](truth, *said)
    y = raw[1]
    common = None
    if task == "classification":
        classes, sizes = np.unique(y, return_counts=True)
        common = classes[sizes.argmax()]
    return Comparison(
        task,
        main,
        before,
        after,
        change,
        agreement=float(np.mean(said[0] == said[1])) if task == "classification" else None,
        baseline=float(np.mean(truth == common)) if common is not None else _r2(truth, np.full(len(truth), y.mean())),
        trained_before=_main_score(task, original, *raw),
        trained_after=_main_score(task, retrained, *released),
        others={name: (scores[0][name], scores[1][name]) for name in scores[0] if name != main},
        classes=_by_class(truth, *said) if task == "classification" else (),
        rows=len(truth),
    )


def _main_score(task: str, model: Any, rows: Any, truth: np.ndarray) -> float:
    said = np.asarray(model.predict(rows))
    return float(np.mean(said == truth)) if task == "classification" else _r2(truth, said)


def _by_class(truth: np.ndarray, before: np.ndarray, after: np.ndarray) -> tuple[ClassScore, ...]:
    found = []
    for name, rows in zip(*np.unique(truth, return_counts=True), strict=True):
        own = truth == name
        found.append(
            ClassScore(str(name), int(rows), float(np.mean(before[own] == name)), float(np.mean(after[own] == name)))
        )
    return tuple(found)


def _accuracies(truth: np.ndarray, before: np.ndarray, after: np.ndarray) -> tuple[Interval, Interval, Interval]:
    """Return Wilson's intervals, and that of Bonett and Price for the difference of two paired shares.

    Both are honest on few rows: if the models agree on all of them, the change may still not be zero.
    """
    right = before == truth, after == truth
    found = [share_right(one) for one in right]
    change = paired_difference(right[1], right[0])
    return found[0], found[1], change


def _r2s(truth: np.ndarray, before: np.ndarray, after: np.ndarray) -> tuple[Interval, Interval, Interval]:
    """Return bootstrap intervals that draw the same rows for both models."""
    random = np.random.default_rng(0)
    errors = np.column_stack([(truth - before) ** 2, (truth - after) ** 2, truth, truth**2]).astype(float)
    drawn = np.empty((RESAMPLES, 2))
    for i in range(RESAMPLES):
        sums = errors[random.integers(0, len(truth), len(truth))].mean(axis=0)
        drawn[i] = 1 - sums[:2] / max(sums[3] - sums[2] ** 2, np.finfo(float).tiny)
    tail = (1 - CONFIDENCE) / 2
    values = _r2(truth, before), _r2(truth, after)
    triples = [(values[0], drawn[:, 0]), (values[1], drawn[:, 1]), (values[1] - values[0], drawn[:, 1] - drawn[:, 0])]
    first, second, third = (
        Interval(value, *(float(edge) for edge in np.quantile(draws, (tail, 1 - tail)))) for value, draws in triples
    )
    return first, second, third


def _r2(truth: np.ndarray, said: np.ndarray) -> float:
    spread = float(((truth - truth.mean()) ** 2).sum())
    return 1 - float(((truth - said) ** 2).sum()) / spread if spread > 0 else math.nan


_INTERVALS = {"classification": _accuracies, "regression": _r2s}
OTHER_SCORES = {
    "f1_macro": "F1, macro average",
    "f1_weighted": "F1, weighted average",
    "auc": "AUC",
    "mae": "Mean absolute error",
    "rmse": "Root mean squared error",
}


def facts_of(found: Comparison) -> dict[str, Any]:
    """Return the contents of a page about a comparison, and functions that format them."""
    return {
        "comparison": found,
        "score_name": "Accuracy" if found.score == "accuracy" else "R²",
        "other_names": OTHER_SCORES,
        "show": lambda *values: show_score(found.score, *values),
        "show_change": lambda *values: show_change(found.score, *values),
    }


def verdict(
    found: Comparison, before: str = "the model trained on raw rows", after: str = "The retrained model"
) -> str:
    """Describe a comparison in a careful sentence, and in a second one if little could be lost.

    ``before`` and ``after`` name the models.
    """
    if math.isnan(found.change.value):
        return "All test rows have the same target, so no loss can be measured."
    said = _verdict_on_change(found, after)
    without = "always predicting " + ("the most frequent class" if found.task == "classification" else "the mean")
    if found.before.low <= found.baseline:
        return f"{said} But {before} is not clearly better than {without}: little could be lost."
    if found.after.low <= found.baseline:
        return f"{said} It is not clearly better than {without}."
    return said


def _verdict_on_change(found: Comparison, model: str) -> str:
    name = "accuracy" if found.score == "accuracy" else "R²"
    change = show_change(found.score, found.change.low, found.change.high)
    if found.change.low > 0:
        return f"{model} gains {name}: {change}."
    if found.change.high < 0:
        return f"{model} loses {name}: {change}."
    if found.change.low >= -NOTICEABLE_LOSS:
        return f"No loss of {name} was detected: the change is {change}."
    rows = f"The {found.rows:,} test rows are" if found.rows > 1 else "A single test row is"
    return f"{rows} too few to detect a loss of {name}: the change is {change}."


def show_score(score: str, *values: float) -> str:
    """Format a score, or a range of scores, for people."""
    if score == "accuracy":
        return " to ".join(f"{value * 100:.1f}" for value in values) + " %"
    return " to ".join(f"{value:.3f}" for value in values)


def show_change(score: str, *values: float) -> str:
    """Format a difference of scores, or a range of them, for people."""
    if score == "accuracy":
        return " to ".join(f"{value * 100:+.2f}" for value in values) + " points"
    return " to ".join(f"{value:+.4f}" for value in values)


def score_facts(found: Comparison) -> list[tuple[str, str]]:
    """Return the main score before and after, and its change, each as a name and a text."""
    score = found.score
    return [
        (f"{score} before", with_interval(show_score, score, found.before)),
        (f"{score} after", with_interval(show_score, score, found.after)),
        ("change", with_interval(show_change, score, found.change)),
    ]


def with_interval(show: Callable[..., str], score: str, found: Interval) -> str:
    """Format a number and its interval for people."""
    return f"{show(score, found.value)} ({show(score, found.low, found.high)})"
