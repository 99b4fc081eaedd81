"""Readers find the fields of manifests by numbers, which Iceberg's specification gives ("Manifests" and "Manifest Lists", version 2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

from pyhudi_core.iceberg import manifests
from pyhudi_core.iceberg.columns import columns_of
from pyhudi_core.model.meta_fields import META_FIELDS, OPERATION

LIST = {
    "manifest_path": 500, "manifest_length": 501, "partition_spec_id": 502, "content": 517, "sequence_number": 515, "min_sequence_number": 516,
    "added_snapshot_id": 503, "added_files_count": 504, "existing_files_count": 505, "deleted_files_count": 506, "added_rows_count": 512,
    "existing_rows_count": 513, "deleted_rows_count": 514, "partitions": 507, "partitions.element": 508, "partitions.contains_null": 509,
    "partitions.contains_nan": 518, "partitions.lower_bound": 510, "partitions.upper_bound": 511,
}  # fmt: skip
ENTRY = {
    "status": 0, "snapshot_id": 1, "sequence_number": 3, "file_sequence_number": 4, "data_file": 2, "data_file.content": 134, "data_file.file_path": 100,
    "data_file.file_format": 101, "data_file.partition": 102, "data_file.record_count": 103, "data_file.file_size_in_bytes": 104,
    "data_file.value_counts": 109, "data_file.value_counts.key": 119, "data_file.value_counts.value": 120,
    "data_file.null_value_counts": 110, "data_file.null_value_counts.key": 121, "data_file.null_value_counts.value": 122,
    "data_file.lower_bounds": 125, "data_file.lower_bounds.key": 126, "data_file.lower_bounds.value": 127,
    "data_file.upper_bounds": 128, "data_file.upper_bounds.key": 129, "data_file.upper_bounds.value": 130,
}  # fmt: skip


def numbers(kind: Any, above: str = "") -> Iterator[tuple[str, int]]:
    """The fields of an Avro schema with their numbers."""
    if isinstance(kind, list):
        for one in kind:
            yield from numbers(one, above)
    elif isinstance(kind, dict) and kind["type"] == "array":
        if "element-id" in kind:
            yield f"{above}element", kind["element-id"]
        yield from numbers(kind["items"], above)
    elif isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield above + field["name"], field["field-id"]
            yield from numbers(field["type"], f"{above}{field['name']}.")


def schema_in(data: bytes) -> Any:
    return json.loads(fastavro.reader(BytesIO(data)).metadata["avro.schema"])


def test_the_fields_of_a_manifest_list_have_the_numbers_of_the_specification() -> None:
    assert dict(numbers(schema_in(manifests.encode_list([], {}, bytes(16))))) == LIST


def test_the_fields_of_a_manifest_have_the_numbers_of_the_specification() -> None:
    assert dict(numbers(schema_in(manifests.encode([], (), {}, bytes(16))))) == ENTRY


def test_the_name_mapping_has_one_number_for_each_column_and_meta_column() -> None:
    columns = columns_of(pa.schema([("id", pa.int64()), ("at", pa.date32()), ("l", pa.list_(pa.string()))]), "/lake/t")
    found = {one["names"][0]: one["field-id"] for one in columns.mapping}
    assert found == {
        **{name: number for number, name in enumerate([*META_FIELDS, OPERATION], 1)},
        "id": 7,
        "at": 8,
        "l": 9,
    }
    assert {one["name"]: one["id"] for one in columns.fields} == {"id": 7, "at": 8, "l": 9}
    assert columns.last_id == 10
