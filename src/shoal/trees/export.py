"""Export of a tree as text or as a graph, with marks on its sensitive splits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from shoal._kernels import tree_use as kernel
from shoal.errors import ShoalError
from shoal.trees._base import PrivacyTrees
from shoal.trees._features import Names
from shoal.trees._grown import Tree

MOST_NAMES = 5
"""Maximum number of values to list of a split on nominal values."""


class SplitQuestion(NamedTuple):
    """The conditions of the two branches of a split."""

    yes: str
    no: str
    sensitivity: float


def export_text(model: PrivacyTrees, *, tree: int = 0, decimals: int = 2, max_depth: int | None = None) -> str:
    """Return the rules of a tree, indented; an exclamation mark and the weight mark splits on sensitive features.

    Parameters
    ----------
    model : PrivacyTreeClassifier or a similar model
        The fitted model.
    tree : int
        Number of the tree in an ensemble.
    decimals : int
        Number of decimal places.
    max_depth : int, optional
        Deeper nodes are omitted.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal import PrivacyTreeClassifier
    >>> from shoal.trees import export_text
    >>> X, y = np.arange(8.0).reshape(-1, 1), np.repeat([0, 1], 4)
    >>> print(export_text(PrivacyTreeClassifier(sensitivity={0: 0.5}).fit(X, y)))
    |--- feature 0 <= 3.50  (! 0.5)
    |   |--- class: 0
    |--- feature 0 > 3.50  (! 0.5)
    |   |--- class: 1
    """
    grown = _tree_of(model, tree)

    def lines(node: int, depth: int) -> Iterator[str]:
        bar = "|   " * depth + "|--- "
        if grown.children_left[node] < 0:
            yield bar + _answer(model, grown, node, decimals)
        elif max_depth is not None and depth >= max_depth:
            yield f"{bar}... ({int(_below(grown, node))} nodes)"
        else:
            asked = _question(model, grown, node, decimals)
            mark = f"  (! {asked.sensitivity:g})" if asked.sensitivity > 0 else ""
            for way, child in ((asked.yes, 0), (asked.no, 1)):
                yield bar + way + mark
                yield from lines(int(grown.children_left[node]) + child, depth + 1)

    return "\n".join(lines(0, 0))


def export_dot(model: PrivacyTrees, *, tree: int = 0, decimals: int = 2, max_depth: int | None = None) -> str:
    r"""Return a tree as a graph in the DOT language, with splits on sensitive features in red.

    Parameters are those of :func:`export_text`.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal import PrivacyTreeClassifier
    >>> from shoal.trees import export_dot
    >>> X, y = np.arange(8.0).reshape(-1, 1), np.repeat([0, 1], 4)
    >>> print(export_dot(PrivacyTreeClassifier().fit(X, y)))
    digraph tree {
    node [shape=box, style="rounded, filled", fillcolor="#ffffff", fontname="sans-serif"];
    0 [label="feature 0 <= 3.50\n8 rows, impurity 0.50"];
    0 -> 1 [label="yes"];
    0 -> 2 [label="no"];
    1 [label="class: 0\n4 rows, impurity 0.00"];
    2 [label="class: 1\n4 rows, impurity 0.00"];
    }
    """
    grown = _tree_of(model, tree)
    lines = ["digraph tree {", 'node [shape=box, style="rounded, filled", fillcolor="#ffffff", fontname="sans-serif"];']
    for node in range(grown.node_count):
        depth = int(grown.depth[node])
        if max_depth is not None and depth > max_depth:
            continue
        rows = f"{grown.n_node_samples[node]:,} rows, impurity {grown.impurity[node]:.{decimals}f}"
        if grown.children_left[node] < 0 or depth == max_depth:
            lines.append(f'{node} [label="{_quoted(_answer(model, grown, node, decimals))}\\n{rows}"];')
            continue
        asked = _question(model, grown, node, decimals)
        color = "" if asked.sensitivity == 0 else f', fillcolor="{_red(asked.sensitivity)}"'
        lines.append(f'{node} [label="{_quoted(asked.yes)}\\n{rows}"{color}];')
        left = int(grown.children_left[node])
        lines += [f'{node} -> {left} [label="yes"];', f'{node} -> {left + 1} [label="no"];']
    return "\n".join([*lines, "}"])


def _tree_of(model: PrivacyTrees, number: int) -> Tree:
    check_is_fitted(model, "sensitivity_")
    trees = model.weighted_trees()
    if not 0 <= number < len(trees):
        raise ShoalError(f"There is no tree {number}: the model has {len(trees)}, numbered from 0.")
    return trees[number][1]


def _question(model: PrivacyTrees, tree: Tree, node: int, decimals: int) -> SplitQuestion:
    j = int(tree.feature[node])
    name = str(model.feature_names_in_[j]) if hasattr(model, "feature_names_in_") else f"feature {j}"
    feature, sensitivity = model._features[j], float(model.sensitivity_[j])
    if isinstance(feature, Names):
        listed = _listed(_names_left(feature, tree.branches.side[node]))
        return SplitQuestion(f"{name} in {listed}", f"{name} not in {listed}", sensitivity)
    threshold = f"{tree.threshold[node]:.{decimals}f}"
    left = bool(tree.branches.nodes["marks"][node] & kernel.MISSING_LEFT)
    # Missing values are only mentioned if the feature had some.
    yes, no = (" or missing" if model._saw_missing[j] and goes else "" for goes in (left, not left))
    return SplitQuestion(f"{name} <= {threshold}{yes}", f"{name} > {threshold}{no}", sensitivity)


def _names_left(feature: Names, side: np.ndarray) -> list[str]:
    """Return the values that go left, including missing ones."""
    codes = np.arange(feature.n_bins - 1)
    left = (side[codes >> 6] >> (codes & 63).astype(np.uint64)) & np.uint64(1)
    labels = [*(str(value) for value in feature.values), "(missing)"]
    if feature.rare:
        labels[len(feature.values) - 1] = f"({len(feature.rare)} rare ones)"
    return [label for label, goes in zip(labels, left, strict=True) if goes]


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return "{" + shown + (f" and {more} more" if more > 0 else "") + "}"


def _answer(model: PrivacyTrees, tree: Tree, node: int, decimals: int) -> str:
    value = tree.value[node]
    classes: Any = getattr(model, "classes_", None)
    if classes is not None:
        return f"class: {classes[value.argmax()]}"
    return "value: " + ", ".join(f"{one:.{decimals}f}" for one in value)


def _below(tree: Tree, node: int) -> int:
    """Return the number of nodes below a node."""
    return int(tree._paths[:, [node]].sum()) - 1


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _red(sensitivity: float) -> str:
    """Return a color between white and red."""
    rest = round(255 - 120 * sensitivity)
    return f"#ff{rest:02x}{rest:02x}"
