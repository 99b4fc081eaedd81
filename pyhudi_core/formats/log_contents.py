"""What is inside of log blocks: records in Avro, and lists of deletes; both ways.

Specification, "Log Format", corrected by files that Hudi wrote: the first int is the content's version, 3; a record's length has 4 bytes; the
deletes of one block are one Avro record. Older contents of delete blocks (versions 1 and 2, Java's Kryo) are refused by name.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from pyhudi_core.errors import CorruptAvroError, CorruptLogBlockError, UnsupportedTableError
from pyhudi_core.formats.avro_columns import compile_schema, decode_records
from pyhudi_core.formats.avro_cursor import ColumnsRefusedError, Ints
from pyhudi_core.formats.log_format import CONTENT_VERSION
from pyhudi_core.model.delete_records import DELETE_LIST_SCHEMA

_HEAD = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """One deleted key. ``ordering`` is None, or the ordering value in Python's type; ``kind`` names its wrapper."""

    record_key: str | None
    partition_path: str | None
    ordering: Any = None
    kind: str | None = None


def read_records(content: pa.Buffer, schema: str, path: str) -> pa.RecordBatch:
    """The records of an Avro or CDC block, as the schema in its header says.

    Raises `CorruptLogBlockError` or `CorruptAvroError`.
    """
    count = _count(content, path)
    starts, ends = _extents(content, count, path)
    try:
        return decode_records(schema, content, starts, ends)
    except ColumnsRefusedError:
        return _one_by_one(content, starts, ends, schema, path)


def write_records(schema: str, records: Sequence[Any]) -> bytes:
    """The content of an Avro block; ``records`` are mappings in the types of fastavro."""
    parsed = _parsed(schema)
    parts = [_HEAD.pack(CONTENT_VERSION, len(records))]
    for record in records:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, record)
        parts += [_LENGTH.pack(body.tell()), body.getvalue()]
    return b"".join(parts)


def read_deletes(content: pa.Buffer, path: str) -> list[DeleteRecord]:
    """The deletes of a delete block. Raises `UnsupportedTableError` for those in Java's own serialisation."""
    size = _count(content, path)
    if size > content.size - _HEAD.size:
        raise _corrupt(f"its list has {size} bytes, which are not there", path)
    source = io.BytesIO(content.slice(_HEAD.size, size).to_pybytes())
    try:
        found = fastavro.schemaless_reader(source, _delete_schema(), None, return_record_name=True)
    except (EOFError, ValueError, TypeError, IndexError, KeyError, OverflowError, MemoryError, struct.error) as error:
        raise CorruptAvroError(
            f"A list of deletes is damaged: {error!s:.200}", path=path, hint="Restore the file from a copy."
        ) from error
    return [_delete(item) for item in found["deleteRecordList"]]


def write_deletes(deletes: Iterable[DeleteRecord]) -> bytes:
    """The content of a delete block."""
    body = io.BytesIO()
    items = [
        {
            "recordKey": item.record_key,
            "partitionPath": item.partition_path,
            "orderingVal": None if item.kind is None else (item.kind, {"value": item.ordering}),
        }
        for item in deletes
    ]
    fastavro.schemaless_writer(body, _delete_schema(), {"deleteRecordList": items})
    data = body.getvalue()
    return _HEAD.pack(CONTENT_VERSION, len(data)) + data


def _delete(item: dict[str, Any]) -> DeleteRecord:
    wrapped = item["orderingVal"]
    if wrapped is None:
        return DeleteRecord(item["recordKey"], item["partitionPath"])
    name, value = wrapped
    return DeleteRecord(item["recordKey"], item["partitionPath"], value["value"], name.rpartition(".")[2])


def _count(content: pa.Buffer, path: str) -> int:
    if content.size < _HEAD.size:
        raise _corrupt("its content is too short", path)
    version, count = _HEAD.unpack(content.slice(0, _HEAD.size).to_pybytes())
    if version in (1, 2):
        raise UnsupportedTableError(
            f"A log block has content version {version}, which only Java's serialisation can read",
            path=path,
            hint="Compact the file group with the release of Hudi that wrote it.",
        )
    if version != CONTENT_VERSION or count < 0:
        raise _corrupt(f"its content has version {version} and {count} entries", path)
    return int(count)


def _extents(content: pa.Buffer, count: int, path: str) -> tuple[Ints, Ints]:
    """Where each record lies. Each length leads to the next, so this is the one loop over records: integers only."""
    if count > (content.size - _HEAD.size) // _LENGTH.size:
        raise _corrupt(f"its {count} records do not fit", path)
    view, at, size, unpack = memoryview(content), _HEAD.size, content.size, _LENGTH.unpack_from
    starts = np.empty(count, np.int64)
    ends = np.empty(count, np.int64)
    for number in range(count):
        if at + 4 > size:
            raise _corrupt("it ends inside of a record", path)
        (length,) = unpack(view, at)
        at += 4
        if length < 0 or at + length > size:
            raise _corrupt("a record does not fit", path)
        starts[number] = at
        at += length
        ends[number] = at
    return starts, ends


def _one_by_one(content: pa.Buffer, starts: Ints, ends: Ints, schema: str, path: str) -> pa.RecordBatch:
    """Records with very long arrays, which are few: through fastavro."""
    parsed, view = _parsed(schema), memoryview(content)
    try:
        rows = [
            fastavro.schemaless_reader(io.BytesIO(view[start:end]), parsed, None)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        return pa.RecordBatch.from_pylist(rows, pa.schema(list(compile_schema(schema).type)))
    except (EOFError, ValueError, TypeError, IndexError, KeyError, OverflowError, struct.error) as error:
        raise CorruptAvroError(
            f"Records of a log block are damaged: {error!s:.200}", path=path, hint="Restore the file from a copy."
        ) from error


@lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


@lru_cache(maxsize=1)
def _delete_schema() -> Any:
    return fastavro.parse_schema(DELETE_LIST_SCHEMA)


def _corrupt(reason: str, path: str) -> CorruptLogBlockError:
    return CorruptLogBlockError(
        f"A log block is damaged: {reason}", path=path, hint="Restore the file from a copy, or roll its instant back."
    )
