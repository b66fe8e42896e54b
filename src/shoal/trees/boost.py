"""Boosted trees (AdaBoost) that rely less on sensitive features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from shoal._kernels import tree_use as kernel
from shoal.parameters import Choice, Constraint, Real, Whole
from shoal.trees._base import LearnsClasses, PrivacyTrees, TrainingRows
from shoal.trees._grown import Tree, is_complete
from shoal.trees._limits import SHARES, SplitBudget, is_budgeted


@dataclass(eq=False, repr=False)
class PrivacyBoostClassifier(LearnsClasses, PrivacyTrees):
    """AdaBoost (SAMME) of trees whose splits avoid sensitive features.

    Parameters
    ----------
    n_estimators : int
        Maximum number of trees; fewer if one has no errors, or is no better than chance.
    learning_rate : float
        Factor of every tree's vote.
    sensitivity, penalty, penalty_stops, min_level, max_splits, level_by, split_cost, weighted, categorical_features
        As in :class:`PrivacyTreeClassifier`.
    share : {"tree", "ensemble"}
        The scope of ``max_splits``: every tree, or all trees together, each with an equal part of the remaining splits.
    criterion, max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, max_features, max_leaf_nodes, \
min_impurity_decrease, class_weight, ccp_alpha, random_state
        As in :class:`PrivacyTreeClassifier`, for every tree; trees have depth 1 by default.

    Attributes
    ----------
    trees_ : list of Tree
    votes_ : float array (n_trees,)
        Weight of each tree.
    errors_ : float array (n_trees,)
        Weighted error of each tree.
    classes_, feature_importances_, impurity_importances_, n_splits_, sensitivity_
        As in :class:`PrivacyTreeClassifier`, the importances as means over the trees by their votes.

    Examples
    --------
    >>> from shoal import PrivacyBoostClassifier
    >>> from shoal.datasets import make_census
    >>> census = make_census(1000)
    >>> X, y = census.frame.drop("income"), census.frame["income"]
    >>> boost = PrivacyBoostClassifier(20, sensitivity={"age": 1.0}, max_splits=2, share="ensemble")
    >>> int(boost.fit(X, y).n_splits_[X.columns.index("age")]) <= 2
    True
    """

    n_estimators: int = 50
    _: KW_ONLY
    learning_rate: float = 1.0
    share: str = "tree"
    criterion: str = "gini"
    max_depth: int | None = 1
    class_weight: Any = None

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_estimators": Whole(least=1),
        "learning_rate": Real(above=0),
        "share": Choice(SHARES),
    }
    trees_: list[Tree] = field(init=False)

    def _grow(self, lesson: TrainingRows, random: np.random.RandomState) -> None:
        weight = np.ones(len(lesson.y)) if lesson.weight is None else lesson.weight
        weight = weight / weight.sum()
        shared = self.share == "ensemble" and is_budgeted(self._leaning(), self.sensitivity_)
        budget = SplitBudget(self._leaning(), self.sensitivity_, self.n_estimators) if shared else None
        chance = 1.0 - 1.0 / lesson.n_classes
        self.trees_, votes, errors = [], [], []
        for seed in random.randint(2**31, size=self.n_estimators).tolist():
            tree = self._grow_tree(lesson, seed, None, weight, None if budget is None else budget.portion())
            wrong = tree.answers(lesson.values).argmax(axis=1) != lesson.y
            error = float(weight[wrong].sum() / weight.sum())
            if error >= chance and self.trees_:
                break
            # A tree without errors needs no others; one that is no better than chance is kept only as the first.
            last = error <= 0 or error >= chance
            vote = 1.0 if last else self.learning_rate * (np.log((1 - error) / error) + np.log(lesson.n_classes - 1))
            self.trees_.append(tree)
            votes.append(vote)
            errors.append(error)
            if last:
                break
            if budget is not None:
                budget.spend(tree)
            weight = weight * np.exp(vote * wrong)
            weight /= weight.sum()
        self.votes_, self.errors_ = np.array(votes), np.array(errors)

    def weighted_trees(self) -> list[tuple[float, Tree]]:
        """Return the trees, each with the weight of its vote."""
        return list(zip(self.votes_.tolist(), self.trees_, strict=True))

    def _count_votes(self, values: np.ndarray) -> np.ndarray:
        """Return the votes for each class (n, classes), from -1 / (classes - 1) to 1."""
        n = len(self.classes_)
        total = np.zeros((len(values), n))
        complete = is_complete(values)
        for vote, tree in self.weighted_trees():
            ballots = np.full(tree.value.shape, -1.0 / max(n - 1, 1))
            ballots[np.arange(len(ballots)), tree.value.argmax(axis=1)] = 1.0
            kernel.add_answers(*tree.branches, values, complete and tree.asks_numbers, ballots, vote, total)
        return total / self.votes_.sum()

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the votes for each class; with two classes the difference between the second and the first."""
        values = self.encode_rows(X)
        votes = self._count_votes(values)
        return votes[:, 1] - votes[:, 0] if self.n_classes_ == 2 else votes

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, from the votes as in scikit-learn."""
        values = self.encode_rows(X)
        votes = self._count_votes(values)
        return np.asarray(softmax(votes if self.n_classes_ == 2 else votes / max(self.n_classes_ - 1, 1), axis=1))
