"""What the tasks of a write return: write stats, ranges of columns, and changes of keys.

A row of `WRITTEN` is one written file, or, where ``key`` is not null, one key that came into a file group or left it. Files are brought to the
driver. Changes of keys never are: they stay a dataset, which executors turn into entries of an index. They are noted only for a write that asks
for them.

Ranges are those that the writer of a file puts into its footer; no row is read for them. A task sends the ranges of all its files as one Arrow table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi_core.engine.base import Dataset, TaskInfo
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.write.handles.base import KeyChange, WrittenFile

_STAT = pa.schema(
    [
        ("file_id", pa.string()),
        ("path", pa.string()),
        ("partition", pa.string()),
        ("prev_commit", pa.string()),
        ("prev_base_file", pa.string()),
        ("rows", pa.int64()),
        ("inserts", pa.int64()),
        ("updates", pa.int64()),
        ("deletes", pa.int64()),
        ("size", pa.int64()),
        ("change_logs", pa.list_(pa.field("element", pa.string()))),
    ]
)
"""The fields of a `WriteStat`."""

KEY_CHANGES = pa.schema(
    [("key", pa.string()), ("partition", pa.string()), ("file_id", pa.string()), ("deleted", pa.bool_())]
)
"""A key that came into a file group, or left it (``deleted``)."""

WRITTEN = pa.schema([*_STAT, ("ranges", pa.binary()), ("key", pa.string()), ("deleted", pa.bool_())])
"""What a task yields."""


@dataclass(slots=True)
class Written:
    """What a write put on disk.

    Attributes:
        stats: one for each file, sorted by path.
        ranges: one row for each file: its path, and for each column of a plain type a struct of ``min``, ``max`` and ``nulls``. Null where unknown.
        key_changes: rows of `KEY_CHANGES`, if the write was asked for them. Call `release` when they are no longer needed.
    """

    stats: tuple[WriteStat, ...]
    ranges: pa.Table
    key_changes: Dataset | None = None
    kept: Dataset | None = None

    @classmethod
    def collect(cls, output: Dataset, schema: pa.Schema, *, key_changes: bool) -> Written:
        """Run the tasks. ``schema`` is that of the files."""
        kept = output.persist() if key_changes else None
        try:
            table = output.collect() if kept is None else kept.map(_only_files, WRITTEN).collect()
        except BaseException:
            if kept is not None:
                kept.release()
            raise
        columns = [table.column(name).to_pylist() for name in _STAT.names]
        stats = (
            WriteStat(**dict(zip(_STAT.names, (*values[:-1], tuple(values[-1])), strict=True)))
            for values in zip(*columns, strict=True)
        )
        blobs = [blob for blob in table.column("ranges").to_pylist() if blob is not None]
        ranges = [pa.ipc.open_stream(pa.py_buffer(blob)).read_all() for blob in blobs]
        return cls(
            tuple(sorted(stats, key=lambda stat: stat.path)),
            pa.concat_tables(ranges) if ranges else _range_schema(schema).empty_table(),
            kept.map(_only_changes, KEY_CHANGES) if kept is not None else None,
            kept,
        )

    def release(self) -> None:
        """Give back what `key_changes` keeps."""
        if self.kept is not None:
            self.kept.release()


def files_batch(files: Sequence[WrittenFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the files that one task wrote."""
    if not files:
        return
    stats = [pa.array([getattr(file.stat, field.name) for file in files], field.type) for field in _STAT]
    ranges = pa.array([_encoded(files, schema), *[None] * (len(files) - 1)], pa.binary())
    none = [pa.nulls(len(files), WRITTEN.field(name).type) for name in ("key", "deleted")]
    yield pa.RecordBatch.from_arrays([*stats, ranges, *none], schema=WRITTEN)


def changes_batch(change: KeyChange) -> Iterator[pa.RecordBatch]:
    """The rows of keys that came into a file group, or left it."""
    for keys in change.keys.chunks if isinstance(change.keys, pa.ChunkedArray) else [change.keys]:
        count = len(keys)
        known = {
            "partition": pa.repeat(change.partition, count),
            "file_id": pa.repeat(change.file_id, count),
            "key": keys,
            "deleted": pa.repeat(change.deleted, count),
        }
        columns = [known.get(field.name, pa.nulls(count, field.type)) for field in WRITTEN]
        yield pa.RecordBatch.from_arrays(columns, schema=WRITTEN)


def _only_files(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(batch.column("key").is_null())


def _only_changes(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(batch.column("key").is_valid()).select(KEY_CHANGES.names)


def _range_schema(schema: pa.Schema) -> pa.Schema:
    plain = [field for field in schema if not pa.types.is_nested(field.type)]
    return pa.schema([("path", pa.string()), *((field.name, _range_type(field.type)) for field in plain)])


def _range_type(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("min", kind), ("max", kind), ("nulls", pa.int64())])


def _encoded(files: Sequence[WrittenFile], schema: pa.Schema) -> bytes:
    """The ranges of files as an Arrow stream."""
    fields = _range_schema(schema)
    columns = [pa.array([file.stat.path for file in files], pa.string())]
    for field in list(fields)[1:]:
        found = [file.ranges.get(field.name) for file in files]
        parts = [
            pa.array([None if known is None else getattr(known, name) for known in found], field.type[number].type)
            for number, name in enumerate(("min", "max", "null_count"))
        ]
        columns.append(pa.StructArray.from_arrays(parts, fields=list(field.type)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, fields) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=fields))
    return sink.getvalue().to_pybytes()
