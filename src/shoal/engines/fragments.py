"""A large table in fragments, each of which is released by itself.

A sample grows a coarse tree, whose leaves cut the whole table into fragments of a size that fits into memory. How many
rows, and which sensitive values, each of them really has is then counted in all rows; those that fall short are merged
with their neighbours. Groups never lie in two fragments, so that whatever holds on every group of a fragment holds on
the whole table. Rows that are alike and so many that they would not fit are a group of their own, without being cut.

What runs where is up to an :class:`Engine`, such as Spark or DuckDB; it needs to count, to draw a sample, and to bring
the rows of a fragment together.
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
from shoal.data.table import Column, Table, encode_like
from shoal.engines.base import CoarseTree, Engine, LeafTally, SplitTest, look_at
from shoal.errors import GuaranteeError
from shoal.partition.table_summary import TableSummary, is_plain_number
from shoal.privacy.counts import Counts, tally_rows
from shoal.privacy.models import KAnonymity, PrivacyModel, check_constraints, show_level
from shoal.privacy.rules import membership

SAMPLED_A_FRAGMENT = 500
"""Rows that the sample has of a fragment, about; their number is then right to a tenth."""
LEAST_SAMPLE, MOST_SAMPLE = 50_000, 2_000_000
SMALL = 4
"""A fragment that has less than one row in so many of those it may have is merged with its smaller neighbour."""
LOOKED_AT = 50_000
"""Rows of the sample that are grouped to see where groups lie."""

Cut = tuple[int, np.ndarray]
"""An attribute by number, and which of its codes go left."""


class Fragmentation(NamedTuple):
    """How a table is cut into fragments."""

    method: Anonymizer
    """What releases each of them."""
    crown: CoarseTree
    fragment_of_leaf: np.ndarray
    """Leaves of the same number are one fragment."""
    rows: np.ndarray
    """Rows of each fragment, whether they are released or not."""
    released: np.ndarray
    """Those of them that are."""
    whole: TableSummary
    n_rows: int
    n_alike: int
    """Fragments of rows that are all alike; these are the last ones."""


def fragment(
    engine: Engine[Any], method: Anonymizer, rows_per_fragment: int, seed: int, y: Any = None
) -> Fragmentation:
    """Cut a table into fragments on which a method can keep all that it is asked for.

    ``y`` is a function that gives what the method is guided by for the rows of a frame.
    """
    schema = method.schema
    assert schema is not None
    constraints = (KAnonymity(method.k), *check_constraints(method.constraints))
    if method.random_state is None and method.recoding == "sample":
        # A part may be released once more, where a worker is lost, and must come out the same.
        method = clone(method).set_params(random_state=secrets.randbits(31))
    n_rows = engine.count()
    whole = look_at(engine, schema, membership(constraints), method.missing)
    crown = CoarseTree([None], [0], [0])
    if n_rows > rows_per_fragment:
        sample = engine.sample(sample_size(n_rows, rows_per_fragment), seed)
        guide = None if y is None else y(sample)
        sample = sample.select([name for name in sample.columns if name in schema])
        method = method.for_parts(sample, guide)
        smallest = max(math.ceil(rows_per_fragment / 2 * len(sample) / n_rows), 1)
        crown = grow_crown(method, sample, whole, smallest, guide)
        crown = crown._replace(alike=many_alike(sample, whole, rows_per_fragment * len(sample) / n_rows))
    whole = whole._replace(spelt=None)
    names = [one.name for one in schema.sensitive] if len(constraints) > 1 else []
    while True:
        tally = engine.tally(crown, names, membership(constraints))
        kept = merge_leaves(crown, tally, whole, constraints, rows_per_fragment // SMALL)
        if len(kept.fallen) == 0:
            counts = (kept.rows, kept.released)
            return Fragmentation(method, crown, kept.fragment, *counts, whole, n_rows, len(crown.alike))
        # Rows that are alike and break a constraint among themselves go with their neighbours.
        fallen = set(kept.fallen.tolist())
        crown = crown._replace(alike=[one for i, one in enumerate(crown.alike) if i not in fallen])


def sample_size(n_rows: int, rows_per_fragment: int) -> int:
    """Rows that tell where to cut a table; none of one that is not cut."""
    wanted = SAMPLED_A_FRAGMENT * math.ceil(n_rows / rows_per_fragment)
    return min(max(wanted, LEAST_SAMPLE), MOST_SAMPLE) if n_rows > rows_per_fragment else 0


def grow_crown(method: Anonymizer, sample: nw.DataFrame[Any], whole: TableSummary, smallest: int, y: Any) -> CoarseTree:
    """The first cuts of a method that cuts, or else such that tear few of its groups; ``smallest`` rows a part."""
    if len(sample) < 2 * smallest:
        return CoarseTree([None], [0], [0])
    assert method.schema is not None
    table = whole.encode(sample, method.schema)
    halving = method.cuts_between_parts(table)
    if halving is not None:
        return grow_forks(table, whole, smallest, halving)
    coarse = method.coarse_cuts(sample, y, smallest, whole)
    if coarse is None:
        return cut_between_groups(method, sample, whole, smallest)
    tests: list[SplitTest | None] = []
    for node, j in enumerate(coarse.cuts.attribute.tolist()):
        codes_left = coarse.codes_left[j] if j >= 0 else None
        tests.append(None if codes_left is None else _as_test(coarse.columns[j], codes_left[node], whole))
    return CoarseTree(tests, coarse.cuts.left.tolist(), coarse.cuts.right.tolist())


def cut_between_groups(method: Anonymizer, sample: nw.DataFrame[Any], whole: TableSummary, smallest: int) -> CoarseTree:
    """Cuts between the groups that a method makes of a sample.

    On a million rows of a census in eight parts, Mondrian's cuts let SaNGreeA lose 8 % more than on all rows at once,
    because they cut through ages, which it does not care for.
    """
    # Rows of a sample may be in the order of the table, so that the first ones are no sample of it.
    some = frames.take_rows(sample, np.linspace(0, len(sample) - 1, min(len(sample), LOOKED_AT)).astype(np.int64))
    smallest = max(math.ceil(smallest * len(some) / len(sample)), 1)
    looking = clone(method)
    try:
        found = looking.release_rows(some.to_native(), summary=whole)
    except GuaranteeError:
        looking.set_params(k=min(method.k, len(some)), constraints=())
        found = looking.release_rows(some.to_native(), summary=whole)
    table, labels = found.table, found.labels
    codes = np.column_stack([column.codes for column in table.quasi]).astype(np.int64)

    def cut(rows: np.ndarray) -> Cut | None:
        found = _between_groups(codes[rows], labels[rows], smallest)
        return None if found is None else (found[0], np.arange(table.quasi[found[0]].n_values) <= found[1])

    return grow_forks(table, whole, smallest, cut)


def grow_forks(table: Table, whole: TableSummary, smallest: int, cut: Callable[[np.ndarray], Cut | None]) -> CoarseTree:
    """Cut a sample in two, again and again, while parts have more than twice ``smallest`` rows."""
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
        tests[node] = _as_test(column, goes_left, whole)
        left[node] = grow(rows[is_left])
        right[node] = grow(rows[~is_left])
        return node

    grow(np.arange(table.n_rows))
    return CoarseTree(tests, left, right)


def _between_groups(codes: np.ndarray, labels: np.ndarray, smallest: int) -> tuple[int, int] | None:
    """The attribute, and its last code on the left, where a cut tears fewest rows from their groups for its balance."""
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


def _as_test(column: Column, goes_left: np.ndarray, whole: TableSummary) -> SplitTest:
    missing = bool(column.missing >= 0 and goes_left[column.missing])
    if not is_plain_number(column.attribute):
        # As the table has them: engines compare values, and know of no vocabulary.
        assert whole.spelt is not None
        values, codes = whole.spelt[column.name]
        present = goes_left & (np.arange(column.n_values) != column.missing)
        return SplitTest(column.name, values=tuple(values[i] for i in np.flatnonzero(present[codes])), missing=missing)
    codes = np.flatnonzero(goes_left[: column.n_present])
    if len(codes) == 0:
        # Nothing but the missing value goes left: no number is below the lowest and above the highest.
        return SplitTest(
            column.name, _plain(column.values[column.n_present - 1]), _plain(column.values[0]), missing=missing
        )
    low = None if codes[0] == 0 else _plain(column.values[codes[0]])
    high = None if codes[-1] == column.n_present - 1 else _plain(column.values[codes[-1]])
    return SplitTest(column.name, low, high, missing=missing)


def _plain(value: Any) -> Any:
    """A value as Python has it."""
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    return value.item() if isinstance(value, np.generic) else value


def many_alike(sample: nw.DataFrame[Any], whole: TableSummary, many: float) -> list[dict[str, Any]]:
    """Values of rows that are alike in all quasi-identifiers and more than ``many`` in the sample."""
    names = list(whole.quasi)
    labels = group_rows(sample, names)
    rows_with = np.bincount(labels)
    found = []
    for label in np.flatnonzero(rows_with > max(many, 1)):
        row = int(np.argmax(labels == label))
        values = {name: sample[name][row] for name in names}
        found.append({name: None if value is None or value != value else value for name, value in values.items()})
    return found


class MergedLeaves(NamedTuple):
    """Leaves put together until they keep every constraint."""

    fragment: np.ndarray
    rows: np.ndarray
    released: np.ndarray
    fallen: np.ndarray
    """Rows alike that do not keep every constraint by themselves, or of which there are none, by number."""


def merge_leaves(
    crown: CoarseTree, tally: LeafTally, whole: TableSummary, constraints: Sequence[PrivacyModel], fewest: int = 1
) -> MergedLeaves:
    """Merge leaves that fall short with those beside them, the nearest in the tree first.

    Fragments that then have less than ``fewest`` rows are merged with the smaller of their neighbours.
    """
    n_tree, n_alike = crown.n_of_tree, len(crown.alike)
    apart = np.arange(crown.n_leaves)
    _require_whole_table(_count(np.zeros_like(apart), tally, whole), constraints)
    good = _fulfilled(_count(apart, tally, whole), constraints)
    fallen = np.flatnonzero(~good[n_tree:] | (tally.population[n_tree:] == 0))
    # Bounds between leaves that lie side by side, the deeper the nearer.
    depth = _depths_between(crown)
    fragment = np.arange(n_tree)
    empty = tally.population[:n_tree] == 0
    while True:
        labels = np.concatenate([fragment, fragment.max(initial=-1) + 1 + np.arange(n_alike)])
        counts = _count(labels, tally, whole)
        n = int(fragment.max(initial=-1)) + 1
        # A fragment without a row that is released breaks nothing, but nothing can be released of it either.
        bad = np.flatnonzero(~_fulfilled(counts, constraints)[:n] | (counts.sizes[:n] == 0))
        if n <= 1 or len(bad) == 0:
            break
        fragment = _merge_once(fragment, depth, bad)
    if n_tree and n == 1 and len(bad) and not empty.all() and len(fallen) == 0:
        # What is left beside rows alike is too little by itself: all of these go back.
        fallen = np.arange(n_alike)
    if len(bad) == 0 and n_tree:
        labels = _merge_small(counts.population[:n], fewest)[fragment]
        n = int(labels.max()) + 1
        labels = np.concatenate([labels, n + np.arange(n_alike)])
    rows, released = (np.bincount(labels, one, n + n_alike).astype(np.int64) for one in (tally.population, tally.rows))
    return MergedLeaves(labels, rows, released, fallen)


def _merge_once(fragment: np.ndarray, depth: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Merge each fragment that falls short with the nearer of its neighbours."""
    starts = np.flatnonzero(np.concatenate(([True], np.diff(fragment) > 0)))
    # The depth of the bound before each fragment; there is none before the first.
    before = np.concatenate(([-1], depth[starts[1:] - 1], [-1]))
    closed = np.ones(len(starts) + 1, bool)
    for one in bad.tolist():
        if closed[one] and closed[one + 1]:
            closed[one if before[one] >= before[one + 1] else one + 1] = False
    return (np.cumsum(closed[:-1]) - 1)[fragment]


def _merge_small(rows: np.ndarray, fewest: int) -> np.ndarray:
    """Numbers of fragments after each that has less than ``fewest`` rows was merged, the smallest first."""
    sizes, firsts = rows.tolist(), list(range(len(rows)))
    while len(sizes) > 1 and min(sizes) < fewest:
        i = int(np.argmin(sizes))
        # With the smaller neighbour, so that fragments stay about as large as they may be.
        onto = i - 1 if i == len(sizes) - 1 or (i > 0 and sizes[i - 1] <= sizes[i + 1]) else i
        sizes[onto : onto + 2] = [sizes[onto] + sizes[onto + 1]]
        del firsts[onto + 1]
    return np.searchsorted(firsts, np.arange(len(rows)), side="right") - 1


def _depths_between(crown: CoarseTree) -> np.ndarray:
    """How deep the node lies at which the ways to neighbouring leaves part."""
    found: list[int] = []

    def visit(node: int, depth: int) -> None:
        if crown.tests[node] is None:
            return
        visit(crown.left[node], depth + 1)
        found.append(depth)
        visit(crown.right[node], depth + 1)

    visit(0, 0)
    return np.array(found, np.int64)


def _count(labels: np.ndarray, tally: LeafTally, whole: TableSummary) -> Counts:
    """What is in each fragment, for privacy models."""
    n = int(labels.max(initial=-1)) + 1
    sensitive = {}
    for name, (leaves, values, rows) in tally.sensitive.items():
        column = whole.sensitive[name]
        sensitive[name] = tally_rows(labels[leaves], encode_like(values, column), rows, n, column)
    sizes = np.bincount(labels, tally.rows, n).astype(np.int64)
    population = np.bincount(labels, tally.population, n).astype(np.int64)
    return Counts(sizes, population, sensitive, {name: whole.sensitive[name] for name in sensitive})


def _fulfilled(counts: Counts, constraints: Sequence[PrivacyModel]) -> np.ndarray:
    return np.logical_and.reduce([constraint.fulfilled(counts) for constraint in constraints])


def _require_whole_table(counts: Counts, constraints: Sequence[PrivacyModel]) -> None:
    for constraint in constraints:
        if not constraint.holds(counts):
            raise GuaranteeError(
                f"{constraint.describe()} cannot be reached: the whole table as one group has only the level "
                f"{show_level(constraint.measure(counts))}; ask for less."
            )
