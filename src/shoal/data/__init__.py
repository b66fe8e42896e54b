"""Tables: reading and writing files, dataframes, schemas, hierarchies, and the encoding of columns as integer codes.

Nothing in this package knows about privacy models, groups or models.
"""
