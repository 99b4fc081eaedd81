"""Compaction concurrent with writers, with another compaction, and with crashes: it changes no row, and each plan is completed once.

The table is merge-on-read with one file group that has a log, and one that has none. The quick suite takes a share of the orders and crashes, chosen
by a seed; the slow tests take far more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest
from reliability.crash_states import crashed_before
from reliability.real_table import (
    SCHEMA,
    Row,
    TableSetup,
    TableWorld,
    is_shared,
    orders,
    rows_of,
    table_world,
    world_with_rows,
)
from reliability.service_runs import BREATHLESS, Act, crash, crash_scenario, in_many_orders
from reliability.test_conflicts_interleaved import FULL, budget

from pyhudi_core.errors import CommitAbortedError, CommitConflictError
from pyhudi_core.model.instant import Action
from pyhudi_core.opening import create_at
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan, CrashScenario
from pyhudi_core.write.result import Commit

BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0))
OPTIONS = {**FULL, "hoodie.table.type": "MERGE_ON_READ"}


def setup_of(planned: bool, **options: object) -> TableSetup:
    return _setup(planned, tuple(sorted(options.items())))


@cache
def _setup(planned: bool, options: tuple[tuple[str, object], ...]) -> TableSetup:
    """A world with the table; ``planned``: a compaction of it is on the timeline."""
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), OPTIONS)
    made = world_with_rows(*BASE, setup=empty)
    made.table().upsert(orders((2, "a", 21.0)))
    if planned:
        made.table().compaction.schedule()
    image, now = made.storage.image(), made.scheduler.time_ms
    # Whoever takes another process for dead removes its files and markers, so these are shared as well.
    sim = replace(empty.sim, image=image, start_ms=now + 1_000, shared=SimOptions().shared if options else is_shared)
    return replace(empty, sim=sim, options={**OPTIONS, **dict(options)})


def run(world: TableWorld) -> object:
    return world.table().compaction.run()


def execute(world: TableWorld) -> object:
    """The work of a process that finds a plan; if another process completes the plan first, this one raises an error."""
    try:
        return world.table().compaction.execute()
    except (CommitAbortedError, CommitConflictError) as refused:
        return refused


def upsert(*rows: Row) -> Act:
    return lambda world: world.table().upsert(orders(*rows))


def overwrite(world: TableWorld) -> object:
    return world.table().insert_overwrite(orders((9, "a", 9.0)))


def holds(*expected: Row, completions: int | None = None) -> Callable[[TableWorld, History], None]:
    def check(world: TableWorld, history: History) -> None:
        assert not list(history.of("failed")), history
        table = world.table()
        assert rows_of(table) == tuple(sorted(expected))
        compactions = [i for i in table.timeline.commits if i.action is Action.COMMIT]
        assert completions is None or len(compactions) == completions
        found = table.check()
        assert not [f for f in found.findings if f.severity.value == "error"], found.findings
        # The next compaction finishes whatever is left, and changes no row either.
        world.wait()
        table.compaction.take_over()
        world.table().compaction.execute()
        world.table().compaction.run()
        table = world.table()
        assert rows_of(table) == tuple(sorted(expected))
        assert not table.timeline.pending.instants
        shown = tuple(
            sorted(
                tuple(row.values())
                for row in table.scan(["id", "day", "price"], mode="read_optimized").to_arrow().to_pylist()
            )
        )
        assert shown == tuple(sorted(expected)), "read-optimized queries show all"
        assert table.check().ok, table.check().findings

    return check


AFTER = ((1, "a", 10.0), (2, "a", 21.0), (3, "b", 30.0))
BESIDE: dict[str, tuple[bool, Act, Callable[[TableWorld, History], None]]] = {
    "an update of the group": (False, upsert((2, "a", 22.0)), holds(AFTER[0], (2, "a", 22.0), AFTER[2])),
    "an update and a new key, with a plan": (
        True, upsert((2, "a", 22.0), (7, "a", 7.0)), holds(AFTER[0], (2, "a", 22.0), (7, "a", 7.0), AFTER[2]),
    ),
    "an overwrite of the partition": (True, overwrite, holds((9, "a", 9.0), AFTER[2])),
    "another run": (False, run, holds(*AFTER, completions=1)),
}  # fmt: skip


def beside(name: str, bounds: Bounds, by_chance: int) -> None:
    planned, other, check = BESIDE[name]
    in_many_orders(name, setup_of(planned), (execute if planned else run, other), check, bounds, by_chance)


@pytest.mark.one_in(2)
@pytest.mark.row("K6", "L4")
@pytest.mark.parametrize("name", BESIDE)
def test_a_compaction_beside_another_process(name: str) -> None:
    beside(name, Bounds(preemptions=1, schedules=budget(12)), budget(4))


@pytest.mark.slow
@pytest.mark.row("K6", "L4")
@pytest.mark.parametrize("name", BESIDE)
def test_a_compaction_beside_another_process_in_far_more_orders(name: str) -> None:
    beside(name, Bounds(preemptions=2, schedules=2_000), 500)


def two_executors(bounds: Bounds, by_chance: int, **options: object) -> None:
    check = holds(*AFTER, completions=None if options else 1)
    in_many_orders("two executors", setup_of(True, **options), (execute, execute), check, bounds, by_chance, seed=3)


@pytest.mark.row("L6", "U16")
def test_two_executors_one_plan() -> None:
    two_executors(Bounds(preemptions=1, schedules=budget(12)), budget(4))


@pytest.mark.row("L6", "U16")
def test_two_executors_that_take_each_other_for_dead() -> None:
    """Then each registers after the other, and only the last one can complete the plan, unless the first was faster."""
    two_executors(Bounds(preemptions=1, schedules=budget(12)), budget(12), **BREATHLESS)


@pytest.mark.slow
@pytest.mark.row("L6", "U16")
@pytest.mark.parametrize("options", [{}, BREATHLESS], ids=["living", "breathless"])
def test_two_executors_in_far_more_orders(options: dict[str, object]) -> None:
    two_executors(Bounds(preemptions=2, schedules=2_000), 1_000, **options)


# --- a late row on a deleted key

SIMPLE = {"hoodie.index.type": "SIMPLE"}
LATE: dict[str, tuple[bool, bool]] = {
    "planned, with a record index": (True, True),
    "planned and executed beside it, with a record index": (False, True),
    "planned": (True, False),
}
"""Whether the compaction is planned before the write begins, and whether the table has a record index. Without one, a write knows only the plans that
were there when it began (decision 0039)."""


@cache
def with_deleted_key(planned: bool, indexed: bool) -> TableSetup:
    """The table with the price as event time, in which a log deleted the key 2."""
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), OPTIONS | SIMPLE)
    made = table_world(empty)
    create_at(made.home(), SCHEMA, "id", "day", "price", name="orders").upsert(orders(*BASE))
    if indexed:
        made.table().metadata_table.create(["record_index"])
    made.table().delete(orders((2, "a", 0.0)).select(["id", "day"]))
    if planned:
        made.table().compaction.schedule()
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(empty, sim=replace(empty.sim, image=image, start_ms=now + 1_000))


def late_row_stays_what_it_was(world: TableWorld, history: History) -> None:
    """The row is in the table only as a new row, after the compaction; then everybody finds it, and no later compaction changes that."""
    assert not list(history.of("failed")), history
    [write] = [event.value for event in history.of("ok") if isinstance(event.value, Commit)]
    late = [(2, "a", 19.0)] if write.stats.rows_inserted else []
    for _ in range(2):
        table = world.table()
        assert rows_of(table) == tuple(sorted([BASE[0], *late, BASE[2]]))
        assert table.scan(SCHEMA.names, where="id = 2").to_arrow().num_rows == len(late)
        found = table.check()
        assert not [f for f in found.findings if f.severity.value == "error"], found.findings
        world.wait()
        table.compaction.take_over()
        world.table().compaction.execute()
        world.table().compaction.run()
    options = {name: value for name, value in world.setup.options.items() if name not in SIMPLE}
    TableWorld(world.sim, replace(world.setup, options=options)).table().upsert(orders((2, "a", 50.0)))
    assert rows_of(world.table()) == (BASE[0], (2, "a", 50.0), BASE[2])


def late_row(name: str, bounds: Bounds, by_chance: int) -> None:
    planned, indexed = LATE[name]
    actors = (execute if planned else run, upsert((2, "a", 19.0)))
    setup = with_deleted_key(planned, indexed)
    in_many_orders(f"a late row, {name}", setup, actors, late_row_stays_what_it_was, bounds, by_chance)


@pytest.mark.one_in(3)
@pytest.mark.row("K6", "L4")
@pytest.mark.parametrize("name", LATE)
def test_a_late_row_on_a_deleted_key_beside_a_compaction_does_not_come_back(name: str) -> None:
    late_row(name, Bounds(preemptions=1, schedules=budget(8)), budget(4))


@pytest.mark.slow
@pytest.mark.row("K6", "L4")
@pytest.mark.parametrize("name", LATE)
def test_a_late_row_on_a_deleted_key_in_far_more_orders(name: str) -> None:
    late_row(name, Bounds(preemptions=2, schedules=400), 100)


# --- crashes


def next_writer(world: TableWorld) -> None:
    """A writer, and then the process that maintains the table."""
    world.table().upsert(orders((90, "a", 90.0)))
    world.table().compaction.take_over()
    world.table().compaction.execute()


def scenario(
    name: str, operate: Act, planned: bool, profile: Profile, prepare: Act | None = None
) -> CrashScenario[TableWorld]:
    return crash_scenario(name, setup_of(planned), operate, next_writer, profile, prepare)


def with_dead_executor(world: TableWorld) -> None:
    """A process that died after it wrote its files."""
    crashed_before(world, execute, "list", "*/.temp/*")


SCENARIOS: dict[str, Callable[[Profile], CrashScenario[TableWorld]]] = {
    "run": partial(scenario, "run", run, False),
    "schedule": partial(scenario, "schedule", lambda world: world.table().compaction.schedule(), False),
    "execute": partial(scenario, "execute", lambda world: world.table().compaction.execute(), True),
    "take_over": partial(
        scenario, "take_over", lambda world: world.table().compaction.take_over(), True, prepare=with_dead_executor
    ),
}


@pytest.mark.row("K11", "L6")
def test_a_compaction_that_dies_at_any_call_changes_no_row_and_is_finished() -> None:
    crash(SCENARIOS["run"](Profile.S3), CrashPlan(share=0.02, every_site=False))


@pytest.mark.slow
@pytest.mark.row("K11", "L6")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_compaction_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(SCENARIOS[name](profile), CrashPlan(twice=0.1))
