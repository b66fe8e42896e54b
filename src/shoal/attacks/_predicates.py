"""Predicates on the columns of a release, and whom they single out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal._kernels.matching import count_matches
from shoal.attacks._matching import Compared, distinct, stack_runs, starts_of

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
    return starts_of(np.bincount(owner, minlength=len(masks)).tolist()), first, last
