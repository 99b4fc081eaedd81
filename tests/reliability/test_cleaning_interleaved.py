"""Cleaning concurrent with writers, readers, compaction, another clean and crashes: no promised state loses a file, and each plan is completed once.

The table has a file group with older slices, and one that no write changes. The quick suite takes a share of the orders and crashes,
chosen by a seed; the slow tests take far more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest
from reliability.crash_states import crashed_before
from reliability.real_table import FULL, Row, TableSetup, TableWorld, is_shared, orders, rows_of, world_with_rows
from reliability.service_runs import BREATHLESS, Act, budget, crash, crash_scenario, few_or_many, in_many_orders
from support.metadata_tables import build
from support.samples import one_in

from pyhudi_core.errors import CommitAbortedError, SnapshotExpiredError
from pyhudi_core.model.instant import Action
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan, CrashScenario

BASE: tuple[Row, ...] = ((1, "a", 10.0), (3, "b", 30.0))
OPTIONS = {**FULL, "hoodie.clean.commits.retained": 1}
PRICES = (10.0, 11.0, 12.0, 13.0)
"""Of row 1 after each write."""
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"


@cache
def _setup(kind: str, planned: bool, metadata: bool, options: tuple[tuple[str, object], ...] = ()) -> TableSetup:
    """A world with the table; ``planned``: a clean of it is on the timeline."""
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), {**OPTIONS, "hoodie.table.type": kind})
    made = world_with_rows(*BASE, setup=empty)
    if metadata:
        build(made.table())
    for price in PRICES[1:]:
        made.table().upsert(orders((1, "a", price)))
        if kind == MOR and price == PRICES[2]:
            made.table().compaction.run()
    if planned:
        assert made.table().cleaning.schedule() is not None
    image, now = made.storage.image(), made.scheduler.time_ms
    # A clean removes data files that others may read, so these are shared as well.
    sim = replace(empty.sim, image=image, start_ms=now + 1_000, shared=SimOptions().shared)
    return replace(empty, sim=sim, options={**empty.options, **dict(options)})


def run(world: TableWorld) -> object:
    return world.table().cleaning.run()


def execute(world: TableWorld) -> object:
    """The work of a process that finds a plan; if another one takes it over, this one raises an error."""
    try:
        return world.table().cleaning.execute()
    except CommitAbortedError as refused:
        return refused


def upsert(*rows: Row) -> Act:
    return lambda world: world.table().upsert(orders(*rows))


def travel(world: TableWorld) -> object:
    """Read every state: each is complete, or gone, and nothing in between."""
    table = world.table()
    found: list[int | None] = []
    commits = table.timeline.commits
    prices = PRICES if len(commits) == len(PRICES) else (*PRICES[:3], *PRICES[2:])  # with the compaction
    for number, instant in enumerate(commits):
        try:
            rows = table.scan(["id", "price"], as_of=instant).to_arrow().to_pylist()
        except SnapshotExpiredError:
            found.append(None)
            continue
        shown = {row["id"]: row["price"] for row in rows}
        assert shown == {1: prices[number], 3: 30.0}, f"commit {number} shows {shown}"
        found.append(number)
    assert found[-2:] == [len(commits) - 2, len(commits) - 1], "the last commit, and the state before it, can be read"
    return found


def holds(*expected: Row) -> Callable[[TableWorld, History], None]:
    def check(world: TableWorld, history: History) -> None:
        assert not list(history.of("failed")), history
        assert rows_of(world.table()) == tuple(sorted(expected))
        found = world.table().check()
        assert not [f for f in found.findings if f.severity.value == "error"], found.findings
        world.wait()
        world.table().cleaning.take_over()
        world.table().cleaning.execute()
        world.table().compaction.execute()
        world.table().cleaning.run()
        table = world.table()
        assert rows_of(table) == tuple(sorted(expected))
        assert not table.timeline.pending.instants
        assert table.check().ok, table.check().findings

    return check


AFTER = ((1, "a", 13.0), BASE[1])
BESIDE: dict[str, tuple[str, bool, Act, Act, Callable[[TableWorld, History], None]]] = {
    "an update of the group": (COW, False, run, upsert((1, "a", 14.0)), holds((1, "a", 14.0), BASE[1])),
    "an execution and an update": (COW, True, execute, upsert((1, "a", 14.0)), holds((1, "a", 14.0), BASE[1])),
    "a reader of older states": (COW, True, execute, travel, holds(*AFTER)),
    "a reader of older states with logs": (MOR, True, execute, travel, holds(*AFTER)),
    "a compaction": (MOR, False, run, lambda world: world.table().compaction.run(), holds(*AFTER)),
    "another run": (COW, False, run, run, holds(*AFTER)),
}  # fmt: skip


@few_or_many((6, 2), (1_500, 400))
@pytest.mark.row("L1", "K6")
@pytest.mark.parametrize("name", one_in(2, BESIDE))
def test_a_clean_beside_another_process(name: str, bounds: Bounds, by_chance: int) -> None:
    kind, planned, act, other, check = BESIDE[name]
    in_many_orders(name, _setup(kind, planned, False), (act, other), check, bounds, by_chance)


def two_executors(bounds: Bounds, by_chance: int, **options: object) -> None:
    def once(world: TableWorld, history: History) -> None:
        holds(*AFTER)(world, history)
        assert len(world.table().timeline.filter(Action.CLEAN)) == 1

    setup = _setup(COW, True, False, tuple(sorted(options.items())))
    in_many_orders("two executors", setup, (execute, execute), once, bounds, by_chance, seed=3)


@pytest.mark.row("L6", "U16")
def test_two_executors_of_one_clean_that_take_each_other_for_dead() -> None:
    two_executors(Bounds(preemptions=1, schedules=budget(6)), budget(4), **BREATHLESS)


@pytest.mark.slow
@pytest.mark.row("L6", "U16")
@pytest.mark.parametrize("options", [{}, BREATHLESS], ids=["living", "breathless"])
def test_two_executors_of_one_clean_in_far_more_orders(options: dict[str, object]) -> None:
    two_executors(Bounds(preemptions=2, schedules=1_500), 500, **options)


# --- crashes


def next_writer(world: TableWorld) -> None:
    """A writer, and then the process that maintains the table."""
    world.table().upsert(orders((90, "a", 90.0)))
    world.table().cleaning.take_over()
    world.table().cleaning.execute()
    # If the dead process had decided, the writer has published that; the next look finds what it left.
    world.table().failed_writes.run()


def scenario(
    name: str, operate: Act, planned: bool, profile: Profile, metadata: bool = False, prepare: Act | None = None
) -> CrashScenario[TableWorld]:
    return crash_scenario(name, _setup(COW, planned, metadata), operate, next_writer, profile, prepare)


def with_dead_executor(world: TableWorld) -> None:
    """A process that had registered as the executor, and died at its first deletion."""
    crashed_before(world, execute, "delete", "*.parquet")


SCENARIOS: dict[str, Callable[[Profile], CrashScenario[TableWorld]]] = {
    "run": partial(scenario, "run", run, False),
    "run_with_metadata_table": partial(scenario, "run_with_metadata_table", run, False, metadata=True),
    "schedule": partial(scenario, "schedule", lambda world: world.table().cleaning.schedule(), False),
    "execute": partial(scenario, "execute", lambda world: world.table().cleaning.execute(), True),
    "take_over": partial(
        scenario, "take_over", lambda world: world.table().cleaning.take_over(), True, prepare=with_dead_executor
    ),
}


@pytest.mark.row("K11", "L6")
def test_a_clean_that_dies_at_any_call_loses_nothing_and_is_finished() -> None:
    crash(SCENARIOS["run_with_metadata_table"](Profile.S3), CrashPlan(share=0.01, every_site=False))


@pytest.mark.slow
@pytest.mark.row("K11", "L6")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_clean_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(SCENARIOS[name](profile), CrashPlan(twice=0.1))
