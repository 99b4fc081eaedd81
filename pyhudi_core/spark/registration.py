"""Make the data source known to a Spark session, and find this package's errors in Spark's."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from pyhudi_core.engine.spark import use_own_python
from pyhudi_core.engine.task_errors import driver_errors, from_text
from pyhudi_core.errors import HudiError, MissingExtraError


def register(spark: Any) -> None:
    """Make ``format("pyhudi")`` known to this session, for batches and streams; again is no harm.

    Raises `MissingExtraError` on PySpark before 4.2, which has no such data sources in Python.
    """
    try:
        from pyhudi_core.spark.source import PyhudiSource  # noqa: PLC0415  (not there on PySpark 3.5)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"Data sources in Python need PySpark 4.2 or newer ({error})",
            hint="On older releases read with table.scan().to_spark(spark), table.incremental() and table.changes().",
        ) from error
    use_own_python(spark)
    spark.dataSource.register(PyhudiSource)


def own_errors() -> AbstractContextManager[None]:
    """Raise this package's own error in place of Spark's wrapping: ``with own_errors(): frame.collect()``."""
    return driver_errors()


def error_of(error: BaseException) -> HudiError | None:
    """This package's error that a Spark error speaks of, a stream's for example; None for any other."""
    return from_text(str(error))
