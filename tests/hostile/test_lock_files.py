"""Damaged and hostile lock files: the lock counts as held until its time is over, or a typed error says why not. Nothing crashes,
and little is held (promise P9)."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import HudiError, LockTimeoutError
from pyhudi_core.lock import audit
from pyhudi_core.lock.file_system import FileSystemLockProvider, this_process
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.lock.storage_lock_file import LOCK_FILE, LockFile, Owner
from pyhudi_core.testing import Profile, SimOptions, SimWorld

NOW = 1_767_225_600_000
GOOD = LockFile(False, NOW + 300_000, Owner("nonce", 1, NOW, "upsert", "host|boot|1|2").to_text()).to_bytes()
DAMAGED = {
    "empty": b"",
    "not JSON": b"\x00\xff\xfe lock",
    "not UTF-8": b'{"expired": true, "validUntil": 1, "owner": "\xff"}',
    "depth bomb": b"[" * 60_000,
    "object bomb": b'{"expired":' * 5_000,
    "twice the same field": b'{"expired": false, "expired": true, "validUntil": 1, "owner": "x"}',
    "not a number": b'{"expired": true, "validUntil": NaN, "owner": "x"}',
    "without end": b'{"expired": true, "validUntil": Infinity, "owner": "x"}',
    "huge number": b'{"expired": true, "validUntil": ' + b"9" * 30_000 + b', "owner": "x"}',
    "beyond a Java long": b'{"expired": true, "validUntil": 9223372036854775808, "owner": "x"}',
    "fraction": b'{"expired": true, "validUntil": 1.5, "owner": "x"}',
    "true as a number": b'{"expired": 1, "validUntil": 1, "owner": "x"}',
    "number as true": b'{"expired": true, "validUntil": true, "owner": "x"}',
    "without owner": b'{"expired": true, "validUntil": 1}',
    "null owner": b'{"expired": true, "validUntil": 1, "owner": null}',
    "a list": b"[true, 1, null]",
    "half of a file": GOOD[: len(GOOD) // 2],
    "too long": b'{"expired": true, "validUntil": 1, "owner": "' + b"x" * 70_000 + b'"}',
}


def world_with(content: bytes) -> SimWorld:
    world = SimWorld(SimOptions(profile=Profile.S3, tick_ms=0))
    world.storage.put(LOCK_FILE, content)
    return world


def provider(world: SimWorld) -> StorageBasedLockProvider:
    return StorageBasedLockProvider(world.storage, world.runtime)


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_lock_file_counts_as_held_until_its_age_is_the_validity(content: bytes) -> None:
    world = world_with(content)
    with pytest.raises(LockTimeoutError, match="damaged"):
        provider(world).acquire(0)
    world.clock.advance(300.4)
    with pytest.raises(LockTimeoutError, match="damaged"):
        provider(world).acquire(0)
    assert world.storage.get(LOCK_FILE) == content
    world.clock.advance(0.2)
    session = provider(world).acquire(0)
    assert session.still_held()
    session.release()


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_holder_whose_lock_file_is_damaged_has_lost_the_lock_and_leaves_the_file_alone(content: bytes) -> None:
    world = world_with(b'{"expired": true, "validUntil": 1, "owner": "x"}')
    session = provider(world).acquire(0)
    world.storage.put(LOCK_FILE, content)
    assert not session.still_held()
    session.release()
    assert world.storage.get(LOCK_FILE) == content


def test_a_lock_file_of_a_hundred_megabytes_is_not_read() -> None:
    world = world_with(b" " * (100 << 20))
    tracemalloc.start()
    with pytest.raises(LockTimeoutError, match="damaged"):
        provider(world).acquire(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("until", [-(2**63), -1, 0])
def test_an_end_before_all_time_is_over(until: int) -> None:
    world = world_with(json.dumps({"expired": False, "validUntil": until, "owner": "x"}).encode())
    provider(world).acquire(0).release()


def test_an_end_after_all_time_is_honoured_and_named() -> None:
    world = world_with(json.dumps({"expired": False, "validUntil": 2**63 - 1, "owner": "x" * 5_000}).encode())
    with pytest.raises(LockTimeoutError, match="9223372036854775807 ms") as told:
        provider(world).acquire(0)
    assert len(str(told.value)) < 1_000


@given(st.data())
@settings(max_examples=examples(500), deadline=None)
def test_a_mutated_lock_file_is_never_taken_before_its_time(data: st.DataObject) -> None:
    good = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    content = bytes(good[data.draw(st.integers(0, 3)) : data.draw(st.integers(0, len(good)))])
    world = world_with(content)
    found = LockFile.parse(content)
    free = found is not None and (found.expired or found.valid_until_ms + 500 < world.clock.now_ms())
    try:
        session = provider(world).acquire(0)
    except HudiError as error:
        assert isinstance(error, LockTimeoutError)
        assert not free
        assert str(error)
        assert world.storage.get(LOCK_FILE) == content
    else:
        assert free
        assert session.still_held()


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
@settings(max_examples=examples(200), deadline=None)
def test_any_bytes_are_a_whole_lock_or_none(content: bytes) -> None:
    found = LockFile.parse(content)
    assert found is None or found.describe()


@given(st.text(max_size=80) | st.text(alphabet="pyhudi|0123456789-", max_size=60))
@settings(max_examples=examples(200), deadline=None)
def test_any_owner_is_ours_or_foreign(text: str) -> None:
    for owner in (Owner.parse(text), Owner.parse(f"pyhudi|{text}")):
        assert owner is None or owner.describe()
        assert owner is None or Owner.parse(owner.to_text()) == owner or "|" in owner.note or len(owner.note) > 200


HOLDER = this_process("nonce", NOW, "upsert").to_bytes()
FOREIGN = {**DAMAGED, "a holder with a huge process number": HOLDER.replace(b'"pid": ', b'"pid": 1' + b"0" * 30)}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_damaged_lock_file_of_the_file_system_lock_is_waited_for(content: bytes) -> None:
    world = SimWorld(SimOptions(profile=Profile.LOCAL_POSIX, tick_ms=0))
    world.storage.put(".hoodie/lock", content)
    lock = FileSystemLockProvider(world.storage, world.clock, world.ids, expire_minutes=1)
    with pytest.raises(LockTimeoutError):
        lock.acquire(0)
    assert world.storage.get(".hoodie/lock") == content
    world.clock.advance(61)
    lock.acquire(0).release()


def test_a_huge_lock_file_of_the_file_system_lock_is_not_read() -> None:
    world = SimWorld(SimOptions(profile=Profile.LOCAL_POSIX, tick_ms=0))
    world.storage.put(".hoodie/lock", b" " * (100 << 20))
    tracemalloc.start()
    with pytest.raises(LockTimeoutError, match="an unknown process"):
        FileSystemLockProvider(world.storage, world.clock, world.ids).acquire(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@given(st.binary(max_size=400))
@settings(max_examples=examples(100), deadline=None)
def test_a_damaged_audit_file_is_counted_and_the_others_are_read(content: bytes) -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    audited = audit.AuditedLock(provider(world), world.storage, world.clock)
    audited.acquire(0, "upsert").release()
    world.storage.put(f"{audit.AUDIT_FOLDER}/1_{'x' * 36}.jsonl", content)
    world.storage.put(f"{audit.AUDIT_FOLDER}/no-time.jsonl", content)
    world.storage.put(f"{audit.AUDIT_FOLDER}/{'9' * 40}_x.jsonl", content)
    damaged, whole = audit.read(world.storage)
    assert damaged.events == ()
    assert damaged.damaged == len(content.splitlines())
    assert [event.state for event in whole.events] == ["START", "END"]
    assert (whole.note, whole.damaged) == ("upsert", 0)


def test_an_audit_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    world.storage.put(f"{audit.AUDIT_FOLDER}/1_x.jsonl", b"[" * (2 << 20))
    world.storage.put(f"{audit.AUDIT_FOLDER}/2_y.jsonl", b"[" * 100_000 + b'\n{"state": "START", "timestamp": 1e400}\n')
    assert [(held.events, held.damaged) for held in audit.read(world.storage)] == [((), 1), ((), 2)]
