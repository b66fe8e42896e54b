"""The report: self-contained, careful in its words, and the same numbers as the release."""

import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import (
    AlphaKAnonymity,
    Attribute,
    BetaLikeness,
    DeltaDisclosure,
    DeltaPresence,
    KMap,
    LDiversity,
    Schema,
    TCloseness,
)
from shoal.datasets import make_census
from shoal.privacy.checking import Measured
from shoal.privacy.risk import SizeCounts
from shoal.reports.report import _size_bins, facts, listed, render, report, show_asked, show_share, to_json

SCHEMA = Schema(
    [
        Attribute("name", role="identifier", kind="nominal"),
        Attribute("age"),
        Attribute("zip", kind="nominal"),
        Attribute("disease", role="sensitive", kind="nominal"),
        Attribute("note", role="other", kind="nominal"),
    ]
)


def people(n=60):
    random = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "name": [f"secret-name-{i}" for i in range(n)],
            "age": random.integers(20, 90, n),
            "zip": random.choice(["80", "81", "90"], n),
            "disease": random.choice(["flu", "cold", "secret-disease"], n),
            "note": [f"secret-note-{i}" for i in range(n)],
        }
    )


@pytest.fixture(scope="module")
def release():
    return shoal.anonymize(people(), SCHEMA, k=5, constraints=[LDiversity(2)])


@pytest.fixture
def page(release, tmp_path):
    raw = shoal.check(people(), SCHEMA).risk
    report(release, tmp_path / "report.html", raw_risk=raw, title="People & others")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


class Tags(HTMLParser):
    """Collects tags and sees that they are closed in order."""

    EMPTY = {"meta", "br", "rect", "path"}

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags_of(page):
    parser = Tags()
    parser.feed(page)
    assert parser.open == []
    return parser.seen


def test_it_is_one_file_that_loads_nothing(page):
    tags = tags_of(page)
    assert {tag for tag, _ in tags} & {"link", "script", "img", "iframe", "object", "base"} == set()
    assert not any({"src", "href"} & set(attributes) for _, attributes in tags)
    assert not re.search(r"https?:|url\(|@import", page)
    assert "prefers-color-scheme: dark" in page


def test_it_never_says_anonymous_without_saying_how(page):
    words = re.sub(r"<[^>]+>", " ", page.split("</style>")[1])
    assert "5-anonymous with respect to age, zip" in words
    assert not re.search(r"(?<!\d-)\banonymous\b", words)


def test_it_shows_what_was_asked_and_reached(page, release):
    assert "5-anonymity" in page
    assert "2-diversity (distinct)" in page
    assert "✓ holds" in page
    assert "✗" not in page
    for text in (
        "before and after",
        "Information loss by attribute",
        "Group sizes",
        "Limitations",
    ):
        assert text in page
    assert f"numpy {np.__version__}" in page
    assert "People &amp; others" in page


def test_it_shows_no_raw_row(page):
    assert "secret-" not in page


def test_without_the_raw_risk_and_a_sensitive_attribute(tmp_path):
    frame = people().select("age", "zip")
    release = shoal.anonymize(frame, Schema([Attribute("age"), Attribute("zip", kind="nominal")]), k=5)
    report(release, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    tags_of(page)
    assert "before and after" not in page
    assert "No attribute was declared sensitive" in page


def test_the_released_file_is_known_by_its_fingerprint(release, tmp_path):
    release.to_csv(tmp_path / "out.csv")
    found = facts(release, released_file=tmp_path / "out.csv")["file"]
    assert found["sha256"] == hashlib.sha256((tmp_path / "out.csv").read_bytes()).hexdigest()
    assert found["name"] == "out.csv"


def test_text_from_the_data_is_no_markup(tmp_path):
    frame = pl.DataFrame({"<script>age": [1, 2, 3, 4], "x": ["<b>", "<i>", "<b>", "<b>"]})
    schema = Schema([Attribute("<script>age"), Attribute("x", kind="nominal")])
    report(shoal.anonymize(frame, schema, k=2), tmp_path / "report.html", title="<script>")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;age" in page
    assert {"b", "i"} - {tag for tag, _ in tags_of(page)} >= {"i"}


def test_json_has_the_numbers_of_the_release(release):
    found = json.loads(to_json(release), parse_constant=pytest.fail)
    assert found["rows"] == 60
    assert found["groups"] == release.checked.groups
    assert found["loss"]["ncp"] == release.loss.ncp
    assert found["risk"]["after"]["prosecutor"] == release.risk.prosecutor
    assert found["parameters"]["constraints"] == ["2-diversity (distinct) of every sensitive attribute"]
    assert [model["level"] for model in found["models"] if model["key"] == "k"] == [release.k]
    assert {model["key"] for model in found["models"]} == {"k", "l", "alpha", "t", "delta", "beta"}


def test_json_of_what_is_not_a_number():
    release = shoal.anonymize(people(), SCHEMA, k=5)
    loss = replace(release.loss, values=release.loss.values | {"gil": float("nan"), "ngil": float("inf")})
    found = json.loads(to_json(replace(release, loss=loss)), parse_constant=pytest.fail)
    assert found["loss"]["gil"] is None
    assert found["loss"]["ngil"] == "inf"


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_every_dataframe_library_gives_the_same(library, release):
    frame = people()
    frame = {"polars": lambda: frame, "pandas": frame.to_pandas, "pyarrow": frame.to_arrow}[library]()
    other = shoal.anonymize(frame, SCHEMA, k=5, constraints=[LDiversity(2)])
    one, two = facts(release), facts(other)
    for key in ("promise", "models", "sizes", "sample", "loss", "risk"):
        assert one[key] == two[key]


def test_the_sample_shows_released_groups_from_smallest_to_largest(release):
    sample = facts(release)["sample"]
    sizes = [group["rows"] for group in sample]
    assert sizes == sorted(sizes)
    assert sizes[0] == release.k
    assert sizes[-1] == release.checked.sizes.rows[-1]
    for group in sample:
        equal = [pl.col(name) == value for name, value in group["values"].items()]
        assert release.frame.filter(*equal).height == group["rows"]


def test_groups_released_alike_are_one_in_the_sample():
    frame = pl.DataFrame({"age": [1] * 8, "zip": ["80"] * 8})
    release = shoal.anonymize(frame, Schema([Attribute("age"), Attribute("zip", kind="nominal")]), k=2, mode="relaxed")
    assert [group["rows"] for group in facts(release)["sample"]] == [8]


@pytest.mark.parametrize("sizes", [[5], [5, 5, 9, 10, 700, 80_000], list(range(1, 2000, 7))])
def test_size_bins_hold_every_group_once(sizes):
    bins = _size_bins(SizeCounts(*np.unique(sizes, return_counts=True)))
    assert len(bins) <= 8
    assert sum(bin["groups"] for bin in bins) == len(sizes)
    assert sum(bin["rows"] for bin in bins) == sum(sizes)
    assert bins[0]["from"] == min(sizes)
    assert bins[-1]["to"] == max(sizes)
    assert sum(bin["share"] for bin in bins) == pytest.approx(1)


def test_suppressed_rows_and_real_rows_are_told(tmp_path):
    census = make_census(2000)
    release = shoal.anonymize(*census, k=5, recoding="representative", suppression=0.1)
    page = render(facts(release), "Report")
    tags_of(page)
    assert release.suppressed > 0
    assert f"<b>{release.suppressed}</b><span>rows suppressed" in page
    assert "A group is released as one of its rows" in page


def test_every_model_is_put_into_words(release):
    frame = people().with_columns(pl.Series("member", ["yes", "no"] * 30))
    schema = Schema([*SCHEMA, Attribute("member", role="other", kind="nominal")])
    models = [
        LDiversity(2),
        LDiversity(2, kind="entropy"),
        LDiversity(2, kind="recursive", c=9),
        TCloseness(1.0),
        DeltaDisclosure(99),
        BetaLikeness(99),
        AlphaKAnonymity(1.0, 2),
        KMap(2, "member"),
        DeltaPresence(0, 1, "member"),
    ]
    measured = shoal.check(frame, schema, models).measured
    words = [one.meaning for one in measured]
    assert {one.key for one in measured} >= {"k", "l", "t", "delta", "beta", "alpha", "kmap", "presence", "identifier"}
    assert all(text.endswith(".") and text[0].isupper() for text in words)
    assert len(set(words)) > len(models)
    unbounded = {model.meaning(float("inf")) for model in models}
    assert "A group has too few different values." in unbounded
    assert all(text.endswith(".") for text in unbounded)


def test_many_quasi_identifiers_stay_readable(tmp_path):
    frame = pl.DataFrame({f"x{j}": list(range(20)) for j in range(40)})
    release = shoal.anonymize(frame, Schema([Attribute(name) for name in frame.columns]), k=5)
    page = render(facts(release), "Report")
    tags_of(page)
    assert "x11 and 28 more" in page
    assert "28 more quasi-identifiers are not shown" in page


def test_a_report_that_fails_leaves_the_old_one(release, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr("shoal.reports.report.render", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report(release, path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_shares_levels_and_lists_in_words():
    assert [show_share(share) for share in (0, 0.0004, 0.2, 0.123, 1)] == ["0 %", "< 0.1 %", "20 %", "12.3 %", "100 %"]
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    asked = [Measured("", "k", None, 5.0, "higher", 5.0), Measured("", "t", "x", 0.1, "lower", 0.2)]
    asked += [
        Measured("", "delta", "x", 0.1, "lower", 2.0),
        Measured("", "presence", "x", (0, 1), "within", (0.1, 0.5)),
    ]
    assert [show_asked(one._asdict()) for one in asked] == ["≥ 5", "≤ 0.2", "< 2", "0.1 to 0.5"]
    assert show_asked(Measured("", "k", None, 5.0, "higher")._asdict()) == ""
