"""Whether a claim holds, counted over settings in which it holds, does not, or cannot be told."""

from __future__ import annotations

from collections.abc import Sequence

from _study import Answer

from shoal.intervals import Interval

RELEVANT = 0.005
"""A difference in F1 below half a point is none."""


def agreed(judged: Sequence[bool | None]) -> Answer:
    """Yes where all that can be told hold, partly where at least half of them do; None is what cannot be told."""
    known = [one for one in judged if one is not None]
    if 2 * len(known) < len(judged) or not known:
        return "cannot be told"
    return "yes" if all(known) else "partly" if 2 * sum(known) >= len(known) else "no"


def above_zero(found: Interval) -> bool | None:
    """Whether a difference is above 0: surely so, surely not by half a point, or it cannot be told."""
    return True if found.low > 0 else False if found.high < RELEVANT else None


def spelled(found: Interval) -> str:
    """A difference with its interval."""
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"
