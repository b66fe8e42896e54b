"""Results of attacks: one shape for all of them, with a baseline, a control and intervals."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from shoal.intervals import CONFIDENCE, Interval, Z, share_interval

LOW_RATES = 0.01, 0.001
"""False positive rates at which true positives are counted."""
CURVE_POINTS = 400


class Curve(NamedTuple):
    """True positive rate (``hits``) against false positive rate (``false_alarms``), for falling thresholds."""

    false_alarms: np.ndarray
    hits: np.ndarray


class AttackResult(NamedTuple):
    """Success of an adversary at guessing a secret from a view, compared with a baseline that lacks the view."""

    attack: str
    """Name of the attack, such as ``"loss"``."""
    secret: str
    """Object of the guess, such as ``"membership"`` or ``"the value of age"``."""
    view: str
    """Information that the adversary has and the baseline lacks."""
    rows: int
    """Number of judged guesses; none of these rows took part in training the attack."""
    accuracy: Interval
    """Share of correct guesses; balanced accuracy where members are distinguished from controls."""
    baseline: Interval
    """Accuracy of the adversary who lacks the view."""
    advantage: Interval
    """Gain over the baseline or, where attacks on a release are compared with a control, over that."""
    control: Interval | None = None
    """Accuracy on rows that neither the model nor the release contains, where that means something."""
    precision: Interval | None = None
    recall: Interval | None = None
    auc: Interval | None = None
    """Area under the ROC curve; 0.5 is chance."""
    hits_at_1_percent: Interval | None = None
    """True positive rate at a false positive rate of 1 %."""
    hits_at_01_percent: Interval | None = None
    """True positive rate at a false positive rate of 0.1 %."""
    curve: Curve | None = None
    risks: np.ndarray | None = None
    """Score of each attacked row, higher if more exposed; NaN for rows that trained the attack."""
    seconds: float = 0.0
    note: str = ""
    """Limits of this result, in a sentence."""

    @property
    def beats_baseline(self) -> bool:
        """True if the view clearly helps: the interval of the advantage lies above zero."""
        return self.advantage.low > 0

    @property
    def warning(self) -> str:
        """A sentence if the attack is not clearly better than its baseline: other attacks may still succeed."""
        return "" if self.beats_baseline else f"The attack {self.attack!r} is not clearly better than its baseline."

    def most_exposed(self, n: int = 10) -> np.ndarray:
        """Return the numbers of the most exposed rows in descending order of exposure."""
        if self.risks is None:
            return np.empty(0, np.intp)
        known = np.flatnonzero(~np.isnan(self.risks))
        return known[np.argsort(-self.risks[known], kind="stable")[:n]]

    def facts(self) -> dict[str, Any]:
        """Return the numbers by name, without the curve and the scores of single rows."""
        left_out = ("curve", "risks")
        plain = {k: _plain(v) for k, v in self._asdict().items() if k not in left_out}
        return plain | {"beats_baseline": self.beats_baseline, "warning": self.warning}


def show_points(share: Interval) -> str:
    """Return a difference of shares in percentage points, with its interval."""
    return f"{100 * share.value:+.1f} ({100 * share.low:+.1f} to {100 * share.high:+.1f})"


def judge_two_groups(positive: np.ndarray, negative: np.ndarray, threshold: float) -> dict[str, Any]:
    """Judge an attack that distinguishes two groups by a score, with a threshold that was set on other rows.

    Parameters
    ----------
    positive, negative : array
        Scores of rows that are in the group, such as members, and of rows that are not.
    threshold : float
        Rows with a higher score are assigned to the group.

    Returns
    -------
    dict
        Fields of :class:`AttackResult`, compared with the baseline of random guesses.
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
        # As if both groups had the same size, so that data sets can be compared.
        "precision": _balanced_precision(recall, quiet) if hits + alarms else None,
        "recall": recall,
        "auc": auc_interval(positive, negative),
        "hits_at_1_percent": at_1,
        "hits_at_01_percent": at_01,
        "curve": curve,
    }


def best_threshold(positive: np.ndarray, negative: np.ndarray) -> float:
    """Return the threshold with the highest balanced accuracy, midway between two scores."""
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
    """Return the mean of two independent numbers, with an interval by the method of variance estimates recovered."""
    value = (one.value + other.value) / 2
    low = math.hypot(one.value - one.low, other.value - other.low) / 2
    high = math.hypot(one.high - one.value, other.high - other.value) / 2
    return Interval(value, value - low, value + high)


def difference(one: Interval, other: Interval) -> Interval:
    """Return the difference of two independent numbers, with an interval from theirs."""
    value = one.value - other.value
    low = math.hypot(one.value - one.low, other.high - other.value)
    high = math.hypot(one.high - one.value, other.value - other.low)
    return Interval(value, value - low, value + high)


def corrected(interval: Interval, n_tries: int) -> Interval:
    """Widen an interval for the best of several tries (Bonferroni), on the scale of a normal distribution."""
    if n_tries <= 1:
        return interval
    wider = float(stats.norm.ppf(1 - (1 - CONFIDENCE) / (2 * n_tries)) / Z)
    value = interval.value
    return Interval(value, value - wider * (value - interval.low), value + wider * (interval.high - value))


def auc_interval(positive: np.ndarray, negative: np.ndarray) -> Interval:
    """Return the area under the ROC curve from ranks, with DeLong's interval on the logit scale; ties count 0.5."""
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
    """Return the true positive rate at a false positive rate; None if there are too few rows to estimate it.

    The interval is that of the true positive rate, widened by the uncertainty of the threshold: the share of all
    negatives above the j-th largest of n scores has the distribution Beta(j, n - j + 1), whatever the scores are.
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
    """Return the true positive rate above the lowest threshold that at most this rate of the negatives exceeds."""
    allowed = math.floor(rate * len(negative))
    threshold = np.partition(negative, len(negative) - allowed - 1)[len(negative) - allowed - 1]
    return float((positive > threshold).mean())


def draw_curve(positive: np.ndarray, negative: np.ndarray) -> Curve:
    """Return the ROC curve, thinned to a few hundred points, more of them where false positives are rare."""
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
