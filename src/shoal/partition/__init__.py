"""Building blocks of partitioning methods: cut trees, clusters, lattices, recoding, suppression and losses.

The methods themselves are in :mod:`shoal.anonymizers`.
"""
