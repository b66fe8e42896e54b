"""Re-identification: the released rows that fit a person's quasi-identifiers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from shoal._kernels import matching as kernel
from shoal.attacks._matching import codes_of_everybody, distinct, open_tables, quasi_identifiers, runs_of, stack_cells
from shoal.attacks.registry import RELEASE_ELEMENT, AuditInput, AuditRisk, Finding, RiskVerdict, attack_on
from shoal.attacks.results import AttackResult
from shoal.data.schema import Schema
from shoal.intervals import exactly
from shoal.reports.report import show_share

TOLERABLE_RISK = 0.2
"""Probability to find a person's row above which it counts as found: groups of five, as in many guidelines."""


class Reidentification(NamedTuple):
    """Results of three adversaries who match people to released rows; ``risks`` is 1 / matching rows per person."""

    prosecutor: AttackResult
    """Knows that the person is in the table: the highest risk of all rows."""
    journalist: AttackResult
    """Attacks anyone of the population: the highest risk if matches in the population count."""
    marketer: AttackResult
    """Matches as many people as possible: the mean risk."""


def reidentify(original: Any, released: Any, schema: Schema, control: Any = None) -> Reidentification:
    """Match people to the released rows whose quasi-identifiers all contain their values.

    Parameters
    ----------
    original, released : pandas, polars or pyarrow table
    schema : Schema
        The adversaries know its quasi-identifiers.
    control : table, optional
        People who are not in the release: with the original table they form the population of the journalist, and
        ``control`` of each result is the number for them.

    Returns
    -------
    Reidentification
        Three AttackResults. All rows are matched, so that the numbers are exact and intervals have no width. A person
        without a matching row has the risk 0.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Attribute, Schema, anonymize
    >>> from shoal.attacks.reidentification import reidentify
    >>> people = pl.DataFrame({"age": [25, 27, 31, 45, 47, 52]})
    >>> schema = Schema([Attribute("age")])
    >>> found = reidentify(people, anonymize(people, schema, k=3).frame, schema)
    >>> round(found.prosecutor.accuracy.value, 3), found.marketer.risks.round(3).tolist()
    (0.333, [0.333, 0.333, 0.333, 0.333, 0.333, 0.333])
    """
    started = time.perf_counter()
    columns = open_tables(
        original, released, control, schema, quasi_identifiers(schema), fewest=1, control_needed=False
    )
    tuples, sizes, _ = distinct(stack_cells(columns))
    runs, n = runs_of(columns), len(columns[0].original)
    points, weights, labels = distinct(codes_of_everybody(columns))
    counts, fitting, _ = kernel.count_matches(points, weights, tuples, sizes, runs)
    risks = of_anybody = np.where(counts > 0, 1.0 / np.maximum(counts, 1), 0.0)[labels]
    note = f"{(risks[:n] == 0).sum():,} of {n:,} people match no released row." if (risks[:n] == 0).any() else ""
    alone = "Without a control the population is the original table."
    if control is not None:
        # Equal rows stand for as many people, even if fewer of the population match, as with representatives.
        of_anybody = kernel.highest_match(points, tuples, 1.0 / np.maximum(fitting, sizes), runs)[labels]
        alone = ""

    def result(attack: str, of: np.ndarray, number: Callable[[np.ndarray], Any], note: str = note) -> AttackResult:
        found, by_chance = float(number(of[:n])), 1.0 / len(columns[0].released)
        return AttackResult(
            attack,
            "the released row of a person",
            f"the released table, and {', '.join(column.name for column in columns)} of a person",
            n,
            exactly(found),
            exactly(by_chance),
            exactly(found - by_chance),
            None if control is None else exactly(float(number(of[n:]))),
            risks=of[:n],
            seconds=time.perf_counter() - started,
            note=note,
        )

    return Reidentification(
        result("prosecutor", risks, np.max),
        result("journalist", of_anybody, np.max, f"{note} {alone}".strip()),
        result("marketer", risks, np.mean),
    )


def _describe(finding: Finding) -> RiskVerdict:
    by = {one.attack: one.accuracy.value for one in finding.results}
    highest, mean = by["prosecutor"], by["marketer"]
    sentence = (
        "With the quasi-identifiers of a person, an adversary finds their released row with a probability of at most "
        f"{show_share(highest)}, on average {show_share(mean)}."
    )
    limits = f"A probability above {show_share(TOLERABLE_RISK)} counts as a leak: that is a convention, not a law."
    return RiskVerdict(finding.name, highest > TOLERABLE_RISK, sentence, limits)


REIDENTIFICATION = AuditRisk(
    name="re-identification",
    on="release",
    position=110,
    element=RELEASE_ELEMENT,
    baseline="a random released row",
    control="people outside the release",
    advantage="accuracy - baseline",
    describe=_describe,
)


@attack_on(REIDENTIFICATION, "re-identification")
def audited(given: AuditInput, attribute: str) -> Reidentification:
    """Re-identify the members of an audit."""
    return reidentify(given.whole_members, given.released, given.schema, given.whole_controls)
