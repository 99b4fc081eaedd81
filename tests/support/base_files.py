"""Base files with a few columns, made by our writer."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pyhudi_core.formats.base_file import BaseFileWriter
from pyhudi_core.formats.bloom import BloomFilter
from pyhudi_core.model.meta_fields import with_meta_fields
from pyhudi_core.model.schema import to_avro

SCHEMA = with_meta_fields(pa.schema([("id", pa.int64()), ("note", pa.string()), ("amount", pa.decimal128(10, 2))]))


def opened(data: bytes) -> pa.NativeFile:
    return pa.BufferReader(data)


def rows(count: int, start: int = 0) -> pa.RecordBatch:
    numbers = range(start, start + count)
    columns = [
        pa.array(["20260101000000000"] * count),
        pa.array([f"20260101000000000_0_{number}" for number in numbers]),
        pa.array([f"{number:08d}" for number in numbers]),
        pa.array(["day=1"] * count),
        pa.array(["f_0-0-0_20260101000000000.parquet"] * count),
        pa.array(numbers, pa.int64()),
        pa.array([None if number % 3 else f"note {number % 7}" for number in numbers], pa.string()),
        pa.array([Decimal(number) / 4 for number in numbers], pa.decimal128(10, 2)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def written(*batches: pa.RecordBatch | pa.Table, bloom: BloomFilter | None = None, **options: Any) -> bytes:
    out = io.BytesIO()
    writer = BaseFileWriter(out, SCHEMA, avro_schema=to_avro(SCHEMA, "t"), bloom=bloom, **options)
    for batch in batches:
        writer.write(batch)
        writer.add_keys(batch["_hoodie_record_key"])
    writer.close()
    return out.getvalue()


def zigzag(value: int) -> bytes:
    """The variable-length integer of Thrift."""
    left, out = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])
