"""Choose how to release rows by trying: the better the model that is trained on a release, the better the release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from shoal.errors import ShoalError
from shoal.models.guides import fold_rows

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
    on_all: Callable[[Candidate], float]
    """Release all rows, as will be done with the winner, train on that, and score on the same rows as they were."""


class TriedCandidate(NamedTuple):
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
    folds: Sequence[Fold],
    attempts: Attempts,
    n_finalists: int,
    n_jobs: int,
) -> list[TriedCandidate]:
    """Find good guides with one recoding, then try the others with the best of them.

    The model that would be trained in the end is scored on the rows behind its release, as they were. Each of them was
    hidden from it among others, so this tells well how it does on new rows, and it tells which release happened to turn
    out well: that differs more than the guides do, the more so the fewer groups there are. On Adult this score and that
    on new rows correlate by 0.8 to 0.99 over some 30 candidates, from k = 10 to 1,000.

    Small groups can follow the labels of single rows, and would be overrated. Folds then make a first round that is
    fair to every guide: rows to score on had no part in what was released.

    Parameters
    ----------
    guides, recodings : sequences
        Guides are compared by the first recoding. Of equal ones the first wins.
    folds : sequence of folds
        For a first round; without any there is none.
    attempts : Attempts
    n_finalists : int
        Guides that are tried with all recodings.
    n_jobs : int
        Attempts side by side.

    Returns
    -------
    list of Tried
        Those whose release of all rows was tried, best first, then the others.
    """
    parallel = Parallel(n_jobs=n_jobs, prefer="threads")

    def try_all(candidates: list[Candidate]) -> list[TriedCandidate]:
        found = parallel(delayed(attempts.on_all)(candidate) for candidate in candidates)
        return [_tried(candidate, 2, (score,)) for candidate, score in zip(candidates, found, strict=True)]

    opening = [Candidate(guide, recodings[0]) for guide in guides]
    if not folds:
        first = try_all(opening)
        finalists = _best_guides(first, n_finalists)
        rest = [Candidate(guide, recoding) for guide in finalists for recoding in recodings[1:]]
        return _ranked(first + try_all(rest))
    found = parallel(delayed(attempts.on_part)(candidate, fold) for candidate in opening for fold in folds)
    n = len(folds)
    first = [_tried(candidate, 1, tuple(found[i * n : (i + 1) * n])) for i, candidate in enumerate(opening)]
    finalists = _best_guides(first, n_finalists)
    second = try_all([Candidate(guide, recoding) for guide in finalists for recoding in recodings])
    return _ranked(second) + _ranked([tried for tried in first if tried.guide not in finalists])


def search_folds(codes: np.ndarray, n_folds: int, regression: bool, seed: int) -> list[Fold]:
    """Folds of the rows, or of a sample where there are many."""
    if n_folds > len(codes):
        raise ShoalError(f"cv={n_folds} asks for more parts than there are rows, {len(codes):,}: choose 3 or 5.")
    rows = sample_rows(len(codes), seed)
    splits = fold_rows(codes[rows], n_folds, regression=regression, seed=seed)
    folds = [(rows[known], rows[held_out]) for known, held_out in splits]
    # A class of few rows may be in one part only, and many models refuse to learn a single class.
    return [(known, held_out) for known, held_out in folds if regression or len(np.unique(codes[known])) > 1]


def sample_rows(n_rows: int, seed: int) -> np.ndarray:
    """All rows, or a sample where there are many."""
    rows = np.arange(n_rows)
    if n_rows > MOST_SEARCH_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_SEARCH_ROWS, replace=False))
    return rows


def _tried(candidate: Candidate, number: int, scores: tuple[float, ...]) -> TriedCandidate:
    return TriedCandidate(*candidate, number, float(np.mean(scores)), scores)


def _ranked(tried: list[TriedCandidate]) -> list[TriedCandidate]:
    """The best first; equal ones stay in their order."""
    return sorted(tried, key=lambda one: -one.score)


def _best_guides(tried: list[TriedCandidate], most: int) -> list[str | float]:
    return [one.guide for one in _ranked(tried)[:most] if np.isfinite(one.score)]
