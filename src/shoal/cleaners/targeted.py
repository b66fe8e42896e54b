"""Removal of components that reveal a known secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shoal.cleaners._base import BOUNDED, Cleaner, Coding, View
from shoal.data import frames
from shoal.errors import DataError, ShoalError
from shoal.linear_stages import is_trained, read_linear_stage
from shoal.parameters import Choice, Constraint, Described, Real

LEARNED_ON = "outputs", "features"
MODES = "exact", "knapsack"
SMALLEST_DIRECTION = 1e-10
"""Components of the secret that the predictor does not use are rounding if they are smaller than this share."""


class TargetedNullSpaceCleaner(Cleaner):
    """Clean queries so that a known secret is hardest to predict (Xu et al. 2017, Algorithm 2, in a stable form).

    As :class:`NullSpaceCleaner`, but the budget is spent where it changes the output of a linear predictor of the
    secret most. That predictor is learned from rows and their confidential labels, or given.

    Parameters
    ----------
    predictor : estimator, torch module, ONNX model, path or array
        The trained predictor that receives the rows. An untrained one that needs no labels, such as PCA, is trained on
        the rows of ``fit``.
    confidential : estimator or array, optional
        The predictor of the secret: a linear estimator to train in ``fit`` (ridge regression by default), a trained
        one, or a matrix of features by outputs.
    epsilon : float
        Maximum squared distance that the outputs of the predictor's linear stage may move, for each row.
    mode : {"knapsack", "exact"}
        Spend the budget, or not.
    learn_on : {"outputs", "features"}
        Training data of the predictor of the secret. ``outputs``: the outputs of the linear stage, which are all that
        remains after cleaning, so that the budget is spent against an adversary that learns again from cleaned rows.
        ``features``: the raw features, as in the paper.
    unknown : float
        Weight of secrets that were not named: that of each single component, as a share of the secret's. 0 as in the
        paper.
    keep, bounds, reference
        As in :class:`NullSpaceCleaner`.

    Attributes
    ----------
    confidential_ : array
        The predictor of the secret as a matrix: features that may change by outputs.
    stage_, rank_, kept_, reference_
        As in :class:`NullSpaceCleaner`.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal import TargetedNullSpaceCleaner
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(500, 6))
    >>> wanted, secret = X[:, :3] @ np.diag([3.0, 2.0, 1.0]), X[:, 2] + X[:, 5]
    >>> cleaner = TargetedNullSpaceCleaner(np.eye(6)[:, :3] * [3.0, 2.0, 1.0], epsilon=0.5).fit(X, secret)
    >>> cleaned = cleaner.transform(X)
    >>> bool(cleaner.utility_errors(X, cleaned).max() <= 0.5)
    True
    >>> bool(abs(np.corrcoef(cleaned[:, 2], secret)[0, 1]) < abs(np.corrcoef(X[:, 2], secret)[0, 1]))
    True
    """

    def __init__(
        self,
        predictor: Any = None,
        confidential: Any = None,
        epsilon: float = 0.01,
        *,
        mode: str = "knapsack",
        learn_on: str = "outputs",
        unknown: float = 0.1,
        keep: Sequence[str] | Sequence[int] = (),
        bounds: Any = None,
        reference: Any = None,
    ) -> None:
        self.predictor = predictor
        self.confidential = confidential
        self.epsilon = epsilon
        self.mode = mode
        self.learn_on = learn_on
        self.unknown = unknown
        self.keep = keep
        self.bounds = bounds
        self.reference: str | Sequence[float] | Mapping[str, float] | None = reference

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "confidential": Described("an estimator, a matrix of features by outputs or None"),
        "mode": Choice(MODES),
        "learn_on": Choice(LEARNED_ON),
        "unknown": Real(least=0),
        **BOUNDED,
    }

    @property
    def _spends(self) -> bool:
        return self.mode != "exact"

    @property
    def _learns(self) -> bool:
        return self.confidential is None or not is_trained(self.confidential)

    def _train(self, predictor: Any, X: Any, y: Any) -> Any:
        """Train a predictor on rows only: the labels are the secret."""
        if hasattr(predictor, "predict"):
            raise ShoalError("The predictor is not trained yet: fit it first; the labels here are the secret.")
        return predictor.fit(X)

    def _code(self, view: View, rows: np.ndarray | None, y: Any) -> Coding:
        basis, sizes, scale = view
        secret = self._learn(view, rows, y) if self._learns else self._read_secret()
        self.confidential_ = secret
        rotation = _rotate(basis, sizes, secret * scale[:, None], self.unknown)
        # The rotation makes each coordinate a direction of the outputs, in which its cost is its square.
        encoder, decoder = (basis * sizes @ rotation) / scale[:, None], (rotation.T / sizes) @ basis.T * scale
        return Coding(encoder, np.ascontiguousarray(decoder), np.ones(len(sizes)), np.arange(len(sizes)))

    def _read_secret(self) -> np.ndarray:
        stage, own = read_linear_stage(self.confidential), self._names()
        if len(stage.matrix) != self.n_features_in_:
            raise ShoalError(
                f"The confidential predictor uses {len(stage.matrix)} features, the other one {self.n_features_in_}: "
                "both must use the same rows."
            )
        order = np.arange(self.n_features_in_)
        if stage.names is not None and own is not None:
            if set(stage.names) != set(own):
                raise ShoalError("The two predictors have different feature names: both must use the same rows.")
            order = np.array([stage.names.index(name) for name in own])
        return stage.matrix[order][~self.kept_]

    def _learn(self, view: View, rows: np.ndarray | None, y: Any) -> np.ndarray:
        if rows is None or y is None:
            raise ShoalError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: pass rows and confidential "
                "labels to fit, or a trained predictor of the secret."
            )
        labels = read_secret(y, len(rows))
        by_outputs = view.basis * view.sizes / view.scale[:, None]
        onto = by_outputs if self.learn_on == "outputs" else np.eye(rows.shape[1])
        if onto.shape[1] == 0:
            return np.zeros((rows.shape[1], labels.shape[1]))
        learner = make_pipeline(StandardScaler(), Ridge() if self.confidential is None else clone(self.confidential))
        wanted = labels if labels.shape[1] > 1 else labels[:, 0]
        if is_classifier(learner):
            if np.ndim(y) != 1:
                raise ShoalError("A classifier learns one secret: pass one column of classes, or another estimator.")
            wanted = np.asarray(y)
        learner.fit(rows @ onto, wanted)
        return np.asarray(onto @ read_linear_stage(learner).matrix)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._learns
        return tags


def read_secret(y: Any, n_rows: int) -> np.ndarray:
    """Return confidential labels as columns of numbers, with one indicator column per class."""
    if frames.is_frame(y):
        opened = frames.open_frame(y)
        given = [opened[name].to_numpy() for name in opened.columns]
    else:
        labels = np.asarray(y)
        given = [labels] if labels.ndim == 1 else list(labels.T) if labels.ndim == 2 else []
    if not given or any(len(column) != n_rows for column in given):
        raise DataError(f"The secret has the shape {np.shape(y)} for {n_rows:,} rows: pass at least one label per row.")
    return np.hstack([_read_column(column) for column in given])


def _read_column(column: np.ndarray) -> np.ndarray:
    present = [value for value in column.tolist() if value is not None and value == value]
    if len(present) < len(column):
        raise DataError("The secret is missing in some rows: omit these.")
    if column.dtype.kind in "biuf" or all(isinstance(value, (bool, int, float)) for value in present):
        return column.astype(float)[:, None]
    names, codes = np.unique(column.astype(str), return_inverse=True)
    return np.eye(len(names))[codes]


def _rotate(basis: np.ndarray, sizes: np.ndarray, secret: np.ndarray, unknown: float) -> np.ndarray:
    """Return orthonormal directions of the outputs, those first whose removal hides most of the secret for its cost.

    This is the generalised singular value decomposition of both predictors, computed from the outputs: the part of the
    secret that they determine is the minimum over all rows with these outputs. No singular matrix is inverted.
    """
    rank = len(sizes)
    if rank == 0:
        return np.zeros((0, 0))
    largest = np.linalg.norm(secret, 2) if secret.size else 0.0
    # The scale of the secret is irrelevant; for comparison with unknown ones it equals the predictor's.
    hidden = secret * (sizes[0] / largest) if largest > 0 else np.zeros((len(basis), 1))
    inside = basis.T @ hidden
    _, lengths, directions = np.linalg.svd(hidden - basis @ inside, full_matrices=False)
    elsewhere = directions[lengths > sizes[0] * SMALLEST_DIRECTION]
    inside = inside - inside @ elsewhere.T @ elsewhere
    told = np.vstack([inside.T, unknown * sizes[0] * np.eye(rank)]) / sizes
    return np.ascontiguousarray(np.linalg.svd(told, full_matrices=False)[2].T)
