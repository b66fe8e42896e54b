"""Slow and obvious twins of the kernels."""

from __future__ import annotations

import math

from shoal.partition.geometry import forms

LINE, TREE, SET = 0, 1, 2


def mondrian(table, k, *, by_width=False, sets=False):
    """Return groups of rows by strict median cuts, as lists of row numbers."""
    return _cut_down(table, list(range(table.n_rows)), k, by_width, forms(table, sets=sets))


def _cut_down(table, rows, k, by_width, form):
    best_merit, best_left = 0.0, None
    for j, column in enumerate(table.quasi):
        left = _best_left(column, form[j], rows, k)
        if left is None or column.attribute.weight == 0:
            continue
        before = width(column, form[j], rows)
        if by_width:
            merit = column.attribute.weight * before
        else:
            right = [row for row in rows if row not in left]
            after = len(left) * width(column, form[j], left) + len(right) * width(column, form[j], right)
            merit = column.attribute.weight * max(before - after / len(rows), 1e-9)
        if merit > best_merit:
            best_merit, best_left = merit, left
    if best_left is None:
        return [rows]
    right = [row for row in rows if row not in best_left]
    return _cut_down(table, sorted(best_left), k, by_width, form) + _cut_down(table, right, k, by_width, form)


def _best_left(column, form, rows, k):
    """Return the rows that the best cut of this column sends left, or None."""
    best, best_size = None, -math.inf
    lefts, in_runs = _possible_lefts(column, form, rows)
    for left_codes in lefts:
        left = {row for row in rows if column.codes[row] in left_codes}
        if len(left) < k or len(rows) - len(left) < k:
            continue
        size = min(len(left), len(rows) - len(left)) if form != TREE or in_runs else len(left)
        right_codes = {int(column.codes[row]) for row in rows} - left_codes
        if form == LINE and right_codes == {column.missing}:
            size = len(rows)
        if size > best_size:
            best, best_size = left, size
    return best


def _possible_lefts(column, form, rows):
    codes = sorted({int(column.codes[row]) for row in rows})
    if form != TREE:
        return [set(codes[:i]) for i in range(1, len(codes))], False
    if len(codes) == 1:
        return [], False
    node = common_ancestor(column.tree, codes)
    by_child = {}
    for code in codes:
        below = code
        while column.tree.parent[below] != node:
            below = column.tree.parent[below]
        by_child.setdefault(int(below), set()).add(code)
    children = list(by_child.values())
    sizes = [sum(int(column.codes[row]) in child for row in rows) for child in children]
    if max(sizes) * 16 >= len(rows):
        return children, False
    return [set().union(*children[:i]) for i in range(1, len(children))], True


def width(column, form, rows):
    """Return the loss, from 0 to 1, of releasing these rows alike."""
    codes = {int(column.codes[row]) for row in rows}
    if len(codes) == 1:
        return 0.0
    if form == LINE:
        if column.missing in codes:
            return 1.0
        positions = [column.positions[code] for code in codes]
        return (max(positions) - min(positions)) * (1.0 / column.width)
    if form == SET:
        return len(codes) / column.n_values if len(codes) <= 100 else 1.0
    node = common_ancestor(column.tree, codes)
    return (leaves_under(column.tree, node) - 1) / (column.tree.n_leaves - 1)


def common_ancestor(tree, leaves):
    """Find the lowest node over some leaves, by walking up."""
    paths = []
    for leaf in leaves:
        path = [leaf]
        while tree.parent[path[-1]] != path[-1]:
            path.append(int(tree.parent[path[-1]]))
        paths.append(path)
    return next(node for node in paths[0] if all(node in path for path in paths))


def leaves_under(tree, node):
    """Count the leaves that have the node among their ancestors."""
    return sum(common_ancestor(tree, [leaf]) == node or node in _ancestors(tree, leaf) for leaf in range(tree.n_leaves))


def number(things):
    """Label equal things in order of first appearance, -1 for None; return also where each appears first."""
    first = {}
    for i, thing in enumerate(things):
        if thing is not None:
            first.setdefault(thing, i)
    numbers = {thing: n for n, thing in enumerate(first)}
    return [-1 if thing is None else numbers[thing] for thing in things], list(first.values())


def _ancestors(tree, node):
    found = []
    while tree.parent[node] != node:
        node = int(tree.parent[node])
        found.append(node)
    return found
