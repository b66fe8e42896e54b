"""What survives a restart: the state of each desk in a SQLite file, tables and schemas in a folder a desk."""

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
    """A SQLite file, and a folder for each desk beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection = sqlite3.connect(folder / FILE, check_same_thread=False, isolation_level=None)
            # Every change is on disk when it returns, and a killed process leaves no half of one.
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS desks (id TEXT PRIMARY KEY, changed REAL NOT NULL, state TEXT NOT NULL)"
            )
        except (OSError, sqlite3.Error) as error:
            raise ShoalError(
                f"The studio cannot keep its work in {str(folder)!r} ({error}): name another folder."
            ) from None
        self._lock = threading.Lock()

    def load(self, desk: str) -> dict[str, Any] | None:
        """The state of a desk; None if there is none, or if it cannot be read."""
        with self._lock:
            row = self._connection.execute("SELECT state FROM desks WHERE id = ?", (desk,)).fetchone()
        if row is None:
            return None
        try:
            found: dict[str, Any] = json.loads(row[0])
        except ValueError:
            return None
        return found

    def save(self, desk: str, state: dict[str, Any]) -> None:
        """Keep the state of a desk."""
        text = json.dumps(state)
        with self._lock:
            self._connection.execute(
                "INSERT INTO desks VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET changed = excluded.changed, "
                "state = excluded.state",
                (desk, time.time(), text),
            )

    def newest(self) -> str | None:
        """The desk that was worked at last."""
        with self._lock:
            row = self._connection.execute("SELECT id FROM desks ORDER BY changed DESC LIMIT 1").fetchone()
        return None if row is None else str(row[0])

    def drop(self, desk: str) -> None:
        """Forget a desk, and take its files away."""
        with self._lock:
            self._connection.execute("DELETE FROM desks WHERE id = ?", (desk,))
        shutil.rmtree(self.folder_of(desk), ignore_errors=True)

    def folder_of(self, desk: str) -> Path:
        """Where the files of a desk are."""
        return self.folder / "desks" / desk

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
