"""Compaction of the metadata table: it says the same afterwards, and commits go on keeping it true."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.disk import contents
from support.golden import unpack
from support.metadata_tables import SCHEMA, assert_metadata_is_true, build, metadata_of, rows
from support.tables import make, reopen

import pyhudi_core as hudi
from pyhudi_core.metadata_table.names import FOLDER
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.timeline.active import TimelineFolder

MANUAL = {"hoodie.metadata.compact.max.delta.commits": "1000"}
GOLDEN = (
    "hudi-1.0.2/cow_plain",
    "hudi-1.0.2/cow_archived",
    "hudi-1.0.2/mor_avro",
    "hudi-1.0.2/cow_hive_services",
    "hudi-1.2.0/mor_avro",
)


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    """A copy-on-write table with all kinds of partitions in its metadata table, and four commits since it was built."""
    made = make(location, SCHEMA, ordering="ts", options=MANUAL)
    made.upsert(rows(0, 30))
    build(made)
    made.upsert(rows(10, 40))
    made.delete(rows(3, 6).select(["id", "day"]))
    made.insert_overwrite(rows(21, 22))
    made.upsert(rows(3, 4))
    return made


def everything(table: hudi.HudiTable) -> dict[str, object]:
    """Every record of every partition."""
    metadata = metadata_of(table)
    return {partition: metadata.scan(partition) for partition in metadata.partitions}


def own_timeline(table: hudi.HudiTable) -> list[Instant]:
    return list(TimelineFolder(table._opened.storage, f"{FOLDER}/.hoodie/timeline").load())


def found_by_the_doctor(table: hudi.HudiTable) -> set[str]:
    return {str(finding.kind) for finding in table.check().findings}


@pytest.mark.row("I1", "I2", "I3", "I5")
def test_a_metadata_table_says_the_same_after_a_compaction(table: hudi.HudiTable) -> None:
    before = everything(table)
    plan = table.metadata_compaction.plan()
    assert plan
    assert plan.trigger == "8 of 1000 delta commits"
    done = table.metadata_compaction.run()
    assert done.file_groups
    assert done.log_files == plan.figures["log_files"]
    assert everything(table) == before
    assert_metadata_is_true(table)
    for partition in metadata_of(table).partitions:
        assert all(not piece.logs for piece in metadata_of(table).slices.pieces(partition))
    [compaction] = [i for i in own_timeline(table) if i.action is Action.COMMIT]
    assert done.instants == (compaction,)
    table.upsert(rows(2, 12))
    table.delete(rows(30, 33).select(["id", "day"]))
    assert_metadata_is_true(table)
    now = everything(table)
    assert table.metadata_compaction.run()
    assert everything(table) == now
    assert found_by_the_doctor(table) <= {"replaced_group_kept"}
    assert not table.metadata_compaction.run()
    assert not [path for path in contents(table.location) if "/executions/" in path or "/staged/" in path]


def test_commits_compact_the_metadata_table_when_it_is_due(location: str) -> None:
    table = make(location, SCHEMA, ordering="ts", options={"hoodie.metadata.compact.max.delta.commits": "3"})
    table.upsert(rows(0, 6))
    build(table, "files", "column_stats")
    for number in range(7):
        table.upsert(rows(number, number + 2))
        assert_metadata_is_true(table)
    actions = [str(i.action) for i in own_timeline(table)]
    assert actions.count("commit") == 3
    assert "rollback" not in actions


@pytest.mark.row("I5")
def test_a_service_that_was_opened_before_a_partition_came_compacts_it(location: str) -> None:
    table = make(location, SCHEMA, ordering="ts", options=MANUAL)
    table.upsert(rows(0, 6))
    build(table, "files")
    service = table.metadata_compaction
    build(table, "record_index")
    table.upsert(rows(3, 9))
    assert {operation.piece.partition for operation in service.plan().operations} == {"files", "record_index"}


def test_writers_go_on_while_the_metadata_table_is_compacted(table: hudi.HudiTable) -> None:
    plan = table.metadata_compaction.schedule()
    assert plan is not None
    table.upsert(rows(2, 12))
    assert_metadata_is_true(table)
    before = everything(table)
    assert "planned already" in table.metadata_compaction.plan().why_not
    assert reopen(table).metadata_compaction.execute().instants[0].requested_time == plan.requested_time
    assert everything(table) == before
    assert_metadata_is_true(table)
    assert found_by_the_doctor(table) <= {"replaced_group_kept"}


def test_nothing_is_compacted_while_a_writer_of_hudis_is_between_its_two_commits(table: hudi.HudiTable) -> None:
    done = max(i.requested_time for i in own_timeline(table))
    folder = table._opened.context().folder
    completed = next(i for i in table.timeline if i.requested_time == done)
    Path(table.location, folder.file(completed)).unlink()
    assert table.timeline.find(done).state is State.INFLIGHT  # type: ignore[union-attr]
    plan = table.metadata_compaction.plan()
    assert not plan
    assert plan.why_not == f"{done} has completed in the metadata table and is pending in the table"
    assert table.metadata_compaction.schedule() is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", GOLDEN)
def test_metadata_tables_of_hudi_are_compacted(tmp_path: Path, name: str) -> None:
    table = hudi.open_table(unpack(name, tmp_path))
    assert table.config.metadata_partitions
    before = everything(table)
    assert table.metadata_compaction.run()
    assert everything(table) == before
    scanned = table.scan().to_arrow().num_rows
    assert table.snapshot().metadata is not None
    assert scanned


def test_a_table_without_a_metadata_table_has_nothing_to_compact(location: str) -> None:
    table = make(location)
    assert table.metadata_compaction.plan().why_not == "the table has no metadata table"
    assert not table.metadata_compaction.run()
    assert not table.metadata_compaction.execute()


@pytest.mark.row("L6")
@pytest.mark.parametrize("again", [False, True])
def test_a_plan_leaves_out_an_index_that_was_dropped_after_it(table: hudi.HudiTable, again: bool) -> None:
    """Each commit would try the plan again, and nothing would be compacted any more."""
    dropped = next(name for name in table.config.metadata_partitions if name == "record_index")
    plan = table.metadata_compaction.schedule()
    assert plan is not None
    table.indexes.drop(dropped)
    if again:
        table.indexes.create(dropped)
        table.upsert(rows(0, 3))
    before = everything(table)
    done = table.metadata_compaction.run()
    assert plan.requested_time in [instant.requested_time for instant in done.instants]
    assert everything(table) == before
    assert_metadata_is_true(table)
    assert not [i for i in own_timeline(table) if i.is_pending]
    table.upsert(rows(5, 9))
    assert_metadata_is_true(table)
