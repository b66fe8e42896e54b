"""The adversary who knows all of a row but one value, and guesses it with a model's help (Goldsteen et al. 2020)."""

from __future__ import annotations

import numbers
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from shoal.attacks._tree_inversion import (
    WHO,
    Donor,
    ModelRows,
    Oracle,
    count_errors,
    find_column,
    find_donors,
    measure_residuals,
    merge,
    open_alike,
    read_labels,
    require_numbers,
    try_values,
    weigh_errors,
    weigh_leaves,
    weigh_residuals,
)
from shoal.attacks.results import AttackResult
from shoal.attacks.trees import find_trees, sum_leaves
from shoal.data.frames import Factor
from shoal.errors import DataError, ShoalError, reason
from shoal.intervals import Interval, paired_difference, share_interval, share_right
from shoal.models.networks import StoppingMLPClassifier

ATTACKS = {
    "ideal": "the other features",
    "black-box": "the model's answer",
    "black-box probabilities": "the model's probabilities",
    "white-box": "the model's answers to any row, and how many training rows each leaf has",
    "fredrikson": "the label, the model's answers to any row, and how often it errs",
}
"""Attacks, and what each sees that its baseline does not."""
LEARNED = "ideal", "black-box", "black-box probabilities"
LEARNERS = "network", "boosting", "forest"
FEWEST_ROWS = 20
MOST_NUMBERS = 50
"""Numbers or dates of more distinct values are guessed in ranges."""
MOST_TEXTS = 500
MOST_CATEGORIES = 100
"""Columns that a text feature becomes at most for a learner; its rarest values share none."""


def infer_attribute(
    model: Any,
    members: Any,
    controls: Any,
    feature: str | int,
    *,
    y_members: Any = None,
    y_controls: Any = None,
    attacks: Sequence[str] | None = None,
    learner: Any = "network",
    bins: int | None = None,
    random_state: int = 0,
) -> list[AttackResult]:
    """Guess one value of rows, of which all others are known, with the help of a model that was trained on them.

    Half of the members and half of the controls train the adversary; the others are judged. What is guessed better of
    members than of controls was memorised; what is guessed as well of both comes from how features go together, or
    from what the model answers to anybody. Most of what is memorised shows where true labels are known.

    Parameters
    ----------
    model : estimator
        Trained; it takes ``members`` and ``controls`` as they are.
    members, controls : table or array
        Rows that the model was trained on, and rows that it never saw. The adversary knows every column but the
        feature: leave out those that nobody would know, such as the target.
    feature : str or int
        Name or position of the feature that is guessed. Rows in which it is missing are left out.
    y_members, y_controls : array, optional
        True labels, which the attack ``"fredrikson"`` starts from. All others start from the model's answers.
    attacks : sequence, optional
        ``"ideal"`` learns the feature from the others, without the model: the baseline of all others, if the most
        frequent value is no better. ``"black-box"`` learns it from the model's answer too, ``"black-box
        probabilities"`` from its probabilities. ``"white-box"`` tries every value on a model of trees, and weighs
        those that lead to the known answer by the rows in their leaves. ``"fredrikson"`` tries every value on any
        model, and weighs them by how often the model errs (Fredrikson et al. 2014). The latter two do not know how
        features go together, and may well be behind ``"ideal"``. By default all that can be done.
    learner : {"network", "boosting", "forest"} or classifier, or None
        How the first three learn. With None they are left out, and the baseline is the most frequent value: the
        latter two then take no longer than asking the model.
    bins : int, optional
        Guess in which of so many ranges, each of about as many rows, a number or a date lies.
    random_state : int

    Returns
    -------
    list of AttackResult
        ``accuracy``, ``baseline`` and ``advantage`` are of members, ``control`` is the accuracy on controls. Of a
        feature of two values, ``precision`` and ``recall`` are those of the rarer one. ``risks`` tell for each member
        how sure the adversary is.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from shoal.attacks.attribute import infer_attribute
    >>> random = np.random.default_rng(0)
    >>> X = np.column_stack([random.normal(size=(800, 3)), random.integers(0, 2, 800)])
    >>> y = (X[:, 0] > 0) ^ (X[:, 3] > 0)
    >>> tree = DecisionTreeClassifier(random_state=0).fit(X[:400], y[:400])
    >>> (found,) = infer_attribute(tree, X[:400], X[400:], 3, attacks=["white-box"], learner="boosting")
    >>> found.secret, found.accuracy.value > 0.95, found.beats_baseline
    ('the value of column 3', True, True)
    """
    asked = _choose(attacks, model, y_members is not None, learner is not None)
    scene = _set_up(members, controls, feature, bins, random_state)
    given = zip((y_members, y_controls), scene.parts, WHO, strict=True)
    labels = [read_labels(y, len(part), who) for y, part, who in given]
    adversary = _Adversary(scene, Oracle(model), _make_learner(learner, random_state), labels)
    found: dict[str, AttackResult] = {}
    rival: np.ndarray | None = None
    for name in dict.fromkeys(asked if learner is None else ("ideal", *asked)):
        started = time.perf_counter()
        scores = adversary.attack(name)
        found[name] = _judge(name, scores, scene, rival)._replace(seconds=time.perf_counter() - started)
        rival = scores if name == "ideal" else rival
    return [found[name] for name in asked]


class _Scene(NamedTuple):
    """What is guessed of which rows, and from which the adversary learns; rows are members first, then controls."""

    name: str
    parts: tuple[ModelRows, ModelRows]
    column: int
    truth: np.ndarray
    """The number of each row's value among those that the adversary has met; -1 of others."""
    train: np.ndarray
    """Rows that the adversary learns from."""
    judged: tuple[np.ndarray, np.ndarray]
    """Other members, and other controls."""
    prior: np.ndarray
    """How frequent each value is among rows that train."""
    donors: list[list[Donor]]
    """For each value a row that has it, to be copied from into members, and one to be copied from into controls."""
    left_out: int
    """Rows without a value."""


class _Adversary:
    """The attacks: each says how much speaks for each value of each row that is judged (n, values)."""

    def __init__(self, scene: _Scene, oracle: Oracle, learner: Any, labels: list[np.ndarray | None]) -> None:
        self.scene = scene
        self.oracle = oracle
        self.learner = learner
        self.labels = labels
        self.judged = np.concatenate(scene.judged)

    def attack(self, name: str) -> np.ndarray:
        if name == "ideal":
            return self._learn(self.others)
        if name == "black-box":
            return self._learn(np.column_stack([self.others, self._answers()]))
        if name == "black-box probabilities":
            said = [self.oracle.probabilities(part.native) for part in self.scene.parts]
            return self._learn(np.column_stack([self.others, np.concatenate(said)]))
        return self._invert_trees() if name == "white-box" else self._invert_errors()

    def _learn(self, view: np.ndarray) -> np.ndarray:
        train = self.scene.train
        # Tables of this size are learned as fast by one thread, and many times faster if other work is done beside it.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return _fit_and_guess(self.learner, view[train], self.scene.truth[train], view[self.judged])

    def _answers(self) -> np.ndarray:
        known = self.known
        return known[:, None] if self.oracle.gives_numbers else _one_hot(known, self.oracle.n_classes)

    def _invert_trees(self) -> np.ndarray:
        trees = find_trees(self.oracle.model)
        assert trees is not None
        known = self.known[self.judged]
        leaves = self._try(lambda rows: sum_leaves(trees, rows))
        return weigh_leaves(leaves, self.said, known, self.scene.prior)

    def _invert_errors(self) -> np.ndarray:
        """By the errors on members that train, since others are not what the model was trained on."""
        scene, known = self.scene, self.known
        labels = np.concatenate([part for part in self.labels if part is not None])
        # Controls without labels come last, and stay without a guess.
        rows = self.judged[self.judged < len(labels)]
        said, train = self.said[: len(rows)], scene.train[scene.train < len(scene.parts[0])]
        if self.oracle.gives_numbers:
            labels = require_numbers(labels)
            spread = measure_residuals(known[train], labels[train])
            return weigh_residuals(said, labels[rows], spread, scene.prior)
        n_met, codes = self.oracle.n_classes, self.oracle.code(labels)
        if (codes >= n_met).all():
            raise DataError(
                f"The model never answers what y_members holds, such as {labels[0]!r}: write labels as it was trained."
            )
        confusion = count_errors(known[train], codes[train], self.oracle.n_classes)
        return weigh_errors(said, codes[rows], confusion, scene.prior)

    @cached_property
    def others(self) -> np.ndarray:
        """The other features as numbers."""
        (members, controls), column = self.scene.parts, self.scene.column
        rest = [j for j in range(len(members.names)) if j != column]
        return _matrix([merge(members, controls, j) for j in rest], len(members) + len(controls))

    @cached_property
    def known(self) -> np.ndarray:
        """What the model answers to every row as it is."""
        return np.concatenate([self.oracle.answers(part.native) for part in self.scene.parts])

    @cached_property
    def said(self) -> np.ndarray:
        """What it answers to the judged rows with each value."""
        return self._try(self.oracle.answers)

    def _try(self, function: Callable[[Any], np.ndarray]) -> np.ndarray:
        (members, controls), n = self.scene.judged, len(self.scene.parts[0])
        parts = [self.scene.parts[0].take(members), self.scene.parts[1].take(controls - n)]
        return try_values(function, parts, self.scene.column, self.scene.donors)


def _fit_and_guess(learner: Any, rows: np.ndarray, truth: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    n_values = int(truth.max()) + 1
    try:
        fitted = clone(learner).fit(rows, truth)
        has_odds = hasattr(fitted, "predict_proba")
        said = np.asarray(fitted.predict_proba(unseen) if has_odds else fitted.predict(unseen))
    except Exception as error:
        raise ShoalError(
            f"The learner {type(learner).__name__} cannot learn the feature ({reason(error)}): choose another."
        ) from None
    scores = said if has_odds or said.dtype.kind not in "iu" else np.eye(n_values)[said]
    if scores.shape != (len(unseen), n_values):
        raise ShoalError(f"The learner {type(learner).__name__} is no classifier: choose {', '.join(LEARNERS)}.")
    return np.asarray(scores, float)


def _judge(name: str, scores: np.ndarray, scene: _Scene, rival: np.ndarray | None) -> AttackResult:
    """The numbers of an attack; ``rival`` are the scores of who has the same features, but not the model."""
    members, controls = scene.judged
    n, truth = len(members), scene.truth[members]
    guess = scores.argmax(axis=1)
    right, common = guess[:n] == truth, truth == scene.prior.argmax()
    learned = common if rival is None else rival[:n].argmax(axis=1) == truth
    baseline = learned if learned.sum() > common.sum() else common
    control = guess[n:] == scene.truth[controls[: len(guess) - n]]
    precision, recall = _of_rarer(guess[:n], truth, scene.prior)
    risks = np.full(len(scene.parts[0]), np.nan)
    risks[members] = scores[:n].max(axis=1) / scores[:n].sum(axis=1)
    return AttackResult(
        attack=name,
        secret=f"the value of {scene.name}",
        view=ATTACKS[name],
        rows=n,
        accuracy=share_right(right),
        baseline=share_right(baseline),
        advantage=paired_difference(right, baseline),
        control=share_right(control) if len(control) else None,
        precision=precision,
        recall=recall,
        risks=risks,
        note=_note(float(right.mean()), float(common.mean()), len(control) > 0, scene.left_out),
    )


def _of_rarer(guess: np.ndarray, truth: np.ndarray, prior: np.ndarray) -> tuple[Interval | None, Interval | None]:
    """Precision and recall of the rarer of two values."""
    if len(prior) != 2:
        return None, None
    rarer = 1 - int(prior.argmax())
    guessed, there = guess == rarer, truth == rarer
    hits = int((guessed & there).sum())
    precision, recall = (share_interval(hits, int(of.sum())) if of.any() else None for of in (guessed, there))
    return precision, recall


def _note(accuracy: float, common: float, has_control: bool, left_out: int) -> str:
    said = []
    if accuracy < common:
        said.append(f"The most frequent value is right in {common * 100:.0f} % of rows, and this attack is below it.")
    if not has_control:
        said.append("Without the labels of controls it cannot be told whether this is memorised.")
    if left_out:
        said.append(f"{left_out:,} rows without a value were left out.")
    return " ".join(said)


def _choose(asked: Sequence[str] | None, model: Any, labelled: bool, learns: bool) -> list[str]:
    """The attacks that are asked for, if they can be done; by default all that can be."""
    unlearned = learns, "it learns, and learner is None"
    has_odds = hasattr(model, "predict_proba")
    ways_out = dict.fromkeys(LEARNED, unlearned) | {
        "black-box probabilities": unlearned if not learns else (has_odds, "the model has no predict_proba"),
        "white-box": (find_trees(model) is not None, f"{type(model).__name__} is not made of trees that can be read"),
        "fredrikson": (labelled, "it starts from true labels, and y_members is missing"),
    }
    cannot = {name: why for name, (can, why) in ways_out.items() if not can}
    if asked is None:
        return [name for name in ATTACKS if name not in cannot]
    names = [asked] if isinstance(asked, str) else list(asked)
    for name in names:
        if name not in ATTACKS:
            raise ShoalError(f"There is no attack {name!r}: choose {', '.join(ATTACKS)}.")
        if name in cannot:
            raise ShoalError(f"The attack {name!r} cannot be done, since {cannot[name]}: choose another.")
    return names


def _make_learner(asked: Any, seed: int) -> Any:
    if asked is None:
        return None
    if asked == "network":
        # Rows may be few: larger steps and more patience than by default, or it stops before it has begun.
        patient = {"early_stopping": True, "n_iter_no_change": 20, "learning_rate_init": 0.005, "max_iter": 300}
        return make_pipeline(StandardScaler(), StoppingMLPClassifier(**patient, random_state=seed))
    if asked == "boosting":
        return HistGradientBoostingClassifier(early_stopping=False, random_state=seed)
    if asked == "forest":
        return RandomForestClassifier(100, min_samples_leaf=5, random_state=seed)
    if not hasattr(asked, "fit") or not hasattr(asked, "predict"):
        raise ShoalError(f"There is no learner {asked!r}: choose {', '.join(LEARNERS)}, or pass a classifier.")
    return asked


def _set_up(members: Any, controls: Any, feature: str | int, bins: int | None, seed: int) -> _Scene:
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or seed < 0:
        raise ShoalError(f"random_state={seed!r}: choose a whole number from 0 on.")
    parts = open_alike(members, controls)
    column = find_column(feature, parts[0])
    n, name = len(parts[0]), parts[0].names[column]
    secret = merge(*parts, column)
    values, stand_ins = _group_values(secret, name, bins)
    codes = np.append(values, -1)[secret.codes]
    random = np.random.default_rng(int(seed))
    halves = _halve(codes[:n], "members", name, random), _halve(codes[n:], "controls", name, random)
    train = np.concatenate([halves[0][0], halves[1][0] + n])
    met, sizes = np.unique(codes[train], return_counts=True)
    if len(met) < 2:
        raise DataError(f"Feature {name!r} has one value in all rows, so there is nothing to guess: choose another.")
    number = np.full(len(stand_ins) + 1, -1)
    number[met] = np.arange(len(met))
    return _Scene(
        name,
        parts,
        column,
        truth=number[codes],
        train=train,
        judged=(halves[0][1], halves[1][1] + n),
        prior=sizes / sizes.sum(),
        donors=find_donors(parts, secret.codes, stand_ins[met]),
        left_out=int((codes < 0).sum()),
    )


def _group_values(secret: Factor, name: str, bins: int | None) -> tuple[np.ndarray, np.ndarray]:
    """For each value the number of what is guessed, and for each of that the value that stands for it when tried."""
    n, content = len(secret.values), secret.content
    if bins is None:
        most = MOST_TEXTS if content == "text" else MOST_NUMBERS
        if n > most:
            way_out = "choose another" if content == "text" else "pass bins to guess ranges of them"
            raise DataError(f"Feature {name!r} has {n:,} different values, more than {most}: {way_out}.")
        return np.arange(n), np.arange(n)
    if isinstance(bins, bool) or not isinstance(bins, numbers.Integral) or bins < 2:
        raise ShoalError(f"bins={bins!r}: choose a whole number from 2 on, or None.")
    if content not in ("number", "date"):
        raise ShoalError(f"bins={bins} is for numbers and dates, but feature {name!r} holds {content}: leave bins out.")
    sizes = np.bincount(secret.codes[secret.codes >= 0], minlength=n)
    so_far = np.cumsum(sizes)
    ranges = np.unique((so_far - sizes / 2) * bins // max(so_far[-1], 1), return_inverse=True)[1].reshape(-1)
    ends = so_far[np.append(np.flatnonzero(np.diff(ranges)), n - 1)]
    # The median of a range stands for it.
    return ranges, np.searchsorted(so_far, (np.append(0, ends[:-1]) + ends) / 2)


def _halve(codes: np.ndarray, who: str, name: str, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows that train and rows that are judged, as many of each value as can be."""
    known = np.flatnonzero(codes >= 0)
    if len(known) < FEWEST_ROWS:
        raise DataError(f"There are {len(known)} {who} in which {name!r} is known: pass {FEWEST_ROWS} or more.")
    shuffled = random.permutation(known)
    ordered = shuffled[np.argsort(codes[shuffled], kind="stable")]
    return np.sort(ordered[::2]), np.sort(ordered[1::2])


def _matrix(factors: list[Factor], n_rows: int) -> np.ndarray:
    """What a learner sees: numbers and whether they are missing, and a column for each frequent other value."""
    columns: list[np.ndarray] = []
    for codes, values, content in factors:
        missing = codes < 0
        if content == "text":
            columns.append(_one_hot(codes, len(values)))
            continue
        known = values.astype("int64" if content == "date" else float).astype(float)
        columns.append(np.append(known, known[codes[~missing]].mean() if len(known) else 0.0)[codes][:, None])
        if missing.any():
            columns.append(missing[:, None].astype(float))
    return np.column_stack(columns) if columns else np.zeros((n_rows, 1))


def _one_hot(codes: np.ndarray, n_values: int) -> np.ndarray:
    sizes = np.bincount(codes[codes >= 0], minlength=n_values)
    frequent = np.sort(np.argsort(-sizes, kind="stable")[:MOST_CATEGORIES])
    return np.asarray(codes[:, None] == frequent, float)
