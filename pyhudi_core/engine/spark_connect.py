"""Sessions of Spark Connect (PySpark 4): the driver is a server elsewhere, so there is no JVM, no broadcast and no RDD here.

Payloads are sent in the functions that need them. ``explain`` shows the optimizer's estimates. The server determines the batches of rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import grpc  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import functions as F

from pyhudi_core.engine.spark_salts import salts_for
from pyhudi_core.engine.spark_session import Payloads, roots
from pyhudi_core.engine.task_errors import lost_server
from pyhudi_core.errors import ConfigError

_SIZE = re.compile(r"sizeInBytes=([\d.]+(?:E\+?\d+)?) ([KMGTPE]i)?B")
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_NUMBERS = count()
_PATIENCE_S = 10
_KNOWN: dict[tuple[str, str], Any] = {}
"""Cached answers of a session, by its id and the question."""


@dataclass(frozen=True, slots=True)
class _InClosure:
    """Values that are sent with the function that uses them."""

    value: list[bytes]


@dataclass(frozen=True, slots=True)
class Connect:
    """See `spark_session.Session`."""

    spark: Any

    @property
    def cores(self) -> int:
        """The number of cores: a range has a partition for each core, unless the session is configured differently."""
        return self._once("cores", lambda: max(1, _partitions(self.spark.range(1 << 16))))

    @property
    def owner(self) -> Hashable:
        own: str = self.spark.session_id
        return own

    @property
    def runs_here(self) -> bool:
        return False

    @property
    def python(self) -> str:
        return ""

    def refuse_unusable(self) -> None:
        if self.spark.is_stopped:
            raise ConfigError(
                "The Spark session was stopped",
                hint="Start another one: SparkSession.builder.remote(...).getOrCreate(); and make its DataFrames anew.",
            )
        refuse_silent(self.spark.client._channel)

    def estimated_bytes(self, frame: Any) -> int:
        found = _SIZE.search(frame._explain_string(mode="cost"))
        return 1 << 62 if found is None else int(float(found[1]) * 1024 ** _UNITS.index(found[2] or ""))

    def is_at_driver(self, frame: Any) -> bool:
        return False  # the rows of a short list are at the server

    def reads_alike(self, frame: Any) -> bool:
        return False  # the text of a plan does not say enough, so the rows are computed once and kept

    def send(self, values: list[bytes]) -> Payloads:
        return _InClosure(values)

    def release(self, payloads: Payloads) -> None:
        """Do nothing, because the payloads were sent with the function."""

    def batches_at_most(self, frame: Any, limit: int) -> list[pa.RecordBatch] | None:
        tag = f"pyhudi-collect-{next(_NUMBERS)}"
        client = self.spark.client
        self.spark.addTag(tag)
        held: list[pa.RecordBatch] = []
        size = 0
        try:
            for table in client.to_table_as_iterator(frame._plan.to_proto(client), frame._plan.observations):
                if not isinstance(table, pa.Table):  # the schema
                    continue
                size += table.get_total_buffer_size()
                if size > limit or any(chunk.to_numpy().any() for chunk in table.column(-1).chunks):
                    self.spark.interruptTag(tag)
                    return None
                held.extend(table.to_batches())
        finally:
            self.spark.removeTag(tag)
        return held

    def run_each(self, sent: Sequence[Any], run: Callable[[Iterable[Any]], Iterator[bytes]]) -> list[bytes]:
        spread = self.spread([CloudPickleSerializer().dumps(numbered) for numbered in enumerate(sent)])

        def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for packed in batch.column("value").to_pylist():
                    number, value = CloudPickleSerializer().loads(packed)
                    made = list(run([value]))
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([number], pa.int64()), pa.array(made, pa.binary())], names=["number", "made"]
                    )

        found = spread.mapInArrow(each, "number long, made binary").toArrow().sort_by("number")
        made: list[bytes] = found.column("made").to_pylist()
        return made

    def spread(self, values: Sequence[bytes]) -> Any:
        rows = pa.table({"task": pa.array(salts_for(len(values)), pa.int32()), "value": pa.array(values, pa.binary())})
        return self.spark.createDataFrame(rows).repartition(len(values), "task").select("value")

    def ship(self, archive: str) -> None:
        self.spark.addArtifact(archive, pyfile=True)

    def root_for(self, location: str, path: str, size: int) -> str | None:
        """Find the location's form for Hadoop. The server may be on another machine, so a local disk is tried, too."""
        for root in roots(location):
            place = root if root.startswith("file:") else "/".join(root.split("/", 3)[:3])
            if self._once(place, lambda own=root: self._opens(f"{own}/{path}", size)):  # type: ignore[misc]
                return root
        return None

    def _opens(self, file: str, size: int) -> bool:
        try:
            found = self.spark.read.format("binaryFile").load(file).select("length").collect()
        except PySparkException:  # no such file system, no credentials, no such file
            return False
        return [row.length for row in found] == [size]

    def _once(self, question: str, ask: Callable[[], Any]) -> Any:
        key = (self.spark.session_id, question)
        if key not in _KNOWN:
            _KNOWN[key] = ask()
        return _KNOWN[key]


def refuse_silent(channel: Any) -> None:
    """Raise `ConfigError` if the server of a channel does not answer. PySpark tries for ten minutes."""
    try:
        grpc.channel_ready_future(channel).result(timeout=_PATIENCE_S)
    except grpc.FutureTimeoutError:
        raise lost_server() from None


def _partitions(frame: Any) -> int:
    return int(frame.select(F.spark_partition_id()).distinct().count())
