"""Release a few rows, so that what this needs is compiled and on disk: ``python -m shoal._rehearsal trees``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.privacy import PrivacyModel

N_ROWS = 60


def rehearse_trees(constraints: list[PrivacyModel]) -> None:
    """Grow the tree of an accuracy-guided release."""
    from shoal.anonymizers.accuracy_guided import AccuracyGuided

    frame, schema = _make_table(constraints)
    AccuracyGuided(schema, 10, guide="hard", recoding="sample", constraints=constraints).fit(frame)


def rehearse_cuts(constraints: list[PrivacyModel]) -> None:
    """Cut as Mondrian does, recode in every way that is tried by default, and check what comes out."""
    from shoal.anonymizers.accuracy_guided import RECODINGS_TRIED
    from shoal.release import anonymize

    frame, schema = _make_table(constraints)
    for recoding in RECODINGS_TRIED:
        options: dict[str, Any] = {"method": "accuracy-guided", "guide": "mondrian", "recoding": recoding}
        anonymize(frame, schema, 10, constraints=constraints, **options)


def _make_table(constraints: list[PrivacyModel]) -> tuple[Any, Any]:
    import polars as pl

    from shoal.schema import Attribute, Schema

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


if __name__ == "__main__":
    from shoal.privacy import LDiversity

    asked: list[PrivacyModel] = [LDiversity(2)] if "guarded" in sys.argv else []
    rehearse_trees(asked) if "trees" in sys.argv else rehearse_cuts(asked)
