"""The quasi-identifiers among the features that were selected for a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from shoal.data.schema import Attribute, Schema, require_schema
from shoal.errors import SchemaError, ShoalError, reason
from shoal.models.targets import features


class SelectedFeature(NamedTuple):
    """A selected feature and its role."""

    name: str
    role: str


class Selection(NamedTuple):
    """The selected features, in the order of their selection."""

    features: tuple[SelectedFeature, ...]

    def of(self, role: str) -> list[str]:
        """Return the names of the selected features with a role."""
        return [feature.name for feature in self.features if feature.role == role]

    @property
    def summary(self) -> str:
        """One sentence with the number of quasi-identifiers."""
        quasi, sensitive = self.of("quasi"), self.of("sensitive")
        nouns = "is a quasi-identifier" if len(quasi) == 1 else "are quasi-identifiers"
        sentence = f"{len(quasi)} of {len(self.features)} selected features {nouns}"
        sentence += f": {', '.join(quasi)}" if quasi else ""
        return sentence + (f"; sensitive: {', '.join(sensitive)}." if sensitive else ".")


def explain_selection(selected: Any, schema: Schema) -> Selection:
    """Find the quasi-identifiers among the features that were selected for a model.

    Parameters
    ----------
    selected : fitted selector, model or pipeline, or names
        Anything with ``get_support``, or with ``feature_importances_``, of which those above 0 count. Of a pipeline the
        last selector, or else its model. A feature derived from an attribute, such as one column per value, counts as
        that attribute. The columns of an array are those that models use, in the order of the schema.
    schema : Schema

    Examples
    --------
    >>> from shoal.datasets import make_census
    >>> census = make_census(500)
    >>> selection = explain_selection(["age", "capital-gain", "hours-per-week"], census.schema)
    >>> selection.summary
    '1 of 3 selected features is a quasi-identifier: age.'
    >>> selection.features[1]
    SelectedFeature(name='capital-gain', role='other')
    """
    require_schema(schema)
    names = [selected] if isinstance(selected, str) else _selected_names(selected, schema)
    attributes = dict.fromkeys(_attribute_of(name, schema) for name in names)
    return Selection(tuple(SelectedFeature(attribute.name, attribute.role) for attribute in attributes))


def _selected_names(selected: Any, schema: Schema) -> list[str]:
    steps = [step for _, step in selected.steps] if isinstance(selected, Pipeline) else [selected]
    last = max((i for i, step in enumerate(steps) if hasattr(step, "get_support")), default=len(steps) - 1)
    step = steps[last]
    if not hasattr(step, "get_support") and not hasattr(step, "fit"):
        if not isinstance(selected, Iterable):
            raise ShoalError(f"{selected!r} selects no features: pass a fitted selector, or names.")
        return [str(name) for name in selected]
    try:
        chosen = step.get_support() if hasattr(step, "get_support") else step.feature_importances_ > 0
        names = selected[:last].get_feature_names_out() if last else getattr(step, "feature_names_in_", None)
    except (AttributeError, NotFittedError) as error:
        raise ShoalError(
            f"The selection of a {type(step).__name__} cannot be read ({reason(error)}): pass a fitted one, or names."
        ) from None
    names = features(schema) if names is None else names
    if len(names) != len(chosen):
        raise ShoalError(
            f"The {type(step).__name__} chose among {len(chosen)} columns, but models of this schema use {len(names)}: "
            "fit it on a table, or pass names."
        )
    return [str(name) for name, one in zip(names, chosen, strict=True) if one]


def _attribute_of(name: str, schema: Schema) -> Attribute:
    """Return the attribute of a feature: ``nominal__sex_1`` is of ``sex``; of several names the longest counts."""
    if name in schema:
        return schema[name]
    parts = name.split("__")
    for i in reversed(range(len(parts))):
        made = "__".join(parts[i:])
        fitting = [a for a in schema if made == a.name or made.startswith(f"{a.name}_")]
        if fitting:
            return max(fitting, key=lambda attribute: len(attribute.name))
    raise SchemaError(f"The selected feature {name!r} is not an attribute of the schema: pass names of its columns.")
