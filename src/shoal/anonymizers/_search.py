"""Choose how to release rows by trying: the better the model that is trained on a release, the better the release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from shoal.errors import ShoalError
from shoal.guides import fold_rows

MOST_SEARCH_ROWS = 20_000
"""The search takes a sample of larger tables, with k in proportion."""

Fold = tuple[np.ndarray, np.ndarray]
"""Rows to train on, and rows to score on."""


class Candidate(NamedTuple):
    """One way to release rows."""

    guide: str | float
    recoding: str


class Attempts(NamedTuple):
    """How candidates are tried; a score is -inf where it cannot be had."""

    on_part: Callable[[Candidate, Fold], float]
    """Release the rows to train on as if they were all, train on that, and score."""
    release: Callable[[Candidate], Any]
    """Release all rows, as will be done with the winner; None where that cannot be."""
    on_release: Callable[[Any, Fold], float]
    """Train on the released form of the rows to train on, and score."""


class Tried(NamedTuple):
    """A candidate, and how well the models did that were trained on its releases."""

    guide: str | float
    recoding: str
    round: int
    """1 if only parts were released as if they were all; 2 if it was the release of all rows that was tried."""
    score: float
    """The mean of the scores; those of different rounds cannot be compared."""
    scores: tuple[float, ...]


def search(
    guides: Sequence[str | float],
    recodings: Sequence[str],
    rounds: tuple[Sequence[Fold], Sequence[Fold]],
    attempts: Attempts,
    n_finalists: int,
    n_jobs: int,
) -> list[Tried]:
    """Try all guides on parts of the rows, then the very releases that the best of them make of all rows.

    The first round asks which guides do well on rows like these, and is fair to all of them: rows to score on had no
    part in what was released. The second asks which release happened to turn out well. With few and large groups that
    differs far more than the guides do. It is fair where groups do not follow the labels of the rows to score on; those
    of a guide that does follow them would be overrated, so only the best of the first round take part, unless groups
    are too few to follow anything that closely.

    Parameters
    ----------
    guides, recodings : sequences
        The first round has the first recoding only. Of equal ones the first wins.
    rounds : two lists of folds
    attempts : Attempts
    n_finalists : int
        Guides in the second round; if it has all of them, there is no first one.
    n_jobs : int
        Attempts side by side.

    Returns
    -------
    list of Tried
        Those of the second round, best first, then the others.
    """
    parallel = Parallel(n_jobs=n_jobs, prefer="threads")
    first: list[Tried] = []
    best = list(guides)
    if n_finalists < len(guides):
        firsts = [Candidate(guide, recodings[0]) for guide in guides]
        first = _ranked(firsts, firsts, rounds[0], attempts.on_part, parallel, 1)
        best = [tried.guide for tried in first[:n_finalists] if np.isfinite(tried.score)]
    finalists = [Candidate(guide, recoding) for guide in best for recoding in recodings]
    releases = parallel(delayed(attempts.release)(candidate) for candidate in finalists)
    second = _ranked(finalists, releases, rounds[1], attempts.on_release, parallel, 2)
    return second + [tried for tried in first if tried.guide not in best]


def search_folds(codes: np.ndarray, n_folds: int, regression: bool, seed: int) -> list[Fold]:
    """Folds of the rows, or of a sample where there are many."""
    rows = np.arange(len(codes))
    if n_folds > len(rows):
        raise ShoalError(f"cv={n_folds} asks for more parts than there are rows, {len(rows):,}: choose 3 or 5.")
    if len(rows) > MOST_SEARCH_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_SEARCH_ROWS, replace=False))
    splits = fold_rows(codes[rows], n_folds, regression=regression, seed=seed)
    folds = [(rows[known], rows[held_out]) for known, held_out in splits]
    # A class of few rows may be in one part only, and many models refuse to learn a single class.
    return [(known, held_out) for known, held_out in folds if regression or len(np.unique(codes[known])) > 1]


def _ranked(
    candidates: Sequence[Candidate],
    arguments: Sequence[Any],
    folds: Sequence[Fold],
    attempt: Callable[[Any, Fold], float],
    parallel: Any,
    number: int,
) -> list[Tried]:
    """Every candidate with its scores on every fold, best first."""
    found = parallel(delayed(attempt)(argument, fold) for argument in arguments for fold in folds)
    n = len(folds)
    scores = [tuple(found[i * n : (i + 1) * n]) for i in range(len(candidates))]
    tried = [
        Tried(*candidate, number, float(np.mean(own)), own) for candidate, own in zip(candidates, scores, strict=True)
    ]
    return sorted(tried, key=lambda one: -one.score)
