"""Columns by number: renamed ones keep their values, and new ones do not get those of older ones of their name."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.fuzzing import CASES, damaged
from support.golden import unpack

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptTimelineError
from pyhudi_core.model.internal_schema import (
    Evolution,
    in_file,
    parse_version,
    parse_versions,
    version_text,
    versions_text,
)
from pyhudi_core.model.numbering import first_version, renumbered
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


def golden_texts(name: str, folder: Path) -> tuple[list[str], str]:
    """The version of each commit, and the newest file of the history, of a table that Hudi 1.0.2 altered."""
    unpack(f"hudi-1.0.2/{name}", folder)
    table = hudi.open_table(folder)
    commits = [table.commit_metadata(instant).extra.get("latest_schema") for instant in table.timeline.commits]
    [history] = (folder / ".hoodie" / ".schema").glob("*.schemacommit")
    return [text for text in commits if text], history.read_text()


@pytest.mark.row("D10")
@pytest.mark.parametrize("name", ["cow_altered", "mor_altered"])
def test_what_hudi_wrote_is_written_again_byte_for_byte(name: str, tmp_path: Path) -> None:
    commits, history = golden_texts(name, tmp_path)
    assert len(commits) > 5
    for text in commits:
        assert version_text(parse_version(text, "commit")) == text
    assert versions_text(parse_versions(history, "history")) == history


@pytest.mark.row("D10")
@pytest.mark.parametrize("name", ["cow_altered", "mor_altered"])
def test_first_numbers_are_those_that_hudi_gives(name: str, tmp_path: Path) -> None:
    _, history = golden_texts(name, tmp_path)
    table = hudi.open_table(tmp_path)
    before = table.snapshot(table.timeline.commits[0]).schema
    assert first_version(before, meta_fields=True, operation=False) == parse_versions(history, "history")[0]


@pytest.mark.row("D10")
def test_damaged_versions_are_read_rightly_or_refused(tmp_path: Path) -> None:
    _, history = golden_texts("cow_altered", tmp_path)
    text = history[-2500:]
    seed = '{"schemas":[' + text[text.index('{"max_column_id"') :]

    for number in range(CASES):
        with contextlib.suppress(CorruptTimelineError):
            versions = parse_versions(damaged([seed.encode()], number).decode(errors="replace"), "history")
            assert parse_versions(versions_text(versions), "history") == versions


def test_a_number_is_never_used_again() -> None:
    schema = pa.schema([("id", pa.string()), ("a", pa.string())])
    first = first_version(schema, meta_fields=True, operation=False)
    dropped = renumbered(first, first.greatest, schema, schema.remove(1), 10, {"id": "id"})
    assert dropped.greatest == first.greatest == 6
    again = renumbered(dropped, dropped.greatest, schema.remove(1), schema, 20, {"id": "id"})
    assert [column.number for column in again.columns if column.name == "a"] == [7]
    assert renumbered(again, again.greatest, schema, schema, 30) is again
