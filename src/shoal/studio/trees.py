"""Hierarchies as a page shows and changes them."""

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
    "intervals": "ranges of numbers",
    "prefix": "leading characters, as of postal codes",
    "dates": "month, year and decade",
    "order": "neighbours in an order, two by two",
    "frequencies": "rare values together",
}
MOST_SHOWN = 2_000
"""Nodes that a page shows."""


def as_tree(hierarchy: Hierarchy) -> dict[str, Any]:
    """A tree of nodes, each with a key that is its own, its label and whether it is a value."""
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
    """Put a value, or a group with all that is in it, below another node; groups that are left empty go."""
    entries = entries_of(hierarchy)
    for key in (value, node):
        if key not in entries:
            raise HierarchyError(f"There is no {key!r} in the hierarchy {hierarchy.name!r}: choose one that is shown.")
    if entries[value]["gen"] == value:
        raise HierarchyError(f"{value!r} is the top of the hierarchy: move what is below it.")
    leaves = set(entries) - {entry["gen"] for entry in entries.values()}
    if node in leaves:
        raise HierarchyError(f"{node!r} is a value, and nothing can be below it: choose a group.")
    above = node
    while entries[above]["gen"] != above:
        if above == value:
            raise HierarchyError(f"{node!r} lies below {value!r}: choose another group.")
        above = entries[above]["gen"]
    entries[value]["gen"] = node
    return Hierarchy.from_json({"name": hierarchy.name, "entries": _without_empty(entries, leaves)})


def rename(hierarchy: Hierarchy, node: str, label: str) -> Hierarchy:
    """Call a group something else."""
    entries = entries_of(hierarchy)
    if node not in entries:
        raise HierarchyError(f"There is no {node!r} in the hierarchy {hierarchy.name!r}: choose one that is shown.")
    entries[node]["name"] = label.strip() or entries[node]["name"]
    return Hierarchy.from_json({"name": hierarchy.name, "entries": entries})


def add_group(hierarchy: Hierarchy, label: str, value: str) -> Hierarchy:
    """A new group below the top, with one value in it."""
    entries = entries_of(hierarchy)
    root = next(key for key, entry in entries.items() if entry["gen"] == key)
    if not label.strip() or label in entries:
        raise HierarchyError(f"A group cannot be called {label!r}: choose a name that nothing has.")
    if value not in entries or entries[value]["gen"] == value:
        raise HierarchyError(f"There is no {value!r} to begin the group with: choose a value that is shown.")
    leaves = set(entries) - {entry["gen"] for entry in entries.values()}
    entries[label] = {"name": label, "gen": root}
    entries[value]["gen"] = label
    return Hierarchy.from_json({"name": hierarchy.name, "entries": _without_empty(entries, leaves)})


def entries_of(hierarchy: Hierarchy) -> dict[str, dict[str, Any]]:
    """The nodes by keys of their own: ``{"name", "gen" (the parent's key)}``."""
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
    """A hierarchy over the values of a column, made from how often each occurs; ``option`` as in :class:`Recipe`."""
    if how not in BUILDERS:
        raise HierarchyError(f"A hierarchy cannot be built from {how!r}: choose {', '.join(BUILDERS)}.")
    try:
        return Recipe(how, tuple(option) if isinstance(option, list) else option).build(counts)
    except (ValueError, TypeError) as error:
        why = "" if option is True else f" with {option!r} ({error})"
        raise HierarchyError(
            f"A hierarchy of {BUILDERS[how]} cannot be built of values such as {next(iter(counts), '')!r}{why}: choose "
            "another way."
        ) from None


def read(content: bytes, suffix: str) -> Hierarchy:
    """A hierarchy from the content of a JSON file (SaNGreeA) or a CSV file (ARX)."""
    if suffix not in (".json", ".csv"):
        raise HierarchyError(f"A hierarchy is a .json or .csv file, not {suffix!r}: choose another.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"hierarchy{suffix}"
        path.write_bytes(content)
        try:
            return Hierarchy.from_json(path) if suffix == ".json" else Hierarchy.from_csv(path)
        except UnicodeDecodeError:
            raise HierarchyError("The file is no text in UTF-8: save it so.") from None
        except HierarchyError as error:
            # The person has never seen the name that the file has here.
            raise HierarchyError(str(error).replace(repr(str(path)), "The file")) from None
