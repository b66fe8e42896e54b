"""Train a model on raw rows and on releases, guided by the model or not, and compare on rows that none has seen.

python examples/protect_a_model.py --rows 20000 --model forest
"""

from __future__ import annotations

import argparse

from shoal import protect
from shoal.datasets import make_census
from shoal.evaluation.comparison import Interval


def main() -> None:
    options = parse()
    frame, schema = make_census(options.rows)  # or your own: pl.read_csv(...), Schema.from_toml(...)
    held_out = frame[: options.rows // 5]
    train = frame[options.rows // 5 :]
    protections = {
        f"{method}, k = {k}": protect(train, schema, options.model, k, test=held_out, method=method)
        for k in (10, 100)
        for method in ("mondrian", "accuracy-guided")
    }
    raw = next(iter(protections.values())).comparison.before
    print(f"{len(train):,} people to train on, {len(held_out):,} to test on")
    print(f"{'trained on':<28}{'accuracy':>10}{'change in points':>26}{'groups':>8}")
    print(f"{'raw rows':<28}{raw.value:>10.1%}")
    for label, protection in protections.items():
        found, groups = protection.comparison, protection.release.checked.groups
        print(f"{label:<28}{found.after.value:>10.1%}{points(found.change):>26}{groups:>8,}")


def points(change: Interval) -> str:
    """A change of accuracy with its 95 % interval."""
    return f"{change.value * 100:+.1f} ({change.low * 100:+.1f} to {change.high * 100:+.1f})"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare models trained on raw rows and on releases.")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--model", default="forest", help="tree, forest, boosting, mlp, logistic ...")
    return parser.parse_args()


if __name__ == "__main__":
    main()
