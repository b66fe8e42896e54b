"""Release and check of tables on disk, which DuckDB counts and sorts within a memory limit."""
