"""How wrong somebody is who guesses a secret from a query, as Xu et al. (2017) measure it."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.errors import DataError


def privacy_errors(truth: Any, said: Any) -> np.ndarray:
    """The squared distance between the secret and what is said of it, for each row (the paper's e_privacy).

    >>> privacy_errors([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]).tolist()
    [0.0, 2.0]
    """
    truth, said = _columns(truth), _columns(said)
    if truth.shape != said.shape:
        raise DataError(f"The secret has the shape {truth.shape}, what is said of it {said.shape}: pass both alike.")
    return np.asarray(((truth - said) ** 2).sum(axis=1))


def complete_privacy(truth: Any, said: Any, without: Any) -> float:
    """The share of rows of which more is said wrong than by who knows nothing of the row but the mean.

    Parameters
    ----------
    truth : array
        The secret of each row.
    said : array
        What is said of it from the cleaned row.
    without : array
        What is said of it from the mean of all rows: a value for each secret, or a row of them for each row.

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
