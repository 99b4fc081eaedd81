"""Avro records to Arrow columns: the same values as fastavro gives, whatever the types; damaged bytes are typed errors."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import time
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples
from support.speed import slowness

from pyhudi_core.errors import CorruptAvroError
from pyhudi_core.formats.avro.columns import compile_schema, decode_records
from pyhudi_core.formats.avro.cursor import ColumnsRefusedError
from pyhudi_core.formats.log.contents import read_records, write_records
from pyhudi_core.model.schema_avro import to_avro

UTC = datetime.UTC
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC), min_value=datetime.datetime(1900, 1, 1))),
    (pa.timestamp("us"), st.datetimes(min_value=datetime.datetime(1900, 1, 1))),
    (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(decimal.Decimal)),
    (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-5, 5), max_size=5)),
    (pa.map_(pa.string(), pa.float64()), st.dictionaries(st.text(max_size=3), st.none() | st.just(1.5), max_size=3)),
    (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
        st.fixed_dictionaries({"x": st.none() | st.just(3), "y": st.none() | st.lists(st.none() | st.just("q"), max_size=3)}),
    ),
]  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """A schema of some columns, and rows of it."""
    chosen = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=6))
    schema = pa.schema([(f"c{n}", kind) for n, (kind, _) in enumerate(chosen)])
    row = st.fixed_dictionaries({f"c{n}": st.none() | values for n, (_, values) in enumerate(chosen)})
    return schema, draw(st.lists(row, max_size=20))


def encoded(text: str, rows: list[dict[str, Any]]) -> tuple[bytes, np.ndarray, np.ndarray]:
    """The records one after the other, and where they lie."""
    parsed, out, places = fastavro.parse_schema(json.loads(text)), io.BytesIO(), [0]
    for row in rows:
        fastavro.schemaless_writer(out, parsed, row)
        places.append(out.tell())
    return out.getvalue(), np.array(places[:-1], np.int64), np.array(places[1:], np.int64)


@settings(max_examples=examples(300), deadline=None)
@given(tables())
def test_every_type_comes_back_as_it_was_written(case: tuple[pa.Schema, list[dict[str, Any]]]) -> None:
    schema, rows = case
    text = to_avro(schema, "t")
    found = decode_records(text, *encoded(text, rows))
    assert found.schema == schema
    assert pa.Table.from_batches([found]).equals(pa.Table.from_pylist(rows, schema=schema))


def record(*fields: tuple[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields]})


def test_unions_of_several_types_become_a_struct_with_a_field_for_each() -> None:
    text = record(("u", ["null", "long", "string"]))
    found = decode_records(text, *encoded(text, [{"u": 1}, {"u": None}, {"u": "x"}]))
    assert found.column("u").to_pylist() == [{"long": 1, "string": None}, None, {"long": None, "string": "x"}]


def test_enums_fixed_and_decimals_in_bytes_are_read() -> None:
    text = record(
        ("e", {"type": "enum", "name": "e", "symbols": ["a", "b"]}),
        ("f", {"type": "fixed", "name": "f", "size": 2}),
        ("d", {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}),
    )
    values = [decimal.Decimal("-1.25"), decimal.Decimal("0.00"), decimal.Decimal("123456789012345678901234.56")]
    rows = [{"e": "b", "f": b"xy", "d": value} for value in values]
    found = decode_records(text, *encoded(text, rows))
    assert found.to_pylist() == rows


@pytest.mark.parametrize("size", [16, 17, 20])
def test_decimals_in_wide_fixed_are_read_and_those_of_more_than_128_bits_are_refused(size: int) -> None:
    kind = {"type": "fixed", "name": "f", "size": size, "logicalType": "decimal", "precision": 38, "scale": 0}
    text = record(("d", kind))
    numbers = [0, -1, 10**37, -(10**37)]
    data = [number.to_bytes(size, "big", signed=True) for number in numbers]

    def decoded(*values: bytes) -> list[Any]:
        places = np.arange(len(values) + 1, dtype=np.int64) * size
        return decode_records(text, b"".join(values), places[:-1], places[1:]).column("d").to_pylist()

    assert decoded(*data) == [decimal.Decimal(number) for number in numbers]
    if size > 16:
        for number in (1 << 128, -(1 << 130)):
            with pytest.raises(CorruptAvroError, match="128 bits"):
                decoded(data[0], number.to_bytes(size, "big", signed=True))


def test_named_types_can_be_used_again() -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}]}
    text = record(("a", inner), ("b", ["null", "inner"]))
    rows = [{"a": {"x": 1}, "b": {"x": 2}}, {"a": {"x": 3}, "b": None}]
    assert decode_records(text, *encoded(text, rows)).to_pylist() == rows


def test_an_array_in_several_blocks_with_sizes_is_one_array() -> None:
    text = record(("l", {"type": "array", "items": "int"}))
    data = bytes([3, 4, 2, 4, 2, 6, 0])  # -2 items in 2 bytes: 1, 2; then 1 item: 3; end
    assert decode_records(text, data, np.array([0]), np.array([len(data)])).to_pylist() == [{"l": [1, 2, 3]}]


def test_an_array_that_is_too_long_for_columns_is_left_to_another_reader() -> None:
    text = record(("l", {"type": "array", "items": ["null", "int"]}))
    with pytest.raises(ColumnsRefusedError):
        decode_records(text, *encoded(text, [{"l": [0] * 10_001}]))


PLAIN: list[tuple[Any, Any]] = [
    ("boolean", lambda n: n % 3 == 0),
    ("int", lambda n: (-1) ** n * 2 ** (n % 31)),
    ("long", lambda n: (-1) ** n * 2 ** (n % 63)),
    ("float", float),
    ("double", float),
    ({"type": "fixed", "name": "f", "size": 3}, lambda n: n.to_bytes(3, "big")),
    ({"type": "enum", "name": "e", "symbols": ["x", "y", "z"]}, lambda n: "xyz"[n % 3]),
]
"""Types whose values have a place that is known before they are read, and a value by number."""


@pytest.mark.parametrize(("items", "value"), PLAIN, ids=[str(items) for items, _ in PLAIN])
def test_an_array_of_plain_values_is_read_at_once_however_long_it_is(
    items: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = record(("id", "int"), ("l", {"type": "array", "items": items}), ("last", "int"))
    lengths = (0, 11_000, 3, 0, 12_000, 1)
    rows = [{"id": n, "l": [value(n + m) for m in range(count)], "last": -n} for n, count in enumerate(lengths)]
    expected = decode_records(text, *encoded(text, rows))
    assert expected.to_pylist() == rows
    monkeypatch.setattr("pyhudi_core.formats.avro.columns._MOST_ITEMS", 1_000)
    assert decode_records(text, *encoded(text, rows)).equals(expected), "in several parts"


@pytest.mark.parametrize(("items", "value"), PLAIN, ids=[str(items) for items, _ in PLAIN])
def test_an_array_of_plain_values_that_ends_too_early_is_a_typed_error(items: Any, value: Any) -> None:
    text = record(("l", {"type": "array", "items": items}))
    data, starts, ends = encoded(text, [{"l": [value(n) for n in range(300)]}])
    for cut in (1, 2, 3, 150):
        with pytest.raises(CorruptAvroError):
            decode_records(text, data[:-cut], starts, ends - cut)
    with pytest.raises(CorruptAvroError):
        decode_records(text, b"\x08" + b"\xff" * 40, np.array([0]), np.array([41]))


def test_six_million_booleans_are_read_in_about_a_second() -> None:
    count = 6_000_000
    head = io.BytesIO()
    fastavro.schemaless_writer(head, "long", count)
    data = head.getvalue() + b"\1" * count + b"\0"
    started = time.process_time()
    found = decode_records(
        record(("l", {"type": "array", "items": "boolean"})), data, np.array([0]), np.array([len(data)])
    )
    assert time.process_time() - started < slowness()
    assert len(found.column("l")[0]) == count


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '"string"',
        record(("a", "unknown")),
        record(("a", {"type": "array", "items": "null"})),
        record(("a", {"type": "fixed", "name": "f", "size": 0})),
        json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}),
        record(("a", [["null", "int"], "string"])),
        record(("a", ["null", "int", "int"])),
        record(("a", "int"), ("a", "string")),
        record(("\ud800", "int")),
        record(("a", {"type": "enum", "name": "e", "symbols": ["x", "\ud800"]})),
        record(("a", {"type": "fixed", "name": "f", "size": float("inf")})),
        record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 2**40})),
    ],
)
def test_schemas_that_cannot_be_are_typed_errors(text: str) -> None:
    with pytest.raises(CorruptAvroError):
        compile_schema(text)


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 3}


def test_a_decimal_without_a_scale_is_a_whole_number() -> None:
    found = decode_records(record(("a", DECIMAL)), b"\x04\x03\xe7", np.array([0]), np.array([3]))
    assert found.column("a").type == pa.decimal128(3, 0)
    assert found.to_pylist() == [{"a": decimal.Decimal(999)}]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\x80" * 9 + b"\x01"),  # 2^62
        ({"type": "long", "logicalType": "local-timestamp-millis"}, b"\xff" * 9 + b"\x01"),  # -2^63
        (DECIMAL, b"\x04\x03\xe8"),  # 1000
    ],
)
def test_values_that_their_type_cannot_hold_are_typed_errors(kind: Any, data: bytes) -> None:
    """Multiplied by 1000 and wrapped around they would be other times; Arrow would show a decimal that is none."""
    with pytest.raises(CorruptAvroError):
        decode_records(record(("a", kind)), data, np.array([0]), np.array([len(data)]))


def test_arrays_in_arrays_do_not_take_longer_than_their_bytes_are_worth() -> None:
    text = record(("a", {"type": "array", "items": {"type": "array", "items": ["null", "int"]}}))
    rows = [{"a": [[1] * 9_000] * 40}]
    started = time.process_time()
    with pytest.raises(ColumnsRefusedError):
        decode_records(text, *encoded(text, rows))
    assert time.process_time() - started < 5.0 * slowness()
    content = pa.py_buffer(write_records(text, rows))
    assert read_records(content, text, "f").to_pylist() == rows


def test_a_schema_that_only_one_of_the_two_readers_takes_is_a_typed_error() -> None:
    good = record(("a", {"type": "array", "items": ["null", "int"]}))
    content = pa.py_buffer(write_records(good, [{"a": [0] * 10_001}]))
    with pytest.raises(CorruptAvroError):
        read_records(content, good.replace('"name": "a",', '"name": "a", "default": 7,'), "f")


FUZZED = record(
    ("k", "string"),
    ("n", ["null", "long"]),
    ("l", {"type": "array", "items": ["null", "string"]}),
    ("m", {"type": "map", "values": "double"}),
)
ROWS = [{"k": "abc", "n": 5, "l": ["x", None], "m": {"a": 1.0}}, {"k": "", "n": None, "l": [], "m": {}}] * 3


@settings(max_examples=examples(500), deadline=2_000)
@given(st.data())
def test_damaged_records_are_rows_or_a_typed_error(data: st.DataObject) -> None:
    buffer, starts, ends = encoded(FUZZED, ROWS)
    damaged = bytearray(buffer)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        found = decode_records(FUZZED, bytes(damaged), starts, ends)
    except (CorruptAvroError, ColumnsRefusedError):
        return
    assert found.num_rows == len(ROWS)
    found.validate(full=True)


NESTINGS: dict[str, Any] = {
    "array": lambda kind, number: {"type": "array", "items": kind},
    "map": lambda kind, number: {"type": "map", "values": kind},
    "record": lambda kind, number: {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": kind}]},
}


@pytest.mark.parametrize("nest", NESTINGS.values(), ids=NESTINGS)
def test_each_kind_of_nesting_counts_one_to_the_limit_of_columns(nest: Any) -> None:
    kind: Any = "int"
    for number in range(31):
        kind = nest(kind, number)
    assert compile_schema(record(("a", kind)))
    with pytest.raises(CorruptAvroError):
        compile_schema(record(("a", nest(kind, 31))))


def test_the_smallest_number_is_one_and_a_time_that_is_too_far_away_is_none() -> None:
    text = record(("n", "long"), ("u", {"type": "long", "logicalType": "local-timestamp-micros"}))
    rows = [{"n": -(2**63), "u": -(2**63) + 1}, {"n": 2**63 - 1, "u": 0}]
    assert decode_records(text, *encoded(text, [rows[1], {"n": -(2**63), "u": 0}])).column("n").to_pylist() == [
        2**63 - 1,
        -(2**63),
    ]
    millis = record(("m", {"type": "long", "logicalType": "timestamp-millis"}))
    for value in (2**63 // 1000 + 1, -(2**63) // 1000 - 1):
        with pytest.raises(CorruptAvroError, match="too far away"):
            decode_records(millis, *encoded(record(("m", "long")), [{"m": value}]))


def test_columns_may_have_as_many_types_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi_core.formats.avro.columns._MAX_TYPES", 5)
    names = [f"of {number} types" for number in range(5)]
    assert compile_schema(record(*((name, "int") for name in names[:4])))  # the record is one, too
    with pytest.raises(CorruptAvroError, match="too many types"):
        compile_schema(record(*((name, "int") for name in names)))
