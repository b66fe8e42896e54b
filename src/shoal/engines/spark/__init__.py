"""Tables on Spark: a DataFrame in, a DataFrame out, or files read and written by tasks.

PySpark is imported when a session is started or a DataFrame is used.
"""

from shoal.engines.spark.anonymizer import SparkAnonymizer
from shoal.engines.spark.checking import check
from shoal.engines.spark.session import running_spark, start_session

__all__ = ["SparkAnonymizer", "check", "running_spark", "start_session"]
