"""Attribute inference: guess one value of a row from all others with a model's help (Goldsteen et al. 2020)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from shoal.attacks import _inversion as inversion
from shoal.attacks._inversion import Oracle, Scene
from shoal.attacks._learners import patient_network
from shoal.attacks.registry import (
    ATTRIBUTE_ELEMENT,
    Attack,
    AuditInput,
    AuditRisk,
    Finding,
    RiskVerdict,
    Skipped,
    attack_on,
    choose_attacks,
)
from shoal.attacks.results import AttackResult, corrected
from shoal.attacks.trees import find_trees, sum_leaves
from shoal.errors import DataError, ShoalError, reason
from shoal.intervals import Interval, paired_difference, share_interval, share_right
from shoal.models.networks import StoppingMLPClassifier
from shoal.reports.report import show_share

LEARNERS = "network", "boosting", "forest"
NEGLIGIBLE = 0.02
"""Difference of accuracy between members and controls below which an attack is not called memorisation."""


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

    Half of the members and half of the controls train the adversary; the others are judged. A higher accuracy on
    members than on controls is memorisation; an equal accuracy comes from correlations between features, or from
    answers that the model gives for any row. Most memorisation shows where true labels are known.

    Parameters
    ----------
    model : estimator
        Trained; it takes ``members`` and ``controls`` as they are.
    members, controls : table or array
        Training rows, and rows outside the training data. The adversary knows every column but the feature: leave out
        those that an adversary would not know, such as the target.
    feature : str or int
        Name or position of the feature that is guessed. Rows in which it is missing are left out.
    y_members, y_controls : array, optional
        True labels, which the attack ``"fredrikson"`` needs. All others use the model's answers.
    attacks : sequence, optional
        ``"ideal"`` learns the feature from the others, without the model: the baseline of all others, unless the most
        frequent value is a better guess. ``"black-box"`` learns it from the model's answer too, ``"black-box
        probabilities"`` from its probabilities. ``"white-box"`` tries every value on a model of trees, and weighs
        those that lead to the known answer by the rows in their leaves. ``"fredrikson"`` tries every value on any
        model, and weighs them by the model's error rates (Fredrikson et al. 2014). The latter two do not know the
        correlations between features, and may be worse than ``"ideal"``. By default all that apply.
    learner : {"network", "boosting", "forest"} or classifier, or None
        Learner of the first three. With None they are left out, and the baseline is the most frequent value: the
        latter two then take no longer than asking the model.
    bins : int, optional
        Guess the range of a number or a date, out of this number of ranges with about equally many rows.
    random_state : int

    Returns
    -------
    list of AttackResult
        ``accuracy``, ``baseline`` and ``advantage`` are of members, ``control`` is the accuracy on controls. For a
        feature of two values, ``precision`` and ``recall`` are those of the rarer one. ``risks`` is the adversary's
        confidence for each member.

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
    chosen = choose_attacks(ATTRIBUTE_VALUE, attacks, _lacking(model, y_members is not None, learner is not None))
    scene = inversion.set_up(members, controls, feature, bins, random_state)
    given = zip((y_members, y_controls), scene.parts, inversion.WHO, strict=True)
    labels = [inversion.read_labels(y, len(part), who) for y, part, who in given]
    adversary = _Adversary(scene, Oracle(model), _make_learner(learner, random_state), labels)
    found: dict[Attack, AttackResult] = {}
    rival: np.ndarray | None = None
    for attack in dict.fromkeys(chosen if learner is None else (ideal, *chosen)):
        started = time.perf_counter()
        scores = attack.run(adversary)
        found[attack] = _judge(attack, scores, scene, rival)._replace(seconds=time.perf_counter() - started)
        rival = scores if attack is ideal else rival
    return [found[attack] for attack in chosen]


def _make(given: AuditInput, risk: AuditRisk, attribute: str) -> Iterator[AttackResult | Skipped]:
    """Make the attacks of an audit on one sensitive attribute."""
    title = f"inference of {attribute} from the model"
    if attribute not in given.features:
        yield Skipped(title, "the model does not see it")
    elif given.seconds_left <= 0:
        yield Skipped(title, "the time limit is too short for it")
    else:
        try:
            yield from infer_attribute(
                given.model,
                given.members,
                given.controls,
                attribute,
                y_members=given.y_members,
                y_controls=given.y_controls,
                random_state=given.random_state,
            )
        except ShoalError as error:
            yield Skipped(title, reason(error))


def _describe(finding: Finding) -> RiskVerdict:
    using = [one for one in finding.results if one.attack != ideal.name] or finding.results
    strongest = max(using, key=lambda one: one.advantage.value)
    clearly = corrected(strongest.advantage, len(using)).low > 0
    helps = "helps" if clearly else "does not clearly help"
    sentence = (
        f"The model {helps} an adversary to infer {finding.attribute}: {strongest.attack} has an accuracy of "
        f"{show_share(strongest.accuracy.value)}, compared with {show_share(strongest.baseline.value)} without access "
        "to the model."
    )
    if strongest.control is not None:
        sentence += f" On people outside the training data it is {show_share(strongest.control.value)}"
        memory = strongest.accuracy.value - strongest.control.value
        sentence += ", so most of it is not memorisation." if memory < NEGLIGIBLE else "."
    limits = "The adversary knew all other values of a person, and learned from people whose value is known."
    return RiskVerdict(finding.name, clearly, sentence, limits)


ATTRIBUTE_VALUE = AuditRisk(
    name="value of {}",
    on="model",
    position=20,
    element=ATTRIBUTE_ELEMENT,
    baseline="guessing from the other features without the model, or the most frequent value if that is better",
    control="people outside the training data",
    advantage="accuracy - baseline",
    describe=_describe,
    make=_make,
)


class _Adversary:
    """State of the attacks, each of which returns the evidence for each value of each judged row (n, values)."""

    def __init__(self, scene: Scene, oracle: Oracle, learner: Any, labels: list[np.ndarray | None]) -> None:
        self.scene = scene
        self.oracle = oracle
        self.learner = learner
        self.labels = labels
        self.judged = np.concatenate(scene.judged)

    def learn(self, view: np.ndarray) -> np.ndarray:
        """Learn the feature from a view of the rows."""
        train = self.scene.train
        # One thread learns tables of this size as fast, and much faster if other work runs at the same time.
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return _fit_and_guess(self.learner, view[train], self.scene.truth[train], view[self.judged])

    def try_each(self, function: Callable[[Any], np.ndarray]) -> np.ndarray:
        """Return the values of a function of the judged rows with each value of the feature."""
        (members, controls), n = self.scene.judged, len(self.scene.parts[0])
        parts = [self.scene.parts[0].take(members), self.scene.parts[1].take(controls - n)]
        return inversion.try_values(function, parts, self.scene.column, self.scene.donors)

    @cached_property
    def others(self) -> np.ndarray:
        """The other features as numbers."""
        (members, controls), column = self.scene.parts, self.scene.column
        rest = [j for j in range(len(members.names)) if j != column]
        return inversion.to_matrix([inversion.merge(members, controls, j) for j in rest], len(members) + len(controls))

    @cached_property
    def known(self) -> np.ndarray:
        """Answers of the model to all rows as they are."""
        return np.concatenate([self.oracle.answers(part.native) for part in self.scene.parts])

    @cached_property
    def said(self) -> np.ndarray:
        """Answers of the model to the judged rows with each value."""
        return self.try_each(self.oracle.answers)


@attack_on(ATTRIBUTE_VALUE, "ideal", view="the other features", needs=("learner",))
def ideal(adversary: _Adversary) -> np.ndarray:
    """Learn the feature from the others, without the model."""
    return adversary.learn(adversary.others)


@attack_on(ATTRIBUTE_VALUE, "black-box", view="the model's answer", needs=("learner",))
def black_box(adversary: _Adversary) -> np.ndarray:
    """Learn the feature from the others and the model's answer."""
    known = adversary.known
    answers = known[:, None] if adversary.oracle.gives_numbers else inversion.one_hot(known, adversary.oracle.n_classes)
    return adversary.learn(np.column_stack([adversary.others, answers]))


@attack_on(
    ATTRIBUTE_VALUE, "black-box probabilities", view="the model's probabilities", needs=("learner", "probabilities")
)
def black_box_probabilities(adversary: _Adversary) -> np.ndarray:
    """Learn the feature from the others and the model's probabilities."""
    said = [adversary.oracle.probabilities(part.native) for part in adversary.scene.parts]
    return adversary.learn(np.column_stack([adversary.others, np.concatenate(said)]))


@attack_on(
    ATTRIBUTE_VALUE, "white-box", view="the model's answers to any row, and the number of training rows of each leaf",
    needs=("trees",),
)  # fmt: skip
def white_box(adversary: _Adversary) -> np.ndarray:
    """Try every value on the trees, and weigh those that lead to the known answer by the rows in their leaves."""
    trees = find_trees(adversary.oracle.model)
    assert trees is not None
    known = adversary.known[adversary.judged]
    leaves = adversary.try_each(lambda rows: sum_leaves(trees, rows))
    return inversion.weigh_leaves(leaves, adversary.said, known, adversary.scene.prior)


@attack_on(
    ATTRIBUTE_VALUE, "fredrikson", view="the label, the model's answers to any row, and its error rates",
    needs=("labels",),
)  # fmt: skip
def fredrikson(adversary: _Adversary) -> np.ndarray:
    """Try every value on the model, and weigh them by its error rates on members that train the adversary.

    Controls that train it are left out, because the model was not trained on them.
    """
    scene, known, oracle = adversary.scene, adversary.known, adversary.oracle
    labels = np.concatenate([part for part in adversary.labels if part is not None])
    # Controls without labels come last, and stay without a guess.
    rows = adversary.judged[adversary.judged < len(labels)]
    said, train = adversary.said[: len(rows)], scene.train[scene.train < len(scene.parts[0])]
    if oracle.gives_numbers:
        labels = inversion.require_numbers(labels)
        spread = inversion.measure_residuals(known[train], labels[train])
        return inversion.weigh_residuals(said, labels[rows], spread, scene.prior)
    n_met, codes = oracle.n_classes, oracle.code(labels)
    if (codes >= n_met).all():
        raise DataError(
            f"The model never answers a label of y_members, such as {labels[0]!r}: pass labels as in its training."
        )
    confusion = inversion.count_errors(known[train], codes[train], oracle.n_classes)
    return inversion.weigh_errors(said, codes[rows], confusion, scene.prior)


def _lacking(model: Any, labelled: bool, learns: bool) -> dict[str, str]:
    """Return the reasons for requirements of attacks that are not met."""
    met = {
        "learner": (learns, "no learner was passed"),
        "probabilities": (hasattr(model, "predict_proba"), "the model has no predict_proba"),
        "trees": (find_trees(model) is not None, f"{type(model).__name__} is not a model of trees that can be read"),
        "labels": (labelled, "y_members is missing"),
    }
    return {need: why for need, (there, why) in met.items() if not there}


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
        raise ShoalError(f"The learner {type(learner).__name__} is not a classifier: choose {', '.join(LEARNERS)}.")
    return np.asarray(scores, float)


def _judge(attack: Attack, scores: np.ndarray, scene: Scene, rival: np.ndarray | None) -> AttackResult:
    """Judge the scores of an attack; ``rival`` has those of an adversary with the same features, but not the model."""
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
        attack=attack.name,
        secret=f"the value of {scene.name}",
        view=attack.view,
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
    """Return precision and recall of the rarer of two values."""
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
        said.append(f"It is less accurate than guessing the most frequent value ({common * 100:.0f} %).")
    if not has_control:
        said.append("Without the labels of controls, memorisation cannot be measured.")
    if left_out:
        said.append(f"{left_out:,} rows without a value were left out.")
    return " ".join(said)


def _make_learner(asked: Any, seed: int) -> Any:
    if asked is None:
        return None
    if asked == "network":
        return patient_network(StoppingMLPClassifier, seed)
    if asked == "boosting":
        return HistGradientBoostingClassifier(early_stopping=False, random_state=seed)
    if asked == "forest":
        return RandomForestClassifier(100, min_samples_leaf=5, random_state=seed)
    if not hasattr(asked, "fit") or not hasattr(asked, "predict"):
        raise ShoalError(f"There is no learner {asked!r}: choose {', '.join(LEARNERS)}, or pass a classifier.")
    return asked
