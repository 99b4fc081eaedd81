"""Tables whose partition folders are formatted times (Hudi's timestamp-based key generator): written as Hudi writes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.golden import unpack
from support.tables import FAST, create_plain, rows

import pyhudi_core as hudi
from pyhudi_core.errors import InvalidPartitionValueError, UnsupportedTableError
from pyhudi_core.model.timestamp_partitions import TimestampFolders

KEYGEN = "hoodie.keygen.timebased."
INTEGER = pa.int64()
AT = 1_767_225_599  # 2025-12-31 23:59:59


def make(location: str, kind: pa.DataType = INTEGER, **properties: str) -> hudi.HudiTable:
    """A table with folders of `at`; dots in properties are written as double underscores."""
    schema = pa.schema([("id", pa.int64()), ("at", kind)])
    options = {f"{KEYGEN}{key.replace('__', '.')}": value for key, value in properties.items()}
    options["hoodie.table.keygenerator.type"] = "TIMESTAMP"
    return create_plain(location, schema, "id", "at", options=options, storage_options=FAST)


def folders(table: hudi.HudiTable) -> list[str]:
    return sorted(table.snapshot().view.partitions())


BEFORE_1970 = {
    "UNIX_TIMESTAMP": {-5: "1969-12-31 23:59:55", -86_400_005: "1967-04-06 23:59:55"},
    "EPOCHMILLISECONDS": {-5: "1969-12-31 23:59:59", -1_000: "1969-12-31 23:59:59", -1_001: "1969-12-31 23:59:58", -86_400_005: "1969-12-30 23:59:59"},
    "EPOCHMICROSECONDS": {-5: "1970-01-01 00:00:00", -1_001: "1969-12-31 23:59:59", -86_400_000_005: "1969-12-31 00:00:00",
                          -86_400_001_005: "1969-12-30 23:59:59"},
}  # fmt: skip
"""The folders that Hudi 1.0.2 gives: it cuts microseconds to milliseconds towards 1970, and finds the second of milliseconds."""


@pytest.mark.parametrize("kind", list(BEFORE_1970))
def test_times_before_1970_have_hudis_folders(kind: str) -> None:
    form = {f"{KEYGEN}timestamp.type": kind, f"{KEYGEN}output.dateformat": "yyyy-MM-dd HH:mm:ss"}
    times = BEFORE_1970[kind]
    assert TimestampFolders.of(form).folders(pa.array(times.keys()), "at").to_pylist() == list(times.values())


@pytest.mark.row("J7")
@pytest.mark.parametrize(
    ("properties", "value", "folder"),
    [
        ({"timestamp__type": "UNIX_TIMESTAMP", "output__dateformat": "yyyy-MM-dd"}, AT, "at=2025-12-31"),
        ({"timestamp__type": "EPOCHMILLISECONDS", "output__dateformat": "yyyy-MM-dd HH"}, AT * 1000 + 999, "at=2025-12-31 23"),
        ({"timestamp__type": "EPOCHMICROSECONDS", "output__dateformat": "yyyyMMdd"}, AT * 1_000_000, "at=20251231"),
        ({"timestamp__type": "SCALAR", "timestamp__scalar__time__unit": "days", "output__dateformat": "yyyy.MM"}, 20_453, "at=2025.12"),
        ({"timestamp__type": "UNIX_TIMESTAMP", "output__dateformat": "yyyy/MM"}, -1, "at=1969%2F12"),
        ({"timestamp__type": "UNIX_TIMESTAMP", "output__dateformat": "yyyy-MM-dd"}, None, "at=1970-01-01"),
    ],
)  # fmt: skip
def test_a_time_becomes_its_folder(location: str, properties: dict[str, str], value: Any, folder: str) -> None:
    table = make(location, **properties)
    table.upsert(pa.table({"id": [1], "at": pa.array([value], pa.int64())}))
    assert folders(table) == [folder]
    assert rows(table, "id", "at") == [(1, value)]
    table.delete(pa.table({"id": [1], "at": pa.array([value], pa.int64())}))
    assert not rows(table)


def test_text_is_parsed_by_its_format(location: str) -> None:
    formats = {"input__dateformat": "dd.MM.yyyy HH:mm", "output__dateformat": "yyyyMMddHH"}
    table = make(location, pa.string(), timestamp__type="DATE_STRING", **formats)
    table.upsert(pa.table({"id": [1, 2], "at": ["31.12.2025 23:59", "01.01.2026 00:00"]}))
    assert folders(table) == ["at=2025123123", "at=2026010100"]
    with pytest.raises(InvalidPartitionValueError, match="no time that a folder"):
        table.upsert(pa.table({"id": [3], "at": ["yesterday"]}))


@pytest.mark.parametrize("value", [2**63 - 1, 10**13])
def test_times_that_have_no_folder_are_refused(location: str, value: int) -> None:
    table = make(location, timestamp__type="UNIX_TIMESTAMP", output__dateformat="yyyy")
    with pytest.raises(InvalidPartitionValueError):
        table.upsert(pa.table({"id": [1], "at": [value]}))
    assert not table.timeline.commits


@pytest.mark.parametrize(
    "properties",
    [
        {"timestamp__type": "UNIX_TIMESTAMP"},
        {"timestamp__type": "UNIX_TIMESTAMP", "output__dateformat": "EEE"},
        {"timestamp__type": "DATE_STRING", "output__dateformat": "yyyy"},
        {"output__dateformat": "yyyy"},
    ],
)
def test_a_table_whose_folders_nobody_could_write_is_not_created(location: str, properties: dict[str, str]) -> None:
    with pytest.raises(UnsupportedTableError, match="not supported"):
        make(location, **properties)


@pytest.mark.row("J7")
def test_a_table_of_hudis_is_continued_in_its_folders(location: str) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/cow_timestamp_key", location))
    before = table.scan().to_arrow()
    table.upsert(before.select(table.schema.names))
    after = table.scan().to_arrow()
    keys = ["_hoodie_partition_path", "_hoodie_record_key"]
    assert rows(after, *keys) == rows(before, *keys)
    table.upsert(before.select(table.schema.names).slice(0, 1).set_column(2, "ts", pa.array([20_600], pa.int64())))
    assert "2026/05/27" in folders(table)
