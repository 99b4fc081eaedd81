"""A new table has the metadata table that its options ask for, and a change of a column's type makes the statistics anew."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from support.metadata_tables import SCHEMA, assert_metadata_is_true, rows
from support.tables import FAST, create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import StorageError, UnsupportedTableError
from pyhudi_core.storage.local import LocalStorage

DEFAULT = ("column_stats", "files", "partition_stats")
NARROW = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("price", pa.float32())])


ON = {"hoodie.metadata.enable": True}


def create(location: str, schema: pa.Schema = SCHEMA, kind: str = "cow", **more: object) -> hudi.HudiTable:
    options = ON | {key.replace("__", "."): value for key, value in more.items()}
    return hudi.create_table(location, schema, "id", "day", "ts", kind, storage_options=FAST, options=options)


@pytest.fixture
def location(tmp_path: object) -> str:
    return f"{tmp_path}/table"


@pytest.mark.row("I1", "I2", "I3", "P10")
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_new_table_has_listing_and_statistics_unless_an_option_says_no(location: str, kind: str) -> None:
    table = hudi.create_table(location, SCHEMA, "id", "day", "ts", kind, storage_options=FAST)
    assert table.config.metadata_partitions == DEFAULT
    table.insert(rows(0, 10))
    table.upsert(rows(5, 12))
    assert_metadata_is_true(table)
    without = {"hoodie.metadata.enable": "false"}
    bare = hudi.create_table(f"{location}-bare", SCHEMA, "id", "day", "ts", kind, options=without, storage_options=FAST)
    bare.insert(rows(0, 10))
    assert bare.config.metadata_partitions == ()
    assert not (Path(bare.location) / ".hoodie/metadata").exists()


def test_a_table_that_is_there_stays_as_it_is_unless_the_option_is_given(location: str) -> None:
    create_plain(location, SCHEMA, "id", "day", storage_options=FAST).insert(rows(0, 10))
    table = hudi.open_table(location)
    table.upsert(rows(5, 12))
    assert hudi.open_table(location).config.metadata_partitions == ()
    hudi.open_table(location, options=ON).upsert(rows(6, 13))
    assert hudi.open_table(location).config.metadata_partitions == DEFAULT
    hudi.open_table(location, options={"hoodie.metadata.enable": False}).upsert(rows(7, 14))
    assert_metadata_is_true(hudi.open_table(location))


BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}


@pytest.mark.parametrize(
    ("kind", "keys", "options"),
    [
        ("cow", "id", {"hoodie.populate.meta.fields": False}),
        ("cow", (), {}),
        ("mor", "id", BUCKETS),
        ("mor", "id", {**BUCKETS, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}),
        ("mor", "id", {**BUCKETS, "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}),
        ("cow", "id", {"hoodie.table.cdc.enabled": True}),
        ("mor", "id", {"pyhudi.partition.random.prefix": 2}),
    ],
    ids=["insert only", "no keys", "buckets", "hashing", "non-blocking", "changes", "prefix"],
)
def test_every_kind_of_table_gets_one(location: str, kind: str, keys: object, options: dict[str, object]) -> None:
    ordering = "ts" if keys else None
    table = hudi.create_table(location, SCHEMA, keys, "day", ordering, kind, options=options, storage_options=FAST)  # type: ignore[arg-type]
    assert table.config.metadata_partitions == DEFAULT
    table.insert(rows(0, 10))
    assert table.scan(where="price > 3").count() == 3
    found = table.check()
    assert found.ok, found


def test_a_table_that_cannot_have_the_asked_index_is_created_without_and_the_log_says_why(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"hoodie.populate.meta.fields": False, "hoodie.metadata.record.index.enable": True}
    table = hudi.create_table(location, SCHEMA, "id", "day", options=options, storage_options=FAST)
    assert table.config.metadata_partitions == ()
    assert "no meta columns" in caplog.text
    table.insert(rows(0, 10))
    assert table.scan().count() == 10


@pytest.mark.row("I1", "P10")
def test_options_of_a_new_table_add_indexes_and_leave_out_statistics(location: str) -> None:
    options = {
        "hoodie.metadata.record.index.enable": True,
        "hoodie.metadata.index.column.stats.enable": False,
        "hoodie.metadata.index.partition.stats.enable": False,
    }
    assert create(location, **options).config.metadata_partitions == ("files", "record_index")


def test_a_dropped_one_does_not_come_back_by_itself(location: str) -> None:
    table = create(location)
    table.metadata_table.drop()
    hudi.open_table(location).insert(rows(0, 10))
    assert hudi.open_table(location).config.metadata_partitions == ()


def test_a_table_whose_indexes_cannot_be_made_is_created_without_them_and_its_first_write_says_why(
    location: str,
) -> None:
    options = ON | {"hoodie.populate.meta.fields": False, "hoodie.metadata.record.index.enable": True}
    table = hudi.create_table(location, SCHEMA, "id", "day", options=options, storage_options=FAST)
    assert table.config.metadata_partitions == ()
    with pytest.raises(UnsupportedTableError, match="no meta columns"):
        table.insert(rows(0, 10))


def test_a_table_exists_even_if_its_metadata_table_could_not_be_made(
    location: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = LocalStorage.put

    def failing(self: LocalStorage, path: str, *rest: object, **more: object) -> object:
        if "/staged/" in path:
            raise StorageError("the disk is full", path=path)
        return real(self, path, *rest, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(LocalStorage, "put", failing)
        table = create(location)
    assert "pyhudi metadata LOCATION create" in caplog.text
    assert table.config.metadata_partitions == ()
    table.insert(rows(0, 10))
    assert_metadata_is_true(table)
    assert table.check().ok


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("steps", [False, True], ids=["upsert", "begin"])
def test_a_write_that_changes_a_type_makes_the_statistics_anew(location: str, kind: str, *, steps: bool) -> None:
    table = create(location, NARROW, kind)
    table.insert(rows(0, 30).cast(NARROW))
    if steps:
        with table.begin("upsert") as write:
            commit = write.write(rows(5, 8)).commit()
    else:
        commit = table.upsert(rows(5, 8))
    assert dict(commit.notes)["pyhudi.metadata_table.removed"] == ",".join(DEFAULT)
    found = hudi.open_table(location)
    assert found.config.metadata_partitions == DEFAULT
    assert_metadata_is_true(found)
    assert found.scan(where="price > 14").count() == 1
    assert not found.upsert(rows(3, 6)).notes, "the type is the table's now"
    assert_metadata_is_true(hudi.open_table(location))


def test_with_another_index_such_a_write_is_refused(location: str) -> None:
    table = create(location, NARROW, hoodie__metadata__record__index__enable=True)
    table.insert(rows(0, 30).cast(NARROW))
    with pytest.raises(UnsupportedTableError, match="statistics of price"):
        table.upsert(rows(5, 8))
    assert_metadata_is_true(hudi.open_table(location))


def test_a_widening_that_is_asked_to_remove_the_metadata_table_leaves_it_removed(location: str) -> None:
    create(location, NARROW).insert(rows(0, 30).cast(NARROW))
    table = hudi.open_table(location, options={"pyhudi.metadata.remove_unkept": True})
    assert table.upsert(rows(5, 8)).notes
    assert hudi.open_table(location).config.metadata_partitions == ()
