"""A metadata table that we build of an existing table, and the log files that we add to it, say what is true of the table."""

from __future__ import annotations

import pyarrow as pa
from support.metadata_tables import GROUPS, SCHEMA, assert_metadata_is_true, build, existing, metadata_of, rows
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.metadata_table import file_groups, names
from pyhudi_core.metadata_table.changes import CommitChanges, KeyPlaces, records_of
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.timeline import properties_file
from pyhudi_core.timeline.active import TimelineFolder


def test_a_metadata_table_that_is_built_of_a_table_says_what_the_table_holds(location: str) -> None:
    table = create_plain(location, SCHEMA, "id", "day", ordering="ts")
    table.insert(rows(0, 60))
    table.upsert(rows(40, 90))
    build(table)
    table = hudi.open_table(location)
    assert table.config.metadata_partitions == tuple(sorted(GROUPS))
    assert_metadata_is_true(table)
    assert table.scan(where="price > 30 AND ts < 70").to_arrow().num_rows == 9
    assert table.lookup(pa.table({"id": ["k5", "k89", "x"]})).to_arrow().num_rows == 2


def test_log_files_add_what_a_commit_changed(location: str) -> None:
    """A commit that the metadata table has not makes it useless; it is true again when the commit was added."""
    table = create_plain(location, SCHEMA, "id", "day", ordering="ts")
    table.insert(rows(0, 60))
    build(table)
    storage = table._opened.storage
    listed = {"hoodie.table.metadata.partitions": ",".join(sorted(GROUPS))}
    unlisted = dict.fromkeys(listed)
    properties_file.apply(storage, unlisted, "the next commit does not see it", lambda: True)
    before = set(table.scan().to_arrow().column("_hoodie_record_key").to_pylist())
    table = hudi.open_table(location)
    table.upsert(rows(40, 90))
    table.delete(rows(0, 7).select(["id", "day"]))
    properties_file.apply(storage, listed, "now it is seen", lambda: True)
    table = hudi.open_table(location)
    assert not metadata_of(table).slices.knows(table.timeline.commits), "readers must not trust it now"
    now = existing(table)
    assert now.keys is not None
    gone = pa.array(sorted(before - set(now.keys.keys.to_pylist())))
    assert len(gone) == 7
    places = KeyPlaces(now.keys.keys, now.keys.partitions, now.keys.file_ids, gone)
    changes = CommitChanges(now.stats, now.ranges, 18, now.columns, places)
    records = {name: records_of(changes, name) for name in GROUPS}
    below = StorageBelow(storage, names.FOLDER)
    folder = TimelineFolder(below, ".hoodie/timeline")
    first, last = table.timeline.commits[1:]
    for instant, what in ((first, {}), (last, records)):
        time = instant.requested_time
        writing = file_groups.LogWriting(below, time, "0-0-0")
        stats = [
            writing.write(partition, number, 1, inside)
            for partition, changed in what.items()
            for number, inside in file_groups.split(changed, GROUPS[partition])
        ]
        for state, end in ((State.REQUESTED, None), (State.INFLIGHT, None), (State.COMPLETED, instant.completion_time)):
            body = file_groups.commit_body(stats, "V1") if end else b""
            below.put(folder.file(Instant(time, Action.DELTACOMMIT, state, end)), body)
    assert_metadata_is_true(table)


def test_each_file_group_has_a_file_from_the_beginning(location: str) -> None:
    table = create_plain(location, SCHEMA, "id", "day", ordering="ts")
    build(table)
    metadata = metadata_of(hudi.open_table(location))
    for partition, groups in GROUPS.items():
        assert len(metadata.slices.pieces(partition)) == groups
    assert metadata.data_partitions() == ()
    assert metadata.record_locations(["k1"]).num_rows == 0
