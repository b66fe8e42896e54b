"""Decision trees on encoded columns: the bin of a value decides which rows go left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal._kernels import groups
from shoal._kernels import tree as kernel
from shoal._kernels.guard import Guard
from shoal._kernels.tree_data import (
    DEPTH_FIRST,
    ENTROPY,
    GINI,
    MOST_BINS,
    ONE_VS_REST,
    ORDERED,
    SQUARES,
    SUBSET,
    AttributeDraw,
    Attributes,
    GrowthBounds,
    GrowthTask,
    Likeness,
    Limits,
    Samples,
    make_scratch,
)
from shoal.data.table import Column
from shoal.partition.cut_tree import Cut, Cuts, RowRange, grow_in_threads
from shoal.privacy.rules import with_scratch

FORMS = {"one-vs-rest": ONE_VS_REST, "subset": SUBSET}
CRITERIA = {"gini": GINI, "entropy": ENTROPY}
FIXED_POINT = 1 << 20
"""Units of a fixed-point number per standard deviation: finer than any cut can distinguish, and far from overflow."""
FIXED_WEIGHT = 1 << 10
"""Units of the largest weight: squares of sums of weights must not overflow either."""
NO_LIMIT = np.iinfo(np.int32).max
_NONE = np.empty(0, np.int64)
_ALONE = Likeness(_NONE, _NONE, np.empty((0, MOST_BINS), np.int64), np.empty(0), 1.0)


class Binning(NamedTuple):
    """Assignment of the codes of each column to at most 256 bins."""

    lookups: tuple[np.ndarray, ...]
    """Bin of each code."""
    attributes: Attributes


class Response(NamedTuple):
    """Targets of a tree: numbers in fixed point, one column each, or one column of classes."""

    guide: np.ndarray
    criterion: int
    n_classes: int


def learn_numbers(outputs: np.ndarray) -> Response:
    """Return numeric targets (n, m), scaled together so that the largest standard deviation is one unit."""
    outputs = np.asarray(outputs, float).reshape(len(outputs), -1)
    centered = outputs - outputs.mean(axis=0)
    largest = np.iinfo(np.int32).max
    fixed = np.clip(np.rint(centered / unit_of(outputs)), -largest, largest).astype(np.int32)
    return Response(fixed, SQUARES, 0)


def unit_of(outputs: np.ndarray) -> float:
    """Return the value of one unit of the fixed-point numbers that a tree learns in place of these (n, m)."""
    return (float(outputs.std(axis=0).max(initial=0.0)) or 1.0) / FIXED_POINT


def learn_classes(codes: np.ndarray, n_classes: int, criterion: str) -> Response:
    """Return classes to learn, as codes; two classes with gini are one column of zeros and ones."""
    if n_classes <= 2 and criterion == "gini":
        return Response(np.array(codes, np.int32).reshape(-1, 1), SQUARES, 0)
    return Response(np.array(codes, np.int32).reshape(-1, 1), CRITERIA[criterion], n_classes)


def make_bins(columns: Sequence[Column], nominal: str = "subset") -> Binning:
    """Bin each column: one bin per value if they fit, else runs of numbers with equally many rows.

    If a nominal column has more values, the rarest share the last bin.
    """
    lookups = tuple(_lookup(column) for column in columns)
    ordered = np.array([is_ordered(column) for column in columns])
    n_bins = np.array([int(lookup.max(initial=0)) + 1 for lookup in lookups], np.int64)
    attributes = Attributes(
        n_bins=n_bins,
        first=np.cumsum(n_bins) - n_bins,
        form=np.where(ordered, ORDERED, FORMS[nominal]),
        missing=np.array(
            [
                int(lookup[column.missing]) if is_ordered(column) and column.missing >= 0 else -1
                for lookup, column in zip(lookups, columns, strict=True)
            ],
            np.int64,
        ),
    )
    return Binning(lookups, attributes)


def is_ordered(column: Column) -> bool:
    """Return True if the codes of a column follow a meaningful order."""
    return column.attribute.kind != "nominal"


def _lookup(column: Column) -> np.ndarray:
    if column.n_values <= MOST_BINS:
        return np.arange(column.n_values, dtype=np.uint8)
    counts = np.bincount(column.codes, minlength=column.n_values)
    if not is_ordered(column):
        rank = np.empty(column.n_values, np.int64)
        rank[np.lexsort((np.arange(column.n_values), -counts))] = np.arange(column.n_values)
        return np.minimum(rank, MOST_BINS - 1).astype(np.uint8)
    n_bins = MOST_BINS - (column.missing >= 0)
    present = counts[: column.n_present]
    below = np.cumsum(present) - present
    lookup = np.minimum(below * n_bins // max(int(present.sum()), 1), n_bins - 1)
    # Values that hold more than a bin's share leave bins empty: close the gaps.
    lookup = np.unique(lookup, return_inverse=True)[1]
    if column.missing >= 0:
        lookup = np.append(lookup, lookup[-1] + 1)
    return lookup.astype(np.uint8)


def _bin_means(lookup: np.ndarray, column: Column) -> np.ndarray:
    """Return the mean position of the rows of each bin; the missing value is at the mean of all."""
    counts = np.bincount(column.codes, minlength=column.n_values).astype(float)
    positions = column.positions.copy()
    if column.missing >= 0:
        counts[column.missing], positions[column.missing] = 0.0, 0.0
    mean = float(counts @ positions) / max(counts.sum(), 1.0)
    totals = np.bincount(lookup, weights=counts, minlength=MOST_BINS)
    sums = np.bincount(lookup, weights=counts * (positions - mean), minlength=MOST_BINS)
    return mean + sums / np.maximum(totals, 1.0)


def bin_codes(binning: Binning, codes: Sequence[np.ndarray]) -> np.ndarray:
    """Return the bins of rows (n, padded to whole words of eight), from the codes of each column.

    Codes after all others, of values that were absent when the bins were made, get a bin of their own if one is free.
    """
    bins = np.zeros((len(codes[0]), -(-len(codes) // 8) * 8), np.uint8)
    for j, (lookup, column) in enumerate(zip(binning.lookups, codes, strict=True)):
        unseen = min(int(lookup.max(initial=0)) + 1, MOST_BINS - 1)
        groups.look_up(column, 0, np.append(lookup, np.uint8(unseen)), bins[:, j])
    return bins


def make_likeness(binning: Binning, columns: Sequence[Column], response: Response, weight: float) -> Likeness:
    """Return the attributes to learn: the guide's variance counts ``weight``, theirs the rest, by their weights.

    The variance of every attribute, summed over the values of a nominal one, is first brought to the same scale.
    """
    n, q = len(columns[0].codes), len(columns)
    shares = np.array([column.attribute.weight for column in columns], float)
    ordered = binning.attributes.form == ORDERED
    value = np.zeros((q, MOST_BINS), np.int64)
    share = np.zeros(q)
    for j in range(q):
        counts = np.bincount(binning.lookups[j][columns[j].codes], minlength=MOST_BINS)
        if ordered[j]:
            means = _bin_means(binning.lookups[j], columns[j])
            spread = means - counts @ means / n
            deviation = float(np.sqrt(counts @ spread**2 / n))
            value[j] = np.rint(spread / (deviation or 1.0) * FIXED_POINT)
            variance = FIXED_POINT**2 if deviation > 0 else 0.0
        else:
            variance = 1.0 - float(((counts / n) ** 2).sum())
        share[j] = shares[j] / variance if variance > 0 else 0.0
    total = shares[share > 0].sum()
    guide_variance = _variance(response)
    return Likeness(
        ordered=np.flatnonzero(ordered & (share > 0)),
        nominal=np.flatnonzero(~ordered & (share > 0)),
        value=value,
        share=share * (1.0 - weight) / (total or 1.0),
        guide_share=weight / (guide_variance or 1.0),
    )


def _variance(response: Response) -> float:
    """Return the most that a cut could lower per row: the impurity of classes, or the variance of numbers."""
    if not response.n_classes:
        return float(response.guide.astype(float).var(axis=0).sum())
    shares = np.bincount(response.guide[:, 0], minlength=response.n_classes) / len(response.guide)
    if response.criterion == GINI:
        return 1.0 - float((shares**2).sum())
    return -float((shares[shares > 0] * np.log(shares[shares > 0])).sum())


def grow_tree(
    binning: Binning,
    bins: np.ndarray,
    response: Response,
    smallest: int,
    *,
    guard: Guard | None = None,
    likeness: Likeness | None = None,
    weight: np.ndarray | None = None,
    growth: int = DEPTH_FIRST,
    most_leaves: int | None = None,
    most_depth: int | None = None,
    n_threads: int = 1,
) -> tuple[Cuts, np.ndarray]:
    """Grow a tree; return its cuts, and the leaf of each row.

    Parameters
    ----------
    binning, bins
        From :func:`make_bins` and :func:`bin_codes`; ``bins`` is reordered in place.
    response : Response
        Targets of the tree; reordered in place too.
    smallest : int
        Minimum number of rows of a leaf.
    guard : Guard, optional
        Rules that both parts of a cut must satisfy besides their size.
    likeness : Likeness, optional
        From :func:`make_likeness`.
    weight : array (n,), optional
        Weights of the rows, above 0; only their ratios matter.
    growth : int
        DEPTH_FIRST, BREADTH_FIRST or BEST_FIRST: the node that is cut next; it matters with ``most_leaves``.
    most_leaves, most_depth : int, optional
        Limits.
    n_threads : int
        Only one is used if the tree is limited, because then every cut depends on the others.
    """
    samples = _lay_samples(bins, response, fixed_weight(weight))
    limited = most_leaves is not None or most_depth is not None
    n = len(binning.lookups)

    def own(leaves: int) -> tuple[GrowthTask, Guard | None]:
        depth = NO_LIMIT if most_depth is None else most_depth
        bounds = GrowthBounds(smallest, 0, 2, 0.0, leaves, depth)
        task = _make_task(binning.attributes, samples, response, likeness, growth, bounds, no_limits(n), look_at_all(n))
        return task, None if guard is None else with_scratch(guard)

    def grow(part: RowRange) -> tuple[Cuts, np.ndarray]:
        nodes, side, n_nodes = kernel.grow(*own(most_leaves or NO_LIMIT), part.start, part.stop)
        return _cuts(nodes[:n_nodes], side[:n_nodes].copy())

    def cut_once(part: RowRange) -> Cut:
        nodes, side, _ = kernel.grow(*own(2), part.start, part.stop)
        return Cut(int(nodes[0, kernel.ATTRIBUTE]), (side[0],), int(nodes[0, kernel.MIDDLE]))

    cuts, leaf_starts = grow_in_threads(RowRange(0, len(bins)), grow, cut_once, 1 if limited else n_threads)
    return cuts, _labels(samples.order, leaf_starts)


class Grown(NamedTuple):
    """A tree, and the rows it was grown on, in the order of its leaves."""

    nodes: np.ndarray
    """int32 (nodes, 9), with the columns named in the kernel."""
    side: np.ndarray
    """uint64 (nodes, 4): bitset of the bins that go left."""
    samples: Samples


def grow_nodes(
    attributes: Attributes,
    bins: np.ndarray,
    response: Response,
    weight: np.ndarray,
    *,
    growth: int,
    bounds: GrowthBounds,
    limits: Limits,
    draw: AttributeDraw,
) -> Grown:
    """Grow a single tree: rows are reordered in place, and ``weight`` is in fixed point (:func:`fixed_weight`)."""
    samples = _lay_samples(bins, response, weight)
    task = _make_task(attributes, samples, response, None, growth, bounds, limits, draw)
    nodes, side, n_nodes = kernel.grow(task, None, 0, len(bins))
    return Grown(nodes[:n_nodes].copy(), side[:n_nodes].copy(), samples)


def _make_task(
    attributes: Attributes,
    samples: Samples,
    response: Response,
    likeness: Likeness | None,
    growth: int,
    bounds: GrowthBounds,
    limits: Limits,
    draw: AttributeDraw,
) -> GrowthTask:
    slots = (2 if len(samples.weight) else 1) + (response.n_classes or response.guide.shape[1])
    return GrowthTask(
        samples,
        attributes,
        likeness or _ALONE,
        likeness is not None,
        response.criterion,
        response.n_classes,
        growth,
        bounds,
        limits,
        draw,
        make_scratch(0 if likeness is None else len(samples.bins), attributes, slots),
    )


def no_limits(n: int) -> Limits:
    """Return limits under which every attribute may be cut anywhere."""
    return Limits(False, np.ones(n), False, np.zeros(n, np.int64), False, np.full(n, np.inf), 0.0)


def look_at_all(n: int) -> AttributeDraw:
    """Return a draw that examines every attribute in every node."""
    return AttributeDraw(n, np.ones(1, np.uint64), np.arange(n))


def _cuts(nodes: np.ndarray, side: np.ndarray) -> tuple[Cuts, np.ndarray]:
    """Return the tree of grown nodes, and the starts of its leaves; uncut nodes are leaves too."""
    leaves = np.flatnonzero(nodes[:, kernel.LEFT] < 0)
    starts = nodes[leaves, kernel.BEGIN].astype(np.int64)
    by_start = np.argsort(starts)
    attribute, left, right = (nodes[:, column].copy() for column in (kernel.ATTRIBUTE, kernel.LEFT, kernel.RIGHT))
    attribute[leaves] = kernel.LEAF
    right[leaves[by_start]] = np.arange(len(leaves))
    return Cuts(attribute.astype(np.int16), left, right, (side,)), starts[by_start]


def place_rows(cuts: Cuts, bins: np.ndarray) -> np.ndarray:
    """Return the leaves of rows."""
    labels = np.empty(len(bins), np.int32)
    (side,) = cuts.rule
    kernel.descend(bins, cuts.attribute, cuts.left, cuts.right, side, labels)
    return labels


def codes_left(cuts: Cuts, binning: Binning, attribute: int) -> np.ndarray:
    """Return which codes of a column each node sends left: bool (nodes, codes)."""
    (side,) = cuts.rule
    bins = binning.lookups[attribute].astype(np.uint64)
    words = side[:, (bins >> np.uint64(6)).astype(np.int64)]
    return np.asarray((words >> (bins & np.uint64(63))) & np.uint64(1), bool)


def _lay_samples(bins: np.ndarray, response: Response, weight: np.ndarray) -> Samples:
    order = np.arange(len(bins), dtype=np.int32 if len(bins) < 1 << 31 else np.int64)
    return Samples(bins, bins.view(np.uint64), response.guide, weight, order)


def fixed_weight(weight: np.ndarray | None, units: int = FIXED_WEIGHT) -> np.ndarray:
    """Return whole weights unchanged, others as multiples of a fraction of the largest; of length 0 without weights."""
    if weight is None:
        return np.empty(0, np.int64)
    weight = np.asarray(weight, float)
    if (weight == np.rint(weight)).all() and weight.min(initial=1.0) >= 1:
        return weight.astype(np.int64)
    return np.maximum(np.rint(weight / weight.max() * units), 1).astype(np.int64)


def _labels(order: np.ndarray, leaf_starts: np.ndarray) -> np.ndarray:
    labels = np.empty(len(order), np.int32)
    groups.label_rows(order, leaf_starts, labels)
    return labels
