"""Random tables for properties: every kind of attribute, missing values, hierarchies, sensitive values."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
from hypothesis import strategies as st

from shoal import Attribute, Hierarchy, Schema

LETTERS = "abcdefgh"
TREE = {"ab": ["a", "b"], "cde": {"cd": ["c", "d"], "e": None}, "fgh": ["f", "g", "h"]}


class RandomTable(NamedTuple):
    frame: pl.DataFrame
    schema: Schema


@st.composite
def tables(draw, *, least_rows=1, most_rows=50, n_sensitive=1, missing=True, weights=True):
    n = draw(st.integers(least_rows, most_rows))
    n_quasi = draw(st.integers(1, 4))
    columns, attributes = {}, []
    for j in range(n_quasi):
        name = f"q{j}"
        kind = draw(st.sampled_from(["integer", "float", "set", "tree", "ordinal", "date"]))
        values, attribute = _column(draw, name, kind, n, missing)
        weight = draw(st.sampled_from([1.0, 1.0, 0.5, 3.0, 0.0])) if weights else 1.0
        if j == 0:
            weight = 1.0
        columns[name] = values
        attributes.append(Attribute(name, "quasi", attribute.kind, attribute.hierarchy, weight, attribute.order))
    for j in range(n_sensitive):
        columns[f"s{j}"] = pl.Series(draw(st.lists(st.sampled_from("uvwxyz"), min_size=n, max_size=n)), dtype=pl.String)
        attributes.append(Attribute(f"s{j}", "sensitive", "nominal"))
    columns["note"] = pl.Series([f"row {i}" for i in range(n)])
    attributes.append(Attribute("note", "other", "nominal"))
    columns["person"] = pl.Series(list(range(n)))
    attributes.append(Attribute("person", "identifier", "numeric"))
    return RandomTable(pl.DataFrame(columns), Schema(attributes))


def _column(draw, name, kind, n, missing):
    if kind == "integer":
        elements, attribute, dtype = st.integers(-3, 12), Attribute(name), pl.Int64
    elif kind == "float":
        # Adding zero turns -0.0 into 0.0: the two are equal, but do not look so.
        elements, attribute, dtype = st.floats(-1e3, 1e3, width=32).map(lambda x: x + 0.0), Attribute(name), pl.Float64
    elif kind == "date":
        elements, attribute, dtype = st.integers(18_000, 18_030), Attribute(name), pl.Date
    elif kind == "ordinal":
        elements, attribute, dtype = st.sampled_from(["low", "mid", "high"]), _ordinal(name), pl.String
    elif kind == "tree":
        elements, attribute, dtype = st.sampled_from(LETTERS), _tree(name), pl.String
    else:
        elements, attribute, dtype = st.sampled_from(LETTERS), Attribute(name, kind="nominal"), pl.String
    if missing and draw(st.booleans()):
        elements = st.one_of(st.none(), elements, elements, elements)
    return pl.Series(name, draw(st.lists(elements, min_size=n, max_size=n)), dtype=dtype, strict=False), attribute


def _ordinal(name):
    return Attribute(name, kind="ordinal", order=("low", "mid", "high"))


def _tree(name):
    return Attribute(name, kind="nominal", hierarchy=Hierarchy.from_dict(TREE, name=name))


def written_in_two_ways():
    """Three thousand rows that mean the same, with "?" and "NA" for a missing town, beside a thousand others."""
    ages = ["40"] * 1_000 + ["40.0"] * 2_000 + [str(20 + i % 50) for i in range(1_000)]
    towns = ["?"] * 2_998 + ["NA", "NA"] + ["Graz", "Linz"] * 500
    return pl.DataFrame({"age": ages, "town": towns}), Schema([Attribute("age"), Attribute("town", kind="nominal")])


def with_odd_names():
    """A table whose columns have names that an engine may want for itself; "m" says who is released."""
    rows, names = range(600), ("n", "c", "count", "leaf", "d0", "a.b")
    frame = pl.DataFrame({name: [i * j % 7 for i in rows] for j, name in enumerate(names, 2)})
    frame = frame.with_columns(v=pl.Series([str(i % 3) for i in rows]), m=pl.Series(["yes", "no"] * 300))
    roles, kinds = {"v": "sensitive", "leaf": "sensitive", "m": "other"}, {"v": "nominal", "m": "nominal"}
    return frame, Schema([Attribute(one, roles.get(one, "quasi"), kinds.get(one, "numeric")) for one in frame.columns])
