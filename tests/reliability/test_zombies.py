"""Writers that were considered dead but live, and leases that expired while their holders were running.

A zombie is a process that stands still (a long garbage collection, a machine that slept) while its lock and its heartbeat expire and others go on, and
that then goes on, too, knowing nothing of it. It commits, or it aborts and leaves nothing behind; never does it take from others what they have
(P1, P2, P7). What decides is the swap of the commit record, not the lock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from reliability.stories import Died, Story, Writer, batch, data_files, dying, rows_of
from support.wrapping import WrappedStorage

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitAbortedError,
    CommitConflictError,
    LockIdentityError,
    LockTimeoutError,
    StorageError,
)
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Fault, Profile, SimOptions, SimWorld
from pyhudi_core.transaction.rollback import repair

LONG_S = 400
"""Longer than a lock's lease (60 s here) and a heartbeat's (120 s)."""
RECORD = "commit_record"
PROFILES = [Profile.S3, Profile.LOCAL_POSIX]


def decides(profile: Profile) -> str:
    """The call by which a second commit is decided."""
    return "put_if_match" if profile is Profile.S3 else "put_if_absent"


def assert_tidy(story: Story, table: HudiTable) -> None:
    """Nothing is pending, and there is no data file that no commit names."""
    story.pass_time(LONG_S)
    repair(story.writer().home().context())
    assert not table.timeline.pending.instants
    named = {stat.path for instant in table.timeline.commits for stat in table.commit_metadata(instant).stats}
    assert data_files(story.storage) <= named
    assert not story.storage.list(".hoodie/.heartbeat/")
    assert not story.storage.list(".hoodie/.temp/")


def actions(table: HudiTable) -> list[str]:
    return [str(instant.action) for instant in table.timeline.completed]


@pytest.mark.row("R13", "O9", "K11", "U1")
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
@pytest.mark.parametrize("policy", ["LAZY", "NEVER"])
def test_zombie_after_expiry_before_intent(profile: Profile, policy: str) -> None:
    """It stops right before its decision. Whoever comes next rolls it back (or only commits): its own swap then fails, and it aborts."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    options = {"hoodie.clean.failed.writes.policy": policy}
    zombie, other = story.writer("zombie", options=options), story.writer("other", options=options)

    def meanwhile() -> None:
        story.pass_time(LONG_S)
        other.open().upsert(batch((1, "a", 20)))

    zombie.pause_before(decides(profile), RECORD, meanwhile)
    with zombie.open().begin("upsert") as write:
        write.write(batch((1, "a", 10), (2, "a", 10)))
        with pytest.raises(CommitAbortedError if policy == "LAZY" else CommitConflictError):
            write.commit()
    assert rows_of(table) == [(1, "a", 20)]
    assert actions(table).count("commit") == 2
    assert_tidy(story, table)
    assert zombie.open().upsert(batch((2, "a", 2))), "it can write again"


@pytest.mark.row("O9", "R13", "U1")
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
def test_zombie_between_intent_and_put(profile: Profile) -> None:
    """It has decided and not published: the next writer publishes for it, once, and builds on it; both are told that they succeeded."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    zombie, other = story.writer("zombie"), story.writer("other")
    others: list[hudi.Commit] = []

    def meanwhile() -> None:
        assert rows_of(table) == [(1, "a", 1)], "not visible yet"
        story.pass_time(LONG_S)
        others.append(other.open().upsert(batch((2, "a", 20))))
        assert rows_of(table) == [(1, "a", 10), (2, "a", 20)]

    zombie.pause_before("put_if_absent", "_2026", meanwhile)  # the completed file: its name holds two times
    commit = zombie.open().upsert(batch((1, "a", 10)))
    assert commit.completion_time < others[0].instant
    assert commit.retries == 0
    assert rows_of(table) == [(1, "a", 10), (2, "a", 20)]
    assert [i.requested_time for i in table.timeline.commits][1:] == [commit.instant, others[0].instant]
    assert "rollback" not in actions(table)
    assert_tidy(story, table)


@pytest.mark.row("O9", "I14")
@pytest.mark.parametrize("mine", ["column_stats", "bloom_filters"])
def test_zombie_between_the_decision_and_the_list_of_indexes(mine: str) -> None:
    """It decided to drop one index, and another process dropped two: the list that it decided on holds one of those two, and does not come back."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1), metadata=True)
    story.writer().open().indexing.run(partitions=["column_stats", "bloom_filters", "record_index"])
    zombie, other = story.writer("zombie"), story.writer("other")

    def meanwhile() -> None:
        story.pass_time(LONG_S)
        for name in ("column_stats", "bloom_filters", "record_index"):
            other.open().indexes.drop(name, if_exists=True)

    # Only `properties_file.apply` asks for it like this, after the decision.
    zombie.pause_before("head", "hoodie.properties", meanwhile)
    zombie.open().indexes.drop(mine)
    assert table.config.metadata_partitions == ("files",)
    assert not list(table.indexes)
    other.open().upsert(batch((1, "a", 2)))
    assert table.check().ok


@pytest.mark.row("O9")
@pytest.mark.parametrize("kind", ["file_system", "storage_based"])
def test_zombie_after_put_before_release(kind: str) -> None:
    """Its late release must not free the lock that another writer holds by now."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    shared: dict[str, Any] = {}

    def home_of(writer: Writer) -> HudiTable:
        home = writer.home()
        storage, runtime = home.storage, home.runtime
        if kind == "file_system":
            lock: Any = FileSystemLockProvider(storage, runtime.clock, runtime.ids, expire_minutes=1)
        else:
            lock = StorageBasedLockProvider(storage, runtime, validity_s=60, renew_s=6)
        shared[writer.name] = lock
        return HudiTable(replace(home, lock=lock, options={**home.options, "pyhudi.lock.change.from": "sim:lock"}))

    zombie, other = story.writer("zombie"), story.writer("other")
    held: list[Any] = []

    def meanwhile() -> None:
        story.pass_time(LONG_S)
        home_of(other)
        held.append(shared["other"].acquire(5, "the next one"))

    path = ".hoodie/.locks/table_lock.json" if kind == "storage_based" else ".hoodie/lock"
    verb = "put_if_match" if kind == "storage_based" else "delete_if_match"
    zombie.pause_before(verb, path, meanwhile)
    commit = home_of(zombie).upsert(batch((1, "a", 10)))
    assert rows_of(table) == [(1, "a", 10)]
    assert table.commit_status(commit.token) is hudi.CommitStatus.COMMITTED
    assert held[0].still_held(), "the zombie gave back what was not its own"
    with pytest.raises(LockTimeoutError):
        shared["zombie"].acquire(0)
    held[0].release()
    home_of(other).upsert(batch((1, "a", 20)))
    assert rows_of(table) == [(1, "a", 20)]


@pytest.mark.row("O9")
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
def test_zombie_put_after_archival(profile: Profile) -> None:
    """It wakes up when its commit, which the next writer published, is archived: it makes the completed file again, and no answer changes."""
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    story = Story(profile)
    table = story.table((1, "a", 1))
    zombie, other = story.writer("zombie"), story.writer("other", options=keep)
    tokens: list[str] = []

    def meanwhile() -> None:
        story.pass_time(LONG_S)
        for value in range(6):
            other.open().upsert(batch((2, "b", value)))
        other.open().archival.run()
        assert tokens[0][:17] not in [instant.requested_time for instant in table.timeline], "it is archived"

    zombie.pause_before("put_if_absent", "_2026", meanwhile)
    with zombie.open().begin("upsert") as write:
        write.write(batch((1, "a", 10)))
        tokens.append(str(write.token))
        commit = write.commit()
    assert table.commit_status(commit.token) is hudi.CommitStatus.COMMITTED
    wanted = [(1, "a", 10), (2, "b", 5)]
    assert rows_of(table) == wanted
    for value in (5, 5):
        other.open().upsert(batch((2, "b", value)))
        other.open().archival.run()
        assert rows_of(table) == wanted
    assert [instant.requested_time for instant in table.timeline].count(commit.instant) == 0
    assert not table.timeline.pending.instants


@pytest.mark.row("K11")
def test_zombie_data_files_after_rollback() -> None:
    """A file that arrives after the rollback has removed those that it knew is never admitted; its own writer sweeps it when it hears that it lost."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    zombie, other = story.writer("zombie"), story.writer("other")

    def meanwhile() -> None:
        story.pass_time(LONG_S)
        other.open().upsert(batch((9, "c", 9)))
        assert "rollback" in actions(table)

    zombie.pause_before("open_output", "part=b", meanwhile)
    with zombie.open().begin("upsert") as write:
        write.write(batch((1, "a", 10), (2, "b", 20)))
        late = {path for path in data_files(story.storage) if str(write.instant) in path}
        assert late, "the zombie's file is there"
        assert rows_of(table) == [(1, "a", 1), (9, "c", 9)], "and nobody sees it"
        with pytest.raises(CommitAbortedError):
            write.commit()
    assert rows_of(table) == [(1, "a", 1), (9, "c", 9)]
    assert_tidy(story, table)


@pytest.mark.row("K11")
def test_zombie_data_files_of_a_process_that_dies_after_its_rollback() -> None:
    """The same, and then it dies, so that nobody hears of the file: no reader ever admits it, and the doctor lists it."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    zombie, other = story.writer("zombie"), story.writer("other")

    def meanwhile() -> None:
        story.pass_time(LONG_S)
        other.open().upsert(batch((9, "c", 9)))

    zombie.pause_before("open_output", "part=b", meanwhile)

    def writes_and_dies() -> None:
        with zombie.open().begin("upsert") as write:
            write.write(batch((1, "a", 10), (2, "b", 20)))
            dying(zombie)()

    with pytest.raises(Died):
        writes_and_dies()
    orphans = data_files(story.storage) - {
        stat.path for instant in table.timeline.commits for stat in table.commit_metadata(instant).stats
    }
    assert orphans
    for value in range(3):
        other.open().upsert(batch((9, "c", value)))
        assert rows_of(table) == [(1, "a", 1), (9, "c", value)]
    report = str(table.check())
    assert all(path in report for path in orphans), "the doctor names it"
    keep = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    swept = story.writer(options=keep).open().archival.run()
    assert set(swept.swept) == orphans, "and archival sweeps it, before names alone begin to count"
    assert not orphans & data_files(story.storage)
    assert rows_of(table) == [(1, "a", 1), (9, "c", 2)]


@pytest.mark.row("R9", "O9")
def test_renewal_thread_dies() -> None:
    """Nobody renews the lock or the heartbeat any more: the holder notices by itself, and what it does then harms nobody."""
    sim = SimWorld(SimOptions(profile=Profile.S3))
    provider = StorageBasedLockProvider(sim.storage, sim.runtime, validity_s=60, renew_s=6)
    session = provider.acquire(0)
    session._renewal.cancel()  # the thread is gone
    sim.clock.advance(59)
    assert session.still_held()
    sim.clock.advance(2)
    before = sim.scheduler.time_ms
    sim.storage.inject(Fault.THROTTLED, "head", "*", 1000)
    assert not session.still_held(), "by its own clock, without asking anybody"
    sim.storage.injections.clear()
    assert sim.scheduler.time_ms == before
    session.renew()
    assert not session.still_held(), "what has run out is not revived"
    taken = StorageBasedLockProvider(sim.storage, sim.runtime).acquire(0)
    session.release()
    assert taken.still_held()


@pytest.mark.row("R9")
def test_a_writer_whose_heartbeat_died_is_rolled_back_and_hears_of_it() -> None:
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    silent = story.writer("silent")
    with silent.open().begin("upsert") as write:
        write.write(batch((1, "a", 10)))
        story.paused.add("silent")  # its timers are not called any more
        story.pass_time(LONG_S)
        story.writer("other").open().upsert(batch((2, "b", 2)))
        with pytest.raises(CommitAbortedError, match="rolled this write back"):
            write.commit()
    story.paused.clear()
    assert rows_of(table) == [(1, "a", 1), (2, "b", 2)]
    assert_tidy(story, table)


@pytest.mark.row("K11")
@pytest.mark.parametrize("fault", [Fault.THROTTLED, Fault.UNKNOWN, Fault.LOST_ACK], ids=lambda fault: fault.value)
@pytest.mark.parametrize("kind", ["file_system", "storage_based"])
def test_lock_429_leaves_no_dangling(kind: str, fault: Fault) -> None:
    """A storage that has enough of us at any call of taking and giving back: the next writer gets the lock, at once or when the lease is over."""
    for number in range(12):
        sim = SimWorld(SimOptions(profile=Profile.S3))
        failing = _NthCall(sim, fault, number)

        def provider(storage: Any, sim: SimWorld = sim) -> Any:
            if kind == "file_system":
                return FileSystemLockProvider(storage, sim.clock, sim.ids, expire_minutes=1)
            return StorageBasedLockProvider(storage, sim.runtime, validity_s=60, renew_s=6)

        outcome = "given back"
        try:
            provider(failing).acquire(1).release()
        except StorageError:
            outcome = "failed"
        if not failing.happened:
            break
        if outcome == "given back":
            provider(sim.storage).acquire(0).release()
        else:
            sim.clock.advance(121)  # at the latest when the lease is over
            provider(sim.storage).acquire(1).release()
    assert number >= 3, "taking and giving back makes some calls"


class _NthCall(WrappedStorage):
    """A storage whose n-th call fails."""

    def __init__(self, sim: SimWorld, fault: Fault, number: int) -> None:
        self._sim, self._fault, self._number = sim, fault, number
        self.calls = 0
        self.happened = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._sim.storage, name)
        if not callable(real):
            return real

        def call(path: str, *rest: Any) -> Any:
            mine = self.calls == self._number
            self.calls += 1
            if mine:
                self.happened = True
                reads = name in ("get", "head", "list")
                self._sim.storage.inject(Fault.THROTTLED if reads else self._fault, name, path)
            return real(path, *rest)

        return call


@pytest.mark.row("U17")
def test_mixed_lock_identity_refused() -> None:
    """A writer with another lock would exclude nobody: it is refused before anything is published, and moves only by consent."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    home = story.writer("stranger").home()
    other_lock = StorageBasedLockProvider(home.storage, home.runtime)
    stranger = HudiTable(replace(home, lock=other_lock))
    with pytest.raises(LockIdentityError, match="do not exclude each other"):
        stranger.upsert(batch((1, "a", 10)))
    assert rows_of(table) == [(1, "a", 1)]
    assert_tidy(story, table)
    moving = {**home.options, "pyhudi.lock.change.from": story.lock.identity}
    HudiTable(replace(home, lock=other_lock, options=moving)).upsert(batch((1, "a", 10)))
    with pytest.raises(LockIdentityError):
        story.writer("left behind").open().upsert(batch((1, "a", 20)))
    stranger.upsert(batch((1, "a", 30)))
    assert rows_of(table) == [(1, "a", 30)]
