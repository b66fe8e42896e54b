"""How a model was trained: on which rows of a table, and by which release; so that it can be attacked fairly."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from shoal.anonymizers import find_method
from shoal.data import frames
from shoal.data.files import replacing
from shoal.data.schema import Schema
from shoal.errors import DataError
from shoal.evaluation.protected_model import ProtectedModel
from shoal.privacy import models
from shoal.privacy.models import DeltaPresence, KMap, PrivacyModel
from shoal.reports.report import dump_json


class Anonymization(NamedTuple):
    """How rows were anonymized before a model was trained on them."""

    method: str
    k: int
    constraints: tuple[PrivacyModel, ...]
    options: dict[str, Any]
    """Further parameters of the method, its recoding among them."""

    def anonymizer(self, schema: Schema) -> Any:
        """An anonymizer that does it again."""
        # Who is asked about in a population is not known of rows that are drawn anew.
        kept = tuple(one for one in self.constraints if not isinstance(one, (DeltaPresence, KMap)))
        return find_method(self.method)(schema, self.k, constraints=kept, **self.options)


class Provenance(NamedTuple):
    """Which rows of a table a model was trained on, and how."""

    table: dict[str, Any]
    """Fingerprint of the table, see :func:`fingerprint`."""
    left_out: np.ndarray
    """Numbers of its rows that the model was not trained on."""
    anonymization: Anonymization | None = None
    """None if it was trained on the rows as they are."""

    def part(self, frame: Any) -> tuple[Any, Any]:
        """The rows of the same table that the model was trained on, and the others."""
        opened = frames.open_frame(frame)
        if fingerprint(opened)["sha256"] != self.table["sha256"]:
            raise DataError(
                f"The table of {len(opened):,} rows is not the one that the model was trained on, which had "
                f"{self.table['rows']:,}: pass that one, or members and controls by themselves."
            )
        kept = np.ones(len(opened), bool)
        kept[self.left_out] = False
        rows = np.flatnonzero(kept), np.flatnonzero(~kept)
        members, others = (frames.take_rows(opened, chosen).to_native() for chosen in rows)
        return members, others

    def estimator(self, model: Any, schema: Schema) -> Any:
        """An untrained copy of the model that is trained as it was, for reference models."""
        if self.anonymization is None:
            return clone(model)
        # Models do not see who somebody is, so reference models are not handed it either.
        seen = Schema([attribute for attribute in schema if attribute.role != "identifier"])
        return ProtectedModel(clone(model), self.anonymization.anonymizer(seen))

    def to_json(self, path: str | Path) -> None:
        """Write it; the file is there in full or not at all."""
        facts: dict[str, Any] = {"table": self.table, "anonymization": None}
        facts["left_out"] = " ".join(map(str, self.left_out.tolist()))
        if self.anonymization is not None:
            named = [{"constraint": type(one).__name__, **_fields(one)} for one in self.anonymization.constraints]
            facts["anonymization"] = self.anonymization._asdict() | {"constraints": named}
        with replacing(path) as temporary:
            temporary.write_text(dump_json(facts) + "\n", encoding="utf-8")

    @classmethod
    def from_json(cls, path: str | Path) -> Provenance:
        """Read what :meth:`to_json` wrote."""
        try:
            facts = json.loads(Path(path).read_text(encoding="utf-8"))
            left_out = np.array(facts["left_out"].split(), np.int64)
            table = {"sha256": str(facts["table"]["sha256"]), "rows": int(facts["table"]["rows"])}
            if len(left_out) and not 0 <= left_out.min() <= left_out.max() < table["rows"]:
                raise ValueError("a row that is left out is none of the table's")
            return cls(table, left_out, _read_anonymization(facts["anonymization"]))
        except OSError as error:
            raise DataError(f"{str(path)!r} cannot be read ({error.strerror}): check the path.") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{str(path)!r} does not say how a model was trained ({error}): write it anew.") from None


def fingerprint(frame: Any) -> dict[str, Any]:
    """Rows, columns and a SHA-256 of a table's values, by which it can be told whether it is the same one."""
    opened = frames.open_frame(frame)
    digest = hashlib.sha256()
    for name in sorted(opened.columns):
        factor = frames.factorize(opened[name])
        digest.update(name.encode())
        digest.update("\x1f".join(str(value) for value in factor.values.tolist()).encode())
        digest.update(np.ascontiguousarray(factor.codes, np.int64).tobytes())
    return {"rows": len(opened), "columns": len(opened.columns), "sha256": digest.hexdigest()}


def trace(frame: Any, trained_on: np.ndarray, anonymization: Anonymization | None = None) -> Provenance:
    """The provenance of a model that was trained on these rows of a table."""
    return Provenance(fingerprint(frame), np.setdiff1d(np.arange(len(frame)), trained_on), anonymization)


def repeatable(options: Mapping[str, Any], findings: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a method that do the same to other rows, without the search for what was found to be best."""
    kept = {name: value for name, value in options.items() if name not in ("constraints", "model", "n_jobs")}
    return kept | {name: findings[name] for name in ("guide", "recoding") if findings.get(name) is not None}


def _read_anonymization(facts: Mapping[str, Any] | None) -> Anonymization | None:
    if facts is None:
        return None
    constraints = tuple(_read_constraint(dict(one)) for one in facts["constraints"])
    find_method(facts["method"])
    return Anonymization(facts["method"], int(facts["k"]), constraints, dict(facts["options"]))


def _read_constraint(fields: dict[str, Any]) -> PrivacyModel:
    kind = getattr(models, str(fields.pop("constraint")), None)
    if not (isinstance(kind, type) and issubclass(kind, PrivacyModel) and dataclasses.is_dataclass(kind)):
        raise ValueError("a constraint is none of Shoal's")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})


def _fields(constraint: PrivacyModel) -> dict[str, Any]:
    return {one.name: getattr(constraint, one.name) for one in dataclasses.fields(constraint)}  # type: ignore[arg-type]
