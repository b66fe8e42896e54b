"""Inversion of a model: the rows and values of attribute inference, and the evidence of the model's answers."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal.attacks.answers import call_model, probabilities_of
from shoal.attacks.trees import quick
from shoal.data import frames
from shoal.data.frames import Factor
from shoal.errors import DataError, ShoalError
from shoal.parameters import SEED, Whole

FEWEST_ROWS = 20
MOST_NUMBERS = 50
"""Numbers or dates with more distinct values are guessed in ranges."""
MOST_TEXTS = 500
MOST_CATEGORIES = 100
"""Maximum number of columns that a text feature becomes for a learner; its rarest values share none."""
SMOOTHING = 0.5
"""Initial count of every cell of a confusion matrix: errors that were never seen may still happen."""
WHO = "members", "controls"
CLOSE = 1e-9
"""Relative difference up to which numbers are the same answer: forests add their trees in any order."""


class Scene(NamedTuple):
    """Guessed values, judged rows and training rows of the adversary; rows are members first, then controls."""

    name: str
    parts: tuple[ModelRows, ModelRows]
    column: int
    truth: np.ndarray
    """Number of each row's value among those that the adversary has seen, -1 for other values."""
    train: np.ndarray
    """Rows that the adversary learns from."""
    judged: tuple[np.ndarray, np.ndarray]
    """Other members, and other controls."""
    prior: np.ndarray
    """Share of each value among the rows that train."""
    donors: list[list[Donor]]
    """For each value a row that has it, to copy it from into members, and one to copy it from into controls."""
    left_out: int
    """Number of rows without a value."""


def set_up(members: Any, controls: Any, feature: str | int, bins: int | None, seed: int) -> Scene:
    """Divide members and controls into rows that train the adversary and rows that are judged."""
    SEED.check("random_state", seed)
    (Whole(least=2) | None).check("bins", bins)
    parts = open_alike(members, controls)
    column = find_column(feature, parts[0])
    n, name = len(parts[0]), parts[0].names[column]
    secret = merge(*parts, column)
    values, stand_ins = _group_values(secret, name, bins)
    codes = np.append(values, -1)[secret.codes]
    random = np.random.default_rng(int(seed))
    halves = _halve(codes[:n], "members", name, random), _halve(codes[n:], "controls", name, random)
    train = np.concatenate([halves[0][0], halves[1][0] + n])
    met, sizes = np.unique(codes[train], return_counts=True)
    if len(met) < 2:
        raise DataError(f"Feature {name!r} has one value in all rows, so there is nothing to guess: choose another.")
    number = np.full(len(stand_ins) + 1, -1)
    number[met] = np.arange(len(met))
    return Scene(
        name,
        parts,
        column,
        truth=number[codes],
        train=train,
        judged=(halves[0][1], halves[1][1] + n),
        prior=sizes / sizes.sum(),
        donors=find_donors(parts, secret.codes, stand_ins[met]),
        left_out=int((codes < 0).sum()),
    )


def _group_values(secret: Factor, name: str, bins: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the guess for each value, and for each guess the value that represents it when tried."""
    n, content = len(secret.values), secret.content
    if bins is None:
        most = MOST_TEXTS if content == "text" else MOST_NUMBERS
        if n > most:
            way_out = "choose another" if content == "text" else "pass bins to guess ranges of them"
            raise DataError(f"Feature {name!r} has {n:,} different values, more than {most}: {way_out}.")
        return np.arange(n), np.arange(n)

    if content not in ("number", "date"):
        raise ShoalError(f"bins={bins} is for numbers and dates, but feature {name!r} holds {content}: leave bins out.")
    sizes = np.bincount(secret.codes[secret.codes >= 0], minlength=n)
    so_far = np.cumsum(sizes)
    ranges = np.unique((so_far - sizes / 2) * bins // max(so_far[-1], 1), return_inverse=True)[1].reshape(-1)
    ends = so_far[np.append(np.flatnonzero(np.diff(ranges)), n - 1)]
    # The median of a range represents it.
    return ranges, np.searchsorted(so_far, (np.append(0, ends[:-1]) + ends) / 2)


def _halve(codes: np.ndarray, who: str, name: str, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that train and those that are judged, with equal shares of each value."""
    known = np.flatnonzero(codes >= 0)
    if len(known) < FEWEST_ROWS:
        raise DataError(f"There are only {len(known)} {who} in which {name!r} is known: pass {FEWEST_ROWS} or more.")
    shuffled = random.permutation(known)
    ordered = shuffled[np.argsort(codes[shuffled], kind="stable")]
    return np.sort(ordered[::2]), np.sort(ordered[1::2])


def to_matrix(factors: list[Factor], n_rows: int) -> np.ndarray:
    """Return the input of a learner: numbers and where they are missing, and a column for each frequent other value."""
    columns: list[np.ndarray] = []
    for codes, values, content in factors:
        missing = codes < 0
        if content == "text":
            columns.append(one_hot(codes, len(values)))
            continue
        known = values.astype("int64" if content == "date" else float).astype(float)
        columns.append(np.append(known, known[codes[~missing]].mean() if len(known) else 0.0)[codes][:, None])
        if missing.any():
            columns.append(missing[:, None].astype(float))
    return np.column_stack(columns) if columns else np.zeros((n_rows, 1))


def one_hot(codes: np.ndarray, n_values: int) -> np.ndarray:
    """Return a column for each frequent code."""
    sizes = np.bincount(codes[codes >= 0], minlength=n_values)
    frequent = np.sort(np.argsort(-sizes, kind="stable")[:MOST_CATEGORIES])
    return np.asarray(codes[:, None] == frequent, float)


def weigh_leaves(leaves: np.ndarray, said: np.ndarray, known: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return the evidence for each value by formula (4) of Goldsteen et al. (2020), for any number of values.

    Only values to which the model gives the known answer are possible, or all if it gives it to no value. The weight
    of a possible value is the share of the training rows in its leaf times its prior.

    Parameters
    ----------
    leaves : float array (n, values)
        Share of the training rows in the leaf that each value leads to, summed over trees.
    said : array (n, values)
        Answer of the model to each value.
    known : array (n,)
        Answer to the true value.
    prior : array (values,)
        Share of each value.
    """
    matching = _same(said, known[:, None])
    possible = matching | ~matching.any(axis=1, keepdims=True)
    return np.where(possible, leaves * prior, 0.0)


def weigh_errors(said: np.ndarray, labels: np.ndarray, confusion: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return the evidence by Fredrikson et al. (2014): the probability of the true label given the model's answer."""
    return np.asarray(confusion[said, labels[:, None]] * prior)


def weigh_residuals(said: np.ndarray, labels: np.ndarray, spread: float, prior: np.ndarray) -> np.ndarray:
    """Return the evidence by a model that answers numbers, with a normal error of this standard deviation."""
    logs = np.log(prior) - ((labels[:, None] - said) / spread) ** 2 / 2
    # Far from every answer all of them would underflow to zero.
    return np.exp(logs - logs.max(axis=1, keepdims=True))


def count_errors(said: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the share of each true label among the rows of each answer (answers, labels)."""
    counts = np.full((n_classes, n_classes), SMOOTHING)
    np.add.at(counts, (said, labels), 1.0)
    return counts / counts.sum(axis=1, keepdims=True)


def measure_residuals(said: np.ndarray, labels: np.ndarray) -> float:
    """Return the standard deviation of the errors of numbers, above zero even for a model that memorises all rows."""
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
        """Names of the columns; those of an array are numbered from 0."""
        if isinstance(self.data, np.ndarray):
            return [f"column {j}" for j in range(self.data.shape[1])]
        return list(self.data.columns)

    def take(self, rows: np.ndarray) -> ModelRows:
        """Return some of the rows."""
        return ModelRows(self.data[rows] if isinstance(self.data, np.ndarray) else frames.take_rows(self.data, rows))

    def factor(self, column: int) -> Factor:
        """Return a column as codes and values."""
        if isinstance(self.data, np.ndarray):
            name = self.names[column]
            return frames.factorize(frames.from_array(self.data[:, [column]], [name])[name])
        return frames.factorize(self.data[:, column])

    def filled(self, column: int, donor: ModelRows, row: int) -> Any:
        """Return these rows with one column filled with the value of a row of this or another table."""
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
"""A table, and the number of a row in it with the value that is tried."""


def open_alike(members: Any, controls: Any) -> tuple[ModelRows, ModelRows]:
    """Return both tables, of one library and with the same columns in the same order."""
    kinds = [frames.is_frame(data) for data in (members, controls)]
    if kinds[0] != kinds[1]:
        raise DataError("Members and controls have different types: pass both as tables, or both as arrays.")
    if not kinds[0]:
        return _open_arrays(members, controls)
    one, other = frames.open_frame(members), frames.open_frame(controls)
    if one.implementation != other.implementation:
        kinds_named = " and ".join(frame.implementation.name.lower() for frame in (one, other))
        raise DataError(f"Members and controls are tables of {kinds_named}: convert one of them.")
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
    """Return the position of a feature that is given by name or position."""
    names = rows.names
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, numbers.Integral) and not isinstance(feature, bool) and -len(names) <= feature < len(names):
        return int(feature) % len(names)
    raise ShoalError(
        f"There is no feature {feature!r}: choose {', '.join(names[:12])}, or a position below {len(names)}."
    )


def merge(members: ModelRows, controls: ModelRows, column: int) -> Factor:
    """Return a column of members and of controls as one."""
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
    """Return for each value and table a row with this value, from the other table if this one has no such row."""
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
    """A model that answers for whole tables; its answers are checked and, if they are classes, numbered."""

    def __init__(self, model: Any) -> None:
        if not hasattr(model, "predict"):
            raise ShoalError(f"The model is a {type(model).__name__}, which has no predict: pass a trained model.")
        self.model = model
        self._asked = quick(model)
        self.gives_numbers: bool | None = None
        self._numbers: dict[Any, int] = {}

    @property
    def n_classes(self) -> int:
        """Number of classes that have been seen so far."""
        return len(self._numbers)

    def answers(self, rows: Any) -> np.ndarray:
        """Return the answers of the model: numbers, or the codes of classes."""
        said = call_model(self._asked, "predict", rows)
        said = said[:, 0] if said.ndim == 2 and said.shape[1] == 1 else said
        if said.ndim != 1:
            raise ShoalError(f"The model answers {said.shape[1:]} numbers per row: attack one with a single answer.")
        said = require_present(said, "The model answers nothing (NaN)")
        if self.gives_numbers is None:
            classes = any(hasattr(self.model, name) for name in ("classes_", "predict_proba"))
            self.gives_numbers = said.dtype.kind == "f" and not classes
        return said.astype(float) if self.gives_numbers else self.code(said)

    def probabilities(self, rows: Any) -> np.ndarray:
        """Return the probabilities of the model (n, classes)."""
        return probabilities_of(self._asked, rows)

    def code(self, classes: np.ndarray) -> np.ndarray:
        """Return the numbers of classes, in the order in which they are first seen."""
        distinct, codes = np.unique(classes, return_inverse=True)
        numbers = [self._numbers.setdefault(one, len(self._numbers)) for one in distinct.tolist()]
        return np.array(numbers, np.intp)[codes.reshape(-1)]


def read_labels(y: Any, n_rows: int, who: str) -> np.ndarray | None:
    """Return the true labels, one per row and without missing ones; None for None."""
    if y is None:
        return None
    if frames.is_frame(y):
        opened = frames.open_frame(y)
        y = opened[opened.columns[0]].to_numpy() if len(opened.columns) == 1 else opened.to_numpy()
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise DataError(f"y_{who} has the shape {labels.shape}, but there are {n_rows:,} {who}: pass one per row.")
    return require_present(labels, f"y_{who} is missing")


def require_numbers(labels: np.ndarray) -> np.ndarray:
    """Return the labels of a model that answers numbers as numbers."""
    if labels.dtype.kind not in "biuf":
        raise DataError(f"The model answers numbers, but y_members holds {labels[0]!r}: pass numbers.")
    return labels.astype(float)


def require_present(values: np.ndarray, what: str) -> np.ndarray:
    """Return the values if none of them is missing, with objects as texts."""
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
        raise DataError(f"{what} in {int(missing.sum()):,} rows, the first is row {row:,}: leave them out.")
    return values


def try_values(
    function: Callable[[Any], np.ndarray], parts: Sequence[ModelRows], column: int, donors: Sequence[Sequence[Donor]]
) -> np.ndarray:
    """Return a function of each row with each value (n, values), by one call per table and value."""
    said = []
    for for_parts in donors:
        tried = [part.filled(column, *donor) for part, donor in zip(parts, for_parts, strict=True)]
        said.append(np.concatenate([function(rows) for rows in tried]))
    return np.column_stack(said)


def _same(said: np.ndarray, known: np.ndarray) -> np.ndarray:
    return np.isclose(said, known, rtol=CLOSE, atol=0.0) if said.dtype.kind == "f" else said == known
