"""A slow and obvious twin of the R+ tree's bulk load, and a definition of disjoint boxes."""

from __future__ import annotations

import itertools

from naive import groups as naive
from naive.groups import LINE, SET, TREE, width
from shoal.partition.geometry import forms

FEW_GROUPS = 16


def rplus(table, k, *, sets=False):
    """Return groups of rows, as lists of row numbers."""
    return _cut_down(table, list(range(table.n_rows)), k, forms(table, sets=sets))


def _cut_down(table, rows, k, form):
    best_merit, best_left = 0.0, None
    for j, column in enumerate(table.quasi):
        left = _best_left(column, form[j], rows, k)
        if left is None or column.attribute.weight == 0:
            continue
        right = [row for row in rows if row not in left]
        merit = column.attribute.weight * _gain(column, form[j], rows, left, right)
        if len(rows) <= FEW_GROUPS * k:
            for i, other in enumerate(table.quasi):
                if i != j and other.attribute.weight > 0:
                    merit += other.attribute.weight * _gain(other, form[i], rows, left, right)
        merit = max(merit, 1e-9 * column.attribute.weight)
        if merit > best_merit:
            best_merit, best_left = merit, left
    if best_left is None:
        return [rows]
    right = [row for row in rows if row not in best_left]
    return _cut_down(table, sorted(best_left), k, form) + _cut_down(table, right, k, form)


def _gain(column, form, rows, left, right):
    """Return how much tighter two parts are than the whole."""
    after = len(left) * width(column, form, left) + len(right) * width(column, form, right)
    return width(column, form, rows) - after / len(rows)


def _best_left(column, form, rows, k):
    best, best_score = None, -1
    lefts, in_runs = naive._possible_lefts(column, form, rows)
    for left_codes in lefts:
        left = {row for row in rows if column.codes[row] in left_codes}
        right = [row for row in rows if row not in left]
        if len(left) < k or len(right) < k or not _separable(column, form, left, right):
            continue
        full_groups = len(left) // k + len(right) // k
        score = (full_groups, min(len(left), len(right))) if form != TREE or in_runs else (len(left), 0)
        if form == LINE and {int(column.codes[row]) for row in right} == {column.missing}:
            score = (len(rows) + 1, 0)
        if best is None or score > best_score:
            best, best_score = left, score
    return best


def _separable(column, form, left, right):
    """Return True unless equal floats would be separated."""
    if form != LINE:
        return True
    places = [{column.positions[column.codes[row]] for row in part} for part in (left, right)]
    return not places[0] & places[1]


def boxes_are_disjoint(table, groups, *, sets=False):
    """Return True if any two groups differ in an attribute: in its ranges if it is ordered, else in its values."""
    form = forms(table, sets=sets)
    return all(
        any(_apart(column, form[j], one, two) for j, column in enumerate(table.quasi))
        for one, two in itertools.combinations(groups, 2)
    )


def _apart(column, form, one, two):
    first, second = ({int(column.codes[row]) for row in rows} for rows in (one, two))
    if form == LINE:
        return max(first) < min(second) or max(second) < min(first)
    assert form in (TREE, SET)
    return not first & second
