"""What the doctor says about locks: who holds them, whether that can be, and whether all writers use the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.doctor import examine, kinds
from support.homes import StandingClock, context_of, home_at, make_at, runtime_with
from support.tables import make, orders

from pyhudi_core.doctor import Area, FindingKind
from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage

LOCK = ".hoodie/lock"


def _locked(location: str, content: bytes, age_s: float = 0, path: str = LOCK) -> Path:
    make(location).upsert(orders((1, "a", 1.0)))
    file = Path(location, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    when = file.stat().st_mtime - age_s
    os.utime(file, (when, when))
    return file


def test_a_lock_that_is_held_names_its_holder(location: str) -> None:
    table = make(location)
    context = context_of(table)
    session = context.lock.acquire(1, "a long thought")
    report = examine(location)
    assert report.ok
    [held] = report.of(FindingKind.LOCK_HELD)
    assert f"process {os.getpid()}" in held.what and "a long thought" in held.what
    session.release()
    assert not examine(location).of(FindingKind.LOCK_HELD)


def test_a_lock_of_a_process_that_has_ended_is_taken_over(location: str) -> None:
    table = make(location)
    session = context_of(table).lock.acquire(1, "x")
    path = Path(location, LOCK)
    body = json.loads(path.read_bytes())
    body["pyhudi"]["started"] = "1"
    path.write_text(json.dumps(body))
    report = examine(location)
    assert kinds(report) == ["lock_left"]
    assert report.repairable
    table.upsert(orders((1, "a", 1.0)))
    assert examine(location).ok
    session.release()


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b"\xff\xfe", b'{"pyhudi": 1}'])
def test_a_lock_that_nobody_can_read_is_judged_by_its_age(location: str, content: bytes) -> None:
    path = _locked(location, content)
    assert kinds(examine(location)) == []
    os.utime(path, (1, 1))
    report = examine(location)
    assert kinds(report) == ["lock_old"]
    assert "an unknown process" in report.findings[0].what


def test_hudis_own_lock_names_its_thread(location: str) -> None:
    content = {"lockCreateTime": "2026-01-01 00:00:00.000", "lockThreadName": "main", "lockStackInfo": []}
    _locked(location, json.dumps(content).encode(), age_s=3600)
    report = examine(location)
    assert kinds(report) == ["lock_old"]
    assert "main since 2026-01-01" in report.findings[0].what


def test_an_expired_lock_is_taken_over(location: str) -> None:
    _locked(location, b"", age_s=3600)
    report = examine(location, **{"hoodie.write.lock.filesystem.expire": 1})
    assert kinds(report) == ["lock_left"]


def test_a_lock_file_in_another_folder_shows_writers_with_another_lock(location: str) -> None:
    _locked(location, b"", path=".hoodie/.locks/lock")
    report = examine(location)
    assert kinds(report) == ["other_lock_identity"]
    assert report.area(Area.LOCKS).worst == "warning"


def test_a_commit_under_another_lock_is_a_warning(location: str) -> None:
    make(location).upsert(orders((1, "a", 1.0)))
    report = examine(location, **{"hoodie.write.lock.filesystem.path": ".hoodie/.locks"})
    assert kinds(report) == ["other_lock_identity"]


def _lease(**fields: object) -> bytes:
    return json.dumps({"expired": False, "validUntil": 4_000_000_000_000, "owner": "spark-7", **fields}).encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (_lease(), ["lock_held"]), (_lease(expired=True), []), (_lease(validUntil=1), ["lock_left"]),
        (b"", ["lock_unreadable"]), (b"{}", ["lock_unreadable"]), (b"[" * 60_000, ["lock_unreadable"]),
        (_lease(owner=5), ["lock_unreadable"]), (_lease(expired="no"), ["lock_unreadable"]), (_lease(validUntil=1e400), ["lock_unreadable"]),
    ],
)  # fmt: skip
def test_the_lease_of_the_storage_based_lock_is_understood(location: str, content: bytes, expected: list[str]) -> None:
    _locked(location, content, path=".hoodie/.locks/table_lock.json")
    report = examine(location)
    assert [
        str(found.kind) for found in report.findings if found.kind is not FindingKind.OTHER_LOCK_IDENTITY
    ] == expected


def test_a_table_on_an_object_store_is_green_after_its_writers_gave_the_lock_back() -> None:
    clock = StandingClock()
    storage = MemoryStorage("memory://locks", MemoryBucket(), clock)
    table = make_at(home_at(storage, runtime_with(clock=clock)))
    table.upsert(orders((1, "a", 1.0)))
    assert table.check().ok
