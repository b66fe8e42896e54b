"""Run all experiments, one after the other, and write docs/papers.md from what they found.

``python experiments/reproduce.py`` goes on where it was stopped; ``--quick`` takes minutes and ``--toy`` shows only
that everything runs, both with a page of their own beside their results. ``--only NAME`` runs those of one file.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from _study import Row, Size, Study, folder_of, markdown, run

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "papers.md"
PAPERS = {
    "goldsteen2020-accuracy": (
        "Anonymizing machine learning models (Goldsteen, Ezov, Shmelkin, Moffie and Farkash, 2020)",
        "A tree learns what a model predicts; its leaves of at least k rows become the groups of a release, and the "
        "model is trained again on that. In Shoal: `AccuracyGuided` and `shoal protect`; see "
        "[accuracy-guided](accuracy-guided.md) and [audit](audit.md).",
    ),
    "goldsteen2020-privacy": (
        "Reducing risk of model inversion using privacy-guided training (Goldsteen, Ezov and Farkash, 2020)",
        "Trees that split on sensitive features less often, later or at a price. In Shoal: `PrivacyTreeClassifier`, "
        "`PrivacyForestClassifier`, `PrivacyBoostClassifier` and `shoal train`; see "
        "[privacy-guided](privacy-guided.md).",
    ),
    "xu2017": (
        "Cleaning the null space (Xu, Cao, Shah, Maung and Schweitzer, 2017)",
        "A query is sent without what the predictor does not look at. In Shoal: `NullSpaceCleaner`, "
        "`TargetedNullSpaceCleaner` and `shoal clean`; see [null-space](null-space.md).",
    ),
    "sarcevic2018": (
        "Classifier behavior on k-anonymous datasets (Šarčević, 2018)",
        "Does a classifier suffer from k-anonymity, and do weights or another method help? In Shoal: `SaNGreeA` and "
        "`Flash`; see [classic methods](classic-methods.md).",
    ),
    "malle2017": (
        "Interactive anonymization for privacy aware machine learning (Malle, Kieseberg and Holzinger, 2017)",
        "People say by sliders or by decisions which attributes matter, and the algorithm keeps these. In Shoal: "
        "`WeightSession` and `shoal studio`; see [interactive](interactive.md).",
    ),
}
INTRODUCTION = (
    "Five papers describe parts of what Shoal does. What they measured was measured again, on the same data where "
    "these can be had, and judged by what a model does on raw rows that it has not seen, as it is used. Numbers are "
    "means over seeds, with ± half the width of an interval of 95 %."
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = options.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", default="full")
    size.add_argument("--toy", dest="size", action="store_const", const="toy")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--only", default=None, help="name of a file of experiments, without its ending")
    options.add_argument("--page", action="store_true", help="only write the page anew")
    asked = options.parse_args()
    if not asked.page:
        for study in studies(asked.only):
            run(study, asked.size, folder_of(asked.size), asked.jobs)
    place = PAGE if asked.size == "full" else folder_of(asked.size) / "papers.md"
    place.write_text(write_page(asked.size), encoding="utf-8")
    print(f"What was found is in {os.path.relpath(place)}.")


def studies(only: str | None = None) -> Iterator[Study]:
    """All studies, file by file."""
    sys.path.insert(0, str(HERE))
    names = [path.stem for path in sorted(HERE.glob("*.py")) if not path.stem.startswith("_")]
    names.remove(Path(__file__).stem)
    if only is not None and only not in names:
        raise SystemExit(f"There is no file of experiments {only!r}: choose {', '.join(names)}.")
    for name in names if only is None else [only]:
        yield from getattr(importlib.import_module(name), "STUDIES", ())


def write_page(size: Size) -> str:
    """The page about all papers, from the files that studies wrote."""
    found = read_results(size)
    lines = [
        "# The papers, reproduced",
        "",
        "<!-- Made by `make reproduce` from experiments/results: change that, not this. -->",
        "",
        INTRODUCTION,
        "",
        "| paper | claim | does it hold? |",
        "|---|---|---|",
    ]
    for key, (title, _) in PAPERS.items():
        for facts in (one for one in found if one["paper"] == key):
            lines += [f"| {title.partition(' (')[0]} | {one['says']} | {one['holds']} |" for one in facts["claims"]]
    for key, (title, sentence) in PAPERS.items():
        lines += ["", f"## {title}", "", sentence, ""]
        for facts in (one for one in found if one["paper"] == key):
            lines += _section(facts, size)
        measured = {one["name"] for one in found}
        missing = [f"- {one.title}" for one in studies() if one.paper == key and one.name not in measured]
        lines += ["Not measured at this size yet:", "", *missing, ""] if missing else []
    return "\n".join(lines).rstrip() + "\n"


def read_results(size: Size) -> list[Row]:
    """What studies of this size have found, in their order; those that were not run yet are left out."""
    files = (folder_of(size) / f"{study.name}.json" for study in studies())
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


def _section(facts: Row, size: Size) -> list[str]:
    lines = [*markdown(facts)]
    if facts["figure"]:
        place = os.path.relpath(folder_of(size) / facts["figure"], PAGE.parent) if size == "full" else facts["figure"]
        lines += [f"![{facts['title']}]({place})", ""]
    made = f"{facts['cells']:,} cells, {facts['seconds'] / 60:,.1f} minutes one after the other."
    lines += ["<details><summary>How it was done</summary>", "", facts["protocol"], "", made, "", "</details>", ""]
    return lines


if __name__ == "__main__":
    main()
