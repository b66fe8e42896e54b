"""Privacy models: small frozen values that read their level off the counts of each group.

Every model can measure a partition (``measure``, ``levels``) and check it against its bound (``holds``,
``fulfilled``). `shoal.privacy.rules` compiles models for a partitioner, which then asks for each group it is about to
make. Both ways end in the same formulas (`shoal._kernels.privacy`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from shoal.errors import SchemaError, ShoalError
from shoal.parameters import Choice, Constraint, Real, Whole
from shoal.privacy.base import MEMBERS, Better, Control, LevelOption, PrivacyModel, Rule, SensitiveModel
from shoal.privacy.base import MODELS as MODELS

if TYPE_CHECKING:
    from shoal.data.table import Column
    from shoal.privacy.counts import Counts

DiversityKind = Literal["distinct", "entropy", "recursive"]
Distance = Literal["auto", "equal", "ordered", "hierarchical"]
LikenessKind = Literal["basic", "enhanced"]


@dataclass(frozen=True)
class KAnonymity(PrivacyModel):
    """Every group holds at least ``k`` released rows (Samarati and Sweeney 1998).

    Examples
    --------
    >>> KAnonymity(5).describe()
    '5-anonymity'
    """

    k: int

    key: ClassVar[str] = "k"
    name: ClassVar[str] = "k-anonymity"
    better: ClassVar[Better] = "higher"
    standard: ClassVar[tuple[dict[str, Any], ...]] = ({"k": 1},)
    _parameter_constraints: ClassVar[dict[str, Constraint]] = {"k": Whole(least=1)}
    attribute: str | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def at_least(self) -> int:
        """The k asked for."""
        return int(self.k)

    def title(self) -> str:
        """Name the model."""
        return self.name

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"{self.k}-anonymity"

    def _words(self, level: float) -> str:
        return f"Every row equals at least {show_level(level - 1)} others in all quasi-identifiers."

    def _level_rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return (Rule("rows", None, self.k),)


@dataclass(frozen=True)
class LDiversity(SensitiveModel):
    """Every group holds ``l`` well-represented sensitive values (Machanavajjhala et al. 2007).

    Parameters
    ----------
    l : int, or for entropy any number
        At least 1.
    kind : {"distinct", "entropy", "recursive"}
        The meaning of well-represented: ``l`` different values; an entropy of at least ln l (the level is
        exp(entropy)); or r1 < c·(r_l + … + r_m), where r are the counts in descending order (the level is
        r1 / (r_l + … + r_m), lower is better, infinite when there are fewer than l values).
    c : float
        For the recursive kind, and only for that.
    attribute : str, optional
        The sensitive attribute; every one when not given.

    Examples
    --------
    >>> LDiversity(3, kind="entropy", attribute="disease").describe()
    '3-diversity (entropy) of disease'
    >>> LDiversity(3, kind="recursive", c=2).describe()
    '3-diversity (recursive, c = 2) of every sensitive attribute'
    """

    l: float  # noqa: E741
    kind: DiversityKind = "distinct"
    c: float | None = None
    attribute: str | None = None

    key: ClassVar[str] = "l"
    name: ClassVar[str] = "l-diversity"
    strict: ClassVar[bool] = True
    unbounded: ClassVar[str] = "A group has too few different values."
    standard: ClassVar[tuple[dict[str, Any], ...]] = ({"l": 1}, {"l": 1, "kind": "entropy"})
    options: ClassVar[tuple[LevelOption, ...]] = (
        LevelOption("l", "--l", "l-diversity: sensitive values in every group."),
        LevelOption("kind", "--l-kind", "Kind of l-diversity: distinct (default), entropy or recursive."),
        LevelOption("c", "--c", "Factor c of recursive (c, l)-diversity."),
    )
    control: ClassVar[Control | None] = Control("l: sensitive values per group", Whole(2, 1000), step=1)
    _parameter_constraints: ClassVar[dict[str, Constraint]] = {
        "kind": Choice(get_args(DiversityKind)),
        "l": Real(least=1),
        "c": Real(above=0) | None,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind != "entropy":
            Whole(least=1).check("l", self.l, self.name)
        if self.kind != "recursive" and self.c is not None:
            raise ShoalError(
                f"l-diversity of the {self.kind} kind has no c, but c={self.c!r} was given: "
                "leave it out, or use kind='recursive'."
            )
        if self.kind == "recursive":
            Real(above=0).check("c", self.c, "recursive l-diversity")

    @property
    def better(self) -> Better:
        """Higher, but for the recursive kind, whose level is a ratio."""
        return "lower" if self.kind == "recursive" else "higher"

    @property
    def bound(self) -> float:
        """The l asked for; the c, for the recursive kind."""
        return float(self.l if self.c is None else self.c)

    def title(self) -> str:
        """Name the model, its kind, and what it looks at."""
        return f"l-diversity ({self.kind}) of {self.subject}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        kind = self.kind if self.c is None else f"{self.kind}, c = {self.c:g}"
        return f"{self.l:g}-diversity ({kind}) of {self.subject}"

    def _words(self, level: float) -> str:
        if self.kind == "recursive":
            return (
                f"In no group is the most frequent value of {self.subject} more than {level:.3g} times as frequent as "
                f"the values from the {self.l:g}. most frequent on together."
            )
        if level <= 1:
            return _all_the_same(self.subject)
        if self.kind == "entropy":
            return f"In every group {self.subject} is at least as uncertain as {level:.3g} equally frequent values."
        return f"Every group holds at least {show_level(level)} different values of {self.subject}."

    @classmethod
    def from_options(cls, values: Mapping[str, Any], attribute: str | None, k: int | None) -> PrivacyModel:
        """Make the model; an l such as 2.0 is a whole number."""
        whole = {"l": int(values["l"])} if float(values["l"]).is_integer() else {}
        return super().from_options({**values, **whole}, attribute, k)

    def _level_rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return tuple(Rule(self.kind, name, self.bound, self.l) for name in self.chosen(columns))


@dataclass(frozen=True)
class TCloseness(SensitiveModel):
    """The sensitive values of every group are distributed as in the table, up to a distance ``t`` (Li et al. 2007).

    Parameters
    ----------
    t : float
        From 0 (the same distribution) to 1 (no demand).
    distance : {"auto", "equal", "ordered", "hierarchical"}
        The earth mover's distance where all values are equally far apart, where neighbours in the order of the values
        are 1/(values - 1) apart, or where two values are as far apart as the level of their common ancestor, over the
        height of the hierarchy. ``"auto"``: ordered for numeric and ordinal attributes, hierarchical for nominal ones
        that have a hierarchy, else equal. A missing value is the last in the order.
    attribute : str, optional
        The sensitive attribute; every one when not given.

    Examples
    --------
    >>> TCloseness(0.2, distance="ordered", attribute="salary").describe()
    't-closeness 0.2 (ordered) of salary'
    """

    t: float
    distance: Distance = "auto"
    attribute: str | None = None

    key: ClassVar[str] = "t"
    name: ClassVar[str] = "t-closeness"
    better: ClassVar[Better] = "lower"
    compares: ClassVar[bool] = True
    standard: ClassVar[tuple[dict[str, Any], ...]] = ({"t": 1.0},)
    options: ClassVar[tuple[LevelOption, ...]] = (
        LevelOption("t", "--t", "t-closeness: distance of a group from the whole table."),
        LevelOption(
            "distance", "--t-distance", "Distance of t-closeness: auto (default), equal, ordered or hierarchical."
        ),
    )
    control: ClassVar[Control | None] = Control("t: distance to the whole table", Real(above=0, most=1), step=0.05)
    _parameter_constraints: ClassVar[dict[str, Constraint]] = {
        "t": Real(least=0, most=1),
        "distance": Choice(get_args(Distance)),
    }

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        distance = "" if self.distance == "auto" else f" ({self.distance})"
        return f"t-closeness {self.t:g}{distance} of {self.subject}"

    def _words(self, level: float) -> str:
        return f"In no group is {self.subject} distributed further than {level:.2g} (of 1) from the whole table."

    def _level_rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return tuple(Rule(self._distance(column), name, self.t) for name, column in self.chosen(columns).items())

    def _distance(self, column: Column) -> str:
        attribute = column.attribute
        if self.distance == "auto":
            if attribute.kind != "nominal":
                return "ordered"
            return "equal" if attribute.hierarchy is None else "hierarchical"
        if self.distance == "ordered" and attribute.kind == "nominal":
            raise SchemaError(
                f"{self.describe()} needs an order, but attribute {attribute.name!r} is nominal: "
                "make its kind 'ordinal', or use the distance 'equal' or 'hierarchical'."
            )
        if self.distance == "hierarchical" and column.tree is None:
            raise SchemaError(
                f"{self.describe()} needs a hierarchy, but attribute {attribute.name!r} is "
                f"{attribute.kind}: use the distance 'ordered'."
            )
        return self.distance


@dataclass(frozen=True)
class DeltaDisclosure(SensitiveModel):
    """No sensitive value is much more or less frequent in a group than in the table (Brickell and Shmatikov 2008).

    For shares q in the group and p in the table |ln(q/p)| < ``delta``; the bound is strict. Values that are absent from
    a group are left out, as is common; with ``count_absent`` they make the level infinite, as the definition says if it
    is read literally.

    Examples
    --------
    >>> DeltaDisclosure(1.5, "disease").describe()
    'delta-disclosure 1.5 of disease'
    """

    delta: float
    attribute: str | None = None
    count_absent: bool = False

    key: ClassVar[str] = "delta"
    name: ClassVar[str] = "delta-disclosure"
    better: ClassVar[Better] = "lower"
    strict: ClassVar[bool] = True
    compares: ClassVar[bool] = True
    unbounded: ClassVar[str] = (
        "A value of the table is absent from a group, which reveals that no one in the group has it."
    )
    standard: ClassVar[tuple[dict[str, Any], ...]] = ({"delta": 1.0},)
    options: ClassVar[tuple[LevelOption, ...]] = (
        LevelOption("delta", "--delta", "delta-disclosure: log ratio of shares in group and table."),
    )
    _parameter_constraints: ClassVar[dict[str, Constraint]] = {"delta": Real(above=0)}

    @property
    def joined_only_if(self) -> str | None:
        """The setting that counts absent values: one that is absent from a group counts in its union with another."""
        return None if self.count_absent else "count_absent=True"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"delta-disclosure {self.delta:g}{' (absent values too)' * self.count_absent} of {self.subject}"

    def _words(self, level: float) -> str:
        return (
            f"A value of {self.subject} that occurs in a group is at most {math.exp(level):.3g} times as frequent, or "
            "as rare, there as in the whole table."
        )

    def _level_rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        other = float(self.count_absent)
        return tuple(Rule("log ratio", name, self.delta, other) for name in self.chosen(columns))


@dataclass(frozen=True)
class BetaLikeness(SensitiveModel):
    """No sensitive value gains more than ``beta`` times its share in the table: (q - p)/p ≤ beta (Cao and Karras 2012).

    The enhanced kind also asks for (q - p)/p ≤ -ln p, whatever beta is; where that fails the level is infinite.

    Examples
    --------
    >>> BetaLikeness(2, kind="enhanced", attribute="disease").describe()
    'beta-likeness 2 (enhanced) of disease'
    """

    beta: float
    kind: LikenessKind = "basic"
    attribute: str | None = None

    key: ClassVar[str] = "beta"
    name: ClassVar[str] = "beta-likeness"
    better: ClassVar[Better] = "lower"
    compares: ClassVar[bool] = True
    unbounded: ClassVar[str] = "The share of a value grows more in a group than any bound of this kind allows."
    standard: ClassVar[tuple[dict[str, Any], ...]] = ({"beta": 1.0}, {"beta": 1.0, "kind": "enhanced"})
    options: ClassVar[tuple[LevelOption, ...]] = (
        LevelOption("beta", "--beta", "beta-likeness: gain of a share in a group."),
        LevelOption("kind", "--beta-kind", "Kind of beta-likeness: basic (default) or enhanced."),
    )
    _parameter_constraints: ClassVar[dict[str, Constraint]] = {
        "beta": Real(above=0),
        "kind": Choice(get_args(LikenessKind)),
    }

    def title(self) -> str:
        """Name the model, its kind, and what it looks at."""
        return f"beta-likeness ({self.kind}) of {self.subject}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"beta-likeness {self.beta:g} ({self.kind}) of {self.subject}"

    def _words(self, level: float) -> str:
        return (
            f"No value of {self.subject} is more than {1 + level:.3g} times as frequent in a group as in the whole "
            "table."
        )

    def _level_rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        formula = "gain" if self.kind == "basic" else "bounded gain"
        return tuple(Rule(formula, name, self.beta) for name in self.chosen(columns))


@dataclass(frozen=True)
class AlphaKAnonymity(SensitiveModel):
    """Groups of at least ``k`` rows, where no sensitive value has more than the share ``alpha`` (Wong et al. 2006).

    The level is the largest share; `KAnonymity` measures k.

    Examples
    --------
    >>> AlphaKAnonymity(0.5, 4, "disease").describe()
    '(0.5, 4)-anonymity of disease'
    """

    alpha: float
    k: int
    attribute: str | None = None

    key: ClassVar[str] = "alpha"
    name: ClassVar[str] = "(alpha, k)-anonymity"
    better: ClassVar[Better] = "lower"
    standard: ClassVar[tuple[dict[str, Any], ...]] = ({"alpha": 1.0, "k": 1},)
    options: ClassVar[tuple[LevelOption, ...]] = (
        LevelOption("alpha", "--alpha", "(alpha, k)-anonymity: largest share of a value in a group."),
    )
    _parameter_constraints: ClassVar[dict[str, Constraint]] = {"alpha": Real(above=0, most=1), "k": Whole(least=1)}

    @property
    def at_least(self) -> int:
        """The k asked for."""
        return int(self.k)

    def title(self) -> str:
        """Name what is measured, and of which attribute."""
        return f"largest share (alpha) of {self.subject}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"({self.alpha:g}, {self.k})-anonymity of {self.subject}"

    def _words(self, level: float) -> str:
        if level >= 1:
            return _all_the_same(self.subject)
        return f"No value of {self.subject} is shared by more than {level:.0%} of a group."

    def _level_rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return tuple(Rule("share", name, self.alpha) for name in self.chosen(columns))

    def rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        """Return the rules about k and about alpha."""
        return (Rule("rows", None, self.k), *self._level_rules(columns))


@dataclass(frozen=True)
class KMap(PrivacyModel):
    """Every group with a released row holds at least ``k`` rows of the population (Sweeney 2001).

    ``attribute`` names the Boolean column that says which rows of the population are released.

    Examples
    --------
    >>> KMap(10, "in_study").describe()
    '10-map of in_study'
    """

    k: int
    attribute: str

    key: ClassVar[str] = "kmap"
    name: ClassVar[str] = "k-map"
    better: ClassVar[Better] = "higher"
    about_population: ClassVar[bool] = True
    options: ClassVar[tuple[LevelOption, ...]] = (
        LevelOption("k", "--kmap", "k-map: rows of the population that a released row may be."),
    )
    _parameter_constraints: ClassVar[dict[str, Constraint]] = {"k": Whole(least=1), "attribute": MEMBERS}

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"{self.k}-map of {self.attribute}"

    def _words(self, level: float) -> str:
        return f"Every released row may be any of at least {show_level(level)} rows of the population."

    def _level_rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return (Rule("population", None, self.k),)


@dataclass(frozen=True)
class DeltaPresence(PrivacyModel):
    """In every group of the population the share of released rows is from ``low`` to ``high`` (Nergiz et al. 2007).

    ``attribute`` names the Boolean column that says which rows of the population are released. `measure` returns the
    lowest and the highest share. This is the one model that also looks at groups without a released row: their share
    is 0, which reveals that no one in them was released.

    Examples
    --------
    >>> DeltaPresence(0.1, 0.5, "in_study").describe()
    'delta-presence 0.1 to 0.5 of in_study'
    """

    low: float
    high: float
    attribute: str

    key: ClassVar[str] = "presence"
    name: ClassVar[str] = "delta-presence"
    better: ClassVar[Better] = "within"
    about_population: ClassVar[bool] = True
    options: ClassVar[tuple[LevelOption, ...]] = (
        LevelOption("low", "--presence-low", "delta-presence: least share of a group.", default=0.0),
        LevelOption("high", "--presence-high", "delta-presence: largest share of a group.", default=1.0),
    )
    _parameter_constraints: ClassVar[dict[str, Constraint]] = {
        "attribute": MEMBERS,
        "low": Real(least=0, most=1),
        "high": Real(least=0, most=1),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low > self.high:
            raise ShoalError(
                f"delta-presence needs low ≤ high, not low={self.low!r} and high={self.high!r}: swap them."
            )

    @property
    def bound(self) -> tuple[float, float]:
        """The lowest and the highest share asked for."""
        return float(self.low), float(self.high)

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"delta-presence {self.low:g} to {self.high:g} of {self.attribute}"

    def _words(self, level: tuple[float, float]) -> str:
        low, high = level
        return f"In every group of the population from {low:.0%} to {high:.0%} of the rows are released."

    def _level_rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return (Rule("presence", None, self.high, self.low),)

    def measure(self, counts: Counts) -> tuple[float, float]:
        """Return the lowest and the highest share of released rows; (1, 0) when there are no groups."""
        shares = self.levels(counts)
        shares = shares[shares == shares]  # without nan
        return float(shares.min(initial=1.0)), float(shares.max(initial=0.0))


def check_constraints(constraints: Any) -> tuple[PrivacyModel, ...]:
    """Return the constraints as a tuple; refuse whatever is not a privacy model."""
    if isinstance(constraints, PrivacyModel):
        raise ShoalError(f"constraints must be a list: write [{constraints!r}].")
    if not isinstance(constraints, Iterable) or isinstance(constraints, str):
        raise ShoalError(f"constraints must be a list of privacy models such as LDiversity(2), not {constraints!r}.")
    listed = tuple(constraints)
    for constraint in listed:
        if not isinstance(constraint, PrivacyModel):
            raise ShoalError(f"constraints must be privacy models such as LDiversity(2), not {constraint!r}.")
    return listed


def show_level(level: Any) -> str:
    """Write a level for people."""
    if isinstance(level, tuple):
        return " to ".join(show_level(part) for part in level)
    if isinstance(level, str):
        return level
    if math.isinf(level):
        return "unbounded"
    return f"{level:,.0f}" if float(level).is_integer() else f"{level:.4g}"


def _all_the_same(name: str) -> str:
    return f"In at least one group all rows have the same value of {name}, so that being in the group reveals it."
