"""Clean a table of queries, and see what that changed: for the predictor, and for who guesses a secret."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.model_selection import train_test_split

from shoal.attacks.relearn import LEARNERS, Relearned, relearn
from shoal.cleaners._base import Cleaner
from shoal.cleaners.null_space import NullSpaceCleaner
from shoal.cleaners.targeted import TargetedNullSpaceCleaner, read_secret
from shoal.data import frames
from shoal.errors import DataError, GuaranteeError, ShoalError, reason
from shoal.linear_stages import LinearStage, read_linear_stage
from shoal.models.guides import name_of
from shoal.parameters import SEED
from shoal.reports.report import listed, show_share
from shoal.reports.summaries import FactSheet

HELD_OUT = 0.3
"""Share of the rows with secrets that are guessed, and not learned from."""
MOST_ROWS = 20_000
"""Rows with secrets that are learned from or guessed; of more, as many are drawn."""
FEWEST_ROWS = 40
ROWS_TO_TRY = 100
"""Queries by which it is tried whether a predictor is as it was read."""
MOST_CLASSES = 20


class Moved(NamedTuple):
    """What cleaning changed for the predictor."""

    mean: float
    """Squared distance that the outputs of the linear stage moved by, mean over the rows."""
    largest: float
    relative: float | None
    """The mean, by the variance of these outputs over the rows that were given to learn from."""
    same_answers: float | None
    """Share of the rows with the same class as before; None of numbers, or if the predictor cannot be asked."""
    largest_change: float | None
    """Largest change of a predicted number; None of classes."""


class Cleaning(FactSheet):
    """Cleaned queries and the evidence; made by :func:`clean`.

    Attributes
    ----------
    frame : table
        The cleaned rows, with the features of the predictor alone.
    cleaner : NullSpaceCleaner or TargetedNullSpaceCleaner
        Fitted; it cleans further rows.
    moved : Moved
    relearned : dict
        For each secret what adversaries get who learn from cleaned rows, a list of :class:`Relearned`.
    left_out : list of str
        Columns that the predictor does not look at, and that are not sent.
    """

    def __init__(
        self,
        frame: Any,
        cleaner: Cleaner,
        moved: Moved,
        relearned: Mapping[str, list[Relearned]],
        left_out: Sequence[str],
        predictor: Any,
    ) -> None:
        self.frame = frame
        self.cleaner = cleaner
        self.moved = moved
        self.relearned = dict(relearned)
        self.left_out = list(left_out)
        self.predictor_name = name_of(predictor) if hasattr(predictor, "predict") else "the predictor"

    @property
    def verdict(self) -> str:
        """What was reached, in careful sentences."""
        free, rank = int((~self.cleaner.kept_).sum()), self.cleaner.rank_
        ways = "1 direction is left, the one" if rank == 1 else f"{rank} directions are left, the ones"
        said = [
            f"Of {free} features that can be cleaned, {ways} that {self.predictor_name} looks into; its linear stage "
            f"moves by {self.moved.largest:.3g} at most (squared; {self.cleaner.epsilon:g} is allowed)."
        ]
        for secret, found in self.relearned.items():
            strongest = min(found, key=lambda one: one.error.value)
            raw = show_share(max(1 - min(one.raw_error.value for one in found), 0.0))
            left = f"{show_share(max(strongest.advantage, 0.0))} of what can be known of {secret}"
            if strongest.beats_baseline:
                said.append(f"Who learns again from cleaned rows still gets {left}, {raw} from raw ones.")
            else:
                said.append(
                    f"Nobody who learned again from cleaned rows was clearly better at {secret} than who knows nothing "
                    f"of the row; from raw ones it was {raw}."
                )
        return " ".join(said)

    def summary(self) -> list[tuple[str, str]]:
        """What was changed in a few facts, each a name and a text."""
        kept = [name for name, stays in zip(self.cleaner.feature_names_in_, self.cleaner.kept_, strict=True) if stays]
        facts = [
            ("predictor", self.predictor_name),
            ("features cleaned", str(int((~self.cleaner.kept_).sum()))),
            ("directions left", str(self.cleaner.rank_)),
            ("sent as they are", listed(kept) if kept else "none"),
            ("not sent", listed(self.left_out) if self.left_out else "none"),
            ("linear stage moved, mean", f"{self.moved.mean:.3g}"),
            ("linear stage moved, most", f"{self.moved.largest:.3g}"),
        ]
        if self.moved.relative is not None:
            facts.append(("mean move by the outputs' variance", show_share(self.moved.relative)))
        if self.moved.same_answers is not None:
            facts.append(("same answers", show_share(self.moved.same_answers)))
        if self.moved.largest_change is not None:
            facts.append(("largest change of a prediction", f"{self.moved.largest_change:.3g}"))
        return facts

    def facts(self) -> dict[str, Any]:
        """The numbers by name."""
        return {
            "verdict": self.verdict,
            "epsilon": self.cleaner.epsilon,
            "mode": getattr(self.cleaner, "mode", None),
            "features": int(self.cleaner.n_features_in_),
            "kept": [str(n) for n, k in zip(self.cleaner.feature_names_in_, self.cleaner.kept_, strict=True) if k],
            "left_out": self.left_out,
            "rank": self.cleaner.rank_,
            "moved": self.moved._asdict(),
            "relearned": {name: [_by_name(one) for one in found] for name, found in self.relearned.items()},
        }


def clean(
    frame: Any,
    predictor: Any,
    epsilon: float = 0.01,
    *,
    mode: str = "knapsack",
    rows: Any = None,
    secret: str | Sequence[str] = (),
    keep: Sequence[str] = (),
    bounds: Any = None,
    learners: Sequence[str] = LEARNERS,
    random_state: int = 0,
) -> Cleaning:
    """Clean queries for a predictor, and measure how far it moved and what an adversary still gets.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
        Queries. Columns that the predictor does not look at are left out.
    predictor : estimator, torch module, ONNX model, path or array
        Who the queries are for; see :func:`shoal.linear_stages.read_linear_stage`.
    epsilon : float
        How far the outputs of its linear stage may move: the squared distance, for each row.
    mode : {"knapsack", "energy", "exact"}
        What the budget is spent on; see :class:`NullSpaceCleaner`. With secrets, ``knapsack`` spends it on them.
    rows : table, optional
        Rows such as the predictor was trained on: their mean stands in for what is left out, and secrets are learned
        from a part of them and guessed of the others. Take rows that it was not trained on if you can: its answers tell
        more about those that it was, and adversaries look stronger than they are.
    secret : str or sequence of str
        Columns of ``rows`` that are to be hard to guess. They may be features themselves.
    keep : sequence of str
        Features that are sent as they are.
    bounds : "seen", pair or dict, optional
        Values between which cleaned features must stay; see :class:`NullSpaceCleaner`.
    learners : sequence of {"linear", "boosting", "network"}
        How adversaries learn.
    random_state : int
        Seed, from 0 on.

    Examples
    --------
    >>> import polars as pl
    >>> from sklearn.linear_model import LinearRegression
    >>> from shoal import clean
    >>> people = pl.DataFrame({"height": [1.5, 1.8, 1.7, 1.6], "weight": [50.0, 90.0, 65.0, 70.0]})
    >>> model = LinearRegression().fit(people, [14.0, 40.0, 30.0, 33.0])
    >>> cleaning = clean(people, model, epsilon=0.0, rows=people)
    >>> cleaning.cleaner.rank_, cleaning.moved.largest < 1e-18
    (1, True)
    """
    SEED.check("random_state", random_state)
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if secrets and rows is None:
        raise ShoalError("Secrets need rows to learn them from: pass rows that have them.")
    queries = frames.open_frame(frame)
    frames.require_rows(queries)
    stage = read_linear_stage(predictor)
    names = list(stage.names) if stage.names is not None else _names_by_position(queries, stage)
    features = _pick(queries, names, "the queries")
    learned = None if rows is None else _read_known(rows, names, secrets, stage, keep)
    named = stage._replace(names=tuple(names))
    cleaner = _make(named, epsilon, mode, keep, bounds, targeted=bool(secrets))
    relearned: dict[str, list[Relearned]] = {}
    if learned is None:
        cleaner.fit()
    elif not secrets:
        cleaner.fit(learned.features.to_native())
    else:
        train, rest = _split(learned, random_state)
        cleaner.fit(train.features.to_native(), train.labels())
        for name in secrets:
            relearned[name] = relearn(
                cleaner,
                train.features.to_native(),
                train.secrets[name],
                test=(rest.features.to_native(), rest.secrets[name]),
                learners=learners,
                random_state=random_state,
            )
    cleaned = cleaner.transform(features.to_native())
    _require_same_answers(cleaner, predictor, stage, features)
    moved = _measure(cleaner, predictor, stage, features, cleaned, learned)
    left_out = [name for name in queries.columns if name not in names]
    return Cleaning(cleaned, cleaner, moved, relearned, left_out, predictor)


class _Known(NamedTuple):
    """Rows with what the predictor sees of them, and their secrets."""

    features: nw.DataFrame[Any]
    secrets: dict[str, np.ndarray]

    def labels(self) -> np.ndarray:
        """All secrets as columns of one size, of classes one column each."""
        parts = []
        for values in self.secrets.values():
            columns = read_secret(values, len(values))
            spread = columns.std(axis=0)
            parts.append(columns / np.where(spread > 0, spread, 1.0))
        return np.hstack(parts)

    def take(self, rows: np.ndarray) -> _Known:
        """Some of the rows."""
        return _Known(frames.take_rows(self.features, rows), {name: v[rows] for name, v in self.secrets.items()})


def _make(predictor: Any, epsilon: float, mode: str, keep: Sequence[str], bounds: Any, *, targeted: bool) -> Cleaner:
    if targeted and mode in ("knapsack", "exact"):
        return TargetedNullSpaceCleaner(predictor, epsilon=epsilon, mode=mode, keep=keep, bounds=bounds)
    return NullSpaceCleaner(predictor, epsilon, mode=mode, keep=keep, bounds=bounds)


def _names_by_position(queries: nw.DataFrame[Any], stage: LinearStage) -> list[str]:
    """The features of a predictor that does not know their names: all columns, in their order."""
    n = len(stage.matrix)
    if len(queries.columns) != n:
        raise DataError(
            f"The predictor looks at {n} features and knows none by name, but the table has {len(queries.columns)} "
            "columns: leave just these, in its order."
        )
    return list(queries.columns)


def _pick(frame: nw.DataFrame[Any], names: Sequence[str], where: str) -> nw.DataFrame[Any]:
    for name in names:
        if name not in frame.columns:
            raise DataError(f"Column {name!r} is not among {where}, but the predictor looks at it: add it.")
    return frame.select(list(names))


def _read_known(
    rows: Any, names: Sequence[str], secrets: Sequence[str], stage: LinearStage, keep: Sequence[str]
) -> _Known:
    """The rows that are complete in what is cleaned and in the secrets."""
    opened = nw.maybe_reset_index(frames.open_frame(rows))
    features = _pick(opened, names, "the rows to learn from")
    for name in secrets:
        if name not in opened.columns:
            raise DataError(f"There is no secret {name!r} among the rows to learn from: choose one of their columns.")
    free = [name for name, fixed in zip(names, stage.fixed, strict=True) if not fixed and name not in keep]
    complete = np.ones(len(opened), bool)
    for name in dict.fromkeys([*free, *secrets]):
        complete &= ~frames.missing_rows(opened[name])
    chosen = np.flatnonzero(complete)
    if len(chosen) < (FEWEST_ROWS if secrets else 2):
        raise DataError(
            f"Only {len(chosen)} of the rows to learn from are complete: fill in missing values, or pass more rows."
        )
    known = frames.take_rows(opened, chosen)
    values = {name: _secret_values(known[name]) for name in secrets}
    return _Known(frames.take_rows(features, chosen), values)


def _secret_values(series: nw.Series[Any]) -> np.ndarray:
    """A secret as numbers, or as texts where it is no number or has few whole values: such are classes."""
    codes, values, content = frames.factorize(series)
    if content == "number":
        whole = len(values) <= MOST_CLASSES and bool((values == np.rint(values.astype(float))).all())
        return values.astype(int if whole else float)[codes].astype(str if whole else float)
    if len(values) > MOST_CLASSES:
        raise DataError(
            f"The secret {series.name!r} has {len(values):,} different values that are no numbers: choose one with up "
            f"to {MOST_CLASSES}."
        )
    return np.array([str(value) for value in values])[codes]


def _split(known: _Known, seed: int) -> tuple[_Known, _Known]:
    n = len(known.features)
    chosen = np.arange(n)
    if n > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False))
    parts = None
    for values in known.secrets.values():
        sizes = np.unique(values[chosen], return_counts=True)[1]
        if values.dtype.kind == "U" and sizes.min() > 1 and parts is None:
            parts = values[chosen]  # every class in both parts, of one of the secrets
    train, rest = train_test_split(chosen, test_size=HELD_OUT, random_state=seed, stratify=parts)
    return known.take(train), known.take(rest)


def _require_same_answers(cleaner: Cleaner, predictor: Any, stage: LinearStage, queries: nw.DataFrame[Any]) -> None:
    """See whether the predictor is what was read: rows that are alike to its stage must get the same answers."""
    some = frames.take_rows(queries, np.arange(min(len(queries), ROWS_TO_TRY)))
    alike = frames.open_frame(cleaner.transform(some.to_native(), epsilon=0.0))
    before, after = (_ask(predictor, stage, rows) for rows in (some, alike))
    if before is None or after is None:
        return
    numbers = before.dtype.kind == "f"
    same = np.isclose(before, after, rtol=1e-6, atol=1e-6 * np.abs(before).max()) if numbers else before == after
    # A class may tip over by rounding, where two are as likely.
    if same.mean() < (1.0 if numbers else 0.9):
        raise GuaranteeError(
            f"The answers of {name_of(predictor)} change although its linear stage is told the same: it looks at rows "
            "in another way, too, so they cannot be cleaned for it."
        )


def _measure(
    cleaner: Cleaner, predictor: Any, stage: LinearStage, before: nw.DataFrame[Any], cleaned: Any, known: _Known | None
) -> Moved:
    errors = cleaner.utility_errors(before.to_native(), cleaned)
    relative = None
    if known is not None:
        variance = cleaner.output_variance(known.features.to_native())
        relative = float(errors.mean()) / variance if variance > 0 else None
    answers = [_ask(predictor, stage, frames.open_frame(rows)) for rows in (before.to_native(), cleaned)]
    same = change = None
    if answers[0] is not None and answers[1] is not None:
        if answers[0].dtype.kind == "f" and not hasattr(predictor, "classes_"):
            change = float(np.abs(answers[0] - answers[1]).max())
        else:
            same = float((answers[0] == answers[1]).reshape(len(answers[0]), -1).all(axis=1).mean())
    return Moved(float(errors.mean()), float(errors.max()), relative, same, change)


def _ask(predictor: Any, stage: LinearStage, rows: nw.DataFrame[Any]) -> np.ndarray | None:
    """What the predictor says; None if it cannot be asked here."""
    if not hasattr(predictor, "predict"):
        return None
    seen = rows.to_native() if stage.names is not None else rows.to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(predictor.predict(seen))
        except Exception as error:  # whatever the predictor does with its rows
            raise DataError(
                f"The predictor cannot answer the queries ({reason(error)}): check their columns."
            ) from None


def _by_name(found: Relearned) -> dict[str, Any]:
    plain = {name: value._asdict() if hasattr(value, "_asdict") else value for name, value in found._asdict().items()}
    return plain | {"advantage": found.advantage, "beats_baseline": found.beats_baseline}
