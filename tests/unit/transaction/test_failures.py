"""A write that fails anywhere leaves the table as it was, or is in the table; and the answer tells which."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.disk import contents, data_files, files
from support.failing import FailingStorage, nth_write
from support.homes import home_at, make_at
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    CommitStateUnknownError,
    HudiError,
    InvalidOptionError,
    StorageError,
    StorageStateUnknownError,
    TableError,
)
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.table import HudiTable
from pyhudi_core.transaction import layout

BEFORE = orders((1, "a", 1.0), (2, "b", 2.0))
BATCH = orders((1, "a", 10.0), (3, "a", 3.0), (4, "c", 4.0))
OLD = [(1, 1.0), (2, 2.0)]
NEW = [(1, 10.0), (2, 2.0), (3, 3.0), (4, 4.0)]


def _failing_table(location: str, chooser, **how) -> tuple[HudiTable, FailingStorage]:  # type: ignore[no-untyped-def]
    storage = FailingStorage(LocalStorage(location, fsync=False), chooser, **how)
    return HudiTable(home_at(storage)), storage  # type: ignore[arg-type]


def _writes_of_an_upsert(tmp_path: Path) -> int:
    location = str(tmp_path / "count")
    make(location).upsert(BEFORE)
    calls: list[str] = []
    table, _ = _failing_table(location, lambda verb, path: bool(calls.append(f"{verb} {path}")))
    table.upsert(BATCH)
    return len(calls)


@pytest.mark.one_in(3)
@pytest.mark.row("C1")
@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer_lost"])
@pytest.mark.parametrize("number", range(1, 32))
def test_an_upsert_whose_nth_write_fails_is_whole_or_not_there(
    tmp_path: Path, location: str, number: int, after: bool
) -> None:
    if number == 31:
        assert 12 <= _writes_of_an_upsert(tmp_path) <= 30, "every write of an upsert is made to fail once"
    make(location).upsert(BEFORE)
    error = StorageStateUnknownError if after else StorageError
    table, storage = _failing_table(location, nth_write(number), after=after, error=error)
    try:
        committed = bool(table.upsert(BATCH))
    except CommitStateUnknownError as unknown:
        committed = table.commit_status(unknown.token) is hudi.CommitStatus.COMMITTED
    except HudiError:
        committed = False
    healthy = hudi.open_table(location)
    assert rows(healthy, "id", "price") == (NEW if committed else OLD)
    assert not files(f"{location}/.hoodie", "lock")
    if not committed:
        assert storage.failures
        assert not [i for i in healthy.timeline if i.action == "commit" and i.is_pending]
        assert len(data_files(location)) == 2
    healthy.upsert(BATCH)
    assert rows(healthy, "id", "price") == NEW


def test_a_file_that_cannot_be_written_fails_the_batch_and_leaves_no_file(location: str) -> None:
    make(location).upsert(BEFORE)
    seen: list[str] = []

    def second_file(verb: str, path: str) -> bool:
        if verb == "open_output":
            seen.append(path)
        return verb == "open_output" and len(seen) == 2

    table, _ = _failing_table(location, second_file)
    with pytest.raises(StorageError, match="disk is full"):
        table.upsert(BATCH)
    assert len(data_files(location)) == 2
    assert rows(hudi.open_table(location), "id", "price") == OLD
    assert files(f"{location}/.hoodie/.temp") == []


def test_a_write_that_cannot_even_begin_leaves_nothing_pending(location: str) -> None:
    make(location).upsert(BEFORE)
    table, _ = _failing_table(location, lambda verb, path: path.endswith(".inflight") and verb == "put_if_absent")
    with pytest.raises(StorageError):
        table.upsert(BATCH)
    assert [i.is_completed for i in hudi.open_table(location).timeline] == [True]
    assert files(f"{location}/.hoodie/.heartbeat") == []


def test_what_the_storage_cannot_even_withdraw_is_repaired_when_its_heartbeat_is_old(location: str) -> None:
    import os

    make(location).upsert(BEFORE)
    broken: list[str] = []

    def from_then_on(verb: str, path: str) -> bool:
        broken.extend([path] if path.endswith(".inflight") else [])
        return bool(broken)

    table, _ = _failing_table(location, from_then_on)
    with pytest.raises(StorageError):
        table.upsert(BATCH)
    healthy = hudi.open_table(location)
    [pending] = healthy.timeline.pending
    assert rows(healthy, "id", "price") == OLD
    beat = Path(location, ".hoodie/.heartbeat", pending.requested_time)
    os.utime(beat, (1, 1))
    healthy.upsert(BATCH)
    assert not healthy.timeline.pending.instants
    assert rows(healthy, "id", "price") == NEW


def test_when_the_decision_cannot_be_read_back_the_outcome_is_unknown_and_then_found_out(location: str) -> None:
    make(location).upsert(BEFORE)
    broken: list[str] = []

    class LosesEverything(LocalStorage):
        def put_if_absent(self, path: str, data: bytes):  # type: ignore[no-untyped-def]
            found = super().put_if_absent(path, data)
            if "commit_record" in path:
                broken.append(path)
                raise StorageStateUnknownError("no answer", path=path)
            return found

        def list(self, prefix: str, start_after: str = ""):  # type: ignore[no-untyped-def]
            if broken and "commit_record" in prefix:
                raise StorageError("no answer", path=prefix)
            return super().list(prefix, start_after)

    table = HudiTable(home_at(LosesEverything(location, fsync=False)))
    with pytest.raises(CommitStateUnknownError, match="does not say") as caught:
        table.upsert(BATCH)
    healthy = hudi.open_table(location)
    assert healthy.commit_status(caught.value.token) is hudi.CommitStatus.COMMITTED
    assert healthy.commit_status(caught.value.token) is hudi.CommitStatus.COMMITTED
    assert rows(healthy, "id", "price") == NEW


def test_a_decided_commit_is_published_by_the_next_writer(location: str) -> None:
    make(location).upsert(BEFORE)

    def completed_file(verb: str, path: str) -> bool:
        return path.endswith(".commit") and verb == "put_if_absent"

    table, _ = _failing_table(location, completed_file)
    with pytest.raises(CommitStateUnknownError, match="decided"):
        table.upsert(BATCH)
    healthy = hudi.open_table(location)
    assert rows(healthy, "id", "price") == OLD, "not published yet"
    healthy.upsert(orders((5, "d", 5.0)))
    assert rows(healthy, "id", "price") == [*NEW, (5, 5.0)]


def test_the_status_of_a_token_never_flips(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as write:
        write.write(BATCH)
        token = write.token
        assert token is not None
        assert table.commit_status(token) is hudi.CommitStatus.UNDECIDED
        write.commit()
    assert table.commit_status(token) is hudi.CommitStatus.COMMITTED
    with table.begin("upsert") as write:
        write.write(BATCH)
        lost = write.token
    assert lost is not None
    assert table.commit_status(lost) is hudi.CommitStatus.NOT_COMMITTED
    assert table.commit_status(token[:18] + "0" * 32) is hudi.CommitStatus.NOT_COMMITTED, "the time of another writer"
    with pytest.raises(hudi.errors.InvalidOptionError, match="not a commit token"):
        table.commit_status("nonsense")


def test_files_that_a_dead_task_left_are_removed_at_the_commit(location: str) -> None:
    table = make(location)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        [stat] = write.stats.files
        leak = stat.path.replace("_0-", "_77-")
        Path(location, leak).write_bytes(b"half a file")
        Path(location, f".hoodie/.temp/{write.instant}/{leak}.marker.CREATE").touch()
        write.commit()
    assert data_files(location) == [stat.path]


def test_a_file_of_a_running_or_unnamed_write_is_never_read(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    [path] = data_files(location)
    copy = Path(location, path)
    copy.with_name(copy.name.replace("-0_", "-1_")).write_bytes(copy.read_bytes())
    later = copy.name.replace(commit.instant, "20990101000000000")
    copy.with_name(later).write_bytes(copy.read_bytes())
    assert rows(table, "id") == [(1,)], "neither the file that no commit names nor the one of an unknown instant"


def test_a_failed_first_write_leaves_an_empty_table(location: str) -> None:
    make(location)
    table, _ = _failing_table(location, lambda verb, path: verb == "open_output")
    with pytest.raises(StorageError):
        table.upsert(BATCH)
    assert rows(hudi.open_table(location)) == []
    assert data_files(location) == []
    assert [name for name in contents(location) if name.endswith(".marker.CREATE")] == []


def test_an_error_in_the_data_halfway_leaves_no_instant(location: str) -> None:
    table = make(location)
    schema = orders((1,)).schema

    def batches():  # type: ignore[no-untyped-def]
        yield orders((1, "a", 1.0)).to_batches()[0]
        raise OSError("the source broke")

    before = contents(location)
    with pytest.raises(OSError, match="source broke"):
        table.upsert(pa.RecordBatchReader.from_batches(schema, batches()))
    assert contents(location) == before


def test_memory_tables_commit_by_if_match(location: str) -> None:
    from pyhudi_core.runtime.system import SystemClock
    from pyhudi_core.storage.memory import MemoryBucket, MemoryStorage

    storage = MemoryStorage("memory://failures", MemoryBucket(), SystemClock())
    home = home_at(storage, options={"hoodie.time.generator.max_expected_clock_skew_ms": 0})
    table = make_at(home)
    table.upsert(BEFORE)
    table.upsert(BATCH)
    assert rows(table, "id", "price") == NEW
    assert storage.head(".hoodie/.aux/.pyhudi/commit_record.json") is not None


@pytest.mark.parametrize("token", ["", "abc", "20260101000000000", "20260101000000000-" + "g" * 32, "-" * 40, None, 5])
def test_what_is_no_commit_token_gets_no_answer(location: str, token: object) -> None:
    with pytest.raises(InvalidOptionError, match="is not a commit token"):
        make(location).commit_status(token)  # type: ignore[arg-type]


def test_a_time_that_a_writer_without_reservations_took_meanwhile_is_not_used(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi's writers reserve nothing: theirs may have the time that ours has reserved, and has not announced yet."""
    table = make(location)
    table.upsert(orders((1, "a", 0.0)))
    taken: list[str] = []
    real = LocalStorage.put_if_absent

    def put_if_absent(self: LocalStorage, path: str, data: bytes) -> ObjectInfo:
        found = real(self, path, data)
        if path.startswith(layout.heartbeat("")) and not taken:
            taken.append(path.rpartition("/")[2])
            Path(location, f".hoodie/timeline/{taken[0]}.commit.requested").touch()
        return found

    monkeypatch.setattr(LocalStorage, "put_if_absent", put_if_absent)
    commit = table.upsert(orders((1, "a", 1.0)))
    assert taken
    assert commit.instant > taken[0]


def test_a_table_that_another_writer_upgraded_meanwhile_is_not_committed_to(location: str) -> None:
    table = make(location)
    properties = Path(location, ".hoodie/hoodie.properties")
    before = properties.read_text()
    assert "hoodie.table.version=8" in before
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        properties.write_text(before.replace("hoodie.table.version=8", "hoodie.table.version=9"))
        with pytest.raises(TableError, match="9"):
            write.commit()
        properties.write_text(before)
    assert rows(table, "id") == []
