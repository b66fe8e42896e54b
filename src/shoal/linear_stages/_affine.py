"""Linear steps of a predictor, and their combination into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


class Affine(NamedTuple):
    """A step of a predictor: ``x @ matrix + offset``."""

    matrix: Any
    """Inputs by outputs, sparse or dense; outputs that are not linear are all zero."""
    offset: np.ndarray
    fixed: np.ndarray
    """Inputs of the outputs that are not linear."""


class StagePart(NamedTuple):
    """The beginning of a part of a predictor."""

    affine: Affine | None
    """None if the part does not begin with a linear step."""
    complete: bool
    """True if the part does nothing else, so that the step after it can be linear in its inputs too."""


NOT_LINEAR = StagePart(None, complete=False)


def combine(first: Affine, second: Affine) -> Affine:
    """Return two consecutive steps as one."""
    reaches = np.asarray(abs(first.matrix) @ second.fixed.astype(float)).reshape(-1) > 0
    offset = np.asarray(first.offset @ second.matrix).reshape(-1) + second.offset
    return Affine(first.matrix @ second.matrix, offset, first.fixed | reaches)


def follow(steps: Iterable[StagePart]) -> StagePart:
    """Combine consecutive steps, up to the first that is not linear."""
    found: Affine | None = None
    for step in steps:
        if step.affine is None:
            return StagePart(found, complete=False)
        found = step.affine if found is None else combine(found, step.affine)
        if not step.complete:
            return StagePart(found, complete=False)
    return StagePart(found, complete=found is not None)


def scale_by(factor: Any, offset: Any, n: int) -> Affine:
    """Return the step that multiplies each input by its factor and adds its offset."""
    factor = np.broadcast_to(np.asarray(1.0 if factor is None else factor, float).reshape(-1), n)
    offset = np.broadcast_to(np.asarray(0.0 if offset is None else offset, float).reshape(-1), n)
    return Affine(sparse.diags_array(factor, format="csr"), offset.copy(), np.zeros(n, bool))


def multiply_by(matrix: Any, offset: Any = None) -> Affine:
    """Return the step that multiplies by a dense matrix, inputs by outputs, and adds an offset."""
    matrix = matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix, float)
    outputs = matrix.shape[1]
    offset = np.broadcast_to(np.asarray(0.0 if offset is None else offset, float).reshape(-1), outputs)
    return Affine(matrix, offset.copy(), np.zeros(len(matrix), bool))


def select(chosen: np.ndarray, n: int) -> Affine:
    """Return the step that selects some of the inputs, by their positions."""
    ones = np.ones(len(chosen)), (chosen, np.arange(len(chosen)))
    matrix = sparse.csr_array(ones, shape=(n, len(chosen)))
    return Affine(matrix, np.zeros(len(chosen)), np.zeros(n, bool))


def beside(steps: Sequence[Affine]) -> Affine:
    """Return steps on the same inputs with their outputs side by side."""
    matrices = [sparse.csr_array(step.matrix) for step in steps]
    fixed = reduce(np.logical_or, [step.fixed for step in steps])
    dense = any(not sparse.issparse(step.matrix) for step in steps)
    matrix = sparse.hstack(matrices, format="csr")
    return Affine(matrix.toarray() if dense else matrix, np.concatenate([step.offset for step in steps]), fixed)


def only_rescales(step: Affine) -> bool:
    """Return True if every output is one rescaled input: then nothing was learned, and nothing is left out."""
    if not sparse.issparse(step.matrix):
        return False
    entries = step.matrix != 0
    rows, columns = np.asarray(entries.sum(axis=1)).reshape(-1), np.asarray(entries.sum(axis=0)).reshape(-1)
    return bool((rows[~step.fixed] == 1).all() and (columns <= 1).all())
