"""The storage-based lock: what its file says, when it may be taken, and how it is chosen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support.homes import context_of, home_at, make_at
from support.tables import ORDERS, create_plain, orders, rows

from pyhudi_core.errors import InvalidOptionError, LockIdentityError, LockTimeoutError, StorageError
from pyhudi_core.lock.base import in_process_identity, refuse_other_lock
from pyhudi_core.lock.storage_based import StorageBasedLockProvider, StorageBasedOptions
from pyhudi_core.lock.storage_lock_file import LOCK_FILE, MOST_BYTES, LockFile, Owner, shown
from pyhudi_core.options import WriteOptions
from pyhudi_core.runtime import SystemClock
from pyhudi_core.runtime.base import Runtime, UnknownProcess
from pyhudi_core.runtime.system import RandomIds, SerialExecutor, SystemProcess, ThreadTimer
from pyhudi_core.storage import MemoryStorage
from pyhudi_core.storage.memory import MemoryBucket
from pyhudi_core.testing import Fault, Profile, SimOptions, SimWorld

OWNER = Owner("0f0f", 3, 1_767_225_600_000, "upsert", "host|boot pid:[1]|42|77")


def test_an_owner_reads_back_as_it_was_written_and_is_shown_in_words() -> None:
    assert Owner.parse(OWNER.to_text()) == OWNER
    assert OWNER.describe() == "process 42 on host since 2026-01-01 00:00:00 UTC for upsert"
    assert Owner.parse("7f1c2d3e-0000-4000-8000-000000000000") is None
    odd = Owner("0f0f", 1, 5, "a|b" + "x" * 500, "")
    found = Owner.parse(odd.to_text())
    assert found is not None
    assert found.note == "a/b" + "x" * 197
    assert "an unknown process" in found.describe()


def test_times_of_the_calendar_are_shown_as_such_and_others_as_numbers() -> None:
    assert shown(0) == "1970-01-01 00:00:00 UTC"
    assert shown(253_402_300_799_000) == "9999-12-31 23:59:59 UTC"
    assert shown(-1) == "-1 ms"
    assert shown(253_402_300_799_001) == "253402300799001 ms"


def test_a_lock_file_reads_back_as_it_was_written() -> None:
    lock = LockFile(True, 1_767_225_900_000, OWNER.to_text())
    assert LockFile.parse(lock.to_bytes()) == lock
    assert "until 2026-01-01 00:05:00 UTC" in lock.describe()
    assert "written by another tool" in LockFile(False, 5, "7f1c").describe()
    assert shown(10**17) == "100000000000000000 ms"
    assert shown(-1) == "-1 ms"


def test_a_lock_file_is_read_up_to_the_bound_of_its_size() -> None:
    lock = LockFile(False, 2_000_000_000_000, OWNER.to_text())
    world = SimWorld(SimOptions(profile=Profile.S3))
    provider = StorageBasedLockProvider(world.storage, world.runtime)
    for size, known in ((MOST_BYTES, lock), (MOST_BYTES + 1, None)):
        world.storage.put(LOCK_FILE, lock.to_bytes().ljust(size))
        seen = provider.read()
        assert seen is not None
        assert seen.lock == known


def test_a_lock_that_could_not_outlive_failed_renewals_is_refused() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    with pytest.raises(InvalidOptionError, match="more often than every 31 s"):
        StorageBasedLockProvider(world.storage, world.runtime, validity_s=300, renew_s=31)
    with pytest.raises(InvalidOptionError, match="below ten times"):
        WriteOptions.parse({"hoodie.write.lock.storage.validity.timeout.secs": 100})
    options = WriteOptions.parse({"hoodie.write.lock.storage.heartbeat.poll.secs": "20"})
    assert options.lock.of(StorageBasedOptions) == StorageBasedOptions(300, 20)


def test_each_write_of_a_holding_says_how_many_there_were() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    session = StorageBasedLockProvider(world.storage, world.runtime).acquire(0)
    revisions = []
    for step in (session.renew, session.renew, session.release):
        step()
        lock = LockFile.parse(world.storage.get(LOCK_FILE))
        owner = Owner.parse(lock.owner) if lock else None
        assert owner is not None
        assert owner.holding == session.token
        revisions.append(owner.revision)
    assert revisions == [2, 3, 4]


class TwoClocks:
    """A machine's two clocks: the time of day may be set, and the other one stands still while the machine sleeps."""

    def __init__(self) -> None:
        self.day_ms, self.passed_s = 1_767_225_600_000, 0.0

    def now_ms(self) -> int:
        return self.day_ms

    def monotonic(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        self.pass_by(seconds)

    def pass_by(self, seconds: float) -> None:
        self.day_ms += round(seconds * 1000)
        self.passed_s += seconds


@pytest.mark.parametrize("what", ["the clock is set back", "the machine sleeps"])
def test_a_lease_ends_by_the_clock_that_is_further(what: str) -> None:
    clock = TwoClocks()
    world = SimWorld(SimOptions(profile=Profile.S3))
    runtime = Runtime(clock, RandomIds(), SerialExecutor(), world.runtime.timer)
    session = StorageBasedLockProvider(world.storage, runtime, validity_s=300, renew_s=30).acquire(0)
    clock.pass_by(100)
    session.renew()
    clock.pass_by(250)
    assert session.lease_left_s() == 50, "the renewal counts"
    if what == "the clock is set back":
        clock.day_ms -= 3_600_000
        assert session.lease_left_s() == 50
        clock.pass_by(51)
    else:
        clock.day_ms += 51_000
    assert not session.still_held()
    clock.day_ms -= 3_600_000
    clock.passed_s -= 3_600
    assert not session.still_held(), "what has ended does not begin again"
    session.renew()
    assert not session.still_held(), "nor does a renewal revive it"


def test_an_uncertain_write_of_a_writer_that_gives_up_is_taken_back() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))

    def the_look_after_the_write_fails() -> None:
        disturbed._before = lambda: None
        world.storage.inject(Fault.LOST_ACK, "put_if_absent", LOCK_FILE)
        world.storage.inject(Fault.FAIL_BEFORE, "get", LOCK_FILE)

    disturbed = Disturbed(world.storage, before=the_look_after_the_write_fails)
    provider = StorageBasedLockProvider(disturbed, world.runtime)
    with pytest.raises(LockTimeoutError):
        provider.acquire(0)
    lock = LockFile.parse(world.storage.get(LOCK_FILE))
    assert lock is not None
    assert lock.expired


def test_a_writer_that_gives_up_leaves_the_lock_of_another_alone() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    other = StorageBasedLockProvider(world.storage, world.runtime)

    def taken_by_another() -> None:
        disturbed._before = lambda: None
        sessions.append(other.acquire(0))

    sessions: list[Any] = []
    disturbed = Disturbed(world.storage, before=taken_by_another)
    with pytest.raises(LockTimeoutError):
        StorageBasedLockProvider(disturbed, world.runtime).acquire(0)
    assert sessions[0].still_held()
    lock = LockFile.parse(world.storage.get(LOCK_FILE))
    assert lock is not None
    assert not lock.expired


@pytest.mark.parametrize("failures", [4, 5])
def test_a_storage_may_fail_four_times_in_a_row_while_the_lock_is_waited_for(failures: int) -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    world.storage.inject(Fault.FAIL_BEFORE, "get", LOCK_FILE, times=failures)
    provider = StorageBasedLockProvider(world.storage, world.runtime)
    if failures == 4:
        assert provider.acquire(60).still_held()
    else:
        with pytest.raises(StorageError):
            provider.acquire(60)


def test_a_writer_that_waits_reads_an_unchanged_lock_file_once_and_tries_again_soon() -> None:
    """Waiting costs one small request an attempt; what it waits beyond the release is a fraction of what it has waited."""
    world = SimWorld(SimOptions(profile=Profile.S3))
    held = StorageBasedLockProvider(world.storage, world.runtime).acquire(0)
    counted = Counted(world.storage)
    waiting = StorageBasedLockProvider(counted, world.runtime)
    with pytest.raises(LockTimeoutError):
        waiting.acquire(2)
    assert 10 < counted.calls["looks"] < 60
    assert counted.calls["contents"] == 2, "once to learn the holder, and once for the message"
    held.release()
    waiting.acquire(0).release()


def test_a_lock_file_that_others_change_while_a_writer_waits_is_read_again() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    sessions = [StorageBasedLockProvider(world.storage, world.runtime).acquire(0)]

    def hand_over() -> None:
        if counted.calls["looks"] in (3, 6):
            sessions.pop().release()
            sessions.append(StorageBasedLockProvider(world.storage, world.runtime).acquire(0))
        elif counted.calls["looks"] == 9:
            sessions.pop().release()

    counted = Counted(world.storage, hand_over)
    session = StorageBasedLockProvider(counted, world.runtime).acquire(20)
    assert session.still_held()
    assert counted.calls == {"looks": 9 + 1, "contents": 4 + 1}, "the last of each are of still_held"


class Counted:
    """A storage that counts looks at an object, and those that bring its content; ``before`` runs before each look."""

    def __init__(self, storage: Any, before: Callable[[], object] = lambda: None) -> None:
        self._storage, self._before = storage, before
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get_tagged(self, path: str, unless: str = "") -> Any:
        self.calls["looks"] += 1
        self._before()
        found = self._storage.get_tagged(path, unless)
        self.calls["contents"] += found is not None
        return found


class Disturbed:
    """A storage on which something happens around the conditional writes of the lock file."""

    def __init__(
        self, storage: Any, before: Callable[[], object] = lambda: None, after: Callable[[], object] = lambda: None
    ) -> None:
        self._storage, self._before, self._after = storage, before, after

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name not in ("put_if_absent", "put_if_match"):
            return real

        def call(*arguments: Any) -> Any:
            self._before()
            done = real(*arguments)
            self._after()
            return done

        return call


@pytest.mark.parametrize("held_before", [False, True])
def test_an_interrupt_while_the_lock_is_taken_leaves_no_lock(held_before: bool) -> None:
    """Ctrl-C in a notebook: the write has reached the storage, and nobody would give the lock back before its end."""
    world = SimWorld(SimOptions(profile=Profile.S3))
    if held_before:
        StorageBasedLockProvider(world.storage, world.runtime).acquire(0).release()

    def interrupt() -> None:
        disturbed._after = lambda: None
        raise KeyboardInterrupt

    disturbed = Disturbed(world.storage, after=interrupt)
    with pytest.raises(KeyboardInterrupt):
        StorageBasedLockProvider(disturbed, world.runtime).acquire(0)
    StorageBasedLockProvider(world.storage, world.runtime).acquire(0).release()


def test_a_renewal_that_hangs_does_not_revive_a_lock_that_was_given_back() -> None:
    storage = MemoryStorage("memory://lake/t", MemoryBucket(), SystemClock())
    runtime = Runtime(SystemClock(), RandomIds(), SerialExecutor(), ThreadTimer())
    hangs, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        if threading.current_thread() is not threading.main_thread():
            hangs.set()
            assert goes_on.wait(20)

    session = StorageBasedLockProvider(Disturbed(storage, before=hang), runtime).acquire(0)
    renewal = threading.Thread(target=session.renew)
    renewal.start()
    assert hangs.wait(20)
    session.release()
    goes_on.set()
    renewal.join(20)
    lock = LockFile.parse(storage.get(LOCK_FILE))
    assert lock is not None
    assert lock.expired
    assert not session.still_held()


def test_a_storage_that_never_answers_is_an_error_of_the_storage() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    world.storage.inject(Fault.THROTTLED, "get", LOCK_FILE, times=1_000)
    with pytest.raises(StorageError, match="throttled"):
        StorageBasedLockProvider(world.storage, world.runtime).acquire(60)
    with pytest.raises(LockTimeoutError, match="cannot be asked for the holder"):
        StorageBasedLockProvider(world.storage, world.runtime).acquire(0)


def test_a_release_that_fails_may_be_repeated() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    session = StorageBasedLockProvider(world.storage, world.runtime).acquire(0)
    world.storage.inject(Fault.THROTTLED, "put_if_match", LOCK_FILE, times=6)
    with pytest.raises(StorageError):
        session.release()
    session.release()
    lock = LockFile.parse(world.storage.get(LOCK_FILE))
    assert lock is not None
    assert lock.expired


@pytest.mark.row("O1", "O6")
def test_which_lock_a_table_gets_without_being_asked(location: str) -> None:
    memory = MemoryStorage("memory://lake/orders", MemoryBucket(), SystemClock())
    assert context_of(make_at(home_at(memory))).lock.identity.startswith("in_process:")
    assert context_of(make_at(home_at(location))).lock.identity == "file_system:.hoodie"
    chosen = home_at(MemoryStorage("memory://lake/b", MemoryBucket(), SystemClock()), options={"lock": "storage_based"})
    table = make_at(chosen)
    table.upsert(orders((1, "a", 1.0)))
    assert chosen.storage.head(LOCK_FILE) is not None
    assert rows(table, "id", "price") == [(1, 1.0)]


def test_a_storage_based_lock_on_a_disk_is_refused_with_a_way_out(location: str) -> None:
    with pytest.raises(InvalidOptionError, match="storage_based") as refused:
        create_plain(location, ORDERS, "id", options={"lock": "storage_based"}).upsert(orders((1, "a", 1.0)))
    assert "file_system" in str(refused.value)


@pytest.mark.row("O9")
def test_identities_are_compared_as_a_whole() -> None:
    def refuse(found: str, ours: str, given_up: str = "") -> None:
        refuse_other_lock(found, ours, given_up=given_up, process=UnknownProcess(), table="t")

    refuse("", "file_system:.hoodie")
    refuse("file_system:.hoodie", "file_system:.hoodie")
    refuse("a", "b", given_up="a")
    for found, ours, given_up in (("a", "b", ""), ("a", "b", "b"), ("file_system:x", "file_system:y", "file_system")):
        with pytest.raises(LockIdentityError, match=f"{found!r}.*{ours!r}"):
            refuse(found, ours, given_up)


@pytest.mark.row("O1", "O9")
def test_the_lock_of_a_process_that_is_gone_belongs_to_nobody() -> None:
    process = SystemProcess()
    living = in_process_identity("/a#b/t", process.identity())
    host, machine, _, _ = process.identity().split("|")
    gone = in_process_identity("/a#b/t", f"{host}|{machine}|{2**22 + 5}|1")
    ours = in_process_identity("/a#b/t", "another")
    refuse_other_lock(gone, ours, given_up="", process=process, table="t")
    with pytest.raises(LockIdentityError):
        refuse_other_lock(living, ours, given_up="", process=process, table="t")
