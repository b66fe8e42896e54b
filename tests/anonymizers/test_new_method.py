"""A new anonymizer is one file: with it alone, everything that knows methods knows the new one."""

import json
import sys
from types import SimpleNamespace

import pytest

import shoal.anonymizers
from shoal import LDiversity, anonymize, check, cli
from shoal.anonymizers import describe_methods, find_method, method_names, options_of
from shoal.datasets import make_census
from shoal.errors import ShoalError
from shoal.evaluation.plan import plan_methods
from shoal.jobs.release import anonymize_file

FRAME, SCHEMA = make_census(300)
TOY = '''
"""Runs: sort the rows by their codes, and cut them into runs."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from shoal.anonymizers import Anonymizer
from shoal.parameters import Whole


@dataclass(eq=False, repr=False)
class SortedRuns(Anonymizer):
    """Partition by sorting the rows and cutting them into runs.

    With further constraints there is one group.
    """

    _: KW_ONLY
    times: int = 1

    _parameter_constraints = {"times": Whole(least=1)}

    def _partition(self, table, guard, smallest, y):
        n, size = table.n_rows, smallest * self.times
        labels = np.empty(n, np.int64)
        labels[np.lexsort(table.codes.T)] = np.minimum(np.arange(n) // size, max(n // size - 1, 0))
        return labels * (len(self.constraints) == 0)

    def findings(self):
        return {"times": self.times}
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A new file in the package, which is gone after the test."""
    (tmp_path / "sorted_runs.py").write_text(TOY)
    monkeypatch.setattr(shoal.anonymizers, "__path__", [*shoal.anonymizers.__path__, str(tmp_path)])
    yield
    del sys.modules["shoal.anonymizers.sorted_runs"], shoal.anonymizers.sorted_runs


def test_a_new_method_is_gone_again():
    assert "sorted-runs" not in method_names()
    with pytest.raises(ShoalError, match="There is no method 'sorted-runs': choose accuracy-guided, "):
        find_method("sorted-runs")


def test_the_library_knows_it(toy):
    assert describe_methods()["sorted-runs"] == "Partition by sorting the rows and cutting them into runs."
    assert {name: str(one) for name, one in options_of(find_method("sorted-runs")).items()} == {
        "times": "a whole number of at least 1"
    }
    for recoding in ("interval", "median"):
        release = anonymize(FRAME, SCHEMA, k=5, method="sorted-runs", recoding=recoding, times=2)
        assert check(release.frame, SCHEMA).level("k") >= 10
        assert (release.method, release.findings["times"]) == ("sorted-runs", 2)
    asked = [LDiversity(2)]
    assert check(anonymize(FRAME, SCHEMA, k=5, method="sorted-runs", constraints=asked).frame, SCHEMA, asked).holds
    with pytest.raises(ShoalError, match="times must be a whole number of at least 1, got 0"):
        anonymize(FRAME, SCHEMA, k=5, method="sorted-runs", times=0)
    assert plan_methods("sorted-runs", [], None, {})["sorted-runs"].options["recoding"] == "representative"


def test_tables_on_disk_are_released_by_it(toy, tmp_path):
    pytest.importorskip("duckdb")
    FRAME.write_parquet(tmp_path / "people.parquet")
    options = {"method": "sorted-runs", "rows_per_fragment": 100}
    evidence = anonymize_file(tmp_path / "people.parquet", SCHEMA, 5, tmp_path / "out.parquet", **options)
    assert evidence.k >= 5


def test_commands_take_it(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.write_csv("people.csv")
    SCHEMA.to_toml("people.toml")
    assert cli.run(["methods"]) == 0
    assert "times: a whole number of at least 1" in capsys.readouterr().out
    release = (
        "anonymize people.csv --schema people.toml --k 5 --method sorted-runs --option times=3 --out out.csv --json"
    )
    assert cli.run(release.split()) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "sorted-runs"


def test_the_studio_offers_it(toy):
    pytest.importorskip("nicegui")
    from shoal.studio import exports
    from shoal.studio.api import choices
    from shoal.studio.runs import release_table
    from shoal.studio.settings import Settings

    assert "sorted-runs" in choices()["methods"]
    settings = Settings().changed(method="sorted-runs", k=5)
    release, figures = release_table(FRAME, SCHEMA, settings, lambda text: None)
    assert (release.method, figures["findings"]) == ("sorted-runs", {"times": 1})
    workspace = SimpleNamespace(settings=settings, source={"name": "census"})
    assert "--method sorted-runs" in exports.command(workspace)
