"""Tell rows that a model was trained on from others."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from shoal._kernels import groups
from shoal.attacks import _learners as learners
from shoal.attacks import references as references
from shoal.attacks._branched_network import BranchedNetwork
from shoal.attacks.answers import Answers, Asking, n_rows_of, plan_asking
from shoal.attacks.references import References
from shoal.attacks.results import AttackResult, best_threshold, judge_two_groups
from shoal.attacks.trees import quick
from shoal.data import frames
from shoal.data.factored import group_rows
from shoal.errors import DataError, ShoalError

FEWEST_ROWS = 20
SECRET = "membership: whether a row was trained on"
STABILITY_COPIES = 20
STABILITY_SHARE = 0.2
"""Features of a row that are replaced by those of other rows, to see whether its label stays."""
MOST_TO_LEARN = 40_000
"""Rows that an attack learns from; of more, as many are drawn."""


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
    """Try to tell the rows that a model was trained on from others.

    Half of the members and half of the controls are known to the adversary, to set thresholds and to learn from; the
    others are judged. That is a strong adversary: results are an upper bound for those who know less.

    Parameters
    ----------
    model : estimator
        Trained: a classifier, with probabilities or without, or a regressor.
    members, controls : table or array
        Rows that it was trained on, and rows like them that it was not.
    y_members, y_controls : array
        Their true labels.
    attacks : sequence of str, optional
        See :func:`attack_names`; by default all that apply.
    estimator : estimator, optional
        How the model was trained, for attacks with reference models; by default a fresh copy of the model. Where its
        rows were anonymized before, a :class:`shoal.ProtectedModel`.
    n_references : int
        Reference models, an even number; more of them make stronger attacks.
    n_jobs : int
        Reference models that are trained side by side, each in a process.
    random_state : int
    skip : bool
        Leave out attacks that do not apply, instead of refusing them.

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
    target = _look_at_target(model, members, controls, y_members, y_controls)
    chosen = _choose(attacks, target, estimator, model, skip=skip)
    halves = _halve(target, random_state)
    known: References | None = None
    seconds = 0.0
    if any(_ATTACKS[name].needs_references for name in chosen):
        start = time.perf_counter()
        known = references.train_references(
            model if estimator is None else estimator,
            target.rows,
            target.labels,
            target.asking,
            clip=target.clip,
            n_models=_require_even(n_references),
            n_jobs=n_jobs,
            seed=random_state,
        )
        seconds = time.perf_counter() - start
    found = []
    for name in chosen:
        start = time.perf_counter()
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = _ATTACKS[name].score(target, halves, known, random_state)
        spent = time.perf_counter() - start + (seconds if _ATTACKS[name].needs_references else 0.0)
        found.append(_judge(name, scores, target, halves, known, spent))
    return found


def attack_names(*, references: bool | None = None) -> list[str]:
    """Names of the attacks, the simple ones first; only those with reference models, or those without, if asked for.

    >>> attack_names()[:3]
    ['loss', 'confidence', 'entropy']
    >>> attack_names(references=True)[1:3]
    ['LiRA offline', 'LiRA online']
    """
    return [name for name, one in _ATTACKS.items() if references is None or one.needs_references == references]


class Target(NamedTuple):
    """A model under attack, and the rows that are to be told apart: members first, then controls."""

    model: Any
    rows: Any
    labels: np.ndarray
    n_members: int
    asking: Asking
    answers: Answers
    clip: float
    overlap: int
    """Controls that equal a member in all they have: no attack can be right about both."""

    @property
    def is_member(self) -> np.ndarray:
        """True for members."""
        return np.arange(len(self.labels)) < self.n_members


class Halves(NamedTuple):
    """Rows that the adversary knows, as many members as others, and rows that are judged."""

    known: np.ndarray
    judged_members: np.ndarray
    judged_controls: np.ndarray


Score = Callable[[Target, Halves, "References | None", int], np.ndarray]


class Attack(NamedTuple):
    """How rows are scored: the higher, the more likely a member."""

    score: Score
    view: str
    kinds: tuple[str, ...] = ("probabilities", "numbers", "labels")
    needs_references: bool = False


def _judge(
    name: str, scores: np.ndarray, target: Target, halves: Halves, known: References | None, seconds: float
) -> AttackResult:
    member = target.is_member
    in_known, out_known = halves.known[member[halves.known]], halves.known[~member[halves.known]]
    threshold = best_threshold(scores[in_known], scores[out_known])
    risks = np.full(target.n_members, np.nan)
    risks[halves.judged_members] = scores[halves.judged_members]
    notes = []
    if known is not None and _ATTACKS[name].needs_references:
        notes.append(f"{len(known.inside)} reference models.")
    if target.overlap:
        notes.append(f"{target.overlap:,} controls equal a member in every value, and are guessed wrong or by chance.")
    return AttackResult(
        attack=name,
        secret=SECRET,
        view=_ATTACKS[name].view,
        risks=risks,
        seconds=seconds,
        note=" ".join(notes),
        **judge_two_groups(scores[halves.judged_members], scores[halves.judged_controls], threshold),
    )


def _loss(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    return references.signal_of(target.answers, target.clip)


def _confidence(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    return np.asarray(target.answers.columns.max(axis=1))


def _entropy(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    share = np.clip(target.answers.columns, 1e-12, 1)
    return np.asarray((share * np.log(share)).sum(axis=1))


def _modified_entropy(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    """Entropy that tells being sure of the truth from being sure of something else (Song and Mittal 2021)."""
    share = np.clip(target.answers.columns, 1e-12, 1 - 1e-12)
    wrong = share * np.log1p(-share)
    own = np.clip(target.answers.of_truth, 1e-12, 1 - 1e-12)
    return np.asarray((1 - own) * np.log(own) + wrong.sum(axis=1) - own * np.log1p(-own))


def _right(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    """Whether the label is the true one: nothing else is needed (the gap attack of Yeom et al. 2018)."""
    return np.asarray(target.answers.columns.argmax(axis=1) == target.answers.truth, float)


def _stability(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    """How often the label stays the true one if features are replaced by those of other rows (Choquette-Choo 2021)."""
    random = np.random.default_rng(seed)
    n, names = len(target.labels), _columns(target.rows)
    asking = Asking("labels", target.asking.classes)
    hits = _right(target, halves, known, seed) * STABILITY_COPIES
    for _ in range(STABILITY_COPIES):
        replaced = random.random((len(names), n)) < STABILITY_SHARE
        others = random.integers(0, n, (len(names), n))
        sources = np.where(replaced, others, np.arange(n))
        answers = asking.ask(target.model, _mix(target.rows, names, sources), target.labels)
        hits += answers.columns[np.arange(n), answers.truth]
    return hits


def _forest(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    return _learn(learners.forest, _published_view(target.answers), target, halves, seed)


def _boosting(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    return _learn(learners.boosting, _published_view(target.answers), target, halves, seed)


def _network(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    """The attack of the paper on accuracy-guided anonymization: branches for the answer and the label."""
    view, labels = _network_view(target.answers, target.clip)
    rows = _thin(halves.known, seed)
    network = BranchedNetwork(seed).fit(view[rows], labels[rows], target.is_member[rows].astype(float))
    return network.score(view, labels)


def _shadow(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    """Learn from models whose members are known, then turn to the one under attack (Shokri et al. 2017)."""
    assert known is not None
    views = np.vstack([_published_view(one) for one in known.shadows])
    inside = known.inside[: len(known.shadows)].reshape(-1)
    rows = _thin(np.arange(len(views)), seed)
    own = _published_view(target.answers)
    return learners.learn(learners.boosting, views[rows], inside[rows], own, seed)


def _with_references(score: Callable[[Target, References], np.ndarray]) -> Score:
    def scored(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
        assert known is not None
        return score(target, known)

    return scored


def _own_signal(target: Target) -> np.ndarray:
    return references.signal_of(target.answers, target.clip)


def _own_share(target: Target) -> np.ndarray:
    return references.share_of(target.answers, target.clip)


def _all_together(target: Target, halves: Halves, known: References | None, seed: int) -> np.ndarray:
    """Learn from the answer and everything that reference models tell."""
    assert known is not None
    signal, summary = _own_signal(target), references.summarise(known)
    scores = (
        references.lira_online(signal, summary),
        references.lira_offline(signal, summary),
        references.rmia_online(_own_share(target), known),
        references.rmia_offline(_own_share(target), known),
    )
    view = np.column_stack([_published_view(target.answers), signal, *summary, *scores])
    return _learn(learners.slow_boosting, view, target, halves, seed)


def _learn(learner: learners.Learner, view: np.ndarray, target: Target, halves: Halves, seed: int) -> np.ndarray:
    rows = _thin(halves.known, seed)
    return learners.learn(learner, view[rows], target.is_member[rows], view, seed)


def _published_view(answers: Answers) -> np.ndarray:
    """What the model says, and the truth."""
    if answers.kind == "numbers":
        truth = answers.truth.reshape(answers.columns.shape)
        return np.column_stack([answers.columns, truth, np.abs(answers.columns - truth)])
    # Of two classes one tells it all.
    shown = slice(1, None) if answers.columns.shape[1] == 2 else slice(None)
    return np.column_stack([answers.columns[:, shown], _one_hot(answers)[:, shown], answers.of_truth])


def _network_view(answers: Answers, clip: float) -> tuple[np.ndarray, np.ndarray]:
    if answers.kind == "numbers":
        truth = answers.truth.reshape(answers.columns.shape)
        return np.column_stack([answers.columns, references.signal_of(answers, clip)]), truth / (truth.std() + 1e-12)
    share = np.clip(answers.columns, clip, 1 - clip)
    return np.log(share) - np.log1p(-share), _one_hot(answers)


def _one_hot(answers: Answers) -> np.ndarray:
    return np.asarray(answers.truth[:, None] == np.arange(answers.columns.shape[1]), float)


def _look_at_target(model: Any, members: Any, controls: Any, y_members: Any, y_controls: Any) -> Target:
    sizes = [n_rows_of(members), n_rows_of(controls)]
    labels = [_read_labels(y, n, name) for y, n, name in zip((y_members, y_controls), sizes, ("members", "controls"),
                                                             strict=True)]  # fmt: skip
    for n, name in zip(sizes, ("members", "controls"), strict=True):
        if n < FEWEST_ROWS:
            raise DataError(f"There are only {n} {name}: {FEWEST_ROWS} of both are needed to tell anything.")
    rows = _stack(members, controls)
    together = np.concatenate(labels) if labels[0].dtype.kind == labels[1].dtype.kind else _as_texts(labels)
    asking, asked = plan_asking(model, together), quick(model)
    answers = asking.ask(asked, rows, together)
    overlap = _count_overlap(rows, together, sizes[0])
    if overlap == sizes[1]:
        raise DataError("Every control equals a member: pass rows that the model was not trained on as controls.")
    return Target(asked, rows, together, sizes[0], asking, answers, references.clip_of(answers), overlap)


def _read_labels(y: Any, n: int, name: str) -> np.ndarray:
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n:
        raise DataError(f"There are labels of the shape {labels.shape} for {n:,} {name}: pass one for each row.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError(f"Some {name} have no label: leave these out.")
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def _as_texts(labels: list[np.ndarray]) -> np.ndarray:
    raise DataError(
        f"Labels of members are like {labels[0][0]!r}, those of controls like {labels[1][0]!r}: write both alike."
    )


def _stack(members: Any, controls: Any) -> Any:
    if frames.is_frame(members) != frames.is_frame(controls):
        raise DataError("Members and controls are of two kinds: pass both as tables, or both as arrays.")
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
    """Controls that equal a member in every value and the label."""
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


def _halve(target: Target, seed: int) -> Halves:
    random = np.random.default_rng(seed)
    parts = [random.permutation(np.flatnonzero(chosen)) for chosen in (target.is_member, ~target.is_member)]
    n_known = min(len(part) // 2 for part in parts)
    known = np.sort(np.concatenate([part[:n_known] for part in parts]))
    judged = [np.sort(part[len(part) // 2 :]) for part in parts]
    return Halves(known, *judged)


def _thin(rows: np.ndarray, seed: int) -> np.ndarray:
    if len(rows) <= MOST_TO_LEARN:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, MOST_TO_LEARN, replace=False))


def _choose(attacks: Sequence[str] | None, target: Target, estimator: Any, model: Any, *, skip: bool) -> list[str]:
    retrained = estimator if estimator is not None else model
    can_train = isinstance(retrained, BaseEstimator)
    possible = [
        name
        for name, attack in _ATTACKS.items()
        if target.answers.kind in attack.kinds and (can_train or not attack.needs_references)
    ]
    if attacks is None:
        return possible
    asked = [attacks] if isinstance(attacks, str) else list(attacks)
    for name in asked:
        if name not in _ATTACKS:
            raise ShoalError(f"There is no attack {name!r}: choose among {', '.join(_ATTACKS)}.")
        if name not in possible and not skip:
            kind = target.answers.kind
            why = f"the model answers with {kind}" if kind not in _ATTACKS[name].kinds else "it cannot be trained anew"
            raise ShoalError(f"The attack {name!r} does not apply, because {why}: leave it out.")
    return [name for name in asked if name in possible]


def _require_even(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 2 or n % 2:
        raise ShoalError(f"n_references={n!r}: choose an even number from 2 on.")
    return int(n)


def _columns(rows: Any) -> list[Any]:
    return list(frames.open_frame(rows).columns) if frames.is_frame(rows) else list(range(rows.shape[1]))


def _mix(rows: Any, names: list[Any], sources: np.ndarray) -> Any:
    """Rows whose columns are taken from the rows that each column names."""
    if not frames.is_frame(rows):
        return np.column_stack([rows[chosen, name] for name, chosen in zip(names, sources, strict=True)])
    opened = frames.open_frame(rows)
    columns = {name: frames.take(opened[name], chosen) for name, chosen in zip(names, sources, strict=True)}
    return frames.side_by_side(columns).to_native()


SOFT = ("probabilities",)
CLASSES = ("probabilities", "labels")
ANY_BUT_LABELS = ("probabilities", "numbers")
_PROBABILITIES, _REFERENCES = "the model's answer and the true label", "the same, and how the model was trained"
_ATTACKS: dict[str, Attack] = {
    "loss": Attack(_loss, _PROBABILITIES, ANY_BUT_LABELS),
    "confidence": Attack(_confidence, "the model's answer", SOFT),
    "entropy": Attack(_entropy, "the model's answer", SOFT),
    "modified entropy": Attack(_modified_entropy, _PROBABILITIES, SOFT),
    "label": Attack(_right, "the label that the model gives, and the true one", CLASSES),
    "label stability": Attack(_stability, "labels that the model gives to rows of the adversary's choice", CLASSES),
    "forest": Attack(_forest, _PROBABILITIES, ANY_BUT_LABELS),
    "boosting": Attack(_boosting, _PROBABILITIES, ANY_BUT_LABELS),
    "network": Attack(_network, _PROBABILITIES, ANY_BUT_LABELS),
    "shadow models": Attack(_shadow, _REFERENCES, ANY_BUT_LABELS, needs_references=True),
    "LiRA offline": Attack(
        _with_references(lambda t, k: references.lira_offline(_own_signal(t), references.summarise(k))),
        _REFERENCES,
        ANY_BUT_LABELS,
        needs_references=True,
    ),
    "LiRA online": Attack(
        _with_references(lambda t, k: references.lira_online(_own_signal(t), references.summarise(k))),
        _REFERENCES,
        ANY_BUT_LABELS,
        needs_references=True,
    ),
    "RMIA offline": Attack(
        _with_references(lambda t, k: references.rmia_offline(_own_share(t), k)),
        _REFERENCES,
        SOFT,
        needs_references=True,
    ),
    "RMIA online": Attack(
        _with_references(lambda t, k: references.rmia_online(_own_share(t), k)),
        _REFERENCES,
        SOFT,
        needs_references=True,
    ),
    "references and boosting": Attack(_all_together, _REFERENCES, SOFT, needs_references=True),
}
