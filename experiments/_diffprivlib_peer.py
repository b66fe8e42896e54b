"""Train or ask a forest of diffprivlib: ``python _diffprivlib_peer.py fit given.npz found.npz``.

Run by the interpreter that has diffprivlib, so nothing of Shoal may be imported here. The model is a pickle that is
read by nobody but this script.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from typing import Any

import numpy as np


def fit(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Train a forest, and hand it back as bytes."""
    from diffprivlib.models import RandomForestClassifier  # type: ignore[import-not-found]

    model = RandomForestClassifier(
        n_estimators=int(given["n_estimators"]),
        epsilon=float(given["epsilon"]),
        bounds=(given["low"], given["high"]),
        classes=list(range(int(given["n_classes"]))),
        max_depth=int(given["max_depth"]),
        random_state=int(given["seed"]),
    )
    model.fit(given["X"], given["codes"])
    return {"model": np.frombuffer(pickle.dumps(model), np.uint8)}


def ask(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The probabilities of the classes."""
    model = pickle.loads(given["model"].tobytes())
    shares = np.zeros((len(given["X"]), int(given["n_classes"])))
    shares[:, np.asarray(model.classes_, int)] = model.predict_proba(given["X"])
    return {"shares": shares}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with np.load(sys.argv[2]) as file:
        content = dict(file)
    found: dict[str, Any] = {"fit": fit, "ask": ask}[sys.argv[1]](content)
    np.savez(sys.argv[3], **found)
