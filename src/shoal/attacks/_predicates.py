"""Predicates on the columns of a release, and the people that they single out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from shoal._kernels.groups import group_rows, some_row
from shoal._kernels.matching import Runs, count_matches, nested_cells
from shoal.attacks._cells import Compared, starts_of
from shoal.attacks._matching import distinct, stack_runs

# Predicates, such as age >= 60 and town in {Graz, Leoben}: 6 × cell + operator in some columns, -1 in all others.

OPERATORS = EQ, NE, GT, LT, GE, LE = range(6)
BATCH = 2048
"""Number of predicates that are tried at a time."""
ATTEMPTS = 500
"""Maximum number of predicates that are tried for each one wanted."""
FIRST_LOOK = 1000
"""Number of rows on which predicates are tried first."""


def draw_predicates(
    columns: Sequence[Compared], wanted: int, n_columns: int, random: np.random.Generator
) -> np.ndarray:
    """Make distinct predicates that hold for one released row each, from rows and columns drawn at random."""
    cells = np.column_stack([column.released for column in columns])
    outward = np.column_stack([_outward(column)[column.released] for column in columns])
    tests, rows = _tests_on_release(columns)
    every, sizes, labels = distinct(rows)
    few, few_sizes, _ = distinct(np.ascontiguousarray(rows[:: len(rows) // FIRST_LOOK + 1]))
    # Predicates from one of several equal rows hold for all of them.
    alone = np.flatnonzero(sizes[labels] == 1)
    made = np.empty((0, len(columns)), np.int64)
    for _ in range(0, ATTEMPTS * wanted if len(alone) else 0, BATCH):
        drawn = random.choice(alone, BATCH)
        tried = _leave_out(6 * cells[drawn] + outward[drawn], n_columns, random)
        for some, weights in ((few, few_sizes), (every, sizes)):  # a few rows already rule out most predicates
            tried = tried[_count(tests, tried, some, weights)[0] <= 1]
        made = np.concatenate([made, tried])
        made = made[group_rows(made)[1]]
        if len(made) >= wanted:
            break
    return made[:wanted]


def rare_predicates(columns: Sequence[Compared], wanted: int, random: np.random.Generator) -> np.ndarray:
    """Make predicates on one column that hold for one released row each: unique values, and the ends of lines."""
    tried, holding = zip(*(_rare_in(column) for column in columns), strict=True)
    order = random.permutation(sum(map(len, tried)))
    kept = order[np.concatenate(holding)[order] == 1][:wanted]
    made = np.full((len(kept), len(columns)), -1)
    owner = np.repeat(np.arange(len(columns)), [len(here) for here in tried])
    made[np.arange(len(kept)), owner[kept]] = np.concatenate(tried)[kept]
    return made


def _rare_in(column: Compared) -> tuple[np.ndarray, np.ndarray]:
    """Return predicates on one column, and the number of released rows that they hold for, exact only if it is 1."""
    once = np.flatnonzero(column.counts == 1)
    nested = (_nested_on_line(column) if column.on_line else _nested_names(column))[once] if len(once) else once
    if not column.on_line:
        return 6 * once + EQ, nested
    here = np.flatnonzero(column.counts)
    low, high = column.cells.low[here], column.cells.high[here]
    lowest, highest = here[high == np.nanmin(high, initial=np.inf)], here[low == np.nanmax(low, initial=-np.inf)]
    ends = (np.full(len(cells), column.counts[cells].sum()) for cells in (lowest, highest))
    return np.concatenate([6 * once + EQ, 6 * lowest + LE, 6 * highest + GE]), np.concatenate([nested, *ends])


def random_predicates(
    columns: Sequence[Compared], wanted: int, n_columns: int, random: np.random.Generator
) -> np.ndarray:
    """Draw cells, operators and columns at random."""
    drawn = [
        6 * random.choice(np.flatnonzero(column.counts), wanted)
        + random.integers(0, len(OPERATORS) if column.on_line else 2, wanted)
        for column in columns
    ]
    return _leave_out(np.column_stack(drawn), n_columns, random)


def _leave_out(predicates: np.ndarray, n_columns: int, random: np.random.Generator) -> np.ndarray:
    drawn = random.random(predicates.shape)
    return np.where(drawn <= np.partition(drawn, n_columns - 1)[:, n_columns - 1 : n_columns], predicates, -1)


def _outward(column: Compared) -> np.ndarray:
    """Return the operator of each cell that fewer values fulfil: at least as high above the median, else as low."""
    of_rows = column.middle[column.released]
    if np.isnan(of_rows).all():
        return np.full(len(column.middle), EQ)
    above = column.middle > np.nanmedian(of_rows)
    return np.where(np.isnan(column.middle), EQ, np.where(above, GE, LE))


# People for whom predicates hold. A predicate on a column is a list of runs of codes, whatever its operator.


class Axis(NamedTuple):
    """Runs of codes that fulfil each predicate on one column: all codes if it has none, then predicates 0, 1, ..."""

    n_codes: int
    at: np.ndarray
    """The runs of predicate p are ``at[p + 1]`` to ``at[p + 2]``."""
    first: np.ndarray
    last: np.ndarray


class Tests(NamedTuple):
    """Axes side by side."""

    runs: Runs
    start: np.ndarray
    """The number of predicate 0 of each axis."""
    column: np.ndarray
    """Column of each axis."""


def count_singled(
    columns: Sequence[Compared], predicates: np.ndarray, people: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of people who fulfil each predicate, and one of them.

    Parameters
    ----------
    columns : sequence of Compared
    predicates : int array (p, q)
    people : sequence of q int arrays
        Their codes, column by column.
    """
    if ((predicates >= 0).sum(axis=1) == 1).all():
        return _count_in_one_column(columns, predicates, people)
    points = np.column_stack(people)
    labels, first = group_rows(points)
    tests = _side_by_side(enumerate(map(_axis_of_codes, columns)))
    fitting, some = _count(tests, predicates, points[first], np.bincount(labels))
    return fitting, first[some]


def _count(
    tests: Tests, predicates: np.ndarray, points: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.take(predicates, tests.column, axis=1) + tests.start
    _, fitting, some = count_matches(points, weights, numbers, np.ones(len(numbers), np.int64), tests.runs)
    return fitting, some


def _count_in_one_column(
    columns: Sequence[Compared], predicates: np.ndarray, people: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Count people for predicates on one column each, by counting values instead of comparing rows."""
    fitting, someone = np.zeros(len(predicates), np.int64), np.zeros(len(predicates), np.int64)
    column = (predicates >= 0).argmax(axis=1)
    for j in np.unique(column):
        here = column == j
        axis = _axis_of_codes(columns[j])
        fitting[here], code = _count_on_axis(axis, predicates[here, j], people[j])
        someone[here] = some_row(people[j], axis.n_codes)[code]
    return fitting, someone


def _count_on_axis(axis: Axis, predicates: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of codes that fulfil each predicate, and one of them."""
    before = starts_of(np.bincount(codes, minlength=axis.n_codes))
    up_to = starts_of(before[axis.last + 1] - before[axis.first])
    start = up_to[axis.at[predicates + 1]]
    # The first run that holds a row, and the first code in it that a row has; any code if no run holds a row.
    run = np.minimum(np.searchsorted(up_to, start, side="right") - 1, len(axis.first) - 1)
    code = np.searchsorted(before, before[axis.first[run]], side="right") - 1
    return up_to[axis.at[predicates + 2]] - start, np.minimum(code, axis.n_codes - 1)


def _tests_on_release(columns: Sequence[Compared]) -> tuple[Tests, np.ndarray]:
    """Return the tests of equality and order on released cells, which fulfil a test if all of their values do.

    Returns
    -------
    tests : Tests
    rows : int64 (n, axes), the released rows
    """
    made = [(j, axis) for j, column in enumerate(columns) for axis in _axes_of_cells(column)]
    rows = np.column_stack([codes[columns[j].released] for j, (codes, _) in made])
    return _side_by_side((j, axis) for j, (_, axis) in made), rows


def _side_by_side(axes: Iterable[tuple[int, Axis]]) -> Tests:
    column, every = zip(*axes, strict=True)
    runs = stack_runs([(axis.at, axis.first, axis.last) for axis in every], [axis.n_codes for axis in every])
    return Tests(runs, starts_of([len(axis.at) - 1 for axis in every])[:-1] + 1, np.array(column))


def _axis_of_codes(column: Compared) -> Axis:
    """Return the axis of the values that fulfil a predicate; no order holds for names or missing values."""
    cells, missing = column.cells, column.n_codes - 1
    lengths = np.diff(cells.at)
    # An order is one run; equality has the runs of the cell, inequality those in between.
    n_runs = np.ones((len(lengths), len(OPERATORS)), np.int64)
    n_runs[:, EQ], n_runs[:, NE] = lengths, lengths + 1
    at = starts_of(np.append(1, n_runs))
    start = at[1:-1].reshape(n_runs.shape)
    first, last = np.zeros(at[-1], np.int64), np.full(at[-1], -1)
    last[0] = missing
    inside = np.arange(cells.at[-1]) + np.repeat(start[:, EQ] - cells.at[:-1], lengths)
    first[inside], last[inside] = cells.first, cells.last
    below = np.arange(cells.at[-1]) + np.repeat(start[:, NE] - cells.at[:-1], lengths)
    last[below], last[start[:, NE] + lengths] = cells.first - 1, missing - 1
    first[below + 1] = np.minimum(cells.last + 1, missing)
    if column.on_line:
        ordered = np.flatnonzero(~np.isnan(cells.low))
        place, low, high = column.place[:-1], cells.low[ordered], cells.high[ordered]
        first[start[ordered, GT]], last[start[ordered, GT]] = np.searchsorted(place, high, side="right"), missing - 1
        first[start[ordered, GE]], last[start[ordered, GE]] = np.searchsorted(place, low), missing - 1
        last[start[ordered, LT]] = np.searchsorted(place, low) - 1
        last[start[ordered, LE]] = np.searchsorted(place, high, side="right") - 1
    return Axis(column.n_codes, at, first, last)


def _axes_of_cells(column: Compared) -> list[tuple[np.ndarray, Axis]]:
    """Return the code of each released cell on an axis, and the axis; ranges have two axes, for their two ends."""
    low, high = column.cells.low, column.cells.high
    if not column.on_line:
        return [_axis_of_names(column)]
    if (low < high).any():
        return [_axis_of_ends(low, (EQ, GE), ()), _axis_of_ends(high, (), (EQ, LE))]
    return [_axis_of_ends(low, (EQ, GE), (EQ, LE))]


def _axis_of_ends(ends: np.ndarray, from_it: tuple[int, ...], up_to_it: tuple[int, ...]) -> tuple[np.ndarray, Axis]:
    """Return an axis of the cells' ends, with the operators that hold from a cell's own end on, and up to it."""
    values = np.unique(ends[~np.isnan(ends)])
    n = len(values)
    code = np.where(np.isnan(ends), n, np.searchsorted(values, ends))
    first, last = np.zeros((len(ends), len(OPERATORS)), np.int64), np.full((len(ends), len(OPERATORS)), n - 1)
    first[:, from_it], last[:, up_to_it] = code[:, None], code[:, None]
    first[code == n], last[code == n] = n, n
    return code, Axis(n + 1, np.arange(first.size + 2), np.append(0, first), np.append(n, last))


def _axis_of_names(column: Compared) -> tuple[np.ndarray, Axis]:
    """Return an axis of sets of names."""
    code, at, first, last = _nest_names(column)
    n_runs = np.zeros((len(code), len(OPERATORS)), np.int64)
    n_runs[:, EQ] = np.diff(at)
    return code, Axis(len(code), starts_of(np.append(1, n_runs)), np.append(0, first), np.append(len(code) - 1, last))


def _nest_names(column: Compared) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the sets of names within each set: a number for each set, and runs of these numbers.

    Single names are numbered by their codes, so that those in a set are a few runs; larger sets are behind them, and
    listed one by one.
    """
    at, first, last = column.cells[:3]
    alone = column.cells.n_values == 1
    key = np.where(alone, first[at[:-1]], column.n_codes)
    order = np.argsort(key, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    names, large = key[order[: alone.sum()]], order[alone.sum() :]
    nested_at, nested = nested_cells(at, first, last, large)
    nested += len(names)
    owner = np.concatenate([np.repeat(np.arange(len(key)), np.diff(at)), np.repeat(large, np.diff(nested_at))])
    by_owner = np.argsort(owner, kind="stable")
    low = np.append(np.searchsorted(names, first), nested)[by_owner]
    high = np.append(np.searchsorted(names, last, side="right") - 1, nested)[by_owner]
    return number, starts_of(np.bincount(owner, minlength=len(key))), low, high


def _nested_names(column: Compared) -> np.ndarray:
    """Return the number of released rows within each set of names."""
    number, at, first, last = _nest_names(column)
    sizes = np.empty_like(column.counts)
    sizes[number] = column.counts
    before = starts_of(sizes)
    up_to = starts_of(before[last + 1] - before[first])
    return np.diff(up_to[at])


def _nested_on_line(column: Compared) -> np.ndarray:
    """Return 1 for each cell of a line if no other released cell lies within it, and 2 otherwise."""
    here = np.flatnonzero(column.counts)
    low, high = column.cells.low[here], column.cells.high[here]
    # In descending order of lower ends: cells within a cell come before it, or are equal to it.
    order = np.lexsort((high, -low))
    low, high = low[order], high[order]
    within = np.append(np.nan, np.minimum.accumulate(high)[:-1]) <= high
    within[:-1] |= (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    found = np.zeros(len(column.counts), np.int64)
    found[here[order]] = 1 + within
    return found
