"""A table as arrays: every column encoded as small integers, with what the codes mean.

Codes are chosen so that everything a group needs to know about a column is its lowest and its highest code: numbers and
ordinal values are coded in their order, and nominal values in the depth-first order of their hierarchy, where each node
covers a run of codes and the common ancestor of a set is that of its two ends.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np

from shoal import frames
from shoal.errors import DataError, HierarchyError, SchemaError
from shoal.frames import Factor, smallest_unsigned
from shoal.hierarchy import Hierarchy
from shoal.schema import Attribute, Recipe, Schema

Missing = Literal["value", "error"]
MISSING_LABEL = "missing"
TOP = "*"
"""What a suppressed value, or one that could be anything, is released as."""


@dataclass(frozen=True)
class Column:
    """One encoded attribute."""

    attribute: Attribute
    codes: np.ndarray
    """Code of each row, in the smallest unsigned type."""
    values: np.ndarray
    """The original value of each code; the missing value is None and always last."""
    positions: np.ndarray
    """Where each code lies on a line: the number itself, days of a date, the rank of an ordinal or nominal value."""
    tree: Hierarchy | None
    """Hierarchy of a nominal attribute, whose leaves are the codes; flat if the attribute has none of its own."""
    missing: int
    """The code of the missing value, or -1."""
    content: str
    """What the frame held: number, boolean, date or text."""

    @property
    def name(self) -> str:
        """Name of the attribute."""
        return self.attribute.name

    @property
    def n_values(self) -> int:
        """Number of codes, the missing value included."""
        return len(self.positions)

    @property
    def n_present(self) -> int:
        """Number of codes without the missing value."""
        return self.n_values - (self.missing >= 0)

    @property
    def width(self) -> float:
        """Distance from the lowest to the highest value; 0 for a constant column."""
        if self.n_present == 0:
            return 0.0
        return float(self.positions[self.n_present - 1] - self.positions[0])

    def text(self, code: int) -> str | None:
        """A single value as it is written in a release."""
        value = self.values[code]
        return None if value is None else plain_text(value, self.content)


@dataclass(frozen=True)
class Table:
    """The encoded columns of a frame that matter to privacy."""

    columns: dict[str, Column]
    schema: Schema
    n_rows: int

    @property
    def quasi(self) -> tuple[Column, ...]:
        """Columns of the quasi-identifiers, in the order of the schema."""
        return tuple(self.columns[a.name] for a in self.schema.quasi)

    @property
    def sensitive(self) -> tuple[Column, ...]:
        """Columns of the sensitive attributes."""
        return tuple(self.columns[a.name] for a in self.schema.sensitive)

    @cached_property
    def codes(self) -> np.ndarray:
        """Codes of the quasi-identifiers as one matrix, a row a record."""
        return stack(self.quasi, self.n_rows)


def encode(frame: Any, schema: Schema, *, missing: Missing = "value", extra: Iterable[str] = ()) -> Table:
    """Encode the quasi-identifiers and sensitive attributes of a frame (and the ``extra`` columns named).

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
    schema : Schema
        Every attribute of it must be a column and every column an attribute.
    missing : {"value", "error"}
        Missing values count as a value of their own, or are refused.
    """
    if missing not in ("value", "error"):
        raise DataError(f"missing={missing!r} is unknown: choose 'value' (a value of its own) or 'error' (refuse).")
    opened = frames.open_frame(frame)
    frames.require_rows(opened)
    require_same_columns(opened.columns, schema)
    if not schema.quasi:
        raise SchemaError("The schema has no quasi-identifier: give at least one attribute the role 'quasi'.")
    wanted = [a for a in schema if a.role in ("quasi", "sensitive") or a.name in set(extra)]
    columns = {a.name: encode_column(opened[a.name], a, missing) for a in wanted}
    return Table(columns, schema, len(opened))


def encode_column(series: nw.Series[Any], attribute: Attribute, missing: Missing = "value") -> Column:
    """Encode one column by its attribute's kind."""
    factor = frames.factorize(series)
    if missing == "error" and (factor.codes < 0).any():
        row = int(np.argmax(factor.codes < 0))
        raise DataError(
            f"Attribute {attribute.name!r} has {int((factor.codes < 0).sum())} missing values, the first in row {row}: "
            "fill or drop them, or pass missing='value'."
        )
    return _ENCODERS[attribute.kind](factor, attribute)


def encode_like(series: nw.Series[Any], fitted: Column) -> np.ndarray:
    """Codes of new rows in the vocabulary of a fitted column.

    A number that was not seen takes the code of the nearest one that was; an unseen category is an error.
    """
    factor = frames.factorize(series)
    if fitted.attribute.kind == "numeric":
        positions = _as_numbers(factor, fitted.attribute)[1]
        codes = _nearest(positions, fitted.positions[: fitted.n_present])
    else:
        index = {str(value): code for code, value in enumerate(fitted.values) if value is not None}
        codes = np.array([index.get(str(value), -1) for value in factor.values], np.int64)
        if (codes < 0).any():
            value = factor.values[int(np.argmin(codes))]
            raise DataError(
                f"Attribute {fitted.name!r} has the value {value!r}, which was not there when the anonymizer was "
                "fitted: fit it again with that value, or add it to the hierarchy."
            )
    if (factor.codes < 0).any() and fitted.missing < 0:
        raise DataError(
            f"Attribute {fitted.name!r} has missing values, which were not there when the anonymizer was fitted: "
            "fill or drop them."
        )
    lookup = np.append(codes, fitted.missing)
    return lookup[factor.codes]


def require_same_columns(names: Sequence[str], schema: Schema) -> None:
    """Refuse a frame and a schema that do not speak of the same columns."""
    for name in schema.names:
        if name not in names:
            raise SchemaError(f"The schema's attribute {name!r} is not a column of the frame: remove it or rename it.")
    for name in names:
        if name not in schema:
            raise SchemaError(
                f"Column {name!r} is not in the schema: add it, with the role 'other' if it may be released as it is."
            )


def stack(columns: Sequence[Column], n_rows: int) -> np.ndarray:
    """Codes of several columns side by side, row-major, in the smallest type that holds them all."""
    dtype = smallest_unsigned(max((column.n_values for column in columns), default=1))
    codes = np.empty((n_rows, len(columns)), dtype)
    for j, column in enumerate(columns):
        codes[:, j] = column.codes
    return codes


def _encode_numeric(factor: Factor, attribute: Attribute) -> Column:
    codes, positions, values = _sorted_numbers(factor, attribute)
    content: str = factor.content
    if content == "text":
        content = "date" if values.dtype.kind == "M" else "number"
    if attribute.hierarchy is not None:
        _resolve(attribute, [plain_text(value, content) for value in values], codes)
    return _column(attribute, codes, values, positions, None, content)


def _encode_ordinal(factor: Factor, attribute: Attribute) -> Column:
    order = _order_of(attribute, factor)
    rank = {str(value): i for i, value in enumerate(order)}
    lookup = np.array([rank.get(str(value), -1) for value in factor.values] + [-1], np.int64)
    if (lookup[:-1] < 0).any():
        value = factor.values[int(np.argmin(lookup[:-1]))]
        raise SchemaError(f"The order of attribute {attribute.name!r} lacks the value {value!r}: add it to the order.")
    values = np.empty(len(order), object)
    known = {str(value): value for value in factor.values}
    values[:] = [known.get(str(value), value) for value in order]
    return _column(attribute, lookup[factor.codes], values, np.arange(len(order), dtype=float), None, factor.content)


def _encode_nominal(factor: Factor, attribute: Attribute) -> Column:
    texts = [plain_text(value, factor.content) for value in factor.values]
    has_missing = bool((factor.codes < 0).any())
    if attribute.hierarchy is not None:
        tree = _resolve(attribute, texts, factor.codes)
        tree = tree.with_missing(_unused_label(tree.labels)) if has_missing else tree
    else:
        leaves = _most_frequent_first(texts, factor.codes)
        tree = Hierarchy.flat(leaves + [_unused_label(leaves)] * has_missing, name=attribute.name)
    leaf = {value: code for code, value in enumerate(tree.values)}
    lookup = np.array([leaf[text] for text in texts] + [-1], np.int64)
    values = np.empty(tree.n_leaves - has_missing, object)
    values[:] = tree.values[: len(values)]
    values[lookup[:-1]] = factor.values
    positions = np.arange(len(values), dtype=float)
    return _column(attribute, lookup[factor.codes], values, positions, tree, factor.content)


_ENCODERS = {"numeric": _encode_numeric, "ordinal": _encode_ordinal, "nominal": _encode_nominal}


def _column(
    attribute: Attribute,
    codes: np.ndarray,
    values: np.ndarray,
    positions: np.ndarray,
    tree: Hierarchy | None,
    content: str,
) -> Column:
    """Put the missing value, if there is one, behind all others."""
    missing = -1
    if codes.dtype.kind == "i" and len(codes) and codes.min() < 0:
        missing = len(values)
        codes = np.where(codes < 0, missing, codes)
        extended = np.empty(missing + 1, object)
        extended[:missing] = values
        values = extended
        positions = np.append(positions, np.nan)
    codes = codes.astype(smallest_unsigned(len(values)), copy=False)
    return Column(attribute, codes, values, positions, tree, missing, content)


def _sorted_numbers(factor: Factor, attribute: Attribute) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes in numeric order, positions and values; texts are read as numbers, equal numbers share a code."""
    values, numbers = _as_numbers(factor, attribute)
    if factor.content != "text":
        return factor.codes, numbers, values
    positions, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    lookup = np.append(inverse.reshape(-1), -1)
    return lookup[factor.codes], positions, values[first]


def _as_numbers(factor: Factor, attribute: Attribute) -> tuple[np.ndarray, np.ndarray]:
    values = factor.values
    if factor.content == "text":
        values = _parse_texts(values, attribute)
    if values.dtype.kind == "M":
        days = values.astype("datetime64[us]").astype(np.int64) / 86_400e6
        return values, days
    if factor.content == "boolean":
        values = values.astype(np.uint8)
    numbers = values.astype(float)
    if not np.isfinite(numbers).all():
        worst = numbers[~np.isfinite(numbers)][0]
        raise DataError(
            f"Attribute {attribute.name!r} holds the value {worst}: replace it by a number or by a missing value."
        )
    return values, numbers


def _parse_texts(texts: np.ndarray, attribute: Attribute) -> np.ndarray:
    """Texts of a numeric attribute as numbers, or as dates if the first one is a date."""
    dates = len(texts) > 0 and re.match(r"\d{4}-\d{2}-\d{2}", texts[0]) is not None
    parsed = np.empty(len(texts), "datetime64[us]" if dates else float)
    for i, text in enumerate(texts):
        try:
            parsed[i] = np.datetime64(text, "us") if dates else _number(text)
        except ValueError:
            raise DataError(
                f"Attribute {attribute.name!r} is numeric but has the value {text!r}: mark it as missing, "
                "or make the attribute nominal."
            ) from None
    return parsed


def _number(text: str) -> float:
    if "_" in text:  # Python reads "1_000" as a thousand; in data it is no number
        raise ValueError
    return float(text)


def _order_of(attribute: Attribute, factor: Factor) -> Sequence[Any]:
    """The values of an ordinal attribute from lowest to highest: as given, as the hierarchy lists them, or sorted."""
    if attribute.order is not None:
        return attribute.order
    if attribute.hierarchy is not None:
        texts = [plain_text(value, factor.content) for value in factor.values]
        return _resolve(attribute, texts, factor.codes).values
    return _in_number_order(list(factor.values))


def _in_number_order(values: list[Any]) -> list[Any]:
    """Texts that are all numbers in the order of the numbers, so that "9" comes before "10"; others as they are."""
    try:
        return sorted(values, key=float)
    except (TypeError, ValueError):
        return values


def _unused_label(labels: Sequence[str]) -> str:
    label = MISSING_LABEL
    while label in labels:
        label += "_"
    return label


def _most_frequent_first(texts: list[str], codes: np.ndarray) -> list[str]:
    """Values by frequency: cuts in this order part the common values from the rest, which keeps sets small.

    On Adult (8 attributes, k = 10) Mondrian's NCP is then 0.060 instead of 0.074 in alphabetical order.
    """
    frequency = np.bincount(codes[codes >= 0], minlength=len(texts))
    return [texts[i] for i in np.lexsort((np.arange(len(texts)), -frequency))]


def _resolve(attribute: Attribute, texts: list[str], codes: np.ndarray) -> Hierarchy:
    """The attribute's hierarchy, built from the values if it is a recipe, and sure to cover them."""
    hierarchy = attribute.hierarchy
    if isinstance(hierarchy, Recipe):
        frequency = np.bincount(codes[codes >= 0], minlength=len(texts))
        try:
            return hierarchy.build(dict(zip(texts, frequency.tolist(), strict=True)))
        except HierarchyError as error:
            raise HierarchyError(f"Attribute {attribute.name!r}: {error}") from None
    assert hierarchy is not None
    hierarchy.check_covers(texts, attribute.name)
    return hierarchy


def plain_text(value: Any, content: str) -> str:
    """A value as text, the same whatever library it came from: 39.0 is "39", and reading a number back gives itself."""
    if content == "number":
        return f"{int(value)}" if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
    return _date_text(value) if content == "date" else str(value)


def _date_text(value: Any) -> str:
    moment = np.datetime64(value, "us")
    day = moment.astype("datetime64[D]")
    return str(day) if day == moment else moment.astype(dt.datetime).isoformat(sep=" ")


def _nearest(numbers: np.ndarray, sorted_positions: np.ndarray) -> np.ndarray:
    if len(sorted_positions) == 0:
        return np.zeros(len(numbers), np.int64)
    right = np.searchsorted(sorted_positions, numbers).clip(0, len(sorted_positions) - 1)
    left = (right - 1).clip(0)
    return np.where(numbers - sorted_positions[left] <= sorted_positions[right] - numbers, left, right)
