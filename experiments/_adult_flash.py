"""Adult as Flash releases it in Šarčević (2018), in a module of its own: processes keep what it caches."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from _adult_targets import adult

from shoal import Flash, Hierarchy, Schema

NAMES = ("age", "workclass", "education-num", "marital-status", "occupation", "relationship", "race", "sex",
         "hours-per-week", "native-country", "capital-gain", "capital-loss", "income")  # fmt: skip
AS_THEY_ARE = ("capital-gain", "capital-loss", "income")
LAST_YEARS = (4, 9, 13)


@cache
def people(mode: str, rows: int | None) -> Any:
    """Rows, their schema with the hierarchies of a mode, and their education."""
    frame, schema, truth = adult("education-num", NAMES, LAST_YEARS, binary_country=True)
    fewer = mode == "fewer levels"
    trees = {"age": decades() if fewer else steps(17, 90, "age"), "hours-per-week": below_at_above() if fewer else
             steps(1, 99, "hours-per-week")}  # fmt: skip
    attributes = [replace(one, hierarchy=trees.get(one.name, one.hierarchy)) for one in schema]
    attributes = [replace(one, role="other") if one.name in AS_THEY_ARE else one for one in attributes]
    return frame[:rows], Schema(attributes), truth[:rows]


def steps(lowest: int, highest: int, name: str) -> Hierarchy:
    """Numbers in ranges of 5, 10 and 20."""
    return Hierarchy.from_rows(
        [[n, *(f"{n // width * width}-{n // width * width + width - 1}" for width in (5, 10, 20)), "*"]
         for n in range(lowest, highest + 1)], name=name
    )  # fmt: skip


def decades() -> Hierarchy:
    return Hierarchy.from_rows([[age, f"{age // 10}0s", "*"] for age in range(17, 91)], name="age")


def below_at_above() -> Hierarchy:
    rows = [[n, "<40" if n < 40 else "at 40" if n == 40 else ">40", "*"] for n in range(1, 100)]
    return Hierarchy.from_rows(rows, name="hours-per-week")


def method(mode: str, k: int, schema: Schema, **options: Any) -> Flash:
    flash_mode = {"fewer levels": "local", "numbers global": "mixed"}.get(mode, mode)
    return Flash(schema, k=k, mode=flash_mode, **options)


@cache
def release_all(mode: str, k: int, rows: int | None) -> Any:
    frame, schema, _ = people(mode, rows)
    return frame if k == 1 else method(mode, k, schema).fit_transform(frame)
