"""Cleaning and archival of the metadata table: it does not grow without bound, and says the same before and after."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from support.disk import contents
from support.metadata_tables import SCHEMA, assert_metadata_is_true, build, left_in_metadata_table, metadata_of, rows
from support.tables import make, reopen

import pyhudi_core as hudi
from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.slices import MetadataSlices
from pyhudi_core.model.instant import Action, Instant
from pyhudi_core.options import WriteOptions
from pyhudi_core.services.metadata.metadata_upkeep import options_of
from pyhudi_core.timeline.active import Timeline, TimelineFolder

SMALL = {
    "hoodie.metadata.compact.max.delta.commits": 3, "hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4,
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": 1, "hoodie.clean.automatic": "true",
}  # fmt: skip
"""Small bounds, so that few commits reach them."""
MANUAL = {"hoodie.metadata.compact.max.delta.commits": 1000, "hoodie.archive.automatic": "false"}


def own(table: hudi.HudiTable) -> Timeline:
    return TimelineFolder(table._opened.storage, f"{names.FOLDER}/.hoodie/timeline").load()


def filled(location: str, commits: int, options: dict[str, object], *partitions: str) -> hudi.HudiTable:
    table = make(location, SCHEMA, ordering="ts", options=options)
    table.upsert(rows(0, 6))
    build(table, *(partitions or (names.FILES,)))
    for number in range(commits):
        table.upsert(rows(number % 6, number % 6 + 1))
    return table


def everything(table: hudi.HudiTable) -> dict[str, object]:
    """Every record of every partition."""
    metadata = metadata_of(table)
    return {partition: metadata.scan(partition) for partition in metadata.partitions}


def slices_on_disk(table: hudi.HudiTable) -> int:
    folder = Path(table.location, names.FOLDER, names.FILES)
    return sum(1 for name in os.listdir(folder) if name.endswith(".hfile"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("automatic", ["true", "false"])
def test_the_metadata_table_is_cleaned_beside_automatic_cleans_of_the_data_table_too(automatic: str) -> None:
    table = hudi.create_table(
        f"memory://cleaned-{automatic}/t", SCHEMA, "id", options={"hoodie.clean.automatic": automatic}
    )
    for number in range(45):
        table.upsert(rows(number % 5, number % 5 + 1))
    assert len(own(table).filter(Action.CLEAN)) >= 1


def test_a_metadata_table_is_cleaned_after_every_second_compaction() -> None:
    table = hudi.create_table("memory://every-second/t", SCHEMA, "id")
    cleans: set[str] = set()
    compactions: set[str] = set()
    for number in range(60):
        table.upsert(rows(number % 5, number % 5 + 1))
        cleans |= {i.requested_time for i in own(table).completed if i.action is Action.CLEAN}
        compactions |= {i.requested_time for i in own(table).commits if i.action is Action.COMMIT}
    between = [sum(a < time < b for time in compactions) for a, b in pairwise(sorted(cleans))]
    assert (len(cleans), set(between)) == (2, {2})


@pytest.mark.row("I1", "B9")
def test_a_metadata_table_does_not_grow_with_the_number_of_commits(location: str) -> None:
    table = filled(location, 11, SMALL, names.FILES, names.RECORD_INDEX)
    before = (len(own(table)), slices_on_disk(table))
    for number in range(9):
        table.upsert(rows(number % 6, number % 6 + 1))
    after = (len(own(table)), slices_on_disk(table))
    assert after[0] <= before[0] + 4
    assert after[1] <= 4
    assert own(table).has_history
    assert not own(table).find("00000000000000000"), "the first builds are archived"
    assert_metadata_is_true(reopen(table))
    assert not left_in_metadata_table(table)
    assert table.check().ok, table.check().findings


def compacted(location: str, compactions: int, **options: object) -> hudi.HudiTable:
    """A table whose metadata table has so many compactions, with two commits before each, and has not been cleaned or archived."""
    table = filled(location, 0, {**MANUAL, **options}, names.FILES, names.RECORD_INDEX)
    for number in range(compactions):
        table.upsert(rows(number, number + 1))
        table.upsert(rows(number + 1, number + 7))
        assert table.metadata_compaction.run()
    return table


@pytest.mark.row("I1", "N8")
def test_older_slices_of_the_metadata_table_go_and_it_says_the_same(location: str) -> None:
    table = compacted(
        location, 4, **{"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": 1}
    )
    before, bases = everything(table), slices_on_disk(table)
    written = contents(location)
    plan = table.metadata_cleaning.plan()
    assert contents(location) == written
    assert plan
    assert set(plan.files) <= {names.FILES, names.RECORD_INDEX}
    done = table.metadata_cleaning.run()
    assert done.files == plan.figures["files"]
    assert slices_on_disk(table) == 2 < bases
    [clean] = [i for i in own(table) if i.action is Action.CLEAN]
    assert done.instants == (clean,)
    assert not [i for i in table.timeline if i.action is Action.CLEAN], "it is on the metadata table's own timeline"
    assert everything(table) == before
    assert_metadata_is_true(table)
    assert not table.metadata_cleaning.run()
    table.upsert(rows(0, 30))
    assert_metadata_is_true(table)
    assert table.check().ok, table.check().findings


def test_a_metadata_table_keeps_a_fifth_more_than_its_data_table_and_twenty_commits_at_least() -> None:
    few = options_of(
        WriteOptions.parse({"hoodie.clean.commits.retained": 3, "hoodie.clean.partition.filter.selected": "a"}).cleaning
    )
    assert (few.commits, few.hours, few.file_versions, few.partitions) == (20, 29, 4, "")
    assert options_of(WriteOptions.parse({"hoodie.clean.commits.retained": 31}).cleaning).commits == 38


@pytest.mark.row("B9", "I1")
def test_what_is_on_the_data_timeline_or_not_compacted_is_not_archived(location: str) -> None:
    options = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    table = compacted(location, 2, **options)
    for number in range(3):
        table.upsert(rows(number, number + 1))
    first = table.timeline.commits[0].requested_time
    assert first in table.metadata_archival.plan().why_not
    before = everything(table)
    assert table.archival.run()
    last = max(i.requested_time for i in own(table).commits if i.action is Action.COMMIT)
    assert table.metadata_archival.run()
    kept = [i.requested_time for i in own(table) if not i.is_pending]
    assert min(kept) >= min(last, table.timeline[0].requested_time)
    assert last in kept
    assert everything(table) == before
    assert_metadata_is_true(table)
    assert table.check().ok, table.check().findings


def archived(location: str) -> hudi.HudiTable:
    """A table whose metadata table has archived its first builds and a compaction."""
    table = compacted(location, 3, **{"hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2})
    assert table.archival.run()
    assert table.metadata_archival.run()
    assert own(table).find("00000000000000000") is None
    return table


@pytest.mark.row("I5")
def test_a_partition_that_comes_after_the_first_builds_were_archived_has_an_instant_of_its_own(location: str) -> None:
    table = archived(location)
    build(table, names.COLUMN_STATS)
    assert [i.requested_time for i in own(table) if i.requested_time < "1"] == ["00000000000000002"]
    assert_metadata_is_true(table)
    table.upsert(rows(0, 3))
    assert_metadata_is_true(table)
    automatic = reopen(table, hoodie__keep__min__commits=1, hoodie__keep__max__commits=2)
    automatic.upsert(rows(0, 3))
    automatic.upsert(rows(1, 3))
    assert not [i for i in own(table) if i.requested_time < "1"], "for Hudi the timeline must not begin with them"
    assert_metadata_is_true(table)


def test_only_archived_instants_count_among_those_that_are_older_than_the_timeline(location: str) -> None:
    table = archived(location)
    slices = MetadataSlices.load(table.timeline, table._opened.context().folder)
    done = [i for i in slices.history.begun_since("")[1] if i.action is Action.COMMIT]
    assert done
    assert all(slices.counts(i.requested_time) for i in done)
    assert slices.counts("00000000000000000")
    assert not slices.counts("20200101000000000"), "no instant of this time ever completed"
    assert slices.knows(table.timeline.commits)


def test_a_table_without_a_metadata_table_has_nothing_to_look_after(location: str) -> None:
    table = make(location)
    for service in (table.metadata_cleaning, table.metadata_archival):
        assert service.plan().why_not == "the table has no metadata table"
        assert not service.run()
        assert not service.take_over()
    assert table.metadata_cleaning.schedule() is None
    assert isinstance(table.timeline, Timeline)
    assert not [i for i in table.timeline if isinstance(i, Instant)]
