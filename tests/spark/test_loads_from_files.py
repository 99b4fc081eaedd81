"""Writes of DataFrames that are read from files: the rows stay in Spark until they are in the task that writes them.

The same batches through the ordinary way (`ordinary`) give the same tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disk import contents, data_files, files
from support.spark_frames import frame
from support.tables import ORDERS, make, orders, rows

from pyhudi_core.engine import spark as engine
from pyhudi_core.engine import spark_rows
from pyhudi_core.engine.base import KeyColumns, Slot
from pyhudi_core.errors import DataError, DuplicateKeyError, InvalidPartitionValueError, InvalidRecordKeyError
from pyhudi_core.formats.key_hash import hash_keys
from pyhudi_core.write import from_source

KEY = KeyColumns(("k",), "null", "empty", lambda batch: hash_keys(batch.column("k")))


@pytest.fixture(autouse=True)
def distributed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """No batch is small; the list gets the number of tasks of each write whose rows came straight from their source."""
    used: list[int] = []

    def noted(bring: Any) -> Any:
        def call(self: Any, values: Any, places: Any, key: Any, tasks: int) -> Any:
            used.append(tasks)
            return bring(self, values, places, key, tasks)

        return call

    monkeypatch.setattr(engine, "GATHER_BYTES", -1)
    for name in ("scattered", "placed"):
        monkeypatch.setattr(spark_rows.SparkSource, name, noted(getattr(spark_rows.SparkSource, name)))
    return used


def read(spark: Any, place: Path, table: pa.Table) -> Any:
    """The rows as a DataFrame of a Parquet file."""
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"in-{len(list(place.iterdir()))}.parquet"
    pq.write_table(table, path, row_group_size=50)
    return spark.read.parquet(str(path))


def test_every_write_that_looks_nothing_up_takes_its_rows_from_the_files(
    spark: Any, tmp_path: Path, distributed: list[int]
) -> None:
    given = tmp_path / "given"
    tables = []
    for name, make_frame in (
        ("ordinary", lambda batch: frame(spark, batch)),
        ("from files", lambda batch: read(spark, given, batch)),
    ):
        table = make(str(tmp_path / name), ordering="ts")
        table.bulk_insert(make_frame(orders(*((n, "ab"[n % 2], 1.0, 1) for n in range(40)))))
        table.insert(make_frame(orders(*((n, "c", 1.0, 1) for n in range(40, 60)))))
        table.upsert(make_frame(orders((1, "b", 2.0, 2), (2, "a", 2.0, 0), (99, "d", 2.0, 1), (99, "d", 3.0, 1))))
        table.delete(make_frame(orders((3, "b", 0.0), (4, "nowhere", 0.0), (500, "a", 0.0))))
        table.insert_overwrite(make_frame(orders((70, "c", 7.0, 1))))
        table.insert(make_frame(orders((71, "a", 7.0, 1))))  # keys are looked up
        tables.append(rows(table, "_hoodie_record_key", "_hoodie_partition_path", "price", "ts"))
        if name == "ordinary":
            assert distributed == []
    assert tables[0] == tables[1]
    assert distributed == [2, 1, 2, 2, 1]


BAD = {
    "null key": (orders((1, "a", 1.0), (None, "b", 2.0)), InvalidRecordKeyError, "'id'"),
    "bad partition": (orders((1, "a" * 300, 1.0)), InvalidPartitionValueError, "255"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", BAD)
def test_bad_rows_of_files_are_refused_before_anything_is_written(spark: Any, tmp_path: Path, case: str) -> None:
    batch, kind, words = BAD[case]
    location = str(tmp_path / "t")
    table = make(location)
    table.upsert(orders((7, "q", 7.0)))
    before = contents(location)
    with pytest.raises(kind, match=words):
        table.bulk_insert(read(spark, tmp_path / "given", batch))
    assert contents(location) == before
    assert not table.upsert(read(spark, tmp_path / "given", orders()))
    assert contents(location) == before


def test_duplicates_in_a_load_from_files_leave_no_file(spark: Any, tmp_path: Path, distributed: list[int]) -> None:
    """One task writes: Spark does not wait for the others when one fails, so a file of theirs may come after the rollback."""
    location = str(tmp_path / "t")
    table = make(location)
    twice = orders(*((n, "a", 1.0) for n in [*range(400), 0, 399]))
    for write in (table.bulk_insert, table.insert):
        with pytest.raises(DuplicateKeyError, match="repeat a record key"):
            write(read(spark, tmp_path / "given", twice))
    assert (data_files(location), files(f"{location}/.hoodie/.temp")) == ([], [])
    table.bulk_insert(read(spark, tmp_path / "given", orders((1, "a", 1.0))))
    with pytest.raises(DuplicateKeyError, match="1 rows of the batch have a record key that the table has"):
        table.insert(read(spark, tmp_path / "given", orders((1, "a", 2.0), (2, "b", 2.0))))
    assert rows(table, "id", "price") == [(1, 1.0)]
    assert len(distributed) == 3


def test_keys_of_several_columns_that_can_be_confused_are_counted_before_a_file_is_written(
    spark: Any, tmp_path: Path, distributed: list[int]
) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("v", pa.int64())])
    pairs = [("x,b:y", "z"), ("x", "y,b:z"), (None, "1"), ("__null__", "1"), ("", "2"), ("__empty__", "2")]
    batch = pa.table([*zip(*pairs, strict=True), range(6)], schema=schema)
    options = {"hoodie.parquet.max.file.size": 1024, "hoodie.copyonwrite.record.size.estimate": 1024}
    many = pa.concat_tables([batch, pa.table([[f"k{n}" for n in range(50)], ["q"] * 50, range(50)], schema=schema)])
    table = make(str(tmp_path / "t"), schema, record_key=["a", "b"], partition_by=(), options=options)
    for write in (table.bulk_insert, table.upsert):
        with pytest.raises(InvalidRecordKeyError, match="4 values"):
            write(read(spark, tmp_path / "given", many))
    assert (data_files(str(tmp_path / "t")), distributed) == ([], [])
    table.bulk_insert(read(spark, tmp_path / "plain", many.slice(6)))
    assert (len(rows(table, "a")), len(distributed)) == (50, 1)


def test_values_that_share_a_partition_path_go_to_the_same_files(
    spark: Any, tmp_path: Path, distributed: list[int]
) -> None:
    batch = pa.table({"id": ["1", "1", "2"], "p": ["", None, "x"], "q": [None, None, 5]})
    table = make(str(tmp_path / "t"), batch.schema, partition_by=["p", "q"])
    with pytest.raises(DuplicateKeyError):
        table.insert(read(spark, tmp_path / "given", batch))
    table.upsert(read(spark, tmp_path / "given", batch))
    assert len(rows(table, "id")) == 2
    assert len(data_files(str(tmp_path / "t"))) == 2
    assert len(distributed) == 2


def test_a_large_partition_becomes_files_of_the_target_size_in_several_tasks(
    spark: Any, tmp_path: Path, distributed: list[int]
) -> None:
    keys = np.arange(20_000)
    batch = pa.table({"id": keys, "day": np.where(keys < 19_000, "large", "small"), "price": keys / 7, "ts": keys})
    location = str(tmp_path / "t")
    options = {"hoodie.parquet.max.file.size": 100_000, "pyhudi.parquet.row.group.rows": 1000}
    table = make(location, ORDERS, options=options)
    table.bulk_insert(read(spark, tmp_path / "given", batch))
    found = [piece for piece in table.snapshot().view.all_slices() if piece.partition == "day=large"]
    assert len(found) >= 4
    tasks = {piece.base.name.write_token.split("-")[0] for piece in found if piece.base is not None}
    assert tasks == {"0", "1"}
    assert len(rows(table, "id")) == 20_000
    assert distributed == [2]


def test_each_large_new_file_group_has_a_task_of_its_own(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distributed: list[int]
) -> None:
    monkeypatch.setattr(from_source, "_ROWS_OF_A_TASK", 200)
    keys = np.arange(3000)
    days = np.where(keys < 2500, "large", np.where(keys < 2800, "small", None))
    batch = pa.table({"id": keys, "day": days, "price": keys / 7, "ts": keys})
    location = str(tmp_path / "t")
    table = make(location, ORDERS, options={"hoodie.parquet.max.file.size": 40_000})
    twice = pa.concat_tables([batch, batch.slice(2990, 1)])
    for write in (table.bulk_insert, table.insert):
        with pytest.raises(DuplicateKeyError, match="1 rows of the batch repeat a record key"):
            write(read(spark, tmp_path / "given", twice))
    assert rows(table, "id") == []
    table.bulk_insert(read(spark, tmp_path / "given", batch))
    found = [piece for piece in table.snapshot().view.all_slices() if piece.base is not None]
    assert len([piece for piece in found if piece.partition == "day=large"]) >= 2
    tokens = [piece.base.name.write_token.split("-")[0] for piece in found if piece.base is not None]
    assert sorted(tokens) == [str(number) for number in range(len(found))]
    assert rows(table, "id", "price") == [(int(key), key / 7) for key in keys]
    assert distributed == [len(found)] * 3


@pytest.mark.parametrize("few", [0, 64])
def test_rows_go_to_one_of_their_tasks_and_stay_as_they_are(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(spark_rows, "_FEW", few)  # more values are joined
    table = pa.table({"k": [f"k{n}" for n in range(200)], "p": [None if n % 4 == 3 else n % 4 for n in range(200)]})
    data = read(spark, tmp_path / "given", table)
    source = spark_rows.SparkDataset(data, spark_rows.arrow_schema(data)).source()
    assert source is not None
    values = pa.record_batch({"p": pa.array([0, 1, None, 2], pa.int64())})
    placed = source.placed(values, [[0, 2], [1], [3], [1]], KEY, 4)
    schema = pa.schema([*placed.schema, ("task", pa.int64())])

    def numbered(task: Any, batches: Any) -> Any:
        for each in batches:
            yield pa.RecordBatch.from_arrays([*each.columns, pa.repeat(task.number, len(each))], schema=schema)

    found = placed.map(numbered, schema).collect().to_pylist()
    tasks = {value: {row["task"] for row in found if row["p"] == value} for value in (0, 1, None, 2)}
    assert tasks == {0: {0, 2}, 1: {1}, None: {3}, 2: {1}}
    assert sorted(row["k"] for row in found) == sorted(table.column("k").to_pylist())


@pytest.mark.parametrize("width", [10, 5000])
def test_batches_of_narrow_rows_are_not_measured_row_by_row(spark: Any, tmp_path: Path, width: int) -> None:
    setting = "spark.sql.execution.arrow.maxBytesPerBatch"
    known = spark.conf.isModifiable(setting)
    before = spark.conf.get(setting) if known else None
    texts = [np.random.default_rng(n).bytes(width).hex() for n in range(300)]
    data = read(spark, tmp_path / "given", pa.table({"k": texts}))
    dataset = spark_rows.SparkDataset(data, spark_rows.arrow_schema(data))
    source = dataset.source()
    assert source is not None
    source.counts([], KEY)
    assert dataset.width.narrow == (width == 10)
    with dataset._set():
        unlimited = known and spark.conf.get(setting) == str(2**31 - 1)
    assert unlimited == (known and width == 10)
    assert (spark.conf.get(setting) if known else None) == before


def test_a_source_that_gets_another_partition_while_it_is_read_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as F

    counts = spark_rows.SparkSource.counts

    def of_some(self: Any, by: Any, key: Any) -> Any:
        return counts(spark_rows.SparkSource(self.frame.where(F.col("day") == "a"), self.schema), by, key)

    monkeypatch.setattr(spark_rows.SparkSource, "counts", of_some)
    location = str(tmp_path / "t")
    table = make(location)
    with pytest.raises(DataError, match="rows of a partition that it did not have"):
        table.bulk_insert(read(spark, tmp_path / "given", orders((1, "a", 1.0), (2, "b", 1.0))))
    assert (data_files(location), rows(table, "id")) == ([], [])


def test_what_is_expensive_or_random_is_not_read_twice(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    given = read(spark, tmp_path / "given", orders((1, "a", 1.0), (2, "b", 1.0)))
    cached = given.join(given.select("id"), "id").cache()
    alike = [
        given,
        given.where("id > 1"),
        given.withColumn("ts", F.lit(1)),
        given.union(given),
        given.repartition(3),
        cached,
    ]
    others = [
        given.withColumn("ts", F.rand()), given.groupBy("id").count(), given.join(given.select("id"), "id").distinct(),
        given.withColumn("ts", F.udf(lambda value: value)("id")), frame(spark, orders((1, "a", 1.0))),
        given.withColumn("ID2", F.lit(1)).select("*", F.col("id").alias("Id")),
    ]  # fmt: skip
    try:
        assert [spark_rows.reads_alike(each) for each in [*alike, *others]] == [True] * 6 + [False] * 6
    finally:
        cached.unpersist()


@pytest.mark.parametrize("few", [0, 64])
def test_rows_go_to_their_slots_sorted_and_are_counted(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(spark_rows, "_FEW", few)  # more values are joined
    numbers = list(range(200))
    table = pa.table({"k": [f"k{n}" for n in numbers], "p`q": [None if n % 4 == 3 else n % 4 for n in numbers]})
    data = read(spark, tmp_path / "given", table)
    source = spark_rows.SparkDataset(data, spark_rows.arrow_schema(data)).source()
    assert source is not None
    counts = source.counts(["p`q"], KEY)
    assert (sorted(counts.rows), counts.without_key) == ([50] * 4, 0)
    slots = {0: [Slot(0, 100, 3), Slot(1, 200)], 1: [Slot(2, 300)], 2: []}
    values = counts.values.column(0).to_pylist()
    known = [number for number, value in enumerate(values) if value is not None]
    places = [slots[values[number]] for number in known]
    found = source.scattered(counts.values.take(pa.array(known)), places, KEY, 3).collect().to_pylist()
    by_value = {value: {row["_pyhudi_sort"] for row in found if row["p`q"] == value} for value in (0, 1, 2, None)}
    assert by_value == {0: {100, 101, 102, 200}, 1: {300}, 2: set(), None: {-1}}
    assert [row["k"] for row in sorted(found, key=lambda row: row["_pyhudi_order"])] == [
        f"k{n}" for n in numbers if n % 4 != 2
    ]


def test_rows_of_files_whose_keys_are_looked_up_are_kept_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(str(tmp_path / "t"))
    for number in range(3):
        table.bulk_insert(orders(*((100 * number + n, "ab"[n % 2], 1.0, 1) for n in range(20))))
    kept: list[Any] = []
    persist = spark_rows.SparkDataset.persist
    monkeypatch.setattr(spark_rows.SparkDataset, "persist", lambda self: kept.append(self) or persist(self))
    changed = orders(*((100 * number + n, "ab"[n % 2], 2.0, 2) for number in range(4) for n in range(0, 20, 5)))
    commit = table.upsert(read(spark, tmp_path / "given", changed))
    assert (commit.stats.rows_updated, commit.stats.rows_inserted, len(kept)) == (12, 4, 1)
    found = rows(table, "id", "price")
    assert {key for key, price in found if price == 2.0} == set(changed.column("id").to_pylist())
    assert len(found) == 64
