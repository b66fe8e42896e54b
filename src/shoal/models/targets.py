"""The target and the features of a schema, and the values that a model learns."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from shoal.data.factored import FactoredFrame
from shoal.data.frames import Factor
from shoal.data.schema import Attribute, Schema, require_schema
from shoal.data.table import TOP
from shoal.data.value_text import parse_texts, plain_text, positions_of
from shoal.errors import DataError, SchemaError

Task = Literal["classification", "regression"]
LARGEST_SURE_FLOAT = 2.0**53
"""The largest range in which a float stands for one whole number."""


def target_of(schema: Schema) -> Attribute:
    """Return the one attribute that a model predicts."""
    require_schema(schema)
    if not schema.target:
        raise SchemaError("The schema has no target: give the role 'target' to the attribute that is predicted.")
    if len(schema.target) > 1:
        names = ", ".join(attribute.name for attribute in schema.target[:12])
        raise SchemaError(f"The schema has {len(schema.target)} targets, {names}: leave the role 'target' to one.")
    return schema.target[0]


def features(schema: Schema) -> list[str]:
    """Return the names of the attributes that a model uses: all but identifiers and targets.

    >>> features(Schema([Attribute("id", "identifier"), Attribute("age"), Attribute("income", "target")]))
    ['age']
    """
    return [attribute.name for attribute in schema if attribute.role in ("quasi", "sensitive", "other")]


def task_of(schema: Schema) -> Task:
    """Return the task of the target: numbers are regressed, anything else is classified."""
    return "regression" if target_of(schema).kind == "numeric" else "classification"


def read_target(frame: Any, schema: Schema) -> np.ndarray:
    """Return the target of each row: numbers to regress, or classes, which a model predicts as they are in the table.

    Classes that are whole numbers are int64, however the library stores them, and Booleans are bool; all others are
    texts, also numbers that are not whole, which scikit-learn does not accept as classes.
    """
    target, factored = target_of(schema), FactoredFrame.of(frame)
    if target.name not in factored.columns:
        raise DataError(f"The target {target.name!r} is not a column of the table: add it, or fix the schema.")
    factor = factored.factor(target.name)
    missing = factor.codes < 0
    if missing.any():
        raise DataError(
            f"The target {target.name!r} has {missing.sum()} missing values, the first in row {missing.argmax()}: "
            "drop these rows."
        )
    if target.kind == "numeric":
        return numbers_of(factor, target.name)[factor.codes]
    return _classes(factor)[factor.codes]


def _classes(factor: Factor) -> np.ndarray:
    values = factor.values
    if factor.content == "boolean":
        return values.astype(bool)
    if factor.content == "number" and _are_whole(values):
        return values.astype(np.int64)
    return np.array([plain_text(value, factor.content) for value in values])


def _are_whole(values: np.ndarray) -> bool:
    """Return True if numbers equal int64 numbers."""
    if values.dtype.kind in "iu":
        return int(values.max(initial=0)) <= np.iinfo(np.int64).max
    return bool((np.abs(values) <= LARGEST_SURE_FLOAT).all() and (values == np.rint(values)).all())


def numbers_of(factor: Factor, name: str) -> np.ndarray:
    """Return the distinct values of a column as numbers, or days since 1970; suppressed values are missing."""
    values = factor.values
    if factor.content == "boolean":
        return values.astype(float)
    if factor.content != "text":
        return positions_of(values, name)
    shown = values != TOP
    numbers = np.full(len(values), np.nan)
    numbers[shown] = positions_of(parse_texts(values[shown], name), name)
    return numbers
