"""The one way kernels are compiled: cached on disk where that is possible, without the GIL.

``numba.njit(cache=True)`` raises while the module is imported when no cache folder can be written (a read-only
installation without a home directory). The package must still work there, only slower on first use.

Kernels run on one thread each. Callers that want more hand disjoint parts to a thread pool: the GIL is released, the
result does not depend on the number of threads, and compiling takes a fraction of what ``parallel=True`` needs.
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
    """Compile a part of a kernel that only other kernels call; it is kept on disk with them."""
    return _compile_part(function)


def merged(function: Function) -> Function:
    """Compile a part of a kernel into the one place that calls it.

    For parts that are called often and are handed many arrays: a call counts a reference to each of them, and back.
    """
    return _compile_part(function, forceinline=True)


def _compile_part(function: Function, **options: bool) -> Function:
    # A wrapper for Python would unpack the tuples of arrays that parts hand to each other, which is a lot of code.
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
    # Numba compiles a kernel anew when its own file has changed. Its parts lie in other files, too.
    index: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):
        index._source_stamp = (index._source_stamp, _stamp_sources())
    return kernel  # type: ignore[no-any-return]


@cache
def _stamp_sources() -> tuple[tuple[float, int], ...]:
    """When the files of this folder were written, and how long they are."""
    found = [path.stat() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return tuple((one.st_mtime, one.st_size) for one in found)
