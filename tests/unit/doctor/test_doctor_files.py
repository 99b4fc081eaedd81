"""What the doctor says about data files, what was left behind, schema and record keys."""

from __future__ import annotations

import shutil
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.doctor import examine, kinds
from support.golden import unpack
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.doctor import Area, CheckOptions, FindingKind, Limits
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata
from pyhudi_core.model.instant import Action, Instant, State, time_after


def _written(location: str) -> tuple[hudi.HudiTable, Path]:
    """A table with two versions of one file, and the newest."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0)))
    commit = table.upsert(orders((1, "a", 2.0)))
    return table, Path(location, commit.stats.files[0].path)


# --- what commits name


@pytest.mark.row("R4")
def test_the_newest_file_of_a_group_that_is_gone_is_an_error(location: str) -> None:
    table, newest = _written(location)
    newest.unlink()
    report = examine(location)
    assert kinds(report) == ["file_missing"]
    assert report.findings[0].where == str(newest.relative_to(location))
    assert report.findings[0].instant == table.timeline[-1].requested_time


def test_an_old_file_that_nothing_cleaned_is_a_warning(location: str) -> None:
    table, newest = _written(location)
    [old] = [path for path in newest.parent.glob("*.parquet") if path != newest]
    old.unlink()
    assert kinds(examine(location)) == ["old_file_missing"]
    assert rows(table, "id", "price") == [(1, 2.0), (2, 1.0)]


def test_a_file_that_a_pending_clean_deleted_is_no_finding(location: str) -> None:
    """The process may have died between the deletion and the end of the clean."""
    table, newest = _written(location)
    planned = reopen(table, **{"hoodie.clean.commits.retained": 1}).cleaning
    table.upsert(orders((1, "a", 3.0)))
    table.upsert(orders((1, "a", 4.0)))
    assert planned.schedule() is not None
    min(newest.parent.glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2]).unlink()
    assert "old_file_missing" not in kinds(examine(location))


def test_files_that_cleaning_removed_are_no_finding(location: str) -> None:
    report = examine(unpack("hudi-1.0.2/cow_hive_services", location))
    assert report.counts["data files"] < 50
    assert report.ok


@pytest.mark.row("R4")
def test_a_file_of_another_size_than_its_commit_says_is_an_error(location: str) -> None:
    _, newest = _written(location)
    newest.write_bytes(newest.read_bytes() + b"x")
    assert "file_size_differs" in kinds(examine(location))


def test_an_empty_file_is_an_error(location: str) -> None:
    _, newest = _written(location)
    newest.write_bytes(b"")
    assert kinds(examine(location)) == ["file_damaged", "file_empty"]


def test_a_damaged_file_is_named_once(location: str) -> None:
    _, newest = _written(location)
    data = newest.read_bytes()
    newest.write_bytes(data[:-4] + b"PARX")
    report = examine(location)
    assert kinds(report) == ["file_damaged"]
    assert len(report.of(FindingKind.FILE_DAMAGED)) == 1
    assert not report.area(Area.KEYS).complete


@pytest.mark.row("R2", "L8", "T3")
def test_a_leaked_file_of_a_completed_commit_is_found_and_never_read(location: str) -> None:
    """A task that came too late wrote a whole file for the commit's instant: nobody named it."""
    table, newest = _written(location)
    before = rows(table)
    leaked = newest.with_name(newest.name.replace(newest.name.split("_")[1], "9-9-9"))
    shutil.copy(newest, leaked)
    report = examine(location)
    assert kinds(report) == ["leaked_file"]
    assert report.findings[0].where == str(leaked.relative_to(location))
    assert rows(hudi.open_table(location)) == before


@pytest.mark.row("T3")
def test_a_file_of_an_instant_that_nobody_knows_is_leaked(location: str) -> None:
    table, newest = _written(location)
    first, last = table.timeline[0].requested_time, table.timeline[-1].requested_time
    between = time_after(first)
    assert between < last
    shutil.copy(newest, newest.with_name(f"{newest.name.rpartition('_')[0]}_{between}.parquet"))
    report = examine(location)
    assert kinds(report) == ["leaked_file"]
    assert report.findings[0].instant == between


def test_other_files_in_a_partition_are_information(location: str) -> None:
    _, newest = _written(location)
    newest.with_name("_SUCCESS").touch()
    report = examine(location)
    assert report.ok
    assert [found.where for found in report.of(FindingKind.UNKNOWN_FILE)] == ["day=a/_SUCCESS"]


def test_a_partition_without_its_metafile_is_an_error_because_its_rows_are_invisible_to_spark(location: str) -> None:
    _, newest = _written(location)
    (newest.parent / ".hoodie_partition_metadata").unlink()
    report = examine(location)
    assert kinds(report) == ["partition_without_metafile"]
    assert report.findings[0].where == "day=a"


# --- replaced groups


@pytest.mark.row("L9")
def test_files_of_replaced_groups_are_counted_and_not_read(location: str) -> None:
    table, _ = _written(location)
    table.insert_overwrite(orders((7, "a", 7.0)))
    report = examine(location)
    assert report.ok
    [kept] = report.of(FindingKind.REPLACED_GROUP_KEPT)
    assert kept.what.startswith("2 files")
    assert report.counts["keys"] == 1
    assert rows(table, "id") == [(7,)]


def _publish(table: hudi.HudiTable, commit: CommitMetadata, after: str, action: Action = Action.COMMIT) -> str:
    """Put a commit on the timeline as a writer without any checks would."""
    time = time_after(after)
    done = Instant(time, action, State.COMPLETED, time_after(time))
    path = Path(table.location, ".hoodie/timeline", done.file_name())
    path.write_bytes(encode_record(commit.record_name(action), commit.to_avro(action), sync_marker=bytes(16)))
    return time


@pytest.mark.row("L9")
def test_a_commit_to_a_group_that_was_replaced_before_is_an_error(location: str) -> None:
    table, newest = _written(location)
    old = table.commit_metadata(table.timeline[-1])
    overwrite = table.insert_overwrite(orders((7, "a", 7.0)))
    time = time_after(overwrite.completion_time)
    path = f"day=a/{newest.name.rpartition('_')[0]}_{time}.parquet"
    shutil.copy(newest, Path(location, path))
    _publish(table, replace(old, stats=(replace(old.stats[0], path=path),)), overwrite.completion_time)
    report = examine(location)
    assert "written_to_replaced_group" in kinds(report)
    assert rows(hudi.open_table(location), "id") == [(7,)]


# --- leftovers


def test_markers_of_a_write_that_is_over_are_information(location: str) -> None:
    table, _ = _written(location)
    marker = Path(location, ".hoodie/.temp", table.timeline[0].requested_time, "day=a/x.parquet.marker.CREATE")
    marker.parent.mkdir(parents=True)
    marker.touch()
    report = examine(location)
    assert report.ok
    assert len(report.of(FindingKind.MARKERS_LEFT)) == 1


def test_files_in_the_making_are_found_although_listings_hide_them(location: str) -> None:
    _, newest = _written(location)
    for folder in (newest.parent, Path(location, ".hoodie/timeline"), Path(location, ".hoodie")):
        (folder / ".pyhudi-0123456789abcdef.tmp").write_bytes(b"half")
    report = examine(location)
    assert report.ok
    assert len(report.of(FindingKind.TEMPORARY_FILE_LEFT)) == 3


def _checksum(data: bytes, piece: int = 512) -> bytes:
    sums = (zlib.crc32(data[at : at + piece]) for at in range(0, len(data), piece))
    return b"crc\0" + struct.pack(">i", piece) + b"".join(struct.pack(">I", value) for value in sums)


def test_a_checksum_that_fits_no_more_is_an_error_because_hudi_refuses_the_file(location: str) -> None:
    _written(location)
    properties = Path(location, ".hoodie/hoodie.properties")
    checksum = properties.with_name(".hoodie.properties.crc")
    checksum.write_bytes(_checksum(properties.read_bytes()))
    assert examine(location).ok
    checksum.write_bytes(_checksum(b"other" + properties.read_bytes()))
    assert kinds(examine(location)) == ["stale_checksum"]
    for damaged in (b"", b"crc", b"crc\0\0\0\0\0", b"crc\0\xff\xff\xff\xff"):
        checksum.write_bytes(damaged)
        assert kinds(examine(location)) == ["stale_checksum"]


def test_a_checksum_without_its_file_is_information(location: str) -> None:
    _, newest = _written(location)
    newest.with_name(".gone.parquet.crc").write_bytes(b"crc\0")
    report = examine(location)
    assert report.ok
    assert len(report.of(FindingKind.CHECKSUM_WITHOUT_FILE)) == 1


def test_findings_of_one_kind_beyond_the_limit_are_counted(location: str) -> None:
    _, newest = _written(location)
    for number in range(50):
        newest.with_name(f"x{number}").touch()
    report = examine(location, CheckOptions(limits=Limits(shown=5)))
    found = report.of(FindingKind.UNKNOWN_FILE)
    assert len(found) == 6
    assert sum(item.count for item in found) == 50
    assert "45 more" in found[-1].what


def test_folders_beyond_the_limit_are_not_called_sound(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 1.0), (3, "c", 1.0)))
    report = examine(location, CheckOptions(limits=Limits(data_files=0)))
    assert not report.of(FindingKind.FILE_MISSING)


# --- the metadata table


def test_a_listed_metadata_table_that_is_gone_is_an_error(location: str) -> None:
    unpack("hudi-1.2.0/cow_plain", location)
    shutil.rmtree(Path(location, ".hoodie/metadata/files"))
    assert kinds(examine(location)) == ["metadata_table_missing"]
    shutil.rmtree(Path(location, ".hoodie/metadata"))
    assert kinds(examine(location)) == ["metadata_table_missing"]


def test_a_metadata_table_that_nobody_lists_is_information(location: str) -> None:
    _written(location)
    Path(location, ".hoodie/metadata/files").mkdir(parents=True)
    report = examine(location)
    assert report.ok
    assert report.of(FindingKind.METADATA_TABLE_UNLISTED)


# --- schema and rows


def _rewrite(path: Path, change) -> None:  # type: ignore[no-untyped-def]
    """Change a base file, and the size in nobody's mind."""
    pq.write_table(change(pq.read_table(path)), path, store_schema=False)


def test_a_file_with_other_rows_than_its_commit_says_is_an_error(location: str) -> None:
    _, newest = _written(location)
    _rewrite(newest, lambda table: table.slice(0, 1))
    assert "rows_differ" in kinds(examine(location))


def test_a_file_whose_columns_cannot_be_read_as_the_tables_is_an_error(location: str) -> None:
    _, newest = _written(location)
    _rewrite(
        newest,
        lambda table: table.set_column(table.schema.get_field_index("price"), "price", pa.array([["x"]] * len(table))),
    )
    assert "schema_differs" in kinds(examine(location))


def test_a_table_without_any_schema_is_a_warning(location: str) -> None:
    make(location)
    path = Path(location, ".hoodie/hoodie.properties")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("hoodie.table.create.schema")]
    path.write_text("\n".join(lines) + "\n")
    assert kinds(examine(location)) == ["schema_missing"]


def test_footers_beyond_the_limit_are_not_called_sound(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    report = examine(location, CheckOptions(limits=Limits(footers=1)))
    assert report.ok
    assert not report.area(Area.SCHEMA).complete


# --- keys


def _twice(location: str, keys: range = range(1, 4)) -> hudi.HudiTable:
    """A table in which a writer without any checks has inserted keys again."""
    table = make(location)
    commit = table.upsert(orders(*((key, "a", 1.0) for key in keys), (10, "b", 1.0)))
    metadata = table.commit_metadata(table.timeline[0])
    stat = next(stat for stat in metadata.stats if stat.partition == "day=a")
    time = time_after(commit.completion_time)
    path = f"day=a/99999999-9999-4999-8999-999999999999-0_0-7-7_{time}.parquet"
    shutil.copy(Path(location, stat.path), Path(location, path))
    name = path.rpartition("/")[2].partition("_")[0]
    _publish(table, replace(metadata, stats=(replace(stat, path=path, file_id=name),)), commit.completion_time)
    return table


def test_a_key_that_is_there_twice_is_an_error_that_names_it(location: str) -> None:
    table = _twice(location)
    assert len(rows(table, "id")) == 7
    report = examine(location)
    assert kinds(report) == ["duplicate_key"]
    assert "3 record keys exist more than once ('1', '2', '3'): 3 surplus rows in 2 files" in report.findings[0].what


def test_keys_are_compared_in_passes_when_they_do_not_fit_into_memory(location: str) -> None:
    _twice(location, range(1, 200))
    report = examine(location, CheckOptions(limits=Limits(keys_in_memory=50)))
    found = report.of(FindingKind.DUPLICATE_KEY)
    assert 1 < len(found) <= 8, "one finding a pass"
    assert sum(int(item.what.split()[0]) for item in found) == 199
    assert report.counts["keys"] == 2 * 199 + 1


def test_the_same_key_in_two_partitions_is_fine(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    table.insert(orders((1, "b", 1.0)))
    report = examine(location)
    assert report.ok
    assert report.counts["keys"] == 2


def test_a_row_without_a_key_is_an_error(location: str) -> None:
    _, newest = _written(location)
    index = 2
    _rewrite(newest, lambda table: table.set_column(index, "_hoodie_record_key", pa.array([None, "2"], pa.string())))
    assert "key_missing" in kinds(examine(location))


def test_keys_of_a_table_without_meta_columns_are_taken_from_its_key_columns(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    path = Path(location, ".hoodie/hoodie.properties")
    path.write_text(path.read_text().replace("populate.meta.fields=true", "populate.meta.fields=false"))
    report = examine(location)
    assert report.ok
    assert report.counts["keys"] == 1


def test_composite_keys_are_compared_as_a_whole(location: str) -> None:
    table = make(location, record_key=["id", "ts"])
    table.upsert(orders((1, "a", 1.0, 1), (1, "a", 1.0, 2)))
    reopen(table).upsert(orders((1, "a", 2.0, 2)))
    report = examine(location)
    assert report.ok
    assert report.counts["keys"] == 2
