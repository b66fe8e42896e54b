"""What is released of a part of a large table, and what all parts lose together."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from sklearn.base import clone

from shoal.anonymizers import Anonymizer
from shoal.data import enums, frames
from shoal.data.factored import group_rows
from shoal.data.files import restore_texts
from shoal.data.schema import Schema
from shoal.data.table import TOP, Table
from shoal.data.value_text import plain_text
from shoal.errors import DataError, GuaranteeError
from shoal.partition.handover import ReleasedRows
from shoal.partition.losses import LOSSES, GroupSizes, Loss, LossMeasure, each_loss, sum_sizes
from shoal.partition.recoding import recodings_that_publish
from shoal.partition.table_summary import TableSummary
from shoal.privacy.counts import count_groups
from shoal.privacy.models import KAnonymity, check_constraints, show_level
from shoal.privacy.rules import membership, released_rows


class PartialRelease(NamedTuple):
    """What is released of a fragment."""

    frame: nw.DataFrame[Any] | None
    sizes: GroupSizes
    """Of the rows that are handed out."""
    loss: Loss


def release_part(
    method: Anonymizer,
    frame: Any,
    whole: TableSummary,
    y: Any,
    number: int,
    *,
    checked_later: bool = False,
    as_names: bool = False,
) -> PartialRelease:
    """Release the rows of a fragment as part of the whole table, and see what comes out of it.

    ``y`` is what the method is guided by, a value for each row. With a model about a population all its rows are in the
    frame, and some are released. Unless it is ``checked_later``, what comes out is counted once more. Texts are given
    ``as_names`` if asked for.
    """
    one = clone(method)
    # The first one keeps its seed: if it is the only one, it is released as the table would be.
    if one.random_state is not None and number > 0:
        one.random_state = np.random.SeedSequence([seed_of(one.random_state), number]).generate_state(1)[0]
    return measure_part(one, one.release_rows(frame, y, summary=whole, as_names=as_names), checked_later=checked_later)


def measure_part(method: Anonymizer, released: ReleasedRows, *, checked_later: bool = False) -> PartialRelease:
    """See that what was released by a fitted method keeps what was asked for, and what it lost."""
    member_of, (frame, table, labels, _) = membership(method.constraints), released
    members = None if member_of is None else released_rows(table, member_of) != 0
    if not checked_later:
        _require_kept(frame, method, table, members)
    loss = released.loss(members, is_part=table.weights is None)
    counts = count_groups(labels, (), members, table.weights).sizes
    sizes, n_suppressed = (counts[:-1], int(counts[-1])) if (labels < 0).any() else (counts, 0)
    return PartialRelease(frame, sum_sizes(sizes, n_suppressed), loss)


def _require_kept(released: nw.DataFrame[Any], method: Anonymizer, table: Table, members: np.ndarray | None) -> None:
    """Count once more, from the released values: nothing leaves a fragment that breaks what was asked for."""
    labels = group_rows(released, list(table.columns)[: len(table.quasi)])
    counts = count_groups(labels, table.sensitive, members, table.weights)
    for constraint in (KAnonymity(method.k), *check_constraints(method.constraints)):
        if not constraint.holds(counts):
            raise GuaranteeError(
                f"{constraint.describe()} was asked for but a fragment has only the level "
                f"{show_level(constraint.measure(counts))}, so nothing is released: this is a defect of the method."
            )


def column_reader(name: str | None) -> Callable[[nw.DataFrame[Any]], np.ndarray] | None:
    """What gives each row of a frame what a method is guided by: a column of it."""
    return None if name is None else lambda frame: frame[name].to_numpy()


def require_guide(y: str | None, names: Collection[str]) -> None:
    """Refuse a table without the column that guides a method."""
    if y is not None and y not in names:
        raise DataError(f"The table has no column {y!r} to be guided by, only {', '.join(list(names)[:12])}.")


def left_out(y: str | None, schema: Schema) -> list[str]:
    """The column that guides a method, which is released only if the schema has it."""
    return [y] if y is not None and y not in schema else []


def seed_of(random_state: Any) -> int:
    """A number for a source of random numbers."""
    return int(random_state) if isinstance(random_state, numbers.Integral) else int(random_state.randint(2**31))


ADDED_UP = [one.name for one in LOSSES.values() if one.adds in ("mean", "sum")]
"""Losses of parts that give those of the table."""
N_SIZES = len(GroupSizes._fields)
N_NUMBERS = N_SIZES + len(ADDED_UP)
"""Numbers of a part, before those of its attributes."""


def as_numbers(part: PartialRelease) -> list[float]:
    """What a part loses as numbers that can be added up over parts."""
    n, loss = part.sizes.n_rows, part.loss
    added = [loss.values[name] * (n if LOSSES[name].adds == "mean" else 1) for name in ADDED_UP]
    return [*map(float, part.sizes), *added, *(n * value for value in loss.by_attribute.values())]


def from_numbers(numbers: Sequence[float], names: Sequence[str]) -> PartialRelease:
    """The part that all parts are together, whose numbers were added up; ``names`` are those of the attributes."""
    sizes = GroupSizes(*map(int, numbers[:N_SIZES]))
    per = {"mean": max(sizes.n_rows, 1), "sum": 1}
    values = {name: numbers[N_SIZES + i] / per[LOSSES[name].adds] for i, name in enumerate(ADDED_UP)}
    by_attribute = {name: value / per["mean"] for name, value in zip(names, numbers[N_NUMBERS:], strict=True)}
    return PartialRelease(None, sizes, Loss(each_loss(sizes, lambda one: values.get(one.name, math.nan)), by_attribute))


def add_losses(parts: Sequence[PartialRelease]) -> Loss:
    """What all fragments lose together; how frequent values are in the whole table is not known, nor is the entropy."""
    sizes = GroupSizes(*map(sum, zip(*(part.sizes for part in parts), strict=True)))

    def mean(values: Iterable[float]) -> float:
        return sum(part.sizes.n_rows * value for part, value in zip(parts, values, strict=True)) / max(sizes.n_rows, 1)

    def add(one: LossMeasure) -> float:
        if one.adds == "never":
            return math.nan
        return (mean if one.adds == "mean" else sum)(part.loss.values[one.name] for part in parts)

    names = parts[0].loss.by_attribute
    return Loss(each_loss(sizes, add), {name: mean(part.loss.by_attribute[name] for part in parts) for name in names})


def as_written(
    released: Any,
    raw: pl.DataFrame,
    schema: Schema,
    recoding: str,
    marks: Sequence[str] = (),
    dates: Collection[str] = frozenset(),
    *,
    as_names: bool = False,
) -> pl.DataFrame:
    """Return released rows with columns of one type in all fragments, as they are written and then checked.

    Columns that are neither quasi-identifiers nor sensitive keep every character of ``raw``; ``dates`` are
    quasi-identifiers whose means are dates. Texts are given ``as_names`` if asked for.
    """
    quasi = [one.name for one in schema.quasi]
    opened = frames.open_frame(released)
    frame = opened.to_native()
    if recoding in recodings_that_publish("texts"):
        frame = frame.with_columns(_as_texts(opened[name], as_names=as_names) for name in quasi)
    elif recoding in recodings_that_publish("numbers"):
        means = [one.name for one in schema.quasi if one.kind == "numeric"]
        frame = frame.with_columns(_as_mean(frame[name], is_date=name in dates) for name in means)
    return restore_texts(frame, raw, schema, marks)


def _as_mean(series: pl.Series, *, is_date: bool) -> pl.Series:
    """Numbers, or dates, which may be written as texts with a time behind them; suppressed ones are missing."""
    if series.dtype in (pl.String, pl.Enum):
        texts = series.cast(pl.String)
        series = texts.set(texts.eq_missing(TOP), None)
        series = series.str.slice(0, 10).str.to_date() if is_date else series
    return series.cast(pl.Date if is_date else pl.Float64)


def _as_texts(series: nw.Series[Any], *, as_names: bool) -> pl.Series:
    """Values as they are written in a release, also where nothing was generalised."""
    if series.dtype == (nw.Enum if as_names else nw.String):
        return series.to_native()  # type: ignore[no-any-return]
    factor = frames.factorize(series)
    texts = pl.Series(series.name, [*(plain_text(value, factor.content) for value in factor.values), None], pl.String)
    texts = enums.of_texts(texts) if as_names else texts
    return texts.gather(np.where(factor.codes < 0, len(factor.values), factor.codes))


def part_alike(schema: Schema, n_rows: int) -> PartialRelease:
    """What becomes of rows that are all alike: they are released as they are."""
    nothing = dict.fromkeys((one.name for one in schema.quasi), 0.0)
    sizes = sum_sizes(np.array([n_rows]), 0)
    return PartialRelease(None, sizes, Loss(each_loss(sizes, lambda one: 0.0), nothing))
