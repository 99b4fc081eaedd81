"""Hudi's lock providers and ours exclude each other, as far as Hudi's own go.

Hudi's FileSystemBasedLockProvider looks whether the file is there and then creates it, which on a local disk are two steps; and it removes the
file without asking whose it is. So a rare overlap is possible, and the tests count it. What rests on the lock alone is lost
then; a commit does not.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyhudi_core.errors import LockTimeoutError
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.lock.storage_based import StorageBasedLockProvider
from pyhudi_core.lock.storage_lock_file import LOCK_FILE, LockFile
from pyhudi_core.runtime.system import system_runtime
from pyhudi_core.storage import LocalStorage
from pyhudi_core.testing import Profile, SimOptions, SimWorld

from .conftest import RELEASES
from .hudi_locks import raise_by_one
from .judges import PYTHON

ROUNDS = 150


@dataclass(frozen=True)
class Hudi:
    """A release of Hudi in a process of its own, and the folder whose lock it uses."""

    release: str
    table: Path
    process: subprocess.Popen[str]

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self.reply()

    def reply(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def ours(self) -> FileSystemLockProvider:
        runtime = system_runtime()
        return FileSystemLockProvider(LocalStorage(str(self.table)), runtime.clock, runtime.ids)


@pytest.fixture(scope="module", params=[release for release in RELEASES if release != "hudi-rs"])
def hudi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hudi]:
    """Each chosen release in turn, one JVM at a time."""
    table = tmp_path_factory.mktemp("locked")
    (table / ".hoodie").mkdir()
    command = [str(PYTHON), str(Path(__file__).with_name("hudi_locks.py")), request.param, str(table)]
    log = table / "hudi.log"
    with log.open("wb") as out, subprocess.Popen(command, stdin=-1, stdout=-1, stderr=out, text=True) as process:
        running = Hudi(request.param, table, process)
        assert running.reply() == {"ok": True}, log.read_text()
        yield running
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


@pytest.mark.row("O5")
def test_each_side_keeps_the_other_out(hudi: Hudi) -> None:
    held = hudi.ours().acquire(0, "ours")
    assert hudi.ask(do="take") == {"ok": True, "got": False}
    held.release()
    assert hudi.ask(do="take") == {"ok": True, "got": True}
    with pytest.raises(LockTimeoutError):
        hudi.ours().acquire(0.05)
    assert hudi.ask(do="give") == {"ok": True}
    hudi.ours().acquire(0).release()
    assert list((hudi.table / ".hoodie").iterdir()) == []


@pytest.mark.row("O5")
def test_two_processes_of_both_kinds_raise_one_counter_under_the_lock(hudi: Hudi) -> None:
    (hudi.table / "counter").write_text("0")
    answers: list[dict[str, Any]] = []
    theirs = threading.Thread(target=lambda: answers.append(hudi.ask(do="count", rounds=ROUNDS)))
    theirs.start()
    provider = hudi.ours()
    overlaps = 0
    for _ in range(ROUNDS):
        session = provider.acquire(60, "count")
        overlaps += raise_by_one(hudi.table, "ours")
        session.release()
    theirs.join(120)
    assert answers[0]["ok"], answers
    overlaps += answers[0]["overlaps"]
    counted = int((hudi.table / "counter").read_text())
    print(f"Hudi {hudi.release}: {counted} of {2 * ROUNDS} counted, {overlaps} overlaps")
    assert counted + overlaps >= 2 * ROUNDS, "an increment was lost although nobody was inside together with another"
    # Without any lock about half of them are lost; what is left is the gap in Hudi's own provider.
    assert overlaps <= 2 * ROUNDS // 20
    assert not (hudi.table / ".hoodie/lock").exists()


@pytest.mark.row("O5")
def test_hudi_removes_a_lock_that_it_does_not_own_and_we_notice(hudi: Hudi) -> None:
    ours = hudi.ours().acquire(0, "ours")
    assert hudi.ask(do="give") == {"ok": True}  # it never had the lock
    assert not (hudi.table / ".hoodie/lock").exists(), (
        "Hudi asks whose lock it is now: take the entry off spec-deviations"
    )
    assert not ours.still_held()
    theirs = hudi.ask(do="take")
    assert theirs["got"]
    ours.release()
    assert (hudi.table / ".hoodie/lock").exists(), "our release removed Hudi's lock"
    hudi.ask(do="give")


@pytest.mark.row("O6")
def test_hudi_reads_our_storage_based_lock_file_and_we_read_its(hudi: Hudi) -> None:
    world = SimWorld(SimOptions(profile=Profile.S3))
    session = StorageBasedLockProvider(world.storage, world.runtime).acquire(0, 'a "note" with ünïcode')
    for expired in (False, True):
        content = world.storage.get(LOCK_FILE)
        ours = LockFile.parse(content)
        assert ours is not None
        assert ours.expired is expired
        answer = hudi.ask(do="parse", text=content.decode())
        assert answer["ok"], answer
        assert answer["fields"] == [ours.expired, ours.valid_until_ms, ours.owner]
        assert LockFile.parse(answer["written"].encode()) == ours
        session.release()


@pytest.mark.row("O6")
def test_what_hudi_refuses_as_a_lock_file_is_damaged_to_us(hudi: Hudi) -> None:
    for text in (
        '{"expired": true, "validUntil": 1}',
        '{"expired": true, "validUntil": 9223372036854775808, "owner": "x"}',
        '{"expired": true, "validUntil": 1, "owner": ',
        "",
    ):
        assert not hudi.ask(do="parse", text=text)["ok"], text
        assert LockFile.parse(text.encode()) is None
    more = '{"expired": true, "validUntil": 1, "owner": "x", "more": {"a": [1]}}'
    assert hudi.ask(do="parse", text=more)["fields"] == [True, 1, "x"]
    assert LockFile.parse(more.encode()) == LockFile(True, 1, "x")
