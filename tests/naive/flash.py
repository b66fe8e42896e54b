"""A slow and obvious twin of Flash: every vector of levels is tried, with dictionaries for groups."""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict

import numpy as np

from shoal.privacy.counts import count_groups


def optimum(table, k, *, loss="loss", limit=0.0, constraints=()):
    """Return the least loss of all vectors of levels that may be released, and the losses of all (inf if not)."""
    ladders = [ladder(column) for column in table.quasi]
    losses = {
        levels: judge(table, ladders, levels, k, loss, limit, constraints)
        for levels in itertools.product(*(range(len(each)) for each in ladders))
    }
    return min(losses.values()), losses


def ladder(column):
    """Return for each level the set of codes that represents each code."""
    if column.n_values == 1:
        return [[frozenset([0])]]
    if column.tree is not None:
        found = []
        for level in range(column.tree.height + 1):
            nodes = [ancestor(column.tree, code, level) for code in range(column.n_values)]
            members = {node: frozenset(code for code, n in enumerate(nodes) if n == node) for node in {*nodes}}
            found.append([members[node] for node in nodes])
        return found
    present = [code for code in range(column.n_values) if code != column.missing]
    rows = [int((column.codes == code).sum()) for code in range(column.n_values)]
    found = [[frozenset([code]) for code in range(column.n_values)]]
    n_bins = max((n for n in (2, 4, 8, 16) if 2 * n <= len(present)), default=1)
    while n_bins > 1:
        bins = defaultdict(set)
        before = 0
        for code in present:
            bins[min(int((before + rows[code] / 2) / max(sum(rows[c] for c in present), 1) * n_bins), n_bins - 1)].add(
                code
            )
            before += rows[code]
        level = [
            next((frozenset(b) for b in bins.values() if code in b), frozenset([code]))
            for code in range(column.n_values)
        ]
        if 1 < len(bins) < len({*found[-1]} - {frozenset([column.missing])}):
            found.append(level)
        n_bins //= 2
    if column.n_values > 1:
        found.append([frozenset(range(column.n_values))] * column.n_values)
    return found


def ancestor(tree, code, level):
    while tree.parent[code] != code and tree.level[tree.parent[code]] <= level:
        code = int(tree.parent[code])
    return code


def leaves(tree, node):
    return frozenset(leaf for leaf in range(tree.n_leaves) if ancestor(tree, leaf, int(tree.level[node])) == node)


def judge(table, ladders, levels, k, loss, limit, constraints):
    """Return the loss of a vector of levels; inf if it may not be released.

    It may be released if the groups of fewer than k rows, or that violate a constraint, have in total at most as many
    rows as the limit allows and are together a group of k rows that satisfies every constraint, and if a group is left.
    """
    groups = defaultdict(list)
    for i in range(table.n_rows):
        nodes = (each[level][column.codes[i]] for each, level, column in zip(ladders, levels, table.quasi))
        groups[tuple(nodes)].append(i)
    groups = list(groups.values())
    labels = np.empty(table.n_rows, np.int64)
    for g, rows in enumerate(groups):
        labels[rows] = g
    good = keeps(table, labels, k, constraints)
    outliers = [i for g, rows in enumerate(groups) if not good[g] for i in rows]
    if len(outliers) > limit * table.n_rows + 1e-9 or not any(good):
        return math.inf
    if outliers:
        as_one = np.zeros(table.n_rows, np.int64)
        as_one[outliers] = 1
        if not keeps(table, as_one, k, constraints)[1]:
            return math.inf
    released = [rows for g, rows in enumerate(groups) if good[g]]
    return measure(table, ladders, levels, loss, released, outliers)


def keeps(table, labels, k, constraints):
    counts = count_groups(labels, table.sensitive)
    good = counts.sizes >= k
    for constraint in constraints:
        good = good & constraint.fulfilled(counts)
    return good


def measure(table, ladders, levels, loss, released, outliers):
    n = table.n_rows
    if loss == "discernibility":
        return sum(len(rows) ** 2 for rows in released) + n * len(outliers)
    if loss == "average-group-size":
        return n / (len(released) + bool(outliers))
    total, weight = 0.0, 0.0
    for column, each, level in zip(table.quasi, ladders, levels):
        weight += column.attribute.weight
        kept = [i for rows in released for i in rows]
        if loss == "entropy":
            lost = 0.0
            for code in column.codes:
                alike = sum(int(other) in each[level][code] for other in column.codes)
                lost += math.log2(alike / (column.codes == code).sum())
        elif loss == "precision":
            height = len(each) - 1
            lost = (len(kept) * level / height + len(outliers)) if height else 0.0
        else:
            lost = sum(cell(column, each[level][column.codes[i]], loss) for i in kept)
            lost += len(outliers) * (column.n_values > 1)
        total += column.attribute.weight * lost
    if loss == "entropy":
        return total
    return total / weight / n if weight else 0.0


def cell(column, node, loss):
    """Return the loss of one value that is released as a set of codes."""
    if len(node) == 1:
        return 0.0
    if column.tree is None:
        if column.missing in node:
            return 1.0
        positions = [column.positions[code] for code in node]
        return (max(positions) - min(positions)) / column.width
    if loss == "ncp":
        return len(node) / column.n_values
    return (len(node) - 1) / (column.n_values - 1)


def recode_locally(table, k, *, loss="loss", limit=0.0, constraints=(), step=0.005):
    """Return the steps of local recoding, (levels, groups of rows) each, and the rows that are suppressed in the end.

    At every price, from 0 to the maximum loss of a row in hundredths, the vector whose good groups of rows at that
    price hold the most remaining rows (the first one if tied) is applied repeatedly.
    """
    ladders = [ladder(column) for column in table.quasi]
    vectors = list(itertools.product(*(range(len(each)) for each in ladders)))
    weights = [column.attribute.weight for column in table.quasi]
    if loss != "entropy":
        weights = [weight / (sum(weights) or 1.0) for weight in weights]
    costs = [cell_costs(*each, loss) for each in zip(table.quasi, ladders, weights, strict=True)]
    price = (sum(max(map(max, each)) for each in costs) or 1e-300) / 100
    lost = {v: row_losses(table, costs, v) for v in vectors}
    left, steps = list(range(table.n_rows)), []
    least = max(1, math.ceil(step * table.n_rows - 1e-9))

    @functools.cache
    def priced_groups(rows, levels):
        groups = defaultdict(list)
        for i in rows:
            groups[tuple(each[level][c.codes[i]] for each, level, c in zip(ladders, levels, table.quasi))].append(i)
        kept = [group for group in groups.values() if keeps_alone(table, group, k, constraints)]
        return [(math.ceil(lost[levels][group[0]] / price - 1e-9), group) for group in kept]

    def good_groups(rows, levels, most):
        return [group for needed, group in priced_groups(tuple(rows), levels) if needed <= most]

    def could_end(rows):
        outliers = set(rows) - {i for group in good_groups(rows, vectors[-1], 100) for i in group}
        few = len(outliers) <= math.floor(limit * table.n_rows + 1e-9)
        return not outliers or (few and keeps_alone(table, sorted(outliers), k, constraints))

    def advance(at):
        refused = set()
        while len(refused) < 20:
            best, found = None, min(least, len(left)) - 1
            for v in vectors:
                mean = sum(lost[v][i] for i in left) / price / len(left)
                if v in refused or mean > 0.8 * at + 1e-9:
                    continue
                groups = good_groups(left, v, min(at, 100))
                if sum(map(len, groups)) > found:
                    best, found = (v, groups), sum(map(len, groups))
            if best is None:
                return None
            rest = set(left) - {i for group in best[1] for i in group}
            if could_end(sorted(rest)):
                return best
            refused.add(best[0])
        return None

    for at in range(127):
        while left and (taken := advance(at)) is not None:
            steps.append(taken)
            left = sorted(set(left) - {i for group in taken[1] for i in group})
    groups = good_groups(left, vectors[-1], 100)
    if groups:
        steps.append((vectors[-1], groups))
    return steps, sorted(set(left) - {i for group in groups for i in group})


def cell_costs(column, each, weight, loss):
    """Return the loss of each code at each level, times the weight."""
    if loss == "precision":
        return [[weight * level / max(len(each) - 1, 1)] * column.n_values for level in range(len(each))]
    return [[weight * cell(column, node, loss) for node in level] for level in each]


def row_losses(table, costs, levels):
    codes = zip(*(column.codes.tolist() for column in table.quasi), strict=True)
    return [sum(each[level][code] for each, level, code in zip(costs, levels, row, strict=True)) for row in codes]


def keeps_alone(table, rows, k, constraints):
    labels = np.zeros(table.n_rows, np.int64)
    labels[rows] = 1
    return bool(keeps(table, labels, k, constraints)[1])
