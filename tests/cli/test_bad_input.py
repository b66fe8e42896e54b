"""Bad input gets one sentence that names the culprit and the way out, an exit code, and changes nothing."""

import json
import shlex
from dataclasses import dataclass, field
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pytest

import shoal
from shoal import Attribute, Hierarchy, Recipe, Schema
from shoal.anonymizers import find_method, method_names, options_of
from shoal.cli import run
from shoal.errors import ShoalError
from shoal.privacy.models import MODELS

PEOPLE = """name,age,zip,sex,disease,note
Ada,31,8010,f,flu,007
Bob,34,8010,m,flu,1.10
Cleo,35,8020,f,cold,
Dan,39,8020,m,cold,x
Eve,42,9020,f,flu,"a, b"
Finn,45,9020,m,angina,?
Gus,51,9030,m,cold,z
Hal,58,9030,m,angina,z
"""
SCHEMA = """
[attributes.name]
role = "identifier"
[attributes.age]
role = "quasi"
kind = "numeric"
[attributes.zip]
role = "quasi"
kind = "nominal"
hierarchy = "zip.json"
[attributes.sex]
role = "quasi"
kind = "nominal"
[attributes.disease]
role = "sensitive"
kind = "nominal"
[attributes.note]
role = "other"
"""
ENTRIES = {
    "all": {"name": "*", "gen": "all", "level": 0},
    "8": {"name": "8***", "gen": "all", "level": 1},
    "9": {"name": "9***", "gen": "all", "level": 1},
    "8010": {"name": "8010", "gen": "8", "level": 2},
    "8020": {"name": "8020", "gen": "8", "level": 2},
    "9020": {"name": "9020", "gen": "9", "level": 2},
    "9030": {"name": "9030", "gen": "9", "level": 2},
}
BASE = "anonymize people.csv --schema people.toml --k 2 --out out.csv"


def hierarchy(**changes):
    return json.dumps({"name": "zip", "entries": ENTRIES | changes})


def schema(old, new):
    assert old in SCHEMA
    return {"people.toml": SCHEMA.replace(old, new, 1)}


def people(old, new):
    assert old in PEOPLE
    return {"people.csv": PEOPLE.replace(old, new, 1)}


@dataclass
class Case:
    name: str
    command: str
    says: str
    files: dict = field(default_factory=dict)
    code: int = 2


FILES = [
    Case("no such file", BASE.replace("people.csv", "nope.csv"), "no file 'nope.csv'"),
    Case("a folder for a file", BASE.replace("people.csv", "."), "is a folder"),
    Case("empty file", BASE, "'people.csv' is empty", {"people.csv": ""}),
    Case("header only", BASE, "'people.csv' has a header but no rows", {"people.csv": PEOPLE.split("\n")[0] + "\n"}),
    Case("not UTF-8", BASE, "'people.csv' is not UTF-8", {"people.csv": PEOPLE.encode().replace(b"Ada", b"\xc4da")}),
    Case("not UTF-8 in the header", BASE, "not UTF-8", {"people.csv": PEOPLE.encode().replace(b"sex", b"s\xebx")}),
    Case("column twice", BASE, "has the column 'age' 2 times", people("zip", "age")),
    Case("a line with too few fields", BASE, "Line 3 of 'people.csv' has 5 fields", people("flu,1.10", "flu")),
    Case("a line with too many fields", BASE, "Line 3 of 'people.csv' has 7 fields", people("1.10", "1,10")),
    Case(
        "a quote that does not end",
        BASE,
        "Line 9 of 'people.csv' cannot be read",
        {"people.csv": PEOPLE.replace('"', "").replace(", b", "").replace("Ada", '"Ada')},
    ),
    Case("bare carriage returns", BASE, "bare carriage returns", {"people.csv": PEOPLE.replace("\n", "\r")}),
    Case(
        "not a parquet",
        BASE.replace("people.csv", "people.parquet"),
        "'people.parquet' is not a readable Parquet",
        {"people.parquet": PEOPLE},
    ),
    Case("wrong ending", BASE.replace("people.csv", "people.xlsx"), "ends in '.xlsx'", {"people.xlsx": PEOPLE}),
    Case("separator of two characters", BASE + " --separator ';;'", "separator ';;'"),
    Case("wrong separator", BASE + " --separator ';'", "not a column"),
]
SCHEMAS = [
    Case("no schema file", BASE.replace("people.toml", "nope.toml"), "no schema file 'nope.toml'"),
    Case("schema is a folder", BASE.replace("people.toml", "."), "'.' cannot be read"),
    Case("schema is not TOML", BASE, "'people.toml' is not a TOML file", {"people.toml": "attributes = ["}),
    Case("schema without attributes", BASE, "must hold tables [attributes.NAME]", {"people.toml": "k = 5\n"}),
    Case("attribute is no table", BASE, "'age' must be a table", {"people.toml": "[attributes]\nage = 1\n"}),
    Case("unknown key", BASE, "'age' has the unknown key 'weigth'", schema('"numeric"', '"numeric"\nweigth = 2')),
    Case("unknown role", BASE, "'age' has the unknown role 'quasy'", schema('"quasi"', '"quasy"')),
    Case("role is a number", BASE, "'age' has the unknown role 1", schema('"quasi"', "1")),
    Case("unknown kind", BASE, "'age' has the unknown kind 'number'", schema('"numeric"', '"number"')),
    Case("negative weight", BASE, "'age' has the weight -1", schema('"numeric"', '"numeric"\nweight = -1')),
    Case("weight is a text", BASE, "'age' has the weight '2'", schema('"numeric"', '"numeric"\nweight = "2"')),
    Case(
        "order of a nominal attribute",
        BASE,
        "'sex' is nominal but has an order",
        schema('"nominal"\n[attributes.disease]', '"nominal"\norder = ["f", "m"]\n[attributes.disease]'),
    ),
    Case(
        "order is no list", BASE, "The order of 'age' must be a list", schema('"numeric"', '"ordinal"\norder = "low"')
    ),
    Case(
        "order lacks a value",
        BASE,
        "The order of attribute 'sex' lacks the value 'm'",
        schema('"nominal"\n[attributes.disease]', '"ordinal"\norder = ["f", "x"]\n[attributes.disease]'),
    ),
    Case(
        "order names a value twice",
        BASE,
        "The order of 'sex' names 'f' more than once",
        schema('"nominal"\n[attributes.disease]', '"ordinal"\norder = ["f", "f"]\n[attributes.disease]'),
    ),
    Case(
        "attribute is not in the file",
        BASE,
        "'income' is not a column",
        {"people.toml": SCHEMA + "[attributes.income]\n"},
    ),
    Case(
        "column is not in the schema",
        BASE,
        "Column 'note' is not in the schema",
        schema('[attributes.note]\nrole = "other"\n', ""),
    ),
    Case("no quasi-identifier", BASE, "no quasi-identifier", {"people.toml": SCHEMA.replace('"quasi"', '"other"')}),
]
HIERARCHIES = [
    Case(
        "hierarchy file is missing",
        BASE,
        "The hierarchy file 'zap.json' of attribute 'zip' is missing",
        schema("zip.json", "zap.json"),
    ),
    Case("hierarchy is not JSON", BASE, "'zip.json' is not JSON", {"zip.json": "{"}),
    Case("hierarchy without entries", BASE, "'zip.json' is not a hierarchy", {"zip.json": "{}"}),
    Case(
        "hierarchy does not cover a value",
        BASE,
        "attribute 'zip' holds the value '8030'",
        people("Ada,31,8010", "Ada,31,8030"),
    ),
    Case(
        "hierarchy with a cycle",
        BASE,
        "zip",
        {
            "zip.json": hierarchy(
                **{"8": {"name": "8", "gen": "9", "level": 1}, "9": {"name": "9", "gen": "8", "level": 1}}
            )
        },
    ),
    Case(
        "hierarchy with two roots", BASE, "zip", {"zip.json": hierarchy(**{"9": {"name": "9", "gen": "9", "level": 0}})}
    ),
    Case(
        "hierarchy with an unknown parent",
        BASE,
        "'7'",
        {"zip.json": hierarchy(**{"9": {"name": "9", "gen": "7", "level": 1}})},
    ),
    Case("unknown recipe", BASE, "'prefixes'", schema('"zip.json"', "{ prefixes = true }")),
    Case("recipe with a bad option", BASE, "'zip'", schema('"zip.json"', "{ intervals = [0] }")),
    Case("recipe with an option of the wrong type", BASE, "'zip'", schema('"zip.json"', "{ dates = 5 }")),
]
VALUES = [
    Case("text in a numeric column", BASE, "'age' is numeric but has the value 'old'", people("58", "old")),
    Case("infinity", BASE, "'age' holds the value inf", people("58", "inf")),
    Case("a date among numbers", BASE, "'age' is numeric but has the value '2020-01-01'", people("58", "2020-01-01")),
    Case("missing values are refused", BASE + " --missing error", "'age' has 1 missing value,", people("58", "")),
    Case("a mark is refused", BASE + " --missing error --missing-mark 58", "'age' has 1 missing value,"),
]
LEVELS = [
    Case("k = 0", BASE.replace("--k 2", "--k 0"), "k must be a whole number of at least 1, got 0"),
    Case("negative k", BASE.replace("--k 2", "--k -3"), "got -3"),
    Case("k is not a number", BASE.replace("--k 2", "--k two"), "'--k': 'two' is not a whole number"),
    Case("k is not given", BASE.replace("--k 2", ""), "'--k'"),
    Case("k above the number of rows", BASE.replace("--k 2", "--k 9"), "k=9 cannot be reached", code=1),
    Case(
        "l without a sensitive attribute",
        BASE + " --l 2",
        "needs a sensitive attribute",
        schema('"sensitive"', '"other"'),
    ),
    Case(
        "l above the number of values",
        BASE + " --l 4",
        "4-diversity (distinct) of every sensitive attribute cannot be reached",
        code=1,
    ),
    Case("l of 1.5 values", BASE + " --l 1.5", "whole number"),
    Case("l = 0", BASE + " --l 0", "got 0"),
    Case(
        "recursive without c",
        BASE + " --l 2 --l-kind recursive",
        "c of recursive l-diversity must be a number above 0, got None",
    ),
    Case("c without recursive", BASE + " --l 2 --c 3", "has no c"),
    Case("t above 1", BASE + " --t 1.5", "t of t-closeness must be a number from 0 to 1, got 1.5"),
    Case(
        "ordered distance of a nominal attribute",
        BASE + " --t 0.5 --t-distance ordered",
        "needs an order, but attribute 'disease' is nominal",
    ),
    Case("delta = 0", BASE + " --delta 0", "delta of delta-disclosure must be a number above 0"),
    Case("beta below 0", BASE + " --beta -1", "beta of beta-likeness must be a number above 0"),
    Case("alpha of 2", BASE + " --alpha 2", "alpha"),
    Case("sensitive attribute that is none", BASE + " --l 2 --sensitive sex", "'sex'"),
    Case("sensitive attribute without a model", BASE + " --sensitive disease", "--sensitive disease needs a model"),
    Case("members without a model", BASE + " --members note", "--members note needs --kmap"),
    Case("members that is no column", BASE + " --kmap 5 --members nobody", "'nobody'"),
    Case("members that is not true or false", BASE + " --kmap 5 --members note", "use true or false"),
    Case("presence upside down", BASE + " --presence-low 0.9 --presence-high 0.1 --members note", "low ≤ high"),
]


def cases_of(model):
    """Cases of every option of a privacy model."""
    asking = model.levels_asked()
    for option in model.options:
        hint, members = get_type_hints(model)[option.field], " --members note" * model.about_population
        value = get_args(hint)[0] if get_origin(hint) is Literal else 1
        needed = "--members" if model.about_population else asking[0].flag
        yield Case(f"{option.flag} is a word", f"{BASE} {option.flag} tight", f"'{option.flag}'")
        if option in asking:
            yield Case(f"{option.flag} is not a number", f"{BASE} {option.flag} nan{members}", "nan")
        if option not in asking or model.about_population:
            yield Case(f"{option.flag} alone", f"{BASE} {option.flag} {value}", f" needs {needed}")


OF_MODELS = [case for model in MODELS.values() for case in cases_of(model)]
OPTIONS = [
    Case("unknown method", BASE + " --method mondrain", "no method 'mondrain'"),
    Case("unknown recoding", BASE + " --recoding range", "got 'range'"),
    Case("suppression of 2", BASE + " --suppress 2", "suppression must be a number from 0 to 1, got 2.0"),
    Case("unknown option of the method", BASE + " --option mod=relaxed", "'mondrian' has no option 'mod'"),
    Case("option without a value", BASE + " --option mode", "--option mode must have the form name=value"),
    Case("seed that is none", BASE + " --recoding sample --seed -1", "-1"),
    Case("unknown option", BASE + " --kk 3", "--kk"),
    Case("unknown command", "anonymise people.csv", "'anonymise'"),
    Case("no command line for check", "check", "'FILE'"),
    Case("threshold of 0", "check people.csv --schema people.toml --threshold 0", "threshold"),
]
OUTPUTS = [
    Case("output folder is missing", BASE.replace("out.csv", "there/out.csv"), "The folder 'there' does not exist"),
    Case("output is a folder", BASE.replace("--out out.csv", "--out ."), "is a folder"),
    Case("output is the input", BASE.replace("out.csv", "people.csv"), "would overwrite 'people.csv'"),
    Case(
        "output is the input by another name",
        BASE.replace("out.csv", "./x/../people.csv"),
        "would overwrite 'people.csv'",
        {"x/y": ""},
    ),
    Case("output is the schema", BASE.replace("out.csv", "people.toml"), "would overwrite 'people.toml'"),
    Case("report is the output", BASE + " --report out.csv", "would overwrite 'out.csv'"),
    Case("report folder is missing", BASE + " --report there/report.html", "The folder 'there' does not exist"),
    Case("output of an unknown kind", BASE.replace("out.csv", "out.xlsx"), "ends in '.xlsx'"),
    Case("output without an ending", BASE.replace("out.csv", "out"), "ends in ''"),
    Case("inspect would overwrite", "inspect people.csv --out zip.json --json", "'zip.json' exists already"),
    Case("data set that is none", "datasets cencus", "no data set 'cencus'"),
    Case("rows of a fixed data set", "datasets adult --rows 5", "--rows 5"),
    Case("census of no people", "datasets census --rows -1 --out c.csv", "-1"),
]
CHECKS = [
    Case(
        "check lacks a column",
        "check people.csv --schema people.toml --k 2",
        "'age' is not a column",
        people("age", "Age"),
    ),
    Case(
        "check of an unknown column",
        "check people.csv --schema people.toml",
        "Column 'extra' is not in the schema",
        people("note", "extra"),
    ),
    Case("check of a folder", "check . --schema people.toml", "is a folder"),
    Case("check with k = 0", "check people.csv --schema people.toml --k 0", "got 0"),
    Case(
        "check of a numeric sensitive text",
        "check people.csv --schema people.toml",
        "'disease' is numeric but has the value",
        schema('kind = "nominal"\n[attributes.note]', 'kind = "numeric"\n[attributes.note]'),
    ),
]
OWN_OPTIONS = [
    Case(f"{method} {name}={value}", f"{BASE} --method {method} --option '{name}={value}'", f"{name} must be")
    for method in method_names()
    for name, constraint in options_of(find_method(method)).items()
    for value in sorted({str(value) for value in constraint.bad if type(value) in (str, int, float)})
    if name != "model"
]
CASES = [*FILES, *SCHEMAS, *HIERARCHIES, *VALUES, *LEVELS, *OF_MODELS, *OPTIONS, *OWN_OPTIONS, *OUTPUTS, *CHECKS]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "zip.json").write_text(hierarchy())
    return tmp_path


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_files_are_good_without_the_fault(folder, capsys):
    assert run(shlex.split(BASE)) == 0
    assert run(shlex.split("check out.csv --schema people.toml --k 2")) == 0
    assert capsys.readouterr().err == ""


def test_names_are_unique():
    assert len(CASES) >= 30
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_command_line(case, folder, capsys):
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = contents(folder)
    code = run(shlex.split(case.command))
    error = capsys.readouterr().err
    assert code == case.code
    assert_one_sentence(error.removesuffix("\n").removeprefix("shoal: "), case.says)
    assert error.startswith("shoal: ")
    assert contents(folder) == before


def assert_one_sentence(text, says):
    assert "\n" not in text
    assert text.endswith(".")
    assert says in text
    assert "Traceback" not in text


AGES = {"age": [31, 34, 35, 39], "sick": ["no", "yes", "no", "yes"]}
TABLE_SCHEMA = Schema([Attribute("age"), Attribute("sick", role="sensitive", kind="nominal")])


def anonymize(frame, **changes):
    return shoal.anonymize(frame, changes.pop("schema", TABLE_SCHEMA), **({"k": 2} | changes))


LIBRARY = {
    "mixed types": (lambda: anonymize(pd.DataFrame(AGES | {"age": [31, "34", 35, 39]})), "'age' mixes"),
    "lists in a column": (lambda: anonymize(pl.DataFrame(AGES | {"age": [[1], [2], [3], [4]]})), "'age' is of type"),
    "objects in a column": (lambda: anonymize(pd.DataFrame(AGES | {"age": [{1}, {2}, {3}, {4}]})), "'age' holds set"),
    "empty frame": (lambda: anonymize(pl.DataFrame({"age": [], "sick": []})), "no rows"),
    "no columns": (lambda: anonymize(pl.DataFrame()), "no columns"),
    "not a frame": (lambda: shoal.check({"age": [1]}, TABLE_SCHEMA), "dataframe is needed"),
    "column twice": (lambda: anonymize(pd.DataFrame([[1, 2]] * 4, columns=["age", "age"])), "'age'"),
    "infinity": (lambda: anonymize(pl.DataFrame(AGES | {"age": [1.0, 2.0, np.inf, 3.0]})), "holds the value inf"),
    "missing refused": (
        lambda: anonymize(pl.DataFrame(AGES | {"age": [1, None, 2, 3]}), missing="error"),
        "'age' has 1 missing value,",
    ),
    "unknown missing": (
        lambda: anonymize(pl.DataFrame(AGES), missing="drop"),
        "missing must be 'value' or",
    ),
    "constraint is no model": (lambda: anonymize(pl.DataFrame(AGES), constraints=[3]), "not 3"),
    "schema is no schema": (lambda: anonymize(pl.DataFrame(AGES), schema={"age": "quasi"}), "Schema"),
    "attribute twice": (lambda: Schema([Attribute("age"), Attribute("age")]), "'age' is in the schema more than once"),
    "nameless attribute": (lambda: Attribute(""), "name must be a text"),
    "unknown attribute": (lambda: TABLE_SCHEMA["zip"], "no attribute 'zip'"),
    "hierarchy of nothing": (lambda: Hierarchy.from_dict({}), "hierarchy"),
    "unknown recipe": (lambda: Recipe("prefixes"), "'prefixes'"),
    "unknown option": (lambda: anonymize(pl.DataFrame(AGES), modus="relaxed"), "no option 'modus'"),
    "risk of nothing measured": (lambda: anonymize(pl.DataFrame(AGES)).checked.level("m"), "'m' was not measured"),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_library(name):
    call, says = LIBRARY[name]
    with pytest.raises(ShoalError) as caught:
        call()
    assert_one_sentence(str(caught.value), says)


def test_an_unknown_category_after_fitting():
    fitted = shoal.Mondrian(Schema([Attribute("sick", kind="nominal")]), k=2).fit(pl.DataFrame({"sick": AGES["sick"]}))
    with pytest.raises(ShoalError) as caught:
        fitted.transform(pl.DataFrame({"sick": ["maybe"]}))
    assert_one_sentence(str(caught.value), "'maybe'")


def test_a_file_that_may_not_be_read(folder, capsys):
    (folder / "people.csv").chmod(0)
    try:
        (folder / "people.csv").read_bytes()
    except PermissionError:
        assert run(shlex.split(BASE)) == 2
        assert_one_sentence(capsys.readouterr().err.strip(), "'people.csv' cannot be read")
