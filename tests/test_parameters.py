"""Every parameter of every estimator has a constraint, which is checked before anything else."""

import importlib
import inspect
import math
import pkgutil
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator
from sklearn.tree import DecisionTreeClassifier

import shoal
from shoal import Attribute, Mondrian, PrivacyTreeClassifier, Schema
from shoal.engines.spark.anonymizer import SparkAnonymizer
from shoal.errors import ShoalError
from shoal.jobs.weights import WeightSession
from shoal.parameters import (
    FEATURES,
    FLAG,
    FUNCTION,
    JOBS,
    NAMES,
    RANDOM_STATE,
    SCORING,
    SEED,
    SHARE,
    WEIGHTS,
    Choice,
    Real,
    Whole,
    constraints_of,
    having,
    shorten,
)

TABLE = pl.DataFrame({"a": [1, 2, 3, 4], "b": [5.0, 6.0, 7.0, 8.0]})
SCHEMA = Schema([Attribute("a"), Attribute("b")])


class Booster(BaseEstimator):
    """An estimator like those of LightGBM, which need not be installed."""

    importance_type = "gain"

    def get_params(self, deep=True):
        return {"importance_type": self.importance_type}

    def fit(self, X, y):
        raise AssertionError("it must not be trained")


NEEDED = {
    "LaplaceNoise": {"predictor": np.ones(2)},
    "NullSpaceCleaner": {"predictor": np.ones(2)},
    "PrivacyLightGBM": {"estimator": Booster()},
    "PrivacySearchCV": {"estimator": PrivacyTreeClassifier(sensitivity={"a": 1.0})},
    "ProtectedModel": {"model": DecisionTreeClassifier(), "anonymizer": Mondrian()},
    "TargetedNullSpaceCleaner": {"predictor": np.ones(2)},
}
STEPS = {"FrameEncoder", "CodedTarget", "ModelPipeline", "StoppingMLPClassifier", "StoppingMLPRegressor"}
"""Parts of the pipelines that make_model builds; nobody else gives them parameters."""


def find_estimators():
    found = set()
    for module in pkgutil.walk_packages(shoal.__path__, "shoal."):
        if "studio" not in module.name and not module.name.endswith("__main__"):
            for one in vars(importlib.import_module(module.name)).values():
                if isinstance(one, type) and issubclass(one, BaseEstimator) and one.__module__.startswith("shoal."):
                    found.add(one)
    leaves = {one for one in found if not any(other is not one and issubclass(other, one) for other in found)}
    return sorted((one for one in leaves if one.__name__ not in STEPS), key=lambda one: one.__name__)


ESTIMATORS = find_estimators()
PARAMETERS = [(estimator, name) for estimator in ESTIMATORS for name in constraints_of(estimator)]


def test_estimators_are_found():
    names = {estimator.__name__ for estimator in ESTIMATORS}
    public = {name for name in shoal.__all__ if inspect.isclass(one := getattr(shoal, name)) and hasattr(one, "fit")}
    assert len(names) >= 17
    assert public - names <= {"Anonymizer", "Cleaner"}


@pytest.mark.parametrize("estimator", [*ESTIMATORS, SparkAnonymizer, WeightSession])
def test_every_parameter_has_a_constraint(estimator):
    parameters = inspect.signature(estimator).parameters
    constraints = constraints_of(estimator)
    assert set(constraints) == set(parameters)
    needed = NEEDED.get(estimator.__name__, {})
    for name, parameter in parameters.items():
        if parameter.default is not parameter.empty and name not in needed:
            constraints[name].check(name, parameter.default)


def assert_names(error, name, value):
    text = str(error)
    assert text.endswith(".")
    assert "\n" not in text
    assert name in text.lower()
    assert shorten(value) in text


@pytest.mark.parametrize(("estimator", "name"), PARAMETERS, ids=lambda one: getattr(one, "__name__", one))
def test_bad_values_are_refused_and_change_nothing(estimator, name):
    for value in constraints_of(estimator)[name].bad:
        made = estimator(**NEEDED.get(estimator.__name__, {}) | {name: value})
        before = dict(vars(made))
        with pytest.raises(ShoalError) as caught:
            made.fit(TABLE, [0, 1, 0, 1])
        assert_names(caught.value, name, value)
        assert vars(made).keys() == before.keys()
        assert all(vars(made)[key] is before[key] for key in before)


@pytest.mark.parametrize("name", constraints_of(SparkAnonymizer))
def test_spark_is_not_asked_with_bad_values(name):
    for value in constraints_of(SparkAnonymizer)[name].bad:
        with pytest.raises(ShoalError) as caught:
            SparkAnonymizer(**{"method": Mondrian(SCHEMA)} | {name: value}).fit_transform(None)
        assert_names(caught.value, name, value)


@pytest.mark.parametrize("name", constraints_of(WeightSession))
def test_a_session_refuses_bad_values(name):
    for value in constraints_of(WeightSession)[name].bad:
        with pytest.raises(ShoalError) as caught:
            WeightSession(**{"frame": TABLE, "schema": SCHEMA} | {name: value})
        assert_names(caught.value, name, value)


THREE, HALF, HUGE = np.int64(3), np.float32(0.5), 10**400
HALVES = [0.5, HALF, Fraction(1, 2)]
OTHERS = [None, True, np.True_, "1", "a", [], ["a"], {}, len, object]
VALUES = [0, 1, -1, THREE, *HALVES, math.nan, math.inf, HUGE, *OTHERS]


@pytest.mark.parametrize(
    ("constraint", "allowed", "text"),
    [
        (Whole(), [0, 1, -1, THREE, HUGE], "a whole number"),
        (Whole(least=1), [1, THREE, HUGE], "a whole number of at least 1"),
        (Whole(most=0), [0, -1], "a whole number of at most 0"),
        (Whole(least=-1, most=1000), [0, 1, -1, THREE], "a whole number from -1 to 1,000"),
        (Real(), [0, 1, -1, THREE, *HALVES], "a number"),
        (Real(least=0.5), [1, THREE, *HALVES], "a number of at least 0.5"),
        (Real(above=0.5), [1, THREE], "a number above 0.5"),
        (Real(above=0.5, most=math.inf), [1, THREE, math.inf], "a number above 0.5"),
        (Real(least=0, most=1), [0, 1, *HALVES], "a number from 0 to 1"),
        (Real(least=0, below=1), [0, *HALVES], "a number of at least 0 and below 1"),
        (Choice(("a", 2)), ["a"], "'a' or 2"),
        (Choice(("a", "1")) | Whole(least=2) | None, [THREE, HUGE, None, "1", "a"], None),
        (SEED, [0, 1, THREE], "a whole number from 0 to 4,294,967,295"),
        (RANDOM_STATE, [0, 1, THREE, None], "a whole number from 0 to 4,294,967,295, a RandomState or None"),
        (JOBS, [1, -1, THREE, HUGE, None], "a whole number other than 0 or None"),
        (SHARE, HALVES, "a share above 0 and up to 1.0"),
        (FLAG, [True, np.True_], "True or False"),
        (NAMES, [[], ["a"]], "a list of names"),
        (FEATURES, [[], ["a"]], "a list of names or positions"),
        (WEIGHTS, [{}], "a mapping from names to numbers"),
        (FUNCTION, [len, object], "a function"),
        (SCORING, [None, len, object], "a score of scikit-learn such as 'accuracy', a function or None"),
        (having("__name__"), [len], "an object with __name__"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_constraints_allow_what_they_say(constraint, allowed, text):
    assert [repr(value) for value in VALUES if constraint.allows(value)] == [repr(value) for value in allowed]
    assert text is None or str(constraint) == text
    assert len(constraint.bad) > 0
    assert not constraint.allows(np.arange(2)) or constraint is FEATURES


def test_what_is_refused_is_named_with_advice():
    for constraint, value, sentence in (
        (Real(least=0, most=1, hint="0.02 is 2 %"), 2, "share must be a number from 0 to 1, got 2: 0.02 is 2 %."),
        (JOBS, 0, "share must be a whole number other than 0 or None, got 0: -1 uses all cores."),
        (having("fit"), Schema, "share must be an object with fit, got <class 'shoal.data.schema.Schema'>: create it "
         "first, as Schema()."),
        (Whole(), "x" * 100, f"share must be a whole number, got '{'x' * 56}...."),
    ):  # fmt: skip
        with pytest.raises(ShoalError) as caught:
            constraint.check("share", value)
        assert str(caught.value) == sentence
    with pytest.raises(ShoalError, match="^t of t-closeness must be a number from 0 to 1, got 1.5.$"):
        Real(least=0, most=1).check("t", 1.5, "t-closeness")
