"""Run a method, verify what came out, write it: the data steward's job."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal import frames
from shoal._facts import FactSheet
from shoal.anonymizers import Anonymizer, find_method
from shoal.errors import GuaranteeError, SchemaError
from shoal.files import write_table
from shoal.guards import membership, truth_of
from shoal.guides import name_of
from shoal.metrics import Loss, Risk, SizeCounts, all_losses, risk
from shoal.partition import Counts, count_groups
from shoal.privacy import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    DeltaPresence,
    KAnonymity,
    KMap,
    LDiversity,
    PrivacyModel,
    TCloseness,
    check_constraints,
    show_level,
)
from shoal.schema import Schema, require_schema
from shoal.table import Missing, encode_column, require_quasi, restrict


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


class Evidence(FactSheet):
    """What holds on a released table, and what it cost.

    Attributes
    ----------
    privacy : tuple of Measured
        Every privacy model, measured on the released values.
    loss : Loss
    risk : Risk
    method : str
    parameters : dict
        What the method was asked for, by name: k, the other constraints in words, the recoding and so on.
    suppressed : int
        Number of suppressed rows.
    findings : dict
        What the method found out on its way, by name.
    """

    frame: Any = None
    labels: np.ndarray = np.empty(0, np.int64)

    def __init__(
        self,
        schema: Schema,
        method: str,
        checked: Checked,
        loss: Loss,
        suppressed: int,
        parameters: Mapping[str, Any] | None = None,
        findings: Mapping[str, Any] | None = None,
    ) -> None:
        self.schema = schema
        self.method = method
        self.checked = checked
        self.loss = loss
        self.suppressed = suppressed
        self.parameters = dict(parameters or {})
        self.findings = dict(findings or {})

    @property
    def privacy(self) -> tuple[Measured, ...]:
        """Every privacy model, measured on the released values."""
        return self.checked.measured

    @property
    def risk(self) -> Risk:
        """Risk of re-identification."""
        return self.checked.risk

    @property
    def k(self) -> int:
        """Rows of the smallest group."""
        return int(self.checked.level("k"))

    def summary(self) -> list[tuple[str, str]]:
        """The release in a few facts, each a name and a text."""
        quasi = ", ".join(attribute.name for attribute in self.schema.quasi)
        facts = [
            ("guarantee", f"{self.k}-anonymous with respect to {quasi}"),
            ("method", self.method),
            ("rows", f"{self.checked.rows:,}"),
            ("groups", f"{self.checked.groups:,}"),
            ("suppressed rows", f"{self.suppressed:,}"),
            ("information lost (NCP)", f"{self.loss.ncp:.1%}"),
            ("highest risk of re-identification", f"{self.risk.prosecutor:.1%}"),
        ]
        return facts + [(m.model, show_level(m.level)) for m in self.privacy if m.asked is not None and m.key != "k"]


class Release(Evidence):
    """A released table and the evidence for it; made by :func:`anonymize`.

    Attributes
    ----------
    frame : dataframe
        What may be handed out, in the library that the table came in.
    labels : int array
        Group of each row; -1 for suppressed ones.
    privacy : tuple of Measured
        Every privacy model, measured on ``frame``.
    loss : Loss
    risk : Risk
    method : str
    parameters : dict
        What the method was asked for, by name: k, the other constraints in words, the recoding and so on.
    rows : int array
        Where each released row was in the table that came in.
    findings : dict
        What the method found out on its way, by name.
    """

    def __init__(
        self,
        frame: Any,
        labels: np.ndarray,
        schema: Schema,
        method: str,
        checked: Checked,
        loss: Loss,
        parameters: Mapping[str, Any] | None = None,
        rows: np.ndarray | None = None,
        findings: Mapping[str, Any] | None = None,
    ) -> None:
        suppressed = int(np.count_nonzero(labels < 0))
        super().__init__(schema, method, checked, loss, suppressed, parameters, findings)
        self.frame = frame
        self.labels = labels
        self.rows = np.arange(len(labels)) if rows is None else rows

    def to_csv(self, path: str | Path, *, separator: str | None = None) -> None:
        """Write the released table as CSV; the file is there in full or not at all."""
        write_table(frames.open_frame(self.frame), path, kind="csv", separator=separator)

    def to_parquet(self, path: str | Path) -> None:
        """Write the released table as Parquet; the file is there in full or not at all."""
        write_table(frames.open_frame(self.frame), path, kind="parquet")


def anonymize(
    frame: Any,
    schema: Schema,
    k: int = 10,
    *,
    method: str = "mondrian",
    constraints: Sequence[PrivacyModel] = (),
    recoding: str | None = None,
    suppression: float = 0.0,
    missing: Missing = "value",
    random_state: Any = None,
    y: Any = None,
    learn_from: Any = None,
    **options: Any,
) -> Release:
    """Anonymize a table and verify the result before it is returned.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
    schema : Schema
    k : int
        Rows that must be released alike at least.
    method : str
        Name of an anonymizer, such as ``"mondrian"``.
    constraints : sequence of privacy models
        Asked for beside k.
    recoding : str, optional
        As for every anonymizer; by default the method's own.
    suppression, missing, random_state
        As for every anonymizer.
    y : array-like, optional
        For methods that look at a target: labels, predictions or probabilities, one row for each row of the table. By
        default the schema's target.
    learn_from : table, optional
        Other rows with the same columns: the method finds its groups on them, and they are merged where the rows of
        ``frame`` fall short. ``y`` then belongs to these rows.
    **options
        Further parameters of the method.

    Raises
    ------
    GuaranteeError
        If k or a constraint cannot be reached, or does not hold on the released values.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Attribute, Schema, anonymize
    >>> people = pl.DataFrame({"age": [25, 27, 31, 45, 47, 52], "sick": ["no", "yes", "no", "no", "no", "yes"]})
    >>> schema = Schema([Attribute("age"), Attribute("sick", role="sensitive", kind="nominal")])
    >>> release = anonymize(people, schema, k=3)
    >>> release.k, release.frame["age"].unique().sort().to_list()
    (3, ['[25, 31]', '[45, 52]'])
    """
    require_schema(schema)
    constraints = check_constraints(constraints)
    anonymizer = make_anonymizer(
        method,
        schema,
        k,
        constraints=constraints,
        recoding=recoding,
        suppression=suppression,
        missing=missing,
        random_state=random_state,
        **options,
    )
    # Row labels of pandas may name people, and nobody checks them; `rows` leads back to them.
    opened = nw.maybe_reset_index(frames.open_frame(frame))
    if learn_from is None:
        released, table = anonymizer.anonymize_frame(opened, y)
        labels = anonymizer.labels_
    else:
        released, table, labels = anonymizer.fit(learn_from, y).anonymize_others(opened)
    asked = (KAnonymity(k), *constraints)
    checked = require_levels(check(released, schema, asked), method)
    member_of = membership(asked)
    members = None if member_of is None else _truths(released, member_of)
    sets, nodes = anonymizer._recoding() == "set", anonymizer._released_nodes()
    loss = all_losses(table, labels, sets=sets, members=members, nodes=nodes)
    rows = np.arange(len(labels))
    if member_of is not None and members is not None:
        rows = np.flatnonzero(members)
        released, labels = nw.maybe_reset_index(released[rows].drop(member_of)), labels[rows]
        # What the rest of the population was needed for is known by now; all else must hold on what is handed out.
        require_levels(check(released, schema, [c for c in asked if not isinstance(c, (KMap, DeltaPresence))]), method)
    parameters = parameters_of(anonymizer, constraints)
    if learn_from is not None:
        parameters["learn_from"] = f"{len(anonymizer.labels_):,} other rows"
    return Release(released.to_native(), labels, schema, method, checked, loss, parameters, rows, anonymizer.findings())


def make_anonymizer(method: str, schema: Schema, k: int, *, recoding: str | None = None, **options: Any) -> Anonymizer:
    """An anonymizer by its name, with the method's own recoding if none is asked for."""
    cls = find_method(method)
    _require_options(cls, method, {name: one for name, one in options.items() if name not in _OF_EVERY_METHOD})
    return cls(schema, k, recoding=_default_recoding(cls) if recoding is None else recoding, **options)


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
    opened = frames.open_frame(frame)
    frames.require_rows(opened)
    require_checkable(opened.columns, schema)
    labels = frames.group_rows(opened, [attribute.name for attribute in schema.quasi])
    columns = [encode_column(opened[attribute.name], attribute) for attribute in schema.sensitive]
    member_of = membership(constraints)
    members = None if member_of is None else _truths(opened, member_of)
    if members is not None:
        columns = [restrict(column, members) for column in columns]
    judge = Judge(schema, constraints, opened.columns, threshold=threshold)
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
        self._looks: list[Look] = []

    def look_at(self, counts: Counts) -> None:
        """Measure groups that were not looked at yet."""
        self.add(self.measure(counts))

    def measure(self, counts: Counts) -> Look:
        """What holds on some groups, wherever they are looked at."""
        levels = [model.measure(counts) for model in self._models]
        holds = [constraint.holds(counts) for constraint in self._asked]
        return Look(levels, holds, _count_pairs(counts.sizes, counts.population, np.ones(len(counts.sizes), np.int64)))

    def add(self, look: Look) -> None:
        """Take in what was measured on groups that were not looked at yet."""
        self._looks.append(look)

    def another(self) -> Judge:
        """A judge of the same models who has seen nothing yet."""
        return Judge(self._schema, self._asked, self._names, threshold=self._threshold)

    @property
    def has_looked(self) -> bool:
        """Whether any groups were looked at."""
        return bool(self._looks)

    def together(self) -> Look:
        """What holds on all groups that were looked at, for another judge."""
        levels = [_worst(model, [look.levels[i] for look in self._looks]) for i, model in enumerate(self._models)]
        holds = [all(look.holds[i] for look in self._looks) for i in range(len(self._asked))]
        sizes = _count_pairs(*(np.concatenate([look.sizes[i] for look in self._looks]) for i in range(3)))
        return Look(levels, holds, sizes)

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


class Look(NamedTuple):
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


def _truths(frame: nw.DataFrame[Any], name: str) -> np.ndarray:
    if name not in frame.columns:
        raise SchemaError(f"The column of released rows {name!r} is not in the table: add it or leave the model out.")
    factor = frames.factorize(frame[name])
    values = [*factor.values, None] if (factor.codes < 0).any() else list(factor.values)
    return np.array([truth_of(value, name) for value in values])[factor.codes]


def _require_options(cls: type[Anonymizer], method: str, options: Mapping[str, Any]) -> None:
    known = sorted(set(cls._get_param_names()) - _COMMON_PARAMETERS)
    for name in options:
        if name not in known:
            raise SchemaError(
                f"The method {method!r} has no option {name!r}: it has {', '.join(known) or 'none of its own'}."
            )


def _default_recoding(cls: type[Anonymizer]) -> str:
    default: str = inspect.signature(cls).parameters["recoding"].default
    return default


def parameters_of(anonymizer: Anonymizer, constraints: Sequence[PrivacyModel]) -> dict[str, Any]:
    """What was asked for, in a form that can be printed."""
    parameters = anonymizer.get_params(deep=False)
    del parameters["schema"]
    parameters["recoding"] = anonymizer._recoding()
    if parameters.get("model") is not None:
        parameters["model"] = name_of(parameters["model"])
    for name in parameters.keys() & set(anonymizer._holds_rows):
        # Evidence is handed on, and rows must not be read from it.
        if parameters[name] is not None:
            parameters[name] = f"{len(parameters[name]):,} entries, which are not shown"
    return parameters | {"constraints": [constraint.describe() for constraint in constraints]}


_OF_EVERY_METHOD = ("constraints", "suppression", "missing", "random_state")
_COMMON_PARAMETERS = set(inspect.signature(anonymize).parameters) | {"schema"}
