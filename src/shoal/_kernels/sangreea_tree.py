"""A tree of boxes over the rows that SaNGreeA has not assigned yet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal._kernels._jit import inner, jit
from shoal._kernels.cutting import longer
from shoal._kernels.sangreea_space import MOST_BITS

LEAF_ROWS = 16
"""Maximum number of rows in a leaf."""
SAMPLE = 64
"""Number of rows sampled to decide where a box is cut."""
NO_ROW = np.int64(1) << np.int64(62)
"""The lowest row of an empty box."""


class BoxTree(NamedTuple):
    """A binary tree of boxes in preorder; the rows of a box are contiguous in ``rows``, ascending in each leaf."""

    rows: np.ndarray
    codes: np.ndarray
    """int32 (n, q): codes of the rows, in the same order."""
    leaf: np.ndarray
    """int64 (n,): the leaf of each place."""
    place: np.ndarray
    """int64 (rows of the table,): the place of each row."""
    start: np.ndarray
    stop: np.ndarray
    parent: np.ndarray
    right: np.ndarray
    """The right child; -1 for a leaf. The left one is the next box."""
    lowest: np.ndarray
    """int64: the lowest unassigned row of a box."""
    content: np.ndarray
    """uint64 (boxes, q): on a line the lowest and the highest code (32 bits each) with the top bit for the missing
    value, in a tree a bit for every code, or the lowest and the highest if there are more than 64."""


@jit
def build(space, codes, rows, n_rows):
    """Build boxes over some rows, which are given in ascending order."""
    n, q = rows.shape[0], codes.shape[1]
    order, shape = _cut_all(space, codes, rows)
    n_boxes = shape.shape[0]
    own, place = np.empty((n, q), np.int32), np.full(n_rows, -1, np.int64)
    for i in range(n):
        place[order[i]] = i
        for j in range(q):
            own[i, j] = codes[order[i], j]
    start, stop, parent, right = shape[:, 0].copy(), shape[:, 1].copy(), shape[:, 2].copy(), shape[:, 3].copy()
    leaf, lowest = np.empty(n, np.int64), np.full(n_boxes, NO_ROW, np.int64)
    content = np.empty((n_boxes, q), np.uint64)
    for box in range(n_boxes - 1, -1, -1):
        if right[box] >= 0:
            lowest[box] = min(lowest[box + 1], lowest[right[box]])
        elif n > 0:
            lowest[box] = order[start[box]]
            for i in range(start[box], stop[box]):
                leaf[i] = box
    for j in range(q):
        if space.line[j] == 0 and space.n_values[j] <= MOST_BITS:
            _fill_masks(own, j, start, stop, right, content)
        else:
            _fill_ranges(own, j, space.missing[j], start, stop, right, content)
    return BoxTree(order, own, leaf, place, start, stop, parent, right, lowest, content)


@inner
def _cut_all(space, codes, rows):
    """Return the rows in the order of the boxes; start, stop, parent and right child of each box, in preorder."""
    n = rows.shape[0]
    order, spare = rows.copy(), np.empty(n, np.int64)
    shape = np.empty((max(n // 4, 8), 4), np.int64)
    stack = np.empty((64, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, -1
    depth, n_boxes = 1, 0
    while depth > 0:
        depth -= 1
        start, stop, above = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        box = n_boxes
        n_boxes += 1
        if n_boxes > shape.shape[0]:
            shape = longer(shape)
        if above >= 0 and box != above + 1:
            shape[above, 3] = box
        shape[box, 0], shape[box, 1], shape[box, 2], shape[box, 3] = start, stop, above, -1
        if stop - start <= LEAF_ROWS:
            continue
        middle = _cut(space, codes, order, spare, start, stop)
        if depth + 2 > stack.shape[0]:
            stack = longer(stack)
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = middle, stop, box
        stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = start, middle, box
        depth += 2
    return order, shape[:n_boxes]


@inner
def _fill_masks(codes, j, start, stop, right, content):
    for box in range(start.shape[0] - 1, -1, -1):
        if right[box] >= 0:
            content[box, j] = content[box + 1, j] | content[right[box], j]
            continue
        held = np.uint64(0)
        for i in range(start[box], stop[box]):
            held |= np.uint64(1) << np.uint64(codes[i, j])
        content[box, j] = held


@inner
def _fill_ranges(codes, j, missing, start, stop, right, content):
    top, half = np.uint64(1) << np.uint64(63), np.uint64(0xFFFFFFFF)
    for box in range(start.shape[0] - 1, -1, -1):
        if right[box] >= 0:
            one, other = content[box + 1, j], content[right[box], j]
            low = min(one & half, other & half)
            high = max((one & ~top) >> np.uint64(32), (other & ~top) >> np.uint64(32))
            content[box, j] = ((one | other) & top) | (high << np.uint64(32)) | low
            continue
        low, high, is_missing = half, np.uint64(0), np.uint64(0)
        for i in range(start[box], stop[box]):
            code = np.int64(codes[i, j])
            if code == missing:
                is_missing = top
            else:
                low, high = min(low, np.uint64(code)), max(high, np.uint64(code))
        content[box, j] = is_missing | (high << np.uint64(32)) | low


@inner
def _cut(space, codes, order, spare, start, stop):
    """Split the rows of a box into two parts, each in ascending order; return where the right part begins.

    The attribute in which two rows cost most on average is cut near its median. If all rows look the same, the lower
    half of them is separated from the upper half: the search prefers low rows among equal ones.
    """
    half = (stop - start) // 2
    j = _widest(space, codes, order, start, half)
    cut = _median(codes, order, start, stop, j) if j >= 0 else np.int64(-1)
    if cut < 0:
        return start + half
    n_left, n_right = 0, 0
    for i in range(start, stop):
        if codes[order[i], j] < cut:
            order[start + n_left] = order[i]
            n_left += 1
        else:
            spare[n_right] = order[i]
            n_right += 1
    for i in range(n_right):
        order[start + n_left + i] = spare[i]
    return start + n_left


@inner
def _widest(space, codes, order, start, half):
    """Return the attribute in which pairs of rows are farthest apart; -1 if the sampled pairs cost nothing.

    A cost that even near rows have does not distinguish rows, so most of the second lowest cost is subtracted: postal
    codes, which hardly any two people share, are then cut late. On the census (k = 10) the search takes a third.
    """
    line, first, last, parent = space.line, space.first, space.last, space.parent
    step = max(half // (SAMPLE // 2), 1)
    most, widest = 0.0, -1
    for j in range(codes.shape[1]):
        spread, lowest, second, pairs = 0.0, np.inf, np.inf, 0
        at = space.position_at[j]
        for i in range(start, start + half, step):
            one, other = np.int64(codes[order[i], j]), np.int64(codes[order[i + half], j])
            apart = 0.0
            if one != other and line[j] == 0:
                node = space.node_at[j] + one
                while other < first[node] or other > last[node]:
                    node = parent[node]
                apart = space.loss[node]
            elif one != other and max(one, other) == space.missing[j]:
                apart = space.weight[j]
            elif one != other:
                apart = space.weight[j] * (abs(space.position[at + one] - space.position[at + other]) / space.width[j])
            if apart < lowest:
                lowest, second = apart, lowest
            elif apart < second:
                second = apart
            spread += apart
            pairs += 1
        if pairs > 1:
            spread -= 0.999 * pairs * second
        if spread > most:
            most, widest = spread, j
    return widest


@inner
def _median(codes, order, start, stop, j):
    """Return the code that cuts a sample of the rows best, with some rows below it; -1 if they are all the same."""
    step = max((stop - start) // SAMPLE, 1)
    sample = np.empty(2 * SAMPLE, np.int64)
    m = 0
    for i in range(start, stop, step):
        code = np.int64(codes[order[i], j])
        at = m
        while at > 0 and sample[at - 1] > code:
            sample[at] = sample[at - 1]
            at -= 1
        sample[at] = code
        m += 1
    cut, balance = np.int64(-1), 0
    for i in range(1, m):
        if sample[i] > sample[i - 1] and min(i, m - i) > balance:
            cut, balance = sample[i], min(i, m - i)
    return cut


@inner
def take(boxes, taken, row):
    """Mark a row as taken."""
    rows, lowest, right, parent = boxes.rows, boxes.lowest, boxes.right, boxes.parent
    taken[row] = 1
    place = boxes.place[row]
    box = boxes.leaf[place]
    if lowest[box] != row:
        return
    lowest[box] = NO_ROW
    for i in range(place + 1, boxes.stop[box]):
        if taken[rows[i]] == 0:
            lowest[box] = rows[i]
            break
    box = parent[box]
    while box >= 0 and lowest[box] == row:
        lowest[box] = min(lowest[box + 1], lowest[right[box]])
        box = parent[box]
