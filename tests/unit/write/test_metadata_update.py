"""A commit to a table that lists a metadata table writes it, too: listing, statistics and record index stay true, and readers go on to use them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.golden import unpack
from support.metadata_tables import SCHEMA, assert_metadata_is_true, build, left_in_metadata_table, metadata_of, rows
from support.samples import one_in
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import CommitAbortedError, DuplicateKeyError, UnsupportedTableError
from pyhudi_core.metadata_table import names
from pyhudi_core.model.instant import time_after
from pyhudi_core.write.handle import commit_with_retries

OF_HUDI = [
    "hudi-1.0.2/cow_plain",
    "hudi-1.2.0/cow_rich_types",
    "hudi-1.0.2/cow_hive_services",
    "hudi-1.0.2/mor_avro",
    "hudi-1.2.0/mor_commit_time_parquet_log",
]


@pytest.fixture
def indexed(location: str) -> hudi.HudiTable:
    """A table of 60 rows with all four partitions of the metadata table."""
    table = create_plain(location, SCHEMA, "id", "day", ordering="ts")
    table.insert(rows(0, 60))
    build(table)
    return hudi.open_table(location)


def data_of(table: hudi.HudiTable) -> pa.Table:
    """The rows without meta columns."""
    rows = table.scan().to_arrow()
    return rows.select([name for name in rows.column_names if not name.startswith("_hoodie_")])


@pytest.mark.one_in(2)
@pytest.mark.row("I1", "I2", "I3", "P10")
@pytest.mark.parametrize("name", OF_HUDI)
def test_the_metadata_table_of_hudi_stays_true_under_our_commits(name: str, location: str) -> None:
    table = hudi.open_table(unpack(name, location))
    listed = table.config.metadata_partitions
    everything = data_of(table)
    half = everything.slice(0, len(everything) // 2)
    for change, data in (("upsert", everything), ("delete", half), ("insert", half)):
        assert getattr(table, change)(data).notes == ()
        table = hudi.open_table(location)
        assert table.config.metadata_partitions == listed
        assert_metadata_is_true(table)
    assert sorted(map(str, data_of(table).to_pylist())) == sorted(map(str, everything.to_pylist()))


@pytest.mark.row("I1", "I5", "P10")
def test_every_operation_keeps_all_four_indexes_true(indexed: hudi.HudiTable) -> None:
    table = indexed
    for change in (
        lambda: table.upsert(rows(40, 90)),
        lambda: table.delete(rows(0, 7).select(["id", "day"])),
        lambda: table.insert(rows(200, 210)),
        lambda: table.insert_overwrite(rows(300, 301)),
        lambda: table.bulk_insert(rows(500, 560)),
        lambda: table.delete_partitions(["day=d1"]),
        lambda: table.upsert(rows(700, 720).set_column(1, "day", pa.array(["new"] * 20))),
        lambda: table.insert_overwrite_table(rows(900, 930)),
    ):
        assert change().changed
        assert_metadata_is_true(table)
    assert table.lookup(pa.table({"id": ["k900", "k5", "k300"]})).to_arrow().column("id").to_pylist() == ["k900"]


def test_a_file_that_was_pruned_by_statistics_holds_no_row_of_the_answer(indexed: hudi.HudiTable) -> None:
    """Rows whose values are outside of what the statistics said before are found after the commit."""
    far = rows(1000, 1003)
    indexed.upsert(far)
    assert indexed.scan(where="ts >= 1000").to_arrow().num_rows == 3
    assert indexed.scan(where="ts < 0").to_arrow().num_rows == 0


@pytest.mark.row("I5")
def test_a_key_that_is_in_another_partition_is_refused_before_anything_is_published(indexed: hudi.HudiTable) -> None:
    """The record index has one place for a key, so readers would find one of the two rows only."""
    before = data_of(indexed)
    moved = rows(5, 6).set_column(1, "day", pa.array(["elsewhere"]))
    with pytest.raises(DuplicateKeyError, match="'k5' in day=d2"):
        indexed.upsert(moved)
    assert data_of(indexed).equals(before)
    assert_metadata_is_true(indexed)


@pytest.mark.one_in(2)
@pytest.mark.row("I3")
@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_rows_in_log_files_are_found_wherever_their_values_are(location: str, form: str) -> None:
    """A log may have several blocks, or a form without ranges; then its bounds are not known, and nothing is skipped because of it."""
    table = create_plain(location, SCHEMA, "id", "day", ordering="ts", table_type="MERGE_ON_READ")
    table.insert(rows(0, 30))
    build(table, names.FILES, names.COLUMN_STATS, names.PARTITION_STATS)
    table = hudi.open_table(location, options={"hoodie.logfile.data.block.format": form})
    far = rows(3, 9).set_column(3, "price", pa.array([1000.0, None, -5.0, 2000.0, None, 3.0]))
    later = far.set_column(2, "ts", pa.array([500] * 6))
    table.upsert(later)
    table.delete(rows(20, 22).select(["id", "day"]))
    assert_metadata_is_true(table)
    for condition, count in (("price >= 1000", 2), ("price < 0", 1), ("price IS NULL", 2), ("ts = 500", 6)):
        assert table.scan(where=condition).to_arrow().num_rows == count, condition


def test_a_record_index_with_other_file_groups_is_not_written_to(location: str) -> None:
    """Release 1.2 may keep a record index by partition, with file groups for each; our keys would be where Hudi does not look."""
    table = hudi.open_table(unpack("hudi-1.2.0/cow_partitioned_record_index", location))
    assert_refused_and_removed_only_by_option(table, data_of(table), "record_index have a form")


@pytest.mark.row("I5")
@pytest.mark.parametrize("ordering", one_in(2, ["ts", None]))
def test_the_record_index_of_a_merge_on_read_table_is_kept(location: str, ordering: str | None) -> None:
    """A key of a base file may be deleted in a log, come back there, or come back in another partition; the index follows."""
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = create_plain(location, schema, "id", "day", ordering=ordering, table_type="MERGE_ON_READ")
    table.insert(flagged(rows(0, 30)))
    table.delete(rows(0, 2).select(["id", "day"]))
    build(table)
    assert_metadata_is_true(table)
    for change in (
        lambda: table.upsert(later(rows(3, 9))),
        lambda: table.delete(rows(4, 7).select(["id", "day"])),
        lambda: table.upsert(later(rows(4, 5), 2000)),
        lambda: table.insert(later(rows(5, 6), 2000)),
        lambda: table.upsert(later(rows(6, 7)).set_column(1, "day", pa.array(["elsewhere"]))),
        lambda: table.upsert(later(rows(12, 15), deleted=True)),
        lambda: table.upsert(later(rows(15, 17), -1, deleted=True)),
        lambda: table.upsert(later(rows(28, 60))),
        lambda: table.insert_overwrite(later(rows(300, 301))),
        lambda: table.delete_partitions(["day=d1"]),
    ):
        assert change().changed
        assert_metadata_is_true(table)


def later(data: pa.Table, ts: int = 1000, *, deleted: bool = False) -> pa.Table:
    return flagged(data.set_column(2, "ts", pa.array([ts] * len(data), pa.int64())), deleted=deleted)


def flagged(data: pa.Table, *, deleted: bool = False) -> pa.Table:
    return data.append_column("_hoodie_is_deleted", pa.array([deleted] * len(data)))


def test_a_column_does_not_become_wider_while_it_has_statistics_beside_a_record_index(location: str) -> None:
    """Hudi fails on statistics whose bounds have two types, so they have to be built anew."""
    narrow = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("price", pa.float32())])
    table = create_plain(location, narrow, "id", "day", ordering="ts")
    table.insert(rows(0, 30).cast(narrow))
    build(table)
    table = hudi.open_table(location)
    table.insert(rows(30, 40).cast(narrow))
    assert_metadata_is_true(table)
    assert_refused_and_removed_only_by_option(table, rows(5, 8), "statistics of price")


def test_a_commit_that_is_given_up_leaves_nothing_in_the_metadata_table(indexed: hudi.HudiTable) -> None:
    before = files_below(indexed)
    with pytest.raises(CommitAbortedError), indexed.begin("upsert") as write:  # noqa: PT012
        write.write(rows(0, 20))
        assert files_below(indexed) - before, "its log files are written before the commit"
        write.commit(gate=lambda: False)
    assert files_below(indexed) == before
    assert_metadata_is_true(indexed)


def test_a_rollback_keeps_a_metadata_table_where_the_failed_write_had_completed_already(
    indexed: hudi.HudiTable,
) -> None:
    """Hudi's writers complete their commit of the metadata table first, and may die before their own."""
    before = files_below(indexed)
    folder = Path(indexed.location, ".hoodie/metadata/.hoodie/timeline")
    with indexed.begin("upsert") as write:
        write.write(rows(0, 20))
        staged = next(Path(indexed.location, ".hoodie/.aux/.pyhudi/staged").glob(f"{write.instant}-*.hoodie_metadata"))
        folder.joinpath(f"{write.instant}_{time_after(str(write.instant))}.deltacommit").write_bytes(
            staged.read_bytes()
        )
        assert_metadata_is_true(indexed)
    assert files_below(indexed) == before
    assert not left_in_metadata_table(indexed)
    assert indexed.upsert(rows(0, 20)).notes == ()
    assert_metadata_is_true(indexed)


def test_files_of_the_metadata_table_do_not_count_before_the_commit(indexed: hudi.HudiTable) -> None:
    with indexed.begin("upsert") as write:
        write.write(rows(1000, 1010))
        assert_metadata_is_true(indexed)
        assert metadata_of(indexed).record_locations(["k1001"]).num_rows == 0
        write.commit()
    assert metadata_of(indexed).record_locations(["k1001"]).num_rows == 1


def test_a_commit_without_rows_is_known_to_the_metadata_table(indexed: hudi.HudiTable) -> None:
    with indexed.begin("upsert", allow_empty=True) as write:
        write.commit()
    assert_metadata_is_true(indexed)


def test_a_write_to_a_metadata_table_that_missed_a_commit_is_refused(indexed: hudi.HudiTable) -> None:
    """What a writer left that ignores it would stay invisible; nobody may trust it any more."""
    indexed.upsert(rows(0, 3))
    folder = Path(indexed.location, ".hoodie/metadata/.hoodie/timeline")
    newest = max(path.name.partition("_")[0] for path in folder.glob("2*.deltacommit"))
    for path in folder.glob(f"{newest}*"):
        path.unlink()
    assert_refused_and_removed_only_by_option(indexed, rows(3, 6), "out of date")


def test_a_partition_that_the_metadata_table_is_given_meanwhile_ends_no_write(location: str) -> None:
    """Each attempt reads the table's properties anew, so the next one writes what the first one did not know."""
    table = create_plain(location, SCHEMA, "id", "day", ordering="ts")
    table.insert(rows(0, 9))
    additions = iter([(names.FILES,), (names.FILES, names.RECORD_INDEX)])

    def meanwhile() -> None:
        for partitions in additions:
            build(table, *partitions)
            return

    with table.begin("upsert") as write:
        commit = commit_with_retries(write, lambda: write.write(rows(5, 20)), look=meanwhile)
    assert commit.retries == 2
    assert table.config.metadata_partitions == (names.FILES, names.RECORD_INDEX)
    assert_metadata_is_true(table)


def assert_refused_and_removed_only_by_option(table: hudi.HudiTable, data: pa.Table, why: str) -> None:
    """A write leaves everything as it was; with the option, it commits and says what it removed."""
    before, listed = data_files(table), table.config.metadata_partitions
    with pytest.raises(UnsupportedTableError, match=f"{why}.* pyhudi.metadata.remove_unkept=true"):
        table.upsert(data)
    assert data_files(table) == before
    allowed = hudi.open_table(table.location, options={"pyhudi.metadata.remove_unkept": True})
    assert ("pyhudi.metadata_table.removed", ",".join(listed)) in allowed.upsert(data).notes
    assert not allowed.config.metadata_partitions


def data_files(table: hudi.HudiTable) -> list[Path]:
    return sorted(path for path in Path(table.location).rglob("*") if path.is_file())


def files_below(table: hudi.HudiTable) -> set[str]:
    return {str(path) for path in Path(table.location, ".hoodie/metadata").rglob("*") if path.is_file()}
