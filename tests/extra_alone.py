"""See that an extra brings all that its engine needs: ``python tests/extra_alone.py spark``, where nothing else is.

Run by an environment with that extra alone, it releases and checks files by the command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from shoal.datasets import make_census

WHERE = {"spark": ["--master", "local[2]"], "duckdb": ["--memory", "1GB"]}


def main(engine: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        census = make_census(2_000)
        census.schema.to_toml(folder / "people.toml")
        census.frame.write_parquet(folder / "people.parquet")
        census.frame.write_csv(folder / "people.csv")
        how = ["--schema", "people.toml", "--k", "10", "--engine", engine, *WHERE[engine]]
        make_old_java(folder)
        for file in ("people.parquet", "people.csv"):
            shoal(folder, "anonymize", file, "--out", f"released-{file}", *how)
            shoal(folder, "check", f"released-{file}", *how)
        print(f"The extra {engine!r} is enough.")


def shoal(folder: Path, *arguments: str) -> None:
    """A command, with a Java on the path that is too old for Spark."""
    where = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    where["PATH"] = f"{folder}{os.pathsep}{where['PATH']}"
    subprocess.run([sys.executable, "-m", "shoal", *arguments], cwd=folder, env=where, check=True)


def make_old_java(folder: Path) -> None:
    old = folder / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)


if __name__ == "__main__":
    main(sys.argv[1])
