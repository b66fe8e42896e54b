"""What all experiments share: cells that are measured once and kept, tables with intervals, and one way to run them.

A *study* stands for a table or figure of a paper. Its *cells* are plain dicts, such as a model, a k and a seed; each is
measured by one call and kept in a file at once, so that a run that was stopped goes on where it was. All rows that were
measured go to a CSV file, what they say to a JSON file, and a drawing to an SVG file. Studies have three sizes:
``full`` is what the paper did, ``quick`` a look in minutes, ``toy`` only shows that everything runs.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import sklearn
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from scipy import stats

import shoal
from shoal.errors import GuaranteeError, ShoalError
from shoal.intervals import Interval

RESULTS = Path(__file__).parent / "results"
Size = Literal["full", "quick", "toy"]
Row = dict[str, Any]
Answer = Literal["yes", "partly", "no", "cannot be told"]


class Claim(NamedTuple):
    """What a paper says, and what was found."""

    says: str
    holds: Answer
    evidence: str
    """A sentence with numbers."""
    kind: Literal["main", "further", "ours"] = "further"
    """What the paper is about, what else it says, or a question of ours beside it."""


def main_point(claim: Claim) -> Claim:
    """A claim that the paper is about."""
    return claim._replace(kind="main")


def ours(claim: Claim) -> Claim:
    """A question of ours."""
    return claim._replace(kind="ours")


class Table(NamedTuple):
    """Numbers of ours beside those of the paper."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """Texts, numbers and intervals; None is an empty cell."""


class Told(NamedTuple):
    """What the rows of a study say."""

    tables: Sequence[Table]
    claims: Sequence[Claim]
    notes: Sequence[str] = ()
    """Sentences on what differs from the paper, and why."""
    lesson: str = ""
    """A sentence with the numbers to remember, for the head of the page; empty where there is none."""


class Study(NamedTuple):
    """A table or figure of a paper."""

    name: str
    """Of its files."""
    paper: str
    """A key of PAPERS in _page.py."""
    title: str
    protocol: str
    """What the paper states and was done so, and what was our choice, in Markdown."""
    cells: Callable[[Size], list[Row]]
    measure: Callable[..., Row | list[Row]]
    """Called with a cell by keywords; returns what was measured, for one row or several."""
    tell: Callable[[list[Row]], Told]
    draw: Callable[[list[Row], Path], None] | None = None
    """Draws into an SVG file."""
    version: int = 1
    """Raised when cells have to be measured anew, because what is measured has changed."""


def main(*studies: Study) -> None:
    """Run studies as the command line asks."""
    options = argparse.ArgumentParser(description="\n\n".join(f"{one.title}\n{one.protocol}" for one in studies))
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    size = options.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", default="full", help="in minutes")
    size.add_argument("--toy", dest="size", action="store_const", const="toy", help="only to see that it runs")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    options.add_argument("--out", type=Path, default=None, help="folder of the results")
    options.add_argument("--anew", action="store_true", help="measure cells again that were measured before")
    asked = options.parse_args()
    for study in studies:
        run(study, asked.size, asked.out or folder_of(asked.size), asked.jobs, anew=asked.anew)


def folder_of(size: Size) -> Path:
    """Where results go: those of smaller sizes never take the place of the full ones."""
    return RESULTS if size == "full" else RESULTS / size


def run(study: Study, size: Size, out: Path, jobs: int = 1, *, anew: bool = False) -> Told:
    """Measure what was not measured before, and write what all of it says."""
    out.mkdir(parents=True, exist_ok=True)
    store = out / f"{study.name}.cells.jsonl"
    if anew:
        store.unlink(missing_ok=True)
    cells = study.cells(size)
    kept = _read(store)
    # What a library or a file was missing for may be there by now.
    known = {key for key, one in kept.items() if one.get("final", True)}
    _measure(study, [cell for cell in cells if _key(study, cell) not in known], store, jobs)
    kept = _read(store)
    rows = _aligned([row for cell in cells for row in kept[_key(study, cell)]["rows"]])
    if all(row.get("error") is not None for row in rows):
        # Results of an earlier run are worth more than the news that nothing could be measured.
        raise SystemExit(f"Nothing of {study.name} could be measured: {rows[0]['error']}")
    _write_csv(rows, out / f"{study.name}.csv")
    seconds = sum(kept[_key(study, cell)]["seconds"] for cell in cells)
    made = {"size": size, "cells": len(cells), "seconds": round(seconds, 1), "versions": _versions()}
    return _write_told(study, rows, made, out)


def tell_again(study: Study, out: Path) -> Told:
    """Write anew what the rows of an earlier run say, without measuring anything."""
    known = json.loads((out / f"{study.name}.json").read_text(encoding="utf-8"))
    made = {name: known[name] for name in ("size", "cells", "seconds", "versions")}
    return _write_told(study, read_rows(out / f"{study.name}.csv"), made, out)


def _write_told(study: Study, rows: list[Row], made: Row, out: Path) -> Told:
    told = study.tell(rows)
    figure = None
    if study.draw is not None:
        figure = f"{study.name}.svg"
        study.draw(rows, out / figure)
    facts = facts_of(study, told, figure, made)
    (out / f"{study.name}.json").write_text(json.dumps(facts, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    Console().print("\n".join(markdown(facts)), markup=False, highlight=False)
    return told


# Measuring


def _measure(study: Study, cells: list[Row], store: Path, jobs: int) -> None:
    """Measure cells side by side; each is in the file before the next one is waited for."""
    if not cells:
        return
    shown = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    shown.append(TimeRemainingColumn())
    work = Parallel(n_jobs=min(jobs, len(cells)), return_as="generator_unordered", batch_size=1)
    with Progress(*shown, console=Console(stderr=True)) as progress, store.open("a", encoding="utf-8") as file:
        file.write("\n")  # what a kill cut short must not run into what comes after it
        task = progress.add_task(study.name, total=len(cells))
        for cell, rows, seconds, final in work(delayed(_measure_one)(study.measure, cell) for cell in cells):
            kept = {"key": _key(study, cell), "cell": cell, "rows": rows, "seconds": round(seconds, 3), "final": final}
            file.write(json.dumps(kept, default=_plain) + "\n")
            file.flush()
            progress.advance(task)
            if not progress.console.is_terminal:  # a bar is drawn only there; who reads a log sees lines
                done = f"{study.name}: {progress.tasks[0].completed:.0f} of {len(cells)} cells"
                progress.console.print(f"{done} after {progress.tasks[0].elapsed / 60:.1f} minutes", soft_wrap=True)


def _measure_one(measure: Callable[..., Row | list[Row]], cell: Row) -> tuple[Row, list[Row], float, bool]:
    """The rows of a cell, how long they took, and whether they are to be kept."""
    start, final = time.perf_counter(), True
    try:
        found = measure(**cell)
    except ShoalError as error:
        # What cannot be reached, such as k with so few rows, is a result; that a file is missing is none.
        found, final = {"error": str(error)}, isinstance(error, GuaranteeError)
    rows = found if isinstance(found, list) else [found]
    return cell, [cell | row for row in rows], time.perf_counter() - start, final


def _key(study: Study, cell: Row) -> str:
    content = [study.name, study.version, shoal.__version__, sklearn.__version__, cell]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]


def _read(store: Path) -> dict[str, Row]:
    """Cells that were measured; a line that was cut short by a kill is none."""
    found = {}
    for line in store.read_text(encoding="utf-8").splitlines() if store.exists() else []:
        try:
            kept = json.loads(line)
        except ValueError:
            continue
        found[kept["key"]] = kept
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be kept: return plain values.")


# Rows


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """The rows that have these values, and that could be measured."""
    measured = (row for row in rows if row.get("error") is None)
    return [row for row in measured if all(row.get(name) == one for name, one in values.items())]


def values_of(rows: Iterable[Row], name: str) -> list[Any]:
    """The distinct values of a column, in the order in which they come; None is none."""
    return list(dict.fromkeys(row[name] for row in rows if row.get(name) is not None))


def over_seeds(values: Iterable[float]) -> Interval | None:
    """The mean, and where it lies with 95 % confidence by Student's t; None of nothing."""
    found = np.array([value for value in values if value is not None], float)
    if not len(found):
        return None
    mean = float(found.mean())
    if len(found) == 1:
        return Interval(mean, mean, mean)
    reach = float(stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    return Interval(mean, mean - reach, mean + reach)


def mean_of(rows: Iterable[Row], value: str, **values: Any) -> Interval | None:
    """The mean of a value over the rows that have these values, with its interval."""
    return over_seeds(row[value] for row in where(rows, **values))


def paired(rows: Sequence[Row], value: str, one: Row, other: Row, by: Sequence[str] = ("seed",)) -> Interval | None:
    """The mean difference of a value between rows that have the one values and the other, with its interval.

    Rows are paired by what they have in common: means of pairs vary far less than means of each.
    """
    named = [
        {tuple(row[name] for name in by): row[value] for row in where(rows, **kept) if row[value] is not None}
        for kept in (one, other)
    ]
    return over_seeds(named[0][key] - named[1][key] for key in named[0] if key in named[1])


# Writing


def _aligned(rows: list[Row]) -> list[Row]:
    """Rows that all have the same columns, as they come back from a file; what a row does not have is None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def _write_csv(rows: list[Row], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV file, as they were when it was written."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _read_value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _read_value(text: str) -> Any:
    """What a value was before it was written; texts do not look like other values in these files."""
    try:
        return ast.literal_eval(text) if text else None
    except (ValueError, SyntaxError):
        return text


def _versions() -> dict[str, str]:
    return {"shoal": shoal.__version__, "scikit-learn": sklearn.__version__, "python": platform.python_version()}


def facts_of(study: Study, told: Told, figure: str | None, made: Row) -> Row:
    """What a study found, and how it was made, for a file."""
    return {
        "name": study.name,
        "paper": study.paper,
        "title": study.title,
        "protocol": study.protocol.strip(),
        **made,
        "figure": figure,
        "tables": [one._asdict() | {"rows": [[show(cell) for cell in row] for row in one.rows]} for one in told.tables],
        "claims": [one._asdict() for one in told.claims],
        "notes": list(told.notes),
        "lesson": told.lesson,
    }


def show(cell: Any) -> str:
    """A cell as people read it."""
    if cell is None:
        return ""
    if isinstance(cell, Interval):
        reach = max(cell.high - cell.value, cell.value - cell.low)
        # Equal values differ by what summing them rounds.
        return _number(cell.value) + (f" ± {_number(reach)}" if reach > 1e-9 * max(abs(cell.value), 1e-9) else "")
    if isinstance(cell, (float, np.floating)):
        return _number(float(cell))
    return str(cell)


def _number(value: float) -> str:
    size = abs(value)
    if size and (size >= 1e5 or size < 5e-4):
        return f"{value:.2g}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 100 else f"{value:.3f}"


def markdown(facts: Row) -> list[str]:
    """What a study found, for people."""
    lines = [f"### {facts['title']}", ""]
    lines += [f"- **{one['says']}** {one['holds'].capitalize()}: {one['evidence']}" for one in facts["claims"]]
    lines += [""] * bool(facts["claims"])
    for table in facts["tables"]:
        lines += [table["title"], "", *table_lines(table["columns"], table["rows"]), ""]
    for note in facts["notes"]:
        lines += [note, ""]
    return lines


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    cells = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
