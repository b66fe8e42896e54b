"""Cleaning queries beside the two matrix products that any projection needs, and beside the algorithm as printed.

The printed form has all eigenvectors and sorts them for every row. ``python bench_cleaners.py 100000`` takes fewer
rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from _measure import peak_arrays, show

from shoal import NullSpaceCleaner, TargetedNullSpaceCleaner

N_FEATURES = 294
EPSILON = 0.01


def main(n_rows: int) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, N_FEATURES))
    rows = []
    for rank in (1, 5):
        matrix = random.normal(size=(N_FEATURES, rank)) / 10
        secret = random.normal(size=(N_FEATURES, 2))
        cleaners = {
            "knapsack": NullSpaceCleaner(matrix, EPSILON).fit(X[:1000]),
            "energy": NullSpaceCleaner(matrix, EPSILON, mode="energy").fit(X[:1000]),
            "exact": NullSpaceCleaner(matrix, mode="exact").fit(X[:1000]),
            "targeted": TargetedNullSpaceCleaner(matrix, secret, EPSILON).fit(X[:1000]),
        }
        cleaners["knapsack"].transform(X[:10])
        some = X[: max(n_rows // 20, 1)]
        printed = best(partial(literally, some, matrix), 1) * len(X) / len(some)
        for name, cleaner in cleaners.items():
            rows.append([rank, name, *compare(X, cleaner, printed)])
    show(
        f"{n_rows:,} rows x {N_FEATURES} features, seconds; ours by two products (bar: 2.5), the printed form by ours "
        "(bar: 10; a\ntwentieth of the rows, times twenty), one row after fit, and memory beyond the cleaned rows",
        ["rank", "mode", "products", "shoal", "ratio", "printed by ours", "one row, us", "memory, MB"],
        rows,
    )


def compare(X: np.ndarray, cleaner, printed: float) -> list:
    # In turn, so that what slows the machine for a while slows both.
    times = [(best(lambda: products(X, cleaner), 1), best(lambda: cleaner.transform(X), 1)) for _ in range(4)]
    base, ours = (min(column) for column in zip(*times, strict=True))
    one = best(lambda: [cleaner.transform(X[:1]) for _ in range(200)], 3) / 200
    memory = (peak_arrays(lambda: cleaner.transform(X)) - X.nbytes) / 1e6
    return [base, ours, f"{ours / base:.2f}", f"{printed / ours:.0f}x", one * 1e6, memory]


def products(X: np.ndarray, cleaner) -> np.ndarray:
    basis = cleaner._view.basis
    return (X @ basis) @ basis.T


def literally(X: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Figure 2 of the paper for many rows: the full basis, and a sort for each row."""
    values, vectors = np.linalg.eigh(matrix @ matrix.T)
    values = np.where(values > values.max() * 1e-12, values, 0.0)
    own = X @ vectors
    costs = values * own**2
    order = np.argsort(costs, axis=1)
    ordered = np.take_along_axis(costs, order, 1)
    left = np.maximum(EPSILON - (np.cumsum(ordered, axis=1) - ordered), 0)
    shares = np.sqrt(np.clip(left / np.maximum(ordered, 1e-300), 0, 1))
    taken = np.empty_like(shares)
    np.put_along_axis(taken, order, shares, 1)
    return X - (taken * own) @ vectors.T


def best(function: Callable[[], object], repeats: int) -> float:
    runs = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        runs.append(time.perf_counter() - start)
    return min(runs)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
