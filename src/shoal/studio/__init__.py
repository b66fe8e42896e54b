"""The studio: the workbench as a local web application, with pages and a JSON API.

It draws what the library computes and holds no algorithm of its own.
"""

from __future__ import annotations

import importlib.util

from shoal.errors import ShoalError


def require_studio() -> None:
    """Raise an error if the packages of the studio are not installed."""
    if importlib.util.find_spec("nicegui") is None:
        raise ShoalError("The studio needs packages that are not installed: pip install 'shoal[studio]'.")
