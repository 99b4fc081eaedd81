"""Clustering: plans, executions by one process at a time, tables that read the same afterwards, and writers beside it."""

from __future__ import annotations

import json
import os
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from support.disk import contents
from support.homes import context_of
from support.metadata_tables import GROUPS, assert_metadata_is_true, build
from support.planned_services import all_rows, begun, expire, interrupted, requested
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.cli.main import main
from pyhudi_core.engine.local import LocalEngine
from pyhudi_core.errors import CommitAbortedError, CommitConflictError, CorruptTimelineError, InvalidOptionError
from pyhudi_core.formats.avro.container import decode_record, encode_record
from pyhudi_core.formats.base_file import BaseFileReader
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.services.clustering.clustering_execution import ClusteringRun
from pyhudi_core.services.clustering.clustering_plan import EXECUTION_CLASS, SORT_KEY, decode
from pyhudi_core.services.service import Execution
from pyhudi_core.transaction import plan_executors

NEW_FILES = {"hoodie.parquet.small.file.limit": 0}
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "price"}
ALLOW = {"hoodie.clustering.updates.strategy": "allow"}


def opened(table: hudi.HudiTable, **options: Any) -> hudi.HudiTable:
    """The table with options; ``__`` stands for a dot."""
    return hudi.open_table(table.location, options=NEW_FILES | {k.replace("__", "."): v for k, v in options.items()})


def filled(location: str, table_type: str = "COPY_ON_WRITE") -> hudi.HudiTable:
    """Two file groups in one partition, and one in another one."""
    made = opened(make(location, table_type=table_type))
    made.insert(orders(*((i, "a", float(50 - i), 1) for i in range(4))))
    made.insert(orders(*((i, "a", float(50 - i), 1) for i in range(4, 8))))
    made.insert(orders(*((i, "b", float(50 - i), 1) for i in range(8, 10))))
    return made


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    return filled(location)


def planned(table: hudi.HudiTable) -> Instant:
    found = table.clustering.schedule()
    assert found is not None
    return found


def record_of(table: hudi.HudiTable, plan: Instant) -> dict[str, Any]:
    return decode_record(requested(table, plan), "HoodieRequestedReplaceMetadata")


def work_of(table: hudi.HudiTable, plan: Instant) -> Any:
    return decode(requested(table, plan), plan.requested_time)


def values(table: hudi.HudiTable, partition: str, column: str) -> list[list[Any]]:
    """The values of a column in each base file of a partition, in the order of the rows."""
    found = []
    for piece in sorted(table.snapshot().view.slices(partition), key=lambda piece: piece.path):
        assert piece.base is not None
        with context_of(table).storage.open_input(piece.path) as source:
            batches = list(BaseFileReader(source, piece.path, [column]).iter_batches())
        found.append([value for batch in batches for value in batch.column(column).to_pylist()])
    return found


@pytest.mark.row("N5")
def test_a_plan_groups_the_small_files_of_each_partition_and_writes_nothing(table: hudi.HudiTable) -> None:
    before = contents(table.location)
    plan = table.clustering.plan()
    assert contents(table.location) == before
    assert plan
    assert [group.partition for group in plan.groups] == ["day=a"], "one file alone gains nothing without an order"
    figures = dict(plan.figures)
    assert [figures[name] for name in ("groups", "file_groups", "new_file_groups", "files")] == [1, 2, 1, 2]
    assert str(plan).startswith("Cluster 2 file groups into 1, ")
    assert plan.trigger == "3 of 4 commits since the last clustering"
    assert not plan.due
    assert table.services["clustering"].plan() == plan
    by_price = opened(table, **SORTED).clustering.plan()
    assert [group.partition for group in by_price.groups] == ["day=a", "day=b"]
    assert "sorted by price" in str(by_price)


@pytest.mark.row("C11", "N5")
def test_a_plan_on_the_timeline_is_hudis_record(table: hudi.HudiTable) -> None:
    sorting = opened(table, **SORTED)
    pieces = {piece.group: piece for piece in table.snapshot().view.all_slices()}
    instant = planned(sorting)
    assert (instant.action, instant.state) == (Action.CLUSTERING, State.REQUESTED)
    record = record_of(table, instant)
    plan = record["clusteringPlan"]
    assert (record["operationType"], record["extraMetadata"], record["version"]) == ("CLUSTER", {}, 1)
    assert plan["strategy"] == {
        "strategyClassName": EXECUTION_CLASS, "strategyParams": {SORT_KEY: "price"}, "version": 1,
    }  # fmt: skip
    assert (plan["preserveHoodieMetadata"], plan["version"], plan["extraMetadata"]) == (True, 1, {})
    assert [group["numOutputFileGroups"] for group in plan["inputGroups"]] == [1, 1]
    for group in plan["inputGroups"]:
        for piece in group["slices"]:
            known = pieces[piece["partitionPath"], piece["fileId"]]
            assert piece["dataFilePath"] == f"{table.location}/{known.path}"
            assert (piece["deltaFilePaths"], piece["bootstrapFilePath"], piece["version"]) == ([], "", 1)
    assert not os.listdir(f"{table.location}/.hoodie/.heartbeat")


@pytest.mark.one_in(2)
@pytest.mark.row("C11", "C3")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_clustering_changes_no_row_and_is_a_replacecommit(location: str, table_type: str) -> None:
    table = filled(location, table_type)
    table.upsert(orders((1, "a", 7.0, 2)))
    table.delete(pa.table({"id": [2], "day": ["a"]}))
    before, seen = all_rows(table), table.timeline.commits[-1].completion_time
    old = {piece.group for piece in table.snapshot().view.slices("day=a")}
    done = table.clustering.run(extra_metadata={"who": "me"})
    assert (done.file_groups, done.new_file_groups, done.rows) == (2, 1, 7)
    assert all_rows(table) == before
    [instant] = done.instants
    assert (instant.action, instant.state) == (Action.REPLACECOMMIT, State.COMPLETED)
    commit = table.commit_metadata(instant)
    assert (commit.operation, commit.raw["compacted"], commit.extra["who"]) == ("CLUSTER", False, "me")
    assert {("day=a", file_id) for file_id in commit.replaced["day=a"]} == old
    assert [(stat.partition, stat.rows, stat.prev_commit) for stat in commit.stats] == [("day=a", 7, "null")]
    [piece] = table.snapshot().view.slices("day=a")
    assert (piece.requested_time, piece.logs, piece.group in old) == (instant.requested_time, (), False)
    assert str(table.commit_status(done.token)) == "committed"
    assert (len(table.changes(after=seen).to_arrow()), len(table.incremental(after=seen).to_arrow())) == (0, 0)
    assert table.check().ok
    assert not os.listdir(f"{table.location}/.hoodie/.heartbeat")
    assert not [path for path in contents(table.location) if "/executions/" in path or "/staged/" in path]
    again = table.clustering.run()
    assert (bool(again), "a rewrite would change nothing" in again.why_not) == (False, True)
    table.upsert(orders((1, "a", 8.0, 3), (3, "a", 8.0, 3), (70, "a", 8.0, 3)))
    assert [row for row in rows(table, "id", "price") if row[1] == 8.0] == [(1, 8.0), (3, 8.0), (70, 8.0)]
    assert table.check().ok


@pytest.mark.row("N5")
@pytest.mark.parametrize("memory", [1 << 29, 1_024], ids=["in memory", "in runs"])
@pytest.mark.parametrize("target", [1 << 30, 5_000])
def test_rows_are_sorted_by_the_columns_within_and_across_files(location: str, target: int, memory: int) -> None:
    table = filled(location)
    table.upsert(orders((0, "a", None, 2)))
    before = all_rows(table)
    limits = {"hoodie.clustering.plan.strategy.target.file.max.bytes": target, "pyhudi.clustering.memory.bytes": memory}
    sorting = opened(table, **SORTED, **limits)
    assert sorting.clustering.run()
    files = sorted(values(table, "day=a", "price"), key=lambda found: found[-1])
    assert [value for found in files for value in found] == [None, *(float(price) for price in range(43, 50))]
    assert len(files) == (1 if target > 5_000 else 2)
    assert all_rows(table) == before
    assert not [path for path in contents(table.location) if path.endswith(".arrow")]
    assert not sorting.clustering.plan(), "all files are in the wanted order"
    assert opened(table, **{**SORTED, SORT_KEY: "id"}).clustering.plan(), "another order"


@pytest.mark.row("N5")
@pytest.mark.parametrize(("layout", "memory"), [("ZORDER", 1 << 29), ("HILBERT", 1_024)])
def test_a_curve_keeps_close_rows_together_in_all_columns(location: str, layout: str, memory: int) -> None:
    table = opened(make(location))
    points = [(x * 16 + y, x, y) for x in range(16) for y in range(16)]
    batch = orders(*((i, "a", float(y), x) for i, x, y in points))
    half = len(points) // 2
    table.insert(batch.slice(0, half))
    table.insert(batch.slice(half))
    curve = {
        "hoodie.clustering.plan.strategy.sort.columns": "ts,price",
        "hoodie.layout.optimize.strategy": layout,
        "hoodie.clustering.plan.strategy.target.file.max.bytes": 4_000,
        "pyhudi.clustering.memory.bytes": memory,
    }
    before = all_rows(table)
    done = opened(table, **curve).clustering.run()
    assert all_rows(table) == before
    assert done.new_file_groups == opened(table).clustering.plan().figures["file_groups"] or done.new_file_groups > 1
    for column in ("ts", "price"):
        spans = [max(found) - min(found) for found in values(table, "day=a", column)]
        assert min(spans) < 15, "some file holds a part of the column's values only"
    assert not opened(table, **curve).clustering.plan()


@pytest.mark.row("I5", "N5")
def test_the_metadata_table_stays_true_and_the_record_index_names_the_new_file_groups(location: str) -> None:
    table = filled(location)
    build(table)
    table = opened(table)
    assert set(GROUPS) <= set(table.config.metadata_partitions)
    before = all_rows(table)
    assert opened(table, **SORTED).clustering.run()
    assert all_rows(table) == before
    assert_metadata_is_true(table)
    table.upsert(orders((1, "a", 8.0, 3), (8, "b", 8.0, 3)))
    assert len(rows(table, "id")) == len(before), "the index found the keys"
    assert table.check(keys=True).ok


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("L2", "N6")
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_write_to_a_planned_file_group_is_refused_and_other_writes_are_not(location: str, table_type: str) -> None:
    table = opened(filled(location, table_type), **{"pyhudi.commit.retries": 0})
    plan = planned(table)
    before = contents(table.location)
    with pytest.raises(CommitConflictError, match="plans to rewrite the same file groups"):
        table.upsert(orders((1, "a", 9.0, 9)))
    with pytest.raises(CommitConflictError, match="plans to rewrite the same file groups"):
        table.delete(orders((2, "a", 0.0, 0)))
    assert contents(table.location) == before, "no file was written, and no rollback"
    table.upsert(orders((8, "b", 9.0, 9)))
    table.insert(orders((90, "a", 9.0, 9)))
    hudi.open_table(table.location).upsert(orders((91, "a", 9.0, 9)))
    assert table.clustering.execute(plan).rows == 8
    assert len(table.snapshot().view.slices("day=a")) > 1, "new keys went to other file groups than the planned ones"
    table.upsert(orders((1, "a", 9.0, 9)))
    assert [row[0] for row in rows(table, "id", "price") if row[1] == 9.0] == [1, 8, 90, 91]
    assert table.check().ok


@pytest.mark.row("L2", "N6")
@pytest.mark.parametrize("when", ["before", "during"])
def test_if_updates_are_allowed_the_clustering_is_given_up_and_its_plan_removed(
    table: hudi.HudiTable, when: str
) -> None:
    allowing = opened(table, **ALLOW)
    plan = planned(allowing)
    updates = [lambda: allowing.upsert(orders((1, "a", 9.0, 9)))]
    if when == "before":
        updates.pop()()
    transaction = begun(allowing, plan)
    how = interrupted(lambda: [update() for update in updates])
    with pytest.raises(CommitConflictError, match="changed the same file groups"):
        allowing.clustering._run_plan(transaction, work_of(table, plan), how)
    assert (1, 9.0) in rows(table, "id", "price")
    assert not [i for i in table.timeline.pending if i.action is Action.CLUSTERING]
    assert not [path for path in contents(table.location) if plan.requested_time in path and path.endswith(".parquet")]
    assert table.check().ok
    assert allowing.clustering.run(), "the next plan takes the new state"
    assert (1, 9.0) in rows(table, "id", "price")


@pytest.mark.row("N6")
def test_a_plan_that_is_cancelled_stops_no_write_any_more(table: hudi.HudiTable) -> None:
    plan = planned(table)
    assert table.clustering.cancel(plan)
    assert not table.timeline.pending.instants
    table.upsert(orders((1, "a", 9.0, 9)))
    assert not table.clustering.cancel(plan)
    assert not table.clustering.execute(plan)
    with pytest.raises(InvalidOptionError):
        table.clustering.cancel("yesterday")
    assert table.check().ok


@pytest.mark.row("N6")
def test_apache_hudi_6573_a_stuck_plan_expires_and_a_living_execution_does_not(table: hudi.HudiTable) -> None:
    plan = planned(table)
    hurried = {"pyhudi.commit.retries": 0, "hoodie.clustering.expiration.threshold.mins": 0}
    waiting = opened(table, **hurried)
    expiring = opened(table, **hurried, **{"hoodie.clustering.enable.expirations": "true"})
    executor = begun(table, plan)
    for refused in (waiting, expiring):
        with pytest.raises(CommitConflictError, match="plans to rewrite"):
            refused.upsert(orders((1, "a", 9.0, 9)))
    plan_executors.give_up(executor)
    with pytest.raises(CommitConflictError, match="plans to rewrite"):
        waiting.upsert(orders((1, "a", 9.0, 9)))
    expiring.upsert(orders((1, "a", 9.0, 9)))
    assert not table.timeline.pending.instants
    assert (1, 9.0) in rows(table, "id", "price")
    assert table.check().ok


@pytest.mark.row("N6", "U16")
def test_an_execution_whose_plan_was_cancelled_cannot_commit(table: hudi.HudiTable) -> None:
    before = all_rows(table)
    plan = planned(table)
    cancel = lambda: reopen(table).clustering.cancel(plan)  # noqa: E731
    with pytest.raises(CommitAbortedError):
        ClusteringRun(begun(table, plan), work_of(table, plan), interrupted(cancel)).run()
    assert all_rows(table) == before
    assert not table.timeline.pending.instants
    assert not [path for path in contents(table.location) if plan.requested_time in path and path.endswith(".parquet")]
    assert table.check().ok


@pytest.mark.row("L6")
def test_a_second_executor_stops_and_a_dead_one_is_followed(table: hudi.HudiTable) -> None:
    before = all_rows(table)
    plan = planned(table)
    died = begun(table, plan)
    refused = reopen(table).clustering.execute(plan)
    assert context_of(table).runtime.process.identity() in refused.why_not
    assert not reopen(table).clustering.take_over(), "its heartbeat is young"
    died.heartbeat.handle.cancel()
    expire(table, plan.requested_time)
    done = reopen(table).clustering.take_over()
    assert [i.requested_time for i in done.instants] == [plan.requested_time]
    with pytest.raises(CommitAbortedError):
        ClusteringRun(died, work_of(table, plan), Execution(LocalEngine(SerialExecutor()))).run()
    assert all_rows(table) == before
    assert table.check().ok


@pytest.mark.row("L3")
def test_planned_compactions_and_clusterings_leave_each_others_file_groups_out(location: str) -> None:
    table = filled(location, "MERGE_ON_READ")
    table.upsert(orders((1, "a", 9.0, 9), (8, "b", 9.0, 9)))
    clustering = planned(opened(table, **{"hoodie.clustering.plan.strategy.partition.selected": "day=a"}))
    assert [operation.piece.partition for operation in table.compaction.plan().operations] == ["day=b"]
    assert table.clustering.cancel(clustering)
    assert table.compaction.schedule() is not None
    assert "in pending plans" in table.clustering.plan().why_not
    assert table.compaction.execute()
    assert table.clustering.run()
    assert table.check().ok


@pytest.mark.row("N1", "N5")
def test_inline_clustering_runs_after_so_many_commits_and_schedule_inline_only_plans(table: hudi.HudiTable) -> None:
    key = "hoodie.clustering.inline.max.commits"
    opened(table, **{"hoodie.clustering.schedule.inline": "true", key: 4}).insert(orders((70, "c", 1.0, 1)))
    [plan] = table.timeline.pending
    assert plan.action is Action.CLUSTERING
    inline = opened(table, **{"hoodie.clustering.inline": "true", key: 2})
    inline.insert(orders((71, "c", 1.0, 1)))
    assert not table.timeline.pending.instants, "a plan without an executor is executed"
    clustered = [i for i in table.timeline.commits if i.action is Action.REPLACECOMMIT]
    assert [i.requested_time for i in clustered] == [plan.requested_time]
    inline.insert(orders((72, "c", 1.0, 1)))
    assert len([i for i in table.timeline.commits if i.action is Action.REPLACECOMMIT]) == 2
    assert len(table.snapshot().view.slices("day=c")) == 1
    assert table.check().ok


@pytest.mark.parametrize(("columns", "said"), [("nothing", "not a column"), ("tags", "without an order")])
def test_columns_without_an_order_are_refused_before_anything_is_written(
    location: str, columns: str, said: str
) -> None:
    table = make(location)
    table.insert(orders((1, "a", 1.0)).append_column("tags", pa.array([["x"]])))
    before = contents(table.location)
    with pytest.raises(InvalidOptionError, match=said):
        opened(table, **{SORT_KEY: columns}).clustering.run()
    assert contents(table.location) == before


@pytest.mark.parametrize(
    "piece",
    [
        {"partitionPath": "../elsewhere", "fileId": "g"},
        {"partitionPath": "day=a", "fileId": "g", "deltaFilePaths": ["/t/day=a/.other_1.log.1_0-0-0"]},
        {"partitionPath": "day=a", "fileId": "g", "dataFilePath": "nothing"},
        {"partitionPath": "day=a", "fileId": "g"},
        {"partitionPath": "day=a", "fileId": "g", "bootstrapFilePath": "x"},
    ],
)
def test_a_hostile_clustering_plan_is_refused_before_anything_is_written(
    table: hudi.HudiTable, piece: dict[str, Any]
) -> None:
    context = context_of(table)
    plan = Instant("20300101000000000", Action.CLUSTERING, State.REQUESTED)
    record = {"clusteringPlan": {"inputGroups": [{"slices": [piece], "numOutputFileGroups": 1}]}}
    body = encode_record("HoodieRequestedReplaceMetadata", record, sync_marker=bytes(16))
    context.storage.put(context.folder.file(plan), body)
    before = contents(table.location)
    with pytest.raises(CorruptTimelineError, match="cannot be executed"):
        table.clustering.execute(plan)
    assert contents(table.location) == before


def test_the_command_plans_schedules_and_executes(table: hudi.HudiTable) -> None:
    def called(*more: str) -> dict[str, Any]:
        done = CliRunner().invoke(main, ["cluster", table.location, "--json", *more])
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.output)
        return found

    assert called("--plan")["file_groups"][0]["new_file_groups"] == 1
    assert called("--due")["why_not"] == "3 of 4 commits since the last clustering"
    instant = called("--schedule")["instant"]
    assert called("--execute", "--instant", instant)["instants"] == [instant]
    assert called()["instants"] == []
    assert CliRunner().invoke(main, ["cluster", table.location, "--plan", "--execute"]).exit_code == 2
    assert "is pending" in CliRunner().invoke(main, ["cluster", table.location, "--cancel", instant]).output
    assert CliRunner().invoke(main, ["cluster", table.location, "--cancel", "yesterday"]).exit_code == 2
