"""The command line, each command as a person or a script would use it."""

import csv
import inspect
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from contextlib import nullcontext
from functools import wraps
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import shoal
from shoal import cli
from shoal.cli import render
from shoal.cli.options import OF_FILES, own_option
from shoal.data import files
from shoal.datasets import make_census
from shoal.errors import GuaranteeWarning, ShoalError
from shoal.jobs import release as job
from shoal.models import load_model, make_model, read_target, save_model
from shoal.partition.recoding import RECODINGS

COMMANDS = ["inspect", "anonymize", "check", "protect", "train", "frontier", "methods", "datasets", "demo"]
# Values that a careless reader would change: leading zeros, trailing zeros, blanks, quotes, separators, line ends.
PEOPLE = [
    ["id", "age", "zip", "disease", "note", "in study"],
    ["a1", "31", "8010", "flu", "007", "yes"],
    ["a2", "34", "8010", "?", "1.10", "no"],
    ["a3", "35", "8020", "cold", " x ", "yes"],
    ["a4", "39", "8020", "", "", "yes"],
    ["a5", "42", "9020", "flu", "a, b", "yes"],
    ["a6", "45", "9020", "?", '"q"', "no"],
    ["a7", "51.0", "9030", "cold", "two\nlines", "yes"],
    ["a8", "58", "9030", "angina", "1e3", "yes"],
    ["a9", "58", "9030", "flu", "?", "no"],
    ["b0", "?", "8010", "flu", "ä;|", "yes"],
]
SCHEMA = """
[attributes.id]
role = "identifier"
[attributes.age]
role = "quasi"
kind = "numeric"
[attributes.zip]
role = "quasi"
kind = "nominal"
hierarchy = { prefix = true }
[attributes.disease]
role = "sensitive"
kind = "nominal"
[attributes.note]
[attributes."in study"]
"""
BASE = "anonymize people.csv --schema people.toml --missing-mark ? --out out.csv"
CENSUS = make_census(600)
GUIDED = "anonymize census.csv --schema census.toml --k 10 --method accuracy-guided --option guide=0.7 --out out.csv"
TRAIN = "train census.csv --schema census.toml --estimator tree --option max_depth=4"
PROTECT = "protect census.csv --schema census.toml --k 10 --model tree --option guide=0.7"
TREE = "sklearn.tree._tree.Tree"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    write_csv("people.csv", PEOPLE)
    Path("people.toml").write_text(SCHEMA)
    return tmp_path


@pytest.fixture
def call(folder, capsys):
    """Run a command line; gives its exit code, stdout and stderr."""

    def called(line):
        code = cli.run(shlex.split(line))
        return code, *capsys.readouterr()

    return called


@pytest.fixture(scope="module")
def census_files(tmp_path_factory):
    """A census with its schema, and a model of it in two files."""
    folder = tmp_path_factory.mktemp("census")
    CENSUS.frame.write_csv(folder / "census.csv")
    CENSUS.schema.to_toml(folder / "census.toml")
    model = make_model("tree", CENSUS.schema).fit(CENSUS.frame, read_target(CENSUS.frame, CENSUS.schema))
    save_model(model, folder / "model.skops")
    save_model(model, folder / "model.joblib")
    return folder


@pytest.fixture
def census(call, census_files):
    """Run a command line beside a census."""
    shutil.copytree(census_files, ".", dirs_exist_ok=True)
    return call


def write_csv(path, rows, delimiter=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)


def read_csv(path, delimiter=","):
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file, delimiter=delimiter)
    return {name: [row[j] for row in rows] for j, name in enumerate(names)}


def parse(text):
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(word):
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


# Help and start-up


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, call):
    code, out, err = call(f"{command} --help")
    assert (code, err) == (0, "")
    assert "For example:" in out
    assert f"shoal {command}" in out


def test_without_a_command_the_help_is_shown(call):
    code, out, _ = call("")
    assert code == 0
    assert all(command in out for command in COMMANDS)


def test_version(call):
    assert call("--version") == (0, f"shoal {shoal.__version__}\n", "")


def test_nothing_heavy_is_imported_before_a_command_runs():
    heavy = {"numpy", "numba", "sklearn", "polars", "narwhals", "jinja2", "rich", "scipy"}
    code = f"import sys, shoal.cli; print(sorted({heavy!r} & set(sys.modules)))"
    assert run_python("-c", code).stdout.strip() == "[]"


def run_python(*args, **options):
    source = Path(shoal.__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONUTF8": "1"}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, env=environment, **options)


# inspect


def test_inspect_proposes_and_writes_a_schema(call):
    code, out, err = call("inspect people.csv --out proposal.toml --missing-mark ?")
    assert (code, err) == (0, "")
    assert "Proposed roles" in out
    assert "Most distinguishing columns" in out
    assert "unique rows" in out
    assert "--missing-mark '?'" in out
    written = shoal.Schema.from_toml("proposal.toml")
    assert written.names == PEOPLE[0]
    assert written["age"].kind == "numeric"
    assert "# proposed" in Path("proposal.toml").read_text()


def test_inspect_writes_beside_the_table_and_never_over_a_schema(call):
    code, out, err = call("inspect people.csv")
    assert code == 2
    assert "Proposed roles" in out
    assert "'people.toml' exists already" in err
    assert Path("people.toml").read_text() == SCHEMA
    assert call("inspect people.csv --force")[0] == 0
    assert Path("people.toml").read_text() != SCHEMA


def test_inspect_json(call):
    code, out, _ = call("inspect people.csv --out proposal.toml --missing-mark ? --json")
    found = parse(out)
    assert code == 0
    assert [attribute["name"] for attribute in found["attributes"]] == PEOPLE[0]
    assert found["rows"] == 10
    assert found["schema"] == "proposal.toml"
    assert {"prosecutor", "journalist", "marketer", "unique"} <= set(found["risk"])
    assert all(0 <= combination["separation"] <= 1 for combination in found["combinations"])


def test_inspect_a_table_without_quasi_identifiers(call):
    write_csv("same.csv", [["a"], *[["1"]] * 30])
    code, out, _ = call("inspect same.csv")
    assert code == 0
    assert "No column looks like a quasi-identifier" in out


# anonymize


def test_csv_to_csv_keeps_every_character_of_untouched_columns(call):
    code, out, err = call(f"{BASE} --k 3 --l 2")
    assert (code, err) == (0, "")
    assert "5-anonymous with respect to age, zip" in out
    released, raw = read_csv("out.csv"), read_csv("people.csv")
    assert list(released) == ["age", "zip", "disease", "note", "in study"]
    for name in ("note", "in study"):
        assert released[name] == raw[name]
    # Several marks would be several values to a reader, and are one to the privacy models.
    assert released["disease"] == ["" if value == "?" else value for value in raw["disease"]]
    assert call("check out.csv --schema people.toml --k 3 --l 2")[0] == 0


def test_numbers_that_are_not_generalised_stay_as_written(call):
    write_csv("people.csv", [["age", "zip"], *[["040.50", "8010"]] * 3, *[["1.0", "9020"]] * 3])
    Path("people.toml").write_text('[attributes.age]\nrole = "quasi"\nkind = "numeric"\n[attributes.zip]\n')
    assert call("anonymize people.csv --schema people.toml --k 3 --out out.csv")[0] == 0
    assert read_csv("out.csv") == read_csv("people.csv")


def test_dates_in_csv_are_numeric(call):
    dates = ["2020-01-02", "2020-03-04", "2021-01-01", "2021-05-06"]
    write_csv("people.csv", [["born"], *[[date] for date in dates]])
    Path("people.toml").write_text('[attributes.born]\nrole = "quasi"\nkind = "numeric"\n')
    assert call("anonymize people.csv --schema people.toml --k 2 --out out.csv")[0] == 0
    assert set(read_csv("out.csv")["born"]) == {"[2020-01-02, 2020-03-04]", "[2021-01-01, 2021-05-06]"}


@pytest.mark.parametrize(
    ("source", "out", "delimiter"), [("p.csv", "o.csv", ";"), ("p.tsv", "o.tsv", "\t"), ("p.tsv", "o.csv", ",")]
)
def test_the_separator_is_kept_where_the_ending_is(call, source, out, delimiter):
    write_csv(source, PEOPLE, "\t" if source.endswith("tsv") else ";")
    code, _, _ = call(f"anonymize {source} --schema people.toml --k 3 --missing-mark ? --out {out}")
    assert code == 0
    assert read_csv(out, delimiter)["note"] == read_csv("people.csv")["note"]


def test_blank_lines_are_no_people(call):
    Path("people.csv").write_text(Path("people.csv").read_text().replace("\na3", "\n\na3") + "\n\n")
    assert call(f"{BASE} --k 3")[0] == 0
    assert len(read_csv("out.csv")["age"]) == 10


def test_csv_to_parquet_has_types(call):
    assert call("anonymize people.csv --schema people.toml --k 3 --missing-mark ? --out out.parquet")[0] == 0
    released = pl.read_parquet("out.parquet")
    assert released["zip"].dtype == pl.String
    assert released["disease"].null_count() == 3
    assert released["note"][0] == "007"
    assert call("check out.parquet --schema people.toml --k 3")[0] == 0


def test_parquet_to_csv(call):
    pl.DataFrame({"age": [1, 2, 3, 4], "note": ["007", None, "x", "y"]}).write_parquet("people.parquet")
    Path("people.toml").write_text('[attributes.age]\nrole = "quasi"\nkind = "numeric"\n[attributes.note]\n')
    assert call("anonymize people.parquet --schema people.toml --k 2 --out out.csv")[0] == 0
    assert read_csv("out.csv") == {"age": ["[1, 2]", "[1, 2]", "[3, 4]", "[3, 4]"], "note": ["007", "", "x", "y"]}


def test_nested_columns_cannot_be_written_as_csv(call):
    pl.DataFrame({"age": [1, 2], "note": [[1], [2]]}).write_parquet("people.parquet")
    Path("people.toml").write_text('[attributes.age]\nrole = "quasi"\nkind = "numeric"\n[attributes.note]\n')
    code, _, err = call("anonymize people.parquet --schema people.toml --k 2 --out out.csv")
    assert code == 2
    assert err.startswith("shoal: 'out.csv' cannot be written")
    assert not Path("out.csv").exists()


def test_the_same_as_the_library(call):
    assert call(f"{BASE} --k 4 --recoding set --option mode=relaxed --threads 1")[0] == 0
    frame = files.mark_missing(files.read_table("people.csv", typed=False), ["?"], ["age", "zip", "disease"])
    schema = shoal.Schema.from_toml("people.toml")
    release = shoal.anonymize(frame, schema, k=4, recoding="set", mode="relaxed", n_jobs=1)
    for name in ("age", "zip"):
        assert read_csv("out.csv")[name] == [value or "" for value in release.frame[name]]


def test_a_seed_repeats_what_is_drawn(call):
    outputs = []
    for seed in (1, 1, 2, 3, 4):
        assert call(f"{BASE} --k 5 --recoding sample --seed {seed}")[0] == 0
        outputs.append(Path("out.csv").read_text())
    assert outputs[0] == outputs[1]
    assert len(set(outputs)) > 1


def test_anonymize_json_and_report(call):
    code, out, err = call(f"{BASE} --k 3 --beta 9 --delta 9 --alpha 0.9 --report report.html --json")
    assert (code, err) == (0, "")
    found = parse(out)
    assert found["promise"] == "5-anonymous with respect to age, zip"
    assert [model["key"] for model in found["models"] if model["holds"]] == ["k", "delta", "beta", "alpha"]
    assert found["risk"]["before"]["prosecutor"] == 1
    assert found["out"] == "out.csv"
    assert found["file"]["sha256"] in Path("report.html").read_text(encoding="utf-8")
    assert found["parameters"]["k"] == 3


def test_an_unbounded_level_is_valid_json(call):
    found = parse(call("check people.csv --schema people.toml --missing-mark ? --json")[1])
    assert "inf" in [measured["level"] for measured in found["measured"]]


def test_constraints_of_one_sensitive_attribute(call):
    Path("people.toml").write_text(SCHEMA.replace("[attributes.note]", '[attributes.note]\nrole = "sensitive"'))
    assert call(f"{BASE} --k 2 --l 3 --sensitive note")[0] == 0
    code, out, _ = call("check out.csv --schema people.toml --missing-mark ? --l 3 --sensitive note --json")
    asked = [measured for measured in parse(out)["measured"] if measured["asked"] is not None]
    assert code == 0
    assert [measured["attribute"] for measured in asked] == ["note"]


def test_a_part_of_the_population_is_released(call):
    code, _, _ = call(f"{BASE} --k 1 --kmap 3 --presence-high 0.9 --members 'in study'")
    assert code == 0
    released, raw = read_csv("out.csv"), read_csv("people.csv")
    members = [i for i, member in enumerate(raw["in study"]) if member == "yes"]
    assert "in study" not in released
    assert released["disease"] == [raw["disease"][i] for i in members]
    assert released["note"] == [raw["note"][i] for i in members]


def test_suppressed_rows(call):
    assert call("datasets census --rows 3000 --out c.csv")[0] == 0
    code, out, _ = call("anonymize c.csv --schema c.toml --k 5 --suppress 0.05 --out out.csv --json")
    assert code == 0
    quasi = [attribute.name for attribute in shoal.Schema.from_toml("c.toml").quasi]
    rows = zip(*(read_csv("out.csv")[name] for name in quasi), strict=True)
    assert 0 < parse(out)["suppressed"] == sum(set(row) == {"*"} for row in rows) <= 150


def test_an_old_output_is_replaced_only_by_a_good_one(call):
    Path("out.csv").write_text("old")
    assert call(f"{BASE} --k 99")[0] == 1
    assert Path("out.csv").read_text() == "old"
    assert call(f"{BASE} --k 3")[0] == 0
    assert Path("out.csv").read_text() != "old"


# check


def test_check_shows_what_holds(call):
    assert call(f"{BASE} --k 3")[0] == 0
    code, out, err = call("check out.csv --schema people.toml --missing-mark ? --k 3 --t 1")
    assert (code, err) == (0, "")
    assert "3-anonymity" in out
    assert "✓" in out
    assert "All requested levels are reached." in out


def test_check_exits_1_below_what_is_asked(call):
    assert call(f"{BASE} --k 3")[0] == 0
    code, out, err = call("check out.csv --schema people.toml --missing-mark ? --k 11")
    assert (code, err) == (1, "")
    assert "✗" in out
    assert "Not reached: 11-anonymity." in out


def test_check_json(call):
    code, out, _ = call("check people.csv --schema people.toml --missing-mark ? --k 2 --json")
    found = parse(out)
    assert code == 1
    assert found["holds"] is False
    assert found["rows"] == 10
    failed = [measured["key"] for measured in found["measured"] if measured["holds"] is False]
    assert failed == ["k", "identifier"]  # the raw table still names its people


def test_check_without_a_level_asked_for_is_a_look(call):
    assert call("check people.csv --schema people.toml --missing-mark ?")[0] == 0


def test_check_reads_only_the_columns_it_needs(call, monkeypatch):
    read = []

    def spy(path, **options):
        read.append(options["columns"])
        return original(path, **options)

    original = files.read_table
    monkeypatch.setattr(files, "read_table", spy)
    assert call("check people.csv --schema people.toml --missing-mark ?")[0] == 0
    assert read == [["id", "age", "zip", "disease"]]


def test_check_where_only_ascii_can_be_shown(folder):
    source = Path(shoal.__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    line = "check people.csv --schema people.toml --missing-mark ? --k 1"
    command = [sys.executable, "-m", "shoal.cli", *shlex.split(line)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    assert ">= 1" in done.stdout


# anonymize, guided


@pytest.mark.parametrize(
    ("options", "guide"),
    [
        ("--option guide=hard", "hard"),
        ("--option guide=hard --target income", "hard"),
        ("--model tree", 0.7),
        ("--model model.skops --trust", 0.7),
    ],
)
def test_a_guided_release_holds(census, options, guide):
    code, out, err = census(f"{GUIDED} {options} --json")
    assert (code, err) == (0, "")
    parameters = parse(out)["parameters"]
    assert parameters["guide"] == guide
    assert parameters["recoding"] == "representative"
    assert parameters["model"] == ("DecisionTreeClassifier" if "--model" in options else None)
    assert census("check out.csv --schema census.toml --k 10")[0] == 0
    assert set(read_csv("out.csv")["age"]) <= set(read_csv("census.csv")["age"])


def test_a_guided_release_is_that_of_the_library(census):
    assert census(f"{GUIDED} --model model.skops --trust --seed 3")[0] == 0
    model = load_model("model.skops", trust=True)
    schema = shoal.Schema.from_toml("census.toml")
    frame = files.read_table("census.csv")
    release = shoal.anonymize(frame, schema, 10, method="accuracy-guided", model=model, guide=0.7, random_state=3)
    assert read_csv("out.csv")["age"] == [str(age) for age in release.frame["age"]]


def test_guided_csv_to_csv_keeps_every_character_of_untouched_columns(census):
    rows = [[str(20 + i % 40), ["1.10", "2.50", "?"][i % 3], "007", "yes" if i % 40 > 15 else "no"] for i in range(80)]
    write_csv("people.csv", [["age", "size", "note", "y"], *rows])
    roles = {"age": ("quasi", "numeric"), "size": ("other", "numeric"), "note": ("other", "nominal")}
    roles["y"] = ("target", "nominal")
    lines = [f'[attributes.{name}]\nrole = "{role}"\nkind = "{kind}"\n' for name, (role, kind) in roles.items()]
    Path("people.toml").write_text("".join(lines))
    assert census(f"{BASE} --k 5 --method accuracy-guided --model tree")[0] == 0
    released, raw = read_csv("out.csv"), read_csv("people.csv")
    for name in ("size", "note", "y"):
        assert released[name] == raw[name]


@pytest.mark.parametrize("kind", ["labels", "probabilities", "numbers"])
def test_predictions_of_a_black_box(census, kind):
    chance = CENSUS.frame["age"] / 100
    says = {
        "labels": {"said": ["rich" if age > 40 else "poor" for age in CENSUS.frame["age"]]},
        "probabilities": {"<=50K": 1 - chance, ">50K": chance},
        "numbers": {"said": chance},
    }
    pl.DataFrame(says[kind]).write_csv("said.csv")
    code, _, err = census(f"{GUIDED} --predictions said.csv")
    assert (code, err) == (0, "")
    assert census("check out.csv --schema census.toml --k 10")[0] == 0
    # What decides a prediction here is the age alone, so groups keep it.
    released = [int(age) for age in read_csv("out.csv")["age"]]
    assert sum(abs(a - b) for a, b in zip(released, CENSUS.frame["age"], strict=True)) / 600 < 6


def test_any_column_can_be_the_target(census):
    assert census(f"{GUIDED} --target hours-per-week --option guide=hard")[0] == 0
    assert read_csv("out.csv")["hours-per-week"] == read_csv("census.csv")["hours-per-week"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--model tree --method mondrian", "'mondrian' takes no guide"),
        ("--target income --method mondrian", "'mondrian' takes no guide"),
        ("--model tree --predictions said.csv", "exclude each other"),
        ("--model treee", "'treee' is neither a file nor the name of a model"),
        ("--model nope.skops", "no file 'nope.skops'"),
        ("--model census.csv", "ends in '.csv'"),
        ("--model model.skops", "not known to be safe, sklearn.tree._tree.Tree: pass trust"),
        ("--model model.joblib", "'model.joblib' would run whatever code its maker put there"),
        ("--predictions nope.csv", "no file 'nope.csv'"),
        ("--predictions short.csv", "'short.csv' has 3 predictions for 600 rows"),
        ("--target age", "--target age has the role 'quasi'"),
        ("--target condition", "--target condition has the role 'sensitive'"),
        ("--target person-id", "--target person-id has the role 'identifier'"),
        ("--target nobody", "--target nobody is not in the schema"),
        ("--option guide=2", "guide must be 'auto', 'hard', 'soft', 'mondrian' or a number from 0 to 1, got 2"),
        ("--option k=5", "--option k=5 sets 'k', which is set by --k: use that instead"),
        ("--option model=tree", "'model', which is set by --model"),
        ("--option learn_from=old.csv", "'learn_from', which is set by --learn-from"),
        ("--option y=said.csv", "'y', which is set by --predictions"),
        ("--option random_state=3", "'random_state', which is set by --seed"),
        ("--option constraints=2", "'constraints', which is set by --l, --t and"),
        ("--option options=2", "has no option 'options'"),
    ],
)
def test_a_bad_guide_is_told_in_one_sentence(census, options, says):
    pl.DataFrame({"said": [1, 0, 1]}).write_csv("short.csv")
    code, out, err = census(f"{GUIDED} {options}")
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert err.endswith(".\n")
    assert not Path("out.csv").exists()


def test_a_trusted_pickle_is_loaded(census):
    assert census(f"{GUIDED} --model model.joblib --trust")[0] == 0


@pytest.mark.parametrize("command", ["anonymize", "protect", "train"])
def test_what_the_library_names_has_an_option_of_its_own(command, call):
    function = getattr(shoal, command)
    words = call(f"{command} --help")[1].split()
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind != parameter.VAR_KEYWORD:
            assert own_option(parameter.name).split(",")[0] in words


def test_what_is_told_of_files_has_an_option_of_its_own(call):
    words = call("anonymize --help")[1].split()
    assert {own_option(name) for name in OF_FILES if name != "source"} <= set(words)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_file_called_like_a_model_is_not_in_the_way(census, kind):
    Path("tree").mkdir() if kind == "folder" else Path("tree").write_text("")
    assert census(f"{GUIDED} --model tree")[0] == 0


def test_a_folder_is_no_model(census):
    Path("models").mkdir()
    assert "'models' is neither a file nor the name of a model" in census(f"{GUIDED} --model models")[2]


# anonymize, learning from other rows


@pytest.fixture
def years(census):
    """Run a command line beside a census in two parts, the older one to learn from."""
    CENSUS.frame[:400].write_csv("new.csv")
    CENSUS.frame[400:].write_csv("old.csv")
    return census


LEARNT = "anonymize new.csv --schema census.toml --k 10 --learn-from old.csv --out out.csv"


@pytest.mark.parametrize(
    ("method", "options", "target"),
    [
        ("mondrian", {}, None),
        ("accuracy-guided", {"guide": "hard"}, None),
        ("accuracy-guided", {"guide": "hard"}, "hours-per-week"),
    ],
)
def test_groups_learnt_from_other_rows_are_those_of_the_library(years, method, options, target):
    further = "".join(f" --option {name}={value}" for name, value in options.items())
    assert years(f"{LEARNT} --method {method}{further}" + (f" --target {target}" if target else ""))[0] == 0
    schema = CENSUS.schema if target is None else CENSUS.schema.with_roles(other=["income"], target=[target])
    new, old = files.read_table("new.csv"), files.read_table("old.csv")
    learnt = shoal.anonymize(new, schema, 10, method=method, learn_from=old, **options)
    alone = shoal.anonymize(new, schema, 10, method=method, **options)
    released = read_csv("out.csv")
    assert released["age"] == [str(age) for age in learnt.frame["age"]]
    assert released["age"] != [str(age) for age in alone.frame["age"]]
    assert released["income"] == read_csv("new.csv")["income"]
    assert years("check out.csv --schema census.toml --k 10")[0] == 0


def test_predictions_are_of_the_rows_that_are_learnt_from(years):
    line = f"{LEARNT} --method accuracy-guided --predictions said.csv"
    pl.DataFrame({"said": ["rich" if age > 40 else "poor" for age in CENSUS.frame["age"][400:]]}).write_csv("said.csv")
    assert years(line)[0] == 0
    pl.DataFrame({"said": ["poor"] * 400}).write_csv("said.csv")
    code, _, err = years(line)
    assert code == 2
    assert "400 predictions for 200 rows" in err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("method", ["mondrian", "accuracy-guided"])
def test_rows_to_learn_from_are_read_like_the_table(years, method, ending):
    old = CENSUS.frame[400:].with_columns(
        pl.when(pl.col(name).cast(int) % 10 == 0).then(pl.lit("?")).otherwise(pl.col(name).cast(str)).alias(name)
        for name in ("age", "hours-per-week")
    )
    old = old.select(reversed(old.columns))
    old.write_csv("old.csv") if ending == "csv" else old.write_parquet("old.parquet")
    line = f"{LEARNT.replace('old.csv', f'old.{ending}')} --method {method}"
    code, _, err = years(f"{line} --missing-mark ?")
    assert (code, err) == (0, "")
    assert years(line)[0] == 2


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_a_value_is_the_same_in_both_tables(call, out):
    # Alone, the first table would be read as truths, and the second one as texts.
    write_csv("people.csv", [["smokes"], *[["true"]] * 9, *[["false"]] * 9])
    write_csv("old.csv", [["smokes"], *[["true"]] * 9, *[["false"]] * 9, *[["unknown"]] * 9])
    Path("people.toml").write_text('[attributes.smokes]\nrole = "quasi"\nkind = "nominal"\n')
    assert call(f"anonymize people.csv --schema people.toml --k 5 --learn-from old.csv --out {out}")[0] == 0
    assert files.read_table(out, typed=False)["smokes"].to_list() == ["true"] * 9 + ["false"] * 9


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda old: old.drop("age"), "--learn-from old.csv has no column 'age', but 'new.csv' has"),
        (lambda old: old.with_columns(more=1), "--learn-from old.csv has the column 'more', but 'new.csv' does not"),
        (lambda old: old[:0], "'old.csv' has a header but no rows"),
    ],
)
def test_rows_that_cannot_be_learnt_from_are_told_in_one_sentence(years, change, says):
    change(CENSUS.frame[400:]).write_csv("old.csv")
    code, out, err = years(LEARNT)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert not Path("out.csv").exists()


def test_what_is_learnt_from_is_never_written_over(years):
    CENSUS.frame[:200].select("income").write_csv("said.csv")
    for line in (
        f"{LEARNT} --out old.csv",
        f"{LEARNT} --report old.csv",
        f"{GUIDED} --predictions said.csv --out said.csv",
    ):
        code, _, err = years(line)
        assert code == 2
        assert "would overwrite" in err


# Marks for missing values, where models look at every column

MARKED = [
    "anonymize people.{0} --schema people.toml --k 5 --method accuracy-guided --target y --out out.parquet",
    "anonymize people.{0} --schema people.toml --k 5 --method accuracy-guided --out out.parquet",
    "anonymize people.{0} --schema people.toml --k 5 --method accuracy-guided --out out.csv",
    "protect people.{0} --schema people.toml --k 5 --model tree --option guide=0.7 --out out",
    "train people.{0} --schema people.toml --estimator tree --sensitive age --out out",
    "frontier people.{0} --schema people.toml --k 5 --model tree --methods mondrian --seeds 1 --out out",
]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("line", MARKED)
def test_marks_are_missing_values_to_models(call, line, ending):
    people = pl.DataFrame({"age": [20 + i % 40 for i in range(240)]}).with_columns(
        size=pl.Series(["1.10", "2.50", "?"] * 80),
        y=pl.when(pl.col("age") > 35).then(pl.lit("a")).otherwise(pl.lit("b")),
    )
    people.write_csv("people.csv") if ending == "csv" else people.write_parquet("people.parquet")
    roles = {"age": ("quasi", "numeric"), "size": ("other", "numeric"), "y": ("target", "nominal")}
    lines = [f'[attributes.{name}]\nrole = "{role}"\nkind = "{kind}"\n' for name, (role, kind) in roles.items()]
    Path("people.toml").write_text("".join(lines))
    code, _, err = call(f"{line.format(ending)} --missing-mark ?")
    assert (code, err) == (0, "")
    if line.endswith("out.csv"):
        assert read_csv("out.csv")["size"] == ["1.10", "2.50", "?"] * 80


# protect


def test_protect_writes_a_release_a_model_and_a_report(census):
    code, out, err = census(f"{PROTECT} --out made/here")
    assert (code, err) == (0, "")
    written = {path.name for path in Path("made/here").iterdir()}
    assert written == {"released.csv", "model.skops", "training.json", "report.html"}
    for words in (
        "accuracy",
        "on 120 unseen rows",
        "10-anonymity",
        "Risk of re-identification",
        "made/here/report.html",
    ):
        assert words in out
    assert census("check made/here/released.csv --schema census.toml --k 10")[0] == 0
    assert len(read_csv("made/here/released.csv")["age"]) == 480


def test_a_protected_model_loads_and_predicts(census):
    assert census(f"{PROTECT} --out out")[0] == 0
    model = load_model("out/model.skops", trust=[TREE])
    assert set(model.predict(CENSUS.frame)) == {"<=50K", ">50K"}
    released = files.read_table("out/released.csv")
    again = make_model("tree", CENSUS.schema).fit(released, read_target(released, CENSUS.schema))
    assert list(model.predict(CENSUS.frame)) == list(again.predict(CENSUS.frame))


def test_protect_json(census):
    code, out, _ = census(f"{PROTECT} --l 2 --seed 4 --out out --json")
    found = parse(out)
    assert code == 0
    assert "points." in found["verdict"]
    assert found["comparison"]["rows"] == 120
    assert {"value", "low", "high"} == set(found["comparison"]["change"])
    assert found["release"]["promise"].startswith("10-anonymous with respect to age")
    assert [model["key"] for model in found["release"]["models"] if model["holds"]] == ["k", "l"]
    assert found["release"]["file"]["sha256"] in Path("out/report.html").read_text(encoding="utf-8")
    assert {"guide": 0.7, "recoding": "representative", "tried": []}.items() <= found["findings"].items()
    assert found["files"] == {name: f"out/{name}.{ending}" for name, ending in ENDINGS.items()}


ENDINGS = {"released": "csv", "model": "skops", "training": "json", "report": "html"}


def test_protect_is_the_same_as_the_library(census):
    assert census(f"{PROTECT} --seed 2 --test-size 0.3 --out out")[0] == 0
    schema = shoal.Schema.from_toml("census.toml")
    frame = files.read_table("census.csv")
    protection = shoal.protect(frame, schema, "tree", 10, guide=0.7, random_state=2, test_size=0.3)
    assert read_csv("out/released.csv")["age"] == [str(age) for age in protection.release.frame["age"]]


def test_protect_with_rows_to_compare_on_and_a_model_of_a_file(census):
    CENSUS.frame[:150].write_parquet("test.parquet")
    options = "--model model.skops --trust --test test.parquet --method mondrian --recoding median"
    code, out, _ = census(f"protect census.csv --schema census.toml --k 10 {options} --out out --json")
    found = parse(out)
    assert code == 0
    assert found["comparison"]["rows"] == 150
    assert found["release"]["rows"] == 600
    assert (found["release"]["method"], found["release"]["parameters"]["recoding"]) == ("mondrian", "median")


def test_protect_writes_parquet_from_parquet(census):
    CENSUS.frame.write_parquet("census.parquet")
    assert census(f"{PROTECT.replace('census.csv', 'census.parquet')} --out out")[0] == 0
    assert pl.read_parquet("out/released.parquet")["age"].dtype == CENSUS.frame["age"].dtype


@pytest.mark.parametrize(
    ("options", "says", "code"),
    [
        ("--model treee", "'treee' is neither a file nor the name of a model", 2),
        ("--model model.joblib", "would run whatever code", 2),
        ("--test nope.csv", "no file 'nope.csv'", 2),
        ("--test-size 1.5", "test_size=1.5", 2),
        ("--recoding set", "recoding='set' does not suit a model", 2),
        ("--method mondrain", "no method 'mondrain'", 2),
        ("--option k=5", "--option k=5 sets 'k'", 2),
        ("--out census.csv", "'census.csv' is a file: choose a folder", 2),
        ("--k 500", "k=500 cannot be reached", 1),
        ("--l 99", "cannot be reached", 1),
    ],
)
def test_what_cannot_be_protected_is_told_in_one_sentence(census, options, says, code):
    before = sorted(Path().rglob("*"))
    found, out, err = census(f"{PROTECT} --out made/here {options}")
    assert (found, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before


def test_protect_never_writes_over_its_input(census):
    Path("released.csv").write_bytes(Path("census.csv").read_bytes())
    code, _, err = census("protect released.csv --schema census.toml --k 10 --model tree --out .")
    assert code == 2
    assert "would overwrite 'released.csv'" in err


# train


def test_train_writes_a_model_its_rules_and_a_report(census):
    code, out, err = census(f"{TRAIN} --sensitive age --sensitive education=0.5 --out made/here")
    assert (code, err) == (0, "")
    written = {path.name for path in Path("made/here").iterdir()}
    assert written == {"model.skops", "report.html", "rules.txt", "training.json"}
    assert "Feature importances" in out
    assert "|--- " in Path("made/here/rules.txt").read_text()
    model = load_model("made/here/model.skops")
    assert model.sensitivity == {"age": 1.0, "education": 0.5}
    assert len(model.predict(CENSUS.frame.select(model.feature_names_in_.tolist()))) == CENSUS.frame.height


def test_train_json_is_the_same_as_the_library(census):
    code, out, err = census(f"{TRAIN} --max-accuracy-loss 0.05 --seed 3 --test-size 0.3 --folds 4 --json")
    assert (code, err) == (0, "")
    found = parse(out)
    training = shoal.train(
        pl.read_csv("census.csv"), shoal.Schema.from_toml("census.toml"), "tree", max_accuracy_loss=0.05, cv=4,
        test_size=0.3, random_state=3, max_depth=4,
    )  # fmt: skip
    assert found["verdict"] == training.verdict
    assert found["setting"] == training.search.best_.setting
    assert [one["name"] for one in found["features"]] == [one.name for one in training.leaning]
    assert found["comparison"]["after"]["value"] == training.comparison.after.value
    assert len(found["tried"]) == len(training.search.tried_)
    assert {one["setting"]["penalty"] for one in found["tried"]} > {0.0, 1.0}
    assert set(found["files"]) == {"model", "report", "rules", "training"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--estimator bush", "no estimator 'bush': choose tree, forest, boost"),
        ("--sensitive nobody", "'nobody' is not a feature of the model"),
        ("--sensitive age=old", "--sensitive age=old must be a name, or have the form name=weight"),
        ("--sensitive age=0", "No feature has a sensitivity above 0"),
        ("--sensitive age=7", "age"),
        ("--max-accuracy-loss -1", "max_accuracy_loss must be a number of at least 0 or None, got -1"),
        ("--max-importance 2 --max-accuracy-loss 0 --option max_depth=deep", "max_depth"),
        ("--option depth=3", "depth"),
        ("--option penalty=3", "The search sets 'penalty'"),
        ("--test nope.csv", "no file 'nope.csv'"),
        ("--folds 1", "1"),
        ("--jobs 0", "n_jobs must be"),
        ("--seed -1", "random_state must be"),
        ("--option sensitivity=age", "is set by --sensitive"),
        ("--out census.csv", "'census.csv' is a file: choose a folder"),
    ],
)
def test_what_cannot_be_trained_is_told_in_one_sentence(census, options, says):
    before = sorted(Path().rglob("*"))
    found, out, err = census(f"{TRAIN} --out made/here {options}")
    assert (found, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before


def test_train_never_writes_over_its_input(census):
    Path("model.skops").unlink()
    Path("census.csv").rename("report.html")
    code, _, err = census("train report.html --schema census.toml --estimator tree --out .")
    assert code == 2
    assert "report.html" in err


# frontier


def test_frontier_compares_methods(census):
    options = "--model tree --methods mondrian,accuracy-guided --k 10 --seeds 1 --out out --json"
    code, out, err = census(f"frontier census.csv --schema census.toml {options}")
    assert (code, err) == (0, "")
    assert [one["method"] for one in parse(out)["summary"]] == ["mondrian", "accuracy-guided"]
    assert Path("out/frontier.html").exists()


# methods, datasets, demo


def test_methods(call):
    code, out, _ = call("methods")
    assert code == 0
    assert "mondrian" in out
    assert "accuracy-guided" in out
    listed = parse(call("methods --json")[1])["methods"]
    assert all(method["name"] and method["about"].endswith(".") for method in listed)
    assert "median of each number" in out
    assert [one["name"] for one in parse(call("methods --json")[1])["recodings"]] == [*RECODINGS, "level"]


def test_datasets(call):
    code, out, _ = call("datasets")
    assert code == 0
    assert "census" in out
    assert parse(call("datasets --json")[1])["datasets"][0]["name"] == "census"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_data_set_is_written_with_its_schema(call, ending):
    code, out, _ = call(f"datasets census --rows 300 --seed 3 --out c.{ending} --json")
    assert code == 0
    assert parse(out) == {"file": f"c.{ending}", "schema": "c.toml"}
    assert call(f"anonymize c.{ending} --schema c.toml --k 5 --out out.{ending}")[0] == 0


def test_demo(call):
    code, out, err = call("demo --rows 600 --out made/here")
    assert (code, err) == (0, "")
    assert {path.name for path in Path("made/here").iterdir()} >= {
        "census.csv",
        "schema.toml",
        "released.csv",
        "model.skops",
        "report.html",
    }
    for words in (
        "Example of a person",
        "Training rows",
        "Two models on 120 unseen rows",
    ):
        assert words in out
    assert "made/here/report.html" in out
    command = "check made/here/released.csv --schema made/here/schema.toml --k 10 --l 3"
    assert f"shoal {command}" in out
    assert call(command)[0] == 0
    person = out.split("\n\n")[0]
    assert "(removed)" in person


def test_a_demo_of_nobody_leaves_nothing(call):
    before = sorted(Path().rglob("*"))
    code, _, err = call("demo --rows 0 --out made/here")
    assert code == 2
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before


# Large tables

LARGE = "anonymize fold --schema census.toml --k 5 --out out.parquet"


@pytest.fixture
def fold(census):
    """Run a command line beside a census in a folder of two files."""
    pytest.importorskip("duckdb")
    Path("fold/deep").mkdir(parents=True)
    for number in (1, 2):
        CENSUS.frame[300 * number - 300 : 300 * number].write_parquet(f"fold/{number}.parquet")
    return census


@pytest.fixture
def by_spark(monkeypatch):
    """What a command asks of Spark, which does not start: the names of functions and their arguments."""
    pytest.importorskip("pyspark")
    asked = []

    def stand_in(name):
        @wraps(getattr(job, name))
        def function(*arguments, **options):
            if options.get("engine") != "spark":
                return function.__wrapped__(*arguments, **options)
            asked.append((name, arguments, options))
            if name == "anonymize_file":
                raise ShoalError("There is no Spark.")
            return SimpleNamespace(risk=None)

        return function

    monkeypatch.setattr("shoal.engines.spark.running_spark", lambda *_: nullcontext("running"))
    for name in ("anonymize_file", "check_file"):
        monkeypatch.setattr(job, name, stand_in(name))
    return asked


@pytest.mark.parametrize("engine", ["memory", "duckdb", "spark"])
@pytest.mark.parametrize(
    "out", ["fold/1.parquet", "fold/new.parquet", "fold/deep/new.parquet", "other/new.parquet", "fold/link.parquet"]
)
def test_nothing_is_written_into_a_folder_that_is_read(fold, by_spark, engine, out):
    Path("other").symlink_to("fold/deep")
    Path("fold/link.parquet").symlink_to("../elsewhere.parquet")
    before = {path: path.read_bytes() for path in Path("fold").glob("?.parquet")}
    code, _, err = fold(f"{LARGE} --engine {engine} --out {out}")
    assert (code, err.count("\n")) == (2, 1)
    assert f"The input 'fold' is a folder, and '{out}' would be written into it" in err
    code, _, err = fold(f"{LARGE} --engine {engine} --report {out}")
    assert (code, "is a folder, and" in err) == (2, True)
    assert {path: path.read_bytes() for path in Path("fold").glob("?.parquet")} == before
    assert not by_spark


def test_other_commands_write_into_no_folder_that_is_read(fold):
    for line in (
        "protect fold --schema census.toml --k 10 --model tree --out fold/protected",
        "train fold --schema census.toml --estimator tree --out fold/deep",
        "clean fold --predictor model.skops --out fold/clean.csv",
    ):
        code, _, err = fold(line)
        assert (code, "is a folder, and" in err) == (2, True)
    assert sorted(str(path) for path in Path("fold").rglob("*")) == ["fold/1.parquet", "fold/2.parquet", "fold/deep"]


def test_without_room_to_measure_the_risk_nothing_is_released_from_disk(fold, monkeypatch):
    def full(*_, **__):
        raise ShoalError("There is no room.")

    monkeypatch.setattr("shoal.jobs.release.check_file", full)
    assert fold(f"{LARGE} --engine duckdb") == (2, "", "shoal: There is no room.\n")
    assert not Path("out.parquet").exists()


def test_spark_measures_the_risk_before_it_releases(fold, by_spark):
    assert fold(f"{LARGE} --engine spark --option rows_per_fragment=100")[0] == 2
    assert [name for name, *_ in by_spark] == ["check_file", "anonymize_file"]
    assert [options["master"] for *_, options in by_spark] == ["running", "running"]
    assert by_spark[1][2]["rows_per_fragment"] == 100


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("name", ["old.parquet", "file://{here}/old.parquet", "file:{here}/old.parquet"])
def test_spark_replaces_nothing(fold, by_spark, kind, name):
    Path("old.parquet").mkdir() if kind == "folder" else Path("old.parquet").touch()
    code, _, err = fold(f"{LARGE} --engine spark --out {name.format(here=Path.cwd())}")
    assert (code, err.count("\n")) == (2, 1)
    assert "old.parquet' exists already: choose another name, or remove it first." in err
    assert not by_spark


@pytest.mark.parametrize("start", ["hdfs://host/", "hdfs:///", "s3a://bucket/", "file://{here}/", "file:{here}/"])
def test_addresses_are_passed_to_spark_as_they_are(fold, by_spark, start):
    start = start.format(here=Path.cwd())
    line = f"anonymize {start}fold --schema census.toml --k 5 --engine spark --out {start}new.parquet"
    assert fold(line)[2] == "shoal: There is no Spark.\n"
    (_, checked, _), (_, released, _) = by_spark
    assert (checked[0], released[0], released[3]) == (f"{start}fold", f"{start}fold", f"{start}new.parquet")


def test_an_address_of_a_folder_that_is_read_is_that_folder(fold, by_spark):
    for source, out in (("fold", f"file://{Path.cwd()}/fold/new"), (f"file://{Path.cwd()}/fold", "fold/new")):
        code, _, err = fold(f"anonymize {source} --schema census.toml --k 5 --engine spark --out {out}")
        assert (code, "is a folder, and" in err) == (2, True)
    assert not by_spark


def test_the_table_that_spark_checks_may_be_at_an_address(fold, by_spark):
    with pytest.raises(AttributeError):  # what was asked is not answered
        fold("check hdfs:///people/new.parquet --schema census.toml --engine spark")
    assert by_spark[0][1][0] == "hdfs:///people/new.parquet"


@pytest.mark.parametrize("line", [f"{LARGE} --engine spark", "check fold --schema census.toml --engine spark"])
def test_ctrl_c_while_spark_runs_says_one_sentence(fold, by_spark, monkeypatch, line):
    def interrupted(*_, **__):
        logging.error("KeyboardInterrupt while sending command.")
        raise KeyboardInterrupt

    # A program has no handler of its own, as tests have: then what is logged goes to stderr.
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr("shoal.jobs.release.check_file", interrupted)
    assert fold(line) == (130, "", "shoal: interrupted; no partial files were left behind.\n")
    assert logging.root.handlers == []


@pytest.mark.parametrize("engine", ["memory", "duckdb", "spark"])
@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("memory=5", "sets 'memory', which is set by --memory: use that instead"),
        ('separator=";"', "sets 'separator', which is set by --separator: use that instead"),
        ('missing_marks="?"', "sets 'missing_marks', which is set by --missing-mark: use that instead"),
        ("threads=abc", "sets 'threads', which is set by --threads: use that instead"),
        ("master=x", "sets 'master', which is set by --master: use that instead"),
        ("source=x", "sets 'source', which is set by the first argument: use that instead"),
        ("out=x", "sets 'out', which is set by --out: use that instead"),
        ("reading=1", "has no option 'reading'"),
        ("large=1", "has no option 'large'"),
        ("options=1", "has no option 'options'"),
    ],
)
def test_what_has_an_option_of_its_own_is_no_further_one(fold, by_spark, engine, option, says):
    code, out, err = fold(f"{LARGE} --engine {engine} --option {shlex.quote(option)}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert not by_spark


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
@pytest.mark.parametrize("value", ["abc", "0", "-3", "2.5", "true"])
def test_rows_of_a_fragment_are_a_whole_number(fold, by_spark, engine, value):
    code, _, err = fold(f"{LARGE} --engine {engine} --option rows_per_fragment={value}")
    assert (code, err.count("\n")) == (2, 1)
    assert "rows_per_fragment must be a whole number of at least 1" in err
    assert not by_spark


def test_rows_of_a_fragment_and_its_place_are_further_options(fold):
    code, out, _ = fold(f"{LARGE} --engine duckdb --option rows_per_fragment=100 --option temporary=fold --json")
    assert (code, parse(out)["parameters"]["fragments"] > 2) == (0, True)
    code, _, err = fold(f"{LARGE} --engine duckdb --option temporary=5")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(("threads", "of_duckdb"), [(1, 1), (3, 3), (-1, None)])
def test_duckdb_has_the_threads_that_are_asked_for(fold, monkeypatch, threads, of_duckdb):
    from shoal.engines.duckdb.release import ResourceLimits

    made, asked = ResourceLimits.of, []

    def of(memory=None, threads=None):
        asked.append(threads)
        return made(memory, threads)

    monkeypatch.setattr(ResourceLimits, "of", of)
    assert fold(f"{LARGE} --engine duckdb --threads {threads}")[0] == 0
    assert asked == [of_duckdb, of_duckdb]


# Streams, signals, accidents


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with render.progress(2) as step:
        step("Reading people.csv")
    assert "Reading people.csv" in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with render.progress(2) as step:
        step("Reading people.csv")
    assert capsys.readouterr() == ("", "")


def test_an_interrupted_run_leaves_the_old_file(call, monkeypatch):
    Path("out.csv").write_text("old")

    def interrupted(frame, path, **options):
        Path(path).write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.LazyFrame, "sink_csv", interrupted)
    code, out, err = call(f"{BASE} --k 3")
    assert (code, out) == (130, "")
    assert err == "shoal: interrupted; no partial files were left behind.\n"
    assert Path("out.csv").read_text() == "old"
    assert not list(Path().glob(".*"))


def test_a_full_disk_is_told_in_one_sentence(call, monkeypatch):
    def full(frame, path, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.LazyFrame, "sink_csv", full)
    code, _, err = call(f"{BASE} --k 3")
    assert code == 2
    assert err.startswith("shoal: 'out.csv' cannot be written")
    assert err.count("\n") == 1
    assert not Path("out.csv").exists()


def test_a_weaker_guarantee_is_a_warning_of_one_line(call, monkeypatch):
    def warn(*_, **__):
        warnings.warn("The guarantee is weaker.", GuaranteeWarning, stacklevel=1)

    monkeypatch.setattr(render, "methods", warn)
    assert call("methods") == (0, "", "shoal: warning: The guarantee is weaker.\n")


@pytest.mark.parametrize(
    ("line", "function"),
    [
        (GUIDED, "shoal.jobs.release.release_table"),
        (PROTECT, "shoal.jobs.protect.protect"),
        (TRAIN, "shoal.jobs.train.train"),
        ("frontier census.csv --schema census.toml --model tree --jobs 0", "shoal.jobs.evaluate.evaluate"),
    ],
)
def test_what_the_library_refuses_is_told_in_one_line(census, monkeypatch, line, function):
    def refuse(frame, schema, *_, **__):
        raise ShoalError("Something is wrong:\nmend it.")

    monkeypatch.setattr(function, refuse)
    assert census(line) == (2, "", "shoal: Something is wrong: mend it.\n")


def test_defects_are_not_hidden(folder, monkeypatch):
    def broken(*_, **__):
        raise AttributeError("a defect")

    monkeypatch.setattr(render, "methods", broken)
    with pytest.raises(AttributeError):
        cli.run(["methods"])


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="there are no broken pipes here")
def test_a_closed_pipe_ends_it_silently(folder):
    source = Path(shoal.__file__).parent.parent
    process = subprocess.Popen(
        [sys.executable, "-m", "shoal.cli", "datasets"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(source)},
    )
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == -signal.SIGPIPE


def test_as_a_program(folder):
    done = run_python("-m", "shoal.cli", *shlex.split(f"{BASE} --k 3 --json"))
    assert (done.returncode, done.stderr) == (0, "")
    assert parse(done.stdout)["rows"] == 10
    done = run_python("-m", "shoal.cli", *shlex.split(f"{BASE} --k 300"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("shoal: k=300 cannot be reached")
