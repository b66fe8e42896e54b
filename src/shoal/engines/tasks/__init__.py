"""Parquet files released and checked by tasks that read and write the files themselves."""
