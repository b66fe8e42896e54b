"""The R+ tree beside Mondrian on a synthetic census, and what a batch costs in tables of different sizes."""

from __future__ import annotations

import sys

import numpy as np
from _measure import in_turn, seconds, show

from shoal import KAnonymity, Mondrian, RPlusTree, Schema
from shoal.data.table import encode
from shoal.datasets import make_census
from shoal.partition.losses import ncp
from shoal.privacy.rules import make_guard

QUASI = ["age", "sex", "race", "marital-status", "education", "workclass", "occupation", "native-country"]
K = 10
BATCHES = [1, 100, 10_000]


def main(sizes: list[int]) -> None:
    bulk, batches = [], []
    for n in sizes:
        frame, schema = census(n, 0)
        for method in (Mondrian, RPlusTree):
            method(schema, K).fit_transform(frame.head(200_000))
        bulk.append(measure_bulk(frame, schema))
        batches += measure_batches(frame, schema)
    show(
        f"Bulk load, {len(QUASI)} attributes, k = {K}: CPU seconds",
        ["rows", "Mondrian", "R+", "ratio", "Mondrian, frames", "R+, frames", "ratio", "NCP", "NCP R+"],
        bulk,
    )
    show(
        "A batch: milliseconds of CPU (the first batch also sets up what later ones need), and rows that take part",
        ["rows", "batch", "insert", "delete", "by row", "released anew", "first batch"],
        batches,
    )


def census(n: int, seed: int):
    made = make_census(n, seed=seed)
    names = [*QUASI, "condition"]
    return made.frame.select(names), Schema([made.schema[name] for name in names])


def measure_bulk(frame, schema: Schema) -> list:
    table = encode(frame, schema)
    guard = make_guard([KAnonymity(K)], table)
    repeats = 3 if len(frame) <= 1_000_000 else 1

    def partition(method):
        return method(schema, K)._partition(table, guard, K, None)

    methods = (Mondrian, RPlusTree)
    losses = [ncp(table, partition(method)) for method in methods]
    times = in_turn([lambda method=method: partition(method) for method in methods], repeats)
    whole = in_turn([lambda method=method: method(schema, K).fit_transform(frame) for method in methods], repeats)
    ratios = [f"{times[1] / times[0]:.2f}x", f"{whole[1] / whole[0]:.2f}x"]
    return [len(frame), *times, ratios[0], *whole, ratios[1], *losses]


def measure_batches(frame, schema: Schema) -> list[list]:
    tree = RPlusTree(schema, K).fit(frame)
    newcomers, _ = census(5 * sum(BATCHES) + 1, 1)
    first = 1e3 * seconds(lambda: tree.insert(newcomers.head(1)), 1, cpu=True)
    random, rows, at = np.random.default_rng(0), [], 1
    for size in BATCHES:
        inserts, deletes, changed = [], [], []
        for _ in range(5):
            batch = newcomers[at : at + size]
            at += size
            chosen = random.choice(len(frame), size, replace=False)
            gone = chosen[np.isin(chosen, tree.row_ids_)] if size > 1 else tree.row_ids_[chosen % 1000]
            inserts.append(seconds(lambda batch=batch: tree.insert(batch), 1, cpu=True))
            deltas = []
            deletes.append(seconds(lambda gone=gone, deltas=deltas: deltas.append(tree.delete(gone)), 1, cpu=True))
            changed.append(len(deltas[0].changed))
        insert, delete = 1e3 * np.median(inserts), 1e3 * np.median(deletes)
        per_row = (insert + delete) / 2 / size
        rows.append([len(frame), size, float(insert), float(delete), float(per_row), int(np.median(changed)), first])
    return rows


if __name__ == "__main__":
    main([int(float(size)) for size in sys.argv[1:]] or [100_000, 1_000_000, 10_000_000])
