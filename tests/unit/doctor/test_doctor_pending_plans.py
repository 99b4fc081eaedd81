"""What the doctor advises for pending plans of services works: each command and each call of its text is carried out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.homes import context_of
from support.planned_services import expire
from support.restores import begun as begun_restore
from support.restores import table_of_four
from support.tables import orders, reopen

import pyhudi_core as hudi
from pyhudi_core.cli import main
from pyhudi_core.doctor.kinds import FindingKind, Severity
from pyhudi_core.doctor.report import Finding
from pyhudi_core.model.instant import Instant, State
from pyhudi_core.transaction import plan_executors
from pyhudi_core.transaction.begin import Transaction
from pyhudi_core.transaction.plan_executors import give_up

NAMES = ("compaction", "log_compaction", "clustering", "cleaning", "indexing", "restore")
ENDS = ("given up", "of Hudi", "dead")
OPTIONS = {
    "hoodie__clean__commits__retained": 1,
    "hoodie__clean__automatic": False,  # else the next commit goes on with a clean
    "hoodie__log__compaction__blocks__threshold": 2,
}


def planned(location: str, name: str) -> tuple[hudi.HudiTable, Instant]:
    """A table with a plan of this service."""
    table, times = table_of_four(location, table_type="merge_on_read")
    table = reopen(table, **OPTIONS)
    if name == "log_compaction":
        for price in range(4):
            table.upsert(orders((1, "a", 20.0 + price)))
    if name == "cleaning":
        for price in range(2):
            table.compaction.run()
            table.upsert(orders((1, "a", 20.0 + price)))
    arguments = {"indexing": (["record_index"],), "restore": (times[1],)}.get(name, ())
    plan = table.services[name].schedule(*arguments)
    assert plan is not None
    return table, plan


def left(table: hudi.HudiTable, plan: Instant, end: str) -> None:
    """Somebody began to execute the plan, and ended."""
    context = context_of(table)
    if end == "of Hudi":
        path = Path(table.location, context.folder.file(Instant(plan.requested_time, plan.action, State.INFLIGHT)))
        path.write_bytes(b"")
        os.utime(path, (1e9, 1e9))
        return
    if plan.action.value == "restore":
        running = begun_restore(table, plan)
    else:
        made = plan_executors.begin_execution(context, plan)
        assert isinstance(made, Transaction)
        running = made
    if end == "given up":
        give_up(running)
    else:
        running.heartbeat.handle.cancel()
        expire(table, plan.requested_time)


def finding_of(table: hudi.HudiTable, plan: Instant) -> Finding:
    [found] = [found for found in table.check().findings if found.instant == plan.requested_time]
    return found


def advised(text: str) -> list[str]:
    """The commands and the calls of a text."""
    return [*re.findall(r"`pyhudi ([^`]+)`", text), *re.findall(r"table\.[a-z_]+\.[a-z_]+\([^)]*\)", text)]


def follow(table: hudi.HudiTable, advice: str) -> None:
    if advice.startswith("table."):
        call = re.fullmatch(r"table\.(\w+)\.(\w+)\('?(\d*)'?\)", advice)
        assert call is not None, advice
        service = getattr(reopen(table), call[1])
        assert getattr(service, call[2])(*filter(None, [call[3]]))
    else:
        done = CliRunner().invoke(main, advice.replace("LOCATION", table.location).split())
        assert done.exit_code == 0, done.output


@pytest.mark.one_in(3)
@pytest.mark.row("N4")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", NAMES)
def test_what_the_doctor_advises_for_an_execution_that_ended_works(tmp_path: Path, name: str, end: str) -> None:
    table, plan = planned(str(tmp_path / "0"), name)
    left(table, plan, end)
    found = finding_of(table, plan)
    assert (found.kind, found.severity) == (
        FindingKind.PENDING_DEAD if end == "dead" else FindingKind.PENDING_FOREIGN,
        Severity.WARNING,
    )
    ways = len(advised(found.what_to_do))
    assert ways == (4 if name in ("clustering", "indexing") else 2), found.what_to_do
    for way in range(ways):
        if way:
            table, plan = planned(str(tmp_path / str(way)), name)
            left(table, plan, end)
        follow(table, advised(finding_of(table, plan).what_to_do)[way])
        assert not table.timeline.pending.instants
        assert table.check().ok, table.check().findings


@pytest.mark.row("N4", "N15")
def test_what_the_doctor_advises_for_a_planned_restore_works(tmp_path: Path) -> None:
    table, plan = planned(str(tmp_path / "0"), "restore")
    ways = len(advised(finding_of(table, plan).what_to_do))
    assert ways == 4
    for way in range(ways):
        if way:
            table, plan = planned(str(tmp_path / str(way)), "restore")
        follow(table, advised(finding_of(table, plan).what_to_do)[way])
        assert not table.timeline.pending.instants


@pytest.mark.row("N4")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "clustering"])
def test_a_rollback_of_a_plan_says_what_ends_it(tmp_path: Path, name: str) -> None:
    """A clustering can be rolled back."""
    table, plan = planned(str(tmp_path / "0"), name)
    done = table.rollback(plan.requested_time)
    assert not done
    assert not table.rollback.plan(plan.requested_time)
    ways = advised(done.reason)
    assert ways == advised(table.rollback.plan(plan.requested_time).why_not)
    assert len(ways) == (4 if name in ("indexing", "restore") else 2)
    follow(table, ways[-1])
    assert not table.timeline.pending.instants


@pytest.mark.parametrize("name", ["clustering", "restore"])
def test_a_plan_that_cannot_be_read_is_removed_as_the_doctor_says(tmp_path: Path, name: str) -> None:
    table, plan = planned(str(tmp_path / "0"), name)
    Path(table.location, context_of(table).folder.file(plan)).write_bytes(b"no plan")
    table = reopen(table)
    assert table.check().of(FindingKind.PLAN_UNREADABLE)
    assert table.restore.cancel(plan) if name == "restore" else table.rollback(plan.requested_time)
    assert table.check().ok, table.check().findings
