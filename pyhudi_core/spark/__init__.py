"""Tables as a data source of Spark 4: ``spark.read.format("pyhudi")`` and ``spark.readStream.format("pyhudi")``."""

from pyhudi_core.spark.registration import error_of, own_errors, register

__all__ = ["error_of", "own_errors", "register"]
