"""The values known for a table to which rows are added: the categories, and the range of numbers.

New rows are encoded as if together with all others, so that decisions about them (where to cut, how to release) do
not depend on the rest of their batch. A *key* is the position of a value, as a float: unlike a code, it does not
change when new values come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shoal.data import frames
from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.schema import Attribute, Recipe
from shoal.data.table import MISSING_LABEL, Column, Missing, encode_column, encode_like, unused_label
from shoal.data.value_text import as_objects, plain_text, positions_of
from shoal.errors import SchemaError


@dataclass(frozen=True)
class Vocabulary:
    """The encoding of each quasi-identifier that later rows must follow."""

    columns: tuple[Column, ...]
    """Columns without codes; a number without a hierarchy keeps only its lowest and highest value."""
    ranked: tuple[bool, ...]
    """True for ordinal attributes that are ordered by their values alone."""

    @classmethod
    def of(cls, columns: Sequence[Column], frame: nw.DataFrame[Any]) -> Vocabulary:
        """Return the vocabulary of quasi-identifiers that a frame and its schema were encoded to."""
        known = [only_ends(_without_codes(_with_own_tree(column, frame))) for column in columns]
        return cls(tuple(known), tuple(_is_ranked(column.attribute) for column in columns))

    def with_values(self, frame: nw.DataFrame[Any], missing: Missing) -> Vocabulary:
        """Return the vocabulary with the values of new rows, or raise one sentence about a value that does not fit."""
        columns = [
            _extended(column, frame[column.name], missing, ranked=ranked)
            for column, ranked in zip(self.columns, self.ranked, strict=True)
        ]
        return Vocabulary(tuple(columns), self.ranked)

    def encode(self, frame: nw.DataFrame[Any]) -> list[Column]:
        """Encode the quasi-identifiers of rows whose values are all known."""
        return [_encode(column, frame[column.name]) for column in self.columns]

    def key_tables(self, columns: Sequence[Column]) -> list[np.ndarray]:
        """Return the key of each code of each column, followed by the key of unseen values."""
        return [_keys(column, ranked=ranked) for column, ranked in zip(columns, self.ranked, strict=True)]

    def keys(self, frame: nw.DataFrame[Any]) -> np.ndarray:
        """Return the keys of rows whose values are all known, one column per attribute."""
        columns = self.encode(frame)
        tables = self.key_tables(columns)
        return np.column_stack([table[column.codes] for table, column in zip(tables, columns, strict=True)])


def key_tables(columns: Sequence[Column]) -> list[np.ndarray]:
    """Return the key of each code of columns that were encoded by the schema as given."""
    return [_keys(column, ranked=_is_ranked(column.attribute)) for column in columns]


def _encode(known: Column, series: nw.Series[Any]) -> Column:
    if _is_flat(known.attribute):
        return replace(known, codes=encode_like(series, known))
    column = encode_column(series, known.attribute)
    return between_ends(column, known) if _is_number(known.attribute) else column


def _extended(known: Column, series: nw.Series[Any], missing: Missing, *, ranked: bool) -> Column:
    attribute = known.attribute
    if ranked:
        attribute = replace(attribute, order=_common_order(known, series))
    column = encode_column(series, attribute, missing)
    if _is_flat(attribute):
        return _with_names(known, column)
    if _is_number(attribute):
        joined = only_ends(_without_codes(between_ends(column, known)))
        # Each batch may fit in floats when all of them together do not.
        positions_of(joined.positions, known.name)
        return joined
    return replace(known, attribute=attribute)


def _common_order(known: Column, series: nw.Series[Any]) -> tuple[str, ...]:
    """Return the values so far and the new ones in one order, which follows the values themselves."""
    factor = frames.factorize(series)
    texts = {*(known.attribute.order or ()), *(plain_text(value, factor.content) for value in factor.values)}
    numbers = {}
    for text in texts:
        try:
            numbers[text] = _number_of(text, known.content)
        except ValueError:
            raise SchemaError(
                f"Attribute {known.name!r} is ordinal, but the place of {text!r} in its order is unknown: give it an "
                "order that lists all possible values, and fit again."
            ) from None
    return tuple(sorted(texts, key=lambda text: (numbers[text], text)))


def _number_of(text: str, content: str) -> float:
    """Return the position of a value that is ordered by itself."""
    if content == "boolean":
        return float(text == "True")
    if content == "date":
        return float(positions_of(np.array([np.datetime64(text, "us")]), text)[0])
    return float(text)


def _with_names(known: Column, new: Column) -> Column:
    """Add the categories of new rows to a nominal attribute without a hierarchy."""
    texts = [known.text(code) for code in range(known.n_present)]
    seen = set(texts)
    values = list(known.values[: known.n_present])
    values += [new.values[code] for code in range(new.n_present) if new.text(code) not in seen]
    has_missing = known.missing >= 0 or new.missing >= 0
    if len(values) == known.n_present and has_missing == (known.missing >= 0):
        return known
    content = known.content if known.n_present else new.content
    names = [plain_text(value, content) for value in values]
    tree = Hierarchy.flat(names or [MISSING_LABEL], name=known.name)
    if has_missing and names:
        tree = tree.with_missing(unused_label({*tree.labels, *names}))
    shown = as_objects([*values, None] if has_missing else values)
    positions = np.append(np.arange(len(values), dtype=float), [np.nan] * has_missing)
    return replace(
        known, values=shown, positions=positions, tree=tree, missing=len(values) if has_missing else -1, content=content
    )


def between_ends(column: Column, known: Column) -> Column:
    """Extend a numeric column so that its codes begin at or below the lowest known value and end at the highest."""
    n, ends = column.n_present, known.positions[: known.n_present]
    below = int(len(ends) > 0 and (n == 0 or ends[0] < column.positions[0]))
    above = int(len(ends) > 1 and (n == 0 or ends[-1] > column.positions[n - 1]))
    pieces = (known.values[:below], column.values[:n], known.values[known.n_present - above : known.n_present])
    values = [value for piece in pieces for value in piece]
    places = [ends[:below], column.positions[:n], ends[len(ends) - above :]]
    missing = len(values) if column.missing >= 0 else -1
    codes = column.codes.astype(np.int64) + below
    if missing >= 0:
        codes[column.codes == column.missing] = missing
        values, places = [*values, None], [*places, np.array([np.nan])]
    return replace(
        column,
        codes=codes.astype(frames.smallest_unsigned(max(len(values), 1))),
        values=as_objects(values),
        positions=np.concatenate(places),
        missing=missing,
        content=column.content if n else known.content,
    )


def only_ends(column: Column) -> Column:
    """Keep only the lowest and the highest value of a number without a hierarchy."""
    if not _is_number(column.attribute):
        return column
    kept = np.unique([0, column.n_present - 1]) if column.n_present else np.empty(0, np.int64)
    return replace(column, values=as_objects(list(column.values[kept])), positions=column.positions[kept], missing=-1)


def _with_own_tree(column: Column, frame: nw.DataFrame[Any]) -> Column:
    """Store the tree that a recipe has built, or the order of the values, in the column's attribute."""
    attribute = column.attribute
    if isinstance(attribute.hierarchy, Recipe):
        tree = column.tree
        if column.missing >= 0:
            # The tree has a leaf for missing values, which encoding would add again.
            series = frame[column.name]
            there = series.filter((~frames.missing_rows(series)).tolist())
            tree = encode_column(there, attribute).tree if column.n_present else None
        return replace(column, attribute=replace(attribute, hierarchy=tree))
    if _is_ranked(attribute):
        order = tuple(str(column.text(code)) for code in range(column.n_present))
        return replace(column, attribute=replace(attribute, order=order))
    return column


def _without_codes(column: Column) -> Column:
    return replace(column, codes=column.codes[:0])


def _keys(column: Column, *, ranked: bool) -> np.ndarray:
    attribute, n = column.attribute, column.n_present
    keys = np.full(column.n_values + 1, np.inf)
    if _is_number(attribute):
        keys[:n] = column.positions[:n]
    elif ranked:
        keys[:n] = _rising([_number_of(str(column.text(code)), column.content) for code in range(n)])
    else:
        keys[:n] = np.arange(n)
    return keys


def _rising(numbers: Sequence[float]) -> np.ndarray:
    """Make keys rise strictly: "1" and "1.0" are two ordinal values, and the second takes the next float."""
    rising = np.array(numbers, float)
    for i in range(1, len(rising)):
        if rising[i] <= rising[i - 1]:
            rising[i] = np.nextafter(rising[i - 1], np.inf)
    return rising


def _is_number(attribute: Attribute) -> bool:
    return attribute.kind == "numeric" and attribute.hierarchy is None


def _is_flat(attribute: Attribute) -> bool:
    return attribute.kind == "nominal" and attribute.hierarchy is None


def _is_ranked(attribute: Attribute) -> bool:
    return attribute.kind == "ordinal" and attribute.hierarchy is None and attribute.order is None
