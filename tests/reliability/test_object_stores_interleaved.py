"""What is particular to object stores, on each of the three: calls that are made at once have no order, answers are lost, and nothing takes more rounds
than it should.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from reliability.crash_scenarios import scenarios, setup_for
from reliability.real_table import OPTIONS, Row, TableSetup, TableWorld, orders, rows_of, table_world

from pyhudi_core.storage.at_once import all_of, each
from pyhudi_core.testing import (
    Bounds,
    CrashPlan,
    Fault,
    History,
    Profile,
    Report,
    SimOptions,
    SimWorld,
    crash_everywhere,
    explore,
    explore_randomly,
)
from pyhudi_core.testing.scheduler import CRASH
from pyhudi_core.testing.sim_executor import OUT_OF_TURN

FACTOR = int(os.environ.get("PYHUDI_EXPLORE", "1"))
STORES = (Profile.S3, Profile.GCS, Profile.AZURE)
SETUP = TableSetup(
    SimOptions(one_machine=True, lease_s=60),
    {**OPTIONS, "hoodie.metadata.enable": True, "hoodie.time.generator.max_expected_clock_skew_ms": 0},
    real_lock=True,
)
BEFORE: tuple[Row, ...] = ((1, "a", 1.0), (2, "a", 2.0))
AFTER: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 2.0), (3, "b", 3.0))


@cache
def _start(profile: Profile) -> tuple[object, int]:
    """The objects of a table with a metadata table and three commits, and the time."""
    world = table_world(SETUP, profile=profile)
    table = world.create()
    for price in (0.0, 0.5, 1.0):
        table.upsert(orders((1, "a", price), (2, "a", 2.0)))
    return world.storage.image(), world.scheduler.time_ms + 1_000


def world_on(profile: Profile, **sim: object) -> TableWorld:
    image, start_ms = _start(profile)
    return table_world(SETUP, profile=profile, image=image, start_ms=start_ms, seed=1, **sim)


def upsert(world: TableWorld) -> None:
    world.table().upsert(orders((1, "a", 10.0), (3, "b", 3.0)))


def upsert_of_another_key(world: TableWorld) -> None:
    world.table().upsert(orders((2, "a", 20.0)))


def all_or_nothing(world: TableWorld, history: History) -> None:
    """P1, P2, P3: what was acknowledged is there, what has failed is not, and the table can be written."""
    assert not history.of("broken"), history.of("broken")
    found = {row[0]: row for row in rows_of(world.table())}
    assert len(found) == len(rows_of(world.table())), "a key is there twice"
    first = (found[1], found.get(3)) == (AFTER[0], AFTER[2])
    assert first or (found[1], found.get(3)) == (BEFORE[0], None), found
    second = found[2] == (2, "a", 20.0)
    for actor, done in (("a", first), ("b", second)):
        assert done is (history.outcome(actor) == "ok") or history.outcome(actor) == "crashed", (actor, found)
    # What a crashed process has decided, the next writer publishes.
    allowed = [found]
    if not first and history.outcome("a") == "crashed":
        allowed += [{**rows, 1: AFTER[0], 3: AFTER[2]} for rows in allowed]
    if not second and history.outcome("b") == "crashed":
        allowed += [{**rows, 2: (2, "a", 20.0)} for rows in allowed]
    world.wait()
    world.table().upsert(orders((4, "a", 4.0)))
    after = {row[0]: row for row in rows_of(world.table())}
    assert len(after) == len(rows_of(world.table())), "a key is there twice"
    assert after in [{**rows, 4: (4, "a", 4.0)} for rows in allowed], after


def in_orders(profile: Profile, actors: list[Callable[[TableWorld], object]], bounds: Bounds) -> Report:
    report = explore(lambda: world_on(profile), actors, all_or_nothing, bounds).assert_clean()
    print(f"{profile.value}: {report.schedules} schedules, {report.complete} complete, all {report.exhausted}")
    return report


@pytest.mark.parametrize("profile", STORES, ids=lambda profile: profile.value)
def test_operations_take_as_many_rounds_on_each_store(profile: Profile) -> None:
    """The same bounds as over sockets (``test_rounds_on_s3.py``); here nothing depends on how busy the machine is."""
    world = world_on(profile)
    table = world.table()
    table.upsert(orders((1, "a", 5.0)))  # the handle knows the table then
    rounds = world.storage.rounds

    def taken(operation: Callable[[], object]) -> int:
        before = rounds.count
        operation()
        return rounds.count - before

    assert taken(lambda: table.upsert(orders((1, "a", 6.0)))) <= 15
    assert taken(lambda: table.insert(orders((7, "a", 7.0)))) <= 15
    assert taken(lambda: rows_of(world.table())) <= 4
    assert taken(lambda: world.table().snapshot_token()) <= 3


def test_rounds_are_the_longest_chain_of_calls_that_are_not_made_at_once() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    storage, executor = world.storage, world.runtime.executor

    def two(name: str) -> None:
        storage.put(name, b"")
        storage.head(name)

    each(storage, executor, two, ["a", "b", "c"])
    assert storage.rounds.count == 2
    all_of(storage, executor, lambda: each(storage, executor, two, ["d", "e"]), lambda: storage.head("a"))
    assert storage.rounds.count == 4
    each(storage, executor, storage.head, [f"n{number}" for number in range(17)])
    assert storage.rounds.count == 6, "sixteen are made at once"
    storage.delete_many(["a", "b", "c"])
    storage.delete_many([])
    assert storage.rounds.count == 7
    on_disk = SimWorld(SimOptions(profile=Profile.LOCAL_POSIX))
    each(on_disk.storage, on_disk.runtime.executor, on_disk.storage.head, ["a", "b", "c"])
    assert on_disk.storage.rounds.count == 3, "a disk is asked one after the other"


@pytest.mark.parametrize(("deferred", "orders_of_three"), [(0, 1), (1, 3), (2, 5), (9, 6)])
def test_an_exploration_tries_every_order_of_calls_that_are_made_at_once(deferred: int, orders_of_three: int) -> None:
    seen: set[str] = set()

    def act(world: SimWorld) -> None:
        made: list[str] = []
        names = each(world.storage, world.runtime.executor, lambda name: made.append(name) or name, "xyz")
        assert names == ["x", "y", "z"], "the results are in the order of the items"
        world.scheduler.note("order", "".join(made))

    def check(world: SimWorld, history: History) -> None:
        seen.update(event.value for event in history.of("order"))

    explore(SimWorld, [act], check, Bounds(preemptions=0, faults={OUT_OF_TURN: deferred})).assert_clean()
    assert len(seen) == orders_of_three


def test_a_seed_shuffles_each_group() -> None:
    def order(seed: int) -> list[int]:
        world = SimWorld(SimOptions(shuffled=seed))
        made: list[int] = []
        each(world.storage, world.runtime.executor, made.append, range(8))
        return made

    assert order(0) == [*range(8)]
    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == [*range(8)]


def test_an_upsert_in_which_some_calls_of_a_group_are_the_last_ones() -> None:
    bounds = Bounds(preemptions=0, faults={OUT_OF_TURN: 1}, every_call=True, schedules=12 * FACTOR)
    assert in_orders(Profile.S3, [upsert], bounds).complete > 1, "an upsert has groups of calls"


@pytest.mark.slow
@pytest.mark.parametrize("profile", STORES, ids=lambda profile: profile.value)
@pytest.mark.parametrize("seed", [1, 2])
def test_an_upsert_that_crashes_anywhere_inside_groups_in_an_order_by_chance(profile: Profile, seed: int) -> None:
    setup = setup_for(profile)
    setup = replace(setup, sim=replace(setup.sim, shuffled=seed))
    [scenario] = scenarios(setup, ("upsert_new_with_metadata_table",))
    report = crash_everywhere(scenario, CrashPlan(share=0.02, states=1.0)).assert_clean()
    print(f"{profile.value}, {seed}: {report.points[CRASH]} crashes, {sum(report.points.values())} cases")
    assert report.points[CRASH] > 40


@pytest.mark.slow
def test_an_upsert_in_which_two_calls_are_out_of_turn() -> None:
    bounds = Bounds(preemptions=0, faults={OUT_OF_TURN: 2}, every_call=True, schedules=150 * FACTOR)
    in_orders(Profile.S3, [upsert], bounds)


TROUBLE = {Fault.LOST_ACK.value: 1, OUT_OF_TURN: 1}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("profile", STORES, ids=lambda profile: profile.value)
def test_two_upserts_beside_each_other_with_a_lost_answer_and_calls_out_of_turn(profile: Profile) -> None:
    two_upserts(profile, 8)


@pytest.mark.slow
@pytest.mark.parametrize("profile", STORES, ids=lambda profile: profile.value)
def test_two_upserts_in_many_orders_with_a_lost_answer_a_crash_and_calls_out_of_turn(profile: Profile) -> None:
    two_upserts(profile, 100, **{CRASH: 1})


def two_upserts(profile: Profile, schedules: int, **more: int) -> None:
    def check(world: TableWorld, history: History) -> None:
        # What is not known to have happened is one of both; the caller asks for its status.
        for actor in "ab":
            if history.outcome(actor) == "failed" and "unknown" in str(history.error(actor)).lower():
                history.add(actor, "crashed", None)
        all_or_nothing(world, history)

    bounds = Bounds(crashes=more.get(CRASH, 0), faults=TROUBLE, schedules=schedules * FACTOR)
    actors = [upsert, upsert_of_another_key]
    explore_randomly(lambda: world_on(profile), actors, check, bounds, seed=3, priorities=True).assert_clean()
