"""The first linear stage of a predictor, which determines everything that the predictor uses of a row.

If a predictor begins with ``x @ matrix + offset``, it cannot distinguish two rows with the same outputs there. The
stage is read from scikit-learn models, pipelines with scalers before them, torch networks and ONNX files; consecutive
steps are multiplied into one stage of the raw features.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from shoal.errors import DataError, ShoalError, reason
from shoal.linear_stages._affine import StagePart, only_rescales
from shoal.linear_stages._estimators import is_trained, look_at_estimator, names_of
from shoal.linear_stages._onnx import look_at_onnx
from shoal.linear_stages._torch import look_at_torch

__all__ = ["LinearStage", "is_trained", "read_linear_stage"]


class LinearStage(NamedTuple):
    """The part of a row that a predictor uses: ``x @ matrix + offset``, and features that stay fixed."""

    matrix: np.ndarray
    """Features by outputs."""
    offset: np.ndarray
    """One number per output, without the share of fixed features."""
    fixed: np.ndarray
    """True for features that another step than the matrix reads too, such as a one-hot encoder."""
    names: tuple[str, ...] | None = None
    """Names of the features, if the predictor knows them."""

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """Return the outputs of rows, which must be complete numbers."""
        return np.asarray(X) @ self.matrix + self.offset


def read_linear_stage(predictor: Any) -> LinearStage:
    """Read the first linear stage of a predictor.

    Parameters
    ----------
    predictor : estimator, torch module, ONNX model, path, array or LinearStage
        A trained scikit-learn model that begins linear: linear and logistic regression, ridge, lasso, linear support
        vector machines, discriminant analysis, PLS, PCA, truncated SVD, networks (their first layer), several of them
        side by side, and pipelines with scalers, selections and column transformers before them. A
        ``torch.nn.Linear``, or a ``Sequential`` that begins with one. An ONNX model, or the path of its file. Or the
        matrix itself, features by outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.array([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0], [5.0, 10.0]])
    >>> model = make_pipeline(StandardScaler(), Ridge()).fit(X, [1.0, 2.0, 3.0, 4.0])
    >>> stage = read_linear_stage(model)
    >>> bool(np.allclose(stage.outputs(X)[:, 0], model.predict(X)))
    True
    """
    if isinstance(predictor, LinearStage):
        return predictor
    torch = sys.modules.get("torch")
    look, names = None, None
    try:
        if _is_onnx(predictor):
            look = look_at_onnx(predictor)
        elif torch is not None and isinstance(predictor, torch.nn.Module):
            look = look_at_torch(predictor)
        elif isinstance(predictor, BaseEstimator):
            if not is_trained(predictor):
                raise ShoalError(f"{_describe(predictor)} is not trained yet: fit it first.")
            look, names = look_at_estimator(predictor), names_of(predictor)
    except ShoalError:
        raise
    except Exception as error:  # inconsistent parts can fail anywhere
        raise ShoalError(f"{_describe(predictor)} cannot be read ({reason(error)}): check the model.") from None
    return _read_matrix(predictor) if look is None else _finish(look, predictor, names)


def _finish(look: StagePart, predictor: Any, names: tuple[str, ...] | None) -> LinearStage:
    if look.affine is None or only_rescales(look.affine):
        raise ShoalError(
            f"{_describe(predictor)} does not begin with a linear stage, so it may use every feature in full: "
            "pass a linear model, a network, or one with PCA before it."
        )
    matrix, offset, fixed = look.affine
    matrix = matrix.toarray() if sparse.issparse(matrix) else matrix
    return _check(LinearStage(np.array(matrix, float), offset, fixed, names))


def _check(stage: LinearStage) -> LinearStage:
    if not np.isfinite(stage.matrix).all():
        raise DataError("The predictor's weights are not all finite numbers: train it again.")
    return stage


def _read_matrix(given: Any) -> LinearStage:
    try:
        matrix = np.array(given, float)
    except (TypeError, ValueError):
        matrix = np.empty(())
    if matrix.ndim not in (1, 2) or 0 in matrix.shape:
        raise ShoalError(
            f"{_describe(given)} is not a predictor that can be read: pass a trained scikit-learn model, a torch or "
            "ONNX model, or a matrix of features by outputs."
        )
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    return _check(LinearStage(matrix, np.zeros(matrix.shape[1]), np.zeros(len(matrix), bool)))


def _describe(predictor: Any) -> str:
    if isinstance(predictor, (str, Path)):
        return repr(str(predictor))
    last = predictor.steps[-1][1] if isinstance(predictor, Pipeline) else predictor
    return f"A {type(last).__name__}"


def _is_onnx(predictor: Any) -> bool:
    return isinstance(predictor, (str, Path)) or type(predictor).__name__ == "ModelProto"
