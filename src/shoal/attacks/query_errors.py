"""Errors of guesses of a secret from a query, as Xu et al. (2017) measure them."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.errors import DataError


def privacy_errors(truth: Any, said: Any) -> np.ndarray:
    """Return the squared distance between the secret and its guess for each row (the paper's e_privacy).

    >>> privacy_errors([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]).tolist()
    [0.0, 2.0]
    """
    truth, said = _columns(truth), _columns(said)
    if truth.shape != said.shape:
        raise DataError(f"The secret has the shape {truth.shape}, its guess {said.shape}: pass equal shapes.")
    return np.asarray(((truth - said) ** 2).sum(axis=1))


def complete_privacy(truth: Any, said: Any, without: Any) -> float:
    """Return the share of rows that are guessed worse than by the mean, without access to the row.

    Parameters
    ----------
    truth : array
        The secret of each row.
    said : array
        Its guess from the cleaned row.
    without : array
        Its guess from the mean of all rows: a value for each secret, or a row of them for each row.

    Examples
    --------
    >>> complete_privacy([1.0, 2.0, 3.0, 4.0], [2.4, 2.6, 3.0, 9.0], 2.5)
    0.5
    """
    truth = _columns(truth)
    without = np.broadcast_to(
        np.asarray(without, float).reshape(1, -1) if np.ndim(without) < 2 else without, truth.shape
    )
    return float(np.mean(privacy_errors(truth, said) > privacy_errors(truth, without)))


def _columns(values: Any) -> np.ndarray:
    array = np.asarray(values, float)
    return array[:, None] if array.ndim == 1 else array
