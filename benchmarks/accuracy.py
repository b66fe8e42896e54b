"""What a model that is trained on a release gets right: the default beside the method as published and Mondrian.

UCI Adult, 12 quasi-identifiers; 40 % of the rows are released and trained on, 20 % are the test, as in the paper.
``python accuracy.py rf 10,100 0,1`` measures a forest at two k on two splits; without arguments it is three models, six
k and five splits, which takes two hours, so `make bench` leaves it out. What was measured is kept in ``accuracy.jsonl``
beside this file, and not measured again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from _measure import show

from shoal import evaluate
from shoal.datasets import fetch_adult

PUBLISHED = {"guide": "hard", "nominal": "one-vs-rest", "recoding": "majority"}
METHODS = [("default", "accuracy-guided", {}), ("published", "accuracy-guided", PUBLISHED), "mondrian"]


def main(models: str = "rf,boosting,mlp", ks: str = "10,50,100,200,500,1000", seeds: str = "0,1,2,3,4") -> None:
    adult = fetch_adult("all", quasi=12, hierarchies=None)
    found = evaluate(
        adult.frame,
        adult.schema,
        models.split(","),
        methods=METHODS,
        k=[int(k) for k in ks.split(",")],
        seeds=[int(seed) for seed in seeds.split(",")],
        test_size=0.2,
        train_size=0.4,
        store=Path(__file__).with_suffix(".jsonl"),
    )
    for model in models.split(","):
        rows = [row for row in found.rows if row["model"] == model]
        show_model(model, {(row["label"], row["k"], row["seed"]): 100 * row["accuracy"] for row in rows})


def show_model(model: str, accuracy: dict[tuple[str, int, int], float]) -> None:
    ks = sorted({k for _, k, _ in accuracy})
    seeds = sorted({seed for _, _, seed in accuracy})
    rows, gains = [], {"published": [], "mondrian": []}
    for k in ks:
        scores = {m: np.array([accuracy[m, k, seed] for seed in seeds]) for m in ("default", *gains)}
        row = [k, *(f"{values.mean():.2f}" for values in scores.values())]
        for other, found in gains.items():
            found.append(scores["default"] - scores[other])
            row.append(with_error(found[-1]))
        rows.append(row)
    rows.append(["all", "", "", "", *(with_error(np.mean(found, axis=0)) for found in gains.values())])
    show(
        f"{model}: accuracy in percent, mean of {len(seeds)} splits, and the default's gain with its standard error",
        ["k", "default", "published", "mondrian", "over published", "over mondrian"],
        rows,
    )


def with_error(gains: np.ndarray) -> str:
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
    return f"{gains.mean():+.2f} ± {error:.2f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
