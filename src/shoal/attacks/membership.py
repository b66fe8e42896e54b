"""Membership inference: distinguish the rows that a model was trained on from other rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from shoal._kernels import groups
from shoal.attacks.answers import Answers, Asking, n_rows_of, plan_asking
from shoal.attacks.references import References, clip_of, seeded, take, train_references
from shoal.attacks.registry import (
    MEMBERSHIP_ELEMENT,
    Attack,
    AuditInput,
    AuditRisk,
    Finding,
    RiskVerdict,
    Skipped,
    attacks_on,
    choose_attacks,
)
from shoal.attacks.results import AttackResult, best_threshold, corrected, judge_two_groups
from shoal.attacks.trees import quick
from shoal.data import frames
from shoal.data.factored import group_rows
from shoal.errors import DataError, reason
from shoal.parameters import Described, Whole
from shoal.reports.report import show_share

FEWEST_ROWS = 20
FEWEST_REFERENCES = 4
"""Reference models that an audit trains at least where its time is limited."""
SECRET = "membership in the training data"
EVEN = Described("an even number of at least 2", lambda value: Whole(least=2).allows(value) and value % 2 == 0)


def infer_membership(
    model: Any,
    members: Any,
    controls: Any,
    y_members: Any,
    y_controls: Any,
    *,
    attacks: Sequence[str] | None = None,
    estimator: Any = None,
    n_references: int = 16,
    n_jobs: int = 1,
    random_state: int = 0,
    skip: bool = False,
) -> list[AttackResult]:
    """Distinguish the rows that a model was trained on from other rows.

    The adversary knows half of the members and half of the controls, to set thresholds and to train attacks; the other
    halves are judged. Results are therefore an upper bound for adversaries who know less.

    Parameters
    ----------
    model : estimator
        Trained: a classifier, with probabilities or without, or a regressor.
    members, controls : table or array
        Training rows, and similar rows outside the training data.
    y_members, y_controls : array
        Their true labels.
    attacks : sequence of str, optional
        See :func:`attack_names`; by default all that apply.
    estimator : estimator, optional
        Recipe of the model, for attacks with reference models; by default a fresh copy of the model. Where its rows
        were anonymized before, a :class:`shoal.ProtectedModel`.
    n_references : int
        Number of reference models, even; more of them make stronger attacks.
    n_jobs : int
        Number of reference models that are trained in parallel, each in a process.
    random_state : int
    skip : bool
        Leave out attacks that do not apply instead of refusing them.

    Returns
    -------
    list of AttackResult
        ``risks`` has a score for each member, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from shoal.attacks.membership import infer_membership
    >>> random = np.random.default_rng(0)
    >>> X, y = random.normal(size=(400, 5)), random.integers(0, 2, 400)
    >>> model = RandomForestClassifier(20, random_state=0).fit(X[:200], y[:200])
    >>> (found,) = infer_membership(model, X[:200], X[200:], y[:200], y[200:], attacks=["loss"])
    >>> found.beats_baseline, found.auc.value > 0.9
    (True, True)
    """
    target = _open_target(model, members, controls, y_members, y_controls)
    recipe = model if estimator is None else estimator
    chosen = choose_attacks(MEMBERSHIP, attacks, _lacking(target, recipe), skip=skip)
    references: References | None = None
    seconds = 0.0
    if any(map(_needs_references, chosen)):
        EVEN.check("n_references", n_references)
        start = time.perf_counter()
        references = train_references(
            recipe,
            target.rows,
            target.labels,
            target.asking,
            clip=target.clip,
            n_models=n_references,
            n_jobs=n_jobs,
            seed=random_state,
        )
        seconds = time.perf_counter() - start
    game = MembershipGame(target, *_halve(target, random_state), references, random_state)
    found = []
    for attack in chosen:
        start = time.perf_counter()
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = attack.run(game)
        spent = time.perf_counter() - start + (seconds if _needs_references(attack) else 0.0)
        found.append(_judge(attack, scores, game, spent))
    return found


def attack_names(*, references: bool | None = None) -> list[str]:
    """Return the names of the attacks: all, only those with reference models, or only those without.

    >>> attack_names()[:3]
    ['loss', 'confidence', 'entropy']
    >>> attack_names(references=True)[1:3]
    ['LiRA offline', 'LiRA online']
    """
    return [one.name for one in attacks_on(MEMBERSHIP) if references in (None, _needs_references(one))]


class Target(NamedTuple):
    """A model under attack, and the rows to distinguish: members first, then controls."""

    model: Any
    rows: Any
    labels: np.ndarray
    n_members: int
    asking: Asking
    answers: Answers
    clip: float
    overlap: int
    """Controls that equal a member in all values: no attack can be correct about both."""

    @property
    def is_member(self) -> np.ndarray:
        """True for members."""
        return np.arange(len(self.labels)) < self.n_members


class MembershipGame(NamedTuple):
    """Input of an attack on membership, which returns a score for each row, higher for likelier members."""

    target: Target
    known: np.ndarray
    """Rows that the adversary knows, as many members as controls."""
    judged_members: np.ndarray
    judged_controls: np.ndarray
    references: References | None
    seed: int


def _make(given: AuditInput, risk: AuditRisk, attribute: str) -> Iterator[AttackResult | Skipped]:
    """Make the attacks of an audit; errors are not skipped, because they are about the tables that were given."""
    names = attack_names() if given.attacks is None else list(given.attacks)
    with_references = [name for name in names if name in attack_names(references=True)]
    simple = [name for name in names if name not in with_references]
    data = given.members, given.controls, given.y_members, given.y_controls
    options: dict[str, Any] = {
        "estimator": given.estimator, "random_state": given.random_state, "skip": given.attacks is None
    }  # fmt: skip
    if simple:
        yield from infer_membership(given.model, *data, attacks=simple, **options)
    if with_references:
        n, skipped = _affordable_references(given)
        yield from skipped
        if n:
            options |= {"n_references": n, "n_jobs": given.n_jobs}
            yield from infer_membership(given.model, *data, attacks=with_references, **options)


def _affordable_references(given: AuditInput) -> tuple[int, list[Skipped]]:
    """Return the number of reference models that the time allows, by training one."""

    def none_because(why: str) -> tuple[int, list[Skipped]]:
        return 0, [Skipped("attacks with reference models", why)]

    recipe = given.model if given.estimator is None else given.estimator
    if not isinstance(recipe, BaseEstimator):
        return none_because(NOT_RETRAINED)
    if given.deadline == np.inf:
        return given.n_references, []
    half = np.arange(0, len(given.y_members), 2)
    begun = time.perf_counter()
    try:
        seeded(recipe, given.random_state).fit(take(given.members, half), given.y_members[half])
    except Exception as error:  # whatever an estimator does with its rows
        return none_because(f"{NOT_RETRAINED} ({reason(error)})")
    # It had half of the members; reference models train on half of all rows, and predict all of them.
    each = 2.5 * (time.perf_counter() - begun) * (1 + len(given.y_controls) / len(given.y_members)) / 2
    n = int(0.8 * given.seconds_left * max(given.n_jobs, 1) / max(each, 1e-9)) // 2 * 2
    if n < FEWEST_REFERENCES:
        return none_because("the time limit is too short for them: allow more")
    if n < given.n_references:
        left_out = f"{given.n_references - n} of {given.n_references} reference models"
        return n, [Skipped(left_out, "the time limit is too short for them")]
    return given.n_references, []


def describe_membership(finding: Finding) -> RiskVerdict:
    """Describe the attacks on membership by the strongest of them."""
    found = finding.results
    strongest = max(found, key=auc_or_accuracy)
    best = corrected(strongest.auc or strongest.accuracy, len(found))
    clearly = best.low > 0.5
    if clearly:
        few = ""
        if strongest.hits_at_1_percent is not None:
            few = f" and a TPR of {show_share(strongest.hits_at_1_percent.value)} at 1 % FPR"
        accuracy = f"an accuracy of {show_share(strongest.accuracy.value)} (baseline 50 %)"
        sentence = f"The strongest of {len(found)} attacks, {strongest.attack}, has {accuracy}{few}."
    else:
        sentence = (
            f"None of {len(found)} attacks was clearly better than guessing; the strongest, {strongest.attack}, has an "
            f"AUC of {best.value:.3f} ({best.low:.3f} to {best.high:.3f})."
        )
    limits = (
        "The adversary knew half of the members and controls. Intervals are widened for the number of attacks; attacks "
        "that were not made may succeed."
    )
    return RiskVerdict(finding.name, clearly, sentence, limits)


def auc_or_accuracy(one: AttackResult) -> float:
    """Return the number by which attacks on membership are ranked."""
    return one.auc.value if one.auc is not None else one.accuracy.value


MEMBERSHIP = AuditRisk(
    name="membership",
    on="model",
    position=10,
    element=MEMBERSHIP_ELEMENT,
    baseline="guessing at random",
    control="",
    advantage="accuracy - baseline",
    describe=describe_membership,
    make=_make,
)
NOT_RETRAINED = "the model cannot be retrained"


def _needs_references(attack: Attack) -> bool:
    return "references" in attack.needs


def _lacking(target: Target, recipe: Any) -> dict[str, str]:
    """Return the reasons for requirements of attacks that are not met."""
    kind = target.answers.kind
    met = {
        "probabilities": kind == "probabilities",
        "classes": kind in ("probabilities", "labels"),
        "scores": kind in ("probabilities", "numbers"),
    }
    lacking = {need: f"the model answers with {kind}" for need, there in met.items() if not there}
    return lacking if isinstance(recipe, BaseEstimator) else lacking | {"references": NOT_RETRAINED}


def _judge(attack: Attack, scores: np.ndarray, game: MembershipGame, seconds: float) -> AttackResult:
    target, member = game.target, game.target.is_member
    in_known, out_known = game.known[member[game.known]], game.known[~member[game.known]]
    threshold = best_threshold(scores[in_known], scores[out_known])
    risks = np.full(target.n_members, np.nan)
    risks[game.judged_members] = scores[game.judged_members]
    notes = []
    if game.references is not None and _needs_references(attack):
        notes.append(f"{len(game.references.inside)} reference models.")
    if target.overlap:
        notes.append(f"{target.overlap:,} controls equal a member in every value; guesses about them are chance.")
    return AttackResult(
        attack=attack.name,
        secret=SECRET,
        view=attack.view,
        risks=risks,
        seconds=seconds,
        note=" ".join(notes),
        **judge_two_groups(scores[game.judged_members], scores[game.judged_controls], threshold),
    )


def _open_target(model: Any, members: Any, controls: Any, y_members: Any, y_controls: Any) -> Target:
    sizes = [n_rows_of(members), n_rows_of(controls)]
    labels = [_read_labels(y, n, name) for y, n, name in zip((y_members, y_controls), sizes, ("members", "controls"),
                                                             strict=True)]  # fmt: skip
    for n, name in zip(sizes, ("members", "controls"), strict=True):
        if n < FEWEST_ROWS:
            raise DataError(f"There are only {n} {name}: pass {FEWEST_ROWS} or more.")
    rows = _stack(members, controls)
    if labels[0].dtype.kind != labels[1].dtype.kind:
        raise DataError(
            f"Labels of members are like {labels[0][0]!r}, those of controls like {labels[1][0]!r}: use one type."
        )
    together = np.concatenate(labels)
    asking, asked = plan_asking(model, together), quick(model)
    answers = asking.ask(asked, rows, together)
    overlap = _count_overlap(rows, together, sizes[0])
    if overlap == sizes[1]:
        raise DataError("Every control equals a member: pass rows that the model was not trained on as controls.")
    return Target(asked, rows, together, sizes[0], asking, answers, clip_of(answers), overlap)


def _read_labels(y: Any, n: int, name: str) -> np.ndarray:
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n:
        raise DataError(f"The labels have the shape {labels.shape} for {n:,} {name}: pass one per row.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError(f"Some {name} have no label: leave them out.")
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def _stack(members: Any, controls: Any) -> Any:
    if frames.is_frame(members) != frames.is_frame(controls):
        raise DataError("Members and controls have different types: pass both as tables, or both as arrays.")
    if not frames.is_frame(members):
        one, other = np.asarray(members), np.asarray(controls)
        if one.ndim != 2 or one.shape[1:] != other.shape[1:]:
            raise DataError(f"Members have the shape {one.shape}, controls {other.shape}: pass the same columns.")
        return np.concatenate([one, other])
    opened = [frames.open_frame(members), frames.open_frame(controls)]
    for name in opened[0].columns:
        if name not in opened[1].columns:
            raise DataError(f"Column {name!r} is not among the controls: pass the same columns as of members.")
    return frames.stack_rows(opened).to_native()


def _count_overlap(rows: Any, labels: np.ndarray, n_members: int) -> int:
    """Return the number of controls that equal a member in every value and the label."""
    if frames.is_frame(rows):
        opened = frames.open_frame(rows)
        alike = group_rows(opened, opened.columns)
    elif rows.dtype.kind in "biuf":
        alike = groups.group_rows((rows.astype(float) + 0.0).view(np.uint64))[0]
    else:
        alike = np.unique(rows.astype(str), axis=0, return_inverse=True)[1].reshape(-1)
    both = np.column_stack([alike, np.unique(labels, return_inverse=True)[1]]).astype(np.uint64)
    met = groups.group_rows(both)[0]
    return int(np.bincount(met[:n_members], minlength=met.max() + 1)[met[n_members:]].astype(bool).sum())


def _halve(target: Target, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    parts = [random.permutation(np.flatnonzero(chosen)) for chosen in (target.is_member, ~target.is_member)]
    n_known = min(len(part) // 2 for part in parts)
    known = np.sort(np.concatenate([part[:n_known] for part in parts]))
    members, controls = (np.sort(part[len(part) // 2 :]) for part in parts)
    return known, members, controls
