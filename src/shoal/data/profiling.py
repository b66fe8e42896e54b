"""Profile raw columns and propose a role and a kind for each, with the reason.

The measures are those of Motwani and Xu (2007), which ARX shows too: the *distinction* of a set of columns is the
share of distinct combinations in the rows, its *separation* the share of all pairs of rows that it distinguishes.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal._kernels import groups
from shoal.data import frames

IDENTIFIER_DISTINCTION = 0.95
"""Text or whole numbers with at least this share of distinct values identify their row."""
QUASI_SEPARATION = 0.10
"""A column that distinguishes this share of pairs helps to find a person."""
UNIQUE_SHARE = 0.01
"""A column that makes this share of the rows unique, together with others, is a quasi-identifier."""
SAMPLE_ROWS = 20_000
"""Combinations are measured on this many evenly spaced rows: 500 triples then take about a second."""
MOST_COLUMNS = 16
"""Combinations are formed of at most this many columns, those with the highest separation."""

_IDENTIFIER_NAMES = (
    r"id|uuid|guid|ssn|passport|e-?mail|phone|telephone|name|surname|firstname|lastname|iban|account|person"
)
_SENSITIVE_NAMES = r"disease|diagnosis|condition|illness|health|salary|wage|religion|politic|sexual|genetic|hiv|symptom"
_TARGET_NAMES = r"target|label|class|outcome|income|y"


class Proposal(NamedTuple):
    """A proposed role and kind, with the reason."""

    name: str
    role: str
    kind: str
    reason: str
    order: tuple[Any, ...] | None = None


class Separation(NamedTuple):
    """The distinction and separation of a set of columns."""

    names: tuple[str, ...]
    distinction: float
    separation: float
    unique: float
    """Share of the rows that equal no other row."""


class _Profile(NamedTuple):
    name: str
    codes: np.ndarray
    content: str
    whole: bool
    order: tuple[Any, ...] | None
    alone: Separation


def propose(frame: nw.DataFrame[Any]) -> list[Proposal]:
    """Propose a role and a kind for every column of a frame."""
    frames.require_rows(frame)
    profiles = [_profile(frame[name]) for name in frame.columns]
    roles = {profile.name: _role_by_itself(profile, len(frame)) for profile in profiles}
    open_profiles = [profile for profile in profiles if roles[profile.name] is None]
    in_company = _roles_in_company(open_profiles)
    proposals = []
    for profile in profiles:
        role, reason = roles[profile.name] or in_company[profile.name]
        proposals.append(Proposal(profile.name, role, _kind(profile), reason, profile.order))
    return proposals


def separations(frame: Any, names: list[str], largest: int = 3) -> list[Separation]:
    """Return the separation of every combination of up to ``largest`` of these columns, the strongest first."""
    opened = frames.open_frame(frame)
    profiles = [_profile(opened[name]) for name in names]
    found = [s for s in _combinations(profiles, largest) if len(s.names) > 1] + [profile.alone for profile in profiles]
    return sorted(found, key=lambda s: (-s.separation, len(s.names), s.names))


def _profile(series: nw.Series[Any]) -> _Profile:
    factor = frames.factorize(series)
    codes = factor.codes.astype(np.int64) + 1
    whole = factor.content == "number" and bool(np.all(np.mod(factor.values.astype(float), 1) == 0))
    order = None
    if series.implementation.is_pandas() and series.dtype == nw.Enum:
        order = tuple(str(category) for category in series.cat.get_categories().to_list())
    alone = _measure((series.name,), np.bincount(codes))
    return _Profile(series.name, codes, factor.content, whole, order, alone)


def _measure(names: tuple[str, ...], sizes: np.ndarray) -> Separation:
    sizes = sizes[sizes > 0].astype(float)
    n = sizes.sum()
    pairs = n * (n - 1)
    separated = 1.0 - float((sizes * (sizes - 1)).sum() / pairs) if pairs else 0.0
    return Separation(names, len(sizes) / n, separated, float((sizes == 1).sum() / n))


def _kind(profile: _Profile) -> str:
    if profile.order is not None:
        return "ordinal"
    if profile.content == "date" or (profile.content == "number" and profile.codes.max() > 2):
        return "numeric"
    return "nominal"


def _role_by_itself(profile: _Profile, n_rows: int) -> tuple[str, str] | None:
    """Return the role that a column has whatever the other columns are, or None."""
    alone = profile.alone
    shown = f"{alone.distinction:.1%} of its values are distinct"
    n_values = round(alone.distinction * n_rows)
    if n_values == 1:
        return "other", "proposed other: it has only one value."
    nameable = profile.content == "text" or profile.whole
    if nameable and n_rows >= 20 and alone.distinction >= IDENTIFIER_DISTINCTION:
        return "identifier", f"proposed identifier: {shown}."
    if _may_identify(profile) and alone.distinction >= 0.5:
        return "identifier", f"proposed identifier: its name says so, and {shown}."
    if _named(profile.name, _SENSITIVE_NAMES):
        return "sensitive", "proposed sensitive: its name says so."
    if _named(profile.name, _TARGET_NAMES) and n_values <= 20:
        return "target", f"proposed target: its name says so, and it has {n_values} values."
    return None


def _may_identify(profile: _Profile) -> bool:
    """Return True if a column has the name of an identifier and values that can be one."""
    return (profile.content == "text" or profile.whole) and _named(profile.name, _IDENTIFIER_NAMES)


def _named(name: str, pattern: str) -> bool:
    words = re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    return any(re.fullmatch(pattern, word) for word in words)


def _roles_in_company(profiles: list[_Profile]) -> dict[str, tuple[str, str]]:
    """Propose quasi-identifier or other, by the separation of a column alone and together with up to two others."""
    unique = {frozenset(separation.names): separation.unique for separation in _combinations(profiles, 3)}
    sampled = f" (of {SAMPLE_ROWS:,} rows drawn evenly)" if profiles and len(profiles[0].codes) > SAMPLE_ROWS else ""
    roles = {}
    for profile in profiles:
        facts = f"alone it distinguishes {profile.alone.separation:.1%} of all pairs of rows"
        company, gain = _strongest_company(profile.name, unique)
        if gain > 0:
            others = " and ".join(sorted(company - {profile.name}))
            before = unique[company - {profile.name}]
            facts += f", and together with {others} it raises the share of unique rows{sampled}"
            facts += f" from {before:.1%} to {unique[company]:.1%}"
        quasi = profile.alone.separation >= QUASI_SEPARATION or gain >= UNIQUE_SHARE
        role = "quasi" if quasi else "other"
        if gain > 0 and unique[company] >= IDENTIFIER_DISTINCTION and _may_identify(profile):
            role, facts = "identifier", f"its name says so, and {facts}"
        roles[profile.name] = (role, f"proposed {role}: {facts}.")
    return roles


def _strongest_company(name: str, unique: dict[frozenset[str], float]) -> tuple[frozenset[str], float]:
    """Return the combination in which adding the column makes most rows unique, and their share."""
    gains = {names: unique[names] - unique[names - {name}] for names in unique if name in names and len(names) > 1}
    if not gains:
        return frozenset(), 0.0
    best = max(gains, key=lambda names: (gains[names], -len(names), sorted(names)))
    return best, gains[best]


def _combinations(profiles: list[_Profile], largest: int) -> list[Separation]:
    if not profiles:
        return []
    chosen = sorted(profiles, key=lambda p: -p.alone.separation)[:MOST_COLUMNS]
    names = {profile.name for profile in chosen}
    chosen = [profile for profile in profiles if profile.name in names]
    n = len(chosen[0].codes)
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLE_ROWS)).astype(np.int64))
    sample = np.column_stack([profile.codes[rows] for profile in chosen]).astype(np.uint32)
    found = []
    for size in range(1, min(largest, len(chosen)) + 1):
        for columns in combinations(range(len(chosen)), size):
            labels, _ = groups.group_rows(np.ascontiguousarray(sample[:, columns]))
            found.append(_measure(tuple(chosen[c].name for c in columns), np.bincount(labels)))
    return found
