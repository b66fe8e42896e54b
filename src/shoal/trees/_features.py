"""The input of trees: numbers, codes of nominal values, and bins of both for the growth."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np

from shoal._kernels import tree_use as kernel
from shoal._kernels.tree_data import MOST_BINS, ORDERED, SUBSET, Attributes
from shoal.data import frames

MOST_VALUES = MOST_BINS - 1
"""Maximum number of distinct numbers with one bin each; one bin is for missing values."""
MOST_CATEGORIES = MOST_BINS - 2
"""The same for nominal values; another bin is for values that were not fitted."""
NARROW = 1 << 16
"""Maximum range of whole numbers that are counted."""
SAMPLED_ROWS = 200_000
"""Maximum number of rows for quantiles."""


class Numbers(NamedTuple):
    """A numeric feature: the lowest and the highest number of each bin."""

    low: np.ndarray
    high: np.ndarray

    @property
    def n_bins(self) -> int:
        """Number of bins, including that of missing values, which is the last."""
        return len(self.high) + 1


class Names(NamedTuple):
    """A nominal feature: its values by code, followed by missing values, then by values that were not fitted."""

    values: np.ndarray
    rare: frozenset[Any] = frozenset()
    """Values that share the last code, if there are too many."""

    @property
    def n_bins(self) -> int:
        """Number of bins, including those of missing and of unseen values."""
        return len(self.values) + 2

    def code_of(self, value: Any, codes: dict[Any, int]) -> int:
        """Return the code of a value that is not missing."""
        return len(self.values) - 1 if value in self.rare else codes.get(value, len(self.values) + 1)


Feature = Numbers | Names


def read_features(
    frame: nw.DataFrame[Any], nominal: Sequence[bool], known: Sequence[Feature] | None
) -> tuple[np.ndarray, list[Names | None]]:
    """Return the columns as one array: numbers unchanged, NaN where missing; codes of nominal values.

    ``known`` are the features of the training table; without it, nominal values are learned from this table.
    """
    values = np.empty((len(frame), len(frame.columns)))
    learned: list[Names | None] = [None] * len(frame.columns)

    def read(name: str) -> None:
        j = frame.columns.index(name)
        series = frame[name]
        if not nominal[j]:
            values[:, j] = _numbers(series)
            return
        factor = frames.factorize(series)
        names = known[j] if known is not None else learn_names(factor.codes, factor.values)
        assert isinstance(names, Names)
        learned[j] = names
        values[:, j] = _codes(factor.codes, factor.values, names)

    frames.in_threads(read, frame.columns, len(frame))
    return values, learned


def is_nominal(series: nw.Series[Any]) -> bool:
    """Return True for a column of texts instead of numbers or dates."""
    return frames.content_of(series) == "text"


def _numbers(series: nw.Series[Any]) -> np.ndarray:
    factor = frames.factorize(series)
    values = factor.values
    if factor.content == "date":
        values = values.astype("datetime64[D]").astype(np.int64)
    padded = np.append(values.astype(float), np.nan)
    return padded[factor.codes]


def learn_names(codes: np.ndarray, values: np.ndarray) -> Names:
    """Return the values of a nominal feature; if there are too many, the rarest share a code."""
    if len(values) <= MOST_CATEGORIES:
        return Names(values)
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    by_count = np.lexsort((np.arange(len(values)), -counts))
    kept = np.sort(by_count[: MOST_CATEGORIES - 1])
    rare = frozenset(values[by_count[MOST_CATEGORIES - 1 :]].tolist())
    return Names(np.append(values[kept], values[by_count[-1:]]), rare)


def _codes(codes: np.ndarray, values: np.ndarray, names: Names) -> np.ndarray:
    of = {value: code for code, value in enumerate(names.values.tolist())}
    table = np.array([*(names.code_of(value, of) for value in values.tolist()), len(names.values)], float)
    # The missing value has the code -1, which is the last entry.
    return table[codes]


def code_column(column: np.ndarray, known: Feature | None) -> tuple[np.ndarray, Names]:
    """Return the codes of a nominal column of an array of numbers."""
    values, codes = np.unique(column, return_inverse=True)
    present = ~np.isnan(values)
    codes = np.where(np.isnan(column), -1, codes.reshape(-1))
    names = known if isinstance(known, Names) else learn_names(codes, values[present])
    return _codes(codes, values[present], names), names


def bin_numbers(column: np.ndarray, bins: np.ndarray) -> Numbers:
    """Assign numbers to bins: one per number, or ranges of about equally many rows if there are too many."""
    low, high = kernel.whole_range(column)
    if 0 <= high - low < NARROW:
        present = np.zeros(int(high - low) + 1, bool)
        kernel.mark_whole(column, low, present)
        values = np.flatnonzero(present) + low
        if len(values) <= MOST_VALUES:
            kernel.bin_whole(column, low, (np.cumsum(present) - 1).astype(np.uint8), len(values), bins)
            return Numbers(values, values)
    values = kernel.distinct_numbers(column, MOST_VALUES)
    if len(values) > MOST_VALUES:
        numbers = _runs_of_numbers(column)
    else:
        values = values if len(values) else np.zeros(1)
        numbers = Numbers(values, values)
    kernel.bin_numbers(column, numbers.high, bins)
    return numbers


def _runs_of_numbers(column: np.ndarray) -> Numbers:
    present = column[~np.isnan(column)]
    some = present
    if len(present) > SAMPLED_ROWS:
        some = np.random.default_rng(0).choice(present, SAMPLED_ROWS)
    tops = np.unique(np.quantile(some, np.arange(1, MOST_VALUES) / MOST_VALUES, method="lower"))
    tops = np.append(tops, np.inf)
    bins = np.empty(len(present), np.uint8)
    kernel.bin_numbers(present, tops, bins)
    low, high = np.full(len(tops), np.inf), np.full(len(tops), -np.inf)
    kernel.bin_reach(present, bins, low, high)
    used = low <= high
    return Numbers(low[used], high[used])


class Binned(NamedTuple):
    """A binned table, on which trees grow."""

    bins: np.ndarray
    """uint8 (n, features padded to whole words)."""
    attributes: Attributes
    features: tuple[Feature, ...]
    low: np.ndarray
    high: np.ndarray
    """float64 (bins,): lowest and highest number of each bin, concatenated over the features; NaN for nominal ones."""


def bin_table(values: np.ndarray, names: Sequence[Names | None], n_threads: int) -> Binned:
    """Assign every feature to at most 256 bins."""
    n, q = values.shape
    bins = np.zeros((n, -(-q // 8) * 8), np.uint8)

    def learn(j: int) -> Feature:
        column = np.ascontiguousarray(values[:, j])
        feature = names[j]
        if feature is not None:
            bins[:, j] = column
            return feature
        return bin_numbers(column, bins[:, j])

    if n_threads == 1 or n < frames.ROWS_WORTH_A_THREAD:
        features = [learn(j) for j in range(q)]
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            features = list(pool.map(learn, range(q)))
    low, high = (np.concatenate([_padded(feature, end) for feature in features]) for end in ("low", "high"))
    return Binned(bins, _attributes(features), tuple(features), low, high)


def _padded(feature: Feature, end: str) -> np.ndarray:
    """Return one number per bin of a feature."""
    return np.full(feature.n_bins, np.nan) if isinstance(feature, Names) else np.append(getattr(feature, end), np.nan)


def _attributes(features: Sequence[Feature]) -> Attributes:
    n_bins = np.array([feature.n_bins for feature in features], np.int64)
    ordered = np.array([isinstance(feature, Numbers) for feature in features])
    return Attributes(
        n_bins=n_bins,
        first=np.cumsum(n_bins) - n_bins,
        form=np.where(ordered, ORDERED, SUBSET),
        missing=np.where(ordered, n_bins - 1, -1),
    )
