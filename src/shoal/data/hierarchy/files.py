"""Read hierarchies from files, with errors that name the file and the way out, and write whole files or nothing."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from shoal.data.files import replacing
from shoal.errors import DataError, HierarchyError

PathLike = str | os.PathLike[str]


def read_entries(source: PathLike | Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the entries of a hierarchy in SaNGreeA's format."""
    origin = "the mapping" if isinstance(source, Mapping) else repr(os.fspath(source))
    content = source if isinstance(source, Mapping) else _parse_json(_read_text(source), origin)
    entries = content.get("entries") if isinstance(content, Mapping) else None
    if not isinstance(entries, Mapping):
        raise HierarchyError(
            f"{origin} is not a hierarchy: give an object 'entries' with a name, a 'gen' and a level for each key."
        )
    return str(content.get("name", "")), entries


def read_rows(path: PathLike, delimiter: str) -> list[list[str]]:
    """Return the rows of a table without empty lines."""
    reader = csv.reader(StringIO(_read_text(path), newline=""), delimiter=delimiter, strict=True)
    try:
        return [row for row in reader if row]
    except csv.Error as error:
        raise HierarchyError(
            f"{os.fspath(path)!r} is not a table, {error} in line {reader.line_num}: "
            f"save it as plain text with the delimiter {delimiter!r}."
        ) from None


def write_entries(path: PathLike, name: str, entries: Mapping[str, Any]) -> None:
    """Write a hierarchy in SaNGreeA's format."""
    _write_text(path, json.dumps({"name": name, "entries": entries}, indent=2, ensure_ascii=False) + "\n")


def write_rows(path: PathLike, rows: Iterable[Sequence[str]], delimiter: str) -> None:
    """Write a table without header."""
    text = StringIO(newline="")
    # With "\n" alone a carriage return inside a label stays unquoted, and readers take it for the end of a row.
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    _write_text(path, text.getvalue())


def _read_text(path: PathLike) -> str:
    try:
        # Bytes first: opening as text would turn a carriage return inside a quoted label into a line feed.
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise HierarchyError(
            f"the hierarchy file {os.fspath(path)!r} cannot be read ({error.strerror}): check the path."
        ) from None
    except UnicodeDecodeError as error:
        raise HierarchyError(
            f"the hierarchy file {os.fspath(path)!r} is not UTF-8 text (byte {error.start}): save it as UTF-8."
        ) from None


def _parse_json(text: str, origin: str) -> Any:
    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # json keeps the last of two equal keys, so a value listed twice would lose its first parent silently.
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
            raise HierarchyError(f"{origin} lists the key {twice!r} twice: keep it in one place only.")
        return found

    try:
        return json.loads(text, object_pairs_hook=without_duplicates)
    except json.JSONDecodeError as error:
        raise HierarchyError(
            f"{origin} is not JSON, {error.msg} in line {error.lineno}: correct it, or read a table with from_csv."
        ) from None


def _write_text(path: PathLike, text: str) -> None:
    try:
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(text.encode())
    except (DataError, OSError) as error:
        raise HierarchyError(f"the hierarchy file {os.fspath(path)!r} cannot be written: {error}") from None
