"""Guess a value by trying each on a model: rows with one column replaced, and what its answers and leaves say of it."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shoal.attacks.answers import call_model, probabilities_of
from shoal.attacks.trees import quick
from shoal.data import frames
from shoal.data.frames import Factor
from shoal.errors import DataError, ShoalError

SMOOTHING = 0.5
"""Rows that every cell of a confusion matrix is taken to have in advance: what was never seen may still happen."""
WHO = "members", "controls"
CLOSE = 1e-9
"""Numbers that differ by no more than this share are the same answer: forests add their trees in any order."""


def weigh_leaves(leaves: np.ndarray, said: np.ndarray, known: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """How much speaks for each value, by formula (4) of Goldsteen et al. (2020), for any number of values.

    If the model gives the known answer to some of the values, then one of them it is, else it may be any. Among these
    a value counts by the share of the training rows in its leaf times its prior.

    Parameters
    ----------
    leaves : float array (n, values)
        Share of the training rows in the leaf that each value leads to; in several trees, its sum.
    said : array (n, values)
        What the model answers to each value.
    known : array (n,)
        What it answers to the true one.
    prior : array (values,)
        How frequent each value is.
    """
    matching = _same(said, known[:, None])
    possible = matching | ~matching.any(axis=1, keepdims=True)
    return np.where(possible, leaves * prior, 0.0)


def weigh_errors(said: np.ndarray, labels: np.ndarray, confusion: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """The same by Fredrikson et al. (2014): how often the true label is this one where the model answers that."""
    return np.asarray(confusion[said, labels[:, None]] * prior)


def weigh_residuals(said: np.ndarray, labels: np.ndarray, spread: float, prior: np.ndarray) -> np.ndarray:
    """The same of a model that answers numbers, which miss the true one by a normal error of this spread."""
    logs = np.log(prior) - ((labels[:, None] - said) / spread) ** 2 / 2
    # Far from every answer all of them would round to nothing.
    return np.exp(logs - logs.max(axis=1, keepdims=True))


def count_errors(said: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """The share of each true label among rows of each answer (answers, labels)."""
    counts = np.full((n_classes, n_classes), SMOOTHING)
    np.add.at(counts, (said, labels), 1.0)
    return counts / counts.sum(axis=1, keepdims=True)


def measure_residuals(said: np.ndarray, labels: np.ndarray) -> float:
    """The spread of the errors of numbers; a little even where all are hit, as a model that learns by heart does."""
    spread = float(np.sqrt(np.mean((said - labels) ** 2)))
    return max(spread, 1e-6 * float(labels.std())) or 1.0


@dataclass(frozen=True)
class ModelRows:
    """Rows as a model takes them: a table of any library, or an array."""

    data: nw.DataFrame[Any] | np.ndarray

    def __len__(self) -> int:
        return len(self.data)

    @property
    def native(self) -> Any:
        """The rows as they came."""
        return self.data if isinstance(self.data, np.ndarray) else self.data.to_native()

    @property
    def names(self) -> list[str]:
        """Names of the columns; those of an array are counted from 0."""
        if isinstance(self.data, np.ndarray):
            return [f"column {j}" for j in range(self.data.shape[1])]
        return list(self.data.columns)

    def take(self, rows: np.ndarray) -> ModelRows:
        """Some of the rows."""
        return ModelRows(self.data[rows] if isinstance(self.data, np.ndarray) else frames.take_rows(self.data, rows))

    def factor(self, column: int) -> Factor:
        """A column as codes and values."""
        if isinstance(self.data, np.ndarray):
            name = self.names[column]
            return frames.factorize(frames.from_array(self.data[:, [column]], [name])[name])
        return frames.factorize(self.data[:, column])

    def filled(self, column: int, donor: ModelRows, row: int) -> Any:
        """These rows, all with the value in one column that a row of this or another table has there."""
        if isinstance(self.data, np.ndarray):
            array = self.data.copy()
            array[:, column] = donor.data[row, column]
            return array
        own: Any = self.data[:, column]
        given: Any = donor.data[:, column]
        repeated = frames.take(given, np.full(len(self), row))
        same = repeated if given.dtype == own.dtype else repeated.cast(own.dtype)
        return frames.replace_columns(self.data, {own.name: same}).to_native()


Donor = tuple[ModelRows, int]
"""A table, and the number of a row in it that has the value that is tried."""


def open_alike(members: Any, controls: Any) -> tuple[ModelRows, ModelRows]:
    """Both tables, of one library and with the same columns in the same order."""
    kinds = [frames.is_frame(data) for data in (members, controls)]
    if kinds[0] != kinds[1]:
        raise DataError("Of members and controls one is a table, the other an array: pass both alike.")
    if not kinds[0]:
        return _open_arrays(members, controls)
    one, other = frames.open_frame(members), frames.open_frame(controls)
    if one.implementation != other.implementation:
        kinds_named = " and ".join(frame.implementation.name.lower() for frame in (one, other))
        raise DataError(f"members and controls are tables of {kinds_named}: convert one of them.")
    for name in (*one.columns, *other.columns):
        if name not in one.columns or name not in other.columns:
            raise DataError(f"Column {name!r} is only in one of members and controls: pass the same columns in both.")
    return ModelRows(one), ModelRows(other.select(one.columns))


def _open_arrays(members: Any, controls: Any) -> tuple[ModelRows, ModelRows]:
    arrays = []
    for data, who in zip((members, controls), WHO, strict=True):
        array = np.asarray(data)
        if array.ndim != 2 or array.dtype.kind not in "biufOU":
            raise DataError(f"{who} has the shape {array.shape} and the type {array.dtype}: pass rows and columns.")
        arrays.append(array)
    one, other = arrays
    if one.shape[1] != other.shape[1]:
        raise DataError(f"members has {one.shape[1]} columns, controls {other.shape[1]}: pass the same in both.")
    dtype = np.result_type(one, other)
    return ModelRows(one.astype(dtype, copy=False)), ModelRows(other.astype(dtype, copy=False))


def find_column(feature: str | int, rows: ModelRows) -> int:
    """The position of a feature that is given by name or position."""
    names = rows.names
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, numbers.Integral) and not isinstance(feature, bool) and -len(names) <= feature < len(names):
        return int(feature) % len(names)
    raise ShoalError(
        f"There is no feature {feature!r}: choose {', '.join(names[:12])}, or a position below {len(names)}."
    )


def merge(members: ModelRows, controls: ModelRows, column: int) -> Factor:
    """A column of members and of controls as one."""
    one, other, name = members.factor(column), controls.factor(column), members.names[column]
    filled = [factor for factor in (one, other) if len(factor.values)] or [one]
    contents = [factor.content for factor in filled]
    if contents[0] != contents[-1]:
        raise DataError(
            f"Column {name!r} holds {contents[0]} in members, but {contents[1]} in controls: convert it to one type."
        )
    values = np.unique(np.concatenate([factor.values for factor in filled]))
    codes = np.concatenate([np.append(_positions(factor.values, values), -1)[factor.codes] for factor in (one, other)])
    return Factor(codes.astype(np.intp), values, contents[0])


def _positions(some: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.searchsorted(values, some) if len(some) else np.empty(0, np.intp)


def find_donors(parts: tuple[ModelRows, ModelRows], codes: np.ndarray, values: np.ndarray) -> list[list[Donor]]:
    """For each value a row that has it in each table; in the other one if none has."""
    n = len(parts[0])
    rows = []
    for part in (codes[:n], codes[n:]):
        first = np.full(int(codes.max()) + 2, -1)
        met, row = np.unique(part, return_index=True)
        first[met] = row
        rows.append(first[values].tolist())
    own = [[(part, row) for row in found] for part, found in zip(parts, rows, strict=True)]
    return [[one if one[1] >= 0 else other, other if other[1] >= 0 else one] for one, other in zip(*own, strict=True)]


class Oracle:
    """A model that is asked about whole tables, and whose answers are checked and, if they are classes, numbered."""

    def __init__(self, model: Any) -> None:
        if not hasattr(model, "predict"):
            raise ShoalError(f"The model is a {type(model).__name__}, which has no predict: pass a trained model.")
        self.model = model
        self._asked = quick(model)
        self.gives_numbers: bool | None = None
        self._numbers: dict[Any, int] = {}

    @property
    def n_classes(self) -> int:
        """Classes that have been met so far."""
        return len(self._numbers)

    def answers(self, rows: Any) -> np.ndarray:
        """What the model says of each row: numbers, or the codes of classes."""
        said = call_model(self._asked, "predict", rows)
        said = said[:, 0] if said.ndim == 2 and said.shape[1] == 1 else said
        if said.ndim != 1:
            raise ShoalError(f"The model answers {said.shape[1:]} numbers a row: attack one that gives one answer.")
        said = require_present(said, "The model answers nothing (NaN)")
        if self.gives_numbers is None:
            classes = any(hasattr(self.model, name) for name in ("classes_", "predict_proba"))
            self.gives_numbers = said.dtype.kind == "f" and not classes
        return said.astype(float) if self.gives_numbers else self.code(said)

    def probabilities(self, rows: Any) -> np.ndarray:
        """What the model holds for how likely (n, classes)."""
        return probabilities_of(self._asked, rows)

    def code(self, classes: np.ndarray) -> np.ndarray:
        """The numbers of classes, in the order in which they are first met."""
        distinct, codes = np.unique(classes, return_inverse=True)
        numbers = [self._numbers.setdefault(one, len(self._numbers)) for one in distinct.tolist()]
        return np.array(numbers, np.intp)[codes.reshape(-1)]


def read_labels(y: Any, n_rows: int, who: str) -> np.ndarray | None:
    """True labels, one a row, none of them missing; None if there are none."""
    if y is None:
        return None
    if frames.is_frame(y):
        opened = frames.open_frame(y)
        y = opened[opened.columns[0]].to_numpy() if len(opened.columns) == 1 else opened.to_numpy()
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise DataError(f"y_{who} has the shape {labels.shape}, but there are {n_rows:,} {who}: pass one label each.")
    return require_present(labels, f"y_{who} is missing")


def require_numbers(labels: np.ndarray) -> np.ndarray:
    """Labels of a model that answers numbers."""
    if labels.dtype.kind not in "biuf":
        raise DataError(f"The model answers numbers, but y_members holds {labels[0]!r}: pass numbers.")
    return labels.astype(float)


def require_present(values: np.ndarray, what: str) -> np.ndarray:
    """Values of which none is missing; objects become texts."""
    if values.dtype.kind == "f":
        missing = ~np.isfinite(values)
    elif values.dtype == object:
        missing = np.equal(values, np.array(None)) | (values != values)
        if not missing.any():
            values = values.astype(str) if isinstance(values.flat[0], str) else np.array(values.tolist())
    else:
        return values
    if missing.any():
        row = int(np.argwhere(missing)[0, 0])
        raise DataError(f"{what} in {int(missing.sum()):,} places, the first in row {row:,}: leave such rows out.")
    return values


def try_values(
    function: Callable[[Any], np.ndarray], parts: Sequence[ModelRows], column: int, donors: Sequence[Sequence[Donor]]
) -> np.ndarray:
    """What a function of rows says of each row with each value (n, values): one call a table and value, none a row."""
    said = []
    for for_parts in donors:
        tried = [part.filled(column, *donor) for part, donor in zip(parts, for_parts, strict=True)]
        said.append(np.concatenate([function(rows) for rows in tried]))
    return np.column_stack(said)


def _same(said: np.ndarray, known: np.ndarray) -> np.ndarray:
    return np.isclose(said, known, rtol=CLOSE, atol=0.0) if said.dtype.kind == "f" else said == known
