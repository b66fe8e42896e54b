"""Hilbert (Ghinita, Karras, Kalnis and Mamoulis 2007): sort the rows along the curve, cut them into the best runs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from shoal.data.schema import Schema
from shoal.data.table import Missing, Table, encode
from shoal.errors import GuaranteeWarning, ShoalError
from shoal.parameters import JOBS, NAMES, Choice, Constraint, instance_of
from shoal.partition.cut_tree import Cuts, count_threads
from shoal.partition.geometry import measure_geometry, pack_rows
from shoal.privacy.models import PrivacyModel

SPACINGS = ("frequency", "position", "rank")
PLACES = 32
"""Up to this k a run may end at any row; above it, in a long table, at one place in k / 32 rows."""
EXACT_STEPS = 1 << 24
"""A table in which rows times k are no more than this is cut at the best of all rows, whatever k is."""
COSTS_AT_ONCE, ROWS_AT_ONCE = 1 << 18, 1 << 15
"""How far ahead a thread works out what runs lose: what fits into its cache."""


class HilbertCurve(Anonymizer):
    """Partition by sorting the rows along the Hilbert curve and cutting them into the best runs.

    The curve passes through all cells of a grid, one attribute a dimension, and every step leads to a cell beside the
    last: rows that are near each other on the curve are alike in all attributes. The rows in this order are cut into
    runs of k to 2k - 1 rows, by dynamic programming so that the summed loss of all runs is the least there is. Where k
    is above 32 and rows times k above 16 million, only some places for cuts are compared: in every k / 32 rows the one
    where neighbours differ most.

    With other constraints, a run that breaks one is then merged with the neighbour with which the loss grows less.

    Parameters
    ----------
    schema : Schema, optional
        Without one every column is a quasi-identifier: numbers and dates numeric, the rest nominal.
    k : int
        Rows that every group has at least.
    spacing : {"frequency", "position", "rank"}
        Where values lie in the grid. Numbers lie where they are in their range, and nominal values, in the order of
        their hierarchy, have room for the rows that have them; or they lie evenly; or all values of all attributes do.
        On Adult (8 attributes with hierarchies, k = 100) the first loses 0.25 (NCP), the others 0.31.
    dimensions : sequence of str or str, optional
        The quasi-identifiers in the order of the dimensions, or their names with commas between: the curve changes
        sides in the first one least often. By default those come first whose values say least about a row, by entropy.
    constraints : sequence of privacy models
        Kept by every group, beside k.
    recoding : {"interval", "set", "representative", "mean", "sample"}
        What a group is released as: ranges and common ancestors; ranges and sets of values; the row nearest to the
        group's centre; means; a row drawn at random.
    suppression : float
        Share of the rows that may be suppressed, where that lets the others be released more exactly.
    missing : {"value", "error"}
        Missing values count as a value of their own, or are refused.
    n_jobs : int, optional
        Threads; by default one for each core. The result does not depend on it.
    random_state : int, RandomState or None
        For ``recoding="sample"``.

    Attributes
    ----------
    labels_ : int array (n_rows,)
        Group of each fitted row, numbered along the curve; -1 for suppressed ones.
    groups_ : dataframe
        The released quasi-identifiers, one row a group.
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

    def __init__(
        self,
        schema: Schema | None = None,
        k: int = 5,
        *,
        spacing: str = "frequency",
        dimensions: Sequence[str] | str | None = None,
        constraints: Sequence[PrivacyModel] = (),
        recoding: str = "interval",
        suppression: float = 0.0,
        missing: Missing = "value",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            schema,
            k,
            constraints=constraints,
            recoding=recoding,
            suppression=suppression,
            missing=missing,
            random_state=random_state,
        )
        self.spacing = spacing
        self.dimensions = dimensions
        self.n_jobs = n_jobs

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
        """Put rows into the vocabulary of the fitted groups; see :meth:`Anonymizer.transform`."""
        released = super().transform(X)
        if (self._first[1:] == self._last[:-1]).all(axis=1).any():
            warnings.warn(
                "Some equal rows were parted to keep groups small, and transform puts all of them into one group: "
                "k holds on what fit_transform returned, not on this.",
                GuaranteeWarning,
                stacklevel=2,
            )
        return released

    def _place(self, codes: np.ndarray) -> np.ndarray:
        layout = self._grid.layout
        words = np.zeros((len(codes), layout.word[-1] + 1), np.uint64)
        for j, n_values in enumerate(self._grid.n_values):
            # A category that was not there when the grid was laid has a code behind all others: it lies at the last.
            packing.pack(np.minimum(codes[:, j], n_values - 1), j, layout, words)
        labels = np.empty(len(codes), np.int32)
        curve.nearest_runs(keys_of(words, self._grid, 1), self._first, self._last, labels)
        return labels

    def _cuts_in_use(self) -> Cuts:
        return balanced_tree(len(self._first))

    def for_parts(self, sample: nw.DataFrame[Any], y: Any) -> Self:
        """A copy with the order of the dimensions settled, so that one curve passes through all parts."""
        if self.dimensions is not None:
            return self
        assert self.schema is not None
        table = encode(sample, self.schema)
        return clone(self).set_params(dimensions=least_telling_first(table.quasi))  # type: ignore[no-any-return]

    def cuts_between_parts(self, table: Table) -> Halving:
        geometry = measure_geometry(table, sets=self.recoding == "set")
        return Halving(table, self._lay_grid(table, pack_rows(table).layout, geometry, is_part=True))


def cut_runs(rows: Rows, geometry: Geometry, smallest: int, n_threads: int) -> np.ndarray:
    """Where the runs of ``smallest`` to 2 ``smallest`` - 1 rows start that lose least.

    From the last place for a cut to the first, the best way to cut all that follows is found. What the runs lose that
    begin at a place does not depend on that, so it is worked out by several threads for some thousand places ahead.
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
    """The rows before which a cut may lie, from 0 to the number of rows, and how many of them a run may end at."""
    n = len(rows.words)
    if smallest <= PLACES or n * smallest <= EXACT_STEPS:
        return np.arange(n + 1), smallest
    cell = -(-smallest // PLACES)
    steps = np.full(-(-n // cell) * cell, -1.0)
    kernel.steps(rows, geometry, steps[:n])
    widest = steps.reshape(-1, cell).argmax(axis=1) + np.arange(0, n, cell)
    # With runs of exactly k rows, the last one longer, there is a way to cut whatever the other places are.
    places = np.union1d(widest, np.append(np.arange(n // smallest) * smallest, n))
    ends = np.searchsorted(places, places + 2 * smallest) - np.searchsorted(places, places + smallest)
    return places, int(ends.max())


def balanced_tree(n_leaves: int) -> Cuts:
    """A tree over runs that lie side by side, which halves them again and again; level by level, the root first."""
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
