"""Arrow columns to Avro records: byte for byte what fastavro writes, whatever the types; what does not fit is a typed error."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples
from unit.formats.test_avro_columns import encoded, record, tables

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.formats.avro.columns import compile_schema, decode_records
from pyhudi_core.formats.avro.encoding import EncodedRecords
from pyhudi_core.formats.avro.encoding import encode_records as one_way
from pyhudi_core.formats.log.contents import read_records, write_records, write_rows
from pyhudi_core.model.schema_avro import to_avro


def encode_records(schema: str, rows: pa.RecordBatch | pa.Table, *, head: bool = False) -> EncodedRecords:
    """Encode both ways: by columns, and value by value."""
    found, by_value = (one_way(schema, rows, head=head, few=few) for few in (0, rows.num_rows))
    assert found.buffer == by_value.buffer
    assert (found.starts == by_value.starts).all()
    assert (found.ends == by_value.ends).all()
    return found


@settings(max_examples=examples(300), deadline=None)
@given(tables(), st.integers(0, 3))
def test_the_bytes_of_every_type_are_those_of_fastavro(case: tuple[pa.Schema, list[dict[str, Any]]], skip: int) -> None:
    schema, rows = case
    text = to_avro(schema, "t")
    table = pa.Table.from_pylist(rows, schema=schema).slice(skip)  # a slice begins inside of its buffers
    expected, starts, ends = encoded(text, rows[skip:])
    found = encode_records(text, table)
    assert found.buffer.to_pybytes() == expected
    assert (found.starts.tolist(), found.ends.tolist()) == (starts.tolist(), ends.tolist())
    assert found.values().to_pylist() == [expected[a:b] for a, b in zip(starts, ends, strict=True)]


def bytes_of(text: str, rows: list[dict[str, Any]]) -> bytes:
    table = pa.RecordBatch.from_pylist(rows, pa.schema(list(compile_schema(text).type)))
    return encode_records(text, table).buffer.to_pybytes()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("long", [0, -1, 1, 63, 64, -64, -65, 2**31, -(2**31), 2**63 - 1, -(2**63), 8191, 8192]),
        ("int", [0, 2**31 - 1, -(2**31)]),
        ("boolean", [True, False]),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["B", "A"]),
        ({"type": "fixed", "name": "f", "size": 3}, [b"abc", b"\0\0\0"]),
        (["string", "null"], ["a" * 200, None, ""]),
        ({"type": "array", "items": {"type": "array", "items": "long"}}, [[], [[]], [[1], [], [2, 300]]]),
        ({"type": "map", "values": {"type": "map", "values": "string"}}, [[], [("k", [("a", "b")]), ("l", [])]]),
    ],
)
def test_values_at_the_edges_and_without_a_union_are_written_alike(kind: Any, values: list[Any]) -> None:
    text = record(("v", kind))
    rows = [{"v": dict(value) if isinstance(kind, dict) and kind["type"] == "map" else value} for value in values]
    if isinstance(kind, dict) and kind["type"] == "map":
        rows = [{"v": {name: dict(inner) for name, inner in row["v"].items()}} for row in rows]
    expected = encoded(text, rows)[0]
    assert bytes_of(text, [{"v": value} for value in values]) == expected


@pytest.mark.parametrize("digits", ["0", "1", "-1", "127", "128", "-128", "-129", "32767", "-32768", "9" * 20])
def test_decimals_in_bytes_take_as_few_as_java_takes(digits: str) -> None:
    from decimal import Decimal

    text = record(("v", {"type": "bytes", "logicalType": "decimal", "precision": 22, "scale": 0}))
    number = int(digits)
    shortest = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    assert bytes_of(text, [{"v": Decimal(digits)}]) == bytes([2 * len(shortest)]) + shortest


@pytest.mark.parametrize("size", [2, 16, 17, 20])
def test_decimals_in_a_fixed_have_its_size_and_their_sign(size: int) -> None:
    from decimal import Decimal

    kind = {"type": "fixed", "name": "f", "size": size, "logicalType": "decimal", "precision": 4, "scale": 0}
    found = bytes_of(record(("v", kind)), [{"v": Decimal(-129)}, {"v": Decimal(9999)}])
    assert found == (-129).to_bytes(size, "big", signed=True) + (9999).to_bytes(size, "big")


def test_a_union_of_several_types_is_written_from_the_branch_that_has_a_value() -> None:
    text = record(("v", ["null", "long", "string"]))
    expected = encoded(text, [{"v": 7}, {"v": None}, {"v": "x"}])[0]
    kind = compile_schema(text).type.field("v").type
    names = [field.name for field in kind]
    rows = [{"v": {names[0]: 7}}, {"v": None}, {"v": {names[1]: "x"}}]
    assert bytes_of(text, rows) == expected


def test_an_absent_nullable_field_is_null_and_other_columns_are_left_out() -> None:
    text = record(("a", ["null", "long"]), ("b", ["null", "string"]))
    rows = pa.table({"c": [True], "b": ["x"]})
    assert encode_records(text, rows).buffer.to_pybytes() == encoded(text, [{"a": None, "b": "x"}])[0]


@pytest.mark.parametrize("unit", ["millis", "micros", "nanos"])
def test_times_are_written_in_the_unit_of_the_schema(unit: str) -> None:
    text = record(("v", {"type": "long", "logicalType": f"timestamp-{unit}"}))
    factor = {"millis": 1, "micros": 1000, "nanos": 1_000_000}[unit]
    rows = pa.table({"v": pa.array([1_767_225_600_123_000, -1000], pa.timestamp("us", "UTC"))})
    assert (
        encode_records(text, rows).buffer.to_pybytes()
        == (encoded(record(("v", "long")), [{"v": 1_767_225_600_123 * factor}, {"v": -factor}])[0])
    )


@pytest.mark.parametrize("arrow", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_other_layouts_of_texts_are_taken(arrow: pa.DataType) -> None:
    text = record(("v", ["null", "string"]))
    values = pa.array(["a", None, "bcd"]).cast(arrow)
    expected = encoded(text, [{"v": "a"}, {"v": None}, {"v": "bcd"}])[0]
    assert encode_records(text, pa.table({"v": values})).buffer.to_pybytes() == expected


LONG_OR_STRING = pa.array(
    [{"long": 1, "string": None}, {"long": None, "string": None}],
    pa.struct([("long", pa.int64()), ("string", pa.string())]),
)


@pytest.mark.parametrize("few", [0, 64])
@pytest.mark.parametrize(
    ("kind", "values", "says"),
    [
        ("long", pa.array([1, None]), "null"),
        (["long", "string"], LONG_OR_STRING, "null"),
        ({"type": "array", "items": "long"}, pa.array([[None]], pa.list_(pa.int64())), "v.element has null"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["B"]), "symbols"),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.array([1], pa.timestamp("us", "UTC")), "without loss"),
        ("int", pa.array([2**31]), "does not become int32"),
        ("string", pa.array([[1]]), "does not become string"),
        ("long", pa.array(["x"], pa.large_string()), "does not become int64"),
        ({"type": "fixed", "name": "f", "size": 2}, pa.array([b"abc"]), "does not become"),
    ],
)
def test_what_the_schema_cannot_hold_is_a_typed_error_that_names_the_column(
    kind: Any, values: pa.Array, says: str, few: int
) -> None:
    with pytest.raises(SchemaMismatchError, match=says):
        one_way(record(("v", kind)), pa.table({"v": values}), few=few)


def test_a_length_stands_before_each_record_of_a_log_block() -> None:
    text = record(("v", "string"))
    found = encode_records(text, pa.table({"v": ["ab", ""]}), head=True)
    assert found.buffer.to_pybytes() == b"\0\0\0\3\4ab" + b"\0\0\0\1\0"
    assert (found.starts.tolist(), found.ends.tolist()) == ([4, 11], [7, 12])


def test_many_rows_come_back_as_they_were() -> None:
    count = 40_000  # more than are encoded at once
    numbers = np.random.default_rng(7).integers(-(2**40), 2**40, count)
    rows = pa.table(
        {"n": numbers, "t": [f"text {n}" for n in numbers], "l": [[n, None] if n % 3 else None for n in numbers]}
    )
    text = to_avro(rows.schema, "t")
    found = one_way(text, rows)
    assert pa.Table.from_batches([decode_records(text, found.buffer, found.starts, found.ends)]).equals(
        rows.combine_chunks()
    )


def test_a_block_of_rows_is_read_back_as_a_log_is_read() -> None:
    rows = pa.table({"k": ["a", "b"], "v": pa.array([1, None], pa.int64())})
    text = to_avro(rows.schema, "t")
    content = write_rows(text, rows)
    assert content == write_records(text, rows.to_pylist())
    assert pa.Table.from_batches([read_records(pa.py_buffer(content), text, "log")]).equals(rows)


def test_no_rows_are_no_bytes() -> None:
    found = encode_records(record(("v", "long")), pa.table({"v": pa.array([], pa.int64())}))
    assert len(found.buffer) == 0
    assert len(found.values()) == 0


def test_a_union_of_null_alone_and_an_empty_record_take_what_avro_says() -> None:
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "v", "type": "null"}]})
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), {"v": None})
    assert encode_records(text, pa.table({"v": pa.nulls(1)})).buffer.to_pybytes() == out.getvalue() == b""
