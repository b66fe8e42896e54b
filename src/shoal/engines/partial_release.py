"""The release of a part of a large table, and the loss of all parts together."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from sklearn.base import clone

from shoal.anonymizers import Anonymizer
from shoal.data import enums, frames
from shoal.data.factored import group_rows
from shoal.data.files import mark_missing, restore_texts
from shoal.data.schema import Schema
from shoal.data.table import TOP, Table, require_same_columns
from shoal.data.value_text import plain_text
from shoal.engines.fragments import Fragmentation
from shoal.errors import DataError, GuaranteeError
from shoal.partition.handover import ReleasedRows
from shoal.partition.losses import LOSSES, GroupSizes, Loss, LossMeasure, each_loss, sum_sizes
from shoal.partition.recoding import recodings_that_publish
from shoal.privacy.counts import count_groups
from shoal.privacy.models import KAnonymity, check_constraints, show_level
from shoal.privacy.rules import membership, released_rows


class PartialLoss(NamedTuple):
    """The loss of a part of a table."""

    sizes: GroupSizes
    """Sizes of the groups, counting the rows that are handed out."""
    loss: Loss


def release_fragment(
    cut: Fragmentation,
    raw: pl.DataFrame,
    number: int,
    y: str | None = None,
    marks: Sequence[str] = (),
    *,
    checked_later: bool = False,
    as_names: bool = False,
) -> tuple[pl.DataFrame, PartialLoss]:
    """Release the rows of a fragment as part of the whole table; return them as they are written, and the loss.

    ``y`` is the column that guides the method, and ``marks`` stand for missing values. For a model about a population,
    the fragment has all rows of it, some of which are released. The groups are counted again unless they are
    ``checked_later``. With ``as_names``, texts are released as enums.
    """
    schema, method = cut.schema, clone(cut.method)
    # The first fragment keeps the seed: a single fragment is released as the table would be.
    if method.random_state is not None and number > 0:
        method.random_state = np.random.SeedSequence([seed_of(method.random_state), number]).generate_state(1)[0]
    guide = None if y is None else frames.open_frame(raw)[y].to_numpy()
    raw = raw.drop(left_out(y, schema))
    seen = mark_missing(raw, marks, schema.names)
    released = method.release_rows(seen, guide, summary=cut.summary, as_names=as_names)
    loss = measure_part(method, released, checked_later=checked_later)
    dates = cut.summary.dates
    return as_written(released.frame, raw, schema, method.recoding, marks, dates, as_names=as_names), loss


def measure_part(method: Anonymizer, released: ReleasedRows, *, checked_later: bool = False) -> PartialLoss:
    """Check the constraints on the rows that a fitted method has released, and measure the loss."""
    member_of, (frame, table, labels, _) = membership(method.constraints), released
    members = None if member_of is None else released_rows(table, member_of) != 0
    if not checked_later:
        _require_constraints(frame, method, table, members)
    loss = released.loss(members, is_part=table.weights is None)
    counts = count_groups(labels, (), members, table.weights).sizes
    sizes, n_suppressed = (counts[:-1], int(counts[-1])) if (labels < 0).any() else (counts, 0)
    return PartialLoss(sum_sizes(sizes, n_suppressed), loss)


def _require_constraints(
    released: nw.DataFrame[Any], method: Anonymizer, table: Table, members: np.ndarray | None
) -> None:
    """Refuse a fragment that violates a constraint, by counting its released values."""
    labels = group_rows(released, list(table.columns)[: len(table.quasi)])
    counts = count_groups(labels, table.sensitive, members, table.weights)
    for constraint in (KAnonymity(method.k), *check_constraints(method.constraints)):
        if not constraint.holds(counts):
            raise GuaranteeError(
                f"{constraint.describe()} was asked for but a fragment has only the level "
                f"{show_level(constraint.measure(counts))}, so nothing is released: this is a defect of the method."
            )


def require_columns(names: Collection[str], schema: Schema, y: str | None) -> None:
    """Refuse a table without the columns of the schema, or without the column that guides the method."""
    if y is not None and y not in names:
        raise DataError(
            f"The table has no column {y!r} to guide the method: choose among {', '.join(list(names)[:12])}."
        )
    require_same_columns([name for name in names if name not in left_out(y, schema)], schema)


def left_out(y: str | None, schema: Schema) -> list[str]:
    """Return the column that guides the method, unless the schema has it: then it is released."""
    return [y] if y is not None and y not in schema else []


def seed_of(random_state: Any) -> int:
    """Return an integer seed; a generator draws one."""
    return int(random_state) if isinstance(random_state, numbers.Integral) else int(random_state.randint(2**31))


ADDED_UP = [one.name for one in LOSSES.values() if one.adds in ("mean", "sum")]
"""Losses of a table that follow from those of its parts."""
N_SIZES = len(GroupSizes._fields)
N_NUMBERS = N_SIZES + len(ADDED_UP)
"""Number of the figures of a part, before those of its attributes."""


def as_numbers(part: PartialLoss) -> list[float]:
    """Return the loss of a part as numbers that can be summed over parts."""
    n, loss = part.sizes.n_rows, part.loss
    added = [loss.values[name] * (n if LOSSES[name].adds == "mean" else 1) for name in ADDED_UP]
    return [*map(float, part.sizes), *added, *(n * value for value in loss.by_attribute.values())]


def from_numbers(numbers: Sequence[float], names: Sequence[str]) -> PartialLoss:
    """Return all parts as one from the sums of their numbers; ``names`` are those of the attributes."""
    sizes = GroupSizes(*map(int, numbers[:N_SIZES]))
    per = {"mean": max(sizes.n_rows, 1), "sum": 1}
    values = {name: numbers[N_SIZES + i] / per[LOSSES[name].adds] for i, name in enumerate(ADDED_UP)}
    by_attribute = {name: value / per["mean"] for name, value in zip(names, numbers[N_NUMBERS:], strict=True)}
    return PartialLoss(sizes, Loss(each_loss(sizes, lambda one: values.get(one.name, math.nan)), by_attribute))


def add_losses(parts: Sequence[PartialLoss]) -> Loss:
    """Return the loss of all fragments; the entropy is unknown, as value frequencies in the whole table are."""
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
    quasi-identifiers whose means are dates. With ``as_names``, texts are enums.
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
    """Return means as numbers or dates, also if they are texts of dates with a time; suppressed ones are missing."""
    if series.dtype in (pl.String, pl.Enum):
        texts = series.cast(pl.String)
        series = texts.set(texts.eq_missing(TOP), None)
        series = series.str.slice(0, 10).str.to_date() if is_date else series
    return series.cast(pl.Date if is_date else pl.Float64)


def _as_texts(series: nw.Series[Any], *, as_names: bool) -> pl.Series:
    """Return values as texts, also if none of them was generalised."""
    if series.dtype == (nw.Enum if as_names else nw.String):
        return series.to_native()  # type: ignore[no-any-return]
    factor = frames.factorize(series)
    texts = pl.Series(series.name, [*(plain_text(value, factor.content) for value in factor.values), None], pl.String)
    texts = enums.of_texts(texts) if as_names else texts
    return texts.gather(np.where(factor.codes < 0, len(factor.values), factor.codes))


def no_loss(schema: Schema, n_rows: int) -> PartialLoss:
    """Return the loss of rows with equal quasi-identifiers, which are released as they are."""
    nothing = dict.fromkeys((one.name for one in schema.quasi), 0.0)
    sizes = sum_sizes(np.array([n_rows]), 0)
    return PartialLoss(sizes, Loss(each_loss(sizes, lambda one: 0.0), nothing))
