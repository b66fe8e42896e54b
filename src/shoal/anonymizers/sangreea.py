"""SaNGreeA (Campan and Truta 2009): greedy clusters of k rows that cost least, with weights, also in networks."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from shoal._kernels import sangreea as kernel
from shoal._kernels import sangreea_tree
from shoal._kernels.guard import Guard
from shoal._kernels.sangreea_space import Space
from shoal.anonymizers._base import Anonymizer
from shoal.data.schema import Schema
from shoal.data.table import Missing, Table
from shoal.errors import GuaranteeWarning, ShoalError
from shoal.parameters import WEIGHTS, Choice, Constraint, Described, Real, Whole
from shoal.partition.clusters import Clustering, codes_of, measure_space, weights_of
from shoal.partition.networks import Network, cluster_graph, read_network, structural_loss, weigh_links
from shoal.privacy.models import PrivacyModel
from shoal.privacy.rules import membership, released_rows


class SaNGreeA(Anonymizer):
    """Partition by greedy clusters: each takes in the row with which it costs least, until it has k.

    A cluster begins with the first row that has none. What it costs is the generalisation information loss of one of
    its rows: the sum over the quasi-identifiers of weight times the width of its range by that of the column, or the
    height of the common ancestor by that of the hierarchy. Fewer than k rows that are left over go, one by one, to the
    cluster whose loss grows least. Ties go to the first row, or cluster. The search looks at few rows at each step, and
    finds what looking at all of them would.

    Parameters
    ----------
    schema : Schema, optional
        Without one every column is a quasi-identifier: numbers and dates numeric, the rest nominal.
    k : int
        Rows that every group has at least.
    weights : mapping from names to numbers, optional
        How much attributes count, where that is not what the schema says. An attribute of weight 0 is released as it
        comes.
    start : {"first", "random"} or int
        The row that begins the first cluster. All others begin with the first row that is left.
    edges : pairs of row positions, optional
        A network between the rows: a list, an array or a dataframe of two columns. Clusters then begin with the row of
        most links that is left, and a step minimises ``alpha`` times the mean cost of an attribute plus ``beta`` times
        the mean distance from the members: the share of all other rows that are linked with exactly one of the two.
    alpha, beta : float
        See ``edges``.
    constraints : sequence of privacy models
        A cluster that has k rows and breaks one takes in the cheapest row that brings it nearer, again and again: one
        with a sensitive value that the cluster lacks where different values are counted, else one with a value that is
        rarer in the cluster than in the table. Rows that are left over when no such row is left join the cheapest
        cluster that takes them; what none takes is merged with as many as it needs.
    recoding : {"interval", "set", "representative", "mean", "sample"}
        What a group is released as: ranges and common ancestors; ranges and sets of values; the row nearest to the
        group's centre; means; a row drawn at random.
    suppression : float
        Share of the rows that may be suppressed, where that lets the others be released more exactly.
    missing : {"value", "error"}
        Missing values count as a value of their own, or are refused. A range that may also be missing costs as much as
        the whole column.
    random_state : int, RandomState or None
        For ``start="random"`` and ``recoding="sample"``.

    Attributes
    ----------
    labels_ : int array (n_rows,)
        Group of each fitted row; -1 for suppressed ones.
    groups_ : dataframe
        The released quasi-identifiers, one row a group.
    schema_ : Schema
        The schema in use.
    cluster_graph_ : ClusterGraph or None
        With ``edges``: what is released of the network, the links of released rows within groups and between them. It
        is also among the findings of a release.
    structural_loss_ : StructuralLoss or None
        With ``edges``: what that loses.

    Notes
    -----
    To choose the least cost or the least increase of it is the same while a cluster grows: what it costs already is the
    same for all candidates.

    A fitted SaNGreeA keeps the rows that it was fitted on, because ``transform`` puts a new row into the group of the
    row that is cheapest to be released with. Do not hand it out.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import SaNGreeA
    >>> people = pl.DataFrame({"age": [25, 47, 31, 45, 27, 52], "zip": ["80", "90", "81", "90", "80", "91"]})
    >>> SaNGreeA(k=3).fit_transform(people)["age"].to_list()
    ['[25, 31]', '[45, 52]', '[25, 31]', '[45, 52]', '[25, 31]', '[45, 52]']
    """

    def __init__(
        self,
        schema: Schema | None = None,
        k: int = 5,
        *,
        weights: Mapping[str, float] | None = None,
        start: str | int = "first",
        edges: Any = None,
        alpha: float = 1.0,
        beta: float = 1.0,
        constraints: Sequence[PrivacyModel] = (),
        recoding: str = "interval",
        suppression: float = 0.0,
        missing: Missing = "value",
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
        self.weights = weights
        self.start = start
        self.edges = edges
        self.alpha = alpha
        self.beta = beta

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "weights": WEIGHTS | None,
        "start": Choice(("first", "random")) | Whole(least=0),
        "edges": Described("pairs of row positions or None"),
        "alpha": Real(least=0),
        "beta": Real(least=0),
    }
    _holds_rows = ("_codes", "edges")

    def _partition(self, table: Table, guard: Guard, smallest: int, y: Any) -> np.ndarray:
        weights_of(table, self.weights)
        network = None if self.edges is None else read_network(self.edges, table.n_rows)
        links = None if network is None else weigh_links(network, self.alpha, self.beta, len(table.quasi))
        seeds = self._seeds(table.n_rows, network, guard.members)
        clustering = Clustering(table, smallest, weights=self.weights, guard=guard, seeds=seeds)
        self._space, self._codes = measure_space(table, clustering.weights), codes_of(table)
        return clustering.complete(links)

    def _seeds(self, n_rows: int, network: Network | None, members: np.ndarray) -> np.ndarray:
        """All rows in the order in which they begin clusters."""
        rank = np.zeros(n_rows, np.int64) if network is None else -network.degrees
        # Where some rows are not released, those that are must find others while there are some.
        released = np.ones(n_rows, np.uint8) if len(members) == 0 else members
        order = np.lexsort((rank, released == 0))
        first = self._first_seed(n_rows)
        return order if first is None else np.concatenate(([first], order[order != first]))

    def _first_seed(self, n_rows: int) -> int | None:
        if self.start == "first":
            return None
        if self.start == "random":
            return int(check_random_state(self.random_state).randint(n_rows))
        Whole(least=0, most=n_rows - 1).check("start", self.start)
        return int(self.start)

    def _fit(self, frame: Any, y: Any) -> Table:
        table = super()._fit(frame, y)
        self.cluster_graph_ = self.structural_loss_ = None
        if self.edges is not None:
            member_of = membership(self.constraints)
            members = None if member_of is None else released_rows(table, member_of)
            self.cluster_graph_ = cluster_graph(read_network(self.edges, table.n_rows), self.labels_, members)
            self.structural_loss_ = structural_loss(self.cluster_graph_)
        return table

    def findings(self) -> dict[str, Any]:
        """With ``edges``: the cluster graph of the released rows and the share of the structure that is lost."""
        check_is_fitted(self, "labels_")
        graph = self.cluster_graph_
        if graph is None or self.structural_loss_ is None:
            return {}
        return {
            "cluster sizes": graph.sizes.tolist(),
            "links within clusters": graph.inner.tolist(),
            "linked clusters": graph.pairs.tolist(),
            "links between clusters": graph.between.tolist(),
            "nsil": self.structural_loss_.nsil,
        }

    def forget_rows(self) -> Self:
        """Drop the fitted rows and the network; the parameter ``edges`` is None from then on."""
        super().forget_rows()
        self.edges = None
        return self

    def transform(self, X: Any) -> Any:
        """Put rows into the vocabulary of the fitted groups; see :meth:`Anonymizer.transform`."""
        released = super().transform(X)
        if _equal_rows_are_parted(self._codes, self.labels_):
            warnings.warn(
                "Some equal rows were parted to keep groups small, and transform puts all of them into one group: "
                "k holds on what fit_transform returned, not on this.",
                GuaranteeWarning,
                stacklevel=2,
            )
        return released

    def _place(self, codes: np.ndarray) -> np.ndarray:
        # Copies: what was loaded from a file may be read-only, for which kernels would be compiled once more.
        space, fitted = Space(*(array.copy() for array in self._space)), self._codes.copy()
        boxes = sangreea_tree.build(space, fitted, np.arange(len(fitted)), len(fitted))
        nearest = kernel.nearest(space, boxes, np.zeros(len(fitted), np.uint8), codes.astype(np.int32))
        return np.asarray(self.labels_[nearest])

    def for_parts(self, sample: nw.DataFrame[Any], y: Any) -> Self:
        if self.edges is not None or isinstance(self.start, numbers.Integral):
            name = "edges" if self.edges is not None else "start"
            raise ShoalError(f"{name} is about rows of the whole table, which is released part by part: leave it out.")
        return self


def _equal_rows_are_parted(codes: np.ndarray, labels: np.ndarray) -> bool:
    order = np.lexsort((labels, *codes.T))
    alike = (codes[order[1:]] == codes[order[:-1]]).all(axis=1)
    return bool((alike & (labels[order[1:]] != labels[order[:-1]])).any())
