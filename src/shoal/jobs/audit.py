"""Attack a model, and the release it was trained on, and write the evidence for the person who must decide."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.metrics import r2_score

from shoal.attacks.answers import call_model
from shoal.attacks.membership import MEMBERSHIP, auc_or_accuracy
from shoal.attacks.registry import ELEMENTS, AuditInput, Element, Finding, Skipped, risks
from shoal.attacks.results import AttackResult
from shoal.attacks.trees import quick
from shoal.data import frames
from shoal.data.files import replacing, write_text
from shoal.data.schema import Schema, require_schema
from shoal.errors import DataError, ShoalError
from shoal.evaluation.provenance import fingerprint
from shoal.models.guides import name_of
from shoal.models.targets import features, read_target, target_of, task_of
from shoal.parameters import JOBS, SEED
from shoal.reports.report import dump_json, library_versions, render
from shoal.reports.summaries import FactSheet

MOST_EXPOSED = 10
"""Number of rows that are listed as most exposed."""
MOST_ROWS = 60_000
"""Maximum number of members and of controls that are attacked; of more, as many are drawn."""
MOST_LINES = 4
PLOT_WIDTH, PLOT_HEIGHT = 470.0, 330.0
LOWEST_RATE = 1e-3
"""Lowest rate on the axes of ROC curves, both of which are logarithmic."""


class Audit(FactSheet):
    """Attacks on a model and their results; made by :func:`audit`.

    Attributes
    ----------
    findings : list of Finding
        The results on each risk, with the risk as :mod:`shoal.attacks.registry` describes it.
    verdicts : list of RiskVerdict
        For each risk a sentence about the strongest evidence.
    results : dict
        For each risk a list of :class:`shoal.attacks.results.AttackResult`.
    skipped : list of Skipped
        Attacks that were not made, and the reasons.
    about : dict
        Model, rows, seeds, fingerprints of the data, versions and the time spent.
    """

    def __init__(self, findings: Sequence[Finding], skipped: Sequence[Skipped], about: Mapping[str, Any]) -> None:
        self.findings = list(findings)
        self.results = {one.name: one.results for one in findings}
        self.verdicts = [one.verdict for one in findings]
        self.skipped = list(skipped)
        self.about = dict(about)

    def summary(self) -> list[tuple[str, str]]:
        """Return the verdict on each risk."""
        return [(one.risk, one.sentence) for one in self.verdicts]

    def most_exposed(self, n: int = MOST_EXPOSED) -> list[int]:
        """Return the numbers of the members about whom the strongest attack on membership is most certain."""
        found = self._on_membership
        if not found:
            return []
        strongest = max(found, key=lambda one: one.auc.value if one.auc is not None else 0.0)
        return [int(self.about["member_rows"][row]) for row in strongest.most_exposed(n)]

    def facts(self) -> dict[str, Any]:
        """Return every number by name."""
        return {
            "verdicts": [one._asdict() for one in self.verdicts],
            "results": {risk: [one.facts() for one in found] for risk, found in self.results.items()},
            "skipped": [one._asdict() for one in self.skipped],
            "most_exposed_members": self.most_exposed(),
            "about": self._public_about,
        }

    def to_json(self, path: str | Path) -> None:
        """Write every number, in full or not at all."""
        write_text(path, dump_json(self.facts()) + "\n")

    def to_html(self, path: str | Path, *, title: str = "Audit") -> None:
        """Write the evidence as one self-contained page, in full or not at all."""
        write_text(path, render(self._page(), title, "audit.html.j2"))

    def plot(self, path: str | Path) -> None:
        """Draw the ROC curves of the strongest attacks on membership as PNG, SVG or PDF, by the suffix of the path."""
        from shoal.reports.plots import draw_curves, kind_of

        curves = _strongest_curves(self._on_membership)
        if not curves:
            raise ShoalError("There are no curves to draw: no attack on membership was made.")
        image = draw_curves({one.attack: one for one in curves}, kind_of(path))
        with replacing(path) as temporary:
            temporary.write_bytes(image)

    @property
    def _on_membership(self) -> list[AttackResult]:
        return self.results.get(MEMBERSHIP.name, [])

    @property
    def _public_about(self) -> dict[str, Any]:
        return {name: value for name, value in self.about.items() if name != "member_rows"}

    def _page(self) -> dict[str, Any]:
        return {
            "findings": self.findings,
            "verdicts": self.verdicts,
            "skipped": self.skipped,
            "about": self._public_about,
            "exposed": self.most_exposed(),
            "lines": _roc_lines(self._on_membership),
            "elements": self._answer_elements(),
            "versions": self.about["versions"],
        }

    def _answer_elements(self) -> list[tuple[str, str]]:
        """Return the regulator's elements, each with the verdicts that answer it."""
        said: dict[Element, list[str]] = {element: [] for element in ELEMENTS}
        for finding, verdict in zip(self.findings, self.verdicts, strict=True):
            said.setdefault(finding.risk.element, []).append(verdict.sentence)
        return [(element.name, " ".join(sentences) or element.untested) for element, sentences in said.items()]


def audit(
    model: Any,
    members: Any,
    controls: Any,
    schema: Schema,
    *,
    estimator: Any = None,
    released: Any = None,
    attacks: Sequence[str] | None = None,
    n_references: int = 16,
    time_limit: float | None = None,
    n_jobs: int = 1,
    random_state: int = 0,
) -> Audit:
    """Attack a model, and its release if given, and report what leaks.

    Parameters
    ----------
    model : estimator
        Trained on the members: anything with ``predict``, better ``predict_proba``.
    members, controls : pandas, polars or pyarrow table
        Training rows, and similar rows outside the training data; with the target.
    schema : Schema
        With one target. Attribute inference is tried on each sensitive attribute that the model sees.
    estimator : estimator, optional
        Recipe of the model, for attacks with reference models; by default a fresh copy of the model.
    released : table, optional
        Release of the members, for attacks that link people with it.
    attacks : sequence of str, optional
        Attacks on membership, see :func:`shoal.attacks.membership.attack_names`; by default all that apply.
    n_references : int
        Number of reference models, even.
    time_limit : float, optional
        Seconds. Fewer reference models are trained, or none, to stay within it, and the result reports this.
    n_jobs : int
        Number of reference models that are trained in parallel.
    random_state : int
        Seed, at least 0.

    Returns
    -------
    Audit

    See Also
    --------
    shoal.attacks.registry : The attacks that are made.
    shoal.jobs.compare_audits.compare_audits : Compare several audits.

    Examples
    --------
    >>> from shoal import audit, make_model
    >>> from shoal.datasets import make_census
    >>> census = make_census(800)
    >>> rows, y = census.frame, census.frame["income"].to_numpy()
    >>> model = make_model("tree", census.schema).fit(rows[:400], y[:400])
    >>> found = audit(model, rows[:400], rows[400:], census.schema, attacks=["loss", "label"])
    >>> found.verdicts[0].risk, found.verdicts[0].found
    ('membership', True)
    """
    require_schema(schema)
    SEED.check("random_state", random_state)
    JOBS.check("n_jobs", n_jobs)
    start = time.perf_counter()
    (whole_members, member_rows), (whole_controls, _) = _draw(model, members, controls, schema, random_state)
    names = _features_seen(model, schema)
    given = AuditInput(
        model=model,
        schema=schema,
        features=names,
        members=whole_members.select(names).to_native(),
        controls=whole_controls.select(names).to_native(),
        y_members=read_target(whole_members.to_native(), schema),
        y_controls=read_target(whole_controls.to_native(), schema),
        whole_members=whole_members.to_native(),
        whole_controls=whole_controls.to_native(),
        released=released,
        estimator=estimator,
        attacks=attacks,
        n_references=n_references,
        n_jobs=n_jobs,
        random_state=random_state,
        deadline=math.inf if time_limit is None else start + time_limit,
    )
    findings, skipped = _make_attacks(given)
    tables = {"members": members, "controls": controls} | ({} if released is None else {"released": released})
    about = {
        "model": name_of(model),
        "target": target_of(schema).name,
        "members": len(given.y_members),
        "controls": len(given.y_controls),
        "scores": _scores(given),
        "seed": random_state,
        "fingerprints": {name: fingerprint(table) for name, table in tables.items()},
        "member_rows": member_rows,
        "seconds": time.perf_counter() - start,
        "versions": library_versions(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    return Audit(findings, skipped, about)


def _make_attacks(given: AuditInput) -> tuple[list[Finding], list[Skipped]]:
    findings, skipped = [], []
    for risk in risks():
        for attribute in risk.attributes(given):
            made = list(risk.make(given, risk, attribute))
            skipped += [one for one in made if isinstance(one, Skipped)]
            if results := [one for one in made if isinstance(one, AttackResult)]:
                findings.append(Finding(risk, attribute, results))
    return findings, skipped


def _scores(given: AuditInput) -> dict[str, Any]:
    """Return the model's score on members and on controls: the difference shows what it memorised."""
    classifies, model = task_of(given.schema) == "classification", quick(given.model)
    found: dict[str, Any] = {"score": "accuracy" if classifies else "r2"}
    parts = {"members": (given.members, given.y_members), "controls": (given.controls, given.y_controls)}
    for who, (rows, y) in parts.items():
        said = call_model(model, "predict", rows)
        found[who] = float(np.mean(said.astype(y.dtype) == y)) if classifies else r2_score(y, said)
    return found


def _draw(
    model: Any, members: Any, controls: Any, schema: Schema, seed: int
) -> list[tuple[nw.DataFrame[Any], np.ndarray]]:
    """Return the members and controls to attack, each with their row numbers in the table that was given."""
    drawn = []
    for table, what in ((members, "members"), (controls, "controls")):
        frame = nw.maybe_reset_index(frames.open_frame(table))
        frames.require_rows(frame)
        for name in [*_features_seen(model, schema), target_of(schema).name]:
            if name not in frame.columns:
                raise DataError(f"Column {name!r} is not among the {what}: pass all columns that the model sees.")
        rows = np.arange(len(frame))
        if len(frame) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(seed).choice(len(frame), MOST_ROWS, replace=False))
        drawn.append((frames.take_rows(frame, rows), rows))
    return drawn


def _features_seen(model: Any, schema: Schema) -> list[str]:
    known = getattr(model, "feature_names_in_", None)
    return features(schema) if known is None else [str(name) for name in known]


def _strongest_curves(found: Sequence[AttackResult]) -> list[AttackResult]:
    """Return the strongest attacks that have a curve, in descending order."""
    return sorted((one for one in found if one.curve is not None), key=auc_or_accuracy, reverse=True)[:MOST_LINES]


def _roc_lines(found: Sequence[AttackResult]) -> list[dict[str, Any]]:
    """Return the strongest attacks as lines of a drawing with logarithmic axes."""
    lines = []
    for one in _strongest_curves(found):
        assert one.curve is not None
        points = [
            (_place(alarms, PLOT_WIDTH), PLOT_HEIGHT - _place(hits, PLOT_HEIGHT))
            for alarms, hits in zip(one.curve.false_alarms, one.curve.hits, strict=True)
            if hits > 0
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append({"name": one.attack, "path": path, "auc": one.auc})
    return lines


def _place(rate: float, length: float) -> float:
    decades = -math.log10(LOWEST_RATE)
    return length * (1 + math.log10(max(rate, LOWEST_RATE)) / decades)
