"""Indexes that are made from written files stay true under every commit, and are true from their first day."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest
from support.metadata_tables import SCHEMA, assert_metadata_is_true, rows
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.doctor.kinds import Severity
from pyhudi_core.index import key_files
from pyhudi_core.metadata_table import names

ON = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.record.index.enable": True,
    "hoodie.metadata.record.index.min.filegroup.count": 2,
    "hoodie.metadata.index.bloom.filter.enable": True,
    "hoodie.metadata.index.bloom.filter.file.group.count": 2,
    "hoodie.metadata.compact.max.delta.commits": 4,
}
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]


def made(kind: str = "COPY_ON_WRITE", options: dict[str, object] | None = None) -> hudi.HudiTable:
    """An empty table in memory."""
    location = f"memory://{uuid.uuid4().hex}/t"
    return create_plain(location, SCHEMA, "id", "day", ordering="ts", table_type=kind, options=options or ON)


def later(data: pa.Table, ts: int = 1_000) -> pa.Table:
    """Newer versions of rows."""
    return data.set_column(2, "ts", pa.array([ts] * len(data), pa.int64()))


CHANGES: tuple[Callable[[hudi.HudiTable], hudi.Commit], ...] = (
    lambda table: table.upsert(later(rows(20, 40))),
    lambda table: table.delete(rows(0, 5).select(["id", "day"])),
    lambda table: table.upsert(later(rows(6, 7).set_column(1, "day", pa.array(["elsewhere"])))),
    lambda table: table.upsert(later(rows(21, 24), 1)),
    lambda table: table.insert(rows(0, 3)),
    lambda table: table.upsert(later(rows(8, 9), 2_000).drop(["price"]), partial=True),
    lambda table: table.insert_overwrite(later(rows(300, 301))),
    lambda table: table.delete_partitions(["day=d1"]),
    lambda table: table.insert_overwrite_table(later(rows(10, 15))),
)
"""Every way to change a table. A row that is older than the stored one changes nothing."""


@pytest.mark.one_in(2)
@pytest.mark.row("I4")
@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_keeps_the_indexes_true(kind: str) -> None:
    moving = {"hoodie.index.type": "RECORD_INDEX", "hoodie.record.index.update.partition.path": True}
    table = made(kind)
    table.insert(rows(0, 30))
    table = hudi.open_table(table.location, options={**ON, **moving})
    assert names.BLOOM_FILTERS in table.config.metadata_partitions
    assert_metadata_is_true(table)
    for change in CHANGES:
        change(table)
        assert_metadata_is_true(table)
    if kind == "MERGE_ON_READ":
        table.compaction.run()
        assert_metadata_is_true(table)
    assert {finding.severity for finding in table.check().findings} <= {Severity.INFO}


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("I4")
@pytest.mark.parametrize("kind", KINDS)
def test_bloom_filters_that_are_added_later_are_true(kind: str) -> None:
    table = made(kind, {"hoodie.metadata.enable": True})
    table.insert(rows(0, 30))
    table.upsert(later(rows(20, 40)))
    plan = table.metadata_table.plan([names.BLOOM_FILTERS])
    assert str(plan) == "Make bloom_filters (4 file groups)"
    assert table.metadata_table.create([names.BLOOM_FILTERS])
    assert_metadata_is_true(table)
    table.upsert(later(rows(35, 50), 2_000))
    assert_metadata_is_true(table)
    assert table.metadata_table.rebuild()
    assert names.BLOOM_FILTERS in table.config.metadata_partitions
    assert_metadata_is_true(table)


@pytest.mark.one_in(2)
@pytest.mark.row("I4", "I11")
@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_BLOOM"])
def test_listed_filters_say_which_files_hold_no_key_without_opening_them(
    index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"hoodie.metadata.enable": True, "hoodie.metadata.index.bloom.filter.enable": True}
    table = made(options={**options, "hoodie.index.type": index, "hoodie.parquet.small.file.limit": 0})
    for first in range(0, 40, 10):
        table.insert(rows(first, first + 10).set_column(1, "day", pa.array(["d0"] * 10)))
    assert len(table.snapshot().view.all_slices()) == 4
    opened: list[str] = []
    real = key_files.BaseFileReader

    def watching(source: pa.NativeFile, path: str, columns: list[str]) -> object:
        opened.append(path)
        return real(source, path, columns=columns)

    monkeypatch.setattr(key_files, "BaseFileReader", watching)
    stats = table.upsert(later(rows(25, 26).set_column(1, "day", pa.array(["d0"])))).stats
    assert (stats.rows_updated, stats.rows_inserted) == (1, 0)
    assert len(opened) == 1
    assert_metadata_is_true(table)


def test_filters_that_are_asked_for_too_late_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    table = made(options={"hoodie.metadata.enable": True})
    table.insert(rows(0, 5))
    hudi.open_table(table.location, options=ON).upsert(later(rows(3, 7)))
    assert "`pyhudi metadata LOCATION create --index bloom_filters`" in caplog.text
