"""Assign rows left over under constraints to the cheapest cluster that accepts them: best-first search over clusters.

If a cluster of s rows costs c now and at least d with a row, the row adds at least d + s (d - c). The cost of the row
with one row of the cluster is such a d, so boxes over one row of each cluster suffice. A box stores the highest cost
and the fewest rows of its clusters, and the profiles that all of them refuse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.privacy import meets, size_level
from shoal._kernels.sangreea import open_queue, pop, push
from shoal._kernels.sangreea_lacking import broken_rule
from shoal._kernels.sangreea_leftovers import MOST_TRIES, add_row, gather, growth_of, rows_of, total_of
from shoal._kernels.sangreea_space import absorb, bound_of, empty_cluster, open_cluster

LARGE = 64
"""Minimum rows of a cluster whose values are counted once, not again for every row that might join it."""
MOST_TALLIES = 64
"""Maximum number of clusters whose counts of values are kept."""
MOST_PROFILES = 64
"""Maximum number of combinations of sensitive values for which the refusals of clusters are recorded."""


class ClusterSummary(NamedTuple):
    """Bounds over the clusters in each box, and the refusals of each cluster."""

    dearest: np.ndarray
    """float64 (boxes,)."""
    fewest: np.ndarray
    """int64 (boxes,)."""
    refused: np.ndarray
    """uint64 (boxes,): bits of the profiles that no cluster accepts."""
    refuses: np.ndarray
    """uint64 (clusters,): the same for one cluster in its current state."""


class Tallies(NamedTuple):
    """Counts of each value of each sensitive column in large clusters."""

    of: np.ndarray
    """int64 (clusters,): the row of ``counted``; -1 if there is none."""
    counted: np.ndarray
    """int64 (tallies + 1, values of all columns + 2): the last two columns count the released rows and all rows, and
    the last row is a scratch buffer."""
    state: np.ndarray
    """int64 (1,): the number of rows in use."""


@jit
def join(space, codes, labels, rest, guard, boxes, first, profile):
    """Assign the rows of ``rest``, one by one, to the cluster whose loss grows least and that satisfies all rules.

    Return the rows that no cluster accepts.

    Parameters
    ----------
    labels : int64 array (n,)
        Output.
    boxes : Boxes
        Over one row of each cluster.
    first : int64 array (clusters,)
        That row.
    profile : int64 array (n,)
        A number for each combination of sensitive values; -1 throughout if there are more than 64. In that case only
        the cheapest 32 clusters are tried for a row, else all of them.
    """
    n_clusters = first.shape[0]
    clusters = gather(space, codes, labels, n_clusters)
    summary = _summarise(boxes, labels, clusters)
    n_values = 0
    for values in guard.rules.n_values:
        n_values += values
    count = np.zeros((MOST_TALLIES + 1, n_values + 2), np.int64)
    tallies = Tallies(np.full(n_clusters, -1, np.int64), count, np.zeros(1, np.int64))
    single, queue = open_cluster(codes.shape[1]), open_queue(boxes)
    rows = np.empty(codes.shape[0], np.int64)
    stuck = np.empty(rest.shape[0], np.int64)
    n_stuck = 0
    # Sums over many rows are rounded; a box must nevertheless come before its clusters.
    slack = 1e-15 * codes.shape[0] * max(space.weight.sum(), 1.0)
    for row in rest:
        empty_cluster(single)
        absorb(space, single, codes, row)
        bit = np.uint64(0) if profile[row] < 0 else np.uint64(1) << np.uint64(profile[row])
        most_tries = MOST_TRIES if profile[row] < 0 else n_clusters
        chosen, tries = np.int64(-1), 0
        queue.state[0] = 0
        push(queue, 0.0, np.int64(-1), 0)
        while queue.state[0] > 0 and chosen < 0 and tries < most_tries:
            entry = queue.entry[0]
            pop(queue)
            if entry < 0:
                c = -1 - entry
                tries += 1
                if _takes(clusters, tallies, guard, c, row, rows):
                    chosen = c
                else:
                    summary.refuses[c] |= bit
                    _bring_up_to_date(boxes, labels, clusters, summary, first[c])
            elif boxes.right[entry] < 0:
                for place in range(boxes.start[entry], boxes.stop[entry]):
                    c = labels[boxes.rows[place]]
                    if summary.refuses[c] & bit == 0:
                        push(queue, growth_of(space, clusters, codes, c, row), c, -1 - c)
            else:
                for half in (entry + 1, boxes.right[entry]):
                    if summary.refused[half] & bit == 0:
                        apart = bound_of(space, single, boxes.content, half)
                        more = max(apart - summary.dearest[half], 0.0)
                        push(queue, apart + summary.fewest[half] * more - slack, np.int64(-1), half)
        if chosen < 0:
            stuck[n_stuck] = row
            n_stuck += 1
            continue
        labels[row] = chosen
        add_row(space, clusters, codes, chosen, row)
        if tallies.of[chosen] >= 0:
            _tally(guard, tallies.counted[tallies.of[chosen]], row, 1)
        summary.refuses[chosen] = np.uint64(0)
        _bring_up_to_date(boxes, labels, clusters, summary, first[chosen])
    return stuck[:n_stuck].copy()


@inner
def _summarise(boxes, labels, clusters):
    n = boxes.start.shape[0]
    refuses = np.zeros(clusters.size.shape[0], np.uint64)
    summary = ClusterSummary(np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.uint64), refuses)
    for box in range(n - 1, -1, -1):
        _sum_up(boxes, labels, clusters, summary, box)
    return summary


@inner
def _sum_up(boxes, labels, clusters, summary, box):
    """Update the bounds of a box from its halves, or from its clusters."""
    right = boxes.right[box]
    if right >= 0:
        summary.dearest[box] = max(summary.dearest[box + 1], summary.dearest[right])
        summary.fewest[box] = min(summary.fewest[box + 1], summary.fewest[right])
        summary.refused[box] = summary.refused[box + 1] & summary.refused[right]
        return
    dearest, fewest, refused = 0.0, np.int64(clusters.following.shape[0]), ~np.uint64(0)
    for place in range(boxes.start[box], boxes.stop[box]):
        c = labels[boxes.rows[place]]
        dearest = max(dearest, total_of(clusters.loss[c]))
        fewest = min(fewest, clusters.size[c])
        refused &= summary.refuses[c]
    summary.dearest[box], summary.fewest[box], summary.refused[box] = dearest, fewest, refused


@inner
def _bring_up_to_date(boxes, labels, clusters, summary, row):
    """Update all boxes over the cluster of a row, which has changed."""
    box = boxes.leaf[boxes.place[row]]
    while box >= 0:
        _sum_up(boxes, labels, clusters, summary, box)
        box = boxes.parent[box]


@inner
def _takes(clusters, tallies, guard, c, row, rows):
    """Return True if the guard's rules hold in a cluster with a row added."""
    line = tallies.of[c]
    if line < 0:
        line = np.int64(MOST_TALLIES)
        if clusters.size[c] >= LARGE and tallies.state[0] < MOST_TALLIES:
            line = tallies.of[c] = tallies.state[0]
            tallies.state[0] += 1
        tallies.counted[line] = 0
        for i in range(rows_of(clusters, c, rows, 0)):
            _tally(guard, tallies.counted[line], rows[i], 1)
    count = tallies.counted[line]
    _tally(guard, count, row, 1)
    holds = _tally_holds(guard, count)
    _tally(guard, count, row, -1)
    return holds


@inner
def _tally(guard, count, row, times):
    """Add a row of a cluster to the counts, or subtract it."""
    count[-1] += times
    if guard.members.shape[0] > 0 and guard.members[row] == 0:
        return
    count[-2] += times
    at = 0
    for column in range(guard.sensitive.shape[1]):
        count[at + guard.sensitive[row, column]] += times
        at += guard.rules.n_values[column]


@inner
def _tally_holds(guard, count):
    """Evaluate ``guard_holds`` from counts."""
    rules, released = guard.rules, count[-2]
    for rule in range(rules.first_rule[0]):
        level = size_level(rules.model[rule], released, count[-1])
        if not meets(rules.model[rule], level, rules.bound[rule], rules.other[rule], True):
            return False
    if released == 0:
        return True
    at = 0
    for column in range(rules.n_values.shape[0]):
        rule, _, _ = broken_rule(guard, column, count[at : at + rules.n_values[column]], released)
        if rule >= 0:
            return False
        at += rules.n_values[column]
    return True
