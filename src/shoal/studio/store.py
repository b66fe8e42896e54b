"""Persistent state of the studio: a SQLite file, and a folder with table and schema per workspace."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from shoal.errors import ShoalError

FILE = "studio.sqlite"


class Store:
    """SQLite file with the state of each workspace, next to a folder per workspace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection = sqlite3.connect(folder / FILE, check_same_thread=False, isolation_level=None)
            # Every change is on disk when the call returns, and a killed process leaves no partial change.
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS desks (id TEXT PRIMARY KEY, changed REAL NOT NULL, state TEXT NOT NULL)"
            )
        except (OSError, sqlite3.Error) as error:
            raise ShoalError(
                f"The studio cannot save its state in {str(folder)!r} ({error}): choose another folder."
            ) from None
        self._lock = threading.Lock()

    def load(self, workspace: str) -> dict[str, Any] | None:
        """Return the state of a workspace; None if it is unknown or cannot be read."""
        with self._lock:
            row = self._connection.execute("SELECT state FROM desks WHERE id = ?", (workspace,)).fetchone()
        if row is None:
            return None
        try:
            found: dict[str, Any] = json.loads(row[0])
        except ValueError:
            return None
        return found

    def save(self, workspace: str, state: dict[str, Any]) -> None:
        """Save the state of a workspace."""
        text = json.dumps(state)
        with self._lock:
            self._connection.execute(
                "INSERT INTO desks VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET changed = excluded.changed, "
                "state = excluded.state",
                (workspace, time.time(), text),
            )

    def newest(self) -> str | None:
        """Return the workspace that was changed last."""
        with self._lock:
            row = self._connection.execute("SELECT id FROM desks ORDER BY changed DESC LIMIT 1").fetchone()
        return None if row is None else str(row[0])

    def drop(self, workspace: str) -> None:
        """Delete a workspace and its files."""
        with self._lock:
            self._connection.execute("DELETE FROM desks WHERE id = ?", (workspace,))
        shutil.rmtree(self.folder_of(workspace), ignore_errors=True)

    def folder_of(self, workspace: str) -> Path:
        """Return the folder of a workspace."""
        return self.folder / "desks" / workspace

    def close(self) -> None:
        """Close the SQLite file."""
        with self._lock:
            self._connection.close()
