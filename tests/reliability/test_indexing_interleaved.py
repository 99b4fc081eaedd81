"""Indexing beside writers, beside another indexing, and with crashes: what is listed is true, and each plan is completed once.

The table is copy-on-write and lists its files only; a record index, column statistics and bloom filters are built. The quick suite takes a share of
the orders and crashes, chosen by a seed; the slow tests take far more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cache, partial

import pytest
from reliability.crash_scenarios import audit
from reliability.crash_states import crashed_before
from reliability.real_table import OPTIONS, Row, TableSetup, TableWorld, orders, rows_of, world_with_rows
from reliability.service_runs import BREATHLESS, Act, budget, crash, crash_scenario, in_many_orders
from support.metadata_tables import assert_metadata_is_true, left_in_metadata_table

from pyhudi_core.errors import CommitAbortedError, CommitConflictError, DuplicateKeyError, UnsupportedTableError
from pyhudi_core.model.instant import Action
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import Audit, CrashPlan, CrashScenario

BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0))
GROUPS = {
    "hoodie.metadata.record.index.min.filegroup.count": 2,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
    "pyhudi.commit.retries": 3,
}
INDEXES = ["record_index", "column_stats", "bloom_filters"]
LISTED = ("bloom_filters", "column_stats", "files", "record_index")


def setup_of(planned: bool, **options: object) -> TableSetup:
    return _setup(planned, tuple(sorted(options.items())))


@cache
def _setup(planned: bool, options: tuple[tuple[str, object], ...]) -> TableSetup:
    """A world with the table; ``planned``: an indexing of it is on the timeline."""
    chosen = {**OPTIONS, **GROUPS}
    shared = SimOptions().shared
    made = world_with_rows(*BASE, setup=TableSetup(SimOptions(lease_s=60, shared=shared), chosen))
    made.table().metadata_table.create(["files"])
    if planned:
        made.table().indexing.schedule(INDEXES)
    image, now = made.storage.image(), made.scheduler.time_ms
    # Without another seed the processes would make the file ids again that the table has.
    sim = SimOptions(lease_s=60, shared=shared, image=image, start_ms=now + 1_000, seed=5)
    return TableSetup(sim, {**chosen, **dict(options)})


def attempt(call: Callable[[HudiTable], object]) -> Act:
    """The call in a process of its own; if another process is in its way, the error is the result."""

    def attempted(world: TableWorld) -> object:
        try:
            return call(world.table())
        except (CommitAbortedError, CommitConflictError, DuplicateKeyError) as refused:
            return refused

    return attempted


run = attempt(lambda table: table.indexing.run(partitions=INDEXES))
execute = attempt(lambda table: table.indexing.execute())


def upsert(*rows: Row) -> Act:
    return attempt(lambda table: table.upsert(orders(*rows)))


def rebuilt(table: HudiTable) -> object:
    """A refusal is right beside an indexing that was given back after it had begun: it may as well be that of a program without heartbeats."""
    try:
        return table.metadata_table.rebuild()
    except UnsupportedTableError as refused:
        assert re.search("another program is writing|is being built by another process", str(refused))
        return refused


def cancelled(table: HudiTable) -> object:
    return [table.indexing.cancel(plan) for plan in table.timeline.pending if plan.action is Action.INDEXING]


def is_true(table: HudiTable, history: History | None = None) -> None:
    """No row is hidden, and what readers use says what is so."""
    assert table.check().ok, (table.check().findings, history)
    assert_metadata_is_true(table)


def indexed(table: HudiTable) -> object:
    return table.indexing.run(partitions=INDEXES)


def holds(
    *after: tuple[Row, ...], build: Callable[[HudiTable], object] = indexed, listed: tuple[str, ...] = LISTED
) -> Callable[[TableWorld, History], None]:
    """The rows are one of these; and the table can be indexed by ``build``, or is: then it lists these partitions."""
    expected = {tuple(sorted(rows)) for rows in after}

    def check(world: TableWorld, history: History) -> None:
        assert not history.of("failed"), [str(event.value) for event in history.of("failed")]
        table = world.table()
        errors = [found for found in table.check().findings if found.severity.value == "error"]
        assert not errors, errors
        rows = rows_of(table)
        assert rows in expected, (rows, history)
        if table.config.metadata_partitions:
            assert_metadata_is_true(table)
        # Whatever is left is finished, and changes no row.
        world.wait()
        world.table().indexing.take_over()
        keys = [row[0] for row in rows]
        if len(keys) == len(set(keys)):
            build(world.table())
            assert world.table().config.metadata_partitions == listed
        table = world.table()
        assert rows_of(table) == rows
        assert not table.timeline.pending.instants
        assert not table.config.metadata_partitions_inflight
        is_true(table, history)
        assert not left_in_metadata_table(table)
        world.table().upsert(orders((80, "a", 8.0)))
        is_true(world.table())

    return check


UPDATED = ((1, "a", 11.0), *BASE[1:], (7, "a", 7.0))
MOVED = (*BASE, (3, "a", 33.0))
BESIDE: dict[str, tuple[Act, Callable[[TableWorld, History], None]]] = {
    "an upsert": (upsert((1, "a", 11.0), (7, "a", 7.0)), holds(BASE, UPDATED)),
    "a delete": (
        attempt(lambda table: table.delete(orders((2, "a", 0.0)).select(["id", "day"]))),
        holds(BASE, (BASE[0], BASE[2])),
    ),
    "a key of another partition": (upsert((3, "a", 33.0)), holds(BASE, MOVED)),
    "an overwrite": (
        attempt(lambda table: table.insert_overwrite(orders((9, "a", 9.0)))),
        holds(BASE, (BASE[2], (9, "a", 9.0))),
    ),
    "another indexing": (run, holds(BASE)),
    "a cancel": (attempt(cancelled), holds(BASE)),
    "a drop": (attempt(lambda table: table.indexes.drop("record_index", if_exists=True)), holds(BASE)),
    "a rebuild": (attempt(rebuilt), holds(BASE)),
}


def beside(name: str, planned: bool, bounds: Bounds, by_chance: int) -> None:
    other, check = BESIDE[name]
    in_many_orders(name, setup_of(planned), (execute if planned else run, other), check, bounds, by_chance)


@pytest.mark.row("I14", "L5")
@pytest.mark.parametrize("name", ["an upsert", "a key of another partition"])
def test_an_indexing_beside_another_process(name: str) -> None:
    beside(name, True, Bounds(preemptions=1, schedules=budget(1)), budget(2))


@pytest.mark.slow
@pytest.mark.row("I14", "L5")
@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("name", BESIDE)
def test_an_indexing_beside_another_process_in_far_more_orders(name: str, planned: bool) -> None:
    beside(name, planned, Bounds(preemptions=2, schedules=400), 150)


@pytest.mark.row("L5", "L6")
def test_two_executors_of_one_indexing() -> None:
    in_many_orders(
        "two executors", setup_of(True, **BREATHLESS), (execute, execute), holds(BASE),
        Bounds(preemptions=1, schedules=budget(1)), budget(1), seed=3,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.row("L5", "L6")
@pytest.mark.parametrize("options", [{}, BREATHLESS], ids=["living", "breathless"])
def test_two_executors_of_one_indexing_in_far_more_orders(options: dict[str, object]) -> None:
    bounds = Bounds(preemptions=2, schedules=400)
    in_many_orders("two executors", setup_of(True, **options), (execute, execute), holds(BASE), bounds, 300, seed=3)


# --- crashes


def next_writer(world: TableWorld) -> None:
    """A writer, and then the process that looks after the table."""
    world.table().upsert(orders((90, "c", 90.0)))
    world.table().indexing.take_over()
    world.table().indexing.execute()


def with_dead_executor(world: TableWorld) -> None:
    """A process that died after its first phase."""
    crashed_before(world, lambda world: world.table().indexing.execute(), "put", "*.build.*")


def with_begun_build(world: TableWorld) -> None:
    """A process that died between its phases."""
    crashed_before(world, lambda world: world.table().indexing.execute(), "put_if_absent", "*_000000*.hfile")


def audit_indexed(world: TableWorld, rows: Hashable) -> Audit:
    found = audit(world, rows)
    table = world.table()
    building = table.config.metadata_partitions_inflight
    return replace(found, problems=(*found.problems, *(f"{name} is still being built" for name in building)))


def scenario(
    operate: Callable[[HudiTable], object], planned: bool, profile: Profile, prepare: Act | None = None
) -> CrashScenario[TableWorld]:
    def act(world: TableWorld) -> object:
        return operate(world.table())

    return crash_scenario("indexing", setup_of(planned), act, next_writer, profile, prepare, audit_indexed)


def with_indexes(world: TableWorld) -> None:
    world.table().indexing.run(partitions=INDEXES)


SCENARIOS: dict[str, Callable[[Profile], CrashScenario[TableWorld]]] = {
    "run": partial(scenario, lambda table: table.indexing.run(partitions=INDEXES), False),
    "drop": partial(scenario, lambda table: table.indexes.drop("column_stats"), False, prepare=with_indexes),
    "drop_a_plan": partial(scenario, lambda table: table.indexes.drop("record_index"), True),
    "schedule": partial(scenario, lambda table: table.indexing.schedule(INDEXES), False),
    "execute": partial(scenario, lambda table: table.indexing.execute(), True),
    "cancel": partial(scenario, cancelled, True),
    "cancel_a_build": partial(scenario, cancelled, True, prepare=with_dead_executor),
    "take_over": partial(scenario, lambda table: table.indexing.take_over(), True, prepare=with_dead_executor),
    "take_over_late": partial(scenario, lambda table: table.indexing.take_over(), True, prepare=with_begun_build),
}


@pytest.mark.row("K11", "L5")
@pytest.mark.parametrize("name", ["execute"])
def test_an_indexing_that_dies_at_any_call_hides_no_row_and_is_finished(name: str) -> None:
    crash(SCENARIOS[name](Profile.S3), CrashPlan(share=0.006, every_site=False))


@pytest.mark.slow
@pytest.mark.row("K11", "L5")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_indexing_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(SCENARIOS[name](profile), CrashPlan(share=0.3, every_site=True))
