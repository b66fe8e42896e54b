"""Texts as names, and Parquet files read and written with them: the same texts, whatever their numbers are."""

import datetime as dt

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from shoal.data import enums, files, parquet
from shoal.errors import DataError

TEXTS = st.lists(st.none() | st.sampled_from(["a", "b", "", "ü", "*", "a.b"]), max_size=30)


@given(TEXTS, st.sets(st.sampled_from(["a", "b", "", "x"])))
def test_names_are_the_texts_that_they_were_made_of(texts, some):
    column = enums.of_texts(pl.Series("t", texts, pl.String))
    present = [text for text in texts if text is not None]
    assert column.to_list() == texts
    assert dict(zip(enums.words_of(column), enums.count(column), strict=True)) == {
        text: present.count(text) for text in present
    }
    assert enums.without(column, some).to_list() == [None if text in some else text for text in texts]
    kept = enums.among(column, dict.fromkeys(["z", *some]))
    assert kept.to_list() == [text if text in some else None for text in texts]
    assert enums.words_of(kept) == ["z", *some]
    assert set(enums.words_of(enums.in_use(kept))) == set(present) & some
    assert enums.in_use(kept).to_list() == kept.to_list()
    numbers = column.to_physical()
    assert enums.of_numbers(numbers, enums.words_of(column)).to_list() == texts


@given(TEXTS, st.integers(1, 40), st.integers(0, 35), st.integers(0, 35), st.booleans())
def test_some_rows_of_a_file_are_those_of_all(tmp_path_factory, texts, group, first, n_rows, as_names):
    frame = pl.DataFrame(
        {"t": texts, "a.b": texts, "n": range(len(texts))}, {"t": pl.String, "a.b": pl.String, "n": pl.Int16}
    )
    file = tmp_path_factory.mktemp("rows") / "table.parquet"
    pq.write_table(frame.to_arrow(), file, row_group_size=group)
    found = parquet.read_rows(file, ["n", "a.b", "t"], ["t"] if as_names else [], first, n_rows)
    assert isinstance(found.schema["t"], pl.Enum) == as_names
    assert found.cast({"t": pl.String}).equals(frame[first : first + n_rows].select("n", "a.b", "t"))


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["c", "b", "a", "unused"])])
def test_texts_that_a_file_has_as_names_may_be_read_as_either(tmp_path, kind):
    file = tmp_path / "table.parquet"
    frame = pl.DataFrame({"t": ["a", None, "c"], "u": ["b", "b", "b"]}, {"t": kind, "u": kind})
    frame.write_parquet(file)
    found = parquet.read_rows(file, ["t", "u"], ["t"])
    assert found.schema["u"] == pl.String
    assert found.cast(pl.String).equals(frame.cast(pl.String))


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_texts_are_read_as_names_in_whatever_way_they_are_written(tmp_path, encoding):
    file = tmp_path / "table.parquet"
    frame = pl.DataFrame({"t": ["a", None, "c", "a"], "n": [1, 2, 3, 4]})
    pq.write_table(frame.to_arrow(), file, use_dictionary=False, column_encoding={"t": encoding})
    found = parquet.read_rows(file, ["t", "n"], ["t"], 1, 3)
    assert isinstance(found.schema["t"], pl.Enum)
    assert found.cast({"t": pl.String}).equals(frame[1:4])


def test_a_file_is_written_with_the_words_of_its_rows_alone(tmp_path):
    file = tmp_path / "table.parquet"
    days = [dt.date(2020, 1, 1), None, dt.date(2021, 1, 1)]
    frame = pl.DataFrame({"t": ["a", None, "c"], "n": [3, 1, None], "f": [0.5, None, 1.5], "d": days})
    names = frame.with_columns(pl.col("t").cast(pl.Enum(["secret", "c", "a"])))
    parquet.write_texts(names, file)
    assert b"secret" not in file.read_bytes()
    # Plain texts for any reader.
    assert pq.read_schema(file).field("t").type in (pa.string(), pa.large_string())
    assert pl.read_parquet(file).equals(frame)


def test_a_file_that_cannot_be_read_gets_a_sentence(tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_text("no table")
    with pytest.raises(DataError, match=r"broken.parquet.*cannot be read.*replace the file"):
        parquet.read_rows(broken, ["t"])
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(DataError, match="cannot be read"):
        parquet.read_rows(tmp_path / "other.parquet", ["t"])


@given(TEXTS)
def test_marks_are_missing_in_texts_and_names_alike(texts):
    frame = pl.DataFrame({"t": texts, "n": texts}, {"t": pl.String, "n": pl.Enum(["*", "a", "b", "", "ü", "a.b"])})
    found = files.mark_missing(frame, ["*", "ü"], ["t", "n"])
    expected = [None if text in ("*", "ü") else text for text in texts]
    assert found["t"].to_list() == found["n"].to_list() == expected


def test_numbers_of_names_that_are_too_high_get_a_sentence(tmp_path, monkeypatch):
    file = tmp_path / "table.parquet"
    pl.DataFrame({"t": ["a", "b"]}).write_parquet(file)
    monkeypatch.setattr("shoal.data.enums.of_numbers", lambda numbers, words: pl.Series(words).gather(numbers + 2))
    with pytest.raises(DataError, match="cannot be read.*replace the file"):
        parquet.read_rows(file, ["t"], ["t"])
