"""Engines for tables that do not fit into memory: they count, cut into fragments and release in parts.

All implement the protocol of :mod:`shoal.engines.base`; methods are not implemented again here.
"""
