"""Load models and predictions from files, and save models."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shoal.data import frames
from shoal.data.files import read_table, replacing
from shoal.data.frames import Factor
from shoal.data.value_text import plain_text
from shoal.errors import DataError, ShoalError, reason
from shoal.models.guides import SUM_TOLERANCE
from shoal.models.targets import numbers_of


class Predictions(NamedTuple):
    """The outputs of a black box, one entry per row."""

    values: np.ndarray
    """Classes or numbers, one per row; or probabilities, one column per class."""
    classes: list[str] | None = None
    """Names of the classes, if the values are probabilities."""


def load_model(path: str | Path, *, trust: bool | Sequence[str] = False) -> Any:
    """Load a trained model from a file.

    Parameters
    ----------
    path : path
        ``.skops`` is read without running any code from the file. ``.joblib``, ``.pkl`` and ``.pickle`` run it.
    trust : bool or sequence of str
        True if you trust the maker of the file with your machine; for a ``.skops`` file also the names of the types
        that you trust. Trees are such a type: scikit-learn follows their content without checking, so a crafted one
        can crash the process.

    Returns
    -------
    object
        Any object with ``predict``.
    """
    path = Path(path)
    load = _LOADERS.get(path.suffix.lower())
    if load is None:
        raise DataError(f"{str(path)!r} ends in {path.suffix!r}: Shoal loads models from {', '.join(_LOADERS)} files.")
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r}: check the path.")
    try:
        model = load(path, trust)
    except ShoalError:
        raise
    except Exception as error:  # a broken file can fail anywhere in its reader
        raise DataError(
            f"{str(path)!r} cannot be loaded ({reason(error)}): save it again with the versions installed here."
        ) from None
    if not hasattr(model, "predict"):
        raise DataError(f"{str(path)!r} holds a {type(model).__name__}, which has no predict: save a trained model.")
    return model


def save_model(model: Any, path: str | Path) -> None:
    """Save a model as ``.skops``, which is safe to load, or as ``.joblib``, in full or not at all."""
    path = Path(path)
    save = _SAVERS.get(path.suffix.lower())
    if save is None:
        raise DataError(f"{str(path)!r} ends in {path.suffix!r}: Shoal saves models as {' and '.join(_SAVERS)} files.")
    with replacing(path) as temporary:
        try:
            save(model, temporary)
        except OSError:
            raise
        except Exception as error:  # the error depends on the parts of the model
            raise DataError(f"{str(path)!r} cannot be written ({reason(error)}), so no file was.") from None


def read_predictions(path: str | Path, n_rows: int) -> Predictions:
    """Read the outputs of a black box: a CSV or Parquet file with one row per row of the table.

    Parameters
    ----------
    path : path
        One column holds classes or numbers. Several hold probabilities, each column named by its class.
    n_rows : int
        Number of rows of the table.
    """
    frame = read_table(path)
    if frame.height != n_rows:
        raise DataError(
            f"{str(path)!r} has {frame.height:,} predictions for {n_rows:,} rows: predict every row, in the same order."
        )
    factors = {name: frames.factorize(frames.open_frame(frame)[name]) for name in frame.columns}
    for name, factor in factors.items():
        missing = factor.codes < 0
        if missing.any():
            raise DataError(
                f"Column {name!r} of {str(path)!r} has {missing.sum()} missing values, the first in row "
                f"{missing.argmax()}: predict every row."
            )
    if len(factors) == 1:
        ((name, factor),) = factors.items()
        if factor.content == "number":
            return Predictions(numbers_of(factor, name)[factor.codes])
        return Predictions(np.array([plain_text(v, factor.content) for v in factor.values])[factor.codes])
    return _probabilities(path, factors)


def _probabilities(path: str | Path, factors: Mapping[str, Factor]) -> Predictions:
    for name, factor in factors.items():
        if factor.content != "number":
            raise DataError(
                f"Column {name!r} of {str(path)!r} holds {factor.content}s, not probabilities: "
                "leave one column of predictions, or one of probabilities per class."
            )
        low, high = factor.values.min(), factor.values.max()
        if low < 0 or high > 1:
            raise DataError(
                f"Column {name!r} of {str(path)!r} holds {plain_text(low if low < 0 else high, 'number')}, "
                "which is not a probability: scale them to between 0 and 1."
            )
    values = np.column_stack([factor.values[factor.codes].astype(float) for factor in factors.values()])
    wrong = np.abs(values.sum(axis=1) - 1) > SUM_TOLERANCE
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"The probabilities in row {row} of {str(path)!r} sum to {values[row].sum():.4g}, not to 1: "
            "give a column for every class, and nothing else."
        )
    return Predictions(values, list(factors))


def _load_skops(path: Path, trust: bool | Sequence[str]) -> Any:
    import skops.io

    try:
        found = skops.io.get_untrusted_types(file=path)
    except (zipfile.BadZipFile, KeyError):
        raise DataError(f"{str(path)!r} is not a skops file: save it by shoal.models.save_model or skops.io.") from None
    trusted = found if trust is True else [*_SAFE_TYPES, *(trust or ())]
    unknown = [name for name in found if name not in trusted]
    if unknown:
        raise DataError(
            f"{str(path)!r} holds types that are not known to be safe, {', '.join(unknown)}: "
            "pass trust with their names, or trust=True (--trust), if you trust whoever made the file."
        )
    return skops.io.load(path, trusted=trusted)


def _load_pickle(path: Path, trust: bool | Sequence[str]) -> Any:
    if trust is not True:
        raise DataError(
            f"Loading {str(path)!r} would run whatever code its maker put there: save the model as .skops, which is "
            "safe to load, or pass trust=True (--trust) if you trust them with your machine."
        )
    if path.suffix.lower() == ".joblib":
        import joblib

        return joblib.load(path)
    with path.open("rb") as file:
        return pickle.load(file)


def _save_skops(model: Any, path: Path) -> None:
    import skops.io

    skops.io.dump(model, path)


def _save_joblib(model: Any, path: Path) -> None:
    import joblib

    joblib.dump(model, path)


_LOADERS = {".skops": _load_skops, ".joblib": _load_pickle, ".pkl": _load_pickle, ".pickle": _load_pickle}
_SAVERS = {".skops": _save_skops, ".joblib": _save_joblib}
_SAFE_TYPES = [
    "numpy.dtype",
    "builtins.frozenset",
    *(f"shoal.trees._features.{name}" for name in ("Names", "Numbers")),
    # Trees check their arrays before rows are sent down.
    *(f"shoal.trees._grown.{name}" for name in ("Branches", "Sums", "Tree")),
    *(
        f"shoal.trees.{module}.Privacy{name}"
        for module, name in (
            ("tree", "TreeClassifier"),
            ("tree", "TreeRegressor"),
            ("forest", "ForestClassifier"),
            ("forest", "ForestRegressor"),
            ("boost", "BoostClassifier"),
        )
    ),
    *(f"shoal.models.estimators.{name}" for name in ("CodedTarget", "FrameEncoder", "ModelPipeline")),
    *(f"shoal.models.networks.{name}" for name in ("StoppingMLPClassifier", "StoppingMLPRegressor")),
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
]
"""Types that only hold data, in addition to those that skops knows itself."""
