"""Columns by number: renamed ones keep their values, and new ones do not get those of older ones of their name."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.model.internal_schema import Evolution, in_file, parse_version, parse_versions
from pyhudi_core.model.schema import conform

NESTED = {
    "type": "record",
    "fields": [{"id": 4, "name": "x", "type": "int"}, {"id": 5, "name": "y", "type": "string"}],
}


def version(number: int, *fields: tuple[int, str, Any]) -> dict[str, Any]:
    columns = [{"id": key, "name": name, "optional": True, "type": kind} for key, name, kind in fields]
    return {"max_column_id": 9, "version_id": number, "type": "record", "fields": columns}


def evolution(now: dict[str, Any], *versions: dict[str, Any]) -> Evolution:
    history = json.dumps({"schemas": [now, *versions]})
    return Evolution(parse_version(json.dumps(now), "commit")[1], parse_versions(history, "history"))


def rows(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_a_renamed_column_keeps_its_values() -> None:
    found = evolution(version(20, (1, "b", "string")), version(0, (1, "a", "string")))
    names = found.names_at("15")
    assert names is not None
    assert in_file(names, ["_hoodie_record_key", "b"]) == ["_hoodie_record_key", "a"]
    read = conform(rows(a=["old"]), pa.schema([("b", pa.string())]), names)
    assert read.to_pydict() == {"b": ["old"]}


def test_files_from_after_the_change_are_read_by_their_names() -> None:
    found = evolution(version(20, (1, "b", "string")), version(0, (1, "a", "string")))
    assert found.renames
    assert found.names_at("20") is None
    assert found.names_at("21") is None


def test_a_column_that_took_the_name_of_an_older_one_is_null_in_older_files() -> None:
    found = evolution(version(20, (2, "a", "string")), version(0, (1, "a", "string")))
    read = conform(rows(a=["old"]), pa.schema([("a", pa.string())]), found.names_at("1"))
    assert read.to_pydict() == {"a": [None]}


def test_columns_that_swapped_names_swap_no_values() -> None:
    found = evolution(version(20, (1, "b", "int"), (2, "a", "int")), version(0, (1, "a", "int"), (2, "b", "int")))
    schema = pa.schema([("b", pa.int64()), ("a", pa.int64())])
    assert conform(rows(a=[1], b=[2]), schema, found.names_at("1")).to_pydict() == {"b": [1], "a": [2]}


def test_columns_that_were_only_added_and_dropped_need_no_other_names() -> None:
    found = evolution(version(20, (1, "a", "int"), (3, "c", "int")), version(0, (1, "a", "int"), (2, "b", "int")))
    assert not found.renames


@pytest.mark.parametrize("nest", ["struct", "array", "map"])
def test_fields_inside_of_columns_are_told_apart_by_number_too(nest: str) -> None:
    renamed = {"type": "record", "fields": [{"id": 5, "name": "x", "type": "string"}]}
    inner = pa.struct([("x", pa.int32()), ("y", pa.string())])
    value: Any = {"x": 1, "y": "kept"}
    kept: Any = {"x": "kept"}
    kinds: list[Any] = [renamed, NESTED]
    old, new = inner, pa.struct([("x", pa.string())])
    if nest == "array":
        kinds = [{"type": "array", "element_id": 7, "element": kind, "element_optional": True} for kind in kinds]
        old, new, value, kept = pa.list_(inner), pa.list_(new), [value], [kept]
    if nest == "map":
        kinds = [
            {"type": "map", "key_id": 7, "key": "string", "value_id": 8, "value": kind, "value_optional": True}
            for kind in kinds
        ]
        old, new, value, kept = pa.map_(pa.string(), inner), pa.map_(pa.string(), new), [("k", value)], [("k", kept)]
    found = evolution(version(20, (3, "c", kinds[0])), version(0, (3, "c", kinds[1])))
    batch = pa.RecordBatch.from_arrays([pa.array([value, None], old)], ["c"])
    assert conform(batch, pa.schema([("c", new)]), found.names_at("1")).column(0).to_pylist() == [kept, None]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schemas":[{}]}', '{"schemas":[{"version_id":"x","type":"record"}]}']
)
def test_damaged_numbers_are_an_error_and_not_names(text: str) -> None:
    with pytest.raises(CorruptTimelineError):
        parse_versions(text, "history")
