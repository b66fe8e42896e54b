"""What the figures of accuracy-guided anonymization say follows from their rows, and can come out either way."""

import importlib
from itertools import product
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
CLASSIC = ("mondrian", "hilbert", "rplus")


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module


def rows_of(lead, seeds=5, ks=(10, 50, 500, 1000)):
    """Rows of a study on Adult in which the guided release leads by so much, as a function of the case."""
    rows = []
    for model, quasi, seed in product(("XGB", "DT", "NN, stopped"), (8, 12), range(seeds)):
        case = {"model": model, "features": "all" if model[0] == "N" else "selected", "quasi": quasi, "seed": seed}
        case["quasi-identifiers kept"] = quasi
        wobble = 0.001 * (seed % 3)
        seen = {"accuracy on its training rows": 0.95}
        rows.append(case | {"method": "raw", "accuracy": 0.86 + wobble} | seen)
        rows.append(case | {"method": "majority", "accuracy": 0.76})
        for k in ks:
            rows += [case | {"method": other, "k": k, "accuracy": 0.80} for other in CLASSIC]
            rows.append(
                case | {"method": "published", "k": k, "accuracy": 0.80 + lead(k, quasi) + wobble * quasi * k / 9e3}
            )
    return rows


def answers(load, rows):
    return [claim.holds for claim in load("goldsteen_adult").tell(rows).claims[:4]]


def test_claims_follow_from_the_rows(load):
    assert answers(load, rows_of(lambda k, quasi: 0.02 + (k >= 500) * 0.02 + (quasi == 12) * 0.02)) == ["yes"] * 4
    assert answers(load, rows_of(lambda k, quasi: -0.02)) == ["no"] * 4
    assert answers(load, rows_of(lambda k, quasi: 0.03 if k < 1000 else -0.001))[0] == "partly"
    # At high k it leads over two of the three.
    rows = rows_of(lambda k, quasi: 0.001 + (k >= 500) * 0.02)
    level = [row | {"accuracy": 0.83} if row["method"] == "mondrian" and row["k"] >= 500 else row for row in rows]
    assert [answers(load, one)[1] for one in (rows, level)] == ["yes", "partly"]


@pytest.mark.parametrize("study", ["goldsteen_adult", "goldsteen_loan", "goldsteen_labels"])
def test_few_rows_tell_little_and_break_nothing(load, study, tmp_path):
    case = {"model": "NN, stopped", "features": "all", "quasi": 12, "columns": "all columns", "seed": 0}
    rows = [
        case | {"method": "raw", "accuracy": 0.9, "accuracy on its training rows": 1.0},
        case | {"method": "majority", "accuracy": 0.8},
        case | {"method": "published", "k": 10, "accuracy": 0.85},
        case | {"method": "mondrian", "k": 10, "error": "k = 10 cannot be reached."},
    ]
    (found,) = load(study).STUDIES
    assert {claim.holds for claim in found.tell(rows).claims} == {"cannot be told"}
    found.draw(rows, tmp_path / "few.svg")
    assert (tmp_path / "few.svg").stat().st_size > 0


def test_cases_of_a_seed_count_once(load):
    shared = load("_goldsteen")
    cases = [{"model": model, "k": k} for model in "ab" for k in (2, 5)]
    rows = []
    for case, (seed, lead) in product(cases, ((0, 0.1), (1, 0.3))):
        rows.append(case | {"seed": seed, "method": "one", "accuracy": 0.5 + lead})
        rows.append(case | {"seed": seed, "method": "other", "accuracy": 0.5})
    found = shared.gain(rows, "one", ["other"])
    assert found.value == pytest.approx(0.2)
    assert found.high - found.value == pytest.approx(12.706 * 0.1, rel=1e-3)  # two seeds, not eight cases
    assert shared.count_wins(rows, "one", ["other"], ("model", "k")) == (4, 4, 0)


def test_sizes_hold_what_a_full_run_holds(load):
    for name in ("goldsteen_adult", "goldsteen_loan", "goldsteen_labels", "goldsteen_failure"):
        (study,) = load(name).STUDIES
        full = study.cells("full")
        assert len(full) > len(study.cells("quick")) >= len(study.cells("toy")) > 0
        assert {cell["seed"] for cell in full} == set(range(5))
        assert all(cell["rows"] is None for cell in full)
