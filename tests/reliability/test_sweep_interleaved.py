"""The sweep concurrent with writers and services, and killed at every call: it deletes no file that is needed, and the next one finishes it.

Every file counts as old enough, so nothing but the order of the looks protects the files of writers that begin, end or die meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from reliability.crash_states import crashed_before
from reliability.real_table import FULL, Row, TableSetup, TableWorld, orders, rows_of, world_with_rows
from reliability.service_runs import (
    BREATHLESS,
    Act,
    crash,
    crash_scenario,
    few_or_many,
    in_many_orders,
    wait_as_reserved,
)
from support.samples import one_in

from pyhudi_core.errors import CommitError
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan

BASE: tuple[Row, ...] = ((1, "a", 10.0), (2, "a", 20.0), (3, "b", 30.0))
OPTIONS = {**FULL, "pyhudi.sweep.min.age.minutes": 0}


@cache
def _setup(kind: str, planned: bool, dead: bool, options: tuple[tuple[str, object], ...] = ()) -> TableSetup:
    """A world with leaked files. ``planned``: a clustering is on the timeline; ``dead``: a writer has died."""
    empty = TableSetup(SimOptions(lease_s=60, shared=SimOptions().shared), {**OPTIONS, "hoodie.table.type": kind})
    made = world_with_rows(*BASE[:1], setup=empty)
    made.table().insert(orders(*BASE[1:]))
    first = made.table().timeline.commits[0].requested_time
    made.storage.put(f"day=a/leaked-0_1-2-3_{first}.parquet", b"nobody's")
    made.storage.put(f".hoodie/.temp/{first}/day=a/leaked-0_1-2-3_{first}.parquet.marker.CREATE", b"")
    made.storage.put(f".hoodie/.aux/.pyhudi/staged/{first}-abc", b"")
    if planned:
        assert made.table().clustering.schedule() is not None
    if dead:
        crashed_before(made, upsert((1, "a", -1.0)), "put", "*/staged/*")
    image, now = made.storage.image(), made.scheduler.time_ms
    sim = replace(empty.sim, image=image, start_ms=now + 1_000)
    return replace(empty, sim=sim, options={**empty.options, **dict(options)})


COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"


def sweep(world: TableWorld) -> object:
    return world.table().sweep.run()


def sweep_beside(world: TableWorld) -> object:
    """A sweep that a writer can overtake."""
    wait_as_reserved(world.table()._opened.context())
    return sweep(world)


def upsert(*rows: Row) -> Act:
    return lambda world: world.table().upsert(orders(*rows))


def cluster(world: TableWorld) -> object:
    return world.table().clustering.execute()


def cancel(world: TableWorld) -> object:
    table = world.table()
    plan = next(iter(table.timeline.pending))
    return table.clustering.cancel(plan)


def losing(act: Act) -> Act:
    """A process that another one may take for dead."""

    def tried(world: TableWorld) -> object:
        try:
            return act(world)
        except CommitError as lost:
            return lost

    return tried


def holds(*expected: Row) -> Callable[[TableWorld, History], None]:
    def check(world: TableWorld, history: History) -> None:
        assert not list(history.of("failed")), history
        found = world.table().check()
        assert not [f for f in found.findings if f.severity.value == "error"], found.findings
        world.wait()
        world.table().upsert(orders((90, "c", 90.0)))
        assert set(rows_of(world.table())) >= {(90, "c", 90.0), *expected}
        world.table().sweep.run()
        table = world.table()
        assert set(rows_of(table)) >= {(90, "c", 90.0), *expected}
        left = [f for f in table.check().findings if f.kind.value in ("leaked_file", "markers_left", "staged_left")]
        assert not left

    return check


BESIDE: dict[str, tuple[Callable[[], TableSetup], Act, Callable[[TableWorld, History], None]]] = {
    "an upsert": (lambda: _setup(COW, False, False), upsert((2, "a", 21.0)), holds((2, "a", 21.0), *BASE[::2])),
    "an append to logs": (lambda: _setup(MOR, False, False), upsert((2, "a", 21.0)), holds((2, "a", 21.0), *BASE[::2])),
    "the repair of a dead writer": (
        lambda: _setup(COW, False, True), upsert((2, "a", 21.0)), holds((2, "a", 21.0), *BASE[::2]),
    ),
    "a clustering": (lambda: _setup(COW, True, False), cluster, holds(*BASE)),
    "the cancel of a clustering": (lambda: _setup(COW, True, False), cancel, holds(*BASE)),
    "another sweep": (lambda: _setup(COW, False, False), sweep_beside, holds(*BASE)),
    "a writer that is taken for dead": (
        lambda: _setup(COW, False, True, tuple(sorted(BREATHLESS.items()))), losing(upsert((2, "a", 21.0))), holds(*BASE[::2]),
    ),
}  # fmt: skip


@few_or_many((30, 10), (1_500, 400))
@pytest.mark.row("T3", "L1")
@pytest.mark.parametrize("name", one_in(2, BESIDE))
def test_a_sweep_beside_another_process(name: str, bounds: Bounds, by_chance: int) -> None:
    setup, other, check = BESIDE[name]
    in_many_orders(name, setup(), (sweep_beside, other), check, bounds, by_chance)


def next_sweep(world: TableWorld) -> None:
    world.table().upsert(orders((90, "a", 90.0)))
    world.table().sweep.run()


@pytest.mark.one_in(2)
@pytest.mark.row("T3", "K11")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_sweep_that_dies_at_any_call_loses_nothing_and_is_finished(profile: Profile) -> None:
    crash(crash_scenario("sweep", _setup(COW, False, False), sweep, next_sweep, profile), CrashPlan())
