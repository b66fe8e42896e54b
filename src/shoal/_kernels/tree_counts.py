"""Histograms of a node: one pass over its rows counts every bin of every attribute.

What the tree learns is given in fixed point, so that sums are exact: they depend neither on the order of the rows nor
on the number of threads.
"""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner
from shoal._kernels.tree_data import SQUARES, weight_slot

FEW_ROWS = 64
"""Nodes of fewer rows list the bins that occur instead of walking through all bins."""


@inner
def fill(task, start, stop):
    """Fill the histograms of a node, and list the bins that occur, ascending."""
    samples, scratch = task.samples, task.scratch
    histogram, occurring, n_occurring = scratch.histogram, scratch.occurring, scratch.n_occurring
    n_bins, first = task.attributes.n_bins, task.attributes.first
    few = stop - start < FEW_ROWS
    if few:
        for j in range(n_bins.shape[0]):
            n_occurring[j] = _list_few(samples.bins, start, stop, j, histogram[first[j] :], occurring[j])
    if histogram.shape[1] == 2 and task.criterion == SQUARES:
        _count_one_output(samples.bins, samples.guide, start, stop, first, histogram)
    elif task.criterion == SQUARES:
        _count_outputs(samples.bins, samples.guide, samples.weight, start, stop, first, histogram)
    else:
        _count_classes(samples.bins, samples.guide, samples.weight, start, stop, first, histogram)
    if not few:
        for j in range(n_bins.shape[0]):
            n_occurring[j] = _list_bins(histogram[first[j] :], n_bins[j], occurring[j])
    _sum_up(task)


@inner
def _list_few(bins, start, stop, j, sums, occurring):
    """List the bins of few rows in order, without a walk through all bins."""
    n = 0
    for i in range(start, stop):
        b = np.int64(bins[i, j])
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


@inner
def _sum_up(task):
    """The node's totals, from the first attribute's histogram; and what likeness needs to know of the whole node."""
    scratch, first = task.scratch, task.attributes.first
    histogram, occurring, n_occurring = scratch.histogram, scratch.occurring, scratch.n_occurring
    total, whole = scratch.total, scratch.whole
    for s in range(total.shape[0]):
        total[s] = 0
        for i in range(n_occurring[0]):
            total[s] += histogram[occurring[0, i], s]
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


@inner
def settled(task, start, stop):
    """Whether nothing is left to learn: the guide is the same in all rows (and so are attributes that are learned)."""
    guide = task.samples.guide
    for i in range(start + 1, stop):
        for m in range(guide.shape[1]):
            if guide[i, m] != guide[start, m]:
                return False
    if task.blended:
        for j in range(task.attributes.n_bins.shape[0]):
            if task.likeness.share[j] > 0 and task.scratch.n_occurring[j] > 1:
                return False
    return True


@inner
def clear(task):
    """Leave the histograms as they were found."""
    histogram, occurring, n_occurring = task.scratch.histogram, task.scratch.occurring, task.scratch.n_occurring
    first = task.attributes.first
    for j in range(n_occurring.shape[0]):
        for i in range(n_occurring[j]):
            for s in range(histogram.shape[1]):
                histogram[first[j] + occurring[j, i], s] = 0
