"""What audits say: careful sentences, and which part of the evidence answers which question of the regulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from scipy import stats

from shoal.attacks.results import AttackResult
from shoal.intervals import CONFIDENCE, Interval, Z
from shoal.reports.report import show_share

PLOT_WIDTH, PLOT_HEIGHT = 470.0, 330.0
LOWEST_RATE = 1e-3
"""Where the axes of a curve begin; both are logarithms."""
MOST_LINES = 4
TOLERABLE_RISK = 0.2
"""Chance to find a person's row above which it counts as found: groups of five, as many guidelines ask for."""


class RiskVerdict(NamedTuple):
    """What the attacks on one risk say together."""

    risk: str
    found: bool
    """Whether something clearly leaks."""
    sentence: str
    limits: str


def describe_membership(found: Sequence[AttackResult]) -> RiskVerdict:
    """What attacks on membership say together."""
    strongest = max(found, key=_area)
    best = corrected(strongest.auc or strongest.accuracy, len(found))
    clearly = best.low > 0.5
    share = f"{show_share(strongest.accuracy.value)} of the rows right (50 % by chance)"
    if clearly:
        few = ""
        if strongest.hits_at_1_percent is not None:
            few = f", and finds {show_share(strongest.hits_at_1_percent.value)} of the members at 1 % of false alarms"
        sentence = f"The strongest of {len(found)} attacks, {strongest.attack}, gets {share}{few}."
    else:
        sentence = (
            f"None of {len(found)} attacks was clearly better than chance; the strongest, {strongest.attack}, has an "
            f"area under the curve of {best.value:.3f} ({best.low:.3f} to {best.high:.3f})."
        )
    limits = (
        "The adversary knew half of the members and controls. Intervals are widened for the number of attacks, and say "
        "nothing about attacks that were not tried."
    )
    return RiskVerdict("membership", clearly, sentence, limits)


def describe_secret(risk: str, found: Sequence[AttackResult]) -> RiskVerdict:
    """What attacks on a value of the training rows say together."""
    using = [one for one in found if one.attack != "ideal"] or list(found)
    strongest = max(using, key=lambda one: one.advantage.value)
    gain = corrected(strongest.advantage, len(using))
    clearly = gain.low > 0
    without = f"where {show_share(strongest.baseline.value)} are without the model"
    words = f"{show_share(strongest.accuracy.value)} right, {without}"
    if clearly:
        sentence = f"The model helps to guess the {risk}: {strongest.attack} gets {words}."
    else:
        sentence = f"The model does not clearly help to guess the {risk}: the strongest attack gets {words}."
    if strongest.control is not None:
        memory = strongest.accuracy.value - strongest.control.value
        sentence += f" On people it was not trained on it gets {show_share(strongest.control.value)}"
        sentence += ", so most of it is not memory." if memory < 0.02 else "."
    limits = "The adversary knew all other values of a person, and learned from others whose value is known."
    return RiskVerdict(risk, clearly, sentence, limits)


def describe_matches(found: Sequence[AttackResult]) -> RiskVerdict:
    """What matching people to released rows says."""
    by = {one.attack: one.accuracy.value for one in found}
    highest, mean = by["prosecutor"], by["marketer"]
    sentence = (
        f"Who knows somebody's quasi-identifiers finds their released row with a chance of {show_share(highest)} at "
        f"most, {show_share(mean)} on average."
    )
    limits = f"Counted as a leak above {show_share(TOLERABLE_RISK)}: that is a convention, not a law."
    return RiskVerdict("re-identification", highest > TOLERABLE_RISK, sentence, limits)


def describe_table(risk: str, found: Sequence[AttackResult]) -> RiskVerdict:
    """What attacks on a release say together."""
    strongest = max(found, key=lambda one: one.advantage.value)
    clearly = corrected(strongest.advantage, len(found)).low > 0
    rate = f"{show_share(strongest.accuracy.value)} of the guesses are right"
    against = "" if strongest.control is None else f", {show_share(strongest.control.value)} of people not in it"
    lead = "The release helps" if clearly else "The release does not clearly help"
    sentence = f"{lead} with {risk}: by {strongest.attack} {rate}{against}."
    limits = "The adversary knew the original values of the columns named, and nothing else about a person."
    return RiskVerdict(risk, clearly, sentence, limits)


def corrected(interval: Interval, n_tries: int) -> Interval:
    """An interval as wide as the best of several tries asks for (Bonferroni), on the scale of a normal distribution."""
    if n_tries <= 1:
        return interval
    wider = float(stats.norm.ppf(1 - (1 - CONFIDENCE) / (2 * n_tries)) / Z)
    value = interval.value
    return Interval(value, value - wider * (value - interval.low), value + wider * (interval.high - value))


def strongest_curves(found: Sequence[AttackResult]) -> list[AttackResult]:
    """The strongest attacks that have a curve, the strongest first."""
    return sorted((one for one in found if one.curve is not None), key=_area, reverse=True)[:MOST_LINES]


def roc_lines(found: Sequence[AttackResult]) -> list[dict[str, Any]]:
    """The strongest attacks as lines of a drawing with logarithmic axes."""
    lines = []
    for one in strongest_curves(found):
        assert one.curve is not None
        points = [
            (_place(alarms, PLOT_WIDTH), PLOT_HEIGHT - _place(hits, PLOT_HEIGHT))
            for alarms, hits in zip(one.curve.false_alarms, one.curve.hits, strict=True)
            if hits > 0
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append({"name": one.attack, "path": path, "auc": one.auc})
    return lines


def _place(rate: float, length: float) -> float:
    decades = -math.log10(LOWEST_RATE)
    return length * (1 + math.log10(max(rate, LOWEST_RATE)) / decades)


def _area(one: AttackResult) -> float:
    return one.auc.value if one.auc is not None else one.accuracy.value


def _tested(audit: Any, *risks: str) -> str:
    said = [one.sentence for one in audit.verdicts if any(one.risk.startswith(risk) for risk in risks)]
    return " ".join(said) or "Not tested here."


OPINION: tuple[tuple[str, Callable[[Any], str]], ...] = (
    (
        "Resistance to membership inference",
        lambda audit: _tested(audit, "membership"),
    ),
    (
        "Resistance to attribute inference and model inversion",
        lambda audit: _tested(audit, "value of "),
    ),
    (
        "Singling out, linking and inference in the training data as released (also Opinion 05/2014 of the Article 29 "
        "Working Party)",
        lambda audit: (
            _tested(audit, "re-identification", "singling", "linkability")
            + " "
            + " ".join(one.sentence for one in audit.verdicts if one.risk.endswith("from the release"))
        ),
    ),
    (
        "Regurgitation, exfiltration and reconstruction of training data",
        lambda audit: "Not tested here: a predictor of tables generates no rows, but whoever holds it may try.",
    ),
    (
        "Selection of sources, preparation and minimisation of the data, design of the model, measures on its outputs",
        lambda audit: "Not a matter of testing: document what was done, such as the report of a release.",
    ),
)
"""Elements by which Opinion 28/2024 of the European Data Protection Board has authorities judge a model's anonymity."""

NOT_LOOKED_AT = (
    "Attacks that nobody has published yet, and adversaries with other knowledge than is stated for each attack.",
    "People who are rare among the rows: averages can hide that some of them are exposed; the list of rows tells more.",
    "What is done with the model: limits on queries, contracts and access are measures of their own.",
)
