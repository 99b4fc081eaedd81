"""Starts Spark for an orchestrator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyhudi_core.errors import ConfigError, from_extra
from pyhudi_core.storage.clear_text import warn_of_connection


def started_spark(settings: Mapping[str, Any]) -> Any:
    """Return a session with these settings: a classic one, or, with ``spark.remote``, a new one of Spark Connect.

    Raises `MissingExtraError` if a package is missing, and `ConfigError` if there is no Java or the server does not answer. PySpark's own errors name
    only the gateway, or come after ten minutes.
    """
    remote = settings.get("spark.remote")
    with from_extra("connect" if remote else "spark", "A Spark session"):
        from pyspark.sql import SparkSession  # noqa: PLC0415 - only runs need it

        if remote:  # without grpcio, PySpark ends the process
            import grpc_status  # type: ignore[import-untyped]  # noqa: F401, PLC0415

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    if remote:
        return _connected(builder, str(remote))
    try:
        return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" not in str(error) and not isinstance(error, FileNotFoundError):
            raise
        raise ConfigError(
            f"Spark did not start: {error}",
            hint="Install Java 17 or newer and set JAVA_HOME to it; the output of the process above this error has what Java said.",
        ) from error


def _connected(builder: Any, remote: str) -> Any:
    with from_extra("connect", "A session of Spark Connect"):
        from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - PySpark 3.5 has none

        from pyhudi_core.engine.spark_connect import refuse_silent  # noqa: PLC0415

    if remote.startswith("sc://"):  # any other address starts a server here
        asked = DefaultChannelBuilder(remote)
        if not asked.secure:
            host, _, port = asked.endpoint.rpartition(":")
            warn_of_connection(host, int(port), "Spark Connect", "add ;use_ssl=true to its address")
        with asked.toChannel() as channel:
            refuse_silent(channel)
    return builder.create()
