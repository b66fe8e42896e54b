"""The web application: workspaces, and the pages and the JSON API behind the access guard."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from pathlib import Path

from shoal._kernels import ahead
from shoal.errors import ShoalError, surviving_broken_pipes
from shoal.studio.guard import AccessGuard
from shoal.studio.store import Store
from shoal.studio.workspace import POOL, Workspace

MOST_UPLOAD = 1024**3
"""Largest uploaded file, in bytes."""


class Studio:
    """All workspaces, by name."""

    def __init__(self, store: Store, root: Path, *, trust: bool = False) -> None:
        self.store = store
        self.root = root
        self.trust = trust
        self._workspaces: dict[str, Workspace] = {}
        self._lock = threading.Lock()

    def workspace(self, name: str) -> Workspace:
        """Return a workspace by its name; create it if it is unknown."""
        with self._lock:
            if name not in self._workspaces:
                self._workspaces[name] = Workspace(name, self.store, self.root, trust=self.trust)
            return self._workspaces[name]

    def loaded_workspace(self, name: str) -> Workspace:
        """Return a workspace by its name, with its table in memory."""
        workspace = self.workspace(name)
        if workspace.source is not None:
            workspace.read()
        return workspace

    def close(self) -> None:
        """Close all workspaces and the store."""
        for workspace in self._workspaces.values():
            workspace.close()
        self.store.close()


def make_app(studio: Studio, token: str, port: int, *, most_upload: int = MOST_UPLOAD) -> AccessGuard:
    """Return the application: the pages, the JSON API under /api, and the guard in front of both."""
    from fastapi import FastAPI
    from nicegui import ui

    from shoal.studio.api import make_api
    from shoal.studio.pages import add_pages

    app = FastAPI(title="Shoal studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.mount("/api", make_api(studio))
    add_pages(studio)
    ui.run_with(
        app, title="Shoal studio", dark=None, storage_secret=secrets.token_urlsafe(16), show_welcome_message=False
    )
    return AccessGuard(app, token, port, most_upload)


def serve(
    folder: Path,
    *,
    file: Path | None = None,
    port: int = 0,
    data: Path | None = None,
    token: str | None = None,
    trust: bool = False,
    resume: bool = False,
    most_upload: int = MOST_UPLOAD,
    opened: bool = True,
) -> None:
    """Run the studio until it is interrupted; print the address with its token."""
    import uvicorn

    store = Store(data_folder() if data is None else data)
    studio = Studio(store, folder, trust=trust)
    token = token or secrets.token_urlsafe(24)
    workspace = store.newest() if resume else None
    if file is not None:
        workspace = secrets.token_urlsafe(16)
        studio.workspace(workspace).open_path(file)
    listening = _listen(port)
    port = listening.getsockname()[1]
    address = f"http://127.0.0.1:{port}/?token={token}" + ("" if workspace is None else f"&desk={workspace}")
    print(f"The studio is at {address}\nPress Ctrl+C to stop it; all work is saved.", flush=True)
    if opened:
        import webbrowser

        threading.Timer(1.0, webbrowser.open, [address]).start()
    threading.Thread(target=warm, daemon=True).start()
    config = uvicorn.Config(
        make_app(studio, token, port, most_upload=most_upload), log_level="warning", ws_max_size=16 * 1024**2
    )
    try:
        with surviving_broken_pipes():
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        studio.close()


def warm() -> None:
    """Load and compile the code of the first pages while the person still looks for a file.

    Separate processes compile, which takes a minute once; this process then only loads the result.
    """
    from shoal.datasets import make_census
    from shoal.jobs.weights import WeightSession

    ahead.compile_ahead("questions", "clusters")
    POOL.prepare()
    ahead.wait("questions")
    census = make_census(300)
    WeightSession(census.frame, census.schema).ask()


def data_folder() -> Path:
    """Return the default folder for the state of the studio."""
    if given := os.environ.get("SHOAL_STUDIO_DATA"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "shoal"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "shoal"
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "shoal"


def _listen(port: int) -> socket.socket:
    """Open a socket that only this machine can reach; early requests wait until the pages are ready."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
    except OSError as error:
        raise ShoalError(f"Port {port} cannot be used ({error.strerror}): choose another by --port.") from None
    return listening
