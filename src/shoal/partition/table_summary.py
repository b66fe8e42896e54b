"""Summary of a whole table for the release of its parts.

Ranges are measured by the width of the whole column, nominal values are numbered by their frequency in all rows, and
groups are compared with the distribution of sensitive values among all rows. With that, parts are released as the whole
table would be, except for groups that lie in two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal.data import frames
from shoal.data.schema import Attribute, Schema
from shoal.data.table import Column, Missing, Table, encode_column, encode_like, require_quasi, require_same_columns
from shoal.data.value_text import as_objects
from shoal.data.vocabulary import between_ends
from shoal.errors import DataError
from shoal.privacy.rules import truth_of


class ColumnSummary(NamedTuple):
    """The distinct values of a column of the whole table."""

    values: nw.Series[Any]
    """Every distinct value once, including the missing one; of plain numbers the lowest and the highest suffice."""
    rows: np.ndarray
    """Number of rows with each of them."""


class SpelledValues(NamedTuple):
    """Values as written in a table, which may differ from those of a vocabulary: "9" and "9.0" are one number."""

    values: list[Any]
    codes: np.ndarray


class TableSummary(NamedTuple):
    """Summary of a whole table, of which only some rows are available at a time."""

    quasi: dict[str, Column]
    sensitive: dict[str, Column]
    """Vocabularies without rows; of a plain number only the ends."""
    n_rows: int
    member_of: str | None = None
    """The column that marks the released rows, if some are not released: only their sensitive values are known."""
    spelled: Mapping[str, SpelledValues] | None = None
    """All values of quasi-identifiers that are not plain numbers; only needed to cut the table."""

    @classmethod
    def of(
        cls,
        schema: Schema,
        seen: Mapping[str, ColumnSummary],
        n_rows: int,
        missing: Missing = "value",
        member_of: str | None = None,
    ) -> TableSummary:
        """Combine the summaries of all quasi-identifiers and sensitive attributes."""
        found = {one.name: _encoded(one, seen[one.name], missing) for one in (*schema.quasi, *schema.sensitive)}
        quasi, sensitive = (
            {one.name: vocabulary(found[one.name], seen[one.name].rows) for one in some}
            for some in (schema.quasi, schema.sensitive)
        )
        spelled = {
            one.name: SpelledValues(seen[one.name].values.to_list(), found[one.name].codes)
            for one in schema.quasi
            if not is_plain_number(one)
        }
        return cls(quasi, sensitive, n_rows, member_of, spelled)

    @property
    def dates(self) -> set[str]:
        """Quasi-identifiers that are dates, in any notation."""
        return {name for name, column in self.quasi.items() if column.content == "date"}

    def encode(self, frame: nw.DataFrame[Any], schema: Schema, extra: Iterable[str] = ()) -> Table:
        """Encode some rows as part of the whole table."""
        require_quasi(schema)
        require_same_columns(frame.columns, schema)
        known = self.quasi | self.sensitive

        members = None if self.member_of is None else _members_of(frame, self.member_of)

        def encoded(name: str) -> Column:
            if members is not None and name in self.sensitive:
                # The values of other rows are not counted, and may be anything.
                codes = np.zeros(len(frame), np.int64)
                codes[members] = encode_like(frames.take(frame[name], np.flatnonzero(members)), known[name])
                return replace(known[name], codes=codes.astype(frames.smallest_unsigned(max(known[name].n_values, 1))))
            if name in known:
                return _encode_part(frame[name], known[name])
            return encode_column(frame[name], schema[name])

        names = [*known, *(name for name in extra if name not in known)]
        columns = frames.in_threads(encoded, names, len(frame))
        return Table(dict(zip(names, columns, strict=True)), schema, len(frame))


def _members_of(frame: nw.DataFrame[Any], member_of: str) -> np.ndarray:
    factor = frames.factorize(frame[member_of])
    truths = [truth_of(value, member_of) for value in factor.values]
    if (factor.codes < 0).any():
        truth_of(None, member_of)
    return np.array(truths, bool)[factor.codes]


def is_plain_number(attribute: Attribute) -> bool:
    """Return True if only the ends of an attribute must be known."""
    return attribute.kind == "numeric" and attribute.hierarchy is None


def _encoded(attribute: Attribute, seen: ColumnSummary, missing: Missing) -> Column:
    column = encode_column(seen.values, attribute, weights=seen.rows)
    if missing == "error" and column.missing >= 0:
        n = int(seen.rows[column.codes == column.missing].sum())
        raise DataError(
            f"Attribute {attribute.name!r} has {n:,} missing value{'s' * (n > 1)}: fill or drop them, or pass "
            "missing='value'."
        )
    return column


def vocabulary(column: Column, seen: np.ndarray) -> Column:
    """Return a column without rows, with the share of each value."""
    if column.attribute.role == "quasi" and is_plain_number(column.attribute):
        return _without_middle(column)
    rows = np.bincount(column.codes, seen, column.n_values)
    return replace(column, codes=column.codes[:0], shares=rows / max(rows.sum(), 1))


def _without_middle(column: Column) -> Column:
    kept = np.unique([0, column.n_present - 1]) if column.n_present else np.empty(0, np.int64)
    if column.missing >= 0:
        kept = np.append(kept, column.missing)
    missing = len(kept) - 1 if column.missing >= 0 else -1
    values = as_objects([column.values[code] for code in kept])
    return replace(column, codes=column.codes[:0], values=values, positions=column.positions[kept], missing=missing)


def _encode_part(series: nw.Series[Any], known: Column) -> Column:
    if known.shares is not None:
        codes = encode_like(series, known)
        return replace(known, codes=codes.astype(frames.smallest_unsigned(max(known.n_values, 1))))
    column = between_ends(encode_column(series, known.attribute), known)
    if known.missing < 0 or column.missing >= 0:
        return column
    n = column.n_values
    return replace(
        column,
        codes=column.codes.astype(frames.smallest_unsigned(n + 1)),
        values=as_objects([*column.values, None]),
        positions=np.append(column.positions, np.nan),
        missing=n,
    )
