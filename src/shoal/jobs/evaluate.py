"""Evaluate the cost of privacy for models: train on raw and on released rows, and compare on unseen rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from joblib import Parallel, delayed
from sklearn import metrics
from sklearn.base import clone

from shoal.data import frames
from shoal.data.factored import FactoredFrame
from shoal.data.schema import Schema, require_schema
from shoal.data.table import require_same_columns
from shoal.errors import DataError, GuaranteeError, ShoalError, reason
from shoal.evaluation.plan import Method, plan_methods, plan_models, read_seeds, read_several
from shoal.evaluation.result import TASKS, Evaluation
from shoal.evaluation.scores import score_model, seeded, split_rows, telling_why
from shoal.evaluation.store import CellStore, fingerprint, fingerprint_of_table
from shoal.jobs.release import Release, ReleasedTable, make_anonymizer, release_table
from shoal.models.estimators import takes_factors
from shoal.models.guides import ModelInput
from shoal.models.targets import features, read_target, target_of, task_of
from shoal.parameters import JOBS, Whole
from shoal.privacy.models import PrivacyModel, check_constraints

__all__ = ["Evaluation", "evaluate"]

Progress = Callable[[int, int, str], None]


def evaluate(
    frame: Any,
    schema: Schema,
    model: Any,
    *,
    methods: Any = ("mondrian",),
    k: int | Sequence[int] = (10, 50, 100),
    seeds: int | Sequence[int] = 5,
    test_size: float = 0.2,
    train_size: float | None = None,
    constraints: Sequence[PrivacyModel] = (),
    recoding: str | None = None,
    options: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    store: str | Path | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure what k-anonymity costs a model, by method and k.

    For each seed the rows are split, by class if the target has classes. One model is trained on the raw training rows,
    and one for each method and k on their release with the true targets; all are scored on the same raw test rows.
    Every release is checked. Everything random follows from the seed.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
    schema : Schema
        It must have one target: if that is numeric, models are regressors, otherwise classifiers.
    model : str, estimator, or dict of them by name
        A name that :func:`shoal.make_model` knows or a scikit-learn estimator. An estimator that is or contains a
        pipeline gets the feature columns as they are; any other gets them as numbers, as the named models do, and if it
        was trained on named columns, only those.
    methods : sequence
        Names of methods, triples (label, name, options), or anonymizers, which keep their parameters except k and the
        seed. A method that takes a model gets an untrained clone of the evaluated one.
    k : int or sequence of int
    seeds : int or sequence of int
        The number of splits, or their seeds.
    test_size, train_size : float or int
        Share or number of test and of training rows; by default all others are training rows.
    constraints : sequence of privacy models
        Required beside every k.
    recoding : str, optional
        By default that of each method, or representative rows instead of ``"interval"`` and ``"set"``, because models
        are tested on raw rows.
    options : dict, optional
        Further parameters of :func:`shoal.anonymize` for all methods, such as ``{"suppression": 0.02}``.
    n_jobs : int, optional
        Number of parallel processes; -1 uses all cores. The result does not depend on it.
    store : path, optional
        A file of JSON lines to which every finished cell is appended, and from which cells that were measured before,
        on the same data with the same parameters, are read.
    progress : callable, optional
        Called with the number of finished cells, the number of all cells, and a text.

    Returns
    -------
    Evaluation
        Its ``rows`` hold one dict per model, method, k and seed. If k cannot be reached, ``error`` states the reason.

    Examples
    --------
    >>> from shoal import evaluate
    >>> from shoal.datasets import make_census
    >>> census = make_census(1000)
    >>> found = evaluate(census.frame, census.schema, "tree", k=(5, 50), seeds=2)
    >>> [(row["k"], row["seed"], row["smallest_group"] >= row["k"]) for row in found.rows]
    [(5, 0, True), (5, 1, True), (50, 0, True), (50, 1, True)]
    """
    require_schema(schema)
    JOBS.check("n_jobs", n_jobs)
    table = FactoredFrame.of(nw.maybe_reset_index(frames.open_frame(frame)))
    frames.require_rows(table)
    require_same_columns(table.columns, schema)
    work = _Work(
        table,
        schema,
        read_target(table, schema),
        plan_models(model, schema),
        plan_methods(methods, check_constraints(constraints), recoding, dict(options or {})),
        test_size,
        train_size,
    )
    ks, seeds = read_several("k", k, Whole(least=1)), read_seeds(seeds)
    work.check(seeds)
    raw = [Cell(name, None, 0, seed) for name, seed in product(work.models, seeds)]
    cells = [Cell(*parts) for parts in product(work.models, work.methods, ks, seeds)]
    run = _Run(work, None if store is None else CellStore(store), progress, len(raw) + len(cells))
    # Raw models first: the cost of a release is measured against them.
    run.measure(raw, n_jobs, "raw models")
    run.measure(cells, n_jobs, "releases")
    return Evaluation([_row(work, cell, run.results) for cell in cells], work.task, _settings(work, seeds))


class Cell(NamedTuple):
    """One measurement; without a method, on the raw rows."""

    model: str
    method: str | None
    k: int
    seed: int

    def __str__(self) -> str:
        how = "raw rows" if self.method is None else f"{self.method}, k = {self.k}"
        return f"{self.model}, {how}, seed {self.seed}"


@dataclass(frozen=True)
class _Work:
    """The inputs of every cell, which are sent to each process."""

    table: FactoredFrame
    schema: Schema
    y: np.ndarray
    models: dict[str, Any]
    methods: dict[str, Method]
    test_size: float
    train_size: float | None

    @property
    def task(self) -> str:
        return task_of(self.schema)

    def check(self, seeds: Sequence[int]) -> None:
        """Refuse inputs that every cell would fail on, before the first one is measured."""
        target = target_of(self.schema).name
        if len(np.unique(self.y)) < 2:
            raise DataError(
                f"The target {target!r} has only the value {self.y[0].item()!r}: there is nothing to predict."
            )
        self.split(seeds[0])

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the training and of the test rows."""
        return split_rows(self.y, self.task, self.test_size, self.train_size, seed)


@dataclass
class _Run:
    """The results so far."""

    work: _Work
    store: CellStore | None
    progress: Progress | None
    total: int
    results: dict[Cell, dict[str, Any]] = field(default_factory=dict)
    _data: str = ""

    def measure(self, cells: Sequence[Cell], n_jobs: int | None, what: str) -> None:
        """Measure the cells, or read them from the store."""
        prints = {} if self.store is None else {cell: self._fingerprint(cell) for cell in cells}
        missing = []
        for cell in cells:
            known = None if self.store is None else self.store.get(prints[cell])
            if known is None:
                missing.append(cell)
            else:
                self.results[cell] = known
        self._tell(what)
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        for measured in parallel(delayed(_measure)(self.work, job) for job in _jobs(missing, self.work.methods)):
            for cell, result in measured:
                self.results[cell] = result
                if self.store is not None:
                    self.store.add(prints[cell], cell._asdict(), result)
                self._tell(str(cell))

    def _tell(self, text: str) -> None:
        if self.progress is not None:
            self.progress(len(self.results), self.total, text)

    def _fingerprint(self, cell: Cell) -> str:
        work = self.work
        if not self._data:
            self._data = fingerprint_of_table(work.table, work.schema)
        method = None if cell.method is None else work.methods[cell.method]
        try:
            return fingerprint(
                self._data,
                work.test_size,
                work.train_size,
                clone(work.models[cell.model]),
                cell.seed,
                None if method is None else [method.name, method.options, cell.k],
            )
        except Exception as error:  # serializing a model or an option may raise any type
            raise ShoalError(
                f"The model {cell.model!r} or an option cannot be serialized ({reason(error)}), so its cells cannot be "
                "stored: use functions that have a name in a module, or leave the store out."
            ) from None


def _jobs(cells: Sequence[Cell], methods: Mapping[str, Method]) -> Iterator[list[Cell]]:
    """Yield cells that share a release; each raw model, and each release for one model, is a job of its own."""
    jobs: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        own = cell.method is None or methods[cell.method].takes_model
        jobs.setdefault((cell.method, cell.k, cell.seed, cell.model if own else None), []).append(cell)
    yield from jobs.values()


def _measure(work: _Work, cells: Sequence[Cell]) -> list[tuple[Cell, dict[str, Any]]]:
    """Measure the cells of a job."""
    _, method, _, seed = cells[0]
    train, test = work.split(seed)
    rows, tested = work.table.take(train), work.table.take(test)
    if method is None:
        described, released, y = _baseline(work, train, test), rows, work.y[train]
    else:
        started = time.perf_counter()
        try:
            release, _, released = _release(work, work.methods[method], cells[0], rows)
        except GuaranteeError as error:
            return [(cell, {"train_rows": len(train), "error": str(error)}) for cell in cells]
        described = _describe(release) | {"seconds_anonymize": time.perf_counter() - started}
        y = work.y[train][release.rows]
    return [(cell, _train(work, cell, released, y, tested, work.y[test]) | described) for cell in cells]


def _release(work: _Work, method: Method, cell: Cell, rows: FactoredFrame) -> ReleasedTable:
    model = {"model": seeded(work.models[cell.model], cell.seed)} if method.takes_model else {}
    how = {"random_state": cell.seed, **model, **method.options}
    return release_table(make_anonymizer(method.name, work.schema, cell.k, **how), method.name, rows)


def _train(
    work: _Work, cell: Cell, rows: FactoredFrame, y: np.ndarray, tested: FactoredFrame, truth: np.ndarray
) -> dict[str, Any]:
    """Train the model of a cell on some rows, and score it on others."""
    started = time.perf_counter()
    with telling_why(cell.model):
        model = seeded(work.models[cell.model], cell.seed)
        seen = ModelInput(tested, features(work.schema), as_factors=takes_factors(model))
        model.fit(seen.of(rows), y)
        seconds = time.perf_counter() - started
        scores = score_model(work.task, model, seen.take(), truth)
    return {"train_rows": len(y), **scores, "seconds_train": seconds}


def _baseline(work: _Work, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """Return the score of always predicting the most frequent class, or the mean."""
    y, truth = work.y[train], work.y[test]
    if work.task == "regression":
        return {"baseline": float(metrics.r2_score(truth, np.full(len(truth), y.mean())))}
    classes, sizes = np.unique(y, return_counts=True)
    return {"majority": float(np.mean(truth == classes[sizes.argmax()]))}


def _describe(release: Release) -> dict[str, Any]:
    sizes = release.checked.sizes
    return {
        "groups": release.checked.groups,
        "smallest_group": int(sizes.rows[0]),
        "median_group": sizes.median,
        "largest_group": int(sizes.rows[-1]),
        "suppressed": release.suppressed,
        "ncp": float(release.loss.ncp),
    }


def _row(work: _Work, cell: Cell, results: Mapping[Cell, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of a cell, beside the raw model of the same seed; NaN and None mark what was not measured."""
    assert cell.method is not None
    raw, found = results[Cell(cell.model, None, 0, cell.seed)], results[cell]
    task, nan = TASKS[work.task], float("nan")
    row = {"rows": len(work.y), "train_rows": found["train_rows"], "model": cell.model}
    row |= {"method": work.methods[cell.method].name, "label": cell.method, "k": cell.k, "seed": cell.seed}
    for name in task.scores:
        row |= {f"raw_{name}": raw[name], name: found.get(name, nan)}
        if name == task.score:
            row[f"{name}_loss"] = raw[name] - found.get(name, nan)
    row[task.baseline] = raw[task.baseline]
    row |= {
        name: found.get(name) for name in ("groups", "smallest_group", "median_group", "largest_group", "suppressed")
    }
    row |= {name: found.get(name, nan) for name in ("ncp", "seconds_anonymize", "seconds_train")}
    return row | {"error": found.get("error")}


def _settings(work: _Work, seeds: Sequence[int]) -> dict[str, Any]:
    """Return the settings of the evaluation, for people."""
    train, test = work.split(seeds[0])
    constraints = (one for method in work.methods.values() for one in method.options["constraints"])
    described = {repr(one): one.describe() for one in constraints}
    return {
        "rows": len(work.y),
        "target": target_of(work.schema).name,
        "features": features(work.schema),
        "quasi": [attribute.name for attribute in work.schema.quasi],
        "seeds": list(seeds),
        "train_rows": len(train),
        "test_rows": len(test),
        "constraints": list(described.values()),
        "recodings": sorted({method.options["recoding"] for method in work.methods.values()}),
    }
