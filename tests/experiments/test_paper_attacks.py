"""The studies of attacks and of cleaned queries: what they measure keeps its promises, and claims can come out "no"."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _goldsteen_attacks_told as attacks
import _xu_told as cleaning
import goldsteen_attacks
import xu_null_space
from _study import Study

STUDIES = [*goldsteen_attacks.STUDIES, *xu_null_space.STUDIES]


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
@pytest.mark.parametrize("size", ["toy", "quick", "full"])
def test_nothing_that_was_measured_says_nothing(study: Study, size, tmp_path):
    rows = [cell | {"error": "It could not be done."} for cell in study.cells(size)]
    for found in ([], rows):
        if study.name != "xu_toy":
            assert {one.holds for one in study.tell(found).claims} == {"cannot be told"}
        if study.draw is not None:
            study.draw(found, tmp_path / "drawing.svg")
            assert (tmp_path / "drawing.svg").stat().st_size


def test_the_toy_table_is_as_printed():
    told = cleaning.tell_toy(xu_null_space.measure_toy(0.0))
    assert told.tables[0].rows[0] == ["(3, 1)", "(1, -1)", "(1, -1)", "2", "5"]
    assert [one.holds for one in told.claims] == ["yes", "yes"]


def test_budgets_hold_in_every_row_but_for_what_is_printed(data_folder):
    rows = [{"data": "wq", "desired": 7, "seed": seed} | row for seed in range(2)
            for row in xu_null_space.measure_run("wq", 7, seed)]  # fmt: skip
    by_method = {row["method"]: row for row in rows}
    assert by_method[cleaning.PRINTED]["e_privacy"] > 0
    for method in (cleaning.FIRST, cleaning.FIRST_MEAN, cleaning.STABLE, cleaning.LEARNED):
        assert by_method[method]["e_utility_largest"] <= cleaning.EPSILON * (1 + 1e-9)
    told = cleaning.tell(rows)
    assert told.tables[0].rows[0][:3] == ["wq", "7, 7", "none"]
    assert [one.holds for one in told.claims[::2][:2]] == ["yes", "yes"]


def attacked(setting, accuracy, test=0.85):
    names = dict(zip(("data", "model", "defence"), setting, strict=True))
    return [
        names | {"seed": seed, "attack": attack, "accuracy": accuracy + seed / 1000, "auc": accuracy, "train": 0.9}
        | {"test": test + seed / 1000 + seed**2 / 1e5, "precision": None, "recall": 0.5}
        for seed in range(-2, 3)
        for attack in ("network", "LiRA online")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("after", "test", "holds"), [(0.5, 0.85, ["yes", "yes", "yes"]), (0.6, 0.7, ["no", "no", "no"])]
)
def test_claims_about_membership_follow_the_numbers(after, test, holds):
    raw, protected = ("Adult", "forest", "none"), ("Adult", "forest", "k = 100")
    rows = attacked(raw, 0.62) + attacked(protected, after, test)
    rows = [row | {"test": row["test"] + (row["defence"] == "none") * row["seed"] ** 3 / 1e6} for row in rows]
    claims = attacks.tell_membership(rows).claims
    assert claims[0].holds == "yes"
    assert [claims[i].holds for i in (2, 3, 5)] == holds


def test_a_tree_of_nursery_is_attacked(data_folder):
    rows = [{"k": k, "seed": 0} | row for k in (1, 100) for row in goldsteen_attacks.measure_attribute(k, 0, 1_500)]
    assert [row["attack"] for row in rows] == ["white-box", "fredrikson", "black-box"] * 2
    assert all(0 <= row["accuracy"] <= 1 and row["prior"] > 0.5 for row in rows)
    assert attacks.tell_attribute(rows).tables[0].rows[0][:2] == ["raw rows", "white-box"]
