"""The folder of a row says its partition columns, wherever it can."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from pyhudi_core.file_groups.partition_values import constants_of, with_constants
from pyhudi_core.model.properties import TableConfig

SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string()), ("number", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))])  # fmt: skip


def config(fields: str, **more: str) -> TableConfig:
    raw = {"hoodie.table.name": "t", "hoodie.table.version": "8", "hoodie.timeline.layout.version": "2"}
    raw |= {"hoodie.table.recordkey.fields": "id", "hoodie.table.partition.fields": fields}
    return TableConfig.from_properties(raw | {key.replace("_", "."): value for key, value in more.items()}, table="t")


@pytest.mark.parametrize(
    ("fields", "folder", "expected"),
    [
        ("text", "a", {"text": "a"}),
        ("number,day", "-7/2024-01-02", {"number": -7, "day": dt.date(2024, 1, 2)}),
        ("number", "__HIVE_DEFAULT_PARTITION__", {"number": None}),
        ("text", "__HIVE_DEFAULT_PARTITION__", {}),
        ("at", "1704164645000000", {}),
        ("text", "a/b", {}),
        ("", "", {}),
    ],
)
def test_what_a_folder_tells(fields: str, folder: str, expected: dict[str, Any]) -> None:
    assert constants_of(folder, config(fields), SCHEMA) == expected


def test_formatted_times_tell_nothing() -> None:
    assert constants_of("2024", config("number", hoodie_table_keygenerator_type="TIMESTAMP"), SCHEMA) == {}


def test_rows_show_what_the_folder_says() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"id": ["k"], "number": [5]}, pa.schema([("id", pa.string()), ("number", pa.int64())])
    )
    assert with_constants(batch, {"number": 7, "text": "a"}).to_pylist() == [{"id": "k", "number": 7}]
    assert with_constants(batch, {"number": None}).to_pylist() == [{"id": "k", "number": None}]


@pytest.mark.parametrize("name", ["id", "text", "at"])
def test_a_value_of_the_folder_replaces_that_of_its_column_wherever_it_is(name: str) -> None:
    batch = pa.record_batch([pa.array([None, None], item.type) for item in SCHEMA], schema=SCHEMA)
    value = dt.datetime(2024, 1, 2, tzinfo=dt.UTC) if name == "at" else "x"
    found = with_constants(batch, {name: value, "absent": 1})
    assert found.schema == SCHEMA
    assert found.to_pylist() == [{**dict.fromkeys(SCHEMA.names), name: value}] * 2
