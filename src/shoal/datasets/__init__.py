"""Data sets: a synthetic census of any size, and the public data that the papers used.

``make_census`` needs no file. The others look for their files in the folder that the environment variable
``SHOAL_DATA`` names, then in a cache (``SHOAL_CACHE``, else ``~/.cache/shoal``), and download them otherwise; the
SHA-256 of every file is verified. Each returns a frame and its schema, prepared as in the papers.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.datasets import _files
from shoal.datasets._adult import SANGREEA, fetch_adult
from shoal.datasets._census import make_census
from shoal.datasets._dataset import Dataset, FrameKind
from shoal.datasets._location import fetch_location30
from shoal.datasets._mulan import fetch_cal500, fetch_oes97, fetch_scene, fetch_wq
from shoal.datasets._surveys import LOAN_FILES, fetch_gss, fetch_loan, fetch_nursery

__all__ = [
    "Dataset",
    "DatasetInfo",
    "FrameKind",
    "fetch_adult",
    "fetch_cal500",
    "fetch_gss",
    "fetch_loan",
    "fetch_location30",
    "fetch_nursery",
    "fetch_oes97",
    "fetch_scene",
    "fetch_wq",
    "list_datasets",
    "make_census",
]


class DatasetInfo(NamedTuple):
    """An entry of the list of data sets."""

    name: str
    function: str
    """The function of this module that returns it."""
    rows: int | None
    """The number with the function's defaults; None for any number."""
    columns: int
    about: str
    available: bool
    """True if it can be loaded without a network."""
    where: str
    """The folder that holds it, or "embedded", "download", or "missing": neither here nor public."""


def list_datasets() -> list[DatasetInfo]:
    """List the data sets, and where each is found.

    Examples
    --------
    >>> [info.name for info in list_datasets() if info.where == "embedded"]
    ['census']
    """
    return [_info(*entry) for entry in _DATASETS]


def _info(name: str, rows: int | None, columns: int, about: str, paths: tuple[str, ...]) -> DatasetInfo:
    function = "make_census" if not paths else f"fetch_{name}"
    where = _where(paths)
    return DatasetInfo(name, function, rows, columns, about, where not in ("download", "missing"), where)


def _where(paths: tuple[str, ...]) -> str:
    if not paths:
        return "embedded"
    folders = [folder for folder in (_files.given_folder(), _files.cache_folder()) if folder is not None]
    holding = [next((str(f) for f in folders if _files.find(f, path)), None) for path in paths]
    missing = [path for path, folder in zip(paths, holding, strict=True) if folder is None]
    if not missing:
        return str(holding[0])
    return "download" if all(_files.FILES[path].urls for path in missing) else "missing"


_DATASETS: tuple[tuple[str, int | None, int, str, tuple[str, ...]], ...] = (
    ("census", None, 15, "synthetic people like those of UCI Adult, any number", ()),
    (
        "adult",
        48_842,
        13,
        "UCI Adult, census income 1994, with hierarchies of SaNGreeA or ARX",
        (
            "adult/adult.data",
            "adult/adult.test",
            *(f"sangreea-hierarchies/{file}.json" for name, file in SANGREEA.items() if name != "income"),
        ),
    ),
    ("nursery", 12_958, 9, "UCI Nursery, ranked applications to nursery schools", ("nursery/nursery.data",)),
    ("gss", 24_455, 11, "General Social Survey 1972-2006, marital happiness", ("gss/GSShappiness.csv",)),
    (
        "loan",
        42_535,
        36,
        "Lending Club loans, four partial extracts (the paper's file is not public)",
        (f"loan/{LOAN_FILES['2007-2011']}.csv",),
    ),
    ("location30", 5_010, 447, "Location-30, check-ins in Bangkok with 30 classes", ("location30/bangkok.csv",)),
    ("scene", 2_407, 300, "Mulan scene, pictures with 6 labels", ("mulan/scene-train.arff", "mulan/scene-test.arff")),
    ("cal500", 502, 242, "Mulan CAL500, songs with 174 labels", ("mulan/cal500.arff",)),
    ("wq", 1_060, 30, "Mulan water quality, river samples with 14 targets", ("mulan/wq.arff",)),
    ("oes97", 334, 279, "Mulan oes97, jobs in American cities with 16 targets", ("mulan/oes97.arff",)),
)
