"""Removal of components that a predictor does not use, and of those that change its outputs least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from shoal.cleaners._base import BOUNDED, Cleaner, Coding, View
from shoal.linear_stages import is_trained
from shoal.parameters import Choice, Constraint

MODES = "exact", "knapsack", "energy"


class NullSpaceCleaner(Cleaner):
    """Clean queries in the null space of a predictor (Xu et al. 2017, Algorithm 1).

    Each row keeps only the components that the predictor's first linear stage uses. A budget also removes components
    that it hardly uses: the outputs of the stage then move by at most the root of ``epsilon``. Components are those of
    raw features, or of features divided by their standard deviation over the rows of ``fit`` if their magnitudes differ
    so much that rounding would matter.

    Parameters
    ----------
    predictor : estimator, torch module, ONNX model, path or array
        Any input of :func:`shoal.linear_stages.read_linear_stage`; an array is a matrix of features by outputs. An
        untrained estimator is trained on the rows of ``fit``.
    epsilon : float
        Maximum squared distance that the outputs of the linear stage may move, for each row. In the units of these
        outputs, which are the predictions of a linear regression and the logits of a logistic one.
    mode : {"knapsack", "energy", "exact"}
        The use of the budget. ``knapsack``: remove as many components as possible, those first that cost least in this
        row, as in the paper. ``energy``: remove as much of the row's squared length as possible. ``exact``: none; the
        outputs stay the same, whatever ``epsilon`` is.
    keep : sequence of names or positions
        Features that are sent unchanged.
    bounds : "seen", pair or dict, optional
        Bounds of cleaned features: the ranges of the rows of ``fit``, a lowest and a highest value (for all features or
        one per feature), or a pair for some features. A row within them stays within them; if it is the only such row
        with its outputs, it is sent unchanged, with a warning.
    reference : "mean", "zero", row or dict, optional
        Replacement of removed components: the mean of the rows of ``fit``, zero as in the paper, or a given row. By
        default the mean, or zero if ``fit`` gets no rows.

    Attributes
    ----------
    predictor_ : estimator, torch module, ONNX model, path or array
        The trained predictor.
    stage_ : LinearStage
        The linear stage of the predictor.
    rank_ : int
        Number of components that it uses; all others are removed.
    kept_ : array of bool
        Features that are sent unchanged, because of ``keep`` or because the predictor also uses them otherwise.
    reference_ : array

    Examples
    --------
    In the paper's example the predictor uses the difference of two features, and receives nothing else.

    >>> import numpy as np
    >>> from shoal import NullSpaceCleaner
    >>> X = np.array([[3.0, 1.0], [4.0, 2.0], [5.0, 1.0], [6.0, 5.0]])
    >>> cleaner = NullSpaceCleaner(np.array([1.0, -1.0]), epsilon=0.0, reference="zero").fit()
    >>> cleaner.transform(X).round(12)
    array([[ 1. , -1. ],
           [ 1. , -1. ],
           [ 2. , -2. ],
           [ 0.5, -0.5]])
    """

    def __init__(
        self,
        predictor: Any = None,
        epsilon: float = 0.01,
        *,
        mode: str = "knapsack",
        keep: Sequence[str] | Sequence[int] = (),
        bounds: Any = None,
        reference: Any = None,
    ) -> None:
        self.predictor = predictor
        self.epsilon = epsilon
        self.mode = mode
        self.keep = keep
        self.bounds = bounds
        self.reference: str | Sequence[float] | Mapping[str, float] | None = reference

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {"mode": Choice(MODES), **BOUNDED}

    @property
    def _spends(self) -> bool:
        return self.mode != "exact"

    def _code(self, view: View, rows: np.ndarray | None, y: Any) -> Coding:
        # Energy: a component of length a costs (size * a)² and gains a², so the smallest sizes are removed first.
        descending = np.arange(len(view.sizes))[::-1].copy() if self.mode == "energy" else np.empty(0, np.int64)
        encoder, decoder = view.basis / view.scale[:, None], view.basis.T * view.scale
        return Coding(encoder, np.ascontiguousarray(decoder), view.sizes**2, descending)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # An untrained estimator determines if labels are required.
        if self.predictor is not None and not is_trained(self.predictor) and hasattr(self.predictor, "predict"):
            tags.target_tags.required = True
        return tags
