"""Restores concurrent with writers, compactions, cleans, readers, another restore and crashes: afterwards the table has the state of the point, and
what was committed after the restore; readers see no other state in between.

The table has four commits. The quick suite takes a share of the orders and crashes, chosen by a seed; the slow tests take far more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest
from reliability.crash_states import crashed_before
from reliability.real_table import (
    FULL,
    Row,
    TableSetup,
    TableWorld,
    is_shared,
    orders,
    rows_of,
    table_world,
    world_with_rows,
)
from reliability.service_runs import BREATHLESS, Act, budget, crash, crash_scenario, in_many_orders
from reliability.stories import Story, batch
from reliability.stories import rows_of as rows_of_story
from support.metadata_tables import build

import pyhudi_core as hudi
from pyhudi_core.doctor.kinds import FindingKind, Severity
from pyhudi_core.errors import CommitAbortedError, CommitConflictError, SnapshotExpiredError
from pyhudi_core.model.instant import Action
from pyhudi_core.testing import Bounds, History, Profile, SimOptions
from pyhudi_core.testing.crash_cases import CrashPlan, CrashScenario

BASE: tuple[Row, ...] = ((1, "a", 10.0), (3, "b", 30.0))
POINT: tuple[Row, ...] = ((1, "a", 11.0), (3, "b", 30.0))
NEWEST: tuple[Row, ...] = ((1, "a", 13.0), (3, "b", 30.0), (4, "c", 12.0))
OPTIONS = {**FULL, "hoodie.clean.commits.retained": 1}
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"


def point_of(world: TableWorld) -> str:
    return str(world.table().timeline.commits[1].requested_time)


@cache
def _setup(
    kind: str, metadata: bool = False, planned: bool = False, options: tuple[tuple[str, object], ...] = ()
) -> TableSetup:
    """A world with the table; ``planned``: a restore to the second commit is on its timeline."""
    empty = TableSetup(SimOptions(lease_s=60, shared=is_shared), {**OPTIONS, "hoodie.table.type": kind})
    made = world_with_rows(*BASE, setup=empty)
    if metadata:
        build(made.table())
    made.table().upsert(orders(POINT[0]))
    made.table().upsert(orders((1, "a", 12.0), (4, "c", 12.0)))
    made.table().upsert(orders(NEWEST[0]))
    if planned:
        assert made.table().restore.schedule(point_of(made)) is not None
    image, now = made.storage.image(), made.scheduler.time_ms
    # A restore removes data files that others may read, so these are shared as well.
    sim = replace(empty.sim, image=image, start_ms=now + 1_000, shared=SimOptions().shared)
    return replace(empty, sim=sim, options={**empty.options, **dict(options)})


def restore(world: TableWorld) -> object:
    """Restore, or hear that somebody is at work."""
    try:
        return world.table().restore(point_of(world))
    except (CommitAbortedError, CommitConflictError) as refused:
        return refused


def attempt(act: Act) -> Act:
    """A process that may be refused because of the restore, and knows it then."""

    def run(world: TableWorld) -> object:
        try:
            return act(world)
        except (CommitAbortedError, CommitConflictError) as refused:
            return refused

    return run


def execute(world: TableWorld) -> object:
    return attempt(lambda found: found.table().restore.execute())(world)


def read(world: TableWorld) -> object:
    """Two reads: each sees the newest state or the old one, and never the newest again after the old one."""
    table = world.table()
    seen = [rows_of(table), rows_of(table)]
    assert set(seen) <= {NEWEST, POINT}, seen
    assert seen != [POINT, NEWEST]
    return seen


def ended(world: TableWorld) -> hudi.HudiTable:
    """The table after somebody has finished what is left; nothing is pending, and the doctor finds no error."""
    world.wait()
    world.table().restore.take_over()
    world.table().restore.run()
    world.table().failed_writes.run()
    table = world.table()
    assert table.check().ok, table.check().findings
    assert not [i for i in table.timeline.pending if i.action not in (Action.CLEAN, Action.COMPACTION)]
    return table


def state_or(*others: tuple[Row, ...]) -> Callable[[TableWorld, History], None]:
    def check(world: TableWorld, history: History) -> None:
        # A reader may find that what it read is gone; it never gets a part of the rows.
        failed = [event.value for event in history.of("failed") if not isinstance(event.value, SnapshotExpiredError)]
        assert not failed, history
        table = ended(world)
        restored = any(i.action is Action.RESTORE for i in table.timeline.completed)
        found = rows_of(table)
        assert found in ((POINT, *others) if restored else (NEWEST, *others)), found
        world.table().upsert(orders((9, "z", 9.0)))
        assert rows_of(world.table()) == tuple(sorted((*found, (9, "z", 9.0))))
        world.table().compaction.run()
        world.table().cleaning.run()
        assert rows_of(world.table()) == tuple(sorted((*found, (9, "z", 9.0))))
        assert world.table().check().ok, world.table().check().findings

    return check


NEW: Row = (5, "a", 5.0)
WITH_NEW = (tuple(sorted((*POINT, NEW))), tuple(sorted((*NEWEST, NEW))))
UPDATED = (((1, "a", 14.0), POINT[1]), ((1, "a", 14.0), *NEWEST[1:]))
BESIDE: dict[str, tuple[str, bool, Act, Act, Callable[[TableWorld, History], None]]] = {
    "an insert": (COW, False, restore, attempt(lambda w: w.table().insert(orders(NEW))), state_or(*WITH_NEW)),
    "an update of a log": (MOR, False, restore, attempt(lambda w: w.table().upsert(orders((1, "a", 14.0)))), state_or(*UPDATED)),
    "a compaction": (MOR, False, restore, attempt(lambda w: w.table().compaction.run()), state_or()),
    "a clean": (COW, False, restore, attempt(lambda w: w.table().cleaning.run()), state_or()),
    "a clustering": (COW, False, restore, attempt(lambda w: w.table().clustering.run()), state_or()),
    "a savepoint": (COW, False, restore, attempt(lambda w: w.table().savepoints.create()), state_or()),
    "another restore": (COW, False, restore, restore, state_or()),
    "a reader": (COW, True, execute, read, state_or()),
    "a reader of logs": (MOR, True, execute, read, state_or()),
}  # fmt: skip
QUICK = ("an insert", "a compaction", "a clean", "a reader of logs")


def beside(name: str, bounds: Bounds, by_chance: int) -> None:
    kind, planned, act, other, check = BESIDE[name]
    in_many_orders(name, _setup(kind, planned=planned), (act, other), check, bounds, by_chance)


@pytest.mark.row("C10", "K6", "N15")
@pytest.mark.parametrize("name", QUICK)
def test_a_restore_beside_another_process(name: str) -> None:
    beside(name, Bounds(preemptions=1, schedules=budget(3)), budget(2))


@pytest.mark.slow
@pytest.mark.row("C10", "K6", "N15")
@pytest.mark.parametrize("name", BESIDE)
def test_a_restore_beside_another_process_in_far_more_orders(name: str) -> None:
    beside(name, Bounds(preemptions=2, schedules=1_000), 300)


def two_executors(bounds: Bounds, by_chance: int, **options: object) -> None:
    def once(world: TableWorld, history: History) -> None:
        state_or()(world, history)
        assert len(world.table().timeline.filter(Action.RESTORE)) == 1

    setup = _setup(COW, planned=True, options=tuple(sorted(options.items())))
    in_many_orders("two executors", setup, (execute, execute), once, bounds, by_chance, seed=3)


@pytest.mark.row("L6", "N15")
def test_two_executors_of_one_restore_that_take_each_other_for_dead() -> None:
    two_executors(Bounds(preemptions=1, schedules=budget(4)), budget(2), **BREATHLESS)


@pytest.mark.slow
@pytest.mark.row("L6", "N15")
@pytest.mark.parametrize("options", [{}, BREATHLESS], ids=["living", "breathless"])
def test_two_executors_of_one_restore_in_far_more_orders(options: dict[str, object]) -> None:
    two_executors(Bounds(preemptions=2, schedules=1_000), 400, **options)


# --- zombies


@pytest.mark.one_in(3)
@pytest.mark.row("O9", "R13")
@pytest.mark.parametrize("metadata", [False, True], ids=["listing", "metadata table"])
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX], ids=lambda profile: profile.value)
def test_zombie_put_after_restore(profile: Profile, metadata: bool) -> None:
    """It wakes up when its commit, which the next writer published, is undone: it makes the completed file again, and no reader sees the commit."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    if metadata:
        build(table)
    zombie, other = story.writer("zombie"), story.writer("other")
    before = rows_of_story(table)

    def meanwhile() -> None:
        story.pass_time(400)
        other.open().upsert(batch((2, "b", 2)))
        assert rows_of_story(table) == [(1, "a", 10), (2, "b", 2)]
        other.open().restore(table.timeline.commits[0])
        assert rows_of_story(table) == before

    zombie.pause_before("put_if_absent", "_2026", meanwhile)
    commit = zombie.open().upsert(batch((1, "a", 10)))
    names = [info.path for info in story.storage.list(".hoodie/timeline/")]
    assert any(f"/{commit.instant}_" in name for name in names), "the completed file is there again"
    assert rows_of_story(table) == before
    assert commit.instant not in [i.requested_time for i in table.timeline]
    findings = [(found.kind, found.severity) for found in table.check().findings]
    assert findings == [(FindingKind.UNDONE_COMMIT_IS_BACK, Severity.WARNING)]
    other.open().upsert(batch((3, "c", 3)))
    story.pass_time(400)
    other.open().failed_writes.run()
    assert rows_of_story(table) == [*before, (3, "c", 3)]
    assert bool(table.snapshot().metadata) == metadata, "and the metadata table is used as before"
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    keeper = story.writer("keeper", options=keep)
    for value in range(4, 9):
        keeper.open().upsert(batch((3, "c", value)))
    keeper.open().archival.run()
    assert rows_of_story(table) == [*before, (3, "c", 8)]
    keeper.open().restore.take_over()
    assert not [info for info in story.storage.list(".hoodie/timeline/") if f"/{commit.instant}_" in info.path]
    assert table.check().ok, table.check().findings


@pytest.mark.row("O9", "L6")
def test_zombie_executor_deletes_nothing_of_what_was_written_after_its_restore() -> None:
    """It stops before its first deletion. Another process finishes the restore, and others write; then it goes on."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    table.upsert(batch((1, "a", 2)))
    zombie, other = story.writer("zombie"), story.writer("other")

    def meanwhile() -> None:
        story.pass_time(400)
        assert other.open().restore.take_over()
        other.open().upsert(batch((1, "a", 3), (2, "b", 2)))

    zombie.pause_before("delete", ".commit", meanwhile)
    done = zombie.open().restore(table.timeline.commits[0])
    assert done.instants == table.timeline.filter(Action.RESTORE).instants, (
        "it hears of the restore that another process completed"
    )
    assert rows_of_story(table) == [(1, "a", 3), (2, "b", 2)]
    assert len(table.timeline.filter(Action.RESTORE)) == 1
    story.pass_time(400)
    other.open().failed_writes.run()
    assert table.check().ok, table.check().findings


# --- crashes


LATER: Row = (90, "a", 90.0)


def next_process(world: TableWorld) -> None:
    """Somebody finishes what is left, and a writer writes; if the restore was never planned, it begins anew."""
    world.table().restore.take_over()
    world.table().restore.run()
    if not len(world.table().timeline.filter(Action.RESTORE)):
        world.table().restore(point_of(world))
    assert rows_of(world.table()) in (POINT, (*POINT, LATER)), "perhaps a process before this one has written already"
    world.table().upsert(orders(LATER))
    world.table().failed_writes.run()


def next_process_that_cancels(world: TableWorld) -> None:
    """Somebody takes the plan back, if there is one, and a writer writes."""
    world.table().failed_writes.run()
    for plan in world.table().timeline.filter(Action.RESTORE):
        world.table().restore.cancel(plan)
    assert rows_of(world.table()) in (NEWEST, (*NEWEST, LATER))
    world.table().upsert(orders(LATER))
    world.table().failed_writes.run()


def scenario(
    name: str,
    kind: str,
    operate: Act,
    planned: bool,
    profile: Profile,
    metadata: bool = False,
    prepare: Act | None = None,
) -> CrashScenario[TableWorld]:
    proceed = next_process_that_cancels if name in ("schedule", "cancel") else next_process
    return crash_scenario(name, _setup(kind, metadata, planned), operate, proceed, profile, prepare)


def run(world: TableWorld) -> object:
    return world.table().restore(point_of(world))


def schedule(world: TableWorld) -> object:
    return world.table().restore.schedule(point_of(world))


def with_dead_executor(world: TableWorld) -> None:
    """A process that had registered as the executor, and died at its first deletion of a data file."""
    crashed_before(world, lambda found: found.table().restore.execute(), "delete", "*.parquet")


SCENARIOS: dict[str, Callable[[Profile], CrashScenario[TableWorld]]] = {
    "run": partial(scenario, "run", COW, run, False),
    "run_with_logs": partial(scenario, "run_with_logs", MOR, run, False),
    "run_with_metadata_table": partial(scenario, "run_with_metadata_table", COW, run, False, metadata=True),
    "schedule": partial(scenario, "schedule", COW, schedule, False),
    "execute": partial(scenario, "execute", MOR, lambda world: world.table().restore.execute(), True),
    "take_over": partial(
        scenario, "take_over", COW, lambda world: world.table().restore.take_over(), True, prepare=with_dead_executor
    ),
    "cancel": partial(
        scenario,
        "cancel",
        COW,
        lambda world: world.table().restore.cancel(world.table().timeline.filter(Action.RESTORE)[0]),
        True,
    ),
}


@pytest.mark.row("N15")
@pytest.mark.parametrize("proceed", [next_process, next_process_that_cancels])
def test_a_plan_that_was_decided_and_not_published_is_executed_or_taken_back_for_good(proceed: Act) -> None:
    world = table_world(_setup(COW), profile=Profile.S3)
    crashed_before(world, schedule, "put_if_absent", "*.restore.requested")
    proceed(world)
    world.table().upsert(orders(LATER))
    assert not world.table().timeline.pending.instants
    assert world.table().check().ok


@pytest.mark.row("N15")
@pytest.mark.parametrize(
    ("verb", "path"),
    [("put_if_absent", "*/restores/*"), ("put_if_absent", "*.restore.inflight"), ("delete", "*.parquet")],
)
def test_the_doctor_says_how_a_restore_whose_process_died_is_finished(verb: str, path: str) -> None:
    world = table_world(_setup(COW), profile=Profile.S3)
    crashed_before(world, run, verb, path)
    world.wait(700)
    report = world.table().check()
    assert not report.errors, report
    assert report.repairable or "table.restore.take_over()" in str(report)
    next_process(world)
    assert world.table().check().ok


@pytest.mark.row("N15")
@pytest.mark.parametrize("path", ["*.restore.inflight", "*/executions/*", "*.restore"])
def test_a_rollback_whose_process_died_is_finished_by_the_same_call(path: str) -> None:
    world = table_world(_setup(COW), profile=Profile.S3)
    newest = world.table().timeline.commits[-1].requested_time
    crashed_before(world, lambda found: found.table().rollback(newest, completed=True), "put_if_absent", path)
    world.wait(700)
    done = world.table().rollback(newest, completed=True)
    assert done or "rolled back already" in done.reason
    assert not world.table().timeline.find(newest)
    assert not world.table().timeline.pending.instants


@pytest.mark.row("K11", "L6", "N15")
def test_a_restore_that_dies_at_any_call_is_finished_by_another_process() -> None:
    crash(SCENARIOS["run_with_metadata_table"](Profile.S3), CrashPlan(share=0.005, every_site=False))


@pytest.mark.slow
@pytest.mark.row("K11", "L6", "N15")
@pytest.mark.parametrize("profile", [Profile.S3, Profile.LOCAL_POSIX])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_restore_dies_at_every_call(profile: Profile, name: str) -> None:
    crash(SCENARIOS[name](profile), CrashPlan(twice=0.1))
