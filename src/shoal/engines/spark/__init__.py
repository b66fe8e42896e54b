"""Release and check of tables on Spark: DataFrames, or files that tasks read and write.

PySpark is imported when a session is started or a DataFrame is used.
"""

from shoal.engines.spark.anonymizer import SparkAnonymizer
from shoal.engines.spark.checking import check
from shoal.engines.spark.session import running_spark, start_session

__all__ = ["SparkAnonymizer", "check", "running_spark", "start_session"]
