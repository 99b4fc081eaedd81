"""A Spark session whose start can be cancelled.

Loading this module imports no pyspark. Starting Spark takes seconds, on a cluster minutes, and PySpark cannot cancel a start: the thread of PySpark
waits for a file or a socket. Therefore an interrupt ends the starting JVM, and the waiting thread gets an error. PySpark keeps its reference to the
dead JVM, so every later session of the process would fail. Therefore this module removes such references before and after a start. PySpark has no
public function for this; ``tests/dagster/test_spark_start.py`` tests the private names that are used here.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import ConfigDict, Field, PrivateAttr

from pyhudi_core import orchestration
from pyhudi_core.lazy import lazy
from pyhudi_dagster.lake import interrupts

if TYPE_CHECKING:
    import psutil
else:
    psutil = lazy("psutil")  # only a start of Spark looks at processes

_GRACE = 2.0
_LAST_WAIT = 5.0
_SPARKS_OWN = ("spark-submit", "spark-class", "org.apache.spark.")
_log = logging.getLogger(__name__)


class SparkResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """A Spark session with these settings, created on first use.

    This resource takes the settings of dagster-pyspark's lazy resource. That resource imports pyspark when definitions are loaded; this resource does
    not. Settings may be nested: {"spark": {"master": "local[2]"}} means {"spark.master": "local[2]"}.

    With remote="sc://server:15002" the session is one of Spark Connect, which starts no JVM here. Give an address with a token as a dagster.EnvVar.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    spark_config: dict[str, Any] = Field(
        default={}, repr=False, description="Settings of the session, such as spark.master."
    )
    remote: str = Field(default="", repr=False, description="The server of Spark Connect, such as sc://server:15002.")
    _session: Any = PrivateAttr(default=None)

    @property
    def spark_session(self) -> Any:
        """The session, which starts on first use. Raises `MissingExtraError` if pyspark is not installed."""
        if self._session is None:
            settings = dict(_flat({**self.spark_config, **({"spark.remote": self.remote} if self.remote else {})}))
            self._session = orchestration.started_spark(settings)
        return self._session


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def started(session_of: Callable[[], Any], *, remote: bool = False) -> tuple[Any, bool]:
    """Return the session, and whether this call started it. A session of Spark Connect (``remote``) is always the resource's own.

    Raises `RunEndedError` if the step was interrupted during the start, and `MissingExtraError` if pyspark is not installed.
    """
    with orchestration.from_extra("spark", "A Spark session"):
        from pyspark import SparkContext  # noqa: PLC0415 - only here, where Spark is wanted

    interrupts.refuse_if_abandoned()
    if remote:
        return session_of(), True
    forget_dead_jvm()
    if SparkContext._active_spark_context is not None:
        return session_of(), False
    # Otherwise workers would use the `python3` of the PATH, which may belong to another environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    launch = _Launch()
    try:
        with interrupts.ended_by(launch.end):
            session = session_of()
        interrupts.refuse_if_abandoned()
    except BaseException:
        if interrupts.is_abandoned():
            launch.end()
            forget_dead_jvm(_LAST_WAIT)
            interrupts.refuse_if_abandoned()
        forget_dead_jvm()
        raise
    return session, True


def forget_dead_jvm(patience: float = 0.0) -> None:
    """Let PySpark start a new JVM if its current JVM has ended, or ends within some seconds."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None or not _has_ended(process, patience):
        return
    _log.warning("Spark's JVM %s has ended; the next session starts a new one", process.pid)
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    gateway.shutdown()
    with SparkContext._lock:
        SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


class _Launch:
    """The JVM of a session that is starting."""

    def __init__(self) -> None:
        from pyspark import SparkContext  # noqa: PLC0415

        idle = getattr(
            SparkContext._gateway, "proc", None
        )  # a stopped session keeps its JVM, and the next session starts in it
        others = psutil.Process().children(recursive=True)
        self._others = frozenset(child for child in others if idle is None or child.pid != idle.pid)
        self._asked: dict[psutil.Process, float] = {}

    def end(self) -> None:
        """Ask the JVM to end, and kill the JVM if it is still alive some seconds later. Called repeatedly until the start has ended."""
        for child in psutil.Process().children(recursive=True):
            if child in self._others or not _is_sparks(child):
                continue
            asked = self._asked.setdefault(child, time.monotonic())
            try:
                if time.monotonic() - asked < _GRACE:
                    child.terminate()
                else:
                    child.kill()
            except psutil.NoSuchProcess:
                continue


def _is_sparks(process: psutil.Process) -> bool:
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:  # the process has just ended, or belongs to another user
        return False
    return any(name in command for name in _SPARKS_OWN)


def _has_ended(process: subprocess.Popen[bytes], patience: float) -> bool:
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        return False
    return True
