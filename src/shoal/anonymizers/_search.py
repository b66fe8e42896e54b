"""The search for a guide and a recoding by the score of a model that is trained on the release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from shoal.errors import ShoalError
from shoal.models.guides import fold_rows

MOST_SEARCH_ROWS = 20_000
"""The search uses a sample of larger tables, with k in proportion."""

Fold = tuple[np.ndarray, np.ndarray]
"""Training rows and scoring rows."""


class Candidate(NamedTuple):
    """A guide and a recoding."""

    guide: str | float
    recoding: str


class Attempts(NamedTuple):
    """Functions that score candidates; -inf if that is impossible."""

    on_part: Callable[[Candidate, Fold], float]
    """Release the training rows only, train on the release, and score on the scoring rows."""
    on_all: Callable[[Candidate], float]
    """Release all rows, as for the final result, train on the release, and score on the raw rows."""


class TriedCandidate(NamedTuple):
    """A candidate, and the scores of models that were trained on its releases."""

    guide: str | float
    recoding: str
    round: int
    """1 if only training rows were released; 2 if all rows were released."""
    score: float
    """Mean of the scores; those of different rounds are not comparable."""
    scores: tuple[float, ...]


def search(
    guides: Sequence[str | float],
    recodings: Sequence[str],
    folds: Sequence[Fold],
    attempts: Attempts,
    n_finalists: int,
    n_jobs: int,
) -> list[TriedCandidate]:
    """Find good guides with one recoding, then try the other recodings with the best of them.

    The final model is scored on the raw rows of its release. Each of these was hidden in a group, so the score predicts
    the score on new rows well, and it measures the quality of the individual release: that varies more than the guides
    do, especially with few groups. On Adult this score and the one on new rows have correlations of 0.8 to 0.99 over
    some 30 candidates, from k = 10 to 1,000.

    Small groups can follow the labels of single rows, and would be overrated. Folds then provide a first round that is
    fair to every guide: the scoring rows are not part of the release.

    Parameters
    ----------
    guides, recodings : sequences
        Guides are compared with the first recoding. Ties go to the first candidate.
    folds : sequence of folds
        Folds of the first round, which is skipped without any.
    attempts : Attempts
    n_finalists : int
        Number of guides that are tried with all recodings.
    n_jobs : int
        Number of parallel attempts.

    Returns
    -------
    list of TriedCandidate
        The candidates of the second round, best first, then the others.
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
    """Return folds of the rows, or of a sample of many rows."""
    if n_folds > len(codes):
        raise ShoalError(f"cv={n_folds} is more than the number of rows, {len(codes):,}: choose 3 or 5.")
    rows = sample_rows(len(codes), seed)
    splits = fold_rows(codes[rows], n_folds, regression=regression, seed=seed)
    folds = [(rows[known], rows[held_out]) for known, held_out in splits]
    # A rare class may be in one part only, and many models refuse a single class.
    return [(known, held_out) for known, held_out in folds if regression or len(np.unique(codes[known])) > 1]


def sample_rows(n_rows: int, seed: int) -> np.ndarray:
    """Return all rows, or a sample of many rows."""
    rows = np.arange(n_rows)
    if n_rows > MOST_SEARCH_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_SEARCH_ROWS, replace=False))
    return rows


def _tried(candidate: Candidate, number: int, scores: tuple[float, ...]) -> TriedCandidate:
    return TriedCandidate(*candidate, number, float(np.mean(scores)), scores)


def _ranked(tried: list[TriedCandidate]) -> list[TriedCandidate]:
    """Sort by score, the best first; ties keep their order."""
    return sorted(tried, key=lambda one: -one.score)


def _best_guides(tried: list[TriedCandidate], most: int) -> list[str | float]:
    return [one.guide for one in _ranked(tried)[:most] if np.isfinite(one.score)]
