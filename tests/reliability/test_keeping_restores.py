"""A restore that keeps the later state, crashed at storage calls and beside a writer: readers see one of the two states, and no commit is lost."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from reliability.crash_scenarios import KEPT, NEXT, Case, leaks_of, setup_for
from reliability.crash_states import BEFORE, filled
from reliability.real_table import FULL, TableSetup, TableWorld, is_shared, orders, rows_of, table_world
from reliability.service_runs import budget, in_many_orders

from pyhudi_core.errors import HudiError
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere

FIRST = tuple(sorted(BEFORE[:2]))
LATER = tuple(sorted(BEFORE))


def go_back(world: TableWorld) -> object:
    table = world.table()
    return table.restore(table.timeline.commits[0], keep=True)


def crash(profile: Profile, plan: CrashPlan) -> None:
    scenario = Case(go_back, token=False).named("restore_that_keeps", setup_for(profile))
    report = crash_everywhere(scenario, plan).assert_clean()
    assert leaks_of([report]) <= {*KEPT, "replaced_group_kept"}


@pytest.mark.row("K11")
def test_a_restore_that_keeps_leaves_one_of_the_two_states_wherever_it_dies() -> None:
    crash(Profile.S3, CrashPlan(share=0.02, every_site=False, twice=0.0))


@pytest.mark.slow
@pytest.mark.row("K11")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
def test_a_restore_that_keeps_leaves_one_of_the_two_states_after_a_crash_at_every_call(profile: Profile) -> None:
    crash(profile, CrashPlan(twice=0.05))


@cache
def _setup() -> TableSetup:
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), {**FULL, "pyhudi.commit.retries": 2})
    made = table_world(empty)
    filled(made)
    image, now = made.storage.image(), made.scheduler.time_ms
    return replace(empty, sim=replace(empty.sim, image=image, start_ms=now + 1_000, shared=SimOptions().shared))


def restore(world: TableWorld) -> str:
    try:
        return "restored" if go_back(world) else "nothing"
    except HudiError as refused:
        return type(refused).__name__


def write(world: TableWorld) -> str:
    try:
        world.table().upsert(orders(*NEXT))
    except HudiError as refused:
        return type(refused).__name__
    return "written"


def check(world: TableWorld, history: History) -> None:
    """The rows of the writer are there if it said so: a restore never overwrites a commit that it did not see."""
    assert not list(history.of("failed")), history
    world.wait()
    found = rows_of(world.table())
    states = (FIRST, LATER, tuple(sorted((*FIRST, *NEXT))), tuple(sorted((*LATER, *NEXT))))
    assert found in states, found
    restored, written = (history.result(actor) for actor in ("a", "b"))
    rows = FIRST if restored == "restored" else LATER
    assert found == tuple(sorted((*rows, *(NEXT if written == "written" else ())))), (found, restored, written)
    assert restored == "restored" or written == "written", "one of the two gets through"
    assert world.table().check().ok


@pytest.mark.row("N14")
def test_a_restore_that_keeps_beside_a_writer_loses_no_commit() -> None:
    in_many_orders(
        "restore beside a writer",
        _setup(),
        (restore, write),
        check,
        Bounds(preemptions=1, schedules=budget(8)),
        budget(4),
    )


@pytest.mark.slow
@pytest.mark.row("N14")
def test_a_restore_that_keeps_beside_a_writer_loses_no_commit_in_far_more_orders() -> None:
    in_many_orders(
        "restore beside a writer", _setup(), (restore, write), check, Bounds(preemptions=2, schedules=600), 200
    )
