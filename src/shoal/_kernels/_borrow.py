"""Pass arrays to kernels without an owner, to avoid reference counting.

Numba updates the reference count of every array in a tuple, with an atomic instruction, whenever an inner function
receives the tuple or reads an array from it. In kernels that work on few rows at a time, this is over half of the time.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


@intrinsic  # type: ignore[untyped-decorator]
def borrow(typingctx: Any, value: Any) -> Any:
    """Return the array, or tuple of arrays and tuples, without an owner.

    The argument must outlive the result: a kernel borrows only its own arguments, which its caller keeps alive.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return value(value), generate


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = make_array(kind)(context, builder, value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts = [
            _without_owner(context, builder, kind[i], builder.extract_value(value, i))  # type: ignore[index]
            for i in range(len(kind))
        ]
        return context.make_tuple(builder, kind, parts)
    return value
