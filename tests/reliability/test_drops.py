"""A drop of a table that dies at storage calls, and beside a writer, a reader, another drop: no row is read from a part of a table, and the next drop
finishes what was begun.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from functools import cache

import pytest
from reliability.crash_scenarios import NEXT, setup_for
from reliability.crash_scenarios import audit as audit_table
from reliability.crash_states import BEFORE, filled
from reliability.real_table import FULL, TableSetup, TableWorld, is_shared, orders, rows_of, table_world
from reliability.service_runs import Act, budget, crash_scenario, in_many_orders

from pyhudi_core.errors import HudiError, TableHalfDroppedError, TableNotFoundError
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import Audit, CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere

ROWS = tuple(sorted(BEFORE))
GONE = "no table, or half of one that says so"


def state(world: TableWorld) -> Hashable:
    try:
        return (
            rows_of(world.table()) or GONE
        )  # the next process may have died between making the new table and its first write
    except (TableHalfDroppedError, TableNotFoundError):
        return GONE


def drop(world: TableWorld) -> object:
    return world.table().drop()


def drop_again_and_begin_anew(world: TableWorld) -> None:
    with suppress(TableNotFoundError):
        drop(world)
    assert not world.storage.list(""), "a drop leaves no file of the table"
    world.create()
    world.table().upsert(orders(*NEXT))


def audit(world: TableWorld, rows: Hashable) -> Audit:
    found = audit_table(world, rows)
    return replace(found, problems=(*found.problems, *([] if rows == NEXT else [f"{rows} are in a new table"])))


def crash(profile: Profile, plan: CrashPlan) -> None:
    setup = setup_for(profile)
    scenario = crash_scenario("drop", setup, drop, drop_again_and_begin_anew, profile, filled, audit)
    report = crash_everywhere(replace(scenario, read=state), plan).assert_clean()
    print(f"drop: {sum(report.points.values()) + report.chained} crashes")
    assert not report.leaks


@pytest.mark.row("K11")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_drop_that_dies_is_finished_by_the_next_one(profile: Profile) -> None:
    crash(profile, CrashPlan(share=0.02, every_site=False, twice=0.0))


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_drop_that_dies_at_any_call_is_finished_by_the_next_one(profile: Profile) -> None:
    crash(profile, CrashPlan(twice=0.1))


# --- beside others


@cache
def _setup(profile: Profile) -> TableSetup:
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared, profile=profile), {**FULL, "pyhudi.commit.retries": 1})
    made = table_world(empty)
    filled(made)
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(empty, sim=replace(empty.sim, image=image, start_ms=now + 1_000, shared=SimOptions().shared))


def try_to_drop(world: TableWorld) -> str:
    """Drop, or be refused because somebody is there."""
    try:
        drop(world)
    except HudiError as refused:
        return type(refused).__name__
    return "dropped"


def write(world: TableWorld) -> str:
    try:
        world.table().upsert(orders(*NEXT))
    except HudiError as refused:
        return type(refused).__name__
    return "written"


def read(world: TableWorld) -> Hashable:
    """All rows or an error: never a part of the rows."""
    try:
        found = rows_of(world.table())
    except HudiError as gone:
        return type(gone).__name__
    assert found == ROWS, found
    return "read"


ACTORS: dict[str, Act] = {"writer": write, "reader": read, "drop": try_to_drop}


def check(world: TableWorld, history: History) -> None:
    """What is reported is true: a write that was reported before the drop went with the table, and a drop that was refused has taken no row."""
    assert not list(history.of("failed")), history
    world.wait()
    found = state(world)
    assert found in (GONE, ROWS, tuple(sorted((*ROWS, *NEXT)))), found
    if found != GONE:
        return
    with suppress(TableNotFoundError):
        drop(world)
    left = [info.path for info in world.storage.list("")]
    assert not [path for path in left if path.startswith(".hoodie/hoodie")], left


def beside(name: str, profile: Profile, bounds: Bounds, by_chance: int) -> None:
    in_many_orders(f"drop beside a {name}", _setup(profile), (try_to_drop, ACTORS[name]), check, bounds, by_chance)


@pytest.mark.row("N14")
@pytest.mark.parametrize("name", ACTORS)
def test_a_drop_beside_others_takes_all_or_nothing(name: str) -> None:
    beside(name, Profile.S3, Bounds(preemptions=1, schedules=budget(8)), budget(4))


@pytest.mark.slow
@pytest.mark.row("N14")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", ACTORS)
def test_a_drop_beside_others_takes_all_or_nothing_in_far_more_orders(name: str, profile: Profile) -> None:
    beside(name, profile, Bounds(preemptions=2, schedules=1_000), 300)
