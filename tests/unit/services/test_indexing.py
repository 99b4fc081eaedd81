"""Indexing builds partitions of the metadata table beside writers; readers see a partition when it is complete and true, and never before."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.indexing import SMALL, beside, made
from support.metadata_tables import SCHEMA, assert_metadata_is_true, left_in_metadata_table, rows
from support.tables import create_plain

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    CorruptHFileError,
    CorruptTimelineError,
    DuplicateKeyError,
    InvalidOptionError,
)
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.properties import TableConfig
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.indexing import indexing_execution
from pyhudi_core.services.indexing.indexing_plan import decode
from pyhudi_core.transaction import companion, metadata_removal
from pyhudi_core.write import attempt

INDEXES = ["record_index", "column_stats", "bloom_filters", "partition_stats"]
ALL = ("bloom_filters", "column_stats", "files", "partition_stats", "record_index")


def as_a_program_that_does_not_know(monkeypatch: pytest.MonkeyPatch, write: Callable[[], object]) -> None:
    """A commit of a program that began before the partitions were listed as being built, as a Hudi writer may: it writes to those that are listed."""
    with monkeypatch.context() as there:
        there.setattr(TableConfig, "written_metadata_partitions", property(lambda config: config.metadata_partitions))
        there.setattr(metadata_removal, "notes_of", lambda *_: {})
        there.setattr(companion, "TOKEN_KEY", "another.token")
        there.setattr(attempt, "TOKEN_KEY", "another.token")
        write()


@pytest.mark.row("I14", "N10")
@pytest.mark.parametrize("kind", ["cow", pytest.param("mor", marks=pytest.mark.slow)])
def test_indexes_are_planned_built_and_true(kind: str) -> None:
    table = made(kind)
    plan = table.indexing.plan(INDEXES)
    assert str(plan).startswith("Build record_index, column_stats, bloom_filters, partition_stats up to ")
    scheduled = table.indexing.schedule(INDEXES)
    assert scheduled is not None
    assert table.config.metadata_partitions == ("files",)
    assert not table.indexing.schedule(INDEXES), "it is planned already"
    done = table.indexing.execute()
    assert (done.partitions, done.names) == (4, tuple(INDEXES))
    assert table.config.metadata_partitions == ALL
    assert not table.config.metadata_partitions_inflight
    assert not table.indexing.plan(INDEXES)
    for _ in range(2):
        assert table.check().ok, table.check().findings
        if kind == "cow":
            assert_metadata_is_true(table)
        assert not left_in_metadata_table(table)
        table.upsert(rows(35, 50))
        table.delete(rows(0, 3).select(["id", "day"]))


@pytest.mark.row("C7")
def test_plan_and_completed_instant_are_those_of_release_1_0() -> None:
    table = made()
    newest = table.timeline.commits.instants[-1].requested_time
    plan = table.indexing.schedule(["record_index", "bloom_filters"])
    assert plan is not None
    folder, storage = table._opened.context().folder, table._opened.storage
    info = [
        {"version": 1, "metadataPartitionPath": name, "indexUptoInstant": newest, "extraMetadata": {}}
        for name in ("record_index", "bloom_filters")
    ]
    data = storage.get(folder.file(plan))
    assert decode_record(data, "HoodieIndexPlan", path="") == {"version": 1, "indexPartitionInfos": info}
    assert decode(data, "").partitions == ("record_index", "bloom_filters")
    [completed] = table.indexing.execute().instants
    assert folder.file(completed).endswith(f"{plan.requested_time}_{completed.completion_time}.indexing")
    assert storage.get(folder.file(Instant(plan.requested_time, Action.INDEXING, State.INFLIGHT))) == b""
    done = decode_record(storage.get(folder.file(completed)), "HoodieIndexCommitMetadata", path="")
    assert done == {"version": 1, "operationType": None, "indexPartitionInfos": info}


@pytest.mark.slow
def test_a_table_without_a_metadata_table_gets_its_files_first() -> None:
    table = create_plain(f"memory://{uuid.uuid4().hex}/t", SCHEMA, "id", "day", ordering="ts", options=SMALL)
    assert "no commit yet" in table.indexing.plan(["record_index"]).why_not
    table.insert(rows(0, 9))
    assert "no partitions were named" in table.indexing.run().why_not
    assert table.indexing.run(partitions=["record_index"])
    assert table.config.metadata_partitions == ("files", "record_index")
    assert_metadata_is_true(table)


@pytest.mark.row("I14", "L5")
@pytest.mark.parametrize("kind", ["cow", pytest.param("mor", marks=pytest.mark.slow)])
def test_what_is_written_while_indexes_are_built_is_in_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(kind)

    def write() -> None:
        assert set(table.config.metadata_partitions_inflight) == set(INDEXES)
        table.upsert(rows(35, 50))
        table.delete(rows(0, 3).select(["id", "day"]))
        table.insert_overwrite(rows(60, 61))

    beside(monkeypatch, write)
    assert table.indexing.run(partitions=INDEXES)
    assert table.config.metadata_partitions == ALL
    assert table.check().ok, table.check().findings
    if kind == "cow":
        assert_metadata_is_true(table)


@pytest.mark.row("L5")
def test_a_write_that_began_before_the_build_is_planned_again_and_is_in_the_index() -> None:
    table = made()
    with table.begin("upsert") as write:
        write.write(rows(35, 50))
        table.indexing.run(partitions=INDEXES)
        with pytest.raises(CommitConflictError) as conflict:
            write.commit()
        write.again(conflict.value)
        write.commit()
    assert_metadata_is_true(table)


@pytest.mark.row("L5")
def test_a_commit_that_added_no_entries_ends_the_build_gracefully(monkeypatch: pytest.MonkeyPatch) -> None:
    """The specification's graceful abort. Nothing of the build is listed, writers go on, and the next run succeeds."""
    table = made(**{"pyhudi.commit.retries": 0})
    plan = table.indexing.schedule(INDEXES)
    write = lambda: table.upsert(rows(35, 50))  # noqa: E731
    beside(monkeypatch, lambda: as_a_program_that_does_not_know(monkeypatch, write))
    with pytest.raises(CommitConflictError, match="of another program added nothing to record_index, column_stats"):
        table.indexing.execute()
    assert table.config.metadata_partitions == ("files",)
    assert not table.config.metadata_partitions_inflight
    assert_metadata_is_true(table)
    assert not [path for path in paths(table) if "/metadata/record_index" in path]
    assert [instant.requested_time for instant in table.timeline.pending] == [plan.requested_time]  # type: ignore[union-attr]
    table.upsert(rows(48, 55))
    assert table.indexing.run(partitions=INDEXES)
    assert table.config.metadata_partitions == ALL
    assert_metadata_is_true(table)


@pytest.mark.slow
def test_a_run_begins_again_after_a_commit_that_added_no_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made()
    write = lambda: table.upsert(rows(35, 50))  # noqa: E731
    beside(monkeypatch, lambda: as_a_program_that_does_not_know(monkeypatch, write))
    assert table.indexing.run(partitions=INDEXES)
    assert_metadata_is_true(table)
    assert not left_in_metadata_table(table)


@pytest.mark.row("I3")
@pytest.mark.parametrize("during", [False, True], ids=["before", "while it is built"])
def test_no_record_index_is_listed_of_a_table_with_a_key_in_two_partitions(
    during: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the base files are there, a writer cannot see in the index that a key is in another partition. So it is looked up afterwards."""
    table = made()
    write = lambda: table.upsert(rows(5, 6).set_column(1, "day", pa.array(["elsewhere"])))  # noqa: E731
    if during:
        beside(monkeypatch, write)
    else:
        write()
    with pytest.raises(DuplicateKeyError, match="'k5'"):
        table.indexing.run(partitions=["record_index"])
    assert table.config.metadata_partitions == ("files",)
    assert not table.timeline.pending.instants, "the plan would hold cleaning and archival back for ever"
    assert not table.config.metadata_partitions_inflight
    assert_metadata_is_true(table)
    table.delete(pa.table({"id": ["k5"], "day": ["elsewhere"]}))
    assert table.indexing.run(partitions=["record_index"])
    assert_metadata_is_true(table)


def test_a_key_that_is_deleted_and_comes_back_elsewhere_meanwhile_is_in_the_index_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = made()

    def move() -> None:
        table.delete(rows(5, 6).select(["id", "day"]))
        table.upsert(rows(5, 6).set_column(1, "day", pa.array(["elsewhere"])))

    beside(monkeypatch, move)
    assert table.indexing.run(partitions=["record_index"])
    assert_metadata_is_true(table)


def test_a_plan_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made()
    plan = table.indexing.schedule(["record_index"])
    assert plan is not None
    assert table.indexing.cancel(plan)
    assert not table.indexing.cancel(plan)
    assert not table.timeline.pending.instants
    assert "/.heartbeat/" not in " ".join(paths(table))

    def refused() -> None:
        [running] = [instant for instant in table.timeline.pending if instant.action is Action.INDEXING]
        with pytest.raises(CommitAbortedError, match="executes the indexing"):
            table.indexing.cancel(running)

    beside(monkeypatch, refused)
    assert table.indexing.run(partitions=["record_index"])


def test_an_index_that_is_dropped_while_it_is_built_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(**{"pyhudi.commit.retries": 0})
    beside(monkeypatch, table.metadata_table.drop)
    with pytest.raises(CommitConflictError, match="dropped"):
        table.indexing.run(partitions=["record_index"])
    assert not table.config.metadata_partitions
    table.upsert(rows(1, 3))
    assert table.indexing.run(partitions=["record_index"])
    assert_metadata_is_true(table)


@pytest.mark.parametrize("kept", [False, True], ids=["dropped", "damaged"])
def test_a_metadata_table_that_goes_while_the_build_begins_is_a_conflict_and_no_damage(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process rebuilds it after the executor has seen that it is there."""
    table = made(**{"pyhudi.commit.retries": 0})
    load = indexing_execution.load

    def dropped_after(context: TableContext, *given: Any) -> Any:
        monkeypatch.setattr(indexing_execution, "load", load)
        found = load(context, *given)
        if kept:
            for info in context.storage.list(".hoodie/metadata/files/"):
                context.storage.delete(info.path)
        else:
            table.metadata_table.drop()
        return found

    monkeypatch.setattr(indexing_execution, "load", dropped_after)
    with pytest.raises(CorruptHFileError if kept else CommitConflictError, match="listed" if kept else "dropped"):
        table.indexing.run(partitions=["record_index"])
    assert not table.config.metadata_partitions_inflight
    if not kept:
        assert table.indexing.run(partitions=["record_index"])
        assert_metadata_is_true(table)


def test_what_this_release_does_not_build_is_refused_before_anything_is_written() -> None:
    table = made()
    before = paths(table)
    with pytest.raises(InvalidOptionError, match="secondary_index_x"):
        table.indexing.schedule(["secondary_index_x"])
    assert paths(table) == before


def test_a_damaged_plan_is_no_plan() -> None:
    for name in ("", "../files", "a/b", None):
        info = {"version": 1, "metadataPartitionPath": name, "indexUptoInstant": None, "extraMetadata": None}
        with pytest.raises(CorruptTimelineError):
            decode(
                encode_record("HoodieIndexPlan", {"version": 1, "indexPartitionInfos": [info]}, sync_marker=bytes(16)),
                "x.requested",
            )
    with pytest.raises(CorruptTimelineError):
        decode(b"", "x.requested")


@pytest.mark.slow
def test_a_planned_indexing_holds_cleaning_back_but_not_writers() -> None:
    table = made(**{"hoodie.clean.commits.retained": 1})
    table.indexing.schedule(["record_index"])
    for first in range(4):
        table.upsert(rows(first, 9))
    assert not table.cleaning.plan().files
    table.indexing.execute()
    assert table.cleaning.plan().files
    table.cleaning.run()
    assert_metadata_is_true(table)


@pytest.mark.slow
def test_an_indexing_that_is_executed_holds_archival_back_and_a_planned_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It compares itself at its end with all commits since it began."""
    small = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.metadata.compact.max.delta.commits": 2}
    table = made(**small)
    plan = table.indexing.schedule(["record_index"])
    assert plan is not None
    for first in range(5):
        table.upsert(rows(first, 9))
    assert min(instant.requested_time for instant in table.timeline.commits) > plan.requested_time
    before = table.timeline.commits.instants

    def write() -> None:
        for first in range(5):
            table.upsert(rows(first, 9))
        assert {*before} <= {*table.timeline.commits}

    beside(monkeypatch, write)
    assert table.indexing.execute()
    assert_metadata_is_true(table)


def test_leftovers_of_slow_writers_are_no_part_of_the_next_build(location: str) -> None:
    """A log file that a writer wrote after the partition was given up would be read as a part of the new one."""
    table = made(location=location)
    assert table.indexing.run(partitions=["record_index"])
    [log] = [path for path in paths(table) if "/.record-index-0000-0_0" in path]
    table.metadata_table.drop()
    table.metadata_table.create(["files"])
    late = Path(location, log.replace("record-index-0000", "record-index-0007"))
    late.parent.mkdir()
    late.write_bytes(b"")
    assert table.indexing.run(partitions=["record_index"])
    assert not late.exists()
    assert_metadata_is_true(table)


def paths(table: hudi.HudiTable) -> list[str]:
    return sorted(info.path for info in table._opened.storage.list(""))
