"""Adult as people are asked about it, in a module of its own: processes keep what it caches."""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Any

import numpy as np
from _simulated_people import Groups, difference

from shoal.datasets import fetch_adult

NAMES = ["age", "education-num", "hours-per-week", "workclass", "native-country", "sex", "race", "relationship",
         "occupation", "income"]  # fmt: skip


@cache
def people_of_adult(rows: int | None) -> tuple[Any, Any]:
    """The complete training rows, or the first of them, and their schema."""
    frame, schema = fetch_adult("train", drop_missing=True, quasi=NAMES)
    return frame[:rows], schema


@cache
def groups_of_adult(rows: int | None) -> Groups:
    return Groups(*people_of_adult(rows))


@cache
def unseen_questions(rows: int | None) -> np.ndarray:
    """Differences of what two groups lose, of questions that nobody was asked."""
    questions = groups_of_adult(rows).random_questions(np.random.default_rng(10**6))
    return np.array([difference(question) for question in islice(questions, 400 if rows is None else 50)])
