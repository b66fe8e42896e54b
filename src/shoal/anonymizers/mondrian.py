"""Mondrian (LeFevre, DeWitt and Ramakrishnan 2006): cut one attribute at its median, again and again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from shoal._kernels import groups
from shoal._kernels import mondrian as kernel
from shoal._kernels.guard import Guard
from shoal.anonymizers._base import Anonymizer
from shoal.data.schema import Schema
from shoal.data.table import Missing, Table
from shoal.errors import GuaranteeWarning
from shoal.parameters import JOBS, Choice, Constraint
from shoal.partition.cut_tree import CutRule, Cuts, asked_of, count_threads, grow_cuts, make_task
from shoal.privacy.models import PrivacyModel


class Mondrian(Anonymizer):
    """Partition by median cuts, one attribute at a time.

    From the whole table on, each group is cut in two at the median of one attribute, as long as both parts keep k and
    every constraint; where the best attribute has no such cut the next one is tried. A nominal attribute with a
    hierarchy is cut by parting one child of the group's node from the others, one without between its values.

    Parameters
    ----------
    schema : Schema, optional
        Without one every column is a quasi-identifier: numbers and dates numeric, the rest nominal.
    k : int
        Rows that every group has at least.
    mode : {"strict", "relaxed"}
        Strict cuts keep equal values together. Relaxed ones halve every group exactly, and rows that equal the median
        may end up on either side; that gives smaller groups where few values repeat, and overlapping ones. Rows that
        are equal in all that Mondrian sees, and differ in other columns only, are then parted by their order.
    prefer : {"gain", "width"}
        Which attribute is cut: the one whose cut makes the released values most exact, or the widest one, as published.
        On Adult (8 attributes with hierarchies, k = 100) the first loses 0.30 (NCP), the second 0.35.
    constraints : sequence of privacy models
        Kept at every cut, beside k.
    recoding : {"interval", "set", "representative", "mean", "sample"}
        What a group is released as: ranges and common ancestors; ranges and sets of values; the row nearest to the
        group's centre; means; a row drawn at random.
    suppression : float
        Share of the rows that may be suppressed, where that lets the others be released more exactly.
    missing : {"value", "error"}
        Missing values count as a value of their own, or are refused.
    n_jobs : int, optional
        Threads; by default one for each core. The result does not depend on it.
    random_state : int, RandomState or None
        For ``recoding="sample"``.

    Attributes
    ----------
    labels_ : int array (n_rows,)
        Group of each fitted row; -1 for suppressed ones.
    groups_ : dataframe
        The released quasi-identifiers, one row a group.
    schema_ : Schema
        The schema in use.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Mondrian
    >>> people = pl.DataFrame({"age": [25, 27, 31, 45, 47, 52], "zip": ["80", "80", "81", "90", "90", "91"]})
    >>> Mondrian(k=3).fit_transform(people)["age"].to_list()
    ['[25, 31]', '[25, 31]', '[25, 31]', '[45, 52]', '[45, 52]', '[45, 52]']
    """

    def __init__(
        self,
        schema: Schema | None = None,
        k: int = 5,
        *,
        mode: str = "strict",
        prefer: str = "gain",
        constraints: Sequence[PrivacyModel] = (),
        recoding: str = "interval",
        suppression: float = 0.0,
        missing: Missing = "value",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            schema,
            k,
            constraints=constraints,
            recoding=recoding,
            suppression=suppression,
            missing=missing,
            random_state=random_state,
        )
        self.mode = mode
        self.prefer = prefer
        self.n_jobs = n_jobs

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "mode": Choice(("strict", "relaxed")),
        "prefer": Choice(("gain", "width")),
        "n_jobs": JOBS,
    }

    def _partition(self, table: Table, guard: Guard, smallest: int, y: Any) -> np.ndarray:
        task = make_task(table, smallest, sets=self.recoding == "set", by_width=self.prefer == "width")
        ties = guard.sensitive if self.mode == "relaxed" else None
        self._cuts, leaf_starts = grow_cuts(
            task, asked_of(guard), count_threads(self.n_jobs, table.n_rows), CutRule(ties=ties)
        )
        labels = np.empty(table.n_rows, np.int32)
        groups.label_rows(task.rows.order, leaf_starts, labels)
        return labels

    def transform(self, X: Any) -> Any:
        """Put rows into the vocabulary of the fitted groups; see :meth:`Anonymizer.transform`."""
        if self.mode == "relaxed":
            warnings.warn(
                "Relaxed groups overlap, and transform puts all rows that equal a median into one of them: "
                "k holds on what fit_transform returned, not on this.",
                GuaranteeWarning,
                stacklevel=2,
            )
        return super().transform(X)

    def _cuts_in_use(self) -> Cuts:
        return self._cuts

    def _place(self, codes: np.ndarray) -> np.ndarray:
        labels = np.empty(len(codes), np.int32)
        cuts = self._cuts
        cut_from, cut_to = cuts.rule
        kernel.descend(codes, cuts.attribute, cut_from, cut_to, cuts.left, cuts.right, labels)
        return labels

    def _cuts_coarsely(self, smallest: int) -> Self:
        return clone(self).set_params(k=smallest, mode="strict", suppression=0.0)  # type: ignore[no-any-return]

    def _codes_left(self, attribute: int) -> np.ndarray:
        cut_from, cut_to = self._cuts.rule
        codes = np.arange(self._columns[attribute].n_values)
        return np.asarray((cut_from[:, None] <= codes) & (codes < cut_to[:, None]))
