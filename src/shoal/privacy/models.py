"""Privacy models: small frozen values that read their level off the counts of each group.

Every model can measure a partition (``measure``, ``levels``) and check it against its bound (``holds``,
``fulfilled``). `shoal.privacy.rules` compiles models for a partitioner, which then asks for each group it is about to
make. Both ways end in the same formulas (`shoal._kernels.privacy`).
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from shoal._kernels import privacy as kernel
from shoal.errors import SchemaError, ShoalError

if TYPE_CHECKING:
    from shoal.data.table import Column
    from shoal.privacy.counts import Counts

Better = Literal["higher", "lower", "within"]
DiversityKind = Literal["distinct", "entropy", "recursive"]
Distance = Literal["auto", "equal", "ordered", "hierarchical"]
LikenessKind = Literal["basic", "enhanced"]


class Rule(NamedTuple):
    """One formula, the sensitive attribute it looks at (None: only the size of the group), and its bound."""

    formula: int
    attribute: str | None
    bound: float
    other: float = 0.0


class PrivacyModel(ABC):
    """What all models share: levels of groups from their counts, and whether these keep the bound.

    Attributes
    ----------
    key : str
        One word for the command line and for result tables.
    better : {"higher", "lower", "within"}
        Which levels protect more; ``"within"``: those between two bounds.
    bound : float or (float, float)
        The level asked for.
    """

    key: ClassVar[str]
    attribute: str | None

    @property
    @abstractmethod
    def better(self) -> Better:
        """Which levels protect more."""

    @property
    def bound(self) -> Any:
        """The level asked for: the number that the model is named after."""
        return float(getattr(self, self.key))

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words what is asked for."""

    @abstractmethod
    def title(self) -> str:
        """Name the model and what it looks at, without the level asked for."""

    @abstractmethod
    def _measured(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        """Return the rules whose worst level is the level of this model, given the sensitive columns there are."""

    def rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        """Return all rules that a group must keep, given the sensitive columns there are."""
        return self._measured(columns)

    def levels(self, counts: Counts) -> NDArray[np.float64]:
        """Return the level of each group: the worst over its attributes, nan where the model ignores the group."""
        worst = np.fmin if self.better == "higher" else np.fmax
        each = [_rule_levels(rule, counts) for rule in self._measured(_sensitive(counts))]
        return np.asarray(worst.reduce(each), dtype=np.float64)

    def measure(self, counts: Counts) -> Any:
        """Return the worst level over all groups, a float (inf or 0 when there is no group); `DeltaPresence`: two."""
        levels = self.levels(counts)
        levels = levels[~np.isnan(levels)]
        return float(levels.min(initial=np.inf) if self.better == "higher" else levels.max(initial=0.0))

    def fulfilled(self, counts: Counts) -> NDArray[np.bool_]:
        """Tell for each group whether it keeps the bound."""
        good = np.ones(len(counts.sizes), dtype=np.bool_)
        for rule in self.rules(_sensitive(counts)):
            good &= kernel.levels_meet(rule.formula, _rule_levels(rule, counts), float(rule.bound), float(rule.other))
        return good

    def holds(self, counts: Counts) -> bool:
        """Tell whether every group keeps the bound, up to rounding (1e-9)."""
        return bool(self.fulfilled(counts).all())


class _Protecting(PrivacyModel):
    """A model about sensitive attributes: about one of them, or, with ``attribute=None``, about each."""

    def _each(self, columns: Mapping[str, Column]) -> dict[str, Column]:
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

    def _of(self) -> str:
        return "every sensitive attribute" if self.attribute is None else self.attribute


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
    better: ClassVar[Better] = "higher"
    attribute: str | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_whole("k-anonymity", "k", self.k)

    def title(self) -> str:
        """Name the model and what it looks at."""
        return "k-anonymity"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"{self.k}-anonymity"

    def _measured(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return (Rule(kernel.ROWS, None, self.k),)


@dataclass(frozen=True)
class AlphaKAnonymity(_Protecting):
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
    better: ClassVar[Better] = "lower"

    def __post_init__(self) -> None:
        _check_real("(alpha, k)-anonymity", "alpha", self.alpha, "above 0 and at most 1", lambda a: 0 < a <= 1)
        _check_whole("(alpha, k)-anonymity", "k", self.k)

    def title(self) -> str:
        """Name the model and what it looks at."""
        return f"largest share (alpha) of {self._of()}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"({self.alpha:g}, {self.k})-anonymity of {self._of()}"

    def _measured(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return tuple(Rule(kernel.SHARE, name, self.alpha) for name in self._each(columns))

    def rules(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        """Return the rules about k and about alpha."""
        return (Rule(kernel.ROWS, None, self.k), *self._measured(columns))


@dataclass(frozen=True)
class LDiversity(_Protecting):
    """Every group holds ``l`` well-represented sensitive values (Machanavajjhala et al. 2007).

    Parameters
    ----------
    l : int, or for entropy any number
        At least 1.
    kind : {"distinct", "entropy", "recursive"}
        What well-represented means: ``l`` different values; an entropy of at least ln l (the level is exp(entropy));
        or r1 < c·(r_l + … + r_m), where r are the counts in descending order (the level is r1 / (r_l + … + r_m),
        lower is better, infinite when there are fewer than l values).
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
    formulas: ClassVar[dict[str, int]] = {
        "distinct": kernel.DISTINCT,
        "entropy": kernel.ENTROPY,
        "recursive": kernel.RECURSIVE,
    }

    def __post_init__(self) -> None:
        _check_choice("l-diversity", "kind", self.kind, get_args(DiversityKind))
        if self.kind == "entropy":
            _check_real("l-diversity", "l", self.l, "of at least 1", lambda a: a >= 1)
        else:
            _check_whole("l-diversity", "l", self.l)
        if self.kind != "recursive" and self.c is not None:
            raise ShoalError(
                f"l-diversity of the {self.kind} kind has no c, but c={self.c!r} was given: "
                "leave it out, or use kind='recursive'."
            )
        if self.kind == "recursive":
            _check_real("recursive l-diversity", "c", self.c, "above 0", lambda a: a > 0)

    @property
    def better(self) -> Better:
        """Higher, but for the recursive kind, whose level is a ratio."""
        return "lower" if self.kind == "recursive" else "higher"

    @property
    def bound(self) -> float:
        """The l asked for; the c, for the recursive kind."""
        return float(self.l if self.c is None else self.c)

    def title(self) -> str:
        """Name the model and what it looks at."""
        return f"l-diversity ({self.kind}) of {self._of()}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        kind = self.kind if self.c is None else f"{self.kind}, c = {self.c:g}"
        return f"{self.l:g}-diversity ({kind}) of {self._of()}"

    def _measured(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        formula = self.formulas[self.kind]
        return tuple(Rule(formula, name, self.bound, self.l) for name in self._each(columns))


@dataclass(frozen=True)
class TCloseness(_Protecting):
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
    better: ClassVar[Better] = "lower"
    formulas: ClassVar[dict[str, int]] = {
        "equal": kernel.EQUAL,
        "ordered": kernel.ORDERED,
        "hierarchical": kernel.TREE,
    }

    def __post_init__(self) -> None:
        _check_real("t-closeness", "t", self.t, "from 0 to 1", lambda a: 0 <= a <= 1)
        _check_choice("t-closeness", "distance", self.distance, get_args(Distance))

    def title(self) -> str:
        """Name the model and what it looks at."""
        return f"t-closeness of {self._of()}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        distance = "" if self.distance == "auto" else f" ({self.distance})"
        return f"t-closeness {self.t:g}{distance} of {self._of()}"

    def _measured(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        each = self._each(columns)
        return tuple(Rule(self.formulas[self._distance(c)], name, self.t) for name, c in each.items())

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
class DeltaDisclosure(_Protecting):
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
    better: ClassVar[Better] = "lower"

    def __post_init__(self) -> None:
        _check_real("delta-disclosure", "delta", self.delta, "above 0", lambda a: a > 0)

    def title(self) -> str:
        """Name the model and what it looks at."""
        return f"delta-disclosure of {self._of()}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"delta-disclosure {self.delta:g}{' (absent values too)' * self.count_absent} of {self._of()}"

    def _measured(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        other = float(self.count_absent)
        return tuple(Rule(kernel.LOG_RATIO, name, self.delta, other) for name in self._each(columns))


@dataclass(frozen=True)
class BetaLikeness(_Protecting):
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
    better: ClassVar[Better] = "lower"

    def __post_init__(self) -> None:
        _check_real("beta-likeness", "beta", self.beta, "above 0", lambda a: a > 0)
        _check_choice("beta-likeness", "kind", self.kind, get_args(LikenessKind))

    def title(self) -> str:
        """Name the model and what it looks at."""
        return f"beta-likeness ({self.kind}) of {self._of()}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"beta-likeness {self.beta:g} ({self.kind}) of {self._of()}"

    def _measured(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        formula = kernel.GAIN if self.kind == "basic" else kernel.BOUNDED_GAIN
        return tuple(Rule(formula, name, self.beta) for name in self._each(columns))


@dataclass(frozen=True)
class DeltaPresence(PrivacyModel):
    """In every group of the population the share of released rows is from ``low`` to ``high`` (Nergiz et al. 2007).

    ``attribute`` names the Boolean column that says which rows of the population are released. `measure` returns the
    lowest and the highest share. This is the one model that also looks at groups without a released row: their share
    is 0, which tells that nobody in them was released.

    Examples
    --------
    >>> DeltaPresence(0.1, 0.5, "in_study").describe()
    'delta-presence 0.1 to 0.5 of in_study'
    """

    low: float
    high: float
    attribute: str

    key: ClassVar[str] = "presence"
    better: ClassVar[Better] = "within"

    def __post_init__(self) -> None:
        _check_column("delta-presence", self.attribute)
        _check_real("delta-presence", "low", self.low, "from 0 to 1", lambda a: 0 <= a <= 1)
        _check_real("delta-presence", "high", self.high, "from 0 to 1", lambda a: 0 <= a <= 1)
        if self.low > self.high:
            raise ShoalError(
                f"delta-presence needs low ≤ high, not low={self.low!r} and high={self.high!r}: swap them."
            )

    @property
    def bound(self) -> tuple[float, float]:
        """The lowest and the highest share asked for."""
        return float(self.low), float(self.high)

    def title(self) -> str:
        """Name the model and what it looks at."""
        return f"delta-presence of {self.attribute}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"delta-presence {self.low:g} to {self.high:g} of {self.attribute}"

    def _measured(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return (Rule(kernel.PRESENCE, None, self.high, self.low),)

    def measure(self, counts: Counts) -> tuple[float, float]:
        """Return the lowest and the highest share of released rows; (1, 0) when there are no groups."""
        shares = self.levels(counts)
        shares = shares[~np.isnan(shares)]
        return float(shares.min(initial=1.0)), float(shares.max(initial=0.0))


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
    better: ClassVar[Better] = "higher"

    def __post_init__(self) -> None:
        _check_whole("k-map", "k", self.k)
        _check_column("k-map", self.attribute)

    @property
    def bound(self) -> float:
        """The k asked for."""
        return float(self.k)

    def title(self) -> str:
        """Name the model and what it looks at."""
        return f"k-map of {self.attribute}"

    def describe(self) -> str:
        """Say in a few words what is asked for."""
        return f"{self.k}-map of {self.attribute}"

    def _measured(self, columns: Mapping[str, Column]) -> tuple[Rule, ...]:
        return (Rule(kernel.POPULATION, None, self.k),)


MODELS: dict[str, type[PrivacyModel]] = {
    model.key: model
    for model in (
        KAnonymity,
        AlphaKAnonymity,
        LDiversity,
        TCloseness,
        DeltaDisclosure,
        BetaLikeness,
        DeltaPresence,
        KMap,
    )
}


def check_constraints(constraints: Any) -> tuple[PrivacyModel, ...]:
    """Constraints as a tuple, or one sentence about what is none."""
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
    """A level as people write it."""
    if isinstance(level, tuple):
        return " to ".join(show_level(part) for part in level)
    if isinstance(level, str):
        return level
    if math.isinf(level):
        return "unbounded"
    return f"{level:,.0f}" if float(level).is_integer() else f"{level:.4g}"


def rule_row(rule: Rule, index: Mapping[str, int]) -> tuple[int, int, float, float]:
    """A rule as numbers; ``index`` gives the column of each attribute."""
    return rule.formula, -1 if rule.attribute is None else index[rule.attribute], rule.bound, rule.other


def _rule_levels(rule: Rule, counts: Counts) -> NDArray[np.float64]:
    if rule.attribute is None:
        return np.asarray(kernel.size_levels(rule.formula, counts.sizes, counts.population))
    tally = counts.sensitive[rule.attribute]
    column = counts.columns[rule.attribute] if rule.formula == kernel.TREE else None
    laid_out = kernel.lay_out([rule_row(rule, {rule.attribute: 0})], [prior_of(tally.reference, column)])
    return np.asarray(kernel.tally_levels(laid_out, 0, tally.indptr, tally.values, tally.counts))


def prior_of(shares: NDArray[np.float64], climbed: Column | None) -> kernel.Prior:
    """What is known of a column before any group is seen; with its hierarchy where a rule climbs it."""
    if climbed is None or climbed.tree is None:
        return kernel.Prior(shares, np.empty((shares.size, 0), dtype=np.int32), np.empty(0))
    tree = climbed.tree
    return kernel.Prior(shares, *kernel.climb(tree.table, tree.parent, tree.level))


def _sensitive(counts: Counts) -> dict[str, Column]:
    return {name: counts.columns[name] for name in counts.sensitive}


def _check_whole(model: str, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ShoalError(f"{model} needs a whole number {name} of at least 1, not {value!r}: choose {name}=2 or more.")


def _check_real(model: str, name: str, value: object, where: str, fits: Any) -> None:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or not fits(value):  # type: ignore[arg-type]
        raise ShoalError(f"{model} needs a number {name} {where}, not {value!r}: choose {name} in that range.")


def _check_column(model: str, attribute: object) -> None:
    if not isinstance(attribute, str) or not attribute:
        raise ShoalError(f"{model} needs the name of the column that says which rows are released, not {attribute!r}.")


def _check_choice(model: str, name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        there = ", ".join(repr(choice) for choice in choices)
        raise ShoalError(f"{model} has no {name} {value!r}: choose one of {there}.")
