"""SaNGreeA's greedy clusters: best-first search for the cheapest row, in boxes over the unassigned rows.

The cost of a candidate never decreases while a cluster grows, so an earlier cost is a lower bound of the current one.
The queue of a cluster is therefore kept until the cluster is complete, and an entry is updated only when it comes
first. The result is that of examining every row at every step; ties go to the lowest row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.sangreea_lacking import (
    BETWEEN_CHECKS,
    count_in,
    is_wanted,
    look_again,
    look_for_broken,
    may_hold_wanted,
    n_released,
    note_wanted,
)
from shoal._kernels.sangreea_space import absorb, bound_of, cost_with, empty_cluster, open_cluster
from shoal._kernels.sangreea_tree import NO_ROW, take

REBUILD_BELOW = 0.6
"""Boxes are rebuilt when less than this share of their rows is unassigned."""


class Queue(NamedTuple):
    """A heap of boxes and rows by (bound, lowest row)."""

    bound: np.ndarray
    lowest: np.ndarray
    entry: np.ndarray
    """A box, or -1 minus the place of a row."""
    age: np.ndarray
    """Number of changes of the cluster when the bound was computed."""
    state: np.ndarray
    """int64 (2,): the number of entries, and that of changes of the cluster."""


@jit
def grow_all(space, codes, boxes, seeds, at, taken, smallest, guard, lacking, labels, n_clusters):
    """Assign rows to clusters and write their numbers into ``labels``.

    Return the number of clusters, and the position in ``seeds`` at which to continue with new boxes, because many rows
    of these are assigned. At the end of the seeds all is done; rows without a cluster keep their label.

    Parameters
    ----------
    space : Space
    codes : int32 array (n, q)
    boxes : Boxes
        Over all rows that are not taken.
    seeds : int64 array
        Rows in the order in which they start clusters, if they are still unassigned by then.
    at : int
        Position in ``seeds`` at which to start.
    taken : uint8 array (n,)
        1 for rows that are not available; those of new clusters are added.
    smallest : int
        Minimum number of rows of a cluster.
    guard : Guard or None
        Further rules for a cluster.
    lacking : Lacking or None
        None if there is no guard.
    labels : int64 array (n,)
    n_clusters : int
        Number of existing clusters.
    """
    n_left = boxes.rows.shape[0]
    enough = REBUILD_BELOW * n_left
    queue, cluster = open_queue(boxes), open_cluster(codes.shape[1])
    rows = np.empty(n_left, np.int64)
    while at < seeds.shape[0] and n_left >= enough:
        seed = seeds[at]
        at += 1
        if taken[seed] != 0:
            continue
        if n_left < smallest:
            return n_clusters, seeds.shape[0]
        rows[0] = seed
        take(boxes, taken, seed)
        empty_cluster(cluster)
        absorb(space, cluster, codes, seed)
        size, holds = grow(space, boxes, queue, cluster, taken, rows, 1, smallest, guard, lacking)
        if not holds:
            return n_clusters, seeds.shape[0]
        for i in range(size):
            labels[rows[i]] = n_clusters
            if i > 0:
                take(boxes, taken, rows[i])
        n_left -= size
        n_clusters += 1
    return n_clusters, at


@jit
def grow_one(space, codes, boxes, taken, members, smallest, guard, lacking):
    """Grow a cluster from its first members; return its rows, and whether the guard's rules hold in it."""
    queue, cluster = open_queue(boxes), open_cluster(codes.shape[1])
    rows = np.empty(codes.shape[0], np.int64)
    before = np.empty(members.shape[0], np.uint8)
    for i in range(members.shape[0]):
        rows[i], before[i] = members[i], taken[members[i]]
        taken[members[i]] = 1
        absorb(space, cluster, codes, members[i])
    size, holds = grow(space, boxes, queue, cluster, taken, rows, members.shape[0], smallest, guard, lacking)
    for i in range(members.shape[0]):
        taken[members[i]] = before[i]
    return rows[:size].copy(), holds


@jit
def take_rows(boxes, taken, rows):
    """Mark rows as taken."""
    for row in rows:
        take(boxes, taken, row)


@jit
def cheapest(space, codes, boxes, taken, members, n_wanted):
    """Return the rows that are cheapest to add to a cluster, and its cost with each."""
    queue, cluster = open_queue(boxes), open_cluster(codes.shape[1])
    for row in members:
        absorb(space, cluster, codes, row)
    rows, costs = np.empty(n_wanted, np.int64), np.empty(n_wanted)
    _begin(space, boxes, queue, cluster)
    found = 0
    while found < n_wanted:
        place, costs[found] = next_row(space, boxes, queue, cluster, taken)
        if place < 0:
            break
        rows[found] = boxes.rows[place]
        found += 1
    return rows[:found].copy(), costs[:found].copy()


@jit
def nearest(space, boxes, taken, codes):
    """Find for each row of ``codes`` the row in the boxes that is cheapest to release together with it."""
    queue, cluster = open_queue(boxes), open_cluster(codes.shape[1])
    found = np.empty(codes.shape[0], np.int64)
    for i in range(codes.shape[0]):
        empty_cluster(cluster)
        absorb(space, cluster, codes, i)
        _begin(space, boxes, queue, cluster)
        place, _ = next_row(space, boxes, queue, cluster, taken)
        found[i] = boxes.rows[place]
    return found


@inner
def grow(space, boxes, queue, cluster, taken, rows, size, smallest, guard, lacking):
    """Add the cheapest rows to a cluster until it is large enough and the rules hold; return its size, and if they do.

    ``rows[:size]`` are in the cluster; the others are written behind them.
    """
    n_given = size
    _begin(space, boxes, queue, cluster)
    while size < smallest:
        place, _ = next_row(space, boxes, queue, cluster, taken)
        if place < 0:
            return size, False
        rows[size] = boxes.rows[place]
        size += 1
        if absorb(space, cluster, boxes.codes, place):
            queue.state[1] += 1
    if guard is not None:
        return _satisfy_rules(space, boxes, queue, cluster, taken, rows, n_given, size, guard, lacking)
    return size, True


@inner
def _satisfy_rules(space, boxes, queue, cluster, taken, rows, n_given, size, guard, lacking):
    """Add the cheapest rows that bring the first violated rule closer, until all of the guard's rules hold.

    The first ``n_given`` rows are marked as taken, and no others at the end.
    """
    for i in range(n_given, size):
        taken[rows[i]] = 1
    holds = False
    while True:
        holds = look_for_broken(guard, lacking, boxes, rows, size)
        if holds:
            break
        before, released = size, n_released(guard, rows, size)
        while size < before + max(before // BETWEEN_CHECKS, 1):
            place = _next_wanted(space, boxes, queue, cluster, taken, guard, lacking)
            if place < 0:
                break
            rows[size] = boxes.rows[place]
            taken[rows[size]] = 1
            released += count_in(guard, lacking, rows[size])
            note_wanted(guard, lacking, released)
            size += 1
            absorb(space, cluster, boxes.codes, place)
        if size == before:
            break
    for i in range(n_given, size):
        taken[rows[i]] = 0
    # The entries of the queue belong to a smaller cluster.
    queue.state[1] += 1
    return size, holds


@inner
def _next_wanted(space, boxes, queue, cluster, taken, guard, lacking):
    """Return the place of the cheapest free row that is wanted, or -1 if there is none; the search starts anew."""
    queue.state[0] = 0
    if boxes.lowest[0] < NO_ROW and may_hold_wanted(lacking, 0):
        push(queue, bound_of(space, cluster, boxes.content, 0), boxes.lowest[0], 0)
    while queue.state[0] > 0:
        entry = queue.entry[0]
        pop(queue)
        if entry < 0:
            return -1 - entry
        if boxes.right[entry] < 0:
            look_again(guard, lacking, boxes, taken, entry)
            for place in range(boxes.start[entry], boxes.stop[entry]):
                row = boxes.rows[place]
                if taken[row] == 0 and is_wanted(guard, lacking, row):
                    push(queue, cost_with(space, cluster, boxes.codes, place), row, -1 - place)
            continue
        for half in (entry + 1, boxes.right[entry]):
            if boxes.lowest[half] < NO_ROW and may_hold_wanted(lacking, half):
                push(queue, bound_of(space, cluster, boxes.content, half), boxes.lowest[half], half)
    return np.int64(-1)


@inner
def open_queue(boxes):
    """Return an empty queue with space for every box and row."""
    room = boxes.rows.shape[0] + boxes.start.shape[0] + 1
    entry, age, state = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(2, np.int64)
    return Queue(np.empty(room), np.empty(room, np.int64), entry, age, state)


@inner
def _begin(space, boxes, queue, cluster):
    """Reset the queue to the box over all rows."""
    queue.state[0] = 0
    if boxes.lowest[0] < NO_ROW:
        push(queue, bound_of(space, cluster, boxes.content, 0), boxes.lowest[0], 0)


@inner
def next_row(space, boxes, queue, cluster, taken):
    """Remove the cheapest row from the queue; return its place, or -1, and the cost of the cluster with it.

    The content of a box is put into the queue here, not by a function of its own: counting references to all of its
    arguments took half of the time.
    """
    rows, codes, content, lowest = boxes.rows, boxes.codes, boxes.content, boxes.lowest
    while queue.state[0] > 0:
        entry = queue.entry[0]
        if queue.age[0] != queue.state[1]:
            # A bound computed for a smaller cluster is updated; if it has increased, other entries may come first.
            if entry < 0:
                bound = cost_with(space, cluster, codes, -1 - entry)
            else:
                bound = bound_of(space, cluster, content, entry)
            queue.age[0] = queue.state[1]
            if bound > queue.bound[0]:
                _sink(queue, bound, queue.lowest[0], entry, queue.age[0])
                continue
        cost = queue.bound[0]
        pop(queue)
        if entry < 0:
            return -1 - entry, cost
        right = boxes.right[entry]
        if right < 0:
            for place in range(boxes.start[entry], boxes.stop[entry]):
                if taken[rows[place]] == 0:
                    push(queue, cost_with(space, cluster, codes, place), rows[place], -1 - place)
            continue
        for side in range(2):
            half = entry + 1 if side == 0 else right
            if lowest[half] < NO_ROW:
                push(queue, bound_of(space, cluster, content, half), lowest[half], half)
    return np.int64(-1), np.inf


@inner
def push(queue, new_bound, new_lowest, new_entry):
    bound, lowest, entry, age = queue.bound, queue.lowest, queue.entry, queue.age
    at = queue.state[0]
    queue.state[0] += 1
    while at > 0:
        above = (at - 1) // 2
        if bound[above] < new_bound or (bound[above] == new_bound and lowest[above] < new_lowest):
            break
        bound[at], lowest[at], entry[at], age[at] = bound[above], lowest[above], entry[above], age[above]
        at = above
    bound[at], lowest[at], entry[at], age[at] = new_bound, new_lowest, new_entry, queue.state[1]


@inner
def pop(queue):
    queue.state[0] -= 1
    last = queue.state[0]
    if last > 0:
        _sink(queue, queue.bound[last], queue.lowest[last], queue.entry[last], queue.age[last])


@inner
def _sink(queue, new_bound, new_lowest, new_entry, new_age):
    """Replace the first entry, and move the new one down to its position."""
    bound, lowest, entry, age = queue.bound, queue.lowest, queue.entry, queue.age
    n, at = queue.state[0], 0
    while 2 * at + 1 < n:
        below = 2 * at + 1
        other = below + 1
        if other < n and (
            bound[other] < bound[below] or (bound[other] == bound[below] and lowest[other] < lowest[below])
        ):
            below = other
        if new_bound < bound[below] or (new_bound == bound[below] and new_lowest < lowest[below]):
            break
        bound[at], lowest[at], entry[at], age[at] = bound[below], lowest[below], entry[below], age[below]
        at = below
    bound[at], lowest[at], entry[at], age[at] = new_bound, new_lowest, new_entry, new_age
