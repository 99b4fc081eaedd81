"""``spark.read.format("pyhudi")`` and ``frame.write.format("pyhudi")``: a table as a Python data source of Spark 4.

Spark creates the source, requests its schema and plans its partitions in Python processes next to the driver, and reads the partitions in its
Python workers. It pickles the objects between these processes, so every object here that is used by more than one call must be picklable. Rows are
passed as Arrow batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pyhudi_core.engine.spark_types import to_arrow, to_spark
from pyhudi_core.engine.task_errors import raised_in_task
from pyhudi_core.lazy import lazy_call
from pyhudi_core.predicates import Predicate
from pyhudi_core.read.scan import Scan
from pyhudi_core.spark.batch_reads import Pinned, Read, refuse_other_types, tasks_of, with_predicate
from pyhudi_core.spark.filters import condition, joined
from pyhudi_core.spark.partitions import partitions_of, rows_of
from pyhudi_core.spark.session_zone import SessionZone
from pyhudi_core.spark.settings import CHANGES, Settings
from pyhudi_core.spark.stream import StreamReader

if TYPE_CHECKING:
    from pyhudi_core.spark.writer import BatchWriter, StreamWriter
else:
    BatchWriter = lazy_call("pyhudi_core.spark.writer", "BatchWriter")
    StreamWriter = lazy_call("pyhudi_core.spark.writer", "StreamWriter")


class PyhudiSource(DataSource):  # type: ignore[misc]  # PySpark has no types here
    """The source, as Spark calls it. ``zone``: the time zone of the session."""

    zone: ClassVar[SessionZone | None] = None

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        with raised_in_task():
            self.pinned = Pinned.now(Settings.parse(options).in_zone(self.zone))

    @classmethod
    def name(cls) -> str:
        return "pyhudi"

    def schema(self) -> StructType:
        """Return the table's columns, the meta columns first; with mode=changes op, ts_ms, before and after."""
        with raised_in_task():
            return to_spark(self.pinned.schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch reader. It accepts filters only if the option requests that."""
        with raised_in_task():
            made = FilteringReader if self.pinned.settings.push_filters else BatchReader
            return made(self.pinned, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  (Spark's name)
        """Return a stream reader. A given schema must have the table's types, or earlier types of the same columns."""
        with raised_in_task():
            settings = self.pinned.settings
            reader = StreamReader(settings, schema)
            refuse_other_types(reader.wanted, Pinned.now(settings).schema(), settings.path, of_older=True)
            return reader

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return a batch writer, for ``mode("append")``."""
        with raised_in_task():
            return BatchWriter(self.pinned.settings, to_arrow(schema), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802  (Spark's signature)
        """Return a stream writer, for ``outputMode("append")`` and ``outputMode("update")``."""
        with raised_in_task():
            return StreamWriter(self.pinned.settings, to_arrow(schema), overwrite=overwrite)


def in_session(spark: Any) -> type[PyhudiSource]:
    """Return the source for a session, with the session's time zone."""
    return type(PyhudiSource.__name__, (PyhudiSource,), {"zone": SessionZone.of(spark)})


class BatchReader(DataSourceReader):  # type: ignore[misc]
    """Plans a batch read and reads its partitions."""

    def __init__(self, pinned: Pinned, schema: StructType) -> None:
        self.pinned = pinned
        self.mode = pinned.settings.of_read()
        self.wanted = to_arrow(schema)
        self.predicate: Predicate | None = None

    def partitions(self) -> list[InputPartition]:
        """Return the slices to read; small slices are combined."""
        with raised_in_task():
            read = self._read()
            if read is None:
                return []
            if isinstance(read, Scan) and self.predicate is not None:
                read = with_predicate(read, self.predicate)
            return partitions_of(tasks_of(read), self.pinned.settings.zoned_condition(read))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition."""
        return rows_of(partition, self.wanted)

    def _read(self) -> Read | None:
        refuse_other_types(self.wanted, self.pinned.schema(), self.pinned.settings.path)
        return self.pinned.read(self.mode, tuple(self.wanted.names))


class FilteringReader(BatchReader):
    """A batch reader that also accepts filters from Spark, and skips files that cannot match.

    Spark up to 4.3 plans the partitions for the first query of a DataFrame and uses them in all its later queries, so such a DataFrame is correct for
    one query only. Therefore this reader is used only on request.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        """Accept the filters with the same meaning here; return the others."""
        with raised_in_task():
            read = None if self.mode == CHANGES else self._read()
        if not isinstance(read, Scan):
            return filters
        known = read.rows.schema
        conditions = [condition(found, known) for found in filters]
        where = read.rows.predicate if isinstance(read.rows.predicate, Predicate) else None
        self.predicate = joined(where, [node for node in conditions if node is not None], known)
        return [found for found, node in zip(filters, conditions, strict=True) if node is None]
