"""Tables whose columns are factorized once, however many users take rows of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shoal._kernels import groups
from shoal.data.frames import Factor, factorize, in_threads, open_frame, smallest_unsigned, take_rows


class FactoredFrame:
    """A table and the factors of its columns, each of which is worked out when it is first asked for.

    Parameters
    ----------
    frame : function
        Return the table; it is called when somebody needs more than factors.
    factor : function
        Return the factor of a column.
    columns : sequence of str
    n_rows : int
    """

    def __init__(
        self,
        frame: Callable[[], nw.DataFrame[Any]],
        factor: Callable[[str], Factor],
        columns: Sequence[str],
        n_rows: int,
    ) -> None:
        self._make_frame, self._make_factor = frame, factor
        self.columns, self._n_rows = list(columns), n_rows
        self._factors: dict[str, Factor] = {}

    @classmethod
    def of(cls, data: Any) -> FactoredFrame:
        """Return a table of any library with factors; one that has them already is returned as it is."""
        if isinstance(data, FactoredFrame):
            return data
        opened = open_frame(data)
        return cls(lambda: opened, lambda name: factorize(opened[name]), opened.columns, len(opened))

    def __reduce__(self) -> tuple[Any, ...]:
        # Functions cannot be sent to other processes, and factors are worked out again faster than they are sent.
        return FactoredFrame.of, (self.frame.to_native(),)

    def __len__(self) -> int:
        return self._n_rows

    @cached_property
    def frame(self) -> nw.DataFrame[Any]:
        """The table."""
        return self._make_frame()

    def factor(self, name: str) -> Factor:
        """Return the codes and distinct values of a column."""
        # Two threads may make the same one; either will do.
        if name not in self._factors:
            self._factors[name] = self._make_factor(name)
        return self._factors[name]

    def factors(self, names: Sequence[str]) -> dict[str, Factor]:
        """Return the factors of several columns, worked out side by side in long tables."""
        return dict(zip(names, in_threads(self.factor, names, len(self)), strict=True))

    def take(self, rows: np.ndarray) -> FactoredFrame:
        """Return some rows."""
        return FactoredFrame(
            lambda: take_rows(self.frame, rows), lambda name: restrict(self.factor(name), rows), self.columns, len(rows)
        )

    def group_rows(self, names: Sequence[str]) -> np.ndarray:
        """Assign equal numbers to rows with equal values in these columns; missing values are equal."""
        factors = self.factors(names)
        dtype = smallest_unsigned(max(len(factor.values) for factor in factors.values()) + 1)
        codes = np.empty((len(self), len(names)), dtype)
        for j, factor in enumerate(factors.values()):
            # The missing value takes the number after all others.
            groups.fill_missing(factor.codes, len(factor.values), codes[:, j])
        labels: np.ndarray = groups.group_rows(codes)[0]
        return labels


def restrict(factor: Factor, rows: np.ndarray) -> Factor:
    """Return the factor of some rows, without the values that none of them has."""
    codes = factor.codes[rows]
    used = np.zeros(len(factor.values) + 1, bool)
    used[codes] = True
    used = used[:-1]  # -1, the missing value, is the last
    if not used.all():
        lookup = np.append(np.cumsum(used) - 1, -1)
        codes = lookup[codes].astype(codes.dtype)
    return Factor(codes, factor.values[used], factor.content)


def group_rows(frame: Any, names: Sequence[str]) -> np.ndarray:
    """Assign equal numbers to rows of a table with equal values in these columns."""
    return FactoredFrame.of(frame).group_rows(names)
