"""Cleaning the null space (Xu et al. 2017): the toy table, and Figures 4, 6 and 7 on scene, CAL500, wq and oes97.

``python experiments/xu_null_space.py`` makes ten runs as the paper does, in two minutes; ``--quick`` makes three. Every
run is in ``results/xu_figures.csv``, what they say in ``results/xu_figures.json``, ``results/xu_toy.json`` and
docs/papers.md.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from _study import Row, Size, Study, main
from _xu_told import (
    EPSILON,
    FIRST,
    FIRST_MEAN,
    LEARNED,
    NOISE,
    NOTHING,
    PAPER,
    PAPER_NOISE,
    PRINTED,
    STABLE,
    TOY,
    draw,
    tell,
    tell_toy,
)
from scipy.linalg import eig

from shoal import NullSpaceCleaner, TargetedNullSpaceCleaner
from shoal.attacks.query_errors import complete_privacy, privacy_errors
from shoal.attacks.relearn import relearn
from shoal.cleaners.laplace import LaplaceNoise
from shoal.datasets import fetch_cal500, fetch_oes97, fetch_scene, fetch_wq

FETCH = {"scene": fetch_scene, "CAL500": fetch_cal500, "wq": fetch_wq, "oes97": fetch_oes97}
PROTOCOL = """
Stated in the paper, and done so: 90 % of the rows train the ally's linear regression, the rest are cleaned one by one
with a budget of 0.01; one, half or all but one of the labels are desired, the others confidential; ten runs. The attack
is the same regression, learned again from cleaned rows (Algorithm 3). Noise moves the ally's outputs as much as the
budget on average.

Not stated, and our choice: no intercept in any regression, because the paper writes predictors as a matrix alone;
features as they are in the files; which labels are desired is drawn anew in each run; errors are sums over the labels.
The error e is against what the confidential predictor says of the row before cleaning, as in the paper's proofs, and
complete privacy is against the true labels: only so can noise have an error near its budget, and a complete privacy
that does not depend on it, as in Figure 7.

Beside the paper: Algorithm 2 both as it is printed and in a form that inverts nothing singular; Algorithm 1 that moves
rows towards the mean instead of zero; Algorithm 2 with the secret learned on the ally's outputs; and the linear
adversary of the audit, who learns again with an intercept, scales, and is as regular as cross-validation says. That
one's squared error is taken relative to knowing only the mean of the labels: 1 is nothing learned.
"""


def measure_toy(epsilon: float) -> list[Row]:
    """The rows of the toy table."""
    X = np.array([line[0] for line in TOY], float)
    cleaned = NullSpaceCleaner([1, -1], epsilon, reference="zero").fit().transform(X).round(12)
    found = []
    for (first, second), (one, other) in zip(X.tolist(), cleaned.tolist(), strict=True):
        outputs = {"y_d": first - second, "y_d_cleaned": one - other, "y_c": first + 2 * second}
        found.append({"x": [first, second], "cleaned": [one, other]} | outputs)
    return found


def measure_run(data: str, desired: int, seed: int) -> list[Row]:
    """All methods on one split of the rows and labels."""
    X, Y = load(data)
    random = np.random.default_rng(seed)
    order, labels = random.permutation(len(X)), random.permutation(Y.shape[1])
    test, train = order[: len(X) // 10], order[len(X) // 10 :]
    n_hidden = desired if 1 < desired < Y.shape[1] - 1 else Y.shape[1] - desired
    hidden = labels[desired : desired + n_hidden]
    ally, curious = fit(X[train], Y[train][:, labels[:desired]]), fit(X[train], Y[train][:, hidden])
    secrets = Y[train][:, hidden], Y[test][:, hidden]
    methods = cleaners_of(ally, curious, X[train], secrets[0])
    for of, n, budget in PAPER_NOISE:
        if (of, n) == (data, desired):
            methods[NOISE, budget] = LaplaceNoise(ally, budget, random_state=seed).fit()
            methods[FIRST, budget] = NullSpaceCleaner(ally, budget, reference="zero").fit()
    found = []
    for (name, budget), cleaner in methods.items():
        cleaned = cleaner.transform(X[test])
        moved = (((cleaned - X[test]) @ ally) ** 2).sum(axis=1)
        found.append(
            {"hidden": n_hidden, "method": name, "epsilon": budget}
            | {"e_utility": moved.mean(), "e_utility_largest": moved.max()}
            | judge("", cleaned, curious, X[train].mean(axis=0), X[test] @ curious, secrets[1])
            | published_attack(cleaner, cleaned, X[train], X[test] @ curious, secrets)
            | our_attack(cleaner, X[train], X[test], secrets)
        )
    return found


def cleaners_of(ally: np.ndarray, curious: np.ndarray, X: np.ndarray, secret: np.ndarray) -> dict[Any, Any]:
    """By name and budget: those of the paper, and ours."""
    stable = TargetedNullSpaceCleaner(ally, curious, EPSILON, unknown=0.0, reference="zero").fit()
    return {
        (NOTHING, EPSILON): Nothing(),
        (FIRST, EPSILON): NullSpaceCleaner(ally, EPSILON, reference="zero").fit(),
        (FIRST_MEAN, EPSILON): NullSpaceCleaner(ally, EPSILON).fit(X),
        (PRINTED, EPSILON): Printed(ally, curious),
        (STABLE, EPSILON): stable,
        (LEARNED, EPSILON): TargetedNullSpaceCleaner(ally, None, EPSILON).fit(X, secret),
    }


def judge(
    name: str, cleaned: np.ndarray, matrix: np.ndarray, mean: np.ndarray, before: np.ndarray, truth: np.ndarray
) -> Row:
    """How wrong a linear predictor of the secret is about cleaned rows."""
    said = cleaned @ matrix
    complete = complete_privacy(truth, said, mean @ matrix)
    return {f"{name}e_privacy": privacy_errors(before, said).mean(), f"{name}complete": complete}


def published_attack(
    cleaner: Any, cleaned: np.ndarray, train: np.ndarray, before: np.ndarray, secrets: tuple[np.ndarray, np.ndarray]
) -> Row:
    """Algorithm 3: the same regression, learned again from cleaned rows."""
    known = cleaner.transform(train)
    return judge("attack_", cleaned, fit(known, secrets[0]), known.mean(axis=0), before, secrets[1])


def our_attack(cleaner: Any, train: np.ndarray, test: np.ndarray, secrets: tuple[np.ndarray, np.ndarray]) -> Row:
    """The linear adversary of the audit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (one,) = relearn(cleaner, train, secrets[0], test=(test, secrets[1]), learners=["linear"], task="numbers")
    return {"relative": one.error.value, "relative_complete": one.complete_privacy.value}


class Nothing:
    """Rows as they are."""

    def transform(self, X: np.ndarray) -> np.ndarray:
        return X


class Printed:
    """Algorithm 2 as the paper prints it: generalised eigenvectors taken for coordinates, which they are not."""

    def __init__(self, ally: np.ndarray, curious: np.ndarray) -> None:
        wanted, hidden = ally @ ally.T, curious @ curious.T
        _, vectors = eig(wanted, hidden)
        vectors = np.nan_to_num(np.real(vectors))
        self.vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-300)
        self.wanted = np.maximum(np.einsum("ij,ij->j", self.vectors, wanted @ self.vectors), 0)
        self.hidden = np.maximum(np.einsum("ij,ij->j", self.vectors, hidden @ self.vectors), 0)

    def transform(self, X: np.ndarray) -> np.ndarray:
        own = X @ self.vectors
        costs, gains = self.wanted * own**2, self.hidden * own**2
        with np.errstate(over="ignore"):
            order = np.argsort(-gains / np.maximum(costs, 1e-300), axis=1)
        ordered = np.take_along_axis(costs, order, 1)
        left = np.maximum(EPSILON - (np.cumsum(ordered, axis=1) - ordered), 0)
        shares = np.sqrt(np.clip(left / np.maximum(ordered, 1e-300), 0, 1))
        taken = np.empty_like(shares)
        np.put_along_axis(taken, order, shares, 1)
        return X - (taken * own) @ self.vectors.T


def fit(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """A linear regression without an intercept, as a matrix of features by outputs."""
    return np.linalg.lstsq(X, Y, rcond=None)[0]


def load(data: str) -> tuple[np.ndarray, np.ndarray]:
    frame, schema = FETCH[data]()
    labels = [attribute.name for attribute in schema.target]
    features = [name for name in frame.columns if name not in labels]
    return frame.select(features).to_numpy().astype(float), frame.select(labels).to_numpy().astype(float)


def cells(size: Size) -> list[Row]:
    settings = {"full": list(PAPER), "quick": list(PAPER), "toy": [("scene", 1), ("wq", 1), ("wq", 7)]}[size]
    seeds = {"full": 10, "quick": 2, "toy": 1}[size]
    return [{"data": data, "desired": n, "seed": seed} for data, n in settings for seed in range(seeds)]


STUDIES = (
    Study(
        "xu_toy", "xu2017", "The toy example", "As printed: the ally predicts the difference of two features, with a "
        "budget of 0.", lambda size: [{"epsilon": 0.0}], measure_toy, tell_toy,
    ),
    Study(
        "xu_figures", "xu2017", "Figures 4, 6 and 7: what cleaning and noise hide, on four data sets", PROTOCOL, cells,
        measure_run, tell, draw,
    ),
)  # fmt: skip

if __name__ == "__main__":
    main(*STUDIES)
