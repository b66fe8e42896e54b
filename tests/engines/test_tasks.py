"""Files released by tasks that read and write them: what comes out is right whoever runs the tasks, and how often."""

import datetime as dt
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polars_engine import PolarsEngine
from shoal import Attribute, KAnonymity, Schema, anonymize, check
from shoal.data.files import mark_missing, read_table
from shoal.data.schema import Recipe
from shoal.datasets import make_census
from shoal.engines.base import CoarseTree, SplitTest
from shoal.engines.partial_release import add_losses
from shoal.engines.tasks.checking import check_pieces
from shoal.engines.tasks.engine import PieceEngine, PieceReader, can_compare, number_rows, pieces_of, plain_types
from shoal.engines.tasks.exchange import RowExchange
from shoal.engines.tasks.release import release_pieces
from shoal.errors import DataError
from shoal.jobs.release import make_anonymizer
from shoal.privacy.checking import Judge
from shoal.privacy.models import LDiversity, TCloseness

QUASI = ["age", "sex", "race", "education", "native-country"]
NAMES = [*QUASI, "condition", "income"]


class OneAfterTheOther:
    def each(self, function, items):
        return [function(item) for item in items]

    def by_box(self, pack, items, n_boxes, function):
        boxes = [[] for _ in range(n_boxes)]
        for found in self.each(lambda item: list(pack(item)), items):
            for box, one in found:
                boxes[box].append(one)
        return self.each(function, boxes)


class Twice(OneAfterTheOther):
    """As Spark does when a worker is lost after its task was done."""

    def each(self, function, items):
        for item in items:
            function(item)
        return [function(item) for item in reversed(items)][::-1]


@pytest.fixture(scope="module")
def census():
    made = make_census(6_000, seed=3)
    return made.frame.select(NAMES), Schema([made.schema[name] for name in NAMES])


@pytest.fixture
def source(census, tmp_path):
    folder = tmp_path / "table.parquet"
    folder.mkdir()
    for number in range(3):
        census[0][2_000 * number : 2_000 * (number + 1)].write_parquet(folder / f"{number}.parquet", row_group_size=700)
    return folder


def release(source, schema, out, *, method="mondrian", constraints=(), rows=1_000, runner=None,
            y=None, marks=(), a_piece=900, **options):  # fmt: skip
    out.mkdir()
    anonymizer = make_anonymizer(method, schema, 10, constraints=constraints, **options)
    types = plain_types(source)
    assert types is not None
    reader = PieceReader.of(types, schema, marks, y)
    engine = PieceEngine(runner or OneAfterTheOther(), pieces_of(source, a_piece), reader, out / "sorted")
    asked = (KAnonymity(10), *constraints)
    staged = release_pieces(engine, anonymizer, out / "table", rows_per_fragment=rows)
    found = SimpleNamespace(
        **staged._asdict(), n_fragments=staged.parameters["fragments"], checked=staged.measure(asked)
    )
    return found, pl.read_parquet(sorted((out / "table").iterdir()), hive_partitioning=False, glob=False)


GUIDED = pytest.param("accuracy-guided", marks=pytest.mark.slow)


@pytest.mark.parametrize("method", ["mondrian", "hilbert", "rplus", "sangreea", GUIDED])
def test_fragments_keep_what_was_asked_for_and_every_row(census, source, tmp_path, method):
    frame, schema = census
    constraints = (LDiversity(3, attribute="condition"),)
    found, written = release(source, schema, tmp_path / "out", method=method, constraints=constraints)
    assert found.n_fragments > 3
    assert written.height == frame.height
    rest = ["condition", "income"]
    assert written[rest].cast(pl.String).sort(rest).equals(frame[rest].cast(pl.String).sort(rest))
    expected = check(written, schema, (KAnonymity(10), *constraints))
    assert found.checked.holds
    # What tasks have counted in boxes is what is in the table.
    assert found.checked.measured == expected.measured
    assert found.checked.risk == expected.risk


def test_closeness_is_to_the_whole_table(census, source, tmp_path):
    _, schema = census
    constraints = (TCloseness(0.3, attribute="condition"),)
    found, written = release(source, schema, tmp_path / "out", constraints=constraints)
    expected = check(written, schema, (KAnonymity(10), *constraints))
    assert [one.holds for one in found.checked.measured[:2]] == [True, True]
    for ours, theirs in zip(found.checked.measured, expected.measured, strict=True):
        assert ours.level == pytest.approx(theirs.level)


def test_one_fragment_is_the_release_in_memory(census, source, tmp_path):
    frame, schema = census
    found, written = release(source, schema, tmp_path / "out", rows=10_000)
    local = anonymize(frame, schema, 10)
    assert found.n_fragments == 1
    assert written.cast(pl.String).equals(local.frame.cast(pl.String))
    assert add_losses(found.parts).ncp == pytest.approx(local.loss.ncp)


def test_tasks_that_run_twice_change_nothing(census, source, tmp_path):
    once, written = release(source, census[1], tmp_path / "once")
    again, written_again = release(source, census[1], tmp_path / "again", runner=Twice())
    assert written.equals(written_again)
    assert add_losses(once.parts).ncp == add_losses(again.parts).ncp
    assert {one.suffix for one in (tmp_path / "again" / "table").iterdir()} == {".parquet"}


def test_rows_alike_that_are_too_many_are_passed_on(census, tmp_path):
    frame, schema = census
    same = pl.concat([frame[:1]] * 5_000).with_columns(frame["condition"][:5_000])
    source = tmp_path / "skewed.parquet"
    pl.concat([frame, same]).write_parquet(source, row_group_size=900)
    found, written = release(source, schema, tmp_path / "out")
    assert written.height == 11_000
    assert found.checked.holds
    assert max(found.checked.sizes.rows) >= 5_000
    assert check(written, schema, [KAnonymity(10)]).measured[0] == found.checked.measured[0]


def test_marks_are_missing_values_and_what_guides_is_left_out(census, tmp_path):
    frame, schema = census
    race = pl.when(pl.int_range(pl.len()) % 7 == 0).then(pl.lit("?")).otherwise(pl.col("race").cast(pl.String))
    source = tmp_path / "table.parquet"
    frame.with_columns(race.alias("race"), (pl.col("age") > 40).alias("says")).write_parquet(source)
    found, written = release(source, schema, tmp_path / "out", method="accuracy-guided", y="says", marks=["?"])
    assert found.checked.holds
    assert written.columns == NAMES


@pytest.mark.parametrize("recoding", ["interval", "representative"])
@pytest.mark.parametrize("kind", [pl.String, pl.Categorical])
def test_texts_identifiers_marks_and_suppressed_rows_are_as_in_memory(census, tmp_path, kind, recoding):
    frame, schema = census
    texts = frame.with_columns(pl.col(pl.Enum).cast(pl.String)).with_columns(
        pl.when(pl.int_range(pl.len()) % 5 == 0).then(pl.lit("?")).otherwise(pl.col("race")).alias("race"),
        pl.format("person {}", pl.int_range(pl.len())).alias("name"),
        pl.format("says {}", pl.int_range(pl.len()) % 50).alias("note"),
    )
    more = [Attribute("name", role="identifier"), Attribute("note", role="other")]
    schema = Schema([*schema, *more])
    source = tmp_path / "texts.parquet"
    texts.with_columns(pl.col(pl.String).cast(kind)).write_parquet(source, row_group_size=700)
    how = {"suppression": 0.05, "recoding": recoding}
    found, written = release(source, schema, tmp_path / "out", marks=["?"], rows=10_000, **how)
    missing = pl.when(pl.col("race") != "?").then(pl.col("race"))
    local = anonymize(texts.with_columns(missing.alias("race")), schema, 10, **how)
    assert found.n_fragments == 1
    assert local.loss.ncp == pytest.approx(add_losses(found.parts).ncp)
    assert sum(part.sizes.n_suppressed for part in found.parts) == local.suppressed > 0
    assert written.schema["race"] == written.schema["condition"] == pl.String
    assert written.cast(pl.String).equals(local.frame.cast(pl.String))
    # Words that no row of a file has are not in it either.
    assert not any(b"person 1" in file.read_bytes() for file in (tmp_path / "out").rglob("*.*"))


def test_values_that_come_while_the_table_is_read_are_not_released(census, source, tmp_path):
    class Changing(OneAfterTheOther):
        def each(self, function, items):
            found = super().each(function, items)
            other = pl.read_parquet(source / "2.parquet").with_columns(pl.lit("Other, too").alias("race"))
            other.with_columns(pl.col("race").cast(pl.Enum(["Other, too"]))).write_parquet(source / "2.parquet")
            return found

    with pytest.raises(DataError, match="has changed"):
        release(source, census[1], tmp_path / "out", runner=Changing())


def test_a_table_that_changes_is_not_released(census, source, tmp_path):
    class Changing(OneAfterTheOther):
        def each(self, function, items):
            found = super().each(function, items)
            # Once its values are known the last file loses rows.
            pl.read_parquet(source / "2.parquet")[:1_500].write_parquet(source / "2.parquet")
            return found

    with pytest.raises(DataError, match="has changed"):
        release(source, census[1], tmp_path / "out", runner=Changing())


TENS = Recipe("intervals", (5, 10))
N = 600
ODD_KINDS = {
    "whole numbers in ranges": (pl.int_range(pl.len()) % 40, Attribute("x", hierarchy=TENS)),
    "texts in ranges": (
        pl.when(pl.int_range(pl.len()) % 3 == 0).then(pl.format("{}.0", pl.int_range(pl.len()) % 40))
        .otherwise(pl.format("{}", pl.int_range(pl.len()) % 40)), Attribute("x", hierarchy=TENS),
    ),
    "days as names": (
        pl.lit(dt.date(2020, 1, 1)) + pl.duration(days=pl.int_range(pl.len()) % 40 * 17), Attribute("x", kind="nominal")
    ),
    "days in ranges": (
        pl.lit(dt.date(2020, 1, 1)) + pl.duration(days=pl.int_range(pl.len()) % 40 * 17),
        Attribute("x", hierarchy=Recipe("dates", ("month", "year"))),
    ),
    "numbers in an order with more of them": (
        pl.int_range(pl.len()) % 40, Attribute("x", kind="ordinal", order=tuple(map(str, range(-5, 60))))
    ),
    "whether or not": (pl.int_range(pl.len()) % 2 == 0, Attribute("x", kind="nominal")),
    "short decimals": ((pl.int_range(pl.len()) % 40 / 10).cast(pl.Float32), Attribute("x", kind="nominal")),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD_KINDS)
def test_tables_are_cut_between_values_as_they_are_written(tmp_path, case):
    pytest.importorskip("duckdb")
    from shoal.jobs.release import anonymize_file

    values, attribute = ODD_KINDS[case]
    frame = pl.DataFrame({"y": np.arange(N) // 40 % 15, "row": np.arange(N)}).with_columns(values.alias("x"))
    # Of two values alone there is nothing to be cut for.
    schema = Schema(
        [attribute, Attribute("y", "quasi" if case == "whether or not" else "other"), Attribute("row", "other")]
    )
    source = tmp_path / "table.parquet"
    frame.write_parquet(source, row_group_size=100)
    found, written = release(source, schema, tmp_path / "out", rows=150)
    assert found.n_fragments > 1
    assert found.checked.holds
    assert sorted(written["row"]) == list(range(N))
    on_disk = anonymize_file(source, schema, 10, tmp_path / "disk.parquet", rows_per_fragment=150)
    assert on_disk.parameters["fragments"] == found.n_fragments
    assert on_disk.loss.ncp == pytest.approx(add_losses(found.parts).ncp, abs=0.02)


def test_what_a_recoding_draws_is_drawn_once(census, source, tmp_path):
    method = {"recoding": "sample"}
    _, written = release(source, census[1], tmp_path / "out", runner=Twice(), **method)
    names = [file.name for file in (tmp_path / "out" / "table").iterdir()]
    assert len(names) == len(set(names)) > 1
    seeded = {"random_state": 7, "rows": 10_000, **method}
    _, alone = release(source, census[1], tmp_path / "alone", **seeded)
    local = anonymize(census[0], census[1], 10, recoding="sample", random_state=7)
    assert alone.cast(pl.String).equals(local.frame.cast(pl.String))
    assert written.height == alone.height


def test_marks_are_missing_sensitive_values_in_the_end_too(tmp_path):
    pytest.importorskip("duckdb")
    from shoal.jobs.release import anonymize_file

    ills = [None, "?", "1", "2", "3"]
    frame = pl.DataFrame({"age": np.arange(N) % 50, "ill": [ills[i % 5] for i in range(N)]})
    schema = Schema([Attribute("age"), Attribute("ill", "sensitive", "numeric")])
    source = tmp_path / "table.parquet"
    frame.write_parquet(source)
    constraints = (TCloseness(0.3, attribute="ill"),)
    found, written = release(source, schema, tmp_path / "out", rows=150, constraints=constraints, marks=["?"])
    assert found.checked.holds
    assert found.checked.level("l", "ill") <= 4
    # Marks are written as missing values, so that a reader finds the values that were counted.
    assert written["ill"].value_counts(sort=True)["count"].to_list() == [2 * N // 5] + [N // 5] * 3
    assert "?" not in written["ill"].to_list()
    how = {"constraints": constraints, "missing_marks": ["?"], "rows_per_fragment": 150}
    on_disk = anonymize_file(source, schema, 10, tmp_path / "disk.parquet", **how)
    assert on_disk.checked.level("l", "ill") <= 4


def test_means_of_nothing_are_missing_where_rows_are_suppressed(census, tmp_path):
    nothing = [pl.lit(None, kind).alias(str(kind)) for kind in (pl.Int64, pl.Float64, pl.Date)]
    source = tmp_path / "table.parquet"
    race = pl.when(pl.int_range(pl.len()) % 5 > 0).then(pl.col("race"))
    census[0].with_columns(race.alias("race"), *nothing).write_parquet(source)
    schema = Schema([*census[1], *(Attribute(str(kind)) for kind in (pl.Int64, pl.Float64, pl.Date))])
    found, written = release(source, schema, tmp_path / "out", rows=10_000, recoding="mean", suppression=0.05)
    assert sum(part.sizes.n_suppressed for part in found.parts) > 0
    assert written["Float64", "Date"].null_count().row(0) == (written.height, written.height)


@pytest.mark.slow
def test_guides_may_be_numbers(census, source, tmp_path):
    frame, schema = census
    paid = frame.with_columns(pl.col("age").cast(pl.Float64).sqrt().alias("income"))
    schema = Schema([*(one for one in schema if one.name != "income"), Attribute("income", "target", "numeric")])
    paid.write_parquet(tmp_path / "paid.parquet")
    found, _ = release(tmp_path / "paid.parquet", schema, tmp_path / "out", method="accuracy-guided")
    assert found.n_fragments > 1
    assert found.checked.holds


def test_columns_and_files_may_have_names_that_mean_something_elsewhere(tmp_path):
    frame = pl.DataFrame({"v": np.arange(N) % 50, "leaf": [("a", "b", "c")[i % 3] for i in range(N)]})
    schema = Schema([Attribute("v"), Attribute("leaf", "sensitive", "nominal")])
    folder = tmp_path / "table[1]"
    folder.mkdir()
    frame.write_parquet(folder / "a[0].parquet")
    for hidden in ("_b.parquet", ".c.parquet"):
        frame.write_parquet(folder / hidden)
    asked = (LDiversity(2, attribute="leaf"),)
    found, _ = release(folder, schema, tmp_path / "out[1]", rows=150, constraints=asked)
    assert found.checked.holds
    assert found.checked.rows == N
    assert read_table(folder).height == N
    frame.rename({"v": "^.*$"}).write_parquet(tmp_path / "pattern.parquet")
    assert plain_types(tmp_path / "pattern.parquet") is None


def test_a_table_without_rows_gets_a_sentence(census, tmp_path):
    source = tmp_path / "empty.parquet"
    census[0][:0].write_parquet(source)
    with pytest.raises(DataError, match="no rows"):
        release(source, census[1], tmp_path / "out")


# Checks


VALUES = st.tuples(
    st.none() | st.integers(0, 2), st.sampled_from([None, -0.0, 0.0, 1.5, float("nan")]),
    st.sampled_from([None, "a", "b", "?", ""]), st.sampled_from([None, "flu", "cold", "?"]),
    st.none() | st.integers(0, 3),
)  # fmt: skip
KINDS = st.sampled_from([pl.String, pl.Categorical, pl.Enum(["b", "?", "cold", "", "a", "flu"])])


FILES = st.lists(st.lists(VALUES, min_size=1, max_size=25), min_size=1, max_size=3)


@given(FILES, KINDS, st.integers(1, 30), st.booleans())
def test_files_are_checked_as_a_table_in_memory(tmp_path_factory, rows, kind, a_box, asks):
    folder = tmp_path_factory.mktemp("table")
    types = {"i": pl.Int16, "f": pl.Float32, "t": kind, "sick": kind, "pay": pl.Int64}
    frames = [pl.DataFrame(some, types, orient="row") for some in rows]
    for number, frame in enumerate(frames):
        frame.with_columns(name=pl.lit("somebody")).write_parquet(folder / f"{number}.parquet", row_group_size=7)
    schema = Schema([
        Attribute("i"), Attribute("f"), Attribute("t", kind="nominal"), Attribute("name", role="identifier"),
        Attribute("sick", "sensitive", "nominal"), Attribute("pay", role="sensitive", kind="numeric"),
    ])  # fmt: skip
    asked = (KAnonymity(2), LDiversity(2, attribute="sick"), TCloseness(0.4, attribute="pay")) if asks else ()
    whole = pl.concat(one.cast({"t": pl.String, "sick": pl.String}) for one in frames)
    seen = mark_missing(whole, ["?"], ["t", "sick"]).with_columns(name=pl.lit("somebody"))
    expected = check(seen, schema, asked, threshold=0.4)
    types = plain_types(folder)
    judge = Judge(schema, asked, list(types), threshold=0.4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.engines.tasks.checking.ROWS_PER_BOX", a_box)
        reader = PieceReader.of(types, schema, ["?"])
        found = check_pieces(OneAfterTheOther(), pieces_of(folder, 10), reader, judge)
    assert (found.rows, found.groups, found.risk) == (expected.rows, expected.groups, pytest.approx(expected.risk))
    assert [one.tolist() for one in found.sizes] == [one.tolist() for one in expected.sizes]
    for ours, theirs in zip(found.measured, expected.measured, strict=True):
        level = theirs.level if isinstance(theirs.level, str) else pytest.approx(theirs.level)
        assert ours._replace(level=0) == theirs._replace(level=0)
        assert ours.level == level


# Parts


FRAMES = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 12), st.none() | st.sampled_from([-1.5, 0.0, 2.25, 7.0]) | st.just(float("nan")),
        st.none() | st.sampled_from("abc"), st.none() | st.dates(dt.date(2020, 1, 1), dt.date(2020, 1, 9)),
    ), max_size=40,
)  # fmt: skip
TREE = CoarseTree(
    [
        SplitTest("i", low=None, high=4.5),
        SplitTest("f", low=0.0, high=2.25, missing=True), SplitTest("d", low=dt.date(2020, 1, 4)),
        None, SplitTest("t", values=("a", "c")), None, None, None, SplitTest("t", values=(), missing=True), None, None,
    ],
    [1, 3, 5, 3, 7, 5, 6, 7, 9, 9, 10],
    [2, 4, 8, 0, 6, 3, 2, 1, 10, 4, 5],
    [{"i": 3, "f": None, "t": "a", "d": None}, {"i": None, "f": 7.0, "t": None, "d": dt.date(2020, 1, 2)}],
)  # fmt: skip


@given(FRAMES, st.sampled_from([pl.String, pl.Enum(["c", "b", "a"])]))
def test_rows_find_the_leaf_that_an_expression_gives_them(rows, kind):
    types = {"i": pl.Int32, "f": pl.Float64, "t": kind, "d": pl.Date}
    frame = pl.DataFrame(rows, types, orient="row").with_columns(pl.col("f").fill_nan(None))
    expected = PolarsEngine(frame.with_columns(pl.col("t").cast(pl.String))).leaves(TREE)
    assert number_rows(frame, TREE, np.arange(TREE.n_leaves)).tolist() == expected.tolist()


@given(st.lists(st.lists(st.integers(0, 4), max_size=30), min_size=1, max_size=4), st.lists(st.integers(0, 4)))
def test_an_exchange_gives_back_what_was_left_under_a_number(tmp_path_factory, tasks, asked):
    exchange = RowExchange.made(tmp_path_factory.mktemp("exchange") / "rows")
    for task, numbers in enumerate(tasks):
        frame = pl.DataFrame({"task": [task] * len(numbers), "row": np.arange(len(numbers))})
        exchange.put(task, frame, np.array(numbers, np.int32), 5)
    for number in set(asked):
        found = exchange.take(len(tasks), [number])
        expected = [(t, i) for t, numbers in enumerate(tasks) for i, one in enumerate(numbers) if one == number]
        assert found.rows() == expected


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(1, 30))
def test_pieces_are_all_rows_once(tmp_path_factory, sizes, wanted):
    file = tmp_path_factory.mktemp("pieces") / "table.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.data.parquet.row_groups", lambda _: sizes)
        found = pieces_of(file, wanted)
    rows = [row for piece in found for row in range(piece.first, piece.first + piece.n_rows)]
    assert rows == list(range(sum(sizes)))
    assert [piece.number for piece in found] == list(range(len(found)))
    assert all(piece.n_rows <= 2 * wanted + max(sizes, default=0) for piece in found)


def test_what_readers_may_see_differently_is_left_to_spark(census, source, tmp_path):
    _, schema = census
    types = plain_types(source)
    assert types is not None
    assert can_compare(types, schema)
    assert not can_compare(types | {"age": pl.String()}, schema)
    (source / "part=1").mkdir()
    assert plain_types(source) is None
    for name, frame in {
        "times": pl.DataFrame({"at": [dt.datetime(2020, 1, 1)]}), "lists": pl.DataFrame({"all": [[1, 2]]}),
    }.items():  # fmt: skip
        frame.write_parquet(tmp_path / f"{name}.parquet")
        assert plain_types(tmp_path / f"{name}.parquet") is None
    other = tmp_path / "other"
    other.mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(other / "1.parquet")
    pl.DataFrame({"a": ["x"]}).write_parquet(other / "2.parquet")
    assert plain_types(other) is None
    (other / "2.parquet").write_text("no table")
    assert plain_types(other) is None
