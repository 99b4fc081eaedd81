"""Compaction of the metadata table beside writers, beside itself and under crashes: it stays true, and each plan is completed once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from reliability.crash_states import with_kept_metadata_table
from reliability.metadata_services import it_is_true_after, next_writer_and, upsert
from reliability.real_table import OPTIONS, TableSetup, TableWorld, is_shared, orders, table_world
from reliability.service_runs import Act, Check, budget, crash, crash_scenario, in_many_orders

from pyhudi_core.errors import CommitAbortedError
from pyhudi_core.model.instant import Action
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan, CrashScenario
from pyhudi_core.testing.exploring import replay


@cache
def _setup(shared: bool) -> TableSetup:
    setup = TableSetup(SimOptions(lease_s=60, shared=is_shared), dict(OPTIONS))
    made = table_world(setup)
    with_kept_metadata_table(made)
    made.table().upsert(orders((2, "b", 20.0)))
    image, now = made.storage.image(), made.scheduler.time_ms
    everything = SimOptions().shared
    return replace(
        setup, sim=replace(setup.sim, image=image, start_ms=now + 1_000, shared=is_shared if shared else everything)
    )


def run(world: TableWorld) -> object:
    try:
        return world.table().metadata_compaction.run()
    except CommitAbortedError as refused:
        return refused


def finished(world: TableWorld) -> None:
    """Whoever looks after the table later executes what is left."""
    world.table().metadata_compaction.take_over()
    world.table().metadata_compaction.execute()


it_is_true = it_is_true_after(finished)
PAIRS: dict[str, tuple[Act, Check]] = {
    "a writer": (upsert, it_is_true(1, 2, 3, 7)),
    "another run": (run, it_is_true(1, 2, 3)),
}


def beside(name: str, bounds: Bounds, by_chance: int) -> None:
    other, check = PAIRS[name]
    in_many_orders(name, _setup(True), (run, other), check, bounds, by_chance, seed=5)


@pytest.mark.row("L6")
def test_a_compaction_of_the_metadata_table_beside_a_writer() -> None:
    beside("a writer", Bounds(preemptions=1, schedules=budget(2)), budget(1))


@pytest.mark.row("L6")
def test_a_commit_between_the_two_timelines_that_a_plan_is_made_from_is_not_merged_twice() -> None:
    """The plan knew the commit from the data table's timeline alone: its logs were compacted, and read once more after that, so rows counted twice."""
    between: list[bool] = []

    def check(world: TableWorld, history: History) -> None:
        it_is_true(1, 2, 3, 7)(world, history)
        completed = world.table().timeline.commits[-1].completion_time or ""
        [made] = [i for i in world.table().metadata_compaction.context.folder.load() if i.action is Action.COMMIT]
        between.append(made.requested_time < completed <= (made.completion_time or ""))

    replay(lambda: table_world(_setup(True)), (run, upsert), check, "a*21 b*14 a*3 b").assert_clean()
    assert between == [True]


@pytest.mark.slow
@pytest.mark.row("L6")
@pytest.mark.parametrize("name", PAIRS)
def test_a_compaction_of_the_metadata_table_in_far_more_orders(name: str) -> None:
    beside(name, Bounds(preemptions=1, schedules=400), 200)


def scenario(profile: Profile) -> CrashScenario[TableWorld]:
    def operate(world: TableWorld) -> object:
        return world.table().metadata_compaction.run()

    return crash_scenario("metadata_compaction", _setup(False), operate, next_writer_and(finished), profile)


@pytest.mark.row("L6")
def test_a_compaction_of_the_metadata_table_that_dies_is_finished() -> None:
    crash(scenario(Profile.S3), CrashPlan(share=0.002, every_site=False))


@pytest.mark.slow
@pytest.mark.row("L6")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_compaction_of_the_metadata_table_dies_at_every_call(profile: Profile) -> None:
    crash(scenario(profile), CrashPlan(share=0.3))
