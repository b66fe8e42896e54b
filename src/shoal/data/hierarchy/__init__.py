"""Generalization hierarchies: the class, the files they are stored in, and how to build them from values."""
