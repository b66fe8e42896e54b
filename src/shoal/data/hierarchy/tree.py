"""Convert parent links to the arrays of a hierarchy, with every check that they need.

A source (JSON entries, rows of a table, a nested dict) is first written down as :class:`ParentLinks`, one item per
node; :func:`arrange` checks the links and numbers the nodes.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from shoal.errors import HierarchyError

Ints = npt.NDArray[np.int32]


class ParentLinks(NamedTuple):
    """The nodes of a tree as a source lists them: siblings in their order, parents by position."""

    labels: list[str]
    keys: list[str]  # a leaf's value; for an inner node, the text to fall back on when its label is ambiguous
    parents: list[int]  # position of the parent; a root is its own parent
    levels: list[int | None] | None = None  # steps from the root that the source declares, to be checked


class Arrays(NamedTuple):
    """A checked tree: leaves first in depth-first order, then inner nodes by level, the root last."""

    values: tuple[str, ...]
    labels: tuple[str, ...]
    parent: Ints
    level: Ints
    table: Ints
    first: Ints
    last: Ints
    subtree_height: Ints


def arrange(links: ParentLinks, name: str) -> Arrays:
    """Check the links and number the nodes.

    An inner node has level ``height - depth``, so that it sits at one level whatever the depth of the leaves below it;
    a leaf that is less deep than others is repeated at its lower levels.
    """
    root = _only_root(links, name)
    children = _children(links.parents, root)
    order, depth = _depth_first(links, children, root, name)
    _check_levels(links, order, depth, name)
    order, depth = _without_repeated_leaves(links, children, order, depth)
    leaves = [node for node in order if not children[node]]
    _check_values([links.keys[leaf] for leaf in leaves], name)

    height = max(depth[leaf] for leaf in leaves)
    inner = sorted((node for node in order if children[node]), key=lambda node: -depth[node])  # stable: depth first
    position = {node: i for i, node in enumerate(leaves + inner)}
    kept_parent = {child: node for node in inner for child in children[node]} | {root: root}
    parent = np.array([position[kept_parent[node]] for node in position], dtype=np.int32)
    level = np.array([0] * len(leaves) + [height - depth[node] for node in inner], dtype=np.int32)
    table = _table(parent, level, len(leaves), height)
    first, last = _runs(table, len(parent))
    keys = [links.keys[node] for node in position]
    labels = _unambiguous_labels([links.labels[node] for node in position], keys, first, last, len(leaves), name)
    values = tuple(keys[: len(leaves)])
    return Arrays(values, labels, parent, level, table, first, last, _subtree_heights(parent, level))


def arrange_flat(values: list[str], root: str | None, name: str) -> Arrays:
    """Return the root over the values: ten times faster than :func:`arrange` for columns of a million values."""
    if not values:
        raise HierarchyError(f"{called(name)} is empty: give at least one value.")
    # An empty text is a valid value of a column.
    _check_values(values, name, empty=True)
    n = len(values)
    first, last = (np.arange(n + 1, dtype=np.int32) for _ in range(2))
    first[n], last[n] = 0, n - 1
    known = set(values)
    if root is None:
        root = next(stars for length in count(1) if (stars := "*" * length) not in known)
    labels: tuple[str, ...] = (*values, root)
    if root == "" or root in known:
        labels = _unambiguous_labels(list(labels), list(labels), first, last, n, name)
    level = np.zeros(n + 1, dtype=np.int32)
    level[n] = 1
    leaves = np.arange(n, dtype=np.int32)
    table = np.column_stack([leaves, np.full(n, n, dtype=np.int32)])
    return Arrays(tuple(values), labels, np.full(n + 1, n, dtype=np.int32), level, table, first, last, level.copy())


def _only_root(links: ParentLinks, name: str) -> int:
    roots = [node for node, parent in enumerate(links.parents) if node == parent]
    if not links.parents:
        raise HierarchyError(f"{called(name)} is empty: give it at least one value below a root such as '*'.")
    if len(roots) > 1:
        raise HierarchyError(
            f"{called(name)} has {len(roots)} roots, {quoted(links.labels[root] for root in roots)}: "
            "put them under one top node such as '*'."
        )
    if not roots:
        _raise_cycle(links, 0, name)
    if len(links.parents) == 1:
        raise HierarchyError(
            f"{called(name)} is empty below its root {links.labels[roots[0]]!r}: give it at least one value."
        )
    return roots[0]


def _children(parents: list[int], root: int) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):
        if node != root:
            children[parent].append(node)
    return children


def _depth_first(
    links: ParentLinks, children: list[list[int]], root: int, name: str
) -> tuple[list[int], dict[int, int]]:
    """Return the nodes with parents before children and siblings in order, and the depth of each."""
    depth, order, waiting = {root: 0}, [], [root]
    while waiting:
        node = waiting.pop()
        order.append(node)
        for child in children[node]:
            depth[child] = depth[node] + 1
        waiting.extend(reversed(children[node]))
    if len(order) < len(children):
        _raise_cycle(links, next(node for node in range(len(children)) if node not in depth), name)
    return order, depth


def _raise_cycle(links: ParentLinks, node: int, name: str) -> NoReturn:
    path: list[int] = []
    while node not in path:
        path.append(node)
        node = links.parents[node]
    cycle = [*path[path.index(node) :], node]
    raise HierarchyError(
        f"{called(name)} has a cycle, {' -> '.join(repr(links.labels[step]) for step in cycle)}: "
        "give one of them a parent that leads to the root."
    )


def _check_levels(links: ParentLinks, order: list[int], depth: dict[int, int], name: str) -> None:
    if links.levels is None:
        return
    for node in order:
        declared = links.levels[node]
        if declared is not None and declared != depth[node]:
            raise HierarchyError(
                f"{called(name)} declares level {declared} for {links.keys[node]!r}, which its parents place at level "
                f"{depth[node]} (the root is level 0): correct its level or its parent."
            )


def _without_repeated_leaves(
    links: ParentLinks, children: list[list[int]], order: list[int], depth: dict[int, int]
) -> tuple[list[int], dict[int, int]]:
    """Drop inner nodes that only repeat the one value below them.

    Tables write a leaf that is less deep than others by repeating it (``NULL;NULL;*``). Kept as nodes, the repetitions
    would change a tree that is written as a table and read back.
    """
    root, dropped = order[0], set()
    place = {child: i for siblings in children for i, child in enumerate(siblings)}
    for node in reversed(order):  # children before parents
        only = children[node][0] if len(children[node]) == 1 else None
        if node != root and only is not None and not children[only] and links.labels[node] == links.keys[only]:
            children[links.parents[node]][place[node]] = only
            place[only] = place[node]
            links.parents[only] = links.parents[node]
            dropped.add(node)
            depth[only] = depth[node]
    return [node for node in order if node not in dropped], depth


def _check_values(values: list[str], name: str, *, empty: bool = False) -> None:
    seen = set()
    for value in values:
        if value == "" and not empty:
            raise HierarchyError(
                f"{called(name)} has an empty value: remove it, or name it if it stands for missing values."
            )
        if value in seen:
            raise HierarchyError(f"{called(name)} lists the value {value!r} twice: keep it in one place only.")
        seen.add(value)


def _table(parent: Ints, level: Ints, n_leaves: int, height: int) -> Ints:
    table = np.empty((n_leaves, height + 1), dtype=np.int32)
    table[:, 0] = np.arange(n_leaves)
    for up in range(1, height + 1):
        above = parent[table[:, up - 1]]
        table[:, up] = np.where(level[above] == up, above, table[:, up - 1])
    return table


def _runs(table: Ints, n_nodes: int) -> tuple[Ints, Ints]:
    first, last = np.full(n_nodes, len(table), dtype=np.int32), np.zeros(n_nodes, dtype=np.int32)
    leaves = np.arange(len(table), dtype=np.int32)
    for column in table.T:
        np.minimum.at(first, column, leaves)
        np.maximum.at(last, column, leaves)
    return first, last


def _subtree_heights(parent: Ints, level: Ints) -> Ints:
    heights = np.zeros(len(parent), dtype=np.int32)
    for low in range(int(level[-1])):
        nodes = np.flatnonzero(level == low)
        np.maximum.at(heights, parent[nodes], heights[nodes] + 1)
    return heights


def _unambiguous_labels(
    labels: list[str], keys: list[str], first: Ints, last: Ints, n_leaves: int, name: str
) -> tuple[str, ...]:
    """Return labels of which each stands for one set of values, so that a released table can be read back.

    A label that also names another set of values gives way to the node's key. Two nodes with the same values may share
    their label: a table that repeats a node at the next level does that.
    """
    runs = list(zip(first.tolist(), last.tolist(), strict=True))
    if "" in labels:
        lo, hi = runs[labels.index("")]
        raise HierarchyError(f"{called(name)} has an empty label over {quoted(keys[lo : hi + 1])}: name it.")
    named: dict[str, set[tuple[int, int]]] = {}
    for label, key, run in zip(labels, keys, runs, strict=True):
        named.setdefault(label, set()).add(run)
        named.setdefault(key, set()).add(run)
    told = [key if len(named[label]) > 1 else label for label, key in zip(labels, keys, strict=True)]
    owner: dict[str, int] = dict(zip(keys[:n_leaves], range(n_leaves), strict=True))
    for node, label in enumerate(told):
        other = owner.setdefault(label, node)
        if runs[other] != runs[node]:
            sets = " and ".join(f"({quoted(keys[lo : hi + 1])})" for lo, hi in (runs[other], runs[node]))
            raise HierarchyError(
                f"{called(name)} uses the label {label!r} for different sets of values, {sets}, which a released table "
                "could not distinguish: rename one of them."
            )
    return tuple(told)


def links_from_rows(rows: Iterable[Sequence[object]], name: str) -> ParentLinks:
    """Write down a table with one row per value and one column per level, the value first and the root last.

    Level and label identify an inner node.
    """
    links = ParentLinks([], [], [])
    seen: dict[tuple[int, str], int] = {}
    width = 0
    for number, row in enumerate(rows, start=1):
        cells = [str(cell) for cell in row]
        width = width or len(cells)
        _check_row(cells, width, number, name)
        if (0, cells[0]) in seen:
            raise HierarchyError(
                f"{called(name)} lists the value {cells[0]!r} twice (row {number}): keep one row per value."
            )
        above = -1
        for level in reversed(range(width)):
            above = _node_of_cell(links, seen, cells, level, above, name)
    return links


def _check_row(cells: list[str], width: int, number: int, name: str) -> None:
    if len(cells) != width:
        raise HierarchyError(
            f"{called(name)} has {len(cells)} cells in row {number} ({quoted(cells)}) but {width} in row 1: "
            "give every row one cell per level, and repeat a value that has no group at some level."
        )
    if width < 2:
        raise HierarchyError(
            f"{called(name)} has only one level in row {number} ({quoted(cells)}): "
            "add a last column with the root '*', or name the right delimiter."
        )
    if "" in cells:
        raise HierarchyError(
            f"{called(name)} has an empty cell at level {cells.index('')} of row {number}, {quoted(cells)}: fill it in."
        )


def _node_of_cell(
    links: ParentLinks, seen: dict[tuple[int, str], int], cells: list[str], level: int, above: int, name: str
) -> int:
    node = seen.setdefault((level, cells[level]), len(links.labels))
    if node == len(links.labels):
        links.labels.append(cells[level])
        links.keys.append(cells[level])
        links.parents.append(node if above < 0 else above)
    elif above >= 0 and links.parents[node] != above:
        raise HierarchyError(
            f"{called(name)} puts {cells[level]!r} of level {level} under both "
            f"{links.labels[links.parents[node]]!r} and {cells[level + 1]!r}: give it one parent, or two labels."
        )
    return node


def links_from_entries(entries: Mapping[str, Any], name: str) -> ParentLinks:
    """Write down SaNGreeA's entries, ``key: {"name", "gen" (the parent's key), "level"}``."""
    position = {key: i for i, key in enumerate(entries)}
    links = ParentLinks([], [], [], levels=(levels := []))
    for key, entry in entries.items():
        if not isinstance(entry, Mapping):
            raise HierarchyError(
                f"{called(name)} has the entry {key!r} with {entry!r} instead of an object: "
                'write it as {"name": …, "gen": …, "level": …}.'
            )
        parent = entry.get("gen", key)
        if parent is None:
            parent = key
        if not isinstance(parent, str) or parent not in position:
            raise HierarchyError(
                f"{called(name)} has the entry {key!r} under {parent!r}, which is not an entry: "
                f"add {parent!r}, or correct the 'gen' of {key!r}."
            )
        level = entry.get("level")
        if level is not None and (not isinstance(level, int) or isinstance(level, bool)):
            raise HierarchyError(
                f"{called(name)} declares level {level!r} for {key!r}: give a whole number, 0 for the root."
            )
        links.labels.append(str(entry.get("name", "*" if parent == key else key)))
        links.keys.append(key)
        links.parents.append(position[parent])
        levels.append(level)
    return links


def links_from_nested(tree: Any, name: str, root: str) -> ParentLinks:
    """Write down nested mappings (label to children) and lists of values; several tops get the root above them."""
    if isinstance(tree, Mapping) and len(tree) == 1:
        root, tree = next((str(label), below) for label, below in tree.items())
    links = ParentLinks([root], [root], [0])
    waiting: list[tuple[Any, int]] = [(tree, 0)]
    while waiting:
        below, parent = waiting.pop()
        for label, children in _items(below, links.labels[parent], name):
            links.labels.append(label)
            links.keys.append(label)
            links.parents.append(parent)
            if children is not None:
                waiting.append((children, len(links.labels) - 1))
    return links


def _items(below: Any, label: str, name: str) -> list[tuple[str, Any]]:
    """Return the children of a node as (label, their children), None marking a value."""
    if isinstance(below, Mapping):
        found = [(str(child), children) for child, children in below.items()]
    elif isinstance(below, Iterable) and not isinstance(below, (str, bytes)):
        found = []
        for item in below:
            found += _items(item, label, name) if isinstance(item, Mapping) else [(str(item), None)]
    else:
        raise HierarchyError(
            f"{called(name)} has {below!r} below {label!r}: give a list of values or a mapping of groups, "
            "or None if it is a value itself."
        )
    if not found:
        raise HierarchyError(
            f"{called(name)} is empty below {label!r}: list its values, or give None if it is a value itself."
        )
    return found


def called(name: str) -> str:
    """Return the name of the hierarchy in messages."""
    return f"hierarchy {name!r}" if name else "the hierarchy"


def quoted(items: Iterable[str], most: int = 4) -> str:
    """Return the first items in quotes, and how many more there are."""
    listed = [repr(item) for item in items]
    more = [f"… {len(listed) - most} more"] if len(listed) > most else []
    return ", ".join(listed[:most] + more)


def alike(text: str, known: Collection[str]) -> str | None:
    """Return a known text that the given one was probably meant to be: 'Private' for ' Private', '39' for '39.0'."""

    def plain(spelling: str) -> str:
        return spelling.strip().casefold().removesuffix(".0")

    same = next((other for other in known if plain(other) == plain(text)), None)
    if same is None and len(known) <= 1000:  # the fuzzy comparison takes a second for some 10,000 texts
        same = next(iter(difflib.get_close_matches(text, known, n=1, cutoff=0.8)), None)
    return same
