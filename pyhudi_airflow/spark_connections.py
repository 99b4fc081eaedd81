"""Open a Spark session for a connection of Airflow: type ``spark`` (a master) or ``spark_connect`` (a server).

The connection has the fields of Airflow's provider for Spark, which need not be installed. The driver runs in the worker. So settings that run the
driver elsewhere are refused by name: the deploy mode ``cluster``, and Livy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from pyhudi.errors import ConfigError, HudiError, InvalidOptionError
from pyhudi_airflow.airflow_names import BaseHook, mask_secret
from pyhudi_core import orchestration

_MASTER, _REMOTE = "spark.master", "spark.remote"
_MEANING = {
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "queue": "spark.yarn.queue",
}
_OF_SPARK_SUBMIT = ("rest-port", "rest-scheme", "spark-binary", "yarn_resourcemanager_webapp_address")
"""Fields that only `spark-submit` needs; the form fills in some of them by default."""
_REFUSED = {
    "livy": "Livy runs a program on the cluster, and gives no session to a task. Start the program with Airflow's LivyOperator, write in it with "
    "pyhudi, and let hudi_asset() follow its commits.",
    "spark_jdbc": "It is for copies between Spark and a database. Make a connection of the type 'spark' with the same host.",
    "spark_sql": "It is for the command spark-sql. Make a connection of the type 'spark' with the same host.",
}


@contextmanager
def optional_session(conn_id: str | None, name: str) -> Iterator[Any]:
    """Open the session of a connection, with this application name; None without a connection. At the end, a session that this call started is
    stopped.

    Raises `InvalidOptionError` for a connection from which no session can be made, and `ConfigError` if Spark cannot start.
    """
    if not conn_id:
        yield None
        return
    settings = settings_of_connection(BaseHook.get_connection(conn_id), conn_id)
    session, is_own = _started({"spark.app.name": name, **settings}, conn_id)
    try:
        yield session
    finally:
        if is_own:
            session.stop()


def settings_of_connection(connection: Any, conn_id: str) -> dict[str, str]:
    """Return the Spark settings of a connection. Raises `InvalidOptionError` for settings that cannot work in a task."""
    is_connect = connection.conn_type == "spark_connect"
    if connection.conn_type not in ("spark", "spark_connect"):
        raise InvalidOptionError(
            f"The connection {conn_id!r} has the type {connection.conn_type!r}, with which a task has no Spark session",
            hint=_REFUSED.get(connection.conn_type, "The types 'spark' and 'spark_connect' can be used."),
        )
    if not connection.host:
        example = "sc://server" if is_connect else "local[2], yarn or spark://master"
        raise InvalidOptionError(f"The connection {conn_id!r} has no host", hint=f"It is {example}.")
    extra = {name: value for name, value in connection.extra_dejson.items() if value not in (None, "")}
    settings = {name: _text(extra.pop(name)) for name in list(extra) if name.startswith("spark.")}
    for name, value in settings.items():
        if orchestration.holds_secret(name, value):
            mask_secret(value)
    return {
        **settings,
        **(_of_server(connection, extra, conn_id) if is_connect else _of_master(connection, extra, conn_id)),
    }


def _of_master(connection: Any, extra: Mapping[str, Any], conn_id: str) -> dict[str, str]:
    """Return the settings of a connection of the type ``spark``. For a URI such as ``spark://host:7077``, the host has no scheme."""
    is_whole = "://" in connection.host or not connection.port
    master = connection.host if is_whole else f"spark://{connection.host}"
    found = {_MASTER: f"{master}:{connection.port}" if connection.port else master}
    for name, value in extra.items():
        if name == "deploy-mode" and value != "client":
            raise InvalidOptionError(
                f"The connection {conn_id!r} has the deploy mode {value!r}, and a task has its driver in the worker",
                hint="Set it to 'client'. Or submit a program with Airflow's SparkSubmitOperator, and let hudi_asset() follow its commits.",
            )
        if name == "keytab":
            raise InvalidOptionError(
                f"The connection {conn_id!r} has a keytab, which is for spark-submit",
                hint="Put the keytab on the workers, and its path into the extra, as spark.kerberos.keytab.",
            )
        if name in _MEANING:
            found[_MEANING[name]] = _text(value)
        elif name not in (*_OF_SPARK_SUBMIT, "deploy-mode"):
            raise _unknown(name, conn_id)
    return found


def _of_server(connection: Any, extra: Mapping[str, Any], conn_id: str) -> dict[str, str]:
    """Return the settings of a connection of the type ``spark_connect``."""
    host = connection.host.removeprefix("sc://").rstrip("/")
    parts = [f"sc://{host}:{connection.port}/" if connection.port else f"sc://{host}/"]
    if connection.login:
        parts.append(f"user_id={quote(connection.login, safe='')}")
    if connection.password:
        token = quote(connection.password, safe="")
        mask_secret(connection.password)
        mask_secret(token)  # Spark's errors show the address, and the token in it
        parts.append(f"token={token}")
    for name, value in extra.items():
        if name != "use_ssl":
            raise _unknown(name, conn_id)
        parts.append(f"use_ssl={_text(value)}")
    return {_REMOTE: ";".join(parts)}


def _unknown(name: str, conn_id: str) -> HudiError:
    return InvalidOptionError(
        f"The extra of the connection {conn_id!r} has {name!r}, which means nothing here",
        hint="Names of Spark's settings begin with 'spark.'.",
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _started(settings: Mapping[str, str], conn_id: str) -> tuple[Any, bool]:
    """Return the session, and whether this call started the session."""
    if _REMOTE in settings:
        return orchestration.started_spark(settings), True
    with orchestration.from_extra("spark", "A Spark session"):
        from pyspark.sql import SparkSession  # noqa: PLC0415 - only tasks with a Spark connection need it

    # Otherwise workers would use the `python3` of the PATH, which may belong to another environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    session = orchestration.started_spark(settings)
    if session.sparkContext.master != settings[_MASTER]:
        raise ConfigError(
            f"This process has a Spark session on {session.sparkContext.master}, and the connection {conn_id!r} names {settings[_MASTER]}",
            hint="Start no session in the DAG file, or leave spark_conn_id out and use that session.",
        )
    return session, running is None
