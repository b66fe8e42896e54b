"""The promise: what leaves is what was asked for, recomputed from the released values by other means."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from promises import promise
from releases import CONSTRAINTS, METHODS, RECODINGS, assert_kept, covers, labels_of
from shoal import (
    Attribute,
    DeltaPresence,
    KMap,
    Schema,
    anonymize,
    check,
)
from shoal.data.table import encode
from shoal.errors import GuaranteeError
from tables import tables


def try_anonymize(frame, schema, k, **options):
    """The release, or None where the whole table as one group does not reach what is asked for."""
    try:
        return anonymize(frame, schema, min(k, len(frame)), y=labels_of(frame), **options)
    except GuaranteeError as error:
        assert "cannot be reached" in str(error)
        return None


@promise
@pytest.mark.parametrize("method", METHODS)
@given(
    tables(), st.integers(1, 8), st.sampled_from(CONSTRAINTS), st.sampled_from(RECODINGS), st.sampled_from([0.0, 0.3])
)
def test_every_group_fulfils_every_constraint(method, random_table, k, constraints, recoding, suppression):
    frame, schema = random_table
    release = try_anonymize(
        frame, schema, k, method=method, constraints=constraints, recoding=recoding, suppression=suppression
    )
    if release is not None:
        assert_kept(release.frame, schema, min(k, len(frame)), constraints)


@pytest.mark.parametrize("method", METHODS)
@given(tables(), st.integers(1, 5), st.sampled_from(RECODINGS), st.sampled_from([0.0, 0.3]))
def test_other_columns_and_the_order_of_rows_stay(method, random_table, k, recoding, suppression):
    frame, schema = random_table
    release = try_anonymize(frame, schema, k, method=method, recoding=recoding, suppression=suppression)
    assert release.frame.columns == [name for name in frame.columns if name != "person"]
    for name in ("s0", "note"):
        assert release.frame[name].equals(frame[name])
    assert len(release.labels) == len(frame)
    assert np.count_nonzero(release.labels < 0) <= suppression * len(frame)


@promise
@pytest.mark.parametrize("method", METHODS)
@given(tables(), st.integers(1, 5), st.sampled_from(["interval", "set"]), st.sampled_from([0.0, 0.3]))
def test_each_value_lies_in_what_is_released_for_it(method, random_table, k, recoding, suppression):
    frame, schema = random_table
    release = try_anonymize(frame, schema, k, method=method, recoding=recoding, suppression=suppression)
    table = encode(frame, schema)
    for column in table.quasi:
        for code, shown in zip(column.codes.tolist(), release.frame[column.name].to_list(), strict=True):
            assert covers(column, shown, code, sets=recoding == "set"), (column.name, column.values[code], shown)


@given(tables(), st.integers(1, 5), st.sampled_from(RECODINGS), st.sampled_from([0.0, 0.3]))
def test_pandas_polars_and_pyarrow_give_the_same(random_table, k, recoding, suppression):
    frame, schema = random_table
    k = min(k, len(frame))
    options = {"recoding": recoding, "suppression": suppression, "random_state": 0, "y": labels_of(frame)}
    polars = anonymize(frame, schema, k, **options)
    pyarrow = anonymize(frame.to_arrow(), schema, k, **options)
    pandas = anonymize(frame.to_pandas(), schema, k, **options)
    assert type(pandas.frame).__module__.startswith("pandas")
    assert type(pyarrow.frame).__module__.startswith("pyarrow")
    assert np.array_equal(polars.labels, pandas.labels)
    assert np.array_equal(polars.labels, pyarrow.labels)
    assert cells(pl.from_arrow(pyarrow.frame)) == cells(polars.frame)
    assert cells(pl.from_pandas(pandas.frame)) == cells(polars.frame)


def cells(frame):
    """Values as text, so that the types in which libraries keep missing numbers do not matter."""
    found = []
    for row in frame.rows():
        found.append([f"{v:g}" if isinstance(v, (int, float)) else str(v)[:10] for v in row])
    return found


def test_suppression_tightens_groups_and_is_a_group_of_its_own():
    """Two outliers beside each cluster are too few to be groups, and stretch the ranges of all others."""
    frame = pl.DataFrame({"age": [0, 1] * 5 + [50, 50] + [100, 101] * 5 + [150, 150]})
    schema = Schema([Attribute("age")])
    plain = anonymize(frame, schema, 3)
    trimmed = anonymize(frame, schema, 3, suppression=0.2)
    assert plain.frame["age"].to_list()[0] == "0"
    assert plain.frame["age"].to_list()[1] == "[1, 50]"
    assert trimmed.frame["age"].to_list()[1] == "1"
    assert trimmed.suppressed == trimmed.frame["age"].to_list().count("*") == 4
    assert trimmed.k >= 3
    assert trimmed.loss.ncp < plain.loss.ncp
    # Fewer suppressed rows than k would stand out themselves.
    assert anonymize(frame, schema, 3, suppression=0.09).suppressed == 0


def test_k_map_and_presence_release_the_marked_rows_only():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"age": random.integers(20, 60, 400), "in_study": random.random(400) < 0.3})
    schema = Schema([Attribute("age"), Attribute("in_study", role="other", kind="nominal")])
    release = anonymize(frame, schema, k=1, constraints=[KMap(20, "in_study"), DeltaPresence(0.1, 0.6, "in_study")])
    assert release.frame.columns == ["age"]
    assert len(release.frame) == len(release.labels) == frame["in_study"].sum()
    low, high = next(m.level for m in release.privacy if m.key == "presence")
    assert 0.1 <= low <= high <= 0.6
    assert next(m.level for m in release.privacy if m.key == "kmap") >= 20


def test_a_defective_partitioner_releases_nothing(monkeypatch):
    from shoal import Mondrian

    frame, schema = pl.DataFrame({"age": list(range(9))}), Schema([Attribute("age")])
    monkeypatch.setattr(Mondrian, "_partition", lambda self, table, *_: np.arange(table.n_rows))
    with pytest.raises(GuaranteeError, match=r"3-anonymity does not hold .* \(level 1\)"):
        anonymize(frame, schema, 3)
    # Even a method that fools itself does not get past the check of the released values.
    monkeypatch.setattr("shoal.anonymizers._base.require_released_groups", lambda *_: None)
    with pytest.raises(GuaranteeError, match=r"3-anonymity was asked for but the released table has only the level 1"):
        anonymize(frame, schema, 3)


def test_check_finds_a_violation_and_a_left_over_identifier():
    frame = pl.DataFrame({"age": ["[1, 2]", "[1, 2]", "3"], "person": [1, 2, 3]})
    schema = Schema([Attribute("age"), Attribute("person", role="identifier")])
    checked = check(frame, schema, [shoal.KAnonymity(2)])
    assert not checked.holds
    assert [m.key for m in checked.measured if m.holds is False] == ["k", "identifier"]
    assert checked.risk.unique == pytest.approx(1 / 3)


def test_missing_quasi_identifiers_count_as_equal():
    frame = pl.DataFrame({"age": [None, None, 5, 5]})
    assert check(frame, Schema([Attribute("age")])).level("k") == 2


def test_repr_says_with_respect_to_what():
    release = anonymize(pl.DataFrame({"age": list(range(20))}), Schema([Attribute("age")]), 5)
    assert "5-anonymous with respect to age" in repr(release)
    assert "<table>" in release._repr_html_()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_hold_what_was_released(tmp_path, suffix):
    frame = pl.DataFrame({"age": [1, 2, 3, 4], "note": ['a "quoted", text', "line\nbreak", "", None]})
    schema = Schema([Attribute("age"), Attribute("note", role="other", kind="nominal")])
    for kind in (frame, frame.to_pandas(), frame.to_arrow()):
        release = anonymize(kind, schema, 2)
        path = tmp_path / f"out.{suffix}"
        getattr(release, f"to_{suffix}")(path)
        back = pl.read_csv(path) if suffix == "csv" else pl.read_parquet(path)
        assert back["age"].to_list() == ["[1, 2]", "[1, 2]", "[3, 4]", "[3, 4]"]
        assert back["note"].to_list()[:2] == frame["note"].to_list()[:2]
        assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path):
    """Write the same file over and over, kill the writer at random moments, and read what is there."""
    script = textwrap.dedent(
        """
        import sys, narwhals.stable.v2 as nw, polars as pl
        from shoal.data.files import write_table
        frames = [nw.from_native(pl.DataFrame({"x": [i] * 200_000})) for i in range(2)]
        print("ready", flush=True)
        while True:
            for frame in frames:
                write_table(frame, sys.argv[1])
        """
    )
    path = tmp_path / "out.csv"
    path.write_text("x\n" + "0\n" * 200_000)
    random = np.random.default_rng(0)
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.02 + 0.2 * random.random())
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        content = pl.read_csv(path)["x"]
        assert len(content) == 200_000
        assert content.n_unique() == 1


def test_an_error_while_writing_leaves_nothing(tmp_path):
    from shoal.data.files import replacing

    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]
