"""A tree of disjoint boxes that is updated incrementally: find the box of a row, undo cuts, count leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.guard import guard_holds

FREE = -1
"""The node of an unused group number."""
NOWHERE, LOOSE = -1, -2
"""Targets of the rows of a group: they stayed, or each has to find its own box."""


class BoxCuts(NamedTuple):
    """Nodes of a tree of cuts, with spare space at the end; node 0 is the root, and children follow their parents."""

    attribute: np.ndarray
    """int16: the attribute on which a node is cut; -1 for a leaf."""
    low: np.ndarray
    high: np.ndarray
    """float64: rows with low <= key <= high go left."""
    left: np.ndarray
    right: np.ndarray
    """int32: the children; ``right`` of a leaf is the number of its group."""
    parent: np.ndarray
    """int32; -1 for the root."""


class Undo(NamedTuple):
    """Previous states of changed nodes and groups, in the order of the changes."""

    noted: np.ndarray
    """int64 (2,): the numbers of nodes and groups recorded."""
    node: np.ndarray
    tree: BoxCuts
    group: np.ndarray
    group_node: np.ndarray


@jit
def parents(attribute, left, right, parent):
    """Write the parent of every node."""
    parent[0] = -1
    for node in range(attribute.shape[0]):
        if attribute[node] >= 0:
            parent[left[node]] = node
            parent[right[node]] = node


@jit
def descend(tree, keys, found):
    """Find the leaf of each row, and write its ``right`` into ``found``."""
    for i in range(keys.shape[0]):
        node = 0
        while tree.attribute[node] >= 0:
            key = keys[i, tree.attribute[node]]
            node = tree.left[node] if tree.low[node] <= key <= tree.high[node] else tree.right[node]
        found[i] = tree.right[node]


@jit
def merge(tree, group_node, into, failing, most_leaves, undo, moved):
    """Undo the cut that created each of the failing groups; return how many groups moved, or -1 if the root fails.

    If the other side of the cut has at most ``most_leaves`` groups, all become one, to be cut anew. Otherwise the other
    side takes the place of both, and the rows of the failing group become loose: each will find its box there.

    ``into`` holds, for each group in ``moved``, the group that its rows are in now, or LOOSE.
    """
    n_moved = 0
    stack = np.empty(2 * most_leaves + 2, np.int64)
    leaves = np.empty(most_leaves + 1, np.int64)
    for group in failing:
        node = group_node[group]
        if node == FREE:
            continue  # it was merged with one that failed before
        above = tree.parent[node]
        if above < 0:
            return -1
        other = tree.right[above] if tree.left[above] == node else tree.left[above]
        n_leaves = _few_leaves(tree, other, most_leaves, stack, leaves)
        _save_node(undo, tree, above)
        _save_group(undo, group_node, group)
        if n_leaves <= most_leaves:
            for i in range(n_leaves):
                _save_group(undo, group_node, leaves[i])
                group_node[leaves[i]] = FREE
                into[leaves[i]] = group
                moved[n_moved] = leaves[i]
                n_moved += 1
            tree.attribute[above] = -1
            tree.right[above] = group
            group_node[group] = above
        else:
            _take_place(tree, group_node, undo, above, other)
            group_node[group] = FREE
            into[group] = LOOSE
            moved[n_moved] = group
            n_moved += 1
    return n_moved


@inner
def _few_leaves(tree, root, most, stack, leaves):
    """Write the groups below a node if there are at most ``most``; return their number, or ``most + 1``."""
    stack[0] = root
    depth, n = 1, 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if tree.attribute[node] < 0:
            if n == most:
                return most + 1
            leaves[n] = tree.right[node]
            n += 1
        else:
            if n + depth + 2 > most:
                return most + 1
            stack[depth] = tree.right[node]
            stack[depth + 1] = tree.left[node]
            depth += 2
    return n


@inner
def _take_place(tree, group_node, undo, above, other):
    """Move the content of a node to its parent, so that it covers the box of the parent."""
    tree.attribute[above] = tree.attribute[other]
    tree.low[above], tree.high[above] = tree.low[other], tree.high[other]
    tree.left[above], tree.right[above] = tree.left[other], tree.right[other]
    if tree.attribute[other] < 0:
        _save_group(undo, group_node, tree.right[other])
        group_node[tree.right[other]] = above
    else:
        for child in (tree.left[other], tree.right[other]):
            _save_node(undo, tree, child)
            tree.parent[child] = above


@inner
def _save_node(undo, tree, node):
    at = undo.noted[0]
    undo.node[at] = node
    undo.tree.attribute[at] = tree.attribute[node]
    undo.tree.low[at], undo.tree.high[at] = tree.low[node], tree.high[node]
    undo.tree.left[at], undo.tree.right[at] = tree.left[node], tree.right[node]
    undo.tree.parent[at] = tree.parent[node]
    undo.noted[0] += 1


@inner
def _save_group(undo, group_node, group):
    at = undo.noted[1]
    undo.group[at], undo.group_node[at] = group, group_node[group]
    undo.noted[1] += 1


@jit
def roll_back(undo, tree, group_node):
    """Restore nodes and groups, the last change first."""
    for at in range(undo.noted[0] - 1, -1, -1):
        node = undo.node[at]
        tree.attribute[node] = undo.tree.attribute[at]
        tree.low[node], tree.high[node] = undo.tree.low[at], undo.tree.high[at]
        tree.left[node], tree.right[node] = undo.tree.left[at], undo.tree.right[at]
        tree.parent[node] = undo.tree.parent[at]
    for at in range(undo.noted[1] - 1, -1, -1):
        group_node[undo.group[at]] = undo.group_node[at]


@jit
def tidy(tree, n_groups):
    """Return the tree in preorder without unused nodes: (nodes in that order, their left, their right).

    The ``right`` of a leaf is its number from left to right.
    """
    nodes = np.empty(2 * n_groups, np.int32)
    left = np.empty(2 * n_groups, np.int32)
    right = np.empty(2 * n_groups, np.int32)
    stack = [(np.int64(0), np.int64(-1))]
    n_nodes, n_leaves = 0, 0
    while len(stack) > 0:
        node, parent = stack.pop()
        here = n_nodes
        n_nodes += 1
        nodes[here], left[here] = node, here + 1
        if parent >= 0:
            right[parent] = here
        if tree.attribute[node] < 0:
            right[here] = n_leaves
            n_leaves += 1
        else:
            stack.append((np.int64(tree.right[node]), np.int64(here)))
            stack.append((np.int64(tree.left[node]), np.int64(-1)))
    return nodes[:n_nodes].copy(), left[:n_nodes].copy(), right[:n_nodes].copy()


@jit
def gather(pool, start, size, chosen, rows, group):
    """Write the rows of the chosen groups, concatenated, and the group of each."""
    at = 0
    for g in chosen:
        for i in range(start[g], start[g] + size[g]):
            rows[at], group[at] = pool[i], g
            at += 1


@jit
def groups_hold(guard_order, starts, holds, guard):
    """Write whether the rules hold for each of several groups of contiguous rows."""
    for g in range(starts.shape[0] - 1):
        holds[g] = guard_holds(guard, guard_order, starts[g], starts[g + 1])
