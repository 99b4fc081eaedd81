"""Choose the engine by the kind of data: a PySpark DataFrame runs on its Spark session, all other data in this process."""

from __future__ import annotations

import sys
from typing import Any

from pyhudi_core.engine.base import Dataset, Engine
from pyhudi_core.engine.local import LocalEngine
from pyhudi_core.engine.reading import Reading
from pyhudi_core.engine.spilled import SpilledEngine, SpilledRows
from pyhudi_core.errors import from_extra
from pyhudi_core.model.time_zone import TimeZone
from pyhudi_core.runtime.base import Executor

SESSION_ZONE = "spark.sql.session.timeZone"
"""The Spark setting with the time zone of a session."""


def engine_for(data: object, executor: Executor, spark: Any = None, location: str = "") -> Engine:
    """Return the engine for this data (or for a given Spark session). Does not import PySpark unless Spark is meant.

    With a ``location``, `ConfigError` is raised if executors of the session cannot see the table there.
    """
    module = type(data).__module__
    if isinstance(data, SpilledRows):
        return SpilledEngine(executor, max(executor.workers, data.tasks), data)
    if spark is None and not module.startswith("pyspark.sql"):
        return LocalEngine(executor, executor.workers)
    with from_extra("spark", "A write on a Spark session"):
        from pyhudi_core.engine.spark import SparkEngine  # noqa: PLC0415  (Spark is imported only where it is used)

    return SparkEngine(spark if spark is not None else data.sparkSession, executor, location)  # type: ignore[attr-defined]


def running_session() -> Any:
    """Return the Spark session of this process; None if it has none. Does not import PySpark."""
    sql = sys.modules.get("pyspark.sql")
    return None if sql is None else sql.SparkSession._instantiatedSession


def _connected_session() -> Any:
    """Return the Spark Connect session of this process; None if it has none."""
    connect = sys.modules.get("pyspark.sql.connect.session")
    return None if connect is None else connect.SparkSession._get_default_session()


def session_zone(spark: Any = None) -> TimeZone | None:
    """Return the time zone of a Spark session, by default of this process's session; None if there is none."""
    if spark is not None:
        return TimeZone.named(spark.conf.get(SESSION_ZONE))
    running = _connected_session() or running_session()
    if running is None:
        return None
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415  (Spark is imported only where it is used)

    try:
        return session_zone(running)
    except (OSError, Py4JError):  # the JVM of the session has ended, so the session shows no rows
        return None


def frame_of(reading: Reading, spark: Any, location: str) -> Any:
    """Return the rows as a DataFrame of a Spark session. The executors read the rows when the DataFrame is used."""
    with from_extra("spark", "A Spark DataFrame"):
        from pyhudi_core.engine.spark_reading import frame  # noqa: PLC0415  (Spark is imported only where it is used)

    return frame(reading, spark, location)


def root_for(spark: Any, location: str, path: str, size: int) -> str | None:
    """Return the location of a table's folder in the form that a Spark session can open; None if the session cannot open it. ``path`` is a file in
    the folder, of this ``size``."""
    with from_extra("spark", "A Spark DataFrame"):
        from pyhudi_core.engine.spark_sessions import session_of  # noqa: PLC0415  (Spark is imported only where it is used)

        return session_of(spark).root_for(location, path, size)


def together(one: Dataset, other: Dataset, spark: Any) -> Dataset:
    """Return the rows of two datasets of a Spark session, with the same columns, as one dataset."""
    with from_extra("spark", "A write on a Spark session"):
        from pyhudi_core.engine.spark import united  # noqa: PLC0415  (Spark is imported only where it is used)

    return united(one, other, spark)
