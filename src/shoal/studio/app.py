"""The studio as a web application: desks, the JSON twin and the pages behind the guard."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from pathlib import Path

from shoal._kernels import ahead
from shoal.errors import ShoalError, surviving_broken_pipes
from shoal.studio.desk import CREW, Workspace
from shoal.studio.guard import AccessGuard
from shoal.studio.store import Store

MOST_UPLOAD = 1024**3
"""Bytes of an uploaded file."""


class Studio:
    """The desks of everybody who has the token, by name."""

    def __init__(self, store: Store, workspace: Path, *, trust: bool = False) -> None:
        self.store = store
        self.workspace = workspace
        self.trust = trust
        self._desks: dict[str, Workspace] = {}
        self._lock = threading.Lock()

    def desk(self, name: str) -> Workspace:
        """A desk by its name; a new one if it is not known."""
        with self._lock:
            if name not in self._desks:
                self._desks[name] = Workspace(name, self.store, self.workspace, trust=self.trust)
            return self._desks[name]

    def opened_desk(self, name: str) -> Workspace:
        """The same; after it nothing on it has to be read."""
        desk = self.desk(name)
        if desk.source is not None:
            desk.read()
        return desk

    def close(self) -> None:
        """Stop what is under way at all desks."""
        for desk in self._desks.values():
            desk.close()
        self.store.close()


def make_app(studio: Studio, token: str, port: int, *, most_upload: int = MOST_UPLOAD) -> AccessGuard:
    """The application: pages, the JSON twin under /api, and the guard before both."""
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
    """Run the studio until it is interrupted; prints the address with its token."""
    import uvicorn

    store = Store(data_folder() if data is None else data)
    studio = Studio(store, folder, trust=trust)
    token = token or secrets.token_urlsafe(24)
    desk = store.newest() if resume else None
    if file is not None:
        desk = secrets.token_urlsafe(16)
        studio.desk(desk).open_path(file)
    listening = _listen(port)
    port = listening.getsockname()[1]
    address = f"http://127.0.0.1:{port}/?token={token}" + ("" if desk is None else f"&desk={desk}")
    print(f"The studio is at {address}\nStop it with Ctrl+C; nothing is lost.", flush=True)
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
    """Load and compile what a person needs first, while they still look for a file.

    Processes of their own compile, which takes a minute once; then this one only has to load.
    """
    from shoal.datasets import make_census
    from shoal.jobs.weights import WeightSession

    ahead.compile_ahead("questions", "clusters")
    CREW.prepare()
    ahead.wait("questions")
    census = make_census(300)
    WeightSession(census.frame, census.schema).ask()


def data_folder() -> Path:
    """Where the studio keeps its work by default."""
    if given := os.environ.get("SHOAL_STUDIO_DATA"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "shoal"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "shoal"
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "shoal"


def _listen(port: int) -> socket.socket:
    """A socket that only this machine can reach; who comes before the pages are ready, waits for them."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
    except OSError as error:
        raise ShoalError(f"Port {port} cannot be used ({error.strerror}): choose another by --port.") from None
    return listening
