"""The pages: each draws the state of a desk, and tells it what a person wants."""

from __future__ import annotations

from typing import Any

from shoal.studio.pages import audit, compare, data, export, shape


def add_pages(studio: Any) -> None:
    """Register all pages."""
    for page in (data, shape, compare, audit, export):
        page.add(studio)
