"""Networks that stop training early where they can hold out rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.neural_network import MLPClassifier, MLPRegressor


class StoppingMLPClassifier(MLPClassifier):  # type: ignore[misc]
    """A network that stops early on held-out rows, if every class has rows to hold out."""

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network."""
        sizes = np.unique(np.asarray(y), return_counts=True)[1]
        held_out = math.floor(self.validation_fraction * sizes.sum())
        with _early_stopping_if(sizes.min() > 1 and held_out >= len(sizes), self):
            return super().fit(X, y)


class StoppingMLPRegressor(MLPRegressor):  # type: ignore[misc]
    """A network that stops early on held-out rows, if there are rows to hold out."""

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network."""
        with _early_stopping_if(math.floor(self.validation_fraction * len(y)) > 1, self):
            return super().fit(X, y)


@contextmanager
def _early_stopping_if(rows_suffice: bool, network: Any) -> Iterator[None]:
    """Disable early stopping of a network if there are too few rows to hold out."""
    asked = network.early_stopping
    network.early_stopping = bool(asked and rows_suffice)
    try:
        yield
    finally:
        network.early_stopping = asked
