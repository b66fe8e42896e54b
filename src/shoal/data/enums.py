"""Text columns of polars as ``Enum`` columns: each distinct text (a *word*) is stored once, each row holds its number.

Enums are counted, gathered, stored and written in a fraction of the time that texts take.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars


def of_texts(column: polars.Series) -> polars.Series:
    """Return a column of texts as an enum."""
    import polars as pl

    return column.cast(pl.Enum(column.drop_nulls().unique(maintain_order=True)))


def of_numbers(column: polars.Series, words: Sequence[str]) -> polars.Series:
    """Return the enum with these numbers; a missing number is a missing value."""
    return _look_up(column, words, words)


def among(column: polars.Series, words: Collection[str]) -> polars.Series:
    """Return the enum with other words; values that are not among them are missing."""
    return _look_up(column.to_physical(), [word if word in words else None for word in words_of(column)], words)


def without(column: polars.Series, words: Collection[str]) -> polars.Series:
    """Return the enum with some of its values missing."""
    kept = [None if word in words else word for word in words_of(column)]
    return _look_up(column.to_physical(), kept, words_of(column))


def in_use(column: polars.Series) -> polars.Series:
    """Return the enum without the words that no row has."""
    used = [word for word, n in zip(words_of(column), count(column), strict=True) if n]
    return column if len(used) == len(words_of(column)) else among(column, dict.fromkeys(used))


def count(column: polars.Series) -> np.ndarray:
    """Return the number of rows with each word."""
    from shoal._kernels import groups

    return groups.count_numbers(column.to_physical().drop_nulls().to_numpy(), len(words_of(column)))


def words_of(column: polars.Series) -> list[str]:
    """Return all words, in the order of their numbers."""
    import polars as pl

    assert isinstance(column.dtype, pl.Enum)
    return column.dtype.categories.to_list()


def _look_up(numbers: polars.Series, by_number: Sequence[str | None], words: Collection[str]) -> polars.Series:
    import polars as pl

    # There may be no word at all: the extra None keeps the table from being empty.
    table = pl.Series(numbers.name, [*by_number, None], pl.Enum(list(words)))
    return table.gather(numbers)
