"""The cut of a large table into fragments, which are released independently.

A coarse tree, grown on a sample, cuts the whole table into fragments that fit into memory. Then all rows and sensitive
values of each leaf are counted, and leaves that violate a constraint are merged with their neighbours. No group lies in
two fragments, so a constraint that holds on every group of each fragment holds on the whole table. Rows with equal
quasi-identifiers that are too many for a fragment form a group of their own, which is not cut.

An :class:`Engine`, such as Spark or DuckDB, counts, draws the sample and collects the rows of each fragment.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import clone

from shoal.anonymizers import Anonymizer
from shoal.data import frames
from shoal.data.factored import group_rows
from shoal.data.schema import Schema
from shoal.data.table import Column, Table, encode_like
from shoal.engines.base import CoarseTree, Engine, LeafTally, SplitTest, summarize
from shoal.errors import GuaranteeError
from shoal.partition.table_summary import TableSummary, is_plain_number
from shoal.privacy.counts import Counts, tally_rows
from shoal.privacy.models import KAnonymity, PrivacyModel, check_constraints, show_level
from shoal.privacy.rules import membership

SAMPLE_PER_FRAGMENT = 500
"""Approximate number of sampled rows per fragment, which estimates the size of a fragment to a tenth."""
LEAST_SAMPLE, MOST_SAMPLE = 50_000, 2_000_000
SMALL = 4
"""A fragment with less than one in so many of the rows that it may have is merged with its smaller neighbour."""
MOST_GROUPED = 50_000
"""Maximum number of sampled rows that are grouped, where a method makes no cuts."""

Cut = tuple[int, np.ndarray]
"""The number of an attribute, and which of its codes go left."""


class Fragmentation(NamedTuple):
    """The cut of a table into fragments."""

    method: Anonymizer
    """The method that releases each fragment."""
    tree: CoarseTree
    fragment_of_leaf: np.ndarray
    rows: np.ndarray
    """Rows of each fragment, released or not."""
    released: np.ndarray
    """Released rows of each fragment."""
    summary: TableSummary
    n_rows: int

    @property
    def schema(self) -> Schema:
        """Schema of the table."""
        assert self.method.schema is not None
        return self.method.schema

    @property
    def n_cut(self) -> int:
        """Number of fragments of the tree; those of frequent combinations of values come after them."""
        return len(self.rows) - len(self.tree.frequent)


def fragment(
    engine: Engine[Any], method: Anonymizer, rows_per_fragment: int, seed: int, y: str | None = None
) -> Fragmentation:
    """Cut a table into fragments on which a method can satisfy every constraint.

    ``y`` is the column that guides the method.
    """
    schema = method.schema
    assert schema is not None
    constraints = (KAnonymity(method.k), *check_constraints(method.constraints))
    if method.random_state is None and method.recoding == "sample":
        # A fragment is released again if a worker is lost, and must be the same.
        method = clone(method).set_params(random_state=secrets.randbits(31))
    n_rows = engine.count()
    summary = summarize(engine, schema, membership(constraints), method.missing)
    tree = CoarseTree([None], [0], [0])
    if n_rows > rows_per_fragment:
        sample = engine.sample(sample_size(n_rows, rows_per_fragment), seed)
        guide = None if y is None else sample[y].to_numpy()
        sample = sample.select([name for name in sample.columns if name in schema])
        method = method.for_parts(sample, guide)
        smallest = max(math.ceil(rows_per_fragment / 2 * len(sample) / n_rows), 1)
        tree = grow_coarse_tree(method, sample, summary, smallest, guide)
        tree = tree._replace(frequent=find_frequent(sample, summary, rows_per_fragment * len(sample) / n_rows))
    summary = summary._replace(spelled=None)
    names = [one.name for one in schema.sensitive] if len(constraints) > 1 else []
    while True:
        tally = engine.tally(tree, names, membership(constraints))
        merged = merge_leaves(tree, tally, summary, constraints, rows_per_fragment // SMALL)
        if len(merged.failing) == 0:
            return Fragmentation(method, tree, merged.fragment, merged.rows, merged.released, summary, n_rows)
        # Frequent combinations that violate a constraint by themselves go back to their leaves of the tree.
        failing = set(merged.failing.tolist())
        tree = tree._replace(frequent=[one for i, one in enumerate(tree.frequent) if i not in failing])


def sample_size(n_rows: int, rows_per_fragment: int) -> int:
    """Return the size of the sample that a tree is grown on; 0 for a table that is not cut."""
    wanted = SAMPLE_PER_FRAGMENT * math.ceil(n_rows / rows_per_fragment)
    return min(max(wanted, LEAST_SAMPLE), MOST_SAMPLE) if n_rows > rows_per_fragment else 0


def grow_coarse_tree(
    method: Anonymizer, sample: nw.DataFrame[Any], summary: TableSummary, smallest: int, y: Any
) -> CoarseTree:
    """Return the first cuts of a method, or else cuts that split few of its groups; parts have ``smallest`` rows."""
    if len(sample) < 2 * smallest:
        return CoarseTree([None], [0], [0])
    assert method.schema is not None
    table = summary.encode(sample, method.schema)
    halving = method.cuts_between_parts(table)
    if halving is not None:
        return grow_tree(table, summary, smallest, halving)
    coarse = method.coarse_cuts(sample, y, smallest, summary)
    if coarse is None:
        return cut_between_groups(method, sample, summary, smallest)
    tests: list[SplitTest | None] = []
    for node, j in enumerate(coarse.cuts.attribute.tolist()):
        codes_left = coarse.codes_left[j] if j >= 0 else None
        tests.append(None if codes_left is None else _as_test(coarse.columns[j], codes_left[node], summary))
    return CoarseTree(tests, coarse.cuts.left.tolist(), coarse.cuts.right.tolist())


def cut_between_groups(
    method: Anonymizer, sample: nw.DataFrame[Any], summary: TableSummary, smallest: int
) -> CoarseTree:
    """Return cuts between the groups of a sample.

    On a million rows of a census in eight parts, SaNGreeA loses 8 % more with Mondrian's cuts than on all rows at once,
    because they split ages, which it gives little weight.
    """
    # A sample may be in the order of the table, so its first rows are not representative.
    some = frames.take_rows(sample, np.linspace(0, len(sample) - 1, min(len(sample), MOST_GROUPED)).astype(np.int64))
    smallest = max(math.ceil(smallest * len(some) / len(sample)), 1)
    fitted = clone(method)
    try:
        found = fitted.release_rows(some.to_native(), summary=summary)
    except GuaranteeError:
        fitted.set_params(k=min(method.k, len(some)), constraints=())
        found = fitted.release_rows(some.to_native(), summary=summary)
    table, labels = found.table, found.labels
    codes = np.column_stack([column.codes for column in table.quasi]).astype(np.int64)

    def cut(rows: np.ndarray) -> Cut | None:
        found = _between_groups(codes[rows], labels[rows], smallest)
        return None if found is None else (found[0], np.arange(table.quasi[found[0]].n_values) <= found[1])

    return grow_tree(table, summary, smallest, cut)


def grow_tree(
    table: Table, summary: TableSummary, smallest: int, cut: Callable[[np.ndarray], Cut | None]
) -> CoarseTree:
    """Cut a sample in two recursively, while parts have more than twice ``smallest`` rows."""
    tests: list[SplitTest | None] = []
    left: list[int] = []
    right: list[int] = []
    n_leaves = 0

    def grow(rows: np.ndarray) -> int:
        nonlocal n_leaves
        node, found = len(tests), cut(rows) if len(rows) > 2 * smallest else None
        tests.append(None)
        left.append(node)
        right.append(n_leaves)
        if found is None:
            n_leaves += 1
            return node
        attribute, goes_left = found
        column = table.quasi[attribute]
        is_left = goes_left[column.codes[rows]]
        tests[node] = _as_test(column, goes_left, summary)
        left[node] = grow(rows[is_left])
        right[node] = grow(rows[~is_left])
        return node

    grow(np.arange(table.n_rows))
    return CoarseTree(tests, left, right)


def _between_groups(codes: np.ndarray, labels: np.ndarray, smallest: int) -> tuple[int, int] | None:
    """Return the attribute and its last code on the left of the cut that splits fewest groups for its balance."""
    n, known = len(codes), labels >= 0
    groups, group_of = np.unique(labels[known], return_inverse=True)
    sizes = np.bincount(group_of, minlength=len(groups))
    best: tuple[float, int, int] | None = None
    for j in range(codes.shape[1]):
        column, inside = codes[:, j], codes[known, j]
        end = int(column.max()) + 1
        on_left = np.cumsum(np.bincount(column, minlength=end))
        low, high = np.full(len(groups), end), np.zeros(len(groups), np.int64)
        np.minimum.at(low, group_of, inside)
        np.maximum.at(high, group_of, inside)
        torn = np.cumsum(np.bincount(low, sizes, end + 1) - np.bincount(high, sizes, end + 1))[:end]
        fits = (on_left >= smallest) & (n - on_left >= smallest)
        if not fits.any():
            continue
        cost = np.where(fits, (torn + 1) / np.maximum(on_left * (n - on_left), 1), np.inf)
        code = int(cost.argmin())
        if best is None or cost[code] < best[0]:
            best = (float(cost[code]), j, code)
    return None if best is None else best[1:]


def _as_test(column: Column, goes_left: np.ndarray, summary: TableSummary) -> SplitTest:
    missing = bool(column.missing >= 0 and goes_left[column.missing])
    if not is_plain_number(column.attribute):
        # Engines compare values as they are in the table, not those of a vocabulary.
        assert summary.spelled is not None
        values, codes = summary.spelled[column.name]
        present = goes_left & (np.arange(column.n_values) != column.missing)
        return SplitTest(column.name, values=tuple(values[i] for i in np.flatnonzero(present[codes])), missing=missing)
    codes = np.flatnonzero(goes_left[: column.n_present])
    if len(codes) == 0:
        # Only the missing value goes left: the range from the highest to the lowest value is empty.
        ends = _plain(column.values[column.n_present - 1]), _plain(column.values[0])
        return SplitTest(column.name, *ends, missing=missing)
    low = None if codes[0] == 0 else _plain(column.values[codes[0]])
    high = None if codes[-1] == column.n_present - 1 else _plain(column.values[codes[-1]])
    return SplitTest(column.name, low, high, missing=missing)


def _plain(value: Any) -> Any:
    """Return a value of NumPy as one of Python."""
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    return value.item() if isinstance(value, np.generic) else value


def find_frequent(sample: nw.DataFrame[Any], summary: TableSummary, most: float) -> list[dict[str, Any]]:
    """Return the combinations of quasi-identifiers with more than ``most`` rows of the sample."""
    names = list(summary.quasi)
    labels = group_rows(sample, names)
    rows_with = np.bincount(labels)
    found = []
    for label in np.flatnonzero(rows_with > max(most, 1)):
        row = int(np.argmax(labels == label))
        values = {name: sample[name][row] for name in names}
        found.append({name: None if value is None or value != value else value for name, value in values.items()})
    return found


class MergedLeaves(NamedTuple):
    """Leaves that were merged until they satisfy every constraint."""

    fragment: np.ndarray
    """Fragment of each leaf."""
    rows: np.ndarray
    released: np.ndarray
    failing: np.ndarray
    """Numbers of the frequent combinations that violate a constraint by themselves, or have no rows."""


def merge_leaves(
    tree: CoarseTree, tally: LeafTally, summary: TableSummary, constraints: Sequence[PrivacyModel], fewest: int = 1
) -> MergedLeaves:
    """Merge leaves that violate a constraint with adjacent leaves, the nearest in the tree first.

    Then fragments with less than ``fewest`` rows are merged with their smaller neighbours.
    """
    n_tree, n_frequent = tree.n_tree_leaves, len(tree.frequent)
    separate = np.arange(tree.n_leaves)
    _require_whole_table(_count(np.zeros_like(separate), tally, summary), constraints)
    good = _fulfilled(_count(separate, tally, summary), constraints)
    failing = np.flatnonzero(~good[n_tree:] | (tally.population[n_tree:] == 0))
    # Boundaries between adjacent leaves: the deeper they are, the nearer are the leaves.
    depth = _depths_between(tree)
    fragment = np.arange(n_tree)
    empty = tally.population[:n_tree] == 0
    while True:
        labels = np.concatenate([fragment, fragment.max(initial=-1) + 1 + np.arange(n_frequent)])
        counts = _count(labels, tally, summary)
        n = int(fragment.max(initial=-1)) + 1
        # A fragment without released rows violates nothing, but a method cannot release it.
        bad = np.flatnonzero(~_fulfilled(counts, constraints)[:n] | (counts.sizes[:n] == 0))
        if n <= 1 or len(bad) == 0:
            break
        fragment = _merge_once(fragment, depth, bad)
    if n_tree and n == 1 and len(bad) and not empty.all() and len(failing) == 0:
        # The rows beside the frequent combinations are too few by themselves: all combinations go back to the tree.
        failing = np.arange(n_frequent)
    if len(bad) == 0 and n_tree:
        labels = _merge_small(counts.population[:n], fewest)[fragment]
        n = int(labels.max()) + 1
        labels = np.concatenate([labels, n + np.arange(n_frequent)])
    rows, released = (
        np.bincount(labels, one, n + n_frequent).astype(np.int64) for one in (tally.population, tally.rows)
    )
    return MergedLeaves(labels, rows, released, failing)


def _merge_once(fragment: np.ndarray, depth: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Merge each violating fragment with the nearer of its neighbours."""
    starts = np.flatnonzero(np.concatenate(([True], np.diff(fragment) > 0)))
    # The depth of the boundary before each fragment; the first has none.
    before = np.concatenate(([-1], depth[starts[1:] - 1], [-1]))
    closed = np.ones(len(starts) + 1, bool)
    for one in bad.tolist():
        if closed[one] and closed[one + 1]:
            closed[one if before[one] >= before[one + 1] else one + 1] = False
    return (np.cumsum(closed[:-1]) - 1)[fragment]


def _merge_small(rows: np.ndarray, fewest: int) -> np.ndarray:
    """Return the new numbers of fragments after merging those with less than ``fewest`` rows, the smallest first."""
    sizes, firsts = rows.tolist(), list(range(len(rows)))
    while len(sizes) > 1 and min(sizes) < fewest:
        i = int(np.argmin(sizes))
        # Merging with the smaller neighbour keeps fragments near the size that they may have.
        onto = i - 1 if i == len(sizes) - 1 or (i > 0 and sizes[i - 1] <= sizes[i + 1]) else i
        sizes[onto : onto + 2] = [sizes[onto] + sizes[onto + 1]]
        del firsts[onto + 1]
    return np.searchsorted(firsts, np.arange(len(rows)), side="right") - 1


def _depths_between(tree: CoarseTree) -> np.ndarray:
    """Return the depth of the node that separates each leaf from the next one."""
    found: list[int] = []

    def visit(node: int, depth: int) -> None:
        if tree.tests[node] is None:
            return
        visit(tree.left[node], depth + 1)
        found.append(depth)
        visit(tree.right[node], depth + 1)

    visit(0, 0)
    return np.array(found, np.int64)


def _count(labels: np.ndarray, tally: LeafTally, summary: TableSummary) -> Counts:
    """Return the counts of each fragment, for privacy models."""
    n = int(labels.max(initial=-1)) + 1
    sensitive = {}
    for name, (leaves, values, rows) in tally.sensitive.items():
        column = summary.sensitive[name]
        sensitive[name] = tally_rows(labels[leaves], encode_like(values, column), rows, n, column)
    sizes = np.bincount(labels, tally.rows, n).astype(np.int64)
    population = np.bincount(labels, tally.population, n).astype(np.int64)
    return Counts(sizes, population, sensitive, {name: summary.sensitive[name] for name in sensitive})


def _fulfilled(counts: Counts, constraints: Sequence[PrivacyModel]) -> np.ndarray:
    return np.logical_and.reduce([constraint.fulfilled(counts) for constraint in constraints])


def _require_whole_table(counts: Counts, constraints: Sequence[PrivacyModel]) -> None:
    for constraint in constraints:
        if not constraint.holds(counts):
            raise GuaranteeError(
                f"{constraint.describe()} cannot be reached: the whole table as one group has only the level "
                f"{show_level(constraint.measure(counts))}; ask for less."
            )
