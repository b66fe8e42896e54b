"""Trees inside models and their wrappers: the leaves of rows, and faster answers of forests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import Pipeline

from shoal._kernels import groups
from shoal._kernels import tree_use as kernel
from shoal.attacks.answers import call
from shoal.models.estimators import ModelPipeline

Prepare = Callable[[Any], Any]
TOP_NODES = 15
"""Number of top nodes of each tree, which most rows pass: rows are sorted by the features that these test."""
SORTED_BY = 4
_NO_NAMES = np.zeros((1, 4), np.uint64)


class Trees(NamedTuple):
    """The trees of a model."""

    leaves: Callable[[Any], np.ndarray]
    """The leaf of each row in each tree (n, trees)."""
    shares: list[np.ndarray]
    """Share of the training rows in each node of each tree, times the weight of the tree."""


def find_trees(model: Any) -> Trees | None:
    """Return the trees of a tree, a forest or boosted trees, also in a pipeline or a search; None for other models."""
    prepare, inner = unwrap(model)
    found = _find_bare_trees(inner)
    return found and found._replace(leaves=lambda rows: found.leaves(prepare(rows)))


def unwrap(model: Any) -> tuple[Prepare, Any]:
    """Return the preparation of rows by a pipeline, a search or a protected model, and the model inside it."""
    if isinstance(model, Pipeline):
        steps = model[:-1].transform if len(model.steps) > 1 else _as_they_are
        return _behind(steps, model[-1])
    if hasattr(model, "best_estimator_"):
        return _behind(_as_they_are, model.best_estimator_)
    if hasattr(model, "model_"):
        return _behind(getattr(model, "_seen", _as_they_are), model.model_)
    return _as_they_are, model


def _behind(first: Prepare, model: Any) -> tuple[Prepare, Any]:
    then, inner = unwrap(model)
    return (lambda rows: then(first(rows))), inner


def _as_they_are(rows: Any) -> Any:
    return rows


def _find_bare_trees(model: Any) -> Trees | None:
    if hasattr(model, "weighted_trees") and hasattr(model, "encode_rows"):
        return _guided_trees(model) if {"tree_", "trees_"} & set(vars(model)) else None
    if hasattr(model, "tree_"):
        return Trees(lambda rows: np.asarray(model.apply(rows))[:, None], [_shares(model.tree_)])
    # Trees that each use some of the columns would need to be passed these.
    if hasattr(model, "estimators_") and not hasattr(model, "estimators_features_"):
        return _ensemble(model)
    return None


def _guided_trees(model: Any) -> Trees:
    grown = model.weighted_trees()

    def leaves(rows: Any) -> np.ndarray:
        values = model.encode_rows(rows)
        return np.column_stack([tree.apply(values) for _, tree in grown])

    return Trees(leaves, [vote * _shares(tree) for vote, tree in grown])


def _ensemble(model: Any) -> Trees | None:
    each = model.estimators_.ravel().tolist() if isinstance(model.estimators_, np.ndarray) else list(model.estimators_)
    if not each or not all(hasattr(one, "tree_") for one in each):
        return None
    votes = np.asarray(getattr(model, "estimator_weights_", np.ones(len(each))))[: len(each)]

    def leaves(rows: Any) -> np.ndarray:
        if hasattr(model, "apply"):
            return np.asarray(model.apply(rows), np.intp).reshape(-1, len(each))
        return np.column_stack([one.apply(rows) for one in each])

    return Trees(leaves, [vote * _shares(one.tree_) for vote, one in zip(votes.tolist(), each, strict=True)])


def _shares(tree: Any) -> np.ndarray:
    return np.asarray(tree.n_node_samples / tree.n_node_samples[0])


def sum_leaves(trees: Trees, rows: Any) -> np.ndarray:
    """Return the share of the training rows in the leaf of each row, summed over the trees."""
    leaves = call("apply", trees.leaves, rows)
    total = np.zeros(len(leaves))
    for j, shares in enumerate(trees.shares):
        total += shares[leaves[:, j]]
    return total


def quick(model: Any) -> Any:
    """Return a stand-in with identical answers that is faster; the model itself if it is not a forest.

    Attacks predict every row, some of them twenty times: for a forest that is most of their time.
    """
    prepare, forest = unwrap(model)
    kind = _QUICK.get(type(forest))
    if kind is None or not _hands_on(model, forest) or not hasattr(forest, "estimators_") or forest.n_outputs_ != 1:
        return model
    return kind(model, prepare, forest)


def _hands_on(model: Any, inner: Any) -> bool:
    """Return True if the wrappers of a model only prepare rows for it, and pass on its answers unchanged."""
    while model is not inner:
        if type(model) in (Pipeline, ModelPipeline):
            model = model[-1]
        elif hasattr(model, "_seen") and hasattr(model, "model_"):
            model = model.model_
        else:
            return False
    return True


class _QuickForest:
    """A forest of scikit-learn whose trees are laid out level by level and predict distinct rows in a good order."""

    def __init__(self, model: Any, prepare: Prepare, forest: Any) -> None:
        self.model = model
        self._prepare = prepare
        self._n_features = forest.n_features_in_
        self.weighted_trees = [_lay(one.tree_) for one in forest.estimators_]
        asked = np.concatenate([nodes["feature"][:TOP_NODES] for nodes, _ in self.weighted_trees])
        self._sorted_by = np.argsort(-np.bincount(asked), kind="stable")[:SORTED_BY]

    def _average(self, rows: Any) -> np.ndarray | None:
        """Return the mean answer of the trees; None for rows that only the model itself can read."""
        prepared = self._prepare(rows)
        values = np.asarray(prepared) if isinstance(prepared, np.ndarray) or hasattr(prepared, "__array__") else None
        if values is None or values.dtype.kind not in "biuf" or values.ndim != 2 or values.shape[1] != self._n_features:
            return None
        # Like scikit-learn, which converts numbers to 32 bits.
        with np.errstate(over="ignore"):
            values = values.astype(np.float32).astype(np.float64)
        if not np.isfinite(values).all():
            return None
        labels, first = groups.group_rows((values + 0.0).view(np.uint64))
        # Similar rows take the same paths, which are then cached: a fifth of the time.
        order = np.lexsort(values[first][:, self._sorted_by[::-1]].T)
        asked = np.ascontiguousarray(values[first[order]])
        total = np.zeros((len(asked), self.weighted_trees[0][1].shape[1]))
        for nodes, answers in self.weighted_trees:
            kernel.add_answers(nodes, _NO_NAMES, asked, True, answers, 1.0, total)
        total /= len(self.weighted_trees)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return np.asarray(total[place[labels]])


class _QuickClassifier(_QuickForest):
    @property
    def classes_(self) -> np.ndarray:
        return np.asarray(self.model.classes_)

    def predict_proba(self, rows: Any) -> np.ndarray:
        found = self._average(rows)
        return self.model.predict_proba(rows) if found is None else found

    def predict(self, rows: Any) -> np.ndarray:
        found = self._average(rows)
        return self.model.predict(rows) if found is None else self.classes_.take(found.argmax(axis=1))


class _QuickRegressor(_QuickForest):
    def predict(self, rows: Any) -> np.ndarray:
        found = self._average(rows)
        return self.model.predict(rows) if found is None else found[:, 0]


def _lay(tree: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of a tree of scikit-learn in the layout of our kernel, and the answer of each."""
    nodes, source = np.empty(tree.node_count, kernel.NODE), np.empty(tree.node_count, np.int64)
    kernel.lay_nodes(tree.children_left, tree.children_right, tree.feature, tree.threshold, nodes, source)
    return nodes, tree.value[:, 0, :].take(source, axis=0)


_QUICK: dict[type, type[_QuickForest]] = {
    RandomForestClassifier: _QuickClassifier,
    ExtraTreesClassifier: _QuickClassifier,
    RandomForestRegressor: _QuickRegressor,
    ExtraTreesRegressor: _QuickRegressor,
}
