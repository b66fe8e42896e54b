"""Columns of a released table as cells, each with the values of people that it contains."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal.data import frames
from shoal.data.schema import Attribute, Schema
from shoal.data.table import MISSING_LABEL, TOP, Column, encode_column
from shoal.data.value_text import plain_text, positions_of
from shoal.errors import DataError

_DASH = re.compile(r"(-?\d+(?:\.\d+)?)\s*[-–]\s*(-?\d+(?:\.\d+)?)")
_BRACKETS = re.compile(r"[\[(\]].*, .*[\])\[]")
EVERYTHING = -np.inf, np.inf
MISSING = np.nan, np.nan


class Cells(NamedTuple):
    """The distinct cells of a released column."""

    at: np.ndarray
    """The runs of cell c are ``at[c]`` to ``at[c + 1]``."""
    first: np.ndarray
    last: np.ndarray
    low: np.ndarray
    high: np.ndarray
    """Ends on the line of a numeric or ordinal column; NaN for names and for the missing value."""

    @property
    def n_values(self) -> np.ndarray:
        """Number of codes in each cell."""
        ends = np.concatenate([[0], np.cumsum(self.last - self.first + 1)])
        return ends[self.at[1:]] - ends[self.at[:-1]]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Compared:
    """One column of all tables: people as codes, the release as cells that contain codes."""

    name: str
    kind: str
    """``"nominal"``, ``"ordinal"``, ``"numeric"`` or ``"date"``."""
    original: np.ndarray
    control: np.ndarray | None
    released: np.ndarray
    """The cell of each released row."""
    place: np.ndarray
    """Position of each code on a line, NaN for names; the last code is that of the missing value."""
    cells: Cells

    @property
    def n_codes(self) -> int:
        """Number of codes, that of the missing value included."""
        return len(self.place)

    @property
    def on_line(self) -> bool:
        """True if values have positions and cells have ends."""
        return self.kind != "nominal"

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of released rows with each cell."""
        return np.bincount(self.released, minlength=len(self.cells.low))

    @cached_property
    def everything(self) -> np.ndarray:
        """True for cells that contain every value: they are suppressed."""
        return np.asarray(self.cells.n_values == self.n_codes)

    @cached_property
    def middle(self) -> np.ndarray:
        """The middle of each cell; NaN where it has no ends."""
        has_ends = np.isfinite(self.cells.low) & np.isfinite(self.cells.high)
        return np.add(self.cells.low, self.cells.high, out=np.full(len(has_ends), np.nan), where=has_ends) / 2

    @cached_property
    def width(self) -> float:
        """Distance from the lowest position to the highest one, of people and of the release."""
        every = np.concatenate([self.place, self.cells.low, self.cells.high])
        every = every[np.isfinite(every)]
        return float(every.max() - every.min()) if len(every) else 0.0

    @cached_property
    def share(self) -> np.ndarray:
        """Share of the values that each cell contains, from 0 for one value to 1 for all."""
        if not self.on_line:
            return (self.cells.n_values - 1).clip(0) / max(self.n_codes - 1, 1)
        ends = np.nan_to_num(self.cells.high - self.cells.low, posinf=np.inf)
        return np.where(self.everything, 1.0, np.minimum(ends / (self.width or 1.0), 1.0))


def read_columns(
    original: nw.DataFrame[Any],
    released: nw.DataFrame[Any],
    control: nw.DataFrame[Any] | None = None,
    *,
    names: Sequence[str],
    schema: Schema | None,
) -> tuple[Compared, ...]:
    """Read these columns of all tables."""

    def read(name: str) -> Compared:
        # Not original[name], which takes twice as long to interpret its argument.
        series = original.get_column(name)
        attribute = attribute_of(series, schema)
        other = None if control is None else control.get_column(name)
        known = encode_column(series, attribute)
        if attribute.kind == "nominal":
            return _read_names(known, other, released.get_column(name))
        return _read_line(known, other, released.get_column(name))

    return tuple(read(name) for name in names)


def attribute_of(series: nw.Series[Any], schema: Schema | None) -> Attribute:
    """Return the attribute of a column; without a schema numbers and dates lie on a line, and all else is nominal."""
    if schema is not None and series.name in schema:
        return schema[series.name]
    on_line = frames.content_of(series) in ("number", "date")
    return Attribute(series.name, kind="numeric" if on_line else "nominal")


def starts_of(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return where each of consecutive runs of these lengths starts, and where the last one ends."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


# Numbers, dates and ordinal values: a cell is a range of places.


def _read_line(known: Column, control: nw.Series[Any] | None, released: nw.Series[Any]) -> Compared:
    # Only distinct values are sorted, and rows looked up: sorting all rows took a third of the time.
    in_use = np.bincount(known.codes, minlength=known.n_values) > 0
    rows, theirs = (np.empty(0, np.int64), np.empty(0)) if control is None else _places(known, control)
    every = np.concatenate([known.positions[in_use], theirs])
    places = np.unique(every[~np.isnan(every)])

    def code(of: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(of), len(places), np.searchsorted(places, of))

    factor = frames.factorize(released)
    low, high = _line_ends(known, factor)
    numbers = _number_missing(factor.codes, len(low) - 1)
    first, last = np.searchsorted(places, low), np.searchsorted(places, high, side="right") - 1
    everything = np.isneginf(low) & np.isposinf(high)
    missing = np.isnan(low)
    first, last = np.where(everything, 0, first), np.where(everything, len(places), last)
    first, last = np.where(missing, len(places), first), np.where(missing, len(places), last)
    kept = first <= last
    cells = Cells(np.concatenate([[0], np.cumsum(kept)]), first[kept], last[kept], low, high)
    mine, others = code(known.positions).take(known.codes), None if control is None else code(theirs).take(rows)
    place = np.append(places, np.nan)
    kind = "date" if known.content == "date" and known.attribute.kind == "numeric" else known.attribute.kind
    return Compared(known.name, kind, mine, others, numbers, place, cells)


def _places(known: Column, series: nw.Series[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of other rows and the position of each code on the line of a column, NaN if missing."""
    if known.attribute.kind == "numeric":
        other = encode_column(series, replace(known.attribute, hierarchy=None))
        if other.content != known.content and other.n_present and known.n_present:
            raise DataError(
                f"Column {known.name!r} holds {known.content}s in the original table and {other.content}s in the "
                "control: convert one of them."
            )
        return other.codes, other.positions
    factor = frames.factorize(series)
    place_of = _place_reader(known)
    texts = [plain_text(value, factor.content) for value in factor.values]
    places = np.array([*(place_of(text) for text in texts), np.nan], float)
    unknown = np.flatnonzero(np.isnan(places[:-1]))
    if len(unknown):
        raise DataError(
            f"The control holds {texts[unknown[0]]!r} in the ordinal column {known.name!r}, which is not in its "
            "order: add it."
        )
    return factor.codes, places  # a missing value has the code -1 and the last position


def _line_ends(known: Column, factor: frames.Factor) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of each distinct released value, and those of the missing value as the last ones."""
    null = _null(known, MISSING, EVERYTHING)
    if factor.content != "text" and known.attribute.kind == "numeric":
        if (factor.content == "date") != (known.content == "date") and len(factor.values) and known.n_present:
            raise DataError(
                f"Column {known.name!r} holds {known.content}s in the original table and {factor.content}s in the "
                "release: convert one of them."
            )
        values = factor.values.astype(np.uint8) if factor.content == "boolean" else factor.values
        places = positions_of(values, known.name)
        return np.append(places, null[0]), np.append(places, null[1])
    read = _line_reader(known)
    ends = np.array([*(read(plain_text(value, factor.content)) for value in factor.values), null])
    return ends[:, 0], ends[:, 1]


def _line_reader(known: Column) -> Callable[[str], tuple[float, float]]:
    """Return a function from a released text to its ends."""
    place_of, nodes = _place_reader(known), _inner_nodes(known)
    leaves = set() if known.tree is None else set(known.tree.values)

    def read(text: str) -> tuple[float, float]:
        if text == TOP or (known.tree is not None and text == known.tree.labels[-1]):
            return EVERYTHING
        if text in nodes and text not in leaves:
            first, last = nodes[text]
            return float(known.positions[first]), float(known.positions[last])
        place = place_of(text)
        if not np.isnan(place):
            return place, place
        ends = _bracketed(text, place_of) or _dashed(text, known)
        if ends is None:
            raise DataError(
                f"The release holds {text!r} in the {known.attribute.kind} column {known.name!r}, which is neither a "
                "value nor a range nor a node of its hierarchy: pass the schema that the table was released with."
            )
        return ends

    return read


def _place_reader(known: Column) -> Callable[[str], float]:
    """Return a function from the text of a single value to its position, NaN for other texts."""
    if known.attribute.kind == "ordinal":
        places = {known.text(code): float(known.positions[code]) for code in range(known.n_present)}
        return lambda text: places.get(text, np.nan)

    def read(text: str) -> float:
        try:
            if known.content == "date":
                return float(positions_of(np.array([text], "datetime64[us]"), known.name)[0])
            number = np.nan if "_" in text else float(text)
        except (ValueError, DataError):
            return np.nan
        return number if np.isfinite(number) else np.nan

    return read


def _bracketed(text: str, place_of: Callable[[str], float]) -> tuple[float, float] | None:
    """Return the ends of '[a, b]'; a round or a turned bracket excludes its end."""
    if not _BRACKETS.fullmatch(text):
        return None
    parts = text[1:-1].split(", ")
    for i in range(1, len(parts)):  # names of ordinal values may contain a comma
        low, high = place_of(", ".join(parts[:i])), place_of(", ".join(parts[i:]))
        if low <= high:
            low = low if text[0] == "[" else float(np.nextafter(low, np.inf))
            return low, high if text[-1] == "]" else float(np.nextafter(high, -np.inf))
    return None


def _dashed(text: str, known: Column) -> tuple[float, float] | None:
    """Return the ends of '20-29', a common notation for ranges of whole numbers."""
    found = _DASH.fullmatch(text) if known.content == "number" else None
    return (float(found[1]), float(found[2])) if found and float(found[1]) <= float(found[2]) else None


def _number_missing(codes: np.ndarray, number: int) -> np.ndarray:
    """Replace the code -1 by a number."""
    numbers = codes.astype(np.int64)
    if numbers.min(initial=0) < 0:
        numbers[numbers < 0] = number
    return numbers


# Names: a cell is a set of them.


def _read_names(known: Column, control: nw.Series[Any] | None, released: nw.Series[Any]) -> Compared:
    code_of = {str(known.text(code)): code for code in range(known.n_present)}
    other = None if control is None else frames.factorize(control)
    texts = [] if other is None else [plain_text(value, other.content) for value in other.values]
    # Names that the original table lacks are only in released cells that contain everything.
    codes = {**code_of, **{text: len(code_of) + i for i, text in enumerate(t for t in texts if t not in code_of)}}
    missing = len(codes)
    mine = np.append(np.arange(known.n_present), missing).take(known.codes)
    theirs = None if other is None else np.array([*(codes[text] for text in texts), missing]).take(other.codes)
    factor = frames.factorize(released)
    read = _name_reader(known, codes, missing)
    runs = [read(plain_text(value, factor.content)) for value in factor.values]
    runs.append(_null(known, [(missing, missing)], [(0, missing)]))
    numbers = _number_missing(factor.codes, len(runs) - 1)
    flat = np.array([run for cell in runs for run in cell], np.int64).reshape(-1, 2)
    nowhere = np.full(len(runs), np.nan)
    cells = Cells(starts_of([len(cell) for cell in runs]), flat[:, 0], flat[:, 1], nowhere, nowhere)
    return Compared(known.name, "nominal", mine, theirs, numbers, np.full(missing + 1, np.nan), cells)


def _name_reader(known: Column, code_of: Mapping[str, int], missing: int) -> Callable[[str], list[tuple[int, int]]]:
    """Return a function from a released text to the runs of codes that it contains."""
    nodes = _inner_nodes(known)
    members = {MISSING_LABEL: missing, **code_of}
    most_parts = 1 + max(name.count(", ") for name in members)
    root = None if known.tree is None else known.tree.labels[-1]

    def read(text: str) -> list[tuple[int, int]]:
        if text == TOP or (text == root and text not in code_of):
            return [(0, missing)]
        if text in code_of:
            return [(code_of[text], code_of[text])]
        if text in nodes:
            return [nodes[text]]
        found = _members(text, members, most_parts)
        if found is None:
            raise DataError(
                f"The release holds {text!r} in column {known.name!r}, which is neither a value of the people nor a "
                "set of such values nor a node of a hierarchy: pass the schema that the table was released with, or "
                "one with a hierarchy that lists it."
            )
        return _runs_of_codes(sorted(found))

    return read


def _members(text: str, code_of: Mapping[str, int], most_parts: int) -> set[int] | None:
    """Return the codes in '{a, b}'; names may contain commas, and the longest matching name is taken."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    parts, found = text[1:-1].split(", "), set()
    while parts:
        tried = (", ".join(parts[:n]) for n in range(min(most_parts, len(parts)), 0, -1))
        name = next((name for name in tried if name in code_of), None)
        if name is None:
            return None
        found.add(code_of[name])
        del parts[: name.count(", ") + 1]
    return found


def _runs_of_codes(codes: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for code in codes:
        if runs and runs[-1][1] == code - 1:
            runs[-1] = runs[-1][0], code
        else:
            runs.append((code, code))
    return runs


def _inner_nodes(known: Column) -> dict[str, tuple[int, int]]:
    """Return the first and last code of each node of the column's hierarchy that is neither a value nor the root."""
    tree = known.tree
    if tree is None:
        return {}
    inner = reversed(range(tree.n_leaves, tree.root))  # a label is that of its lowest node
    return {tree.labels[node]: (int(tree.first[node]), int(tree.last[node])) for node in inner}


def _null(known: Column, missing: Any, everything: Any) -> Any:
    """Return the content of a released cell without a value: in a column without missing values it was suppressed."""
    return missing if known.missing >= 0 else everything
