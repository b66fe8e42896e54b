"""How much memory a table may take."""

from __future__ import annotations

import os

SHARE_OF_MEMORY = 0.5
"""Of the machine's memory that a table may take before it is worked on from disk, and that is then used."""


def usable_memory() -> int:
    """Bytes that may be used if nobody says: half of what the machine has."""
    return int(SHARE_OF_MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
