"""The plan of an evaluation: models, methods and numbers, checked before anything is measured."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from shoal.anonymizers import Anonymizer, find_method
from shoal.data.schema import Schema
from shoal.errors import ShoalError
from shoal.models.guides import name_of
from shoal.models.named import around, make_model
from shoal.models.targets import features, target_of, task_of
from shoal.parameters import SEED, Constraint, Whole
from shoal.partition.recoding import recodings_that_publish
from shoal.privacy.models import PrivacyModel, check_constraints

_SET_BY_THE_CELL = ("schema", "k", "random_state")


class Method(NamedTuple):
    """A method with all parameters of :func:`shoal.anonymize` but k and the seed."""

    name: str
    options: dict[str, Any]
    takes_model: bool


def plan_models(model: Any, schema: Schema) -> dict[str, Any]:
    """Return the untrained models by label, each ready for tables of the schema."""
    task = task_of(schema)
    if isinstance(model, Mapping):
        given = dict(model)
    elif isinstance(model, (list, tuple)):
        given = {}
        for one in model:
            if _label_of(one) in given:
                raise ShoalError(f"Two models are called {_label_of(one)!r}: pass a dict from names to models.")
            given[_label_of(one)] = one
    else:
        given = {_label_of(model): model}
    if not given:
        raise ShoalError("No model is given: pass a name such as 'forest', or a scikit-learn estimator.")
    return {str(label): _model(str(label), one, schema, task) for label, one in given.items()}


def _label_of(model: Any) -> str:
    return model if isinstance(model, str) else name_of(model)


def _model(label: str, model: Any, schema: Schema, task: str) -> Any:
    if isinstance(model, str):
        return make_model(model, schema)
    if isinstance(model, type) or not all(hasattr(model, name) for name in ("fit", "predict", "get_params")):
        raise ShoalError(
            f"The model {label!r} is {model!r}, which cannot be trained: pass a name such as 'forest', or an estimator."
        )
    wrong = is_regressor(model) if task == "classification" else is_classifier(model)
    if wrong:
        raise ShoalError(
            f"The model {label!r} is not a model for {task}, which the target {target_of(schema).name!r} needs: "
            "choose another, or change the target's kind in the schema."
        )
    holds_pipeline = any(isinstance(part, Pipeline) for part in (model, *model.get_params().values()))
    return clone(model) if holds_pipeline else around(clone(model), schema, names=_columns_of(label, model, schema))


def _columns_of(label: str, model: Any, schema: Schema) -> list[str] | None:
    """Return the features that an estimator was trained on; None if it is untrained or does not know their names."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    # LightGBM invents names for the columns of an array.
    if not names or names == [f"Column_{j}" for j in range(len(names))]:
        return None
    known = features(schema)
    for name in names:
        if name not in known:
            raise ShoalError(
                f"The model {label!r} was trained on a column {name!r}, which is not a feature of the schema: add it, "
                "or pass an untrained model (sklearn.base.clone), which uses all features."
            )
    return names


def plan_methods(
    given: Any, constraints: Sequence[PrivacyModel], recoding: str | None, options: dict[str, Any]
) -> dict[str, Method]:
    """Return the methods by label."""
    shared = {"constraints": tuple(constraints), "recoding": recoding} | options
    found: dict[str, Method] = {}
    for one in given if isinstance(given, (list, tuple)) else [given]:
        label, method = _method(one, shared)
        if label in found:
            raise ShoalError(
                f"Two methods are labelled {label!r}: give triples (label, name, options) to distinguish them."
            )
        found[label] = method
    if not found:
        raise ShoalError("No method is given: pass a name such as 'mondrian'.")
    return found


def _method(given: Any, shared: Mapping[str, Any]) -> tuple[str, Method]:
    own: Mapping[str, Any] = {}
    if isinstance(given, str):
        label = name = given
    elif isinstance(given, Anonymizer):
        label = name = type(given).__module__.rpartition(".")[2].replace("_", "-")
        own = _parameters(given, shared)
    else:
        try:
            label, name, own = given
            own = dict(own)
        except (TypeError, ValueError):
            raise ShoalError(
                f"A method is a name, an anonymizer or (label, name, options), not {given!r}: pass 'mondrian'."
            ) from None
    cls = find_method(name)
    shared = {**shared, "recoding": usable_recoding(name, shared["recoding"])}
    if isinstance(given, Anonymizer) and type(given) is not cls:
        raise ShoalError(
            f"{type(given).__name__} is not one of Shoal's methods: pass the name of one, such as 'mondrian'."
        )
    options = {**shared, **own}
    known = cls._get_param_names()
    for option in options:
        if option not in known or option in _SET_BY_THE_CELL:
            raise ShoalError(
                f"The method {label!r} has no option {option!r} to set here: choose among "
                f"{', '.join(sorted(set(known) - set(_SET_BY_THE_CELL)))}."
            )
    for constraint in check_constraints(options["constraints"]):
        if constraint.about_population:
            raise ShoalError(
                f"{constraint.describe()} is about a population of which only some rows are released, but models are "
                "compared on the same rows: leave it out."
            )
    if options["recoding"] not in usable_recodings():
        raise ShoalError(
            f"recoding={options['recoding']!r} does not suit a model that must accept raw rows: "
            f"choose {', '.join(usable_recodings())}."
        )
    return str(label), Method(name, options, "model" in known and "model" not in options)


def usable_recodings() -> list[str]:
    """Return the recodings that keep the domain of the values, so that a model of a release accepts raw rows."""
    return ["auto", *recodings_that_publish("row", "values", "numbers")]


def usable_recoding(method: str, recoding: str | None) -> str:
    """Return the requested recoding; by default the method's own, if it suits a model, else representative rows."""
    if recoding is not None:
        return recoding
    own: str = inspect.signature(find_method(method)).parameters["recoding"].default
    return own if own in usable_recodings() else "representative"


def _parameters(anonymizer: Anonymizer, shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return an anonymizer's own parameters, with constraints joined and ranges replaced by values for a model."""
    own = anonymizer.get_params(deep=False)
    own = {name: value for name, value in own.items() if name not in _SET_BY_THE_CELL}
    if own.get("model", "") is None:
        del own["model"]
    if own["recoding"] not in usable_recodings():
        own["recoding"] = shared["recoding"] or "representative"
    return own | {"constraints": (*check_constraints(own["constraints"]), *shared["constraints"])}


def read_several(name: str, value: Any, each: Constraint) -> list[int]:
    """Return one whole number or several in ascending order, each of which a constraint allows."""
    values = [value] if isinstance(value, (numbers.Integral, str)) or not isinstance(value, Iterable) else list(value)
    for one in values:
        each.check(name, one)
    if not values:
        raise ShoalError(f"{name} is empty: give at least one whole number.")
    return sorted({int(one) for one in values})


def read_seeds(value: Any) -> list[int]:
    """Return the seeds, or as many as asked for from 0 on."""
    if isinstance(value, numbers.Integral):
        Whole(least=1).check("seeds", value)
        return list(range(int(value)))
    return read_several("seeds", value, SEED)
