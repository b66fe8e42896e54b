"""Schemas: what they accept, how they are written, and what they propose."""

import numpy as np
import polars as pl
import pytest

from shoal import Attribute, Hierarchy, Recipe, Schema
from shoal.data.profiling import separations
from shoal.data.table import encode
from shoal.datasets import make_census
from shoal.errors import SchemaError

WRITTEN = """
[attributes.age]
role = "quasi"
kind = "numeric"
[attributes.workclass]
role = "quasi"
kind = "nominal"
hierarchy = "workclass.json"
weight = 2.0
[attributes.zip]
role = "quasi"
kind = "nominal"
hierarchy = { prefix = [2, 1] }
[attributes.grade]
role = "quasi"
kind = "ordinal"
order = ["low", "mid", "high"]
[attributes.income]
role = "target"
"""


def test_reads_a_schema_file(tmp_path):
    Hierarchy.from_dict({"gov": ["federal", "local"], "private": None}, name="workclass").to_json(
        tmp_path / "workclass.json"
    )
    (tmp_path / "schema.toml").write_text(WRITTEN)
    schema = Schema.from_toml(tmp_path / "schema.toml")
    assert [a.name for a in schema.quasi] == ["age", "workclass", "zip", "grade"]
    assert schema["workclass"].hierarchy.values == ("federal", "local", "private")
    assert schema["workclass"].weight == 2.0
    assert schema["zip"].hierarchy == Recipe("prefix", (2, 1))
    assert schema["grade"].order == ("low", "mid", "high")
    assert schema["income"].kind == "nominal"


def test_writing_and_reading_gives_the_same(tmp_path):
    (tmp_path / "schema.toml").write_text(WRITTEN.replace('hierarchy = "workclass.json"\n', ""))
    schema = Schema.from_toml(tmp_path / "schema.toml")
    schema = Schema(
        Attribute(
            a.name,
            a.role,
            a.kind,
            Hierarchy.flat(["x", "y"]) if a.name == "workclass" else a.hierarchy,
            a.weight,
            a.order,
        )
        for a in schema
    )
    schema.to_toml(tmp_path / "again.toml")
    assert Schema.from_toml(tmp_path / "again.toml") == schema


def test_odd_names_survive_a_file(tmp_path):
    names = ["marital status", "hours/week", 'say "hi"', "größe", "a.b", "[x]"]
    schema = Schema([Attribute(name, hierarchy=Hierarchy.flat(["1"])) for name in names])
    schema.to_toml(tmp_path / "schema.toml")
    assert Schema.from_toml(tmp_path / "schema.toml") == schema


@pytest.mark.parametrize(
    ("recipe", "values", "labels"),
    [
        (Recipe("prefix"), ["8010", "8011", "9020"], "801*"),
        (Recipe("prefix", (2,)), ["8010", "8011", "9020"], "80**"),
        (Recipe("intervals", (10, 20)), ["21", "25", "38"], "21-29"),
        (Recipe("dates", ("year",)), ["2020-01-05", "2020-03-07", "2021-01-01"], "2020"),
        (Recipe("order", 2), ["a", "b", "c"], "a – b"),
        (Recipe("frequencies", (0.4,)), ["a", "b", "c", "c", "c"], "other"),
    ],
)
def test_recipes_are_built_from_the_values_of_the_column(recipe, values, labels):
    schema = Schema([Attribute("x", kind="nominal", hierarchy=recipe)])
    tree = encode(pl.DataFrame({"x": values}), schema).quasi[0].tree
    assert any(label.startswith(labels) for label in tree.labels), tree.labels


def test_roles_and_weights_can_be_changed():
    schema = Schema([Attribute("a"), Attribute("b", kind="nominal")])
    changed = schema.with_roles(sensitive=["b"]).with_weights(a=3.0)
    assert changed["b"].role == "sensitive"
    assert changed["a"].weight == 3.0
    assert schema["b"].role == "quasi"


def test_proposes_roles_with_reasons():
    frame = make_census(5_000, seed=1).frame
    schema = Schema.infer(frame)
    assert set(schema.names) == set(frame.columns)
    # Hours and gains tell people apart; that the census releases them as they are is a choice of its own.
    truth = make_census(10).schema.with_roles(quasi=["hours-per-week", "capital-gain"])
    for attribute in truth:
        assert schema[attribute.name].role == attribute.role, (attribute.name, schema.reasons[attribute.name])
        assert schema.reasons[attribute.name].startswith(f"proposed {schema[attribute.name].role}")
    assert schema["age"].kind == "numeric"


def test_an_identifier_may_need_company():
    """Numbers that start anew every year name a person only together with the year."""
    frame = pl.DataFrame({"year": np.repeat([2001, 2002, 2003], 30), "id": list(range(30)) * 3, "size": [1, 2, 3] * 30})
    schema = Schema.infer(frame)
    assert schema["id"].role == "identifier"
    assert "together with year" in schema.reasons["id"]
    assert schema["year"].role == "quasi"


def test_separation_by_hand():
    """Six of six pairs are told apart by x and y together; x alone leaves two pairs, y alone two."""
    frame = pl.DataFrame({"x": ["a", "a", "b", "b"], "y": [1, 2, 1, 2]})
    found = {s.names: s for s in separations(frame, ["x", "y"])}
    assert found[("x",)].separation == pytest.approx(4 / 6)
    assert found[("x",)].distinction == 0.5
    assert found[("x", "y")].separation == 1.0
    assert found[("x", "y")].unique == 1.0


def test_proposes_kinds():
    frame = pl.DataFrame(
        {
            "when": pl.Series(np.arange(40) // 2, dtype=pl.Date),
            "flag": [0, 1] * 20,
            "yes": [True, False] * 20,
            "size": np.linspace(0, 1, 40).round(1),
            "constant": ["x"] * 40,
        }
    )
    schema = Schema.infer(frame)
    assert [schema[name].kind for name in frame.columns] == ["numeric", "nominal", "nominal", "numeric", "nominal"]
    assert schema["constant"].role == "other"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Attribute("a", role="qi"), r"'a' has the unknown role 'qi'"),
        (lambda: Attribute("a", kind="text"), r"'a' has the unknown kind 'text'"),
        (lambda: Attribute("a", weight=-1), r"'a' has the weight -1"),
        (lambda: Attribute("a", weight=float("nan")), r"'a' has the weight nan"),
        (lambda: Attribute("a", order=(1, 2)), r"'a' is numeric but has an order"),
        (lambda: Attribute("a", kind="ordinal", order=("x", "x")), r"names 'x' more than once"),
        (lambda: Schema([Attribute("a"), Attribute("a")]), r"'a' is in the schema more than once"),
        (lambda: Schema([Attribute("a")])["b"], r"no attribute 'b' in the schema: it has a"),
        (lambda: Recipe("magic"), r"'magic': choose one of intervals"),
    ],
)
def test_says_what_is_wrong(make, message):
    with pytest.raises(SchemaError, match=message):
        make()
