"""The three risks of a released table: singling people out, linking and inferring (WP29 Opinion 05/2014).

They see the values of the release and nothing else, whatever these are: values as in the original table, or ranges,
sets, nodes of hierarchies and suppressed cells. Success is measured on people of the original table, beside people of a
control table who are not in the release, and beside an adversary who guesses at random: what works as well on the
control is knowledge about everybody, and no leak.
"""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy import stats

from shoal._kernels import groups
from shoal._kernels import matching as kernel
from shoal.attacks._matching import (
    Compared,
    codes_of,
    distinct,
    each_row_once,
    ends_of,
    open_tables,
    runs_of,
    stack_cells,
    stack_codes,
)
from shoal.attacks._predicates import count_singled, draw_predicates, random_predicates, rare_predicates
from shoal.attacks.results import AttackResult, difference
from shoal.data.schema import Schema
from shoal.errors import ShoalError
from shoal.intervals import Interval, exactly, share_interval, share_right

TOLERANCE = 0.05
"""A number is guessed right if it is no further off than this part of it."""
MOST_ROWS = 12
"""Predicates that as many rows of the control fulfil, or more, are alike: they single nobody out of a larger table."""
EM_STEPS = 300
"""With fewer steps extrapolated shares stay near those of the start, with more they follow every chance in the counts.

Where nothing is to be found, 95 % intervals of the advantage hold 0 for 93 to 99 % of 150 tables, two to three times as
large as the control; where the weights of predicates were taken as even up to some weight, it was 41 to 90 %.
"""


def singling_out(
    original: Any,
    released: Any,
    control: Any,
    schema: Schema | None = None,
    *,
    n_attacks: int = 500,
    n_columns: int = 3,
    mode: Literal["multivariate", "univariate"] = "multivariate",
    random_state: int = 0,
) -> AttackResult:
    """Find predicates that hold for one released row, and count those that hold for one person of the original table.

    A predicate says of some columns that a value is in a cell of the release, or at least or at most as high. Equal
    released rows are taken for one: whoever is the representative of a group is singled out by what is released of it,
    however many rows it stands for. The naive adversary draws columns, operators and values at random.

    Parameters
    ----------
    original, released, control : pandas, polars or pyarrow table
        People in the release, the release, and people who are not in it.
    schema : Schema, optional
        Needed where the release holds nodes of hierarchies; identifiers are left out.
    n_attacks : int
        Predicates that the adversary tries; those that cannot be made count as failed.
    n_columns : int
        Columns in a predicate.
    mode : {"multivariate", "univariate"}
        Several columns at a time, or rare and extreme values of one.
    random_state : int

    Returns
    -------
    AttackResult
        ``advantage`` is (success - control) / (1 - control), the control at the size of the original table;
        ``precision`` the share of right ones among the predicates that could be made; ``risks`` how many of them single
        out each row.

    Examples
    --------
    >>> from shoal.attacks.linkage import singling_out
    >>> from shoal.datasets import make_census
    >>> people, others = make_census(500, seed=1).frame, make_census(500, seed=2).frame
    >>> found = singling_out(people, people, others, make_census(1).schema, n_attacks=100)
    >>> found.accuracy.value, found.beats_baseline
    (1.0, True)
    """
    started = time.perf_counter()
    columns = each_row_once(open_tables(original, released, control, schema))
    random, wanted = _random(random_state), _count("n_attacks", n_attacks)
    if mode == "multivariate":
        made = draw_predicates(columns, wanted, _count("n_columns", n_columns, len(columns), "columns"), random)
    elif mode == "univariate":
        made = rare_predicates(columns, wanted, random)
    else:
        raise ShoalError(f"There is no mode {mode!r}: choose 'multivariate' or 'univariate'.")
    naive = random_predicates(columns, wanted, n_columns if mode == "multivariate" else 1, random)
    people, others = codes_of(columns), codes_of(columns, "control")
    fitting, someone = count_singled(columns, np.concatenate([made, naive]), people)
    singled, by_chance = np.split(fitting == 1, [len(made)])
    hits, n_people, n_others = int(singled.sum()), len(people[0]), len(others[0])
    risks = np.bincount(someone[: len(made)][singled], minlength=n_people).astype(float)
    note = "" if len(made) == wanted else f"Of {wanted:,} predicates {len(made):,} could be made."
    if n_others < n_people:
        note += f" The rate of the control is extrapolated from {n_others:,} rows to {n_people:,}."
    return _judge(
        ("singling out", "which one person fulfils a predicate", "the released table"),
        wanted,
        share_interval(hits, wanted),
        _at_size(count_singled(columns, made, others)[0], wanted, n_others, n_people),
        share_right(by_chance),
        risks,
        started,
        note,
    )._replace(precision=share_interval(hits, len(made)) if len(made) else None)


def linkability(
    original: Any,
    released: Any,
    control: Any,
    columns: tuple[Sequence[str], Sequence[str]],
    *,
    schema: Schema | None = None,
    n_neighbors: int = 1,
    n_attacks: int = 500,
    random_state: int = 0,
) -> AttackResult:
    """Link what two parties know of a person: some columns here, others there, by the released rows nearest to both.

    A person is linked if a row is among the ``n_neighbors`` released rows nearest to either part. Rows that are equally
    near are drawn at random. The naive adversary draws all rows at random.

    Parameters
    ----------
    original, released, control : pandas, polars or pyarrow table
        People in the release, the release, and people who are not in it.
    columns : pair of sequences of str
        What either party knows; the two have no column in common.
    schema : Schema, optional
        Needed where the release holds nodes of hierarchies.
    n_neighbors : int
    n_attacks : int
        People that are attacked; all, if there are fewer.
    random_state : int

    Returns
    -------
    AttackResult
        ``advantage`` is (success - control) / (1 - control).

    Examples
    --------
    >>> from shoal.attacks.linkage import linkability
    >>> from shoal.datasets import make_census
    >>> people, others = make_census(500, seed=1).frame, make_census(500, seed=2).frame
    >>> sides = ["age", "postal-code", "sex"], ["education", "occupation", "hours-per-week"]
    >>> found = linkability(people, people, others, sides)
    >>> found.accuracy.low > 0.4, found.control.high < 0.05
    (True, True)
    """
    started = time.perf_counter()
    left, right = _two_sides(columns)
    every = open_tables(original, released, control, schema, [*left, *right])
    sides = every[: len(left)], every[len(left) :]
    random, n = _random(random_state), len(every[0].released)
    wanted, n_neighbors = _count("n_attacks", n_attacks), _count("n_neighbors", n_neighbors, n, "released rows")

    def attack(table: Literal["original", "control"]) -> tuple[np.ndarray, np.ndarray]:
        rows = _draw_people(every, table, wanted, random)
        one, two = (_neighbors(side, stack_codes(side, table)[rows], n_neighbors, random) for side in sides)
        return rows, (one[:, :, None] == two[:, None, :]).any(axis=(1, 2))

    (rows, linked), (_, others) = attack("original"), attack("control")
    by_chance = 1.0 - math.exp(_log_choose(n - n_neighbors, n_neighbors) - _log_choose(n, n_neighbors))
    return _judge(
        ("linkability", "which two records are of one person", f"the released columns {', '.join([*left, *right])}"),
        len(rows),
        share_right(linked),
        share_right(others),
        exactly(by_chance),
        _by_row(rows, linked, len(every[0].original)),
        started,
    )


def inference(
    original: Any,
    released: Any,
    control: Any,
    secret: str,
    known: Sequence[str] | None = None,
    *,
    schema: Schema | None = None,
    n_attacks: int = 500,
    tolerance: float = TOLERANCE,
    random_state: int = 0,
) -> AttackResult:
    """Guess a secret of people from the released row nearest to what is known of them.

    Of rows that are equally near one is drawn. A range is guessed as its middle, a set or a node as one of its values
    at random. The naive adversary takes the secret of any released row.

    Parameters
    ----------
    original, released, control : pandas, polars or pyarrow table
        People in the release, the release, and people who are not in it.
    secret : str
        The column that is guessed.
    known : sequence of str, optional
        What is known of people; by default all other columns.
    schema : Schema, optional
        Needed where the release holds nodes of hierarchies; identifiers are left out.
    n_attacks : int
        People that are attacked; all, if there are fewer.
    tolerance : float
        A number is right if it is no further off than this part of the truth; other values must be equal.
    random_state : int

    Returns
    -------
    AttackResult
        ``advantage`` is (success - control) / (1 - control).

    Examples
    --------
    >>> from shoal.attacks.linkage import inference
    >>> from shoal.datasets import make_census
    >>> people, others = make_census(500, seed=1).frame, make_census(500, seed=2).frame
    >>> found = inference(people, people, others, "condition", ["age", "education", "occupation", "postal-code"])
    >>> found.accuracy.low > 0.9, found.beats_baseline
    (True, True)
    """
    started = time.perf_counter()
    names = None if known is None else [*_listed(known), secret]
    *seen, hidden = _secret_last(open_tables(original, released, control, schema, names), secret)
    if not isinstance(tolerance, numbers.Real) or not 0 <= tolerance < 1:
        raise ShoalError(f"The tolerance of a guess lies between 0 and 1, not at {tolerance!r}.")
    random, wanted = _random(random_state), _count("n_attacks", n_attacks)

    def attack(table: Literal["original", "control"]) -> tuple[np.ndarray, np.ndarray]:
        rows = _draw_people(seen, table, wanted, random)
        nearest = _neighbors(seen, stack_codes(seen, table)[rows], 1, random)[:, 0]
        truth = stack_codes([hidden], table)[rows, 0]
        return rows, _is_right(hidden, hidden.released[nearest], truth, tolerance, random)

    (rows, right), (_, others) = attack("original"), attack("control")
    anyone = random.integers(0, len(hidden.released), len(rows))
    naive = _is_right(hidden, hidden.released[anyone], hidden.original[rows], tolerance, random)
    return _judge(
        ("inference", f"the value of {secret}", f"the release, and {', '.join(c.name for c in seen)} of a person"),
        len(rows),
        share_right(right),
        share_right(others),
        share_right(naive),
        _by_row(rows, right, len(hidden.original)),
        started,
    )


def _neighbors(columns: Sequence[Compared], points: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """The n released rows nearest to each point, of equally near ones any."""
    tuples, _, labels = distinct(stack_cells(columns))
    order, starts = groups.order_by_label(labels, len(tuples))
    uniform = random.random((len(points), n))
    return np.asarray(kernel.nearest_rows(points, tuples, starts, order, uniform, runs_of(columns), ends_of(columns)))


def _is_right(
    hidden: Compared, cells: np.ndarray, truth: np.ndarray, tolerance: float, random: np.random.Generator
) -> np.ndarray:
    """Whether a guess that is made from each of these cells is right."""
    at, first, last = hidden.cells[:3]
    ends = np.concatenate([[0], np.cumsum(last - first + 1)])
    rank = (random.random(len(cells)) * hidden.cells.n_values[cells]).astype(np.int64) + ends[at[cells]]
    run = np.searchsorted(ends, rank, side="right") - 1
    # A number that no person has is in no run, and is compared by its place.
    run = np.minimum(run, len(first) - 1)
    code = np.where(hidden.cells.n_values[cells] > 0, first[run] + rank - ends[run], -1)
    middle, place = hidden.middle[cells], hidden.place[truth]
    if hidden.kind == "ordinal":
        middle = np.floor(middle)  # of two values in the middle the lower one
    # A part of a date, or of a rank, means nothing.
    reach = tolerance * np.abs(place) if hidden.kind == "numeric" else 0.0
    near = np.abs(np.where(np.isnan(middle), hidden.place[code], middle) - place) <= reach
    return near | (np.isnan(middle) & (code == truth))


def _draw_people(columns: Sequence[Compared], table: str, wanted: int, random: np.random.Generator) -> np.ndarray:
    n = len(getattr(columns[0], table))
    return np.sort(random.choice(n, min(wanted, n), replace=False))


def _judge(
    words: tuple[str, str, str],
    rows: int,
    success: Interval,
    control: Interval,
    baseline: Interval,
    risks: np.ndarray,
    started: float,
    note: str = "",
) -> AttackResult:
    if control.value >= 1:
        note += " It succeeds for all of the control, so that no excess can be measured."
    if difference(success, baseline).low <= 0:
        note += " It is not clearly better than guessing at random: another attack may find more."
    advantage, seconds = _excess(success, control), time.perf_counter() - started
    return AttackResult(
        *words, rows, success, baseline, advantage, control, risks=risks, seconds=seconds, note=note.strip()
    )


def _excess(success: Interval, control: Interval) -> Interval:
    """(success - control) / (1 - control), with an interval from theirs (method of variance estimates recovered).

    It is 1 less the ratio of the rates of failure; the ends are the ratios at which the difference of one rate and a
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


def _at_size(fitting: np.ndarray, wanted: int, n_control: int, n_original: int) -> Interval:
    """Share of the predicates that single out a person of the control, if it had as many rows as the original table."""
    if n_control == n_original or not len(fitting):
        return share_interval(int((fitting == 1).sum()), wanted)
    if n_control < n_original:
        chance, error = _extrapolate(fitting, n_control, n_original)
    else:
        # Of c rows that fulfil a predicate exactly one is in a part f of them with a chance of c f (1 - f)^(c - 1).
        part = n_original / n_control
        chances = fitting * part * (1 - part) ** (fitting - 1.0)
        chance, error = float(chances.mean()), float(chances.std() / math.sqrt(len(chances)))
    made = len(fitting) / wanted
    # What is extrapolated from half of the rows is worth half of the attacks at most, even if it does not vary.
    return _with_error(chance * made, error * made, wanted * min(n_control / n_original, 1.0))


def _extrapolate(fitting: np.ndarray, n_control: int, n_original: int) -> tuple[float, float]:
    """The chance that a predicate singles out a person of a larger table, and its standard error.

    A predicate that a part w of all people fulfils singles one out of n with a chance of n w (1 - w)^(n - 1) (Cohen and
    Nissim 2020). How frequent each w is among predicates is what makes the numbers of rows that fulfil them most
    likely, whatever its shape, and is found by expectation and maximization. The error is that of the jackknife.
    """
    weights = np.append(0.0, np.geomspace(0.002 / n_original, 1.0, 150))
    likely = stats.binom.pmf(np.arange(MOST_ROWS)[:, None], n_control, weights)
    likely = np.concatenate([likely, (1 - likely.sum(axis=0, keepdims=True)).clip(0)])
    counts = np.bincount(np.minimum(fitting, MOST_ROWS), minlength=MOST_ROWS + 1)
    there = np.flatnonzero(counts)
    # All predicates, and all but one, which is any of those that as many rows fulfil.
    left = np.column_stack([counts, counts[:, None] - np.eye(len(counts))[:, there]])
    left /= np.maximum(left.sum(axis=0), 1)
    frequent = np.full((len(weights), left.shape[1]), 1 / len(weights))
    for _ in range(EM_STEPS):
        frequent *= likely.T @ (left / np.maximum(likely @ frequent, 1e-300))
    larger = (n_original * weights * (1 - weights) ** (n_original - 1)) @ frequent
    # The share grows by what the weights say: by itself it is right at the control's own size, whoever its people are.
    chance, *others = np.minimum(left[1] * larger / np.maximum(likely[1] @ frequent, 1e-300), 1.0)
    off = np.array(others) - np.average(others, weights=counts[there])
    return float(chance), math.sqrt((counts[there] * off**2).sum() * (1 - 1 / len(fitting)))


def _with_error(share: float, error: float, most: float) -> Interval:
    """A share with Wilson's interval of so many rows that a share of them would have this error, at most of some."""
    spread = share * (1 - share)
    rows = min(spread / error**2, most) if spread > 0 and error > 0 else most
    return share_interval(share * rows, rows)  # type: ignore[arg-type]  # parts of a row do as well


def _by_row(rows: np.ndarray, right: np.ndarray, n: int) -> np.ndarray:
    risks = np.full(n, np.nan)
    risks[rows] = right
    return risks


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if n >= k else -math.inf


def _random(random_state: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ShoalError(f"random_state={random_state!r} starts no random numbers: give a whole number.") from None


def _count(name: str, number: Any, most: int | None = None, of: str = "") -> int:
    if not isinstance(number, (int, np.integer)) or isinstance(number, bool) or number < 1:
        raise ShoalError(f"{name}={number!r} is no number of {name[2:]}: give a whole number from 1 upwards.")
    if most is not None and number > most:
        raise ShoalError(f"{name}={number} is more than there are {of}: give {most} or fewer.")
    return int(number)


def _secret_last(columns: Sequence[Compared], secret: str) -> list[Compared]:
    seen, hidden = ([column for column in columns if (column.name == secret) == last] for last in (False, True))
    if not hidden:
        named = ", ".join(column.name for column in seen)
        raise ShoalError(f"The secret {secret!r} is not one of the columns that the tables share, {named}: name one.")
    if len(hidden) > 1:
        raise ShoalError(f"The secret {secret!r} is among what is known of people: leave it out there.")
    if not seen:
        raise ShoalError(f"Nothing is known of people but the secret {secret!r}: name other columns.")
    return [*seen, *hidden]


def _listed(names: Any) -> list[str]:
    """Names without repetition; a single one may stand for itself."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))


def _two_sides(columns: Any) -> tuple[list[str], list[str]]:
    try:
        left, right = (_listed(side) for side in columns)
    except (TypeError, ValueError):
        raise ShoalError(f"columns={columns!r} is no pair: give two lists, what either party knows.") from None
    if not left or not right:
        raise ShoalError("Both parties must know something: give each at least one column.")
    both = [name for name in left if name in right]
    if both:
        raise ShoalError(f"Both parties know {both[0]!r}, which links all by itself: leave it to one of them.")
    return left, right
