"""Trees that lean less on what is sensitive (Goldsteen et al. 2020)."""

from shoal.trees.export import export_dot, export_text

__all__ = ["export_dot", "export_text"]
