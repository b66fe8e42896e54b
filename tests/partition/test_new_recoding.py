"""A new recoding or loss is one function: with it alone, everything that knows recodings or losses knows it."""

import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from shoal import anonymize, check, cli
from shoal.anonymizers import method_names
from shoal.datasets import make_census
from shoal.errors import ShoalError
from shoal.evaluation.plan import usable_recodings
from shoal.jobs.release import anonymize_file
from shoal.partition.losses import LOSSES, loss
from shoal.partition.recoding import RECODINGS, Recoded, recoding
from shoal.reports.report import facts, render, to_json

FRAME, SCHEMA = make_census(300)
QUASI = [attribute.name for attribute in SCHEMA.quasi]


@pytest.fixture
def toys():
    """Register two recodings, which are gone after the test."""

    @recoding("first", "its first row", "row")
    def first_rows(table, labels):
        return np.array([np.flatnonzero(labels == g)[0] for g in range(labels.max() + 1)])

    @recoding("initials", "the first letters of its values", "texts")
    def initials(table, labels):
        found = {}
        for column in table.quasi:
            letters = np.array([str(column.text(code))[0] for code in column.codes])
            groups = range(labels.max() + 1)
            found[column.name] = Recoded(["".join(sorted(set(letters[labels == g]))) for g in groups])
        return found

    yield
    del RECODINGS["first"], RECODINGS["initials"]


@pytest.fixture
def toy_losses():
    """Register three losses that add up differently, which are gone after the test."""

    @loss("untouched", "share of the attributes that lose nothing", "mean")
    def untouched(groups):
        return float((groups.cell_losses("ncp") == 0).mean())

    @loss("largest_group", "square root of the largest sum of squares", "sizes")
    def largest_group(sizes):
        return sizes.squares**0.5

    @loss("cells", "number of released cells", "sum")
    def cells(groups):
        return float(groups.n_rows * len(groups.table.quasi))

    yield
    for name in ("untouched", "largest_group", "cells"):
        del LOSSES[name]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    FRAME.write_csv(tmp_path / "people.csv")
    FRAME.write_parquet(tmp_path / "people.parquet")
    SCHEMA.to_toml(tmp_path / "people.toml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def say(capsys, command):
    """Run a command that succeeds, and return its output."""
    capsys.readouterr()
    assert cli.run(command.split()) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_toys_are_gone_again():
    assert not {"first", "initials"} & RECODINGS.keys()
    assert not {"untouched", "largest_group", "cells"} & LOSSES.keys()
    with pytest.raises(ShoalError, match="recoding must be 'interval', .* or 'sample', got 'first'"):
        anonymize(FRAME, SCHEMA, k=5, recoding="first")


@pytest.mark.parametrize("method", method_names())
def test_every_method_has_a_new_recoding(toys, method):
    options = {"guide": 0.5} if method == "accuracy-guided" else {}
    release = anonymize(FRAME, SCHEMA, k=5, method=method, recoding="first", random_state=0, **options)
    rows = set(FRAME.select(QUASI).rows())
    assert all(row in rows for row in release.frame.select(QUASI).rows())
    assert check(release.frame, SCHEMA).level("k") >= 5
    page = render(facts(release), "Report")
    assert "A group is released as one of its rows" in page
    assert json.loads(to_json(release))["parameters"]["recoding"] == "first"


def test_engines_release_by_it(toys, folder):
    pytest.importorskip("duckdb")
    anonymize_file("people.parquet", SCHEMA, 5, "out.parquet", recoding="initials", rows_per_fragment=100)
    released = pl.read_parquet("out.parquet")
    assert set(released.select(QUASI).dtypes) == {pl.String}
    assert check(released, SCHEMA).level("k") >= 5


def test_commands_take_it(toys, folder, capsys):
    assert "first its first row" in " ".join(say(capsys, "methods").split())
    release = "anonymize people.csv --schema people.toml --k 5 --recoding first --out out.csv --json"
    assert json.loads(say(capsys, release))["parameters"]["recoding"] == "first"
    say(capsys, "check out.csv --schema people.toml --k 5")
    assert "first" in usable_recodings()
    assert "initials" not in usable_recodings()
    say(capsys, "protect people.csv --schema people.toml --k 5 --model tree --method mondrian --recoding first")
    refused = "protect people.csv --schema people.toml --k 5 --recoding initials --out other"
    assert cli.run(refused.split()) == 2
    assert "recoding='initials' does not suit a model" in capsys.readouterr().err


def test_the_studio_offers_it(toys):
    pytest.importorskip("nicegui")
    from shoal.studio import exports
    from shoal.studio.api import choices
    from shoal.studio.settings import Settings, offered_recodings

    assert offered_recodings("mondrian")["first"] == choices()["recodings"]["first"] == "its first row"
    settings = Settings().changed(recoding="first")
    assert Settings.from_dict(settings.to_dict()) == settings
    assert settings.recoding_for_models == "first"
    assert settings.changed(recoding="initials").recoding_for_models == "representative"
    workspace = SimpleNamespace(settings=settings, source={"name": "census"})
    assert "--recoding first" in exports.command(workspace)
    assert "recoding='first'" in exports.snippet(workspace)


def test_releases_and_reports_have_a_new_loss(toy_losses):
    release = anonymize(FRAME, SCHEMA, k=5)
    assert 0 <= release.loss.untouched <= 1
    assert release.loss.largest_group == release.loss.discernibility**0.5
    assert release.loss.cells == 300 * len(QUASI)
    assert [*release.loss._asdict()] == [*LOSSES, "by_attribute"]
    assert json.loads(to_json(release))["loss"]["cells"] == release.loss.cells
    page = render(facts(release), "Report")
    assert "number of released cells" in page
    assert f"{release.loss.cells:,.0f}" in page


def test_fragments_add_it_up(toy_losses, folder):
    pytest.importorskip("duckdb")
    evidence = anonymize_file("people.parquet", SCHEMA, 5, "out.parquet", rows_per_fragment=100)
    assert evidence.loss.cells == 300 * len(QUASI)
    assert evidence.loss.largest_group == evidence.loss.discernibility**0.5
    assert 0 <= evidence.loss.untouched <= 1


def test_commands_and_the_studio_show_it(toy_losses, folder, capsys):
    release = "anonymize people.csv --schema people.toml --k 5 --out out.csv --report report.html --json"
    assert json.loads(say(capsys, release))["loss"]["cells"] == 300 * len(QUASI)
    assert "number of released cells" in (folder / "report.html").read_text(encoding="utf-8")
    pytest.importorskip("nicegui")
    from shoal.studio.runs import release_table
    from shoal.studio.settings import Settings

    _, figures = release_table(FRAME, SCHEMA, Settings(k=5), lambda text: None)
    assert figures["loss"]["cells"] == 300 * len(QUASI)
