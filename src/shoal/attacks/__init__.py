"""Attacks on models, releases and cleaned queries, each compared with a baseline and reported with an interval.

:mod:`shoal.attacks.registry` lists the attacks of an audit; :mod:`shoal.jobs.audit` makes them and writes the evidence.
"""
