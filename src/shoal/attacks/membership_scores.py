"""The attacks on membership: each scores rows by the answers of the model, higher for likelier members."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.attacks import _learners as learners
from shoal.attacks import references
from shoal.attacks._branched_network import BranchedNetwork
from shoal.attacks.answers import Answers, Asking
from shoal.attacks.membership import MEMBERSHIP, MembershipGame
from shoal.attacks.references import References, share_of, signal_of
from shoal.attacks.registry import attack_on
from shoal.data import frames

STABILITY_COPIES = 20
STABILITY_SHARE = 0.2
"""Share of the features of a row that are replaced by those of other rows to test the stability of its label."""
MOST_TO_LEARN = 40_000
"""Maximum number of rows that an attack is trained on; of more, as many are drawn."""
ANSWER, ANSWER_AND_LABEL = "the model's answer", "the model's answer and the true label"
AND_RECIPE = "the model's answer, the true label and the training recipe"


@attack_on(MEMBERSHIP, "loss", view=ANSWER_AND_LABEL, needs=("scores",))
def loss(game: MembershipGame) -> np.ndarray:
    """Score by the model's confidence in the true label (Yeom et al. 2018)."""
    return _own_signal(game)


@attack_on(MEMBERSHIP, "confidence", view=ANSWER, needs=("probabilities",))
def confidence(game: MembershipGame) -> np.ndarray:
    """Score by the highest probability."""
    return np.asarray(game.target.answers.columns.max(axis=1))


@attack_on(MEMBERSHIP, "entropy", view=ANSWER, needs=("probabilities",))
def entropy(game: MembershipGame) -> np.ndarray:
    """Score by the negative entropy of the probabilities."""
    share = np.clip(game.target.answers.columns, 1e-12, 1)
    return np.asarray((share * np.log(share)).sum(axis=1))


@attack_on(MEMBERSHIP, "modified entropy", view=ANSWER_AND_LABEL, needs=("probabilities",))
def modified_entropy(game: MembershipGame) -> np.ndarray:
    """Score by an entropy that separates confidence in the true label from that in others (Song and Mittal 2021)."""
    share = np.clip(game.target.answers.columns, 1e-12, 1 - 1e-12)
    wrong = share * np.log1p(-share)
    own = np.clip(game.target.answers.of_truth, 1e-12, 1 - 1e-12)
    return np.asarray((1 - own) * np.log(own) + wrong.sum(axis=1) - own * np.log1p(-own))


@attack_on(MEMBERSHIP, "label", view="the label that the model gives, and the true one", needs=("classes",))
def label(game: MembershipGame) -> np.ndarray:
    """Score correctly labelled rows higher (the gap attack of Yeom et al. 2018)."""
    answers = game.target.answers
    return np.asarray(answers.columns.argmax(axis=1) == answers.truth, float)


@attack_on(
    MEMBERSHIP, "label stability", view="labels that the model gives to rows of the adversary's choice",
    needs=("classes",),
)  # fmt: skip
def label_stability(game: MembershipGame) -> np.ndarray:
    """Score by the share of perturbed copies that keep the true label (Choquette-Choo et al. 2021)."""
    target = game.target
    random = np.random.default_rng(game.seed)
    n, names = len(target.labels), _columns(target.rows)
    asking = Asking("labels", target.asking.classes)
    hits = label.run(game) * STABILITY_COPIES
    for _ in range(STABILITY_COPIES):
        replaced = random.random((len(names), n)) < STABILITY_SHARE
        others = random.integers(0, n, (len(names), n))
        sources = np.where(replaced, others, np.arange(n))
        answers = asking.ask(target.model, _mix(target.rows, names, sources), target.labels)
        hits += answers.columns[np.arange(n), answers.truth]
    return hits


@attack_on(MEMBERSHIP, "forest", view=ANSWER_AND_LABEL, needs=("scores",))
def forest(game: MembershipGame) -> np.ndarray:
    """Train a random forest on the answers."""
    return _learn(learners.forest, _published_view(game.target.answers), game)


@attack_on(MEMBERSHIP, "boosting", view=ANSWER_AND_LABEL, needs=("scores",))
def boosting(game: MembershipGame) -> np.ndarray:
    """Train boosted trees on the answers."""
    return _learn(learners.boosting, _published_view(game.target.answers), game)


@attack_on(MEMBERSHIP, "network", view=ANSWER_AND_LABEL, needs=("scores",))
def network(game: MembershipGame) -> np.ndarray:
    """Train a network with branches for the answer and the label (Goldsteen et al. 2020)."""
    view, labels = _network_view(game.target.answers, game.target.clip)
    rows = _thin(game.known, game.seed)
    trained = BranchedNetwork(game.seed).fit(view[rows], labels[rows], game.target.is_member[rows].astype(float))
    return trained.score(view, labels)


@attack_on(MEMBERSHIP, "shadow models", view=AND_RECIPE, needs=("scores", "references"))
def shadow_models(game: MembershipGame) -> np.ndarray:
    """Train on reference models, whose members are known, and apply it to the target (Shokri et al. 2017)."""
    known = _references(game)
    views = np.vstack([_published_view(one) for one in known.shadows])
    inside = known.inside[: len(known.shadows)].reshape(-1)
    rows = _thin(np.arange(len(views)), game.seed)
    own = _published_view(game.target.answers)
    return learners.learn(learners.boosting, views[rows], inside[rows], own, game.seed)


@attack_on(MEMBERSHIP, "LiRA offline", view=AND_RECIPE, needs=("scores", "references"))
def lira_offline(game: MembershipGame) -> np.ndarray:
    """Compare the confidence with that of models without the row (Carlini et al. 2022)."""
    return references.lira_offline(_own_signal(game), references.summarise(_references(game)))


@attack_on(MEMBERSHIP, "LiRA online", view=AND_RECIPE, needs=("scores", "references"))
def lira_online(game: MembershipGame) -> np.ndarray:
    """Compare the confidence with that of models with and without the row (Carlini et al. 2022)."""
    return references.lira_online(_own_signal(game), references.summarise(_references(game)))


@attack_on(MEMBERSHIP, "RMIA offline", view=AND_RECIPE, needs=("probabilities", "references"))
def rmia_offline(game: MembershipGame) -> np.ndarray:
    """Compare the probability with the mean of models without the row (Zarifzadeh et al. 2024)."""
    return references.rmia_offline(_own_share(game), _references(game))


@attack_on(MEMBERSHIP, "RMIA online", view=AND_RECIPE, needs=("probabilities", "references"))
def rmia_online(game: MembershipGame) -> np.ndarray:
    """Compare the probability with the mean of models with and without the row (Zarifzadeh et al. 2024)."""
    return references.rmia_online(_own_share(game), _references(game))


@attack_on(MEMBERSHIP, "references and boosting", view=AND_RECIPE, needs=("probabilities", "references"))
def references_and_boosting(game: MembershipGame) -> np.ndarray:
    """Train boosted trees on the answers and on the scores by reference models."""
    known = _references(game)
    signal, summary = _own_signal(game), references.summarise(known)
    scores = (
        references.lira_online(signal, summary),
        references.lira_offline(signal, summary),
        references.rmia_online(_own_share(game), known),
        references.rmia_offline(_own_share(game), known),
    )
    view = np.column_stack([_published_view(game.target.answers), signal, *summary, *scores])
    return _learn(learners.slow_boosting, view, game)


def _references(game: MembershipGame) -> References:
    assert game.references is not None
    return game.references


def _own_signal(game: MembershipGame) -> np.ndarray:
    return signal_of(game.target.answers, game.target.clip)


def _own_share(game: MembershipGame) -> np.ndarray:
    return share_of(game.target.answers, game.target.clip)


def _learn(learner: learners.Learner, view: np.ndarray, game: MembershipGame) -> np.ndarray:
    rows = _thin(game.known, game.seed)
    return learners.learn(learner, view[rows], game.target.is_member[rows], view, game.seed)


def _thin(rows: np.ndarray, seed: int) -> np.ndarray:
    if len(rows) <= MOST_TO_LEARN:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, MOST_TO_LEARN, replace=False))


def _published_view(answers: Answers) -> np.ndarray:
    """Return the answers of the model and the true labels as columns."""
    if answers.kind == "numbers":
        truth = answers.truth.reshape(answers.columns.shape)
        return np.column_stack([answers.columns, truth, np.abs(answers.columns - truth)])
    # One of two classes determines the other.
    shown = slice(1, None) if answers.columns.shape[1] == 2 else slice(None)
    return np.column_stack([answers.columns[:, shown], _one_hot(answers)[:, shown], answers.of_truth])


def _network_view(answers: Answers, clip: float) -> tuple[np.ndarray, np.ndarray]:
    if answers.kind == "numbers":
        truth = answers.truth.reshape(answers.columns.shape)
        return np.column_stack([answers.columns, signal_of(answers, clip)]), truth / (truth.std() + 1e-12)
    share = np.clip(answers.columns, clip, 1 - clip)
    return np.log(share) - np.log1p(-share), _one_hot(answers)


def _one_hot(answers: Answers) -> np.ndarray:
    return np.asarray(answers.truth[:, None] == np.arange(answers.columns.shape[1]), float)


def _columns(rows: Any) -> list[Any]:
    return list(frames.open_frame(rows).columns) if frames.is_frame(rows) else list(range(rows.shape[1]))


def _mix(rows: Any, names: list[Any], sources: np.ndarray) -> Any:
    """Return rows whose columns are taken from the source rows of each column."""
    if not frames.is_frame(rows):
        return np.column_stack([rows[chosen, name] for name, chosen in zip(names, sources, strict=True)])
    opened = frames.open_frame(rows)
    columns = {name: frames.take(opened[name], chosen) for name, chosen in zip(names, sources, strict=True)}
    return frames.side_by_side(columns).to_native()
