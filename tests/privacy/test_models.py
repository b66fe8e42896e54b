"""Privacy models: naive twins on random groups, what partitioners accept, golden values, bad parameters."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog  # type: ignore[import-untyped]

import shoal
from naive import privacy as naive
from shoal._kernels import privacy as kernel
from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.schema import Attribute, Schema
from shoal.data.table import Table, encode
from shoal.errors import SchemaError, ShoalError
from shoal.parameters import constraints_of
from shoal.privacy.counts import Counts, count_groups
from shoal.privacy.models import (
    MODELS,
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    DeltaPresence,
    KAnonymity,
    KMap,
    LDiversity,
    PrivacyModel,
    TCloseness,
)
from shoal.privacy.rules import compile_rules, membership, released_rows, sensitive_codes

thorough = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NO_WEIGHTS = np.empty(0, np.int64)


# Random tables: a few groups over two sensitive columns, one with a hierarchy of random shape and one ordered.


@st.composite
def hierarchies(draw: st.DrawFn) -> Hierarchy:
    shape = draw(
        st.recursive(st.none(), lambda below: st.lists(below, min_size=1, max_size=3), max_leaves=8).filter(bool)
    )
    names = iter(range(1000))

    def named(node: Any) -> dict[str, Any]:
        return {f"n{next(names)}": None if child is None else named(child) for child in node}

    return Hierarchy.from_dict({"*": named(shape)})


@st.composite
def tables(draw: st.DrawFn) -> SimpleNamespace:
    n = draw(st.integers(1, 30))
    tree = draw(hierarchies())
    n_ordered = draw(st.one_of(st.integers(1, 6), st.just(200)))

    def rows(most: int) -> list[int]:
        return draw(st.lists(st.integers(0, most), min_size=n, max_size=n))

    columns = [
        (naive.column("disease", tree.n_leaves, "nominal", tree), rows(tree.n_leaves - 1)),
        (naive.column("salary", n_ordered, "ordinal"), rows(n_ordered - 1)),
    ]
    labels = draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n))
    members = draw(st.one_of(st.just([True] * n), st.lists(st.booleans(), min_size=n, max_size=n)))
    return SimpleNamespace(n=n, tree=tree, columns=columns, labels=labels, members=members, n_ordered=n_ordered)


def counts_of(table: SimpleNamespace) -> Counts:
    return naive.count(table.labels, table.columns, table.members)


def released_groups(table: SimpleNamespace, position: int) -> list[list[Any]]:
    codes = [v if member else None for v, member in zip(table.columns[position][1], table.members, strict=True)]
    return [[v for v in group if v is not None] for group in naive.split(table.labels, codes)]


# Every formula of one column, with its twin.


def twins(table: SimpleNamespace, position: int) -> list[tuple[PrivacyModel, Any]]:
    name = table.columns[position][0].name
    groups = released_groups(table, position)
    everything = [v for group in groups for v in group]
    domain = range(table.columns[position][0].n_values)
    pairs: list[tuple[PrivacyModel, Any]] = [
        (AlphaKAnonymity(0.5, 2, name), naive.largest_share),
        (LDiversity(2, attribute=name), naive.distinct),
        (LDiversity(2, "entropy", attribute=name), naive.entropy),
        (LDiversity(1, "recursive", 2.0, name), lambda g: naive.recursive(g, 1)),
        (LDiversity(2, "recursive", 2.0, name), lambda g: naive.recursive(g, 2)),
        (LDiversity(3, "recursive", 2.0, name), lambda g: naive.recursive(g, 3)),
        (TCloseness(0.2, "equal", name), lambda g: naive.equal_distance(g, everything, domain)),
        (DeltaDisclosure(1.0, name), lambda g: naive.log_ratio(g, everything)),
        (DeltaDisclosure(1.0, name, count_absent=True), lambda g: naive.log_ratio(g, everything, True)),
        (BetaLikeness(1.0, "basic", name), lambda g: naive.gain(g, everything)),
        (BetaLikeness(1.0, "enhanced", name), lambda g: naive.bounded_gain(g, everything)),
    ]
    if name == "disease":
        pairs.append((TCloseness(0.2, "hierarchical", name), lambda g: naive.tree_distance(g, everything, table.tree)))
        pairs.append((TCloseness(0.2, "auto", name), lambda g: naive.tree_distance(g, everything, table.tree)))
    else:
        pairs.append((TCloseness(0.2, "ordered", name), lambda g: naive.ordered_distance(g, everything, domain)))
        pairs.append((TCloseness(0.2, "auto", name), lambda g: naive.ordered_distance(g, everything, domain)))
    return pairs


@thorough
@given(tables(), st.integers(0, 1))
def test_levels_equal_the_naive_twins(table: SimpleNamespace, position: int) -> None:
    counts, groups = counts_of(table), released_groups(table, position)
    for model, twin in twins(table, position):
        expected = [twin(group) if group else math.nan for group in groups]
        np.testing.assert_allclose(model.levels(counts), expected, atol=1e-12, rtol=1e-12, err_msg=model.describe())
        known = [level for level in expected if not math.isnan(level)]
        if known:
            worst = min(known) if model.better == "higher" else max(known)
            assert model.measure(counts) == pytest.approx(worst, abs=1e-12)


@thorough
@given(tables())
def test_sizes_equal_the_naive_twins(table: SimpleNamespace) -> None:
    counts = counts_of(table)
    groups = naive.split(table.labels, table.members)
    released = [sum(group) for group in groups]
    with_rows = [n for n in released if n]
    assert KAnonymity(2).measure(counts) == min(with_rows, default=math.inf)
    assert KAnonymity(2).holds(counts) == all(n >= 2 for n in with_rows)
    mapped = [len(group) for group, n in zip(groups, released, strict=True) if n]
    assert KMap(3, "in").measure(counts) == min(mapped, default=math.inf)
    assert KMap(3, "in").holds(counts) == all(n >= 3 for n in mapped)
    shares = [n / len(group) for group, n in zip(groups, released, strict=True)]
    assert DeltaPresence(0, 1, "in").measure(counts) == (min(shares), max(shares))
    assert DeltaPresence(0.25, 0.75, "in").holds(counts) == all(0.25 <= s <= 0.75 for s in shares)


@thorough
@given(tables())
def test_without_an_attribute_the_worst_of_all_counts(table: SimpleNamespace) -> None:
    counts = counts_of(table)
    for both, one in [
        (LDiversity(2), lambda name: LDiversity(2, attribute=name)),
        (LDiversity(2, "recursive", 1.5), lambda name: LDiversity(2, "recursive", 1.5, name)),
        (TCloseness(0.3), lambda name: TCloseness(0.3, attribute=name)),
        (AlphaKAnonymity(0.6, 2), lambda name: AlphaKAnonymity(0.6, 2, name)),
    ]:
        each = [one(name) for name in ("disease", "salary")]
        pick = np.fmin if both.better == "higher" else np.fmax
        np.testing.assert_array_equal(both.levels(counts), pick(*(model.levels(counts) for model in each)))
        assert both.holds(counts) == all(model.holds(counts) for model in each)


@thorough
@given(tables(), st.integers(0, 1), st.randoms(use_true_random=False))
def test_levels_do_not_depend_on_the_order_of_rows(table: SimpleNamespace, position: int, random: Any) -> None:
    rows = list(range(table.n))
    random.shuffle(rows)
    shuffled = SimpleNamespace(**vars(table))
    shuffled.labels = [table.labels[row] for row in rows]
    shuffled.members = [table.members[row] for row in rows]
    shuffled.columns = [(column, [codes[row] for row in rows]) for column, codes in table.columns]
    before, after = counts_of(table), counts_of(shuffled)
    for model, _ in twins(table, position):
        np.testing.assert_array_equal(model.levels(before), model.levels(after))


# The distances are earth mover's distances: the cheapest transport between two distributions, by linear programming.


def transport(q: list[float], p: list[float], distance: np.ndarray) -> float:
    n = len(q)
    flow_out = np.kron(np.eye(n), np.ones(n))
    flow_in = np.kron(np.ones(n), np.eye(n))
    solved = linprog(distance.ravel(), A_eq=np.vstack([flow_out, flow_in]), b_eq=[*q, *p], method="highs")
    return float(solved.fun)


@thorough
@given(tables(), st.sampled_from(["equal", "ordered", "hierarchical"]))
def test_distances_are_the_cheapest_transport(table: SimpleNamespace, distance: Any) -> None:
    position = 1 if distance == "ordered" else 0
    n_values = table.columns[position][0].n_values
    assume(1 < n_values < 20)
    groups = released_groups(table, position)
    assume(any(groups))
    index = next(g for g, values in enumerate(groups) if values)
    everything = [v for group in groups for v in group]
    q, p = ([naive.share(values, v) for v in range(n_values)] for values in (groups[index], everything))
    i, j = np.indices((n_values, n_values))
    apart = {
        "equal": (i != j).astype(float),
        "ordered": abs(i - j) / (n_values - 1),
        "hierarchical": ancestor_levels(table.tree) / table.tree.height,
    }[distance]
    level = TCloseness(1.0, distance, table.columns[position][0].name).levels(counts_of(table))
    assert level[index] == pytest.approx(transport(q, p, apart), abs=1e-7)


def ancestor_levels(tree: Hierarchy) -> np.ndarray:
    pairs = [[tree.level[tree.common_ancestor([a, b])] for b in tree.values] for a in tree.values]
    return np.array(pairs, dtype=float)


# What a partitioner is told about a group is what the check says about it.


@st.composite
def constraints(draw: st.DrawFn) -> list[PrivacyModel]:
    name = st.sampled_from([None, "disease", "salary"])
    small = st.integers(1, 4)
    fraction = st.sampled_from([0.1, 0.2, 0.25, 1 / 3, 0.5, 2 / 3, 0.9, 1.0])
    positive = st.sampled_from([0.1, 0.5, math.log(2), 1.0, 1.5, 2.0, 3.0])
    return draw(
        st.lists(
            st.one_of(
                st.builds(KAnonymity, small),
                st.builds(AlphaKAnonymity, fraction, small, name),
                st.builds(LDiversity, small, attribute=name),
                st.builds(LDiversity, small, st.just("entropy"), attribute=name),
                st.builds(LDiversity, small, st.just("recursive"), positive, name),
                st.builds(TCloseness, fraction, st.sampled_from(["auto", "equal"]), name),
                st.builds(TCloseness, fraction, st.just("ordered"), st.just("salary")),
                st.builds(TCloseness, fraction, st.just("hierarchical"), st.just("disease")),
                st.builds(DeltaDisclosure, positive, name, st.booleans()),
                st.builds(BetaLikeness, positive, st.sampled_from(["basic", "enhanced"]), name),
                st.builds(lambda a, b: DeltaPresence(min(a, b), max(a, b), "in"), fraction, fraction),
                st.builds(KMap, small, st.just("in")),
            ),
            max_size=4,
        )
    )


def encoded(table: SimpleNamespace) -> Any:
    """A stand-in for a Table, with the column of released rows."""
    for column, codes in table.columns:
        column.codes = np.array(codes, dtype=np.uint16)
    member = SimpleNamespace(codes=np.array(table.members, dtype=np.uint8), values=[False, True])
    sensitive = tuple(column for column, _ in table.columns)
    columns = {column.name: column for column in sensitive} | {"in": member}
    return SimpleNamespace(sensitive=sensitive, columns=columns, n_rows=table.n, weights=None)


def accepted(asked: list[PrivacyModel], table: SimpleNamespace) -> list[bool]:
    """What rules_hold says about each group; the scratch must come back clean."""
    rules = compile_rules(asked, encoded(table), "in")
    codes, members = sensitive_codes(asked, encoded(table)), released_rows(encoded(table), "in")
    if all(table.members):
        members = np.empty(0, dtype=np.uint8)
    order = np.array([row for rows in naive.split(table.labels, range(table.n)) for row in rows], dtype=np.int32)
    stops = np.cumsum([len(rows) for rows in naive.split(table.labels, range(table.n))])
    hist, touched = kernel.scratch(rules)
    answers = []
    for start, stop in zip([0, *stops[:-1]], stops, strict=True):
        group = (order, int(start), int(stop))
        answers.append(kernel.rules_hold(rules, codes, members, NO_WEIGHTS, *group, hist, touched))
        assert not hist.any()
    return answers


@thorough
@given(tables(), constraints())
def test_partitioners_accept_what_the_check_accepts(table: SimpleNamespace, asked: list[PrivacyModel]) -> None:
    counts = counts_of(table)
    fulfilled = np.ones(len(counts.sizes), dtype=bool)
    for model in asked:
        fulfilled &= model.fulfilled(counts)
        assert model.holds(counts) == model.fulfilled(counts).all()
    assert accepted(asked, table) == fulfilled.tolist()


@thorough
@given(tables(), constraints())
def test_rows_that_stand_for_many_count_as_many(table: SimpleNamespace, asked: list[PrivacyModel]) -> None:
    rules = compile_rules(asked, encoded(table), "in")
    codes, members = sensitive_codes(asked, encoded(table)), released_rows(encoded(table), "in")
    # Equal rows of a group once, with how many there are.
    each = np.column_stack([np.array(table.labels), members, codes.reshape(table.n, -1)]).astype(np.int64)
    once, weights = np.unique(each, axis=0, return_counts=True)
    once_codes, once_members = np.ascontiguousarray(once[:, 2:].astype(np.uint32)), once[:, 1].astype(np.uint8)
    hist, touched = kernel.scratch(rules)
    answers = []
    for label in np.unique(table.labels):
        rows = np.flatnonzero(once[:, 0] == label).astype(np.int32)
        answers.append(kernel.rules_hold(rules, once_codes, once_members, weights, rows, 0, len(rows), hist, touched))
        assert not hist.any()
    by_label = dict(zip(np.unique(table.labels).tolist(), answers, strict=True))
    in_order = [by_label[table.labels[rows[0]]] for rows in naive.split(table.labels, range(table.n))]
    assert in_order == accepted(asked, table)


@thorough
@given(tables(), st.integers(0, 1))
def test_a_bound_set_at_the_level_itself_is_met_unless_it_is_strict(table: SimpleNamespace, position: int) -> None:
    counts = counts_of(table)
    for model, _ in twins(table, position):
        level = model.measure(counts)
        if not 0 < level < math.inf:
            continue
        strict = isinstance(model, DeltaDisclosure) or getattr(model, "kind", "") == "recursive"
        exact = at_bound(model, level)
        assert exact.holds(counts) is not strict, exact
        assert all(accepted([exact], table)) is not strict, exact


def at_bound(model: PrivacyModel, level: float) -> PrivacyModel:
    name = model.attribute
    match model:
        case AlphaKAnonymity():
            return AlphaKAnonymity(level, 1, name)
        case LDiversity(kind="recursive"):
            return LDiversity(model.l, "recursive", level, name)
        case LDiversity(kind="distinct"):
            return LDiversity(int(level), attribute=name)
        case LDiversity():
            return LDiversity(max(level, 1.0), "entropy", attribute=name)
        case TCloseness():
            return TCloseness(min(level, 1.0), model.distance, name)
        case DeltaDisclosure():
            return DeltaDisclosure(level, name, model.count_absent)
        case BetaLikeness():
            return BetaLikeness(level, model.kind, name)
    raise AssertionError(model)


def test_counts_of_the_package_give_the_same_levels() -> None:
    rng = np.random.default_rng(5)
    frame = {"age": rng.integers(0, 9, 400), "pay": rng.integers(0, 30, 400), "ill": rng.choice([*"abcde"], 400)}
    schema = Schema([Attribute("age"), Attribute("pay", "sensitive"), Attribute("ill", "sensitive", "nominal")])
    table = encode(as_frame(frame), schema)
    labels = rng.integers(-1, 20, 400)
    members = rng.random(400) < 0.8
    ours = count_groups(labels, table.sensitive, members)
    twin = naive.count(labels.tolist(), [(c, c.codes.tolist()) for c in table.sensitive], members.tolist())
    for model in (LDiversity(3, "entropy"), TCloseness(0.2), DeltaDisclosure(1), KMap(3, "in"), KAnonymity(2)):
        np.testing.assert_allclose(model.levels(ours), model.levels(twin), atol=1e-12)
    hist = kernel.scratch(compile_rules([TCloseness(0.2)], table))[0]
    assert len(hist) == 30


def as_frame(columns: dict[str, Any]) -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(columns)


# Golden values. Li, Li and Venkatasubramanian 2007: nine patients, salaries 3k to 11k, diseases in a hierarchy.

SALARIES = [3, 4, 5, 6, 7, 8, 9, 10, 11]
DISEASES = Hierarchy.from_dict(
    {
        "respiratory and digestive": {
            "respiratory": {
                "respiratory infection": ["flu", "pneumonia", "bronchitis"],
                "vascular lung": ["pulmonary edema", "pulmonary embolism"],
            },
            "digestive": {
                "stomach": ["gastric ulcer", "stomach cancer", "gastritis"],
                "colon": ["colitis", "colon cancer"],
            },
        }
    }
)
PATIENTS = {  # salary: disease
    3: "gastric ulcer", 4: "gastritis", 5: "stomach cancer", 6: "gastritis", 7: "bronchitis",
    8: "bronchitis", 9: "pneumonia", 10: "stomach cancer", 11: "flu",
}  # fmt: skip
CLOSE = [{3, 5, 9}, {6, 8, 11}, {4, 7, 10}]


def patients(groups: list[set[int]]) -> Counts:
    labels = [next(i for i, group in enumerate(groups) if salary in group) for salary in SALARIES]
    salary = (naive.column("salary", 9, "numeric"), list(range(9)))
    disease = (naive.column("disease", 10, "nominal", DISEASES), [DISEASES.leaf(PATIENTS[s]) for s in SALARIES])
    return naive.count(labels, [salary, disease], [True] * 9)


def test_ordered_distance_of_the_paper() -> None:
    # {3k, 4k, 5k}: |cumulative differences| in ninths 2 4 6 5 4 3 2 1 0, sum 27, over 9 and over 8 steps: 0.375.
    # {6k, 8k, 11k}: 1 2 3 1 2 0 1 2 0, sum 12: 0.1667.
    counts = patients([{3, 4, 5}, {6, 8, 11}, {7, 9, 10}])
    levels = TCloseness(0.2, attribute="salary").levels(counts)
    assert levels[0] == pytest.approx(0.375)
    assert levels[1] == pytest.approx(1 / 6)


def test_the_paper_s_table_is_0_167_close_in_salary() -> None:
    assert TCloseness(0.2, attribute="salary").measure(patients(CLOSE)) == pytest.approx(1 / 6)
    assert TCloseness(0.167, "ordered", "salary").holds(patients(CLOSE))
    assert not TCloseness(0.166, "ordered", "salary").holds(patients(CLOSE))


def test_hierarchical_distance_of_the_paper() -> None:
    # The paper's 0.5 and 0.278 compare with each of the six diseases equally often (1/6):
    # {gastric ulcer, gastritis, stomach cancer}: half of the mass goes from digestive to respiratory, over the root:
    # 0.5. {gastric ulcer, stomach cancer, pneumonia}: 1/6 inside stomach (1/3), 1/6 inside infection (1/3), 1/6 over
    # the root: 1/18 + 1/18 + 1/6 = 5/18 = 0.278.
    groups = [["gastric ulcer", "gastritis", "stomach cancer"], ["gastric ulcer", "stomach cancer", "pneumonia"]]
    reference = np.zeros(10)
    reference[[DISEASES.leaf(name) for name in set(PATIENTS.values())]] = 1 / 6
    tally = naive.tally([[DISEASES.leaf(name) for name in group] for group in groups], reference.tolist())
    column = naive.column("disease", 10, "nominal", DISEASES)
    counts = Counts(np.array([3, 3]), np.array([3, 3]), {"disease": tally}, {"disease": column})
    np.testing.assert_allclose(TCloseness(0.2).levels(counts), [0.5, 5 / 18])


def test_hierarchical_distance_to_the_table_itself() -> None:
    # The nine rows themselves, in ninths: ulcer 1, gastritis 2, cancer 2, flu 1, bronchitis 2, pneumonia 1.
    # {ulcer, cancer, pneumonia}: 2 inside stomach, 2 inside infection (1/3 each), 1 over the root: 7/3 ninths.
    # {gastritis, flu, bronchitis}: 1 and 1 inside, 2 over the root: 8/3. {gastritis, bronchitis, cancer}: 1, 1, 1: 5/3.
    expected = [float(Fraction(n, 27)) for n in (7, 8, 5)]
    np.testing.assert_allclose(TCloseness(0.2, attribute="disease").levels(patients(CLOSE)), expected)


def test_l_diversity_of_the_paper() -> None:
    # Machanavajjhala et al. 2007: twelve inpatients. 4-anonymous table: blocks heart heart viral viral, cancer heart
    # viral viral, and four times cancer, so that a block betrays its people. The 3-diverse one holds 2 + 1 + 1 in each
    # block: exp(1.5 ln 2) = 2.83 ("2.8-diverse"), and r1 / r3 = 2.
    heart, viral, cancer = 0, 1, 2
    homogeneous = inpatients([[heart, heart, viral, viral], [cancer, heart, viral, viral], [cancer] * 4])
    assert LDiversity(2).levels(homogeneous).tolist() == [2, 3, 1]
    assert LDiversity(2, "entropy").measure(homogeneous) == pytest.approx(1)
    assert LDiversity(2, "recursive", 9).measure(homogeneous) == math.inf
    block = [heart, viral, cancer, cancer]
    diverse = inpatients([block, [cancer, heart, viral, viral], block])
    assert LDiversity(3).measure(diverse) == 3
    assert LDiversity(3, "entropy").measure(diverse) == pytest.approx(2.8284, abs=1e-4)
    assert LDiversity(2.8, "entropy").holds(diverse)
    assert not LDiversity(3, "entropy").holds(diverse)
    assert LDiversity(3, "recursive", 2.1).holds(diverse)
    assert not LDiversity(3, "recursive", 2).holds(diverse)  # r1 < c·r3 is strict


def inpatients(groups: list[list[int]]) -> Counts:
    labels = [label for label, group in enumerate(groups) for _ in group]
    codes = [value for group in groups for value in group]
    return naive.count(labels, [(naive.column("condition", 3), codes)], [True] * len(codes))


def test_delta_presence_of_the_paper() -> None:
    # Nergiz et al. 2007: nine people are public, b c f h i are in the study. Generalised to America {a..f} and
    # Europe {g, h, i}, 3 of 6 and 2 of 3 are in it: (1/2, 2/3)-present.
    counts = naive.count([0] * 6 + [1] * 3, [], [name in "bcfhi" for name in "abcdefghi"])
    assert DeltaPresence(0.5, 0.7, "in").measure(counts) == (1 / 2, 2 / 3)
    assert DeltaPresence(1 / 2, 2 / 3, "in").holds(counts)
    assert not DeltaPresence(0.51, 2 / 3, "in").holds(counts)
    assert not DeltaPresence(1 / 2, 0.66, "in").holds(counts)
    assert KMap(3, "in").measure(counts) == 3
    assert KAnonymity(2).measure(counts) == 2


def test_likeness_and_disclosure_by_hand() -> None:
    # Values a: 2/8, b: 6/8. Group of 2 a + 2 b: q = 1/2. Gains: a (1/2 - 1/4)/(1/4) = 1, below -ln(1/4) = 1.386.
    # |ln(q/p)|: a ln 2 = 0.693, b |ln(2/3)| = 0.405. The other group holds 4 b: gain 1/3 > -ln(3/4) = 0.288.
    counts = inpatients([[0, 0, 1, 1], [1, 1, 1, 1]])
    np.testing.assert_allclose(BetaLikeness(1).levels(counts), [1, 1 / 3])
    np.testing.assert_allclose(BetaLikeness(1, "enhanced").levels(counts), [1, math.inf])
    np.testing.assert_allclose(DeltaDisclosure(1).levels(counts), [math.log(2), math.log(4 / 3)])
    np.testing.assert_allclose(DeltaDisclosure(1, count_absent=True).levels(counts), [math.log(2), math.inf])
    assert not DeltaDisclosure(math.log(2)).holds(counts)  # strict
    assert BetaLikeness(1).holds(counts)
    assert not BetaLikeness(1e6, "enhanced").holds(counts)


def test_groups_without_released_rows_are_ignored_by_all_but_delta_presence() -> None:
    column = naive.column("ill", 2)
    counts = naive.count([0, 0, 1], [(column, [0, 1, 0])], [True, True, False])
    for model in (KAnonymity(2), KMap(2, "in"), LDiversity(2), TCloseness(0), BetaLikeness(0.1), DeltaDisclosure(0.1)):
        assert math.isnan(model.levels(counts)[1])
        assert model.holds(counts)
    assert DeltaPresence(0.5, 1, "in").levels(counts).tolist() == [1, 0]
    assert not DeltaPresence(0.5, 1, "in").holds(counts)


def test_nothing_released_is_vacuously_safe() -> None:
    counts = naive.count([0], [(naive.column("ill", 2), [0])], [False])
    assert KAnonymity(5).measure(counts) == math.inf
    assert TCloseness(0.1).measure(counts) == 0
    assert LDiversity(2).holds(counts)


# Bad parameters and schemas: one sentence with the culprit, the value and the way out.


def wrong(value: Any) -> Any:
    """Pass a value of the wrong type unseen by the type checker."""
    return value


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: KAnonymity(0), "k of k-anonymity must be a whole number of at least 1, got 0."),
        (lambda: KAnonymity(wrong(2.5)), "k of k-anonymity must be a whole number of at least 1, got 2.5"),
        (lambda: KAnonymity(True), "got True"),
        (lambda: KAnonymity(wrong("5")), "got '5'"),
        (lambda: KMap(0, "in"), "k of k-map must be a whole number"),
        (
            lambda: AlphaKAnonymity(0, 2),
            "alpha of (alpha, k)-anonymity must be a number above 0 and of at most 1, got 0",
        ),
        (lambda: AlphaKAnonymity(1.1, 2), "got 1.1"),
        (lambda: AlphaKAnonymity(0.5, 0), "k of (alpha, k)-anonymity must be a whole number"),
        (lambda: LDiversity(0), "l of l-diversity must be a number of at least 1, got 0"),
        (lambda: LDiversity(2.5), "l of l-diversity must be a whole number of at least 1, got 2.5"),
        (lambda: LDiversity(0.5, "entropy"), "l of l-diversity must be a number of at least 1, got 0.5"),
        (lambda: LDiversity(2, "recursive"), "c of recursive l-diversity must be a number above 0, got None"),
        (lambda: LDiversity(2, "recursive", -1), "got -1"),
        (lambda: LDiversity(2, c=2), "l-diversity of the distinct kind has no c, but c=2 was given"),
        (
            lambda: LDiversity(2, wrong("shannon")),
            "kind of l-diversity must be 'distinct', 'entropy' or 'recursive', got 'shannon'.",
        ),
        (lambda: TCloseness(1.2), "t of t-closeness must be a number from 0 to 1, got 1.2."),
        (lambda: TCloseness(-0.1), "got -0.1"),
        (lambda: TCloseness(math.nan), "got nan"),
        (
            lambda: TCloseness(0.1, wrong("euclid")),
            "distance of t-closeness must be 'auto', 'equal', 'ordered' or 'hierarchical', got 'euclid'.",
        ),
        (lambda: DeltaDisclosure(0), "delta of delta-disclosure must be a number above 0, got 0"),
        (lambda: BetaLikeness(0), "beta of beta-likeness must be a number above 0, got 0"),
        (lambda: BetaLikeness(math.inf), "got inf"),
        (
            lambda: BetaLikeness(1, wrong("strong")),
            "kind of beta-likeness must be 'basic' or 'enhanced', got 'strong'.",
        ),
        (lambda: DeltaPresence(0.5, 0.2, "in"), "delta-presence needs low ≤ high, not low=0.5 and high=0.2"),
        (lambda: DeltaPresence(-1, 0.2, "in"), "low of delta-presence must be a number from 0 to 1, got -1"),
        (lambda: DeltaPresence(0, 2, "in"), "high of delta-presence must be a number from 0 to 1, got 2"),
    ],
)
def test_bad_parameters_get_one_sentence(make: Any, says: str) -> None:
    with pytest.raises(ShoalError) as caught:
        make()
    assert says in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_fields_are_refused_by_their_table(model: type[PrivacyModel]) -> None:
    of_population: dict[str, Any] = {
        "kmap": {"k": 2, "attribute": "in"},
        "presence": {"low": 0, "high": 1, "attribute": "in"},
    }
    good = model(**(of_population.get(model.key) or model.standard[0]))
    table = constraints_of(model)
    assert set(table) >= {option.field for option in model.options}
    for field, constraint in table.items():
        for value in constraint.bad:
            with pytest.raises(ShoalError) as caught:
                replace(good, **{field: value})  # type: ignore[type-var]
            assert str(caught.value).startswith(f"{field} of {model.name} must be "), value


def study(**columns: Any) -> Table:
    frame = as_frame({"age": [1, 2, 3, 4], **columns})
    roles = {"age": "quasi", "in": "other"}
    kinds = {"age": "numeric", "pay": "numeric"}
    schema = Schema([Attribute(n, roles.get(n, "sensitive"), kinds.get(n, "nominal")) for n in frame.columns])
    return encode(frame, schema, extra=["in"] if "in" in columns else [])


@pytest.mark.parametrize(
    ("asked", "columns", "says"),
    [
        (LDiversity(2), {}, "2-diversity (distinct) of every sensitive attribute needs a sensitive attribute, but the"),
        (TCloseness(0.2, attribute="illness"), {"ill": [*"abab"], "pay": [1, 2, 3, 4]},
         "names an attribute that is not sensitive: 'illness'; the sensitive attributes are 'ill', 'pay'."),
        (TCloseness(0.2, "ordered"), {"ill": [*"abab"]}, "needs an order, but attribute 'ill' is nominal: make"),
        (TCloseness(0.2, "hierarchical"), {"pay": [1, 2, 3, 4]}, "needs a hierarchy, but attribute 'pay' is numeric"),
    ],
)  # fmt: skip
def test_constraints_that_do_not_fit_the_schema(asked: PrivacyModel, columns: dict[str, Any], says: str) -> None:
    table = study(**columns)
    for use in (
        lambda: asked.holds(count_groups(np.zeros(4, dtype=np.int64), table.sensitive)),
        lambda: compile_rules([asked], table),
    ):
        with pytest.raises(SchemaError) as caught:
            use()
        assert says in str(caught.value)


def test_released_rows() -> None:
    for marks in ([True, False, True, True], [1, 0, 1, 1], ["yes", "no", "yes", "Yes"], ["TRUE", "false", "1", "true"]):
        assert released_rows(study(**{"in": marks}), "in").tolist() == [1, 0, 1, 1]
    with pytest.raises(SchemaError, match=r"'in' holds 'maybe': use true or false\."):
        released_rows(study(**{"in": ["yes", "maybe", "no", "no"]}), "in")
    with pytest.raises(SchemaError, match=r"'in' holds None: use true or false\."):
        released_rows(study(**{"in": ["yes", None, "no", "no"]}), "in")
    with pytest.raises(SchemaError, match=r"'out' is not in the table: it has 'age', 'in'\."):
        released_rows(study(**{"in": ["yes", "no", "no", "no"]}), "out")


def test_membership_is_named_once() -> None:
    assert membership([KAnonymity(2)]) is None
    assert membership([KMap(2, "in"), DeltaPresence(0, 1, "in")]) == "in"
    with pytest.raises(SchemaError, match="'in' and 'out': give them the same one"):
        membership([KMap(2, "in"), DeltaPresence(0, 1, "out")])


def test_every_model_is_public_and_has_its_options_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")
    for model in MODELS.values():
        assert model.__name__ in shoal.__all__
        assert f"{model.__name__}(" in page
        assert all(option.flag in page for option in model.options)


def test_every_model_has_a_key_a_direction_a_bound_and_a_description() -> None:
    examples: list[tuple[Any, ...]] = [
        (KAnonymity(5), "k", "higher", 5, "5-anonymity"),
        (AlphaKAnonymity(0.5, 5, "ill"), "alpha", "lower", 0.5, "(0.5, 5)-anonymity of ill"),
        (LDiversity(3, "entropy", attribute="ill"), "l", "higher", 3, "3-diversity (entropy) of ill"),
        (LDiversity(3, "recursive", 2, "ill"), "l", "lower", 2, "3-diversity (recursive, c = 2) of ill"),
        (TCloseness(0.2, "ordered", "pay"), "t", "lower", 0.2, "t-closeness 0.2 (ordered) of pay"),
        (TCloseness(0.2), "t", "lower", 0.2, "t-closeness 0.2 of every sensitive attribute"),
        (DeltaDisclosure(1.5, "ill"), "delta", "lower", 1.5, "delta-disclosure 1.5 of ill"),
        (BetaLikeness(2, "enhanced", "ill"), "beta", "lower", 2, "beta-likeness 2 (enhanced) of ill"),
        (DeltaPresence(0.1, 0.5, "in"), "presence", "within", (0.1, 0.5), "delta-presence 0.1 to 0.5 of in"),
        (KMap(10, "in"), "kmap", "higher", 10, "10-map of in"),
    ]
    for model, key, better, bound, text in examples:
        assert (model.key, model.better, model.bound, model.describe()) == (key, better, bound, text)
        assert replace(model) == model
        assert hash(replace(model)) == hash(model)
        assert MODELS[key] is type(model)
    assert Counter(type(model) for model, *_ in examples).keys() == Counter(MODELS.values()).keys()
