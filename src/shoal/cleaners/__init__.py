"""Clean a query before it is sent to a predictor, so that it tells no more than the predictor needs.

A predictor that begins with a linear stage sees a row only through ``x @ matrix``. Whatever lies in the null space of
the matrix can be left out without any effect, and what lies nearly in it with little (Xu et al. 2017).
"""

from shoal.cleaners._base import Cleaner

__all__ = ["Cleaner"]
