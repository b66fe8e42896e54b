"""What parameters may be."""

from __future__ import annotations

import numbers
from typing import Any


def is_whole(value: Any, least: int) -> bool:
    """Whether this is a whole number, and not too small."""
    return isinstance(value, numbers.Integral) and int(value) >= least


def is_number(value: Any, least: float, most: float = float("inf")) -> bool:
    """Whether this is a number in a range."""
    return isinstance(value, numbers.Real) and least <= float(value) <= most


def is_share(value: Any) -> bool:
    """Whether this is a share above 0 and up to 1.0; a whole 1 is none."""
    return is_number(value, 0.0, 1.0) and not isinstance(value, numbers.Integral) and value > 0
