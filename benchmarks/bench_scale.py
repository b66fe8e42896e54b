"""Tables in fragments beside the same tables in memory: what is lost more, and how time and memory grow.

``python benchmarks/bench_scale.py loss`` compares the loss of every method on a million rows, from disk, and
``loss spark`` by Spark. ``growth`` times Mondrian in memory, from disk and by Spark, on up to twenty million rows
within 4 GB; ``growth spark 1e6 5e6`` some of that. What is called *running* is Spark in a session that is running
already, as on a cluster; *frames* is a Spark DataFrame, whose rows pass through Java; *passing* is Spark without Shoal:
rows are shuffled, passed through Python as they are, written and counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from _measure import show

from shoal import Schema, anonymize
from shoal.datasets import make_census

QUASI = ["age", "sex", "race", "marital-status", "education", "workclass", "occupation", "native-country"]
NAMES = [*QUASI, "condition", "income"]
K, MEMORY, THREADS = 10, 4 * 2**30, 2
SIZES = [1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000]
ENGINES = ("memory", "duckdb", "spark", "running", "frames", "passing")
METHODS: dict[str, dict[str, Any]] = {
    "mondrian": {},
    "hilbert": {},
    "rplus": {},
    "sangreea": {},
    "accuracy-guided": {"guide": "hard", "recoding": "interval"},
    "flash, local": {"mode": "local"},
    "flash, global": {"suppression": 0.05},
}


def compare_losses(engine: str = "duckdb", n: int = 1_000_000) -> None:
    """Every method on the same rows, in memory and in fragments of a fifth."""
    schema, rows = schema_of(), []
    with tempfile.TemporaryDirectory() as folder, releasing(engine) as release:
        file = make_file(n, Path(folder))
        frame = pl.read_parquet(file)
        for name, how in METHODS.items():
            method = name.partition(",")[0]
            start = time.perf_counter()
            local = anonymize(frame, schema, K, method=method, **how)
            middle = time.perf_counter()
            # Flash finds levels from counts of all different rows, which must fit.
            part = n // 5 if method != "flash" else n // 2
            out = Path(folder) / f"{name}.parquet"
            found = release(file, schema, K, out, method=method, rows_per_fragment=part, **how)
            took = [middle - start, time.perf_counter() - middle]
            cut = found.parameters.get("fragments", "counts")
            ratio = found.loss.ncp / local.loss.ncp
            rows.append([name, str(cut), local.loss.ncp, found.loss.ncp, f"{ratio:.3f}", found.k, *took])
            show_losses(engine, n, rows[-1:] if len(rows) < len(METHODS) else rows)


@contextmanager
def releasing(engine: str) -> Iterator[Callable[..., Any]]:
    """What releases files: DuckDB, or Spark in one session for all."""
    from shoal.jobs.release import anonymize_file

    if engine == "duckdb":
        yield anonymize_file
        return
    from shoal.engines.spark import running_spark

    with running_spark(f"local[{THREADS}]", MEMORY) as spark:
        yield partial(anonymize_file, engine="spark", master=spark)


def show_losses(engine: str, n: int, rows: list[list[Any]]) -> None:
    header = ["method", "fragments", "NCP in memory", "in fragments", "ratio", "k", "seconds in memory", f"by {engine}"]
    show(f"{n:,} rows x {len(QUASI)} attributes, k = {K}", header, rows)


def compare_growth(engines: list[str], sizes: list[int]) -> None:
    """Mondrian from file to file, each in a process of its own, and the local class from frame to frame."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            file = make_file(n, Path(folder))
            by_engine = {engine: run_watched(engine, file, Path(folder)) for engine in engines}
            kernel = by_engine["memory"].pop("kernel") if "memory" in by_engine else None
            for engine, found in by_engine.items():
                taken, ratio = found["seconds"], None if kernel is None else kernel / found["seconds"]
                shown = "" if ratio is None else f"{ratio:.2f}x"
                gigabytes, each = found["peak"] / 2**30, 1e6 * taken / n
                rows.append([n, engine, kernel or 0.0, taken, each, shown, f"{gigabytes:.2f} GB"])
            file.unlink()
            header = ["rows", "engine", "frame to frame", "file to file", "s a million", "throughput", "peak memory"]
            show(f"Mondrian, {len(QUASI)} attributes, k = {K}, {THREADS} cores, 4 GB; throughput by frame to frame",
                 header, rows)  # fmt: skip


def run_watched(engine: str, file: Path, folder: Path) -> dict[str, float]:
    """Release a file in a process of its own; seconds without imports, and memory of it and of all it starts."""
    out = folder / f"{engine}-{file.stem}.parquet"
    command = [sys.executable, __file__, "one", engine, str(file), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = [0]
    watching = threading.Thread(target=watch, args=(process, peak))
    watching.start()
    said, _ = process.communicate()
    watching.join()
    if process.returncode:
        raise SystemExit(f"{engine} has failed.")
    found = {name: float(value) for name, value in (line.split() for line in said.splitlines()[-2:])}
    subprocess.run(["rm", "-rf", str(out)], check=True)
    return found | {"peak": float(peak[0])}


def watch(process: subprocess.Popen[str], peak: list[int]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], memory_of(process.pid))
        time.sleep(0.2)


def memory_of(root: int) -> int:
    """Bytes of a process and of all that it has started (Linux).

    Files that several have loaded, such as libraries, count once. What else processes share counts for each of them, as
    only walking through all pages would tell, which holds up the processes.
    """
    processes, family = all_processes(), {root}
    while grown := {pid for pid, fields in processes.items() if int(fields["PPid"]) in family} - family:
        family |= grown
    members = [processes[pid] for pid in family if pid in processes]
    own = sum(kilobytes(fields, "RssAnon", "RssShmem") for fields in members)
    return 1024 * (own + max((kilobytes(fields, "RssFile") for fields in members), default=0))


def all_processes() -> dict[int, dict[str, str]]:
    """What Linux tells of each process."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = status.read_text().splitlines()
        except OSError:
            continue
        found[int(status.parent.name)] = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return found


def kilobytes(fields: dict[str, str], *names: str) -> int:
    """Those of some fields; a process that has just ended has none."""
    return sum(int(fields[name].split()[0]) for name in names if name in fields)


def run_one(engine: str, file: str, out: str) -> None:
    """What the watched process does: modules and kernels are loaded before the clock starts."""
    schema = schema_of()
    small, first = Path(out).with_suffix(".small.parquet"), Path(out).with_suffix(".first.parquet")
    pl.read_parquet(file, n_rows=50_000).write_parquet(small)
    ways = {
        "memory": release_in_memory,
        "duckdb": release_from_disk,
        "spark": release_by_spark,
        "running": release_by_spark,
        "frames": release_frames,
        "passing": pass_by_spark,
    }
    release = ways[engine]
    if engine == "running":
        from shoal.engines.spark import start_session

        start_session(f"local[{THREADS}]", **{"spark.driver.memory": f"{MEMORY // 2**21}m"})
    if engine in ("memory", "duckdb", "running"):  # else Spark's start is part of what it takes
        release(str(small), schema, str(first))
    elif engine == "spark":
        import shoal.engines.spark.release  # noqa: F401
    start = time.perf_counter()
    kernel = release(file, schema, out)
    print(f"seconds {time.perf_counter() - start - (kernel or 0.0)}")
    print(f"kernel {kernel or 0.0}")
    small.unlink()
    subprocess.run(["rm", "-rf", str(first)], check=True)


def release_in_memory(file: str, schema: Schema, out: str) -> float:
    """From file to file; returns what the class itself takes once more, from frame to frame."""
    from shoal import Mondrian

    frame = pl.read_parquet(file)
    anonymize(frame, schema, K, n_jobs=THREADS).to_parquet(out)
    start = time.perf_counter()
    Mondrian(schema, K, n_jobs=THREADS).fit_transform(frame)
    return time.perf_counter() - start


def release_from_disk(file: str, schema: Schema, out: str) -> None:
    from shoal.jobs.release import anonymize_file

    anonymize_file(file, schema, K, out, memory=MEMORY, threads=THREADS)


def release_by_spark(file: str, schema: Schema, out: str) -> None:
    from shoal.jobs.release import anonymize_file

    anonymize_file(file, schema, K, out, engine="spark", master=f"local[{THREADS}]", memory=MEMORY)


def release_frames(file: str, schema: Schema, out: str) -> None:
    from shoal import KAnonymity, Mondrian
    from shoal.engines.spark import SparkAnonymizer, start_session
    from shoal.engines.spark.checking import check

    session = start_session(f"local[{THREADS}]", **{"spark.driver.memory": f"{MEMORY // 2**21}m"})
    SparkAnonymizer(Mondrian(schema, K)).fit_transform(session.read.parquet(file)).write.parquet(out)
    check(session.read.parquet(out), schema, [KAnonymity(K)])
    session.stop()


def pass_by_spark(file: str, schema: Schema, out: str) -> None:
    """What no method on Spark can do without: shuffle all rows once, show them to Python, write them, group them."""
    from pyspark.sql import functions as sf

    from shoal.engines.spark import start_session
    from shoal.engines.spark.anonymizer import ROWS_PER_FRAGMENT

    session = start_session(f"local[{THREADS}]", **{"spark.driver.memory": f"{MEMORY // 2**21}m"})
    table = session.read.parquet(file)
    table = table.repartition(max(table.count() // ROWS_PER_FRAGMENT, 1))
    table.mapInArrow(lambda batches: batches, table.schema).write.parquet(out)
    session.read.parquet(out).groupBy(*QUASI).count().agg(sf.min("count")).collect()
    session.stop()


def schema_of() -> Schema:
    census = make_census(10, seed=0)
    return Schema([census.schema[name] for name in NAMES])


def make_file(n: int, folder: Path) -> Path:
    file = folder / f"census-{n}.parquet"
    make_census(n, seed=0).frame.select(NAMES).write_parquet(file)
    return file


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))
    asked = sys.argv[1:] or ["loss", "growth"]
    if asked[0] == "one":
        run_one(*asked[1:])
        sys.exit()
    if "loss" in asked:
        compare_losses("spark" if "spark" in asked else "duckdb")
    if "growth" in asked:
        chosen = [int(float(one)) for one in asked if one[0].isdigit()]
        compare_growth([one for one in ENGINES if one in asked] or list(ENGINES), chosen or SIZES)
