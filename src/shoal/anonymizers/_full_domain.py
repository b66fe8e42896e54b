"""Rows generalised to vectors of levels: the groups of equal rows, and their loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels import flash as kernel
from shoal._kernels import groups as grouping
from shoal._kernels import privacy
from shoal._kernels.flash_local import Field, LocalScratch
from shoal._kernels.guard import Guard, rows_hold
from shoal.data.table import Column, Table
from shoal.partition.cut_tree import asked_of
from shoal.partition.geometry import Nodes, pack_rows
from shoal.partition.lattice import Ladder, NodeCheck, make_ladders

CELL_LOSSES = ("loss", "ncp", "entropy", "precision")
"""Losses that are sums over the cells of the table."""
LOSSES = (*CELL_LOSSES, "discernibility", "average-group-size")
_ENTRIES_KEPT = 20
"""Maximum size of stored groups of earlier checks, as a multiple of the distinct rows."""


class Groups(NamedTuple):
    """Groups of distinct rows that are equal at a vector of levels."""

    labels: np.ndarray
    """int32: the group of each entry that they were built from."""
    first: np.ndarray
    """int32: a distinct row of each group."""
    total: np.ndarray
    """int64: the number of rows of each group."""


class Packing(NamedTuple):
    """The layout of the nodes of each attribute in a row of 64-bit words."""

    parts: np.ndarray
    """uint64: the node of each code at each level, shifted to its position."""
    at: np.ndarray
    n_codes: np.ndarray
    word: np.ndarray
    """int64 (q,): code c of attribute j at level l is entry ``at[j] + l * n_codes[j] + c``, in word ``word[j]``."""

    def pack(self, levels: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the nodes of rows of codes at a vector of levels as words, equal where all nodes are."""
        words = np.zeros((len(codes), int(self.word[-1]) + 1), np.uint64)
        for j, start in enumerate((self.at + levels * self.n_codes).tolist()):
            words[:, self.word[j]] |= self.parts[start + codes[:, j].astype(np.int64)]
        return words


class FullDomain:
    """The distinct rows of a table, prepared for generalisation to any vector of levels.

    Parameters
    ----------
    table : Table
    guard : Guard
    smallest : int
        Minimum number of rows per group.
    loss : str
        One of ``LOSSES``.
    """

    def __init__(self, table: Table, guard: Guard, smallest: int, loss: str) -> None:
        self.table, self.loss = table, loss
        self.guard = asked_of(guard)
        # A group also contains rows that are not released, so only the guard can count the released ones.
        self.smallest = smallest if len(guard.members) == 0 else 0
        self.shrinking, self.closed = _monotone(guard)
        self.ladders = make_ladders(table)
        self.tuple_of_row, first_row = _distinct_rows(table)
        self.codes = np.column_stack([column.codes[first_row] for column in table.quasi]).astype(np.int32)
        released = guard.members if len(guard.members) else None
        if table.weights is not None:
            released = table.weights if released is None else table.weights * released
        self.sizes = np.bincount(self.tuple_of_row, weights=released, minlength=len(first_row)).astype(np.int64)
        self.tuple_rows, self.tuple_starts = grouping.order_by_label(self.tuple_of_row, len(first_row))
        self.n_rows = int(self.sizes.sum())
        self._lay_out()
        self._forget()

    @property
    def tops(self) -> np.ndarray:
        """The highest level of each attribute."""
        return np.array([len(ladder.nodes) - 1 for ladder in self.ladders], np.int64)

    def group(self, levels: np.ndarray, *, labelled: bool = False) -> Groups:
        """Return the groups at a vector of levels, from those of a less general vector if there are any.

        With ``labelled`` they are built from the distinct rows themselves, so that labels give the group of each row.
        """
        entries, sizes = (self._everything, self.sizes) if labelled else self._cheapest_below(levels)
        active = np.flatnonzero(levels < self._tops)
        word_starts = np.searchsorted(self._word[active], np.arange(self._keys.shape[1] + 1))
        labels, first = np.empty(len(entries), np.int32), np.empty(len(entries), np.int32)
        total = np.empty(len(entries), np.int64)
        n = kernel.merge(
            self.codes, entries, sizes, self._parts, (self._at + levels * self._n_codes)[active], active, word_starts,
            self._slots, self._keys, labels, first, total,
        )  # fmt: skip
        made = Groups(labels, first[:n].copy(), total[:n].copy())
        if n < 0.8 * len(entries):
            self._keep(levels, made)
        return made

    def judge_rows(self, levels: np.ndarray) -> tuple[Groups, np.ndarray]:
        """Return the groups of the distinct rows at a vector of levels, and a mask of those that must be suppressed."""
        groups = self.group(levels, labelled=True)
        bad = np.empty(len(groups.total), np.uint8)
        kernel.mark_small(groups.total, self.smallest, bad)
        if self.guard is not None:
            self._mark_broken(groups, bad)
        return groups, bad

    def judge(self, levels: np.ndarray, budget: int) -> NodeCheck:
        """Return the loss of a vector of levels and bounds for others, if ``budget`` rows may be suppressed."""
        groups = self.group(levels, labelled=self.guard is not None)
        bad = np.empty(len(groups.total), np.uint8)
        n_small = n_bad = kernel.mark_small(groups.total, self.smallest, bad)
        good = n_bad == 0 or n_bad >= self.smallest
        if self.guard is not None:
            n_bad, outliers = self._mark_broken(groups, bad)
            good = len(outliers) == 0 or (n_bad >= self.smallest and bool(rows_hold(self.guard, outliers)))
        # A group that only violates a rule may have parts that satisfy it, unless the rule excludes that.
        n_sure, last_sure = (n_bad, 2) if self.shrinking else (n_small, 1)
        # If every row would be suppressed, less general vectors release no row either.
        hopeless = n_sure > budget or n_sure >= self.n_rows or (budget == 0 and self.closed and bool(bad.any()))
        admissible = good and n_bad <= budget and n_bad < self.n_rows
        loss, below, above = self._losses(levels, groups, bad, n_bad, n_sure, last_sure)
        return NodeCheck(loss if admissible else np.inf, np.inf if hopeless else below, above)

    def _mark_broken(self, groups: Groups, bad: np.ndarray) -> tuple[int, np.ndarray]:
        return kernel.mark_broken(  # type: ignore[no-any-return]
            self._everything, groups.labels, groups.total, self.tuple_starts, self.tuple_rows, self.guard, bad
        )

    def _losses(
        self, levels: np.ndarray, groups: Groups, bad: np.ndarray, n_bad: int, n_sure: int, last_sure: int
    ) -> tuple[float, float, float]:
        """Return the loss, the minimum that less general vectors add to their floor, and that of more general ones."""
        n, smallest = self.n_rows, max(self.smallest, 1)
        if self.loss == "discernibility":
            squares = groups.total.astype(float) ** 2
            loss = float(squares[bad == 0].sum()) + float(n) * n_bad
            return loss, float(n) * n_sure + float(n - n_sure) * smallest, float(squares.sum())
        if self.loss == "average-group-size":
            there = groups.total > 0
            n_released = int(np.count_nonzero(there & (bad == 0))) + (n_bad > 0)
            n_groups = int(np.count_nonzero(there))
            return n / max(n_released, 1), n / ((n - n_sure) // smallest + 1), n / max(n_groups, 1)
        floor = sum(floor[level] for floor, level in zip(self.floors, levels.tolist(), strict=True))
        added = self._suppression_cost(levels, groups, bad, 2) if n_bad else 0.0
        sure = added if n_sure == n_bad else self._suppression_cost(levels, groups, bad, last_sure)
        return float(floor + added), sure, 0.0

    def _suppression_cost(self, levels: np.ndarray, groups: Groups, bad: np.ndarray, last_mark: int) -> float:
        if self.loss == "entropy":
            # ARX's measure treats a suppressed row as if it were generalised like the others.
            return 0.0
        at, full = self._at + levels * self._n_codes, float(self._full)
        return float(
            kernel.suppression_cost(self.codes, groups.first, groups.total, bad, last_mark, self._cost, at, full)
        )

    def nodes_at(self, levels: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the nodes of rows of codes at a vector of levels."""
        return np.stack([ladder.nodes[levels[j], codes[:, j]] for j, ladder in enumerate(self.ladders)], axis=1)

    def spans_of(self, nodes: np.ndarray) -> Nodes:
        """Return nodes with the codes under each."""
        low = np.stack([ladder.first[nodes[:, j]] for j, ladder in enumerate(self.ladders)], axis=1)
        high = np.stack([ladder.last[nodes[:, j]] for j, ladder in enumerate(self.ladders)], axis=1)
        return Nodes(nodes, low.astype(np.int64), high.astype(np.int64))

    def shown(self, loss: float) -> float:
        """Return a loss as it is reported: the mean over the rows for losses from 0 to 1, or a sum."""
        return loss / self.n_rows if self.loss in ("loss", "ncp", "precision") else loss

    def field(self, price: float) -> Field:
        """Return the input of kernels that recode step by step, with costs in units of ``price``."""
        return Field(
            self.codes, self._parts, self._cost / price, self._at, self._n_codes, self._tops, self._word,
            self.tuple_starts, self.tuple_rows,
        )  # fmt: skip

    def space(self) -> LocalScratch:
        """Return scratch buffers for kernels."""
        n = len(self.codes)
        return LocalScratch(
            self._slots, self._keys, np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int64),
            np.empty(n, np.uint8),
        )  # fmt: skip

    def costs_at(self, attribute: int) -> np.ndarray:
        """Return the cost of each code of an attribute at each level (levels, codes)."""
        start, n_codes = self._at[attribute], self._n_codes[attribute]
        return self._cost[start : start + (self._tops[attribute] + 1) * n_codes].reshape(-1, n_codes)

    def _lay_out(self) -> None:
        """Concatenate nodes and costs of all attributes, and lay out the nodes in packed words."""
        n_codes = [ladder.nodes.shape[1] for ladder in self.ladders]
        self._n_codes, self._tops = np.array(n_codes, np.int64), self.tops
        ends = np.cumsum([ladder.nodes.size for ladder in self.ladders], dtype=np.int64)
        self._at = np.append(0, ends[:-1])
        bits = [max(1, int(len(ladder.first) - 1).bit_length()) for ladder in self.ladders]
        self._word, shift = _places(bits)
        self._parts = np.concatenate(
            [ladder.nodes.ravel().astype(np.uint64) << by for ladder, by in zip(self.ladders, shift, strict=True)]
        )
        self.packing = Packing(self._parts, self._at, self._n_codes, self._word)
        weights = np.array([column.attribute.weight for column in self.table.quasi], float)
        if self.loss != "entropy":
            weights = weights / weights.sum() if weights.sum() > 0 else weights
        costs, self.floors = [], []
        self._full = 0.0
        for j, (column, ladder) in enumerate(zip(self.table.quasi, self.ladders, strict=True)):
            rows = np.bincount(self.codes[:, j], weights=self.sizes, minlength=n_codes[j])
            cost = weights[j] * _cell_costs(column, ladder, self.loss, rows)
            costs.append(cost.ravel())
            # Losses of groups are not sums over cells, and have no such floor.
            self.floors.append(cost @ rows if self.loss in CELL_LOSSES else np.zeros(len(cost)))
            self._full += weights[j] * (column.n_values > 1 if self.loss != "precision" else len(cost) > 1)
        self._cost = np.concatenate(costs)

    def _forget(self) -> None:
        """Reset the groups of earlier checks."""
        n = len(self.codes)
        self._everything = np.arange(n, dtype=np.int32)
        self._slots = np.empty(max(64, 1 << (2 * n - 1).bit_length()), np.int32)
        self._keys = np.empty((n + 1, int(self._word[-1]) + 1), np.uint64)
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []
        self._kept_levels = np.empty((1024, len(self.ladders)), np.int64)
        self._kept_sizes = np.empty(1024, np.int64)

    def _keep(self, levels: np.ndarray, groups: Groups) -> None:
        """Store groups for more general vectors; the oldest are dropped first."""
        at = len(self._kept)
        too_many = at and self._kept_sizes[:at].sum() > _ENTRIES_KEPT * len(self.codes) + (1 << 20)
        if at == len(self._kept_sizes) or too_many:
            half = (at + 1) // 2
            self._kept = self._kept[half:]
            at = len(self._kept)
            self._kept_levels[:at] = self._kept_levels[half : half + at].copy()
            self._kept_sizes[:at] = self._kept_sizes[half : half + at].copy()
        self._kept.append((groups.first, groups.total))
        self._kept_levels[at], self._kept_sizes[at] = levels, len(groups.total)

    def _cheapest_below(self, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest stored groups that are no more general than the levels."""
        below = np.flatnonzero((self._kept_levels[: len(self._kept)] <= levels).all(axis=1))
        if len(below) == 0:
            return self._everything, self.sizes
        return self._kept[below[np.argmin(self._kept_sizes[below])]]


def _distinct_rows(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct row of each row, and one row of each, in an order that does not depend on the table's."""
    words = pack_rows(table).words
    labels, first = grouping.group_rows(words)
    order = np.lexsort(words[first].T[::-1])
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number[labels], first[order]


def _places(bits: list[int]) -> tuple[np.ndarray, list[np.uint64]]:
    """Return the word of each attribute, and its shift there."""
    word: list[int] = []
    shift: list[np.uint64] = []
    used = 0
    for width in bits:
        if used + width > 64:
            used = 0
            word.append(word[-1] + 1)
        else:
            word.append(word[-1] if word else 0)
        shift.append(np.uint64(used))
        used += width
    return np.array(word, np.int64), shift


def _monotone(guard: Guard) -> tuple[bool, bool]:
    """Return whether generalisation only reduces suppressed rows, and whether valid groups are valid when merged.

    A valid group merged with any other is valid for k and for the number of distinct values. Two valid groups are valid
    when merged for every model but delta-disclosure that ignores absent values.
    """
    model, other = guard.rules.model, guard.rules.other
    shrinking = len(guard.members) == 0 and bool(np.isin(model, (privacy.ROWS, privacy.DISTINCT)).all())
    return shrinking, not bool(((model == privacy.LOG_RATIO) & (other == 0)).any())


def _cell_costs(column: Column, ladder: Ladder, loss: str, rows: np.ndarray) -> np.ndarray:
    """Return the cost of each code at each level (levels, codes); ``rows`` is the frequency of each code."""
    n_levels = len(ladder.nodes)
    low, high = ladder.first[ladder.nodes], ladder.last[ladder.nodes]
    if loss == "precision":
        return np.repeat(np.arange(n_levels) / max(n_levels - 1, 1), ladder.nodes.shape[1]).reshape(n_levels, -1)
    if loss == "entropy":
        below = np.concatenate(([0.0], np.cumsum(rows)))
        covered = below[high + 1] - below[low]
        return np.where(rows > 0, np.log2(np.maximum(covered, 1) / np.maximum(rows, 1)), 0.0)
    if column.tree is None:
        width = column.width if column.width > 0 else 1.0
        share = (column.positions[high] - column.positions[low]) / width
        return np.where(low == high, 0.0, np.where(high == column.missing, 1.0, share))
    leaves = high - low + 1
    share = leaves / column.n_values if loss == "ncp" else (leaves - 1) / max(column.n_values - 1, 1)
    return np.where(leaves <= 1, 0.0, share)
