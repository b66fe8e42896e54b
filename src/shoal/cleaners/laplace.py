"""Laplace noise, as a baseline of the protection at the same cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from shoal.cleaners._base import Cleaner, Coding, View
from shoal.parameters import RANDOM_STATE, Constraint


class LaplaceNoise(Cleaner):
    """Add Laplace noise to the features that moves the outputs of a predictor by ``epsilon`` on average.

    For comparison with :class:`NullSpaceCleaner` only: the noise is tuned to the predictor, so it does not guarantee
    differential privacy, and the outputs of a single row can move further.

    Parameters
    ----------
    predictor : estimator, torch module, ONNX model, path or array
    epsilon : float
        Mean squared distance that the outputs of the linear stage move.
    keep : sequence of names or positions
        Features without noise.
    random_state : int, RandomState or None

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.cleaners.laplace import LaplaceNoise
    >>> X = np.zeros((20_000, 2))
    >>> noise = LaplaceNoise(np.array([1.0, -1.0]), epsilon=0.5, random_state=0).fit()
    >>> round(float(noise.utility_errors(X, noise.transform(X)).mean()), 1)
    0.5
    """

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {"random_state": RANDOM_STATE}
    bounds = None
    reference = "zero"

    def __init__(
        self,
        predictor: Any = None,
        epsilon: float = 0.01,
        *,
        keep: Sequence[str] | Sequence[int] = (),
        random_state: Any = None,
    ) -> None:
        self.predictor = predictor
        self.epsilon = epsilon
        self.keep = keep
        self.random_state = random_state

    def _code(self, view: View, rows: np.ndarray | None, y: Any) -> Coding:
        return Coding(view.basis, view.basis.T, view.sizes, np.empty(0, np.int64))

    def _clean(self, X: np.ndarray, budgets: np.ndarray | None) -> np.ndarray:
        self._require_finite(X)
        # A Laplace variable of scale b has the variance 2 b², and the variances of the outputs add up.
        moved = 2 * float((self.stage_.matrix[~self.kept_] ** 2).sum())
        if budgets is None or moved == 0:
            return X.copy()
        scales = np.sqrt(budgets / moved)[:, None]
        noise = check_random_state(self.random_state).laplace(size=X.shape)
        return (X + noise * scales).astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # the noise of a row depends on the rows before it
        return tags
