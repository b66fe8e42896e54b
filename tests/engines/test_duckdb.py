"""Files that are larger than memory: what is written keeps what was asked for, and is checked as in memory."""

import time
from datetime import date, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from polars_engine import PolarsEngine
from shoal import (
    Attribute,
    DeltaPresence,
    KAnonymity,
    KMap,
    LDiversity,
    Mondrian,
    Schema,
    TCloseness,
    anonymize,
    check,
)
from shoal.data.files import copy_csv
from shoal.data.value_text import plain_text, positions_of
from shoal.datasets import make_census
from shoal.engines.base import CoarseTree, SplitTest, leaf_expression
from shoal.engines.fragments import fragment
from shoal.errors import DataError, GuaranteeError, ShoalError
from shoal.jobs.release import anonymize_file, check_file
from tables import with_odd_names, written_in_two_ways

duckdb = pytest.importorskip("duckdb")
from shoal.engines.duckdb.engine import DuckEngine, ResourceLimits, connected, literal, named  # noqa: E402
from shoal.engines.duckdb.release import _read_fragments  # noqa: E402


@pytest.fixture(scope="module")
def census():
    return make_census(6_000, seed=5)


@pytest.fixture
def source(census, tmp_path):
    census.frame.write_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def test_a_file_in_fragments_keeps_what_was_asked_for(census, source, tmp_path):
    asked = [LDiversity(2), TCloseness(0.6)]
    out = tmp_path / "out.parquet"
    found = anonymize_file(source, census.schema, 5, out, constraints=asked, rows_per_fragment=1_000)
    released = pl.read_parquet(out)
    assert found.parameters["fragments"] > 2
    assert released.height == 6_000
    assert "person-id" not in released.columns
    in_memory = check(released, census.schema, [KAnonymity(5), *asked])
    assert in_memory.holds
    assert [one.level for one in in_memory.measured] == pytest.approx([one.level for one in found.privacy])
    assert (in_memory.groups, in_memory.risk) == (found.checked.groups, found.risk)
    # Columns that are no quasi-identifiers are those of the table.
    assert sorted(released["capital-gain"]) == sorted(census.frame["capital-gain"])
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("n_files", [1, 3])
def test_rows_come_into_the_fragment_that_they_belong_to(tmp_path, n_files):
    # So many that they are read side by side, and come in no order.
    names, n = ["age", "sex", "education", "marital-status"], 600_000 // n_files
    found = make_census(600_000, seed=0)
    frame, schema = found.frame.select(names), Schema(found.schema[name] for name in names)
    (tmp_path / "in").mkdir()
    for i in range(n_files):
        frame[i * n : (i + 1) * n].write_parquet(tmp_path / "in" / f"{i}.parquet")
    with connected(ResourceLimits.of(2**30, 4), tmp_path) as session:
        engine = DuckEngine(session, tmp_path / "in", schema, ())
        cut = fragment(engine, Mondrian(schema, k=5), 100_000, 0)
        engine.sort_into_fragments(cut, tmp_path / "fragments")
    numbers = PolarsEngine(frame).leaves(cut.tree, cut.fragment_of_leaf.tolist())
    assert len(cut.rows) > 5
    for number, rows in _read_fragments(cut.rows, tmp_path / "fragments"):
        assert rows.equals(frame[np.flatnonzero(numbers == number)])


def test_one_fragment_is_the_release_in_memory(census, source, tmp_path):
    found = anonymize_file(source, census.schema, 10, tmp_path / "out.parquet")
    local = Mondrian(census.schema, k=10).fit_transform(census.frame)
    texts = pl.all().cast(pl.String)
    assert pl.read_parquet(tmp_path / "out.parquet").select(texts).equals(local.select(texts))
    assert found.parameters["fragments"] == 1


def test_one_vector_of_levels_for_all_rows_is_the_one_in_memory(census, tmp_path):
    names = ["age", "sex", "race", "education", "condition"]
    frame, schema = census.frame.select(names), Schema(census.schema[name] for name in names)
    frame.write_parquet(tmp_path / "people.parquet")
    asked = {"method": "flash", "suppression": 0.05, "constraints": [LDiversity(2)]}
    found = anonymize_file(
        tmp_path / "people.parquet", schema, 5, tmp_path / "out.parquet", rows_per_fragment=5_000, **asked
    )
    local = anonymize(frame, schema, 5, **asked)
    texts = pl.all().cast(pl.String)
    assert pl.read_parquet(tmp_path / "out.parquet").select(texts).equals(local.frame.select(texts))
    assert (found.suppressed, found.findings["levels"]) == (local.suppressed, local.findings["levels"])
    assert found.loss.ncp == pytest.approx(local.loss.ncp)
    with pytest.raises(DataError, match="more than 10 different rows"):
        anonymize_file(tmp_path / "people.parquet", schema, 5, tmp_path / "x.csv", method="flash", rows_per_fragment=10)
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("rows", [None, 200])
def test_only_members_of_a_population_are_handed_out(tmp_path, rows):
    frame = pl.DataFrame({"age": [20 + i % 30 for i in range(900)], "in": [i % 3 == 0 for i in range(900)]})
    frame.write_csv(tmp_path / "people.csv")
    schema = Schema([Attribute("age"), Attribute("in", "other", "nominal")])
    asked = [KMap(20, "in"), DeltaPresence(0.1, 0.9, "in")]
    out = tmp_path / "out.csv"
    found = anonymize_file(tmp_path / "people.csv", schema, 4, out, constraints=asked, rows_per_fragment=rows)
    assert found.checked.level("kmap") >= 20
    released = pl.read_csv(out)
    assert released.columns == ["age"]
    assert released.height == 300 == found.checked.rows
    assert released.group_by("age").len()["len"].min() >= 4
    if rows is None:
        local = anonymize(frame, schema, 4, constraints=asked)
        assert found.loss.ncp == pytest.approx(local.loss.ncp)


@pytest.mark.parametrize("rows", [None, 1_000])
def test_guided_groups_follow_a_column_of_predictions(census, tmp_path, rows):
    guided = census.frame.with_columns(says=pl.Series([i % 2 for i in range(census.frame.height)]))
    guided.write_parquet(tmp_path / "guided.parquet")
    how = {"method": "accuracy-guided", "guide": "hard", "recoding": "interval"}
    out = tmp_path / "out.parquet"
    anonymize_file(tmp_path / "guided.parquet", census.schema, 10, out, y="says", rows_per_fragment=rows, **how)
    released = pl.read_parquet(out)
    assert check(released, census.schema, [KAnonymity(10)]).holds
    if rows is None:
        local = anonymize(census.frame, census.schema, 10, y=guided["says"], **how).frame
        texts = pl.all().cast(pl.String)
        assert released.select(texts).equals(local.select(texts))


def test_the_same_file_gives_the_same_release(census, source, tmp_path):
    for name in ("one", "other"):
        anonymize_file(source, census.schema, 5, tmp_path / f"{name}.parquet", rows_per_fragment=1_000, threads=2)
    assert pl.read_parquet(tmp_path / "one.parquet").equals(pl.read_parquet(tmp_path / "other.parquet"))


def test_csv_keeps_every_character_of_what_is_not_changed(tmp_path):
    rows = [f"{20 + i % 40};{'?' if i % 7 == 0 else 'Graz'};00{i}" for i in range(400)]
    (tmp_path / "in.csv").write_text("age;town;note\n" + "\n".join(rows) + "\n")
    schema = Schema([Attribute("age"), Attribute("town", kind="nominal"), Attribute("note", "other", "nominal")])
    anonymize_file(tmp_path / "in.csv", schema, 5, tmp_path / "out.csv", rows_per_fragment=100, missing_marks=["?"])
    released = pl.read_csv(tmp_path / "out.csv", infer_schema=False, separator=";")
    assert sorted(released["note"]) == sorted(f"00{i}" for i in range(400))
    assert released.group_by("age", "town").len()["len"].min() >= 5


def test_a_table_is_checked_from_disk_as_in_memory(census, source, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "shoal.engines.duckdb.engine.BYTES_PER_CHECKED_ROW", 2**22
    )  # so that several pieces are looked at
    found = check_file(source, census.schema, [KAnonymity(2)], threshold=0.1)
    in_memory = check(census.frame, census.schema, [KAnonymity(2)], threshold=0.1)
    assert not found.holds
    assert [one.level for one in found.measured] == pytest.approx([one.level for one in in_memory.measured])
    assert found.risk == pytest.approx(in_memory.risk)
    assert [part.tolist() for part in found.sizes] == [part.tolist() for part in in_memory.sizes]


def test_blank_lines_are_no_people_and_short_ones_are_refused(tmp_path):
    schema = Schema([Attribute("age"), Attribute("town", kind="nominal")])
    people = tmp_path / "people.csv"
    people.write_text("age,town\n" + ",\n" * 3 + "\n\n" + "40,Graz\n" * 9)
    assert check_file(people, schema).rows == 12
    assert check_file(people, schema).level("k") == 3
    anonymize_file(people, schema, 5, tmp_path / "out.csv")
    assert pl.read_csv(tmp_path / "out.csv").height == 12
    people.write_text('"age\nyears",town\n40,Graz\n')
    with pytest.raises(DataError, match="a line break in the name of a column"):
        check_file(people, schema)
    people.write_text("age,town\n40,Graz\n41\n")
    with pytest.raises(DataError, match="Line 3 .* has 1 fields"):
        anonymize_file(people, schema, 1, tmp_path / "out.csv")


def test_words_for_true_and_false_are_needed(tmp_path):
    pl.DataFrame({"age": [1, 2] * 50, "in": ["Y", "N"] * 50}).write_parquet(tmp_path / "people.parquet")
    schema = Schema([Attribute("age"), Attribute("in", "other", "nominal")])
    with pytest.raises(ShoalError, match="holds '[YN]': use true or false"):
        check_file(tmp_path / "people.parquet", schema, [KMap(10, "in")])
    with pytest.raises(ShoalError, match="holds '[YN]': use true or false"):
        anonymize_file(tmp_path / "people.parquet", schema, 2, tmp_path / "o.csv", constraints=[KMap(10, "in")])
    # What is around a word does not count, whatever it is.
    pl.DataFrame({"age": [1] * 10, "in": ["true\t"] * 9 + ["false"]}).write_parquet(tmp_path / "tabs.parquet")
    assert not check_file(tmp_path / "tabs.parquet", schema, [DeltaPresence(0, 0.5, "in")]).holds
    with pytest.raises(ShoalError, match="'out' is not in the table"):
        check_file(tmp_path / "people.parquet", schema, [KMap(10, "out")])


@pytest.mark.parametrize("recoding", ["interval", "representative", "mean"])
def test_rows_that_mean_the_same_are_written_alike(tmp_path, recoding):
    frame, schema = written_in_two_ways()
    frame.write_parquet(tmp_path / "people.parquet")
    out, how = tmp_path / "out.parquet", {"rows_per_fragment": 500, "missing_marks": ["?", "NA"]}
    evidence = anonymize_file(tmp_path / "people.parquet", schema, 5, out, recoding=recoding, **how)
    assert evidence.k >= 5
    assert pl.read_parquet(out).group_by("age", "town").len()["len"].max() >= 3_000


def test_times_that_are_alike_and_many_are_written_alike(tmp_path):
    zone = pl.Datetime("us", "Europe/Vienna")
    times = pl.Series([datetime(2020, 1, 2, 18)] * 3_000 + [datetime(1990 + i % 30, 1, 1) for i in range(1_000)])
    frame = pl.DataFrame({"seen": times.dt.replace_time_zone("Europe/Vienna"), "said": times.cast(pl.String)})
    frame.write_parquet(tmp_path / "people.parquet")
    schema = Schema([Attribute("seen"), Attribute("said", kind="numeric")])
    how = {"rows_per_fragment": 500, "memory": 2**30}
    for recoding, kinds in (("representative", [zone, pl.String]), ("mean", [pl.Date, pl.Date])):
        out = tmp_path / f"{recoding}.parquet"
        anonymize_file(tmp_path / "people.parquet", schema, 5, out, recoding=recoding, **how)
        released = pl.read_parquet(out)
        assert released.dtypes == kinds
        assert released.group_by("seen", "said").len()["len"].max() >= 3_000


def test_means_of_dates_are_dates(tmp_path):
    born = [date(1950 + i % 50, 1 + i % 12, 1) for i in range(400)]
    frame = pl.DataFrame({"born": born, "said": [str(one) for one in born]})
    frame.write_parquet(tmp_path / "people.parquet")
    schema = Schema([Attribute("born"), Attribute("said", kind="numeric")])
    out = tmp_path / "out.parquet"
    anonymize_file(tmp_path / "people.parquet", schema, 5, out, recoding="mean", rows_per_fragment=100)
    released = pl.read_parquet(out)
    assert released.dtypes == [pl.Date, pl.Date]
    assert released["born"].is_between(min(born), max(born)).all()


def test_columns_may_have_any_name(tmp_path):
    frame, schema = with_odd_names()
    frame.write_parquet(tmp_path / "people.parquet")
    asked = [LDiversity(2, attribute="v"), KMap(8, "m")]
    how = {"constraints": asked, "rows_per_fragment": 200}
    assert anonymize_file(tmp_path / "people.parquet", schema, 4, tmp_path / "out.parquet", **how).k >= 4


def test_what_guides_is_not_released_unless_the_schema_says_so(tmp_path):
    frame = pl.DataFrame({"age": [20 + i % 40 for i in range(800)], "says": [i % 2 for i in range(800)]})
    frame.write_parquet(tmp_path / "people.parquet")
    out = tmp_path / "out.parquet"
    anonymize_file(
        tmp_path / "people.parquet", Schema([Attribute("age")]), 5, out, method="flash", y="says", rows_per_fragment=100
    )
    assert pl.read_parquet(out).columns == ["age"]


def test_the_same_csv_file_gives_the_same_release(census, tmp_path, monkeypatch):
    monkeypatch.setattr("shoal.engines.fragments.LEAST_SAMPLE", 500)
    monkeypatch.setattr("shoal.engines.fragments.SAMPLE_PER_FRAGMENT", 50)
    census.frame.write_csv(tmp_path / "people.csv")
    for name in ("one", "other"):
        anonymize_file(tmp_path / "people.csv", census.schema, 5, tmp_path / f"{name}.csv", rows_per_fragment=1_000)
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "other.csv").read_text()


def test_a_table_without_rows_or_quasi_identifiers_gets_a_sentence(tmp_path):
    empty = tmp_path / "empty.parquet"
    pl.DataFrame({"age": []}, {"age": pl.Int64}).write_parquet(empty)
    for call in (lambda: check_file(empty, Schema([Attribute("age")])),
                 lambda: anonymize_file(empty, Schema([Attribute("age")]), 2, tmp_path / "out.csv")):  # fmt: skip
        with pytest.raises(ShoalError, match="no rows|cannot be reached"):
            call()
    pl.DataFrame({"age": [1, 2]}).write_parquet(tmp_path / "people.parquet")
    with pytest.raises(ShoalError, match="no quasi-identifier"):
        anonymize_file(tmp_path / "people.parquet", Schema([Attribute("age", "other")]), 2, tmp_path / "out.csv")


def test_nothing_is_written_where_something_is_wrong(census, source, tmp_path):
    out = tmp_path / "out.parquet"
    with pytest.raises(GuaranteeError, match="cannot be reached"):
        anonymize_file(source, census.schema, 7_000, out)
    with pytest.raises(ShoalError, match="no method 'mondrain'"):
        anonymize_file(source, census.schema, 5, out, method="mondrain")
    with pytest.raises(DataError, match="does not exist"):
        anonymize_file(source, census.schema, 5, tmp_path / "nowhere" / "out.parquet")
    with pytest.raises(DataError, match="There is no file"):
        anonymize_file(tmp_path / "missing.parquet", census.schema, 5, out)
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["people.parquet"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_path_is_no_pattern_and_no_value(tmp_path, ending):
    # The first would find the file of another folder, and the second would be a column of the same name.
    place = tmp_path / "[ab]*" / "age=99"
    (tmp_path / "a").mkdir()
    place.mkdir(parents=True)
    frame = pl.DataFrame({"age": [20 + i % 30 for i in range(300)], "town": ["Graz", "Linz", "Wels"] * 100})
    people, out = place / f"p[1]?.{ending}", place / f"out{{1}}.{ending}"
    frame.write_parquet(people) if ending == "parquet" else frame.write_csv(people)
    schema = Schema([Attribute("age"), Attribute("town", kind="nominal")])
    assert check_file(people, schema).groups == check(frame, schema).groups
    found = anonymize_file(people, schema, 5, out, rows_per_fragment=50)
    assert found.parameters["fragments"] > 2
    released = (pl.read_parquet if ending == "parquet" else pl.read_csv)(out, glob=False)
    assert released.height == 300
    assert "99" not in released["age"].cast(pl.String)


def test_what_is_no_number_is_missing_as_null_is(tmp_path):
    ages = [None if i % 10 == 0 else float(20 + i % 50) for i in range(400)]
    schema, found, ends = Schema([Attribute("age", kind="numeric")]), [], []
    for name, none in (("null", None), ("nan", float("nan"))):
        frame = pl.DataFrame({"age": [none if age is None else age for age in ages]})
        (tmp_path / name).mkdir()
        for i in range(2):
            frame[i * 200 : (i + 1) * 200].write_parquet(tmp_path / name / f"{i}.parquet")
        with connected(ResourceLimits.of(2**30, 2), tmp_path) as session:
            seen = DuckEngine(session, tmp_path / name / "0.parquet", schema, ()).extremes(["age"])["age"]
            ends.append((seen.values.to_list(), seen.rows.tolist()))
        out = tmp_path / f"{name}.parquet"
        found.append(anonymize_file(tmp_path / name, schema, 5, out, rows_per_fragment=60))
        assert found[-1].parameters["fragments"] > 2
    assert ends[0] == ends[1] == ([21.0, 69.0, None], [1.0, 1.0, 20.0])
    assert found[0].loss == found[1].loss
    assert pl.read_parquet(tmp_path / "nan.parquet").equals(pl.read_parquet(tmp_path / "null.parquet"))


def test_moments_are_those_of_the_same_zone_wherever_they_are_compared(tmp_path, monkeypatch):
    # Windows has its own zone whatever is said.
    take_notice = getattr(time, "tzset", lambda: None)
    monkeypatch.setenv("TZ", "America/New_York")
    take_notice()
    try:
        with connected(ResourceLimits.of(2**30, 1), tmp_path) as session:
            assert session.connection.sql("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
            same = f"TIMESTAMPTZ '2020-01-02 18:00:00+00' = {literal(datetime(2020, 1, 2, 18))}"
            assert session.connection.sql(f"SELECT {same}").fetchall() == [(True,)]
    finally:
        monkeypatch.undo()
        take_notice()


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"age": [1, 2]}, r"'.*b\.parquet' has no column 'sick', which '.*a\.parquet' has"),
        (
            {"age": [1, 2], "sick": ["n", "n"], "x": [1, 1]},
            r"'.*a\.parquet' has no column 'x', which '.*b\.parquet' has",
        ),
        ({"age": ["1", "2"], "sick": ["n", "y"]}, r"'.*b\.parquet' has the column 'age' as String, but '.*' as Int64"),
    ],
)
def test_files_of_other_columns_are_refused(tmp_path, other, says):
    (tmp_path / "in").mkdir()
    pl.DataFrame({"age": [1, 2], "sick": ["n", "y"]}).write_parquet(tmp_path / "in" / "a.parquet")
    pl.DataFrame(other).write_parquet(tmp_path / "in" / "b.parquet")
    schema = Schema([Attribute("age"), Attribute("sick", "sensitive", "nominal")])
    with pytest.raises(DataError, match=says):
        check_file(tmp_path / "in", schema)
    for method in ("mondrian", "flash"):
        with pytest.raises(DataError, match=says):
            anonymize_file(tmp_path / "in", schema, 2, tmp_path / "out.csv", method=method)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("method", ["mondrian", "flash"])
def test_columns_may_have_another_order_in_each_file(tmp_path, method):
    frame = pl.DataFrame({"age": [20 + i % 30 for i in range(300)], "sick": ["no", "no", "yes"] * 100})
    (tmp_path / "in").mkdir()
    frame[:150].write_parquet(tmp_path / "in" / "a.parquet")
    pl.DataFrame(frame.get_columns()[::-1])[150:].write_parquet(tmp_path / "in" / "b.parquet")
    schema = Schema([Attribute("age"), Attribute("sick", "sensitive", "nominal")])
    anonymize_file(tmp_path / "in", schema, 5, tmp_path / "out.parquet", method=method, rows_per_fragment=60)
    released = pl.read_parquet(tmp_path / "out.parquet")
    assert released.columns == frame.columns
    assert sorted(released["sick"]) == sorted(frame["sick"])


def test_what_duckdb_says_while_rows_are_numbered_is_a_sentence(tmp_path):
    pl.DataFrame({"age": [1, 2]}).write_parquet(tmp_path / "people.parquet")
    with connected(ResourceLimits.of(2**30, 1), tmp_path) as session:
        engine = DuckEngine(session, tmp_path / "people.parquet", Schema([Attribute("age")]), ())
        with pytest.raises(DataError, match="cannot be read by DuckDB"):
            list(engine._number_rows(tmp_path / "people.parquet", "age > 'old'", tmp_path / "numbers"))


def test_columns_may_be_called_as_those_that_duckdb_adds(tmp_path):
    schema = Schema([Attribute("age"), Attribute("FileName", kind="nominal")])
    frame = pl.DataFrame({"age": [20 + i % 30 for i in range(300)], "FileName": ["a", "b", "c"] * 100})
    frame.write_parquet(tmp_path / "people.parquet")
    assert anonymize_file(tmp_path / "people.parquet", schema, 5, tmp_path / "o.csv", rows_per_fragment=60).k >= 5
    refused = {
        ("age", "Age"): "DuckDB does not distinguish the columns 'age' and 'Age'",
        ("age", "File_Row_Number"): "'File_Row_Number' has a name that DuckDB uses for itself",
        ("age", "__shoal_row"): "'__shoal_row' has a name that Shoal uses for itself",
    }
    for names, says in refused.items():
        pl.DataFrame({name: range(50) for name in names}).write_parquet(tmp_path / "odd.parquet")
        with pytest.raises(DataError, match=says):
            anonymize_file(tmp_path / "odd.parquet", Schema(map(Attribute, names)), 5, tmp_path / "out.csv")
    # Letters that only others know as capitals are two to DuckDB.
    pl.DataFrame({"größe": [1, 1], "GRÖSSE": [2, 2], "GRÖßE": [3, 3]}).write_parquet(tmp_path / "odd.parquet")
    assert check_file(tmp_path / "odd.parquet", Schema(map(Attribute, ["größe", "GRÖSSE", "GRÖßE"]))).level("k") == 2


def test_a_thousand_kinds_of_rows_alike_are_told_apart(tmp_path):
    frame = pl.DataFrame({"age": [1, 2_500, 9_000]})
    frame.write_parquet(tmp_path / "people.parquet")
    tree = CoarseTree(
        [SplitTest("age", high=5_000), None, None], [1, 0, 0], [2, 0, 1], [{"age": i} for i in range(1_500)]
    )
    with connected(ResourceLimits.of(2**30, 1), tmp_path) as session:
        engine = DuckEngine(session, tmp_path / "people.parquet", Schema([Attribute("age")]), ())
        route = leaf_expression(tree, engine.dialect, range(tree.n_leaves))
        assert engine._query(f"SELECT {route} AS n FROM {engine._from} ORDER BY age")["n"].to_list() == [3, 0, 1]


def test_what_is_read_is_not_written_over(census, source, tmp_path):
    (tmp_path / "in").mkdir()
    census.frame.write_parquet(tmp_path / "in" / "a.parquet")
    with pytest.raises(ShoalError, match="would overwrite"):
        anonymize_file(source, census.schema, 5, tmp_path / "in" / ".." / "people.parquet")
    with pytest.raises(ShoalError, match="would become a part of the table"):
        anonymize_file(tmp_path / "in", census.schema, 5, tmp_path / "in" / "b.parquet")
    assert pl.read_parquet(source).equals(census.frame)


@pytest.mark.parametrize("value", [0, -1, 2.5, True, "10"])
@pytest.mark.parametrize("name", ["rows_per_fragment", "threads"])
def test_counts_are_whole_numbers(census, source, tmp_path, name, value):
    with pytest.raises(ShoalError, match=f"{name} must be a whole number of at least 1 or None, got {value!r}"):
        anonymize_file(source, census.schema, 5, tmp_path / "out.csv", **{name: value})


@pytest.mark.parametrize("method", ["mondrian", "flash"])
def test_unknown_words_for_missing_values_are_refused(census, source, tmp_path, method):
    how = {"missing": "drop", "method": method, "rows_per_fragment": 1_000}
    with pytest.raises(ShoalError) as local:
        anonymize(census.frame, census.schema, 5, missing="drop", method=method)
    with pytest.raises(ShoalError) as found:
        anonymize_file(source, census.schema, 5, tmp_path / "out.csv", **how)
    assert str(found.value) == str(local.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a place without room")
def test_a_place_without_room_is_not_blamed_on_the_file(tmp_path):
    people = tmp_path / "people.csv"
    people.write_text("age,town\n40,Graz\n")
    with pytest.raises(DataError, match="The folder '/dev' has no room for a copy of '.*people.csv'"):
        copy_csv(people, Path("/dev/full"), ",")
    with pytest.raises(DataError, match="no folder '.*nowhere' for data that does not fit"):
        anonymize_file(people, Schema([Attribute("age")]), 1, tmp_path / "o.csv", temporary=tmp_path / "nowhere")


def test_dates_that_stand_for_no_end_come_last():
    days = np.array(["2020-01-01", "9999-12-31", "0001-01-01"], "datetime64[us]")
    assert positions_of(days, "until").tolist() == [18_262, 2_932_896, -719_162]
    moments = np.array(["2020-01-01T12:00:00.000001", "1969-12-31T18:00:00"], "datetime64[us]")
    assert positions_of(moments, "seen").tolist() == positions_of(moments.astype("datetime64[ns]"), "seen").tolist()
    assert plain_text(np.datetime64("9999-12-31T23:59:59.5", "us"), "date") == "9999-12-31 23:59:59.5"


def test_infinities_are_values_of_a_nominal_column(tmp_path):
    frame = pl.DataFrame({"size": [1.0, float("inf"), -float("inf"), 2.0, 2.5] * 100})
    frame.write_parquet(tmp_path / "people.parquet")
    schema = Schema([Attribute("size", kind="nominal")])
    evidence = anonymize_file(
        tmp_path / "people.parquet", schema, 5, tmp_path / "out.parquet", recoding="set", rows_per_fragment=120
    )
    assert (evidence.k, evidence.loss.ncp) == (100, 0)


def test_half_of_the_memory_is_used_if_nothing_is_said():
    assert ResourceLimits.of().memory > 2**28
    assert ResourceLimits.of(2**30, 3) == (2**30, 3)


def test_values_and_names_are_safe_in_sql():
    value, name = "o'clock; --", 'a "b"'
    found = duckdb.sql(f"SELECT {literal(value)} AS {named(name)}")
    assert (found.fetchall(), found.columns) == ([(value,)], [name])


@pytest.fixture
def command(census, source, tmp_path, capsys):
    from shoal.cli import run

    census.schema.to_toml(tmp_path / "people.toml")

    def call(*words):
        code = run([*map(str, words), "--schema", str(tmp_path / "people.toml")])
        return code, capsys.readouterr()

    return call


def test_the_command_line_works_from_disk(command, source, tmp_path):
    out = tmp_path / "out.parquet"
    code, said = command(
        "anonymize", source, "--k", 5, "--out", out, "--engine", "duckdb", "--report", tmp_path / "r.html"
    )
    assert code == 0
    assert "5-anonymous with respect to age" in said.out
    assert (tmp_path / "r.html").stat().st_size > 1_000
    assert command("check", out, "--k", 5, "--engine", "duckdb", "--memory", "1GB")[0] == 0
    assert command("check", out, "--k", 50, "--engine", "duckdb")[0] == 1


def test_a_file_that_does_not_fit_is_worked_on_from_disk_and_that_is_said(command, source, tmp_path):
    code, said = command("anonymize", source, "--k", 5, "--out", tmp_path / "out.parquet", "--memory", "100kB")
    assert code == 0
    assert "it is processed from disk" in said.err
    code, said = command("anonymize", source, "--k", 5, "--out", tmp_path / "out.parquet")
    assert (code, said.err.count("from disk")) == (0, 0)


def test_what_cannot_be_done_from_disk_is_said_in_a_sentence(command, source, tmp_path):
    out = ("--k", 5, "--out", tmp_path / "out.parquet", "--engine", "duckdb")
    code, said = command("anonymize", source, *out, "--learn-from", source)
    assert code == 2
    assert "--learn-from" in said.err
    code, said = command("anonymize", source, *out, "--memory", "plenty")
    assert (code, "not a size such as 4GB" in said.err) == (2, True)
