"""Scans as Spark DataFrames.

Files whose columns have the snapshot's types, on a local disk, are read by Spark's own Parquet scan, which is as fast as Spark reads. All
others (slices with logs, files from before a column was widened, files with rows of another partition, other storage, names that Spark takes for
patterns) are read by this package in the executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from pyhudi_core.engine import spark as engine
from pyhudi_core.file_groups.slice import FileSlice
from pyhudi_core.formats.base_file import BaseFileReader, ColumnRange, conform, is_parquet, read_footer
from pyhudi_core.metadata_table.names import RECORD_INDEX
from pyhudi_core.model.meta_fields import COMMIT_TIME, META_SCHEMA
from pyhudi_core.model.schema import from_avro
from pyhudi_core.predicates.arrow import matching
from pyhudi_core.read.changes import Changes
from pyhudi_core.read.partition_values import constants_of
from pyhudi_core.read.scan import Scan
from pyhudi_core.read.tasks import Task, change_tasks, scan_tasks

_PATTERNS = frozenset("[]{}*?\\")
_TASK_BYTES, _MOST_TASKS = 32 << 20, 16
"""Of one task, and for each core."""


def to_spark(scan: Scan, spark: Any) -> Any:
    """The scan's rows as a DataFrame of the session."""
    engine.use_own_python(spark)
    native, others = _split(scan)
    frames = []
    if native:
        frames.append(_native(scan, spark, native))
    if others:
        frames.append(_in_tasks(spark, scan_tasks(scan, slices=others), scan.schema))
    if not frames:
        return engine.empty_frame(spark, scan.schema)
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _split(scan: Scan) -> tuple[list[FileSlice], list[FileSlice]]:
    pieces = scan.slices()
    local = scan.storage.location
    if not local.startswith("/") or _PATTERNS & set(local) or scan.rows.keys is not None:
        return [], pieces
    types = _FileTypes(scan)
    native = [
        p for p in pieces
        if not p.logs and is_parquet(p.base.path) and not _PATTERNS & set(p.base.path) and types.are_current(p)
    ]  # fmt: skip
    if _may_hold_other_partitions(scan):
        fits = scan.executor.map(partial(_holds_what_its_folder_tells, scan), native)
        native = [piece for piece, fit in zip(native, fits, strict=True) if fit]
    chosen = {piece.group for piece in native}
    return native, [piece for piece in pieces if piece.group not in chosen]


def _may_hold_other_partitions(scan: Scan) -> bool:
    """Whether values of partition columns that are read may differ from the folder's: a record index does not move rows unless it is told to."""
    config = scan.snapshot.config
    return RECORD_INDEX in config.metadata_partitions and not set(config.partition_fields).isdisjoint(
        scan.rows.read_schema.names
    )


def _holds_what_its_folder_tells(scan: Scan, piece: FileSlice) -> bool:
    """Whether the statistics in a file's footer prove that all rows have the partition columns' values that the folder tells."""
    told = constants_of(piece.partition, scan.merging.config, scan.rows.read_schema)
    with scan.storage.open_input(piece.base.path) as source:
        known = BaseFileReader(source, piece.base.path).row_group_statistics(sorted(told)) if told else []
    return all(group.get(name) == ColumnRange(value, value, 0) for group in known for name, value in told.items())


@dataclass(slots=True)
class _FileTypes:
    """Whether files have the snapshot's column names and types: from the schema in the commit that wrote them, else from the footer."""

    scan: Scan
    _known: dict[str, bool] | None = None

    def are_current(self, piece: FileSlice) -> bool:
        if self._known is None:
            self._known = {}
        time = piece.requested_time
        if self.scan.merging.names_at(time) is not None:
            return False
        if piece.stat is None:
            return self._fits(self._footer_schema(piece))
        if time not in self._known:
            text = self.scan.snapshot.visibility.schema_of(time)
            self._known[time] = self._fits(from_avro(text) if text else self._footer_schema(piece))
        return self._known[time]

    def _fits(self, written: pa.Schema) -> bool:
        current = self.scan.snapshot.schema
        return all(
            f.name not in current.names or current.field(f.name).type == f.type
            for f in written
            if f.name not in META_SCHEMA.names
        )

    def _footer_schema(self, piece: FileSlice) -> pa.Schema:
        with self.scan.storage.open_input(piece.base.path) as source:
            return read_footer(source, piece.base.path).schema


def _native(scan: Scan, spark: Any, pieces: list[FileSlice]) -> Any:
    rows = scan.rows
    paths = [f"{scan.storage.location}/{piece.base.path}" for piece in pieces]
    frame = engine.native_scan(spark, rows.read_schema, paths)
    if rows.changed_by is not None:
        frame = frame.where(frame[COMMIT_TIME].isin(sorted(rows.changed_by)))
    if rows.predicate is None:
        return frame.select(*[_quoted(name) for name in rows.columns])
    text = rows.predicate.to_spark()
    if text is not None:
        return frame.where(text).select(*[_quoted(name) for name in rows.columns])
    keep = partial(_matching, rows.predicate.expression, rows.read_schema)
    return engine.filter_in_tasks(frame, keep, rows.columns, rows.result_schema)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _matching(expression: Any, schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark hands moments over in the zone of its session; conditions are made for UTC."""
    return matching(conform(batch, schema), expression)


def changes_to_spark(changes: Changes, spark: Any) -> Any:
    """The changes as a DataFrame of the session; a few file groups a task."""
    engine.use_own_python(spark)
    if not changes.groups:
        return engine.empty_frame(spark, changes.schema)
    return _in_tasks(spark, change_tasks(changes), changes.schema)


def _in_tasks(spark: Any, tasks: Sequence[Task], schema: pa.Schema) -> Any:
    """Read in the executors; a little work is not worth more of Spark's tasks than there are cores."""
    cores = int(spark.sparkContext.defaultParallelism)
    wanted = max(cores, min(_MOST_TASKS * cores, sum(task.size for task in tasks) // _TASK_BYTES))
    return engine.scan_in_tasks(spark, len(tasks), wanted, _Numbered(tuple(tasks)), schema)


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Reads the task with a number, inside one of Spark's."""

    tasks: tuple[Task, ...]

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        return self.tasks[number].batches()
