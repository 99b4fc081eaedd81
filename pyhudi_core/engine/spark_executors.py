"""Check whether the executors of a session can run this package, by one small task for each core at the first use of the session.

Without the check, the first task of a write fails after half a minute with an error that names a module but gives no advice. And a task with another
version of this package may write unexpected files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pyhudi_core.engine.spark_sessions import session_of
from pyhudi_core.engine.task_errors import lost_session
from pyhudi_core.errors import ConfigError
from pyhudi_core.model.help_pages import see
from pyhudi_core.runtime.worker_facts import worker_facts

OLDEST_PYARROW = 21
_MOST = 32
"""The maximum number of tasks, which should reach each executor."""
_PASSED: set[tuple[Any, str, str]] = set()
"""The sessions that have passed, with their Python environments and the checked local locations."""
_WAYS = (
    "Give the executors the same packages as this process: install `pyhudi[spark]=={version}` in the image of the cluster; or send an archive of an "
    "environment (`spark.archives=environment.tar.gz#environment` and `PYSPARK_PYTHON=./environment/bin/python`); or, where only pyhudi itself "
    "is missing, call pyhudi.spark.ship(spark), or pass its wheel by --py-files or addArtifacts. " + see("clusters")
)


def refuse_unfit_executors(spark: SparkSession, location: str = "") -> None:
    """Check the executors of a session once, and for each table on a local disk.

    Raises `ConfigError` if they cannot run this package, or do not see the folder of the table.
    """
    session = session_of(spark)
    local = location if location.startswith("/") else ""
    if session.runs_here or (session.owner, session.python, local) in _PASSED:
        return
    path = f"{local}/.hoodie/hoodie.properties" if local else ""
    for facts in _asked(spark, min(_MOST, session.cores), path):
        _refuse(facts)
        if path:
            _refuse_elsewhere(facts, local, _here(path))
    _PASSED.update((session.owner, session.python, own) for own in ("", local))


def forget(spark: SparkSession) -> None:
    """Check a session again at its next use."""
    owner = session_of(spark).owner
    _PASSED.difference_update({each for each in _PASSED if each[0] == owner})


def _here(path: str) -> str:
    digest: str = json.loads(worker_facts(path=path)).get("digest", "")
    return digest


def _version() -> str:
    return str(json.loads(worker_facts())["pyhudi_core"])


def _asked(spark: SparkSession, tasks: int, path: str) -> list[dict[str, str]]:
    # A worker would import the module of a function. This function belongs to no module, so the worker imports nothing.
    own: Callable[..., str] = FunctionType(worker_facts.__code__, {}, "look", (None, path))
    ask = F.udf(own, "string", useArrow=False)
    try:
        found = spark.range(0, tasks, 1, tasks).select(ask("id").alias("facts")).collect()
    except Exception as error:
        if lost := lost_session(error):
            raise lost from error
        raise _without_python(str(error)) or error from error
    return [json.loads(row.facts) for row in found]


def _without_python(text: str) -> ConfigError | None:
    """Return the error for executors whose Python does not start; None for another failure."""
    reason = None
    if "PYTHON_VERSION_MISMATCH" in text or "different version" in text:
        reason = f"their Python is not this process's {sys.version_info[0]}.{sys.version_info[1]}"
    elif "Cannot run program" in text:
        named = text.partition('Cannot run program "')[2].partition('"')[0]
        reason = f"they have no Python at {named!r}"
    elif "No module named" in text:
        reason = f"they have {text[text.index('No module named') :].splitlines()[0].strip().lower()}"
    return None if reason is None else _error(reason)


def _error(reason: str) -> ConfigError:
    return ConfigError(
        f"The executors of this Spark session cannot run pyhudi: {reason}",
        hint=_WAYS.format(version=_version()),
    )


def _refuse(facts: dict[str, str]) -> None:
    here, own = "{}.{}".format(*sys.version_info[:2]), _version()
    where = f"{facts['executable']} on {facts['host']}"
    if facts["python"] != here:
        raise _error(f"{where} is Python {facts['python']}, and this process is Python {here}")
    if "pyarrow" not in facts:
        raise _error(f"{where} has no pyarrow ({facts['pyarrow error']})")
    if int(facts["pyarrow"].split(".")[0]) < OLDEST_PYARROW:
        raise _error(f"{where} has pyarrow {facts['pyarrow']}, and {OLDEST_PYARROW} is the oldest that works")
    if "pyhudi_core" not in facts:
        raise _error(f"{where} has no pyhudi ({facts['pyhudi_core error']})")
    if facts["pyhudi_core"] != own:
        raise _error(f"{where} has pyhudi {facts['pyhudi_core']}, and this process has {own}")


def _refuse_elsewhere(facts: dict[str, str], location: str, digest: str) -> None:
    if facts.get("digest", "") == digest:
        return
    seen = "another table there" if "digest" in facts else "no such folder"
    raise ConfigError(
        f"The table is on a local disk, and an executor on {facts['host']} sees {seen}",
        table=location,
        hint="Nothing was read or written. Put the table on storage that all machines of the cluster reach: an object store (s3://...), "
        "or a network folder that is mounted at the same path on each of them.",
    )
