"""A second table below ``.hoodie`` that is committed together with the first one, like the metadata table, with one small file group.

The counter table is the data table. The companion has a deltacommit for each of its commits, with one base file that says the same number. The actors
are processes of one simulated world, each call may be the last one of a process, and the lock may expire.
"""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reliability.counter_table import SCHEMA, CounterWorld, _opened, empty_table, value

from pyhudi_core.conflicts import concurrent
from pyhudi_core.conflicts.conflict import Touched
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.formats.avro.container import encode_record
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.opened_table.protections import Protections
from pyhudi_core.opened_table.table_context import TableContext
from pyhudi_core.opening import create_at
from pyhudi_core.runtime.system import SerialExecutor
from pyhudi_core.services.archival.archival import Archival
from pyhudi_core.snapshot import snapshot
from pyhudi_core.storage.below import StorageBelow
from pyhudi_core.testing import Bounds, History, Image, Profile, SimOptions, SimWorld, explore, explore_randomly
from pyhudi_core.timeline.active import Timeline
from pyhudi_core.transaction import layout, markers
from pyhudi_core.transaction.begin import TOKEN_KEY, Transaction, begin_write, withdraw
from pyhudi_core.transaction.commit import finish
from pyhudi_core.transaction.companion import CompanionCommit, begin_companion
from pyhudi_core.transaction.record import record_store
from pyhudi_core.transaction.rollback import repair, roll_back
from pyhudi_core.transaction.status import CommitStatus, commit_status

FOLDER = ".hoodie/metadata"
SUFFIX = ".hoodie_metadata"
"""Of the staged bytes of the companion's commits."""
PROFILES = [Profile.S3, Profile.LOCAL_POSIX]


@cache
def two_tables(profile: Profile) -> Image:
    """The counter table, and an empty table below it."""
    world = _opened(SimWorld(SimOptions(profile=profile, image=empty_table(profile))), Protections())
    home = world.home
    below = OpenedTable(StorageBelow(home.storage, FOLDER), home.runtime, home.options, home.lock)
    create_at(below, SCHEMA, "id", name="counter_companion")
    return world.sim.storage.image()


def opened(profile: Profile, lock_excludes: bool = True) -> CounterWorld:
    """A new world with both tables."""
    options = SimOptions(
        profile=profile, lock_excludes=lock_excludes, one_machine=True, lease_s=10, image=two_tables(profile)
    )
    return _opened(SimWorld(options), Protections())


def both(world: CounterWorld) -> TableContext:
    """The data table in a new process, with its companion."""
    context = world.context()
    return replace(context, companions=(context.below(FOLDER),))


def base_file(requested_time: str, file_name: str, number: int) -> bytes:
    """A base file of the companion, with its meta columns."""
    row = {
        "_hoodie_commit_time": requested_time,
        "_hoodie_commit_seqno": f"{requested_time}_0_0",
        "_hoodie_record_key": "n",
        "_hoodie_partition_path": "",
        "_hoodie_file_name": file_name,
        "id": number,
    }
    target = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row]), target)
    return target.getvalue()


def prepare_companion(transaction: Transaction, place: TableContext, number: int) -> CompanionCommit:
    """Announce the commit, write one file with its marker, and stage the commit."""
    companion = begin_companion(transaction, place, "UPSERT_PREPPED", place.folder.load())
    name = f"files-0000-0_0-0-0_{transaction.requested_time}.parquet"
    markers.create(place.storage, transaction.requested_time, name, "MERGE")
    body = base_file(transaction.requested_time, name, number)
    place.storage.put(name, body)
    stat = WriteStat("files-0000-0", name, "", rows=1, updates=1, size=len(body))
    companion.stage(CommitMetadata("UPSERT_PREPPED", (stat,), {"number": str(number)}), {})
    return companion


def increment_both(world: CounterWorld) -> str:
    """Read, add one, and commit to both tables with one decision; on a conflict, read again."""
    context = both(world)
    for _ in range(4):
        repair(context)
        transaction = begin_write(context, Action.COMMIT, "UPSERT")
        number = value(context, transaction.start) + 1
        companion = prepare_companion(transaction, context.companions[0], number)
        name = f"fg_{world.sim.ids.below(1 << 30)}-0-0_{transaction.requested_time}.parquet"
        stat = WriteStat("fg", name, "", rows=number, updates=1)
        commit = CommitMetadata("UPSERT", (stat,), {TOKEN_KEY: transaction.token})

        def check(found: Timeline, begun: Transaction = transaction, commit: CommitMetadata = commit) -> None:
            concurrent.refuse_conflicts(context, begun.start, found, begun.requested_time, Touched.by(commit))

        body = encode_record("HoodieCommitMetadata", commit.to_avro(Action.COMMIT), sync_marker=transaction.sync_marker)
        try:
            return finish(transaction, lambda _, body=body: body, check, companions=[companion]).instant.requested_time
        except CommitConflictError:
            roll_back(context, transaction.requested_time)
    raise AssertionError("four conflicts against one other writer")


def visible_in_companion(context: TableContext) -> dict[str, str]:
    """The commits that Hudi's reader sees there, by requested time: completed instants that are not pending in the data table."""
    pending = {instant.requested_time for instant in context.folder.load().pending}
    there = context.companions[0].folder
    commits = [instant for instant in there.load().commits if instant.requested_time not in pending]
    return {instant.requested_time: there.read_commit(instant).extra["number"] for instant in commits}


def numbers(context: TableContext) -> dict[str, str]:
    """The data table's commits and their numbers."""
    commits = context.folder.load().commits
    return {i.requested_time: str(context.folder.read_commit(i).stats[0].rows) for i in commits}


def the_tables_agree(world: CounterWorld, history: History) -> None:
    """Check after a crash, and after the repair of all dead writers: both tables have the same commits, each number once, and no file is left."""
    context = both(world)
    assert visible_in_companion(context) == numbers(context), "a reader sees a commit in one of the tables only"
    world.sim.clock.advance(600)
    repair(context)
    assert visible_in_companion(context) == numbers(context), "after the repair the tables have different commits"
    place = context.companions[0]
    timeline = place.folder.load()
    assert not timeline.pending, "an instant is pending for ever in the companion"
    assert list(numbers(context).values()) == [str(n + 1) for n in range(len(timeline.commits))], "an update was lost"
    assert {event.value for event in history.of("ok")} <= numbers(context).keys()
    data = {instant.requested_time: instant.completion_time for instant in context.folder.load().commits}
    for commit in timeline.commits:
        assert commit.completion_time < data[commit.requested_time], "the companion completes first"
    named = {place.folder.read_commit(commit).stats[0].path for commit in timeline.commits}
    files = {info.path for info in place.storage.list("") if not info.path.startswith(".hoodie/")}
    assert files == named, "a file that no commit names was left behind"
    assert not place.storage.list(f"{layout.MARKERS}/")
    assert not [info.path for info in context.root.list(f"{layout.STAGED}/") if info.path.endswith(SUFFIX)]


@pytest.mark.one_in(2)
@pytest.mark.row("K8")
@pytest.mark.parametrize("profile", PROFILES)
def test_both_tables_or_none_have_the_commit_after_a_crash_at_any_call(profile: Profile) -> None:
    """One writer that dies anywhere, and whoever comes next."""
    bounds = Bounds(preemptions=0, crashes=1)
    report = explore(lambda: opened(profile), [increment_both] * 2, the_tables_agree, bounds)
    report.assert_clean()
    assert report.exhausted
    assert report.crash_points


@pytest.mark.slow
@pytest.mark.row("K8")
@pytest.mark.parametrize("profile", PROFILES)
def test_both_tables_have_the_same_commits_in_every_explored_order_and_crash(profile: Profile) -> None:
    """Two writers that overtake each other, one of which may die anywhere."""
    bounds = Bounds(preemptions=1, crashes=1)
    report = explore(lambda: opened(profile), [increment_both] * 2, the_tables_agree, bounds)
    report.assert_clean()
    assert report.exhausted


@pytest.mark.row("K8")
def test_both_tables_have_the_same_commits_when_the_lock_expires() -> None:
    """The commit record alone keeps the two tables together."""
    bounds = Bounds(faults={"expire_lock": 1}, schedules=10)
    make = lambda: opened(Profile.S3)  # noqa: E731
    explore_randomly(make, [increment_both] * 2, the_tables_agree, bounds, seed=5, priorities=True).assert_clean()


@pytest.mark.slow
@pytest.mark.row("K8")
def test_both_tables_have_the_same_commits_wherever_the_lock_expires() -> None:
    bounds = Bounds(preemptions=1, faults={"expire_lock": 1})
    report = explore(lambda: opened(Profile.S3), [increment_both] * 2, the_tables_agree, bounds)
    report.assert_clean()
    assert report.exhausted


class Died(BaseException):
    """The end of a process at a call that the test chooses."""


def decided_and_dead(world: CounterWorld) -> tuple[TableContext, str]:
    """A process decides a commit of both tables, and dies before it publishes anything."""
    context = both(world)
    transaction = begin_write(context, Action.COMMIT, "UPSERT")
    companion = prepare_companion(transaction, context.companions[0], 1)
    stat = WriteStat("fg", f"fg_0-0-0_{transaction.requested_time}.parquet", "", rows=1)
    commit = CommitMetadata("UPSERT", (stat,), {TOKEN_KEY: transaction.token})
    body = encode_record("HoodieCommitMetadata", commit.to_avro(Action.COMMIT), sync_marker=transaction.sync_marker)

    class Dying(type(context.root)):  # type: ignore[misc]
        def put_if_absent(self, path: str, data: bytes):
            if path.endswith(".deltacommit"):
                raise Died
            return super().put_if_absent(path, data)

    context.root.__class__ = Dying
    with pytest.raises(Died):
        finish(transaction, lambda _: body, lambda _: None, companions=[companion])
    context.root.__class__ = Dying.__base__
    transaction.heartbeat.handle.cancel()
    world.sim.clock.advance(600)
    assert record_store(context.root).read() is not None
    assert not len(context.folder.load().commits)
    return both(world), transaction.token


@pytest.mark.row("K8")
@pytest.mark.parametrize("who", ["next writer", "status", "companion's service", "knows no companion"])
def test_anybody_publishes_a_decision_about_both_tables(who: str) -> None:
    world = opened(Profile.S3)
    context, token = decided_and_dead(world)
    if who == "next writer":
        increment_both(world)
    elif who == "status":
        assert commit_status(context, token) is CommitStatus.COMMITTED
    elif who == "companion's service":
        Archival(context.at(context.companions[0])).run()
    else:
        repair(world.context())
    repair(both(world))
    now = both(world)
    assert visible_in_companion(now) == numbers(now)
    assert token.partition("-")[0] in numbers(now)


def test_the_companion_is_read_as_every_table() -> None:
    """The code that reads a data table reads the second place: timeline, snapshot and file groups."""
    world = opened(Profile.LOCAL_POSIX)
    for _ in range(3):
        increment_both(world)
    place = both(world).companions[0]
    state = snapshot.build(place.storage, place.folder, place.config, place.folder.load(), executor=SerialExecutor())
    slices = state.view.all_slices()
    assert [piece.base.name.requested_time for piece in slices if piece.base] == [
        place.folder.load().commits[-1].requested_time
    ]


def test_a_withdrawn_write_leaves_nothing_at_the_companion() -> None:
    world = opened(Profile.LOCAL_POSIX)
    context = both(world)
    transaction = begin_write(context, Action.COMMIT, "UPSERT")
    prepare_companion(transaction, context.companions[0], 1)
    withdraw(transaction)
    place = context.companions[0]
    assert not len(place.folder.load())
    assert not [info for info in place.storage.list("") if not info.path.startswith(".hoodie/")]


def test_times_of_both_tables_go_by_one_clock() -> None:
    """A time that the companion has used is below every later one of the data table, whatever the clock says."""
    world = opened(Profile.LOCAL_POSIX)
    increment_both(world)
    context = both(world)
    service = begin_write(context.at(context.companions[0]), Action.DELTACOMMIT, "UPSERT")
    world.sim.clock.advance(-1)
    later = begin_write(context, Action.COMMIT, "UPSERT")
    assert later.requested_time > service.requested_time
