"""Tags: one in each period of a schedule, the newest stay, savepoints of others too; and a run that dies is ended by the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reliability.crash_scenarios import Case, proceed, setup_for
from reliability.crash_states import filled
from reliability.real_table import OPTIONS, TableSetup, TableWorld, orders, table_world
from reliability.test_crashes import KEPT, leaks_of

from pyhudi_core.savepoints.savepoint_files import TAGGED_BY
from pyhudi_core.testing import Profile
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere

DAY_S = 24 * 3600


def tagged_world(**schedules: int) -> TableWorld:
    options = {f"pyhudi.tags.{name}": keep for name, keep in schedules.items()}
    world = table_world(TableSetup(options={**OPTIONS, **options}))
    world.create()
    return world


def comments(world: TableWorld) -> list[str]:
    return [one.comment for one in world.table().savepoints if one.created_by == TAGGED_BY]


def test_each_schedule_keeps_the_last_tags_of_its_periods() -> None:
    world = tagged_world(daily=3, weekly=2)
    for day in range(18):  # from Thursday, 2026-01-01, on
        world.table().upsert(orders((1, "a", float(day))))
        assert world.table().tagging.run()
        assert not world.table().tagging.run(), "a period has one tag"
        world.wait(DAY_S)
    assert comments(world) == [
        "daily 2026-01-11",
        "daily 2026-01-16",
        "daily 2026-01-17",
        "daily 2026-01-18",
    ], "the last day of a week is the tag of the week"


def test_savepoints_of_others_stay_and_a_commit_gets_no_second_one() -> None:
    world = tagged_world(hourly=1)
    assert "no commit" in world.table().tagging.run().why_not
    world.table().upsert(orders((1, "a", 1.0)))
    own = world.table().savepoints.create(comment="mine")
    assert not world.table().tagging.run()
    for _ in range(3):
        world.table().upsert(orders((1, "a", 2.0)))
        assert world.table().tagging.plan().figures["made"] == 1
        assert world.table().tagging.run().made
        world.wait(3600)
    assert [one.comment for one in world.table().savepoints][:1] == [own.comment]
    assert len(comments(world)) == 1


def test_without_a_schedule_nothing_is_made_or_deleted() -> None:
    world = tagged_world(daily=5)
    world.table().upsert(orders((1, "a", 1.0)))
    world.table().tagging.run()
    off = TableWorld(world.sim, replace(world.setup, options=dict(OPTIONS)))
    assert "pyhudi.tags.daily" in off.table().tagging.run().why_not
    assert len(comments(off)) == 1


def yesterday(world: TableWorld) -> None:
    filled(world)
    tag(world)
    world.wait(DAY_S)
    world.table().upsert(orders((1, "a", 5.0)))


def tag(world: TableWorld) -> None:
    world.table().tagging.run()


def crash(plan: CrashPlan) -> None:
    def go_on(world: TableWorld) -> None:
        proceed(world)
        world.wait(2 * DAY_S)
        world.table().failed_writes.run()  # removes a savepoint whose deletion died, which may be one that Hudi is making, after a day
        tag(world)
        assert len(comments(world)) == 1

    case = Case(tag, yesterday, {"pyhudi.tags.daily": 1}, token=False, ill=True)
    scenario = replace(case.named("tagging", setup_for(Profile.S3)), proceed=go_on)
    assert leaks_of([crash_everywhere(scenario, plan).assert_clean()]) <= KEPT


@pytest.mark.row("K11", "N15")
def test_a_run_that_dies_is_ended_by_the_next_one() -> None:
    crash(CrashPlan(share=0.03, every_site=False, twice=0.0))


@pytest.mark.slow
@pytest.mark.row("K11", "N15")
def test_a_run_that_dies_at_any_call_is_ended_by_the_next_one() -> None:
    crash(CrashPlan(twice=0.1))
