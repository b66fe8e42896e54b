"""The base of all privacy models: levels of groups from their counts, and the description of a model by itself.

The command line, the studio, reports, checks and engines read all that they need to know of a model from its class.
Nothing heavy is imported before a level is measured, because the command line lists the options of all models.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from shoal.errors import SchemaError
from shoal.parameters import Described, Real, Whole, check_parameters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shoal.data.table import Column
    from shoal.privacy.counts import Counts

Better = Literal["higher", "lower", "within"]
MEMBERS = Described(
    "the name of the column that says which rows are released", lambda name: name and isinstance(name, str)
)

MODELS: dict[str, type[PrivacyModel]] = {}
"""All privacy models by key, in the order in which options are listed; a class enters when it is defined."""


class Rule(NamedTuple):
    """One formula, the sensitive attribute it looks at (None: only the size of the group), and its bound."""

    formula: str
    """A name of ``shoal._kernels.privacy.FORMULAS``."""
    attribute: str | None
    bound: float
    other: float = 0.0


class Control(NamedTuple):
    """The field of the studio's pages in which people set the level of a model."""

    label: str
    levels: Whole | Real
    """The levels that can be set."""
    step: float

    @property
    def low(self) -> float | None:
        """The lowest level that can be typed; it may be refused."""
        return self.levels.above if isinstance(self.levels, Real) and self.levels.least is None else self.levels.least


class LevelOption(NamedTuple):
    """An option of the command line, and the field of a privacy model that it sets.

    An option of a field without a default asks for the model; the other options of the model say more about it.
    """

    field: str
    flag: str
    help: str
    default: float | None = None
    """The value where the model is asked for by another option."""

    @property
    def parameter(self) -> str:
        """The name of the option as a parameter of a command."""
        return self.flag.removeprefix("--").replace("-", "_")


class PrivacyModel(ABC):
    """A level of protection that every group must reach, as a frozen dataclass.

    A subclass with a ``key`` is a privacy model, and registers itself in `MODELS`. Its ``_parameter_constraints`` say
    which values its fields may have.

    Attributes
    ----------
    key : str
        One word for result tables and for the studio's settings.
    name : str
        The name of the model in sentences.
    better : {"higher", "lower", "within"}
        The levels that protect more; ``"within"``: those between two bounds.
    bound : float or (float, float)
        The level asked for.
    strict : bool
        True if levels must be below an upper bound; by default they may reach it.
    attribute : str or None
        The column that the model looks at: of sensitive models a sensitive attribute, or None for each; of models about
        a population the Boolean column that says which rows are released.
    compares : bool
        True if groups are compared with the whole table; checks list such models last.
    unbounded : str
        The meaning of an infinite level.
    options : tuple of LevelOption
        The options of the command line.
    control : Control or None
        The field of the studio for the level that the first option gives; None if the studio has none.
    standard : tuple of dict
        Fields of the models that every check measures, whatever is asked for; their levels are not used as bounds.
    """

    key: ClassVar[str]
    name: ClassVar[str]
    strict: ClassVar[bool] = False
    about_sensitive: ClassVar[bool] = False
    about_population: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    unbounded: ClassVar[str] = "No bound can be given."
    options: ClassVar[tuple[LevelOption, ...]] = ()
    control: ClassVar[Control | None] = None
    standard: ClassVar[tuple[dict[str, Any], ...]] = ()
    attribute: str | None

    def __init_subclass__(cls) -> None:
        if "key" in vars(cls):
            MODELS[cls.key] = cls

    def __post_init__(self) -> None:
        check_parameters(self, self.name)

    # Levels

    @property
    @abstractmethod
    def better(self) -> Better:
        """The levels that protect more."""

    @property
    def bound(self) -> Any:
        """The level asked for: the first field."""
        return float(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    @abstractmethod
    def _level_rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        """Return the rules whose worst level is the level of this model, given the sensitive columns there are."""

    def rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        """Return all rules that a group must satisfy, given the sensitive columns there are."""
        return self._level_rules(columns)

    @property
    def at_least(self) -> int:
        """Rows that every group must have because of this model."""
        return 1

    @property
    def joined_only_if(self) -> str | None:
        """The setting that lets groups be joined without breaking the model; None if none is needed."""
        return None

    def levels(self, counts: Counts) -> NDArray[np.float64]:
        """Return the level of each group: the worst over its attributes, nan where the model ignores the group."""
        from shoal.privacy.rules import worst_levels

        return worst_levels(self._level_rules(_sensitive(counts)), counts, highest=self.better != "higher")

    def measure(self, counts: Counts) -> Any:
        """Return the worst level over all groups, a float (inf or 0 when there is no group); `DeltaPresence`: two."""
        levels = self.levels(counts)
        levels = levels[levels == levels]  # without nan
        return float(levels.min(initial=math.inf) if self.better == "higher" else levels.max(initial=0.0))

    def fulfilled(self, counts: Counts) -> NDArray[np.bool_]:
        """Tell for each group whether it satisfies all rules."""
        from shoal.privacy.rules import satisfied

        return satisfied(self.rules(_sensitive(counts)), counts)

    def holds(self, counts: Counts) -> bool:
        """Tell whether every group satisfies all rules, up to rounding (1e-9)."""
        return bool(self.fulfilled(counts).all())

    # Words

    @property
    def subject(self) -> str:
        """The column that the model looks at, in words."""
        return "every sensitive attribute" if self.attribute is None else self.attribute

    def title(self) -> str:
        """Name the model and what it looks at, without the level asked for."""
        return f"{self.name} of {self.subject}"

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words what is asked for."""

    def meaning(self, level: Any) -> str:
        """Say in a sentence what it means that a table has this level."""
        return self.unbounded if level == math.inf else self._words(level)

    @abstractmethod
    def _words(self, level: Any) -> str:
        """Say in a sentence what a finite level means."""

    # How people ask for the model

    @classmethod
    def levels_asked(cls) -> tuple[LevelOption, ...]:
        """Return the options that ask for the model, each of which gives a level."""
        needed = {one.name for one in fields(cls) if one.default is MISSING}  # type: ignore[arg-type]
        return tuple(option for option in cls.options if option.field in needed)

    @classmethod
    def from_options(cls, values: Mapping[str, Any], attribute: str | None, k: int | None) -> PrivacyModel:
        """Make the model from values of its options, by field, and from the k asked for beside it."""
        given = dict(values)
        if cls.about_sensitive or cls.about_population:
            given["attribute"] = attribute
        if any(one.name == "k" for one in fields(cls)):  # type: ignore[arg-type]
            given.setdefault("k", 1 if k is None else k)
        return cls(**given)


class SensitiveModel(PrivacyModel):
    """A model about sensitive attributes: about one of them, or, with ``attribute=None``, about each."""

    about_sensitive: ClassVar[bool] = True

    def chosen(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """Return the columns that the model looks at, out of the sensitive ones."""
        if not columns:
            raise SchemaError(
                f"{self.describe()} needs a sensitive attribute, but the schema has none: "
                "give one attribute the role 'sensitive'."
            )
        if self.attribute is None:
            return dict(columns)
        if self.attribute not in columns:
            there = ", ".join(repr(name) for name in columns)
            raise SchemaError(
                f"{self.describe()} names an attribute that is not sensitive: {self.attribute!r}; "
                f"the sensitive attributes are {there}."
            )
        return {self.attribute: columns[self.attribute]}


def _sensitive(counts: Counts) -> dict[str, Column]:
    return {name: counts.columns[name] for name in counts.sensitive}
