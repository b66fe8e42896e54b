"""SaNGreeA beside a scan of all rows at every step, compiled too, in the same run; and at 400,000 rows.

The scan is the algorithm as published. It gives the same clusters, which is checked. Both are timed without reading,
encoding and recoding; the last but one table tells what a whole release takes. The scan runs once for each k: all of
them together take two minutes.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from _measure import in_turn, seconds, show
from numba import njit

from shoal import Attribute, SaNGreeA, Schema
from shoal.clusters import Clustering, codes_of, measure_space
from shoal.datasets import fetch_adult
from shoal.table import Table, encode

QUASI = ["age", "workclass", "education-num", "marital-status", "occupation", "relationship", "race", "sex"]
QUASI += ["hours-per-week", "native-country"]


def main() -> None:
    adult = fetch_adult("train", drop_missing=True)
    schema = Schema([Attribute(n, kind=adult.schema[n].kind, hierarchy=adult.schema[n].hierarchy) for n in QUASI])
    frame = adult.frame.select(QUASI)
    table = encode(frame, schema)
    # Compile both on a few rows.
    few = encode(frame[:200], schema)
    assert np.array_equal(cluster(few, 3), scan(few, 3))
    rows = []
    for k in (3, 7, 19, 50, 100):
        scanned = {}
        ours = seconds(lambda k=k: cluster(table, k), 3, cpu=True)
        theirs = seconds(lambda k=k, scanned=scanned: scanned.update(labels=scan(table, k)), 1, cpu=True)
        same = np.array_equal(cluster(table, k), scanned["labels"])
        rows.append([k, ours, theirs, f"{theirs / ours:,.0f}x", "yes" if same else "NO"])
    show("Adult, 30,162 rows x 10 attributes, CPU seconds", ["k", "shoal", "scan", "faster", "same"], rows)

    many = encode(larger(frame, 400_000), schema)
    rows = []
    for k in (3, 10, 100):
        small, large = in_turn([lambda k=k: cluster(table, k), lambda k=k: cluster(many, k)], 2)
        rows.append([k, small, large, f"{large / small:,.1f}x"])
    show("Adult and 400,000 rows like it, CPU seconds", ["k", "30,162", "400,000", "times"], rows)

    rows = []
    for k in (3, 10, 100):
        whole = seconds(lambda k=k: SaNGreeA(schema, k).fit_transform(frame), 3, cpu=True)
        rows.append([k, whole])
    show("Adult, from frame to released frame, CPU seconds", ["k", "seconds"], rows)

    clustering = Clustering(table, 10)
    clustering.grown_from(0)
    one = seconds(lambda: [clustering.grown_from(row, weights={"age": 2.0}) for row in range(100)], 3, cpu=True) / 100
    show("One cluster of 10 rows from a given row, other weights", ["milliseconds"], [[1000 * one]])


def larger(frame: pl.DataFrame, n: int) -> pl.DataFrame:
    """Rows drawn from a table, each with one attribute of another row, so that most of them are new."""
    random = np.random.default_rng(0)
    rows, others = random.integers(0, len(frame), (2, n))
    swapped = random.integers(0, frame.width, n)
    columns = {}
    for j, name in enumerate(frame.columns):
        columns[name] = frame[name].gather(np.where(swapped == j, others, rows))
    return pl.DataFrame(columns)


def cluster(table: Table, k: int) -> np.ndarray:
    """The clusters, without leftovers."""
    clustering = Clustering(table, k)
    clustering._grow_all(None)
    return clustering.labels


def scan(table: Table, k: int) -> np.ndarray:
    """The same by looking at every row."""
    space = measure_space(table, np.ones(len(table.quasi)))
    labels = np.full(table.n_rows, -1, np.int64)
    scan_all(codes_of(table), space, k, labels)
    return labels


@njit(nogil=True)
def scan_all(codes, space, k, labels):
    line, weight, width, loss = space.line, space.weight, space.width, space.loss
    position, position_at = space.position, space.position_at
    first, last, parent, node_at = space.first, space.last, space.parent, space.node_at
    n, q = codes.shape
    low, high, node, cost = np.empty(q, np.int64), np.empty(q, np.int64), np.empty(q, np.int64), np.empty(q)
    left, n_clusters = n, 0
    for seed in range(n):
        if labels[seed] >= 0:
            continue
        if left < k:
            break
        labels[seed] = n_clusters
        for j in range(q):
            low[j] = high[j] = codes[seed, j]
            node[j], cost[j] = node_at[j] + codes[seed, j], 0.0
        for _ in range(k - 1):
            best, chosen = np.inf, -1
            for i in range(n):
                if labels[i] >= 0:
                    continue
                total = 0.0
                for j in range(q):
                    code = codes[i, j]
                    if low[j] <= code <= high[j]:
                        total += cost[j]
                    elif line[j] == 0:
                        above = node[j]
                        while code < first[above] or code > last[above]:
                            above = parent[above]
                        total += loss[above]
                    else:
                        at = position_at[j]
                        span = position[at + max(high[j], code)] - position[at + min(low[j], code)]
                        total += weight[j] * (span / width[j])
                if total < best:
                    best, chosen = total, i
            labels[chosen] = n_clusters
            for j in range(q):
                code = codes[chosen, j]
                low[j], high[j] = min(low[j], code), max(high[j], code)
                if line[j] == 0:
                    while code < first[node[j]] or code > last[node[j]]:
                        node[j] = parent[node[j]]
                    cost[j] = loss[node[j]]
                else:
                    at = position_at[j]
                    cost[j] = weight[j] * ((position[at + high[j]] - position[at + low[j]]) / width[j])
        left -= k
        n_clusters += 1


if __name__ == "__main__":
    main()
