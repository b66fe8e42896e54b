"""The partitions of accuracy-guided anonymization: groups by the output of a model, or by the attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from shoal._kernels.guard import Guard
from shoal.anonymizers.mondrian import Mondrian
from shoal.data.table import Table
from shoal.models.guides import Guide
from shoal.partition.binned_trees import (
    Binning,
    Response,
    bin_codes,
    codes_left,
    grow_tree,
    learn_classes,
    learn_numbers,
    make_bins,
    make_likeness,
    place_rows,
)
from shoal.partition.cut_tree import Cuts, asked_of


class Grouping(NamedTuple):
    """Groups of rows, and the function that places other rows."""

    labels: np.ndarray
    cuts: Cuts
    place: Callable[[np.ndarray], np.ndarray]
    """Return the leaves of rows, given their codes."""
    codes_left: Callable[[int], np.ndarray]
    """Return the codes of an attribute that each node sends left."""


class Plan(NamedTuple):
    """The guide of the partition, and how it is used."""

    guide: Guide
    choice: str | float
    recoding: str = "representative"
    """The recoding, unless the parameter names one."""


def group_alike(table: Table, guard: Guard, smallest: int, recoding: str, n_threads: int) -> Grouping:
    """Group similar rows, as Mondrian does."""
    cuts_for = "set" if recoding == "set" else "interval"
    mondrian = Mondrian(table.schema, smallest, recoding=cuts_for, n_jobs=n_threads)
    mondrian._columns = [replace(column, codes=column.codes[:0]) for column in table.quasi]
    labels = mondrian._partition(table, guard, smallest, None)
    return Grouping(labels, mondrian._cuts_in_use(), mondrian._place, mondrian._codes_left)


def group_by_guide(
    table: Table, guard: Guard, smallest: int, plan: Plan, criterion: str, nominal: str, n_threads: int
) -> Grouping:
    """Group rows by the leaves of a tree that learns the guide."""
    form = nominal if nominal != "auto" else "one-vs-rest" if plan.choice == "hard" else "subset"
    binning = make_bins(table.quasi, form)
    bins = bin_codes(binning, [column.codes for column in table.quasi])
    response = _response(plan, criterion)
    likeness = None
    if isinstance(plan.choice, float) and plan.choice < 1:
        likeness = make_likeness(binning, table.quasi, response, plan.choice)
    cuts, labels = grow_tree(
        binning, bins, response, smallest, guard=asked_of(guard), likeness=likeness, n_threads=n_threads
    )
    return Grouping(labels, cuts, partial(_find_leaves, cuts, binning), partial(codes_left, cuts, binning))


def _response(plan: Plan, criterion: str) -> Response:
    """Return the target of the tree: the classes of a hard guide, else its numbers."""
    guide = plan.guide
    if guide.classes is not None and (plan.choice == "hard" or guide.outputs is None):
        return learn_classes(guide.classes, guide.n_classes, criterion)
    assert guide.outputs is not None
    return learn_numbers(guide.outputs)


def _find_leaves(cuts: Cuts, binning: Binning, codes: np.ndarray) -> np.ndarray:
    return place_rows(cuts, bin_codes(binning, list(codes.T)))
