"""What all cleaners share: how rows come in and go out, the features that are kept, the budget, the bounds."""

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


def _is_no_text(value: Any) -> bool:
    return not isinstance(value, str)


CELLS_AT_ONCE = 1 << 17
"""Numbers of a table that are cleaned at once: a megabyte, which stays near the processor from step to step."""
FLOATS = np.float64, np.float32
MOST_BLUR = 1e3
"""How much longer rows may be than their outputs, in raw units, before features are scaled: three of sixteen digits."""
CLOSENESS = 1e-13
"""How closely rows within bounds must have the coordinates wanted."""


BOUNDED: Mapping[str, Constraint] = {
    "bounds": Choice(("seen",)) | Described("two values", _is_no_text, ((0, 1), "low")) | None,
    "reference": Choice(("mean", "zero")) | Described("a row of numbers", _is_no_text, (0, "mode")) | None,
}
"""Constraints on the parameters of cleaners that put values in the place of others."""


class Coding(NamedTuple):
    """Coordinates of what a predictor sees of a row, and the way back to a row that has them."""

    encoder: np.ndarray
    """Features by coordinates."""
    decoder: np.ndarray
    """Coordinates by features."""
    weights: np.ndarray
    """The square of a coordinate times this is what dropping it moves the outputs by, squared."""
    order: np.ndarray
    """The coordinates in the order in which the budget is spent on them; empty if it differs from row to row."""


class View(NamedTuple):
    """What a predictor sees of the features that may be changed: the thin singular value decomposition of its stage.

    It is that of features divided by their ``scale``, which are all 1 unless features are of very different size.
    """

    basis: np.ndarray
    """Scaled features by directions, orthonormal."""
    sizes: np.ndarray
    """Singular values, descending, none of them zero."""
    scale: np.ndarray
    """What one of each feature is."""

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """How long rows are in each direction."""
        return (rows / self.scale) @ self.basis


class Cleaner(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that leaves out of each row what a predictor does not need."""

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
        """Choose the coordinates; ``rows`` are those of ``fit``, less the reference, the kept features left out."""

    @property
    def _spends(self) -> bool:
        """Whether the budget is used at all."""
        return True

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Read the predictor; the rows give the reference that stands in for what is left out.

        Parameters
        ----------
        X : table or array, optional
            Rows such as the predictor was trained on. Without them, what is left out becomes zero.
        y : array, optional
            Labels, where something is learned from them.
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
        # Of scaled features, as all that rounding is judged by.
        decoder = self._coding.decoder / self._view.scale
        self._decoder_norm = float(np.linalg.norm(decoder, 2)) if self.rank_ else 0.0
        if self.rank_ == free.sum() and not (self._spends and self.epsilon > 0):
            warnings.warn(
                f"The predictor looks at all {free.sum()} features in as many ways, so nothing is needless to it: only "
                "a budget (epsilon) lets something be left out.",
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
        epsilon : float or array of them, one a row, optional
            Budgets to use instead of the cleaner's own.

        Returns
        -------
        table or array, as ``X`` is
            Kept features are as they were, all others numbers. A table has its columns in the same order.
        """
        check_is_fitted(self, "stage_")
        rows = self._read_rows(X, fitting=False)
        budgets = self._read_budgets(self.epsilon if epsilon is None else epsilon, len(rows.numbers))
        return rows.replace(self._clean(rows.numbers, budgets))

    def utility_errors(self, X: Any, cleaned: Any) -> np.ndarray:
        """How far the outputs of the predictor's linear stage moved: for each row the squared distance."""
        check_is_fitted(self, "stage_")
        before, after = (self._read_rows(one, fitting=False).numbers.astype(float) for one in (X, cleaned))
        if len(before) != len(after):
            raise DataError(f"There are {len(before)} rows but {len(after)} cleaned ones: pass the same rows.")
        return ((after - before) @ self.stage_.matrix[~self.kept_]) ** 2 @ np.ones(self.stage_.matrix.shape[1])

    def output_variance(self, X: Any) -> float:
        """How much the outputs of the linear stage vary over rows, by what may be changed: the sum of the variances."""
        check_is_fitted(self, "stage_")
        return float((self._read_rows(X, fitting=False).numbers @ self.stage_.matrix[~self.kept_]).var(axis=0).sum())

    def _clean(self, X: np.ndarray, budgets: np.ndarray | None) -> np.ndarray:
        """Clean numbers, the kept features left out, a chunk of rows at a time."""
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
        """The budgets, less what rounding may move the outputs by: so they are kept in floating point, too.

        Where rounding alone can move them further, nothing is spent.
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
        """Replace rows that are out of bounds by those of the same coordinates that are within."""
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
                f"itself, as do {len(outside) - 1} of the next {len(rows)} rows: widen the bounds, or leave it out."
            )
        if len(stuck) > 0:
            warnings.warn(
                f"No other row within the bounds was found that has the outputs of row {start + stuck[0]}: it and "
                f"{len(stuck) - 1} others are sent as they are.",
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
        """One budget a row; None if nothing is spent."""
        try:
            budgets = np.asarray(epsilon, float)
        except (TypeError, ValueError):
            budgets = np.array(np.nan)
        if not (np.isfinite(budgets).all() and (budgets >= 0).all()):
            raise ShoalError(f"epsilon must be a number of at least 0, or one per row, got {shorten(epsilon)}.")
        if budgets.ndim > 1 or (budgets.ndim == 1 and len(budgets) != n_rows):
            raise ShoalError(
                f"epsilon has the shape {budgets.shape} for {n_rows:,} rows: pass one number, or one a row."
            )
        return np.broadcast_to(budgets, n_rows) if self._spends and budgets.any() else None

    def _find_kept(self) -> np.ndarray:
        fixed = self.stage_.fixed
        if fixed.all():
            raise ShoalError(
                "The predictor looks at every feature in a way that is not linear, such as by one-hot encoding, so "
                "there is nothing to clean."
            )
        kept = fixed.copy()
        kept[[self._position(one) for one in self._read_keep()]] = True
        if kept.all():
            raise ShoalError("All features are kept as they are, so there is nothing to clean: keep fewer.")
        return kept

    def _read_keep(self) -> list[Any]:
        asked = [] if self.keep is None else list(self.keep)
        if asked and all(isinstance(one, (bool, np.bool_)) for one in asked):
            if len(asked) != self.n_features_in_:
                raise ShoalError(f"keep has {len(asked)} marks for {self.n_features_in_} features: pass one for each.")
            return np.flatnonzero(np.array(asked, bool)).tolist()
        return asked

    def _position(self, feature: Any) -> int:
        names = self._names()
        if isinstance(feature, str):
            if names is None or feature not in names:
                raise ShoalError(f"There is no feature {feature!r}: name one of the predictor's, or its position.")
            return names.index(feature)
        if not Whole(least=0, most=self.n_features_in_ - 1).allows(feature):
            raise ShoalError(f"There is no feature {feature!r}: the predictor has {self.n_features_in_}, from 0 on.")
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
                    "A single row was given to fit (n_samples=1), and its mean is the row itself, which would be sent: "
                    "fit on training rows, or choose reference='zero'."
                )
            reference[free] = numbers.mean(axis=0, dtype=float)
        elif given == "mean":
            raise ShoalError("reference='mean' needs rows: pass some to fit, or choose zero.")
        if not np.isfinite(reference).all():
            raise DataError("The reference is not made of finite numbers: check the row, or the rows of fit.")
        return reference

    def _read_reference(self, given: Any) -> np.ndarray:
        """A row, or values of some features by name; the others are zero."""
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
            raise DataError(f"X has {array.shape[1]} features, but the predictor looks at {expected}: pass these.")
        kept = self.kept_ if hasattr(self, "kept_") and not fitting else self._kept_ahead(expected)
        numbers = array if not kept.any() else np.ascontiguousarray(array[:, ~kept])
        if fitting:
            assert_all_finite(numbers, input_name="X", estimator_name=type(self).__name__)
        return ArrayRows(numbers, array, kept)

    def _kept_ahead(self, n_features: int) -> np.ndarray:
        """Which features are kept, before the names and the number of features are known for good."""
        self.n_features_in_ = n_features
        return self._find_kept()

    def _read_frame(self, frame: Any, *, fitting: bool) -> QueryRows:
        frames.require_rows(frame)
        if fitting:
            names = self.stage_.names or tuple(frame.columns)
            if len(names) != len(self.stage_.matrix):
                raise DataError(
                    f"The table has {len(names)} columns, but the predictor looks at {len(self.stage_.matrix)}: pass "
                    "these, in its order."
                )
            self.feature_names_in_ = np.array(names, object)
            self.n_features_in_ = len(names)
        known = self._names() or frame.columns
        for name in known:
            if name not in frame.columns:
                raise DataError(f"Column {name!r} is not in the table, but the predictor looks at it: add it.")
        for name in frame.columns:
            if name not in known:
                raise DataError(
                    f"The predictor does not look at the column {name!r}, which would be sent as it is: leave it out."
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
    """Rows that are cleaned: their numbers, the kept features left out."""

    numbers: np.ndarray

    @abstractmethod
    def replace(self, numbers: np.ndarray) -> Any:
        """The rows as they came, with other numbers."""


class ArrayRows(QueryRows):
    """Rows of an array."""

    def __init__(self, numbers: np.ndarray, array: np.ndarray, kept: np.ndarray) -> None:
        self.numbers = numbers
        self._array = array
        self._kept = kept

    def replace(self, numbers: np.ndarray) -> np.ndarray:
        """The array with other numbers."""
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
        """The table with other numbers."""
        return frames.replace_numbers(self._frame, dict(zip(self._names, numbers.T, strict=True))).to_native()


def decompose(matrix: np.ndarray, scale: np.ndarray) -> View:
    """The directions that a matrix of features by outputs looks into, those that are nothing but rounding left out."""
    scaled = matrix * scale[:, None]
    used = scaled.any(axis=1)  # the others have no part in any direction, not even by rounding
    if not used.any():
        return View(np.zeros((len(matrix), 0)), np.zeros(0), scale)
    directions, sizes, _ = np.linalg.svd(scaled[used], full_matrices=False)
    seen = sizes > sizes[0] * max(matrix.shape) * np.finfo(float).eps
    basis = np.zeros((len(matrix), int(seen.sum())))
    basis[used] = directions[:, seen]
    return View(basis, sizes[seen], scale)


def choose_view(matrix: np.ndarray, spreads: np.ndarray, lengths: np.ndarray | None) -> View:
    """The view of raw features, or of scaled ones where rounding in the largest would drown what the small ones say.

    Only rows tell how large features are: without them it is always the raw view.
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
    """What one of each feature is: its deviation over rows or, without any, what moves the outputs by one."""
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
                f"Column {name!r} holds {frames.content_of(series)}s, and only numbers can be cleaned: keep it as it "
                "is (keep), or encode it as the predictor does."
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
            raise DataError(f"Column {name!r} has an infinite value in row {infinite.argmax()}: mend it.")
    return columns
