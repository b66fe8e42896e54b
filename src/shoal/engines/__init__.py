"""Tables that do not fit into memory: how they are counted, cut into fragments and released in parts.

Each engine answers the same questions, defined in :mod:`shoal.engines.base`; methods are not implemented again here.
"""
