"""Rows that a cluster of SaNGreeA lacks if it violates a rule: it then grows by the cheapest of these.

One criterion decides which rows bring a rule closer. A rule that counts distinct values, or has no finite level at all,
needs values that are absent from the cluster. Any other rule is satisfied by the whole table, and thus comes closer
with values that are rarer in the cluster than in the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.privacy import DISTINCT, PRESENCE, ROWS, meets, size_level, value_level

BETWEEN_CHECKS = 64
"""A cluster of s rows that violates a rule is checked again s / 64 rows later, or after each row if s is less."""
_ONE = np.uint64(1)
_LAST_BIT = np.uint64(63)


class Lacking(NamedTuple):
    """Values that a cluster lacks of one trait of its rows: a sensitive column, or whether they are released."""

    held: np.ndarray
    """uint64 (boxes, columns + 1): a bit (modulo 64) for each value of the free rows of a box; the last column states
    whether they are released."""
    counted: np.ndarray
    """int64: count of each value of the trait in the cluster."""
    wanted: np.ndarray
    """uint8: 1 for each value of the trait that is wanted."""
    state: np.ndarray
    """int64 (3,): the trait, -1 if any row is wanted; 1 if only absent values are wanted; 1 if ``held`` is filled."""
    bits: np.ndarray
    """uint64 (1,): the bits of the wanted values."""


@jit
def open_lacking(boxes, guard):
    """Return the state of a cluster that lacks nothing yet."""
    n_traits, most = guard.sensitive.shape[1] + 1, 2
    for n_values in guard.rules.n_values:
        most = max(most, n_values)
    held = np.zeros((boxes.start.shape[0], n_traits), np.uint64)
    state = np.array([-1, 0, 0], np.int64)
    return Lacking(held, np.zeros(most, np.int64), np.zeros(most, np.uint8), state, np.zeros(1, np.uint64))


@inner
def look_for_broken(guard, lacking, boxes, rows, size):
    """Return True if all rules hold for the first rows; else record what they lack for the first violated rule."""
    rules = guard.rules
    released = n_released(guard, rows, size)
    for rule in range(rules.first_rule[0]):
        level = size_level(rules.model[rule], released, size)
        if not meets(rules.model[rule], level, rules.bound[rule], rules.other[rule], True):
            _fill(guard, lacking, boxes)
            _lack_rows(guard, lacking, rule, level)
            return False
    if released == 0:
        return True
    for column in range(rules.n_values.shape[0]):
        n_values = rules.n_values[column]
        lacking.counted[:n_values] = 0
        for i in range(size):
            if _released(guard, rows[i]) == 1:
                lacking.counted[guard.sensitive[rows[i], column]] += 1
        rule, level, n_ids = broken_rule(guard, column, lacking.counted[:n_values], released)
        if rule >= 0:
            absent = n_ids < rules.support[column] and (rules.model[rule] == DISTINCT or level == np.inf)
            lacking.state[0], lacking.state[1] = column, absent
            _fill(guard, lacking, boxes)
            note_wanted(guard, lacking, released)
            return False
    return True


@inner
def broken_rule(guard, column, count, released):
    """Return the first violated rule about a column, or -1, its level, and the number of values."""
    rules, ids, present = guard.rules, guard.touched, guard.histogram
    n_ids = 0
    for value in range(count.shape[0]):
        if count[value] > 0:
            ids[n_ids], present[n_ids] = value, count[value]
            n_ids += 1
    found, level = np.int64(-1), 0.0
    for rule in range(rules.first_rule[column], rules.first_rule[column + 1]):
        level = value_level(rules, rule, ids[:n_ids], present[:n_ids], released)
        if not meets(rules.model[rule], level, rules.bound[rule], rules.other[rule], True):
            found = np.int64(rule)
            break
    present[:n_ids] = 0
    return found, level, n_ids


@inner
def n_released(guard, rows, size):
    """Return how many of the first rows are released."""
    if guard.members.shape[0] == 0:
        return size
    released = 0
    for i in range(size):
        released += guard.members[rows[i]] != 0
    return released


@inner
def _lack_rows(guard, lacking, rule, level):
    """Record whether a rule about the size of a group lacks released rows, others, or any."""
    model = guard.rules.model[rule]
    too_few = level < guard.rules.other[rule]
    lacking.state[0] = guard.sensitive.shape[1]
    lacking.wanted[0] = model != ROWS and not (model == PRESENCE and too_few)
    lacking.wanted[1] = model != PRESENCE or too_few
    lacking.bits[0] = np.uint64(lacking.wanted[0]) | np.uint64(lacking.wanted[1]) << _ONE


@inner
def note_wanted(guard, lacking, released):
    """Record which values are wanted for a cluster with this many released rows."""
    column = lacking.state[0]
    if column == guard.sensitive.shape[1]:
        return
    first, bits = guard.rules.first_value[column], np.uint64(0)
    for value in range(guard.rules.n_values[column]):
        share, count = guard.rules.shares[first + value], lacking.counted[value]
        wanted = (count == 0 and share > 0) if lacking.state[1] else count < share * released
        lacking.wanted[value] = wanted
        if wanted:
            bits |= _ONE << (np.uint64(value) & _LAST_BIT)
    lacking.bits[0] = bits


@inner
def is_wanted(guard, lacking, row):
    """Return True if a row brings the rule closer."""
    trait = lacking.state[0]
    if trait < 0:
        return True
    if trait == guard.sensitive.shape[1]:
        return lacking.wanted[_released(guard, row)] != 0
    return _released(guard, row) == 1 and lacking.wanted[guard.sensitive[row, trait]] != 0


@inner
def may_hold_wanted(lacking, box):
    """Return True if some row of a box may bring the rule closer."""
    return lacking.state[0] < 0 or lacking.held[box, lacking.state[0]] & lacking.bits[0] != 0


@inner
def count_in(guard, lacking, row):
    """Count a row added to the cluster; return whether it is released."""
    released = _released(guard, row)
    if released == 1 and lacking.state[0] < guard.sensitive.shape[1]:
        lacking.counted[guard.sensitive[row, lacking.state[0]]] += 1
    return released


@inner
def look_again(guard, lacking, boxes, taken, leaf):
    """Update the values of the free rows of a leaf: many rows with the wanted values may be taken."""
    trait = lacking.state[0]
    held = np.uint64(0)
    for place in range(boxes.start[leaf], boxes.stop[leaf]):
        row = boxes.rows[place]
        if taken[row] == 0:
            held |= _bit_of(guard, row, trait)
    box = leaf
    while lacking.held[box, trait] != held:
        lacking.held[box, trait] = held
        box = boxes.parent[box]
        if box < 0:
            return
        held = lacking.held[box + 1, trait] | lacking.held[boxes.right[box], trait]


@inner
def _fill(guard, lacking, boxes):
    """Collect the values of the rows of each box, the first time they are needed."""
    if lacking.state[2] == 1:
        return
    lacking.state[2] = 1
    for box in range(boxes.start.shape[0] - 1, -1, -1):
        for trait in range(lacking.held.shape[1]):
            if boxes.right[box] >= 0:
                lacking.held[box, trait] = lacking.held[box + 1, trait] | lacking.held[boxes.right[box], trait]
                continue
            for place in range(boxes.start[box], boxes.stop[box]):
                lacking.held[box, trait] |= _bit_of(guard, boxes.rows[place], trait)


@inner
def _bit_of(guard, row, trait):
    value = _released(guard, row) if trait == guard.sensitive.shape[1] else np.int64(guard.sensitive[row, trait])
    return _ONE << (np.uint64(value) & _LAST_BIT)


@inner
def _released(guard, row):
    if guard.members.shape[0] == 0:
        return np.int64(1)
    return np.int64(guard.members[row] != 0)
