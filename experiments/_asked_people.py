"""The simulated people of malle_interactive.py and their rows, in a module of its own: processes keep its caches."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from _adult_targets import adult
from _simulated_people import Groups, K, make_person, rule_of_2017
from sklearn.metrics import mutual_info_score

from shoal import Schema, WeightSession

NAMES = ("age", "education-num", "hours-per-week", "workclass", "native-country", "sex", "race", "relationship",
         "occupation", "marital-status", "income")  # fmt: skip
LAST_YEARS = (2, 9, 13)
BLOCK = 3_000
SHOWN = 500
"""Rows that a person is asked about."""
ANSWERS = 25


class Block(NamedTuple):
    """A person's rows, and others that are predicted."""

    frame: Any
    schema: Schema
    target: np.ndarray
    test: Any
    test_target: np.ndarray


@cache
def block_of(target: str, person: int, rows: int | None) -> Block:
    """The 3,000 rows of a person, the first having the first, and the 6,000 rows of the next two to test."""
    frame, schema, truth = adult(target, NAMES, LAST_YEARS, binary_country=False)
    own, others = _rows_of(person)[:rows], np.concatenate([_rows_of(person + 1), _rows_of(person + 2)])
    # A class of a single row can be in no two parts of them.
    values, counts = np.unique(truth[own], return_counts=True)
    own = own[np.isin(truth[own], values[counts > 1])]
    return Block(frame[own], schema, truth[own], frame[others], truth[others])


def _rows_of(person: int) -> np.ndarray:
    return np.arange(BLOCK) + person % 10 * BLOCK


@cache
def weights_of(target: str, person: int, rows: int | None, category: str) -> dict[str, float]:
    """The weights of a category, 1 on average."""
    block = block_of(target, person, rows)
    names = block.schema.names
    if category == "equal":
        return dict.fromkeys(names, 1.0)
    thought = thoughts(target, person)
    if category == "bias":
        return thought
    asked, shown = make_person("careful", thought, person), block.frame[:SHOWN]
    if category == "iML, rule of 2017":
        learned = rule_of_2017(Groups(shown, block.schema), asked, person, ANSWERS)[-1]
        return dict(zip(names, learned.tolist(), strict=True))
    session = WeightSession(shown, block.schema, k=K, random_state=person)
    for _ in range(ANSWERS):
        session.answer(asked.decide(session.ask()))
    return session.weights


@cache
def thoughts(target: str, person: int) -> dict[str, float]:
    """What somebody thinks of each attribute: half knowledge of what tells of the target, half opinion."""
    frame, schema, truth = adult(target, NAMES, LAST_YEARS, binary_country=False)
    used = np.concatenate([_rows_of(person + ahead) for ahead in range(3)])
    rest = np.setdiff1d(np.arange(len(truth)), used)
    known = np.array([mutual_info_score(frame[name].to_numpy()[rest], truth[rest]) for name in schema.names])
    opinion = np.random.default_rng([5, person]).dirichlet(np.ones(len(known)))
    mixed = (known / known.sum() + opinion) / 2 * len(known)
    return dict(zip(schema.names, mixed.tolist(), strict=True))
