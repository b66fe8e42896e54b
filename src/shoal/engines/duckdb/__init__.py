"""Tables on disk, counted and sorted by DuckDB within a limit of memory."""
