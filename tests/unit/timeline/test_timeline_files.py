"""What writers put on the timeline, decoded again; and how it is loaded."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from support.disk import files
from support.homes import StandingClock, home_at, make_at, runtime_with
from support.tables import make, orders, read_avro, rows

from pyhudi_core import HudiTable, open_table
from pyhudi_core.errors import CorruptAvroError, CorruptTimelineError
from pyhudi_core.formats.avro.container import sync_marker_of
from pyhudi_core.model.instant import Action, Instant, State, parse_file_name, time_after
from pyhudi_core.orchestration.table_services import at_one_moment
from pyhudi_core.runtime.system import SystemClock
from pyhudi_core.storage.local import LocalStorage
from pyhudi_core.timeline.active import Timeline, TimelineFolder
from pyhudi_core.timeline.layouts import LAYOUT_TWO


@pytest.mark.row("B1", "B2")
def test_a_commit_leaves_requested_inflight_and_completed_files(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    assert files(f"{location}/.hoodie/timeline") == [
        f"{commit.instant}.commit.requested",
        f"{commit.instant}.inflight",
        f"{commit.instant}_{commit.completion_time}.commit",
    ]
    assert Path(location, f".hoodie/timeline/{commit.instant}.commit.requested").read_bytes() == b""


@pytest.mark.row("B2", "C3")
def test_a_replacecommit_names_its_action_in_every_state(location: str) -> None:
    table = make(location)
    commit = table.insert_overwrite(orders((1, "a", 1.0)))
    assert files(f"{location}/.hoodie/timeline") == [
        f"{commit.instant}.replacecommit.inflight",
        f"{commit.instant}.replacecommit.requested",
        f"{commit.instant}_{commit.completion_time}.replacecommit",
    ]
    requested = read_avro(
        table, Instant(commit.instant, Action.REPLACECOMMIT, State.REQUESTED), "HoodieRequestedReplaceMetadata"
    )
    assert {key: value for key, value in requested.items() if value is not None} in ({}, {"version": 1})
    inflight = read_avro(table, Instant(commit.instant, Action.REPLACECOMMIT, State.INFLIGHT), "HoodieCommitMetadata")
    assert inflight["operationType"] == "INSERT_OVERWRITE"


@pytest.mark.row("B6", "C1")
def test_a_completed_commit_says_what_was_written(location: str) -> None:
    table = make(location, name="orders")
    first = table.upsert(orders((1, "a", 1.0), (2, "a", 2.0)))
    table.upsert(orders((2, "a", 3.0), (3, "a", 3.0)))
    record = read_avro(table, table.timeline[-1], "HoodieCommitMetadata")
    assert (record["operationType"], record["compacted"], record["version"]) == ("UPSERT", False, None)
    [stat] = record["partitionToWriteStats"]["day=a"]
    path = Path(location, stat["path"])
    assert stat["path"].startswith("day=a/")
    assert stat["fileId"] == path.name.split("_")[0]
    assert stat["partitionPath"] == "day=a"
    assert stat["prevCommit"] == first.instant
    assert stat["prevBaseFile"].endswith(f"_{first.instant}.parquet")
    assert (stat["numWrites"], stat["numInserts"], stat["numUpdateWrites"], stat["numDeletes"]) == (3, 1, 1, 0)
    assert stat["fileSizeInBytes"] == stat["totalWriteBytes"] == path.stat().st_size
    assert stat["totalWriteErrors"] == 0
    schema = json.loads(record["extraMetadata"]["schema"])
    assert [field["name"] for field in schema["fields"]] == ["id", "day", "price", "ts"]
    assert (schema["name"], schema["namespace"]) == ("orders_record", "hoodie.orders")


@pytest.mark.row("B6")
def test_a_new_file_has_no_previous_commit_in_hudis_words(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    [stat] = read_avro(table, table.timeline[-1], "HoodieCommitMetadata")["partitionToWriteStats"]["day=a"]
    assert stat["prevCommit"] == "null"
    assert (stat["numInserts"], stat["numUpdateWrites"]) == (1, 0)


@pytest.mark.row("B6", "C3")
def test_a_replacecommit_names_the_groups_it_took_away(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0), (2, "b", 2.0)))
    gone = {piece.partition: piece.file_id for piece in table.snapshot().view.all_slices()}
    table.insert_overwrite_table(orders((3, "c", 3.0)))
    record = read_avro(table, table.timeline[-1], "HoodieReplaceCommitMetadata")
    assert record["partitionToReplaceFileIds"] == {partition: [file_id] for partition, file_id in gone.items()}
    assert list(record["partitionToWriteStats"]) == ["day=c"]
    assert record["operationType"] == "INSERT_OVERWRITE_TABLE"


@pytest.mark.row("B6")
@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert", "insert_overwrite", "insert_overwrite_table"])
def test_operations_are_named_in_hudis_upper_case_words(location: str, operation: str) -> None:
    table = make(location)
    getattr(table, operation)(orders((1, "a", 1.0)))
    record = "HoodieReplaceCommitMetadata" if "overwrite" in operation else "HoodieCommitMetadata"
    assert read_avro(table, table.timeline[-1], record)["operationType"] == operation.upper()


@pytest.mark.row("B6", "C8")
@pytest.mark.parametrize(("kind", "action"), [("cow", "commit"), ("mor", "deltacommit")])
def test_a_rollback_says_what_it_removed(location: str, kind: str, action: str) -> None:
    table = make(location, table_type=kind)
    with table.begin("upsert") as write:
        write.write(orders((1, "a", 1.0)))
        victim = write.instant
        [stat] = write.stats.files
    [rollback] = table.timeline
    assert rollback.action is Action.ROLLBACK
    plan = read_avro(table, Instant(rollback.requested_time, Action.ROLLBACK, State.REQUESTED), "HoodieRollbackPlan")
    assert plan["instantToRollback"] == {"commitTime": victim, "action": action}
    [request] = plan["RollbackRequests"]
    assert (request["partitionPath"], request["filesToBeDeleted"]) == ("day=a", [f"{location}/{stat.path}"])
    done = read_avro(table, rollback, "HoodieRollbackMetadata")
    assert done["commitsRollback"] == [victim]
    assert done["instantsRollback"] == [{"commitTime": victim, "action": action}]
    assert done["totalFilesDeleted"] == 1
    assert done["partitionMetadata"]["day=a"]["successDeleteFiles"] == [f"{location}/{stat.path}"]
    assert not files(f"{location}/.hoodie/timeline", f"{victim}*")


@pytest.mark.row("B3")
def test_commits_and_their_times_are_in_one_order(location: str) -> None:
    table = make(location)
    for number in range(4):
        table.upsert(orders((number, "a", 1.0)))
    table.delete_partitions(["day=a"])
    times = [time for instant in table.timeline for time in (instant.requested_time, instant.completion_time)]
    assert times == sorted(times)
    assert len(set(times)) == len(times) == 10


@pytest.mark.row("B4")
def test_instants_grow_even_when_the_clock_stands_still_or_goes_back(location: str) -> None:
    clock = StandingClock(tick_ms=0)
    table = make_at(home_at(location, runtime_with(clock=clock)))
    for number in range(3):
        table.upsert(orders((number, "a", 1.0)))
        clock.time_ms -= 10
    times = [time for instant in table.timeline for time in (instant.requested_time, instant.completion_time or "")]
    assert times == sorted(set(times))
    assert rows(table, "id") == [(0,), (1,), (2,)]


@pytest.mark.row("B5")
def test_timeline_files_are_written_once_and_never_replaced(location: str) -> None:
    seen: list[tuple[str, str]] = []

    class Watching(LocalStorage):
        def put(self, path: str, data: bytes) -> object:  # type: ignore[override]
            seen.append(("put", path))
            return super().put(path, data)

        def put_if_absent(self, path: str, data: bytes) -> object:  # type: ignore[override]
            made = super().put_if_absent(path, data)
            seen.append(("put_if_absent", path))
            return made

    table = make_at(home_at(Watching(location, fsync=False)))
    table.upsert(orders((1, "a", 1.0)))
    table.delete_partitions(["day=a"])
    with table.begin("upsert") as write:
        write.write(orders((1, "b", 1.0)))
    verbs = {verb for verb, path in seen if path.startswith(".hoodie/timeline/")}
    assert verbs == {"put_if_absent"}
    paths = [path for _, path in seen if path.startswith(".hoodie/timeline/")]
    assert len(paths) == len(set(paths)) == 3 + 3 + 2 + 3


@pytest.mark.row("B5")
def test_timeline_files_carry_the_writers_nonce_in_their_sync_marker(location: str) -> None:
    table = make(location)
    commit = table.upsert(orders((1, "a", 1.0)))
    nonce = bytes.fromhex(commit.token.partition("-")[2])
    for name in (f"{commit.instant}.inflight", f"{commit.instant}_{commit.completion_time}.commit"):
        assert sync_marker_of(Path(location, ".hoodie/timeline", name).read_bytes()) == nonce


@pytest.mark.row("B10")
def test_a_handle_sees_what_others_wrote_and_a_scan_stays_where_it_is(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    pinned = table.scan()
    other = open_table(location)
    other.upsert(orders((1, "a", 2.0), (2, "b", 2.0)))
    assert rows(table, "id", "price") == [(1, 2.0), (2, 2.0)]
    assert rows(pinned, "id", "price") == [(1, 1.0)]
    assert rows(pinned, "id", "price") == [(1, 1.0)], "as often as it is read"


@pytest.mark.row("B10")
def test_questions_at_one_moment_are_about_one_state(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    before, name, other = table.timeline.instants, table.config.name, open_table(location)
    seen = at_one_moment(table)
    assert seen.timeline.instants == before  # the first question makes the moment
    other.upsert(orders((1, "a", 2.0)))
    assert at_one_moment(seen).timeline.instants == before
    assert len(table.timeline.instants) == len(before) + 1, (
        "the handle itself sees every commit, so it may write meanwhile"
    )
    properties = Path(location, ".hoodie/hoodie.properties")
    properties.unlink()
    Path(f"{properties}.backup").unlink(missing_ok=True)
    assert (seen.timeline.instants, seen.config.name) == (before, name)


@pytest.mark.row("B10")
def test_loading_lists_the_folder_once_and_reads_no_file(location: str) -> None:
    table = make(location)
    for number in range(3):
        table.upsert(orders((number, "a", 1.0)))
    calls: list[str] = []

    class Counting(LocalStorage):
        def get(self, path: str) -> bytes:
            calls.append(f"get {path}")
            return super().get(path)

        def list_folder(self, folder: str) -> object:  # type: ignore[override]
            calls.append(f"list {folder}")
            return super().list_folder(folder)

        def list_names(self, folder: str) -> object:  # type: ignore[override]
            calls.append(f"list {folder}")
            return super().list_names(folder)

    folder = TimelineFolder(Counting(location), ".hoodie/timeline")
    assert len(folder.load()) == 3
    assert calls == ["list .hoodie/timeline"]
    folder.read_commit(folder.load()[0])
    folder.read_commit(folder.load()[0])
    assert sum(call.startswith("get") for call in calls) == 1, "what is completed is read once"


NAMES = {
    "20260101000000000.commit.requested": (Action.COMMIT, State.REQUESTED, None),
    "20260101000000000.inflight": (Action.COMMIT, State.INFLIGHT, None),
    "20260101000000000_20260101000000001.commit": (Action.COMMIT, State.COMPLETED, "20260101000000001"),
    "20260101000000000.commit": (Action.COMMIT, State.COMPLETED, None),
    "20260101000000000.savepoint.inflight": (Action.SAVEPOINT, State.INFLIGHT, None),
    "20260101000000000_20260101000000001.savepoint": (Action.SAVEPOINT, State.COMPLETED, "20260101000000001"),
    "20260101000000000_20260101000000001.deltacommit": (Action.DELTACOMMIT, State.COMPLETED, "20260101000000001"),
} | {
    f"20260101000000000.{action}.{state}": (Action(action), State(state), None)
    for action in ("deltacommit", "replacecommit", "clustering", "compaction", "logcompaction", "clean", "rollback", "restore", "indexing")
    for state in ("requested", "inflight")
}  # fmt: skip


@pytest.mark.row("B2")
@pytest.mark.parametrize("name", NAMES)
def test_names_of_every_action_and_state_are_read_and_written(name: str) -> None:
    instant = parse_file_name(name)
    assert instant is not None
    assert (instant.action, instant.state, instant.completion_time) == NAMES[name]
    assert instant.file_name() == name


@pytest.mark.row("B2")
@pytest.mark.parametrize("action", ["commit", "clustering", "compaction", "logcompaction"])
def test_completed_services_have_the_names_of_writes(action: str) -> None:
    done = Instant("20260101000000000", Action(action), State.COMPLETED, "20260101000000001")
    word = {"clustering": "replacecommit", "compaction": "commit", "logcompaction": "deltacommit"}.get(action, action)
    assert done.file_name() == f"20260101000000000_20260101000000001.{word}"


@pytest.mark.row("B2")
@pytest.mark.parametrize("action", ["clustering", "compaction", "logcompaction"])
@pytest.mark.parametrize("times", ["20260101000000000", "20260101000000000_20260101000000001"])
def test_nothing_completes_under_the_pending_name_of_a_service(times: str, action: str) -> None:
    """Such a file would have ended the instant for whoever counts its states, and would hold nothing for whoever reads its rows."""
    assert parse_file_name(f"{times}.{action}") is None


@pytest.mark.parametrize(
    "name",
    ["foo.txt", "bar.commit", "history", "20260101.unknown", "1_2.commit.requested", "1.commit.", "1..commit", ".1.commit.swp",
     "1_2_3.commit", "1.commit.completed", "-1.commit", "١.commit", "1.COMMIT", "1.commit.requested.crc"],  # noqa: RUF001
)  # fmt: skip
def test_other_names_are_passed_over(name: str) -> None:
    assert parse_file_name(name) is None


def test_the_highest_state_of_an_instant_hides_the_lower_ones() -> None:
    names = [
        "1.compaction.requested",
        "1.compaction.inflight",
        "1_4.commit",
        "2.commit.requested",
        "2.inflight",
        "3.savepoint.inflight",
        "3_5.savepoint",
    ]
    timeline = Timeline.of(instant for instant in map(parse_file_name, names) if instant is not None)
    assert [instant.file_name() for instant in timeline] == ["1_4.commit", "2.inflight", "3_5.savepoint"]
    assert timeline.high_water_mark == "5"
    assert [i.requested_time for i in timeline.pending] == ["2"]
    assert [i.requested_time for i in timeline.filter(action="savepoint")] == ["3"]
    assert [i.requested_time for i in timeline.filter(state="completed")] == ["1", "3"]
    assert "Timeline of 3 instants" in repr(timeline)
    assert "savepoint" in timeline._repr_html_()


def test_commits_come_in_the_order_of_their_completion() -> None:
    names = ["1_9.commit", "2_5.commit", "3_7.replacecommit", "4_8.rollback"]
    timeline = Timeline.of(instant for instant in map(parse_file_name, names) if instant is not None)
    assert [instant.requested_time for instant in timeline.commits] == ["2", "3", "1"]


@pytest.mark.parametrize(
    ("time", "after"),
    [
        ("20261231235959999", "20270101000000000"),
        ("20260101000000000", "20260101000000001"),
        ("20260101000000", "20260101000001000"),
    ],
)
def test_the_next_time_is_one_millisecond_later(time: str, after: str) -> None:
    assert time_after(time) == after


def test_an_empty_completed_file_is_an_empty_commit(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    empty = Path(location, ".hoodie/timeline/20990101000000000_20990101000000001.commit")
    empty.touch()
    os.utime(empty, (0, 0))
    assert rows(table, "id") == [(1,)]


class WritingMeanwhile(SystemClock):
    """A clock during whose sleeps another process writes a file, a piece at each."""

    def __init__(self, path: Path, pieces: list[bytes]) -> None:
        self.path, self.pieces = path, pieces

    def sleep(self, seconds: float) -> None:
        if self.pieces:
            with self.path.open("ab") as out:
                out.write(self.pieces.pop(0))
        super().sleep(seconds)


@pytest.mark.parametrize("first", [0, 7, 400])
def test_a_completed_file_that_hudi_is_still_writing_is_waited_for(location: str, first: int) -> None:
    """Hudi creates the file, then writes into it. Who took it for an empty commit rewrote older files, and Hudi's rows were lost."""
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    reader = open_table(location)
    table.upsert(orders((2, "a", 2.0)))
    path = Path(location, ".hoodie/timeline", table.timeline[-1].file_name())
    content = path.read_bytes()
    path.write_bytes(content[:first])
    middle = (first + len(content)) // 2
    clock = WritingMeanwhile(path, [b"", content[first:middle], content[middle:]])
    slow = HudiTable(home_at(location, runtime_with(clock=clock)))
    assert rows(slow, "id") == [(1,), (2,)]
    slow.upsert(orders((3, "a", 3.0)))
    assert rows(reader, "id") == [(1,), (2,), (3,)]


def test_an_empty_completed_file_is_read_again_once_it_has_content(location: str) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    path = Path(location, ".hoodie/timeline", table.timeline[-1].file_name())
    content = path.read_bytes()
    path.write_bytes(b"")
    os.utime(path, (0, 0))
    reader = open_table(location)
    with pytest.raises(CorruptTimelineError, match="empty") as caught:
        rows(reader, "id")
    assert caught.value.path == f".hoodie/timeline/{path.name}"
    path.write_bytes(content)
    assert rows(reader, "id") == [(1,)]


@pytest.mark.parametrize("content", [b"{}", b"Obj\x01", b"\0" * 64])
def test_a_damaged_commit_is_named(location: str, content: bytes) -> None:
    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    name = table.timeline[0].file_name()
    Path(location, ".hoodie/timeline", name).write_bytes(content)
    with pytest.raises(CorruptAvroError) as caught:
        open_table(location).scan().to_arrow()
    assert name in str(caught.value)


def test_a_completed_file_of_an_older_version_is_refused(location: str) -> None:
    table = make(location)
    Path(location, ".hoodie/timeline").mkdir()
    Path(location, ".hoodie/timeline/20260101000000000.commit").write_text("{}")
    with pytest.raises(CorruptTimelineError, match="no completion time in its name"):
        table.scan()


def test_the_schema_comes_from_the_newest_commit_that_defines_one(location: str) -> None:
    table = make(location)
    assert table.schema.names == ["id", "day", "price", "ts"], "of the properties, before the first commit"
    table.upsert(orders((1, "a", 1.0)))
    table.upsert(orders((1, "a", 1.0)).append_column("more", pa.array([1])))
    assert table.schema.names == ["id", "day", "price", "ts", "more"]


def test_an_instant_is_found_by_its_time_and_by_its_action_in_each_state() -> None:
    commit = Instant("20260101000000000", Action.COMMIT, State.COMPLETED, "20260101000000001")
    savepoint = Instant("20260101000000000", Action.SAVEPOINT, State.COMPLETED, "20260101000000003")
    planned = Instant("20260101000000010", Action.COMPACTION, State.REQUESTED)
    found = Timeline((savepoint, commit, planned))
    assert found.find(commit.requested_time) is commit
    assert found.find(commit.requested_time, Action.COMMIT) is commit
    assert found.find(commit.requested_time, Action.SAVEPOINT) is savepoint
    assert found.find(commit.requested_time, Action.CLEAN) is None
    assert found.find(planned.requested_time, Action.COMMIT) is planned
    assert found.find("20260101000000099") is None


@pytest.mark.parametrize("action", [Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT])
def test_replaced_file_groups_of_a_wrong_type_are_damage_in_a_commit_of_every_action(action: Action) -> None:
    schema = {"type": "record", "name": "any", "fields": [{"name": "partitionToReplaceFileIds", "type": "int"}]}
    body = io.BytesIO()
    fastavro.writer(body, fastavro.parse_schema(schema), [{"partitionToReplaceFileIds": 1}])
    instant = Instant("20260101000000000", action, State.COMPLETED, "20260101000000001")
    with pytest.raises(CorruptAvroError):
        LAYOUT_TWO.decode(body.getvalue(), instant, "a")
