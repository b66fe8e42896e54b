"""Trees, forests and boosted trees that rely less on sensitive features (Goldsteen et al. 2020).

The growth of a tree on binned columns, which anonymizers also use, is in :mod:`shoal.partition`.
"""

from shoal.trees._base import PrivacyTrees
from shoal.trees.export import export_dot, export_text

__all__ = ["PrivacyTrees", "export_dot", "export_text"]
