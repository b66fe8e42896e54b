"""Attacks on one feature of a privacy-guided tree, as in Figures 3 to 5 of the paper, and how they are judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from _guided import ATTACKED, Rows, describe
from _study import Row, mean_of, over_seeds, where
from scipy.stats import spearmanr
from sklearn.neural_network import MLPClassifier

from shoal.attacks.attribute import infer_attribute
from shoal.intervals import Interval

ATTACKS = {
    "ideal": "ideal (no model)",
    "black-box": "black-box",
    "white-box": "white-box",
    "fredrikson": "with true labels",
}
PUBLISHED, STOPPED = "as published", "stopped early"
LEARNED = "ideal", "black-box"
BY_MODEL = "black-box", "white-box", "fredrikson"
OF_PAPER = "black-box", "white-box"
PROTOCOL = """
*Attacks as the paper states them* (its appendix A): `ideal` learns the feature from the other features; `black-box`
from these and the class that the model answers; `white-box` tries both values, takes the one that leads to the known
answer if only one does, and else weighs both by the training rows in their leaves and by the prior (its formula 4).
Networks are scikit-learn's `MLPClassifier` with its defaults.

*Not stated, and our choice:* half of the training rows and half of the others train the adversary, and the other halves
are judged, training rows (members) apart from others, which the model never saw: what is guessed as well of these was
not memorised. The prior, the share of the more frequent value, is what guessing without any attack gets. Beside the
paper's networks, others stop early and see scaled inputs; beside its attacks, one that knows the true label and how
often the model errs (Fredrikson et al. 2014). Models are trees of full depth.
"""


def attack(model: Any, drawn: Rows, data: str, seed: int, *, stopped: bool = True) -> list[Row]:
    """A row for each attack and learner, with what all of them share."""
    feature = ATTACKED[data]
    told = describe(model, drawn, [feature])
    share = float((drawn.X_train[feature] == 1).mean())
    told["prior"] = max(share, 1 - share)
    learners: dict[str, Any] = {PUBLISHED: MLPClassifier(random_state=seed)}
    if stopped:
        learners[STOPPED] = "network"
    rows = []
    for name, learner in learners.items():
        asked = list(ATTACKS) if name == PUBLISHED else list(LEARNED)
        found = infer_attribute(
            model, drawn.X_train, drawn.X_test, feature,
            y_members=drawn.y_train, y_controls=drawn.y_test, attacks=asked, learner=learner, random_state=seed,
        )  # fmt: skip
        rows += [told | {"attack": one.attack, "learner": name} | _numbers(one) for one in found]
    return rows


def _numbers(one: Any) -> dict[str, float | None]:
    return {
        "members": one.accuracy.value,
        "others": None if one.control is None else one.control.value,
        "precision": None if one.precision is None else one.precision.value,
        "recall": None if one.recall is None else one.recall.value,
    }


def made(rows: list[Row], name: str, learner: str = PUBLISHED) -> list[Row]:
    """The rows of one attack."""
    return where(rows, attack=name, learner=learner)


def rank_correlation(rows: Sequence[Row], one: str, other: str) -> Interval | None:
    """Spearman's of two values over the models of a seed, as a mean over seeds; None where nothing varies."""
    found = []
    for seed in dict.fromkeys(row["seed"] for row in rows):
        own = where(rows, seed=seed)
        x, y = ([row[name] for row in own] for name in (one, other))
        if len(own) > 2 and np.ptp(x) > 0:
            # An attack that gets the same of all models has nothing to do with what varies.
            found.append(float(spearmanr(x, y).statistic) if np.ptp(y) > 0 else 0.0)
    return over_seeds(found)


def above_prior(rows: list[Row], who: str = "members") -> Interval | None:
    """How much more is guessed than by the more frequent value."""
    return over_seeds(row[who] - row["prior"] for row in rows)


def memorised(rows: list[Row]) -> Interval | None:
    """How much more is guessed of members than of others."""
    return over_seeds(row["members"] - row["others"] for row in rows if row["others"] is not None)


def table_columns() -> list[str]:
    """Of tables with a line for each model."""
    shown = [f"{ATTACKS[name]}: {who}" for name in ATTACKS for who in ("members", "others")]
    return ["importance", "accuracy", *shown, "prior"]


def table_line(rows: list[Row]) -> list[Any]:
    """What was measured of one model, over seeds."""
    told: list[Any] = [mean_of(made(rows, "ideal"), what) for what in ("importance", "accuracy")]
    told += [mean_of(made(rows, name), who) for name in ATTACKS for who in ("members", "others")]
    return [*told, mean_of(made(rows, "ideal"), "prior")]
