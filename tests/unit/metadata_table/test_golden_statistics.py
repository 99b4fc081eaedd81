"""Statistics that Hudi's metadata table holds: each value against the base file, or the partition, that it is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.golden import unpack

import pyhudi_core as hudi
from pyhudi_core.metadata_table.reader import ColumnRangeOfFile, MetadataTable
from pyhudi_core.metadata_table.statistics import typed_stats

TABLES = ["hudi-1.0.2/cow_indexed", "hudi-1.2.0/cow_indexed", "hudi-1.0.2/cow_plain"]
COLUMNS = ["id", "ts", "_hoodie_record_key", "_hoodie_commit_time"]


@pytest.fixture(scope="module", params=TABLES)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[hudi.HudiTable, MetadataTable]:
    table = hudi.open_table(unpack(request.param, tmp_path_factory.mktemp("statistics") / "table"))
    metadata = table.snapshot().metadata
    assert metadata is not None
    return table, metadata


def _of_file(column: pa.ChunkedArray) -> tuple[Any, Any, int, int]:
    bounds = pc.min_max(column).as_py()
    return bounds["min"], bounds["max"], column.null_count, len(column)


def _told(item: ColumnRangeOfFile, kind: pa.DataType) -> tuple[Any, Any, int | None, int]:
    stats = typed_stats(item, kind, item.rows)
    assert stats is not None, item
    return stats.min, stats.max, item.nulls, item.rows


def _files(table: hudi.HudiTable, metadata: MetadataTable) -> Iterator[tuple[str, str, pa.Table]]:
    for partition in metadata.data_partitions():
        for path in sorted(Path(table.location, partition).glob("*.parquet")):
            yield partition, path.name, pq.read_table(path, partitioning=None)


@pytest.mark.row("I2")
def test_each_file_has_its_own_least_and_greatest_value_nulls_and_rows(
    opened: tuple[hudi.HudiTable, MetadataTable],
) -> None:
    table, metadata = opened
    known = {
        (one.partition, one.file, one.column): one for one in metadata.column_stats(COLUMNS, metadata.data_partitions())
    }
    checked = 0
    for partition, name, rows in _files(table, metadata):
        for column in set(COLUMNS) & set(rows.schema.names):
            item = known.pop((partition, name, column), None)
            if item is not None:
                assert _told(item, rows.schema.field(column).type) == _of_file(rows.column(column)), (name, column)
                checked += 1
    assert not known, "statistics of files that are not there"
    assert checked > 8


@pytest.mark.row("I3")
def test_each_partition_has_the_least_and_the_greatest_value_of_its_files(
    opened: tuple[hudi.HudiTable, MetadataTable],
) -> None:
    table, metadata = opened
    if not table.config.partition_fields:
        assert not metadata.has("partition_stats"), "a table without partitions has statistics of none"
        return
    everything = table.scan().to_arrow()
    found = metadata.partition_stats(["ts"], metadata.data_partitions())
    values: dict[str, list[Any]] = defaultdict(list)
    meta = pa.concat_tables([rows.select(["_hoodie_partition_path", "ts"]) for _, _, rows in _files(table, metadata)])
    for row in meta.to_pylist():
        values[row["_hoodie_partition_path"]].append(row["ts"])
    assert {one.partition for one in found} == set(values) == set(metadata.data_partitions())
    kind = everything.schema.field("ts").type
    for one in found:
        low, high, nulls, _ = _told(one, kind)
        inside = [value for value in values[one.partition] if value is not None]
        # Bounds widen with every commit and never shrink, so they are those of all files there ever were.
        assert low == min(inside), one
        assert high == max(inside), one
        assert nulls == 0
