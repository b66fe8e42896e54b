"""Learn the weight of each attribute from decisions between groups, after Malle et al. (2017).

A question shows a row and two groups that it could join; each would generalise other values of the row, so that the
choice reveals which values matter. The difference of the two losses, attribute by attribute, each times its weight,
explains the preference (the model of Bradley and Terry, with a normal prior around the weights of the sliders).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from threadpoolctl import ThreadpoolController

from shoal._kernels import hierarchy as trees
from shoal.data.files import write_text
from shoal.data.schema import Schema, require_schema
from shoal.data.table import Column, Table, encode, restrict, take_rows
from shoal.errors import DataError, GuaranteeError, ShoalError
from shoal.evaluation.provenance import fingerprint
from shoal.parameters import WEIGHTS, Constraint, CustomCheck, Described, Whole
from shoal.partition.clusters import Clustering, node_costs, weights_of
from shoal.partition.recoding import Recoded, recode
from shoal.reports.report import dump_json

CHOICES = "first", "second", "skip"
CANDIDATE_ROWS = 20
"""Number of rows from which a question is chosen."""
GROUPS_PER_ROW = 24
"""Number of groups that are grown from each row, under random weights."""
MOST_MEMBERS = 100_000
"""Maximum number of rows in all these groups: fewer large groups are grown, so that a question takes no longer."""
CONCENTRATION = 0.2
"""Concentration of the random weights: most of them count a few attributes only, so that groups trade these off."""
CERTAINTIES = 3.0, 1.0
"""Possible certainties of a person, factors of the weights; the answers select one. With 3 alone, 95 % intervals
contained 78 % of the weights of people who err in one of four answers, after 25 answers; with both, 95 %."""
SPREAD = 1.5
"""Standard deviation of the prior, relative to the weights of the sliders."""
ATTEMPTS = 10
"""Number of draws of rows and weights until the search for a question is given up."""
TINY = 1e-9


class Option(NamedTuple):
    """A group that a row could join."""

    rows: tuple[int, ...]
    """Numbers of its rows, that of the question first."""
    values: dict[str, Any]
    """The values that would be released."""
    loss: dict[str, float]
    """Loss of each attribute, from 0 to 1: a range by the width of the column, levels by the height of the tree."""

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.rows)


class Question(NamedTuple):
    """A choice between two groups that a row could join."""

    number: int
    """Number of questions that were answered or skipped before."""
    row_number: int
    row: dict[str, Any]
    """The row as it is; None is a missing value."""
    first: Option
    second: Option


class Decision(NamedTuple):
    """A question that was answered."""

    row_number: int
    first: tuple[float, ...]
    """Losses of the first group, attribute by attribute."""
    second: tuple[float, ...]
    choice: str
    weights: tuple[float, ...]
    """The weights after this decision."""


class WeightSession:
    """Questions, answers, and the weights that follow from them.

    The same table, schema, seed and answers make the same session, also if it is saved and loaded in between, and
    whatever the order of the rows.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
    schema : Schema
        Its quasi-identifiers get weights.
    k : int
        Number of rows in the groups that are shown.
    weights : mapping from names to numbers, optional
        Prior weights, such as those of sliders; by default those of the schema.
    random_state : int
        Seed of the questions.

    Attributes
    ----------
    log : list of Decision
        Every answer, the first one first.

    Examples
    --------
    >>> from shoal.datasets import make_census
    >>> from shoal.jobs.weights import WeightSession
    >>> census = make_census(500)
    >>> session = WeightSession(census.frame, census.schema, k=5)
    >>> question = session.ask()
    >>> sorted(question.first.loss) == sorted(session.weights)
    True
    >>> session.answer("first")
    >>> [decision.choice for decision in session.log]
    ['first']
    >>> session.schema()["age"].weight == session.weights["age"]
    True
    """

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "frame": Described("a table"),
        "schema": CustomCheck("a Schema", require_schema),
        "k": Whole(least=2),
        "weights": WEIGHTS | None,
        "random_state": Whole(least=0),
    }

    def __init__(
        self,
        frame: Any,
        schema: Schema,
        *,
        k: int = 5,
        weights: Mapping[str, float] | None = None,
        random_state: int = 0,
    ) -> None:
        for name, value in {"schema": schema, "k": k, "weights": weights, "random_state": random_state}.items():
            self._parameter_constraints[name].check(name, value)
        table = encode(frame, schema)
        if len(table.quasi) < 2:
            raise ShoalError(f"{table.quasi[0].name!r} is the only quasi-identifier: add another to weigh it against.")
        if table.n_rows < k:
            raise GuaranteeError(f"Groups of {k} rows cannot be made of {table.n_rows}: choose a smaller k.")
        # Rows are sorted by content: their order in the table must not decide anything but their numbers.
        self._row_numbers = np.lexsort(table.codes.T[::-1])
        self._table = take_rows(table, self._row_numbers)
        self.k, self.random_state = int(k), int(random_state)
        self.log: list[Decision] = []
        self._schema = schema
        self._clustering = Clustering(self._table, self.k)
        self._question: Question | None = None
        self._fingerprint = fingerprint(frame)["sha256"]
        self.set_weights(weights)

    @property
    def names(self) -> list[str]:
        """Names of the attributes, in the order of the schema."""
        return [column.name for column in self._table.quasi]

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each attribute; 1 on average."""
        return self._named(self._weights)

    @property
    def uncertainty(self) -> dict[str, float]:
        """Standard deviation of each weight."""
        return self._named(self._found.deviations())

    def set_weights(self, weights: Mapping[str, float] | None) -> None:
        """Set the prior weights, as sliders do. Answers are kept, and count as before."""
        self._parameter_constraints["weights"].check("weights", weights)
        prior = weights_of(self._table, weights)
        if not prior.any():
            raise ShoalError("All weights are 0: give at least one attribute a weight above 0.")
        self._prior = prior
        self._refit()

    def schema(self) -> Schema:
        """Return the schema with the current weights."""
        known = self.weights
        attributes = [replace(one, weight=known.get(one.name, one.weight)) for one in self._schema]
        return Schema(attributes, reasons=self._schema.reasons)

    # Questions and answers

    def ask(self) -> Question:
        """Return the most informative question; it stays the same until it is answered."""
        if self._question is None:
            self._question = self._choose_question()
        return self._question

    def answer(self, choice: str | int) -> None:
        """Answer the open question with the ``"first"`` or ``"second"`` group, or ``"skip"`` it; update the weights."""
        named = CHOICES[choice] if choice in (0, 1) and not isinstance(choice, (bool, str)) else choice
        if named not in CHOICES:
            raise ShoalError(f"{choice!r} is not an answer: choose {', '.join(CHOICES)}.")
        if self._question is None:
            raise ShoalError("No question is open: call ask() first.")
        asked = self._question
        first, second = tuple(asked.first.loss.values()), tuple(asked.second.loss.values())
        self.log.append(Decision(asked.row_number, first, second, str(named), ()))
        self._refit()
        self.log[-1] = self.log[-1]._replace(weights=tuple(self._weights.tolist()))

    def undo(self) -> Decision:
        """Take the last answer back and return it; its question is the next one."""
        if not self.log:
            raise ShoalError("There is no answer to take back: answer a question first.")
        last = self.log.pop()
        self._refit()
        return last

    def _refit(self) -> None:
        self._question = None
        signs = {"first": 1.0, "second": -1.0, "skip": 0.0}
        answers = np.array([signs[one.choice] for one in self.log])
        differences = self._differences() * answers[:, None]
        self._found = learn_weights(differences[answers != 0], self._prior)
        # Answers may contradict all weights; then those of the sliders remain.
        self._weights = _scaled(self._found.weights if self._found.weights.any() else self._prior)

    def _differences(self) -> np.ndarray:
        """Return the losses of the second group minus those of the first, one row per decision."""
        found = [np.array(one.second) - np.array(one.first) for one in self.log]
        return np.array(found).reshape(len(found), len(self.names))

    def _choose_question(self) -> Question:
        random = np.random.default_rng([self.random_state, len(self.log)])
        asked = self._differences()
        for _ in range(ATTEMPTS):
            groups = self._grow(random)
            losses = self._losses(groups)
            one, other = np.triu_indices(groups.shape[1], 1)
            apart = losses[:, other] - losses[:, one]
            # If one group is better in every attribute, the answer says nothing about weights.
            rows, pairs = np.nonzero((apart > TINY).any(axis=2) & (apart < -TINY).any(axis=2))
            apart = apart[rows, pairs]
            for best in np.argsort(-self._found.worth(apart), kind="stable"):
                if not _has(asked, apart[best]) and not _has(asked, -apart[best]):
                    row, pair = rows[best], pairs[best]
                    return self._question_of(groups[row, [one[pair], other[pair]]])
        raise ShoalError(self._why_no_question())

    def _grow(self, random: np.random.Generator) -> np.ndarray:
        """Grow groups around random rows, under random weights (rows, weights, members)."""
        n_rows = min(CANDIDATE_ROWS, max(MOST_MEMBERS // (GROUPS_PER_ROW * self.k), 4), self._table.n_rows)
        rows = random.choice(self._table.n_rows, n_rows, replace=False)
        drawn = random.dirichlet(np.full(len(self.names), CONCENTRATION), GROUPS_PER_ROW) * len(self.names)
        groups = np.empty((n_rows, GROUPS_PER_ROW, self.k), np.int64)
        for j, weights in enumerate(drawn):
            # Weights are laid out once for all rows, as that takes longer than growing a group.
            self._clustering.reweigh(self._named(weights))
            for i, row in enumerate(rows):
                groups[i, j] = self._clustering.grown_from(int(row))
        return groups

    def _losses(self, groups: np.ndarray) -> np.ndarray:
        """Return the loss of each attribute in groups (..., members), as in SaNGreeA without weights."""
        codes = self._table.codes[groups].astype(np.int64)
        low, high = codes.min(axis=-2), codes.max(axis=-2)
        losses = np.empty(low.shape)
        for j, column in enumerate(self._table.quasi):
            losses[..., j] = _column_losses(column, low[..., j].ravel(), high[..., j].ravel()).reshape(low.shape[:-1])
        return losses

    def _question_of(self, groups: np.ndarray) -> Question:
        """Return the question about two groups around one row."""
        row = groups[0, 0]
        shown = {column.name: column.text(int(column.codes[row])) for column in self._table.quasi}
        members = take_rows(self._table, groups.ravel())
        # Only values that occur are decoded: a column may have as many values as the table has rows.
        columns = {name: restrict(one, np.ones(members.n_rows, bool)) for name, one in members.columns.items()}
        members = Table(columns, members.schema, members.n_rows)
        released = recode(members, np.repeat(np.arange(2), self.k), "interval")
        options = []
        for g, lost in enumerate(self._losses(groups)):
            values = {column.name: _cell(column, released[column.name], g) for column in members.quasi}
            options.append(Option(tuple(self._row_numbers[groups[g]].tolist()), values, self._named(lost)))
        return Question(len(self.log), int(self._row_numbers[row]), shown, *options)

    def _why_no_question(self) -> str:
        varied = [one.name for one in self._table.quasi if one.codes.min() < one.codes.max()]
        if len(varied) < 2:
            only = f"only {varied[0]!r}" if varied else "none"
            return (
                f"No question can be asked, because {only} of {', '.join(self.names)} has several values: add "
                "quasi-identifiers."
            )
        new = "new " if self.log else ""
        return (
            f"No {new}question was found, because few groups of {self.k} rows trade one attribute for another here: "
            "keep the weights, or choose another k."
        )

    def _named(self, values: np.ndarray) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))

    # Saving

    def to_dict(self) -> dict[str, Any]:
        """Return the session without the table as plain values; people appear as numbers of rows only."""
        return {
            "table": self._fingerprint,
            "k": self.k,
            "random_state": self.random_state,
            "names": self.names,
            "prior": self._prior.tolist(),
            "log": [one._asdict() for one in self.log],
        }

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any], frame: Any, schema: Schema) -> WeightSession:
        """Restore a session from :meth:`to_dict`, on the same table."""
        try:
            session = cls(frame, schema, k=kept["k"], random_state=kept["random_state"])
            if kept["names"] != session.names or kept["table"] != session._fingerprint:
                raise DataError("The answers are about another table or schema: pass the original ones.")
            session.set_weights(dict(zip(session.names, kept["prior"], strict=True)))
            session.log = [_read_decision(one, len(session.names)) for one in kept["log"]]
        except ShoalError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"These are not the answers of a session ({error}): save the session again.") from None
        session._refit()
        return session

    def save(self, path: str | Path) -> None:
        """Write the session as JSON, in full or not at all."""
        write_text(path, dump_json(self.to_dict()) + "\n")

    @classmethod
    def load(cls, path: str | Path, frame: Any, schema: Schema) -> WeightSession:
        """Restore a session from a file of :meth:`save`, on the same table."""
        try:
            kept = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"{str(path)!r} cannot be read ({error.strerror}): check the path.") from None
        except ValueError:
            raise DataError(f"{str(path)!r} does not hold a session: save it again.") from None
        return cls.from_dict(kept, frame, schema)


class WeightEstimate(NamedTuple):
    """The most likely weights, and their covariance."""

    weights: np.ndarray
    """Weights times the certainty of the person."""
    covariance: np.ndarray
    evidence: float
    """Logarithm of the marginal likelihood of the answers, up to a constant."""

    def worth(self, apart: np.ndarray) -> np.ndarray:
        """Return the value of questions: the variance of the answer times that of the difference of losses."""
        chance = expit(apart @ self.weights)
        return np.asarray(chance * (1 - chance) * np.einsum("ij,jk,ik->i", apart, self.covariance, apart))

    def deviations(self) -> np.ndarray:
        """Return the standard deviations of the weights, scaled to be 1 on average."""
        n, total = len(self.weights), max(float(self.weights.sum()), TINY)
        slopes = n / total * (np.eye(n) - np.outer(self.weights / total, np.ones(n)))
        spread = np.sqrt(np.diag(slopes @ self.covariance @ slopes.T).clip(0))
        # Weights are between 0 and n, so no two differ by more.
        return np.asarray(spread.clip(max=n))


def learn_weights(differences: np.ndarray, prior: np.ndarray) -> WeightEstimate:
    """Return the most likely weights, at least 0, and their covariance (Laplace's approximation).

    The certainty of the person is the one that makes the answers most likely.

    Parameters
    ----------
    differences : float array (decisions, attributes)
        Losses of the rejected group minus those of the chosen one.
    prior : float array (attributes,)
        Prior weights; only ratios count.

    Examples
    --------
    >>> learn_weights(np.array([[0.5, -0.4], [0.3, -0.2]]), np.ones(2)).weights.round(1).tolist()
    [5.3, 1.3]
    """
    return max((_learn(differences, prior, certainty) for certainty in CERTAINTIES), key=lambda one: one.evidence)


def _learn(differences: np.ndarray, prior: np.ndarray, certainty: float) -> WeightEstimate:
    n, center = len(prior), certainty * _scaled(prior)
    precision = 1.0 / (certainty * SPREAD) ** 2

    def surprise(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin, off = differences @ weights, weights - center
        value = np.logaddexp(0.0, -margin).sum() + precision * (off @ off) / 2
        return float(value), precision * off - differences.T @ expit(-margin)

    # One thread computes products of this size faster than several are started: 1 ms instead of 140.
    with _threads().limit(limits=1, user_api="blas"):
        options = {"ftol": 1e-12}
        found = minimize(surprise, center, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * n, options=options)
        chance = expit(differences @ found.x)
        information = differences.T @ (differences * (chance * (1 - chance))[:, None]) + precision * np.eye(n)
        evidence = -float(found.fun) + (n * np.log(precision) - np.linalg.slogdet(information)[1]) / 2
        return WeightEstimate(found.x, np.linalg.inv(information), float(evidence))


def _column_losses(column: Column, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the losses of groups that range from one code to another."""
    if column.tree is not None:
        nodes = trees.common_ancestors(column.tree.table, column.tree.last, low, high)
        return np.asarray(node_costs(column.tree)[nodes])
    lost = (column.positions[high] - column.positions[low]) / (column.width or 1.0)
    # A range with missing values loses everything; only missing values lose nothing.
    return np.where(low == high, 0.0, np.where(high == column.missing, 1.0, lost))


def _cell(column: Column, released: Recoded, group: int) -> Any:
    """Return the released value of a group: a new value, or that of one of its rows."""
    if released.values is not None:
        return released.values[group]
    assert released.rows is not None
    return column.text(int(column.codes[released.rows[group]]))


def _has(rows: np.ndarray, row: np.ndarray) -> bool:
    return bool((np.abs(rows - row) < TINY).all(axis=1).any())


@cache
def _threads() -> ThreadpoolController:
    """Find the libraries that compute in threads once, which takes longer than learning weights."""
    return ThreadpoolController()


def _scaled(weights: np.ndarray) -> np.ndarray:
    """Scale weights to be 1 on average."""
    shares = weights / weights.max()
    return np.asarray(shares * (len(shares) / shares.sum()))


def _read_decision(kept: Mapping[str, Any], n: int) -> Decision:
    first, second, weights = (tuple(float(one) for one in kept[name]) for name in ("first", "second", "weights"))
    whole = all(len(one) == n and np.isfinite(one).all() for one in (first, second, weights))
    if not whole or kept["choice"] not in CHOICES:
        raise ValueError("a decision does not fit the attributes")
    return Decision(int(kept["row_number"]), first, second, kept["choice"], weights)
