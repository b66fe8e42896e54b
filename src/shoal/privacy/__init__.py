"""Privacy models, the counts per group they are computed from, and the check of a released table.

How groups are formed is left to :mod:`shoal.partition` and :mod:`shoal.anonymizers`.
"""
