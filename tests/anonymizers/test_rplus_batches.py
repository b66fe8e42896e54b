"""What an R+ tree keeps, hands out and refuses when rows come and go: in every library, and whatever is asked of it."""

import copy
import datetime as dt
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from shoal import Attribute, Hierarchy, KMap, LDiversity, Recipe, RPlusTree, Schema
from shoal.errors import DataError, GuaranteeError, ShoalError

LIBRARIES = [pl.DataFrame, pd.DataFrame, pa.table]
NOTES = Schema([Attribute("age"), Attribute("note", "other", "nominal")])


def notes(n):
    return {"age": [1000 + 37 * i for i in range(n)], "note": [f"secret <{i}>" for i in range(n)]}


# What the object holds


@pytest.mark.parametrize("library", LIBRARIES)
def test_deleted_rows_are_in_no_file(library):
    tree = RPlusTree(NOTES, 4).fit(library(notes(60)))
    tree.delete([7, 8])
    for _ in range(2):
        written = pickle.dumps(tree)
        assert b"secret <9>" in written
        assert b"secret <7>" not in written
        assert b"secret <8>" not in written
        again = pickle.loads(written)
        assert rows_of(again.release()) == rows_of(tree.release())
        tree = again
    assert tree.delete([9]).deleted.tolist() == [9]


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_forgotten_holds_no_number_of_a_deleted_row(library):
    tree = RPlusTree(NOTES, 4).fit(library(notes(60)))
    tree.delete([7, 8])
    groups = rows_of(tree.groups_, "age")
    tree.forget_rows().forget_rows()
    assert b"secret" not in pickle.dumps(tree)
    assert rows_of(tree.groups_, "age") == groups
    known = [number for column in vars(tree).get("_columns", ()) for number in column.values]
    assert 1000 + 37 * 7 not in known


def test_row_labels_of_pandas_are_not_handed_out():
    frame = pd.DataFrame(notes(12), index=[f"person {i}" for i in range(12)])
    tree = RPlusTree(NOTES, 4).fit(frame)
    assert tree.release().index.tolist() == list(range(12))
    assert b"person 3" not in pickle.dumps(tree)
    tree.delete([0])
    assert tree.release().index.tolist() == list(range(11))


def test_a_copy_does_not_change_with_its_original():
    tree = RPlusTree(NOTES, 4).fit(pl.DataFrame(notes(60)))
    tree.delete([0])
    other, before = copy.copy(tree), tree.release()
    tree.delete(np.arange(1, 40))
    tree.insert(pl.DataFrame(notes(5)))
    assert other.release().equals(before)
    assert len(other.delete([1, 2]).deleted) == 2
    assert len(tree.release()) == 25


# What may come


@pytest.mark.parametrize("fitted", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("coming", [pa.string(), pa.large_string(), pa.string_view()])
def test_all_texts_of_pyarrow_go_together(fitted, coming):
    tree = RPlusTree(k=2).fit(pa.table({"job": pa.array(list("aabbcc"), fitted)}))
    delta = tree.delete([0])
    assert delta.after["job"].to_pylist() == ["{a, b}"] * 3
    assert delta.frame["job"].to_pylist() == ["a", "a", "b", "b", *["{a, b}"] * 3]
    tree.insert(pa.table({"job": pa.array(list("xx"), coming)}))
    assert tree.release()["job"].to_pylist() == [*["{a, b}"] * 3, "c", "c", "x", "x"]


def test_dictionaries_of_pyarrow_go_together():
    tree = RPlusTree(k=2).fit(pa.table({"job": pa.array(list("aabb")).dictionary_encode()}))
    tree.insert(pa.table({"job": pa.array(list("bcc")).cast(pa.dictionary(pa.int8(), pa.string()))}))
    assert tree.release()["job"].to_pylist() == ["a", "a", "b", "b", "b", "c", "c"]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "hierarchy", [Hierarchy.from_dict({"low": ["0", "1"], "high": ["2", "3"]}), Recipe("intervals")]
)
def test_a_batch_may_be_missing_throughout(library, hierarchy):
    schema = Schema([Attribute("grade", hierarchy=hierarchy)])
    numbers = pa.table({"grade": pa.array([0, 0, 1, 1, 3, 3, None, None, None])})
    tree = RPlusTree(schema, 2).fit(library(numbers.to_pydict()))
    tree.insert(library({"grade": [None]}))
    tree.delete([6])
    assert [str(v) for v in values_of(tree.release(), "grade")[6:]] in (["None"] * 3, ["nan"] * 3, ["<NA>"] * 3)
    assert tree.labels_.tolist()[6:] == [tree.labels_[6]] * 3


@pytest.mark.parametrize(
    ("fitted", "coming", "shown"),
    [
        ([2**53 + 1], [2.0], [2**53 + 1, 2]),
        ([2**53 + 1], [2.0, np.nan], [2**53 + 1, 2, None]),
        ([2**53 + 1], [None], [2**53 + 1, None]),
        (np.array([5], np.int32), [7], [5, 7]),
        (pd.array([5], "Int64"), [2.0, np.nan], [5, 2, None]),
        ([1.5], [3], [1.5, 3.0]),
        ([True], [None, False], [True, None, False]),
        (["a"], [np.nan], ["a", None]),
        (["a"], pd.Categorical(["b", None]), ["a", "b", None]),
        (pd.Categorical(["a"]), ["b", "a"], ["a", "b", "a"]),
        ([pd.Timestamp(2020, 1, 1)], [np.nan], [pd.Timestamp(2020, 1, 1), None]),
    ],
)
def test_what_comes_in_pandas_changes_no_value_that_is_there(fitted, coming, shown):
    schema = Schema([Attribute("age"), Attribute("account", "other", "nominal")])
    tree = RPlusTree(schema, 1).fit(pd.DataFrame({"age": [1], "account": fitted}))
    tree.insert(pd.DataFrame({"age": [2] * len(coming), "account": coming}))
    assert [None if pd.isna(value) else value for value in tree.release()["account"]] == shown


@pytest.mark.parametrize(
    ("fitted", "coming"),
    [
        ([2**53 + 1], [1.5]),
        (np.array([5], np.int32), [2**40]),
        ([1.5], [2**53 + 1]),
        ([1], ["1"]),
        ([1], [True]),
        ([pd.Timestamp(2020, 1, 1)], [pd.Timestamp(2020, 1, 1, tz="UTC")]),
        ([pd.Timestamp(2020, 1, 1)], [dt.date(2020, 1, 1)]),
    ],
)
def test_what_would_change_values_in_pandas_is_refused(fitted, coming):
    schema = Schema([Attribute("age"), Attribute("account", "other", "nominal")])
    tree = RPlusTree(schema, 1).fit(pd.DataFrame({"age": [1], "account": fitted}))
    with pytest.raises(DataError, match=r"'account' is of type .* here, and of type .*: convert it"):
        tree.insert(pd.DataFrame({"age": [2], "account": coming}))
    assert tree.release()["account"].tolist() == list(fitted)


def test_numbers_that_reach_too_far_together_are_refused():
    tree = RPlusTree(k=1).fit(pl.DataFrame({"x": [1.0, 2.0, 3.0]}))
    tree.insert(pl.DataFrame({"x": [-1.7e308]}))
    with pytest.raises(DataError, match=r"'x' reaches from -1\.7e\+308 to 1\.7e\+308: scale it down"):
        tree.insert(pl.DataFrame({"x": [1.7e308]}))
    assert len(pickle.loads(pickle.dumps(tree)).release()) == 4


@pytest.mark.parametrize("recoding", ["interval", "centroid", "medoid", "majority", "mean", "sample"])
def test_a_batch_of_no_rows_changes_nothing(recoding):
    schema = Schema([Attribute("age"), Attribute("job", kind="nominal"), Attribute("y", "target", "nominal")])
    frame = pl.DataFrame({"age": range(9), "job": list("aabbbcccc"), "y": list("uvuvuvuvu")})
    tree = RPlusTree(schema, 3, recoding=recoding, random_state=0).fit(frame)
    before = tree.release()
    for delta in (tree.insert(frame[:0]), tree.delete([])):
        assert len(delta.frame) == 0
        assert tree.release().equals(before)
    with pytest.raises(DataError, match="has no rows"):
        tree.insert(frame[:0].drop("age"))
    array = RPlusTree(k=2).fit(np.arange(8.0).reshape(4, 2))
    assert len(array.insert(np.empty((0, 2))).inserted) == 0


# What is refused


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"k": 2}, r"k=4, and now k=2"),
        ({"k": 10}, r"k=4, and now k=10"),
        ({"constraints": [LDiversity(2)]}, r"constraints=\(\), and now constraints=\(LDiversity"),
        ({"recoding": "foo"}, r"recoding='interval', and now recoding='foo'"),
        ({"suppression": 0.1}, r"suppression=0\.0, and now suppression=0\.1"),
        ({"missing": "error"}, r"missing='value', and now missing='error'"),
        ({"schema": None}, r"now schema=None"),
    ],
)
def test_changes_keep_to_what_was_fitted(parameters, named):
    tree = RPlusTree(NOTES, 4).fit(pl.DataFrame(notes(30)))
    before = tree.release()
    tree.set_params(**parameters)
    for change in (lambda: tree.delete([0]), lambda: tree.insert(pl.DataFrame(notes(3)))):
        with pytest.raises(ShoalError, match=rf"fitted with .*{named}.*: restore it, or fit again"):
            change()
        assert tree.release().equals(before)
    tree.set_params(schema=NOTES, k=4, constraints=(), recoding="interval", suppression=0.0, missing="value")
    assert tree.delete([0]).deleted.tolist() == [0]


def test_constraints_that_are_written_over_are_noticed():
    schema = Schema([Attribute("age"), Attribute("note", "sensitive", "nominal")])
    constraints = [LDiversity(2)]
    tree = RPlusTree(schema, 2, constraints=constraints).fit(pl.DataFrame(notes(12)))
    tree = pickle.loads(pickle.dumps(tree))
    tree.delete([0])
    tree.constraints.clear()
    with pytest.raises(ShoalError, match="restore it, or fit again"):
        tree.delete([1])


def test_some_row_of_a_population_stays_released():
    schema = Schema([Attribute("age"), Attribute("in_study", "other", "nominal")])
    frame = pl.DataFrame({"age": list(range(40)), "in_study": [True, False, False, False] * 10})
    tree = RPlusTree(schema, 2, constraints=[KMap(6, "in_study")]).fit(frame)
    with pytest.raises(GuaranteeError, match="No row would be left that 'in_study' marks as released"):
        tree.delete(np.arange(0, 40, 4))
    with pytest.raises(GuaranteeError, match="Only 0 rows would be left, but k=2"):
        tree.delete(np.arange(40))
    assert len(tree.release()) == 10
    tree.delete(np.arange(8, 40, 4))
    assert len(tree.release()) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2], [3]], r"whole numbers from row_ids_, got \[\[1, 2\], \[3\]\]"),
        (np.array([2**63 + 5], np.uint64), "There is no row 9223372036854775813"),
        ([10**30], "whole numbers from row_ids_"),
    ],
)
def test_odd_names_of_rows_are_refused(rows, message):
    tree = RPlusTree(k=1).fit(pl.DataFrame({"age": [1, 2, 3, 4, 5]}))
    with pytest.raises(DataError, match=message):
        tree.delete(rows)


def values_of(frame, name):
    column = frame[name]
    return column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()


def rows_of(frame, *names):
    return [values_of(frame, name) for name in names or ("age", "note")]
