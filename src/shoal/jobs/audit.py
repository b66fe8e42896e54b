"""What leaks from a model or a release: attacks, their evidence and limits, and a page for who must decide."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score

from shoal.attacks import linkage, membership, reidentification
from shoal.attacks.answers import call_model
from shoal.attacks.attribute import infer_attribute
from shoal.attacks.references import seeded, take
from shoal.attacks.results import AttackResult
from shoal.attacks.trees import quick
from shoal.attacks.wording import (
    NOT_LOOKED_AT,
    OPINION,
    RiskVerdict,
    describe_matches,
    describe_membership,
    describe_secret,
    describe_table,
    roc_lines,
    strongest_curves,
)
from shoal.data import frames
from shoal.data.files import replacing
from shoal.data.schema import Schema, require_schema
from shoal.errors import DataError, ShoalError, reason
from shoal.evaluation.provenance import fingerprint
from shoal.models.guides import name_of
from shoal.models.targets import features, read_target, target_of, task_of
from shoal.parameters import JOBS, SEED
from shoal.reports.report import dump_json, library_versions, listed, render
from shoal.reports.summaries import FactSheet

MOST_EXPOSED = 10
"""Rows that are listed as most exposed."""
FEWEST_REFERENCES = 4
MOST_ROWS = 60_000
"""Members and controls that are attacked; of more, as many are drawn."""


class Skipped(NamedTuple):
    """An attack that was not made, and why."""

    attack: str
    why: str


class Audit(FactSheet):
    """Attacks on a model, and what they found; made by :func:`audit`.

    Attributes
    ----------
    verdicts : list of RiskVerdict
        For each risk a sentence, with the strongest evidence.
    results : dict
        For each risk the attacks, a list of :class:`AttackResult`.
    skipped : list of Skipped
        What was not tried, and why.
    about : dict
        Model, rows, seeds, fingerprints of the data, versions and the time that was spent.
    """

    def __init__(
        self,
        results: Mapping[str, list[AttackResult]],
        verdicts: Sequence[RiskVerdict],
        skipped: Sequence[Skipped],
        about: Mapping[str, Any],
    ) -> None:
        self.results = dict(results)
        self.verdicts = list(verdicts)
        self.skipped = list(skipped)
        self.about = dict(about)

    def summary(self) -> list[tuple[str, str]]:
        """The verdict on each risk."""
        return [(one.risk, one.sentence) for one in self.verdicts]

    def most_exposed(self, n: int = MOST_EXPOSED) -> list[int]:
        """Numbers of the members that the strongest attack on membership is surest of."""
        found = self.results.get("membership", [])
        if not found:
            return []
        strongest = max(found, key=lambda one: one.auc.value if one.auc is not None else 0.0)
        rows = strongest.most_exposed(n)
        numbers = self.about["member_rows"]
        return [int(numbers[row]) for row in rows]

    def facts(self) -> dict[str, Any]:
        """Every number by name."""
        about = {name: value for name, value in self.about.items() if name != "member_rows"}
        return {
            "verdicts": [one._asdict() for one in self.verdicts],
            "results": {risk: [one.facts() for one in found] for risk, found in self.results.items()},
            "skipped": [one._asdict() for one in self.skipped],
            "most_exposed_members": self.most_exposed(),
            "about": about,
        }

    def to_json(self, path: str | Path) -> None:
        """Write every number; the file is there in full or not at all."""
        with replacing(path) as temporary:
            temporary.write_text(dump_json(self.facts()) + "\n", encoding="utf-8")

    def to_html(self, path: str | Path, *, title: str = "Audit") -> None:
        """Write the evidence as one page that needs nothing from elsewhere; it is there in full or not at all."""
        page = render(self._page(), title, "audit.html.j2")
        with replacing(path) as temporary:
            temporary.write_text(page, encoding="utf-8")

    def plot(self, path: str | Path) -> None:
        """Draw members found against false alarms, by the strongest attacks; PNG, SVG or PDF by the ending."""
        from shoal.reports.plots import draw_curves, kind_of

        curves = strongest_curves(self.results.get("membership", []))
        if not curves:
            raise ShoalError("There are no curves to draw: no attack on membership was made.")
        image = draw_curves({one.attack: one for one in curves}, kind_of(path))
        with replacing(path) as temporary:
            temporary.write_bytes(image)

    def _page(self) -> dict[str, Any]:
        lines = roc_lines(self.results.get("membership", []))
        return {
            "verdicts": self.verdicts,
            "results": self.results,
            "skipped": self.skipped,
            "about": {name: value for name, value in self.about.items() if name != "member_rows"},
            "exposed": self.most_exposed(),
            "lines": lines,
            "opinion": [(element, covered(self)) for element, covered in OPINION],
            "not_looked_at": NOT_LOOKED_AT,
            "versions": self.about["versions"],
        }


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
    """Attack a model, and if given the release that it was trained on, and say what leaks.

    Parameters
    ----------
    model : estimator
        Trained on the members: anything with ``predict``, better ``predict_proba``.
    members, controls : pandas, polars or pyarrow table
        Rows that it was trained on, and rows like them that it was not; with the target.
    schema : Schema
        With one target. Sensitive attributes that the model sees are what attribute inference is tried on.
    estimator : estimator, optional
        How the model was trained, for attacks with reference models; by default a fresh copy of the model.
    released : table, optional
        The release of the members, to be linked with them.
    attacks : sequence of str, optional
        Attacks on membership, see :func:`shoal.attacks.membership.attack_names`; by default all that apply.
    n_references : int
        Reference models, an even number.
    time_limit : float, optional
        Seconds. Fewer reference models are trained, or none, to keep to it, and the result says so.
    n_jobs : int
        Reference models that are trained side by side.
    random_state : int
        Seed, from 0 on.

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
    rows = _read(model, members, controls, schema, random_state)
    skipped: list[Skipped] = []
    plan = _Plan(estimator, attacks, n_references, n_jobs, random_state, start, time_limit)
    results = {"membership": _attack_membership(model, rows, plan, skipped)}
    for attribute in schema.sensitive:
        results[f"value of {attribute.name}"] = _attack_attribute(model, rows, attribute.name, plan, skipped)
    if released is not None:
        results |= _attack_release(rows, released, schema, plan, skipped)
    results = {risk: found for risk, found in results.items() if found}
    about = {
        "model": name_of(model),
        "target": target_of(schema).name,
        "members": len(rows.y_members),
        "controls": len(rows.y_controls),
        "scores": _scores(model, rows, schema),
        "seed": random_state,
        "fingerprints": {"members": fingerprint(members), "controls": fingerprint(controls)}
        | ({} if released is None else {"released": fingerprint(released)}),
        "member_rows": rows.member_rows,
        "seconds": time.perf_counter() - start,
        "versions": library_versions(),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    return Audit(results, _judge(results), skipped, about)


class _Rows(NamedTuple):
    """Members and controls as the model sees them, their labels, and as they are."""

    members: Any
    controls: Any
    y_members: np.ndarray
    y_controls: np.ndarray
    whole_members: Any
    whole_controls: Any
    names: list[str]
    member_rows: np.ndarray
    """Their numbers in the table that was given."""


def _scores(model: Any, rows: _Rows, schema: Schema) -> dict[str, Any]:
    """How well the model predicts rows that it was trained on, and others: what it remembers shows in between."""
    classifies, asked = task_of(schema) == "classification", quick(model)
    found: dict[str, Any] = {"score": "accuracy" if classifies else "r2"}
    for who, seen, y in (("members", rows.members, rows.y_members), ("controls", rows.controls, rows.y_controls)):
        said = call_model(asked, "predict", seen)
        found[who] = float(np.mean(said.astype(y.dtype) == y)) if classifies else r2_score(y, said)
    return found


class _Plan(NamedTuple):
    estimator: Any
    attacks: Sequence[str] | None
    n_references: int
    n_jobs: int
    seed: int
    start: float
    time_limit: float | None

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return np.inf if self.time_limit is None else self.time_limit - (time.perf_counter() - self.start)


def _attack_membership(model: Any, rows: _Rows, plan: _Plan, skipped: list[Skipped]) -> list[AttackResult]:
    names = list(membership.attack_names() if plan.attacks is None else plan.attacks)
    simple = [name for name in names if name not in membership.attack_names(references=True)]
    with_references = [name for name in names if name not in simple]
    options: dict[str, Any] = {"estimator": plan.estimator, "random_state": plan.seed, "skip": plan.attacks is None}
    data = rows.members, rows.controls, rows.y_members, rows.y_controls
    found = membership.infer_membership(model, *data, attacks=simple, **options) if simple else []
    n = _affordable_references(model, rows, plan, skipped) if with_references else 0
    if n:
        found += membership.infer_membership(
            model, *data, attacks=with_references, n_references=n, n_jobs=plan.n_jobs, **options
        )
    return found


def _affordable_references(model: Any, rows: _Rows, plan: _Plan, skipped: list[Skipped]) -> int:
    """How many reference models there is time for: one is trained to see."""
    retrained = model if plan.estimator is None else plan.estimator
    if not isinstance(retrained, BaseEstimator):
        skipped.append(Skipped("attacks with reference models", "the model cannot be trained anew"))
        return 0
    if plan.time_limit is None:
        return plan.n_references
    half = np.arange(0, len(rows.y_members), 2)
    begun = time.perf_counter()
    try:
        seeded(retrained, plan.seed).fit(take(rows.members, half), rows.y_members[half])
    except Exception as error:  # whatever an estimator does with its rows
        skipped.append(Skipped("attacks with reference models", f"the model cannot be trained anew ({reason(error)})"))
        return 0
    # It had half of the members; reference models have half of all rows, and are asked about them.
    each = 2.5 * (time.perf_counter() - begun) * (1 + len(rows.y_controls) / len(rows.y_members)) / 2
    n = int(0.8 * plan.left * max(plan.n_jobs, 1) / max(each, 1e-9)) // 2 * 2
    if n < FEWEST_REFERENCES:
        skipped.append(Skipped("attacks with reference models", "there was no time for them: allow more"))
        return 0
    if n < plan.n_references:
        skipped.append(Skipped(f"{plan.n_references - n} of {plan.n_references} reference models", "for lack of time"))
    return min(n, plan.n_references)


def _attack_attribute(model: Any, rows: _Rows, name: str, plan: _Plan, skipped: list[Skipped]) -> list[AttackResult]:
    if name not in rows.names:
        skipped.append(Skipped(f"inference of {name} from the model", "the model does not see it"))
        return []
    if plan.left <= 0:
        skipped.append(Skipped(f"inference of {name} from the model", "there was no time for it"))
        return []
    try:
        return infer_attribute(
            model,
            rows.members,
            rows.controls,
            name,
            y_members=rows.y_members,
            y_controls=rows.y_controls,
            random_state=plan.seed,
        )
    except ShoalError as error:
        skipped.append(Skipped(f"inference of {name} from the model", reason(error)))
        return []


def _attack_release(
    rows: _Rows, released: Any, schema: Schema, plan: _Plan, skipped: list[Skipped]
) -> dict[str, list[AttackResult]]:
    """Who knows people's quasi-identifiers, and sees the release."""
    original, control = rows.whole_members, rows.whole_controls
    quasi = [attribute.name for attribute in schema.quasi]
    seed: dict[str, Any] = {"random_state": plan.seed}
    tries: dict[str, list[Any]] = {
        "re-identification": [lambda: reidentification.reidentify(original, released, schema, control=control)],
        "singling out": [lambda: linkage.singling_out(original, released, control, schema, **seed)],
        "linkability": [
            lambda: linkage.linkability(
                original, released, control, columns=(quasi[::2], quasi[1::2]), schema=schema, **seed
            )
        ],
    }
    for attribute in schema.sensitive:
        tries[f"{attribute.name} from the release"] = [
            lambda name=attribute.name: reidentification.disclose(
                original, released, schema, sensitive=name, control=control
            ),
            lambda name=attribute.name: linkage.inference(
                original, released, control, name, known=quasi, schema=schema, **seed
            ),
        ]
    found: dict[str, list[AttackResult]] = {}
    for risk, attempts in tries.items():
        found[risk] = []
        for attempt in attempts:
            try:
                made = attempt()
                several = [made] if isinstance(made, AttackResult) else made
                found[risk] += [one for one in several if isinstance(one, AttackResult)]
            except ShoalError as error:
                skipped.append(Skipped(risk, reason(error)))
    return found


def _judge(results: Mapping[str, list[AttackResult]]) -> list[RiskVerdict]:
    verdicts = []
    for risk, found in results.items():
        if risk == "membership":
            verdicts.append(describe_membership(found))
        elif risk.startswith("value of "):
            verdicts.append(describe_secret(risk, found))
        elif risk == "re-identification":
            verdicts.append(describe_matches(found))
        else:
            verdicts.append(describe_table(risk, found))
    return verdicts


def _read(model: Any, members: Any, controls: Any, schema: Schema, seed: int) -> _Rows:
    opened = [nw.maybe_reset_index(frames.open_frame(one)) for one in (members, controls)]
    names = _names_seen(model, schema)
    for frame, what in zip(opened, ("members", "controls"), strict=True):
        frames.require_rows(frame)
        for name in [*names, target_of(schema).name]:
            if name not in frame.columns:
                raise DataError(f"Column {name!r} is not among the {what}: the audit needs what the model sees.")
    numbers = [_draw(len(frame), seed) for frame in opened]
    drawn = [frames.take_rows(frame, rows) for frame, rows in zip(opened, numbers, strict=True)]
    y_members, y_controls = (read_target(frame.to_native(), schema) for frame in drawn)
    whole_members, whole_controls = (frame.to_native() for frame in drawn)
    seen_members, seen_controls = (frame.select(names).to_native() for frame in drawn)
    return _Rows(seen_members, seen_controls, y_members, y_controls, whole_members, whole_controls, names, numbers[0])


def _names_seen(model: Any, schema: Schema) -> list[str]:
    known = getattr(model, "feature_names_in_", None)
    return features(schema) if known is None else [str(name) for name in known]


def _draw(n: int, seed: int) -> np.ndarray:
    if n <= MOST_ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False))


class AuditComparison(FactSheet):
    """Audits side by side, such as before and after a defence; made by :func:`compare_audits`.

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
        """The verdicts of each."""
        return [(name, " ".join(one.sentence for one in found.verdicts)) for name, found in self.audits.items()]

    def strongest(self, risk: str) -> dict[str, AttackResult]:
        """For each audit the strongest attack on a risk."""
        found = {}
        for name, one in self.audits.items():
            if one.results.get(risk):
                found[name] = max(one.results[risk], key=lambda result: result.advantage.value)
        return found

    def to_csv(self, path: str | Path) -> None:
        """Write a line for each attack; intervals become three columns."""
        import polars as pl

        flat = [_flatten(row) for row in self.rows]
        with replacing(path) as temporary:
            pl.DataFrame(flat, infer_schema_length=None).write_csv(temporary)

    def to_html(self, path: str | Path, *, title: str = "Audits compared") -> None:
        """Write a page with a table for each risk; it is there in full or not at all."""
        risks = list(dict.fromkeys(row["risk"] for row in self.rows))
        tables = {}
        for risk in risks:
            names = list(dict.fromkeys(row["attack"] for row in self.rows if row["risk"] == risk))
            by = {(name, one.attack): one for name, found in self.audits.items() for one in found.results.get(risk, [])}
            tables[risk] = [(attack, [by.get((name, attack)) for name in self.audits]) for attack in names]
        content = {
            "tables": tables,
            "audits": self.audits,
            "versions": library_versions(),
            "listed": listed,
        }
        page = render(content, title, "audits.html.j2")
        with replacing(path) as temporary:
            temporary.write_text(page, encoding="utf-8")


def compare_audits(audits: Mapping[str, Audit]) -> AuditComparison:
    """Put audits side by side: a raw model, one of a release, a privacy-guided one.

    Examples
    --------
    >>> from shoal import audit, make_model
    >>> from shoal.jobs.audit import compare_audits
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
        raise ShoalError("There are no audits to compare: pass some by their names.")
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
