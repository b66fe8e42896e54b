"""Cleaning as the paper prints it, slow and obvious."""

import numpy as np


def knapsack(gains, costs, budget):
    """Return the shares with the largest gain at this cost: Figure 1 of the paper, for squares."""
    shares = np.zeros(len(gains))
    shares[costs == 0] = 1
    left = budget
    for j in sorted(np.flatnonzero(costs), key=lambda j: -gains[j] / costs[j]):
        if costs[j] <= left:
            shares[j] = 1
            left -= costs[j]
        else:
            shares[j] = np.sqrt(left / costs[j])
            break
    return shares


def clean(x, matrix, budget, mode="knapsack"):
    """Clean one row by all eigenvectors of A Aᵀ: Figure 2."""
    values, vectors = np.linalg.eigh(matrix @ matrix.T)
    values[values < values.max() * 1e-12] = 0
    own = vectors.T @ x
    costs = values * own**2
    gains = np.ones(len(x)) if mode == "knapsack" else own**2
    shares = knapsack(gains, costs, budget)
    return x - vectors @ (shares * own), gains, costs, shares


def nearest_between(x, matrix, center, spread, low, high):
    """Find the row between bounds with the outputs of x that is nearest to the center, by a general solver."""
    from scipy.optimize import minimize

    found = minimize(
        lambda z: 0.5 * (((z - center) / spread) ** 2).sum(),
        np.clip(x, low, high),
        jac=lambda z: (z - center) / spread**2,
        bounds=list(zip(low, high, strict=True)),
        constraints={"type": "eq", "fun": lambda z: (z - x) @ matrix, "jac": lambda z: matrix.T},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return found.x if found.success else None
