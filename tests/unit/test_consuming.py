"""Consumers process what is new exactly once: their checkpoint is in the commits of the table that they write to."""

from __future__ import annotations

import threading
from dataclasses import replace

import pyarrow as pa
import pytest
from support.tables import archive_all_but_the_newest, make, reopen, rows

import pyhudi_core as hudi
from pyhudi_core.consuming import Batch, Checkpoint, Consumer
from pyhudi_core.errors import CommitRequirementError, InvalidOptionError, SnapshotExpiredError

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def data(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [one for one, _ in pairs], "v": [other for _, other in pairs]}, schema=SCHEMA)


@pytest.fixture
def consumer(location: str) -> Consumer:
    source = make(f"{location}/source", SCHEMA)
    return hudi.Consumer("copy", source, make(f"{location}/copy", SCHEMA))


def copied(batch: Batch) -> hudi.Commit:
    """Apply what the source did: its rows, and the keys that it deleted."""
    changes = batch.changes().to_arrow().to_pylist()
    left = {row["id"] for row in batch.rows().to_arrow().to_pylist()}
    gone = sorted({change["before"]["id"] for change in changes if change["op"] == "d"} - left)
    return batch.commit(batch.rows(), deletes=pa.table({"id": pa.array(gone, pa.int64())}) if gone else None)


def test_each_change_is_processed_once_deletes_included(consumer: Consumer) -> None:
    source, into = consumer.source, consumer.into
    assert consumer.next() is None, "the source has no commit yet"
    source.upsert(data((1, 1), (2, 2)))
    for step in ([], [data((3, 3))], [data((2, 20)), data((1, 10))]):
        for more in step:
            source.upsert(more)
        for batch in consumer:
            copied(batch)
        assert rows(into, "id", "v") == rows(source, "id", "v")
    source.delete(data((3, 0)))
    source.upsert(data((9, 9)))
    assert sum(1 for batch in consumer if copied(batch)) == 1
    assert rows(into, "id", "v") == rows(source, "id", "v") == [(1, 10), (2, 20), (9, 9)]
    assert consumer.next() is None


def test_a_consumer_that_died_goes_on_where_its_rows_end(consumer: Consumer) -> None:
    consumer.source.upsert(data((1, 1)))
    dead = consumer.next()
    assert dead is not None
    assert dead.rows().to_arrow().num_rows == 1  # read, and then it dies
    again = Consumer("copy", reopen(consumer.source), reopen(consumer.into))
    batch = again.next()
    assert batch is not None
    made = batch.commit(batch.rows(), extra_metadata={"run": "7"})
    assert made.extra_metadata["run"] == "7"
    assert again.checkpoint == Checkpoint(consumer.source.name, batch.until)
    with pytest.raises(InvalidOptionError, match="committed already"):
        batch.commit(None)


def test_two_processes_do_not_write_one_range_twice(consumer: Consumer) -> None:
    consumer.source.upsert(data((1, 1)))
    one, other = consumer.next(), consumer.next()
    assert one is not None
    assert other is not None
    one.commit(one.rows())
    with pytest.raises(CommitRequirementError, match="has moved it to"):
        other.commit(data((1, 100)))
    assert rows(consumer.into, "id", "v") == [(1, 1)]


def test_a_batch_that_another_process_has_committed_deletes_nothing(consumer: Consumer) -> None:
    """The other process has gone on to a commit that inserts the deleted key again."""
    source = consumer.source
    source.upsert(data((1, 1), (2, 2)))
    for batch in consumer:
        copied(batch)
    source.delete(data((1, 0)))
    slow = consumer.next()
    assert slow is not None
    faster = Consumer("copy", reopen(source), reopen(consumer.into))
    for batch in faster:
        copied(batch)
    source.upsert(data((1, 100)))
    for batch in faster:
        copied(batch)
    with pytest.raises(CommitRequirementError, match="has moved it to"):
        copied(slow)
    assert rows(reopen(consumer.into), "id", "v") == rows(source, "id", "v") == [(1, 100), (2, 2)]


def test_a_checkpoint_that_was_archived_meanwhile_is_seen(consumer: Consumer) -> None:
    consumer.source.upsert(data((1, 1)))
    slow = consumer.next()
    assert slow is not None
    faster = Consumer("copy", reopen(consumer.source), reopen(consumer.into)).next()
    assert faster is not None
    faster.commit(faster.rows())
    archive_all_but_the_newest(consumer.into, data((5, 0)))
    with pytest.raises(CommitRequirementError, match="has moved it to"):
        slow.commit(data((1, 100)))
    assert rows(reopen(consumer.into), "id", "v") == [(1, 1), (5, 0)]


def test_a_source_that_was_restored_behind_the_checkpoint_is_processed_again(consumer: Consumer) -> None:
    source = consumer.source
    kept = source.upsert(data((1, 1)))
    source.upsert(data((7, 7)))
    for batch in consumer:
        copied(batch)
    source.restore(kept.instant)
    for late in (None, data((8, 8))):
        if late is not None:
            source.upsert(late)
        with pytest.raises(
            SnapshotExpiredError, match="'copy' has processed commits that a restore has undone"
        ) as caught:
            consumer.next()
        assert "consumer.rebuild()" in (caught.value.hint or "")
    whole = consumer.rebuild()
    whole.commit(whole.rows(), operation="insert_overwrite_table")
    assert rows(consumer.into, "id", "v") == rows(source, "id", "v") == [(1, 1), (8, 8)]
    assert consumer.next() is None
    source.upsert(data((9, 9)))
    assert sum(1 for batch in consumer if copied(batch)) == 1
    assert rows(consumer.into, "id", "v") == rows(source, "id", "v")


def test_a_restore_of_what_was_not_processed_yet_changes_nothing_for_a_consumer(consumer: Consumer) -> None:
    source = consumer.source
    kept = source.upsert(data((1, 1)))
    for batch in consumer:
        copied(batch)
    source.upsert(data((7, 7)))
    source.restore(kept.instant)
    assert consumer.next() is None
    source.upsert(data((8, 8)))
    for batch in consumer:
        copied(batch)
    assert rows(consumer.into, "id", "v") == rows(source, "id", "v") == [(1, 1), (8, 8)]


def test_batches_have_as_many_commits_as_asked_for(location: str) -> None:
    source, into = make(f"{location}/source", SCHEMA), make(f"{location}/into", SCHEMA)
    source.upsert(data((0, 0)))
    start = source.timeline.commits[-1].completion_time
    consumer = Consumer("late", source, into, start=start, most_commits=2)
    assert consumer.next() is None
    for number in range(1, 6):
        source.upsert(data((number, number)))
    sizes = []
    for batch in consumer:
        sizes.append(batch.rows().count())
        batch.commit(batch.rows())
    assert sizes == [2, 2, 1]
    assert rows(into, "id") == [(number,) for number in range(1, 6)]


def test_commits_that_are_gone_have_a_way_out(consumer: Consumer) -> None:
    source = reopen(consumer.source, hoodie__clean__commits__retained=1)
    source.upsert(data((1, 1)))
    for batch in consumer:
        copied(batch)
    for number in range(2, 6):
        source.upsert(data((1, number), (number, number)))
    source.cleaning.run()
    batch = consumer.next()
    assert batch is not None
    with pytest.raises(SnapshotExpiredError, match="'copy' has not processed yet is gone") as caught:
        batch.changes().to_arrow()
    assert "consumer.rebuild()" in (caught.value.hint or "")
    whole = consumer.rebuild()
    whole.commit(whole.rows(), operation="insert_overwrite_table")
    assert rows(consumer.into, "id", "v") == rows(source, "id", "v")
    assert consumer.next() is None


@pytest.mark.timeout(60)
def test_a_wait_ends_with_what_is_new_or_when_its_time_is_over(consumer: Consumer) -> None:
    assert consumer.wait(timeout=0, every=0.01) is None
    assert consumer.wait(timeout=0.05, every=0.01) is None
    later = threading.Timer(0.05, lambda: consumer.source.upsert(data((1, 1))))
    later.start()
    found = consumer.wait(timeout=30, every=0.01)
    later.join()
    assert found is not None
    assert rows(found.rows(), "id") == [(1,)]


def test_a_batch_has_to_be_committed_before_the_next(consumer: Consumer) -> None:
    consumer.source.upsert(data((1, 1)))
    with pytest.raises(InvalidOptionError, match="was not committed"):
        for _ in consumer:
            pass
    other = Consumer("copy", make(f"{consumer.source.location}-2", SCHEMA, name="other"), consumer.into)
    for batch in consumer:
        batch.commit(None)
    with pytest.raises(InvalidOptionError, match="has processed the table"):
        _ = other.checkpoint
    for wrong in ({"name": " "}, {"name": "x", "most_commits": 0}):
        with pytest.raises(InvalidOptionError):
            Consumer(**{"source": consumer.source, "into": consumer.into, **wrong})


def test_a_history_of_less_than_no_commits_is_refused(consumer: Consumer) -> None:
    with pytest.raises(InvalidOptionError, match="less than 0"):
        consumer.source.history(-1)


def test_the_history_has_a_row_for_each_commit(consumer: Consumer) -> None:
    table = consumer.source
    first = table.upsert(data((1, 1), (2, 2)), extra_metadata={"run": "7"})
    table.delete(data((1, 1)))
    found = table.history().to_pylist()
    assert [(row["operation"], row["rows_inserted"], row["rows_deleted"]) for row in found] == [
        ("DELETE", 0, 1),
        ("UPSERT", 2, 0),
    ]
    assert found[1]["instant"] == first.instant
    assert dict(found[1]["extra_metadata"])["run"] == first.extra_metadata["run"] == "7"
    assert {row["writer"] for row in found} == {"pyhudi"}
    assert table.history(limit=1).num_rows == 1


def test_another_table_of_the_same_name_is_refused(consumer: Consumer, location: str) -> None:
    consumer.source.upsert(data((1, 1)))
    for batch in consumer:
        batch.commit(batch.rows())
    other = make(f"{location}-elsewhere", SCHEMA, name=consumer.source.name)
    other.upsert(data((2, 2)))
    with pytest.raises(InvalidOptionError, match="which this table does not have"):
        replace(consumer, source=other).next()
    with pytest.raises(InvalidOptionError, match="same table"):
        replace(consumer, into=consumer.source)
    with pytest.raises(InvalidOptionError, match="is a table, not str"):
        replace(consumer, into=location)


def test_further_tables_change_in_the_step_of_the_checkpoint_or_not_at_all(consumer: Consumer, location: str) -> None:
    consumer.source.upsert(data((1, 1), (2, 2)))
    totals = make(f"{location}/totals", SCHEMA)
    batch, again = consumer.next(), consumer.next()
    assert batch is not None
    assert again is not None
    rows = batch.rows().to_arrow()
    made = batch.commit(rows, beside=[(totals, data((0, len(rows))))])
    assert totals.timeline.commits[-1].completion_time == made.completion_time
    assert totals.to_arrow(["v"]).to_pylist() == [{"v": 2}]
    with pytest.raises(CommitRequirementError):
        again.commit(rows, beside=[(totals, data((5, 1)))])
    assert totals.count() == 1
    assert not totals.timeline.pending.instants
    assert consumer.next() is None


@pytest.mark.parametrize("operation", ["upsert", "insert", "insert_overwrite_table"])
@pytest.mark.parametrize("shares", [False, True])
def test_a_batch_that_a_validator_refuses_stays_the_next_one(consumer: Consumer, operation: str, shares: bool) -> None:
    options = {"pyhudi.commit.batch": shares}
    consumer = Consumer(consumer.name, consumer.source, hudi.open_table(consumer.into.location, options=options))
    consumer.source.upsert(data((1, 1), (2, 2)))
    seen = consumer.checkpoint
    batch = consumer.next()
    assert batch is not None
    copies = batch.rows().to_arrow().select(consumer.into.schema.names)
    with pytest.raises(hudi.errors.PreCommitError, match="row_count"):
        batch.commit(copies, operation, pre_commit=[hudi.row_count(at_least=1_000)])
    assert (consumer.checkpoint, consumer.into.count()) == (seen, 0)
    again = consumer.next()
    assert again is not None and again.until == batch.until
    again.commit(copies, operation, pre_commit=[hudi.row_count(at_least=1)])
    assert consumer.into.count() == len(copies)
    assert consumer.next() is None
