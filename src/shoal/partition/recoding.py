"""Recoding: release each group with one value for each quasi-identifier.

A recoding is one function with one registration: ``@recoding(...)`` adds it to ``RECODINGS``, from which anonymizers,
engines, reports, the command line and the studio read its name, its description and its properties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal._kernels import groups as grouping
from shoal._kernels import hierarchy as trees
from shoal._kernels import recoding as kernel
from shoal._kernels.geometry import LARGEST_SET, LINE, SET, TREE
from shoal.data import frames
from shoal.data.factored import FactoredFrame, restrict
from shoal.data.frames import Factor, factorize
from shoal.data.schema import Schema
from shoal.data.table import TOP, Column, Table
from shoal.partition.geometry import Nodes, bounds, distinct_values, forms, group_members, measure_geometry

Published = Literal["texts", "row", "values", "numbers"]


@dataclass(frozen=True)
class GroupRecoding:
    """One way to release a group."""

    name: str
    description: str
    """Values that a group is released as."""
    publishes: Published
    """``"texts"`` that cover the values of all rows of the group, one ``"row"`` of the group, ``"values"`` of each
    attribute that occur in it, or also computed ``"numbers"`` for numeric attributes."""
    function: Callable[..., Any]
    """Recode groups, given the table, the labels and what it ``needs``: the value of each attribute in each group, or
    the row that represents each group if it publishes rows."""
    needs: tuple[str, ...] = ()
    """Further arguments: ``"random"`` or ``"classes"``, which :func:`recode` describes."""


RECODINGS: dict[str, GroupRecoding] = {}
"""The recodings that can follow every partition, by name."""


def recoding(
    name: str, description: str, publishes: Published, needs: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a recoding; for the arguments see :class:`GroupRecoding`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        RECODINGS[name] = GroupRecoding(name, description, publishes, function, needs)
        return function

    return register


def describe_recodings() -> dict[str, str]:
    """Return what each recoding releases a group as, by its name."""
    return {one.name: one.description for one in (*RECODINGS.values(), LEVEL)}


def recodings_that_publish(*kinds: Published) -> list[str]:
    """Return the names of the recodings that publish texts, rows, values or numbers.

    >>> recodings_that_publish("texts")
    ['interval', 'set', 'level']
    """
    return [one.name for one in (*RECODINGS.values(), LEVEL) if one.publishes in kinds]


def needs(name: str, argument: str) -> bool:
    """Return whether a recoding needs an argument besides the table and the labels."""
    return name in RECODINGS and argument in RECODINGS[name].needs


class Recoded(NamedTuple):
    """The released values of the groups in one column: either new values, or those of rows of the table."""

    values: list[Any] | None = None
    rows: np.ndarray | None = None


def recode(
    table: Table,
    labels: np.ndarray,
    recoding: str,
    members: np.ndarray | None = None,
    random: np.random.Generator | None = None,
    classes: np.ndarray | None = None,
) -> dict[str, Recoded]:
    """Release every group with one value per quasi-identifier.

    Parameters
    ----------
    table : Table
    labels : int array (n,)
        Group of each row, -1 for suppressed ones.
    recoding : str
        A name of ``RECODINGS``, which describe themselves.
    members : bool array (n,), optional
        Rows that are released, if only some are. Ranges, ancestors and sets cover all rows of a group; a row that
        represents its group is a released one.
    random : Generator, optional
        For ``"sample"``.
    classes : int array (n,), optional
        Class of each row, for ``"majority"``.
    """
    one = RECODINGS[recoding]
    if members is not None and one.publishes != "texts":
        labels = _of_members(labels, members)
    known = {"random": random, "classes": classes}
    found = one.function(table, labels, **{name: known[name] for name in one.needs})
    return {column.name: Recoded(rows=found) for column in table.quasi} if one.publishes == "row" else found


def recode_as_nodes(table: Table, labels: np.ndarray, nodes: Nodes) -> dict[str, Recoded]:
    """Release every group as the nodes it was generalised to, even if its rows fill only part of them."""
    suppressed = bool((labels < 0).any())
    order, starts = group_members(labels)
    recoded = {}
    for j, column in enumerate(table.quasi):
        node, low, high = nodes.node[:, j], nodes.low[:, j], nodes.high[:, j]
        whole = column.tree is not None and bool((node >= column.n_values).any())
        if not suppressed and not whole and (low == high).all():
            recoded[column.name] = Recoded(rows=order[starts[:-1]])
            continue
        texts = np.array([column.text(code) for code in range(column.n_values)], object)
        if column.tree is not None:
            values = list(_node_texts(column, texts)[node])
        else:
            # A range of all values carries no more information than the top.
            everything = (low == 0) & (high == column.n_values - 1) & (low < high)
            values = np.where(everything, TOP, np.array(_ranges(column, low, high, texts), object)).tolist()
        recoded[column.name] = Recoded(values)
    return recoded


LEVEL = GroupRecoding("level", "nodes at the levels that Flash chose; Flash only", "texts", recode_as_nodes, ("nodes",))
"""Follows no other partition, because only Flash decides on nodes before it recodes."""


@recoding("interval", "ranges, and the lowest common nodes of hierarchies", "texts")
def _intervals(table: Table, labels: np.ndarray) -> dict[str, Recoded]:
    return _spans(table, labels, sets=False)


@recoding("set", "ranges, and sets of values instead of nodes", "texts")
def _ranges_and_sets(table: Table, labels: np.ndarray) -> dict[str, Recoded]:
    return _spans(table, labels, sets=True)


def _spans(table: Table, labels: np.ndarray, *, sets: bool) -> dict[str, Recoded]:
    found = bounds(table, labels)
    form = forms(table, sets=sets)
    suppressed = bool((labels < 0).any())
    order, starts = group_members(labels)
    recoded = {}
    for j, column in enumerate(table.quasi):
        low, high = found.low[:, j], found.high[:, j]
        if not suppressed and (low == high).all():
            # Nothing is generalised here, so the column keeps its type.
            recoded[column.name] = Recoded(rows=order[starts[:-1]])
            continue
        texts = np.array([column.text(code) for code in range(column.n_values)], object)
        if form[j] == TREE:
            values = _ancestors(column, low, high, texts)
        elif form[j] == SET:
            values = _sets(column, labels, low, high, texts)
        else:
            values = _ranges(column, low, high, texts)
        recoded[column.name] = Recoded(values)
    return recoded


def _ranges(column: Column, low: np.ndarray, high: np.ndarray, texts: np.ndarray) -> list[str | None]:
    values: list[str | None] = []
    for first, last in zip(low.tolist(), high.tolist(), strict=True):
        if first == last:
            values.append(texts[first])
        else:
            values.append(TOP if last == column.missing else f"[{texts[first]}, {texts[last]}]")
    return values


def _ancestors(column: Column, low: np.ndarray, high: np.ndarray, texts: np.ndarray) -> list[str | None]:
    assert column.tree is not None
    nodes = trees.common_ancestors(column.tree.table, column.tree.last, low, high)
    return list(_node_texts(column, texts)[nodes])


def _node_texts(column: Column, texts: np.ndarray) -> np.ndarray:
    """Return the text of each node of the hierarchy; a single value as it is written in the table."""
    assert column.tree is not None
    labels = np.array(column.tree.labels, object)
    labels[: column.n_values] = texts
    return labels


def _sets(column: Column, labels: np.ndarray, low: np.ndarray, high: np.ndarray, texts: np.ndarray) -> list[str | None]:
    found = distinct_values(column, labels)
    shown = [text if text is not None else "missing" for text in texts]
    # Codes follow frequency; readers expect numerical or alphabetical order.
    order = [_reading_order(text) for text in texts.tolist()]
    values: list[str | None] = []
    for g in range(len(low)):
        codes = found.values[found.indptr[g] : found.indptr[g + 1]]
        if len(codes) == 1:
            values.append(texts[codes[0]])
        elif len(codes) == column.n_values or len(codes) > LARGEST_SET:
            values.append(TOP)
        else:
            values.append("{" + ", ".join(shown[code] for code in sorted(codes.tolist(), key=order.__getitem__)) + "}")
    return values


def _reading_order(text: str | None) -> tuple[int, float, str]:
    """Return a sort key: numbers by size, then texts alphabetically, then the missing value."""
    if text is None:
        return 2, 0.0, ""
    try:
        number = float(text)
    except ValueError:
        return 1, 0.0, text
    return (0, number, text) if np.isfinite(number) else (1, 0.0, text)


def _of_members(labels: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return labels without the unreleased rows of groups that also have released ones."""
    has_members = np.zeros(int(labels.max(initial=-1)) + 2, bool)
    has_members[labels[members]] = True
    return np.where(members | ~has_members[labels], labels, -1)


@recoding("representative", "the row nearest to the centre of the group", "row")
def _representatives(table: Table, labels: np.ndarray) -> np.ndarray:
    order, starts = _released_groups(labels)
    geometry = measure_geometry(table)
    center = kernel.centers(table.codes, order, starts, geometry)
    return kernel.nearest_rows(table.codes, order, starts, center, geometry)


@recoding("medoid", "the row with the least sum of distances to the other rows", "row")
def _medoids(table: Table, labels: np.ndarray) -> np.ndarray:
    return kernel.medoids(table.codes, *_released_groups(labels), measure_geometry(table), None)


@recoding("centroid", "the row nearest to the mean, with each attribute in units of its spread", "row")
def _rows_nearest_to_mean(table: Table, labels: np.ndarray) -> np.ndarray:
    geometry = measure_geometry(table)
    spread = [
        _variance(column, labels, on_line=form == LINE) for column, form in zip(table.quasi, geometry.form, strict=True)
    ]
    return kernel.medoids(table.codes, *_released_groups(labels), geometry, np.array(spread))


def _variance(column: Column, labels: np.ndarray, *, on_line: bool) -> float:
    """Return the variance of the present positions; of nominal values the sum over their indicator columns."""
    counts = np.bincount(column.codes[labels >= 0], minlength=column.n_values).astype(float)
    if not on_line:
        return 1.0 - float(((counts / max(counts.sum(), 1.0)) ** 2).sum())
    counts, positions = counts[: column.n_present], column.positions[: column.n_present]
    n = max(counts.sum(), 1.0)
    return float(counts @ (positions - counts @ positions / n) ** 2 / n)


@recoding("median", "the median of each number, and the most frequent of other values", "values")
def _medians(table: Table, labels: np.ndarray) -> dict[str, Recoded]:
    return _centers(table, labels, means=False)


@recoding("majority", "the row nearest to the median among those of the most frequent class", "row", ("classes",))
def _majority_rows(table: Table, labels: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Return the row nearest to the median among those of the most frequent class (the lowest if tied)."""
    order, starts = _released_groups(labels)
    eligible = np.ones(table.n_rows, bool)
    if classes is not None:
        everyone = np.empty(0, bool)
        at, found, counts = grouping.tally(classes, order, starts, everyone, int(classes.max(initial=0)) + 1)
        most = np.maximum.reduceat(counts, at[:-1]).repeat(np.diff(at))
        group = np.arange(len(starts) - 1).repeat(np.diff(at))
        # From the last to the first, so that the lowest of tied classes is written last.
        majority = np.full(len(starts), -1)
        majority[group[counts == most][::-1]] = found[counts == most][::-1]
        eligible = classes == majority[labels]
    return kernel.nearest_to_median(table.codes, order, starts, eligible, measure_geometry(table))


@recoding("mean", "the mean of each number or date, and the most frequent of other values", "numbers")
def _means(table: Table, labels: np.ndarray) -> dict[str, Recoded]:
    return _centers(table, labels, means=True)


@recoding("sample", "a row drawn at random", "row", ("random",))
def _drawn_rows(table: Table, labels: np.ndarray, random: np.random.Generator | None) -> np.ndarray:
    """Draw one row per group; rows are first sorted by content, so that the draw ignores the order of the table."""
    random = random if random is not None else np.random.default_rng(0)
    order = np.lexsort((*table.codes.T[::-1], labels))[np.count_nonzero(labels < 0) :]
    sizes = np.bincount(labels[order])
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return order[starts + (random.random(len(sizes)) * sizes).astype(np.int64)]


def _centers(table: Table, labels: np.ndarray, *, means: bool) -> dict[str, Recoded]:
    """Recode each attribute separately: the median, or the mean of a number; else the most frequent value."""
    order, starts = _released_groups(labels)
    center = kernel.centers(table.codes, order, starts, measure_geometry(table))
    recoded = {}
    for j, column in enumerate(table.quasi):
        if means and column.attribute.kind == "numeric":
            recoded[column.name] = Recoded(_mean_values(column, labels, len(starts) - 1))
        else:
            row_of_code = np.zeros(column.n_values, np.int64)
            row_of_code[column.codes] = np.arange(table.n_rows)
            recoded[column.name] = Recoded(rows=row_of_code[center[:, j]])
    return recoded


def _mean_values(column: Column, labels: np.ndarray, n_groups: int) -> list[Any]:
    """Return the mean of the present values of each group; None if all are missing."""
    total, count = np.zeros(n_groups), np.zeros(n_groups)
    kernel.mean_positions(column.codes, labels, column.positions, column.missing, total, count)
    means = total / np.maximum(count, 1)
    if column.content == "date":
        means = np.round(means).astype("datetime64[D]")
    return [mean if n else None for mean, n in zip(means.tolist(), count, strict=True)]


def _released_groups(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows by group and the start of each group, without the suppressed rows."""
    order, starts = group_members(labels)
    return order, starts[: int(labels.max(initial=-1)) + 2]


def build_groups(frame: nw.DataFrame[Any], recoded: dict[str, Recoded]) -> nw.DataFrame[Any]:
    """Return the released rows, one per group, in the library of the frame."""
    first = next(iter(recoded.values())).rows
    if first is not None and all(column.rows is first for column in recoded.values()):
        return nw.maybe_reset_index(frames.take_rows(frame.select(list(recoded)), first))
    columns = {}
    for name, column in recoded.items():
        if column.rows is not None:
            columns[name] = frames.take(frame[name], column.rows)
        else:
            assert column.values is not None
            columns[name] = frames.new_series(name, column.values, frame)
    return frames.side_by_side(columns)


def release_frame(
    frame: nw.DataFrame[Any],
    schema: Schema,
    groups: nw.DataFrame[Any],
    labels: np.ndarray,
    *,
    as_names: bool = False,
) -> nw.DataFrame[Any]:
    """Return ``groups[labels]`` with the columns that are released as they are, without identifiers.

    Suppressed rows are released as the top: ``*`` if a column is text after recoding, else missing. ``as_names``
    converts the texts of groups to names, which polars writes faster.
    """
    suppressed = labels < 0
    if suppressed.any():
        groups, labels = _with_top(groups), np.where(suppressed, len(groups), labels)
    taken = frames.take_rows(frames.as_names(groups) if as_names else groups, labels)
    dropped = [attribute.name for attribute in schema.identifiers]
    return frames.replace_columns(frame, {name: taken[name] for name in taken.columns}).drop(dropped)


def released_rows(
    table: FactoredFrame, schema: Schema, recoded: dict[str, Recoded], labels: np.ndarray
) -> FactoredFrame:
    """Return the rows that :func:`release_frame` returns, with factors where groups have the values of rows.

    No row may be suppressed.
    """
    rows_of = {name: column.rows[labels] for name, column in recoded.items() if column.rows is not None}

    @cache
    def frame() -> nw.DataFrame[Any]:
        return release_frame(table.frame, schema, build_groups(table.frame, recoded), labels)

    def factor(name: str) -> Factor:
        if name in recoded and name not in rows_of:
            return factorize(frame()[name])
        return restrict(table.factor(name), rows_of.get(name, np.arange(len(labels))))

    return FactoredFrame(frame, factor, table.columns, len(labels))


def _with_top(groups: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Append one more group, for suppressed rows."""
    n = len(groups)
    more = frames.take_rows(groups, np.append(np.arange(n), 0))
    return frames.side_by_side({name: frames.blank(more[name], np.arange(n + 1) == n, TOP) for name in more.columns})
