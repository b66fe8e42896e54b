"""Bounds of cleaned values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.errors import ShoalError
from shoal.parameters import Whole


class ValueBounds(NamedTuple):
    """Lowest and highest values of the features that may change."""

    low: np.ndarray
    high: np.ndarray

    def inward(self, dtype: Any) -> ValueBounds:
        """Return bounds that also hold after rounding to a type of lower precision."""
        if dtype == np.float64:
            return self
        low, high = self.low.astype(dtype), self.high.astype(dtype)
        low = np.where(low < self.low, np.nextafter(low, np.array(np.inf, dtype)), low)
        high = np.where(high > self.high, np.nextafter(high, np.array(-np.inf, dtype)), high)
        return ValueBounds(low.astype(float), np.maximum(high, low).astype(float))


def read_bounds(
    given: Any, names: Sequence[str] | None, free: np.ndarray, rows: np.ndarray | None
) -> ValueBounds | None:
    """Read the parameter: ``"seen"``, a pair, or a pair for each of some features."""
    if given is None:
        return None
    low, high = np.full(len(free), -np.inf), np.full(len(free), np.inf)
    if isinstance(given, str):
        if rows is None:
            raise ShoalError("bounds='seen' needs rows: pass rows to fit, or the bounds themselves.")
        low[free], high[free] = rows.min(axis=0), rows.max(axis=0)
    elif isinstance(given, Mapping):
        for feature, pair in given.items():
            at = _find(feature, names, len(free))
            low[at], high[at] = _pair(pair, ())
    else:
        low[:], high[:] = _pair(given, (len(free),))
    crossed = free & ~(low <= high)
    if crossed.any():
        at = int(crossed.argmax())
        name = names[at] if names is not None else at
        raise ShoalError(f"The bounds of {name!r}, {low[at]:g} and {high[at]:g}, leave no value: correct them.")
    return ValueBounds(low[free], high[free])


def _find(feature: Any, names: Sequence[str] | None, n_features: int) -> int:
    if isinstance(feature, str) and names is not None and feature in names:
        return list(names).index(feature)
    if Whole(least=0, most=n_features - 1).allows(feature):
        return int(feature)
    raise ShoalError(f"There is no feature {feature!r} to bound: pass the name or position of another one.")


def _pair(given: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    try:
        low, high = given
        return np.broadcast_to(np.asarray(low, float), shape), np.broadcast_to(np.asarray(high, float), shape)
    except (TypeError, ValueError):
        wanted = "pass a lowest and a highest value" + (", for all features or for each one" if shape else "")
        raise ShoalError(f"bounds must be two numbers, got {given!r}: {wanted}.") from None
