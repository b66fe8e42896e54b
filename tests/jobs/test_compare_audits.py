"""Audits are compared by name: strongest attacks, one table per risk, and every number as CSV."""

import polars as pl
import pytest

from shoal import audit, make_model
from shoal.datasets import make_census
from shoal.errors import ShoalError
from shoal.jobs.compare_audits import compare_audits
from shoal.models import read_target

FRAME, SCHEMA = make_census(1200)
MEMBERS, CONTROLS = FRAME[:600], FRAME[600:]


def test_audits_are_compared_by_name(tmp_path):
    models = {
        name: make_model(name, SCHEMA).fit(MEMBERS, read_target(MEMBERS, SCHEMA)) for name in ("forest", "logistic")
    }
    both = compare_audits({name: audit(m, MEMBERS, CONTROLS, SCHEMA, attacks=["loss"]) for name, m in models.items()})
    strongest = both.strongest("membership")
    assert strongest["forest"].advantage.value > strongest["logistic"].advantage.value
    both.to_html(tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text()
    assert "forest" in page
    assert "logistic" in page
    both.to_csv(tmp_path / "both.csv")
    table = pl.read_csv(tmp_path / "both.csv")
    assert table.height == len(both.rows)
    assert table["score_on_controls"].is_between(0.6, 0.95).all()
    assert {"name", "risk", "attack", "accuracy", "accuracy_low", "auc_high"} <= set(table.columns)
    with pytest.raises(ShoalError, match="no audits to compare"):
        compare_audits({})
