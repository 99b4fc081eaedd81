"""Merge-on-read tables written by Spark's executors: the same log files and rows as in this process, for small batches and for distributed ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.spark_frames import frame
from support.tables import make, orders, rows

from pyhudi_core.errors import SchemaMismatchError
from pyhudi_core.formats.log.blocks import Header, decode_positions
from pyhudi_core.formats.log.reader import LogReader


@pytest.mark.row("C2", "D2")
def test_updates_and_deletes_of_dataframes_go_to_logs(spark: Any, location: str, way: str) -> None:
    table = make(location, table_type="merge_on_read", ordering="ts")
    first = table.upsert(frame(spark, orders(*((key, "ab"[key % 2], float(key), 10) for key in range(40)))))
    assert first.stats.rows_inserted == 40
    update = table.upsert(frame(spark, orders((1, "b", 100.0, 11), (2, "a", 200.0, 12), (3, "b", 300.0, 1))))
    assert (update.stats.rows_updated, update.stats.rows_inserted) == (3, 0)
    assert all(".log.1_" in stat.path for stat in update.stats.files)
    for stat in update.stats.files:
        with table._opened.storage.open_input(stat.path) as source:
            [block] = LogReader(source, stat.path).blocks()
        assert len(decode_positions(block.headers[Header.RECORD_POSITIONS])) == stat.rows
    gone = table.delete(frame(spark, pa.table({"id": [4, 99], "day": ["a", "a"]})))
    assert gone.stats.rows_deleted == 1
    table.upsert(frame(spark, orders((4, "a", 4.5, 3), (50, "c", 5.0, 1))))
    found = {row[0]: row[1] for row in rows(table, "id", "price")}
    assert (found[1], found[2], found[3], found[50]) == (100.0, 200.0, 3.0, 5.0)
    assert len(found) == 40
    assert 4 not in found
    by_spark = {row["id"]: row["price"] for row in table.scan().to_spark(spark).collect()}
    assert by_spark == found
    assert table.check().ok


@pytest.mark.row("N1")
def test_executors_compact_logs_and_every_row_stays_as_it_is(spark: Any, location: str) -> None:
    table = make(location, table_type="merge_on_read", ordering="ts")
    table.upsert(orders(*((key, "ab"[key % 2], float(key), 10) for key in range(40))))
    table.upsert(orders((1, "b", 100.0, 11), (2, "a", 200.0, 12), (3, "b", 300.0, 1)))
    table.delete(pa.table({"id": [4], "day": ["a"]}))
    before = table.scan().to_arrow().sort_by("id")
    done = table.compaction.run(spark=spark)
    assert (done.file_groups, done.log_files) == (2, 3)
    assert table.scan().to_arrow().sort_by("id").drop(["_hoodie_file_name"]) == before.drop(["_hoodie_file_name"])
    assert all(
        not stat.path.rpartition("/")[2].startswith(".") for stat in table.commit_metadata(done.instants[0]).stats
    )
    assert table.check().ok


@pytest.mark.row("J5")
@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
def test_partial_rows_of_dataframes_keep_what_they_lack(spark: Any, location: str, way: str, kind: str) -> None:
    table = make(location, table_type=kind, ordering="ts")
    table.upsert(frame(spark, orders(*((key, "ab"[key % 2], float(key), 10) for key in range(20)))))
    commit = table.upsert(frame(spark, orders((1, "b", 0.0, 11), (2, "a", 0.0, 12)).drop(["price"])), partial=True)
    assert commit.stats.rows_updated == 2
    assert rows(table, "id", "price", "ts")[:4] == [(0, 0.0, 10), (1, 1.0, 11), (2, 2.0, 12), (3, 3.0, 10)]
    with pytest.raises(SchemaMismatchError, match="does not have"):
        table.upsert(frame(spark, orders((99, "a", 0.0, 11)).drop(["price"])), partial=True)
