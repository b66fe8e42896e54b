"""Hand a kernel its arrays without an owner, so that nobody counts references to them.

Numba counts a reference to every array in a tuple whenever a part of a kernel is handed the tuple or takes an array out
of it, with an atomic instruction each time. In kernels that work on small pieces, that is more than half of their time.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


@intrinsic  # type: ignore[untyped-decorator]
def borrow(typingctx: Any, value: Any) -> Any:
    """The same array, or tuple of arrays and tuples, without an owner.

    What is passed in must outlive what comes out: a kernel borrows its own arguments, which its caller keeps.
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
