"""Cleaners of queries: they remove what a predictor does not need, before a query is sent to it.

A predictor that begins with a linear stage sees a row only through ``x @ matrix``. Components in the null space of the
matrix can be removed without any effect, and those nearly in it with little effect (Xu et al. 2017). Reading the linear
stage of a model is part of :mod:`shoal.linear_stages`.
"""

from shoal.cleaners._base import Cleaner

__all__ = ["Cleaner"]
