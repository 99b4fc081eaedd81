"""Table services beside writers: they are planned under the lock, and what they plan or completed is in the way of writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tables import make, orders, reopen, rows

from pyhudi_core.conflicts.conflict import (
    Concurrent,
    ConflictKind,
    Touched,
    find_conflict,
    mixed_indexes,
    older_than_log_compaction,
)
from pyhudi_core.conflicts.matrix import Verdict, line_of
from pyhudi_core.doctor import FindingKind
from pyhudi_core.errors import CommitConflictError
from pyhudi_core.model.commit import CommitMetadata, WriteStat
from pyhudi_core.model.instant import Action, Instant, State
from pyhudi_core.model.operation import OPERATIONS, WRITERS, OperationType
from pyhudi_core.storage.base import ObjectInfo
from pyhudi_core.storage.local import LocalStorage


@pytest.mark.row("K9")
def test_what_services_put_on_the_timeline_is_planned_under_the_lock(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback's plan and the history's new rows: nobody decides a commit while they are made."""
    table = make(location)
    keeping = reopen(
        table, hoodie__keep__min__commits=1, hoodie__keep__max__commits=2, hoodie__archive__automatic=False
    )
    for number in range(4):
        keeping.upsert(orders((number, "a", 1.0)))
    lock = Path(location, ".hoodie", "lock")
    planned: dict[str, bool] = {}
    real = LocalStorage.put_if_absent

    def put_if_absent(self: LocalStorage, path: str, data: bytes) -> ObjectInfo:
        if path.endswith(".rollback.requested") or "/history/manifest_" in path:
            planned[path.rpartition("/")[2]] = lock.exists()
        return real(self, path, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", put_if_absent)
    assert keeping.archival.run()
    write = table.begin("upsert").write(orders((9, "a", 1.0)))
    write.rollback()
    assert len(planned) >= 2, planned
    assert all(planned.values()), planned


def _completed(operation: str, *file_ids: str, replaced: tuple[str, ...] = ()) -> Concurrent:
    stats = tuple(WriteStat(name, f"p/{name}_0-0-0_2.parquet", "p", inserts=1) for name in file_ids)
    commit = CommitMetadata(operation, stats, {}, {"p": replaced} if replaced else {})
    return Concurrent(((Instant("2", Action.REPLACECOMMIT, State.COMPLETED, "3"), commit),))


def _write(file_id: str, operation: str = "UPSERT") -> Touched:
    return Touched.by(CommitMetadata(operation, (WriteStat(file_id, f"p/{file_id}_0-0-0_1.parquet", "p", updates=1),)))


@pytest.mark.row("K6")
@pytest.mark.parametrize("operation", ["UPSERT", "DELETE", "INSERT", "BULK_INSERT"])
def test_a_completed_clustering_of_the_same_groups_is_in_the_way(operation: str) -> None:
    clustering = _completed("CLUSTER", "new", replaced=("f", "g"))
    found = find_conflict(_write("f", operation), clustering)
    assert found is not None
    assert found.kind is ConflictKind.FILE_GROUP
    assert found.verdict is Verdict.REPLAN
    assert find_conflict(_write("other", operation), clustering) is None


@pytest.mark.row("K6")
def test_a_clustering_is_given_up_when_a_write_came_into_its_groups() -> None:
    clustering = Touched.by(CommitMetadata("CLUSTER", (), {}, {"p": ("f",)}))
    found = find_conflict(clustering, _completed("UPSERT", "f"))
    assert found is not None
    assert found.verdict is Verdict.ABORT


@pytest.mark.row("K6")
@pytest.mark.parametrize("action", ["compaction", "logcompaction"])
def test_a_planned_compaction_stops_no_write_and_a_completed_one_of_the_same_group_does(
    location: str, action: str
) -> None:
    """Listed as a departure: Hudi fails a write when a compaction of its file groups was scheduled after it began."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        [stat] = write.stats.files
        plan = Path(location, ".hoodie", "timeline", f"{int(str(write.instant)) + 2}.{action}.requested")
        plan.write_bytes(b"")
        assert write.commit().retries == 0
    assert rows(table, "id", "price") == [(1, 2.0)]
    found = find_conflict(_write(stat.file_id), _completed("COMPACT", stat.file_id))
    assert found is not None
    assert (found.kind, found.verdict) == (ConflictKind.FILE_GROUP, Verdict.REPLAN)


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - WRITERS), ids=str)
def test_after_a_restore_nothing_that_ran_meanwhile_may_stand(operation: OperationType) -> None:
    restore = Concurrent(others=(Instant("2", Action.RESTORE, State.COMPLETED, "3"),))
    for mine in (operation, *WRITERS):
        found = find_conflict(Touched(frozenset(), frozenset(), operation=mine), restore)
        assert found is not None
        assert found.verdict is line_of(mine, OperationType.RESTORE).of(mine) is Verdict.ABORT


@pytest.mark.row("L1")
@pytest.mark.parametrize("action", [Action.CLEAN, Action.SAVEPOINT, Action.INDEXING, Action.ROLLBACK])
def test_other_services_stop_no_write(action: Action) -> None:
    beside = Concurrent(others=(Instant("2", action, State.COMPLETED, "3"),))
    for operation in WRITERS:
        assert find_conflict(Touched(frozenset({("p", "f")}), frozenset({"p"}), operation=operation), beside) is None


def test_a_write_is_given_up_after_a_restore_and_not_planned_anew(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        time = str(int(str(write.instant)) + 1)
        Path(location, ".hoodie", "timeline", f"{time}_{int(time) + 1}.restore").write_bytes(b"")
        with pytest.raises(CommitConflictError, match="begin a new write") as caught:
            write.commit()
        with pytest.raises(CommitConflictError):
            write.again(caught.value)
    assert caught.value.explanation.verdict is Verdict.ABORT


@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_no_write_is_made_while_a_restore_is_pending(location: str, state: str) -> None:
    """Its rows would be copied from files that the restore is about to take away; Hudi's own writers refuse, too."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "a", 1.0)))
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 2.0)))
        restore = Path(location, ".hoodie", "timeline", f"{int(str(write.instant)) + 2}.restore.{state}")
        restore.write_bytes(b"")
        assert not write.would_commit()
        with pytest.raises(CommitConflictError, match="restore .* is pending") as caught:
            write.commit()
    assert caught.value.explanation.verdict is Verdict.ABORT
    for begin in (lambda: table.upsert(orders((3, "a", 1.0))), lambda: table.delete_partitions(["day=a"])):
        with pytest.raises(CommitConflictError, match="is pending"):
            begin()
    assert len(table.timeline.commits) == 1, "nothing was published"
    assert rows(table, "id", "price") == [(1, 1.0), (2, 1.0)]
    [finding] = [found for found in table.check().findings if found.kind is FindingKind.PENDING_FOREIGN]
    assert "until it has ended: finish it with" in finding.what_to_do
    restore.unlink()
    table.upsert(orders((3, "a", 1.0)))


@pytest.mark.parametrize(
    ("operation", "own", "found"),
    [("LOG_COMPACT", "1", True), ("LOG_COMPACT", "2", False), ("UPSERT", "1", False)],
)
def test_only_a_later_log_compaction_makes_a_log_older_than_it_is(operation: str, own: str, found: bool) -> None:
    appended = CommitMetadata(operation, (WriteStat("f", "p/.f_20.log.1_0-0-0", "p", updates=1),))
    beside = Concurrent(((Instant("2", Action.DELTACOMMIT, State.COMPLETED, "3"), appended),))
    mine = Touched.by(CommitMetadata("UPSERT", (WriteStat("f", "p/.f_10.log.1_0-0-0", "p", updates=1),)))
    conflict = older_than_log_compaction(mine, beside, own)
    assert (conflict is not None) == found
    if conflict is not None:
        assert (conflict.kind, conflict.file_groups) == (ConflictKind.FILE_GROUP, (("p", "f"),))
    assert older_than_log_compaction(_write("f"), beside, own) is None, "what is in a base file is not in a log"


@pytest.mark.parametrize(("bucket", "found"), [(0, False), (3, False), (4, True), (11, True)])
def test_a_bucket_number_beyond_ours_shows_that_hudi_wrote_with_more_buckets(bucket: int, found: bool) -> None:
    file_id = f"{bucket:08d}-0000-4000-8000-000000000000-0"
    commit = CommitMetadata("UPSERT", (WriteStat(file_id, f"q/{file_id}_0-0-0_2.parquet", "q", inserts=1),))
    theirs = Concurrent(((Instant("2", Action.COMMIT, State.COMPLETED, "3"), commit),))
    mine = Touched(frozenset(), frozenset({"p"}), hashed=True, buckets="4:id")
    conflict = mixed_indexes(mine, theirs)
    assert (conflict is not None and conflict.kind is ConflictKind.INDEX) == found
