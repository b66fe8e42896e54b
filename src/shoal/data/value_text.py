"""Write values as text and read them back, independently of the dataframe library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from shoal.errors import DataError

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def plain_text(value: Any, content: str) -> str:
    """Return a value as text: 39.0 is "39", midnight is only a date, and a number reads back as the same number.

    >>> plain_text(39.0, "number"), plain_text(0.1, "number"), plain_text(np.datetime64("2024-03-05T00:00"), "date")
    ('39', '0.1', '2024-03-05')
    """
    if isinstance(value, str):
        return value
    if content == "number":
        if isinstance(value, (int, np.integer)):
            return str(int(value))
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    return _date_text(value) if content == "date" else str(value)


def parse_texts(texts: np.ndarray, attribute: str) -> np.ndarray:
    """Return texts of a numeric attribute as numbers, or as dates if most of them look like dates."""
    dates = 2 * sum(_DATE.match(text) is not None for text in texts) > len(texts)
    parsed = np.empty(len(texts), "datetime64[us]" if dates else float)
    for i, text in enumerate(texts):
        try:
            parsed[i] = np.datetime64(text, "us") if dates else _number(text)
        except ValueError:
            raise DataError(
                f"Attribute {attribute!r} is numeric but has the value {text!r}: mark it as missing, "
                "or make the attribute nominal."
            ) from None
    return parsed


def positions_of(values: np.ndarray, attribute: str) -> np.ndarray:
    """Return numbers, or days since 1970 for dates, as floats; refuse an infinity."""
    if values.dtype.kind == "M":
        # Whole days apart: nanoseconds since 1970 reach only to 2262, and are more than a float holds.
        days = values.astype("datetime64[D]")
        return days.astype(np.int64) + (values - days) / np.timedelta64(1, "D")  # type: ignore[no-any-return]
    numbers = values.astype(float)
    if not np.isfinite(numbers).all():
        worst = numbers[~np.isfinite(numbers)][0]
        raise DataError(f"Attribute {attribute!r} holds the value {worst}: replace it by a number or a missing value.")
    with np.errstate(over="ignore"):
        if len(numbers) and not np.isfinite(numbers.max() - numbers.min()):
            raise DataError(f"Attribute {attribute!r} reaches from {numbers.min()} to {numbers.max()}: scale it down.")
    return numbers


def in_number_order(values: Sequence[Any]) -> list[Any] | None:
    """Sort texts that are all numbers as numbers, so that "9" comes before "10"; return None for other texts.

    Numbers and dates are sorted already.
    """
    if not values or not isinstance(values[0], str):
        return list(values)
    try:
        return sorted(values, key=float)
    except ValueError:
        return None


def as_objects(values: Sequence[Any]) -> np.ndarray:
    """Return an object array of the values; numpy would turn dates of nanoseconds into integers."""
    objects = np.empty(len(values), object)
    for i, value in enumerate(values):
        objects[i] = value
    return objects


def _number(text: str) -> float:
    if "_" in text:  # Python reads "1_000" as a thousand; in data it is a text
        raise ValueError
    return float(text)


def _date_text(value: Any) -> str:
    moment = np.datetime64(value)
    day = moment.astype("datetime64[D]")
    if day == moment:
        return str(day)
    # Nanoseconds reach only to 2262.
    exact = np.datetime_data(moment.dtype)[0] == "ns"
    text = str(moment if exact else moment.astype("datetime64[us]")).replace("T", " ") + "000" * (not exact)
    return text.rstrip("0").rstrip(".") if text.endswith("000") else text
