"""Decision trees on binned attributes: every attribute a byte a row, every sum a whole number.

A node's rows lie side by side; a cut moves those that go left to the front. One pass over the rows of a node fills a
histogram for each attribute, and a sweep over its bins finds the best cut. What the tree learns is given in fixed
point, so that sums are exact: they depend neither on the order of the rows nor on the number of threads.

A tree can learn the attributes themselves beside its guide (``Likeness``): its groups then stay alike in all of them.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.guard import guard_holds

MOST_BINS = 256
SIDE_WORDS = MOST_BINS // 64
ORDERED, ONE_VS_REST, SUBSET = 0, 1, 2
"""How the bins of an attribute are cut: below and above; one against the others; any of them against the others."""
SQUARES, GINI, ENTROPY = 0, 1, 2
"""What a cut lowers: the squared error of numbers; the impurity of classes."""
DEPTH_FIRST, BREADTH_FIRST, BEST_FIRST = 0, 1, 2
"""Which node is cut next. It matters only where the number of leaves is limited."""
LEAF = np.int64(-1)
MOST_TRIES = 4
"""Cuts of one attribute that are tried when constraints on sensitive values refuse the best one."""
FEW_ROWS = 64
"""Nodes of fewer rows list the bins that occur instead of walking through all bins."""


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


class Task(NamedTuple):
    """What is grown, and by which rule; one for each thread."""

    samples: Samples
    attributes: Attributes
    likeness: Likeness
    blended: bool
    """Whether the tree learns attributes too; else ``likeness`` is empty."""
    criterion: int
    n_classes: int
    smallest: int
    """Rows that every leaf has at least."""
    growth: int
    most_leaves: int
    most_depth: int
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


ATTRIBUTE, LEFT, RIGHT, BEGIN, MIDDLE, END, DEPTH = range(7)
"""Columns of the nodes of a tree."""


@jit
def grow(task, guard, start, stop):
    """Grow a tree on rows start..stop until no admissible cut is left, or a limit is reached.

    ``guard`` is None where only the size of a leaf counts. Returns the nodes, and for each the bins that go left, one
    bit a bin. A leaf has no children (-1).
    """
    nodes = np.full((64, 7), -1, np.int32)
    side = np.zeros((64, SIDE_WORDS), np.uint64)
    nodes[0, BEGIN], nodes[0, END], nodes[0, DEPTH] = start, stop, 0
    heap = [(0.0, np.int64(0))]
    heap.pop()
    n_opened, n_nodes, n_leaves = 0, 1, 1
    while True:
        for node in range(n_opened, n_nodes):
            if nodes[node, DEPTH] < task.most_depth:
                j, middle, gain = cut(task, guard, np.int64(nodes[node, BEGIN]), np.int64(nodes[node, END]), side[node])
                nodes[node, ATTRIBUTE], nodes[node, MIDDLE] = j, middle
                if j >= 0:
                    heapq.heappush(heap, (_priority(task.growth, node, gain), np.int64(node)))
        n_opened = n_nodes
        if len(heap) == 0 or n_leaves >= task.most_leaves:
            break
        _, node = heapq.heappop(heap)
        if n_nodes + 2 > nodes.shape[0]:
            nodes, side = _longer(nodes, n_nodes, -1), _longer(side, n_nodes, 0)
        nodes[node, LEFT], nodes[node, RIGHT] = n_nodes, n_nodes + 1
        nodes[n_nodes, BEGIN], nodes[n_nodes, END] = nodes[node, BEGIN], nodes[node, MIDDLE]
        nodes[n_nodes + 1, BEGIN], nodes[n_nodes + 1, END] = nodes[node, MIDDLE], nodes[node, END]
        nodes[n_nodes, DEPTH] = nodes[n_nodes + 1, DEPTH] = nodes[node, DEPTH] + 1
        n_nodes += 2
        n_leaves += 1
    return nodes, side, n_nodes


@inner
def _priority(growth, node, gain):
    """What is cut next has the lowest."""
    if growth == DEPTH_FIRST:
        return -float(node)
    return float(node) if growth == BREADTH_FIRST else -gain


@inner
def _longer(rows, n, fill):
    """Twice the room for rows, of which n are in use."""
    longer = np.full((2 * rows.shape[0], rows.shape[1]), fill, rows.dtype)
    for i in range(n):
        for c in range(rows.shape[1]):
            longer[i, c] = rows[i, c]
    return longer


@jit
def cut_once(task, guard, start, stop):
    """A single cut, for callers that hand parts of a large table to several threads: (attribute, side, middle)."""
    side = np.zeros(SIDE_WORDS, np.uint64)
    j, middle, _ = cut(task, guard, start, stop, side)
    return j, side, middle


@inner
def cut(task, guard, start, stop, side):
    """Make the best admissible cut of one node: (attribute, first row of the right part, gain); LEAF if there is none.

    ``side`` is set to the bins that go left. Ties go to the first attribute and the lowest bins.
    """
    if stop - start < 2 * task.smallest:
        return LEAF, np.int64(stop), 0.0
    _fill(task, start, stop)
    found, middle, gain = LEAF, np.int64(stop), 0.0
    if not _settled(task, start, stop):
        tries = 1 if guard is None else MOST_TRIES
        _find_cuts(task, start, stop, tries)
        found, middle, gain = _make_best_cut(task, guard, start, stop, tries, side)
    _clear(task)
    return found, middle, gain


@inner
def _fill(task, start, stop):
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
        at = _weight_slot(task.samples)
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
def _weight_slot(samples):
    return 1 if samples.weight.shape[0] > 0 else 0


@inner
def _settled(task, start, stop):
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
def _find_cuts(task, start, stop, tries):
    """The best cuts of every attribute, into the scratch."""
    scratch, criterion, smallest = task.scratch, task.criterion, task.smallest
    histogram, n_occurring, sequence = scratch.histogram, scratch.n_occurring, scratch.sequence
    left, total = scratch.left, scratch.total
    form, missing, first = task.attributes.form, task.attributes.missing, task.attributes.first
    at = _weight_slot(task.samples)
    for j in range(form.shape[0]):
        for r in range(tries):
            scratch.score[j, r] = -np.inf
        n = n_occurring[j]
        if n < 2:
            continue
        sums, alone = histogram[first[j] :], form[j] == ONE_VS_REST
        best = scratch.score[j], scratch.variant[j], scratch.length[j]
        for variant in range(2 if missing[j] >= 0 and n > 2 and sums[missing[j], 0] > 0 else 1):
            _sequence(sums, scratch.occurring[j], total, at, n, form[j], missing[j], variant, sequence)
            if task.blended:
                _sweep_blended(task, start, stop, j, n, alone, variant, tries, best)
            elif total.shape[0] == 2 and criterion == SQUARES:
                _sweep_one_output(sums, sequence, n, alone, total, smallest, variant, tries, best)
            else:
                _sweep(sums, sequence, n, alone, left, total, at, criterion, smallest, variant, tries, best)


@inner
def _sequence(sums, occurring, total, at, n, form, missing, variant, sequence):
    """The bins of a node in the order in which they go left one by one; variant 1 begins with the missing value."""
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
    """Order bins by the mean of the guide's output that differs most between them: exact for a single output."""
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
    """``_sweep`` for a single number and rows without weights."""
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
def _sweep(sums, sequence, n, alone, left, total, at, criterion, smallest, variant, tries, best):
    """Score every cut of one attribute and keep the best."""
    for s in range(left.shape[0]):
        left[s] = 0
    for i in range(n if alone and n > 2 else n - 1):
        b = sequence[i]
        for s in range(left.shape[0]):
            left[s] = sums[b, s] if alone else left[s] + sums[b, s]
        if left[0] < smallest or total[0] - left[0] < smallest or (variant == 1 and i == 0):
            continue
        score = _score(left, total, at, criterion)
        if score > best[0][tries - 1]:
            _keep(best, variant, i + 1, score, tries)


@inner
def _keep(best, variant, length, score, tries):
    """Put a cut among the best of its attribute; an equal one that was found before stays ahead."""
    scores, variants, lengths = best
    r = tries - 1
    while r > 0 and score > scores[r - 1]:
        scores[r], variants[r], lengths[r] = scores[r - 1], variants[r - 1], lengths[r - 1]
        r -= 1
    scores[r], variants[r], lengths[r] = score, variant, length


@inner
def _score(left, total, at, criterion):
    """What two parts explain of the guide; the higher the better."""
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
    """``_sweep`` for a tree that learns attributes too: rows go left one by one, in the order of their bins."""
    samples, likeness, scratch = task.samples, task.likeness, task.scratch
    sequence, left, total, sums = scratch.sequence, scratch.left, scratch.total, scratch.sums
    inside, across, first = scratch.inside, scratch.across, task.attributes.first
    own = scratch.histogram[first[j] :]
    at = _weight_slot(samples)
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
        if left[0] < task.smallest or total[0] - left[0] < task.smallest or (variant == 1 and i == 0):
            continue
        weight_left, weight_right = float(left[at]), float(total[at] - left[at])
        if weight_left <= 0.0 or weight_right <= 0.0:
            continue
        score = likeness.guide_share * _score(left, total, at, task.criterion)
        for t in likeness.ordered:
            one, other = float(sums[t]), float(scratch.whole[t] - sums[t])
            score += likeness.share[t] * (one * one / weight_left + other * other / weight_right)
        for t in likeness.nominal:
            # Squares of what is left on the right: (whole - left)², value by value.
            outside = float(scratch.whole[t] - 2 * across[t] + inside[t])
            score += likeness.share[t] * (float(inside[t]) / weight_left + outside / weight_right)
        if score > best[0][tries - 1]:
            _keep(best, variant, i + 1, score, tries)


@inner
def _lay_walk(bins, start, stop, j, n, sums, sequence, walk):
    """Rows of a node by their bin, in the order of the sequence."""
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


@inner
def _make_best_cut(task, guard, start, stop, tries, side):
    """Cut at the best place that the guard allows."""
    scratch = task.scratch
    before = _unsplit_score(task)
    for _ in range(scratch.score.shape[0] * tries):
        best, rank = -1, 0
        for j in range(scratch.score.shape[0]):
            for r in range(tries):
                if scratch.score[j, r] > -np.inf and (best < 0 or scratch.score[j, r] > scratch.score[best, rank]):
                    best, rank = j, r
        if best < 0:
            break
        _choose_side(task, best, scratch.variant[best, rank], scratch.length[best, rank], side)
        middle = _partition(task.samples, start, stop, best, side)
        if guard is None or (
            guard_holds(guard, task.samples.order, start, middle)
            and guard_holds(guard, task.samples.order, middle, stop)
        ):
            return np.int64(best), middle, max(scratch.score[best, rank] - before, 0.0)
        scratch.score[best, rank] = -np.inf
    return LEAF, np.int64(stop), 0.0


@inner
def _unsplit_score(task):
    """What the node explains before it is cut."""
    scratch = task.scratch
    total = scratch.total
    at = _weight_slot(task.samples)
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


@inner
def _choose_side(task, j, variant, length, side):
    """Set the bits of the bins that go left.

    A bin that no row of the node has belongs to the nearer part of an ordered attribute (of two that are numbers, not
    missing), else to the larger part.
    """
    scratch, attributes = task.scratch, task.attributes
    n, sequence = scratch.n_occurring[j], scratch.sequence
    at, form, missing = _weight_slot(task.samples), attributes.form[j], attributes.missing[j]
    sums = scratch.histogram[attributes.first[j] :]
    _sequence(sums, scratch.occurring[j], scratch.total, at, n, form, missing, variant, sequence)
    for w in range(side.shape[0]):
        side[w] = 0
    first = length - 1 if form == ONE_VS_REST else 0
    rows_left = 0
    for i in range(first, length):
        rows_left += sums[sequence[i], 0]
    larger = 2 * rows_left > scratch.total[0]
    last_left, first_right = sequence[length - 1], sequence[length] if length < n else sequence[length - 1]
    for b in range(attributes.n_bins[j]):
        if sums[b, 0] == 0:
            on_left = larger
            if form == ORDERED and b != missing:
                on_left = first_right == missing or b - last_left <= first_right - b
            if on_left:
                side[b >> 6] |= np.uint64(1) << np.uint64(b & 63)
    for i in range(first, length):
        b = sequence[i]
        side[b >> 6] |= np.uint64(1) << np.uint64(b & 63)


@inner
def goes_left(side, b):
    """Whether a bin is on the left side."""
    return (side[b >> 6] >> np.uint64(b & 63)) & np.uint64(1) != 0


@inner
def _partition(samples, start, stop, j, side):
    """Move the rows whose bins are on the left side to the front; returns where the others begin."""
    bins, words, guide, weight, order = samples.bins, samples.words, samples.guide, samples.weight, samples.order
    left, right = start, stop - 1
    while True:
        while left <= right and goes_left(side, bins[left, j]):
            left += 1
        while left <= right and not goes_left(side, bins[right, j]):
            right -= 1
        if left >= right:
            break
        for w in range(words.shape[1]):
            words[left, w], words[right, w] = words[right, w], words[left, w]
        for m in range(guide.shape[1]):
            guide[left, m], guide[right, m] = guide[right, m], guide[left, m]
        if weight.shape[0] > 0:
            weight[left], weight[right] = weight[right], weight[left]
        order[left], order[right] = order[right], order[left]
        left += 1
        right -= 1
    return np.int64(left)


@inner
def _clear(task):
    """Leave the histograms as they were found."""
    histogram, occurring, n_occurring = task.scratch.histogram, task.scratch.occurring, task.scratch.n_occurring
    first = task.attributes.first
    for j in range(n_occurring.shape[0]):
        for i in range(n_occurring[j]):
            for s in range(histogram.shape[1]):
                histogram[first[j] + occurring[j, i], s] = 0


@jit
def descend(bins, attribute, left, right, side, labels):
    """Send rows down a tree; labels are the numbers of the leaves."""
    for i in range(bins.shape[0]):
        node = 0
        while attribute[node] >= 0:
            node = left[node] if goes_left(side[node], bins[i, attribute[node]]) else right[node]
        labels[i] = right[node]
