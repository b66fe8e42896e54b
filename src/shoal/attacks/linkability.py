"""Linkability: two records of one person, linked by the nearest released rows (WP29 Opinion 05/2014)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from shoal.attacks import _matching as matching
from shoal.attacks.registry import AuditInput, attack_on, release_risk
from shoal.attacks.results import AttackResult
from shoal.data.schema import Schema
from shoal.errors import ShoalError
from shoal.intervals import exactly, share_right
from shoal.parameters import SEED, Whole


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
    """Link the records that two parties have of a person, each with some columns, by the nearest released rows.

    A person is linked if a row is among the ``n_neighbors`` released rows nearest to either record. Ties are broken at
    random. The baseline draws all rows at random.

    Parameters
    ----------
    original, released, control : pandas, polars or pyarrow table
        People in the release, the release, and people who are not in it.
    columns : pair of sequences of str
        Columns of either party, without a common one.
    schema : Schema, optional
        Needed where the release holds nodes of hierarchies.
    n_neighbors : int
    n_attacks : int
        Number of people that are attacked; all if there are fewer.
    random_state : int

    Returns
    -------
    AttackResult
        ``advantage`` is (success - control) / (1 - control).

    Examples
    --------
    >>> from shoal.attacks.linkability import linkability
    >>> from shoal.datasets import make_census
    >>> people, others = make_census(500, seed=1).frame, make_census(500, seed=2).frame
    >>> sides = ["age", "postal-code", "sex"], ["education", "occupation", "hours-per-week"]
    >>> found = linkability(people, people, others, sides)
    >>> found.accuracy.low > 0.4, found.control.high < 0.05
    (True, True)
    """
    started = time.perf_counter()
    left, right = _two_sides(columns)
    every = matching.open_tables(original, released, control, schema, [*left, *right])
    sides = every[: len(left)], every[len(left) :]
    n = len(every[0].released)
    Whole(least=1).check("n_attacks", n_attacks)
    Whole(least=1, most=n).check("n_neighbors", n_neighbors)
    SEED.check("random_state", random_state)
    random = np.random.default_rng(random_state)

    def attack(table: Literal["original", "control"]) -> tuple[np.ndarray, np.ndarray]:
        rows = matching.draw_people(every, table, n_attacks, random)
        points = [matching.stack_codes(side, table)[rows] for side in sides]
        one, two = (matching.nearest_released(*known, n_neighbors, random) for known in zip(sides, points, strict=True))
        return rows, (one[:, :, None] == two[:, None, :]).any(axis=(1, 2))

    (rows, linked), (_, others) = attack("original"), attack("control")
    by_chance = 1.0 - math.exp(_log_choose(n - n_neighbors, n_neighbors) - _log_choose(n, n_neighbors))
    return matching.judge(
        ("linkability", "the records of one person", f"the released columns {', '.join([*left, *right])}"),
        len(rows),
        share_right(linked),
        share_right(others),
        exactly(by_chance),
        matching.risks_of(rows, linked, len(every[0].original)),
        started,
    )


LINKABILITY = release_risk("linkability", 130, "link records of one person", baseline="random released rows")


@attack_on(LINKABILITY, "linkability")
def audited(given: AuditInput, attribute: str) -> AttackResult:
    """Link the members of an audit; every other quasi-identifier is known to either party."""
    columns = given.quasi[::2], given.quasi[1::2]
    return linkability(*given.tables, columns, schema=given.schema, random_state=given.random_state)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if n >= k else -math.inf


def _two_sides(columns: Any) -> tuple[list[str], list[str]]:
    try:
        left, right = (matching.without_repetition(side) for side in columns)
    except (TypeError, ValueError):
        raise ShoalError(f"columns={columns!r} is not a pair: give two lists, the columns of either party.") from None
    if not left or not right:
        raise ShoalError("A party has no column: give each at least one.")
    both = [name for name in left if name in right]
    if both:
        raise ShoalError(f"Both parties have column {both[0]!r}, which links people by itself: give it to one of them.")
    return left, right
