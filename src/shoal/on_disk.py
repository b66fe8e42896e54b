"""Tables that do not fit into memory, on one machine.

DuckDB counts, draws a sample and sorts the rows into fragments, within a limit of memory and on disk where it must;
the methods themselves release each fragment, which does fit.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from shoal import files, frames
from shoal._kernels import groups
from shoal.anonymizers import Anonymizer
from shoal.counted import Counted, fit_to_counts
from shoal.engines import (
    MOST_VALUES,
    ROWS,
    Crown,
    Engine,
    Fork,
    LeafTally,
    ends_of,
    require_few_values,
    rows_of_leaves,
    write_route,
)
from shoal.errors import DataError, ShoalError, reason
from shoal.fragments import Fragmentation, fragment
from shoal.guards import membership, truth_of
from shoal.memory import usable_memory
from shoal.partition import Counts, Tally
from shoal.parts import Part, add_losses, as_written, column_reader, part_alike, release_part, seed_of
from shoal.privacy import DeltaPresence, KAnonymity, KMap, PrivacyModel, check_constraints
from shoal.release import Checked, Evidence, Judge, make_anonymizer, parameters_of, require_checkable, require_levels
from shoal.schema import Schema, require_schema
from shoal.table import Column, encode_column, require_same_columns
from shoal.whole import Seen, is_plain_number

BYTES_A_CELL = 400
"""Memory that a cell of a fragment takes on its way, at the most: text, codes, and what kernels keep of it."""
LEAST_MEMORY = 2**28
"""Bytes without which DuckDB does nothing."""
BYTES_A_CHECKED_ROW = 100
"""Memory that a row takes while its group is counted, at the most."""
CHANGED = "The table has changed while it was released, so nothing was written: start again."
ROWS_AT_ONCE = 1_000_000
"""Rows whose fragments are written down together."""
Item = TypeVar("Item")
ROW, NUMBERED, FRAGMENT = "__shoal_row", "__shoal_numbered", "__shoal_fragment"
"""Names of columns while rows are sorted out."""


class Budget(NamedTuple):
    """Memory and threads that may be used."""

    memory: int
    """Bytes."""
    threads: int

    @classmethod
    def of(cls, memory: int | None = None, threads: int | None = None) -> Budget:
        """What is asked for, or half of the machine's memory and all of its cores."""
        return cls(usable_memory() if memory is None else memory, threads or os.cpu_count() or 1)


class Desk(NamedTuple):
    """Where a table is worked on."""

    connection: Any
    """To DuckDB."""
    folder: Path
    """For what does not fit into memory; it is removed in the end."""
    memory: int
    """Bytes that DuckDB may use."""


class SqlWords:
    """What is asked of a row, in DuckDB's SQL."""

    def __init__(self, expressions: Mapping[str, str]) -> None:
        self._expressions = expressions

    def goes_left(self, test: Fork) -> str:
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
        return f"CASE WHEN {condition} THEN {yes} ELSE {no} END"

    def number(self, value: int) -> str:
        """A constant."""
        return str(value)


def literal(value: Any) -> str:
    """A value in SQL.

    >>> literal("it's"), literal(2.5), literal(True), literal(dt.date(2020, 1, 2))
    ("'it''s'", '2.5', 'TRUE', "DATE '2020-01-02'")
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
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


class DuckEngine(Engine[str]):
    """A Parquet file, or a folder of them, looked at by DuckDB."""

    def __init__(
        self,
        desk: Desk,
        source: Path,
        schema: Schema,
        marks: Sequence[str],
        *,
        compared: bool = True,
        guide: str | None = None,
    ) -> None:
        self._connection, self._memory = desk.connection, desk.memory
        self._files = files.parquet_files(source)
        listed = ", ".join(literal(str(file)) for file in self._files)
        self._from = f"read_parquet([{listed}], file_row_number = true, filename = true)"
        described = self._ask(f"DESCRIBE SELECT * EXCLUDE (file_row_number, filename) FROM {self._from}")
        types = dict(zip(described["column_name"], described["column_type"], strict=True))
        self.names = list(types)
        self._guide = guide
        self._values = {
            one.name: _value(named(one.name), types[one.name], marks) for one in schema if one.name in types
        }
        # Numbers and dates may be written as text; they are compared as what they are.
        texts = [one.name for one in schema if compared and types.get(one.name) == "VARCHAR" and is_plain_number(one)]
        self._order = self._values | {name: self._as_number(name) for name in texts}
        self.words = SqlWords(self._order)

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

    def ends(self, names: Sequence[str]) -> dict[str, Seen]:
        """The lowest and the highest value of columns, and the missing one if there is such."""
        asked = []
        for j, name in enumerate(names):
            value, order = self._values[name], self._order[name]
            asked += [f"arg_min({value}, {order}) AS low{j}", f"arg_max({value}, {order}) AS high{j}"]
            asked.append(f"count(*) - count({order}) AS none{j}")
        found = self._ask(f"SELECT {', '.join(asked)} FROM {self._from}")
        return ends_of(found, names)

    def distinct(self, name: str, member_of: str | None = None) -> Seen:
        """The values of a column, among all rows or those that a Boolean column marks."""
        only = "" if member_of is None else f"WHERE {self._is_member(member_of)}"
        found = self._ask(
            f"SELECT {self._values[name]} AS v, count(*) AS n FROM {self._from} {only} GROUP BY 1 "
            f"LIMIT {MOST_VALUES + 1}"
        )
        require_few_values(name, found.height)
        found = found.rename({"v": name})
        return Seen(frames.open_frame(found)[name], found["n"].to_numpy())

    def sample(self, n_rows: int, seed: int) -> nw.DataFrame[Any]:
        """About so many rows, by a number that is drawn from where a row lies in its file."""
        share = min(1.0, n_rows / max(self.count(), 1))
        guide = [] if self._guide is None or self._guide in self._values else [named(self._guide)]
        kept = ", ".join([*(f"{value} AS {named(name)}" for name, value in self._values.items()), *guide])
        drawn = f"hash(filename, file_row_number, {int(seed)}) < {int(share * (2**64 - 1))}"
        order = "filename, file_row_number"
        return frames.open_frame(self._ask(f"SELECT {kept} FROM {self._from} WHERE {drawn} ORDER BY {order}"))

    def combinations(self, names: Sequence[str], most: int) -> pl.DataFrame:
        """Every different row of these columns, and how many there are."""
        asked = ", ".join(f"{self._values[name]} AS {named(name)}" for name in names)
        by = ", ".join(map(str, range(1, len(names) + 1)))
        return self._ask(f"SELECT {asked}, count(*) AS {ROWS} FROM {self._from} GROUP BY {by} LIMIT {int(most) + 1}")

    def tally(self, crown: Crown, sensitive: Sequence[str], member_of: str | None) -> LeafTally:
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
            ).rename({"v": name})
            counted[name] = (rows["leaf"].to_numpy(), frames.open_frame(rows)[name], rows["n"].to_numpy())
        return LeafTally(*rows_of_leaves(found, crown.n_leaves), counted)

    def sort_out(self, cut: Fragmentation, folder: Path) -> None:
        """Write the rows of each fragment into a folder of its own.

        DuckDB numbers the rows, and polars sorts them out: DuckDB takes ten times as long to write many files at once.
        """
        numbers = folder.with_suffix(".parquet")
        route = write_route(cut.crown, self.words, cut.fragment_of_leaf.tolist())
        with files.Appending(numbers, "parquet") as writer:
            for file in self._files:
                for some in self._number_rows(file, route, folder.with_suffix(".numbers")):
                    writer.write(some)
        rows = [pl.scan_parquet(file, row_index_name=ROW, hive_partitioning=False) for file in self._files]
        numbered = pl.concat([pl.concat(rows), pl.scan_parquet(numbers)], how="horizontal")
        try:
            numbered.sink_parquet(
                pl.PartitionBy(folder, key=FRAGMENT, include_key=False), compression="lz4", mkdir=True
            )
        except (pl.exceptions.PolarsError, OSError) as error:
            raise DataError(f"The table cannot be sorted out ({reason(error)}): mend it, or make room.") from None

    def _number_rows(self, file: Path, route: str, scratch: Path) -> Iterator[pl.DataFrame]:
        """The fragment of each row of a file, in the order of the file, some at a time."""
        source = f"read_parquet({literal(str(file))}, file_row_number = true)"
        n_rows = int(self._ask(f"SELECT count(*) AS n FROM {source}")["n"][0])
        fragments = np.memmap(scratch, np.int32, "w+", shape=max(n_rows, 1))[:n_rows]
        fragments[:] = -1
        # Rows come in no order: to sort them would take four times as long.
        found = self._connection.sql(f"SELECT CAST({route} AS INTEGER) AS f, file_row_number AS r FROM {source}")
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
            seen = self.distinct(one.name, member_of)
            column = encode_column(seen.values, one, weights=seen.rows)
            shares = np.bincount(column.codes, seen.rows, column.n_values)
            columns[one.name] = replace(column, shares=shares / max(shares.sum(), 1))
            codes = pl.DataFrame({"v": seen.values.to_native(), "c": column.codes.astype(np.int32)})
            self._connection.register(f"codes of {one.name}", codes.to_arrow())
        member = "TRUE" if member_of is None else self._is_member(member_of)
        quasi = ", ".join(self._values[one.name] for one in schema.quasi)
        joined = "".join(
            f" LEFT JOIN {named(f'codes of {name}')} d{j} ON {self._values[name]} IS NOT DISTINCT FROM d{j}.v"
            for j, name in enumerate(columns)
        )
        listed = "".join(f", list(d{j}.c) FILTER ({member}) AS c{j}" for j in range(len(columns)))
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
        return f"lower(trim(CAST({named(name)} AS VARCHAR))) IN ('true', 'yes', '1', '1.0')"

    def _ask(self, query: str) -> pl.DataFrame:
        try:
            found = pl.from_arrow(self._connection.sql(query).to_arrow_table())
        except Exception as error:  # DuckDB has many
            raise DataError(f"The table cannot be read by DuckDB ({reason(error)}): mend it, or its schema.") from None
        assert isinstance(found, pl.DataFrame)
        return found


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


def anonymize_file(
    source: str | Path,
    schema: Schema,
    k: int,
    out: str | Path,
    *,
    method: str = "mondrian",
    constraints: Sequence[PrivacyModel] = (),
    memory: int | None = None,
    threads: int | None = None,
    rows_per_fragment: int | None = None,
    temporary: str | Path | None = None,
    missing_marks: Sequence[str] = (),
    separator: str | None = None,
    y: str | None = None,
    random_state: int | None = None,
    **options: Any,
) -> Evidence:
    """Anonymize a file that may be larger than memory, and verify what was written before it gets its name.

    Parameters
    ----------
    source : path
        A CSV or Parquet file, or a folder of Parquet files.
    schema : Schema
    k : int
    out : path
        The file to write, ``.parquet`` or ``.csv``. Its rows are in the order of the fragments.
    method, constraints, random_state
        As for :func:`shoal.anonymize`.
    memory : int, optional
        Bytes that may be used, about; by default half of what the machine has.
    threads : int, optional
    rows_per_fragment : int, optional
        By default as many as fit.
    temporary : path, optional
        Folder for rows that are sorted out, which take about as much room as the table; by default beside ``out``.
    missing_marks, separator
        As for :func:`shoal.files.read_table`.
    y : str, optional
        Column with what the method is guided by, such as predictions; by default the schema's target.
    **options
        Further parameters of the method.

    Returns
    -------
    Evidence
    """
    require_schema(schema)
    source, out = Path(source), Path(out)
    kind = files.kind_to_write(out)
    files.require_place(out)
    budget = Budget.of(memory, threads)
    anonymizer = make_anonymizer(method, schema, k, constraints=constraints, random_state=random_state, **options)
    with _connected(budget, Path(temporary) if temporary is not None else out.parent) as desk:
        folder = desk.folder
        table, found = _as_parquet(source, folder, separator)
        # As in memory: a file of the same kind has the same separator.
        separator = (
            found if found is not None and source.suffix == out.suffix else "\t" if out.suffix == ".tsv" else ","
        )
        engine = DuckEngine(desk, table, schema, missing_marks, guide=y)
        require_same_columns([name for name in engine.names if name != y or name in schema], schema)
        fitting = rows_per_fragment or max(int(budget.memory / (BYTES_A_CELL * len(engine.names))), 10 * k)
        released, cut_into, findings = _plan(engine, anonymizer, table, fitting, missing_marks, folder, y)
        asked, member_of = (KAnonymity(k), *check_constraints(constraints)), membership(constraints)
        with files.replacing(out) as written:
            # Rows that are not handed out are needed to see what holds in the population.
            everyone = (written, kind) if member_of is None else (folder / "population.parquet", "parquet")
            parts = _write(released, *everyone, separator)
            checked = require_levels(_check_written(desk, *everyone, schema, asked, separator), method)
            if member_of is not None:
                _hand_out(everyone[0], written, kind, separator, member_of)
                rest = [one for one in asked if not isinstance(one, (KMap, DeltaPresence))]
                require_levels(_check_written(desk, written, kind, schema, rest, separator), method)
    loss, suppressed = add_losses(parts), sum(part.n_suppressed for part in parts)
    parameters = parameters_of(anonymizer, constraints) | {"engine": "duckdb"} | cut_into
    return Evidence(schema, method, checked, loss, suppressed, parameters, findings)


def _plan(
    engine: DuckEngine,
    method: Anonymizer,
    table: Path,
    fitting: int,
    marks: Sequence[str],
    folder: Path,
    y: str | None,
) -> tuple[Iterator[Released], dict[str, int], dict[str, Any]]:
    """What is released, piece by piece, how the table is cut for that, and what was found out on the way."""
    schema = method.schema
    assert schema is not None
    looked_at = [one.name for one in (*schema.quasi, *schema.sensitive)]
    counted = fit_to_counts(engine, method, fitting) if method._wants_counts and engine.count() > fitting else None
    if counted is not None:
        return _release_rows(counted, table, marks, looked_at), {}, counted.fitted.findings()
    cut = fragment(engine, method, fitting, seed_of(method.random_state or 0), column_reader(y))
    engine.sort_out(cut, folder / "fragments")
    return _release_fragments(cut, folder / "fragments", marks, looked_at, y), {"fragments": len(cut.rows)}, {}


@contextmanager
def _connected(budget: Budget, beside: Path) -> Iterator[Desk]:
    """A connection to DuckDB that keeps to the budget, and a folder for what does not fit into it."""
    try:
        import duckdb
    except ImportError as error:
        raise ShoalError(
            f"Tables that do not fit into memory need the package 'duckdb' ({reason(error)}): "
            "pip install 'shoal[duckdb]'."
        ) from None
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
            yield Desk(connection, folder, memory)


def _as_parquet(source: Path, folder: Path, separator: str | None) -> tuple[Path, str | None]:
    """The file itself, or a copy of a CSV file whose columns are texts; and what separates the fields of that."""
    if source.is_dir():
        if not any(source.glob("*.parquet")):
            raise DataError(f"{str(source)!r} is a folder without Parquet files: name one that has some.")
        return source, None
    found = files.read_header(source, separator).separator
    return (source, None) if found is None else (_copy_of_csv(source, folder, found), found)


def _copy_of_csv(source: Path, folder: Path, separator: str) -> Path:
    copy = folder / f"{source.name}.parquet"
    try:
        scan = pl.scan_csv(source, separator=separator, infer_schema=False, try_parse_dates=False)
        scan.sink_parquet(copy, compression="lz4")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{str(source)!r} is not a readable CSV file ({reason(error)}): mend it, or name its separator."
        ) from None
    return copy


class Released(NamedTuple):
    """Rows that go to the file, and what they lose if that is known by now."""

    frame: pl.DataFrame | None
    part: Part | None


def _release_rows(counted: Counted, table: Path, marks: Sequence[str], looked_at: Sequence[str]) -> Iterator[Released]:
    """All rows in their order, put into groups that are known."""
    n_rows = 0
    for raw in files.read_in_batches(table):
        released = counted.release(files.mark_missing(raw, marks, looked_at))
        n_rows += raw.height
        yield Released(as_written(released, raw, counted.fitted), None)
    if n_rows != counted.n_rows:
        raise DataError(CHANGED)
    yield Released(None, counted.part)


def _release_fragments(
    cut: Fragmentation, folder: Path, marks: Sequence[str], looked_at: Sequence[str], y: str | None
) -> Iterator[Released]:
    """The rows of one fragment after the other."""
    method, schema = cut.method, cut.method.schema
    assert schema is not None
    hidden, member_of = [one.name for one in schema.identifiers], membership(method.constraints)
    left_out, read_guide = [y] if y is not None and y not in schema else [], column_reader(y)
    first_alike = len(cut.rows) - cut.n_alike
    for number, raw in _ahead(_read_fragments(cut.rows[:first_alike], folder)):
        guide = None if read_guide is None else read_guide(frames.open_frame(raw))
        raw = raw.drop(left_out)
        # What is written is checked as a whole.
        part = release_part(
            method, files.mark_missing(raw, marks, looked_at), cut.whole, guide, number, checked_later=True
        )
        yield Released(as_written(part.frame, raw, method), part._replace(frame=None))
    for number in range(first_alike, len(cut.rows)):
        n_released = 0
        for batch in files.read_in_batches(_place_of(number, folder)):
            raw = batch.drop(ROW, NUMBERED, *left_out)
            n_released += raw.height if member_of is None else _of_members(raw, member_of).height
            yield Released(as_written(raw.drop(hidden), raw, method), None)
        yield Released(None, part_alike(schema, n_released))


def _read_fragments(rows: np.ndarray, folder: Path) -> Iterator[tuple[int, pl.DataFrame]]:
    for number, n_rows in enumerate(rows.tolist()):
        if n_rows == 0:
            continue
        raw = pl.read_parquet(_place_of(number, folder) / "*.parquet", hive_partitioning=False)
        # A row that got the number of another one would be in a fragment where it does not belong.
        if raw.height != n_rows or not (raw[ROW] == raw[NUMBERED]).all():
            raise DataError(CHANGED)
        yield number, raw.drop(ROW, NUMBERED)


def _place_of(fragment: int, folder: Path) -> Path:
    return folder / f"{FRAGMENT}={fragment}"


def _write(released: Iterator[Released], written: Path, kind: str, separator: str) -> list[Part]:
    """Write what is released into one file; returns what it loses."""
    parts = []
    with files.Appending(written, kind, separator) as writer:
        for frame, part in _ahead(released):
            if frame is not None:
                writer.write(frame)
            if part is not None:
                parts.append(part)
    return parts


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, the next of which is made while one is used: on two cores that saves a fifth of the time."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _hand_out(everyone: Path, written: Path, kind: str, separator: str, member_of: str) -> None:
    """Write the rows that are handed out, without the column that says which they are."""
    with files.Appending(written, kind, separator) as writer:
        for batch in files.read_in_batches(everyone):
            writer.write(_of_members(batch, member_of))


def _check_written(
    desk: Desk, written: Path, kind: str, schema: Schema, constraints: Sequence[PrivacyModel], separator: str
) -> Checked:
    table = written if kind == "parquet" else _copy_of_csv(written, desk.folder, separator)
    return _check(desk, table, schema, constraints)


def _of_members(released: pl.DataFrame, member_of: str) -> pl.DataFrame:
    marks = released[member_of].unique().to_list()
    members = [mark for mark in marks if truth_of(mark, member_of)]
    return released.filter(pl.col(member_of).is_in(members)).drop(member_of)


def check_file(
    source: str | Path,
    schema: Schema,
    constraints: Sequence[PrivacyModel] = (),
    *,
    threshold: float = 0.2,
    memory: int | None = None,
    threads: int | None = None,
    missing_marks: Sequence[str] = (),
    separator: str | None = None,
) -> Checked:
    """Measure every privacy model on a file that may be larger than memory; see :func:`shoal.check`."""
    require_schema(schema)
    source = Path(source)
    with _connected(Budget.of(memory, threads), Path(tempfile.gettempdir())) as desk:
        table, _ = _as_parquet(source, desk.folder, separator)
        return _check(desk, table, schema, check_constraints(constraints), threshold, missing_marks)


def _check(
    desk: Desk,
    table: Path,
    schema: Schema,
    constraints: Sequence[PrivacyModel],
    threshold: float = 0.2,
    marks: Sequence[str] = (),
) -> Checked:
    """Count the groups of a Parquet file, some of them at a time, by what is written in it."""
    engine = DuckEngine(desk, table, schema, marks, compared=False)
    require_checkable(engine.names, schema)
    judge = Judge(schema, constraints, engine.names, threshold=threshold)
    for counts in engine.count_groups(schema, membership(constraints)):
        judge.look_at(counts)
    return judge.result()
