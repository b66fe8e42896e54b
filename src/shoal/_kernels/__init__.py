"""Loops over arrays, compiled by numba: arrays and numbers in, arrays out."""
