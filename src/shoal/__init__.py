"""Shoal, the privacy workbench for tabular machine learning."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# The module of each public name; it is imported when it is first used, so that `import shoal` stays instant.
_HOMES = {
    "Attribute": "data.schema",
    "Schema": "data.schema",
    "Recipe": "data.schema",
    "Hierarchy": "data.hierarchy.hierarchy",
    "KAnonymity": "privacy.models",
    "AlphaKAnonymity": "privacy.models",
    "LDiversity": "privacy.models",
    "TCloseness": "privacy.models",
    "DeltaDisclosure": "privacy.models",
    "BetaLikeness": "privacy.models",
    "DeltaPresence": "privacy.models",
    "KMap": "privacy.models",
    "Mondrian": "anonymizers.mondrian",
    "AccuracyGuided": "anonymizers.accuracy_guided",
    "SaNGreeA": "anonymizers.sangreea",
    "Flash": "anonymizers.flash",
    "HilbertCurve": "anonymizers.hilbert",
    "RPlusTree": "anonymizers.rplus",
    "PrivacyTreeClassifier": "trees.tree",
    "PrivacyTreeRegressor": "trees.tree",
    "PrivacyForestClassifier": "trees.forest",
    "PrivacyForestRegressor": "trees.forest",
    "PrivacyBoostClassifier": "trees.boost",
    "PrivacyLightGBM": "trees.gradient",
    "PrivacySearchCV": "trees.search",
    "NullSpaceCleaner": "cleaners.null_space",
    "TargetedNullSpaceCleaner": "cleaners.targeted",
    "anonymize": "jobs.release",
    "check": "privacy.checking",
    "Release": "jobs.release",
    "make_model": "models.named",
    "evaluate": "jobs.evaluate",
    "protect": "jobs.protect",
    "train": "jobs.train",
    "clean": "jobs.clean",
    "audit": "jobs.audit",
    "ProtectedModel": "evaluation.protected_model",
    "WeightSession": "jobs.weights",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"shoal.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
