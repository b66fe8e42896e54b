"""Trees that lean less on what is sensitive (Goldsteen et al. 2020)."""

from shoal.trees._base import PrivacyTrees
from shoal.trees.export import export_dot, export_text

__all__ = ["PrivacyTrees", "export_dot", "export_text"]
