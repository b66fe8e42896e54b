"""Models by name, and models and predictions from files: trained on a table here, or elsewhere before."""

from shoal.models.estimators import FrameEncoder
from shoal.models.files import Predictions, load_model, read_predictions, save_model
from shoal.models.named import around, features, make_model, model_names, read_target, target_of, task_of
from shoal.models.selection import SelectedFeature, Selection, explain_selection

__all__ = [
    "FrameEncoder",
    "Predictions",
    "SelectedFeature",
    "Selection",
    "around",
    "explain_selection",
    "features",
    "load_model",
    "make_model",
    "model_names",
    "read_predictions",
    "read_target",
    "save_model",
    "target_of",
    "task_of",
]
