"""Privacy levels of one group, from the counts of its sensitive values: one formula per model.

A group is given as ``ids`` (codes of its values, ascending), ``counts`` (rows of each) and ``n`` (their sum).
Every formula costs O(values in the group), however many values the column has, so that a million small groups over a
column of many values are measured in about a second. The same formulas serve the check of a whole partition
(``tally_levels``) and the test of one candidate group while a partitioner cuts (``rules_hold``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal._kernels._jit import inner, jit

# The quantities that rules measure. The first three are functions of the group's size alone.
ROWS, POPULATION, PRESENCE = 0, 1, 2
DISTINCT, ENTROPY, RECURSIVE, SHARE = 3, 4, 5, 6
EQUAL, ORDERED, TREE = 7, 8, 9
LOG_RATIO, GAIN, BOUNDED_GAIN = 10, 11, 12
# The names by which privacy models call them.
FORMULAS = {
    "rows": ROWS, "population": POPULATION, "presence": PRESENCE,
    "distinct": DISTINCT, "entropy": ENTROPY, "recursive": RECURSIVE, "share": SHARE,
    "equal": EQUAL, "ordered": ORDERED, "hierarchical": TREE,
    "log ratio": LOG_RATIO, "gain": GAIN, "bounded gain": BOUNDED_GAIN,
}  # fmt: skip

# A check tolerates rounding errors up to LOOSE, a partitioner only up to TIGHT: the groups it accepts always pass the
# check. For a strict bound the two are exchanged: a partitioner keeps a larger distance from it.
LOOSE, TIGHT = 1e-9, 1e-12


class Rules(NamedTuple):
    """Constraints and their reference values, as flat arrays; see ``lay_out``.

    Rules are sorted by column. Arrays over values hold one run of ``n_values + 1`` entries per column, starting at
    ``first_value``; arrays over nodes hold one run per column, starting at ``first_node``.
    """

    model: NDArray[np.int64]
    column: NDArray[np.int64]  # -1: the rule uses no sensitive column
    bound: NDArray[np.float64]
    other: NDArray[np.float64]  # RECURSIVE: l; PRESENCE: the lower bound; LOG_RATIO: 1 when absent values count
    first_rule: NDArray[np.int64]  # rules of column c: first_rule[c] to first_rule[c + 1]
    n_values: NDArray[np.int64]
    support: NDArray[np.int64]  # values that occur in the table
    first_value: NDArray[np.int64]
    shares: NDArray[np.float64]  # share of each value in the whole table, then a 0
    cumulative: NDArray[np.float64]  # entry i: share of the values before i
    area: NDArray[np.float64]  # entry i: sum of the cumulative shares of the values before i, their own included
    first_rung: NDArray[np.int64]
    ladder: NDArray[np.int32]  # value x level: node, or -1 where a shallow leaf is only repeated
    height: NDArray[np.int64]
    first_node: NDArray[np.int64]
    node_share: NDArray[np.float64]  # share of the values under each node in the whole table
    node_step: NDArray[np.float64]  # distance from each node to its parent


@inner
def largest_share(counts, n):  # type: ignore[no-untyped-def]
    """Return the share of the most frequent value: an adversary's best guess."""
    most = 0
    for count in counts:
        most = max(most, count)
    return most / n


@inner
def entropy_diversity(counts, n):  # type: ignore[no-untyped-def]
    """Return exp(entropy): the number of equally frequent values that would be as uncertain."""
    total = 0.0
    for count in counts:
        if count > 1:
            total += count * math.log(count)
    return math.exp(math.log(n) - total / n)


@inner
def recursive_ratio(counts, n, diversity):  # type: ignore[no-untyped-def]
    """Return r1 / (r_l + … + r_m), r descending; inf when fewer than l values are present."""
    if counts.size < diversity:
        return np.inf
    ascending = np.sort(counts)
    tail = n
    for rank in range(1, diversity):
        tail -= ascending[counts.size - rank]
    return ascending[-1] / tail


@inner
def equal_distance(ids, counts, n, shares):  # type: ignore[no-untyped-def]
    """Return half the sum of |q - p|, which is the sum of q - p where q exceeds p: absent values drop out."""
    total = 0.0
    for j in range(ids.size):
        total += max(0.0, counts[j] / n - shares[ids[j]])
    return total


@inner
def ordered_distance(ids, counts, n, cumulative, area, n_values):  # type: ignore[no-untyped-def]
    """Return the sum over all values of |cumulative q - cumulative p| / (values - 1).

    Between two values that are present, cumulative q is constant and cumulative p ascends: the sum over that gap needs
    one binary search, not a loop.
    """
    if n_values < 2:
        return 0.0
    total = area[ids[0]]
    seen = 0
    for j in range(ids.size):
        seen += counts[j]
        stop = ids[j + 1] if j + 1 < ids.size else n_values
        total += _gap(seen / n, ids[j], stop, cumulative, area)
    return max(0.0, total / (n_values - 1))


@inner
def _gap(q, start, stop, cumulative, area):  # type: ignore[no-untyped-def]
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle + 1] > q:
            high = middle
        else:
            low = middle + 1
    below = q * (low - start) - (area[low] - area[start])
    above = (area[stop] - area[low]) - q * (stop - low)
    return below + above


@inner
def tree_distance(ids, counts, n, ladder, height, node_share, node_step):  # type: ignore[no-untyped-def]
    """Return the sum over inner nodes N of height(N)/H · min(positive, negative extra of its children).

    min(positive, negative) = positive extra of the children - positive extra of N itself, so the sum telescopes to
    one term per node: its own positive extra times (height of its parent - its height) / H. A node without rows of the
    group has none. A node covers a run of codes, so one scan of the ascending ids per level finds every node's rows.
    """
    total = 0.0
    for level in range(height):
        node, inside = -1, 0
        for j in range(ids.size):
            here = ladder[ids[j] * height + level]
            if here != node:
                if node >= 0:
                    total += max(0.0, inside / n - node_share[node]) * node_step[node]
                node, inside = here, 0
            inside += counts[j]
        if node >= 0:
            total += max(0.0, inside / n - node_share[node]) * node_step[node]
    return total


@inner
def log_ratio(ids, counts, n, shares, n_absent):  # type: ignore[no-untyped-def]
    """Return the largest |ln(q/p)| over the values present; inf when n_absent counts and is not 0."""
    if n_absent > 0:
        return np.inf
    most, least = 1.0, 1.0
    for j in range(ids.size):
        if shares[ids[j]] <= 0.0:
            return np.inf
        ratio = counts[j] / n / shares[ids[j]]
        most, least = max(most, ratio), min(least, ratio)
    return max(math.log(most), -math.log(least))


@inner
def largest_gain(ids, counts, n, shares, bounded):  # type: ignore[no-untyped-def]
    """Return the largest (q - p)/p; when bounded, inf where it exceeds -ln p: no beta allows that."""
    gain = 0.0
    for j in range(ids.size):
        p = shares[ids[j]]
        if p <= 0.0:
            return np.inf
        here = counts[j] / n / p - 1.0
        if bounded and here > -math.log(p) + TIGHT:
            return np.inf
        gain = max(gain, here)
    return gain


@inner
def value_level(rules, rule, ids, counts, n):  # type: ignore[no-untyped-def]
    """Return the level of one group under one rule about a sensitive column."""
    model, column = rules.model[rule], rules.column[rule]
    if model == DISTINCT:
        return float(ids.size)
    if model == ENTROPY:
        return entropy_diversity(counts, n)
    if model == RECURSIVE:
        return recursive_ratio(counts, n, int(rules.other[rule]))
    if model == SHARE:
        return largest_share(counts, n)
    start, stop = rules.first_value[column], rules.first_value[column + 1]
    shares = rules.shares[start:stop]
    if model == EQUAL:
        return equal_distance(ids, counts, n, shares)
    if model == ORDERED:
        cumulative, area = rules.cumulative[start:stop], rules.area[start:stop]
        return ordered_distance(ids, counts, n, cumulative, area, rules.n_values[column])
    if model == TREE:
        ladder = rules.ladder[rules.first_rung[column] : rules.first_rung[column + 1]]
        first, last = rules.first_node[column], rules.first_node[column + 1]
        node_share, node_step = rules.node_share[first:last], rules.node_step[first:last]
        return tree_distance(ids, counts, n, ladder, rules.height[column], node_share, node_step)
    if model == LOG_RATIO:
        n_absent = rules.support[column] - ids.size if rules.other[rule] > 0.0 else 0
        return log_ratio(ids, counts, n, shares, n_absent)
    return largest_gain(ids, counts, n, shares, model == BOUNDED_GAIN)


@inner
def size_level(model, released, population):  # type: ignore[no-untyped-def]
    """Return the level of one group under a rule about its size; nan: the rule does not apply to this group."""
    if model == PRESENCE:
        return released / population if population > 0 else np.nan
    if released == 0:
        return np.nan
    return float(released) if model == ROWS else float(population)


@inner
def meets(model, level, bound, other, partitioning):  # type: ignore[no-untyped-def]
    """Return True if a level satisfies its bound; nan does."""
    if math.isnan(level):
        return True
    slack, margin = (TIGHT, LOOSE) if partitioning else (LOOSE, TIGHT)
    if model in (ROWS, POPULATION, DISTINCT, ENTROPY):
        return level >= bound - slack
    if model == PRESENCE:
        return other - slack <= level <= bound + slack
    scale = max(1.0, bound)  # a ratio may be large, and its rounding with it
    if model in (RECURSIVE, LOG_RATIO):
        return level < bound - margin * scale
    return level <= bound + slack * scale


@jit
def tally_levels(rules, rule, indptr, values, counts):  # type: ignore[no-untyped-def]
    """Return the level of every group under one rule about a sensitive column; nan for a group without rows."""
    levels = np.full(indptr.size - 1, np.nan)
    for group in range(levels.size):
        start, stop = indptr[group], indptr[group + 1]
        n = 0
        for j in range(start, stop):
            n += counts[j]
        if n > 0:
            levels[group] = value_level(rules, rule, values[start:stop], counts[start:stop], n)
    return levels


@jit
def size_levels(model, released, population):  # type: ignore[no-untyped-def]
    """Return the level of every group under a rule about its size."""
    levels = np.empty(released.size)
    for group in range(levels.size):
        levels[group] = size_level(model, released[group], population[group])
    return levels


@jit
def levels_meet(model, levels, bound, other):  # type: ignore[no-untyped-def]
    """Return for every level whether it satisfies the bound, with the tolerance of a check."""
    good = np.empty(levels.size, dtype=np.bool_)
    for group in range(levels.size):
        good[group] = meets(model, levels[group], bound, other, False)
    return good


@jit
def rules_hold(rules, sensitive, members, weights, order, start, stop, hist, touched):  # type: ignore[no-untyped-def]
    """Return True if all rules hold for the group of the rows ``order[start:stop]``.

    Parameters
    ----------
    rules : Rules
        The constraints.
    sensitive : uint32 array (rows, columns), C order
        Codes of the columns that ``rules.column`` numbers.
    members : uint8 array (rows,) or of length 0
        1 for released rows; length 0: all are.
    weights : int64 array (rows,) or of length 0
        Number of rows that each row represents; length 0: only itself.
    order, start, stop
        The group.
    hist, touched : int64 arrays as long as the largest ``rules.n_values``
        Scratch buffers; ``hist`` is all zero on entry and on exit.
    """
    released, population = _count_rows(members, weights, order, start, stop)
    for rule in range(rules.first_rule[0]):
        level = size_level(rules.model[rule], released, population)
        if not meets(rules.model[rule], level, rules.bound[rule], rules.other[rule], True):
            return False
    if released == 0:
        return True
    for column in range(rules.n_values.size):
        n_ids = _count_values(sensitive, column, members, weights, order, start, stop, hist, touched)
        n_ids = _gather(hist, touched, n_ids, rules.n_values[column])
        good = _column_holds(rules, column, touched[:n_ids], hist[:n_ids], released)
        hist[:n_ids] = 0
        if not good:
            return False
    return True


@inner
def _column_holds(rules, column, ids, counts, n):  # type: ignore[no-untyped-def]
    for rule in range(rules.first_rule[column], rules.first_rule[column + 1]):
        level = value_level(rules, rule, ids, counts, n)
        if not meets(rules.model[rule], level, rules.bound[rule], rules.other[rule], True):
            return False
    return True


@inner
def _count_rows(members, weights, order, start, stop):  # type: ignore[no-untyped-def]
    """Return the number of released rows and that of all rows."""
    population = stop - start
    if members.size == 0 and weights.size == 0:
        return population, population
    released, population = 0, 0
    for i in range(start, stop):
        row = order[i]
        n = weights[row] if weights.size > 0 else 1
        population += n
        if members.size == 0 or members[row] != 0:
            released += n
    return released, population


@inner
def _count_values(sensitive, column, members, weights, order, start, stop, hist, touched):  # type: ignore[no-untyped-def]
    n_ids = 0
    for i in range(start, stop):
        row = order[i]
        if members.size > 0 and members[row] == 0:
            continue
        value = sensitive[row, column]
        if hist[value] == 0:
            touched[n_ids] = value
            n_ids += 1
        hist[value] += weights[row] if weights.size > 0 else 1
    return n_ids


@inner
def _gather(hist, touched, n_ids, n_values):  # type: ignore[no-untyped-def]
    """Put the ids in ascending order and move their counts to the front of hist.

    The j-th smallest id is at least j, so a count only ever moves towards the front, onto an entry already read.
    """
    if n_values < 16 * n_ids:  # reading all of hist is then cheaper than sorting
        n_ids = 0
        for value in range(n_values):
            if hist[value] > 0:
                touched[n_ids] = value
                n_ids += 1
    else:
        touched[:n_ids].sort()
    for j in range(n_ids):
        count = hist[touched[j]]
        hist[touched[j]] = 0
        hist[j] = count
    return n_ids


@jit
def scratch(rules):  # type: ignore[no-untyped-def]
    """Return the scratch buffers ``hist`` and ``touched`` that ``rules_hold`` needs: a pair for each thread."""
    length = 1
    for n_values in rules.n_values:
        length = max(length, n_values)
    return np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.int64)


class Prior(NamedTuple):
    """Statistics of one sensitive column over the whole table, independent of groups."""

    shares: NDArray[np.float64]  # share of each value in the whole table
    ladder: NDArray[np.int32]  # value x level, empty if no rule uses the hierarchy
    step: NDArray[np.float64]  # distance from each node to its parent


def climb(
    table: NDArray[np.int32], parent: NDArray[np.int32], level: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return ladder and step of a hierarchy.

    The height of a node is the level it is listed at, so that the distance of two values is the level of their common
    ancestor over the height of the hierarchy, even if a leaf is shallow and only padded to the bottom.
    """
    height = table.shape[1] - 1
    below_root = table[:, :height]
    ladder = np.where(level[below_root] == np.arange(height), below_root, -1).astype(np.int32)
    return ladder, (level[parent] - level) / max(height, 1)


def lay_out(rules: Sequence[tuple[int, int, float, float]], priors: Sequence[Prior]) -> Rules:
    """Arrange rules (model, column, bound, other) and the priors of their columns as flat arrays."""
    ordered = sorted(rules, key=lambda rule: rule[1])
    column = np.array([rule[1] for rule in ordered], dtype=np.int64)
    cumulative = [np.concatenate(([0.0], np.cumsum(prior.shares))) for prior in priors]
    return Rules(
        model=np.array([rule[0] for rule in ordered], dtype=np.int64),
        column=column,
        bound=np.array([rule[2] for rule in ordered], dtype=np.float64),
        other=np.array([rule[3] for rule in ordered], dtype=np.float64),
        first_rule=np.searchsorted(column, np.arange(len(priors) + 1)).astype(np.int64),
        n_values=np.array([prior.shares.size for prior in priors], dtype=np.int64),
        support=np.array([np.count_nonzero(prior.shares) for prior in priors], dtype=np.int64),
        first_value=_starts([prior.shares.size + 1 for prior in priors]),
        shares=_joined([np.append(prior.shares, 0.0) for prior in priors], np.float64),
        cumulative=_joined(cumulative, np.float64),
        area=_joined([np.concatenate(([0.0], np.cumsum(each[1:]))) for each in cumulative], np.float64),
        first_rung=_starts([prior.ladder.size for prior in priors]),
        ladder=_joined([prior.ladder.ravel() for prior in priors], np.int32),
        height=np.array([prior.ladder.shape[1] for prior in priors], dtype=np.int64),
        first_node=_starts([prior.step.size for prior in priors]),
        node_share=_joined([_node_shares(prior) for prior in priors], np.float64),
        node_step=_joined([prior.step for prior in priors], np.float64),
    )


def _node_shares(prior: Prior) -> NDArray[np.float64]:
    values, levels = np.nonzero(prior.ladder >= 0)
    shares = np.zeros(prior.step.size)
    np.add.at(shares, prior.ladder[values, levels], prior.shares[values])
    return shares


def _starts(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _joined(arrays: Sequence[NDArray[np.generic]], dtype: type) -> NDArray:  # type: ignore[type-arg]
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype)
