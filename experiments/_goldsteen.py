"""What the figures of accuracy-guided anonymization (Goldsteen et al. 2020) share: its split, models and methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from _drawing import axis_of_k, level, line
from _study import Answer, Claim, Row, mean_of, over_seeds, paired, values_of, where
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from shoal import Release, Schema, anonymize, make_model
from shoal.errors import ShoalError
from shoal.intervals import Interval
from shoal.models import around, features, read_target

CLASSIC = ("mondrian", "hilbert", "rplus")
"""What the paper compares with; Mondrian as it describes it: the widest attribute is cut at its median."""
OWN_MONDRIAN = "mondrian by gain"
"""Shoal's default, which cuts where most is gained: a stronger rival."""
SAID = {
    "published": "guided, as published",
    "own rows": "guided, tree of released rows",
    "blend": "guided, Shoal's blend",
    "auto": "guided, Shoal's search",
    "labels": "by labels",
    "labels, own rows": "by labels, tree of released rows",
    "mondrian": "Mondrian",
    OWN_MONDRIAN: "Mondrian, Shoal's cuts",
    "hilbert": "Hilbert",
    "rplus": "R+ tree",
}
AS_PUBLISHED = {"guide": "hard", "recoding": "majority"}
"""The tree learns predicted classes, and a group is released as the row nearest to its median among its majority."""
CASE = ("model", "features", "quasi", "k", "seed")
"""What two methods have in common where they are compared; columns that a study does not have are the same in all."""

ENOUGH = 0.75
"""Share of what a model is above the most frequent class that must be left, for a loss to be called small."""

NEEDED = 0.001
"""Accuracy that a feature must be worth to be selected."""
RELEVANT = 0.005
"""A gain in accuracy below half a point is none."""


class Parts(NamedTuple):
    """Rows of a table: 40 % that the model is trained on and that are released, 40 % for the tree, 20 % to test on."""

    train: Any
    other: Any
    test: Any

    def of(self, schema: Schema) -> Parts:
        """The same rows with the columns of a schema alone."""
        return Parts(*(rows[schema.names] for rows in self))


def split(frame: Any, schema: Schema, seed: int, rows: int | None = None) -> Parts:
    """Split a table as the paper does, with the classes in proportion; of so many rows, or of all."""
    y = read_target(frame, schema)
    places = np.arange(len(y))
    if rows is not None:
        places, _ = train_test_split(places, train_size=rows, stratify=y, random_state=seed)
    rest, test = train_test_split(places, test_size=0.2, stratify=y[places], random_state=seed)
    train, other = train_test_split(rest, test_size=0.5, stratify=y[rest], random_state=seed)
    return Parts(*(frame[np.sort(part)] for part in (train, other, test)))


def model_of(name: str, schema: Schema, seed: int) -> Any:
    """A model of the paper, untrained.

    "NN" is its network: 100 hidden units, batches of 200, 200 epochs at a constant rate of 0.001, never stopped before.
    "NN, stopped" stops when a tenth of its rows, held out, is predicted no better. "XGB" is XGBoost as it comes.
    """
    if name == "NN":
        # It looks at its loss after each epoch; one that may fall short for 200 epochs never stops it.
        network = MLPClassifier((100,), batch_size=200, max_iter=200, n_iter_no_change=200, random_state=seed)
        return around(with_half_the_digits(network), schema)
    return make_model({"NN, stopped": "mlp", "XGB": "xgb", "DT": "tree", "RF": "forest"}[name], schema, seed)


def with_half_the_digits(network: Any) -> Pipeline:
    """A network of single precision, which takes little more than half the time."""
    return make_pipeline(FunctionTransformer(np.asarray, kw_args={"dtype": np.float32}), network)


def select_features(schema: Schema, parts: Parts, seed: int) -> Schema:
    """The target, and the attributes that a boosting of the training rows needs.

    Needed is what costs it a tenth of a point of accuracy when it is shuffled among the rows for the tree.
    """
    model = make_model("boosting", schema, seed).fit(parts.train, read_target(parts.train, schema))
    y, order = read_target(parts.other, schema), np.random.default_rng(seed).permutation(len(parts.other))

    def accuracy(rows: Any) -> float:
        return float(np.mean(model.predict(rows) == y))

    whole = accuracy(parts.other)
    lost = {
        name: whole - accuracy(parts.other.with_columns(parts.other[name].gather(order))) for name in features(schema)
    }
    return Schema([schema[name] for name in lost if lost[name] >= NEEDED] + list(schema.target))


class Trial:
    """A model that was trained on raw rows, and what becomes of it on releases of these rows."""

    def __init__(self, schema: Schema, parts: Parts, model: Any, seed: int) -> None:
        self.schema, self.parts, self.model, self.seed = schema, parts, model, seed
        self.y, self.truth = (read_target(rows, schema) for rows in (parts.train, parts.test))
        self.original = clone(model).fit(parts.train, self.y)

    def compare(self, methods: Sequence[str], ks: Sequence[int]) -> list[Row]:
        """The accuracy on raw rows that no model has seen: of the original, of the most frequent class, of releases."""
        classes, sizes = np.unique(self.y, return_counts=True)
        on_own_rows = float(np.mean(self.original.predict(self.parts.train) == self.y))
        raw = {"method": "raw", **self._scores(self.original), "accuracy on its training rows": on_own_rows}
        majority = {"method": "majority", "accuracy": float(np.mean(self.truth == classes[sizes.argmax()]))}
        return [raw, majority, *(self.retrain(method, k) for method, k in product(methods, ks))]

    def retrain(self, method: str, k: int) -> Row:
        """Train the model anew on a release; that k cannot be reached is a result, too."""
        try:
            release = self._release(method, k)
        except ShoalError as error:
            return {"method": method, "k": k, "error": str(error)}
        model = clone(self.model).fit(release.frame, self.y)
        found = {"groups": release.checked.groups, "smallest group": release.k}
        return {"method": method, "k": k, **self._scores(model), **found}

    def _scores(self, model: Any) -> Row:
        """Accuracy, and with two classes how well they are ranked, which tells also where accuracy cannot."""
        scores = {"accuracy": float(np.mean(model.predict(self.parts.test) == self.truth))}
        if len(model.classes_) == 2:
            chances = model.predict_proba(self.parts.test)[:, 1]
            scores["auc"] = float(roc_auc_score(self.truth == model.classes_[1], chances))
        return scores

    def _release(self, method: str, k: int) -> Release:
        train, other, _ = self.parts
        ways: dict[str, Callable[[], dict[str, Any]]] = {
            "published": lambda: {"y": self.original.predict(other), "learn_from": other, **AS_PUBLISHED},
            "own rows": lambda: {"y": self.original.predict(train), **AS_PUBLISHED},
            "labels": lambda: {"y": read_target(other, self.schema), "learn_from": other, **AS_PUBLISHED},
            "labels, own rows": lambda: {"y": self.y, **AS_PUBLISHED},
            "blend": lambda: {"y": self._unseen, "guide": 0.7},
            "auto": lambda: {"model": self.model},
        }
        classic = {OWN_MONDRIAN: {"method": "mondrian"}, "mondrian": {"method": "mondrian", "prefer": "width"}}
        how = classic.get(method, {"method": method}) | {"recoding": "representative"}
        if method in ways:
            how = {"method": "accuracy-guided", **ways[method]()}
        return anonymize(train, self.schema, k, random_state=self.seed, n_jobs=1, **how)

    @cached_property
    def _unseen(self) -> np.ndarray:
        """Probabilities that copies of the model give rows that they were not trained on, shared by all k."""
        return np.asarray(cross_val_predict(self.model, self.parts.train, self.y, cv=5, method="predict_proba"))


# What rows say


def gain(rows: Iterable[Row], one: str, others: Sequence[str], case: Sequence[str] = CASE) -> Interval | None:
    """By how much a method is above the mean of others in the same cases: the mean of cases, its interval over seeds.

    Cases of a seed share its rows, so that only seeds count as independent.
    """
    rows = where(rows)
    known = {(row["method"], *(row.get(name) for name in case)): row["accuracy"] for row in rows}
    by_seed: dict[Any, list[float]] = {}
    for row in where(rows, method=one):
        key = tuple(row.get(name) for name in case)
        beside = [known[other, *key] for other in others if (other, *key) in known]
        if len(beside) == len(others):
            by_seed.setdefault(row["seed"], []).append(row["accuracy"] - float(np.mean(beside)))
    return over_seeds(float(np.mean(found)) for found in by_seed.values())


def difference(one: Iterable[tuple[Any, float]], other: Iterable[tuple[Any, float]]) -> Interval | None:
    """The mean difference of values by seed, with its interval; each value is a mean over cases of that seed."""
    means: list[dict[Any, float]] = []
    for pairs in (one, other):
        by_seed: dict[Any, list[float]] = {}
        for seed, value in pairs:
            by_seed.setdefault(seed, []).append(value)
        means.append({seed: float(np.mean(values)) for seed, values in by_seed.items()})
    return over_seeds(means[0][seed] - means[1][seed] for seed in means[0] if seed in means[1])


class Wins(NamedTuple):
    """How often a method is the best."""

    cases: int
    best: int
    """Where its mean is above those of all others."""
    surely: int
    """Where also the intervals of all differences are above zero."""


def count_wins(rows: Iterable[Row], one: str, others: Sequence[str], case: Sequence[str]) -> Wins:
    """Count the cases in which a method is above all others, paired by seed."""
    cases: dict[tuple[Any, ...], list[Row]] = {}
    for row in where(rows):
        cases.setdefault(tuple(row.get(name) for name in case), []).append(row)
    every = [
        [paired(rows, "accuracy", {"method": one}, {"method": other}) for other in others] for rows in cases.values()
    ]
    compared = [pairs for pairs in every if None not in pairs]
    best = sum(all(pair.value > 0 for pair in pairs) for pairs in compared)
    return Wins(len(compared), best, sum(all(pair.low > 0 for pair in pairs) for pairs in compared))


def claim_wins(rows: list[Row], case: Sequence[str], words: str, data: str) -> Claim:
    """The paper's main claim.

    Yes if it is best in every case; partly if over all cases it is above at least one of the three, and below none.
    """
    wins = count_wins(rows, "published", CLASSIC, case)
    gains = {other: gain(rows, "published", [other]) for other in CLASSIC}
    known = [one for one in gains.values() if one is not None and one.low < one.high]
    holds: Answer = "cannot be told"
    if len(known) == len(CLASSIC):
        above, below = [one.low > 0 for one in known], [one.high < 0 for one in known]
        holds = "partly" if any(above) and not any(below) else "no"
        holds = "yes" if all(above) and wins.best == wins.cases else holds
    evidence = f"it has the best mean of the four in {wins.best} of {wins.cases} cases ({words}), in {wins.surely} of "
    evidence += "them with all three intervals above zero; over all cases it gains "
    evidence += ", ".join(f"{points(one)} over {SAID[other]}" for other, one in gains.items())
    evidence += f". Over Mondrian with Shoal's cuts it gains {points(gain(rows, 'published', [OWN_MONDRIAN]))}"
    blend = count_wins(rows, "blend", CLASSIC, case)
    if blend.cases:
        evidence += f". Shoal's blend is the best of four in {blend.best} of {blend.cases} cases, and gains "
        evidence += f"{points(gain(rows, 'blend', [OWN_MONDRIAN]))} over Mondrian with Shoal's cuts"
    says = f"In all cases guided anonymization outperforms Mondrian, Hilbert and the R+ tree ({data})."
    return Claim(says, holds, evidence + ".")


class Left(NamedTuple):
    """What a release leaves of a model."""

    change: Interval
    """Of its accuracy."""
    share: Interval | None
    """Of what the original is above the most frequent class; None where it is not."""


def what_is_left(rows: list[Row], method: str, k: int | None) -> Left | None:
    """What a release leaves of a model, whose rows these are."""
    accuracy = [{row["seed"]: row["accuracy"] for row in where(rows, method=m)} for m in ("raw", "majority")]
    raw, least = accuracy
    after = {row["seed"]: row["accuracy"] for row in where(rows, method=method, k=k)}
    known = [seed for seed in after if seed in raw and seed in least]
    change = over_seeds(after[seed] - raw[seed] for seed in known)
    if change is None:
        return None
    share = None
    if all(raw[seed] > least[seed] for seed in known):
        share = over_seeds((after[seed] - least[seed]) / (raw[seed] - least[seed]) for seed in known)
    return Left(change, share)


def claim_little_lost(says: str, named: dict[str, list[Row]], k: int | None) -> Claim:
    """Whether little is lost, of each model whose rows are given."""
    found = {name: what_is_left(rows, "published", k) for name, rows in named.items()}
    left = {name: one for name, one in found.items() if one is not None and one.share is not None}
    enough = [one.share.value >= ENOUGH for one in left.values()]
    holds: Answer = "cannot be told"
    if left and all(one.share.low < one.share.high for one in left.values()):
        holds = "yes" if all(enough) else "partly" if any(enough) else "no"
    parts = [f"{n} {100 * one.change.value:+.1f} points, {100 * one.share.value:.0f} % left" for n, one in left.items()]
    evidence = (
        f"as published at k = {k}: {'; '.join(parts) or 'not measured'}. The share is of what the original model "
    )
    evidence += "is above the most frequent class; we call a loss small that leaves three quarters of it."
    return Claim(says, holds, evidence)


def judge(found: Interval | None) -> Answer:
    """Whether a gain is above zero by its interval; if it is below half a point, it is none. A single seed has none."""
    if found is None or found.low == found.high:
        return "cannot be told"
    return "yes" if found.low > 0 else "no" if found.high < RELEVANT else "cannot be told"


def ks_of(rows: Iterable[Row]) -> list[int]:
    """The k that rows were released with."""
    return sorted(values_of(where(rows), "k"))


def once_a_seed(rows: Iterable[Row]) -> list[Row]:
    """One row for each seed, where all of a seed are the same, as those of the original model are."""
    return list({row["seed"]: row for row in rows}.values())


def in_points(found: Interval | None) -> Interval | None:
    """A difference of accuracies in percentage points, for a table; hundredths of a point would only look exact."""
    return None if found is None else Interval(*(round(100 * value, 2) for value in found))


def points(found: Interval | None) -> str:
    """A difference of accuracies in percentage points."""
    if found is None:
        return "not measured"
    return f"{100 * found.value:+.1f} points ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def percent(found: Interval | None) -> str:
    """An accuracy in percent."""
    return "not measured" if found is None else f"{100 * found.value:.1f} %"


def draw_methods(panel: Any, rows: list[Row], methods: Sequence[str], named: Mapping[str, str] = SAID) -> None:
    """Accuracy by k of each method, beside that on raw rows and of the most frequent class."""
    for number, method in enumerate(methods):
        ks = ks_of(where(rows, method=method))
        line(panel, number, named[method], ks, [mean_of(rows, "accuracy", method=method, k=k) for k in ks])
    for method, label in (("raw", "raw rows"), ("majority", "most frequent class")):
        level(panel, mean_of(rows, "accuracy", method=method).value, label, dotted=method == "majority")
    # Bands of few seeds can be far wider than all that is to be seen.
    heights = [height for drawn in panel.lines for height in drawn.get_ydata()]
    margin = 0.15 * (max(heights) - min(heights)) + 0.001
    panel.set_ylim(min(heights) - margin, max(heights) + margin)
    axis_of_k(panel, ks_of(rows))
