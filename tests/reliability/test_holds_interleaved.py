"""A hold beside a clean, and beside the executor of a planned clean: what was held can be read. And its maker dies at every call."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from reliability.crash_scenarios import KEPT, Case, leaks_of, proceed, setup_for
from reliability.crash_states import filled
from reliability.real_table import FULL, TableSetup, TableWorld, is_shared, orders, rows_of, world_with_rows
from reliability.service_runs import Act, few_or_many, in_many_orders

from pyhudi_core.errors import CommitConflictError, SnapshotExpiredError
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
LAST = 4.0
HELD = {1: 1.0, 2: 20.0}
HOUR = 3600.0


@cache
def _setup(kind: str, planned: bool) -> TableSetup:
    """A world with a table whose second state is wanted by a reader, and deleted by a clean; ``planned``: the plan is on the timeline."""
    options = {**FULL, "hoodie.table.type": kind, "hoodie.clean.commits.retained": 1, "pyhudi.commit.retries": 1}
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), options)
    made = world_with_rows((1, "a", 0.0), (2, "b", 20.0), setup=empty)
    for number in range(1, int(LAST) + 1):
        made.table().upsert(orders((1, "a", float(number))))
        if kind == MOR and number == 2:
            made.table().compaction.run()
    if planned:
        assert made.table().cleaning.schedule() is not None
    image, now = made.storage.image(), made.scheduler.time_ms
    sim = replace(empty.sim, image=image, start_ms=now + 1_000, shared=SimOptions().shared)
    return replace(empty, sim=sim)


def read(world: TableWorld, token: object) -> dict[int, float]:
    found = world.table().scan(["id", "price"], as_of=str(token)).to_arrow().to_pylist()
    return {row["id"]: row["price"] for row in found}


def hold(world: TableWorld) -> object:
    """Hold the second state. What was held is read at once, and again in the end."""
    table = world.table()
    try:
        made = table.holds.create(table.timeline.commits[1], seconds=HOUR)
    except (CommitConflictError, SnapshotExpiredError) as refused:
        return refused
    assert read(world, made.token) == HELD
    return made.token


def clean(world: TableWorld) -> object:
    return world.table().cleaning.run()


def execute(world: TableWorld) -> object:
    return world.table().cleaning.execute()


def check(world: TableWorld, history: History) -> None:
    assert not list(history.of("failed")), history
    holds = list(world.table().holds)
    for one in holds:
        assert read(world, one.token) == HELD
    world.wait()
    world.table().cleaning.take_over()
    world.table().cleaning.run()
    for one in holds:
        assert read(world, one.token) == HELD
        world.table().holds.delete(one)
    world.table().upsert(orders((1, "a", LAST)))
    world.table().cleaning.run()
    assert rows_of(world.table()) == ((1, "a", LAST), (2, "b", 20.0))
    assert world.table().check().ok, world.table().check().findings


CASES: dict[str, tuple[str, bool, Act]] = {
    "run": (COW, False, clean),
    "run with logs": (MOR, False, clean),
    "execution": (COW, True, execute),
}


@few_or_many((8, 3), (1_500, 400))
@pytest.mark.row("N9", "L1")
@pytest.mark.parametrize("name", CASES)
def test_what_is_held_beside_a_clean_can_be_read(name: str, bounds: Bounds, by_chance: int) -> None:
    kind, planned, act = CASES[name]
    in_many_orders(f"hold and {name}", _setup(kind, planned), (hold, act), check, bounds, by_chance)


# --- crashes


def make(world: TableWorld) -> None:
    world.table().holds.create(seconds=HOUR)


def unmake(world: TableWorld) -> None:
    for one in world.table().holds:
        world.table().holds.delete(one)


def held(world: TableWorld) -> None:
    filled(world)
    make(world)


DYING = {"make": Case(make, token=False, ill=True), "delete": Case(unmake, held, token=False, ill=True)}


def crash(name: str, kind: Profile, plan: CrashPlan) -> None:
    def go_on(world: TableWorld) -> None:
        proceed(world)
        world.table().cleaning.run()
        unmake(world)
        assert len(world.table().holds) == 0

    scenario = replace(DYING[name].named(f"{name}_hold", setup_for(kind)), proceed=go_on)
    report = crash_everywhere(scenario, plan).assert_clean()
    assert leaks_of([report]) <= KEPT


@pytest.mark.row("K11", "N9")
@pytest.mark.parametrize("name", DYING)
def test_a_process_that_dies_while_it_makes_or_deletes_a_hold_stops_nobody(name: str) -> None:
    crash(name, Profile.S3, CrashPlan(share=0.2, twice=0.0))


@pytest.mark.row("K11", "N9")
def test_a_process_that_dies_while_it_writes_a_hold_on_a_disk_leaves_no_half_of_it() -> None:
    """Half of a hold would stop every clean, and every writer that cleans."""
    crash("make", Profile.LOCAL_POSIX, CrashPlan(twice=0.0))


@pytest.mark.slow
@pytest.mark.row("K11", "N9")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", DYING)
def test_a_process_that_makes_or_deletes_a_hold_dies_at_every_call(name: str, kind: Profile) -> None:
    crash(name, kind, CrashPlan(twice=0.1))
