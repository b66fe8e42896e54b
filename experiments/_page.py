"""The page about all papers, made from the files that studies wrote: docs/papers.md."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from _study import Row, Size, folder_of, table_lines

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"


class Paper(NamedTuple):
    """What a paper is called here, its title, and what it does."""

    name: str
    title: str
    sentence: str


PAPERS = {
    "goldsteen2020-accuracy": Paper(
        "Accuracy-guided anonymization",
        "Anonymizing machine learning models (Goldsteen, Ezov, Shmelkin, Moffie and Farkash, 2020)",
        "A tree learns what a model predicts; its leaves of at least k rows become the groups of a release, and the "
        "model is trained again on that. In Shoal: `AccuracyGuided` and `shoal protect`; see "
        "[accuracy-guided](accuracy-guided.md) and [audit](audit.md).",
    ),
    "goldsteen2020-privacy": Paper(
        "Privacy-guided training",
        "Reducing risk of model inversion using privacy-guided training (Goldsteen, Ezov and Farkash, 2020)",
        "Trees that split on sensitive features less often, later or at a price. In Shoal: `PrivacyTreeClassifier`, "
        "`PrivacyForestClassifier`, `PrivacyBoostClassifier` and `shoal train`; see "
        "[privacy-guided](privacy-guided.md).",
    ),
    "xu2017": Paper(
        "Null-space cleaning",
        "Cleaning the null space (Xu, Cao, Shah, Maung and Schweitzer, 2017)",
        "A query is sent without what the predictor does not look at. In Shoal: `NullSpaceCleaner`, "
        "`TargetedNullSpaceCleaner` and `shoal clean`; see [null-space](null-space.md).",
    ),
    "sarcevic2018": Paper(
        "Classifiers on k-anonymous data",
        "Classifier behavior on k-anonymous datasets (Šarčević, 2018)",
        "Does a classifier suffer from k-anonymity, and do weights or another method help? In Shoal: `SaNGreeA` and "
        "`Flash`; see [classic methods](classic-methods.md).",
    ),
    "malle2017": Paper(
        "Interactive anonymization",
        "Interactive anonymization for privacy aware machine learning (Malle, Kieseberg and Holzinger, 2017)",
        "People say by sliders or by decisions which attributes matter, and the algorithm keeps these. In Shoal: "
        "`WeightSession` and `shoal studio`; see [interactive](interactive.md).",
    ),
}
INTRODUCTION = (
    "Five papers describe parts of what Shoal does. What they measured was measured again, on the same data where "
    "these can be had, and judged by what a model does on raw rows that it has not seen, as it is used. Numbers are "
    "means over seeds, with ± half the width of an interval of 95 %. A claim that fails under an honest protocol is "
    "said to fail. This page is made by `make reproduce`; every number that was measured is in a CSV file in "
    "[experiments/results](../experiments/results)."
)
ANSWERS = {"yes": "hold", "partly": "hold in part", "no": "do not hold", "cannot be told": "cannot be told"}
SHORT = 14
"""Tables with more lines are folded."""


def write_page(size: Size, files: Row) -> str:
    """The page, of all studies by file; those that were not measured at this size are named."""
    found = read_results(size, files)
    minutes = sum(facts["seconds"] for facts in found) / 60
    took = f"All cells take {minutes:,.0f} minutes of one core, and about half of that on two."
    lines = [
        "# The papers, reproduced",
        "",
        "<!-- Made by `make reproduce` from experiments/results: change that, not this. -->",
        "",
        f"{INTRODUCTION} {took}",
        "",
        "## In short",
        "",
        *in_short(found),
    ]
    for key, paper in PAPERS.items():
        own = [facts for facts in found if facts["paper"] == key]
        lines += ["", f"## {paper.name}", "", f"*{paper.title}.* {paper.sentence}", "", *claims_of(own)]
        for facts in own:
            lines += section(facts, size)
        measured = {facts["name"] for facts in own}
        every = [study for studies in files.values() for study in studies if study.paper == key]
        missing = [f"- {study.title}" for study in every if study.name not in measured]
        lines += ["Not measured at this size yet:", "", *missing, ""] if missing else []
    return "\n".join(lines).rstrip() + "\n"


def read_results(size: Size, files: Row) -> list[Row]:
    """What studies of this size have found, in their order; those that were not run yet are left out."""
    found = []
    for file, studies in files.items():
        for study in studies:
            path = folder_of(size) / f"{study.name}.json"
            if path.exists():
                found.append(json.loads(path.read_text(encoding="utf-8")) | {"file": file})
    return found


def in_short(found: Sequence[Row]) -> list[str]:
    """What each paper is about, and whether it holds; then how its other claims fare."""
    about, counts = [], []
    for key, paper in PAPERS.items():
        own = [facts for facts in found if facts["paper"] == key]
        name = f"[{paper.name}](#{anchor(paper.name)})"
        claims = [(facts, one) for facts in own for one in facts["claims"]]
        about += [[name, *claim_cells(facts, one)] for facts, one in claims if one["kind"] == "main"]
        answers = [one["holds"] for _, one in claims if one["kind"] != "ours"]
        counts.append([name, str(len(answers)), *(str(answers.count(answer)) for answer in ANSWERS)])
    lines = [*lessons(found), "The main points of each paper:", ""]
    lines += table_lines(["paper", "claim", "does it hold?", "by how much, on what", "where"], about)
    lines += ["", "And how all of its claims fare:", ""]
    return lines + table_lines(["paper", "claims", *ANSWERS.values()], counts)


def lessons(found: Sequence[Row]) -> list[str]:
    """The numbers to remember of each paper, in a paragraph."""
    lines = []
    for key, paper in PAPERS.items():
        told = " ".join(facts["lesson"] for facts in found if facts["paper"] == key and facts.get("lesson"))
        lines += [f"**{paper.name}.** {told}", ""] if told else []
    return lines


def claims_of(found: Sequence[Row]) -> list[str]:
    """All claims of a paper, and beside them questions of ours."""
    columns = ["claim", "does it hold?", "by how much, on what", "where"]
    claims = [(facts, one) for facts in found for one in facts["claims"]]
    lines = []
    for title, of_paper in (("What the paper claims:", True), ("What we asked beside it:", False)):
        rows = [claim_cells(facts, one) for facts, one in claims if (one["kind"] != "ours") == of_paper]
        lines += [title, "", *table_lines(columns, rows), ""] if rows else []
    return lines


def claim_cells(facts: Row, claim: Row) -> list[str]:
    evidence = claim["evidence"][:1].upper() + claim["evidence"][1:]
    answer = claim["holds"] if claim["holds"] == "cannot be told" else f"**{claim['holds']}**"
    where = facts["title"].partition(":")[0]
    return [claim["says"], answer, evidence, f"[{where}](#{anchor(facts['title'])})"]


def anchor(title: str) -> str:
    """What a heading is linked by."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def section(facts: Row, size: Size) -> list[str]:
    """A study: its drawing, what is to be said of it, its tables, and how it was done."""
    lines = [f"### {facts['title']}", ""]
    if facts["figure"]:
        place = os.path.relpath(folder_of(size) / facts["figure"], PAGE.parent) if size == "full" else facts["figure"]
        lines += [f"![{facts['title']}]({place})", ""]
    for note in facts["notes"]:
        lines += [note, ""]
    for table in facts["tables"]:
        shown = table_lines(table["columns"], table["rows"])
        if len(table["rows"]) > SHORT:
            lines += folded(f"{table['title'].rstrip('.')} ({len(table['rows'])} lines)", shown)
        else:
            lines += [table["title"], "", *shown, ""]
    again = f"`python experiments/{facts['file']}.py` measures it again."
    made = f"{facts['cells']:,} cells, {facts['seconds'] / 60:,.1f} minutes one after the other. {again}"
    return lines + folded("How it was done", [facts["protocol"], "", made])


def folded(title: str, lines: Iterable[str]) -> list[str]:
    """What is shown when a reader asks for it."""
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]
