"""Reference models: the training of a model repeated on random halves of the rows, to compare answers with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import stats
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from shoal.attacks.answers import Answers, Asking
from shoal.attacks.trees import quick
from shoal.data import frames
from shoal.errors import ShoalError, reason

SHRINKAGE = 4.0
"""Weight of the common variance in that of each row, in number of models, because rows have few models each."""
OFFLINE_SHARE = 0.3
"""Assumed similarity of models with a row to those without it, where only the latter are known (RMIA's a)."""
MOST_SHADOWS = 4
"""Number of reference models whose answers are kept in full, to learn from."""


class References(NamedTuple):
    """Models that were trained on half of the rows each."""

    signals: np.ndarray
    """Models by rows: the confidence in the truth, on the logit scale."""
    shares: np.ndarray
    """Models by rows: the same as a probability, or as a likelihood."""
    inside: np.ndarray
    """Models by rows: True if the model was trained on the row."""
    shadows: list[Answers]
    """Answers of the first few models."""


def train_references(
    estimator: Any,
    rows: Any,
    labels: np.ndarray,
    asking: Asking,
    *,
    clip: float,
    n_models: int,
    n_jobs: int,
    seed: int,
) -> References:
    """Train models on random halves of the rows, and predict all rows with each of them.

    Pairs of models divide the rows between them, so that every row is in exactly half of any number of models.
    """
    random = np.random.default_rng(seed)
    inside = np.empty((n_models, len(labels)), bool)
    for i in range(0, n_models, 2):
        inside[i] = random.permutation(len(labels)) < len(labels) // 2
        inside[i + 1 : i + 2] = ~inside[i]
    parallel = Parallel(n_jobs=n_jobs)
    answers = parallel(
        delayed(_train_and_ask)(estimator, rows, labels, mask, asking, seed + 1 + i) for i, mask in enumerate(inside)
    )
    signals = np.array([signal_of(one, clip) for one in answers])
    shares = np.array([share_of(one, clip) for one in answers])
    return References(signals, shares, inside, answers[:MOST_SHADOWS])


def signal_of(answers: Answers, clip: float) -> np.ndarray:
    """Return the confidence in the truth: the logit of its probability, or minus the log of the squared error."""
    if answers.kind == "numbers":
        return -np.log(((answers.columns - answers.truth.reshape(answers.columns.shape)) ** 2).sum(axis=1) + clip)
    share = np.clip(answers.of_truth, clip, 1 - clip)
    return np.asarray(np.log(share) - np.log1p(-share))


def share_of(answers: Answers, clip: float) -> np.ndarray:
    """Return the probability, or the likelihood, of the truth according to a model."""
    if answers.kind == "numbers":
        return np.asarray(1.0 / (1.0 + np.exp(-signal_of(answers, clip) + np.log(clip) / 2)))
    return np.clip(answers.of_truth, clip, 1.0)


def clip_of(answers: Answers) -> float:
    """Return the bound that keeps signals finite: half of the smallest step between answers, to avoid outliers."""
    if answers.kind == "numbers":
        squares = ((answers.columns - answers.truth.reshape(answers.columns.shape)) ** 2).sum(axis=1)
        return float(max(1e-4 * np.median(squares), np.finfo(float).tiny))
    steps = np.minimum(answers.columns, 1 - answers.columns)
    steps = steps[steps > 0]
    return float(np.clip(steps.min() / 2 if len(steps) else 0.01, 1e-6, 1e-2))


class Statistics(NamedTuple):
    """Mean and standard deviation of the signal of each row, by models that were trained on it and by the others."""

    mean_in: np.ndarray
    spread_in: np.ndarray
    mean_out: np.ndarray
    spread_out: np.ndarray


def summarise(references: References) -> Statistics:
    """Return means and standard deviations of each row, the latter shrunk towards that of all rows."""
    found = []
    for chosen in (references.inside, ~references.inside):
        values = np.where(chosen, references.signals, np.nan)
        mean = np.nanmean(values, axis=0)
        count = chosen.sum(axis=0)
        squares = np.nansum((values - mean) ** 2, axis=0)
        common = squares.sum() / max((count - 1).sum(), 1)
        found += [mean, np.sqrt((squares + SHRINKAGE * common) / (np.maximum(count - 1, 0) + SHRINKAGE) + 1e-12)]
    return Statistics(*found)


def lira_online(signal: np.ndarray, known: Statistics) -> np.ndarray:
    """Return the log-likelihood ratio of the signal for models with and without the row (Carlini et al. 2022)."""
    of_member = stats.norm.logpdf(signal, known.mean_in, known.spread_in)
    return np.asarray(of_member - stats.norm.logpdf(signal, known.mean_out, known.spread_out))


def lira_offline(signal: np.ndarray, known: Statistics) -> np.ndarray:
    """Return the standardized excess of the signal over that of models without the row."""
    return np.asarray((signal - known.mean_out) / known.spread_out)


def rmia_online(share: np.ndarray, references: References) -> np.ndarray:
    """Return the log ratio of the model's probability to the mean of reference models (Zarifzadeh et al. 2024).

    The paper then compares this ratio with that of other rows, which preserves its order.
    """
    means = [_mean(references.shares, chosen) for chosen in (references.inside, ~references.inside)]
    return np.asarray(np.log(share) - np.log((means[0] + means[1]) / 2))


def rmia_offline(share: np.ndarray, references: References) -> np.ndarray:
    """Return the log ratio where only models without the row are known."""
    outside = _mean(references.shares, ~references.inside)
    return np.asarray(np.log(share) - np.log(((1 + OFFLINE_SHARE) * outside + (1 - OFFLINE_SHARE)) / 2))


def _mean(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.asarray((values * chosen).sum(axis=0) / chosen.sum(axis=0))


def _train_and_ask(
    estimator: Any, rows: Any, labels: np.ndarray, mask: np.ndarray, asking: Asking, seed: int
) -> Answers:
    chosen = np.flatnonzero(mask)
    with threadpool_limits(1):
        try:
            model = seeded(estimator, seed).fit(take(rows, chosen), labels[chosen])
        except Exception as error:  # whatever an estimator does with its rows
            raise ShoalError(
                f"A reference model cannot be trained ({reason(error)}): pass the recipe of the model as estimator, or "
                "leave out attacks with reference models."
            ) from None
        return asking.ask(quick(model), rows, labels)


def seeded(estimator: Any, seed: int) -> Any:
    """Return an untrained copy of an estimator with this seed in all of its parts."""
    copy = clone(estimator)
    names = [name for name in copy.get_params(deep=True) if name.rpartition("__")[2] == "random_state"]
    return copy.set_params(**dict.fromkeys(names, seed % 2**32)) if names else copy


def take(rows: Any, chosen: np.ndarray) -> Any:
    """Return some rows of a table or an array."""
    if frames.is_frame(rows):
        return frames.take_rows(frames.open_frame(rows), chosen).to_native()
    return np.asarray(rows)[chosen]
