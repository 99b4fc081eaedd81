"""``StreamSink`` in a Spark stream: each batch of files is one commit, also if the driver died before it noted the batch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.tables import FAST, make, orders, rows

from pyhudi_core.spark import StreamSink, last_batch


@pytest.mark.row("D8")
def test_a_stream_of_files_is_written_batch_by_batch_and_once(spark: Any, tmp_path: Path) -> None:
    table = make(str(tmp_path / "table"))
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    sink = StreamSink(table.location, "files", storage_options=FAST)

    def run() -> None:
        frames = spark.readStream.schema("id bigint, day string, price double, ts bigint").parquet(str(source))
        writer = frames.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        query = writer.foreachBatch(sink).start()
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
