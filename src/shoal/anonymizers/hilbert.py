"""Hilbert (Ghinita, Karras, Kalnis and Mamoulis 2007): sort rows along the curve, and cut them into the best runs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import clone

from shoal._kernels import geometry as packing
from shoal._kernels import groups
from shoal._kernels import hilbert as curve
from shoal._kernels import runs as kernel
from shoal._kernels.geometry import Geometry, Layout, Rows
from shoal._kernels.guard import Guard
from shoal._kernels.merging import merge_runs
from shoal.anonymizers._base import Anonymizer
from shoal.anonymizers._curve import Grid, Halving, keys_of, lay_grid, least_telling_first, sort_rows
from shoal.data.table import Table, encode
from shoal.errors import GuaranteeWarning, ShoalError
from shoal.parameters import JOBS, NAMES, Choice, Constraint, instance_of
from shoal.partition.cut_tree import Cuts, count_threads
from shoal.partition.geometry import measure_geometry, pack_rows

SPACINGS = ("frequency", "position", "rank")
PLACES = 32
"""Up to this k a run may end at any row; above it, in a long table, at one place per k / 32 rows."""
EXACT_STEPS = 1 << 24
"""Tables with at most this product of rows and k are cut at the best of all rows, whatever k is."""
COSTS_AT_ONCE, ROWS_AT_ONCE = 1 << 18, 1 << 15
"""Limits of the losses that a thread computes ahead: they fit into its cache."""


@dataclass(eq=False, repr=False)
class HilbertCurve(Anonymizer):
    """Partition by sorting the rows along the Hilbert curve and cutting them into the best runs.

    The curve passes through all cells of a grid, one attribute per dimension, and every step leads to an adjacent cell:
    rows that are close on the curve are similar in all attributes. The rows in this order are cut into runs of k to
    2k - 1 rows, by dynamic programming such that the total loss of the runs is minimal. If k is above 32 and rows times
    k above 16 million, only some places for cuts are compared: in every k / 32 rows the one where neighbours differ
    most.

    With further constraints, a run that violates one is merged with the neighbour with which the loss increases less.

    Parameters
    ----------
    schema : Schema, optional
        By default every column is a quasi-identifier: numbers and dates are numeric, all others nominal.
    k : int
        Minimum number of rows per group.
    spacing : {"frequency", "position", "rank"}
        The coordinates of values. Numbers are placed by their position in the range, and nominal values, in the order
        of their hierarchy, by their frequency; or nominal values are spaced evenly; or all values of all attributes.
        On Adult (8 attributes with hierarchies, k = 100) the first has an NCP of 0.25, the others of 0.31.
    dimensions : sequence of str or str, optional
        The quasi-identifiers in the order of the dimensions, or their names separated by commas: the curve changes
        sides in the first one least often. By default they are sorted by entropy, the lowest first.
    constraints : sequence of privacy models
        Constraints besides k; every group satisfies them.
    recoding : {"interval", "set", "representative", "mean", "sample"}
        Released values of a group: ranges and common ancestors; ranges and sets of values; the row nearest to the
        group's centre; means; a row drawn at random.
    suppression : float
        Maximum share of rows to suppress, where the others are then released more exactly.
    missing : {"value", "error"}
        Treat missing values as a separate value, or refuse them.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
        Random source of ``recoding="sample"``.

    Attributes
    ----------
    labels_ : int array (n_rows,)
        Group of each fitted row, numbered along the curve; -1 if it is suppressed.
    groups_ : dataframe
        The released quasi-identifiers, one row per group.
    schema_ : Schema
        The schema in use.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import HilbertCurve
    >>> people = pl.DataFrame({"age": [25, 52, 27, 45, 31, 47], "children": [0, 3, 1, 2, 0, 2]})
    >>> HilbertCurve(k=3).fit_transform(people)["age"].to_list()
    ['[25, 31]', '[45, 52]', '[25, 31]', '[45, 52]', '[25, 31]', '[45, 52]']
    """

    _: KW_ONLY
    spacing: str = "frequency"
    dimensions: Sequence[str] | str | None = None
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "spacing": Choice(SPACINGS),
        "dimensions": NAMES | instance_of(str, text="names separated by commas") | None,
        "n_jobs": JOBS,
    }
    _holds_rows = ("_grid", "_first", "_last")

    def _partition(self, table: Table, guard: Guard, smallest: int, y: Any) -> np.ndarray:
        n_threads = count_threads(self.n_jobs, table.n_rows)
        rows = pack_rows(table)
        geometry = measure_geometry(table, sets=self.recoding == "set")
        is_part = self._summary is not None and table.n_rows < self._summary.n_rows
        self._grid = self._lay_grid(table, rows.layout, geometry, is_part=is_part)
        keys = keys_of(rows.words, self._grid, n_threads)
        order = sort_rows(keys, rows.order, n_threads)
        rows = Rows(rows.words[order], order, rows.layout)
        starts = cut_runs(rows, geometry, smallest, n_threads)
        if len(guard.rules.model):
            starts = merge_runs(rows, geometry, starts, guard)
        self._first, self._last = keys[order[starts]], keys[order[np.append(starts[1:], table.n_rows) - 1]]
        labels = np.empty(table.n_rows, np.int32)
        groups.label_rows(order, starts, labels)
        return labels

    def _lay_grid(self, table: Table, layout: Layout, geometry: Geometry, *, is_part: bool) -> Grid:
        names, asked = [column.name for column in table.quasi], self.dimensions
        listed = asked.split(",") if isinstance(asked, str) else asked
        if listed is not None and Counter(listed) != Counter(names):
            raise ShoalError(f"dimensions must name each of {', '.join(names)} once, got {asked!r}.")
        return lay_grid(table, layout, geometry, self.spacing, listed, is_part=is_part)

    def transform(self, X: Any) -> Any:
        """Recode rows with the values of the fitted groups; see :meth:`Anonymizer.transform`."""
        released = super().transform(X)
        if (self._first[1:] == self._last[:-1]).all(axis=1).any():
            warnings.warn(
                "Some equal rows were separated to keep groups small, and transform puts all of them into one group: "
                "k holds on the result of fit_transform, not on this one.",
                GuaranteeWarning,
                stacklevel=2,
            )
        return released

    def _place(self, codes: np.ndarray) -> np.ndarray:
        layout = self._grid.layout
        words = np.zeros((len(codes), layout.word[-1] + 1), np.uint64)
        for j, n_values in enumerate(self._grid.n_values):
            # A category that was not fitted has a code after all others: it gets the coordinate of the last one.
            packing.pack(np.minimum(codes[:, j], n_values - 1), j, layout, words)
        labels = np.empty(len(codes), np.int32)
        curve.nearest_runs(keys_of(words, self._grid, 1), self._first, self._last, labels)
        return labels

    def _cuts_in_use(self) -> Cuts:
        return balanced_tree(len(self._first))

    def for_parts(self, sample: nw.DataFrame[Any], y: Any) -> Self:
        """Return a copy with a fixed order of the dimensions, so that one curve passes through all parts."""
        if self.dimensions is not None:
            return self
        assert self.schema is not None
        table = encode(sample, self.schema)
        return clone(self).set_params(dimensions=least_telling_first(table.quasi))  # type: ignore[no-any-return]

    def cuts_between_parts(self, table: Table) -> Halving:
        """Return a function that splits rows where the curve does."""
        geometry = measure_geometry(table, sets=self.recoding == "set")
        return Halving(table, self._lay_grid(table, pack_rows(table).layout, geometry, is_part=True))


def cut_runs(rows: Rows, geometry: Geometry, smallest: int, n_threads: int) -> np.ndarray:
    """Return the starts of the runs of ``smallest`` to 2 ``smallest`` - 1 rows with the least total loss.

    From the last place for a cut to the first, the best way to cut all rows after it is found. The losses of the runs
    that begin at a place do not depend on it, so several threads compute them for some thousand places ahead.
    """
    places, most = possible_cuts(rows, geometry, smallest)
    final = len(places) - 1
    loss, parted, following = np.zeros(final + 1), np.zeros(final + 1, np.int64), np.zeros(final + 1, np.int64)
    rows_apart = max(int(places[-1]) // final, 1)
    at_once = max(1, min(COSTS_AT_ONCE // most, ROWS_AT_ONCE // rows_apart))

    def costs_of(last: int) -> np.ndarray:
        first = max(last - at_once, 0)
        costs = np.empty((last - first, most))
        kernel.run_costs(rows, geometry, smallest, places, first, last, costs)
        return costs

    ends = range(final, 0, -at_once)
    with ThreadPoolExecutor(n_threads) as pool:
        for i in range(0, len(ends), 2 * n_threads):
            ahead = ends[i : i + 2 * n_threads]
            for last, costs in zip(ahead, pool.map(costs_of, ahead), strict=True):
                first = max(last - at_once, 0)
                kernel.choose_runs(rows.words, smallest, places, first, last, costs, loss, parted, following)
    return kernel.follow(places, following)


def possible_cuts(rows: Rows, geometry: Geometry, smallest: int) -> tuple[np.ndarray, int]:
    """Return the rows before which a cut may lie, from 0 to the number of rows, and the maximum of ends per run."""
    n = len(rows.words)
    if smallest <= PLACES or n * smallest <= EXACT_STEPS:
        return np.arange(n + 1), smallest
    cell = -(-smallest // PLACES)
    steps = np.full(-(-n // cell) * cell, -1.0)
    kernel.steps(rows, geometry, steps[:n])
    widest = steps.reshape(-1, cell).argmax(axis=1) + np.arange(0, n, cell)
    # Runs of exactly k rows, the last one longer, are always possible, whatever the other places are.
    places = np.union1d(widest, np.append(np.arange(n // smallest) * smallest, n))
    ends = np.searchsorted(places, places + 2 * smallest) - np.searchsorted(places, places + smallest)
    return places, int(ends.max())


def balanced_tree(n_leaves: int) -> Cuts:
    """Return a tree that halves adjacent runs repeatedly, level by level, the root first."""
    attribute, left, right = [], [], []
    start, stop, n_nodes = np.zeros(1, np.int64), np.full(1, n_leaves), 1
    while len(start):
        parted = stop - start > 1
        child = n_nodes + 2 * (np.cumsum(parted) - 1)
        attribute.append(np.where(parted, 0, -1))
        left.append(np.where(parted, child, 0))
        right.append(np.where(parted, child + 1, start))
        n_nodes += 2 * int(np.count_nonzero(parted))
        start, stop = start[parted], stop[parted]
        middle = (start + stop) // 2
        start, stop = np.column_stack((start, middle)).ravel(), np.column_stack((middle, stop)).ravel()
    return Cuts(
        np.concatenate(attribute).astype(np.int16),
        np.concatenate(left).astype(np.int32),
        np.concatenate(right).astype(np.int32),
        (),
    )
