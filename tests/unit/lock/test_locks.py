"""The lock file on a disk: where it stands, what is in it, and that a dead holder does not block for ever."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import examples

from pyhudi_core.errors import LockTimeoutError, StorageStateUnknownError
from pyhudi_core.lock import file_system
from pyhudi_core.lock.file_system import FileSystemLockProvider, describe_foreign, is_gone, parse_holder, this_process
from pyhudi_core.runtime import RandomIds, SystemClock
from pyhudi_core.runtime import system as processes_of_system
from pyhudi_core.runtime.system import SystemProcess
from pyhudi_core.storage import LocalStorage
from pyhudi_core.testing import Fault, SimOptions, SimWorld

JAVA_LOCK = b"""{
  "lockCreateTime" : "2026-01-01 00:00:00.000",
  "lockThreadName" : "pool-1-thread-1",
  "lockStacksInfo" : "java.lang.Thread.getStackTrace"
}"""


def file_lock(root: Path, **options: object) -> FileSystemLockProvider:
    return FileSystemLockProvider(LocalStorage(str(root)), SystemClock(), RandomIds(), **options)  # type: ignore[arg-type]


def test_the_lock_file_stands_where_hudi_puts_it(tmp_path: Path) -> None:
    session = file_lock(tmp_path).acquire(1, "upsert")
    content = json.loads((tmp_path / ".hoodie/lock").read_text())
    assert {"lockCreateTime", "lockThreadName"} < set(content)
    session.release()
    assert not (tmp_path / ".hoodie/lock").exists()
    other = file_lock(tmp_path, folder=".hoodie/.aux").acquire(1)
    assert (tmp_path / ".hoodie/.aux/lock").exists()
    other.release()


def test_a_java_holder_keeps_us_out_and_is_named(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie/lock").write_bytes(JAVA_LOCK)
    with pytest.raises(LockTimeoutError, match="pool-1-thread-1"):
        file_lock(tmp_path).acquire(0.02)
    assert (tmp_path / ".hoodie/lock").read_bytes() == JAVA_LOCK
    (tmp_path / ".hoodie/lock").unlink()
    file_lock(tmp_path).acquire(0).release()


def test_a_lock_file_without_content_keeps_us_out(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie/lock").write_bytes(b"")
    with pytest.raises(LockTimeoutError, match="an unknown process"):
        file_lock(tmp_path).acquire(0)


def test_an_expired_lock_is_taken_over_whoever_holds_it(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    path = tmp_path / ".hoodie/lock"
    path.write_bytes(JAVA_LOCK)
    now = time.time()
    os.utime(path, (now - 50, now - 50))
    with pytest.raises(LockTimeoutError):
        file_lock(tmp_path, expire_minutes=1).acquire(0)
    os.utime(path, (now - 70, now - 70))
    with pytest.raises(LockTimeoutError):
        file_lock(tmp_path).acquire(0)
    session = file_lock(tmp_path, expire_minutes=1).acquire(0)
    assert session.still_held()
    session.release()


def test_who_lost_the_lock_knows_and_does_not_remove_the_new_one(tmp_path: Path) -> None:
    first = file_lock(tmp_path).acquire(1)
    os.utime(tmp_path / ".hoodie/lock", (1, 1))
    second = file_lock(tmp_path, expire_minutes=1).acquire(0)
    assert not first.still_held()
    first.release()
    assert second.still_held()
    second.release()


def _hold_and_die(root: str) -> None:
    file_lock(Path(root)).acquire(5, "dying")
    os._exit(9)


def test_a_storage_that_never_answers_a_release_keeps_nobody_for_ever() -> None:
    sim = SimWorld(SimOptions())
    session = FileSystemLockProvider(sim.storage, sim.clock, sim.ids).acquire(0)
    sim.storage.inject(Fault.UNKNOWN, "delete_if_match", "*", 1000)
    with pytest.raises(StorageStateUnknownError):
        session.release()
    assert session.still_held()
    sim.storage.injections.clear()
    session.release()
    FileSystemLockProvider(sim.storage, sim.clock, sim.ids).acquire(0)


def test_the_lock_of_a_killed_process_is_taken_over_at_once(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_hold_and_die, args=(str(tmp_path),))
    process.start()
    process.join(60)
    assert (tmp_path / ".hoodie/lock").exists()
    session = file_lock(tmp_path).acquire(0)
    assert session.still_held()
    session.release()


def test_only_a_process_of_this_machine_can_be_known_to_be_gone() -> None:
    me = this_process("n", 0, "")
    assert not is_gone(me)
    assert is_gone(replace(me, started="1"))
    assert is_gone(replace(me, pid=2**22 + 5))
    assert not is_gone(replace(me, pid=2**22 + 5, host="elsewhere"))
    assert not is_gone(replace(me, pid=2**22 + 5, machine="after a reboot"))


def test_a_living_process_that_cannot_be_looked_at_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many open files, or where other users' processes are hidden, the system shows nothing; that says nothing of the process."""
    me, identity = this_process("n", 0, ""), SystemProcess().identity()

    def refused(*_: object, **__: object) -> object:
        raise OSError(errno.EMFILE, "Too many open files")

    place = processes_of_system.machine()
    monkeypatch.setattr(processes_of_system, "machine", lambda: place)
    monkeypatch.setattr(file_system, "machine", lambda: place)
    monkeypatch.setattr("builtins.open", refused)
    assert not is_gone(me)
    assert not SystemProcess().is_gone(identity)
    gone = identity.replace(f"|{me.pid}|", f"|{2**22 + 5}|")
    assert SystemProcess().is_gone(gone)


@pytest.mark.parametrize("pid", ["\u00b2", "9" * 5000, "-1", "", "0x1"])
def test_a_hostile_process_number_is_no_process(pid: str) -> None:
    host, place, _, started = SystemProcess().identity().split("|")
    assert not SystemProcess().is_gone(f"{host}|{place}|{pid}|{started}")


def test_a_holder_reads_back_as_it_was_written() -> None:
    holder = this_process("nonce", 1_770_000_000_000, "upsert \u00e9")
    assert parse_holder(holder.to_bytes()) == holder
    assert parse_holder(JAVA_LOCK) is None


def test_a_holder_of_a_time_or_a_process_that_cannot_be_is_none() -> None:
    last = 253_402_300_799_999  # the end of the year 9999: later times cannot be shown
    for since_ms, pid in ((0, 1), (last, 2**31 - 1)):
        holder = replace(this_process("nonce", since_ms, ""), pid=pid)
        assert parse_holder(holder.to_bytes()) == holder
    good = this_process("nonce", 1, "").to_bytes()
    for old, new in ((b'"since_ms": 1', b'"since_ms": -1'), (b'"since_ms": 1', b'"since_ms": %d' % (last + 1)),
                     (b'"pid": ', b'"pid": -'), (str(os.getpid()).encode() + b",", b"0,"), (b'"pid": ', b'"pid": 4294967296')):  # fmt: skip
        assert parse_holder(good.replace(old, new)) is None


@given(st.data())
@settings(max_examples=examples(500), deadline=None)
def test_damaged_lock_files_are_foreign_or_whole(data: st.DataObject) -> None:
    good = bytearray(this_process("nonce", 1_770_000_000_000, "upsert").to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    content = bytes(good[: data.draw(st.integers(0, len(good)))])
    holder = parse_holder(content)
    assert holder is None or holder.describe()
    assert describe_foreign(content)
    assert describe_foreign(b"[" * 100_000)


def _count_up(root: str, times: int) -> None:
    counter = Path(root) / "counter"
    provider = file_lock(Path(root))
    for _ in range(times):
        session = provider.acquire(60)
        counter.write_text(str(int(counter.read_text()) + 1))
        session.release()


def test_three_processes_lose_no_increment_under_the_lock(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("0")
    spawn = multiprocessing.get_context("fork")
    processes = [spawn.Process(target=_count_up, args=(str(tmp_path), 40)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (tmp_path / "counter").read_text() == "120"
    assert not (tmp_path / ".hoodie/lock").exists()


@pytest.mark.alone
def test_a_free_lock_costs_less_than_two_milliseconds(tmp_path: Path) -> None:
    provider = file_lock(tmp_path)
    provider.acquire(1).release()
    spent = []
    for _ in range(30):
        started = time.perf_counter()
        provider.acquire(1).release()
        spent.append(time.perf_counter() - started)
    # The fastest of many, because the machine may be busy with other things.
    assert min(spent) < 0.002


def test_a_lock_file_of_another_tool_is_shown_with_300_characters_at_most() -> None:
    content = json.dumps({"lockThreadName": "t" * 500, "lockCreateTime": "now"}).encode()
    assert describe_foreign(content) == "t" * 300
