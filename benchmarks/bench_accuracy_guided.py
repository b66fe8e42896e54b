"""Accuracy-guided anonymization beside IBM's ai-privacy-toolkit and scikit-learn's tree, and up to five million rows.

The labels are the incomes themselves, so that no model has to be trained. ``python bench_accuracy_guided.py peer growth
tree`` chooses among the three tables; all of them are the default, and take ten minutes, nearly all of it the
toolkit's. The toolkit runs in an environment of its own, which is made in ``.peer-toolkit`` from toolkit.txt where it
is missing; ``SHOAL_TOOLKIT_PYTHON`` names the interpreter of another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from _measure import in_turn, peak_arrays, peak_memory, seconds, show
from _peer import peer_python
from sklearn.tree import DecisionTreeClassifier

from shoal import AccuracyGuided, Schema
from shoal.data.table import encode
from shoal.datasets import fetch_adult, make_census
from shoal.partition.binned_trees import bin_codes, grow_tree, learn_classes, make_bins

HERE = Path(__file__).parent


def main(tables: list[str]) -> None:
    for name in tables:
        {"peer": beside_toolkit, "growth": growth, "tree": beside_trees}[name]()


def beside_toolkit() -> None:
    python = peer_python("toolkit", "--no-deps")
    rows = []
    for k in (10, 100):
        for n in (5_000, 10_000, 20_000, 40_000, 48_842, 100_000):
            frame, schema, y = adult(n)
            ours = measure(frame, schema, y, k, 5)
            theirs = toolkit(python, frame, schema, y, k)
            ratio = f"{theirs['seconds'] / ours:,.0f}x"
            array = n * (2 * theirs["groups"] - 1) * 8  # rows x nodes; most of it is zeros that are never touched
            rows.append([k, n, ours, theirs["seconds"], ratio, theirs["groups"], array / 1e9, theirs["memory"] / 1e9])
    show(
        "Adult, 12 attributes (100,000 rows: drawn with replacement), CPU seconds from frame to released frame; "
        "the toolkit's array\nof rows x nodes as it asks for it, and its memory in use (200,000 rows at k = 10 are "
        "left out: an array of 16 GB)",
        ["k", "rows", "shoal s", "toolkit s", "faster", "its groups", "array GB", "in use GB"],
        rows,
    )


def growth(k: int = 10) -> None:
    rows = []
    for n in (48_842, 200_000, 1_000_000, 5_000_000):
        frame, schema, y = census(n)
        encoded = sum(column.codes.nbytes for column in encode(frame, schema).quasi)
        warm_up(frame, schema, y, k)
        run = partial(whole, frame, schema, y, k)
        memory, arrays = peak_memory(run), peak_arrays(run)
        repeats = 3 if n <= 1_000_000 else 1
        cpu = measure(frame, schema, y, k, repeats)
        wall = measure(frame, schema, y, k, repeats, cpu=False)
        rows.append([n, wall, cpu, cpu / n * 1e6, f"{arrays / encoded:.1f}x", f"{memory / encoded:.1f}x"])
    show(
        f"Synthetic census, {len(schema.quasi)} attributes, k = {k}: from frame to released frame; "
        "peak memory of arrays by that of the encoded table\n(bar: 6), and of the process, in which a small table is "
        "less than what is loaded beside it",
        ["rows", "seconds", "CPU s", "CPU s a million", "arrays", "process"],
        rows,
    )


def beside_trees() -> None:
    rows = []
    for n in (48_842, 400_000):
        frame, schema, y = adult(n)
        table = encode(frame, schema)
        ordinal = table.codes.astype(np.float32)
        matrices = [ordinal, one_hot(table)] if n < 100_000 else [ordinal]
        for k in (10, 100):
            warm_up(frame, schema, y, k)
            tree_alone(table, y, k)
            competitors = [partial(whole, frame, schema, y, k), partial(tree_alone, table, y, k)]
            competitors += [partial(fit_tree, matrix, y, k) for matrix in matrices]
            ours, alone, *peers = in_turn(competitors, 10 if n < 100_000 else 2)
            ratios = [f"{peer / mine:.1f}x" for peer in peers for mine in (ours, alone)]
            rows.append([k, n, ours, alone, peers[0], *ratios[:2], *(peers[1:] or ["-"]), *(ratios[2:] or ["-", "-"])])
    show(
        "Adult, 12 attributes (400,000 rows: drawn with replacement), CPU seconds of ours, whole and its tree alone, "
        "and of fitting\nscikit-learn's tree to ordinal codes and to a one-hot matrix; how many times as long as ours",
        ["k", "rows", "shoal", "its tree", "ordinal", "by whole", "by tree", "one-hot", "by whole", "by tree"],
        rows,
    )


def tree_alone(table, y: np.ndarray, k: int) -> None:
    """Grow shoal's tree on an encoded table: no encoding, no representatives, no frame."""
    binning = make_bins(table.quasi)
    bins = bin_codes(binning, [column.codes for column in table.quasi])
    grow_tree(binning, bins, learn_classes(y, 2, "gini"), k)


def measure(frame, schema: Schema, y: np.ndarray, k: int, repeats: int, *, cpu: bool = True) -> float:
    """Seconds from frame to released frame, once everything is compiled."""
    warm_up(frame, schema, y, k)
    return seconds(lambda: whole(frame, schema, y, k), repeats, cpu=cpu)


def whole(frame, schema: Schema, y: np.ndarray, k: int) -> None:
    AccuracyGuided(schema, k, guide="hard").fit_transform(frame, y)


def warm_up(frame, schema: Schema, y: np.ndarray, k: int) -> None:
    whole(frame.head(2000), schema, y[:2000], k)


def fit_tree(matrix: np.ndarray, y: np.ndarray, k: int) -> None:
    DecisionTreeClassifier(min_samples_leaf=k, random_state=0).fit(matrix, y)


def one_hot(table) -> np.ndarray:
    """Numbers and dates as codes, every value of a nominal attribute as a column."""
    parts = [
        np.eye(column.n_values, dtype=np.float32)[column.codes]
        if column.attribute.kind == "nominal"
        else column.codes[:, None].astype(np.float32)
        for column in table.quasi
    ]
    return np.hstack(parts)


def adult(n: int):
    """The first n rows, or as many drawn with replacement: their quasi-identifiers, a schema, and labels."""
    frame, schema = fetch_adult("all", quasi=12, hierarchies=None)
    if n > len(frame):
        frame = frame[np.random.default_rng(0).integers(0, len(frame), n)]
    return quasi_and_labels(frame.head(n), schema)


def census(n: int):
    return quasi_and_labels(*make_census(n, seed=0))


def quasi_and_labels(frame, schema: Schema):
    labels = (frame["income"] == ">50K").to_numpy().astype(int)
    return frame.select([a.name for a in schema.quasi]), Schema(schema.quasi), labels


def toolkit(python: str, frame, schema: Schema, y: np.ndarray, k: int) -> dict:
    """Run the toolkit: its CPU seconds, peak memory in bytes and number of groups."""
    nominal = [a.name for a in schema if a.kind == "nominal"]
    columns = {f"column {name}": frame[name].to_numpy() for name in frame.columns}
    columns |= {f"column {name}": frame[name].fill_null("?").to_numpy().astype(str) for name in nominal}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.npz"
        np.savez(path, names=np.array(frame.columns), categorical=np.array(nominal), y=y, **columns)
        command = [python, str(HERE / "_toolkit_peer.py"), str(path), str(k)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


if __name__ == "__main__":
    main(sys.argv[1:] or ["peer", "growth", "tree"])
