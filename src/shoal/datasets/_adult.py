"""UCI Adult, as the anonymization papers prepare it."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from shoal.datasets import _files
from shoal.datasets import _hierarchies as trees
from shoal.datasets._dataset import Dataset, FrameKind, check_kind, convert
from shoal.errors import DataError
from shoal.parameters import Choice

if TYPE_CHECKING:
    import polars

    from shoal.data.hierarchy.hierarchy import Hierarchy
    from shoal.data.schema import Schema

Trees = Literal["sangreea", "arx", "shoal"]

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
USED = tuple(name for name in COLUMNS if name not in ("fnlwgt", "education", "income"))
QUASI: Mapping[int, tuple[str, ...]] = {
    12: USED,
    10: tuple(name for name in USED if not name.startswith("capital")),
    8: (
        "workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country", "education-num",
    ),
    9: (
        "sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation", "income",
    ),
}  # fmt: skip
SANGREEA = {
    "workclass": "WorkClassGH",
    "marital-status": "MaritalStatusGH",
    "occupation": "OccupationGH",
    "relationship": "RelationshipGH",
    "race": "RaceGH",
    "sex": "SexGH",
    "native-country": "NativeCountryGH",
    "income": "IncomeGH",
}
ARX = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country", "income")


def fetch_adult(
    subset: Literal["all", "train", "test"] = "all",
    *,
    drop_missing: bool = False,
    quasi: int | Sequence[str] = 12,
    hierarchies: Trees | None = "sangreea",
    binary_country: bool = False,
    frame: FrameKind = "polars",
) -> Dataset:
    """Fetch UCI Adult ("Census Income", 1994), the standard data set of anonymization research.

    The defaults are those of accuracy-guided anonymization (Goldsteen et al. 2020): 48,842 rows, 12 attributes, the
    target ``income``. Sarcevic et al. (2018) use ``subset="train", drop_missing=True, binary_country=True`` (30,162
    rows), Malle et al. (2017) the first 3,000 of these rows with the country as it is, and ARX's benchmark all of them
    with ``quasi=9, hierarchies="arx"``.

    Parameters
    ----------
    subset : {"all", "train", "test"}
        48,842, 32,561 or 16,281 rows; training rows come first.
    drop_missing : bool
        Leave out rows with a missing value (45,222, 30,162 or 15,060 rows stay). Otherwise they hold missing values
        where the file has ``?`` (in workclass, occupation and native-country).
    quasi : {12, 10, 8, 9} or sequence of str
        The number of quasi-identifiers: the sets of 12, 10 and 8 are Goldsteen's, whose other attributes keep the role
        "other"; 9 is ARX's benchmark, which has no other columns and counts income among them. Or the names of the
        attributes. ``fnlwgt`` is left out unless named, and so is ``education``, which repeats
        ``education-num``; if it is named, ``education-num`` is left out instead.
    hierarchies : {"sangreea", "arx", "shoal"} or None
        Hierarchies of SaNGreeA, of ARX (age and education too, relationship not), or those of ``make_census``,
        which need no download.
    binary_country : bool
        Make native-country ``United-States`` or ``Non-US``.
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``: quasi-identifiers first, then other columns, then the target.
    """
    check_kind(frame)
    Choice(("all", "train", "test")).check("subset", subset)
    (Choice(("sangreea", "arx", "shoal")) | None).check("hierarchies", hierarchies)
    names = _quasi_names(quasi)
    parts = [_read_part(part) for part in ("train", "test") if subset in (part, "all")]
    schema = _schema(names, hierarchies, binary_country, others=quasi != 9)
    return Dataset(convert(_prepared(parts, drop_missing, binary_country).select(schema.names), frame), schema)


def _quasi_names(quasi: int | Sequence[str]) -> tuple[str, ...]:
    if isinstance(quasi, int):
        Choice(QUASI).check("quasi", quasi)
        return QUASI[quasi]
    for name in [quasi] if isinstance(quasi, str) else quasi:
        if name not in COLUMNS:
            raise DataError(f"quasi names {name!r}, which Adult does not have: choose among {', '.join(COLUMNS)}.")
    return (quasi,) if isinstance(quasi, str) else tuple(dict.fromkeys(quasi))


def _read_part(part: str) -> polars.DataFrame:
    import polars as pl

    content = _files.read("adult/adult.data" if part == "train" else "adult/adult.test")
    if part == "test":
        content = content.partition(b"\n")[2]  # "|1x3 Cross validator"
    types = {name: pl.Int64 if name in NUMERIC else pl.String for name in COLUMNS}
    return pl.read_csv(content.replace(b", ", b",").strip(), has_header=False, schema=types, null_values="?")


def _prepared(parts: Sequence[polars.DataFrame], drop_missing: bool, binary_country: bool) -> polars.DataFrame:
    import polars as pl

    table = pl.concat(parts).with_columns(pl.col("income").str.strip_chars_end("."))  # the test labels end in a dot
    if drop_missing:
        table = table.drop_nulls()
    if binary_country:
        country = pl.col("native-country")
        other = pl.when(country.is_not_null() & (country != "United-States")).then(pl.lit("Non-US")).otherwise(country)
        table = table.with_columns(other.alias("native-country"))
    return table


def _schema(names: Sequence[str], hierarchies: Trees | None, binary_country: bool, others: bool) -> Schema:
    from shoal.data.schema import Attribute, Schema

    roles = dict.fromkeys(names, "quasi")
    if others:
        said = "education-num" if "education" in names else ""
        roles |= {name: "other" for name in USED if name not in names and name != said}
    if "income" not in names:
        roles["income"] = "target"
    return Schema(
        Attribute(
            name,
            role=role,
            kind="numeric" if name in NUMERIC else "nominal",
            hierarchy=_hierarchy(name, hierarchies, binary_country) if role != "target" else None,
        )
        for name, role in roles.items()
    )


def _hierarchy(name: str, source: Trees | None, binary_country: bool) -> Hierarchy | None:
    from shoal.data.hierarchy.hierarchy import Hierarchy

    binary = binary_country and name == "native-country"
    if source == "sangreea" and name in SANGREEA:
        file = "NativeCountryBinGH" if binary else SANGREEA[name]
        return Hierarchy.from_json(json.loads(_files.read(f"sangreea-hierarchies/{file}.json")), name=name)
    if source is not None and binary:
        return Hierarchy.flat(["United-States", "Non-US"], name=name)
    if source == "arx" and name in ARX:
        file = "salary-class" if name == "income" else name
        text = _files.read(f"arx/hierarchies/adult_hierarchy_{file}.csv").decode()
        return Hierarchy.from_rows(list(csv.reader(text.splitlines(), delimiter=";")), name=name)
    return trees.embedded(name) if source == "shoal" and name in trees.TREES else None
