"""Consistent hashing in many orders of steps: two writers make the metadata of a partition at once, and a writer dies at any call (P1, P2, P4)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from reliability.real_table import OPTIONS, SCHEMA, TableSetup, TableWorld, is_shared, orders, rows_of, table_world
from reliability.service_runs import Act, budget, crash, crash_scenario, in_many_orders

from pyhudi_core.index.hashing_metadata import load
from pyhudi_core.opening import create_at
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
TABLE = {**OPTIONS, **BUCKETS, "hoodie.table.type": "MERGE_ON_READ", "hoodie.bucket.index.num.buckets": 2}


@cache
def setup() -> TableSetup:
    """A world with the table; no partition has metadata yet."""
    chosen = TableSetup(SimOptions(lease_s=60, shared=is_shared), TABLE)
    made = table_world(chosen)
    create_at(made.home(), SCHEMA, "id", "day", name="orders")
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(chosen, sim=replace(chosen.sim, image=image, start_ms=now + 1_000))


def upsert(price: float, *keys: int, buckets: int = 2) -> Act:
    def act(world: TableWorld) -> object:
        options = {**world.setup.options, "hoodie.bucket.index.num.buckets": buckets}
        table = replace(world, setup=replace(world.setup, options=options)).table()
        return table.upsert(orders(*((key, "a", price) for key in keys)))

    return act


def check(world: TableWorld, history: History) -> None:
    """Each row is there once, in a file group that the one metadata names."""
    assert not list(history.of("fail")), history
    rows = rows_of(world.table())
    assert [key for key, _, _ in rows] == [1, 2, 3]
    assert {price for key, _, price in rows if key != 2} == {1.0, 2.0}
    found = load(world.storage, "day=a", lambda _: False)
    assert found is not None
    table = world.table()
    assert {piece.file_id for piece in table.snapshot().view.all_slices()} <= set(found.file_ids)
    assert table.check().ok, table.check().findings


def first_writers(bounds: Bounds, by_chance: int, buckets: int) -> None:
    actors = (upsert(1.0, 1, 2), upsert(2.0, 2, 3, buckets=buckets))
    in_many_orders(f"first writers, 2 and {buckets} buckets", setup(), actors, check, bounds, by_chance)


@pytest.mark.row("I12", "K7")
def test_two_first_writers_of_a_partition_use_one_metadata() -> None:
    first_writers(Bounds(preemptions=1, schedules=budget(8)), budget(4), buckets=3)


@pytest.mark.slow
@pytest.mark.row("I12", "K7")
@pytest.mark.parametrize("buckets", [2, 3])
def test_two_first_writers_of_a_partition_in_far_more_orders(buckets: int) -> None:
    first_writers(Bounds(preemptions=2, schedules=2_000), 500, buckets)


def next_writer(world: TableWorld) -> None:
    upsert(9.0, 90)(world)


@pytest.mark.slow
@pytest.mark.row("I12", "K11")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_first_write_of_a_partition_dies_at_every_call(profile: Profile) -> None:
    scenario = crash_scenario("first write", setup(), upsert(1.0, 1, 2), next_writer, profile)
    crash(scenario, CrashPlan(twice=0.1))
