"""Shoal, the privacy workbench for tabular machine learning."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Where each public name lives; it is imported when it is first used, so that `import shoal` stays instant.
_HOMES = {
    "Attribute": "schema",
    "Schema": "schema",
    "Recipe": "schema",
    "Hierarchy": "hierarchy",
    "KAnonymity": "privacy",
    "AlphaKAnonymity": "privacy",
    "LDiversity": "privacy",
    "TCloseness": "privacy",
    "DeltaDisclosure": "privacy",
    "BetaLikeness": "privacy",
    "DeltaPresence": "privacy",
    "KMap": "privacy",
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
    "anonymize": "release",
    "check": "release",
    "Release": "release",
    "make_model": "models",
    "evaluate": "evaluation",
    "protect": "protection",
    "train": "training",
    "clean": "cleaning",
    "audit": "auditing",
    "ProtectedModel": "protected_model",
    "WeightSession": "interactive",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"shoal.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
