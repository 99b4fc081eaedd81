"""Manifests and manifest lists: Iceberg's Avro files (Iceberg's specification, "Manifests" and "Manifest Lists", version 2).

This module encodes and decodes them as bytes, without reading or writing files. Their Avro schemas have field ids, which readers use.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any

import fastavro

from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.formats.avro.container import DECODE_ERRORS, refuse_bomb
from pyhudi_core.iceberg.partition_spec import FIRST_FIELD, PartitionSpec, SpecField
from pyhudi_core.iceberg.table_metadata import AGAIN

EXISTING, ADDED, DELETED = 0, 1, 2
Entry = dict[str, Any]
_AVRO = {"date": {"type": "int", "logicalType": "date"}}
_SYNC = 16


def _field(number: int, name: str, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"name": name, "type": ["null", kind], "default": None, "field-id": number}
    return {"name": name, "type": kind, "field-id": number}


def _map(number: int, name: str, key: int, value: int, kind: str) -> dict[str, Any]:
    """Return a map with numbers as keys: in Avro, a list of pairs."""
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_field(key, "key", "int"), _field(value, "value", kind)],
    }
    return _field(number, name, {"type": "array", "items": pair, "logicalType": "map"}, optional=True)


def _entry_schema(fields: Sequence[SpecField]) -> dict[str, Any]:
    parts = [
        _field(FIRST_FIELD + place, one.name, _AVRO.get(one.kind, one.kind), optional=True)
        for place, one in enumerate(fields)
    ]
    data_file = [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {"type": "record", "name": "r102", "fields": parts}),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        _map(109, "value_counts", 119, 120, "long"),
        _map(110, "null_value_counts", 121, 122, "long"),
        _map(125, "lower_bounds", 126, 127, "bytes"),
        _map(128, "upper_bounds", 129, 130, "bytes"),
    ]
    fields_ = [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", optional=True),
        _field(3, "sequence_number", "long", optional=True),
        _field(4, "file_sequence_number", "long", optional=True),
        _field(2, "data_file", {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields_}


_SUMMARY = {
    "type": "record", "name": "r508", "fields": [
        _field(509, "contains_null", "boolean"), _field(518, "contains_nan", "boolean", optional=True),
        _field(510, "lower_bound", "bytes", optional=True), _field(511, "upper_bound", "bytes", optional=True),
    ],
}  # fmt: skip
_LIST = {
    "type": "record", "name": "manifest_file", "fields": [
        _field(500, "manifest_path", "string"), _field(501, "manifest_length", "long"), _field(502, "partition_spec_id", "int"),
        _field(517, "content", "int"), _field(515, "sequence_number", "long"), _field(516, "min_sequence_number", "long"),
        _field(503, "added_snapshot_id", "long"), _field(504, "added_files_count", "int"), _field(505, "existing_files_count", "int"),
        _field(506, "deleted_files_count", "int"), _field(512, "added_rows_count", "long"), _field(513, "existing_rows_count", "long"),
        _field(514, "deleted_rows_count", "long"),
        {**_field(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}, optional=True)},
    ],
}  # fmt: skip


@lru_cache(maxsize=16)
def _parsed(fields: tuple[SpecField, ...] | None) -> Any:
    return fastavro.parse_schema(_LIST if fields is None else _entry_schema(fields))


def encode(entries: Iterable[Entry], fields: tuple[SpecField, ...], header: Mapping[str, str], sync: bytes) -> bytes:
    """Return a manifest. ``header`` has the entries about schema and spec; ``sync`` are 16 bytes that no other file has."""
    return _container(entries, _parsed(fields), header, sync)


def encode_list(manifests: Iterable[Entry], header: Mapping[str, str], sync: bytes) -> bytes:
    """Return a manifest list."""
    return _container(manifests, _parsed(None), header, sync)


def _container(records: Iterable[Entry], schema: Any, header: Mapping[str, str], sync: bytes) -> bytes:
    body = BytesIO()
    metadata = {"format-version": "2", **header}
    try:
        fastavro.writer(
            body,
            schema,
            records,
            codec="deflate",
            metadata=metadata,
            sync_marker=sync[:_SYNC],
            codec_compression_level=1,
        )
    except DECODE_ERRORS as error:  # entries of older manifests are written again
        raise unreadable("", f"an entry does not fit: {error}") from error
    return body.getvalue()


def decode(data: bytes, path: str) -> tuple[list[Entry], Mapping[str, str]]:
    """Return the records of a manifest or a manifest list, and its header.

    Raises `CorruptAvroError`, also for records without the fields that this project writes, and `LimitExceededError`.
    """
    try:
        refuse_bomb(data, path=path, checked=_with_partition)
        reader = fastavro.reader(BytesIO(data))
        found, header = list(reader), reader.metadata
    except CorruptAvroError as error:
        raise unreadable(path, error.detail or error.message) from error
    except DECODE_ERRORS as error:
        raise unreadable(path, str(error)) from error
    for record in found:
        is_list = isinstance(record, dict) and "manifest_path" in record
        if not _has(record, _IN_LIST if is_list else _IN_MANIFEST):
            raise unreadable(path, "a record does not have the fields of a manifest")
    return found, header


_IN_LIST: Mapping[str, Any] = {
    "manifest_path": str,
    **dict.fromkeys(
        ("partition_spec_id", "sequence_number", "min_sequence_number", "added_snapshot_id", "added_files_count",
         "existing_files_count", "deleted_files_count", "added_rows_count", "existing_rows_count"), int),
}  # fmt: skip
_IN_MANIFEST: Mapping[str, Any] = {
    "status": int,
    "snapshot_id": int,
    "sequence_number": int,
    "data_file": {"file_path": str, "partition": dict, "record_count": int},
}


def _with_partition(schema: str) -> str:
    """Return a schema whose partition has a field. Without partitions, the partition struct has no field, and is the only value without bytes."""
    found = json.loads(schema)
    for field in found["fields"]:
        for inside in field["type"]["fields"] if field["name"] == "data_file" else ():
            if inside["name"] == "partition" and not inside["type"]["fields"]:
                inside["type"]["fields"] = [{"name": "none", "type": "boolean"}]
    return json.dumps(found)


def _has(record: object, wanted: Mapping[str, Any]) -> bool:
    """Say whether a record has fields of these types."""
    return isinstance(record, dict) and all(
        _has(record.get(name), kind) if isinstance(kind, Mapping) else isinstance(record.get(name), kind)
        for name, kind in wanted.items()
    )


def unreadable(path: str, why: str) -> CorruptAvroError:
    """Return the error for a manifest that this project has not written in this way."""
    return CorruptAvroError(
        f"A file of the table's Iceberg metadata cannot be read: {why:.200}",
        path=path or None,
        hint=AGAIN,
    )


def header_of(
    spec: PartitionSpec, spec_id: int, schema_id: int, columns: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Return the entries about schema and spec in the header of a manifest."""
    schema = {"type": "struct", "schema-id": schema_id, "fields": list(columns)}
    return {
        "schema": json.dumps(schema, separators=(",", ":")),
        "schema-id": str(schema_id),
        "partition-spec": json.dumps(spec.json()[spec_id]["fields"], separators=(",", ":")),
        "partition-spec-id": str(spec_id),
        "content": "data",
    }
