"""The evidence for a release as one self-contained HTML file, and as JSON."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np

import shoal
from shoal.data import frames
from shoal.data.files import write_text
from shoal.data.schema import Schema
from shoal.partition.geometry import group_members
from shoal.partition.losses import LOSSES, Loss
from shoal.partition.recoding import recodings_that_publish
from shoal.privacy.models import MODELS, show_level
from shoal.privacy.risk import Risk, SizeCounts

MOST_SIZES = 8
"""Most bars in the distribution of group sizes."""
MOST_GROUPS = 6
"""Most groups in the sample."""
MOST_COLUMNS = 12
"""Most attributes of a group in the sample."""
LIBRARIES = ("numpy", "numba", "scikit-learn", "polars", "narwhals")


class ReportedRelease(Protocol):
    """The parts of a release that a report needs."""

    @property
    def frame(self) -> Any:
        """Released rows, if they are in memory."""

    @property
    def labels(self) -> np.ndarray:
        """Group of each row."""

    @property
    def schema(self) -> Schema:
        """Schema of the table."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Arguments of the method."""

    @property
    def missing_marks(self) -> Sequence[str]:
        """Texts that were read as missing values."""

    @property
    def checked(self) -> Any:
        """Measured privacy."""

    @property
    def loss(self) -> Loss:
        """Losses."""

    @property
    def suppressed(self) -> int:
        """Number of suppressed rows."""


def report(
    release: ReportedRelease,
    path: str | Path,
    *,
    raw_risk: Risk | None = None,
    released_file: str | Path | None = None,
    title: str = "Release report",
) -> None:
    """Write an HTML report of a release: one self-contained file, in full or not at all.

    Parameters
    ----------
    release : Release
    path : path
        The HTML file to write.
    raw_risk : Risk, optional
        Risk of the table before it was anonymized, to compare with.
    released_file : path, optional
        The file that was released; its SHA-256 ties the report to it.
    title : str

    Examples
    --------
    >>> import tempfile, polars as pl
    >>> from shoal import Attribute, Schema, anonymize
    >>> release = anonymize(pl.DataFrame({"age": [25, 27, 31, 45, 47, 52]}), Schema([Attribute("age")]), k=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report(release, f"{folder}/report.html")
    ...     "3-anonymous with respect to age" in Path(f"{folder}/report.html").read_text(encoding="utf-8")
    True
    """
    page = render(facts(release, raw_risk=raw_risk, released_file=released_file), title)
    write_text(path, page)


def to_json(release: ReportedRelease, *, raw_risk: Risk | None = None, released_file: str | Path | None = None) -> str:
    """Return the numbers of the report as JSON; an unbounded level is the text ``"inf"``, an undefined one null.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Attribute, Schema, anonymize
    >>> release = anonymize(pl.DataFrame({"age": [25, 27, 31, 45, 47, 52]}), Schema([Attribute("age")]), k=3)
    >>> json.loads(to_json(release))["promise"]
    '3-anonymous with respect to age'
    """
    return dump_json(facts(release, raw_risk=raw_risk, released_file=released_file))


def facts(
    release: ReportedRelease, *, raw_risk: Risk | None = None, released_file: str | Path | None = None
) -> dict[str, Any]:
    """Return the contents of the report as plain values by name."""
    checked, schema = release.checked, release.schema
    return {
        "promise": promise(checked.level("k"), [attribute.name for attribute in schema.quasi]),
        "rows": checked.rows,
        "groups": checked.groups,
        "suppressed": release.suppressed,
        "models": [measured._asdict() for measured in checked.measured],
        "risk": {"before": None if raw_risk is None else raw_risk._asdict(), "after": checked.risk._asdict()},
        "loss": release.loss._asdict(),
        "attributes": [{"name": a.name, "role": a.role, "kind": a.kind, "weight": a.weight} for a in schema],
        "sizes": _size_bins(checked.sizes),
        "sample": _sample_groups(release),
        "method": release.method,
        "parameters": dict(release.parameters),
        "missing_marks": list(release.missing_marks),
        "file": None if released_file is None else _fingerprint(Path(released_file)),
        "versions": library_versions(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def promise(k: float, quasi: Sequence[str]) -> str:
    """Say what a release guarantees: never "anonymous" alone, always with respect to named columns."""
    return f"{show_level(k)}-anonymous with respect to {listed(quasi, MOST_COLUMNS)}"


def dump_json(content: Any) -> str:
    """Return plain values and numpy's numbers as valid JSON: infinity as text, NaN as null."""
    return json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def render(content: Mapping[str, Any], title: str, template: str = "report.html.j2") -> str:
    """Render the report as HTML, or another page by its ``template``."""
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    filters: dict[str, Any] = {"percent": show_share, "level": show_level, "listed": listed, "asked": show_asked}
    templates.filters |= filters | {"count": lambda number: f"{number:,}"}
    templates.globals |= {"losses": LOSSES, "recodings_that_publish": recodings_that_publish}
    return templates.get_template(template).render(title=title, **content)


def show_share(share: float) -> str:
    """Format a share for people, with a decimal only if it is not 0."""
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{share * 100:.1f} %".replace(".0 %", " %")


def show_asked(measured: Mapping[str, Any]) -> str:
    """Format the required level with the direction of its bound."""
    asked = measured["asked"]
    if asked is None:
        return ""
    if isinstance(asked, (str, tuple, list)):
        return show_level(asked if isinstance(asked, str) else tuple(asked))
    sign = "≥" if measured["better"] == "higher" else "<" if MODELS[measured["key"]].strict else "≤"
    return f"{sign} {show_level(asked)}"


def listed(names: Iterable[str], most: int = MOST_COLUMNS) -> str:
    """Join names to a list that is readable however many there are."""
    names = list(names)
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _size_bins(sizes: SizeCounts) -> list[dict[str, Any]]:
    """Count groups and rows by size, in bins that double; the last one is open."""
    bins: list[dict[str, Any]] = []
    if len(sizes.rows) == 0:
        return bins
    low, largest, total = int(sizes.rows[0]), int(sizes.rows[-1]), int((sizes.rows * sizes.groups).sum())
    while low <= largest:
        high = largest if len(bins) == MOST_SIZES - 1 else min(2 * low - 1, largest)
        inside = (sizes.rows >= low) & (sizes.rows <= high)
        groups, rows = int(sizes.groups[inside].sum()), int((sizes.rows * sizes.groups)[inside].sum())
        bins.append({"from": low, "to": high, "groups": groups, "rows": rows, "share": rows / total})
        low = high + 1
    return bins


def _sample_groups(release: ReportedRelease) -> list[dict[str, Any]]:
    """Return a few released groups from the smallest to the largest, with their quasi-identifiers only."""
    names = [attribute.name for attribute in release.schema.quasi]
    if not len(release.labels):
        return []
    order, starts = group_members(release.labels)
    sizes = np.diff(starts)
    shown = frames.open_frame(release.frame)[order[starts[:-1]][sizes > 0].astype(np.intp)].select(names)
    size = "rows of " + " ".join(names)
    shown = shown.with_columns(frames.new_series(size, sizes[sizes > 0].tolist(), shown))
    # Groups of the partition with equal released values are one group in the table.
    ranked = shown.group_by(names).agg(nw.col(size).sum()).sort([size, *names])
    picked = np.unique(np.linspace(0, len(ranked) - 1, min(MOST_GROUPS, len(ranked))).astype(np.intp))
    return [
        {"rows": row[size], "values": {name: _text(row[name]) for name in names[:MOST_COLUMNS]}}
        for row in ranked[picked].iter_rows(named=True)
    ]


def _text(value: Any) -> str:
    if value is None or value != value:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _fingerprint(path: Path) -> dict[str, Any] | None:
    """Return the SHA-256 of a file, or of all files of a folder sorted by name; None if the path does not exist."""
    if not path.exists():
        return None
    parts = [path] if path.is_file() else sorted(one for one in path.iterdir() if not one.name.startswith((".", "_")))
    digest = hashlib.sha256()
    for part in parts:
        with part.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return {"name": path.name, "bytes": sum(part.stat().st_size for part in parts), "sha256": digest.hexdigest()}


def library_versions() -> dict[str, str]:
    """Return the versions of Shoal, Python and the libraries that a result may depend on."""
    found = {"shoal": shoal.__version__, "python": platform.python_version()}
    return found | {name: metadata.version(name) for name in LIBRARIES}
