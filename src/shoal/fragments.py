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
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from sklearn.base import clone

from shoal import frames
from shoal.anonymizers import Anonymizer
from shoal.anonymizers.mondrian import Mondrian
from shoal.errors import GuaranteeError
from shoal.guards import membership, released_rows
from shoal.metrics import Loss, all_losses
from shoal.notation import plain_text
from shoal.partition import Counts, Tally, count_groups
from shoal.privacy import KAnonymity, PrivacyModel, check_constraints, show_level
from shoal.recoding import TEXT_RECODINGS
from shoal.schema import Schema
from shoal.table import Column, Table, encode_like
from shoal.whole import Seen, Whole, is_plain_number

SAMPLED_A_FRAGMENT = 500
"""Rows that the sample has of a fragment, about; their number is then right to a tenth."""
LEAST_SAMPLE, MOST_SAMPLE = 50_000, 2_000_000
Expression = TypeVar("Expression")


class Fork(NamedTuple):
    """What a node asks of a row: which values of an attribute go left."""

    attribute: str
    low: Any = None
    high: Any = None
    """Of a plain number: from where to where, both included; None is without end."""
    values: tuple[Any, ...] | None = None
    """Of any other attribute: those that go left."""
    missing: bool = False
    """Whether rows without a value go left."""


class Crown(NamedTuple):
    """A coarse tree of cuts; node 0 is the root, its leaves are numbered from left to right."""

    tests: Sequence[Fork | None]
    """What a node asks of a row; None in a leaf."""
    left: Sequence[int]
    right: Sequence[int]
    """The children; in a leaf ``right`` is its number."""
    alike: Sequence[Mapping[str, Any]] = ()
    """Rows that have just these values are leaves of their own, numbered behind those of the tree."""

    @property
    def n_of_tree(self) -> int:
        """Leaves of the tree."""
        return sum(test is None for test in self.tests)

    @property
    def n_leaves(self) -> int:
        """All leaves."""
        return self.n_of_tree + len(self.alike)


class Words(Protocol[Expression]):
    """How an engine writes down what is asked of a row."""

    def goes_left(self, test: Fork) -> Expression:
        """Whether a row passes a test."""

    def is_alike(self, values: Mapping[str, Any]) -> Expression:
        """Whether a row has these values; None is the missing one."""

    def choose(self, condition: Expression, yes: Expression, no: Expression) -> Expression:
        """One thing or another."""

    def number(self, value: int) -> Expression:
        """A constant."""


def write_route(crown: Crown, words: Words[Expression], number_of_leaf: Sequence[int]) -> Expression:
    """An expression that gives each row the number of its leaf."""

    def below(node: int) -> Expression:
        test = crown.tests[node]
        if test is None:
            return words.number(number_of_leaf[crown.right[node]])
        return words.choose(words.goes_left(test), below(crown.left[node]), below(crown.right[node]))

    route = below(0)
    for i, values in enumerate(crown.alike):
        route = words.choose(words.is_alike(values), words.number(number_of_leaf[crown.n_of_tree + i]), route)
    return route


class LeafTally(NamedTuple):
    """What is in each leaf of a crown."""

    population: np.ndarray
    """Rows of each leaf."""
    rows: np.ndarray
    """Those of them that are released."""
    sensitive: dict[str, tuple[np.ndarray, nw.Series[Any], np.ndarray]]
    """Of each sensitive attribute: leaves, values, and how many released rows of the leaf have the value."""


class Engine(ABC, Generic[Expression]):
    """What must be known of a table that is too large to be looked at row by row."""

    names: Sequence[str]
    words: Words[Expression]

    @abstractmethod
    def count(self) -> int:
        """All rows."""

    @abstractmethod
    def ends(self, names: Sequence[str]) -> dict[str, Seen]:
        """The lowest and the highest value of columns of numbers, and the missing one if there is such."""

    @abstractmethod
    def distinct(self, name: str, member_of: str | None = None) -> Seen:
        """The values of a column, among all rows or those that a Boolean column marks."""

    @abstractmethod
    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """About so many rows, drawn at random; the same ones for the same seed."""

    @abstractmethod
    def tally(self, crown: Crown, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count what is in each leaf."""


def ends_of(found: pl.DataFrame, names: Sequence[str]) -> dict[str, Seen]:
    """What an engine found of the j-th column: ``low{j}``, ``high{j}``, and ``none{j}`` rows without a value."""
    seen = {}
    for j, name in enumerate(names):
        values = pl.concat([found[f"low{j}"].alias(name), found[f"high{j}"].alias(name)]).drop_nulls()
        n_missing = int(found[f"none{j}"][0])
        if n_missing:
            values = values.extend(pl.Series(name, [None], values.dtype))
        rows = np.ones(len(values))
        rows[len(values) - (n_missing > 0) :] = n_missing
        seen[name] = Seen(frames.open_frame(values.to_frame())[name], rows)
    return seen


def rows_of_leaves(found: pl.DataFrame, n_leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """What an engine counted: of each ``leaf``, ``n`` rows, of which ``m`` are released."""
    leaves = found["leaf"].to_numpy()
    population, released = (np.bincount(leaves, found[name].to_numpy(), n_leaves).astype(np.int64) for name in "nm")
    return population, released


class Fragmentation(NamedTuple):
    """How a table is cut into fragments."""

    method: Anonymizer
    """What releases each of them."""
    crown: Crown
    fragment_of_leaf: np.ndarray
    """Leaves of the same number are one fragment."""
    rows: np.ndarray
    """Rows of each fragment, whether they are released or not."""
    whole: Whole
    n_rows: int
    n_alike: int
    """Fragments of rows that are all alike; these are the last ones."""


def look_at(engine: Engine[Any], schema: Schema, constraints: Sequence[PrivacyModel], missing: Any) -> Whole:
    """Find out what every fragment must know of the whole table."""
    plain = [one.name for one in schema.quasi if is_plain_number(one)]
    seen = engine.ends(plain) if plain else {}
    seen |= {one.name: engine.distinct(one.name) for one in schema.quasi if one.name not in seen}
    seen |= {one.name: engine.distinct(one.name, membership(constraints)) for one in schema.sensitive}
    return Whole.of(schema, seen, missing)


def fragment(
    engine: Engine[Any], method: Anonymizer, rows_per_fragment: int, seed: int, y: Any = None
) -> Fragmentation:
    """Cut a table into fragments on which a method can keep all that it is asked for.

    ``y`` is a function that gives what the method is guided by for the rows of a frame.
    """
    schema = method.schema
    assert schema is not None
    constraints = (KAnonymity(method.k), *check_constraints(method.constraints))
    n_rows = engine.count()
    whole = look_at(engine, schema, constraints, method.missing)
    crown = Crown([None], [0], [0])
    if n_rows > rows_per_fragment:
        wanted = SAMPLED_A_FRAGMENT * math.ceil(n_rows / rows_per_fragment)
        sample = engine.sample(min(max(wanted, LEAST_SAMPLE), MOST_SAMPLE), seed)
        guide = None if y is None else y(sample)
        method = method._for_parts(sample, guide)
        smallest = max(math.ceil(rows_per_fragment / 2 * len(sample) / n_rows), 1)
        crown = grow_crown(method, sample, whole, smallest, guide)
        crown = crown._replace(alike=many_alike(sample, whole, rows_per_fragment * len(sample) / n_rows))
    names = [one.name for one in schema.sensitive] if len(constraints) > 1 else []
    while True:
        tally = engine.tally(crown, names, membership(constraints))
        kept = merge_leaves(crown, tally, whole, constraints)
        if len(kept.fallen) == 0:
            return Fragmentation(method, crown, kept.fragment, kept.rows, whole, n_rows, len(crown.alike))
        # Rows that are alike and break a constraint among themselves go with their neighbours.
        fallen = set(kept.fallen.tolist())
        crown = crown._replace(alike=[one for i, one in enumerate(crown.alike) if i not in fallen])


def grow_crown(method: Anonymizer, sample: nw.DataFrame[Any], whole: Whole, smallest: int, y: Any) -> Crown:
    """The cuts that the method, or else Mondrian, makes in a sample, until parts have about ``smallest`` rows."""
    guided = method._cuts_coarsely(smallest)
    coarse = Mondrian(method.schema, smallest, recoding="interval") if guided is None else guided
    coarse._whole = whole
    if len(sample) < 2 * smallest:
        return Crown([None], [0], [0])
    learned = y if guided is not None else None
    try:
        coarse.fit(sample.to_native(), learned)
    except GuaranteeError:
        # A sample may fall short where the table does not; what fragments have is counted in all rows.
        coarse.set_params(constraints=()).fit(sample.to_native(), learned)
    cuts = coarse._cuts_in_use()
    by_attribute = [coarse._codes_left(j) for j in range(len(coarse._columns))]
    tests: list[Fork | None] = []
    for node, j in enumerate(cuts.attribute.tolist()):
        tests.append(None if j < 0 else _as_test(coarse._columns[j], by_attribute[j][node]))
    return Crown(tests, cuts.left.tolist(), cuts.right.tolist())


def _as_test(column: Column, goes_left: np.ndarray) -> Fork:
    present = goes_left[: column.n_present]
    missing = bool(column.missing >= 0 and goes_left[column.missing])
    if not is_plain_number(column.attribute):
        return Fork(
            column.name, values=tuple(_plain(column.values[code]) for code in np.flatnonzero(present)), missing=missing
        )
    codes = np.flatnonzero(present)
    if len(codes) == 0:
        # Nothing but the missing value goes left: no number is below the lowest and above the highest.
        return Fork(column.name, _plain(column.values[column.n_present - 1]), _plain(column.values[0]), missing=missing)
    low = None if codes[0] == 0 else _plain(column.values[codes[0]])
    high = None if codes[-1] == column.n_present - 1 else _plain(column.values[codes[-1]])
    return Fork(column.name, low, high, missing=missing)


def _plain(value: Any) -> Any:
    """A value as Python has it."""
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    return value.item() if isinstance(value, np.generic) else value


def many_alike(sample: nw.DataFrame[Any], whole: Whole, many: float) -> list[dict[str, Any]]:
    """Values of rows that are alike in all quasi-identifiers and more than ``many`` in the sample."""
    names = list(whole.quasi)
    labels = frames.group_rows(sample, names)
    rows_with = np.bincount(labels)
    found = []
    for label in np.flatnonzero(rows_with > max(many, 1)):
        row = int(np.argmax(labels == label))
        values = {name: sample[name][row] for name in names}
        found.append({name: None if value is None or value != value else value for name, value in values.items()})
    return found


class Kept(NamedTuple):
    """Leaves put together until they keep every constraint."""

    fragment: np.ndarray
    rows: np.ndarray
    fallen: np.ndarray
    """Rows alike that do not keep every constraint by themselves, by number."""


def merge_leaves(crown: Crown, tally: LeafTally, whole: Whole, constraints: Sequence[PrivacyModel]) -> Kept:
    """Merge leaves that fall short with those beside them, the nearest in the tree first."""
    n_tree, n_alike = crown.n_of_tree, len(crown.alike)
    apart = np.arange(crown.n_leaves)
    _require_whole_table(_count(np.zeros_like(apart), tally, whole), constraints)
    good = _fulfilled(_count(apart, tally, whole), constraints)
    fallen = np.flatnonzero(~good[n_tree:] & (tally.population[n_tree:] > 0))
    # Bounds between leaves that lie side by side, the deeper the nearer.
    depth = _depths_between(crown)
    fragment = np.arange(n_tree)
    empty = tally.population[:n_tree] == 0
    while True:
        labels = np.concatenate([fragment, fragment.max(initial=-1) + 1 + np.arange(n_alike)])
        counts = _count(labels, tally, whole)
        n = int(fragment.max(initial=-1)) + 1
        bad = np.flatnonzero(~_fulfilled(counts, constraints)[:n] | (counts.population[:n] == 0))
        if n <= 1 or len(bad) == 0:
            break
        fragment = _merge_once(fragment, depth, bad)
    if n_tree and n == 1 and len(bad) and not empty.all() and len(fallen) == 0:
        # What is left beside rows alike is too little by itself: all of these go back.
        fallen = np.arange(n_alike)
    return Kept(labels, np.bincount(labels, tally.population, n + n_alike).astype(np.int64), fallen)


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


def _depths_between(crown: Crown) -> np.ndarray:
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


def _count(labels: np.ndarray, tally: LeafTally, whole: Whole) -> Counts:
    """What is in each fragment, for privacy models."""
    n = int(labels.max(initial=-1)) + 1
    sensitive = {}
    for name, (leaves, values, rows) in tally.sensitive.items():
        column = whole.sensitive[name]
        codes = encode_like(values, column)
        keys, where = np.unique(labels[leaves] * column.n_values + codes, return_inverse=True)
        counts = np.bincount(where.reshape(-1), rows, len(keys)).astype(np.int64)
        indptr = np.searchsorted(keys, np.arange(n + 1) * column.n_values)
        assert column.shares is not None
        sensitive[name] = Tally(indptr, keys % column.n_values, counts, column.shares)
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


class Part(NamedTuple):
    """What is released of a fragment."""

    frame: nw.DataFrame[Any] | None
    n_rows: int
    """Rows that are handed out."""
    n_groups: int
    n_suppressed: int
    squares: float
    """Sum of the squared sizes of the groups."""
    loss: Loss


def release_part(method: Anonymizer, frame: Any, whole: Whole, y: Any, number: int) -> Part:
    """Release the rows of a fragment as part of the whole table, and see what comes out of it.

    With a model about a population all its rows are in the frame, and some are released.
    """
    one = clone(method)
    one._whole = whole
    if one.random_state is not None:
        one.random_state = np.random.SeedSequence([seed_of(one.random_state), number]).generate_state(1)[0]
    released, table = one.anonymize_frame(frame, y)
    member_of = membership(one.constraints)
    members = None if member_of is None else released_rows(table, member_of) != 0
    _require_kept(released, one, table, members)
    loss = all_losses(table, one.labels_, sets=one._recoding() == "set", members=members, nodes=one._released_nodes())
    labels = one.labels_ if members is None else one.labels_[members]
    sizes = np.bincount(labels[labels >= 0]).astype(float)
    n_groups, n_suppressed = int(np.count_nonzero(sizes)), int(np.count_nonzero(labels < 0))
    return Part(released, len(labels), n_groups, n_suppressed, float((sizes**2).sum()), loss)


def _require_kept(released: nw.DataFrame[Any], method: Anonymizer, table: Table, members: np.ndarray | None) -> None:
    """Count once more, from the released values: nothing leaves a fragment that breaks what was asked for."""
    labels = frames.group_rows(released, list(table.columns)[: len(table.quasi)])
    counts = count_groups(labels, table.sensitive, members)
    for constraint in (KAnonymity(method.k), *check_constraints(method.constraints)):
        if not constraint.holds(counts):
            raise GuaranteeError(
                f"{constraint.describe()} was asked for but a fragment has only the level "
                f"{show_level(constraint.measure(counts))}, so nothing is released: this is a defect of the method."
            )


def seed_of(random_state: Any) -> int:
    """A number for a source of random numbers."""
    return int(random_state) if isinstance(random_state, numbers.Integral) else int(random_state.randint(2**31))


def add_losses(parts: Sequence[Part]) -> Loss:
    """What all fragments lose together; how frequent values are in the whole table is not known, nor is the entropy."""
    n, suppressed = sum(part.n_rows for part in parts), sum(part.n_suppressed for part in parts)

    def mean(values: Iterable[float]) -> float:
        return sum(part.n_rows * value for part, value in zip(parts, values, strict=True)) / max(n, 1)

    return Loss(
        ncp=mean(part.loss.ncp for part in parts),
        granularity=mean(part.loss.granularity for part in parts),
        gil=sum(part.loss.gil for part in parts),
        ngil=mean(part.loss.ngil for part in parts),
        discernibility=sum(part.squares for part in parts) + float(n) * suppressed,
        average_group_size=(n - suppressed) / max(sum(part.n_groups for part in parts), 1),
        non_uniform_entropy=math.nan,
        by_attribute={
            name: mean(part.loss.by_attribute[name] for part in parts) for name in parts[0].loss.by_attribute
        },
    )


def as_written(released: Any, raw: pl.DataFrame, method: Anonymizer) -> pl.DataFrame:
    """Released rows with columns of one type in all fragments; others as they were, marks for missing values too."""
    schema = method.schema
    assert schema is not None
    quasi = [one.name for one in schema.quasi]
    opened = frames.open_frame(released)
    frame = opened.to_native()
    if method.recoding in TEXT_RECODINGS:
        frame = frame.with_columns(_as_texts(opened[name]) for name in quasi)
    elif method.recoding == "mean":
        frame = frame.with_columns(pl.col([one.name for one in schema.quasi if one.kind == "numeric"]).cast(pl.Float64))
    untouched = [name for name in frame.columns if name not in quasi]
    return frame.with_columns(raw.select(untouched))  # type: ignore[no-any-return]


def _as_texts(series: nw.Series[Any]) -> pl.Series:
    """Values as they are written in a release, also where nothing was generalised."""
    if series.dtype == nw.String:
        return series.to_native()  # type: ignore[no-any-return]
    factor = frames.factorize(series)
    texts = pl.Series(series.name, [*(plain_text(value, factor.content) for value in factor.values), None], pl.String)
    return texts.gather(np.where(factor.codes < 0, len(factor.values), factor.codes))


def part_alike(schema: Schema, n_rows: int) -> Part:
    """What becomes of rows that are all alike: they are released as they are."""
    nothing = dict.fromkeys((one.name for one in schema.quasi), 0.0)
    loss = Loss(0.0, 0.0, 0.0, 0.0, float(n_rows) ** 2, float(n_rows), 0.0, nothing)
    return Part(None, n_rows, 1, 0, float(n_rows) ** 2, loss)
