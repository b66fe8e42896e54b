"""Histograms of a node: one pass over its rows counts every bin of every attribute.

The targets of the tree are in fixed point, so that sums are exact: they depend neither on the order of the rows nor on
the number of threads.
"""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner, merged
from shoal._kernels.tree_data import SQUARES, weight_slot

FEW_ROWS = 64
"""Nodes of fewer rows list the bins that occur instead of scanning all bins."""


@merged
def fill(task, start, stop, level):
    """Fill the histograms of attributes that may be cut at this level; return False if there are none.

    These are all attributes, or as many as are to be drawn; if all of these have a single value, more are drawn until
    one has several.
    """
    n_occurring, draw = task.scratch.n_occurring, task.draw
    n, cost = n_occurring.shape[0], cost_of(task.limits, stop - start)
    if draw.n_tried >= n and not _is_any_barred(task.limits, level, cost):
        _fill_all(task, start, stop)
        _sum_up(task, np.int64(0))
        return True
    counted, useful = np.int64(-1), False
    for j in range(n):
        n_occurring[j] = 0
    for turn in range(n):
        if turn >= draw.n_tried and useful:
            break
        j = _draw(draw, turn) if draw.n_tried < n else turn
        if _is_barred(task.limits, j, level, cost):
            continue
        _fill_one(task, start, stop, j)
        useful |= n_occurring[j] > 1
        counted = j
    if counted >= 0:
        _sum_up(task, counted)
    return counted >= 0


@merged
def _is_barred(limits, j, level, cost):
    """Return True if an attribute may not be cut here; the rest of a budget is known up to rounding."""
    return level < limits.level[j] or limits.budget[j] < cost - 1e-9


@merged
def _is_any_barred(limits, level, cost):
    n_barred = 0
    for j in range(limits.level.shape[0]):
        n_barred += _is_barred(limits, j, level, cost)
    return n_barred > 0


@inner
def cost_of(limits, n_rows):
    """Return the cost of a cut of a node with this many rows, charged to the budget of its attribute."""
    return limits.row_cost * n_rows if limits.row_cost > 0.0 else 1.0


@merged
def _draw(draw, turn):
    """Draw one of the attributes that were not drawn in earlier turns (xorshift64*)."""
    x = draw.state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    draw.state[0] = x
    high = (x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)
    at = turn + np.int64(high % np.uint64(draw.turn.shape[0] - turn))
    draw.turn[turn], draw.turn[at] = draw.turn[at], draw.turn[turn]
    return draw.turn[turn]


@merged
def _fill_all(task, start, stop):
    """Fill the histograms of all attributes in one pass, and list the bins that occur, ascending."""
    samples, scratch = task.samples, task.scratch
    histogram, occurring, n_occurring = scratch.histogram, scratch.occurring, scratch.n_occurring
    n_bins, first = task.attributes.n_bins, task.attributes.first
    few = stop - start < FEW_ROWS
    if few:
        for j in range(n_bins.shape[0]):
            n_occurring[j] = _list_few(samples.bins, start, stop, j, histogram[first[j] :], occurring[j])
    if histogram.shape[1] == 2 and task.criterion == SQUARES:
        _count_one_output(samples.bins, samples.guide, start, stop, first, histogram)
    elif histogram.shape[1] == 3 and samples.weight.shape[0] > 0 and task.criterion == SQUARES:
        _count_weighted_output(samples.bins, samples.guide, samples.weight, start, stop, first, histogram)
    elif task.criterion == SQUARES:
        _count_outputs(samples.bins, samples.guide, samples.weight, start, stop, first, histogram)
    else:
        _count_classes(samples.bins, samples.guide, samples.weight, start, stop, first, histogram)
    if not few:
        for j in range(n_bins.shape[0]):
            n_occurring[j] = _list_bins(histogram[first[j] :], n_bins[j], occurring[j])


@merged
def _fill_one(task, start, stop, j):
    """Fill the histogram of one attribute, and list its bins that occur, ascending."""
    samples, scratch = task.samples, task.scratch
    sums, occurring = scratch.histogram[task.attributes.first[j] :], scratch.occurring[j]
    few = stop - start < FEW_ROWS
    if few:
        scratch.n_occurring[j] = _list_few(samples.bins, start, stop, j, sums, occurring)
    if task.criterion == SQUARES and samples.guide.shape[1] == 1:
        _count_output_of(samples.bins, samples.guide, samples.weight, start, stop, j, sums)
    elif task.criterion == SQUARES:
        _count_outputs_of(samples.bins, samples.guide, samples.weight, start, stop, j, sums)
    else:
        _count_classes_of(samples.bins, samples.guide, samples.weight, start, stop, j, sums)
    if not few:
        scratch.n_occurring[j] = _list_bins(sums, task.attributes.n_bins[j], occurring)


@inner
def _count_output_of(bins, guide, weight, start, stop, j, sums):
    j = np.uint64(j)
    if weight.shape[0] == 0:
        for i in range(np.uint64(start), np.uint64(stop)):
            b = bins[i, j]
            sums[b, 0] += 1
            sums[b, 1] += guide[i, 0]
    else:
        for i in range(np.uint64(start), np.uint64(stop)):
            b, w = bins[i, j], weight[i]
            sums[b, 0] += 1
            sums[b, 1] += w
            sums[b, 2] += guide[i, 0] * w


@inner
def _count_outputs_of(bins, guide, weight, start, stop, j, sums):
    weighted = weight.shape[0] > 0
    slot = 2 if weighted else 1
    for i in range(start, stop):
        b, w = bins[i, j], weight[i] if weighted else 1
        sums[b, 0] += 1
        if weighted:
            sums[b, 1] += w
        for m in range(guide.shape[1]):
            sums[b, slot + m] += np.int64(guide[i, m]) * w


@inner
def _count_classes_of(bins, guide, weight, start, stop, j, sums):
    j = np.uint64(j)
    if weight.shape[0] == 0:
        for i in range(np.uint64(start), np.uint64(stop)):
            b = bins[i, j]
            sums[b, 0] += 1
            sums[b, np.uint64(1 + guide[i, 0])] += 1
    else:
        for i in range(np.uint64(start), np.uint64(stop)):
            b, w = bins[i, j], weight[i]
            sums[b, 0] += 1
            sums[b, 1] += w
            sums[b, np.uint64(2 + guide[i, 0])] += w


@inner
def _list_few(bins, start, stop, j, sums, occurring):
    """List the bins of few rows in order, without scanning all bins."""
    n, j = 0, np.uint64(j)
    for i in range(np.uint64(start), np.uint64(stop)):
        b = bins[i, j]
        if sums[b, 0] == 0:
            sums[b, 0] = 1
            at = n
            while at > 0 and occurring[at - 1] > b:
                occurring[at] = occurring[at - 1]
                at -= 1
            occurring[at] = b
            n += 1
    for i in range(n):
        sums[occurring[i], 0] = 0
    return n


@inner
def _list_bins(sums, n_bins, occurring):
    n = 0
    for b in range(n_bins):
        if sums[b, 0] > 0:
            occurring[n] = b
            n += 1
    return n


@inner
def _count_one_output(bins, guide, start, stop, first, histogram):
    for i in range(start, stop):
        output = guide[i, 0]
        for j in range(first.shape[0]):
            at = first[j] + bins[i, j]
            histogram[at, 0] += 1
            histogram[at, 1] += output


@inner
def _count_weighted_output(bins, guide, weight, start, stop, first, histogram):
    for i in range(start, stop):
        w = weight[i]
        output = guide[i, 0] * w
        for j in range(first.shape[0]):
            at = first[j] + bins[i, j]
            histogram[at, 0] += 1
            histogram[at, 1] += w
            histogram[at, 2] += output


@inner
def _count_outputs(bins, guide, weight, start, stop, first, histogram):
    weighted = weight.shape[0] > 0
    slot = 2 if weighted else 1
    for i in range(start, stop):
        w = weight[i] if weighted else 1
        for j in range(first.shape[0]):
            at = first[j] + bins[i, j]
            histogram[at, 0] += 1
            if weighted:
                histogram[at, 1] += w
            for m in range(guide.shape[1]):
                histogram[at, slot + m] += np.int64(guide[i, m]) * w


@inner
def _count_classes(bins, guide, weight, start, stop, first, histogram):
    weighted = weight.shape[0] > 0
    for i in range(start, stop):
        w = weight[i] if weighted else 1
        slot = guide[i, 0] + (2 if weighted else 1)
        for j in range(first.shape[0]):
            at = first[j] + bins[i, j]
            histogram[at, 0] += 1
            if weighted:
                histogram[at, 1] += w
            histogram[at, slot] += w


@merged
def _sum_up(task, j):
    """Write the node's totals, from the histogram of attribute j, and those that likeness needs."""
    scratch, first = task.scratch, task.attributes.first
    histogram, occurring, n_occurring = scratch.histogram, scratch.occurring, scratch.n_occurring
    total, whole = scratch.total, scratch.whole
    for s in range(total.shape[0]):
        total[s] = 0
        for i in range(n_occurring[j]):
            total[s] += histogram[first[j] + occurring[j, i], s]
    if task.blended:
        at = weight_slot(task.samples)
        value = task.likeness.value
        for t in task.likeness.ordered:
            whole[t] = 0
            for i in range(n_occurring[t]):
                b = occurring[t, i]
                whole[t] += histogram[first[t] + b, at] * value[t, b]
        for t in task.likeness.nominal:
            whole[t] = 0
            for i in range(n_occurring[t]):
                whole[t] += histogram[first[t] + occurring[t, i], at] ** 2


@merged
def settled(task, start, stop):
    """Return True if nothing is left to learn: the guide (and every learned attribute) is constant in the node."""
    guide = task.samples.guide
    for i in range(start + 1, stop):
        for m in range(guide.shape[1]):
            if guide[i, m] != guide[start, m]:
                return False
    if task.blended:
        bins = task.samples.bins
        for j in range(task.attributes.n_bins.shape[0]):
            if task.likeness.share[j] > 0:
                for i in range(start + 1, stop):
                    if bins[i, j] != bins[start, j]:
                        return False
    return True


@merged
def clear(task):
    """Reset the histograms to zero."""
    histogram, occurring, n_occurring = task.scratch.histogram, task.scratch.occurring, task.scratch.n_occurring
    first = task.attributes.first
    for j in range(n_occurring.shape[0]):
        for i in range(n_occurring[j]):
            for s in range(histogram.shape[1]):
                histogram[first[j] + occurring[j, i], s] = 0
