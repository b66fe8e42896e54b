"""Read and write tables as CSV and Parquet, in a stream, and never half a file."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import narwhals.stable.v2 as nw

from shoal.data import enums
from shoal.errors import DataError

if TYPE_CHECKING:
    import polars

    from shoal.data.schema import Schema

PARQUET = {".parquet", ".pq"}
CSV = {".csv", ".tsv", ".txt"}
_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_DATE = r"^\d{4}-\d{2}-\d{2}$"


class Header(NamedTuple):
    """The columns of a file, and the field separator of a CSV file."""

    names: list[str]
    separator: str | None


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    separator: str | None = None,
    missing_marks: Sequence[str] = (),
    typed: bool = True,
) -> polars.DataFrame:
    """Read a CSV or Parquet file into a polars frame.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv``, ``.txt`` or ``.parquet``, or a folder of Parquet files.
    columns : sequence of str, optional
        Columns to read; by default all.
    separator : str, optional
        Field separator of a CSV file; by default the most frequent of ``, ; tab |`` in the header.
    missing_marks : sequence of str
        Texts that stand for a missing value, such as ``"?"``; an empty field always does.
    typed : bool
        Give each CSV column the type that all of its values have, if that changes no character of their meaning
        ("007" stays text). With ``typed=False`` every column is text, so that it can be written unchanged.
    """
    path = Path(path)
    missing_marks = as_marks(missing_marks)
    if _kind_to_read(path) == "parquet":
        frame = _read_parquet(path, columns)
    else:
        frame = _read_csv(path, columns, separator, missing_marks)
        frame = give_types(frame) if typed else frame
    if frame.height == 0:
        raise DataError(f"{str(path)!r} has a header but no rows: there is nothing to release or to check.")
    return frame


def read_header(path: str | Path, separator: str | None = None) -> Header:
    """Read the names of a file's columns, and find the separator of a CSV file if it is not given."""
    path = Path(path)
    if _kind_to_read(path) == "parquet":
        return Header(_parquet_names(path), None)
    return Header(*_csv_header(path, separator))


def size_in_memory(path: str | Path) -> int:
    """Estimate the bytes that anonymizing a table in memory takes: as read, as codes, and as released."""
    path = Path(path)
    if path.is_dir():
        return sum(size_in_memory(part) for part in parquet_files(path))
    if _kind_to_read(path) == "csv":
        return 3 * path.stat().st_size
    # Parquet stores repeated values once, and compressed.
    return 12 * path.stat().st_size


def write_table(
    frame: nw.DataFrame[Any], path: str | Path, *, kind: str | None = None, separator: str | None = None
) -> None:
    """Write a frame, without row labels, as CSV or Parquet (by its ending unless ``kind`` is given), atomically."""
    import polars as pl

    path = Path(path)
    kind = kind or kind_to_write(path)
    separator = separator or ("\t" if path.suffix.lower() == ".tsv" else ",")
    _require_separator(separator)
    with replacing(path) as temporary:
        try:
            _write(frame, temporary, kind, separator)
        # The last three are raised by pyarrow for a column it cannot write, such as one of mixed types.
        except (pl.exceptions.PolarsError, OSError, ValueError, TypeError, NotImplementedError) as error:
            raise DataError(f"{str(path)!r} cannot be written ({_first_line(error)}), so no file was.") from None


def _write(frame: nw.DataFrame[Any], path: Path, kind: str, separator: str) -> None:
    import polars as pl

    native = frame.to_native()
    if kind == "csv" and frame.implementation.is_pyarrow():
        native = pl.from_arrow(native)
    elif kind == "csv" and frame.implementation.is_pandas() and _has_two_kinds_of_blanks(frame):
        # pandas writes an empty text as it writes a missing value, and a reader would take both for one value.
        columns = native.astype(object).items()
        native = pl.DataFrame({name: one.where(one.notna(), None).tolist() for name, one in columns}, strict=False)
    if isinstance(native, pl.DataFrame):
        lazy = native.lazy()
        lazy.sink_parquet(path) if kind == "parquet" else _without_nan(native).lazy().sink_csv(
            path, separator=separator
        )
    elif frame.implementation.is_pandas():
        write = native.to_parquet if kind == "parquet" else partial(native.to_csv, sep=separator)
        write(path, index=False)
    else:
        frame.write_parquet(path)


def _has_two_kinds_of_blanks(frame: nw.DataFrame[Any]) -> bool:
    """Return True if a column of texts has both empty texts and missing values."""
    texts = [frame[name] for name, dtype in frame.schema.items() if dtype == nw.String]
    return any(series.is_null().any() and (series == "").any() for series in texts)


def _without_nan(frame: polars.DataFrame) -> polars.DataFrame:
    """Return the frame with NaN as missing values: CSV files store both as empty fields."""
    return frame.with_columns(
        column.fill_nan(None) for column in frame.iter_columns() if column.dtype.is_float() and column.is_nan().any()
    )


class Appending:
    """Write frames with the same columns into one file, one after another."""

    def __init__(self, path: Path, kind: str, separator: str | None = None) -> None:
        self._path, self._kind, self._separator = path, kind, separator or ","
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def write(self, frame: polars.DataFrame) -> None:
        """Add rows."""
        if self._kind == "csv":
            first = self._file is None
            self._file = self._path.open("wb") if first else self._file
            _without_nan(frame).write_csv(self._file, separator=self._separator, include_header=first)
            return
        from pyarrow import parquet

        table = frame.to_arrow()
        if self._file is None:
            self._file = parquet.ParquetWriter(self._path, table.schema, compression="zstd")
        self._file.write_table(table.cast(self._file.schema))

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()


def read_in_batches(source: Path, rows: int = 200_000) -> Iterator[polars.DataFrame]:
    """Yield the rows of a Parquet file, or of a folder of them, in batches."""
    import polars as pl
    from pyarrow import dataset

    for batch in dataset.dataset(parquet_files(source), format="parquet").to_batches(batch_size=rows):
        if batch.num_rows:
            found = pl.from_arrow(batch)
            assert isinstance(found, pl.DataFrame)
            yield found


def as_marks(marks: Sequence[str]) -> list[str]:
    """Return the marks for missing values as a list; a single text is one mark."""
    return [marks] if isinstance(marks, str) else list(marks)


def mark_missing(frame: polars.DataFrame, marks: Sequence[str], columns: Sequence[str]) -> polars.DataFrame:
    """Replace the marks for missing values, in these columns only; other columns keep them."""
    import polars as pl

    texts = [name for name in columns if frame.schema.get(name) in (pl.String, pl.Categorical, pl.Enum)]
    if not marks or not texts:
        return frame
    names = [name for name in texts if isinstance(frame.schema[name], pl.Enum)]
    others = pl.col([name for name in texts if name not in names])
    marked = others.cast(pl.String).is_in(as_marks(marks))
    return frame.with_columns(
        pl.when(~marked).then(others), *(enums.without(frame[name], as_marks(marks)) for name in names)
    )


def restore_texts(
    released: polars.DataFrame, raw: polars.DataFrame, schema: Schema, marks: Sequence[str]
) -> polars.DataFrame:
    """Restore the original texts of all columns but quasi-identifiers.

    Marks in sensitive columns stay missing: privacy models count them as one value, and a reader must not find several.
    """
    quasi = {attribute.name for attribute in schema.quasi}
    untouched = raw.select(name for name in released.columns if name not in quasi)
    return released.with_columns(mark_missing(untouched, marks, [attribute.name for attribute in schema.sensitive]))


def kind_to_write(path: str | Path) -> str:
    """Return ``"csv"`` or ``"parquet"``, by the ending of a file to write."""
    suffix = Path(path).suffix.lower()
    if suffix not in CSV | PARQUET:
        raise DataError(f"{str(path)!r} ends in {suffix!r}: Shoal writes .csv, .tsv and .parquet files.")
    return "parquet" if suffix in PARQUET else "csv"


def require_place(path: str | Path) -> None:
    """Refuse a file that cannot be written where it should be, before any work is done."""
    path = Path(path)
    if not path.parent.is_dir():
        raise DataError(f"The folder {str(path.parent)!r} does not exist: create it, or write somewhere else.")
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder: name a file to write.")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` and rename it to ``path`` at the end.

    Killing the process leaves the old file or the new one: the new content is on disk before the rename, and the
    rename is one step. An exception leaves the old file and no temporary one.
    """
    path = Path(path)
    require_place(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be written ({error.strerror}): choose another place.") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush_to_disk(temporary)
        # mkstemp creates files that only the owner can read; a released file follows the user's umask.
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
        _flush_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8, in full or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def give_types(frame: polars.DataFrame) -> polars.DataFrame:
    """Convert text columns to integers, numbers, dates or Booleans if every value allows it without loss."""
    import polars as pl

    return frame.with_columns(_typed_column(frame[name]) for name in frame.columns if frame[name].dtype == pl.String)


def _typed_column(column: polars.Series) -> polars.Series:
    import polars as pl

    distinct = column.unique().drop_nulls()
    if distinct.is_empty():
        return column
    if distinct.str.contains(_INTEGER).all():
        return column.cast(pl.Int64)
    # A leading zero or plus sign carries meaning ("08010" is a postal code), and more digits than a float holds would
    # make two identifiers one, so such a column stays text.
    if not distinct.str.contains(r"^[-+]?0\d|^\+|^-?\d{16,}$").any():
        numbers = distinct.cast(pl.Float64, strict=False)
        if numbers.null_count() == 0 and numbers.is_finite().all():
            return column.cast(pl.Float64)
    if distinct.str.contains(_DATE).all() and distinct.str.to_date(strict=False).null_count() == 0:
        return column.str.to_date()
    if set(distinct) <= {"true", "false"} or set(distinct) <= {"True", "False"}:
        return column.str.to_lowercase() == "true"
    return column


def _kind_to_read(path: Path) -> str:
    if not path.exists():
        raise DataError(f"There is no file {str(path)!r}: check the path.")
    if path.is_dir():
        if parquet_files(path):
            return "parquet"
        raise DataError(f"{str(path)!r} is a folder: name a CSV or Parquet file, or a folder of Parquet files.")
    suffix = path.suffix.lower()
    if suffix not in CSV | PARQUET:
        raise DataError(f"{str(path)!r} ends in {suffix!r}: Shoal reads .csv, .tsv, .txt and .parquet files.")
    return "parquet" if suffix in PARQUET else "csv"


def _read_parquet(path: Path, columns: Sequence[str] | None) -> polars.DataFrame:
    import polars as pl

    _require_columns(path, columns, _parquet_names(path))
    try:
        scan = pl.scan_parquet(parquet_files(path), glob=False)
        return (scan.select(list(columns)) if columns is not None else scan).collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        require_alike(parquet_files(path))
        raise _not_parquet(path, error) from None


def parquet_files(path: Path) -> list[Path]:
    """Return a Parquet file, or those of a folder sorted by name, without hidden and unfinished ones."""
    return sorted(path.glob("[!._]*.parquet")) if path.is_dir() else [path]


def require_alike(files: Sequence[Path], *, texts_alike: bool = False) -> None:
    """Refuse Parquet files whose columns differ in names or types; their order may differ.

    ``texts_alike`` treats all encodings of texts as one type.
    """
    import polars as pl

    def types_of(file: Path) -> dict[str, Any]:
        types = parquet_types(file)
        return {
            name: pl.String if texts_alike and kind in (pl.Categorical, pl.Enum) else kind
            for name, kind in types.items()
        }

    if not files:
        return
    first, wanted = files[0], types_of(files[0])
    for file in files[1:]:
        found = types_of(file)
        for here, there, lacking in ((file, first, wanted.keys() - found), (first, file, found.keys() - wanted)):
            if lacking:
                raise DataError(
                    f"{str(here)!r} has no column {min(lacking)!r}, which {str(there)!r} has: write all files of a "
                    "table with the same columns."
                )
        for name, kind in found.items():
            if kind != wanted[name]:
                raise DataError(
                    f"{str(file)!r} has the column {name!r} as {shorten(str(kind), 60)}, but {str(first)!r} as "
                    f"{shorten(str(wanted[name]), 60)}: write it with one type in all files of a table."
                )


def parquet_types(file: Path) -> dict[str, polars.DataType]:
    """Return the columns of one Parquet file with their types."""
    import polars as pl

    try:
        # Opened here, because polars would read the name as a pattern.
        with file.open("rb") as opened:
            return dict(pl.read_parquet_schema(opened))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _not_parquet(file, error) from None


def _parquet_names(path: Path) -> list[str]:
    import polars as pl

    try:
        return pl.scan_parquet(parquet_files(path), glob=False).collect_schema().names()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _not_parquet(path, error) from None


def _not_parquet(path: Path, error: Exception) -> DataError:
    return DataError(f"{str(path)!r} is not a readable Parquet file ({_first_line(error)}): write it again.")


def _read_csv(
    path: Path, columns: Sequence[str] | None, separator: str | None, missing_marks: Sequence[str]
) -> polars.DataFrame:
    import polars as pl

    names, separator = _csv_header(path, separator)
    _require_columns(path, columns, names)
    with _readable_csv(path, separator, len(names)):
        scan = _scan_csv(path, separator, missing_marks)
        frame = (scan.select(list(columns)) if columns is not None else scan).collect(engine="streaming")
    if not frame.width:
        return frame
    last = max(frame.columns, key=names.index)
    blank = _empty_lines(path, separator, len(names), frame.height, frame[last].null_count())
    return frame.filter(~pl.int_range(pl.len()).is_in(blank)) if blank else frame


def copy_csv(path: Path, copy: Path, separator: str) -> None:
    """Copy a CSV file, which may be larger than memory, to a Parquet file whose columns are texts."""
    import polars as pl

    names, separator = _csv_header(path, separator)
    with _readable_csv(path, separator, len(names), copy):
        scan = _scan_csv(path, separator)
        scan.sink_parquet(copy, compression="lz4")
    found = pl.scan_parquet(copy, glob=False).select(n=pl.len(), missing=pl.nth(-1).null_count()).collect()
    blank = _empty_lines(path, separator, len(names), found["n"][0], found["missing"][0])
    if blank:
        kept = scan.with_row_index("__shoal_line").filter(~pl.col("__shoal_line").is_in(blank)).drop("__shoal_line")
        with _readable_csv(path, separator, len(names), copy):
            kept.sink_parquet(copy, compression="lz4")


def _scan_csv(path: Path, separator: str, missing_marks: Sequence[str] = ()) -> polars.LazyFrame:
    import polars as pl

    marks = list(missing_marks) or None
    how: dict[str, Any] = {"infer_schema": False, "null_values": marks, "try_parse_dates": False}
    return pl.scan_csv(path, separator=separator, glob=False, **how)


@contextmanager
def _readable_csv(path: Path, separator: str, width: int, copy: Path | None = None) -> Iterator[None]:
    """Turn errors of reading a file into one sentence, also if there is no room for its ``copy``."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        # polars reports this in its message only.
        if copy is not None and any(words in str(error) for words in ("No space left", "quota exceeded")):
            raise DataError(
                f"The folder {str(copy.parent)!r} has no room for a copy of {str(path)!r} ({_first_line(error)}): "
                "make room there, or choose another folder for temporary files."
            ) from None
        _blank_rows(path, separator, width)  # names the line if one has the wrong length
        raise DataError(
            f"{str(path)!r} is not a readable CSV file ({_first_line(error)}): fix it, or name its separator."
        ) from None


def _empty_lines(path: Path, separator: str, width: int, n_rows: int, n_missing: int) -> list[int]:
    """Return the rows that are empty lines; refuse lines with too few fields: polars fills both with missing values.

    ``n_missing`` is the number of rows without a value in the last column.
    """
    if width == 1 or n_missing == 0 or _evenly_separated(path, separator, n_rows * (width - 1)):
        return []
    return _blank_rows(path, separator, width)


def _evenly_separated(path: Path, separator: str, expected: int) -> bool:
    """Return True if every row of a file without quotes has all its fields; polars has refused rows with too many."""
    found = 0
    with path.open("rb") as file:
        found -= file.readline().count(separator.encode())
        file.seek(0)
        while block := file.read(1 << 24):
            if b'"' in block:
                return False
            found += block.count(separator.encode())
    return found == expected


def _blank_rows(path: Path, separator: str, width: int) -> list[int]:
    """Return the empty lines of a CSV file, by row; refuse a row of the wrong length by naming its line."""
    blank = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        try:
            for row, fields in enumerate(reader, start=-1):
                if not fields:
                    blank.append(row)
                elif len(fields) != width:
                    raise DataError(
                        f"Line {reader.line_num} of {str(path)!r} has {len(fields)} fields, but the header has "
                        f"{width}: fix the line, and quote fields that hold the separator {separator!r}."
                    )
        except UnicodeDecodeError:
            raise _not_utf8(path) from None
        except csv.Error as error:
            raise DataError(f"Line {reader.line_num} of {str(path)!r} cannot be read ({error}): fix it.") from None
    return blank


def find_separator(line: str) -> str:
    """Return the most frequent separator of a line."""
    return max(",;\t|", key=line.count)


def _csv_header(path: Path, separator: str | None) -> tuple[list[str], str]:
    if separator is not None:
        _require_separator(separator)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline()
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read ({error.strerror}): check the path.") from None
    if line.endswith("\r"):
        raise DataError(f"{str(path)!r} ends its lines with bare carriage returns: save it with line feeds.")
    line = line.rstrip("\r\n")
    if not line.strip():
        raise DataError(f"{str(path)!r} is empty: a header line and at least one row are needed.")
    if line.count('"') % 2:
        raise DataError(f"{str(path)!r} has a line break in the name of a column: name it without one.")
    if separator is None:
        separator = find_separator(line)
    names = next(csv.reader([line], delimiter=separator))
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{str(path)!r} has the column {name!r} {names.count(name)} times: give each its own name.")
    return names, separator


def _require_separator(separator: str) -> None:
    if len(separator.encode()) != 1:
        raise DataError(f"The separator {separator!r} is not one plain character: pass one such as ';'.")


def _not_utf8(path: Path) -> DataError:
    return DataError(f"{str(path)!r} is not UTF-8 text: save it as UTF-8 first.")


def _require_columns(path: Path, columns: Sequence[str] | None, present: Sequence[str]) -> None:
    for name in columns or ():
        if name not in present:
            raise DataError(
                f"{str(path)!r} has no column {name!r}, only {', '.join(present[:12])}: fix the schema or the file."
            )


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0].rstrip(".")


def _flush_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
