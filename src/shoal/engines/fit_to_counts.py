"""Release of a large table by a method that needs all of it at once, such as one vector of levels for all rows.

Such a method needs the distinct rows and their numbers only: an engine counts them, the method is fitted to the counts,
and then each row of the table is assigned to its group where it is stored. No rows are sorted or moved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import clone

from shoal.anonymizers import Anonymizer
from shoal.data import frames
from shoal.data.schema import Schema
from shoal.data.table import encode_like
from shoal.engines.base import ROWS, Engine, summarize
from shoal.engines.partial_release import PartialLoss, measure_part
from shoal.errors import DataError, GuaranteeError, ShoalError
from shoal.partition.handover import FittedPartition, ReleasedRows
from shoal.partition.recoding import recodings_that_publish, release_frame
from shoal.partition.table_summary import TableSummary
from shoal.privacy.models import KAnonymity, check_constraints
from shoal.privacy.rules import membership


class FittedToCounts(NamedTuple):
    """A method that was fitted to the counts of all distinct rows."""

    partition: FittedPartition
    recoding: str
    findings: dict[str, Any]
    schema: Schema
    """Schema of the whole table; the method was fitted to some of its columns."""
    part: PartialLoss
    """The loss of all rows."""
    n_rows: int

    def release(self, frame: Any) -> nw.DataFrame[Any]:
        """Assign rows of the table to their groups, and release them."""
        opened = frames.open_frame(frame)
        try:
            codes = _codes(self.partition, opened)
        except DataError as error:
            raise DataError(f"The table has changed since its rows were counted: {error}") from None
        return release_frame(opened, self.schema, self.partition.groups, self.partition.place(codes))


def fit_to_counts(engine: Engine[Any], method: Anonymizer, most: int) -> FittedToCounts | None:
    """Fit a method to the counts of all distinct rows of a table, at most ``most`` of them.

    Return None if this is impossible but the method can release the table in parts.
    """
    schema = method.schema
    assert schema is not None
    if method.recoding_in_use not in recodings_that_publish("texts"):
        if method.works_on_parts():
            return None
        raise ShoalError(
            f"recoding={method.recoding_in_use!r} needs all rows of a group, which may be anywhere in the table: "
            f"choose {', '.join(recodings_that_publish('texts'))}, or work in memory."
        )
    constraints = (KAnonymity(method.k), *check_constraints(method.constraints))
    member_of = membership(constraints)
    summary = summarize(engine, schema, member_of, method.missing)
    sensitive = summary.sensitive if len(constraints) > 1 else {}
    names = [*summary.quasi, *sensitive, *([] if member_of is None else [member_of])]
    counted = engine.combinations(names, most)
    if counted.height > most:
        if method.works_on_parts():
            return None
        raise DataError(_too_many(summary, most))
    fitted = clone(method).set_params(schema=Schema(schema[name] for name in names))
    rows = counted[ROWS].to_numpy().astype(np.int64)
    summary = summary._replace(sensitive=sensitive, spelled=None)
    released = fitted.release_rows(counted.select(names), summary=summary, weights=rows)
    part = measure_part(fitted, released)
    _require_same_groups(released, frames.open_frame(counted), type(fitted).__name__)
    return FittedToCounts(released.partition, method.recoding, fitted.findings(), schema, part, int(rows.sum()))


def _codes(partition: FittedPartition, rows: nw.DataFrame[Any]) -> np.ndarray:
    return np.column_stack([encode_like(rows[column.name], column) for column in partition.columns])


def _require_same_groups(released: ReleasedRows, rows: nw.DataFrame[Any], method: str) -> None:
    """Refuse to assign rows to other groups than those of the fit, on which the constraints were checked."""
    partition = released.partition
    if not np.array_equal(partition.place(_codes(partition, rows)), released.labels):
        raise GuaranteeError(
            "Rows would be released in other groups than were counted, so nothing is released: this is a defect of "
            f"the method {method}."
        )


def _too_many(summary: TableSummary, most: int) -> str:
    n_values = {name: column.n_values for name, column in summary.quasi.items() if column.shares is not None}
    worst = max(n_values, key=lambda name: n_values[name], default=None)
    named = "numbers" if worst is None else f"numbers, or {worst!r} with its {n_values[worst]:,} values"
    return (
        f"The table has more than {most:,} different rows, too many to find one vector of levels for all of them here: "
        f"make {named} coarser first, choose mode='local', or give more memory."
    )
