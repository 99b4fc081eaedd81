"""The ranges of columns: what the writer of a base file knows and the footer does not say, and what old footers say."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from support.base_files import zigzag

from pyhudi_core.formats.base_file import BaseFileWriter, ColumnRange
from pyhudi_core.formats.base_file.parquet_statistics import column_ranges
from pyhudi_core.formats.base_file.thrift import thrift_struct
from pyhudi_core.model.meta_fields import with_meta_fields


def test_the_writer_knows_that_a_column_has_nan_which_the_footer_does_not_say() -> None:
    schema = with_meta_fields(pa.schema([("plain", pa.float64()), ("holes", pa.float32())]))
    meta = {name: ["x"] * 3 for name in schema.names[:5]}
    rows = pa.table({**meta, "plain": [1.0, None, 2.0], "holes": [1.0, float("nan"), -1.0]}, schema)
    sink = pa.BufferOutputStream()
    writer = BaseFileWriter(sink, schema, avro_schema="{}", bloom=None)
    writer.write(rows)
    ranges = writer.close().ranges
    assert (ranges["plain"].min, ranges["plain"].max) == (1.0, 2.0)
    assert ranges["holes"].min == -1.0
    assert ranges["holes"].max != ranges["holes"].max, "NaN"


INT32, INT64, FLOAT64, BYTE_ARRAY = 1, 2, 5, 6


def old_footer(physical: int, low: bytes, high: bytes, nulls: int | None) -> bytes:
    """A footer with one column, c, whose statistics are in the deprecated fields only, as old writers made it."""

    def text(value: bytes) -> bytes:
        return bytes([len(value)]) + value

    statistics = b"\x18" + text(high) + b"\x18" + text(low)
    statistics += b"\0" if nulls is None else b"\x16" + zigzag(nulls) + b"\0"
    meta = b"\x15" + zigzag(physical) + b"\x29\x18" + text(b"c") + b"\x9c" + statistics + b"\0"
    chunk = b"\x3c" + meta + b"\0"
    group = b"\x19\x1c" + chunk + b"\0"
    return b"\x49\x1c" + group + b"\0"


@pytest.mark.parametrize(
    ("kind", "physical", "form", "low"),
    [(pa.int32(), INT32, "<i", -5), (pa.int64(), INT64, "<q", -(2**40)), (pa.float64(), FLOAT64, "<d", -1.5)],
)
def test_old_statistics_of_numbers_are_their_range(kind: pa.DataType, physical: int, form: str, low: float) -> None:
    bounds = struct.pack(form, low), struct.pack(form, 7)
    found = column_ranges(thrift_struct(old_footer(physical, *bounds, 3))[0], pa.schema([("c", kind)]), ["c"])
    assert found == [{"c": ColumnRange(low, 7, 3)}]


@pytest.mark.parametrize("nulls", [None, -1, 0, 3])
def test_a_number_of_nulls_that_nobody_wrote_is_unknown_and_not_0(nulls: int | None) -> None:
    said = None if nulls == -1 else nulls
    bounds = struct.pack("<i", 1), struct.pack("<i", 7)
    footer = old_footer(INT32, *bounds, nulls)
    assert column_ranges(thrift_struct(footer)[0], pa.schema([("c", pa.int32())]), ["c"]) == [
        {"c": ColumnRange(1, 7, said)}
    ]
    without_bounds = [{"c": ColumnRange(None, None, said)}] if said is not None else [{}]
    texts = old_footer(BYTE_ARRAY, b"a", b"b", nulls)
    assert column_ranges(thrift_struct(texts)[0], pa.schema([("c", pa.string())]), ["c"]) == without_bounds


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_old_statistics_of_texts_tell_nulls_but_no_range_because_their_order_is_another(kind: pa.DataType) -> None:
    """Bytes were compared with their sign: there, é comes before a."""
    footer = old_footer(BYTE_ARRAY, "é".encode(), b"a", 3)
    assert column_ranges(thrift_struct(footer)[0], pa.schema([("c", kind)]), ["c"]) == [
        {"c": ColumnRange(None, None, 3)}
    ]
