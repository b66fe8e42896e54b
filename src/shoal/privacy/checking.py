"""Check a table: measure every privacy model from the released values alone, without the bookkeeping of a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.data import frames
from shoal.data.factored import FactoredFrame
from shoal.data.schema import Schema, require_schema
from shoal.data.table import encode_factor, require_quasi, restrict
from shoal.errors import GuaranteeError, SchemaError
from shoal.privacy.counts import Counts, count_groups
from shoal.privacy.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    KAnonymity,
    LDiversity,
    PrivacyModel,
    TCloseness,
    check_constraints,
    show_level,
)
from shoal.privacy.risk import Risk, SizeCounts, risk
from shoal.privacy.rules import membership, truth_of


class Measured(NamedTuple):
    """A privacy model, the level a table reaches, and the level asked for, if one was."""

    model: str
    """What was measured, in words."""
    key: str
    attribute: str | None
    level: Any
    better: str
    asked: Any = None
    holds: bool | None = None


class Checked(NamedTuple):
    """What holds on a table, recomputed from its values."""

    rows: int
    groups: int
    measured: tuple[Measured, ...]
    risk: Risk
    sizes: SizeCounts
    """How many groups of released rows there are of each size."""

    @property
    def holds(self) -> bool:
        """Whether every level asked for is reached."""
        return all(measured.holds is not False for measured in self.measured)

    def level(self, key: str, attribute: str | None = None) -> Any:
        """The level of a model by its key: ``checked.level("k")``."""
        for measured in self.measured:
            if measured.key == key and (attribute is None or measured.attribute == attribute):
                return measured.level
        raise SchemaError(f"{key!r} was not measured: there are {', '.join(m.key for m in self.measured)}.")


def require_levels(checked: Checked, method: str) -> Checked:
    """Refuse a release that does not keep what was asked for."""
    for measured in checked.measured:
        if measured.holds is False:
            raise GuaranteeError(
                f"{measured.model} was asked for but the released table has only the level "
                f"{show_level(measured.level)}, so nothing is released: this is a defect of the method {method!r}."
            )
    return checked


def check(frame: Any, schema: Schema, constraints: Sequence[PrivacyModel] = (), *, threshold: float = 0.2) -> Checked:
    """Measure every privacy model on a table, released or raw, from its values alone.

    Rows belong to one group if they are equal in all quasi-identifiers, whatever is written there. One pass over the
    rows groups them, a second counts what is in each group; every model is then read off the counts.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
    schema : Schema
        Its quasi-identifiers and sensitive attributes are looked at.
    constraints : sequence of privacy models
        Levels asked for; the result says of each whether it holds.
    threshold : float
        A row counts as at risk if its risk of re-identification is above this.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Attribute, Schema, check
    >>> table = pl.DataFrame({"age": ["[25, 31]"] * 3 + ["[45, 52]"] * 4})
    >>> checked = check(table, Schema([Attribute("age")]))
    >>> checked.level("k"), checked.groups
    (3.0, 2)
    """
    require_schema(schema)
    constraints = check_constraints(constraints)
    factored = FactoredFrame.of(frame)
    frames.require_rows(factored)
    require_checkable(factored.columns, schema)
    labels = factored.group_rows([attribute.name for attribute in schema.quasi])
    columns = [encode_factor(factored.factor(attribute.name), attribute) for attribute in schema.sensitive]
    member_of = membership(constraints)
    members = None if member_of is None else read_truths(factored, member_of)
    if members is not None:
        columns = [restrict(column, members) for column in columns]
    judge = Judge(schema, constraints, factored.columns, threshold=threshold)
    judge.look_at(count_groups(labels, columns, members))
    return judge.result()


class Judge:
    """Measures every privacy model on a table, some of its groups at a time.

    Parameters
    ----------
    schema : Schema
    constraints : sequence of privacy models
        Levels asked for.
    names : sequence of str
        Columns of the table.
    threshold : float
        A row counts as at risk if its risk of re-identification is above this.
    """

    def __init__(
        self, schema: Schema, constraints: Sequence[PrivacyModel], names: Sequence[str], *, threshold: float = 0.2
    ) -> None:
        self._schema, self._names, self._threshold = schema, names, threshold
        self._asked = tuple(constraints)
        self._models = (*self._asked, *_standard_models(schema, constraints))
        self._looks: list[PartialCheck] = []

    def look_at(self, counts: Counts) -> None:
        """Measure groups that were not looked at yet."""
        self.add(self.measure(counts))

    def measure(self, counts: Counts) -> PartialCheck:
        """What holds on some groups, wherever they are looked at."""
        levels = [model.measure(counts) for model in self._models]
        holds = [constraint.holds(counts) for constraint in self._asked]
        return PartialCheck(
            levels, holds, _count_pairs(counts.sizes, counts.population, np.ones(len(counts.sizes), np.int64))
        )

    def add(self, look: PartialCheck) -> None:
        """Take in what was measured on groups that were not looked at yet."""
        self._looks.append(look)

    def another(self) -> Judge:
        """A judge of the same models who has seen nothing yet."""
        return Judge(self._schema, self._asked, self._names, threshold=self._threshold)

    @property
    def has_looked(self) -> bool:
        """Whether any groups were looked at."""
        return bool(self._looks)

    def together(self) -> PartialCheck:
        """What holds on all groups that were looked at, for another judge."""
        levels = [_worst(model, [look.levels[i] for look in self._looks]) for i, model in enumerate(self._models)]
        holds = [all(look.holds[i] for look in self._looks) for i in range(len(self._asked))]
        sizes = _count_pairs(*(np.concatenate([look.sizes[i] for look in self._looks]) for i in range(3)))
        return PartialCheck(levels, holds, sizes)

    def result(self) -> Checked:
        """What holds on all groups that were looked at."""
        levels, holds, (sizes, population, groups) = self.together()
        measured = []
        for i, model in enumerate(self._models):
            if i < len(self._asked):
                about = (model.describe(), model.key, model.attribute, levels[i], model.better)
                measured.append(Measured(*about, model.bound, holds[i]))
            else:
                measured.append(Measured(model.title(), model.key, model.attribute, levels[i], model.better))
        measured += [
            Measured(f"identifier {a.name!r} left out", "identifier", a.name, "present", "lower", "absent", holds=False)
            for a in self._schema.identifiers
            if a.name in self._names and self._asked
        ]
        found = risk(
            sizes,
            threshold=self._threshold,
            population=None if membership(self._asked) is None else population,
            groups=groups,
        )
        released = sizes > 0
        rows, at = np.unique(sizes[released], return_inverse=True)
        counts = SizeCounts(rows, np.bincount(at, groups[released], len(rows)).astype(np.int64))
        return Checked(int((rows * counts.groups).sum()), int(counts.groups.sum()), tuple(measured), found, counts)


class PartialCheck(NamedTuple):
    """What was measured on some groups of a table."""

    levels: list[Any]
    holds: list[bool]
    sizes: tuple[np.ndarray, np.ndarray, np.ndarray]
    """Released rows, all rows, and how many groups have so many of both."""


def _count_pairs(
    sizes: np.ndarray, population: np.ndarray, groups: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups of the same size, released and in all, put together."""
    if np.array_equal(sizes, population):  # as a rule; sorting pairs takes eight times as long
        alike, at = np.unique(sizes, return_inverse=True)
        sizes = population = alike
    else:
        alike, at = np.unique(np.column_stack([sizes, population]), axis=0, return_inverse=True)
        sizes, population = alike.T
    return sizes, population, np.bincount(at.reshape(-1), groups, len(alike)).astype(np.int64)


def _worst(model: PrivacyModel, levels: Sequence[Any]) -> Any:
    """The level of all groups together, of which these are the levels of some."""
    if model.better == "within":
        return min(low for low, _ in levels), max(high for _, high in levels)
    return min(levels) if model.better == "higher" else max(levels)


def require_checkable(names: Sequence[str], schema: Schema) -> None:
    """Refuse a table by the names of its columns if it does not belong to the schema."""
    require_quasi(schema)
    for attribute in (*schema.quasi, *schema.sensitive):
        if attribute.name not in names:
            raise SchemaError(
                f"The schema's {attribute.role} attribute {attribute.name!r} is not a column of the table: "
                "check the table that belongs to this schema."
            )
    for name in names:
        if name not in schema:
            raise SchemaError(
                f"Column {name!r} is not in the schema: add it, with the role 'other' if nobody can be found by it."
            )


def _standard_models(schema: Schema, asked: Sequence[PrivacyModel]) -> list[PrivacyModel]:
    """One model of every kind and sensitive attribute, without those that were asked for; their bounds are not used."""
    models: list[PrivacyModel] = [KAnonymity(1)]
    for attribute in schema.sensitive:
        name = attribute.name
        models += [
            LDiversity(1, attribute=name),
            LDiversity(1, kind="entropy", attribute=name),
            AlphaKAnonymity(1.0, 1, attribute=name),
            TCloseness(1.0, attribute=name),
            DeltaDisclosure(1.0, attribute=name),
            BetaLikeness(1.0, attribute=name),
            BetaLikeness(1.0, kind="enhanced", attribute=name),
        ]
    known = {_identity(model) for model in asked}
    return [model for model in models if _identity(model) not in known]


def _identity(model: PrivacyModel) -> tuple[str, str | None, str | None]:
    return model.key, model.attribute, getattr(model, "kind", None)


def read_truths(frame: Any, name: str) -> np.ndarray:
    """Return which rows a Boolean column marks as released."""
    if name not in frame.columns:
        raise SchemaError(f"The column of released rows {name!r} is not in the table: add it or leave the model out.")
    factor = FactoredFrame.of(frame).factor(name)
    values = [*factor.values, None] if (factor.codes < 0).any() else list(factor.values)
    return np.array([truth_of(value, name) for value in values])[factor.codes]
