"""Starts Spark for an orchestrator."""

from __future__ import annotations

from typing import Any

from pyhudi_core.errors import ConfigError


def started_spark(builder: Any) -> Any:
    """Return the session of a PySpark builder. Raises `ConfigError` if PySpark finds no Java; PySpark's own error names only the gateway."""
    try:
        return builder.getOrCreate()
    except Exception as error:
        if "JAVA_GATEWAY_EXITED" not in str(error) and not isinstance(error, FileNotFoundError):
            raise
        raise ConfigError(
            f"Spark did not start: {error}",
            hint="Install Java 17 or newer and set JAVA_HOME to it; the output of the process above this error has what Java said.",
        ) from error
