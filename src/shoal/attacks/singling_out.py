"""Singling out: predicates that hold for one person of the original table (WP29 Opinion 05/2014).

The adversary sees only the values of the release: original values, ranges, sets, nodes of hierarchies or suppressed
cells. Success on people of the original table is compared with that on people of a control table who are not in the
release, and with random guesses: equal success on the control is general knowledge, and no leak.
"""

from __future__ import annotations

import math
import time
from typing import Any, Literal

import numpy as np
from scipy import stats

from shoal.attacks import _matching as matching
from shoal.attacks._predicates import count_singled, draw_predicates, random_predicates, rare_predicates
from shoal.attacks.registry import AuditInput, attack_on, release_risk
from shoal.attacks.results import AttackResult
from shoal.data.schema import Schema
from shoal.intervals import Interval, share_interval, share_right
from shoal.parameters import SEED, Choice, Whole

MOST_ROWS = 12
"""Predicates that this many rows of the control fulfil, or more, are treated alike: they single no one out."""
EM_STEPS = 300
"""With fewer steps extrapolated shares stay near the initial ones; with more they overfit the counts.

Where there is nothing to find, 95 % intervals of the advantage contain 0 for 93 to 99 % of 150 tables that are two to
three times as large as the control; with weights of predicates assumed uniform up to some weight it was 41 to 90 %.
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

    A predicate states for some columns that a value is in a cell of the release, or at least or at most as high. Equal
    released rows are merged: the representative of a group is singled out by its released values, for any size of the
    group. The baseline draws columns, operators and values at random.

    Parameters
    ----------
    original, released, control : pandas, polars or pyarrow table
        People in the release, the release, and people who are not in it.
    schema : Schema, optional
        Needed where the release holds nodes of hierarchies; identifiers are left out.
    n_attacks : int
        Number of predicates that the adversary tries; those that cannot be made count as failures.
    n_columns : int
        Number of columns in a predicate.
    mode : {"multivariate", "univariate"}
        Several columns at a time, or rare and extreme values of one.
    random_state : int

    Returns
    -------
    AttackResult
        ``advantage`` is (success - control) / (1 - control), with the control at the size of the original table;
        ``precision`` is the success rate of the predicates that could be made; ``risks`` is the number of them that
        single out each row.

    Examples
    --------
    >>> from shoal.attacks.singling_out import singling_out
    >>> from shoal.datasets import make_census
    >>> people, others = make_census(500, seed=1).frame, make_census(500, seed=2).frame
    >>> found = singling_out(people, people, others, make_census(1).schema, n_attacks=100)
    >>> found.accuracy.value, found.beats_baseline
    (1.0, True)
    """
    started = time.perf_counter()
    columns = matching.each_row_once(matching.open_tables(original, released, control, schema))
    Whole(least=1).check("n_attacks", n_attacks)
    SEED.check("random_state", random_state)
    Choice(("multivariate", "univariate")).check("mode", mode)
    random, wanted = np.random.default_rng(random_state), n_attacks
    if mode == "multivariate":
        Whole(least=1, most=len(columns)).check("n_columns", n_columns)
        made = draw_predicates(columns, wanted, n_columns, random)
    else:
        made = rare_predicates(columns, wanted, random)
    naive = random_predicates(columns, wanted, n_columns if mode == "multivariate" else 1, random)
    people, others = matching.codes_of(columns), matching.codes_of(columns, "control")
    fitting, someone = count_singled(columns, np.concatenate([made, naive]), people)
    singled, by_chance = np.split(fitting == 1, [len(made)])
    hits, n_people, n_others = int(singled.sum()), len(people[0]), len(others[0])
    risks = np.bincount(someone[: len(made)][singled], minlength=n_people).astype(float)
    note = "" if len(made) == wanted else f"Of {wanted:,} predicates {len(made):,} could be made."
    if n_others < n_people:
        note += f" The rate of the control is extrapolated from {n_others:,} rows to {n_people:,}."
    return matching.judge(
        ("singling out", "the one person who fulfils a predicate", "the released table"),
        wanted,
        share_interval(hits, wanted),
        _at_size(count_singled(columns, made, others)[0], wanted, n_others, n_people),
        share_right(by_chance),
        risks,
        started,
        note,
    )._replace(precision=share_interval(hits, len(made)) if len(made) else None)


SINGLING_OUT = release_risk(
    "singling out", 120, "single people out", baseline="random predicates",
    control="the same predicates on people outside the release",
)  # fmt: skip


@attack_on(SINGLING_OUT, "singling out")
def audited(given: AuditInput, attribute: str) -> AttackResult:
    """Single out the members of an audit."""
    return singling_out(*given.tables, given.schema, random_state=given.random_state)


def _at_size(fitting: np.ndarray, wanted: int, n_control: int, n_original: int) -> Interval:
    """Return the share of predicates that single out a person of a control with the size of the original table."""
    if n_control == n_original or not len(fitting):
        return share_interval(int((fitting == 1).sum()), wanted)
    if n_control < n_original:
        chance, error = _extrapolate(fitting, n_control, n_original)
    else:
        # Exactly one of c rows that fulfil a predicate is in a part f of them with probability c f (1 - f)^(c - 1).
        part = n_original / n_control
        chances = fitting * part * (1 - part) ** (fitting - 1.0)
        chance, error = float(chances.mean()), float(chances.std() / math.sqrt(len(chances)))
    made = len(fitting) / wanted
    # An extrapolation from half of the rows is worth half of the attacks at most, even if it does not vary.
    return _with_error(chance * made, error * made, wanted * min(n_control / n_original, 1.0))


def _extrapolate(fitting: np.ndarray, n_control: int, n_original: int) -> tuple[float, float]:
    """Return the probability that a predicate singles out a person of a larger table, and its standard error.

    A predicate that a share w of all people fulfils singles out one of n with probability n w (1 - w)^(n - 1) (Cohen
    and Nissim 2020). The distribution of w over predicates is the nonparametric maximum likelihood estimate from the
    numbers of rows that fulfil them, by expectation maximization. The error is that of the jackknife.
    """
    weights = np.append(0.0, np.geomspace(0.002 / n_original, 1.0, 150))
    likely = stats.binom.pmf(np.arange(MOST_ROWS)[:, None], n_control, weights)
    likely = np.concatenate([likely, (1 - likely.sum(axis=0, keepdims=True)).clip(0)])
    counts = np.bincount(np.minimum(fitting, MOST_ROWS), minlength=MOST_ROWS + 1)
    there = np.flatnonzero(counts)
    # All predicates, and all but one of those that equally many rows fulfil.
    left = np.column_stack([counts, counts[:, None] - np.eye(len(counts))[:, there]])
    left /= np.maximum(left.sum(axis=0), 1)
    frequent = np.full((len(weights), left.shape[1]), 1 / len(weights))
    for _ in range(EM_STEPS):
        frequent *= likely.T @ (left / np.maximum(likely @ frequent, 1e-300))
    larger = (n_original * weights * (1 - weights) ** (n_original - 1)) @ frequent
    # The weights only scale the share, which is exact at the size of the control itself.
    chance, *others = np.minimum(left[1] * larger / np.maximum(likely[1] @ frequent, 1e-300), 1.0)
    off = np.array(others) - np.average(others, weights=counts[there])
    return float(chance), math.sqrt((counts[there] * off**2).sum() * (1 - 1 / len(fitting)))


def _with_error(share: float, error: float, most: float) -> Interval:
    """Return a share with Wilson's interval for the number of rows that implies this error, up to a maximum."""
    spread = share * (1 - share)
    rows = min(spread / error**2, most) if spread > 0 and error > 0 else most
    return share_interval(share * rows, rows)  # type: ignore[arg-type]  # parts of a row do as well
