"""Flash (Kohlmayer et al. 2012): full-domain generalisation with hierarchies, and local recoding as in ARX."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from shoal._kernels import groups as grouping
from shoal._kernels.guard import Guard
from shoal.anonymizers._base import Anonymizer, PartitionInput
from shoal.anonymizers._full_domain import CELL_LOSSES, LOSSES, FullDomain
from shoal.anonymizers._stepwise import Recoding, Step, loss_of, recode_stepwise
from shoal.data.factored import FactoredFrame
from shoal.data.table import Table
from shoal.errors import ShoalError
from shoal.parameters import Choice, Constraint, Real, Whole
from shoal.partition.geometry import Nodes
from shoal.partition.lattice import (
    MOST_ENUMERATED,
    Effort,
    LatticePicture,
    NodeCheck,
    Searched,
    draw,
    lattice_size,
    search,
    search_down,
    thin_levels,
)
from shoal.partition.recoding import RECODINGS

MOST_CHECKED = 5_000
"""Default maximum of checked nodes in a lattice that is too large for a complete search."""
MOST_STEPWISE = 20_000
"""Default maximum of vectors of levels among which local recoding chooses."""


@dataclass(eq=False, repr=False)
class Flash(Anonymizer):
    """Generalise whole attributes to levels of their hierarchies, at the least loss there is.

    Every attribute is released at one level of its hierarchy, and rows that are then equal form a group. The vector of
    levels with the least loss is chosen for which all groups with fewer than k rows, or that violate a constraint, can
    be suppressed: together they are at most the share ``suppression`` and, because they are also released alike, a
    group that satisfies k and every constraint. The search excludes most vectors without checking them.

    A nominal attribute without a hierarchy is either released unchanged or suppressed. Numbers, dates and ordinal
    values without one get a hierarchy of ranges: up to 16 with about equally many rows, then 8, 4, 2, and the top.

    Parameters
    ----------
    schema : Schema, optional
        By default every column is a quasi-identifier: numbers and dates are numeric, all others nominal.
    k : int
        Minimum number of rows per group.
    mode : {"global", "local", "mixed"}
        One vector of levels for all rows; or local recoding in steps, each with its own vector for rows that earlier
        steps have not released; or steps for nominal attributes, and a single level for each numeric and ordinal one.
        Local recoding loses far less: on Adult (9 attributes, k = 5) 0.06 instead of 0.23. If one vector for all rows
        loses less than the steps, it is used instead.
    loss : {"loss", "ncp", "entropy", "precision", "discernibility", "average-group-size"}
        The loss to minimise: ARX's loss, where n of m leaves cost (n - 1)/(m - 1); n/m; ARX's non-uniform entropy;
        level divided by height; squared group sizes; rows per group, with the suppressed rows as one group. All but
        the last two use the weights of the schema, and are available in every mode.
    step : float
        Minimum share of the rows that every step of local recoding releases.
    most_checked : int, optional
        Maximum number of vectors of levels to check. By default there is no limit up to two million vectors; above it,
        5,000 are checked, from the most general down, and ``findings`` report it. Local recoding chooses among this
        many vectors, by default 20,000, and omits levels if there are more; ``findings`` name the attributes of which
        only the top is left.
    time_limit : float, optional
        Seconds after which the best vector found so far is used; local recoding then releases all remaining rows at the
        highest levels. The result then depends on the speed of the machine.
    constraints : sequence of privacy models
        Constraints besides k; every group satisfies them.
    recoding : {"level", "interval", "set", "representative", "mean", "sample", ...}
        Released values of a group: the nodes at its levels, or a recoding of its rows.
    suppression : float
        Maximum share of rows to suppress. Local recoding rarely needs it.
    missing : {"value", "error"}
        Treat missing values as a separate value, or refuse them.
    random_state : int, RandomState or None
        Random source of ``recoding="sample"``.

    Attributes
    ----------
    labels_ : int array (n_rows,)
        Group of each fitted row; -1 if it is suppressed.
    groups_ : dataframe
        The released quasi-identifiers, one row per group.
    levels_ : dict
        The level of each attribute; in local recoding a list with one level per step.
    loss_ : float
        The loss of the release.
    lattice_ : LatticePicture
        The nodes of the lattice, with their states and losses.
    schema_ : Schema
        The schema in use.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Attribute, Flash, Hierarchy, Schema
    >>> towns = Hierarchy.from_dict({"Styria": ["Graz", "Leoben"], "Tyrol": ["Lienz"]})
    >>> schema = Schema([Attribute("age"), Attribute("town", kind="nominal", hierarchy=towns)])
    >>> people = pl.DataFrame({"age": [25, 25, 31, 31], "town": ["Graz", "Leoben", "Lienz", "Lienz"]})
    >>> flash = Flash(schema, k=2)
    >>> flash.fit_transform(people).rows()
    [(25, 'Styria'), (25, 'Styria'), (31, 'Tyrol'), (31, 'Tyrol')]
    >>> flash.levels_
    {'age': 0, 'town': 1}
    """

    _: KW_ONLY
    mode: str = "global"
    loss: str = "loss"
    step: float = 0.005
    most_checked: int | None = None
    time_limit: float | None = None
    recoding: str = "level"

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "mode": Choice(("global", "local", "mixed")),
        "loss": Choice(LOSSES),
        "step": Real(above=0, most=1, hint="0.01 is 1 % of the rows"),
        "most_checked": Whole(least=1) | None,
        "time_limit": Real(above=0, most=math.inf) | None,
        "recoding": Choice(("level",)) | Choice(RECODINGS),
    }

    def _fit(self, rows: FactoredFrame, y: Any) -> Table:
        table = super()._fit(rows, y)
        # A row is placed in a group only if it has the same nodes, so it never lies outside.
        self._reach = None
        return table

    def _partition(self, table: Table, guard: Guard, smallest: int, y: Any) -> np.ndarray:
        deadline = None if self.time_limit is None else time.monotonic() + self.time_limit
        effort = Effort(self.most_checked, deadline)
        domain = FullDomain(table, guard, smallest, self.loss)
        budget = math.floor(self.suppression * domain.n_rows + 1e-9)
        if self.mode == "global":
            found = _recode_globally(domain, budget, effort)
        elif self.mode == "local":
            found = _recode_locally(domain, budget, effort, self.step)
        else:
            found = _recode_mixed(domain, budget, effort, self.step)
        self._tell(domain, found)
        return self._number_groups(domain, found.recoding)

    def _tell(self, domain: FullDomain, found: FlashResult) -> None:
        """Store the levels, the loss and further findings."""
        steps = found.recoding.steps
        self.levels_ = {}
        for j, column in enumerate(domain.table.quasi):
            each = [int(step.levels[j]) for step in steps]
            self.levels_[column.name] = each[0] if self.mode == "global" else each
        self.loss_ = domain.shown(found.recoding.loss)
        self._found = found._replace(recoding=found.recoding._replace(steps=steps[:0], rest=found.recoding.rest[:0]))
        self._n_steps = len(steps)
        self._scale = domain.shown(1.0)
        self._shape = tuple(int(top) + 1 for top in domain.tops)

    def _number_groups(self, domain: FullDomain, recoding: Recoding) -> np.ndarray:
        """Return the labels of the rows; groups of several steps with equal released values are merged."""
        keys = [domain.packing.pack(step.levels, domain.codes[step.first]) for step in recoding.steps]
        number, first = grouping.group_rows(np.concatenate(keys))
        nodes = np.concatenate([domain.nodes_at(step.levels, domain.codes[step.first]) for step in recoding.steps])
        self._nodes = domain.spans_of(nodes[first])
        self._packing, self._placed = domain.packing, []
        label_of_tuple = np.full(len(domain.codes), -1, np.int32)
        start = 0
        for step, key in zip(recoding.steps, keys, strict=True):
            group = number[start : start + len(key)]
            label_of_tuple[step.entries] = group[step.labels]
            self._placed.append((step.levels, key, group))
            start += len(key)
        return label_of_tuple[domain.tuple_of_row]

    def _place(self, codes: np.ndarray) -> np.ndarray:
        """Place rows in the first step that has a group of their nodes; rows without one are suppressed."""
        labels = np.full(len(codes), -1, np.int32)
        for levels, keys, group in self._placed:
            waiting = np.flatnonzero(labels < 0)
            words = self._packing.pack(levels, codes[waiting])
            # Groups come first and are distinct, so they have the lowest numbers.
            alike = grouping.group_rows(np.concatenate([keys, words]))[0][len(keys) :]
            labels[waiting] = np.append(group, -1)[np.minimum(alike, len(keys))]
        return labels

    def _suppress(self, job: PartitionInput, labels: np.ndarray, *, sets: bool) -> np.ndarray:
        return labels

    def _released_nodes(self) -> Nodes | None:
        return self._nodes if self.recoding == "level" else None

    @property
    def lattice_(self) -> LatticePicture:
        """The nodes of the lattice, with their states and losses; only the checked ones if it is too large."""
        check_is_fitted(self, "labels_")
        searched = self._found.searched
        if searched is None:
            raise ShoalError(f"There is no lattice with mode={self.mode!r}: use mode='global'.")
        return draw(searched, self._scale)

    def findings(self) -> dict[str, Any]:
        """Return the chosen levels, and the extent of the search."""
        check_is_fitted(self, "labels_")
        recoding, searched, left_out, _ = self._found
        size = math.prod(self._shape)
        found = {"levels": self.levels_, self.loss: self.loss_, "lattice": size, "checked": recoding.n_checked}
        if searched is not None:
            found |= {"excluded": searched.n_pruned, "not searched": searched.n_unknown}
            found["optimal"] = searched.n_unknown == 0
            return found
        if self._found.only_top:
            found["only at the top"] = self._found.only_top
        return found | {"steps": self._n_steps, "not searched": left_out, "searched to the end": recoding.complete}

    wants_counts = True

    def works_on_parts(self) -> bool:
        """Return True for local recoding."""
        return self.mode == "local"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.mode == "global":
            return
        if self.loss not in CELL_LOSSES:
            raise ShoalError(
                f"loss={self.loss!r} is not a sum over cells, which mode={self.mode!r} needs: choose "
                f"{', '.join(CELL_LOSSES)}, or mode='global'."
            )
        for constraint in self.constraints:
            if constraint.joined_only_if is not None:
                raise ShoalError(
                    f"{constraint.describe()} may fail where groups of two steps are released alike, so "
                    f"mode={self.mode!r} cannot satisfy it: use mode='global', or {constraint.joined_only_if}."
                )


class FlashResult(NamedTuple):
    """The recoding of the rows, and the search in the lattice if there was only one."""

    recoding: Recoding
    searched: Searched | None
    left_out: int
    """Number of vectors that were not checked."""
    only_top: list[str]
    """Attributes of which only the highest level was checked, because there are too many vectors."""


def _recode_globally(domain: FullDomain, budget: int, effort: Effort) -> FlashResult:
    searched = _find_levels(domain, budget, effort)
    return FlashResult(_recode_at(domain, searched), searched, searched.n_unknown, [])


def _recode_at(domain: FullDomain, searched: Searched) -> Recoding:
    """Return the recoding of all rows at the vector of levels that was found."""
    levels = np.array(searched.levels)
    groups, bad = domain.judge_rows(levels)
    number = np.where(bad == 0, np.cumsum(bad == 0) - 1, -1).astype(np.int32)
    labels = number[groups.labels]
    kept = np.flatnonzero(labels >= 0).astype(np.int32)
    step = Step(levels, kept, labels[kept], groups.first[bad == 0])
    rest = np.flatnonzero(labels < 0).astype(np.int32)
    return Recoding([step], rest, searched.loss, len(searched.checked), searched.n_unknown == 0)


def _find_levels(domain: FullDomain, budget: int, effort: Effort) -> Searched:
    def check(levels: tuple[int, ...]) -> NodeCheck:
        return domain.judge(np.array(levels), budget)

    if lattice_size(domain.floors) <= MOST_ENUMERATED:
        return search(domain.floors, check, effort)
    return search_down(domain.floors, check, effort._replace(most_checked=effort.most_checked or MOST_CHECKED))


def _recode_locally(domain: FullDomain, budget: int, effort: Effort, least_share: float) -> FlashResult:
    choices = _choices(domain.floors, effort)
    left_out = lattice_size(domain.floors) - lattice_size(choices)
    stepwise = recode_stepwise(domain, choices, least_share, budget, effort.deadline)
    recoding = _no_worse_than_one_vector(domain, stepwise, budget, effort)
    recoding = recoding._replace(complete=recoding.complete and left_out == 0)
    return FlashResult(recoding, None, left_out, _only_top(domain, choices))


def _no_worse_than_one_vector(domain: FullDomain, stepwise: Recoding, budget: int, effort: Effort) -> Recoding:
    """Return the recoding, or one vector for all rows if it loses less: cheap first steps may make the last expensive.

    Few vectors can lose less than the steps, so this takes a tenth of their time, or less.
    """
    if lattice_size(domain.floors) > MOST_ENUMERATED:
        return stepwise

    def check(levels: tuple[int, ...]) -> NodeCheck:
        return domain.judge(np.array(levels), budget)

    searched = search(domain.floors, check, Effort(deadline=effort.deadline), known=stepwise.loss)
    n_checked = stepwise.n_checked + len(searched.checked)
    if searched.loss < stepwise.loss:
        single = _recode_at(domain, searched)
        # Some losses ignore suppression if there is one vector for all rows, but not in steps.
        loss = loss_of(domain, single)
        if loss < stepwise.loss:
            return single._replace(loss=loss, n_checked=n_checked, complete=stepwise.complete)
    return stepwise._replace(n_checked=n_checked)


def _only_top(domain: FullDomain, choices: list[np.ndarray]) -> list[str]:
    """Return the names of attributes with lower levels of which only the top may be chosen."""
    each = zip(domain.table.quasi, choices, domain.tops.tolist(), strict=True)
    return [column.name for column, levels, top in each if top > 0 and levels[0] == top]


def _choices(floors: list[np.ndarray], effort: Effort) -> list[np.ndarray]:
    """Return the levels among which steps choose."""
    return thin_levels(floors, effort.most_checked or MOST_STEPWISE)


def _recode_mixed(domain: FullDomain, budget: int, effort: Effort, least_share: float) -> FlashResult:
    """Recode locally with fixed levels of numbers, moving from one choice of these to its best neighbour."""
    fixed = [j for j, column in enumerate(domain.table.quasi) if column.attribute.kind != "nominal"]
    tops = domain.tops
    start = np.array(_find_levels(domain, budget, effort).levels)
    outcomes: dict[tuple[int, ...], Recoding | None] = {}

    def recode(levels: tuple[int, ...]) -> Recoding | None:
        if levels not in outcomes:
            outcomes[levels] = _recode_with_fixed(domain, fixed, levels, budget, effort, least_share)
        return outcomes[levels]

    best = tuple(start[fixed].tolist())
    if recode(best) is None:
        best = tuple(tops[fixed].tolist())
    while True:
        moves = [(j, by) for j in range(len(fixed)) for by in (-1, 1) if 0 <= best[j] + by <= tops[fixed[j]]]
        around = [_moved(best, j, by) for j, by in moves]
        tried = [(recoding.loss, levels) for levels in around if (recoding := recode(levels)) is not None]
        current = recode(best)
        assert current is not None
        late = effort.deadline is not None and time.monotonic() >= effort.deadline
        if late or not tried or min(tried)[0] >= current.loss:
            break
        best = min(tried)[1]
    n_checked = sum(recoding.n_checked for recoding in outcomes.values() if recoding is not None)
    n_choices = math.prod(int(tops[j]) + 1 for j in fixed)
    per_choice = lattice_size(domain.floors) // n_choices
    nominal = [floor[:1] if j in fixed else floor for j, floor in enumerate(domain.floors)]
    choices = [levels if j not in fixed else np.array([0]) for j, levels in enumerate(_choices(nominal, effort))]
    current = current._replace(
        n_checked=n_checked, complete=current.complete and lattice_size(choices) == lattice_size(nominal)
    )
    return FlashResult(current, None, (n_choices - len(outcomes)) * per_choice, _only_top(domain, choices))


def _recode_with_fixed(
    domain: FullDomain, fixed: list[int], levels: tuple[int, ...], budget: int, effort: Effort, least_share: float
) -> Recoding | None:
    """Recode locally with these levels of the fixed attributes; None if too many rows must be suppressed."""
    highest = domain.tops
    highest[fixed] = levels
    if not np.isfinite(domain.judge(highest, budget).loss):
        return None
    floors = [floor if j not in fixed else floor[:1] for j, floor in enumerate(domain.floors)]
    choices = _choices(floors, effort)
    for j, level in zip(fixed, levels, strict=True):
        choices[j] = np.array([level])
    return recode_stepwise(domain, choices, least_share, budget, effort.deadline)


def _moved(levels: tuple[int, ...], at: int, by: int) -> tuple[int, ...]:
    return (*levels[:at], levels[at] + by, *levels[at + 1 :])
