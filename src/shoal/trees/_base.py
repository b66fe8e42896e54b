"""The base of trees, forests and boosted trees: reading a table, and growing one tree."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from shoal._kernels.tree_data import BEST_FIRST, BREADTH_FIRST, DEPTH_FIRST, MOST_BINS, AttributeDraw, GrowthBounds
from shoal.data import frames
from shoal.data.schema import Schema
from shoal.errors import DataError, ShoalError
from shoal.parameters import (
    FEATURES,
    FLAG,
    RANDOM_STATE,
    SHARE,
    Choice,
    Constraint,
    Real,
    Whole,
    check_parameters,
    instance_of,
)
from shoal.partition.binned_trees import (
    CRITERIA,
    FIXED_WEIGHT,
    NO_LIMIT,
    Grown,
    Response,
    fixed_weight,
    grow_nodes,
    learn_classes,
    learn_numbers,
    unit_of,
)
from shoal.trees._features import Binned, Feature, Names, bin_table, code_column, is_nominal, read_features
from shoal.trees._grown import Sums, Tree, build_tree, sum_classes, sum_numbers
from shoal.trees._limits import COSTS, LEVELS, Leaning, is_budgeted, make_limits, read_sensitivity

SENSITIVITY = instance_of(Mapping, Schema, text="a mapping from features to weights, a Schema") | None
FINE_WEIGHT = 1 << 24
"""Units of the largest weight for classes: sums stay far from overflow."""


class TrainingRows(NamedTuple):
    """The rows of positive weight, and their targets."""

    values: np.ndarray
    """The rows as numbers."""
    binned: Binned
    y: np.ndarray
    """int32 (n,) codes of classes, or float64 (n, m)."""
    weight: np.ndarray | None
    """float64 (n,), above 0; None if all rows weigh 1."""
    n_classes: int
    """0 for regression."""


@dataclass(eq=False, repr=False)
class PrivacyTrees(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators: parameters of a tree, and of its reliance on sensitive features."""

    _: KW_ONLY
    sensitivity: Any = None
    penalty: float = 1.0
    penalty_stops: bool = False
    min_level: int = 0
    max_splits: float | None = None
    level_by: str = "depth"
    split_cost: str = "one"
    weighted: bool = False
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    max_features: Any = None
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    ccp_alpha: float = 0.0
    categorical_features: Any = "from_dtype"
    random_state: Any = None

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "sensitivity": SENSITIVITY,
        "penalty": Real(least=0),
        "penalty_stops": FLAG,
        "min_level": Whole(least=0),
        "max_splits": Real(least=0, most=math.inf) | None,
        "level_by": Choice(LEVELS),
        "split_cost": Choice(COSTS),
        "weighted": FLAG,
        "max_depth": Whole(least=1) | None,
        "min_samples_split": Whole(least=2) | SHARE,
        "min_samples_leaf": Whole(least=1) | SHARE,
        "min_weight_fraction_leaf": Real(least=0, most=0.5),
        "max_features": Choice(("sqrt", "log2")) | Whole(least=1) | SHARE | None,
        "max_leaf_nodes": Whole(least=2) | None,
        "min_impurity_decrease": Real(least=0),
        "ccp_alpha": Real(least=0),
        "categorical_features": Choice(("from_dtype",)) | FEATURES | None,
        "random_state": RANDOM_STATE,
    }
    _nominal: list[bool] = field(init=False)
    _saw_missing: np.ndarray = field(init=False)
    _features: tuple[Feature, ...] = field(init=False)
    sensitivity_: np.ndarray = field(init=False)

    def _count_threads(self) -> int:
        """Return the number of threads to use."""
        return 1

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state from a file if its parts are consistent."""
        super().__setstate__(state)
        if not {"tree_", "trees_"} & set(state):
            return
        trees = [tree for _, tree in self.weighted_trees()]
        n, outputs = self.n_features_in_, {tree.value.shape[1] for tree in trees}
        fits = len(self._features) == n and all(tree.n_features == n for tree in trees)
        fits = fits and outputs == {self._n_outputs()}
        if not fits or any(feature.n_bins > MOST_BINS for feature in self._features):
            raise DataError("The file holds a model with inconsistent trees: save it again.")

    @abstractmethod
    def _n_outputs(self) -> int:
        """Return the number of outputs of a tree: one per class, or one per target."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows and their targets.

        Parameters
        ----------
        X : table or array
            Texts and categories are nominal features; numbers, dates and Booleans are ordered. Values may be missing.
        y : array (n_rows,)
        sample_weight : array (n_rows,), optional
        """
        self._check_parameters()
        lesson = self._read_lesson(X, y, sample_weight)
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        self.sensitivity_ = read_sensitivity(self.sensitivity, names, self.n_features_in_)
        self._grow(lesson, check_random_state(self.random_state))
        return self

    @abstractmethod
    def _grow(self, lesson: TrainingRows, random: np.random.RandomState) -> None:
        """Grow the trees."""

    @abstractmethod
    def weighted_trees(self) -> list[tuple[float, Tree]]:
        """Return the trees with their weights."""

    @property
    def impurity_importances_(self) -> np.ndarray:
        """Decrease of the impurity by splits on each feature: the paper's equations (1) and (2), mean over trees."""
        check_is_fitted(self, "sensitivity_")
        each = self.weighted_trees()
        total = sum(share for share, _ in each)
        return np.asarray(sum(share * tree.importances() for share, tree in each) / total)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The same as shares of their sum per tree, averaged, as in scikit-learn."""
        check_is_fitted(self, "sensitivity_")
        found = [(share, tree.importances()) for share, tree in self.weighted_trees() if tree.node_count > 1]
        shares = [share * (one / one.sum() if one.sum() > 0 else one) for share, one in found]
        total = np.sum(shares, axis=0) if shares else np.zeros(self.n_features_in_)
        return np.asarray(total / total.sum() if total.sum() > 0 else total)

    @property
    def n_splits_(self) -> np.ndarray:
        """Number of splits on each feature, over all trees."""
        check_is_fitted(self, "sensitivity_")
        return np.asarray(np.sum([tree.count_splits() for _, tree in self.weighted_trees()], axis=0))

    def _leaning(self) -> Leaning:
        return Leaning(
            self.penalty,
            bool(self.penalty_stops),
            self.min_level,
            self.max_splits,
            self.level_by,
            self.split_cost,
            bool(self.weighted),
        )

    def _read_lesson(self, X: Any, y: Any, sample_weight: Any) -> TrainingRows:
        values, names, y = self._read_table(X, y)
        y, n_classes = self._read_target(y)
        weight = (
            None if sample_weight is None else _check_sample_weight(sample_weight, values, ensure_non_negative=True)
        )
        weight = self._weigh_classes(y, weight)
        if weight is not None:
            counts = weight > 0
            if not counts.any():
                raise DataError("All sample weights are 0: at least one must be positive.")
            values, y, weight = values[counts], y[counts], weight[counts]
            if (weight == 1).all():
                weight = None
        binned = bin_table(values, names, self._count_threads())
        self._features = binned.features
        self._saw_missing = np.isnan(values).any(axis=0)
        return TrainingRows(values, binned, y, weight, n_classes)

    def _weigh_classes(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        return weight

    @abstractmethod
    def _read_target(self, y: Any) -> tuple[np.ndarray, int]:
        """Return the target of the trees, and the number of classes."""

    def _read_table(self, X: Any, y: Any) -> tuple[np.ndarray, list[Names | None], Any]:
        """Return the rows as numbers, the values of nominal features, and the target as an array."""
        frame = self._open_named(X)
        if frame is not None:
            frames.require_rows(frame)
            self._check_names(frame, reset=True)
            self._nominal = self._read_nominal(frame)
            values, names = read_features(frame, self._nominal, None)
            _require_finite(values, list(frame.columns))
            if y is None:
                raise ShoalError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
            y = check_array(_plain(y), ensure_2d=False, dtype=None, input_name="y")
            _require_length(y, len(values))
            return values, names, y
        values, y = validate_data(
            self, X, _plain(y), dtype=np.float64, ensure_all_finite="allow-nan", **self._target_checks()
        )
        self._nominal = self._read_nominal(None)
        names = [None] * values.shape[1]
        return *self._code_names(values, names, None), y

    def _target_checks(self) -> dict[str, Any]:
        return {}

    def _open_named(self, X: Any) -> nw.DataFrame[Any] | None:
        """Open a table with columns that are not plain numbers; None for arrays, and tables equivalent to one."""
        if not frames.is_frame(X) or not all(isinstance(name, str) for name in getattr(X, "column_names", X.columns)):
            return None
        frame = frames.open_frame(X)
        plain = all(frames.content_of(frame[name]) == "number" for name in frame.columns)
        return None if plain and frame.implementation.is_pandas() else frame

    def _check_names(self, frame: nw.DataFrame[Any], *, reset: bool) -> None:
        """Store the names of the columns, or refuse other ones."""
        names = np.array(frame.columns, dtype=object)
        if reset:
            self.feature_names_in_, self.n_features_in_ = names, len(names)
            return
        known = list(getattr(self, "feature_names_in_", ()))
        if known and list(names) != known:
            unknown = [name for name in names if name not in known] or [name for name in known if name not in names]
            what = f"column {unknown[0]!r} is only in one of them" if unknown else "their order differs"
            raise DataError(f"The table does not have the columns of the training table: {what}.")
        if len(names) != self.n_features_in_:
            raise DataError(f"The table has {len(names)} columns: the model was trained on {self.n_features_in_}.")

    def _code_names(
        self, values: np.ndarray, names: list[Names | None], known: Any
    ) -> tuple[np.ndarray, list[Names | None]]:
        if any(self._nominal):
            values = values.copy()
            for j in np.flatnonzero(self._nominal):
                values[:, j], names[j] = code_column(values[:, j], None if known is None else known[j])
        return values, names

    def _read_nominal(self, frame: nw.DataFrame[Any] | None) -> list[bool]:
        asked = self.categorical_features
        columns = list(frame.columns) if frame is not None else list(getattr(self, "feature_names_in_", ()))
        by_type = [is_nominal(frame[name]) for name in columns] if frame is not None else [False] * self.n_features_in_
        if asked is None or (isinstance(asked, str) and asked == "from_dtype"):
            return by_type
        asked = np.asarray(asked)
        if asked.dtype == bool:
            if asked.shape != (self.n_features_in_,):
                raise ShoalError(f"categorical_features has {asked.size} marks for {self.n_features_in_} features.")
            return [bool(mark) or text for mark, text in zip(asked, by_type, strict=True)]
        for one in asked.tolist():
            if one in columns:
                by_type[columns.index(one)] = True
            elif Whole(least=0, most=self.n_features_in_ - 1).allows(one):
                by_type[int(one)] = True
            else:
                raise ShoalError(f"categorical_features names {one!r}, which is not a feature: choose among {columns}.")
        return by_type

    def encode_rows(self, X: Any) -> np.ndarray:
        """Return rows to predict, as numbers."""
        check_is_fitted(self, "sensitivity_")
        frame = self._open_named(X)
        if frame is not None:
            self._check_names(frame, reset=False)
            values, _ = read_features(frame, self._nominal, self._features)
            _require_finite(values, list(frame.columns))
            return values
        values = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return self._code_names(values, [None] * values.shape[1], self._features)[0]

    def _grow_tree(
        self,
        lesson: TrainingRows,
        draw_seed: int,
        rows: np.ndarray | None,
        weight: np.ndarray | None,
        budget: np.ndarray | None = None,
    ) -> Tree:
        """Grow one tree on some rows with weights; on all rows by default."""
        bins = lesson.binned.bins.copy() if rows is None else lesson.binned.bins[rows]
        y = lesson.y if rows is None else lesson.y[rows]
        response, units, gain_unit = self._respond(y)
        fixed = fixed_weight(weight, units)
        total = float(fixed.sum()) if len(fixed) else float(len(bins))
        leaning = self._leaning()
        budgeted = is_budgeted(leaning, self.sensitivity_)
        growth = BREADTH_FIRST if budgeted else DEPTH_FIRST if self.max_leaf_nodes is None else BEST_FIRST
        if leaning.level_by == "visits":
            growth = DEPTH_FIRST
        grown = grow_nodes(
            lesson.binned.attributes,
            bins,
            response,
            fixed,
            growth=growth,
            bounds=self._bounds(len(bins), total, len(fixed) > 0, gain_unit),
            limits=make_limits(leaning, self.sensitivity_, len(bins), budget),
            draw=self._draw(draw_seed),
        )
        return build_tree(
            grown, lesson.binned, self._sum_up(grown, y, np.empty(0) if weight is None else weight)
        ).pruned(self.ccp_alpha)

    @abstractmethod
    def _respond(self, y: np.ndarray) -> tuple[Response, int, float]:
        """Return the target of a tree, the units of the largest weight, and the weighted impurity of a unit of gain."""

    @abstractmethod
    def _sum_up(self, grown: Grown, y: np.ndarray, weight: np.ndarray) -> Sums:
        """Return statistics of the rows of each node; ``weight`` is empty if all weigh 1."""

    def _bounds(self, n_rows: int, total: float, weighted: bool, gain_unit: float) -> GrowthBounds:
        smallest = _as_number(self.min_samples_leaf, n_rows)
        weight = math.ceil(self.min_weight_fraction_leaf * total - 1e-9)
        return GrowthBounds(
            smallest=smallest if weighted else max(smallest, weight),
            smallest_weight=weight if weighted else 0,
            least_cut=max(_as_number(self.min_samples_split, n_rows), 2),
            # scikit-learn has the same tolerance for rounding.
            least_gain=(self.min_impurity_decrease - np.finfo(float).eps) * total / gain_unit,
            most_leaves=NO_LIMIT if self.max_leaf_nodes is None else self.max_leaf_nodes,
            most_depth=NO_LIMIT if self.max_depth is None else self.max_depth,
        )

    def _draw(self, seed: int) -> AttributeDraw:
        n = self.n_features_in_
        state = np.random.SeedSequence(seed).generate_state(1, np.uint64) | np.uint64(1)
        return AttributeDraw(self._n_tried(), state, np.arange(n))

    def _n_tried(self) -> int:
        n, asked = self.n_features_in_, self.max_features
        if asked is None:
            return n
        if isinstance(asked, str):
            return max(1, int(math.sqrt(n) if asked == "sqrt" else math.log2(n)))
        if isinstance(asked, numbers.Integral):
            return min(int(asked), n)
        return max(1, int(asked * n))

    def _check_parameters(self) -> None:
        check_parameters(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags


class LearnsClasses(ClassifierMixin):  # type: ignore[misc]
    """Mixin of classifiers: classes, and their weights."""

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "criterion": Choice((*CRITERIA, "log_loss")),
        "class_weight": Choice(("balanced",)) | instance_of(Mapping, text="a mapping from classes to weights") | None,
    }
    class_weight: Any
    criterion: str
    classes_: np.ndarray
    n_classes_: int

    def _impurity(self) -> str:
        return "gini" if self.criterion == "gini" else "entropy"

    def _respond(self, y: np.ndarray) -> tuple[Response, int, float]:
        response = learn_classes(y, self.n_classes_, self._impurity())
        if response.n_classes == 0:
            # For the numbers 0 and 1, the variance is half the gini impurity.
            return response, FINE_WEIGHT, 2.0
        return response, FINE_WEIGHT, 1.0 if self._impurity() == "gini" else 1.0 / math.log(2.0)

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _sum_up(self, grown: Grown, y: np.ndarray, weight: np.ndarray) -> Sums:
        return sum_classes(grown, y, weight, self.n_classes_, self._impurity())

    def _read_target(self, y: Any) -> tuple[np.ndarray, int]:
        check_classification_targets(y)
        y = np.asarray(y)
        if y.ndim > 1 and y.shape[1] > 1:
            raise DataError(f"y has {y.shape[1]} columns: train one classifier per column.")
        self.classes_, codes = np.unique(y.reshape(-1), return_inverse=True)
        self.n_classes_ = len(self.classes_)
        return codes.reshape(-1).astype(np.int32), self.n_classes_

    def _weigh_classes(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        if self.class_weight is None:
            return weight
        asked = self.class_weight
        if isinstance(asked, Mapping):
            asked = {
                int(np.flatnonzero(self.classes_ == one)[0]): w for one, w in asked.items() if one in self.classes_
            }
        by_class = compute_sample_weight(asked, y)
        return by_class if weight is None else weight * by_class

    def predict(self, X: Any) -> np.ndarray:
        """Return the most likely class of each row."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


class LearnsNumbers(RegressorMixin):  # type: ignore[misc]
    """Mixin of regressors: one or several outputs."""

    def _read_target(self, y: Any) -> tuple[np.ndarray, int]:
        outputs = np.asarray(y, float)
        self.n_outputs_ = 1 if outputs.ndim == 1 else outputs.shape[1]
        self._flat = outputs.ndim == 1
        return outputs.reshape(len(outputs), -1), 0

    def _respond(self, y: np.ndarray) -> tuple[Response, int, float]:
        return learn_numbers(y), FIXED_WEIGHT, unit_of(y) ** 2 / y.shape[1]

    def _n_outputs(self) -> int:
        return self.n_outputs_

    def _sum_up(self, grown: Grown, y: np.ndarray, weight: np.ndarray) -> Sums:
        return sum_numbers(grown, y, weight)

    def _target_checks(self) -> dict[str, Any]:
        return {"multi_output": True, "y_numeric": True}

    def _shape(self, answers: np.ndarray) -> np.ndarray:
        return answers[:, 0] if self._flat else answers

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags


def _as_number(asked: int | float, n_rows: int) -> int:
    return int(asked) if isinstance(asked, numbers.Integral) else max(1, math.ceil(asked * n_rows))


def _plain(y: Any) -> Any:
    """Return a target, which may be a column of any library, as an array."""
    if y is None or isinstance(y, (np.ndarray, list)):
        return y
    if frames.is_frame(y):
        frame = frames.open_frame(y)
        return frame[frame.columns[0]].to_numpy() if len(frame.columns) == 1 else frame.to_numpy()
    return np.asarray(y)


def _require_length(y: np.ndarray, n_rows: int) -> None:
    if len(y) != n_rows:
        raise DataError(f"y has {len(y):,} rows, but the table has {n_rows:,}: pass one target per row.")


def _require_finite(values: np.ndarray, names: list[str]) -> None:
    endless = np.isinf(values).any(axis=0)
    if endless.any():
        raise DataError(
            f"Column {names[int(endless.argmax())]!r} holds an infinite number: replace it, or omit the column."
        )
