"""The registry: adding an attack to audits is adding one file, and removing it is removing the file."""

import json
import sys

import pytest

import shoal.attacks
from shoal import audit, make_model
from shoal.attacks.membership import MEMBERSHIP, attack_names
from shoal.attacks.registry import ELEMENTS, all_attacks, attacks_on, choose_attacks, risks
from shoal.cli import run
from shoal.datasets import make_census
from shoal.errors import ShoalError
from shoal.models import read_target, save_model

FRAME, SCHEMA = make_census(300)
MEMBERS, CONTROLS = FRAME[:150], FRAME[150:]
TOY = '''
"""Two attacks that know the truth: one on membership, one on a risk of its own."""

import numpy as np

from shoal.attacks.membership import MEMBERSHIP
from shoal.attacks.registry import Element, AuditRisk, RiskVerdict, attack_on
from shoal.attacks.results import AttackResult
from shoal.intervals import exactly


@attack_on(MEMBERSHIP, "oracle", view="a list of the members")
def oracle(game):
    return game.target.is_member.astype(float)


def describe(finding):
    (only,) = finding.results
    said = f"The stars reveal {finding.attribute} of {only.rows} people."
    return RiskVerdict(finding.name, True, said, "The stars have no known limits.")


HOROSCOPE = AuditRisk(
    name="horoscope of {}", on="model", position=15, element=Element("Resistance to astrology"), baseline="no stars",
    control="people born elsewhere", advantage="accuracy - baseline", describe=describe,
)


@attack_on(HOROSCOPE, "astrology")
def astrology(given, attribute):
    one, nothing = exactly(1.0), exactly(0.0)
    return AttackResult("astrology", f"the value of {attribute}", "the stars", len(given.y_members), one, nothing, one)
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A new file in the package, which is gone after the test."""
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.setattr(shoal.attacks, "__path__", [*shoal.attacks.__path__, str(tmp_path)])
    yield
    del sys.modules["shoal.attacks.toy"], shoal.attacks.toy


@pytest.fixture(scope="module")
def model():
    return make_model("tree", SCHEMA).fit(MEMBERS, read_target(MEMBERS, SCHEMA))


def test_a_new_file_turns_up_wherever_attacks_do(toy, model, tmp_path, monkeypatch, capsys):
    assert [one.name for one in risks()][:3] == ["membership", "horoscope of {}", "value of {}"]
    assert "oracle" in attack_names(references=False)
    found = audit(model, MEMBERS, CONTROLS, SCHEMA, attacks=["loss", "oracle"])
    assert [one.attack for one in found.results["membership"]] == ["loss", "oracle"]
    (stars,) = found.results["horoscope of condition"]
    assert (stars.attack, stars.rows) == ("astrology", 150)
    verdicts = {one.risk: one for one in found.verdicts}
    assert list(verdicts)[:3] == ["membership", "horoscope of condition", "value of condition"]
    assert "oracle, has an accuracy of 100 % (baseline 50 %)" in verdicts["membership"].sentence
    said = "The stars reveal condition of 150 people."
    assert verdicts["horoscope of condition"].sentence == said
    assert found.facts()["results"]["horoscope of condition"][0]["accuracy"]["value"] == 1.0
    found.to_html(tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text()
    for text in ("Resistance to astrology", "people born elsewhere", "no stars", "a list of the members", "astrology"):
        assert text in page
    assert page.count(said) == 2  # among the verdicts, and as the answer to its element

    monkeypatch.chdir(tmp_path)
    MEMBERS.write_csv("train.csv")
    CONTROLS.write_csv("test.csv")
    SCHEMA.to_toml("people.toml")
    save_model(model, "model.skops")
    command = "audit --model model.skops --members train.csv --controls test.csv --schema people.toml --references 2"
    assert run([*command.split(), "--jobs", "1", "--trust", "--out", "page.html"]) == 0
    shown = capsys.readouterr().out
    for text in ("Attacks: horoscope of condition", "astrology", "oracle", said):
        assert text in shown
    assert "horoscope of condition" in json.loads((tmp_path / "page.json").read_text())["results"]


def test_a_removed_file_leaves_nothing(model):
    assert not {"oracle", "astrology"} & {one.name for one in all_attacks()}
    assert set(audit(model, MEMBERS, CONTROLS, SCHEMA, attacks=["loss"]).results) == {
        "membership",
        "value of condition",
    }


def test_every_attack_and_risk_is_described():
    for risk in risks():
        names = [one.name for one in attacks_on(risk)]
        assert len(names) == len(set(names)) > 0
        assert risk.element in ELEMENTS
        assert risk.baseline
    assert [one.on for one in risks()] == ["model"] * 2 + ["release"] * 4
    assert len({risk.position for risk in risks()}) == len(risks())


def test_attacks_that_lack_something_are_refused_or_left_out():
    lacking = {"references": "the model cannot be retrained"}
    assert [one.name for one in choose_attacks(MEMBERSHIP, None, lacking)] == attack_names(references=False)
    assert [one.name for one in choose_attacks(MEMBERSHIP, ["loss", "LiRA online"], lacking, skip=True)] == ["loss"]
    with pytest.raises(ShoalError, match="'LiRA online' does not apply, because the model cannot be retrained"):
        choose_attacks(MEMBERSHIP, "LiRA online", lacking)
    with pytest.raises(ShoalError, match="There is no attack 'luck': choose among loss, confidence"):
        choose_attacks(MEMBERSHIP, ["luck"], {})
