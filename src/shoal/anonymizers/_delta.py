"""Changes of a release by a batch, as rows to remove and rows to add."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal.data import frames
from shoal.data.factored import group_rows
from shoal.data.files import write_table
from shoal.data.schema import Schema
from shoal.data.table import Table, encode_column
from shoal.partition.box_tree import FrameStore, as_text, same_type
from shoal.partition.recoding import release_frame
from shoal.privacy.rules import released_rows


class Delta(NamedTuple):
    """Changes of a release by a batch.

    Rows are numbered in the order of insertion; groups have the numbers of ``labels_``. A group takes part in a change
    if rows join or leave it, or if it is cut or merged; all others are released as before. A group number that is no
    longer used may be reused for another group.
    """

    inserted: np.ndarray
    """Rows that were added."""
    deleted: np.ndarray
    """Rows that were removed."""
    changed: np.ndarray
    """Rows that are present before and after, but with other released values."""
    groups_added: np.ndarray
    groups_changed: np.ndarray
    groups_removed: np.ndarray
    before: Any
    """Dataframe: the former released values of deleted and changed rows, with their numbers in the first column."""
    after: Any
    """Dataframe: the released values of inserted and changed rows."""

    @property
    def frame(self) -> Any:
        """Both tables in one: lines to remove from the release, then lines to add, as the first column says."""
        before, after = frames.open_frame(self.before), frames.open_frame(self.after)
        name = _unused("change", before.columns)
        parts = [_marked(before, name, "out"), _marked(after, name, "in")]
        present = [part for part in parts if len(part)] or parts[:1]
        return nw.maybe_reset_index(nw.concat(_same_types(present), how="vertical")).to_native()

    def to_csv(self, path: str | Path, *, separator: str | None = None) -> None:
        """Write :attr:`frame` as CSV; the file is there in full or not at all."""
        write_table(frames.open_frame(self.frame), path, kind="csv", separator=separator)

    def to_parquet(self, path: str | Path) -> None:
        """Write :attr:`frame` as Parquet; the file is there in full or not at all."""
        write_table(frames.open_frame(self.frame), path, kind="parquet")


def handed_out(
    frame: nw.DataFrame[Any],
    schema: Schema,
    member_of: str | None,
    groups: nw.DataFrame[Any],
    labels: np.ndarray,
    ids: np.ndarray | None = None,
) -> nw.DataFrame[Any]:
    """Return the released rows, with their numbers first if given; of a population only the released part."""
    released = release_frame(frame, schema.without_identifiers(), groups, labels)
    if ids is not None:
        name = _unused("row", released.columns)
        numbers = frames.new_series(name, ids.tolist(), released) if len(ids) else _no_numbers(name, released)
        released = frames.side_by_side({name: numbers, **{n: released[n] for n in released.columns}})
    if member_of is None or len(released) == 0:
        return released if member_of is None else released.drop(member_of)
    table = Table({member_of: encode_column(frame[member_of], schema[member_of])}, schema, len(frame))
    members = np.flatnonzero(released_rows(table, member_of))
    return nw.maybe_reset_index(frames.take_rows(released, members).drop(member_of))


def same_values(one: nw.DataFrame[Any], two: nw.DataFrame[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers for the rows of two frames, equal where the released rows are equal."""
    both = nw.concat(_same_types([one, two]), how="vertical")
    numbers = group_rows(both, both.columns)
    return numbers[: len(one)], numbers[len(one) :]


def with_groups(released: FrameStore, groups: nw.DataFrame[Any]) -> FrameStore:
    """Return the released values and those of new groups; a column becomes text if one of the two is."""
    first, groups = _same_types([released.first, groups])
    if first is not released.first:
        everything = released.take(np.arange(len(released)))
        released = FrameStore(_same_types([everything, groups])[0])
    return released.with_rows(groups)


def _same_types(parts: Sequence[nw.DataFrame[Any]]) -> list[nw.DataFrame[Any]]:
    if len(parts) < 2:
        return list(parts)
    one, two = parts
    names = [name for name in one.columns if not same_type(one[name], two[name])]
    return [as_text(one, names), as_text(two, names)] if names else [one, two]


def _marked(frame: nw.DataFrame[Any], name: str, mark: str) -> nw.DataFrame[Any]:
    marks = nw.new_series(name, [mark] * len(frame), nw.String(), backend=frame.implementation)
    return frames.side_by_side({name: marks, **{n: frame[n] for n in frame.columns}})


def _no_numbers(name: str, like: nw.DataFrame[Any]) -> nw.Series[Any]:
    return nw.new_series(name, [], nw.Int64(), backend=like.implementation)


def _unused(name: str, names: Sequence[str]) -> str:
    while name in names:
        name += "_"
    return name
