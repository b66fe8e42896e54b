"""SaNGreeA (Campan and Truta 2009): greedy clusters of k rows of least cost, with weights, also in networks."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
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
from shoal.data.table import Table
from shoal.errors import GuaranteeWarning, ShoalError
from shoal.parameters import WEIGHTS, Choice, Constraint, Described, Real, Whole
from shoal.partition.clusters import Clustering, codes_of, measure_space, weights_of
from shoal.partition.networks import Network, cluster_graph, read_network, structural_loss, weigh_links
from shoal.privacy.rules import membership, released_rows


@dataclass(eq=False, repr=False)
class SaNGreeA(Anonymizer):
    """Partition by greedy clusters: each adds the row with which it costs least, until it has k.

    A cluster begins with the first unassigned row. Its cost is the generalisation information loss of one of its rows:
    the sum over the quasi-identifiers of the weight times the width of its range relative to the column, or the height
    of the common ancestor relative to the hierarchy. If fewer than k rows remain, each joins the cluster whose loss
    increases least. Ties go to the first row, or cluster. The search examines few rows at each step, and finds the same
    row as an exhaustive search.

    Parameters
    ----------
    schema : Schema, optional
        By default every column is a quasi-identifier: numbers and dates are numeric, all others nominal.
    k : int
        Minimum number of rows per group.
    weights : mapping from names to numbers, optional
        Weights of attributes, where they differ from the schema. An attribute of weight 0 does not influence the
        clusters.
    start : {"first", "random"} or int
        The row that begins the first cluster. All others begin with the first unassigned row.
    edges : pairs of row positions, optional
        A network between the rows: a list, an array or a dataframe of two columns. Clusters then begin with the
        unassigned row with most links, and a step minimises ``alpha`` times the mean cost of an attribute plus ``beta``
        times the mean distance from the members: the share of all other rows that are linked with exactly one of the
        two.
    alpha, beta : float
        See ``edges``.
    constraints : sequence of privacy models
        Constraints besides k. A cluster of k rows that violates one repeatedly adds the cheapest row that brings it
        closer: one with a sensitive value that the cluster lacks if distinct values are counted, else one with a value
        that is rarer in the cluster than in the table. When no such row is left, remaining rows join the cheapest
        cluster that is valid with them; rows without one are merged with as many clusters as necessary.
    recoding : {"interval", "set", "representative", "mean", "sample"}
        Released values of a group: ranges and common ancestors; ranges and sets of values; the row nearest to the
        group's centre; means; a row drawn at random.
    suppression : float
        Maximum share of rows to suppress, where the others are then released more exactly.
    missing : {"value", "error"}
        Treat missing values as a separate value, or refuse them. A range with missing values costs as much as the whole
        column.
    random_state : int, RandomState or None
        Random source of ``start="random"`` and ``recoding="sample"``.

    Attributes
    ----------
    labels_ : int array (n_rows,)
        Group of each fitted row; -1 if it is suppressed.
    groups_ : dataframe
        The released quasi-identifiers, one row per group.
    schema_ : Schema
        The schema in use.
    cluster_graph_ : ClusterGraph or None
        With ``edges``: the released part of the network, the numbers of links of released rows within groups and
        between them. It is also part of the findings of a release.
    structural_loss_ : StructuralLoss or None
        With ``edges``: the loss of the network.

    Notes
    -----
    The least cost and the least increase of the cost select the same row while a cluster grows, because the previous
    cost is the same for all candidates.

    A fitted SaNGreeA stores the rows that it was fitted on, because ``transform`` puts a new row into the group of the
    row with which its release costs least. Do not hand it out.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import SaNGreeA
    >>> people = pl.DataFrame({"age": [25, 47, 31, 45, 27, 52], "zip": ["80", "90", "81", "90", "80", "91"]})
    >>> SaNGreeA(k=3).fit_transform(people)["age"].to_list()
    ['[25, 31]', '[45, 52]', '[25, 31]', '[45, 52]', '[25, 31]', '[45, 52]']
    """

    _: KW_ONLY
    weights: Mapping[str, float] | None = None
    start: str | int = "first"
    edges: Any = None
    alpha: float = 1.0
    beta: float = 1.0

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
        """Return all rows in the order in which they begin clusters."""
        rank = np.zeros(n_rows, np.int64) if network is None else -network.degrees
        # Released rows come first, because they need other rows to join them while there are some.
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
        """Return the cluster graph of the released rows and the lost share of the structure, with ``edges``."""
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
        """Drop the fitted rows and the network; the parameter ``edges`` becomes None."""
        super().forget_rows()
        self.edges = None
        return self

    def transform(self, X: Any) -> Any:
        """Recode rows with the values of the fitted groups; see :meth:`Anonymizer.transform`."""
        released = super().transform(X)
        if _equal_rows_are_parted(self._codes, self.labels_):
            warnings.warn(
                "Some equal rows were separated to keep groups small, and transform puts all of them into one group: "
                "k holds on the result of fit_transform, not on this one.",
                GuaranteeWarning,
                stacklevel=2,
            )
        return released

    def _place(self, codes: np.ndarray) -> np.ndarray:
        # Copies, because arrays from a file may be read-only, for which kernels would be compiled again.
        space, fitted = Space(*(array.copy() for array in self._space)), self._codes.copy()
        boxes = sangreea_tree.build(space, fitted, np.arange(len(fitted)), len(fitted))
        nearest = kernel.nearest(space, boxes, np.zeros(len(fitted), np.uint8), codes.astype(np.int32))
        return np.asarray(self.labels_[nearest])

    def for_parts(self, sample: nw.DataFrame[Any], y: Any) -> Self:
        """Return itself, unless a parameter identifies rows of the whole table."""
        if self.edges is not None or isinstance(self.start, numbers.Integral):
            name = "edges" if self.edges is not None else "start"
            raise ShoalError(f"{name} identifies rows of the whole table, which is released in parts: omit it.")
        return self


def _equal_rows_are_parted(codes: np.ndarray, labels: np.ndarray) -> bool:
    order = np.lexsort((labels, *codes.T))
    alike = (codes[order[1:]] == codes[order[:-1]]).all(axis=1)
    return bool((alike & (labels[order[1:]] != labels[order[:-1]])).any())
