"""Protect a model: anonymize its training rows, retrain it on them, and measure the cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from joblib import parallel_config

from shoal.data import frames
from shoal.data.factored import FactoredFrame
from shoal.data.files import write_text
from shoal.data.schema import Schema, require_schema
from shoal.data.table import require_same_columns
from shoal.errors import ShoalError
from shoal.evaluation.comparison import Comparison, compare, facts_of, part_rows, score_facts, verdict
from shoal.evaluation.plan import plan_methods, plan_models
from shoal.evaluation.provenance import Anonymization, Provenance, repeatable, trace
from shoal.evaluation.scores import seeded, telling_why
from shoal.jobs.release import Release, make_anonymizer, release_table, risk_before
from shoal.models.estimators import takes_factors
from shoal.models.guides import ModelInput, name_of
from shoal.models.targets import features, target_of
from shoal.parameters import SEED
from shoal.privacy.models import PrivacyModel, check_constraints
from shoal.privacy.risk import Risk
from shoal.reports.report import facts as release_facts
from shoal.reports.report import render, show_share
from shoal.reports.summaries import FactSheet


@dataclass(frozen=True, repr=False, eq=False)
class Protection(FactSheet):
    """A model trained on a k-anonymous release, and the evidence; made by :func:`protect`.

    Attributes
    ----------
    release : Release
        The anonymized training rows.
    model : estimator
        Trained on the release.
    original : estimator
        The same model trained on the raw rows, for comparison; do not ship it.
    comparison : Comparison
    schema : Schema
    raw_risk : Risk
        Risk of re-identification in the raw training rows.
    rows : int array
        Position of each released row in the input table.
    provenance : Provenance
        The training rows and their anonymization, for the reference models of :func:`shoal.audit`.
    """

    release: Release
    model: Any
    original: Any
    comparison: Comparison
    schema: Schema
    raw_risk: Risk
    rows: np.ndarray
    provenance: Provenance

    @property
    def verdict(self) -> str:
        """Result of the comparison in a careful sentence."""
        return verdict(self.comparison)

    def summary(self) -> list[tuple[str, str]]:
        """Return the gains and losses in a few facts, each a name and a text."""
        facts = [("model", name_of(self.model)), *score_facts(self.comparison)]
        if self.comparison.agreement is not None:
            facts.append(("rows with equal predictions", show_share(self.comparison.agreement)))
        return facts + self.release.summary()

    def to_html(
        self, path: str | Path, *, title: str = "Model protection report", released_file: str | Path | None = None
    ) -> None:
        """Write the evidence as one self-contained page, in full or not at all."""
        facts = release_facts(self.release, raw_risk=self.raw_risk, released_file=released_file)
        write_text(path, render(facts | self._facts(), title, "protection.html.j2"))

    def _facts(self) -> dict[str, Any]:
        return facts_of(self.comparison) | {
            "verdict": self.verdict,
            "model_name": name_of(self.model),
            "target": target_of(self.schema).name,
            "seen_raw": [name for name in features(self.schema) if self.schema[name].role != "quasi"],
            "findings": {"guide": None, "tried": [], **self.release.findings},
            "guide_names": describe_guide,
        }


def protect(
    frame: Any,
    schema: Schema,
    model: Any = "forest",
    k: int = 10,
    *,
    test: Any = None,
    test_size: float = 0.2,
    method: str = "accuracy-guided",
    constraints: Sequence[PrivacyModel] = (),
    recoding: str | None = None,
    random_state: int = 0,
    **options: Any,
) -> Protection:
    """Anonymize training rows, train a model on them, and compare it with a model trained on the raw rows.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
        Training rows.
    schema : Schema
        It must have one target.
    model : str or estimator
        A name that :func:`shoal.make_model` knows, or a scikit-learn estimator, a clone of which is trained. An
        estimator that was trained on named columns, unless it is a pipeline, gets only those.
    k : int
        Minimum number of rows that are released alike.
    test : table, optional
        Rows to compare on. By default a part of ``frame`` is held out: it is neither trained on nor released.
    test_size : float
        Share of the rows that is held out.
    method, constraints
        As for :func:`shoal.anonymize`.
    recoding : str, optional
        By default the method's own, or ``"representative"`` if that writes ranges, which models cannot use.
    random_state : int
        Seed of the split, the method and the models.
    **options
        Further parameters of the method.

    Examples
    --------
    >>> from shoal import protect
    >>> from shoal.datasets import make_census
    >>> census = make_census(1000)
    >>> protection = protect(census.frame, census.schema, "tree", k=20, guide="hard")
    >>> protection.release.k >= 20, protection.comparison.rows
    (True, 200)
    """
    require_schema(schema)
    SEED.check("random_state", random_state)
    table = FactoredFrame.of(nw.maybe_reset_index(frames.open_frame(frame)))
    frames.require_rows(table)
    require_same_columns(table.columns, schema)
    label, planned = _only(plan_models(model, schema), "model")
    _, chosen = _only(plan_methods(method, check_constraints(constraints), recoding, options), "method")
    parts = part_rows(table, schema, test, test_size, random_state)
    y, by_factors = parts.y, takes_factors(planned)
    raw_rows, seen = (
        ModelInput(part, features(schema), as_factors=by_factors).take() for part in (parts.train, parts.held_out)
    )
    # Only one model is trained at a time, so it uses all threads unless its own parameters say otherwise.
    in_threads = partial(parallel_config, backend="threading", n_jobs=options.get("n_jobs") or -1)
    with telling_why(label), in_threads():
        original = seeded(planned, random_state).fit(raw_rows, y)
    guided_by = {"model": original} if chosen.takes_model else {}
    anonymizer = make_anonymizer(chosen.name, schema, k, random_state=random_state, **guided_by, **chosen.options)
    release, encoded, rows_released = release_table(anonymizer, chosen.name, parts.train)
    released = ModelInput(rows_released, features(schema), as_factors=by_factors).take()
    with telling_why(label), in_threads():
        retrained = seeded(planned, random_state).fit(released, y[release.rows])
        comparison = compare(original, retrained, seen, parts.truth, (raw_rows, y), (released, y[release.rows]), schema)
    raw_risk, rows = risk_before(encoded), parts.rows[release.rows]
    options = repeatable(chosen.options, release.findings)
    provenance = trace(table, rows, Anonymization(chosen.name, k, check_constraints(constraints), options))
    return Protection(release, retrained, original, comparison, schema, raw_risk, rows, provenance)


def _only(planned: dict[str, Any], what: str) -> tuple[str, Any]:
    if len(planned) > 1:
        raise ShoalError(f"One {what} is needed, not {', '.join(planned)}: choose one, or compare them with evaluate.")
    return next(iter(planned.items()))


def describe_guide(guide: Any) -> str:
    """Describe a guide of groups."""
    if guide == "hard":
        return "the predicted classes (as published)"
    if guide == "mondrian":
        return "the attributes alone (Mondrian)"
    if guide == 1:
        return "the model's output, as logits"
    return f"the model's output, {guide:.0%}, and the attributes, {1 - guide:.0%}"
