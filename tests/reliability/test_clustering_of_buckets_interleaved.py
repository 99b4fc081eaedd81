"""Clustering of consistent hashing in many orders of steps: with a writer, a compaction, a clean and another clustering, and crashed at every call.

In every order each key is there once, in the bucket that has its hash, and a later writer and a later clustering go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

import pytest
from reliability.crash_states import crashed_before
from reliability.real_table import OPTIONS, SCHEMA, Row, TableSetup, TableWorld, is_shared, orders, rows_of, table_world
from reliability.service_runs import Act, budget, crash, crash_scenario, in_many_orders
from reliability.test_clustering_interleaved import attempt, audit_clustered

from pyhudi_core.errors import CommitConflictError
from pyhudi_core.index.hash_ranges import ranges_of
from pyhudi_core.model.instant import Action
from pyhudi_core.opening import create_at
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan, CrashScenario
from pyhudi_core.transaction.record import record_store

TABLE = {
    **OPTIONS,
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.bucket.index.num.buckets": 2,
    "hoodie.bucket.index.max.num.buckets": 4,
    "hoodie.bucket.index.split.threshold": 1e-6,
    "hoodie.bucket.index.merge.threshold": 0,
    "pyhudi.commit.retries": 2,
}
ALLOW = {"hoodie.clustering.updates.strategy": "allow"}
ROWS: tuple[Row, ...] = tuple((key, "a", 1.0) for key in range(1, 5))
UPDATED: tuple[Row, ...] = ((1, "a", 1.0), (2, "a", 9.0), (3, "a", 1.0), (4, "a", 1.0), (7, "a", 7.0))


@cache
def setup_of(*, planned: bool, more: tuple[tuple[str, object], ...] = (), everything: bool = False) -> TableSetup:
    """A world with the table: two buckets with logs; ``planned``: a clustering that splits them is on the timeline."""
    chosen = TableSetup(SimOptions(lease_s=60, shared=is_shared), TABLE)
    made = table_world(chosen)
    create_at(made.home(), SCHEMA, "id", "day", name="orders")
    made.table().upsert(orders(*ROWS))
    made.table().upsert(orders(*ROWS))
    if planned:
        assert made.table().clustering.schedule()
    image, now = made.storage.image(), made.scheduler.time_ms
    shared = SimOptions().shared if everything else is_shared
    sim = replace(chosen.sim, image=image, start_ms=now + 1_000, seed=5, shared=shared)
    return replace(chosen, sim=sim, options={**TABLE, **dict(more)})


run = attempt(lambda world: world.table().clustering.run())
execute = attempt(lambda world: world.table().clustering.execute())
compact = attempt(lambda world: world.table().compaction.run())
clean = attempt(lambda world: world.table().cleaning.run())
upsert = attempt(lambda world: world.table().upsert(orders((2, "a", 9.0), (7, "a", 7.0))))


def assert_whole(world: TableWorld, expected: tuple[Row, ...]) -> None:
    """Each row once, in a file group of the ranges that count; the doctor, which compares them, finds nothing."""
    table = world.table()
    assert rows_of(table) == tuple(sorted(expected))
    ring = ranges_of(world.home().context(), table.snapshot(), "day=a")
    assert ring is not None
    assert {piece.file_id for piece in table.snapshot().view.all_slices()} <= set(ring.file_ids)
    errors = [found for found in table.check().findings if found.severity.value == "error"]
    assert not errors, errors


def holds(world: TableWorld, history: History, *, writes: bool) -> None:
    """The rows are there as the second actor left them, and each key is still found by the next writer and clustering."""
    assert not list(history.of("failed")), history
    committed = writes and not isinstance(history.result("b"), Exception)
    expected = UPDATED if committed else ROWS
    assert_whole(world, expected)
    world.wait()
    world.table().clustering.take_over()
    world.table().clustering.execute()
    again = {key: (key, day, 3.0) for key, day, _ in expected}
    world.table().upsert(orders(*again.values()))
    assert_whole(world, tuple(again.values()))
    world.table().clustering.run()
    assert_whole(world, tuple(again.values()))
    assert not [i for i in world.table().timeline.pending if i.action is Action.CLUSTERING]


PLANNED, ALLOWED = {"planned": True}, {"planned": True, "more": tuple(ALLOW.items()), "everything": True}
BESIDE: dict[str, tuple[Mapping[str, object], Act, Act, bool]] = {
    "a writer": ({"planned": False}, run, upsert, True),
    "a writer, with a plan": (PLANNED, execute, upsert, True),
    "a writer that is allowed, with a plan": (ALLOWED, execute, upsert, True),
    "a compaction": ({"planned": False}, run, compact, False),
    "a clean, with a plan": (PLANNED, execute, clean, False),
    "another run": ({"planned": False}, run, run, False),
    "another execution": (PLANNED, execute, execute, False),
}


def beside(name: str, bounds: Bounds, by_chance: int) -> None:
    options, one, other, writes = BESIDE[name]
    setup: TableSetup = setup_of(**options)  # type: ignore[arg-type]
    in_many_orders(f"buckets and {name}", setup, (one, other), partial(holds, writes=writes), bounds, by_chance)


@pytest.mark.row("I12", "K6", "L3")
@pytest.mark.parametrize("name", ["a writer, with a plan"])
def test_a_clustering_of_buckets_concurrent_with_another_process(name: str) -> None:
    beside(name, Bounds(preemptions=1, schedules=budget(4)), budget(2))


@pytest.mark.slow
@pytest.mark.row("I12", "K6", "L3")
@pytest.mark.parametrize("name", BESIDE)
def test_a_clustering_of_buckets_concurrent_with_another_process_in_far_more_orders(name: str) -> None:
    beside(name, Bounds(preemptions=2, schedules=500), 150)


def next_writer(world: TableWorld) -> None:
    """The process that maintains the table, and then a writer, whose bucket may be one of the plan."""
    world.table().clustering.take_over()
    world.table().clustering.execute()
    try:
        world.table().upsert(orders((90, "a", 90.0)))
    except CommitConflictError:
        # The write published a plan that the dead process had decided; it is executed first.
        world.table().clustering.execute()
        world.table().upsert(orders((90, "a", 90.0)))


def scenario(
    name: str, operate: Act, planned: bool, profile: Profile, prepare: Act | None = None
) -> CrashScenario[TableWorld]:
    setup = setup_of(planned=planned, everything=True)
    return crash_scenario(name, setup, operate, next_writer, profile, prepare, audit_clustered)


def with_dead_executor(world: TableWorld) -> None:
    """A process that died after it wrote its files."""
    crashed_before(world, execute, "list", "*/.temp/*")


SCENARIOS: dict[str, Callable[[Profile], CrashScenario[TableWorld]]] = {
    "run": partial(scenario, "run", lambda world: world.table().clustering.run(), False),
    "execute": partial(scenario, "execute", lambda world: world.table().clustering.execute(), True),
    "take_over": partial(
        scenario, "take_over", lambda world: world.table().clustering.take_over(), True, prepare=with_dead_executor
    ),
}


@pytest.mark.row("I12", "K11", "L6")
def test_a_clustering_of_buckets_that_dies_at_any_call_is_finished() -> None:
    crash(SCENARIOS["execute"](Profile.S3), CrashPlan(share=0.02, every_site=False))


@pytest.mark.row("I12", "K11", "L6")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_new_ranges_are_published_by_others_if_their_process_dies_after_the_decision(profile: Profile) -> None:
    world = table_world(setup_of(planned=True, everything=True), profile=profile)
    crashed_before(world, execute, "put_if_absent", "*.hashing_meta")
    decided = record_store(world.storage).read()
    assert decided is not None
    next_writer(world)
    assert_whole(world, (*ROWS, (90, "a", 90.0)))
    assert all(world.storage.head(item.path) for item in decided.intent.publications), "executed again, not published"


@pytest.mark.slow
@pytest.mark.row("I12", "K11", "L6")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_clustering_of_buckets_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(SCENARIOS[name](profile), CrashPlan(twice=0.1))
