"""Mondrian on Adult (30,162 rows, 8 quasi-identifiers) beside anonypy, in the same run.

Both release nominal attributes as sets of values, so that their losses can be compared. anonypy is timed once for
each k: one run takes half a minute.
"""

from __future__ import annotations

import warnings

import pandas as pd
from _measure import seconds, show

from shoal import Attribute, Mondrian, Schema
from shoal.data.table import encode
from shoal.datasets import fetch_adult
from shoal.partition.losses import granularity, ncp

QUASI = ["age", "workclass", "education-num", "marital-status", "occupation", "race", "sex", "native-country"]


def main() -> None:
    adult = fetch_adult("train", drop_missing=True, hierarchies=None)
    frame = adult.frame.select([*QUASI, "income"])
    schema = Schema(
        [Attribute(name, kind=adult.schema[name].kind) for name in QUASI]
        + [Attribute("income", "sensitive", "nominal")]
    )
    table = encode(frame, schema)
    Mondrian(schema, 5, recoding="set").fit_transform(frame)
    rows = []
    for k in (5, 10, 50, 100):
        ours = seconds(lambda k=k: Mondrian(schema, k, recoding="set").fit_transform(frame), 5, cpu=True)
        labels = Mondrian(schema, k, recoding="set").fit(frame).labels_
        theirs, their_labels = anonypy(frame.to_pandas(), k)
        rows.append(
            [
                k,
                ours,
                theirs,
                f"{theirs / ours:,.0f}x",
                f"{granularity(table, labels, sets=True):.4f}",
                f"{granularity(table, their_labels, sets=True):.4f}",
                f"{ncp(table, labels, sets=True):.4f}",
                f"{ncp(table, their_labels, sets=True):.4f}",
            ]
        )
    show(
        "Adult, CPU seconds from frame to released frame; loss as (n-1)/(m-1) and as n/m of a set of n of m values",
        ["k", "shoal s", "anonypy s", "faster", "shoal (n-1)/(m-1)", "anonypy", "shoal n/m", "anonypy n/m"],
        rows,
    )


def anonypy(frame: pd.DataFrame, k: int):
    """Partition and recode by anonypy: CPU seconds, and the group of each row."""
    from anonypy.anonypy import anonymize
    from anonypy.mondrian import Mondrian as Peer

    for name in QUASI:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype("category")
    labels = pd.Series(0, index=frame.index)

    def run() -> None:
        partitions = Peer(frame, QUASI, "income").partition(k)
        anonymize(frame, partitions, QUASI, "income")
        for group, rows in enumerate(partitions):
            labels[rows] = group

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken = seconds(run, 1, cpu=True)
    return taken, labels.to_numpy()


if __name__ == "__main__":
    main()
