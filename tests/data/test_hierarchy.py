"""Hierarchies: properties over random trees, round trips, the builders, real files, and every error by its sentence."""

from __future__ import annotations

import gzip
import json
import math
import os
import pickle
import re
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal._kernels.hierarchy import common_ancestor, common_ancestors
from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.errors import HierarchyError

# Random trees are nested lists; an integer is a leaf. The slow, obvious twins below work on them, not on arrays.

Tree = Any
unhurried = settings(deadline=None)  # the first example compiles, and shared machines are slow


def shapes() -> st.SearchStrategy[Tree]:
    leaf = st.just(0)
    return st.lists(
        st.recursive(leaf, lambda below: st.lists(below, min_size=1, max_size=4), max_leaves=25), min_size=1
    )


def named(shape: Tree, path: str = "") -> Tree:
    """Give each leaf the name of its path, so that names are unique, and turn groups into dicts."""
    if not isinstance(shape, list):
        return None
    return {
        f"{'g' if isinstance(below, list) else 'v'}{path}{i}": named(below, f"{path}{i}.")
        for i, below in enumerate(shape)
    }


trees = shapes().map(lambda shape: {"*": named(shape)})


def naive_paths(tree: Tree, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path from the root to each leaf, in order."""
    paths: list[tuple[str, ...]] = []
    for label, below in tree.items():
        here = (*above, label)
        paths += [here] if below is None else naive_paths(below, here)
    return paths


def naive_row(path: tuple[str, ...], height: int) -> list[str]:
    """Return what stands for a leaf at each level: the leaf until its path begins, then its path upwards."""
    return [path[-1]] * (height + 1 - len(path)) + list(reversed(path))


def naive_common_ancestor(paths: list[tuple[str, ...]]) -> str:
    return os.path.commonprefix(paths)[-1]


def naive_leaves_under(tree: Tree, label: str) -> list[str]:
    return [path[-1] for path in naive_paths(tree) if label in path]


# Properties


@unhurried
@given(trees)
def test_table_lists_each_path_from_the_value_to_the_root(tree: Tree) -> None:
    hierarchy, paths = Hierarchy.from_dict(tree), naive_paths(tree)
    height = max(map(len, paths)) - 1
    shown = [[hierarchy.labels[node] for node in row] for row in hierarchy.table]
    assert hierarchy.height == height
    assert hierarchy.values == tuple(path[-1] for path in paths)
    assert shown == [naive_row(path, height) for path in paths]


@unhurried
@given(trees)
def test_a_node_sits_at_one_level_and_covers_one_run_of_values(tree: Tree) -> None:
    hierarchy = Hierarchy.from_dict(tree)
    for node in range(hierarchy.n_nodes):
        rows, levels = np.nonzero(hierarchy.table == node)
        assert hierarchy.first[node] == rows.min()
        assert hierarchy.last[node] == rows.max()
        assert set(rows) == set(range(rows.min(), rows.max() + 1))
        assert hierarchy.leaves(node) == tuple(naive_leaves_under(tree, hierarchy.labels[node]))
        if node >= hierarchy.n_leaves:
            assert set(levels) == {hierarchy.level[node]}
        else:
            assert hierarchy.level[node] == 0


@unhurried
@given(trees)
def test_ids_are_leaves_then_inner_nodes_then_the_root(tree: Tree) -> None:
    hierarchy = Hierarchy.from_dict(tree)
    assert hierarchy.labels[: hierarchy.n_leaves] == hierarchy.values
    assert hierarchy.root == hierarchy.n_nodes - 1 == hierarchy.table[0, -1]
    assert hierarchy.parent[hierarchy.root] == hierarchy.root
    assert hierarchy.labels[hierarchy.root] == "*"
    assert (np.diff(hierarchy.level) >= 0).all()
    assert set(hierarchy.parent) == set(range(hierarchy.n_leaves, hierarchy.n_nodes))


@unhurried
@given(trees)
def test_subtree_height_is_the_longest_way_down(tree: Tree) -> None:
    hierarchy, paths = Hierarchy.from_dict(tree), naive_paths(tree)
    for node, label in enumerate(hierarchy.labels):
        assert hierarchy.subtree_height[node] == max(
            len(path) - 1 - path.index(label) for path in paths if label in path
        )


@unhurried
@given(trees, st.data())
def test_common_ancestor_is_the_end_of_the_common_path(tree: Tree, data: st.DataObject) -> None:
    hierarchy, paths = Hierarchy.from_dict(tree), naive_paths(tree)
    some = data.draw(st.lists(st.sampled_from(paths), min_size=1))
    node = hierarchy.common_ancestor([path[-1] for path in some])
    assert hierarchy.labels[node] == naive_common_ancestor(some)


@unhurried
@given(trees)
def test_kernel_finds_the_common_ancestor_of_every_run(tree: Tree) -> None:
    hierarchy, paths = Hierarchy.from_dict(tree), naive_paths(tree)
    lo, hi = np.triu_indices(hierarchy.n_leaves)
    nodes = common_ancestors(hierarchy.table, hierarchy.last, lo, hi)
    assert nodes.dtype == np.int32
    assert [hierarchy.labels[node] for node in nodes] == [
        naive_common_ancestor(paths[a : b + 1]) for a, b in zip(lo, hi, strict=True)
    ]
    assert common_ancestor(hierarchy.table, hierarchy.last, 0, hierarchy.n_leaves - 1) == nodes[hierarchy.n_leaves - 1]


@unhurried
@given(trees)
def test_loss_grows_with_level_from_zero_to_one(tree: Tree) -> None:
    hierarchy = Hierarchy.from_dict(tree)
    for row in hierarchy.table:
        losses = [hierarchy.loss(node) for node in row]
        assert losses == sorted(losses)
        assert losses[0] == 0.0
        assert losses[-1] == (1.0 if hierarchy.n_leaves > 1 else 0.0)


@unhurried
@given(trees)
def test_missing_is_the_last_leaf_under_the_root_and_changes_nothing_else(tree: Tree) -> None:
    hierarchy = Hierarchy.from_dict(tree)
    more = hierarchy.with_missing()
    assert more == Hierarchy.from_dict({"*": tree["*"] | {"missing": None}})
    assert more.leaf("missing") == hierarchy.n_leaves
    assert more.common_ancestor(["missing", hierarchy.values[0]]) == more.root
    for array in ("table", "first", "last", "subtree_height"):
        np.testing.assert_array_equal(
            getattr(more, array), getattr(Hierarchy.from_dict({"*": tree["*"] | {"missing": None}}), array)
        )


@unhurried
@given(trees)
def test_show_draws_one_line_per_node(tree: Tree) -> None:
    hierarchy = Hierarchy.from_dict(tree)
    lines = hierarchy.show().splitlines()
    assert sorted(re.sub("^[│├└─ ]+", "", line) for line in lines) == sorted(hierarchy.labels)


@unhurried
@given(trees)
def test_arrays_cannot_be_changed(tree: Tree) -> None:
    for hierarchy in (Hierarchy.from_dict(tree), pickle.loads(pickle.dumps(Hierarchy.from_dict(tree)))):
        for name in ("table", "parent", "first", "last", "level", "subtree_height"):
            array = getattr(hierarchy, name)
            assert array.dtype == np.int32
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


# Round trips


@unhurried
@given(trees)
def test_round_trip_through_dict_and_pickle(tree: Tree) -> None:
    hierarchy = Hierarchy.from_dict(tree, name="random")
    assert Hierarchy.from_dict(hierarchy.to_dict()) == hierarchy
    again = pickle.loads(pickle.dumps(hierarchy))
    assert again == hierarchy
    assert hash(again) == hash(hierarchy)
    assert again.name == "random"


@unhurried
@given(trees)
def test_round_trip_through_json(tmp_path_factory: pytest.TempPathFactory, tree: Tree) -> None:
    path = tmp_path_factory.mktemp("json") / "tree.json"
    hierarchy = Hierarchy.from_dict(tree, name="random")
    hierarchy.to_json(path)
    assert Hierarchy.from_json(path) == hierarchy
    assert Hierarchy.from_json(path).name == "random"
    assert Hierarchy.from_json(json.loads(path.read_text("utf-8"))) == hierarchy


@unhurried
@given(trees, st.sampled_from(";,\t|"))
def test_round_trip_through_csv(tmp_path_factory: pytest.TempPathFactory, tree: Tree, delimiter: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "tree.csv"
    hierarchy = Hierarchy.from_dict(tree)
    hierarchy.to_csv(path, delimiter=delimiter)
    assert Hierarchy.from_csv(path, delimiter=delimiter) == hierarchy
    assert [other.name for other in path.parent.iterdir()] == ["tree.csv"]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), min_size=1, max_size=6)


@unhurried
@given(st.lists(texts.filter(lambda text: text != "*"), min_size=1, unique=True))
def test_round_trip_of_any_text(tmp_path_factory: pytest.TempPathFactory, values: list[str]) -> None:
    folder = tmp_path_factory.mktemp("text")
    hierarchy = Hierarchy.flat(values)
    hierarchy.to_csv(folder / "h.csv")
    hierarchy.to_json(folder / "h.json")
    assert hierarchy.values == tuple(values)
    assert hierarchy == Hierarchy.from_csv(folder / "h.csv") == Hierarchy.from_json(folder / "h.json")
    assert hierarchy == Hierarchy.from_rows([[value, "*"] for value in values]) == Hierarchy.from_dict({"*": values})


def test_a_group_repeated_at_the_next_level_stays_a_node_in_every_format(tmp_path: Path) -> None:
    rows = [["a", "A", "A", "*"], ["b", "A", "A", "*"], ["c", "C", "D", "*"], ["d", "E", "D", "*"]]
    hierarchy = Hierarchy.from_rows(rows)
    hierarchy.to_csv(tmp_path / "h.csv")
    hierarchy.to_json(tmp_path / "h.json")
    assert hierarchy.n_nodes == 4 + 3 + 2 + 1
    assert hierarchy.level[hierarchy.node("A")] == 1
    assert hierarchy == Hierarchy.from_csv(tmp_path / "h.csv") == Hierarchy.from_json(tmp_path / "h.json")
    assert hierarchy == Hierarchy.from_dict(hierarchy.to_dict())


def test_a_value_repeated_at_the_next_levels_is_a_value_less_deep() -> None:
    hierarchy = Hierarchy.from_rows([["a", "A", "B", "*"], ["b", "b", "B", "*"], ["c", "c", "c", "*"]])
    assert hierarchy == Hierarchy.from_dict({"*": {"B": {"A": ["a"], "b": None}, "c": None}})
    assert hierarchy.n_nodes == 6


def test_lists_may_hold_values_and_groups() -> None:
    assert Hierarchy.from_dict(["a", {"B": ["b", 3]}]) == Hierarchy.from_dict(
        {"*": {"a": None, "B": {"b": None, "3": None}}}
    )


def test_several_tops_of_a_dict_get_a_root() -> None:
    assert Hierarchy.from_dict({"A": ["a"], "B": ["b"]}, root="all") == Hierarchy.from_dict(
        {"all": {"A": ["a"], "B": ["b"]}}
    )


def test_the_root_of_a_released_column_is_told_from_its_stars() -> None:
    assert Hierarchy.flat(["8010", "*", "***"]).labels == ("8010", "*", "***", "**")


def test_one_value_has_no_loss() -> None:
    hierarchy = Hierarchy.flat(["only"])
    assert hierarchy.loss(hierarchy.root) == 0.0
    assert hierarchy.common_ancestor(["only"]) == 0


def test_csv_with_mark_of_byte_order_blank_lines_and_quotes(tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_bytes('\ufeffa;"A;1";*\r\n\r\nb;"A;1";*\r\n'.encode())
    assert Hierarchy.from_csv(tmp_path / "h.csv") == Hierarchy.from_dict({"*": {"A;1": ["a", "b"]}})


def test_equality_looks_at_content_and_not_at_names() -> None:
    flat = Hierarchy.flat("ab", name="one")
    assert flat == Hierarchy.flat("ab", name="two")
    assert flat != Hierarchy.flat("ba")
    assert flat != Hierarchy.from_dict({"*": {"A": ["a"], "b": None}})
    assert flat != "ab"
    assert {flat: 1}[Hierarchy.flat("ab")] == 1
    assert repr(flat) == "Hierarchy('one', 2 values, height 1)"


def test_same_labels_and_another_tree_are_not_equal() -> None:
    left = Hierarchy.from_dict({"*": {"A": {"B": ["a", "b"]}, "C": {"D": ["c", "d"]}}})
    right = Hierarchy.from_rows(
        [["a", "B", "A", "*"], ["b", "B", "A", "*"], ["c", "D", "C", "*"], ["d", "D", "C", "*"]]
    )
    assert left == right
    assert Hierarchy.from_dict({"*": {"A": ["a", "b"], "c": None}}) != Hierarchy.from_dict(
        {"*": {"A": ["a"], "b": None, "c": None}}
    )


def test_show_can_be_cut_short() -> None:
    hierarchy = Hierarchy.from_dict({"*": {"A": ["a", "b", "c"], "d": None}})
    assert hierarchy.show(most=1).splitlines() == ["*", "├── A", "│   ├── a", "│   └── … 2 more", "└── … 1 more"]


# SaNGreeA's entries


def entries(**parents: str | tuple[str, str] | tuple[str, str, int]) -> dict[str, Any]:
    """Return a hierarchy in JSON's form from key=parent, key=(parent, name) or key=(parent, name, level)."""
    found = {}
    for key, parent in parents.items():
        gen, *rest = (parent,) if isinstance(parent, str) else parent
        found[key] = {"gen": gen, "name": rest[0] if rest else key} | ({"level": rest[1]} if len(rest) > 1 else {})
    return {"name": "test", "entries": found}


def test_json_shows_names_and_finds_values_by_key() -> None:
    hierarchy = Hierarchy.from_json(
        entries(all=("all", "*", 0), gov=("all", "Government", 1), fed=("gov", "Federal", 2))
    )
    assert hierarchy.values == ("fed",)
    assert hierarchy.labels == ("Federal", "Government", "*")
    assert hierarchy.node("Federal") == hierarchy.node("fed") == 0
    assert hierarchy.show() == "*\n└── Government\n    └── Federal (fed)"
    assert hierarchy.name == "test"


def test_json_root_may_have_any_key_and_no_parent() -> None:
    hierarchy = Hierarchy.from_json({"entries": {"top": {"gen": None}, "a": {"gen": "top"}}})
    assert hierarchy.labels == ("a", "*")


def test_a_name_of_two_leaves_gives_way_to_their_keys() -> None:
    hierarchy = Hierarchy.from_json(entries(all=("all", "*"), France=("all", "France"), Hungary=("all", "France")))
    assert hierarchy.labels == ("France", "Hungary", "*")


def test_a_name_of_two_groups_gives_way_to_their_keys() -> None:
    content = entries(all=("all", "*"), x=("all", "Other"), y=("all", "Other"), a="x", b="x", c="y")
    assert Hierarchy.from_json(content).labels == ("a", "b", "c", "x", "y", "*")


def test_names_survive_a_round_trip_through_json(tmp_path: Path) -> None:
    content = entries(
        all=("all", "*"), x=("all", "Some group"), a=("x", "Value A"), b=("x", "Value B"), c=("all", "Value C")
    )
    hierarchy = Hierarchy.from_json(content)
    hierarchy.with_missing().to_json(tmp_path / "h.json")
    again = Hierarchy.from_json(tmp_path / "h.json")
    assert again == hierarchy.with_missing()
    assert again.labels == ("Value A", "Value B", "Value C", "missing", "Some group", "*")


def test_a_value_called_all_does_not_clash_with_the_root(tmp_path: Path) -> None:
    hierarchy = Hierarchy.flat(["all", "none"])
    hierarchy.to_json(tmp_path / "h.json")
    assert Hierarchy.from_json(tmp_path / "h.json") == hierarchy


# Builders


def levels(hierarchy: Hierarchy, value: object) -> list[str]:
    return [hierarchy.label_of(node) for node in hierarchy.table[hierarchy.leaf(value)]]


def test_intervals_of_integers_begin_at_multiples_and_end_at_the_bounds() -> None:
    age = Hierarchy.from_intervals(17, 90, widths=[5, 10, 20])
    assert age.values == tuple(map(str, range(17, 91)))
    assert levels(age, 17) == ["17", "17-19", "17-19", "17-19", "*"]
    assert levels(age, 40) == ["40", "40-44", "40-49", "40-59", "*"]
    assert levels(age, 90) == ["90", "85-90", "80-90", "80-90", "*"]


def test_intervals_by_edges_at_one_or_several_levels() -> None:
    assert levels(Hierarchy.from_intervals(edges=[0, 18, 65, 120]), 64) == ["64", "18-64", "*"]
    assert levels(Hierarchy.from_intervals(edges=[0, 18, 65, 120]), 120) == ["120", "65-120", "*"]
    age = Hierarchy.from_intervals(edges=[[0, 18, 65, 120], [0, 65, 120]], values=[3, 30, 70])
    assert age.values == ("3", "30", "70")
    assert levels(age, 30) == ["30", "18-64", "0-64", "*"]


def test_intervals_of_other_numbers_say_which_end_belongs() -> None:
    dose = Hierarchy.from_intervals(0, 1, widths=[0.1, 0.5], values=[0.7, "0.05", 1.0, 0.25])
    assert dose.values == ("0.05", "0.25", "0.7", "1.0")
    assert levels(dose, 0.7) == ["0.7", "[0.7, 0.8)", "[0.5, 1]", "*"]
    assert levels(dose, 1.0) == ["1.0", "[0.9, 1]", "[0.5, 1]", "*"]


def test_intervals_of_negative_integers_are_readable() -> None:
    assert levels(Hierarchy.from_intervals(-20, 20, widths=[10]), -7) == ["-7", "-10 to -1", "*"]


@unhurried
@given(
    st.lists(st.one_of(st.integers(-500, 500), st.decimals(-50, 50, places=2)), min_size=1, unique_by=float),
    st.sampled_from([[5, 10, 20], [0.1, 0.2, 1.0], [3], [0.25, 25], [7, 49]]),
)
def test_each_number_lies_in_its_intervals(values: list[Any], widths: list[float]) -> None:
    hierarchy = Hierarchy.from_intervals(widths=widths, values=values)
    for value in values:
        for label in levels(hierarchy, value)[1:-1]:
            low, high, closed = parsed(label)
            assert low <= float(value) <= high
            assert closed or float(value) < high


def parsed(label: str) -> tuple[float, float, bool]:
    """Return the ends of an interval as a reader understands its label."""
    if match := re.fullmatch(r"\[(.+), (.+)([)\]])", label):
        return float(match[1]), float(match[2]), match[3] == "]"
    ends = label.split(" to ") if " to " in label else re.split(r"(?<=\d)-", label)
    return float(ends[0]), float(ends[-1]), True


def test_prefixes_of_zip_codes() -> None:
    zips = Hierarchy.from_prefix(["9020", "8020", "8010", "8010", None, math.nan])
    assert zips.values == ("8010", "8020", "9020")
    assert levels(zips, "8010") == ["8010", "801*", "80**", "8***", "*"]
    assert zips.label_of(zips.common_ancestor(["8010", "8020"])) == "80**"


def test_prefixes_of_chosen_lengths_and_from_the_left() -> None:
    assert levels(Hierarchy.from_prefix(["94110", "94112"], keep=[3]), "94110") == ["94110", "941**", "*"]
    assert levels(Hierarchy.from_prefix(["4711"], side="left", mask="#"), "4711") == [
        "4711",
        "#711",
        "##11",
        "###1",
        "*",
    ]
    assert Hierarchy.from_prefix("ab") == Hierarchy.flat("ab")


def test_shorter_codes_are_filled_up_with_the_mask() -> None:
    codes = Hierarchy.from_prefix(["E11", "E119", "E"])
    assert levels(codes, "E11") == ["E11", "E11*", "E1**", "E***", "*"]
    assert levels(codes, "E") == ["E", "E", "E", "E***", "*"]
    assert codes.leaves(codes.node("E***")) == ("E", "E11", "E119")


@unhurried
@given(st.lists(st.text("0123456789ABC", min_size=1, max_size=5), min_size=1), st.sampled_from(["left", "right"]))
def test_a_redacted_code_covers_the_values_that_match_it(values: list[str], side: Any) -> None:
    hierarchy = Hierarchy.from_prefix(values, side=side)
    matches = str.startswith if side == "right" else str.endswith
    for node in range(hierarchy.n_leaves, hierarchy.root):
        label = hierarchy.label_of(node)
        assert len(label) == max(map(len, values))
        assert set(hierarchy.leaves(node)) == {value for value in values if matches(value, label.strip("*"))}


def test_dates_by_calendar_units() -> None:
    born = Hierarchy.from_dates(["2024-03-05", date(1999, 12, 31), datetime(2024, 4, 1, 12, 30), "2024-03-05", None])
    assert born.values == ("1999-12-31", "2024-03-05", "2024-04-01 12:30:00")
    assert levels(born, "2024-03-05") == ["2024-03-05", "2024-03", "2024-Q1", "2024", "2020s", "*"]
    assert levels(born, datetime(2024, 4, 1, 12, 30))[1:] == ["2024-04", "2024-Q2", "2024", "2020s", "*"]
    assert levels(born, "1999-12-31")[1:] == ["1999-12", "1999-Q4", "1999", "1990s", "*"]


def test_dates_by_day_and_half_year() -> None:
    visits = Hierarchy.from_dates(["2024-03-05T10:00", "2024-03-05T18:30", "2024-07-01"], units=["day", "half"])
    assert levels(visits, "2024-03-05T10:00") == ["2024-03-05T10:00", "2024-03-05", "2024-H1", "*"]
    assert levels(visits, "2024-07-01") == ["2024-07-01", "2024-07-01", "2024-H2", "*"]


def test_dates_from_numpy() -> None:
    days = np.array(["2024-03-05", "NaT", "2023-01-01"], dtype="datetime64[D]")
    assert Hierarchy.from_dates(days, units=["year"]).values == ("2023-01-01", "2024-03-05")


def test_order_groups_neighbours() -> None:
    grade = Hierarchy.from_order(["none", "primary", "secondary", "bachelor", "master"])
    assert levels(grade, "primary") == ["primary", "none – primary", "none – bachelor", "*"]
    assert levels(grade, "master") == ["master", "master", "master", "*"]
    assert levels(Hierarchy.from_order(range(10), fanout=3), 7) == ["7", "6 – 8", "0 – 8", "*"]
    assert Hierarchy.from_order("ab") == Hierarchy.flat("ab")


@unhurried
@given(st.integers(1, 60), st.integers(2, 5))
def test_order_makes_groups_of_at_most_fanout_children(n: int, fanout: int) -> None:
    hierarchy = Hierarchy.from_order(range(n), fanout=fanout)
    assert hierarchy.values == tuple(map(str, range(n)))
    assert np.bincount(hierarchy.parent[:-1]).max() <= fanout
    assert hierarchy.height == max(1, math.ceil(round(math.log(n, fanout), 9)))


def test_frequencies_group_rare_values() -> None:
    counts = {"cat": 500, "dog": 480, "newt": 12, "emu": 5, "yak": 3}
    pet = Hierarchy.from_frequencies(counts, below=[10, 100])
    assert pet.to_dict() == {
        "*": {"cat": None, "dog": None, "other (below 100)": {"newt": None, "other (below 10)": ["emu", "yak"]}}
    }
    column = [value for value, count in counts.items() for _ in range(count)]
    assert Hierarchy.from_frequencies([*reversed(column), None], below=[10, 100]) == pet
    shares = Hierarchy.from_frequencies(counts)
    assert levels(shares, "emu") == ["emu", "other (below 1%)", "other (below 5%)", "*"]


def test_frequencies_make_no_useless_levels() -> None:
    counts = {"cat": 500, "dog": 480, "newt": 12, "emu": 5}
    assert Hierarchy.from_frequencies(counts, below=[6]).height == 1
    assert Hierarchy.from_frequencies(counts, below=[100, 200]).height == 2
    assert Hierarchy.from_frequencies(counts, below=[1000]).height == 1


def test_builders_ignore_the_order_of_the_rows() -> None:
    values = ["2024-03-05", "1999-12-31", "2001-01-01", "2001-01-01"]
    for build in (Hierarchy.from_prefix, Hierarchy.from_dates, Hierarchy.from_frequencies):
        assert build(values) == build(values[::-1])


# Real files


@pytest.fixture(scope="module")
def data() -> Path:
    if "SHOAL_DATA" not in os.environ:
        pytest.skip("SHOAL_DATA does not name the folder with the real hierarchies.")
    return Path(os.environ["SHOAL_DATA"])


@pytest.mark.parametrize(
    ("file", "n_entries", "height"),
    [
        ("MaritalStatusGH", 8, 1),
        ("NativeCountryGH", 55, 3),
        ("NativeCountryBinGH", 3, 1),
        ("OccupationGH", 18, 2),
        ("RaceGH", 6, 1),
        ("RelationshipGH", 7, 1),
        ("SexGH", 3, 1),
        ("WorkClassGH", 12, 2),
        ("IncomeGH", 3, 1),
    ],
)
def test_published_json_hierarchies(data: Path, tmp_path: Path, file: str, n_entries: int, height: int) -> None:
    hierarchy = Hierarchy.from_json(data / "sangreea-hierarchies" / f"{file}.json")
    assert (hierarchy.n_nodes, hierarchy.height) == (n_entries, height)
    assert hierarchy.labels[hierarchy.root] == "*"
    hierarchy.to_json(tmp_path / "h.json")
    assert Hierarchy.from_json(tmp_path / "h.json") == hierarchy


ADULT = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]


def adult_values(data: Path, column: str) -> set[str]:
    with gzip.open(data / "adult" / "adult.data.gz", "rt") as lines:
        rows = [line.strip().split(", ") for line in lines if line.strip()]
    return {row[ADULT.index(column)] for row in rows}


@pytest.mark.parametrize(
    ("file", "column"),
    [
        ("MaritalStatusGH", "marital-status"),
        ("NativeCountryGH", "native-country"),
        ("OccupationGH", "occupation"),
        ("RaceGH", "race"),
        ("RelationshipGH", "relationship"),
        ("SexGH", "sex"),
        ("WorkClassGH", "workclass"),
        ("IncomeGH", "income"),
    ],
)
def test_published_json_hierarchies_cover_adult_but_for_the_missing_mark(data: Path, file: str, column: str) -> None:
    hierarchy = Hierarchy.from_json(data / "sangreea-hierarchies" / f"{file}.json")
    values = adult_values(data, column)
    hierarchy.check_covers(sorted(values - {"?"}), column)
    if "?" in values:
        with pytest.raises(HierarchyError, match=re.escape(f"attribute '{column}' holds the value '?'")):
            hierarchy.check_covers(sorted(values), column)


def test_hungary_is_not_released_as_france(data: Path) -> None:
    country = Hierarchy.from_json(data / "sangreea-hierarchies" / "NativeCountryGH.json")
    assert country.label_of(country.leaf("Hungary")) == "Hungary"
    assert country.label_of(country.leaf("Hong")) == "Hong Kong"
    assert country.label_of(country.common_ancestor(["Hungary", "France"])) == "Europe"


@pytest.mark.parametrize(
    ("column", "n_values", "height"),
    [
        ("age", 100, 4),
        ("education", 16, 3),
        ("marital-status", 7, 2),
        ("native-country", 41, 2),
        ("occupation", 14, 2),
        ("race", 5, 1),
        ("salary-class", 2, 1),
        ("sex", 2, 1),
        ("workclass", 8, 2),
    ],
)
def test_published_csv_hierarchies(data: Path, tmp_path: Path, column: str, n_values: int, height: int) -> None:
    path = data / "arx" / "hierarchies" / f"adult_hierarchy_{column}.csv"
    hierarchy = Hierarchy.from_csv(path)
    assert (hierarchy.n_leaves, hierarchy.height) == (n_values, height)
    rows = {tuple(line.split(";")) for line in path.read_text().splitlines()}
    assert {tuple(hierarchy.labels[node] for node in row) for row in hierarchy.table} == rows
    hierarchy.to_csv(tmp_path / "h.csv")
    assert Hierarchy.from_csv(tmp_path / "h.csv") == hierarchy
    if column not in ("salary-class",):
        hierarchy.check_covers(sorted(adult_values(data, column) - {"?"}), column)


# Errors: one sentence that names the culprit, the value and the way out


def csv_of(text: str) -> Callable[[Path], Hierarchy]:
    def read(folder: Path) -> Hierarchy:
        (folder / "h.csv").write_text(text)
        return Hierarchy.from_csv(folder / "h.csv")

    return read


def json_of(text: str) -> Callable[[Path], Hierarchy]:
    def read(folder: Path) -> Hierarchy:
        (folder / "h.json").write_text(text)
        return Hierarchy.from_json(folder / "h.json")

    return read


def built(constructor: Callable[..., Hierarchy], *args: Any, **kwargs: Any) -> Callable[[Path], Hierarchy]:
    return lambda _: constructor(*args, **kwargs)


ROOT = {"gen": "all", "name": "*"}
ERRORS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "several roots in JSON": (
        built(Hierarchy.from_json, entries(all="all", top="top", a="all")),
        "hierarchy 'test' has 2 roots, 'all', 'top': put them under one top node such as '*'.",
    ),
    "several roots in a table": (
        csv_of("a;A\nb;B\n"),
        "hierarchy 'h' has 2 roots, 'A', 'B': put them under one top node such as '*'.",
    ),
    "cycle beside the root": (
        built(Hierarchy.from_json, entries(all="all", a="all", x="y", y="z", z="y")),
        "hierarchy 'test' has a cycle, 'y' -> 'z' -> 'y': give one of them a parent that leads to the root.",
    ),
    "cycle without a root": (
        built(Hierarchy.from_json, entries(x="y", y="x")),
        "hierarchy 'test' has a cycle, 'x' -> 'y' -> 'x': give one of them a parent that leads to the root.",
    ),
    "missing parent": (
        built(Hierarchy.from_json, entries(all="all", Cuba="America")),
        (
            "hierarchy 'test' has the entry 'Cuba' under 'America', which is not an entry: "
            "add 'America', or correct the 'gen' of 'Cuba'."
        ),
    ),
    "parent that is no text": (
        built(Hierarchy.from_json, {"entries": {"all": ROOT, "a": {"gen": ["all"]}}}),
        "the hierarchy has the entry 'a' under ['all'], which is not an entry: add ['all'], or correct the 'gen' of "
        "'a'.",
    ),
    "entry that is no object": (
        built(Hierarchy.from_json, {"entries": {"all": ROOT, "a": "all"}}),
        (
            "the hierarchy has the entry 'a' with 'all' instead of an object: "
            'write it as {"name": …, "gen": …, "level": …}.'
        ),
    ),
    "level that contradicts the parents": (
        built(Hierarchy.from_json, entries(all=("all", "*", 0), A=("all", "A", 1), Cuba=("A", "Cuba", 3))),
        (
            "hierarchy 'test' declares level 3 for 'Cuba', which its parents place at level 2 (the root is level 0): "
            "correct its level or its parent."
        ),
    ),
    "level that is no number": (
        built(Hierarchy.from_json, {"entries": {"all": ROOT, "a": {"gen": "all", "level": "one"}}}),
        "the hierarchy declares level 'one' for 'a': give a whole number, 0 for the root.",
    ),
    "key twice in JSON": (
        json_of('{"entries": {"all": {"gen": "all"}, "a": {"gen": "all"}, "a": {"gen": "all"}}}'),
        "'h.json' lists the key 'a' twice: keep it in one place only.",
    ),
    "no JSON": (
        json_of("a;A;*\n"),
        "'h.json' is not JSON, Expecting value in line 1: correct it, or read a table with from_csv.",
    ),
    "JSON of something else": (
        json_of("[1, 2]"),
        "'h.json' is not a hierarchy: give an object 'entries' with a name, a 'gen' and a level for each key.",
    ),
    "mapping without entries": (
        built(Hierarchy.from_json, {"a": ["b"]}),
        "the mapping is not a hierarchy: give an object 'entries' with a name, a 'gen' and a level for each key.",
    ),
    "no entries": (
        built(Hierarchy.from_json, entries()),
        "hierarchy 'test' is empty: give it at least one value below a root such as '*'.",
    ),
    "only a root": (
        built(Hierarchy.from_json, entries(all=("all", "*"))),
        "hierarchy 'test' is empty below its root '*': give it at least one value.",
    ),
    "empty table": (csv_of("\n"), "hierarchy 'h' is empty: give it at least one value below a root such as '*'."),
    "no values": (built(Hierarchy.flat, [], "sex"), "hierarchy 'sex' is empty: give at least one value."),
    "file not there": (
        lambda folder: Hierarchy.from_csv(folder / "none.csv"),
        "the hierarchy file 'none.csv' cannot be read (No such file or directory): check the path.",
    ),
    "file that is no text": (
        lambda folder: ((folder / "h.csv").write_bytes(b"a;\xff;*"), Hierarchy.from_csv(folder / "h.csv")),
        "the hierarchy file 'h.csv' is not UTF-8 text (byte 2): save it as UTF-8.",
    ),
    "file with an open quote": (
        csv_of('a;"A;*\n'),
        "'h.csv' is not a table, unexpected end of data in line 1: save it as plain text with the delimiter ';'.",
    ),
    "folder that cannot be written": (
        lambda folder: Hierarchy.flat("ab").to_csv(folder / "none" / "h.csv"),
        "the hierarchy file 'none/h.csv' cannot be written: The folder 'none' does not exist: create it, or write "
        "somewhere else.",
    ),
    "value twice in a table": (
        csv_of("a;A;*\na;B;*\n"),
        "hierarchy 'h' lists the value 'a' twice (row 2): keep one row per value.",
    ),
    "value twice in a dict": (
        built(Hierarchy.from_dict, {"A": ["a", "b"], "B": ["b"]}),
        "the hierarchy lists the value 'b' twice: keep it in one place only.",
    ),
    "value twice in a flat hierarchy": (
        built(Hierarchy.flat, ["a", "b", "a"]),
        "the hierarchy lists the value 'a' twice: keep it in one place only.",
    ),
    "empty value": (
        built(Hierarchy.from_dict, {"x": ["a", ""]}),
        "the hierarchy has an empty value: remove it, or name it if it stands for missing values.",
    ),
    "node with two parents": (
        csv_of("a;A;X;*\nb;A;Y;*\n"),
        "hierarchy 'h' puts 'A' of level 1 under both 'X' and 'Y': give it one parent, or two labels.",
    ),
    "ragged rows": (
        csv_of("a;A;*\nb;*\n"),
        (
            "hierarchy 'h' has 2 cells in row 2 ('b', '*') but 3 in row 1: "
            "give every row one cell per level, and repeat a value that has no group at some level."
        ),
    ),
    "one column": (
        csv_of("a,A,*\nb,A,*\n"),
        (
            "hierarchy 'h' has only one level in row 1 ('a,A,*'): "
            "add a last column with the root '*', or name the right delimiter."
        ),
    ),
    "empty cell": (
        csv_of("a;A;*\nb;;*\n"),
        "hierarchy 'h' has an empty cell at level 1 of row 2, 'b', '', '*': fill it in.",
    ),
    "label of two groups": (
        built(Hierarchy.from_dict, {"A": {"Other": ["a", "b"]}, "B": {"Other": ["c"]}}, name="job"),
        (
            "hierarchy 'job' uses the label 'Other' for different sets of values, ('a', 'b') and ('c'), "
            "which a released table could not distinguish: rename one of them."
        ),
    ),
    "label of a group and of a value": (
        csv_of("Other;Other;*\nMisc;Other;*\n"),
        (
            "hierarchy 'h' uses the label 'Other' for different sets of values, ('Other') and ('Other', 'Misc'), "
            "which a released table could not distinguish: rename one of them."
        ),
    ),
    "value that looks like the root": (
        built(Hierarchy.flat, ["a", "*"], root="*"),
        (
            "the hierarchy uses the label '*' for different sets of values, ('*') and ('a', '*'), "
            "which a released table could not distinguish: rename one of them."
        ),
    ),
    "empty label": (
        built(Hierarchy.from_dict, {"": ["a"], "B": ["b"]}),
        "the hierarchy has an empty label over 'a': name it.",
    ),
    "group without values": (
        built(Hierarchy.from_dict, {"A": ["a"], "B": []}),
        "the hierarchy is empty below 'B': list its values, or give None if it is a value itself.",
    ),
    "dict that ends in a text": (
        built(Hierarchy.from_dict, {"A": "abc", "B": ["b"]}),
        (
            "the hierarchy has 'abc' below 'A': "
            "give a list of values or a mapping of groups, or None if it is a value itself."
        ),
    ),
    "uncovered value": (
        lambda _: Hierarchy.flat(["Private", "gov"], "work").check_covers(["gov", "?", "gov"], "workclass"),
        (
            "attribute 'workclass' holds the value '?', which hierarchy 'work' does not cover: "
            "add it to the hierarchy, or mark it as missing in the data."
        ),
    ),
    "uncovered values that are spelled otherwise": (
        lambda _: Hierarchy.flat(["Private", "gov"], "work").check_covers([" private", "x", "y", "x"], "workclass"),
        (
            "attribute 'workclass' holds the value ' private' (and 2 other values), which hierarchy 'work' does not "
            "cover: write it as 'Private', add it to the hierarchy, or mark it as missing in the data."
        ),
    ),
    "whole number written with a point": (
        lambda _: Hierarchy.from_intervals(0, 99, widths=[10], name="age").leaf(39.0),
        (
            "hierarchy 'age' does not cover the value '39.0': "
            "write it as '39', add it to the hierarchy, or mark it as missing in the data."
        ),
    ),
    "unknown label": (
        lambda _: Hierarchy.from_prefix(["8010"], name="zip").node("802*"),
        "hierarchy 'zip' has no node '802*': show() lists its labels.",
    ),
    "misspelled label": (
        lambda _: Hierarchy.from_dict({"Europe": ["France"], "Asia": ["Japan"]}).node("Europa"),
        "the hierarchy has no node 'Europa': did you mean 'Europe'?",
    ),
    "ancestor of nothing": (
        lambda _: Hierarchy.flat("ab", "sex").common_ancestor([]),
        "hierarchy 'sex' has no common ancestor of no values: give at least one value.",
    ),
    "missing label in use": (
        lambda _: Hierarchy.flat(["missing", "here"], "state").with_missing(),
        "hierarchy 'state' cannot call missing values 'missing': give a label not yet in use.",
    ),
    "intervals of nothing": (
        built(Hierarchy.from_intervals, 0, 9, name="age"),
        "hierarchy 'age' needs either widths= or edges= to make intervals: give one of the two.",
    ),
    "intervals without bounds": (
        built(Hierarchy.from_intervals, widths=[5], name="age"),
        "hierarchy 'age' needs bounds for its intervals: give low and high, or values.",
    ),
    "bounds the wrong way round": (
        built(Hierarchy.from_intervals, 9, 0, widths=[5], name="age"),
        "hierarchy 'age' has the bounds 9 to 0: give finite ones, the lower first.",
    ),
    "width of nothing": (
        built(Hierarchy.from_intervals, 0, 9, widths=[0], name="age"),
        "hierarchy 'age' has the widths [0]: give at least one, all above 0.",
    ),
    "widths that do not nest": (
        built(Hierarchy.from_intervals, 0, 90, widths=[10, 25], name="age"),
        "hierarchy 'age' has the width 25 after 10: make each width a multiple of the one before.",
    ),
    "too many intervals": (
        built(Hierarchy.from_intervals, 0, 1e12, widths=[5], name="income"),
        "hierarchy 'income' has more than 1,000,000 intervals of width 5 from 0 to 1e+12: begin with a larger width.",
    ),
    "too many integers": (
        built(Hierarchy.from_intervals, 0, 1_000_000, widths=[1000], name="income"),
        "hierarchy 'income' has more than 1,000,000 integers from 0 to 1e+06: give the ones in use as values=.",
    ),
    "numbers that cannot be listed": (
        built(Hierarchy.from_intervals, 0, 1, widths=[0.1], name="dose"),
        "hierarchy 'dose' has bounds or edges that are not whole numbers, so its values are not known: give values=.",
    ),
    "edges that fall": (
        built(Hierarchy.from_intervals, edges=[0, 65, 18], name="age"),
        "hierarchy 'age' has the edges [0, 65, 18]: give at least two, in rising order.",
    ),
    "edges that leave out a part": (
        built(Hierarchy.from_intervals, 0, 90, edges=[18, 65, 120], name="age"),
        "hierarchy 'age' has edges from 18 to 120, which leave out a part of 0 to 90: add edges at the ends.",
    ),
    "edges that do not nest": (
        built(Hierarchy.from_intervals, edges=[[0, 18, 65], [0, 30, 65]], name="age"),
        (
            "hierarchy 'age' has the edge 30 inside an interval of the level below: "
            "make the intervals of each level a union of those below."
        ),
    ),
    "edges of which the coarse ones end the fine ones": (
        built(Hierarchy.from_intervals, edges=[[0, 18, 65], [0, 65, 120]], name="age"),
        (
            "hierarchy 'age' has the edge 65 inside an interval of the level below: "
            "make the intervals of each level a union of those below."
        ),
    ),
    "number out of bounds": (
        built(Hierarchy.from_intervals, 0, 90, widths=[10], values=[5, 91], name="age"),
        "hierarchy 'age' has the value '91' outside 0 to 90: widen the bounds, or correct it.",
    ),
    "number that is none": (
        built(Hierarchy.from_intervals, widths=[10], values=[5, "89 OR OLDER"], name="age"),
        "hierarchy 'age' has the value '89 OR OLDER', which is not a finite number: correct or drop it.",
    ),
    "number written in two ways": (
        built(Hierarchy.from_intervals, widths=[10], values=["5", "5.0"], name="age"),
        "hierarchy 'age' has '5' and '5.0' for the same number: write it in one way.",
    ),
    "only missing values": (
        built(Hierarchy.from_prefix, [None, math.nan], name="zip"),
        "hierarchy 'zip' is empty: give at least one value that is not missing.",
    ),
    "redaction from an unknown side": (
        built(Hierarchy.from_prefix, ["8010"], side="top", name="zip"),
        "hierarchy 'zip' cannot redact from the side 'top': choose 'right' or 'left'.",
    ),
    "mask of two characters": (
        built(Hierarchy.from_prefix, ["8010"], mask="**", name="zip"),
        "hierarchy 'zip' cannot redact with the mask '**': give a single character.",
    ),
    "value that holds the mask": (
        built(Hierarchy.from_prefix, ["8010", "80**"], name="zip"),
        "hierarchy 'zip' has the value '80**' that holds the mask '*': choose a mask that no value holds.",
    ),
    "lengths that rise": (
        built(Hierarchy.from_prefix, ["8010"], keep=[1, 3], name="zip"),
        "hierarchy 'zip' cannot keep [1, 3] characters of values with 4: give falling lengths between 1 and 3.",
    ),
    "no date": (
        built(Hierarchy.from_dates, ["2024-03-05", "05.03.2024"], name="born"),
        "hierarchy 'born' has the value '05.03.2024', not an ISO date such as '2024-03-01': convert it first.",
    ),
    "unknown unit": (
        built(Hierarchy.from_dates, ["2024-03-05"], units=["week"], name="born"),
        "hierarchy 'born' does not know the unit 'week': choose among day, month, quarter, half, year, decade.",
    ),
    "units out of order": (
        built(Hierarchy.from_dates, ["2024-03-05"], units=["year", "month"], name="born"),
        "hierarchy 'born' has the units 'year', 'month' out of order: list them from fine to coarse.",
    ),
    "fanout of one": (
        built(Hierarchy.from_order, "abc", fanout=1, name="grade"),
        "hierarchy 'grade' cannot put 1 neighbours in a group: give a fanout of 2 or more.",
    ),
    "thresholds that fall": (
        built(Hierarchy.from_frequencies, {"a": 90, "b": 10}, below=[50, 5], name="pet"),
        (
            "hierarchy 'pet' cannot group values below [50, 5] in 100 rows: "
            "give rising thresholds above 0, shares below 1 or counts."
        ),
    ),
    "negative count": (
        built(Hierarchy.from_frequencies, {"a": 3, "b": -1}, name="pet"),
        "hierarchy 'pet' has the count -1 for 'b': give counts of 0 or more.",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error(case: str, tmp_path: Path) -> None:
    cause, sentence = ERRORS[case]
    with pytest.raises(HierarchyError) as caught:
        cause(tmp_path)
    assert str(caught.value).replace(f"{tmp_path}/", "") == sentence
    assert "\n" not in sentence


def test_pandas_missing_values_are_left_out() -> None:
    pandas = pytest.importorskip("pandas")
    column = pandas.Series(["8010", None, pandas.NA, "8020"])
    assert Hierarchy.from_prefix(column).values == ("8010", "8020")
