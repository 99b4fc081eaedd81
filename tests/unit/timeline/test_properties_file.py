"""hoodie.properties on disk: made whole, updated through a backup, and read whatever an interrupted update left."""

from __future__ import annotations

from pathlib import Path

import pytest
from reliability.storages import Interrupted
from support.failing import FailingStorage, nth_write
from support.homes import context_of, home_at, make_at
from support.tables import make

import pyhudi_core as hudi
from pyhudi_core.errors import CorruptPropertiesError, StorageError, TableNotFoundError
from pyhudi_core.model.java_properties import parse
from pyhudi_core.model.properties import checksum
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.testing import Fault, Profile, SimOptions, SimWorld
from pyhudi_core.timeline import properties_file


def _main(location: str) -> Path:
    return Path(location, ".hoodie/hoodie.properties")


def _backup(location: str) -> Path:
    return Path(location, ".hoodie/hoodie.properties.backup")


@pytest.mark.row("A8", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P12", "P13")
def test_a_new_table_has_every_property_that_hudi_writes(location: str) -> None:
    make(location, name="orders", ordering="ts", options={"hoodie.database.name": "shop"})
    found = parse(_main(location).read_bytes(), path="")
    assert found.pop("hoodie.table.create.schema").startswith('{"type":"record"')
    assert found == {
        "hoodie.database.name": "shop",
        "hoodie.table.name": "orders",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "8",
        "hoodie.table.initial.version": "8",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "day",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.table.precombine.field": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.populate.meta.fields": "true",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.index.defs.path": ".hoodie/.index_defs/index.json",
        "hoodie.table.metadata.partitions.inflight": "",
        "hoodie.table.checksum": checksum({"hoodie.database.name": "shop", "hoodie.table.name": "orders"}),
    }


@pytest.mark.row("P7", "P12")
def test_without_ordering_columns_later_writes_win(location: str) -> None:
    make(location)
    found = parse(_main(location).read_bytes(), path="")
    assert "hoodie.table.precombine.field" not in found
    assert found["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert found["hoodie.record.merge.strategy.id"] == "ce9acb64-bde0-424c-9b91-f6ebba25356d"


@pytest.mark.row("P7")
@pytest.mark.parametrize("key", ["hoodie.table.precombine.field", "hoodie.table.ordering.fields"])
def test_ordering_columns_are_read_in_both_spellings(location: str, key: str) -> None:
    table = make(location, ordering=["ts", "price"])
    text = _main(location).read_text()
    _main(location).write_text(text.replace("hoodie.table.precombine.field", key))
    assert table.config.ordering_fields == ("ts", "price")


@pytest.mark.row("P1", "P2", "P9")
def test_the_checksum_covers_database_and_name(location: str) -> None:
    make(location, name="cow1")
    assert parse(_main(location).read_bytes(), path="")["hoodie.table.checksum"] == "3815464323"


@pytest.mark.row("A8", "P9")
def test_a_wrong_checksum_is_found_and_nothing_is_read(location: str) -> None:
    make(location)
    _main(location).write_text(
        _main(location).read_text().replace("hoodie.table.name=table", "hoodie.table.name=other")
    )
    with pytest.raises(CorruptPropertiesError, match="checksum") as caught:
        hudi.open_table(location)
    assert caught.value.path == ".hoodie/hoodie.properties"


@pytest.mark.row("A8")
def test_the_backup_is_read_while_the_file_is_missing_or_damaged(location: str) -> None:
    make(location, name="orders")
    _backup(location).write_bytes(_main(location).read_bytes())
    _main(location).write_text("hoodie.table.name=orders\nhoodie.table.checksum=1\n")
    assert hudi.open_table(location).name == "orders"
    _main(location).write_text("hoodie.table.name=orders\nhoodie.table.ver")
    assert hudi.open_table(location).name == "orders"
    _main(location).unlink()
    assert hudi.open_table(location).name == "orders"


@pytest.mark.row("A8")
def test_an_update_goes_through_a_backup_and_removes_it(location: str) -> None:
    table = make(location)
    storage = context_of(table).storage
    properties_file.update(storage, {"a": "1", "hoodie.table.cdc.enabled": None}, "test")
    found = properties_file.read(storage)
    assert found["a"] == "1"
    assert "hoodie.table.cdc.enabled" not in found
    assert not _backup(location).exists()
    assert hudi.open_table(location).config.raw["a"] == "1"


@pytest.mark.row("A8")
@pytest.mark.parametrize("keeps_checksum", [True, False])
@pytest.mark.parametrize("step", ["backup", "main", "delete"])
@pytest.mark.parametrize("after", [False, True])
def test_an_update_that_is_interrupted_anywhere_can_be_read_and_done_again(
    location: str, step: str, after: bool, keeps_checksum: bool
) -> None:
    make(location)
    if not keeps_checksum:
        lines = _main(location).read_text().splitlines(keepends=True)
        _main(location).write_text("".join(line for line in lines if "checksum" not in line and line[0] != "#"))
    chosen = {
        "backup": ("put_if_absent", properties_file.BACKUP),
        "main": ("put", properties_file.PATH),
        "delete": ("delete", properties_file.BACKUP),
    }[step]
    failing = FailingStorage(LocalStorage(location), lambda verb, path: (verb, path) == chosen, after=after)
    with pytest.raises(StorageError):
        properties_file.update(failing, {"a": "1"}, "test")  # type: ignore[arg-type]
    assert hudi.open_table(location).name == "table"
    properties_file.update(LocalStorage(location), {"b": "2"}, "test")
    assert hudi.open_table(location).config.raw["b"] == "2"
    assert not _backup(location).exists()


@pytest.mark.row("A8")
def test_an_update_whose_lock_ran_out_does_not_undo_the_update_of_another() -> None:
    """The process stands still between reading the properties and replacing them."""
    world = SimWorld(SimOptions(profile=Profile.S3))
    make_at(home_at(world.storage, world.runtime))

    def other(path: str) -> None:
        properties_file.update(world.storage, {"theirs": path}, "other")

    for verb, path in (("put_if_absent", properties_file.BACKUP), ("put_if_match", properties_file.PATH)):
        late = Interrupted(world.storage, verb, path, other)
        with pytest.raises(StorageError, match="same time|already exists"):
            properties_file.update(late, {"ours": verb}, "late")  # type: ignore[arg-type]
        found = properties_file.read(world.storage)
        assert found["theirs"] == path
        assert "ours" not in found
    properties_file.update(world.storage, {"ours": "again"}, "late")
    found = properties_file.read(world.storage)
    assert (found["theirs"], found["ours"]) == (properties_file.PATH, "again")
    assert world.storage.head(properties_file.BACKUP) is None


@pytest.mark.row("A8")
def test_an_update_in_an_object_store_starts_from_the_backup_where_the_file_is_gone() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    make_at(home_at(world.storage, world.runtime), name="orders")
    world.storage.put(properties_file.BACKUP, world.storage.get(properties_file.PATH))
    world.storage.delete(properties_file.PATH)
    properties_file.update(world.storage, {"a": "1"}, "test")
    found = properties_file.read(world.storage)
    assert (found["hoodie.table.name"], found["a"]) == ("orders", "1")
    assert world.storage.head(properties_file.BACKUP) is None


@pytest.mark.row("A8")
@pytest.mark.parametrize("fault", [Fault.LOST_ACK, Fault.FALSE_PRECONDITION])
def test_an_update_whose_answer_was_lost_is_known_by_its_content(fault: Fault) -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    make_at(home_at(world.storage, world.runtime))
    world.storage.inject(fault, "put_if_match", properties_file.PATH)
    assert properties_file.update(world.storage, {"a": "1"}, "test")["a"] == "1"
    assert properties_file.read(world.storage)["a"] == "1"
    assert world.storage.head(properties_file.BACKUP) is None


@pytest.mark.row("A8")
def test_an_update_after_a_half_written_file_starts_from_the_backup(location: str) -> None:
    make(location, name="orders")
    _backup(location).write_bytes(_main(location).read_bytes())
    _main(location).write_text("hoodie.table.na")
    properties_file.update(LocalStorage(location), {"a": "1"}, "test")
    assert hudi.open_table(location).name == "orders"
    assert not _backup(location).exists()


class Kept(Exception):
    """Somebody else's table."""


def refuse() -> None:
    raise Kept


@pytest.mark.parametrize("torn", [True, False])
def test_a_removal_that_is_refused_leaves_the_properties_and_their_backup(location: str, torn: bool) -> None:
    make(location, name="orders")
    _backup(location).write_bytes(_main(location).read_bytes())
    if torn:
        _main(location).write_text("hoodie.table.na")
    with pytest.raises(Kept):
        properties_file.remove(LocalStorage(location), refuse)
    assert hudi.open_table(location).name == "orders"


@pytest.mark.parametrize("torn", [True, False])
def test_a_removal_that_is_interrupted_leaves_what_it_was_to_remove_or_nothing(location: str, torn: bool) -> None:
    make(location, name="orders")
    whole = _main(location).read_bytes()
    stale = whole.replace(b"hoodie.table.version=8", b"hoodie.table.version=6")
    main, backup = (b"hoodie.table.na", whole) if torn else (whole, stale)
    for number in range(1, 9):
        _main(location).write_bytes(main)
        _backup(location).write_bytes(backup)
        try:
            properties_file.remove(FailingStorage(LocalStorage(location), nth_write(number)), lambda: None)  # type: ignore[arg-type]
        except StorageError:
            assert properties_file.read(LocalStorage(location))["hoodie.table.version"] == "8"
        else:
            break
    assert not _main(location).exists()
    assert not _backup(location).exists()


def test_a_stale_checksum_file_of_hadoop_goes_with_the_old_bytes(location: str) -> None:
    make(location)
    stale = Path(location, ".hoodie/.hoodie.properties.crc")
    stale.write_bytes(b"crc\0stale")
    properties_file.update(LocalStorage(location), {"a": "1"}, "test")
    assert not stale.exists()


def test_a_folder_without_properties_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match=r"hoodie\.properties is missing"):
        hudi.open_table(str(tmp_path))


@pytest.mark.row("P13")
def test_a_table_in_local_time_is_written_in_local_time(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import time
    from datetime import UTC, datetime

    from support.tables import orders, rows

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        table = make(location, options={"hoodie.table.timeline.timezone": "LOCAL"})
        commit = table.upsert(orders((1, "a", 1.0)))
        now = datetime.now(UTC)
        behind = now.replace(tzinfo=None) - datetime.strptime(commit.instant[:14], "%Y%m%d%H%M%S")
        assert -20_000 < behind.total_seconds() < -19_700, "the timeline shows 5:30 more than UTC"
        assert rows(table.scan(as_of=now), "id") == [(1,)], "a datetime with a zone means the same moment"
        with pytest.raises(ValueError, match="no time zone"):
            table.scan(as_of=datetime.now())
    finally:
        monkeypatch.undo()
        time.tzset()


def test_changes_of_the_properties_are_made_once_and_only_while_they_are_wanted(location: str) -> None:
    storage = context_of(make(location)).storage
    properties_file.apply(storage, {"a": "1"}, "not wanted", lambda: False)
    assert "a" not in properties_file.read(storage)
    properties_file.apply(storage, {"a": "1"}, "wanted")
    assert properties_file.read(storage)["a"] == "1"
    before = _main(location).read_bytes()
    properties_file.apply(storage, {"a": "1"}, "once more")
    assert _main(location).read_bytes() == before
    properties_file.apply(storage, {"a": None}, "taken back")
    assert "a" not in properties_file.read(storage)
