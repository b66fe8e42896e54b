"""What a person takes along: files, and the command and the lines of Python that do the same without the mouse."""

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
from shoal.studio.desk import Workspace
from shoal.studio.settings import option_of
from shoal.studio.shaping import SEED


def write(desk: Workspace, what: str) -> tuple[bytes, str]:
    """The content of an export and its media type, by the name of the file."""
    if what not in FILES:
        raise ShoalError(f"There is no {what!r} to export: choose {', '.join(FILES)}.")
    media, content = FILES[what]
    return content(desk), media


def command(desk: Workspace) -> str:
    """The command that makes the same release."""
    settings = desk.settings
    words = ["shoal", "anonymize", source_name(desk), "--schema", "schema.toml", "--method", settings.method]
    words += ["--k", str(settings.k)]
    for key, level in settings.levels.items():
        words += [option_of(key).flag, f"{level:g}"]
    words += ["--suppress", f"{settings.suppression:g}"] if settings.suppression else []
    for name, value in settings.options().items():
        words += ["--option", f"{name}={value}"]
    return shlex.join([*words, "--seed", str(SEED), "--out", "released.csv", "--report", "report.html"])


def snippet(desk: Workspace) -> str:
    """The lines of Python that make the same release."""
    settings = desk.settings
    homes = {type(one).__name__: type(one).__module__ for one in settings.constraints()}
    names = ["Schema", "anonymize", *(name for name in homes if name in shoal.__all__)]
    others = [f"from {home} import {name}" for name, home in homes.items() if name not in shoal.__all__]
    asked = ", ".join(_call_of(one) for one in settings.constraints())
    further = "".join(f", {name}={value!r}" for name, value in settings.options().items())
    suppressed = f", suppression={settings.suppression!r}" if settings.suppression else ""
    listed = f", constraints=[{asked}]" if asked else ""
    return "\n".join(
        [
            f"from shoal import {', '.join(sorted(names, key=str.lower))}",
            *others,
            "from shoal.data.files import read_table",
            "",
            f"frame = read_table({source_name(desk)!r})",
            'schema = Schema.from_toml("schema.toml")  # with the weights that were set',
            f"release = anonymize(frame, schema, k={settings.k}, method={settings.method!r}{listed}{suppressed}, "
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


def source_name(desk: Workspace) -> str:
    """The name of the table's file; of the demo the one that it is exported as."""
    source = desk.source
    if source is None:
        raise ShoalError("No table is open: open a file or the demo first.")
    return "census.csv" if source["name"] == "census" else str(source["name"])


def _released(desk: Workspace) -> bytes:
    return desk.release().frame.write_csv().encode()


def _released_parquet(desk: Workspace) -> bytes:
    written = io.BytesIO()
    desk.release().frame.write_parquet(written)
    return written.getvalue()


def _table(desk: Workspace) -> bytes:
    return desk.frame.write_csv().encode()


def _schema(desk: Workspace) -> bytes:
    """The schema with its hierarchies and the weights that are set."""
    written = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        desk.settings.weighted(desk.schema).to_toml(Path(folder) / "schema.toml")
        for path in sorted(Path(folder).iterdir()):
            archive.write(path, path.name)
    return written.getvalue()


def _weights(desk: Workspace) -> bytes:
    weights = {one.name: desk.settings.weights.get(one.name, 1.0) for one in desk.schema.quasi}
    return "".join(f'"{name}" = {weight}\n' for name, weight in weights.items()).encode()


def _report(desk: Workspace) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        title = f"Release of {source_name(desk)}"
        report(desk.release(), path, raw_risk=desk.raw_risk(), title=title)
        return path.read_bytes()


def _evidence(desk: Workspace) -> bytes:
    return _of_audit(desk, audits.PAGE)


def _side_by_side(desk: Workspace) -> bytes:
    return _of_audit(desk, audits.SIDE_BY_SIDE)


def _numbers(desk: Workspace) -> bytes:
    return _of_audit(desk, audits.NUMBERS)


def _of_audit(desk: Workspace, name: str) -> bytes:
    if desk.audit()["status"] != "done":
        raise ShoalError("There is no evidence yet: start the audit on its page.")
    return (desk.folder / name).read_bytes()


FILES = {
    "released.csv": ("text/csv", _released),
    "released.parquet": ("application/vnd.apache.parquet", _released_parquet),
    "schema.zip": ("application/zip", _schema),
    "weights.toml": ("application/toml", _weights),
    "report.html": ("text/html", _report),
    "table.csv": ("text/csv", _table),
    "audit.html": ("text/html", _evidence),
    "audits.html": ("text/html", _side_by_side),
    "audit.json": ("application/json", _numbers),
    "command.txt": ("text/plain", lambda desk: (command(desk) + "\n").encode()),
    "release.py": ("text/x-python", lambda desk: snippet(desk).encode()),
}
"""Exports by the name of the file: media type, and what writes it."""
