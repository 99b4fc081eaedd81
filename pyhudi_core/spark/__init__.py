"""Tables as a data source of Spark 4 (``spark.read.format("pyhudi")``, ``spark.readStream.format("pyhudi")``), and as a sink of ``foreachBatch``."""

from pyhudi_core.spark.registration import error_of, own_errors, register
from pyhudi_core.spark.sink import StreamSink, last_batch

__all__ = ["StreamSink", "error_of", "last_batch", "own_errors", "register"]
