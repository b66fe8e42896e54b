"""Release a few rows, so that numba compiles and caches the kernels: ``python -m shoal.jobs.warm_up trees``."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.privacy.models import PrivacyModel

N_ROWS = 60


def rehearse_trees(constraints: list[PrivacyModel]) -> None:
    """Grow the tree of an accuracy-guided release; without constraints only the tree, which needs few imports."""
    if constraints:
        from shoal.anonymizers.accuracy_guided import AccuracyGuided

        frame, schema = _make_table(constraints)
        AccuracyGuided(schema, 10, guide="hard", recoding="sample", constraints=constraints).fit(frame)
        return
    import numpy as np

    from shoal._kernels.tree_data import DEPTH_FIRST, Attributes, GrowthBounds
    from shoal.partition import binned_trees

    rows = np.arange(N_ROWS)
    bins = np.zeros((N_ROWS, 8), np.uint8)
    bins[:, 0] = rows % 30
    one, none = np.ones(1, np.int64), np.full(1, -1)
    binned_trees.grow_nodes(
        Attributes(n_bins=30 * one, first=0 * one, form=0 * one, missing=none),
        bins,
        binned_trees.learn_classes((rows % 2).astype(np.int32), 2, "gini"),
        binned_trees.fixed_weight(None),
        growth=DEPTH_FIRST,
        bounds=GrowthBounds(10, 0, 2, 0.0, N_ROWS, N_ROWS),
        limits=binned_trees.no_limits(1),
        draw=binned_trees.look_at_all(1),
    )


def rehearse_cuts(constraints: list[PrivacyModel]) -> None:
    """Cut as Mondrian does, recode in every way that is tried by default, and check the releases."""
    from shoal.anonymizers.accuracy_guided import RECODINGS_TRIED
    from shoal.jobs.release import anonymize

    frame, schema = _make_table(constraints)
    for recoding in RECODINGS_TRIED:
        options: dict[str, Any] = {"method": "accuracy-guided", "guide": "mondrian", "recoding": recoding}
        anonymize(frame, schema, 10, constraints=constraints, **options)


def rehearse_questions(constraints: list[PrivacyModel]) -> None:
    """Ask a question about two groups."""
    from shoal.jobs.weights import WeightSession

    WeightSession(*_make_table(constraints), k=5).ask()


def rehearse_clusters(constraints: list[PrivacyModel]) -> None:
    """Release clusters."""
    from shoal.jobs.release import anonymize

    anonymize(*_make_table(constraints), 5, method="sangreea", constraints=constraints)


def _make_table(constraints: list[PrivacyModel]) -> tuple[Any, Any]:
    import polars as pl

    from shoal.data.schema import Attribute, Schema

    rows = range(N_ROWS)
    frame = pl.DataFrame(
        {
            "number": [i % 30 for i in rows],
            "name": ["abcde"[i % 5] for i in rows],
            "secret": ["xyz"[i % 3] for i in rows],
            "target": ["no" if i % 7 < 3 else "yes" for i in rows],
        }
    )
    quasi = [Attribute("number", "quasi", "numeric"), Attribute("name", "quasi", "nominal")]
    secret = Attribute("secret", "sensitive" if constraints else "other", "nominal")
    return frame, Schema([*quasi, secret, Attribute("target", "target", "nominal")])


def main(part: str, *, guarded: bool) -> None:
    """Run the kernels of one part."""
    gc.disable()  # compiling creates many objects that are kept
    asked: list[PrivacyModel] = []
    if guarded:
        from shoal.privacy.models import LDiversity

        asked = [LDiversity(2)]
    parts = {
        "trees": rehearse_trees,
        "cuts": rehearse_cuts,
        "questions": rehearse_questions,
        "clusters": rehearse_clusters,
    }
    parts[part](asked)


if __name__ == "__main__":
    main(sys.argv[1], guarded="guarded" in sys.argv)
