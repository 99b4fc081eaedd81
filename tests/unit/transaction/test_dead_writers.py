"""Writers that die: the next write repairs what they left. Writers that live are left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.disk import data_files, files
from support.homes import StandingClock, context_of, home_at, make_at, runtime_with
from support.killing import killed_after
from support.tables import make, orders, reopen, rows
from support.wrapping import WrappedStorage

import pyhudi_core as hudi
from pyhudi_core.errors import PreconditionFailedError
from pyhudi_core.model.instant import Action, format_time
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.table import HudiTable
from pyhudi_core.transaction.begin import look
from pyhudi_core.transaction.rollback import repair

OLD = [(1, 1.0), (2, 2.0)]
NEW = [(1, 10.0), (2, 2.0), (3, 3.0)]


def _die(location: str, verb: str, part: str) -> None:
    killed_after(location, verb, part, orders((1, "a", 10.0), (3, "c", 3.0)))


@pytest.mark.row("C1")
@pytest.mark.parametrize(
    ("verb", "part", "after_repair"),
    [
        ("put_if_absent", ".heartbeat", OLD),
        ("put_if_absent", "commit.requested", OLD),
        ("open_output", "day=c", OLD),
        ("put", ".aux/.pyhudi/staged", OLD),
        ("put_if_absent", ".hoodie/lock", OLD),
        ("put_if_absent", "commit_record", NEW),
        ("put_if_absent", ".commit", NEW),
    ],
)
def test_a_killed_writer_is_repaired_by_the_next_write(location: str, verb: str, part: str, after_repair: list) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    if part == ".commit":
        part = "_2"  # the completed file's name is <begin>_<completion>.commit
    _die(location, verb, part)
    assert rows(table, "id", "price") in (OLD, NEW)
    table.upsert(orders((9, "z", 9.0)))
    assert rows(table, "id", "price") == [*after_repair, (9, 9.0)]
    assert not table.timeline.pending.instants
    assert files(f"{location}/.hoodie/.heartbeat") == []
    assert not files(f"{location}/.hoodie", "lock")
    named = {stat.path for i in table.timeline.commits for stat in table.commit_metadata(i).stats}
    assert set(data_files(location)) == named


def test_a_writer_that_lives_is_never_rolled_back(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as slow:
        slow.write(orders((1, "a", 1.0)))
        for number in range(2, 5):
            reopen(table).upsert(orders((number, "b", 1.0)))
        assert [i.requested_time for i in table.timeline.pending] == [slow.instant]
        slow.commit()
    assert rows(table, "id") == [(1,), (2,), (3,), (4,)]


def test_log_files_of_the_metadata_table_go_with_a_dead_write_although_they_have_no_markers(location: str) -> None:
    table = make(location, options={"hoodie.metadata.enable": "true"})
    table.upsert(orders((1, "a", 1.0)))
    dead = table.begin("upsert")
    dead.write(orders((1, "a", 2.0)))
    time = str(dead.instant)
    of_metadata = Path(location, ".hoodie/metadata")
    assert {path.parent.name for path in of_metadata.rglob(f"*{time}*.log*")} == {
        "column_stats",
        "files",
        "partition_stats",
    }
    assert not list(of_metadata.rglob("*.marker.*"))
    os.utime(Path(location, ".hoodie/.heartbeat", time), (1, 1))
    reopen(table).upsert(orders((2, "b", 2.0)))
    assert not list(of_metadata.rglob(f"*{time}*"))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0)]


def test_a_writer_whose_heartbeat_is_old_is_rolled_back_and_cannot_commit_any_more(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as slow:
        slow.write(orders((1, "a", 1.0)))
        os.utime(Path(location, ".hoodie/.heartbeat", str(slow.instant)), (1, 1))
        reopen(table).upsert(orders((2, "b", 2.0)))
        assert data_files(location) != []
        with pytest.raises(hudi.errors.CommitAbortedError, match="rolled this write back"):
            slow.commit()
    assert rows(table, "id") == [(2,)]
    assert Action.ROLLBACK in {i.action for i in table.timeline}


def test_a_pending_write_without_a_heartbeat_is_somebody_elses_and_stays(location: str) -> None:
    table = make(location)
    folder = Path(location, ".hoodie/timeline")
    folder.mkdir()
    (folder / "20260101000000000.commit.requested").touch()
    (folder / "20260101000000000.inflight").touch()
    table.upsert(orders((1, "a", 1.0)))
    assert [i.requested_time for i in table.timeline.pending] == ["20260101000000000"]
    assert table.rollback("20260101000000000"), "an explicit call takes it away"
    assert not table.timeline.pending.instants
    again = table.rollback("20260101000000000")
    assert (again.changed, again.instant) == (False, None)
    assert "rolled back already" in again.reason
    assert rows(table, "id") == [(1,)]


def test_with_the_policy_never_dead_writers_stay(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    _die(location, "open_output", "day=c")
    reopen(table, hoodie__clean__failed__writes__policy="NEVER").upsert(orders((9, "z", 9.0)))
    assert len(table.timeline.pending) == 1
    assert rows(table, "id", "price") == [*OLD, (9, 9.0)]


def test_files_of_a_dead_hudi_writer_are_found_by_its_markers(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    begin = "20260101000000000"
    names = [f"day=a/f-{n}_0-1-2_{begin}.parquet" for n in range(3)]
    for name in names:
        Path(location, name).write_bytes(b"x")
    markers = Path(location, ".hoodie/.temp", begin)
    markers.mkdir(parents=True)
    (markers / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (markers / "MARKERS0").write_text(f"{names[0]}.marker.CREATE\n{names[1]}.marker.MERGE\n../../evil.marker.CREATE\n")
    (markers / "MARKERS1").write_text(f"{names[2]}.marker.CREATE\n")
    for state in ("commit.requested", "inflight"):
        Path(location, f".hoodie/timeline/{begin}.{state}").touch()
    table.rollback(begin)
    assert len(data_files(location)) == 1
    assert not markers.exists() or not files(markers)


def test_without_markers_the_files_of_a_rolled_back_write_are_found_by_their_names(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    begin = "20260101000000000"
    Path(location, f"day=a/f-0_0-1-2_{begin}.parquet").write_bytes(b"x")
    for state in ("commit.requested", "inflight"):
        Path(location, f".hoodie/timeline/{begin}.{state}").touch()
    table.rollback(table.timeline.pending[0])
    assert len(data_files(location)) == 1
    assert rows(table, "id") == [(1,)]


def test_a_completed_commit_is_not_rolled_back_by_mistake(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    done = table.rollback(commit.instant)
    assert not done
    assert "has completed" in done.reason
    assert done.reason in str(done)
    assert rows(table, "id") == [(1,)]


def test_a_rollback_whose_process_died_is_finished_by_the_next_write(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    _die(location, "open_output", "day=c")
    # The repairing process dies right after it fenced the dead write.
    _die(location, "put_if_absent", "rollback.inflight")
    assert {i.action for i in table.timeline.pending} == {Action.COMMIT, Action.ROLLBACK}
    table.upsert(orders((9, "z", 9.0)))
    assert not table.timeline.pending.instants
    assert rows(table, "id", "price") == [*OLD, (9, 9.0)]
    assert len(data_files(location)) == 3


class _OvertakenAtItsDecision(WrappedStorage):
    """A storage whose answer to the first change of the commit record comes after other processes went on, and says that the change failed."""

    def __init__(self, real: Any, meanwhile: Callable[[], object]) -> None:
        self._real, self._meanwhile = real, [meanwhile]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def put_if_absent(self, path: str, data: bytes) -> Any:
        done = self._real.put_if_absent(path, data)
        if "commit_record" in path and self._meanwhile:
            self._meanwhile.pop()()
            raise PreconditionFailedError("it exists", path=path)
        return done


def test_the_plan_of_a_rollback_goes_if_a_hudi_writer_has_rolled_its_write_back_meanwhile(location: str) -> None:
    """The plan was decided without an answer, another process published it, and nothing is left that it could roll back."""
    table = make(location)
    pending = [
        Path(location, ".hoodie/timeline", f"20260101000000000{end}") for end in (".commit.requested", ".inflight")
    ]
    pending[0].parent.mkdir()
    for path in pending:
        path.touch()

    def meanwhile() -> None:
        Path(location, ".hoodie/lock").unlink()  # its lease has ended
        reopen(table).upsert(orders((1, "a", 1.0)))
        assert Action.ROLLBACK in {i.action for i in table.timeline.pending}
        for path in pending:
            path.unlink()

    storage = _OvertakenAtItsDecision(LocalStorage(location, fsync=False), meanwhile)
    assert not HudiTable(home_at(storage)).rollback("20260101000000000").changed
    assert [i.action for i in table.timeline] == [Action.COMMIT]
    assert files(f"{location}/.hoodie/.heartbeat") == []


def test_a_dead_writer_that_announced_itself_late_does_not_hide_the_next_dead_one(location: str) -> None:
    table = make(location)
    seen = table.timeline
    late = table.begin("upsert")
    late.write(orders((1, "a", 1.0)))
    beats = Path(location, ".hoodie/.heartbeat")
    never = beats / "99991231000000000"  # died before it announced itself
    never.write_bytes((beats / str(late.instant)).read_bytes())
    for path in (beats / str(late.instant), never):
        os.utime(path, (1, 1))
    repair(context_of(table), look(context_of(table), seen))
    assert files(str(beats)) == [str(late.instant)]
    reopen(table).upsert(orders((2, "b", 2.0)))
    assert rows(table, "id") == [(2,)]


@pytest.mark.row("B4")
def test_a_timeline_far_ahead_of_the_clock_is_refused_before_anything_is_written(location: str) -> None:
    """With a write of Hudi's on it, which trusts its clock; one that is all ours goes on (tests/reliability/test_time.py)."""
    clock = StandingClock()
    make_at(home_at(location, runtime_with(clock=clock))).upsert(orders((1, "a", 1.0)))
    Path(location, ".hoodie/timeline", f"{format_time(clock.time_ms, utc=True)}.commit.requested").touch()
    late = StandingClock(clock.time_ms - 3_600_000)
    before = set(files(location))
    table = HudiTable(home_at(location, runtime_with(clock=late)))
    with pytest.raises(hudi.errors.ClockSkewError, match="ahead of this machine's clock") as caught:
        table.upsert(orders((2, "a", 2.0)))
    assert caught.value.table == location
    assert set(files(location)) == before
    assert rows(table, "id") == [(1,)]


def test_the_lock_of_a_living_writer_is_waited_for(location: str) -> None:
    table = make(location)
    context = table._opened.context()
    session = context.lock.acquire(1, "test")
    with pytest.raises(hudi.errors.LockTimeoutError, match="not free within") as caught:
        reopen(table, hoodie__write__lock__wait_time_ms=50).upsert(orders((1, "a", 1.0)))
    assert caught.value.table == location
    session.release()
    table.upsert(orders((1, "a", 1.0)))
    assert rows(table, "id") == [(1,)]


def test_a_writer_that_was_rolled_back_removes_what_it_wrote_late_at_the_metadata_table(location: str) -> None:
    table = make(location, options={"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"})
    table.upsert(orders((1, "a", 1.0)))
    metadata = Path(location, ".hoodie", "metadata")

    def there() -> set[Path]:
        return {path for path in metadata.glob("[a-z]*/.*.log*") if path.is_file()}

    before = there()
    slow = table.begin("upsert")
    slow.write(orders((2, "a", 2.0)))
    [pending] = table.timeline.pending
    slow.staged()
    late = {path: path.read_bytes() for path in there() - before}
    assert late, "the write has written its part of the metadata table"
    assert reopen(table).rollback(pending)
    assert there() == before
    for name, data in late.items():
        name.write_bytes(data)
    slow.rollback()
    assert there() == before
    assert rows(table, "id") == [(1,)]
