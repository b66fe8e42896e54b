"""Learn how much each attribute counts from decisions between groups, after Malle et al. (2017). No page is needed.

A question shows a row and two groups that it could join; each would blur other values of it. Whoever chooses says which
values matter: that one group is preferred to another is explained by the difference of what the two lose, attribute by
attribute, each times its weight (the model of Bradley and Terry, with a normal prior around what sliders say).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from threadpoolctl import ThreadpoolController

from shoal._kernels import hierarchy as trees
from shoal.data.files import replacing
from shoal.data.schema import Schema, require_schema
from shoal.data.table import Column, Table, encode, restrict, take_rows
from shoal.errors import DataError, GuaranteeError, ShoalError
from shoal.evaluation.provenance import fingerprint
from shoal.parameters import WEIGHTS, Constraint, CustomCheck, Described, Whole
from shoal.partition.clusters import Clustering, node_costs, weights_of
from shoal.partition.recoding import Recoded, recode
from shoal.reports.report import dump_json

CHOICES = "first", "second", "skip"
ROWS_LOOKED_AT = 20
"""Rows from which a question is chosen."""
GROUPS_A_ROW = 24
"""Groups that are grown from each of them, under weights that are drawn."""
MOST_MEMBERS = 100_000
"""Rows of all these groups together: of large groups fewer are grown, so that a question takes no longer."""
CONCENTRATION = 0.2
"""Of the weights that are drawn: most of them count a few attributes alone, so that groups trade these off."""
CERTAINTIES = 3.0, 1.0
"""How surely people may decide as their weights tell, a factor of the weights; the answers say which it is. With 3
alone, intervals of 95 % held 78 % of the weights of people who err in one of four answers, after 25; now it is 95 %."""
SPREAD = 1.5
"""How far weights may be from those of the sliders, as a part of them: one standard deviation of the prior."""
ATTEMPTS = 10
"""How often other rows and weights are drawn before there is no question."""
TINY = 1e-9


class Option(NamedTuple):
    """A group that a row could join."""

    rows: tuple[int, ...]
    """Numbers of its rows; the row that is asked about is the first of them."""
    values: dict[str, Any]
    """What would be released of each attribute."""
    loss: dict[str, float]
    """What that loses of each, from 0 to 1: a range by the width of the column, levels by the height of the tree."""

    @property
    def size(self) -> int:
        """How many rows it has."""
        return len(self.rows)


class Question(NamedTuple):
    """Which of two groups a row should join."""

    number: int
    """How many were answered or skipped before."""
    row_number: int
    row: dict[str, Any]
    """The row as it is; None where a value is missing."""
    first: Option
    second: Option


class Decision(NamedTuple):
    """A question that was answered."""

    row_number: int
    first: tuple[float, ...]
    """What the first group loses, attribute by attribute."""
    second: tuple[float, ...]
    choice: str
    weights: tuple[float, ...]
    """What was known after it."""


class WeightSession:
    """Questions, answers, and the weights that follow from them.

    The same table, schema, seed and answers make the same session, also if it is saved and gone on with in between, and
    whatever the order of the rows.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
    schema : Schema
        Weights are learned of its quasi-identifiers.
    k : int
        Rows of the groups that are shown.
    weights : mapping from names to numbers, optional
        What somebody thinks beforehand, such as by sliders; by default what the schema says.
    random_state : int
        Seed of the questions, from 0 on.

    Attributes
    ----------
    log : list of Decision
        Every answer, from the first on.

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
            raise ShoalError(
                f"{table.quasi[0].name!r} is the only quasi-identifier, and nothing can be weighed against it: name "
                "another."
            )
        if table.n_rows < k:
            raise GuaranteeError(f"Groups of {k} rows cannot be made of {table.n_rows}: choose a smaller k.")
        # Rows by their content: where they stand in the table decides nothing but what they are called.
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
        """The attributes, in the order of the schema."""
        return [column.name for column in self._table.quasi]

    @property
    def weights(self) -> dict[str, float]:
        """How much each attribute counts; 1 on average."""
        return self._named(self._weights)

    @property
    def uncertainty(self) -> dict[str, float]:
        """By how much each weight may be off: one standard deviation."""
        return self._named(self._found.deviations())

    def set_weights(self, weights: Mapping[str, float] | None) -> None:
        """Move the sliders: what is thought beforehand. Answers are kept, and count as before."""
        self._parameter_constraints["weights"].check("weights", weights)
        prior = weights_of(self._table, weights)
        if not prior.any():
            raise ShoalError("All weights are 0, so that nothing counts: give one that is above.")
        self._prior = prior
        self._refit()

    def schema(self) -> Schema:
        """The schema with the weights as they are known now."""
        known = self.weights
        attributes = [replace(one, weight=known.get(one.name, one.weight)) for one in self._schema]
        return Schema(attributes, reasons=self._schema.reasons)

    # Questions and answers

    def ask(self) -> Question:
        """The question that tells most, as far as is known; the same until it is answered."""
        if self._question is None:
            self._question = self._choose_question()
        return self._question

    def answer(self, choice: str | int) -> None:
        """Decide the question that is open for the ``"first"`` group or the ``"second"``, or ``"skip"`` it.

        Weights follow at once.
        """
        named = CHOICES[choice] if choice in (0, 1) and not isinstance(choice, (bool, str)) else choice
        if named not in CHOICES:
            raise ShoalError(f"The answer {choice!r} is none: choose {', '.join(CHOICES)}.")
        if self._question is None:
            raise ShoalError("No question is open: ask() for one first.")
        asked = self._question
        first, second = tuple(asked.first.loss.values()), tuple(asked.second.loss.values())
        self.log.append(Decision(asked.row_number, first, second, str(named), ()))
        self._refit()
        self.log[-1] = self.log[-1]._replace(weights=tuple(self._weights.tolist()))

    def undo(self) -> Decision:
        """Take the last answer back; returns it. Its question is the next one."""
        if not self.log:
            raise ShoalError("There is no answer to take back: nothing was decided yet.")
        last = self.log.pop()
        self._refit()
        return last

    def _refit(self) -> None:
        self._question = None
        signs = {"first": 1.0, "second": -1.0, "skip": 0.0}
        answers = np.array([signs[one.choice] for one in self.log])
        differences = self._differences() * answers[:, None]
        self._found = learn_weights(differences[answers != 0], self._prior)
        # Answers may speak against all attributes alike; then the sliders are all that is known.
        self._weights = _scaled(self._found.weights if self._found.weights.any() else self._prior)

    def _differences(self) -> np.ndarray:
        """What the second group loses more than the first, a row a decision."""
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
            # A group that is better throughout says nothing about weights.
            rows, pairs = np.nonzero((apart > TINY).any(axis=2) & (apart < -TINY).any(axis=2))
            apart = apart[rows, pairs]
            for best in np.argsort(-self._worth(apart, random), kind="stable"):
                if not _has(asked, apart[best]) and not _has(asked, -apart[best]):
                    row, pair = rows[best], pairs[best]
                    return self._question_of(groups[row, [one[pair], other[pair]]])
        raise ShoalError(self._why_no_question())

    def _grow(self, random: np.random.Generator) -> np.ndarray:
        """Groups that some rows could be in, under weights that are drawn (rows, weights, members)."""
        n_rows = min(ROWS_LOOKED_AT, max(MOST_MEMBERS // (GROUPS_A_ROW * self.k), 4), self._table.n_rows)
        rows = random.choice(self._table.n_rows, n_rows, replace=False)
        drawn = random.dirichlet(np.full(len(self.names), CONCENTRATION), GROUPS_A_ROW) * len(self.names)
        groups = np.empty((n_rows, GROUPS_A_ROW, self.k), np.int64)
        for j, weights in enumerate(drawn):
            # Once for all rows: laying out weights for kernels takes longer than growing a group.
            self._clustering.reweigh(self._named(weights))
            for i, row in enumerate(rows):
                groups[i, j] = self._clustering.grown_from(int(row))
        return groups

    def _losses(self, groups: np.ndarray) -> np.ndarray:
        """What groups (..., members) lose of each attribute, as SaNGreeA counts it without weights."""
        codes = self._table.codes[groups].astype(np.int64)
        low, high = codes.min(axis=-2), codes.max(axis=-2)
        losses = np.empty(low.shape)
        for j, column in enumerate(self._table.quasi):
            losses[..., j] = _column_losses(column, low[..., j].ravel(), high[..., j].ravel()).reshape(low.shape[:-1])
        return losses

    def _worth(self, apart: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """How much is told by the answers to questions between groups whose losses are so much apart."""
        return self._found.worth(apart)

    def _question_of(self, groups: np.ndarray) -> Question:
        """Two groups around one row, as they are shown."""
        row = groups[0, 0]
        shown = {column.name: column.text(int(column.codes[row])) for column in self._table.quasi}
        members = take_rows(self._table, groups.ravel())
        # Only what occurs is written out: a column may have as many values as there are rows.
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
                f"No question can be asked, because of {', '.join(self.names)} {only} has more than one value, and "
                "there is nothing to decide: name more quasi-identifiers."
            )
        new = "new " if self.log else ""
        return (
            f"No {new}question was found, because few groups of {self.k} rows trade one attribute for another here: "
            "keep the weights as they are, or take another k."
        )

    def _named(self, values: np.ndarray) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))

    # Saving

    def to_dict(self) -> dict[str, Any]:
        """Everything but the table, as plain values; of people only the numbers of their rows."""
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
        """Go on with what :meth:`to_dict` gave, on the same table."""
        try:
            session = cls(frame, schema, k=kept["k"], random_state=kept["random_state"])
            if kept["names"] != session.names or kept["table"] != session._fingerprint:
                raise DataError("The answers are about another table or schema: pass the one that they were given for.")
            session.set_weights(dict(zip(session.names, kept["prior"], strict=True)))
            session.log = [_read_decision(one, len(session.names)) for one in kept["log"]]
        except ShoalError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"These are no answers of a session ({error}): save them anew.") from None
        session._refit()
        return session

    def save(self, path: str | Path) -> None:
        """Write it as JSON; the file is there in full or not at all."""
        with replacing(path) as temporary:
            temporary.write_text(dump_json(self.to_dict()) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path, frame: Any, schema: Schema) -> WeightSession:
        """Go on with what :meth:`save` wrote, on the same table."""
        try:
            kept = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"{str(path)!r} cannot be read ({error.strerror}): check the path.") from None
        except ValueError:
            raise DataError(f"{str(path)!r} holds no answers of a session: save them anew.") from None
        return cls.from_dict(kept, frame, schema)


class WeightEstimate(NamedTuple):
    """Weights as they are known: the likeliest ones, and how they vary together."""

    weights: np.ndarray
    """Times how surely the person decides."""
    covariance: np.ndarray
    evidence: float
    """Logarithm of how likely the answers were beforehand, up to a constant."""

    def worth(self, apart: np.ndarray) -> np.ndarray:
        """How much the answers to some questions would tell: how open each is, times how unsure the difference is."""
        chance = expit(apart @ self.weights)
        return np.asarray(chance * (1 - chance) * np.einsum("ij,jk,ik->i", apart, self.covariance, apart))

    def deviations(self) -> np.ndarray:
        """Standard deviations of the weights, scaled to be 1 on average."""
        n, total = len(self.weights), max(float(self.weights.sum()), TINY)
        slopes = n / total * (np.eye(n) - np.outer(self.weights / total, np.ones(n)))
        spread = np.sqrt(np.diag(slopes @ self.covariance @ slopes.T).clip(0))
        # No weight is farther from another one than from nothing to everything.
        return np.asarray(spread.clip(max=n))


def learn_weights(differences: np.ndarray, prior: np.ndarray) -> WeightEstimate:
    """The likeliest weights, none below 0, and their covariance (Laplace's approximation).

    How surely the person decides is what makes the answers likeliest.

    Parameters
    ----------
    differences : float array (decisions, attributes)
        What the rejected group loses more than the chosen one.
    prior : float array (attributes,)
        What is thought beforehand; only ratios count.

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

    # Products of this size are done sooner by one thread than several can be told of them: 1 ms instead of 140.
    with _threads().limit(limits=1, user_api="blas"):
        options = {"ftol": 1e-12}
        found = minimize(surprise, center, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * n, options=options)
        chance = expit(differences @ found.x)
        information = differences.T @ (differences * (chance * (1 - chance))[:, None]) + precision * np.eye(n)
        evidence = -float(found.fun) + (n * np.log(precision) - np.linalg.slogdet(information)[1]) / 2
        return WeightEstimate(found.x, np.linalg.inv(information), float(evidence))


class SimulatedPerson:
    """Somebody whose weights are known, to see what is learned of them.

    Parameters
    ----------
    weights : mapping from names to numbers
    certainty : float
        How surely they decide as their weights tell: 4 is careful, 1.35 noisy.
    random_state : int
        What they answer follows from it and the number of the question.
    """

    def __init__(self, weights: Mapping[str, float], certainty: float = 4.0, random_state: int = 0) -> None:
        self.weights = dict(weights)
        self.certainty = certainty
        self.random_state = random_state

    def preference(self, question: Question) -> float:
        """How much more the second group would lose to them."""
        first, second = question.first.loss, question.second.loss
        return sum(weight * (second[name] - first[name]) for name, weight in self.weights.items())

    def decide(self, question: Question) -> Literal["first", "second"]:
        """What they answer."""
        # Not the numbers that a session of the same seed draws its questions by.
        random = np.random.default_rng([self.random_state, question.number, 1])
        return "first" if random.random() < expit(self.certainty * self.preference(question)) else "second"


def _column_losses(column: Column, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """What groups lose that reach from one code to another."""
    if column.tree is not None:
        nodes = trees.common_ancestors(column.tree.table, column.tree.last, low, high)
        return np.asarray(node_costs(column.tree)[nodes])
    lost = (column.positions[high] - column.positions[low]) / (column.width or 1.0)
    # A range that may also be missing says nothing; one that is missing throughout loses nothing.
    return np.where(low == high, 0.0, np.where(high == column.missing, 1.0, lost))


def _cell(column: Column, released: Recoded, group: int) -> Any:
    """What a group is released as: a new value, or that of one of its rows."""
    if released.values is not None:
        return released.values[group]
    assert released.rows is not None
    return column.text(int(column.codes[released.rows[group]]))


def _has(rows: np.ndarray, row: np.ndarray) -> bool:
    return bool((np.abs(rows - row) < TINY).all(axis=1).any())


@cache
def _threads() -> ThreadpoolController:
    """Finds the libraries that compute in threads once, which takes longer than to learn weights."""
    return ThreadpoolController()


def _scaled(weights: np.ndarray) -> np.ndarray:
    """Weights that are 1 on average."""
    shares = weights / weights.max()
    return np.asarray(shares * (len(shares) / shares.sum()))


def _read_decision(kept: Mapping[str, Any], n: int) -> Decision:
    first, second, weights = (tuple(float(one) for one in kept[name]) for name in ("first", "second", "weights"))
    whole = all(len(one) == n and np.isfinite(one).all() for one in (first, second, weights))
    if not whole or kept["choice"] not in CHOICES:
        raise ValueError("a decision does not fit the attributes")
    return Decision(int(kept["row_number"]), first, second, kept["choice"], weights)
