"""A released table beside the people it may be about: what each released cell contains, whatever it is written as."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal import frames
from shoal._kernels import groups
from shoal._kernels.matching import Ends, Runs, count_matches
from shoal.errors import DataError
from shoal.notation import plain_text, positions_of
from shoal.schema import Attribute, Schema, require_schema
from shoal.table import MISSING_LABEL, TOP, Column, encode_column

_DASH = re.compile(r"(-?\d+(?:\.\d+)?)\s*[-–]\s*(-?\d+(?:\.\d+)?)")
_BRACKETS = re.compile(r"[\[(\]].*, .*[\])\[]")
FEWEST_ROWS = 20
"""Of fewer people nothing can be said with confidence."""
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
        """How many codes each cell contains."""
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
    """Where each code lies on a line, NaN for names; the last code is that of the missing value."""
    cells: Cells

    @property
    def n_codes(self) -> int:
        """Number of codes, that of the missing value included."""
        return len(self.place)

    @property
    def on_line(self) -> bool:
        """Whether values have places, and cells have ends."""
        return self.kind != "nominal"

    @cached_property
    def everything(self) -> np.ndarray:
        """Which cells contain every value: they are suppressed."""
        return np.asarray(self.cells.n_values == self.n_codes)

    @cached_property
    def middle(self) -> np.ndarray:
        """The middle of each cell; NaN where it has no ends."""
        has_ends = np.isfinite(self.cells.low) & np.isfinite(self.cells.high)
        return np.add(self.cells.low, self.cells.high, out=np.full(len(has_ends), np.nan), where=has_ends) / 2

    @cached_property
    def width(self) -> float:
        """From the lowest place to the highest one, of people and of the release."""
        every = np.concatenate([self.place, self.cells.low, self.cells.high])
        every = every[np.isfinite(every)]
        return float(every.max() - every.min()) if len(every) else 0.0

    @cached_property
    def share(self) -> np.ndarray:
        """Which part of the values each cell contains, from 0 for one value to 1 for all."""
        if not self.on_line:
            return (self.cells.n_values - 1).clip(0) / max(self.n_codes - 1, 1)
        ends = np.nan_to_num(self.cells.high - self.cells.low, posinf=np.inf)
        return np.where(self.everything, 1.0, np.minimum(ends / (self.width or 1.0), 1.0))


def open_tables(
    original: Any,
    released: Any,
    control: Any,
    schema: Schema | None,
    names: Sequence[str] | None = None,
    *,
    fewest: int = FEWEST_ROWS,
    control_needed: bool = True,
) -> tuple[Compared, ...]:
    """Read the columns named (by default all that the tables share, identifiers apart), or say why they are no use."""
    if schema is not None:
        require_schema(schema)
    if control is None and control_needed:
        raise DataError("A control is needed: pass a table of people who are not in the release.")
    tables = {"original table": original, "release": released, "control": control}
    opened = {name: frames.open_frame(table) for name, table in tables.items() if table is not None}
    for name, frame in opened.items():
        least = 1 if name == "release" else fewest
        if len(frame) < least:
            raise DataError(f"The {name} has {len(frame)} rows, which is too few to judge by: pass {least} or more.")
    columns = read_columns(*opened.values(), names=_require_names(opened, schema, names), schema=schema)
    if all(column.everything[column.released].all() for column in columns):
        raise DataError("Every value of the release is suppressed, so nothing can be attacked: pass another release.")
    if control is not None and _are_same(stack_codes(columns), stack_codes(columns, "control")):
        raise DataError("The control holds the rows of the original table: pass people who are not in the release.")
    return columns


def _require_names(
    opened: Mapping[str, nw.DataFrame[Any]], schema: Schema | None, names: Sequence[str] | None
) -> list[str]:
    if names is None:
        left_out = set() if schema is None else {attribute.name for attribute in schema.identifiers}
        first, *others = (frame.columns for frame in opened.values())
        names = [name for name in first if name not in left_out and all(name in other for other in others)]
        if not names:
            raise DataError("The tables have no column in common: rename the columns of one of them.")
    for table, frame in opened.items():
        for name in names:
            if name not in frame.columns:
                raise DataError(f"The {table} has no column {name!r}: choose among {', '.join(frame.columns[:12])}.")
    return list(names)


def _are_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two tables hold the same rows; of a few distinct rows two samples may well hold the same number each."""
    if one.shape != other.shape:
        return False
    _, sizes, labels = distinct(np.concatenate([one, other]))
    mine = np.bincount(labels[: len(one)], minlength=len(sizes))
    return np.array_equal(one, other) or bool(len(sizes) >= FEWEST_ROWS and (2 * mine == sizes).all())


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
        attribute = attribute_of(original[name], schema)
        other = None if control is None else control[name]
        known = encode_column(original[name], attribute)
        if attribute.kind == "nominal":
            return _read_names(known, other, released[name])
        return _read_line(known, other, released[name])

    return tuple(read(name) for name in names)


def attribute_of(series: nw.Series[Any], schema: Schema | None) -> Attribute:
    """What the schema says of a column; without one numbers and dates lie on a line, and all else are names."""
    if schema is not None and series.name in schema:
        return schema[series.name]
    on_line = frames.content_of(series) in ("number", "date")
    return Attribute(series.name, kind="numeric" if on_line else "nominal")


def stack_codes(columns: Sequence[Compared], table: str = "original") -> np.ndarray:
    """Codes of people side by side."""
    return np.column_stack([getattr(column, table) for column in columns]).astype(np.int64)


def stack_cells(columns: Sequence[Compared]) -> np.ndarray:
    """The released rows as cells, numbered over all columns."""
    starts = _starts([len(column.cells.low) for column in columns])
    return np.column_stack([column.released + start for column, start in zip(columns, starts, strict=False)])


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct rows of a matrix, how many rows each stands for, and which of them each row is."""
    labels, first = groups.group_rows(rows)
    return rows[first], np.bincount(labels, minlength=len(first)), labels


def runs_of(columns: Sequence[Compared]) -> Runs:
    """What the cells of all columns contain."""
    every = [column.cells for column in columns]
    return stack_runs([(cells.at, cells.first, cells.last) for cells in every], [c.n_codes for c in columns])


def stack_runs(lists: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], n_codes: Sequence[int]) -> Runs:
    """Lists of runs (where those of each cell begin, first codes, last codes), a list a column, as one."""
    starts = _starts([len(first) for _, first, _ in lists])
    at = [at[:-1] + start for (at, _, _), start in zip(lists, starts, strict=False)]
    first, last = (np.concatenate([one[i] for one in lists]).astype(np.int64) for i in (1, 2))
    return Runs(np.concatenate([*at, starts[-1:]]).astype(np.int64), first, last, np.array(n_codes, np.int64))


def ends_of(columns: Sequence[Compared]) -> Ends:
    """Where the cells of all columns lie."""
    return Ends(
        cell_at=_starts([len(column.cells.low) for column in columns]),
        code_at=_starts([column.n_codes for column in columns]),
        place=np.concatenate([column.place for column in columns]),
        low=np.concatenate([column.cells.low for column in columns]),
        high=np.concatenate([column.cells.high for column in columns]),
        share=np.concatenate([column.share for column in columns]),
        scale=np.array([1.0 / column.width if column.width > 0 else 0.0 for column in columns]),
    )


def _starts(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


# Numbers, dates and ordinal values: a cell is a range of places.


def _read_line(known: Column, control: nw.Series[Any] | None, released: nw.Series[Any]) -> Compared:
    mine = known.positions[known.codes]
    theirs = np.empty(0) if control is None else _places(known, control)
    every = np.concatenate([mine, theirs])
    places = np.unique(every[~np.isnan(every)])

    def code(of: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(of), len(places), np.searchsorted(places, of))

    factor = frames.factorize(released)
    low, high = _line_ends(known, factor)
    numbers = np.where(factor.codes < 0, len(low) - 1, factor.codes.astype(np.int64))
    first, last = np.searchsorted(places, low), np.searchsorted(places, high, side="right") - 1
    everything = np.isneginf(low) & np.isposinf(high)
    missing = np.isnan(low)
    first, last = np.where(everything, 0, first), np.where(everything, len(places), last)
    first, last = np.where(missing, len(places), first), np.where(missing, len(places), last)
    kept = first <= last
    cells = Cells(np.concatenate([[0], np.cumsum(kept)]), first[kept], last[kept], low, high)
    others = None if control is None else code(theirs)
    place = np.append(places, np.nan)
    kind = "date" if known.content == "date" and known.attribute.kind == "numeric" else known.attribute.kind
    return Compared(known.name, kind, code(mine), others, numbers, place, cells)


def _places(known: Column, series: nw.Series[Any]) -> np.ndarray:
    """Where other rows lie on the line of a column; NaN if they are missing."""
    if known.attribute.kind == "numeric":
        other = encode_column(series, replace(known.attribute, hierarchy=None))
        if other.content != known.content and other.n_present and known.n_present:
            raise DataError(
                f"Column {known.name!r} holds {known.content}s in the original table and {other.content}s in the "
                "control: convert one of them."
            )
        return other.positions[other.codes]
    factor = frames.factorize(series)
    place_of = _place_reader(known)
    texts = [plain_text(value, factor.content) for value in factor.values]
    places = np.array([*(place_of(text) for text in texts), np.nan], float)
    unknown = np.flatnonzero(np.isnan(places[:-1]))
    if len(unknown):
        raise DataError(
            f"The control holds {texts[unknown[0]]!r} in the ordinal column {known.name!r}, which has no place in its "
            "order: add it to the order."
        )
    return places[factor.codes]


def _line_ends(known: Column, factor: frames.Factor) -> tuple[np.ndarray, np.ndarray]:
    """Ends of each distinct released value, and of the missing one as the last."""
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
    """A function from a released text to its ends."""
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
                f"The release holds {text!r} in the {known.attribute.kind} column {known.name!r}, which is no value, "
                "no range and no node of its hierarchy: pass the schema that the table was released with."
            )
        return ends

    return read


def _place_reader(known: Column) -> Callable[[str], float]:
    """A function from the text of a single value to its place; NaN if it is none."""
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
    """The ends of '[a, b]'; a round or a turned bracket leaves its end out."""
    if not _BRACKETS.fullmatch(text):
        return None
    parts = text[1:-1].split(", ")
    for i in range(1, len(parts)):  # names of ordinal values may hold a comma
        low, high = place_of(", ".join(parts[:i])), place_of(", ".join(parts[i:]))
        if low <= high:
            low = low if text[0] == "[" else float(np.nextafter(low, np.inf))
            return low, high if text[-1] == "]" else float(np.nextafter(high, -np.inf))
    return None


def _dashed(text: str, known: Column) -> tuple[float, float] | None:
    """The ends of '20-29', as a range of whole numbers is often written."""
    found = _DASH.fullmatch(text) if known.content == "number" else None
    return (float(found[1]), float(found[2])) if found and float(found[1]) <= float(found[2]) else None


# Names: a cell is a set of them.


def _read_names(known: Column, control: nw.Series[Any] | None, released: nw.Series[Any]) -> Compared:
    code_of = {str(known.text(code)): code for code in range(known.n_present)}
    other = None if control is None else frames.factorize(control)
    texts = [] if other is None else [plain_text(value, other.content) for value in other.values]
    # Names that the original table lacks are in no released cell but those of everything.
    codes = {**code_of, **{text: len(code_of) + i for i, text in enumerate(t for t in texts if t not in code_of)}}
    missing = len(codes)
    mine = np.where(known.codes == known.missing, missing, known.codes.astype(np.int64))
    theirs = None if other is None else np.array([*(codes[text] for text in texts), missing])[other.codes]
    factor = frames.factorize(released)
    read = _name_reader(known, codes, missing)
    runs = [read(plain_text(value, factor.content)) for value in factor.values]
    runs.append(_null(known, [(missing, missing)], [(0, missing)]))
    numbers = np.where(factor.codes < 0, len(runs) - 1, factor.codes.astype(np.int64))
    flat = np.array([run for cell in runs for run in cell], np.int64).reshape(-1, 2)
    nowhere = np.full(len(runs), np.nan)
    cells = Cells(_starts([len(cell) for cell in runs]), flat[:, 0], flat[:, 1], nowhere, nowhere)
    return Compared(known.name, "nominal", mine, theirs, numbers, np.full(missing + 1, np.nan), cells)


def _name_reader(known: Column, code_of: Mapping[str, int], missing: int) -> Callable[[str], list[tuple[int, int]]]:
    """A function from a released text to the runs of codes that it contains."""
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
                f"The release holds {text!r} in column {known.name!r}, which is no value of the people, no set of such "
                "values and no node of a hierarchy: pass the schema that the table was released with, or one with a "
                "hierarchy that lists it."
            )
        return _runs_of_codes(sorted(found))

    return read


def _members(text: str, code_of: Mapping[str, int], most_parts: int) -> set[int] | None:
    """The codes in '{a, b}'; names may hold commas themselves, and the longest name that fits is taken."""
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
    """First and last code of each node of the column's hierarchy that is neither a value nor the root."""
    tree = known.tree
    if tree is None:
        return {}
    inner = reversed(range(tree.n_leaves, tree.root))  # a label is that of its lowest node
    return {tree.labels[node]: (int(tree.first[node]), int(tree.last[node])) for node in inner}


def _null(known: Column, missing: Any, everything: Any) -> Any:
    """What a released cell without a value contains: a column that had none missing was suppressed there."""
    return missing if known.missing >= 0 else everything


# Predicates: 6 × cell + operator in some columns, -1 in all others, such as age >= 60 and town in {Graz, Leoben}.

OPERATORS = EQ, NE, GT, LT, GE, LE = range(6)
BATCH = 2048
"""Predicates that are tried at a time."""
ATTEMPTS = 500
"""Predicates that are tried for each that is wanted."""
FIRST_LOOK = 1000
"""Rows on which predicates are tried first."""


def draw_predicates(
    columns: Sequence[Compared], wanted: int, n_columns: int, random: np.random.Generator
) -> np.ndarray:
    """Different predicates that hold for one released row each, made from rows and columns drawn at random."""
    rows = np.column_stack([column.released for column in columns])
    outward = np.column_stack([_outward(column)[column.released] for column in columns])
    _, sizes, labels = distinct(rows)
    # What is made from one of several equal rows holds for all of them.
    alone = np.flatnonzero(sizes[labels] == 1)
    made = np.empty((0, len(columns)), np.int64)
    for _ in range(0, ATTEMPTS * wanted if len(alone) else 0, BATCH):
        drawn = random.choice(alone, BATCH)
        tried = _leave_out(6 * rows[drawn] + outward[drawn], n_columns, random)
        made = _add_unique(columns, made, tried, rows)
        if len(made) >= wanted:
            break
    return made[:wanted]


def rare_predicates(columns: Sequence[Compared], wanted: int, random: np.random.Generator) -> np.ndarray:
    """Predicates on one column that hold for one released row each: values that occur once, and the ends of lines."""
    rows = np.column_stack([column.released for column in columns])
    tried = np.empty((0, len(columns)), np.int64)
    for j, column in enumerate(columns):
        here, counts = np.unique(column.released, return_counts=True)
        low, high = column.cells.low[here], column.cells.high[here]
        lowest, highest = high == np.nanmin(high, initial=np.inf), low == np.nanmax(low, initial=-np.inf)
        codes = np.concatenate([6 * here[counts == 1] + EQ, 6 * here[lowest] + LE, 6 * here[highest] + GE])
        tried = np.concatenate([tried, np.full((len(codes), len(columns)), -1)])
        tried[len(tried) - len(codes) :, j] = codes
    tried = random.permutation(tried)
    made = tried[:0]
    for start in range(0, len(tried), BATCH):
        made = _add_unique(columns, made, tried[start : start + BATCH], rows)
        if len(made) >= wanted:
            break
    return made[:wanted]


def random_predicates(
    columns: Sequence[Compared], wanted: int, n_columns: int, random: np.random.Generator
) -> np.ndarray:
    """Cells, operators and columns drawn at random."""
    drawn = [
        6 * random.choice(np.unique(column.released), wanted)
        + random.integers(0, len(OPERATORS) if column.on_line else 2, wanted)
        for column in columns
    ]
    return _leave_out(np.column_stack(drawn), n_columns, random)


def _leave_out(predicates: np.ndarray, n_columns: int, random: np.random.Generator) -> np.ndarray:
    order = np.argsort(random.random(predicates.shape), axis=1)
    return np.where(np.argsort(order, axis=1) < n_columns, predicates, -1)


def _outward(column: Compared) -> np.ndarray:
    """The operator of each cell: of values above the median few are as high, of others few as low."""
    of_rows = column.middle[column.released]
    if np.isnan(of_rows).all():
        return np.full(len(column.middle), EQ)
    above = column.middle > np.nanmedian(of_rows)
    return np.where(np.isnan(column.middle), EQ, np.where(above, GE, LE))


def _add_unique(columns: Sequence[Compared], made: np.ndarray, tried: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Add those predicates that hold for one released row, each once."""
    few = np.ascontiguousarray(rows[:: len(rows) // FIRST_LOOK + 1])
    for some in (few, rows):  # a few rows already rule out most predicates
        tried = tried[count_singled(columns, tried, some, cells=True)[0] <= 1]
    every = np.concatenate([made, tried])
    return every[np.sort(np.unique(every, axis=0, return_index=True)[1])]


def count_singled(
    columns: Sequence[Compared], predicates: np.ndarray, points: np.ndarray, *, cells: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """How many rows fulfil each predicate, and one of them.

    Parameters
    ----------
    columns : sequence of Compared
    predicates : int array (p, q)
    points : int array (n, q)
        Rows as codes; or as cells of the release, which fulfil what all of their values do.
    """
    lists, numbers = [], np.empty(predicates.shape, np.int64)
    n_cells = 0
    for j, column in enumerate(columns):
        used, numbers[:, j] = np.unique(predicates[:, j], return_inverse=True)
        holds = (_holds_for_cells if cells else _holds_for_codes)(column, used.clip(0) // 6, used % 6)
        holds[used < 0] = True
        lists.append(_runs_of_masks(holds))
        numbers[:, j] += n_cells
        n_cells += len(used)
    rows, weights, labels = distinct(points)
    runs = stack_runs(lists, [len(column.cells.low) if cells else column.n_codes for column in columns])
    _, fitting, some = count_matches(rows, weights, numbers, np.ones(len(numbers), np.int64), runs)
    first = np.empty(len(rows), np.int64)
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    return fitting, first[some]


def _holds_for_codes(column: Compared, cells: np.ndarray, operators: np.ndarray) -> np.ndarray:
    """Which values fulfil a predicate: a mask over codes for each; no order holds for names or missing values."""
    inside = np.zeros((len(cells), column.n_codes + 1), np.int8)
    at, first, last = column.cells[:3]
    lengths = at[cells + 1] - at[cells]
    owner = np.repeat(np.arange(len(cells)), lengths)
    run = np.arange(len(owner)) + np.repeat(at[cells] - np.cumsum(lengths) + lengths, lengths)
    # Runs of a cell neither touch nor overlap.
    inside[owner, first[run]], inside[owner, last[run] + 1] = 1, -1
    member = np.cumsum(inside, axis=1, dtype=np.int8)[:, :-1] > 0
    present = np.arange(column.n_codes) < column.n_codes - 1
    low, high = column.cells.low[cells, None], column.cells.high[cells, None]
    by_operator = {
        NE: ~member & present,
        GT: column.place > high,
        LT: column.place < low,
        GE: column.place >= low,
        LE: column.place <= high,
    }
    for operator, mask in by_operator.items():
        member = np.where((operators == operator)[:, None], mask, member)
    return member


def _holds_for_cells(column: Compared, cells: np.ndarray, operators: np.ndarray) -> np.ndarray:
    """Which released cells surely fulfil a predicate of equality or order: a mask over cells for each."""
    every = column.cells
    if column.on_line:
        above, below = every.low >= every.low[cells, None], every.high <= every.high[cells, None]
        missing = np.isnan(every.low) & np.isnan(every.low[cells, None])
        holds = np.where((operators == GE)[:, None], above, np.where((operators == LE)[:, None], below, above & below))
        return np.asarray(holds | missing)
    member = _holds_for_codes(column, cells, np.full(len(cells), EQ))
    below = _summed(member)
    within = _summed(below[:, every.last + 1] - below[:, every.first])
    return np.asarray(within[:, every.at[1:]] - within[:, every.at[:-1]] == every.n_values)


def _summed(rows: np.ndarray) -> np.ndarray:
    """Sums of all that is left of each column, and of all columns as the last."""
    return np.pad(np.cumsum(rows, axis=1, dtype=np.int64), ((0, 0), (1, 0)))


def _runs_of_masks(masks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Masks as lists of runs."""
    edged = np.zeros((len(masks), masks.shape[1] + 2), np.int8)
    edged[:, 1:-1] = masks
    steps = np.diff(edged, axis=1)
    owner, first = np.nonzero(steps == 1)
    last = np.nonzero(steps == -1)[1] - 1
    return _starts(np.bincount(owner, minlength=len(masks)).tolist()), first, last
