"""How often properties are tried."""

import os

from hypothesis import settings

EXAMPLES = int(os.environ.get("SHOAL_EXAMPLES", "150"))
"""Random tables for each property about what a release promises; others are tried on fewer."""

promise = settings(max_examples=EXAMPLES, deadline=None)

FEWER = settings(max_examples=EXAMPLES // 4 + 1, deadline=None)
"""Of what takes long for each table, or is promised elsewhere, too."""
