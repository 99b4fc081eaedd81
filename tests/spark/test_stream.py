"""``spark.readStream.format("pyhudi")``: each row exactly once, in whatever order writers complete, and from a checkpoint on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.golden import unpack
from support.tables import archive_all_but_the_newest, make, orders, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.engine.spark_types import to_spark
from pyhudi_core.errors import InvalidOptionError, SnapshotExpiredError
from pyhudi_core.spark import error_of, own_errors, register

streaming = pytest.importorskip(
    "pyspark.sql.streaming.datasource", reason="PySpark 3.5 has no streaming data sources in Python"
)
LIMIT_S = 120


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    register(spark)
    return spark


@pytest.fixture
def table(tmp_path: Path) -> hudi.HudiTable:
    return make(str(tmp_path / "orders"))


class TaskOfTheSinkFailed(Exception):
    """What a test's sink raises."""


@dataclass(slots=True)
class Follower:
    """Follows a table with one checkpoint; keeps the rows of each batch as an idempotent sink does: a batch that comes again replaces itself."""

    session: Any
    location: str
    checkpoint: str
    options: dict[str, object] = field(default_factory=dict)
    columns: tuple[str, ...] = ("id", "price")
    batches: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    fail_in: int | None = None
    seen: list[int] = field(default_factory=list)

    def start(self, **trigger: object) -> Any:
        """A query from the checkpoint on."""
        source = self.session.readStream.format("pyhudi").options(**self.options).load(self.location)
        writer = source.selectExpr(*self.columns).writeStream.option("checkpointLocation", self.checkpoint)
        return writer.foreachBatch(self._keep).trigger(**trigger or {"availableNow": True}).start()

    def catch_up(self) -> list[tuple[Any, ...]]:
        """Run until everything that is there now was read; returns all rows so far, sorted."""
        query = self.start()
        assert query.awaitTermination(LIMIT_S)
        if query.exception() is not None:
            raise query.exception()
        return self.rows

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(row for found in self.batches.values() for row in found)

    def _keep(self, frame: Any, number: int) -> None:
        self.batches[number] = sorted(tuple(row) for row in frame.collect())
        self.seen.append(number)
        if self.fail_in == number:
            raise TaskOfTheSinkFailed("the sink failed after it had the rows")


@pytest.fixture
def follower(session: Any, table: hudi.HudiTable, tmp_path: Path) -> Follower:
    return Follower(session, table.location, str(tmp_path / "checkpoint"))


@pytest.fixture(autouse=True)
def stopped(session: Any) -> Iterator[None]:
    """No query outlives its test."""
    yield
    for query in session.streams.active:
        query.stop()


@pytest.mark.row("D8", "L12")
def test_a_stream_gives_each_row_once_while_two_writers_complete_out_of_order(
    follower: Follower, table: hudi.HudiTable
) -> None:
    table.insert(orders((1, "a", 1.0, 1)))
    assert follower.catch_up() == [(1, 1.0)]
    slow = reopen(table).begin("insert")
    slow.write(orders((2, "b", 2.0, 1)))
    quick = reopen(table).insert(orders((3, "c", 3.0, 1)))
    assert slow.instant is not None
    assert slow.instant < quick.instant
    assert follower.catch_up() == [(1, 1.0), (3, 3.0)]
    late = slow.commit()
    assert late.instant < quick.instant < quick.completion_time < late.completion_time
    assert follower.catch_up() == [(1, 1.0), (2, 2.0), (3, 3.0)]  # from the checkpoint, in a query of its own
    assert follower.catch_up() == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert sorted(follower.batches.values()) == [[(1, 1.0)], [(2, 2.0)], [(3, 3.0)]]


def test_two_writers_at_once_lose_and_double_nothing(follower: Follower, table: hudi.HudiTable) -> None:
    table.insert(orders((0, "z", 0.0, 1)))

    def write(writer: int) -> None:
        handle = reopen(table)
        for number in range(5):
            handle.insert(orders((10 * writer + number, f"p{writer}", float(number), 1)))

    query = follower.start(processingTime="0 seconds")
    writers = [threading.Thread(target=write, args=(number,)) for number in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    query.processAllAvailable()
    query.stop()
    table.insert(orders((99, "z", 9.0, 1)))
    assert follower.catch_up() == rows(table, "id", "price")
    assert len(follower.rows) == 12
    assert follower.seen == sorted(set(follower.seen))


@pytest.mark.row("D8")
def test_a_batch_that_is_repeated_after_a_crash_has_the_same_rows(follower: Follower, table: hudi.HudiTable) -> None:
    table.insert(orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)))
    follower.fail_in = 0
    with pytest.raises(Exception, match="the sink failed"):
        follower.catch_up()
    (first,) = follower.batches.values()
    table.upsert(orders((1, "a", 1.5, 2), (3, "c", 3.0, 1)))
    follower.fail_in = None
    follower.catch_up()
    assert follower.seen == [0, 0, 1]
    assert follower.batches == {0: first, 1: [(1, 1.5), (3, 3.0)]}
    assert first == [(1, 1.0), (2, 2.0)]


def test_a_stream_of_changes_tells_each_change_once(follower: Follower, table: hudi.HudiTable) -> None:
    follower.options, follower.columns = {"mode": "changes"}, ("op", "before.price", "after.price", "ts_ms")
    first = table.insert(orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)))
    second = table.upsert(orders((1, "a", 1.5, 2)))
    follower.catch_up()
    third = table.delete(pa.table({"id": [2], "day": ["b"]}))
    follower.catch_up()
    told = Counter(row for batch in follower.batches.values() for row in batch)
    assert told == Counter(
        [
            ("i", None, 1.0, first.instant),
            ("i", None, 2.0, first.instant),
            ("u", 1.0, 1.5, second.instant),
            ("d", 2.0, None, third.instant),
        ]
    )


def test_a_stream_begins_where_it_is_told_to(session: Any, table: hudi.HudiTable, tmp_path: Path) -> None:
    first = table.insert(orders((1, "a", 1.0, 1)))
    table.insert(orders((2, "b", 2.0, 1)))
    expected = {
        "earliest": [(1, 1.0), (2, 2.0), (3, 3.0)],
        first.completion_time: [(2, 2.0), (3, 3.0)],
        "latest": [(3, 3.0)],
    }
    followers = {
        start: Follower(session, table.location, str(tmp_path / f"from-{start}"), {"starting": start})
        for start in expected
    }
    for follower in followers.values():
        follower.catch_up()
    table.insert(orders((3, "c", 3.0, 1)))
    assert {start: follower.catch_up() for start, follower in followers.items()} == expected


def test_batches_are_limited_by_commits_and_by_bytes(follower: Follower, table: hudi.HudiTable, tmp_path: Path) -> None:
    first = table.insert(orders((0, "a", 0.0, 1)))
    for number in range(1, 5):
        table.insert(orders((number, "a", float(number), 1)))
    by_bytes = Follower(follower.session, table.location, str(tmp_path / "bytes"))
    for limited, options in ((follower, {"max_commits_per_batch": 2}), (by_bytes, {"max_bytes_per_batch": 1})):
        limited.options = {"starting": first.completion_time, **options}
        assert limited.catch_up() == [(n, float(n)) for n in range(1, 5)]
    assert [len(found) for _, found in sorted(follower.batches.items())] == [2, 2]
    assert [len(found) for _, found in sorted(by_bytes.batches.items())] == [1, 1, 1, 1]


def test_a_stream_from_the_beginning_starts_with_the_whole_table(follower: Follower, table: hudi.HudiTable) -> None:
    table.insert(orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)))
    table.upsert(orders((1, "a", 1.5, 2)))
    follower.options = {"max_commits_per_batch": 1}
    assert follower.catch_up() == [(1, 1.5), (2, 2.0)]
    assert len(follower.batches) == 1


def test_a_row_that_lost_the_merge_does_not_come_again(session: Any, tmp_path: Path) -> None:
    table = make(str(tmp_path / "ordered"), ordering="ts")
    follower = Follower(session, table.location, str(tmp_path / "checkpoint"))
    table.upsert(orders((1, "a", 5.0, 5)))
    follower.catch_up()
    table.upsert(orders((1, "a", 3.0, 3), (2, "a", 2.0, 1)))
    follower.catch_up()
    assert follower.rows == [(1, 5.0), (2, 2.0)]


def test_tables_with_logs_are_followed(session: Any, tmp_path: Path) -> None:
    location = unpack("hudi-1.2.0/mor_avro", tmp_path / "table")
    table = hudi.open_table(location)
    commits = table.timeline.commits
    after, until = commits[0], commits[-1]
    follower = Follower(session, location, str(tmp_path / "checkpoint"), {"starting": after.completion_time})
    follower.columns = ("_hoodie_record_key", "_hoodie_commit_time", "qty", "price")
    found = follower.catch_up()
    expected = table.incremental(after=after, until=until).to_arrow().select(list(follower.columns)).to_pylist()
    assert Counter(found) == Counter(tuple(row.values()) for row in expected)
    assert len(found) > 50


def _expired(follower: Follower) -> str:
    query = follower.start()
    with pytest.raises(Exception, match="SnapshotExpiredError") as caught:
        query.awaitTermination(LIMIT_S)
    found = error_of(caught.value)
    assert isinstance(found, SnapshotExpiredError)
    assert found.hint
    return str(found)


def test_history_that_was_cleaned_or_archived_is_a_typed_error(session: Any, tmp_path: Path) -> None:
    cleaned = unpack("hudi-1.2.0/cow_hive_services", tmp_path / "cleaned")
    start = hudi.open_table(cleaned).timeline.commits[0].completion_time
    slowly = Follower(
        session,
        cleaned,
        str(tmp_path / "one"),
        {"starting": start, "max_commits_per_batch": 1},
        ("_hoodie_record_key",),
    )
    assert "cleaned" in _expired(slowly)
    archived = unpack("hudi-1.2.0/cow_archived", tmp_path / "archived")
    changes = Follower(session, archived, str(tmp_path / "two"), {"mode": "changes"}, ("op",))
    assert "archived" in _expired(changes)


def test_options_of_streams_are_checked(follower: Follower, table: hudi.HudiTable) -> None:
    from pyhudi_core.spark.source import PyhudiSource

    table.insert(orders((1, "a", 1.0, 1)))
    for options in (
        {"as_of": "20260101000000000"},
        {"mode": "snapshot"},
        {"after": "20260101000000000"},
        {"push_filters": "true"},
    ):
        source = PyhudiSource({"path": table.location, **options})
        with pytest.raises(RuntimeError, match="InvalidOptionError.*cannot be used for a stream"):
            source.streamReader(source.schema())
    assert _source(table, starting="LATEST").streamReader(_source(table).schema()).initialOffset() != _at("")
    assert _source(table, starting="Earliest").streamReader(_source(table).schema()).initialOffset() == _at("")
    follower.options = {"starting": "yesterday"}
    with (
        pytest.raises(InvalidOptionError, match="is not a time, and is neither earliest nor latest.*table /"),
        own_errors(),
    ):
        follower.start().awaitTermination(LIMIT_S)
    follower.options = {"starting": "2026-01-31 12:00:00"}
    with (
        pytest.raises(
            InvalidOptionError, match=r"no time zone, and .*'2026-01-31T12:00:00\+00:00' is UTC.*'20260131120000000'"
        ),
        own_errors(),
    ):
        follower.start().awaitTermination(LIMIT_S)
    follower.options = {"max_commits_per_batch": 0}
    with pytest.raises(InvalidOptionError, match="max_commits_per_batch='0'"), own_errors():
        follower.start()


def test_a_stream_keeps_the_columns_it_began_with(table: hudi.HudiTable) -> None:
    from pyhudi_core.spark.source import PyhudiSource

    source = PyhudiSource({"path": table.location})
    reader = source.streamReader(source.schema())
    table.insert(orders((1, "a", 1.0, 1)))
    wider = orders((2, "a", 2.0, 1)).append_column("colour", pa.array(["red"]))
    table.insert(wider)
    newer = PyhudiSource({"path": table.location})
    late = newer.streamReader(newer.schema())
    first, second = (i.completion_time or "" for i in table.timeline.commits)
    assert _read(reader, "", second) == [(1, None), (2, None)]
    assert _read(late, "", first) == [(1, None)]
    assert _read(late, first, second) == [(2, "red")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["incremental", "changes"])
def test_a_schema_that_was_given_must_have_the_columns_of_the_table(table: hudi.HudiTable, mode: str) -> None:
    table.insert(orders((1, "a", 1.0, 1)))
    source = _source(table, mode=mode)
    good = pa.schema([("price", pa.float64()), ("id", pa.int64())])
    bad = [("id", pa.string()), ("colour", pa.string()), ("ID", pa.int64())]
    if mode == "changes":
        good = pa.schema([("after", pa.struct([("id", pa.int64())])), ("op", pa.string())])
        bad = [("op", pa.int64()), ("colour", pa.string()), ("Op", pa.string())]
    assert source.streamReader(to_spark(good)).wanted.names == good.names
    for item in bad:
        with pytest.raises(RuntimeError, match="SchemaMismatchError.*the table has"):
            source.streamReader(to_spark(pa.schema([good.field(0), item])))
    with pytest.raises(RuntimeError, match="SchemaMismatchError.*Duplicate column"):
        source.streamReader(to_spark(pa.schema([*good, good.field(0)])))


def test_a_stream_may_begin_with_types_that_have_been_widened_since(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    table = make(str(tmp_path / "narrow"), schema)
    table.insert(pa.table([[1], pa.array([1], pa.int32())], schema=schema))
    loaded = _source(table)
    columns = loaded.schema()
    table.insert(pa.table({"id": [2], "n": pa.array([2], pa.int64())}))
    reader = loaded.streamReader(columns)
    newest = table.timeline.commits[-1].completion_time or ""
    found = [batch for part in reader.partitions(_at(""), _at(newest)) for batch in reader.read(part)]
    assert sorted(pa.Table.from_batches(found).column("n").to_pylist()) == [1, 2]


def test_rows_from_before_a_column_was_added_come_without_it(table: hudi.HudiTable) -> None:
    """Also if the stream has no other column: a row is a row."""
    table.insert(orders((1, "a", 1.0, 1), (2, "b", 2.0, 1)))
    table.insert(orders((3, "a", 3.0, 1)).append_column("colour", pa.array(["red"])))
    reader = _source(table).streamReader(to_spark(pa.schema([("colour", pa.string())])))
    first, second = (i.completion_time or "" for i in table.timeline.commits)
    for start, end, expected in (("", first, [None, None]), (first, second, ["red"])):
        batches = [batch for part in reader.partitions(_at(start), _at(end)) for batch in reader.read(part)]
        assert pa.Table.from_batches(batches, reader.wanted).column("colour").to_pylist() == expected


@pytest.mark.one_in(2, first=1)
@pytest.mark.parametrize("mode", ["incremental", "changes"])
def test_columns_that_are_named_may_be_newer_than_the_rows(table: hudi.HudiTable, mode: str) -> None:
    table.insert(orders((1, "a", 1.0, 1)))
    table.insert(orders((2, "a", 2.0, 1)).append_column("colour", pa.array(["red"])))
    for columns in ("id,colour", "colour"):
        source = _source(table, mode=mode, columns=columns)
        reader = source.streamReader(source.schema())
        first, second = (i.completion_time or "" for i in table.timeline.commits)
        for start, end, expected in (("", first, (1, None)), (first, second, (2, "red"))):
            batches = [batch for part in reader.partitions(_at(start), _at(end)) for batch in reader.read(part)]
            (row,) = pa.Table.from_batches(batches, reader.wanted).to_pylist()
            told = row["after"] if mode == "changes" else row
            assert list(told) == columns.split(",")
            assert tuple(told.values()) == expected[-len(told) :]


def _source(table: hudi.HudiTable, **options: str) -> Any:
    from pyhudi_core.spark.source import PyhudiSource

    return PyhudiSource({"path": table.location, **options})


def _at(completed: str) -> dict[str, str]:
    return {"completed": completed}


def _read(reader: Any, start: str, end: str) -> list[tuple[Any, ...]]:
    parts = reader.partitions({"completed": start}, {"completed": end})
    batches = [batch for part in parts for batch in reader.read(part)]
    assert all(batch.schema.equals(reader.wanted) for batch in batches)
    found = pa.Table.from_batches(batches).to_pylist()
    return sorted((row["id"], row.get("colour")) for row in found)


def test_an_offset_never_goes_back(table: hudi.HudiTable) -> None:
    from pyhudi_core.spark.source import PyhudiSource

    table.insert(orders((1, "a", 1.0, 1)))
    source = PyhudiSource({"path": table.location})
    reader = source.streamReader(source.schema())
    later = {"completed": "99991231000000000"}
    assert reader.latestOffset(later, streaming.ReadAllAvailable()) == later
    assert reader.partitions(later, later) == []
    reader.prepareForTriggerAvailableNow()
    table.insert(orders((2, "a", 2.0, 1)))
    first, second = ({"completed": i.completion_time, "commit": i.requested_time} for i in table.timeline.commits)
    assert reader.latestOffset(reader.initialOffset(), streaming.ReadAllAvailable()) == first
    assert reader.latestOffset(first, streaming.ReadAllAvailable()) == first
    assert reader.reportLatestOffset() == second


@pytest.mark.parametrize("mode", ["incremental", "changes"])
def test_the_checkpoint_of_another_table_is_refused_before_a_commit_is_skipped(
    table: hudi.HudiTable, tmp_path: Path, mode: str
) -> None:
    other = make(str(tmp_path / "other"))
    other.insert(orders((7, "a", 7.0, 1)))
    table.insert(orders((1, "a", 1.0, 1)))
    source = _source(table, mode=mode)
    end = source.streamReader(source.schema()).latestOffset(_at(""), streaming.ReadAllAvailable())
    other.insert(orders((8, "a", 8.0, 1)))
    reader = _source(other, mode=mode).streamReader(source.schema())
    for call in (
        lambda: reader.latestOffset(end, streaming.ReadAllAvailable()),
        lambda: reader.partitions(_at(""), end),
        lambda: reader.partitions(end, reader.reportLatestOffset()),
    ):
        with pytest.raises(RuntimeError, match="InvalidOptionError.*never had it.*belongs to another table"):
            call()
    assert reader.latestOffset(_at(end["completed"]), streaming.ReadAllAvailable())  # as earlier releases wrote it


def test_a_checkpoint_goes_on_after_its_commit_was_archived_or_undone(table: hudi.HudiTable) -> None:
    first = table.insert(orders((1, "a", 1.0, 1)))
    table.insert(orders((2, "a", 2.0, 1)))
    source = _source(table)
    undone = source.streamReader(source.schema()).latestOffset(_at(""), streaming.ReadAllAvailable())
    assert undone["commit"] != first.instant
    table.restore(first)
    table.insert(orders((3, "a", 3.0, 1)))
    reader = _source(table).streamReader(source.schema())
    archived = reader.reportLatestOffset()
    assert reader.latestOffset(undone, streaming.ReadAllAvailable()) == archived
    archive_all_but_the_newest(table, orders((4, "a", 4.0, 1)))
    again = _source(table).streamReader(source.schema())
    assert again.latestOffset(archived, streaming.ReadAllAvailable()) == again.reportLatestOffset()


def test_a_query_with_the_checkpoint_of_another_table_ends_with_the_error_of_this_package(
    follower: Follower, table: hudi.HudiTable, tmp_path: Path
) -> None:
    table.insert(orders((1, "a", 1.0, 1)))
    follower.catch_up()
    other = make(str(tmp_path / "other"))
    other.insert(orders((7, "a", 7.0, 1)))
    follower.location = other.location
    with pytest.raises(InvalidOptionError, match="never had it"), own_errors():
        follower.catch_up()
