"""The studio: the whole workbench behind one local web page."""

from __future__ import annotations

import importlib.util

from shoal.errors import ShoalError


def require_studio() -> None:
    """Say what is missing before anything is done."""
    if importlib.util.find_spec("nicegui") is None:
        raise ShoalError("The studio needs packages that are not installed: pip install 'shoal[studio]'.")
