"""Release a table k-anonymous, check the file as its receiver would, and write the evidence.

python examples/release_a_table.py --rows 30000 --k 10 --out release
"""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

from shoal import KAnonymity, LDiversity, anonymize, check
from shoal.datasets import make_census
from shoal.reports.report import report


def main() -> None:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    frame, schema = make_census(options.rows)  # or your own: pl.read_csv(...), Schema.from_toml(...)
    raw = check(frame, schema)
    print(f"raw: {raw.risk.unique:.1%} of {raw.rows:,} people are unique by their quasi-identifiers")

    asked = [KAnonymity(options.k), LDiversity(3, attribute="condition")]
    release = anonymize(frame, schema, k=options.k, constraints=asked[1:], suppression=0.02)
    print(release)

    released = options.out / "released.csv"
    release.to_csv(released)
    report(release, options.out / "report.html", raw_risk=raw.risk, released_file=released)
    schema.to_toml(options.out / "schema.toml")

    checked = check(pl.read_csv(released), schema, asked)
    print(f"{released}: every level asked for is {'reached' if checked.holds else 'NOT reached'}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Release a synthetic census.")
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("release"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
