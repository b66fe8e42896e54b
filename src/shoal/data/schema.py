"""The role, kind, hierarchy and weight of each column of a table."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from shoal.data import frames
from shoal.data.files import write_text
from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.profiling import propose
from shoal.errors import HierarchyError, SchemaError

Role = Literal["identifier", "quasi", "sensitive", "target", "other"]
Kind = Literal["numeric", "ordinal", "nominal"]
ROLES: tuple[str, ...] = get_args(Role)
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Recipe:
    """A hierarchy that is built later, from the values of the column.

    In a schema file: ``hierarchy = { intervals = [5, 10, 20] }`` (widths), ``{ prefix = [3, 2] }`` (characters still
    shown at each level), ``{ dates = ["month", "year"] }``, ``{ order = 2 }`` (neighbours joined at each level) or
    ``{ frequencies = [0.01, 0.05] }`` (shares below which values are grouped). ``true`` stands for the default levels.

    >>> Recipe("order", 2).build({"low": 1, "mid": 1, "high": 1, "top": 1}).height
    2
    """

    builder: str
    option: Any = True

    def __post_init__(self) -> None:
        if self.builder not in _BUILDERS:
            raise SchemaError(f"Unknown way to build a hierarchy {self.builder!r}: choose one of {_listed(_BUILDERS)}.")

    def build(self, counts: Mapping[str, int]) -> Hierarchy:
        """Build the hierarchy over these values, given in order with the count of each."""
        build, parameter = _BUILDERS[self.builder]
        options = {} if self.option is True else {parameter: self.option}
        try:
            return build(counts, **options)  # type: ignore[no-any-return]
        except HierarchyError:
            raise
        except (TypeError, ValueError, OverflowError):
            raise HierarchyError(
                f"the recipe {{ {self.builder} = {self.option!r} }} has an option of the wrong type: fix the schema."
            ) from None


@dataclass(frozen=True)
class Attribute:
    """A column with a role.

    Parameters
    ----------
    name : str
        The column's name.
    role : {"identifier", "quasi", "sensitive", "target", "other"}
        Identifiers are dropped, quasi-identifiers are generalised, sensitive attributes are protected by models such as
        l-diversity; target and other columns are released as they are.
    kind : {"numeric", "ordinal", "nominal"}
        Dates are numeric.
    hierarchy : Hierarchy or Recipe, optional
        How values generalise. A nominal attribute without one is released as a set of values.
    weight : float
        Weight of its loss against that of other attributes; 0 ignores the loss.
    order : sequence, optional
        The values of an ordinal attribute from lowest to highest.

    >>> Attribute("age")
    Attribute(name='age', role='quasi', kind='numeric', hierarchy=None, weight=1.0, order=None)
    """

    name: str
    role: str = "quasi"
    kind: str = "numeric"
    hierarchy: Hierarchy | Recipe | None = None
    weight: float = 1.0
    order: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(f"An attribute's name must be a text, not {self.name!r}: give the name of a column.")
        if self.role not in ROLES:
            raise SchemaError(f"Attribute {self.name!r} has the unknown role {self.role!r}: choose {_listed(ROLES)}.")
        if self.kind not in KINDS:
            raise SchemaError(f"Attribute {self.name!r} has the unknown kind {self.kind!r}: choose {_listed(KINDS)}.")
        if not isinstance(self.weight, (int, float)) or not 0 <= self.weight < math.inf:
            raise SchemaError(f"Attribute {self.name!r} has the weight {self.weight!r}: give a number from 0 upwards.")
        if self.hierarchy is not None and not isinstance(self.hierarchy, (Hierarchy, Recipe)):
            raise SchemaError(
                f"The hierarchy of attribute {self.name!r} is {self.hierarchy!r}: "
                "read it, such as by Hierarchy.from_json, or give a Recipe."
            )
        if self.order is not None:
            _check_order(self)
            # Numbers of numpy cannot be written to a schema file.
            object.__setattr__(
                self, "order", tuple(getattr(value, "item", lambda v=value: v)() for value in self.order)
            )


def require_schema(schema: Any) -> None:
    """Refuse anything that is not a schema."""
    if not isinstance(schema, Schema):
        raise SchemaError(f"A Schema is needed, not {schema!r}: use Schema.from_toml, Schema.infer or Schema([...]).")


class Schema:
    """The attributes of a table, by name and in order.

    >>> schema = Schema([Attribute("age"), Attribute("income", role="target", kind="nominal")])
    >>> [attribute.name for attribute in schema.quasi]
    ['age']
    """

    def __init__(self, attributes: Iterable[Attribute], *, reasons: Mapping[str, str] | None = None) -> None:
        self.attributes: tuple[Attribute, ...] = tuple(attributes)
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                raise SchemaError(
                    f"A schema is made of Attributes, not of {attribute!r}: write Attribute(name, role, kind)."
                )
        self.reasons: dict[str, str] = dict(reasons or {})
        """The reason for each proposal of ``infer``, one sentence per attribute."""
        name = _first_repeated(self.names)
        if name is not None:
            raise SchemaError(f"Attribute {name!r} is in the schema more than once: keep one of them.")

    @classmethod
    def infer(cls, frame: Any) -> Schema:
        """Propose kinds and roles from the data, with ``reasons``. Read the proposal before using it."""
        proposals = propose(frames.open_frame(frame))
        attributes = [Attribute(p.name, p.role, p.kind, order=p.order) for p in proposals]
        return cls(attributes, reasons={p.name: p.reason for p in proposals})

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a schema file; the paths of hierarchies are relative to it."""
        path = Path(path)
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SchemaError(f"There is no schema file {str(path)!r}: create one with 'shoal inspect'.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SchemaError(f"{str(path)!r} is not a TOML file ({error}): fix it there.") from None
        except OSError as error:
            raise SchemaError(
                f"The schema file {str(path)!r} cannot be read ({error.strerror}): name a TOML file."
            ) from None
        tables = content.get("attributes")
        if not isinstance(tables, dict) or not tables or set(content) != {"attributes"}:
            raise SchemaError(
                f"{str(path)!r} must hold tables [attributes.NAME] and nothing else: see 'shoal inspect'."
            )
        return cls(_attribute_from_toml(name, table, path.parent) for name, table in tables.items())

    def to_toml(self, path: str | Path) -> None:
        """Write a schema file, and each hierarchy as a JSON file beside it."""
        import tomlkit

        path = Path(path)
        document = tomlkit.document()
        tables = tomlkit.table(is_super_table=True)
        files: set[str] = set()
        for attribute in self.attributes:
            table = tomlkit.table()
            if attribute.name in self.reasons:
                table.add(tomlkit.comment(self.reasons[attribute.name]))
            for key, value in _attribute_to_toml(attribute, path.parent, files).items():
                table.add(key, value)
            tables.add(attribute.name, table)
        document.add("attributes", tables)
        write_text(path, tomlkit.dumps(document))

    @property
    def names(self) -> list[str]:
        """Names of all attributes, in order."""
        return [attribute.name for attribute in self.attributes]

    @property
    def quasi(self) -> tuple[Attribute, ...]:
        """Quasi-identifiers: the attributes that an adversary may know."""
        return self._of("quasi")

    @property
    def sensitive(self) -> tuple[Attribute, ...]:
        """Attributes whose values must not be inferred about a person."""
        return self._of("sensitive")

    @property
    def target(self) -> tuple[Attribute, ...]:
        """Attributes that a model predicts."""
        return self._of("target")

    def without_identifiers(self) -> Schema:
        """Return the schema of the attributes that are released."""
        return Schema(attribute for attribute in self if attribute.role != "identifier")

    @property
    def identifiers(self) -> tuple[Attribute, ...]:
        """Attributes that name a person; they are never released."""
        return self._of("identifier")

    @property
    def others(self) -> tuple[Attribute, ...]:
        """Attributes that are released unchanged."""
        return self._of("other")

    def with_roles(self, **roles: Sequence[str]) -> Schema:
        """Return the schema with some attributes in other roles: ``with_roles(sensitive=["disease"])``."""
        changed = {}
        for role, names in roles.items():
            for name in names:
                changed[name] = replace(self[name], role=role)
        return Schema((changed.get(a.name, a) for a in self.attributes), reasons=self.reasons)

    def with_weights(self, **weights: float) -> Schema:
        """Return the schema with other weights: ``with_weights(age=2.0)``."""
        changed = {name: replace(self[name], weight=weight) for name, weight in weights.items()}
        return Schema((changed.get(a.name, a) for a in self.attributes), reasons=self.reasons)

    def _of(self, role: str) -> tuple[Attribute, ...]:
        return tuple(attribute for attribute in self.attributes if attribute.role == role)

    def __getitem__(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise SchemaError(f"There is no attribute {name!r} in the schema: it has {_listed(self.names)}.")

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.attributes == other.attributes

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __repr__(self) -> str:
        parts = [f"{role}: {', '.join(a.name for a in self._of(role))}" for role in ROLES if self._of(role)]
        return f"Schema({'; '.join(parts)})"


def _check_order(attribute: Attribute) -> None:
    order = attribute.order
    if not isinstance(order, (list, tuple)):
        raise SchemaError(f"The order of {attribute.name!r} must be a list of its values from lowest to highest.")
    if attribute.kind != "ordinal":
        raise SchemaError(
            f"Attribute {attribute.name!r} is {attribute.kind} but has an order: make it ordinal or drop the order."
        )
    value = _first_repeated(order)
    if value is not None:
        raise SchemaError(f"The order of {attribute.name!r} names {value!r} more than once: keep one of them.")


def _first_repeated(values: Iterable[Any]) -> Any:
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def _attribute_from_toml(name: str, table: Any, folder: Path) -> Attribute:
    if not isinstance(table, dict):
        raise SchemaError(f"Attribute {name!r} must be a table such as [attributes.{name}] with role and kind.")
    unknown = sorted(set(table) - {"role", "kind", "hierarchy", "weight", "order"})
    if unknown:
        raise SchemaError(
            f"Attribute {name!r} has the unknown key {unknown[0]!r}: choose among role, kind, hierarchy, weight, order."
        )
    role = table.get("role", "other")
    # Columns that are only passed through need no kind; nominal fits any values.
    kind = table.get("kind", "nominal")
    order = table.get("order")
    if order is not None and not isinstance(order, list):
        raise SchemaError(f"The order of {name!r} must be a list of its values from lowest to highest, not {order!r}.")
    hierarchy = _hierarchy_from_toml(name, table.get("hierarchy"), folder)
    return Attribute(name, role, kind, hierarchy, table.get("weight", 1.0), None if order is None else tuple(order))


def _hierarchy_from_toml(name: str, entry: Any, folder: Path) -> Hierarchy | Recipe | None:
    if entry is None:
        return None
    if isinstance(entry, dict) and len(entry) == 1:
        ((builder, option),) = entry.items()
        return Recipe(builder, tuple(option) if isinstance(option, list) else option)
    if not isinstance(entry, str):
        raise SchemaError(f"The hierarchy of {name!r} must be a file name or a recipe such as {{ prefix = true }}.")
    path = folder / entry
    if not path.is_file():
        raise SchemaError(f"The hierarchy file {entry!r} of attribute {name!r} is missing: put it beside the schema.")
    return Hierarchy.from_csv(path) if path.suffix.lower() == ".csv" else Hierarchy.from_json(path)


def _attribute_to_toml(attribute: Attribute, folder: Path, files: set[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": attribute.role, "kind": attribute.kind}
    if isinstance(attribute.hierarchy, Recipe):
        option = attribute.hierarchy.option
        entry["hierarchy"] = {attribute.hierarchy.builder: list(option) if isinstance(option, tuple) else option}
    elif attribute.hierarchy is not None:
        file_name = re.sub(r"[^\w.-]+", "_", attribute.name) + ".json"
        while file_name.lower() in files:
            file_name = "_" + file_name
        files.add(file_name.lower())
        attribute.hierarchy.to_json(folder / file_name)
        entry["hierarchy"] = file_name
    if attribute.weight != 1.0:
        entry["weight"] = attribute.weight
    if attribute.order is not None:
        entry["order"] = list(attribute.order)
    return entry


# The functions that build from values, and the parameter that the option sets.
_BUILDERS: dict[str, tuple[Any, str]] = {
    "intervals": (lambda counts, **options: _intervals(counts, **options), "widths"),
    "prefix": (lambda counts, **options: Hierarchy.from_prefix(list(counts), **options), "keep"),
    "dates": (lambda counts, **options: Hierarchy.from_dates(list(counts), **options), "units"),
    "order": (lambda counts, **options: Hierarchy.from_order(list(counts), **options), "fanout"),
    "frequencies": (Hierarchy.from_frequencies, "below"),
}


def _intervals(counts: Mapping[str, int], widths: Sequence[float] | None = None) -> Hierarchy:
    """Build intervals of the given widths; by default a sixteenth of the range, and two and four times that."""
    if widths is None:
        numbers = [float(text) for text in counts]
        step = (max(numbers) - min(numbers)) / 16 or 1.0
        power = 10.0 ** math.floor(math.log10(step))
        width = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step)
        width = max(width, 1.0) if all(number.is_integer() for number in numbers) else width
        widths = (width, 2 * width, 4 * width)
    return Hierarchy.from_intervals(values=list(counts), widths=widths)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
