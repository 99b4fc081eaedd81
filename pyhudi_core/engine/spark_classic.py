"""Classic sessions of Spark, whose driver runs its JVM on this machine."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.serializers import read_int
from pyspark.sql import DataFrame, SparkSession

from pyhudi_core.engine.spark_session import Payloads, roots
from pyhudi_core.engine.task_errors import driver_errors
from pyhudi_core.errors import ConfigError

try:
    from pyspark.util import local_connect_and_auth
except ImportError:  # PySpark 3.5
    from pyspark.java_gateway import local_connect_and_auth

_QUICK = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.connection.establish.timeout": "3000",
    "fs.s3a.connection.timeout": "5000",
}
"""Settings that limit the time for a location that does not answer."""
_ROOTS: dict[tuple[Any, str], bool] = {}
"""Whether Hadoop opens a bucket, for each Spark application and each form of the bucket's location."""
_NUMBERS = count()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Classic:
    """See `spark_session.Session`."""

    spark: SparkSession

    @property
    def cores(self) -> int:
        return max(1, int(self.spark.sparkContext.defaultParallelism))

    @property
    def owner(self) -> Hashable:
        # Several objects of Python may stand for one session, such as those of SparkSession.getActiveSession().
        own: Hashable = self.spark._jsparkSession
        return own

    @property
    def python(self) -> str:
        return str(self.spark.sparkContext.pythonExec)

    @property
    def runs_here(self) -> bool:
        master = self.spark.sparkContext.master
        return (master == "local" or master.startswith("local[")) and self.python == sys.executable

    def refuse_unusable(self) -> None:
        """Configure the workers of a local session to run this interpreter, unless another interpreter is configured.

        The default is ``python3`` on the PATH.
        """
        if not isinstance(self.spark, SparkSession):
            raise ConfigError(
                f"A {type(self.spark).__module__}.{type(self.spark).__qualname__} is not a Spark session",
                hint="Give one made with SparkSession.builder; to_arrow() and to_batches() need none.",
            )
        context = self.spark.sparkContext
        with driver_errors():
            stopped = context._jsc is None or context._jsc.sc().isStopped()
        if stopped:
            raise ConfigError(
                "The Spark session was stopped",
                hint="Start another one: SparkSession.builder.getOrCreate(); and make its DataFrames anew.",
            )
        chosen = "PYSPARK_PYTHON" in os.environ or self.spark.conf.get("spark.pyspark.python", "")
        if context.master.startswith("local") and not chosen:
            context.pythonExec = sys.executable

    def estimated_bytes(self, frame: DataFrame) -> int:
        return estimated_bytes(frame)

    def is_at_driver(self, frame: DataFrame) -> bool:
        return is_at_driver(frame)

    def reads_alike(self, frame: DataFrame) -> bool:
        return reads_alike(frame)

    def send(self, values: list[bytes]) -> Payloads:
        """Send the values once to each executor."""
        sent: Payloads = self.spark.sparkContext.broadcast(values)
        return sent

    def release(self, payloads: Any) -> None:
        payloads.destroy()

    def batches_at_most(self, frame: DataFrame, limit: int) -> list[pa.RecordBatch] | None:
        """Return the batches, as PySpark's `_collect_as_arrow` does."""
        context = self.spark.sparkContext
        tag = f"pyhudi-collect-{next(_NUMBERS)}"
        context.addJobTag(tag)
        try:
            port, secret, server = frame._jdf.collectAsArrowToPython()
        finally:
            context.removeJobTag(tag)
        held: list[pa.RecordBatch] = []
        size, ended = 0, False
        try:
            file, socket = local_connect_and_auth(port, secret)
            with closing(socket), closing(file):
                socket.settimeout(None)
                for batch in pa.ipc.open_stream(file):
                    size += batch.get_total_buffer_size()
                    if size > limit or batch.column(batch.num_columns - 1).to_numpy().any():
                        ended = True
                        context.cancelJobsWithTag(tag)
                        return None
                    held.append(batch)
                # The batches come in the order in which tasks end. Then follows the right order of the batches, or -1 if the job failed.
                return [held[read_int(file)] for _ in range(read_int(file))]
        finally:
            _wait(server, ended=ended)

    def run_each(self, sent: Sequence[Any], run: Callable[[Iterable[Any]], Iterator[bytes]]) -> list[bytes]:
        found: list[bytes] = self.spark.sparkContext.parallelize(sent, len(sent)).mapPartitions(run).collect()
        return found

    def spread(self, values: Sequence[bytes]) -> DataFrame:
        """Return the values as one row for each task. The rows of a list would be in one task for each core, however large."""
        rows = self.spark.sparkContext.parallelize([(value,) for value in values], len(values))
        return self.spark.createDataFrame(rows, "value binary", verifySchema=False)

    def ship(self, archive: str) -> None:
        self.spark.sparkContext.addPyFile(archive)

    def root_for(self, location: str, path: str, size: int) -> str | None:
        """Find the location's form for Hadoop. A bucket is tried once in an application; a local disk is not tried."""
        if location.startswith("/"):
            return roots(location)[0]
        for root in roots(location):
            key = (self.spark.sparkContext.applicationId, "/".join(root.split("/", 3)[:3]))
            if key not in _ROOTS:
                _ROOTS[key] = self._opens(f"{root}/{path}", size)
            if _ROOTS[key]:
                return root
        return None

    def _opens(self, file: str, size: int) -> bool:
        java: Any = self.spark._jvm
        settings = java.org.apache.hadoop.conf.Configuration(self.spark._jsparkSession.sessionState().newHadoopConf())
        for name, value in _QUICK.items():
            settings.set(name, value)
        try:
            place = java.org.apache.hadoop.fs.Path(file)
            system = java.org.apache.hadoop.fs.FileSystem.newInstance(place.toUri(), settings)
            try:
                return int(system.getFileStatus(place).getLen()) == size
            finally:
                system.close()
        except (Py4JError, PySparkException) as error:  # no such file system, no credentials, no such file
            _log.debug("Hadoop does not open %s: %s", file, error)
            return False


def _wait(server: Any, *, ended: bool) -> None:
    """Wait for the JVM thread that sends rows. Raise the error of the thread, unless this process has ended the job."""
    try:
        with unwrap_spark_exception():
            server.getResult()
    except Exception as error:
        if not ended:
            raise
        _log.debug("ended a job whose rows are too many for the driver: %s", error)


# --- use Spark's optimizer to find the size of a DataFrame, and whether a second read is cheap and gives the same rows

_INNER = frozenset({"Project", "Filter", "Union", "Repartition", "RepartitionByExpression"})
_LEAVES = frozenset({"InMemoryRelation", "LocalRelation", "Range"})
_FILES = "HadoopFsRelation"


def estimated_bytes(frame: DataFrame) -> int:
    """Return the optimizer's estimate of the bytes; very large if the optimizer has none."""
    return int(str(_optimized(frame).stats().sizeInBytes()))


def is_at_driver(frame: DataFrame) -> bool:
    """Return whether the driver holds all rows already, such as those of a short list."""
    return str(_optimized(frame).nodeName()) == "LocalRelation"


def reads_alike(frame: DataFrame) -> bool:
    """Return whether all rows come from files or from a cache, and all expressions over them always give the same value.

    Such rows can be read twice: first some columns to count the rows, then all columns. Joins, aggregates, functions in Python and other sources are
    not read twice.
    """
    names = [name.lower() for name in frame.columns]
    return len(set(names)) == len(names) and _is_alike(_optimized(frame))


def _optimized(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()


def _is_alike(plan: Any) -> bool:
    name = str(plan.nodeName())
    if name in _INNER:
        children = plan.children()
        return bool(plan.deterministic()) and all(_is_alike(children.apply(n)) for n in range(children.size()))
    if plan.getClass().getSimpleName() == "LogicalRelation":
        return str(plan.relation().getClass().getSimpleName()) == _FILES
    return name in _LEAVES
