"""A synthetic census: any number of fictional people with the distributions of UCI Adult.

Columns are drawn one after another, each given some of those before it. Every conditional distribution is converted
to a lookup table of equally likely outcomes, so that drawing a column is one gather, by condition and random number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.datasets import _census_tables as tables
from shoal.datasets import _hierarchies as trees
from shoal.datasets._census_tables import Weights
from shoal.datasets._dataset import Dataset, FrameKind, check_kind, convert
from shoal.parameters import Whole

if TYPE_CHECKING:
    import polars

    from shoal.data.schema import Schema

Codes = npt.NDArray[Any]

PEOPLE_AT_ONCE = 1 << 16
"""Rows drawn at a time: their random numbers and codes (4 MB) stay in the cache, so only the result takes memory."""
DRAWN = (
    "sex", "years", "marital-status", "race", "native-country", "education", "relationship", "occupation", "workclass",
    "hours", "hours-per-week", "condition", "region", "place", "income", "capital-gain",
)  # fmt: skip
WEIGHTED: Mapping[str, Weights] = {
    "marital-status": tables.MARITAL,
    "race": tables.RACE,
    "education": tables.EDUCATION,
    "relationship": tables.RELATIONSHIP,
    "occupation": tables.OCCUPATION,
    "workclass": tables.WORKCLASS,
    "hours": tables.HOURS,
    "condition": tables.CONDITION,
    "region": tables.REGION,
}
COUNTRIES = tuple(dict.fromkeys(name for counts in tables.COUNTRY_COUNTS.values() for name in counts))
POSTAL_CODES = tuple(
    f"{region}{area}{town * 37 % 100:02}"
    for region in tables.REGION.values
    for area in range(tables.AREAS)
    for town in range(tables.TOWNS)
)
LEVELS: Mapping[str, Sequence[str]] = {
    "sex": tables.SEX,
    "age": tables.BANDS,
    "origin": tables.ORIGINS,
    "self-employed": ("employed", "self-employed"),
    "native-country": COUNTRIES,
    "postal-code": POSTAL_CODES,
    "income": tables.INCOME,
    **{name: weights.values for name, weights in WEIGHTED.items()},
}
"""The values behind the codes of each nominal column and of the bands that others depend on."""
RELEASED = (
    "person-id", "age", "sex", "race", "marital-status", "relationship", "education", "workclass", "occupation",
    "hours-per-week", "native-country", "postal-code", "capital-gain", "condition", "income",
)  # fmt: skip


def make_census(n: int = 30_000, seed: int = 0, *, frame: FrameKind = "polars") -> Dataset:
    """Make a synthetic census of any size, with its schema.

    Shares and dependencies follow UCI Adult: age, sex, race, marital status, relationship, education, work class,
    occupation, hours, country of birth, capital gain and income (about 24 % earn more than 50K; a random forest
    predicts it in about 85 of 100 cases). A person id, a postal code of four digits and a health condition are added,
    so that every role occurs: ``person-id`` is an identifier, ``condition`` is sensitive, ``income`` the target,
    ``hours-per-week`` and ``capital-gain`` are other columns, and the ten remaining ones are quasi-identifiers, the
    nominal ones with hierarchies. No values are missing.

    Parameters
    ----------
    n : int
        Number of people; ten million take a few seconds.
    seed : int
        The same seed gives the same people, and a larger ``n`` adds people to them.
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame. Nominal columns are dictionary encoded (``Enum``, ``category``, ``dictionary``): at ten
        million rows plain strings would take seven times the memory and double the time.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``.

    Examples
    --------
    >>> census = make_census(1000)
    >>> census.frame.shape
    (1000, 15)
    >>> [attribute.name for attribute in census.schema.sensitive]
    ['condition']
    """
    check_kind(frame)
    Whole(least=0).check("n", n)
    Whole(least=0).check("seed", seed)
    return Dataset(convert(_to_polars(draw_columns(int(n), int(seed))), frame), census_schema())


def draw_columns(n: int, seed: int) -> dict[str, Codes]:
    """Draw the released columns: numbers unchanged, everything else as codes into ``LEVELS``."""
    # numpy guarantees the same stream of raw bits in every version; its distributions may change.
    bits = np.random.PCG64(seed)
    columns: dict[str, Codes] = {"person-id": np.arange(1, n + 1, dtype=np.int64)}
    for start in range(0, n, PEOPLE_AT_ONCE):
        stop = min(start + PEOPLE_AT_ONCE, n)
        uniform = bits.random_raw(len(DRAWN) * PEOPLE_AT_ONCE // 4).view(np.uint16).reshape(len(DRAWN), -1)
        people = _draw_people(dict(zip(DRAWN, uniform[:, : stop - start], strict=True)))
        for name in RELEASED[1:]:
            columns.setdefault(name, np.empty(n, people[name].dtype))[start:stop] = people[name]
    return columns if n else {name: np.empty(0, np.int64) for name in RELEASED}


def _draw_people(uniform: Mapping[str, Codes]) -> dict[str, Codes]:
    """Draw one chunk of people; ``uniform`` holds 16 random bits for each column and person."""
    lookups = _lookups()
    people: dict[str, Codes] = {}

    def draw(name: str, *parents: str) -> Codes:
        return lookups[name].draw(uniform[name], _condition(people, parents))

    def draw_weighted(*names: str) -> None:
        for name in names:
            people[name] = draw(name, *_flat(WEIGHTED[name].parents))

    people["sex"] = draw("sex")
    years = draw("years", "sex")
    people["age"] = _gather(_bands_of_years(), years)
    draw_weighted("marital-status", "race")
    people["native-country"] = draw("native-country", "race")
    people["origin"] = _gather(_origins(), people["native-country"])
    draw_weighted("education", "relationship", "occupation", "workclass")
    people["self-employed"] = _gather(_self_employed(), people["workclass"])
    draw_weighted("hours", "condition", "region")
    people["hours-per-week"] = draw("hours-per-week", "hours")
    people["degree"] = (people["education"] >= tables.EDUCATION.values.index("Bachelors")).view(np.uint8)
    people["postal-code"] = people["region"] * np.uint16(tables.AREAS * tables.TOWNS) + draw("place", "degree")
    people["income"] = _draw_income(people, uniform["income"])
    people["capital-gain"] = draw("capital-gain", "income")
    return people | {"age": years}


def _draw_income(people: Mapping[str, Codes], uniform: Codes) -> Codes:
    """Draw from a logistic model: the higher income where its log-odds exceed those of a uniform random number."""
    odds = np.full(len(uniform), tables.INCOME_BIAS / 100, np.float32)
    for name, weights in tables.INCOME_WEIGHTS.items():
        odds += _gather(np.array(weights, np.float32) / 100, people[name])
    return (_gather(_log_odds(), uniform) < odds).view(np.uint8)


class Lookup(NamedTuple):
    """The inverse distribution function of each condition, tabulated at equal steps."""

    outcomes: Codes
    """Condition by condition, ``2 ** bits`` equally likely outcomes."""
    bits: int

    def draw(self, uniform: Codes, condition: Codes | None) -> Codes:
        index = (uniform >> np.uint16(16 - self.bits)).astype(np.intp)
        if condition is not None:
            index |= condition << self.bits
        return _gather(self.outcomes, index)


def _gather(table: Codes, codes: Codes) -> Codes:
    return table.take(codes, mode="clip")  # no index is out of bounds, and clip is faster than checking


@cache
def _lookups() -> dict[str, Lookup]:
    shares = {name: _lookup(_shares(weights), bits=12) for name, weights in WEIGHTED.items()}
    counts = [[row.get(country, 0) for country in COUNTRIES] for row in tables.COUNTRY_COUNTS.values()]
    return shares | {
        "sex": _lookup([tables.SEX_SHARES]),
        "years": _lookup([_years_of(tables.AGE_SHARES[sex]) for sex in tables.SEX]),
        "native-country": _lookup(counts),
        "hours-per-week": _lookup_numbers(tables.HOURS_SHARES, np.uint8),
        "capital-gain": _lookup_numbers(tables.CAPITAL_GAIN_SHARES, np.int32),
        "place": _lookup(_place_shares()),
    }


def _shares(weights: Weights) -> npt.NDArray[np.float64]:
    """Return the probability of each value under each combination of the parents' values, one row per combination."""
    bias, *rows = read_weights(weights)
    logits: npt.NDArray[np.float64] = bias[1]
    start = 0
    for parent in weights.parents:
        size = int(np.prod([len(LEVELS[name]) for name in parent.split("*")]))
        block = np.array([row for _, row in rows[start : start + size]])
        logits = logits[..., np.newaxis, :] + block
        start += size
    likely: npt.NDArray[np.float64] = np.exp(logits).reshape(-1, len(weights.values))
    likely /= likely.sum(axis=1, keepdims=True)
    return likely


def read_weights(weights: Weights) -> list[tuple[str, npt.NDArray[np.float64]]]:
    """Return the labels and weights, in nats, of the rows of a table."""
    rows = (line.split("|") for line in weights.rows.strip().splitlines())
    return [(label.strip(), np.array(numbers.split(), np.float64) / 100) for label, numbers in rows]


def _lookup(shares: npt.ArrayLike, bits: int = 16) -> Lookup:
    table = np.asarray(shares, np.float64)
    ends = np.cumsum(table, axis=1)
    # Rounding the running sum, not each share, keeps rare values: on average over many conditions their shares hold.
    steps = np.rint(ends / ends[:, -1:] * (1 << bits)).astype(np.int64)
    repeats = np.diff(steps, axis=1, prepend=0)
    codes = np.arange(table.shape[1], dtype=np.uint8 if table.shape[1] <= 256 else np.uint16)
    return Lookup(np.repeat(np.tile(codes, len(table)), repeats.ravel()), bits)


def _lookup_numbers(shares: Mapping[str, Mapping[int, int]], dtype: type[np.integer[Any]]) -> Lookup:
    """Tabulate like ``_lookup``, with numbers as outcomes instead of codes."""
    numbers = sorted({number for row in shares.values() for number in row})
    lookup = _lookup([[row.get(number, 0) for number in numbers] for row in shares.values()])
    return Lookup(np.array(numbers, dtype)[lookup.outcomes], lookup.bits)


def _years_of(shares: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return the shares of the single years 0, 1, 2 … from those of the spans between the edges."""
    edges = np.array(tables.AGE_EDGES)
    widths = np.diff(edges)
    return np.concatenate([np.zeros(edges[0]), np.repeat(np.array(shares) / widths, widths)])


def _place_shares() -> npt.NDArray[np.float64]:
    """Return shares of few large and many small places per region; people with a degree prefer its first areas."""
    area, town = np.divmod(np.arange(tables.AREAS * tables.TOWNS), tables.TOWNS)
    size = (1 + area) ** -0.6 * (1 + town) ** -0.8
    return np.stack([size * np.exp(0.05 * area), size * np.exp(-0.15 * area)])


@cache
def _bands_of_years() -> Codes:
    return np.searchsorted(tables.AGE_BANDS, np.arange(tables.AGE_EDGES[-1]), side="right").astype(np.uint8)


@cache
def _origins() -> Codes:
    return np.array(
        [0 if name == "United-States" else 1 if name in tables.LATIN_AMERICA else 2 for name in COUNTRIES], np.uint8
    )


@cache
def _self_employed() -> Codes:
    return np.array([value.startswith("Self-emp") for value in tables.WORKCLASS.values], np.uint8)


@cache
def _log_odds() -> Codes:
    share = (np.arange(1 << 16) + 0.5) / (1 << 16)
    return np.log(share / (1 - share)).astype(np.float32)


def _flat(parents: Sequence[str]) -> list[str]:
    return [name for parent in parents for name in parent.split("*")]


def _condition(people: Mapping[str, Codes], parents: Sequence[str]) -> Codes | None:
    """Return one number for each combination of the parents' values, the last parent fastest."""
    condition: Codes | None = None
    for name in parents:
        codes = people[name].astype(np.intp)
        condition = codes if condition is None else condition * len(LEVELS[name]) + codes
    return condition


def _to_polars(columns: Mapping[str, Codes]) -> polars.DataFrame:
    import polars as pl

    def series(name: str) -> polars.Series:
        codes = columns[name]
        if name == "person-id":
            return pl.Series(name, codes)
        if name not in LEVELS or name == "age":
            return pl.Series(name, codes.astype(np.int32))
        values = pl.Series(name, LEVELS[name], dtype=pl.Enum(LEVELS[name]))
        return values.gather(pl.Series(codes.astype(np.uint32)))

    return pl.DataFrame([series(name) for name in RELEASED])


@cache
def census_schema() -> Schema:
    """Return the roles, kinds and hierarchies of the census."""
    from shoal.data.hierarchy.hierarchy import Hierarchy
    from shoal.data.schema import Attribute, Schema

    roles = {"person-id": "identifier", "hours-per-week": "other", "capital-gain": "other", "condition": "sensitive"}
    kinds = {"age": "numeric", "hours-per-week": "numeric", "capital-gain": "numeric"}
    hierarchies = {name: trees.embedded(name) for name in RELEASED if name in trees.TREES}
    hierarchies["postal-code"] = Hierarchy.from_prefix(POSTAL_CODES, name="postal-code")
    return Schema(
        Attribute(
            name,
            role="target" if name == "income" else roles.get(name, "quasi"),
            kind=kinds.get(name, "nominal"),
            hierarchy=hierarchies.get(name),
        )
        for name in RELEASED
    )
