"""``frame.write.format("pyhudi")`` and ``writeStream``: rows are staged by tasks and written by one commit; what cannot be done is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.golden import unpack
from support.spark_frames import frame
from support.tables import make, orders, rows

import pyhudi_core as hudi
from pyhudi_core.errors import (
    HudiError,
    InvalidOptionError,
    LimitExceededError,
    UnsupportedTableError,
)
from pyhudi_core.spark import last_batch, own_errors, register

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no data sources in Python")
from pyhudi_core.write.streams import IN_MEMORY


@pytest.fixture(autouse=True)
def registered(spark: Any) -> None:
    register(spark)


def staged(location: str) -> list[Path]:
    """Files that were left of writes."""
    return [path for path in Path(location, ".hoodie/.aux/.pyhudi/sink").rglob("*") if path.is_file()]


@pytest.mark.row("D8")
def test_a_dataframe_is_written_with_each_operation(spark: Any, location: str) -> None:
    table = make(location)

    def write(batch: Any, **options: str) -> None:
        with own_errors():
            frame(spark, batch).write.format("pyhudi").mode("append").options(**options).save(location)

    write(orders(*((key, "ab"[key % 2], float(key)) for key in range(20))))
    write(orders((1, "b", 100.0), (20, "a", 20.0)), operation="upsert")
    write(orders((21, "a", 21.0)), operation="insert")
    write(orders((2, "a")).select(["id", "day"]), **{"hoodie.datasource.write.operation": "delete"})
    found = dict(rows(table, "id", "price"))
    assert (len(found), found[1], found[20], found[21]) == (21, 100.0, 20.0, 21.0)
    assert [table.commit_metadata(i).operation for i in table.timeline.commits] == [
        "UPSERT",
        "UPSERT",
        "INSERT",
        "DELETE",
    ]
    before = len(table.timeline.commits)
    for refused, options, mode in (
        (HudiError, {"operation": "insert"}, "append"),  # the key is there
        (LimitExceededError, {"max_bytes_per_write": "10"}, "append"),
        (InvalidOptionError, {"as_of": "20260101000000000"}, "append"),
        (UnsupportedTableError, {}, "overwrite"),
    ):
        with pytest.raises(refused), own_errors():
            frame(spark, orders((1, "b", 0.0))).write.format("pyhudi").mode(mode).options(**options).save(location)
    assert len(table.timeline.commits) == before
    assert not staged(location)
    assert table.check().ok


@pytest.mark.row("D8")
def test_a_stream_is_written_batch_by_batch_and_once(spark: Any, tmp_path: Path) -> None:
    table = make(str(tmp_path / "table"))
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()

    def run() -> None:
        frames = spark.readStream.schema("id bigint, day string, price double, ts bigint").parquet(str(source))
        writer = (
            frames.writeStream.format("pyhudi").option("checkpointLocation", str(checkpoint)).option("stream", "files")
        )
        query = writer.trigger(availableNow=True).start(table.location)
        assert query.awaitTermination(120)
        assert query.exception() is None, query.exception()

    for number in (1, 2):
        pq.write_table(orders((number, "a", float(number))), source / f"{number}.parquet")
        run()
    shutil.rmtree(checkpoint / "commits")  # as if the driver had died before it noted the batches
    run()
    assert rows(table, "id", "price") == [(1, 1.0), (2, 2.0)]
    assert len(table.timeline.commits) == 2
    assert last_batch(table, "files") == 1
    assert not staged(table.location)


@pytest.mark.slow
@pytest.mark.row("D8")
def test_rows_beyond_the_memory_of_the_commit_go_through_files(spark: Any, location: str) -> None:
    """A part of `IN_MEMORY` more than that: one wide column, so that there are few rows."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.string()), ("text", pa.string())])
    table = make(location, schema)
    wide = spark.range(0, 40_000, numPartitions=5).selectExpr(
        "id", "string(id % 3) AS day", "concat(id, repeat('x', 2000)) AS text"
    )
    for frames, operation in (
        (wide, "insert"),
        (wide.where("id % 2 = 0").selectExpr("id", "day", "'y' AS text"), "upsert"),
    ):
        with own_errors():
            frames.write.format("pyhudi").mode("append").option("operation", operation).save(location)
    found = table.scan(columns=["id", "text"]).to_arrow().sort_by("id").to_pylist()
    assert 40_000 * 2_000 > IN_MEMORY
    assert found == [{"id": i, "text": f"{i}{'x' * 2000}" if i % 2 else "y"} for i in range(40_000)]
    assert not staged(location)
    assert table.check().ok


@pytest.mark.slow
@pytest.mark.row("Q2")
def test_a_table_that_is_only_read_is_refused_before_a_task_stages_rows(spark: Any, location: str) -> None:
    unpack("hudi-1.2.0/mor_v9", location)
    properties = Path(location, ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text().replace("table.format=native", "table.format=iceberg"))
    table = hudi.open_table(location)
    read = spark.read.format("pyhudi")
    found = read.load(location).select(*table.schema.names)
    assert sorted(map(tuple, found.select("id", "qty", "tag").collect())) == rows(table, "id", "qty", "tag")
    assert read.option("mode", "changes").load(location).count() == table.changes().to_arrow().num_rows
    with pytest.raises(UnsupportedTableError, match="plug-in of Hudi"), own_errors():
        found.write.format("pyhudi").mode("append").save(location)
    with pytest.raises(UnsupportedTableError, match="plug-in of Hudi"):
        table.upsert(found)
    assert not Path(location, ".hoodie/.aux/.pyhudi/sink").exists()
