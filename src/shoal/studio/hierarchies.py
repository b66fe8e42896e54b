"""Edits of hierarchies: build, load, move, rename and group their nodes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.schema import Recipe
from shoal.errors import HierarchyError

BUILDERS = {
    "intervals": "numeric ranges",
    "prefix": "leading characters, such as of postal codes",
    "dates": "months, years and decades",
    "order": "pairs of neighbours in an order",
    "frequencies": "merged rare values",
}
MOST_SHOWN = 2_000
"""Number of nodes that a page shows."""


def as_tree(hierarchy: Hierarchy) -> dict[str, Any]:
    """Return a tree of nodes, each with a unique key, its label, and True if it is a value."""
    entries = entries_of(hierarchy)
    children: dict[str, list[str]] = {}
    root = ""
    for key, entry in entries.items():
        if entry["gen"] == key:
            root = key
        else:
            children.setdefault(entry["gen"], []).append(key)

    def node(key: str) -> dict[str, Any]:
        below = [node(child) for child in children.get(key, [])]
        return {"id": key, "label": entries[key]["name"], "value": not below, "children": below}

    return node(root) | {"shown": hierarchy.n_nodes <= MOST_SHOWN}


def move(hierarchy: Hierarchy, value: str, node: str) -> Hierarchy:
    """Move a value, or a group with its content, below another node; remove groups that become empty."""
    entries = entries_of(hierarchy)
    for key in (value, node):
        if key not in entries:
            raise _unknown(hierarchy, key)
    if entries[value]["gen"] == value:
        raise HierarchyError(f"{value!r} is the top of the hierarchy: move a node below it.")
    leaves = set(entries) - {entry["gen"] for entry in entries.values()}
    if node in leaves:
        raise HierarchyError(f"{node!r} is a value and cannot contain others: choose a group.")
    above = node
    while entries[above]["gen"] != above:
        if above == value:
            raise HierarchyError(f"{node!r} is below {value!r}: choose another group.")
        above = entries[above]["gen"]
    entries[value]["gen"] = node
    return Hierarchy.from_json({"name": hierarchy.name, "entries": _without_empty(entries, leaves)})


def rename(hierarchy: Hierarchy, node: str, label: str) -> Hierarchy:
    """Rename a group."""
    entries = entries_of(hierarchy)
    if node not in entries:
        raise _unknown(hierarchy, node)
    entries[node]["name"] = label.strip() or entries[node]["name"]
    return Hierarchy.from_json({"name": hierarchy.name, "entries": entries})


def add_group(hierarchy: Hierarchy, label: str, value: str) -> Hierarchy:
    """Add a group below the top that contains one value."""
    entries = entries_of(hierarchy)
    root = next(key for key, entry in entries.items() if entry["gen"] == key)
    if not label.strip() or label in entries:
        raise HierarchyError(f"A group cannot be named {label!r}: choose a name that is not in use.")
    if value not in entries or entries[value]["gen"] == value:
        raise _unknown(hierarchy, value)
    leaves = set(entries) - {entry["gen"] for entry in entries.values()}
    entries[label] = {"name": label, "gen": root}
    entries[value]["gen"] = label
    return Hierarchy.from_json({"name": hierarchy.name, "entries": _without_empty(entries, leaves)})


def _unknown(hierarchy: Hierarchy, node: str) -> HierarchyError:
    return HierarchyError(f"The hierarchy {hierarchy.name!r} has no node {node!r}: choose one of the list.")


def entries_of(hierarchy: Hierarchy) -> dict[str, dict[str, Any]]:
    """Return the nodes by unique keys, each as ``{"name", "gen" (key of the parent)}``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hierarchy.json"
        hierarchy.to_json(path)
        entries = json.loads(path.read_text(encoding="utf-8"))["entries"]
    return {key: {"name": entry["name"], "gen": entry["gen"]} for key, entry in entries.items()}


def _without_empty(entries: dict[str, dict[str, Any]], leaves: set[str]) -> dict[str, dict[str, Any]]:
    while True:
        parents = {entry["gen"] for key, entry in entries.items() if entry["gen"] != key}
        empty = [key for key in entries if key not in leaves and key not in parents]
        if not empty:
            return entries
        for key in empty:
            del entries[key]


def build(how: str, counts: Mapping[str, int], option: Any = True) -> Hierarchy:
    """Build a hierarchy from the values of a column and their counts; ``option`` as in :class:`Recipe`."""
    if how not in BUILDERS:
        raise HierarchyError(f"A hierarchy cannot be built from {how!r}: choose {', '.join(BUILDERS)}.")
    try:
        return Recipe(how, tuple(option) if isinstance(option, list) else option).build(counts)
    except (ValueError, TypeError) as error:
        why = "" if option is True else f" with {option!r} ({error})"
        raise HierarchyError(
            f"Values such as {next(iter(counts), '')!r} cannot form {BUILDERS[how]}{why}: choose another way."
        ) from None


def read(content: bytes, suffix: str) -> Hierarchy:
    """Read a hierarchy from the content of a JSON file (SaNGreeA) or a CSV file (ARX)."""
    if suffix not in (".json", ".csv"):
        raise HierarchyError(f"A hierarchy must be a .json or .csv file, not {suffix!r}: choose another file.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"hierarchy{suffix}"
        path.write_bytes(content)
        try:
            return Hierarchy.from_json(path) if suffix == ".json" else Hierarchy.from_csv(path)
        except UnicodeDecodeError:
            raise HierarchyError("The file is not UTF-8 text: save it as UTF-8.") from None
        except HierarchyError as error:
            # The person has never seen the temporary name of the file.
            raise HierarchyError(str(error).replace(repr(str(path)), "The file")) from None
