"""Decorators that compile all kernels: cached on disk where possible, without the GIL.

``numba.njit(cache=True)`` raises when the module is imported if no cache folder is writable (a read-only installation
without a home directory). The package must still work there, only slower on first use.

Each kernel runs on one thread. To use several, callers pass disjoint parts to a thread pool: the GIL is released, the
result does not depend on the number of threads, and compiling takes a fraction of the time of ``parallel=True``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

from shoal._kernels._parts import make_part_compiler

PART_COMPILER = make_part_compiler()
Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """Compile a kernel that Python calls."""
    return _compile(function, no_cfunc_wrapper=True)


def inner(function: Function) -> Function:
    """Compile an inner function that only kernels call; it is cached on disk with them."""
    return _compile_part(function)


def merged(function: Function) -> Function:
    """Compile an inner function inline, into the one place that calls it.

    Use it for functions that are called often with many arrays: a call increments and decrements the reference count
    of each.
    """
    return _compile_part(function, forceinline=True)


def _compile_part(function: Function, **options: bool) -> Function:
    # A Python wrapper would unpack the tuples of arrays that inner functions exchange, which compiles to much code.
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if PART_COMPILER is None:
        return _compile(function, **options)
    compiler: Any = numba.njit
    return compiler(nogil=True, pipeline_class=PART_COMPILER, **options)(function)  # type: ignore[no-any-return]


def _compile(function: Function, **options: bool) -> Function:
    compiler: Any = numba.njit
    try:
        kernel = compiler(cache=True, nogil=True, **options)(function)
    except RuntimeError:
        return compiler(nogil=True, **options)(function)  # type: ignore[no-any-return]
    # Numba recompiles a kernel when its own file has changed. Its inner functions are in other files, too.
    index: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):
        index._source_stamp = (index._source_stamp, _stamp_sources())
    return kernel  # type: ignore[no-any-return]


@cache
def _stamp_sources() -> tuple[tuple[float, int], ...]:
    """Return the modification time and the size of each file of this folder."""
    found = [path.stat() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return tuple((one.st_mtime, one.st_size) for one in found)
