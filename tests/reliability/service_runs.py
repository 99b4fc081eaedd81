"""What explorations and crashes of table services share: two processes in many orders, and a process that dies while it works.

A test file makes the table of its service (`TableSetup`), says what the processes do (`Act`) and what has to be true in the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from dataclasses import replace

import pytest
from reliability.crash_scenarios import EXPIRES_S, audit, read
from reliability.real_table import TableSetup, TableWorld, table_world

from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.testing import Bounds, History, Profile, SimOptions, explore, explore_randomly
from pyhudi_core.testing.crash_cases import Audit, CrashPlan, CrashReport, CrashScenario, Remains
from pyhudi_core.testing.crashes import crash_everywhere
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import begin

Act = Callable[[TableWorld], object]
Check = Callable[[TableWorld, History], None]
BREATHLESS = {"hoodie.client.heartbeat.interval_in_ms": 1, "hoodie.client.heartbeat.tolerable.misses": 0}
"""Every process takes every other one for dead at once."""


def wait_as_reserved(context: TableContext) -> None:
    """Wait as long as the reservation of a writer does: for processes that reserve no time, such as an archival or a sweep.

    Simulated time passes only while all processes wait. So a process that never waits would have ended, in every order, before a writer that begins
    at the same time has reserved its time.
    """
    context.runtime.clock.sleep(begin.skew_wait_ms(context, Timeline(())) / 1000)  # no other program writes here


def budget(quick: int) -> int:
    """Number of schedules; `make evidence` sets the factor PYHUDI_EXPLORE."""
    return quick * int(os.environ.get("PYHUDI_EXPLORE", "1"))


def few_or_many(few: tuple[int, int], many: tuple[int, int]) -> pytest.MarkDecorator:
    """The parameters ``bounds`` and ``by_chance`` of a test: so many schedules within the bounds, and by chance, quickly; and far more at night."""
    quick = (Bounds(preemptions=1, schedules=budget(few[0])), budget(few[1]))
    slow = pytest.param(Bounds(preemptions=2, schedules=many[0]), many[1], marks=pytest.mark.slow)
    return pytest.mark.parametrize(("bounds", "by_chance"), [quick, slow], ids=["few orders", "many orders"])


def in_many_orders(
    name: str, setup: TableSetup, actors: tuple[Act, Act], check: Check, bounds: Bounds, by_chance: int, seed: int = 7
) -> None:
    """Two processes in all orders within the bounds, then in some by chance."""

    def world() -> TableWorld:
        return table_world(setup)

    report = explore(world, actors, check, bounds).assert_clean()
    drawn = explore_randomly(world, actors, check, Bounds(schedules=by_chance), seed=seed, priorities=True)
    print(f"{name}: {report.schedules} schedules, all {report.exhausted}; {drawn.assert_clean().schedules} by chance")


def crash_scenario(
    name: str,
    setup: TableSetup,
    operate: Act,
    proceed: Act,
    profile: Profile,
    prepare: Act | None = None,
    audited: Callable[[TableWorld, Hashable], Audit] = audit,
) -> CrashScenario[TableWorld]:
    """A service that dies. ``proceed`` is the next writer, and then the process that looks after the table. All files are shared."""
    chosen = replace(setup, sim=replace(setup.sim, shared=SimOptions().shared))

    def world(remains: Remains | None) -> TableWorld:
        if remains is None:
            made = table_world(chosen, profile=profile)
            if prepare is not None:
                prepare(made)
            return made
        made = table_world(chosen, profile=profile, image=remains.image, start_ms=remains.time_ms, seed=1)
        made.storage.unfinished.update(remains.unfinished)
        return made

    return CrashScenario(name, world, operate, read, proceed, audited, expires_s=EXPIRES_S)


def crash(scenario: CrashScenario[TableWorld], plan: CrashPlan) -> CrashReport:
    """Crash it as the plan says: no promise is broken, and no file is left that no commit names."""
    report = crash_everywhere(scenario, plan).assert_clean()
    assert not report.leaks
    points = sum(report.points.values()) + report.chained
    assert points, "nothing was crashed: the plan needs a larger share"
    print(f"{scenario.name}: {points} crashes, {report.twice} of the next writer")
    return report
