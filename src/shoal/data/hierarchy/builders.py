"""Build hierarchies from values.

Each function returns a table with one row per value: the value, its group at each level, the root. Values are sorted,
so that the order of the rows in a data set does not change its hierarchy. Missing values are left out: they have no
place in an order and no prefix, and get a leaf of their own later.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise
from numbers import Integral
from typing import Any

from shoal.data.hierarchy.tree import called, quoted
from shoal.errors import HierarchyError

Number = int | float
Rows = list[list[str]]

ROOT = "*"
MOST_INTEGERS = 1_000_000


def several(option: Any) -> Any:
    """Return a single number or text as a list of one; lists and None unchanged."""
    return [option] if isinstance(option, (int, float, str)) else option


def interval_rows(
    low: Number | None,
    high: Number | None,
    widths: Sequence[Number] | None,
    edges: Sequence[Number] | Sequence[Sequence[Number]] | None,
    values: Iterable[object] | None,
    name: str,
) -> Rows:
    """Group the numbers from low to high: cut at multiples of each width, or at the edges of each level."""
    if (widths is None) == (edges is None):
        raise HierarchyError(f"{called(name)} needs either widths= or edges= to make intervals: give one of the two.")
    numbers = None if values is None else _numbers(values, name)
    levels = [] if edges is None else _checked_edges(edges, name)
    low, high = _bounds(low, high, levels[0] if levels else list((numbers or {}).values()), name)
    if widths is not None:
        cuts = _cuts_of_widths(widths, low, high, name)
    else:
        cuts = [_cuts_of_edges(level, low, high, name) for level in levels]
    _check_nested(cuts, name)
    whole = all(float(number).is_integer() for number in (low, high, *cuts[0], *(numbers or {}).values()))
    if numbers is None:
        numbers = _all_integers(low, high, whole, name)
    outside = next((text for text, number in numbers.items() if not low <= number <= high), None)
    if outside is not None:
        raise HierarchyError(
            f"{called(name)} has the value {outside!r} outside {low:g} to {high:g}: widen the bounds, or correct it."
        )
    ordered = sorted(numbers.items(), key=lambda item: (item[1], item[0]))
    return [[text, *(_interval(number, at, low, high, whole) for at in cuts), ROOT] for text, number in ordered]


def prefix_rows(values: Iterable[object], keep: Sequence[int] | None, side: str, mask: str, name: str) -> Rows:
    """Replace more and more characters by the mask, from the right or the left."""
    if side not in ("right", "left"):
        raise HierarchyError(f"{called(name)} cannot redact from the side {side!r}: choose 'right' or 'left'.")
    if len(mask) != 1:
        raise HierarchyError(f"{called(name)} cannot redact with the mask {mask!r}: give a single character.")
    texts = sorted(_distinct(values, name), key=lambda text: text if side == "right" else text[::-1])
    longest = max(map(len, texts), default=0)
    masked = next((text for text in texts if mask in text), None)
    if masked is not None:
        raise HierarchyError(
            f"{called(name)} has the value {masked!r} that holds the mask {mask!r}: choose a mask that no value holds."
        )
    kept = list(range(longest - 1, 0, -1)) if keep is None else list(keep)
    if any(not 0 < length < longest for length in kept) or any(fine <= coarse for fine, coarse in pairwise(kept)):
        raise HierarchyError(
            f"{called(name)} cannot keep {kept} characters of values with {longest}: "
            f"give falling lengths between 1 and {longest - 1}."
        )

    def redacted(text: str, length: int) -> str:
        if len(text) < length:  # 'E' is not yet one of 'E1**'
            return text
        return text[:length].ljust(longest, mask) if side == "right" else text[-length:].rjust(longest, mask)

    return [[text, *(redacted(text, length) for length in kept), ROOT] for text in texts]


DATE_LABELS: dict[str, Callable[[date], str]] = {  # from fine to coarse; each one nests in the next
    "day": lambda day: f"{day.year:04}-{day.month:02}-{day.day:02}",
    "month": lambda day: f"{day.year:04}-{day.month:02}",
    "quarter": lambda day: f"{day.year:04}-Q{(day.month + 2) // 3}",
    "half": lambda day: f"{day.year:04}-H{(day.month + 5) // 6}",
    "year": lambda day: f"{day.year:04}",
    "decade": lambda day: f"{day.year // 10 * 10:04}s",
}


def date_rows(values: Iterable[object], units: Sequence[str], name: str) -> Rows:
    """Group dates by calendar units."""
    known = list(DATE_LABELS)
    unknown = next((unit for unit in units if unit not in known), None)
    if unknown is not None:
        raise HierarchyError(f"{called(name)} does not know the unit {unknown!r}: choose among {', '.join(known)}.")
    if list(units) != [unit for unit in known if unit in units]:
        raise HierarchyError(
            f"{called(name)} has the units {quoted(units)} out of order: list them from fine to coarse."
        )
    days = {text: _date(value, name) for text, value in _distinct(values, name).items()}
    ordered = sorted(days.items(), key=lambda item: (item[1], item[0]))
    return [[text, *(DATE_LABELS[unit](day) for unit in units), ROOT] for text, day in ordered]


def order_rows(values: Iterable[object], fanout: int, name: str) -> Rows:
    """Group runs of neighbours in a given order, each level ``fanout`` groups of the one below."""
    if not isinstance(fanout, Integral) or fanout < 2:
        raise HierarchyError(f"{called(name)} cannot put {fanout!r} neighbours in a group: give a fanout of 2 or more.")
    texts = [str(value) for value in values if not _is_missing(value)]
    rows, size = [[text] for text in texts], int(fanout)
    while size < len(texts):
        for i, row in enumerate(rows):
            start = i // size * size
            end = min(start + size, len(texts)) - 1
            row.append(texts[start] if start == end else f"{texts[start]} – {texts[end]}")
        size *= int(fanout)
    return [[*row, ROOT] for row in rows]


def frequency_rows(values: Iterable[object] | Mapping[Any, int], below: Sequence[Number], name: str) -> Rows:
    """Group the values that occur more rarely than each threshold; rarer groups lie inside less rare ones."""
    counts = _counted(values, name)
    total = sum(counts.values())
    limits = [
        (limit * total if limit < 1 else limit, f"{limit * 100:g}%" if limit < 1 else f"{limit:g}") for limit in below
    ]
    if any(limit <= 0 for limit, _ in limits) or any(rare >= rarer for (rare, _), (rarer, _) in pairwise(limits)):
        raise HierarchyError(
            f"{called(name)} cannot group values below {list(below)} in {total} rows: "
            "give rising thresholds above 0, shares below 1 or counts."
        )
    levels, grouped = [], 1
    for limit, caption in limits:
        rare = sum(count < limit for count in counts.values())
        if grouped < rare < len(counts):  # a group of one value hides nothing, and one of all is the root
            levels.append((limit, f"other (below {caption})"))
            grouped = rare
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [[text, *(group if count < limit else text for limit, group in levels), ROOT] for text, count in ordered]


def _interval(number: Number, cuts: list[float], low: Number, high: Number, whole: bool) -> str:
    """Return the label of the interval between two cuts that holds the number.

    Integers read '20-29'; other numbers '[20, 30)', where the last interval holds its end, '[80, 90]'.
    """
    right = bisect_right(cuts, number)
    start = cuts[right - 1] if right else low
    is_last = right == len(cuts)
    end = high if is_last else cuts[right]
    if not whole:
        return f"[{start:.12g}, {end:.12g}{']' if is_last else ')'}"
    first, last = int(start), int(end) if is_last else int(end) - 1
    between = " to " if low < 0 else "-"  # '-20--10' would be hard to read
    return str(first) if first == last else f"{first}{between}{last}"


def _cuts_of_widths(widths: Sequence[Number], low: Number, high: Number, name: str) -> list[list[float]]:
    """Return the multiples of each width between the bounds.

    There is no cut at ``high`` itself: with a width of 10 up to 90, 90 joins '80-90' instead of standing alone.
    """
    if len(widths) == 0 or not all(width > 0 for width in widths):
        raise HierarchyError(f"{called(name)} has the widths {list(widths)}: give at least one, all above 0.")
    if (high - low) / widths[0] > MOST_INTEGERS:
        raise HierarchyError(
            f"{called(name)} has more than {MOST_INTEGERS:,} intervals of width {widths[0]:g} "
            f"from {low:g} to {high:g}: begin with a larger width."
        )
    for fine, coarse in pairwise(widths):
        if coarse <= fine or abs(coarse / fine - round(coarse / fine)) > 1e-9:
            raise HierarchyError(
                f"{called(name)} has the width {coarse:g} after {fine:g}: make each width a multiple of the one before."
            )
    # In tenths, 7 * 0.1 is a little more than 0.7: without rounding, 0.7 would fall below its own cut.
    return [
        [
            cut
            for i in range(math.floor(low / width), math.ceil(high / width))
            if low < (cut := float(f"{i * width:.12g}")) < high
        ]
        for width in widths
    ]


def _checked_edges(edges: Sequence[Number] | Sequence[Sequence[Number]], name: str) -> list[list[Number]]:
    """Return the edges of each level, given for one level or for several."""
    levels: list[Any] = list(edges)
    if not levels or not hasattr(levels[0], "__len__"):
        levels = [levels]
    for level in levels:
        if len(level) < 2 or not all(left < right for left, right in pairwise(level)):
            raise HierarchyError(f"{called(name)} has the edges {list(level)}: give at least two, in rising order.")
    return [list(level) for level in levels]


def _cuts_of_edges(edges: list[Number], low: Number, high: Number, name: str) -> list[float]:
    if edges[0] > low or edges[-1] < high:
        raise HierarchyError(
            f"{called(name)} has edges from {edges[0]:g} to {edges[-1]:g}, which leave out a part of "
            f"{low:g} to {high:g}: add edges at the ends."
        )
    return [float(edge) for edge in edges[1:-1] if low < edge <= high]


def _bounds(low: Number | None, high: Number | None, known: Sequence[Number], name: str) -> tuple[Number, Number]:
    if (low is None or high is None) and not known:
        raise HierarchyError(f"{called(name)} needs bounds for its intervals: give low and high, or values.")
    low = min(known) if low is None else low
    high = max(known) if high is None else high
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise HierarchyError(f"{called(name)} has the bounds {low} to {high}: give finite ones, the lower first.")
    return low, high


def _check_nested(levels: list[list[float]], name: str) -> None:
    for fine, coarse in pairwise(levels):
        broken = sorted(set(coarse) - set(fine))
        if broken:
            raise HierarchyError(
                f"{called(name)} has the edge {broken[0]:g} inside an interval of the level below: "
                "make the intervals of each level a union of those below."
            )


def _all_integers(low: Number, high: Number, whole: bool, name: str) -> dict[str, Number]:
    if not whole:
        raise HierarchyError(
            f"{called(name)} has bounds or edges that are not whole numbers, so its values are not known: give values=."
        )
    if high - low >= MOST_INTEGERS:
        raise HierarchyError(
            f"{called(name)} has more than {MOST_INTEGERS:,} integers from {low:g} to {high:g}: "
            "give the ones in use as values=."
        )
    return {str(number): number for number in range(int(low), int(high) + 1)}


def _numbers(values: Iterable[object], name: str) -> dict[str, Number]:
    numbers: dict[str, Number] = {}
    seen: dict[Number, str] = {}
    for text in _distinct(values, name):
        try:
            numbers[text] = float(text)
        except ValueError:
            numbers[text] = math.nan
        if not math.isfinite(numbers[text]):
            raise HierarchyError(
                f"{called(name)} has the value {text!r}, which is not a finite number: correct or drop it."
            )
        if seen.setdefault(numbers[text], text) != text:
            raise HierarchyError(
                f"{called(name)} has {seen[numbers[text]]!r} and {text!r} for the same number: write it in one way."
            )
    return numbers


def _date(value: object, name: str) -> date:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return datetime.fromisoformat(str(value)).date()
    except ValueError:
        raise HierarchyError(
            f"{called(name)} has the value {str(value)!r}, not an ISO date such as '2024-03-01': convert it first."
        ) from None


def _counted(values: Iterable[object] | Mapping[Any, int], name: str) -> dict[str, int]:
    if not isinstance(values, Mapping):
        return dict(Counter(str(value) for value in values if not _is_missing(value)))
    counts = {str(value): count for value, count in values.items() if not _is_missing(value)}
    wrong = next((text for text, count in counts.items() if not count >= 0), None)
    if wrong is not None:
        raise HierarchyError(f"{called(name)} has the count {counts[wrong]!r} for {wrong!r}: give counts of 0 or more.")
    return counts


def _distinct(values: Iterable[object], name: str) -> dict[str, object]:
    """Return each value that is not missing by its text."""
    found = {str(value): value for value in values if not _is_missing(value)}
    if not found:
        raise HierarchyError(f"{called(name)} is empty: give at least one value that is not missing.")
    return found


def _is_missing(value: object) -> bool:
    """Return True for None, NaN, NaT and NA, without importing the libraries they come from."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA has no truth value
        return True
