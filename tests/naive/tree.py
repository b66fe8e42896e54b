"""A slow and obvious twin of the tree: parts are lists of row numbers, sums are integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from shoal._kernels.tree_data import BREADTH_FIRST, DEPTH_FIRST, ENTROPY, ONE_VS_REST, ORDERED, SQUARES

Rows = list[int]


class Problem(NamedTuple):
    """The rows to grow a tree on: bins, outputs and weight of each, all of them lists of integers."""

    bins: list[list[int]]
    form: list[int]
    missing: list[int]
    outputs: list[list[int]]
    """Numbers, or a 0 or 1 for each class."""
    weight: list[int]
    criterion: int
    smallest: int
    likeness: Any = None
    holds: Callable[[Rows], bool] | None = None


class Node(NamedTuple):
    number: int
    depth: int
    rows: Rows
    cut: tuple[float, Rows, Rows] | None
    """The gain of a cut, and the rows on either side."""
    children: list[Any]


def make_problem(binning, bins, response, smallest, weight=None, likeness=None, holds=None):
    """Return the arguments of ``grow_tree`` as lists."""
    form, missing = binning.attributes.form.tolist(), binning.attributes.missing.tolist()
    guide = response.guide.tolist()
    if response.criterion != SQUARES:
        guide = [[int(c == one) for c in range(response.n_classes)] for (one,) in guide]
    weight = [1] * len(guide) if weight is None else [int(w) for w in weight]
    bins = bins[:, : len(form)].tolist()
    return Problem(bins, form, missing, guide, weight, response.criterion, smallest, likeness, holds)


def grow(problem, *, growth=DEPTH_FIRST, most_leaves=math.inf, most_depth=math.inf):
    """Return the leaves from left to right."""

    def find(number, depth, rows):
        return Node(number, depth, rows, best_cut(problem, rows) if depth < most_depth else None, [])

    root = find(0, 0, list(range(len(problem.bins))))
    waiting, n_nodes, n_leaves = [root], 1, 1
    while n_leaves < most_leaves:
        waiting = [node for node in waiting if node.cut is not None]
        if not waiting:
            break
        node = min(waiting, key=lambda node: urgency(node, growth))
        waiting.remove(node)
        _, left, right = node.cut
        node.children.extend([find(n_nodes, node.depth + 1, left), find(n_nodes + 1, node.depth + 1, right)])
        waiting += node.children
        n_nodes += 2
        n_leaves += 1
    return leaves_under(root)


def urgency(node, growth):
    """Return the priority of a node, lowest first; ties go to the node that was found first."""
    if growth == DEPTH_FIRST:
        return -(node.number + 2 * (node.number % 2)), 0  # left children have odd numbers, and come first
    if growth == BREADTH_FIRST:
        return node.number, 0
    return -node.cut[0], node.number


def leaves_under(node):
    if not node.children:
        return [node.rows]
    return [leaf for child in node.children for leaf in leaves_under(child)]


def best_cut(problem, rows):
    """Return the best cut that the rules allow for both parts: its gain and the parts; None if there is none."""
    if len(rows) < 2 * problem.smallest or settled(problem, rows):
        return None
    tries = 1 if problem.holds is None else 4
    found = []
    for j in range(len(problem.form)):
        found += best_of_attribute(problem, rows, j)[:tries]
    before = score_of_parts(problem, [rows])
    # Sorting keeps the order of equals: the first attribute, and of that the first candidate.
    for score, left, right in sorted(found, key=lambda one: -one[0]):
        if problem.holds is None or (problem.holds(left) and problem.holds(right)):
            return max(score - before, 0.0), left, right
    return None


def settled(problem, rows):
    """Return True if rows are equal in all that is learned."""
    learned = [tuple(problem.outputs[row]) for row in rows]
    if problem.likeness is not None:
        kept = [j for j in range(len(problem.form)) if problem.likeness.share[j] > 0]
        learned = [(one, *(problem.bins[row][j] for j in kept)) for one, row in zip(learned, rows, strict=True)]
    return len(set(learned)) == 1


def best_of_attribute(problem, rows, j):
    """Return every cut of one attribute that leaves enough rows on both sides, best first."""
    found = []
    for left_bins in possible_lefts(problem, rows, j):
        left = [row for row in rows if problem.bins[row][j] in left_bins]
        right = [row for row in rows if problem.bins[row][j] not in left_bins]
        if len(left) >= problem.smallest and len(right) >= problem.smallest:
            found.append((score_of_parts(problem, [left, right]), left, right))
    return sorted(found, key=lambda one: -one[0])


def possible_lefts(problem, rows, j):
    """Return the sets of bins that may go left."""
    occurring = sorted({problem.bins[row][j] for row in rows})
    n = len(occurring)
    if problem.form[j] == ONE_VS_REST:
        return [{b} for b in occurring] if n > 2 else [{b} for b in occurring[:-1]]
    if problem.form[j] == ORDERED:
        prefixes = [set(occurring[:i]) for i in range(1, n)]
        if problem.missing[j] in occurring and n > 2:
            # The missing value is the highest bin; it may go left too, with any of the others but not all.
            prefixes += [{problem.missing[j], *occurring[:i]} for i in range(1, n - 1)]
        return prefixes
    by_mean = in_order_of_means(problem, rows, j, occurring)
    return [set(by_mean[:i]) for i in range(1, n)]


def in_order_of_means(problem, rows, j, occurring):
    """Sort bins by the mean of the output that varies most between them."""
    parts = {b: [row for row in rows if problem.bins[row][j] == b] for b in occurring}

    def mean(part, m):
        return total(problem, part, m) / weight_of(problem, part)

    def spread(m):
        whole, found = mean(rows, m), 0.0
        for part in parts.values():
            found += weight_of(problem, part) * ((mean(part, m) - whole) * (mean(part, m) - whole))
        return found

    n_outputs = len(problem.outputs[0])
    most = max(range(n_outputs), key=spread) if n_outputs > 1 else 0
    return sorted(occurring, key=lambda b: mean(parts[b], most))


def weight_of(problem, rows):
    return sum(problem.weight[row] for row in rows)


def total(problem, rows, m):
    return sum(problem.outputs[row][m] * problem.weight[row] for row in rows)


def score_of_parts(problem, parts):
    """Return how much of the guide, and of the learned attributes, the parts explain."""
    weights = [float(weight_of(problem, part)) for part in parts]
    score = 0.0
    for m in range(len(problem.outputs[0])):
        sums = [float(total(problem, part, m)) for part in parts]
        if problem.criterion == ENTROPY:
            score += sum(times_log(one) for one in sums)
        else:
            score += sum(one * one / weight for one, weight in zip(sums, weights, strict=True))
    if problem.criterion == ENTROPY:
        score -= sum(times_log(weight) for weight in weights)
    if problem.likeness is None:
        return score
    likeness = problem.likeness
    score *= likeness.guide_share
    for t in likeness.ordered:
        sums = [sum(int(likeness.value[t, problem.bins[r][t]]) * problem.weight[r] for r in part) for part in parts]
        explained = sum(float(one) * float(one) / weight for one, weight in zip(sums, weights, strict=True))
        score += likeness.share[t] * explained
    for t in likeness.nominal:
        explained = 0.0
        for part, weight in zip(parts, weights, strict=True):
            by_bin = {b: [row for row in part if problem.bins[row][t] == b] for b in {problem.bins[r][t] for r in part}}
            explained += float(sum(weight_of(problem, alike) ** 2 for alike in by_bin.values())) / weight
        score += likeness.share[t] * explained
    return score


def times_log(x):
    return x * math.log(x) if x > 0 else 0.0
