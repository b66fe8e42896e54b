"""The search: guides by one recoding, on parts where that is fairer, then the best of them with all recodings."""

from collections import Counter

import numpy as np

from shoal.anonymizers._search import Attempts, Candidate, search

FOLDS = [0, 1]


def run(on_part, on_all, guides=("a", "b", "c", "d"), recodings=("x", "y"), n_finalists=3, n_jobs=1, folds=FOLDS):
    return search(guides, recodings, folds, Attempts(on_part, on_all), n_finalists, n_jobs)


def test_the_best_guides_of_a_first_round_meet_in_the_second():
    worth = {"a": 1, "b": 4, "c": 3, "d": 2}
    seen = []

    def on_part(candidate, fold):
        seen.append((candidate, fold))
        return worth[candidate.guide] + fold

    found = run(on_part, lambda candidate: -worth[candidate.guide] + 10 * (candidate.recoding == "y"))
    assert Counter(seen) == {(Candidate(guide, "x"), fold): 1 for guide in "abcd" for fold in FOLDS}
    assert [(tried.guide, tried.recoding) for tried in found] == [
        ("d", "y"), ("c", "y"), ("b", "y"), ("d", "x"), ("c", "x"), ("b", "x"), ("a", "x")
    ]  # fmt: skip
    assert [tried.round for tried in found] == [2] * 6 + [1]
    assert (found[0].scores, found[0].score) == ((8,), 8)
    assert (found[-1].scores, found[-1].score) == ((1, 2), 1.5)


def test_without_folds_every_release_counts_and_none_is_tried_twice():
    worth = {"a": 1, "b": 4, "c": 3, "d": 2}
    seen = []

    def on_all(candidate):
        seen.append(candidate)
        return worth[candidate.guide] + (0.5 if candidate.recoding == "y" else 0)

    found = run(None, on_all, n_finalists=2, folds=[])
    assert Counter(seen) == {Candidate(*pair): 1 for pair in ("ax", "bx", "cx", "dx", "by", "cy")}
    assert ["".join(tried[:2]) for tried in found] == ["by", "bx", "cy", "cx", "dx", "ax"]
    assert {tried.round for tried in found} == {2}
    assert len(run(None, on_all, n_finalists=4, folds=[])) == 8


def test_of_equal_ones_the_first_wins():
    found = run(lambda *_: 1, lambda *_: 1)
    assert [(tried.guide, tried.recoding) for tried in found[:3]] == [("a", "x"), ("a", "y"), ("b", "x")]
    assert run(lambda *_: 1, lambda *_: 1, n_jobs=2) == found


def test_what_cannot_be_had_does_not_meet_again():
    found = run(lambda candidate, _: 1 if candidate.guide == "c" else -np.inf, lambda *_: 1)
    assert [tried.guide for tried in found if tried.round == 2] == ["c", "c"]
    assert run(lambda *_: -np.inf, lambda *_: 1)[0] == (*Candidate("a", "x"), 1, -np.inf, (-np.inf, -np.inf))
