"""Release settings as plain values that can be saved, and that know no widget."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from shoal.anonymizers import find_method
from shoal.data.schema import Schema
from shoal.errors import ShoalError
from shoal.evaluation.plan import usable_recoding, usable_recodings
from shoal.models.named import model_names
from shoal.parameters import Constraint, Real, Whole, constraints_of
from shoal.partition.recoding import describe_recodings
from shoal.privacy.base import Control, LevelOption, PrivacyModel
from shoal.privacy.models import MODELS
from shoal.studio.estimators import is_file_name

LEAST_K, MOST_K = 2, 10_000
K = Whole(least=LEAST_K, most=MOST_K)
SUPPRESSION, WEIGHT = Real(least=0, most=1), Real(least=0, most=1000)
FIXED_GUIDE = 0.7
"""Guide of accuracy-guided anonymization that works well on most tables: a search would take too long here."""


@dataclass(frozen=True)
class Settings:
    """How to release a table, and which model to train on it to measure the cost."""

    method: str = "mondrian"
    k: int = 10
    levels: dict[str, float] = field(default_factory=dict)
    """Requested levels besides k, by the keys of the privacy models; callers see each as a setting."""
    recoding: str | None = None
    """None is the default of the method."""
    suppression: float = 0.0
    model: str | None = "tree"
    weights: dict[str, float] = field(default_factory=dict)
    """Weights of quasi-identifiers; those not named weigh 1."""

    def changed(self, **changes: Any) -> Settings:
        """Return a checked copy with some values changed."""
        known = self.to_dict()
        for name in changes:
            if name not in known:
                raise ShoalError(f"There is no setting {name!r}: choose {', '.join(sorted(known))}.")
        method = changes.get("method", self.method)
        if self.recoding is not None and not _recodings_of(method).allows(self.recoding):
            changes.setdefault("recoding", None)
        levels = {key: changes.pop(key, known[key]) for key in offered_levels()}
        made = replace(self, levels={key: one for key, one in levels.items() if one is not None}, **changes)
        made.check()
        return made

    def check(self) -> None:
        """Raise an error if a value is not valid."""
        (_recodings_of(self.method) | None).check("recoding", self.recoding)
        K.check("k", self.k)
        for key, level in self.levels.items():
            offered_levels()[key].levels.check(key, level)
        SUPPRESSION.check("suppression", self.suppression)
        if self.model is not None and self.model not in model_names() and not is_file_name(self.model):
            raise ShoalError(f"There is no model {self.model!r}: choose {', '.join(model_names())}, or none.")
        for name, weight in self.weights.items():
            WEIGHT.check(f"The weight of {name!r}", weight)

    def constraints(self) -> list[PrivacyModel]:
        """Return the requested privacy models besides k-anonymity."""
        given = [(MODELS[key], {option_of(key).field: level}) for key, level in self.levels.items()]
        return [model.from_options(values, None, self.k) for model, values in given]

    def weighted(self, schema: Schema) -> Schema:
        """Return the schema with these weights; those of other attributes than quasi-identifiers are ignored."""
        quasi = {attribute.name for attribute in schema.quasi}
        return schema.with_weights(**{name: weight for name, weight in self.weights.items() if name in quasi})

    @property
    def recoding_for_models(self) -> str:
        """Recoding of a release that a model is trained on, which keeps the domain of the values."""
        return usable_recoding(self.method, self.recoding if self.recoding in usable_recodings() else None)

    def options(self) -> dict[str, Any]:
        """Return additional parameters of the method."""
        return {"guide": FIXED_GUIDE} if self.method == "accuracy-guided" else {}

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a dictionary of plain values."""
        values: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            values |= {key: value.get(key) for key in offered_levels()} if one.name == "levels" else {one.name: value}
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """Create settings from the dictionary that :meth:`to_dict` returns."""
        return cls().changed(**values)


def offered_recodings(method: str) -> dict[str, str]:
    """Return the recodings of a method by name, each with its description."""
    allowed = _recodings_of(method)
    return {name: about for name, about in describe_recodings().items() if allowed.allows(name)}


def _recodings_of(method: str) -> Constraint:
    return constraints_of(find_method(method))["recoding"]


def offered_levels() -> dict[str, Control]:
    """Return the fields in which levels of privacy models are set, by the keys of the models."""
    return {key: model.control for key, model in MODELS.items() if model.control is not None}


def option_of(key: str) -> LevelOption:
    """Return the option of the command line for the level of a privacy model."""
    return MODELS[key].levels_asked()[0]
