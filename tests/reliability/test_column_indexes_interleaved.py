"""Indexes on columns are built in two phases beside writers, and with crashes: as `test_indexing_interleaved.py`, with a secondary index, which needs
the record index, and an index on an expression.

The table is copy-on-write and lists its files only. The quick suite has single orders (``tests/unit/services/test_column_indexes.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import pytest
from reliability.real_table import TableSetup, TableWorld, orders, world_with_rows
from reliability.service_runs import BREATHLESS, Act, crash, crash_scenario, in_many_orders
from reliability.test_indexing_interleaved import (
    BASE,
    GROUPS,
    MOVED,
    UPDATED,
    attempt,
    audit_indexed,
    cancelled,
    execute,
    holds,
    next_writer,
    rebuilt,
    upsert,
)
from reliability.test_indexing_interleaved import OPTIONS as FREE

from pyhudi_core.metadata_table import names
from pyhudi_core.metadata_table.index_definitions import read_definitions
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan, CrashScenario

Check = Callable[[TableWorld, History], None]


@dataclass(frozen=True)
class Kind:
    """An index on the column ``day``: how it is made, and what the table lists when it has it."""

    name: str
    using: str
    expr: str
    listed: tuple[str, ...]

    @property
    def how(self) -> tuple[list[str], str, dict[str, str]]:
        return ["day"], self.using, {"expr": self.expr} if self.expr else {}

    def create(self, table: HudiTable) -> object:
        return table.indexes.create(self.name, *self.how, if_not_exists=True)

    def schedule(self, table: HudiTable) -> object:
        return table.indexes.schedule(self.name, *self.how)

    def holds(self, *after: tuple[tuple[int, str, float], ...]) -> Check:
        checked = holds(*after, build=self.create, listed=self.listed)

        def check(world: TableWorld, history: History) -> None:
            checked(world, history)
            defined_as_listed(world.table())

        return check


SECONDARY = Kind("by_day", "", "", ("files", "record_index", "secondary_index_by_day"))
EXPRESSION = Kind("lower_day", "column_stats", "lower", ("expr_index_lower_day", "files"))
KINDS = [SECONDARY, EXPRESSION]
IDS = ["secondary", "expression"]


def defined_as_listed(table: HudiTable) -> None:
    """Every listed index on a column is defined, and no other one."""
    prefixes = names.SECONDARY_INDEX_PREFIX, names.EXPRESSION_INDEX_PREFIX
    found = read_definitions(table._opened.storage, table.config.index_defs_path)
    defined = {item.name for item in found if item.name.startswith(prefixes)}
    assert defined == {name for name in table.config.metadata_partitions if name.startswith(prefixes)}


@cache
def setup_of(kind: Kind, planned: bool, options: tuple[tuple[str, object], ...] = ()) -> TableSetup:
    chosen = {**FREE, **GROUPS}
    shared = SimOptions().shared
    made = world_with_rows(*BASE, setup=TableSetup(SimOptions(lease_s=60, shared=shared), chosen))
    made.table().metadata_table.create(["files"])
    if planned:
        assert kind.schedule(made.table())
    image, now = made.storage.image(), made.scheduler.time_ms
    sim = SimOptions(lease_s=60, shared=shared, image=image, start_ms=now + 1_000, seed=5)
    return TableSetup(sim, {**chosen, **dict(options)})


BESIDE: dict[str, tuple[Callable[[Kind], Act], Callable[[Kind], Check]]] = {
    "an upsert": (lambda _: upsert((1, "a", 11.0), (7, "a", 7.0)), lambda kind: kind.holds(BASE, UPDATED)),
    "a delete": (
        lambda _: attempt(lambda table: table.delete(orders((2, "a", 0.0)).select(["id", "day"]))),
        lambda kind: kind.holds(BASE, (BASE[0], BASE[2])),
    ),
    "a key of another partition": (lambda _: upsert((3, "a", 33.0)), lambda kind: kind.holds(BASE, MOVED)),
    "an overwrite": (
        lambda _: attempt(lambda table: table.insert_overwrite(orders((9, "a", 9.0)))),
        lambda kind: kind.holds(BASE, (BASE[2], (9, "a", 9.0))),
    ),
    "the same index": (lambda kind: attempt(kind.create), lambda kind: kind.holds(BASE)),
    "a cancel": (lambda _: attempt(cancelled), lambda kind: kind.holds(BASE)),
    "a drop": (
        lambda kind: attempt(lambda table: table.indexes.drop(kind.name, if_exists=True)),
        lambda kind: kind.holds(BASE),
    ),
    "a drop of what it needs": (
        lambda _: attempt(lambda table: table.indexes.drop("record_index", if_exists=True)),
        lambda kind: kind.holds(BASE),
    ),
    "a rebuild": (lambda _: attempt(rebuilt), lambda kind: kind.holds(BASE)),
}


def beside(kind: Kind, name: str, planned: bool, bounds: Bounds, by_chance: int) -> None:
    other, check = BESIDE[name]
    mine = execute if planned else attempt(kind.create)
    in_many_orders(f"{kind.name} {name}", setup_of(kind, planned), (mine, other(kind)), check(kind), bounds, by_chance)


@pytest.mark.slow
@pytest.mark.row("I7", "I14", "L5")
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "created"])
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
@pytest.mark.parametrize("name", BESIDE)
def test_an_index_on_a_column_beside_another_process_in_far_more_orders(name: str, kind: Kind, planned: bool) -> None:
    beside(kind, name, planned, Bounds(preemptions=2, schedules=150), 75)


@pytest.mark.slow
@pytest.mark.row("L5", "L6")
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
@pytest.mark.parametrize("breathless", [False, True])
def test_two_executors_of_one_index_on_a_column(kind: Kind, breathless: bool) -> None:
    setup = setup_of(kind, True, tuple(sorted(BREATHLESS.items())) if breathless else ())
    bounds = Bounds(preemptions=2, schedules=200)
    in_many_orders("two executors", setup, (execute, execute), kind.holds(BASE), bounds, 100, seed=3)


# --- crashes


def scenario(
    kind: Kind, operate: Callable[[HudiTable], object], planned: bool, profile: Profile
) -> CrashScenario[TableWorld]:
    def act(world: TableWorld) -> object:
        return operate(world.table())

    return crash_scenario("indexing", setup_of(kind, planned), act, next_writer, profile, None, audit_indexed)


def dropped(kind: Kind) -> Callable[[HudiTable], object]:
    return lambda table: table.indexes.drop(kind.name)


def scenarios(kind: Kind) -> dict[str, Callable[[Profile], CrashScenario[TableWorld]]]:
    return {
        "create": partial(scenario, kind, kind.create, False),
        "schedule": partial(scenario, kind, kind.schedule, False),
        "execute": partial(scenario, kind, lambda table: table.indexing.execute(), True),
        "cancel": partial(scenario, kind, cancelled, True),
        "drop_a_plan": partial(scenario, kind, dropped(kind), True),
    }


@pytest.mark.slow
@pytest.mark.row("K11", "L5")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("kind", KINDS, ids=IDS)
@pytest.mark.parametrize("name", scenarios(SECONDARY))
def test_an_index_on_a_column_dies_at_every_call(name: str, kind: Kind, profile: Profile) -> None:
    crash(scenarios(kind)[name](profile), CrashPlan(share=0.3, every_site=True))
