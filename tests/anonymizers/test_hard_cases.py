"""Cases that once went wrong, or nearly did: odd types, odd names, row labels, populations, large sets."""

import datetime as dt
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from shoal import (
    Attribute,
    DeltaDisclosure,
    Hierarchy,
    KAnonymity,
    KMap,
    LDiversity,
    Mondrian,
    Recipe,
    Schema,
    TCloseness,
    anonymize,
    check,
)
from shoal.data.files import read_table
from shoal.data.table import encode
from shoal.errors import DataError, GuaranteeError, GuaranteeWarning, HierarchyError, SchemaError, ShoalError

AGE = Schema([Attribute("age")])


def test_row_labels_of_pandas_are_not_released(tmp_path):
    frame = pd.DataFrame({"age": [1, 2, 3, 4]}, index=pd.Index(["ann", "bob", "cid", "dora"], name="person"))
    release = anonymize(frame, AGE, 2)
    assert release.frame.index.equals(pd.RangeIndex(4))
    release.to_parquet(tmp_path / "out.parquet")
    assert pl.read_parquet(tmp_path / "out.parquet").columns == ["age"]
    # As a step of a pipeline, rows keep their labels: nothing is handed out there.
    assert Mondrian(AGE, 2).fit_transform(frame).index.equals(frame.index)


def test_transform_warns_where_groups_overlap():
    frame = pl.DataFrame({"age": [1, 1, 1, 1, 1, 9]})
    anonymizer = Mondrian(k=3, mode="relaxed").fit(frame)
    with pytest.warns(GuaranteeWarning, match="Relaxed groups overlap"):
        anonymizer.transform(frame)


def test_transform_suppresses_what_a_trimmed_group_no_longer_covers():
    frame = pl.DataFrame({"age": [0, 1] * 5 + [50, 50] + [100, 101] * 5 + [150, 150]})
    anonymizer = Mondrian(AGE, 3, suppression=0.2)
    released = anonymizer.fit_transform(frame)
    assert released["age"].to_list().count("*") == 4
    assert anonymizer.transform(frame).equals(released)


def test_groups_released_alike_must_keep_the_constraint_together():
    """Each group keeps delta alone because it lacks a value; released alike they have it, too rarely."""
    frame = pl.DataFrame({"a": [0, 0, 0, 1, 1, 1, 1, 1, 2, 2], "s": list("yyyyxxxxxy")})
    schema = Schema([Attribute("a"), Attribute("s", "sensitive", "nominal")])
    constraint = DeltaDisclosure(0.7)
    for recoding in ("representative", "interval"):
        anonymizer = Mondrian(schema, 2, mode="relaxed", constraints=[constraint], recoding=recoding)
        try:
            released = anonymizer.fit_transform(frame)
        except GuaranteeError as error:
            assert "equal released values" in str(error)
        else:
            assert check(released, schema, [constraint]).holds


def test_large_numbers_are_written_in_full():
    values = [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3]
    released = anonymize(pl.DataFrame({"age": values}), AGE, 2).frame["age"].to_list()
    assert released == [f"[{values[0]}, {values[1]}]"] * 2 + [f"[{values[2]}, {values[3]}]"] * 2
    smallest = pl.DataFrame({"age": [-(2**63), -(2**63) + 1, 0, 0]})
    assert anonymize(smallest, AGE, 2).frame["age"].to_list()[0].startswith("[-9223372036854775808")
    beyond = pd.DataFrame({"age": np.array([2**63, 2**63 + 5000, 2**64 - 1, 2**64 - 1], np.uint64)})
    assert anonymize(beyond, AGE, 2).k == 2


def test_moments_are_written_in_full():
    moments = pd.to_datetime(["2020-01-01 00:00:00.000000001", "2020-01-01 00:00:00.000000002"] * 2)
    frame = pd.DataFrame({"age": moments.astype("datetime64[ns]"), "nominal": moments.astype("datetime64[ns]")})
    schema = Schema([Attribute("age"), Attribute("nominal", kind="nominal")])
    released = anonymize(frame, schema, 4).frame
    assert released["age"][0] == "[2020-01-01 00:00:00.000000001, 2020-01-01 00:00:00.000000002]"
    assert anonymize(frame, schema, 2).k == 2


def test_long_identifiers_stay_text(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("id,x\n12345678901234567891,1\n12345678901234567892,2\n")
    assert read_table(path)["id"].to_list() == ["12345678901234567891", "12345678901234567892"]
    (tmp_path / "na.csv").write_text("x\nN\nA\nNA\n")
    assert read_table(tmp_path / "na.csv", missing_marks="NA")["x"].to_list() == ["N", "A", None]


def test_with_a_population_everything_holds_on_the_released_rows():
    frame = pl.DataFrame(
        {
            "a": [1, 1, 1, 2, 2, 2] + [1, 2] * 10,
            "s": [0, 1, 1, 0, 0, 1] + list(range(2, 12)) * 2,
            "m": [True] * 6 + [False] * 20,
        }
    )
    schema = Schema([Attribute("a"), Attribute("s", "sensitive"), Attribute("m", "other", "nominal")])
    release = anonymize(frame, schema, 3, constraints=[KMap(5, "m"), TCloseness(0.3)])
    assert check(release.frame, schema, [KAnonymity(3), TCloseness(0.3)]).holds
    assert len(release.frame) == 6
    tight = anonymize(frame, schema, 3, constraints=[KMap(5, "m"), TCloseness(0.05)])
    assert check(tight.frame, schema, [TCloseness(0.05)]).holds


def test_a_row_that_stands_for_its_group_is_a_released_one():
    frame = pl.DataFrame({"a": [1, 2, 3, 50, 60, 70, 80, 90], "m": [True] + [False] * 6 + [True]})
    schema = Schema([Attribute("a"), Attribute("m", "other", "nominal")])
    for recoding in ("representative", "sample"):
        release = anonymize(frame, schema, 2, constraints=[KMap(3, "m")], recoding=recoding, random_state=0)
        assert set(release.frame["a"]) <= {1, 90}


def test_the_suppression_limit_is_a_share_of_the_released_rows():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"a": random.lognormal(3, 1, 2000), "b": random.lognormal(3, 1, 2000)})
    frame = frame.with_columns(m=pl.Series(np.arange(2000) < 50))
    schema = Schema([Attribute("a"), Attribute("b"), Attribute("m", "other", "nominal")])
    release = anonymize(frame, schema, 2, constraints=[KMap(2, "m")], suppression=0.1)
    assert release.suppressed <= 5


def test_a_population_without_released_rows_is_refused():
    frame = pl.DataFrame({"a": [1, 2, 3], "m": [False] * 3})
    schema = Schema([Attribute("a"), Attribute("m", "other", "nominal")])
    with pytest.raises(GuaranteeError, match="'m' marks no row as released"):
        anonymize(frame, schema, 1, constraints=[KMap(2, "m")])
    unsure = pl.DataFrame({"a": [1, 2, 3], "m": [True, None, False]})
    for call in (lambda c: anonymize(unsure, schema, 1, constraints=c), lambda c: check(unsure, schema, c)):
        with pytest.raises(SchemaError, match="'m' holds None"):
            call([KMap(2, "m")])


def test_unused_leaves_and_orders_of_numbers():
    tree = Hierarchy.from_dict({"lo": [1, 2], "hi": [3, 4]})
    frame = pl.DataFrame({"age": [1, 2, 1, 2]})
    for attribute in (
        Attribute("age", kind="nominal", hierarchy=tree),
        Attribute("age", kind="ordinal", order=(1, 2, 3)),
        Attribute("age", kind="ordinal", order=("1", "2", "3")),
        Attribute("age", kind="ordinal", hierarchy=tree),
        Attribute("age", kind="numeric", hierarchy=tree),
    ):
        assert anonymize(frame, Schema([attribute]), 4).k == 4
        with_missing = pd.DataFrame({"age": [1.0, 2.0, None, None]})
        assert anonymize(with_missing, Schema([attribute]), 2).k >= 2


def test_the_hierarchy_of_a_number_is_used():
    tree = Hierarchy.from_intervals(0, 99, widths=[10, 50])
    schema = Schema([Attribute("age", hierarchy=tree)])
    frame = pl.DataFrame({"age": [21, 24, 28, 33, 61, 62, 66, 69]})
    assert anonymize(frame, schema, 4).frame["age"].to_list() == ["0-49"] * 4 + ["60-69"] * 4
    assert anonymize(frame, schema, 4, recoding="mean").frame["age"].to_list() == [26.5] * 4 + [64.5] * 4
    upside_down = Schema([Attribute("age", hierarchy=Hierarchy.from_dict({"b": ["2"], "a": ["1"]}))])
    with pytest.raises(HierarchyError, match="lists '2' before '1': list its values from lowest to highest"):
        anonymize(pl.DataFrame({"age": [1, 2]}), upside_down, 1)


def test_usual_levels_of_a_recipe():
    schema = Schema([Attribute("age", hierarchy=Recipe("intervals"))])
    tree = encode(pl.DataFrame({"age": list(range(17, 91))}), schema).quasi[0].tree
    assert tree.height == 4
    single = Schema([Attribute("zip", kind="nominal", hierarchy=Recipe("prefix", 2))])
    assert encode(pl.DataFrame({"zip": ["8010", "8020"]}), single).quasi[0].tree.height == 2


def odd_frames():
    two = ["x", "x", "y", "y"]
    yield "arrow string view", pa.table({"a": pa.array(two, pa.string_view()), "b": [1, 2, 3, 4]})
    yield "arrow dictionary", pa.table({"a": pa.array(two).dictionary_encode(), "b": [1, 2, 3, 4]})
    yield "arrow chunks", pa.concat_tables([pa.table({"a": two, "b": [1, 2, 3, 4]})] * 2)
    yield "objects with NA", pd.DataFrame({"a": two, "b": pd.Series([1, 2, pd.NA, pd.NA], dtype=object)})
    yield "Booleans with NA", pd.DataFrame({"a": two, "b": pd.Series([True, True, pd.NA, pd.NA], dtype=object)})
    yield "decimals", pd.DataFrame({"a": two, "b": [decimal.Decimal("1.5")] * 4})
    yield "polars decimals", pl.DataFrame({"a": two, "b": [decimal.Decimal("1.5")] * 4})
    yield "dates as objects", pd.DataFrame({"a": two, "b": [dt.date(2020, 1, i) for i in (1, 2, 3, 4)]})
    yield "empty texts", pl.DataFrame({"a": ["", "", "*", "*"], "b": [1, 2, 3, 4]})
    yield "texts with braces", pl.DataFrame({"a": ["{x, y}", "x", "y", "missing"], "b": [1, None, 3, 4]})
    yield "called missing", pl.DataFrame({"a": ["missing", None, "missing_", "x"], "b": [1, 2, 3, 4]})
    yield "enum", pl.DataFrame({"a": pl.Series(two, dtype=pl.Enum(["z", "y", "x"])), "b": [1, 2, 3, 4]})
    yield "float32", pl.DataFrame({"a": two, "b": pl.Series([0.1, 0.2, 0.3, 0.4], dtype=pl.Float32)})


@pytest.mark.parametrize("frame", [pytest.param(frame, id=name) for name, frame in odd_frames()])
@pytest.mark.parametrize("recoding", ["interval", "set", "representative", "mean", "sample"])
def test_odd_columns(frame, recoding):
    schema = Schema([Attribute("a", kind="nominal"), Attribute("b")])
    release = anonymize(frame, schema, 2, recoding=recoding, random_state=0)
    assert release.k >= 2
    assert type(release.frame) is type(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Schema.infer(frame)


def test_libraries_agree_on_whole_numbers_with_missing_values():
    schema = Schema([Attribute("age", kind="nominal")])
    one = anonymize(pd.DataFrame({"age": [1.0, 1.0, None, None]}), schema, 2).frame["age"]
    two = anonymize(pl.DataFrame({"age": [1, 1, None, None]}), schema, 2).frame["age"]
    assert [str(v) for v in one[:2]] == ["1.0", "1.0"]
    assert two.to_list()[:2] == [1, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: anonymize("people.csv", AGE), "A dataframe is needed, but this is a str"),
        (lambda: anonymize({"age": [1]}, AGE), "A dataframe is needed, but this is a dict"),
        (lambda: anonymize(pl.DataFrame({"age": [1]}), None), "A Schema is needed, not None"),
        (lambda: check(pl.DataFrame({"age": [1]}), "s.toml"), "A Schema is needed, not 's.toml'"),
        (lambda: check(pl.DataFrame({"age": [1]}), AGE, ["k"]), "must be privacy models"),
        (lambda: check(pl.DataFrame({"age": [1]}), AGE, threshold="x"), "threshold"),
        (lambda: anonymize(pl.DataFrame({"age": [1]}), AGE, constraints=LDiversity(2)), "constraints must be a list"),
        (lambda: Mondrian(AGE, constraints=5).fit(pl.DataFrame({"age": [1]})), "constraints must be a list"),
        (lambda: Attribute("a", hierarchy="a.json"), "hierarchy of attribute 'a' is 'a.json': read it"),
        (lambda: Attribute("a", kind="ordinal", order=3), "must be a list"),
        (lambda: Schema(["age"]), "made of Attributes, not of 'age'"),
        (lambda: Mondrian(k=1).fit(pd.DataFrame([[1], [2]])), "Column 0 has a name that is not text"),
        (lambda: KMap(2, None), "must be the name of the column"),
        (lambda: anonymize(pl.DataFrame({"age": [1.7e308, -1.7e308]}), AGE, 1), "scale it down"),
        (lambda: anonymize(pl.DataFrame({"age": pl.Series([1], dtype=pl.Int128)}), AGE, 1), "convert it"),
        (lambda: Mondrian(k=1).fit(np.array([["a"], [1]], dtype=object)), "mixes texts and other values"),
        (lambda: anonymize(pl.DataFrame({"age": [1]}), AGE, 1, random_state="x", recoding="sample"), "random_state"),
    ],
)
def test_one_sentence(call, message):
    with pytest.raises((DataError, SchemaError, ShoalError), match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_fitting_leaves_the_shared_generator_alone():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[2]  # noqa: NPY002
    Mondrian(k=1).fit(pl.DataFrame({"age": [1, 2]}))
    assert np.random.get_state()[2] == before  # noqa: NPY002


def test_numbers_are_no_dates_later():
    anonymizer = Mondrian(k=1).fit(pl.DataFrame({"day": [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]}))
    with pytest.raises(DataError, match="'day' held dates when the anonymizer was fitted"):
        anonymizer.transform(pl.DataFrame({"day": [1, 2]}))


def test_files_follow_the_separator_in_every_library(tmp_path):
    frame = pl.DataFrame({"age": [1, 2], "note": ["a", "b"]})
    schema = Schema([Attribute("age"), Attribute("note", "other", "nominal")])
    for kind in (frame, frame.to_pandas(), frame.to_arrow()):
        release = anonymize(kind, schema, 1)
        release.to_csv(tmp_path / "out.csv", separator=";")
        release.to_csv(tmp_path / "out.tsv")
        for name, separator in (("out.csv", ";"), ("out.tsv", "\t")):
            assert (tmp_path / name).read_text().replace('"', "").splitlines()[1] == f"1{separator}a"
        with pytest.raises(DataError, match="not one plain character"):
            release.to_csv(tmp_path / "out.csv", separator=";;")


def test_hierarchies_of_alike_names_are_kept_apart(tmp_path):
    schema = Schema(
        [
            Attribute("a b", kind="nominal", hierarchy=Hierarchy.flat(["x"])),
            Attribute("a_b", kind="nominal", hierarchy=Hierarchy.flat(["p", "q"])),
        ]
    )
    schema.to_toml(tmp_path / "s.toml")
    assert Schema.from_toml(tmp_path / "s.toml") == schema


def test_sets_too_large_to_read_are_the_top():
    frame = pl.DataFrame({"name": [f"n{i}" for i in range(300)]})
    schema = Schema([Attribute("name", kind="nominal")])
    release = anonymize(frame, schema, 150)
    assert set(release.frame["name"]) == {"*"}
    assert release.loss.ncp == 1.0
    assert all(text.startswith("{") for text in anonymize(frame, schema, 50).frame["name"])


def test_many_small_children_are_not_peeled_one_by_one():
    leaves = [f"v{i}" for i in range(4000)]
    schema = Schema([Attribute("x", kind="nominal", hierarchy=Hierarchy.from_dict({"top": leaves}))])
    frame = pl.DataFrame({"x": leaves * 10})
    anonymizer = Mondrian(schema, 10).fit(frame)
    assert anonymizer.labels_.max() + 1 == 4000
    assert depth(anonymizer._cuts) < 40


def depth(cuts):
    deepest, nodes = 0, [(0, 0)]
    while nodes:
        node, at = nodes.pop()
        deepest = max(deepest, at)
        if cuts.attribute[node] >= 0:
            nodes += [(int(cuts.left[node]), at + 1), (int(cuts.right[node]), at + 1)]
    return deepest


def test_an_ordinal_attribute_needs_an_order():
    frame = pl.DataFrame({"grade": ["low", "mid", "high"]})
    with pytest.raises(SchemaError, match="'grade' is ordinal, but the order of 'high' and"):
        anonymize(frame, Schema([Attribute("grade", kind="ordinal")]), 1)
    ordered = Attribute("grade", kind="ordinal", order=("low", "mid", "high"), hierarchy=Recipe("order", 2))
    assert encode(frame, Schema([ordered])).quasi[0].tree.labels[3] == "low – mid"


def test_losses_with_a_population_are_those_of_the_released_rows():
    """The released rows are in a group of one value, the others in one that loses all."""
    frame = pl.DataFrame({"a": [1, 1, 5, 9], "m": [True, True, False, False]})
    schema = Schema([Attribute("a"), Attribute("m", "other", "nominal")])
    release = anonymize(frame, schema, 2, constraints=[KMap(2, "m")])
    assert release.loss.ncp == 0.0
    assert release.loss.discernibility == 4.0
    assert release.loss.non_uniform_entropy == 0.0
