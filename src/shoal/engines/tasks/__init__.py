"""Release and check of Parquet files by tasks that read and write the files themselves, wherever they run."""
