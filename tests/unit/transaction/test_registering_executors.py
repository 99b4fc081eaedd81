"""Processes that register for one plan at one time: one executes it, and neither what it wrote nor what keeps it alive is taken away."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.compactions import planned, slices_of, with_logs
from support.disk import contents
from support.homes import context_of
from support.planned_services import all_rows, begun, expire, interrupted
from support.tables import orders, reopen

import pyhudi_core as hudi
from pyhudi_core.engine.local import LocalEngine
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.services.compaction.compaction_execution import CompactionRun
from pyhudi_core.services.service import Execution
from pyhudi_core.transaction import commit, heartbeat, layout, plan_executors
from pyhudi_core.transaction.begin import Transaction


@pytest.fixture
def table(location: str) -> hudi.HudiTable:
    return with_logs(location)


def _before_its_decision(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen once, after the next process has looked at its plan and before it asks for the lock."""
    stage = plan_executors._Registering.stage

    def late(registering: plan_executors._Registering) -> None:
        stage(registering)
        monkeypatch.setattr(plan_executors._Registering, "stage", stage)
        happens()

    monkeypatch.setattr(plan_executors._Registering, "stage", late)


def _bases(table: hudi.HudiTable, plan: Instant) -> list[str]:
    return [path for path in contents(table.location) if path.endswith(".parquet") and plan.requested_time in path]


def test_of_two_processes_that_found_a_plan_free_the_second_is_refused(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(table)
    first: list[Transaction] = []
    _before_its_decision(monkeypatch, lambda: first.append(begun(reopen(table), plan)))
    refused = plan_executors.begin_execution(context_of(table), plan)
    assert isinstance(refused, plan_executors.Refusal)
    assert "executes the compaction" in refused.why_not
    executor = plan_executors.newest_executor(context_of(table), plan.requested_time)
    assert executor is not None
    assert (executor.number, executor.nonce) == (1, first[0].nonce)


def test_what_a_process_left_that_began_and_died_after_the_look_is_removed(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = all_rows(table)
    plan = planned(table)

    def begin_and_die() -> None:
        died = begun(reopen(table), plan)

        def die() -> None:
            died.heartbeat.handle.cancel()
            raise KeyboardInterrupt

        with monkeypatch.context() as there:
            there.setattr(plan_executors, "give_up", lambda _: None)  # a dead process removes nothing
            with pytest.raises(KeyboardInterrupt):
                CompactionRun(died, slices_of(table, plan), interrupted(die)).run()
        expire(table, plan.requested_time)
        assert len(_bases(table, plan)) == 2

    _before_its_decision(monkeypatch, begin_and_die)
    second = begun(table, plan)
    assert _bases(table, plan) == []
    CompactionRun(second, slices_of(table, plan), Execution(LocalEngine(SerialExecutor()))).run()
    assert all_rows(table) == before


def test_an_execution_that_is_given_up_after_its_commit_keeps_the_files_that_the_commit_names(
    table: hudi.HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is interrupted before it has removed its markers, by which its files would be found."""
    before = all_rows(table)
    plan = planned(table)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commit, "_clean_up", interrupt)
    run = CompactionRun(begun(table, plan), slices_of(table, plan), Execution(LocalEngine(SerialExecutor())))
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert table.timeline.find(plan.requested_time, Action.COMMIT) is not None
    assert len(_bases(table, plan)) == 2
    assert all_rows(table) == before
    assert table.check().ok


@pytest.mark.parametrize("begun_by", ["nobody", "a living process", "a dead program that does not register"])
def test_the_next_write_leaves_the_heartbeat_of_an_execution_there(table: hudi.HudiTable, begun_by: str) -> None:
    """A process puts its heartbeat before it registers; and by an old one the next executor sees that a program of others has ended."""
    plan = planned(table)
    context = context_of(table)
    context.root.put(layout.heartbeat(plan.requested_time), heartbeat.body(context, "n"))
    if begun_by == "a dead program that does not register":
        context.storage.put(context.folder.file(Instant(plan.requested_time, Action.COMPACTION, State.INFLIGHT)), b"")
    if begun_by != "a living process":
        expire(table, plan.requested_time)
    reopen(table).upsert(orders((9, "z", 9.0, 99)))
    there = context.root.head(layout.heartbeat(plan.requested_time)) is not None
    assert there == (begun_by != "nobody"), "what a dead planner left is swept"
    if begun_by != "a living process":
        assert table.compaction.execute(), "it can be executed"
