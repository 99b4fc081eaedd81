"""Metadata tables that are damaged or name places elsewhere: the right rows or a typed error, a word of the doctor, and nothing outside is touched
(promise P8)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.disk import contents
from support.doctor import Entry, examine, rewrite_metadata
from support.fuzzing import MEGABYTE, measured_memory
from support.golden import unpack
from support.speed import slowness
from support.tables import rows

import pyhudi_core as hudi
from pyhudi_core.doctor import Area, FindingKind
from pyhudi_core.errors import CorruptHFileError, HudiError
from pyhudi_core.metadata_table.value_types import as_newer

TABLE = "hudi-1.2.0/cow_plain"
FILES = "filesystemMetadata"
STEM = "00000000-0000-0000-0000-000000000000-0_0-0-0_20260101000000000.parquet"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A copy of a table, with a data file beside it that must not be read."""
    location = Path(unpack(TABLE, tmp_path / "lake" / "table"))
    Path(tmp_path, "lake", "other").mkdir()
    shutil.copy(next(location.rglob("*.parquet")), Path(tmp_path, "lake", "other", STEM))
    return location


def _asked(table: Path) -> None:
    """Reads are right or refused, and the folder that holds the table stays as it is."""
    lake = table.parent
    before = contents(lake)
    wanted = rows(hudi.open_table(unpack(TABLE, lake.parent / "fresh")), "_hoodie_record_key")
    try:
        found = rows(hudi.open_table(str(table)), "_hoodie_record_key")
    except HudiError as error:
        assert error.hint or error.path, "the error says where, or what to do"
    else:
        assert found == wanted
    assert contents(lake) == before


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name",
    [f"../other/{STEM}", f"/{STEM}", f"a/../../other/{STEM}", f"s3://bucket/{STEM}", f"file:///etc/{STEM}", f"..\\other\\{STEM}", f"a\0{STEM}"],
)  # fmt: skip
def test_files_elsewhere_that_it_lists_are_not_looked_for(table: Path, name: str) -> None:
    def change(entries: dict[str, Entry]) -> None:
        (partition,) = (key for key in entries if key != "__all_partitions__")
        entries[partition][FILES][name] = {"size": 5, "isDeleted": False}

    rewrite_metadata(table, "files", change)
    report = examine(table)
    assert [found.area for found in report.of(FindingKind.UNSAFE_PATH)] == [Area.METADATA_TABLE]
    assert {found.kind for found in report.errors} == {FindingKind.UNSAFE_PATH}
    _asked(table)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "partition", ["../other", "..", "/etc", "a/../../other", "s3://bucket/x", "a\0b", "%2e%2e/other"]
)
def test_partitions_elsewhere_that_it_lists_are_not_looked_into(table: Path, partition: str) -> None:
    def change(entries: dict[str, Entry]) -> None:
        entries["__all_partitions__"][FILES][partition] = {"size": 0, "isDeleted": False}
        entries[partition] = {
            **entries["__all_partitions__"],
            "type": 2,
            FILES: {STEM: {"size": 5, "isDeleted": False}},
        }

    rewrite_metadata(table, "files", change)
    report = examine(table)
    kinds = {found.kind for found in report.findings if found.severity != "info"}
    assert kinds == {FindingKind.UNSAFE_PATH}
    _asked(table)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("schema", ["", "null", "[", "{}", "5", '"string"', '{"type":"record"}', "[" * 100_000, '{"type":"record","name":"a","fields":[{"name":"a","type":"b"}]}', '{"type":"record","name":"a","fields":[{"name":"a","type":"a"}]}'])  # fmt: skip
def test_a_schema_that_is_none_is_damage(table: Path, schema: str) -> None:
    rewrite_metadata(table, "files", claimed_schema=schema)
    report = examine(table)
    assert [found.area for found in report.of(FindingKind.METADATA_TABLE_DAMAGED)] == [Area.METADATA_TABLE]
    _asked(table)


@pytest.mark.parametrize("value", [b"", b"\0", b"\xff" * 40, b"\2\0" * 100, b"\x00" * 1000])
def test_entries_that_are_none_are_damage(table: Path, value: bytes) -> None:
    rewrite_metadata(table, "files", value=value)
    report = examine(table)
    assert not report.ok
    assert {found.area for found in report.errors} <= {Area.METADATA_TABLE}
    _asked(table)


def test_a_folder_of_it_that_leads_elsewhere_is_not_followed(table: Path) -> None:
    outside = table.parent / "elsewhere"
    shutil.move(table / ".hoodie/metadata/files", outside)
    (table / ".hoodie/metadata/files").symlink_to(outside)
    report = examine(table)
    assert {found.kind for found in report.errors} <= {FindingKind.UNSAFE_PATH, FindingKind.METADATA_TABLE_MISSING}
    assert report.errors
    _asked(table)


def test_a_file_group_with_a_number_that_cannot_be_is_damage_and_takes_no_memory(table: Path) -> None:
    for path in list(table.glob(".hoodie/metadata/files/*files-0000-0*")):
        shutil.copy(path, path.with_name(path.name.replace("files-0000-0", "files-16677181699666569-0")))
    with measured_memory() as memory, pytest.raises(CorruptHFileError, match="lacks the file group files-0001"):
        rows(hudi.open_table(str(table)))
    assert memory.grown < 100 * MEGABYTE


def _statistics(kind: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    return {"minValue": value, "maxValue": value, "valueType": kind}


DECIMAL = {"typeOrdinal": 10, "additionalInfo": "10,2"}
IMPOSSIBLE = [
    {"typeOrdinal": 10, "additionalInfo": f"{10**9},{10**9 - 1}"},
    {"typeOrdinal": 10, "additionalInfo": "39,2"},
    {"typeOrdinal": 10, "additionalInfo": "2,3"},
    {"typeOrdinal": 10, "additionalInfo": "-1,-1"},
    {"typeOrdinal": 10, "additionalInfo": "x"},
    {"typeOrdinal": 10, "additionalInfo": None},
    {"typeOrdinal": 99, "additionalInfo": None},
]


@pytest.mark.parametrize("kind", IMPOSSIBLE, ids=str)
def test_statistics_of_a_type_that_cannot_be_are_damage_within_a_moment(kind: Mapping[str, Any]) -> None:
    started = time.process_time()
    with pytest.raises(CorruptHFileError, match="statistics of a type that cannot be"):
        as_newer(_statistics(DECIMAL, {"value": b"\1"}), _statistics(kind, {"value": b"\1"}))
    assert time.process_time() - started < slowness()
