"""A successful write whose response is lost, or reports that another writer was first: the writer recognizes its object by the nonce (P1, P2 and P3)."""

from __future__ import annotations

from typing import Any

import pytest
from reliability import real_table
from reliability.real_table import TableWorld, world_with_rows
from reliability.storages import (
    BATCH,
    BEFORE,
    COMPLETED,
    LOCK_FILE,
    NEW,
    RECORD,
    SIMULATED,
    Counting,
    EchoingProxy,
    Interrupted,
    Place,
    S3Place,
    completed,
    upsert,
)
from support.tables import rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitAbortedError,
    LockTimeoutError,
)
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.testing import Bounds, Fault, History, Profile, explore


@pytest.mark.one_in(3)
@pytest.mark.row("K13")
@pytest.mark.parametrize("how", ["412_after", "lost_ack"])
def test_put_412_after_success_completed_instant_reads_back(place: Place, how: Any) -> None:
    table = place.make()
    table.upsert(BEFORE)
    place.goes_wrong(how, COMPLETED)
    commit = table.upsert(BATCH)
    assert (commit.retries, completed(table)) == (0, 2)
    assert rows(table, "id", "price") == NEW
    assert table.commit_status(commit.token) is hudi.CommitStatus.COMMITTED


@pytest.mark.one_in(3)
@pytest.mark.row("K13")
@pytest.mark.parametrize("how", ["412_after", "lost_ack"])
def test_put_412_after_success_decision_reads_back(place: Place, how: Any) -> None:
    table = place.make()
    for verb, data in (("put_if_absent", BEFORE), ("put_if_match", BATCH)):
        place.goes_wrong(how, RECORD, verb=verb)
        assert table.upsert(data).retries == 0
    assert (rows(table, "id", "price"), completed(table)) == (NEW, 2)


@pytest.mark.one_in(4)
@pytest.mark.row("K13")
@pytest.mark.parametrize("name", ["*.replacecommit.requested", "*.replacecommit.inflight", ".hoodie/.heartbeat/*"])
def test_put_412_after_success_requested_instant(place: Place, name: str) -> None:
    """The file's body carries a nonce, so reading it back tells whose it is."""
    table = place.make()
    table.upsert(BEFORE)
    place.goes_wrong("412_after", name)
    commit = table.insert_overwrite(BATCH)
    assert (commit.retries, completed(table)) == (0, 2)
    assert rows(table, "id", "price") == NEW

    def takes_it(path: str) -> None:
        place.storage.put(path, b"somebody else's")
        taken.append(path)

    taken: list[str] = []
    unlucky = place.table(Interrupted(place.storage, "put_if_absent", name, takes_it))
    if "heartbeat" in name:
        unlucky.upsert(BEFORE)  # another requested time is free
    else:
        with pytest.raises(CommitAbortedError, match="uses the same requested time"):
            unlucky.insert_overwrite(BATCH)
    assert place.storage.get(taken[0]) == b"somebody else's"


# --- the lock's three cases of the same


def lock_of(place: Place) -> StorageBasedLockProvider:
    return StorageBasedLockProvider(place.storage, place.runtime)


def assert_held(place: Place) -> None:
    with pytest.raises(LockTimeoutError):
        lock_of(place).acquire(0)


@pytest.mark.one_in(3)
@pytest.mark.row("O10")
@pytest.mark.parametrize("how", ["412_after", "lost_ack"])
def test_put_412_after_success_lock_trylock(place: Place, how: Any) -> None:
    for verb in ("put_if_absent", "put_if_match"):  # a table's first lock, and one that was given back
        place.goes_wrong(how, LOCK_FILE, verb=verb)
        session = lock_of(place).acquire(0)
        assert session.still_held(), "we are not shut out by a lock of our own"
        assert_held(place)
        session.release()
        assert not session.still_held()
    lock_of(place).acquire(0).release()


@pytest.mark.one_in(3)
@pytest.mark.row("O10")
@pytest.mark.parametrize("how", ["412_after", "lost_ack"])
def test_put_412_after_success_lock_renew(place: Place, how: Any) -> None:
    session = lock_of(place).acquire(0)
    before = session.valid_until_ms
    place.runtime.clock.sleep(1)
    for _ in range(2):
        place.goes_wrong(how, LOCK_FILE, verb="put_if_match")
        session.renew()
        assert session.still_held()
        assert_held(place)
    assert session.valid_until_ms > before
    session.release()
    lock_of(place).acquire(0).release()


@pytest.mark.row("O10")
@pytest.mark.parametrize("how", ["412_after", "lost_ack"])
def test_put_412_after_success_lock_unlock(place: Place, how: Any) -> None:
    session = lock_of(place).acquire(0)
    place.goes_wrong(how, LOCK_FILE, verb="put_if_match")
    session.release()
    next_one = lock_of(place).acquire(0)
    assert next_one.still_held(), "free at once"
    session.release()
    assert next_one.still_held(), "giving back twice takes nothing from others"
    next_one.release()


# --- every answer


@pytest.mark.one_in(2)
@pytest.mark.row("K13", "U4")
@pytest.mark.parametrize("fault", [Fault.LOST_ACK, Fault.FALSE_PRECONDITION], ids=lambda fault: fault.value)
@pytest.mark.parametrize("profile", SIMULATED, ids=lambda profile: profile.value)
def test_timeout_after_success_everywhere(profile: Profile, fault: Fault) -> None:
    """Once after each write of an upsert: data files, markers, heartbeat, timeline, record, lock, sweeping up."""
    setup = real_table.TableSetup(real_lock=True)
    image = world_with_rows((1, "a", 1.0), (2, "b", 2.0), setup=setup, profile=profile).storage.image()
    old, new = ((1, "a", 1.0), (2, "b", 2.0)), ((1, "a", 10.0), (2, "b", 2.0), (3, "a", 3.0))

    def world() -> TableWorld:
        return real_table.table_world(setup, profile=profile, image=image, start_ms=1_767_225_700_000)

    def write(world: TableWorld) -> bool:
        committed, error = upsert(world.table(), real_table.orders((1, "a", 10.0), (3, "a", 3.0)))
        if error is not None and not committed:
            raise error
        return committed

    def check(world: TableWorld, history: History) -> None:
        found = real_table.rows_of(world.table())
        assert found == (new if history.outcome("a") == "ok" else old), (history.outcome("a"), history.error("a"))
        assert len(world.table().timeline.commits) == (2 if found == new else 1)
        world.table().upsert(real_table.orders((2, "b", 20.0)))
        assert (2, "b", 20.0) in real_table.rows_of(world.table())

    report = explore(world, [write], check, Bounds(preemptions=0, faults={fault.value: 1}, every_call=True))
    report.assert_clean()
    assert report.exhausted
    undisturbed = world()
    counting = Counting(undisturbed.storage)
    undisturbed.table(counting).upsert(real_table.orders((1, "a", 10.0), (3, "a", 3.0)))  # type: ignore[arg-type]
    writes = [verb for verb, _ in counting.calls if fault is Fault.LOST_ACK or "_if_" in verb]
    assert len(writes) >= (13 if fault is Fault.LOST_ACK else 7)
    assert report.complete >= len(writes) + 1, "every write was answered that way once"


@pytest.mark.row("K13")
def test_timeout_after_success_everywhere_at_once(bucket: S3Place, s3_proxy: EchoingProxy) -> None:
    """The first answer to every conditional write of two commits is lost, over real sockets."""
    answered: set[tuple[str, str]] = set()

    def first_time(method: str, path: str, headers: Any) -> bool:
        known = (method, path) in answered
        answered.add((method, path))
        return not known

    table = bucket.make()
    s3_proxy.drops = first_time
    commits = [table.upsert(BEFORE), table.upsert(BATCH)]
    bucket.forget()
    assert len(answered) > 10
    assert [commit.retries for commit in commits] == [0, 0]
    assert (rows(table, "id", "price"), completed(table)) == (NEW, 2)
