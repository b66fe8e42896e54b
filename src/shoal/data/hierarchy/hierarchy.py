"""Generalization hierarchies: the broader values as which each value may be released.

A hierarchy is a tree over the values of an attribute. It is kept as an integer table *value x level*, because
everything that partitions and recodes needs only that: the node that stands for a value at a level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from shoal.data.hierarchy import builders as builders
from shoal.data.hierarchy.builders import several
from shoal.data.hierarchy.files import PathLike, read_entries, read_rows, write_entries, write_rows
from shoal.data.hierarchy.tree import (
    ParentLinks,
    alike,
    arrange,
    arrange_flat,
    called,
    links_from_entries,
    links_from_nested,
    links_from_rows,
)
from shoal.errors import HierarchyError


@dataclass(frozen=True, eq=False, repr=False)
class Hierarchy:
    """A tree over the values of an attribute, made with a constructor such as :meth:`from_json` or :meth:`from_dict`.

    Nodes are numbers: the values (leaves) come first, in depth-first order, so that every node covers a run of values;
    then the inner nodes from low to high levels, and the root last. Levels count from the values (0) to the root
    (``height``). Values of different depth are lined up at the root: an inner node sits at one level for all values
    below it, and a value less deep than others is repeated at its lower levels.

    Attributes
    ----------
    name : str
        The name in messages; equality ignores it.
    values : tuple of str
        The values; a value's position is its leaf id.
    labels : tuple of str
        The released text of each node. A label stands for one set of values only.
    table : int32 array (values, height + 1)
        ``table[v, l]`` is the node that stands for value ``v`` at level ``l``.
    parent, level : int32 array (nodes,)
        The node above (the root's is itself), and the level at which a node is listed in ``table``.
    first, last : int32 array (nodes,)
        The first and last leaf id under each node.
    subtree_height : int32 array (nodes,)
        Steps from the node down to its deepest value.

    Examples
    --------
    >>> groups = {"gov": ["federal", "local"], "private": None, "self": ["inc", "not-inc"]}
    >>> work = Hierarchy.from_dict(groups, name="work")
    >>> work
    Hierarchy('work', 5 values, height 2)
    >>> print(work.show())
    *
    ├── gov
    │   ├── federal
    │   └── local
    ├── private
    └── self
        ├── inc
        └── not-inc
    >>> work.label_of(work.common_ancestor(["federal", "local"]))
    'gov'
    >>> work.loss(work.node("gov"))
    0.25
    """

    name: str
    values: tuple[str, ...]
    labels: tuple[str, ...]
    parent: npt.NDArray[np.int32]
    level: npt.NDArray[np.int32]
    table: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]
    subtree_height: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        for array in (self.parent, self.level, self.table, self.first, self.last, self.subtree_height):
            array.setflags(write=False)

    @property
    def height(self) -> int:
        """Level of the root."""
        return int(self.table.shape[1]) - 1

    @property
    def n_leaves(self) -> int:
        """Number of values."""
        return len(self.values)

    @property
    def n_nodes(self) -> int:
        """Number of values and inner nodes."""
        return len(self.labels)

    @property
    def root(self) -> int:
        """The node over all values."""
        return self.n_nodes - 1

    # Questions

    def leaf(self, value: object) -> int:
        """Return the id of a value."""
        leaf = self._leaf_ids.get(str(value))
        if leaf is None:
            raise HierarchyError(
                f"{called(self.name)} does not cover the value {str(value)!r}: {self._way_out(value)}."
            )
        return leaf

    def node(self, label: object) -> int:
        """Return the lowest node with this label or value."""
        node = self._node_ids.get(str(label))
        if node is None:
            near = alike(str(label), self._node_ids)
            hint = f"did you mean {near!r}?" if near is not None else "show() lists its labels."
            raise HierarchyError(f"{called(self.name)} has no node {str(label)!r}: {hint}")
        return node

    def label_of(self, node: int) -> str:
        """Return the released text of a node."""
        return self.labels[node]

    def leaves(self, node: int) -> tuple[str, ...]:
        """Return the values under a node."""
        return self.values[self.first[node] : self.last[node] + 1]

    def common_ancestor(self, values: Iterable[object]) -> int:
        """Return the lowest node over all these values; a single value is its own.

        Examples
        --------
        >>> city = Hierarchy.from_dict({"Styria": ["Graz", "Leoben"], "Tyrol": ["Lienz"]})
        >>> [city.label_of(city.common_ancestor(some)) for some in (["Graz"], ["Graz", "Leoben"], ["Graz", "Lienz"])]
        ['Graz', 'Styria', '*']
        """
        ids = [self.leaf(value) for value in values]
        if not ids:
            raise HierarchyError(f"{called(self.name)} has no common ancestor of no values: give at least one value.")
        path = self.table[min(ids)]
        return int(path[np.argmax(self.last[path] >= max(ids))])

    def loss(self, node: int) -> float:
        """Return the share of the other values that a node includes: 0 for a value, 1 for the root."""
        others = self.n_leaves - 1
        return float(self.last[node] - self.first[node]) / others if others else 0.0

    def check_covers(self, values: Iterable[object], attribute: str) -> None:
        """Raise HierarchyError naming the attribute, the first value that is not covered, and the fix.

        Examples
        --------
        >>> Hierarchy.flat(["yes", "no"], name="answers").check_covers(["no", "Yes"], attribute="smoker")
        ... # doctest: +ELLIPSIS
        Traceback (most recent call last):
        shoal.errors.HierarchyError: attribute 'smoker' holds the value 'Yes', which ...: write it as 'yes', ...
        """
        uncovered = [text for text in map(str, values) if text not in self._leaf_ids]
        if uncovered:
            more = len(set(uncovered)) - 1
            others = f" (and {more} other {'value' if more == 1 else 'values'})" if more else ""
            raise HierarchyError(
                f"attribute {attribute!r} holds the value {uncovered[0]!r}{others}, which {called(self.name)} does not "
                f"cover: {self._way_out(uncovered[0])}."
            )

    def with_missing(self, label: str = "missing") -> Hierarchy:
        """Return this hierarchy with one more value right under the root, as last leaf.

        Examples
        --------
        >>> Hierarchy.flat(["yes", "no"]).with_missing().labels
        ('yes', 'no', 'missing', '*')
        """
        if label in self._node_ids or not label:
            raise HierarchyError(
                f"{called(self.name)} cannot call missing values {label!r}: give a label not yet in use."
            )
        leaf, height = self.n_leaves, self.height
        parent, table = (array + (array >= leaf) for array in (self.parent, self.table))  # inner nodes move up by one
        last = np.insert(self.last, leaf, leaf)
        last[-1] = leaf
        return Hierarchy(
            name=self.name,
            values=(*self.values, label),
            labels=(*self.labels[:leaf], label, *self.labels[leaf:]),
            parent=np.insert(parent, leaf, self.root + 1),
            level=np.insert(self.level, leaf, 0),
            table=np.vstack([table, np.array([leaf] * height + [self.root + 1], dtype=np.int32)]),
            first=np.insert(self.first, leaf, leaf),
            last=last,
            subtree_height=np.insert(self.subtree_height, leaf, 0),
        )

    def show(self, most: int | None = None) -> str:
        """Return the tree as text, with at most ``most`` children drawn below a node."""
        lines: list[str] = []
        waiting: list[tuple[int | str, str, str]] = [(self.root, "", "")]
        while waiting:
            node, mark, indent = waiting.pop()
            lines.append(mark + (node if isinstance(node, str) else self._caption(node)))
            if isinstance(node, str):
                continue
            below: list[int | str] = [*self._children[node]]
            if most is not None and len(below) > most:
                below[most:] = [f"… {len(below) - most} more"]
            for child in reversed(below):
                end = child == below[-1]
                waiting.append((child, indent + ("└── " if end else "├── "), indent + ("    " if end else "│   ")))
        return "\n".join(lines)

    # Constructors

    @classmethod
    def flat(cls, values: Iterable[object], name: str = "", root: str | None = None) -> Hierarchy:
        """Return the root over the values, with nothing in between.

        The root is called '*', or gets more stars where that is a value itself, as in a table that was released before.
        """
        return cls(name, *arrange_flat([str(value) for value in values], root, name))

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[object]], name: str = "") -> Hierarchy:
        """Read a table with one row per value and one column per level: the value first, the root last.

        Level and label identify a node. A row may repeat its value at the next levels (``abroad, abroad, *``):
        it is then a value less deep than the others, not a group.

        Examples
        --------
        >>> Hierarchy.from_rows([["Graz", "Styria", "*"], ["Leoben", "Styria", "*"], ["abroad", "abroad", "*"]])
        Hierarchy('', 3 values, height 2)
        """
        return cls._arranged(links_from_rows(rows, name), name)

    @classmethod
    def from_dict(cls, tree: Any, name: str = "", root: str = "*") -> Hierarchy:
        """Read nested mappings from a label to what is below it, ending in lists of values.

        A mapping with a single key names the root itself; otherwise ``root`` is put above its keys. A value beside
        groups is written as a key with None, or as an item of a list that also holds mappings.

        Examples
        --------
        >>> Hierarchy.from_dict({"Europe": ["France", "Italy"], "Asia": {"East": ["Japan"], "Iran": None}}).height
        3
        """
        return cls._arranged(links_from_nested(tree, name, root), name)

    @classmethod
    def from_json(cls, source: PathLike | Mapping[str, Any], name: str | None = None) -> Hierarchy:
        """Read SaNGreeA's format, ``{"name": …, "entries": {key: {"name", "gen" (the parent's key), "level"}}}``.

        A leaf's key is its value in the data, and its ``name`` its label. The root is its own parent. If a name also
        belongs to another set of values, the node's key is its label, so that no released label is ambiguous.

        Examples
        --------
        >>> sex = {"name": "sex", "entries": {"all": {"name": "*", "gen": "all", "level": 0},
        ...        "F": {"name": "female", "gen": "all", "level": 1}, "M": {"name": "male", "gen": "all", "level": 1}}}
        >>> Hierarchy.from_json(sex).labels
        ('female', 'male', '*')
        """
        written, entries = read_entries(source)
        name = written if name is None else name
        return cls._arranged(links_from_entries(entries, name), name)

    @classmethod
    def from_csv(cls, path: PathLike, delimiter: str = ";", name: str | None = None) -> Hierarchy:
        """Read ARX's format: one row per value, one column per level, no header (see :meth:`from_rows`)."""
        return cls.from_rows(read_rows(path, delimiter), Path(path).stem if name is None else name)

    @classmethod
    def from_intervals(
        cls,
        low: float | None = None,
        high: float | None = None,
        *,
        widths: Sequence[float] | None = None,
        edges: Sequence[float] | Sequence[Sequence[float]] | None = None,
        values: Iterable[object] | None = None,
        name: str = "",
    ) -> Hierarchy:
        """Group numbers into intervals, one level per width or list of edges, from fine to coarse.

        Intervals of a width begin at its multiples and are cut at ``low`` and ``high``; edges are the beginnings of the
        intervals, and the last edge is the end of the last one. Integers are labelled '20-29', other numbers
        '[20, 30)'; the last interval holds its end. Without ``values`` the values are all integers from low to high;
        without bounds those of the edges or of the values are taken.

        Examples
        --------
        >>> age = Hierarchy.from_intervals(17, 90, widths=[5, 10, 20])
        >>> [age.label_of(node) for node in age.table[age.leaf(38)]]
        ['38', '35-39', '30-39', '20-39', '*']
        >>> dose = Hierarchy.from_intervals(edges=[0, 0.5, 1], values=[0.1, 0.5, 0.75])
        >>> [dose.label_of(node) for node in dose.table[dose.leaf(0.5)]]
        ['0.5', '[0.5, 1]', '*']
        """
        return cls.from_rows(builders.interval_rows(low, high, several(widths), edges, values, name), name)

    @classmethod
    def from_prefix(
        cls,
        values: Iterable[object],
        keep: Sequence[int] | None = None,
        *,
        side: Literal["right", "left"] = "right",
        mask: str = "*",
        name: str = "",
    ) -> Hierarchy:
        """Redact codes such as ZIP codes from one side, one character per level, or to the lengths in ``keep``.

        Labels are as long as the longest value; a shorter value joins the first group that shows no more than it has.

        Examples
        --------
        >>> zips = Hierarchy.from_prefix(["8010", "8020", "9020"])
        >>> [zips.label_of(node) for node in zips.table[zips.leaf("8010")]]
        ['8010', '801*', '80**', '8***', '*']
        """
        return cls.from_rows(builders.prefix_rows(values, several(keep), side, mask, name), name)

    @classmethod
    def from_dates(
        cls,
        values: Iterable[object],
        units: Sequence[str] = ("month", "quarter", "year", "decade"),
        name: str = "",
    ) -> Hierarchy:
        """Group dates (ISO texts, dates, datetimes) by calendar units: day, month, quarter, half, year, decade.

        Examples
        --------
        >>> born = Hierarchy.from_dates(["2024-03-05", "1999-12-31"])
        >>> [born.label_of(node) for node in born.table[born.leaf("2024-03-05")]]
        ['2024-03-05', '2024-03', '2024-Q1', '2024', '2020s', '*']
        """
        return cls.from_rows(builders.date_rows(values, several(units), name), name)

    @classmethod
    def from_order(cls, values: Iterable[object], fanout: int = 2, name: str = "") -> Hierarchy:
        """Group neighbours of an ordered list: ``fanout`` values per group, then ``fanout`` groups, and so on.

        Examples
        --------
        >>> grade = Hierarchy.from_order(["none", "primary", "secondary", "bachelor", "master"])
        >>> [grade.label_of(node) for node in grade.table[grade.leaf("primary")]]
        ['primary', 'none – primary', 'none – bachelor', '*']
        """
        return cls.from_rows(builders.order_rows(values, fanout, name), name)

    @classmethod
    def from_frequencies(
        cls, values: Iterable[object] | Mapping[Any, int], below: Sequence[float] = (0.01, 0.05), name: str = ""
    ) -> Hierarchy:
        """Group rare values: at each threshold, all values that occur less often become one group 'other (below …)'.

        A threshold below 1 is a share of the rows, any other a count; ``values`` is a column, or a mapping to counts.
        The group of a lower threshold lies inside that of the next, and frequent values stand right under the root. A
        threshold that adds no value, or makes a group of one value or of all values, makes no level.

        Examples
        --------
        >>> pet = Hierarchy.from_frequencies({"cat": 500, "dog": 480, "newt": 12, "emu": 5, "yak": 3}, below=[10, 100])
        >>> [pet.label_of(node) for node in pet.table[pet.leaf("emu")]]
        ['emu', 'other (below 10)', 'other (below 100)', '*']
        >>> [pet.label_of(node) for node in pet.table[pet.leaf("newt")]]
        ['newt', 'newt', 'other (below 100)', '*']
        """
        return cls.from_rows(builders.frequency_rows(values, several(below), name), name)

    # Saving

    def to_dict(self) -> dict[str, Any]:
        """Return nested dicts and lists of values that :meth:`from_dict` reads."""
        below: dict[int, Any] = {}
        for node in range(self.n_nodes):  # children have lower numbers
            children = self._children[node]
            if not children:
                below[node] = None
            elif max(children) < self.n_leaves:
                below[node] = [self.values[child] for child in children]
            else:
                below[node] = {self._key(child): below[child] for child in children}
        return {self.labels[self.root]: below[self.root]}

    def to_json(self, path: PathLike) -> None:
        """Write what :meth:`from_json` reads, values and labels."""
        keys = self._unique_keys()
        depth: dict[int, int] = {}
        entries: dict[str, dict[str, Any]] = {}
        for node in self._top_down:
            parent = int(self.parent[node])
            depth[node] = 0 if node == parent else depth[parent] + 1
            entries[keys[node]] = {"name": self.labels[node], "gen": keys[parent], "level": depth[node]}
        write_entries(path, self.name, entries)

    def to_csv(self, path: PathLike, delimiter: str = ";") -> None:
        """Write what :meth:`from_csv` reads: one row per value, one column per level."""
        write_rows(path, ([self._key(node) for node in row] for row in self.table.tolist()), delimiter)

    # Python's protocols

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hierarchy):
            return NotImplemented
        return (
            self.values == other.values
            and self.labels == other.labels
            and np.array_equal(self.parent, other.parent)
            and np.array_equal(self.level, other.level)
        )

    def __hash__(self) -> int:
        return hash((self.values, self.labels))

    def __repr__(self) -> str:
        return f"Hierarchy({self.name!r}, {self.n_leaves} values, height {self.height})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrays come out of a pickle writable; the constructor locks them again.
        arrays = (self.parent, self.level, self.table, self.first, self.last, self.subtree_height)
        return Hierarchy, (self.name, self.values, self.labels, *arrays)

    # Inside

    @classmethod
    def _arranged(cls, links: ParentLinks, name: str) -> Hierarchy:
        return cls(name, *arrange(links, name))

    @cached_property
    def _leaf_ids(self) -> dict[str, int]:
        return {value: leaf for leaf, value in enumerate(self.values)}

    @cached_property
    def _node_ids(self) -> dict[str, int]:
        return {self.labels[node]: node for node in reversed(range(self.n_nodes))} | self._leaf_ids

    @cached_property
    def _top_down(self) -> list[int]:
        """All nodes, parents before their children and siblings in order."""
        return np.lexsort((-np.arange(self.n_nodes), self.first)).tolist()  # type: ignore[no-any-return]

    @cached_property
    def _children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in self.labels]
        for node in self._top_down:
            if node != self.root:
                children[self.parent[node]].append(node)
        return children

    def _key(self, node: int) -> str:
        """Return how files and dicts name a node: a leaf by its value."""
        return self.values[node] if node < self.n_leaves else self.labels[node]

    def _unique_keys(self) -> list[str]:
        taken = dict.fromkeys(self.values)
        for node in range(self.n_leaves, self.n_nodes):
            key = "all" if node == self.root and "all" not in taken else self.labels[node]
            while key in taken:
                key = f"{key} (level {self.level[node]})"
            taken[key] = None
        return list(taken)

    def _caption(self, node: int) -> str:
        label = self.labels[node]
        return label if self._key(node) == label else f"{label} ({self._key(node)})"

    def _way_out(self, value: object) -> str:
        near = alike(str(value), self._leaf_ids)
        spelled = f"write it as {near!r}, " if near is not None else ""
        return f"{spelled}add it to the hierarchy, or mark it as missing in the data"
