"""Executions of compactions: by one process at a time, and taken over from processes that died."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.compactions import planned, slices_of, with_logs
from support.disk import contents, data_files
from support.homes import context_of
from support.planned_services import all_rows, begun, expire, interrupted
from support.tables import orders, reopen

import pyhudi_core as hudi
from pyhudi_core.engine.local import LocalEngine
from pyhudi_core.errors import CommitAbortedError, CommitConflictError
from pyhudi_core.model.instant import Action, Instant, State, time_after
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.services import plan_run
from pyhudi_core.services.compaction.compaction import Compaction
from pyhudi_core.services.compaction.compaction_execution import CompactionRun
from pyhudi_core.services.service import Execution
from pyhudi_core.transaction import heartbeat, plan_executors, rollback
from pyhudi_core.transaction.begin import Transaction

LOCAL = Execution(LocalEngine(SerialExecutor()))


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    return with_logs(location)


@pytest.mark.row("L6")
def test_a_second_executor_stops_at_once_and_says_who_executes_the_plan(table: hudi.HudiTable) -> None:
    plan = planned(table)
    first = begun(table, plan)
    before = contents(table.location)
    refused = reopen(table).compaction.execute(plan)
    assert not refused
    assert context_of(table).runtime.process.identity() in refused.why_not
    assert plan.requested_time in refused.why_not
    assert reopen(table).compaction.execute().why_not == "other processes execute the 1 planned compactions"
    assert not reopen(table).compaction.take_over()
    assert contents(table.location) == before
    assert CompactionRun(first, slices_of(table, plan), LOCAL).run().metadata.stats
    assert "not pending" in reopen(table).compaction.execute(plan).why_not


@pytest.mark.row("L6")
@pytest.mark.parametrize("step", ["take_over", "execute"])
def test_a_compaction_whose_process_died_is_executed_by_another_one(table: hudi.HudiTable, step: str) -> None:
    before = all_rows(table)
    plan = planned(table)
    died = begun(table, plan)

    def die() -> None:
        died.heartbeat.handle.cancel()
        raise KeyboardInterrupt

    dead = CompactionRun(died, slices_of(table, plan), interrupted(die))
    give_up, plan_executors.give_up = plan_executors.give_up, lambda _: None  # a dead process removes nothing
    try:
        with pytest.raises(KeyboardInterrupt):
            dead.run()
    finally:
        plan_executors.give_up = give_up
    assert (
        len([path for path in contents(table.location) if path.endswith(".parquet") and plan.requested_time in path])
        == 2
    )
    assert not table.compaction.take_over(), "its heartbeat is young"
    expire(table, plan.requested_time)
    done = getattr(table.compaction, step)()
    assert [i.requested_time for i in done.instants] == [plan.requested_time]
    assert all_rows(table) == before
    named = {stat.path for stat in table.commit_metadata(done.instants[0]).stats}
    left = {path for path in contents(table.location) if path.endswith(".parquet") and plan.requested_time in path}
    assert left == named, "the files of the dead process are gone"
    assert table.check().ok


@pytest.mark.row("U16")
def test_apache_hudi_18012_a_zombie_executor_cannot_complete_what_another_finished(table: hudi.HudiTable) -> None:
    before = all_rows(table)
    plan = planned(table)
    zombie = begun(table, plan)
    others: list[Any] = []

    def sleep() -> None:
        expire(table, plan.requested_time)
        others.append(reopen(table).compaction.execute(plan))

    with pytest.raises(CommitAbortedError, match="compaction is not planned any more"):
        CompactionRun(zombie, slices_of(table, plan), interrupted(sleep)).run()
    assert others[0].file_groups == 2
    assert len([i for i in table.timeline.commits if i.action is Action.COMMIT]) == 1
    assert str(table.commit_status(zombie.token)) == "not_committed"
    assert all_rows(table) == before
    named = {stat.path for stat in table.commit_metadata(others[0].instants[0]).stats}
    left = {path for path in contents(table.location) if path.endswith(".parquet") and plan.requested_time in path}
    assert left == named, "the zombie removed its own files, and no other"
    assert table.check().ok


@pytest.mark.row("U16")
def test_two_executors_that_take_each_other_for_dead_leave_one_result(table: hudi.HudiTable) -> None:
    """The older one wakes up while the newer one has written its files and not committed."""
    before = all_rows(table)
    plan = planned(table)
    zombie = begun(table, plan)
    pieces = slices_of(table, plan)

    def wake_the_zombie() -> None:
        with pytest.raises(CommitAbortedError, match="took over"):
            CompactionRun(zombie, pieces, LOCAL).run()

    zombie.heartbeat.handle.cancel()
    expire(table, plan.requested_time)
    CompactionRun(begun(table, plan), pieces, interrupted(wake_the_zombie)).run()
    assert all_rows(table) == before
    assert table.check().ok


@pytest.mark.row("U16")
def test_an_executor_that_sleeps_after_it_registered_removes_no_file_of_its_successor(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three follows a dead one, so it removes what that left; it sleeps before it does."""
    before = all_rows(table)
    plan = planned(table)
    first = begun(table, plan)
    first.heartbeat.handle.cancel()
    expire(table, plan.requested_time)
    start = heartbeat.start
    third: list[tuple[CompactionRun, Any]] = []

    def sleep(*given: Any) -> Any:
        monkeypatch.undo()
        expire(table, plan.requested_time)
        run = CompactionRun(begun(table, plan), slices_of(table, plan), LOCAL)
        run.snapshot = run.current = run._fit(run.transaction.context)
        third.append((run, run._write()))
        return start(*given)

    monkeypatch.setattr(heartbeat, "start", sleep)
    second = begun(table, plan)
    ((run, written),) = third
    stats = run._commit(written).metadata.stats
    assert stats
    assert not [stat.path for stat in stats if not Path(table.location, stat.path).exists()]
    with pytest.raises(CommitAbortedError):
        CompactionRun(second, slices_of(table, plan), LOCAL).run()
    assert all_rows(table) == before
    assert table.check().ok


def test_files_that_another_program_removed_are_not_committed(table: hudi.HudiTable) -> None:
    """Hudi's inline compaction begins a pending plan anew: it removes the files that it finds, although another process executes the plan."""
    before = all_rows(table)
    plan = planned(table)

    def removed_by_hudi() -> None:
        for path in data_files(table.location):
            if plan.requested_time in path:
                Path(table.location, path).unlink()

    with pytest.raises(CommitAbortedError, match="removed files"):
        CompactionRun(begun(table, plan), slices_of(table, plan), interrupted(removed_by_hudi)).run()
    assert all_rows(table) == before
    assert table.compaction.execute(plan)
    assert all_rows(table) == before
    assert table.check().ok


@pytest.mark.row("N1")
def test_a_gate_that_refuses_leaves_the_plan_to_others(table: hudi.HudiTable) -> None:
    plan = planned(table)
    with pytest.raises(CommitAbortedError, match="gate refused"):
        table.compaction.execute(plan, gate=lambda: False)
    assert not [path for path in contents(table.location) if path.endswith(".parquet") and plan.requested_time in path]
    assert reopen(table).compaction.execute(plan)


def test_a_hudi_execution_is_followed_only_by_name_and_when_it_is_old(table: hudi.HudiTable) -> None:
    plan = planned(table)
    context = context_of(table)
    inflight = context.folder.file(Instant(plan.requested_time, Action.COMPACTION, State.INFLIGHT))
    context.storage.put(inflight, b"")
    for again in (table.compaction.execute(), table.compaction.execute(plan), table.compaction.take_over()):
        assert not again
    assert "does not register (Hudi)" in table.compaction.execute(plan).why_not
    os.utime(Path(table.location, inflight), (1, 1))
    assert not table.compaction.execute()
    assert table.compaction.execute(plan)


def test_a_plan_that_a_writer_overtakes_is_not_put_on_the_timeline(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that was being published while the time was reserved: its logs would be neither in the plan nor in the slice after it."""
    slow = table.begin("upsert")
    slow.__enter__()
    slow.write(orders((1, "a", 5.0, 50)))

    def overtaken(self: Any, seen: Any, start: Any) -> bool:
        commit = slow.commit()
        folder = Path(table.location, ".hoodie/timeline")
        # The time was chosen before that of the plan was reserved.
        name = f"{commit.instant}_{time_after(commit.instant)}.deltacommit"
        (folder / f"{commit.instant}_{commit.completion_time}.deltacommit").rename(folder / name)
        monkeypatch.undo()
        assert seen.instants == start.instants
        return True

    monkeypatch.setattr(Compaction, "_is_current", overtaken)
    with pytest.raises(CommitConflictError, match="changed the same file groups"):
        table.compaction.schedule()
    assert not table.timeline.pending.instants
    assert not os.listdir(f"{table.location}/.hoodie/.heartbeat")
    assert table.compaction.schedule() is not None


def test_a_run_that_loses_its_commit_executes_its_own_plan_again(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan stays on the timeline and keeps the groups, so a second plan would be empty."""
    commit, lost = CompactionRun._commit, [CommitConflictError("another commit came first", table=table.location)]

    def lose_once(run: CompactionRun, written: Any) -> Any:
        if lost:
            raise lost.pop()
        return commit(run, written)

    monkeypatch.setattr(CompactionRun, "_commit", lose_once)
    before = all_rows(table)
    done = table.compaction.run()
    assert not lost
    assert len(done.instants) == 1, done.why_not
    assert not table.timeline.pending.instants
    assert all_rows(table) == before


def test_an_executor_that_registers_while_the_dead_planner_is_swept_keeps_its_registration(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(table)
    context = context_of(table)
    beat = Path(table.location, ".hoodie/.heartbeat", plan.requested_time)
    beat.touch()  # as the process left it that planned, and died
    expire(table, plan.requested_time)
    executors: list[Transaction] = []
    is_dead = rollback._is_dead

    def register_then(where: Any, instant: Instant) -> bool:
        found = is_dead(where, instant)
        if found and instant.requested_time == plan.requested_time:
            executors.append(begun(table, plan))
        return found

    monkeypatch.setattr(rollback, "_is_dead", register_then)
    rollback.repair(context)
    assert len(executors) == 1
    plan_executors.refuse_overtaken(executors[0])
    assert beat.exists()
    assert CompactionRun(executors[0], slices_of(table, plan), LOCAL).run().metadata.stats


def test_an_execution_that_loses_many_commits_writes_its_files_once(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = reopen(with_logs(location), pyhudi__commit__retries=2)
    before = data_files(location)
    rounds = []
    written = []
    write = CompactionRun._write

    def lost(*_: object) -> object:
        rounds.append(1)
        raise CommitConflictError("Another commit came first")

    def writing(run: CompactionRun) -> object:
        written.append(1)
        return write(run)

    monkeypatch.setattr(plan_run, "publish", lost)
    monkeypatch.setattr(CompactionRun, "_write", writing)
    with pytest.raises(CommitConflictError, match="came first"):
        table.compaction.run()
    assert (len(written), len(rounds)) == (1, 3), "the first attempt and two retries, with the same files"
    assert data_files(location) == before
    monkeypatch.undo()
    assert table.compaction.run(), "the plan stays for the next call"
