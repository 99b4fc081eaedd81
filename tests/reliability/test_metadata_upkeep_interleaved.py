"""Cleaning and archival of the metadata table beside writers, beside themselves and under crashes: it stays true, and reads never fail."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from reliability.crash_states import with_kept_metadata_table
from reliability.metadata_services import it_is_true_after, next_writer_and, upsert
from reliability.real_table import OPTIONS, TableSetup, TableWorld, is_shared, orders, table_world
from reliability.service_runs import Act, Check, budget, crash, crash_scenario, in_many_orders

from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.testing import Bounds, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan, CrashScenario

BOUNDS = {
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": 1,
    "hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2, "hoodie.archive.automatic": "false",
}  # fmt: skip


@cache
def _setup(shared: bool) -> TableSetup:
    """A table whose metadata table has three compactions; the data table's older instants are archived."""
    setup = TableSetup(SimOptions(lease_s=60, shared=is_shared), {**OPTIONS, **BOUNDS})
    made = table_world(setup)
    with_kept_metadata_table(made)
    for price in (20.0, 21.0, 22.0):
        made.table().upsert(orders((2, "b", price)))
        assert made.table().metadata_compaction.run()
    assert made.table().archival.run()
    image, now = made.storage.image(), made.scheduler.time_ms
    shown = is_shared if shared else SimOptions().shared
    return replace(setup, sim=replace(setup.sim, image=image, start_ms=now + 1_000, shared=shown))


def clean(world: TableWorld) -> object:
    try:
        return world.table().metadata_cleaning.run()
    except CommitAbortedError as refused:
        return refused


def archive(world: TableWorld) -> object:
    return world.table().metadata_archival.run()


def finished(world: TableWorld) -> None:
    """Whoever looks after the table later executes what is left."""
    world.table().metadata_cleaning.take_over()
    world.table().metadata_cleaning.execute()
    world.table().metadata_archival.take_over()


it_is_true = it_is_true_after(finished)
PAIRS: dict[str, tuple[Act, Act, Check]] = {
    "a clean and a writer": (clean, upsert, it_is_true(1, 2, 3, 7)),
    "a clean and archival": (clean, archive, it_is_true(1, 2, 3)),
    "archival and a writer": (archive, upsert, it_is_true(1, 2, 3, 7)),
    "archival twice": (archive, archive, it_is_true(1, 2, 3)),
}


def beside(name: str, bounds: Bounds, by_chance: int) -> None:
    act, other, check = PAIRS[name]
    in_many_orders(name, _setup(True), (act, other), check, bounds, by_chance, seed=5)


@pytest.mark.row("L1", "L6")
@pytest.mark.parametrize("name", ["a clean and a writer", "archival and a writer"])
def test_upkeep_of_the_metadata_table_beside_a_writer(name: str) -> None:
    beside(name, Bounds(preemptions=1, schedules=budget(2)), budget(1))


@pytest.mark.slow
@pytest.mark.row("L1", "L6")
@pytest.mark.parametrize("name", PAIRS)
def test_upkeep_of_the_metadata_table_in_far_more_orders(name: str) -> None:
    beside(name, Bounds(preemptions=1, schedules=400), 200)


def scenario(name: str, profile: Profile) -> CrashScenario[TableWorld]:
    return crash_scenario(name, _setup(False), SCENARIOS[name], next_writer_and(finished), profile)


SCENARIOS: dict[str, Act] = {
    "metadata_cleaning": lambda world: world.table().metadata_cleaning.run(),
    "metadata_archival": lambda world: world.table().metadata_archival.run(),
}


@pytest.mark.row("L6")
@pytest.mark.parametrize("name", SCENARIOS)
def test_upkeep_of_the_metadata_table_that_dies_is_finished(name: str) -> None:
    crash(scenario(name, Profile.S3), CrashPlan(share=0.015, every_site=False))


@pytest.mark.slow
@pytest.mark.row("L6")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", SCENARIOS)
def test_upkeep_of_the_metadata_table_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(scenario(name, profile), CrashPlan(share=0.3))
