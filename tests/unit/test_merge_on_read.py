"""Merge-on-read tables that we write: new keys go to base files, known ones to logs, and every reader sees the rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import unpack
from support.homes import context_of
from support.tables import ORDERS, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError, DuplicateKeyError, InvalidOptionError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.formats.log.blocks import BlockType, Header, LogBlock, decode_positions
from pyhudi_core.formats.log.reader import LogReader
from pyhudi_core.model.commit import WriteStat
from pyhudi_core.model.instant import Action, Instant, State, time_after


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    """Three rows in one partition, written by one commit."""
    made = make(location, table_type="MERGE_ON_READ", ordering="ts")
    made.upsert(orders((1, "a", 1.0, 10), (2, "a", 2.0, 10), (3, "a", 3.0, 10)))
    return made


def last_stats(table: hudi.HudiTable) -> list[WriteStat]:
    return list(table.commit_metadata(table.timeline.commits[-1]).stats)


def blocks(table: hudi.HudiTable, path: str) -> list[LogBlock]:
    storage = table._opened.storage
    with storage.open_input(path) as source:
        return list(LogReader(source, path).blocks())


@pytest.mark.row("C2", "G5", "H5", "H8")
def test_updates_go_to_a_log_file_of_their_own_with_positions(table: hudi.HudiTable) -> None:
    base = last_stats(table)[0]
    commit = table.upsert(orders((3, "a", 33.0, 11), (1, "a", 11.0, 12)))
    [stat] = last_stats(table)
    assert commit.stats.rows_updated == stat.rows == stat.updates == 2
    assert (stat.file_id, stat.inserts, stat.deletes, stat.prev_commit) == (base.file_id, 0, 0, commit.instant)
    assert Path(stat.path).name.startswith(f".{base.file_id}_{commit.instant}.log.1_")
    [block] = blocks(table, stat.path)
    assert block.type is BlockType.AVRO_DATA
    assert decode_positions(block.headers[Header.RECORD_POSITIONS]).tolist() == [0, 2]
    assert block.headers[Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS] in base.path
    assert rows(table, "id", "price") == [(1, 11.0), (2, 2.0), (3, 33.0)]
    assert rows(table.scan(mode="read_optimized"), "id", "price") == [(1, 1.0), (2, 2.0), (3, 3.0)]


@pytest.mark.row("C2")
def test_a_commit_of_logs_says_what_hudi_says(table: hudi.HudiTable) -> None:
    commit = table.upsert(orders((1, "a", 11.0, 12)))
    raw = table.commit_metadata(table.timeline.commits[-1]).raw
    [stat] = raw["partitionToWriteStats"]["day=a"]
    name = Path(stat["path"]).name
    expected = {"logVersion": 1, "logOffset": 0, "baseFile": "", "logFiles": [name], "prevCommit": commit.instant}
    counts = {"numWrites": 1, "numUpdateWrites": 1, "numInserts": 0, "numDeletes": 0, "prevBaseFile": None}
    assert {key: stat[key] for key in expected | counts} == expected | counts
    assert raw["operationType"] == "UPSERT"


def test_new_keys_fill_the_small_file_group_until_it_has_logs(table: hudi.HudiTable) -> None:
    table.upsert(orders((1, "a", 11.0, 12), (4, "a", 4.0, 1)))
    [stat] = last_stats(table)
    assert (stat.path.endswith(".parquet"), stat.updates, stat.inserts) == (True, 1, 1)
    table.upsert(orders((1, "a", 12.0, 13)))
    table.upsert(orders((1, "a", 13.0, 14), (5, "a", 5.0, 1)))
    kinds = sorted((stat.path.endswith(".parquet"), stat.updates, stat.inserts) for stat in last_stats(table))
    assert kinds == [(False, 1, 0), (True, 0, 1)]
    assert rows(table, "id", "price") == [(1, 13.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0)]
    assert len(table.snapshot().view.all_slices()) == 2


@pytest.mark.row("C2", "G1")
def test_deletes_are_a_block_with_the_ordering_values_of_their_rows(table: hudi.HudiTable) -> None:
    commit = table.delete(pa.table({"id": [2, 3, 99], "day": ["a", "a", "a"]}))
    [stat] = last_stats(table)
    assert (commit.stats.rows_deleted, stat.rows, stat.deletes) == (2, 0, 2)
    assert [block.type for block in blocks(table, stat.path)] == [BlockType.DELETE]
    table.upsert(orders((2, "a", 20.0, 5)))
    assert rows(table, "id", "price") == [(1, 1.0)], "a late row does not bring the deleted row back"
    table.upsert(orders((2, "a", 21.0, 10)))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 21.0)]


def test_a_delete_of_deleted_keys_makes_no_commit(table: hudi.HudiTable) -> None:
    keys = pa.table({"id": [2], "day": ["a"]})
    assert table.delete(keys)
    assert not table.delete(keys)
    assert len(table.timeline.commits) == 2


def test_rows_that_say_they_are_deleted_go_to_a_delete_block(location: str) -> None:
    schema = pa.schema([*ORDERS, ("_hoodie_is_deleted", pa.bool_())])
    made = make(location, schema, table_type="mor", ordering="ts")

    def batch(*values: tuple[int, int, bool]) -> pa.Table:
        plain = orders(*((key, "a", 1.0, ts) for key, ts, _ in values))
        return plain.append_column("_hoodie_is_deleted", pa.array([gone for _, _, gone in values]))

    made.upsert(batch((1, 5, False), (2, 5, False), (3, 5, False)))
    made.upsert(batch((1, 6, True), (2, 4, True), (3, 9, False)))
    [stat] = last_stats(made)
    assert [block.type for block in blocks(made, stat.path)] == [BlockType.AVRO_DATA, BlockType.DELETE]
    assert rows(made, "id", "ts") == [(2, 5), (3, 9)]


def test_an_insert_finds_out_which_keys_the_logs_have_deleted(table: hudi.HudiTable) -> None:
    table.delete(pa.table({"id": [2], "day": ["a"]}))
    with pytest.raises(DuplicateKeyError, match="1 rows"):
        table.insert(orders((1, "a", 5.0, 20), (2, "a", 5.0, 20)))
    table.insert(orders((2, "a", 5.0, 20), (7, "a", 7.0, 20)))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 5.0), (3, 3.0), (7, 7.0)]
    skipping = reopen(table, hoodie__datasource__write__insert__drop__duplicates="true")
    table.delete(pa.table({"id": [3], "day": ["a"]}))
    skipping.insert(orders((1, "a", 0.0, 99), (3, "a", 3.5, 99)))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 5.0), (3, 3.5), (7, 7.0)]


@pytest.mark.row("G3", "G4", "G5")
@pytest.mark.parametrize("block", ["parquet", "avro", "hfile"])
def test_each_block_format_is_written_on_request(table: hudi.HudiTable, block: str) -> None:
    other = reopen(table, hoodie__logfile__data__block__format=block)
    other.upsert(orders((1, "a", 1.5, 11), (3, "a", 3.5, 11)))
    [stat] = last_stats(table)
    assert [found.type.name for found in blocks(table, stat.path)] == [f"{block.upper()}_DATA"]
    assert rows(table, "id", "price") == [(1, 1.5), (2, 2.0), (3, 3.5)]


@pytest.mark.parametrize("block", ["parquet", "avro", "hfile"])
def test_an_array_of_very_many_items_is_read_from_each_kind_of_block(location: str, block: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("items", pa.list_(pa.int64()))])
    options = {"hoodie.logfile.data.block.format": block}
    table = hudi.create_table(location, schema, record_key="id", table_type="MERGE_ON_READ", options=options)
    table.upsert(pa.table({"id": [1, 2], "items": [[1], [2]]}))
    table.upsert(pa.table({"id": [1], "items": [list(range(10_001))]}))
    assert rows(table, "id", "items") == [(1, list(range(10_001))), (2, [2])]


def test_positions_can_be_left_out(table: hudi.HudiTable) -> None:
    reopen(table, hoodie__write__record__positions="false").upsert(orders((1, "a", 1.5, 11)))
    [stat] = last_stats(table)
    assert set(blocks(table, stat.path)[0].headers) == {Header.INSTANT_TIME, Header.SCHEMA}


def test_incremental_reads_and_changes_see_the_rows_of_logs(table: hudi.HudiTable) -> None:
    first = table.timeline.commits[-1].completion_time
    table.upsert(orders((1, "a", 1.5, 11)))
    table.delete(pa.table({"id": [2], "day": ["a"]}))
    assert rows(table.incremental(after=first), "id", "price") == [(1, 1.5)]
    found = table.changes(after=first).to_arrow().to_pylist()
    assert len(found) == 2
    assert rows(table.scan(as_of=first), "id", "price") == [(1, 1.0), (2, 2.0), (3, 3.0)]


@pytest.mark.row("D3")
def test_overwriting_and_dropping_partitions_replaces_groups_with_their_logs(table: hudi.HudiTable) -> None:
    table.upsert(orders((1, "a", 1.5, 11), (9, "b", 9.0, 1)))
    table.upsert(orders((1, "a", 1.6, 12)))
    table.insert_overwrite(orders((5, "a", 5.0, 1)))
    assert rows(table, "id", "price") == [(5, 5.0), (9, 9.0)]
    table.delete_partitions(["day=b"])
    assert rows(table, "id", "price") == [(5, 5.0)]
    table.insert_overwrite_table(orders((6, "c", 6.0, 1)))
    assert rows(table, "id", "price") == [(6, 6.0)]
    assert str(table.timeline.commits[-1].action) == "replacecommit"
    assert table.check().ok


def test_two_writers_of_one_file_group_conflict_although_both_only_append(table: hudi.HudiTable) -> None:
    with table.begin("upsert") as slow:
        slow.write(orders((1, "a", 1.5, 11)))
        table.upsert(orders((2, "a", 2.5, 11)))
        with pytest.raises(CommitConflictError, match="file groups"):
            slow.commit()
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.5), (3, 3.0)]


def plan_compaction(table: hudi.HudiTable) -> None:
    """What Hudi puts on the timeline when it plans to compact every file group."""
    context = context_of(table)
    pieces = table.snapshot().view.all_slices()
    groups = [{"fileId": piece.file_id, "partitionPath": piece.partition, "baseInstantTime": "1"} for piece in pieces]
    time = time_after(max(instant.requested_time for instant in table.timeline))
    requested = Instant(time, Action.COMPACTION, State.REQUESTED)
    body = encode_record("HoodieCompactionPlan", {"operations": groups, "version": 2}, sync_marker=bytes(16))
    context.storage.put(context.folder.file(requested), body)


@pytest.mark.row("K6")
def test_a_base_file_beside_a_new_compaction_plan_is_a_conflict_and_a_log_is_none(table: hudi.HudiTable) -> None:
    with table.begin("upsert") as rewriting, table.begin("upsert") as appending:
        rewriting.write(orders((1, "a", 1.5, 11), (8, "a", 8.0, 1)))
        appending.write(orders((2, "a", 2.5, 11)))
        plan_compaction(table)
        with pytest.raises(CommitConflictError, match="compaction"):
            rewriting.commit()
        appending.commit()
    commit = table.upsert(orders((1, "a", 1.6, 11), (8, "a", 8.0, 1)))
    assert sorted((".log." in stat.path, stat.inserts) for stat in commit.stats.files) == [(False, 1), (True, 0)]
    assert rows(table, "id", "price") == [(1, 1.6), (2, 2.5), (3, 3.0), (8, 8.0)]


def test_a_rollback_removes_the_log_files_of_a_write(table: hudi.HudiTable) -> None:
    storage = table._opened.storage
    before = {info.path for info in storage.list("")}
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.5, 11)))
        assert rows(write.staged(), "id", "price") == [(1, 1.5)]
        new = {info.path for info in storage.list("")} - before
        assert any(".log.1_" in path and path.endswith(".marker.CREATE") for path in new)
    left = {info.path for info in storage.list("")} - before
    assert not [path for path in left if ".log." in path]
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_bucket_index_without_its_number_of_buckets_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    made = hudi.open_table(unpack("hudi-1.0.2/mor_bucket", tmp_path))
    before = {path.name for path in tmp_path.rglob("*")}
    with pytest.raises(InvalidOptionError, match="The number of buckets is not known"):
        made.upsert(made.scan(columns=made.schema.names).to_arrow())
    assert {path.name for path in tmp_path.rglob("*")} == before


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["mor_avro", "mor_event_delete", "mor_commit_time_parquet_log"])
def test_a_table_of_hudi_is_continued(tmp_path: Path, name: str) -> None:
    made = hudi.open_table(unpack(f"hudi-1.0.2/{name}", tmp_path))
    before = (
        made.scan(columns=made.schema.names)
        .to_arrow()
        .sort_by([(key, "ascending") for key in made.config.record_key_fields])
    )
    groups = {piece.group for piece in made.snapshot().view.all_slices()}
    made.upsert(before)
    after = (
        made.scan(columns=made.schema.names)
        .to_arrow()
        .sort_by([(key, "ascending") for key in made.config.record_key_fields])
    )
    assert after.to_pylist() == before.to_pylist()
    assert {piece.group for piece in made.snapshot().view.all_slices()} == groups, "no key went to another file group"
    times = set(made.scan().to_arrow().column("_hoodie_commit_time").to_pylist())
    assert times == {made.timeline.commits[-1].requested_time}


@pytest.mark.parametrize(
    ("kind", "chosen", "block"),
    [
        (pa.string(), None, BlockType.AVRO_DATA),
        (pa.int64(), None, BlockType.AVRO_DATA),
        (pa.int64(), "parquet", BlockType.PARQUET_DATA),
        (pa.string(), "parquet", BlockType.PARQUET_DATA),
    ],
)
def test_small_blocks_and_those_of_tables_ordered_by_a_text_are_avro_unless_told_otherwise(
    location: str, kind: pa.DataType, chosen: str | None, block: BlockType
) -> None:
    """Release 1.2.0 of Hudi compares texts of Parquet blocks wrongly (tests/interop/test_merge_on_read.py)."""
    schema = pa.schema([("id", pa.int64()), ("at", kind)])
    options = {} if chosen is None else {"hoodie.logfile.data.block.format": chosen}
    table = make(location, schema, table_type="MERGE_ON_READ", ordering="at", options=options)
    for at in ("1", "2"):
        table.upsert(pa.table({"id": pa.array([1]), "at": pa.array([at]).cast(kind)}))
    assert [item.type for item in blocks(table, last_stats(table)[0].path)] == [block]
