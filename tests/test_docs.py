"""The documentation is true: its examples run, its links lead somewhere, its options exist."""

import doctest
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import shoal
from shoal import cli
from shoal.partition.losses import LOSSES
from shoal.partition.recoding import LEVEL, RECODINGS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
LINKED = [*sorted(ROOT.glob("*.md")), *(DOCS / name for name in PAGES)]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Fenced(doctest.DocTestParser):
    """Examples in fenced blocks; those that fetch files are skipped where there are none."""

    def parse(self, string, name="<string>"):
        parts = super().parse(re.sub(r"(?m)^```.*$", "", string), name)
        for part in parts:
            if isinstance(part, doctest.Example) and "fetch_" in part.source and not part.source.startswith("from "):
                part.options[doctest.SKIP] = not os.environ.get("SHOAL_DATA")
        return parts


def load_script(name):
    """Return a script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_cli():
    """The script that writes the page of the command line."""
    return load_script("make_cli")


def blocks(path, *languages):
    """The fenced blocks of a page: (language, content)."""
    found = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", path.read_text(encoding="utf-8"))
    return [(language, content) for language, content in found if language in languages]


def shoal_lines(content):
    """The calls of shoal in a console block, each as a list of words; comments are left out."""
    lines = content.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("shoal ")]


def shoal_calls(path):
    return [call for _, content in blocks(path, "console") for call in shoal_lines(content)]


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"(?ms)^```.*?^```$", "", path.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _, content in blocks(DOCS / page, "toml"):
        name = content.splitlines()[0].removeprefix("# ")
        (tmp_path / name).write_text(content, encoding="utf-8")
    failed, tried = doctest.testfile(
        str(DOCS / page), module_relative=False, optionflags=FLAGS, parser=Fenced(), encoding="utf-8"
    )
    assert failed == 0
    assert tried > 0 or page in ("cli.md", "papers.md")  # which are made by programs


def test_every_python_example_is_one_that_runs():
    for page in PAGES:
        for _, content in blocks(DOCS / page, "python"):
            assert content.startswith(">>> "), f"{page}: {content}"


def test_the_commands_of_getting_started_print_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it, and tables are as wide as it says
    printed = set()
    shown = 0
    for language, content in blocks(DOCS / "getting-started.md", "console", "text"):
        if language == "console":
            for call in shoal_lines(content):
                assert cli.run(call) == 0, call
            printed = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
        else:
            for line in content.splitlines():
                assert " ".join(line.split()) in printed
                shown += 1
    assert shown > 10
    written = {path.name for path in tmp_path.iterdir()}
    assert written >= {"census.csv", "proposed.toml", "released.csv", "report.html", "protected"}
    protected = {path.name for path in (tmp_path / "protected").iterdir()}
    assert protected == {"released.csv", "model.skops", "training.json", "report.html"}


def test_the_page_of_the_command_line_is_up_to_date():
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == make_cli().page(), "run: python docs/make_cli.py"


def test_the_drawing_of_the_packages_is_up_to_date():
    pytest.importorskip("grimp")
    script = load_script("make_packages")
    drawn = script.draw(script.read_layers(), script.needed(script.imports()))
    assert script.PICTURE.read_text(encoding="utf-8") == drawn, "run: python docs/make_packages.py"


def test_every_command_has_a_section():
    for name in make_cli().commands():
        assert f"shoal-{name}" in anchors(DOCS / "cli.md")


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file) if file else path
        assert place.exists(), f"{path.name} links to {target}"
        if anchor:
            assert anchor in anchors(place), f"{path.name} links to {target}"


def test_every_public_name_is_documented():
    text = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in PAGES)
    missing = [name for name in shoal.__all__ if not re.search(rf"\b{re.escape(name)}\b", text)]
    assert missing == []


def test_every_recoding_has_a_row():
    rows = re.findall(
        r"(?m)^\| `(\w+)` \|", (DOCS / "methods.md").read_text(encoding="utf-8").partition("## Recodings")[2]
    )
    assert rows == [*RECODINGS, LEVEL.name]


def test_every_loss_is_documented():
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert [name for name in LOSSES if f"loss.{name}" not in page] == []


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name)
def test_console_examples_use_options_that_exist(path):
    commands = make_cli().commands()
    for name, *words in shoal_calls(path):
        if name == "--version":
            continue
        known = {
            option for parameter in commands[name].params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, f"shoal {name}"


def test_the_readme_shows_commands():
    shown = {call[0] for call in shoal_calls(ROOT / "README.md")}
    assert shown >= {"inspect", "anonymize", "check", "protect", "frontier"}


def test_the_citation_names_the_version():
    assert f"\nversion: {shoal.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_no_page_promises_more_than_k(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert re.findall(r"(?i)(?<!k-)(?<!\d-)\banonymous\b", text) == []


@pytest.mark.parametrize(
    ("script", "options", "expected"),
    [
        ("release_a_table.py", ["--rows", "2000", "--out", "release"], "every level asked for is reached"),
        ("train_on_a_release.py", ["--rows", "2000"], "release, k = 100"),
        ("protect_a_model.py", ["--rows", "1000", "--model", "tree"], "accuracy-guided, k = 100"),
        ("clean_a_query.py", [], "100.0% of the answers are the same"),
    ],
)
def test_an_example_script_runs(script, options, expected, tmp_path):
    command = [sys.executable, ROOT / "examples" / script, *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    if "--out" in options:
        written = {path.name for path in (tmp_path / "release").iterdir()}
        assert written >= {"released.csv", "report.html", "schema.toml"}


def test_every_example_script_is_run():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {
        "clean_a_query.py",
        "protect_a_model.py",
        "release_a_table.py",
        "release_on_spark.py",  # in test_spark.py, in a session that is there
        "train_on_a_release.py",
    }
