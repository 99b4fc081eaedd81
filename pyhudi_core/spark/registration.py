"""Register the data source with a Spark session, and extract this package's errors from Spark's."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from pyhudi_core.engine.task_errors import driver_errors, from_text
from pyhudi_core.errors import HudiError, MissingExtraError, from_extra
from pyhudi_core.naming import set_module


@set_module("pyhudi.spark")
def register(spark: Any) -> None:
    """Register ``format("pyhudi")`` with this session, for batches and streams. A repeated call does no harm, and is needed after a change of
    ``spark.sql.session.timeZone``.

    PySpark's verbs that make entries of Spark's catalog (``saveAsTable``, ``writeTo(...).create()``, ``CREATE TABLE``) then refuse this format.

    Raises `MissingExtraError` on PySpark before 4.2, which has no such data sources.
    """
    with from_extra("spark", 'format("pyhudi")'):
        from pyhudi_core.engine.spark_sessions import session_of  # noqa: PLC0415  (Spark is imported only where it is used)
    try:
        from pyhudi_core.spark.source import in_session  # noqa: PLC0415  (missing in PySpark 3.5)
        from pyhudi_core.spark.verbs import refuse_entries  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"Data sources in Python need PySpark 4.2 or newer ({error})",
            hint="On older releases read with table.scan().to_spark(spark), table.incremental() and table.changes(); write with table.upsert(df).",
        ) from error
    session_of(spark).refuse_unusable()
    spark.dataSource.register(in_session(spark))
    refuse_entries()


@set_module("pyhudi.spark")
def own_errors() -> AbstractContextManager[None]:
    """Raise this package's error instead of Spark's wrapper: ``with own_errors(): frame.collect()``."""
    return driver_errors()


@set_module("pyhudi.spark")
def error_of(error: BaseException) -> HudiError | None:
    """Return this package's error that is inside a Spark error, for example the error of a stream; None for any other error."""
    return from_text(str(error))
