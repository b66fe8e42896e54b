"""Content and extent of the groups of a partition, and layout of columns for kernels.

A partition is an integer array ``labels``, one number per row; -1 means suppressed. Rows with the same number are a
*group*, also called an equivalence class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal._kernels import geometry as kernel
from shoal._kernels import groups
from shoal._kernels.geometry import LINE, SET, TREE, Geometry, Layout, Rows
from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.table import Column, Table
from shoal.privacy.counts import Tally, close_labels


class Bounds(NamedTuple):
    """The lowest and highest code of every quasi-identifier in every group."""

    low: np.ndarray
    high: np.ndarray


class Nodes(NamedTuple):
    """The node that represents every quasi-identifier in every group, and the lowest and highest code under it."""

    node: np.ndarray
    """int32 (groups, q): a node of the attribute's hierarchy; any number if it has none."""
    low: np.ndarray
    high: np.ndarray
    """int64 (groups, q)."""


def bounds(table: Table, labels: np.ndarray) -> Bounds:
    """Return the lowest and highest code of each quasi-identifier in each group (without suppressed rows)."""
    n_groups = int(labels.max(initial=-1)) + 1
    low = np.empty((n_groups, len(table.quasi)), np.int64)
    high = np.empty_like(low)
    for j, column in enumerate(table.quasi):
        kernel.ranges(column.codes, labels, low[:, j], high[:, j], column.n_values)
    return Bounds(low, high)


def group_members(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows sorted by group, and the start of each group; suppressed rows are the last group."""
    numbers, n_groups = close_labels(labels)
    return groups.order_by_label(numbers, n_groups)


def distinct_values(column: Column, labels: np.ndarray) -> Tally:
    """Count the values of a column in each group (suppressed rows are the last one)."""
    order, starts = group_members(labels)
    indptr, values, counts = groups.tally(column.codes, order, starts, np.empty(0, bool), column.n_values)
    return Tally(indptr, values, counts, np.bincount(column.codes, minlength=column.n_values) / len(column.codes))


def forms(table: Table, *, sets: bool = False) -> np.ndarray:
    """Return how each quasi-identifier generalises: LINE, TREE or SET.

    A nominal attribute without a hierarchy of its own generalises to sets; with ``sets`` all nominal ones do.
    """
    found = []
    for column in table.quasi:
        if column.tree is None:
            found.append(LINE)
        else:
            found.append(SET if sets or column.attribute.hierarchy is None else TREE)
    return np.array(found, np.int64)


def measure_geometry(table: Table, *, sets: bool = False) -> Geometry:
    """Return the meaning of the codes of the quasi-identifiers, as arrays for kernels."""
    columns = table.quasi
    tables = [c.tree.table if c.tree is not None else np.empty((0, 1), np.int32) for c in columns]
    last = [c.tree.last if c.tree is not None else np.empty(0, np.int32) for c in columns]
    losses = [node_losses(c.tree) if c.tree is not None else np.empty(0) for c in columns]
    return Geometry(
        form=forms(table, sets=sets),
        weight=np.array([column.attribute.weight for column in columns], float),
        n_values=np.array([column.n_values for column in columns], np.int64),
        missing=np.array([c.missing if c.tree is None else -1 for c in columns], np.int64),
        scale=np.array([1.0 / c.width if c.tree is None and c.width > 0 else 0.0 for c in columns]),
        position=np.concatenate([column.positions for column in columns]),
        position_at=_starts([column.n_values for column in columns]),
        table=np.concatenate([t.ravel() for t in tables]),
        table_at=_starts([t.size for t in tables]),
        n_levels=np.array([t.shape[1] for t in tables], np.int64),
        last=np.concatenate(last),
        node_loss=np.concatenate(losses),
        node_at=_starts([len(nodes) for nodes in last]),
    )


def node_losses(tree: Hierarchy) -> np.ndarray:
    """Return the loss of each node: the number of further leaves under it, relative to that of all other leaves."""
    return (tree.last - tree.first) / max(tree.n_leaves - 1, 1)


def pack_rows(table: Table) -> Rows:
    """Pack the codes of all quasi-identifiers, as many as fit into each 64-bit word, with the rows in table order."""
    word: list[int] = []
    shift: list[int] = []
    mask: list[int] = []
    used = 64
    for column in table.quasi:
        bits = max(1, int(column.n_values - 1).bit_length())
        if used + bits > 64:
            used = 0
            word.append((word[-1] + 1) if word else 0)
        else:
            word.append(word[-1])
        shift.append(used)
        mask.append((1 << bits) - 1)
        used += bits
    layout = Layout(np.array(word, np.int64), np.array(shift, np.uint64), np.array(mask, np.uint64))
    words = np.zeros((table.n_rows, word[-1] + 1), np.uint64)
    for j, column in enumerate(table.quasi):
        kernel.pack(column.codes, j, layout, words)
    order = np.arange(table.n_rows, dtype=np.int32 if table.n_rows < 1 << 31 else np.int64)
    return Rows(words, order, layout)


def _starts(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
