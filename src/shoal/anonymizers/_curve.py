"""The Hilbert curve through a table: coordinates of values in a grid, keys of rows along the curve, and its halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from shoal._kernels import hilbert as curve
from shoal._kernels.geometry import LINE, TREE, Geometry, Layout
from shoal.data.table import Column, Table
from shoal.partition.geometry import pack_rows
from shoal.partition.table_summary import is_plain_number

EVENLY = 0.2
"""Share of a nominal attribute's range that its values divide equally; the rest is divided by their frequency."""
CROWDED = 0.05
"""Maximum share of rows with different values in one cell."""
LEAST_BITS, MOST_BITS = 16, 32
"""Bits of a coordinate, unless an attribute has more values."""


class Grid(NamedTuple):
    """The coordinates of packed rows in the grid that the curve passes through."""

    layout: Layout
    n_values: np.ndarray
    dimensions: np.ndarray
    """int64 (q,): the attributes in the order of the dimensions."""
    coordinate: np.ndarray
    coordinate_at: np.ndarray
    """Coordinate of code c of attribute j: coordinate[coordinate_at[j] + c]."""
    bits: int
    """Bits of each coordinate."""


def lay_grid(
    table: Table,
    layout: Layout,
    geometry: Geometry,
    spacing: str,
    dimensions: Sequence[str] | None = None,
    *,
    is_part: bool = False,
) -> Grid:
    """Return the grid, with a coordinate for every code.

    Every value has its own cell, so that only equal rows share a key. Coordinates have 16 bits, and more if an
    attribute has more values or if a key of one word has space for them. With the minimum number of bits, values could
    only be spaced evenly: such keys of one word have a loss that is 16 % higher on Adult (12 attributes, k = 10), and
    take two thirds of the time.

    In a part of a table, values need the same coordinates as in all other parts: each number is placed by its position
    in the range of the whole table, even if another one lies in the same cell. Every value gets its own cell only if
    many different rows would share cells, such as when one number is far above all others.

    The attributes with the lowest entropy are the first dimensions: on Adult and on the census the loss is 4 % lower
    than with the order of the columns.
    """
    columns = table.quasi
    n_values = geometry.n_values
    bits = max(int(n_values.max() - 1).bit_length(), min(64 // len(columns), MOST_BITS), LEAST_BITS)
    reaches = _reaches(geometry)
    coordinates = [_coordinates(*one, spacing, bits, is_part) for one in zip(columns, reaches, strict=True)]
    counting = [one for one, reach in zip(zip(columns, coordinates, strict=True), reaches, strict=True) if reach > 0]
    if is_part and any(_is_crowded(*one) for one in counting):
        bits = max(bits, MOST_BITS)
        coordinates = [_coordinates(*one, spacing, bits, False) for one in zip(columns, reaches, strict=True)]
    names = [column.name for column in columns]
    ordered = least_telling_first(columns) if dimensions is None else dimensions
    return Grid(
        layout,
        n_values,
        np.array([names.index(name) for name in ordered], np.int64),
        np.concatenate(coordinates).astype(np.uint64),
        np.concatenate(([0], np.cumsum(n_values)[:-1])).astype(np.int64),
        bits,
    )


def _coordinates(column: Column, reach: float, spacing: str, bits: int, is_part: bool) -> np.ndarray:
    """Return the coordinate of each code."""
    if is_part and is_plain_number(column.attribute):
        return (reach * _shares(column, "position") * (2**bits - 1)).astype(np.int64)
    share, ranks = reach * _shares(column, spacing), np.arange(column.n_values)
    # The rank separates values that are too close for the grid.
    return (share * (2**bits - column.n_values)).astype(np.int64) + ranks


def _is_crowded(column: Column, coordinates: np.ndarray) -> bool:
    """Return True if a cell that several values share has so many rows that their order means little."""
    _, cell_of = np.unique(coordinates, return_inverse=True)
    shared = np.bincount(cell_of) > 1
    if not shared.any():
        return False
    rows = np.bincount(cell_of[column.codes], minlength=len(shared))
    return bool(rows[shared].max() > CROWDED * len(column.codes))


def least_telling_first(columns: Sequence[Column]) -> list[str]:
    """Return the names of columns by entropy, the lowest first."""
    order = np.argsort([_entropy(_rows_with(column)) for column in columns], kind="stable")
    return [columns[j].name for j in order]


def _reaches(geometry: Geometry) -> np.ndarray:
    """Return the share of its dimension that each attribute covers: with half of it, it is cut one level later.

    The share follows the weight. Besides hierarchies, the share of a number is halved: half of a range loses half, but
    half of the leaves of a hierarchy mostly lose everything. On Adult and the census the loss is 1 to 6 % lower.
    """
    reach = geometry.weight.copy()
    if (geometry.form == TREE).any():
        reach[geometry.form == LINE] /= 2
    return reach / reach.max() if reach.max() > 0 else reach


def _shares(column: Column, spacing: str) -> np.ndarray:
    """Return the positions of the values of an attribute, from 0 to 1, ascending."""
    n, n_present = column.n_values, column.n_present
    if spacing == "rank" or (column.tree is not None and spacing == "position"):
        return np.arange(n) / max(n - 1, 1)
    if column.tree is not None:
        counts = _rows_with(column)
        room = (1 - EVENLY) * counts / counts.sum() + EVENLY / n
        middle = np.cumsum(room) - room / 2
        return (middle - middle[0]) / (middle[-1] - middle[0] if n > 1 else 1.0)
    share = np.ones(n)
    share[:n_present] = (column.positions[:n_present] - column.positions[0]) / column.width if column.width > 0 else 0.0
    if column.missing >= 0:
        # The missing value is as far from the highest as the lowest one is.
        share[:n_present] /= 2
    return share


def _rows_with(column: Column) -> np.ndarray:
    """Return the frequency of each code, in the whole table if it is known."""
    return np.bincount(column.codes, minlength=column.n_values) if column.shares is None else column.shares


def _entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def keys_of(words: np.ndarray, grid: Grid, n_threads: int) -> np.ndarray:
    """Return the position of each packed row on the curve: uint64 (n, words of a key), compared word by word."""
    keys = np.empty((len(words), -(-len(grid.n_values) * grid.bits // 64)), np.uint64)

    def fill(start: int, stop: int) -> None:
        curve.fill_keys(
            words, grid.layout, grid.dimensions, grid.coordinate, grid.coordinate_at, grid.bits, start, stop, keys
        )

    in_parts(fill, np.linspace(0, len(words), n_threads + 1).astype(np.int64), n_threads)
    return keys


def sort_rows(keys: np.ndarray, order: np.ndarray, n_threads: int) -> np.ndarray:
    """Return the rows along the curve, equal ones in their original order; ``order`` is overwritten."""
    starts = curve.part_by_first_digit(keys, order)
    wanted = np.linspace(0, len(order), 8 * n_threads + 1)
    bounds = np.unique(starts[np.searchsorted(starts, wanted)])
    in_parts(lambda start, stop: curve.sort_by_key(keys, order, start, stop), bounds, n_threads)
    return order


def in_parts(function: Callable[[int, int], None], bounds: np.ndarray, n_threads: int) -> None:
    """Apply a function to the parts between bounds, in several threads."""
    parts = pairwise(bounds.tolist())
    if n_threads == 1:
        for part in parts:
            function(*part)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for done in [pool.submit(function, *part) for part in parts]:
            done.result()


class Halving:
    """Splits of rows by the curve: at the first bit in which their keys differ.

    All rows whose keys have the same first bits lie in a box, and the next bit is the half of it in which a row lies,
    along one attribute. Therefore a single attribute separates the rows before and after a cut of the curve.
    """

    def __init__(self, table: Table, grid: Grid) -> None:
        rows = pack_rows(table)
        self._grid, self._codes = grid, [column.codes for column in table.quasi]
        self._keys = keys_of(rows.words, grid, 1)

    def __call__(self, rows: np.ndarray) -> tuple[int, np.ndarray] | None:
        """Return an attribute and a mask of its codes before the cut; None if all keys of these rows are equal."""
        first = self._keys[rows[0]]
        place = first_difference(first, np.bitwise_or.reduce(self._keys[rows] ^ first, axis=0) ^ first)
        if place is None:
            return None
        level = self._grid.bits - 1 - place // len(self._codes)
        cell = [self._coordinates(j)[codes[rows[0]]] for j, codes in enumerate(self._codes)]
        attribute = self._attribute_at(cell, place, level)
        bound = (int(cell[attribute]) >> level | 1) << level
        is_above = self._coordinates(attribute) >= np.uint64(bound)
        comes_first = not (int(first[place // 64]) >> (63 - place % 64)) & 1
        return attribute, is_above == ((int(cell[attribute]) >= bound) == comes_first)

    def _coordinates(self, attribute: int) -> np.ndarray:
        start = self._grid.coordinate_at[attribute]
        return self._grid.coordinate[start : start + self._grid.n_values[attribute]]

    def _attribute_at(self, cell: Sequence[int], place: int, level: int) -> int:
        """Return the attribute of a bit of the key: in its other half, this bit is the first that differs."""
        n = len(cell)
        cells = np.array([cell] * (n + 1), np.uint64)
        cells[np.arange(n), np.arange(n)] ^= np.uint64(1 << level)
        keys = keys_of_cells(cells, self._grid)
        return next(j for j in range(n) if first_difference(keys[n], keys[j]) == place)


def keys_of_cells(cells: np.ndarray, grid: Grid) -> np.ndarray:
    """Return the positions on the curve of cells (n, attributes), given their coordinates."""
    n, d = cells.shape
    # Row i has code i in every attribute, with the coordinates of the cells.
    layout = Layout(np.zeros(d, np.int64), np.zeros(d, np.uint64), np.full(d, 2**64 - 1, np.uint64))
    keys = np.empty((n, -(-d * grid.bits // 64)), np.uint64)
    words, starts = np.arange(n, dtype=np.uint64)[:, None], np.arange(d, dtype=np.int64) * n
    curve.fill_keys(words, layout, grid.dimensions, cells.T.ravel(), starts, grid.bits, 0, n, keys)
    return keys


def first_difference(key: np.ndarray, other: np.ndarray) -> int | None:
    """Return the first bit in which two keys differ, counted from the highest; None if they are equal."""
    for word, differ in enumerate((key ^ other).tolist()):
        if differ:
            return 64 * (word + 1) - int(differ).bit_length()
    return None
