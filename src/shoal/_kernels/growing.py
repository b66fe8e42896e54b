"""Trees of cuts: parts of a packed table are cut in two recursively, in place.

Each method has a rule that chooses cuts. An argument that is None for one of the rules selects it: numba then omits
the other one, so that each is compiled separately.
"""

from __future__ import annotations

import numpy as np

from shoal._kernels import mondrian, rplus
from shoal._kernels._jit import inner, jit
from shoal._kernels.cutting import longer

NO_CUT = np.int64(-1)
NO_PARENT = np.int64(-1)
"""The parent of a part, and of a left child, which follows its parent anyway."""


@jit
def grow(task, guard, ties, packed, starts, low, high):
    """Cut each of several parts until no admissible cut is left.

    Part p holds the rows starts[p]..starts[p + 1], with codes within low[p]..high[p]. ``guard`` is None if only the
    size of a group matters. ``packed`` is None for Mondrian's cuts, and True for those of an R+ tree. ``ties`` is None
    for strict cuts; for relaxed ones of Mondrian ``ties`` are codes that order rows which are equal in all attributes.

    Return the trees in preorder, concatenated: attribute (NO_CUT for a leaf), from and to (codes from <= code < to go
    left), right (the right child, the left one being the next node; for a leaf its number); the start of each leaf;
    and the first node of each part.
    """
    n_parts, q = low.shape
    most_leaves = 0
    for p in range(n_parts):
        most_leaves += max((starts[p + 1] - starts[p]) // task.smallest, 1)
    attribute = np.empty(2 * most_leaves, np.int16)
    cut_from = np.empty(2 * most_leaves, np.int32)
    cut_to = np.empty(2 * most_leaves, np.int32)
    right = np.empty(2 * most_leaves, np.int32)
    leaf_start = np.empty(most_leaves, np.int64)
    roots = np.empty(n_parts, np.int64)
    n_nodes, n_leaves = np.int64(0), 0
    # Depth-first, left first. A stack entry holds start and stop of a group, the node whose right child it is, and its
    # bounds. A cut usually halves a group, but single values can be cut off one by one, so the stack can grow.
    stack = np.empty((64, 3 + 2 * q), np.int64)
    for p in range(n_parts):
        roots[p] = n_nodes
        _push(stack, np.int64(0), starts[p], starts[p + 1], NO_PARENT, low[p], high[p])
        depth = np.int64(1)
        while depth > 0:
            depth -= 1
            begin, end, parent = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            group_low, group_high = stack[depth, 3 : 3 + q].copy(), stack[depth, 3 + q :].copy()
            node = n_nodes
            n_nodes += 1
            if parent >= 0:
                right[parent] = node
            j, cut_from[node], cut_to[node], middle = split(
                task, guard, ties, packed, begin, end, group_low, group_high
            )
            attribute[node] = j
            if j == NO_CUT:
                right[node] = n_leaves
                leaf_start[n_leaves] = begin
                n_leaves += 1
                continue
            if depth + 2 > stack.shape[0]:
                stack = longer(stack)
            _push(stack, depth, middle, end, node, group_low, group_high)
            _push(stack, depth + 1, begin, middle, NO_PARENT, group_low, group_high)
            depth += 2
    tree = (attribute[:n_nodes].copy(), cut_from[:n_nodes].copy(), cut_to[:n_nodes].copy(), right[:n_nodes].copy())
    return tree, leaf_start[:n_leaves].copy(), roots


@inner
def _push(stack, at, start, stop, parent, low, high):
    q = low.shape[0]
    stack[at, 0], stack[at, 1], stack[at, 2] = start, stop, parent
    for j in range(q):
        stack[at, 3 + j] = low[j]
        stack[at, 3 + q + j] = high[j]


@jit
def cut_once(task, guard, ties, packed, start, stop, low, high):
    """Make a single cut, for callers that pass parts of a large table to several threads; see ``split``."""
    return split(task, guard, ties, packed, start, stop, low, high)


@inner
def split(task, guard, ties, packed, start, stop, low, high):
    """Make the best admissible cut of one group; return (attribute, from, to, first row of the right part).

    Every attribute has its own best place; the attribute whose cut has the highest merit is chosen, the next best one
    if constraints reject it. ``low`` and ``high`` are narrowed to the group.
    """
    n = stop - start
    q = low.shape[0]
    merit = np.zeros(q)
    if n >= 2 * task.smallest:
        for j in range(q):
            if low[j] < high[j]:
                if packed is None:
                    merit[j] = mondrian.merit_of(task, ties, start, stop, j, low, high)
                else:
                    merit[j] = rplus.merit_of(task, start, stop, j, low, high)
    for _ in range(q):
        j = np.argmax(merit)
        if merit[j] <= 0.0:
            break
        merit[j] = 0.0
        if packed is None:
            cut_from, cut_to, middle = mondrian.cut_attribute(task, guard, ties, start, stop, j, low[j], high[j])
        else:
            cut_from, cut_to, middle = rplus.cut_attribute(task, guard, start, stop, j, low[j], high[j])
        if middle > start:
            return j, cut_from, cut_to, middle
    return NO_CUT, np.int64(0), np.int64(0), np.int64(stop)
