"""SaNGreeA beside a scan of all rows at every step, compiled too, in the same run; and at 400,000 rows.

The scan is the algorithm as published. It gives the same clusters, which is checked. Both are timed without reading,
encoding and recoding; the last but one table tells what a whole release takes.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
from _measure import in_turn, seconds, show
from numba import njit

from shoal import Attribute, SaNGreeA, Schema
from shoal.data.table import Table, encode
from shoal.datasets import fetch_adult
from shoal.partition.clusters import Clustering, codes_of, measure_space

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
        competitors = [partial(cluster, table, k), lambda k=k, scanned=scanned: scanned.update(labels=scan(table, k))]
        ours, theirs = in_turn(competitors, 2)
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
    """Look at every row that is left at every step, as fast as that goes: one look into a table for each attribute."""
    n, q = codes.shape
    low, high, node = np.empty(q, np.int64), np.empty(q, np.int64), np.empty(q, np.int64)
    price = np.empty((q, space.n_values.max()))
    free = np.arange(n)
    n_free, n_clusters = n, 0
    while n_free >= k:
        chosen = free[0]
        for j in range(q):
            low[j] = high[j] = codes[chosen, j]
            node[j] = space.node_at[j] + codes[chosen, j]
            write_prices(space, j, low[j], high[j], node[j], price[j])
        for size in range(1, k + 1):
            labels[chosen] = n_clusters
            for j in range(q):
                code = codes[chosen, j]
                if code < low[j] or code > high[j]:
                    low[j], high[j] = min(low[j], code), max(high[j], code)
                    node[j] = node_over(space, j, node[j], code)
                    write_prices(space, j, low[j], high[j], node[j], price[j])
            best, n_kept = np.inf, 0
            for i in range(n_free):
                row = free[i]
                if labels[row] >= 0:
                    continue
                free[n_kept] = row
                n_kept += 1
                if size < k:
                    total = 0.0
                    for j in range(q):
                        total += price[j, codes[row, j]]
                    if total < best:
                        best, chosen = total, row
            n_free = n_kept
        n_clusters += 1


@njit(nogil=True)
def write_prices(space, j, low, high, node, price):
    """What a cluster that reaches from low to high would cost in one attribute, with each of its values."""
    at = space.position_at[j]
    for code in range(space.n_values[j]):
        if space.line[j] == 0:
            price[code] = space.loss[node_over(space, j, node, code)]
        else:
            span = space.position[at + max(high, code)] - space.position[at + min(low, code)]
            price[code] = space.weight[j] * (span / space.width[j]) if span > 0 else 0.0


@njit(nogil=True)
def node_over(space, j, node, code):
    """The lowest node over another one and a value."""
    if space.line[j] == 0:
        while code < space.first[node] or code > space.last[node]:
            node = space.parent[node]
    return node


if __name__ == "__main__":
    main()
