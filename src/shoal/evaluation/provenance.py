"""The provenance of a model: its training rows and their release, so that it can be attacked fairly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from shoal.anonymizers import find_method
from shoal.data import frames
from shoal.data.factored import FactoredFrame
from shoal.data.files import write_text
from shoal.data.schema import Schema
from shoal.errors import DataError
from shoal.evaluation.protected_model import ProtectedModel
from shoal.privacy.models import MODELS, PrivacyModel
from shoal.reports.report import dump_json


class Anonymization(NamedTuple):
    """The anonymization of rows before a model was trained on them."""

    method: str
    k: int
    constraints: tuple[PrivacyModel, ...]
    options: dict[str, Any]
    """Further parameters of the method, including its recoding."""

    def anonymizer(self, schema: Schema) -> Any:
        """Return an anonymizer that repeats it."""
        # A model about a population needs a mark on each of its rows, which rows that are drawn again do not have.
        kept = tuple(one for one in self.constraints if not one.about_population)
        return find_method(self.method)(schema, self.k, constraints=kept, **self.options)


class Provenance(NamedTuple):
    """The rows of a table that a model was trained on, and their anonymization."""

    table: dict[str, Any]
    """Fingerprint of the table, see :func:`fingerprint`."""
    left_out: np.ndarray
    """Positions of the rows that the model was not trained on."""
    anonymization: Anonymization | None = None
    """None if the model was trained on raw rows."""

    def part(self, frame: Any) -> tuple[Any, Any]:
        """Return the rows of the same table that the model was trained on, and the others."""
        opened = frames.open_frame(frame)
        if fingerprint(opened)["sha256"] != self.table["sha256"]:
            raise DataError(
                f"The table of {len(opened):,} rows is not the one that the model was trained on, which had "
                f"{self.table['rows']:,}: pass that one, or members and controls."
            )
        kept = np.ones(len(opened), bool)
        kept[self.left_out] = False
        rows = np.flatnonzero(kept), np.flatnonzero(~kept)
        members, others = (frames.take_rows(opened, chosen).to_native() for chosen in rows)
        return members, others

    def estimator(self, model: Any, schema: Schema) -> Any:
        """Return an untrained copy of the model that is trained alike, for reference models."""
        if self.anonymization is None:
            return clone(model)
        # The model did not use identifiers, so reference models do not get them either.
        seen = Schema([attribute for attribute in schema if attribute.role != "identifier"])
        return ProtectedModel(clone(model), self.anonymization.anonymizer(seen))

    def to_json(self, path: str | Path) -> None:
        """Write the provenance as JSON, in full or not at all."""
        facts: dict[str, Any] = {"table": self.table, "anonymization": None}
        facts["left_out"] = " ".join(map(str, self.left_out.tolist()))
        if self.anonymization is not None:
            named = [{"constraint": type(one).__name__, **_fields(one)} for one in self.anonymization.constraints]
            facts["anonymization"] = self.anonymization._asdict() | {"constraints": named}
        write_text(path, dump_json(facts) + "\n")

    @classmethod
    def from_json(cls, path: str | Path) -> Provenance:
        """Read a file of :meth:`to_json`."""
        try:
            facts = json.loads(Path(path).read_text(encoding="utf-8"))
            left_out = np.array(facts["left_out"].split(), np.int64)
            table = {"sha256": str(facts["table"]["sha256"]), "rows": int(facts["table"]["rows"])}
            if len(left_out) and not 0 <= left_out.min() <= left_out.max() < table["rows"]:
                raise ValueError("a row that is left out is not in the table")
            return cls(table, left_out, _read_anonymization(facts["anonymization"]))
        except OSError as error:
            raise DataError(f"{str(path)!r} cannot be read ({error.strerror}): check the path.") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{str(path)!r} is not the provenance of a model ({error}): write it again.") from None


def fingerprint(frame: Any) -> dict[str, Any]:
    """Return the number of rows, the columns and a SHA-256 of the values, which identify a table."""
    factored = FactoredFrame.of(frame)
    digest = hashlib.sha256()
    for name in sorted(factored.columns):
        factor = factored.factor(name)
        digest.update(name.encode())
        digest.update("\x1f".join(str(value) for value in factor.values.tolist()).encode())
        digest.update(np.ascontiguousarray(factor.codes, np.int64).tobytes())
    return {"rows": len(factored), "columns": len(factored.columns), "sha256": digest.hexdigest()}


def trace(frame: Any, trained_on: np.ndarray, anonymization: Anonymization | None = None) -> Provenance:
    """Return the provenance of a model that was trained on these rows of a table."""
    return Provenance(fingerprint(frame), np.setdiff1d(np.arange(len(frame)), trained_on), anonymization)


def repeatable(options: Mapping[str, Any], findings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that repeat a method on other rows, without its search for the best ones."""
    kept = {name: value for name, value in options.items() if name not in ("constraints", "model", "n_jobs")}
    return kept | {name: findings[name] for name in ("guide", "recoding") if findings.get(name) is not None}


def _read_anonymization(facts: Mapping[str, Any] | None) -> Anonymization | None:
    if facts is None:
        return None
    constraints = tuple(_read_constraint(dict(one)) for one in facts["constraints"])
    find_method(facts["method"])
    return Anonymization(facts["method"], int(facts["k"]), constraints, dict(facts["options"]))


def _read_constraint(values: dict[str, Any]) -> PrivacyModel:
    kind = {model.__name__: model for model in MODELS.values()}[values.pop("constraint")]
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _fields(constraint: PrivacyModel) -> dict[str, Any]:
    return {one.name: getattr(constraint, one.name) for one in fields(constraint) if one.init}  # type: ignore[arg-type]
