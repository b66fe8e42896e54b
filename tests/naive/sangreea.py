"""A slow and obvious twin of SaNGreeA: every step examines every row, every cost is summed from the values."""

from __future__ import annotations

import functools
import math

from naive.groups import common_ancestor


def cost(table, weights, rows):
    """Return the cost of a cluster of these rows: the sum over the attributes, in their order."""
    total = 0.0
    for column, weight in zip(table.quasi, weights, strict=True):
        total += weight * attribute_cost(column, {int(column.codes[row]) for row in rows})
    return total


def attribute_cost(column, codes):
    if len(codes) == 1:
        return 0.0
    if column.tree is None:
        if column.missing in codes:
            return 1.0
        positions = [column.positions[code] for code in codes]
        return (max(positions) - min(positions)) / (column.width or 1.0)
    if column.attribute.hierarchy is None:
        return 1.0
    # In depth-first order the ancestor of all values is that of the first and the last.
    ancestor = common_ancestor(column.tree, [min(codes), max(codes)])
    depth = depth_of(column.tree)
    return (depth - steps_to_root(column.tree, ancestor)) / depth


@functools.cache
def depth_of(tree):
    return max(steps_to_root(tree, leaf) for leaf in range(tree.n_leaves))


def steps_to_root(tree, node):
    steps = 0
    while tree.parent[node] != node:
        node, steps = tree.parent[node], steps + 1
    return steps


def sangreea(table, k, weights, *, seeds=None, holds=lambda rows: True, wants=None, network=None, most_tried=None):
    """Return the labels of the rows; ``network`` is (neighbours of each row as sets, alpha, beta).

    ``wants`` states whether a row brings a cluster closer to the rule that it violates.
    """
    n = table.n_rows
    seeds = range(n) if seeds is None else seeds
    clusters, free = [], set(range(n))
    for seed in seeds:
        if seed not in free:
            continue
        if len(free) < k:
            break
        rows = grow(table, k, weights, seed, free, holds, network, wants)
        if rows is None:
            break
        clusters.append(rows)
        free -= set(rows)
    if not clusters:
        return [0] * n
    stuck = []
    for row in sorted(free):
        if not disperse(table, weights, clusters, row, holds, network, most_tried):
            stuck.append(row)
    if stuck:
        clusters = unite(table, weights, clusters, stuck, holds)
    labels = [-1] * n
    for number, rows in enumerate(clusters):
        for row in rows:
            labels[row] = number
    return labels


def grow(table, k, weights, seed, free, holds, network, wants=None):
    """Return the rows of a complete cluster, or None."""
    rows, left = [seed], free - {seed}
    while len(rows) < k or not holds(rows):
        # From here on the constraints are not checked after each row.
        assert len(rows) < 128
        candidates = left if len(rows) < k else {row for row in left if wants(rows, row)}
        if not candidates:
            return None
        best = min(candidates, key=lambda row: (score(table, weights, rows, row, network), row))
        rows.append(best)
        left = left - {best}
    return rows


def lacks(values, rows, row, *, absent):
    """Return True if the value of a row is absent from a cluster, or else rarer in it than in the table."""
    count = sum(values[member] == values[row] for member in rows)
    if absent and len({values[member] for member in rows}) < len({*values}):
        return count == 0
    return count < sum(value == values[row] for value in values) / len(values) * len(rows)


def score(table, weights, rows, row, network):
    whole = cost(table, weights, [*rows, row])
    if network is None:
        return whole
    _, alpha, beta = network
    return alpha * (whole / len(table.quasi)) + beta * distance(network, rows, row)


def distance(network, rows, row):
    """Return the mean over the members of the share of other rows that are linked with exactly one of the two."""
    neighbours, _, _ = network
    differing = 0
    for member in rows:
        for other in range(len(neighbours)):
            if other not in (member, row):
                differing += (other in neighbours[member]) != (other in neighbours[row])
    return differing / (len(rows) * max(len(neighbours) - 2, 1))


def disperse(table, weights, clusters, row, holds, network, most_tried):
    """Add a row to the cluster whose loss grows least among those that still hold."""
    growths = []
    for number, rows in enumerate(clusters):
        growth = (len(rows) + 1) * cost(table, weights, [*rows, row]) - len(rows) * cost(table, weights, rows)
        if network is not None:
            _, alpha, beta = network
            growth = alpha * (growth / len(table.quasi)) + beta * distance(network, rows, row)
        growths.append((growth, number))
    for _, number in sorted(growths)[:most_tried]:
        if holds([*clusters[number], row]):
            clusters[number].append(row)
            return True
    return False


def unite(table, weights, clusters, stuck, holds):
    """Merge rows with clusters, cheapest first, until the group holds; it takes the place of the first cluster."""
    group, number = list(stuck), None
    clusters = list(clusters)
    while number is None or not holds(group):
        best, chosen = math.inf, None
        for c, rows in enumerate(clusters):
            if rows and c != number:
                growth = (len(group) + len(rows)) * cost(table, weights, group + rows)
                growth -= len(rows) * cost(table, weights, rows)
                if growth < best:
                    best, chosen = growth, c
        if chosen is None:
            break
        group, clusters[chosen] = group + clusters[chosen], []
        number = chosen if number is None else number
    clusters[number] = group
    return [rows for rows in clusters if rows]
