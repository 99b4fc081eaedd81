"""Archival concurrent with writers and with another archival, in every order, with crashes and an expiring lock: no commit is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

import pytest
from reliability.counter_table import CounterWorld, counter_world, increment
from reliability.service_runs import wait_as_reserved

from pyhudi_core.model.instant import DATA_ACTIONS, Instant
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.services.archival.archival import archive
from pyhudi_core.services.archival.limits import ArchivalRules
from pyhudi_core.testing import Bounds, History, Profile, Report, SimOptions, SimWorld, explore, explore_randomly
from pyhudi_core.testing.sim_storage import Image
from pyhudi_core.transaction.rollback import repair
from pyhudi_core.transaction.status import CommitStatus, commit_status

RULES = ArchivalRules(keep_min=1, keep_max=None)
OPTIONS = {
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
    "hoodie.keep.min.commits": 1,
    "hoodie.keep.max.commits": 2,
    "hoodie.timeline.compaction.batch.size": 2,
}
COMMITS = 4


FACTOR = int(os.environ.get("PYHUDI_EXPLORE", "1"))
"""`make evidence` sets it above 1: then every order with two preemptions is tried, and more chance."""
PREEMPTIONS = 1 if FACTOR == 1 else 2
PROFILES = [
    Profile.LOCAL_POSIX,
    Profile.S3,
    *(pytest.param(profile, marks=pytest.mark.slow) for profile in (Profile.GCS, Profile.AZURE)),
]
"""Where a conditional replacement is one step, and where a conditional deletion is two."""


@lru_cache
def _image(profile: Profile, commits: int, archived: int) -> tuple[Image, int]:
    world = counter_world(profile)
    world.home.options = OPTIONS
    for number in range(commits):
        increment(world)
        if number < archived:
            archive(world.context(), RULES)
    return world.sim.storage.image(), world.scheduler.time_ms


def world_with_commits(
    profile: Profile = Profile.LOCAL_POSIX, commits: int = COMMITS, archived: int = 0, lock_excludes: bool = True
) -> CounterWorld:
    """A counter table with some commits, the first of which are archived; each archived commit is a separate file of the archived timeline."""
    image, now = _image(profile, commits, archived)
    sim = SimWorld(
        SimOptions(profile=profile, image=image, lock_excludes=lock_excludes, one_machine=True, lease_s=10, seed=1)
    )
    sim.scheduler.time_ms = now + 1_000
    return CounterWorld(sim, OpenedTable(sim.storage, sim.runtime, OPTIONS, sim.lock, Protections()))


def world_with_history(profile: Profile = Profile.LOCAL_POSIX, lock_excludes: bool = True) -> CounterWorld:
    """A table with archived commits; the next archival merges their files in two levels."""
    return world_with_commits(profile, COMMITS + 1, COMMITS - 1, lock_excludes)


def archiver(world: CounterWorld) -> int:
    wait_as_reserved(world.context())
    return len(archive(world.context(), RULES).instants)


def all_commits(context: TableContext) -> tuple[list[Instant], list[int]]:
    """Archived and active commits in the order of completion, and the counter after each."""
    timeline = context.folder.load()
    archived = context.folder.history.completed_between("", "9" * 17) if timeline.has_history else []
    found = {instant.group: instant for instant in (*archived, *timeline.commits)}
    commits = sorted(found.values(), key=lambda instant: instant.completion_time or "")
    return commits, [context.folder.read_commit(instant).stats[0].rows for instant in commits]


def nothing_is_lost(world: CounterWorld, history: History) -> None:
    context = world.context()
    commits, values = all_commits(context)
    assert values == list(range(1, len(values) + 1)), f"a lost update: {values}"
    assert len(values) >= COMMITS
    acknowledged = {str(event.value) for event in history.of("ok") if isinstance(event.value, str)}
    assert acknowledged <= {instant.requested_time for instant in commits}, "an acknowledged commit is not there"
    for commit in commits:
        token = context.folder.read_commit(commit).extra["pyhudi.commit_token"]
        assert commit_status(context, token) is CommitStatus.COMMITTED
    first = context.folder.load().first_write
    archived = context.folder.history.completed_between("", "9" * 17)
    assert all(first is not None and i.requested_time < first for i in archived if i not in set(_active(context)))


def _active(context: TableContext) -> list[Instant]:
    return [i for i in context.folder.files()[0] if i.is_completed and i.action in DATA_ACTIONS]


def and_the_next_run_finishes(world: CounterWorld, history: History) -> None:
    nothing_is_lost(world, history)
    repair(world.context())
    increment(world)
    archive(world.context(), RULES)
    nothing_is_lost(world, history)
    context = world.context()
    assert len(context.folder.load().commits) == 1
    assert not context.folder.history.among(context.folder.files()[0]), "files of archived instants are left"
    state = context.folder.history.state()
    assert state.problem is None
    assert state.version == state.number
    names = [i for file in state.files for i in context.folder.history.rows(state, file)]
    assert len({(row.requested_time, row.action) for row in names}) == len(names), "an instant is archived twice"


def run(world: Callable[[], CounterWorld], actors: list[Callable], bounds: Bounds, check=nothing_is_lost) -> Report:
    report = explore(world, actors, check, bounds)
    print(
        f"{report.schedules} schedules, {report.states} states, exhausted {report.exhausted}, crash points {len(report.crash_points)}"
    )
    return report.assert_clean()


def every_order(world: Callable[[], CounterWorld], actors: list[Callable], check=nothing_is_lost) -> None:
    """All orders with few preemptions, and some with many."""
    assert run(world, actors, Bounds(preemptions=PREEMPTIONS), check).exhausted
    explore_randomly(world, actors, check, Bounds(schedules=5 * FACTOR), seed=1).assert_clean()


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("B9")
@pytest.mark.parametrize("profile", PROFILES)
def test_upsert_and_archival_in_any_order_lose_nothing(profile: Profile) -> None:
    every_order(lambda: world_with_commits(profile), [increment, archiver])


def test_upsert_and_archival_with_a_lock_that_excludes_nobody_lose_nothing() -> None:
    every_order(lambda: world_with_commits(lock_excludes=False), [increment, archiver])


def test_a_lock_that_expires_under_archival_or_a_writer_loses_nothing() -> None:
    bounds = Bounds(faults={"expire_lock": 1}, schedules=15 * FACTOR)
    explore_randomly(world_with_commits, [increment, archiver], nothing_is_lost, bounds, seed=2).assert_clean()


def test_two_writers_and_an_archival_with_an_expiring_lock_lose_nothing() -> None:
    bounds = Bounds(faults={"expire_lock": 2}, schedules=15 * FACTOR)
    actors = [increment, increment, archiver]
    explore_randomly(world_with_commits, actors, nothing_is_lost, bounds, seed=3).assert_clean()


def test_two_archivals_that_exclude_nobody_forget_nothing() -> None:
    world = lambda: world_with_history(lock_excludes=False)  # noqa: E731
    bounds = Bounds(schedules=10 * FACTOR)
    explore_randomly(world, [archiver, archiver], and_the_next_run_finishes, bounds, seed=5).assert_clean()


@pytest.mark.slow
def test_two_archivals_that_exclude_nobody_forget_nothing_in_any_order() -> None:
    every_order(lambda: world_with_history(lock_excludes=False), [archiver, archiver], and_the_next_run_finishes)


@pytest.mark.parametrize("profile", PROFILES[1:])
def test_two_archivals_on_an_object_store_forget_nothing(profile: Profile) -> None:
    world = lambda: world_with_history(profile, lock_excludes=False)  # noqa: E731
    bounds = Bounds(schedules=10 * FACTOR)
    explore_randomly(world, [archiver, archiver], and_the_next_run_finishes, bounds, seed=4).assert_clean()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_crash_at_every_step_of_archival_leaves_a_table_that_the_next_run_finishes(profile: Profile) -> None:
    report = run(lambda: world_with_history(profile), [archiver], Bounds(crashes=1), and_the_next_run_finishes)
    assert report.exhausted
    crashed = {verb for verb, name in report.crash_points if "/history/" in name}
    swaps = {"delete_if_match"} if profile is Profile.LOCAL_POSIX else {"put_if_match"}
    assert crashed >= {"put_if_absent", "get", "list", "open_input"} | swaps
    assert any(verb == "delete" and "/timeline/" in name for verb, name in report.crash_points)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("bounds", [Bounds(crashes=1), Bounds(faults={"torn_temporary": 1})], ids=["crash", "torn"])
def test_the_first_archival_of_a_table_may_crash_anywhere_too(bounds: Bounds) -> None:
    assert run(world_with_commits, [archiver], bounds, and_the_next_run_finishes).exhausted


LOST = [
    *((profile, fault) for profile in (Profile.LOCAL_POSIX, Profile.S3) for fault in ("lost_ack", "unknown")),
    *(
        pytest.param(profile, fault, marks=pytest.mark.slow)
        for profile in (Profile.GCS, Profile.AZURE)
        for fault in ("lost_ack", "unknown", "false_precondition")
    ),
]


@pytest.mark.one_in(3, first=1)
@pytest.mark.parametrize(
    ("profile", "fault"), [*LOST, (Profile.S3, "false_precondition"), (Profile.LOCAL_POSIX, "fail_before")]
)
def test_answers_that_are_lost_leave_a_table_that_the_next_run_finishes(profile: Profile, fault: str) -> None:
    world = lambda: world_with_history(profile)  # noqa: E731
    assert run(world, [archiver], Bounds(faults={fault: 1}), and_the_next_run_finishes).exhausted
