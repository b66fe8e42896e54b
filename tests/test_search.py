"""The search: two rounds, of which the second decides."""

import numpy as np

from shoal.anonymizers._search import Attempts, Candidate, search

FOLDS = ([("first", 0), ("first", 1)], [("second", 0), ("second", 1)])


def run(on_part, on_release, guides=("a", "b", "c", "d"), recodings=("x", "y"), n_finalists=3, n_jobs=1):
    attempts = Attempts(on_part, lambda candidate: candidate, on_release)
    return search(guides, recodings, FOLDS, attempts, n_finalists, n_jobs)


def test_the_best_guides_of_the_first_round_meet_in_the_second():
    worth = {"a": 1, "b": 4, "c": 3, "d": 2}
    seen = []

    def on_part(candidate, fold):
        seen.append((candidate, fold))
        return worth[candidate.guide] + fold[1]

    found = run(on_part, lambda candidate, fold: -worth[candidate.guide] + 10 * (candidate.recoding == "y") + fold[1])
    assert {candidate.recoding for candidate, _ in seen} == {"x"}
    assert {fold[0] for _, fold in seen} == {"first"}
    assert [(tried.guide, tried.recoding) for tried in found] == [
        ("d", "y"), ("c", "y"), ("b", "y"), ("d", "x"), ("c", "x"), ("b", "x"), ("a", "x")
    ]  # fmt: skip
    assert [tried.round for tried in found] == [2] * 6 + [1]
    assert found[0].scores == (8, 9)
    assert found[0].score == 8.5
    assert found[-1].scores == (1, 2)


def test_the_second_round_scores_releases_on_its_own_folds():
    found = run(lambda *_: 0, lambda release, fold: {("second", 0): 1, ("second", 1): 2}[fold])
    assert all(tried.scores == (1, 2) for tried in found if tried.round == 2)


def test_if_all_meet_in_the_second_round_there_is_no_first():
    found = run(None, lambda candidate, _: ord(candidate.guide), n_finalists=4)
    assert [tried.guide for tried in found] == [*"ddccbbaa"]


def test_of_equal_ones_the_first_wins():
    found = run(lambda *_: 1, lambda *_: 1)
    assert [(tried.guide, tried.recoding) for tried in found[:3]] == [("a", "x"), ("a", "y"), ("b", "x")]
    assert run(lambda *_: 1, lambda *_: 1, n_jobs=2) == found


def test_what_cannot_be_had_does_not_meet_again():
    found = run(lambda candidate, _: 1 if candidate.guide == "c" else -np.inf, lambda *_: 1)
    assert [tried.guide for tried in found if tried.round == 2] == ["c", "c"]
    assert run(lambda *_: -np.inf, lambda *_: 1)[0] == (*Candidate("a", "x"), 1, -np.inf, (-np.inf, -np.inf))
