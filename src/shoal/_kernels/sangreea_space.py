"""Costs of SaNGreeA's clusters, and their lower bounds with some row of a box.

The cost of an attribute depends only on the lowest and the highest code in a cluster. A box stores for each attribute
the content of its rows, so that no row in it can cost less than the box. Sums run over the attributes in a fixed order,
and rounding is monotone: the bound of a box never exceeds the cost of its rows, to the last bit.

The loops over attributes are inline. Passing tuples of arrays to a function for every cell took fifty times as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner

LOW, HIGH, NODE = 0, 1, 2
"""Columns of ``Cluster.reach``."""
MOST_BITS = 64
"""Maximum number of tree values that a box stores one by one; of more it stores the lowest and the highest."""


class Space(NamedTuple):
    """Meaning and costs of codes, concatenated over all attributes; costs include the weights."""

    line: np.ndarray
    """uint8 (q,): 1 where codes lie on a line, 0 where they are the leaves of a tree."""
    weight: np.ndarray
    """float64 (q,)."""
    n_values: np.ndarray
    """int64 (q,)."""
    missing: np.ndarray
    """int64 (q,): code of the missing value on a line, always the highest; -1 if there is none."""
    width: np.ndarray
    """float64 (q,): distance from the lowest to the highest position on a line."""
    position: np.ndarray
    position_at: np.ndarray
    """Positions of attribute j start at position[position_at[j]]."""
    first: np.ndarray
    last: np.ndarray
    parent: np.ndarray
    mask: np.ndarray
    loss: np.ndarray
    """For each node of a tree: the codes below it, its parent, the bits of its codes, weight times its cost."""
    node_at: np.ndarray
    """Nodes of attribute j start here; the first ones are its codes."""


class Cluster(NamedTuple):
    """Extent and cost of a cluster."""

    reach: np.ndarray
    """int64 (q, 3): the lowest and the highest code of each attribute, and the node over them; -1 without rows."""
    loss: np.ndarray
    """float64 (q,): the cost of each attribute."""


@inner
def open_cluster(q):
    """Return a cluster without rows."""
    return Cluster(np.full((q, 3), -1, np.int64), np.zeros(q))


@inner
def empty_cluster(cluster):
    """Remove all rows from a cluster."""
    for j in range(cluster.reach.shape[0]):
        cluster.reach[j, LOW] = cluster.reach[j, HIGH] = -1


@inner
def absorb(space, cluster, codes, i):
    """Extend a cluster by one row; return True if this changed it."""
    line, first, last, parent = space.line, space.first, space.last, space.parent
    reach, loss = cluster.reach, cluster.loss
    changed = False
    for j in range(codes.shape[1]):
        code = np.int64(codes[i, j])
        low, high = reach[j, LOW], reach[j, HIGH]
        if low <= code <= high:
            continue
        changed = True
        if low < 0:
            reach[j, LOW], reach[j, HIGH], reach[j, NODE] = code, code, space.node_at[j] + code
            loss[j] = 0.0
            continue
        low, high = min(low, code), max(high, code)
        reach[j, LOW], reach[j, HIGH] = low, high
        if line[j] == 0:
            node = reach[j, NODE]
            while code < first[node] or code > last[node]:
                node = parent[node]
            reach[j, NODE], loss[j] = node, space.loss[node]
        elif high == space.missing[j]:
            loss[j] = space.weight[j]
        else:
            at = space.position_at[j]
            loss[j] = space.weight[j] * ((space.position[at + high] - space.position[at + low]) / space.width[j])
    return changed


@inner
def cost_with(space, cluster, codes, i):
    """Return the cost of a cluster with a row added: the sum over attributes, in their order."""
    line, weight, missing, width = space.line, space.weight, space.missing, space.width
    position, position_at = space.position, space.position_at
    first, last, parent, node_loss = space.first, space.last, space.parent, space.loss
    reach, loss = cluster.reach, cluster.loss
    total = 0.0
    for j in range(codes.shape[1]):
        code = np.int64(codes[i, j])
        low, high = reach[j, LOW], reach[j, HIGH]
        if low <= code <= high:
            total += loss[j]
        elif line[j] == 0:
            node = reach[j, NODE]
            while code < first[node] or code > last[node]:
                node = parent[node]
            total += node_loss[node]
        else:
            low, high = min(low, code), max(high, code)
            if high == missing[j]:
                # A range that may be missing carries no information.
                total += weight[j]
            else:
                at = position_at[j]
                total += weight[j] * ((position[at + high] - position[at + low]) / width[j])
    return total


@inner
def bound_of(space, cluster, content, box):
    """Return a lower bound of the cost of a cluster with some row of the box added."""
    line, weight, missing, width = space.line, space.weight, space.missing, space.width
    position, position_at = space.position, space.position_at
    parent, mask, node_loss = space.parent, space.mask, space.loss
    first, last, n_values = space.first, space.last, space.n_values
    reach, loss = cluster.reach, cluster.loss
    total = 0.0
    for j in range(content.shape[1]):
        held = content[box, j]
        if line[j] == 0 and n_values[j] <= MOST_BITS:
            node = reach[j, NODE]
            while held & mask[node] == 0:
                node = parent[node]
            total += node_loss[node]
            continue
        low, high = np.int64(held & np.uint64(0xFFFFFFFF)), np.int64((held >> np.uint64(32)) & np.uint64(0x7FFFFFFF))
        if line[j] == 0:
            node = reach[j, NODE]
            while low > last[node] or high < first[node]:
                node = parent[node]
            total += node_loss[node]
            continue
        own_low, own_high = reach[j, LOW], reach[j, HIGH]
        at = position_at[j]
        if own_high == missing[j]:
            # A cluster of missing values alone costs nothing if the box has some, too.
            alike = own_low < own_high or held >> np.uint64(63) == 1
            total += loss[j] if alike else weight[j]
        elif low > high:
            total += weight[j]
        elif low > own_high:
            total += weight[j] * ((position[at + low] - position[at + own_low]) / width[j])
        elif high < own_low:
            total += weight[j] * ((position[at + own_high] - position[at + high]) / width[j])
        else:
            total += loss[j]
    return total
