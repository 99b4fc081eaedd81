"""The Avro schemas of the metadata table's records: `HoodieMetadataRecord` of release 1.0, and of 1.1 and newer.

The order of fields matters for the bytes. Every text outside the meta columns is marked as a Java string: without the mark, release 1.0.2 cannot read
the record. In the newer schema, statistics name the type of their values (`TYPED_SCHEMA`); releases that write it read both schemas.
"""

from __future__ import annotations

import json
from typing import Any

from pyhudi_core.model.meta_fields import META_FIELDS
from pyhudi_core.model.properties import V1, V2

FILES_FIELD = "filesystemMetadata"
STATS_FIELD = "ColumnStatsMetadata"
BLOOM_FIELD = "BloomFilterMetadata"
LOCATION_FIELD = "recordIndexMetadata"
SECONDARY_FIELD = "SecondaryIndexMetadata"
VALUE_TYPE = "valueType"
_NAMESPACE = "org.apache.hudi.avro.model"
_JAVA = {"avro.java.string": "String"}
_TEXT: dict[str, Any] = {"type": "string", **_JAVA}
_WRAPPED: dict[str, Any] = {
    "Boolean": "boolean",
    "Int": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "Bytes": "bytes",
    "String": _TEXT,
    "Date": "int",
    "Decimal": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    "TimeMicros": {"type": "long", "logicalType": "time-micros"},
    "TimestampMicros": "long",
    "LocalDate": "int",
}
"""The types that a bound of a column can have; each is a record with the field ``value``."""


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _statistics(*, typed: bool) -> dict[str, Any]:
    wrappers = [_record(f"{name}Wrapper", _field("value", kind)) for name, kind in _WRAPPED.items()]
    names = [wrapper["name"] for wrapper in wrappers]
    if typed:
        items = {"type": "array", "items": ["null", *names]}
        wrappers.append(_record("ArrayWrapper", _optional("wrappedValues", items)))
        names.append("ArrayWrapper")
    info = _record("HoodieValueTypeInfo", _field("typeOrdinal", "int"), _optional("additionalInfo", _TEXT))
    return _record(
        "HoodieMetadataColumnStats",
        _optional("fileName", _TEXT),
        _optional("columnName", _TEXT),
        {"name": "minValue", "type": ["null", *wrappers], "default": None},
        {"name": "maxValue", "type": ["null", *names], "default": None},
        *(_optional(name, "long") for name in ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")),
        _field("isDeleted", "boolean"),
        {"name": "isTightBound", "type": "boolean", "default": False},
        *((_optional(VALUE_TYPE, info),) if typed else ()),
    )


def _location() -> dict[str, Any]:
    return _record(
        "HoodieRecordIndexInfo",
        _optional("partitionName", _TEXT),
        _optional("fileIdHighBits", "long"),
        _optional("fileIdLowBits", "long"),
        _optional("fileIndex", "int"),
        _optional("fileId", _TEXT),
        _optional("instantTime", "long"),
        {"name": "fileIdEncoding", "type": "int", "default": 0},
        _optional("position", "long"),
    )


def _schema(*, typed: bool = False) -> dict[str, Any]:
    file = _record("HoodieMetadataFileInfo", _field("size", "long"), _field("isDeleted", "boolean"))
    bloom = _record(
        "HoodieMetadataBloomFilter",
        _field("type", _TEXT),
        _field("timestamp", _TEXT),
        _field("bloomFilter", "bytes"),
        _field("isDeleted", "boolean"),
    )
    record = _record(
        "HoodieMetadataRecord",
        *(_optional(name, "string") for name in META_FIELDS),
        _field("key", _TEXT),
        _field("type", "int"),
        _field(FILES_FIELD, ["null", {"type": "map", "values": file, **_JAVA}]),
        _optional(BLOOM_FIELD, bloom),
        _optional(STATS_FIELD, _statistics(typed=typed)),
        _optional(LOCATION_FIELD, _location()),
        _optional(SECONDARY_FIELD, _record("HoodieSecondaryIndexInfo", _field("isDeleted", "boolean"))),
    )
    return {**record, "namespace": _NAMESPACE}


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "fields": [field for field in record["fields"] if field["name"] not in META_FIELDS]}


SCHEMA = json.dumps(_schema(), separators=(",", ":"))
"""The schema of release 1.0, as JSON text."""
TYPED_SCHEMA = json.dumps(_schema(typed=True), separators=(",", ":"))
"""The schema of releases 1.1 and newer."""
PLAIN_SCHEMA = json.dumps(_plain(_schema()), separators=(",", ":"))
"""The schema of release 1.0 without the meta columns, as commits store it."""
TYPED_PLAIN_SCHEMA = json.dumps(_plain(_schema(typed=True)), separators=(",", ":"))

OF_COMMITS = {V1: PLAIN_SCHEMA, V2: TYPED_PLAIN_SCHEMA}
"""The schema in the commits of a metadata table, by `TableConfig.index_version`. Hudi's compaction keeps only the fields of this schema."""
