"""Counts per group, the one statistic behind every privacy model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal._kernels import groups
from shoal.data.table import Column


class Tally(NamedTuple):
    """Counts of the values of one sensitive column in each group, sparse."""

    indptr: np.ndarray
    """The entries of group g are indptr[g]..indptr[g + 1]."""
    values: np.ndarray
    """Codes, ascending within a group."""
    counts: np.ndarray
    reference: np.ndarray
    """Share of each value among all released rows."""


class Counts(NamedTuple):
    """The counts that privacy models read, from one pass over the rows."""

    sizes: np.ndarray
    """Released rows of each group."""
    population: np.ndarray
    """All rows of each group; more than ``sizes`` only when some rows are not released."""
    sensitive: dict[str, Tally]
    columns: dict[str, Column]


def count_groups(
    labels: np.ndarray,
    columns: Sequence[Column],
    members: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> Counts:
    """Count rows and sensitive values per group; suppressed rows are a group of their own, the last.

    Parameters
    ----------
    labels : int array (n,)
    columns : sequence of Column
        The sensitive columns.
    members : bool array (n,), optional
        Rows that are released; all by default.
    weights : int array (n,), optional
        Number of rows that each row stands for; 1 by default.
    """
    numbers, n_groups = close_labels(labels)
    if weights is not None:
        return _count_weighted(numbers, n_groups, columns, members, weights)
    order, starts = groups.order_by_label(numbers, n_groups)
    population = np.diff(starts)
    counted = np.empty(0, bool) if members is None else np.asarray(members, bool)
    sizes = population if members is None else np.bincount(numbers[counted], minlength=n_groups)
    released = max(int(sizes.sum()), 1)
    tallies = {}
    for column in columns:
        indptr, values, counts = groups.tally(column.codes, order, starts, counted, column.n_values)
        reference = column.shares
        if reference is None:
            reference = np.bincount(values, weights=counts, minlength=column.n_values) / released
        tallies[column.name] = Tally(indptr, values, counts, reference)
    return Counts(sizes, population, tallies, {column.name: column for column in columns})


def _count_weighted(
    labels: np.ndarray, n_groups: int, columns: Sequence[Column], members: np.ndarray | None, weights: np.ndarray
) -> Counts:
    population = np.bincount(labels, weights, n_groups).astype(np.int64)
    kept = slice(None) if members is None else np.flatnonzero(members)
    labels, weights = labels[kept], weights[kept]
    sizes = np.bincount(labels, weights, n_groups).astype(np.int64)
    tallies = {column.name: tally_rows(labels, column.codes[kept], weights, n_groups, column) for column in columns}
    return Counts(sizes, population, tallies, {column.name: column for column in columns})


def tally_rows(labels: np.ndarray, codes: np.ndarray, rows: np.ndarray, n_groups: int, column: Column) -> Tally:
    """Count the values of a column in each group, from entries that stand for many rows each."""
    keys, where = np.unique(labels.astype(np.int64) * column.n_values + codes, return_inverse=True)
    counts = np.bincount(where.reshape(-1), rows, len(keys)).astype(np.int64)
    indptr = np.searchsorted(keys, np.arange(n_groups + 1) * column.n_values)
    values, reference = keys % max(column.n_values, 1), column.shares
    if reference is None:
        reference = np.bincount(values, counts, column.n_values) / max(counts.sum(), 1)
    return Tally(indptr, values, counts, reference)


def close_labels(labels: np.ndarray) -> tuple[np.ndarray, int]:
    """Return labels from 0 on, with the suppressed rows as the last group, and the number of groups."""
    n_groups = int(labels.max(initial=-1)) + 1
    suppressed = labels < 0
    if suppressed.any():
        labels = np.where(suppressed, n_groups, labels)
        n_groups += 1
    return labels, n_groups
