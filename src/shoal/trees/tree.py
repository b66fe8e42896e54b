"""Decision trees that rely less on sensitive features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from shoal.trees._base import LearnsClasses, LearnsNumbers, PrivacyTrees, TrainingRows
from shoal.trees._grown import Tree


class _OneTree(PrivacyTrees):
    """A single tree."""

    tree_: Tree

    def _grow(self, lesson: TrainingRows, random: np.random.RandomState) -> None:
        self.tree_ = self._grow_tree(lesson, int(random.randint(2**31)), None, lesson.weight)

    def weighted_trees(self) -> list[tuple[float, Tree]]:
        return [(1.0, self.tree_)]

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row."""
        values = self.encode_rows(X)
        return self.tree_.apply(values)

    def decision_path(self, X: Any) -> Any:
        """Return a sparse matrix that marks the nodes on the path of each row."""
        values = self.encode_rows(X)
        return self.tree_.decision_path(values)

    def get_depth(self) -> int:
        """Return the depth of the deepest leaf."""
        check_is_fitted(self, "tree_")
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        check_is_fitted(self, "tree_")
        return self.tree_.n_leaves


@dataclass(eq=False, repr=False)
class PrivacyTreeClassifier(LearnsClasses, _OneTree):
    """A decision tree whose splits avoid sensitive features.

    Three methods, separately or combined (Goldsteen et al. 2020): **weights**, the impurity after a split on a feature
    of sensitivity w is multiplied by ``1 + penalty * w`` when splits are compared; **levels**, no split on a sensitive
    feature above ``min_level``; **splits**, at most ``max_splits`` of them, spent from the root downwards.

    Parameters
    ----------
    sensitivity : dict or Schema, optional
        The sensitivity of features by name or position, from 0 (the default) to 1. With a schema, its sensitive
        attributes have 1.
    penalty : float
        Weight of the sensitivity in the impurity after a split; 0 for no penalty.
    penalty_stops : bool
        If true, a split on a sensitive feature must, after its penalty, also be better than no split; else the node
        stays a leaf, unless another feature splits it. The published method only compares splits with each other.
    min_level : int
        Minimum depth of splits on sensitive features; the root has 0.
    max_splits : float, optional
        Maximum number of splits on each sensitive feature. The tree then grows breadth-first.
    level_by : {"depth", "visits"}
        The level of a node: its depth, or the number of nodes visited before it, depth-first and left before right, as
        the thresholds of the paper seem to count.
    split_cost : {"one", "rows"}
        The cost of a split: 1, or the share of the rows that it separates.
    weighted : bool
        If true, the latter two methods are weaker for features of a sensitivity w below 1: levels are multiplied by w,
        and ``max_splits`` by 1/w.
    criterion : {"gini", "entropy", "log_loss"}
        The impurity.
    max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, max_features, max_leaf_nodes, \
min_impurity_decrease, class_weight, ccp_alpha, random_state
        As in scikit-learn's ``DecisionTreeClassifier``. Ties go to the first feature.
    categorical_features : "from_dtype" or sequence
        Nominal features besides columns of texts and categories: names, positions or marks.

    Attributes
    ----------
    tree_ : Tree
        The nodes.
    classes_ : array
    feature_importances_ : float array (n_features,)
        Shares of the decrease of the impurity by splits on each feature, as in scikit-learn.
    impurity_importances_ : float array (n_features,)
        The same before division by the sum, as in the paper.
    n_splits_ : int array (n_features,)
        Number of splits on each feature.
    sensitivity_ : float array (n_features,)

    Examples
    --------
    >>> from shoal import PrivacyTreeClassifier
    >>> from shoal.datasets import make_census
    >>> census = make_census(1000)
    >>> X, y = census.frame.drop("income"), census.frame["income"]
    >>> tree = PrivacyTreeClassifier(sensitivity={"education": 1.0}, max_splits=1, max_depth=6).fit(X, y)
    >>> int(tree.n_splits_[X.columns.index("education")]) <= 1
    True
    """

    _: KW_ONLY
    criterion: str = "gini"
    class_weight: Any = None

    def predict(self, X: Any) -> np.ndarray:
        """Return the most frequent class in the leaf of each row."""
        values = self.encode_rows(X)
        likeliest = self.classes_[self.tree_.value.argmax(axis=1)]
        return np.asarray(likeliest[self.tree_.apply(values)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes: their shares in the leaf of each row."""
        values = self.encode_rows(X)
        return self.tree_.answers(values)


class PrivacyTreeRegressor(LearnsNumbers, _OneTree):
    """A decision tree for one or several numbers whose splits avoid sensitive features.

    Parameters and attributes are those of :class:`PrivacyTreeClassifier`; the impurity is the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal import PrivacyTreeRegressor
    >>> X = np.arange(40.0).reshape(20, 2)
    >>> PrivacyTreeRegressor(sensitivity={0: 1.0}, max_splits=0).fit(X, X[:, 0]).feature_importances_
    array([0., 1.])
    """

    def predict(self, X: Any) -> np.ndarray:
        """Return the mean of the leaf of each row."""
        values = self.encode_rows(X)
        return self._shape(self.tree_.answers(values))
