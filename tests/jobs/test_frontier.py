"""The frontier on the command line and on paper: files, plot, page, and what a person reads."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pages import Page
from shoal import cli, evaluate
from shoal.cli import render
from shoal.datasets import make_census
from shoal.errors import DataError, ShoalError
from shoal.models import make_model, read_target, save_model
from shoal.reports import report

FRAME, SCHEMA = make_census(400, seed=0)
FILES = ["cells.jsonl", "frontier.csv", "frontier.html", "frontier.png", "frontier.svg"]
COMMAND = "frontier people.csv --schema people.toml --model tree,bayes --methods mondrian --k 3,20 --seeds 2 --out out"


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Run a command line beside a small table; gives its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    FRAME.write_csv("people.csv")
    SCHEMA.to_toml("people.toml")

    def called(line):
        code = cli.run(shlex.split(line))
        return code, *capsys.readouterr()

    return called


@pytest.fixture(scope="module")
def found():
    return evaluate(FRAME, SCHEMA, {"tree": "tree", "<i>": "bayes"}, k=(3, 20, 9000), seeds=2)


# The command


def test_the_command_has_help_with_an_example(call):
    code, out, err = call("frontier --help")
    assert (code, err) == (0, "")
    assert "For example:" in out
    assert "shoal frontier" in out


def test_files_are_written_and_the_answer_is_printed(call):
    code, out, err = call(COMMAND)
    assert (code, err) == (0, "")
    assert sorted(path.name for path in Path("out").iterdir()) == FILES
    assert pl.read_csv("out/frontier.csv").height == 8
    assert Path("out/frontier.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in Path("out/frontier.svg").read_text()
    assert "Cost of k" in out
    assert re.search(r"tree trained on mondrian groups: (k = \d+ costs|no k of 3, 20)", out)
    assert all(name in out for name in FILES)


def test_json_has_all_numbers(call):
    code, out, err = call(COMMAND + " --json --loss 0.9")
    assert (code, err) == (0, "")
    content = json.loads(out)
    assert "NaN" not in out
    assert content["score"] == "accuracy"
    assert len(content["summary"]) == 4
    assert set(content["summary"][0]["loss"]) == {"mean", "se", "low", "high"}
    assert [one["k"] for one in content["affordable"]] == [20, 20]
    assert set(content["files"]) == {"csv", "svg", "png", "html", "cells"}


def test_a_second_run_goes_on_and_a_fresh_one_does_not(call):
    assert call(COMMAND)[0] == 0
    cells = Path("out/cells.jsonl")
    first, table = cells.read_text(), Path("out/frontier.csv").read_text()
    assert call(COMMAND)[0] == 0
    assert cells.read_text() == first
    assert Path("out/frontier.csv").read_text() == table
    assert call(COMMAND + " --fresh")[0] == 0
    assert cells.read_text() != first
    assert len(cells.read_text().splitlines()) == len(first.splitlines())


def test_levels_and_marks_are_taken(call):
    frame = FRAME.with_columns(pl.when(pl.col("age") > 80).then(pl.lit("?")).otherwise(pl.col("age")).alias("age"))
    frame.write_csv("people.csv")
    code, out, _ = call(COMMAND.replace("tree,bayes", "tree") + " --l 2 --missing-mark ? --test-size 0.5")
    assert code == 0
    page = Page(Path("out/frontier.html").read_text()).text
    assert "Constraints in addition to k" in page
    assert "200, and 200 training rows" in page


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_marks_are_taken_from_every_file(call, ending):
    hours = pl.col("hours-per-week")
    frame = FRAME.with_columns(
        pl.when(hours == 40).then(pl.lit("?")).otherwise(hours.cast(str)).alias(hours.meta.output_name())
    )
    frame.write_csv("people.csv")
    frame.write_parquet("people.parquet")
    line = COMMAND.replace("people.csv", f"people.{ending}").replace("tree,bayes", "tree")
    assert call(line)[0] == 2
    assert call(line + " --missing-mark ?")[0] == 0
    missing = FRAME.with_columns(pl.when(hours != 40).then(hours))
    expected = evaluate(missing, SCHEMA, "tree", k=(3, 20), seeds=2)
    assert pl.read_csv("out/frontier.csv")["accuracy"].to_list() == pytest.approx(
        [r["accuracy"] for r in expected.rows]
    )


def save_models(*paths):
    model = make_model("bayes", SCHEMA).fit(FRAME, read_target(FRAME, SCHEMA))
    for path in paths:
        save_model(model, path)


def test_models_are_names_and_files(call):
    Path("mine").mkdir()
    save_models("mine/first.skops", "second.joblib")
    line = COMMAND.replace("tree,bayes", "bayes,mine/first.skops,second.joblib").replace("3,20", "3")
    code, out, err = call(line + " --trust --json")
    assert (code, err) == (0, "")
    found = {one["model"]: one["score"]["mean"] for one in json.loads(out)["summary"]}
    assert list(found) == ["bayes", "first", "second"]
    assert len(set(found.values())) == 1  # a file is trained anew, as the name is


def test_a_model_that_is_code_must_be_trusted(call):
    save_models("mine.joblib")
    code, _, err = call(COMMAND.replace("tree,bayes", "tree,mine.joblib"))
    assert code == 2
    assert "'mine.joblib' would run whatever code" in err


def test_two_models_of_one_name_are_told(call):
    save_models("tree.skops")
    code, _, err = call(COMMAND.replace("tree,bayes", "tree,tree.skops"))
    assert code == 2
    assert "contains two models 'tree': rename a file" in err
    assert len(err.splitlines()) == 1


def test_a_folder_called_like_a_model_is_not_in_the_way(call):
    Path("tree").mkdir()
    assert call(COMMAND.replace("tree,bayes", "tree"))[0] == 0


def test_all_cores_can_be_asked_for(call, monkeypatch):
    asked = []

    def spy(*_, n_jobs, **__):
        asked.append(n_jobs)
        raise ShoalError("Enough.")

    monkeypatch.setattr("shoal.jobs.evaluate.evaluate", spy)
    assert call(COMMAND + " --jobs -1") == (2, "", "shoal: Enough.\n")
    assert asked == [-1]


def test_k_that_cannot_be_reached_is_told(call):
    code, out, _ = call(COMMAND.replace("3,20", "3,9000"))
    assert code == 0
    assert "not reached" in out
    assert "cannot be reached" in out


@pytest.mark.parametrize(
    ("line", "culprit"),
    [
        (COMMAND.replace("tree,bayes", "forrest"), "'forrest' is neither a file nor the name of a model"),
        (COMMAND.replace("tree,bayes", "tree,nope.skops"), "no file 'nope.skops'"),
        (COMMAND.replace("tree,bayes", "people.csv"), "'people.csv' ends in '.csv'"),
        (COMMAND + " --jobs 0", "n_jobs must be"),
        (COMMAND.replace("tree,bayes", ","), "contains no name"),
        (COMMAND.replace("3,20", "3,many"), "'many' is not a whole number"),
        (COMMAND.replace("3,20", "0"), "got 0"),
        (COMMAND + " --methods mondriaan", "no method 'mondriaan'"),
        (COMMAND + " --recoding interval", "recoding='interval'"),
        (COMMAND + " --test-size 2", "test_size=2.0"),
        (COMMAND + " --kmap 3 --members sex", "leave it out"),
        (COMMAND.replace("people.csv", "nobody.csv"), "There is no file 'nobody.csv'"),
        (COMMAND.replace("people.toml", "nobody.toml"), "no schema file"),
        (COMMAND.replace("--out out", "--out people.csv"), "people.csv"),
    ],
)
def test_bad_input_is_told_in_one_sentence(line, culprit, call):
    code, out, err = call(line)
    assert code == 2
    assert culprit in err
    assert out == ""
    assert len(err.splitlines()) == 1
    assert not Path("out/frontier.csv").exists()


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    for terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setenv("TERM", "xterm")
        with render.counting() as progress:
            progress(3, 24, "tree, raw rows, seed 2")
        shown = capsys.readouterr().err
        assert ("3/24" in shown and "tree, raw rows" in shown) == terminal


def test_a_schema_without_a_target_is_told(call):
    SCHEMA.with_roles(other=["income"]).to_toml("people.toml")
    code, _, err = call(COMMAND)
    assert code == 2
    assert "has no target" in err


# The page


def test_the_page_answers_first_and_loads_nothing(found, tmp_path):
    found.to_html(tmp_path / "page.html", title="Costs & <b>", loss=0.5)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert page.loads == []
    assert "script" not in page.tags
    parts = [
        "Costs & <b>",
        "can afford k = 20",
        "costs",
        "Accuracy against k",
        "Results",
        "Method",
    ]
    places = [page.text.index(part) for part in parts]
    assert places == sorted(places)
    assert "<i>" in page.text
    assert "k=9000 cannot be reached" in page.text
    assert not re.search(r"(?i)(?<!k-)\banonymous\b", page.text)


def test_the_page_says_when_nothing_can_be_afforded(found, tmp_path):
    found.to_html(tmp_path / "page.html", loss=-0.9)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "No tested k is affordable" in page.text


def test_the_page_shares_its_style_with_the_report():
    folder = Path(report.__file__).parent / "templates"
    for name in ("report.html.j2", "evaluation.html.j2"):
        text = (folder / name).read_text(encoding="utf-8")
        assert text.startswith('{% extends "page.html.j2" %}')
        assert "--paper" not in text


# The plot


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_plot_is_what_its_ending_says(ending, start, found, tmp_path):
    path = tmp_path / f"plot.{ending}"
    found.plot(path)
    assert path.read_bytes().startswith(start)


def test_a_plot_shows_models_methods_and_baselines(found, tmp_path):
    found.plot(tmp_path / "plot.svg")
    once = (tmp_path / "plot.svg").read_text()
    for text in (
        "tree",
        "&lt;i&gt;",
        "mondrian",
        "raw rows",
        "always the most frequent class",
        "k, the minimum group size",
    ):
        assert text in once
    found.plot(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text() == once


def test_many_models_one_seed_and_numbers_are_drawn(tmp_path):
    schema = SCHEMA.with_roles(target=["hours-per-week"], other=["income"])
    models = {f"tree {i}": "tree" for i in range(4)}
    evaluate(FRAME, schema, models, k=5, seeds=1).plot(tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert "always the mean" in text
    assert "r2 on unseen rows" in text


def test_nothing_is_drawn_to_a_file_of_another_kind(found, tmp_path):
    with pytest.raises(DataError, match=r"ends in '\.gif'"):
        found.plot(tmp_path / "plot.gif")
    with pytest.raises(ShoalError, match="does not exist"):
        found.plot(tmp_path / "nowhere" / "plot.png")
    assert list(tmp_path.iterdir()) == []


def test_matplotlib_is_imported_only_to_draw_and_its_absence_is_told():
    code = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.split(".")[0] == "matplotlib" else find(name, *rest)
from shoal import cli, evaluate, make_model
assert "matplotlib" not in sys.modules
sys.exit(cli.run("frontier people.csv --schema people.toml".split()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "shoal[plots]" in done.stderr
    assert len(done.stderr.splitlines()) == 1
