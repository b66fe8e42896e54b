"""Naive twins of the kernels: slow, obvious, and compared with them on fixed and random input."""
