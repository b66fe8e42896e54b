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

This page is made by `docs/make_cli.py` from the help texts: `shoal COMMAND --help` says the same.

Results go to stdout, progress and errors to stderr. Bad input is told in one sentence that names the culprit, the value
and the way out. Files are written in full or not at all.

| exit code | means |
|---|---|
| 0 | done, and every level asked for is reached |
| 1 | a level asked for is not reached; `shoal anonymize` then wrote nothing |
| 2 | bad usage or input |
| 130 | interrupted |
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page: one section for ``shoal``, one for each command."""
    root = typer.main.get_command(app)
    context = root.context_class(root, info_name="shoal", terminal_width=WIDTH, max_content_width=WIDTH)
    sections = [INTRODUCTION, _section("shoal", root, context)]
    for name, command in commands().items():
        inner = command.context_class(command, parent=context, info_name=name, terminal_width=WIDTH)
        sections.append(_section(f"shoal {name}", command, inner))
    return "\n".join(sections)


def commands() -> dict[str, Any]:
    """The commands by name."""
    found: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return found


def _section(title: str, command: Any, context: Any) -> str:
    """A command's help in plain text, its examples apart, so that their lines stay as they are."""
    about, _, examples = (command.help or "").partition("For example:")
    # Typer draws boxes as wide as the terminal unless it is told to write plain text.
    command.help, command.epilog, command.rich_markup_mode = about.strip(), None, None
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    section = f"## {title}\n\n```text\n{text}\n```\n"
    if examples.strip():
        # A line that goes on is indented deeper; a shell needs to be told.
        lines = re.sub(r"\n {3,}", " \\\\\n    ", re.sub(r"(?m)^ {1,2}(?=\S)", "", examples).strip("\n"))
        section += f"\nFor example:\n\n```console\n{lines.strip()}\n```\n"
    return section


if __name__ == "__main__":
    main()
