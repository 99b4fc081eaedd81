"""Metadata tables that Hudi wrote say what is true of their data tables: files, statistics, places of keys."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.doctor import append_metadata, metadata_entries, rewrite_metadata
from support.golden import FIXTURES, queries, unpack
from support.metadata_tables import listing_of

import pyhudi_core as hudi
from pyhudi_core.file_groups.listing import StorageListing
from pyhudi_core.metadata_table import reader, slices
from pyhudi_core.metadata_table.names import FOLDER
from pyhudi_core.metadata_table.reader import MetadataTable
from pyhudi_core.snapshot.snapshot import metadata_file_groups

FOLDERS = sorted(folder for folder in FIXTURES.glob("hudi-*/*") if folder.is_dir())
NAMES = [f"{folder.parent.name}/{folder.name}" for folder in FOLDERS]
INDEXED = [name for name in NAMES if name.endswith("_indexed")]


@dataclass
class Opened:
    """A golden table, its metadata table, and its rows."""

    table: hudi.HudiTable
    metadata: MetadataTable
    rows: pa.Table


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Opened]:
    """Every golden table that lists a metadata table."""
    found = {}
    for name in NAMES:
        table = hudi.open_table(unpack(name, tmp_path_factory.mktemp("golden") / "table"))
        if table.config.metadata_partitions:
            folder = table._opened.context().folder
            metadata = MetadataTable.open(table.timeline, folder, table.config.metadata_partitions, whole=True)
            found[name] = Opened(table, metadata, table.scan().to_arrow())
    return found


@pytest.mark.row("I1", "P10")
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_the_list_of_files_is_that_of_the_storage(opened: dict[str, Opened], every: int) -> None:
    """The quick suite compares each fourth table."""
    assert len(opened) > 30
    for name, golden in itertools.islice(opened.items(), 0, None, every):
        listed = listing_of(golden.metadata)
        stored = StorageListing(golden.table._opened.storage, bool(golden.table.config.partition_fields))
        assert listed.partitions() == stored.partitions(), name
        for partition in stored.partitions():
            there = {
                info.path: info.size
                for info in stored.files(partition)
                if not info.path.endswith(".crc") and ".hoodie_partition_metadata" not in info.path
            }
            assert {info.path: info.size for info in listed.files(partition)} == there, name


@pytest.mark.row("I1")
def test_the_place_of_a_metadata_table_has_the_slices_that_its_readers_use(opened: dict[str, Opened]) -> None:
    """The view that services of the metadata table plan from, and the slices that lookups read, are assembled by different code."""
    for name, golden in opened.items():
        context = golden.table._opened.context()
        place = context.below(FOLDER)
        view = metadata_file_groups(place.storage, place.folder, place.folder.load())
        found = {
            (piece.partition, piece.file_id, piece.base and piece.base.name.requested_time, len(piece.logs))
            for piece in view.all_slices()
        }
        read = {
            (partition, first.name.file_id, piece.base and piece.base.name.requested_time, len(piece.logs))
            for partition in golden.metadata.partitions
            for piece in golden.metadata.slices.pieces(partition)
            for first in [piece.base or piece.logs[0]]
        }
        assert found == read, name


@pytest.mark.one_in(2)
@pytest.mark.row("I5")
@pytest.mark.parametrize("name", INDEXED)
def test_the_record_index_knows_where_every_key_is(opened: dict[str, Opened], name: str) -> None:
    golden = opened[name]
    keys = golden.rows.column("_hoodie_record_key").to_pylist()
    found = golden.metadata.record_locations([*keys, "no such key"])
    expected = zip(
        keys,
        golden.rows.column("_hoodie_partition_path").to_pylist(),
        [file.partition("_")[0] for file in golden.rows.column("_hoodie_file_name").to_pylist()],
        strict=True,
    )
    places = zip(*(found.column(column).to_pylist() for column in ("key", "partition", "file_id")), strict=True)
    assert sorted(places) == sorted(expected)
    assert golden.metadata.record_locations(["no such key"]).num_rows == 0


@pytest.mark.parametrize("name", INDEXED)
def test_few_keys_have_the_places_that_they_have_among_many(
    opened: dict[str, Opened], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few keys are looked up and decoded one by one, many as columns."""
    golden = opened[name]
    keys = golden.rows.column("_hoodie_record_key").to_pylist()
    found = []
    for few in (0, len(keys)):
        monkeypatch.setattr(slices, "FEW", few)
        monkeypatch.setattr(reader, "FEW", few)
        found.append(golden.metadata.record_locations([*keys, "no such key"]).sort_by("key"))
    assert found[0].num_rows == len(keys)
    assert found[0].equals(found[1])


@pytest.mark.row("I5")
@pytest.mark.parametrize("name", INDEXED)
def test_the_record_index_does_not_know_keys_that_were_deleted(opened: dict[str, Opened], name: str) -> None:
    golden = opened[name]
    [past] = [query for query in queries() if query.table == name and query.kind == "time_travel"]
    ever = set(past.expected.column("_hoodie_record_key").to_pylist())
    deleted = sorted(ever - set(golden.rows.column("_hoodie_record_key").to_pylist()))
    assert len(deleted) == 10
    assert golden.metadata.record_locations(deleted).num_rows == 0


@pytest.mark.row("I5")
def test_a_key_that_moved_is_found_where_it_moved_to(location: str) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_indexed", location))
    keys = table.scan().to_arrow().select(["id"])
    moved = metadata_entries(location, "record_index")[1]
    elsewhere = {"fileIdHighBits": 1, "fileIdLowBits": 1}

    def as_it_was(entries: dict[str, Any]) -> None:
        for entry in entries.values():
            entry["recordIndexMetadata"] = {**entry["recordIndexMetadata"], **elsewhere}

    rewrite_metadata(location, "record_index", as_it_was)
    assert hudi.open_table(location).lookup(keys).to_arrow().num_rows == 0
    append_metadata(location, "record_index", moved)
    assert hudi.open_table(location).lookup(keys).to_arrow().num_rows == keys.num_rows == len(moved)


@pytest.mark.parametrize("name", INDEXED)
def test_one_key_reads_one_path_of_blocks_in_each_file_of_its_shard(opened: dict[str, Opened], name: str) -> None:
    golden = opened[name]
    slices = golden.metadata.slices
    key = golden.rows.column("_hoodie_record_key")[0].as_py()
    before = slices.blocks_read
    assert golden.metadata.record_locations([key]).num_rows == 1
    pieces = slices.pieces("record_index")
    files = max(len(piece.logs) + (piece.base is not None) for piece in pieces)
    assert slices.blocks_read - before <= files


@pytest.mark.row("I7")
@pytest.mark.parametrize("name", INDEXED)
def test_a_secondary_index_finds_the_keys_of_a_value(opened: dict[str, Opened], name: str) -> None:
    golden = opened[name]
    values = [value for value in golden.rows.column("label").to_pylist() if value is not None][:5]
    wanted = golden.rows.filter(pc.is_in(golden.rows.column("label"), pa.array(values)))
    found = golden.metadata.record_keys_of("secondary_index_idx_label", values)
    assert sorted(found) == sorted(wanted.column("_hoodie_record_key").to_pylist())
    assert golden.metadata.record_keys_of("secondary_index_idx_label", ["no such label"]) == []


@pytest.mark.row("I2", "I3")
def test_statistics_hold_the_values_of_the_files_that_they_are_about(opened: dict[str, Opened]) -> None:
    checked = 0
    for name, golden in opened.items():
        if not golden.metadata.has("column_stats") or "ts" not in golden.rows.schema.names:
            continue
        partitions = golden.metadata.data_partitions()
        ranges = {found.file: found for found in golden.metadata.column_stats(["ts"], partitions)}
        for file, ts in zip(
            golden.rows.column("_hoodie_file_name").to_pylist(), golden.rows.column("ts").to_pylist(), strict=True
        ):
            if file in ranges and ts is not None:
                assert ranges[file].min <= ts <= ranges[file].max, name
                checked += 1
    assert checked > 500


@pytest.mark.row("I8")
def test_expression_indexes_hold_the_values_of_their_expression(opened: dict[str, Opened]) -> None:
    for name in INDEXED:
        golden = opened[name]
        path = Path(golden.table.location, ".hoodie", ".index_defs", "index.json")
        definition = json.loads(path.read_text())["indexDefinitions"]["expr_index_idx_bucket"]
        assert definition["indexFunction"] == "from_unixtime"
        ranges = golden.metadata.column_stats(["ts"], golden.metadata.data_partitions(), "expr_index_idx_bucket")
        assert {found.min for found in ranges} == {"1970-01-01"}, name


@pytest.mark.row("I6")
def test_a_record_index_that_is_kept_by_partition_is_read(tmp_path: Path) -> None:
    table = hudi.open_table(unpack("hudi-1.2.0/cow_partitioned_record_index", tmp_path / "table"))
    everything = table.scan().to_arrow()
    assert everything.num_rows == 28
    metadata = table.snapshot().metadata
    assert metadata is not None
    groups = {piece.group for piece in table.scan().slices()}
    places = metadata.record_locations(everything.column("_hoodie_record_key").to_pylist()).to_pylist()
    assert len(places) == 28
    assert {(row["partition"], row["file_id"]) for row in places} == groups
    for key in ("k00", "k07", "k29"):
        scan = table.lookup(pa.table({"id": [key]}))
        assert [row["id"] for row in scan.to_arrow().to_pylist()] == [key]
        assert len(scan.slices()) == 1
    assert table.lookup(pa.table({"id": ["k04"]})).to_arrow().num_rows == 0, "it was deleted"
