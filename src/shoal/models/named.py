"""Models by name, which accept tables of a schema."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.schema import Attribute, Schema, require_schema
from shoal.errors import SchemaError, ShoalError, reason
from shoal.models.estimators import CodedTarget, FrameEncoder, ModelPipeline
from shoal.models.targets import Task, features, task_of
from shoal.parameters import Choice

MOST_CATEGORIES = 255
"""Most columns for one nominal attribute; its rarest values share one."""


def model_names() -> list[str]:
    """Return the names of the models that :func:`make_model` makes.

    >>> model_names()[:3]
    ['tree', 'forest', 'boosting']
    """
    return list(_MODELS)


def make_model(name: str, schema: Schema, random_state: Any = 0, task: Task | None = None) -> Pipeline:
    """Make an untrained model that accepts tables of this schema.

    Nominal attributes become one column per value (later values are ignored), missing numbers and dates are replaced by
    the median, ordinal values are numbered in their order. All of them are standardised for models that need it;
    ``boosting`` accepts nominal and missing values directly. ``mlp`` stops training when its held-out rows are
    predicted no better, which is more accurate and many times faster than training to the end. Identifiers and the
    target are never used.

    Parameters
    ----------
    name : str
        ``tree``, ``forest`` (or ``rf``), ``boosting`` (or ``hgb``), ``mlp``, ``logistic``, ``svm``, ``neighbors``,
        ``bayes``, and with the extra ``boosting`` also ``xgb`` and ``lgbm``.
    schema : Schema
    random_state : int, RandomState or None
    task : {"classification", "regression"}, optional
        By default by the kind of the target: numbers are regressed, anything else is classified.

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
    Choice(get_args(Task)).check("task", task)
    return around(found.make(name, task, random_state), schema, scaled=found.scaled)


def around(estimator: Any, schema: Schema, *, names: Sequence[str] | None = None, scaled: bool = True) -> Pipeline:
    """Put the preparation of :func:`make_model` before any scikit-learn estimator.

    An estimator that handles categories itself (it has a parameter ``categorical_features``) gets each nominal
    attribute as one column of codes. ``names`` are the attributes that it uses, by default all features.
    """
    attributes = [schema[name] for name in (features(schema) if names is None else names)]
    if not attributes:
        raise SchemaError("The schema has no feature for a model: give an attribute the role 'quasi' or 'other'.")
    nominal = [j for j, attribute in enumerate(attributes) if attribute.kind == "nominal"]
    numbers = [j for j, attribute in enumerate(attributes) if attribute.kind != "nominal"]
    if hasattr(estimator, "categorical_features"):
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=MOST_CATEGORIES)
        steps = [("nominal", codes, nominal), ("numbers", "passthrough", numbers)]
        estimator = clone(estimator).set_params(categorical_features=list(range(len(nominal))))
    else:
        one_hot = OneHotEncoder(handle_unknown="ignore", max_categories=MOST_CATEGORIES, sparse_output=False)
        median = SimpleImputer(strategy="median", keep_empty_features=True)
        scale = make_pipeline(median, StandardScaler()) if scaled else median
        steps = [("nominal", one_hot, nominal), ("numbers", scale, numbers)]
    prepare = ColumnTransformer(steps)
    encode = FrameEncoder({attribute.name: _coding(attribute) for attribute in attributes})
    return ModelPipeline([("encode", encode), ("prepare", prepare), ("model", estimator)])


class _Model(NamedTuple):
    """The module and the parameters of a model."""

    module: str
    classifier: str
    regressor: str | None
    scaled: bool = False
    seeded: bool = True
    options: Mapping[str, Any] = {}

    def make(self, name: str, task: Task, random_state: Any) -> Any:
        """Return the bare estimator."""
        class_name = self.classifier if task == "classification" else self.regressor
        if class_name is None:
            others = ", ".join(other for other, model in _MODELS.items() if model.regressor)
            raise ShoalError(
                f"The model {name!r} cannot predict numbers: choose {others}, or make the target nominal in the schema."
            )
        try:
            cls = getattr(importlib.import_module(self.module), class_name)
        except (ImportError, OSError) as error:  # OSError if the library lacks a system library
            raise ShoalError(
                f"The model {name!r} needs the package {self.module!r}, which cannot be used ({reason(error)}): "
                "pip install 'shoal[boosting]'."
            ) from None
        seed = {"random_state": random_state} if self.seeded else {}
        estimator = cls(**self.options, **seed)
        return CodedTarget(estimator) if class_name == "XGBClassifier" else estimator


# One thread each: several models are trained in parallel, and sums must not depend on the number of threads.
_MODELS = {
    "tree": _Model("sklearn.tree", "DecisionTreeClassifier", "DecisionTreeRegressor"),
    "forest": _Model("sklearn.ensemble", "RandomForestClassifier", "RandomForestRegressor"),
    "boosting": _Model("sklearn.ensemble", "HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
    "mlp": _Model(
        "shoal.models.networks",
        "StoppingMLPClassifier",
        "StoppingMLPRegressor",
        scaled=True,
        options={"early_stopping": True},
    ),
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
