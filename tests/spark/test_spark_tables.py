"""Tables through Spark: the same operations, rows and errors as on the local engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from support import all_types
from support.disk import contents, data_files, files
from support.spark_frames import frame, spark_rows
from support.tables import ORDERS, make, orders, rows

from pyhudi_core.engine import spark as engine
from pyhudi_core.engine.base import TASK, TaskInfo
from pyhudi_core.engine.spark_collect import collect_arrow
from pyhudi_core.errors import (
    ConfigError,
    DuplicateKeyError,
    InvalidPartitionValueError,
    InvalidRecordKeyError,
    SchemaMismatchError,
)
from pyhudi_core.runtime.system import SerialExecutor

BOTH_WAYS = pytest.mark.parametrize("way", ["gathered", "distributed"], indirect=True)


@BOTH_WAYS
@pytest.mark.row("C1", "D1", "D3")
def test_an_upsert_of_a_data_frame(spark: Any, location: str, way: str) -> None:
    table = make(location)
    first = table.upsert(frame(spark, orders((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))))
    second = table.upsert(frame(spark, orders((2, "a", 20.0), (4, "c", 4.0))))
    assert (first.stats.rows_inserted, second.stats.rows_inserted, second.stats.rows_updated) == (3, 1, 1)
    expected = [(1, "a", 1.0), (2, "a", 20.0), (3, "b", 3.0), (4, "c", 4.0)]
    assert rows(table, "id", "day", "price") == expected
    assert spark_rows(table.scan(), spark, "id", "day", "price") == expected


@BOTH_WAYS
@pytest.mark.row("C3")
def test_every_operation_runs_on_spark(spark: Any, location: str, way: str) -> None:
    table = make(location)
    table.bulk_insert(frame(spark, orders((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0))))
    table.insert(frame(spark, orders((4, "a", 4.0))))
    table.insert_overwrite(frame(spark, orders((5, "b", 5.0))))
    assert rows(table, "id") == [(1,), (3,), (4,), (5,)]
    table.delete(frame(spark, orders((1, "a", 1.0))).select("id", "day"))
    table.delete(where="price = 3", spark=spark)
    assert rows(table, "id") == [(4,), (5,)]
    table.insert_overwrite_table(frame(spark, orders((9, "z", 9.0))))
    assert rows(table, "id") == [(9,)]
    with table.begin("upsert") as write:
        write.write(frame(spark, orders((9, "z", 10.0), (10, "z", 1.0))))
        assert spark_rows(write.staged(), spark, "id", "price") == [(10, 1.0), (9, 10.0)]
        write.commit()
    assert rows(table, "id", "price") == [(9, 10.0), (10, 1.0)]
    assert [c.operation for c in map(table.commit_metadata, table.timeline.commits)] == [
        "BULK_INSERT", "INSERT", "INSERT_OVERWRITE", "DELETE", "DELETE", "INSERT_OVERWRITE_TABLE", "UPSERT",
    ]  # fmt: skip


@BOTH_WAYS
@pytest.mark.row("D1", "D3")
def test_every_type_of_spark_comes_back_as_it_went_in(spark: Any, location: str, way: str) -> None:
    given = all_types.rows(spark=True)
    table = make(location, given.schema, partition_by=())
    table.upsert(frame(spark, given, 1))
    names = given.schema.names
    expected = given.to_pylist()
    assert table.scan().to_arrow().select(names).sort_by("id").to_pylist() == expected
    back = collect_arrow(table.scan(columns=names).to_spark(spark), table.scan(columns=names).schema)
    assert back.sort_by("id").to_pylist() == expected
    table.upsert(frame(spark, given.slice(1, 2), 1))
    assert table.scan().to_arrow().select(names).sort_by("id").to_pylist() == expected


def test_batches_arrow_and_spark_agree_about_every_read(spark: Any, location: str) -> None:
    table = make(location)
    table.upsert(orders(*((n, "abc"[n % 3], n * 1.0, n) for n in range(30))))
    first = table.timeline[-1]
    table.upsert(orders(*((n, "abc"[n % 3], -1.0, n) for n in range(0, 30, 7))))
    table.upsert(orders((31, "a/b %", 1.0)).append_column("note", pa.array(["x"])))
    scans = [
        table.scan(), table.scan(columns=["price", "id"]), table.scan(where="price < 0 AND day <> 'a'"), table.scan(where="note IS NULL"),
        table.scan(as_of=first), table.incremental(after=first), table.incremental(after=first, where="id > 7", columns=["id"]),
        table.lookup(pa.table({"id": [3, 7, 99]})), table.scan(where="day = 'a/b %'"), table.scan(where="id > 1000"),
        table.scan(where=pa.compute.field("price") < 0),
    ]  # fmt: skip
    for scan in scans:
        arrow = rows(scan)
        assert rows(pa.Table.from_batches(scan.to_batches(), scan.schema)) == arrow
        found = scan.to_spark(spark)
        assert found.columns == scan.schema.names
        assert sorted((tuple(row) for row in found.collect()), key=str) == sorted(arrow, key=str)


@pytest.mark.row("D10")
def test_added_and_widened_columns_are_read_by_spark(spark: Any, location: str, way: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("p", pa.string())])
    table = make(location, schema, partition_by="p")
    table.upsert(frame(spark, pa.table([[1, 2], pa.array([1, None], pa.int32()), ["x", "y"]], schema=schema)))
    wider = pa.table({"id": [3], "v": pa.array([2**40]), "p": ["y"], "more": ["new"]})
    table.upsert(frame(spark, wider))
    expected = [(1, 1, "x", None), (2, None, "y", None), (3, 2**40, "y", "new")]
    assert rows(table, "id", "v", "p", "more") == expected
    assert spark_rows(table.scan(), spark, "id", "v", "p", "more") == expected
    assert spark_rows(table.scan(where="v = 1"), spark, "id") == [(1,)]


@pytest.mark.row("D10")
def test_columns_of_type_void_and_decimals_with_fewer_digits_take_the_types_of_the_table(
    spark: Any, location: str, way: str
) -> None:
    inner = pa.struct([("a", pa.int32()), ("b", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("net", pa.decimal128(10, 2)), ("tags", pa.list_(pa.string())), ("s", inner), ("note", pa.string())])  # fmt: skip
    table = make(location, schema, partition_by=())
    table.upsert(spark.sql("SELECT 1L id, 1.5 net, array() tags, named_struct('a', 1, 'b', NULL) s, NULL note"))
    table.upsert(spark.sql("SELECT 2L id, 12.25 net, array('x') tags, NULL s, 'n' note"))
    assert table.schema == schema
    assert rows(table, "id", "net", "tags", "s", "note") == [
        (1, Decimal("1.50"), [], {"a": 1, "b": None}, None),
        (2, Decimal("12.25"), ["x"], None, "n"),
    ]
    with pytest.raises(SchemaMismatchError, match="Column more holds only nulls"):
        table.upsert(spark.sql("SELECT 3L id, 1.0 net, NULL tags, NULL s, NULL note, NULL more"))


@pytest.mark.row("D10")
def test_floats_fit_into_integers_or_are_refused_on_spark_too(spark: Any, location: str, way: str) -> None:
    kind = pa.struct([("x", pa.int64())])
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", kind)])
    table = make(location, schema, partition_by=())
    table.upsert(pa.table([[1], [2**53 + 1], pa.array([{"x": 2**53 + 1}], kind)], schema=schema))
    floats = pa.table({"id": [2.0, 3.0], "n": [float("nan"), 5.0], "s": [{"x": 7.0}, None]})
    table.upsert(frame(spark, floats))
    expected = [(1, 2**53 + 1, {"x": 2**53 + 1}), (2, None, {"x": 7}), (3, 5, None)]
    assert rows(table, "id", "n", "s") == expected
    assert table.schema == schema
    before = contents(location)
    for bad in (
        floats.set_column(1, "n", pa.array([0.5, 1.0])),
        floats.set_column(2, "s", pa.array([None, {"x": 2.0**53}])),
    ):
        with pytest.raises(
            SchemaMismatchError,
            match=r"Column (n|s\.x) .*(0\.5|9007199254740992\.0).*pyhudi.schema.allow.lossy.widening",
        ):
            table.upsert(frame(spark, bad))
    assert contents(location) == before
    table.delete(frame(spark, floats.slice(0, 1).select(["id"])))
    assert rows(table, "id") == [(1,), (3,)]


@pytest.mark.row("J2")
def test_the_last_row_of_a_key_and_the_highest_ordering_value_win(spark: Any, location: str, way: str) -> None:
    by_commit, by_event = make(location + "/c"), make(location + "/e", ordering="ts")
    batch = orders((1, "a", 1.0, 5), (1, "a", 2.0, 7), (1, "a", 3.0, 6), (2, "a", 9.0, 1))
    by_commit.upsert(frame(spark, batch, 1).coalesce(1))
    by_event.upsert(frame(spark, batch))
    assert rows(by_event, "id", "price") == [(1, 2.0), (2, 9.0)]
    assert len(rows(by_commit, "id")) == 2
    by_event.upsert(frame(spark, orders((1, "a", 4.0, 6), (2, "a", 8.0, 2))))
    assert rows(by_event, "id", "price") == [(1, 2.0), (2, 8.0)]


@pytest.mark.row("A2", "A7", "J7")
def test_keys_and_partitions_are_made_as_on_the_local_engine(spark: Any, tmp_path: Any, way: str) -> None:
    batch = pa.table({"a": ["x", None], "b": [1, 2], "p": ["u/v", None], "q": [1, 2], "v": [1.5, None]})
    found = []
    for name, data in (("local", batch), ("spark", frame(spark, batch))):
        table = make(str(tmp_path / name), batch.schema, record_key=["a", "b"], partition_by=["p", "q"])
        table.upsert(data)
        found.append(rows(table, "_hoodie_record_key", "_hoodie_partition_path", "a", "b", "p", "q", "v"))
    assert found[0] == found[1]


BAD = {
    "null key": (orders((1, "a", 1.0), (None, "b", 2.0)), InvalidRecordKeyError, ["'id'", "null"]),
    "bad partition": (orders((1, "a" * 300, 1.0)), InvalidPartitionValueError, ["'day'", "255"]),
    "no column": (orders((1, "a", 1.0)).drop_columns(["price"]), SchemaMismatchError, ["'price'"]),
    "wrong type": (orders((1, "a", 1.0)).set_column(2, "price", pa.array(["x"])), SchemaMismatchError, ["price"]),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", BAD)
def test_bad_data_on_spark_is_the_same_error_and_the_disk_stays_as_it_was(
    spark: Any, location: str, way: str, case: str
) -> None:
    batch, kind, words = BAD[case]
    table = make(location)
    table.upsert(orders((7, "q", 7.0)))
    before = contents(location)
    with pytest.raises(kind) as caught:
        table.upsert(frame(spark, batch))
    assert type(caught.value) is kind
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert (caught.value.table, bool(caught.value.hint)) == (location, True)
    assert contents(location) == before


def test_nothing_to_change_on_spark_is_no_commit(spark: Any, location: str, way: str) -> None:
    table = make(location)
    table.upsert(orders((7, "q", 7.0)))
    before = contents(location)
    absent = frame(spark, pa.table({"id": [1, 2], "day": ["q", "x"]}))
    results = [
        table.upsert(frame(spark, orders())), table.insert_overwrite(frame(spark, orders())), table.delete(absent),
        table.delete(where="price > 100", spark=spark),
    ]  # fmt: skip
    assert [(bool(result), result.changed) for result in results] == [(False, False)] * 4
    assert [result.reason for result in results] == [
        "the batch has no rows", "the batch has no rows", "none of the 2 keys is in the table", "no row matches the condition",
    ]  # fmt: skip
    assert contents(location) == before


@pytest.mark.row("J6")
def test_rows_that_say_they_are_deleted_go_on_spark_too(spark: Any, location: str, way: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("_hoodie_is_deleted", pa.bool_())])
    table = make(location, schema, partition_by=())
    table.upsert(frame(spark, pa.table([[1, 2, 3], ["old"] * 3, [False, None, True]], schema=schema)))
    assert rows(table, "id") == [(1,), (2,)]
    commit = table.upsert(frame(spark, pa.table([[1, 2, 4], ["new"] * 3, [True, False, True]], schema=schema)))
    assert rows(table, "id", "v") == [(2, "new")]
    assert (commit.stats.rows_inserted, commit.stats.rows_updated, commit.stats.rows_deleted) == (0, 1, 1)


def test_duplicates_on_spark_leave_no_file(spark: Any, location: str, way: str) -> None:
    table = make(location)
    table.insert(frame(spark, orders((1, "a", 1.0), (2, "b", 2.0))))
    with pytest.raises(DuplicateKeyError, match="1 rows of the batch have a record key"):
        table.insert(frame(spark, orders((1, "a", 9.0), (3, "a", 3.0))))
    with pytest.raises(DuplicateKeyError, match="repeat a record key"):
        table.insert(frame(spark, orders((5, "a", 9.0), (5, "a", 3.0))))
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0)]
    assert len(data_files(location)) == 2
    assert files(f"{location}/.hoodie/.temp") == []


def test_a_batch_that_fails_in_a_task_leaves_the_table_as_it_was(spark: Any, location: str, way: str) -> None:
    from pyspark.sql import functions as F

    table = make(location)
    table.upsert(orders((1, "a", 1.0)))
    broken = frame(spark, orders((1, "a", 2.0), (2, "b", 2.0))).withColumn(
        "ts", F.expr("raise_error('broken source')").cast("long")
    )
    with pytest.raises(Exception, match="broken source"):
        table.upsert(broken)
    assert rows(table, "id", "price") == [(1, 1.0)]
    assert [i.is_completed for i in table.timeline] == [True]
    table.upsert(frame(spark, orders((1, "a", 3.0))))
    assert rows(table, "id", "price") == [(1, 3.0)]


def test_the_input_is_evaluated_once(spark: Any, location: str, way: str) -> None:
    from pyspark.sql import functions as F

    table = make(location)
    counter = spark.sparkContext.accumulator(0)

    def counted(key):  # type: ignore[no-untyped-def]  # PySpark guesses from hints
        counter.add(1)
        return float(key)

    price = F.udf(counted, "double")

    source = frame(spark, orders(*((n, "ab"[n % 2], None, n) for n in range(20)))).withColumn(
        "price", price.asNondeterministic()("id")
    )
    table.upsert(source)
    assert counter.value == 20
    assert rows(table, "id", "price") == [(n, float(n)) for n in range(20)]


@pytest.mark.row("U14")
def test_many_rows_and_groups_agree_with_the_local_engine(spark: Any, tmp_path: Any, way: str) -> None:
    import numpy as np

    options = {
        "hoodie.parquet.max.file.size": 64 << 10, "pyhudi.parquet.row.group.rows": 500,
        "hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 1000,
    }  # fmt: skip
    generator = np.random.default_rng(7)

    def batch(low: int, high: int) -> pa.Table:
        keys = np.arange(low, high)
        return pa.table(
            {"id": keys, "day": np.where(keys % 2 == 0, "x", "y"), "price": generator.random(len(keys)), "ts": keys}
        )

    load, change = batch(0, 8000), batch(6000, 9000)
    spark_table = make(str(tmp_path / "s"), ORDERS, options=options)
    local_table = make(str(tmp_path / "l"), ORDERS, options=options)
    for data in (load, change):
        local_table.upsert(data)
        path = str(tmp_path / "in.parquet")
        pa.parquet.write_table(data, path)
        commit = spark_table.upsert(spark.read.parquet(path))
    assert (commit.stats.rows_updated, commit.stats.rows_inserted) == (2000, 1000)
    assert rows(spark_table, "id", "day", "price", "ts") == rows(local_table, "id", "day", "price", "ts")
    assert len(spark_table.snapshot().view.all_slices()) > 4
    numbers = [number for (number,) in rows(spark_table, "_hoodie_commit_seqno")]
    assert len(set(numbers)) == 9000


@BOTH_WAYS
def test_a_write_with_nothing_to_change_gives_back_what_it_cached(spark: Any, location: str, way: str) -> None:
    """Also what it cached for the metadata table."""
    options = {"hoodie.metadata.enable": True, "hoodie.metadata.record.index.enable": True}
    table = make(location, ordering="ts", options=options)
    table.upsert(frame(spark, orders((1, "a", 1.0, 5), (2, "a", 2.0, 5))))
    before = set(spark.sparkContext._jsc.getPersistentRDDs())
    assert not table.upsert(frame(spark, orders((1, "a", 7.0, 1))))
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= before


def test_a_session_takes_no_arrow_stream(spark: Any, location: str) -> None:
    table = make(location)
    given = pa.RecordBatchReader.from_batches(ORDERS, orders((1, "a", 1.0)).to_batches())
    with pytest.raises(ConfigError, match="cannot be written on Spark"):
        table.upsert(given, spark=spark)


def test_a_part_of_a_small_batch_without_rows_takes_no_task_of_spark(spark: Any) -> None:
    def where(task: TaskInfo, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task's number, the process that it runs in, and how many rows it got."""
        got = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"task": [task.number], "process": [os.getpid()], "rows": [got]})

    schema = pa.schema([("task", pa.int64()), ("process", pa.int64()), ("rows", pa.int64())])
    given = pa.table({TASK: pa.array([2, 0, 2], pa.int32())})
    dataset = engine.SparkEngine(spark, SerialExecutor())._gathered(given)
    found = sorted(tuple(row.values()) for row in dataset.shuffle(TASK, 3).map(where, schema).collect().to_pylist())
    assert [(task, got) for task, _, got in found] == [(0, 1), (1, 0), (2, 2)]
    assert [process == os.getpid() for _, process, _ in found] == [False, True, False]
