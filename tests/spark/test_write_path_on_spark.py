"""The write path on Spark: tags, payloads of tasks, and what tasks return, for small batches and for distributed ones."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from support import global_index
from support.global_index import GlobalIndex, job, written_by
from support.metadata_tables import assert_metadata_is_true, build
from support.spark_frames import frame
from support.tables import make, orders, reopen, rows

from pyhudi_core.engine import TaskInfo
from pyhudi_core.engine import spark as engine
from pyhudi_core.engine.spark_rows import pickled
from pyhudi_core.index.bucket import Hashing
from pyhudi_core.metadata_table import names
from pyhudi_core.model.operation import OperationType
from pyhudi_core.runtime.system import SerialExecutor

META = ("_hoodie_record_key", "_hoodie_partition_path")


def test_tasks_get_their_own_payloads_and_counts_are_those_of_the_local_engine(spark: Any, way: str) -> None:
    given = pa.table({"task": pa.array([2, 0, 1, 2], pa.int32()), "sort": [1, 1, 1, 1], "text": ["a", "b", None, "a"]})

    def add(task: TaskInfo, batches: Any) -> Any:
        for batch in batches:
            yield batch.append_column("payload", pa.array([task.payload["own"]] * len(batch), pa.string()))

    data = engine.SparkEngine(spark, SerialExecutor()).dataset(
        spark.createDataFrame([tuple(row.values()) for row in given.to_pylist()], "task int, sort bigint, text string")
    )
    assert data.count_by("text") == {(None,): 1, ("a",): 2, ("b",): 1}
    assert list(data.count_by("text", "text")) == [(None, None), ("a", "a"), ("b", "b")]
    schema = pa.schema([*data.schema, ("payload", pa.string())])
    shuffled = data.shuffle("task", 3, "sort")
    moved = shuffled.map(add, schema, [{"own": f"of task {number}"} for number in range(3)])
    found = moved.collect().to_pylist()
    assert sorted((row["task"], row["payload"]) for row in found) == [
        (0, "of task 0"), (1, "of task 1"), (2, "of task 2"), (2, "of task 2"),
    ]  # fmt: skip
    moved.release()
    moved.release()


def test_a_payload_that_all_tasks_have_is_sent_once() -> None:
    of_all = tuple(f"day=2026-01-01/file-{number}" for number in range(10_000))
    made = pickled([of_all] * 64)
    assert len(pickle.dumps(made)) < 1.1 * len(made[0])
    assert [pickle.loads(one) for one in (made[0], made[-1])] == [of_all, of_all]


def test_a_global_index_sends_rows_to_other_partitions(
    spark: Any, location: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(location)
    for row in ((1, "a", 1.0, 1), (2, "a", 2.0, 1), (3, "b", 3.0, 1)):
        table.bulk_insert(orders(row))
    # Spark's workers do not have the folder of the tests on their path.
    cloudpickle.register_pickle_by_value(global_index)
    GlobalIndex.of(table).use(monkeypatch)
    commit = table.upsert(frame(spark, orders((1, "b", 9.0, 2), (3, "c", 8.0, 2), (4, "c", 7.0, 2))))
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (2, 1)
    table.delete(frame(spark, pa.table({"id": [2], "day": ["z"]})))
    assert rows(table, *META, "price") == [("1", "day=a", 9.0), ("3", "day=b", 8.0), ("4", "day=c", 7.0)]


def test_tasks_return_ranges_and_changes_of_keys(spark: Any, location: str, way: str) -> None:
    table = make(location)
    table.insert(orders((1, "a", 1.0, 1), (2, "a", 2.0, 1), (3, "b", 3.0, 1)))
    batch = frame(spark, orders((1, "a", 9.0, 5), (4, "a", 4.0, 5), (5, "c", 5.0, 6)))
    with job(table, OperationType.UPSERT, batch, key_changes=True) as write:
        written = written_by(write)
        assert written.key_changes is not None
        changes = written.key_changes.collect().to_pylist()
        files = [pq.read_table(Path(location, stat.path), partitioning=None) for stat in written.stats]
        written.release()
    assert sorted((row["key"], row["partition"], row["deleted"]) for row in changes) == [
        ("4", "day=a", False), ("5", "day=c", False),
    ]  # fmt: skip
    ranges = {row["path"]: row["price"] for row in written.ranges.to_pylist()}
    assert set(ranges) == {stat.path for stat in written.stats}
    for stat, file in zip(written.stats, files, strict=True):
        prices = file.column("price").to_pylist()
        assert ranges[stat.path] == {"min": min(prices), "max": max(prices), "nulls": 0}


def test_keys_of_many_groups_and_partitions_are_found_and_counted_once(spark: Any, location: str, way: str) -> None:
    table = make(location)
    for number in range(3):
        table.bulk_insert(orders(*((100 * number + n, "abcd"[n % 4], 1.0, 1) for n in range(20))))
    changed = orders(*((100 * number + n, "abcd"[n % 4], 2.0, 2) for number in range(4) for n in range(0, 20, 5)))
    commit = table.upsert(frame(spark, changed))
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (12, 4)
    found = rows(table, "id", "price")
    assert len(found) == 64
    assert {key for key, price in found if price == 2.0} == set(changed.column("id").to_pylist())


@pytest.mark.one_in(2)
@pytest.mark.row("I5", "I7", "I11")
@pytest.mark.parametrize("index", ["RECORD_INDEX", "BLOOM"])
def test_keys_are_found_by_the_record_index_and_by_bloom_filters(
    spark: Any, location: str, way: str, index: str
) -> None:
    table = make(location)
    for first in (0, 20):
        table.bulk_insert(orders(*((n, "ab"[n % 2], 1.0, 1) for n in range(first, first + 20))))
    build(table, names.FILES, names.RECORD_INDEX)
    table.indexes.create("by_ts", ["ts"], spark=spark)
    table = reopen(table, hoodie__index__type=index)
    moved = frame(spark, orders((1, "b", 9.0, 2), (30, "a", 9.0, 2), (99, "a", 9.0, 2)))
    commit = table.upsert(moved)
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (2, 1)
    assert commit.stats.index == f"{index}: named by hoodie.index.type"
    changed = [row for row in rows(table, *META, "price") if row[2] == 9.0]
    assert changed == [("1", "day=b", 9.0), ("30", "day=a", 9.0), ("99", "day=a", 9.0)]
    assert_metadata_is_true(table)


@pytest.mark.row("I12")
def test_rows_come_to_the_buckets_of_their_keys(spark: Any, location: str, way: str) -> None:
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 3}
    table = make(location, options=buckets, table_type="MERGE_ON_READ")
    batch = orders(*((n, "ab"[n % 2], 1.0, 1) for n in range(12)))
    table.upsert(frame(spark, batch))
    table.upsert(frame(spark, orders((0, "a", 2.0, 2), (50, "a", 2.0, 2))))
    assert len(rows(table)) == 13
    found = table.scan(columns=["_hoodie_record_key", "_hoodie_file_name"]).to_arrow()
    numbers = Hashing(3, ("id",), ("id",)).of(found.column(0).combine_chunks())
    assert [int(name[:8]) for name in found.column(1).to_pylist()] == numbers.tolist()
