"""Models by name, and models and predictions from files: trained on a table here, or elsewhere before."""

from __future__ import annotations

import importlib
from typing import Any

# Names are imported when they are first used: scikit-learn's models take longer to import than most releases take.
_HOMES = {
    "FrameEncoder": "estimators",
    "Predictions": "files",
    "SelectedFeature": "selection",
    "Selection": "selection",
    "around": "named",
    "explain_selection": "selection",
    "features": "targets",
    "load_model": "files",
    "make_model": "named",
    "model_names": "named",
    "read_predictions": "files",
    "read_target": "targets",
    "save_model": "files",
    "target_of": "targets",
    "task_of": "targets",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
