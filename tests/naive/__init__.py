"""Naive twins of the kernels: slow and obvious, compared with the kernels on fixed and random input."""
