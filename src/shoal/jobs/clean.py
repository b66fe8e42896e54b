"""Clean a table of queries, and measure the effect on the predictor and on adversaries."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.model_selection import train_test_split

from shoal.attacks.relearn import LEARNERS, Relearned, relearn
from shoal.cleaners import Cleaner
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
"""Share of the rows with secrets that are held out for testing adversaries."""
MOST_ROWS = 20_000
"""Maximum number of rows with secrets for training and testing; of more rows, a sample is drawn."""
FEWEST_ROWS = 40
ROWS_TO_TRY = 100
"""Number of queries that test if a predictor depends on its linear stage only."""
MOST_CLASSES = 20


class Moved(NamedTuple):
    """The effect of cleaning on the predictor."""

    mean: float
    """Squared distance between the outputs of the linear stage before and after, mean over the rows."""
    largest: float
    relative: float | None
    """The mean relative to the variance of these outputs over the training rows of adversaries."""
    same_answers: float | None
    """Share of the rows with the same class as before; None for regressors, or if the predictor cannot be called."""
    largest_change: float | None
    """Largest change of a predicted number; None for classes."""


@dataclass(frozen=True, repr=False, eq=False)
class Cleaning(FactSheet):
    """Cleaned queries and the evidence; made by :func:`clean`.

    Attributes
    ----------
    frame : table
        The cleaned rows, with the features of the predictor only.
    cleaner : NullSpaceCleaner or TargetedNullSpaceCleaner
        Fitted; it cleans further rows.
    moved : Moved
    relearned : dict
        For each secret, how well adversaries recover it from cleaned rows: a list of :class:`Relearned`.
    left_out : list of str
        Columns that the predictor does not use, and that are not sent.
    predictor_name : str
    """

    frame: Any
    cleaner: Cleaner
    moved: Moved
    relearned: dict[str, list[Relearned]]
    left_out: list[str]
    predictor_name: str

    @property
    def verdict(self) -> str:
        """Result in careful sentences."""
        free, rank = int((~self.cleaner.kept_).sum()), self.cleaner.rank_
        remain = "1 direction remains" if rank == 1 else f"{rank} directions remain"
        said = [
            f"Of {free} features that can be cleaned, {remain}, used by {self.predictor_name}; its linear stage moves "
            f"by at most {self.moved.largest:.3g} (squared; {self.cleaner.epsilon:g} is allowed)."
        ]
        for secret, found in self.relearned.items():
            strongest = min(found, key=lambda one: one.error.value)
            raw = show_share(max(1 - min(one.raw_error.value for one in found), 0.0))
            if strongest.beats_baseline:
                share = show_share(max(strongest.advantage, 0.0))
                said.append(f"An adversary recovers {share} of {secret} from cleaned rows, and {raw} from raw rows.")
            else:
                said.append(
                    f"No adversary recovers {secret} from cleaned rows clearly better than guessing without access to "
                    f"them; from raw rows, one recovers {raw}."
                )
        return " ".join(said)

    def summary(self) -> list[tuple[str, str]]:
        """Return the changes in a few facts, each a name and a text."""
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
            facts.append(("mean move relative to the outputs' variance", show_share(self.moved.relative)))
        if self.moved.same_answers is not None:
            facts.append(("same answers", show_share(self.moved.same_answers)))
        if self.moved.largest_change is not None:
            facts.append(("largest change of a prediction", f"{self.moved.largest_change:.3g}"))
        return facts

    def facts(self) -> dict[str, Any]:
        """Return the numbers by name."""
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
    """Clean queries for a predictor, and measure how far it moves and how well adversaries recover secrets.

    Parameters
    ----------
    frame : pandas, polars or pyarrow table
        Queries. Columns that the predictor does not use are left out.
    predictor : estimator, torch module, ONNX model, path or array
        The receiver of the queries; see :func:`shoal.linear_stages.read_linear_stage`.
    epsilon : float
        Maximum squared distance, for each row, that the outputs of its linear stage may move.
    mode : {"knapsack", "energy", "exact"}
        Use of this budget; see :class:`NullSpaceCleaner`. With secrets, ``knapsack`` spends it on them.
    rows : table, optional
        Rows like the training rows of the predictor: their mean replaces what is removed, and adversaries learn secrets
        from a part of them and are tested on the others. Prefer rows that the predictor was not trained on: its answers
        reveal more about training rows, so that adversaries seem stronger than they are.
    secret : str or sequence of str
        Columns of ``rows`` that adversaries should not recover. They may be features themselves.
    keep : sequence of str
        Features that are sent as they are.
    bounds : "seen", pair or dict, optional
        Limits of cleaned features; see :class:`NullSpaceCleaner`.
    learners : sequence of {"linear", "boosting", "network"}
        Learners of the adversaries.
    random_state : int
        Seed.

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
        raise ShoalError("Secrets need rows that adversaries learn them from: pass rows that have them.")
    queries = frames.open_frame(frame)
    frames.require_rows(queries)
    stage = read_linear_stage(predictor)
    names = list(stage.names) if stage.names is not None else _names_by_position(queries, stage)
    features = _pick(queries, names, "the queries")
    known = None if rows is None else _read_known(rows, names, secrets, stage, keep)
    named = stage._replace(names=tuple(names))
    cleaner = _make_cleaner(named, epsilon, mode, keep, bounds, targeted=bool(secrets))
    relearned: dict[str, list[Relearned]] = {}
    if known is None:
        cleaner.fit()
    elif not secrets:
        cleaner.fit(known.features.to_native())
    else:
        train, rest = _split(known, random_state)
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
    moved = _measure(cleaner, predictor, stage, features, cleaned, known)
    left_out = [name for name in queries.columns if name not in names]
    predictor_name = name_of(predictor) if hasattr(predictor, "predict") else "the predictor"
    return Cleaning(cleaned, cleaner, moved, relearned, left_out, predictor_name)


class _KnownRows(NamedTuple):
    """The features and the secrets of some rows."""

    features: nw.DataFrame[Any]
    secrets: dict[str, np.ndarray]

    def labels(self) -> np.ndarray:
        """Return all secrets as columns of equal scale, with one column for each class."""
        parts = []
        for values in self.secrets.values():
            columns = read_secret(values, len(values))
            spread = columns.std(axis=0)
            parts.append(columns / np.where(spread > 0, spread, 1.0))
        return np.hstack(parts)

    def take(self, rows: np.ndarray) -> _KnownRows:
        """Return some of the rows."""
        return _KnownRows(frames.take_rows(self.features, rows), {name: v[rows] for name, v in self.secrets.items()})


def _make_cleaner(
    predictor: Any, epsilon: float, mode: str, keep: Sequence[str], bounds: Any, *, targeted: bool
) -> Cleaner:
    if targeted and mode in ("knapsack", "exact"):
        return TargetedNullSpaceCleaner(predictor, epsilon=epsilon, mode=mode, keep=keep, bounds=bounds)
    return NullSpaceCleaner(predictor, epsilon, mode=mode, keep=keep, bounds=bounds)


def _names_by_position(queries: nw.DataFrame[Any], stage: LinearStage) -> list[str]:
    """Return the features of a predictor that does not know their names: all columns, in their order."""
    n = len(stage.matrix)
    if len(queries.columns) != n:
        raise DataError(
            f"The predictor uses {n} features without names, but the table has {len(queries.columns)} columns: keep "
            "only these features, in the order of the predictor."
        )
    return list(queries.columns)


def _pick(frame: nw.DataFrame[Any], names: Sequence[str], where: str) -> nw.DataFrame[Any]:
    for name in names:
        if name not in frame.columns:
            raise DataError(f"Column {name!r} is missing from {where}, but the predictor uses it: add it.")
    return frame.select(list(names))


def _read_known(
    rows: Any, names: Sequence[str], secrets: Sequence[str], stage: LinearStage, keep: Sequence[str]
) -> _KnownRows:
    """Return the rows without missing values in cleaned features and secrets."""
    opened = nw.maybe_reset_index(frames.open_frame(rows))
    features = _pick(opened, names, "the training rows")
    for name in secrets:
        if name not in opened.columns:
            raise DataError(f"There is no secret {name!r} in the training rows: choose one of their columns.")
    free = [name for name, fixed in zip(names, stage.fixed, strict=True) if not fixed and name not in keep]
    complete = np.ones(len(opened), bool)
    for name in dict.fromkeys([*free, *secrets]):
        complete &= ~frames.missing_rows(opened[name])
    chosen = np.flatnonzero(complete)
    if len(chosen) < (FEWEST_ROWS if secrets else 2):
        raise DataError(
            f"Only {len(chosen)} training rows have no missing values: fill in missing values, or pass more rows."
        )
    known = frames.take_rows(opened, chosen)
    values = {name: _secret_values(known[name]) for name in secrets}
    return _KnownRows(frames.take_rows(features, chosen), values)


def _secret_values(series: nw.Series[Any]) -> np.ndarray:
    """Return a secret as numbers, or as texts if it has classes: values that are not numeric, or few whole numbers."""
    codes, values, content = frames.factorize(series)
    if content == "number":
        whole = len(values) <= MOST_CLASSES and bool((values == np.rint(values.astype(float))).all())
        return values.astype(int if whole else float)[codes].astype(str if whole else float)
    if len(values) > MOST_CLASSES:
        raise DataError(
            f"The secret {series.name!r} has {len(values):,} different values that are not numeric: choose one with at "
            f"most {MOST_CLASSES}."
        )
    return np.array([str(value) for value in values])[codes]


def _split(known: _KnownRows, seed: int) -> tuple[_KnownRows, _KnownRows]:
    n = len(known.features)
    chosen = np.arange(n)
    if n > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(seed).choice(n, MOST_ROWS, replace=False))
    parts = None
    for values in known.secrets.values():
        sizes = np.unique(values[chosen], return_counts=True)[1]
        if values.dtype.kind == "U" and sizes.min() > 1 and parts is None:
            parts = values[chosen]  # both parts get every class of one secret
    train, rest = train_test_split(chosen, test_size=HELD_OUT, random_state=seed, stratify=parts)
    return known.take(train), known.take(rest)


def _require_same_answers(cleaner: Cleaner, predictor: Any, stage: LinearStage, queries: nw.DataFrame[Any]) -> None:
    """Refuse a predictor whose answers differ for rows with equal outputs of its linear stage."""
    some = frames.take_rows(queries, np.arange(min(len(queries), ROWS_TO_TRY)))
    alike = frames.open_frame(cleaner.transform(some.to_native(), epsilon=0.0))
    before, after = (_predict(predictor, stage, rows) for rows in (some, alike))
    if before is None or after is None:
        return
    numbers = before.dtype.kind == "f"
    same = np.isclose(before, after, rtol=1e-6, atol=1e-6 * np.abs(before).max()) if numbers else before == after
    # Rounding may change a class if two are equally likely.
    if same.mean() < (1.0 if numbers else 0.9):
        raise GuaranteeError(
            f"The answers of {name_of(predictor)} change although the outputs of its linear stage do not, so it uses "
            "rows in another way, too: choose another predictor, as rows cannot be cleaned for this one."
        )


def _measure(
    cleaner: Cleaner,
    predictor: Any,
    stage: LinearStage,
    before: nw.DataFrame[Any],
    cleaned: Any,
    known: _KnownRows | None,
) -> Moved:
    errors = cleaner.utility_errors(before.to_native(), cleaned)
    relative = None
    if known is not None:
        variance = cleaner.output_variance(known.features.to_native())
        relative = float(errors.mean()) / variance if variance > 0 else None
    raw, new = (_predict(predictor, stage, rows) for rows in (before, frames.open_frame(cleaned)))
    same = change = None
    if raw is not None and new is not None:
        if raw.dtype.kind == "f" and not hasattr(predictor, "classes_"):
            change = float(np.abs(raw - new).max())
        else:
            same = float((raw == new).reshape(len(raw), -1).all(axis=1).mean())
    return Moved(float(errors.mean()), float(errors.max()), relative, same, change)


def _predict(predictor: Any, stage: LinearStage, rows: nw.DataFrame[Any]) -> np.ndarray | None:
    """Return the predictions; None if the predictor cannot be called here."""
    if not hasattr(predictor, "predict"):
        return None
    seen = rows.to_native() if stage.names is not None else rows.to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(predictor.predict(seen))
        except Exception as error:  # a predictor may raise any type
            raise DataError(
                f"The predictor cannot answer the queries ({reason(error)}): check their columns."
            ) from None


def _by_name(found: Relearned) -> dict[str, Any]:
    plain = {name: value._asdict() if hasattr(value, "_asdict") else value for name, value in found._asdict().items()}
    return plain | {"advantage": found.advantage, "beats_baseline": found.beats_baseline}
