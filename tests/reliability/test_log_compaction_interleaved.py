"""Log compaction concurrent with writers, with another compaction, and with crashes: it changes no row, and each plan is completed once.

The table is merge-on-read with one file group that has two logs, and one that has none. The quick suite takes a share of the orders and crashes, chosen
by a seed; the slow tests take far more. What compaction promises, too, is in `compactions`.
"""

from __future__ import annotations

import pytest
from reliability.compactions import AFTER, CRASHED, LIVES, LOG_COMPACTION, upsert
from reliability.service_runs import Act, Check, budget, crash, few_or_many
from support.samples import one_in

from pyhudi_core.testing import Bounds, Profile
from pyhudi_core.testing.crash_cases import CrashPlan

HOLDS = LOG_COMPACTION.beside()
BESIDE: dict[str, tuple[bool, Act, Check]] = {
    "an update of the group": HOLDS["an update of the group"],
    "an update and a new key, with a plan": HOLDS["an update and a new key, with a plan"],
    "an append to a log of a writer that may be older": (
        True,
        upsert((2, "a", 22.0)),
        LOG_COMPACTION.holds(AFTER[0], (2, "a", 22.0), AFTER[2]),
    ),
    "an overwrite of the partition": HOLDS["an overwrite of the partition"],
    "another run": HOLDS["another run"],
    "a compaction": (False, lambda world: world.table().compaction.run(), LOG_COMPACTION.holds(*AFTER)),
}


@few_or_many((8, 2), (2_000, 500))
@pytest.mark.row("K6", "N4")
@pytest.mark.parametrize("name", one_in(3, BESIDE))
def test_a_log_compaction_beside_another_process(name: str, bounds: Bounds, by_chance: int) -> None:
    LOG_COMPACTION.explore(name, BESIDE[name], bounds, by_chance)


@pytest.mark.row("L6", "N4")
def test_two_executors_of_one_log_compaction() -> None:
    LOG_COMPACTION.two_executors(Bounds(preemptions=1, schedules=budget(8)), budget(2))


@pytest.mark.row("L6", "N4")
def test_two_executors_of_one_log_compaction_that_take_each_other_for_dead() -> None:
    """Then each registers after the other, and only the last one can complete the plan, unless the first was faster."""
    LOG_COMPACTION.two_executors(Bounds(preemptions=1, schedules=budget(8)), budget(6), **LIVES["breathless"])


@pytest.mark.slow
@pytest.mark.row("L6", "N4")
@pytest.mark.parametrize("lives", LIVES)
def test_two_executors_of_one_log_compaction_in_far_more_orders(lives: str) -> None:
    LOG_COMPACTION.two_executors(Bounds(preemptions=2, schedules=2_000), 1_000, **LIVES[lives])


@pytest.mark.row("K11", "L6")
def test_a_log_compaction_that_dies_at_any_call_changes_no_row_and_is_finished() -> None:
    crash(LOG_COMPACTION.crashes("run", Profile.S3), CrashPlan(share=0.02, every_site=False))


@pytest.mark.slow
@pytest.mark.row("K11", "L6")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", CRASHED)
def test_a_log_compaction_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(LOG_COMPACTION.crashes(name, profile), CrashPlan(twice=0.1))
