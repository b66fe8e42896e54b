"""What is imported when, what is compiled when, and what works without the extras."""

import subprocess
import sys

import numba
import pytest

import shoal
from shoal._kernels import _jit


def run(code: str) -> str:
    """Run code in a fresh process."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_and_the_command_line_is_cheap():
    heavy = "{'numpy', 'numba', 'scipy', 'sklearn', 'narwhals', 'polars', 'pandas', 'pyarrow', 'jinja2'}"
    assert run(f"import shoal, shoal.cli, sys; print(sorted({heavy} & set(sys.modules)))") == "[]"


def test_every_public_name_is_there():
    for name in shoal.__all__:
        assert getattr(shoal, name) is not None
    assert set(shoal.__all__) <= set(dir(shoal))
    with pytest.raises(AttributeError, match="no attribute 'Mondriann'"):
        _ = shoal.Mondriann


def test_the_core_works_without_pandas_and_pyarrow():
    code = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
hidden = ("pandas", "pyarrow", "matplotlib")
PathFinder.find_spec = lambda name, *rest: None if name.split(".")[0] in hidden else find(name, *rest)
import tempfile, pathlib
from shoal import LDiversity, anonymize, check, Schema
from shoal.datasets import make_census
from shoal.files import read_table
census = make_census(2000, seed=0)
release = anonymize(census.frame, census.schema, k=5, constraints=[LDiversity(2)], suppression=0.05)
folder = pathlib.Path(tempfile.mkdtemp())
for ending in ("csv", "parquet"):
    path = folder / f"out.{ending}"
    getattr(release, f"to_{ending}")(path)
    assert check(read_table(path), census.schema).level("k") >= 5
Schema.infer(census.frame).to_toml(folder / "schema.toml")
print(release.k >= 5)
"""
    assert run(code) == "True"


def test_a_second_process_compiles_nothing():
    code = """
import importlib, pkgutil
import shoal._kernels
from numba.core.dispatcher import Dispatcher
from shoal import LDiversity, anonymize
from shoal.datasets import make_census
census = make_census(500, seed=0)
anonymize(census.frame, census.schema, k=5, constraints=[LDiversity(2)])
missed = []
for module in pkgutil.iter_modules(shoal._kernels.__path__):
    for name, value in vars(importlib.import_module(f"shoal._kernels.{module.name}")).items():
        if isinstance(value, Dispatcher) and sum(value.stats.cache_misses.values()):
            missed.append(name)
print(missed)
"""
    run(code)
    assert run(code) == "[]"


def test_kernels_work_where_nothing_can_be_cached(monkeypatch):
    compile_plain = numba.njit

    def njit(*arguments, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return compile_plain(*arguments, **options)

    monkeypatch.setattr(numba, "njit", njit)
    assert _jit.jit(lambda x: x + 1)(1) == 2
