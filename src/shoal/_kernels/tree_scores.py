"""The best cuts of a node, from its histograms: a sweep over the bins of each attribute scores every place.

A tree can learn the attributes themselves besides its guide (``Likeness``): its groups are then alike in all of them.
"""

from __future__ import annotations

import math

import numpy as np

from shoal._kernels._jit import inner, merged
from shoal._kernels.tree_data import ENTROPY, MOST_BINS, ONE_VS_REST, SQUARES, SUBSET, weight_slot


@merged
def find_cuts(task, start, stop, tries):
    """Write the best cuts of every attribute into the scratch buffers."""
    scratch, criterion, smallest = task.scratch, task.criterion, task.bounds.smallest
    histogram, n_occurring, sequence = scratch.histogram, scratch.n_occurring, scratch.sequence
    left, total = scratch.left, scratch.total
    form, missing, first = task.attributes.form, task.attributes.missing, task.attributes.first
    scores, variants, lengths, occurring = scratch.score, scratch.variant, scratch.length, scratch.occurring
    at = weight_slot(task.samples)
    for j in range(form.shape[0]):
        for r in range(tries):
            scores[j, r] = -np.inf
        n = n_occurring[j]
        if n < 2:
            continue
        sums, alone = histogram[first[j] :], form[j] == ONE_VS_REST
        best = scores[j], variants[j], lengths[j]
        for variant in range(2 if missing[j] >= 0 and n > 2 and sums[missing[j], 0] > 0 else 1):
            lay_sequence(sums, occurring[j], total, at, n, form[j], missing[j], variant, sequence)
            if task.blended:
                _sweep_blended(task, start, stop, j, n, alone, variant, tries, best)
            elif total.shape[0] == 2 and criterion == SQUARES:
                _sweep_one_output(sums, sequence, n, alone, total, smallest, variant, tries, best)
            else:
                least = smallest, task.bounds.smallest_weight
                _sweep(sums, sequence, n, alone, left, total, at, criterion, least, variant, tries, best)


@inner
def lay_sequence(sums, occurring, total, at, n, form, missing, variant, sequence):
    """Write the bins of a node in the order in which they go left; variant 1 begins with the missing value."""
    for i in range(n):
        sequence[i] = occurring[i]
    if variant == 1:
        # The missing value has the highest bin.
        for i in range(n - 1, 0, -1):
            sequence[i] = sequence[i - 1]
        sequence[0] = missing
    elif form == SUBSET:
        _sort_by_mean(sums, total, at, n, sequence)


@inner
def _sort_by_mean(sums, total, at, n, sequence):
    """Sort bins by the mean of the guide's output that varies most between them: exact for a single output."""
    best, best_spread = at + 1, -1.0
    if total.shape[0] > at + 2:
        for s in range(at + 1, total.shape[0]):
            spread, mean = 0.0, total[s] / total[at]
            for i in range(n):
                b = sequence[i]
                spread += sums[b, at] * (sums[b, s] / sums[b, at] - mean) ** 2
            if spread > best_spread:
                best, best_spread = s, spread
    for i in range(1, n):
        b = sequence[i]
        mean = sums[b, best] / sums[b, at]
        place = i
        while place > 0 and mean < sums[sequence[place - 1], best] / sums[sequence[place - 1], at]:
            sequence[place] = sequence[place - 1]
            place -= 1
        sequence[place] = b


@inner
def _sweep_one_output(sums, sequence, n, alone, total, smallest, variant, tries, best):
    """Run ``_sweep`` for a single number and rows without weights."""
    rows, output = total[0], total[1]
    rows_left, output_left = 0, 0
    for i in range(n if alone and n > 2 else n - 1):
        b = sequence[i]
        if alone:
            rows_left, output_left = 0, 0
        rows_left += sums[b, 0]
        output_left += sums[b, 1]
        rows_right = rows - rows_left
        if rows_left < smallest or rows_right < smallest or (variant == 1 and i == 0):
            continue
        one, other = float(output_left), float(output - output_left)
        score = one * one / rows_left + other * other / rows_right
        if score > best[0][tries - 1]:
            _keep(best, variant, i + 1, score, tries)


@inner
def _sweep(sums, sequence, n, alone, left, total, at, criterion, least, variant, tries, best):
    """Score every cut of one attribute and keep the best; ``least`` are the least rows and weight of either side."""
    for s in range(left.shape[0]):
        left[s] = 0
    for i in range(n if alone and n > 2 else n - 1):
        b = sequence[i]
        for s in range(left.shape[0]):
            left[s] = sums[b, s] if alone else left[s] + sums[b, s]
        if min(left[0], total[0] - left[0]) < least[0] or min(left[at], total[at] - left[at]) < least[1]:
            continue
        if variant == 1 and i == 0:
            continue
        score = _score(left, total, at, criterion)
        if score > best[0][tries - 1]:
            _keep(best, variant, i + 1, score, tries)


@inner
def _keep(best, variant, length, score, tries):
    """Insert a cut into the best ones of its attribute; an equal one that was found before stays ahead."""
    scores, variants, lengths = best
    r = tries - 1
    while r > 0 and score > scores[r - 1]:
        scores[r], variants[r], lengths[r] = scores[r - 1], variants[r - 1], lengths[r - 1]
        r -= 1
    scores[r], variants[r], lengths[r] = score, variant, length


@inner
def _score(left, total, at, criterion):
    """Return how much of the guide two parts explain; higher is better."""
    weight_left, weight_right = float(left[at]), float(total[at] - left[at])
    if weight_left <= 0.0 or weight_right <= 0.0:
        return -np.inf
    score = 0.0
    for s in range(at + 1, left.shape[0]):
        one, other = float(left[s]), float(total[s] - left[s])
        if criterion == ENTROPY:
            score += _times_log(one) + _times_log(other)
        else:
            score += one * one / weight_left + other * other / weight_right
    if criterion == ENTROPY:
        score -= _times_log(weight_left) + _times_log(weight_right)
    return score


@inner
def _times_log(x):
    return x * math.log(x) if x > 0.0 else 0.0


@inner
def _sweep_blended(task, start, stop, j, n, alone, variant, tries, best):
    """Run ``_sweep`` for a tree that learns attributes too: rows go left one by one, in the order of their bins."""
    samples, likeness, scratch = task.samples, task.likeness, task.scratch
    sequence, left, total, sums = scratch.sequence, scratch.left, scratch.total, scratch.sums
    inside, across, first = scratch.inside, scratch.across, task.attributes.first
    own = scratch.histogram[first[j] :]
    at = weight_slot(samples)
    _lay_walk(samples.bins, start, stop, j, n, own, sequence, scratch.walk)
    for s in range(left.shape[0]):
        left[s] = 0
    _forget_left(likeness, scratch, first)
    place = start
    for i in range(n if alone and n > 2 else n - 1):
        b = sequence[i]
        if alone:
            _forget_left(likeness, scratch, first)
        for s in range(left.shape[0]):
            left[s] = own[b, s] if alone else left[s] + own[b, s]
        _learn_left(samples, likeness, scratch, first, at, place, place + own[b, 0])
        place += own[b, 0]
        if left[0] < task.bounds.smallest or total[0] - left[0] < task.bounds.smallest or (variant == 1 and i == 0):
            continue
        weight_left, weight_right = float(left[at]), float(total[at] - left[at])
        if weight_left <= 0.0 or weight_right <= 0.0:
            continue
        score = likeness.guide_share * _score(left, total, at, task.criterion)
        for t in likeness.ordered:
            one, other = float(sums[t]), float(scratch.whole[t] - sums[t])
            score += likeness.share[t] * (one * one / weight_left + other * other / weight_right)
        for t in likeness.nominal:
            # Squares of the right part: (whole - left)², value by value.
            outside = float(scratch.whole[t] - 2 * across[t] + inside[t])
            score += likeness.share[t] * (float(inside[t]) / weight_left + outside / weight_right)
        if score > best[0][tries - 1]:
            _keep(best, variant, i + 1, score, tries)


@inner
def _lay_walk(bins, start, stop, j, n, sums, sequence, walk):
    """Write the rows of a node by their bin, in the order of the sequence."""
    at = np.empty(MOST_BINS, np.int64)
    place = start
    for i in range(n):
        b = sequence[i]
        at[b] = place
        place += sums[b, 0]
    for i in range(start, stop):
        b = bins[i, j]
        walk[at[b]] = i
        at[b] += 1


@inner
def _forget_left(likeness, scratch, first):
    sums, inside, across = scratch.sums, scratch.inside, scratch.across
    occurring, n_occurring, counts = scratch.occurring, scratch.n_occurring, scratch.counts
    for t in likeness.ordered:
        sums[t] = 0
    for t in likeness.nominal:
        inside[t] = across[t] = 0
        for i in range(n_occurring[t]):
            counts[first[t] + occurring[t, i]] = 0


@inner
def _learn_left(samples, likeness, scratch, first, at, begin, end):
    """Add rows of the walk to the left part."""
    bins, weight = samples.bins, samples.weight
    value, ordered, nominal = likeness.value, likeness.ordered, likeness.nominal
    walk, histogram, counts = scratch.walk, scratch.histogram, scratch.counts
    sums, inside, across = scratch.sums, scratch.inside, scratch.across
    w = 1
    for place in range(begin, end):
        i = walk[place]
        if at == 1:
            w = weight[i]
        for t in ordered:
            sums[t] += value[t, bins[i, t]] * w
        for t in nominal:
            b = first[t] + bins[i, t]
            inside[t] += w * (2 * counts[b] + w)
            across[t] += w * histogram[b, at]
            counts[b] += w


@merged
def unsplit_score(task):
    """Return how much of the guide the node explains before it is cut."""
    scratch = task.scratch
    total = scratch.total
    at = weight_slot(task.samples)
    weight = float(total[at])
    score = 0.0
    for s in range(at + 1, total.shape[0]):
        if task.criterion == ENTROPY:
            score += _times_log(float(total[s]))
        else:
            score += float(total[s]) ** 2 / weight
    if task.criterion == ENTROPY:
        score -= _times_log(weight)
    if task.blended:
        score *= task.likeness.guide_share
        for t in task.likeness.ordered:
            score += task.likeness.share[t] * float(scratch.whole[t]) ** 2 / weight
        for t in task.likeness.nominal:
            score += task.likeness.share[t] * float(scratch.whole[t]) / weight
    return score


@merged
def pure_score(task, start, stop):
    """Return how much of the guide cuts without remaining impurity would explain."""
    guide, weight = task.samples.guide, task.samples.weight
    at = weight_slot(task.samples)
    if task.criterion == ENTROPY:
        return 0.0
    if task.criterion != SQUARES:
        return float(task.scratch.total[at])
    squares = 0.0
    for i in range(start, stop):
        for m in range(guide.shape[1]):
            squares += float(guide[i, m]) ** 2 * (weight[i] if at == 1 else 1)
    return squares
