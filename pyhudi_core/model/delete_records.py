"""The Avro schema of a delete block in a log file: key, partition, and an ordering value in one of twelve wrapper types.

``HoodieDeleteRecordList`` of table version 8. Releases from 1.1 on append a thirteenth wrapper, for several ordering columns;
it is accepted when a log is read.
"""

from __future__ import annotations

from typing import Any

_NAMESPACE = "org.apache.hudi.avro.model"

_WRAPPED: tuple[tuple[str, Any], ...] = (
    ("BooleanWrapper", "boolean"),
    ("IntWrapper", "int"),
    ("LongWrapper", "long"),
    ("FloatWrapper", "float"),
    ("DoubleWrapper", "double"),
    ("BytesWrapper", "bytes"),
    ("StringWrapper", "string"),
    ("DateWrapper", {"type": "int", "logicalType": "date"}),
    ("DecimalWrapper", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}),
    ("TimeMicrosWrapper", {"type": "long", "logicalType": "time-micros"}),
    ("TimestampMicrosWrapper", {"type": "long", "logicalType": "timestamp-micros"}),
)


def _wrapper(name: str, kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": kind}]}


def _ordering_union() -> list[Any]:
    wrappers = [_wrapper(name, kind) for name, kind in _WRAPPED]
    names = [f"{_NAMESPACE}.{name}" for name, _ in _WRAPPED]
    items = {"type": "array", "items": ["null", *names, _wrapper("LocalDateWrapper", "int")]}
    several = _wrapper("ArrayWrapper", ["null", items])
    several["fields"][0]["name"] = "wrappedValues"
    return ["null", *wrappers, several]


DELETE_LIST_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieDeleteRecordList",
    "namespace": _NAMESPACE,
    "fields": [
        {
            "name": "deleteRecordList",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "HoodieDeleteRecord",
                    "fields": [
                        {"name": "recordKey", "type": ["null", "string"], "default": None},
                        {"name": "partitionPath", "type": ["null", "string"], "default": None},
                        {"name": "orderingVal", "type": _ordering_union(), "default": None},
                    ],
                },
            },
        }
    ],
}
