"""A session that was stopped, a JVM that is gone, and a streaming DataFrame at a batch door: typed errors with the way out, and nothing is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.tables import make

from pyhudi_core.engine import task_errors
from pyhudi_core.errors import CommitAbortedError, ConfigError, MissingExtraError
from pyhudi_core.orchestration import started_spark

PROGRAM = """
import importlib.util, os, sys
import pyhudi
from pyhudi.errors import ConfigError
from pyspark import SparkContext
from pyspark.sql import SparkSession

table = pyhudi.create_table(sys.argv[1], __import__("pyarrow").schema([("id", "int64")]), record_key="id")

def spark():
    return SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

def all_doors(session, frame, words):
    from pyhudi.spark import register
    doors = {
        "upsert": lambda: table.upsert(frame),
        "delete": lambda: table.delete(frame),
        "to_spark": lambda: table.scan().to_spark(session),
        "register": lambda: register(session),
        "clustering": lambda: table.clustering.run(spark=session),
    }
    if importlib.util.find_spec("pyspark.sql.datasource") is None:
        del doors["register"]  # PySpark 3.5 has no data sources in Python
    for door, call in doors.items():
        try:
            call()
        except ConfigError as error:
            assert words in str(error) and error.hint, (door, error)
        else:
            raise AssertionError(door)

session = spark()
frame = session.range(3)
session.stop()
all_doors(session, frame, "was stopped")
session = spark()
frame = session.range(3)
session.sparkContext._jsc.sc().stop()  # by another reference to it
all_doors(session, frame, "was stopped")
session.stop()
session = spark()
frame = session.range(3)
SparkContext._gateway.proc.kill()
SparkContext._gateway.proc.wait()
all_doors(session, frame, "does not answer")
assert len(table.timeline.commits) == 0
print("all doors")
os._exit(0)
"""


def test_a_streaming_frame_is_refused_by_the_batch_doors(spark: Any, location: str) -> None:
    table = make(location)
    stream = spark.readStream.format("rate").load()
    for call in (
        table.upsert,
        table.insert,
        table.bulk_insert,
        table.insert_overwrite,
        table.insert_overwrite_table,
        table.delete,
    ):
        with pytest.raises(ConfigError, match="streaming DataFrame has no end") as caught:
            call(stream)
        assert "StreamSink" in str(caught.value.hint)
    assert len(table.timeline.commits) == 0


@pytest.mark.slow
def test_every_door_says_that_the_session_is_stopped_or_its_jvm_gone(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "table")],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.stdout.endswith("all doors\n"), ran.stderr[-3000:]


def test_a_server_of_spark_connect_that_does_not_answer_is_named_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark tries for ten minutes."""
    pytest.importorskip("grpc_status", reason="the extra connect is not installed")
    from pyspark.sql.connect import client

    from pyhudi_core.engine import spark_connect

    settings = {"spark.remote": "sc://127.0.0.1:9", "spark.sql.shuffle.partitions": 2}
    if not hasattr(client, "DefaultChannelBuilder"):  # PySpark 3.5
        with pytest.raises(MissingExtraError, match="another release of the package pyspark"):
            started_spark(settings)
        return
    monkeypatch.setattr(spark_connect, "_PATIENCE_S", 0.2)
    with pytest.raises(ConfigError, match="server of Spark Connect does not answer") as caught:
        started_spark(settings)
    assert "start another session" in str(caught.value.hint)


@pytest.mark.parametrize(("said", "hint"), [
    ("ExecutorLostFailure (executor 1 exited) Reason: Command exited with code 137", "spark.executor.memory"),
    ("java.lang.OutOfMemoryError: Java heap space", "spark.executor.memory"),
    ("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nMemoryError", "spark.executor.memoryOverhead"),
    ("Traceback (most recent call last):\npyarrow.lib.ArrowMemoryError: malloc of size 64 failed", "spark.executor.memoryOverhead"),
    ("java.net.SocketException: Connection reset", "spark.executor.memoryOverhead"),
    ("[SPARK_JOB_CANCELLED] Job 7 cancelled part of cancelled job tag mine SQLSTATE: XXKDA", "Somebody cancelled the job"),
    ("[OPERATION_CANCELED] Operation has been canceled. SQLSTATE: HY008", "Somebody cancelled the job"),
    ("[DIVIDE_BY_ZERO] Division by zero", "Mend what made the DataFrame fail"),
])  # fmt: skip
def test_a_process_that_ended_or_a_cancel_is_told_apart_from_rows_that_fail(said: str, hint: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(CommitAbortedError) as caught, task_errors.job_errors():
        raise PySparkException(said)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("reason", ["MemoryError", "ValueError", "my.module.Refused", "KeyError: 'id'", "Refused: no"])
def test_the_reason_of_a_failure_is_the_last_line_of_its_traceback(reason: str) -> None:
    from pyspark.errors import PySparkException

    said = f'Job aborted. Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f(\n{reason}\n\n\tat org.apache.Spark(A:1)\n'
    with pytest.raises(CommitAbortedError) as caught, task_errors.job_errors():
        raise PySparkException(
            f"{said}\nDriver stacktrace:\nCaused by: org.apache.spark.api.python.PythonException: {said}"
        )
    assert caught.value.message == f"Spark could not compute the rows: {reason}"


@pytest.mark.parametrize(
    "said", ["[INVALID_HANDLE.SESSION_CHANGED] The handle is invalid", "INVALID_HANDLE.SESSION_NOT_FOUND"]
)
def test_a_session_that_its_server_has_forgotten_is_named(said: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(ConfigError, match="has forgotten the session"), task_errors.driver_errors():
        raise PySparkException(said)
