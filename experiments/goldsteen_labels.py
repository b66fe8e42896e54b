"""Groups by what a model predicts, or by the true labels (Goldsteen et al. 2020, Appendix B, Figure 8).

``python experiments/goldsteen_labels.py`` takes ten minutes on two cores; ``--quick`` is a look, ``--toy`` shows only
that it runs. Rows, tables, claims and a drawing go to ``results/goldsteen_labels.*``.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

from _drawing import in_percent, lay_out, panels
from _goldsteen import (
    SAID,
    Trial,
    difference,
    draw_methods,
    gain,
    in_points,
    judge,
    ks_of,
    model_of,
    percent,
    points,
    select_features,
    split,
)
from _study import Answer, Claim, Row, Size, Study, Table, Told, main, mean_of, paired, values_of, where

from shoal.datasets import fetch_adult
from shoal.intervals import Interval

PROTOCOL = """
**Stated in the paper, and done so.** The method is applied to what the original model predicts, and to the true labels.
Split, models and recoding are those of its Section 4: 40 % of the rows train the model and are released, 40 % train the
tree, 20 % are the test; the network is trained for 200 epochs.

**Not stated, and our choice.** Figure 8 names neither its data nor its features: we take Adult with 12
quasi-identifiers, and features selected for all models but the network, as for Figures 2 to 5. Five splits. The network
of 200 epochs is trained at k = 10, 100 and 1,000, the others at 50 and 500, too.

**Beyond the paper.** A tree of the released rows themselves is beside that of the other rows, because a model that
knows its training rows by heart predicts their labels; so is a network that is stopped early.
"""
MODELS = ("NN", "NN, stopped", "XGB", "DT", "RF")
PAIRS = (("published", "labels"), ("own rows", "labels, own rows"))
"""What was guided by predictions, and by labels."""
BY = {method: SAID[method].replace("guided", "by predictions") for pair in PAIRS for method in pair}
KS = (10, 50, 100, 500, 1000)
FEW_KS = (10, 100, 1000)


def cells(size: Size) -> list[Row]:
    models, seeds, rows = {
        "full": (MODELS, 5, None),
        "quick": (MODELS[1:4], 2, None),
        "toy": (MODELS[1:4], 1, 800),
    }[size]
    found = []
    for model, seed in product(models, range(seeds)):
        ks = FEW_KS if model == "NN" or size == "quick" else KS if size == "full" else (5, 50, 500)
        found.append({"model": model, "ks": list(ks), "seed": seed, "rows": rows})
    return found


def measure(model: str, ks: list[int], seed: int, rows: int | None) -> list[Row]:
    frame, schema = fetch_adult("all", quasi=12, hierarchies=None)
    parts = split(frame, schema, seed, rows)
    if not model.startswith("NN"):
        schema = select_features(schema, parts, seed)
        parts = parts.of(schema)
    return Trial(schema, parts, model_of(model, schema, seed), seed).compare([m for pair in PAIRS for m in pair], ks)


# What the rows say


def tell(rows: list[Row]) -> Told:
    claims = [claim_some_cases(rows), claim_complex_models(rows)]
    return Told([accuracy_table(rows), gain_table(rows)], claims, notes(rows))


def accuracy_table(rows: list[Row]) -> Table:
    methods = [method for pair in PAIRS for method in pair]
    lines = []
    for model in values_of(rows, "model"):
        found = where(rows, model=model)
        raw = mean_of(found, "accuracy", method="raw")
        for k in ks_of(found):
            means = [mean_of(found, "accuracy", method=method, k=k) for method in methods]
            lines.append([model, raw, k, *means])
    columns = ["model", "raw rows", "k", "predictions", "labels", "predictions, released rows", "labels, released rows"]
    return Table("Accuracy on raw rows, by what the tree learned and on which rows it learned it", columns, lines)


def gain_table(rows: list[Row]) -> Table:
    lines = []
    for model in values_of(rows, "model"):
        found = where(rows, model=model)
        gains = [gain(found, one, [other]) for one, other in PAIRS]
        agree = [mean_of(found, name, method="raw") for name in ("accuracy", "accuracy on its training rows")]
        lines.append([model, *map(in_points, gains), *agree])
    columns = ["model", "tree of other rows", "tree of the released rows"]
    columns += ["predictions that are the label: other rows", "released rows"]
    return Table("What predictions gain over labels, in points of accuracy, mean of all k", columns, lines)


def claim_some_cases(rows: list[Row]) -> Claim:
    says = "Guided by labels instead of predictions, the accuracy is lower in some cases."
    better = worse = cases = 0
    for model, k in product(values_of(rows, "model"), ks_of(rows)):
        found = where(rows, model=model, k=k)
        one = paired(found, "accuracy", {"method": "published"}, {"method": "labels"})
        if one is not None:
            cases, better, worse = cases + 1, better + (one.low > 0), worse + (one.high < 0)
    by_model = {model: gain_of(rows, model) for model in values_of(rows, "model")}
    judged = [judge(one) for one in by_model.values()]
    holds: Answer = "cannot be told" if "cannot be told" in judged or not judged else "no"
    if "yes" in judged:
        # What holds for one model and is the other way round for another holds in part.
        holds = "partly" if any(one is not None and one.high < 0 for one in by_model.values()) else "yes"
    evidence = f"predictions are better than labels in {better} of {cases} cases (model, k), worse in {worse}, by "
    evidence += "intervals that exclude zero; means of all k: "
    evidence += "; ".join(f"{model} {points(one)}" for model, one in by_model.items())
    return Claim(says, holds, evidence + ".")


def claim_complex_models(rows: list[Row]) -> Claim:
    says = "Especially more complex models, such as networks, lose by labels."
    gains = {model: gains_by_seed(rows, model) for model in ("NN", "NN, stopped", "DT")}
    network = "NN" if gains["NN"] else "NN, stopped"
    more = difference(gains[network], gains["DT"])
    evidence = f"a network ({network}) gains more by predictions than a decision tree does, by {points(more)}."
    return Claim(says, judge(more), evidence)


def gain_of(rows: list[Row], model: str) -> Interval | None:
    return gain(where(rows, model=model), "published", ["labels"])


def gains_by_seed(rows: list[Row], model: str) -> list[tuple[int, float]]:
    """The gain of predictions over labels for each seed and k."""
    found = where(rows, model=model)
    known = {(row["k"], row["seed"]): row["accuracy"] for row in where(found, method="labels")}
    guided = [row for row in where(found, method="published") if (row["k"], row["seed"]) in known]
    return [(row["seed"], row["accuracy"] - known[row["k"], row["seed"]]) for row in guided]


def notes(rows: list[Row]) -> list[str]:
    forest = where(rows, model="RF", method="raw")
    own = gain(where(rows, model="RF"), "own rows", ["labels, own rows"])
    if not forest or own is None:
        return []
    return [
        "How far the two differ depends on the rows that the tree learns from. A forest predicts the label of "
        f"{percent(mean_of(forest, 'accuracy on its training rows'))} of its training rows, so that a tree of these "
        f"rows learns the labels either way (predictions gain {points(own)}); of other rows it predicts "
        f"{percent(mean_of(forest, 'accuracy'))}."
    ]


# Drawing


def draw(rows: list[Row], path: Path) -> None:
    models = sorted(values_of(rows, "model"), key=MODELS.index)
    with panels(path, len(models)) as every:
        for panel, model in zip(every, models, strict=True):
            found = where(rows, model=model)
            draw_methods(panel, found, [m for pair in PAIRS for m in pair], BY)
            lay_out(panel, model, y="accuracy on raw rows", finish=in_percent)


STUDIES = (
    Study(
        "goldsteen_labels",
        "goldsteen2020-accuracy",
        "Figure 8: guided by predictions or by labels",
        PROTOCOL,
        cells,
        measure,
        tell,
        draw,
    ),
)

if __name__ == "__main__":
    main(*STUDIES)
