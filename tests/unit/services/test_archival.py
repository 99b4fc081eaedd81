"""Archival on real tables: what leaves the active timeline, what stays, and when commits do it by themselves."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from support.archival import AUTOMATIC, MANUAL, commits, filled, history_files, timeline_files
from support.disk import contents
from support.failing import FailingStorage
from support.homes import context_of
from support.tables import make, make_inside, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.doctor.kinds import FindingKind
from pyhudi_core.formats.history_manifest import decode_manifest
from pyhudi_core.services.archival import archival
from pyhudi_core.services.archival.archival import archive
from pyhudi_core.services.archival.limits import ArchivalRules
from pyhudi_core.transaction.status import CommitStatus


@pytest.mark.row("B9")
def test_a_run_leaves_the_fewest_commits_and_all_of_their_files(location: str) -> None:
    table, done = filled(location)
    result = table.archival.run()
    assert [i.requested_time for i in result.instants] == [commit.instant for commit in done[:5]]
    assert [i.requested_time for i in table.timeline] == [commit.instant for commit in done[5:]]
    assert len(timeline_files(location)) == 2 * 3
    first, last = done[0].instant, done[4].instant
    assert history_files(location) == [f"{first}_{last}_0.parquet", "_version_", "manifest_1"]
    assert Path(location, ".hoodie/timeline/history/_version_").read_bytes() == b"1"


def test_a_long_timeline_is_archived_a_part_at_a_time(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archival, "AT_ONCE", 2)
    table, done = filled(location)
    before = rows(table)
    result = table.archival.run()
    assert [i.requested_time for i in result.instants] == [commit.instant for commit in done[:5]]
    assert result.deleted == 5 * 3
    names = [name for name in history_files(location) if name.endswith(".parquet")]
    assert [name[:35] for name in names] == [
        f"{done[first].instant}_{done[last].instant}" for first, last in ((0, 1), (2, 3), (4, 4))
    ]
    assert rows(hudi.open_table(location)) == before
    assert [table.commit_status(commit.token) for commit in done] == [CommitStatus.COMMITTED] * 7
    audited = hudi.open_table(location, options={**MANUAL, "hoodie.keep.min.commits": 1, "pyhudi.lock.audit": True})
    audited.archival.run()
    commits(audited, 3)
    held = len(list(Path(location, ".hoodie/.locks/audit").iterdir()))
    assert len(audited.archival.run().instants) == 3
    assert len(list(Path(location, ".hoodie/.locks/audit").iterdir())) == held + 2, "the lock is given back in between"


def test_staged_bytes_that_came_after_their_instant_had_ended_go_when_it_is_archived(location: str) -> None:
    table, done = filled(location)
    staged = Path(location, ".hoodie/.aux/.pyhudi/staged")

    def late(commit: hudi.Commit, age_s: int) -> str:
        path = staged / f"{commit.instant}-{age_s:032x}"
        path.write_bytes(b"late")
        os.utime(path, (time.time() - age_s,) * 2)
        return path.name

    late(done[0], 3600), late(done[4], 3600)
    kept = {late(done[5], 3600), late(done[1], 0)}
    assert {finding.kind for finding in table.check().findings} == {FindingKind.STAGED_LEFT}
    table.archival.run()
    assert {path.name for path in staged.iterdir()} == kept, (
        "what is not archived stays, and what may still be in the making"
    )


@pytest.mark.row("B8")
def test_a_row_keeps_the_completed_files_bytes(location: str) -> None:
    table, done = filled(location)
    before = {name: Path(location, ".hoodie/timeline", name).read_bytes() for name in timeline_files(location)}
    table.archival.run()
    history = context_of(table).folder.history
    for commit in done[:5]:
        instant = history.find(commit.instant)
        assert instant is not None
        assert instant.completion_time == commit.completion_time
        row = history.content(instant)
        assert row is not None
        assert row.metadata == before[instant.file_name()]
        assert row.plan is None
        assert row.action == "commit"


def test_a_plan_changes_nothing_and_says_what_would_go(location: str) -> None:
    table, done = filled(location)
    before = contents(location)
    plan = table.archival.plan()
    assert plan
    assert [i.requested_time for i in plan.instants] == [commit.instant for commit in done[:5]]
    assert table.archival.schedule() is None
    assert contents(location) == before
    assert len(table.archival.run().instants) == len(plan.instants)
    assert not table.archival.plan()
    assert "the newest 2 stay" in table.archival.plan().why_not
    assert not table.archival.run()


@pytest.mark.row("B9")
def test_commits_archive_by_themselves_and_merge_layers(location: str) -> None:
    table, done = filled(location, 40, AUTOMATIC)
    assert len(table.timeline) <= 4 + 1
    listed = decode_manifest(
        max(Path(location, ".hoodie/timeline/history").glob("manifest_*"), key=_number).read_bytes(), "m"
    )
    assert {file.layer for file in listed} >= {1, 2}
    assert all(sum(file.layer == layer for file in listed) < 3 for layer in range(3))
    manifests = [name for name in history_files(location) if name.startswith("manifest_")]
    assert 3 <= len(manifests) <= 6
    assert len([name for name in history_files(location) if name.endswith(".parquet")]) < 12
    assert [table.commit_status(commit.token) for commit in done] == [CommitStatus.COMMITTED] * 40
    assert rows(table, "id") == [(n,) for n in range(41)]


def _number(path: Path) -> int:
    return int(path.name.partition("_")[2])


def test_without_the_option_nothing_is_archived(location: str) -> None:
    filled(location, 6)
    assert not Path(location, ".hoodie/timeline/history").exists()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("verb", ["upsert", "insert", "bulk_insert", "begin", "delete", "delete_where"])
def test_every_way_to_write_archives_afterwards(location: str, verb: str) -> None:
    filled(location, 4)
    table = reopen(hudi.open_table(location), **AUTOMATIC)
    new = orders((99, "c", 1.0))
    if verb == "begin":
        with table.begin() as write:
            write.write(new)
            write.commit()
    elif verb == "delete":
        table.delete(pa.table({"id": [1], "day": ["b"]}))
    elif verb == "delete_where":
        table.delete(where="id = 1")
    else:
        getattr(table, verb)(new)
    assert len(table.timeline) == 2
    assert "manifest_1" in history_files(location)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("verb", ["insert_overwrite", "insert_overwrite_table", "delete_partitions"])
def test_overwrites_archive_afterwards_and_stay_until_the_replaced_files_are_gone(location: str, verb: str) -> None:
    filled(location, 4)
    table = reopen(hudi.open_table(location), **AUTOMATIC)
    replaced = (
        table.delete_partitions(["day=b"])
        if verb == "delete_partitions"
        else getattr(table, verb)(orders((99, "b", 1.0)))
    )
    assert len(table.timeline) == 2
    for number in range(6):
        table.upsert(orders((200 + number, "c", 1.0)))
    assert table.timeline[0].requested_time == replaced.instant
    before = rows(table, "id")
    instant = table.timeline[0]
    for partition, ids in table.commit_metadata(instant).replaced.items():
        for file_id in ids:
            for path in Path(location, partition).glob(f"{file_id}_*"):
                path.unlink()
    assert instant in table.archival.run().instants
    assert rows(table, "id") == before
    row = context_of(table).folder.history.content(instant)
    assert row is not None
    assert row.action == "replacecommit"
    assert row.plan is not None, "the inflight file, as Hudi keeps it"


def test_a_failure_of_archival_is_no_failure_of_the_commit(location: str, caplog: pytest.LogCaptureFixture) -> None:
    filled(location, 4)
    folder = Path(location, ".hoodie/timeline/history")
    folder.mkdir()
    table = reopen(hudi.open_table(location), **AUTOMATIC)
    (folder / "_version_").write_bytes(b"")
    (folder / "manifest_1").mkdir()
    commit = table.upsert(orders((99, "a", 1.0)))
    assert (99,) in rows(table, "id")
    assert table.commit_status(commit.token) is CommitStatus.COMMITTED
    (folder / "manifest_1").rmdir()


def test_a_run_after_a_crash_before_the_deletes_archives_nothing_twice(location: str) -> None:
    table, done = filled(location)
    context = context_of(table)
    failing = FailingStorage(context.storage, lambda verb, path: verb == "delete" and "/timeline/" in path)
    context.folder.storage = failing  # type: ignore[assignment]
    with pytest.raises(hudi.errors.StorageError):
        archive(context, ArchivalRules(keep_min=2, keep_max=None))
    assert failing.failures
    assert len(timeline_files(location)) == 7 * 3, "nothing is deleted yet"
    table.upsert(orders((9, "a", 1.0)))
    again = hudi.open_table(location, options=MANUAL)
    before = rows(again)
    result = again.archival.run()
    assert [i.requested_time for i in result.instants] == [done[5].instant]
    assert result.deleted == 6 * 3
    history = context_of(again).folder.history
    state = history.state()
    times = [row.requested_time for file in state.files for row in history.rows(state, file)]
    assert sorted(times) == [commit.instant for commit in done[:6]]
    assert rows(again) == before


def test_the_fewest_have_to_be_fewer_than_the_most(location: str) -> None:
    with pytest.raises(hudi.errors.InvalidOptionError, match=r"hoodie\.keep\.min\.commits"):
        make(location, options={"hoodie.keep.min.commits": 30})


def test_a_table_inside_the_folder_keeps_its_files(location: str) -> None:
    """Its files have times that this table does not know, between times that it archives."""
    table, _ = filled(location, 2)
    inner = make_inside(f"{location}/archive/inner", options=MANUAL)
    inner.upsert(orders((1, "a", 1.0)))
    inner.insert(orders((2, "a", 1.0)))
    commits(table, 6)
    assert table.archival.run().instants
    assert rows(hudi.open_table(inner.location), "id") == [(1,), (2,)]
