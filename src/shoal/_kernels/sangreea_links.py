"""SaNGreeA in a network: a step weighs the cost of a row against the dissimilarity of its neighbourhood.

The distance of two rows is the share of all others that are linked with exactly one of them: with degrees d, it is
(d_i + d_j - 2 common neighbours - 2 if they are linked) / (n - 2). Only rows within two links of a cluster have
anything in common with it and are examined one by one; for all others only the degree matters, so that boxes bound
them by their lowest degree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.sangreea import REBUILD_BELOW, open_queue, pop, push
from shoal._kernels.sangreea_lacking import (
    BETWEEN_CHECKS,
    count_in,
    is_wanted,
    look_for_broken,
    may_hold_wanted,
    n_released,
    note_wanted,
)
from shoal._kernels.sangreea_space import absorb, bound_of, cost_with, empty_cluster, open_cluster
from shoal._kernels.sangreea_tree import NO_ROW, take


class Links(NamedTuple):
    """A network, and the weights of costs and distances."""

    at: np.ndarray
    to: np.ndarray
    """int64: the neighbours of row i are to[at[i] : at[i + 1]]."""
    alpha: float
    beta: float
    """Weights of the mean cost of an attribute, and of the distance."""
    n_attributes: int
    n_others: int
    """Number of rows besides a pair of them; 1 if there are none."""


class Nearby(NamedTuple):
    """Neighbours that rows have in common with a cluster."""

    shared: np.ndarray
    """int64 (n,): common neighbours with its members, and links to them."""
    rows: np.ndarray
    state: np.ndarray
    """int64 (3,): number of rows with something in common with it, the sum of its degrees, its size."""


@jit
def grow_in_network(space, codes, boxes, links, seeds, at, taken, smallest, guard, lacking, labels, n_clusters):
    """Assign rows to clusters; see ``sangreea.grow_all``.

    In a network the score of a candidate may decrease while a cluster grows, so each step searches anew.
    """
    n, n_left = codes.shape[0], boxes.rows.shape[0]
    enough = REBUILD_BELOW * n_left
    degrees = _lowest_degrees(links, boxes)
    queue, cluster = open_queue(boxes), open_cluster(codes.shape[1])
    nearby = Nearby(np.zeros(n, np.int64), np.empty(n, np.int64), np.zeros(3, np.int64))
    rows = np.empty(n_left, np.int64)
    while at < seeds.shape[0] and n_left >= enough:
        row = seeds[at]
        at += 1
        if taken[row] != 0:
            continue
        if n_left < smallest:
            return n_clusters, seeds.shape[0]
        empty_cluster(cluster)
        _forget(nearby)
        size, check, checked = 0, smallest, 0
        holds = False
        if guard is not None:
            lacking.state[0] = -1
        while True:
            if row >= 0:
                rows[size] = row
                size += 1
                take(boxes, taken, row)
                absorb(space, cluster, codes, row)
                _meet(links, nearby, row)
            elif size < smallest or size == checked:
                break
            if size >= check or row < 0:
                holds = True
                if guard is not None:
                    holds = look_for_broken(guard, lacking, boxes, rows, size)
                if holds:
                    break
                checked, check = size, size + max(size // BETWEEN_CHECKS, 1)
            elif checked > 0:
                if guard is not None:
                    count_in(guard, lacking, row)
                    note_wanted(guard, lacking, n_released(guard, rows, size))
            row = _next_row(space, codes, links, boxes, degrees, queue, cluster, nearby, taken, guard, lacking)
        if not holds:
            return n_clusters, seeds.shape[0]
        for i in range(size):
            labels[rows[i]] = n_clusters
        n_left -= size
        n_clusters += 1
    return n_clusters, at


@inner
def _lowest_degrees(links, boxes):
    """Return the lowest degree in each box."""
    found = np.full(boxes.start.shape[0], NO_ROW, np.int64)
    for box in range(found.shape[0] - 1, -1, -1):
        if boxes.right[box] >= 0:
            found[box] = min(found[box + 1], found[boxes.right[box]])
            continue
        for i in range(boxes.start[box], boxes.stop[box]):
            row = boxes.rows[i]
            found[box] = min(found[box], links.at[row + 1] - links.at[row])
    return found


@inner
def _forget(nearby):
    for i in range(nearby.state[0]):
        nearby.shared[nearby.rows[i]] = 0
    for i in range(3):
        nearby.state[i] = 0


@inner
def _meet(links, nearby, member):
    """Add the neighbours that all rows have in common with one more member of the cluster."""
    at, to = links.at, links.to
    nearby.state[1] += at[member + 1] - at[member]
    nearby.state[2] += 1
    for i in range(at[member], at[member + 1]):
        neighbour = to[i]
        _count(nearby, neighbour)
        for other in to[at[neighbour] : at[neighbour + 1]]:
            if other != member:
                _count(nearby, other)


@inner
def _count(nearby, row):
    if nearby.shared[row] == 0:
        nearby.rows[nearby.state[0]] = row
        nearby.state[0] += 1
    nearby.shared[row] += 1


@inner
def _score(links, cost, size, degrees, degree, shared):
    """Return the score that a step minimises; size and degrees are the cluster's, degree and shared the candidate's."""
    differing = size * degree + degrees - 2 * shared
    return links.alpha * (cost / links.n_attributes) + links.beta * (differing / (size * links.n_others))


@inner
def _next_row(space, codes, links, boxes, degrees, queue, cluster, nearby, taken, guard, lacking):
    """Return the row of the lowest score among those that are wanted, the lowest if tied; -1 if there is none."""
    total, size = nearby.state[1], nearby.state[2]
    best, chosen = np.inf, NO_ROW
    for i in range(nearby.state[0]):
        row = nearby.rows[i]
        if guard is not None:
            if not is_wanted(guard, lacking, row):
                continue
        if taken[row] == 0:
            degree = links.at[row + 1] - links.at[row]
            score = _score(links, cost_with(space, cluster, codes, row), size, total, degree, nearby.shared[row])
            if score < best or (score == best and row < chosen):
                best, chosen = score, row
    queue.state[0] = 0
    if boxes.lowest[0] < NO_ROW:
        push(queue, 0.0, boxes.lowest[0], 0)
    while queue.state[0] > 0 and (queue.bound[0] < best or (queue.bound[0] == best and queue.lowest[0] < chosen)):
        box = queue.entry[0]
        pop(queue)
        if guard is not None:
            if not may_hold_wanted(lacking, box):
                continue
        if boxes.right[box] >= 0:
            for half in (box + 1, boxes.right[box]):
                if boxes.lowest[half] < NO_ROW:
                    bound = bound_of(space, cluster, boxes.content, half)
                    push(queue, _score(links, bound, size, total, degrees[half], 0), boxes.lowest[half], half)
            continue
        for place in range(boxes.start[box], boxes.stop[box]):
            row = boxes.rows[place]
            if guard is not None:
                if not is_wanted(guard, lacking, row):
                    continue
            # Rows that share something were examined above.
            if taken[row] == 0 and nearby.shared[row] == 0:
                degree = links.at[row + 1] - links.at[row]
                score = _score(links, cost_with(space, cluster, boxes.codes, place), size, total, degree, 0)
                if score < best or (score == best and row < chosen):
                    best, chosen = score, row
    return chosen if chosen < NO_ROW else np.int64(-1)


@inner
def scores_of_clusters(links, labels, sizes, row, growth):
    """Turn the growth of each cluster's loss into a score that includes the distance of the row."""
    at, to = links.at, links.to
    shared, degrees = np.zeros(sizes.shape[0], np.int64), np.zeros(sizes.shape[0], np.int64)
    for other in range(labels.shape[0]):
        if labels[other] >= 0:
            degrees[labels[other]] += at[other + 1] - at[other]
    for i in range(at[row], at[row + 1]):
        neighbour = to[i]
        if labels[neighbour] >= 0:
            shared[labels[neighbour]] += 1
        for other in to[at[neighbour] : at[neighbour + 1]]:
            if other != row and labels[other] >= 0:
                shared[labels[other]] += 1
    for c in range(sizes.shape[0]):
        growth[c] = _score(links, growth[c], sizes[c], degrees[c], at[row + 1] - at[row], shared[c])
