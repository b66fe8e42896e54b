"""Location-30: check-ins of people in Bangkok, with many sparse dimensions."""

from __future__ import annotations

from shoal.datasets import _files
from shoal.datasets._dataset import Dataset, FrameKind, check_kind, convert

N_PLACES = 446


def fetch_location30(*, frame: FrameKind = "polars") -> Dataset:
    """Fetch Location-30: 5,010 people, 446 places and kinds of places as columns 0/1, and 30 classes.

    Check-ins at Foursquare, collected for membership inference (Shokri et al. 2017) like Purchase-100, on which
    accuracy-guided anonymization was reported to fail (Goldsteen et al. 2020). No two people were at the same places.

    Parameters
    ----------
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``: the target ``class``, from 1 to 30, and the quasi-identifiers ``place-1``
        to ``place-446``, numbers 0 or 1.
    """
    import polars as pl

    from shoal.data.schema import Attribute, Schema

    check_kind(frame)
    places = [f"place-{number}" for number in range(1, N_PLACES + 1)]
    columns = {"class": pl.Int64, **dict.fromkeys(places, pl.Int8)}
    table = pl.read_csv(_files.read("location30/bangkok.csv"), has_header=False, schema=columns)
    quasi = (Attribute(name, role="quasi", kind="numeric") for name in places)
    return Dataset(convert(table, frame), Schema([Attribute("class", role="target", kind="nominal"), *quasi]))
