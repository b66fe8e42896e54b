"""Models that the studio trains to compare raw and released rows: by name, or from an uploaded file."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator, clone

from shoal.data.schema import Schema
from shoal.errors import DataError
from shoal.models.files import load_model
from shoal.models.named import make_model, model_names

FOLDER = "models"
ENDINGS = ".skops", ".joblib", ".pkl", ".pickle"


def find_estimator(name: str, folder: Path, schema: Schema) -> Any:
    """Return an untrained model by its name or the name of an uploaded file."""
    if name in model_names():
        return make_model(name, schema)
    path = folder / FOLDER / name
    if not is_file_name(name) or not path.is_file():
        raise DataError(f"There is no model {name!r}: choose {', '.join(model_names())}, or upload a file.")
    # take_model has checked that the file may be loaded.
    return clone(load_model(path, trust=True))


def take_model(source: Path, name: str, folder: Path, *, trust: bool) -> str:
    """Copy an uploaded model into a folder if it is safe or trusted to load; return its new name."""
    kept = re.sub(r"[^\w.-]+", "_", Path(name).name)[-80:]
    if not is_file_name(kept):
        raise DataError(f"{name!r} is not a model file: upload one that ends in {', '.join(ENDINGS)}.")
    model = load_model(source, trust=trust)
    if not isinstance(model, BaseEstimator):
        raise DataError(f"{name!r} holds a {type(model).__name__}, which cannot be retrained: upload an estimator.")
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, folder / FOLDER / kept)
    return kept


def is_file_name(name: str) -> bool:
    """Return True if the name of a model is a file name."""
    return Path(name).suffix.lower() in ENDINGS and Path(name).name == name
