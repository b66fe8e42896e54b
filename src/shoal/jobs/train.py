"""Train a model that relies less on sensitive features, and measure the cost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
from joblib import parallel_config
from sklearn.base import clone

from shoal.data import frames
from shoal.data.factored import FactoredFrame
from shoal.data.files import write_text
from shoal.data.schema import Schema, require_schema
from shoal.data.table import require_same_columns
from shoal.errors import ShoalError, reason
from shoal.evaluation.comparison import Comparison, compare, facts_of, part_rows, score_facts, show_change, verdict
from shoal.evaluation.provenance import Provenance, trace
from shoal.evaluation.scores import telling_why
from shoal.models.guides import name_of
from shoal.models.targets import features, target_of, task_of
from shoal.parameters import JOBS, SEED, constraints_of
from shoal.reports.report import library_versions, listed, render, show_share
from shoal.reports.summaries import FactSheet
from shoal.trees import PrivacyTrees
from shoal.trees.boost import PrivacyBoostClassifier
from shoal.trees.export import export_text
from shoal.trees.forest import PrivacyForestClassifier, PrivacyForestRegressor
from shoal.trees.search import NOTHING, PrivacySearchCV, TriedSetting
from shoal.trees.tree import PrivacyTreeClassifier, PrivacyTreeRegressor

ESTIMATORS: dict[str, dict[str, Any]] = {
    "tree": {"classification": PrivacyTreeClassifier, "regression": PrivacyTreeRegressor},
    "forest": {"classification": PrivacyForestClassifier, "regression": PrivacyForestRegressor},
    "boost": {"classification": PrivacyBoostClassifier},
}
MOST_RULES = 200
"""Maximum number of lines of a tree on a page."""


class Lean(NamedTuple):
    """The importance of a feature in two models, the plain one (before) and the guided one (after)."""

    name: str
    role: str
    sensitivity: float
    before: float
    after: float
    """Importances, as shares of the total."""
    splits_before: int
    splits_after: int


@dataclass(frozen=True, repr=False, eq=False)
class Training(FactSheet):
    """A model that relies less on sensitive features, and the evidence; made by :func:`train`.

    Attributes
    ----------
    model : estimator
        Trained with the best setting.
    plain : estimator
        The same model trained without sensitivities.
    search : PrivacySearchCV
        The settings tried by cross-validation on the training rows.
    comparison : Comparison
        Both models on unseen rows.
    leaning : tuple of Lean
        The features, the most important ones of the plain model first.
    schema : Schema
    provenance : Provenance
        The training rows, for :func:`shoal.audit`.
    """

    model: Any
    plain: Any
    search: PrivacySearchCV
    comparison: Comparison
    schema: Schema
    provenance: Provenance

    @cached_property
    def leaning(self) -> tuple[Lean, ...]:
        """The features, the most important ones of the plain model first."""
        columns = zip(
            self.plain.feature_names_in_,
            self.model.sensitivity_.tolist(),
            self.plain.feature_importances_.tolist(),
            self.model.feature_importances_.tolist(),
            self.plain.n_splits_.tolist(),
            self.model.n_splits_.tolist(),
            strict=True,
        )
        found = [Lean(str(name), self.schema[str(name)].role, *numbers) for name, *numbers in columns]
        return tuple(sorted(found, key=lambda one: -one.before))

    @property
    def sensitive(self) -> list[Lean]:
        """The sensitive features."""
        return [one for one in self.leaning if one.sensitivity > 0]

    @property
    def importance(self) -> tuple[float, float]:
        """Total importance of the sensitive features, before and after."""
        return sum(one.before for one in self.sensitive), sum(one.after for one in self.sensitive)

    @property
    def verdict(self) -> str:
        """Result in careful sentences."""
        names, (before, after) = listed(one.name for one in self.sensitive), self.importance
        if before == after == 0:
            said = f"Even the plain model does not use {names}."
        elif self.search.best_.setting == NOTHING:
            said = f"No setting that was tried relies less on {names} at this cost: the model is the plain one."
        elif after == 0:
            said = f"The model does not use {names}, whose importance in the plain model is {show_share(before)}."
        else:
            said = f"The importance of {names} is {show_share(after)} instead of {show_share(before)}."
        return f"{said} {verdict(self.comparison, before='the plain model', after='The guided model')}"

    def summary(self) -> list[tuple[str, str]]:
        """Return the gains and losses in a few facts, each a name and a text."""
        before, after = self.importance
        return [
            ("model", name_of(self.model)),
            ("setting", describe_setting(self.search.best_.setting)),
            ("sensitive", listed(one.name for one in self.sensitive)),
            ("importance before", show_share(before)),
            ("importance after", show_share(after)),
            *score_facts(self.comparison),
        ]

    def to_html(self, path: str | Path, *, title: str = "Training report") -> None:
        """Write the evidence as one self-contained page, in full or not at all."""
        write_text(path, render(self._facts(), title, "training.html.j2"))

    def facts(self) -> dict[str, Any]:
        """Return the numbers of the page by name."""
        before, after = self.importance
        return {
            "verdict": self.verdict,
            "setting": self.search.best_.setting,
            "importance": {"before": before, "after": after},
            "features": self.leaning,
            "comparison": self.comparison,
            "tried": self.search.tried_,
        }

    def rules(self) -> str | None:
        """Return the rules of a single tree as text; None for several trees."""
        return export_text(self.model) if len(getattr(self.model, "trees_", ())) < 2 else None

    def _facts(self) -> dict[str, Any]:
        search, rules = self.search, self.rules()
        lines = [] if rules is None else rules.splitlines()
        return facts_of(self.comparison) | {
            "verdict": self.verdict,
            "model_name": name_of(self.model),
            "target": target_of(self.schema).name,
            "sensitive": self.sensitive,
            "importance": self.importance,
            "leaning": self.leaning,
            "setting": describe_setting(search.best_.setting),
            "describe": describe_setting,
            "tried": search.tried_,
            "best": search.best_,
            "plain": search.plain_,
            "points": _points(search.tried_),
            "bound": _describe_bound(search, self.comparison.score),
            "n_folds": search.n_splits_,
            "rules": "\n".join(lines[:MOST_RULES]),
            "n_rules_left": max(len(lines) - MOST_RULES, 0),
            "parameters": {k: v for k, v in self.model.get_params().items() if k not in ("sensitivity", *NOTHING)},
            "versions": library_versions(),
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        }


def train(
    frame: Any,
    schema: Schema,
    estimator: Any = "forest",
    *,
    sensitivity: Mapping[str, float] | None = None,
    max_accuracy_loss: float | None = None,
    max_importance: float | None = None,
    test: Any = None,
    test_size: float = 0.2,
    cv: Any = 3,
    n_jobs: int = -1,
    random_state: int = 0,
    **options: Any,
) -> Training:
    """Train the model that relies least on sensitive features at a limited cost, and measure the cost.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
        Training rows.
    schema : Schema
        It must have one target. Identifiers are left out; all other attributes are features.
    estimator : {"tree", "forest", "boost"} or estimator
        A name, or an estimator such as :class:`PrivacyForestClassifier`, with its parameters.
    sensitivity : dict, optional
        Features, each with a weight from 0 to 1. By default the sensitive attributes of the schema, with 1.
    max_accuracy_loss : float, optional
        Maximum loss of the score in the search, accuracy or R²; 0.01 if no bound is given.
    max_importance : float, optional
        Maximum total importance of the sensitive features, as a share.
    test : table, optional
        Rows to compare on. By default a part of ``frame`` is held out.
    test_size : float
        Share of the rows that is held out.
    cv : int or splitter
        Folds of the search.
    n_jobs : int
        Number of models that are trained in parallel; -1 uses all cores.
    random_state : int
        Seed of the split and the models.
    **options
        Parameters of the estimator, such as ``max_depth``.

    Examples
    --------
    >>> from shoal import train
    >>> from shoal.datasets import make_census
    >>> census = make_census(1500)
    >>> training = train(census.frame, census.schema, "tree", sensitivity={"age": 1.0}, max_depth=6)
    >>> before, after = training.importance
    >>> after < before
    True
    """
    require_schema(schema)
    SEED.check("random_state", random_state)
    JOBS.check("n_jobs", n_jobs)
    constraints_of(PrivacySearchCV)["max_risk"].check("max_importance", max_importance)
    opened = nw.maybe_reset_index(frames.open_frame(frame))
    frames.require_rows(opened)
    require_same_columns(opened.columns, schema)
    wanted = _read_weights(sensitivity, schema)
    planned = _plan(estimator, schema, opened, options).set_params(sensitivity=wanted, random_state=random_state)
    parts = part_rows(FactoredFrame.of(opened), schema, test, test_size, random_state)
    names = features(schema)
    rows, seen = (part.frame.select(names).to_native() for part in (parts.train, parts.held_out))
    search = PrivacySearchCV(
        planned, max_accuracy_loss=max_accuracy_loss, max_risk=max_importance, cv=cv, n_jobs=n_jobs
    )
    with telling_why(name_of(planned)), parallel_config(backend="threading", n_jobs=n_jobs):
        model = search.fit(rows, parts.y).best_estimator_
        plain = clone(planned).set_params(**NOTHING).fit(rows, parts.y)
        trained_on = rows, parts.y
        comparison = compare(plain, model, seen, parts.truth, trained_on, trained_on, schema)
    return Training(model, plain, search, comparison, schema, trace(opened, parts.rows))


def _read_weights(sensitivity: Mapping[str, float] | None, schema: Schema) -> dict[str, float]:
    names = features(schema)
    if sensitivity is None:
        sensitive = {attribute.name: 1.0 for attribute in schema.sensitive if attribute.name in names}
        if not sensitive:
            raise ShoalError(
                "The schema has no sensitive attribute: give it the role 'sensitive' there, or pass a sensitivity "
                "(--sensitive NAME)."
            )
        return sensitive
    unknown = [name for name in sensitivity if name not in names]
    if unknown:
        raise ShoalError(f"{unknown[0]!r} is not a feature of the model: choose among {listed(names)}.")
    if not any(weight > 0 for weight in sensitivity.values()):
        raise ShoalError("No feature has a sensitivity above 0: name one, with a weight up to 1.")
    return {str(name): float(weight) for name, weight in sensitivity.items()}


def _plan(estimator: Any, schema: Schema, frame: nw.DataFrame[Any], options: dict[str, Any]) -> PrivacyTrees:
    """Return the untrained estimator; nominal attributes of the schema are categorical."""
    task = task_of(schema)
    searched = [name for name in options if name in NOTHING]
    if searched:
        raise ShoalError(f"The search sets {searched[0]!r}: leave it out, or fit the estimator directly.")
    if isinstance(estimator, PrivacyTrees):
        planned: PrivacyTrees = clone(estimator)
    else:
        kinds = ESTIMATORS.get(estimator) if isinstance(estimator, str) else None
        if kinds is None:
            raise ShoalError(f"There is no estimator {estimator!r}: choose {listed(ESTIMATORS)}.")
        if task not in kinds:
            raise ShoalError(f"{estimator!r} predicts classes, but the target is numeric: choose tree or forest.")
        named = [name for name in features(schema) if schema[name].kind == "nominal"]
        planned = kinds[task](categorical_features=named)
    try:
        return planned.set_params(**options)
    except ValueError as error:
        raise ShoalError(f"{name_of(planned)} refuses an option ({reason(error)}): correct it.") from None


def describe_setting(setting: Mapping[str, Any]) -> str:
    """Describe a setting of the three methods."""
    said = []
    if setting["penalty"]:
        said.append(f"penalty {setting['penalty']:g}" + (" that can stop" if setting["penalty_stops"] else ""))
    if setting["min_level"]:
        said.append(f"splits only from level {setting['min_level']} on")
    if setting["max_splits"] is not None:
        most = setting["max_splits"]
        scope = "in all trees" if setting.get("share") == "ensemble" else "per tree"
        said.append("no split on it" if most == 0 else f"at most {most:g} split{'s' if most > 1 else ''} {scope}")
    return ", ".join(said) or "no method"


def _describe_bound(search: PrivacySearchCV, score: str) -> str:
    loss = search.max_accuracy_loss
    if loss is None and search.max_risk is None:
        loss = 0.01
    said = [] if loss is None else [f"the score falls by no more than {show_change(score, loss).lstrip('+')}"]
    if search.max_risk is not None:
        said.append(f"the importance is at most {show_share(search.max_risk)}")
    return " and ".join(said)


def _points(tried: list[TriedSetting]) -> list[dict[str, Any]]:
    """Return the points of the settings, from 0 to 1: importance to the right, score upwards."""
    low, high = min(one.score for one in tried), max(one.score for one in tried)
    most = max(one.risk for one in tried) or 1.0
    spread = (high - low) or 1.0
    return [
        {"x": one.risk / most, "y": (one.score - low) / spread, "setting": one.setting, "frontier": one.on_frontier}
        for one in tried
    ]
