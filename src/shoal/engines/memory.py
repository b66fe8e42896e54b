"""The memory that a table may take."""

from __future__ import annotations

import os

SHARE_OF_MEMORY = 0.5
"""Share of the machine's memory that a table may take before it is processed from disk, and that is then used."""


def usable_memory() -> int:
    """Return the bytes that may be used by default: half of the machine's memory."""
    return int(SHARE_OF_MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
