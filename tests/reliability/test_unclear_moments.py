"""Outcomes that differ from the reported one, and the state after an interruption: promises P2, P3 and P7."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from reliability.service_runs import budget
from reliability.stories import Died, Story, batch, dying, interrupt, rows_of, with_lock_file
from reliability.test_zombies import LONG_S, PROFILES, assert_tidy, decides
from support.failing import FailingStorage
from support.tables import create_plain
from support.wrapping import WrappedStorage

import pyhudi_core as hudi
from pyhudi_core.errors import CommitStateUnknownError, HudiError, StorageError, StorageStateUnknownError
from pyhudi_core.lock.audit import AuditedLock
from pyhudi_core.lock.file_system import FileSystemLockProvider
from pyhudi_core.runtime.system import RandomIds, SystemClock
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.table import HudiTable
from pyhudi_core.testing import Fault, Profile
from pyhudi_core.timeline import active
from pyhudi_core.transaction.rollback import repair

RECORD = "commit_record"


class Late(WrappedStorage):
    """A storage whose answer to one conditional write does not come; the write itself arrives when `arrive` is called, or never."""

    def __init__(self, storage: Any, verb: str, part: str, then: Callable[[], object] = lambda: None) -> None:
        self._storage = storage
        self._verb = verb
        self._part = part
        self._then = then
        self.on_its_way: list[Callable[[], object]] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name != self._verb:
            return real

        def call(path: str, *arguments: Any) -> Any:
            if self._part not in path or self.on_its_way:
                return real(path, *arguments)
            self.on_its_way.append(lambda: real(path, *arguments))
            self._then()
            raise StorageStateUnknownError("No answer", path=path)

        return call

    def arrive(self) -> None:
        with suppress(StorageError):  # it may be too late
            self.on_its_way[0]()
        self.on_its_way.append(lambda: None)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
def test_a_decision_that_stands_although_the_disk_reported_an_error_is_not_called_a_failure(profile: Profile) -> None:
    """The record is there, but its folder could not be made durable: link(2) went well and fsync(2) did not."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    home = story.writer("unlucky").home()
    verb = decides(profile)
    home.storage = FailingStorage(home.storage, lambda v, path: v == verb and RECORD in path, after=True)  # type: ignore[assignment]
    with HudiTable(home).begin("upsert") as write:
        token = write.write(batch((1, "a", 10))).token
        with pytest.raises(CommitStateUnknownError) as unknown:
            write.commit()
    assert unknown.value.token == token
    assert table.commit_status(token) is hudi.CommitStatus.COMMITTED
    assert rows_of(table) == [(1, "a", 10)]


def test_a_swap_that_is_still_on_its_way_is_not_called_a_failure() -> None:
    """The storage answers nothing; before the swap is tried again something else is in the way; then it arrives."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    writer = story.writer("slow")
    home = writer.home()
    late = Late(home.storage, "put_if_match", RECORD, lambda: story.pass_time(61))
    home.storage = late  # type: ignore[assignment]

    def gate() -> bool:
        """Whoever was asked once says no the second time; and right then the swap arrives."""
        if late.on_its_way:
            late.arrive()
        return not late.on_its_way

    try:
        with HudiTable(home).begin("upsert") as write:
            write.write(batch((1, "a", 10)))
            token = write.token
            write.commit(gate)
        outcome = "committed"
    except CommitStateUnknownError:
        outcome = "unknown"
    except HudiError:
        outcome = "failed"
    late.arrive()
    assert token is not None
    seen = table.commit_status(token) is hudi.CommitStatus.COMMITTED
    assert outcome == "unknown" or seen == (outcome == "committed")


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
def test_a_writer_that_slept_before_it_announced_itself_and_then_died_is_repaired(profile: Profile) -> None:
    """Others took its reservation for a dead one's, and removed it; its instant must not stay for ever as that of a writer without a heartbeat."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    zombie, other = story.writer("zombie"), story.writer("other")

    def meanwhile() -> None:
        story.pass_time(LONG_S)
        other.open().upsert(batch((2, "a", 2)))

    zombie.pause_before("put_if_absent", ".commit.requested", meanwhile)
    zombie.pause_before("put", "/staged/", dying(zombie))
    with pytest.raises(Died):
        zombie.open().upsert(batch((1, "a", 10)))
    assert len(table.timeline.pending)
    story.pass_time(LONG_S)
    other.open().upsert(batch((2, "a", 3)))
    assert rows_of(table) == [(1, "a", 1), (2, "a", 3)]
    assert_tidy(story, table)


@pytest.mark.parametrize(
    "error", [OSError("a socket"), ValueError("a damaged file"), MemoryError()], ids=lambda e: type(e).__name__
)
def test_a_commit_stands_whatever_the_services_after_it_run_into(error: Exception, tmp_path: Path) -> None:
    options = {"hoodie.keep.max.commits": 3, "hoodie.keep.min.commits": 2}
    location = str(tmp_path / "table")
    table = create_plain(location, batch().schema, "id", partition_by="part", options=options)
    for value in range(3):
        table.upsert(batch((1, "a", value)))

    class Failing(WrappedStorage):
        def __init__(self, storage: Any) -> None:
            self._storage = storage

        def __getattr__(self, name: str) -> Any:
            real = getattr(self._storage, name)

            def call(path: str, *arguments: Any) -> Any:
                if "/history/" in path:
                    raise error
                return real(path, *arguments)

            return call if name == "put_if_absent" else real

    table._opened.storage = Failing(table._opened.storage)  # type: ignore[assignment]
    table._opened._folders.clear()
    assert table.upsert(batch((1, "a", 9))).retries == 0
    with table.begin("upsert") as write:
        write.write(batch((1, "a", 10)))
        assert write.commit().retries == 0
    assert rows_of(hudi.open_table(location)) == [(1, "a", 10)]


class Interrupted(WrappedStorage):
    """A disk on which Ctrl-C is pressed right after the n-th call of a verb."""

    def __init__(self, storage: LocalStorage, verb: str, when: str) -> None:
        self._storage = storage
        self._verb = verb
        self._when = when
        self.left = 1

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name != self._verb:
            return real

        def call(path: str, *arguments: Any) -> Any:
            if not self.left:
                return real(path, *arguments)
            self.left -= 1
            if self._when == "after":
                real(path, *arguments)
            raise KeyboardInterrupt

        return call


@pytest.mark.parametrize(
    ("verb", "when"), [("put_if_absent", "after"), ("delete_if_match", "before"), ("delete_if_match", "after")]
)
def test_an_interrupted_process_that_lives_on_keeps_no_lock(verb: str, when: str, tmp_path: Path) -> None:
    """A notebook outlives Ctrl-C: its lock file would name a living holder, and keep everybody out for as long as the notebook runs."""
    storage = LocalStorage(str(tmp_path), fsync=False)
    disk = Interrupted(storage, verb, when)
    lock = FileSystemLockProvider(disk, SystemClock(), RandomIds())  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        lock.acquire(1, "a commit").release()
    FileSystemLockProvider(storage, SystemClock(), RandomIds()).acquire(0).release()


def test_a_lock_is_given_back_if_its_record_is_interrupted(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), fsync=False)
    lock = FileSystemLockProvider(storage, SystemClock(), RandomIds())
    record = Interrupted(storage, "put", "after")
    with pytest.raises(KeyboardInterrupt):
        AuditedLock(lock, record, SystemClock()).acquire(1, "a commit")  # type: ignore[arg-type]
    lock.acquire(0).release()


def test_an_answer_about_a_commit_does_not_rest_on_an_old_listing() -> None:
    """Neither a commit that succeeded nor one that may still be decided is called undone because the listing is a few changes behind."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    writer = story.writer("writer")
    with writer.open().begin("upsert") as write:
        write.write(batch((1, "a", 10)))
        token = write.token
        assert token is not None
        for behind in (3, 6, 9, 12, 24):
            story.storage.stale_operations = behind
            story.storage.inject(Fault.STALE_LIST, "list", times=1)
            assert table.commit_status(token) is hudi.CommitStatus.UNDECIDED, f"{behind} changes behind"
        write.commit()
    for behind in (3, 6, 9, 12, 24):
        story.storage.stale_operations = behind
        story.storage.inject(Fault.STALE_LIST, "list", times=1)
        assert story.writer("reader").open().commit_status(token) is hudi.CommitStatus.COMMITTED, (
            f"{behind} changes behind"
        )


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
def test_a_process_that_failed_to_finish_a_dead_rollback_does_not_keep_it_alive(profile: Profile) -> None:
    """It tries, fails, and lives on; somebody else must be able to finish that rollback."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    victim, undoer, unlucky = story.writer("victim"), story.writer("undoer"), story.writer("unlucky")
    victim.pause_before("put", "/staged/", dying(victim))
    with pytest.raises(Died):
        victim.open().upsert(batch((1, "a", 10)))
    undoer.pause_before("put_if_absent", ".rollback.inflight", dying(undoer))
    with pytest.raises(Died):
        undoer.open().upsert(batch((2, "a", 2)))
    home = unlucky.home()
    home.storage = FailingStorage(home.storage, lambda verb, path: verb == "put" and "/staged/" in path)  # type: ignore[assignment]
    with pytest.raises(StorageError):
        repair(home.context())
    story.pass_time(LONG_S)
    story.writer("other").open().upsert(batch((2, "a", 3)))
    assert rows_of(table) == [(1, "a", 1), (2, "a", 3)]
    assert not table.timeline.pending.instants


def test_a_decided_commit_beside_a_damaged_rollback_is_not_called_a_failure() -> None:
    """The next one publishes it as soon as the damaged file is gone."""
    story = Story(Profile.S3)
    table = story.table((1, "a", 1))
    writer = story.writer("writer")
    damaged = ".hoodie/timeline/20990101000000000.rollback.requested"
    decided: list[str] = []

    def watch(verb: str, path: str) -> None:
        if decided:
            story.storage.put(damaged, b"not a plan")
            decided.clear()
            story.pass_time(2)  # after a pause the writer looks at the timeline again, before it publishes
        if verb == "put_if_match" and RECORD in path:
            decided.append(path)
            story.pass_time(2)  # so long after it listed the timeline, the writer looks at it again before it publishes

    writer.watch(watch)
    with writer.open().begin("upsert") as write:
        token = write.write(batch((1, "a", 10))).token
        assert token is not None
        with pytest.raises(CommitStateUnknownError):
            write.commit()
        story.storage.delete(damaged)
    assert table.commit_status(token) is hudi.CommitStatus.COMMITTED
    assert rows_of(table) == [(1, "a", 10)]


def _interrupted_at(number: int, options: dict[str, object]) -> bool:
    """Press Ctrl-C before a writer's n-th call of the storage, and see that nothing is torn, and nobody kept out; whether it made so many."""
    story = Story(Profile.LOCAL_POSIX)
    table = story.table()
    notebook, other = story.writer("notebook"), story.writer("other")
    for value in (2, 3):
        HudiTable(with_lock_file(other, options)).upsert(batch((1, "a", value)))
    handle = HudiTable(with_lock_file(notebook, options))
    was_reached = notebook.before_call(number, interrupt)
    with suppress(KeyboardInterrupt):
        handle.upsert(batch((1, "a", 10), (2, "a", 10)))
    found = rows_of(table)
    assert found in ([(1, "a", 3)], [(1, "a", 10), (2, "a", 10)])
    before = story.now_ms
    HudiTable(with_lock_file(other, options)).upsert(batch((3, "a", 30)))
    assert story.now_ms - before < 20_000, "the next writer had to wait for the lock"
    assert rows_of(table) == [*found, (3, "a", 30)]
    story.pass_time(LONG_S)
    HudiTable(with_lock_file(other, options)).upsert(batch((4, "a", 40)))
    assert rows_of(table) == [*found, (3, "a", 30), (4, "a", 40)]
    assert not table.timeline.pending.instants, "somebody still says that the interrupted write lives"
    assert not story.storage.list(".hoodie/.heartbeat/")
    return was_reached()


@pytest.mark.one_in(2, first=1)
@pytest.mark.parametrize(
    "options", [{}, {"hoodie.keep.max.commits": 3, "hoodie.keep.min.commits": 2}], ids=["", "archival"]
)
def test_an_interruption_at_any_call_tears_nothing_and_keeps_nobody_out(options: dict[str, object]) -> None:
    """The process lives on: its lock file names a living process, and its timers could go on for ever."""
    number, step = 0, 2 if budget(1) == 1 else 1
    while _interrupted_at(number, options):
        number += step
    assert number > 35


def test_a_process_that_writes_for_months_keeps_no_more_than_the_table_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it knows of commits and of the history is bounded by what is there, not by what was."""
    monkeypatch.setattr(active, "_KEPT_COMMITS", 5)
    story = Story(Profile.LOCAL_POSIX)
    options = {
        "hoodie.keep.max.commits": 3,
        "hoodie.keep.min.commits": 2,
        "hoodie.timeline.compaction.batch.size": 2,
    }
    story.table()
    table = story.writer("daemon", options=options).open()
    for value in range(40):
        table.upsert(batch((1, "a", value)))
    folder = table._opened.context().folder
    timeline = folder.load()
    assert all(folder.history.find(commit.requested_time) for commit in folder.history.completed_between("", "9" * 17))
    assert len(folder._commits) <= 5 + len(folder.files()[0])
    there = len(folder.history.state().objects)
    known = folder.history
    assert max(map(len, (known._manifests, known._times, known._completions))) <= there < 20
    assert len(timeline.commits) <= 4


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.value)
def test_a_rollback_does_not_list_the_table_while_it_holds_the_lock(profile: Profile) -> None:
    """Of a writer that died before its first marker the files are looked for in the whole table; others need not wait for that."""
    story = Story(profile)
    table = story.table((1, "a", 1))
    victim, other = story.writer("victim"), story.writer("other")
    victim.pause_before("put", ".hoodie/.temp/", dying(victim))
    with pytest.raises(Died):
        victim.open().upsert(batch((1, "a", 10)))
    story.pass_time(LONG_S)
    other.open().upsert(batch((2, "a", 2)))
    assert rows_of(table) == [(1, "a", 1), (2, "a", 2)]
    assert any(verb == "list" and not path.startswith(".hoodie") for verb, path in other.calls)
    held = False
    for verb, path in other.calls:
        held = verb == "acquire" or (held and verb != "release")
        assert not (held and verb.startswith("list") and not path.startswith(".hoodie")), (
            f"{verb} {path!r} under the lock"
        )
