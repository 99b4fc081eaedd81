"""Archival on real tables: what leaves the active timeline is still found, and no answer changes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.disk import contents, data_files
from support.failing import FailingStorage
from support.golden import unpack
from support.homes import context_of, home_at
from support.killing import killed_after
from support.tables import make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CommitConflictError, CorruptTimelineError
from pyhudi_core.formats.avro import encode_record
from pyhudi_core.formats.history_file import HistoryRow
from pyhudi_core.formats.history_manifest import decode_manifest
from pyhudi_core.model.instant import Action, time_after
from pyhudi_core.services import archival
from pyhudi_core.services.archival import archive
from pyhudi_core.services.archival_limits import ArchivalRules
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.table import HudiTable
from pyhudi_core.timeline.history_writing import HistoryWriter
from pyhudi_core.transaction import begin, concurrent
from pyhudi_core.transaction.commit import publish_intent
from pyhudi_core.transaction.conflict import Touched
from pyhudi_core.transaction.precedence import claim
from pyhudi_core.transaction.publication import create_once
from pyhudi_core.transaction.record import record_store
from pyhudi_core.transaction.status import CommitStatus

FAST = {"hoodie.time.generator.max_expected_clock_skew_ms": 1}
MANUAL = {**FAST, "hoodie.archive.automatic": False, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 4}
AUTOMATIC = {**MANUAL, "hoodie.archive.automatic": True, "hoodie.timeline.compaction.batch.size": 3}


def filled(location: str, commits: int = 7, options: dict[str, Any] = MANUAL) -> tuple[hudi.HudiTable, list[Any]]:
    """A table with some upserts of a row of their own and of one that all share."""
    table = make(location, options=options)
    done = [table.upsert(orders((n, "ab"[n % 2], 1.0, n), (0, "a", float(n), n))) for n in range(1, commits + 1)]
    return table, done


def timeline_files(location: str) -> list[str]:
    return sorted(path.name for path in Path(location, ".hoodie/timeline").iterdir() if path.is_file())


def history_files(location: str) -> list[str]:
    return sorted(path.name for path in Path(location, ".hoodie/timeline/history").iterdir())


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
    assert "2 stay" in table.archival.plan().why_not
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


# --- by itself, with others at work


def kept(table: hudi.HudiTable) -> list[str]:
    """Requested times of the completed commits on the active timeline."""
    return sorted(instant.requested_time for instant in table.timeline.commits)


def commits(table: hudi.HudiTable, count: int, first: int = 300) -> list[str]:
    """Make commits that touch a partition of their own; returns their requested times."""
    return [table.upsert(orders((first + n, "z", 1.0))).instant for n in range(count)]


@pytest.mark.row("B9")
def test_commits_do_not_archive_past_a_living_write_and_go_on_after_it(location: str) -> None:
    table, done = filled(location, 3, AUTOMATIC)
    with table.begin() as write:
        write.write(orders((77, "b", 1.0)))
        during = commits(table, 8)
        assert kept(table) == [done[2].instant, *during], "the last commit before the write and all after it"
        mine = write.commit().instant
    assert kept(table)[-1] == during[-1], "it has the greatest completion time, and an early requested one"
    assert mine in kept(table)
    commits(table, 1, 400)
    assert len(kept(table)) == 2
    assert (77,) in rows(table, "id")


def test_commits_do_not_archive_past_a_time_that_is_reserved_and_not_announced(location: str) -> None:
    table, done = filled(location, 3, AUTOMATIC)
    context = context_of(table)
    reserved = begin.reserve(context, Action.COMMIT)
    during = commits(table, 8)
    assert kept(table) == [done[2].instant, *during]
    reserved.heartbeat.stop(context)
    commits(table, 1, 400)
    assert len(kept(table)) == 2


def test_a_dead_writer_stops_archival_no_longer_than_until_the_next_write(location: str) -> None:
    table, _ = filled(location, 3, AUTOMATIC)
    killed_after(location, "put", "/staged/", orders((78, "b", 1.0)))
    [dead] = table.timeline.pending
    commits(table, 5)
    assert not table.timeline.pending.instants
    assert dead.requested_time < kept(table)[0], "what came after the dead write was archived"
    assert (78,) not in rows(table, "id")


def test_a_savepoint_stops_archival_until_it_is_gone_and_its_hole_stops_no_writer(location: str) -> None:
    table, done = filled(location, 3, AUTOMATIC)
    saved = done[1]
    body = {"savepointedBy": "", "savepointedAt": 0, "comments": "", "partitionMetadata": {}}
    files = [
        Path(location, ".hoodie/timeline", f"{saved.instant}.savepoint.inflight"),
        Path(location, ".hoodie/timeline", f"{saved.instant}_{saved.completion_time}.savepoint"),
    ]
    files[0].write_bytes(b"")
    files[1].write_bytes(encode_record("HoodieSavepointMetadata", body, sync_marker=bytes(16)))
    during = commits(table, 6)
    assert kept(table) == [saved.instant, done[2].instant, *during]
    beyond = reopen(table, **AUTOMATIC, **{"hoodie.archive.beyond.savepoint": True})
    before = rows(beyond)
    assert beyond.archival.run()
    assert kept(beyond) == [saved.instant, *during[-2:]]
    assert rows(hudi.open_table(location)) == before
    for file in files:
        file.unlink()
    commits(table, 3, 400)
    assert len(kept(table)) <= 4
    assert saved.instant not in kept(table)


def test_claims_of_the_living_and_of_the_dead_do_not_stop_archival(location: str) -> None:
    table, _ = filled(location, 3, AUTOMATIC)
    standing = claim(context_of(table), Touched(frozenset(), frozenset({"day=a"})), 1000)
    half = Path(location, ".hoodie/.aux/.pyhudi/claims/half.json")
    half.write_bytes(b'{"process": ')
    commits(table, 6)
    assert len(kept(table)) <= 4
    standing.handle.cancel()


# --- answers


@pytest.mark.row("B9")
def test_archived_commits_are_still_found(location: str) -> None:
    table, done = filled(location)
    old = [next(i for i in table.timeline if i.requested_time == commit.instant) for commit in done]
    said = [table.commit_metadata(instant) for instant in old]
    table.archival.run()
    fresh = hudi.open_table(location)
    assert [fresh.commit_metadata(instant) for instant in old] == said
    assert [fresh.commit_status(commit.token) for commit in done] == [CommitStatus.COMMITTED] * len(done)
    wrong = done[0].token[:-1] + ("0" if done[0].token[-1] != "0" else "1")
    assert fresh.commit_status(wrong) is CommitStatus.NOT_COMMITTED


def everything(table: hudi.HudiTable, done: list[Any]) -> dict[str, Any]:
    """What can be asked of a table whose slices are all there."""
    answers: dict[str, Any] = {
        "snapshot": rows(table),
        "schema": str(table.schema),
        "cursor": table.scan().completion_time,
    }
    points = ["0", *(c.completion_time for c in done), *(c.instant for c in done)]
    for number, commit in enumerate(done):
        for point in (commit.instant, commit.completion_time, time_after(commit.instant)):
            scan = table.scan(as_of=point)
            answers[f"as of {point}"] = (rows(scan), scan.completion_time, str(scan.schema))
        answers[f"status {number}"] = table.commit_status(commit.token)
    for after in points:
        answers[f"after {after}"] = rows(table.incremental(after=after))
        for until in points[:: max(1, len(points) // 4)]:
            answers[f"{after} to {until}"] = rows(table.incremental(after=after, until=until))
    answers["lookup"] = rows(table.lookup(pa.table({"id": list(range(8))})))
    return answers


steps = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "delete", "grow", "rollback"]), st.integers(0, 6), st.sampled_from("ab")
    ),
    min_size=4,
    max_size=6,
)


@pytest.mark.row("B9")
@settings(
    derandomize=True,
    max_examples=4 * int(os.environ.get("PYHUDI_EXPLORE", "1")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps, st.integers(1, 3))
def test_archival_changes_no_answer(tmp_path_factory: pytest.TempPathFactory, taken: list[Any], keep: int) -> None:
    options = {**MANUAL, "hoodie.keep.min.commits": keep, "hoodie.timeline.compaction.batch.size": 2}
    table = make(str(tmp_path_factory.mktemp("t") / "t"), options=options)
    done = [table.upsert(orders((n, "ab"[n % 2], 0.0, n))) for n in range(3)]
    wider = False
    for number, (kind, key, day) in enumerate(taken):
        batch = orders((key, day, float(number), number))
        if kind == "rollback":
            with table.begin() as write:
                write.write(batch if not wider else batch.append_column("more", pa.array(["x"])))
            continue
        wider = wider or kind == "grow"
        if kind == "delete":
            done.append(table.delete(pa.table({"id": [key], "day": [day]})))
        else:
            done.append(table.upsert(batch.append_column("more", pa.array(["x"])) if wider else batch))
    before = everything(hudi.open_table(table.location), done)
    while table.archival.plan():
        context = context_of(table)
        limited = ArchivalRules(keep_min=max(keep, len(table.timeline.commits) - 2), keep_max=None)
        archive(context, limited)
        after = everything(hudi.open_table(table.location), done)
        assert after == before


def test_the_schema_of_an_archived_time_is_what_it_was(location: str) -> None:
    table, done = filled(location, 3)
    grown = orders((50, "a", 1.0, 9)).append_column("more", pa.array(["x"]))
    for _ in range(4):
        table.upsert(grown)
    table.archival.run()
    assert "more" not in table.scan(as_of=done[2].instant).schema.names
    assert "more" in table.schema.names


def test_a_reader_that_loaded_the_timeline_before_reads_on(location: str) -> None:
    table, _ = filled(location)
    before = rows(table)
    scan = hudi.open_table(location).scan()
    table.archival.run()
    assert rows(scan) == before


# --- data files that no commit names


def test_files_that_no_commit_names_are_swept_before_their_instant_is_archived(location: str) -> None:
    table, done = filled(location)
    before = rows(table)
    named = data_files(location)
    real = Path(location, named[0])
    times = [done[1].instant, done[4].instant, done[6].instant]
    leaked = [real.with_name(f"{'1' * 8}-0_0-{n}-0_{time}.parquet") for n, time in enumerate(times)]
    unknown = Path(location, "day=z", f"{'2' * 8}-0_0-0-0_{time_after(done[2].instant)}.parquet")
    unknown.parent.mkdir()
    for path in [*leaked, unknown]:
        path.write_bytes(real.read_bytes())
    assert rows(table) == before
    result = table.archival.run()
    assert len(result.swept) == 3
    assert [path.exists() for path in [*leaked, unknown]] == [False, False, True, False]
    assert set(named) <= set(data_files(location))
    assert rows(hudi.open_table(location)) == before


def test_files_of_writes_that_are_still_running_are_not_swept(location: str) -> None:
    table, _ = filled(location)
    with table.begin() as write:
        write.write(orders((77, "a", 1.0)))
        table.archival.run()
        write.commit()
    assert (77,) in rows(table, "id")


def test_nothing_goes_past_a_write_that_is_running(location: str) -> None:
    table, done = filled(location, 3)
    with table.begin() as write:
        write.write(orders((77, "b", 1.0)))
        for n in range(5):
            table.upsert(orders((100 + n, "z", 1.0)))
        assert [i.requested_time for i in table.archival.run().instants] == [c.instant for c in done[:2]]
        assert "pending" in table.archival.plan().why_not


# --- processes that slept


def test_zombie_put_of_an_archived_commit_changes_no_answer(location: str) -> None:
    table, done = filled(location)
    names = [name for name in timeline_files(location) if name.startswith(f"{done[1].instant}_")]
    kept = Path(location, ".hoodie/timeline", names[0])
    body = kept.read_bytes()
    table.archival.run()
    before = everything(hudi.open_table(location), done)
    kept.write_bytes(body)
    assert everything(hudi.open_table(location), done) == before
    assert done[1].instant not in {i.requested_time for i in hudi.open_table(location).timeline}
    table.archival.run()
    assert not kept.exists(), "the next run removes it"


def test_the_intent_of_an_archived_commit_is_void(location: str) -> None:
    table, done = filled(location, 3)
    context = context_of(table)
    record = record_store(context.storage).read()
    assert record is not None
    assert record.intent.requested_time == done[-1].instant
    rival = table.upsert(orders((5, "a", 1.0)))
    context.storage.put(record.intent.publications[0].staged, b"what a process that slept still has")
    archive(context, ArchivalRules(keep_min=1, keep_max=None))
    before = timeline_files(location)
    assert not publish_intent(context, record.intent)
    assert timeline_files(location) == before
    assert [i.requested_time for i in table.timeline] == [rival.instant]


def test_a_commit_that_was_archived_meanwhile_is_still_a_conflict(location: str) -> None:
    table, _ = filled(location, 3)
    context = context_of(table)
    seen = context.folder.load()
    changed = table.upsert(orders((0, "a", 99.0)))
    for n in range(6):
        table.upsert(orders((100 + n, "z", 1.0)))
    table.archival.run()
    assert changed.instant not in {i.requested_time for i in table.timeline}
    mine = Touched.by(table.commit_metadata(context.folder.history.find(changed.instant)))  # type: ignore[arg-type]
    with pytest.raises(CommitConflictError, match=changed.instant):
        concurrent.refuse_conflicts(context, seen, context.folder.load(), "9" * 17, mine)
    concurrent.refuse_conflicts(context, context.folder.load(), context.folder.load(), "9" * 17, mine)
    again = orders((0, "a", 3.0))
    assert table.upsert(again).retries == 0, "what was archived before the start is no conflict"


def test_a_delete_by_condition_sees_changes_that_were_archived_while_it_looked(location: str) -> None:
    table, _ = filled(location, 3)
    other = hudi.open_table(location, options=AUTOMATIC)
    looked: list[int] = []

    real = table._home.storage

    class Storage:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def open_input(self, path: str) -> Any:
            if not looked and path.endswith(".parquet") and not path.startswith(".hoodie"):
                looked.append(1)
                other.upsert(orders((0, "a", 1_000.0, 50)))
                for n in range(8):
                    other.upsert(orders((100 + n, "z", 1.0)))
            return real.open_input(path)

    table._home.storage = Storage()  # type: ignore[assignment]
    with pytest.raises(hudi.errors.EmptyBatchError):
        table.delete(where="id = 0 AND price < 500.0")
    assert looked
    assert (0, 1_000.0) in rows(hudi.open_table(location), "id", "price")


def test_a_writer_whose_time_was_passed_by_the_history_gives_up(location: str) -> None:
    table, done = filled(location, 3)
    context = context_of(table)
    late = time_after(done[0].instant)
    start = context.folder.load()
    table.upsert(orders((9, "b", 1.0)))
    archive(context, ArchivalRules(keep_min=1, keep_max=None))
    with pytest.raises(hudi.errors.CommitAbortedError, match="archived"):
        concurrent.refuse_conflicts(context, start, context.folder.load(), late, Touched(frozenset(), frozenset()))


def test_a_write_announced_below_the_archived_ones_keeps_newer_files_on_the_timeline(location: str) -> None:
    table, done = filled(location)
    zombie = Path(location, ".hoodie/timeline", f"{time_after(done[1].instant)}.commit.requested")
    context = context_of(table)
    real = context.folder.storage

    class Announcing:
        """The zombie's file appears just after the manifest, before anything is deleted."""

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def delete(self, path: str) -> None:
            raise AssertionError(path)

        def put_if_absent(self, path: str, data: bytes) -> Any:
            if path.endswith("manifest_1"):
                zombie.write_bytes(b"")
            return real.put_if_absent(path, data)

    before = rows(table)
    del Announcing.delete
    context.folder.storage = Announcing()  # type: ignore[assignment]
    context.folder._history = None
    archive(context, ArchivalRules(keep_min=2, keep_max=None))
    assert zombie.exists()
    left = {name.split("_")[0].split(".")[0] for name in timeline_files(location)}
    assert left == {zombie.name.split(".")[0], *(c.instant for c in done[2:])}
    assert rows(hudi.open_table(location)) == before
    zombie.unlink()
    table.archival.run()
    assert len(table.timeline) == 2


# --- continuing


def test_two_files_of_one_name_become_two_names(location: str) -> None:
    table, done = filled(location)
    folder = Path(location, ".hoodie/timeline/history")
    folder.mkdir()
    taken = folder / f"{done[0].instant}_{done[4].instant}_0.parquet"
    taken.write_bytes(b"left by a process that died")
    table.archival.run()
    assert taken.read_bytes() == b"left by a process that died"
    assert f"{done[0].instant}_{int(done[4].instant) + 1}_0.parquet" in history_files(location)
    assert [table.commit_status(c.token) for c in done] == [CommitStatus.COMMITTED] * 7
    for n in range(4):
        for m in range(3):
            table.upsert(orders((300 + 3 * n + m, "a", 1.0)))
        table.archival.run()
    assert not taken.exists(), "later runs sweep it"


def test_archived_rollbacks_go_along(location: str) -> None:
    table, _ = filled(location, 2)
    with table.begin() as write:
        write.write(orders((5, "a", 1.0)))
    (undone,) = [i for i in table.timeline if i.action is Action.ROLLBACK]
    for n in range(4):
        table.upsert(orders((100 + n, "a", 1.0)))
    result = table.archival.run()
    assert undone in result.instants
    assert table.timeline.filter(action="rollback").instants == ()
    history = context_of(table).folder.history
    row = history.content(undone)
    assert row is not None
    assert (row.action, row.plan) == ("rollback", None)
    assert history.find(undone.requested_time) is None, "it is no commit"
    assert history.find(undone.requested_time, Action.ROLLBACK) == undone


@pytest.mark.row("B7")
@pytest.mark.row("B9")
@pytest.mark.parametrize("release", ["hudi-1.0.2", "hudi-1.2.0"])
def test_a_history_that_hudi_wrote_is_read_and_continued(release: str, tmp_path: Path) -> None:
    location = unpack(f"{release}/cow_archived", tmp_path / "t")
    options = {**FAST, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.archive.automatic": False}
    table = hudi.open_table(location, storage_options={"fsync": "false"}, options=options)
    folder = context_of(table).folder
    theirs = folder.history.completed_between("", "9" * 17)
    assert len(theirs) > 10
    everything_of_them = {i: table.commit_metadata(i) for i in theirs}
    compacted = table.archival.plan().instants
    assert compacted
    assert all((i.completion_time or "") < _last_compaction(location) for i in compacted), (
        "what the metadata table needs stays"
    )
    before, version = rows(table), int(Path(location, ".hoodie/timeline/history/_version_").read_text())
    schema = table.schema
    table.upsert(pa.table([table.scan().to_arrow().slice(0, 2)[name] for name in schema.names], schema=schema))
    cleans = table.timeline.filter(action="clean")
    moved = table.archival.run().instants
    assert {i.action for i in moved} == {Action.COMMIT, Action.CLEAN}
    assert int(Path(location, ".hoodie/timeline/history/_version_").read_text()) == version + 1
    again = hudi.open_table(location)
    history = context_of(again).folder.history
    assert {i: again.commit_metadata(i) for i in theirs} == everything_of_them
    for clean in (i for i in moved if i.action is Action.CLEAN):
        assert clean in cleans.instants
        row = history.content(clean)
        assert row is not None
        assert row.plan is not None
        assert row.metadata is not None
    assert len(rows(again)) == len(before)


def _last_compaction(location: str) -> str:
    folder = Path(location, ".hoodie/metadata/.hoodie/timeline")
    return max(path.name.partition("_")[0] for path in folder.glob("*.commit"))


# --- cost


class Metered:
    """A storage that counts calls and bytes read."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.calls: list[tuple[str, str]] = []
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._storage, name)
        if name not in ("get", "head", "list", "list_folder", "open_input"):
            return real

        def call(path: str, *rest: Any) -> Any:
            self.calls.append((name, path))
            found = real(path, *rest)
            if name == "get":
                self.bytes += len(found)
            elif name == "open_input":
                self.bytes += found.size()
            return found

        return call


def archived_table(location: str, archived: int) -> hudi.HudiTable:
    """A table with so many archived commits of long ago, in files as archival and its merges leave them."""
    table, _ = filled(location, 3)
    context = context_of(table)
    metadata = next(Path(location, ".hoodie/timeline").glob("*_*.commit")).read_bytes()
    writer = HistoryWriter(context.folder.history, create_once, context.runtime.ids.uuid)
    state = context.folder.history.state()
    listed, begun = [], 0
    while begun < archived:
        layer = min(4, len(str(archived - begun)) - 1)
        many = min(10**layer, archived - begun)
        rows_ = [
            HistoryRow(str(20200101000000000 + n), str(20200101000000001 + n), "commit", metadata)
            for n in range(begun, begun + many)
        ]
        listed.append(writer.add(rows_, state, max(0, layer - 1)))
        begun += many
    assert writer.decide(state, listed)
    return table


def metered(location: str) -> tuple[hudi.HudiTable, Metered]:
    """The table as a new process opens it, on a storage that counts."""
    meter = Metered(LocalStorage(location, fsync=False))
    return HudiTable(home_at(meter, options=FAST)), meter  # type: ignore[arg-type]


def cost_of(location: str, archived: int, do: Callable[[hudi.HudiTable], object]) -> tuple[list[str], int]:
    archived_table(location, archived)
    table, meter = metered(location)
    do(table)
    assert any("/.hoodie/timeline" in f"/{path}" for _, path in meter.calls)
    return [verb for verb, _ in meter.calls], meter.bytes


@pytest.mark.row("B9")
def test_opening_and_reading_cost_the_same_with_100_and_100_000_archived_instants(tmp_path: Path) -> None:
    few = cost_of(str(tmp_path / "few"), 100, rows)
    many = cost_of(str(tmp_path / "many"), 100_000, rows)
    assert many[0] == few[0]
    assert abs(many[1] - few[1]) < 1_000
    seconds = [min(_seconds_to_read(str(tmp_path / name)) for _ in range(3)) for name in ("few", "many")]
    assert seconds[1] < 3 * seconds[0] + 0.5


def _seconds_to_read(location: str) -> float:
    began = time.perf_counter()
    rows(hudi.open_table(location))
    return time.perf_counter() - began


def test_a_write_reads_no_data_file_of_the_history(tmp_path: Path) -> None:
    write = lambda table: table.upsert(orders((500, "a", 1.0)))  # noqa: E731
    few = cost_of(str(tmp_path / "few"), 100, write)
    many = cost_of(str(tmp_path / "many"), 100_000, write)
    assert len(many[0]) == len(few[0])
    assert many[1] - few[1] < 20_000, "the manifest alone"


def test_incremental_over_an_old_range_reads_only_the_files_that_overlap(location: str) -> None:
    table = archived_table(location, 2_345)
    history = context_of(table).folder.history
    before = [file.name for file in history.state().files]
    assert len(before) > 8
    fresh, meter = metered(location)
    rows(fresh.incremental(after="20200101000001100", until="20200101000001200"))
    opened = {path.rpartition("/")[2] for verb, path in meter.calls if verb == "open_input" and "/history/" in path}
    overlapping = {
        file.name for file in history.state().files if file.may_hold("20200101000001100", "20200101000001200")
    }
    assert opened == overlapping
    assert len(opened) <= 2


def test_the_manifest_tells_completion_times_and_hudi_may_drop_them(location: str) -> None:
    table = archived_table(location, 345)
    history = context_of(table).folder.history
    number = history.state().number
    path = Path(location, f".hoodie/timeline/history/manifest_{number}")
    body = json.loads(path.read_bytes())
    asked = ("20200101000000100", "20200101000000110")
    told = history.completed_between(*asked)
    del body["pyhudi"]
    path.write_text(json.dumps(body))
    again = context_of(hudi.open_table(location)).folder.history
    assert all(file.completed is None for file in again.state().files)
    assert again.completed_between(*asked) == told
    assert len(told) == 10


def test_a_damaged_history_is_read_where_it_can_be_and_never_written_on(location: str) -> None:
    table, done = filled(location)
    table.archival.run()
    for n in range(3):
        table.upsert(orders((100 + n, "a", 1.0)))
    snapshot = rows(table)
    folder = Path(location, ".hoodie/timeline/history")
    (folder / "manifest_1").write_bytes(b"{")
    before = contents(location)
    fresh = hudi.open_table(location, options=MANUAL)
    assert rows(fresh) == snapshot
    assert "damaged" in fresh.archival.run().why_not
    for ask in (
        lambda: fresh.commit_status(done[0].token),
        lambda: fresh.scan(as_of=done[1].instant),
        lambda: fresh.upsert(orders((1, "a", 1.0))),
    ):
        with pytest.raises(CorruptTimelineError, match="manifest"):
            ask()
    with pytest.raises(hudi.errors.SnapshotExpiredError, match="manifest"):
        fresh.incremental(after=done[0].completion_time)
    assert {path: data for path, data in contents(location).items() if "history" in path} == {
        path: data for path, data in before.items() if "history" in path
    }
    assert rows(fresh) == snapshot


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
