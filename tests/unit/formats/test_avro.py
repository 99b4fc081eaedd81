"""Timeline files: what Hudi wrote is read, what is written is what Hudi would have written."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from pyhudi_core.errors import CorruptAvroError, DataError, LimitExceededError
from pyhudi_core.formats.avro import container as container_file
from pyhudi_core.formats.avro.container import decode_record, encode_record, sync_marker_of
from pyhudi_core.formats.avro.schema import MAX_DEPTH, SchemaRefusedError, safe_schema
from pyhudi_core.model.records import AVRO_SCHEMAS

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
FILES = sorted(GOLDEN.glob("*.avro"), key=lambda path: path.name)
SYNC = bytes(range(16))
STAT_FIELDS = [
    field["name"] for field in AVRO_SCHEMAS["HoodieCommitMetadata"]["fields"][0]["type"][1]["values"]["items"]["fields"]
]


def without_docs(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: without_docs(value) for key, value in schema.items() if key != "doc"}
    return [without_docs(item) for item in schema] if isinstance(schema, list) else schema


def container(schema: Any, *records: dict[str, Any], codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec, sync_marker=SYNC)
    return out.getvalue()


@pytest.mark.row("B6")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_hudi_reads_as_the_reference_decoder_reads_it(path: Path) -> None:
    data = path.read_bytes()
    assert decode_record(data, path.stem) == next(fastavro.reader(io.BytesIO(data)))


@pytest.mark.row("B6")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_record_is_written_byte_for_byte_as_hudi_wrote_it(path: Path) -> None:
    data = path.read_bytes()
    sync = sync_marker_of(data)
    again = encode_record(path.stem, decode_record(data, path.stem), sync_marker=sync)
    assert again.split(sync, 1)[1] == data.split(sync, 1)[1]
    ours, theirs = (fastavro.reader(io.BytesIO(file)).metadata for file in (again, data))
    assert set(ours) == set(theirs) == {"avro.schema"}
    assert json.loads(ours["avro.schema"]) == without_docs(json.loads(theirs["avro.schema"]))


def test_the_sync_marker_of_a_written_file_is_the_callers() -> None:
    data = encode_record("HoodieCommitMetadata", {}, sync_marker=SYNC)
    assert sync_marker_of(data) == SYNC
    assert data.count(SYNC) == 2


def test_left_out_fields_take_the_defaults_that_hudi_knows() -> None:
    record = decode_record(encode_record("HoodieCompactionPlan", {}, sync_marker=SYNC), "HoodieCompactionPlan")
    assert record["version"] == 1
    assert record["preserveHoodieMetadata"] is False
    assert record["operations"] is None


def test_a_missing_field_without_default_is_refused_when_writing() -> None:
    with pytest.raises(DataError, match="HoodieSavepointMetadata"):
        encode_record("HoodieSavepointMetadata", {"savepointedBy": "me"}, sync_marker=SYNC)


def test_a_value_of_another_type_is_refused_when_writing() -> None:
    with pytest.raises(DataError, match="HoodieCommitMetadata"):
        encode_record("HoodieCommitMetadata", {"operationType": 7}, sync_marker=SYNC)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_foreign_file_with_fewer_and_more_fields_is_filled_and_kept(codec: str) -> None:
    stat = {"type": "record", "name": "S", "fields": [{"name": "path", "type": "string"}]}
    schema = {
        "type": "record",
        "name": "Other",
        "namespace": "some.where.else",
        "fields": [
            {"name": "partitionToWriteStats", "type": {"type": "map", "values": {"type": "array", "items": stat}}},
            {"name": "newer", "type": "int"},
        ],
    }
    data = container(schema, {"partitionToWriteStats": {"p": [{"path": "p/f"}]}, "newer": 5}, codec=codec)
    record = decode_record(data, "HoodieCommitMetadata")
    assert record["version"] == 1
    assert record["newer"] == 5
    stat = record["partitionToWriteStats"]["p"][0]
    assert stat["path"] == "p/f"
    assert stat["numWrites"] is None
    assert set(stat) == set(STAT_FIELDS)


def test_without_an_expectation_a_record_is_what_the_file_says() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "null"]}]}
    assert decode_record(container(schema, {"a": 1})) == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 1), (["null", "long"], 2), ({"type": "array", "items": "string"}, ["x"]), ("bytes", b"x")],
)
def test_a_field_of_another_type_than_expected_is_corrupt(kind: Any, value: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "operationType", "type": kind}]}
    with pytest.raises(CorruptAvroError, match="where string is expected"):
        decode_record(container(schema, {"operationType": value}), "HoodieCommitMetadata", path="x.commit")


def test_null_where_a_value_must_be_is_corrupt() -> None:
    fields = [
        {"name": "savepointedBy", "type": ["null", "string"]},
        {"name": "savepointedAt", "type": "int"},
        {"name": "comments", "type": "string"},
        {"name": "partitionMetadata", "type": {"type": "map", "values": "int"}},
    ]
    record = {"savepointedBy": None, "savepointedAt": 1, "comments": "", "partitionMetadata": {}}
    schema = {"type": "record", "name": "R", "fields": fields[:3]}
    with pytest.raises(CorruptAvroError, match="partitionMetadata is missing"):
        decode_record(container(schema, record), "HoodieSavepointMetadata")
    fields[3]["type"] = {"type": "map", "values": {"type": "record", "name": "P", "fields": PARTITION_FIELDS}}
    schema = {"type": "record", "name": "R", "fields": fields}
    with pytest.raises(CorruptAvroError, match="is null"):
        decode_record(container(schema, record), "HoodieSavepointMetadata")
    assert decode_record(container(schema, record | {"savepointedBy": "me"}), "HoodieSavepointMetadata")


PARTITION_FIELDS = [
    {"name": "partitionPath", "type": "string"},
    {"name": "savepointDataFile", "type": {"type": "array", "items": "string"}},
]

NULLS = {"type": "array", "items": "null"}
EMPTY = {"type": "record", "name": "E", "fields": []}


@pytest.mark.parametrize(
    "kind",
    [NULLS, "null", {"type": "array", "items": EMPTY}, {"type": "fixed", "name": "F", "size": 0}, "R", ["null", "R"]],
    ids=["nulls", "null", "empty records", "empty fixed", "itself", "itself or null"],
)
def test_a_schema_whose_values_could_be_endless_is_refused(kind: Any) -> None:
    # One block that says 2^62 items follow, which take no bytes.
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}).encode()
    body = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"
    head = b"Obj\x01\x02\x16avro.schema" + _long(len(schema)) + schema + b"\x00" + SYNC
    with pytest.raises(CorruptAvroError):
        decode_record(head + b"\x02" + _long(len(body)) + body + SYNC)


def _long(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def test_a_schema_nested_too_deeply_is_refused() -> None:
    kind: Any = "int"
    for _ in range(40):
        kind = {"type": "array", "items": kind}
    data = container({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}, {"a": []})
    with pytest.raises(CorruptAvroError, match="nested"):
        decode_record(data)


@pytest.mark.parametrize("symbols", [None, [], "ab", {"a": 1}, ["a", 1]])
def test_an_enum_has_a_list_of_symbols(symbols: Any) -> None:
    good = {"type": "enum", "name": "e", "symbols": ["a", "b"]}
    assert safe_schema(json.dumps(good)) == {"type": "enum", "symbols": ["a", "b"]}
    with pytest.raises(SchemaRefusedError, match="symbols"):
        safe_schema(json.dumps(good | {"symbols": symbols}))


NESTINGS: dict[str, Any] = {
    "array": lambda kind, number: {"type": "array", "items": kind},
    "map": lambda kind, number: {"type": "map", "values": kind},
    "union": lambda kind, number: [kind],
    "type of a type": lambda kind, number: {"type": kind},
    "record": lambda kind, number: {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": kind}]},
}


@pytest.mark.parametrize("nest", NESTINGS.values(), ids=NESTINGS)
def test_each_kind_of_nesting_counts_one_to_the_limit(nest: Any) -> None:
    kind: Any = "int"
    for number in range(MAX_DEPTH):
        kind = nest(kind, number)
    assert safe_schema(json.dumps(kind))
    with pytest.raises(SchemaRefusedError, match="nested"):
        safe_schema(json.dumps(nest(kind, MAX_DEPTH)))


@pytest.mark.parametrize("place", ["key", "value"])
def test_a_length_below_zero_is_told_and_nothing_is_read_twice(place: str) -> None:
    text = b"\x01" if place == "key" else b"\x02k\x01"
    with pytest.raises(CorruptAvroError, match="-1 bytes are said to be"):
        decode_record(b"Obj\x01" + b"\x02" + text + b"\x00" * 40)


def test_what_inflates_beyond_the_limit_is_refused_before_it_is_inflated() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "bytes"}]}
    data = container(schema, {"a": bytes(1 << 22)}, codec="deflate")
    assert len(data) < 1 << 16
    with pytest.raises(LimitExceededError) as raised:
        decode_record(data, max_bytes=1 << 20)
    assert (raised.value.limit, raised.value.seen) == (1 << 20, (1 << 20) + 1)


def test_a_file_beyond_the_limit_is_refused() -> None:
    with pytest.raises(LimitExceededError):
        decode_record(bytes(100), max_bytes=99)


def test_no_file_is_made_that_readers_refuse_for_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"operationType": "upsert", "extraMetadata": {"note": "x" * 5000}}
    size = len(encode_record("HoodieCommitMetadata", record, sync_marker=bytes(16)))
    monkeypatch.setattr(container_file, "MAX_BYTES", size)
    same = encode_record("HoodieCommitMetadata", record, sync_marker=bytes(16))
    assert decode_record(same, max_bytes=size)["extraMetadata"] == {"note": "x" * 5000}
    monkeypatch.setattr(container_file, "MAX_BYTES", size - 1)
    with pytest.raises(DataError, match=f"would have {size:,} bytes, and readers take at most {size - 1:,}"):
        encode_record("HoodieCommitMetadata", record, sync_marker=bytes(16))


def test_a_record_that_was_read_is_not_refused_for_the_size_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_file, "MAX_BYTES", 1)
    assert encode_record("HoodieCommitMetadata", {}, sync_marker=bytes(16), is_written=False)


@pytest.mark.parametrize("record", ["HoodieRollbackPlan", "HoodieRestorePlan"])
def test_a_rollback_and_a_restore_of_very_many_files_are_never_refused(
    record: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_file, "MAX_BYTES", 1)
    assert encode_record(
        record, {"instantToRollback": None, "RollbackRequests": [], "instantsToRollback": []}, sync_marker=bytes(16)
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:200],
        lambda data: data + b"\x00",
        lambda data: data[:-16] + bytes(16),
        lambda data: b'{"partitionToWriteStats": {}}',
        lambda data: data.replace(b"avro.schema", b"avro.schemb"),
        lambda data: data + data[-16:],
    ],
    ids=["empty", "cut by one", "cut in header", "longer", "other sync", "json", "no schema", "twice"],
)
def test_a_damaged_file_names_itself_and_says_what_to_do(damage: Any) -> None:
    data = encode_record("HoodieCommitMetadata", {"operationType": "UPSERT"}, sync_marker=SYNC)
    with pytest.raises(CorruptAvroError) as raised:
        decode_record(damage(data), "HoodieCommitMetadata", path=".hoodie/timeline/1_2.commit")
    assert raised.value.path == ".hoodie/timeline/1_2.commit"
    assert raised.value.hint


def test_two_records_are_not_one() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    with pytest.raises(CorruptAvroError, match="2 records"):
        decode_record(container(schema, {"a": 1}, {"a": 2}))


def test_an_unknown_codec_is_refused_by_name() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    data = container(schema, {"a": 1}, codec="deflate").replace(b"\x0edeflate", b"\x0edeflata")
    with pytest.raises(CorruptAvroError, match="deflata"):
        decode_record(data)


def test_what_inflates_to_the_limit_is_read() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "bytes"}]}
    data = container(schema, {"a": bytes((1 << 20) - 3)}, codec="deflate")  # the length has three bytes
    assert decode_record(data, max_bytes=1 << 20) == {"a": bytes((1 << 20) - 3)}
    with pytest.raises(LimitExceededError):
        decode_record(data, max_bytes=(1 << 20) - 1)


def test_a_schema_of_a_megabyte_is_read_and_a_larger_one_is_not() -> None:
    short = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}).encode()
    for size, good in ((1 << 20, True), ((1 << 20) + 1, False)):
        text = short + b" " * (size - len(short))
        data = b"Obj\x01\x02\x16avro.schema" + _long(size) + text + b"\x00" + SYNC + b"\x02\x02\x0e" + SYNC
        if good:
            assert decode_record(data) == {"a": 7}
            continue
        with pytest.raises(CorruptAvroError, match="the schema has"):
            decode_record(data)


@pytest.mark.parametrize("size", [1, 16, 2**31 - 1])
def test_a_fixed_has_a_size(size: int) -> None:
    good = {"type": "fixed", "name": "f", "size": size}
    assert safe_schema(json.dumps(good)) == {"type": "fixed", "size": size}


@pytest.mark.parametrize("size", [0, -1, 2**31, True, None, "16", 1.5])
def test_a_fixed_without_a_positive_size_is_refused(size: Any) -> None:
    with pytest.raises(SchemaRefusedError, match="no positive size"):
        safe_schema(json.dumps({"type": "fixed", "name": "f", "size": size}))


def test_types_of_one_name_in_two_namespaces_are_two_types() -> None:
    def fixed(size: int, **names: str) -> dict[str, Any]:
        return {"type": "fixed", "size": size, **names}

    kinds: list[Any] = [
        fixed(1, name="f", namespace="a"),
        fixed(2, name="f", namespace="b"),
        fixed(3, name="c.f", namespace="b"),
        fixed(4, name="f"),  # of the namespace of the record
    ]
    fields = [{"name": f"n{number}", "type": kind} for number, kind in enumerate([*kinds, "a.f", "b.f", "c.f", "f"])]
    read = safe_schema(json.dumps({"type": "record", "name": "r.R", "fields": fields}))
    assert [kind["size"] for kind in read["fields"].values()] == [1, 2, 3, 4] * 2


def test_a_schema_may_have_as_many_types_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi_core.formats.avro.schema.MAX_TYPES", 5)
    fields = [{"name": f"f{number}", "type": "int"} for number in range(5)]
    assert safe_schema(json.dumps({"type": "record", "name": "R", "fields": fields[:4]}))  # the record is one, too
    with pytest.raises(SchemaRefusedError, match="too many types"):
        safe_schema(json.dumps({"type": "record", "name": "R", "fields": fields}))
