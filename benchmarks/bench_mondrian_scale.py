"""Mondrian on a synthetic census of up to ten million rows, beside numpy's lexsort of the same columns."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import numpy as np
from _measure import peak_memory, seconds, show

from shoal import KAnonymity, Mondrian, Schema, check
from shoal.data.table import encode
from shoal.datasets import make_census
from shoal.privacy.rules import make_guard

QUASI = ["age", "sex", "race", "marital-status", "education", "workclass", "occupation", "native-country"]
K = 10


def main(sizes: list[int]) -> None:
    rows = [measure(n) for n in sizes]
    for before, row in pairwise(rows):
        # Growth of the time over that of n log n; 1 is just that.
        n, m = before[0], row[0]
        expected = (m * math.log(m)) / (n * math.log(n))
        row[-1] = f"{row[2] / before[2] / expected:.2f}"
    show(
        f"Mondrian, {len(QUASI)} attributes, k = {K}: seconds; memory of partitioning by that of the encoded table",
        ["rows", "lexsort", "partition", "by lexsort", "frame to frame", "by lexsort", "memory", "check", "n log n"],
        rows,
    )


def measure(n: int) -> list:
    census = make_census(n, seed=0)
    names = [*QUASI, "condition"]
    frame, schema = census.frame.select(names), Schema([census.schema[name] for name in names])
    Mondrian(schema, K).fit_transform(frame.head(200_000))
    repeats = 3 if n <= 1_000_000 else 1
    lexsort, partition, memory = measure_kernel(frame, schema, repeats)
    released = Mondrian(schema, K).fit_transform(frame)
    whole = seconds(lambda: Mondrian(schema, K).fit_transform(frame), repeats)
    check(released.head(1000), schema)
    checked = seconds(lambda: check(released, schema, [KAnonymity(K)]), repeats)
    ratios = [f"{partition / lexsort:.1f}x", f"{whole / lexsort:.1f}x"]
    return [n, lexsort, partition, ratios[0], whole, ratios[1], f"{memory:.1f}x", checked, ""]


def measure_kernel(frame, schema: Schema, repeats: int) -> tuple[float, float, float]:
    """Seconds of lexsort and of partitioning, and memory of the latter by that of the encoded table."""
    table = encode(frame, schema)
    columns = [np.ascontiguousarray(column.codes) for column in table.quasi]
    encoded = sum(column.nbytes for column in columns)
    guard = make_guard([KAnonymity(K)], table)

    def partition() -> None:
        Mondrian(schema, K)._partition(table, guard, K, None)

    return seconds(lambda: np.lexsort(columns), repeats), seconds(partition, repeats), peak_memory(partition) / encoded


if __name__ == "__main__":
    main([int(float(size)) for size in sys.argv[1:]] or [100_000, 1_000_000, 10_000_000])
