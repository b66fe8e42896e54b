"""Train a random forest on raw rows and on their release, and compare the two on raw rows that neither has seen.

The release is of representative rows, so columns keep their types and the model's code does not change.

python examples/train_on_a_release.py --rows 30000
"""

from __future__ import annotations

import argparse

import polars as pl
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from shoal import anonymize
from shoal.datasets import make_census

LEFT_OUT = ["person-id", "condition", "income"]


def main() -> None:
    rows = parse().rows
    frame, schema = make_census(rows)
    train, test = frame[: rows * 2 // 3], frame[rows * 2 // 3 :]
    usual = max(train["income"].value_counts()["count"]) / len(train)
    print(f"{len(train):,} people to train on, {len(test):,} to test on; {usual:.1%} have the usual income")
    print(f"{'trained on':<20}{'accuracy':>10}{'loss (NCP)':>12}{'groups':>8}")
    print(f"{'raw rows':<20}{accuracy(train, test):>10.1%}{0:>12.1%}{'':>8}")
    for k in (10, 50, 100):
        release = anonymize(train, schema, k=k, recoding="representative")
        score = accuracy(release.frame, test)
        print(f"{f'release, k = {k}':<20}{score:>10.1%}{release.loss.ncp:>12.1%}{release.checked.groups:>8,}")


def accuracy(train: pl.DataFrame, test: pl.DataFrame) -> float:
    """Share of the test rows whose income a forest predicts rightly."""
    model = forest().fit(features(train), train["income"].cast(pl.String))
    return model.score(features(test), test["income"].cast(pl.String))


def features(frame: pl.DataFrame) -> pl.DataFrame:
    """What the model sees: a release has no identifier, and nobody's condition is used."""
    return frame.drop(LEFT_OUT, strict=False).with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))


def forest() -> Pipeline:
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(
        make_column_transformer((codes, texts), remainder="passthrough"),
        RandomForestClassifier(100, min_samples_leaf=3, random_state=0, n_jobs=-1),
    )


def texts(frame: pl.DataFrame) -> list[str]:
    return [name for name, kind in frame.schema.items() if kind == pl.String]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare forests trained on raw rows and on releases.")
    parser.add_argument("--rows", type=int, default=30_000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
