"""What experiments share: cells are measured once, failures are results, and numbers come with intervals."""

import csv
import importlib.util
import json
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from shoal import WeightSession
from shoal.data.table import encode
from shoal.datasets import make_census
from shoal.errors import GuaranteeError, ShoalError
from shoal.intervals import Interval

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXPERIMENTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_study = load("_study")


def make_study(measured, **changes):
    def measure(k, seed):
        measured.append((k, seed))
        if k == 9:
            raise GuaranteeError("k = 9 cannot be reached.")
        return {"accuracy": 1.0 / k + seed / 100}

    def tell(rows):
        means = [_study.mean_of(rows, "accuracy", k=k) for k in (2, 4)]
        claim = _study.Claim("Less is left at a larger k.", "yes", f"{means[0].value:.2f} and {means[1].value:.2f}.")
        table = _study.Table("Accuracy", ["k", "ours", "paper"], [[2, means[0], 0.5], [4, means[1], None]])
        return _study.Told([table], [claim])

    def cells(size):
        return [{"k": k, "seed": seed} for k in (2, 4, 9) for seed in range({"full": 5, "quick": 2, "toy": 1}[size])]

    study = _study.Study("small", "xu2017", "Figure 0", "Nothing is stated.", cells, measure, tell)
    return study._replace(**changes)


def test_cells_are_measured_once_and_what_fails_is_a_result(tmp_path, capsys):
    measured = []
    study = make_study(measured)
    _study.run(study, "quick", tmp_path)
    assert len(measured) == 6
    _study.run(study, "full", tmp_path)  # three seeds more
    assert len(measured) == len(set(measured)) == 15
    kept = tmp_path / "small.cells.jsonl"
    lines = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(lines[:-1]) + lines[-1][:20])  # as a kill leaves it
    _study.run(study, "full", tmp_path)
    assert len(measured) == 16
    _study.run(study._replace(version=2), "toy", tmp_path)
    assert len(measured) == 19
    _study.run(study, "full", tmp_path)
    with (tmp_path / "small.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15
    assert [row["error"] for row in rows if row["k"] == "9"] == ["k = 9 cannot be reached."] * 5
    facts = json.loads((tmp_path / "small.json").read_text())
    assert facts["tables"][0]["rows"][0] == ["2", "0.520 ± 0.020", "0.500"]
    assert (facts["size"], facts["cells"], facts["claims"][0]["holds"]) == ("full", 15, "yes")
    assert "Less is left at a larger k." in capsys.readouterr().out


def test_what_is_missing_is_no_result_and_is_tried_again(tmp_path, capsys):
    measured, there = [], []
    study = make_study(measured)

    def measure(k, seed):
        if not there:
            raise ShoalError("The file is missing.")
        return study.measure(k, seed)

    with pytest.raises(SystemExit, match="Nothing of small could be measured: The file is missing."):
        _study.run(study._replace(measure=measure), "quick", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["small.cells.jsonl"]
    there.append("file")
    _study.run(study._replace(measure=measure), "quick", tmp_path)
    assert len(measured) == 6
    assert (tmp_path / "small.csv").exists()


def test_means_have_intervals_and_pairs_are_kept_together():
    found = _study.over_seeds([1.0, 2.0, 3.0])
    assert (found.value, round(found.high - 2.0, 3)) == (2.0, 2.484)
    assert _study.over_seeds([]) is None
    assert _study.over_seeds([2.0]) == Interval(2.0, 2.0, 2.0)
    rows = [{"way": way, "seed": seed, "score": 10 * seed + (way == "a")} for way in "ab" for seed in range(4)]
    rows.append({"way": "b", "seed": 9, "error": "no"})
    assert _study.paired(rows, "score", {"way": "a"}, {"way": "b"}) == Interval(1.0, 1.0, 1.0)
    assert _study.values_of(rows, "way") == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1234, "0.123"), (123.4, "123.4"), (5.1e7, "5.1e+07"), (2e-5, "2e-05"), (1234.5, "1,234"), (0.0, "0.000")],
)
def test_numbers_are_shown_as_people_read_them(value, text):
    assert _study.show(value) == text


@pytest.fixture
def reproduce(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return load("reproduce")


def test_the_page_is_what_the_results_say(reproduce):
    files = reproduce.files_of_studies()
    names = [study.name for studies in files.values() for study in studies]
    assert len(names) == len(set(names))
    assert {study.paper for studies in files.values() for study in studies} == set(sys.modules["_page"].PAPERS)
    assert reproduce.PAGE.read_text() == reproduce.write_page("full", files)


def test_results_are_what_their_rows_say(reproduce):
    for study in [one for studies in reproduce.files_of_studies().values() for one in studies]:
        kept = _study.RESULTS / f"{study.name}.json"
        if kept.exists():
            facts = json.loads(kept.read_text())
            assert facts["size"] == "full"
            told = study.tell(_study.read_rows(kept.with_suffix(".csv")))
            assert json.loads(json.dumps(_study.facts_of(study, told, facts["figure"], {}))).items() <= facts.items()


def test_rows_come_back_from_their_file_and_are_told_anew(tmp_path, capsys):
    measured = []
    study = make_study(measured)
    _study.run(study, "quick", tmp_path)
    facts = json.loads((tmp_path / "small.json").read_text())
    rows = _study.read_rows(tmp_path / "small.csv")
    assert rows[0] == {"k": 2, "seed": 0, "accuracy": 0.5, "error": None}
    assert rows[-1] == {"k": 9, "seed": 1, "accuracy": None, "error": "k = 9 cannot be reached."}
    (tmp_path / "small.cells.jsonl").unlink()
    otherwise = study._replace(title="Figure 00", tell=lambda rows: _study.Told([], [], [str(len(rows))]))
    _study.tell_again(otherwise, tmp_path)
    again = json.loads((tmp_path / "small.json").read_text())
    assert (again["title"], again["notes"], again["claims"]) == ("Figure 00", ["6"], [])
    assert {name: again[name] for name in ("seconds", "cells")} == {name: facts[name] for name in ("seconds", "cells")}
    assert len(measured) == 6


def test_the_page_keeps_what_papers_say_apart_from_what_we_ask(reproduce):
    page = sys.modules["_page"]
    claim = {"says": "A | B.", "holds": "yes", "evidence": "by much.", "kind": "main"}
    facts = {"paper": "xu2017", "title": "Figure 4: all, and more", "claims": [claim, claim | {"kind": "ours"}]}
    short = "\n".join(page.in_short([facts, facts | {"claims": [], "lesson": "Much is hidden."}]))
    assert short.startswith("**Null-space cleaning.** Much is hidden.\n\nThe main points of each paper:")
    assert "| A \\| B. | **yes** | By much. | [Figure 4](#figure-4-all-and-more) |" in short
    assert short.count("By much.") == 1
    assert "| [Null-space cleaning](#null-space-cleaning) | 1 | 1 | 0 | 0 | 0 |" in short
    assert "What we asked beside it:" in page.claims_of([facts])
    assert "What we asked beside it:" not in page.claims_of([facts | {"claims": [claim]}])


@pytest.mark.parametrize(("low", "high", "holds"), [(0.01, 0.02, True), (-0.02, 0.004, False), (-0.01, 0.02, None)])
def test_a_difference_below_half_a_point_is_none(monkeypatch, low, high, holds):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    judging = importlib.import_module("_judging")
    assert judging.above_zero(Interval((low + high) / 2, low, high)) is holds
    assert judging.agreed([holds, True]) == {True: "yes", False: "partly", None: "yes"}[holds]


def test_f1_as_published_rewards_who_always_predicts_the_commonest_class(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    targets = load("_adult_targets")
    truth = np.array(["<=50K"] * 3 + [">50K"])
    always = targets.most_frequent(truth, 4)
    found = targets.scores(truth, always)
    # Precision 1 and recall 3/4, once truth and prediction are swapped.
    assert found["f1_swapped"] == pytest.approx(2 * 0.75 / 1.75)
    assert found["f1_micro"] == 0.75
    assert found["f1_macro"] == pytest.approx((2 * 0.75 / 1.75) / 2)
    assert found["f1_swapped"] > targets.scores(truth, np.array(["<=50K", ">50K", ">50K", ">50K"]))["f1_swapped"]


def test_released_cells_become_features():
    targets = load("_adult_targets")
    cells = pl.DataFrame({"age": ["[20, 30]", "*", "40"], "hours": [10, 40, 40]})
    assert targets.numbered(cells).tolist() == [[2.0, 10.0], [0.0, 40.0], [1.0, 40.0]]
    columns = targets.one_hot(cells).toarray()
    assert columns.shape == (3, 4)
    assert columns[:, :3].sum(axis=1).tolist() == [1.0, 1.0, 1.0]


def test_simulated_people_are_asked_what_a_session_would_ask(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    people = load("_simulated_people")
    census = make_census(300)
    session = WeightSession(census.frame, census.schema, k=5)
    groups = people.Groups(census.frame, census.schema)
    place = np.argsort(np.lexsort(encode(census.frame, census.schema).codes.T[::-1]))
    option = session.ask().first
    assert groups.losses(place[list(option.rows)]) == pytest.approx(list(option.loss.values()))
    asked = [people.difference(one) for one in islice(groups.random_questions(np.random.default_rng(0)), 20)]
    assert all(apart.min() < 0 < apart.max() for apart in asked)
    assert len(np.unique(asked, axis=0)) == 20
    person = people.make_person("careful", dict.fromkeys(groups.names, 1.0), 0)
    learned = people.rule_of_2017(groups, person, 0, 5)
    assert learned[3].tolist() == [1.0] * len(groups.names)
    assert learned[4].sum() == pytest.approx(len(groups.names))
