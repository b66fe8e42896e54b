"""Columns of texts become codes: the same ones from every library, however it keeps them."""

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.groups import number
from shoal._kernels.groups import count_numbers, group_rows, part_rows
from shoal._kernels.texts import number_texts
from shoal.data.frames import factorize

# Few characters and long runs of one of them, so that many texts begin, go on or end alike.
pieces = st.sampled_from(["a", "b", "", "é", "𝄞", "aaaaaaaa", "b" * 17, "\0", "word by word "])
some_texts = st.lists(st.none() | st.lists(pieces, max_size=6).map("".join), max_size=60)


def shown(column):
    """Codes and values of a column of any library."""
    codes, values, content = factorize(nw.from_native(column, series_only=True))
    assert content == "text"
    assert codes.dtype == np.int32
    return codes.tolist(), values.tolist()


def expected(texts):
    values = sorted({text for text in texts if text is not None})
    return [-1 if text is None else values.index(text) for text in texts], values


def as_arrow(texts, kind, lead, cuts):
    """An array of several chunks, each a slice of a longer one."""
    chunks = []
    for start, stop in zip([0, *cuts], [*cuts, len(texts)], strict=True):
        longer = pa.array(["in front", None, "ahead"][:lead] + texts[start:stop] + ["behind"], kind)
        chunks.append(longer.slice(lead, stop - start))
    return pa.chunked_array(chunks, kind)


@given(some_texts, st.sampled_from([pa.string(), pa.large_string()]), st.integers(0, 3), st.data())
def test_texts_in_arrow_are_numbered_like_those_of_the_naive_twin(texts, kind, lead, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=3)))
    column = as_arrow(texts, kind, lead, cuts)
    assert shown(column) == expected(texts)
    assert shown(pd.Series(column.to_pandas(types_mapper=pd.ArrowDtype))) == expected(texts)


@given(some_texts)
def test_every_library_gives_the_same_codes(texts):
    columns = [
        pl.Series("x", texts, pl.String),
        pl.Series("x", texts, pl.Categorical),
        pd.Series(texts, dtype="str"),
        pd.Series(texts, dtype=pd.StringDtype("pyarrow")),
        pd.Series(texts, dtype=pd.StringDtype("python")),
        pd.Series(texts, dtype=object),
        pd.Series(texts, dtype="category"),
        pa.chunked_array([pa.array(texts, pa.string()).dictionary_encode()]),
    ]
    for column in columns:
        assert shown(column) == expected(texts)


@given(some_texts)
def test_the_kernel_numbers_texts_as_they_appear(texts):
    raw = [b"" if text is None else text.encode() for text in texts]
    starts = np.cumsum([0, *map(len, raw)])
    present = np.packbits([False, *(text is not None for text in texts)], bitorder="little")
    data = np.frombuffer(b"".join(raw), np.uint8)
    labels, first = number_texts(data, starts, present, 1)
    assert (labels.tolist(), first.tolist()) == number(texts)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 32, 33, 70])
def test_one_other_byte_makes_another_text_wherever_it_is(length):
    texts = ["x" * length] + ["x" * i + "y" + "x" * (length - i - 1) for i in range(length)] + ["x" * (length + 1)]
    texts = texts + texts[::-1]
    assert shown(pa.chunked_array([pa.array(texts)])) == expected(texts)


def test_so_many_texts_that_the_table_grows():
    random = np.random.default_rng(0)
    for text in ("{}", "number {} of all of them, which is a long name"):
        texts = [text.format(i) for i in random.integers(0, 20_000, 50_000)]
        raw = pa.array(texts, pa.large_string())
        starts, data = (np.frombuffer(raw.buffers()[i], kind) for i, kind in ((1, np.int64), (2, np.uint8)))
        labels, first = number_texts(data, starts[: len(texts) + 1], np.empty(0, np.uint8), 0)
        assert (labels.tolist(), first.tolist()) == number(texts)


def test_rows_are_grouped_like_those_of_the_naive_twin():
    random = np.random.default_rng(0)
    for n_values, n in ((2, 1), (3, 500), (40, 30_000)):
        rows = random.integers(0, n_values, (n, 3)).astype(np.uint8)
        labels, first = group_rows(rows)
        assert (labels.tolist(), first.tolist()) == number([tuple(row) for row in rows.tolist()])
    assert [len(part) for part in group_rows(np.empty((0, 3), np.uint8))] == [0, 0]


@given(st.lists(st.integers(0, 6), max_size=50), st.sampled_from([np.uint8, np.uint16, np.uint32]))
def test_numbers_are_counted(numbers, dtype):
    found = count_numbers(np.array(numbers, dtype), 8)
    assert found.tolist() == [numbers.count(number) for number in range(8)]


@given(st.lists(st.tuples(st.integers(0, 99), st.booleans()), max_size=50))
def test_rows_are_parted_in_their_order(rows_and_ways):
    rows, goes_left = np.array([row for row, _ in rows_and_ways], np.uint32), [left for _, left in rows_and_ways]
    left, right = part_rows(rows, np.array(goes_left, bool))
    assert left.tolist() == [row for row, goes in rows_and_ways if goes]
    assert right.tolist() == [row for row, goes in rows_and_ways if not goes]


def test_nothing_but_missing_texts_and_no_rows_at_all():
    for kind in (pa.string(), pa.large_string()):
        assert shown(pa.chunked_array([pa.nulls(3, kind)])) == ([-1, -1, -1], [])
        assert shown(pa.chunked_array([], kind)) == ([], [])
        assert shown(pa.chunked_array([pa.array([], kind)])) == ([], [])
    assert shown(pd.Series([], dtype="str")) == ([], [])


def test_categories_that_read_alike_are_one_and_those_without_a_row_none():
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3]), pa.array(["b", "a", "b", None, "unused"]))
    assert shown(pa.chunked_array([twice])) == ([1, 0, 1, -1, -1], ["a", "b"])
    mixed = pd.Categorical.from_codes([0, 1, 2, -1], categories=[1, "1", "0", "unused"])
    assert shown(pd.Series(mixed)) == ([1, 1, 0, -1], ["0", "1"])


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([3, None, 1]),
        pd.Series([3, None, 1], dtype="Int64"),
        pd.Series([3, None, 1], dtype=pd.ArrowDtype(pa.int64())),
        pd.Series([3.0, None, 1.0]),
        pa.chunked_array([[3, None, 1]]),
        pl.Series([True, None, False]),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series([True, None, False], dtype=object),
        pa.chunked_array([[True, None, False]]),
    ],
)
def test_a_missing_number_has_no_code(column):
    assert factorize(nw.from_native(column, series_only=True)).codes.tolist() == [1, -1, 0]
