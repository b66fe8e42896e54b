"""The comparison of models: plans, scores, results, and the provenance of a model.

The function that runs an evaluation is in :mod:`shoal.jobs.evaluate`.
"""
