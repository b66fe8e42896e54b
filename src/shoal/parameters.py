"""Constraints on parameters: one table for each estimator, checked by one call.

An estimator declares ``_parameter_constraints``, a mapping from its own parameters to constraints; those of its base
classes are added. ``fit`` begins with :func:`check_parameters`. Functions call :meth:`Constraint.check` themselves. The
table also feeds help texts, controls and tests. Relations between parameters are not part of it: code checks them.

Nothing heavy is imported before a value is checked, because the command line reads constraints to list its options.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.errors import ShoalError

LARGEST_SEED = 2**32 - 1
"""The largest seed that numpy's RandomState takes."""
MOST_SHOWN = 60
"""Characters of a refused value that a message shows."""
ODD_VALUES: tuple[Any, ...] = (None, True, "a text", 1.5, math.nan, -3, {})
"""Values of many types, of which most constraints refuse most."""


@dataclass(frozen=True)
class Constraint(ABC):
    """A condition on one parameter, with words and examples for it."""

    hint: str = field(default="", kw_only=True)
    """Advice for users whose value was refused, such as an example."""

    @abstractmethod
    def allows(self, value: Any) -> bool:
        """Return whether the parameter may have this value."""

    @abstractmethod
    def _alternatives(self) -> tuple[str, ...]:
        """Describe the values that are allowed."""

    def _edges(self) -> tuple[Any, ...]:
        """Return values near the limits, on both sides."""
        return ()

    @property
    def good(self) -> list[Any]:
        """Examples of allowed values."""
        return [value for value in self._edges() if self.allows(value)]

    @property
    def bad(self) -> list[Any]:
        """Examples of refused values."""
        return [value for value in (*self._edges(), *ODD_VALUES) if not self.allows(value)]

    def __str__(self) -> str:
        *others, last = self._alternatives()
        return f"{', '.join(others)} or {last}" if others else last

    def __or__(self, other: Constraint | None) -> OneOf:
        other = ABSENT if other is None else other
        return OneOf((self, other), hint=self.hint or other.hint)

    def check(self, name: str, value: Any, owner: str = "") -> None:
        """Refuse a value in one sentence that names the parameter, the value and what is allowed.

        >>> Whole(least=1).check("k", 0)
        Traceback (most recent call last):
        ...
        shoal.errors.ShoalError: k must be a whole number of at least 1, got 0.
        """
        if not self.allows(value):
            self._refuse(name, value, owner)

    def _refuse(self, name: str, value: Any, owner: str) -> None:
        hint = f"create it first, as {value.__name__}()" if isinstance(value, type) else self.hint
        culprit = f"{name} of {owner}" if owner else name
        raise ShoalError(f"{culprit} must be {self}, got {shorten(value)}{': ' if hint else ''}{hint}.")


@dataclass(frozen=True)
class Whole(Constraint):
    """A whole number of Python or numpy, within limits.

    >>> print(Whole(least=2, most=10_000))
    a whole number from 2 to 10,000
    """

    least: int | None = None
    most: int | None = None

    def allows(self, value: Any) -> bool:
        """Return whether this is a whole number within the limits."""
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        return whole and (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def _alternatives(self) -> tuple[str, ...]:
        return (_within("a whole number", self.least, self.most),)

    def _edges(self) -> tuple[Any, ...]:
        limits = [limit for limit in (self.least, self.most) if limit is not None]
        return tuple(limit + change for limit in limits for change in (-1, 0, 1))


@dataclass(frozen=True)
class Real(Constraint):
    """A number within limits; infinity is allowed only if it is ``most``.

    >>> print(Real(least=0, most=1))
    a number from 0 to 1
    >>> print(Real(above=0, hint="0.5 is half of the rows") | None)
    a number above 0 or None
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def allows(self, value: Any) -> bool:
        """Return whether this is a number within the limits."""
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        return (
            (math.isfinite(number) or number == self.most)
            and (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    def _alternatives(self) -> tuple[str, ...]:
        most = None if self.most == math.inf else self.most
        return (_within("a number", self.least, most, self.above, self.below),)

    def _edges(self) -> tuple[Any, ...]:
        limits = [limit for limit in (self.least, self.most, self.above, self.below) if limit not in (None, math.inf)]
        return (*(limit + change for limit in limits for change in (-0.25, 0, 0.25)), math.inf)


@dataclass(frozen=True)
class Choice(Constraint):
    """One of some values.

    >>> print(Choice(("strict", "relaxed")))
    'strict' or 'relaxed'
    """

    choices: Collection[Any]

    def allows(self, value: Any) -> bool:
        """Return whether this is one of the values."""
        return any(isinstance(value, type(choice)) and bool(value == choice) for choice in self.choices)

    def _alternatives(self) -> tuple[str, ...]:
        return tuple(repr(choice) for choice in self.choices)

    def _edges(self) -> tuple[Any, ...]:
        return (*self.choices, "no such choice")


@dataclass(frozen=True)
class Described(Constraint):
    """Values that pass a test, in words of their own."""

    text: str
    test: Callable[[Any], bool] = lambda value: True
    examples: tuple[Any, ...] = ()
    """Values of which some are allowed and some are not."""

    def allows(self, value: Any) -> bool:
        """Return whether this value passes the test."""
        return bool(self.test(value))

    def _alternatives(self) -> tuple[str, ...]:
        return (self.text,)

    def _edges(self) -> tuple[Any, ...]:
        return self.examples


@dataclass(frozen=True)
class CustomCheck(Constraint):
    """Values that a function accepts, which otherwise raises a sentence of its own."""

    text: str
    function: Callable[[Any], Any]

    def allows(self, value: Any) -> bool:
        """Return whether the function accepts this value."""
        try:
            self.function(value)
        except ShoalError:
            return False
        return True

    def _alternatives(self) -> tuple[str, ...]:
        return (self.text,)

    def _refuse(self, name: str, value: Any, owner: str) -> None:
        self.function(value)


@dataclass(frozen=True)
class OneOf(Constraint):
    """Values that at least one of several constraints allows, written as ``Whole(least=1) | None``."""

    members: tuple[Constraint, ...]

    def allows(self, value: Any) -> bool:
        """Return whether any of the constraints allows this value."""
        return any(member.allows(value) for member in self.members)

    def _alternatives(self) -> tuple[str, ...]:
        return tuple(text for member in self.members for text in member._alternatives())

    def _edges(self) -> tuple[Any, ...]:
        return tuple(value for member in self.members for value in member._edges())

    def _refuse(self, name: str, value: Any, owner: str) -> None:
        for member in self.members:
            if isinstance(member, CustomCheck):
                member._refuse(name, value, owner)
        super()._refuse(name, value, owner)


def constraints_of(estimator: type) -> dict[str, Constraint]:
    """Return the constraint of each parameter of an estimator, those of its base classes first."""
    found: dict[str, Constraint] = {}
    for base in reversed(estimator.__mro__):
        found |= vars(base).get("_parameter_constraints", {})
    return found


def check_parameters(estimator: Any, owner: str = "") -> None:
    """Refuse parameters of an estimator, or of a named owner, that its table does not allow."""
    for name, constraint in constraints_of(type(estimator)).items():
        constraint.check(name, getattr(estimator, name), owner)


def instance_of(*types: type, text: str = "") -> Described:
    """Allow instances of some types.

    >>> print(instance_of(Mapping, text="a mapping from names to numbers"))
    a mapping from names to numbers
    """
    return Described(text or f"a {types[0].__name__}", lambda value: isinstance(value, types))


def having(*methods: str) -> Described:
    """Allow objects that have some methods, and not their classes.

    >>> print(having("fit", "predict"))
    an object with fit and predict
    """
    return Described(
        f"an object with {' and '.join(methods)}",
        lambda value: not isinstance(value, type) and all(hasattr(value, name) for name in methods),
    )


def shorten(value: Any) -> str:
    """Return a value as one line of a message.

    >>> shorten("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def _within(
    noun: str, least: float | None, most: float | None, above: float | None = None, below: float | None = None
) -> str:
    if least is not None and most is not None:
        return f"{noun} from {least:,} to {most:,}"
    limits = {"of at least": least, "above": above, "of at most": most, "below": below}
    words = [f"{word} {limit:,}" for word, limit in limits.items() if limit is not None]
    return f"{noun} {' and '.join(words)}" if words else noun


def _is_score(value: Any) -> bool:
    from sklearn.metrics import get_scorer_names

    return isinstance(value, str) and value in get_scorer_names()


def _are_names(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, str) for one in value)


def _are_features(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping))


def _is_flag(value: Any) -> bool:
    import numpy as np

    return isinstance(value, (bool, np.bool_))


def _is_random_state(value: Any) -> bool:
    import numpy as np

    return value is np.random or isinstance(value, np.random.RandomState)


ABSENT = Described("None", lambda value: value is None, (None,))
FLAG = Described("True or False", _is_flag, (True, False, "yes", 1))
FUNCTION = Described("a function", callable, (len, "len"))
SEED = Whole(least=0, most=LARGEST_SEED)
RANDOM_STATE = SEED | Described("a RandomState", _is_random_state) | None
JOBS = (
    Described(
        "a whole number other than 0",
        lambda value: Whole().allows(value) and value != 0,
        (1, -1, 0),
        hint="-1 uses all cores",
    )
    | None
)
SHARE = Described(
    "a share above 0 and up to 1.0",
    lambda value: Real(above=0, most=1).allows(value) and not isinstance(value, numbers.Integral),
    (0.5, 1.0, 0.0, 1.5),
)
NAMES = Described("a list of names", _are_names, ([], ["age"], "age", [1]))
FEATURES = Described("a list of names or positions", _are_features, ([], ["age"], (0,), "age", 3))
WEIGHTS = instance_of(Mapping, text="a mapping from names to numbers")
SCORING = Described("a score of scikit-learn such as 'accuracy'", _is_score, ("r2", "luck")) | FUNCTION | None
