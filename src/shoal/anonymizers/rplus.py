"""R+ tree (Iwuchukwu and Naughton 2007): disjoint boxes of rows, with insertion and deletion of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted

from shoal._kernels import groups as grouping
from shoal._kernels.boxes import BoxCuts, descend
from shoal._kernels.geometry import TREE, Geometry
from shoal._kernels.guard import Guard
from shoal.anonymizers._base import Anonymizer, PartitionInput, random_source, require_released_groups
from shoal.anonymizers._delta import Delta, handed_out
from shoal.anonymizers._incremental import (
    Asked,
    Change,
    GroupRules,
    GroupRulesCheck,
    GroupsToCut,
    ReleaseState,
    broken_rule,
    left_over,
    no_way,
    nothing_changed,
    places_of,
    rearrange,
    require_enough,
)
from shoal.data import frames
from shoal.data.factored import FactoredFrame
from shoal.data.table import TOP, Table
from shoal.data.vocabulary import Vocabulary, key_tables
from shoal.errors import GuaranteeError, ShoalError
from shoal.parameters import JOBS, Constraint
from shoal.partition.box_tree import BoxPartition, FrameStore, alike, longer
from shoal.partition.cut_tree import PACKED, Cuts, asked_of, count_threads, grow_cuts, grow_parts, make_task
from shoal.partition.handover import ReleasedRows
from shoal.partition.recoding import build_groups, needs, recode
from shoal.privacy.models import KAnonymity, check_constraints
from shoal.privacy.rules import make_guard


@dataclass(eq=False, repr=False)
class RPlusTree(Anonymizer):
    """Partition into disjoint boxes, and keep the release up to date when rows come and go.

    The table is cut in two, then each part again, as long as both parts satisfy k and every constraint. The position of
    a cut leaves as many full groups as possible on both sides, and its attribute makes the two boxes tightest. The
    result is a tree of cuts through the space of all possible rows: every row has exactly one box.

    A fitted tree can be changed. :meth:`insert` puts rows into their boxes and cuts those that have grown;
    :meth:`delete` removes rows and merges groups that have fewer than k rows, or violate a constraint, with their
    neighbours. k and every constraint hold after each batch, groups without inserted or deleted rows stay unchanged,
    and a batch that fails changes nothing. The object stores the rows for this: do not hand it out.

    Each release satisfies k and every constraint separately; two of them, or a delta, reveal more. Rows that stayed lie
    where both boxes overlap, and the ranges and means of a group reveal the rows that left or joined it. Replace the
    old release with the new one, and do not give successive releases to the same reader.

    Parameters
    ----------
    schema : Schema, optional
        By default every column is a quasi-identifier: numbers and dates are numeric, all others nominal.
    k : int
        Minimum number of rows per group.
    constraints : sequence of privacy models
        Constraints besides k; every cut satisfies them.
    recoding : {"interval", "set", "representative", "mean", "sample"}
        Released values of a group: ranges and common ancestors; ranges and sets of values; the row nearest to the
        group's centre; means; a row drawn at random.
    suppression : float
        Share of the rows that may be suppressed, where that lets the others be released more exactly. A tree with
        suppressed rows cannot be changed.
    missing : {"value", "error"}
        Treat missing values as a separate value, or refuse them.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
        Random source of ``recoding="sample"``.

    Attributes
    ----------
    labels_ : int array (n_rows,)
        Group of each present row; -1 if it is suppressed.
    groups_ : dataframe
        The released quasi-identifiers, one row per group; empty for unused group numbers.
    row_ids_ : int array (n_rows,)
        Numbers of the present rows, assigned in the order of insertion and never reused.
    schema_ : Schema
        The schema in use.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import RPlusTree
    >>> people = pl.DataFrame({"age": [25, 27, 31, 45, 47, 52]})
    >>> tree = RPlusTree(k=2).fit(people)
    >>> tree.release()["age"].to_list()
    ['[25, 27]', '[25, 27]', '[31, 45]', '[31, 45]', '[47, 52]', '[47, 52]']
    >>> delta = tree.delete([5])
    >>> delta.after["age"].to_list(), tree.release()["age"].to_list()
    (['[31, 47]', '[31, 47]', '[31, 47]'], ['[25, 27]', '[25, 27]', '[31, 47]', '[31, 47]', '[31, 47]'])
    """

    _: KW_ONLY
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {"n_jobs": JOBS}
    _holds_rows = ("_frame",)

    def insert(self, X: Any) -> Delta:
        """Add rows to the table, and change the release of their groups only.

        Parameters
        ----------
        X : table or array
            With the columns of ``fit``.

        Returns
        -------
        Delta
            The changes; the numbers of the new rows are ``delta.inserted``.
        """
        kept = self._open_kept()
        if self._is_empty(X):
            return nothing_changed(self._fitted.rules, kept)
        frame = self._open(X, reset=False).drop([a.name for a in self.schema_.identifiers])
        frame = alike(frame, kept.rows.first)
        first, n = kept.boxes.n_rows, len(frame)
        ids = longer(kept.ids, first + n, -1)
        # The entries after those in use are spare, so nothing changes for other owners of the array.
        ids[first : first + n] = np.arange(kept.next_id, kept.next_id + n)
        grown = kept._replace(
            rows=kept.rows.with_rows(frame),
            ids=ids,
            next_id=kept.next_id + n,
            vocabulary=kept.vocabulary.with_values(frame, self.missing),
        )
        return self._change(grown, np.arange(first, first + n), np.empty(0, np.int64))

    def delete(self, rows: Any) -> Delta:
        """Remove rows from the table, and change the release of their groups only.

        Parameters
        ----------
        rows : int array, or bool array (n_rows,)
            Numbers from :attr:`row_ids_`, or a mask of the present rows.
        """
        kept = self._open_kept()
        gone = places_of(rows, kept)
        return self._change(kept, gone[:0], gone) if len(gone) else nothing_changed(self._fitted.rules, kept)

    def release(self) -> Any:
        """Return the current released rows, in the order of insertion.

        With a model about a population, only the released rows are returned, without the column that marks them.
        """
        self._require_rows()
        labels = self.labels_
        frame = self._frame if self._kept is None else self._kept.rows.take(self._kept.places)
        assert frame is not None
        groups = frames.open_frame(self.groups_)
        return handed_out(frame, self.schema_, self._fitted.rules.member_of, groups, labels).to_native()

    @property
    def row_ids_(self) -> np.ndarray:
        """Numbers of the present rows."""
        if self._kept is None:
            return np.arange(len(self._labels))
        return self._kept.ids[self._kept.places]

    @property
    def labels_(self) -> np.ndarray:
        """Group of each present row."""
        return self._labels if self._kept is None else self._kept.boxes.labels[self._kept.places]

    @labels_.setter
    def labels_(self, labels: np.ndarray) -> None:
        self._labels = labels
        self._kept: ReleaseState | None = None

    @property
    def groups_(self) -> Any:
        """The released quasi-identifiers, one row per group; empty for unused group numbers."""
        check_is_fitted(self, "labels_")
        if self._kept is None:
            return self._groups.to_native()
        in_use = self._kept.boxes.in_use
        groups = self._kept.released.take(self._kept.released_row[: len(in_use)])
        if not in_use.all():
            blank = {name: frames.blank(groups[name], ~in_use, TOP) for name in groups.columns}
            groups = frames.replace_columns(groups, blank)
        return groups.to_native()

    def transform(self, X: Any) -> Any:
        """Recode rows with the values of the current groups; see :meth:`Anonymizer.transform`."""
        self._catch_up()
        return super().transform(X)

    def release_others(self, X: Any, y: Any = None) -> ReleasedRows:
        """Release other rows by the current cuts; see :meth:`Anonymizer.release_others`."""
        self._catch_up()
        return super().release_others(X, y)

    def forget_rows(self) -> Self:
        """Drop the rows, before the object is handed on; it can neither change nor recode rows from then on."""
        check_is_fitted(self, "labels_")
        self._groups, self.labels_ = frames.open_frame(self.groups_), self.labels_
        return super().forget_rows()

    def _partition(self, table: Table, guard: Guard, smallest: int, y: Any) -> np.ndarray:
        task = make_task(table, smallest, sets=self.recoding == "set")
        n_threads = count_threads(self.n_jobs, table.n_rows)
        cuts, leaf_starts = grow_cuts(task, asked_of(guard), n_threads, PACKED)
        self._cuts = _in_keys(cuts, task.geometry, key_tables(table.quasi))
        labels = np.empty(table.n_rows, np.int32)
        grouping.label_rows(task.rows.order, leaf_starts, labels)
        return labels

    def _fit(self, rows: FactoredFrame, y: Any) -> Table:
        table = super()._fit(rows, y)
        self._stale, self._fitted = False, self._asked()
        # Row labels of pandas can identify people, as identifiers do.
        kept = nw.maybe_reset_index(rows.frame.drop([attribute.name for attribute in self.schema_.identifiers]))
        # The caller may modify an array later.
        self._frame: nw.DataFrame[Any] | None = (
            frames.take_rows(kept, np.arange(len(kept))) if self._from_array else kept
        )
        return table

    def _place(self, codes: np.ndarray) -> np.ndarray:
        tables = key_tables(self._columns) if self._kept is None else self._kept.vocabulary.key_tables(self._columns)
        keys = np.column_stack([table[codes[:, j]] for j, table in enumerate(tables)])
        cuts, labels = self._cuts, np.empty(len(codes), np.int32)
        low, high = cuts.rule
        descend(BoxCuts(cuts.attribute, low, high, cuts.left, cuts.right, parent=cuts.left), keys, labels)
        return labels

    def _cuts_in_use(self) -> Cuts:
        return self._cuts

    def _asked(self) -> Asked:
        rules = GroupRules((KAnonymity(self.k), *check_constraints(self.constraints)), self.schema_, self.missing)
        names = ("schema", "k", "recoding", "suppression", "missing")
        return Asked(rules, {name: getattr(self, name) for name in names})

    def _is_empty(self, X: Any) -> bool:
        """Return True for a batch without rows that has the columns of fit."""
        if not frames.is_frame(X):
            return getattr(X, "shape", None) == (0, len(self._names))
        frame = frames.open_frame(X)
        return len(frame) == 0 and list(frame.columns) == self._names

    def _open_kept(self) -> ReleaseState:
        """Return the state that is needed to change the release; it is built on first use."""
        self._require_rows()
        self._fitted.require_same(self._asked())
        if self.suppression > 0:
            raise ShoalError(
                "Rows can be inserted and deleted only without suppression, but "
                f"suppression={self.suppression!r}: fit with suppression=0."
            )
        if needs(self.recoding, "classes") and not self.schema_.target:
            raise ShoalError(
                f"recoding={self.recoding!r} needs the class of rows that are inserted later: give the schema a target."
            )
        if self._kept is None:
            assert self._frame is not None
            n_groups = len(self._groups)
            vocabulary = Vocabulary.of(self._columns, self._frame)
            boxes, ids = BoxPartition(self._cuts, self._labels), np.arange(len(self._labels))
            rows, released = FrameStore(self._frame), FrameStore(self._groups)
            return ReleaseState(rows, ids, len(ids), vocabulary, boxes, released, np.arange(n_groups))
        return self._kept

    def _change(self, kept: ReleaseState, new: np.ndarray, gone: np.ndarray) -> Delta:
        """Make a change, or raise an error and leave everything unchanged."""
        rules, boxes = self._fitted.rules, kept.boxes
        n_left = boxes.n_present + len(new) - len(gone)
        require_enough(rules, kept, new, gone)
        judge = GroupRulesCheck(rules, kept.rows)
        if judge.compares:
            judge.look_at(left_over(boxes, new, gone))
        try:
            parts = rearrange(boxes, judge, lambda rows: kept.vocabulary.keys(kept.rows.take(rows)), new, gone)
            if parts is None:
                raise no_way(rules, kept, left_over(boxes, new, gone))
            change = self._cut_anew(kept, judge, parts)
            self._require_kept(change, judge)
            delta = change.delta(rules, new, gone)
        except BaseException:
            boxes.roll_back()
            raise
        kept = change.make_good(gone)
        self._kept, self._stale = kept.compacted() if 2 * n_left < boxes.n_rows else kept, True
        # The state stores the rows now; deleted rows must not survive here.
        self._frame, self._labels = None, self._labels[:0]
        return delta

    def _cut_anew(self, kept: ReleaseState, judge: GroupRulesCheck, parts: GroupsToCut) -> Change:
        """Cut the groups of a change as far as possible, and recode each."""
        rules, frame = judge.rules, kept.rows.take(parts.rows)
        sensitive, members = rules.table(frame)
        quasi = {column.name: column for column in kept.vocabulary.encode(frame)}
        table = Table({**sensitive.columns, **quasi}, self.schema_, len(frame))
        guard = judge.guard(parts.rows)
        task = make_task(table, rules.smallest, sets=self.recoding == "set")
        high = np.tile(task.geometry.n_values - 1, (len(parts.group), 1))
        cuts, leaf_starts, roots = grow_parts(task, guard, PACKED, parts.starts, np.zeros_like(high), high)
        labels = np.empty(len(frame), np.int32)
        grouping.label_rows(task.rows.order, leaf_starts, labels)
        groups = self._release_groups(frame, table, members, labels)
        trees = _in_keys(cuts, task.geometry, kept.vocabulary.key_tables(table.quasi))
        return Change.of(kept, parts, frame, labels, groups, trees, roots, leaf_starts, task.rows.order)

    def _release_groups(
        self, frame: nw.DataFrame[Any], table: Table, members: np.ndarray | None, labels: np.ndarray
    ) -> nw.DataFrame[Any]:
        random = random_source(self.random_state) if needs(self.recoding, "random") else None
        guard = make_guard((), table)
        classes = self._classes_of(PartitionInput(FactoredFrame.of(frame), table, members, (), guard, 1), None)
        return build_groups(frame, recode(table, labels, self.recoding, members, random, classes))

    def _require_kept(self, change: Change, judge: GroupRulesCheck) -> None:
        """Refuse a change that violates a constraint, counted independently of the cuts."""
        if judge.compares:
            rows, groups, labels = change.whole(judge.places)
            table, members = judge.rules.table(rows)
            guard = make_guard((), table)
            job = PartitionInput(
                FactoredFrame.of(rows), table, members, judge.rules.constraints, guard, judge.rules.smallest
            )
            require_released_groups(job, labels, groups)
            return
        broken = broken_rule(judge.rules, change.frame, change.labels)
        if broken is not None:
            raise GuaranteeError(f"{broken.describe()} would not hold after this change, so nothing was changed.")

    def _catch_up(self) -> None:
        """Update the cuts and columns that place other rows to the present rows."""
        self._require_rows()
        if self._kept is None or not self._stale:
            return
        kept = self._kept
        self._cuts, group_of_leaf = kept.boxes.cuts()
        self._groups = kept.released.take(kept.released_row[group_of_leaf])
        columns = kept.vocabulary.encode(kept.rows.take(kept.places))
        self._columns = [replace(column, codes=column.codes[:0]) for column in columns]
        self._stale = False

    def __getstate__(self) -> Any:
        kept = self.__dict__.get("_kept")
        if kept is None:
            return super().__getstate__()
        self._catch_up()
        # A file must not contain deleted rows, and a copy must not change with its original.
        return {**super().__getstate__(), "_kept": kept.compacted()}


def _in_keys(cuts: Cuts, geometry: Geometry, tables: Sequence[np.ndarray]) -> Cuts:
    """Return the same cuts as keys instead of codes, so that they remain valid when codes change.

    Numbers are cut in the middle between two neighbours. A child of a tree is separated with all its leaves.
    """
    low, high = np.full(len(cuts.attribute), -np.inf), np.zeros(len(cuts.attribute))
    cut_from, cut_to = cuts.rule
    for j, keys in enumerate(tables):
        nodes = np.flatnonzero(cuts.attribute == j)
        last, following = keys[cut_to[nodes] - 1], keys[cut_to[nodes]]
        if geometry.form[j] == TREE:
            low[nodes], high[nodes] = keys[cut_from[nodes]], last
            continue
        with np.errstate(invalid="ignore"):
            middle = last + (following - last) / 2
        middle = np.where(middle < following, middle, last)
        high[nodes] = np.where(np.isinf(following), np.finfo(float).max, middle)
    return Cuts(cuts.attribute, cuts.left, cuts.right, (low, high))
