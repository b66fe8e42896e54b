"""Slow and obvious twins of the steps of HilbertCurve."""

from __future__ import annotations

import math

from naive.groups import width


def key_of(cell, bits):
    """Return the number of a cell along the curve: Skilling's transform of one cell, with plain numbers."""
    entries, d = list(cell), len(cell)
    for bit in range(bits - 1, 0, -1):
        below = (1 << bit) - 1
        for j in range(d):
            if entries[j] >> bit & 1:
                entries[0] ^= below
            else:
                exchanged = (entries[0] ^ entries[j]) & below
                entries[0] ^= exchanged
                entries[j] ^= exchanged
    for j in range(1, d):
        entries[j] ^= entries[j - 1]
    flips = 0
    for bit in range(bits - 1, 0, -1):
        if entries[-1] >> bit & 1:
            flips ^= (1 << bit) - 1
    key = 0
    for bit in range(bits - 1, -1, -1):
        for entry in entries:
            key = key << 1 | ((entry ^ flips) >> bit & 1)
    return key


def loss(table, rows, form):
    """Return the number of rows times the weighted sum of widths."""
    total = 0.0
    for column, kind in zip(table.quasi, form, strict=True):
        total += column.attribute.weight * width(column, kind, rows)
    return len(rows) * total


def best_runs(table, order, k, form, places=None):
    """Find the best cuts of rows in this order into runs of k to 2k - 1 rows, from the last place for a cut on.

    Least loss first, then the fewest separated equal rows, then the shortest first run. Return the three.
    """
    places = range(len(order) + 1) if places is None else places
    codes = [tuple(int(column.codes[row]) for column in table.quasi) for row in order]
    known = {len(order): (0.0, 0, [])}
    for start in sorted(places, reverse=True)[1:]:
        found = None
        for stop in sorted(known):
            if not k <= stop - start < 2 * k:
                continue
            rest, parted, runs = known[stop]
            value = loss(table, order[start:stop], form) + rest
            parted += stop < len(order) and codes[stop] == codes[stop - 1]
            if found is None or (value, parted) < found[:2]:
                found = value, parted, [(start, stop), *runs]
        if found is not None:
            known[start] = found
    return known[0]


def all_cuts(n, k):
    """Yield every way to cut n rows into runs of at least k."""
    if n >= k:
        yield [n]
    for first in range(k, n - k + 1):
        for rest in all_cuts(n - first, k):
            yield [first, *rest]


def merge_runs(table, order, runs, form, holds):
    """Merge runs from left to right until all hold and no two neighbours are released alike; equal rows first."""
    codes = [tuple(int(column.codes[row]) for column in table.quasi) for row in order]
    finished, ahead = [], []
    for start, stop in runs:
        if ahead and len(set(codes[ahead[-1][0] : stop])) == 1:
            start = ahead.pop()[0]
        ahead.append((start, stop))
    while ahead:
        run = ahead.pop(0)
        while True:
            kept = holds([order[i] for i in range(*run)])
            left, right = finished[-1:], ahead[:1]
            if kept and not (left and _alike(table, order, left[0], run, form)):
                break
            if not left and not right:
                break
            to_left = kept or _growth(table, order, run, left, form) <= _growth(table, order, run, right, form)
            enough = 0 if kept else run[1] - run[0] + math.ceil((run[1] - run[0]) / 4)
            while True:
                other = finished.pop() if to_left else ahead.pop(0)
                run = (min(run[0], other[0]), max(run[1], other[1]))
                if run[1] - run[0] >= enough or not (finished if to_left else ahead):
                    break
        finished.append(run)
    return finished


def _growth(table, order, run, neighbour, form):
    """Return the loss of a run and its neighbour together beyond that of the neighbour alone."""
    if not neighbour:
        return math.inf
    (other,) = neighbour
    both = order[min(run[0], other[0]) : max(run[1], other[1])]
    return loss(table, both, form) - loss(table, order[slice(*other)], form)


def _alike(table, order, run, other, form):
    """Return True if no width grows when the two are joined."""
    rows, others = order[slice(*run)], order[slice(*other)]
    widths = [
        {width(column, kind, some) for some in (rows, others, rows + others)}
        for column, kind in zip(table.quasi, form, strict=True)
    ]
    return all(len(found) == 1 for found in widths)


def nearest_run(key, first, last):
    """Return the first run that encloses a key; else the nearer one of those before and after it (before, if tied)."""
    for run in range(len(first)):
        if first[run] <= key <= last[run]:
            return run
    before = [run for run in range(len(first)) if last[run] < key][-1:]
    behind = [run for run in range(len(first)) if key < first[run]][:1]
    if before and behind:
        return before[0] if key - last[before[0]] <= first[behind[0]] - key else behind[0]
    return (before + behind)[0]
