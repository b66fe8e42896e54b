"""Times of imports and of compilation, and operation without the extras."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numba
import pytest

import shoal
from shoal import LDiversity
from shoal._kernels import _jit, _parts, ahead
from shoal.jobs import warm_up


def run(code: str, **environment: str) -> str:
    """Run code in a fresh process."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
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
from shoal.data.files import read_table
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


def test_a_kernel_is_compiled_anew_when_any_kernel_has_changed():
    """Its inner functions may have changed: numba checks only the file of the kernel itself."""
    stamp = "from shoal._kernels import groups; print(groups.look_up._cache._cache_file._source_stamp)"
    others = f"from shoal._kernels import _jit; _jit._stamp_sources = lambda: 'others'; {stamp}"
    assert run(stamp) == run(stamp) != run(others)


def make_kernel():
    """Return a kernel of two parts, of which one can fail."""

    @_jit.inner
    def share(x, n):
        if n < 0:
            raise ValueError("negative")
        return x / n

    @_jit.merged
    def twice(x, n):
        return 2 * share(x, n)

    @numba.njit
    def kernel(x, n):
        return twice(x, n) + share(x, n)

    return kernel


@pytest.mark.parametrize("compiler", ["our own", "numba's"])
def test_parts_of_kernels_fail_like_the_whole(monkeypatch, compiler):
    if compiler == "numba's":
        monkeypatch.setattr(_jit, "PART_COMPILER", None)
        monkeypatch.setattr(_jit, "_compile", lambda part, **options: numba.njit(**options)(part))
    kernel = make_kernel()
    assert kernel(4.0, 2) == 6.0
    with pytest.raises(ZeroDivisionError):
        kernel(4.0, 0)
    with pytest.raises(ValueError, match="negative"):
        kernel(4.0, -1)


def test_parts_are_compiled_by_numba_if_its_version_was_not_tested(monkeypatch):
    assert _parts.make_part_compiler() is not None
    for version in ("0.60.0", "0.99.0rc1", "1.0", "unknown"):
        monkeypatch.setattr(numba, "__version__", version)
        assert _parts.make_part_compiler() is None


@pytest.mark.parametrize(
    ("part", "constraints"),
    [*((part, []) for part in ahead.REHEARSALS), ("trees", [LDiversity(2)]), ("cuts", [LDiversity(2)])],
)
def test_rehearsals_release_rows(part, constraints):
    getattr(warm_up, f"rehearse_{part}")(constraints)


@pytest.fixture
def started(monkeypatch):
    """Record the commands that were started to compile ahead; each ends at once, as if it had failed."""
    commands = []

    def start(command, **options):
        commands.append(command[1:])
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])

    monkeypatch.setattr(ahead, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(ahead, "_running", {})
    yield commands
    ahead.wait(*ahead.REHEARSALS)


def test_kernels_are_compiled_ahead_on_the_first_run_only(started, monkeypatch, tmp_path):
    monkeypatch.setattr(ahead, "_is_compiled", lambda part: True)
    ahead.compile_ahead("trees", "cuts")
    assert started == []
    monkeypatch.setattr(ahead, "_is_compiled", lambda part: part == "cuts")
    for _ in range(2):
        ahead.compile_ahead("trees", "cuts", guarded=True)
    ahead.compile_ahead("questions")
    assert started == [["-m", "shoal.jobs.warm_up", "trees", "guarded"], ["-m", "shoal.jobs.warm_up", "questions"]]
    for _ in range(2):
        ahead.wait("trees", "cuts")


def test_nothing_is_compiled_ahead_on_a_single_core(started, monkeypatch):
    monkeypatch.setattr(ahead, "_is_compiled", lambda part: False)
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 1)
    ahead.compile_ahead("trees")
    assert started == []


def test_what_is_compiled_is_found_on_disk(tmp_path):
    code = "from shoal._kernels import ahead; print([*map(ahead._is_compiled, ahead.REHEARSALS)])"
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == "[False, False, False, False]"
    grow = "import numpy as np; from shoal import PrivacyTreeClassifier as T; T().fit(np.eye(4), [0, 0, 1, 1]); "
    assert run(grow + code).startswith("[True, True, ")


def test_commands_put_off_imports_that_they_do_not_use():
    code = """
import sys
from shoal.cli.startup import PUT_OFF, import_sklearn
import_sklearn()
print([name for name in PUT_OFF if name in sys.modules])
import sklearn.utils.fixes
print(sklearn.utils.fixes.pd.DataFrame.__name__, "pandas" in sys.modules)
import scipy.stats, sklearn.linear_model
print(scipy.stats.norm.cdf(0.0))
import_sklearn()
"""
    assert run(code).split("\n") == ["[]", "DataFrame True", "0.5"]


def test_a_release_from_the_command_line_imports_no_models(tmp_path):
    code = f"""
import sys
from shoal.cli import run
from shoal.datasets import make_census
census = make_census(200)
census.frame.write_csv(r"{tmp_path}/in.csv")
census.schema.to_toml(r"{tmp_path}/in.toml")
run([*r"anonymize {tmp_path}/in.csv --schema {tmp_path}/in.toml --k 5 --out {tmp_path}/out.csv --json".split()])
heavy = "pandas scipy.stats scipy.optimize sklearn.neural_network sklearn.ensemble sklearn.metrics matplotlib jinja2"
print([name for name in heavy.split() if name in sys.modules])
"""
    assert run(code).split("\n")[-1] == "[]"
