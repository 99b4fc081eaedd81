"""Tags: one in each period of a schedule, the newest stay, savepoints of others too; and a run that dies is ended by the next one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from reliability.crash_scenarios import KEPT, Case, leaks_of, proceed, setup_for
from reliability.crash_states import filled
from reliability.real_table import FULL, OPTIONS, TableSetup, TableWorld, is_shared, orders, table_world
from reliability.service_runs import Act, few_or_many, in_many_orders

from pyhudi_core.errors import UnsupportedTableError
from pyhudi_core.savepoints.savepoint_files import TAGGED_BY, Savepoint
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
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


# --- beside others


DAILY = {"pyhudi.tags.daily": 1}
OLD, NEW = "daily 2026-01-01", "daily 2026-01-02"


@cache
def _setup() -> TableSetup:
    """A world with a table that has the tag of yesterday, and a newer commit."""
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), {**FULL, **DAILY})
    made = table_world(empty)
    yesterday(made)
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(empty, sim=replace(empty.sim, image=image, start_ms=now + 1_000, shared=SimOptions().shared))


def run(world: TableWorld) -> object:
    return world.table().tagging.run()


def write(world: TableWorld) -> object:
    return world.table().upsert(orders((9, "a", 9.0)))


def save_newest(world: TableWorld) -> object:
    """A savepoint of somebody for the commit that is to get the tag."""
    return _own(world, -1)


def take_the_old(world: TableWorld) -> object:
    """Somebody wants to keep what yesterday's tag keeps, as the error says: deletes the tag, and makes a savepoint."""
    table = world.table()
    tags = [one.instant for one in table.savepoints if one.comment == OLD]
    for instant in tags:
        table.savepoints.delete(instant)
    return [table.savepoints.create(instant, "mine") for instant in tags]


def _own(world: TableWorld, place: int) -> object:
    table = world.table()
    try:
        return table.savepoints.create(table.timeline.commits[place], "mine")
    except UnsupportedTableError as has_a_tag:
        return has_a_tag


def tagged(world: TableWorld, history: History) -> None:
    """No run failed; what somebody saved is there, and so is one tag, of the newest day that has one; the next run has nothing to do."""
    assert not list(history.of("failed")), history
    saved = history.result("b")
    own = [one for one in world.table().savepoints if one.created_by != TAGGED_BY]
    if isinstance(saved, Savepoint):
        assert [one.instant for one in own] == [saved.instant], (own, history)
    elif isinstance(saved, list):
        assert [one.instant for one in own] == [one.instant for one in saved], (own, history)
    first = comments(world)
    assert 1 <= len(first) <= 2 or own, history
    world.table().tagging.run()
    left = comments(world)
    assert len(left) <= 1, left
    assert left or own
    assert not world.table().tagging.run()
    assert world.table().check().ok


BESIDE: dict[str, Act] = {
    "itself": run,
    "a write": write,
    "a savepoint of the newest": save_newest,
    "a savepoint in the place of a tag": take_the_old,
}


@few_or_many((30, 5), (1_500, 400))
@pytest.mark.row("K6", "N15")
@pytest.mark.parametrize("name", BESIDE)
def test_tags_beside_others_are_made_once_and_savepoints_of_others_stay(
    name: str, bounds: Bounds, by_chance: int
) -> None:
    in_many_orders(f"tags and {name}", _setup(), (run, BESIDE[name]), tagged, bounds, by_chance)
