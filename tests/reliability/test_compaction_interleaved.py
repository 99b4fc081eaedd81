"""Compaction concurrent with writers, with another compaction, and with crashes: it changes no row, and each plan is completed once.

The table is merge-on-read with one file group that has a log, and one that has none. The quick suite takes a share of the orders and crashes, chosen
by a seed; the slow tests take far more. What log compaction promises, too, is in `compactions`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from reliability.compactions import BASE, COMPACTION, CRASHED, LIVES, MERGE_ON_READ, upsert
from reliability.real_table import SCHEMA, TableSetup, TableWorld, is_shared, orders, rows_of, table_world
from reliability.service_runs import budget, crash, few_or_many, in_many_orders
from support.samples import one_in

from pyhudi_core.opening import create_at
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.write.result import Commit

BESIDE = COMPACTION.beside()


@few_or_many((12, 4), (2_000, 500))
@pytest.mark.row("K6", "L4")
@pytest.mark.parametrize("name", one_in(2, BESIDE))
def test_a_compaction_beside_another_process(name: str, bounds: Bounds, by_chance: int) -> None:
    COMPACTION.explore(name, BESIDE[name], bounds, by_chance)


@pytest.mark.row("L6", "U16")
def test_two_executors_one_plan() -> None:
    COMPACTION.two_executors(Bounds(preemptions=1, schedules=budget(12)), budget(4))


@pytest.mark.row("L6", "U16")
def test_two_executors_that_take_each_other_for_dead() -> None:
    """Then each registers after the other, and only the last one can complete the plan, unless the first was faster."""
    COMPACTION.two_executors(Bounds(preemptions=1, schedules=budget(12)), budget(12), **LIVES["breathless"])


@pytest.mark.slow
@pytest.mark.row("L6", "U16")
@pytest.mark.parametrize("lives", LIVES)
def test_two_executors_in_far_more_orders(lives: str) -> None:
    COMPACTION.two_executors(Bounds(preemptions=2, schedules=2_000), 1_000, **LIVES[lives])


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
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), MERGE_ON_READ | SIMPLE)
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
    actors = (COMPACTION.execute if planned else COMPACTION.run, upsert((2, "a", 19.0)))
    setup = with_deleted_key(planned, indexed)
    in_many_orders(f"a late row, {name}", setup, actors, late_row_stays_what_it_was, bounds, by_chance)


@few_or_many((8, 4), (400, 100))
@pytest.mark.row("K6", "L4")
@pytest.mark.parametrize("name", one_in(3, LATE))
def test_a_late_row_on_a_deleted_key_beside_a_compaction_does_not_come_back(
    name: str, bounds: Bounds, by_chance: int
) -> None:
    late_row(name, bounds, by_chance)


# --- crashes


@pytest.mark.row("K11", "L6")
def test_a_compaction_that_dies_at_any_call_changes_no_row_and_is_finished() -> None:
    crash(COMPACTION.crashes("run", Profile.S3), CrashPlan(share=0.02, every_site=False))


@pytest.mark.slow
@pytest.mark.row("K11", "L6")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", CRASHED)
def test_a_compaction_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(COMPACTION.crashes(name, profile), CrashPlan(twice=0.1))
