"""A writer that vanishes at any step leaves a table that is green or repairable, and green after the next write (promise P7).

The real upsert runs in the simulated world, Parquet files included, and is crashed before every call of the storage, the lock and the clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from support.doctor import assert_sound, kinds
from support.tables import ORDERS, orders, rows

import pyhudi_core as hudi
from pyhudi_core.doctor import CheckReport
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opening import create_at
from pyhudi_core.testing import Bounds, History, Profile, Scheduler, SimOptions, SimWorld, explore

OPTIONS = {"hoodie.time.generator.max_expected_clock_skew_ms": 1}


@dataclass
class World:
    """A simulated world with a table of two commits."""

    sim: SimWorld
    scheduler: Scheduler

    def table(self) -> hudi.HudiTable:
        return hudi.HudiTable(OpenedTable(self.sim.storage, self.sim.runtime, OPTIONS, self.sim.lock))


def _start(profile: Profile):  # type: ignore[no-untyped-def]
    sim = SimWorld(SimOptions(profile=profile, one_machine=True, lease_s=10))
    table = create_at(OpenedTable(sim.storage, sim.runtime, OPTIONS, sim.lock), ORDERS, "id", "day", name="orders")
    table.upsert(orders((1, "a", 1.0), (2, "b", 1.0)))
    image, time = sim.storage.image(), sim.scheduler.time_ms

    def world() -> World:
        fresh = SimWorld(SimOptions(profile=profile, one_machine=True, lease_s=10, image=image, start_ms=time))
        return World(fresh, fresh.scheduler)

    return world


def _green_or_repairable(report: CheckReport) -> CheckReport:
    assert_sound(report)
    assert report.ok or report.repairable, str(report)
    return report


OLD = [(1, "a", 1.0), (2, "b", 1.0)]
VERBS = {
    "upsert": (
        lambda table: table.upsert(orders((1, "a", 2.0), (3, "c", 1.0))),
        [(1, "a", 2.0), (2, "b", 1.0), (3, "c", 1.0)],
    ),
    "insert_overwrite": (lambda table: table.insert_overwrite(orders((9, "a", 9.0))), [(2, "b", 1.0), (9, "a", 9.0)]),
    "delete_partitions": (lambda table: table.delete_partitions(["day=a"]), [(2, "b", 1.0)]),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("verb", "profile"),
    [*((verb, Profile.LOCAL_POSIX) for verb in VERBS), ("upsert", Profile.S3)],
)
def test_after_a_crash_at_any_step_the_doctor_is_green_or_says_repairable(verb: str, profile: Profile) -> None:
    act, new = VERBS[verb]
    seen: set[str] = set()

    def write(world: World) -> object:
        return act(world.table())

    def check(world: World, history: History) -> None:
        table = world.table()
        report = _green_or_repairable(table.check())
        seen.update([report.verdict.partition(":")[0], *kinds(report)])
        before = rows(table, "id", "day", "price")
        assert before in (OLD, new)
        decided = bool(report.of("decided_not_published"))
        table.upsert(orders((7, "z", 7.0)))
        again = assert_sound(table.check())
        assert again.ok, f"after the next write: {again}"
        after = [row for row in rows(table, "id", "day", "price") if row[0] != 7]
        assert after == (new if decided else before)

    report = explore(_start(profile), [write], check, Bounds(preemptions=0, crashes=1, every_call=True))
    report.assert_clean()
    assert report.exhausted
    assert len(report.crash_points) > 15, report.crash_points
    assert {"nothing wrong was found", "repairable", "pending_dead", "decided_not_published"} <= seen


def test_two_crashed_writers_are_told_apart(location: str) -> None:
    """The second dies while it repairs the first."""
    world = _start(Profile.LOCAL_POSIX)

    def write(found: World) -> object:
        return found.table().upsert(orders((1, "a", 2.0)))

    def check(found: World, history: History) -> None:
        table = found.table()
        _green_or_repairable(table.check())
        for _ in range(2):
            table.upsert(orders((7, "z", 7.0)))
        assert table.check().ok

    report = explore(world, [write, write], check, Bounds(preemptions=1, crashes=2, schedules=25))
    report.assert_clean()
