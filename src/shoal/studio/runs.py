"""Runs of the studio: release a table with its settings, and measure privacy, loss and the score of a model."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from shoal.data import files, frames
from shoal.data.factored import FactoredFrame
from shoal.data.schema import Schema
from shoal.datasets import make_census
from shoal.errors import ShoalError
from shoal.evaluation.comparison import Comparison, compare, part_rows
from shoal.evaluation.scores import seeded, telling_why
from shoal.jobs.release import Release, anonymize
from shoal.models.targets import features
from shoal.privacy.models import show_level
from shoal.privacy.risk import SizeCounts
from shoal.studio.estimators import find_estimator
from shoal.studio.processes import Publish, Step
from shoal.studio.settings import Settings

TABLE, SCHEMA = "table.parquet", "schema.toml"
"""Files in the folder of a workspace."""
SAMPLE_ROWS = 12
TEST_SIZE = 0.2
SEED = 0


class Raw(NamedTuple):
    """Model of the raw rows for comparison; trained once per table and schema."""

    model: Any
    parts: Any
    rows: Any
    name: str
    estimator: Any
    """The same model, untrained."""


class Runner:
    """Task of the worker processes. Caches the last table and the last model of raw rows."""

    def __init__(self) -> None:
        self._stamp: tuple[Any, ...] = ()
        self._table: tuple[pl.DataFrame, Schema] | None = None
        self._raw: Raw | None = None

    def __call__(self, step: Step, show: Publish, keep: Publish, folder: Path, values: dict[str, Any]) -> None:
        """Release a table; publish its figures, the release, and the figures with the comparison of the models."""
        settings = Settings.from_dict(values)
        frame, schema = self._open(folder, step)
        release, figures = release_table(frame, schema, settings, step)
        show(figures | {"utility": None})
        keep(release)
        if settings.model is None or not schema.target:
            return
        try:
            raw = self._trained(settings.model, folder, step)
            utility = compare_models(frame, schema, settings, raw, step)
        except ShoalError as error:
            utility = {"error": str(error)}
        show(figures | {"utility": utility})

    def _open(self, folder: Path, step: Step) -> tuple[pl.DataFrame, Schema]:
        read = [(folder / name).stat() for name in (TABLE, SCHEMA)]
        stamp = (folder, *((one.st_mtime_ns, one.st_size) for one in read))
        if self._table is None or stamp != self._stamp:
            step("Reading the table")
            self._raw = None
            self._table = files.read_table(folder / TABLE), Schema.from_toml(folder / SCHEMA)
            self._stamp = stamp
        return self._table

    def _trained(self, name: str, folder: Path, step: Step) -> Raw:
        assert self._table is not None
        if self._raw is None or self._raw.name != name:
            frame, schema = self._table
            self._raw = train_raw(frame, schema, name, find_estimator(name, folder, schema), step)
        return self._raw


def make_runner() -> Runner:
    """Return a runner that has released a small table, so that imports and kernels are loaded."""
    census = make_census(300)
    anonymize(census.frame, census.schema, 5)
    return Runner()


def release_table(
    frame: pl.DataFrame, schema: Schema, settings: Settings, step: Step
) -> tuple[Release, dict[str, Any]]:
    """Return the release and its figures as plain values; ``step`` announces the next step, and may raise to stop."""
    begun = time.perf_counter()
    step("Grouping rows")
    release = anonymize_with(settings, frame, schema)
    step("Measuring")
    figures = {
        "settings": settings.to_dict(),
        "rows": frame.height,
        "groups": release.checked.groups,
        "suppressed": release.suppressed,
        "k": release.k,
        "sizes": count_sizes(release.checked.sizes),
        "loss": plain(release.loss._asdict()),
        "risk": release.risk._asdict(),
        "privacy": [
            {
                "model": one.model,
                "attribute": one.attribute,
                "level": show_level(one.level),
                "asked": None if one.asked is None else show_level(one.asked),
                "holds": one.holds,
            }
            for one in release.privacy
        ],
        "sample": draw_sample(frame, release),
        "findings": plain(release.findings),
        "seconds": time.perf_counter() - begun,
    }
    return release, figures


def anonymize_with(settings: Settings, frame: pl.DataFrame, schema: Schema, recoding: str | None = None) -> Release:
    """Release a table with these settings."""
    return anonymize(
        frame, settings.weighted(schema), settings.k, method=settings.method, constraints=settings.constraints(),
        recoding=recoding or settings.recoding, suppression=settings.suppression, random_state=SEED,
        **settings.options(),
    )  # fmt: skip


def count_sizes(sizes: SizeCounts) -> list[dict[str, Any]]:
    """Return the numbers of groups and rows per range of group sizes."""
    if not len(sizes.rows):
        return []
    low, high = int(sizes.rows[0]), int(sizes.rows[-1])
    edges = np.unique(np.rint(np.geomspace(low, high + 1, 13)).astype(int))
    found = []
    for start, stop in pairwise(edges.tolist()):
        inside = (sizes.rows >= start) & (sizes.rows < stop)
        if inside.any():
            label = f"{start}" if stop - start == 1 else f"{start}–{stop - 1}"
            rows = (sizes.rows * sizes.groups)[inside]
            found.append({"size": label, "groups": int(sizes.groups[inside].sum()), "rows": int(rows.sum())})
    return found


def draw_sample(frame: pl.DataFrame, release: Release) -> dict[str, Any]:
    """Return some rows before and after anonymization."""
    n = len(release.labels)
    chosen = np.sort(np.random.default_rng(SEED).choice(n, min(SAMPLE_ROWS, n), replace=False))
    after = release.frame[chosen.tolist()]
    before = frame[release.rows[chosen].tolist()].select(after.columns)
    texts = [[[_text(cell) for cell in row] for row in part.rows()] for part in (before, after)]
    return {"columns": after.columns, "rows": release.rows[chosen].tolist(), "before": texts[0], "after": texts[1]}


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def plain(value: Any) -> Any:
    """Convert a value to one that JSON can represent."""
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def train_raw(frame: pl.DataFrame, schema: Schema, name: str, estimator: Any, step: Step) -> Raw:
    """Train a model on raw rows; hold out some of them for the comparison."""
    step(f"Training a {name} on raw rows")
    opened = frames.open_frame(frame)
    parts = part_rows(FactoredFrame.of(opened), schema, None, TEST_SIZE, SEED)
    rows = opened[parts.rows].select(features(schema)).to_native()
    with telling_why(name):
        return Raw(seeded(estimator, SEED).fit(rows, parts.y), parts, rows, name, estimator)


def compare_models(frame: pl.DataFrame, schema: Schema, settings: Settings, raw: Raw, step: Step) -> dict[str, Any]:
    """Compare a model trained on raw rows with one trained on their release, on held-out rows."""
    step(f"Training a {raw.name} on the release")
    parts, names = raw.parts, features(schema)
    release = anonymize_with(settings, frame[parts.rows.tolist()], schema, settings.recoding_for_models)
    released, y = release.frame.select(names), parts.y[release.rows]
    with telling_why(raw.name):
        retrained = seeded(raw.estimator, SEED).fit(released, y)
    step("Comparing the models")
    seen = parts.held_out.frame.select(names).to_native()
    found: Comparison = compare(raw.model, retrained, seen, parts.truth, (raw.rows, parts.y), (released, y), schema)
    return {
        "model": raw.name,
        "score": found.score,
        "before": plain(found.before._asdict()),
        "after": plain(found.after._asdict()),
        "change": plain(found.change._asdict()),
        "rows": found.rows,
    }
