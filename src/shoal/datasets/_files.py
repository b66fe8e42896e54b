"""Find, download and verify the files of the data sets."""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

from shoal.data.files import replacing
from shoal.errors import DataError

TIMEOUT = 30.0
"""Seconds to wait for a server."""


class File(NamedTuple):
    """A file of a data set."""

    dataset: str
    sha256: str
    """SHA-256 of the uncompressed content."""
    urls: tuple[str, ...] = ()
    """Public sources, tried in turn; empty if none holds the file in this form."""


def read(path: str) -> bytes:
    """Return the content of a file by its path in the data folder, fetched if necessary and always verified.

    The folder that ``SHOAL_DATA`` names is searched first, then the cache, then the public sources; plain or with
    ``.gz`` added.
    """
    file = FILES[path]
    given = given_folder()
    found = find(given, path) if given else None
    if found is not None:
        content = _verified(_unpacked(found.read_bytes()), file)
        if content is None:
            raise DataError(
                f"{str(found)!r} is not the file {path!r} of data set {file.dataset!r} (its SHA-256 differs): "
                "replace it, or set SHOAL_DATA to another folder."
            )
        return content
    cached = find(cache_folder(), path)
    content = _verified(_unpacked(cached.read_bytes()), file) if cached else None
    return content if content is not None else _download(path, file)


def given_folder() -> Path | None:
    """Return the folder that the environment variable ``SHOAL_DATA`` names."""
    folder = os.environ.get("SHOAL_DATA")
    return Path(folder).expanduser() if folder else None


def cache_folder() -> Path:
    """Return ``$SHOAL_CACHE``, else ``$XDG_CACHE_HOME/shoal``, else ``~/.cache/shoal``."""
    if folder := os.environ.get("SHOAL_CACHE"):
        return Path(folder).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "shoal"
    home = os.path.expanduser("~")
    # In some containers a process has no home; then "~" stays unchanged.
    return Path(tempfile.gettempdir()) / "shoal" if home == "~" else Path(home) / ".cache" / "shoal"


def find(folder: Path, path: str) -> Path | None:
    """Return the path of the file in a folder, plain or compressed, if it exists."""
    places = (folder / path, folder / f"{path}.gz")
    return next((place for place in places if place.is_file()), None)


def _download(path: str, file: File) -> bytes:
    way_out = "put the file into a folder with that path and set SHOAL_DATA to the folder"
    if not file.urls:
        raise DataError(
            f"Data set {file.dataset!r} needs the file {path!r}, which no public source holds in this form: {way_out}."
        )
    failures = []
    for url in file.urls:
        try:
            request = Request(url, headers={"User-Agent": "shoal"})
            with urlopen(request, timeout=TIMEOUT) as answer:
                content = _verified(_unpacked(answer.read()), file)
        except (URLError, HTTPException, OSError) as error:
            failures.append(f"{url} ({str(getattr(error, 'reason', None) or error) or type(error).__name__})")
            continue
        if content is not None:
            _keep(content, path)
            return content
        failures.append(f"{url} (its file has another SHA-256)")
    raise DataError(
        f"Data set {file.dataset!r} needs the file {path!r}, which could not be downloaded from "
        f"{' or '.join(failures)}: try again later, or {way_out}."
    )


def _keep(content: bytes, path: str) -> None:
    place = cache_folder() / path
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as temporary:
            temporary.write_bytes(content)
    except (OSError, DataError):
        raise DataError(
            f"{path!r} cannot be stored in the cache folder {str(cache_folder())!r}, which cannot be written: "
            "set SHOAL_CACHE to another one."
        ) from None


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return b""  # damaged: no checksum matches


def _verified(content: bytes, file: File) -> bytes | None:
    """Return the form of the content that has the right checksum, or None."""
    forms = (form for form in _line_endings(content) if hashlib.sha256(form).hexdigest() == file.sha256)
    return next(forms, None)


def _line_endings(content: bytes) -> Iterator[bytes]:
    # Line endings differ between public copies: CR LF in some, CR alone in the survey, and some lack the last one.
    yield content
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    yield lines
    yield lines.removesuffix(b"\n")
    yield lines + b"\n"


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_GITHUB = "https://raw.githubusercontent.com"
_MULAN = f"{_GITHUB}/tsoumakas/mulan/master/data"
_SANGREEA = f"{_GITHUB}/cassinius/mlhi-ass2-anonymization/master/data/gen_hierarchies"
_SARCEVIC = f"{_GITHUB}/tanjascats/anonymization/master/data/gen_hierarchies"
_ARX = f"{_GITHUB}/arx-deidentifier/arx/master/data"

FILES: dict[str, File] = {
    "adult/adult.data": File(
        "adult",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        (f"{_UCI}/adult/adult.data",),
    ),
    "adult/adult.test": File(
        "adult",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        (f"{_UCI}/adult/adult.test",),
    ),
    "arx/hierarchies/adult_hierarchy_age.csv": File(
        "adult",
        "463f35372e8b1ad31fc624eb73c5da9297878a044ae5d61038eaf7b431ac55ca",
        (f"{_ARX}/adult_hierarchy_age.csv",),
    ),
    "arx/hierarchies/adult_hierarchy_education.csv": File(
        "adult",
        "f22e5ee519c28b05538d4e5ddea0fbee5f0017fefb3abab3fa02272325bf9ce5",
        (f"{_ARX}/adult_hierarchy_education.csv",),
    ),
    "arx/hierarchies/adult_hierarchy_marital-status.csv": File(
        "adult",
        "3e7ba2c4a5cd4fec059b4e3a2c57fce6e7c34a20daee1e624990ddd7beba85e5",
        (f"{_ARX}/adult_hierarchy_marital-status.csv",),
    ),
    "arx/hierarchies/adult_hierarchy_native-country.csv": File(
        "adult",
        "696d3b53973311c096b33f98bb56e526016910b1a1cd5a1e904cb799d1077023",
        (f"{_ARX}/adult_hierarchy_native-country.csv",),
    ),
    "arx/hierarchies/adult_hierarchy_occupation.csv": File(
        "adult",
        "16dc420d5d7f8ab4d1e6144eb1d19ab8314ef42523fe8c4ee202372db1c98126",
        (f"{_ARX}/adult_hierarchy_occupation.csv",),
    ),
    "arx/hierarchies/adult_hierarchy_race.csv": File(
        "adult",
        "df11abf41fa0669455adc9c9f9fa88663afa0cee8327684ecca861cd32dc4209",
        (f"{_ARX}/adult_hierarchy_race.csv",),
    ),
    "arx/hierarchies/adult_hierarchy_salary-class.csv": File(
        "adult",
        "404895b3fcfb615813efab7ae0d2c50c8b127cec651f9b37d44a648646f86345",
        (f"{_ARX}/adult_hierarchy_salary-class.csv",),
    ),
    "arx/hierarchies/adult_hierarchy_sex.csv": File(
        "adult",
        "537d23f7b6969b916b5a5490eb1b32c273fefdc62ca050a7a813e23bbf3b78b2",
        (f"{_ARX}/adult_hierarchy_sex.csv",),
    ),
    "arx/hierarchies/adult_hierarchy_workclass.csv": File(
        "adult",
        "106f420349bf0071dbb25371795a78799edf24a64c3424619d563c3990ee8d02",
        (f"{_ARX}/adult_hierarchy_workclass.csv",),
    ),
    "gss/GSShappiness.csv": File(
        "gss",
        "60989d87590e4fab518b7b51d0150e7bd47c18f67553504c916bd162913ca05a",
        (f"{_GITHUB}/ftramer/Steal-ML/master/data/GSShappiness.csv",),
    ),
    "loan/lendingclub_119987_derived.csv": File(
        "loan",
        "4b47c3da682c9aa57da237a30f48dcc779b6bcf6af833e060e442b3c65880e59",
    ),
    "loan/lendingclub_2007_2011.csv": File(
        "loan",
        "9d68a2e604690f488c18d12abb6aab3006eda513b0144b81baa63a5b0a629745",
    ),
    "loan/lendingclub_2007_2015_sample.csv": File(
        "loan",
        "356316992f455de21db567e10b7e89d12c4ed714500499faa35266cfcdfcb75e",
    ),
    "loan/lendingclub_2015_allcolumns_small.csv": File(
        "loan",
        "6a8ea72aca156f0458ba3c61e269d3f885a7ca07b981b21b7370aa76dd01d449",
    ),
    "location30/bangkok.csv": File(
        "location30",
        "2ca8f7fc231251e089823e44d39f2d1eed124574cc351c7f80368cfe631dd718",
    ),
    "mulan/cal500.arff": File(
        "cal500",
        "cfe6097ba5fd6e8584e54911ab9783dcab34e898446b7c9370c71d477eae56d3",
        (
            f"{_MULAN}/multi-label/cal500/cal500.arff",
            f"{_GITHUB}/guillaume-bosc/EMM_FBeta/master/data/CAL500.arff",
        ),
    ),
    "mulan/oes97.arff": File(
        "oes97",
        "aee74aa656c709f797f45d817c41996be94c2e924c0f1e7ad315fb7e2f1a9498",
        (f"{_MULAN}/multi-target/oes97.arff",),
    ),
    "mulan/scene-test.arff": File(
        "scene",
        "ea38d20296b3ff7e220f477a3b802a9bcb2d768881fe6ee163efbc97ea527a42",
        (f"{_MULAN}/multi-label/scene/scene-test.arff",),
    ),
    "mulan/scene-train.arff": File(
        "scene",
        "b53ba93bdf412de922e3960389bcee24744fa3e872ce610511fc1d750888b64d",
        (f"{_MULAN}/multi-label/scene/scene-train.arff",),
    ),
    "mulan/wq.arff": File(
        "wq",
        "4a0906b4a51bf52c986790ddaf261ba51faa3da9cffe823badabd88d38d252fe",
        (f"{_MULAN}/multi-target/wq.arff",),
    ),
    "nursery/nursery.data": File(
        "nursery",
        "8e0389c3dd37590248a921c2726d869ee96b817761a35eb8416afa24f31f931d",
        (f"{_UCI}/nursery/nursery.data",),
    ),
    "sangreea-hierarchies/IncomeGH.json": File(
        "adult",
        "abfc4829b3db43ead21994262c52a318a55145bf6512de1dfa800204397e676a",
        (f"{_SARCEVIC}/IncomeGH.json",),
    ),
    "sangreea-hierarchies/MaritalStatusGH.json": File(
        "adult",
        "0b06ffb1885c17f0292301f4007f81a5e529e9b938061260cef924b4daa06fcc",
        (f"{_SANGREEA}/MaritalStatusGH.json",),
    ),
    "sangreea-hierarchies/NativeCountryBinGH.json": File(
        "adult",
        "c73c731640a40122534b8647dd977ee69055641c000639d519c39454555b7bf5",
        (f"{_SARCEVIC}/NativeCountryBinGH.json",),
    ),
    "sangreea-hierarchies/NativeCountryGH.json": File(
        "adult",
        "6458974f0c1b3e434450c368e03a7665610622e12321cb43f1fc45586cbea7af",
        (f"{_SANGREEA}/NativeCountryGH.json",),
    ),
    "sangreea-hierarchies/OccupationGH.json": File(
        "adult",
        "8971f9e2e2344767eafa575f1683db2f5c751dd96304d9c9e15e22fee6b499b6",
        (f"{_SARCEVIC}/OccupationGH.json",),
    ),
    "sangreea-hierarchies/RaceGH.json": File(
        "adult",
        "4730f04650f93ec67001dfe8dbcbbca59a44f3a4e67bbb9abacd17c0a47f6c4d",
        (f"{_SANGREEA}/RaceGH.json",),
    ),
    "sangreea-hierarchies/RelationshipGH.json": File(
        "adult",
        "279a58c3ebd2f9a18dfb5591c7b5266d85ab49052db248ddb423330f44ffe4bd",
        (f"{_SARCEVIC}/RelationshipGH.json",),
    ),
    "sangreea-hierarchies/SexGH.json": File(
        "adult",
        "e90f838cc2812f1b0762a84362418cd7a6c5391ec5b9d25ff2a826451b09091e",
        (f"{_SANGREEA}/SexGH.json",),
    ),
    "sangreea-hierarchies/WorkClassGH.json": File(
        "adult",
        "0b525971af6ca0e4f57ebebe32a9c1b50a4c0d955443987eafe456e5d3a56764",
        (f"{_SANGREEA}/WorkClassGH.json",),
    ),
}
