"""Group rows that a tree of cuts was not grown on."""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.guard import guard_holds


@jit
def settle(attribute, left, right, order, starts, smallest, guard):
    """Return the starts of the groups among rows that are ordered by their leaf.

    Leaves are numbered from left to right, so that the rows of every node are contiguous. ``guard`` is None if only the
    size of a group matters.
    """
    first_leaf = np.empty(attribute.shape[0], np.int64)
    # Nodes precede their children, so in reverse order the groups of the children are known.
    for node in range(attribute.shape[0] - 1, -1, -1):
        first_leaf[node] = right[node] if attribute[node] < 0 else first_leaf[left[node]]
    found = np.empty(starts.shape[0] - 1, np.int64)
    n_found = 0
    stack = [(np.int64(0), np.int64(0), np.int64(order.shape[0]))]
    while len(stack) > 0:
        node, start, stop = stack.pop()
        if attribute[node] < 0:
            found[n_found] = start
            n_found += 1
            continue
        middle = min(max(starts[first_leaf[right[node]]], start), stop)
        left_holds = _holds(guard, order, smallest, start, middle)
        right_holds = _holds(guard, order, smallest, middle, stop)
        if left_holds and right_holds:
            stack.append((np.int64(right[node]), middle, stop))
            stack.append((np.int64(left[node]), start, middle))
        elif left_holds:
            stack.append((np.int64(left[node]), start, stop))
        elif right_holds:
            stack.append((np.int64(right[node]), start, stop))
        else:
            found[n_found] = start
            n_found += 1
    return found[:n_found].copy()


@inner
def _holds(guard, order, smallest, start, stop):
    if stop - start < smallest:
        return False
    if guard is not None:
        return guard_holds(guard, order, start, stop)
    return True
