"""The lock's record: who held it when, written beside the lock and never in its way."""

from __future__ import annotations

import json

import pytest
from support.homes import home_at, make_at
from support.tables import orders

from pyhudi_core.lock import audit
from pyhudi_core.lock.audit import AUDIT_FOLDER, AuditedLock
from pyhudi_core.lock.base import lease_left_s
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.storage import LocalStorage
from pyhudi_core.testing import Fault, Profile, SimOptions, SimWorld


def audited(world: SimWorld) -> AuditedLock:
    return AuditedLock(StorageBasedLockProvider(world.storage, world.runtime), world.storage, world.clock)


@pytest.fixture
def world() -> SimWorld:
    return SimWorld(SimOptions(profile=Profile.S3))


@pytest.mark.row("O7")
def test_a_holding_is_recorded_from_its_start_over_its_renewals_to_its_end(world: SimWorld) -> None:
    session = audited(world).acquire(0, "compaction")
    assert session.still_held()
    assert 299 < lease_left_s(session) <= 300
    for _ in range(3):
        world.clock.advance(30)
        world.timer.fire_due()
    (running,) = audit.read(world.storage)
    assert running.ended_ms is None
    session.release()
    session.release()
    (held,) = audit.read(world.storage)
    assert [event.state for event in held.events] == ["START", "RENEW", "RENEW", "RENEW", "END"]
    assert (held.owner, held.note, held.damaged) == (session.token, "compaction", 0)
    assert held.lock == "storage_based:.hoodie/.locks/table_lock.json"
    assert held.started_ms <= held.events[0].at_ms < (held.ended_ms or 0)
    ends = [event.valid_until_ms for event in held.events[:-1]]
    assert ends == sorted(set(ends))
    assert not session.still_held()


@pytest.mark.row("O7")
def test_the_lines_have_the_fields_and_the_file_has_the_name_of_hudis_audit(world: SimWorld) -> None:
    session = audited(world).acquire(0)
    session.release()
    (info,) = world.storage.list(f"{AUDIT_FOLDER}/")
    lines = [json.loads(line) for line in world.storage.get(info.path).splitlines()]
    start = lines[0]["transactionStartTime"]
    assert info.path == f".hoodie/.locks/audit/{start}_{session.token}.jsonl"
    hudis = {"ownerId", "transactionStartTime", "timestamp", "state", "lockExpiration", "lockHeld"}
    assert all(hudis <= set(line) for line in lines)
    assert [(line["state"], line["lockHeld"]) for line in lines] == [("START", True), ("END", False)]


@pytest.mark.row("O7")
def test_a_record_that_cannot_be_written_does_not_fail_the_lock(world: SimWorld) -> None:
    world.storage.inject(Fault.THROTTLED, "put", f"{AUDIT_FOLDER}/*", times=1_000)
    world.storage.inject(Fault.FAIL_BEFORE, "list", f"{AUDIT_FOLDER}/*", times=1_000)
    session = audited(world).acquire(0)
    assert session.still_held()
    session.release()
    assert audit.read(SimWorld(SimOptions()).storage) == ()


@pytest.mark.row("O7")
def test_the_number_of_files_and_of_lines_is_bounded(world: SimWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "KEPT", 20)
    monkeypatch.setattr(audit, "MOST_LINES", 5)
    lock = audited(world)
    for number in range(101):
        world.clock.advance(1)
        lock.acquire(0, str(number)).release()
    kept = audit.read(world.storage)
    assert [held.note for held in kept] == [str(number) for number in range(81, 101)]
    assert [held.note for held in audit.read(world.storage, limit=2)] == ["99", "100"]
    assert audit.read(world.storage, limit=0) == ()
    session = lock.acquire(0, "long")
    for _ in range(20):
        world.clock.advance(30)
        world.timer.fire_due()
    session.release()
    states = [event.state for event in audit.read(world.storage)[-1].events]
    assert states == ["START", "RENEW", "RENEW", "RENEW", "END"]


@pytest.mark.row("O7")
def test_a_table_records_its_locks_when_it_is_told_to(location: str) -> None:
    make_at(home_at(location)).upsert(orders((1, "a", 1.0)))
    storage = LocalStorage(location)
    assert audit.read(storage) == ()
    table = make_at(home_at(f"{location}-2", options={"pyhudi.lock.audit": True}))
    commit = table.upsert(orders((1, "a", 1.0)))
    (held,) = audit.read(LocalStorage(f"{location}-2"))
    assert commit.instant in held.note
    assert held.lock == "file_system:.hoodie"
    assert [(event.state, event.valid_until_ms) for event in held.events] == [("START", 0), ("END", 0)]


def test_a_lock_without_an_end_has_an_infinite_lease() -> None:
    world = SimWorld(SimOptions(profile=Profile.LOCAL_POSIX))
    lock = AuditedLock(FileSystemLockProvider(world.storage, world.clock, world.ids), world.storage, world.clock)
    session = lock.acquire(0)
    assert lease_left_s(session) == float("inf")
    session.release()


def test_the_newest_hundred_holdings_are_read_unless_told_otherwise(world: SimWorld) -> None:
    lock = audited(world)
    for number in range(102):
        world.clock.advance(1)
        lock.acquire(0, str(number)).release()
    assert [held.note for held in audit.read(world.storage)] == [str(number) for number in range(2, 102)]
