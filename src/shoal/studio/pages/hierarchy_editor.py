"""The dialog that shows, builds, loads and edits a hierarchy, by drag and drop or with lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from nicegui import ui

from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.errors import HierarchyError
from shoal.studio import hierarchies
from shoal.studio.pages import layout
from shoal.studio.workspace import Workspace

OPENED_AT_ONCE = 60
"""Number of nodes up to which a tree is expanded in full; of a larger one only the top is expanded."""
OPTIONS = {
    "intervals": "Widths of the ranges, such as 5, 10, 20",
    "prefix": "Characters kept per level, such as 3, 2",
    "dates": "Units, such as month, year",
    "order": "Neighbours merged per level, such as 2",
    "frequencies": "Shares below which values are rare, such as 0.01, 0.05",
}
NODE = """
<div class="shoal-node" :data-id="props.node.more ? null : props.node.id"
     :draggable="!props.node.more && !props.node.top" :data-testid="'node-' + props.node.label">
  {{ props.node.label }} <span v-if="props.node.size" class="soft text-xs">({{ props.node.size }})</span>
</div>
"""
STYLE = """
.shoal-node { padding: 0 .35rem; border-radius: .3rem; } .shoal-node[draggable=true] { cursor: grab; }
.shoal-node.shoal-over { background: var(--tint); outline: 2px dashed var(--sea); }
"""
LEAVE = "document.querySelectorAll('.shoal-over').forEach((one) => one.classList.remove('shoal-over'));"
TAKE = """(event) => {
  const node = event.target.closest("[data-id]");
  if (node) { event.dataTransfer.setData("text/plain", node.dataset.id); event.dataTransfer.effectAllowed = "move"; }
}"""
HOVER = f"""(event) => {{
  const node = event.target.closest("[data-id]"); {LEAVE}
  if (node) {{ event.preventDefault(); node.classList.add("shoal-over"); }}
}}"""
DROP = f"""(event) => {{
  const node = event.target.closest("[data-id]"); {LEAVE}
  if (node) {{ event.preventDefault(); emit(event.dataTransfer.getData("text/plain"), node.dataset.id); }}
}}"""


async def edit_hierarchy(workspace: Workspace, name: str, changed: Callable[[], Awaitable[None]]) -> None:
    """Open the dialog for a column; await ``changed`` after the dialog if the hierarchy has changed."""
    editor = Editor(workspace, name)
    await editor.run()
    if editor.changed:
        await changed()


class Editor:
    """The dialog of one column."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace, self._name = workspace, name
        self._tree: dict[str, Any] | None = None
        self._opened: list[str] | None = None
        self.changed = False

    async def run(self) -> None:
        """Show the dialog until it is closed."""
        ui.add_css(STYLE)
        with ui.dialog() as self._dialog, ui.card().classes("w-full p-4 gap-3").style("max-width: 62rem"):
            layout.mark(self._dialog, "hierarchy-dialog", f"Hierarchy of {self._name}")
            with ui.row().classes("w-full items-center justify-between no-wrap"):
                layout.heading(f"Hierarchy of {self._name}", 2)
                layout.mark(ui.button("Done", on_click=self._dialog.close).props("no-caps"), "hierarchy-done")
            with ui.element("div").classes("grid grid-cols-1 md:grid-cols-2 gap-4 w-full"):
                self._shown = ui.column().classes("gap-1 overflow-auto min-h-40").style("max-height: 60vh")
                self._tools = ui.column().classes("gap-1 overflow-auto").style("max-height: 60vh")
        await self._draw()
        await self._dialog
        if not self._dialog.is_deleted:  # the person may have left the page meanwhile
            self._dialog.delete()

    async def _draw(self) -> None:
        worked, tree = await layout.do(self._read)
        if not worked:
            return
        self._tree = tree
        for place, draw in ((self._shown, self._draw_tree), (self._tools, self._draw_tools)):
            place.clear()
            with place:
                draw()

    def _read(self) -> dict[str, Any] | None:
        found = self._workspace.hierarchy(self._name)
        return None if found is None else hierarchies.as_tree(found)

    # Tree

    def _draw_tree(self) -> None:
        if self._tree is None:
            words = "There is no hierarchy yet: build one from the values, or load a file."
            ui.label(words).props("data-testid=no-hierarchy")
            ui.label(_without(self._workspace.schema[self._name].kind)).classes("soft text-sm")
            return
        ui.label("Drag a value or group onto another group to move it there.").classes("soft text-sm")
        shown = _pruned(self._tree) | {"top": True}
        tree = ui.tree([shown], on_select=self._select, on_expand=self._remember)
        # Without transitions, collapsed nodes are not part of the page.
        tree.props("dense no-transition no-selection-unset")
        tree.add_slot("default-header", NODE)
        layout.mark(tree, "hierarchy-tree", f"Hierarchy of {self._name}")
        tree.on("dragstart", js_handler=TAKE)
        tree.on("dragover", js_handler=HOVER)
        tree.on("drop", self._drop, js_handler=DROP)
        if self._opened is None:
            self._opened = _opened_first(self._tree)
        tree.expand(self._opened)

    def _remember(self, event: Any) -> None:
        self._opened = list(event.value)

    def _select(self, event: Any) -> None:
        """Select the clicked node in the lists, too."""
        assert self._tree is not None
        if event.value is not None and not event.value.startswith("\0") and event.value != self._tree["id"]:
            self._value.value = event.value

    async def _drop(self, event: Any) -> None:
        value, node = event.args
        assert self._tree is not None
        # A value has no children: a node that is dropped on one joins its group.
        target = _parent(self._tree, node) if _find(self._tree, node)["value"] else node
        if value != node and target is not None:
            await self._move(value, target)

    async def _move(self, value: str | None, node: str | None) -> None:
        if value is None or node is None:
            layout.show_error("A value or group is missing: choose the one to move, and its new group.")
            return
        await self._change(lambda found: hierarchies.move(found, value, node))

    async def _change(self, change: Callable[[Hierarchy], Hierarchy]) -> None:
        await self._apply(self._workspace.change_hierarchy, change)

    async def _apply(self, function: Callable[..., None], *arguments: Any) -> None:
        with self._dialog:
            worked, _ = await layout.do(function, self._name, *arguments)
            if worked:
                self.changed = True
                await self._draw()

    # Tools

    def _draw_tools(self) -> None:
        if self._tree is not None:
            nodes = list(_all(self._tree))[1:]
            everything = {one["id"]: one["label"] for one in nodes}
            groups = {self._tree["id"]: self._tree["label"]}
            groups |= {one["id"]: one["label"] for one in nodes if not one["value"]}
            self._draw_move(everything, groups)
            self._draw_add(everything)
            self._draw_rename(groups)
        self._draw_build(opened=self._tree is None)
        self._draw_load(opened=self._tree is None)
        if self._tree is not None:
            remove = ui.button("Remove the hierarchy", icon="delete", on_click=self._remove)
            layout.mark(remove.props("flat no-caps color=negative"), "remove-hierarchy")

    def _draw_move(self, everything: dict[str, str], groups: dict[str, str]) -> None:
        with _tool("Move a value or group", opened=True):
            self._value = _choice(everything, "move-value", "Value or group")
            node = _choice(groups, "move-node", "New group")
            _action("Move", "move", lambda: self._move(self._value.value, node.value))

    def _draw_add(self, everything: dict[str, str]) -> None:
        async def add() -> None:
            if value.value is None:
                layout.show_error("The first value of the group is missing: choose one.")
                return
            self._opened = [*(self._opened or []), label.value or ""]
            await self._change(lambda found: hierarchies.add_group(found, label.value or "", value.value))

        with _tool("New group"):
            label = _text("group-name", "Name of the group")
            value = _choice(everything, "group-value", "First value")
            _action("Add the group", "add-group", add)

    def _draw_rename(self, groups: dict[str, str]) -> None:
        async def rename() -> None:
            if node.value is None or not (label.value or "").strip():
                layout.show_error("A group or its new name is missing: choose a group, and enter a name.")
                return
            await self._change(lambda found: hierarchies.rename(found, node.value, label.value))

        with _tool("Rename a group"):
            node = _choice(groups, "rename-node", "Group")
            label = _text("rename-label", "New name")
            _action("Rename", "rename", rename)

    def _draw_build(self, *, opened: bool) -> None:
        async def build() -> None:
            try:
                chosen = read_option(how.value, option.value or "")
            except HierarchyError as error:
                layout.show_error(str(error))
                return
            self._opened = None
            await self._apply(self._workspace.build_hierarchy, how.value, chosen)

        kind = self._workspace.schema[self._name].kind
        with _tool("Build from the values", opened=opened):
            first = {"numeric": "intervals", "ordinal": "order"}.get(kind, "frequencies")
            how = _choice(hierarchies.BUILDERS, "build-how", "Levels")
            how.value = first
            option = _text("build-option", "Option (empty for the default)").props("hide-bottom-space")
            how.on_value_change(lambda: option.props.update({"hint": OPTIONS[how.value]}))
            option.props["hint"] = OPTIONS[first]
            if kind == "numeric":
                ui.label("The column becomes nominal.").classes("soft text-sm")
            _action("Build", "build", build)

    def _draw_load(self, *, opened: bool) -> None:
        async def load(event: Any) -> None:
            content, suffix = await event.file.read(), Path(event.file.name).suffix.lower()
            worked, found = await layout.do(hierarchies.read, content, suffix)
            upload.reset()
            if worked:
                self._opened = None
                await self._apply(self._workspace.set_hierarchy, found)

        with _tool("Load a file", opened=opened):
            ui.label("JSON (SaNGreeA) or CSV (ARX), one line per value.").classes("soft text-sm")
            upload = layout.drop_zone(load, ".json,.csv", "hierarchy-file", "Hierarchy file")

    async def _remove(self) -> None:
        self._opened = None
        await self._apply(self._workspace.set_hierarchy, None)


def read_option(how: str, text: str) -> Any:
    """Parse the option of a way to build a hierarchy; return True, the default, for an empty text."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        return True
    if how == "dates":
        return parts
    try:
        if how == "order":
            return int(text)
        return [int(part) if how == "prefix" else float(part) for part in parts]
    except ValueError:
        raise HierarchyError(
            f"The option {text!r} cannot be read: enter {OPTIONS[how][0].lower() + OPTIONS[how][1:]}."
        ) from None


def _without(kind: str) -> str:
    return f"Without a hierarchy, each group is released as a {'set' if kind == 'nominal' else 'range'} of values."


def _tool(title: str, *, opened: bool = False) -> ui.expansion:
    return ui.expansion(title, value=opened, group="tools" if not opened else None).props("dense").classes("w-full")


def _choice(options: dict[str, str], testid: str, label: str) -> ui.select | ui.input:
    if len(options) > hierarchies.MOST_SHOWN:
        return _text(testid, f"{label} (enter one of {len(options):,})")
    made = ui.select(options, label=label, with_input=len(options) > 10).props("outlined dense").classes("w-full mb-2")
    return layout.mark(made, testid, label)


def _text(testid: str, label: str) -> ui.input:
    return layout.mark(ui.input(label).props("outlined dense").classes("w-full mb-2"), testid, label)


def _action(text: str, testid: str, act: Callable[[], Awaitable[None]]) -> None:
    layout.mark(ui.button(text, on_click=act).props("no-caps outline"), testid)


def _all(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for child in tree["children"]:
        yield from _all(child)


def _find(tree: dict[str, Any], node: str) -> dict[str, Any]:
    return next(one for one in _all(tree) if one["id"] == node)


def _parent(tree: dict[str, Any], node: str) -> str | None:
    return next((one["id"] for one in _all(tree) if any(child["id"] == node for child in one["children"])), None)


def _opened_first(tree: dict[str, Any]) -> list[str]:
    groups = [one["id"] for one in _all(tree) if one["children"]]
    return groups if sum(1 for _ in _all(tree)) <= OPENED_AT_ONCE else [tree["id"]]


def _pruned(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the highest nodes of a tree, as many as a page shows, with the number of values per group."""
    shown = _highest(tree)

    def draw(node: dict[str, Any]) -> tuple[dict[str, Any], int]:
        drawn = [draw(child) for child in node["children"]]
        size = sum(values for _, values in drawn) if drawn else 1
        below = [one for one, _ in drawn if one["id"] in shown]
        if left := len(drawn) - len(below):
            below.append({"id": f"\0{node['id']}", "label": f"{left:,} more in the lists", "more": True})
        return {"id": node["id"], "label": node["label"], "size": size if drawn else 0, "children": below}, size

    return draw(tree)[0]


def _highest(tree: dict[str, Any]) -> set[str]:
    found, at = [tree], 0
    while at < len(found) < hierarchies.MOST_SHOWN:
        found += found[at]["children"]
        at += 1
    return {one["id"] for one in found[: hierarchies.MOST_SHOWN]}
