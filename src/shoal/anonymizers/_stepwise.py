"""Local recoding: generalise cheap rows first, then the rest, each step with its own vector of levels."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal._kernels import flash_local as kernel
from shoal._kernels.flash_local import Field, Vectors
from shoal._kernels.guard import rows_hold
from shoal.anonymizers._full_domain import FullDomain
from shoal.partition.lattice import outer_sum

N_PRICES = 100
"""Number of prices: maximum losses of a row, from nothing to everything."""
MEAN_COST = 0.8
"""Maximum mean cost of a vector over the remaining rows, as a share of the price at which it is checked.

More expensive vectors take time and gain nothing: on Adult (k = 5) the loss is 0.0564, and 0.0570 without a limit.
"""
MOST_REFUSED = 20
"""Maximum number of vectors with an invalid rest, before a higher price is tried."""
ROWS_BETWEEN_LOOKS = 2_000_000
"""Distinct rows to group, over several vectors, between two checks of the clock: some hundredths of a second."""


class Step(NamedTuple):
    """Distinct rows that are released at the same vector of levels."""

    levels: np.ndarray
    entries: np.ndarray
    """int32: the distinct rows."""
    labels: np.ndarray
    """int32: the group of each."""
    first: np.ndarray
    """int32: a distinct row of each group."""


class Recoding(NamedTuple):
    """All steps in order, the distinct rows that remain suppressed, and the loss."""

    steps: list[Step]
    rest: np.ndarray
    loss: float
    n_checked: int
    """Number of checked vectors, counted once per step."""
    complete: bool
    """True if the search for better steps was completed."""


def recode_stepwise(
    domain: FullDomain, choices: Sequence[np.ndarray], least_share: float, budget: int, deadline: float | None = None
) -> Recoding:
    """Recode the rows in steps of ascending price.

    At each price, from nothing to the maximum loss of a row, the vector of levels is chosen whose groups at this price
    contain most of the remaining rows, until none contains a share of ``least_share`` of all. The rest must always be a
    group that can be released at the highest levels, or suppressed, so that the last step is always possible.

    Parameters
    ----------
    domain : FullDomain
    choices : sequence of int array
        Allowed levels of each attribute, ascending.
    least_share : float
    budget : int
        Maximum number of suppressed rows.
    deadline : float, optional
        Time limit, by ``time.monotonic``: the remaining rows then get the highest levels.
    """
    walk = _Walk(domain, choices, budget, deadline)
    least = max(1, math.ceil(least_share * domain.n_rows - 1e-9))
    for price in range(int(N_PRICES / MEAN_COST) + 2):
        while len(walk.entries) and not walk.late and walk.advance(price, least):
            pass
    walk.finish()
    return Recoding(walk.steps, walk.entries, walk.loss, walk.n_checked, not walk.late)


def loss_of(domain: FullDomain, recoding: Recoding) -> float:
    """Return the loss of a recoding, in which a suppressed row costs as much as one at the highest levels."""
    field = domain.field(1.0)
    parts = [(step.levels, step.entries) for step in recoding.steps] + [(domain.tops, recoding.rest)]
    return float(sum((_lost(field, levels, entries) * domain.sizes[entries]).sum() for levels, entries in parts))


def _lost(field: Field, levels: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Return the loss of each distinct row at a vector of levels, in units of one price."""
    at = field.at + levels * field.n_codes
    return np.asarray(field.cost[at + field.codes[entries]].sum(axis=1))


class _Walk:
    """The remaining rows, and the bounds of the vectors."""

    def __init__(
        self, domain: FullDomain, choices: Sequence[np.ndarray], budget: int, deadline: float | None = None
    ) -> None:
        self.domain, self.choices, self.budget, self.deadline = domain, choices, budget, deadline
        self.late = False
        shape = [len(levels) for levels in choices]
        grid = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(shape)).astype(np.int64)
        n = len(grid)
        strides = [math.prod(shape[j + 1 :]) for j in range(len(shape))]
        good = np.full((n, N_PRICES + 1), domain.n_rows, np.int32)
        reach = good if domain.shrinking else good.copy()
        cap, counted = np.full(n, domain.n_rows, np.int64), np.full(n, -1, np.int64)
        self.vectors = Vectors(grid, np.array(shape), np.array(strides), good, reach, cap, counted)
        whole = sum(domain.costs_at(j).max() for j in range(len(shape)))
        self.price = max(float(whole), 1e-300) / N_PRICES
        self.field, self.space = domain.field(self.price), domain.space()
        self.generality = outer_sum([np.arange(m) for m in shape]).reshape(-1).astype(np.int64)
        self.entries = np.arange(len(domain.codes), dtype=np.int32)
        self.sizes = domain.sizes
        self.steps: list[Step] = []
        self.loss, self.n_checked = 0.0, 0
        self.mean_cost = self._mean_costs()

    def advance(self, price: int, least: int) -> bool:
        """Take the best step at this price; return False if there is none."""
        left = int(self.sizes.sum())
        least = min(least, left)
        affordable = self.mean_cost <= MEAN_COST * price + 1e-9
        price = min(price, N_PRICES)
        bound = np.minimum(self.vectors.cap, self.vectors.reach[:, price])
        near = np.flatnonzero((bound >= max(least, 1)) & affordable)
        # The highest bounds first; among equal ones the most general vector, which implies most bounds of others.
        order = near[np.argsort(-bound[near] * len(bound) - self.generality[near], kind="stable")]
        for _ in range(MOST_REFUSED):
            best = self._best_step(order, price, least)
            if best < 0:
                return False
            if self._take(self.vectors.levels[best], price):
                return True
            order = order[order != best]
        return False

    def _best_step(self, order: np.ndarray, price: int, least: int) -> int:
        """Return the vector with most rows at this price, among those there is time for; -1 if none has enough."""
        at_once = max(1, ROWS_BETWEEN_LOOKS // len(self.entries)) if self.deadline is not None else max(1, len(order))
        best, most = -1, least - 1
        for start in range(0, len(order), at_once):
            if self.deadline is not None and time.monotonic() >= self.deadline:
                self.late = True
                break
            best, most, n_counted = kernel.best_step(
                self.field, self.vectors, self.entries, self.sizes, order[start : start + at_once], len(self.steps),
                price, best, most, self.domain.smallest, self.domain.guard, self.space,
            )  # fmt: skip
            self.n_checked += n_counted
        return int(best)

    def _mean_costs(self) -> np.ndarray:
        """Return the mean cost of each vector over the remaining rows, in units of one price."""
        means = []
        for j, levels in enumerate(self.choices):
            rows = np.bincount(self.field.codes[self.entries, j], self.sizes, int(self.field.n_codes[j]))
            means.append(self.domain.costs_at(j)[levels] @ rows / (self.price * max(rows.sum(), 1.0)))
        return outer_sum(means).reshape(-1)

    def finish(self) -> None:
        """Release the remaining rows at the highest levels, as far as these form valid groups."""
        if len(self.entries):
            self._take(self.vectors.levels[-1], N_PRICES, last=True)
        # A suppressed row costs as much as one at the top of all attributes.
        self.loss += float((_lost(self.field, self.domain.tops, self.entries) * self.sizes).sum()) * self.price

    def _take(self, levels: np.ndarray, price: int, *, last: bool = False) -> bool:
        """Recode the rows of a vector at this price, unless the rest could not be released; return False then."""
        labels, first = self._split(levels, self.entries, self.sizes, price)
        taken = labels >= 0
        rest, rest_sizes = self.entries[~taken], self.sizes[~taken]
        if not last and len(rest) and not self._could_end(rest, rest_sizes):
            return False
        if taken.any():
            step = Step(levels.copy(), self.entries[taken], labels[taken], first)
            self.loss += float((_lost(self.field, levels, step.entries) * self.sizes[taken]).sum()) * self.price
            self.steps.append(step)
        self.entries, self.sizes = rest, rest_sizes
        self.mean_cost = self._mean_costs()
        return True

    def _could_end(self, entries: np.ndarray, sizes: np.ndarray) -> bool:
        """Return True if these rows could be released at the highest levels, or else suppressed."""
        labels, _ = self._split(self.vectors.levels[-1], entries, sizes, N_PRICES)
        outliers = labels < 0
        if not outliers.any():
            return True
        n = int(sizes[outliers].sum())
        return n <= self.budget and self._is_group(entries[outliers], n)

    def _split(
        self, levels: np.ndarray, entries: np.ndarray, sizes: np.ndarray, price: int
    ) -> tuple[np.ndarray, np.ndarray]:
        domain = self.domain
        return kernel.take_step(
            self.field, levels, entries, sizes, price, N_PRICES + 1, domain.smallest, domain.guard, self.space
        )

    def _is_group(self, entries: np.ndarray, n: int) -> bool:
        domain = self.domain
        if n < domain.smallest or domain.guard is None:
            return n >= domain.smallest
        rows = np.flatnonzero(np.isin(domain.tuple_of_row, entries))
        return bool(rows_hold(domain.guard, rows))
