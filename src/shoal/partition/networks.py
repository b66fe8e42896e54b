"""Networks between the rows of a table, and the loss when only clusters of them are released.

After Campan and Truta (2009): a cluster is released with its size and the number of links within it, a pair of clusters
with the number of links between them. Actual links can then no longer be distinguished from possible ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from shoal._kernels.sangreea_links import Links
from shoal.data import frames
from shoal.errors import DataError, ShoalError
from shoal.privacy.counts import close_labels


class Network(NamedTuple):
    """Undirected links between rows."""

    at: np.ndarray
    to: np.ndarray
    """int64: the neighbours of row i, ascending, are to[at[i] : at[i + 1]]."""

    @property
    def n_rows(self) -> int:
        """Number of rows, linked or not."""
        return len(self.at) - 1

    @property
    def degrees(self) -> np.ndarray:
        """Number of neighbours of each row."""
        return np.diff(self.at)

    @property
    def edges(self) -> np.ndarray:
        """The links, each once: int array (links, 2), the lower row first."""
        pairs = np.column_stack([np.repeat(np.arange(self.n_rows), self.degrees), self.to])
        return pairs[pairs[:, 0] < pairs[:, 1]]


class ClusterGraph(NamedTuple):
    """The released part of a network; suppressed rows are the last cluster."""

    sizes: np.ndarray
    """Number of released rows of each cluster."""
    inner: np.ndarray
    """Number of links within each cluster."""
    pairs: np.ndarray
    """int array (pairs, 2): clusters that are linked, the lower number first."""
    between: np.ndarray
    """Number of links between each such pair."""


class StructuralLoss(NamedTuple):
    """Losses of the structure of a network."""

    intra: np.ndarray
    """For each cluster: the expected number of errors if its links are redrawn from their number."""
    inter: np.ndarray
    """The same for each linked pair of clusters."""
    nsil: float
    """Their sum relative to its maximum: from 0 to 1."""


def read_network(edges: Any, n_rows: int) -> Network:
    """Read links from pairs of row positions: a list, an array or a dataframe of two columns.

    A link may be listed in both directions, and more than once.

    Examples
    --------
    >>> network = read_network([[0, 1], [2, 1], [1, 0]], 4)
    >>> network.degrees.tolist(), network.edges.tolist()
    ([1, 2, 1, 0], [[0, 1], [1, 2]])
    """
    pairs = _pairs(edges)
    if pairs.size and (pairs.min() < 0 or pairs.max() >= n_rows):
        wrong = pairs[(pairs < 0) | (pairs >= n_rows)][0]
        raise DataError(f"edges name the row {wrong}, but rows are numbered from 0 to {n_rows - 1}: correct them.")
    loops = pairs[pairs[:, 0] == pairs[:, 1]]
    if len(loops):
        raise DataError(f"edges link row {loops[0, 0]} with itself: remove such links.")
    both = np.concatenate([pairs, pairs[:, ::-1]])
    ends = np.unique(both[:, 0] * n_rows + both[:, 1])
    start, to = ends // max(n_rows, 1), ends % max(n_rows, 1)
    at = np.concatenate(([0], np.cumsum(np.bincount(start, minlength=n_rows)))).astype(np.int64)
    return Network(at, to.astype(np.int64))


def weigh_links(network: Network, alpha: float, beta: float, n_attributes: int) -> Links:
    """Return a network with weights, for kernels."""
    return Links(network.at, network.to, float(alpha), float(beta), n_attributes, max(network.n_rows - 2, 1))


def neighbourhood_distance(network: Network, one: int, other: int) -> float:
    """Return the share of other rows that are linked with exactly one of two rows.

    Examples
    --------
    >>> star = read_network([[0, 1], [0, 2], [0, 3]], 4)
    >>> neighbourhood_distance(star, 1, 2), neighbourhood_distance(star, 0, 1)
    (0.0, 1.0)
    """
    near, far = (network.to[network.at[row] : network.at[row + 1]] for row in (one, other))
    differing = np.setdiff1d(np.setxor1d(near, far), [one, other])
    return len(differing) / max(network.n_rows - 2, 1)


def cluster_graph(network: Network, labels: np.ndarray, members: np.ndarray | None = None) -> ClusterGraph:
    """Count the links within clusters and between them.

    If only some rows are released, ``members`` marks them, and neither the others nor their links are counted.

    Examples
    --------
    >>> path = read_network([[0, 1], [1, 2], [2, 3]], 4)
    >>> graph = cluster_graph(path, np.array([0, 0, 1, 1]))
    >>> graph.inner.tolist(), graph.pairs.tolist(), graph.between.tolist()
    ([1, 1], [[0, 1]], [1])
    """
    numbers, n_clusters = close_labels(labels)
    released = np.ones(network.n_rows, bool) if members is None else members.astype(bool)
    links = network.edges[released[network.edges].all(axis=1)]
    ends = np.sort(numbers[links], axis=1).astype(np.int64)
    within = ends[:, 0] == ends[:, 1]
    keys, between = np.unique(ends[~within, 0] * n_clusters + ends[~within, 1], return_counts=True)
    return ClusterGraph(
        sizes=np.bincount(numbers[released], minlength=n_clusters),
        inner=np.bincount(ends[within, 0], minlength=n_clusters),
        pairs=np.column_stack([keys // max(n_clusters, 1), keys % max(n_clusters, 1)]),
        between=between,
    )


def structural_loss(graph: ClusterGraph) -> StructuralLoss:
    """Return Campan and Truta's structural information loss of a cluster graph.

    In a cluster of s rows with e links, and between clusters of s and t rows with e links, it is twice e times the
    share of possible pairs that are not linked: of s (s - 1) / 2 pairs, or of s t.

    Examples
    --------
    >>> path = read_network([[0, 1], [1, 2], [2, 3]], 4)
    >>> loss = structural_loss(cluster_graph(path, np.array([0, 0, 1, 1])))
    >>> loss.intra.tolist(), loss.inter.tolist(), loss.nsil
    ([0.0, 0.0], [1.5], 0.5)
    """
    sizes, n = graph.sizes.astype(float), float(graph.sizes.sum())
    intra = _errors(graph.inner, sizes * (sizes - 1) / 2)
    inter = _errors(graph.between, sizes[graph.pairs[:, 0]] * sizes[graph.pairs[:, 1]])
    most = n * (n - 1) / 4
    return StructuralLoss(intra, inter, float((intra.sum() + inter.sum()) / most) if most else 0.0)


def _errors(links: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    return np.asarray(2 * links * (1 - links / np.maximum(pairs, 1)))


def _pairs(edges: Any) -> np.ndarray:
    """Return the links as an int array (links, 2)."""
    values = frames.open_frame(edges).to_numpy() if frames.is_frame(edges) else edges
    try:
        pairs = np.asarray(values)
    except ValueError:
        pairs = np.empty(0)
    if pairs.size == 0 and isinstance(values, list | tuple | np.ndarray) and len(values) == 0:
        return np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ShoalError(
            f"edges must be pairs of row positions, not {type(edges).__name__} of shape {pairs.shape}: "
            "give two columns."
        )
    if pairs.dtype.kind not in "iu":
        raise ShoalError(f"edges must be whole numbers, the positions of rows, not {pairs.dtype}: count rows from 0.")
    return pairs.astype(np.int64)
