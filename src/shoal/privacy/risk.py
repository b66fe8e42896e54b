"""Risk of re-identification, from the sizes of the groups."""

from __future__ import annotations

import numbers
from typing import NamedTuple

import numpy as np

from shoal.errors import ShoalError


class SizeCounts(NamedTuple):
    """The number of groups of each size: few numbers, also of many groups."""

    rows: np.ndarray
    """int: numbers of released rows of a group, ascending."""
    groups: np.ndarray
    """int: number of groups with as many rows."""

    @property
    def median(self) -> float:
        """The median group size."""
        n, upto = int(self.groups.sum()), np.cumsum(self.groups)
        middle = np.searchsorted(upto, [(n - 1) // 2, n // 2], side="right")
        return float(self.rows[middle].mean())


class Risk(NamedTuple):
    """Risk of re-identification, from 0 to 1."""

    prosecutor: float
    """Highest risk of a person who is known to be in the table: 1 / size of the smallest group."""
    journalist: float
    """The same for a person of the population; equals ``prosecutor`` where no population is given."""
    marketer: float
    """Average share of all rows that would be matched correctly: groups / rows."""
    above: float
    """Share of the rows whose risk is above the threshold."""
    unique: float
    """Share of the rows that no other row equals."""
    threshold: float


def risk(
    sizes: np.ndarray,
    *,
    threshold: float = 0.2,
    population: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Risk:
    """Compute the risks of re-identification from the sizes of the groups of released rows.

    Parameters
    ----------
    sizes : int array (groups,)
        Released rows of each group.
    threshold : float
        A row is at risk if 1 / size of its group is above it.
    population : int array (groups,), optional
        Rows of the population in each group.
    groups : int array (groups,), optional
        Number of groups that each entry stands for; 1 by default.

    Returns
    -------
    Risk
    """
    if not isinstance(threshold, numbers.Real) or not 0 < threshold <= 1:
        raise ShoalError(f"The threshold of a risk must be above 0 and at most 1, not {threshold!r}: choose 0.2.")
    known = sizes > 0
    sizes = sizes[known].astype(float)
    if len(sizes) == 0:
        return Risk(0.0, 0.0, 0.0, 0.0, 0.0, threshold)
    many = np.ones(len(sizes)) if groups is None else groups[known].astype(float)
    n = (sizes * many).sum()
    reach = sizes if population is None else population[known].astype(float)
    return Risk(
        prosecutor=float(1 / sizes.min()),
        journalist=float(1 / reach.min()),
        marketer=float((many * sizes / reach).sum() / n),
        above=float((sizes * many)[1 / sizes > threshold].sum() / n),
        unique=float(many[sizes == 1].sum() / n),
        threshold=threshold,
    )
