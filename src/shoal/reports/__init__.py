"""Evidence for people and machines: HTML pages, JSON and plots.

Reports describe results; they compute nothing about privacy.
"""
