"""Read the beginning of scikit-learn models and transformers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.cross_decomposition import CCA, PLSCanonical, PLSRegression
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils.validation import check_is_fitted

from shoal.errors import ShoalError
from shoal.linear_stages._affine import (
    NOT_LINEAR,
    Affine,
    StagePart,
    beside,
    combine,
    follow,
    multiply_by,
    scale_by,
    select,
)
from shoal.models.estimators import FrameEncoder


def is_trained(predictor: Any) -> bool:
    """Return True if a predictor has been fitted; arrays and networks always are."""
    if not isinstance(predictor, BaseEstimator):
        return True
    try:
        check_is_fitted(predictor)
    except NotFittedError:
        return False
    return True


def names_of(part: Any) -> tuple[str, ...] | None:
    """Return the names of the features, if a predictor or a part of it knows them."""
    if isinstance(part, FrameEncoder):
        return tuple(str(name) for name in part.columns)
    names = getattr(part, "feature_names_in_", None)
    if names is not None:
        return tuple(str(name) for name in names)
    if isinstance(part, Pipeline):
        steps = [step for _, step in part.steps if step is not None and not isinstance(step, str)]
        return names_of(steps[0]) if steps else None
    found = {names_of(inner) for inner in _inside(part)} - {None}
    if len(found) > 1:
        raise ShoalError(
            f"The models inside the {type(part).__name__} have different feature names: train them on the same columns."
        )
    return found.pop() if found else None


def look_at_estimator(part: Any, *, transforms: bool = False) -> StagePart:
    """Return the beginning of a trained estimator's prediction, or of its transformation if it ``transforms``."""
    if not _is_as_published(part):
        return NOT_LINEAR
    for kinds, look in _TRANSFORMERS:
        if isinstance(part, kinds):
            return look(part)
    if isinstance(part, Pipeline):
        return _look_at_pipeline(part, transforms=transforms)
    if transforms:
        return NOT_LINEAR
    for kinds, look in _PREDICTORS:
        if isinstance(part, kinds):
            return look(part)
    inner = _inside(part)
    if inner:
        return _look_at_members(inner)
    return _look_at_coefficients(part) if hasattr(part, "coef_") else NOT_LINEAR


def _is_as_published(part: Any) -> bool:
    """Return True if no subclass has overridden how a known class predicts or transforms."""
    methods = [getattr(type(part), name, None) for name in ("transform", "predict", "decision_function")]
    homes = {getattr(method, "__module__", "").partition(".")[0] for method in methods if method is not None}
    return homes <= {"sklearn", "shoal"}


def _inside(part: Any) -> list[Any]:
    """Return the trained models inside one that only passes rows on to them."""
    kind = type(part).__name__
    if kind in _WRAPPERS:
        return [getattr(part, _WRAPPERS[kind])]
    if kind == "CalibratedClassifierCV":
        return [member.estimator for member in part.calibrated_classifiers_]
    return list(part.estimators_) if kind in _SIDE_BY_SIDE else []


_WRAPPERS = {
    "CodedTarget": "classifier_",
    "FixedThresholdClassifier": "estimator_",
    "FrozenEstimator": "estimator",
    "GridSearchCV": "best_estimator_",
    "HalvingGridSearchCV": "best_estimator_",
    "HalvingRandomSearchCV": "best_estimator_",
    "RANSACRegressor": "estimator_",
    "RandomizedSearchCV": "best_estimator_",
    "SelfTrainingClassifier": "estimator_",
    "TransformedTargetRegressor": "regressor_",
    "TunedThresholdClassifierCV": "estimator_",
}
"""Attribute with the trained model; elsewhere an attribute of this name is only a template."""
_SIDE_BY_SIDE = {
    "MultiOutputClassifier", "MultiOutputRegressor", "OneVsRestClassifier", "VotingClassifier", "VotingRegressor",
}  # fmt: skip
"""Ensembles whose models each see the whole row."""


def _look_at_coefficients(model: Any) -> StagePart:
    matrix = model.coef_.toarray() if sparse.issparse(model.coef_) else np.asarray(model.coef_)
    return StagePart(multiply_by(np.atleast_2d(matrix).T, getattr(model, "intercept_", None)), complete=False)


def _look_at_pls(model: Any) -> StagePart:
    matrix = np.asarray(model.coef_).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about features without names
        # It subtracts the means of its training rows, which are private.
        at_zero = np.asarray(model.predict(np.zeros((1, len(matrix))))).reshape(-1)
    return StagePart(multiply_by(matrix, at_zero), complete=False)


def _look_at_network(network: Any) -> StagePart:
    layers = [multiply_by(*layer) for layer in zip(network.coefs_, network.intercepts_, strict=True)]
    hidden = layers if network.activation == "identity" else layers[:1]
    return StagePart(reduce(combine, hidden), complete=False)


def _look_at_components(model: Any) -> StagePart:
    """Read PCA, truncated SVD and random projections."""
    matrix = model.components_.T
    matrix = matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix, float)
    if getattr(model, "whiten", False):
        matrix = matrix / np.maximum(np.sqrt(model.explained_variance_), np.finfo(float).eps)
    mean = getattr(model, "mean_", None)
    return StagePart(multiply_by(matrix, None if mean is None else -mean @ matrix), complete=True)


def _look_at_centring_scaler(scaler: Any) -> StagePart:
    """Read StandardScaler, RobustScaler and MaxAbsScaler."""
    if getattr(scaler, "clip", False):
        return NOT_LINEAR
    center = getattr(scaler, "mean_" if isinstance(scaler, StandardScaler) else "center_", None)
    centred = getattr(scaler, "with_mean", getattr(scaler, "with_centering", False))
    scaled = getattr(scaler, "with_std", getattr(scaler, "with_scaling", True))
    factor = 1.0 / scaler.scale_ if scaled and scaler.scale_ is not None else 1.0
    offset = -center * factor if centred and center is not None else None
    return StagePart(scale_by(factor, offset, scaler.n_features_in_), complete=True)


def _look_at_ranges(scaler: MinMaxScaler) -> StagePart:
    if scaler.clip:
        return NOT_LINEAR
    return StagePart(scale_by(scaler.scale_, scaler.min_, scaler.n_features_in_), complete=True)


def _look_at_selection(selector: Any) -> StagePart:
    return StagePart(select(selector.get_support(indices=True), len(selector.get_support())), complete=True)


def _look_at_function(transformer: Any) -> StagePart:
    return _unchanged(transformer) if transformer.func is None else NOT_LINEAR


def _look_at_imputer(imputer: Any) -> StagePart:
    """Read an imputer, which leaves complete rows unchanged."""
    marks = imputer.missing_values
    missing = marks is None or type(marks).__name__ == "NAType" or marks != marks  # NaN is not equal to itself
    same = not imputer.add_indicator and len(imputer.get_feature_names_out()) == imputer.n_features_in_
    as_it_was = bool(missing) and same
    return _unchanged(imputer) if as_it_was else NOT_LINEAR


def _unchanged(transformer: Any) -> StagePart:
    return StagePart(scale_by(1.0, None, transformer.n_features_in_), complete=True)


def _look_at_frame_encoder(encoder: Any) -> StagePart:
    coded = np.array([name in encoder.categories_ for name in encoder.columns])
    return StagePart(scale_by(np.where(coded, 0.0, 1.0), None, len(coded))._replace(fixed=coded), complete=True)


def _look_at_pipeline(pipeline: Any, *, transforms: bool) -> StagePart:
    steps = [step for _, step in pipeline.steps]
    passed = [step is None or (isinstance(step, str) and step == "passthrough") for step in steps]
    return follow(
        look_at_estimator(step, transforms=transforms or i < len(steps) - 1)
        for i, step in enumerate(steps)
        if not passed[i]
    )


def _look_at_members(members: Iterable[Any]) -> StagePart:
    looks = [look_at_estimator(member) for member in members]
    if any(look.affine is None for look in looks):
        return NOT_LINEAR
    return StagePart(beside([look.affine for look in looks if look.affine is not None]), complete=False)


def _look_at_union(union: Any) -> StagePart:
    parts = [part for _, part in union.transformer_list if not isinstance(part, str)]
    looks = [look_at_estimator(part, transforms=True) for part in parts]
    known = len(looks) == len(union.transformer_list) and not union.transformer_weights
    if not known or not all(look.affine is not None and look.complete for look in looks):
        return NOT_LINEAR
    return StagePart(beside([look.affine for look in looks if look.affine is not None]), complete=True)


def _look_at_columns(transformer: Any) -> StagePart:
    """Read blocks of columns separately; the inputs of those that are not linear are fixed."""
    n = transformer.n_features_in_
    n_outputs = max((part.stop for part in transformer.output_indices_.values()), default=0)
    matrix, offset, fixed = np.zeros((n, n_outputs)), np.zeros(n_outputs), np.zeros(n, bool)
    for name, part, columns in transformer.transformers_:
        inputs = _positions(columns, transformer)
        outputs = transformer.output_indices_[name]
        if len(inputs) == 0 or (isinstance(part, str) and part == "drop"):
            continue
        passed = isinstance(part, str) and part == "passthrough"
        unchanged = StagePart(scale_by(1.0, None, len(inputs)), complete=True)
        look = unchanged if passed else look_at_estimator(part, transforms=True)
        if look.affine is None or not look.complete:
            fixed[inputs] = True
            continue
        chosen = combine(select(inputs, n), look.affine)  # a column may be named twice
        matrix[:, outputs] = sparse.csr_array(chosen.matrix).toarray()
        offset[outputs] = chosen.offset
        fixed |= chosen.fixed
    return StagePart(Affine(sparse.csr_array(matrix), offset, fixed), complete=True)


def _positions(columns: Any, transformer: Any) -> np.ndarray:
    """Return the columns of a column transformer, which are named or numbered in one of several ways, as numbers."""
    everything = np.arange(transformer.n_features_in_)
    if isinstance(columns, str):
        columns = [columns]
    if isinstance(columns, slice):
        if not isinstance(columns.start, str) and not isinstance(columns.stop, str):
            return everything[columns]
        names = list(transformer.feature_names_in_)
        start = 0 if columns.start is None else names.index(columns.start)
        stop = len(names) if columns.stop is None else names.index(columns.stop) + 1  # names are inclusive
        return everything[start:stop]
    chosen = np.atleast_1d(np.asarray(columns))
    if chosen.dtype.kind in "UOT":
        names = list(transformer.feature_names_in_)
        return np.array([names.index(name) for name in chosen], np.intp)
    return everything[chosen] if len(chosen) else everything[:0]


_Looks = tuple[tuple[Any, Callable[[Any], StagePart]], ...]
_TRANSFORMERS: _Looks = (
    (ColumnTransformer, _look_at_columns),
    (FeatureUnion, _look_at_union),
    (FrameEncoder, _look_at_frame_encoder),
    (
        (PCA, IncrementalPCA, TruncatedSVD, GaussianRandomProjection, SparseRandomProjection),
        _look_at_components,
    ),
    ((StandardScaler, RobustScaler, MaxAbsScaler), _look_at_centring_scaler),
    (MinMaxScaler, _look_at_ranges),
    (SelectorMixin, _look_at_selection),
    (FunctionTransformer, _look_at_function),
    (SimpleImputer, _look_at_imputer),
)
_PREDICTORS: _Looks = (
    ((MLPClassifier, MLPRegressor), _look_at_network),
    ((PLSRegression, PLSCanonical, CCA), _look_at_pls),
)
