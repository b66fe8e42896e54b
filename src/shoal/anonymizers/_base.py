"""The base of all anonymizers: partition the rows, check every constraint, recode each group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, cast, get_args

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from shoal._kernels.guard import Guard
from shoal.data import frames
from shoal.data.factored import FactoredFrame, group_rows
from shoal.data.schema import Attribute, Schema, require_schema
from shoal.data.table import Missing, Table, encode, encode_like, restrict, take_rows
from shoal.errors import DataError, GuaranteeError, ShoalError
from shoal.models.guides import guide_from_values, name_of, read_labels
from shoal.models.targets import read_target
from shoal.parameters import RANDOM_STATE, Choice, Constraint, CustomCheck, Real, Whole, check_parameters
from shoal.partition.cut_tree import Cuts, asked_of, settle
from shoal.partition.geometry import Bounds, Nodes, bounds
from shoal.partition.handover import CoarseCuts, FittedPartition, ReleasedRows
from shoal.partition.recoding import RECODINGS, build_groups, needs, recode, recode_as_nodes, release_frame
from shoal.partition.suppression import trim
from shoal.partition.table_summary import TableSummary
from shoal.privacy.counts import count_groups
from shoal.privacy.models import KAnonymity, PrivacyModel, check_constraints, show_level
from shoal.privacy.rules import largest_k, make_guard, membership, released_rows


class PartitionInput(NamedTuple):
    """Rows to release, and the constraints on their groups."""

    rows: FactoredFrame
    table: Table
    members: np.ndarray | None
    """Mask of the released rows; None if all are."""
    constraints: tuple[PrivacyModel, ...]
    guard: Guard
    smallest: int
    """Minimum number of rows per group."""


def part_of(job: PartitionInput, rows: np.ndarray) -> PartitionInput:
    """Return the input for some of the rows, with k lowered so that they form as many groups as the whole table."""
    table = take_rows(job.table, rows)
    return job._replace(
        rows=job.rows.take(rows),
        table=table,
        members=None if job.members is None else job.members[rows],
        guard=make_guard(job.constraints, table),
        smallest=max(round(job.smallest * len(rows) / job.table.n_rows), 1),
    )


@dataclass(eq=False, repr=False)
class Anonymizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all anonymizers: ``fit`` partitions and recodes, ``fit_transform`` returns the released rows.

    A subclass implements the partition (:meth:`_partition`) and, if it can place rows that were not fitted,
    :meth:`_place`.
    """

    schema: Schema | None = None
    k: int = 5
    _: KW_ONLY
    constraints: Sequence[PrivacyModel] = ()
    recoding: str = "interval"
    suppression: float = 0.0
    missing: Missing = "value"
    random_state: Any = None

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "schema": CustomCheck("a Schema", require_schema) | None,
        "k": Whole(least=1),
        "constraints": CustomCheck("a list of privacy models", check_constraints),
        "recoding": Choice(RECODINGS),
        "suppression": Real(least=0, most=1, hint="0.02 allows 2 % of the rows"),
        "missing": Choice(get_args(Missing)),
        "random_state": RANDOM_STATE,
    }
    _holds_rows: ClassVar[Sequence[str]] = ()
    """Attributes of a fitted object, besides the vocabulary, from which values of fitted rows can be read."""
    _forgot = False
    # The whole table, if only a part of it is fitted.
    _summary = cast("TableSummary | None", None)
    # The number of rows that each row represents, if equal rows are given once; see ``wants_counts``.
    _row_counts = cast("np.ndarray | None", None)
    # Targets that are not columns of the table, because ``y`` holds them.
    _absent = cast("frozenset[str]", frozenset())

    @abstractmethod
    def _partition(self, table: Table, guard: Guard, smallest: int, y: Any) -> np.ndarray:
        """Return the labels of the rows: groups of at least ``smallest`` rows that satisfy the guard's rules.

        ``y`` is the result of :meth:`_look_at_target`.
        """

    def _place(self, codes: np.ndarray) -> np.ndarray:
        """Return the groups of rows that were not fitted."""
        raise ShoalError(f"{type(self).__name__} cannot place rows that it was not fitted on: use fit_transform.")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Partition the rows and recode each group."""
        self._check_parameters()
        self._fit(FactoredFrame.of(self._open(X, reset=True)), y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Anonymize these rows: k and every constraint hold on the returned rows.

        With a model about a population all of its rows are returned, and pandas keeps its row labels, as in
        scikit-learn. Use :func:`shoal.anonymize` for a release to others: it omits both.
        """
        return self._close(self.release_rows(X, y).frame, X)

    def release_rows(
        self,
        X: Any,
        y: Any = None,
        *,
        summary: TableSummary | None = None,
        weights: np.ndarray | None = None,
        as_names: bool = False,
    ) -> ReleasedRows:
        """Fit these rows, and return their release.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.
        summary : TableSummary, optional
            The table that these rows are a part of.
        weights : int array (n_rows,), optional
            The number of rows of the table that each of them represents.
        as_names : bool
            Return texts of polars as ``Enum``.
        """
        self._check_parameters()
        self._summary, self._row_counts = summary, weights
        frame = self._open(X, reset=True)
        table = self._fit(X if isinstance(X, FactoredFrame) else FactoredFrame.of(frame), y)
        released = release_frame(frame, self.schema_, self._groups, self.labels_, as_names=as_names)
        return ReleasedRows(released, table, self.labels_, self._handed_over(self._groups))

    def _handed_over(self, groups: nw.DataFrame[Any]) -> FittedPartition:
        # The other rows do not need the fitted ones.
        slim = copy(self)
        slim.labels_, slim._row_counts = self.labels_[:0], None
        return FittedPartition(groups, self._columns, self.recoding_in_use, self._released_nodes(), slim._place)

    def transform(self, X: Any) -> Any:
        """Recode rows with the values of the fitted groups.

        The guarantee is about the fitted rows. Other rows are only written with the same values: a group may contain
        few of them. A row is suppressed if its values are outside of a group that was trimmed.
        """
        self._require_rows()
        frame = self._open(X, reset=False)
        codes = np.column_stack([encode_like(frame[column.name], column) for column in self._columns])
        labels = self._place(codes)
        if self._reach is not None:
            outside = (codes < self._reach.low[labels]) | (codes > self._reach.high[labels])
            labels = np.where(outside.any(axis=1), -1, labels)
        return self._close(release_frame(frame, self.schema_, self._groups, labels), X)

    def anonymize(self, X: Any, y: Any = None) -> Any:
        """Release rows that were not fitted, by the same cuts: k and every constraint hold on the returned rows.

        A group with too few of these rows, or one that violates a constraint on them, is merged with its neighbours.

        Parameters
        ----------
        X : table or array
            With the columns of ``fit``.
        y : array (n_rows,), optional
            Labels, for ``recoding="majority"``.
        """
        return self._close(self.release_others(X, y).frame, X)

    def release_others(self, X: Any, y: Any = None) -> ReleasedRows:
        """Release rows that were not fitted, as :meth:`anonymize` does."""
        self._require_rows()
        frame = self._open(X, reset=False)
        job = self._make_job(FactoredFrame.of(frame))
        codes = [encode_like(frame[column.name], column, unseen="last") for column in self._columns]
        placed = self._place(np.column_stack(codes))
        labels = settle(self._cuts_in_use(), placed, job.smallest, asked_of(job.guard))
        labels, groups = self._recode(job, labels, self._classes_of(job, y))
        released = release_frame(frame, self.schema_, groups, labels)
        return ReleasedRows(released, job.table, labels, self._handed_over(groups))

    def forget_rows(self) -> Self:
        """Drop everything that reveals values of fitted rows, before the object is handed on.

        Every method stores the distinct values of each attribute, to recode other rows; some methods store whole rows.
        ``labels_`` and ``groups_`` stay; ``transform`` and ``anonymize`` are refused from then on.
        """
        check_is_fitted(self, "labels_")
        for name in ("_columns", *self._holds_rows):
            self.__dict__.pop(name, None)
        self._forgot = True
        return self

    def _require_rows(self) -> None:
        """Refuse to continue if the fitted rows were dropped."""
        check_is_fitted(self, "labels_")
        if self._forgot:
            raise ShoalError(f"This {type(self).__name__} has dropped the rows it was fitted on: fit it again.")

    def findings(self) -> dict[str, Any]:
        """Return the findings of the fit, for reports; nothing by default."""
        return {}

    def _cuts_in_use(self) -> Cuts:
        """Return the tree of cuts that :meth:`_place` follows."""
        raise ShoalError(f"{type(self).__name__} cannot release rows that it was not fitted on: use fit_transform.")

    wants_counts: ClassVar[bool] = False
    """True if it works best on all distinct rows of the whole table at once, with the number of each."""

    def works_on_parts(self) -> bool:
        """Return True if a part of the table can be released separately."""
        return True

    def for_parts(self, sample: nw.DataFrame[Any], y: Any) -> Self:
        """Return the method that releases a table in parts, after a look at a sample: itself, unless it must learn."""
        return self

    def coarse_cuts(self, sample: nw.DataFrame[Any], y: Any, smallest: int, summary: TableSummary) -> CoarseCuts | None:
        """Return the first cuts, until parts of the sample have ``smallest`` rows; None if it makes no cuts."""
        coarse = self._cuts_coarsely(smallest)
        if coarse is None:
            return None
        coarse._summary = summary
        try:
            coarse.fit(sample.to_native(), y)
        except GuaranteeError:
            # A constraint may fail on a sample and hold on the table; fragments are checked on the whole table.
            coarse.set_params(constraints=()).fit(sample.to_native(), y)
        n_columns = len(coarse._columns)
        return CoarseCuts(coarse._cuts_in_use(), coarse._columns, [coarse._codes_left(j) for j in range(n_columns)])

    def _cuts_coarsely(self, smallest: int) -> Self | None:
        """Return a copy that makes its first cuts only, until parts have so many rows; None if it makes none."""
        return None

    def cuts_between_parts(self, table: Table) -> Callable[[np.ndarray], tuple[int, np.ndarray] | None] | None:
        """Return a function that splits some rows of a sample in two such that few groups are torn.

        The function returns an attribute and a mask of its codes that go left, or None if the rows cannot be split. A
        method without such cuts returns None itself.
        """
        return None

    def _codes_left(self, attribute: int) -> np.ndarray | None:
        """Return the codes of an attribute that each cut sends left (nodes, codes); None if there are no such cuts."""
        return None

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the released columns: all but the identifiers."""
        check_is_fitted(self, "labels_")
        dropped = {attribute.name for attribute in self.schema_.identifiers}
        return np.array([name for name in self._names if name not in dropped], dtype=object)

    @property
    def groups_(self) -> Any:
        """The released quasi-identifiers, one row per group: ``groups_[labels_]`` is the release."""
        check_is_fitted(self, "labels_")
        return self._groups.to_native()

    def _fit(self, rows: FactoredFrame, y: Any) -> Table:
        self._forgot = False
        self.schema_ = self.schema if self.schema is not None else _every_column_quasi(rows.frame)
        targets = frozenset(attribute.name for attribute in self.schema_.target)
        self._absent = targets.difference(rows.columns) if y is not None else frozenset()
        job = self._make_job(rows)
        target = self._look_at_target(job, y)
        labels = self._partition(job.table, job.guard, job.smallest, target)
        classes = self._classes_of(job, y, target)
        # The target of each row takes memory that recoding needs.
        del target
        self.labels_, self._groups = self._recode(job, labels, classes)
        self._reach: Bounds | None = bounds(job.table, self.labels_) if (self.labels_ < 0).any() else None
        self._columns = [replace(column, codes=column.codes[:0]) for column in job.table.quasi]
        return job.table

    def _make_job(self, rows: FactoredFrame) -> PartitionInput:
        """Encode the rows, and check that the constraints can be reached at all."""
        constraints = (KAnonymity(self.k), *check_constraints(self.constraints))
        described = Schema(attribute for attribute in self.schema_ if attribute.name not in self._absent)
        table, members = _encode(rows, described, constraints, self.missing, self._summary)
        table = replace(table, weights=self._row_counts)
        guard = make_guard(constraints, table)
        # A group also contains rows that are not released, so only the guard can count the released ones.
        smallest = largest_k(constraints) if members is None else 1
        require_whole_table(constraints, table, members, smallest)
        return PartitionInput(rows, table, members, constraints, guard, smallest)

    def _look_at_target(self, job: PartitionInput, y: Any) -> Any:
        """Return the information about the target that the partition uses."""
        return y

    def _classes_of(self, job: PartitionInput, y: Any, target: Any = None) -> np.ndarray | None:
        """Return the class of each row if the recoding needs it; ``target`` is known for fitted rows only."""
        if not needs(self.recoding_in_use, "classes"):
            return None
        if y is None and not self.schema_.target:
            raise ShoalError(
                f"recoding={self.recoding_in_use!r} needs the class of each released row: give the schema a target, or "
                "pass y for these rows (fit learns from one table, anonymize(X, y) releases another)."
            )
        values = read_labels(read_target(job.rows, self.schema_) if y is None else y, job.table.n_rows)
        if values.ndim == 2:
            return values.argmax(axis=1).astype(np.int32)
        classes = guide_from_values(values, regression=False).classes
        return np.unique(values, return_inverse=True)[1] if classes is None else classes

    def _recode(
        self, job: PartitionInput, labels: np.ndarray, classes: np.ndarray | None
    ) -> tuple[np.ndarray, nw.DataFrame[Any]]:
        """Suppress rows as far as allowed, and recode each group."""
        recoding = self.recoding_in_use
        if classes is None and needs(recoding, "classes"):
            # The search chose it for rows with known classes, which these rows lack.
            recoding = "representative"
        labels = self._suppress(job, labels, sets=recoding == "set")
        # Only a draw needs random numbers; other recodings must not advance a shared generator.
        random = random_source(self.random_state) if needs(recoding, "random") else None
        nodes = self._released_nodes()
        if nodes is not None:
            recoded = recode_as_nodes(job.table, labels, nodes)
        else:
            recoded = recode(job.table, labels, recoding, job.members, random, classes)
        groups = build_groups(job.rows.frame, recoded)
        require_released_groups(job, labels, groups)
        return labels, groups

    def _suppress(self, job: PartitionInput, labels: np.ndarray, *, sets: bool) -> np.ndarray:
        """Suppress rows as far as allowed, where the others are then released more exactly; return the labels."""
        if self.suppression == 0:
            return labels
        return trim(job.table, labels, job.guard, job.smallest, self.suppression, sets=sets)

    def _released_nodes(self) -> Nodes | None:
        """Return the nodes that groups are released as, if these do not follow from the recoding of their rows."""
        return None

    @property
    def recoding_in_use(self) -> str:
        """The recoding in use, which a search may have chosen."""
        return self.recoding

    def described_parameters(self) -> dict[str, Any]:
        """Return the parameters in a form that can be printed and handed on."""
        parameters = self.get_params(deep=False)
        del parameters["schema"]
        parameters["recoding"] = self.recoding_in_use
        if parameters.get("model") is not None:
            parameters["model"] = name_of(parameters["model"])
        for name in parameters.keys() & set(self._holds_rows):
            # Evidence is handed on, and rows must not be read from it.
            if parameters[name] is not None:
                parameters[name] = f"{len(parameters[name]):,} entries, which are not shown"
        return parameters | {"constraints": [constraint.describe() for constraint in self.constraints]}

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _open(self, X: Any, *, reset: bool) -> nw.DataFrame[Any]:
        """Open a dataframe or an array; store its columns, or compare them with the fitted ones."""
        if reset:
            self._from_array = not frames.is_frame(X)
        if not frames.is_frame(X):
            array = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
            if reset:
                self._names: list[str] = [f"x{j}" for j in range(array.shape[1])]
            return frames.from_array(_numbers_if_possible(array), self._names)
        frame = X.frame if isinstance(X, FactoredFrame) else frames.open_frame(X)
        frames.require_rows(frame)
        if reset:
            self._names = list(frame.columns)
            self.n_features_in_ = len(self._names)
            self.feature_names_in_ = np.array(self._names, dtype=object)
        elif list(frame.columns) != self._names:
            raise DataError(_which_columns_differ(frame.columns, self._names))
        return frame

    def _close(self, frame: nw.DataFrame[Any], X: Any) -> Any:
        """Return the same kind of dataframe as the input, or an array."""
        if frames.is_frame(X):
            return frame.to_native()
        return frame.to_numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _encode(
    rows: FactoredFrame,
    schema: Schema,
    constraints: Sequence[PrivacyModel],
    missing: Missing,
    whole: TableSummary | None,
) -> tuple[Table, np.ndarray | None]:
    """Return the encoded table, and a mask of the released rows if only some are released."""
    member_of = membership(constraints)
    extra = () if member_of is None else (member_of,)
    if whole is None:
        table = encode(rows, schema, missing=missing, extra=extra)
    else:
        table = whole.encode(rows.frame, schema, extra)
    if member_of is None:
        return table, None
    members = released_rows(table, member_of) != 0
    if not members.any():
        raise GuaranteeError(f"The column {member_of!r} marks no row as released: there is nothing to release.")
    restricted = {column.name: restrict(column, members) for column in table.sensitive}
    return replace(table, columns={**table.columns, **restricted}), members


def require_whole_table(
    constraints: Sequence[PrivacyModel], table: Table, members: np.ndarray | None, smallest: int
) -> None:
    """Refuse constraints that the whole table as one group violates: no coarser release exists."""
    counts = count_groups(np.zeros(table.n_rows, np.int64), table.sensitive, members, table.weights)
    n_rows = int(counts.population.sum())
    if n_rows < smallest:
        raise GuaranteeError(
            f"k={smallest} cannot be reached with n_samples={n_rows} rows: choose a smaller k or add rows."
        )
    for constraint in constraints:
        if not constraint.holds(counts):
            raise GuaranteeError(
                f"{constraint.describe()} cannot be reached: the whole table as one group only reaches the level "
                f"{show_level(constraint.measure(counts))}; ask for less."
            )


def require_released_groups(job: PartitionInput, labels: np.ndarray, groups: nw.DataFrame[Any]) -> None:
    """Refuse groups that violate a constraint when those released with equal values are merged, as readers see them.

    Merged groups satisfy every model that each of them satisfies, except delta-disclosure, which ignores values that
    are absent from a group. If only k is requested, nothing is merged: merged groups are larger.
    """
    merged = labels
    if len(job.constraints) > 1:
        merged = np.append(group_rows(groups, groups.columns), -1)[labels]
    looked_at = job.table.sensitive if len(job.constraints) > 1 else ()
    counts = count_groups(merged, looked_at, job.members, job.table.weights)
    for constraint in job.constraints:
        if not constraint.holds(counts):
            raise GuaranteeError(
                f"{constraint.describe()} does not hold after groups with equal released values are merged (level "
                f"{show_level(constraint.measure(counts))}): choose another recoding, or a higher k."
            )


def _every_column_quasi(frame: nw.DataFrame[Any]) -> Schema:
    kinds = {"number": "numeric", "date": "numeric", "boolean": "nominal", "text": "nominal"}
    return Schema(Attribute(name, "quasi", kinds[frames.content_of(frame[name])]) for name in frame.columns)


def random_source(random_state: Any) -> np.random.Generator:
    """Return a generator that is seeded by a parameter."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31))


def _numbers_if_possible(array: np.ndarray) -> np.ndarray:
    """Convert an object array to numbers if it contains numbers only."""
    if array.dtype != object:
        return array
    try:
        return array.astype(float)
    except (TypeError, ValueError):
        return array


def _which_columns_differ(given: Sequence[str], fitted: Sequence[str]) -> str:
    for name in fitted:
        if name not in given:
            return f"Column {name!r} was in the fitted table and is not in this one: add it."
    for name in given:
        if name not in fitted:
            return f"Column {name!r} was not in the fitted table: remove it, or fit again."
    return f"The columns must have the order of the fitted table, {', '.join(fitted[:12])}: reorder them."
