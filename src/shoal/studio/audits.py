"""Attack a model of the raw rows and one of the release, and keep the evidence; it runs in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from shoal.anonymizers import find_method
from shoal.attacks.membership import MEMBERSHIP
from shoal.data import files
from shoal.data.schema import Schema
from shoal.evaluation.protected_model import ProtectedModel
from shoal.jobs.audit import Audit, audit
from shoal.jobs.compare_audits import compare_audits
from shoal.models.targets import features, read_target
from shoal.reports.report import dump_json
from shoal.studio.estimators import find_estimator
from shoal.studio.runs import SCHEMA, SEED, TABLE, anonymize_with
from shoal.studio.settings import Settings

PAGE, NUMBERS, SIDE_BY_SIDE = "audit.html", "audit.json", "audits.html"
QUICK = ["loss", "label", "forest", "boosting", "network"]
"""Attacks on membership that are made without reference models."""
MOST_ROWS = 40_000


def attack(folder: Path, set_to: dict[str, Any], references: int, step: Callable[[str], None]) -> None:
    """Attack both models with half of the rows as members, and write pages and numbers into the folder."""
    step("Reading the table")
    settings = Settings.from_dict(set_to)
    frame = files.read_table(folder / TABLE)
    schema = settings.weighted(Schema.from_toml(folder / SCHEMA))
    order = np.random.default_rng(SEED).permutation(frame.height)[:MOST_ROWS]
    half = len(order) // 2
    members, controls = frame[order[:half].tolist()], frame[order[half:].tolist()]
    seen, y = members.select(features(schema)), read_target(members, schema)
    shown = Schema([attribute for attribute in schema if attribute.role != "identifier"])
    estimator = find_estimator(settings.model or "tree", folder, schema)
    protected = ProtectedModel(
        estimator,
        find_method(settings.method)(
            shown,
            settings.k,
            constraints=tuple(settings.constraints()),
            suppression=settings.suppression,
            recoding=settings.recoding_for_models,
            random_state=SEED,
            **settings.options(),
        ),
    )
    step("Training on raw rows")
    raw = clone(estimator).fit(seen, y)
    options: dict[str, Any] = {"n_references": references, "random_state": SEED, "n_jobs": 1}
    if not references:
        options |= {"attacks": QUICK, "n_references": 2}
    step("Attacking the model of raw rows")
    before = audit(raw, members, controls, schema, **options)
    step("Training on the release")
    model = protected.fit(seen, y)
    step("Attacking the model of the release, and the release")
    released = anonymize_with(settings, members, schema).frame
    after = audit(model, members, controls, schema, estimator=protected, released=released, **options)
    step("Writing the evidence")
    after.to_html(folder / PAGE, title="Audit of the release")
    both = {"raw rows": before, f"{settings.method}, k = {settings.k}": after}
    compare_audits(both).to_html(folder / SIDE_BY_SIDE, title="Before and after")
    numbers = {name: found.facts() for name, found in both.items()}
    summary = {name: summarise(found) for name, found in both.items()}
    files.write_text(folder / NUMBERS, dump_json({"summary": summary, "audits": numbers}) + "\n")


def summarise(found: Audit) -> dict[str, Any]:
    """Return the verdicts, the scores of the model, and the main numbers of each attack."""
    return {
        "verdicts": [one._asdict() for one in found.verdicts],
        "scores": found.about["scores"],
        "attacks": [
            {
                "risk": risk,
                "attack": one.attack,
                "accuracy": one.accuracy.value,
                "baseline": one.baseline.value,
                "advantage": list(one.advantage),
                "area": None if one.auc is None else one.auc.value,
            }
            for risk, results in found.results.items()
            for one in results
        ],
        "curves": {
            one.attack: [one.curve.false_alarms.tolist(), one.curve.hits.tolist()]
            for one in found.results.get(MEMBERSHIP.name, [])
            if one.curve is not None
        },
        "skipped": [one._asdict() for one in found.skipped],
    }


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the summary that :func:`attack` wrote."""
    found: dict[str, Any] = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))["summary"]
    return found
