"""A metadata table that we build of an existing table, and the deltacommits that we add to it, say what is true of the table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import pyhudi_core as hudi
from pyhudi_core.file_groups.listing import StorageListing
from pyhudi_core.metadata_table import commits, names, new_metadata_table
from pyhudi_core.metadata_table.changes import CommitChanges, KeyPlaces, records_of
from pyhudi_core.metadata_table.first_records import ExistingTable
from pyhudi_core.metadata_table.new_metadata_table import FirstBuild
from pyhudi_core.metadata_table.reader import MetadataListing, MetadataTable
from pyhudi_core.model import java_properties
from pyhudi_core.model.instant import Action, Instant, State, time_after
from pyhudi_core.runtime.clock import RandomIds
from pyhudi_core.runtime.executors import SerialExecutor
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import TimelineFolder

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("price", pa.float64())])
GROUPS = {names.FILES: 1, names.COLUMN_STATS: 2, names.PARTITION_STATS: 1, names.RECORD_INDEX: 3}


def rows(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    columns = ([f"k{n}" for n in numbers], [f"d{n % 3}" for n in numbers], list(numbers), [n / 2 for n in numbers])
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


def existing(table: hudi.HudiTable) -> CommitChanges:
    """What is to be known of a table from the beginning, its keys included."""
    storage = table._home.storage
    found = ExistingTable(
        storage, StorageListing(storage, True), table.snapshot().view.visibility, SCHEMA, SerialExecutor()
    ).changes()
    everything = table.scan().to_arrow()
    files = pc.list_element(pc.split_pattern(everything.column("_hoodie_file_name"), "_"), 0)
    keys = KeyPlaces(
        everything.column("_hoodie_record_key").combine_chunks(),
        everything.column("_hoodie_partition_path").combine_chunks(),
        files.combine_chunks(),
        pa.array([], pa.string()),
    )
    return CommitChanges(found.stats, found.ranges, 17, found.columns, keys)


def build(table: hudi.HudiTable) -> None:
    """Build the metadata table of a table."""
    storage = table._home.storage
    folder = TimelineFolder(storage, commits.TIMELINE)
    body = java_properties.render(new_metadata_table.properties(table.name), "new")
    storage.put(f"{names.FOLDER}/.hoodie/hoodie.properties", body)
    known = existing(table)
    time = max((instant.completion_time or "" for instant in table.timeline), default="20260101010101001")
    for number, (partition, groups) in enumerate(GROUPS.items()):
        time = time_after(time)
        FirstBuild(partition, number, records_of(known, partition), groups).write(storage, folder, time)
    properties_file.apply(
        storage, {"hoodie.table.metadata.partitions": ",".join(sorted(GROUPS))}, "metadata table", lambda: True
    )


def metadata_of(table: hudi.HudiTable) -> MetadataTable:
    return MetadataTable.open(table._home.storage, table.timeline, tuple(sorted(GROUPS)))


def assert_true(table: hudi.HudiTable) -> None:
    """The metadata table agrees with the listing and with the rows."""
    metadata, stored = metadata_of(table), StorageListing(table._home.storage, True)
    listed = MetadataListing(metadata)
    assert listed.partitions() == stored.partitions()
    for partition in stored.partitions():
        there = {i.path: i.size for i in stored.files(partition) if i.path.endswith(".parquet")}
        assert {i.path: i.size for i in listed.files(partition)} == there
    everything = table.scan().to_arrow()
    keys = everything.column("_hoodie_record_key").to_pylist()
    found = metadata.record_locations([*keys, "no such key"])
    groups = [name.partition("_")[0] for name in everything.column("_hoodie_file_name").to_pylist()]
    expected = sorted(zip(keys, everything.column("_hoodie_partition_path").to_pylist(), groups, strict=True))
    assert sorted(zip(*(found.column(n).to_pylist() for n in ("key", "partition", "file_id")), strict=True)) == expected


def test_a_metadata_table_that_is_built_of_a_table_says_what_the_table_holds(location: str) -> None:
    table = hudi.create_table(location, SCHEMA, "id", "day", ordering="ts")
    table.insert(rows(0, 60))
    table.upsert(rows(40, 90))
    build(table)
    table = hudi.open_table(location)
    assert table.config.metadata_partitions == tuple(sorted(GROUPS))
    assert_true(table)
    assert table.snapshot().metadata is not None, "readers use it"
    assert table.scan(where="price > 30 AND ts < 70").to_arrow().num_rows == 9
    assert table.lookup(pa.table({"id": ["k5", "k89", "x"]})).to_arrow().num_rows == 2


def test_a_deltacommit_adds_what_a_commit_changed(location: str) -> None:
    table = hudi.create_table(location, SCHEMA, "id", "day", ordering="ts")
    table.insert(rows(0, 60))
    build(table)
    storage = table._home.storage
    unlisted = {"hoodie.table.metadata.partitions": None}
    properties_file.apply(storage, unlisted, "so that the commit leaves the metadata table", lambda: True)
    before = set(table.scan().to_arrow().column("_hoodie_record_key").to_pylist())
    table = hudi.open_table(location)
    table.upsert(rows(40, 90))
    table.delete(rows(0, 7).select(["id", "day"]))
    assert not metadata_of(table).slices.knows(table.timeline.commits), "readers must not trust it now"
    now = existing(table)
    gone = pa.array(sorted(before - set(now.keys.keys.to_pylist())))
    changes = CommitChanges(
        now.stats,
        now.ranges,
        18,
        now.columns,
        KeyPlaces(now.keys.keys, now.keys.partitions, now.keys.file_ids, gone),
    )
    assert len(gone) == 7
    folder = TimelineFolder(storage, commits.TIMELINE)
    for instant in table.timeline.commits[1:]:
        time = instant.requested_time
        stats = commits.write_logs(
            storage, RandomIds(), time, {name: records_of(changes, name) for name in GROUPS}, GROUPS
        )
        for state, end in ((State.REQUESTED, None), (State.INFLIGHT, None), (State.COMPLETED, instant.completion_time)):
            body = commits.commit_body(stats) if end else b""
            storage.put(folder.file(Instant(time, Action.DELTACOMMIT, state, end)), body)
    assert metadata_of(table).slices.knows(table.timeline.commits)
    assert_true(table)


def test_each_file_group_has_a_file_from_the_beginning(location: str) -> None:
    table = hudi.create_table(location, SCHEMA, "id", "day", ordering="ts")
    build(table)
    metadata = metadata_of(table)
    for partition, groups in GROUPS.items():
        assert len(metadata.slices.pieces(partition)) == groups
    assert metadata.data_partitions() == ()
    assert metadata.record_locations(["k1"]).num_rows == 0
