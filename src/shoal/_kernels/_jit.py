"""The one way kernels are compiled: cached on disk where that is possible, without the GIL.

``numba.njit(cache=True)`` raises while the module is imported when no cache folder can be written (a read-only
installation without a home directory). The package must still work there, only slower on first use.

Kernels run on one thread each. Callers that want more hand disjoint parts to a thread pool: the GIL is released, the
result does not depend on the number of threads, and compiling takes a fraction of what ``parallel=True`` needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """Compile a kernel."""
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[return-value]
    except RuntimeError:
        return numba.njit(cache=False, nogil=True)(function)  # type: ignore[return-value]
