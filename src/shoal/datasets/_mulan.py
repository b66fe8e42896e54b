"""The multi-label and multi-target sets of the Mulan collection in the study of null-space cleaning (Xu et al. 2017).

A client sends the features of a row and wants the predictor to learn some labels from them but not the others. So
features are numeric attributes in the role "other" (nothing is a quasi-identifier here), and every label is a target;
which labels are desired and which confidential is the user's choice.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from shoal.datasets import _files
from shoal.datasets._dataset import Dataset, FrameKind, check_kind, convert
from shoal.parameters import Choice

if TYPE_CHECKING:
    import polars


def fetch_scene(subset: Literal["all", "train", "test"] = "all", *, frame: FrameKind = "polars") -> Dataset:
    """Fetch scene: 2,407 pictures with 294 colour features and 6 labels 0/1 (Boutell et al. 2004).

    Parameters
    ----------
    subset : {"all", "train", "test"}
        Training rows (1,211), test rows (1,196), or the former followed by the latter.
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``: features "other", labels targets.
    """
    Choice(("all", "train", "test")).check("subset", subset)
    paths = [f"mulan/scene-{part}.arff" for part in ("train", "test") if subset in (part, "all")]
    return _fetch(paths, n_labels=6, kind="nominal", frame=frame)


def fetch_cal500(*, frame: FrameKind = "polars") -> Dataset:
    """Fetch CAL500: 502 songs with 68 sound features and 174 labels 0/1 (Turnbull et al. 2008).

    Parameters
    ----------
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``: features "other", labels targets.
    """
    return _fetch(["mulan/cal500.arff"], n_labels=174, kind="nominal", frame=frame)


def fetch_wq(*, frame: FrameKind = "polars") -> Dataset:
    """Fetch water quality: 1,060 samples of Slovenian rivers, 16 chemical features, the abundance of 14 species.

    Targets take the values 0, 1, 3 and 5 (Dzeroski et al. 2000) and are numeric.

    Parameters
    ----------
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``: features "other", the 14 last columns targets.
    """
    return _fetch(["mulan/wq.arff"], n_labels=14, kind="numeric", frame=frame)


def fetch_oes97(*, frame: FrameKind = "polars") -> Dataset:
    """Fetch oes97: employees in 263 occupations in 334 American cities in 1997, and in 16 more occupations as targets.

    From the Occupational Employment Survey (Spyromitros-Xioufis et al. 2016).

    Parameters
    ----------
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``: features "other", the 16 last columns targets.
    """
    return _fetch(["mulan/oes97.arff"], n_labels=16, kind="numeric", frame=frame)


def _fetch(paths: list[str], n_labels: int, kind: str, frame: FrameKind) -> Dataset:
    import polars as pl

    from shoal.data.schema import Attribute, Schema

    check_kind(frame)
    table = pl.concat([read_arff(_files.read(path)) for path in paths])
    features, labels = table.columns[:-n_labels], table.columns[-n_labels:]
    attributes = [Attribute(name, role="other", kind="numeric") for name in features]
    attributes += [Attribute(name, role="target", kind=kind) for name in labels]
    return Dataset(convert(table, frame), Schema(attributes))


def read_arff(content: bytes) -> polars.DataFrame:
    """Read a dense ARFF file of numbers, and of nominal attributes whose values are whole numbers."""
    import polars as pl
    from scipy.io import arff

    rows, meta = arff.loadarff(io.StringIO(content.decode()))

    def columns() -> Iterator[polars.Series]:
        for name, kind in zip(meta.names(), meta.types(), strict=True):
            yield pl.Series(name, rows[name] if kind == "numeric" else rows[name].astype("i8"))

    return pl.DataFrame(list(columns()))
