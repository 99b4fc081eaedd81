"""Locks that expire, whose responses get lost, whose renewals fail, or that two writers do not share (promises P1, P2, P7 and P10)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from reliability.counter_table import CounterWorld, chain, counter_world, increment
from reliability.real_table import OPTIONS, TableSetup, TableWorld, orders, rows_of, table_world
from reliability.service_runs import budget

from pyhudi_core.errors import LockIdentityError, LockLostError, LockTimeoutError, StorageError
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.lock.storage_lock_file import LOCK_FILE, LockFile, Owner
from pyhudi_core.opened_table.opened_table import OpenedTable
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Bounds, Fault, History, Profile, SimOptions, SimWorld, explore

PROFILES = [Profile.S3, Profile.GCS, Profile.AZURE]


def provider(world: SimWorld) -> StorageBasedLockProvider:
    return StorageBasedLockProvider(world.storage, world.runtime)


def lock_of(world: SimWorld) -> LockFile:
    found = LockFile.parse(world.storage.get(LOCK_FILE))
    assert found is not None
    return found


@pytest.fixture(params=PROFILES, ids=lambda profile: profile.value)
def world(request: pytest.FixtureRequest) -> SimWorld:
    return SimWorld(SimOptions(profile=request.param))


@pytest.mark.row("O10", "T2")
@pytest.mark.parametrize("fault", [Fault.FALSE_PRECONDITION, Fault.LOST_ACK], ids=lambda fault: fault.value)
@pytest.mark.parametrize("first", [True, False], ids=["created", "taken over"])
def test_put_412_after_success_lock_trylock(world: SimWorld, fault: Fault, first: bool) -> None:
    if not first:
        provider(world).acquire(0).release()
    world.storage.inject(fault, "put_if_absent" if first else "put_if_match", LOCK_FILE)
    session = provider(world).acquire(0)
    assert session.still_held()
    with pytest.raises(LockTimeoutError):
        provider(world).acquire(0)
    session.release()
    provider(world).acquire(0).release()


@pytest.mark.row("O10", "T2")
@pytest.mark.parametrize("fault", [Fault.FALSE_PRECONDITION, Fault.LOST_ACK, Fault.UNKNOWN], ids=lambda f: f.value)
def test_put_412_after_success_lock_renew(world: SimWorld, fault: Fault) -> None:
    session = provider(world).acquire(0)
    before = session.valid_until_ms
    world.storage.inject(fault, "put_if_match", LOCK_FILE)
    world.clock.advance(30)
    world.timer.fire_due()
    assert session.still_held()
    assert session.valid_until_ms >= before + 30_000
    assert lock_of(world).valid_until_ms == session.valid_until_ms
    session.release()
    assert lock_of(world).expired


@pytest.mark.row("O10", "T2")
@pytest.mark.parametrize("fault", [Fault.FALSE_PRECONDITION, Fault.LOST_ACK, Fault.UNKNOWN], ids=lambda f: f.value)
def test_put_412_after_success_lock_unlock(world: SimWorld, fault: Fault) -> None:
    session = provider(world).acquire(0)
    world.storage.inject(fault, "put_if_match", LOCK_FILE)
    session.release()
    assert lock_of(world).expired
    assert not session.still_held()
    provider(world).acquire(0).release()


@pytest.mark.row("O6", "T2")
def test_etag_aba_same_payload() -> None:
    """Where a tag is the content's hash, equal bytes would make a zombie's old tag true again."""
    world = SimWorld(SimOptions(profile=Profile.S3, tick_ms=0))
    seen: set[bytes] = set()
    zombie = provider(world).acquire(0)
    stale = world.storage.head(LOCK_FILE)
    assert stale is not None
    for _ in range(5):
        seen.add(world.storage.get(LOCK_FILE))
        zombie.renew()  # the clock stands still, so only the revision differs
    zombie.release()
    for _ in range(5):
        session = provider(world).acquire(0, "same note")
        seen.add(world.storage.get(LOCK_FILE))
        with pytest.raises(StorageError):
            world.storage.put_if_match(LOCK_FILE, b"zombie", stale.etag)
        session.release()
        seen.add(world.storage.get(LOCK_FILE))
    assert len(seen) == 15


@pytest.mark.row("O9")
def test_a_holder_whose_renewals_fail_knows_when_its_time_is_over(world: SimWorld) -> None:
    session = provider(world).acquire(0)
    world.storage.inject(Fault.THROTTLED, "put_if_match", LOCK_FILE, times=1_000)
    for _ in range(9):
        world.clock.advance(30)
        world.timer.fire_due()
        assert session.still_held()
    world.clock.advance(30)
    world.timer.fire_due()
    assert not session.still_held()
    world.storage.injections.clear()
    world.timer.fire_due()
    session.renew()
    assert not session.still_held(), "a lock that ran out came back"
    world.clock.advance(1)
    other = provider(world).acquire(0)
    session.release()
    assert other.still_held()


@pytest.mark.row("O6")
def test_a_renewed_lock_outlives_its_validity_and_others_wait(world: SimWorld) -> None:
    session = provider(world).acquire(0, "a long write")
    for _ in range(40):
        world.clock.advance(30)
        world.timer.fire_due()
    assert session.still_held()
    with pytest.raises(LockTimeoutError, match="a long write"):
        provider(world).acquire(0)
    session.release()
    handles = len(world.timer._handles)
    provider(world).acquire(0).release()
    assert len(world.timer._handles) == handles == 0, "renewal goes on after the release"


@pytest.mark.row("O9")
@pytest.mark.parametrize("why", ["the thread is dead", "the storage refuses"])
def test_renewal_thread_dies(why: str) -> None:
    """The writer notices on its own: it publishes nothing, and the next one goes on."""
    world = locked_table(Profile.S3, concurrency="pessimistic")
    with world.table().begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        world.storage.inject(Fault.THROTTLED, "put_if_match", LOCK_FILE, times=1_000)
        for _ in range(11):
            world.wait(30)
            if why == "the storage refuses":
                world.sim.timer.fire_due()
        with pytest.raises(LockLostError, match="could not be renewed"):
            write.commit()
        world.storage.injections.clear()
    assert rows_of(world.table()) == ((1, "a", 1.0),)
    world.table().upsert(orders((1, "a", 3.0)))
    assert rows_of(world.table()) == ((1, "a", 3.0),)


@pytest.mark.row("O6")
@pytest.mark.parametrize("verb", ["head", "get", "put_if_absent", "put_if_match"])
@pytest.mark.parametrize("refusals", [1, 3, 1_000])
def test_lock_429_leaves_no_dangling(world: SimWorld, verb: str, refusals: int) -> None:
    """A storage that refuses is asked again; whatever it does, no lock outlives its validity."""
    for moment in ("take", "give back"):
        if moment == "take":
            world.storage.inject(Fault.THROTTLED, verb, LOCK_FILE, times=refusals)
        try:
            session = provider(world).acquire(20)
            if moment == "give back":
                world.storage.inject(Fault.THROTTLED, verb, LOCK_FILE, times=refusals)
            session.release()
        except StorageError:
            assert refusals == 1_000, "a refusal that passes should cost only time"
        except LockTimeoutError as error:
            assert refusals == 1_000, error
        world.storage.injections.clear()
        if refusals < 1_000:
            provider(world).acquire(0).release()
        world.clock.advance(301)
        provider(world).acquire(0).release()


def locked_table(profile: Profile, **options: object) -> TableWorld:
    """A table with one row, under the lock that the options name or the storage suggests."""
    setup = TableSetup(options={**OPTIONS, **options}, real_lock=True)
    world = table_world(setup, profile=profile, tick_ms=0)
    world.create()
    world.table().upsert(orders((1, "a", 1.0)))
    return world


def opened(world: TableWorld, **options: object) -> HudiTable:
    return HudiTable(OpenedTable(world.storage, world.sim.runtime, {**OPTIONS, **options}))


@pytest.mark.row("O6")
def test_the_lock_that_fits_the_storage_is_taken_without_being_asked_for() -> None:
    identities = {
        profile: HudiTable(locked_table(profile).home())._opened.context().lock.identity
        for profile in (Profile.S3, Profile.LOCAL_POSIX)
    }
    assert identities == {
        Profile.S3: "storage_based:.hoodie/.locks/table_lock.json",
        Profile.LOCAL_POSIX: "file_system:.hoodie",
    }


@pytest.mark.row("O9")
def test_mixed_lock_identity_refused() -> None:
    world = locked_table(Profile.S3)
    mine = {"lock": "file_system"}
    with pytest.raises(LockIdentityError) as refused:
        opened(world, **mine).upsert(orders((1, "a", 2.0)))
    text = str(refused.value)
    assert "storage_based:.hoodie/.locks/table_lock.json" in text
    assert "file_system:.hoodie" in text
    assert "pyhudi.lock.change.from=storage_based:.hoodie/.locks/table_lock.json" in text
    assert rows_of(world.table()) == ((1, "a", 1.0),)
    # The two do not differ in kind only: another address is another lock, too.
    moved = {"lock": "file_system", "pyhudi.lock.change.from": "storage_based:.hoodie/.locks/table_lock.json"}
    opened(world, **moved).upsert(orders((1, "a", 2.0)))
    with pytest.raises(LockIdentityError):
        opened(world, **mine, **{"hoodie.write.lock.filesystem.path": ".hoodie/.aux"}).upsert(orders((1, "a", 3.0)))
    # All others follow; who has not heard of it is refused, also with the option, which has done its work.
    with pytest.raises(LockIdentityError):
        world.table().upsert(orders((1, "a", 3.0)))
    opened(world, **moved).upsert(orders((1, "a", 4.0)))
    opened(world, **mine).upsert(orders((1, "a", 5.0)))
    with pytest.raises(LockIdentityError):
        opened(world, lock="storage_based", **{"pyhudi.lock.change.from": "storage_based:x"}).delete(where="id = 1")
    assert rows_of(world.table()) == ((1, "a", 5.0),)


@dataclass(frozen=True)
class NamedProcess:
    """A process among others, of which some have ended."""

    name: str
    gone: frozenset[str] = frozenset()

    def identity(self) -> str:
        return self.name

    def is_gone(self, identity: str) -> bool:
        return identity in self.gone


@pytest.mark.row("O1", "O9")
def test_two_processes_with_a_lock_each_to_themselves_refuse_each_other() -> None:
    world = locked_table(Profile.S3)
    change = {"lock": "in_process", "pyhudi.lock.change.from": "storage_based:.hoodie/.locks/table_lock.json"}

    def process(name: str, gone: frozenset[str] = frozenset()) -> HudiTable:
        runtime = replace(world.sim.runtime, process=NamedProcess(name, gone))
        return HudiTable(OpenedTable(world.storage, runtime, {**OPTIONS, **change}))

    process("one").upsert(orders((1, "a", 2.0)))
    process("one").upsert(orders((1, "a", 3.0)))
    with pytest.raises(LockIdentityError, match="#one.*#two"):
        process("two").upsert(orders((1, "a", 4.0)))
    # Started again after the first has ended, it is the only one.
    process("three", frozenset({"one"})).upsert(orders((1, "a", 5.0)))
    assert rows_of(world.table()) == ((1, "a", 5.0),)


def under_storage_lock(profile: Profile) -> CounterWorld:
    made = counter_world(profile)
    lock = StorageBasedLockProvider(made.sim.storage, made.sim.runtime, validity_s=10, renew_s=1)
    made.home.lock = lock
    return made


def nothing_is_lost(world: CounterWorld, history: History) -> None:
    commits, values = chain(world.context())
    assert values == list(range(1, len(values) + 1)), f"a lost update: {values}"
    acknowledged = {str(event.value) for event in history.of("ok")}
    assert acknowledged <= {instant.requested_time for instant in commits}, "an acknowledged commit is not there"


@pytest.mark.one_in(2, first=1)
@pytest.mark.row("O6", "O9")
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(preemptions=1, schedules=budget(120)),
        Bounds(preemptions=1, crashes=1, schedules=budget(200)),
        Bounds(preemptions=1, faults={"pause": 1}, schedules=budget(200)),
        Bounds(preemptions=0, faults={"lost_ack": 1}, schedules=budget(150)),
    ],
    ids=["order", "crash", "pause", "lost answer"],
)
def test_commits_under_the_storage_based_lock_lose_no_update(bounds: Bounds) -> None:
    report = explore(lambda: under_storage_lock(Profile.S3), [increment] * 2, nothing_is_lost, bounds).assert_clean()
    print(f"{report.schedules} schedules, {report.states} states, exhausted {report.exhausted}")


@pytest.mark.row("O6")
def test_the_lock_of_a_process_that_has_ended_is_taken_over_at_once() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))

    def by(name: str, gone: frozenset[str] = frozenset()) -> StorageBasedLockProvider:
        return StorageBasedLockProvider(world.storage, replace(world.runtime, process=NamedProcess(name, gone)))

    by("one").acquire(0)
    with pytest.raises(LockTimeoutError, match="one"):
        by("two").acquire(0)
    session = by("two", frozenset({"one"})).acquire(0)
    assert session.still_held()


@pytest.mark.row("O6")
def test_the_file_is_hudis_to_the_letter() -> None:
    world = SimWorld(SimOptions(profile=Profile.GCS))
    session = provider(world).acquire(0, "upsert")
    found = json.loads(world.storage.get(".hoodie/.locks/table_lock.json"))
    assert set(found) == {"expired", "validUntil", "owner"}
    assert found["expired"] is False
    assert found["validUntil"] == session.valid_until_ms
    owner = Owner.parse(found["owner"])
    assert owner is not None
    assert owner.holding == session.token
    session.release()
    after = json.loads(world.storage.get(".hoodie/.locks/table_lock.json"))
    assert (after["expired"], after["validUntil"]) == (True, found["validUntil"])


@pytest.mark.row("O6")
def test_a_java_holder_is_waited_for_named_and_replaced_when_its_time_is_over() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    until = world.clock.now_ms() + 300_000
    owner = "2a1cb7f1-6b2e-4a3e-9a7e-0d8f0d5e9b11"
    world.storage.put(LOCK_FILE, json.dumps({"expired": False, "validUntil": until, "owner": owner}).encode())
    with pytest.raises(LockTimeoutError, match=owner):
        provider(world).acquire(0)
    world.clock.advance(300.3)  # a clock that is 500 ms ahead must not shorten it
    with pytest.raises(LockTimeoutError):
        provider(world).acquire(0)
    world.clock.advance(0.3)
    provider(world).acquire(0).release()


@pytest.mark.row("O5")
def test_a_file_system_lock_in_a_bucket_is_possible_but_another_lock() -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    file_system = FileSystemLockProvider(world.storage, world.clock, world.ids)
    assert file_system.identity != provider(world).identity
    file_system.acquire(0).release()
