"""The jobs that users run: release, check, protect, evaluate, train, clean, audit, and learn weights.

Each module holds the function of its name; the command line and the studio call these.
"""
