"""The pages of the studio: each draws the state of a workspace and passes the actions of the person on to it."""

from __future__ import annotations

from typing import Any

from shoal.studio.pages import audit, compare, data, export, shape


def add_pages(studio: Any) -> None:
    """Register all pages."""
    for page in (data, shape, compare, audit, export):
        page.add(studio)
