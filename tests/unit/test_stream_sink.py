"""The sink for `foreachBatch`: each batch of a stream once, whatever is repeated. (Spark's own part is in tests/spark.)"""

from __future__ import annotations

import pytest
from support.tables import FAST, archive_all_but_the_newest, make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import CommitRequirementError, DuplicateKeyError, InvalidOptionError
from pyhudi_core.spark import StreamSink, last_batch
from pyhudi_core.spark.batches import StreamBatch
from pyhudi_core.spark.sink import BatchIsNew


@pytest.mark.row("D8")
def test_a_repeated_batch_is_written_once(location: str) -> None:
    table = make(location)
    sink = StreamSink(location, "orders", storage_options=FAST)
    assert last_batch(table, "orders") is None
    first = sink.write(orders((1, "a", 1.0)), 0)
    assert first is not None
    assert sink.write(orders((1, "a", 9.0)), 0) is None
    assert sink.write(orders((2, "a", 2.0)), 1)
    assert sink.write(orders((1, "a", 9.0)), 0) is None
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0)]
    assert last_batch(table, "orders") == 1
    assert len(table.timeline.commits) == 2


def test_streams_of_other_names_have_batches_of_their_own(location: str) -> None:
    make(location)
    assert StreamSink(location, "orders", storage_options=FAST).write(orders((1,)), 3)
    other = StreamSink(location, "order", storage_options=FAST)
    assert last_batch(hudi.open_table(location), "order") is None
    assert other.write(orders((2,)), 0)
    assert last_batch(hudi.open_table(location), "orders") == 3


def test_commits_of_others_between_batches_are_passed_over(location: str) -> None:
    table = make(location)
    sink = StreamSink(location, "orders", storage_options=FAST)
    sink.write(orders((1, "a", 1.0)), 0)
    table.upsert(orders((5, "b", 5.0)))
    assert sink.write(orders((1, "a", 9.0)), 0) is None
    assert sink.write(orders((2, "a", 2.0)), 1)


@pytest.mark.row("D8")
def test_two_drivers_with_one_checkpoint_write_a_batch_once(location: str) -> None:
    """The other driver commits the batch while this one evaluates it: the requirement at the commit finds it."""
    make(location)
    sink = StreamSink(location, "orders", "insert", storage_options=FAST)
    beside: list[hudi.Commit | None] = []

    class Slow:
        """Rows whose evaluation takes so long that the other driver is faster."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            if not beside:
                beside.append(sink.write(orders((1, "b", 1.0)), 0))
            return orders((1, "a", 9.0)).__arrow_c_stream__(requested_schema)

    assert sink.write(Slow(), 0) is None
    assert beside[0]
    found = hudi.open_table(location)
    assert rows(found, "id", "day", "price") == [(1, "b", 1.0)]
    assert not found.timeline.pending


def test_a_batch_that_was_archived_meanwhile_is_in_the_table(location: str) -> None:
    table = make(location)
    assert StreamSink(location, "orders", storage_options=FAST).write(orders((1, "b", 1.0)), 0)
    archive_all_but_the_newest(table, orders((2, "b", 2.0)))
    with table.begin("upsert", requirements=[BatchIsNew(StreamBatch("orders", 0), "")]) as write:
        write.write(orders((1, "b", 9.0)))
        with pytest.raises(CommitRequirementError, match="has batch 0"):
            write.commit()


def test_a_batch_that_changes_nothing_makes_no_commit(location: str) -> None:
    table = make(location)
    commit = StreamSink(location, "orders", storage_options=FAST).write(orders(), 0)
    assert commit is not None
    assert not commit
    assert not table.timeline.commits


def test_errors_of_the_rows_are_raised_and_nothing_is_noted(location: str) -> None:
    table = make(location)
    table.insert(orders((1,)))
    sink = StreamSink(location, "orders", "insert", storage_options=FAST)
    with pytest.raises(DuplicateKeyError):
        sink.write(orders((1,)), 0)
    assert last_batch(table, "orders") is None


@pytest.mark.parametrize(
    ("stream", "operation"), [("", "upsert"), (" ", "upsert"), ("a", "insert_overwrite"), ("a", "merge")]
)
def test_a_sink_without_a_name_or_with_another_operation_is_refused(stream: str, operation: str) -> None:
    with pytest.raises(InvalidOptionError):
        StreamSink("/nowhere", stream, operation)


def test_two_names_of_one_query_go_on_beside_each_other(location: str) -> None:
    """Changes of a source are often written by two sinks in one function: upserts under one name, deletes under the other."""
    table = make(location)
    upserts = StreamSink(location, "orders", storage_options=FAST)
    deletes = StreamSink(location, "orders_deleted", "delete", storage_options=FAST)
    gone = orders((1,)).select(["id", "day"])
    for number in range(3):
        upserts.write(orders((number, "a", 1.0)), number, "query-a", 1_000 * number)
        deletes.write(gone if number == 2 else gone.slice(1), number, "query-a", 1_000 * number)
    assert rows(table, "id") == [(0,), (2,)]
    with pytest.raises(InvalidOptionError, match="as the stream 'orders"):
        StreamSink(location, "third", storage_options=FAST).write(orders((7,)), 3, "query-a", 3_000)


def test_the_slower_of_two_queries_under_one_name_is_refused_at_its_commit(location: str) -> None:
    make(location)
    sink = StreamSink(location, "orders", storage_options=FAST)

    class Slow:
        """Rows whose evaluation takes so long that the other query is faster."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            sink.write(orders((1, "a", 1.0)), 0, "query-b", 2_000)
            return orders((2, "a", 2.0)).__arrow_c_stream__(requested_schema)

    with pytest.raises(InvalidOptionError, match="query-b.*batch 0 comes from the query query-a"):
        sink.write(Slow(), 0, "query-a", 1_000)
    found = hudi.open_table(location)
    assert rows(found, "id") == [(1,)]
    assert not found.timeline.pending


def test_a_restore_of_the_table_does_not_lose_the_batches_that_it_undid(location: str) -> None:
    table = make(location)
    sink = StreamSink(location, "orders", storage_options=FAST)
    commits = [sink.write(orders((number,)), number, "query-a", 1_000 * number) for number in range(3)]
    table.restore(commits[0])
    with pytest.raises(InvalidOptionError, match="may have undone the batches") as refused:
        sink.write(orders((3,)), 3, "query-a", 3_000)
    assert 'replaces="query-a"' in str(refused.value)
    assert sink.write(orders((1,)), 1, "query-a", 1_000)  # a checkpoint of the same time
    assert rows(table, "id") == [(0,), (1,)]


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "delete"])
def test_batches_of_a_checkpoint_that_went_back_leave_each_row_once(location: str, operation: str) -> None:
    table = make(location)
    sink = StreamSink(location, "orders", operation, storage_options=FAST)
    if operation == "delete":
        table.insert(orders((0,), (1,), (2,), (3,)))
    for number in range(3):
        sink.write(orders((number,)), number, "query-a", 1_000 * number)
    sink.write(orders((0,)), 0, "query-a", 0)  # repeated
    sink.write(orders((1,), (2,), (3,)), 1, "query-a", 9_000)  # planned anew, with a row that the table does not have
    assert rows(table, "id") == ([] if operation == "delete" else [(0,), (1,), (2,), (3,)])
    assert last_batch(table, "orders") == 1


def test_a_table_without_keys_refuses_batches_that_it_would_have_twice(location: str) -> None:
    table = make(location, record_key=())
    sink = StreamSink(location, "orders", "insert", storage_options=FAST)
    for number in range(2):
        sink.write(orders((number,)), number, "query-a", 1_000 * number)
    assert sink.write(orders((0,)), 0, "query-a", 0) is None
    with pytest.raises(InvalidOptionError, match="no record keys"):
        sink.write(orders((0,), (1,)), 0, "query-a", 9_000)
    again = StreamSink(location, "orders", "insert", storage_options=FAST, replaces="query-a")
    assert again.write(orders((0,), (1,)), 0, "query-a", 9_000)
    assert rows(table, "id") == [(0,), (0,), (1,), (1,)]
