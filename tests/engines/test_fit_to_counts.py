"""Methods that look at the whole table are fitted to counts of its rows, and release what they would release of it."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from polars_engine import PolarsEngine
from promises import FEWER
from shoal import (
    Attribute,
    BetaLikeness,
    DeltaPresence,
    Flash,
    KAnonymity,
    KMap,
    LDiversity,
    Schema,
    TCloseness,
    anonymize,
    check,
)
from shoal.datasets import make_census
from shoal.engines.fit_to_counts import fit_to_counts
from shoal.engines.partial_release import add_losses
from shoal.errors import DataError, GuaranteeError, ShoalError
from tables import tables

NAMES = ["age", "sex", "race", "education", "income"]


@pytest.fixture(scope="module")
def census():
    full = make_census(3_000, seed=5)
    names = [name for name in NAMES if name in full.schema.names]
    return full.frame.select(names), Schema(full.schema[name] for name in names)


def released(frame, method):
    """The rows in two batches, as engines see them."""
    counted = fit_to_counts(PolarsEngine(frame), method, 10**6)
    assert counted is not None
    assert counted.n_rows == frame.height
    halves = [frame[: frame.height // 2], frame[frame.height // 2 :]]
    texts = [one.name for one in method.schema.quasi]
    parts = [counted.release(half).to_native().with_columns(pl.col(texts).cast(pl.String)) for half in halves]
    return pl.concat(parts), counted


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"suppression": 0.1},
        {"mode": "mixed", "suppression": 0.05},
        {"mode": "local"},
        {"mode": "local", "recoding": "set", "loss": "entropy"},
        {"loss": "entropy", "suppression": 0.2},
        {"loss": "discernibility", "suppression": 0.2},
        {"recoding": "interval"},
        {"recoding": "set", "suppression": 0.1},
    ],
    ids=str,
)
def test_counts_give_the_release_of_the_rows_themselves(census, how):
    frame, schema = census
    found, counted = released(frame, Flash(schema, k=20, **how))
    local = Flash(schema, k=20, **how)
    texts = pl.col(one.name for one in schema.quasi).cast(pl.String)
    assert found.equals(local.fit_transform(frame).with_columns(texts))
    assert counted.findings["levels"] == local.levels_
    expected = clone(local).release_rows(frame).loss()
    assert counted.part.loss._asdict() == {name: pytest.approx(value) for name, value in expected._asdict().items()}
    together = add_losses([counted.part])
    assert together.ncp == pytest.approx(expected.ncp)
    assert together.discernibility == pytest.approx(expected.discernibility)


@FEWER
@given(
    tables(least_rows=4, most_rows=60),
    st.sampled_from(["global", "mixed", "local"]),
    st.integers(2, 4),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([(), (LDiversity(2),), (TCloseness(0.5),), (BetaLikeness(2.0),)]),
)
def test_constraints_hold_on_what_is_released_by_counts(table, mode, k, suppression, constraints):
    frame, schema = table
    method = Flash(schema, k=k, mode=mode, suppression=suppression, constraints=constraints)
    asked = [KAnonymity(k), *constraints]
    try:
        local = method.fit_transform(frame)
    except GuaranteeError:
        with pytest.raises(GuaranteeError):
            released(frame, method)
        return
    found, _ = released(frame, method)
    assert check(found, schema, asked).holds
    texts = pl.col(one.name for one in schema.quasi).cast(pl.String)
    assert found.equals(local.with_columns(texts))


@pytest.mark.parametrize("asked", [KMap(6, "in"), DeltaPresence(0.05, 0.9, "in")], ids=["k-map", "presence"])
def test_populations_are_counted_too(asked):
    ages = [20 + i % 30 for i in range(900)]
    frame = pl.DataFrame({"age": ages, "in": [i % 3 == 0 for i in range(900)]})
    schema = Schema([Attribute("age"), Attribute("in", "other", "nominal")])
    found, counted = released(frame, Flash(schema, k=4, constraints=[asked], suppression=0.1))
    assert check(found, schema, [KAnonymity(4), asked]).holds
    local = anonymize(frame, schema, 4, method="flash", constraints=[asked], suppression=0.1)
    assert counted.part.loss.ncp == pytest.approx(local.loss.ncp)
    assert counted.part.sizes.n_rows == 300


def test_what_needs_all_rows_of_a_group_is_refused(census):
    frame, schema = census
    with pytest.raises(ShoalError, match="recoding='mean' needs all rows of a group"):
        fit_to_counts(PolarsEngine(frame), Flash(schema, k=5, recoding="mean"), 10**6)


def test_what_can_do_with_parts_does_so_where_counts_are_too_many(census):
    frame, schema = census
    assert fit_to_counts(PolarsEngine(frame), Flash(schema, k=5, mode="local"), 10) is None
    assert fit_to_counts(PolarsEngine(frame), Flash(schema, k=5, mode="local", recoding="mean"), 10**6) is None


def test_too_many_different_rows_are_refused(census):
    frame, schema = census
    with pytest.raises(DataError, match=r"more than 10 different rows.*make numbers, or 'education'"):
        fit_to_counts(PolarsEngine(frame), Flash(schema, k=5), 10)


def test_rows_that_came_later_are_noticed(census):
    frame, schema = census
    counted = fit_to_counts(PolarsEngine(frame), Flash(schema, k=5), 10**6)
    later = frame[:1].with_columns(race=pl.lit("Martian"))
    with pytest.raises(DataError, match="has changed since its rows were counted"):
        counted.release(later)


def test_whole_numbers_that_floats_cannot_tell_apart_lie_where_they_were_counted():
    frame = pl.DataFrame({"a": [2**53 + i * 7 % 11 for i in range(90)], "b": [i % 3 for i in range(90)]})
    method = Flash(Schema([Attribute("a"), Attribute("b")]), k=5)
    found, _ = released(frame, method)
    assert found.group_by(pl.all()).len()["len"].min() >= 5
    assert found.equals(method.fit_transform(frame).cast(pl.String))
