"""Read and write consecutive rows of Parquet files, with texts as enums."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shoal.data import enums
from shoal.errors import DataError, reason

if TYPE_CHECKING:
    import polars
    import pyarrow
    from pyarrow import parquet


def row_groups(file: Path) -> list[int]:
    """Return the number of rows in each row group of a Parquet file."""
    from pyarrow import parquet

    return _sizes(parquet.read_metadata(file))


def _sizes(about: parquet.FileMetaData) -> list[int]:
    return [about.row_group(number).num_rows for number in range(about.num_row_groups)]


def read_rows(
    file: str | Path, columns: Sequence[str], names: Collection[str] = (), first: int = 0, n_rows: int | None = None
) -> polars.DataFrame:
    """Read consecutive rows of a Parquet file.

    The columns ``names`` hold texts and become enums, as most files store them.
    """
    import polars as pl
    import pyarrow as pa
    from pyarrow import parquet

    texts = [name for name in columns if name in names]
    try:
        numbered = _without_deltas(file, texts)
        with parquet.ParquetFile(file, read_dictionary=numbered) as opened:
            wanted = opened.metadata.num_rows if n_rows is None else n_rows
            batches = list(_batches(opened, list(columns), first, wanted))
            table = pa.Table.from_batches(batches, None if batches else opened.schema_arrow)
        table = table.select(list(columns)).unify_dictionaries()
        # A damaged file may hold numbers beyond its dictionary.
        return pl.DataFrame([_as_series(name, table[name], is_name=name in texts) for name in columns])
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, KeyError) as error:
        raise DataError(f"{str(file)!r} cannot be read ({reason(error)}): replace the file.") from None


def _without_deltas(file: str | Path, texts: Sequence[str]) -> list[str]:
    """Return the columns that are not delta-encoded, which Arrow cannot read as dictionaries."""
    from pyarrow import parquet

    about = parquet.read_metadata(file)
    chunks = (about.row_group(i).column(j) for i in range(about.num_row_groups) for j in range(about.num_columns))
    deltas = {chunk.path_in_schema for chunk in chunks if any(kind.startswith("DELTA_") for kind in chunk.encodings)}
    return [name for name in texts if name not in deltas]


def _batches(opened: parquet.ParquetFile, columns: list[str], first: int, n_rows: int) -> Iterator[pyarrow.RecordBatch]:
    """Yield batches of these rows, reading only the row groups that hold some of them."""
    ends = np.cumsum([0, *_sizes(opened.metadata)])
    groups = np.flatnonzero((ends[1:] > first) & (ends[:-1] < first + n_rows))
    if n_rows == 0 or len(groups) == 0:
        return
    start = int(ends[groups[0]])
    for batch in opened.iter_batches(n_rows, groups.tolist(), columns, use_threads=False):
        low, high = max(first - start, 0), min(first + n_rows - start, batch.num_rows)
        if low < high:
            yield batch.slice(low, high - low)
        start += batch.num_rows
        if start >= first + n_rows:
            return


def _as_series(name: str, column: pyarrow.ChunkedArray, *, is_name: bool) -> polars.Series:
    import polars as pl
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return enums.of_texts(pl.Series(name, column)) if is_name else pl.Series(name, column)
    if not is_name:
        return pl.Series(name, column.cast(column.type.value_type))
    whole = column.combine_chunks()
    words = whole.dictionary.to_pylist()
    return enums.of_numbers(pl.Series(name, whole.indices), words)


def write_texts(frame: polars.DataFrame, file: Path) -> None:
    """Write a Parquet file, with enums as texts."""
    import polars as pl
    from pyarrow import parquet

    # A file lists every word of a column, and must not reveal one that is in no row.
    names = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Enum)]
    table = frame.with_columns(enums.in_use(frame[name]) for name in names).to_arrow()
    # Without Arrow's schema no reader learns how texts were numbered here. Minima and maxima of texts such as
    # ranges help no reader, and take as long to find as everything else.
    counted = [name for name, kind in frame.schema.items() if name not in names and kind != pl.String]
    parquet.write_table(table, file, compression="snappy", store_schema=False, write_statistics=counted or False)
