"""Which limits are tried in which model, the paper's own among them, and what the paper found with these."""

from __future__ import annotations

from _guided import MODELS

WEIGHTS = 0.2, 0.4, 0.6, 0.8, 1.0
GRID: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("nursery", "tree"): {
        "weights": WEIGHTS,
        "levels": (2, 4, 6, 8, 10),
        "visits": (10, 25, 50, 75, 100, 200, 400),
        "splits": (30, 15, 10, 5, 3, 2, 1),
    },
    ("nursery", "forest"): {
        "weights": WEIGHTS[::2],
        "levels": (2, 4, 6, 8),
        "visits": (10, 50, 100, 200),
        "splits": (15, 12, 10, 9, 5, 2),
    },
    ("nursery", "boosting"): {
        "weights": WEIGHTS,
        "levels": (2, 4, 6, 8),
        "visits": (50, 100, 200, 400),
        "splits": (15, 10, 5, 2),
    },
    ("gss", "tree"): {
        "weights": WEIGHTS,
        "levels": (5, 10, 15, 20, 25),
        "visits": (3000, 7000, 9000, 10000),
        "splits": (100, 30, 10, 5, 3, 1),
    },
    ("gss", "forest"): {
        "weights": WEIGHTS[::2],
        "levels": (5, 10, 15, 20),
        "visits": (1000, 3000, 5000, 7000),
        "splits": (100, 30, 10, 3),
    },
    ("gss", "boosting"): {
        "weights": WEIGHTS,
        "levels": (2, 4, 6, 8),
        "visits": (400, 500, 750, 1000),
        "splits": (30, 10, 5, 2),
    },
}
# Marks of the paper's Table 1; it has one row for levels.
MARKED = {
    "nursery": {("weights", "boosting"), ("levels", "tree"), *(("splits", model) for model in MODELS)},
    "gss": {(method, model) for method in ("weights", "levels", "splits") for model in MODELS}
    - {("weights", "forest"), ("levels", "forest")},
}
# Tables 3 to 6 of its appendix: thresholds and importances. Which feature they are of is not said in the text.
APPENDIX = {
    "nursery": {
        ("Table 3", "tree", "visits", "parents"): {10: 0.118, 25: 0.08, 50: 0.06, 75: 0.046, 100: 0.036},
        ("Table 4", "forest", "splits", "parents"): {15: 0.074, 12: 0.043, 10: 0.04, 9: 0.046},
    },
    "gss": {
        ("Table 5", "boosting", "weights", "children"): {0.2: 0.095, 0.4: 0.058, 0.6: 0.044, 0.8: 0.031, 1.0: 0.032},
        ("Table 6", "boosting", "visits", "children"): {400: 0.029, 500: 0.015, 750: 0.003, 1000: 0.0},
    },
}
