"""Write docs/cli.md from the help texts of the command line: ``python docs/make_cli.py``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from shoal.cli import app

WIDTH = 100
PAGE = Path(__file__).with_name("cli.md")
INTRODUCTION = """\
# Command line

`docs/make_cli.py` generates this page from the help texts: `shoal COMMAND --help` prints the same.

Results go to stdout, progress and errors to stderr. Invalid input is reported in one sentence that names the culprit,
the value and the way out. Files are written in full or not at all.

| exit code | meaning |
|---|---|
| 0 | success, and all requested levels are reached |
| 1 | a requested level is not reached; `shoal anonymize` then writes no file |
| 2 | invalid usage or input |
| 130 | interrupted |
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page: one section for ``shoal``, and one per command."""
    root = typer.main.get_command(app)
    context = root.context_class(root, info_name="shoal", terminal_width=WIDTH, max_content_width=WIDTH)
    sections = [INTRODUCTION, _section("shoal", root, context)]
    for name, command in commands().items():
        inner = command.context_class(command, parent=context, info_name=name, terminal_width=WIDTH)
        sections.append(_section(f"shoal {name}", command, inner))
    return "\n".join(sections)


def commands() -> dict[str, Any]:
    """Return the commands by name."""
    found: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return found


def _section(title: str, command: Any, context: Any) -> str:
    """Return the help of a command as plain text, followed by its examples with their line breaks."""
    about, _, examples = (command.help or "").partition("For example:")
    # Typer draws boxes as wide as the terminal unless plain text is requested.
    command.help, command.epilog, command.rich_markup_mode = about.strip(), None, None
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    section = f"## {title}\n\n```text\n{text}\n```\n"
    if examples.strip():
        # A continued line is indented deeper; a shell needs a backslash.
        lines = re.sub(r"\n {3,}", " \\\\\n    ", re.sub(r"(?m)^ {1,2}(?=\S)", "", examples).strip("\n"))
        section += f"\nFor example:\n\n```console\n{lines.strip()}\n```\n"
    return section


if __name__ == "__main__":
    main()
