"""A new privacy model is one file: with it alone, everything that knows privacy models knows the new one, too."""

import importlib.util
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from shoal import Attribute, KAnonymity, KMap, Schema, anonymize, check
from shoal.anonymizers import method_names
from shoal.errors import SchemaError, ShoalError
from shoal.evaluation.plan import plan_methods
from shoal.evaluation.provenance import Anonymization, Provenance, trace
from shoal.jobs.release import anonymize_file, check_file
from shoal.privacy.models import MODELS
from shoal.privacy.rules import largest_k, membership
from shoal.reports.report import facts, render, to_json

TOY = '''
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shoal.parameters import Real, Whole
from shoal.privacy.base import Better, Control, LevelOption, PrivacyModel, Rule, SensitiveModel


@dataclass(frozen=True)
class GuessBound(SensitiveModel):
    """Guessing the most frequent value of a group is right for at most the share ``guess`` of its rows."""

    guess: float
    attribute: str | None = None

    key: ClassVar[str] = "guess"
    name: ClassVar[str] = "guess bound"
    better: ClassVar[Better] = "lower"
    options: ClassVar[tuple[LevelOption, ...]] = (LevelOption("guess", "--guess", "guess bound: share of guesses."),)
    control: ClassVar[Control] = Control("guess: share of right guesses", Real(above=0, most=1), step=0.05)
    standard: ClassVar[tuple[dict[str, Any], ...]] = ({"guess": 1.0},)
    _parameter_constraints: ClassVar[dict] = {"guess": Real(above=0, most=1)}

    def describe(self):
        return f"guess bound {self.guess:g} of {self.subject}"

    def _words(self, level):
        return f"At most {level:.0%} of guesses at {self.subject} are right."

    def _level_rules(self, columns):
        return tuple(Rule("share", name, self.guess) for name in self.chosen(columns))


@dataclass(frozen=True)
class Crowd(PrivacyModel):
    """Every group with a released row holds at least ``crowd`` rows of the population, and two released ones."""

    crowd: int
    attribute: str

    key: ClassVar[str] = "crowd"
    name: ClassVar[str] = "crowd"
    better: ClassVar[Better] = "higher"
    about_population: ClassVar[bool] = True
    options: ClassVar[tuple[LevelOption, ...]] = (LevelOption("crowd", "--crowd", "crowd: rows of the population."),)
    at_least: ClassVar[int] = 2
    _parameter_constraints: ClassVar[dict] = {"crowd": Whole(least=1)}

    def describe(self):
        return f"crowd of {self.crowd} in {self.attribute}"

    def _words(self, level):
        return f"Every released row is in a crowd of {level:g}."

    def _level_rules(self, columns):
        return (Rule("population", None, self.crowd),)

    def rules(self, columns):
        return (Rule("rows", None, self.at_least), *self._level_rules(columns))
'''
SCHEMA = Schema(
    [
        Attribute("age"),
        Attribute("zip", kind="nominal"),
        Attribute("illness", role="sensitive", kind="nominal"),
        Attribute("income", role="target", kind="nominal"),
        Attribute("in_study", role="other", kind="nominal"),
    ]
)


def people(n=240):
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "zip": rng.choice(["8010", "8020", "8030"], n),
            "illness": rng.choice(["flu", "cold", "asthma"], n, p=[0.45, 0.35, 0.2]),
            "income": rng.choice(["low", "high"], n),
            "in_study": rng.choice(["yes", "no"], n),
        }
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "toy_model.py"
    path.write_text(TOY)
    return path


@pytest.fixture
def toy(file):
    before = dict(MODELS)
    spec = importlib.util.spec_from_file_location("toy_model", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy_model"] = module
    spec.loader.exec_module(module)
    yield module
    MODELS.clear()
    MODELS.update(before)
    del sys.modules["toy_model"]


def test_a_new_model_is_gone_again():
    assert "guess" not in MODELS


def test_every_check_measures_it(toy):
    standard = [one for one in check(people(), SCHEMA).measured if one.key == "guess"]
    assert [(one.model, one.attribute, one.asked) for one in standard] == [("guess bound of illness", "illness", None)]
    assert standard[0].meaning == "At most 100% of guesses at illness are right."
    checked = check(people(), SCHEMA, [toy.GuessBound(0.9)])
    assert not checked.holds
    assert checked.measured[0].model == "guess bound 0.9 of every sensitive attribute"
    with pytest.raises(ShoalError, match=r"guess of guess bound must be a number above 0 and of at most 1, got 2\."):
        toy.GuessBound(2)


@pytest.mark.parametrize("method", method_names())
def test_every_anonymizer_keeps_it(toy, method):
    release = anonymize(people(), SCHEMA, k=5, method=method, constraints=[toy.GuessBound(0.6)], random_state=0)
    assert release.checked.level("guess") <= 0.6
    assert check(release.frame, SCHEMA, [KAnonymity(5), toy.GuessBound(0.6)]).holds


def test_tables_on_disk_keep_it(toy, tmp_path):
    pytest.importorskip("duckdb")
    people(2000).write_parquet(tmp_path / "people.parquet")
    out, asked = tmp_path / "out.parquet", [toy.GuessBound(0.7)]
    anonymize_file(tmp_path / "people.parquet", SCHEMA, 5, out, constraints=asked, rows_per_fragment=500)
    assert check_file(out, SCHEMA, asked).holds


def test_reports_say_what_it_means(toy):
    release = anonymize(people(), SCHEMA, k=5, constraints=[toy.GuessBound(0.6)])
    level = release.checked.level("guess")
    (told,) = [one for one in json.loads(to_json(release))["models"] if one["key"] == "guess" and one["asked"]]
    assert told["meaning"] == f"At most {level:.0%} of guesses at every sensitive attribute are right."
    page = render(facts(release), "Report")
    assert told["meaning"] in page
    assert "≤ 0.6" in page


def test_the_provenance_of_a_model_keeps_it(toy, tmp_path):
    asked = (toy.GuessBound(0.5, "illness"), toy.Crowd(3, "in_study"), KAnonymity(4))
    written = trace(people(), np.arange(100), Anonymization("mondrian", 5, asked, {}))
    written.to_json(tmp_path / "training.json")
    found = Provenance.from_json(tmp_path / "training.json").anonymization
    assert found.constraints == asked
    assert found.anonymizer(SCHEMA).constraints == (asked[0], asked[2])


def test_models_of_a_population_say_so(toy):
    asked = [toy.Crowd(12, "in_study")]
    assert membership(asked) == "in_study"
    assert largest_k(asked) == 2
    release = anonymize(people(), SCHEMA, k=1, constraints=asked)
    assert "in_study" not in release.frame.columns
    assert release.checked.level("crowd") >= 12
    with pytest.raises(ShoalError, match="crowd of 12 in in_study is about a population"):
        plan_methods("mondrian", asked, None, {})
    with pytest.raises(SchemaError, match="crowd of 12 in in_study and 3-map of zip name different columns"):
        membership([*asked, KMap(3, "zip")])


def test_the_studio_offers_it(toy):
    pytest.importorskip("nicegui")
    from shoal.studio import exports
    from shoal.studio.settings import Settings, offered_levels

    assert list(offered_levels()) == ["l", "t", "guess"]
    settings = Settings().changed(guess=0.5, l=2)
    assert settings.to_dict()["guess"] == 0.5
    assert Settings.from_dict(settings.to_dict()) == settings
    assert settings.constraints()[1] == toy.GuessBound(0.5)
    with pytest.raises(ShoalError, match=r"guess must be a number above 0 and of at most 1, got 0\."):
        settings.changed(guess=0)
    desk = SimpleNamespace(settings=settings, source={"name": "census"})
    assert "--l 2 --guess 0.5" in exports.command(desk)
    assert "from toy_model import GuessBound" in exports.snippet(desk)
    assert "constraints=[LDiversity(2), GuessBound(0.5)]" in exports.snippet(desk)


RUN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
import toy_model
from shoal.cli import run

def said(command):
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = run(command.split())
    return code, " ".join(out.getvalue().split())

print(json.dumps([said(command) for command in sys.argv[1:]]))
"""


def test_commands_have_its_options(file, tmp_path):
    people().write_csv(tmp_path / "people.csv")
    SCHEMA.to_toml(tmp_path / "people.toml")
    commands = {
        **{f"{name} --help": (0, "guess bound: share") for name in ("anonymize", "check", "protect", "frontier")},
        "anonymize people.csv --schema people.toml --k 3 --guess 0.6 --out out.csv --json": (0, '"key": "guess"'),
        "check out.csv --schema people.toml --guess 0.6 --json": (0, '"holds": true'),
        "check people.csv --schema people.toml --guess 0.6": (1, "guess bound 0.6 of every sensitive attribute"),
        "check people.csv --schema people.toml --guess 2": (2, "shoal: guess of guess bound must be a number above 0"),
        "check people.csv --schema people.toml --guess few": (2, "'--guess': 'few' is not a number"),
        "check people.csv --schema people.toml --crowd 5": (2, "--crowd 5 needs --members"),
        "check people.csv --schema people.toml --crowd 5 --members in_study --json": (1, '"key": "crowd"'),
        "check people.csv --schema people.toml --members in_study": (2, "--members in_study needs --crowd or --kmap"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, *commands], cwd=tmp_path, capture_output=True, text=True,
        check=False, env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for (command, (code, words)), found in zip(commands.items(), json.loads(done.stdout), strict=True):
        assert found[0] == code, (command, found)
        assert words in found[1], (command, found)


def test_the_json_twin_of_the_studio_takes_it(file, tmp_path):
    pytest.importorskip("nicegui")
    code = "import toy_model; from shoal.studio.api import SettingsChange as S; print(S(guess=0.5).model_fields_set)"
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "{'guess'}"
