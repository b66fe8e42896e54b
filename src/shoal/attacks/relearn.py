"""Relearning: guess a secret from cleaned rows with knowledge of the cleaning (Xu et al. 2017)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from shoal.attacks._learners import patient_network
from shoal.attacks.query_errors import privacy_errors
from shoal.data import frames
from shoal.errors import DataError, ShoalError, reason
from shoal.intervals import Interval, ratio_interval, share_right
from shoal.models.networks import StoppingMLPClassifier, StoppingMLPRegressor
from shoal.parameters import Choice, Real

Task = Literal["numbers", "classes"]
LEARNERS = "linear", "boosting", "network"
MOST_CLASSES = 20
"""Maximum number of distinct whole numbers that are classes."""
MOST_CATEGORIES = 100
"""Maximum number of columns that a text feature becomes for the adversary; its rarest values share none."""
FEWEST_ROWS = 20
STRENGTHS = 10.0 ** np.arange(-4, 5)
"""Regularization strengths of the linear learner, chosen by cross-validation."""


class Relearned(NamedTuple):
    """Success of an adversary at learning the secret from cleaned rows, measured on held-out rows."""

    learner: str
    task: Task
    error: Interval
    """Squared error relative to the baseline, which guesses the mean of the secret or the shares of its classes."""
    raw_error: Interval
    """Relative squared error of the same learner on rows that are not cleaned."""
    squared_error: float
    """Mean squared distance between the secret and the guess: the paper's e_privacy under attack."""
    baseline_error: float
    """Mean squared distance between the secret and the guess of the baseline."""
    complete_privacy: Interval
    """Share of the rows that the adversary guesses worse than the baseline."""
    accuracy: Interval | None
    """Share of correctly guessed classes; None for numbers."""
    raw_accuracy: float | None
    baseline_accuracy: float | None
    """Share of the most frequent class."""
    rows: int

    @property
    def advantage(self) -> float:
        """Share of the secret's variance that the cleaned rows reveal."""
        return 1.0 - self.error.value

    @property
    def beats_baseline(self) -> bool:
        """True if it is clearly better than guessing without access to the row."""
        return self.error.high < 1.0


def relearn(
    cleaner: Any,
    X: Any,
    y: Any,
    *,
    test: tuple[Any, Any] | None = None,
    test_size: float = 0.3,
    learners: Sequence[str] | Mapping[str, Any] = LEARNERS,
    task: Task | None = None,
    random_state: int = 0,
) -> list[Relearned]:
    """Learn a secret from cleaned rows, and measure how well it is guessed on others (Algorithm 3 of the paper).

    Parameters
    ----------
    cleaner : transformer
        Fitted; the adversary knows it.
    X : table or array
        Rows that have not been cleaned.
    y : array
        Their secret, one or several columns: numbers or classes.
    test : pair of rows and their secret, optional
        Rows to guess; by default a part of ``X`` is held out.
    test_size : float
        Share that is held out.
    learners : sequence of {"linear", "boosting", "network"} or dict of estimators
        Learners of the adversary.
    task : {"numbers", "classes"}, optional
        By default texts, Booleans and whole numbers with few distinct values are classes.
    random_state : int

    Returns
    -------
    list of Relearned
        One for each learner.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal import NullSpaceCleaner
    >>> from shoal.attacks.relearn import relearn
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(1000, 4))
    >>> secret = X[:, 0] + 0.3 * X[:, 3]
    >>> cleaner = NullSpaceCleaner(np.eye(4)[:, 2:], epsilon=0.0).fit(X)
    >>> (found,) = relearn(cleaner, X, secret, learners=["linear"])
    >>> found.raw_error.value < 0.01, round(found.advantage, 1)
    (True, 0.1)
    """
    labels = _read_labels(y, X)
    secrets = labels if test is None else _stack_labels(labels, _read_labels(test[1], test[0]))
    Real(above=0, below=1).check("test_size", test_size)
    (Choice(("numbers", "classes")) | None).check("task", task)
    chosen = _guess_task(secrets) if task is None else task
    if chosen == "numbers" and secrets.dtype.kind not in "biuf":
        raise ShoalError(
            f"The secret has values such as {secrets[0, 0]!r}, which are not numeric: choose task='classes'."
        )
    if chosen == "classes" and secrets.shape[1] > 1:
        raise ShoalError(f"The secret has {secrets.shape[1]} columns of classes: pass one column, or task='numbers'.")
    classes = secrets if chosen == "classes" else None
    train, held_out = _split(len(labels), len(secrets), test_size, random_state, classes)
    _require_different(secrets, train, held_out)
    parts = [X] if test is None else [X, test[0]]
    raw, cleaned = _matrix(parts), _matrix([cleaner.transform(part) for part in parts])
    found = []
    for name, learner in _make_learners(learners, chosen, secrets.shape[1], random_state).items():
        guess = _guess_classes if chosen == "classes" else _guess_numbers
        # One thread learns tables of this size as fast, and much faster if other work runs at the same time.
        with threadpool_limits(1):
            answers = [guess(learner, view[train], secrets[train], view[held_out]) for view in (cleaned, raw)]
        found.append(_judge(name, chosen, answers, secrets, train, held_out))
    return found


class _Answer(NamedTuple):
    """Guesses of an adversary."""

    columns: np.ndarray
    """Numbers, or the probability of each class."""
    classes: np.ndarray | None


def _guess_numbers(learner: Any, rows: np.ndarray, secrets: np.ndarray, unseen: np.ndarray) -> _Answer:
    wanted = secrets[:, 0] if secrets.shape[1] == 1 else secrets
    said = np.asarray(_fit(learner, rows, wanted).predict(unseen), float)
    return _Answer(said.reshape(len(unseen), -1), None)


def _guess_classes(learner: Any, rows: np.ndarray, secrets: np.ndarray, unseen: np.ndarray) -> _Answer:
    model = _fit(learner, rows, secrets[:, 0])
    return _Answer(np.asarray(model.predict_proba(unseen)), np.asarray(model.classes_))


def _fit(learner: Any, rows: np.ndarray, wanted: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return clone(learner).fit(rows, wanted)
        except ValueError as error:  # such as of missing values
            raise ShoalError(f"The adversary cannot learn from these rows ({reason(error)}): fix them.") from None


def _judge(
    name: str, task: Task, answers: list[_Answer], secrets: np.ndarray, train: np.ndarray, held_out: np.ndarray
) -> Relearned:
    known, truth = secrets[train], secrets[held_out]
    if task == "classes":
        classes = answers[0].classes
        known, hits = (np.asarray(part[:, :1] == classes, float) for part in (known, truth))
    else:
        hits = truth.astype(float)
    without = np.broadcast_to(known.mean(axis=0), hits.shape)
    baseline = privacy_errors(hits, without)
    errors, raw_errors = (privacy_errors(hits, answer.columns) for answer in answers)
    right = [None if task == "numbers" else _share_right(answer, truth[:, 0]) for answer in answers]
    return Relearned(
        learner=name,
        task=task,
        error=ratio_interval(errors, baseline),
        raw_error=ratio_interval(raw_errors, baseline),
        squared_error=float(errors.mean()),
        baseline_error=float(baseline.mean()),
        complete_privacy=share_right(errors > baseline),
        accuracy=right[0],
        raw_accuracy=None if right[1] is None else right[1].value,
        baseline_accuracy=None if task == "numbers" else float(hits[:, known.mean(axis=0).argmax()].mean()),
        rows=len(errors),
    )


def _share_right(answer: _Answer, truth: np.ndarray) -> Interval:
    assert answer.classes is not None
    said = answer.classes[answer.columns.argmax(axis=1)]
    return share_right(said == truth)


def _make_learners(
    asked: Sequence[str] | Mapping[str, Any], task: Task, n_secrets: int, random_state: int
) -> dict[str, Any]:
    if isinstance(asked, Mapping):
        return dict(asked)
    found = {}
    for name in [asked] if isinstance(asked, str) else asked:
        if name not in LEARNERS:
            raise ShoalError(f"There is no learner {name!r}: choose {', '.join(LEARNERS)}, or pass estimators.")
        found[name] = _make_learner(name, task, n_secrets, random_state)
    return found


def _make_learner(name: str, task: Task, n_secrets: int, seed: int) -> Any:
    classes = task == "classes"
    if name == "boosting":
        if classes:
            # Early stopping holds out rows of every class, and some classes may have a single row.
            return HistGradientBoostingClassifier(early_stopping=False, random_state=seed)
        one = HistGradientBoostingRegressor(early_stopping=False, random_state=seed)
        return one if n_secrets == 1 else MultiOutputRegressor(one)
    if name == "network":
        return patient_network(StoppingMLPClassifier if classes else StoppingMLPRegressor, seed)
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000) if classes else RidgeCV(STRENGTHS))


def _stack_labels(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    if one.shape[1] != other.shape[1] or (one.dtype.kind in "biuf") != (other.dtype.kind in "biuf"):
        raise DataError("The secret of the test rows has another type than that of the others: use one type.")
    return np.concatenate([one, other])


def _read_labels(y: Any, rows: Any) -> np.ndarray:
    n = len(frames.open_frame(rows)) if frames.is_frame(rows) else len(rows)
    if frames.is_frame(y):
        opened = frames.open_frame(y)
        y = np.column_stack([opened[name].to_numpy() for name in opened.columns])
    labels = np.asarray(y)
    labels = labels[:, None] if labels.ndim == 1 else labels
    if labels.ndim != 2 or 0 in labels.shape or len(labels) != n:
        raise DataError(f"The secret has the shape {np.shape(y)} for {n:,} rows: pass one per row.")
    if labels.dtype.kind not in "biufUT":
        present = [value for value in labels.reshape(-1).tolist() if value is not None and value == value]
        if len(present) < labels.size:
            raise DataError("The secret is missing in some rows: leave them out.")
        numbers = all(isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) for value in present)
        return labels.astype(float) if numbers else labels.astype(str)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError("The secret is missing in some rows: leave them out.")
    return labels


def _guess_task(secrets: np.ndarray) -> Task:
    if secrets.dtype.kind not in "iuf":
        return "classes"
    few = secrets.shape[1] == 1 and len(np.unique(secrets)) <= MOST_CLASSES
    return "classes" if few and bool((secrets == np.rint(secrets)).all()) else "numbers"


def _split(
    n_given: int, n_all: int, test_size: float, seed: int, classes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(n_all)
    if n_all > n_given:
        train, held_out = rows[:n_given], rows[n_given:]
    elif n_given < FEWEST_ROWS:
        raise DataError(f"{n_given} rows are too few to train and to test on: pass {FEWEST_ROWS} or more.")
    else:
        sizes = None if classes is None else np.unique(classes, return_counts=True)[1]
        fair = classes if sizes is not None and sizes.min() > 1 and sizes.size <= test_size * n_given / 2 else None
        train, held_out = train_test_split(rows, test_size=test_size, random_state=seed, stratify=fair)
    if classes is not None:
        # The adversary has never seen other classes.
        held_out = held_out[np.isin(classes[held_out, 0], classes[train, 0])]
    return train, held_out


def _require_different(secrets: np.ndarray, train: np.ndarray, held_out: np.ndarray) -> None:
    if len(held_out) == 0:
        raise DataError("No test row has a secret that occurs in the training rows: pass more rows.")
    if any(all(len(np.unique(column[rows])) < 2 for column in secrets.T) for rows in (train, held_out)):
        raise DataError("All rows have the same secret, so there is nothing to guess: pass others.")


def _matrix(parts: list[Any]) -> np.ndarray:
    """Return the input of the adversary: numbers as they are, and a column for each frequent other value."""
    if not frames.is_frame(parts[0]):
        return np.concatenate([np.asarray(part, float) for part in parts])
    opened = frames.stack_rows([frames.open_frame(part) for part in parts])
    columns: list[np.ndarray] = []
    for name in opened.columns:
        codes, values, content = frames.factorize(opened[name])
        if content == "number":
            known = values.astype(float)
            columns.append(np.append(known, known.mean() if len(known) else 0.0)[codes])
        else:
            sizes = np.bincount(codes[codes >= 0], minlength=len(values))
            columns += [(codes == value).astype(float) for value in np.argsort(-sizes, kind="stable")[:MOST_CATEGORIES]]
    return np.column_stack(columns)
