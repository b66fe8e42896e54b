"""Leave out of a row what a predictor does not look at, and of the rest what changes its outputs least."""

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

    Of each row only those components are left that the predictor's first linear stage looks at. A budget lets
    components go, too, that it hardly looks at: the outputs of the stage then move by at most the root of ``epsilon``.
    Components are those of raw features; where features are of such different size that rounding would be seen, they
    are those of features in units of their deviation over the rows of ``fit``.

    Parameters
    ----------
    predictor : estimator, torch module, ONNX model, path or array
        What :func:`shoal.linear_stages.read_linear_stage` reads; an array is a matrix of features by outputs. An
        estimator that is not trained yet is trained on what ``fit`` is given.
    epsilon : float
        How far the outputs of the linear stage may move: the squared distance, for each row. In the units of these
        outputs, which are the predictions of a linear regression and the logits of a logistic one.
    mode : {"knapsack", "energy", "exact"}
        What the budget is spent on. ``knapsack``: as many components as it lets go, those first that cost least in
        this row, as the paper does. ``energy``: as much of the row's squared length as it lets go. ``exact``: nothing;
        the outputs stay the same, whatever ``epsilon`` is.
    keep : sequence of names or positions
        Features that are sent as they are.
    bounds : "seen", pair or dict, optional
        Values between which cleaned features must stay: those of the rows of ``fit``, a lowest and a highest value (for
        all features or one each), or a pair for some features. A row that keeps to them is always cleaned within; if it
        is the only one there with its outputs, it is sent as it is, with a warning.
    reference : "mean", "zero", row or dict, optional
        What stands in for what is left out: the mean of the rows of ``fit``, zero as in the paper, or a row of its own.
        By default the mean, or zero if ``fit`` is given no rows.

    Attributes
    ----------
    predictor_ : estimator, torch module, ONNX model, path or array
        The predictor, trained.
    stage_ : LinearStage
        What it sees.
    rank_ : int
        Components that it looks at; all others are left out.
    kept_ : array of bool
        Features that are sent as they are, by wish or because the predictor looks at them in other ways as well.
    reference_ : array

    Examples
    --------
    The paper's example: the predictor wants the difference of two features, and is told nothing else.

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
        # Energy: a component of length a costs (size * a)² and gains a², so the smallest sizes go first in every row.
        descending = np.arange(len(view.sizes))[::-1].copy() if self.mode == "energy" else np.empty(0, np.int64)
        encoder, decoder = view.basis / view.scale[:, None], view.basis.T * view.scale
        return Coding(encoder, np.ascontiguousarray(decoder), view.sizes**2, descending)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # An estimator that is still to be trained says itself whether it learns from labels.
        if self.predictor is not None and not is_trained(self.predictor) and hasattr(self.predictor, "predict"):
            tags.target_tags.required = True
        return tags
