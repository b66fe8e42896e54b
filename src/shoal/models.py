"""Models by name, and models and predictions from files: what is trained on a table, or was trained elsewhere."""

from __future__ import annotations

import importlib
import pickle
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from shoal import frames
from shoal.errors import DataError, SchemaError, ShoalError
from shoal.files import read_table, replacing
from shoal.frames import Factor
from shoal.hierarchy import Hierarchy
from shoal.notation import in_number_order, parse_texts, plain_text, positions_of
from shoal.schema import Attribute, Schema, require_schema
from shoal.table import TOP

Task = Literal["classification", "regression"]
MOST_CATEGORIES = 255
"""Columns that a nominal attribute becomes at most; its rarest values share one."""
SUM_TOLERANCE = 1e-3
"""How far the probabilities of a row may be from 1 together; files have few decimals."""


def model_names() -> list[str]:
    """Names of the models that :func:`make_model` makes.

    >>> model_names()[:3]
    ['tree', 'forest', 'boosting']
    """
    return list(_MODELS)


def make_model(name: str, schema: Schema, random_state: Any = 0, task: Task | None = None) -> Pipeline:
    """Make an untrained model that takes tables of this schema as they are.

    Nominal attributes become one column a value (values that come later are ignored), numbers and dates have missing
    values replaced by the median, ordinal ones are numbered in their order. Models that need it have all of them
    standardised. Identifiers and the target are never seen.

    Parameters
    ----------
    name : str
        ``tree``, ``forest`` (or ``rf``), ``boosting`` (or ``hgb``), ``mlp``, ``logistic``, ``svm``, ``neighbors``,
        ``bayes``, and with the extra ``boosting`` also ``xgb`` and ``lgbm``.
    schema : Schema
    random_state : int, RandomState or None
    task : {"classification", "regression"}, optional
        By default what the target's kind asks for: numbers are regressed, all else is classified.

    Returns
    -------
    Pipeline
        It is trained and used with pandas, polars or pyarrow tables.

    Examples
    --------
    >>> from shoal.datasets import make_census
    >>> from shoal.models import make_model, read_target
    >>> census = make_census(500)
    >>> model = make_model("tree", census.schema).fit(census.frame, read_target(census.frame, census.schema))
    >>> model.predict(census.frame[:2]).shape
    (2,)
    """
    require_schema(schema)
    found = _find(name)
    task = task_of(schema) if task is None else task
    if task not in ("classification", "regression"):
        raise ShoalError(f"There is no task {task!r}: choose 'classification' or 'regression'.")
    return around(found.make(name, task, random_state), schema, scaled=found.scaled)


def around(estimator: Any, schema: Schema, *, scaled: bool = True) -> Pipeline:
    """Put the preparation of :func:`make_model` before any scikit-learn estimator."""
    attributes = [schema[name] for name in features(schema)]
    if not attributes:
        raise SchemaError("The schema has nothing for a model to see: give an attribute the role 'quasi' or 'other'.")
    nominal = [j for j, attribute in enumerate(attributes) if attribute.kind == "nominal"]
    numbers = [j for j, attribute in enumerate(attributes) if attribute.kind != "nominal"]
    one_hot = OneHotEncoder(handle_unknown="ignore", max_categories=MOST_CATEGORIES, sparse_output=False)
    median = SimpleImputer(strategy="median", keep_empty_features=True)
    prepare = ColumnTransformer(
        [
            ("nominal", one_hot, nominal),
            ("numbers", make_pipeline(median, StandardScaler()) if scaled else median, numbers),
        ]
    )
    encode = FrameEncoder({attribute.name: _coding(attribute) for attribute in attributes})
    return ModelPipeline([("encode", encode), ("prepare", prepare), ("model", estimator)])


def features(schema: Schema) -> list[str]:
    """Names of the attributes that a model sees: all but identifiers and targets.

    >>> features(Schema([Attribute("id", "identifier"), Attribute("age"), Attribute("income", "target")]))
    ['age']
    """
    return [attribute.name for attribute in schema if attribute.role in ("quasi", "sensitive", "other")]


def target_of(schema: Schema) -> Attribute:
    """The one attribute that a model predicts."""
    require_schema(schema)
    if not schema.target:
        raise SchemaError("The schema has no target: give the role 'target' to the attribute that is predicted.")
    if len(schema.target) > 1:
        names = ", ".join(attribute.name for attribute in schema.target[:12])
        raise SchemaError(f"The schema has {len(schema.target)} targets, {names}: leave the role 'target' to one.")
    return schema.target[0]


def task_of(schema: Schema) -> Task:
    """What the target asks for: numbers are regressed, all else is classified."""
    return "regression" if target_of(schema).kind == "numeric" else "classification"


def read_target(frame: Any, schema: Schema) -> np.ndarray:
    """The target of each row: numbers to regress, or classes as texts."""
    target, opened = target_of(schema), frames.open_frame(frame)
    if target.name not in opened.columns:
        raise DataError(f"The target {target.name!r} is not a column of the table: add it, or mend the schema.")
    factor = frames.factorize(opened[target.name])
    missing = factor.codes < 0
    if missing.any():
        raise DataError(
            f"The target {target.name!r} has {missing.sum()} missing values, the first in row {missing.argmax()}: "
            "drop these rows."
        )
    if target.kind == "numeric":
        return _numbers(factor, target.name)[factor.codes]
    return np.array([plain_text(value, factor.content) for value in factor.values])[factor.codes]


class FrameEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns of a table, of whatever library, as numbers.

    Parameters
    ----------
    columns : dict
        For each column ``"numeric"``, ``"nominal"``, ``"ordinal"``, or a list of its values in order. Nominal values
        are numbered by the alphabet. Ordinal ones are numbers themselves, or numbered in order.

    Examples
    --------
    >>> import polars as pl
    >>> people = pl.DataFrame({"age": [31, None], "sex": ["f", "m"], "size": ["S", "L"]})
    >>> FrameEncoder({"age": "numeric", "sex": "nominal", "size": ["S", "M", "L"]}).fit_transform(people)
    array([[31.,  0.,  0.],
           [nan,  1.,  2.]])
    """

    def __init__(self, columns: Mapping[str, str | Sequence[Any]]) -> None:
        self.columns = columns

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the values of nominal columns, and of ordinal ones whose order is not given."""
        self.categories_ = {}
        for name, factor in self._factors(X).items():
            coding = self.columns[name]
            if coding == "numeric":
                continue
            order = list(coding) if not isinstance(coding, str) else factor.values.tolist()
            texts = [plain_text(value, factor.content) for value in order]
            if coding != "ordinal" or (factor.content == "text" and in_number_order(texts) is None):
                self.categories_[name] = texts
        self.n_features_in_ = len(self.columns)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Numbers of the rows: NaN where a value is missing, -1 where a nominal or ordered one is not known."""
        check_is_fitted(self, "categories_")
        factors = self._factors(X)
        n_rows = len(next(iter(factors.values())).codes)
        encoded = np.empty((n_rows, len(factors)))
        for j, (name, factor) in enumerate(factors.items()):
            encoded[:, j] = np.append(self._values(name, factor), np.nan)[factor.codes]
        return encoded

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns."""
        return np.array(list(self.columns), dtype=object)

    def _values(self, name: str, factor: Factor) -> np.ndarray:
        """The number of each distinct value of a column."""
        if name not in self.categories_:
            return _numbers(factor, name)
        code = {text: float(i) for i, text in enumerate(self.categories_[name])}
        # A value without a place in the order is as good as missing; one without a name is of no class at all.
        unknown = -1.0 if self.columns[name] == "nominal" else np.nan
        return np.array([code.get(plain_text(value, factor.content), unknown) for value in factor.values], float)

    def _factors(self, X: Any) -> dict[str, Factor]:
        opened = frames.open_frame(X)
        for name in self.columns:
            if name not in opened.columns:
                raise DataError(f"Column {name!r} is not in the table, but the model sees it: add it.")
        names = list(self.columns)
        found = frames.in_threads(lambda name: frames.factorize(opened[name]), names, len(opened))
        return dict(zip(names, found, strict=True))


class ModelPipeline(Pipeline):  # type: ignore[misc]
    """A pipeline that does not warn of a solver that stopped at its last iteration: its score tells."""

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Prepare the rows and train the model."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            super().fit(X, y, **params)
        return self


class CodedTarget(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that wants classes to be numbers from 0 on, for any classes."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: Any, y: Any) -> Self:
        """Number the classes and train the classifier."""
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        self.classifier_ = clone(self.classifier).fit(X, codes)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        return self.classes_[np.asarray(self.classifier_.predict(X), np.intp)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class."""
        return np.asarray(self.classifier_.predict_proba(X))


class Predictions(NamedTuple):
    """What a black box said of each row."""

    values: np.ndarray
    """Classes or numbers, one a row; or probabilities, one column a class."""
    classes: list[str] | None = None
    """Names of the classes, where the values are probabilities."""


def load_model(path: str | Path, *, trust: bool | Sequence[str] = False) -> Any:
    """Load a trained model from a file.

    Parameters
    ----------
    path : path
        ``.skops`` is read without running code of its maker. ``.joblib``, ``.pkl`` and ``.pickle`` run it.
    trust : bool or sequence of str
        Whether you trust who made the file with your machine; of a ``.skops`` file also the names of the types that you
        trust. Trees are such a type: scikit-learn follows what is written in them without looking, so a crafted one can
        crash the process.

    Returns
    -------
    object
        Anything that has ``predict``.
    """
    path = Path(path)
    load = _LOADERS.get(path.suffix.lower())
    if load is None:
        raise DataError(f"{str(path)!r} ends in {path.suffix!r}: Shoal loads models from {', '.join(_LOADERS)} files.")
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r}: check the path.")
    try:
        model = load(path, trust)
    except ShoalError:
        raise
    except Exception as error:  # a broken file can fail anywhere in the code that reads it
        raise DataError(
            f"{str(path)!r} cannot be loaded ({reason(error)}): save it anew, with the versions installed here."
        ) from None
    if not hasattr(model, "predict"):
        raise DataError(f"{str(path)!r} holds a {type(model).__name__}, which has no predict: save a trained model.")
    return model


def save_model(model: Any, path: str | Path) -> None:
    """Save a model as ``.skops``, which is safe to load, or as ``.joblib``; the file is there in full or not at all."""
    path = Path(path)
    save = _SAVERS.get(path.suffix.lower())
    if save is None:
        raise DataError(f"{str(path)!r} ends in {path.suffix!r}: Shoal saves models as {' and '.join(_SAVERS)} files.")
    with replacing(path) as temporary:
        try:
            save(model, temporary)
        except OSError:
            raise
        except Exception as error:  # what a model is made of decides how it fails
            raise DataError(f"{str(path)!r} cannot be written ({reason(error)}), so nothing was.") from None


def read_predictions(path: str | Path, n_rows: int) -> Predictions:
    """Read what a black box said of each row: a CSV or Parquet file with a row for each row of the table.

    Parameters
    ----------
    path : path
        One column holds classes or numbers. Several are probabilities, each column named by its class.
    n_rows : int
        Rows of the table that was predicted.
    """
    frame = read_table(path)
    if frame.height != n_rows:
        raise DataError(
            f"{str(path)!r} has {frame.height:,} predictions for {n_rows:,} rows: predict every row, in the same order."
        )
    factors = {name: frames.factorize(frames.open_frame(frame)[name]) for name in frame.columns}
    for name, factor in factors.items():
        missing = factor.codes < 0
        if missing.any():
            raise DataError(
                f"Column {name!r} of {str(path)!r} has {missing.sum()} missing values, the first in row "
                f"{missing.argmax()}: predict every row."
            )
    if len(factors) == 1:
        ((name, factor),) = factors.items()
        if factor.content == "number":
            return Predictions(_numbers(factor, name)[factor.codes])
        return Predictions(np.array([plain_text(v, factor.content) for v in factor.values])[factor.codes])
    return _probabilities(path, factors)


def _probabilities(path: str | Path, factors: Mapping[str, Factor]) -> Predictions:
    for name, factor in factors.items():
        if factor.content != "number":
            raise DataError(
                f"Column {name!r} of {str(path)!r} holds {factor.content}s, not probabilities: "
                "leave one column of predictions, or one of probabilities a class."
            )
        low, high = factor.values.min(), factor.values.max()
        if low < 0 or high > 1:
            raise DataError(
                f"Column {name!r} of {str(path)!r} holds {plain_text(low if low < 0 else high, 'number')}, which is no "
                "probability: scale them to be from 0 to 1."
            )
    values = np.column_stack([factor.values[factor.codes].astype(float) for factor in factors.values()])
    wrong = np.abs(values.sum(axis=1) - 1) > SUM_TOLERANCE
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"The probabilities in row {row} of {str(path)!r} sum to {values[row].sum():.4g}, not to 1: "
            "give a column for every class, and nothing else."
        )
    return Predictions(values, list(factors))


class _Model(NamedTuple):
    """Where a model is found, and how it is made."""

    module: str
    classifier: str
    regressor: str | None
    scaled: bool = False
    seeded: bool = True
    options: Mapping[str, Any] = {}

    def make(self, name: str, task: Task, random_state: Any) -> Any:
        """The bare estimator."""
        class_name = self.classifier if task == "classification" else self.regressor
        if class_name is None:
            others = ", ".join(other for other, model in _MODELS.items() if model.regressor)
            raise ShoalError(
                f"The model {name!r} cannot predict numbers: choose {others}, or make the target nominal in the schema."
            )
        try:
            cls = getattr(importlib.import_module(self.module), class_name)
        except (ImportError, OSError) as error:  # a library that misses a part of the system fails with the second
            raise ShoalError(
                f"The model {name!r} needs the package {self.module!r}, which cannot be used ({reason(error)}): "
                "pip install 'shoal[boosting]'."
            ) from None
        seed = {"random_state": random_state} if self.seeded else {}
        estimator = cls(**self.options, **seed)
        return CodedTarget(estimator) if class_name == "XGBClassifier" else estimator


# One thread each: whoever trains several models runs them side by side, and sums do not depend on the threads.
_MODELS = {
    "tree": _Model("sklearn.tree", "DecisionTreeClassifier", "DecisionTreeRegressor"),
    "forest": _Model("sklearn.ensemble", "RandomForestClassifier", "RandomForestRegressor"),
    "boosting": _Model("sklearn.ensemble", "HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
    "mlp": _Model("sklearn.neural_network", "MLPClassifier", "MLPRegressor", scaled=True),
    "logistic": _Model("sklearn.linear_model", "LogisticRegression", None, scaled=True, options={"max_iter": 1000}),
    "svm": _Model("sklearn.svm", "LinearSVC", "LinearSVR", scaled=True, options={"dual": "auto"}),
    "neighbors": _Model("sklearn.neighbors", "KNeighborsClassifier", "KNeighborsRegressor", scaled=True, seeded=False),
    "bayes": _Model("sklearn.naive_bayes", "GaussianNB", None, seeded=False),
    "xgb": _Model("xgboost", "XGBClassifier", "XGBRegressor", options={"n_jobs": 1, "verbosity": 0}),
    "lgbm": _Model("lightgbm", "LGBMClassifier", "LGBMRegressor", options={"n_jobs": 1, "verbosity": -1}),
}
_ALIASES = {"rf": "forest", "hgb": "boosting"}


def _find(name: str) -> _Model:
    found = _MODELS.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if found is None:
        names = ", ".join(sorted([*_MODELS, *_ALIASES]))
        raise ShoalError(f"There is no model {name!r}: choose {names}, or pass a scikit-learn estimator.")
    return found


def _coding(attribute: Attribute) -> str | list[Any]:
    if attribute.kind != "ordinal":
        return attribute.kind
    if attribute.order is not None:
        return list(attribute.order)
    return list(attribute.hierarchy.values) if isinstance(attribute.hierarchy, Hierarchy) else "ordinal"


def _numbers(factor: Factor, name: str) -> np.ndarray:
    """The distinct values of a column as numbers, days since 1970 if they are dates; what is suppressed is missing."""
    values = factor.values
    if factor.content == "boolean":
        return values.astype(float)
    if factor.content != "text":
        return positions_of(values, name)
    shown = values != TOP
    numbers = np.full(len(values), np.nan)
    numbers[shown] = positions_of(parse_texts(values[shown], name), name)
    return numbers


def _load_skops(path: Path, trust: bool | Sequence[str]) -> Any:
    import skops.io

    try:
        found = skops.io.get_untrusted_types(file=path)
    except (zipfile.BadZipFile, KeyError):
        raise DataError(f"{str(path)!r} is not a skops file: save it by shoal.models.save_model or skops.io.") from None
    trusted = found if trust is True else [*_SAFE_TYPES, *(trust or ())]
    unknown = [name for name in found if name not in trusted]
    if unknown:
        raise DataError(
            f"{str(path)!r} holds types that are not known to be safe, {', '.join(unknown)}: "
            "pass trust with their names, or trust=True (--trust), if you trust whoever made the file."
        )
    return skops.io.load(path, trusted=trusted)


def _load_pickle(path: Path, trust: bool | Sequence[str]) -> Any:
    if trust is not True:
        raise DataError(
            f"Loading {str(path)!r} would run whatever code its maker put there: save the model as .skops, which is "
            "safe to load, or pass trust=True (--trust) if you trust them with your machine."
        )
    if path.suffix.lower() == ".joblib":
        import joblib

        return joblib.load(path)
    with path.open("rb") as file:
        return pickle.load(file)


def _save_skops(model: Any, path: Path) -> None:
    import skops.io

    skops.io.dump(model, path)


def _save_joblib(model: Any, path: Path) -> None:
    import joblib

    joblib.dump(model, path)


_LOADERS = {".skops": _load_skops, ".joblib": _load_pickle, ".pkl": _load_pickle, ".pickle": _load_pickle}
_SAVERS = {".skops": _save_skops, ".joblib": _save_joblib}
_SAFE_TYPES = [
    "numpy.dtype",
    "shoal.models.CodedTarget",
    "shoal.models.FrameEncoder",
    "shoal.models.ModelPipeline",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
]
"""Types that only hold what was written into them, beside those that skops knows itself."""


def reason(error: Exception) -> str:
    """Why something failed, short enough to stand in a sentence."""
    return (str(error).strip().split("\n", 1)[0] or type(error).__name__).rstrip(".")


class SelectedFeature(NamedTuple):
    """A feature that was selected, and what it is to privacy."""

    name: str
    role: str


class Selection(NamedTuple):
    """The features that were selected, in the order of their selection."""

    features: tuple[SelectedFeature, ...]

    def of(self, role: str) -> list[str]:
        """Names of the selected features that have a role."""
        return [feature.name for feature in self.features if feature.role == role]

    @property
    def summary(self) -> str:
        """How many are quasi-identifiers, in one sentence."""
        quasi, sensitive = self.of("quasi"), self.of("sensitive")
        nouns = "is a quasi-identifier" if len(quasi) == 1 else "are quasi-identifiers"
        sentence = f"{len(quasi)} of {len(self.features)} selected features {nouns}"
        sentence += f": {', '.join(quasi)}" if quasi else ""
        return sentence + (f"; sensitive: {', '.join(sensitive)}." if sensitive else ".")


def explain_selection(selected: Any, schema: Schema) -> Selection:
    """Say which of the features that were selected for a model are quasi-identifiers.

    Parameters
    ----------
    selected : fitted selector, model or pipeline, or names
        Anything with ``get_support``, or with ``feature_importances_``, of which those above 0 count. Of a pipeline the
        last selector, or else its model. A feature that was made of an attribute, such as one column a value, is that
        attribute. What was fitted on an array had the columns that models see, in the order of the schema.
    schema : Schema

    Examples
    --------
    >>> from shoal.datasets import make_census
    >>> census = make_census(500)
    >>> selection = explain_selection(["age", "capital-gain", "hours-per-week"], census.schema)
    >>> selection.summary
    '1 of 3 selected features is a quasi-identifier: age.'
    >>> selection.features[1]
    SelectedFeature(name='capital-gain', role='other')
    """
    require_schema(schema)
    names = [selected] if isinstance(selected, str) else _selected_names(selected, schema)
    attributes = dict.fromkeys(_attribute_of(name, schema) for name in names)
    return Selection(tuple(SelectedFeature(attribute.name, attribute.role) for attribute in attributes))


def _selected_names(selected: Any, schema: Schema) -> list[str]:
    steps = [step for _, step in selected.steps] if isinstance(selected, Pipeline) else [selected]
    last = max((i for i, step in enumerate(steps) if hasattr(step, "get_support")), default=len(steps) - 1)
    step = steps[last]
    if not hasattr(step, "get_support") and not hasattr(step, "fit"):
        if not isinstance(selected, Iterable):
            raise ShoalError(f"{selected!r} selects no features: pass a fitted selector, or names.")
        return [str(name) for name in selected]
    try:
        chosen = step.get_support() if hasattr(step, "get_support") else step.feature_importances_ > 0
        names = selected[:last].get_feature_names_out() if last else getattr(step, "feature_names_in_", None)
    except (AttributeError, NotFittedError) as error:
        raise ShoalError(
            f"What a {type(step).__name__} selected cannot be told ({reason(error)}): pass a fitted selector, or names."
        ) from None
    names = features(schema) if names is None else names
    if len(names) != len(chosen):
        raise ShoalError(
            f"The {type(step).__name__} chose among {len(chosen)} columns, but models of this schema see {len(names)}: "
            "fit it on a table, or pass names."
        )
    return [str(name) for name, one in zip(names, chosen, strict=True) if one]


def _attribute_of(name: str, schema: Schema) -> Attribute:
    """The attribute that a feature is or was made of: ``nominal__sex_1`` is of ``sex``; of several the longest name."""
    if name in schema:
        return schema[name]
    parts = name.split("__")
    for i in reversed(range(len(parts))):
        made = "__".join(parts[i:])
        fitting = [a for a in schema if made == a.name or made.startswith(f"{a.name}_")]
        if fitting:
            return max(fitting, key=lambda attribute: len(attribute.name))
    raise SchemaError(f"The selected feature {name!r} is no attribute of the schema: pass a table's own names.")
