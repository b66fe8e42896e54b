"""What a decision tree on binned attributes works on: the rows, the attributes, and space for one thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner

MOST_BINS = 256
ORDERED, ONE_VS_REST, SUBSET = 0, 1, 2
"""How the bins of an attribute are cut: below and above; one against the others; any of them against the others."""
SQUARES, GINI, ENTROPY = 0, 1, 2
"""What a cut lowers: the squared error of numbers; the impurity of classes."""
DEPTH_FIRST, BREADTH_FIRST, BEST_FIRST = 0, 1, 2
"""Which node is cut next: the last one, left before right; the first one; or the one that gains most.

It matters only where leaves, or cuts of an attribute, are limited.
"""
MOST_TRIES = 4
"""Cuts of one attribute that are tried when constraints on sensitive values refuse the best one."""


class Samples(NamedTuple):
    """The rows, in the order in which the tree lays them."""

    bins: np.ndarray
    """uint8 (n, 8 w): the bin of each attribute, padded to whole words."""
    words: np.ndarray
    """uint64 (n, w): the same memory."""
    guide: np.ndarray
    """int32 (n, m): what the tree learns, numbers in fixed point, or one column of classes."""
    weight: np.ndarray
    """int64 (n,): weight of each row in fixed point; of length 0 when all weigh 1."""
    order: np.ndarray
    """int32 or int64 (n,): the row of the table that lies at each place."""


class Attributes(NamedTuple):
    """What the bins of each attribute are."""

    n_bins: np.ndarray
    first: np.ndarray
    """int64 (q,): where the bins of each attribute begin, all laid one behind the other."""
    form: np.ndarray
    """int64 (q,): ORDERED, ONE_VS_REST or SUBSET."""
    missing: np.ndarray
    """int64 (q,): bin of the missing value of an ordered attribute, or -1."""


class Likeness(NamedTuple):
    """Attributes that the tree learns beside its guide."""

    ordered: np.ndarray
    """int64: ordered attributes."""
    nominal: np.ndarray
    """int64: nominal attributes; each value is an output of its own, 0 or 1."""
    value: np.ndarray
    """int64 (q, MOST_BINS): what a bin of an ordered attribute stands for, in fixed point."""
    share: np.ndarray
    """float64 (q,): what a unit of an attribute's squared error counts."""
    guide_share: float
    """What a unit of the guide's squared error counts."""


class GrowthBounds(NamedTuple):
    """When growth ends."""

    smallest: int
    """Rows that every leaf has at least."""
    smallest_weight: int
    """Weight that every leaf has at least, where rows are weighted, in the units of their weights."""
    least_cut: int
    """Rows that a node must have to be cut."""
    least_gain: float
    """What a cut must gain, in the units of scores."""
    most_leaves: int
    most_depth: int


class Limits(NamedTuple):
    """How far the tree may lean on each attribute."""

    penalised: bool
    """Whether some penalty is not 1."""
    penalty: np.ndarray
    """float64 (q,): the impurity that a cut leaves counts so many times when cuts are compared."""
    stops: bool
    """Whether a penalised cut must also beat no cut at all."""
    level: np.ndarray
    """int64 (q,): the depth from which on an attribute may be cut."""
    visits: bool
    """Levels are numbers of nodes that were looked at before, not depths."""
    budget: np.ndarray
    """float64 (q,): what cuts of an attribute may cost in all; lowered while the tree grows."""
    row_cost: float
    """What a cut costs by row of its node; 0 if every cut costs 1."""


class AttributeDraw(NamedTuple):
    """How many attributes are looked at in a node, and what draws them."""

    n_tried: int
    """The number of attributes to look at all of them."""
    state: np.ndarray
    """uint64 (1,)."""
    turn: np.ndarray
    """int64 (q,): attributes in the order in which they were drawn last."""


class Scratch(NamedTuple):
    """Space for one thread; histograms are all zero between nodes."""

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
    """What is grown, and by which rule; one for each thread."""

    samples: Samples
    attributes: Attributes
    likeness: Likeness
    blended: bool
    """Whether the tree learns attributes too; else ``likeness`` is empty."""
    criterion: int
    n_classes: int
    growth: int
    bounds: GrowthBounds
    limits: Limits
    draw: AttributeDraw
    scratch: Scratch


def make_scratch(n_rows, attributes, slots):
    """Space for one thread; ``n_rows`` is 0 where no likeness is learned."""
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
    """Where a histogram holds the weight of a bin: that of all rows, where each weighs 1, is their number."""
    return 1 if samples.weight.shape[0] > 0 else 0
