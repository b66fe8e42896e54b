"""Release a table by Spark: the same anonymizers, on the workers of a cluster or on this machine.

python examples/release_on_spark.py --master 'local[2]'
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from shoal import KAnonymity, LDiversity, Mondrian
from shoal.datasets import make_census
from shoal.engines.spark import SparkAnonymizer, start_session
from shoal.engines.spark.checking import check


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--master", default="local[2]")
    options.add_argument("--rows", type=int, default=20_000)
    asked = options.parse_args()
    session = start_session(asked.master)
    try:
        with tempfile.TemporaryDirectory() as folder:
            release(session, Path(folder), asked.rows)
    finally:
        session.stop()


def release(session: Any, folder: Path, rows: int) -> None:
    people, schema = make_census(rows)
    people.write_parquet(folder / "people.parquet")
    table = session.read.parquet(str(folder / "people.parquet"))  # or your own: hdfs://…, s3a://…, a table of Hive

    anonymizer = SparkAnonymizer(Mondrian(schema, k=10, constraints=[LDiversity(2)]), rows_per_fragment=rows // 4)
    released = anonymizer.fit_transform(table)  # nothing but counts and a sample has come to the driver
    released.write.parquet(str(folder / "released.parquet"))

    written = session.read.parquet(str(folder / "released.parquet"))
    checked = check(written, schema, [KAnonymity(10), LDiversity(2)])
    print(f"{len(anonymizer.fragments_)} fragments, {checked.groups:,} groups of {checked.level('k'):.0f} rows or more")
    print(f"{anonymizer.loss().ncp:.1%} of the information is lost; all that was asked for holds: {checked.holds}")


if __name__ == "__main__":
    main()
