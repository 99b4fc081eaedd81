"""Making and deleting a savepoint, crashed at storage calls: the same call again ends what was begun, and no row is touched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reliability import crash_states as states
from reliability.crash_scenarios import KEPT, Case, leaks_of, proceed, setup_for
from reliability.real_table import TableWorld

from pyhudi_core.model.instant import Action
from pyhudi_core.testing import Profile
from pyhudi_core.testing.crash_cases import CrashPlan
from pyhudi_core.testing.crashes import crash_everywhere


def first_commit(world: TableWorld) -> str:
    return min(instant.requested_time for instant in world.table().timeline.commits)


def make(world: TableWorld) -> None:
    world.table().savepoints.create(first_commit(world))


def delete(world: TableWorld) -> None:
    world.table().savepoints.delete(first_commit(world))


def saved(world: TableWorld) -> None:
    states.filled(world)
    make(world)


CASES = {"make": Case(make, token=False, ill=True), "delete": Case(delete, saved, token=False, ill=True)}


def crash(name: str, kind: Profile, plan: CrashPlan) -> None:
    def go_on(world: TableWorld) -> None:
        proceed(world)
        # None seems to be in the making, which would refuse restores until it is a day old.
        assert not [found for found in world.table().timeline.pending if found.action is Action.SAVEPOINT]
        CASES[name].operate(world)
        assert len(world.table().savepoints) == (name == "make")

    scenario = replace(CASES[name].named(f"{name}_savepoint", setup_for(kind)), proceed=go_on)
    report = crash_everywhere(scenario, plan).assert_clean()
    assert leaks_of([report]) <= KEPT


@pytest.mark.row("K11", "N15")
@pytest.mark.parametrize("name", CASES)
def test_a_savepoint_is_made_or_deleted_by_the_next_call_wherever_the_first_one_died(name: str) -> None:
    crash(name, Profile.S3, CrashPlan(share={"make": 0.05, "delete": 0.5}[name], twice=0.0))


@pytest.mark.slow
@pytest.mark.row("K11", "N15")
@pytest.mark.parametrize("kind", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", CASES)
def test_a_savepoint_is_made_or_deleted_after_a_crash_at_every_call(name: str, kind: Profile) -> None:
    crash(name, kind, CrashPlan(twice=0.1))
