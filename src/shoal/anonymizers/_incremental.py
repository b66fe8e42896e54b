"""Insertions into a table and deletions from it, with an up-to-date release: the groups that change, and the delta."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal._kernels import boxes as kernel
from shoal._kernels.guard import Guard
from shoal._kernels.privacy import EQUAL
from shoal.anonymizers._base import require_whole_table
from shoal.anonymizers._delta import Delta, handed_out, same_values, with_groups
from shoal.data.schema import Schema
from shoal.data.table import Missing, Table, encode_column, restrict
from shoal.data.vocabulary import Vocabulary
from shoal.errors import DataError, GuaranteeError, ShoalError
from shoal.partition.box_tree import BoxPartition, FrameStore, Loose, longer
from shoal.partition.cut_tree import Cuts
from shoal.privacy.counts import count_groups
from shoal.privacy.models import PrivacyModel
from shoal.privacy.rules import largest_k, make_guard, membership, released_rows, with_scratch


class ReleaseState(NamedTuple):
    """The state that is needed to change a release: the rows, the vocabulary of their values, and the groups.

    Rows are identified by their position in the store; ``ids`` are their public numbers.
    """

    rows: FrameStore
    ids: np.ndarray
    next_id: int
    vocabulary: Vocabulary
    boxes: BoxPartition
    released: FrameStore
    released_row: np.ndarray
    """The position of each group's released values in ``released``."""

    @property
    def places(self) -> np.ndarray:
        """The present rows."""
        return np.flatnonzero(self.boxes.labels >= 0)

    def compacted(self) -> ReleaseState:
        """Return the state without deleted rows and unused released values."""
        places, in_use = self.places, np.flatnonzero(self.boxes.in_use)
        released_row = np.zeros(self.boxes.n_groups, np.int64)
        released_row[in_use] = np.arange(len(in_use))
        return self._replace(
            rows=FrameStore(self.rows.take(places)),
            ids=self.ids[places],
            boxes=self.boxes.compacted(),
            released=FrameStore(self.released.take(self.released_row[in_use])),
            released_row=released_row,
        )


class GroupRules(NamedTuple):
    """The rules that every group must satisfy."""

    constraints: tuple[PrivacyModel, ...]
    schema: Schema
    missing: Missing

    @property
    def smallest(self) -> int:
        """Minimum number of rows per group; with a population, the guard counts the released ones."""
        return largest_k(self.constraints) if self.member_of is None else 1

    @property
    def member_of(self) -> str | None:
        """The column that marks the released rows of a population."""
        return membership(self.constraints)

    def table(self, frame: nw.DataFrame[Any]) -> tuple[Table, np.ndarray | None]:
        """Return the sensitive columns of some rows, and a mask of the released ones if only some are."""
        member_of = self.member_of
        names = [a.name for a in self.schema.sensitive] + ([] if member_of is None else [member_of])
        columns = {name: encode_column(frame[name], self.schema[name], self.missing) for name in dict.fromkeys(names)}
        table = Table(columns, self.schema, len(frame))
        if member_of is None:
            return table, None
        members = released_rows(table, member_of) != 0
        columns |= {column.name: restrict(column, members) for column in table.sensitive}
        return Table(columns, self.schema, len(frame)), members


class Asked(NamedTuple):
    """The parameters that a tree was fitted with; changes use the same."""

    rules: GroupRules
    parameters: dict[str, Any]

    def require_same(self, now: Asked) -> None:
        """Refuse other parameters: unchanged groups would still follow the old ones."""
        before = {**self.parameters, "constraints": self.rules.constraints[1:]}
        after = {**now.parameters, "constraints": now.rules.constraints[1:]}
        for name, value in before.items():
            if value is not after[name] and value != after[name]:
                raise ShoalError(
                    f"The tree was fitted with {name}={value!r}, and now {name}={after[name]!r}: restore it, or fit "
                    "again."
                )


class GroupRulesCheck:
    """A check of groups of rows against the rules."""

    def __init__(self, rules: GroupRules, rows: FrameStore) -> None:
        self.rules = rules
        self._rows = rows
        self._whole: Guard | None = None
        self.places = np.empty(0, np.int64)
        some, _ = rules.table(rows.take(np.zeros(1, np.int64)))
        asked = make_guard(rules.constraints, some).rules.model
        self.counts_only = len(asked) == 0
        self.compares = bool((asked >= EQUAL).any())
        """True if groups are compared with the whole table, so that any change may affect all of them."""

    def look_at(self, places: np.ndarray) -> None:
        """Compute the distributions of the whole table from the rows after the change."""
        self.places = places
        table, _ = self.rules.table(self._rows.take(places))
        self._whole = make_guard(self.rules.constraints, table)

    def guard(self, rows: np.ndarray) -> Guard | None:
        """Return the rules for groups of these rows, identified by position; None if only sizes count."""
        if self.counts_only:
            return None
        if self._whole is None:
            return make_guard(self.rules.constraints, self.rules.table(self._rows.take(rows))[0])
        at = np.searchsorted(self.places, rows)
        members = self._whole.members[at] if len(self._whole.members) else self._whole.members
        return with_scratch(self._whole._replace(sensitive=self._whole.sensitive[at], members=members))

    def holds(self, rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return a mask of the groups that satisfy all rules; the rows are sorted by group."""
        good = np.diff(starts) >= self.rules.smallest
        guard = self.guard(rows)
        if guard is not None:
            kept = np.empty(len(starts) - 1, bool)
            kernel.groups_hold(np.arange(len(rows)), starts, kept, guard)
            good &= kept
        return good


class GroupsToCut(NamedTuple):
    """Groups that satisfy the rules, to be cut again: their numbers, their rows, and the start of each."""

    group: np.ndarray
    rows: np.ndarray
    starts: np.ndarray
    involved: np.ndarray
    """All groups of the change, including those that were merged with others."""


def rearrange(
    boxes: BoxPartition,
    judge: GroupRulesCheck,
    keys_of: Callable[[np.ndarray], np.ndarray],
    new: np.ndarray,
    gone: np.ndarray,
) -> GroupsToCut | None:
    """Insert and delete rows, and merge groups until all satisfy the rules; None if the whole table does not.

    The merges can still be undone.
    """
    found = boxes.find(keys_of(new)) if len(new) else np.empty(0, np.int32)
    involved = np.unique(np.concatenate([found, boxes.labels[gone]]))
    if judge.compares:
        involved = np.union1d(involved, _failing_beside(boxes, judge, involved))
    loose = boxes.members(involved)
    stays = ~np.isin(loose.rows, gone)
    loose = Loose(np.append(loose.rows[stays], new), np.append(loose.group[stays], found))
    alive = involved
    while True:
        rows, starts = _side_by_side(loose, alive)
        good = judge.holds(rows, starts)
        if good.all():
            return GroupsToCut(alive, rows, starts, involved)
        moves = boxes.merge(alive[~good].astype(np.int64))
        if moves is None:
            return None
        moved, target = moves
        joining = np.setdiff1d(moved, involved)
        loose = _moved(_joined(loose, boxes.members(joining)), moved, target)
        alive, involved = np.setdiff1d(alive, moved), np.union1d(involved, joining)
        homeless = loose.group < 0
        if homeless.any():
            group = loose.group.copy()
            group[homeless] = boxes.find(keys_of(loose.rows[homeless]))
            joining = np.setdiff1d(group, alive)
            loose = _joined(Loose(loose.rows, group), boxes.members(joining))
            alive, involved = np.union1d(alive, joining), np.union1d(involved, joining)


def _failing_beside(boxes: BoxPartition, judge: GroupRulesCheck, involved: np.ndarray) -> np.ndarray:
    """Return groups without inserted or deleted rows that violate the rules because the whole table changed."""
    others = np.setdiff1d(np.flatnonzero(boxes.in_use), involved)
    rows, starts = _side_by_side(boxes.members(others), others)
    return others[~judge.holds(rows, starts)]


def _side_by_side(loose: Loose, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows sorted by group, then by number, and the start of each of the groups (ascending)."""
    order = np.lexsort((loose.rows, loose.group))
    sizes = np.bincount(np.searchsorted(groups, loose.group), minlength=len(groups))
    return loose.rows[order], np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _joined(loose: Loose, more: Loose) -> Loose:
    return Loose(np.append(loose.rows, more.rows), np.append(loose.group, more.group))


def _moved(loose: Loose, moved: np.ndarray, target: np.ndarray) -> Loose:
    order = np.argsort(moved)
    at = np.searchsorted(moved, loose.group, sorter=order).clip(max=max(len(moved) - 1, 0))
    hit = moved[order[at]] == loose.group
    return Loose(loose.rows, np.where(hit, target[order[at]], loose.group).astype(np.int32))


class Change(NamedTuple):
    """A change that can be applied: its resulting groups, and their released values."""

    kept: ReleaseState
    """The state before the change, with the inserted rows."""
    parts: GroupsToCut
    frame: nw.DataFrame[Any]
    """The rows of ``parts``."""
    labels: np.ndarray
    """Their new groups, from 0 on."""
    numbers: np.ndarray
    """The public numbers of these groups."""
    groups: nw.DataFrame[Any]
    trees: Cuts
    roots: np.ndarray
    order: np.ndarray
    """The rows of ``parts`` sorted by group."""
    released: FrameStore
    released_row: np.ndarray

    @classmethod
    def of(
        cls,
        kept: ReleaseState,
        parts: GroupsToCut,
        frame: nw.DataFrame[Any],
        labels: np.ndarray,
        groups: nw.DataFrame[Any],
        trees: Cuts,
        roots: np.ndarray,
        leaf_starts: np.ndarray,
        order: np.ndarray,
    ) -> Change:
        """Return the change, with numbers for the groups: the first of each part keeps the number of the part."""
        part_of_leaf = np.searchsorted(parts.starts, leaf_starts, side="right") - 1
        first = np.diff(part_of_leaf, prepend=-1) > 0
        freed = np.setdiff1d(parts.involved, parts.group)
        numbers = np.empty(len(leaf_starts), np.int32)
        numbers[first] = parts.group
        numbers[~first] = kept.boxes.take_numbers(int(np.count_nonzero(~first)), freed)
        released = with_groups(kept.released, groups)
        n_groups = max(kept.boxes.n_groups, int(numbers.max(initial=-1)) + 1)
        released_row = longer(kept.released_row, n_groups, 0)
        return cls(kept, parts, frame, labels, numbers, groups, trees, roots, order, released, released_row)

    def delta(self, rules: GroupRules, new: np.ndarray, gone: np.ndarray) -> Delta:
        """Return the changes of the release."""
        kept, labels = self.kept, self.kept.boxes.labels
        involved = self.parts.involved
        old_groups = kept.released.take(kept.released_row[involved])
        old_value, new_value = same_values(old_groups, self.groups)
        stays = np.flatnonzero(self.parts.rows < len(labels))
        rows = self.parts.rows[stays]
        old = np.searchsorted(involved, labels[rows])
        other = stays[old_value[old] != new_value[self.labels[stays]]]
        changed = self.parts.rows[other]
        out = np.sort(np.append(gone, changed))
        at = np.argsort(self.parts.rows)
        into = np.append(np.sort(changed), new)
        into_labels = self.labels[at[np.searchsorted(self.parts.rows, into, sorter=at)]]
        named = rules.schema, rules.member_of
        out_labels = np.searchsorted(involved, labels[out])
        before = handed_out(kept.rows.take(out), *named, old_groups, out_labels, kept.ids[out])
        after = handed_out(kept.rows.take(into), *named, self.groups, into_labels, kept.ids[into])
        return Delta(
            inserted=kept.ids[new],
            deleted=kept.ids[np.sort(gone)],
            changed=kept.ids[np.sort(changed)],
            groups_added=np.setdiff1d(self.numbers, involved),
            groups_changed=np.intersect1d(self.numbers, involved),
            groups_removed=np.setdiff1d(involved, self.numbers),
            before=before.to_native(),
            after=after.to_native(),
        )

    def whole(self, places: np.ndarray) -> tuple[nw.DataFrame[Any], nw.DataFrame[Any], np.ndarray]:
        """Return all rows after the change, all groups, and the group of each row."""
        labels = longer(self.kept.boxes.labels, int(places.max()) + 1, -1).copy()
        labels[self.parts.rows] = self.numbers[self.labels]
        groups = self.released.take(self._released_rows())
        return self.kept.rows.take(places), groups, labels[places]

    def make_good(self, gone: np.ndarray) -> ReleaseState:
        """Apply the change; from here on nothing can fail."""
        rows = self.parts.rows[self.order]
        loose = Loose(rows, self.numbers[self.labels[self.order]])
        roots = np.column_stack([self.parts.group, self.roots])
        self.kept.boxes.replace(self.parts.involved, roots, self.trees, self.numbers, loose, gone)
        self.released_row[self.numbers] = len(self.released) - len(self.numbers) + np.arange(len(self.numbers))
        return self.kept._replace(released=self.released, released_row=self.released_row)

    def _released_rows(self) -> np.ndarray:
        rows = self.released_row.copy()
        rows[self.numbers] = len(self.released) - len(self.numbers) + np.arange(len(self.numbers))
        return rows


def nothing_changed(rules: GroupRules, kept: ReleaseState) -> Delta:
    """Return the delta of a batch without rows."""
    none = np.empty(0, np.int64)
    groups, named = kept.released.take(none), (rules.schema, rules.member_of)
    empty = handed_out(kept.rows.take(none), *named, groups, none, none).to_native()
    return Delta(none, none, none, none, none, none, empty, empty)


def broken_rule(rules: GroupRules, frame: nw.DataFrame[Any], labels: np.ndarray) -> PrivacyModel | None:
    """Return the first constraint that a group violates, counted from the rows, or None."""
    table, members = rules.table(frame)
    counts = count_groups(labels, table.sensitive, members)
    return next((constraint for constraint in rules.constraints if not constraint.holds(counts)), None)


def places_of(rows: Any, kept: ReleaseState) -> np.ndarray:
    """Return the positions of rows, given their numbers or a mask."""
    try:
        named = np.asarray(rows).reshape(-1)
    except ValueError:
        raise DataError(f"Rows must be whole numbers from row_ids_, got {rows!r}: pass one list.") from None
    if named.dtype == bool:
        if len(named) != kept.boxes.n_present:
            raise DataError(f"The mask has {len(named)} entries for {kept.boxes.n_present} rows: pass one per row.")
        return kept.places[named]
    if len(named) and named.dtype.kind not in "iu":
        raise DataError(f"Rows must be whole numbers from row_ids_, got {named[0]!r}.")
    named = np.unique(named)
    if len(named) and int(named[-1]) >= kept.next_id:
        # Checked before the conversion to signed numbers, which would make some of them negative.
        raise DataError(f"There is no row {named[-1]}: it was never inserted; see row_ids_.")
    named = named.astype(np.int64)
    ids = kept.ids[: kept.boxes.n_rows]
    places = np.searchsorted(ids, named)
    known = places < len(ids)
    known[known] = (ids[places[known]] == named[known]) & (kept.boxes.labels[places[known]] >= 0)
    if not known.all():
        raise DataError(f"There is no row {named[~known][0]}: it was already deleted or never inserted; see row_ids_.")
    return places


def require_enough(rules: GroupRules, kept: ReleaseState, new: np.ndarray, gone: np.ndarray) -> None:
    """Refuse a change that leaves fewer rows than a group needs, or no released row."""
    n_left = kept.boxes.n_present + len(new) - len(gone)
    if n_left < max(rules.smallest, 1):
        raise GuaranteeError(
            f"Only {n_left} rows would be left, but k={largest_k(rules.constraints)}: delete fewer, or withdraw the "
            "release."
        )
    if rules.member_of is None or not _releases(rules, kept, gone):
        return
    beside = np.setdiff1d(kept.boxes.members(np.unique(kept.boxes.labels[gone])).rows, gone)
    # All rows are searched only if no released row is left in the same groups.
    if not _releases(rules, kept, beside) and not _releases(rules, kept, left_over(kept.boxes, new, gone)):
        raise GuaranteeError(
            f"No row would be left that {rules.member_of!r} marks as released: delete fewer, or withdraw the release."
        )


def _releases(rules: GroupRules, kept: ReleaseState, places: np.ndarray) -> bool:
    """Return True if some of these rows of a population are released."""
    members = rules.table(kept.rows.take(places))[1] if len(places) else None
    return members is not None and bool(members.any())


def left_over(boxes: BoxPartition, new: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Return the present rows after a change."""
    there = boxes.labels >= 0
    there[gone] = False
    return np.append(np.flatnonzero(there), new)


def no_way(rules: GroupRules, kept: ReleaseState, places: np.ndarray) -> GuaranteeError:
    """Return the reason why even the whole table as one group violates the rules."""
    table, members = rules.table(kept.rows.take(places))
    try:
        require_whole_table(rules.constraints, table, members, rules.smallest)
    except GuaranteeError as error:
        return error
    return GuaranteeError("The remaining rows violate the constraints even as one group: change fewer rows.")
