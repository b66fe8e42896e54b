"""The values that a fitted method hands over to engines, reports and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal.data.table import Column, Table
from shoal.partition.cut_tree import Cuts
from shoal.partition.geometry import Nodes
from shoal.partition.losses import Loss, all_losses


class FittedPartition(NamedTuple):
    """The released row of each group, and how other rows find their groups."""

    groups: nw.DataFrame[Any]
    columns: list[Column]
    """Vocabularies of the quasi-identifiers, without rows."""
    recoding: str
    nodes: Nodes | None
    """The nodes that groups are released as, where these do not follow from the recoding of their rows."""
    place: Callable[[np.ndarray], np.ndarray]
    """Return the groups of rows, given their codes."""


class ReleasedRows(NamedTuple):
    """Released rows, the encoded rows they were made from, and the group of each."""

    frame: nw.DataFrame[Any]
    table: Table
    labels: np.ndarray
    partition: FittedPartition

    def loss(self, members: np.ndarray | None = None, *, is_part: bool = False) -> Loss:
        """Return every loss, of the rows that are handed out if only some are."""
        sets, nodes = self.partition.recoding == "set", self.partition.nodes
        return all_losses(self.table, self.labels, sets=sets, members=members, nodes=nodes, is_part=is_part)


class CoarseCuts(NamedTuple):
    """The first cuts of a method, grown on a sample."""

    cuts: Cuts
    columns: list[Column]
    codes_left: list[np.ndarray | None]
    """Of each column: the codes that each node sends left (nodes, codes)."""
