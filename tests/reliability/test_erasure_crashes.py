"""Erasures and expiries of partitions that die at storage calls, and beside a writer: the same call again ends what was begun, and nothing else is lost.

The table has older slices, logs if it is merge-on-read, and in some scenarios a metadata table. The quick suite takes a share of the crashes and orders.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cache
from typing import NoReturn

import pyarrow as pa
import pytest
from reliability.crash_scenarios import audit
from reliability.real_table import FULL, Row, TableSetup, TableWorld, orders, rows_of, table_world, world_with_rows
from reliability.service_runs import Act, budget, crash, crash_scenario, in_many_orders
from support.metadata_tables import build

from pyhudi_core.errors import CommitAbortedError, CommitConflictError, ErasureRefusedError
from pyhudi_core.model.instant import Action
from pyhudi_core.services.cleaning.clean_execution import CleaningRun
from pyhudi_core.services.compaction.compaction_execution import CompactionRun
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import Audit, CrashPlan, CrashScenario

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
KEYS = pa.table({"id": [1], "day": ["a"]})
LATER: Row = (90, "c", 90.0)
Auditor = Callable[[TableWorld, Hashable], Audit]
DAY_S = 24 * 3600
RETAIN = {"hoodie.partition.ttl.strategy.days.retain": 10}


@cache
def _setup(kind: str, metadata: bool = False, expired: bool = False) -> TableSetup:
    """Rows 1 and 2 in the partition a, row 3 in b; row 1 has an older version. ``expired``: the partition a has expired."""
    empty = TableSetup(SimOptions(lease_s=60), {**FULL, **(RETAIN if expired else {}), "hoodie.table.type": kind})
    made = world_with_rows((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0), setup=empty)
    if metadata:
        build(made.table())
    made.table().upsert(orders((1, "a", 11.0)))
    if expired:
        made.wait(8 * DAY_S)
        made.table().upsert(orders((3, "b", 31.0)))
        made.wait(4 * DAY_S)
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(empty, sim=replace(empty.sim, image=image, start_ms=now + 1_000))


def erase(world: TableWorld) -> object:
    return world.table().erasure.run(KEYS)


def erase_again(world: TableWorld) -> None:
    """The call is made again by another process, and then a writer writes."""
    report = erase(world)
    assert report, str(report)
    assert world.table().erasure.verify(KEYS)
    world.table().upsert(orders(LATER))


def expire(world: TableWorld) -> object:
    return world.table().expiry.run()


def write_later(world: TableWorld) -> None:
    world.table().upsert(orders(LATER))


def audit_and_expire(world: TableWorld, rows: Hashable) -> Audit:
    """The files of replaced file groups stay until a clean; they are no leak. The next expiry ends what was begun."""
    found = audit(world, rows)
    expire(world)
    assert {row[1] for row in rows_of(world.table())} == {"b", "c"}
    return replace(found, leaks=tuple(kind for kind in found.leaks if kind != "replaced_group_kept"))


def rows_of_others(world: TableWorld) -> tuple[Row, ...]:
    """The rows that no erasure touches. An erasure is several commits, so it can fail after its delete; but it never leaves a part of a row."""
    found = rows_of(world.table())
    assert [row for row in found if row[0] == 1] in ([], [(1, "a", 11.0)]), found
    return tuple(row for row in found if row[0] != 1)


def scenario(name: str, kind: str, metadata: bool, profile: Profile = Profile.S3) -> CrashScenario[TableWorld]:
    act, again, audited = ACTS[name]
    made = crash_scenario(name, _setup(kind, metadata, name == "expiry"), act, again, profile, audited=audited)
    return replace(made, read=rows_of_others) if act is erase else made


ACTS: dict[str, tuple[Act, Act, Auditor]] = {
    "erasure": (erase, erase_again, audit),
    "expiry": (expire, write_later, audit_and_expire),
}
"""What dies, the next process, and how the table is examined after it."""
TABLES = [(COW, False), (MOR, False), (MOR, True)]
"""Kinds, and whether there is a metadata table."""


@pytest.mark.row("K11", "N12", "N13")
def test_an_erasure_that_dies_at_any_call_is_ended_by_the_next_one() -> None:
    crash(scenario("erasure", COW, metadata=False), CrashPlan(share=0.005, every_site=False, twice=0.0))


class Died(BaseException):
    """The end of a process."""


@pytest.mark.row("K11", "N13")
def test_an_erasure_that_dies_when_no_file_holds_the_keys_any_more_is_ended_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clean has deleted the files and is pending, so there is nothing to erase, but something to end."""

    def die(_run: CleaningRun, _done: object) -> NoReturn:
        raise Died

    world = table_world(_setup(COW))
    with monkeypatch.context() as patch:
        patch.setattr(CleaningRun, "_complete", die)
        with pytest.raises(Died):
            erase(world)
    [pending] = world.table().timeline.pending
    assert pending.action is Action.CLEAN
    assert world.table().erasure.verify(KEYS)
    world.wait()
    report = world.table().erasure.run(KEYS)
    assert report, str(report)
    assert report.instants == (pending.requested_time,)
    assert not world.table().timeline.pending.instants


@pytest.mark.row("K11", "N13")
@pytest.mark.parametrize(
    ("run", "step"),
    [
        (CompactionRun, "_write"),
        (CompactionRun, "_attempt"),
        pytest.param(CleaningRun, "_carry_out", marks=pytest.mark.slow),
        pytest.param(CleaningRun, "_complete", marks=pytest.mark.slow),
    ],
)
def test_an_erasure_of_rows_in_logs_that_dies_within_a_step_is_ended_by_the_next_one(
    run: type[object], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is in a base file and in a log; the process dies while its compaction or its clean is executed."""

    def die(*_: object) -> NoReturn:
        raise Died

    world = table_world(_setup(MOR))
    with monkeypatch.context() as patch:
        patch.setattr(run, step, die)
        with pytest.raises(Died):
            erase(world)
    assert [row[0] for row in rows_of(world.table())] == [2, 3], "the delete is a commit of its own"
    world.wait()
    erase_again(world)
    assert not world.table().timeline.pending.instants
    assert rows_of(world.table()) == ((2, "a", 20.0), (3, "b", 30.0), LATER)
    assert world.table().check().ok, world.table().check().findings


@pytest.mark.slow
@pytest.mark.row("K11", "N12", "N13")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize(("kind", "metadata"), TABLES)
@pytest.mark.parametrize("name", ACTS)
def test_an_erasure_or_an_expiry_dies_at_every_call(name: str, kind: str, metadata: bool, profile: Profile) -> None:
    crash(scenario(name, kind, metadata, profile), CrashPlan(twice=0.05))


def attempt(act: Act) -> Act:
    """A process that may be refused, and knows it then."""

    def run(world: TableWorld) -> object:
        try:
            return act(world)
        except (CommitAbortedError, CommitConflictError, ErasureRefusedError) as refused:
            return refused

    return run


def write(world: TableWorld) -> object:
    return world.table().upsert(orders((2, "a", 22.0), (7, "a", 7.0)))


def nothing_but_the_keys_is_gone(world: TableWorld, history: History) -> None:
    """What the writer has committed is there, and the erasure is complete, at the latest when it is called again."""
    assert not history.of("failed"), history
    world.wait()
    report = erase(world)
    assert report, str(report)
    assert rows_of(world.table()) == ((2, "a", 22.0), (3, "b", 30.0), (7, "a", 7.0))
    assert world.table().check().ok, world.table().check().findings


def what_was_written_meanwhile_stays(world: TableWorld, history: History) -> None:
    """The partition is deleted before the write, or not at all: it is not old any more."""
    assert not history.of("failed"), history
    found = rows_of(world.table())
    assert found in (
        ((1, "a", 11.0), (2, "a", 22.0), (3, "b", 31.0), (7, "a", 7.0)),
        ((2, "a", 22.0), (3, "b", 31.0), (7, "a", 7.0)),
    ), found
    assert world.table().check().ok, world.table().check().findings


BESIDE = {
    "an erasure": (False, attempt(erase), nothing_but_the_keys_is_gone),
    "an expiry": (True, attempt(expire), what_was_written_meanwhile_stays),
}


def beside(name: str, kind: str, bounds: Bounds, by_chance: int) -> None:
    expired, act, check = BESIDE[name]
    in_many_orders(f"{name} beside a writer", _setup(kind, expired=expired), (act, write), check, bounds, by_chance)


@pytest.mark.row("L1", "N12")
def test_an_erasure_beside_a_writer() -> None:
    beside("an erasure", COW, Bounds(preemptions=1, schedules=budget(1)), 1)


@pytest.mark.slow
@pytest.mark.row("L1", "N12")
@pytest.mark.parametrize("kind", [COW, MOR])
@pytest.mark.parametrize("name", BESIDE)
def test_an_erasure_or_an_expiry_beside_a_writer_in_far_more_orders(name: str, kind: str) -> None:
    beside(name, kind, Bounds(preemptions=2, schedules=1_000), 300)
