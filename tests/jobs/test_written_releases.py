"""The evidence is about the file: levels measured on what was written, read without any option, are those reported."""

import dataclasses
import json
import math

import numpy as np
import polars as pl
import pytest

from shoal import Attribute, KAnonymity, KMap, LDiversity, Schema, TCloseness, anonymize, check
from shoal.data import files, frames
from shoal.errors import GuaranteeError
from shoal.jobs.release import anonymize_file, make_anonymizer, release_table
from shoal.reports.report import to_json

N = 400
MARKS = ["?", "NA"]
SCHEMA = Schema(
    [
        Attribute("age"),
        Attribute("town", kind="nominal"),
        Attribute("ill", "sensitive", "nominal"),
        Attribute("cost", "sensitive", "numeric"),
        Attribute("since", "sensitive", "ordinal", order=["low", "mid", "high"]),
        Attribute("note", "other", "nominal"),
    ]
)
SPARK = pytest.param(
    "spark",
    marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")],
)


def people(*, texts):
    """Rows whose sensitive values are missing in every way in which a file can say so."""
    draw = np.random.default_rng(3)
    ill = draw.choice(["flu", "cold", "?", "NA", "", " ", "nan", "None", "ok"], N)
    costs = draw.choice(["1", "1.5", "02", "?", "NA", "3"], N)
    frame = pl.DataFrame(
        {
            "age": draw.integers(20, 60, N),
            "town": draw.choice(["Graz", "Wels", "?"], N),
            "ill": [None if i % 13 == 0 else one for i, one in enumerate(ill)],
            "cost": costs,
            "since": draw.choice(["low", "mid", "high", "?"], N),
            "note": [f"{i:04}" if i % 3 else "?" for i in range(N)],
        }
    )
    if texts:
        return frame
    cost = pl.col("cost").replace_strict({"?": math.nan, "NA": None, "1": 1.0, "1.5": 1.5, "02": 2.0, "3": 3.0})
    since = pl.col("since").replace_strict({"?": None}, default=pl.col("since")).cast(pl.Categorical)
    return frame.with_columns(cost.cast(pl.Float64), since)


def assert_same_levels(evidence, path, k, constraints=(), schema=SCHEMA):
    """Compare every measured level with one that is measured on the file alone."""
    found = check(files.read_table(path, typed=False), schema, [KAnonymity(k), *constraints])
    assert found.holds
    assert (found.rows, found.groups) == (evidence.checked.rows, evidence.checked.groups)
    assert found.risk.prosecutor == evidence.risk.prosecutor
    levels = {one.model: one.level for one in evidence.privacy}
    assert len(found.measured) > 20
    for one in found.measured:
        assert levels[one.model] == pytest.approx(one.level), one.model


def written_in_memory(source, out, constraints, marks, kind):
    raw = files.read_table(source, typed=False)
    names = [one.name for one in SCHEMA if one.role in ("quasi", "sensitive")]
    anonymizer = make_anonymizer("mondrian", SCHEMA, 5, constraints=constraints)
    seen = files.mark_missing(raw, marks, names)
    release = release_table(anonymizer, "mondrian", seen, texts=raw, missing_marks=marks).release
    getattr(release, f"to_{kind}")(out)
    return release


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("source", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("engine", ["memory", "duckdb", SPARK])
def test_the_file_has_the_levels_of_the_evidence(tmp_path, engine, source, ending):
    people(texts=source.endswith("csv")).pipe(
        lambda frame: (
            frame.write_csv(tmp_path / source) if source.endswith("csv") else frame.write_parquet(tmp_path / source)
        )
    )
    out = tmp_path / f"out.{ending}"
    constraints = [LDiversity(2, attribute="ill"), TCloseness(0.6, attribute="cost")]
    if engine == "memory":
        kind = "parquet" if ending == "parquet" else "csv"
        evidence = written_in_memory(tmp_path / source, out, constraints, MARKS, kind)
    else:
        pytest.importorskip({"duckdb": "duckdb", "spark": "pyspark"}[engine])
        how = {"master": "local[2]"} if engine == "spark" else {}
        evidence = anonymize_file(
            tmp_path / source, SCHEMA, 5, out, engine=engine, constraints=constraints, missing_marks=MARKS,
            rows_per_fragment=150, **how,
        )  # fmt: skip
    if engine == "spark" and ending != "parquet":
        parts = [files.read_table(part, typed=False) for part in sorted(out.glob("part-*.csv"))]
        files.write_table(frames.open_frame(pl.concat(parts)), out := tmp_path / f"all.{ending}")
    assert_same_levels(evidence, out, 5, constraints)
    assert evidence.missing_marks == tuple(MARKS)
    written = files.read_table(out, typed=False)
    assert not set(written["ill"].drop_nulls()) & set(MARKS)
    # Columns that no privacy model looks at keep every character.
    assert sorted(written["note"]) == sorted(files.read_table(tmp_path / source, typed=False)["note"])


def test_several_marks_in_a_sensitive_column_are_one_value_in_the_file(tmp_path):
    rows = ["age,ill", *(f"{20 + i // 10},{'?' if i < 20 else 'NA'}" for i in range(40))]
    (tmp_path / "people.csv").write_text("\n".join(rows) + "\n")
    schema = Schema([Attribute("age"), Attribute("ill", "sensitive", "nominal")])
    raw = files.read_table(tmp_path / "people.csv", typed=False)
    anonymizer = make_anonymizer("mondrian", schema, 5, constraints=[TCloseness(0.1)])
    release = release_table(
        anonymizer, "mondrian", files.mark_missing(raw, MARKS, ["ill"]), texts=raw, missing_marks=MARKS
    ).release
    release.to_csv(tmp_path / "out.csv")
    found = check(files.read_table(tmp_path / "out.csv", typed=False), schema, [TCloseness(0.1)])
    assert found.holds
    assert release.checked.level("t") == found.level("t") == 0
    assert json.loads(to_json(release))["missing_marks"] == MARKS


def test_texts_are_restored_before_the_check():
    schema = Schema([Attribute("age"), Attribute("ill", "sensitive", "nominal")])
    # The method sees one value throughout, but the texts that would be written tell two groups apart.
    seen = pl.DataFrame({"age": [20] * 5 + [50] * 5, "ill": ["a"] * 10})
    texts = seen.with_columns(ill=pl.Series(["a"] * 5 + ["b"] * 5))
    anonymizer = make_anonymizer("mondrian", schema, 5, constraints=[TCloseness(0.1)])
    with pytest.raises(GuaranteeError, match="t-closeness"):
        release_table(anonymizer, "mondrian", seen, texts=texts)


def test_a_population_is_measured_and_left_out_of_the_file(tmp_path):
    schema = Schema([*SCHEMA, Attribute("in", "other", "nominal")])
    frame = people(texts=False).with_columns(pl.Series("in", [i % 3 == 0 for i in range(N)]))
    frame = frame.with_columns(
        note=pl.when("in")
        .then("note")
        .otherwise(pl.lit("left out"))
        .cast(pl.Enum([*dict.fromkeys(f"{i:04}" for i in range(N)), "?", "left out"]))
    )
    release = anonymize(frame, schema, 3, constraints=[KMap(6, "in")])
    release.to_parquet(tmp_path / "out.parquet")
    rest = Schema(one for one in schema if one.name != "in")
    assert_same_levels(release, tmp_path / "out.parquet", 3, (), rest)
    # Files list all categories of a column; those of rows that were left out are none of them.
    assert b"left out" not in (tmp_path / "out.parquet").read_bytes()


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_of_any_library_have_the_levels_of_the_evidence(tmp_path, kind, ending):
    frame = frames.convert(people(texts=False), kind)
    constraints = [LDiversity(2, attribute="ill")]
    release = anonymize(frame, SCHEMA, 5, constraints=constraints)
    getattr(release, f"to_{ending}")(tmp_path / f"out.{ending}")
    assert_same_levels(release, tmp_path / f"out.{ending}", 5, constraints)


def test_categories_that_do_not_occur_are_not_released(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"age": [20, 21, 22, 23], "note": pandas.Categorical(["a"] * 4, categories=["a", "Ms. Secret"])}
    )
    schema = Schema([Attribute("age"), Attribute("note", "other", "nominal")])
    release = anonymize(frame, schema, 2)
    assert list(release.frame["note"].cat.categories) == ["a"]
    release.to_parquet(tmp_path / "out.parquet")
    assert b"Secret" not in (tmp_path / "out.parquet").read_bytes()
    assert list(frame["note"].cat.categories) == ["a", "Ms. Secret"]


def test_a_release_is_frozen():
    release = anonymize(people(texts=False), SCHEMA, 5)
    for name in ("frame", "checked", "schema", "labels", "loss"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(release, name, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.other = 1


def test_the_printed_levels_are_those_of_the_file(tmp_path, monkeypatch, capsys):
    from shoal import cli

    monkeypatch.chdir(tmp_path)
    people(texts=True).write_csv("people.csv")
    SCHEMA.to_toml("people.toml")
    marks = " ".join(f"--missing-mark {mark}" for mark in MARKS)
    line = f"anonymize people.csv --schema people.toml --k 5 --l 2 {marks} --out out.csv --json"
    assert cli.run(line.split()) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["missing_marks"] == MARKS
    assert cli.run(["check", "out.csv", "--schema", "people.toml", "--k", "5", "--l", "2", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    released = {one["model"]: one["level"] for one in printed["models"]}
    for one in checked["measured"]:
        assert released[one["model"]] == pytest.approx(one["level"]), one["model"]
