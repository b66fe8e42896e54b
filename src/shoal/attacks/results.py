"""What an attack found: one shape for all of them, with a baseline, a control and intervals."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from shoal.intervals import CONFIDENCE, Interval, Z, share_interval

LOW_RATES = 0.01, 0.001
"""False alarms at which hits are counted."""
CURVE_POINTS = 400


class Curve(NamedTuple):
    """Hits against false alarms, as the threshold of a score falls."""

    false_alarms: np.ndarray
    hits: np.ndarray


class AttackResult(NamedTuple):
    """How well an adversary guesses a secret from a view, beside one who lacks the view."""

    attack: str
    """Name of the attack, such as ``"loss"``."""
    secret: str
    """What is guessed, such as ``"membership"`` or ``"the value of age"``."""
    view: str
    """What the adversary sees and the baseline does not."""
    rows: int
    """Guesses that were judged; none of these rows had a part in training the attack."""
    accuracy: Interval
    """Share of right guesses; where two groups of rows are told apart, each counts one half."""
    baseline: Interval
    """The same of the adversary who lacks the view."""
    advantage: Interval
    """Accuracy less that of the baseline."""
    control: Interval | None = None
    """Accuracy on rows that the model, or the release, never had, where that means something."""
    precision: Interval | None = None
    recall: Interval | None = None
    auc: Interval | None = None
    """Area under the curve of hits against false alarms; 0.5 is chance."""
    hits_at_1_percent: Interval | None = None
    """Rate of hits at a rate of false alarms of 1 %."""
    hits_at_01_percent: Interval | None = None
    """Rate of hits at a rate of false alarms of 0.1 %."""
    curve: Curve | None = None
    risks: np.ndarray | None = None
    """A score for each row that was attacked, the higher the more exposed; NaN for rows that trained the attack."""
    seconds: float = 0.0
    note: str = ""
    """What limits this result, in a sentence."""

    @property
    def beats_baseline(self) -> bool:
        """Whether the view clearly helps: the interval of the advantage lies above zero."""
        return self.advantage.low > 0

    @property
    def warning(self) -> str:
        """A sentence if the attack is no better than its baseline: it then says nothing about the risk of others."""
        return "" if self.beats_baseline else f"The attack {self.attack!r} is not clearly better than its baseline."

    def most_exposed(self, n: int = 10) -> np.ndarray:
        """Numbers of the rows that are most exposed, the most exposed first."""
        if self.risks is None:
            return np.empty(0, np.intp)
        known = np.flatnonzero(~np.isnan(self.risks))
        return known[np.argsort(-self.risks[known], kind="stable")[:n]]

    def facts(self) -> dict[str, Any]:
        """The numbers by name, without the curve and the scores of single rows."""
        left_out = ("curve", "risks")
        plain = {k: _plain(v) for k, v in self._asdict().items() if k not in left_out}
        return plain | {"beats_baseline": self.beats_baseline, "warning": self.warning}


def judge_two_groups(positive: np.ndarray, negative: np.ndarray, threshold: float) -> dict[str, Any]:
    """Numbers of an attack that tells two groups apart by a score, above a threshold that was set on other rows.

    Parameters
    ----------
    positive, negative : array
        Scores of rows that are in the group, such as members, and of rows that are not.
    threshold : float
        Scores above it are taken for the group.

    Returns
    -------
    dict
        Fields of :class:`AttackResult`, against the baseline that tosses a coin.
    """
    hits, alarms = int((positive > threshold).sum()), int((negative > threshold).sum())
    recall = share_interval(hits, len(positive))
    quiet = share_interval(len(negative) - alarms, len(negative))
    accuracy = mean_of_two(recall, quiet)
    curve = draw_curve(positive, negative)
    at_1, at_01 = (hits_interval(positive, negative, rate) for rate in LOW_RATES)
    return {
        "rows": len(positive) + len(negative),
        "accuracy": accuracy,
        "baseline": Interval(0.5, 0.5, 0.5),
        "advantage": Interval(accuracy.value - 0.5, accuracy.low - 0.5, accuracy.high - 0.5),
        # As if both groups were of one size, so that it can be compared between data sets.
        "precision": _balanced_precision(recall, quiet) if hits + alarms else None,
        "recall": recall,
        "auc": auc_interval(positive, negative),
        "hits_at_1_percent": at_1,
        "hits_at_01_percent": at_01,
        "curve": curve,
    }


def best_threshold(positive: np.ndarray, negative: np.ndarray) -> float:
    """The threshold above which most of one group and least of the other lie; the middle between two scores."""
    scores = np.concatenate([positive, negative])
    step = np.concatenate([np.full(len(positive), 1.0 / len(positive)), np.full(len(negative), -1.0 / len(negative))])
    order = np.argsort(-scores, kind="stable")
    scores, gain = scores[order], np.cumsum(step[order])
    ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    best = ends[gain[ends].argmax()]
    if gain[best] <= 0:
        return float(scores[0])
    following = scores[best + 1] if best + 1 < len(scores) else scores[best] - 1.0
    return float((scores[best] + following) / 2) if np.isfinite(scores[best] + following) else float(following)


def mean_of_two(one: Interval, other: Interval) -> Interval:
    """The mean of two independent numbers, its interval from theirs (the method of variance estimates recovered)."""
    value = (one.value + other.value) / 2
    low = math.hypot(one.value - one.low, other.value - other.low) / 2
    high = math.hypot(one.high - one.value, other.high - other.value) / 2
    return Interval(value, value - low, value + high)


def difference(one: Interval, other: Interval) -> Interval:
    """One number less another that is independent of it, with an interval from theirs."""
    value = one.value - other.value
    low = math.hypot(one.value - one.low, other.high - other.value)
    high = math.hypot(one.high - one.value, other.value - other.low)
    return Interval(value, value - low, value + high)


def auc_interval(positive: np.ndarray, negative: np.ndarray) -> Interval:
    """The area under the curve with DeLong's interval, on the scale of its logit, from ranks: ties count one half."""
    n, m = len(positive), len(negative)
    ranks = stats.rankdata(np.concatenate([positive, negative]))
    above = (ranks[:n] - stats.rankdata(positive)) / m  # for each of the group, the share of the others below it
    below = 1.0 - (ranks[n:] - stats.rankdata(negative)) / n
    auc = float(above.mean())
    variance = above.var(ddof=1) / n + below.var(ddof=1) / m if n > 1 and m > 1 else 0.25
    inside = min(max(auc, 0.5 / n), 1 - 0.5 / n)
    reach = Z * math.sqrt(variance) / (inside * (1 - inside))
    logit = math.log(inside / (1 - inside))
    low, high = (1 / (1 + math.exp(-min(max(edge, -700.0), 700.0))) for edge in (logit - reach, logit + reach))
    return Interval(auc, min(low, auc), max(high, auc))


def hits_interval(positive: np.ndarray, negative: np.ndarray, rate: float) -> Interval | None:
    """The rate of hits at a rate of false alarms; None where so few rows cannot tell.

    The interval is that of the share of hits, widened by where the threshold may truly lie: the share of all others
    above the j-th largest of n scores has the distribution Beta(j, n - j + 1), whatever the scores are.
    """
    n = len(negative)
    if n * rate < 1:
        return None
    value = hits_at(positive, negative, rate)
    own = share_interval(round(value * len(positive)), len(positive))
    tail = (1 - CONFIDENCE) / 2
    ranks = np.arange(1, min(n, math.ceil(rate * n + 8 * math.sqrt(rate * n) + 10)) + 1)
    below = stats.beta.cdf(rate, ranks, n - ranks + 1)
    strict, lax = int((below >= 1 - tail).sum()), int((below > tail).sum()) + 1
    descending = np.sort(negative)[::-1]
    least = float((positive > descending[strict - 1]).mean()) if strict > 0 else 0.0
    most = float((positive > descending[min(lax, n) - 1]).mean())
    down = math.hypot(own.value - own.low, max(value - least, 0.0))
    up = math.hypot(own.high - own.value, max(most - value, 0.0))
    return Interval(value, max(value - down, 0.0), min(value + up, 1.0))


def hits_at(positive: np.ndarray, negative: np.ndarray, rate: float) -> float:
    """The rate of hits above a threshold that no more than this rate of the others exceed."""
    allowed = math.floor(rate * len(negative))
    threshold = np.partition(negative, len(negative) - allowed - 1)[len(negative) - allowed - 1]
    return float((positive > threshold).mean())


def draw_curve(positive: np.ndarray, negative: np.ndarray) -> Curve:
    """Hits against false alarms, thinned to a few hundred points, more of them where false alarms are rare."""
    scores = np.concatenate([positive, negative])
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    member = np.concatenate([np.ones(len(positive)), np.zeros(len(negative))])[order]
    hits = np.concatenate([[0.0], np.cumsum(member)[ends] / len(positive)])
    alarms = np.concatenate([[0.0], np.cumsum(1 - member)[ends] / len(negative)])
    if len(alarms) <= CURVE_POINTS:
        return Curve(alarms, hits)
    half = CURVE_POINTS // 2
    wanted = np.concatenate([np.geomspace(1 / len(negative), 1, half), np.linspace(0, 1, half)])
    kept = np.unique(np.clip(np.searchsorted(alarms, wanted, side="right") - 1, 0, len(alarms) - 1))
    kept = np.unique(np.concatenate([[0], kept, [len(alarms) - 1]]))
    return Curve(alarms[kept], hits[kept])


def _balanced_precision(recall: Interval, quiet: Interval) -> Interval:
    def precision(hits: float, alarms: float) -> float:
        return hits / (hits + alarms) if hits + alarms > 0 else 0.0

    value = precision(recall.value, 1 - quiet.value)
    return Interval(value, precision(recall.low, 1 - quiet.low), precision(recall.high, 1 - quiet.high))


def _plain(value: Any) -> Any:
    return value._asdict() if isinstance(value, Interval) else value
