"""Assign rows that SaNGreeA could not put into a new cluster to the existing clusters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.guard import guard_holds
from shoal._kernels.sangreea_links import scores_of_clusters
from shoal._kernels.sangreea_space import HIGH, LOW, NODE, Cluster, absorb, cost_with, open_cluster

MOST_TRIES = 32
"""Clusters that are tried for a row when constraints reject the cheapest one."""


class Clusters(NamedTuple):
    """All clusters: their extents, costs, and rows as linked lists."""

    reach: np.ndarray
    loss: np.ndarray
    """(clusters, q, 3) and (clusters, q), as in :class:`Cluster`."""
    size: np.ndarray
    """int64: 0 for a cluster that was merged into another."""
    head: np.ndarray
    following: np.ndarray
    """The last row of each cluster, and for each row the one added before it; -1 at the end."""


@jit
def disperse(space, codes, labels, n_clusters, rest, guard, links):
    """Assign the rows of ``rest``, one by one, to the cluster whose loss grows least; write their labels.

    A cluster in which a rule of the guard would no longer hold is skipped; rows that no cluster accepts are merged with
    as many clusters as necessary. ``links`` is None if there is no network. Every cluster is examined for every row:
    without a guard fewer rows are left than a cluster needs, and with one, ``sangreea_joining`` is faster.
    """
    clusters = gather(space, codes, labels, n_clusters)
    rows = np.empty(codes.shape[0], np.int64)
    growth = np.empty(n_clusters)
    stuck = np.empty(rest.shape[0], np.int64)
    n_stuck = 0
    for row in rest:
        for c in range(n_clusters):
            growth[c] = growth_of(space, clusters, codes, c, row)
        if links is not None:
            scores_of_clusters(links, labels, clusters.size, row, growth)
        chosen = _cheapest_that_holds(clusters, growth, row, guard, rows)
        if chosen < 0:
            stuck[n_stuck] = row
            n_stuck += 1
        else:
            labels[row] = chosen
            add_row(space, clusters, codes, chosen, row)
    if guard is not None:
        unite(space, codes, labels, clusters, stuck[:n_stuck], guard, rows)


@jit
def merge(space, codes, labels, n_clusters, stuck, guard):
    """Merge rows that no cluster accepts with as many clusters as necessary into one group; write the labels."""
    clusters = gather(space, codes, labels, n_clusters)
    unite(space, codes, labels, clusters, stuck, guard, np.empty(codes.shape[0], np.int64))


@inner
def gather(space, codes, labels, n_clusters):
    q = codes.shape[1]
    reach, loss = np.full((n_clusters, q, 3), -1, np.int64), np.zeros((n_clusters, q))
    size, head = np.zeros(n_clusters, np.int64), np.full(n_clusters, -1, np.int64)
    clusters = Clusters(reach, loss, size, head, np.full(codes.shape[0], -1, np.int64))
    for row in range(codes.shape[0]):
        if labels[row] >= 0:
            add_row(space, clusters, codes, labels[row], row)
    return clusters


@inner
def add_row(space, clusters, codes, c, row):
    absorb(space, Cluster(clusters.reach[c], clusters.loss[c]), codes, row)
    clusters.size[c] += 1
    clusters.following[row] = clusters.head[c]
    clusters.head[c] = row


@inner
def growth_of(space, clusters, codes, c, row):
    """Return the growth of a cluster's loss, the sum over its rows, when one row is added."""
    after = cost_with(space, Cluster(clusters.reach[c], clusters.loss[c]), codes, row)
    return (clusters.size[c] + 1) * after - clusters.size[c] * total_of(clusters.loss[c])


@inner
def total_of(losses):
    total = 0.0
    for loss in losses:
        total += loss
    return total


@inner
def _cheapest_that_holds(clusters, growth, row, guard, rows):
    """Return the cluster that grows least (the first one if tied) among those in which the guard's rules still hold."""
    if guard is None:
        return np.argmin(growth)
    for _ in range(MOST_TRIES):
        c = np.argmin(growth)
        if growth[c] == np.inf:
            break
        size = rows_of(clusters, c, rows, 0)
        rows[size] = row
        if guard_holds(guard, rows, 0, size + 1):
            return c
        growth[c] = np.inf
    return np.int64(-1)


@inner
def rows_of(clusters, c, rows, n):
    """Write the rows of a cluster behind the first n; return how many there are then."""
    row = clusters.head[c]
    while row >= 0:
        rows[n] = row
        n += 1
        row = clusters.following[row]
    return n


@inner
def unite(space, codes, labels, clusters, stuck, guard, rows):
    """Merge rows with the clusters whose loss grows least into one group, as many as it takes for the rules to hold."""
    if stuck.shape[0] == 0:
        return
    group = open_cluster(codes.shape[1])
    n = 0
    for row in stuck:
        absorb(space, group, codes, row)
        rows[n] = row
        n += 1
    label = np.int64(-1)
    for _ in range(clusters.size.shape[0]):
        c = _cheapest_union(space, clusters, group, n)
        _stretch_over(space, group, clusters.reach[c])
        n = rows_of(clusters, c, rows, n)
        clusters.size[c] = 0
        label = c if label < 0 else label
        if guard_holds(guard, rows, 0, n):
            break
    for i in range(n):
        labels[rows[i]] = label


@inner
def _cheapest_union(space, clusters, group, n):
    least, chosen = np.inf, np.int64(-1)
    both = Cluster(np.empty_like(group.reach), np.empty_like(group.loss))
    for c in range(clusters.size.shape[0]):
        if clusters.size[c] == 0:
            continue
        for j in range(group.loss.shape[0]):
            both.reach[j, LOW], both.reach[j, HIGH] = group.reach[j, LOW], group.reach[j, HIGH]
            both.reach[j, NODE], both.loss[j] = group.reach[j, NODE], group.loss[j]
        _stretch_over(space, both, clusters.reach[c])
        growth = (n + clusters.size[c]) * total_of(both.loss) - clusters.size[c] * total_of(clusters.loss[c])
        if growth < least:
            least, chosen = growth, np.int64(c)
    return chosen


@inner
def _stretch_over(space, group, reach):
    """Extend a group over a cluster: over its lowest and its highest codes."""
    ends = np.empty((2, reach.shape[0]), np.int32)
    for j in range(reach.shape[0]):
        ends[0, j], ends[1, j] = reach[j, LOW], reach[j, HIGH]
    absorb(space, group, ends, 0)
    absorb(space, group, ends, 1)
