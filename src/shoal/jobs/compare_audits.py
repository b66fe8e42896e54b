"""Compare audits, such as those of a raw model and of one that was trained on a release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.attacks.results import AttackResult, show_points
from shoal.data.files import replacing, write_text
from shoal.errors import ShoalError
from shoal.jobs.audit import Audit
from shoal.reports.report import library_versions, render
from shoal.reports.summaries import FactSheet


class AuditComparison(FactSheet):
    """A comparison of audits, such as before and after a defence; made by :func:`compare_audits`.

    Attributes
    ----------
    audits : dict
        By name.
    rows : list of dict
        One for each audit, risk and attack.
    """

    def __init__(self, audits: Mapping[str, Audit]) -> None:
        self.audits = dict(audits)
        self.rows = [
            {"name": name, "score_on_controls": found.about["scores"]["controls"], "risk": risk} | one.facts()
            for name, found in self.audits.items()
            for risk, results in found.results.items()
            for one in results
        ]

    def summary(self) -> list[tuple[str, str]]:
        """Return the verdicts of each audit."""
        return [(name, " ".join(one.sentence for one in found.verdicts)) for name, found in self.audits.items()]

    def strongest(self, risk: str) -> dict[str, AttackResult]:
        """Return the strongest attack on a risk for each audit."""
        found = {}
        for name, one in self.audits.items():
            if one.results.get(risk):
                found[name] = max(one.results[risk], key=lambda result: result.advantage.value)
        return found

    def to_csv(self, path: str | Path) -> None:
        """Write one line per attack; intervals become three columns."""
        import polars as pl

        flat = [_flatten(row) for row in self.rows]
        with replacing(path) as temporary:
            pl.DataFrame(flat, infer_schema_length=None).write_csv(temporary)

    def to_html(self, path: str | Path, *, title: str = "Audits compared") -> None:
        """Write a page with a table for each risk, in full or not at all."""
        risks = list(dict.fromkeys(row["risk"] for row in self.rows))
        tables = {}
        for risk in risks:
            names = list(dict.fromkeys(row["attack"] for row in self.rows if row["risk"] == risk))
            by = {(name, one.attack): one for name, found in self.audits.items() for one in found.results.get(risk, [])}
            tables[risk] = [(attack, [by.get((name, attack)) for name in self.audits]) for attack in names]
        content = {"tables": tables, "audits": self.audits, "versions": library_versions(), "points": show_points}
        write_text(path, render(content, title, "audits.html.j2"))


def compare_audits(audits: Mapping[str, Audit]) -> AuditComparison:
    """Compare audits by name: of a raw model, of one trained on a release, of a privacy-guided one.

    Examples
    --------
    >>> from shoal import audit, make_model
    >>> from shoal.jobs.compare_audits import compare_audits
    >>> from shoal.datasets import make_census
    >>> census = make_census(600)
    >>> rows, y = census.frame, census.frame["income"].to_numpy()
    >>> models = {name: make_model(name, census.schema).fit(rows[:300], y[:300]) for name in ("tree", "logistic")}
    >>> found = {name: audit(m, rows[:300], rows[300:], census.schema, attacks=["loss"]) for name, m in models.items()}
    >>> strongest = compare_audits(found).strongest("membership")
    >>> strongest["tree"].auc.value > strongest["logistic"].auc.value
    True
    """
    if not audits:
        raise ShoalError("There are no audits to compare: pass at least one by its name.")
    return AuditComparison(audits)


def _flatten(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= {name if part == "value" else f"{name}_{part}": number for part, number in value.items()}
        elif value is None:
            flat |= {name: None}
        else:
            flat[name] = value
    return flat
