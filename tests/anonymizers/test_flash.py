"""Flash: the optimum of its naive twin and of ARX, released as it says, and a scikit-learn estimator."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from naive import flash as naive_flash
from promises import EXAMPLES
from releases import CONSTRAINTS, assert_kept
from shoal import (
    AlphaKAnonymity,
    Attribute,
    DeltaDisclosure,
    DeltaPresence,
    Flash,
    Hierarchy,
    KMap,
    LDiversity,
    Schema,
    TCloseness,
    anonymize,
)
from shoal.anonymizers import flash as module
from shoal.anonymizers._full_domain import FullDomain
from shoal.anonymizers._stepwise import recode_stepwise
from shoal.data.table import encode
from shoal.datasets import fetch_adult
from shoal.errors import GuaranteeError, ShoalError
from shoal.privacy.rules import make_guard
from tables import tables

LOSSES = ["loss", "ncp", "entropy", "precision", "discernibility", "average-group-size"]
LIMITS = [0.0, 0.1, 0.3, 1.0]
# Delta-disclosure that ignores absent values is the one model that does not grow with groups.
MODELS = [*CONSTRAINTS, (DeltaDisclosure(0.8),), (LDiversity(2), AlphaKAnonymity(0.8, 3))]
EACH = settings(max_examples=EXAMPLES // 5 + 1)
FEWER = settings(max_examples=EXAMPLES // 15 + 1)


@parametrize_with_checks([Flash(k=2, recoding="representative"), Flash(k=1, mode="local", recoding="mean")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@EACH
@given(
    tables(most_rows=20),
    st.integers(1, 5),
    st.sampled_from(LOSSES),
    st.sampled_from(LIMITS),
    st.sampled_from(MODELS),
)
def test_finds_the_optimum_of_the_naive_twin(random_table, k, loss, limit, constraints):
    frame, schema = random_table
    k = min(k, len(frame))
    flash = Flash(schema, k, loss=loss, suppression=limit, constraints=constraints)
    try:
        flash.fit(frame)
    except GuaranteeError as error:
        assert "cannot be reached" in str(error) or "equal released values" in str(error)
        return
    best, losses = naive_flash.optimum(encode(frame, schema), k, loss=loss, limit=limit, constraints=constraints)
    assert flash.loss_ == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert losses[tuple(flash.levels_.values())] == pytest.approx(best, rel=1e-9, abs=1e-9)
    found = flash.findings()
    assert found["optimal"]
    assert found["checked"] + found["excluded"] == len(losses) == found["lattice"]
    for levels, tag, shown in zip(*flash.lattice_, strict=True):
        if not np.isnan(shown):
            assert losses[tuple(levels.tolist())] == pytest.approx(shown, rel=1e-9, abs=1e-9)
        elif tag == "inadmissible":
            assert losses[tuple(levels.tolist())] == np.inf


@EACH
@given(
    tables(),
    st.integers(1, 6),
    st.sampled_from(["local", "mixed"]),
    st.sampled_from(["loss", "ncp", "entropy", "precision"]),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from(CONSTRAINTS),
    st.sampled_from([0.01, 0.2]),
)
def test_steps_keep_every_promise(random_table, k, mode, loss, limit, constraints, step):
    frame, schema = random_table
    k = min(k, len(frame))
    flash = Flash(schema, k, mode=mode, loss=loss, suppression=limit, constraints=constraints, step=step)
    try:
        released = flash.fit_transform(frame)
    except GuaranteeError as error:
        assert "cannot be reached" in str(error)
        return
    assert_kept(released, schema, k, constraints)
    assert np.count_nonzero(flash.labels_ < 0) <= limit * len(frame)
    assert flash.transform(frame).equals(released)
    if mode == "mixed":
        for attribute in schema.quasi:
            assert attribute.kind == "nominal" or len(set(flash.levels_[attribute.name])) == 1
    elif limit == 0:
        assert (flash.labels_ >= 0).all()


@EACH
@given(tables(), st.integers(1, 5), st.sampled_from(["global", "local", "mixed"]), st.sampled_from([0.0, 0.3]))
def test_groups_are_released_as_nodes_and_lose_what_these_do(random_table, k, mode, limit):
    frame, schema = random_table
    k = min(k, len(frame))
    release = anonymize(frame, schema, k, method="flash", mode=mode, suppression=limit)
    flash = Flash(schema, k, mode=mode, suppression=limit).fit(frame)
    table = encode(frame, schema)
    total, weight = 0.0, 0.0
    for j, column in enumerate(table.quasi):
        ladder, lost = naive_flash.ladder(column), 0.0
        for code, label, shown in zip(column.codes, flash.labels_, release.frame[column.name].to_list(), strict=True):
            if label < 0:
                lost += column.n_values > 1
                assert shown in ("*", None)
                continue
            node = frozenset(range(flash._nodes.low[label, j], flash._nodes.high[label, j] + 1))
            assert node in [level[code] for level in ladder]
            assert mode != "global" or node == ladder[flash.levels_[column.name]][code]
            assert_shown(column, node, shown)
            lost += naive_flash.cell(column, node, "loss")
        total += column.attribute.weight * lost
        weight += column.attribute.weight
    assert release.loss.granularity == pytest.approx(total / weight / len(frame), abs=1e-9)
    assert flash.loss_ == pytest.approx(release.loss.granularity, abs=1e-9)


def assert_shown(column, node, shown):
    """A single value as it is, all of them as a star, else a range or the label of a node with just these leaves."""
    if len(node) == 1:
        (code,) = node
        assert shown == column.values[code] or shown == column.text(code)
    elif len(node) == column.n_values:
        assert shown == "*"
    elif column.tree is None:
        assert shown == f"[{column.text(min(node))}, {column.text(max(node))}]"
    else:
        assert naive_flash.leaves(column.tree, column.tree.node(shown)) == node


@FEWER
@given(
    tables(most_rows=14),
    st.integers(1, 4),
    st.sampled_from(["loss", "ncp", "precision"]),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from(CONSTRAINTS),
    st.sampled_from([0.01, 0.2]),
)
def test_steps_are_those_of_the_naive_twin(random_table, k, loss, limit, constraints, step):
    frame, schema = random_table
    table = encode(frame, schema)
    smallest = max([min(k, len(frame)), *(int(c.k) for c in constraints if hasattr(c, "k"))])
    if not naive_flash.keeps_alone(table, range(len(frame)), smallest, constraints):
        return
    domain = FullDomain(table, make_guard(constraints, table), smallest, loss)
    # The twin takes seconds for more.
    assume(np.prod(domain.tops + 1) <= 30)
    choices = [np.arange(top + 1) for top in domain.tops]
    found = recode_stepwise(domain, choices, step, int(limit * len(frame) + 1e-9))
    expected, rest = naive_flash.recode_locally(
        table, smallest, loss=loss, limit=limit, constraints=constraints, step=step
    )
    assert [tuple(each.levels.tolist()) for each in found.steps] == [levels for levels, _ in expected]
    for each, (_, groups) in zip(found.steps, expected, strict=True):
        number = np.full(len(domain.codes), -1)
        number[each.entries] = each.labels
        of_row = number[domain.tuple_of_row]
        assert {tuple(np.flatnonzero(of_row == g)) for g in range(each.labels.max() + 1)} == {*map(tuple, groups)}
    assert np.flatnonzero(np.isin(domain.tuple_of_row, found.rest)).tolist() == rest


@EACH
@given(tables(), st.integers(1, 5), st.sampled_from(["loss", "entropy"]), st.sampled_from([0.0, 0.3]))
def test_local_recoding_never_loses_more_than_one_vector(random_table, k, loss, limit):
    frame, schema = random_table
    k = min(k, len(frame))
    one, local = (Flash(schema, k, mode=mode, loss=loss, suppression=limit).fit(frame) for mode in ("global", "local"))
    if loss != "entropy" or limit == 0:
        # ARX's entropy counts a suppressed row of one vector as if it were generalised.
        assert local.loss_ <= one.loss_ + 1e-9


def test_steps_that_end_dearly_are_not_taken():
    random = np.random.default_rng(0)
    losses = []
    for _ in range(40):
        frame = pl.DataFrame({"x": random.integers(0, 12, 50), "c": random.choice(list("abcdefgh"), 50)})
        losses.append([Flash(k=10, mode=mode).fit(frame).loss_ for mode in ("global", "local")])
    assert all(local <= one + 1e-9 for one, local in losses)
    assert any(local < one for one, local in losses)


def test_vectors_at_which_all_rows_would_be_suppressed_exclude_those_below():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({f"x{j}": random.integers(0, 40, 200) for j in range(5)})
    found = Flash(k=5, suppression=1.0).fit(frame).findings()
    assert found["optimal"]
    assert found["checked"] < found["lattice"] / 5


def test_local_recoding_stops_when_the_time_is_over():
    random = np.random.default_rng(0)
    columns = {f"x{j}": random.integers(0, 40, 20_000) for j in range(8)}
    frame = pl.DataFrame(columns | {f"c{j}": random.choice(list("abcdefgh"), 20_000) for j in range(4)})
    flash = Flash(k=5, mode="local", time_limit=0.3).fit(frame)
    assert not flash.findings()["searched to the end"]


@pytest.mark.parametrize("mode", ["local", "mixed"])
def test_too_many_attributes_are_left_at_the_top_by_weight_and_named(mode):
    random = np.random.default_rng(0)
    frame = pl.DataFrame({f"c{j}": random.choice(["a", "b"], 300, p=[0.9, 0.1]) for j in range(6)})
    schema = Schema([Attribute(f"c{j}", kind="nominal", weight=0.1 if j in (1, 4) else 1.0) for j in range(6)])
    flash = Flash(schema, 5, mode=mode, most_checked=16).fit(frame)
    found = flash.findings()
    assert found["only at the top"] == ["c1", "c4"]
    assert not found["searched to the end"]
    assert flash.groups_["c5"].n_unique() > 1
    assert "only at the top" not in Flash(schema, 5, mode=mode).fit(frame).findings()


@FEWER
@given(tables(least_rows=2), st.integers(1, 5), st.sampled_from(["global", "local", "mixed"]), st.randoms())
def test_permuting_rows_permutes_the_result(random_table, k, mode, random):
    frame, schema = random_table
    order = list(range(len(frame)))
    random.shuffle(order)
    flash = Flash(schema, min(k, len(frame)), mode=mode, suppression=0.2)
    plain = flash.fit_transform(frame)
    assert flash.fit_transform(frame[order]).equals(plain[order])


@pytest.fixture(scope="module")
def adult(data_folder):
    return fetch_adult("train", drop_missing=True, quasi=9, hierarchies="arx")


@pytest.mark.parametrize(
    ("k", "limit", "loss", "suppressed", "groups"),
    [
        (5, 0.0, 0.6355, 0, 24),
        (5, 0.05, 0.2696, 1346, 397),
        (5, 1.0, 0.2277, 2553, 602),
        (10, 0.05, 0.3178, 1437, 196),
        (10, 1.0, 0.2677, 3983, 381),
    ],
)
def test_finds_the_optimum_of_arx(adult, k, limit, loss, suppressed, groups):
    """Values of ARX 3.9.2 on its own benchmark."""
    flash = Flash(adult.schema, k, suppression=limit).fit(adult.frame)
    assert round(flash.loss_, 4) == loss
    assert np.count_nonzero(flash.labels_ < 0) == suppressed
    assert flash.labels_.max() + 1 == groups
    found = flash.findings()
    assert found["lattice"] == 12_960 == found["checked"] + found["excluded"]
    assert found["checked"] < 1_000


def test_keeps_as_much_as_arx_under_t_closeness(adult):
    """ARX exempts suppressed rows from t-closeness; here the best vector suppresses rows that keep it anyway."""
    roles = {"occupation": "sensitive", "income": "other"}
    schema = Schema(
        replace(one, role=roles[one.name], hierarchy=None) if one.name in roles else one for one in adult.schema
    )
    flash = Flash(schema, 5, constraints=[TCloseness(0.2, distance="equal")], suppression=0.05).fit(adult.frame)
    assert 1 - flash.loss_ == pytest.approx(0.184, abs=0.001)


@pytest.mark.parametrize(
    ("k", "entropy", "levels"),
    [(5, 255559.85455731067, [1, 0, 1, 1, 3, 2, 2, 0, 1]), (100, 379417.3460570988, [1, 1, 1, 1, 3, 2, 2, 1, 1])],
)
def test_entropy_is_that_of_arx(adult, k, entropy, levels):
    """The oracles of ARX's own tests."""
    flash = Flash(adult.schema, k, loss="entropy", suppression=0.04).fit(adult.frame)
    assert flash.loss_ == pytest.approx(entropy, rel=1e-12)
    assert list(flash.levels_.values()) == levels


@pytest.mark.parametrize(("k", "loss"), [(5, 0.0589), (10, 0.0820)])
def test_local_recoding_loses_less_than_that_of_arx(adult, k, loss):
    release = anonymize(adult.frame, adult.schema, k, method="flash", mode="local")
    assert release.loss.granularity < loss
    assert release.suppressed == 0
    assert release.k >= k


def test_mixed_recoding_keeps_numbers_in_one_vocabulary(adult):
    flash = Flash(adult.schema, 5, mode="mixed", step=0.05).fit(adult.frame)
    assert len(set(flash.levels_["age"])) == 1
    assert len(set(flash.levels_["occupation"])) > 1
    shown = flash.groups_["age"].unique().to_list()
    hierarchy = adult.schema["age"].hierarchy
    assert {int(hierarchy.level[hierarchy.node(age)]) for age in shown} == {flash.levels_["age"][0]}


def test_numbers_that_stay_exact_keep_their_type():
    frame = pl.DataFrame({"age": [20, 20, 30, 30], "job": ["a", "b", "c", "d"]})
    flash = Flash(k=2, mode="mixed")
    assert flash.fit_transform(frame).rows() == [(20, "*"), (20, "*"), (30, "*"), (30, "*")]


def test_missing_values_are_a_value_of_their_own_below_the_top():
    frame = pl.DataFrame({"age": [None, None, *range(30)]})
    flash = Flash(k=2)
    ages = flash.fit_transform(frame)["age"].to_list()
    assert ages[:2] == [None, None]
    assert ages[2] == "[0, 3]"
    assert flash.findings()["lattice"] == 5


def test_words_of_64_bits_are_not_enough():
    """Sixteen attributes of 60 values need 96 bits; groups are those of the nodes, whatever they are rolled up from."""
    random = np.random.default_rng(0)
    values = random.integers(0, 60, (300, 16))
    values[:100], values[100:200, :12] = values[200:], values[200:, :12]
    frame = pl.DataFrame({f"q{j}": column for j, column in enumerate(values.T)})
    schema = Schema([Attribute(f"q{j}") for j in range(16)])
    table = encode(frame, schema)
    domain = FullDomain(table, make_guard((), table), 2, "loss")
    levels = np.zeros(16, np.int64)
    for j in [15, 14, 13, 12, 12, 15, *range(12)]:
        levels[j] += 1
        nodes = domain.nodes_at(levels, table.codes.astype(np.int64))
        expected = np.unique(nodes, axis=0, return_counts=True)[1]
        assert sorted(domain.group(levels).total.tolist()) == sorted(expected.tolist())
    release = anonymize(frame, schema, 2, method="flash", mode="local")
    assert release.k == 2
    assert release.checked.groups >= 100


def test_weights_steer_which_attribute_stays_exact():
    frame = pl.DataFrame({"a": ["x", "y", "x", "y"], "b": ["u", "v", "v", "u"]})
    for exact, other in (("a", "b"), ("b", "a")):
        schema = Schema([Attribute(exact, kind="nominal", weight=2.0), Attribute(other, kind="nominal")])
        assert Flash(schema, 2).fit(frame.select(exact, other)).levels_ == {exact: 0, other: 1}


def test_suppressed_rows_are_a_group_of_their_own():
    frame = pl.DataFrame({"job": ["a"] * 6 + ["b", "c", "d"]})
    assert Flash(k=3, suppression=0.4).fit(frame).labels_.tolist() == [0] * 6 + [-1] * 3
    # Two outliers would stand out themselves.
    assert Flash(k=3, suppression=0.4).fit(frame[:8]).levels_ == {"job": 1}
    assert Flash(k=2, suppression=0.4).fit(frame[:8]).levels_ == {"job": 0}


def test_a_search_that_is_cut_short_says_so(adult):
    whole = Flash(adult.schema, 5, suppression=0.05).fit(adult.frame)
    short = Flash(adult.schema, 5, suppression=0.05, most_checked=20).fit(adult.frame)
    found = short.findings()
    assert found["checked"] == 20
    assert found["not searched"] > 0
    assert not found["optimal"]
    assert short.loss_ >= whole.loss_
    assert np.count_nonzero(short.lattice_.tags == "unknown") == found["not searched"]
    timed = Flash(adult.schema, 5, time_limit=1e-9).fit(adult.frame)
    assert timed.findings()["checked"] == 1
    assert timed.labels_.max() == 0


@pytest.mark.parametrize("mode", ["global", "local", "mixed"])
def test_a_lattice_too_large_is_searched_in_part(mode):
    random = np.random.default_rng(0)
    frame = pl.DataFrame({f"x{j}": random.integers(0, 40, 300) for j in range(10)} | {"job": ["a", "b"] * 150})
    flash = Flash(k=5, mode=mode, suppression=1.0, most_checked=300).fit(frame)
    found = flash.findings()
    assert found["lattice"] == 6**10 * 2 > module.MOST_ENUMERATED
    assert found["not searched"] > 0
    assert flash.loss_ < 1.0
    if mode == "global":
        assert found["checked"] == 300 == len(flash.lattice_.levels)
        assert not found["optimal"]


def test_the_downward_search_finds_what_the_full_one_does_on_a_small_lattice(monkeypatch):
    random = np.random.default_rng(1)
    frame = pl.DataFrame({f"x{j}": random.integers(0, 9, 200) for j in range(3)})
    full = Flash(k=4, suppression=0.2).fit(frame)
    monkeypatch.setattr(module, "MOST_ENUMERATED", 1)
    down = Flash(k=4, suppression=0.2).fit(frame)
    assert down.loss_ == pytest.approx(full.loss_)
    assert down.findings()["optimal"]


@pytest.mark.parametrize("mode", ["global", "local"])
def test_models_about_a_population(mode):
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"age": random.integers(20, 60, 400), "in_study": random.random(400) < 0.3})
    schema = Schema([Attribute("age"), Attribute("in_study", role="other", kind="nominal")])
    constraints = [KMap(20, "in_study"), DeltaPresence(0.1, 0.6, "in_study")]
    release = anonymize(frame, schema, k=2, method="flash", mode=mode, constraints=constraints, suppression=0.1)
    assert len(release.frame) == frame["in_study"].sum()
    low, high = next(m.level for m in release.privacy if m.key == "presence")
    assert 0.1 <= low <= high <= 0.6
    assert release.checked.groups > 1


def test_new_rows_go_to_groups_of_the_same_nodes_or_are_suppressed():
    towns = Hierarchy.from_dict({"Styria": ["Graz", "Leoben"], "Tyrol": ["Lienz", "Kufstein"]})
    schema = Schema([Attribute("town", kind="nominal", hierarchy=towns), Attribute("sex", kind="nominal")])
    frame = pl.DataFrame({"town": ["Graz", "Leoben", "Lienz", "Lienz"], "sex": ["f", "f", "m", "m"]})
    flash = Flash(schema, 2).fit(frame)
    placed = flash.transform(pl.DataFrame({"town": ["Graz", "Kufstein", "Graz"], "sex": ["f", "m", "m"]}))
    assert placed.rows() == [("Styria", "f"), ("Tyrol", "m"), ("*", "*")]
    with pytest.raises(ShoalError, match="Flash cannot release rows that it was not fitted on"):
        flash.anonymize(frame)


def test_t_closeness_compares_with_the_whole_table_in_every_step():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"age": random.integers(0, 12, 300), "sick": random.choice(["no", "yes", "very"], 300)})
    schema = Schema([Attribute("age"), Attribute("sick", role="sensitive", kind="nominal")])
    release = anonymize(frame, schema, 5, method="flash", mode="local", constraints=[TCloseness(0.15)])
    assert release.checked.level("t") <= 0.15
    assert release.checked.groups > 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "local", "loss": "discernibility"}, "is not a sum over cells"),
        ({"mode": "mixed", "constraints": [DeltaDisclosure(2.0)]}, "use mode='global', or count_absent=True"),
    ],
)
def test_wrong_parameters_are_named(options, says):
    with pytest.raises(ShoalError, match=says):
        Flash(k=2, **options).fit(pl.DataFrame({"age": [1, 2]}))


def test_there_is_no_lattice_of_many_steps():
    flash = Flash(k=1, mode="local").fit(pl.DataFrame({"age": [1, 2]}))
    with pytest.raises(ShoalError, match="use mode='global'"):
        flash.lattice_
