"""The one door for dataframes: pandas, polars and pyarrow tables enter and leave here, through narwhals.

Behind this door there are only arrays. A column becomes *codes* (small integers, -1 where the value is missing) and the
sorted array of its distinct *values*.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import narwhals.stable.v2 as nw
import numpy as np

from shoal._kernels import groups, texts
from shoal.data import enums
from shoal.errors import DataError

Content = Literal["number", "boolean", "date", "text"]
FrameKind = Literal["polars", "pandas", "pyarrow"]
Result = TypeVar("Result")
ROWS_WORTH_A_THREAD = 50_000
"""Below this many rows starting threads takes more than it saves."""


class Factor(NamedTuple):
    """A column as codes into its sorted distinct values."""

    codes: np.ndarray
    """Position of each row's value in ``values``; -1 where it is missing."""
    values: np.ndarray
    """Distinct values, ascending: numbers, ``datetime64``, Booleans, or an object array of strings."""
    content: Content


def open_frame(data: Any) -> nw.DataFrame[Any]:
    """Open a dataframe of any supported library, or raise one sentence that says why it cannot be used."""
    if isinstance(data, nw.DataFrame):
        return data
    _check_names(data)
    try:
        frame = nw.from_native(data)
    except TypeError:
        raise DataError(
            f"A dataframe is needed, but this is a {type(data).__name__}: pass a pandas, polars or pyarrow table."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return _without_views(frame) if frame.implementation.is_pyarrow() else frame


def is_frame(data: Any) -> bool:
    """Return True for a table with named columns, False for an array or a list."""
    return hasattr(data, "columns") or hasattr(data, "column_names")


def require_rows(frame: Any) -> None:
    """Refuse a frame without rows or columns."""
    if not frame.columns:
        raise DataError("The frame has no columns: pass a table with at least one column.")
    if len(frame) == 0:
        raise DataError("The frame has no rows: there is nothing to release or to check.")


def factorize(series: nw.Series[Any]) -> Factor:
    """Return the codes and sorted distinct values of a column of any library and type."""
    content = content_of(series)
    if content == "text":
        codes, values = _factorize_text(series)
        return Factor(codes, values, content)
    if content == "date":
        series = _without_time_zone(series)
    whole = series.to_numpy()
    # Integers and Booleans of numpy have no missing value, and testing for one takes as long as the rest.
    missing = np.False_ if whole.dtype.kind in "iub" else missing_rows(series)
    if not missing.any():
        codes, values = _factorize_numbers(_convert(whole, content))
        return Factor(codes, values, content)
    present_codes, values = _factorize_numbers(_convert(series.filter((~missing).tolist()).to_numpy(), content))
    codes = np.full(len(series), -1, np.int64)
    codes[~missing] = present_codes
    return Factor(codes, values, content)


def content_of(series: nw.Series[Any]) -> Content:
    """Return the content of a column (number, boolean, date or text); refuse anything else by name."""
    dtype = series.dtype
    if dtype.is_numeric() and dtype not in (nw.Int128, nw.UInt128):
        return "number"
    if dtype == nw.Boolean:
        return "boolean"
    if dtype in (nw.Date, nw.Datetime):
        return "date"
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return "text"
    if dtype == nw.Object or dtype == nw.Unknown:
        return _content_of_objects(series)
    raise DataError(
        f"Column {series.name!r} is of type {dtype}, which cannot be used: "
        "convert it to plain numbers, dates or text first."
    )


def in_threads(function: Callable[[str], Result], names: Sequence[str], n_rows: int) -> list[Result]:
    """Apply a function to each column, to several at once in long tables: most of the work releases the GIL."""
    if n_rows < ROWS_WORTH_A_THREAD:
        return [function(name) for name in names]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(function, names))


def missing_rows(series: nw.Series[Any]) -> np.ndarray:
    """Return a mask of the rows without a value: null, None and NaN alike."""
    missing = series.is_null()
    if series.dtype.is_float():
        missing = missing | series.is_nan().fill_null(True)
    return np.asarray(missing.to_numpy(), dtype=bool)


def take(series: nw.Series[Any], rows: np.ndarray) -> nw.Series[Any]:
    """Return ``series[rows]``, in the library and type of the series."""
    return series[np.ascontiguousarray(rows, dtype=np.intp)]


def take_rows(frame: nw.DataFrame[Any], rows: np.ndarray) -> nw.DataFrame[Any]:
    """Return ``frame[rows]``, faster than column by column."""
    return frame[np.ascontiguousarray(rows, dtype=np.intp)]


def as_names(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return a polars frame with its texts as enums, which are gathered and written faster."""
    native = frame.to_native()
    texts = [name for name in frame.columns if frame.schema[name] == nw.String]
    return nw.from_native(native.with_columns(enums.of_texts(native[name]) for name in texts))


def new_series(name: str, values: list[Any], like: nw.DataFrame[Any]) -> nw.Series[Any]:
    """Return a column in the library of ``like``, of a type that fits the values; text if all are missing."""
    dtype = nw.String() if all(value is None for value in values) else None
    return nw.new_series(name, values, dtype, backend=like.implementation)


def blank(series: nw.Series[Any], rows: np.ndarray, mark: str) -> nw.Series[Any]:
    """Remove the values of some rows: a text column gets the mark, any other column a missing value."""
    keep = nw.new_series("keep", (~rows).tolist(), nw.Boolean(), backend=series.implementation)
    frame = side_by_side({series.name: series, "keep of " + series.name: keep})
    fill = nw.lit(mark if series.dtype == nw.String else None)
    column = nw.when(nw.col("keep of " + series.name)).then(nw.col(series.name)).otherwise(fill)
    return frame.select(column.alias(series.name))[series.name]


def side_by_side(columns: Mapping[str, nw.Series[Any]]) -> nw.DataFrame[Any]:
    """Return a frame of columns of one library and length, with new row labels in pandas."""
    renumbered = [nw.maybe_reset_index(series.alias(name)) for name, series in columns.items()]
    first = renumbered[0].to_frame()
    return first.with_columns(*renumbered[1:]) if len(renumbered) > 1 else first


def replace_columns(frame: nw.DataFrame[Any], columns: Mapping[str, nw.Series[Any]]) -> nw.DataFrame[Any]:
    """Return the frame with some columns replaced; their order and pandas' row labels stay."""
    return frame.with_columns(*(series.alias(name) for name, series in columns.items()))


def replace_numbers(frame: nw.DataFrame[Any], columns: Mapping[str, np.ndarray]) -> nw.DataFrame[Any]:
    """Return the frame with some columns replaced by numbers; their order and pandas' row labels stay."""
    made = [nw.Series.from_numpy(name, values, backend=frame.implementation) for name, values in columns.items()]
    if frame.implementation.is_pandas():
        labels = frame.to_native().index
        made = [nw.from_native(one.to_native().set_axis(labels), series_only=True) for one in made]
    return frame.with_columns(*made)


def stack_rows(parts: Sequence[nw.DataFrame[Any]]) -> nw.DataFrame[Any]:
    """Return the rows of several frames of one library, with the columns in the order of the first."""
    return nw.concat([part.select(parts[0].columns) for part in parts])


def without_unused_categories(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return the frame without unused categories: files list them, and they may name people that were left out."""
    used = {}
    for name, dtype in frame.schema.items():
        if dtype not in (nw.Categorical, nw.Enum):
            continue
        native = frame[name].to_native()
        if frame.implementation.is_polars():
            import polars as pl

            if isinstance(native.dtype, pl.Enum):
                kept = set(native.unique().drop_nulls().to_list())
                used[name] = native.cast(pl.Enum([one for one in native.dtype.categories if one in kept]))
        elif frame.implementation.is_pandas():
            used[name] = native.cat.remove_unused_categories()
        elif frame.implementation.is_pyarrow():
            used[name] = native.cast(native.type.value_type).dictionary_encode()
    return replace_columns(frame, {name: nw.from_native(one, series_only=True) for name, one in used.items()})


def convert(frame: Any, kind: FrameKind) -> Any:
    """Convert a table to another library."""
    opened = open_frame(frame)
    if kind == "polars":
        return opened.to_polars()
    if kind == "pandas":
        return opened.to_pandas()
    if kind == "pyarrow":
        return opened.to_arrow()
    raise DataError(f"Unknown kind of frame {kind!r}: choose polars, pandas or pyarrow.")


def from_array(array: np.ndarray, names: Sequence[str]) -> nw.DataFrame[Any]:
    """Return an array's columns as a frame; an object column must hold numbers only or texts only."""
    import polars

    columns = {}
    for j, name in enumerate(names):
        column: Any = array[:, j]
        if column.dtype == object:
            present = [value for value in column if value is not None and value == value]
            texts = [isinstance(value, str) for value in present]
            if any(texts) and not all(texts):
                raise DataError(f"Column {name!r} mixes texts and other values: convert it to one type first.")
            column = column.astype(float) if present and not any(texts) else [v if v == v else None for v in column]
        columns[name] = polars.Series(name, column, nan_to_null=True, strict=False)
    return nw.from_native(polars.DataFrame(columns))


def smallest_unsigned(n_values: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest type that can hold codes 0..n_values - 1."""
    if n_values <= 1 << 8:
        return np.uint8
    return np.uint16 if n_values <= 1 << 16 else np.uint32


def _check_names(data: Any) -> None:
    # pyarrow has the columns themselves where other libraries have their names.
    names: Any = getattr(data, "column_names", None) or getattr(data, "columns", ())
    if not isinstance(names, Iterable):
        return
    seen = set()
    for name in names:
        if not isinstance(name, str):
            raise DataError(
                f"Column {name!r} has a name that is not text: rename it, such as by frame.columns.map(str)."
            )
        if name in seen:
            raise DataError(f"Column {name!r} occurs {list(names).count(name)} times: give every column its own name.")
        seen.add(name)


def _without_views(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Convert string views to plain strings, because pyarrow cannot take rows of a view."""
    import pyarrow

    table = frame.to_native()
    types = [pyarrow.large_string() if f.type == pyarrow.string_view() else f.type for f in table.schema]
    if types == table.schema.types:
        return frame
    fields = [field.with_type(kind) for field, kind in zip(table.schema, types, strict=True)]
    return nw.from_native(table.cast(pyarrow.schema(fields)))


def _factorize_text(series: nw.Series[Any]) -> tuple[np.ndarray, np.ndarray]:
    implementation = series.implementation
    if implementation.is_polars():
        raw, labels = _polars_text(series.to_native())
    elif implementation.is_pandas():
        raw, labels = _pandas_text(series.to_native())
    elif implementation.is_pyarrow():
        raw, labels = _pyarrow_text(series.to_native())
    else:
        raise DataError(
            f"Column {series.name!r} comes from {implementation}: convert the table to pandas, polars or pyarrow first."
        )
    order = sorted(range(len(labels)), key=labels.__getitem__)
    # The last entry of the table is that of the missing value, which has the number -1.
    table = np.full(len(labels) + 1, -1, np.int32)
    table[order] = np.arange(len(order))
    values = np.empty(len(order), object)
    values[:] = [labels[i] for i in order]
    # No one else uses codes of this type yet, so they are overwritten: another array of 300,000 would double the time.
    codes = raw if raw.dtype == table.dtype else np.empty(len(raw), table.dtype)
    groups.look_up(raw, 0, table, codes)
    return codes, values


def _polars_text(series: Any) -> tuple[np.ndarray, list[str]]:
    import polars

    categorical = series.cast(polars.Categorical) if series.dtype == polars.String else series
    present = categorical.is_not_null().to_numpy() if series.null_count() else None
    physical = categorical.drop_nulls().to_physical().to_numpy()
    present_codes, values = _factorize_numbers(physical)
    codes = present_codes
    if present is not None:
        codes = np.full(len(series), -1, np.int32)
        codes[present] = present_codes
    # Categories may be shared between columns, so the label of a code is read from a row that has it.
    rows = groups.some_row(codes, len(values))
    return codes, series.gather(rows).cast(polars.String).to_list()


def _pandas_text(series: Any) -> tuple[np.ndarray, list[str]]:
    import pandas

    dtype = series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.int64)
        return _only_used(codes, [str(label) for label in series.cat.categories])
    in_arrow = isinstance(dtype, pandas.StringDtype) and dtype.storage.startswith("pyarrow")
    if in_arrow or isinstance(dtype, pandas.ArrowDtype):
        return _pyarrow_text(series.array.__arrow_array__())
    codes, labels = pandas.factorize(series)
    return _only_used(codes, [str(label) for label in labels])


def _pyarrow_text(series: Any) -> tuple[np.ndarray, list[str]]:
    import pyarrow

    if isinstance(series, pyarrow.ChunkedArray):
        if series.num_chunks > 1 and series.type == pyarrow.string():
            series = series.cast(pyarrow.large_string())  # chunks may exceed 2 GB together
        series = series.chunk(0) if series.num_chunks == 1 else series.combine_chunks()
    if series.type in (pyarrow.string(), pyarrow.large_string()):
        return _number_arrow_texts(series)
    encoded = series if pyarrow.types.is_dictionary(series.type) else series.dictionary_encode()
    codes = encoded.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    labels = encoded.dictionary.to_pylist()
    return _only_used(codes, [None if label is None else str(label) for label in labels])


def _number_arrow_texts(array: Any) -> tuple[np.ndarray, list[str]]:
    """Return codes, and labels in the order of their first rows, from the bytes of a pyarrow array."""
    present, starts, data = array.buffers()
    offsets = _numbers_in(starts, np.int64 if array.type == "large_string" else np.int32)
    own = offsets[array.offset : array.offset + len(array) + 1] if len(array) else np.zeros(1, np.int64)
    codes, first = texts.number_texts(_numbers_in(data), own, _numbers_in(present), array.offset)
    # Arrow's own take of a few texts needs 40 µs, half as long as numbering 20,000 rows.
    characters, ends = memoryview(data or b""), zip(own[first].tolist(), own[first + 1].tolist(), strict=True)
    return codes, [str(characters[start:stop], "utf-8") for start, stop in ends]


def _numbers_in(buffer: Any, dtype: Any = np.uint8) -> np.ndarray:
    """Return the content of a pyarrow buffer; it is empty where pyarrow leaves the buffer out."""
    if buffer is None:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, buffer.size // np.dtype(dtype).itemsize)


def _only_used(codes: np.ndarray, labels: Sequence[str | None]) -> tuple[np.ndarray, list[str]]:
    """Drop categories that no row uses, and merge those with the same label."""
    used = np.zeros(len(labels) + 1, bool)
    used[codes] = True
    present = [label for label in labels if label is not None]
    if used[:-1].all() and len(set(present)) == len(labels):
        return codes, present
    number: dict[str, int] = {}
    table = np.full(len(labels) + 1, -1, np.int32)
    for i, label in enumerate(labels):
        if used[i] and label is not None:
            table[i] = number.setdefault(label, len(number))
    return table[codes], list(number)


def _content_of_objects(series: nw.Series[Any]) -> Content:
    """Return the content of a column of Python objects, which must be of one type that has an order."""
    kinds: dict[str, Any] = {}
    for value in series.filter((~missing_rows(series)).tolist()).to_list():
        kinds.setdefault(_kind_of_object(value), value)
    if len(kinds) > 1:
        (one, first), (two, second) = list(kinds.items())[:2]
        raise DataError(
            f"Column {series.name!r} mixes {one} ({first!r}) and {two} ({second!r}): convert it to one type first."
        )
    kind, value = next(iter(kinds.items()), ("text", None))
    if kind not in get_args(Content):
        raise DataError(
            f"Column {series.name!r} holds {kind} objects ({value!r}): convert it to numbers, dates or text."
        )
    return kind  # type: ignore[return-value]


def _kind_of_object(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    if isinstance(value, (int, float, np.number, Decimal)):
        return "number"
    if isinstance(value, (dt.date, np.datetime64)):
        return "date"
    return "text" if isinstance(value, str) else type(value).__name__


def _convert(array: np.ndarray, content: Content) -> np.ndarray:
    if array.dtype == object:
        dtype: Any = {"number": float, "boolean": bool, "date": "datetime64[us]"}[content]
        array = array.astype(dtype)
    return array


def _without_time_zone(series: nw.Series[Any]) -> nw.Series[Any]:
    if isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone is not None:
        return series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return series


def _factorize_numbers(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and sorted distinct values; integers of a narrow range are counted instead of sorted."""
    if array.dtype == bool:
        array = array.view(np.uint8)
        codes, values = _factorize_numbers(array)
        return codes, values.astype(bool)
    if array.dtype.kind in "iu" and len(array):
        low, high = int(array.min()), int(array.max())
        # Counting a range of up to eight numbers per row is still several times as fast as sorting the rows.
        if high - low < max(1 << 16, len(array), min(8 * len(array), 1 << 20)) and high < 1 << 62:
            return _count_integers(array, low, high)
    values, codes = np.unique(array, return_inverse=True)
    return codes.reshape(-1), values


def _count_integers(array: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    present = np.zeros(high - low + 1, bool)
    groups.mark_present(array, array.dtype.type(low), present)
    offsets = np.flatnonzero(present)
    table = np.zeros(high - low + 1, smallest_unsigned(len(offsets)))
    table[offsets] = np.arange(len(offsets))
    codes = np.empty(len(array), table.dtype)
    groups.look_up(array, array.dtype.type(low), table, codes)
    return codes, (offsets + low).astype(array.dtype)
