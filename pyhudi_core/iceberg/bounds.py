"""Values as Iceberg stores them in bounds of columns and partitions (Iceberg's specification, "Binary single-value serialization")."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY = dt.date(1970, 1, 1)
_PACKED = {"int": "<i", "long": "<q", "float": "<f", "double": "<d"}


def encoded(value: Any, kind: str) -> bytes | None:
    """Return the bytes of a value of an Iceberg type; None if the type has no bounds, or if the value is out of range."""
    try:
        if kind in _PACKED:
            return struct.pack(_PACKED[kind], value)
        if kind == "boolean":
            return b"\x01" if value else b"\x00"
        if kind == "date":
            return struct.pack("<i", (value - _DAY).days)
        if kind in ("timestamp", "timestamptz"):
            moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return struct.pack("<q", (moment - _EPOCH) // dt.timedelta(microseconds=1))
        if kind == "string":
            return str(value).encode()
        return _decimal(value, kind)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError):
        return None


def _decimal(value: Any, kind: str) -> bytes | None:
    if not kind.startswith("decimal") or not isinstance(value, Decimal):
        return None
    scale = int(kind[:-1].rpartition(",")[2])
    number = int(value.scaleb(scale))
    if Decimal(number).scaleb(-scale) != value:
        return None
    size = (number + (number < 0)).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)
