"""Early conflict detection: the younger of two writes to one file group stops before it has written all its files."""

from __future__ import annotations

import json
import os
import pickle
import time
from pathlib import Path

import pyarrow as pa
import pytest
from support.disk import data_files
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.conflicts.conflict import ConflictKind
from pyhudi_core.conflicts.early import EarlyCheck, early_check
from pyhudi_core.engine import task_errors
from pyhudi_core.errors import CommitConflictError, EarlyConflictError
from pyhudi_core.model.instant import Action
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.local import LocalOutputFile, LocalStorage
from pyhudi_core.transaction import begin, layout

pytestmark = pytest.mark.row("K10")

DAYS = "abcd"
EARLY = {"hoodie__write__concurrency__early__conflict__detection__enable": True}


def _big(table: hudi.HudiTable) -> hudi.HudiTable:
    """Four partitions of one file group each, large enough that a file's rows count, not its bloom filter."""
    table.upsert(_rows(1.0, DAYS))
    return table


def _rows(price: float, days: str) -> pa.Table:
    return orders(*((number, day, price, number) for day in days for number in range(20_000)))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the data files that were published, one by one."""
    sizes: list[int] = []
    real = LocalOutputFile.close

    def close(self: LocalOutputFile) -> ObjectInfo:
        info = real(self)
        sizes.append(info.size)
        return info

    monkeypatch.setattr(LocalOutputFile, "close", close)
    return sizes


def test_the_loser_stops_before_it_has_written_all_files(location: str, written: list[int]) -> None:
    table = _big(make(location))
    planned = sum(written)
    written.clear()
    with table.begin("upsert") as older, reopen(table, **EARLY).begin("upsert") as younger:
        older.write(orders((1, "c", 5.0)))
        written.clear()
        with pytest.raises(EarlyConflictError) as caught:
            younger.write(_rows(9.0, DAYS))
        error = caught.value
        assert error.bytes_written == sum(written) < planned
        assert error.bytes_saved == planned - sum(written) > planned // 8
        assert f"about {error.bytes_saved:,} unwritten" in str(error)
        assert error.conflict.kind is ConflictKind.EARLY
        assert error.conflict.instant.requested_time == older.instant
        assert error.explanation.theirs.requested_time == older.instant
        younger.rollback()
        assert older.commit().retries == 0
    assert dict(rows(table.scan(columns=["id", "price"], where="day = 'c'")))[1] == 5.0
    assert len(data_files(location)) == 5, "nothing of the loser is left"


def test_without_it_the_loser_writes_everything(location: str, written: list[int]) -> None:
    table = _big(make(location))
    planned = sum(written)
    with table.begin("upsert") as older, table.begin("upsert") as younger:
        older.write(orders((1, "c", 5.0)))
        written.clear()
        younger.write(_rows(9.0, DAYS))
        assert sum(written) > planned * 0.9
        older.commit()
        with pytest.raises(CommitConflictError, match="same file groups"):
            younger.commit()


def test_a_verb_goes_on_when_the_other_has_ended_and_tells_what_it_saved(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    eager = reopen(table, **EARLY)
    older = table.begin("upsert").write(orders((1, "a", 5.0)))
    real = hudi.Write.give_up

    def give_up(self: hudi.Write, conflict: CommitConflictError) -> None:
        if isinstance(conflict, EarlyConflictError):
            older.commit()
        real(self, conflict)

    monkeypatch.setattr(hudi.Write, "give_up", give_up)
    commit = eager.upsert(orders((1, "a", 9.0), (2, "b", 9.0)))
    assert commit.retries == 1
    assert commit.bytes_saved > 0
    assert f"1, about {commit.bytes_saved:,} bytes saved" in str(commit)
    assert rows(table, "id", "price") == [(1, 9.0), (2, 9.0)]


def test_an_older_write_is_not_stopped_by_a_younger_one(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The younger one has announced the file group before the older one plans; the older one goes on all the same."""
    table = reopen(make(location), **EARLY)
    table.upsert(orders((1, "a", 1.0)))
    real = LocalStorage.put_if_absent
    with table.begin("upsert") as older, table.begin("upsert") as younger:

        def put_if_absent(self: LocalStorage, path: str, data: bytes) -> ObjectInfo:
            done = real(self, path, data)
            if path.endswith(".requested") and younger.instant is None:
                monkeypatch.undo()
                younger.write(orders((1, "a", 6.0)))
            return done

        monkeypatch.setattr(LocalStorage, "put_if_absent", put_if_absent)
        older.write(orders((1, "a", 5.0)))
        assert str(older.instant) < str(younger.instant)
        older.commit()
        with pytest.raises(CommitConflictError, match="same file groups") as caught:
            younger.commit()
        assert not isinstance(caught.value, EarlyConflictError)
    assert rows(table, "id", "price") == [(1, 5.0)]


def test_other_file_groups_stop_nobody(location: str) -> None:
    table = reopen(_big(make(location)), **EARLY)
    with table.begin("upsert") as one, table.begin("upsert") as other:
        one.write(orders((1, "a", 5.0)))
        other.write(orders((1, "b", 6.0), (99_999, "new", 7.0)))
        one.commit()
        other.commit()
    kept = rows(table, "id", "day", "price")
    assert {(1, "a", 5.0), (1, "b", 6.0), (99_999, "new", 7.0)} <= set(kept)


def test_the_markers_of_a_dead_writer_stop_nobody(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    never = reopen(table, hoodie__clean__failed__writes__policy="NEVER", **EARLY)
    dead = table.begin("upsert").write(orders((1, "a", 5.0)))
    dead._state.pending().heartbeat.handle.cancel()
    beat = Path(location, layout.heartbeat(str(dead.instant)))
    os.utime(beat, (1, 1))
    assert never.upsert(orders((1, "a", 9.0))).retries == 0
    assert rows(table, "id", "price") == [(1, 9.0)]


def test_the_markers_of_a_writer_whose_process_has_ended_stop_nobody_although_its_heartbeat_is_young(
    location: str,
) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    never = reopen(table, hoodie__clean__failed__writes__policy="NEVER", **EARLY)
    dead = table.begin("upsert").write(orders((1, "a", 5.0)))
    dead._state.pending().heartbeat.handle.cancel()
    beat = Path(location, layout.heartbeat(str(dead.instant)))
    told = json.loads(beat.read_bytes())
    told["process"] = f"{told['process'].rpartition('|')[0]}|1"  # another process has its number now
    beat.write_text(json.dumps(told))
    assert never.upsert(orders((1, "a", 9.0))).retries == 0


@pytest.mark.parametrize(
    ("happens", "stopped"),
    [("it beats", True), ("it misses one beat", True), ("it misses three beats", False), ("it has just ended", True)],
)
def test_a_rival_that_dies_after_the_plan_stops_nobody(
    location: str, monkeypatch: pytest.MonkeyPatch, happens: str, stopped: bool
) -> None:
    """The rival lives when the younger write is planned; a task looks again before it writes a file."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    real = LocalStorage.put
    with table.begin("upsert") as older, reopen(table, **EARLY).begin("upsert") as younger:
        older.write(orders((1, "a", 5.0)))
        beat = Path(location, layout.heartbeat(str(older.instant)))

        def put(self: LocalStorage, path: str, data: bytes) -> ObjectInfo:
            if path.startswith(layout.markers(str(younger.instant))):
                last = time.time() - {"it misses one beat": 90, "it misses three beats": 180}.get(happens, 0)
                if happens == "it has just ended":
                    beat.unlink(missing_ok=True)  # a commit removes its markers last
                else:
                    os.utime(beat, (last, last))
            return real(self, path, data)

        monkeypatch.setattr(LocalStorage, "put", put)
        if stopped:
            with pytest.raises(EarlyConflictError, match="rewriting the same file group"):
                younger.write(orders((1, "a", 9.0)))
        else:
            younger.write(orders((1, "a", 9.0)))
            assert younger.commit().retries == 0


def test_rivals_without_a_heartbeat_or_without_an_instant_count_and_other_files_do_not(location: str) -> None:
    """Hudi's writers have no heartbeat unless failed writes are cleaned lazily; a writer of ours reserves its time before its instant is there."""
    table = reopen(make(location), **EARLY)
    table.upsert(orders((1, "a", 1.0)))
    context = table._opened.context()
    reserved = begin.reserve(context, Action.COMMIT)
    for name in ("20260101000000000.commit.requested", "20260101000000000.inflight"):
        context.root.put(f".hoodie/timeline/{name}", b"")
    context.root.put(f"{layout.HEARTBEATS}/0 no time", b"")
    context.root.put(f"{layout.HEARTBEATS}/20990101000000000", b"")
    check = early_check(context, table.timeline, "20980101000000000")
    assert check is not None
    assert check.rivals == ("20260101000000000", reserved.requested_time)
    assert early_check(context, table.timeline, "20250101000000000") is None


def test_it_is_off_unless_it_is_asked_for(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    listed: list[str] = []
    real = LocalStorage.list

    def spy(self: LocalStorage, prefix: str, start_after: str = "") -> list[ObjectInfo]:
        listed.append(prefix)
        return real(self, prefix, start_after)

    monkeypatch.setattr(LocalStorage, "list", spy)
    with table.begin("upsert") as older, table.begin("upsert") as younger:
        older.write(orders((1, "a", 5.0)))
        listed.clear()
        younger.write(orders((1, "a", 6.0)))
        younger.commit()
    assert not any(prefix.startswith(layout.markers(str(older.instant))) for prefix in listed)


def test_the_error_travels_from_a_worker_to_the_driver() -> None:
    sent = EarlyConflictError("it is taken", path="day=a/f", instant="20260101000000000", hint="wait")
    came = task_errors.from_text(task_errors.to_text(sent))
    assert isinstance(came, EarlyConflictError)
    assert (came.path, came.instant, came.bytes_saved, came.conflict) == ("day=a/f", "20260101000000000", 0, None)
    check = EarlyCheck(("20260101000000000",), 1000)
    assert pickle.loads(pickle.dumps(check)) == check
