"""Choose how to release rows by trying: the better the model that is trained on a release, the better the release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

N_FINALISTS = 2
"""Guides that are tried a second time, on other parts of the rows: differences between the best are mostly luck."""

Fold = tuple[np.ndarray, np.ndarray]


class Candidate(NamedTuple):
    """One way to release rows."""

    guide: str | float
    recoding: str


class Tried(NamedTuple):
    """A candidate, and how well the models did that were trained on its releases."""

    guide: str | float
    recoding: str
    score: float
    """The mean over all parts. Of a recoding that was tried in the second round only: the score of the first recoding
    with the same guide, and by how much it was better where both were tried."""
    scores: tuple[float, ...]


def search(
    guides: Sequence[str | float],
    recodings: Sequence[str],
    rounds: tuple[Sequence[Fold], Sequence[Fold]],
    attempt: Callable[[Candidate, Fold], float],
    n_jobs: int,
) -> list[Tried]:
    """Try all guides with the first recoding, then the best ones with all recodings on other parts of the rows.

    Parameters
    ----------
    guides, recodings : sequences
        Of equal ones the first wins.
    rounds : two lists of folds
        Each fold the rows to release and train on, and those to score on.
    attempt : function
        The score of a candidate on a fold; -inf where it cannot be had.
    n_jobs : int
        Attempts side by side.

    Returns
    -------
    list of Tried
        Best first; behind those that were tried in both rounds the others.
    """
    first = _run([Candidate(guide, recodings[0]) for guide in guides], rounds[0], attempt, n_jobs)
    ranked = sorted(first, key=lambda candidate: -_mean(first[candidate]))
    best = [candidate.guide for candidate in ranked[:N_FINALISTS] if np.isfinite(_mean(first[candidate]))]
    second = _run([Candidate(guide, recoding) for guide in best for recoding in recodings], rounds[1], attempt, n_jobs)
    finalists = [_judge(candidate, first, second, recodings[0]) for candidate in second]
    others = [Tried(*c, _mean(first[c]), tuple(first[c])) for c in ranked if c.guide not in best]
    return sorted(finalists, key=lambda tried: -tried.score) + others


def _run(
    candidates: Sequence[Candidate], folds: Sequence[Fold], attempt: Callable[[Candidate, Fold], float], n_jobs: int
) -> dict[Candidate, list[float]]:
    """Scores of every candidate on every fold."""
    found: Any = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(attempt)(candidate, fold) for candidate in candidates for fold in folds
    )
    n = len(folds)
    return {candidate: found[i * n : (i + 1) * n] for i, candidate in enumerate(candidates)}


def _judge(
    candidate: Candidate, first: dict[Candidate, list[float]], second: dict[Candidate, list[float]], usual: str
) -> Tried:
    own = second[candidate]
    same_guide = candidate._replace(recoding=usual)
    both = [*first[same_guide], *second[same_guide]]
    if candidate == same_guide:
        return Tried(*candidate, _mean(both), tuple(both))
    gain = _mean(own) - _mean(second[same_guide])
    return Tried(*candidate, _mean(both) + gain if np.isfinite(gain) else -np.inf, tuple(own))


def _mean(scores: Sequence[float]) -> float:
    return float(np.mean(scores)) if len(scores) else -np.inf
