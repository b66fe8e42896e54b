"""Attribute disclosure: the sensitive values of the released rows that fit a person's quasi-identifiers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal._kernels import groups
from shoal._kernels import matching as kernel
from shoal.attacks._cells import Compared
from shoal.attacks._matching import (
    codes_of_everybody,
    distinct,
    open_tables,
    quasi_identifiers,
    runs_of,
    stack_cells,
)
from shoal.attacks.registry import AuditInput, attack_on, release_risk
from shoal.attacks.results import AttackResult
from shoal.data.schema import Schema
from shoal.errors import DataError, SchemaError
from shoal.intervals import paired_difference, share_right


def disclose(
    original: Any, released: Any, schema: Schema, sensitive: str | None = None, control: Any = None
) -> AttackResult:
    """Guess a sensitive value as the most frequent one among the released rows that fit a person.

    The adversary knows all quasi-identifiers exactly; the baseline guesses the most frequent value of the release.

    Parameters
    ----------
    original, released : pandas, polars or pyarrow table
    schema : Schema
    sensitive : str, optional
        Attribute that is guessed; by default the sensitive one of the schema.
    control : table, optional
        People who are not in the release.

    Returns
    -------
    AttackResult
        ``risks`` is the share of each person's true value among the rows that fit: the adversary's belief. The note
        states the share of people all of whose rows have one value (homogeneity), and the highest rise of the belief in
        a true value above its share in the release (skewness).

    Examples
    --------
    >>> from shoal import anonymize
    >>> from shoal.attacks.disclosure import disclose
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
        f"All rows that fit have one value for {beliefs.one_value[:n].mean():.1%} of the people; "
        f"belief in a true value rises by at most {max(float(beliefs.gain[:n].max()), 0.0):.2f}."
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


RELEASED_VALUE = release_risk(
    "{} from the release", 140, "infer {}",
    baseline="the most frequent value of the release (disclosure), or that of a random released row (inference)",
    advantage="accuracy - baseline (disclosure), or (accuracy - control) / (1 - control) (inference)",
)  # fmt: skip


@attack_on(RELEASED_VALUE, "disclosure")
def audited(given: AuditInput, attribute: str) -> AttackResult:
    """Disclose a sensitive attribute of the members of an audit."""
    return disclose(given.whole_members, given.released, given.schema, attribute, given.whole_controls)


class _Beliefs(NamedTuple):
    """Beliefs of an adversary about people, those of the original table first; class 0 is the most frequent one."""

    guess: np.ndarray
    truth: np.ndarray
    """The class of each person; -1 if nobody of the release has it."""
    in_truth: np.ndarray
    """Share of the true class among the rows that fit."""
    gain: np.ndarray
    """Excess of this share over that of the class in the release."""
    one_value: np.ndarray
    """True if all rows that fit have one class."""


def _believe(columns: Sequence[Compared], hidden: Compared) -> _Beliefs:
    secrets, classes, prior = _classes(hidden)
    truth = classes[codes_of_everybody([hidden])[:, 0]]
    points, _, labels = distinct(np.column_stack([codes_of_everybody(columns), truth]))
    tuples, _, numbers = distinct(stack_cells(columns))
    order, starts = groups.order_by_label(numbers, len(tuples))
    at, values, counts = groups.tally(secrets, order, starts, np.empty(0, bool), len(prior))
    people, wanted = points[:, :-1].copy(), points[:, -1].copy()
    found = kernel.tally_matches(people, wanted, tuples, at, values, counts, len(prior), runs_of(columns))
    total, guess, most, right = (one[labels] for one in found)
    in_truth = right / np.maximum(total, 1)
    gain = np.where((total > 0) & (truth >= 0), in_truth - prior[truth], 0.0)
    # For people who fit no row the guess is that of the baseline.
    return _Beliefs(np.maximum(guess, 0), truth, in_truth, gain, (total > 0) & (most == total))


def _classes(hidden: Compared) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the class of each released row, that of each code (-1 if not released), and the share of each class.

    Classes are numbered from the most frequent one.
    """
    n_values = hidden.cells.n_values[hidden.released]
    if (n_values > 1).any():
        raise DataError(
            f"Column {hidden.name!r} is generalised or suppressed in the release: name an attribute that is released "
            "as it is, or use inference()."
        )
    code = np.append(hidden.cells.first, -1)[hidden.cells.at[hidden.released]]
    # A number that no person has is a class of its own.
    value = np.where(n_values == 1, code, hidden.n_codes + hidden.released)
    counts = np.bincount(value, minlength=hidden.n_codes)
    order = np.argsort(-counts, kind="stable")
    classes = np.empty(len(counts), np.int64)
    classes[order] = np.arange(len(counts))
    return classes[value], np.where(counts > 0, classes, -1)[: hidden.n_codes], counts[order] / len(value)


def _quasi_and_secret(schema: Any, sensitive: str | None) -> tuple[list[str], str]:
    names = quasi_identifiers(schema)
    if sensitive is None:
        if len(schema.sensitive) != 1:
            listed = [attribute.name for attribute in schema.sensitive]
            raise SchemaError(f"The sensitive attributes of the schema are {listed}: choose one by sensitive=...")
        sensitive = schema.sensitive[0].name
    others = [name for name in names if name != schema[sensitive].name]
    if not others:
        raise SchemaError(f"There is no quasi-identifier beside {sensitive!r}: give another attribute that role.")
    return others, sensitive
