"""Encoding: every library, every type, missing values, and what is refused."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given

from shoal import Attribute, Hierarchy, Recipe, Schema
from shoal.data.files import read_table
from shoal.data.table import encode, encode_like
from shoal.data.vocabulary import _number_of
from shoal.errors import DataError, HierarchyError, SchemaError
from tables import tables


def one(values, kind="numeric", **options):
    """The encoded column of a frame with one attribute."""
    frame = values if hasattr(values, "columns") else pl.DataFrame({"x": values})
    return encode(frame, Schema([Attribute("x", kind=kind, **options)])).quasi[0]


@given(tables())
def test_codes_stand_for_the_values(random_table):
    frame, schema = random_table
    table = encode(frame, schema)
    for column in table.quasi:
        values = frame[column.name].to_list()
        shown = [column.values[code] for code in column.codes]
        assert [str(v)[:10] if v is not None else None for v in shown] == [
            str(v)[:10] if v is not None else None for v in values
        ]
        present = column.positions[: column.n_present]
        assert (np.diff(present) > 0).all()
        assert column.missing in (-1, column.n_values - 1)


def test_a_number_with_a_hierarchy_may_be_missing_throughout():
    nothing = pl.DataFrame({"x": [None, None]}, schema={"x": pl.Int64})
    column = one(nothing, hierarchy=Hierarchy.from_dict({"low": ["0", "1"], "high": ["2", "3"]}))
    assert [column.values[code] for code in column.codes] == [None, None]
    with pytest.raises(HierarchyError, match="'x' is missing throughout, so that no hierarchy can be built"):
        one(nothing, hierarchy=Recipe("intervals"))


@given(tables())
def test_new_rows_are_encoded_like_the_fitted_ones(random_table):
    import narwhals.stable.v2 as nw

    frame, schema = random_table
    for column in encode(frame, schema).quasi:
        assert np.array_equal(encode_like(nw.from_native(frame)[column.name], column), column.codes)


def test_numbers_are_coded_in_order():
    column = one([30, 10, 20, 10])
    assert column.codes.tolist() == [2, 0, 1, 0]
    assert column.codes.dtype == np.uint8
    assert column.width == 20


def test_text_is_read_as_numbers_where_the_kind_says_so():
    column = one(["9", "10", "9.0"])
    assert column.codes.tolist() == [0, 1, 0]
    with pytest.raises(DataError, match=r"'x' is numeric but has the value '\?': mark it as missing"):
        one(["9", "?"])


def test_dates_are_numbers_of_days():
    column = one([dt.date(2020, 1, 3), dt.date(2020, 1, 1), None])
    assert column.codes.tolist() == [1, 0, 2]
    assert column.width == 2
    assert column.text(1) == "2020-01-03"
    stamps = pd.DataFrame({"x": pd.to_datetime(["2020-01-03 12:00", "2020-01-01 00:00"]).tz_localize("Europe/Vienna")})
    assert one(stamps).width == pytest.approx(2.5)


def test_nominal_codes_follow_the_hierarchy():
    tree = Hierarchy.from_dict({"gov": ["federal", "local"], "private": None})
    column = one(["private", "local", "federal"], kind="nominal", hierarchy=tree)
    assert column.codes.tolist() == [2, 1, 0]
    with pytest.raises(HierarchyError, match=r"'x'.*'state'"):
        one(["state"], kind="nominal", hierarchy=tree)


def test_the_missing_value_is_a_leaf_under_the_root():
    tree = Hierarchy.from_dict({"gov": ["federal", "local"], "private": None})
    column = one(["local", None, "federal"], kind="nominal", hierarchy=tree)
    assert column.codes.tolist() == [1, 3, 0]
    assert column.tree.parent[3] == column.tree.root


@pytest.mark.parametrize("kind", ["numeric", "nominal"])
def test_a_column_without_any_value(kind):
    column = one(pl.DataFrame({"x": pl.Series([None, None], dtype=pl.Int64)}), kind=kind)
    assert column.codes.tolist() == [0, 0]
    assert column.missing == 0
    assert column.values[0] is None


def test_missing_means_null_none_and_nan_alike():
    for frame in (
        pl.DataFrame({"x": [1.0, None, float("nan")]}),
        pd.DataFrame({"x": [1.0, None, float("nan")]}),
        pd.DataFrame({"x": [1, pd.NA, pd.NA]}, dtype="Int64"),
        pl.DataFrame({"x": [1.0, None, None]}).to_arrow(),
    ):
        assert one(frame).codes.tolist() == [0, 1, 1]


def test_missing_values_can_be_refused():
    with pytest.raises(DataError, match=r"'x' has 2 missing values, the first in row 1"):
        encode(pl.DataFrame({"x": [1, None, None]}), Schema([Attribute("x")]), missing="error")


def test_ordinal_values_need_an_order_that_names_them_all():
    assert one(["b", "a"], kind="ordinal", order=("b", "a")).codes.tolist() == [0, 1]
    with pytest.raises(SchemaError, match=r"order of attribute 'x' lacks the value 'c'"):
        one(["c"], kind="ordinal", order=("b", "a"))


def test_pandas_categories_and_object_columns():
    frame = pd.DataFrame({"x": pd.Categorical(["b", "a", None], categories=["a", "b", "unused"])})
    assert one(frame, kind="nominal").values.tolist() == ["a", "b", None]
    mixed = pd.DataFrame({"x": pd.Series([1, "a"], dtype=object)})
    with pytest.raises(DataError, match=r"'x' mixes number \(1\) and text \('a'\)"):
        one(mixed, kind="nominal")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"x": [1.0, float("inf")]}), r"'x' holds the value inf: replace it"),
        (pl.DataFrame({"x": [[1], [2]]}), r"'x' is of type List"),
        (pl.DataFrame({"x": pl.Series([], dtype=pl.Int64)}), r"no rows"),
        (pl.DataFrame(), r"no columns"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), r"'x' occurs 2 times"),
        (pl.DataFrame({"x": [1], "y": [1]}), r"Column 'y' is not in the schema"),
        (pl.DataFrame({"y": [1]}), r"attribute 'x' is not a column"),
        ([1, 2], r"A dataframe is needed, but this is a list"),
    ],
)
def test_says_what_is_wrong_with_a_frame(frame, message):
    with pytest.raises((DataError, SchemaError), match=message):
        encode(frame, Schema([Attribute("x")]))


def test_more_than_65536_values():
    column = one(pl.DataFrame({"x": np.arange(70_000)[::-1]}))
    assert column.codes.dtype == np.uint32
    assert column.codes[0] == 69_999


def test_csv_columns_get_types_only_where_nothing_is_lost(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(
        "a,zip,price,day,flag,big\n1,0801,1.10,2020-01-01,true,123456789012345678901\n-2,8010,2,2020-01-02,false,1\n"
    )
    frame = read_table(path)
    assert [str(t) for t in frame.dtypes] == ["Int64", "String", "Float64", "Date", "Boolean", "String"]
    assert read_table(path, typed=False)["price"].to_list() == ["1.10", "2"]
    assert read_table(path, columns=["zip"]).columns == ["zip"]


def test_csv_separator_is_found_and_marks_are_missing(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("a;b\n?;1\nx;\n")
    frame = read_table(path, missing_marks=["?"])
    assert frame["a"].to_list() == [None, "x"]
    assert frame["b"].to_list() == [1, None]


def test_an_order_of_dates_ends_with_the_one_that_stands_for_no_end():
    days = ["2024-01-01", "9999-12-31", "1816-03-29"]
    assert sorted(days, key=lambda day: _number_of(day, "date")) == ["1816-03-29", "2024-01-01", "9999-12-31"]
