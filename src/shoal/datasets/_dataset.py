"""The form of every data set: a frame of the requested kind, and its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from shoal.errors import DataError
from shoal.parameters import Choice

if TYPE_CHECKING:
    import polars

    from shoal.data.schema import Schema

FrameKind = Literal["polars", "pandas", "pyarrow"]


class Dataset(NamedTuple):
    """A table with the roles of its columns."""

    frame: Any
    """A polars, pandas or pyarrow table."""
    schema: Schema
    """Role, kind and hierarchy of each column."""


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of frame before any work is done."""
    Choice(get_args(FrameKind)).check("frame", kind)


def convert(frame: polars.DataFrame, kind: FrameKind) -> Any:
    """Return the same table in the library asked for."""
    from shoal.data import frames

    try:
        return frames.convert(frame, kind)
    except ImportError as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(
            f"frame={kind!r} needs a library that is not installed ({reason}): "
            "install pandas and pyarrow, or choose 'polars'."
        ) from None
