"""Output of the commands: tables or JSON on stdout, progress on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from shoal.data.profiling import Separation
    from shoal.data.schema import Schema
    from shoal.datasets import Dataset, DatasetInfo
    from shoal.evaluation.comparison import Comparison
    from shoal.jobs.audit import Audit
    from shoal.jobs.clean import Cleaning
    from shoal.jobs.evaluate import Evaluation
    from shoal.jobs.protect import Protection
    from shoal.jobs.release import Release
    from shoal.jobs.train import Training
    from shoal.privacy.checking import Checked
    from shoal.privacy.risk import Risk

SHOWN_FEATURES = 12
"""Number of features shown, the most important first; sensitive features are always shown."""
SHOWN_COMBINATIONS = 3
"""Number of attribute combinations shown per size."""
WIDTH_OF_A_PIPE = 120
"""Characters per line if the output is not a terminal."""


@contextmanager
def progress(steps: int) -> Iterator[Callable[[str], None]]:
    """Show the current step and the elapsed time on stderr if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=steps, completed=-1)
        yield lambda what: bars.update(task, description=what, advance=1)


@contextmanager
def counting() -> Iterator[Callable[[int, int, str], None]]:
    """Show the number of finished cells and the remaining time on stderr if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total, what: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda done, total, what: bars.update(task, completed=done, total=total, description=what)


def inspection(
    source: Path,
    rows: int,
    schema: Schema,
    found: Sequence[Separation],
    risk: Risk | None,
    written: Path | None,
    marks: str,
    *,
    json: bool,
) -> None:
    """Print the proposed schema with its reasons, the most distinguishing columns, and the risk of the raw table."""
    reasons = {a.name: schema.reasons[a.name].split(": ", 1)[-1] for a in schema}
    strongest = _strongest_of_each_size(found)
    if json:
        return _print_json(
            file=source,
            rows=rows,
            attributes=[{"name": a.name, "role": a.role, "kind": a.kind, "reason": reasons[a.name]} for a in schema],
            combinations=[separation._asdict() for separation in strongest],
            risk=None if risk is None else risk._asdict(),
            schema=written,
        )
    out = console()
    out.print(f"[bold]{_safe(source.name)}[/bold]: {rows:,} rows, {len(schema)} columns\n", highlight=False)
    proposal = _table("Proposed roles", "attribute", "role", "kind", "reason")
    for a in schema:
        proposal.add_row(_safe(a.name), f"[{_ROLE_COLORS[a.role]}]{a.role}[/]", a.kind, _safe(reasons[a.name]))
    out.print(proposal)
    if risk is None:
        return out.print("\nNo column looks like a quasi-identifier: set the role 'quasi' in the schema where needed.")
    table = _table("Most distinguishing columns", "attributes", "separation>", "distinction>", "unique rows>")
    for names, distinction, separation, unique in strongest:
        table.add_row(_safe(", ".join(names)), *(f"{share:.2%}" for share in (separation, distinction, unique)))
    out.print("", table)
    out.print("", _risk_table("Risk of the raw table on the proposed quasi-identifiers", rows, now=risk))
    if written is not None:
        out.print(f"\nWrote [bold]{_safe(str(written))}[/bold]: review the roles, then run", highlight=False)
        command = f"shoal anonymize {source} --schema {written} --k 10{marks} --out released{source.suffix}"
        out.print(f"  {_safe(command)}", highlight=False, soft_wrap=True)
    return None


def release(release: Release, before: Risk, out: Path, report: Path | None, *, json: bool) -> None:
    """Print the guarantee, the risk and the information loss of a release."""
    from shoal.reports.report import facts, promise, show_share

    if json:
        return _print_json(
            **facts(release, raw_risk=before, released_file=out),
            out=out,
            report=report,
        )
    shown = console()
    quasi = [attribute.name for attribute in release.schema.quasi]
    shown.print(f"[bold]{_safe(promise(release.k, quasi))}[/bold]\n", highlight=False)
    shown.print(_models_table("Requested levels", [m for m in release.privacy if m.asked is not None]))
    shown.print("", _risk_table("Risk of re-identification", release.checked.rows, before=before, now=release.risk))
    costs = _table("Cost of the release", "", ">")
    costs.add_row("information loss (NCP)", show_share(release.loss.ncp))
    for name, share in sorted(release.loss.by_attribute.items(), key=lambda item: -item[1])[:3]:
        costs.add_row(f"  {_safe(name)}", show_share(share))
    costs.add_row("groups", f"{release.checked.groups:,}")
    costs.add_row("suppressed rows", f"{release.suppressed:,}")
    shown.print("", costs, "")
    written({"released": out} | ({} if report is None else {"report": report}), json=False)
    return None


def checked(source: Path, checked: Checked, *, json: bool) -> None:
    """Print the level of each privacy model, and the requested levels that are not reached."""
    if json:
        measured = [m._asdict() for m in checked.measured]
        return _print_json(
            file=source,
            rows=checked.rows,
            groups=checked.groups,
            holds=checked.holds,
            measured=measured,
            risk=checked.risk._asdict(),
        )
    out = console()
    counted = f"{checked.rows:,} rows in {checked.groups:,} groups"
    out.print(f"[bold]{_safe(source.name)}[/bold]: {counted}\n", highlight=False)
    out.print(_models_table("Privacy models", checked.measured))
    out.print("", _risk_table("Risk of re-identification", checked.rows, now=checked.risk))
    failed = [m.model for m in checked.measured if m.holds is False]
    if failed:
        out.print(f"\n[red]Not reached: {_safe(', '.join(failed))}.[/red]", highlight=False)
    elif any(m.holds for m in checked.measured):
        out.print("\n[green]All requested levels are reached.[/green]")
    return None


def frontier(found: Evaluation, limit: float, files: Mapping[str, Path], *, json: bool) -> None:
    """Print the cost of each k, and the affordable values of k."""
    summary, affordable = found.summary(), found.affordable(limit)
    if json:
        return _print_json(
            score=found.score,
            summary=[_by_name(one) for one in summary],
            affordable=[_by_name(one) for one in affordable],
            loss=limit,
            files=files,
        )
    out = console()
    score = found.score
    interval = "95 % interval>"
    heads = ("model", "method", "k>", f"{score}>", interval, "loss>", interval, "raw>", "no model>", "groups>")
    table = _table("Cost of k", *heads)
    for one in summary:
        groups = f"{one.groups:,.0f}" if one.seeds else ""
        table.add_row(*(_safe(cell) for cell in found.cells(one)), groups)
    out.print(table, "")
    for error in dict.fromkeys(one.error for one in summary if one.error is not None):
        out.print(f"[yellow]Not reached: {_safe(error)}[/yellow]", highlight=False)
    for sentence in found.answer(limit):
        out.print(_safe(sentence), highlight=False)
    out.print("")
    written(files, json=False)
    return None


def _by_name(result: Any) -> Any:
    """Convert a named tuple, and those in it or in a list, to dictionaries."""
    if hasattr(result, "_asdict"):
        return {name: _by_name(value) for name, value in result._asdict().items()}
    return [_by_name(one) for one in result] if isinstance(result, (list, tuple)) else result


def methods(found: Mapping[str, tuple[str, Mapping[str, str]]], recodings: Mapping[str, str], *, json: bool) -> None:
    """Print the methods, each with its description and its options, and the recodings."""
    if json:
        rows = [{"name": name, "about": about, "options": options} for name, (about, options) in found.items()]
        return _print_json(methods=rows, recodings=[{"name": name, "about": text} for name, text in recodings.items()])
    table = _table(None, "method", "description and options")
    for name, (about, options) in found.items():
        lines = [f"[dim]{option}: {_safe(text)}[/dim]" for option, text in options.items()]
        table.add_row(name, "\n".join([about, *lines]))
    others = _table(None, "recoding", "a group is released as")
    for name, about in recodings.items():
        others.add_row(name, about)
    return console().print(table, "", others)


def datasets(infos: Sequence[DatasetInfo], *, json: bool) -> None:
    """Print the data sets, one line per data set."""
    if json:
        return _print_json(datasets=[info._asdict() for info in infos])
    table = _table(None, "data set", "rows>", "columns>", "description", "source")
    for info in infos:
        rows = "any" if info.rows is None else f"{info.rows:,}"
        table.add_row(info.name, rows, f"{info.columns}", _safe(info.about), _safe(info.where))
    return console().print(table)


def written(files: Mapping[str, Path], *, json: bool) -> None:
    """Print the files that were written."""
    if json:
        return _print_json(**files)
    table = _table(None, "", "")
    for name, path in files.items():
        table.add_row(name, f"[bold]{_safe(str(path))}[/bold]", _file_size(path))
    return console().print(table)


def protection(protection: Protection, files: Mapping[str, Path], *, json: bool) -> None:
    """Print the scores, the guarantee and the risk of a protected model."""
    if json:
        from shoal.reports.report import facts

        return _print_json(
            verdict=protection.verdict,
            comparison=_by_name(protection.comparison),
            release=facts(protection.release, raw_risk=protection.raw_risk, released_file=files["released"]),
            findings=protection.release.findings,
            files=files,
        )
    out = console()
    out.print(f"[bold]{_safe(protection.verdict)}[/bold]\n", highlight=False)
    out.print(_comparison_table(protection.comparison, "raw rows", "released rows"), "")
    risk = _risk_table(
        "Risk of re-identification",
        protection.release.checked.rows,
        before=protection.raw_risk,
        now=protection.release.risk,
    )
    out.print(_models_table("Requested levels", [m for m in protection.release.privacy if m.asked is not None]), "")
    out.print(risk, "")
    written(files, json=False)
    return None


def _comparison_table(found: Comparison, before: str, after: str) -> Table:
    """Return a table that compares two models on unseen rows."""
    from shoal.evaluation.comparison import show_change, show_score
    from shoal.reports.report import show_share

    table = _table(f"Two models on {found.rows:,} unseen rows", "", f"{before}>", f"{after}>", "change>")
    score = found.score
    change = f"{show_change(score, found.change.value)} ({show_change(score, found.change.low, found.change.high)})"
    table.add_row(score, show_score(score, found.before.value), show_score(score, found.after.value), change)
    trained = found.trained_before, found.trained_after
    table.add_row(f"{score} on its own training rows", *(show_score(score, one) for one in trained), "")
    for one in found.classes[:8]:
        table.add_row(f"recall of {_safe(one.name)}", show_share(one.before), show_share(one.after), "")
    if found.agreement is not None:
        table.add_row("rows with equal predictions", "", show_share(found.agreement), "")
    return table


def training(training: Training, files: Mapping[str, Path], *, json: bool) -> None:
    """Print the feature importances and the scores of a model."""
    if json:
        facts = {name: _by_name(value) for name, value in training.facts().items()}
        return _print_json(**facts, files=files)
    from shoal.jobs.train import describe_setting
    from shoal.reports.report import show_share

    out = console()
    out.print(f"[bold]{_safe(training.verdict)}[/bold]\n", highlight=False)
    out.print(_comparison_table(training.comparison, "plain", "guided"), "")
    title = f"Feature importances with {describe_setting(training.search.best_.setting)}"
    table = _table(title, "feature", "plain>", "guided>", "splits>", "")
    shown = [one for i, one in enumerate(training.leaning) if i < SHOWN_FEATURES or one.sensitivity > 0]
    for one in shown:
        splits = f"{one.splits_before:,} → {one.splits_after:,}"
        mark = "sensitive" if one.sensitivity > 0 else ""
        table.add_row(_safe(one.name), show_share(one.before), show_share(one.after), splits, mark)
    out.print(table, "")
    written(files, json=False)
    return None


def audit(found: Audit, files: Mapping[str, Path], *, json: bool) -> None:
    """Print the verdicts, and all attacks by risk."""
    if json:
        return _print_json(**found.facts(), files=files)
    from shoal.attacks.results import show_points
    from shoal.reports.report import show_share

    out = console()
    for verdict in found.verdicts:
        mark = "[red]leaks[/red]" if verdict.found else "[green]nothing found[/green]"
        out.print(f"[bold]{_safe(verdict.risk)}[/bold] {mark}: {_safe(verdict.sentence)}\n", highlight=False)
    for risk, results in found.results.items():
        titles = "attack", "accuracy>", "baseline>", "advantage in points>", "AUC>", "TPR at 1 % FPR>", ""
        table = _table(f"Attacks: {_safe(risk)}", *titles)
        for one in results:
            auc = "" if one.auc is None else f"{one.auc.value:.3f}"
            few = "" if one.hits_at_1_percent is None else show_share(one.hits_at_1_percent.value)
            shares = show_share(one.accuracy.value), show_share(one.baseline.value), show_points(one.advantage)
            table.add_row(_safe(one.attack), *shares, auc, few, "better" if one.beats_baseline else "")
        out.print(table, "")
    for skipped in found.skipped:
        out.print(f"Not tested: {_safe(skipped.attack)}, because {_safe(skipped.why)}.", highlight=False)
    written(files, json=False)
    return None


def cleaning(cleaning: Cleaning, files: Mapping[str, Path], *, json: bool) -> None:
    """Print the effect of cleaning on the predictor and on adversaries."""
    if json:
        return _print_json(**cleaning.facts(), files=files)
    from shoal.reports.report import show_share

    out = console()
    out.print(f"[bold]{_safe(cleaning.verdict)}[/bold]\n", highlight=False)
    table = _table("Information sent to the predictor", "", ">")
    for name, text in cleaning.summary():
        table.add_row(name, _safe(text))
    out.print(table, "")
    for secret, found in cleaning.relearned.items():
        title = f"How well an adversary recovers {_safe(secret)} from cleaned rows ({found[0].rows:,} rows)"
        heads = "learner", "advantage>", "on raw rows>", "accuracy>", "baseline>", "complete privacy>"
        table = _table(title, *heads)
        for one in found:
            left = f"{show_share(one.advantage)} ({show_share(1 - one.error.high)} to {show_share(1 - one.error.low)})"
            accuracy = "" if one.accuracy is None else show_share(one.accuracy.value)
            baseline = "" if one.baseline_accuracy is None else show_share(one.baseline_accuracy)
            shares = show_share(1 - one.raw_error.value), accuracy, baseline, show_share(one.complete_privacy.value)
            table.add_row(one.learner, left, *shares)
        out.print(table, "")
    written(files, json=False)
    return None


def demo(census: Dataset, protection: Protection, files: Mapping[str, Path]) -> None:
    """Print the results of the demo."""
    from shoal.reports.report import show_share

    out, release = console(), protection.release
    person = _typical_row(release)
    table = _table("Example of a person", "", "raw", "released")
    for attribute in census.schema:
        raw = census.frame[attribute.name][int(protection.rows[person])]
        kept = release.frame[attribute.name][person] if attribute.name in release.frame.columns else "(removed)"
        table.add_row(attribute.name, _safe(str(raw)), _safe(str(kept)), style="" if str(raw) != str(kept) else "dim")
    out.print(table)
    table = _table("Training rows", "", "raw>", "released>")
    before, now, rows = protection.raw_risk, release.risk, release.checked.rows
    table.add_row("people", f"{rows:,}", f"{rows:,}")
    table.add_row("unique people", f"{before.unique * rows:,.0f}", f"{now.unique * rows:,.0f}")
    table.add_row("smallest group", f"{1 / before.prosecutor:,.0f}", f"{release.k:,}")
    table.add_row("highest risk of re-identification", show_share(before.prosecutor), show_share(now.prosecutor))
    table.add_row("average risk", show_share(before.marketer), show_share(now.marketer))
    out.print("", table, "", _comparison_table(protection.comparison, "raw rows", "released rows"), "")
    written(files, json=False)
    out.print("\nOpen the report in a browser, or check the released file with", highlight=False)
    command = f"shoal check {files['released']} --schema {files['schema']} --k 10 --l 3"
    out.print(f"  {_safe(command)}", highlight=False, soft_wrap=True)


def _typical_row(release: Release) -> int:
    """Return a row of the largest group that is not suppressed."""
    import numpy as np

    return int(np.argmax(release.labels == np.bincount(release.labels[release.labels >= 0]).argmax()))


def console() -> Console:
    """Return the console for results."""
    from rich.console import Console

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal may lack characters of the values
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH_OF_A_PIPE)


_ROLE_COLORS = {"identifier": "red", "quasi": "yellow", "sensitive": "magenta", "target": "cyan", "other": "default"}


def _strongest_of_each_size(found: Sequence[Separation]) -> list[Separation]:
    strongest: list[Separation] = []
    for size in sorted({len(separation.names) for separation in found}):
        strongest += [separation for separation in found if len(separation.names) == size][:SHOWN_COMBINATIONS]
    return strongest


def _models_table(title: str, measured: Sequence[Any]) -> Table:
    from shoal.privacy.models import show_level
    from shoal.reports.report import show_asked

    unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    marks = {True: "[green]✓[/]" if unicode else "yes", False: "[red]✗[/]" if unicode else "no", None: ""}
    table = _table(title, "model", "level>", "requested>", "reached")
    for m in measured:
        asked = show_asked(m._asdict())
        asked = asked if unicode else asked.replace("≥", ">=").replace("≤", "<=")
        table.add_row(_safe(m.model), show_level(m.level), asked, marks[m.holds])
    return table


def _risk_table(title: str, rows: int, *, now: Risk, before: Risk | None = None) -> Table:
    from shoal.reports.report import show_share

    columns = [now] if before is None else [before, now]
    table = _table(title, "", *(["before>", "after>"] if before is not None else [">"]))
    table.add_row("unique rows", *(f"{round(r.unique * rows):,} ({show_share(r.unique)})" for r in columns))
    for text, name in (
        ("highest risk of a person known to be in the table (prosecutor)", "prosecutor"),
        ("highest risk of a person in the population (journalist)", "journalist"),
        ("average risk (marketer)", "marketer"),
    ):
        table.add_row(text, *(show_share(getattr(r, name)) for r in columns))
    table.add_row(f"rows at a risk above {show_share(now.threshold)}", *(show_share(r.above) for r in columns))
    return table


def _table(title: str | None, *headings: str) -> Table:
    """Return a table without frames; a heading that ends in > is right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if any(h.strip(">") for h in headings) else None,
        show_header=any(h.strip(">") for h in headings),
        pad_edge=False,
        show_edge=False,
        header_style="dim",
    )
    for heading in headings:
        table.add_column(heading.rstrip(">"), justify="right" if heading.endswith(">") else "left", overflow="fold")
    return table


def _file_size(path: Path) -> str:
    if not path.exists():  # it is on another machine
        return ""
    size = sum(part.stat().st_size for part in path.iterdir()) if path.is_dir() else path.stat().st_size
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB"


def _safe(text: str) -> str:
    """Escape markup in a text from the data."""
    from rich.markup import escape

    return escape(text)


def _print_json(**content: Any) -> None:
    from shoal.reports.report import dump_json

    print(dump_json(content))
