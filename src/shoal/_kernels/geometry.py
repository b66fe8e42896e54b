"""Rows packed into machine words, and widths of ranges of codes.

Several codes share a 64-bit word, so that a row of eight attributes moves in one load and one store.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit

LINE, TREE, SET = 0, 1, 2
"""Generalisation of an attribute: to a range of positions, to a node of a tree, to a set of values."""
LARGEST_SET = 100
"""A larger set is released as the top: it is unreadable, and fills disks when it is written into every row."""


class Layout(NamedTuple):
    """Position of the code of each attribute in a packed row."""

    word: np.ndarray
    shift: np.ndarray
    mask: np.ndarray


class Geometry(NamedTuple):
    """Meaning of codes, concatenated over all attributes."""

    form: np.ndarray
    """int64 (q,): LINE, TREE or SET."""
    weight: np.ndarray
    """float64 (q,): weight of an attribute's width."""
    n_values: np.ndarray
    """int64 (q,)."""
    missing: np.ndarray
    """int64 (q,): code of the missing value of a LINE attribute, or -1."""
    scale: np.ndarray
    """float64 (q,): 1 / distance between the lowest and the highest position (0 for a constant)."""
    position: np.ndarray
    position_at: np.ndarray
    """Positions of attribute j start at position[position_at[j]]."""
    table: np.ndarray
    table_at: np.ndarray
    n_levels: np.ndarray
    """Node of value v at level l of attribute j: table[table_at[j] + v * n_levels[j] + l]."""
    last: np.ndarray
    node_loss: np.ndarray
    node_at: np.ndarray
    """Last leaf under a node of attribute j, and the loss of the node: last[node_at[j] + node]."""


class Rows(NamedTuple):
    """Packed rows in the order of a partitioner."""

    words: np.ndarray
    """uint64 (n, w)."""
    order: np.ndarray
    """int32 or int64 (n,): the row of the table at each place."""
    layout: Layout


@jit
def pack(codes, j, layout, words):
    """Write the codes of attribute j into the words."""
    word, shift = layout.word[j], layout.shift[j]
    for i in range(codes.shape[0]):
        words[i, word] |= np.uint64(codes[i]) << shift


@inner
def code_of(rows, i, j):
    """Return the code of attribute j at place i."""
    layout = rows.layout
    return np.int64((rows.words[i, layout.word[j]] >> layout.shift[j]) & layout.mask[j])


@inner
def ancestor_level(geometry, j, low, high):
    """Return the lowest level at which two leaves of a tree have the same node."""
    at = geometry.table_at[j] + low * geometry.n_levels[j]
    level = 0
    while geometry.last[geometry.node_at[j] + geometry.table[at + level]] < high:
        level += 1
    return level


@inner
def width(geometry, j, low, high, n_distinct):
    """Return the loss, from 0 to 1, of releasing codes low..high of attribute j as one.

    ``n_distinct`` is the number of distinct values in the group; only SET attributes use it.
    """
    if low == high:
        return 0.0
    if geometry.form[j] == LINE:
        if high == geometry.missing[j]:
            return 1.0
        at = geometry.position_at[j]
        return (geometry.position[at + high] - geometry.position[at + low]) * geometry.scale[j]
    if geometry.form[j] == SET:
        return n_distinct / geometry.n_values[j] if n_distinct <= LARGEST_SET else 1.0
    level = ancestor_level(geometry, j, low, high)
    node = geometry.table[geometry.table_at[j] + low * geometry.n_levels[j] + level]
    return geometry.node_loss[geometry.node_at[j] + node]


@jit
def ranges(codes, labels, low, high, n_values):
    """Write the lowest and highest code of each group; rows with a negative label do not count."""
    low[:] = n_values
    high[:] = -1
    for i in range(codes.shape[0]):
        g = labels[i]
        if g >= 0:
            low[g] = min(low[g], np.int64(codes[i]))
            high[g] = max(high[g], np.int64(codes[i]))
