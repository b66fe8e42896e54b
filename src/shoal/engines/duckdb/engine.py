"""Parquet files as an engine: what DuckDB counts, draws and tells apart, within a limit of memory."""

from __future__ import annotations

import datetime as dt
import math
import numbers
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
    CODE,
    MOST_VALUES,
    ROWS,
    VALUE,
    CoarseTree,
    Engine,
    LeafTally,
    SplitTest,
    code_values,
    ends_of,
    require_few_values,
    rows_of_leaves,
    values_of,
    words_for_true,
    write_route,
)
from shoal.engines.fragments import Fragmentation
from shoal.engines.memory import usable_memory
from shoal.errors import DataError, ShoalError, reason
from shoal.partition.table_summary import ColumnSummary, is_plain_number
from shoal.privacy.counts import Counts, Tally

LEAST_MEMORY = 2**28
"""Bytes without which DuckDB does nothing."""
BYTES_A_CHECKED_ROW = 100
"""Memory that a row takes while its group is counted, at the most."""
ROWS_AT_ONCE = 1_000_000
"""Rows whose fragments are written down together."""
CHANGED = "The table has changed while it was released, so nothing was written: start again."
OWN = "__shoal_"
"""How names begin that no column of a table may have."""
ROW, NUMBERED, FRAGMENT = f"{OWN}row", f"{OWN}numbered", f"{OWN}fragment"
"""Names of columns while rows are sorted out."""
FILE, PLACE = f"{OWN}file", "file_row_number"
"""Names of columns that say where a row lies; DuckDB lets only the first one be chosen."""


class ResourceLimits(NamedTuple):
    """Memory and threads that may be used."""

    memory: int
    """Bytes."""
    threads: int

    @classmethod
    def of(cls, memory: int | None = None, threads: int | None = None) -> ResourceLimits:
        """What is asked for, or half of the machine's memory and all of its cores."""
        require_count("threads", threads)
        return cls(usable_memory() if memory is None else memory, threads or os.cpu_count() or 1)


def require_count(name: str, value: Any) -> None:
    """Refuse what is given, but is no whole number of at least 1."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1):
        raise ShoalError(f"{name} is {value!r}: give a whole number of at least 1.")


class DuckDBSession(NamedTuple):
    """Where a table is worked on."""

    connection: Any
    """To DuckDB."""
    folder: Path
    """For what does not fit into memory; it is removed in the end."""
    memory: int
    """Bytes that DuckDB may use."""


@contextmanager
def connected(budget: ResourceLimits, beside: Path) -> Iterator[DuckDBSession]:
    """A connection to DuckDB that keeps to the budget, and a folder for what does not fit into it."""
    try:
        import duckdb
    except ImportError as error:
        raise ShoalError(
            f"Tables that do not fit into memory need the package 'duckdb' ({reason(error)}): "
            "pip install 'shoal[duckdb]'."
        ) from None
    if not beside.is_dir():
        raise DataError(f"There is no folder {str(beside)!r} for what does not fit into memory: make it.")
    with tempfile.TemporaryDirectory(prefix=".shoal-", dir=beside) as name:
        folder = Path(name)
        # Fragments are released while DuckDB waits, so each has half of the memory.
        memory = max(budget.memory // 2, LEAST_MEMORY)
        how: dict[str, Any] = {
            "memory_limit": f"{memory // 2**20}MiB",
            "threads": budget.threads,
            "temp_directory": str(folder / "spilled"),
            "preserve_insertion_order": False,
        }
        with duckdb.connect(config=how) as connection:
            # Parquet files say that a column of NaN has no missing values, and DuckDB would then leave out the
            # question whether a value, which we take for missing if it is NaN, is missing.
            connection.execute("SET disabled_optimizers = 'statistics_propagation'")
            # Moments are written as those of UTC, and compared with them.
            connection.execute("SET TimeZone = 'UTC'")
            yield DuckDBSession(connection, folder, memory)


class SqlDialect:
    """What is asked of a row, in DuckDB's SQL."""

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._expressions = expressions

    def goes_left(self, test: SplitTest) -> str:
        """Whether a row passes a test."""
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

    def is_alike(self, values: Mapping[str, Any]) -> str:
        """Whether a row has these values."""
        return " AND ".join(
            f"{self._expressions[name]} IS NOT DISTINCT FROM {literal(one)}" for name, one in values.items()
        )

    def choose(self, condition: str, yes: str, no: str) -> str:
        """One thing or another."""
        # One behind the other where they can be: DuckDB reads no more than 1,000 that are nested.
        others = no.removeprefix("CASE ").removesuffix(" END") if no.startswith("CASE ") else f"ELSE {no}"
        return f"CASE WHEN {condition} THEN {yes} {others} END"

    def number(self, value: int) -> str:
        """A constant."""
        return str(value)


def literal(value: Any) -> str:
    """A value in SQL.

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
    """A column in SQL.

    >>> print(named('2" pipe'))
    "2"" pipe"
    """
    return '"' + name.replace('"', '""') + '"'


def read_from(paths: Sequence[Path]) -> str:
    """Parquet files in SQL, as they are: a name is no pattern, and folders called ``name=value`` are no columns.

    >>> print(read_from([Path("in/a[1].parquet")]))
    read_parquet(['in/a[[]1].parquet'], filename = '__shoal_file', hive_partitioning = false)
    """
    listed = ", ".join(literal(re.sub(r"[\[*?]", r"[\g<0>]", str(path))) for path in paths)
    return f"read_parquet([{listed}], filename = {literal(FILE)}, hive_partitioning = false)"


class DuckEngine(Engine[str]):
    """A Parquet file, or a folder of them, looked at by DuckDB."""

    def __init__(
        self,
        desk: DuckDBSession,
        source: Path,
        schema: Schema,
        marks: Sequence[str],
        *,
        compared: bool = True,
        guide: str | None = None,
    ) -> None:
        self._connection, self._memory = desk.connection, desk.memory
        marks = files.as_marks(marks)
        self._files = files.parquet_files(source)
        files.require_alike(self._files)
        self._from = read_from(self._files)
        _require_names(list(files.parquet_types(self._files[0])))
        described = self._ask(f"DESCRIBE SELECT * EXCLUDE ({FILE}) FROM {self._from}")
        types = dict(zip(described["column_name"], described["column_type"], strict=True))
        self.names = list(types)
        self._guide = guide
        self._members: dict[str, str] = {}
        self._values = {name: _value(named(name), types[name], marks) for name in schema.names if name in types}
        # Numbers and dates may be written as text; they are compared as what they are.
        looked_at = schema.quasi if compared else ()
        texts = [one.name for one in looked_at if types.get(one.name) == "VARCHAR" and is_plain_number(one)]
        self._order = self._values | {name: self._as_number(name) for name in texts}
        self.words = SqlDialect(self._order)

    def _as_number(self, name: str) -> str:
        value = self._values[name]
        for kind in ("DOUBLE", "TIMESTAMP"):
            cast = f"TRY_CAST({value} AS {kind})"
            wrong = self._ask(
                f"SELECT {value} AS v FROM {self._from} WHERE {value} IS NOT NULL AND {cast} IS NULL LIMIT 1"
            )
            if wrong.is_empty():
                return cast
        raise DataError(
            f"Attribute {name!r} is numeric, but holds {wrong['v'][0]!r}: make it nominal in the schema, or mend it."
        )

    def count(self) -> int:
        """All rows."""
        return int(self._ask(f"SELECT count(*) AS n FROM {self._from}")["n"][0])

    def ends(self, names: Sequence[str]) -> dict[str, ColumnSummary]:
        """The lowest and the highest value of columns, and the missing one if there is such."""
        asked = []
        for j, name in enumerate(names):
            value, order = self._values[name], self._order[name]
            asked += [f"arg_min({value}, {order}) AS low{j}", f"arg_max({value}, {order}) AS high{j}"]
            asked.append(f"count(*) - count({order}) AS none{j}")
        found = self._ask(f"SELECT {', '.join(asked)} FROM {self._from}")
        return ends_of(found, names)

    def distinct(self, name: str, member_of: str | None = None) -> ColumnSummary:
        """The values of a column, among all rows or those that a Boolean column marks."""
        only = "" if member_of is None else f"WHERE {self._is_member(member_of)}"
        found = self._ask(
            f"SELECT {self._values[name]} AS v, count(*) AS n FROM {self._from} {only} GROUP BY 1 "
            f"LIMIT {MOST_VALUES + 1}"
        )
        require_few_values(name, found.height)
        return ColumnSummary(values_of(found, name), found["n"].to_numpy())

    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """About so many rows, by a number that is drawn from where a row lies in its file."""
        self._require_places()
        share = min(1.0, n_rows / max(self.count(), 1))
        guide = [] if self._guide is None or self._guide in self._values else [named(self._guide)]
        kept = ", ".join([*(f"{value} AS {named(name)}" for name, value in self._values.items()), *guide])
        # By the name alone: the same file is elsewhere the next time, as the copy of a CSV file always is.
        drawn = f"hash(parse_filename({FILE}), {PLACE}, {int(seed)}) < {int(share * (2**64 - 1))}"
        order = f"{FILE}, {PLACE}"
        return frames.open_frame(self._ask(f"SELECT {kept} FROM {self._from} WHERE {drawn} ORDER BY {order}"))

    def combinations(self, names: Sequence[str], most: int) -> pl.DataFrame:
        """Every different row of these columns, and how many there are."""
        asked = ", ".join(f"{self._values[name]} AS {named(name)}" for name in names)
        by = ", ".join(map(str, range(1, len(names) + 1)))
        return self._ask(f"SELECT {asked}, count(*) AS {ROWS} FROM {self._from} GROUP BY {by} LIMIT {int(most) + 1}")

    def tally(self, crown: CoarseTree, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
        """Count what is in each leaf."""
        leaf = write_route(crown, self.words, range(crown.n_leaves))
        member = "TRUE" if member_of is None else self._is_member(member_of)
        found = self._ask(
            f"SELECT {leaf} AS leaf, count(*) AS n, count(*) FILTER ({member}) AS m FROM {self._from} GROUP BY 1"
        )
        counted = {}
        for name in sensitive:
            rows = self._ask(
                f"SELECT {leaf} AS leaf, {self._values[name]} AS v, count(*) AS n FROM {self._from} "
                f"WHERE {member} GROUP BY 1, 2"
            )
            counted[name] = (rows["leaf"].to_numpy(), values_of(rows, name), rows["n"].to_numpy())
        return LeafTally(*rows_of_leaves(found, crown.n_leaves), counted)

    def sort_out(self, cut: Fragmentation, folder: Path) -> None:
        """Write the rows of each fragment into a folder of its own.

        DuckDB numbers the rows, and polars sorts them out: DuckDB takes ten times as long to write many files at once.
        """
        self._require_places()
        numbers = folder.with_suffix(".parquet")
        route = write_route(cut.crown, self.words, cut.fragment_of_leaf.tolist())
        with files.Appending(numbers, "parquet") as writer:
            for file in self._files:
                for some in self._number_rows(file, route, folder.with_suffix(".numbers")):
                    writer.write(some)
        rows = [pl.scan_parquet(file, row_index_name=ROW, hive_partitioning=False, glob=False) for file in self._files]
        joined = pl.concat(_in_one_order(rows))
        numbered = pl.concat([joined, pl.scan_parquet(numbers, glob=False)], how="horizontal")
        try:
            numbered.sink_parquet(
                pl.PartitionBy(folder, key=FRAGMENT, include_key=False), compression="lz4", mkdir=True
            )
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"The table cannot be sorted out ({reason(error)}): mend it, or make room.") from None

    def _number_rows(self, file: Path, route: str, scratch: Path) -> Iterator[pl.DataFrame]:
        """The fragment of each row of a file, in the order of the file, some at a time."""
        source = read_from([file])
        n_rows = int(self._ask(f"SELECT count(*) AS n FROM {source}")["n"][0])
        fragments = np.memmap(scratch, np.int32, "w+", shape=max(n_rows, 1))[:n_rows]
        fragments[:] = -1
        # Rows come in no order: to sort them would take four times as long.
        with _asking():
            found = self._connection.sql(f"SELECT CAST({route} AS INTEGER) AS f, {PLACE} AS r FROM {source}")
            for batch in found.to_arrow_reader(ROWS_AT_ONCE):
                some = pl.DataFrame(pl.from_arrow(batch))
                fragments[some["r"].to_numpy()] = some["f"].to_numpy()
        if n_rows and fragments.min() < 0:
            raise DataError(CHANGED)
        for start in range(0, n_rows, ROWS_AT_ONCE):
            part = np.array(fragments[start : start + ROWS_AT_ONCE])
            yield pl.DataFrame({FRAGMENT: part, NUMBERED: np.arange(start, start + len(part))})

    def count_groups(self, schema: Schema, member_of: str | None) -> Iterator[Counts]:
        """What is in each group of equal rows, some groups at a time."""
        columns = {}
        for one in schema.sensitive:
            columns[one.name], codes = code_values(self.distinct(one.name, member_of), one)
            self._connection.register(f"codes of {one.name}", codes.to_arrow())
        member = "TRUE" if member_of is None else self._is_member(member_of)
        quasi = ", ".join(self._values[one.name] for one in schema.quasi)
        joined = "".join(
            f" LEFT JOIN {named(f'codes of {name}')} d{j} ON {self._values[name]} IS NOT DISTINCT FROM d{j}.{VALUE}"
            for j, name in enumerate(columns)
        )
        listed = "".join(f", list(d{j}.{CODE}) FILTER ({member}) AS c{j}" for j in range(len(columns)))
        pieces = -(-self.count() * BYTES_A_CHECKED_ROW // self._memory)
        for piece in range(pieces):
            only = f"WHERE hash({quasi}) % {pieces} = {piece}" if pieces > 1 else ""
            found = self._ask(
                f"SELECT count(*) AS n, count(*) FILTER ({member}) AS m{listed} FROM {self._from} t{joined} {only} "
                f"GROUP BY {quasi}"
            )
            tallies = {name: _tally(found[f"c{j}"], column) for j, (name, column) in enumerate(columns.items())}
            yield Counts(found["m"].to_numpy(), found["n"].to_numpy(), tallies, columns)

    def _is_member(self, name: str) -> str:
        if name not in self._members:
            words = ", ".join(map(literal, words_for_true(self, name)))
            self._members[name] = f"({named(name)} IN ({words}))" if words else "FALSE"
        return self._members[name]

    def _require_places(self) -> None:
        """Refuse a column that hides where DuckDB says a row lies."""
        for name in self.names:
            if _as_duckdb_sees(name) == PLACE:
                raise DataError(f"The column {name!r} has a name that DuckDB uses for itself: rename it.")

    def _ask(self, query: str) -> pl.DataFrame:
        with _asking():
            found = pl.from_arrow(self._connection.sql(query).to_arrow_table())
        assert isinstance(found, pl.DataFrame)
        return found


@contextmanager
def _asking() -> Iterator[None]:
    """Make a sentence of what DuckDB says, whatever goes wrong."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise DataError(
            f"The table takes more memory than DuckDB has ({reason(error)}): give more, or use fewer threads."
        ) from None
    except Exception as error:  # DuckDB has many
        raise DataError(f"The table cannot be read by DuckDB ({reason(error)}): mend it, or its schema.") from None


def _require_names(names: Sequence[str]) -> None:
    """Refuse columns that DuckDB would take for others."""
    seen: dict[str, str] = {}
    for name in names:
        key = _as_duckdb_sees(name)
        if key in seen:
            raise DataError(f"The columns {seen[key]!r} and {name!r} have one name for DuckDB: rename one of them.")
        if key.startswith(OWN):
            raise DataError(f"The column {name!r} has a name that Shoal uses for itself: rename it.")
        seen[key] = name


def _as_duckdb_sees(name: str) -> str:
    """A name without its case, of which DuckDB knows that of ASCII only."""
    return name.encode().lower().decode()


def _in_one_order(scans: Sequence[pl.LazyFrame]) -> list[pl.LazyFrame]:
    """Tables of the same columns, which get the order of the first."""
    names = [scan.collect_schema().names() for scan in scans]
    # By place, as some names are patterns to polars.
    return [
        scan if own == names[0] else scan.select(pl.nth([own.index(name) for name in names[0]]))
        for scan, own in zip(scans, names, strict=True)
    ]


def _tally(lists: pl.Series, column: Column) -> Tally:
    """How often each code occurs in each list."""
    lengths = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    codes = lists.explode(empty_as_null=False, keep_nulls=False).to_numpy().astype(np.uint32)
    order, everyone = np.arange(len(codes), dtype=np.int64), np.empty(0, bool)
    assert column.shares is not None
    indptr, values, counts = groups.tally(codes, order, starts, everyone, column.n_values)
    return Tally(indptr, values, counts, column.shares)


def _value(column: str, kind: str, marks: Sequence[str]) -> str:
    """A value as methods see it: what is not a number, or a mark for a missing value, is missing."""
    if kind in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END"
    if kind == "VARCHAR" and marks:
        return f"CASE WHEN {column} IN ({', '.join(map(literal, marks))}) THEN NULL ELSE {column} END"
    return column
