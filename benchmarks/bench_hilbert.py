"""HilbertCurve on a synthetic census of up to ten million rows, beside Mondrian and numpy's lexsort in the same run."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
from _measure import in_turn, peak_memory, show

from shoal import HilbertCurve, KAnonymity, LDiversity, Mondrian, Schema
from shoal.anonymizers import hilbert
from shoal.data.table import Table, encode
from shoal.datasets import make_census
from shoal.partition.losses import ncp
from shoal.privacy.rules import make_guard

QUASI = ["age", "sex", "race", "marital-status", "education", "workclass", "occupation", "native-country"]


def main(sizes: list[int]) -> None:
    rows, few_places = [], []
    for n in sizes:
        schema, table = encoded_census(n)
        rows += [[n, k, *measure(schema, table, k)] for k in ((10, 100, 1000) if n <= 1_000_000 else (10,))]
        if n <= 100_000:
            few_places += [[n, k, *compare_places(schema, table, k)] for k in (50, 100, 1000)]
    show(
        f"Partitioning by {len(QUASI)} attributes, best CPU seconds in turn; memory by that of the encoded table",
        ["rows", "k", "lexsort", "mondrian", "hilbert", "by mondrian", "memory", "with l = 3", "NCP", "mondrian's"],
        rows,
    )
    show("One place in k / 32 rows beside all", ["rows", "k", "s", "s of all", "NCP", "NCP of all"], few_places)


def encoded_census(n: int) -> tuple[Schema, Table]:
    names = [*QUASI, "condition"]
    census = make_census(n, seed=0)
    schema = Schema([census.schema[name] for name in names])
    return schema, encode(census.frame.select(names), schema)


def measure(schema: Schema, table: Table, k: int) -> list:
    columns = [np.ascontiguousarray(column.codes) for column in table.quasi]
    mondrian = partial(partition, Mondrian(schema, k), table, [KAnonymity(k)])
    ours = partial(partition, HilbertCurve(schema, k), table, [KAnonymity(k)])
    diverse = partial(partition, HilbertCurve(schema, k), table, [KAnonymity(k), LDiversity(3)])
    labels, others = ours(), mondrian()
    diverse()
    seconds = in_turn([partial(np.lexsort, columns), mondrian, ours, diverse], 3 if table.n_rows <= 1_000_000 else 1)
    memory = peak_memory(ours) / sum(column.nbytes for column in columns)
    ratio = f"{seconds[2] / seconds[1]:.2f}x"
    return [*seconds[:3], ratio, f"{memory:.1f}x", seconds[3], f"{ncp(table, labels):.4f}", f"{ncp(table, others):.4f}"]


def compare_places(schema: Schema, table: Table, k: int) -> list:
    """Seconds and NCP with few places for cuts, and with all."""
    found = []
    budget = hilbert.EXACT_STEPS
    for steps in (0, table.n_rows * k):
        hilbert.EXACT_STEPS = steps
        ours = partial(partition, HilbertCurve(schema, k), table, [KAnonymity(k)])
        found.append((in_turn([ours], 1)[0], f"{ncp(table, ours()):.4f}"))
    hilbert.EXACT_STEPS = budget
    return [value for pair in zip(*found, strict=True) for value in pair]


def partition(anonymizer, table: Table, constraints) -> np.ndarray:
    return anonymizer._partition(table, make_guard(constraints, table), constraints[0].k, None)


if __name__ == "__main__":
    main([int(float(size)) for size in sys.argv[1:]] or [100_000, 1_000_000, 10_000_000])
