"""Make toolkit_groups.json: groups and released values of ai-privacy-toolkit 0.2.1 on small tables.

Run it in the toolkit's own environment (see benchmarks/toolkit.txt), from the root of the repository::

    .peer-toolkit/bin/python tests/golden/make_toolkit_groups.py

The toolkit fits a scikit-learn tree with at least k rows a leaf (nominal columns one-hot), and releases for the rows of
a leaf, column by column, the value nearest to the median, or the most frequent one; ties go to the value that comes
first in the order of the rows. A table is kept only if no tie decided the tree: at every inner node the split gains
something and is ahead of every other division of its rows by more than rounding can hide, and the tree is the same
whatever the order in which scikit-learn tries the columns (its random state). So any exact tree must find these groups.

Each case has ``k``, the ``columns`` with their values, the names of the ``nominal`` ones and of those that are
``quasi``, the ``labels``, the group of each row in ``groups`` (numbered as they first occur), and in ``released`` the
values of the quasi-identifiers for each group. The toolkit learns from the quasi-identifiers only
(``train_only_QI=True``) wherever there are other columns, which it leaves as they are. That option takes columns of the
one-hot matrix by their numbers in the table, and so takes wrong ones, unless all columns are numbers, or the
quasi-identifiers come first in the table and only the last of them is nominal, with two values.
"""

from __future__ import annotations

import json
import sys
import warnings
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
WORDS = ("amber", "birch", "coral", "denim", "ebony", "fern", "gold", "hazel", "indigo")
RANDOM_STATES = (10, 0, 1, 2, 3, 4, 5, 6, 7, 8)
"""The first is the toolkit's own."""
MARGIN = 1e-9
"""How far, relative to its own score, a split must be ahead: far more than float64 can round."""


class Recipe(NamedTuple):
    """How a table is drawn."""

    n: int
    k: int
    classes: int
    columns: tuple[float, ...]
    """The number of values of each, negative for nominal ones; 0.25 gives up to 199 values in steps of a quarter."""
    quasi: tuple[int, ...] = ()
    """Columns that are quasi-identifiers; all if none is named."""


CASES = {
    "binary, k = 5": Recipe(200, 5, 2, (12, 60, -3, -5)),
    "three classes, k = 5": Recipe(300, 5, 3, (200, 7, -2, -4, 0.25)),
    "binary, k = 10": Recipe(600, 10, 2, (90, 9, -6, 200, -2)),
    "three classes, k = 10": Recipe(800, 10, 3, (-9, 40, -3, 150, 5)),
    "binary, k = 50": Recipe(2000, 50, 2, (75, -8, 200, -2, 0.25, -5)),
    "three classes, k = 50": Recipe(1800, 50, 3, (100, 16, -7, -3)),
    "numbers only, two of four quasi": Recipe(500, 10, 2, (50, 9, 200, 30), quasi=(1, 2)),
    "four of six quasi, the last a nominal pair": Recipe(500, 10, 3, (40, 150, 8, -2, -5, 25), quasi=(0, 1, 2, 3)),
}


def main() -> None:
    cases = {}
    for number, (name, recipe) in enumerate(CASES.items()):
        for seed in count():
            case = make_case(np.random.default_rng([number, seed]), recipe)
            if case is not None:
                break
        print(f"{name}: seed {seed}, {len(case['released'])} groups of {case.pop('sizes')} rows")
        cases[name] = case
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(c, separators=(',', ':'))}" for name, c in cases.items())
    (HERE / "toolkit_groups.json").write_text("{\n" + lines + "\n}\n")


def make_case(rng: np.random.Generator, recipe: Recipe) -> dict[str, Any] | None:
    """Draw a table and run the toolkit on it; None if ties decide."""
    n, k = recipe.n, recipe.k
    frame = pd.DataFrame({f"{'n' if v < 0 else 'x'}{j}": draw_column(rng, n, v) for j, v in enumerate(recipe.columns)})
    labels = draw_labels(rng, frame, recipe.classes)
    names = [frame.columns[j] for j in recipe.quasi] or list(frame)
    nominal = [name for name in frame if name.startswith("n")]
    released, tree = anonymize(frame, labels, k, names, nominal, RANDOM_STATES[0])
    leaves = pd.factorize(tree.apply(tree.rows))[0]
    if not splits_are_unique(tree, one_hot(frame[names], nominal), labels, k):
        return None
    for state in RANDOM_STATES[1:]:
        again, other = anonymize(frame, labels, k, names, nominal, state)
        if not again.equals(released) or (pd.factorize(other.apply(other.rows))[0] != leaves).any():
            return None
    groups = released[names].groupby(leaves)
    assert (groups.nunique() == 1).all(axis=None)
    assert (released.drop(columns=names).to_numpy() == frame.drop(columns=names).to_numpy()).all()
    sizes = np.bincount(leaves)
    return {
        "k": k,
        "columns": {name: frame[name].tolist() for name in frame},
        "nominal": nominal,
        "quasi": names,
        "labels": labels.tolist(),
        "groups": leaves.tolist(),
        "released": groups.first().astype(object).values.tolist(),
        "sizes": f"{sizes.min()} to {sizes.max()}",
    }


def draw_column(rng: np.random.Generator, n: int, values: float) -> np.ndarray:
    if values < 0:
        return rng.choice(WORDS[:-values], n, p=rng.dirichlet(np.full(-values, 5.0)))
    if values < 1:
        return np.clip(np.round(rng.normal(0, 6, n) / values), -99, 99) * values
    return np.minimum(rng.integers(0, values, n), rng.integers(0, 2 * values, n))  # low values are more frequent


def draw_labels(rng: np.random.Generator, frame: pd.DataFrame, classes: int) -> np.ndarray:
    """Labels drawn from probabilities that depend on all columns, and on pairs of them."""
    ranks = np.column_stack([pd.factorize(frame[name], sort=True)[0] for name in frame])
    x = (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)
    alone, paired = (rng.normal(0, scale, (x.shape[1], classes)) for scale in (2, 1))
    scores = x @ alone + (x * np.roll(x, 1, axis=1)) @ paired
    return (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def anonymize(frame: pd.DataFrame, labels: np.ndarray, k: int, quasi: list, nominal: list, state: int):
    """The toolkit's release and its tree, grown with another random state and keeping the rows it was fitted to."""
    from _toolkit_peer import import_toolkit

    Anonymize, ArrayDataset = import_toolkit()
    from apt.anonymization import anonymizer as module
    from sklearn.tree import DecisionTreeClassifier

    class Tree(DecisionTreeClassifier):
        def fit(self, X, y):
            self.random_state, self.rows = state, X
            return super().fit(X, y)

    module.DecisionTreeClassifier = Tree
    only = len(quasi) < frame.shape[1]
    toolkit = Anonymize(k, quasi, categorical_features=nominal or None, train_only_QI=only)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        released = toolkit.anonymize(ArrayDataset(frame, labels))
    return released, toolkit._anonymizer


def one_hot(frame: pd.DataFrame, nominal: list) -> np.ndarray:
    parts = [
        frame[[name]].to_numpy() == np.unique(frame[name]) if name in nominal else frame[[name]].to_numpy()
        for name in frame
    ]
    return np.hstack(parts).astype(float)


def splits_are_unique(tree, x: np.ndarray, labels: np.ndarray, k: int) -> bool:
    """Whether each inner node's division of its rows gains something and is ahead of all others in x."""
    indicator = np.eye(labels.max() + 1)[labels]
    paths = tree.decision_path(tree.rows).toarray().astype(bool)
    for node, child in enumerate(tree.tree_.children_left):
        if child < 0:
            continue
        rows = paths[:, node]
        left, totals = paths[rows, child], indicator[rows].sum(axis=0)
        best = score(indicator[rows][left].sum(axis=0), totals)
        if best <= score(totals, totals) * (1 + MARGIN):
            return False
        for column in x[rows].T:
            order = np.argsort(column, kind="stable")
            below = indicator[rows][order].cumsum(axis=0)
            ends = np.flatnonzero(np.diff(column[order]))
            ends = ends[(ends + 1 >= k) & (ends + 1 <= len(order) - k)]
            for end in ends[score(below[ends], totals) >= best * (1 - MARGIN)]:
                side = column <= column[order[end]]
                if (side != left).any() and (side == left).any():
                    return False
    return True


def score(left: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """What a split by Gini impurity maximises: the sum of squared counts by the number of rows, of both sides."""
    right = totals - left
    return (left**2).sum(axis=-1) / left.sum(axis=-1) + (right**2).sum(axis=-1) / np.maximum(right.sum(axis=-1), 1)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))
    main()
