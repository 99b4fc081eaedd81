"""Compaction of merge-on-read tables: plans, executions by one process at a time, and tables that read the same afterwards."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.compactions import planned, slices_of, with_logs
from support.disk import contents
from support.golden import unpack
from support.homes import context_of
from support.metadata_tables import GROUPS, assert_metadata_is_true, build
from support.planned_services import all_rows, begun, interrupted
from support.tables import FAST, create_plain, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.engine.local import LocalEngine
from pyhudi_core.errors import (
    CommitConflictError,
    CorruptTimelineError,
    InvalidOptionError,
    LimitExceededError,
    UnsupportedTableError,
)
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.services.compaction.compaction_execution import CompactionRun
from pyhudi_core.services.service import Execution
from pyhudi_core.write.metadata_part import metadata_update

GOLDEN = (
    "mor_avro", "mor_bucket", "mor_cdc_data_before", "mor_commit_time_parquet_log", "mor_consistent_buckets", "mor_event_delete",
    "mor_logcompact", "mor_partial", "mor_payload_partial_update", "mor_payload_postgres", "mor_rich_types", "mor_widened",
)  # fmt: skip
LOCAL = Execution(LocalEngine(SerialExecutor()))


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    return with_logs(location)


@pytest.mark.row("C5")
def test_a_plan_names_the_slices_with_logs_and_writes_nothing(table: hudi.HudiTable) -> None:
    before = contents(table.location)
    plan = table.compaction.plan()
    assert contents(table.location) == before
    assert plan
    assert plan.figures["file_groups"] == 2
    assert plan.figures["log_files"] == 3
    assert plan.trigger == "3 of 5 delta commits"
    assert not plan.due
    assert "Compact 2 file groups with 3 log files" in str(plan)
    assert table.services["compaction"].plan() == plan


@pytest.mark.row("C5", "N1")
def test_a_plan_on_the_timeline_is_hudis_record(table: hudi.HudiTable) -> None:
    pieces = {piece.group: piece for piece in table.snapshot().view.all_slices()}
    instant = planned(table)
    context = context_of(table)
    record = decode_record(context.storage.get(context.folder.file(instant)), "HoodieCompactionPlan")
    assert {key: record[key] for key in ("version", "strategy", "preserveHoodieMetadata")} == {
        "version": 2, "strategy": None, "preserveHoodieMetadata": False,
    }  # fmt: skip
    assert len(record["operations"]) == 2
    for operation in record["operations"]:
        piece = pieces[operation["partitionPath"], operation["fileId"]]
        assert piece.base is not None
        assert operation["dataFilePath"] == str(piece.base.name)
        assert operation["baseInstantTime"] == piece.requested_time
        assert operation["deltaFilePaths"] == [str(log.name) for log in piece.logs]
        assert operation["metrics"]["TOTAL_LOG_FILES"] == len(piece.logs)
        assert operation["metrics"]["TOTAL_LOG_FILES_SIZE"] == sum(log.size for log in piece.logs)
    assert table.timeline.pending.instants == (instant,)
    assert not os.listdir(f"{table.location}/.hoodie/.heartbeat")


@pytest.mark.row("C5", "D2")
def test_a_compaction_changes_no_row_and_read_optimized_queries_show_them(table: hudi.HudiTable) -> None:
    before = all_rows(table)
    assert rows(table.scan(mode="read_optimized"), "id", "price") == [(1, 1.0), (2, 2.0), (3, 3.0)]
    done = table.compaction.run(extra_metadata={"who": "me"})
    assert (done.file_groups, done.log_files, done.rows) == (2, 3, 2)
    assert all_rows(table) == before
    assert rows(table.scan(mode="read_optimized"), "id", "price") == [(1, 1.5), (3, 3.5)]
    [instant] = [i for i in table.timeline.commits if i.action is Action.COMMIT]
    assert done.instants == (instant,)
    commit = table.commit_metadata(instant)
    assert (commit.operation, commit.raw["compacted"], commit.extra["who"]) == ("COMPACT", True, "me")
    by_partition = {stat.partition: stat for stat in commit.stats}
    first, second = by_partition["day=a"], by_partition["day=b"]
    assert (first.rows, first.updates, first.deletes, first.merged_logs, first.merged_entries) == (1, 1, 1, 2, 2)
    assert (second.rows, second.updates, second.deletes, second.merged_logs) == (1, 1, 0, 1)
    assert str(table.commit_status(done.token)) == "committed"
    assert table.check().ok
    assert not table.compaction.run()
    assert table.compaction.run().why_not == "no file group has log files"
    assert not os.listdir(f"{table.location}/.hoodie/.heartbeat")
    assert not [path for path in contents(table.location) if "/executions/" in path or "/staged/" in path]


@pytest.mark.row("C5")
@pytest.mark.parametrize("ordering", [None, "ts"])
def test_rows_that_only_logs_have_and_groups_that_become_empty(location: str, ordering: str | None) -> None:
    table = make(location, table_type="MERGE_ON_READ", ordering=ordering)
    table.upsert(orders((1, "a", 1.0, 10), (2, "b", 2.0, 10)))
    table.delete(pa.table({"id": [1, 2], "day": ["a", "b"]}))
    table.insert(orders((1, "a", 7.0, 70), (5, "a", 5.0, 5)))
    before = all_rows(table)
    assert table.compaction.run()
    assert all_rows(table) == before
    assert rows(table, "id", "price") == [(1, 7.0), (5, 5.0)]
    table.upsert(orders((1, "a", 8.0, 80), (2, "b", 2.5, 90)))
    assert rows(table, "id", "price") == [(1, 8.0), (2, 2.5), (5, 5.0)]
    assert table.check().ok


@pytest.mark.row("K6", "L4", "M3")
def test_writers_go_on_while_a_compaction_is_planned_and_runs(table: hudi.HudiTable) -> None:
    plan = planned(table)
    table.upsert(orders((1, "a", 9.0, 20)))
    write = interrupted(lambda: table.upsert(orders((3, "b", 9.5, 30))))
    done = CompactionRun(begun(table, plan), slices_of(table, plan), write).run()
    assert done.metadata.stats
    assert rows(table, "id", "price") == [(1, 9.0), (3, 9.5)]
    assert rows(table.scan(mode="read_optimized"), "id", "price") == [(1, 1.5), (3, 3.5)]
    assert [len(piece.logs) for piece in table.snapshot().view.all_slices()] == [1, 1]
    assert table.compaction.run()
    assert rows(table.scan(mode="read_optimized"), "id", "price") == [(1, 9.0), (3, 9.5)]


@pytest.mark.row("C5")
def test_groups_of_pending_plans_are_left_out(table: hudi.HudiTable) -> None:
    planned(table)
    plan = table.compaction.plan()
    assert not plan
    assert plan.why_not == "2 file groups with log files are in pending plans"
    table.insert(orders((8, "c", 8.0, 1)))
    table.upsert(orders((8, "c", 8.5, 2)))
    second = table.compaction.plan()
    assert [operation.piece.partition for operation in second.operations] == ["day=c"]
    other = planned(table)
    assert table.compaction.execute(other).file_groups == 1
    assert table.compaction.execute().file_groups == 2
    assert table.compaction.execute().why_not == "no compaction is planned"


@pytest.mark.row("L3")
def test_groups_of_a_planned_clustering_are_left_out(table: hudi.HudiTable) -> None:
    context = context_of(table)
    [piece] = table.snapshot().view.slices("day=a")
    groups = [{"slices": [{"fileId": piece.file_id, "partitionPath": "day=a"}]}]
    body = encode_record(
        "HoodieRequestedReplaceMetadata", {"clusteringPlan": {"inputGroups": groups}}, sync_marker=bytes(16)
    )
    context.storage.put(context.folder.file(Instant("20200101000000000", Action.CLUSTERING, State.REQUESTED)), body)
    assert [operation.piece.partition for operation in table.compaction.plan().operations] == ["day=b"]


@pytest.mark.row("C5")
def test_groups_that_were_replaced_meanwhile_are_left_out(table: hudi.HudiTable) -> None:
    plan = planned(table)
    overwrite = interrupted(lambda: table.insert_overwrite(orders((4, "b", 4.0, 1))))
    CompactionRun(begun(table, plan), slices_of(table, plan), overwrite).run()
    stats = table.commit_metadata(table.timeline.commits[-1]).stats
    assert [stat.partition for stat in stats] == ["day=a"]
    assert rows(table, "id", "price") == [(1, 1.5), (4, 4.0)]
    assert table.check().ok
    left = [path for path in contents(table.location) if path.endswith(".parquet") and plan.requested_time in path]
    assert [path.partition("/")[0] for path in left] == ["day=a"], "the file of the replaced group is gone"
    table.upsert(orders((1, "a", 3.0, 90), (4, "b", 4.5, 90)))
    last = planned(table)
    table.delete_partitions(["day=a", "day=b"])
    assert table.compaction.execute(last).file_groups == 0
    assert not table.timeline.pending.instants
    assert rows(table, "id") == []


@pytest.mark.row("C5")
def test_the_conflict_of_a_compaction_names_the_commit_that_replaced_the_group(table: hudi.HudiTable) -> None:
    plan = planned(table)
    run = CompactionRun(begun(table, plan), slices_of(table, plan), LOCAL)
    replaced = {
        part: table.insert_overwrite(orders((key, part, 4.0, 1))) for key, part in ((4, "b"), (1, "a"), (9, "c"))
    }
    slices = {piece.partition: piece.group for piece in run.work}
    for own in ({"day=a"}, {"day=b"}, {"day=a", "day=b"}):
        with pytest.raises(CommitConflictError) as error:
            run._guard(frozenset(slices[name] for name in own))(table.timeline)
        conflict = error.value.conflict
        assert conflict is not None
        [partition] = conflict.partitions
        assert partition in own
        assert conflict.file_groups == (slices[partition],)
        assert conflict.instant.requested_time == replaced[partition.removeprefix("day=")].instant


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", [(), ("files", "column_stats"), tuple(GROUPS)], ids=["made", "extended", "rebuilt"])
def test_a_metadata_table_that_comes_during_a_compaction_is_written_by_it(
    table: hudi.HudiTable, first: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if first:
        build(table, *first)
    stage, rounds = metadata_update.stage, []

    def beside(*arguments: Any) -> Any:
        rounds.append(1)
        staged = stage(*arguments)
        if len(rounds) == 1:
            reopen(table).metadata_table.rebuild() if len(first) == len(GROUPS) else build(table)
        return staged

    monkeypatch.setattr("pyhudi_core.services.compaction.compaction_execution.metadata_update.stage", beside)
    before = all_rows(table)
    assert table.compaction.run()
    assert len(rounds) == 2, "only the commit was made again, not the files"
    assert all_rows(table) == before
    assert_metadata_is_true(table)


@pytest.mark.row("I1")
def test_the_first_inline_compaction_writes_the_metadata_table_that_its_commit_made(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
    make(location, table_type="MERGE_ON_READ", ordering="ts").upsert(orders((1, "a", 1.0, 1)))
    table = hudi.open_table(location, storage_options=FAST, options={**options, "hoodie.metadata.enable": "true"})
    table.upsert(orders((1, "a", 2.0, 2)))
    assert [str(i.action) for i in table.timeline.commits] == ["deltacommit", "deltacommit", "commit"]
    assert not caplog.records
    assert_metadata_is_true(table)


@pytest.mark.row("N1", "N2")
def test_inline_compaction_runs_when_the_trigger_says_so(location: str) -> None:
    options = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
    table = make(location, table_type="MERGE_ON_READ", ordering="ts", options=options)
    for number in range(1, 6):
        table.upsert(orders((1, "a", float(number), number)))
    actions = [str(i.action) for i in table.timeline.commits]
    assert actions == ["deltacommit"] * 3 + ["commit"] + ["deltacommit"] * 2
    assert rows(table, "id", "price") == [(1, 5.0)]
    plain = hudi.open_table(location, storage_options=FAST)
    assert planned(plain)
    table.upsert(orders((1, "a", 6.0, 6)))
    assert not table.timeline.pending.instants, "a plan that nobody executes goes first"
    assert not table.compaction.plan(triggered=True)
    assert table.compaction.plan(triggered=True).why_not == "1 of 3 delta commits"


def test_a_copy_on_write_table_has_nothing_to_compact(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    assert "copy-on-write" in table.compaction.plan().why_not
    assert table.compaction.schedule() is None
    assert not table.compaction.run()


@pytest.mark.one_in(4)
@pytest.mark.row("C5")
@pytest.mark.parametrize("name", GOLDEN)
def test_tables_of_hudi_are_compacted(tmp_path: Path, name: str) -> None:
    table = hudi.open_table(unpack(f"hudi-1.0.2/{name}", tmp_path))
    before = all_rows(table)
    plan = table.compaction.plan()
    assert plan
    done = table.compaction.run()
    assert done.log_files == plan.figures["log_files"]
    assert all_rows(table) == before
    assert all(not piece.logs for piece in table.snapshot().view.all_slices())


def test_a_metadata_table_that_cannot_be_kept_true_is_not_removed_by_a_compaction(tmp_path: Path) -> None:
    table = hudi.open_table(unpack("hudi-1.0.2/mor_indexed", tmp_path))
    before = contents(table.location)
    assert "set pyhudi.expression.index.timezone=UTC" in table.compaction.plan().why_not
    with pytest.raises(UnsupportedTableError, match=r"set pyhudi\.expression\.index\.timezone=UTC"):
        table.compaction.run()
    assert contents(table.location) == before
    rows_before = all_rows(table)
    allowed = reopen(table, pyhudi__metadata__remove_unkept="true")
    assert allowed.compaction.run()
    assert all_rows(table) == rows_before
    assert not table.config.metadata_partitions


@pytest.mark.parametrize(
    "operation",
    [
        {"partitionPath": "../elsewhere", "fileId": "g"},
        {"partitionPath": "day=a", "fileId": "g", "deltaFilePaths": [".other_1.log.1_0-0-0"]},
        {"partitionPath": "day=a", "fileId": "g", "dataFilePath": "nothing"},
        {"partitionPath": "day=a", "fileId": "g"},
        {"partitionPath": "day=a", "fileId": "g", "bootstrapFilePath": "x"},
    ],
)
def test_a_hostile_plan_is_refused_before_anything_is_written(table: hudi.HudiTable, operation: dict[str, Any]) -> None:
    context = context_of(table)
    plan = Instant("20300101000000000", Action.COMPACTION, State.REQUESTED)
    body = encode_record("HoodieCompactionPlan", {"operations": [operation], "version": 2}, sync_marker=bytes(16))
    context.storage.put(context.folder.file(plan), body)
    before = contents(table.location)
    with pytest.raises(CorruptTimelineError, match="cannot be executed"):
        table.compaction.execute(plan)
    assert contents(table.location) == before


@pytest.mark.parametrize("key", ["schema", "pyhudi.commit_token"])
def test_extra_metadata_of_its_own_is_refused(table: hudi.HudiTable, key: str) -> None:
    planned(table)
    with pytest.raises(InvalidOptionError, match="extra_metadata"):
        table.compaction.execute(extra_metadata={key: "x"})
    assert json.dumps(table.compaction.plan().figures)


@pytest.mark.row("C5")
def test_a_key_with_more_entries_than_the_memory_stops_a_compaction_and_is_still_read(location: str) -> None:
    """Its entries are merged together, and no part of the keys is smaller than one key."""
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    options = {"hoodie.memory.merge.max.size": 1 << 20, "hoodie.compact.inline.max.delta.commits": 1}
    table = create_plain(location, schema, "id", table_type="mor", options=options)
    for letter in "abcd":
        table.upsert(pa.table({"id": [1], "text": [letter * 700_000]}, schema=schema))
    with pytest.raises(LimitExceededError, match="for a few keys") as raised:
        table.compaction.run()
    assert raised.value.limit == 1 << 20
    assert [row["text"][0] for row in table.scan().to_arrow().to_pylist()] == ["d"]
    assert reopen(table, hoodie__memory__merge__max__size=1 << 30).compaction.run()
    assert [row["text"][0] for row in table.scan().to_arrow().to_pylist()] == ["d"]
