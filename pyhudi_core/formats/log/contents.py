"""The content of log blocks: records in Avro, and lists of deletes; reading and writing.

Specification, "Log Format", corrected by files that Hudi wrote: the first int is the content's version, 3; a record's length has 4 bytes; the
deletes of one block are one Avro record. Older contents of delete blocks (versions 1 and 2, Java's Kryo) are refused with their version.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from pyhudi_core.errors import CorruptAvroError, CorruptLogBlockError, UnsupportedTableError
from pyhudi_core.formats.avro.container import DECODE_ERRORS
from pyhudi_core.formats.avro.cursor import Ints
from pyhudi_core.formats.avro.encoding import encode_records
from pyhudi_core.formats.avro.records import parsed_schema, read_all
from pyhudi_core.formats.log.blocks import CONTENT_VERSION
from pyhudi_core.model.delete_records import DELETE_LIST_SCHEMA

SEVERAL = "ArrayWrapper"
_HEAD = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_MOST_SCHEMA_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """One deleted key. ``ordering`` is None, or the ordering value in Python's type; ``kind`` names its wrapper.

    For tables with several ordering fields the kind is `SEVERAL`, and ``ordering`` has a pair of kind and value (or None) for each.
    """

    record_key: str | None
    partition_path: str | None
    ordering: Any = None
    kind: str | None = None


def read_records(content: pa.Buffer, schema: str, path: str) -> pa.RecordBatch:
    """Return the records of an Avro or CDC block, with the schema in its header.

    Raises `CorruptLogBlockError` or `CorruptAvroError`.
    """
    count = count_of(content, path)
    starts, ends = _extents(content, count, path)
    return read_all(schema, content, starts, ends, path)


def read_joined(contents: Sequence[pa.Buffer], schema: str, path: str) -> pa.RecordBatch:
    """Return the records of several Avro blocks with one schema, one block after the other. Raises as `read_records`."""
    if len(contents) == 1:
        return read_records(contents[0], schema, path)
    starts, ends, behind = [], [], 0
    for content in contents:
        first, last = _extents(content, count_of(content, path), path)
        starts.append(first + behind)
        ends.append(last + behind)
        behind += content.size
    return read_all(schema, pa.py_buffer(b"".join(contents)), np.concatenate(starts), np.concatenate(ends), path)


def record_bytes(content: pa.Buffer, path: str) -> list[memoryview]:
    """Return the bytes of each record of an Avro block. Raises `CorruptLogBlockError`."""
    starts, ends = _extents(content, count_of(content, path), path)
    view = memoryview(content)
    return [view[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def read_old_records(content: pa.Buffer, path: str) -> pa.RecordBatch:
    """Return the records of an Avro block of format version 0: schema length, zlib-compressed schema, number of records, records.

    Raises `CorruptLogBlockError` or `CorruptAvroError`.
    """
    view = memoryview(content)
    if content.size < 2 * _LENGTH.size or not 0 <= (length := _LENGTH.unpack_from(view)[0]) <= content.size - 8:
        raise _corrupt("its schema does not fit", path)
    try:
        inflating = zlib.decompressobj()
        schema = inflating.decompress(view[4 : 4 + length], _MOST_SCHEMA_BYTES).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise _corrupt("its schema cannot be read", path) from error
    if not inflating.eof:
        raise _corrupt("its schema does not end, or is larger than any that is written", path)
    (count,) = _LENGTH.unpack_from(view, 4 + length)
    starts, ends = _extents(content, count, path, 8 + length)
    return read_all(schema, content, starts, ends, path)


def write_rows(schema: str, rows: pa.RecordBatch | pa.Table) -> bytes:
    """Return the content of an Avro block with these rows. Raises `SchemaMismatchError` for a value that the schema cannot hold."""
    records = encode_records(schema, rows, head=True)
    return _HEAD.pack(CONTENT_VERSION, rows.num_rows) + records.buffer.to_pybytes()


def write_records(schema: str, records: Sequence[Any]) -> bytes:
    """Return the content of an Avro block; ``records`` are mappings in the types of fastavro."""
    parsed = parsed_schema(schema)
    parts = [_HEAD.pack(CONTENT_VERSION, len(records))]
    for record in records:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, record)
        parts += [_LENGTH.pack(body.tell()), body.getvalue()]
    return b"".join(parts)


def read_deletes(content: pa.Buffer, path: str) -> list[DeleteRecord]:
    """Return the deletes of a delete block, one by one; reads of tables use ``delete_columns``. Raises as `delete_list`, and `CorruptAvroError`."""
    return decode_deletes(delete_list(content, path).to_pybytes(), path)


def delete_list(content: pa.Buffer, path: str) -> pa.Buffer:
    """Return the Avro record in a delete block.

    Raises `CorruptLogBlockError`, and `UnsupportedTableError` for deletes in Java's own serialisation.
    """
    size = count_of(content, path)
    if size > content.size - _HEAD.size:
        raise _corrupt(f"its list has {size} bytes, which are not there", path)
    return content.slice(_HEAD.size, size)


def decode_deletes(data: bytes, path: str) -> list[DeleteRecord]:
    """Return the deletes of an Avro record, one by one. Raises `CorruptAvroError`."""
    source = io.BytesIO(data)
    try:
        found = fastavro.schemaless_reader(source, _delete_schema(), None, return_record_name=True)
    except (*DECODE_ERRORS, MemoryError) as error:
        raise CorruptAvroError(
            f"A list of deletes is damaged: {error!s:.200}", path=path, hint="Restore the file from a copy."
        ) from error
    return [_delete(item) for item in found["deleteRecordList"]]


def write_deletes(deletes: Iterable[DeleteRecord]) -> bytes:
    """Return the content of a delete block."""
    body = io.BytesIO()
    items = [
        {
            "recordKey": item.record_key,
            "partitionPath": item.partition_path,
            "orderingVal": None if item.kind is None else _wrapped((item.kind, item.ordering)),
        }
        for item in deletes
    ]
    fastavro.schemaless_writer(body, _delete_schema(), {"deleteRecordList": items})
    data = body.getvalue()
    return _HEAD.pack(CONTENT_VERSION, len(data)) + data


def _wrapped(part: tuple[str, Any] | None) -> tuple[str, dict[str, Any]] | None:
    if part is None:
        return None
    kind, value = part
    name = kind if "." in kind else f"org.apache.hudi.avro.model.{kind}"
    if name.endswith(f".{SEVERAL}"):
        return name, {"wrappedValues": [_wrapped(one) for one in value]}
    return name, {"value": value}


def _delete(item: dict[str, Any]) -> DeleteRecord:
    kind, ordering = _unwrapped(item["orderingVal"]) or (None, None)
    return DeleteRecord(item["recordKey"], item["partitionPath"], ordering, kind)


def _unwrapped(wrapped: Any) -> tuple[str, Any] | None:
    """Return the name of a wrapper and its value. For several ordering fields, the value is a sequence of such pairs."""
    if wrapped is None:
        return None
    name, value = wrapped
    short = name.rpartition(".")[2]
    if short == SEVERAL:
        return short, tuple(_unwrapped(part) for part in value["wrappedValues"] or ())
    return short, value["value"]


def count_of(content: pa.Buffer, path: str) -> int:
    """Return the number of records in the content of an Avro block, or the number of bytes of the list in a delete block. Raises
    `CorruptLogBlockError`."""
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


def _extents(content: pa.Buffer, count: int, path: str, first: int = _HEAD.size) -> tuple[Ints, Ints]:
    """Return the position of each record. Each length leads to the next, so this is the only loop over records: integers only."""
    if not 0 <= count <= (content.size - first) // _LENGTH.size:
        raise _corrupt(f"its {count} records do not fit", path)
    view, at, size, unpack = memoryview(content), first, content.size, _LENGTH.unpack_from
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


@lru_cache(maxsize=1)
def _delete_schema() -> Any:
    return fastavro.parse_schema(DELETE_LIST_SCHEMA)


def _corrupt(reason: str, path: str) -> CorruptLogBlockError:
    return CorruptLogBlockError(
        f"A log block is damaged: {reason}", path=path, hint="Restore the file from a copy, or roll its instant back."
    )
