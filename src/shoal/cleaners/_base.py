"""The base of all cleaners: reading and writing rows, the kept features, the budget, and the bounds."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from shoal._kernels import cleaning
from shoal.cleaners._bounds import ValueBounds, read_bounds
from shoal.data import frames
from shoal.errors import DataError, GuaranteeError, GuaranteeWarning, ShoalError
from shoal.linear_stages import LinearStage, is_trained, read_linear_stage
from shoal.parameters import (
    FEATURES,
    Choice,
    Constraint,
    Described,
    Real,
    Whole,
    check_parameters,
    shorten,
)

CELLS_AT_ONCE = 1 << 17
"""Numbers of a table that are cleaned at once: a megabyte, which stays in the cache from step to step."""
FLOATS = np.float64, np.float32
MOST_BLUR = 1e3
"""Maximum norm of rows relative to their outputs before features are scaled: it costs three of sixteen digits."""
CLOSENESS = 1e-13
"""Tolerance of the coordinates of rows within bounds."""


def _is_not_text(value: Any) -> bool:
    return not isinstance(value, str)


BOUNDED: Mapping[str, Constraint] = {
    "bounds": Choice(("seen",)) | Described("two values", _is_not_text, ((0, 1), "low")) | None,
    "reference": Choice(("mean", "zero")) | Described("a row of numbers", _is_not_text, (0, "mode")) | None,
}
"""Constraints on parameters of the cleaners that replace values."""


class Coding(NamedTuple):
    """Coordinates of the components of a row that a predictor uses, and the way back to a row."""

    encoder: np.ndarray
    """Features by coordinates."""
    decoder: np.ndarray
    """Coordinates by features."""
    weights: np.ndarray
    """Squared movement of the outputs per squared coordinate that is dropped."""
    order: np.ndarray
    """The coordinates in the order in which the budget is spent; empty if it differs from row to row."""


class View(NamedTuple):
    """The thin singular value decomposition of a predictor's linear stage, for the features that may change.

    Features are divided by their ``scale``, which is 1 unless features have very different magnitudes.
    """

    basis: np.ndarray
    """Scaled features by directions, orthonormal."""
    sizes: np.ndarray
    """Positive singular values, descending."""
    scale: np.ndarray
    """The unit of each feature."""

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Return the coordinates of rows in each direction."""
        return (rows / self.scale) @ self.basis


class Cleaner(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that removes from each row what a predictor does not need."""

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "predictor": Described("a model, or a matrix of features by outputs", lambda value: value is not None, (None,)),
        "epsilon": Real(least=0),
        "keep": FEATURES | None,
    }
    predictor: Any
    epsilon: float
    keep: Sequence[str] | Sequence[int]
    bounds: Any
    reference: Any

    @abstractmethod
    def _code(self, view: View, rows: np.ndarray | None, y: Any) -> Coding:
        """Choose the coordinates; ``rows`` are those of ``fit`` minus the reference, without kept features."""

    @property
    def _spends(self) -> bool:
        """True if the budget is used."""
        return True

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Read the predictor; the rows determine the reference, which replaces removed components.

        Parameters
        ----------
        X : table or array, optional
            Rows like those the predictor was trained on. Without them, removed components become zero.
        y : array, optional
            Labels, if the predictor or the cleaner learns from them.
        """
        check_parameters(self)
        self.__dict__.pop("feature_names_in_", None)
        self.stage_ = self._read_stage(X, y)
        n_features = len(self.stage_.matrix)
        rows = None if X is None else self._read_rows(X, fitting=True)
        if rows is None:
            self.n_features_in_ = n_features
            if self.stage_.names is not None:
                self.feature_names_in_ = np.array(self.stage_.names, object)
        self.kept_ = self._find_kept()
        free = ~self.kept_
        columns = None if rows is None else rows.numbers
        self.reference_ = self._find_reference(columns)
        self._bounds: ValueBounds | None = read_bounds(self.bounds, self._names(), free, columns)
        matrix = self.stage_.matrix[free]
        spreads = find_spreads(matrix, columns)
        lengths = None if columns is None else spreads + np.abs(self.reference_[free])
        self._view = choose_view(matrix, spreads, lengths)
        self._bounded_view = None if self._bounds is None else decompose(matrix, spreads)
        self.rank_ = len(self._view.sizes)
        centred = None if columns is None else columns - self.reference_[free]
        self._coding = self._code(self._view, centred, y)
        # For scaled features, as in all estimates of rounding.
        decoder = self._coding.decoder / self._view.scale
        self._decoder_norm = float(np.linalg.norm(decoder, 2)) if self.rank_ else 0.0
        if self.rank_ == free.sum() and not (self._spends and self.epsilon > 0):
            warnings.warn(
                f"The predictor uses all {free.sum()} features independently, so it needs every component: set a "
                "budget (epsilon) to remove some.",
                GuaranteeWarning,
                stacklevel=2,
            )
        return self

    def transform(self, X: Any, epsilon: Any = None) -> Any:
        """Clean rows.

        Parameters
        ----------
        X : table or array
            Rows with the features of the predictor.
        epsilon : float or array (n_rows,), optional
            Budgets that replace the parameter of the cleaner.

        Returns
        -------
        table or array, as ``X`` is
            Kept features are unchanged, all others are numbers. A table keeps the order of its columns.
        """
        check_is_fitted(self, "stage_")
        rows = self._read_rows(X, fitting=False)
        budgets = self._read_budgets(self.epsilon if epsilon is None else epsilon, len(rows.numbers))
        return rows.replace(self._clean(rows.numbers, budgets))

    def utility_errors(self, X: Any, cleaned: Any) -> np.ndarray:
        """Return the squared distance that the outputs of the predictor's linear stage moved, for each row."""
        check_is_fitted(self, "stage_")
        before, after = (self._read_rows(one, fitting=False).numbers.astype(float) for one in (X, cleaned))
        if len(before) != len(after):
            raise DataError(f"There are {len(before)} rows but {len(after)} cleaned ones: pass the same rows.")
        return ((after - before) @ self.stage_.matrix[~self.kept_]) ** 2 @ np.ones(self.stage_.matrix.shape[1])

    def output_variance(self, X: Any) -> float:
        """Return the sum of the variances of the linear stage's outputs over rows, for features that may change."""
        check_is_fitted(self, "stage_")
        return float((self._read_rows(X, fitting=False).numbers @ self.stage_.matrix[~self.kept_]).var(axis=0).sum())

    def _clean(self, X: np.ndarray, budgets: np.ndarray | None) -> np.ndarray:
        """Clean numbers, without kept features, in chunks of rows."""
        coding, center = self._coding, self.reference_[~self.kept_]
        at_center = center @ coding.encoder
        weights = self._view.scale**-2.0
        scaled = bool((weights != 1).any())
        cleaned = np.empty_like(X)
        step = max(CELLS_AT_ONCE // max(X.shape[1], 1), 1)
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            rows = X[part].astype(np.float64, copy=False)
            squares = np.einsum("ij,ij,j->i", rows, rows, weights) if scaled else np.einsum("ij,ij->i", rows, rows)
            if not np.isfinite(squares).all():
                self._require_finite(X)
            coordinates = rows @ coding.encoder - at_center
            own = coordinates.copy() if self._bounds is not None else coordinates
            if budgets is not None:
                left = self._less_rounding(budgets[part], np.sqrt(squares), coordinates, X.dtype)
                cleaning.shrink(coordinates, coding.weights, left, coding.order)
            found = coordinates @ coding.decoder
            found += center
            if self._bounds is not None:
                self._fit_into_bounds(self._bounds.inward(X.dtype), rows, own, found, start)
            cleaned[part] = found
        return cleaned

    def _less_rounding(self, budgets: np.ndarray, norms: np.ndarray, coordinates: np.ndarray, dtype: Any) -> np.ndarray:
        """Return the budgets minus the possible effect of rounding, so that they also hold in floating point.

        A budget is zero if rounding alone can exceed it.
        """
        view = self._view
        largest, n = (view.sizes[0] if self.rank_ else 0.0), len(self.kept_) + self.stage_.matrix.shape[1]
        center = np.linalg.norm(self.reference_[~self.kept_] / view.scale)
        sizes = center + self._decoder_norm * np.sqrt(np.einsum("ij,ij->i", coordinates, coordinates))
        moved = n * np.finfo(np.float64).eps * (norms + sizes)
        if dtype == np.float32:
            moved += np.finfo(np.float32).eps * sizes
        lost = largest * moved
        if self._bounded_view is not None and self.rank_:
            lengths = np.sqrt(len(view.scale)) * (1 + norms + center)
            lost += self._bounded_view.sizes[0] * np.sqrt(self.rank_) * CLOSENESS * lengths
        return np.maximum(np.sqrt(budgets) - lost, 0.0) ** 2

    def _fit_into_bounds(
        self, bounds: ValueBounds, rows: np.ndarray, own: np.ndarray, found: np.ndarray, start: int
    ) -> None:
        """Replace rows outside of the bounds with rows of the same coordinates within them."""
        out = np.flatnonzero(((found < bounds.low) | (found > bounds.high)).any(axis=1))
        if len(out) == 0:
            return
        view = self._bounded_view
        if view is None or self.rank_ == 0:
            found[out] = np.clip(found[out], bounds.low, bounds.high)
            return
        center = self.reference_[~self.kept_]
        before = view.coordinates(own[out] @ self._coding.decoder + center)
        low, high = bounds.low / view.scale, bounds.high / view.scale
        settled = np.empty((len(out), found.shape[1]))
        middle = np.clip(center / view.scale, low, high)
        wanted = view.coordinates(found[out])
        reached = cleaning.fit_between(before, wanted, view.basis, middle, low, high, CLOSENESS, settled)
        settled = np.clip(settled * view.scale, bounds.low, bounds.high)
        stuck = out[reached < 0]
        settled[reached < 0] = rows[stuck]
        outside = stuck[((rows[stuck] < bounds.low) | (rows[stuck] > bounds.high)).any(axis=1)]
        if len(outside) > 0:
            raise GuaranteeError(
                f"Row {start + outside[0]} cannot be cleaned within the bounds, because it lies outside of them "
                f"itself, as do {len(outside) - 1} of the next {len(rows)} rows: widen the bounds, or omit the row."
            )
        if len(stuck) > 0:
            warnings.warn(
                f"No other row within the bounds with the outputs of row {start + stuck[0]} was found: it and "
                f"{len(stuck) - 1} others are sent unchanged.",
                GuaranteeWarning,
                stacklevel=4,
            )
        found[out] = settled

    def _read_stage(self, X: Any, y: Any) -> LinearStage:
        if is_trained(self.predictor):
            self.predictor_ = self.predictor
            return read_linear_stage(self.predictor)
        if X is None:
            raise ShoalError("The predictor is not trained yet: fit it first, or pass rows to train it on.")
        if y is None and self.__sklearn_tags__().target_tags.required:
            raise ShoalError(f"{type(self).__name__} requires y to be passed, but the target y is None: pass labels.")
        self.predictor_ = self._train(clone(self.predictor), X, y)
        return read_linear_stage(self.predictor_)

    def _train(self, predictor: Any, X: Any, y: Any) -> Any:
        return predictor.fit(X) if y is None else predictor.fit(X, y)

    def _read_budgets(self, epsilon: Any, n_rows: int) -> np.ndarray | None:
        """Return one budget per row; None if nothing is spent."""
        try:
            budgets = np.asarray(epsilon, float)
        except (TypeError, ValueError):
            budgets = np.array(np.nan)
        if not (np.isfinite(budgets).all() and (budgets >= 0).all()):
            raise ShoalError(f"epsilon must be a number of at least 0, or one per row, got {shorten(epsilon)}.")
        if budgets.ndim > 1 or (budgets.ndim == 1 and len(budgets) != n_rows):
            raise ShoalError(
                f"epsilon has the shape {budgets.shape} for {n_rows:,} rows: pass one number, or one per row."
            )
        return np.broadcast_to(budgets, n_rows) if self._spends and budgets.any() else None

    def _find_kept(self) -> np.ndarray:
        fixed = self.stage_.fixed
        if fixed.all():
            raise ShoalError(
                "The predictor uses every feature in a nonlinear way, such as one-hot encoding, so there is nothing to "
                "clean."
            )
        kept = fixed.copy()
        kept[[self._position(one) for one in self._read_keep()]] = True
        if kept.all():
            raise ShoalError("All features are kept, so there is nothing to clean: keep fewer.")
        return kept

    def _read_keep(self) -> list[Any]:
        asked = [] if self.keep is None else list(self.keep)
        if asked and all(isinstance(one, (bool, np.bool_)) for one in asked):
            if len(asked) != self.n_features_in_:
                raise ShoalError(
                    f"keep has {len(asked)} marks for {self.n_features_in_} features: pass one per feature."
                )
            return np.flatnonzero(np.array(asked, bool)).tolist()
        return asked

    def _position(self, feature: Any) -> int:
        names = self._names()
        if isinstance(feature, str):
            if names is None or feature not in names:
                raise ShoalError(f"There is no feature {feature!r}: pass the name or position of another one.")
            return names.index(feature)
        if not Whole(least=0, most=self.n_features_in_ - 1).allows(feature):
            raise ShoalError(f"There is no feature {feature!r}: they are numbered from 0 to {self.n_features_in_ - 1}.")
        return int(feature)

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", self.stage_.names)
        return None if names is None else [str(name) for name in names]

    def _find_reference(self, numbers: np.ndarray | None) -> np.ndarray:
        reference = np.zeros(self.n_features_in_)
        free, given = ~self.kept_, self.reference
        if given is not None and not isinstance(given, str):
            reference[:] = self._read_reference(given)
        elif given != "zero" and numbers is not None:
            if len(numbers) < 2:
                raise DataError(
                    "A single row was given to fit (n_samples=1), whose mean is the row itself and would be sent: fit "
                    "on training rows, or choose reference='zero'."
                )
            reference[free] = numbers.mean(axis=0, dtype=float)
        elif given == "mean":
            raise ShoalError("reference='mean' needs rows: pass rows to fit, or choose 'zero'.")
        if not np.isfinite(reference).all():
            raise DataError("The reference contains missing or infinite numbers: check the row, or the rows of fit.")
        return reference

    def _read_reference(self, given: Any) -> np.ndarray:
        """Read a row, or the values of some features by name; the others are zero."""
        try:
            if not isinstance(given, Mapping):
                return np.broadcast_to(np.asarray(given, float), self.n_features_in_)
            row = np.zeros(self.n_features_in_)
            for name, value in given.items():
                row[self._position(name)] = float(value)
            return row
        except (TypeError, ValueError) as error:
            if isinstance(error, ShoalError):
                raise
            raise ShoalError(
                f"reference must be a row of {self.n_features_in_} numbers, 'mean' or 'zero', got {shorten(given)}."
            ) from None

    def _read_rows(self, X: Any, *, fitting: bool) -> QueryRows:
        if frames.is_frame(X):
            return self._read_frame(frames.open_frame(X), fitting=fitting)
        array = validate_data(self, X, reset=fitting, dtype=FLOATS, ensure_all_finite=False)
        expected = len(self.stage_.matrix)
        if array.shape[1] != expected:
            raise DataError(f"X has {array.shape[1]} features, but the predictor uses {expected}: pass these.")
        kept = self.kept_ if hasattr(self, "kept_") and not fitting else self._kept_ahead(expected)
        numbers = array if not kept.any() else np.ascontiguousarray(array[:, ~kept])
        if fitting:
            assert_all_finite(numbers, input_name="X", estimator_name=type(self).__name__)
        return ArrayRows(numbers, array, kept)

    def _kept_ahead(self, n_features: int) -> np.ndarray:
        """Find the kept features before the names and the number of features are final."""
        self.n_features_in_ = n_features
        return self._find_kept()

    def _read_frame(self, frame: Any, *, fitting: bool) -> QueryRows:
        frames.require_rows(frame)
        if fitting:
            names = self.stage_.names or tuple(frame.columns)
            if len(names) != len(self.stage_.matrix):
                raise DataError(
                    f"The table has {len(names)} columns, but the predictor uses {len(self.stage_.matrix)}: pass "
                    "these, in its order."
                )
            self.feature_names_in_ = np.array(names, object)
            self.n_features_in_ = len(names)
        known = self._names() or frame.columns
        for name in known:
            if name not in frame.columns:
                raise DataError(f"Column {name!r} is not in the table, but the predictor uses it: add it.")
        for name in frame.columns:
            if name not in known:
                raise DataError(
                    f"The predictor does not use the column {name!r}, which would be sent unchanged: omit it."
                )
        kept = self._find_kept() if fitting else self.kept_
        free = [name for name, stays in zip(known, kept, strict=True) if not stays]
        return FrameRows(_numbers(frame, free), frame, free)

    def _require_finite(self, X: np.ndarray) -> None:
        assert_all_finite(X, input_name="X", estimator_name=type(self).__name__)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class QueryRows:
    """Rows to clean: their numbers, without kept features."""

    numbers: np.ndarray

    @abstractmethod
    def replace(self, numbers: np.ndarray) -> Any:
        """Return the rows in their original form, with other numbers."""


class ArrayRows(QueryRows):
    """Rows of an array."""

    def __init__(self, numbers: np.ndarray, array: np.ndarray, kept: np.ndarray) -> None:
        self.numbers = numbers
        self._array = array
        self._kept = kept

    def replace(self, numbers: np.ndarray) -> np.ndarray:
        """Return the array with other numbers."""
        if not self._kept.any():
            return numbers
        replaced = self._array.copy()
        replaced[:, ~self._kept] = numbers
        return replaced


class FrameRows(QueryRows):
    """Rows of a table."""

    def __init__(self, numbers: np.ndarray, frame: Any, names: list[str]) -> None:
        self.numbers = numbers
        self._frame = frame
        self._names = names

    def replace(self, numbers: np.ndarray) -> Any:
        """Return the table with other numbers."""
        return frames.replace_numbers(self._frame, dict(zip(self._names, numbers.T, strict=True))).to_native()


def decompose(matrix: np.ndarray, scale: np.ndarray) -> View:
    """Return the directions of a matrix of features by outputs, without those that are only due to rounding."""
    scaled = matrix * scale[:, None]
    used = scaled.any(axis=1)  # the others are in no direction, not even by rounding
    if not used.any():
        return View(np.zeros((len(matrix), 0)), np.zeros(0), scale)
    directions, sizes, _ = np.linalg.svd(scaled[used], full_matrices=False)
    seen = sizes > sizes[0] * max(matrix.shape) * np.finfo(float).eps
    basis = np.zeros((len(matrix), int(seen.sum())))
    basis[used] = directions[:, seen]
    return View(basis, sizes[seen], scale)


def choose_view(matrix: np.ndarray, spreads: np.ndarray, lengths: np.ndarray | None) -> View:
    """Return the view of raw features, or of scaled ones if rounding in the largest would exceed the smallest.

    Only rows show the magnitudes of features: without rows the raw view is used.
    """
    raw = decompose(matrix, np.ones(len(matrix)))
    if lengths is None:
        return raw
    scaled = decompose(matrix, spreads)
    if len(scaled.sizes) == 0:
        return raw
    outputs = np.linalg.norm(scaled.sizes)
    blurred = raw.sizes[0] * np.linalg.norm(lengths) > MOST_BLUR * outputs
    return scaled if blurred or len(raw.sizes) != len(scaled.sizes) else raw


def find_spreads(matrix: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """Return the unit of each feature: its standard deviation or, without rows, what moves the outputs by one."""
    weights = np.linalg.norm(matrix, axis=1)
    by_weight = np.divide(1.0, weights, out=np.ones(len(weights)), where=weights > 0)
    if rows is None:
        return by_weight
    spreads = rows.std(axis=0, dtype=float)
    varies = spreads > 1e-12 * np.abs(rows).max(axis=0, initial=0.0)
    typical = np.median((spreads * weights)[varies & (weights > 0)]) if (varies & (weights > 0)).any() else 1.0
    return np.where(varies, spreads, by_weight * typical)


def _numbers(frame: Any, names: list[str]) -> np.ndarray:
    columns = np.empty((len(frame), len(names)))
    for j, name in enumerate(names):
        series = frame[name]
        if frames.content_of(series) not in ("number", "boolean"):
            raise DataError(
                f"Column {name!r} holds {frames.content_of(series)}s, and only numbers can be cleaned: add it to keep, "
                "or encode it as the predictor does."
            )
        missing = frames.missing_rows(series)
        if missing.any():
            raise DataError(
                f"Column {name!r} has {missing.sum()} missing values, the first in row {missing.argmax()}: fill them "
                "in as the predictor does."
            )
        columns[:, j] = series.to_numpy()
        infinite = ~np.isfinite(columns[:, j])
        if infinite.any():
            raise DataError(f"Column {name!r} has an infinite value in row {infinite.argmax()}: replace it.")
    return columns
