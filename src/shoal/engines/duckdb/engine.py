"""Parquet files as an engine, which DuckDB queries within a memory limit."""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from shoal._kernels import groups
from shoal.data import files, frames
from shoal.data.schema import Schema
from shoal.data.table import Column
from shoal.engines.base import (
    CHANGED,
    CODE,
    COUNT,
    MOST_VALUES,
    ROWS,
    VALUE,
    CoarseTree,
    Engine,
    LeafTally,
    SplitTest,
    encode_values,
    leaf_expression,
    not_numeric,
    read_extremes,
    require_few_values,
    rows_of_leaves,
    values_for_true,
    values_of,
)
from shoal.engines.fragments import Fragmentation
from shoal.engines.memory import usable_memory
from shoal.errors import DataError, ShoalError, reason
from shoal.partition.table_summary import ColumnSummary, is_plain_number
from shoal.privacy.counts import Counts, Tally

LEAST_MEMORY = 2**28
"""Minimum number of bytes that DuckDB needs."""
BYTES_PER_CHECKED_ROW = 100
"""Maximum memory of a row while its group is counted."""
ROWS_AT_ONCE = 1_000_000
"""Number of rows whose fragments are written together."""
OWN = "__shoal_"
"""Prefix of names that no column of a table may have."""
ROW, NUMBERED, FRAGMENT = f"{OWN}row", f"{OWN}numbered", f"{OWN}fragment"
"""Names of columns while rows are sorted into fragments."""
FILE, POSITION = f"{OWN}file", "file_row_number"
"""Names of the columns with the file of a row and its position there; only the first name can be chosen in DuckDB."""


class ResourceLimits(NamedTuple):
    """Limits on memory and threads."""

    memory: int
    """Bytes."""
    threads: int

    @classmethod
    def of(cls, memory: int | None = None, threads: int | None = None) -> ResourceLimits:
        """Return these limits; by default half of the machine's memory and all of its cores."""
        COUNT.check("threads", threads)
        return cls(usable_memory() if memory is None else memory, threads or os.cpu_count() or 1)


class DuckDBSession(NamedTuple):
    """A connection to DuckDB, and a scratch folder."""

    connection: Any
    folder: Path
    """Folder for data that does not fit into memory; it is removed at the end."""
    memory: int
    """Bytes that DuckDB may use."""


@contextmanager
def connected(limits: ResourceLimits, beside: Path) -> Iterator[DuckDBSession]:
    """Yield a connection to DuckDB within limits, and a folder for data that does not fit into memory."""
    try:
        import duckdb
    except ImportError as error:
        raise ShoalError(
            f"Tables that do not fit into memory need the package 'duckdb' ({reason(error)}): "
            "pip install 'shoal[duckdb]'."
        ) from None
    if not beside.is_dir():
        raise DataError(f"There is no folder {str(beside)!r} for data that does not fit into memory: create it.")
    with tempfile.TemporaryDirectory(prefix=".shoal-", dir=beside) as name:
        folder = Path(name)
        # Fragments are released while DuckDB waits, so each has half of the memory.
        memory = max(limits.memory // 2, LEAST_MEMORY)
        config: dict[str, Any] = {
            "memory_limit": f"{memory // 2**20}MiB",
            "threads": limits.threads,
            "temp_directory": str(folder / "spilled"),
            "preserve_insertion_order": False,
        }
        with duckdb.connect(config=config) as connection:
            # By the statistics of Parquet files, a column with NaN has no missing values. DuckDB would then skip the
            # test for missing values, although we replace NaN by them.
            connection.execute("SET disabled_optimizers = 'statistics_propagation'")
            # Times are written in UTC, and compared in UTC.
            connection.execute("SET TimeZone = 'UTC'")
            yield DuckDBSession(connection, folder, memory)


class SqlDialect:
    """Expressions in DuckDB's SQL."""

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._expressions = expressions

    def goes_left(self, test: SplitTest) -> str:
        """Return an expression that is true for rows that pass a test."""
        column = self._expressions[test.attribute]
        if test.values is not None:
            passed = f"{column} IN ({', '.join(map(literal, test.values))})" if test.values else "FALSE"
        else:
            bounds = [
                f"{column} {sign} {literal(end)}"
                for sign, end in ((">=", test.low), ("<=", test.high))
                if end is not None
            ]
            passed = " AND ".join(bounds) or f"{column} IS NOT NULL"
        return f"({passed} OR {column} IS NULL)" if test.missing else f"({passed})"

    def has_values(self, values: Mapping[str, Any]) -> str:
        """Return an expression that is true for rows with these values."""
        return " AND ".join(
            f"{self._expressions[name]} IS NOT DISTINCT FROM {literal(one)}" for name, one in values.items()
        )

    def choose(self, condition: str, yes: str, no: str) -> str:
        """Return an expression that is one of two, by a condition."""
        # Cases are concatenated if possible: DuckDB parses at most 1,000 nested ones.
        others = no.removeprefix("CASE ").removesuffix(" END") if no.startswith("CASE ") else f"ELSE {no}"
        return f"CASE WHEN {condition} THEN {yes} {others} END"

    def constant(self, value: int) -> str:
        """Return a constant expression."""
        return str(value)


def literal(value: Any) -> str:
    """Return a value in SQL.

    >>> literal("it's"), literal(2.5), literal(True), literal(dt.date(2020, 1, 2))
    ("'it''s'", '2.5', 'TRUE', "DATE '2020-01-02'")
    >>> literal(float("-inf"))
    "'-inf'::DOUBLE"
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and not math.isfinite(value):
        return f"'{value}'::DOUBLE"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return "'" + str(value).replace("'", "''") + "'"


def named(name: str) -> str:
    """Return a column in SQL.

    >>> print(named('2" pipe'))
    "2"" pipe"
    """
    return '"' + name.replace('"', '""') + '"'


def read_from(paths: Sequence[Path]) -> str:
    """Return Parquet files in SQL: names are not patterns, and folders called ``name=value`` add no columns.

    >>> print(read_from([Path("in/a[1].parquet")]))
    read_parquet(['in/a[[]1].parquet'], filename = '__shoal_file', hive_partitioning = false)
    """
    listed = ", ".join(literal(re.sub(r"[\[*?]", r"[\g<0>]", str(path))) for path in paths)
    return f"read_parquet([{listed}], filename = {literal(FILE)}, hive_partitioning = false)"


class DuckEngine(Engine[str]):
    """A Parquet file, or a folder of them, queried by DuckDB."""

    def __init__(
        self,
        session: DuckDBSession,
        source: Path,
        schema: Schema,
        marks: Sequence[str],
        *,
        compared: bool = True,
        guide: str | None = None,
    ) -> None:
        self._connection, self._memory = session.connection, session.memory
        marks = files.as_marks(marks)
        self._files = files.parquet_files(source)
        files.require_alike(self._files)
        self._from = read_from(self._files)
        _require_names(list(files.parquet_types(self._files[0])))
        described = self._query(f"DESCRIBE SELECT * EXCLUDE ({FILE}) FROM {self._from}")
        types = dict(zip(described["column_name"], described["column_type"], strict=True))
        self.names = list(types)
        self._guide = guide
        self._members: dict[str, str] = {}
        self._values = {name: _value(named(name), types[name], marks) for name in schema.names if name in types}
        # Numbers and dates in text columns are compared as numbers and dates.
        numbers = [one.name for one in schema.quasi if compared and is_plain_number(one)]
        texts = [name for name in numbers if types.get(name) == "VARCHAR"]
        self._order = self._values | {name: self._as_number(name) for name in texts}
        self.dialect = SqlDialect(self._order)

    def _as_number(self, name: str) -> str:
        value = self._values[name]
        for kind in ("DOUBLE", "TIMESTAMP"):
            cast = f"TRY_CAST({value} AS {kind})"
            wrong = self._query(
                f"SELECT {value} AS v FROM {self._from} WHERE {value} IS NOT NULL AND {cast} IS NULL LIMIT 1"
            )
            if wrong.is_empty():
                return cast
        raise not_numeric(name, wrong["v"][0])

    def count(self) -> int:
        """Count all rows."""
        return int(self._query(f"SELECT count(*) AS n FROM {self._from}")["n"][0])

    def extremes(self, names: Sequence[str]) -> dict[str, ColumnSummary]:
        """Find the lowest and the highest value of columns, and the missing value if there is one."""
        asked = []
        for j, name in enumerate(names):
            value, order = self._values[name], self._order[name]
            asked += [f"arg_min({value}, {order}) AS low{j}", f"arg_max({value}, {order}) AS high{j}"]
            asked.append(f"count(*) - count({order}) AS none{j}")
        return read_extremes(self._query(f"SELECT {', '.join(asked)} FROM {self._from}"), names)

    def distinct(self, name: str, member_of: str | None = None) -> ColumnSummary:
        """Count the distinct values of a column, in all rows or in those that a Boolean column marks."""
        only = "" if member_of is None else f"WHERE {self._is_member(member_of)}"
        found = self._query(
            f"SELECT {self._values[name]} AS v, count(*) AS n FROM {self._from} {only} GROUP BY 1 "
            f"LIMIT {MOST_VALUES + 1}"
        )
        require_few_values(name, found.height)
        return ColumnSummary(values_of(found, name), found["n"].to_numpy())

    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """Draw about ``n_rows`` rows, by a hash of the position of a row in its file."""
        self._require_positions()
        share = min(1.0, n_rows / max(self.count(), 1))
        guide = [] if self._guide is None or self._guide in self._values else [named(self._guide)]
        kept = ", ".join([*(f"{value} AS {named(name)}" for name, value in self._values.items()), *guide])
        # Only the name of the file is hashed: its folder may change, as that of the copy of a CSV file always does.
        drawn = f"hash(parse_filename({FILE}), {POSITION}, {int(seed)}) < {int(share * (2**64 - 1))}"
        order = f"{FILE}, {POSITION}"
        return frames.open_frame(self._query(f"SELECT {kept} FROM {self._from} WHERE {drawn} ORDER BY {order}"))

    def combinations(self, names: Sequence[str], most: int) -> pl.DataFrame:
        """Count the distinct rows of these columns."""
        asked = ", ".join(f"{self._values[name]} AS {named(name)}" for name in names)
        by = ", ".join(map(str, range(1, len(names) + 1)))
        return self._query(f"SELECT {asked}, count(*) AS {ROWS} FROM {self._from} GROUP BY {by} LIMIT {int(most) + 1}")

    def tally(self, tree: CoarseTree, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count the rows and the sensitive values of each leaf."""
        leaf = leaf_expression(tree, self.dialect, range(tree.n_leaves))
        member = "TRUE" if member_of is None else self._is_member(member_of)
        found = self._query(
            f"SELECT {leaf} AS leaf, count(*) AS n, count(*) FILTER ({member}) AS m FROM {self._from} GROUP BY 1"
        )
        counted = {}
        for name in sensitive:
            rows = self._query(
                f"SELECT {leaf} AS leaf, {self._values[name]} AS v, count(*) AS n FROM {self._from} "
                f"WHERE {member} GROUP BY 1, 2"
            )
            counted[name] = (rows["leaf"].to_numpy(), values_of(rows, name), rows["n"].to_numpy())
        return LeafTally(*rows_of_leaves(found, tree.n_leaves), counted)

    def sort_into_fragments(self, cut: Fragmentation, folder: Path) -> None:
        """Write the rows of each fragment into a folder of its own.

        DuckDB numbers the rows, and polars sorts them: DuckDB takes ten times as long to write many files at once.
        """
        self._require_positions()
        numbers = folder.with_suffix(".parquet")
        fragment = leaf_expression(cut.tree, self.dialect, cut.fragment_of_leaf.tolist())
        with files.Appending(numbers, "parquet") as writer:
            for file in self._files:
                for some in self._number_rows(file, fragment, folder.with_suffix(".numbers")):
                    writer.write(some)
        rows = [pl.scan_parquet(file, row_index_name=ROW, hive_partitioning=False, glob=False) for file in self._files]
        joined = pl.concat(_in_one_order(rows))
        numbered = pl.concat([joined, pl.scan_parquet(numbers, glob=False)], how="horizontal")
        try:
            numbered.sink_parquet(
                pl.PartitionBy(folder, key=FRAGMENT, include_key=False), compression="lz4", mkdir=True
            )
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"The table cannot be sorted ({reason(error)}): fix it, or free disk space.") from None

    def _number_rows(self, file: Path, fragment: str, scratch: Path) -> Iterator[pl.DataFrame]:
        """Yield the fragments of the rows of a file in batches, in the order of the file."""
        source = read_from([file])
        n_rows = int(self._query(f"SELECT count(*) AS n FROM {source}")["n"][0])
        fragments = np.memmap(scratch, np.int32, "w+", shape=max(n_rows, 1))[:n_rows]
        fragments[:] = -1
        # The result has no order: sorting it would take four times as long.
        with _errors_in_one_sentence():
            found = self._connection.sql(f"SELECT CAST({fragment} AS INTEGER) AS f, {POSITION} AS r FROM {source}")
            for batch in found.to_arrow_reader(ROWS_AT_ONCE):
                some = pl.DataFrame(pl.from_arrow(batch))
                fragments[some["r"].to_numpy()] = some["f"].to_numpy()
        if n_rows and fragments.min() < 0:
            raise DataError(CHANGED)
        for start in range(0, n_rows, ROWS_AT_ONCE):
            part = np.array(fragments[start : start + ROWS_AT_ONCE])
            yield pl.DataFrame({FRAGMENT: part, NUMBERED: np.arange(start, start + len(part))})

    def count_groups(self, schema: Schema, member_of: str | None) -> Iterator[Counts]:
        """Yield the counts of groups of equal rows, some groups at a time."""
        columns = {}
        for one in schema.sensitive:
            columns[one.name], codes = encode_values(self.distinct(one.name, member_of), one)
            self._connection.register(f"codes of {one.name}", codes.to_arrow())
        member = "TRUE" if member_of is None else self._is_member(member_of)
        quasi = ", ".join(self._values[one.name] for one in schema.quasi)
        joined = "".join(
            f" LEFT JOIN {named(f'codes of {name}')} d{j} ON {self._values[name]} IS NOT DISTINCT FROM d{j}.{VALUE}"
            for j, name in enumerate(columns)
        )
        listed = "".join(f", list(d{j}.{CODE}) FILTER ({member}) AS c{j}" for j in range(len(columns)))
        pieces = -(-self.count() * BYTES_PER_CHECKED_ROW // self._memory)
        for piece in range(pieces):
            only = f"WHERE hash({quasi}) % {pieces} = {piece}" if pieces > 1 else ""
            found = self._query(
                f"SELECT count(*) AS n, count(*) FILTER ({member}) AS m{listed} FROM {self._from} t{joined} {only} "
                f"GROUP BY {quasi}"
            )
            tallies = {name: _tally(found[f"c{j}"], column) for j, (name, column) in enumerate(columns.items())}
            yield Counts(found["m"].to_numpy(), found["n"].to_numpy(), tallies, columns)

    def _is_member(self, name: str) -> str:
        if name not in self._members:
            values = ", ".join(map(literal, values_for_true(self, name)))
            self._members[name] = f"({named(name)} IN ({values}))" if values else "FALSE"
        return self._members[name]

    def _require_positions(self) -> None:
        """Refuse a column that hides DuckDB's column of positions."""
        for name in self.names:
            if _ascii_lower(name) == POSITION:
                raise DataError(f"The column {name!r} has a name that DuckDB uses for itself: rename it.")

    def _query(self, query: str) -> pl.DataFrame:
        with _errors_in_one_sentence():
            found = pl.from_arrow(self._connection.sql(query).to_arrow_table())
        assert isinstance(found, pl.DataFrame)
        return found


@contextmanager
def _errors_in_one_sentence() -> Iterator[None]:
    """Turn every error of DuckDB into one sentence."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise DataError(
            f"The table takes more memory than DuckDB has ({reason(error)}): give it more, or use fewer threads."
        ) from None
    except Exception as error:  # DuckDB raises many types
        raise DataError(f"The table cannot be read by DuckDB ({reason(error)}): fix it, or its schema.") from None


def _require_names(names: Sequence[str]) -> None:
    """Refuse names of columns that clash in DuckDB."""
    seen: dict[str, str] = {}
    for name in names:
        key = _ascii_lower(name)
        if key in seen:
            raise DataError(f"DuckDB does not distinguish the columns {seen[key]!r} and {name!r}: rename one of them.")
        if key.startswith(OWN):
            raise DataError(f"The column {name!r} has a name that Shoal uses for itself: rename it.")
        seen[key] = name


def _ascii_lower(name: str) -> str:
    """Return a name with ASCII letters in lower case, which is how DuckDB compares names."""
    return name.encode().lower().decode()


def _in_one_order(scans: Sequence[pl.LazyFrame]) -> list[pl.LazyFrame]:
    """Return tables with the same columns in the order of the first table."""
    names = [scan.collect_schema().names() for scan in scans]
    # By position, as polars takes some names for patterns.
    return [
        scan if own == names[0] else scan.select(pl.nth([own.index(name) for name in names[0]]))
        for scan, own in zip(scans, names, strict=True)
    ]


def _tally(lists: pl.Series, column: Column) -> Tally:
    """Count the codes in each list."""
    lengths = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    codes = lists.explode(empty_as_null=False, keep_nulls=False).to_numpy().astype(np.uint32)
    order, everyone = np.arange(len(codes), dtype=np.int64), np.empty(0, bool)
    assert column.shares is not None
    indptr, values, counts = groups.tally(codes, order, starts, everyone, column.n_values)
    return Tally(indptr, values, counts, column.shares)


def _value(column: str, kind: str, marks: Sequence[str]) -> str:
    """Return a value in which NaN and the marks for missing values are missing."""
    if kind in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END"
    if kind == "VARCHAR" and marks:
        return f"CASE WHEN {column} IN ({', '.join(map(literal, marks))}) THEN NULL ELSE {column} END"
    return column
