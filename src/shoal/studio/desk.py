"""One person's desk: a table, what its columns are, how it is to be released, what was found. It knows no widget."""

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
from shoal.studio import audits, trees
from shoal.studio.estimators import take_model
from shoal.studio.settings import Settings
from shoal.studio.shaping import SCHEMA, TABLE, make_shaper
from shoal.studio.store import Store
from shoal.studio.work import Errand, Latest, Progress, WorkerPool

MOST_ROWS = 20_000_000
BARS = 20
MOST_VARIANTS = 50
MOST_CENSUS = 1_000_000
NOTHING = "No table is open: open a file or the demo first."
CREW = WorkerPool(make_shaper)
"""Who releases tables for all desks."""


class ColumnView(NamedTuple):
    """A column as a page shows it."""

    name: str
    kind: str
    role: str
    weight: float
    reason: str
    hierarchy: str
    """In words; empty if there is none."""
    values: int
    missing: int
    labels: list[str]
    """Of the bars of its distribution."""
    counts: list[int]


class Workspace:
    """What one person works at. Every change is kept before the call returns.

    Parameters
    ----------
    name : str
        By which the store keeps it.
    store : Store
    workspace : path
        Files outside of it are not opened.
    trust : bool
        Whether models are loaded from files that run the code of their makers.
    """

    def __init__(self, name: str, store: Store, workspace: Path, *, trust: bool = False) -> None:
        self.name = name
        self.shaping = Latest(CREW)
        self._store = store
        self._workspace = workspace.resolve()
        self._trust = trust
        self._lock = threading.RLock()
        self._releasing = threading.Lock()
        self._frame: pl.DataFrame | None = None
        self._schema: Schema | None = None
        self._duel: WeightSession | None = None
        self._question: Question | None = None
        self._errand: Errand | None = None
        self._views: dict[str, tuple[int, int, list[str], list[int]]] = {}
        self._state: dict[str, Any] = {"source": None, "settings": Settings().to_dict(), "variants": []}
        kept = store.load(name)
        if kept is not None:
            self._state |= kept

    # Data

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._store.folder_of(self.name)

    @property
    def source(self) -> dict[str, Any] | None:
        """Name, rows and columns of the table that is open."""
        found: dict[str, Any] | None = self._state["source"]
        return found

    def open_census(self, rows: int = 30_000, seed: int = 0) -> None:
        """Open people who are nobody."""
        if not 100 <= rows <= MOST_CENSUS:
            raise ShoalError(f"rows={rows}: choose a census of 100 to {MOST_CENSUS:,} people.")
        census = make_census(rows, seed)
        self._lay(census.frame, census.schema, "census")

    def open_path(self, path: str | Path) -> None:
        """Open a file of the workspace, with the schema beside it if there is one."""
        wanted = Path(path)
        resolved = (wanted if wanted.is_absolute() else self._workspace / wanted).resolve()
        if not resolved.is_relative_to(self._workspace):
            raise DataError(
                f"{str(path)!r} is outside of the folder that the studio was started for: put the file there, or start "
                "it with --folder."
            )
        if not resolved.is_file():
            raise DataError(f"There is no file {str(path)!r}: check the name.")
        self.open_file(resolved, resolved.name)

    def open_file(self, path: Path, name: str) -> None:
        """Open a file under a name; a schema that lies beside it is taken over."""
        try:
            frame = files.read_table(path)
        except DataError as error:
            # An upload lies under a name that the person has never seen.
            raise DataError(str(error).replace(repr(str(path)), repr(name))) from None
        frames.require_rows(frames.open_frame(frame))
        if frame.height > MOST_ROWS:
            raise DataError(f"{name!r} has {frame.height:,} rows, more than a page can handle: use the command line.")
        beside = path.with_suffix(".toml")
        schema = Schema.from_toml(beside) if beside.is_file() else Schema.infer(frame)
        self._lay(frame, schema, name)

    def files(self) -> list[str]:
        """Tables in the workspace that can be opened."""
        endings = files.CSV | files.PARQUET
        found = sorted(one for one in self._workspace.glob("*") if one.suffix.lower() in endings and one.is_file())
        return [one.name for one in found[:200]]

    def _lay(self, frame: pl.DataFrame, schema: Schema, name: str) -> None:
        with self._lock:
            self.stop_audit()
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            files.write_table(frames.open_frame(frame), self.folder / TABLE)
            self._frame, self._schema, self._views, self._duel, self._question = frame, schema, {}, None, None
            self.shaping.forget()
            source = {"name": name, "rows": frame.height, "columns": frame.width}
            blank: dict[str, Any] = {"settings": Settings().to_dict(), "variants": [], "duel": None, "audit": None}
            self._state = {"source": source} | blank
            self._set_schema(schema)

    @property
    def frame(self) -> pl.DataFrame:
        """The table."""
        found = self._frame
        return self.read()[0] if found is None else found

    @property
    def schema(self) -> Schema:
        """What its columns are."""
        found = self._schema
        return self.read()[1] if found is None else found

    def read(self) -> tuple[pl.DataFrame, Schema]:
        """Table and schema, read from their files if that was not done since the start; only this waits for others."""
        with self._lock:
            if self.source is None:
                raise ShoalError(NOTHING)
            if self._frame is None:
                self._frame = files.read_table(self.folder / TABLE)
            if self._schema is None:
                read = Schema.from_toml(self.folder / SCHEMA)
                self._schema = Schema(read.attributes, reasons=self._state.get("reasons", {}))
            return self._frame, self._schema

    def _set_schema(self, schema: Schema) -> None:
        schema.to_toml(self.folder / SCHEMA)
        self._schema = schema
        self.shaping.forget()  # figures and the release are those of the schema before
        self._state["reasons"] = dict(schema.reasons)
        self._state["columns"] = self._state.get("columns", 0) + 1  # counts what columns have been
        self._forget_duel()
        self._keep()

    def columns(self) -> list[ColumnView]:
        """Every column with its distribution."""
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
        """Give a column another role or kind."""
        with self._lock:
            attribute = self.schema[name]
            if changes.get("kind", attribute.kind) != "ordinal":
                changes["order"] = None
            if changes.get("kind", attribute.kind) == "numeric":
                changes["hierarchy"] = None
                if not self.frame[name].dtype.is_numeric() and not self.frame[name].dtype.is_temporal():
                    raise DataError(f"Column {name!r} holds texts, not numbers: it can be ordinal or nominal.")
            self._replace(replace(attribute, **changes))
            self._views.pop(name, None)

    def _replace(self, attribute: Attribute) -> None:
        schema = self.schema
        changed = (attribute if one.name == attribute.name else one for one in schema)
        self._set_schema(Schema(changed, reasons=schema.reasons))

    def raw_risk(self) -> Risk:
        """How exposed people are before anything is done."""
        if not self.schema.quasi:
            raise ShoalError("No column is a quasi-identifier: give one that role, and the risk can be told.")
        return check(self.frame, self.schema).risk

    # Hierarchies

    def hierarchy(self, name: str) -> Hierarchy | None:
        """The hierarchy of a column; a recipe is carried out."""
        found = self.schema[name].hierarchy
        return found.build(self._counts(name)) if isinstance(found, Recipe) else found

    def set_hierarchy(self, name: str, hierarchy: Hierarchy | None) -> None:
        """Give a column a hierarchy that covers all of its values, or none."""
        with self._lock:
            attribute = self.schema[name]
            if hierarchy is not None:
                hierarchy.check_covers(self._counts(name), name)
                if attribute.kind == "numeric":
                    attribute = replace(attribute, kind="nominal")
            self._replace(replace(attribute, hierarchy=hierarchy))

    def build_hierarchy(self, name: str, how: str, option: Any = True) -> None:
        """Build a hierarchy from the values of a column."""
        self.set_hierarchy(name, trees.build(how, self._counts(name), option))

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

    # Shape

    @property
    def settings(self) -> Settings:
        """How the table is to be released."""
        return Settings.from_dict(self._state["settings"])

    def change(self, **changes: Any) -> Settings:
        """Change some settings; weights are joined with those that are set."""
        with self._lock:
            quasi = [attribute.name for attribute in self.schema.quasi]
            for name in changes.get("weights") or {}:
                if name not in quasi:
                    raise ShoalError(f"{name!r} is no quasi-identifier, and has no weight: choose {', '.join(quasi)}.")
            if "weights" in changes:
                changes["weights"] = self.settings.weights | dict(changes["weights"] or {})
            settings = self.settings.changed(**changes)
            if "weights" in changes and self._duel is not None:
                self._duel.set_weights(self._all_weights(settings))  # first, as it may refuse them
                self._question = None
                self._state["duel"] = self._duel.to_dict()
            self._state["settings"] = settings.to_dict()
            self._keep()
            return settings

    def start(self) -> int:
        """Release the table as it is set, beside everything else; returns the ticket of the run."""
        settings = self.settings
        if not self.schema.quasi:
            raise ShoalError("No column is a quasi-identifier: give one that role on the page Data.")
        return self.shaping.ask(settings.method, self.folder, settings.to_dict())

    def bring_model(self, path: Path, name: str) -> str:
        """Take a model from a file, and train it from now on; returns its name."""
        if self.source is None:
            raise ShoalError(NOTHING)
        kept = take_model(path, name, self.folder, trust=self._trust)
        self.change(model=kept)
        return kept

    def shaped(self) -> Progress:
        """How far the newest run is, and what it found."""
        return self.shaping.progress

    def release(self) -> Release:
        """The release as it is set now; made anew if need be."""
        with self._releasing:
            progress = self.shaped()
            if progress.running:
                progress = self.shaping.wait(progress.ticket)
            while not self._is_current(progress):
                progress = self.shaping.wait(self.start())
                if progress.error and not progress.running:
                    raise ShoalError(progress.error)
            found: Release = progress.behind
            return found

    def _is_current(self, progress: Progress) -> bool:
        """Whether a run has ended that was made as everything is set now."""
        if progress.running or progress.error or progress.result is None:
            return False
        return bool(progress.result["settings"] == self.settings.to_dict())

    # The duel

    def duel(self) -> WeightSession:
        """The questions and answers so far."""
        with self._lock:
            if self._duel is None:
                kept = self._state.get("duel")
                if kept is not None:
                    self._duel = WeightSession.from_dict(kept, self.frame, self.schema)
                else:
                    k, weights = self.settings.k, self._all_weights(self.settings)
                    self._duel = WeightSession(self.frame, self.schema, k=k, weights=weights, random_state=0)
            return self._duel

    def ask(self) -> Question:
        """The question that is open."""
        ahead.wait("questions")
        with self._lock:
            if self._question is None:
                self._question = self.duel().ask()
            return self._question

    def answer(self, choice: str) -> None:
        """Decide, or skip; weights follow at once."""
        with self._lock:
            self.ask()
            self.duel().answer(choice)
            self._after_decision()

    def undo(self) -> None:
        """Take the last decision back."""
        with self._lock:
            self.duel().undo()
            self._after_decision()

    def _after_decision(self) -> None:
        duel = self.duel()
        self._question = None
        weights = {name: round(float(weight), 4) for name, weight in duel.weights.items()}
        self._state["settings"] = self.settings.changed(weights=weights).to_dict()
        self._state["duel"] = duel.to_dict()
        self._keep()

    def restart_duel(self) -> None:
        """Forget all decisions; weights stay as they are."""
        with self._lock:
            self._forget_duel()
            self._keep()

    def _forget_duel(self) -> None:
        self._duel = self._question = None
        self._state["duel"] = None

    def _all_weights(self, settings: Settings) -> dict[str, float]:
        return {one.name: settings.weights.get(one.name, 1.0) for one in self.schema.quasi}

    # Variants

    @property
    def variants(self) -> list[dict[str, Any]]:
        """Settings and figures that were kept, by name; ``outdated`` if columns were something else then."""
        now = self._state.get("columns", 0)
        return [one | {"outdated": one.get("columns", 0) != now} for one in self._state["variants"]]

    def keep_variant(self, name: str) -> dict[str, Any]:
        """Keep the figures of the present settings under a name."""
        name = name.strip()
        if not name or len(name) > 80:
            raise ShoalError("A variant needs a name of up to 80 characters.")
        release = self.release()
        figures = self.shaping.wait(self.shaped().ticket).result
        with self._lock:
            others = [one for one in self._state["variants"] if one["name"] != name]
            if len(others) >= MOST_VARIANTS:
                raise ShoalError(f"There are {MOST_VARIANTS} variants already: drop one first.")
            variant = {"name": name} | {key: value for key, value in figures.items() if key != "sample"}
            variant |= {"k": release.k, "columns": self._state.get("columns", 0)}
            self._state["variants"] = [*others, variant]
            self._keep()
            return variant

    def drop_variant(self, name: str) -> None:
        """Forget a variant."""
        with self._lock:
            kept = [one for one in self._state["variants"] if one["name"] != name]
            if len(kept) == len(self._state["variants"]):
                raise ShoalError(f"There is no variant {name!r}: choose one of the list.")
            self._state["variants"] = kept
            self._keep()

    def use_variant(self, name: str) -> None:
        """Set everything as it was for a variant."""
        with self._lock:
            for one in self._state["variants"]:
                if one["name"] == name:
                    self._state["settings"] = Settings.from_dict(one["settings"]).to_dict()
                    self._forget_duel()
                    self._keep()
                    return
            raise ShoalError(f"There is no variant {name!r}: choose one of the list.")

    def lattice(self) -> Any:
        """The lattice of Flash for the present settings, with the node that was chosen."""
        settings = self.settings
        flash = Flash(
            settings.weighted(self.schema),
            settings.k,
            constraints=settings.constraints(),
            suppression=settings.suppression,
        )
        return flash.fit(self.frame).lattice_

    # The audit

    def start_audit(self, references: int = 4) -> None:
        """Attack models of the raw rows and of the release, in a process of its own."""
        if references not in range(0, 65, 2):
            raise ShoalError(f"references={references!r}: choose an even number from 0 to 64.")
        with self._lock:
            if not self.schema.target:
                raise ShoalError("No column is the target that a model predicts: give one that role on the page Data.")
            settings = self.settings
            if settings.model is None:
                raise ShoalError("No model is chosen: choose one on the page Shape.")
            self.stop_audit()
            columns = self._state.get("columns", 0)
            self._state["audit"] = {"settings": settings.to_dict(), "columns": columns, "status": "running"}
            self._keep()
            self._errand = Errand(audits.attack, self.folder, settings.to_dict(), references)

    def audit(self) -> dict[str, Any]:
        """How far the audit is: status, step, and what it found."""
        with self._lock:
            found: dict[str, Any] | None = self._state.get("audit")
            if found is None:
                return {"status": "none", "step": "", "error": "", "current": False}
            if found["status"] == "running":
                if self._errand is None:
                    self._end_audit("interrupted")
                else:
                    self._errand.look()
                    if self._errand.ended:
                        self._end_audit("failed" if self._errand.error else "done", self._errand.error)
            found = dict(self._state["audit"])
            step = "" if self._errand is None else self._errand.step
            columns = self._state.get("columns", 0)
            current = found["settings"] == self._state["settings"] and found.get("columns", 0) == columns
            return {"error": ""} | found | {"step": step, "current": current}

    def stop_audit(self) -> None:
        """End the audit, if one is under way."""
        with self._lock:
            if self._errand is not None:
                self._errand.stop()
                if (self._state.get("audit") or {}).get("status") == "running":
                    self._end_audit("stopped")

    def _end_audit(self, status: str, error: str = "") -> None:
        self._errand = None
        self._state["audit"] |= {"status": status, "error": error}
        if status == "done":
            self._state["audit"]["summary"] = audits.read_summary(self.folder)
        self._keep()

    # Keeping

    def close(self) -> None:
        """Stop what is under way."""
        self.stop_audit()
        self.shaping.forget()

    def _keep(self) -> None:
        self._store.save(self.name, self._state)


def _in_words(hierarchy: Hierarchy | Recipe | None) -> str:
    if hierarchy is None:
        return ""
    if isinstance(hierarchy, Recipe):
        return f"made of {trees.BUILDERS[hierarchy.builder]}"
    return f"{hierarchy.n_leaves:,} values, {hierarchy.height} level{'s' if hierarchy.height != 1 else ''}"


def _distribution(frame: pl.DataFrame, attribute: Attribute) -> tuple[int, int, list[str], list[int]]:
    """Distinct values, missing ones, and bars: ranges of a number, or the most frequent values."""
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
