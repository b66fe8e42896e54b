"""Models that are trained to see what a release costs: by name, or from a file that somebody brought along."""

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
    """An untrained model by its name, or like the one in a file that was taken."""
    if name in model_names():
        return make_model(name, schema)
    path = folder / FOLDER / name
    if not is_file_name(name) or not path.is_file():
        raise DataError(f"There is no model {name!r}: choose {', '.join(model_names())}, or bring a file.")
    # Whether to trust it was decided when it was taken.
    return clone(load_model(path, trust=True))


def take_model(source: Path, name: str, folder: Path, *, trust: bool) -> str:
    """Take over the file of a model, if it can be loaded safely, or is trusted; returns the name that it has here."""
    kept = re.sub(r"[^\w.-]+", "_", Path(name).name)[-80:]
    if not is_file_name(kept):
        raise DataError(f"{name!r} is no file of a model: bring one that ends in {', '.join(ENDINGS)}.")
    model = load_model(source, trust=trust)
    if not isinstance(model, BaseEstimator):
        raise DataError(f"{name!r} holds a {type(model).__name__}, which cannot be trained anew: bring an estimator.")
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, folder / FOLDER / kept)
    return kept


def is_file_name(name: str) -> bool:
    """Whether a model is called as a file, and not by its name."""
    return Path(name).suffix.lower() in ENDINGS and Path(name).name == name
