"""How models are compared: plans, scores, results, and how a model was trained.

The function that runs an evaluation is in :mod:`shoal.jobs.evaluate`.
"""
