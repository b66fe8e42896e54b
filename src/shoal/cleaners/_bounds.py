"""Bounds that cleaned values are to stay within."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from shoal.errors import ShoalError

CLOSENESS = 1e-12
"""How closely rows within bounds must have the coordinates wanted, in lengths of such rows."""


class Bounds(NamedTuple):
    """Lowest and highest values of the features that may be changed."""

    low: np.ndarray
    high: np.ndarray
    spread: np.ndarray
    """What a change of each feature is measured in."""
    tolerance: float


def read_bounds(given: Any, names: Sequence[str] | None, free: np.ndarray, rows: np.ndarray | None) -> Bounds | None:
    """Read bounds as people give them: ``"seen"``, a pair, or a pair for each of some features."""
    if given is None:
        return None
    low, high = np.full(len(free), -np.inf), np.full(len(free), np.inf)
    if isinstance(given, str):
        if given != "seen":
            raise ShoalError(f"There are no bounds {given!r}: choose seen, or pass a lowest and a highest value.")
        if rows is None:
            raise ShoalError("bounds='seen' needs rows: pass some to fit, or the bounds themselves.")
        low[free], high[free] = rows.min(axis=0), rows.max(axis=0)
    elif isinstance(given, Mapping):
        for feature, pair in given.items():
            at = _find(feature, names, len(free))
            low[at], high[at] = _pair(pair)
    else:
        low[:], high[:] = _pair(given)
    crossed = free & ~(low <= high)
    if crossed.any():
        at = int(crossed.argmax())
        name = names[at] if names is not None else at
        raise ShoalError(f"The bounds of {name!r}, {low[at]:g} and {high[at]:g}, leave no value: mend them.")
    return _measure(low[free], high[free], rows)


def _measure(low: np.ndarray, high: np.ndarray, rows: np.ndarray | None) -> Bounds:
    """Spreads are those of rows, or what the bounds are apart, or one."""
    spread = np.ones(len(low)) if rows is None else rows.std(axis=0)
    width = high - low
    spread = np.where((spread > 0) & (rows is not None), spread, np.where(np.isfinite(width), width, 1.0))
    spread = np.where(spread > 0, spread, 1.0)
    finite = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)], spread])
    return Bounds(low, high, spread, CLOSENESS * max(float(np.linalg.norm(finite)), 1e-300))


def _find(feature: Any, names: Sequence[str] | None, n_features: int) -> int:
    if isinstance(feature, str) and names is not None and feature in names:
        return list(names).index(feature)
    if isinstance(feature, (int, np.integer)) and 0 <= feature < n_features:
        return int(feature)
    raise ShoalError(f"There is no feature {feature!r} to bound: name one of the predictor's, or its position.")


def _pair(given: Any) -> tuple[Any, Any]:
    try:
        low, high = given
        return np.asarray(low, float), np.asarray(high, float)
    except (TypeError, ValueError):
        raise ShoalError(f"{given!r} are no bounds: pass a lowest and a highest value.") from None
