"""Release a table as it is set, and measure what that gains and costs: everything that the page about it shows."""

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
from shoal.evaluation.plan import usable_recoding
from shoal.evaluation.scores import seeded, telling_why
from shoal.jobs.release import Release, anonymize
from shoal.models.targets import features
from shoal.privacy.models import show_level
from shoal.privacy.risk import SizeCounts
from shoal.studio.estimators import find_estimator
from shoal.studio.settings import Settings
from shoal.studio.work import Step, Take

TABLE, SCHEMA = "table.parquet", "schema.toml"
"""Files of a desk."""
SAMPLE_ROWS = 12
TEST_SIZE = 0.2
SEED = 0


class Raw(NamedTuple):
    """A model of the raw rows, to compare with; trained once for a table and schema."""

    model: Any
    parts: Any
    rows: Any
    name: str
    estimator: Any
    """The same, untrained."""


class Shaper:
    """Releases tables of desks as they are set; keeps the table and the model of raw rows that it has seen last."""

    def __init__(self) -> None:
        self._stamp: tuple[Any, ...] = ()
        self._table: tuple[pl.DataFrame, Schema] | None = None
        self._raw: Raw | None = None

    def __call__(self, step: Step, show: Take, keep: Take, folder: Path, set_to: dict[str, Any]) -> None:
        """Release a table; shows figures, and again when models were compared, and has the release kept."""
        settings = Settings.from_dict(set_to)
        frame, schema = self._open(folder, step)
        release, figures = shape(frame, schema, settings, step)
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


def make_shaper() -> Shaper:
    """One that has released something before, so that what it needs most is loaded or compiled."""
    census = make_census(300)
    anonymize(census.frame, census.schema, 5)
    return Shaper()


def shape(frame: pl.DataFrame, schema: Schema, settings: Settings, step: Step) -> tuple[Release, dict[str, Any]]:
    """Release the table, with figures as plain values; ``step`` is told what is done next, and may raise to stop it."""
    begun = time.perf_counter()
    step("Grouping rows")
    weighted = settings.weighted(schema)
    release = anonymize(
        frame,
        weighted,
        settings.k,
        method=settings.method,
        constraints=settings.constraints(),
        suppression=settings.suppression,
        random_state=SEED,
        **settings.options(),
    )
    step("Measuring")
    figures = {
        "settings": settings.to_dict(),
        "rows": frame.height,
        "groups": release.checked.groups,
        "suppressed": release.suppressed,
        "k": release.k,
        "sizes": count_sizes(release.checked.sizes),
        "loss": {"ncp": release.loss.ncp, "by_attribute": dict(release.loss.by_attribute)},
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


def count_sizes(sizes: SizeCounts) -> list[dict[str, Any]]:
    """How many groups, and rows in them, are of each size, in a few ranges that grow."""
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
    """Some rows before and after, and which of their cells were changed."""
    n = len(release.labels)
    chosen = np.sort(np.random.default_rng(SEED).choice(n, min(SAMPLE_ROWS, n), replace=False))
    after = release.frame[chosen.tolist()]
    before = frame[release.rows[chosen].tolist()].select(after.columns)
    texts = [[[_text(cell) for cell in row] for row in part.rows()] for part in (before, after)]
    return {"columns": after.columns, "rows": release.rows[chosen].tolist(), "before": texts[0], "after": texts[1]}


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
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
    """Train a model on raw rows; a part is held out to compare on."""
    step(f"Training a {name} on raw rows")
    opened = frames.open_frame(frame)
    parts = part_rows(FactoredFrame.of(opened), schema, None, TEST_SIZE, SEED)
    rows = opened[parts.rows].select(features(schema)).to_native()
    with telling_why(name):
        return Raw(seeded(estimator, SEED).fit(rows, parts.y), parts, rows, name, estimator)


def compare_models(frame: pl.DataFrame, schema: Schema, settings: Settings, raw: Raw, step: Step) -> dict[str, Any]:
    """What a model loses that is trained on a release of the training rows, on rows that it has not seen."""
    step(f"Training a {raw.name} on the release")
    parts, names = raw.parts, features(schema)
    release = anonymize(
        frame[parts.rows.tolist()],
        settings.weighted(schema),
        settings.k,
        method=settings.method,
        constraints=settings.constraints(),
        recoding=usable_recoding(settings.method, None),
        suppression=settings.suppression,
        random_state=SEED,
        **settings.options(),
    )
    released, y = release.frame.select(names), parts.y[release.rows]
    with telling_why(raw.name):
        retrained = seeded(raw.estimator, SEED).fit(released, y)
    step("Comparing both")
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
