"""A planned restore that nobody has begun is executed by who asks for it, and by nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner
from support.disk import contents
from support.planned_services import expire
from support.restores import at, begun, now, table_of_four
from support.tables import reopen

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.errors import CommitConflictError, InvalidOptionError
from pyhudi_core.model.instant import Action

Call = Callable[[hudi.HudiTable, list[str]], object]
OTHERS: dict[str, Call] = {
    "a restore to another commit": lambda table, times: table.restore(times[2]),
    "a restore to the state before another commit": lambda table, times: table.restore(before=times[3]),
    "a rollback of the newest commit": lambda table, times: table.rollback(times[3], completed=True),
    "a restore to the newest commit": lambda table, times: table.restore(times[3]),
    "a restore to a savepoint": lambda table, times: table.restore(next(iter(table.savepoints))),
}
SAME: dict[str, Call] = {
    "the same commit": lambda table, times: table.restore(times[2]),
    "the state before the next commit": lambda table, times: table.restore(before=times[3]),
    "a rollback": lambda table, times: table.rollback(times[3], completed=True),
}


def refused(table: hudi.HudiTable, call: Callable[[], object], error: type[Exception], match: str) -> Exception:
    """The error of a call that changes nothing."""
    before = contents(table.location)
    with pytest.raises(error, match=match) as raised:
        call()
    assert contents(table.location) == before
    return raised.value


@pytest.mark.row("N15")
@pytest.mark.parametrize("call", OTHERS.values(), ids=list(OTHERS))
def test_a_restore_that_is_only_planned_is_not_executed_by_who_asks_for_another_one(location: str, call: Call) -> None:
    table, times = table_of_four(location, table_type="merge_on_read")
    table.savepoints.create(times[0])
    planned = table.restore.schedule(times[1])
    assert planned is not None
    error = refused(
        table, lambda: call(table, times), CommitConflictError, f"restore {planned.requested_time} is pending"
    )
    for advice in ("restore LOCATION --execute", f"restore.cancel('{planned.requested_time}')"):
        assert advice in str(error)
    assert len(table.timeline.commits) == 4


@pytest.mark.row("N15")
@pytest.mark.parametrize("wrong", ["20200101000000000", "no time"])
@pytest.mark.parametrize("inflight", [False, True], ids=["planned", "begun"])
def test_a_misspelt_restore_executes_and_finishes_no_other_one(location: str, wrong: str, inflight: bool) -> None:
    table, times = table_of_four(location)
    planned = table.restore.schedule(times[1])
    assert planned is not None
    if inflight:
        begun(table, planned).heartbeat.handle.cancel()
        expire(table, planned.requested_time)
    for call in (lambda: table.restore(wrong), lambda: table.restore(before=wrong)):
        refused(table, call, InvalidOptionError, "so it is no commit")
    assert [i.requested_time for i in table.timeline.pending] == [planned.requested_time]


@pytest.mark.row("N15")
def test_a_restore_that_was_begun_is_finished_before_the_one_that_is_asked_for(location: str) -> None:
    table, times = table_of_four(location)
    wanted = at(table, times[0])
    planned = table.restore.schedule(times[2])
    assert planned is not None
    begun(table, planned).heartbeat.handle.cancel()
    expire(table, planned.requested_time)
    assert table.restore(times[0]).commits == 3
    assert now(table) == wanted
    assert table.check().ok, table.check().findings


@pytest.mark.row("N15")
@pytest.mark.parametrize("call", SAME.values(), ids=list(SAME))
def test_who_asks_for_the_planned_restore_executes_it(location: str, call: Call) -> None:
    table, times = table_of_four(location)
    wanted = at(table, times[2])
    planned = table.restore.schedule(times[2])
    assert planned is not None
    assert [one.instant.requested_time for one in table.restore.plan(times[2]).commits] == [times[3]]
    assert table.rollback.plan(times[3])
    assert call(table, times)
    assert now(table) == wanted
    assert [i.requested_time for i in table.timeline.filter(Action.RESTORE)] == [planned.requested_time]
    assert not table.timeline.pending.instants


@pytest.mark.row("N15")
def test_a_rollback_of_what_an_earlier_restore_undid_executes_no_planned_one(location: str) -> None:
    table, times = table_of_four(location)
    table.restore(times[2])
    assert table.restore.schedule(times[0])
    before = contents(location)
    assert "not on the timeline" in reopen(table).rollback(times[3], completed=True).reason
    assert contents(location) == before


@pytest.mark.row("N15")
def test_the_commands_leave_a_planned_restore_to_who_asks_for_it(location: str) -> None:
    table, times = table_of_four(location)
    assert table.restore.schedule(times[0])

    def run(*arguments: str) -> int:
        return CliRunner().invoke(main, [arguments[0], location, *arguments[1:]]).exit_code

    before = contents(location)
    assert run("restore", "--to", times[2], "--plan") == 1
    assert run("restore", "--to", times[2]) == 2
    assert run("restore", "--to", "20200101000000000") == 2
    assert run("rollback", times[3], "--plan") == 1
    assert run("rollback", times[3]) == 2
    assert contents(location) == before
    assert run("restore", "--to", times[0], "--plan") == 0
    assert run("restore", "--to", times[0]) == 0
    assert len(table.timeline.commits) == 1
