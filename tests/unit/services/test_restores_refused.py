"""What a restore refuses before anything is written, and what a pending restore keeps from others."""

from __future__ import annotations

import pytest
from support.disk import contents
from support.homes import context_of
from support.planned_services import expire
from support.restores import at, begun, left_behind, now, table_of_four
from support.tables import orders, reopen

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    HudiError,
    InvalidOptionError,
    SnapshotExpiredError,
)
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.begin import Transaction


def refusals(table: hudi.HudiTable, times: list[str], error: type[HudiError], match: str) -> None:
    """A restore to the second commit is refused, and nothing is changed; the plan says why."""
    before = contents(table.location)
    with pytest.raises(error, match=match):
        table.restore(times[1])
    plan = table.restore.plan(times[1])
    assert not plan
    assert plan.why_not
    assert contents(table.location) == before


@pytest.mark.row("N15")
def test_what_is_no_completed_commit_of_the_timeline_is_refused(location: str) -> None:
    table, times = table_of_four(location)
    for wrong in ("20200101000000000", "no time"):
        refusals(table, ["", wrong], InvalidOptionError, "so it is no commit")
    refusals(reopen(table), ["", f"{times[0]}9"], InvalidOptionError, "so it is no commit")


@pytest.mark.row("N15")
def test_an_archived_commit_is_refused(location: str) -> None:
    table, times = table_of_four(location)
    reopen(table, hoodie__keep__min__commits=2, hoodie__keep__max__commits=3).archival.run()
    refusals(table, times, InvalidOptionError, "is archived")


@pytest.mark.row("N15")
def test_a_commit_with_a_savepoint_is_not_undone(location: str) -> None:
    table, times = table_of_four(location)
    table.savepoints.create(times[2])
    refusals(table, times, CommitAbortedError, f"savepoint, {times[2]}")


@pytest.mark.row("N15")
def test_a_state_whose_files_are_cleaned_is_refused_and_the_clean_is_named(location: str) -> None:
    table, times = table_of_four(location)
    [clean] = reopen(table, hoodie__clean__commits__retained=1).cleaning.run().instants
    refusals(table, times, SnapshotExpiredError, f"by the clean {clean.requested_time}")
    assert table.restore.plan(times[2]), "this state is kept by the clean"


@pytest.mark.row("N15")
def test_a_living_writer_is_not_disturbed_and_a_dead_one_is_rolled_back(location: str) -> None:
    table, times = table_of_four(location)
    with table.begin("upsert") as write:
        write.write(orders((70, "s", 7.0)))
        refusals(table, times, CommitAbortedError, f"the commit {write.instant} is being written")
        expire(table, str(write.instant))
        assert table.restore(times[1]).commits == 2
        with pytest.raises(HudiError):
            write.commit()
    assert not table.timeline.pending.instants
    assert table.check().ok, table.check().findings
    assert (70, "s", 7.0) not in now(table)


@pytest.mark.row("N15")
def test_planned_services_go_along_and_one_that_is_executed_is_not_disturbed(location: str) -> None:
    table, times = table_of_four(location, table_type="merge_on_read")
    plan = table.compaction.schedule()
    clean = reopen(table, hoodie__clean__commits__retained=1).cleaning.schedule()
    assert plan is not None
    running = plan_executors.begin_execution(context_of(table), plan)
    assert isinstance(running, Transaction)
    refusals(table, times, CommitAbortedError, f"compaction {plan.requested_time} is executed")
    plan_executors.give_up(running)
    wanted = at(table, times[1])
    shown = table.restore.plan(times[1])
    assert [i.requested_time for i in shown.plans] == [plan.requested_time]
    assert [i.requested_time for i in shown.cleans] == ([clean.requested_time] if clean else [])
    table.restore(times[1])
    assert now(table) == wanted
    assert not table.timeline.pending.instants
    assert not left_behind(location)
    table.compaction.run()
    assert now(table) == wanted
    assert table.check().ok, table.check().findings


@pytest.mark.row("N15", "L6")
def test_a_clean_that_has_begun_is_not_disturbed(location: str) -> None:
    table, times = table_of_four(location)
    clean = reopen(table, hoodie__clean__commits__retained=2).cleaning.schedule()
    assert clean is not None
    running = plan_executors.begin_execution(context_of(table), clean)
    assert isinstance(running, Transaction)
    refusals(table, times, CommitAbortedError, f"clean {clean.requested_time} is deleting files")
    plan_executors.give_up(running)
    refusals(table, times, CommitAbortedError, "has not ended")
    assert table.cleaning.take_over()
    assert table.restore(times[1]).commits == 2


@pytest.mark.row("N15", "R13")
@pytest.mark.parametrize("inflight", [False, True], ids=["planned", "begun"])
def test_while_a_restore_is_pending_nothing_is_written_and_no_plan_is_executed(location: str, inflight: bool) -> None:
    table, times = table_of_four(location, table_type="merge_on_read")
    plan = table.compaction.schedule()
    assert plan is not None
    wanted = {False: now(table), True: at(table, times[1])}[inflight]
    restore = table.restore.schedule(times[1])
    assert restore is not None
    running = begun(table, restore) if inflight else None
    before = contents(location)
    for attempt in (
        lambda: table.upsert(orders((1, "a", 5.0))),
        lambda: table.savepoints.create(times[0]),
        lambda: table.restore.schedule(times[0]),
    ):
        with pytest.raises(CommitConflictError, match=f"The restore {restore.requested_time} is pending"):
            attempt()
    with pytest.raises(CommitConflictError):
        reopen(table, pyhudi__commit__retries=0).metadata_table.create()
    assert not table.compaction.execute(plan)
    assert "restore" in table.cleaning.plan().why_not
    assert contents(location).keys() - before.keys() <= {path for path in contents(location) if "commit_record" in path}
    assert now(table) == wanted
    if running is not None:
        running.heartbeat.handle.cancel()
