"""The synthetic census, the public data sets as the papers prepared them, and how their files are got."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import math
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import datasets
from shoal.data import frames
from shoal.data.table import encode
from shoal.datasets import _adult, _census, _census_tables, _files, _mulan, _surveys
from shoal.errors import DataError, ShoalError

DATA = os.environ.get("SHOAL_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="SHOAL_DATA names no folder")


# --- the synthetic census ---------------------------------------------------------------------------------------------


def test_census_has_every_role():
    frame, schema = datasets.make_census(2000)
    assert frame.columns == schema.names
    assert frame.null_count().row(0) == (0,) * 15
    assert [a.name for a in schema.identifiers] == ["person-id"]
    assert frame["person-id"].n_unique() == 2000
    assert [a.name for a in schema.sensitive] == ["condition"]
    assert [a.name for a in schema.target] == ["income"]
    assert [a.name for a in schema.others] == ["hours-per-week", "capital-gain"]
    assert len(schema.quasi) == 10
    assert all(a.hierarchy is not None for a in schema.quasi if a.kind == "nominal")


def test_census_values_lie_under_their_hierarchies():
    frame, schema = datasets.make_census(20_000)
    for attribute in schema:
        if attribute.hierarchy is not None:
            attribute.hierarchy.check_covers(frame[attribute.name].unique(), attribute.name)
    table = encode(frame, schema)
    assert table.codes.shape == (20_000, 10)
    postal = schema["postal-code"].hierarchy
    code = frame["postal-code"][0]
    path = [postal.label_of(node) for node in postal.table[postal.leaf(code)]]
    assert path == [code, code[:3] + "*", code[:2] + "**", code[0] + "***", "*"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 2**64))
def test_census_depends_on_the_seed_alone(n, more, seed):
    people = datasets.make_census(n, seed).frame
    assert people.height == n
    assert people.equals(datasets.make_census(n + more, seed).frame.head(n))


def test_census_grows_across_chunks():
    n = _census.PEOPLE_AT_ONCE
    whole = datasets.make_census(2 * n + 5, 3).frame
    assert whole.head(n + 7).equals(datasets.make_census(n + 7, 3).frame)
    chunks = [whole.slice(start, 5).drop("person-id") for start in (0, n, 2 * n)]
    assert not chunks[0].equals(chunks[1])
    assert not chunks[1].equals(chunks[2])
    assert not datasets.make_census(50, 1).frame.equals(datasets.make_census(50, 2).frame)


def test_census_is_what_it_was():
    # Raw bits of PCG64 are the same everywhere, so these people are too.
    row = datasets.make_census(3, 0).frame.row(0)
    assert row[:6] == (1, 25, "Male", "White", "Never-married", "Not-in-family")


def test_census_in_each_library():
    polars = datasets.make_census(500).frame
    pandas = datasets.make_census(500, frame="pandas").frame
    arrow = datasets.make_census(500, frame="pyarrow").frame
    plain = polars.with_columns(pl.col(pl.Enum).cast(pl.String))
    assert plain.to_dict(as_series=False) == {name: pandas[name].tolist() for name in pandas}
    assert plain.to_dict(as_series=False) == arrow.to_pydict()
    assert str(pandas["sex"].dtype) == "category"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": -1}, ["n must be a whole number of at least 0", "-1"]),
        ({"n": 1.5}, ["n must be", "1.5"]),
        ({"n": 5, "seed": -3}, ["seed must be a whole number of at least 0", "-3"]),
        ({"n": 5, "seed": "x"}, ["seed must be", "'x'"]),
        ({"n": 5, "frame": "spark"}, ["frame must be 'polars', 'pandas' or 'pyarrow'", "'spark'"]),
    ],
)
def test_census_refuses(options, words):
    with pytest.raises(ShoalError) as caught:
        datasets.make_census(**options)
    _is_one_sentence(caught, *words)


@pytest.mark.parametrize("name", list(_census.WEIGHTED))
def test_weights_name_the_values_of_their_parents(name):
    weights = _census.WEIGHTED[name]
    labels = [label for label, row in _census.read_weights(weights) if len(row) == len(weights.values)]
    expected = ["bias"]
    for parent in weights.parents:
        levels = [""]
        for column in parent.split("*"):
            levels = [f"{left} {value}".strip() for left in levels for value in _census.LEVELS[column]]
        expected += levels
    assert labels == expected


@pytest.mark.parametrize("name", list(_census.WEIGHTED))
def test_lookup_is_softmax(name):
    """The lookup table gives each value its share under each combination, to within a step of 1/4096."""
    weights = _census.WEIGHTED[name]
    lookup = _census._lookups()[name]
    tabulated = lookup.outcomes.reshape(-1, 1 << lookup.bits)
    for condition, shares in enumerate(_naive_shares(weights)):
        counts = Counter(tabulated[condition].tolist())
        for code, share in enumerate(shares):
            assert abs(counts[code] / 4096 - share) <= 1 / 4096 + 1e-12


def _naive_shares(weights):
    rows = dict(_census.read_weights(weights))
    combinations = [[]]
    for parent in weights.parents:
        levels = [""]
        for column in parent.split("*"):
            levels = [f"{left} {value}".strip() for left in levels for value in _census.LEVELS[column]]
        combinations = [[*labels, label] for labels in combinations for label in levels]
    for labels in combinations:
        likely = [
            math.exp(rows["bias"][i] + sum(rows[label][i] for label in labels)) for i in range(len(weights.values))
        ]
        yield [x / sum(likely) for x in likely]


def test_direct_shares_are_complete():
    assert len(_census_tables.AGE_EDGES) == len(_census_tables.AGE_SHARES["Male"]) + 1
    assert len(_census_tables.AGE_EDGES) == len(_census_tables.AGE_SHARES["Female"]) + 1
    assert tuple(_census_tables.COUNTRY_COUNTS) == _census_tables.RACE.values
    assert tuple(_census_tables.HOURS_SHARES) == _census_tables.HOURS.values
    assert len(set(_census.POSTAL_CODES)) == len(_census.POSTAL_CODES) == 3600
    for name, weights in _census_tables.INCOME_WEIGHTS.items():
        assert len(weights) == len(_census.LEVELS[name])


def test_census_is_consistent():
    frame = datasets.make_census(50_000).frame
    assert frame["age"].min() == 17
    assert frame["age"].max() == 90
    assert frame["hours-per-week"].is_between(1, 99).all()
    husbands = frame.filter(pl.col("relationship") == "Husband")
    assert (husbands["sex"] == "Male").mean() > 0.999
    ill = frame.group_by(pl.col("age") >= 55).agg((pl.col("condition") != "Healthy").mean()).sort("age")["condition"]
    assert ill[1] > ill[0] + 0.2


def test_income_is_as_predictable_as_adults():
    from sklearn.ensemble import RandomForestClassifier

    frame = datasets.make_census(30_000).frame.drop("person-id")
    target = (frame["income"] == ">50K").to_numpy()
    assert 0.74 < 1 - target.mean() < 0.78
    features = frame.drop("income").with_columns(pl.col(pl.Enum).to_physical()).to_numpy()
    forest = RandomForestClassifier(60, min_samples_leaf=2, random_state=0).fit(features[:20_000], target[:20_000])
    assert 0.84 < forest.score(features[20_000:], target[20_000:]) < 0.87


@needs_data
def test_census_shares_are_adults():
    adult = datasets.fetch_adult(drop_missing=True, quasi=["education"], hierarchies=None).frame
    census = datasets.make_census(100_000, 1).frame.with_columns(pl.col(pl.Enum).cast(pl.String))
    for name in set(adult.columns) & set(census.columns):
        real, made = (_shares(frame[name]) for frame in (adult, census))
        distance = sum(abs(real.get(value, 0) - made.get(value, 0)) for value in real | made) / 2
        assert distance < 0.03, name


@needs_data
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("decade", "marital-status"),
        ("education", "occupation"),
        ("sex", "occupation"),
        ("marital-status", "income"),
        ("education", "income"),
        ("decade", "income"),
        ("race", "native-country"),
        ("workclass", "occupation"),
        ("marital-status", "relationship"),
    ],
)
def test_census_dependencies_are_adults(first, second):
    adult = datasets.fetch_adult(drop_missing=True, quasi=["education"], hierarchies=None).frame
    census = datasets.make_census(adult.height, 1).frame.with_columns(pl.col(pl.Enum).cast(pl.String))
    real, made = (
        _cramers_v(frame.with_columns(decade=pl.col("age") // 10), first, second) for frame in (adult, census)
    )
    assert 0.85 < made / real < 1.15


def _shares(column):
    return {value: count / len(column) for value, count in Counter(column.to_list()).items()}


def _cramers_v(frame, first, second):
    counts = Counter(zip(frame[first].to_list(), frame[second].to_list(), strict=True))
    rows, columns = Counter(frame[first].to_list()), Counter(frame[second].to_list())
    n = frame.height
    expected = {(a, b): rows[a] * columns[b] / n for a in rows for b in columns}
    chi2 = sum((counts[cell] - e) ** 2 / e for cell, e in expected.items())
    return math.sqrt(chi2 / n / (min(len(rows), len(columns)) - 1))


def test_importing_datasets_imports_no_frame_library():
    code = (
        "import sys, shoal.datasets as d; d.list_datasets(); "
        "print(sorted({'polars', 'pandas', 'pyarrow', 'scipy', 'numba', 'sklearn'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert run.stdout.strip() == "[]"


# --- preparation, on small files that need no data folder -------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a function that puts a file into a data folder of its own, as if it were the right one."""
    monkeypatch.setenv("SHOAL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SHOAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")

    def put(path, content, urls=()):
        content = content.encode() if isinstance(content, str) else content
        place = tmp_path / "data" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        expect(path, content, urls)
        return place

    def expect(path, content, urls=()):
        file = _files.File(_files.FILES[path].dataset, hashlib.sha256(content).hexdigest(), tuple(urls))
        monkeypatch.setitem(_files.FILES, path, file)

    put.expect = expect
    put.data = tmp_path / "data"
    put.cache = tmp_path / "cache"
    return put


ADULT_TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Sales, Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K
54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Asian-Pac-Islander, Male, 0, 0, 60, South, >50K

"""
ADULT_TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, ?, <=50K.
44, Private, 160323, HS-grad, 9, Married-civ-spouse, Sales, Husband, Black, Male, 7688, 0, 40, Cuba, >50K.

"""


@pytest.fixture
def small_adult(folder):
    folder("adult/adult.data", ADULT_TRAIN)
    folder("adult/adult.test", ADULT_TEST)
    return folder


def test_adult_parts_and_missing_values(small_adult):
    frame, schema = datasets.fetch_adult(hierarchies="shoal")
    assert frame.columns == schema.names == [*_adult.QUASI[12], "income"]
    assert frame["income"].to_list() == ["<=50K", ">50K", "<=50K", ">50K"]
    assert frame["workclass"].to_list() == ["State-gov", None, "Private", "Private"]
    assert frame["age"].dtype == pl.Int64
    assert datasets.fetch_adult("train", hierarchies=None).frame.height == 2
    assert datasets.fetch_adult("test", hierarchies=None, drop_missing=True).frame["native-country"].to_list() == [
        "Cuba"
    ]
    assert datasets.fetch_adult(hierarchies="shoal", drop_missing=True).frame["age"].to_list() == [39, 44]


def test_adult_binary_country(small_adult):
    frame, schema = datasets.fetch_adult(hierarchies="shoal", binary_country=True)
    assert frame["native-country"].to_list() == ["United-States", "Non-US", None, "Non-US"]
    assert set(schema["native-country"].hierarchy.values) == {"United-States", "Non-US"}


def test_adult_quasi_identifiers(small_adult):
    def fetch(quasi):
        return datasets.fetch_adult(quasi=quasi, hierarchies="shoal").schema

    for count in (12, 10, 8):
        schema = fetch(count)
        assert len(schema.quasi) == count
        assert len(schema.others) == 12 - count
        assert [a.name for a in schema.target] == ["income"]
    assert fetch(8).names[:2] == ["workclass", "marital-status"]
    arx = fetch(9)
    assert arx.names == list(_adult.QUASI[9])
    assert not arx.target
    named = fetch(["education", "age"])
    assert [a.name for a in named.quasi] == ["education", "age"]
    assert "education-num" not in named.names
    assert "fnlwgt" not in named.names
    assert "fnlwgt" in fetch(["fnlwgt"]).names
    assert [a.name for a in fetch("age").quasi] == ["age"]
    both = fetch(["education", "education-num"])
    assert [a.name for a in both.quasi] == ["education", "education-num"]


def test_adult_in_each_library(small_adult):
    polars = datasets.fetch_adult(hierarchies=None).frame
    arrow = datasets.fetch_adult(hierarchies=None, frame="pyarrow").frame
    pandas = datasets.fetch_adult(hierarchies=None, frame="pandas").frame
    assert polars.to_dict(as_series=False) == arrow.to_pydict()
    assert pandas["age"].tolist() == [39, 54, 25, 44]
    assert pandas["workclass"].isna().tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subset": "validation"}, ["subset must be 'all', 'train' or 'test'", "'validation'"]),
        ({"quasi": 11}, ["quasi must be 12, 10, 8 or 9", "11"]),
        ({"quasi": ["age", "zip"]}, ["'zip'", "native-country"]),
        ({"quasi": "zip"}, ["'zip'", "native-country"]),
        ({"hierarchies": "mine"}, ["hierarchies must be 'sangreea', 'arx', 'shoal' or None", "'mine'"]),
        ({"frame": "dask"}, ["frame must be", "'pandas'", "'dask'"]),
    ],
)
def test_adult_refuses(small_adult, options, words):
    with pytest.raises(ShoalError) as caught:
        datasets.fetch_adult(**options)
    _is_one_sentence(caught, *words)


def test_missing_library_is_one_sentence(small_adult, monkeypatch):
    def lacking(*_):
        raise ModuleNotFoundError("pyarrow is required for converting to pandas.\nInstall it.")

    monkeypatch.setattr(frames, "convert", lacking)
    with pytest.raises(DataError) as caught:
        datasets.fetch_adult(hierarchies=None, frame="pandas")
    _is_one_sentence(caught, "frame='pandas'", "pyarrow is required", "install")


def test_nursery(folder):
    rows = [
        "usual,proper,complete,1,convenient,convenient,nonprob,recommended,recommend",
        "usual,proper,complete,more,convenient,convenient,problematic,priority,priority",
    ]
    folder("nursery/nursery.data", "\n".join(rows) + "\n\n")
    frame, schema = datasets.fetch_nursery()
    assert frame.rows() == [tuple(rows[1].split(","))]
    assert [a.name for a in schema.sensitive] == ["social"]
    assert schema["health"].order == ("recommended", "priority", "not_recom")
    assert datasets.fetch_nursery(keep_scarce=True).frame.height == 2
    assert len(datasets.fetch_nursery(sensitive=None).schema.quasi) == 8
    boolean = datasets.fetch_nursery(boolean_social=True, keep_scarce=True)
    assert boolean.frame["social"].to_list() == [False, True]
    assert boolean.schema.names == boolean.frame.columns
    with pytest.raises(ShoalError) as caught:
        datasets.fetch_nursery(sensitive="class")
    _is_one_sentence(caught, "sensitive must be", "'class'", "'social'")


def test_gss(folder):
    header = (
        "year,id,work status,marital status,children,age,gender,race,Happiness level,Happiness of marriage,"
        "watched x-rated movies in the last year"
    )
    rows = [
        "2006,1,WORKING FULLTIME,NEVER MARRIED,3,50,FEMALE,BLACK,PRETTY HAPPY,,NO",
        '2006,2,"UNEMPL, LAID OFF",MARRIED,EIGHT OR MORE,89 OR OLDER,MALE,WHITE,VERY HAPPY,VERY HAPPY,',
        "2006,3,,MARRIED,,,MALE,WHITE,,NOT TOO HAPPY,YES",
    ]
    folder("gss/GSShappiness.csv", "\n".join([header, *rows]) + "\n")
    frame, schema = datasets.fetch_gss()
    assert frame.columns == schema.names
    assert frame["age"].to_list() == [89, None]
    assert frame["children"].to_list() == [8, None]
    assert frame["work status"].to_list() == ["UNEMPL, LAID OFF", None]
    assert [a.name for a in schema.target] == ["Happiness of marriage"]
    assert len(schema.quasi) == 7
    assert datasets.fetch_gss(labelled=False).frame.height == 3
    assert datasets.fetch_gss(labelled=False, keep_scarce=False).frame["id"].to_list() == [1, 2]
    assert datasets.fetch_gss(boolean_happiness=True).frame["Happiness level"].to_list() == [True]


def test_arff_of_numbers_and_labels():
    content = b"% a comment\n@relation r\n@attribute 'a b' numeric\n@attribute label {0,1}\n@data\n0.5,1\n-2e3,0\n"
    frame = _mulan.read_arff(content)
    assert frame.columns == ["a b", "label"]
    assert frame["a b"].to_list() == [0.5, -2000.0]
    assert frame["label"].to_list() == [1, 0]
    assert frame["label"].dtype.is_integer()


# --- the real data ----------------------------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize(
    ("options", "rows", "rich"),
    [
        ({}, 48_842, 11_687),
        ({"subset": "train"}, 32_561, 7_841),
        ({"subset": "test"}, 16_281, 3_846),
        ({"drop_missing": True}, 45_222, 11_208),
        ({"subset": "train", "drop_missing": True}, 30_162, 7_508),
        ({"subset": "test", "drop_missing": True}, 15_060, 3_700),
    ],
)
def test_adult_counts(options, rows, rich):
    frame = datasets.fetch_adult(**options).frame
    assert frame.height == rows
    assert (frame["income"] == ">50K").sum() == rich


@needs_data
@pytest.mark.parametrize("hierarchies", ["sangreea", "arx", "shoal", None])
@pytest.mark.parametrize("binary_country", [False, True])
def test_adult_hierarchies_cover_it(hierarchies, binary_country):
    frame, schema = datasets.fetch_adult(hierarchies=hierarchies, binary_country=binary_country)
    table = encode(frame, schema)
    assert table.n_rows == 48_842
    assert len(table.quasi) == 12
    share = (frame["native-country"] == "United-States").mean()
    assert 0.89 < share < 0.92
    own = {a.name for a in schema.quasi if a.hierarchy is not None}
    nominal = {"workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country"}
    expected = {"sangreea": nominal, "shoal": nominal, "arx": nominal - {"relationship"} | {"age"}, None: set()}
    assert own == expected[hierarchies]


@needs_data
def test_adult_is_arx_benchmark():
    """Row for row the file that ARX publishes, which comes from another source."""
    frame, schema = datasets.fetch_adult("train", drop_missing=True, quasi=9, hierarchies="arx")
    with gzip.open(Path(DATA) / "arx" / "adult.csv.gz") as file:
        published = pl.read_csv(file.read(), separator=";", eol_char="\n")
    published = published.rename({name: name.strip() for name in published.columns})
    published = published.with_columns(pl.col(pl.String).str.strip_chars())
    assert frame.rename({"income": "salary-class"}).equals(published)
    heights = {a.name: a.hierarchy.height for a in schema.quasi}
    assert math.prod(height + 1 for height in heights.values()) == 12_960  # the lattice of ARX's benchmark


@needs_data
def test_nursery_counts():
    frame = datasets.fetch_nursery(keep_scarce=True).frame
    counts = {"not_recom": 4320, "priority": 4266, "spec_prior": 4044, "very_recom": 328, "recommend": 2}
    assert Counter(frame["class"]) == counts
    frame, schema = datasets.fetch_nursery()
    assert frame.height == 12_958
    assert encode(frame, schema).n_rows == 12_958
    boolean = datasets.fetch_nursery(boolean_social=True)
    assert boolean.frame["social"].mean() == pytest.approx(1 / 3, abs=0.001)
    assert encode(boolean.frame, boolean.schema).n_rows == 12_958


@needs_data
def test_gss_counts():
    frame, schema = datasets.fetch_gss()
    assert Counter(frame[_surveys.GSS_LABEL]) == {"VERY HAPPY": 15_551, "PRETTY HAPPY": 8_185, "NOT TOO HAPPY": 719}
    assert Counter(frame["watched x-rated movies in the last year"]) == {"NO": 13_019, "YES": 3_228, None: 8_208}
    assert frame.drop_nulls().height == 16_127
    assert encode(frame, schema).n_rows == 24_455
    assert datasets.fetch_gss(labelled=False).frame.height == 51_020
    assert datasets.fetch_gss(keep_scarce=False).frame.height == 23_736
    assert datasets.fetch_gss(boolean_happiness=True).frame.height == 24_389


@needs_data
@pytest.mark.parametrize(
    ("version", "shape", "quasi", "ended"),
    [
        ("2007-2011", (42_535, 36), 18, (36_104, 6_431)),
        ("2007-2015-sample", (39_238, 37), 11, (9_037, 2_010)),
        ("119987", (119_987, 15), 10, (97_316, 22_671)),
        ("2015-small", (1_680, 146), 18, (1_268, 253)),
    ],
)
def test_loan_counts(version, shape, quasi, ended):
    frame, schema = datasets.fetch_loan(version)
    assert frame.shape == shape
    assert frame.columns == schema.names
    assert len(schema.quasi) == quasi
    assert [a.name for a in schema.target] == ["loan_status"]
    assert encode(frame, schema).n_rows == shape[0]
    counts = Counter(datasets.fetch_loan(version, binary=True).frame["loan_status"])
    assert (counts["Fully Paid"], counts["Charged Off"], len(counts)) == (*ended, 2)


@needs_data
def test_location30_is_wide_and_its_rows_are_unique():
    frame, schema = datasets.fetch_location30()
    assert frame.shape == (5_010, 447)
    assert frame.columns == schema.names
    assert ([a.name for a in schema.target], len(schema.quasi)) == (["class"], 446)
    sizes = Counter(frame["class"])
    assert (sorted(sizes), min(sizes.values()), max(sizes.values())) == (list(range(1, 31)), 97, 308)
    places = frame.drop("class")
    assert set(np.unique(places.to_numpy())) == {0, 1}
    assert places.to_numpy().mean() == pytest.approx(0.120, abs=5e-4)
    assert places.is_unique().all()
    assert encode(frame, schema).n_rows == 5_010


def test_location30_from_a_line(folder):
    row = ['"13"', "0", "1", *("0" for _ in range(444))]
    folder("location30/bangkok.csv", ",".join(row) + "\n")
    frame = datasets.fetch_location30().frame
    assert frame.select("class", "place-1", "place-2", "place-446").rows() == [(13, 0, 1, 0)]


@needs_data
@pytest.mark.parametrize(
    ("fetch", "rows", "features", "targets"),
    [
        (datasets.fetch_scene, 2_407, 294, 6),
        (datasets.fetch_cal500, 502, 68, 174),
        (datasets.fetch_wq, 1_060, 16, 14),
        (datasets.fetch_oes97, 334, 263, 16),
    ],
)
def test_mulan_shapes(fetch, rows, features, targets):
    frame, schema = fetch()
    assert frame.shape == (rows, features + targets)
    assert frame.columns == schema.names
    assert (len(schema.others), len(schema.target), len(schema.quasi)) == (features, targets, 0)
    assert sum(frame.null_count().row(0)) == 0
    assert all(dtype.is_numeric() for dtype in frame.dtypes)


@needs_data
def test_mulan_labels():
    scene = datasets.fetch_scene()
    counts = {"Beach": 427, "Sunset": 364, "FallFoliage": 397, "Field": 433, "Mountain": 533, "Urban": 431}
    assert {a.name: int(scene.frame[a.name].sum()) for a in scene.schema.target} == counts
    assert [datasets.fetch_scene(part).frame.height for part in ("train", "test")] == [1_211, 1_196]
    cal500 = datasets.fetch_cal500()
    labels = cal500.frame.select(a.name for a in cal500.schema.target)
    assert labels.to_numpy().sum() / 502 == pytest.approx(26.044, abs=5e-4)
    water = datasets.fetch_wq()
    assert set(np.unique(water.frame.select(a.name for a in water.schema.target).to_numpy())) == {0, 1, 3, 5}
    with pytest.raises(ShoalError) as caught:
        datasets.fetch_scene("half")
    _is_one_sentence(caught, "subset must be", "'train'", "'half'")


@needs_data
@pytest.mark.parametrize("name", ["scene-train", "cal500", "wq", "oes97"])
def test_arff_equals_a_plain_reading(name):
    text = _files.read(f"mulan/{name}.arff").decode()
    _, _, body = text.partition(next(line for line in text.splitlines() if line.lower().startswith("@data")))
    plain = np.array([line.split(",") for line in body.split()], dtype=float)
    np.testing.assert_array_equal(_mulan.read_arff(text.encode()).to_numpy(), plain)


@needs_data
def test_every_file_is_the_right_one():
    for path in _files.FILES:
        assert hashlib.sha256(_files.read(path)).hexdigest() == _files.FILES[path].sha256


# --- getting files ----------------------------------------------------------------------------------------------------

NURSERY = b"usual,proper,complete,1,convenient,convenient,nonprob,priority,priority\n\n"
PATH = "nursery/nursery.data"


class Answers(http.server.BaseHTTPRequestHandler):
    """A server that sends NURSERY in the ways that servers do."""

    def do_GET(self):
        way = self.path.strip("/")
        if way == "gone":
            self.send_error(404)
            return
        if way == "silent":
            time.sleep(1.5)
            return
        content = {
            "gz": gzip.compress(NURSERY),
            "wrong": b"<html>Sign in</html>",
            "crlf": NURSERY.replace(b"\n", b"\r\n"),
        }
        content |= {"damaged-gz": gzip.compress(NURSERY)[:-9], "cr": NURSERY.replace(b"\n", b"\r")[:-1]}
        body = content.get(way, NURSERY)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + (1000 if way == "cut" else 0)))
        self.end_headers()
        self.wfile.write(body[:20] if way == "cut" else body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def _cached(folder):
    return sorted(str(file.relative_to(folder.cache)) for file in folder.cache.rglob("*") if file.is_file())


@pytest.mark.parametrize("way", ["plain", "gz", "crlf", "cr"])
def test_download(folder, server, way):
    folder.expect(PATH, NURSERY, [f"{server}/{way}"])
    assert datasets.fetch_nursery().frame.height == 1
    assert _cached(folder) == [PATH]
    assert (folder.cache / PATH).read_bytes() == NURSERY
    folder.expect(PATH, NURSERY, ["http://127.0.0.1:9/never-asked-again"])
    assert datasets.fetch_nursery().frame.height == 1


@pytest.mark.parametrize("way", ["wrong", "damaged-gz", "gone", "cut", "silent"])
def test_download_fails_in_one_sentence(folder, server, way, monkeypatch):
    monkeypatch.setattr(_files, "TIMEOUT", 0.3)
    folder.expect(PATH, NURSERY, [f"{server}/{way}"])
    with pytest.raises(DataError) as caught:
        datasets.fetch_nursery()
    reason = {
        "wrong": "SHA-256",
        "damaged-gz": "SHA-256",
        "gone": "Not Found",
        "cut": "IncompleteRead",
        "silent": "timed out",
    }
    _is_one_sentence(caught, "'nursery'", f"{server}/{way}", reason[way], PATH, "SHOAL_DATA")
    assert _cached(folder) == []


def test_unreachable_host(folder):
    folder.expect(PATH, NURSERY, ["http://127.0.0.1:9/x"])
    with pytest.raises(DataError) as caught:
        datasets.fetch_nursery()
    _is_one_sentence(caught, "'nursery'", "http://127.0.0.1:9/x", "refused", "SHOAL_DATA")


def test_next_source_is_asked(folder, server):
    folder.expect(PATH, NURSERY, [f"{server}/gone", f"{server}/wrong", f"{server}/plain"])
    assert datasets.fetch_nursery().frame.height == 1


def test_damaged_cache_is_fetched_again(folder, server):
    folder.expect(PATH, NURSERY, [f"{server}/plain"])
    (folder.cache / "nursery").mkdir(parents=True)
    (folder.cache / PATH).write_bytes(NURSERY[:30])
    assert datasets.fetch_nursery().frame.height == 1
    assert (folder.cache / PATH).read_bytes() == NURSERY


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_interrupted_write_leaves_no_half_file(folder, server, monkeypatch, stop):
    folder.expect(PATH, NURSERY, [f"{server}/plain"])

    def half(self, content):
        with open(self, "wb") as file:
            file.write(content[: len(content) // 2])
        raise stop

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(KeyboardInterrupt if stop is KeyboardInterrupt else DataError):
        datasets.fetch_nursery()
    assert _cached(folder) == []


def test_cache_that_cannot_be_written(folder, server):
    folder.expect(PATH, NURSERY, [f"{server}/plain"])
    folder.cache.write_text("a file where the folder should be")
    with pytest.raises(DataError) as caught:
        datasets.fetch_nursery()
    _is_one_sentence(caught, str(folder.cache), "SHOAL_CACHE")


def test_given_folder_comes_first(folder):
    place = folder(PATH, NURSERY, ["http://127.0.0.1:9/x"])
    assert datasets.fetch_nursery().frame.height == 1
    place.unlink()
    place.with_name("nursery.data.gz").write_bytes(gzip.compress(NURSERY))
    assert datasets.fetch_nursery().frame.height == 1
    assert not folder.cache.exists()


def test_wrong_file_in_given_folder(folder):
    place = folder(PATH, NURSERY)
    place.write_bytes(NURSERY + b"one more row\n")
    with pytest.raises(DataError) as caught:
        datasets.fetch_nursery()
    _is_one_sentence(caught, str(place), "'nursery'", "SHA-256", "SHOAL_DATA")


def test_loans_have_no_public_source(folder):
    with pytest.raises(DataError) as caught:
        datasets.fetch_loan()
    _is_one_sentence(caught, "'loan'", "loan/lendingclub_2007_2011.csv", "no public source", "SHOAL_DATA")
    with pytest.raises(ShoalError) as caught:
        datasets.fetch_loan("2016")
    _is_one_sentence(caught, "version must be", "'2007-2011'", "'2016'")


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("SHOAL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _files.cache_folder() == tmp_path / "shoal"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _files.cache_folder() == tmp_path / ".cache" / "shoal"
    monkeypatch.setenv("SHOAL_CACHE", str(tmp_path / "mine"))
    assert _files.cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("SHOAL_DATA", raising=False)
    assert _files.given_folder() is None


def test_list_says_what_is_here(folder):
    infos = {info.name: info for info in datasets.list_datasets()}
    assert infos["census"].where == "embedded"
    assert infos["nursery"].where == "download"
    assert not infos["nursery"].available
    assert infos["loan"].where == "missing"
    folder(PATH, NURSERY)
    nursery = next(info for info in datasets.list_datasets() if info.name == "nursery")
    assert nursery.available
    assert nursery.where == str(folder.data)
    assert all(callable(getattr(datasets, info.function)) for info in infos.values())


@needs_data
def test_list_is_right_about_rows_and_columns():
    for info in datasets.list_datasets():
        assert info.available
        frame = getattr(datasets, info.function)().frame
        assert frame.width == info.columns
        assert info.rows in (frame.height, None)


def test_nearly_every_file_has_a_public_source():
    assert {file.dataset for file in _files.FILES.values() if not file.urls} == {"loan", "location30"}
    assert all(url.startswith("https://") for file in _files.FILES.values() for url in file.urls)


def _is_one_sentence(caught, *words):
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    for word in words:
        assert word in message
