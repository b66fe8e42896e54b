"""Data of a decision tree on binned attributes: the rows, the attributes, and scratch buffers for one thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner

MOST_BINS = 256
ORDERED, ONE_VS_REST, SUBSET = 0, 1, 2
"""Cuts of the bins of an attribute: below and above; one against the others; any of them against the others."""
SQUARES, GINI, ENTROPY = 0, 1, 2
"""Criteria that a cut lowers: the squared error of numbers; the impurity of classes."""
DEPTH_FIRST, BREADTH_FIRST, BEST_FIRST = 0, 1, 2
"""Node that is cut next: the last one, left before right; the first one; or the one that gains most.

The order matters only if leaves, or cuts of an attribute, are limited.
"""
MOST_TRIES = 4
"""Cuts of one attribute that are tried when constraints on sensitive values reject the best one."""


class Samples(NamedTuple):
    """The rows, in the order of the tree."""

    bins: np.ndarray
    """uint8 (n, 8 w): the bin of each attribute, padded to whole words."""
    words: np.ndarray
    """uint64 (n, w): the same memory."""
    guide: np.ndarray
    """int32 (n, m): targets of the tree, numbers in fixed point, or one column of classes."""
    weight: np.ndarray
    """int64 (n,): weight of each row in fixed point; of length 0 if all weights are 1."""
    order: np.ndarray
    """int32 or int64 (n,): the row of the table at each place."""


class Attributes(NamedTuple):
    """The bins of each attribute."""

    n_bins: np.ndarray
    first: np.ndarray
    """int64 (q,): start of the bins of each attribute in their concatenation."""
    form: np.ndarray
    """int64 (q,): ORDERED, ONE_VS_REST or SUBSET."""
    missing: np.ndarray
    """int64 (q,): bin of the missing value of an ordered attribute, or -1."""


class Likeness(NamedTuple):
    """Attributes that the tree learns besides its guide."""

    ordered: np.ndarray
    """int64: ordered attributes."""
    nominal: np.ndarray
    """int64: nominal attributes; each value is an output of its own, 0 or 1."""
    value: np.ndarray
    """int64 (q, MOST_BINS): number that a bin of an ordered attribute represents, in fixed point."""
    share: np.ndarray
    """float64 (q,): weight of a unit of an attribute's squared error."""
    guide_share: float
    """Weight of a unit of the guide's squared error."""


class GrowthBounds(NamedTuple):
    """Stopping criteria."""

    smallest: int
    """Minimum number of rows of a leaf."""
    smallest_weight: int
    """Minimum weight of a leaf if rows are weighted, in the units of their weights."""
    least_cut: int
    """Minimum number of rows of a node that is cut."""
    least_gain: float
    """Minimum gain of a cut, in the units of scores."""
    most_leaves: int
    most_depth: int


class Limits(NamedTuple):
    """Limits on how far the tree may rely on each attribute."""

    penalised: bool
    """True if some penalty is not 1."""
    penalty: np.ndarray
    """float64 (q,): factor of the impurity that a cut leaves, when cuts are compared."""
    stops: bool
    """True if a penalised cut must also beat no cut at all."""
    level: np.ndarray
    """int64 (q,): the depth from which on an attribute may be cut."""
    visits: bool
    """True if levels are numbers of nodes examined before, not depths."""
    budget: np.ndarray
    """float64 (q,): total cost allowed for cuts of an attribute; lowered while the tree grows."""
    row_cost: float
    """Cost of a cut per row of its node; 0 if every cut costs 1."""


class AttributeDraw(NamedTuple):
    """Number of attributes examined in a node, and the state of their random draw."""

    n_tried: int
    """All attributes are examined if this is their number."""
    state: np.ndarray
    """uint64 (1,)."""
    turn: np.ndarray
    """int64 (q,): attributes in the order of the last draw."""


class Scratch(NamedTuple):
    """Scratch buffers for one thread; histograms are all zero between nodes."""

    histogram: np.ndarray
    """int64 (bins, slots): rows, weight (only if rows are weighted), then sums of the guide."""
    occurring: np.ndarray
    n_occurring: np.ndarray
    """Bins that occur in a node, for each attribute."""
    sequence: np.ndarray
    left: np.ndarray
    total: np.ndarray
    score: np.ndarray
    variant: np.ndarray
    length: np.ndarray
    """The best cuts of each attribute: (q, tries)."""
    walk: np.ndarray
    counts: np.ndarray
    inside: np.ndarray
    across: np.ndarray
    sums: np.ndarray
    whole: np.ndarray
    """For likeness: rows by bin; counts and sums of the left part; and of the node as a whole."""


class GrowthTask(NamedTuple):
    """Rows to grow a tree on, the rule, and scratch buffers; one for each thread."""

    samples: Samples
    attributes: Attributes
    likeness: Likeness
    blended: bool
    """True if the tree learns attributes too; else ``likeness`` is empty."""
    criterion: int
    n_classes: int
    growth: int
    bounds: GrowthBounds
    limits: Limits
    draw: AttributeDraw
    scratch: Scratch


def make_scratch(n_rows, attributes, slots):
    """Return scratch buffers for one thread; ``n_rows`` is 0 if no likeness is learned."""
    n_attributes, n_bins = len(attributes.n_bins), int(attributes.n_bins.sum())
    grid = (n_attributes, MOST_TRIES)
    return Scratch(
        histogram=np.zeros((n_bins, slots), np.int64),
        occurring=np.zeros((n_attributes, MOST_BINS), np.int64),
        n_occurring=np.zeros(n_attributes, np.int64),
        sequence=np.zeros(MOST_BINS, np.int64),
        left=np.zeros(slots, np.int64),
        total=np.zeros(slots, np.int64),
        score=np.zeros(grid),
        variant=np.zeros(grid, np.int64),
        length=np.zeros(grid, np.int64),
        walk=np.zeros(n_rows, np.int32 if n_rows < 1 << 31 else np.int64),
        counts=np.zeros(n_bins, np.int64),
        inside=np.zeros(n_attributes, np.int64),
        across=np.zeros(n_attributes, np.int64),
        sums=np.zeros(n_attributes, np.int64),
        whole=np.zeros(n_attributes, np.int64),
    )


@inner
def weight_slot(samples):
    """Return the slot of a histogram with the weight of a bin, which is its number of rows if each weight is 1."""
    return 1 if samples.weight.shape[0] > 0 else 0
