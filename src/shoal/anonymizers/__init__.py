"""The anonymizers, one module per method; the module's name with hyphens is the method's name.

The cuts, clusters, lattices and recodings that they use are in :mod:`shoal.partition`.
"""

from __future__ import annotations

import importlib
import pkgutil

from shoal.anonymizers._base import Anonymizer
from shoal.errors import ShoalError
from shoal.parameters import Constraint, constraints_of


def method_names() -> list[str]:
    """Return the names of all methods."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def find_method(name: str) -> type[Anonymizer]:
    """Return the anonymizer class of a method."""
    if name not in method_names():
        raise ShoalError(f"There is no method {name!r}: choose {', '.join(method_names())}.")
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Anonymizer) and value.__module__ == module.__name__
    )
    return found


def describe_methods() -> dict[str, str]:
    """Return the methods by name, each with the first sentence of its documentation."""
    return {name: (find_method(name).__doc__ or "").strip().split("\n")[0] for name in method_names()}


def options_of(method: type[Anonymizer]) -> dict[str, Constraint]:
    """Return the constraint of each parameter that a method has beside those of every method."""
    common = constraints_of(Anonymizer)
    return {name: constraint for name, constraint in constraints_of(method).items() if name not in common}
