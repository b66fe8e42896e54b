"""Common ancestors in a hierarchy, from the leaf runs of its nodes.

Leaves are numbered depth first, so the values under a node are the run ``first[node] .. last[node]``, and the lowest
node over a set of values is the first one above its smallest leaf whose run reaches its largest leaf.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal._kernels._jit import jit


@jit
def common_ancestor(table: npt.NDArray[np.int32], last: npt.NDArray[np.int32], lo: int, hi: int) -> int:
    """Return the lowest node over the leaves ``lo .. hi`` (``lo <= hi``)."""
    level = 0
    while last[table[lo, level]] < hi:
        level += 1
    return table[lo, level]  # type: ignore[no-any-return]


@jit
def common_ancestors(
    table: npt.NDArray[np.int32], last: npt.NDArray[np.int32], lo: npt.NDArray[np.integer], hi: npt.NDArray[np.integer]
) -> npt.NDArray[np.int32]:
    """Return the lowest node over each run of leaves ``lo[i] .. hi[i]``."""
    nodes = np.empty(lo.shape[0], dtype=np.int32)
    for i in range(lo.shape[0]):
        nodes[i] = common_ancestor(table, last, lo[i], hi[i])
    return nodes
