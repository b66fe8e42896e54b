"""Keys of the cells of a grid along the d-dimensional Hilbert curve, and the order of rows along it.

A key is a number of d x bits bits, most significant first, in as many 64-bit words as necessary.
"""

from __future__ import annotations

import numpy as np

from shoal._kernels._jit import inner, jit

BLOCK = 512
"""Rows that are transformed together. The loops over a block have no branches, so that they are vectorised: 38 ns per
row of eight attributes, or 97 ns with the last step row by row."""
DIGIT = np.uint64(11)
"""Bits sorted in one pass: 2,048 write positions still fit into the L1 cache."""
MASK = np.uint64(2047)
ONE = np.uint64(1)


@jit
def fill_keys(words, layout, dimensions, coordinate, coordinate_at, bits, start, stop, keys):
    """Write the keys of the packed rows start..stop.

    ``dimensions`` are the attributes in the order of the dimensions. The coordinate of code c of attribute j is
    ``coordinate[coordinate_at[j] + c]``; it has ``bits`` bits.
    """
    d = dimensions.shape[0]
    block, line = np.empty((d, BLOCK), np.uint64), np.empty((keys.shape[1], BLOCK), np.uint64)
    for begin in range(start, stop, BLOCK):
        n = min(BLOCK, stop - begin)
        for dimension in range(d):
            j = dimensions[dimension]
            at, word, shift, mask = coordinate_at[j], layout.word[j], layout.shift[j], layout.mask[j]
            for i in range(n):
                block[dimension, i] = coordinate[at + np.int64((words[begin + i, word] >> shift) & mask)]
        _to_curve(block, bits)
        _lay_out(block, bits, line)
        for w in range(keys.shape[1]):
            for i in range(n):
                keys[begin + i, w] = line[w, i]


@inner
def _to_curve(block, bits):
    """Transform coordinates into the bits of the key, in place (J. Skilling, Programming the Hilbert curve, 2004).

    Bit b of entry j is then bit (b x d + d - 1 - j) of the key.
    """
    d = block.shape[0]
    for bit in range(bits - 1, 0, -1):
        for j in range(d):
            _turn(block[0], block[j], np.uint64(bit), j > 0)
    for j in range(1, d):
        before, entry = block[j - 1], block[j]
        for i in range(BLOCK):
            entry[i] ^= before[i]
    last = block[d - 1]
    flips = np.zeros(BLOCK, np.uint64)
    for bit in range(bits - 1, 0, -1):
        shift, below = np.uint64(bit), (ONE << np.uint64(bit)) - ONE
        for i in range(BLOCK):
            flips[i] ^= (np.uint64(0) - ((last[i] >> shift) & ONE)) & below
    for j in range(d):
        entry = block[j]
        for i in range(BLOCK):
            entry[i] ^= flips[i]


@inner
def _turn(first, entry, bit, exchange):
    """Invert the lower bits of the first entry where the bit is set; elsewhere exchange them with this entry's."""
    below = (ONE << bit) - ONE
    if not exchange:
        for i in range(BLOCK):
            first[i] ^= (np.uint64(0) - ((first[i] >> bit) & ONE)) & below
        return
    for i in range(BLOCK):
        is_set = np.uint64(0) - ((entry[i] >> bit) & ONE)
        exchanged = (first[i] ^ entry[i]) & below & ~is_set
        first[i] ^= (below & is_set) ^ exchanged
        entry[i] ^= exchanged


@inner
def _lay_out(block, bits, line):
    """Interleave the bits of a block into keys, one word of all keys after the other."""
    d = block.shape[0]
    line[:] = 0
    place = 0
    for bit in range(bits - 1, -1, -1):
        for j in range(d):
            entry, word = block[j], line[place >> 6]
            up, down = np.uint64(63 - (place & 63)), np.uint64(bit)
            for i in range(BLOCK):
                word[i] |= ((entry[i] >> down) & ONE) << up
            place += 1


@jit
def part_by_first_digit(keys, order):
    """Sort all rows by the highest digit in which keys differ, stable; return where each value of it starts."""
    differ = np.uint64(0)
    for i in range(keys.shape[0]):
        differ |= keys[i, 0] ^ keys[0, 0]
    shift = np.uint64(0)
    while (differ >> shift) > MASK:
        shift += ONE
    starts = np.zeros(MASK + 2, np.int64)
    for i in range(keys.shape[0]):
        starts[np.int64((keys[i, 0] >> shift) & MASK) + 1] += 1
    for value in range(MASK + 1):
        starts[value + 1] += starts[value]
    fill = starts[:-1].copy()
    for i in range(keys.shape[0]):
        value = np.int64((keys[i, 0] >> shift) & MASK)
        order[fill[value]] = i
        fill[value] += 1
    return starts


@jit
def sort_by_key(keys, order, start, stop):
    """Sort ``order[start:stop]`` by key, stable: digit by digit from the lowest, skipping digits that never differ."""
    n = stop - start
    now, then = order[start:stop], np.empty(n, order.dtype)
    column, moved = np.empty(n, np.uint64), np.empty(n, np.uint64)
    for word in range(keys.shape[1] - 1, -1, -1):
        differ = np.uint64(0)
        for i in range(n):
            column[i] = keys[now[i], word]
            differ |= column[i] ^ column[0]
        shift = np.uint64(0)
        while shift < 64 and (differ >> shift) != 0:
            if (differ >> shift) & MASK:
                _scatter(column, now, shift, moved, then)
                column, moved = moved, column
                now, then = then, now
            shift += DIGIT
    # After an odd number of passes the result is in the other array.
    for i in range(n):
        order[start + i] = now[i]


@inner
def _scatter(column, now, shift, moved, then):
    fill = np.zeros(MASK + 2, np.int64)
    for i in range(column.shape[0]):
        fill[np.int64((column[i] >> shift) & MASK) + 1] += 1
    for value in range(MASK + 1):
        fill[value + 1] += fill[value]
    for i in range(column.shape[0]):
        value = np.int64((column[i] >> shift) & MASK)
        moved[fill[value]], then[fill[value]] = column[i], now[i]
        fill[value] += 1


@jit
def nearest_runs(keys, first, last, labels):
    """Find the run whose keys, ``first[r]`` to ``last[r]``, enclose each key; between two runs the nearer on the curve.

    If several runs end or begin with the key, the first one is chosen.
    """
    for i in range(keys.shape[0]):
        # The first run that does not end before the key.
        low, high = 0, first.shape[0]
        while low < high:
            middle = (low + high) // 2
            if _precedes(last[middle], keys[i]):
                low = middle + 1
            else:
                high = middle
        run = low
        if run == first.shape[0] or (run > 0 and _is_nearer(keys[i], last[run - 1], first[run])):
            run -= 1
        labels[i] = run


@inner
def _precedes(key, other):
    for w in range(key.shape[0]):
        if key[w] != other[w]:
            return key[w] < other[w]
    return False


@inner
def _is_nearer(key, below, above):
    """Return True if a key lies between these two, at most as far from the one below as from the one above."""
    if not _precedes(key, above):
        return False
    to_below, to_above = _difference(key, below), _difference(above, key)
    return not _precedes(to_above, to_below)


@inner
def _difference(key, other):
    """Subtract a smaller key, word by word from the lowest."""
    found = np.empty_like(key)
    borrow = np.uint64(0)
    for w in range(key.shape[0] - 1, -1, -1):
        found[w] = key[w] - other[w] - borrow
        borrow = np.uint64(key[w] < other[w] or (key[w] == other[w] and borrow == ONE))
    return found
