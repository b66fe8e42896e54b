"""A released table and the people it may be about, read as codes and cells."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shoal._kernels import groups
from shoal._kernels import matching as kernel
from shoal._kernels.matching import Ends, Runs
from shoal.attacks._cells import Compared, read_columns, starts_of
from shoal.attacks.results import AttackResult, difference
from shoal.data import frames
from shoal.data.schema import Schema, require_schema
from shoal.errors import DataError, SchemaError
from shoal.intervals import Interval

FEWEST_ROWS = 20
"""Minimum number of people, because intervals would be too wide."""


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
    """Read the named columns, by default all that the tables share except identifiers, or refuse them."""
    if schema is not None:
        require_schema(schema)
    if control is None and control_needed:
        raise DataError("A control is needed: pass a table of people who are not in the release.")
    tables = {"original table": original, "release": released, "control": control}
    opened = {name: frames.open_frame(table) for name, table in tables.items() if table is not None}
    for name, frame in opened.items():
        least = 1 if name == "release" else fewest
        if len(frame) < least:
            raise DataError(f"The {name} has {len(frame)} rows, which are too few: pass {least} or more.")
    columns = read_columns(*opened.values(), names=_require_names(opened, schema, names), schema=schema)
    if all(column.everything[column.released].all() for column in columns):
        raise DataError("Every value of the release is suppressed, so nothing can be attacked: pass another release.")
    if control is not None and _are_same(columns):
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
        there = frame.columns
        for name in names:
            if name not in there:
                raise DataError(f"The {table} has no column {name!r}: choose among {', '.join(there[:12])}.")
    return list(names)


def _are_same(columns: Sequence[Compared]) -> bool:
    """Return True if both tables hold the same rows; two samples may share the counts of a few distinct rows."""
    if not all(map(_have_same_values, columns)):
        return False
    one, other = stack_codes(columns), stack_codes(columns, "control")
    _, sizes, labels = distinct(np.concatenate([one, other]))
    mine = np.bincount(labels[: len(one)], minlength=len(sizes))
    return np.array_equal(one, other) or bool(len(sizes) >= FEWEST_ROWS and (2 * mine == sizes).all())


def _have_same_values(column: Compared) -> bool:
    """Return True if both tables hold each value equally often: the first column already distinguishes most tables."""
    tables = codes_of([column]), codes_of([column], "control")
    mine, theirs = (np.bincount(codes, minlength=column.n_codes) for (codes,) in tables)
    return np.array_equal(mine, theirs)


def codes_of(columns: Sequence[Compared], table: str = "original") -> list[np.ndarray]:
    """Return the codes of people, column by column."""
    return [getattr(column, table) for column in columns]


def stack_codes(columns: Sequence[Compared], table: str = "original") -> np.ndarray:
    """Return the codes of people as one array with a column for each column."""
    return np.column_stack(codes_of(columns, table)).astype(np.int64)


def stack_cells(columns: Sequence[Compared]) -> np.ndarray:
    """Return the released rows as cells, numbered over all columns."""
    starts = starts_of([len(column.cells.low) for column in columns])
    return np.column_stack([column.released + start for column, start in zip(columns, starts, strict=False)])


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct rows of a matrix, the number of rows equal to each, and the distinct row of each row."""
    labels, first = groups.group_rows(rows)
    return rows[first], np.bincount(labels, minlength=len(first)), labels


def each_row_once(columns: Sequence[Compared]) -> list[Compared]:
    """Return the same columns with equal released rows merged into one."""
    # In a small type: writing columns of eight bytes per value takes six times as long.
    dtype = frames.smallest_unsigned(max(len(column.cells.low) for column in columns))
    cells = np.empty((len(columns[0].released), len(columns)), dtype)
    for j, column in enumerate(columns):
        cells[:, j] = column.released
    _, first = groups.group_rows(cells)
    return [replace(column, released=column.released[first]) for column in columns]


def runs_of(columns: Sequence[Compared]) -> Runs:
    """Return the contents of the cells of all columns."""
    every = [column.cells for column in columns]
    return stack_runs([(cells.at, cells.first, cells.last) for cells in every], [c.n_codes for c in columns])


def stack_runs(lists: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], n_codes: Sequence[int]) -> Runs:
    """Concatenate lists of runs (start of the runs of each cell, first codes, last codes), one list per column."""
    starts = starts_of([len(first) for _, first, _ in lists])
    at = [at[:-1] + start for (at, _, _), start in zip(lists, starts, strict=False)]
    first, last = (np.concatenate([one[i] for one in lists]).astype(np.int64) for i in (1, 2))
    return Runs(np.concatenate([*at, starts[-1:]]).astype(np.int64), first, last, np.array(n_codes, np.int64))


def ends_of(columns: Sequence[Compared]) -> Ends:
    """Return the positions of the cells of all columns."""
    return Ends(
        cell_at=starts_of([len(column.cells.low) for column in columns]),
        code_at=starts_of([column.n_codes for column in columns]),
        place=np.concatenate([column.place for column in columns]),
        low=np.concatenate([column.cells.low for column in columns]),
        high=np.concatenate([column.cells.high for column in columns]),
        share=np.concatenate([column.share for column in columns]),
        scale=np.array([1.0 / column.width if column.width > 0 else 0.0 for column in columns]),
    )


def codes_of_everybody(columns: Sequence[Compared]) -> np.ndarray:
    """Return the codes of the original table and, where there is one, of the control below it."""
    tables = ["original"] if columns[0].control is None else ["original", "control"]
    return np.concatenate([stack_codes(columns, table) for table in tables])


def quasi_identifiers(schema: Any) -> list[str]:
    """Return the names of the quasi-identifiers, of which there must be at least one."""
    require_schema(schema)
    if not schema.quasi:
        raise SchemaError("The schema has no quasi-identifier: give at least one attribute the role 'quasi'.")
    return [attribute.name for attribute in schema.quasi]


# Attempts on people: who is attacked, the nearest released rows, and the judgement with a control.


def nearest_released(
    columns: Sequence[Compared], points: np.ndarray, n: int, random: np.random.Generator
) -> np.ndarray:
    """Return the n released rows nearest to each point, with ties broken at random."""
    tuples, _, labels = distinct(stack_cells(columns))
    order, starts = groups.order_by_label(labels, len(tuples))
    uniform = random.random((len(points), n))
    return np.asarray(kernel.nearest_rows(points, tuples, starts, order, uniform, runs_of(columns), ends_of(columns)))


def draw_people(columns: Sequence[Compared], table: str, wanted: int, random: np.random.Generator) -> np.ndarray:
    """Draw people of a table without replacement; all if there are fewer than wanted."""
    n = len(getattr(columns[0], table))
    return np.sort(random.choice(n, min(wanted, n), replace=False))


def judge(
    words: tuple[str, str, str],
    rows: int,
    success: Interval,
    control: Interval,
    baseline: Interval,
    risks: np.ndarray,
    started: float,
    note: str = "",
) -> AttackResult:
    """Return the result of attempts, whose advantage is the excess of their success over that on the control."""
    if control.value >= 1:
        note += " It succeeds for the whole control, so that no excess can be measured."
    if difference(success, baseline).low <= 0:
        note += " It is not clearly better than guessing at random: other attacks may be."
    advantage, seconds = excess(success, control), time.perf_counter() - started
    return AttackResult(
        *words, rows, success, baseline, advantage, control, risks=risks, seconds=seconds, note=note.strip()
    )


def excess(success: Interval, control: Interval) -> Interval:
    """Return (success - control) / (1 - control), with an interval by the method of variance estimates recovered.

    It is 1 minus the ratio of the failure rates; its ends are the ratios at which the difference of one rate and a
    multiple of the other leaves its interval.
    """
    a, low_a, high_a = 1 - success.value, 1 - success.high, 1 - success.low
    b, low_b, high_b = 1 - control.value, 1 - control.high, 1 - control.low
    if b <= 0:
        return Interval(0.0, -1.0, 1.0)
    least = low_a * (2 * a - low_a)
    ratio_low = least / max(a * b + math.sqrt(max((a * b) ** 2 - high_b * (2 * b - high_b) * least, 0.0)), 1e-300)
    scale, most = low_b * (2 * b - low_b), high_a * (2 * a - high_a)
    ratio_high = (a * b + math.sqrt(max((a * b) ** 2 - scale * most, 0.0))) / scale if scale > 0 else math.inf
    return Interval(max(1 - a / b, -1.0), max(1 - ratio_high, -1.0), min(1 - ratio_low, 1.0))


def risks_of(rows: np.ndarray, succeeded: np.ndarray, n: int) -> np.ndarray:
    """Return the success of the attempts on each of n people, NaN for those who were not attacked."""
    risks = np.full(n, np.nan)
    risks[rows] = succeeded
    return risks


def without_repetition(names: Any) -> list[str]:
    """Return names without repetition; a single name becomes a list of one."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))
