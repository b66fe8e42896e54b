"""Attacks by who knows quasi-identifiers exactly: find the released rows that fit a person, and read what they say."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal._kernels import groups
from shoal._kernels import matching as kernel
from shoal.attacks._matching import Compared, distinct, open_tables, runs_of, stack_cells, stack_codes
from shoal.attacks.results import AttackResult
from shoal.data.schema import Schema, require_schema
from shoal.errors import DataError, SchemaError
from shoal.intervals import exactly, paired_difference, share_right


class Reidentification(NamedTuple):
    """The three adversaries who match people to released rows; ``risks`` is 1 / matching rows for each person."""

    prosecutor: AttackResult
    """Knows that the person is in the table: the highest risk of all rows."""
    journalist: AttackResult
    """Looks for anybody of the population: the highest risk, where matches among the population count."""
    marketer: AttackResult
    """Matches as many as possible: the mean risk."""


def reidentify(original: Any, released: Any, schema: Schema, control: Any = None) -> Reidentification:
    """Match people to the released rows whose quasi-identifiers all contain their values.

    Parameters
    ----------
    original, released : pandas, polars or pyarrow table
    schema : Schema
        Its quasi-identifiers are what the adversaries know.
    control : table, optional
        People who are not in the release: together with the original table they are the population of the journalist,
        and each result says under ``control`` what would be claimed of them.

    Returns
    -------
    Reidentification
        Three AttackResults. All rows are matched, so that their numbers are exact, and intervals have no width. A row
        that no released row fits has the risk 0.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Attribute, Schema, anonymize
    >>> from shoal.attacks.reidentification import reidentify
    >>> people = pl.DataFrame({"age": [25, 27, 31, 45, 47, 52]})
    >>> schema = Schema([Attribute("age")])
    >>> found = reidentify(people, anonymize(people, schema, k=3).frame, schema)
    >>> round(found.prosecutor.accuracy.value, 3), found.marketer.risks.round(3).tolist()
    (0.333, [0.333, 0.333, 0.333, 0.333, 0.333, 0.333])
    """
    started = time.perf_counter()
    columns = open_tables(original, released, control, schema, _quasi(schema), fewest=1, control_needed=False)
    tuples, sizes, _ = distinct(stack_cells(columns))
    runs, n = runs_of(columns), len(columns[0].original)
    points, weights, labels = distinct(_everybody(columns))
    counts, fitting, _ = kernel.count_matches(points, weights, tuples, sizes, runs)
    risks = of_anybody = np.where(counts > 0, 1.0 / np.maximum(counts, 1), 0.0)[labels]
    note = f"No released row fits {(risks[:n] == 0).sum():,} of {n:,} people." if (risks[:n] == 0).any() else ""
    alone = "Without a control the population is the original table."
    if control is not None:
        # Equal rows stand for as many people, even if fewer of the population fit, as with rows that represent others.
        of_anybody = kernel.highest_match(points, tuples, 1.0 / np.maximum(fitting, sizes), runs)[labels]
        alone = ""

    def result(attack: str, of: np.ndarray, number: Callable[[np.ndarray], Any], note: str = note) -> AttackResult:
        found, by_chance = float(number(of[:n])), 1.0 / len(columns[0].released)
        return AttackResult(
            attack,
            "which released row is that of a person",
            f"the released table, and {', '.join(column.name for column in columns)} of a person",
            n,
            exactly(found),
            exactly(by_chance),
            exactly(found - by_chance),
            None if control is None else exactly(float(number(of[n:]))),
            risks=of[:n],
            seconds=time.perf_counter() - started,
            note=note,
        )

    return Reidentification(
        result("prosecutor", risks, np.max),
        result("journalist", of_anybody, np.max, f"{note} {alone}".strip()),
        result("marketer", risks, np.mean),
    )


def disclose(
    original: Any, released: Any, schema: Schema, sensitive: str | None = None, control: Any = None
) -> AttackResult:
    """Guess a sensitive value: the most frequent one among the released rows that a person fits.

    The adversary knows all quasi-identifiers exactly; the baseline guesses the most frequent value of the release.

    Parameters
    ----------
    original, released : pandas, polars or pyarrow table
    schema : Schema
    sensitive : str, optional
        Which attribute; by default the sensitive one of the schema.
    control : table, optional
        People who are not in the release.

    Returns
    -------
    AttackResult
        ``risks`` is the share of each person's true value among the rows that fit: what is believed of them. The note
        says how many people all of whose rows share one value (homogeneity), and by how much belief in a true value
        rises at most above its share in the release (skewness).

    Examples
    --------
    >>> from shoal import anonymize
    >>> from shoal.attacks.reidentification import disclose
    >>> from shoal.datasets import make_census
    >>> census = make_census(2000)
    >>> found = disclose(census.frame, anonymize(census.frame, census.schema, k=5).frame, census.schema)
    >>> found.secret, found.accuracy.value > found.baseline.value
    ('the value of condition', True)
    """
    started = time.perf_counter()
    names, secret = _quasi_and_secret(schema, sensitive)
    *columns, hidden = open_tables(original, released, control, schema, [*names, secret], control_needed=False)
    n = len(hidden.original)
    beliefs = _believe(columns, hidden)
    hits, naive = beliefs.guess == beliefs.truth, beliefs.truth == 0
    others = None if hidden.control is None else share_right(hits[n:])
    note = (
        f"All rows that fit share one value for {beliefs.one_value[:n].mean():.1%} of the people; "
        f"belief in a true value rises by {max(float(beliefs.gain[:n].max()), 0.0):.2f} at most."
    )
    return AttackResult(
        "disclosure",
        f"the value of {secret}",
        f"the released table, and {', '.join(names)} of a person",
        n,
        share_right(hits[:n]),
        share_right(naive[:n]),
        paired_difference(hits[:n], naive[:n]),
        others,
        risks=beliefs.in_truth[:n],
        seconds=time.perf_counter() - started,
        note=note,
    )


class _Beliefs(NamedTuple):
    """What an adversary believes of people, those of the original table first; classes count from the most frequent."""

    guess: np.ndarray
    truth: np.ndarray
    """The class of each person; -1 if nobody of the release has it."""
    in_truth: np.ndarray
    """Share of the true class among the rows that fit."""
    gain: np.ndarray
    """By how much that is more than the share of the class in the release."""
    one_value: np.ndarray
    """Whether all rows that fit are of one class."""


def _believe(columns: Sequence[Compared], hidden: Compared) -> _Beliefs:
    secrets, classes, prior = _classes(hidden)
    truth = classes[_everybody([hidden])[:, 0]]
    points, _, labels = distinct(np.column_stack([_everybody(columns), truth]))
    tuples, _, numbers = distinct(stack_cells(columns))
    order, starts = groups.order_by_label(numbers, len(tuples))
    at, values, counts = groups.tally(secrets, order, starts, np.empty(0, bool), len(prior))
    people, wanted = points[:, :-1].copy(), points[:, -1].copy()
    found = kernel.tally_matches(people, wanted, tuples, at, values, counts, len(prior), runs_of(columns))
    total, guess, most, right = (one[labels] for one in found)
    in_truth = right / np.maximum(total, 1)
    gain = np.where((total > 0) & (truth >= 0), in_truth - prior[truth], 0.0)
    # Who fits no row is guessed as the baseline does.
    return _Beliefs(np.maximum(guess, 0), truth, in_truth, gain, (total > 0) & (most == total))


def _everybody(columns: Sequence[Compared]) -> np.ndarray:
    """Codes of the original table and, where there is one, of the control below it."""
    tables = ["original"] if columns[0].control is None else ["original", "control"]
    return np.concatenate([stack_codes(columns, table) for table in tables])


def _classes(hidden: Compared) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The class of each released row, the class of each code (-1 if it is not released), and the share of each class.

    Classes count from the most frequent one.
    """
    n_values = hidden.cells.n_values[hidden.released]
    if (n_values > 1).any():
        raise DataError(
            f"Column {hidden.name!r} is generalised or suppressed in the release: name an attribute that is released "
            "as it is, or use inference()."
        )
    code = np.append(hidden.cells.first, -1)[hidden.cells.at[hidden.released]]
    # A number that nobody has is a class of its own.
    value = np.where(n_values == 1, code, hidden.n_codes + hidden.released)
    counts = np.bincount(value, minlength=hidden.n_codes)
    order = np.argsort(-counts, kind="stable")
    classes = np.empty(len(counts), np.int64)
    classes[order] = np.arange(len(counts))
    return classes[value], np.where(counts > 0, classes, -1)[: hidden.n_codes], counts[order] / len(value)


def _quasi(schema: Any) -> list[str]:
    require_schema(schema)
    if not schema.quasi:
        raise SchemaError("The schema has no quasi-identifier: give at least one attribute the role 'quasi'.")
    return [attribute.name for attribute in schema.quasi]


def _quasi_and_secret(schema: Any, sensitive: str | None) -> tuple[list[str], str]:
    names = _quasi(schema)
    if sensitive is None:
        if len(schema.sensitive) != 1:
            listed = ", ".join(attribute.name for attribute in schema.sensitive) or "none"
            raise SchemaError(f"The schema has not one sensitive attribute but {listed}: say which by sensitive=...")
        sensitive = schema.sensitive[0].name
    others = [name for name in names if name != schema[sensitive].name]
    if not others:
        raise SchemaError(f"There is no quasi-identifier beside {sensitive!r}: give another attribute that role.")
    return others, sensitive
