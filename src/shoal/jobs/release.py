"""Run a method, verify what came out, write it: the data steward's job."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shoal.anonymizers import Anonymizer, find_method
from shoal.data import frames
from shoal.data.files import write_table
from shoal.data.schema import Schema, require_schema
from shoal.data.table import Missing
from shoal.errors import SchemaError
from shoal.models.guides import name_of
from shoal.partition.losses import Loss, all_losses
from shoal.privacy.checking import Checked, Measured, check, read_truths, require_levels
from shoal.privacy.models import (
    DeltaPresence,
    KAnonymity,
    KMap,
    PrivacyModel,
    check_constraints,
    show_level,
)
from shoal.privacy.risk import Risk
from shoal.privacy.rules import membership
from shoal.reports.summaries import FactSheet


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
    members = None if member_of is None else read_truths(released, member_of)
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
