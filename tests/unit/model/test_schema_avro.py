"""The Avro text of a table's schema: Hudi's own, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import CorruptAvroError, UnsupportedTableError
from pyhudi_core.formats.avro.container import decode_record
from pyhudi_core.model.schema import from_avro, to_avro

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"


def commit_schema() -> str:
    data = (GOLDEN / "HoodieCommitMetadata.avro").read_bytes()
    return decode_record(data, "HoodieCommitMetadata")["extraMetadata"]["schema"]


def field(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": [{"name": "c", "type": kind}]})


@pytest.mark.row("D10")
def test_the_schema_of_hudis_commit_is_written_byte_for_byte() -> None:
    text = commit_schema()
    assert to_avro(from_avro(text), "cow_rich_types") == text


def test_the_schema_of_hudis_footer_is_written_byte_for_byte() -> None:
    text = pq.read_metadata(GOLDEN / "rich_types.parquet").metadata[b"parquet.avro.schema"].decode()
    assert to_avro(from_avro(text), "cow_rich_types", meta_fields=True) == text


def test_hudis_types_are_read_as_logical_ones() -> None:
    schema = from_avro(commit_schema())
    assert schema.field("amount").type == pa.decimal128(18, 4)
    assert schema.field("ev").type == pa.timestamp("us", "UTC")
    assert schema.field("attrs").type == pa.map_(pa.string(), pa.int64())
    assert schema.names[-1] == "added"


_LEAVES = st.sampled_from(
    [
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.decimal128(1, 0),
        pa.decimal128(18, 4),
        pa.decimal128(38, 38),
    ]
)
_NAMES = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3, unique=True)


def _struct(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return _NAMES.flatmap(
        lambda names: st.tuples(*[kinds] * len(names)).map(lambda made: pa.struct(zip(names, made, strict=True)))
    )


_TYPES = st.recursive(
    _LEAVES,
    lambda kinds: kinds.map(pa.list_) | kinds.map(lambda kind: pa.map_(pa.string(), kind)) | _struct(kinds),
    max_leaves=8,
)


@settings(max_examples=examples(200), deadline=None)
@given(_struct(_TYPES))
def test_every_logical_schema_survives_the_way_there_and_back(struct: pa.DataType) -> None:
    schema = pa.schema(struct.fields)
    text = to_avro(schema, "my-table.1")
    assert from_avro(text) == schema
    assert from_avro(to_avro(schema, "t", meta_fields=True)) == schema
    fastavro.parse_schema(json.loads(text))


def test_names_that_avro_does_not_allow_are_masked_as_in_hudi() -> None:
    raw = json.loads(to_avro(pa.schema([("a", pa.int32())]), "1my-t.x"))
    assert (raw["name"], raw["namespace"]) == ("__my__t__x_record", "hoodie.__my__t__x")


@pytest.mark.parametrize(("precision", "size"), [(1, 1), (2, 1), (3, 2), (9, 4), (10, 5), (18, 8), (19, 9), (38, 16)])
def test_decimals_take_the_smallest_fixed(precision: int, size: int) -> None:
    raw = json.loads(to_avro(pa.schema([("a", pa.decimal128(precision, 0))]), "t"))
    assert raw["fields"][0]["type"][1]["size"] == size
    assert raw["fields"][0]["type"][1]["namespace"] == "hoodie.t.t_record.a"


@pytest.mark.parametrize(
    ("kind", "logical"),
    [
        ("int", pa.int32()),
        (["long", "null"], pa.int64()),
        (["null", {"type": "string", "avro.java.string": "String"}], pa.string()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("us")),
        ({"type": "int", "logicalType": "time-millis"}, pa.time64("us")),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        ({"type": "fixed", "name": "f", "size": 7}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, pa.decimal128(9, 3)),
        ({"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9}, pa.decimal128(9, 0)),
        ({"type": "long", "logicalType": "made-up"}, pa.int64()),
        ({"type": {"type": "array", "items": ["null", "int"]}}, pa.list_(pa.int32())),
    ],
    ids=str,
)
def test_what_other_writers_say_is_understood(kind: Any, logical: pa.DataType) -> None:
    assert from_avro(field(kind)).field("c").type == logical


def test_a_named_type_can_be_used_again() -> None:
    point = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "a", "type": point}, {"name": "b", "type": ["null", "P"]}, {"name": "c", "type": "n.P"}]
    schema = from_avro(json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": fields}))
    assert set(schema.types) == {pa.struct([("x", pa.int32())])}


@pytest.mark.parametrize(
    "kind",
    [
        ["int", "string"],
        "null",
        {"type": "fixed", "name": "f", "size": 12, "logicalType": "duration"},
        {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2},
        ["null", "r"],
    ],
    ids=str,
)
def test_a_type_that_cannot_be_read_is_refused_with_its_column(kind: Any) -> None:
    with pytest.raises((UnsupportedTableError, CorruptAvroError), match="column c"):
        from_avro(field(kind), table="s3://b/t")


def _doubling(levels: int) -> str:
    """A text that is small, and a type that is 2^levels large."""
    kind: Any = "int"
    for level in range(levels):
        fields = [{"name": "x", "type": kind}, {"name": "y", "type": kind if isinstance(kind, str) else kind["name"]}]
        kind = {"type": "record", "name": f"t{level}", "fields": fields}
    return field(kind)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "5",
        '"int"',
        "[" * 100_000,
        '{"type":"record"}',
        '{"type":"record","name":"r"}',
        '{"type":"record","name":"r","fields":[{"name":"c"}]}',
        '{"type":"record","name":"r","fields":[{"name":"c","type":"int"},{"name":"c","type":"int"}]}',
        field("missing"),
        field({"type": "bytes", "logicalType": "decimal", "precision": "9"}),
        field({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 5}),
        _doubling(28),
        _doubling(60),
    ],
    ids=lambda text: text[:40],
)
def test_damaged_text_is_a_typed_error(text: str) -> None:
    with pytest.raises(CorruptAvroError) as raised:
        from_avro(text, path=".hoodie/timeline/1_2.commit")
    assert raised.value.path == ".hoodie/timeline/1_2.commit"


@pytest.mark.parametrize(("precision", "scale"), [("9", 0), (3, 5), (0, 0), (-1, 0), (3, -1), (3, "1"), (None, 0)])
def test_a_decimal_that_cannot_be_is_named_by_its_column(precision: object, scale: object) -> None:
    text = field({"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale})
    with pytest.raises(CorruptAvroError, match="column c is a decimal of no valid precision and scale"):
        from_avro(text, path="")


@settings(max_examples=examples(500), deadline=2_000)
@given(st.data())
def test_text_with_any_damage_is_a_schema_or_a_typed_error(data: st.DataObject) -> None:
    text = bytearray(commit_schema().encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from([b"", b'"', b"null", b"]", b"0", b"record"])
        )
    schema, refused = None, None
    try:
        schema = from_avro(text.decode())
    except (CorruptAvroError, UnsupportedTableError) as error:
        refused = error
    assert refused.hint if refused else isinstance(schema, pa.Schema)
