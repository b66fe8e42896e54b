"""Inference: a secret of a person, guessed from the nearest released row (WP29 Opinion 05/2014)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from shoal.attacks import _matching as matching
from shoal.attacks._cells import Compared
from shoal.attacks.disclosure import RELEASED_VALUE
from shoal.attacks.registry import AuditInput, attack_on
from shoal.attacks.results import AttackResult
from shoal.data.schema import Schema
from shoal.errors import ShoalError
from shoal.intervals import share_right
from shoal.parameters import SEED, Real, Whole

TOLERANCE = 0.05
"""Relative error up to which a guessed number counts as correct."""


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
    """Guess a secret of people from the released row nearest to their known values.

    Ties are broken at random. A range is guessed as its middle, a set or a node as one of its values at random. The
    baseline takes the secret of a random released row.

    Parameters
    ----------
    original, released, control : pandas, polars or pyarrow table
        People in the release, the release, and people who are not in it.
    secret : str
        Column that is guessed.
    known : sequence of str, optional
        Columns that the adversary knows; by default all others.
    schema : Schema, optional
        Needed where the release holds nodes of hierarchies; identifiers are left out.
    n_attacks : int
        Number of people that are attacked; all if there are fewer.
    tolerance : float
        Relative error up to which a guessed number counts as correct; other values must be equal.
    random_state : int

    Returns
    -------
    AttackResult
        ``advantage`` is (success - control) / (1 - control).

    Examples
    --------
    >>> from shoal.attacks.inference import inference
    >>> from shoal.datasets import make_census
    >>> people, others = make_census(500, seed=1).frame, make_census(500, seed=2).frame
    >>> found = inference(people, people, others, "condition", ["age", "education", "occupation", "postal-code"])
    >>> found.accuracy.low > 0.9, found.beats_baseline
    (True, True)
    """
    started = time.perf_counter()
    names = None if known is None else [*matching.without_repetition(known), secret]
    *seen, hidden = _secret_last(matching.open_tables(original, released, control, schema, names), secret)
    Real(least=0, below=1).check("tolerance", tolerance)
    Whole(least=1).check("n_attacks", n_attacks)
    SEED.check("random_state", random_state)
    random = np.random.default_rng(random_state)

    def attack(table: Literal["original", "control"]) -> tuple[np.ndarray, np.ndarray]:
        rows = matching.draw_people(seen, table, n_attacks, random)
        nearest = matching.nearest_released(seen, matching.stack_codes(seen, table)[rows], 1, random)[:, 0]
        truth = matching.stack_codes([hidden], table)[rows, 0]
        return rows, _is_right(hidden, hidden.released[nearest], truth, tolerance, random)

    (rows, right), (_, others) = attack("original"), attack("control")
    anyone = random.integers(0, len(hidden.released), len(rows))
    naive = _is_right(hidden, hidden.released[anyone], hidden.original[rows], tolerance, random)
    return matching.judge(
        ("inference", f"the value of {secret}", f"the release, and {', '.join(c.name for c in seen)} of a person"),
        len(rows),
        share_right(right),
        share_right(others),
        share_right(naive),
        matching.risks_of(rows, right, len(hidden.original)),
        started,
    )


@attack_on(RELEASED_VALUE, "inference")
def audited(given: AuditInput, attribute: str) -> AttackResult:
    """Infer a sensitive attribute of the members of an audit from all quasi-identifiers."""
    seed = given.random_state
    return inference(*given.tables, attribute, known=given.quasi, schema=given.schema, random_state=seed)


def _is_right(
    hidden: Compared, cells: np.ndarray, truth: np.ndarray, tolerance: float, random: np.random.Generator
) -> np.ndarray:
    """Return True for each cell from which a guess is correct."""
    at, first, last = hidden.cells[:3]
    ends = np.concatenate([[0], np.cumsum(last - first + 1)])
    rank = (random.random(len(cells)) * hidden.cells.n_values[cells]).astype(np.int64) + ends[at[cells]]
    run = np.searchsorted(ends, rank, side="right") - 1
    # A number that no person has is in no run, and is compared by its position.
    run = np.minimum(run, len(first) - 1)
    code = np.where(hidden.cells.n_values[cells] > 0, first[run] + rank - ends[run], -1)
    middle, place = hidden.middle[cells], hidden.place[truth]
    if hidden.kind == "ordinal":
        middle = np.floor(middle)  # the lower of two values in the middle
    # A relative error of a date, or of a rank, means nothing.
    reach = tolerance * np.abs(place) if hidden.kind == "numeric" else 0.0
    near = np.abs(np.where(np.isnan(middle), hidden.place[code], middle) - place) <= reach
    return near | (np.isnan(middle) & (code == truth))


def _secret_last(columns: Sequence[Compared], secret: str) -> list[Compared]:
    seen, hidden = ([column for column in columns if (column.name == secret) == last] for last in (False, True))
    if not hidden:
        named = ", ".join(column.name for column in seen)
        raise ShoalError(f"The secret {secret!r} is not one of the columns that the tables share, {named}: name one.")
    if len(hidden) > 1:
        raise ShoalError(f"The secret {secret!r} is among the known columns: leave it out there.")
    if not seen:
        raise ShoalError(f"The adversary knows no column but the secret {secret!r}: name others.")
    return [*seen, *hidden]
