"""The audit: verdicts follow the attacks, the page is whole and offline, and nothing personal stands in it."""

import json
import re

import numpy as np
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier

from shoal import LDiversity, ProtectedModel, anonymize, audit, make_model
from shoal.attacks.membership import MEMBERSHIP
from shoal.attacks.registry import Finding
from shoal.attacks.results import AttackResult, corrected
from shoal.cli import run
from shoal.datasets import make_census
from shoal.errors import DataError, ShoalError
from shoal.evaluation.provenance import Provenance, fingerprint
from shoal.intervals import Interval
from shoal.jobs.audit import Audit
from shoal.models import features, read_target, save_model

CENSUS = make_census(1200)
FRAME, SCHEMA = CENSUS
MEMBERS, CONTROLS = FRAME[:600], FRAME[600:]
Y = read_target(MEMBERS, SCHEMA)
FEW = ["loss", "label", "LiRA online"]


@pytest.fixture(scope="module")
def forest():
    return make_model("forest", SCHEMA).fit(MEMBERS, Y)


@pytest.fixture(scope="module")
def found(forest):
    released = anonymize(MEMBERS, SCHEMA, k=10, constraints=[LDiversity(3)]).frame
    return audit(forest, MEMBERS, CONTROLS, SCHEMA, attacks=FEW, n_references=4, released=released)


def test_every_risk_has_a_verdict_that_follows_its_attacks(found):
    risks = {one.risk: one for one in found.verdicts}
    assert set(risks) == set(found.results)
    assert {"membership", "value of condition", "re-identification", "singling out", "linkability"} <= set(risks)
    assert risks["membership"].found
    strongest = max(found.results["membership"], key=lambda one: one.auc.value)
    assert strongest.attack in risks["membership"].sentence
    assert not risks["re-identification"].found
    matches = {one.attack: one for one in found.results["re-identification"]}
    assert matches["prosecutor"].accuracy.value <= 0.1
    for one in found.verdicts:
        assert one.sentence.endswith(".")
        assert one.limits


def test_a_model_that_knows_nothing_gives_nothing_away():
    model = DummyClassifier(strategy="prior").fit(np.zeros((600, 1)), Y)
    found = audit(model, MEMBERS, CONTROLS, SCHEMA, attacks=["loss", "boosting", "network"])
    assert not found.verdicts[0].found
    assert "None of 3 attacks was clearly better than guessing" in found.verdicts[0].sentence


def test_the_most_exposed_rows_are_numbers_of_members(found):
    rows = found.most_exposed(7)
    assert len(rows) == 7
    assert all(0 <= row < 600 for row in rows)
    strongest = max(found.results["membership"], key=lambda one: one.auc.value)
    assert rows[0] == int(np.nanargmax(strongest.risks))


def test_the_page_is_whole_and_offline(found, tmp_path):
    path = tmp_path / "audit.html"
    found.to_html(path, title="Audit of <a> model")
    page = path.read_text(encoding="utf-8")
    assert "Audit of &lt;a&gt; model" in page
    for one in found.verdicts:
        assert one.sentence.replace("'", "&#39;") in page
    for word in ("Opinion 28/2024", "Untested", "SHA-256", "LiRA online", "polyline"):
        assert word in page
    assert not re.search(r"(src|href)\s*=\s*[\"']?(http|//|file)", page)
    assert "<script" not in page
    assert str(tmp_path) not in page
    # Values of a person, such as a whole row, never stand in it.
    for name in ("postal-code", "person-id"):
        assert not any(f">{value}<" in page for value in MEMBERS[name].cast(str).unique()[:50])
    assert re.findall(r"(?i)(?<!\d-)\bis anonymous\b", page) in ([], ["is anonymous"])


def test_every_number_is_in_the_json(found, tmp_path):
    found.to_json(tmp_path / "audit.json")
    numbers = json.loads((tmp_path / "audit.json").read_text())
    assert numbers["results"]["membership"][0]["attack"] == "loss"
    assert numbers["results"]["membership"][0]["auc"]["value"] == found.results["membership"][0].auc.value
    assert numbers["about"]["fingerprints"]["members"]["rows"] == 600
    assert numbers["about"]["seed"] == 0
    assert "member_rows" not in numbers["about"]


def test_fingerprints_tell_tables_apart_and_not_libraries():
    texts = FRAME.with_columns(pl.col(pl.Enum).cast(pl.String))
    one, two = fingerprint(texts), fingerprint(texts.to_pandas())
    assert one["sha256"] == two["sha256"] == fingerprint(texts.to_arrow())["sha256"]
    assert one["sha256"] != fingerprint(texts[1:])["sha256"]
    assert one["sha256"] != fingerprint(texts.with_columns(age=pl.col("age") + 1))["sha256"]


def test_time_limits_are_kept_by_leaving_reference_models_out(forest):
    found = audit(forest, MEMBERS, CONTROLS, SCHEMA, attacks=FEW, n_references=64, time_limit=0.5)
    assert [one.attack for one in found.results["membership"]] == ["loss", "label"]
    assert found.skipped[0].attack == "attacks with reference models"
    fewer = audit(forest, MEMBERS, CONTROLS, SCHEMA, attacks=FEW, n_references=4, time_limit=600)
    assert len(fewer.results["membership"]) == 3


def test_models_that_cannot_be_trained_anew_are_attacked_without():
    class Remote:
        classes_ = np.unique(Y)

        def predict_proba(self, rows):
            return np.full((len(rows), 2), 0.5)

        def predict(self, rows):
            return np.full(len(rows), self.classes_[0])

    found = audit(Remote(), MEMBERS, CONTROLS, SCHEMA)
    assert any("cannot be retrained" in one.why for one in found.skipped)
    assert not found.verdicts[0].found


def test_intervals_are_widened_for_the_number_of_tries():
    wide = corrected(Interval(0.52, 0.505, 0.535), 15)
    assert wide.low < 0.5 < 0.52 < wide.high
    assert corrected(wide, 1) == wide
    tries = [
        AttackResult("a", "s", "v", 10, *[Interval(0.52, 0.505, 0.535)] * 2, Interval(0, 0, 0),
                     auc=Interval(0.52, 0.505, 0.535))
    ] * 15  # fmt: skip
    assert not Finding(MEMBERSHIP, "", tries).verdict.found
    assert Finding(MEMBERSHIP, "", tries[:1]).verdict.found


def test_bad_input_gets_one_sentence(forest):
    with pytest.raises(DataError, match="Column 'age' is not among the controls"):
        audit(forest, MEMBERS, CONTROLS.drop("age"), SCHEMA)
    with pytest.raises(DataError, match="Column 'income' is not among the members"):
        audit(forest, MEMBERS.drop("income"), CONTROLS, SCHEMA)
    with pytest.raises(DataError, match="Every control equals a member"):
        audit(forest, MEMBERS, MEMBERS, SCHEMA)
    with pytest.raises(DataError, match="only 10 members"):
        audit(forest, MEMBERS[:10], CONTROLS, SCHEMA)
    with pytest.raises(ShoalError, match="There is no attack 'luck'"):
        audit(forest, MEMBERS, CONTROLS, SCHEMA, attacks=["luck"])
    broken = RandomForestClassifier(2).fit(np.zeros((4, 2)), [0, 1, 0, 1])
    with pytest.raises(ShoalError, match="predict_proba of the model fails on these rows"):
        audit(broken, MEMBERS, CONTROLS, SCHEMA)


@pytest.fixture
def folder(tmp_path, monkeypatch, forest):
    monkeypatch.chdir(tmp_path)
    MEMBERS.write_csv("train.csv")
    CONTROLS.write_csv("test.csv")
    SCHEMA.to_toml("people.toml")
    frame = pl.read_csv("train.csv")
    save_model(make_model("logistic", SCHEMA).fit(frame, frame["income"].to_numpy()), "model.skops")
    return tmp_path


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What protect and train write of one table."""
    home = tmp_path_factory.mktemp("written")
    FRAME.write_csv(home / "people.csv")
    SCHEMA.to_toml(home / "people.toml")
    table = [str(home / "people.csv"), "--schema", str(home / "people.toml")]
    quick = ["--option", "guide=hard", "--l", "2", "--model", "tree", "--k", "20"]
    assert run(["protect", *table, *quick, "--out", str(home / "protected")]) == 0
    assert run(["train", *table, "--estimator", "tree", "--folds", "2", "--out", str(home / "trained")]) == 0
    return home


@pytest.mark.parametrize("name", ["protected", "trained"])
def test_what_was_written_is_attacked_as_it_was_trained(written, name, capsys):
    frame = pl.read_csv(written / "people.csv")
    provenance = Provenance.from_json(written / name / "training.json")
    members, controls = provenance.part(frame)
    assert (members.height, controls.height) == (960, 240)
    assert pl.concat([members, controls]).sort(frame.columns).equals(frame.sort(frame.columns))
    model = make_model("tree", SCHEMA)
    estimator = provenance.estimator(model, SCHEMA)
    if name == "protected":
        assert isinstance(estimator, ProtectedModel)
        asked = estimator.anonymizer.get_params()
        assert (asked["k"], asked["guide"], asked["constraints"]) == (20, "hard", (LDiversity(2),))
        assert estimator.fit(members.select(features(SCHEMA)), read_target(members, SCHEMA)).anonymizer_.k == 20
    else:
        assert type(estimator) is type(model)
    table = ["--members", str(written / "people.csv"), "--schema", str(written / "people.toml")]
    page = str(written / f"{name}.html")
    command = ["audit", "--from", str(written / name), *table, "--references", "2", "--jobs", "1", "--out", page]
    plot = written / f"{name}.svg"
    assert run([*command, "--trust", "--plot", str(plot), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["about"]["members"], facts["about"]["controls"] == (960, 240)
    assert ("re-identification" in facts["results"]) == (name == "protected")
    assert "true positive rate" in plot.read_text()


def test_another_table_or_a_broken_file_is_refused(written, tmp_path):
    path = written / "protected" / "training.json"
    with pytest.raises(DataError, match="table of 600 rows is not the one that the model was trained on"):
        Provenance.from_json(path).part(MEMBERS)
    facts = json.loads(path.read_text())
    broken = [
        {"table": {"rows": 3, "sha256": "a"}},
        {"left_out": 7},
        {"left_out": "-1"},
        {"anonymization": facts["anonymization"] | {"method": "magic"}},
        {"anonymization": facts["anonymization"] | {"constraints": [{"constraint": "PrivacyModel"}]}},
        {"anonymization": facts["anonymization"] | {"constraints": [{"constraint": "LDiversity", "m": 3}]}},
    ]
    for change in broken:
        (tmp_path / "training.json").write_text(json.dumps(facts | change))
        with pytest.raises(ShoalError) as caught:
            Provenance.from_json(tmp_path / "training.json")
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="cannot be read"):
        Provenance.from_json(tmp_path / "none.json")
    with pytest.raises(ShoalError, match="no curves to draw"):
        Audit([], [], {}).plot(tmp_path / "roc.svg")


def test_the_command_writes_a_page_and_its_numbers(folder, capsys):
    command = "audit --model model.skops --members train.csv --controls test.csv --schema people.toml --references 2"
    assert run([*command.split(), "--jobs", "1", "--out", "page.html"]) == 0
    shown = capsys.readouterr().out
    assert "Attacks: membership" in shown
    page = (folder / "page.html").read_text()
    assert str(folder) not in page
    assert json.loads((folder / "page.json").read_text())["about"]["model"] == "LogisticRegression"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--model none.skops --members train.csv --controls test.csv", "There is no file 'none.skops'"),
        ("--model model.skops --members none.csv --controls test.csv", "none.csv"),
        ("--model model.skops --members train.csv --controls train.csv", "Every control equals a member"),
        ("--model model.skops --members train.csv --controls test.csv --out page.txt", "ends in .html"),
        ("--model model.skops --members train.csv --controls test.csv --references 3", "n_references must be an even"),
        ("--model model.skops --members train.csv --controls test.csv --seed -1", "random_state"),
        ("--model model.skops --members train.csv --controls test.csv --plot roc.txt", "a plot is a .png, .svg or"),
        ("--model model.skops --members train.csv", "--controls is missing"),
        ("--members train.csv --controls test.csv", "--model is missing"),
        ("--members train.csv --from .", "has no training.json"),
    ],
)
def test_bad_commands_get_one_sentence(folder, capsys, options, sentence):
    assert run(["audit", "--schema", "people.toml", *options.split()]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (folder / "audit.html").exists()
