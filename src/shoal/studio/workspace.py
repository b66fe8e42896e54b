"""The workspace of one person: a table, its schema, the release settings and the results. It knows no widget."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from shoal._kernels import ahead
from shoal.anonymizers.flash import Flash
from shoal.data import files, frames
from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.schema import Attribute, Recipe, Schema
from shoal.datasets import make_census
from shoal.errors import DataError, ShoalError
from shoal.jobs.release import Release
from shoal.jobs.weights import Question, WeightSession
from shoal.privacy.checking import check
from shoal.privacy.risk import Risk
from shoal.studio import audits, hierarchies
from shoal.studio.estimators import take_model
from shoal.studio.processes import BackgroundTask, LatestTask, Progress, WorkerPool
from shoal.studio.runs import SCHEMA, TABLE, make_runner
from shoal.studio.settings import Settings
from shoal.studio.store import Store

MOST_ROWS = 20_000_000
BARS = 20
MOST_VARIANTS = 50
MOST_CENSUS = 1_000_000
NO_TABLE = "No table is open: open a file or the demo first."
POOL = WorkerPool(make_runner)
"""Worker processes that release tables for all workspaces."""


class ColumnView(NamedTuple):
    """Column as a page shows it."""

    name: str
    kind: str
    role: str
    weight: float
    reason: str
    hierarchy: str
    """Description in words; empty for a column without a hierarchy."""
    values: int
    missing: int
    labels: list[str]
    """Labels of the bars of its distribution."""
    counts: list[int]


class Workspace:
    """The work of one person. Every change is saved before the call returns.

    Parameters
    ----------
    name : str
        Key of the workspace in the store.
    store : Store
        Store that saves the state and the files.
    root : path
        Folder whose files may be opened.
    trust : bool
        If True, model files that can run arbitrary code (pickles) are loaded.
    """

    def __init__(self, name: str, store: Store, root: Path, *, trust: bool = False) -> None:
        self.name = name
        self.runs = LatestTask(POOL)
        self._store = store
        self._root = root.resolve()
        self._trust = trust
        self._lock = threading.RLock()
        self._releasing = threading.Lock()
        self._frame: pl.DataFrame | None = None
        self._schema: Schema | None = None
        self._session: WeightSession | None = None
        self._question: Question | None = None
        self._audit_task: BackgroundTask | None = None
        self._views: dict[str, tuple[int, int, list[str], list[int]]] = {}
        self._state: dict[str, Any] = {"source": None, "settings": Settings().to_dict(), "variants": []}
        kept = store.load(name)
        if kept is not None:
            self._state |= kept

    # Data

    @property
    def folder(self) -> Path:
        """Folder of its files."""
        return self._store.folder_of(self.name)

    @property
    def source(self) -> dict[str, Any] | None:
        """Name, number of rows and number of columns of the open table."""
        found: dict[str, Any] | None = self._state["source"]
        return found

    def open_census(self, rows: int = 30_000, seed: int = 0) -> None:
        """Open a synthetic census."""
        if not 100 <= rows <= MOST_CENSUS:
            raise ShoalError(f"rows={rows}: choose a census of 100 to {MOST_CENSUS:,} people.")
        census = make_census(rows, seed)
        self._set_table(census.frame, census.schema, "census")

    def open_path(self, path: str | Path) -> None:
        """Open a file in the root folder, with the schema next to it if there is one."""
        wanted = Path(path)
        resolved = (wanted if wanted.is_absolute() else self._root / wanted).resolve()
        if not resolved.is_relative_to(self._root):
            raise DataError(
                f"{str(path)!r} is outside the folder of the studio: move the file there, or restart with --folder."
            )
        if not resolved.is_file():
            raise DataError(f"There is no file {str(path)!r}: check the name.")
        self.open_file(resolved, resolved.name)

    def open_file(self, path: Path, name: str) -> None:
        """Open a file under a name; use the schema next to it if there is one."""
        try:
            frame = files.read_table(path)
        except DataError as error:
            # The person has never seen the temporary name of an upload.
            raise DataError(str(error).replace(repr(str(path)), repr(name))) from None
        frames.require_rows(frames.open_frame(frame))
        if frame.height > MOST_ROWS:
            raise DataError(f"{name!r} has {frame.height:,} rows, more than the studio takes: use the command line.")
        beside = path.with_suffix(".toml")
        schema = Schema.from_toml(beside) if beside.is_file() else Schema.infer(frame)
        self._set_table(frame, schema, name)

    def files(self) -> list[str]:
        """Return the names of the tables in the root folder."""
        endings = files.CSV | files.PARQUET
        found = sorted(one for one in self._root.glob("*") if one.suffix.lower() in endings and one.is_file())
        return [one.name for one in found[:200]]

    def _set_table(self, frame: pl.DataFrame, schema: Schema, name: str) -> None:
        with self._lock:
            self.stop_audit()
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            files.write_table(frames.open_frame(frame), self.folder / TABLE)
            self._frame, self._schema, self._views, self._session, self._question = frame, schema, {}, None, None
            self.runs.reset()
            source = {"name": name, "rows": frame.height, "columns": frame.width}
            blank: dict[str, Any] = {"settings": Settings().to_dict(), "variants": [], "duel": None, "audit": None}
            self._state = {"source": source} | blank
            self._set_schema(schema)

    @property
    def frame(self) -> pl.DataFrame:
        """Open table."""
        found = self._frame
        return self.read()[0] if found is None else found

    @property
    def schema(self) -> Schema:
        """Schema of the open table."""
        found = self._schema
        return self.read()[1] if found is None else found

    def read(self) -> tuple[pl.DataFrame, Schema]:
        """Return table and schema; read them from their files if they are not in memory. Only this call blocks."""
        with self._lock:
            if self.source is None:
                raise ShoalError(NO_TABLE)
            if self._frame is None:
                self._frame = files.read_table(self.folder / TABLE)
            if self._schema is None:
                read = Schema.from_toml(self.folder / SCHEMA)
                self._schema = Schema(read.attributes, reasons=self._state.get("reasons", {}))
            return self._frame, self._schema

    def _set_schema(self, schema: Schema) -> None:
        schema.to_toml(self.folder / SCHEMA)
        self._schema = schema
        self.runs.reset()  # its figures and release belong to the previous schema
        self._state["reasons"] = dict(schema.reasons)
        self._state["columns"] = self._state.get("columns", 0) + 1  # version of the schema
        self._forget_decisions()
        self._keep()

    def columns(self) -> list[ColumnView]:
        """Return all columns with their distributions."""
        schema = self.schema
        return [self._view(attribute, schema.reasons.get(attribute.name, "")) for attribute in schema]

    def _view(self, attribute: Attribute, reason: str) -> ColumnView:
        if attribute.name not in self._views:
            self._views[attribute.name] = _distribution(self.frame, attribute)
        n_values, missing, labels, counts = self._views[attribute.name]
        return ColumnView(
            attribute.name, attribute.kind, attribute.role, attribute.weight, reason, _in_words(attribute.hierarchy),
            n_values, missing, labels, counts,
        )  # fmt: skip

    def set_attribute(self, name: str, **changes: Any) -> None:
        """Change the role or kind of a column."""
        with self._lock:
            attribute = self.schema[name]
            if changes.get("kind", attribute.kind) != "ordinal":
                changes["order"] = None
            if changes.get("kind", attribute.kind) == "numeric":
                changes["hierarchy"] = None
                if not self.frame[name].dtype.is_numeric() and not self.frame[name].dtype.is_temporal():
                    raise DataError(f"Column {name!r} holds texts, not numbers: choose ordinal or nominal.")
            self._replace(replace(attribute, **changes))
            self._views.pop(name, None)

    def _replace(self, attribute: Attribute) -> None:
        schema = self.schema
        changed = (attribute if one.name == attribute.name else one for one in schema)
        self._set_schema(Schema(changed, reasons=schema.reasons))

    def raw_risk(self) -> Risk:
        """Return the risk of re-identification in the raw table."""
        self._require_quasi()
        return check(self.frame, self.schema).risk

    def _require_quasi(self) -> None:
        if not self.schema.quasi:
            raise ShoalError("No column is a quasi-identifier: set this role on the page Data.")

    # Hierarchies

    def hierarchy(self, name: str) -> Hierarchy | None:
        """Return the hierarchy of a column; build it if the schema holds a recipe."""
        found = self.schema[name].hierarchy
        return found.build(self._counts(name)) if isinstance(found, Recipe) else found

    def set_hierarchy(self, name: str, hierarchy: Hierarchy | None) -> None:
        """Set the hierarchy of a column, which must cover all of its values; None removes it."""
        with self._lock:
            attribute = self.schema[name]
            if hierarchy is not None:
                hierarchy.check_covers(self._counts(name), name)
                if attribute.kind == "numeric":
                    attribute = replace(attribute, kind="nominal")
            self._replace(replace(attribute, hierarchy=hierarchy))

    def build_hierarchy(self, name: str, how: str, option: Any = True) -> None:
        """Build the hierarchy of a column from its values."""
        self.set_hierarchy(name, hierarchies.build(how, self._counts(name), option))

    def change_hierarchy(self, name: str, change: Callable[[Hierarchy], Hierarchy]) -> None:
        """Change the hierarchy of a column."""
        found = self.hierarchy(name)
        if found is None:
            raise ShoalError(f"Column {name!r} has no hierarchy: build or load one first.")
        self.set_hierarchy(name, change(found))

    def _counts(self, name: str) -> dict[str, int]:
        factor = frames.factorize(frames.open_frame(self.frame)[name])
        sizes = np.bincount(factor.codes[factor.codes >= 0], minlength=len(factor.values))
        return {str(value): int(size) for value, size in zip(factor.values.tolist(), sizes.tolist(), strict=True)}

    # Settings and runs

    @property
    def settings(self) -> Settings:
        """Release settings."""
        return Settings.from_dict(self._state["settings"])

    def change(self, **changes: Any) -> Settings:
        """Change some settings; weights that are not named keep their values."""
        with self._lock:
            quasi = [attribute.name for attribute in self.schema.quasi]
            for name in changes.get("weights") or {}:
                if name not in quasi:
                    raise ShoalError(f"Only quasi-identifiers have weights, {name!r} does not: use {', '.join(quasi)}.")
            if "weights" in changes:
                changes["weights"] = self.settings.weights | dict(changes["weights"] or {})
            settings = self.settings.changed(**changes)
            if "weights" in changes and self._session is not None:
                self._session.set_weights(self._all_weights(settings))  # first, because it may refuse them
                self._question = None
                self._state["duel"] = self._session.to_dict()
            self._state["settings"] = settings.to_dict()
            self._keep()
            return settings

    def start_run(self) -> int:
        """Release the table with the current settings in the background; return the ticket of the run."""
        settings = self.settings
        self._require_quasi()
        return self.runs.submit(settings.method, self.folder, settings.to_dict())

    def use_model(self, path: Path, name: str) -> str:
        """Train the model of a file from now on; return its name."""
        if self.source is None:
            raise ShoalError(NO_TABLE)
        kept = take_model(path, name, self.folder, trust=self._trust)
        self.change(model=kept)
        return kept

    def progress(self) -> Progress:
        """Return the progress and the results of the newest run."""
        return self.runs.progress

    def release(self) -> Release:
        """Return the release with the current settings; run it if needed."""
        with self._releasing:
            progress = self.progress()
            if progress.running:
                progress = self.runs.wait(progress.ticket)
            while not self._is_current(progress):
                progress = self.runs.wait(self.start_run())
                if progress.error and not progress.running:
                    raise ShoalError(progress.error)
            found: Release = progress.payload
            return found

    def _is_current(self, progress: Progress) -> bool:
        """Return True if the run has ended and used the current settings."""
        if progress.running or progress.error or progress.result is None:
            return False
        return bool(progress.result["settings"] == self.settings.to_dict())

    # Decisions about weights

    def weight_session(self) -> WeightSession:
        """Return the session that learns weights from decisions."""
        with self._lock:
            if self._session is None:
                kept = self._state.get("duel")
                if kept is not None:
                    self._session = WeightSession.from_dict(kept, self.frame, self.schema)
                else:
                    k, weights = self.settings.k, self._all_weights(self.settings)
                    self._session = WeightSession(self.frame, self.schema, k=k, weights=weights, random_state=0)
            return self._session

    def ask(self) -> Question:
        """Return the open question."""
        ahead.wait("questions")
        with self._lock:
            if self._question is None:
                self._question = self.weight_session().ask()
            return self._question

    def answer(self, choice: str) -> None:
        """Answer the open question, or skip it, and update the weights."""
        with self._lock:
            self.ask()
            self.weight_session().answer(choice)
            self._after_decision()

    def undo(self) -> None:
        """Undo the last decision."""
        with self._lock:
            self.weight_session().undo()
            self._after_decision()

    def _after_decision(self) -> None:
        session = self.weight_session()
        self._question = None
        weights = {name: round(float(weight), 4) for name, weight in session.weights.items()}
        self._state["settings"] = self.settings.changed(weights=weights).to_dict()
        self._state["duel"] = session.to_dict()
        self._keep()

    def restart_decisions(self) -> None:
        """Delete all decisions; keep the weights."""
        with self._lock:
            self._forget_decisions()
            self._keep()

    def _forget_decisions(self) -> None:
        self._session = self._question = None
        self._state["duel"] = None

    def _all_weights(self, settings: Settings) -> dict[str, float]:
        return {one.name: settings.weights.get(one.name, 1.0) for one in self.schema.quasi}

    # Variants

    @property
    def variants(self) -> list[dict[str, Any]]:
        """Saved settings with their figures; ``outdated`` marks those of an earlier schema."""
        now = self._state.get("columns", 0)
        return [one | {"outdated": one.get("columns", 0) != now} for one in self._state["variants"]]

    def keep_variant(self, name: str) -> dict[str, Any]:
        """Save the current settings and their figures under a name."""
        name = name.strip()
        if not name or len(name) > 80:
            raise ShoalError("A variant needs a name of up to 80 characters.")
        release = self.release()
        figures = self.runs.wait(self.progress().ticket).result
        with self._lock:
            others = [one for one in self._state["variants"] if one["name"] != name]
            if len(others) >= MOST_VARIANTS:
                raise ShoalError(f"There are {MOST_VARIANTS} variants already: delete one first.")
            variant = {"name": name} | {key: value for key, value in figures.items() if key != "sample"}
            variant |= {"k": release.k, "columns": self._state.get("columns", 0)}
            self._state["variants"] = [*others, variant]
            self._keep()
            return variant

    def drop_variant(self, name: str) -> None:
        """Delete a variant."""
        with self._lock:
            self._state["variants"].remove(self._variant(name))
            self._keep()

    def use_variant(self, name: str) -> None:
        """Restore the settings of a variant."""
        with self._lock:
            self._state["settings"] = Settings.from_dict(self._variant(name)["settings"]).to_dict()
            self._forget_decisions()
            self._keep()

    def _variant(self, name: str) -> dict[str, Any]:
        for one in self._state["variants"]:
            if one["name"] == name:
                return one  # type: ignore[no-any-return]
        raise ShoalError(f"There is no variant {name!r}: choose one of the list.")

    def lattice(self) -> Any:
        """Return the lattice that Flash searches with the current settings."""
        settings = self.settings
        flash = Flash(
            settings.weighted(self.schema),
            settings.k,
            constraints=settings.constraints(),
            suppression=settings.suppression,
        )
        return flash.fit(self.frame).lattice_

    # Audit

    def start_audit(self, references: int = 4) -> None:
        """Attack a model of the raw rows and one of the release, in a process of its own."""
        if references not in range(0, 65, 2):
            raise ShoalError(f"references={references!r}: choose an even number from 0 to 64.")
        with self._lock:
            if not self.schema.target:
                raise ShoalError("No column is the target of a model: set this role on the page Data.")
            settings = self.settings
            if settings.model is None:
                raise ShoalError("No model is selected: select one on the page Shape.")
            self.stop_audit()
            columns = self._state.get("columns", 0)
            self._state["audit"] = {"settings": settings.to_dict(), "columns": columns, "status": "running"}
            self._keep()
            self._audit_task = BackgroundTask(audits.attack, self.folder, settings.to_dict(), references)

    def audit(self) -> dict[str, Any]:
        """Return the status, the current step and the results of the audit."""
        with self._lock:
            found: dict[str, Any] | None = self._state.get("audit")
            if found is None:
                return {"status": "none", "step": "", "error": "", "current": False}
            if found["status"] == "running":
                if self._audit_task is None:
                    self._end_audit("interrupted")
                else:
                    self._audit_task.poll()
                    if self._audit_task.ended:
                        self._end_audit("failed" if self._audit_task.error else "done", self._audit_task.error)
            found = dict(self._state["audit"])
            step = "" if self._audit_task is None else self._audit_task.step
            columns = self._state.get("columns", 0)
            current = found["settings"] == self._state["settings"] and found.get("columns", 0) == columns
            return {"error": ""} | found | {"step": step, "current": current}

    def stop_audit(self) -> None:
        """Stop the audit if one is running."""
        with self._lock:
            if self._audit_task is not None:
                self._audit_task.stop()
                if (self._state.get("audit") or {}).get("status") == "running":
                    self._end_audit("stopped")

    def _end_audit(self, status: str, error: str = "") -> None:
        self._audit_task = None
        self._state["audit"] |= {"status": status, "error": error}
        if status == "done":
            self._state["audit"]["summary"] = audits.read_summary(self.folder)
        self._keep()

    # State

    def close(self) -> None:
        """Stop the audit and the runs."""
        self.stop_audit()
        self.runs.reset()

    def _keep(self) -> None:
        self._store.save(self.name, self._state)


def _in_words(hierarchy: Hierarchy | Recipe | None) -> str:
    if hierarchy is None:
        return ""
    if isinstance(hierarchy, Recipe):
        return f"built from {hierarchies.BUILDERS[hierarchy.builder]}"
    return f"{hierarchy.n_leaves:,} values, {hierarchy.height} level{'s' if hierarchy.height != 1 else ''}"


def _distribution(frame: pl.DataFrame, attribute: Attribute) -> tuple[int, int, list[str], list[int]]:
    """Return the numbers of distinct and missing values, and the bars: numeric ranges or the most frequent values."""
    series = frame[attribute.name]
    factor = frames.factorize(frames.open_frame(frame)[attribute.name])
    known = factor.codes[factor.codes >= 0]
    sizes = np.bincount(known, minlength=len(factor.values))
    missing, n = len(series) - len(known), len(factor.values)
    if attribute.kind == "numeric" and factor.content == "number" and n > BARS:
        numbers = factor.values.astype(float)
        counts, edges = np.histogram(numbers, bins=BARS, weights=sizes)
        return n, missing, [f"{edge:.4g}" for edge in edges[:-1]], counts.astype(int).tolist()
    order = np.arange(n) if attribute.kind != "nominal" and n <= BARS else np.argsort(-sizes, kind="stable")[:BARS]
    return n, missing, [str(factor.values[i]) for i in order], sizes[order].tolist()
