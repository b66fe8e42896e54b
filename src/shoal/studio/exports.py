"""Files to export, and the command and the Python script that make the same release."""

from __future__ import annotations

import io
import shlex
import tempfile
import zipfile
from dataclasses import MISSING, fields
from pathlib import Path

import shoal
from shoal.errors import ShoalError
from shoal.privacy.models import PrivacyModel
from shoal.reports.report import report
from shoal.studio import audits
from shoal.studio.runs import SEED
from shoal.studio.settings import option_of
from shoal.studio.workspace import NO_TABLE, Workspace


def write(workspace: Workspace, what: str) -> tuple[bytes, str]:
    """Return the content and the media type of an exported file."""
    if what not in FILES:
        raise ShoalError(f"There is no {what!r} to export: choose {', '.join(FILES)}.")
    media, content = FILES[what]
    return content(workspace), media


def command(workspace: Workspace) -> str:
    """Return the command that makes the same release."""
    settings = workspace.settings
    words = ["shoal", "anonymize", source_name(workspace), "--schema", "schema.toml", "--method", settings.method]
    words += ["--k", str(settings.k)]
    for key, level in settings.levels.items():
        words += [option_of(key).flag, f"{level:g}"]
    words += ["--recoding", settings.recoding] if settings.recoding else []
    words += ["--suppress", f"{settings.suppression:g}"] if settings.suppression else []
    for name, value in settings.options().items():
        words += ["--option", f"{name}={value}"]
    return shlex.join([*words, "--seed", str(SEED), "--out", "released.csv", "--report", "report.html"])


def snippet(workspace: Workspace) -> str:
    """Return the Python script that makes the same release."""
    settings = workspace.settings
    homes = {type(one).__name__: type(one).__module__ for one in settings.constraints()}
    names = ["Schema", "anonymize", *(name for name in homes if name in shoal.__all__)]
    others = [f"from {home} import {name}" for name, home in homes.items() if name not in shoal.__all__]
    asked = ", ".join(_call_of(one) for one in settings.constraints())
    further = "".join(f", {name}={value!r}" for name, value in settings.options().items())
    recoded = f", recoding={settings.recoding!r}" if settings.recoding else ""
    suppressed = f", suppression={settings.suppression!r}" if settings.suppression else ""
    listed = f", constraints=[{asked}]" if asked else ""
    given = f"{listed}{recoded}{suppressed}"
    return "\n".join(
        [
            f"from shoal import {', '.join(sorted(names, key=str.lower))}",
            *others,
            "from shoal.data.files import read_table",
            "",
            f"frame = read_table({source_name(workspace)!r})",
            'schema = Schema.from_toml("schema.toml")  # includes the weights',
            f"release = anonymize(frame, schema, k={settings.k}, method={settings.method!r}{given}, "
            f"random_state={SEED}{further})",
            'release.to_csv("released.csv")',
            "print(release)",
            "",
        ]
    )


def _call_of(model: PrivacyModel) -> str:
    """Return the call that makes a privacy model, without parameters that have their default."""
    given = []
    for one in fields(model):  # type: ignore[arg-type]
        value = getattr(model, one.name)
        if one.default is MISSING:
            given.append(repr(value))
        elif value != one.default:
            given.append(f"{one.name}={value!r}")
    return f"{type(model).__name__}({', '.join(given)})"


def source_name(workspace: Workspace) -> str:
    """Return the file name of the table; the name of the exported file for the demo."""
    source = workspace.source
    if source is None:
        raise ShoalError(NO_TABLE)
    return "census.csv" if source["name"] == "census" else str(source["name"])


def _released(workspace: Workspace) -> bytes:
    return workspace.release().frame.write_csv().encode()


def _released_parquet(workspace: Workspace) -> bytes:
    written = io.BytesIO()
    workspace.release().frame.write_parquet(written)
    return written.getvalue()


def _table(workspace: Workspace) -> bytes:
    return workspace.frame.write_csv().encode()


def _schema(workspace: Workspace) -> bytes:
    """Return the schema with its hierarchies and weights as a ZIP archive."""
    written = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        workspace.settings.weighted(workspace.schema).to_toml(Path(folder) / "schema.toml")
        for path in sorted(Path(folder).iterdir()):
            archive.write(path, path.name)
    return written.getvalue()


def _weights(workspace: Workspace) -> bytes:
    weights = {one.name: workspace.settings.weights.get(one.name, 1.0) for one in workspace.schema.quasi}
    return "".join(f'"{name}" = {weight}\n' for name, weight in weights.items()).encode()


def _report(workspace: Workspace) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        title = f"Release of {source_name(workspace)}"
        report(workspace.release(), path, raw_risk=workspace.raw_risk(), title=title)
        return path.read_bytes()


def _of_audit(workspace: Workspace, name: str) -> bytes:
    if workspace.audit()["status"] != "done":
        raise ShoalError("There is no evidence yet: start an audit on the page Audit.")
    return (workspace.folder / name).read_bytes()


FILES = {
    "released.csv": ("text/csv", _released),
    "released.parquet": ("application/vnd.apache.parquet", _released_parquet),
    "schema.zip": ("application/zip", _schema),
    "weights.toml": ("application/toml", _weights),
    "report.html": ("text/html", _report),
    "table.csv": ("text/csv", _table),
    "audit.html": ("text/html", lambda workspace: _of_audit(workspace, audits.PAGE)),
    "audits.html": ("text/html", lambda workspace: _of_audit(workspace, audits.SIDE_BY_SIDE)),
    "audit.json": ("application/json", lambda workspace: _of_audit(workspace, audits.NUMBERS)),
    "command.txt": ("text/plain", lambda workspace: (command(workspace) + "\n").encode()),
    "release.py": ("text/x-python", lambda workspace: snippet(workspace).encode()),
}
"""Exports by file name: media type, and function that returns the content."""
