"""A network that distinguishes members from controls, with one branch for the model's answer and one for the label.

It is that of Figure 7 of the paper on accuracy-guided anonymization (Goldsteen et al. 2020), which follows Nasr et al.
(2018), and so small that numpy trains it in seconds without another library.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Self

import numpy as np

ANSWER_LAYERS = 64, 32
LABEL_LAYERS = (32,)
JOINT_LAYERS = (32,)
BATCH = 256
MOST_EPOCHS = 60
PATIENCE = 8
"""Number of epochs without a lower loss on the held-out rows before training ends."""
HELD_OUT = 0.1
RATE = 2e-3
DECAY_OF_MEAN, DECAY_OF_SQUARE = 0.9, 0.999


class BranchedNetwork:
    """Fully connected layers of rectified units in two branches and behind them, trained by Adam."""

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, answers: np.ndarray, labels: np.ndarray, members: np.ndarray) -> Self:
        """Train on the answers of the model for rows, their labels with one column per class, and their membership."""
        random = np.random.default_rng(self.random_state)
        self._center, self._scale = answers.mean(axis=0), answers.std(axis=0) + 1e-9
        answers = (answers - self._center) / self._scale
        self._layers = self._make_layers(random, answers.shape[1], labels.shape[1])
        order = random.permutation(len(members))
        n_held_out = max(int(HELD_OUT * len(order)), 1)
        held_out, rows = order[:n_held_out], order[n_held_out:]
        adam = _Adam(self._layers)
        best, kept, waited = np.inf, [layer.copy() for layer in self._layers], 0
        for _ in range(MOST_EPOCHS):
            random.shuffle(rows)
            for start in range(0, len(rows), BATCH):
                part = rows[start : start + BATCH]
                adam.step(self._layers, self._slopes(answers[part], labels[part], members[part]))
            loss = _loss(self._forward(answers[held_out], labels[held_out])[-1][:, 0], members[held_out])
            waited = 0 if loss < best - 1e-5 else waited + 1
            if loss < best - 1e-5:
                best, kept = loss, [layer.copy() for layer in self._layers]
            if waited >= PATIENCE:
                break
        self._layers = kept
        return self

    def score(self, answers: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the log-odds of membership."""
        return self._forward((answers - self._center) / self._scale, labels)[-1][:, 0]

    def _make_layers(self, random: np.random.Generator, n_answers: int, n_labels: int) -> list[np.ndarray]:
        """Return initial weights with the bias as last row: of the first branch, the second, and the joint layers."""
        joint = ANSWER_LAYERS[-1] + LABEL_LAYERS[-1]
        chains = ((n_answers, *ANSWER_LAYERS), (n_labels, *LABEL_LAYERS), (joint, *JOINT_LAYERS, 1))
        layers = []
        for chain in chains:
            for n_in, n_out in pairwise(chain):
                weights = random.normal(scale=np.sqrt(2.0 / n_in), size=(n_in + 1, n_out))
                weights[-1] = 0.0
                layers.append(weights)
        return layers

    def _forward(self, answers: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
        """Return the outputs of the layers, the last of which is the log-odds."""
        first, second = len(ANSWER_LAYERS), len(ANSWER_LAYERS) + len(LABEL_LAYERS)
        outputs: list[np.ndarray] = []
        for i, weights in enumerate(self._layers):
            if i == 0:
                given = answers
            elif i == first:
                given = labels
            elif i == second:
                given = np.hstack([outputs[first - 1], outputs[second - 1]])
            else:
                given = outputs[-1]
            reached = given @ weights[:-1] + weights[-1]
            outputs.append(reached if i == len(self._layers) - 1 else np.maximum(reached, 0.0))
        return outputs

    def _slopes(self, answers: np.ndarray, labels: np.ndarray, members: np.ndarray) -> list[np.ndarray]:
        """Return the gradient of the loss by backpropagation."""
        first, second = len(ANSWER_LAYERS), len(ANSWER_LAYERS) + len(LABEL_LAYERS)
        outputs = self._forward(answers, labels)
        error = (1 / (1 + np.exp(-outputs[-1][:, 0])) - members)[:, None] / len(members)
        slopes: list[np.ndarray] = [np.empty(0)] * len(self._layers)
        waiting: dict[int, np.ndarray] = {}
        for i in range(len(self._layers) - 1, -1, -1):
            error = waiting.pop(i, error)
            if i < len(self._layers) - 1:
                error = error * (outputs[i] > 0)
            if i == second:
                given = np.hstack([outputs[first - 1], outputs[second - 1]])
            else:
                given = {0: answers, first: labels}.get(i, outputs[i - 1])
            slopes[i] = np.vstack([given.T @ error, error.sum(axis=0)])
            back = error @ self._layers[i][:-1].T
            if i == second:
                waiting[first - 1], waiting[second - 1] = np.hsplit(back, [outputs[first - 1].shape[1]])
            error = back
        return slopes


class _Adam:
    """The optimizer Adam (Kingma and Ba 2015)."""

    def __init__(self, layers: list[np.ndarray]) -> None:
        self._means = [np.zeros_like(layer) for layer in layers]
        self._squares = [np.zeros_like(layer) for layer in layers]
        self._steps = 0

    def step(self, layers: list[np.ndarray], slopes: list[np.ndarray]) -> None:
        """Move the weights, in place."""
        self._steps += 1
        rate = RATE * np.sqrt(1 - DECAY_OF_SQUARE**self._steps) / (1 - DECAY_OF_MEAN**self._steps)
        for layer, slope, mean, square in zip(layers, slopes, self._means, self._squares, strict=True):
            mean += (1 - DECAY_OF_MEAN) * (slope - mean)
            square += (1 - DECAY_OF_SQUARE) * (slope * slope - square)
            layer -= rate * mean / (np.sqrt(square) + 1e-8)


def _loss(odds: np.ndarray, members: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0.0, odds) - members * odds))
